//! Kernels that fail: calls in their context return their error, work behind them does not run, and other contexts go on.

mod common;

use common::{alone, begin, event, kernel, launch, of_kind, stream, try_launch, with_truth};

const ILLEGAL_ADDRESS: i32 = 700;
const ASSERT: i32 = 710;

fn synchronized(stream: u64) -> i32 {
    cu!(cuStreamSynchronize(stream => u64))
}

fn allocated() -> i32 {
    let mut address = 0;
    cu!(cuMemAlloc_v2(&mut address => &mut u64, 64 => usize))
}

#[test]
fn a_kernel_that_fails_ends_the_work_of_its_context() {
    with_truth(
        "a_kernel_that_fails_ends_the_work_of_its_context",
        &[],
        || {
            begin();
            let (stream, done) = (stream(1), event(0));
            let [before, fails, behind] = ["before_20us", "k_fault700_50ms", "behind_20us"].map(kernel);
            launch(before, stream, 0);
            launch(behind, stream, 0);
            assert_eq!(synchronized(stream), 0);
            launch(fails, stream, 0);
            launch(behind, stream, 0);
            ok!(cuEventRecord(done => u64, stream => u64));
            assert_eq!(synchronized(stream), ILLEGAL_ADDRESS);
            assert_eq!(
                cu!(cuEventQuery(done => u64)),
                ILLEGAL_ADDRESS,
                "what is behind it does not complete"
            );
            assert_eq!(cu!(cuEventSynchronize(done => u64)), ILLEGAL_ADDRESS);
            assert_eq!(cu!(cuCtxSynchronize()), ILLEGAL_ADDRESS);
            assert_eq!(try_launch(before, stream, 0), ILLEGAL_ADDRESS);
            assert_eq!(allocated(), ILLEGAL_ADDRESS);
        },
        |truth| {
            let kernels = of_kind(&truth, "kernel");
            let ran = |name: &str| {
                let of_name = kernels.iter().filter(|kernel| kernel["name"] == name);
                of_name.map(|kernel| kernel["end"].is_number()).collect::<Vec<_>>()
            };
            assert_eq!((ran("before_20us"), ran("k_fault700_50ms")), (vec![true], vec![true]));
            assert_eq!(ran("behind_20us"), [true, false]);
            assert_eq!(of_kind(&truth, "sync").len(), 1, "the others failed");
        },
    );
}

#[test]
fn another_context_works_and_so_does_a_new_one() {
    alone("another_context_works_and_so_does_a_new_one", &[("SIMCUDA_DEVICES", "2")], || {
        let first = begin();
        let mut second = 0;
        ok!(cuDevicePrimaryCtxRetain(&mut second => &mut u64, 1 => i32));
        launch(kernel("k_fault710_1us"), 0, 0);
        assert_eq!(cu!(cuCtxSynchronize()), ASSERT);
        ok!(cuCtxSetCurrent(second => u64));
        assert_eq!(allocated(), 0);
        ok!(cuCtxSetCurrent(first => u64));
        assert_eq!(allocated(), ASSERT);
        ok!(cuDevicePrimaryCtxReset_v2(0 => i32));
        ok!(cuDevicePrimaryCtxRetain(&mut second => &mut u64, 0 => i32));
        ok!(cuCtxSetCurrent(second => u64));
        assert_eq!(allocated(), 0);
    });
}
