//! Processes with special rules: those that reap children, run as PID 1, may write no files, or lock their memory.

use super::{files, launches, the_line};
use gpuspy_tests::{Done, Run, agent, program, report};
use std::os::unix::process::CommandExt;
use std::process::Command;

#[test]
fn a_program_that_waits_for_any_child_gets_only_its_own() {
    let done = Run::of("reap_any_child").preloaded().succeeded();
    assert_eq!(done.said()["reaped"], 2);
    assert_eq!(launches(&done.report()), done.said()["launches"]);
}

#[test]
fn a_subreaper_gets_only_its_own_children_and_one_line_says_that_it_is_unobserved() {
    let run = Run::of("reap_any_child");
    let mut command = run.preloaded_command();
    let subreaper = || {
        // The setting is kept across exec (prctl(2)).
        // SAFETY: takes numbers only.
        match unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) } {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        }
    };
    // SAFETY: the closure makes one system call, and neither allocates nor locks.
    unsafe { command.pre_exec(subreaper) };
    let done = run.finish(command).succeeded();
    assert_eq!(done.said()["reaped"], 2);
    assert_unobserved(&done, "subreaper");
}

fn assert_unobserved(done: &Done, why: &str) {
    let line = the_line(done);
    assert!(line.contains("runs unobserved") && line.contains(why), "{line}");
    assert_eq!(files(done), [] as [&str; 0]);
}

/// Returns a command that runs another as PID 1 of a namespace; `None`, with a line that says so, if that is not
/// permitted.
fn as_pid_1() -> Option<Vec<&'static str>> {
    let unshare = vec!["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"];
    let output = Command::new(unshare[0]).args(&unshare[1..]).arg("true").output();
    let permitted = output.is_ok_and(|o| o.status.success());
    if !permitted {
        eprintln!("skipped: PID namespaces are not permitted here (unshare --pid)");
    }
    permitted.then_some(unshare)
}

/// Prepares a client that runs as PID 1 with the agent preloaded.
fn preloaded_as_pid_1(unshare: &[&str], client: &str, variables: &[String]) -> Run {
    let run = unshare[1..].iter().fold(Run::command(unshare[0]), Run::arg);
    let run = run.arg("env").arg(format!("LD_PRELOAD={}", agent().display()));
    variables.iter().fold(run, Run::arg).arg(program(client))
}

#[test]
fn pid_1_reaps_only_its_own_children_and_one_line_says_that_it_is_unobserved() {
    let Some(unshare) = as_pid_1() else { return };
    let done = preloaded_as_pid_1(&unshare, "plain_work", &[]).plain().succeeded();
    assert_eq!((&done.said()["pid"], &done.said()["launches"]), (&1.into(), &200.into()));
    assert_unobserved(&done, "PID 1");
    let done = preloaded_as_pid_1(&unshare, "reap_any_child", &[]).plain().succeeded();
    assert_eq!(done.said()["reaped"], 2);
}

#[test]
fn gpuspy_run_as_pid_1_observes_its_program() {
    let Some(unshare) = as_pid_1() else { return };
    let run = unshare[1..].iter().fold(Run::command(unshare[0]), Run::arg);
    let run = [gpuspy_tests::gpuspy().to_str().unwrap(), "run", "-o", "trace.gspy", "--"]
        .iter()
        .fold(run, Run::arg);
    let done = run.arg(program("plain_work")).plain().succeeded();
    assert_eq!(launches(&done.report()), 200);
}

#[test]
fn a_listening_collector_observes_pid_1() {
    let Some(unshare) = as_pid_1() else { return };
    let listener = super::Listener::start();
    let done = preloaded_as_pid_1(&unshare, "plain_work", &[listener.variable()]).plain().succeeded();
    assert_eq!(done.stderr, "");
    let traces = listener.stop();
    assert_eq!(traces.len(), 1, "{traces:?}");
    assert_eq!(launches(&report(&traces[0])), 200);
}

#[test]
fn a_file_size_limit_does_no_harm() {
    for bytes in ["1048576", "4096", "0"] {
        // The simulator's truth file would be limited as well.
        let done = Run::of("rlimit_fsize").arg(bytes).env("SIMCUDA_TRUTH", "").preloaded().succeeded();
        assert_eq!(done.said()["launches"], 200);
        assert_unobserved(&done, "ulimit -f");
        let done = Run::of("rlimit_fsize").arg(bytes).env("SIMCUDA_TRUTH", "").observed().succeeded();
        assert_eq!(done.said()["launches"], 200);
    }
}

#[test]
fn a_collector_under_a_file_size_limit_keeps_what_fits() {
    // Both under the limit: the agent declines, and the exit code is the program's.
    let limited = |script: &str| {
        let run = Run::command("bash").env("SIMCUDA_TRUTH", "").arg("-c").arg(script);
        run.arg(gpuspy_tests::gpuspy()).arg(program("exit_early"))
    };
    let done = limited("ulimit -f 0; exec \"$0\" run -o trace.gspy -- \"$1\" 300").plain();
    assert_eq!(done.status.code(), Some(5), "{}", done.stderr);
    // Only the collector under the limit: it ends the trace at the limit, and is not killed itself.
    let listener = super::Listener::limited_to_kib(8);
    let done = Run::of("flood").arg("50000").env("GPUSPY_SOCKET", listener.socket()).preloaded().succeeded();
    assert_eq!(done.said()["launches"], 50_000);
    let traces = listener.stop();
    assert_eq!(traces.len(), 1, "{traces:?}");
    assert!(std::fs::metadata(&traces[0]).unwrap().len() <= 8 << 10);
    report(&traces[0]);
}

#[test]
fn a_file_that_reuses_one_of_the_agents_descriptor_numbers_is_not_written() {
    let run = Run::of("close_all");
    let folder = run.folder().to_owned();
    let done = run.arg(folder).env("SIMCUDA_TRUTH", "").preloaded().succeeded();
    assert_eq!(done.said()["launches"], 360);
    assert_eq!(done.said()["file_blocks"], 0, "{}", done.stdout);
}

/// What the agent may add to a process whose every mapping is resident: its header and slots, one or two rings of 64
/// KiB, its tables, a thread's stack, and libc's memory for a second thread.
const RESIDENT_KIB: i64 = 8 << 10;

#[test]
fn locked_memory_does_no_harm_and_the_agent_adds_little_resident_memory() {
    let plain = Run::of("mlockall_future").plain();
    if plain.status.code() == Some(77) {
        eprintln!("skipped: {}", plain.stderr);
        return;
    }
    let plain = plain.succeeded();
    let done = Run::of("mlockall_future").preloaded().succeeded();
    assert_eq!(done.said()["launches"], 200);
    let after = |done: &Done| done.said()["resident_kib_after"].as_i64().unwrap();
    let added = after(&done) - after(&plain);
    println!("{added} KiB more resident with the agent");
    assert!(added <= RESIDENT_KIB, "the agent takes {added} KiB of memory");
    assert!(the_line(&done).contains("the trace is"));
    assert_eq!(launches(&done.report()), 200);
}
