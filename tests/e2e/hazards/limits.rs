//! Limits of the program's process (setrlimit(2)), which its collector inherits.

use super::{is_skipped, nothing_is_left_of, same, traces_with_content, watched};
use crate::lifecycle::launches;
use gpuspy_tests::{Done, Run, agent, gpuspy, program, report, sim_lib};
use std::os::unix::fs::PermissionsExt;

/// Runs a client under `ulimit`, with the agent or without it.
fn limited(option: &str, agent: Option<&str>) -> Done {
    let preload = agent.map_or(String::new(), |path| format!("LD_PRELOAD={path}"));
    let script = format!("ulimit {option} && {preload} exec \"$0\"");
    watched(Run::command("bash").arg("-c").arg(script).arg(program("plain_work"))).plain()
}

/// Checks one limit. Returns whether the program was traced.
fn is_traced_under(option: &str) -> bool {
    let plain = limited(option, None);
    let done = limited(option, agent().to_str());
    assert_eq!(done.status, plain.status, "ulimit {option}: {}", done.stderr);
    if !plain.status.success() {
        return false;
    }
    // Each prints its own pid.
    assert_eq!(done.said()["launches"], plain.said()["launches"], "ulimit {option}");
    let lines: Vec<&str> = done.stderr.lines().collect();
    assert!(lines.len() == 1 && lines[0].starts_with("gpuspy: "), "ulimit {option}: {}", done.stderr);
    nothing_is_left_of(&done, option);
    let traces = traces_with_content(&done);
    for trace in &traces {
        assert!(launches(&report(trace)) <= 200, "ulimit {option}");
    }
    // A line that names a trace is true. The collector's memory may also run out after it has written a part.
    let (is_named, is_part) = (lines[0].contains("the trace is"), lines[0].contains("is incomplete: "));
    assert!(!is_named || !traces.is_empty(), "ulimit {option}: {}", done.stderr);
    assert!(is_named || is_part || traces.is_empty(), "ulimit {option}: {}", done.stderr);
    !traces.is_empty()
}

/// The collector's first thread overflowed its stack where the program's did not.
#[test]
fn a_small_stack_of_the_first_thread_ends_neither_program_nor_collector() {
    // The arguments, the environment and the client itself take up to 16.
    for kib in [28, 32, 64, 128, 1024] {
        assert!(is_traced_under(&format!("-s {kib}")), "{kib} KiB");
        let script = format!("ulimit -s {kib} && exec \"$0\" run --no-report -o trace.gspy -- \"$1\"");
        let run = Run::command("bash").arg("-c").arg(script).arg(gpuspy()).arg(program("plain_work"));
        let done = watched(run).plain().succeeded();
        assert_eq!(launches(&done.report()), 200, "{kib} KiB");
        nothing_is_left_of(&done, "gpuspy run");
    }
}

/// `gpuspy run` passes SIGINT on, whichever of its threads runs the command.
#[test]
fn an_interrupt_reaches_the_program_under_a_small_stack() {
    let script = "ulimit -s 64 && exec \"$0\" run --no-report --quiet -o trace.gspy -- \
        bash -c 'trap \"echo interrupted; exit 5\" INT; kill -INT $PPID; sleep 20 & wait'";
    let done = watched(Run::command("bash").arg("-c").arg(script).arg(gpuspy())).plain();
    assert_eq!((done.status.code(), done.stdout.trim()), (Some(5), "interrupted"), "{}", done.stderr);
}

#[test]
fn whatever_address_space_a_program_has_it_runs_as_without_the_agent() {
    let megabytes = [25, 30, 35, 40, 50, 60, 80, 120, 200, 400, 1000, 4000];
    let traced: Vec<_> =
        megabytes.iter().filter(|mb| is_traced_under(&format!("-v {}", *mb * 1000))).collect();
    println!("traced at {traced:?} MB");
    assert!(traced.len() >= 6, "traced only at {traced:?} MB");
}

#[test]
fn whatever_data_a_program_may_have_it_runs_as_without_the_agent() {
    // Where less than 32 are left, all of it is the program's.
    let megabytes = [1, 2, 4, 5, 8, 16, 32, 64, 256];
    let traced: Vec<_> =
        megabytes.iter().filter(|mb| is_traced_under(&format!("-d {}", *mb * 1000))).collect();
    println!("traced at {traced:?} MB");
    assert_eq!(traced, [&64, &256]);
}

#[test]
fn locked_memory_and_pending_signals_may_be_forbidden() {
    for option in ["-l 0", "-i 0", "-q 0", "-c 0"] {
        assert!(is_traced_under(option), "ulimit {option}");
    }
}

/// Root has no limit on processes, so that another user runs the program, with copies of all files.
#[test]
fn however_few_threads_a_user_may_have_the_program_runs_as_without_the_agent() {
    let folder = tempfile::tempdir().unwrap();
    let copied = |from: std::path::PathBuf, name: &str| {
        let to = folder.path().join(name);
        std::fs::copy(from, &to).unwrap();
        std::fs::set_permissions(&to, std::fs::Permissions::from_mode(0o755)).unwrap();
        to
    };
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    copied(gpuspy(), "gpuspy");
    copied(sim_lib().join("libcuda.so.1"), "libcuda.so.1");
    let (agent, client) = (copied(agent(), "libgpuspy.so"), copied(program("plain_work"), "plain_work"));
    let with_threads = |most: u32, agent: &str| {
        let run = watched(Run::of("as_other_user").arg(most.to_string()).arg(agent).arg(&client));
        for place in [run.folder().to_owned(), run.folder().join("tmp")] {
            std::fs::set_permissions(place, std::fs::Permissions::from_mode(0o777)).unwrap();
        }
        run.env("LD_LIBRARY_PATH", folder.path()).env("SIMCUDA_TRUTH", "").plain()
    };
    let mut traced = Vec::new();
    for most in 1..=16 {
        let plain = with_threads(most, "");
        if is_skipped(&plain) {
            return;
        }
        let done = with_threads(most, agent.to_str().unwrap());
        let what = format!("{most} threads: {}", done.stderr);
        assert_eq!((done.status, done.stdout.is_empty()), (plain.status, plain.stdout.is_empty()), "{what}");
        nothing_is_left_of(&done, &what);
        let traces = traces_with_content(&done);
        assert_eq!(done.stderr.contains("the trace is"), !traces.is_empty(), "{what}");
        if !traces.is_empty() {
            assert_eq!(launches(&report(&traces[0])), 200, "{what}");
            traced.push(most);
        } else if plain.status.success() {
            assert!(
                done.stderr.contains("unobserved") || done.stderr.contains("no trace was written"),
                "{what}"
            );
        }
    }
    println!("traced with {traced:?} threads");
    assert!(traced.contains(&16), "traced only with {traced:?} threads");
}

#[test]
fn the_program_ends_as_before_if_cpu_time_runs_out() {
    let limited = |preload: &str| {
        let script = format!("ulimit -t 1; {preload} exec \"$0\"");
        watched(Run::command("bash").arg("-c").arg(script).arg(program("keeps_launching"))).plain()
    };
    let plain = limited("");
    let done = limited(&format!("LD_PRELOAD={}", agent().display()));
    same(&plain, &done, "one second of CPU time");
    nothing_is_left_of(&done, "one second of CPU time");
    let [trace] = &traces_with_content(&done)[..] else { panic!("no trace: {}", done.stderr) };
    assert!(launches(&report(trace)) > 0);
}
