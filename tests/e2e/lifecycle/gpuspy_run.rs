//! `gpuspy run`: the program's own exit code, streams, preloads; one trace, or a directory of several.

use super::{files, launches, our_lines};
use gpuspy_tests::{Run, program, report};
use std::os::unix::fs::PermissionsExt;

#[test]
fn the_exit_code_is_the_programs() {
    for (script, code) in
        [("exit 0", 0), ("exit 1", 1), ("exit 42", 42), ("kill -TERM $$", 143), ("kill -SEGV $$", 139)]
    {
        let done = Run::command("sh").arg("-c").arg(script).observed();
        assert_eq!(done.status.code(), Some(code), "{script}: {}", done.stderr);
    }
    assert_eq!(Run::command("false").observed().status.code(), Some(1));
}

#[test]
fn a_missing_program_is_127_and_one_that_cannot_run_is_126() {
    let done = Run::command("nonexistent-program").observed();
    assert_eq!(done.status.code(), Some(127));
    assert_eq!(our_lines(&done).len(), 1, "{}", done.stderr);
    let run = Run::command("./data");
    std::fs::write(run.folder().join("data"), "data").unwrap();
    std::fs::set_permissions(run.folder().join("data"), PermissionsExt::from_mode(0o644)).unwrap();
    let done = run.observed();
    assert_eq!(done.status.code(), Some(126));
    assert_eq!(our_lines(&done).len(), 1, "{}", done.stderr);
}

#[test]
fn stdout_contains_only_the_programs_output() {
    let done = Run::of("plain_work").observed().succeeded();
    assert_eq!(done.stdout.lines().count(), 1, "{}", done.stdout);
    assert_eq!(done.said()["launches"], 200);
    assert!(done.stderr.contains("plain_10us"), "the report: {}", done.stderr);
}

#[test]
fn the_users_own_preload_is_kept_and_called() {
    let library = program("libwraplaunch.so");
    let done =
        Run::of("plain_work").env("LD_PRELOAD", &library).env("WRAPLAUNCH_FD", "1").observed().succeeded();
    assert!(done.stdout.contains("wraplaunch 200\n"), "{}", done.stdout);
    assert_eq!(launches(&done.report()), 200);
}

#[test]
fn a_program_without_cuda_calls_leaves_no_trace() {
    let done = Run::command("python3").arg("-c").arg("print('done')").observed().succeeded();
    assert_eq!(done.stdout, "done\n");
    assert_eq!(files(&done), [] as [&str; 0]);
    let lines = our_lines(&done);
    assert_eq!(lines.len(), 1, "{}", done.stderr);
    assert!(lines[0].contains("the program made no CUDA call"), "{}", lines[0]);
}

#[test]
fn traces_of_two_processes_go_into_a_directory_and_are_reported_together() {
    let done = Run::of("fork_child").arg("before").observed().succeeded();
    let directory = done.folder().join("trace.gspy");
    assert!(directory.is_dir(), "{:?}\n{}", files(&done), done.stderr);
    let traces: Vec<_> = std::fs::read_dir(&directory).unwrap().map(|e| e.unwrap().path()).collect();
    assert_eq!(traces.len(), 2, "{traces:?}");
    let whole = report(&directory);
    assert_eq!(launches(&whole), 400);
    assert_eq!(whole["processes"].as_array().unwrap().len(), 2);
    for trace in traces {
        assert_eq!(launches(&report(&trace)), 200);
    }
}
