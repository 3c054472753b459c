//! Libraries that are loaded with RTLD_DEEPBIND, which look past the process's first definitions.

use crate::compare::by_name;
use gpuspy_tests::{Done, Run};
use serde_json::json;

fn every_launch_is_seen(done: &Done) {
    let (said, report) = (done.said(), done.report());
    assert_eq!(json!(by_name(&report["kernels"], "name", "count")), said["kernels"]);
    assert_eq!(report["coverage"]["launches"], said["launches"], "none twice");
}

#[test]
fn libraries_bound_deeply_are_seen_and_stay_bound() {
    every_launch_is_seen(&Run::of("deepbind").observed().succeeded());
}

#[test]
fn libraries_bound_deeply_at_the_first_use_are_seen_and_stay_bound() {
    every_launch_is_seen(&Run::of("deepbind").arg("lazy").observed().succeeded());
}
