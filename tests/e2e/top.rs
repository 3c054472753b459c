//! `gpuspy top`: what a running program does now, and until it ends.

use gpuspy_tests::{Run, gpuspy, program};
use std::path::Path;
use std::process::{Command, Output};

/// Looks at a trace with these options.
fn top(trace: &Path, options: &[&str]) -> Output {
    Command::new(gpuspy()).arg("top").arg(trace).args(options).output().unwrap()
}

/// Runs a program that launches for seconds under gpuspy, and something beside it.
fn beside(milliseconds: &str, during: impl FnOnce(&Path)) {
    let run = Run::of("launch_storm").env("SIMCUDA_TRUTH", "").env("SIMCUDA_HOST_COST", "launch=20000");
    let (storm, trace) = (program("launch_storm"), run.folder().join("trace.gspy"));
    let command = run.gpuspy_command(&[
        "run",
        "--quiet",
        "--no-report",
        "-o",
        "trace.gspy",
        "--",
        storm.to_str().unwrap(),
        milliseconds,
    ]);
    run.finish_after(command, |_| {
        while !trace.exists() {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        during(&trace);
    })
    .succeeded();
}

#[test]
fn looks_at_a_running_program_follow_it_to_its_end() {
    beside("2500", |trace| {
        let output = top(trace, &["--every", "100ms", "--last", "300ms", "--section", "kernels"]);
        let (said, error) = (String::from_utf8(output.stdout).unwrap(), output.stderr);
        assert!(output.status.success() && error.is_empty(), "{}", String::from_utf8_lossy(&error));
        let looks: Vec<&str> = said.split("gpuspy  ").filter(|look| !look.is_empty()).collect();
        let kernels = looks.iter().filter(|look| look.contains("storm")).count();
        assert!(kernels * 2 > looks.len(), "{said}");
        println!("{} looks; the first: {}", looks.len(), looks[0]);
        assert!(looks.iter().all(|look| look.contains("the last 0.3 s")), "{said}");
        assert!(looks.last().unwrap().contains("exited"), "{said}");
    });
}

#[test]
fn a_look_is_of_the_program_while_it_runs_and_none_is_of_one_that_has_ended() {
    let mut ended = None;
    beside("2500", |trace| {
        let output = top(trace, &["--looks", "1"]);
        let said = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success() && said.contains("running"), "{said}");
        ended = Some(std::fs::read(trace).unwrap());
    });
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("ended.gspy");
    std::fs::write(&trace, ended.unwrap()).unwrap();
    let output = top(&trace, &[]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("no program writes to") && said.lines().count() == 1, "{said}");
}
