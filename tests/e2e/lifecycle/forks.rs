//! Processes that fork or execute another program.

use super::{launches, our_lines};
use gpuspy_collector::trace::TraceReader;
use gpuspy_collector::trace::record::Body;
use gpuspy_tests::{Done, Run, program, report};
use gpuspy_wire::TRACE_MAGIC;
use gpuspy_wire::record::flag;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Returns whether the trace contains anything. Its file is created before its collector is started, so a process that
/// ends within that millisecond leaves it with nothing but the bytes that mark it.
fn has_begun(trace: &Path) -> bool {
    let until = Instant::now() + Duration::from_secs(2);
    loop {
        let has_more = std::fs::metadata(trace).unwrap().len() > TRACE_MAGIC.len() as u64;
        if has_more || Instant::now() >= until {
            return has_more;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Returns the reports of all traces, by pid. The tests count them: each process that ran has one.
fn reports(done: &Done) -> BTreeMap<u64, Vec<Value>> {
    let mut reports = BTreeMap::<_, Vec<_>>::new();
    for trace in done.traces().into_iter().filter(|t| has_begun(t)) {
        let report = report(&trace);
        reports.entry(report["processes"][0]["pid"].as_u64().unwrap()).or_default().push(report);
    }
    reports
}

fn said_all(done: &Done) -> Vec<Value> {
    done.stdout.lines().map(|l| serde_json::from_str(l).unwrap()).collect()
}

/// Runs the forking program, where memory can be marked to be wiped in a child, or where it cannot, as under gVisor.
fn fork_child(how: &str, refused: bool) -> Done {
    let run = Run::of("fork_child").arg(how);
    let run = if refused { run.arg("refused") } else { run };
    run.preloaded().succeeded()
}

fn check_both_traces(refused: bool) {
    let done = fork_child("before", refused);
    let reports = reports(&done);
    assert_eq!(our_lines(&done).len(), 2, "{}", done.stderr);
    assert_eq!(reports.len(), 2);
    for said in said_all(&done) {
        let own = &reports[&said["pid"].as_u64().unwrap()];
        assert_eq!(own.len(), 1);
        assert_eq!(launches(&own[0]), said["launches"]);
        assert_eq!(own[0]["processes"][0]["ending"], "exited");
    }
}

fn check_parent_is_unaffected(how: &str, refused: bool) {
    let done = fork_child(how, refused);
    let parent = done.said()["pid"].as_u64().unwrap();
    let reports = reports(&done);
    assert_eq!(reports[&parent].len(), 1);
    let report = &reports[&parent][0];
    assert_eq!(launches(report), 200);
    assert_eq!(report["coverage"]["timed"], 200);
    assert_eq!(report["processes"][0]["ending"], "exited");
    // The child's one call failed. If it was recorded, it has done no work.
    for (_, others) in reports.iter().filter(|(pid, _)| **pid != parent) {
        assert!(others.iter().all(|r| launches(r) == 0));
    }
    let mut records = TraceReader::open(&trace_of(&done, parent)).unwrap();
    let has_failed = |body: &Body| body.call().is_some_and(|call| call.flags & flag::FAILED != 0);
    assert_eq!(
        records.records().filter(|record| has_failed(&record.body)).count(),
        0,
        "the child's only call, which failed, is not in the parent's trace"
    );
}

fn trace_of(done: &Done, pid: u64) -> PathBuf {
    let traces = done.traces();
    let of = |trace: &&PathBuf| report(trace)["processes"][0]["pid"] == pid;
    traces.iter().filter(|trace| has_begun(trace)).find(of).unwrap().clone()
}

#[test]
fn parent_and_child_that_both_use_cuda_have_a_trace_each() {
    check_both_traces(false);
}

#[test]
fn a_fork_after_cuda_does_not_affect_the_parents_trace() {
    check_parent_is_unaffected("after", false);
    check_parent_is_unaffected("cloned", false);
}

#[test]
fn forked_children_are_recognized_without_wipe_on_fork() {
    check_both_traces(true);
    check_parent_is_unaffected("after", true);
    check_parent_is_unaffected("cloned", true);
}

#[test]
fn a_program_that_executes_another_keeps_its_records() {
    let run = Run::of("exec_after").arg(program("reap_any_child"));
    let done = run.preloaded().succeeded();
    let said = said_all(&done);
    let reports = reports(&done);
    let [both] = reports.values().collect::<Vec<_>>()[..] else {
        panic!("both programs have one pid: {reports:#?}")
    };
    let mut counts: Vec<u64> = both.iter().map(launches).collect();
    counts.sort();
    let mut expected: Vec<u64> = said.iter().map(|s| s["launches"].as_u64().unwrap()).collect();
    expected.sort();
    assert_eq!(counts, expected);
    let endings: Vec<_> = both.iter().map(|r| r["processes"][0]["ending"].as_str().unwrap()).collect();
    assert!(endings.contains(&"replaced") && endings.contains(&"exited"), "{endings:?}");
}

/// The child kept the connection open, and the program counted as one that had ended without its exit handlers.
#[test]
fn a_program_that_executes_another_beside_a_forked_child_was_replaced() {
    let run = Run::of("exec_beside_child").arg("sleep").arg("3");
    let done = run.observed_with(&["--no-report"]).succeeded();
    let report = done.report();
    assert_eq!(launches(&report), done.said()["launches"]);
    assert_eq!(report["processes"][0]["ending"], "replaced");
}

#[test]
fn a_program_that_executes_itself_overwrites_no_trace() {
    let own = program("exec_after");
    let done = Run::of("exec_after").arg(&own).preloaded().succeeded();
    assert_eq!(done.traces().len(), 2, "each program has its own trace, although name and pid are the same");
    for own in reports(&done).values().flatten() {
        assert_eq!(launches(own), 200);
    }
}

/// A child that was forked while a thread walked over the loader's list hung when it loaded a library.
#[test]
fn a_child_that_is_forked_during_walks_over_the_loaded_libraries_loads_its_own() {
    let done = Run::of("fork_during_walks").arg("300").preloaded().succeeded();
    assert_eq!(done.said()["hung"], 0, "{}", done.stdout);
    assert_eq!(launches(&done.report()), done.said()["launches"]);
}

/// A child that was made by clone(2) was to be observed for itself: to start a thread it waited for a lock of malloc's that a thread of its
/// parent had held. `forked_children_are_recognized_without_wipe_on_fork` hung so in one of many runs.
#[test]
fn a_child_that_is_cloned_while_a_thread_allocates_goes_on() {
    let done = Run::of("clone_while_allocating").arg("100").preloaded().succeeded();
    assert_eq!(done.said()["hung"], 0, "{}", done.stdout);
    assert_eq!(reports(&done).len(), 1, "the parent's");
    assert_eq!(launches(&done.report()), done.said()["launches"]);
}
