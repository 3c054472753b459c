//! `gpuspy run`: the program's own exit code, streams, preloads; one trace, or a directory of several.

use super::{files, launches, our_lines};
use gpuspy_tests::{Run, gpuspy, program, report};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::Command;

#[test]
fn the_exit_code_is_the_programs() {
    for (script, code) in [("exit 0", 0), ("exit 1", 1), ("exit 42", 42)] {
        let done = Run::command("sh").arg("-c").arg(script).observed();
        assert_eq!(done.status.code(), Some(code), "{script}: {}", done.stderr);
    }
    for (script, signal) in [("kill -TERM $$", libc::SIGTERM), ("kill -SEGV $$", libc::SIGSEGV)] {
        let done = Run::command("sh").arg("-c").arg(script).observed();
        assert_eq!(done.status.signal(), Some(signal), "{script}: {}", done.stderr);
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

/// The directory takes no file, but says that it is writable: there was no trace.
#[test]
fn a_removed_working_directory_sends_the_trace_to_gpuspy_dir_or_tmpdir() {
    for variable in ["GPUSPY_DIR", "TMPDIR"] {
        let script = "cd gone && rmdir ../gone && exec \"$0\" run -- \"$1\"";
        let run = Run::command("sh").arg("-c").arg(script).arg(gpuspy()).arg(program("plain_work"));
        let [gone, named] = ["gone", "named"].map(|name| run.folder().join(name));
        std::fs::create_dir(&gone).unwrap();
        std::fs::create_dir(&named).unwrap();
        let done = run.env(variable, &named).plain().succeeded();
        let traces: Vec<_> = std::fs::read_dir(&named).unwrap().map(|e| e.unwrap().path()).collect();
        assert_eq!(traces.len(), 1, "{variable}: {traces:?}: {}", done.stderr);
        assert_eq!(launches(&report(&traces[0])), 200, "{variable}");
    }
}

/// The program was not started; with bare `LD_PRELOAD`, its trace lay in /tmp.
#[test]
fn where_tmpdir_does_not_exist_traces_go_to_tmp() {
    let script = "mkdir gone && cd gone && rmdir ../gone && exec \"$0\" run -- \"$1\"";
    let run = Run::command("sh").arg("-c").arg(script).arg(gpuspy()).arg(program("plain_work"));
    let done = run.env("TMPDIR", "/nonexistent").plain().succeeded();
    let trace = PathBuf::from(format!("/tmp/gpuspy-plain_work-{}.gspy", done.said()["pid"]));
    assert_eq!(launches(&report(&trace)), 200, "{}", done.stderr);
    std::fs::remove_file(trace).unwrap();
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
    assert!(lines[0].contains("no process that the command started here called CUDA"), "{}", lines[0]);
}

/// compute-sanitizer starts a thread in gpuspy. That thread took the signal of the program's end, and gpuspy waited for it
/// for ever, in 17 of 20 runs on an H100 that ran side by side.
#[test]
fn the_end_of_the_program_is_seen_whichever_thread_gets_its_signal() {
    for _ in 0..20 {
        let done = Run::command("true").env("LD_PRELOAD", program("libownthread.so")).observed();
        assert_eq!(done.status.code(), Some(0), "{}", done.stderr);
    }
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

/// Compiles a program that ends with 7, if its LD_PRELOAD names no agent.
fn compiled(run: &Run, options: &[String]) {
    let source = "#include <stdlib.h>\n#include <string.h>\n\
        int main(void) { char *list = getenv(\"LD_PRELOAD\"); return list && strstr(list, \"gpuspy\") ? 8 : 7; }\n";
    std::fs::write(run.folder().join("program.c"), source).unwrap();
    let mut gcc = Command::new("gcc");
    gcc.args(["program.c", "-o", "program"]).args(options).current_dir(run.folder());
    assert!(gcc.status().unwrap().success());
}

#[test]
fn a_program_for_musl_runs_without_the_agent_and_one_line_says_why() {
    let run = Run::command("./program");
    // glibc's own loader under musl's name: musl's would refuse the agent, which needs glibc.
    let loader = run.folder().join("ld-musl-x86_64.so.1");
    std::fs::copy("/lib64/ld-linux-x86-64.so.2", &loader).unwrap();
    compiled(&run, &[format!("-Wl,--dynamic-linker={}", loader.display())]);
    let done = run.observed();
    assert_eq!(done.status.code(), Some(7), "{}", done.stderr);
    let lines = our_lines(&done);
    assert!(lines.len() == 1 && lines[0].contains("is a program for musl"), "{}", done.stderr);
}

#[test]
fn a_statically_linked_program_runs_and_one_line_says_that_it_cannot_be_seen_into() {
    let run = Run::command("./program");
    compiled(&run, &["-static".to_owned()]);
    let done = run.observed();
    // It has the variable, which nothing reads.
    assert_eq!(done.status.code(), Some(8), "{}", done.stderr);
    let lines = our_lines(&done);
    assert!(lines.len() == 1 && lines[0].contains("is statically linked"), "{}", done.stderr);
}
