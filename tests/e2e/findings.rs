//! For each finding a client that has the fault and its twin that has not: the first is reported before all others, with the gain that
//! the twin really has, and the second is not.

use gpuspy_tests::{Done, Run, root, until_one_is_good};
use serde_json::Value;

/// Copies so slow that a small buffer takes a while: the simulator moves the bytes with processors that tests share.
const SLOW_COPIES: &str = "pageable_mbps=100,pinned_mbps=400";

/// The most runs of a client and its twin, of which the shortest are compared.
const RUNS: usize = 15;

/// A client of tests/programs whose name begins with `fault_`, and the finding that it has.
pub struct Fault {
    pub program: &'static str,
    pub id: &'static str,
    /// The simulator's settings.
    pub settings: &'static [(&'static str, &'static str)],
}

impl Fault {
    fn run(&self, variant: &str) -> Run {
        let run = Run::of(&format!("fault_{}", self.program)).arg(variant);
        self.settings.iter().fold(run, |run, (name, value)| run.env(name, value))
    }

    fn findings(&self, variant: &str) -> Vec<Value> {
        self.run(variant).observed().succeeded().report()["findings"].as_array().unwrap().clone()
    }

    /// Tests that the finding is first in a run of the faulty client, but for what other programs on the machine cost, with a gain
    /// within 10 % of the true one, and within what they took from the runs.
    pub fn is_reported_with_its_gain(&self) {
        shortest_runs_agree(
            |variant| self.run(variant),
            |findings, truth| {
                let findings = findings.as_array().unwrap();
                let first = findings.iter().find(|found| found["id"] == self.id || !is_of_others(found));
                let Some(first) = first.filter(|first| first["id"] == self.id) else { return false };
                names_its_line(&format!("fault_{}", self.program), first);
                first["saves_ns"]["value"].as_f64().is_some_and(|saves| truth.is_near(saves))
            },
        );
    }

    /// Returns the finding in a run of the faulty client. It costs something other than time, so its gain is 0.
    pub fn found_without_a_promise(&self) -> Value {
        let mut of_one = Value::Null;
        until_one_is_good(|| {
            let findings = self.findings("faulty");
            let found = findings.iter().find(|found| found["id"] == self.id);
            of_one = found.ok_or_else(|| format!("{findings:#?}"))?.clone();
            assert_eq!(of_one["saves_ns"]["hi"], 0, "{of_one}");
            names_its_line(&format!("fault_{}", self.program), &of_one);
            Ok(())
        });
        of_one
    }

    /// Tests that the finding is absent from a run of the fixed client.
    pub fn is_absent_from_the_twin(&self) {
        until_one_is_good(|| {
            let findings = self.findings("fixed");
            let is_absent = findings.iter().all(|found| found["id"] != self.id);
            is_absent.then_some(()).ok_or_else(|| format!("{findings:#?}"))
        });
    }
}

/// Whether a finding says that other programs kept the thread from a processor.
fn is_of_others(found: &Value) -> bool {
    found["evidence"]["text"].as_str().is_some_and(|text| text.contains("it waited for a processor"))
}

/// Tests that a finding names the line of a client's source that ends with `// finding: ID`, if there is one.
pub fn names_its_line(client: &str, found: &Value) {
    let file = root().join(format!("tests/programs/{client}.c"));
    let source = std::fs::read_to_string(&file).unwrap();
    let mark = format!("// finding: {}", found["id"].as_str().unwrap());
    if let Some(at) = source.lines().position(|line| line.ends_with(&mark)) {
        assert_eq!(found["evidence"]["line"], format!("{}:{}", file.display(), at + 1), "{found:#}");
    }
}

/// What a twin truly saves, by the shortest of several runs.
#[derive(Clone, Copy, Debug)]
pub struct Saved {
    pub ns: f64,
    /// What other programs on the machine took from the run that was observed and from those without gpuspy, ns: by how much
    /// the first differs from the shortest of the others, and by how much the two shortest of these differ.
    pub noise: f64,
    /// The share of the run that was observed in which some thread waited for a processor.
    pub pressure: f64,
}

impl Saved {
    /// Whether a promise is within 10 % of it, beside the noise. Where threads wait for processors, the waits of the client are longer
    /// in each run than those of its twin, by up to twice that.
    pub fn is_near(self, promised: f64) -> bool {
        (promised - self.ns).abs() <= 0.1 * (1.0 + 2.0 * self.pressure) * self.ns + self.noise
    }
}

/// The two shortest runs of a client, ns.
struct Shortest([f64; 2]);

impl Shortest {
    fn add(&mut self, ns: f64) {
        let Shortest([first, second]) = *self;
        self.0 = [first.min(ns), second.min(first.max(ns))];
    }

    /// How much longer the second is; 0 while there is none.
    fn spread(&self) -> f64 {
        let Shortest([first, second]) = *self;
        if second.is_finite() { second - first } else { 0.0 }
    }
}

/// Runs a client and its twin until `agrees` accepts the findings of the client and what the twin truly saves. Other
/// programs on the machine make each run longer and none shorter, so the shortest runs are compared.
pub fn shortest_runs_agree(run: impl Fn(&str) -> Run, agrees: impl Fn(&Value, Saved) -> bool) {
    let loop_ns = |done: &Done| done.said()["loop_ns"].as_f64().unwrap();
    let without = |variant: &str| loop_ns(&run(variant).plain().succeeded());
    let mut plain = ["faulty", "fixed"].map(|variant| (variant, Shortest([f64::INFINITY; 2])));
    let mut observed = (f64::INFINITY, Value::Null, 0.0);
    let mut saved = Saved { ns: 0.0, noise: 0.0, pressure: 0.0 };
    let do_agree = (0..RUNS).any(|_| {
        let done = run("faulty").observed().succeeded();
        let took = loop_ns(&done);
        if took < observed.0 {
            observed = (took, done.report()["findings"].clone(), done.pressure);
        }
        plain.iter_mut().for_each(|(variant, shortest)| shortest.add(without(variant)));
        let [(_, faulty), (_, fixed)] = &plain;
        // The run that was observed may be the only one that others left alone.
        let apart = (observed.0 - faulty.0[0]).abs();
        let (ns, noise) = (faulty.0[0] - fixed.0[0], apart + faulty.spread() + fixed.spread());
        saved = Saved { ns, noise, pressure: observed.2 };
        agrees(&observed.1, saved)
    });
    assert!(do_agree, "the twin truly has {saved:?}, and the report says {:#}", observed.1);
}

#[test]
fn copies_from_pageable_memory_are_found_with_what_pinning_gains() {
    let fault = Fault {
        program: "pageable_copies",
        id: "pageable-copies",
        settings: &[("SIMCUDA_ASSUME", SLOW_COPIES)],
    };
    fault.is_reported_with_its_gain();
    fault.is_absent_from_the_twin();
}

#[test]
fn a_result_that_is_read_in_every_step_is_found_with_what_reading_less_often_gains() {
    let fault = Fault { program: "sync_per_step", id: "sync-per-step", settings: &[] };
    fault.is_reported_with_its_gain();
    fault.is_absent_from_the_twin();
}

#[test]
fn a_wait_for_the_whole_gpu_in_every_step_is_found_with_its_gain() {
    let fault = Fault { program: "device_wide_sync", id: "device-wide-sync", settings: &[] };
    fault.is_reported_with_its_gain();
    fault.is_absent_from_the_twin();
}

#[test]
fn kernels_shorter_than_their_launches_are_found_with_what_a_graph_gains() {
    let fault = Fault {
        program: "tiny_kernels",
        id: "tiny-kernels",
        settings: &[("SIMCUDA_HOST_COST", "launch=30000,record=100,query=100,elapsed=100")],
    };
    fault.is_reported_with_its_gain();
    fault.is_absent_from_the_twin();
}

#[test]
fn a_host_that_is_late_with_the_input_is_found_with_what_it_costs() {
    let fault = Fault { program: "host_stall", id: "host-stall", settings: &[] };
    fault.is_reported_with_its_gain();
    fault.is_absent_from_the_twin();
}

/// A loop that asks whether the GPU is done was said to be busy outside CUDA.
#[test]
fn a_loop_of_queries_in_every_step_is_found_as_the_wait_that_it_is() {
    let fault = Fault { program: "polls", id: "sync-per-step", settings: &[] };
    fault.is_reported_with_its_gain();
    fault.is_absent_from_the_twin();
}

/// With sleeps between the queries, the host was said to be late with the input.
#[test]
fn a_loop_of_queries_with_sleeps_between_them_is_found_as_the_wait_that_it_is() {
    let fault = Fault { program: "polls", id: "sync-per-step", settings: &[("SLEEP_US", "500")] };
    fault.is_reported_with_its_gain();
    fault.is_absent_from_the_twin();
}

/// A program that waits for its loader was told not to read the loss, which would gain nothing.
#[test]
fn a_loader_that_is_too_slow_is_found_with_its_gain_and_not_the_wait_before_it() {
    let fault = Fault { program: "slow_loader", id: "host-stall", settings: &[] };
    fault.is_reported_with_its_gain();
}

#[test]
fn kernels_that_wait_for_a_host_function_are_found_with_what_an_event_gains() {
    let fault = Fault { program: "host_function", id: "host-function", settings: &[] };
    fault.is_reported_with_its_gain();
    fault.is_absent_from_the_twin();
}

/// On an H100, cuDNN compiled an attention kernel for each length of a sequence: the advice was that Python do less.
#[test]
fn a_compiler_that_runs_in_each_step_is_found_with_what_it_costs() {
    // The first launch from a module takes no time of its own.
    let settings = &[("SIMCUDA_HOST_COST", "module=0")];
    let fault = Fault { program: "recompilation", id: "recompilation", settings };
    fault.is_reported_with_its_gain();
    fault.is_absent_from_the_twin();
}

/// The wait before it had all of the time, which was there without the wait, too; and where a wait did not, the verdict was that a GPU
/// which was idle for half of the time needed faster kernels.
#[test]
fn a_module_that_is_loaded_in_each_step_is_found_with_what_it_costs() {
    let fault = Fault { program: "reloading", id: "recompilation", settings: &[] };
    fault.is_reported_with_its_gain();
    fault.is_absent_from_the_twin();
}

#[test]
fn copies_that_the_host_waits_for_are_found_with_their_gain() {
    let fault = Fault { program: "synchronous_copies", id: "synchronous-copies", settings: &[] };
    fault.is_reported_with_its_gain();
    fault.is_absent_from_the_twin();
}

#[test]
fn many_small_copies_are_found_with_what_one_copy_gains() {
    let fault = Fault {
        program: "small_copies",
        id: "small-copies",
        settings: &[("SIMCUDA_ASSUME", "copy_ns=100000")],
    };
    fault.is_reported_with_its_gain();
    fault.is_absent_from_the_twin();
}

#[test]
fn copies_that_take_turns_with_kernels_are_found_with_what_a_second_stream_gains() {
    let fault =
        Fault { program: "no_overlap", id: "no-overlap", settings: &[("SIMCUDA_ASSUME", SLOW_COPIES)] };
    fault.is_reported_with_its_gain();
    fault.is_absent_from_the_twin();
}

#[test]
fn a_kernel_of_unsteady_time_is_found_with_its_gain() {
    let fault = Fault { program: "unstable_kernel", id: "unstable-kernel", settings: &[] };
    fault.is_reported_with_its_gain();
    fault.is_absent_from_the_twin();
}

#[test]
fn steps_on_a_slower_gpu_are_found_with_what_full_clocks_gain() {
    let fault = Fault { program: "slower_gpu", id: "slower-gpu", settings: &[] };
    fault.is_reported_with_its_gain();
    fault.is_absent_from_the_twin();
}

#[test]
fn modules_that_nobody_needs_are_found_with_the_time_of_their_loading() {
    let fault =
        Fault { program: "cold_start", id: "cold-start", settings: &[("SIMCUDA_HOST_COST", "load=5000000")] };
    fault.is_reported_with_its_gain();
    fault.is_absent_from_the_twin();
}

#[test]
fn occupancy_that_is_asked_for_again_and_again_is_found_with_its_gain() {
    let fault = Fault {
        program: "adaptive_launches",
        id: "adaptive-launches",
        settings: &[("SIMCUDA_HOST_COST", "launch=2000,other=100000,record=100,query=100,elapsed=100")],
    };
    fault.is_reported_with_its_gain();
    fault.is_absent_from_the_twin();
}

#[test]
fn a_full_queue_is_found_and_gains_nothing() {
    let fault = Fault { program: "queue_full", id: "queue-full", settings: &[] };
    fault.found_without_a_promise();
    fault.is_absent_from_the_twin();
}

/// Where each launch waits for its kernel, programs were told that launches bound them, or the GPU's queue.
#[test]
fn with_blocking_launches_there_is_no_verdict_but_what_to_unset() {
    let run = Run::of("fault_queue_full").arg("faulty").env("CUDA_LAUNCH_BLOCKING", "1");
    let report = run.observed().succeeded().report();
    let verdict = &report["verdict"];
    assert!(verdict["bound"].is_null(), "{verdict}");
    for said in [&verdict["unsafe"], &report["processes"][0]["notes"]].map(Value::to_string) {
        assert!(said.contains("CUDA_LAUNCH_BLOCKING was set: every launch waited"), "{said}");
    }
    let findings = report["findings"].as_array().unwrap();
    assert!(findings.iter().all(|found| found["id"] != "queue-full"), "{findings:#?}");
}

#[test]
fn a_program_that_keeps_the_gpu_busy_has_no_findings() {
    let clean = Fault { program: "host_stall", id: "", settings: &[] };
    until_one_is_good(|| {
        // What gpuspy itself takes depends on the other programs on the machine.
        let mut findings = clean.findings("fixed");
        findings.retain(|found| found["id"] != "profiler-cost");
        findings.is_empty().then_some(()).ok_or_else(|| format!("{findings:#?}"))
    });
}

#[test]
fn of_two_faults_the_one_that_costs_more_comes_first() {
    for (longer, host) in [("3000", "800"), ("9000", "400"), ("6000", "300")] {
        let run = |arguments: [&str; 3]| {
            arguments.iter().fold(Run::of("fault_two"), |run, argument| run.arg(argument))
        };
        let loop_ns = |arguments| run(arguments).plain().succeeded().said()["loop_ns"].as_f64().unwrap();
        until_one_is_good(|| {
            let both = loop_ns(["1", longer, host]);
            let mut truth = [
                ("device-wide-sync", both - loop_ns(["0", longer, host])),
                ("unstable-kernel", both - loop_ns(["1", "1000", host])),
            ];
            truth.sort_by(|a, b| b.1.total_cmp(&a.1));
            let report = run(["1", longer, host]).observed().succeeded().report();
            let mut found: Vec<_> = report["findings"]
                .as_array()
                .unwrap()
                .iter()
                .map(|found| found["id"].as_str().unwrap())
                .collect();
            found.retain(|id| truth.iter().any(|(known, _)| known == id));
            let is_right = found == truth.map(|(id, _)| id);
            is_right.then_some(()).ok_or_else(|| format!("{found:?} and truly {truth:?}: {report:#}"))
        });
    }
}
