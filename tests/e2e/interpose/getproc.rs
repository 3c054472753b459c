//! `cuGetProcAddress`: requests and results are the driver's, and pointers are hooks for exactly the functions of the
//! table.

use super::{assert_each_launch_is_counted_once, assert_silent, table};
use gpuspy_collector::trace::{TraceReader, wait_until_complete};
use gpuspy_tests::{Done, Run, program, root};
use serde_json::{Value, json};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::time::Duration;

fn json_lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{line}: {e}"))).collect()
}

/// Checks that `observed`, the answers under the agent, equal `plain`, those without it, except that functions of the
/// table are hooks.
fn assert_table_functions_replaced(plain: &[Value], observed: &[Value]) {
    let table = table("driver");
    assert_eq!(plain.len(), observed.len(), "the numbers of requests differ");
    let mut replaced = 0;
    for (plain, observed) in plain.iter().zip(observed) {
        for key in ["name", "version", "flags", "result", "status"] {
            assert_eq!(plain[key], observed[key], "{key} of {plain}");
        }
        let hooked = table.contains(plain["symbol"].as_str().unwrap());
        let object = if hooked { "libgpuspy.so" } else { plain["object"].as_str().unwrap() };
        assert_eq!(observed["object"], object, "the answer to {plain}");
        assert_ne!(plain["object"], "libgpuspy.so", "{plain}");
        replaced += usize::from(hooked);
    }
    assert!(replaced > 50, "only {replaced} functions of the table were requested");
}

/// Runs a program on NVIDIA's own runtime under a logging preload, and returns the requests with their answers, and the
/// program's output.
fn watched(client: &str, runtime: &str, driver: &str, with_agent: bool) -> (Vec<Value>, String) {
    let library = root().join("downloads").join(runtime).join("lib");
    assert!(
        library.join("libcudart_static.a").exists(),
        "{} is missing: run scripts/fetch.sh",
        library.display()
    );
    let run = Run::of(client)
        .env("LD_LIBRARY_PATH", format!("{}:{}", library.display(), gpuspy_tests::sim_lib().display()))
        .env("SIMCUDA_DRIVER_VERSION", driver)
        .env("WATCHGETPROC_FILE", "requests.jsonl");
    let done = if with_agent {
        run.preloaded_among(&["libwatchgetproc.so"], &[])
    } else {
        run.env("LD_PRELOAD", program("libwatchgetproc.so")).plain()
    };
    let done = done.succeeded();
    let requests = std::fs::read_to_string(done.folder().join("requests.jsonl")).unwrap();
    (json_lines(&requests), done.stdout)
}

/// Returns the requests that this version of the runtime is known to make: name, version, flags.
fn known_requests(list: &str) -> Vec<(String, i64, i64)> {
    let text = std::fs::read_to_string(root().join("tests/programs").join(list)).unwrap();
    let requests = text.lines().filter_map(|line| line.strip_prefix("R(\""));
    requests
        .map(|request| {
            let (name, rest) = request.split_once('"').unwrap();
            let mut numbers = rest.split(", ").skip(1).map(|number| number.parse().unwrap());
            (name.to_owned(), numbers.next().unwrap(), numbers.next().unwrap())
        })
        .collect()
}

/// The simulator fails the check that NVIDIA's runtime makes of its driver, as it should. So only the lookups are
/// compared, and that the runtime ends in the same state.
fn compare_requests_of_real_runtime(client: &str, runtime: &str, driver: &str, list: &str) {
    let (plain, end) = watched(client, runtime, driver, false);
    let requested = |v: &Value| {
        (v["name"].as_str().unwrap().to_owned(), v["version"].as_i64().unwrap(), v["flags"].as_i64().unwrap())
    };
    assert_eq!(
        plain.iter().map(requested).collect::<Vec<_>>(),
        known_requests(list),
        "the list of requests is not that of NVIDIA's runtime"
    );
    let (observed, observed_end) = watched(client, runtime, driver, true);
    assert_table_functions_replaced(&plain, &observed);
    assert_eq!(end, observed_end);
}

#[test]
fn shared_runtime_12_makes_the_same_requests_and_gets_hooks_for_the_table_only() {
    compare_requests_of_real_runtime("runtime_start", "cuda-12.9", "12090", "getproc_12_9.inc");
}

#[test]
fn shared_runtime_13_makes_the_same_requests_and_gets_hooks_for_the_table_only() {
    compare_requests_of_real_runtime("runtime_start_13", "cuda-13", "13050", "getproc_13_5.inc");
}

#[test]
fn static_runtime_12_makes_the_same_requests_and_gets_hooks_for_the_table_only() {
    compare_requests_of_real_runtime("runtime_start_static_12", "cuda-12.9", "12090", "getproc_12_9.inc");
}

#[test]
fn static_runtime_13_makes_the_same_requests_and_gets_hooks_for_the_table_only() {
    compare_requests_of_real_runtime("runtime_start_static_13", "cuda-13", "13050", "getproc_13_5.inc");
}

/// The drivers whose answers are compared, oldest to newest.
const DRIVERS: [&str; 4] = ["12020", "12090", "13000", "13050"];

fn probe(driver: &str) -> Run {
    Run::of("probe_getproc_pointers").env("SIMCUDA_DRIVER_VERSION", driver)
}

#[test]
fn every_request_is_answered_by_the_driver_except_for_hooks_of_the_table() {
    for driver in DRIVERS {
        let plain = json_lines(&probe(driver).plain().succeeded().stdout);
        let observed = json_lines(&probe(driver).preloaded().succeeded().stdout);
        assert_table_functions_replaced(&plain, &observed);
        // A program may compare the pointers from dlsym and cuGetProcAddress.
        for (plain, observed) in plain.iter().zip(&observed) {
            assert_eq!(
                plain["same"], observed["same"],
                "driver {driver}: whether dlsym and cuGetProcAddress agree is not the same with the agent: {observed}"
            );
        }
    }
}

#[test]
fn the_drivers_own_getproc_returns_its_own_exports_under_the_agent() {
    for driver in DRIVERS {
        let plain = probe(driver).plain().succeeded().stdout;
        let bare = probe(driver).arg("bare").preloaded().succeeded().stdout;
        assert_eq!(plain, bare, "driver {driver}");
        let own =
            json_lines(&bare).iter().filter(|a| a["same"] == true && a["object"] == "libcuda.so.1").count();
        assert!(own > 400, "driver {driver}: only {own} of the functions are the driver's exports");
    }
}

#[test]
fn with_the_agent_disabled_every_pointer_is_the_drivers() {
    let plain = probe("12090").plain().succeeded();
    let off = probe("12090").env("GPUSPY", "0").preloaded().succeeded();
    assert_eq!(plain.stdout, off.stdout);
    assert_silent(&off);
}

#[test]
fn with_the_agent_disabled_programs_run_as_without_it() {
    for client in ["work_getproc", "dlsym_launch", "rtld_next", "calls_without_work", "driver_entry_points"] {
        let off = Run::of(client).env("GPUSPY", "0").preloaded().succeeded();
        assert_silent(&off);
        assert_eq!(
            off.truth().enqueued("kernel") as u64,
            off.said()["launches"].as_u64().unwrap(),
            "{client}"
        );
    }
}

#[test]
fn the_agent_exports_only_the_table_the_loader_calls_and_what_others_ask_for() {
    let output = std::process::Command::new("nm")
        .args([Path::new("-D"), Path::new("--defined-only"), &gpuspy_tests::agent()])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let exports: std::collections::BTreeSet<String> = String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .map(|line| line.split_whitespace().last().unwrap().to_owned())
        .collect();
    let mut expected = table("driver");
    expected.extend(table("runtime"));
    let others = ["dlopen", "dlsym", "InitializeInjectionNvtx2", "__tsan_default_suppressions"];
    expected.extend(others.map(str::to_owned));
    assert_eq!(exports, expected);
}

#[test]
fn launches_through_getproc_are_counted_once() {
    assert_each_launch_is_counted_once(&Run::of("work_getproc").preloaded().succeeded());
}

#[test]
fn runtime_driver_entry_points_are_hooks_for_functions_of_the_table() {
    let plain = Run::of("driver_entry_points").plain().succeeded().said();
    let done = Run::of("driver_entry_points").preloaded().succeeded();
    for (requested, object) in done.said()["objects"].as_object().unwrap() {
        assert_eq!(plain["objects"][requested], "libcuda.so.1", "{requested} without the agent");
        let expected = if requested == "cuMemRangeGetAttribute" { "libcuda.so.1" } else { "libgpuspy.so" };
        assert_eq!(object, expected, "{requested}");
    }
    assert_each_launch_is_counted_once(&done);
    assert_eq!(
        super::apis(&done.report())["cuLaunchKernel"],
        (300, 0),
        "the records have the name of the function that the program called"
    );
}

/// The runtime queries the driver through the agent's hook and hands on the hook's pointer: this is one lookup, and it
/// is hooked.
#[test]
fn a_lookup_that_the_runtime_makes_for_the_program_is_counted_once() {
    let done = Run::of("driver_entry_points").preloaded().succeeded();
    let trace = done.trace();
    assert!(wait_until_complete(&trace, Duration::from_secs(10)).unwrap(), "the trace is not complete");
    let reader = TraceReader::open(&trace).unwrap();
    let status = reader.status().unwrap();
    assert!(status.lookups > 0);
    assert_eq!(status.lookups_hooked, status.lookups, "every lookup returned a hook");
}

/// Checks that the report lists the function that the agent does not know, and does not count its launches.
fn check_unknown_function(done: &Done) {
    let (said, report) = (done.said(), done.report());
    let unknown = json!([{ "name": "cuTomorrowLaunchKernel", "lookups": said["lookups"] }]);
    assert_eq!(report["coverage"]["unknown_functions"], unknown);
    assert_eq!(report["coverage"]["launches"], said["launches"], "launches by that function are not counted");
    let launched = done.truth().operations();
    let by_tomorrow = launched.iter().filter(|o| o.name == "tomorrow_5us").count();
    assert_eq!(json!(by_tomorrow), said["by_tomorrow"], "launches by the unknown function reach the driver");
}

#[test]
fn functions_that_the_agent_does_not_know_work_and_are_reported_with_their_lookups() {
    let done = Run::of("unknown_function").observed().succeeded();
    check_unknown_function(&done);
    let text = done.section("coverage");
    assert!(text.contains("unknown to this version: cuTomorrowLaunchKernel (12 lookups)"), "{text}");
}

#[test]
fn a_forked_child_has_its_own_count_of_lookups() {
    let done = Run::of("unknown_function").arg("fork").observed().succeeded();
    check_unknown_function(&done);
}

#[test]
fn a_killed_process_keeps_the_lookups_that_were_sent() {
    let done = Run::of("unknown_function").arg("kill").observed();
    assert_eq!(done.status.signal(), Some(libc::SIGKILL), "{}", done.stderr);
    let unknown = json!([{ "name": "cuTomorrowLaunchKernel", "lookups": done.said()["lookups"] }]);
    assert_eq!(done.report()["coverage"]["unknown_functions"], unknown);
}
