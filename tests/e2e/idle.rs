//! Why the GPU was idle, compared with what the program and the simulator know.

use gpuspy_tests::{Done, Run, program, report, until_one_is_good};
use serde_json::Value;

/// The value of a cause in a report, ns.
fn of(report: &Value, cause: &str) -> u64 {
    let rows = report["idle"]["by_cause"].as_array().unwrap();
    rows.iter().find(|row| row["cause"] == cause).map_or(0, |row| row["total_ns"]["value"].as_u64().unwrap())
}

/// The idle time of the devices, ns.
fn idle(report: &Value) -> u64 {
    let devices = report["devices"].as_array().unwrap();
    devices.iter().map(|device| device["idle_ns"]["value"].as_u64().unwrap()).sum()
}

fn run(cause: &str, costs: &str) -> Done {
    let client = Run::of("idle_causes").arg(cause).env("SIMCUDA_HOST_COST", costs);
    client.observed_with(&["--quiet", "--timing", "exact"]).succeeded()
}

/// Checks that the causes sum to the idle time, and that a cause has what the program spent on it. The GPU's own work may
/// lie in a part of that, and what lies beside it may be the cause's, too.
fn dominates(cause: &str, done: &Done) -> Result<Value, String> {
    let report = done.report();
    let by_cause = report["idle"]["by_cause"].as_array().unwrap();
    let sum: u64 = by_cause.iter().map(|row| row["total_ns"]["value"].as_u64().unwrap()).sum();
    assert_eq!(sum, idle(&report), "{by_cause:?}");
    let said = |key: &str| done.said()[key].as_u64().unwrap();
    // The GPU's time begins in the first launch, which loads code.
    let first = said("first_ns");
    let spent = said("ns") + if cause == "launching" { first } else { 0 };
    let found = of(&report, cause);
    println!("{cause}: {found} of {sum}, the program says {spent}, the first launch {first}");
    if by_cause[0]["cause"] != cause || found * 10 < sum.saturating_sub(first) * 8 {
        return Err(format!("{cause} is not the largest cause: {by_cause:?}"));
    }
    let least = match cause {
        // A kernel behind a host function may have been called before that ended, so that some of the time is undecided.
        "host_callback" => 0.6,
        // When a blocking copy ran inside its call is not known: the best estimate is the middle of what is possible.
        "copying" => 0.45,
        _ => 0.93,
    };
    // How long the program's thread for host functions has to wait for a processor is the cause's, and the program does
    // not know it.
    let most = match cause {
        "stream_wait" | "host_callback" => between_kernels(done) as f64 / spent as f64,
        _ => 0.0,
    };
    let ratio = found as f64 / spent as f64;
    if (least..=most.max(1.07)).contains(&ratio) {
        Ok(report)
    } else {
        Err(format!("{found} ns instead of {spent}: {by_cause:?}"))
    }
}

/// The time between the program's kernels, as the simulator knows it, ns.
fn between_kernels(done: &Done) -> u64 {
    let operations = done.truth().operations();
    let kernels = operations.iter().filter(|operation| operation.name == "step_5us");
    let mut intervals: Vec<(u64, u64)> = kernels.map(|kernel| kernel.interval).collect();
    intervals.sort_unstable();
    intervals.windows(2).map(|pair| pair[1].0.saturating_sub(pair[0].1)).sum()
}

fn check(cause: &str, costs: &str) {
    until_one_is_good(|| dominates(cause, &run(cause, costs)).map(drop));
}

#[test]
fn a_host_that_sleeps_between_steps_is_outside_cuda_and_its_waits_owe_little() {
    until_one_is_good(|| {
        let done = run("outside_cuda", "launch=3000,other=500");
        let report = dominates("outside_cuda", &done)?;
        let site = &report["idle"]["sites"][0];
        // It sleeps for longer than it waits, so the most is owed to no wait.
        assert_eq!((&site["cause"], &site["after_wait"]), (&"outside_cuda".into(), &Value::Null));
        assert!(site["library"].as_str().unwrap().ends_with("/idle_causes"), "{site}");
        // The first gap comes after the synchronization before the loop.
        assert!(site["count"].as_u64().unwrap() + 1 >= done.said()["steps"].as_u64().unwrap() - 1, "{site}");
        // On a busy machine a launch can take longer than the host sleeps.
        let longest = &report["gaps"]["largest"][0]["causes"][0];
        if longest["cause"] == "outside_cuda" { Ok(()) } else { Err(format!("the longest gap: {longest}")) }
    });
}

/// Queries after the first that succeeded shared its record, and what the host did between them counted as waiting.
#[test]
fn a_host_that_goes_on_asking_after_the_work_is_done_waits_no_more() {
    until_one_is_good(|| dominates("outside_cuda", &run("asking_on", "launch=3000,other=500")).map(drop));
}

#[test]
fn allocating_in_each_step_is_the_cause_of_the_gaps() {
    check("allocating", "launch=3000,other=400000");
}

#[test]
fn freeing_in_each_step_is_the_cause_of_the_gaps() {
    check("freeing", "launch=3000,other=400000");
}

#[test]
fn a_synchronization_in_each_step_that_takes_longer_than_the_kernel_is_the_cause() {
    check("explicit_sync", "launch=3000,other=400000");
}

#[test]
fn a_pageable_copy_in_each_step_that_takes_longer_than_the_kernel_is_the_cause() {
    check("copying", "launch=3000,other=400000");
}

#[test]
fn launching_is_the_cause_where_kernels_are_shorter_than_their_launches() {
    check("launching", "launch=400000,other=500,module=0");
}

#[test]
fn loading_modules_between_kernels_is_the_cause() {
    check("loading", "launch=3000,other=500,module=0,load=3000000");
}

#[test]
fn a_stream_that_waits_for_another_one_is_not_the_hosts_fault() {
    check("stream_wait", "launch=3000,other=500");
}

#[test]
fn a_host_function_on_the_stream_is_the_cause() {
    check("host_callback", "launch=3000,other=500");
}

/// Runs a program that is outside CUDA between its steps and either sleeps or computes there. Returns the report, what is
/// known of that time, and the program's own figures.
fn outside_cuda(how: &str) -> (Done, Value, [u64; 3]) {
    let done = Run::of("outside_cuda").arg(how).observed_with(&["--quiet", "--timing", "exact"]).succeeded();
    let report = done.report();
    let rows = report["idle"]["by_cause"].as_array().unwrap();
    let row = rows.iter().find(|row| row["cause"] == "outside_cuda").unwrap().clone();
    let said = ["outside_ns", "ran_ns", "queued_ns"].map(|key| done.said()[key].as_u64().unwrap());
    (done, row, said)
}

/// Checks that the bounds contain what the program says of itself, but for the time of it that lies in no gap.
fn contains_the_truth(row: &Value, [outside, ran, queued]: [u64; 3]) -> Result<(), String> {
    let of = |key: &str, bound: &str| row[key][bound].as_u64().unwrap();
    let elsewhere = of("total_ns", "value").abs_diff(outside);
    let holds = |key: &str, truly: u64| {
        of(key, "lo") <= truly + elsewhere
            && truly <= of(key, "hi") + elsewhere
            && of(key, "lo") <= of(key, "hi")
    };
    let is_right =
        holds("runnable_ns", ran + queued) && holds("run_queue_ns", queued) && elsewhere < outside / 5;
    println!("{row}: outside {outside}, ran {ran}, queued {queued}");
    is_right
        .then_some(())
        .ok_or_else(|| format!("{row}, and truly outside {outside}, ran {ran}, queued {queued}"))
}

/// The finding `host-stall`, and the section of idle time on the screen in one line.
fn told(done: &Done) -> (Value, String) {
    let report = done.report();
    let findings = report["findings"].as_array().unwrap();
    let stall = findings.iter().find(|found| found["id"] == "host-stall").unwrap().clone();
    (stall, done.section("idle").split_whitespace().collect::<Vec<_>>().join(" "))
}

#[test]
fn a_host_that_sleeps_between_steps_is_off_the_cpu() {
    until_one_is_good(|| {
        let (done, row, truth) = outside_cuda("sleeping");
        contains_the_truth(&row, truth)?;
        let (hi, all) =
            (row["runnable_ns"]["hi"].as_u64().unwrap(), row["total_ns"]["value"].as_u64().unwrap());
        if hi * 4 > all {
            return Err(format!("it ran for up to {hi} of {all}"));
        }
        let (stall, screen) = told(&done);
        let text = stall["evidence"]["text"].as_str().unwrap();
        assert!(text.contains("The thread was off the CPU for at least"), "{text}");
        assert!(stall["fix"].as_str().unwrap().contains("it slept, or waited for I/O"), "{stall}");
        assert!(
            screen.contains("outside CUDA: the thread that led it was off the CPU for at least"),
            "{screen}"
        );
        Ok(())
    });
}

#[test]
fn a_host_that_computes_between_steps_is_running() {
    until_one_is_good(|| {
        let (done, row, truth) = outside_cuda("computing");
        contains_the_truth(&row, truth)?;
        let (lo, all) =
            (row["runnable_ns"]["lo"].as_u64().unwrap(), row["total_ns"]["value"].as_u64().unwrap());
        if lo * 4 < all * 3 {
            return Err(format!("it ran for only {lo} of {all}"));
        }
        let (stall, screen) = told(&done);
        let text = stall["evidence"]["text"].as_str().unwrap();
        assert!(text.contains("The thread was running for at least"), "{text}");
        assert!(stall["fix"].as_str().unwrap().contains("Move what this thread computes"), "{stall}");
        assert!(screen.contains("outside CUDA: the thread that led it was running for at least"), "{screen}");
        Ok(())
    });
}

/// Runs two processes of `outside_cuda` under gpuspy, in which the shell joins them by `join`. Returns what is known of the
/// time outside CUDA on the line that they share, and the sums of the programs' own figures.
fn two_outside_cuda(first: &str, join: &str, second: &str) -> (Value, [u64; 3]) {
    let run = Run::of("outside_cuda");
    let mut command = run.gpuspy_command(&["run", "-o", "job/", "--quiet", "--timing", "exact", "--"]);
    let both = format!("\"$0\" {first} {join} \"$0\" {second}; wait");
    command.args(["bash", "-c", &both]).arg(program("outside_cuda"));
    let done = run.finish(command).succeeded();
    let whole = report(&done.folder().join("job"));
    assert_eq!(whole["processes"].as_array().unwrap().len(), 2);
    assert_eq!(whole["devices"].as_array().unwrap().len(), 1, "both use one GPU");
    let rows = whole["idle"]["by_cause"].as_array().unwrap();
    let row = rows.iter().find(|row| row["cause"] == "outside_cuda").unwrap().clone();
    let said = done.stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let truth = said.fold([0; 3], |mut sums, said| {
        let keys = ["outside_ns", "ran_ns", "queued_ns"];
        sums.iter_mut().zip(keys).for_each(|(sum, key): (&mut u64, _)| *sum += said[key].as_u64().unwrap());
        sums
    });
    (row, truth)
}

#[test]
fn of_two_processes_on_one_gpu_the_time_that_each_ran_is_its_own() {
    until_one_is_good(|| {
        let (row, truth) = two_outside_cuda("sleeping", ";", "computing");
        contains_the_truth(&row, truth)?;
        let of = |bound: &str| row["runnable_ns"][bound].as_u64().unwrap();
        let all = row["total_ns"]["value"].as_u64().unwrap();
        // One of the two ran for all of its time, which is half of the whole.
        if of("lo") * 10 < all * 3 || of("hi") * 10 > all * 7 {
            return Err(format!("{row}"));
        }
        Ok(())
    });
}

#[test]
fn two_processes_that_sleep_at_the_same_time_are_off_the_cpu() {
    until_one_is_good(|| {
        let (row, _) = two_outside_cuda("sleeping", "&", "sleeping");
        let (hi, all) =
            (row["runnable_ns"]["hi"].as_u64().unwrap(), row["total_ns"]["value"].as_u64().unwrap());
        if hi * 4 > all { Err(format!("{row}")) } else { Ok(()) }
    });
}

/// On an H100, the compilation of a JAX program lay in its first four steps, and was counted as gaps of its loop: the report said
/// that input should be prepared in another thread.
#[test]
fn a_compiler_that_runs_in_the_first_steps_is_set_up() {
    until_one_is_good(|| {
        let done =
            Run::of("compiled_in_first_steps").observed_with(&["--quiet", "--timing", "exact"]).succeeded();
        let (report, said) = (done.report(), done.said());
        let compiling = said["compiling_ns"].as_u64().unwrap() as f64;
        let ratio = of(&report, "set_up") as f64 / compiling;
        let steps = &report["steps"];
        println!("{ratio}, steps {}, warm-up {}", steps["count"], steps["warm_up"]);
        if steps["count"] != said["steps"] || steps["warm_up"].as_u64() < Some(3) {
            return Err(format!("{} steps, {} of them warm-up", steps["count"], steps["warm_up"]));
        }
        if (0.98..1.3).contains(&ratio) { Ok(()) } else { Err(format!("{compiling}: {}", report["idle"])) }
    });
}
