//! Streams among each other: one that stands still, one that several threads use, more than there are events for, and ones
//! that the driver says little about.

use crate::compare::{Compared, by_name, compare, intervals_contain_the_truth};
use gpuspy_tests::{Done, Run};
use serde_json::{Value, json};

/// What the report counts is what the program did.
fn counted(done: &Done) -> Value {
    let (said, report) = (done.said(), done.report());
    let coverage = report["coverage"].clone();
    assert_eq!(coverage["launches"], said["launches"], "{coverage}");
    assert_eq!(json!(by_name(&report["kernels"], "name", "count")), said["kernels"]);
    assert_eq!((&coverage["dropped"], &coverage["unattributed"]), (&json!(0), &json!(0)), "{coverage}");
    coverage
}

fn of<'c>(compared: &'c [Compared], name: &'c str) -> impl Iterator<Item = &'c Compared> {
    compared.iter().filter(move |c| c.truth.name == name)
}

#[test]
fn a_stalled_stream_holds_no_other_back() {
    let done = Run::of("stalled").observed().succeeded();
    counted(&done);
    let compared = compare(&done);
    intervals_contain_the_truth(&compared);
    let flowing: Vec<&Compared> = of(&compared, "flowing_10us").collect();
    let timed = flowing.iter().filter(|c| c.timed().is_some()).count();
    assert!(done.is_share(timed, flowing.len(), 0.99), "{timed} of {}", flowing.len());
    // The stalled ones end when the gate opens.
    let opened = of(&compared, "stalled_3us").map(|c| c.truth.interval.1).min().unwrap();
    let before: Vec<&&Compared> =
        flowing.iter().filter(|c| c.truth.interval.1 + 100_000_000 < opened).collect();
    assert!(
        before.len() * 2 > flowing.len(),
        "the gate opened too early: {} of {}",
        before.len(),
        flowing.len()
    );
    let soon = |c: &&&&Compared| c.seen().is_some_and(|seen| seen <= c.truth.interval.1 + 100_000_000);
    // The kernel may keep the poller from a busy machine's processors now and then.
    let in_time = before.iter().filter(soon).count();
    println!("{in_time} of {} seen within 100 ms", before.len());
    assert!(done.is_share(in_time, before.len(), 0.95), "{in_time} of {}", before.len());
}

#[test]
fn threads_on_one_stream_never_wait_for_each_other_and_are_counted() {
    // Ends with 98 if a launch waits for the copy that it is to set free.
    let done = Run::of("contended").observed().succeeded();
    let coverage = counted(&done);
    println!("{} timed, {}", coverage["timed"], coverage["untimed"]);
    // All that were launched during the copy, which our events stand around.
    let during_the_copy = done.said()["meanwhile"].as_u64();
    assert!(coverage["untimed"]["contended"].as_u64() >= during_the_copy, "{coverage}");
    let compared = compare(&done);
    intervals_contain_the_truth(&compared);
    // Who was first is timed all the same.
    assert!(compared.iter().filter(|c| c.timed().is_some()).count() > 100, "{coverage}");
}

#[test]
fn more_pending_work_than_there_are_events_is_counted_and_nothing_waits() {
    let done = Run::of("many_gated").observed().succeeded();
    let coverage = counted(&done);
    println!("{} timed, {}", coverage["timed"], coverage["untimed"]);
    assert!(coverage["untimed"]["no_event"].as_u64() > Some(0), "{coverage}");
    let compared = compare(&done);
    intervals_contain_the_truth(&compared);
    // The events come back.
    let timed =
        |name| (of(&compared, name).filter(|c| c.timed().is_some()).count(), of(&compared, name).count());
    let (gated, (afterwards, all)) = (timed("gated_1us").0, timed("afterwards_5us"));
    assert!(gated > 1000, "{gated}");
    assert!(done.is_share(afterwards, all, 0.9), "{afterwards} of {all}");
}

#[test]
fn streams_that_do_not_tell_their_context_are_counted_exactly() {
    let done = Run::of("work_driver").env("SIMCUDA_FAIL", "cuStreamGetCtx:801:*").observed().succeeded();
    crate::counts::counts_are_exact(&done);
    println!("{}", done.report()["coverage"]["untimed"]);
    intervals_contain_the_truth(&compare(&done));
}

/// The runtime's program also destroys one twice, which fails.
#[test]
fn what_stands_behind_a_semaphore_of_another_api_is_timed_from_when_it_opens() {
    for program in ["semaphores", "semaphores_runtime"] {
        let done = Run::of(program).observed().succeeded();
        counted(&done);
        let calls = by_name(&done.report()["apis"], "name", "count");
        for (name, count) in done.said()["apis"].as_object().unwrap() {
            assert_eq!(json!(calls.get(name)), *count, "{name}");
        }
        let compared = compare(&done);
        intervals_contain_the_truth(&compared);
        let is_of_semaphores = |line: &&Value| line["api"].as_str().unwrap().contains("Semaphore");
        let failed = done.truth().of("failed").filter(is_of_semaphores).count();
        assert_eq!(failed, usize::from(program == "semaphores_runtime"));
        // Each second one stands behind the other stream's kernel; the truth is told from where it can run.
        let after: Vec<_> = of(&compared, "then_5us").skip(1).step_by(2).collect();
        let ends: Vec<u64> = of(&compared, "first_200us").map(|c| c.truth.interval.1).collect();
        assert!(after.iter().zip(&ends).all(|(after, end)| after.truth.interval.0 >= *end));
        assert!(done.is_share(after.iter().filter(|c| c.timed().is_some()).count(), after.len(), 0.9));
    }
}
