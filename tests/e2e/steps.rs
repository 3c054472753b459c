//! Steps that the report finds by itself, in loops of several shapes (`tests/programs/steps.c`).

use gpuspy_tests::truth::Operation;
use gpuspy_tests::{Done, Run, gpuspy, until_one_is_good};
use serde_json::Value;
use std::process::Command;

fn observed(shape: &str, steps: u64) -> Done {
    Run::of("steps").arg(shape).arg(steps.to_string()).observed().succeeded()
}

fn whole(of: &Value) -> u64 {
    of.as_u64().unwrap_or_else(|| panic!("{of} is not a whole number"))
}

/// The median time from one launch of a kernel to its next, on the simulated GPU, ns.
fn median_period(done: &Done, kernel: &str) -> f64 {
    let truth = done.truth().operations();
    let mut starts: Vec<u64> =
        truth.iter().filter(|op: &&Operation| op.name == kernel).map(|op| op.interval.0).collect();
    starts.sort_unstable();
    let mut periods: Vec<u64> = starts.windows(2).map(|two| two[1] - two[0]).collect();
    periods.sort_unstable();
    periods[periods.len() / 2] as f64
}

#[test]
fn steps_are_found_in_loops_of_every_shape() {
    let shapes = [
        "constant",
        "warm-up",
        "jitter",
        "accumulation",
        "evaluation",
        "streams",
        "threads",
        "random",
        "nvtx",
        "graph",
    ];
    for shape in shapes {
        let done = observed(shape, 60);
        let (said, report) = (whole(&done.said()["steps"]), done.report());
        let steps = &report["steps"];
        let is_undecided = shape == "threads" && steps["count"] == 0;
        let is_found = whole(&steps["count"]).abs_diff(said) <= if said == 0 { 0 } else { 1 };
        assert!(is_found || is_undecided, "{shape}: {said} steps, said {steps:#}");
        let source = match shape {
            "random" => Value::Null,
            "nvtx" => "nvtx".into(),
            "graph" => "graphs".into(),
            _ => "launches".into(),
        };
        assert!(steps["source"] == source || is_undecided, "{shape}: {steps:#}");
    }
}

#[test]
fn the_times_and_contents_of_steps_are_what_happened() {
    until_one_is_good(|| {
        let done = observed("constant", 100);
        let steps = &done.report()["steps"];
        assert_eq!(
            (&steps["launches_per_step"], &steps["per_step"]["syncs"]),
            (&6.into(), &1.0.into()),
            "{steps:#}"
        );
        assert_eq!(
            (&steps["per_step"]["copies"], &steps["per_step"]["copied_bytes"]),
            (&1.0.into(), &4.0.into())
        );
        let (truth, told) = (median_period(&done, "embed_40us"), whole(&steps["median_ns"]) as f64);
        let busy = steps["per_step"]["busy_ns"].as_f64().unwrap();
        if (told / truth - 1.0).abs() > 0.03 {
            return Err(format!("steps take {truth} ns, reported are {told}"));
        }
        // The kernels take 260 us, and the copy little.
        if (busy / 265_000.0 - 1.0).abs() > 0.1 {
            return Err(format!("the GPU is busy for {busy} ns per step"));
        }
        Ok(())
    });
}

/// The host is a thousand launches ahead, and most launches are timed together.
#[test]
fn on_a_deep_stream_steps_last_from_gpu_start_to_gpu_start() {
    until_one_is_good(|| {
        let done = observed("deep", 1500);
        let steps = &done.report()["steps"];
        let (truth, told) = (median_period(&done, "embed_40us"), whole(&steps["median_ns"]) as f64);
        let count = whole(&steps["count"]);
        if count.abs_diff(1500) > 1 || (told / truth - 1.0).abs() > 0.03 {
            return Err(format!("steps take {truth} ns, reported are {told}: {steps:#}"));
        }
        Ok(())
    });
}

#[test]
fn long_steps_at_the_start_are_warm_up() {
    until_one_is_good(|| {
        let steps = &observed("warm-up", 60).report()["steps"];
        if whole(&steps["warm_up"]) == 3 { Ok(()) } else { Err(format!("not 3 steps of warm-up: {steps:#}")) }
    });
}

#[test]
fn ranges_inside_steps_are_phases_and_numbered_ranges_are_one_row() {
    let report = observed("nvtx", 40).report();
    let phases = report["steps"]["phases"].as_array().unwrap();
    let named = |name: &str| phases.iter().find(|phase| phase["name"] == name);
    for phase in ["forward", "backward"] {
        assert_eq!(named(phase).unwrap_or_else(|| panic!("{phases:?}"))["per_step"], 1.0);
    }
    let rows = report["ranges"].as_array().unwrap();
    let steps: Vec<&Value> =
        rows.iter().filter(|row| row["name"].as_str().unwrap().starts_with("ProfilerStep")).collect();
    assert_eq!(steps.len(), 1, "{steps:?}");
    assert_eq!(
        (&steps[0]["name"], &steps[0]["names"], &steps[0]["count"]),
        (&"ProfilerStep#*".into(), &40.into(), &40.into())
    );
}

#[test]
fn a_step_can_be_selected_and_one_that_does_not_exist_is_an_error() {
    let done = observed("constant", 30);
    let report = |arguments: &[&str]| {
        Command::new(gpuspy()).arg("report").arg(done.trace()).args(arguments).output().unwrap()
    };
    for (step, launches) in [("7", 6), ("7..9", 18)] {
        let output = report(&["--json", "--step", step]);
        let selected: Value = serde_json::from_slice(&output.stdout).unwrap();
        let sum: u64 =
            selected["kernels"].as_array().unwrap().iter().map(|kernel| whole(&kernel["count"])).sum();
        assert_eq!((sum, output.status.code()), (launches, Some(0)), "{step}");
    }
    let missing = report(&["--step", "30"]);
    let said = String::from_utf8_lossy(&missing.stderr).into_owned();
    assert_eq!(missing.status.code(), Some(2));
    assert!(said.contains("it has 30 steps, 0 to 29"), "{said}");
    let screen = String::from_utf8(report(&["--section", "steps"]).stdout).unwrap();
    assert!(screen.contains("30 found (6 launches each)"), "{screen}");
}
