//! Threads that come and go, are cancelled, jump out of calls, and check errno.

use super::{assert_all_accounted, launches, number};
use gpuspy_tests::Run;

#[test]
fn two_hundred_short_threads_are_counted_exactly() {
    let done = Run::of("many_threads").preloaded().succeeded();
    let report = done.report();
    assert_eq!(launches(&report), done.said()["launches"]);
    assert_eq!(launches(&report), done.truth().enqueued("kernel") as u64);
    assert_eq!(number(&report, "/coverage/dropped"), 0, "{:#}", report["coverage"]);
    assert_all_accounted(&report);
}

/// The agent's thread was the last one, and with all signals blocked: only SIGKILL ended the process.
#[test]
fn a_process_whose_first_thread_has_left_ends_with_its_last_one() {
    Run::of("main_leaves").plain().succeeded();
    for done in [Run::of("main_leaves").preloaded(), Run::of("main_leaves").observed()] {
        let done = done.succeeded();
        let report = done.report();
        assert_eq!(launches(&report), done.said()["launches"], "its exit handler has run");
        assert_eq!(report["processes"][0]["ending"], "exited", "{}", report["processes"]);
    }
    // Without a collector there is nothing to do for the agent's thread.
    let unobserved = Run::of("main_leaves").env("GPUSPY_COLLECTOR", "/no/such").preloaded().succeeded();
    assert_eq!(unobserved.said()["launches"], 100, "its exit handler has run");
}

/// The agent's thread had it, too, and the signal ended the program.
#[test]
fn a_program_that_traps_invalid_arithmetic_goes_on() {
    Run::of("inherited_settings").plain().succeeded();
    for timing in ["auto", "exact", "off"] {
        let done = Run::of("inherited_settings").env("GPUSPY_TIMING", timing).preloaded().succeeded();
        assert_eq!(launches(&done.report()), done.said()["launches"], "{timing}");
    }
}

/// What the program did in time waited for the agent's thread, which had its priority.
#[test]
fn the_agents_thread_has_no_real_time_priority_of_the_programs() {
    // SAFETY: no arguments, no failure.
    if unsafe { libc::geteuid() } != 0 {
        return eprintln!("skipped: only root may have a real-time priority");
    }
    let done =
        Run::of("inherited_settings").arg("first").env("GPUSPY_TIMING", "auto").preloaded().succeeded();
    let said = done.said();
    assert_eq!((&said["threads"], &said["real_time"]), (&1.into(), &0.into()));
    assert_eq!(launches(&done.report()), said["launches"]);
}

/// They took the stack of the agent's thread, which was not started.
#[test]
fn a_program_with_large_thread_local_variables_is_traced() {
    let done = Run::of("large_thread_local").preloaded().succeeded();
    assert_eq!(launches(&done.report()), done.said()["launches"]);
}

#[test]
fn cancelling_a_thread_inside_a_synchronize_call_ends_only_that_thread() {
    for observed in [false, true] {
        let run = Run::of("cancel").arg("inside");
        let done = if observed { run.preloaded() } else { run.plain() }.succeeded();
        assert_eq!(done.said()["launches"], 201);
        if observed {
            assert_eq!(launches(&done.report()), 201);
        }
    }
}

/// The thread is unwound through a launch that has begun a run, or holds its stream: what follows on the stream is recorded.
#[test]
fn cancelling_a_thread_inside_a_launch_gives_its_stream_back() {
    for observed in [false, true] {
        let run = Run::of("cancel").arg("launching");
        let done = if observed { run.preloaded() } else { run.plain() }.succeeded();
        let launched = done.said()["launches"].as_u64().unwrap();
        assert!(launched > 200 + 500, "the queue was not full");
        if observed {
            // The launch that was cancelled had not been made.
            assert_eq!(launches(&done.report()), launched);
        }
    }
}

#[test]
fn a_thread_with_a_pending_cancellation_completes_its_first_call() {
    // The simulator opens its truth file, which is a cancellation point of its own.
    let run = || Run::of("cancel").arg("pending").env("SIMCUDA_TRUTH", "");
    run().plain().succeeded();
    let done = run().preloaded().succeeded();
    assert_eq!(launches(&done.report()), 200);
}

/// The agent's exit handler prints a line, which is a cancellation point: to be unwound there aborted the process.
#[test]
fn a_thread_that_is_cancelled_and_calls_exit_ends_the_process_as_without_the_agent() {
    let run = || Run::of("cancel").arg("exiting").env("SIMCUDA_TRUTH", "");
    run().plain().succeeded();
    let done = run().preloaded().succeeded();
    assert_eq!(launches(&done.report()), 200);
}

#[test]
fn a_thread_is_still_recorded_after_it_jumps_out_of_a_call() {
    let done = Run::of("longjmp").preloaded().succeeded();
    let report = done.report();
    assert_eq!(launches(&report), done.said()["launches"]);
    // One record is the driver call, the other the runtime call with a driver call inside it.
    assert_eq!(number(&report, "/coverage/dropped_by/scope_lost"), 3, "{:#}", report["coverage"]);
}

#[test]
fn errno_is_left_alone() {
    for timing in ["exact", "off"] {
        // First a driver that leaves errno alone, then one that sets it in every call; its value must be kept.
        for sets in ["0", "1"] {
            let run = || Run::of("errno_kept").env("GPUSPY_TIMING", timing).env("SIMCUDA_ERRNO", sets);
            let plain = run().plain().succeeded().said();
            assert_eq!(plain["changed"].as_array().unwrap().is_empty(), sets == "0", "{plain:#}");
            let done = run().preloaded().succeeded();
            assert_eq!(done.said()["changed"], plain["changed"]);
            assert_eq!(launches(&done.report()), 300);
        }
    }
}

fn every_launch_is_counted(client: &str) {
    let plain = Run::of(client).plain().succeeded();
    let done = Run::of(client).preloaded().succeeded();
    assert_eq!(done.said()["program"], plain.said()["program"]);
    let report = done.report();
    assert_eq!(report["coverage"]["launches"], done.said()["launches"], "{}", done.stderr);
    done.dropped_nothing(&report);
}

#[test]
fn threads_with_stacks_of_64_kib_have_room_for_the_hooks() {
    every_launch_is_counted("small_stacks");
}

#[test]
fn signals_that_interrupt_every_call_change_nothing() {
    every_launch_is_counted("signal_storm");
}

#[test]
fn a_driver_in_a_namespace_of_its_own_works_as_without_the_agent() {
    let run = || Run::of("dlsym_launch").arg("namespace");
    let plain = run().plain().succeeded();
    let done = run().preloaded().succeeded();
    assert_eq!(done.stdout, plain.stdout);
}
