//! Programs that are compiled with a sanitizer, which replaces parts of the C library, end as without the agent.

use gpuspy_tests::{Done, Run, gpuspy};
use std::process::Command;

fn ended_well(done: Done) -> Done {
    let done = done.succeeded();
    for word in ["ERROR", "WARNING", "FATAL", "Sanitizer"] {
        assert!(!done.stderr.contains(word), "{}", done.stderr);
    }
    done
}

fn every_launch_is_counted(done: &Done) {
    assert_eq!(done.report()["coverage"]["launches"], done.said()["launches"], "{}", done.stderr);
}

#[test]
fn thread_sanitizer_reports_nothing_of_ours() {
    let run = || {
        let run = Run::of("sanitized_thread");
        // The driver is not compiled with it.
        let list = run.folder().join("suppressions");
        std::fs::write(&list, "called_from_lib:libcuda.so.1\n").unwrap();
        run.env("TSAN_OPTIONS", format!("suppressions={}", list.display()))
    };
    ended_well(run().plain());
    // The start of the collector and of the program's threads met in some runs only.
    for _ in 0..8 {
        every_launch_is_counted(&ended_well(run().preloaded()));
    }
}

/// The path of GCC's shared runtime.
fn address_sanitizer() -> String {
    let asked = Command::new("gcc").arg("-print-file-name=libasan.so").output().unwrap();
    let path = std::fs::canonicalize(String::from_utf8(asked.stdout).unwrap().trim()).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn leak_sanitizer_finds_no_leak_of_ours() {
    ended_well(Run::of("sanitized_address").plain());
    let done = ended_well(Run::of("sanitized_address").preloaded_among(&[&address_sanitizer()], &[]));
    every_launch_is_counted(&done);
}

#[test]
fn the_doctor_says_in_which_order_address_sanitizer_is_preloaded() {
    let program = gpuspy_tests::program("sanitized_address");
    let doctor = Command::new(gpuspy()).args(["doctor", "--"]).arg(&program).output().unwrap();
    let said = String::from_utf8_lossy(&doctor.stdout).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("needs libasan.so.8 to be the first of all libraries"), "{said}");
    assert!(said.contains("LD_PRELOAD=libasan.so.8:/PATH/TO/libgpuspy.so"), "{said}");
}

#[test]
fn a_program_that_would_not_start_with_the_agent_runs_without_it() {
    let done = Run::of("sanitized_address").observed();
    assert_eq!(done.said()["launches"], 200, "{}", done.stderr);
    let done = done.succeeded();
    assert!(done.stderr.contains("nothing was collected: "), "{}", done.stderr);
    assert!(done.stderr.contains("start it with LD_PRELOAD=libasan.so.8:"), "{}", done.stderr);
}
