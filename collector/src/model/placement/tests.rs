use super::*;
use crate::model::clocks::Clocks;
use crate::model::{Reason, simulation};
use crate::trace::record::{Record, Stream as Reported};
use gpuspy_wire::record::{LossCause, Untimed};

const KERNEL: Action = Action::Kernel { name: 1, communication: false };
const RUN: Action = Action::Burst { launches: 3, ordinary: 3, communication: false };
/// A launch whose run comes later, and one that is in none.
const IN_RUN: When = When::Untimed { reason: Reason::Untimed(Untimed::Run), after: None };
const ALONE: When = When::Untimed { reason: Reason::Untimed(Untimed::DeepQueue), after: Some(0) };

/// The clocks of a trace in which all launches of the kernel took 100 µs, and how long they typically took by them.
fn clocks() -> (Clocks, i64) {
    let mut program = simulation::Simulation::new(0, 0);
    let truths = program.run(simulation::Load::Queued, 40, 100_000..100_001);
    let clocks = simulation::survey(&truths);
    let typical = clocks.typical.of(&truths[0].work, KERNEL).expect("all took the same time");
    assert!(typical.abs_diff(100_000) < 2_000, "{typical}");
    (clocks, host(typical))
}

/// Takes an operation on stream 7 that was called at `called`.
fn start(placement: &mut Placement<'_>, what: Action, called: u64, when: When) -> i64 {
    let work = simulation::work(called + 5, 5, 0);
    let record = Record { thread: 1, at: called + 5, body: Body::Work(work) };
    let operation = Operation { when, ..simulation::operation(what, (called, called + 5)) };
    placement.observe(&Event { operation: Some(operation), ..Event::new(&record) }).unwrap()
}

fn timed(start: i64, end: i64) -> When {
    When::Timed(simulation::exactly(start, end))
}

/// A launch of a run was where it was called, and the run where it ran, so that half of a program's wall had the GPU's time
/// and no kernel.
#[test]
fn the_launches_of_a_run_lie_in_the_run() {
    let (clocks, each) = clocks();
    let mut placement = Placement::new(Some(&clocks.typical));
    let mut next = |what, called, when| start(&mut placement, what, called, when);
    assert_eq!(next(KERNEL, 1_000, timed(2_000, 900_000)), 2_000);
    let launches = [1_010, 1_020, 1_030].map(|called| next(KERNEL, called, IN_RUN));
    assert_eq!(launches, [900_000, 900_000 + each, 900_000 + 2 * each], "after the work before it");
    assert_eq!(next(RUN, 1_010, timed(900_100, 1_300_000)), 900_100);
    assert_eq!(next(KERNEL, 1_040, ALONE), 1_300_000, "the run's end is known");
    assert_eq!(next(KERNEL, 5_000_000, ALONE), 5_000_000, "the stream is empty");
    assert_eq!(next(KERNEL, 5_000_010, When::Captured), 5_000_010);
    assert_eq!(next(KERNEL, 5_000_020, IN_RUN), 5_000_000 + each);
}

#[test]
fn where_calls_of_two_threads_cross_neither_is_taken_to_have_come_first() {
    let (clocks, each) = clocks();
    let mut placement = Placement::new(Some(&clocks.typical));
    let mut next = |called, when| start(&mut placement, KERNEL, called, when);
    assert_eq!([next(2_000, ALONE), next(1_000, ALONE)], [2_000, 1_000], "the first one returned first");
    assert_eq!(next(3_000, timed(4_000, 500_000)), 4_000);
    assert_eq!([next(6_000, IN_RUN), next(5_000, IN_RUN)], [500_000; 2]);
    assert_eq!(next(7_000, IN_RUN), 500_000 + 2 * each, "both take their time");
}

#[test]
fn a_run_whose_time_was_lost_starts_with_its_first_launch() {
    let (clocks, each) = clocks();
    let mut placement = Placement::new(Some(&clocks.typical));
    let mut next = |what, called, when| start(&mut placement, what, called, when);
    let launches = [1_010, 1_020, 1_030].map(|called| next(KERNEL, called, IN_RUN));
    let lost = When::Untimed { reason: Reason::Lost, after: Some(1_010) };
    assert_eq!(next(RUN, 1_050, lost), launches[0]);
    assert_eq!(next(KERNEL, 1_060, ALONE), 1_010 + 3 * each, "its launches took as long as others");
}

#[test]
fn work_that_the_program_waited_for_is_over() {
    let (clocks, each) = clocks();
    let after = |drained: Drained| {
        let mut placement = Placement::new(Some(&clocks.typical));
        for called in [1_010, 1_020, 1_030] {
            start(&mut placement, KERNEL, called, ALONE);
        }
        let body = Body::Loss { cause: LossCause::RingFull, count: 0 };
        let record = Record { thread: 1, at: 0, body };
        placement.observe(&Event { drained: vec![drained], ..Event::new(&record) });
        start(&mut placement, KERNEL, 2_000, ALONE)
    };
    let waited = Drained { context: 1, stream: None, issued_before: 1_040, by: 5_000 };
    assert_eq!(after(waited), 5_000);
    assert_eq!(after(Drained { stream: Some(7), ..waited }), 5_000);
    for other in [
        Drained { stream: Some(8), ..waited },
        Drained { context: 2, ..waited },
        Drained { issued_before: 1_034, ..waited },
    ] {
        assert_eq!(after(other), 1_010 + 3 * each, "{other:?}");
    }
}

#[test]
fn a_destroyed_stream_is_forgotten_and_without_typical_lengths_work_takes_no_time() {
    let mut placement = Placement::new(None);
    assert_eq!(start(&mut placement, KERNEL, 1_000, timed(2_000, 9_000)), 2_000);
    let starts = [1_010, 1_020].map(|called| start(&mut placement, KERNEL, called, IN_RUN));
    assert_eq!(starts, [9_000; 2]);
    let gone = Reported { stream: 7, handle: 0, context: 1, flags: 0, priority: 0, destroyed: true };
    placement.observe(&Event::new(&Record { thread: 1, at: 0, body: Body::Stream(gone) }));
    assert!(placement.streams.is_empty());
}
