//! Copies to, from and between arrays: every byte, and the refused calls.

mod common;

use common::{alone, begin, device, number, of_kind, pinned, stream, synchronize, with_truth};

const INVALID_VALUE: i32 = 1;
const INVALID_HANDLE: i32 = 400;

const FLOAT: u32 = 0x20;
const BYTE: u32 = 0x01;

/// Creates an array whose elements have this many channels.
fn array(size: [u64; 3], format: u32, channels: u32) -> u64 {
    let descriptor = [size[0], size[1], size[2], u64::from(format) | u64::from(channels) << 32, 0];
    let mut array = 0;
    ok!(cuArray3DCreate_v2(&mut array => &mut u64, descriptor.as_ptr() => *const u64));
    array
}

/// `CUDA_MEMCPY3D`: a side is x, y, z, level, memory type, host, device, array, context, pitch, height.
type Side = [u64; 11];

fn host(address: u64, pitch: u64, height: u64) -> Side {
    [0, 0, 0, 0, 1, address, 0, 0, 0, pitch, height]
}

fn of_array(array: u64, [x, y, z]: [u64; 3]) -> Side {
    [x, y, z, 0, 3, 0, 0, array, 0, 0, 0]
}

fn copy_3d(from: Side, to: Side, extent: [u64; 3]) -> i32 {
    let all = [&from[..], &to, &extent].concat();
    cu!(cuMemcpy3D_v2(all.as_ptr() => *const u64))
}

/// Host bytes that differ.
fn counting(bytes: usize) -> u64 {
    let address = pinned(bytes);
    // SAFETY: page-locked memory of ours.
    let all = unsafe { std::slice::from_raw_parts_mut(address as *mut u8, bytes) };
    all.iter_mut().enumerate().for_each(|(index, byte)| *byte = (index * 7) as u8);
    address
}

fn bytes(address: u64, count: usize) -> &'static [u8] {
    // SAFETY: page-locked memory of ours, never given back.
    unsafe { std::slice::from_raw_parts(address as *const u8, count) }
}

#[test]
fn bytes_survive_a_copy_to_a_one_dimensional_array_and_back() {
    let test = "bytes_survive_a_copy_to_a_one_dimensional_array_and_back";
    let body = || {
        begin();
        let (one, two) = (array([256, 0, 0], FLOAT, 1), array([128, 0, 0], FLOAT, 1));
        let (from, back, on_device, own) = (counting(1024), pinned(1024), device(1024), stream(1));
        ok!(cuMemcpyHtoAAsync_v2(one => u64, 0 => usize, from => u64, 1024 => usize, own => u64));
        synchronize(own);
        ok!(cuMemcpyAtoA_v2(two => u64, 4 => usize, one => u64, 8 => usize, 100 => usize));
        ok!(cuMemcpyAtoD_v2(on_device => u64, two => u64, 4 => usize, 100 => usize));
        ok!(cuMemcpyDtoA_v2(two => u64, 200 => usize, on_device => u64, 100 => usize));
        ok!(cuMemcpyAtoHAsync_v2(back => u64, two => u64, 200 => usize, 100 => usize, own => u64));
        synchronize(own);
        assert_eq!(bytes(back, 100), &bytes(from, 1024)[8..108]);
        let mut pageable = [0u8; 100];
        ok!(cuMemcpyAtoH_v2(pageable.as_mut_ptr() => *mut u8, two => u64, 4 => usize, 100 => usize));
        assert_eq!(&pageable[..], &bytes(from, 1024)[8..108]);
        ok!(cuMemcpyHtoA_v2(one => u64, 0 => usize, pageable.as_ptr() => *const u8, 100 => usize));
    };
    with_truth(test, &[], body, |truth| {
        let reported = |copy: &&serde_json::Value| {
            let text = |key: &str| copy[key].as_str().unwrap().to_owned();
            (text("api"), number(copy, "bytes"), text("direction"), text("host_memory"))
        };
        let copies: Vec<_> = of_kind(&truth, "copy").iter().map(reported).collect();
        let expected = [
            ("cuMemcpyHtoAAsync", 1024, "HtoD", "pinned"),
            ("cuMemcpyAtoA", 100, "DtoD", "none"),
            ("cuMemcpyAtoD", 100, "DtoD", "none"),
            ("cuMemcpyDtoA", 100, "DtoD", "none"),
            ("cuMemcpyAtoHAsync", 100, "DtoH", "pinned"),
            ("cuMemcpyAtoH", 100, "DtoH", "pageable"),
            ("cuMemcpyHtoA", 100, "HtoD", "pageable"),
        ];
        let expected = expected.map(|(api, bytes, direction, side)| {
            (api.to_owned(), bytes, direction.to_owned(), side.to_owned())
        });
        assert_eq!(copies, expected);
    });
}

#[test]
fn lines_are_copied_in_whole_elements_and_never_beyond_them() {
    alone("lines_are_copied_in_whole_elements_and_never_beyond_them", &[], || {
        begin();
        let (line, bytes, plane) =
            (array([64, 0, 0], FLOAT, 2), array([512, 0, 0], BYTE, 1), array([64, 4, 0], FLOAT, 2));
        let (from, on_device) = (counting(512), device(512));
        let to = |array: u64, at: usize, count: usize| cu!(cuMemcpyHtoA_v2(array => u64, at => usize, from => u64, count => usize));
        assert_eq!(to(line, 0, 512), 0);
        assert_eq!([to(line, 4, 8), to(line, 0, 12), to(line, 8, 512)], [INVALID_VALUE; 3]);
        assert_eq!((to(plane, 0, 8), to(0x1234, 0, 8)), (INVALID_VALUE, INVALID_HANDLE));
        let between = cu!(cuMemcpyAtoA_v2(bytes => u64, 0 => usize, line => u64, 0 => usize, 8 => usize));
        assert_eq!(between, INVALID_VALUE, "elements of other sizes");
        let unaligned = cu!(cuMemcpyAtoD_v2(on_device + 4 => u64, line => u64, 0 => usize, 8 => usize));
        assert_eq!(unaligned, INVALID_VALUE);
        ok!(cuArrayDestroy(line => u64));
        assert_eq!(to(line, 0, 8), INVALID_HANDLE);
    });
}

#[test]
fn boxes_are_copied_to_their_position_and_nowhere_else() {
    alone("boxes_are_copied_to_their_position_and_nowhere_else", &[], || {
        begin();
        let (solid, other) = (array([16, 8, 4], FLOAT, 1), array([16, 8, 4], FLOAT, 1));
        let (all, zeros, back) = (counting(2048), pinned(2048), pinned(2048));
        assert_eq!(copy_3d(host(zeros, 64, 8), of_array(other, [0; 3]), [64, 8, 4]), 0);
        assert_eq!(copy_3d(host(all, 64, 8), of_array(solid, [0; 3]), [64, 8, 4]), 0);
        let (from, to) = ([8, 2, 1], [16, 4, 2]);
        assert_eq!(copy_3d(of_array(solid, from), of_array(other, to), [24, 3, 2]), 0);
        assert_eq!(copy_3d(of_array(other, [0; 3]), host(back, 64, 8), [64, 8, 4]), 0);
        ok!(cuCtxSynchronize());
        for (index, &byte) in bytes(back, 2048).iter().enumerate() {
            let at = [index % 64, index / 64 % 8, index / 512];
            let moved = [(0, 24), (1, 3), (2, 2)]
                .iter()
                .all(|&(axis, extent)| (to[axis] as usize..to[axis] as usize + extent).contains(&at[axis]));
            let [x, y, z] =
                [0, 1, 2].map(|axis| (at[axis] + from[axis] as usize).wrapping_sub(to[axis] as usize));
            let expected = if moved { bytes(all, 2048)[x + y * 64 + z * 512] } else { 0 };
            assert_eq!(byte, expected, "{at:?}");
        }
        let beyond =
            [([0, 0, 0], [68, 1, 1]), ([0, 6, 0], [4, 3, 1]), ([0, 0, 3], [4, 1, 2]), ([2, 0, 0], [4, 1, 1])];
        for (at, extent) in beyond {
            assert_eq!(
                copy_3d(of_array(solid, at), host(back, 0, 0), extent),
                INVALID_VALUE,
                "{at:?} {extent:?}"
            );
        }
    });
}

#[test]
fn a_level_has_its_own_bytes_and_a_node_gives_its_array_back() {
    alone("a_level_has_its_own_bytes_and_a_node_gives_its_array_back", &[], || {
        let context = begin();
        let descriptor = [16u64, 16, 0, u64::from(FLOAT) | 1 << 32, 0];
        let (mut mipmap, mut levels) = (0u64, [0u64; 2]);
        ok!(cuMipmappedArrayCreate(&mut mipmap => &mut u64, descriptor.as_ptr() => *const u64, 2 => u32));
        for (index, level) in levels.iter_mut().enumerate() {
            ok!(cuMipmappedArrayGetLevel(level => &mut u64, mipmap => u64, index as u32 => u32));
        }
        let (all, back) = (counting(1024), pinned(1024));
        assert_eq!(copy_3d(host(all, 64, 16), of_array(levels[0], [0; 3]), [64, 16, 1]), 0);
        assert_eq!(copy_3d(host(all + 256, 32, 8), of_array(levels[1], [0; 3]), [32, 8, 1]), 0);
        assert_eq!(copy_3d(of_array(levels[0], [0; 3]), host(back, 64, 16), [64, 16, 1]), 0);
        assert_eq!(bytes(back, 1024), bytes(all, 1024));
        assert_eq!(copy_3d(of_array(levels[1], [0; 3]), host(back, 64, 16), [36, 8, 1]), INVALID_VALUE);

        let (mut graph, mut node) = (0u64, 0u64);
        ok!(cuGraphCreate(&mut graph => &mut u64, 0 => u32));
        let copy = [&of_array(levels[1], [4, 1, 0])[..], &host(back, 64, 16), &[8, 2, 1]].concat();
        ok!(cuGraphAddMemcpyNode(
            &mut node => &mut u64, graph => u64, std::ptr::null() => *const u64, 0 => usize,
            copy.as_ptr() => *const u64, context => u64
        ));
        let mut known = [0u64; 25];
        ok!(cuGraphMemcpyNodeGetParams(node => u64, &mut known => &mut [u64; 25]));
        assert_eq!((&known[..3], known[4] as u32, known[7]), (&[4u64, 1, 0][..], 3, levels[1]));
    });
}
