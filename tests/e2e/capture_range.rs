//! `--capture-range`: the report covers exactly what happened inside the ranges, as it truly was, and knows what went
//! on before as far as it matters.

use crate::compare::{by_name, slack, transfers};
use gpuspy_collector::trace::TraceReader;
use gpuspy_collector::trace::record::Body;
use gpuspy_tests::truth::Operation;
use gpuspy_tests::{Done, Run, gpuspy, report, until_one_is_good};
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;

const INSIDE: u64 = 100;
const MIB: u64 = 1 << 20;
const SECOND: u64 = 1_000_000_000;

/// Returns each range's start and end in host ns, from the trace.
fn ranges(trace: &Path) -> Vec<(u64, u64)> {
    let mut reader = TraceReader::open(trace).unwrap();
    let ended = reader.status().unwrap().ended;
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    for record in reader.records() {
        match record.body {
            Body::CaptureEdge { begins: true } => ranges.push((record.at, ended)),
            Body::CaptureEdge { begins: false } => ranges.last_mut().unwrap().1 = record.at,
            _ => {}
        }
    }
    ranges
}

fn is_in(ranges: &[(u64, u64)], moment: u64) -> bool {
    ranges.iter().any(|(from, to)| *from <= moment && moment < *to)
}

/// Returns the host ns, within ranges, in which at least one of these operations ran.
fn busy(ranges: &[(u64, u64)], operations: &[Operation]) -> u64 {
    let within = |(from, to): (u64, u64)| {
        let clipped = operations.iter().map(|op| (op.interval.0.max(from), op.interval.1.min(to)));
        let mut clipped: Vec<(u64, u64)> = clipped.filter(|(begin, end)| begin < end).collect();
        clipped.sort_unstable();
        let mut passed = from;
        let mut sum = 0;
        for (begin, end) in clipped {
            sum += end.saturating_sub(begin.max(passed));
            passed = passed.max(end);
        }
        sum
    };
    ranges.iter().copied().map(within).sum()
}

fn part(device: &Value, name: &str) -> [u64; 3] {
    ["lo", "value", "hi"].map(|bound| device[name][bound].as_u64().unwrap())
}

/// Fails the test unless the GPU's time is that of the ranges and each part's interval contains the truth.
fn gpu_time_contains_the_truth(report: &Value, ranges: &[(u64, u64)], operations: &[Operation]) {
    let device = &report["devices"][0];
    let names = ["compute_ns", "exposed_comm_ns", "exposed_copy_ns", "graph_ns", "idle_ns", "undecided_ns"];
    let sum: u64 = names.iter().map(|name| part(device, name)[1]).sum();
    let wall: u64 = ranges.iter().map(|(from, to)| to - from).sum();
    assert_eq!(
        (sum, &device["span_ns"], &report["processes"][0]["wall_ns"]),
        (wall, &json!(wall), &json!(wall))
    );
    let slack = slack(wall) + 100;
    let holds = |name: &str, truth: u64| {
        let [lo, value, hi] = part(device, name);
        assert!(
            lo <= truth + slack && truth <= hi + slack,
            "{name}: the true value {truth} is outside [{lo}, {hi}]"
        );
        value
    };
    let kernels: Vec<Operation> = operations.iter().filter(|op| op.kind == "kernel").cloned().collect();
    let idle = wall - busy(ranges, operations);
    holds("compute_ns", busy(ranges, &kernels));
    let reported = holds("idle_ns", idle);
    assert!(
        reported <= idle + wall / 8,
        "{reported} ns are reported idle instead of {idle}: the GPU was still busy with earlier work"
    );
}

/// Checks everything that the report of two ranges of `capture_range` says.
fn check_two_ranges(done: &Done) {
    let (report, trace) = (done.report(), done.trace());
    let ranges = ranges(&trace);
    let operations = done.truth().operations();
    let inside: Vec<&Operation> = operations.iter().filter(|op| is_in(&ranges, op.called)).collect();
    let kernels: Vec<&Operation> = inside.iter().copied().filter(|op| op.kind == "kernel").collect();
    assert_eq!((ranges.len(), kernels.len() as u64, inside.len() as u64), (2, 2 * INSIDE, 2 * (INSIDE + 15)));
    let coverage = &report["coverage"];
    let all = done.truth().enqueued("kernel") as u64;
    assert_eq!((&coverage["launches"], &coverage["timed"]), (&json!(2 * INSIDE), &json!(2 * INSIDE)));
    assert_eq!(coverage["outside_range"]["launches"], all - 2 * INSIDE);
    assert_eq!(coverage["outside_range"]["others"], 3, "one memset for each part outside");
    assert_eq!((&coverage["dropped"], &coverage["stray_range_ends"]), (&json!(0), &json!(0)));
    let reported = &report["processes"][0]["captured"];
    assert_eq!(reported["count"], 2);
    assert!(reported["run_ns"].as_u64() > report["processes"][0]["wall_ns"].as_u64());
    // Each range lies between what the program measured inside it and the entries of the calls that bound it.
    let seen = done.said()["ranges_ns"]
        .as_array()
        .unwrap()
        .iter()
        .map(|ns| ns.as_u64().unwrap())
        .collect::<Vec<_>>();
    for ((from, to), seen) in ranges.iter().zip(seen) {
        assert!(to - from + slack(seen) >= seen, "{from} to {to}: {seen}");
    }
    assert_eq!(by_name(&report["kernels"], "name", "count"), [("inside_10us".to_owned(), 2 * INSIDE)].into());
    let truth: u64 = kernels.iter().map(|op| op.interval.1 - op.interval.0).sum();
    let [lo, _, hi] = part(&report["kernels"][0], "total_ns");
    assert!(
        lo <= truth + slack(truth) && truth <= hi + slack(truth),
        "the true value {truth} is outside [{lo}, {hi}]"
    );
    let copies = ("HtoD".to_owned(), "pageable".to_owned());
    let sets = ("memset".to_owned(), "none".to_owned());
    assert_eq!(transfers(&report["transfers"]), [(copies, (20, 20 * 4096)), (sets, (10, 10 * 4096))].into());
    let apis = by_name(&report["apis"], "name", "count");
    assert!(!apis.keys().any(|name| name.contains("Profiler")), "{apis:?}");
    assert_eq!((apis["cuLaunchKernel"], apis["cuCtxSynchronize"]), (2 * INSIDE, 2));
    let memory = &report["memory"];
    assert_eq!(
        memory["peak_bytes"]["value"],
        12 * MIB,
        "memory from before the range counts, memory from after it does not"
    );
    assert_eq!(
        (&memory["live_bytes"], &memory["allocations"], &memory["frees"]),
        (&json!(8 * MIB), &json!(2), &json!(2))
    );
    gpu_time_contains_the_truth(&report, &ranges, &operations);
}

fn observed(how: &str, range: &str, outside: &str) -> Done {
    Run::of("capture_range")
        .arg(how)
        .arg(outside)
        .arg("2")
        .observed_with(&["--capture-range", range])
        .succeeded()
}

#[test]
fn the_profiler_api_begins_and_ends_a_range() {
    for how in ["driver", "runtime"] {
        let done = observed(how, "profiler-api", "1000");
        check_two_ranges(&done);
        // Nor is the range longer than the time from one call to the other.
        let truth = done.truth();
        let mut calls: Vec<u64> = truth.of("profiler").map(|call| call["begin"].as_u64().unwrap()).collect();
        calls.sort_unstable();
        assert_eq!(calls.len(), 4);
        for ((from, to), calls) in ranges(&done.trace()).iter().zip(calls.chunks(2)) {
            let most = calls[1] - calls[0];
            assert!(to - from <= most + slack(most), "{how}: {from} to {to}, {calls:?}");
        }
    }
}

#[test]
fn nvtx_ranges_are_captured_by_name_and_domain() {
    for (how, range) in
        [("push", "nvtx:it"), ("start", "nvtx:it"), ("domain", "nvtx:it@a domain"), ("domain", "nvtx:it@*")]
    {
        let done = observed(how, range, "300");
        check_two_ranges(&done);
        let names = by_name(&done.report()["ranges"], "name", "count");
        assert_eq!(names.get("it"), Some(&2), "the range itself is reported: {how}, {names:?}");
    }
}

#[test]
fn a_range_that_never_begins_is_reported_in_a_sentence() {
    let cases = [
        ("nothing", "profiler-api", "called neither cudaProfilerStart nor cuProfilerStart"),
        ("domain", "nvtx:it", "opened no NVTX range of this name"),
        ("push", "nvtx:it@a domain", "opened no NVTX range of this name"),
        ("push", "delay=600", "the program ended before"),
    ];
    for (how, range, sentence) in cases {
        let done = observed(how, range, "300");
        let screen = done.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            screen.contains("the capture range never started: ") && screen.contains(sentence),
            "{range}: {}",
            done.stderr
        );
        assert!(!screen.contains("Kernels"), "{}", done.stderr);
        let report = done.report();
        assert_eq!(
            (&report["processes"][0]["captured"]["count"], &report["processes"][0]["wall_ns"]),
            (&json!(0), &json!(0))
        );
        assert_eq!(
            (&report["coverage"]["launches"], &report["kernels"], &report["apis"]),
            (&json!(0), &json!([]), &json!([]))
        );
        assert_eq!(report["coverage"]["outside_range"]["launches"], done.truth().enqueued("kernel"));
        let export = Command::new(gpuspy()).arg("export").arg(done.trace()).output().unwrap();
        assert!(String::from_utf8_lossy(&export.stderr).contains("the export is empty"), "{range}");
    }
}

#[test]
fn a_short_range_of_a_long_run_makes_a_small_trace() {
    let bytes = |options: &[&str]| {
        let run = Run::of("capture_range").arg("driver").arg("100000").env("SIMCUDA_TRUTH", "");
        let done = run.env("GPUSPY_TIMING", "auto").observed_with(options).succeeded();
        (std::fs::metadata(done.trace()).unwrap().len(), done.report())
    };
    let (whole, _) = bytes(&["--no-report"]);
    let (part, report) = bytes(&["--no-report", "--capture-range", "profiler-api"]);
    assert_eq!(report["coverage"]["outside_range"]["launches"], 200_001);
    assert_eq!(
        (&report["coverage"]["launches"], &report["coverage"]["timed"]),
        (&json!(INSIDE), &json!(INSIDE))
    );
    // Half of the range's trace is what is written as time passes, which is more where other programs use the processor; of
    // the whole trace a fifth at least is there because launches are timed, which are fewer then.
    assert!(part * 5 < whole, "the trace of the range has {part} bytes, the whole one {whole}");
}

#[test]
fn overlapping_ranges_of_several_threads_count_as_one() {
    let done = Run::of("capture_range").arg("threads").arg("300");
    let done = done.observed_with(&["--capture-range", "nvtx:it"]).succeeded();
    let (report, ranges) = (done.report(), ranges(&done.trace()));
    assert_eq!(ranges.len(), 1, "overlapping ranges are one, although one thread ended with its own open");
    assert_eq!(report["coverage"]["launches"], 3 * INSIDE);
    assert_eq!(by_name(&report["kernels"], "name", "count"), [("inside_10us".to_owned(), 3 * INSIDE)].into());
    gpu_time_contains_the_truth(&report, &ranges, &done.truth().operations());
}

#[test]
fn a_range_pushed_before_the_first_cuda_call_starts_with_that_call() {
    let done = Run::of("capture_range").arg("before").arg("300");
    let done = done.observed_with(&["--capture-range", "nvtx:it"]).succeeded();
    let report = done.report();
    assert_eq!(report["coverage"]["launches"], 300 + 1 + INSIDE);
    assert_eq!(report["coverage"]["outside_range"]["launches"], 300);
    assert_eq!(by_name(&report["apis"], "name", "count").get("cuModuleLoadData"), Some(&3));
}

#[test]
fn a_forked_child_inherits_its_parents_open_range() {
    let done = Run::of("capture_range").arg("fork").arg("300");
    let done = done.observed_with(&["--capture-range", "nvtx:it"]).succeeded();
    let report = report(&done.folder().join("trace.gspy"));
    let processes = report["processes"].as_array().unwrap();
    assert_eq!(processes.len(), 2);
    for process in processes {
        assert_eq!(
            (&process["captured"]["count"], &process["launches"]),
            (&json!(1), &json!(300 + 1 + INSIDE))
        );
    }
    assert_eq!(report["coverage"]["outside_range"]["launches"], 600);
}

#[test]
fn a_delay_counts_from_the_first_call_and_ends_in_time() {
    // A program that gets no processor may launch little in those 40 ms.
    until_one_is_good(|| {
        let done = Run::of("capture_range").arg("nothing").arg("20000");
        let done = done.observed_with(&["--capture-range", "delay=0.05,duration=0.04"]).succeeded();
        let (report, trace) = (done.report(), done.trace());
        let (ranges, began) = (ranges(&trace), TraceReader::open(&trace).unwrap().status().unwrap().began);
        let [(from, to)] = ranges.as_slice() else { panic!("{ranges:?}") };
        let (delay, both) = (SECOND / 20, 9 * SECOND / 100);
        assert!(from + SECOND / 1000 >= began + delay && *to >= began + both - SECOND / 1000);
        let operations = done.truth().operations();
        let inside =
            operations.iter().filter(|op| op.kind == "kernel" && is_in(&ranges, op.called)).count() as i64;
        let reported = report["coverage"]["launches"].as_i64().unwrap();
        // At the end of a range, a call inside it does not mean that its work started on the GPU inside it.
        assert!((inside - reported).abs() <= 110, "{inside}, {reported}");
        gpu_time_contains_the_truth(&report, &ranges, &operations);
        let went_on = operations.iter().any(|op| op.called >= *to);
        (went_on && inside > 100).then_some(()).ok_or_else(|| format!("{inside} inside, went on: {went_on}"))
    });
}

#[test]
fn the_first_phase_of_the_budget_begins_with_the_range() {
    let run = Run::of("capture_range").arg("runtime").arg("12000").arg("2").auto("1");
    let done = run.observed_with(&["--capture-range", "profiler-api"]).succeeded();
    check_two_ranges(&done);
}

#[test]
fn untimed_launches_are_counted_only_inside_the_range() {
    let run = Run::of("capture_range").arg("driver").arg("1000").arg("2").env("GPUSPY_TIMING", "off");
    let report = run.observed_with(&["--capture-range", "profiler-api"]).succeeded().report();
    assert_eq!(
        (&report["coverage"]["launches"], &report["coverage"]["timed"]),
        (&json!(2 * INSIDE), &json!(0))
    );
    assert_eq!(report["coverage"]["untimed"]["off"], 2 * INSIDE);
}

#[test]
fn bare_preload_needs_only_the_environment_variable() {
    let run = Run::of("capture_range").arg("driver").arg("1000").arg("2");
    check_two_ranges(&run.env("GPUSPY_CAPTURE_RANGE", "profiler-api").preloaded().succeeded());
}

#[test]
fn an_invalid_range_is_refused_by_run_and_reported_under_bare_preload() {
    for bad in ["", "profiler", "nvtx:", "delay=soon"] {
        let done = Run::of("plain_work").observed_with(&["--capture-range", bad]);
        assert_eq!(done.status.code(), Some(2), "{bad}: {}", done.stderr);
        assert!(done.stderr.contains("one of profiler-api, nvtx:NAME"), "{}", done.stderr);
    }
    let report =
        Run::of("plain_work").env("GPUSPY_CAPTURE_RANGE", "profiler").preloaded().succeeded().report();
    assert_eq!(report["coverage"]["launches"], 200, "the whole run is reported");
    let note = report["processes"][0]["notes"][0].as_str().unwrap();
    assert!(note.starts_with("GPUSPY_CAPTURE_RANGE is not one of"), "{note}");
}

#[test]
fn filters_apply_within_ranges_and_screen_and_export_cover_only_the_ranges() {
    let done = observed("driver", "profiler-api", "1000");
    let (trace, ranges) = (done.trace(), ranges(&done.trace()));
    let began = TraceReader::open(&trace).unwrap().status().unwrap().began;
    let asked = |arguments: &[&str]| {
        let output = Command::new(gpuspy()).args(arguments).arg(&trace).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let second = format!("{}ns", ranges[1].0 - 1_000 - began);
    let report: Value = serde_json::from_str(&asked(&["report", "--json", "--since", &second])).unwrap();
    assert_eq!(
        (&report["coverage"]["launches"], &report["processes"][0]["captured"]["count"]),
        (&json!(INSIDE), &json!(1))
    );
    assert_eq!(report["processes"][0]["wall_ns"], ranges[1].1 - ranges[1].0);
    let screen = asked(&["report", "--section", "all"]);
    let line = screen.lines().find(|line| line.starts_with("Range ")).unwrap();
    assert!(line.contains("profiler-api: 2 ranges, ") && line.contains(" ms of "), "{line}");
    assert!(!screen.contains("outside_2us"), "{screen}");
    let export: Value = serde_json::from_str(&asked(&["export", "--to", "chrome"])).unwrap();
    let events = export["traceEvents"].as_array().unwrap();
    let of = |category: &str| events.iter().filter(|event| event["cat"] == category).count() as u64;
    assert_eq!((of("kernel"), of("gpu_memcpy"), of("gpu_memset")), (2 * INSIDE, 20, 10));
    assert_eq!(asked(&["report", "--operations"]).lines().count() as u64, 2 * (INSIDE + 15));
}
