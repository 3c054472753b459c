//! `cuGetProcAddress`: requests and results are the driver's, pointers are ours for exactly the table's functions.

use super::{assert_each_launch_is_counted_once, assert_silent, table};
use gpuspy_collector::trace::{TraceReader, wait_until_complete};
use gpuspy_tests::{Done, Run, program, root};
use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;

fn json_lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{line}: {e}"))).collect()
}

/// Asserts that `observed`, the answers under the agent, are `plain`, those without it, with our pointer in exactly the
/// places where the driver answers with a function of the table.
fn assert_table_functions_replaced(plain: &[Value], observed: &[Value]) {
    let table = table("driver");
    assert_eq!(plain.len(), observed.len(), "requests");
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
    assert!(replaced > 50, "{replaced} functions of the table were asked for");
}

/// What a program on NVIDIA's own runtime, in front of everything, is seen to ask and be answered; and its last words.
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

/// The requests that this version of the runtime is known to make: name, version, flags.
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

/// The simulator fails the check that NVIDIA's runtime makes of its driver, as it should: only discovery is compared, and
/// that the runtime ends in the same state.
fn real_runtime_asks_the_same(client: &str, runtime: &str, driver: &str, list: &str) {
    let (plain, end) = watched(client, runtime, driver, false);
    let asked = |v: &Value| {
        (v["name"].as_str().unwrap().to_owned(), v["version"].as_i64().unwrap(), v["flags"].as_i64().unwrap())
    };
    assert_eq!(
        plain.iter().map(asked).collect::<Vec<_>>(),
        known_requests(list),
        "NVIDIA's runtime, not another"
    );
    let (observed, observed_end) = watched(client, runtime, driver, true);
    assert_table_functions_replaced(&plain, &observed);
    assert_eq!(end, observed_end);
}

#[test]
fn real_shared_runtime_12_asks_the_same_and_gets_hooks_for_the_table_only() {
    real_runtime_asks_the_same("runtime_start", "cuda-12.9", "12090", "getproc_12_9.inc");
}

#[test]
fn real_shared_runtime_13_asks_the_same_and_gets_hooks_for_the_table_only() {
    real_runtime_asks_the_same("runtime_start_13", "cuda-13", "13050", "getproc_13_5.inc");
}

#[test]
fn real_static_runtime_12_asks_the_same_and_gets_hooks_for_the_table_only() {
    real_runtime_asks_the_same("runtime_start_static_12", "cuda-12.9", "12090", "getproc_12_9.inc");
}

#[test]
fn real_static_runtime_13_asks_the_same_and_gets_hooks_for_the_table_only() {
    real_runtime_asks_the_same("runtime_start_static_13", "cuda-13", "13050", "getproc_13_5.inc");
}

/// The drivers whose answers are compared, oldest to newest.
const DRIVERS: [&str; 4] = ["12020", "12090", "13000", "13050"];

fn probe(driver: &str) -> Run {
    Run::of("probe_getproc_pointers").env("SIMCUDA_DRIVER_VERSION", driver)
}

#[test]
fn every_request_is_answered_as_without_us_but_for_the_tables_pointers() {
    for driver in DRIVERS {
        let plain = json_lines(&probe(driver).plain().succeeded().stdout);
        let observed = json_lines(&probe(driver).preloaded().succeeded().stdout);
        assert_table_functions_replaced(&plain, &observed);
        // A program may compare what dlsym and cuGetProcAddress gave it.
        for (plain, observed) in plain.iter().zip(&observed) {
            assert_eq!(
                plain["same"], observed["same"],
                "driver {driver}: dlsym's answer and getproc's: {observed}"
            );
        }
    }
}

#[test]
fn drivers_own_getproc_answers_with_its_own_exports_while_we_are_preloaded() {
    for driver in DRIVERS {
        let plain = probe(driver).plain().succeeded().stdout;
        let bare = probe(driver).arg("bare").preloaded().succeeded().stdout;
        assert_eq!(plain, bare, "driver {driver}");
        let own =
            json_lines(&bare).iter().filter(|a| a["same"] == true && a["object"] == "libcuda.so.1").count();
        assert!(own > 400, "driver {driver}: {own} answers are the driver's exports");
    }
}

#[test]
fn switched_off_every_pointer_is_the_drivers() {
    let plain = probe("12090").plain().succeeded();
    let off = probe("12090").env("GPUSPY", "0").preloaded().succeeded();
    assert_eq!(plain.stdout, off.stdout);
    assert_silent(&off);
}

#[test]
fn switched_off_programs_run_as_without_us() {
    for client in ["work_getproc", "dlsym_launch", "rtld_next", "nothing_done", "entry_points"] {
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
fn agent_exports_the_table_the_loader_s_calls_and_nvtx_s_entry_and_nothing_else() {
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
    let others = ["dlopen", "dlsym", "InitializeInjectionNvtx2"];
    expected.extend(others.map(str::to_owned));
    assert_eq!(exports, expected);
}

#[test]
fn launches_through_chained_getproc_are_counted_once() {
    assert_each_launch_is_counted_once(&Run::of("work_getproc").preloaded().succeeded());
}

#[test]
fn driver_entry_points_of_the_runtime_are_hooks_for_the_tables_functions() {
    let plain = Run::of("entry_points").plain().succeeded().said();
    let done = Run::of("entry_points").preloaded().succeeded();
    for (asked, object) in done.said()["objects"].as_object().unwrap() {
        assert_eq!(plain["objects"][asked], "libcuda.so.1", "{asked} without us");
        let expected = if asked == "cuMemRangeGetAttribute" { "libcuda.so.1" } else { "libgpuspy.so" };
        assert_eq!(object, expected, "{asked}");
    }
    assert_each_launch_is_counted_once(&done);
    assert_eq!(
        super::apis(&done.report())["cuLaunchKernel"],
        (300, 0),
        "labelled as what the program called"
    );
}

/// The runtime asks the driver, through us, and hands our own pointer on: that is one lookup, and hooked.
#[test]
fn a_lookup_that_the_runtime_makes_for_the_program_is_counted_once() {
    let done = Run::of("entry_points").preloaded().succeeded();
    let trace = done.trace();
    assert!(wait_until_complete(&trace, Duration::from_secs(10)).unwrap(), "the collector ends");
    let reader = TraceReader::open(&trace).unwrap();
    let status = reader.status().unwrap();
    assert!(status.lookups > 0);
    assert_eq!(status.lookups_hooked, status.lookups, "this driver has every function that is asked for");
}

/// What the report says of functions that the agent does not know, and that they launched what they launched.
fn only_tomorrows_function_is_unknown(done: &Done) {
    let (said, report) = (done.said(), done.report());
    let unknown = json!([{ "name": "cuTomorrowLaunchKernel", "lookups": said["lookups"] }]);
    assert_eq!(report["coverage"]["unknown_functions"], unknown);
    assert_eq!(report["coverage"]["launches"], said["launches"], "its own launches are not seen");
    let launched = done.truth().operations();
    let by_tomorrow = launched.iter().filter(|o| o.name == "tomorrow_5us").count();
    assert_eq!(json!(by_tomorrow), said["by_tomorrow"], "they pass");
}

#[test]
fn a_function_that_cuda_adds_tomorrow_passes_and_is_told_by_name_and_lookups() {
    let done = Run::of("tomorrow").observed().succeeded();
    only_tomorrows_function_is_unknown(&done);
    let text = done.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("does not know: cuTomorrowLaunchKernel (12 lookups)"), "{}", done.stderr);
}

#[test]
fn a_forked_childs_lookups_are_its_own() {
    let done = Run::of("tomorrow").arg("fork").observed().succeeded();
    only_tomorrows_function_is_unknown(&done);
}

#[test]
fn a_killed_process_keeps_the_lookups_that_were_told() {
    let done = Run::of("tomorrow").arg("kill").observed();
    assert_eq!(done.status.code(), Some(128 + 9), "{}", done.stderr);
    let unknown = json!([{ "name": "cuTomorrowLaunchKernel", "lookups": done.said()["lookups"] }]);
    assert_eq!(done.report()["coverage"]["unknown_functions"], unknown);
}
