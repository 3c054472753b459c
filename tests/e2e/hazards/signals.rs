//! Signals at every instruction of the agent's.

use super::{all_points, is_skipped};
use crate::lifecycle::launches;
use gpuspy_tests::Run;

#[test]
fn a_handler_that_calls_cuda_may_interrupt_the_agent_at_any_instruction() {
    // A prime, so that loops are met at different instructions. With `auto`, a pause in which launches are not timed may begin,
    // on a busy machine at once: then they have few instructions.
    interrupted("signal_at_instruction", "exact", "13", 20);
}

#[test]
fn a_handler_that_calls_cuda_may_interrupt_a_light_launch_at_any_instruction() {
    // It has so few instructions that those around the real call are more of them.
    interrupted("signal_at_instruction", "off", "3", 8);
}

#[test]
fn a_handler_that_calls_cuda_may_interrupt_a_launch_of_the_runtimes_at_any_instruction_of_both_hooks() {
    for (timing, stride) in [("off", "11"), ("exact", "41")] {
        interrupted("signal_at_instruction_runtime", timing, stride, 4);
    }
}

/// `most_inner`: of so many launches of the handler, one at most may look like a call inside another.
fn interrupted(program: &str, timing: &str, stride: &str, most_inner: u64) {
    let stride = if all_points() { "1" } else { stride };
    let run = || Run::of(program).arg(stride).env("GPUSPY_TIMING", timing);
    let plain = run().plain();
    if is_skipped(&plain) {
        return;
    }
    plain.succeeded();
    let done = run().preloaded().succeeded();
    let said = done.said();
    let handled = said["handled"].as_u64().unwrap();
    println!("{handled} signals; {}", done.stderr);
    assert!(handled > 50, "{handled} signals");
    let report = done.report();
    let (made, told) = (said["launches"].as_u64().unwrap(), launches(&report));
    assert_eq!(made, done.truth().enqueued("kernel") as u64);
    // A handler's launch inside our own code is lost, and counted. Right before and after the real call, which are a few
    // instructions, it looks like a call that the driver makes itself.
    let dropped = report["coverage"]["dropped_by"]["reentered"].as_u64().unwrap();
    let as_inner = made - told - dropped;
    println!("{made} launches, {told} told, {dropped} dropped, {as_inner} as inner calls");
    assert!(dropped > 0 && as_inner <= handled / most_inner, "{:#}", report["coverage"]);
    let kernels = report["kernels"].as_array().unwrap();
    let count =
        |name: &str| kernels.iter().find(|kernel| kernel["name"] == name).unwrap()["count"].as_u64().unwrap();
    assert_eq!(count("main_1us"), made - handled - 1, "all launches outside of the handler are told");
}
