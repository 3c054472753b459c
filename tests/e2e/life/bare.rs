//! `LD_PRELOAD=libgpuspy.so program`, and nothing else.

use super::{files, launches, the_line};
use gpuspy_tests::{Done, Run, gpuspy, report};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Does what the line says: runs its command in a shell, elsewhere, and returns what that prints.
fn follow(line: &str) -> String {
    let (_, command) = line.split_once("read it with: ").unwrap_or_else(|| panic!("{line}"));
    let output = Command::new("sh").arg("-c").arg(command).current_dir("/").output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command}: {error}");
    assert_eq!(error, "");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_trace_of_its_own_name_lies_in_the_working_directory_and_one_line_says_so() {
    let done = Run::of("plain_work").preloaded().succeeded();
    let name = format!("gpuspy-plain_work-{}.gspy", done.said()["pid"]);
    let line = the_line(&done);
    assert!(line.contains(&*done.folder().join(&name).to_string_lossy()), "{line}");
    let screen = follow(line);
    assert!(screen.contains("plain_10us"), "{screen}");
    assert_eq!(files(&done), [name]);
    let report = done.report();
    assert_eq!(launches(&report), 200);
    assert_eq!(report["processes"][0]["ending"], "exited");
}

#[test]
fn the_lines_command_works_where_the_shell_would_stumble() {
    let run = Run::of("plain_work");
    let folder = run.folder().join("it's a $HOME; \"x\"");
    std::fs::create_dir(&folder).unwrap();
    let mut command = run.preloaded_command();
    command.current_dir(&folder);
    let done = run.finish(command).succeeded();
    assert!(follow(the_line(&done)).contains("plain_10us"));
}

#[test]
fn a_report_right_after_the_end_is_complete() {
    for count in [1, 30, 300, 20_000] {
        let run = Run::of("flood").arg(count.to_string());
        let command = run.preloaded_command();
        let done = run.finish(command).succeeded();
        // Not `Done::report`, which waits for the file.
        let (_, path) = the_line(&done).rsplit_once(' ').unwrap();
        assert_eq!(launches(&report(Path::new(path))), count, "{}", done.stderr);
    }
}

#[test]
fn a_program_of_a_single_call_is_seen() {
    for _ in 0..10 {
        let done = Run::of("init_only").preloaded().succeeded();
        let report = done.report();
        assert_eq!(launches(&report), 0);
        assert_eq!(report["processes"][0]["ending"], "exited");
        assert!(the_line(&done).contains("the trace is"));
    }
}

#[test]
fn quiet_is_quiet_and_still_traced() {
    let done = Run::of("plain_work").env("GPUSPY_QUIET", "1").preloaded().succeeded();
    assert_eq!(done.stderr, "");
    assert_eq!(launches(&done.report()), 200);
}

#[test]
fn gpuspy_0_turns_the_agent_off() {
    let done = Run::of("plain_work").env("GPUSPY", "0").preloaded().succeeded();
    assert_eq!(done.stderr, "");
    assert_eq!(done.said()["launches"], 200);
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(files(&done), [] as [&str; 0]);
}

/// Root writes where it may not, unless that right is taken from it; other users have none to lose.
fn without_override(command: &mut Command) {
    // linux/capability.h: CAP_DAC_OVERRIDE. Out of the bounding set, exec does not give it to root.
    const CAP_DAC_OVERRIDE: libc::c_ulong = 1;
    let drop = || {
        // SAFETY: takes numbers; a refusal (not root) is as good.
        unsafe { libc::prctl(libc::PR_CAPBSET_DROP, CAP_DAC_OVERRIDE, 0, 0, 0) };
        Ok(())
    };
    // SAFETY: one system call, neither allocates nor locks.
    unsafe { command.pre_exec(drop) };
}

/// Runs plain work in a directory that cannot be written, and returns where the line says that the trace is.
fn in_unwritable_directory(variables: &[(&str, &str)]) -> (Done, PathBuf) {
    let run = Run::of("plain_work");
    let root = run.folder().to_owned();
    let closed = root.join("closed");
    std::fs::create_dir(&closed).unwrap();
    std::fs::set_permissions(&closed, PermissionsExt::from_mode(0o555)).unwrap();
    let mut command = run.preloaded_command();
    without_override(&mut command);
    command.current_dir(&closed).env_remove("TMPDIR");
    for (name, folder) in variables {
        std::fs::create_dir(root.join(folder)).unwrap();
        command.env(name, root.join(folder));
    }
    let done = run.finish(command).succeeded();
    let (_, path) = the_line(&done).rsplit_once(' ').unwrap();
    let path = PathBuf::from(path);
    assert_eq!(launches(&report(&path)), 200);
    assert_eq!(std::fs::read_dir(&closed).unwrap().count(), 0);
    (done, path)
}

#[test]
fn an_unwritable_directory_sends_the_trace_to_gpuspy_dir() {
    let (done, path) = in_unwritable_directory(&[("GPUSPY_DIR", "mine"), ("TMPDIR", "tmp")]);
    assert_eq!(path.parent(), Some(&*done.folder().join("mine")));
}

#[test]
fn without_gpuspy_dir_it_goes_to_tmpdir() {
    let (done, path) = in_unwritable_directory(&[("TMPDIR", "tmp")]);
    assert_eq!(path.parent(), Some(&*done.folder().join("tmp")));
}

#[test]
fn without_either_it_goes_to_tmp() {
    let (_done, path) = in_unwritable_directory(&[]);
    assert_eq!(path.parent(), Some(Path::new("/tmp")));
    std::fs::remove_file(path).unwrap();
}

#[test]
fn no_collector_to_be_found_is_one_line_and_the_program_runs() {
    let done = Run::of("plain_work").env("GPUSPY_COLLECTOR", "/no/such/gpuspy").preloaded().succeeded();
    let line = the_line(&done);
    assert!(line.contains("runs unobserved") && line.contains("GPUSPY_COLLECTOR"), "{line}");
    assert_eq!(done.said()["launches"], 200);
    assert_eq!(files(&done), [] as [&str; 0]);
}

/// A collector that holds everything it was given and does nothing until it is told to go.
fn tardy_collector(folder: &Path) -> PathBuf {
    let script = folder.join("tardy");
    let text = format!(
        "#!/bin/sh\nn=0\nwhile [ ! -e {0}/go ] && [ $n -lt 600 ]; do sleep 0.1; n=$((n+1)); done\nexec {1} \"$@\"\n",
        folder.display(),
        gpuspy().display()
    );
    std::fs::write(&script, text).unwrap();
    std::fs::set_permissions(&script, PermissionsExt::from_mode(0o755)).unwrap();
    script
}

#[test]
fn a_pipe_ends_with_the_program_and_not_with_its_collector() {
    let run = Run::of("plain_work");
    let tardy = tardy_collector(run.folder());
    for redirect in ["", "2>&1"] {
        let program = run.preloaded_command();
        let script = format!("\"$0\" {redirect} | cat");
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(script).arg(program.get_program()).env("GPUSPY_COLLECTOR", &tardy);
        for (name, value) in program.get_envs() {
            match value {
                Some(value) => shell.env(name, value),
                None => shell.env_remove(name),
            };
        }
        let began = Instant::now();
        let output = shell.current_dir(run.folder()).stdin(Stdio::null()).output().unwrap();
        // The collector would have held the pipe for a minute.
        assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
        let told = String::from_utf8_lossy(if redirect.is_empty() { &output.stderr } else { &output.stdout });
        assert!(told.contains("gpuspy: the trace is"), "{told}");
    }
    // Late as they were, the collectors lose nothing.
    std::fs::write(run.folder().join("go"), "").unwrap();
    let traces = || {
        let entries = std::fs::read_dir(run.folder()).unwrap().map(|e| e.unwrap().path());
        entries.filter(|p| p.extension().is_some_and(|e| e == "gspy")).collect::<Vec<_>>()
    };
    assert_eq!(traces().len(), 2);
    for trace in traces() {
        assert_eq!(launches(&report(&trace)), 200);
    }
}
