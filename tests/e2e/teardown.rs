//! Contexts and processes that end with work on the GPU: nothing hangs (the programs have watchdogs), every time that
//! could be read is read, the rest is counted, and no call of the agent's uses a dead context.

use gpuspy_tests::{Done, Run};
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

fn number(value: &Value, key: &str) -> u64 {
    value[key].as_u64().unwrap_or_else(|| panic!("no {key} in {value}"))
}

/// Returns the report's coverage after checking that every launch is in it, timed or with a reason.
fn checked_coverage(done: &Done) -> Value {
    let coverage = done.report()["coverage"].clone();
    assert_eq!(coverage["launches"], done.said()["launches"], "{coverage}");
    // Only times that cannot be read any more are dropped.
    let times = coverage["dropped_by"].get("gpu_time_pending").map_or(0, |n| n.as_u64().unwrap());
    assert_eq!(number(&coverage, "dropped"), times, "{coverage}");
    let untimed: u64 = coverage["untimed"].as_object().unwrap().values().map(|n| n.as_u64().unwrap()).sum();
    let timed = number(&coverage, "timed") + number(&coverage["runs"], "launches");
    assert_eq!(timed + untimed, number(&coverage, "launches"), "{coverage}");
    coverage
}

/// Counts failed driver calls by name. (A lookup of a name that this driver lacks belongs to no context.)
fn failed(done: &Done) -> BTreeMap<String, usize> {
    let mut failed = BTreeMap::new();
    for line in done.truth().of("failed").filter(|l| l["api"] != "cuGetProcAddress") {
        *failed.entry(line["api"].as_str().unwrap().to_owned()).or_default() += 1;
    }
    failed
}

fn with_pending_work(way: &str) {
    // A call of the agent's on a dead handle would end the program.
    with_pending_work_of(Run::of("teardown").arg(way).env("SIMCUDA_ASSUME", "stale_handles=crash"));
}

fn with_pending_work_of(run: Run) {
    let done = run.observed().succeeded();
    let coverage = checked_coverage(&done);
    assert_eq!(number(&coverage, "launches"), 120);
    // The final drain waits for 4 ms of work and reads all of it, except what a busy machine kept the poller from
    // observing in time.
    assert!(number(&coverage, "timed") >= 110, "{coverage}");
    assert_eq!(failed(&done), BTreeMap::new());
}

fn behind_an_endless_wait(way: &str) {
    let began = Instant::now();
    let done = Run::of("teardown").arg(way).arg("gated").observed().succeeded();
    assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
    let coverage = checked_coverage(&done);
    // The first 40 launches are complete, and read; those behind the wait never complete.
    assert_eq!(number(&coverage, "launches"), 80);
    assert_eq!(number(&coverage, "timed"), 40, "{coverage}");
    assert_eq!(number(&coverage["untimed"], "gpu_time_pending"), 40, "{coverage}");
    assert_eq!(failed(&done), BTreeMap::new());
}

#[test]
fn destroying_a_context_with_work_on_it_loses_nothing() {
    with_pending_work("destroy");
}

#[test]
fn resetting_a_primary_context_with_work_on_it_loses_nothing() {
    with_pending_work("reset");
}

#[test]
fn releasing_a_primary_context_with_work_on_it_loses_nothing() {
    with_pending_work("release");
}

#[test]
fn a_runtime_reset_with_work_on_the_device_loses_nothing() {
    with_pending_work("device-reset");
}

/// How a runtime may change a primary context through the driver's export tables: no driver call is observed.
const HIDDEN: &str = "stale_handles=crash,runtime_primary=hidden";

#[test]
fn a_runtime_reset_that_bypasses_the_hooks_loses_nothing() {
    with_pending_work_of(Run::of("teardown").arg("device-reset").env("SIMCUDA_ASSUME", HIDDEN));
}

/// The context that came first in the agent's table was taken for the one that is reset: here that of the second GPU.
#[test]
fn a_reset_from_a_thread_without_a_context_is_that_of_the_first_gpu() {
    let run = Run::of("reset_from_new_thread").env("SIMCUDA_DEVICES", "2").env("SIMCUDA_ASSUME", HIDDEN);
    let done = run.observed().succeeded();
    let coverage = checked_coverage(&done);
    assert_eq!(number(&coverage, "launches"), 80);
    assert!(number(&coverage, "timed") >= 70, "{coverage}");
    assert_eq!(failed(&done), BTreeMap::new());
}

#[test]
fn a_librarys_retain_and_release_does_not_end_the_runtimes_context() {
    with_pending_work_of(Run::of("teardown").arg("library").env("SIMCUDA_ASSUME", HIDDEN));
    with_pending_work("library");
}

/// A launch of 300 ms, as one that loads its kernel, is under way for longer than a release waits for it. Where other threads
/// retain the context meanwhile, nobody can say whether it is still the same, so it counts as gone, and its events with it: the
/// launch recorded a null event then. Found on a busy machine.
#[test]
fn a_slow_launch_records_no_event_of_a_context_that_counts_as_gone_meanwhile() {
    let run = Run::of("released_meanwhile").env("SIMCUDA_HOST_COST", "launch=300000000");
    let done = run.env("SIMCUDA_ASSUME", HIDDEN).observed().succeeded();
    let coverage = checked_coverage(&done);
    assert_eq!(failed(&done), BTreeMap::new());
    assert_ne!(number(&coverage["untimed"], "teardown"), 0, "it never counted as gone: {coverage}");
}

/// The poller may be waiting for the driver's lock inside a query, and would continue it after the context's end.
#[test]
fn destroying_a_context_while_a_module_compiles_loses_nothing() {
    let run = Run::of("teardown").arg("compiling").env("SIMCUDA_HOST_COST", "load=400000000");
    let done = run.env("SIMCUDA_ASSUME", "stale_handles=crash,load_lock=all").observed().succeeded();
    assert_eq!(number(&checked_coverage(&done), "launches"), 120);
    assert_eq!(failed(&done), BTreeMap::new());
}

#[test]
fn destroying_a_context_with_work_that_never_ends_does_not_hang() {
    behind_an_endless_wait("destroy");
}

#[test]
fn resetting_a_primary_context_with_work_that_never_ends_does_not_hang() {
    behind_an_endless_wait("reset");
}

#[test]
fn releasing_a_primary_context_with_work_that_never_ends_does_not_hang() {
    behind_an_endless_wait("release");
}

#[test]
fn a_runtime_reset_with_work_that_never_ends_does_not_hang() {
    behind_an_endless_wait("device-reset");
}

#[test]
fn exit_with_pending_or_endless_work_loses_no_launch() {
    // All 120 are launched at once here: more than a stream may hold and be timed.
    let coverage = checked_coverage(&Run::of("teardown").arg("exit").observed().succeeded());
    assert_eq!(number(&coverage["untimed"], "gpu_time_pending"), 0, "{coverage}");
    behind_an_endless_wait("exit");
}

#[test]
fn underscore_exit_with_pending_or_endless_work_loses_no_launch() {
    checked_coverage(&Run::of("teardown").arg("_exit").observed().succeeded());
    let coverage = checked_coverage(&Run::of("teardown").arg("_exit").arg("gated").observed().succeeded());
    assert!(number(&coverage["untimed"], "gpu_time_pending") >= 40, "{coverage}");
}

#[test]
fn after_the_drivers_exit_handler_the_agent_makes_no_driver_calls_of_its_own() {
    for gate in ["", "gated"] {
        let done = Run::of("teardown").arg("after-exit").arg(gate).observed().succeeded();
        checked_coverage(&done);
        // Its own two calls, and the agent's query about the stream that the first call is for.
        let failed = failed(&done);
        let ours = failed.iter().filter(|(api, _)| !is_about_the_apps_handle(api)).collect::<Vec<_>>();
        assert_eq!(ours, [(&"cuDevicePrimaryCtxRelease".to_owned(), &1), (&"cuLaunchKernel".to_owned(), &1)]);
    }
}

/// Returns whether a call is the agent's query about the stream, current context or kernel of the app's next call: it
/// fails where that call will fail.
fn is_about_the_apps_handle(api: &str) -> bool {
    let of_streams = ["cuStreamGetCtx", "cuStreamGetFlags", "cuCtxGetDevice", "cuCtxGetCurrent"];
    let of_kernels = ["cuFuncGetName", "cuFuncGetAttribute", "cuOccupancyMaxActiveBlocksPerMultiprocessor"];
    of_streams.contains(&api) || of_kernels.contains(&api)
}

#[test]
fn a_driver_that_is_shutting_down_gets_no_more_calls() {
    let began = Instant::now();
    let program = ["steady_20us", "2000", "0.3", "200", "1"].iter().fold(Run::of("paced"), Run::arg);
    let failures: Vec<String> = (20..26).map(|nth| format!("cuEventQuery:4:{nth}")).collect();
    let done = program.env("SIMCUDA_FAIL", failures.join(",")).observed().succeeded();
    assert!(began.elapsed() < Duration::from_secs(15));
    // The program's thread may be about to make one while the poller's fails.
    let failed = failed(&done);
    assert!(failed.keys().eq(["cuEventQuery"]) && failed["cuEventQuery"] <= 2, "{failed:?}");
    let coverage = checked_coverage(&done);
    // A query may show that several launches are complete.
    assert!(number(&coverage, "timed") < number(&coverage, "launches") / 2, "{coverage}");
}

#[test]
fn destroying_a_context_while_another_thread_launches_is_safe() {
    let done = Run::of("teardown_race").arg("destroy").observed().succeeded();
    let coverage = checked_coverage(&done);
    let failed = failed(&done);
    println!("{coverage}\n{failed:?}");
    let ours = failed.keys().filter(|api| !is_about_the_apps_handle(api)).collect::<Vec<_>>();
    assert_eq!(ours, ["cuLaunchKernel"], "{failed:?}");
    assert!(number(&coverage, "timed") > 0, "{coverage}");
}

/// The agent has 511 slots for threads. A call on a thread without one is not recorded, and once was not even noted: the poller
/// went on querying the events of a context that it had ended.
#[test]
fn a_thread_without_a_slot_may_end_what_others_use() {
    for way in ["destroy", "release", "stream"] {
        let done = Run::of("unobserved_end").arg(way).env("SIMCUDA_ASSUME", "stale_handles=crash").observed();
        let done = done.succeeded();
        println!("{way}: {}", done.report()["coverage"]);
        let failed = failed(&done);
        assert!(failed.keys().all(|api| is_about_the_apps_handle(api)), "{way}: {failed:?}");
    }
}

/// A call that ends a context waits 100 ms for a launch that is under way. The launch fails then, and its end event was recorded
/// although it had gone with the context.
#[test]
fn a_launch_that_outlives_its_context_records_no_event() {
    let run = Run::of("teardown_race").arg("slow").env("SIMCUDA_HOST_COST", "launch=300000000");
    let done = run.observed().succeeded();
    let coverage = checked_coverage(&done);
    let failed = failed(&done);
    println!("{coverage}\n{failed:?}");
    let ours = failed.keys().filter(|api| !is_about_the_apps_handle(api)).collect::<Vec<_>>();
    assert_eq!(ours, ["cuLaunchKernel"], "{failed:?}");
}

#[test]
fn releasing_a_primary_context_while_another_thread_retains_it_is_safe() {
    let done = Run::of("teardown_race").arg("primary").observed().succeeded();
    let coverage = checked_coverage(&done);
    println!("{coverage}");
    assert_eq!(failed(&done), BTreeMap::new());
    let (timed, launches) = (number(&coverage, "timed"), number(&coverage, "launches"));
    assert!(done.is_share(timed as usize, launches as usize, 0.8), "{coverage}");
    assert_eq!(number(&coverage["untimed"], "event_failed"), 0, "{coverage}");
}
