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
        // Another thread launches kernels of the same names. Where the machine stops a thread, some steps may become one.
        until_one_is_good(|| {
            let done = observed(shape, 60);
            let (said, report) = (whole(&done.said()["steps"]), done.report());
            let steps = &report["steps"];
            let is_undecided = shape == "threads" && steps["count"] == 0;
            let is_found = whole(&steps["count"]).abs_diff(said) <= if said == 0 { 0 } else { 1 };
            if !is_found && !is_undecided && shape == "threads" {
                return Err(format!("{said} steps, said {steps:#}"));
            }
            assert!(is_found || is_undecided, "{shape}: {said} steps, said {steps:#}");
            let source = match shape {
                "random" => Value::Null,
                "nvtx" => "nvtx".into(),
                "graph" => "graphs".into(),
                _ => "launches".into(),
            };
            assert!(steps["source"] == source || is_undecided, "{shape}: {steps:#}");
            Ok(())
        });
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

/// Of two hours in which each step of three minutes took longer, no report said so.
#[test]
fn steps_in_a_row_that_take_longer_are_a_slow_stretch_of_the_gpu_or_of_the_host() {
    for (shape, least, most) in [("slow-gpu", 1.45, 1.55), ("slow-host", 0.97, 1.03)] {
        for timing in ["exact", "auto"] {
            until_one_is_good(|| {
                let run = Run::of("steps").arg(shape).arg("800").env("GPUSPY_TIMING", timing);
                let steps = &run.observed().succeeded().report()["steps"];
                // Other programs on the machine may hold up steps in a row, too.
                let is_there = |found: &&Value| whole(&found["first_step"]).abs_diff(400) <= 8;
                let stretches = steps["slow_stretches"].as_array().unwrap();
                let found =
                    stretches.iter().find(is_there).ok_or_else(|| format!("{shape}, {timing}: {steps:#}"))?;
                let times = found["same_kernels"].as_f64().ok_or_else(|| format!("{found:#}"))?;
                let longer = found["mean_ns"].as_f64().unwrap() / whole(&found["usual_ns"]) as f64;
                let is_as_long = whole(&found["last_step"]).abs_diff(599) <= 8 && longer >= 1.2;
                if !is_as_long || !(least..=most).contains(&times) {
                    return Err(format!("{shape}, {timing}: {found:#}"));
                }
                Ok(())
            });
        }
    }
}

#[test]
fn long_steps_at_the_start_are_warm_up() {
    until_one_is_good(|| {
        let steps = &observed("warm-up", 60).report()["steps"];
        if whole(&steps["warm_up"]) == 3 { Ok(()) } else { Err(format!("not 3 steps of warm-up: {steps:#}")) }
    });
}

/// The host pauses for 300 ms before the loop and for 1 ms in each step; but in every tenth step it allocates memory for 8 ms
/// instead.
#[test]
fn a_step_has_the_idle_time_and_the_causes_of_its_own_gaps() {
    until_one_is_good(|| {
        let run =
            Run::of("steps").arg("stalls").arg("60").env("SIMCUDA_HOST_COST", "launch=3000,memory=8000000");
        let done = run.observed().succeeded();
        let (said, report) = (done.said(), done.report());
        let steps = &report["steps"];
        let warm_up = whole(&steps["warm_up"]) as f64;
        assert_eq!(steps["count"], 60, "{steps:#}");
        // The first launches of the kernels load code. On a busy machine further steps take as long.
        if warm_up > 3.0 {
            return Err(format!("{steps:#}"));
        }
        let per_step = &steps["per_step"]["idle_by_cause_ns"];
        let mean = |cause: &str| per_step[cause].as_f64().unwrap_or(0.0);
        let idle = steps["per_step"]["idle_ns"].as_f64().unwrap();
        let sum: f64 = per_step.as_object().unwrap().values().map(|ns| ns.as_f64().unwrap()).sum();
        assert!((sum - idle).abs() <= 1.0, "{sum} of {idle}: {per_step}");
        // The last of the 60 steps pauses, and has no end. Of the others, 53 pause.
        let steady = 59.0 - warm_up;
        let pauses = whole(&said["paused_ns"]) as f64 * (53.0 - warm_up) / 54.0;
        let allocations = whole(&said["allocated_ns"]) as f64;
        let is_close = |found: f64, truth: f64| (found / truth - 1.0).abs() <= 0.05;
        if !is_close(mean("outside_cuda"), pauses / steady)
            || !is_close(mean("allocating"), allocations / steady)
        {
            return Err(format!("{said}: {per_step}"));
        }
        assert_eq!(per_step.get("set_up"), None, "{per_step}");
        let outliers = steps["outliers"].as_array().unwrap();
        if !outliers.iter().any(|step| step["step"] == 37) {
            return Err(format!("{outliers:#?}"));
        }
        for step in outliers {
            let allocating = step["idle_by_cause_ns"].get("allocating").map_or(0, whole);
            let is_right =
                if whole(&step["step"]) % 10 == 7 { allocating > 7_900_000 } else { allocating == 0 };
            assert!(is_right, "{step}");
        }
        let screen = done.section("steps");
        assert!(screen.contains("GPU idle, mostly") && screen.contains("ms, allocating"), "{screen}");
        Ok(())
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
    assert_eq!((&report["steps"]["range"], phases.len()), (&"ProfilerStep#*".into(), 2), "{phases:?}");
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
    let export = |arguments: &[&str]| {
        Command::new(gpuspy()).arg("export").arg(done.trace()).args(arguments).output().unwrap()
    };
    // The host waits at the end of each step, so that no other step's kernels run in its time.
    for (step, names) in [("7", 1), ("7..9", 3), ("29", 1)] {
        let output = export(&["--step", step]);
        let exported: Value = serde_json::from_slice(&output.stdout).unwrap();
        let events = exported["traceEvents"].as_array().unwrap().iter();
        let kernels: Vec<&str> = events
            .filter(|event| event["cat"] == "kernel")
            .map(|event| event["name"].as_str().unwrap())
            .collect();
        assert_eq!(kernels.len(), 6 * names, "{step}: {kernels:?}");
        assert_eq!(kernels.iter().filter(|name| **name == "gelu_20us").count(), names, "{step}: {kernels:?}");
    }
    let missing = export(&["--step", "28..30"]);
    let said = String::from_utf8_lossy(&missing.stderr).into_owned();
    assert_eq!((missing.status.code(), missing.stdout.len()), (Some(2), 0), "{said}");
    assert!(said.contains("it has 30 steps, 0 to 29"), "{said}");
    let missing = report(&["--step", "30"]);
    let said = String::from_utf8_lossy(&missing.stderr).into_owned();
    assert_eq!(missing.status.code(), Some(2));
    assert!(said.contains("it has 30 steps, 0 to 29"), "{said}");
    let screen = String::from_utf8(report(&["--section", "steps"]).stdout).unwrap();
    assert!(screen.contains("30 found (6 launches each)"), "{screen}");
}
