//! Random CUDA programs (`tests/programs/random_program.c`), each the same for its seed. The report counts what the
//! program did, and the interval of every timed operation contains its true duration, whatever the simulator assumes.
//!
//! `GPUSPY_RANDOM_CASES=N` runs N seeds instead of a few. `GPUSPY_RANDOM_FIRST=SEED` runs them from that seed on, one
//! after the other. `GPUSPY_RANDOM_STEPS=N` takes N steps in each thread instead of 50 (20 in deep programs).
//! `GPUSPY_RANDOM_KEEP=FOLDER` keeps the trace and the truth of each program that fails.

use crate::compare::{Compared, by_name, compare, known_calls, median, transfers};
use crate::memory::{Use, reported_uses, true_uses};
use crate::report_tables;
use crate::runs_and_bursts;
use gpuspy_tests::{Done, Run, sim_lib};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value, json};
use std::ffi::{CStr, CString};

/// The simulator's settings.
pub type Setting = &'static [(&'static str, &'static str)];

/// Which operations a program is made of. A seed that once found a bug stands for the program that it made with its
/// breadth, so a breadth never changes: new operations get a breadth of their own.
#[derive(Clone, Copy, PartialEq)]
pub enum Breadth {
    /// Streams, waits, copies, launches, captures, threads, contexts.
    Narrow,
    /// Also sequences of programmatic launches, graphs built by hand, and phases between which contexts are reset.
    Wide,
    /// Also every other way to allocate memory.
    Memory,
    /// Narrow, but half of the steps make a stream deep or use it while it is.
    Deep,
}

impl Breadth {
    /// The program's last argument, if it has one.
    fn words(self) -> &'static [&'static str] {
        match self {
            Breadth::Narrow => &[],
            Breadth::Wide => &["wide"],
            Breadth::Memory => &["memory"],
            Breadth::Deep => &["deep"],
        }
    }
}

/// Settings under which all checks must pass: clocks, events, driver versions, and assumptions about the driver.
const SETTINGS: &[Setting] = &[
    &[],
    &[("SIMCUDA_CLOCK_DRIFT_PPB", "50000")],
    &[("SIMCUDA_CLOCK_DRIFT_PPB", "-50000"), ("SIMCUDA_CLOCK_OFFSET_NS", "-7200000000000")],
    // 1 ppm in a second, and more than the collector assumes.
    &[("SIMCUDA_CLOCK_WANDER_PPB", "50"), ("SIMCUDA_CLOCK_WANDER_PERIOD_NS", "314000000")],
    &[("SIMCUDA_CLOCK_WANDER_PPB", "2000"), ("SIMCUDA_CLOCK_WANDER_PERIOD_NS", "100000000")],
    &[("SIMCUDA_EVENT_RESOLUTION_NS", "32")],
    &[("SIMCUDA_EVENT_RESOLUTION_NS", "500")],
    &[("SIMCUDA_EVENT_RESOLUTION_NS", "1024")],
    &[("SIMCUDA_EVENT_NS", "300")],
    &[
        ("SIMCUDA_EVENT_NS", "300"),
        ("SIMCUDA_EVENT_RESOLUTION_NS", "500"),
        ("SIMCUDA_ASSUME", "submit=begin"),
    ],
    &[("SIMCUDA_DRIVER_VERSION", "12020")],
    &[("SIMCUDA_DRIVER_VERSION", "13050")],
    &[("SIMCUDA_HOST_COST", "launch=1000,record=300,query=100,elapsed=100,other=100")],
    &[("SIMCUDA_HOST_COST", "launch=2000,record=4000,query=1500,elapsed=1500")],
    &[(
        "SIMCUDA_ASSUME",
        "submit=begin,stale_handles=crash,runtime_primary=hidden,load_lock=all,other_binaries=compiled,kernel_handles=crash",
    )],
    &[(
        "SIMCUDA_ASSUME",
        "connections=streams,elapsed=multiplied,null_sync=own,free=returns,pageable_async=asynchronous",
    )],
    &[(
        "SIMCUDA_ASSUME",
        "event_query_in_capture=safe,stream_query_in_capture=safe,stream_questions_in_capture=safe,sync_in_capture=safe,question_lock=1000",
    )],
    &[(
        "SIMCUDA_ASSUME",
        "stale_handles=refused,event_needs_context=yes,free_in_capture=safe,event_sync_invalidates=no,batch_in_capture=copied,captured_kernel=kernel",
    )],
    &[(
        "SIMCUDA_ASSUME",
        "event_create_in_capture=unsafe,module_load_in_capture=safe,load_waits=no,callback_api=allowed,\
         kernel_handles=either,captured_kernel=function",
    )],
    &[(
        "SIMCUDA_ASSUME",
        "connections=streams,launch_queue=700,copy_ns=200,set_ns=0,poll_ns=200000,device_mbps=20000,load_lock=none",
    )],
    &[(
        "SIMCUDA_ASSUME",
        "connections=streams,staging_bytes=0,pinned_mbps=60000,pageable_mbps=1000,peer_mbps=3000",
    )],
    &[(
        "SIMCUDA_ASSUME",
        "programmatic_trigger=30,while_loops=1,unmap_many=refused,green_events=own,kernel_handles=crash,\
         captured_kernel=cast,runtime_kernels=hidden",
    )],
    &[("CUDA_DEVICE_MAX_CONNECTIONS", "1")],
    &[("CUDA_DEVICE_MAX_CONNECTIONS", "1"), ("SIMCUDA_ASSUME", "connections=streams")],
    &[("CUDA_DEVICE_MAX_CONNECTIONS", "2")],
    &[("CUDA_DEVICE_MAX_CONNECTIONS", "4"), ("SIMCUDA_ASSUME", "connections=streams")],
    &[("SIMCUDA_CLOCK_DRIFT_PPB", "100000")],
    &[("SIMCUDA_CLOCK_DRIFT_PPB", "-100000")],
    &[("SIMCUDA_ASSUME", "programmatic_trigger=0,launch_events=late,negative_elapsed=refused")],
];

/// Prepares a program.
pub fn program(seed: u64, breadth: Breadth, setting: Setting) -> Run {
    let steps = number("GPUSPY_RANDOM_STEPS").unwrap_or(if breadth == Breadth::Deep { 20 } else { 50 });
    let run = setting.iter().fold(Run::of("random_program"), |run, (name, value)| run.env(name, value));
    breadth.words().iter().fold(run.arg(seed.to_string()).arg(steps.to_string()), Run::arg)
}

/// Runs a program. On a busy machine a poller that gets no processor cannot enlarge a ring in time. What is dropped
/// then is counted, which is correct but proves nothing else, so such a run is repeated.
pub fn run(seed: u64, breadth: Breadth, setting: Setting) -> Done {
    let once = || program(seed, breadth, setting).observed();
    let is_whole = |done: &Done| !done.status.success() || done.report()["coverage"]["dropped"] == 0;
    let runs = std::iter::repeat_with(once).take(5).enumerate();
    let last = runs.map(|(again, done)| (again == 4 || is_whole(&done), done)).find(|(good, _)| *good);
    last.map(|(_, done)| done).expect("the program has run at least once")
}

/// Compares the report's counts with the program's.
fn check_counts(done: &Done) -> Result<(), TestCaseError> {
    let (said, report) = (done.said(), done.report());
    let coverage = &report["coverage"];
    for (key, expected) in [
        ("launches", said["launches"].clone()),
        ("captured", said["captured"].clone()),
        ("in_graphs", said["in_graphs"].clone()),
        ("dropped", json!(0)),
        ("unattributed", json!(0)),
        ("driver_hooked", json!(true)),
    ] {
        prop_assert_eq!(&coverage[key], &expected, "{}: {}", key, coverage);
    }
    let untimed: u64 = coverage["untimed"].as_object().unwrap().values().map(|n| n.as_u64().unwrap()).sum();
    let runs = coverage["runs"]["launches"].as_u64().unwrap();
    prop_assert_eq!(coverage["timed"].as_u64().unwrap() + runs + untimed, said["launches"].as_u64().unwrap());

    let launched = |kernels: &Value| {
        let mut kernels = kernels.as_object().unwrap().clone();
        kernels.retain(|_, count| *count != 0);
        json!(kernels)
    };
    prop_assert_eq!(
        launched(&json!(by_name(&report["kernels"], "name", "count"))),
        launched(&said["kernels"])
    );
    prop_assert_eq!(transfers(&report["transfers"]), transfers(&said["transfers"]));
    for (kind, expected) in said["memory"].as_object().unwrap() {
        for key in ["allocations", "frees"] {
            let ours = report["memory"]["by_kind"][kind][key].as_u64().unwrap_or(0);
            prop_assert_eq!(json!(ours), expected[key].clone(), "{} of {}", key, kind);
        }
    }
    prop_assert_eq!(json!(by_name(&report["syncs"], "api", "count")), said["syncs"].clone());
    let calls = by_name(&report["apis"], "name", "count");
    for (name, count) in known_calls(&said) {
        // Calls that failed on purpose are calls, too.
        prop_assert!(calls.get(&name).is_some_and(|&ours| ours >= count), "{name}: {count}, {calls:?}");
    }
    Ok(())
}

/// Checks memory use by kind. With several threads, whose calls overlap, the peak has to be inside its interval.
fn check_memory(done: &Done) -> Result<(), TestCaseError> {
    let (report, truth_of) = (done.report(), true_uses(&done.truth()));
    let (reported, memory) = (reported_uses(&report), &report["memory"]);
    let alone = done.said()["threads"] == 1;
    let kinds = truth_of.0.iter().map(|(kind, truth)| {
        let reported = reported.0.get(kind).copied().unwrap_or_default();
        (kind.as_str(), reported, *truth, &memory["by_kind"][kind]["peak_bytes"])
    });
    for (kind, reported, truth, peak) in kinds.chain([("all", reported.1, truth_of.1, &memory["peak_bytes"])])
    {
        let [lo, hi] = ["lo", "hi"].map(|key| peak[key].as_u64().unwrap_or_default());
        prop_assert!(lo <= truth.peak && truth.peak <= hi, "{kind}: {peak}, {truth:?}");
        // Blocks of a graph may exist side by side, or one after the other.
        let is_of_graphs = kind == "graph" || kind == "all" && truth_of.0.contains_key("graph");
        prop_assert!(!alone || is_of_graphs || lo == hi, "{kind}: {peak} of one thread");
        prop_assert_eq!(Use { peak: 0, ..reported }, Use { peak: 0, ..truth }, "{}", kind);
    }
    Ok(())
}

/// Checks that the parts of each device's span sum to it exactly.
fn check_identity(report: &Value) -> Result<(), TestCaseError> {
    let parts = [
        "compute_ns",
        "graph_ns",
        "exposed_comm_ns",
        "exposed_copy_ns",
        "undecided_ns",
        "unobserved_ns",
        "idle_ns",
    ];
    for device in report["devices"].as_array().unwrap() {
        let value =
            |key: &str| device[key]["value"].as_u64().unwrap_or_else(|| panic!("no {key} in {device}"));
        let sum: u64 = parts.iter().map(|part| value(part)).sum();
        let span = device["span_ns"].as_u64().unwrap_or_else(|| value("span_ns"));
        prop_assert_eq!(sum, span, "{}", device);
    }
    Ok(())
}

/// Checks that every interval contains the true duration.
pub fn check_intervals(compared: &[Compared]) -> Result<(), TestCaseError> {
    let violations: Vec<String> = compared.iter().filter_map(Compared::violation).collect();
    prop_assert!(
        violations.is_empty(),
        "{} of {} intervals miss the truth:\n{}",
        violations.len(),
        compared.len(),
        violations[..violations.len().min(5)].join("\n")
    );
    Ok(())
}

/// Checks everything that is said of a program that has ended well. Returns how much of it was timed, and how well.
pub fn agreement(done: &Done, setting: Setting) -> Result<String, TestCaseError> {
    prop_assert!(done.status.success(), "{}\n{}", done.status, done.stderr);
    check_counts(done)?;
    check_memory(done)?;
    check_identity(&done.report())?;
    let compared = compare(done);
    check_intervals(&compared)?;
    let wrong = runs_and_bursts::violations(done, &compared, setting);
    prop_assert!(wrong.is_empty(), "{} runs miss the truth:\n{}", wrong.len(), wrong.join("\n"));
    let wrong = report_tables::violations(done, &compared, setting);
    prop_assert!(wrong.is_empty(), "{} answers miss the truth:\n{}", wrong.len(), wrong.join("\n"));
    let errors: Vec<u64> =
        compared.iter().filter_map(Compared::timed).map(|(o, truth)| o.value().abs_diff(truth)).collect();
    let (timed, all) = (errors.len(), compared.len());
    Ok(format!("{timed} of {all} timed, median error {} ns", median(errors)))
}

/// Runs a program and checks everything. The error says how to run it again.
fn check(seed: u64, breadth: Breadth, setting: Setting) -> Result<(), TestCaseError> {
    // Print the seed, in case something below panics.
    println!("random_program {seed} with {setting:?}");
    let done = run(seed, breadth, setting);
    let keep = || {
        if let Some(folder) = std::env::var_os("GPUSPY_RANDOM_KEEP") {
            let folder = std::path::Path::new(&folder).join(seed.to_string());
            std::fs::create_dir_all(&folder).unwrap();
            for file in std::fs::read_dir(done.folder()).unwrap().map(|file| file.unwrap()) {
                std::fs::copy(file.path(), folder.join(file.file_name())).unwrap();
            }
        }
    };
    let again = || format!("GPUSPY_RANDOM_FIRST={seed} GPUSPY_RANDOM_CASES=1 (seed {seed}, {setting:?})");
    match agreement(&done, setting) {
        Ok(timed) => println!("seed {seed} {setting:?}: {timed}"),
        Err(error) => {
            keep();
            return Err(TestCaseError::fail(format!("{}: {error}", again())));
        }
    }
    Ok(())
}

/// Returns what is wrong with a program, also if a check panics.
fn failure(seed: u64, setting: Setting) -> Option<String> {
    match std::panic::catch_unwind(|| check(seed, breadth_of(seed), setting)) {
        Ok(result) => result.err().map(|error| error.to_string()),
        Err(_) => Some(format!("seed {seed}, {setting:?}: see its panic above")),
    }
}

/// The setting of a seed that was drawn at random.
pub fn setting_of(seed: u64) -> Setting {
    SETTINGS[seed as usize % SETTINGS.len()]
}

/// Returns the breadth for a seed that was drawn at random.
pub fn breadth_of(seed: u64) -> Breadth {
    match seed % 3 {
        0 => Breadth::Wide,
        1 => Breadth::Memory,
        _ => Breadth::Deep,
    }
}

fn must(result: Result<(), TestCaseError>) {
    if let Err(error) = result {
        panic!("{error}");
    }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name)
        .ok()
        .map(|text| text.parse().unwrap_or_else(|_| panic!("{name}={text} is not a number")))
}

#[test]
fn fixed_seeds_agree_with_the_truth_under_every_setting() {
    for (seed, setting) in (1..).zip(SETTINGS) {
        must(check(seed, Breadth::Wide, setting));
    }
}

#[test]
fn memory_programs_agree_with_the_truth_under_some_settings() {
    for (seed, setting) in (1..).zip(SETTINGS.iter().step_by(3)) {
        must(check(seed, Breadth::Memory, setting));
    }
}

#[test]
fn deep_programs_agree_with_the_truth_under_some_settings() {
    for (seed, setting) in (1..).zip(SETTINGS.iter().rev().step_by(3)) {
        must(check(seed, Breadth::Deep, setting));
    }
}

#[test]
fn the_settings_cover_every_value_of_every_assumption() {
    let path = CString::new(sim_lib().join("libcuda.so.1").to_str().unwrap()).unwrap();
    // SAFETY: the library has no constructors of its own, and the function takes nothing and returns a static C string.
    let text = unsafe {
        let library = libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL);
        assert!(!library.is_null());
        let function = libc::dlsym(library, c"simcudaAssumptions".as_ptr());
        assert!(!function.is_null());
        let function: extern "C" fn() -> *const libc::c_char = std::mem::transmute(function);
        CStr::from_ptr(function()).to_str().unwrap()
    };
    let assumed = SETTINGS.iter().copied().flatten().filter(|(name, _)| *name == "SIMCUDA_ASSUME");
    let set: Vec<(&str, &str)> =
        assumed.flat_map(|(_, pairs)| pairs.split(',').map(|pair| pair.split_once('=').unwrap())).collect();
    for line in text.lines() {
        // name=default  (this|that)  meaning
        let (name, rest) = line.split_once('=').unwrap();
        let (default, rest) = rest.split_once("  (").unwrap();
        let values = rest.split_once(')').unwrap().0;
        let mut ours = set.iter().filter(|(ours, _)| *ours == name).map(|(_, value)| *value);
        if values == "a number" {
            assert!(ours.any(|value| value != default), "{name} is never anything but {default}");
            continue;
        }
        for value in values.split('|').filter(|value| *value != default) {
            assert!(ours.clone().any(|ours| ours == value), "no setting has {name}={value}");
        }
    }
    assert!(text.lines().count() > 20, "{text}");
}

// The tests below run seeds that found a bug, named after the bug. Threads interleave differently in each run, so each
// seed is run a few times.

fn found(seeds: &[u64], setting: Setting) {
    for _ in 0..3 {
        seeds.iter().for_each(|&seed| must(check(seed, Breadth::Narrow, setting)));
    }
}

#[test]
fn an_end_of_capture_that_fails_leaves_other_captures_counted() {
    found(&[17, 21, 25], &[]);
}

#[test]
fn querying_a_streams_depth_invalidates_no_capture() {
    found(&[2003, 2018, 2020], &[]);
}

#[test]
fn a_call_with_a_destroyed_streams_handle_adds_no_stream() {
    found(&[2000, 2001], &[]);
}

#[test]
fn a_contexts_handles_may_be_reused_before_its_destroy_call_returns() {
    found(&[3028, 3028], &[]);
}

#[test]
fn a_stream_that_is_being_created_is_not_retired() {
    found(&[63, 72, 77], &[]);
}

#[test]
fn event_records_and_frees_on_other_streams_are_not_part_of_an_operation() {
    found(&[2017, 2032], &[]);
}

#[test]
fn a_graph_that_waits_for_its_previous_launch_occupies_its_stream() {
    found(&[2, 8, 16, 32], &[]);
}

#[test]
fn with_one_hardware_queue_an_event_waits_for_work_of_other_streams() {
    found(&[21, 45, 93], &[("CUDA_DEVICE_MAX_CONNECTIONS", "1")]);
}

#[test]
fn streams_that_share_a_hardware_queue_delay_each_other() {
    found(&[21, 45, 93, 2003, 3028], &[("CUDA_DEVICE_MAX_CONNECTIONS", "2")]);
    found(&[21, 45, 93, 2003, 3028], &[("CUDA_DEVICE_MAX_CONNECTIONS", "5")]);
}

#[test]
fn events_inside_graphs_change_nothing_but_time() {
    found(&[2, 8, 16, 2003, 3028], &[("GPUSPY_GRAPH", "nodes")]);
    const STRICT: &str = "event_create_in_capture=unsafe,event_needs_context=yes";
    found(&[17, 25], &[("GPUSPY_GRAPH", "nodes"), ("SIMCUDA_ASSUME", STRICT)]);
}

#[test]
fn coarse_event_timestamps_widen_the_interval() {
    found(&[3, 4], &[("SIMCUDA_EVENT_RESOLUTION_NS", "500")]);
    found(&[3, 4], &[("SIMCUDA_EVENT_RESOLUTION_NS", "32")]);
    found(&[3, 4, 5, 6], &[("SIMCUDA_EVENT_RESOLUTION_NS", "1024")]);
}

#[test]
fn the_gpu_time_of_an_event_is_not_counted_as_the_operations() {
    found(&[5, 21], &[("SIMCUDA_EVENT_NS", "300")]);
    found(&[5, 6], &[("SIMCUDA_EVENT_NS", "2000")]);
}

#[test]
fn random_seeds_agree_with_the_truth_under_random_settings() {
    let cases = number("GPUSPY_RANDOM_CASES");
    if let Some(first) = number("GPUSPY_RANDOM_FIRST") {
        let all = first..first + cases.unwrap_or(1);
        let failed: Vec<String> = all.filter_map(|seed| failure(seed, setting_of(seed))).collect();
        assert!(failed.is_empty(), "{} programs:\n{}", failed.len(), failed.join("\n"));
        return;
    }
    let config = Config {
        cases: cases.unwrap_or(6) as u32,
        max_shrink_iters: 0,
        failure_persistence: None,
        ..Config::default()
    };
    let seeds = (0..SETTINGS.len() as u64 * 1_000_000).prop_map(|seed| (seed, setting_of(seed)));
    TestRunner::new(config).run(&seeds, |(seed, setting)| check(seed, breadth_of(seed), setting)).unwrap();
}
