//! `gpuspy top`: what a running program does now, and until it ends.

use gpuspy_tests::{Run, gpuspy, program};
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

/// A look at a trace with these options.
fn top(trace: &Path, options: &[&str]) -> Command {
    let mut command = Command::new(gpuspy());
    command.arg("top").arg(trace).args(options).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Runs a program under gpuspy that launches for longer than a test takes, and something beside it, which gets the trace and the process
/// of gpuspy; ends it then.
fn beside(during: impl FnOnce(&Path, i32)) {
    let run = Run::of("launch_storm").env("SIMCUDA_TRUTH", "").env("SIMCUDA_HOST_COST", "launch=20000");
    let (storm, trace) = (program("launch_storm"), run.folder().join("trace.gspy"));
    let storm = storm.to_str().unwrap();
    let options = ["run", "--quiet", "--no-report", "-o", "trace.gspy", "--", storm, "240000"];
    let command = run.gpuspy_command(&options);
    run.finish_after(command, |pid| {
        while !trace.exists() {
            std::thread::sleep(Duration::from_millis(5));
        }
        during(&trace, pid as i32);
        end(pid as i32);
    });
}

/// Ends gpuspy's program: it passes the signal on.
fn end(pid: i32) {
    // SAFETY: a signal to a process that a test started, and whose parent has not waited for it.
    assert_eq!(unsafe { libc::kill(pid, libc::SIGTERM) }, 0);
}

#[test]
fn looks_at_a_running_program_follow_it_to_its_end() {
    beside(|trace, pid| {
        let options = ["--every", "100ms", "--last", "300ms", "--section", "kernels"];
        let mut child = top(trace, &options).spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let (mut said, mut line) = (String::new(), String::new());
        while !line.contains("storm_1us") {
            line.clear();
            assert!(stdout.read_line(&mut line).unwrap() > 0, "it ended before its program: {said}");
            said += &line;
        }
        assert!(said.contains("still running"), "{said}");
        end(pid);
        stdout.read_to_string(&mut said).unwrap();
        let Output { status, stderr, .. } = child.wait_with_output().unwrap();
        assert!(status.success() && stderr.is_empty(), "{}", String::from_utf8_lossy(&stderr));
        let looks: Vec<&str> = said.split("gpuspy  ").filter(|look| !look.is_empty()).collect();
        println!("{} looks; the first: {}", looks.len(), looks[0]);
        assert!(looks.iter().all(|look| look.contains("the last 0.3 s")), "{said}");
        let is_over = |look: &&str| !look.contains("still running");
        assert!(looks.last().is_some_and(is_over), "{said}");
    });
}

#[test]
fn a_look_is_of_the_program_while_it_runs_and_none_is_of_one_that_has_ended() {
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("copy.gspy");
    beside(|trace, _| {
        let output = top(trace, &["--looks", "1"]).output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success() && said.contains("still running"), "{said}");
        // Nobody writes to the copy.
        std::fs::copy(trace, &copy).unwrap();
    });
    let output = top(&copy, &[]).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("no program writes to") && said.lines().count() == 1, "{said}");
}
