//! Calls of the agent's to the C library that fail: whatever is refused, the program runs as without the agent.
//!
//! `libfailing.so` makes the n-th call of a function fail, or the n-th and all after it. A sweep goes through all calls that
//! the agent makes in a run. Of the allocations, which are hundreds, it takes some; with `GPUSPY_ALL_FAILURES=1` all.
//!
//! `refused_system_call` has Linux refuse a system call for good, in the program and in the collector that the agent starts.

use gpuspy_tests::{Done, Run, agent, program};
use std::collections::BTreeMap;

const CLIENT: &str = "graphs";

/// Its trace stays in the run's folder, also where its working directory cannot be found or written.
fn client() -> Run {
    in_its_folder(Run::of(CLIENT))
}

fn in_its_folder(run: Run) -> Run {
    let folder = run.folder().to_owned();
    run.env("TMPDIR", folder)
}

fn failing(call: &str, at: u64, after: bool) -> Run {
    let run = client().env("FAIL_CALL", call).env("FAIL_AT", at.to_string());
    run.env("FAIL_AFTER", if after { "1" } else { "0" })
}

/// The functions that the agent calls in a run, with the number of calls.
fn calls() -> BTreeMap<String, u64> {
    let folder = tempfile::tempdir().unwrap();
    let counts = folder.path().join("counts");
    client().env("FAIL_COUNT", &counts).preloaded_among(&["libfailing.so"], &[]).succeeded();
    let text = std::fs::read_to_string(counts).unwrap();
    let counted = text.lines().map(|line| line.split_once(' ').unwrap());
    counted.map(|(name, count)| (name.to_owned(), count.parse().unwrap())).collect()
}

/// The agent's lines on stderr.
fn said(done: &Done) -> Vec<&str> {
    done.stderr.lines().filter(|line| !line.is_empty()).collect()
}

fn check(plain: &Done, call: &str, at: u64, after: bool) -> String {
    let what = format!("{call} {at}{}", if after { " and all after it" } else { "" });
    let done = failing(call, at, after).preloaded_among(&["libfailing.so"], &[]);
    assert_eq!(done.status, plain.status, "{what}: {}", done.stderr);
    assert_eq!(done.stdout, plain.stdout, "{what}");
    let lines = said(&done);
    assert!(lines.len() <= 1 && lines.iter().all(|line| line.starts_with("gpuspy: ")), "{what}: {lines:?}");
    lines.first().copied().unwrap_or_default().to_owned()
}

/// Sweeps over the calls that `wanted` selects. Returns the number of runs, and how many were not observed.
fn sweep(wanted: impl Fn(&str, u64) -> bool) -> (usize, usize) {
    let plain = Run::of(CLIENT).plain().succeeded();
    let mut runs = (0, 0);
    for (call, count) in calls() {
        for at in (1..=count).filter(|at| wanted(&call, *at)) {
            for after in [false, true] {
                let line = check(&plain, &call, at, after);
                runs.0 += 1;
                runs.1 += usize::from(line.contains("unobserved"));
            }
        }
    }
    runs
}

#[test]
fn a_failed_call_of_ours_does_not_change_the_program() {
    let (runs, unobserved) = sweep(|call, _| call != "malloc");
    assert!(runs > 60 && unobserved > 20, "{runs} runs, {unobserved} of them unobserved");
}

/// It was told as a limit on the size of files.
#[test]
fn a_refused_getrlimit_is_told_as_such() {
    let done = failing("getrlimit", 1, true).preloaded_among(&["libfailing.so"], &[]).succeeded();
    assert!(said(&done)[0].contains("does not tell the file size limit (getrlimit)"), "{}", done.stderr);
}

/// Its first touch ended the program with SIGBUS.
#[test]
fn shared_memory_that_the_system_does_not_have_is_not_touched() {
    // The first ones are for the header and for the rings of the agent's thread and of the program's.
    for (at, is_observed) in [(1, false), (2, false), (3, true)] {
        let done = failing("fallocate", at, true).preloaded_among(&["libfailing.so"], &[]).succeeded();
        let line = said(&done)[0];
        assert_eq!(!line.contains("runs unobserved: "), is_observed, "{at}: {line}");
        if is_observed {
            let report = done.report();
            let dropped = report["coverage"]["dropped_by"]["no_slot"].as_u64().unwrap();
            assert!(dropped > 0, "{at}: {:#}", report["coverage"]);
        }
    }
}

#[test]
fn a_failed_allocation_of_ours_does_not_end_the_program() {
    let all = std::env::var_os("GPUSPY_ALL_FAILURES").is_some();
    // A prime, so that the calls are not all of one kind.
    let (runs, unobserved) = sweep(|call, at| call == "malloc" && (all || at % 41 == 1));
    assert!(runs > 20 && unobserved > 0, "{runs} runs, {unobserved} of them unobserved");
}

#[test]
fn a_process_that_runs_out_of_memory_later_keeps_what_was_recorded() {
    // The last allocations are those of graphs: everything is set up by then.
    let late = calls()["malloc"] - 20;
    let done = failing("malloc", late, true).preloaded_among(&["libfailing.so"], &[]).succeeded();
    assert!(said(&done)[0].contains("the trace is"), "{}", done.stderr);
    let report = done.report();
    assert!(report["coverage"]["launches"].as_u64().unwrap() > 0);
    let notes = report["processes"][0]["notes"].to_string();
    assert!(notes.contains("no memory left for gpuspy"), "{notes}");
}

/// Filters of containers refuse system calls with either error.
#[test]
fn a_system_call_that_a_filter_refuses_changes_nothing_for_the_program() {
    let all = std::env::var_os("GPUSPY_ALL_FAILURES").is_some();
    let run = |number: u64, error: i32, agent: &str| {
        let run = in_its_folder(Run::of("refused_system_call"))
            .arg(number.to_string())
            .arg(error.to_string())
            .arg(agent);
        run.arg(program(CLIENT)).plain()
    };
    let agent = agent();
    let usual = Run::of(CLIENT).plain().succeeded();
    // Without these no program with threads ends, or waits: glibc tries exit(2) for ever, and instead of exit_group(2); and it
    // aborts where a thread has to wait for one of its own locks, which happens on a busy machine (glibc, futex-internal.h).
    let needed = [libc::SYS_exit as u64, libc::SYS_exit_group as u64, libc::SYS_futex as u64];
    let mut unharmed = 0;
    let errors = [libc::EPERM, libc::ENOSYS].into_iter().filter(|error| all || *error == libc::EPERM);
    for error in errors {
        for number in (0..MOST_SYSTEM_CALLS).filter(|number| !needed.contains(number)) {
            let done = run(number, error, agent.to_str().unwrap());
            let what = format!("system call {number}, error {error}: {}", done.stderr);
            if (done.status, &done.stdout) != (usual.status, &usual.stdout) {
                // Without some of them no program runs.
                let plain = run(number, error, "");
                assert!(!plain.status.success() && !done.status.success(), "{what}");
            } else {
                assert!(said(&done).iter().all(|line| line.starts_with("gpuspy: ")), "{what}");
                unharmed += 1;
            }
        }
    }
    assert!(unharmed > 400, "{unharmed} system calls");
}

/// Numbers of system calls are below this (Linux 6.12, arch/x86/entry/syscalls/syscall_64.tbl).
const MOST_SYSTEM_CALLS: u64 = 470;
