//! Deep streams: programs that keep their launch queues full because the GPU is the bottleneck are reported as
//! accurately as others.

use crate::compare::by_name;
use gpuspy_tests::truth::Operation;
use gpuspy_tests::{Done, Run, until_one_is_good};
use serde_json::Value;
use std::collections::BTreeMap;

/// Returns the time in which at least one of the operations runs, ns.
fn union(operations: &[Operation]) -> u64 {
    let mut stretches: Vec<(u64, u64)> = operations.iter().map(|o| o.interval).collect();
    stretches.sort_unstable();
    let (mut sum, mut until) = (0, 0);
    for (begin, end) in stretches {
        sum += end.saturating_sub(begin.max(until));
        until = until.max(end);
    }
    sum
}

fn number(of: &Value) -> f64 {
    of.as_f64().unwrap_or_else(|| panic!("{of} is not a number"))
}

/// Compares the report of a GPU-bound program with what happened. The bounds must contain the truth in every run; the
/// result says whether the best estimates are close to it.
fn is_reported_busy(done: &Done, setting: &str) -> Result<(), String> {
    let (report, truth) = (done.report(), done.truth().operations());
    let mut wrong = Vec::new();
    let device = &report["devices"][0];
    let busy = union(&truth) as f64;
    let compute = &device["compute_ns"];
    let [told, lo, hi] = ["value", "lo", "hi"].map(|end| number(&compute[end]));
    assert!(lo <= 1.001 * busy && busy <= 1.001 * hi, "{setting}: busy for {busy}, said {compute}");
    if (told / busy - 1.0).abs() > 0.04 || lo < 0.9 * busy {
        wrong.push(format!("busy for {busy}, said {compute}"));
    }
    if number(&device["undecided_ns"]["value"]) > 0.05 * busy {
        wrong.push(format!("undecided {}", device["undecided_ns"]));
    }
    let mut kernels: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for op in &truth {
        let (count, sum) = kernels.entry(&op.name).or_default();
        *count += 1;
        *sum += op.interval.1 - op.interval.0;
    }
    for kernel in report["kernels"].as_array().unwrap() {
        let (count, sum) = kernels[kernel["name"].as_str().unwrap()];
        assert_eq!(kernel["count"], count, "{setting}");
        let (average, told) = (sum as f64 / count as f64, number(&kernel["avg_ns"]["value"]));
        if (told / average - 1.0).abs() > 0.03 {
            wrong.push(format!("{average} on average, said {kernel}"));
        }
    }
    let coverage = &report["coverage"];
    let (launches, runs) = (number(&coverage["launches"]), number(&coverage["runs"]["launches"]));
    let untimed: f64 = coverage["untimed"].as_object().unwrap().values().map(number).sum();
    assert_eq!(launches, number(&coverage["timed"]) + runs + untimed, "{setting}: {coverage}");
    if runs == 0.0 {
        wrong.push(format!("no runs: {coverage}"));
    }
    if wrong.is_empty() { Ok(()) } else { Err(format!("{setting}: {}", wrong.join("; "))) }
}

fn took(done: &Done) -> u64 {
    done.said()["took_ns"].as_u64().unwrap()
}

/// Ways to make a stream deep: the kind of stream, how many launches, and after how many the program waits.
const LOADS: [[&str; 3]; 6] = [
    ["one", "6000", "0"],
    ["legacy", "6000", "0"],
    ["two", "6000", "0"],
    ["one", "6000", "3000"],
    ["legacy", "6000", "3000"],
    ["two", "6000", "3000"],
];

fn run(load: [&str; 3]) -> Run {
    load.iter().fold(Run::of("gpu_bound"), |run, argument| run.arg(argument))
}

#[test]
fn a_gpu_bound_program_is_reported_busy() {
    for load in LOADS {
        for timing in ["exact", "auto"] {
            until_one_is_good(|| {
                let done = run(load).observed_with(&["--timing", timing]).succeeded();
                let coverage = done.report()["coverage"].clone();
                let timed = number(&coverage["timed"]) / number(&coverage["launches"]);
                let is_timed = timing == "auto" || timed >= 0.1;
                is_reported_busy(&done, &format!("{load:?}, {timing}"))
                    .and_then(|()| is_timed.then_some(()).ok_or_else(|| format!("{load:?}: {coverage}")))
            });
        }
    }
}

/// Windows that open on a full queue, and the work that a pause leaves in it. Before, a tenth of the time read as
/// undecided or idle.
#[test]
fn a_busy_gpu_is_reported_busy_in_sampling_pauses_too() {
    for mode in ["one", "legacy", "two"] {
        until_one_is_good(|| {
            let done = run([mode, "30000", "0"]).auto("5").observed().succeeded();
            let (report, busy) = (done.report(), union(&done.truth().operations()) as f64);
            assert!(number(&report["coverage"]["untimed"]["budget"]) > 0.0, "{mode}: {}", report["coverage"]);
            let compute = &report["devices"][0]["compute_ns"];
            let [told, lo, hi] = ["value", "lo", "hi"].map(|end| number(&compute[end]));
            assert!(lo <= busy && busy <= 1.001 * hi, "{mode}: {compute}");
            let is_good = (told / busy - 1.0).abs() <= 0.04;
            is_good.then_some(()).ok_or_else(|| format!("{mode}: busy for {busy}, said {compute}"))
        });
    }
}

#[test]
fn a_gpu_bound_program_is_not_slowed_down() {
    for load in [LOADS[0], LOADS[2]] {
        // Compares the shortest of alternating runs: other load on the machine makes each run longer and none shorter.
        let (mut plain, mut ours, mut pressure) = (u64::MAX, u64::MAX, 1.0_f64);
        let is_no_slower = (0..40).any(|_| {
            plain = plain.min(took(&run(load).plain().succeeded()));
            let done = run(load).observed().succeeded();
            pressure = pressure.min(done.pressure);
            ours = ours.min(took(&done));
            ours as f64 <= 1.05 * plain as f64
        });
        // The program and our poller need two processors. Where there never were two, what one does the other waits for: for
        // so much of the time at least, something waited for a processor in every run.
        let waited = pressure * ours as f64;
        assert!(
            is_no_slower || ours as f64 - waited <= 1.05 * plain as f64,
            "{load:?} takes {ours} ns with gpuspy and {plain} ns without, pressure {pressure}"
        );
    }
}

#[test]
fn a_program_that_fills_its_queue_behind_its_own_wait_is_not_blocked() {
    // A spinning kernel looks like any other; kernels that still run before it let the agent's events be denser at
    // first.
    for (gate, ahead) in [
        ("value", "0"),
        ("value", "100"),
        ("host-function", "0"),
        ("host-function", "100"),
        ("among-functions", "0"),
        ("among-functions", "100"),
        ("spinning", "0"),
    ] {
        let done = Run::of("deep_queue").arg(gate).arg("900").arg(ahead).observed().succeeded();
        assert_eq!(
            done.report()["coverage"]["launches"],
            done.said()["launches"],
            "{gate}, {ahead} launches ahead"
        );
    }
}

#[test]
fn launch_queues_of_other_lengths_are_not_overfilled() {
    for (scale, queued) in [("0.25x", "225"), ("0.5x", "450"), ("2x", "1800"), ("4x", "3600")] {
        let run = Run::of("deep_queue").arg("value").arg(queued).env("CUDA_SCALE_LAUNCH_QUEUES", scale);
        let done = run.observed().succeeded();
        assert_eq!(done.report()["coverage"]["launches"], done.said()["launches"], "{scale}");
    }
}

#[test]
fn each_kernel_that_first_appears_on_a_deep_stream_is_timed() {
    let done = run(LOADS[0]).observed().succeeded();
    let timed = by_name(&done.report()["kernels"], "name", "timed");
    assert!(timed.values().all(|timed| *timed >= 200), "{timed:?}");
}

#[test]
fn a_program_that_launches_only_programmatically_is_timed_in_bursts() {
    for stream in ["own", "legacy"] {
        until_one_is_good(|| {
            let done = Run::of("programmatic_only").arg(stream).observed().succeeded();
            let (report, truth) = (done.report(), done.truth());
            let coverage = &report["coverage"];
            let bursts = number(&coverage["bursts"]["launches"]);
            assert!(bursts >= 0.99 * number(&done.said()["launches"]), "{stream}: {coverage}");
            let busy = union(&truth.operations()) as f64;
            let compute = &report["devices"][0]["compute_ns"];
            let [lo, value, hi] = ["lo", "value", "hi"].map(|key| number(&compute[key]));
            assert!(lo <= busy && busy <= hi, "{stream}: the GPU was busy for {busy} ns, reported {compute}");
            let cut = truth.of("kernel").filter(|kernel| kernel["cut"] == true).count();
            assert!(cut <= 1100 / 256 + 1, "{stream}: {cut} launches waited for an event of the agent's");
            // The GPU waits while the host has lost its processor, which nothing inside a burst can show: on a busy machine
            // less is certain, and on a very busy one nothing.
            (lo >= 0.5 * (1.0 - done.pressure) * busy && value >= 0.96 * busy)
                .then_some(())
                .ok_or_else(|| format!("{stream}: the GPU was busy for {busy} ns, reported {compute}"))
        });
    }
}

#[test]
fn host_stalls_without_a_wait_are_reported_as_gaps() {
    for timing in ["exact", "auto"] {
        let done = Run::of("host_stalls").observed_with(&["--timing", timing]).succeeded();
        let (report, truth) = (done.report(), done.truth().operations());
        let busy = union(&truth) as f64;
        let compute = &report["devices"][0]["compute_ns"];
        assert!((number(&compute["value"]) / busy - 1.0).abs() <= 0.1, "{timing}: {busy}, said {compute}");
        assert!(number(&report["gaps"]["count"]) >= 40.0, "{timing}: {}", report["gaps"]);
    }
}

/// A host function keeps a stream from flowing, and whatever was launched behind one on a deep stream had no time: 30 % of the
/// time was undecided.
#[test]
fn gaps_at_host_functions_inside_a_deep_stream_are_seen() {
    for timing in ["exact", "auto"] {
        until_one_is_good(|| {
            let run = Run::of("deep_host_functions").arg("3000").arg("30");
            let done = run.observed_with(&["--timing", timing]).succeeded();
            let (report, truth) = (done.report(), done.truth().operations());
            let (device, busy) = (&report["devices"][0], union(&truth) as f64);
            let [told, lo, hi] = ["value", "lo", "hi"].map(|end| number(&device["compute_ns"][end]));
            assert!(lo <= 1.001 * busy && busy <= 1.001 * hi, "{timing}: busy for {busy}, said {device}");
            let is_at_function = |pair: &&[Operation]| pair[1].interval.0 - pair[0].interval.1 > 250_000;
            let waits = truth[1..].windows(2).filter(is_at_function);
            let waits: u64 = waits.map(|pair| pair[1].interval.0 - pair[0].interval.1).sum();
            let causes = report["idle"]["by_cause"].as_array().unwrap();
            let waited = causes.iter().filter(|row| row["cause"] == "host_callback");
            let waited: f64 = waited.map(|row| number(&row["total_ns"]["value"])).sum();
            let is_good = (told / busy - 1.0).abs() <= 0.04
                && number(&device["undecided_ns"]["value"]) <= 0.05 * busy
                && (waited / waits as f64 - 1.0).abs() <= 0.1;
            let said = || format!("{timing}: busy for {busy}, waits {waits}, said {waited}, {device}");
            is_good.then_some(()).ok_or_else(said)
        });
    }
}

/// 67 % of the time was undecided, because a run that a memset on the default stream lies in may contain other work.
#[test]
fn streams_that_the_default_stream_ties_together_are_busy() {
    until_one_is_good(|| {
        let done = Run::of("legacy_between").observed().succeeded();
        let (report, truth) = (done.report(), done.truth().operations());
        let kernels: Vec<Operation> = truth.into_iter().filter(|op| op.name.contains("us")).collect();
        let (device, busy) = (&report["devices"][0], union(&kernels) as f64);
        let [told, lo, hi] = ["value", "lo", "hi"].map(|end| number(&device["compute_ns"][end]));
        assert!(lo <= 1.001 * busy && busy <= 1.001 * hi, "busy for {busy}, said {device}");
        let is_good =
            (told / busy - 1.0).abs() <= 0.05 && number(&device["undecided_ns"]["value"]) <= 0.05 * busy;
        is_good.then_some(()).ok_or_else(|| format!("busy for {busy}, said {device}"))
    });
}

/// 42 % of the time was undecided, and there was no verdict, because copies lie in a run on a stream that is too deep for events around
/// them.
#[test]
fn kernels_between_copies_on_a_deep_stream_are_busy() {
    for timing in ["auto", "exact"] {
        until_one_is_good(|| {
            let done = Run::of("deep_copies").observed_with(&["--timing", timing]).succeeded();
            let (report, truth) = (done.report(), done.truth().operations());
            let kernels: Vec<Operation> = truth.into_iter().filter(|op| op.name.contains("us")).collect();
            let (device, busy) = (&report["devices"][0], union(&kernels) as f64);
            let [told, lo, hi] = ["value", "lo", "hi"].map(|end| number(&device["compute_ns"][end]));
            assert!(lo <= 1.001 * busy && busy <= 1.001 * hi, "{timing}: busy for {busy}, said {device}");
            let undecided = number(&device["undecided_ns"]["value"]);
            let is_good = (told / busy - 1.0).abs() <= 0.04 && undecided <= 0.05 * busy;
            let said = || format!("{timing}: busy for {busy}, said {device}");
            is_good.then_some(()).ok_or_else(said)
        });
    }
}
