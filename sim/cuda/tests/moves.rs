//! Batches of copies, managed memory, and the linker: what they do, and the refused calls.

mod common;

use common::{alone, begin, device, number, of_kind, pinned, stream, synchronize, with_truth};

const INVALID_VALUE: i32 = 1;
const INVALID_DEVICE: i32 = 101;
const INVALID_HANDLE: i32 = 400;
const CAPTURE_UNSUPPORTED: i32 = 900;

/// `CUmemcpyAttributes`: in stream order, no hints, no flags.
const IN_ORDER: [u32; 6] = [1, 0, 0, 0, 0, 0];

fn batch(
    to: &[u64],
    from: &[u64],
    sizes: &[usize],
    starts: &[usize],
    order: u32,
    stream: u64,
) -> (i32, usize) {
    let attributes: Vec<u32> = starts.iter().flat_map(|_| [order, 0, 0, 0, 0, 0]).collect();
    let mut failed = 77;
    let result = cu!(cuMemcpyBatchAsync(
        to.as_ptr() => *const u64, from.as_ptr() => *const u64, sizes.as_ptr() => *const usize, to.len() => usize,
        attributes.as_ptr() => *const u32, starts.as_ptr() => *const usize, starts.len() => usize,
        &mut failed => &mut usize, stream => u64
    ));
    (result, failed)
}

#[test]
fn a_batch_is_one_copy_and_every_byte_of_it_arrives() {
    let test = "a_batch_is_one_copy_and_every_byte_of_it_arrives";
    let body = || {
        begin();
        let (host, on_device, own) = (pinned(4096), device(4096), stream(1));
        // SAFETY: page-locked memory of ours.
        unsafe { std::slice::from_raw_parts_mut(host as *mut u8, 4096) }.fill(9);
        let (to, from) = ([on_device, on_device + 1000], [host, host + 2000]);
        assert_eq!(batch(&to, &from, &[100, 200], &[0], 1, own), (0, usize::MAX));
        synchronize(own);
        let mut back = [0u8; 1200];
        ok!(cuMemcpyDtoH_v2(back.as_mut_ptr() => *mut u8, on_device => u64, 1200 => usize));
        assert!(
            back[..100].iter().chain(&back[1000..]).all(|byte| *byte == 9)
                && back[100..1000].iter().all(|b| *b == 0)
        );
    };
    with_truth(test, &[], body, |truth| {
        let copies = of_kind(&truth, "copy");
        assert_eq!(copies.len(), 2, "the batch, and the copy back");
        assert_eq!((number(copies[0], "bytes"), copies[0]["direction"].as_str()), (300, Some("HtoD")));
    });
}

#[test]
fn a_batch_is_refused_as_a_whole() {
    alone("a_batch_is_refused_as_a_whole", &[], || {
        begin();
        let (host, on_device, own) = (pinned(4096), device(4096), stream(1));
        let (to, from, sizes) = ([on_device, on_device + 1000], [host, host + 2000], [100, 200]);
        assert_eq!(batch(&to, &from, &sizes, &[0], 1, 0).0, INVALID_VALUE, "the legacy stream");
        assert_eq!(batch(&to, &from, &sizes, &[0], 4, own), (INVALID_VALUE, 0), "no such order");
        assert_eq!(batch(&to, &from, &[100, 4000], &[0], 1, own), (INVALID_VALUE, 1), "beyond its memory");
        for starts in [&[1][..], &[0, 0], &[0, 2], &[0, 1, 1]] {
            assert_eq!(batch(&to, &from, &sizes, starts, 1, own).0, INVALID_VALUE, "{starts:?}");
        }
        let copy = |attributes: *const u32| {
            cu!(cuMemcpyWithAttributesAsync(
                on_device => u64, host => u64, 8 => usize, attributes => *const u32, own => u64
            ))
        };
        assert_eq!((copy(std::ptr::null()), copy(IN_ORDER.as_ptr())), (INVALID_VALUE, 0));
    });
}

fn capture(body: impl FnOnce(u64)) -> i32 {
    let own = stream(1);
    ok!(cuStreamBeginCapture_v2(own => u64, 2 => u32));
    body(own);
    let mut graph = 0;
    cu!(cuStreamEndCapture(own => u64, &mut graph => &mut u64))
}

#[test]
fn a_batch_in_a_capture_is_refused_or_becomes_one_node_per_copy() {
    let test = "a_batch_in_a_capture_is_refused_or_becomes_one_node_per_copy";
    for (assumed, (result, end)) in
        [("batch_in_capture=refused", (CAPTURE_UNSUPPORTED, 0)), ("batch_in_capture=copied", (0, 0))]
    {
        alone(test, &[("SIMCUDA_ASSUME", assumed)], || {
            if std::env::var("SIMCUDA_ASSUME").unwrap() != assumed {
                return;
            }
            begin();
            let (host, on_device) = (pinned(64), device(64));
            let ended = capture(|own| {
                assert_eq!(batch(&[on_device; 2], &[host; 2], &[8, 8], &[0], 1, own).0, result);
            });
            assert_eq!(ended, end);
        });
    }
}

#[test]
fn only_managed_memory_is_prefetched_and_never_in_a_capture() {
    let test = "only_managed_memory_is_prefetched_and_never_in_a_capture";
    let body = || {
        begin();
        let mut managed = 0;
        ok!(cuMemAllocManaged(&mut managed => &mut u64, 4096 => usize, 1 => u32));
        let own = stream(1);
        let prefetch = |address: u64, bytes: usize, to: i32, stream: u64| cu!(cuMemPrefetchAsync(address => u64, bytes => usize, to => i32, stream => u64));
        assert_eq!(prefetch(device(64), 64, 0, own), INVALID_VALUE);
        assert_eq!(prefetch(managed, 4097, 0, own), INVALID_VALUE);
        assert_eq!(prefetch(managed, 4096, 7, own), INVALID_DEVICE);
        assert_eq!(capture(|own| assert_eq!(prefetch(managed, 8, 0, own), CAPTURE_UNSUPPORTED)), 901);
        assert_eq!((prefetch(managed, 4096, 0, own), prefetch(managed, 96, -1, own)), (0, 0));
        // An allocation is attached as a whole.
        let attach = |bytes: usize, stream: u64| cu!(cuStreamAttachMemAsync(stream => u64, managed => u64, bytes => usize, 4 => u32));
        assert_eq!((attach(8, own), attach(0, 0), attach(0, own)), (INVALID_VALUE, INVALID_VALUE, 0));
        synchronize(own);
    };
    with_truth(test, &[], body, |truth| {
        let copies = of_kind(&truth, "copy");
        let reported: Vec<_> =
            copies.iter().map(|c| (c["direction"].as_str().unwrap(), number(c, "bytes"))).collect();
        assert_eq!(reported, [("HtoD", 4096), ("DtoH", 96)]);
        assert!(copies.iter().all(|copy| copy["host_memory"] == "managed"));
    });
}

#[test]
fn a_link_is_complete_once_and_its_image_loads() {
    alone("a_link_is_complete_once_and_its_image_loads", &[], || {
        begin();
        let none = std::ptr::null::<u32>();
        let (mut link, mut image, mut bytes, mut module) = (0, std::ptr::null::<u8>(), 0, 0);
        ok!(cuLinkCreate_v2(0 => u32, none => *const u32, none => *const u32, &mut link => &mut u64));
        let mut complete = |link: u64| cu!(cuLinkComplete(link => u64, &mut image => &mut *const u8, &mut bytes => &mut usize));
        assert_eq!(complete(link), 200, "nothing in it");
        let text = c".version 8.0\n.visible .entry linked_1us() { ret; }\n";
        let add = |kind: u32| {
            cu!(cuLinkAddData_v2(
                link => u64, kind => u32, text.as_ptr() => *const i8, text.count_bytes() + 1 => usize,
                c"one".as_ptr() => *const i8, 0 => u32, none => *const u32, none => *const u32
            ))
        };
        assert_eq!((add(2), add(1)), (200, 0), "PTX only");
        assert_eq!((complete(link), complete(link), add(1)), (0, INVALID_HANDLE, INVALID_HANDLE));
        ok!(cuModuleLoadData(&mut module => &mut u64, image => *const u8));
        ok!(cuLinkDestroy(link => u64));
        assert_eq!(cu!(cuLinkDestroy(link => u64)), INVALID_HANDLE);
    });
}
