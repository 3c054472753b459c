//! Streams side by side: one that is stalled, one that several threads use, more work than there are events for, and
//! streams about which the driver gives little information.

use crate::compare::{Compared, by_name, compare, intervals_contain_the_truth};
use gpuspy_tests::{Done, Run};
use serde_json::{Value, json};

/// Checks that the report counts what the program did, and returns its coverage.
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
fn a_stalled_stream_delays_no_other_stream() {
    let done = Run::of("stalled_stream").observed().succeeded();
    counted(&done);
    let compared = compare(&done);
    intervals_contain_the_truth(&compared);
    let flowing: Vec<&Compared> = of(&compared, "flowing_10us").collect();
    let timed = flowing.iter().filter(|c| c.timed().is_some()).count();
    assert!(done.is_share(timed, flowing.len(), 0.99), "{timed} of {}", flowing.len());
    // The launches on the stalled stream end when the wait is released.
    let opened = of(&compared, "stalled_3us").map(|c| c.truth.interval.1).min().unwrap();
    let before: Vec<&&Compared> =
        flowing.iter().filter(|c| c.truth.interval.1 + 100_000_000 < opened).collect();
    assert!(
        before.len() * 2 > flowing.len(),
        "the stalled stream was released too early: {} of {}",
        before.len(),
        flowing.len()
    );
    let soon = |c: &&&&Compared| c.seen().is_some_and(|seen| seen <= c.truth.interval.1 + 100_000_000);
    // On a busy machine the poller may lose its processor for a while.
    let in_time = before.iter().filter(soon).count();
    println!("{in_time} of {} observed within 100 ms", before.len());
    assert!(done.is_share(in_time, before.len(), 0.95), "{in_time} of {}", before.len());
}

#[test]
fn threads_on_one_stream_never_wait_for_each_other_and_are_counted() {
    // The program ends with 98 if a launch waits for the copy that this launch is to release.
    let done = Run::of("two_threads_one_stream").observed().succeeded();
    let coverage = counted(&done);
    println!("{} timed, {}", coverage["timed"], coverage["untimed"]);
    // All launches during the copy, around which the agent's events lie.
    let during_the_copy = done.said()["meanwhile"].as_u64();
    assert!(coverage["untimed"]["contended"].as_u64() >= during_the_copy, "{coverage}");
    let compared = compare(&done);
    intervals_contain_the_truth(&compared);
    // The thread that came first is timed all the same.
    assert!(compared.iter().filter(|c| c.timed().is_some()).count() > 100, "{coverage}");
}

/// An event lay behind work on the legacy default stream, which the program's wait for a blocking stream waited for, too: a program that
/// lets that work go on after the wait hung. An event after a long copy did the same, and ended the capture of another thread.
#[test]
fn a_wait_for_a_stream_does_not_wait_for_streams_that_it_is_ordered_with() {
    for how in ["run", "sequence", "copy", "capture"] {
        for timing in ["exact", "auto"] {
            println!("{how}, {timing}");
            let done =
                Run::of("ordered_streams").arg(how).env("GPUSPY_TIMING", timing).observed().succeeded();
            counted(&done);
            intervals_contain_the_truth(&compare(&done));
        }
    }
}

#[test]
fn without_free_events_launches_are_counted_and_nothing_waits() {
    let done = Run::of("more_work_than_events").observed().succeeded();
    let coverage = counted(&done);
    println!("{} timed, {}", coverage["timed"], coverage["untimed"]);
    assert!(coverage["untimed"]["no_event"].as_u64() > Some(0), "{coverage}");
    let compared = compare(&done);
    intervals_contain_the_truth(&compared);
    // The events return to the pool.
    let timed =
        |name| (of(&compared, name).filter(|c| c.timed().is_some()).count(), of(&compared, name).count());
    let (gated, (afterwards, all)) = (timed("gated_1us").0, timed("afterwards_5us"));
    assert!(gated > 1000, "{gated}");
    assert!(done.is_share(afterwards, all, 0.9), "{afterwards} of {all}");
}

#[test]
fn streams_of_unknown_context_are_counted_exactly() {
    let done = Run::of("work_driver").env("SIMCUDA_FAIL", "cuStreamGetCtx:801:*").observed().succeeded();
    crate::launches::counts_are_exact(&done);
    println!("{}", done.report()["coverage"]["untimed"]);
    intervals_contain_the_truth(&compare(&done));
}

/// The runtime's program also destroys a semaphore twice, which fails.
#[test]
fn work_behind_an_external_semaphore_is_timed_from_its_signal() {
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
        // Every second one waits for the other stream's kernel; its true interval starts when it can run.
        let after: Vec<_> = of(&compared, "then_5us").skip(1).step_by(2).collect();
        let ends: Vec<u64> = of(&compared, "first_200us").map(|c| c.truth.interval.1).collect();
        assert!(after.iter().zip(&ends).all(|(after, end)| after.truth.interval.0 >= *end));
        assert!(done.is_share(after.iter().filter(|c| c.timed().is_some()).count(), after.len(), 0.9));
    }
}

/// PyTorch creates 64 streams at once, and cuBLAS 32. Each took 112 KiB and 60 µs, whether it was used or not.
#[test]
fn streams_that_are_not_used_take_little_memory() {
    let grown = |done: Done| done.succeeded().said()["grown_kib"].as_i64().unwrap();
    let (plain, observed) =
        (grown(Run::of("idle_streams").plain()), grown(Run::of("idle_streams").observed()));
    // A page of each queue, and what the agent knows of each stream.
    println!("500 streams take {plain} KiB, and {observed} KiB with the agent");
    assert!(observed - plain < 500 * 16, "500 streams take {plain} KiB, and {observed} KiB with the agent");
}
