//! Processes that are stopped and continued at any time, as job control, debuggers and checkpoints (CRIU) do it.

use super::{nothing_is_left_of, watched};
use crate::lifecycle::launches;
use gpuspy_tests::{Done, Run};
use std::process::Stdio;
use std::time::Duration;

/// Sends a signal to a process that may have ended.
fn send(pid: u32, signal: i32) {
    // SAFETY: takes numbers only.
    unsafe { libc::kill(pid as i32, signal) };
}

/// The collector that a program's agent started: a process of the run that is not the program.
fn collector_of(program: u32, run: &Run) -> Option<u32> {
    let pids = super::processes_of(run.folder());
    let pids = pids.iter().filter_map(|line| line.split(':').next()?.parse().ok());
    pids.into_iter().find(|pid| *pid != program)
}

/// Runs the client while `stop` does what it likes with it: gets the program's pid, the run, and the number of the turn.
fn disturbed(turns: u32, mut stop: impl FnMut(u32, &Run, u32)) -> Done {
    let run = watched(Run::of("keeps_launching").arg("1500"));
    let mut command = run.preloaded_command();
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    for turn in 0..turns {
        // Not in step with what the program does.
        std::thread::sleep(Duration::from_millis(u64::from(turn * 37 % 101)));
        stop(child.id(), &run, turn);
    }
    let done = run.finished(child.wait_with_output().unwrap()).succeeded();
    nothing_is_left_of(&done, "stopped");
    done
}

fn pause(turn: u32) {
    // The last is longer than anything in the agent and in the collector waits.
    std::thread::sleep(Duration::from_millis(if turn == 5 { 3000 } else { u64::from(turn * 53 % 211) }));
}

#[test]
fn a_program_that_is_stopped_and_continued_is_recorded_in_full() {
    let done = disturbed(10, |pid, _, turn| {
        send(pid, libc::SIGSTOP);
        pause(turn);
        send(pid, libc::SIGCONT);
    });
    let report = done.report();
    assert_eq!(launches(&report), done.said()["launches"]);
    done.dropped_nothing(&report);
    // Stops are part of the program's time.
    assert!(report["identity"]["wall_ns"].as_u64().unwrap() > 3_000_000_000, "{}", report["identity"]);
}

#[test]
fn a_collector_that_is_stopped_and_continued_loses_only_what_it_counts() {
    let mut stops = 0;
    let done = disturbed(10, |pid, run, turn| {
        let Some(collector) = collector_of(pid, run) else { return };
        send(collector, libc::SIGSTOP);
        pause(turn);
        send(collector, libc::SIGCONT);
        stops += 1;
    });
    assert!(stops > 3, "{stops} stops");
    let report = done.report();
    let dropped = report["coverage"]["dropped"].as_u64().unwrap();
    let counted = launches(&report);
    let made = done.said()["launches"].as_u64().unwrap();
    // Of what was dropped, some were waits.
    assert!(counted <= made && made - counted <= dropped, "{counted} of {made} launches, {dropped} dropped");
}

#[test]
fn both_may_be_stopped_at_once_and_continued_in_any_order() {
    let done = disturbed(10, |pid, run, turn| {
        let collector = collector_of(pid, run);
        let mut both = [Some(pid), collector];
        both.iter().flatten().for_each(|pid| send(*pid, libc::SIGSTOP));
        pause(turn);
        if turn % 2 == 0 {
            both.reverse();
        }
        both.iter().flatten().for_each(|pid| send(*pid, libc::SIGCONT));
    });
    let report = done.report();
    assert_eq!(launches(&report), done.said()["launches"]);
}
