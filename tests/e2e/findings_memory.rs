//! Faults in the use of memory: a program that has one reports it, and the same program without it does not.

use super::findings::{names_its_line, shortest_runs_agree};
use gpuspy_tests::{Done, Run};
use serde_json::Value;

/// Returns a program with or without its fault. Its allocations and frees cost 20 µs each.
fn prepare(program: &str, what: &str) -> Run {
    Run::of(program).arg(what).env("SIMCUDA_HOST_COST", "memory=20000")
}

fn run(program: &str, what: &str) -> Done {
    prepare(program, what).observed().succeeded()
}

fn finding<'r>(report: &'r Value, id: &str) -> Option<&'r Value> {
    report["findings"].as_array().unwrap().iter().find(|finding| finding["id"] == id)
}

/// Runs a program with and without its fault. Returns the report of the first, and the finding in it.
fn fault(program: &str, id: &str) -> (Value, Value) {
    let (faulty, fixed) = (run(program, "faulty").report(), run(program, "fixed").report());
    assert!(finding(&fixed, id).is_none(), "{}", fixed["findings"]);
    let found = finding(&faulty, id).unwrap_or_else(|| panic!("no {id}: {}", faulty["findings"])).clone();
    names_its_line(program, &found);
    (faulty, found)
}

/// Returns whether a text has all of these parts.
fn says(finding: &Value, parts: &[&str]) {
    let text = finding["evidence"]["text"].as_str().unwrap();
    parts.iter().for_each(|part| assert!(text.contains(part), "no {part} in: {text}"));
}

fn is_free_of_time(finding: &Value) {
    assert_eq!(finding["saves_ns"]["value"], 0, "memory is no time: {finding}");
}

#[test]
fn memory_that_grows_in_each_step_is_found_with_its_rate_and_its_owner() {
    let (report, found) = fault("fault_memory_grows", "memory-grows");
    is_free_of_time(&found);
    says(&found, &["fault_memory_grows with cuMemAlloc", "memory is full after"]);
    let growth = &report["memory"]["growth"];
    let number = |key: &str| growth[key].as_f64().unwrap();
    let block = f64::from(4 << 20);
    if report["steps"]["count"].as_u64().unwrap() > 8 {
        let slope = number("bytes_per_step") / block;
        assert!((slope - 1.0).abs() < 0.05, "a block in each step: {growth}");
    } else {
        // The 800 MiB are allocated between the first and the last kernel.
        let kernels = &report["devices"][0];
        let seconds = kernels["span_ns"].as_f64().unwrap() / 1e9;
        let slope = number("bytes_per_second") * seconds / (200.0 * block);
        assert!((0.5..2.0).contains(&slope), "200 blocks in {seconds} s: {growth}");
    }
    let [first, last] = ["from_bytes", "to_bytes"].map(number);
    assert!(first < 60.0 * block && last > 140.0 * block, "{growth}");
    assert_eq!(report["memory"]["never_freed"], Value::Array(vec![]), "every block is freed at the end");
}

#[test]
fn blocks_that_are_allocated_now_and_then_and_never_freed_are_found() {
    let (report, found) = fault("fault_never_freed", "never-freed");
    is_free_of_time(&found);
    let leak = &report["memory"]["never_freed"][0];
    let blocks = leak["blocks"].as_u64().unwrap();
    assert!((10..=20).contains(&blocks), "20 blocks, less those of the warm-up and of the end: {leak}");
    assert_eq!(leak["bytes"], blocks * (2 << 20));
    assert_eq!(found["evidence"]["count"], blocks);
    says(&found, &["fault_never_freed with cuMemAlloc"]);
}

#[test]
fn a_gpu_that_is_nearly_full_is_found_with_its_owner_and_what_is_left() {
    let (report, found) = fault("fault_peak_memory", "peak-memory");
    is_free_of_time(&found);
    says(
        &found,
        &["70.0 GiB of 80.0 GiB (87.5 %)", "Headroom: 10.0 GiB", "by fault_peak_memory with cuMemAlloc"],
    );
    let holder = &report["memory"]["holders"][0];
    assert_eq!((&holder["bytes"], &holder["blocks"]), (&Value::from(70u64 << 30), &Value::from(10)));
}

#[test]
fn the_state_when_memory_ran_out_is_found() {
    let (report, found) = fault("fault_out_of_memory", "out-of-memory");
    is_free_of_time(&found);
    let failure = &report["memory"]["failure"];
    assert_eq!(failure["requested_bytes"], 30u64 << 30);
    assert_eq!(
        (&failure["live_bytes"], &failure["went_on"]),
        (&Value::from(60u64 << 30), &Value::Bool(false))
    );
    let held: Vec<u64> =
        failure["holders"].as_array().unwrap().iter().map(|h| h["bytes"].as_u64().unwrap()).collect();
    assert_eq!(held, [40 << 30, 20 << 30], "the blocks of one call have one holder");
    says(&found, &["asked for 30.0 GiB", "held 60.0 GiB", "Of the GPU's 80.0 GiB it left 20.0 GiB"]);
}

/// A training that ran out of memory was told first to load its data in workers, and its last failure was called the first.
#[test]
fn a_program_that_a_failed_allocation_ended_begins_with_it() {
    let done = prepare("fault_out_of_memory", "ended").observed();
    assert_eq!(done.status.code(), Some(1), "{}", done.stderr);
    let report = done.report();
    let first = &report["findings"][0];
    assert_eq!(first["id"], "out-of-memory", "{:#}", report["findings"]);
    let at = |value: &Value| value.as_u64().unwrap();
    let between = at(&report["memory"]["failure"]["at_ns"]) - at(&first["evidence"]["first_ns"]);
    assert!(between >= 5_000_000, "it failed twice, 5 ms apart: {between} ns");
    let text = report["verdict"]["text"][0].as_str().unwrap();
    assert!(text.starts_with("Memory ran out: 30.0 GiB could not be allocated by cuMemAlloc at "), "{text}");

    let report = run("fault_out_of_memory", "caught").report();
    assert!(finding(&report, "out-of-memory").is_some(), "{:#}", report["findings"]);
    assert_ne!(report["findings"][0]["id"], "out-of-memory", "{:#}", report["findings"]);
    assert!(!report["verdict"]["text"][0].as_str().unwrap().contains("Memory"), "{}", report["verdict"]);
}

/// Together both GPUs are half full.
#[test]
fn of_two_gpus_the_one_that_is_full_is_named() {
    let run = |what: &str| {
        prepare("fault_two_gpus", what).env("SIMCUDA_DEVICES", "2").observed().succeeded().report()
    };
    let fixed = run("fixed");
    for id in ["peak-memory", "out-of-memory"] {
        assert!(finding(&fixed, id).is_none(), "{}", fixed["findings"]);
    }
    names_the_full_gpu(&run("faulty"));
}

/// Physical memory of one GPU was counted as the other's, whose context was current when it was created and mapped.
#[test]
fn physical_memory_is_on_the_gpu_that_its_creator_named() {
    let run = prepare("fault_two_gpus", "elsewhere").env("SIMCUDA_DEVICES", "2");
    names_the_full_gpu(&run.observed().succeeded().report());
}

fn names_the_full_gpu(faulty: &Value) {
    let peak = finding(faulty, "peak-memory").unwrap_or_else(|| panic!("{}", faulty["findings"]));
    assert_eq!(peak["title"], "The memory of GPU 1 is 87.5 % full at the peak");
    says(peak, &["70.0 GiB of 80.0 GiB (87.5 %)", "Headroom: 10.0 GiB"]);
    let failure = finding(faulty, "out-of-memory").unwrap_or_else(|| panic!("{}", faulty["findings"]));
    let each = "That was 10.0 GiB of the 80.0 GiB of GPU 0 and 70.0 GiB of the 80.0 GiB of GPU 1.";
    says(failure, &["asked for 20.0 GiB", "held 80.0 GiB", each]);
}

#[test]
fn physical_memory_that_is_never_mapped_is_found() {
    let (_, found) = fault("fault_fragmentation", "fragmentation");
    is_free_of_time(&found);
    says(&found, &["24.0 GiB", "8.00 GiB", "16.0 GiB of the GPU (20.0 %)"]);
}

/// The gain is compared with what the program without the fault takes less, both without gpuspy.
#[test]
fn allocations_and_frees_in_each_step_cost_what_allocating_once_saves() {
    shortest_runs_agree(
        |what| prepare("fault_allocation_churn", what),
        |findings, truth| {
            // Where other programs hold this one up for most of its time, that is what costs most.
            let first = &findings[0];
            if first["id"] != "allocation-churn" {
                return false;
            }
            says(first, &["frees waited for the GPU"]);
            truth.is_near(first["saves_ns"]["value"].as_f64().unwrap())
        },
    );
    let without = run("fault_allocation_churn", "fixed").report();
    assert!(finding(&without, "allocation-churn").is_none(), "{}", without["findings"]);
}

/// What the frees of `fault_churn_between_work` wait for: in each of 60 steps a kernel of 1.5 ms.
const FREED_NS: f64 = 60.0 * 1.5e6;

/// Each line with one gap in every step was promised whole, and `host-stall`, which has two of the three, was not found.
#[test]
fn of_three_gaps_in_each_step_only_the_one_behind_the_free_is_promised() {
    shortest_runs_agree(
        |what| prepare("fault_churn_between_work", what),
        |findings, truth| {
            let saves = |id: &str| {
                let found = findings.as_array().unwrap().iter().find(|finding| finding["id"] == id);
                found.and_then(|finding| finding["saves_ns"]["value"].as_f64())
            };
            let is_stalled = saves("host-stall").is_some();
            // On a busy machine, each thread that has waited waits again, for a processor, which the twin does not.
            let is_near = |promised: f64| truth.is_near(promised) || (promised / FREED_NS - 1.0).abs() < 0.15;
            is_stalled && saves("allocation-churn").is_some_and(is_near)
        },
    );
}

/// The report's account of lifetimes, and of the peak by holder, agrees with what the program did.
#[test]
fn holders_and_lifetimes_sum_to_the_peak_and_to_all_allocations() {
    for program in
        ["fault_memory_grows", "fault_never_freed", "fault_fragmentation", "fault_allocation_churn"]
    {
        let report = run(program, "faulty").report();
        let memory = &report["memory"];
        let number = |value: &Value| value.as_u64().unwrap();
        let peak = number(&memory["peak_bytes"]["value"]);
        let holders = memory["holders"].as_array().unwrap();
        assert_eq!(holders.iter().map(|holder| number(&holder["bytes"])).sum::<u64>(), peak, "{program}");
        let lifetimes: Vec<&Value> = memory["lifetimes"].as_object().unwrap().values().collect();
        let sum = |key: &str| lifetimes.iter().map(|lived| number(&lived[key])).sum::<u64>();
        assert_eq!(sum("at_peak_bytes"), peak, "{program}: {}", memory["lifetimes"]);
        assert_eq!(sum("blocks"), number(&memory["allocations"]), "{program}");
        assert_eq!(sum("bytes"), number(&memory["allocated_bytes"]), "{program}");
    }
}
