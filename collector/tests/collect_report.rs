//! From a run to its report: on the screen, as JSON, from files and directories, and what cannot be read.

#[allow(dead_code, reason = "shared with tests that use the rest of it")]
mod collect_support;

use collect_support::place::{Place, run_script, stderr};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::Stdio;

#[test]
fn the_stand_in_launches() {
    collect_support::launch_for_whoever_listens();
}

fn json(text: &[u8]) -> Value {
    serde_json::from_slice(text).unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(text)))
}

#[test]
fn a_run_ends_with_its_report_on_stderr() {
    let place = Place::new();
    let output = run_script(&place, &["-o", "x.gspy"], "echo app; exec $AGENT >/dev/null");
    assert_eq!(output.stdout, b"app\n");
    let told = stderr(&output);
    assert!(told.contains("saxpy") && told.contains("10 launches"), "{told}");
    assert!(
        told.ends_with("gpuspy: the trace is x.gspy; read it again with: gpuspy report x.gspy\n"),
        "{told}"
    );
    assert!(!place.path("x.json").exists());
    let again = place.gpuspy(&["report", "x.gspy"]).output().unwrap();
    assert_eq!((again.status.code(), stderr(&again)), (Some(0), String::new()));
    let screen = String::from_utf8(again.stdout).unwrap();
    assert!(told.starts_with(&screen), "the same screen:\n{told}\n{screen}");
}

#[test]
fn json_is_written_beside_the_trace_and_to_stdout() {
    let place = Place::new();
    let output = run_script(&place, &["-o", "x.gspy", "--json", "--quiet"], "exec $AGENT >/dev/null 2>&1");
    assert_eq!(stderr(&output), "");
    let written = fs::read(place.path("x.json")).unwrap();
    let printed = place.gpuspy(&["report", "x.gspy", "--json"]).output().unwrap();
    assert_eq!(json(&written), json(&printed.stdout));
    let report = json(&written);
    assert_eq!(report["coverage"]["launches"], 10);
    assert_eq!(report["kernels"][0]["name"], "saxpy");
}

#[test]
fn a_directory_is_one_run() {
    let place = Place::new();
    run_script(&place, &["-o", "x.gspy", "--quiet"], "$AGENT >/dev/null & $AGENT >/dev/null; wait");
    let output = place.gpuspy(&["report", "x.gspy", "--json"]).output().unwrap();
    let report = json(&output.stdout);
    assert_eq!(report["coverage"]["launches"], 20);
    assert_eq!(report["processes"].as_array().unwrap().len(), 2);
    // One that cannot be read is named; the others are reported.
    fs::write(place.path("x.gspy/zzz.gspy"), "no trace").unwrap();
    let output = place.gpuspy(&["report", "x.gspy", "--json"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(json(&output.stdout)["coverage"]["launches"], 20);
    assert!(stderr(&output).contains("cannot read x.gspy/zzz.gspy"), "{}", stderr(&output));
}

#[test]
fn what_is_no_trace_is_exit_3() {
    let place = Place::new();
    fs::create_dir(place.path("empty")).unwrap();
    fs::write(place.path("noise.gspy"), [7; 5000]).unwrap();
    for path in ["absent.gspy", "empty", "noise.gspy"] {
        let output = place.gpuspy(&["report", path]).output().unwrap();
        assert_eq!(output.status.code(), Some(3), "{path}");
        assert!(output.stdout.is_empty());
        assert!(
            stderr(&output).starts_with("gpuspy: ") && stderr(&output).contains(path),
            "{}",
            stderr(&output)
        );
        assert_eq!(stderr(&output).lines().count(), 1, "{}", stderr(&output));
    }
}

#[test]
fn a_damaged_trace_is_reported_with_what_it_lost() {
    let place = Place::new();
    run_script(&place, &["-o", "x.gspy", "--quiet"], "exec $AGENT >/dev/null");
    let whole = fs::read(place.path("x.gspy")).unwrap();
    let mut reported = 0;
    for at in (0..whole.len()).step_by(whole.len() / 60 + 1) {
        let mut flipped = whole.clone();
        flipped[at] ^= 0x10;
        for bytes in [&whole[..at], &flipped] {
            fs::write(place.path("bad.gspy"), bytes).unwrap();
            let output = place.gpuspy(&["report", "bad.gspy"]).output().unwrap();
            let code = output.status.code();
            assert!(code == Some(0) || code == Some(3), "byte {at}: {code:?} {}", stderr(&output));
            assert!(!stderr(&output).contains("panicked"), "{}", stderr(&output));
            reported += usize::from(code == Some(0));
        }
    }
    assert!(reported > 0, "some of them must be readable");
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let place = Place::new();
    run_script(&place, &["-o", "x.gspy", "--quiet"], "exec $AGENT >/dev/null");
    let mut report =
        place.gpuspy(&["report", "x.gspy"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(report.stdout.take());
    let output = report.wait_with_output().unwrap();
    assert_eq!((output.status.code(), stderr(&output)), (Some(0), String::new()));
}

#[test]
fn a_growing_trace_is_waited_for_and_then_read_as_it_is() {
    let place = Place::new();
    let script = "FAKE_LINGERS=1 $AGENT 2>&1 & echo $! >pid; wait";
    let agent =
        format!("{} --exact the_stand_in_launches --nocapture", std::env::current_exe().unwrap().display());
    let mut run = place.gpuspy(&["run", "--quiet", "-o", "x.gspy", "--", "sh", "-c", script]);
    let mut run = run.env("AGENT", agent).stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(run.stdout.as_mut().unwrap()).lines();
    assert!(lines.map_while(Result::ok).any(|line| line.ends_with("lingering")));
    let output = place.gpuspy(&["report", "x.gspy", "--json"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(stderr(&output).contains("x.gspy is still being written"), "{}", stderr(&output));
    assert_eq!(
        json(&output.stdout)["coverage"]["launches"],
        10,
        "what was published is on disk within moments"
    );
    let pid: i32 = fs::read_to_string(place.path("pid")).unwrap().trim().parse().unwrap();
    // SAFETY: takes numbers; the process is a descendant of ours that sleeps.
    assert_eq!(unsafe { libc::kill(pid, libc::SIGKILL) }, 0);
    run.wait().unwrap();
}
