//! Libraries loaded with RTLD_DEEPBIND, which resolve symbols past the process's first definitions.

use crate::compare::by_name;
use gpuspy_tests::{Done, Run};
use serde_json::json;

fn every_launch_is_counted(done: &Done) {
    let (said, report) = (done.said(), done.report());
    assert_eq!(json!(by_name(&report["kernels"], "name", "count")), said["kernels"]);
    assert_eq!(report["coverage"]["launches"], said["launches"], "each launch is counted once");
}

#[test]
fn calls_of_deepbind_libraries_are_recorded_and_their_binding_is_kept() {
    every_launch_is_counted(&Run::of("deepbind").observed().succeeded());
}

#[test]
fn calls_of_lazily_bound_deepbind_libraries_are_recorded_and_their_binding_is_kept() {
    every_launch_is_counted(&Run::of("deepbind").arg("lazy").observed().succeeded());
}
