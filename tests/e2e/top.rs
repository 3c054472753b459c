//! `gpuspy top`: what a running program does now, and until it ends.

use gpuspy_tests::{Done, Run, gpuspy, program, terminal};
use std::fs;
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
        fs::copy(trace, &copy).unwrap();
    });
    let output = top(&copy, &[]).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("no program writes to") && said.lines().count() == 1, "{said}");
}

/// A shell that prints, launches for a while, prints on stderr, and fails.
const SCRIPT: &str = "echo begin; \"$0\" 700; echo end; echo failed >&2; exit 3";

/// `gpuspy top` of this shell.
fn top_of_shell(run: &Run) -> Command {
    let mut command =
        run.gpuspy_command(&["top", "--every", "100ms", "--last", "1h", "-o", "shell.gspy", "--"]);
    command.args(["sh", "-c", SCRIPT]).arg(program("launch_storm"));
    command
}

/// What the shell printed into the file beside its trace.
fn printed(done: &Done) -> String {
    fs::read_to_string(done.folder().join("shell.gspy.out")).unwrap()
}

#[test]
fn a_program_that_top_starts_is_seen_to_its_end_and_what_it_prints_is_kept() {
    let run = Run::of("launch_storm").env("SIMCUDA_TRUTH", "").env("SIMCUDA_HOST_COST", "launch=20000");
    let command = top_of_shell(&run);
    let done = run.finish(command);
    assert_eq!(done.status.code(), Some(3), "{}", done.stderr);
    let printed = printed(&done);
    let [begin, said, end] = printed.lines().collect::<Vec<_>>()[..] else { panic!("{printed}") };
    assert_eq!([begin, end], ["begin", "end"]);
    let said: serde_json::Value = serde_json::from_str(said).unwrap();
    let looks: Vec<&str> = done.stdout.split("gpuspy  ").filter(|look| !look.is_empty()).collect();
    println!("{} looks; the last: {}", looks.len(), looks[looks.len() - 1]);
    let counted = looks.last().and_then(|look| look.split("Coverage  ").nth(1)?.split(" launches").next());
    assert_eq!(counted.unwrap().replace(' ', ""), said["launches"].to_string(), "{}", done.stdout);
    assert!(looks.iter().rev().skip(1).all(|look| look.contains("still running")), "{}", done.stdout);
    // stderr is no terminal, so the program has it, and what is said at the end comes after it.
    let parts =
        ["failed\n", "begin\n", "end\n", "printed is in shell.gspy.out\n", "gpuspy report shell.gspy\n"];
    let mut rest = done.stderr.as_str();
    for part in parts {
        rest = rest.split_once(part).unwrap_or_else(|| panic!("{part} is not in {}", done.stderr)).1;
    }
}

#[test]
fn a_program_that_top_starts_prints_nothing_over_its_screen() {
    let run = Run::of("launch_storm").env("SIMCUDA_TRUTH", "").env("SIMCUDA_HOST_COST", "launch=20000");
    let (mut screen, slave) = terminal();
    let mut command = top_of_shell(&run);
    let copy = || slave.try_clone().unwrap();
    command.stdin(copy()).stdout(copy()).stderr(copy());
    let mut child = command.spawn().unwrap();
    drop((command, slave));
    let mut shown = Vec::new();
    // Reading ends with EIO once the last writer has closed.
    let _ = screen.read_to_end(&mut shown);
    let shown = String::from_utf8_lossy(&shown).into_owned();
    let status = child.wait().unwrap();
    let done = run.finished(Output { status, stdout: Vec::new(), stderr: Vec::new() });
    assert_eq!(printed(&done).lines().filter(|line| ["begin", "end", "failed"].contains(line)).count(), 3);
    let (screens, after) = shown.rsplit_once("\x1b[J").unwrap();
    assert!(screens.contains("storm_1us") && !screens.contains("begin"), "{shown}");
    assert!(
        after.contains("begin\r\n") && after.contains("failed\r\n") && status.code() == Some(3),
        "{shown}"
    );
}

#[test]
fn a_program_that_top_starts_and_that_hangs_is_said_to() {
    let run = Run::of("hang").env("GPUSPY_HANG_AFTER", "1");
    let mut command = run.gpuspy_command(&["top", "--every", "100ms", "--"]);
    command.arg(program("hang")).arg("gate").stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let pid = child.id() as i32;
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let mut seen = lines.filter(|line| line.contains("has been pending for"));
    let said = seen.next();
    end(pid);
    seen.for_each(drop);
    child.wait().unwrap();
    println!("{said:?}");
    assert!(said.is_some(), "it ended without a word of the hang");
}

/// `gpuspy run` obeyed the variable, and `gpuspy top` did not.
#[test]
fn the_limit_of_a_hang_is_that_of_the_variable() {
    let mut command = Command::new(gpuspy());
    let output = command.args(["top", "--", "true"]).env("GPUSPY_HANG_AFTER", "soon").output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(2) && said.contains("GPUSPY_HANG_AFTER"), "{said}");
}

#[test]
fn a_program_that_top_cannot_start_leaves_no_file() {
    let run = Run::of("launch_storm");
    let mut command = run.gpuspy_command(&["top", "--", "./missing"]);
    let output = command.output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(127), "{said}");
    assert!(said.contains("cannot run ./missing") && said.lines().count() == 1, "{said}");
    assert_eq!(fs::read_dir(run.folder()).unwrap().count(), 0);
}

#[test]
fn top_has_a_trace_or_a_program_and_says_so() {
    for words in
        [&[][..], &["a.gspy", "--", "true"], &["a.gspy", "-o", "b.gspy"], &["--looks", "1", "--", "true"]]
    {
        let output = Command::new(gpuspy()).arg("top").args(words).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{words:?}: {said}");
        assert!(said.contains("gpuspy top [OPTIONS] -- <CMD>..."), "{words:?}: {said}");
    }
}
