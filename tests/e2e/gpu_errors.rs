//! A GPU that stops with an error is the first thing that a report says, with the launches that may have caused it.

use super::findings::names_its_line;
use super::python_lines::{readable, script};
use gpuspy_tests::{Done, Run, gpuspy};
use serde_json::Value;

const PROGRAM: &str = "fault_gpu_error";

fn run(what: &str, timing: &str) -> Done {
    Run::of(PROGRAM).arg(what).observed_with(&["--timing", timing]).succeeded()
}

/// Returns what `gpuspy report` prints: the first screen.
fn screen(done: &Done) -> String {
    let report = std::process::Command::new(gpuspy()).arg("report").arg(done.trace()).output().unwrap();
    String::from_utf8(report.stdout).unwrap()
}

fn text(finding: &Value) -> &str {
    finding["evidence"]["text"].as_str().unwrap()
}

#[test]
fn the_error_that_stopped_a_gpu_comes_first_with_what_was_launched_before_it() {
    for timing in ["exact", "auto", "off"] {
        let done = run("faulty", timing);
        let truth = done.truth();
        let ran = |name: &str| {
            let of_name = truth.of("kernel").filter(|kernel| kernel["name"] == name);
            of_name.map(|kernel| kernel["end"].is_number()).collect::<Vec<_>>()
        };
        // What completed, what failed, and what did not run after it.
        assert_eq!(ran("done_50us"), [true, true]);
        assert_eq!((ran("scatter_fault700_1000ms"), ran("behind_20us")), (vec![true], vec![true, false]));
        let report = done.report();
        let first = &report["findings"][0];
        assert_eq!(first["id"], "gpu-error", "{timing}: {:#}", report["findings"]);
        names_its_line(PROGRAM, first);
        assert_eq!(first["evidence"]["count"], done.said()["stopped"]);
        assert_eq!(first["evidence"]["api"], "cuStreamSynchronize");
        assert_eq!(first["saves_ns"]["hi"], 0);
        let said = text(first);
        assert!(said.starts_with("CUDA_ERROR_ILLEGAL_ADDRESS (700): "), "{timing}: {said}");
        let (_, suspects) = said.split_once("not seen to complete, the latest last: ").unwrap();
        let (before, after) = suspects.split_once(", ").unwrap();
        assert!(before.starts_with("scatter_fault700_1000ms (at "), "{timing}: {said}");
        assert!(after.starts_with("behind_20us (at ") && !after.contains(", "), "{timing}: {said}");
        assert!(!said.contains("done_50us"), "it completed: {timing}: {said}");
        let screen = screen(&done);
        assert!(
            screen.contains("The GPU stopped with an error: illegal address (700)"),
            "{timing}: {screen}"
        );
        assert!(!screen.contains("No verdict"), "{timing}: {screen}");
        let verdict = &report["verdict"];
        let lead =
            "The GPU stopped with an error: illegal address (700), first returned by cuStreamSynchronize at ";
        assert!(verdict["text"][0].as_str().unwrap().starts_with(lead), "{timing}: {verdict}");
        if timing == "off" {
            assert!(verdict["bound"].is_null() && verdict["unsafe"].is_string(), "{verdict}");
        }
    }
}

#[test]
fn a_program_whose_kernels_do_not_fail_has_no_such_finding() {
    let report = run("fixed", "exact").report();
    let findings = report["findings"].as_array().unwrap();
    assert!(findings.iter().all(|finding| finding["id"] != "gpu-error"), "{findings:#?}");
}

#[test]
fn a_program_of_python_has_the_lines_of_the_launch_and_of_the_call_that_returned_the_error() {
    let python = readable().pop().unwrap();
    let done = script(&python, "python_gpu_error.py").observed().succeeded();
    let (said, report) = (done.said(), done.report());
    let first = &report["findings"][0];
    assert_eq!(first["id"], "gpu-error", "{:#}", report["findings"]);
    let ends = |line: &str| format!("python_gpu_error.py:{}", said[line]);
    assert!(first["evidence"]["line"].as_str().unwrap().ends_with(&ends("wait")), "{first:#}");
    assert_eq!(first["evidence"]["kernel"], "asserts_fault710_1000ms");
    let suspect = text(first).split_once("not seen to complete: ").unwrap().1;
    assert!(suspect.starts_with("asserts_fault710_1000ms (at "), "{suspect}");
    assert!(suspect.ends_with(&format!("{}).", ends("launch"))), "{suspect}");
}
