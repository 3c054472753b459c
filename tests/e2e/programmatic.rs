//! Chains of programmatic launches: what the client programs do with them, by the simulator's truth.

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

fn chains_overlap_and_are_counted(program: &str) {
    let done = Run::of(program).plain().succeeded();
    let said = done.said();
    assert_eq!(json!(done.truth().enqueued("kernel")), said["launches"]);
    assert_eq!(json!(of_kernels(&done, "programmatic")), said["programmatic"]);
    assert_eq!(of_kernels(&done, "cut"), 0, "the program itself cuts nothing");
    let followers = said["in_chains"].as_u64().unwrap() - said["chains"].as_u64().unwrap();
    let overlaps = of_kernels(&done, "overlaps");
    // A kernel that is submitted late finds nothing left to overlap.
    assert!(overlaps > 0 && overlaps <= followers, "{overlaps} of {followers}");

    let done = Run::of(program).observed().succeeded();
    let (said, report) = (done.said(), done.report());
    assert_eq!(report["coverage"]["launches"], said["launches"]);
    assert_eq!(report["coverage"]["driver_hooked"], true, "cuLaunchKernelEx launches, too");
    assert_eq!(kernels(&report), said["kernels"]);
}

#[test]
fn chains_of_the_driver_api_overlap_and_are_counted() {
    chains_overlap_and_are_counted("programmatic");
}

#[test]
fn chains_of_the_runtime_overlap_and_are_counted() {
    chains_overlap_and_are_counted("programmatic_runtime");
}
