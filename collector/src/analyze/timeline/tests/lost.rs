//! Time in which records may be lost: it is neither idle nor busy, and what was lost may run on after it.

use super::*;
use crate::trace::record::Names;

/// Host ns in which records may be lost.
const LOST: (i64, i64) = (200, 600);

/// Returns what is found of these operations, each on its stream, if the program waited for the context at host ns 650, or did not.
fn swept(operations: &[(u64, u64, GpuInterval)], waits: bool) -> DeviceTime {
    let names = Names::default();
    let lost = [LOST].into_iter().collect();
    let recorded = Recorded { names: &names, thread_times: Arc::default(), lost, status: None };
    let mut timelines = Timelines::over(Period::default(), [recorded]);
    let at = |at| Record { at, ..record() };
    for (n, (called, stream, ran)) in operations.iter().enumerate() {
        if waits && *called > 650 {
            let drained = Drained { context: 1, stream: None, issued_before: 640, by: 650 };
            take(&mut timelines, &Event { drained: vec![drained], ..Event::new(&at(650)) });
        }
        let one = operation(n as u64, *stream, KERNEL, When::Timed(GpuInterval { off_by: Some(0), ..*ran }));
        let one = Operation { called: *called, returned: *called, ..one };
        take(&mut timelines, &Event { operation: Some(one), ..Event::new(&at(*called)) });
    }
    timelines.by_device(2_000).remove(&Some(0)).unwrap_or_default()
}

fn parts(device: &DeviceTime) -> [u64; 3] {
    let identity = &device.identity;
    [identity.busy[0].value, identity.idle.value, identity.undecided.value]
}

/// A program that launched all the time was certainly idle for as long as its records were lost, and its host was said to have been
/// outside CUDA.
#[test]
fn time_in_which_records_are_lost_is_not_idle() {
    let device =
        swept(&[(0, 7, exactly(0, 100)), (690, 7, exactly(700, 800)), (890, 7, exactly(900, 950))], false);
    assert_eq!(parts(&device), [250, 200, 500], "until the next operation of its stream");
    let identity = &device.identity;
    assert_eq!(identity.idle, Sum { value: 200, lo: 200, hi: 700 });
    assert_eq!(identity.busy[0], Sum { value: 250, lo: 250, hi: 750 });
    assert_eq!(identity.busy[Class::Copy as usize].hi, 500, "copies may have been lost");
    let gaps = device.gaps.finish(identity.idle.hi);
    let found: Vec<_> = gaps.largest.iter().map(|gap| (gap.start, gap.duration.value)).collect();
    assert_eq!(found, [(100, 100), (800, 100)]);
}

#[test]
fn what_was_lost_is_over_after_a_wait() {
    let all = [(0, 7, exactly(0, 100)), (690, 7, exactly(700, 800))];
    assert_eq!(parts(&swept(&all, true)), [200, 150, 450]);
    assert_eq!(parts(&swept(&all[..1], false)), [100, 100, 1_800], "nothing shows that it is over");
}

#[test]
fn what_was_lost_may_have_been_on_any_stream_that_was_in_use() {
    // An operation that was called in the time of the loss shows nothing, and that of another stream nothing of this one.
    let device = swept(
        &[
            (0, 7, exactly(0, 100)),
            (10, 8, exactly(0, 50)),
            (500, 7, exactly(500, 550)),
            (690, 7, exactly(700, 800)),
            (890, 8, exactly(900, 950)),
        ],
        false,
    );
    assert_eq!(parts(&device), [300, 100, 550]);
}
