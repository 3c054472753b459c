//! A trace that cannot be written, or not to its end: the program runs as without it, and the line at exit and the report say
//! what is missing and why.
//!
//! A limit on the size of files stands for a full disk, because it needs no privileges: writing fails in the same way.

use super::{Listener, files, launches, number, the_line};
use gpuspy_collector::trace::TraceReader;
use gpuspy_collector::trace::record::Body;
use gpuspy_tests::{Done, Run, agent, gpuspy, program, report, until_one_is_good};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Writes a collector that may write files of this size, and returns its path.
fn collector_limited_to_kib(run: &Run, kib: u32) -> PathBuf {
    let path = run.folder().join("collector.sh");
    let script = format!("#!/bin/bash\nulimit -f {kib}; exec '{}' \"$@\"\n", gpuspy().display());
    std::fs::write(&path, script).unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
    path
}

/// A program that ends waits 100 ms for a collector that has said nothing yet, which a busy machine may not have started by
/// then.
#[test]
fn a_trace_that_cannot_be_written_is_not_announced() {
    until_one_is_good(|| {
        let done = Run::of("plain_work").env("GPUSPY_OUTPUT", "/dev/full").preloaded().succeeded();
        assert_eq!(done.said()["launches"], 200);
        says_that_no_trace_was_written(&done, "cannot write /dev/full: No space left on device")
    });
    until_one_is_good(|| {
        let run = Run::of("plain_work");
        let collector = collector_limited_to_kib(&run, 0);
        let done = run.env("GPUSPY_COLLECTOR", collector).preloaded().succeeded();
        assert_eq!(done.said()["launches"], 200);
        says_that_no_trace_was_written(&done, "File too large")?;
        assert_eq!(files(&done), ["collector.sh"], "no empty file is left");
        Ok(())
    });
}

fn says_that_no_trace_was_written(done: &Done, why: &str) -> Result<(), String> {
    let line = the_line(done);
    let is_right =
        line.contains("no trace was written: ") && line.contains(why) && !line.contains("read it with");
    is_right.then_some(()).ok_or_else(|| line.to_owned())
}

/// Runs a script with `disk` in its working directory being a full file system of its own. `None`: that is not permitted here.
fn with_a_full_disk(client: &str, script: &str) -> Option<Done> {
    let alone = ["--mount", "--propagation", "private"];
    let tried = Command::new("unshare").args(alone).args(["mount", "-t", "tmpfs", "none", "/mnt"]).output();
    if !tried.is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: nothing can be mounted here (unshare --mount)");
        return None;
    }
    let fill = "mkdir disk; mount -t tmpfs -o size=64k none disk; head -c 65536 /dev/zero >disk/zeros";
    let run = alone.into_iter().fold(Run::command("unshare"), Run::arg);
    let run = run.arg("bash").arg("-ec").arg(format!("{fill}; {script}")).arg(program(client));
    Some(run.env("PRELOADED", agent()).env("SIMCUDA_TRUTH", "").plain().succeeded())
}

/// Each process left 999 empty files in each folder, and said that there were too many traces. (A collector that a busy machine starts
/// late leaves its own after the program's end.)
#[test]
fn on_a_full_disk_no_empty_files_are_left() {
    let script = "cd disk; touch made.gspy
        for place in GPUSPY_DIR=.. GPUSPY_OUTPUT=named.gspy GPUSPY_OUTPUT=made.gspy; do
            env LD_PRELOAD=$PRELOADED $place $0 >../said
        done
        ls";
    until_one_is_good(|| {
        let Some(done) = with_a_full_disk("plain_work", script) else { return Ok(()) };
        let traces = files(&done).iter().filter(|name| name.ends_with(".gspy")).count();
        let no_space = done.stderr.matches("No space left on device").count();
        let is_right = (done.stdout.as_str(), traces, no_space) == ("zeros\n", 1, 2);
        is_right.then_some(()).ok_or_else(|| format!("{}{}{:?}", done.stdout, done.stderr, files(&done)))
    });
}

#[test]
fn a_trace_that_stops_midway_says_why_and_keeps_what_was_written() {
    const LAUNCHES: u64 = 400_000;
    // Room for a whole chunk, and not for all of them.
    let run = Run::of("flood").arg(LAUNCHES.to_string());
    let collector = collector_limited_to_kib(&run, 1024);
    let done = run.env("GPUSPY_COLLECTOR", collector).preloaded().succeeded();
    let report = done.report();
    let line = the_line(&done);
    assert!(line.contains("is incomplete: File too large"), "{line}");
    assert!(line.contains(done.trace().to_str().unwrap()), "{line}");
    let process = &report["processes"][0];
    assert_eq!(
        (&process["ending"], &process["damage"]["write_error"]),
        (&"exited".into(), &"File too large".into())
    );
    let (kept, lost) = (launches(&report), number(&report, "/processes/0/damage/records_lost"));
    // A collector that is late, on a busy machine, finds rings that were full before it tried to write.
    let dropped = number(&report, "/coverage/dropped");
    println!("{kept} of {LAUNCHES} launches were kept, {lost} records were not, and {dropped} had no room");
    assert!(
        kept > 0 && kept < LAUNCHES && kept + lost + dropped >= LAUNCHES,
        "{kept} kept, {lost} lost, {dropped} dropped"
    );
    let screen = done.section("coverage");
    assert!(
        screen.contains("incomplete trace: its collector could not write all of it (File too large)"),
        "{screen}"
    );
    assert!(!screen.contains("still running"), "{screen}");
}

#[test]
fn a_killed_collector_leaves_a_trace_that_says_it_was_cut_off() {
    const LAUNCHES: u64 = 2_000;
    let listener = Listener::start();
    // It launches for half a second, and then runs on without a call.
    let run = ["busy_5us", "4000", "0.5", "600000", "1"].iter().fold(Run::of("paced"), Run::arg);
    let mut command = run.preloaded_command();
    command.env("GPUSPY_SOCKET", listener.socket()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut program = command.spawn().unwrap();
    let traces = || -> Vec<PathBuf> {
        let entries = std::fs::read_dir(listener.folder.path()).unwrap().map(|entry| entry.unwrap().path());
        entries.filter(|path| path.extension().is_some_and(|e| e == "gspy")).collect()
    };
    // No flush is asked for: what was launched is in the file by itself.
    let in_file = || {
        let mut reader = TraceReader::open(traces().first()?).ok()?;
        Some(reader.records().filter(|record| matches!(record.body, Body::Work(_))).count() as u64)
    };
    let until = Instant::now() + Duration::from_secs(60);
    while in_file() != Some(LAUNCHES) {
        assert!(Instant::now() < until, "{:?} launches are in the file", in_file());
        std::thread::sleep(Duration::from_millis(20));
    }
    listener.signal(libc::SIGKILL);
    let trace = traces().remove(0);
    let report = report(&trace);
    let runs_on = program.try_wait().unwrap().is_none();
    program.kill().unwrap();
    program.wait().unwrap();
    assert!(runs_on, "the program does not notice");
    assert_eq!(launches(&report), LAUNCHES);
    let process = &report["processes"][0];
    assert_eq!((&process["ending"], &process["damage"]["unfinished"]), (&"unknown".into(), &true.into()));
    let screen = Command::new(gpuspy()).arg("report").arg(&trace).output().unwrap();
    let screen = String::from_utf8_lossy(&screen.stdout).split_whitespace().collect::<Vec<_>>().join(" ");
    let words =
        "cut trace: its collector was killed, or could not write any more, and the program may have run on";
    assert!(screen.contains(words), "{screen}");
    assert!(!screen.contains("still running") && screen.contains("ending unknown"), "{screen}");
}
