//! Why the GPU was idle, compared with what the program and the simulator know.

use gpuspy_tests::{Done, Run, until_one_is_good};
use serde_json::Value;

/// The value of a cause in a report, ns.
fn of(report: &Value, cause: &str) -> u64 {
    let rows = report["idle"]["by_cause"].as_array().unwrap();
    rows.iter().find(|row| row["cause"] == cause).map_or(0, |row| row["total_ns"]["value"].as_u64().unwrap())
}

/// The idle time of the devices, ns.
fn idle(report: &Value) -> u64 {
    let devices = report["devices"].as_array().unwrap();
    devices.iter().map(|device| device["idle_ns"]["value"].as_u64().unwrap()).sum()
}

fn run(cause: &str, costs: &str) -> Done {
    let client = Run::of("idle_causes").arg(cause).env("SIMCUDA_HOST_COST", costs);
    client.observed_with(&["--quiet", "--timing", "exact"]).succeeded()
}

/// Checks that the causes sum to the idle time, and that a cause has what the program spent on it. The GPU's own work may
/// lie in a part of that, and what lies beside it may be the cause's, too.
fn dominates(cause: &str, done: &Done) -> Result<Value, String> {
    let report = done.report();
    let by_cause = report["idle"]["by_cause"].as_array().unwrap();
    let sum: u64 = by_cause.iter().map(|row| row["total_ns"]["value"].as_u64().unwrap()).sum();
    assert_eq!(sum, idle(&report), "{by_cause:?}");
    let said = |key: &str| done.said()[key].as_u64().unwrap();
    // The GPU's time begins in the first launch, which loads code.
    let first = said("first_ns");
    let spent = said("ns") + if cause == "launching" { first } else { 0 };
    let found = of(&report, cause);
    println!("{cause}: {found} of {sum}, the program says {spent}, the first launch {first}");
    if by_cause[0]["cause"] != cause || found * 10 < sum.saturating_sub(first) * 8 {
        return Err(format!("{cause} is not the largest cause: {by_cause:?}"));
    }
    let least = match cause {
        // A kernel behind a host function may have been called before that ended, so that some of the time is undecided.
        "host_callback" => 0.6,
        // When a blocking copy ran inside its call is not known: the best estimate is the middle of what is possible.
        "copying" => 0.45,
        _ => 0.93,
    };
    let ratio = found as f64 / spent as f64;
    if (least..=1.07).contains(&ratio) {
        Ok(report)
    } else {
        Err(format!("{found} ns instead of {spent}: {by_cause:?}"))
    }
}

fn check(cause: &str, costs: &str) {
    until_one_is_good(|| dominates(cause, &run(cause, costs)).map(drop));
}

#[test]
fn a_host_that_sleeps_between_steps_is_outside_cuda_after_its_synchronization() {
    until_one_is_good(|| {
        let done = run("outside_cuda", "launch=3000,other=500");
        let report = dominates("outside_cuda", &done)?;
        let site = &report["idle"]["sites"][0];
        assert_eq!(
            (&site["cause"], &site["after_wait"]),
            (&"outside_cuda".into(), &"cuStreamSynchronize".into())
        );
        assert!(site["library"].as_str().unwrap().ends_with("/idle_causes"), "{site}");
        // The first gap comes after the synchronization before the loop.
        assert!(site["count"].as_u64().unwrap() + 1 >= done.said()["steps"].as_u64().unwrap() - 1, "{site}");
        let longest = &report["gaps"]["largest"][0]["causes"][0];
        assert_eq!(longest["cause"], "outside_cuda");
        Ok(())
    });
}

#[test]
fn allocating_in_each_step_is_the_cause_of_the_gaps() {
    check("allocating", "launch=3000,other=400000");
}

#[test]
fn freeing_in_each_step_is_the_cause_of_the_gaps() {
    check("freeing", "launch=3000,other=400000");
}

#[test]
fn a_synchronization_in_each_step_that_takes_longer_than_the_kernel_is_the_cause() {
    check("explicit_sync", "launch=3000,other=400000");
}

#[test]
fn a_pageable_copy_in_each_step_that_takes_longer_than_the_kernel_is_the_cause() {
    check("copying", "launch=3000,other=400000");
}

#[test]
fn launching_is_the_cause_where_kernels_are_shorter_than_their_launches() {
    check("launching", "launch=400000,other=500,module=0");
}

#[test]
fn loading_modules_between_kernels_is_the_cause() {
    check("loading", "launch=3000,other=500,module=0,load=3000000");
}

#[test]
fn a_stream_that_waits_for_another_one_is_not_the_hosts_fault() {
    check("stream_wait", "launch=3000,other=500");
}

#[test]
fn a_host_function_on_the_stream_is_the_cause() {
    check("host_callback", "launch=3000,other=500");
}
