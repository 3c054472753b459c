//! Jobs of several ranks that wait for each other in collectives: which one keeps the others waiting?

use gpuspy_tests::truth::Truth;
use gpuspy_tests::{Done, Run, gpuspy, program, report, until_one_is_good};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const STEPS: usize = 30;

/// Runs a job of ranks under gpuspy. The host of rank `late` sleeps for `sleep_us` in each step.
fn job(ranks: usize, late: usize, sleep_us: u64) -> (Done, PathBuf) {
    let run = Run::of("job_of_ranks");
    let mut command = run.gpuspy_command(&["run", "-o", "job/", "--quiet", "--"]);
    let all = format!(
        "for rank in $(seq 0 {last}); do sleep=$(( rank == {late} ? {sleep_us} : 0 )); \
         SIMCUDA_TRUTH=truth$rank \"$0\" $rank {ranks} $sleep {STEPS} meeting & done; wait",
        last = ranks - 1
    );
    command.args(["bash", "-c", &all]).arg(program("job_of_ranks"));
    let done = run.finish(command).succeeded();
    assert_eq!(done.stdout.matches("collectives").count(), ranks, "{}", done.stdout);
    let traces = done.folder().join("job");
    (done, traces)
}

/// Runs a job of four ranks under gpuspy, each on a GPU of its own, of which rank 2 stops in step 200 in a way that `job_of_ranks` knows.
/// So many seconds after that, or where no rank ends by itself after the start, all are ended, as torchrun does.
fn job_that_stops(how: &str, seconds: u32) -> (Done, PathBuf) {
    let run = Run::of("job_of_ranks").env("SIMCUDA_DEVICES", "4");
    let mut command = run.gpuspy_command(&["run", "-o", "job/", "--quiet", "--"]);
    let stops =
        if how.is_empty() { String::new() } else { format!("$( (( rank == 2 )) && echo {how} 200 )") };
    let ends = if matches!(how, "exit" | "abort") { "wait -n;" } else { "" };
    let all = format!(
        "for rank in 0 1 2 3; do \
         CUDA_VISIBLE_DEVICES=$rank \"$0\" $rank 4 0 16000 meeting {stops} & done; \
         {ends} sleep {seconds}; kill $(jobs -p); wait; true"
    );
    command.args(["bash", "-c", &all]).arg(program("job_of_ranks"));
    let done = run.finish(command);
    let traces = done.folder().join("job");
    (done, traces)
}

fn gpuspy_report(traces: &Path, options: &[&str]) -> Output {
    Command::new(gpuspy()).arg("report").arg(traces).args(options).output().unwrap()
}

fn screen(traces: &Path, options: &[&str]) -> String {
    let output = gpuspy_report(traces, options);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// What really happened: how often each rank came last, and by how many ns it came later than half of the ranks.
struct Arrivals {
    last: Vec<u64>,
    late: Vec<u64>,
}

impl Arrivals {
    fn of(done: &Done, ranks: usize) -> Arrivals {
        let starts = |rank: usize| -> Vec<u64> {
            let ran = Truth::read(&done.folder().join(format!("truth{rank}"))).operations();
            ran.iter().filter(|one| one.name.contains("nccl")).map(|one| one.interval.0).collect()
        };
        let starts: Vec<Vec<u64>> = (0..ranks).map(starts).collect();
        let mut all = Arrivals { last: vec![0; ranks], late: vec![0; ranks] };
        (0..STEPS).for_each(|collective| {
            let came = |rank: &usize| starts[*rank][collective];
            let mut order: Vec<usize> = (0..ranks).collect();
            order.sort_by_key(came);
            // As Holistic Trace Analysis counts stragglers: whose kernel of the iteration starts last.
            all.last[order[ranks - 1]] += 1;
            let median = came(&order[(ranks - 1) / 2]);
            order.iter().for_each(|rank| all.late[*rank] += came(rank).saturating_sub(median));
        });
        all
    }
}

fn number(row: &Value, key: &str) -> u64 {
    row["straggler"][key].as_u64().unwrap_or_else(|| panic!("no {key} in {row}"))
}

/// The steps do not show which rank it is: all ranks have the same, since each step waits for the slowest rank.
#[test]
fn a_rank_that_sleeps_20_ms_in_each_step_is_named_with_its_score() {
    until_one_is_good(|| {
        let (done, traces) = job(4, 2, 20_000);
        let (whole, truth) = (report(&traces), Arrivals::of(&done, 4));
        let rows = whole["ranks"].as_array().unwrap();
        assert_eq!(rows.len(), 4);
        for (row, rank) in rows.iter().zip(0..) {
            assert_eq!(row["rank"], rank as u64);
            let (claimed, last) = (number(row, "last_arrivals"), truth.last[rank]);
            assert!(
                claimed <= last,
                "rank {rank} came last {last} times, and {claimed} times are claimed: only certain ones may be"
            );
        }
        let late = number(&rows[2], "late_ns");
        let screen = screen(&traces, &["--section", "ranks", "--width", "80"]);
        let scores: Vec<f64> =
            rows.iter().map(|row| row["straggler"]["vs_best"].as_f64().unwrap_or(-1.0)).collect();
        let is_good = number(&rows[2], "last_arrivals") >= STEPS as u64 * 9 / 10
            && late.abs_diff(truth.late[2]) < truth.late[2] / 10
            && (0..4).all(|rank| rank == 2 || scores[rank] > 2.0 * scores[2])
            && screen.contains("rank 2 is slower than the others")
            && screen.contains("the others wait for it in ncclAllReduce");
        let what = || format!("{rows:#?}\nlate: {:?}\n{screen}", truth.late);
        is_good.then_some(()).ok_or_else(what)
    });
}

/// Returns how long the steps of a job take without gpuspy, ns.
fn loop_ns(ranks: usize, late: usize, sleep_us: u64) -> f64 {
    let all = format!(
        "for rank in $(seq 0 {last}); do sleep=$(( rank == {late} ? {sleep_us} : 0 )); \
         \"$0\" $rank {ranks} $sleep {STEPS} meeting & done; wait",
        last = ranks - 1
    );
    let done = Run::command("bash").arg("-c").arg(&all).arg(program("job_of_ranks")).plain().succeeded();
    let said = done.stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    said.map(|said| said["loop_ns"].as_f64().unwrap()).fold(0.0, f64::max)
}

fn straggler(report: &Value) -> Option<Value> {
    let findings = report["findings"].as_array().unwrap();
    findings.iter().find(|found| found["id"] == "straggler-rank").cloned()
}

/// The twin is the same job in which no rank sleeps.
#[test]
fn a_rank_that_the_others_wait_for_is_found_with_what_its_twin_gains() {
    until_one_is_good(|| {
        let (_done, traces) = job(3, 1, 20_000);
        let whole = report(&traces);
        let first = &whole["findings"][0];
        if first["id"] != "straggler-rank" {
            return Err(format!("{:#}", whole["findings"]));
        }
        assert_eq!(first["title"], "Rank 1 keeps the others waiting");
        assert!(first["fix"].as_str().unwrap().starts_with("Look at rank 1's host"), "{first:#}");
        let saves = |bound: &str| first["saves_ns"][bound].as_f64().unwrap();
        let truth = loop_ns(3, 1, 20_000) - loop_ns(3, 1, 0);
        let is_close = (saves("value") - truth).abs() <= 0.1 * truth && saves("lo") <= saves("hi");
        is_close.then_some(()).ok_or_else(|| format!("truly {truth}: {first:#}"))
    });
    until_one_is_good(|| {
        let (done, traces) = job(3, 1, 0);
        let Some(found) = straggler(&report(&traces)) else { return Ok(()) };
        // Where programs wait for processors, a rank that gets less of them than the others does keep them waiting.
        let truth = Arrivals::of(&done, 3);
        let rank =
            (0..3).find(|rank| found["title"] == format!("Rank {rank} keeps the others waiting")).unwrap();
        let is_true = done.pressure > 0.3 && found["evidence"]["count"].as_u64().unwrap() <= truth.last[rank];
        is_true.then_some(()).ok_or_else(|| format!("{:?}: {found:#}", truth.last))
    });
}

#[test]
fn ranks_that_are_equally_fast_are_not_called_slow() {
    until_one_is_good(|| {
        let (done, traces) = job(4, 0, 0);
        let (whole, truth) = (report(&traces), Arrivals::of(&done, 4));
        for (row, rank) in whole["ranks"].as_array().unwrap().iter().zip(0..) {
            assert!(number(row, "last_arrivals") <= truth.last[rank], "{row}");
        }
        let screen = screen(&traces, &["--section", "ranks"]);
        if screen.contains("slower") { Err(screen) } else { Ok(()) }
    });
}

#[test]
fn a_rank_can_be_selected_and_one_that_does_not_exist_is_refused() {
    let (_done, traces) = job(3, 1, 1_000);
    let whole = report(&traces);
    let output = gpuspy_report(&traces, &["--json", "--rank", "1"]);
    let one: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(one["processes"].as_array().unwrap().as_slice(), [whole["processes"][1].clone()]);
    assert!(screen(&traces, &["--rank", "1"]).contains("rank 1, pid "));
    let two = gpuspy_report(&traces, &["--json", "--rank", "0", "--rank", "2"]);
    let two: Value = serde_json::from_slice(&two.stdout).unwrap();
    let ranks: Vec<&Value> = two["ranks"].as_array().unwrap().iter().map(|row| &row["rank"]).collect();
    assert_eq!(ranks, [0, 2]);

    let output = gpuspy_report(&traces, &["--rank", "7"]);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    let said = format!("gpuspy: --rank 7 is not in {}; its ranks: 0, 1, 2\n", traces.display());
    assert_eq!((output.status.code(), error), (Some(2), said));
}

fn sentences(report: &Value) -> Vec<&str> {
    report["verdict"]["text"].as_array().unwrap().iter().map(|said| said.as_str().unwrap()).collect()
}

/// The verdict was none, since a third of the GPU's time was undecided, or that the host was busy, and the advice was to time all launches.
#[test]
fn of_a_job_that_stopped_the_rank_that_failed_is_named_first() {
    let outcomes = [("exit", "exited with code 3"), ("abort", "crashed with SIGABRT")];
    for (how, outcome) in outcomes {
        let (_done, traces) = job_that_stops(how, 3);
        let whole = report(&traces);
        let uuids: Vec<&Value> =
            whole["devices"].as_array().unwrap().iter().map(|gpu| &gpu["uuid"]).collect();
        assert_eq!(uuids.len(), 4, "each rank has a GPU of its own: {uuids:?}");
        let said = sentences(&whole);
        assert!(said[0].starts_with(&format!("Rank 2 ended first: {outcome} at ")), "{said:?}");
        assert!(
            said[1].starts_with("Ranks 0, 1 and 3 waited for it in ncclAllReduce to the end, for "),
            "{said:?}"
        );
        let first = &whole["findings"][0];
        assert_eq!(first["id"], "failed-rank");
        let waited = first["evidence"]["total_ns"]["value"].as_u64().unwrap();
        assert!(waited >= 2_500_000_000, "{first:#}");
    }
}

#[test]
fn of_a_job_that_hangs_the_rank_that_did_not_come_is_named_with_its_last_launch() {
    let (_done, traces) = job_that_stops("hang", 9);
    let whole = report(&traces);
    let said = sentences(&whole);
    assert_eq!(said[0], "Rank 2 did not come to ncclAllReduce, in which the others wait.");
    let first = &whole["findings"][0];
    assert_eq!(first["id"], "stuck-collective");
    let text = first["evidence"]["text"].as_str().unwrap();
    assert!(text.contains("Its last launch, of gemm_200us at main in job_of_ranks, was "), "{text}");
}

#[test]
fn ranks_that_wait_in_different_collectives_are_said_to() {
    let (_done, traces) = job_that_stops("other", 9);
    let whole = report(&traces);
    let said = sentences(&whole);
    assert_eq!(said[0], "All ranks wait in collectives, and not in the same one.");
    let text = whole["findings"][0]["evidence"]["text"].as_str().unwrap();
    assert!(
        text.ends_with("ranks 0, 1 and 3 in ncclAllReduce number 201; rank 2 in ncclBroadcast number 1."),
        "{text}"
    );
}

/// A person who ends a job, or a scheduler at its time limit, sends all ranks the same signal, and one of them ends first.
#[test]
fn of_a_job_that_was_ended_no_rank_is_said_to_have_failed() {
    let (_done, traces) = job_that_stops("", 2);
    let whole = report(&traces);
    assert!(whole["ranks"].as_array().unwrap().len() == 4);
    let ids: Vec<&Value> = whole["findings"].as_array().unwrap().iter().map(|found| &found["id"]).collect();
    assert!(!ids.iter().any(|id| *id == "failed-rank" || *id == "stuck-collective"), "{ids:?}");
}
