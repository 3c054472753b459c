//! The sampling pauses of `--timing auto`: their GPU time follows from what was launched in them, whatever the host did
//! meanwhile.

use crate::compare::slack;
use gpuspy_tests::{Done, Run, until_one_is_good};
use serde_json::Value;

/// Runs the client for `ms`, with this many stalls of this length, and stopped once for `stop_ms`.
fn run(ms: &str, stalls: &str, stall_ms: &str, stop_ms: &str) -> Done {
    let client = Run::of("steady_with_stalls").arg(ms).arg(stalls).arg(stall_ms).arg(stop_ms).auto("5");
    client.observed_with(&["--quiet"]).succeeded()
}

/// Returns the true time of its kernels. They run on one stream, so this is how long the GPU was busy with them.
fn truth(done: &Done) -> u64 {
    let kernels = done.truth().operations().into_iter().filter(|operation| operation.kind == "kernel");
    kernels.map(|kernel| kernel.interval.1 - kernel.interval.0).sum()
}

fn bounds(estimate: &Value) -> [f64; 3] {
    ["lo", "value", "hi"].map(|key| estimate[key].as_f64().unwrap())
}

/// Checks that the GPU row's compute time contains the truth and is the total of the kernel table.
fn compute_is_what_ran(done: &Done, report: &Value) {
    let truth = truth(done);
    let compute = bounds(&report["devices"][0]["compute_ns"]);
    let table: f64 =
        report["kernels"].as_array().unwrap().iter().map(|row| bounds(&row["total_ns"])[1]).sum();
    let undecided = bounds(&report["devices"][0]["undecided_ns"])[1];
    println!("truth {truth}, compute {compute:?}, kernels {table}, undecided {undecided}");
    assert_eq!(
        report["devices"][0]["compute_ns"]["kind"], "extrapolated",
        "most of the time passed in pauses"
    );
    let (lo, hi) = (compute[0] - slack(truth) as f64, compute[2] + slack(truth) as f64);
    assert!((lo..=hi).contains(&(truth as f64)), "{truth} is not in {compute:?}");
    assert!((compute[1] - table).abs() < 0.03 * table + undecided, "{compute:?} beside {table}");
    // Launches on a drained stream are known less exactly the longer the host is kept from its processor.
    let off = 0.3 + done.pressure;
    assert!((compute[1] / truth as f64 - 1.0).abs() < off, "{compute:?} for {truth}, {}", done.pressure);
}

/// An earlier version reported 1.83 s of compute beside kernels of 3.73 s: timing costs the host some time, so the GPU is
/// idle more in windows than in pauses, and pauses were assumed to be like windows.
#[test]
fn the_gpu_row_and_the_kernel_table_agree_for_steady_work() {
    let done = run("1500", "0", "0", "0");
    compute_is_what_ran(&done, &done.report());
}

/// A process that was stopped for 3 s computed for 1.35 s; before, 2.04 s were reported.
#[test]
fn time_in_which_the_program_is_stopped_is_not_compute_time() {
    let done = run("1200", "0", "0", "3000");
    compute_is_what_ran(&done, &done.report());
}

/// The host did nothing for 1.5 s, twice. Before, compute was reported as 0.25 s of 1.51 s, and the largest gap as 16
/// ms.
#[test]
fn a_host_stall_during_a_sampling_pause_is_reported_as_a_gap() {
    let done = run("1200", "2", "1500", "0");
    let report = done.report();
    compute_is_what_ran(&done, &report);
    let mut spans: Vec<(u64, u64)> = done.truth().operations().iter().map(|op| op.interval).collect();
    spans.sort_unstable();
    let mut truths: Vec<(u64, u64)> =
        spans.windows(2).map(|two| (two[1].0.saturating_sub(two[0].1), two[0].1)).collect();
    truths.sort_unstable_by_key(|gap| std::cmp::Reverse(*gap));
    truths.truncate(2);
    // Both are about as long, so they are compared in the order of time.
    truths.sort_unstable_by_key(|(_, start)| *start);
    let mut gaps: Vec<&Value> = report["gaps"]["largest"].as_array().unwrap().iter().take(2).collect();
    gaps.sort_unstable_by_key(|gap| gap["start_ns"].as_u64());
    for (gap, (truth, _)) in gaps.into_iter().zip(truths) {
        let [lo, value, hi] = bounds(&gap["duration_ns"]);
        println!("a gap of {truth} reported as {lo} .. {value} .. {hi}");
        let within = (lo - slack(truth) as f64)..=(hi + slack(truth) as f64);
        assert!(truth > 1_400_000_000 && within.contains(&(truth as f64)), "{truth}: {gap}");
        assert!((value / truth as f64 - 1.0).abs() < 0.05, "{truth}: {gap}");
    }
}

/// A kernel of another stream in a pause, which the program waited for by an event, counted as running from then on:
/// 0.1 of 1.6 s were observed, though the program slept for 0.9 s.
#[test]
fn work_in_a_pause_is_over_with_a_wait_for_an_event_behind_it() {
    let done = Run::of("side_stream").arg("1500").auto("2").observed_with(&["--quiet"]).succeeded();
    let report = done.report();
    let number = |value: &Value| value.as_f64().unwrap();
    let paused = number(&report["coverage"]["untimed"]["budget"]);
    let (observed, slept) = (number(&report["devices"][0]["observed_ns"]), number(&done.said()["slept_ns"]));
    println!("{paused} launches in pauses, observed {observed}, slept {slept}");
    assert!(paused > 0.0, "{}", report["coverage"]);
    // While the program slept, the GPU was idle, and nothing that was not observed could run.
    assert!(observed > 0.9 * slept, "{observed} of {slept}: {}", report["devices"][0]);
}

/// On an H100, a training job that the host held up had no verdict by default: a third of its time was idle for causes that
/// were open, because it lay in pauses.
#[test]
fn idle_time_in_pauses_has_the_causes_that_the_host_had_there() {
    until_one_is_good(idle_time_in_pauses);
}

/// Checks one run; returns an error if hardly anything lay in pauses.
fn idle_time_in_pauses() -> Result<(), String> {
    let client = Run::of("paused_causes").arg("2500").auto("1").env("SIMCUDA_HOST_COST", "launch=25000");
    let done = client.observed_with(&["--quiet"]).succeeded();
    let (report, said) = (done.report(), done.said());
    let idle = report["devices"][0]["idle_ns"]["value"].as_f64().unwrap();
    let of = |cause: &str| {
        let rows = report["idle"]["by_cause"].as_array().unwrap();
        rows.iter().find(|row| row["cause"] == cause).map_or([0.0; 3], |row| bounds(&row["total_ns"]))
    };
    let said = |key: &str| said[key].as_f64().unwrap();
    // The kernels run in the calls that launch the next ones, but for the last one of a row.
    let outside = said("outside_ns") - said("steps") * 5_000.0;
    let launching = said("launching_ns") - (truth(&done) as f64 - said("steps") * 5_000.0);
    println!(
        "idle {idle}, outside {outside} as {:?}, launching {launching} as {:?}",
        of("outside_cuda"),
        of("launching")
    );
    let paused = report["coverage"]["untimed"]["budget"].as_f64().unwrap();
    // About half of them, and on a busy machine less: the slower the program is there, the more of it the budget pays for.
    let launches = said("steps") * 30.0;
    if paused <= 0.25 * launches {
        return Err(format!("only {paused} of {launches} launches were in pauses"));
    }
    assert!(of("undecided")[1] < 0.1 * idle, "{}", report["idle"]);
    for (cause, truth) in [("outside_cuda", outside), ("launching", launching)] {
        let [lo, value, hi] = of(cause);
        assert!(lo * 0.98 <= truth && truth <= hi * 1.02, "{cause} took {truth}: {}", report["idle"]);
        // Interruptions of the host's, which a busy machine has, lie in some windows and pauses and not in others.
        assert!(
            (value / truth - 1.0).abs() < 0.15 + done.pressure,
            "{cause} took {truth}: {}",
            report["idle"]
        );
    }
    assert!(report["verdict"]["unsafe"].is_null(), "{}", report["verdict"]);
    Ok(())
}
