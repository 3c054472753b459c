//! Contexts and processes that go away with work on the GPU: nothing hangs (the programs have watchdogs), what could be read
//! was read, the rest is counted, and no call of ours meets a dead context.

use gpuspy_tests::{Done, Run};
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

fn number(value: &Value, key: &str) -> u64 {
    value[key].as_u64().unwrap_or_else(|| panic!("no {key} in {value}"))
}

/// The report's coverage: every launch is in it, timed or with a reason.
fn whole(done: &Done) -> Value {
    let coverage = done.report()["coverage"].clone();
    assert_eq!(coverage["launches"], done.said()["launches"], "{coverage}");
    // Nothing is dropped but times that cannot be read any more.
    let times = coverage["dropped_by"].get("gpu_time_pending").map_or(0, |n| n.as_u64().unwrap());
    assert_eq!(number(&coverage, "dropped"), times, "{coverage}");
    let untimed: u64 = coverage["untimed"].as_object().unwrap().values().map(|n| n.as_u64().unwrap()).sum();
    let timed = number(&coverage, "timed") + number(&coverage["runs"], "launches");
    assert_eq!(timed + untimed, number(&coverage, "launches"), "{coverage}");
    coverage
}

/// Calls into the driver that failed, by name: how many. (A lookup of a name that this driver lacks is about no context.)
fn failed(done: &Done) -> BTreeMap<String, usize> {
    let mut failed = BTreeMap::new();
    for line in done.truth().of("failed").filter(|l| l["api"] != "cuGetProcAddress") {
        *failed.entry(line["api"].as_str().unwrap().to_owned()).or_default() += 1;
    }
    failed
}

fn in_the_middle(way: &str) {
    // A call of ours on what is gone would end the program.
    in_the_middle_of(Run::of("teardown").arg(way).env("SIMCUDA_ASSUME", "stale_handles=crash"));
}

fn in_the_middle_of(run: Run) {
    let done = run.observed().succeeded();
    let coverage = whole(&done);
    assert_eq!(number(&coverage, "launches"), 120);
    // The drain waits for 4 ms of work: all of it is read, but for what a busy machine did not let us see in time.
    assert!(number(&coverage, "timed") >= 110, "{coverage}");
    assert_eq!(failed(&done), BTreeMap::new());
}

fn behind_a_gate(way: &str) {
    let began = Instant::now();
    let done = Run::of("teardown").arg(way).arg("gated").observed().succeeded();
    assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
    let coverage = whole(&done);
    // The first 40 are complete, and read; those behind the gate never will be.
    assert_eq!(number(&coverage, "launches"), 80);
    assert_eq!(number(&coverage, "timed"), 40, "{coverage}");
    assert_eq!(number(&coverage["untimed"], "gpu_time_pending"), 40, "{coverage}");
    assert_eq!(failed(&done), BTreeMap::new());
}

#[test]
fn a_context_is_destroyed_with_work_on_it() {
    in_the_middle("destroy");
}

#[test]
fn a_primary_context_is_reset_with_work_on_it() {
    in_the_middle("reset");
}

#[test]
fn a_primary_context_is_released_with_work_on_it() {
    in_the_middle("release");
}

#[test]
fn the_runtime_resets_the_device_with_work_on_it() {
    in_the_middle("device-reset");
}

/// What a runtime does to a primary context by the driver's export tables: no driver call is seen.
const HIDDEN: &str = "stale_handles=crash,runtime_primary=hidden";

#[test]
fn the_runtime_resets_the_device_by_ways_without_a_hook() {
    in_the_middle_of(Run::of("teardown").arg("device-reset").env("SIMCUDA_ASSUME", HIDDEN));
}

#[test]
fn a_librarys_retain_and_release_is_not_the_end_of_the_runtimes_context() {
    in_the_middle_of(Run::of("teardown").arg("library").env("SIMCUDA_ASSUME", HIDDEN));
    in_the_middle("library");
}

/// The poller may be waiting for the driver's lock in the middle of a question, and would go on with it behind the end.
#[test]
fn a_context_is_destroyed_while_a_module_compiles() {
    let run = Run::of("teardown").arg("compiling").env("SIMCUDA_HOST_COST", "load=400000000");
    let done = run.env("SIMCUDA_ASSUME", "stale_handles=crash,load_lock=held").observed().succeeded();
    assert_eq!(number(&whole(&done), "launches"), 120);
    assert_eq!(failed(&done), BTreeMap::new());
}

#[test]
fn a_context_is_destroyed_behind_a_gate_that_never_opens() {
    behind_a_gate("destroy");
}

#[test]
fn a_primary_context_is_reset_behind_a_gate_that_never_opens() {
    behind_a_gate("reset");
}

#[test]
fn a_primary_context_is_released_behind_a_gate_that_never_opens() {
    behind_a_gate("release");
}

#[test]
fn the_runtime_resets_the_device_behind_a_gate_that_never_opens() {
    behind_a_gate("device-reset");
}

#[test]
fn the_process_exits_in_the_middle_and_behind_a_gate() {
    // All 120 are launched at once here: more than a stream may hold and be timed.
    let coverage = whole(&Run::of("teardown").arg("exit").observed().succeeded());
    assert_eq!(number(&coverage["untimed"], "gpu_time_pending"), 0, "{coverage}");
    behind_a_gate("exit");
}

#[test]
fn the_process_ends_without_handlers_in_the_middle_and_behind_a_gate() {
    whole(&Run::of("teardown").arg("_exit").observed().succeeded());
    let coverage = whole(&Run::of("teardown").arg("_exit").arg("gated").observed().succeeded());
    assert!(number(&coverage["untimed"], "gpu_time_pending") >= 40, "{coverage}");
}

#[test]
fn behind_the_drivers_own_exit_handler_only_the_app_calls_it() {
    for gate in ["", "gated"] {
        let done = Run::of("teardown").arg("after-exit").arg(gate).observed().succeeded();
        whole(&done);
        // Its own two calls, and our question about the stream that the first is for.
        let failed = failed(&done);
        let ours = failed.iter().filter(|(api, _)| !is_about_the_apps_handle(api)).collect::<Vec<_>>();
        assert_eq!(ours, [(&"cuDevicePrimaryCtxRelease".to_owned(), &1), (&"cuLaunchKernel".to_owned(), &1)]);
    }
}

/// What the agent asks about the stream, the current context and the kernel that the app's call in the next moment is for:
/// it fails where that will.
fn is_about_the_apps_handle(api: &str) -> bool {
    let about =
        ["cuStreamGetCtx", "cuStreamGetFlags", "cuCtxGetDevice", "cuCtxGetCurrent", "cuFuncGetAttribute"];
    about.contains(&api) || api == "cuOccupancyMaxActiveBlocksPerMultiprocessor"
}

#[test]
fn a_driver_that_says_it_is_shutting_down_is_asked_nothing_more() {
    let began = Instant::now();
    let program = ["steady_20us", "2000", "0.3", "200", "1"].iter().fold(Run::of("paced"), Run::arg);
    let done = program.env("SIMCUDA_FAIL", "cuEventQuery:4:20,cuEventQuery:4:21").observed().succeeded();
    assert!(began.elapsed() < Duration::from_secs(15));
    assert_eq!(failed(&done), BTreeMap::from([("cuEventQuery".to_owned(), 1)]));
    let coverage = whole(&done);
    assert!(number(&coverage, "timed") <= 20, "{coverage}");
}

#[test]
fn a_context_is_destroyed_while_another_thread_launches_on_it() {
    let done = Run::of("teardown_race").arg("destroy").observed().succeeded();
    let coverage = whole(&done);
    let failed = failed(&done);
    println!("{coverage}\n{failed:?}");
    let ours = failed.keys().filter(|api| !is_about_the_apps_handle(api)).collect::<Vec<_>>();
    assert_eq!(ours, ["cuLaunchKernel"], "{failed:?}");
    assert!(number(&coverage, "timed") > 0, "{coverage}");
}

#[test]
fn a_primary_contexts_release_races_another_threads_retain() {
    let done = Run::of("teardown_race").arg("primary").observed().succeeded();
    let coverage = whole(&done);
    println!("{coverage}");
    assert_eq!(failed(&done), BTreeMap::new());
    let (timed, launches) = (number(&coverage, "timed"), number(&coverage, "launches"));
    assert!(done.is_share(timed as usize, launches as usize, 0.8), "{coverage}");
    assert_eq!(number(&coverage["untimed"], "event_failed"), 0, "{coverage}");
}
