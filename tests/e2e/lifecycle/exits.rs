//! All kinds of process endings: what was recorded before is in the report, and what is missing is reported.

use super::{assert_all_accounted, launches, number};
use gpuspy_tests::{Done, Run, program};
use serde_json::Value;
use std::os::unix::process::ExitStatusExt;

/// Returns how the ending of a killed program is reported where its collector is not its parent: before Linux 6.16 the
/// exit status is gone once the parent has reaped the process, or it is for a collector that looks at it only afterwards.
fn killed_or_unknown(report: &Value) -> &'static str {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = release.split(['.', '-']).map(|number| number.parse::<u32>().unwrap_or(0));
    let is_told = (numbers.next(), numbers.next()) >= (Some(6), Some(16));
    if is_told || report["processes"][0]["ending"] == "killed" { "killed" } else { "vanished" }
}

fn assert_whole_after_kill(done: &Done) -> Value {
    assert_whole(done, killed_or_unknown(&done.report()))
}

/// Checks the report of a program that ended in the middle of its work: all launches are there, all without a GPU time
/// have a reason, and the ending is `ending`.
fn assert_whole(done: &Done, ending: &str) -> Value {
    let report = done.report();
    assert_eq!(launches(&report), done.said()["launches"], "{:#}", report["coverage"]);
    done.dropped_nothing(&report);
    assert_eq!(report["processes"][0]["ending"], ending);
    assert_all_accounted(&report);
    report
}

/// Checks that the launches that were on the GPU at the end are reported as pending: their times cannot be known.
fn assert_pending_reported(report: &Value) {
    let pending = number(report, "/coverage/untimed/gpu_time_pending");
    assert!(pending > 0, "{:#}", report["coverage"]);
    assert_eq!(number(report, "/coverage/pending"), pending, "all operations that were pending are launches");
}

#[test]
fn a_killed_program_loses_no_launch_that_returned() {
    let done = Run::of("kill_me").preloaded();
    assert_eq!(done.status.signal(), Some(libc::SIGKILL));
    assert_eq!(done.stderr, "");
    assert_pending_reported(&assert_whole_after_kill(&done));
}

#[test]
fn a_killed_program_under_run_ends_that_as_well_and_loses_no_launch_that_returned() {
    let done = Run::of("kill_me").observed();
    assert_eq!(done.status.signal(), Some(libc::SIGKILL), "{}", done.stderr);
    assert_pending_reported(&assert_whole(&done, "killed"));
}

/// On a busy machine, the thread that reads GPU times gets no processor for a while. It was the one that reached the collector.
#[test]
fn a_program_that_is_killed_before_the_poller_has_run_leaves_its_launches_and_its_name() {
    let done = Run::of("kill_me").arg("300").env("LD_PRELOAD", program("liblatepoller.so")).observed();
    assert_eq!(done.status.signal(), Some(libc::SIGKILL), "{}", done.stderr);
    let report = done.report();
    assert_eq!(launches(&report), 300, "{:#}", report["coverage"]);
    let process = &report["processes"][0];
    assert_eq!((&process["ending"], &process["pid"]), (&"killed".into(), &done.said()["pid"]));
    let command = process["command"].to_string();
    assert!(command.contains("kill_me"), "{command}");
    // Those of calls were numbers: "(api 7)".
    let named = |api: &Value| api["name"].as_str().is_some_and(|name| name.starts_with("cu"));
    let apis = report["apis"].as_array().unwrap();
    assert!(!apis.is_empty() && apis.iter().all(named), "{apis:?}");
}

#[test]
fn threads_killed_while_launching_lose_no_launch_that_returned() {
    for attempt in 0..3 {
        let done = Run::of("kill_busy").arg("returned").preloaded();
        assert_eq!(done.status.signal(), Some(libc::SIGKILL), "{}", done.stderr);
        let bytes = std::fs::read(done.folder().join("returned")).unwrap();
        let returned = bytes.chunks_exact(8).map(|b| u64::from_ne_bytes(b.try_into().unwrap()));
        let returned: Vec<u64> = returned.collect();
        let report = done.report();
        let (seen, sum) = (launches(&report), returned.iter().sum::<u64>());
        // Each thread may have been killed between the return of its call and its own count.
        let threads = returned.len() as u64;
        let dropped = number(&report, "/coverage/dropped");
        assert!(
            (sum..=sum + threads).contains(&(seen + dropped)),
            "attempt {attempt}: {seen} launches are reported and {dropped} records dropped, of {sum} launches"
        );
        assert_all_accounted(&report);
        assert_eq!(report["processes"][0]["ending"], killed_or_unknown(&report));
    }
}

#[test]
fn an_exit_call_with_pending_work_loses_nothing() {
    let done = Run::of("exit_early").preloaded();
    assert_eq!(done.status.code(), Some(5));
    let report = assert_whole(&done, "exited");
    // The exit handler gives pending work time to end.
    assert_eq!(number(&report, "/coverage/untimed/gpu_time_pending"), 0, "{:#}", report["coverage"]);
}

#[test]
fn an_exit_without_handlers_loses_no_launch() {
    let done = Run::of("underscore_exit").preloaded();
    assert_eq!(done.status.code(), Some(6));
    assert_eq!(done.stderr, "");
    assert_pending_reported(&assert_whole(&done, "vanished"));
}

#[test]
fn exit_and_underscore_exit_keep_their_codes_under_run() {
    for (program, code, ending) in [("exit_early", 5, "exited"), ("underscore_exit", 6, "vanished")] {
        let done = Run::of(program).observed();
        assert_eq!(done.status.code(), Some(code), "{}", done.stderr);
        assert_whole(&done, ending);
    }
}
