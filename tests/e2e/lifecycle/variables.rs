//! Variables of gpuspy's that are empty or mistyped: an empty one counts as unset, and another costs neither the program nor the trace.

use super::launches;
use gpuspy_tests::{Done, Run, gpuspy, program};

/// The variables of options that the library or its collector reads, and whether each value means something.
const OPTIONS: [(&str, bool); 8] = [
    ("GPUSPY_TIMING", false),
    ("GPUSPY_BUDGET", false),
    ("GPUSPY_CAPTURE_RANGE", false),
    ("GPUSPY_GRAPH", false),
    ("GPUSPY_STACKS", false),
    ("GPUSPY_HANG_AFTER", false),
    ("GPUSPY_NATIVE", true),
    ("GPUSPY_QUIET", true),
];

/// Those that have another meaning, so that not every value will do.
const OTHERS: [&str; 9] = [
    "GPUSPY_OUTPUT",
    "GPUSPY_DIR",
    "GPUSPY_COLLECTOR",
    "GPUSPY_SOCKET",
    "GPUSPY_AGENT",
    "GPUSPY_HTML",
    "GPUSPY_JSON",
    "GPUSPY_NO_REPORT",
    "GPUSPY_PROGRESS",
];

/// Prepares plain work with a variable, and with the default of the timing, which has a budget.
fn with(name: &str, value: &str) -> Run {
    Run::of("plain_work").env("GPUSPY_TIMING", "auto").env(name, value)
}

/// Runs it under `gpuspy run`, without an option.
fn observed(run: Run) -> Done {
    let mut command = run.gpuspy_command(&["run", "--"]);
    command.arg(program("plain_work"));
    run.finish(command)
}

/// Checks that the program ran and is in the trace. Returns the trace's notes.
fn recorded(done: Done, what: &str) -> String {
    let done = done.succeeded();
    assert_eq!(done.said()["launches"], 200, "{what}");
    let report = done.report();
    assert_eq!(launches(&report), 200, "{what}: {}", done.stderr);
    report["processes"][0]["notes"].to_string()
}

/// `gpuspy run` refused to start, or the trace of a bare preload was lost.
#[test]
fn an_empty_variable_counts_as_unset() {
    for name in OPTIONS.into_iter().map(|(name, _)| name).chain(OTHERS) {
        for (how, done) in [("run", observed(with(name, ""))), ("preload", with(name, "").preloaded())] {
            assert_eq!(recorded(done, &format!("{name}, {how}")), "[]", "{name}, {how}");
        }
    }
}

/// The collector ended, and the trace was lost, or nothing said that the default was used.
#[test]
fn a_mistyped_variable_costs_neither_the_program_nor_the_trace() {
    for (name, takes_all) in OPTIONS {
        let notes = recorded(with(name, "mistyped").preloaded(), name);
        assert_eq!(notes.contains(name), !takes_all, "{name}: {notes}");
        let done = observed(with(name, "mistyped"));
        if takes_all {
            recorded(done, name);
        } else {
            assert_eq!((done.status.code(), &*done.stdout), (Some(2), ""), "{name}: {}", done.stderr);
            assert!(done.stderr.contains(name), "{name}: {}", done.stderr);
        }
    }
    for never in ["off", "never", "0.05", "-1"] {
        let notes = recorded(with("GPUSPY_HANG_AFTER", never).preloaded(), never);
        assert!(notes.contains("GPUSPY_HANG_AFTER") && notes.contains("the default is used"), "{notes}");
    }
}

/// The variable that the outer one set to nothing, because nobody asked for a timing, was refused by the inner one.
#[test]
fn gpuspy_run_inside_gpuspy_run_runs_the_program() {
    let run = Run::of("plain_work");
    let mut command = run.gpuspy_command(&["run", "--no-report", "-o", "outer.gspy", "--"]);
    command.arg(gpuspy()).args(["run", "--no-report", "-o", "inner.gspy", "--"]);
    command.args(["echo", "hello"]).env_remove("GPUSPY_TIMING");
    let done = run.finish(command).succeeded();
    assert_eq!(done.stdout, "hello\n", "{}", done.stderr);
}
