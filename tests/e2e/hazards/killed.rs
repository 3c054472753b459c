//! SIGKILL before each system call of a process, which `kill_at_call` sends: to the program, to the collector that the agent
//! started, and to `gpuspy run`. A sample of the calls; with `GPUSPY_ALL_FAILURES=1` all.

use super::{
    all_points, is_read_or_said_to_be_empty, nothing_is_left_of, same, traces_with_content, watched,
};
use crate::lifecycle::launches;
use gpuspy_tests::{Done, Run, agent, gpuspy, program, report};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;

const LAUNCHES: u64 = 20;

/// The system calls that were made, each with its thread.
fn calls(list: &Path) -> Vec<(u32, i64)> {
    let text = std::fs::read_to_string(list).unwrap_or_default();
    let pair = |line: &str| {
        let (thread, number) = line.split_once(' ')?;
        Some((thread.parse().ok()?, number.parse().ok()?))
    };
    text.lines().filter_map(pair).collect()
}

fn killed_program(at: usize) -> Done {
    let run = Run::of("kill_at_call").arg(at.to_string()).arg("calls").arg(agent());
    watched(run.arg(program("counted_launches")).arg("returned")).plain()
}

/// How many launches and allocations have returned.
fn returned(done: &Done) -> [u64; 2] {
    let bytes = std::fs::read(done.folder().join("returned")).unwrap_or_default();
    let number =
        |n: usize| bytes.get(8 * n..8 * n + 8).map_or(0, |part| u64::from_le_bytes(part.try_into().unwrap()));
    [number(0), number(1)]
}

/// The points of a sweep over so many calls, at most about `samples` of them.
fn points(calls: std::ops::RangeInclusive<usize>, samples: usize) -> impl Iterator<Item = usize> {
    let step = if all_points() { 1 } else { (calls.end() - calls.start()) / samples + 1 };
    calls.step_by(step)
}

/// Checks that the trace holds what had returned; the call that was interrupted may be there as well.
fn holds_what_returned(done: &Done, what: &str) {
    let traces = traces_with_content(done);
    let [launched, allocated] = returned(done);
    assert!(traces.len() == 1, "{what}: {traces:?}");
    let report = report(&traces[0]);
    let is_all = |told: u64, returned: u64| told == returned || told == returned + 1;
    assert!(
        is_all(launches(&report), launched),
        "{what}: {launched} have returned, {} are told",
        launches(&report)
    );
    let told = report.pointer("/memory/by_kind/device/allocations").and_then(|n| n.as_u64()).unwrap_or(0);
    assert!(is_all(told, allocated), "{what}: {allocated} have returned, {told} are told");
}

#[test]
fn a_program_that_is_killed_at_any_call_leaves_nothing_but_a_trace_of_what_returned() {
    let whole = killed_program(0);
    if super::is_skipped(&whole) {
        return;
    }
    let whole = whole.succeeded();
    nothing_is_left_of(&whole, "not killed");
    holds_what_returned(&whole, "not killed");
    let made = calls(&whole.folder().join("calls"));
    let begins = made.iter().position(|(_, number)| *number == libc::SYS_memfd_create).unwrap();
    let (mut killed, mut with_collector) = (0, 0);
    for at in points(begins..=made.len(), 50) {
        let done = killed_program(at);
        let what = format!("killed before call {at} of {}", made.len());
        nothing_is_left_of(&done, &what);
        if done.status.signal() != Some(libc::SIGKILL) {
            // How often threads wait differs from run to run.
            assert!(done.status.success(), "{what}: {}", done.stderr);
            continue;
        }
        killed += 1;
        // The thread that starts the collector goes on when that has begun.
        let made = calls(&done.folder().join("calls"));
        let start = made.iter().position(|(_, number)| *number == libc::SYS_clone);
        if start.is_some_and(|start| made[start + 1..].iter().any(|(thread, _)| *thread == made[start].0)) {
            with_collector += 1;
            holds_what_returned(&done, &what);
        }
    }
    println!("{killed} were killed, {with_collector} of them with a collector");
    assert!(
        killed > 20 && with_collector > 10,
        "{killed} were killed, {with_collector} of them with a collector"
    );
}

fn killed_collector(at: usize) -> Done {
    let run = Run::of("counted_launches").arg("returned").env("GPUSPY_COLLECTOR", program("kill_at_call"));
    let run = run.env("KILL_AT", at.to_string()).env("KILL_PROGRAM", gpuspy());
    let list = run.folder().join("calls");
    watched(run.env("KILL_LIST", list)).preloaded()
}

#[test]
fn a_collector_that_is_killed_at_any_call_is_told_and_nothing_else_changes() {
    let plain = Run::of("counted_launches").arg("returned").plain().succeeded();
    let whole = killed_collector(0).succeeded();
    nothing_is_left_of(&whole, "not killed");
    let made = calls(&whole.folder().join("calls"));
    if made.is_empty() {
        eprintln!("skipped: processes cannot be traced here (ptrace)");
        return;
    }
    holds_what_returned(&whole, "not killed");
    // Until right after it has received the program's memory, nothing is written. How many calls come later differs from run to run: on
    // a busy machine, a collector looks for records more often.
    let received = made.iter().position(|(_, number)| *number == libc::SYS_recvmsg).unwrap() + 1;
    let begins = 1..=received + 60;
    let (mut told, ends) = (0, begins.end() + 1..=made.len());
    for at in points(1..=received, 10).chain(points(received + 1..=received + 60, 20)).chain(points(ends, 10))
    {
        let done = killed_collector(at);
        let what = format!("the collector killed before call {at} of {}: {}", made.len(), done.stderr);
        same(&plain, &done, &what);
        nothing_is_left_of(&done, &what);
        let is_told = !done.stderr.contains("the trace is ");
        assert!(is_told || !begins.contains(&at), "{what}");
        told += u32::from(is_told);
        traces_with_content(&done)
            .iter()
            .for_each(|trace| is_read_or_said_to_be_empty(trace, LAUNCHES, &what));
        if done.stderr.contains("no trace was written") {
            assert!(!super::names_in(done.folder()).iter().any(|name| name.ends_with(".gspy")), "{what}");
        }
    }
    println!("{told} were told");
    assert!(told > 10, "{told} were told");
}

fn killed_run(at: usize) -> Done {
    let run = Run::of("kill_at_call").arg(at.to_string()).arg("calls").arg("").arg(gpuspy());
    let run = ["run", "--no-report", "-o", "trace.gspy", "--"].iter().fold(run, Run::arg);
    watched(run.arg(program("counted_launches")).arg("returned")).plain()
}

#[test]
fn a_program_whose_gpuspy_run_is_killed_at_any_call_runs_to_its_end() {
    let whole = killed_run(0);
    if super::is_skipped(&whole) {
        return;
    }
    let whole = whole.succeeded();
    nothing_is_left_of(&whole, "not killed");
    let made = calls(&whole.folder().join("calls"));
    let mut ran = 0;
    for at in points(1..=made.len(), 30) {
        let done = killed_run(at);
        let what = format!("gpuspy run killed before call {at} of {}", made.len());
        super::no_process_is_left_of(&done, &what);
        // It may be killed before it has started the program.
        let [launched, _] = returned(&done);
        assert!(launched == 0 || launched == LAUNCHES, "{what}: {launched} launches have returned");
        ran += u32::from(launched == LAUNCHES);
        traces_with_content(&done)
            .iter()
            .for_each(|trace| is_read_or_said_to_be_empty(trace, LAUNCHES, &what));
    }
    println!("{ran} ran");
    assert!(ran > 10, "{ran} ran");
}
