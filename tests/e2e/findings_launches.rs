//! Faults of launches, grids, streams and repeated work: the findings that [`super::findings`] does not test, and mixes of
//! faults whose order has to be the true one.

use super::findings::{Fault, Saved, shortest_runs_agree};
use gpuspy_tests::{Run, until_one_is_good};
use serde_json::Value;

#[test]
fn copies_before_matrix_products_are_found_with_their_time() {
    let fault = Fault {
        program: "hidden_copy",
        id: "hidden-copy",
        settings: &[("SIMCUDA_ASSUME", "copy_ns=500000")],
    };
    fault.is_reported_with_its_gain();
    fault.is_absent_from_the_twin();
}

#[test]
fn work_that_takes_turns_with_the_default_stream_is_found_with_what_overlap_gains() {
    let fault = Fault { program: "default_stream", id: "default-stream", settings: &[] };
    fault.is_reported_with_its_gain();
    fault.is_absent_from_the_twin();
}

#[test]
fn a_table_that_is_copied_in_each_step_is_found_with_what_copying_it_once_gains() {
    let fault = Fault {
        program: "duplicate_uploads",
        id: "duplicate-uploads",
        settings: &[("SIMCUDA_ASSUME", "pinned_mbps=400")],
    };
    fault.is_reported_with_its_gain();
    fault.is_absent_from_the_twin();
}

#[test]
fn staging_buffers_that_are_filled_anew_are_no_duplicate_uploads() {
    for buffers in ["one", "ring"] {
        let run = Run::of("staging_buffer").arg(buffers).env("SIMCUDA_ASSUME", "pinned_mbps=400");
        let report = run.observed().succeeded().report();
        assert!(of(&report, "duplicate-uploads").is_none(), "{buffers}: {}", report["findings"]);
    }
}

#[test]
fn a_last_wave_that_fills_little_of_the_gpu_is_found_with_what_full_waves_gain() {
    let fault = Fault { program: "tail_wave", id: "tail-wave", settings: &[] };
    fault.is_reported_with_its_gain();
    fault.is_absent_from_the_twin();
}

#[test]
fn a_kernel_of_few_blocks_is_found_without_a_promise() {
    let fault = Fault { program: "underfilled_grid", id: "underfilled-grid", settings: &[] };
    let found = fault.found_without_a_promise();
    assert!(found["evidence"]["text"].as_str().unwrap().starts_with("At most 4 blocks for "), "{found}");
    fault.is_absent_from_the_twin();
}

#[test]
fn a_thread_that_changes_the_gpu_after_each_launch_is_found_without_a_promise() {
    let fault =
        Fault { program: "device_switches", id: "device-switches", settings: &[("SIMCUDA_DEVICES", "2")] };
    let found = fault.found_without_a_promise();
    assert!(found["evidence"]["count"].as_u64().unwrap() >= 100 * 38, "{found}");
    fault.is_absent_from_the_twin();
}

#[test]
fn what_gpuspy_itself_costs_is_reported_where_kernels_are_tiny_and_each_is_timed() {
    let gain = |variant: &str| {
        let run = Run::of("fault_profiler_cost").arg(variant).observed_with(&["--timing", "exact"]);
        let report = run.succeeded().report();
        of(&report, "profiler-cost").map(|found| found["saves_ns"]["hi"].clone())
    };
    until_one_is_good(|| match gain("faulty") {
        Some(gain) => {
            assert_eq!(gain, Value::from(0), "there is nothing to gain");
            Ok(())
        }
        None => Err("the cost is not reported".to_owned()),
    });
    until_one_is_good(|| gain("fixed").map_or(Ok(()), |_| Err("reported of large kernels".to_owned())));
}

/// Tests what the first finding of `fault_pageable_copies` says, if it is `pageable-copies`, beside what the fixed twin
/// truly saves.
fn pinning(how: &str, agrees: impl Fn(&Value, Saved) -> bool) {
    let run = |variant: &str| {
        Run::of("fault_pageable_copies")
            .arg(variant)
            .arg(how)
            .env("SIMCUDA_ASSUME", "pageable_mbps=100,pinned_mbps=300")
    };
    shortest_runs_agree(run, |findings, truth| {
        findings[0]["id"] == "pageable-copies" && agrees(&findings[0], truth)
    });
}

fn saves(found: &Value, bound: &str) -> f64 {
    found["saves_ns"][bound].as_f64().unwrap()
}

#[test]
fn without_page_locked_copies_to_compare_with_the_gain_of_pinning_is_an_interval_that_holds_the_truth() {
    // Those of the other direction say nothing.
    for how in ["alone", "back-alone"] {
        pinning(how, |first, truth| {
            let text = first["evidence"]["text"].as_str().unwrap();
            assert!(!text.contains("page-locked memory:"), "there is nothing to compare with: {text}");
            saves(first, "lo") <= truth.ns + truth.noise
                && truth.ns - truth.noise <= saves(first, "hi")
                && saves(first, "lo") < saves(first, "hi")
        });
    }
}

#[test]
fn what_pinning_gains_where_the_host_waits_in_the_copy_is_without_the_transfer_itself() {
    pinning("back", |first, truth| {
        // The transfer takes a third of the time, which pinning does not gain.
        truth.is_near(saves(first, "value")) && saves(first, "hi") <= 1.2 * truth.ns + truth.noise
    });
}

/// Draws numbers for a test: the same for the same seed (Knuth's constants for a linear congruential generator).
struct Draw(u64);

impl Draw {
    fn of(&mut self, among: &[u64]) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        among[(self.0 >> 33) as usize % among.len()]
    }
}

/// The strengths of the faults of `fault_mix`, in the order of its arguments.
#[derive(Clone, Copy, Debug)]
struct Mix {
    syncs: u64,
    longer_us: u64,
    host_us: u64,
    copies: u64,
}

impl Mix {
    fn run(self) -> Run {
        let arguments = [self.syncs, self.longer_us, self.host_us, self.copies];
        let run = arguments.iter().fold(Run::of("fault_mix"), |run, argument| run.arg(argument.to_string()));
        run.env("SIMCUDA_ASSUME", "copy_ns=100000")
    }

    fn loop_ns(self) -> f64 {
        self.run().plain().succeeded().said()["loop_ns"].as_f64().unwrap()
    }

    /// Returns what each fault truly costs, the largest first.
    fn truth(self) -> [(&'static str, f64); 3] {
        let all = self.loop_ns();
        let mut truth = [
            ("device-wide-sync", Mix { syncs: 0, ..self }),
            ("unstable-kernel", Mix { longer_us: 1_000, ..self }),
            ("small-copies", Mix { copies: 1, ..self }),
        ]
        .map(|(id, without)| (id, all - without.loop_ns()));
        truth.sort_by(|a, b| b.1.total_cmp(&a.1));
        truth
    }
}

#[test]
fn random_mixes_of_faults_are_ranked_by_what_each_truly_costs() {
    for seed in 1..=5 {
        let mut draw = Draw(seed);
        let mix = Mix {
            syncs: 1,
            longer_us: draw.of(&[3_000, 5_000, 8_000, 12_000]),
            host_us: draw.of(&[200, 400, 600, 900]),
            copies: draw.of(&[9, 12, 16, 24]),
        };
        until_one_is_good(|| {
            let truth = mix.truth();
            let report = mix.run().observed().succeeded().report();
            let place = |id: &str| list(&report).iter().position(|found| found["id"] == id);
            for (at, (id, gain)) in truth.iter().enumerate() {
                for (other, less) in &truth[at + 1..] {
                    // A nanosecond that two faults share is promised once, so the order of close ones is open.
                    let is_clear = *gain > 1.25 * less;
                    let is_right = match (place(id), place(other)) {
                        (Some(place), other) => other.is_none_or(|other| place < other),
                        (None, _) => false,
                    };
                    if is_clear && !is_right {
                        return Err(format!(
                            "{id} is not before {other} in {mix:?}: truly {truth:?}, {report:#}"
                        ));
                    }
                }
            }
            Ok(())
        });
    }
}

fn list(report: &Value) -> &Vec<Value> {
    report["findings"].as_array().unwrap()
}

fn of<'r>(report: &'r Value, id: &str) -> Option<&'r Value> {
    list(report).iter().find(|found| found["id"] == id)
}
