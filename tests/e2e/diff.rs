//! `gpuspy diff`: the change between two runs, compared with the simulator's truth, and its exit codes.

use gpuspy_tests::{Done, Run, gpuspy, until_one_is_good};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Runs the training loop.
fn train(steps: u32, forward_us: u32, pause_us: u32) -> Done {
    let run = Run::of("train_loop").arg(steps.to_string());
    run.arg((forward_us * 1000).to_string()).arg(pause_us.to_string()).observed().succeeded()
}

fn diff(before: &Path, after: &Path, options: &[&str]) -> Output {
    let mut command = Command::new(gpuspy());
    command.arg("diff").arg(before).arg(after).args(options).stdin(Stdio::null());
    command.env("LC_ALL", "C.UTF-8").output().unwrap()
}

fn json(before: &Path, after: &Path) -> Value {
    let output = diff(before, after, &["--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Returns what the simulator says of the time that a comparison is about, ns: of a step, the median distance between
/// starts of its first kernel; else from the first operation's start to the last one's end.
fn truth(done: &Done, basis: &str) -> f64 {
    let operations = done.truth().operations();
    if basis == "gpu" {
        let first = operations.iter().map(|operation| operation.interval.0).min().unwrap();
        return (operations.iter().map(|operation| operation.interval.1).max().unwrap() - first) as f64;
    }
    let first = operations.iter().filter(|operation| operation.name == "forward_argns");
    let mut starts: Vec<u64> = first.map(|operation| operation.interval.0).collect();
    starts.sort_unstable();
    let mut distances: Vec<u64> = starts.windows(2).map(|pair| pair[1] - pair[0]).collect();
    distances.sort_unstable();
    distances[distances.len() / 2] as f64
}

#[test]
fn a_speedup_is_reported_within_5_percent_of_the_true_one() {
    until_one_is_good(|| {
        let (faulty, fixed) = (train(60, 1000, 2000), train(60, 1000, 0));
        let value = json(&faulty.trace(), &fixed.trace());
        let change = &value["change"];
        let basis = change["basis"].as_str().unwrap();
        let (speedup, true_one) =
            (change["speedup"].as_f64().unwrap(), truth(&faulty, basis) / truth(&fixed, basis));
        assert!((speedup / true_one - 1.0).abs() < 0.05, "{speedup} is not {true_one}: {change}");
        let wait = value["syncs"].as_array().unwrap();
        let wait = wait.iter().find(|row| row["api"] == "cuStreamSynchronize").unwrap();
        assert_eq!(wait["count"]["after"]["value"], 0.0, "{wait}");
        // Where the machine lets steps take between one and four times as long, the change is rightly called noise.
        if true_one <= 2.0 || change["verdict"] != "faster" {
            return Err(change.to_string());
        }
        let screen = String::from_utf8(diff(&faulty.trace(), &fixed.trace(), &[]).stdout).unwrap();
        assert!(screen.starts_with(&format!("AFTER is {speedup:.2}x faster")), "{screen}");
        Ok(())
    });
}

#[test]
fn the_same_program_twice_has_not_changed() {
    until_one_is_good(|| {
        let (before, after) = (train(300, 1000, 0), train(300, 1000, 0));
        let output = diff(&before.trace(), &after.trace(), &["--fail-over", "5"]);
        let screen = String::from_utf8_lossy(&output.stdout).into_owned();
        if output.status.code() != Some(0) {
            return Err(screen);
        }
        let value = json(&before.trace(), &after.trace());
        let change = &value["change"];
        // A step may be missing at the start of the loop.
        for run in ["before", "after"] {
            let steps = value[run]["steps"].as_u64().unwrap_or(0);
            assert!((299..=300).contains(&steps), "{steps} of 300 steps {run}: {change}");
        }
        assert_eq!((&value["per"], &change["basis"]), (&"step".into(), &"step".into()), "{change}");
        let is_noise = ["noise", "same"].contains(&change["verdict"].as_str().unwrap());
        if is_noise { Ok(()) } else { Err(screen) }
    });
}

/// Other programs on the machine can delay a run's launches, which is then a slowdown too.
#[test]
fn a_slowdown_over_the_limit_exits_with_4() {
    until_one_is_good(|| {
        let (before, after) = (train(300, 1000, 0), train(300, 1240, 0));
        let (before, after) = (before.trace(), after.trace());
        let share = json(&before, &after)["change"]["share"].as_f64().unwrap();
        // A step takes 1440 us instead of 1200 us.
        if (share - 0.2).abs() > 0.02 {
            return Err(format!("the step takes {share} longer, not 0.2"));
        }
        for (limit, code) in [("10", 4), ("0", 4), ("30", 0)] {
            let output = diff(&before, &after, &["--fail-over", limit]);
            let said = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(code), "{limit}: {said}");
            assert_eq!(
                said.contains(&format!("slower than --fail-over {limit} allows")),
                code == 4,
                "{said}"
            );
            assert!(!output.stdout.is_empty(), "the comparison is printed, whatever the exit code");
        }
        let back = diff(&after, &before, &["--fail-over", "0"]);
        assert_eq!(back.status.code(), Some(0), "a speedup is no failure");
        Ok(())
    });
}

#[test]
fn a_trace_compared_with_itself_has_not_changed_at_all() {
    let done = train(20, 200, 100);
    let trace = done.trace();
    let value = json(&trace, &trace);
    assert_eq!((&value["change"]["verdict"], &value["change"]["share"]), (&"same".into(), &0.0.into()));
    assert_eq!(value["warnings"], Value::Array(Vec::new()));
    let output = diff(&trace, &trace, &["--fail-over", "0"]);
    assert_eq!(output.status.code(), Some(0));
    assert!(output.stdout.starts_with(b"There is no change: "));
    let filtered = diff(&trace, &trace, &["--kernel", "forward", "--section", "kernels"]);
    let screen = String::from_utf8(filtered.stdout).unwrap();
    assert!(screen.contains("Kernels    no change: 1 kernel in both"), "{screen}");
}

#[test]
fn a_kernel_that_takes_longer_is_named_with_its_time() {
    let (before, after) = (train(40, 300, 0), train(40, 500, 0));
    let value = json(&before.trace(), &after.trace());
    let first = &value["kernels"][0];
    assert_eq!((&first["name"], &first["state"]), (&"forward_argns".into(), &"both".into()));
    let steps = if value["per"] == "step" { value["before"]["steps"].as_f64().unwrap() } else { 1.0 };
    let change = first["total_ns"]["change"].as_f64().unwrap() * steps;
    assert!((change / (40.0 * 200_000.0) - 1.0).abs() < 0.05, "{first}");
}

#[test]
fn what_cannot_be_compared_is_said_in_one_sentence_with_its_exit_code() {
    let done = train(3, 100, 0);
    let trace = done.trace();
    let rubbish = done.folder().join("rubbish");
    std::fs::write(&rubbish, "rubbish").unwrap();
    let missing = Path::new("/no/such.gspy");
    for (code, before, after, options) in [
        (3, missing, &*trace, &[][..]),
        (3, &*trace, missing, &["--json"]),
        (3, &*trace, &*rubbish, &["--fail-over", "5"]),
        (2, &*trace, &*trace, &["--device", "7"]),
    ] {
        let output = diff(before, after, options);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), output.stdout.len()), (Some(code), 0), "{options:?}: {said}");
        assert!(said.starts_with("gpuspy: ") && said.lines().count() == 1, "{said}");
    }
    for options in [
        &["--fail-over", "-1"][..],
        &["--fail-over", "x"],
        &["--section", "calls"],
        &["--json", "--top", "3"],
    ] {
        let output = diff(&trace, &trace, options);
        assert_eq!(output.status.code(), Some(2), "{options:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains("--help"), "{options:?}");
    }
    let only_one = Command::new(gpuspy()).arg("diff").arg(&trace).output().unwrap();
    assert_eq!(only_one.status.code(), Some(2));
}

/// The length of the window was compared with itself, and no slowdown exceeded any limit.
#[test]
fn a_window_of_time_without_steps_passes_no_limit() {
    let done = Run::of("array_copies").observed().succeeded();
    let trace = done.trace();
    for window in [&["--since", "1us"][..], &["--until", "10s"], &["--since", "1us", "--until", "10s"]] {
        let of = |options: &[&str]| diff(&trace, &trace, &[window, options].concat());
        let limited = of(&["--fail-over", "5"]);
        let said = String::from_utf8_lossy(&limited.stderr);
        assert_eq!(limited.status.code(), Some(3), "{window:?}: {said}");
        assert!(said.contains("--fail-over cannot decide: Nothing can be said of the change"), "{said}");
        let value: Value = serde_json::from_slice(&of(&["--json"]).stdout).unwrap();
        assert_eq!(value["change"]["verdict"], "unknown", "{window:?}");
    }
}

/// What fails early takes less time: such a run was called faster.
#[test]
fn a_run_that_failed_passes_no_limit() {
    let run = |what: &str| Run::of("fault_gpu_error").arg(what).observed().succeeded();
    let (fixed, faulty) = (run("fixed"), run("faulty"));
    let (fixed, faulty) = (fixed.trace(), faulty.trace());
    let of = |before: &Path, after: &Path, options: &[&str]| {
        let output = diff(before, after, options);
        let [screen, said] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
        (output.status.code(), screen, said)
    };
    let limit = ["--fail-over", "1000000"];
    let (code, screen, said) = of(&fixed, &faulty, &limit);
    assert_eq!(code, Some(3), "{said}");
    assert!(screen.contains("warning: AFTER: the GPU stopped with an error (700)\n"), "{screen}");
    let why = "AFTER failed and BEFORE did not (the GPU stopped with an error (700))";
    assert!(said.contains(why), "{said}");
    for (before, after, options) in [
        (&fixed, &faulty, &[][..]),
        // The error is gone, or nothing is lost by it.
        (&faulty, &fixed, &limit),
        (&faulty, &faulty, &limit),
    ] {
        let (code, screen, said) = of(before, after, options);
        assert_eq!(code, Some(0), "{screen}{said}");
    }
}

#[test]
fn runs_of_several_processes_are_compared_by_their_directories() {
    let run = || Run::of("job_of_three").observed().succeeded();
    let (one, other) = (run(), run());
    let traces = [&one, &other].map(|done| done.folder().join("trace.gspy"));
    assert!(traces.iter().all(|trace| trace.is_dir()), "{traces:?}");
    let value = json(&traces[0], &traces[1]);
    assert_eq!((&value["before"]["processes"], &value["after"]["processes"]), (&3.into(), &3.into()));
    assert_eq!(value["before"]["launches"], value["after"]["launches"]);
}
