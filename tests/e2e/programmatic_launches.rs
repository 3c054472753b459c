//! Checks by the simulator's truth that the client programs' programmatic launches do overlap, and that all are
//! counted.

use crate::compare::by_name;
use gpuspy_tests::{Done, Run};
use serde_json::{Value, json};

fn of_kernels(done: &Done, flag: &str) -> u64 {
    let truth = done.truth();
    truth.of("kernel").filter(|kernel| kernel[flag] == true).count() as u64
}

fn kernels(report: &Value) -> Value {
    json!(by_name(&report["kernels"], "name", "count"))
}

fn sequences_overlap_and_are_counted(program: &str) {
    let done = Run::of(program).plain().succeeded();
    let said = done.said();
    assert_eq!(json!(done.truth().enqueued("kernel")), said["launches"]);
    assert_eq!(json!(of_kernels(&done, "programmatic")), said["programmatic"]);
    assert_eq!(of_kernels(&done, "cut"), 0, "no event of the program's cuts a programmatic sequence");
    let followers = said["in_chains"].as_u64().unwrap() - said["chains"].as_u64().unwrap();
    let overlaps = of_kernels(&done, "overlaps");
    // A kernel that is submitted late finds nothing left to overlap.
    assert!(overlaps > 0 && overlaps <= followers, "{overlaps} of {followers}");

    let done = Run::of(program).observed().succeeded();
    let (said, report) = (done.said(), done.report());
    assert_eq!(report["coverage"]["launches"], said["launches"]);
    assert_eq!(report["coverage"]["driver_hooked"], true, "launches by cuLaunchKernelEx are hooked too");
    assert_eq!(kernels(&report), said["kernels"]);
}

#[test]
fn programmatic_launches_of_the_driver_api_overlap_and_are_counted() {
    sequences_overlap_and_are_counted("programmatic");
}

#[test]
fn programmatic_launches_of_the_runtime_overlap_and_are_counted() {
    sequences_overlap_and_are_counted("programmatic_runtime");
}

/// Found on an H200 under JAX: a launch without a time left all that followed it undecided, for 0.6 s.
#[test]
fn a_programmatic_launch_behind_work_that_is_over_is_timed() {
    let done = Run::of("programmatic_alone").observed().succeeded();
    let rounds = done.said()["rounds"].as_u64().unwrap();
    let report = done.report();
    let bursts = report["coverage"]["bursts"]["launches"].as_u64().unwrap();
    assert!(bursts * 2 > rounds, "{bursts} of {rounds}: {}", report["coverage"]);
    let device = &report["devices"][0];
    let share = device["undecided_ns"]["value"].as_f64().unwrap() / device["span_ns"].as_f64().unwrap();
    assert!(share < 0.5, "{share}: {device}");
}

/// A kernel that one programmatic launch had followed was never timed alone again, nor was the next one with its handle.
#[test]
fn kernels_that_are_no_longer_followed_are_timed() {
    for when in ["once", "unloaded"] {
        let done = Run::of("rarely_followed").arg(when).observed().succeeded();
        let alone = done.said()["alone"].as_u64().unwrap();
        let timed = done.report()["coverage"]["timed"].as_u64().unwrap();
        assert!(timed * 10 > alone * 8, "{when}: {timed} of {alone}");
    }
}

/// What is timed alone again cuts a programmatic launch that then follows.
#[test]
fn kernels_that_are_rarely_followed_cut_few_sequences() {
    let done = Run::of("rarely_followed").arg("rounds").observed().succeeded();
    let cut = of_kernels(&done, "cut");
    assert!(cut <= 8, "{cut} sequences of 64 are cut");
}
