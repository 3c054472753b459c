//! Rules: the calls that the driver refuses, and their errors.

mod common;

use common::{
    Gate, alone, begin, device, error_name, event, kernel, launch, of_kind, pinned, stream, synchronize,
    try_launch, with_truth,
};
use std::ffi::CString;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};

const INVALID_VALUE: i32 = 1;
const OUT_OF_MEMORY: i32 = 2;
const NOT_INITIALIZED: i32 = 3;
const INVALID_DEVICE: i32 = 101;
const INVALID_CONTEXT: i32 = 201;
const INVALID_HANDLE: i32 = 400;
const NOT_FOUND: i32 = 500;
const NOT_READY: i32 = 600;
const NOT_PERMITTED: i32 = 800;

#[test]
fn nothing_works_before_init_and_nothing_but_context_calls_without_a_context() {
    alone("nothing_works_before_init_and_nothing_but_context_calls_without_a_context", &[], || {
        let mut count = 0;
        assert_eq!(cu!(cuDeviceGetCount(&mut count => &mut i32)), NOT_INITIALIZED);
        assert_eq!(cu!(cuInit(1 => u32)), INVALID_VALUE);
        ok!(cuInit(0 => u32));
        ok!(cuDeviceGetCount(&mut count => &mut i32));
        assert_eq!(count, 1);
        let mut any = 0u64;
        assert_eq!(cu!(cuStreamCreate(&mut any => &mut u64, 0 => u32)), INVALID_CONTEXT);
        assert_eq!(cu!(cuMemAlloc_v2(&mut any => &mut u64, 8 => usize)), INVALID_CONTEXT);
        assert_eq!(cu!(cuCtxSynchronize()), INVALID_CONTEXT);
        assert_eq!(cu!(cuDeviceGet(&mut count => &mut i32, 1 => i32)), INVALID_DEVICE);
        assert_eq!(cu!(cuCtxSetCurrent(0x1234 => u64)), INVALID_CONTEXT);
    });
}

#[test]
fn a_destroyed_objects_handle_is_reused() {
    let refused = [("SIMCUDA_ASSUME", "stale_handles=refused")];
    alone("a_destroyed_objects_handle_is_reused", &refused, || {
        begin();
        let (first, mut id) = (stream(1), 0u64);
        ok!(cuStreamGetId(first => u64, &mut id => &mut u64));
        ok!(cuStreamDestroy_v2(first => u64));
        assert_eq!(cu!(cuStreamSynchronize(first => u64)), INVALID_CONTEXT, "as an H200 says");
        assert_eq!(cu!(cuStreamDestroy_v2(first => u64)), INVALID_HANDLE);
        let (again, mut other) = (stream(1), 0u64);
        assert_eq!(again, first);
        ok!(cuStreamGetId(again => u64, &mut other => &mut u64));
        assert_ne!(other, id, "but the id is never used again");
        let event = event(0);
        ok!(cuEventDestroy_v2(event => u64));
        assert_eq!(cu!(cuEventRecord(event => u64, again => u64)), INVALID_HANDLE);
        assert_eq!(cu!(cuEventQuery(again => u64)), INVALID_HANDLE, "a stream is no event");
        assert_eq!(try_launch(event, again, 0), INVALID_HANDLE);
    });
}

#[test]
fn the_use_of_a_destroyed_event_ends_the_process() {
    const USE: &str = "SIMCUDA_TEST_CRASHES";
    type Use = fn(u64) -> i32;
    let uses: [(&str, Use); 4] = [
        ("query", |event| cu!(cuEventQuery(event => u64))),
        ("destroy", |event| cu!(cuEventDestroy_v2(event => u64))),
        ("wait", |event| cu!(cuStreamWaitEvent(0 => u64, event => u64, 0 => u32))),
        ("node", |event| {
            let (mut graph, mut node, none) = (0, 0, std::ptr::null::<u64>());
            ok!(cuGraphCreate(&mut graph => &mut u64, 0 => u32));
            cu!(cuGraphAddEventRecordNode(
                &mut node => &mut u64, graph => u64, none => *const u64, 0 => usize, event => u64
            ))
        }),
    ];
    if let Ok(name) = std::env::var(USE) {
        begin();
        let event = event(0);
        ok!(cuEventDestroy_v2(event => u64));
        let (_, use_it) = uses.into_iter().find(|(known, _)| *known == name).unwrap();
        use_it(event);
        return;
    }
    for (name, _) in uses {
        let mut itself = Command::new(std::env::current_exe().unwrap());
        itself.args(["the_use_of_a_destroyed_event_ends_the_process", "--exact"]).env(USE, name);
        assert_eq!(itself.output().unwrap().status.signal(), Some(libc::SIGABRT), "{name}");
    }
}

#[test]
fn contexts_do_not_share_streams_events_or_modules() {
    alone("contexts_do_not_share_streams_events_or_modules", &[("SIMCUDA_DEVICES", "2")], || {
        begin();
        let (own_stream, own_event, own_kernel) = (stream(1), event(0), kernel("k_1us"));
        ok!(cuEventRecord(own_event => u64, own_stream => u64));
        let mut other = 0u64;
        ok!(cuCtxCreate_v2(&mut other => &mut u64, 0 => u32, 1 => i32));
        let (stream_2, event_2) = (stream(1), event(0));
        assert_eq!(
            try_launch(own_kernel, own_stream, 0),
            INVALID_HANDLE,
            "a launch on another context's stream"
        );
        assert_eq!(try_launch(own_kernel, stream_2, 0), INVALID_CONTEXT, "another context's function");
        assert_eq!(cu!(cuEventRecord(own_event => u64, stream_2 => u64)), INVALID_HANDLE);
        ok!(cuEventRecord(event_2 => u64, stream_2 => u64));
        ok!(cuStreamWaitEvent(stream_2 => u64, own_event => u64, 0 => u32));
        ok!(cuEventSynchronize(own_event => u64));
        synchronize(stream_2);
        let mut time = 0f32;
        let result = cu!(cuEventElapsedTime(&mut time => &mut f32, own_event => u64, event_2 => u64));
        assert_eq!(result, INVALID_HANDLE);
        ok!(cuCtxDestroy_v2(other => u64));
        assert_eq!(cu!(cuStreamQuery(stream_2 => u64)), INVALID_CONTEXT, "gone with its context");
        let mut current = 0u64;
        ok!(cuCtxGetCurrent(&mut current => &mut u64));
        assert_ne!(current, other, "a destroyed context is popped");
        synchronize(own_stream);
    });
}

#[test]
fn a_context_that_is_current_elsewhere_is_known_to_be_destroyed() {
    alone("a_context_that_is_current_elsewhere_is_known_to_be_destroyed", &[], || {
        let primary = begin();
        let thread = std::thread::spawn(move || {
            ok!(cuCtxSetCurrent(primary => u64));
            ok!(cuDevicePrimaryCtxReset_v2(0 => i32));
            cu!(cuCtxSynchronize())
        });
        assert_eq!(error_name(thread.join().unwrap()), "CUDA_ERROR_CONTEXT_IS_DESTROYED");
        assert_eq!(error_name(cu!(cuCtxSynchronize())), "CUDA_ERROR_CONTEXT_IS_DESTROYED");
        let state = || {
            let (mut flags, mut active) = (0, 0);
            ok!(cuDevicePrimaryCtxGetState(0 => i32, &mut flags => &mut u32, &mut active => &mut i32));
            active
        };
        assert_eq!(state(), 0);
        begin();
        ok!(cuCtxSynchronize());
        // A reset releases nothing: retained twice by now.
        ok!(cuDevicePrimaryCtxRelease_v2(0 => i32));
        assert_eq!(state(), 1);
        ok!(cuDevicePrimaryCtxRelease_v2(0 => i32));
        assert_eq!(state(), 0);
        assert_eq!(cu!(cuDevicePrimaryCtxRelease_v2(0 => i32)), INVALID_CONTEXT, "not retained any more");
    });
}

#[test]
fn events_fail_as_cuda_h_says() {
    alone("events_fail_as_cuda_h_says", &[], || {
        begin();
        let stream = stream(1);
        let (start, end, untimed) = (event(0), event(0), event(2));
        let elapsed = |start: u64, end: u64| {
            let mut time = 0f32;
            cu!(cuEventElapsedTime_v2(&mut time => &mut f32, start => u64, end => u64))
        };
        ok!(cuEventQuery(start => u64));
        ok!(cuEventSynchronize(start => u64));
        assert_eq!(elapsed(start, end), INVALID_HANDLE, "never recorded");
        let gate = Gate::close(&[stream]);
        for event in [start, end, untimed] {
            ok!(cuEventRecord(event => u64, stream => u64));
        }
        assert_eq!(cu!(cuEventQuery(end => u64)), NOT_READY);
        assert_eq!(elapsed(start, end), NOT_READY);
        gate.open();
        ok!(cuEventSynchronize(untimed => u64));
        assert_eq!(elapsed(start, end), 0);
        assert_eq!(elapsed(start, untimed), INVALID_HANDLE, "no timing");
        let mut wrong = 0u64;
        assert_eq!(
            cu!(cuEventCreate(&mut wrong => &mut u64, 4 => u32)),
            INVALID_VALUE,
            "interprocess with timing"
        );
    });
}

#[test]
fn launches_are_checked() {
    alone("launches_are_checked", &[], || {
        begin();
        let work = kernel("k_1us");
        let launch = |grid: u32, block: u32, shared: u32| {
            let null = std::ptr::null::<u64>();
            cu!(cuLaunchKernel(
                work => u64, grid => u32, 1 => u32, 1 => u32, block => u32, 1 => u32, 1 => u32, shared => u32,
                0 => u64, null => *const u64, null => *const u64
            ))
        };
        assert_eq!(launch(1, 1024, 0), 0);
        assert_eq!(launch(0, 1, 0), INVALID_VALUE);
        assert_eq!(launch(1, 1025, 0), INVALID_VALUE);
        assert_eq!(launch(1, 1, 1 << 20), INVALID_VALUE);
        let text =
            CString::new(".version 8.0\n.visible .entry there() { ret; }\n.global .b8 room[12];\n").unwrap();
        let (mut module, mut found) = (0u64, 0u64);
        ok!(cuModuleLoadData(&mut module => &mut u64, text.as_ptr() => *const i8));
        let name = |name: &str| CString::new(name).unwrap();
        let mut get = |what: &str| cu!(cuModuleGetFunction(&mut found => &mut u64, module => u64, name(what).as_ptr() => *const i8));
        assert_eq!((get("there"), get("absent")), (0, NOT_FOUND));
        let (mut address, mut bytes) = (0u64, 0usize);
        ok!(cuModuleGetGlobal_v2(
            &mut address => &mut u64, &mut bytes => &mut usize, module => u64, name("room").as_ptr() => *const i8
        ));
        assert_eq!(bytes, 12);
        let mut reported = std::ptr::null::<i8>();
        ok!(cuFuncGetName(&mut reported => &mut *const i8, found => u64));
        // SAFETY: a C string of the library's.
        assert_eq!(unsafe { std::ffi::CStr::from_ptr(reported) }, c"there");
        ok!(cuModuleUnload(module => u64));
        assert_eq!(try_launch(found, 0, 0), INVALID_HANDLE, "gone with its module");
    });
}

#[test]
fn a_kernel_of_a_library_is_launched_in_any_context_by_its_own_handle() {
    alone("a_kernel_of_a_library_is_launched_in_any_context_by_its_own_handle", &[], || {
        begin();
        let text = CString::new(".version 8.0\n.entry k_2us(.param .u64 a) { ret; }\n.entry l() { ret; }\n")
            .unwrap();
        let (mut library, mut kernel, mut function, mut count) = (0u64, 0u64, 0u64, 0u32);
        let null = std::ptr::null::<u64>();
        ok!(cuLibraryLoadData(
            &mut library => &mut u64, text.as_ptr() => *const i8, null => *const u64, null => *const u64, 0 => u32,
            null => *const u64, null => *const u64, 0 => u32
        ));
        ok!(cuLibraryGetKernelCount(&mut count => &mut u32, library => u64));
        assert_eq!(count, 2);
        ok!(cuLibraryGetKernel(&mut kernel => &mut u64, library => u64, c"k_2us".as_ptr() => *const i8));
        launch(kernel, 0, 0);
        ok!(cuKernelGetFunction(&mut function => &mut u64, kernel => u64));
        assert_ne!(function, kernel);
        launch(function, 0, 0);
        let (mut offset, mut size) = (9usize, 0usize);
        ok!(cuKernelGetParamInfo(kernel => u64, 0 => usize, &mut offset => &mut usize, &mut size => &mut usize));
        assert_eq!((offset, size), (0, 8));
        let mut other = 0u64;
        ok!(cuCtxCreate_v2(&mut other => &mut u64, 0 => u32, 0 => i32));
        launch(kernel, 0, 0);
        assert_eq!(try_launch(function, 0, 0), INVALID_CONTEXT, "but the function is the first context's");
        ok!(cuLibraryUnload(library => u64));
        assert_eq!(try_launch(kernel, 0, 0), INVALID_HANDLE);
    });
}

#[test]
fn memory_is_counted_and_known_by_address() {
    alone("memory_is_counted_and_known_by_address", &[], || {
        begin();
        let (mut free, mut total) = (0usize, 0usize);
        ok!(cuMemGetInfo_v2(&mut free => &mut usize, &mut total => &mut usize));
        assert_eq!((free, total), (80 << 30, 80 << 30));
        let memory = device(1 << 30);
        ok!(cuMemGetInfo_v2(&mut free => &mut usize, &mut total => &mut usize));
        assert_eq!(free, 79 << 30);
        let mut any = 0u64;
        assert_eq!(cu!(cuMemAlloc_v2(&mut any => &mut u64, 80 << 30 => usize)), OUT_OF_MEMORY);
        assert_eq!(cu!(cuMemAlloc_v2(&mut any => &mut u64, 0 => usize)), INVALID_VALUE);
        let (mut first, mut bytes) = (0u64, 0usize);
        ok!(cuMemGetAddressRange_v2(&mut first => &mut u64, &mut bytes => &mut usize, memory + 77 => u64));
        assert_eq!((first, bytes), (memory, 1 << 30));
        let kind = |address: u64| {
            let mut kind = 0u32;
            let result = cu!(cuPointerGetAttribute(&mut kind => &mut u32, 2 => u32, address => u64));
            (result, kind)
        };
        assert_eq!(
            (kind(memory), kind(pinned(8)), kind(&any as *const u64 as u64)),
            ((0, 2), (0, 1), (1, 0))
        );
        assert_eq!(cu!(cuMemFree_v2(memory + 8 => u64)), INVALID_VALUE);
        ok!(cuMemFree_v2(memory => u64));
        assert_eq!(cu!(cuMemFree_v2(memory => u64)), INVALID_VALUE);
        ok!(cuMemFree_v2(0 => u64));
        assert_eq!(cu!(cuMemsetD8_v2(memory => u64, 1 => u8, 8 => usize)), INVALID_VALUE, "freed");
    });
}

#[test]
fn copies_and_memsets_move_exactly_their_bytes() {
    alone("copies_and_memsets_move_exactly_their_bytes", &[], || {
        begin();
        let bytes = 3 << 20;
        let source: Vec<u8> = (0..bytes).map(|byte| (byte % 251) as u8).collect();
        let mut back = vec![0u8; bytes];
        let (one, two) = (device(bytes), device(bytes));
        let stream = stream(1);
        ok!(cuMemcpyHtoD_v2(one => u64, source.as_ptr() => *const u8, bytes => usize));
        ok!(cuMemcpyDtoDAsync_v2(two => u64, one => u64, bytes => usize, stream => u64));
        ok!(cuMemsetD32Async(two => u64, 0x01020304 => u32, 2 => usize, stream => u64));
        ok!(cuMemcpyDtoHAsync_v2(back.as_mut_ptr() => *mut u8, two => u64, bytes => usize, stream => u64));
        synchronize(stream);
        assert_eq!(back[..8], [4, 3, 2, 1, 4, 3, 2, 1]);
        assert!(back[8..] == source[8..]);
        // Pageable memory is read before the call returns.
        let mut small = [7u8; 64];
        let gate = Gate::close(&[stream]);
        ok!(cuMemcpyHtoDAsync_v2(one => u64, small.as_ptr() => *const u8, 64 => usize, stream => u64));
        small.fill(9);
        gate.open();
        ok!(cuMemcpyDtoHAsync_v2(back.as_mut_ptr() => *mut u8, one => u64, 64 => usize, stream => u64));
        assert_eq!((back[0], back[63], small[0]), (7, 7, 9));
        // A copy whose call names no direction.
        ok!(cuMemcpy(two => u64, one => u64, 64 => usize));
        ok!(cuMemcpy(back.as_mut_ptr() as u64 + 64 => u64, two => u64, 64 => usize));
        assert_eq!(back[64..128], [7; 64]);
        let beyond = cu!(cuMemcpyHtoD_v2(one + 8 => u64, source.as_ptr() => *const u8, bytes => usize));
        assert_eq!(beyond, INVALID_VALUE);
        let host = cu!(cuMemcpyDtoD_v2(one => u64, source.as_ptr() => *const u8, 8 => usize));
        assert_eq!(host, INVALID_VALUE, "pageable memory is no device memory");
    });
}

#[test]
fn stream_ordered_memory_is_reused_in_stream_order() {
    alone("stream_ordered_memory_is_reused_in_stream_order", &[], || {
        begin();
        let (one, two) = (stream(1), stream(1));
        let alloc = |stream: u64| {
            let mut address = 0u64;
            ok!(cuMemAllocAsync(&mut address => &mut u64, 1000 => usize, stream => u64));
            address
        };
        let first = alloc(one);
        let gate = Gate::close(&[one]);
        ok!(cuMemFreeAsync(first => u64, one => u64));
        assert_eq!(cu!(cuMemFreeAsync(first => u64, one => u64)), INVALID_VALUE, "freed already");
        assert_ne!(alloc(two), first, "the free is not done");
        assert_eq!(alloc(one), first, "but ordered before this stream's next work");
        gate.open();
        let mut pool = 0u64;
        ok!(cuDeviceGetDefaultMemPool(&mut pool => &mut u64, 0 => i32));
        let mut used = 0u64;
        ok!(cuMemPoolGetAttribute(pool => u64, 7 => u32, &mut used => &mut u64));
        assert_eq!(used, 2048);
        assert_eq!(cu!(cuMemPoolDestroy(pool => u64)), INVALID_VALUE, "the default pool stays");
    });
}

#[test]
fn a_call_can_be_made_to_fail() {
    with_truth(
        "a_call_can_be_made_to_fail",
        &[("SIMCUDA_FAIL", "cuMemAlloc:2:2,cuStreamCreate:719:*")],
        || {
            begin();
            let mut any = 0u64;
            let mut alloc = || cu!(cuMemAlloc_v2(&mut any => &mut u64, 8 => usize));
            assert_eq!([alloc(), alloc(), alloc()], [0, OUT_OF_MEMORY, 0]);
            for _ in 0..3 {
                assert_eq!(cu!(cuStreamCreate(&mut any => &mut u64, 0 => u32)), 719);
            }
        },
        |truth| {
            let failed: Vec<_> = of_kind(&truth, "failed")
                .iter()
                .map(|line| (line["api"].clone(), line["result"].clone()))
                .collect();
            assert_eq!(failed.len(), 4);
            assert_eq!(failed[0], ("cuMemAlloc".into(), 2.into()));
            assert_eq!(of_kind(&truth, "alloc").len(), 2);
        },
    );
}

extern "C" fn late() {
    assert_eq!(cu!(cuCtxSynchronize()), 4);
    // SAFETY: leaves at once: the harness never sees what happens in here, only the code.
    unsafe { libc::_exit(0) };
}

#[test]
fn the_driver_is_deinitialised_when_its_exit_handler_has_run() {
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["exit_handlers_run_in_reverse", "--exact", "--nocapture"])
        .env("SIMCUDA_TEST_EXIT", "1")
        .output()
        .unwrap();
    assert!(String::from_utf8_lossy(&output.stdout).contains("READY"));
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Does its work only as the child of the test above: the handler registered before cuInit runs after the driver's.
#[test]
fn exit_handlers_run_in_reverse() {
    if std::env::var_os("SIMCUDA_TEST_EXIT").is_none() {
        return;
    }
    extern "C" fn abort_unless_over() {
        if std::panic::catch_unwind(|| late()).is_err() {
            // SAFETY: leaves at once.
            unsafe { libc::_exit(9) };
        }
    }
    // SAFETY: a handler without preconditions.
    assert_eq!(unsafe { libc::atexit(abort_unless_over) }, 0);
    begin();
    println!("READY");
    // SAFETY: runs the exit handlers, which is the point.
    unsafe { libc::exit(8) };
}

#[test]
fn a_forked_child_has_no_driver_and_writes_no_truth_twice() {
    with_truth(
        "a_forked_child_has_no_driver_and_writes_no_truth_twice",
        &[],
        || {
            begin();
            launch(kernel("k_1us"), 0, 0);
            // SAFETY: the child calls nothing but the driver's refusal and exit.
            let child = unsafe { libc::fork() };
            if child == 0 {
                let refused = cu!(cuCtxSynchronize()) == NOT_INITIALIZED;
                // SAFETY: runs the exit handlers, the driver's among them.
                unsafe { libc::exit(if refused { 0 } else { 1 }) };
            }
            let mut status = -1;
            // SAFETY: our own child.
            assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
            assert_eq!(status, 0);
        },
        |truth| assert_eq!(of_kind(&truth, "kernel").len(), 1),
    );
}

#[test]
fn assumptions_are_listed() {
    alone("assumptions_are_listed", &[], || {
        // SAFETY: the export's own signature.
        let list: extern "C" fn() -> *const i8 =
            unsafe { std::mem::transmute(common::symbol("simcudaAssumptions")) };
        // SAFETY: a C string of the library's.
        let text = unsafe { std::ffi::CStr::from_ptr(list()) }.to_str().unwrap();
        assert!(text.lines().count() > 15 && text.contains("submit=end  (end|begin)"), "{text}");
    });
}

#[test]
fn assumptions_can_be_set_to_their_alternatives() {
    let assume =
        [("SIMCUDA_ASSUME", "free=returns,load_waits=no,event_needs_context=yes,null_sync=own,submit=begin")];
    alone("assumptions_can_be_set_to_their_alternatives", &assume, || {
        begin();
        let (stream, mark, memory) = (stream(0), event(0), device(64));
        let gate = Gate::close(&[stream]);
        ok!(cuMemFree_v2(memory => u64));
        kernel("k_1us");
        ok!(cuStreamSynchronize(0 => u64));
        gate.open();
        synchronize(stream);
        ok!(cuCtxSetCurrent(0 => u64));
        assert_eq!(cu!(cuEventQuery(mark => u64)), INVALID_CONTEXT);
    });
}

#[test]
fn loading_a_module_waits_for_the_work_of_its_context() {
    alone("loading_a_module_waits_for_the_work_of_its_context", &[], || {
        begin();
        let (stream, end, long) = (stream(1), event(2), kernel("long_20ms"));
        launch(long, stream, 0);
        ok!(cuEventRecord(end => u64, stream => u64));
        kernel("loaded_1us");
        assert_eq!(cu!(cuEventQuery(end => u64)), 0, "the kernel is over");
    });
}

#[test]
fn a_graph_and_its_executable_graphs_keep_a_user_object() {
    static DESTROYED: AtomicU64 = AtomicU64::new(0);
    extern "C-unwind" fn destroy(pointer: u64) {
        let mut any = 0u64;
        assert_eq!(cu!(cuMemAlloc_v2(&mut any => &mut u64, 8 => usize)), NOT_PERMITTED);
        DESTROYED.store(pointer, Ordering::Release);
    }
    alone("a_graph_and_its_executable_graphs_keep_a_user_object", &[], || {
        begin();
        let (mut object, mut graph, mut exec) = (0u64, 0u64, 0u64);
        let destructor: extern "C-unwind" fn(u64) = destroy;
        assert_eq!(
            cu!(cuUserObjectCreate(&mut object => &mut u64, 7 => u64, destructor => extern "C-unwind" fn(u64), 0 => u32, 1 => u32)),
            INVALID_VALUE
        );
        ok!(cuUserObjectCreate(&mut object => &mut u64, 7 => u64, destructor => extern "C-unwind" fn(u64), 2 => u32, 1 => u32));
        ok!(cuUserObjectRelease(object => u64, 1 => u32));
        ok!(cuGraphCreate(&mut graph => &mut u64, 0 => u32));
        // Moved: the application has no reference left.
        ok!(cuGraphRetainUserObject(graph => u64, object => u64, 1 => u32, 1 => u32));
        assert_eq!(cu!(cuUserObjectRelease(object => u64, 1 => u32)), INVALID_VALUE);
        assert_eq!(cu!(cuGraphReleaseUserObject(graph => u64, object => u64, 2 => u32)), INVALID_VALUE);
        ok!(cuGraphInstantiateWithFlags(&mut exec => &mut u64, graph => u64, 0 => u64));
        ok!(cuGraphDestroy(graph => u64));
        std::thread::sleep(std::time::Duration::from_millis(20));
        assert_eq!(DESTROYED.load(Ordering::Acquire), 0);
        ok!(cuGraphExecDestroy(exec => u64));
        while DESTROYED.load(Ordering::Acquire) != 7 {
            std::thread::yield_now();
        }
        assert_eq!(cu!(cuUserObjectRetain(object => u64, 1 => u32)), INVALID_VALUE);
    });
}
