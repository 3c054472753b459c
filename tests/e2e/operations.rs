//! `gpuspy report --operations`: every operation that the simulator ran is a line whose interval contains its truth.

use crate::compare::slack;
use gpuspy_tests::{Run, gpuspy, truth};
use serde_json::Value;
use std::collections::BTreeSet;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};

fn operations(trace: &Path) -> Vec<Value> {
    let output = Command::new(gpuspy()).arg("report").arg(trace).arg("--operations").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{line}: {e}"))).collect()
}

fn number(line: &Value, pointer: &str) -> u64 {
    line.pointer(pointer).and_then(Value::as_u64).unwrap_or_else(|| panic!("no {pointer} in {line}"))
}

/// Compares the line of one operation with what really happened.
fn agrees(line: &Value, truth: &truth::Operation) {
    assert_eq!(number(line, "/tid"), truth.tid);
    assert_eq!(number(line, "/stream"), truth.stream);
    assert_eq!(line["name"], truth.name.as_str(), "{line}");
    assert!(number(line, "/call_start_ns") <= truth.called, "{line}: {truth:?}");
    assert!(truth.called <= number(line, "/call_end_ns"), "{line}: {truth:?}");
    if line["untimed"] == Value::Null {
        let lasted = truth.interval.1 - truth.interval.0;
        let (lo, hi) = (number(line, "/duration_ns/lo"), number(line, "/duration_ns/hi"));
        assert!(lo <= lasted + slack(lasted) && lasted <= hi + slack(lasted), "{line}: {truth:?}");
        assert_eq!(line["clock"], "host");
        for (key, truth) in [("start_ns", truth.interval.0), ("finish_ns", truth.interval.1)] {
            let bound = |name: &str| number(line, &format!("/{key}/{name}"));
            assert!(bound("lo") <= truth + 2 && truth <= bound("hi") + 2, "{key} of {line}: {truth}");
        }
    }
}

#[test]
fn every_operation_is_a_line_that_contains_the_truth() {
    let done = Run::of("plain_work").observed().succeeded();
    let mut lines = operations(&done.trace());
    lines.sort_by_key(|line| number(line, "/correlation"));
    let truth = done.truth().operations();
    assert_eq!(lines.len(), truth.len());
    assert!(lines.iter().filter(|line| line["untimed"] == Value::Null).count() >= 100);
    for (line, truth) in lines.iter().zip(&truth) {
        agrees(line, truth);
    }
}

/// 100 kernels of 5 ms are submitted at once; until the last one starts, the clocks drift for half a second. Before, 72
/// of 130 operations lay outside the intervals of their starts and ends, which were as wide as at submission.
#[test]
fn operations_that_start_long_after_submission_are_placed_correctly() {
    for drift in ["20000", "-20000"] {
        let done =
            Run::of("hard_to_time").arg("ahead").env("SIMCUDA_CLOCK_DRIFT_PPB", drift).observed().succeeded();
        let mut lines = operations(&done.trace());
        // A run's line follows those of its launches.
        lines.retain(|line| line["kind"] != "run");
        lines.sort_by_key(|line| number(line, "/correlation"));
        let truth = done.truth().operations();
        assert_eq!((lines.len(), truth.len()), (130, 130));
        lines.iter().zip(&truth).for_each(|(line, truth)| agrees(line, truth));
        let late = truth.iter().filter(|o| o.interval.0 > o.called + 100_000_000).count();
        assert!(late > 50, "the test proves nothing: only {late} operations started late");
    }
}

#[test]
fn operations_of_a_run_of_several_processes_name_their_process() {
    let done = Run::of("fork_child").arg("before").observed().succeeded();
    let lines = operations(&done.folder().join("trace.gspy"));
    let pids: BTreeSet<u64> = lines.iter().map(|line| number(line, "/pid")).collect();
    assert_eq!((pids.len(), lines.len()), (2, 400));
}

#[test]
fn a_reader_of_operations_may_close_the_pipe_early() {
    let done = Run::of("plain_work").observed().succeeded();
    let mut report = Command::new(gpuspy())
        .arg("report")
        .arg(done.trace())
        .arg("--operations")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    report.stdout.take().unwrap().read_exact(&mut [0]).unwrap();
    let output = report.wait_with_output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    let absent = Command::new(gpuspy()).args(["report", "absent.gspy", "--operations"]).output().unwrap();
    assert_eq!(absent.status.code(), Some(3), "{absent:?}");
}
