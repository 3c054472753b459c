//! For each finding a client that has the fault and its twin that has not: the first is told, first of all, with the gain that
//! the twin really has, and the second is not.

use gpuspy_tests::{Run, until_one_is_good};
use serde_json::Value;

/// Copies so slow that a small buffer takes a while: the simulator moves the bytes with processors that tests share.
const SLOW_COPIES: &str = "pageable_mbps=600,pinned_mbps=2500";

/// A client `tests/programs/fault_NAME.c` and the finding that it has.
struct Fault {
    program: &'static str,
    id: &'static str,
    /// The simulator's assumptions.
    assume: &'static str,
}

impl Fault {
    fn run(&self, variant: &str) -> Run {
        Run::of(&format!("fault_{}", self.program)).arg(variant).env("SIMCUDA_ASSUME", self.assume)
    }

    /// Returns how long the loop takes without gpuspy, ns.
    fn loop_ns(&self, variant: &str) -> f64 {
        self.run(variant).plain().succeeded().said()["loop_ns"].as_f64().unwrap()
    }

    fn findings(&self, variant: &str) -> Vec<Value> {
        self.run(variant).observed().succeeded().report()["findings"].as_array().unwrap().clone()
    }

    /// Tests that the finding is first in a run of the faulty client, with a gain within 10 % of the true one.
    fn is_reported_with_its_gain(&self) {
        until_one_is_good(|| {
            let findings = self.findings("faulty");
            let first = findings.first().filter(|first| first["id"] == self.id);
            let first = first.ok_or_else(|| format!("first is not {}: {findings:#?}", self.id))?;
            let saves = first["saves_ns"]["value"].as_f64().unwrap();
            let truth = self.loop_ns("faulty") - self.loop_ns("fixed");
            let is_close = (saves - truth).abs() <= 0.1 * truth;
            is_close.then_some(()).ok_or_else(|| format!("{saves} and truly {truth}: {first:#?}"))
        });
    }

    /// Tests that the finding is absent from a run of the fixed client.
    fn is_absent_from_the_twin(&self) {
        until_one_is_good(|| {
            let findings = self.findings("fixed");
            let is_absent = findings.iter().all(|found| found["id"] != self.id);
            is_absent.then_some(()).ok_or_else(|| format!("{findings:#?}"))
        });
    }
}

const PAGEABLE: Fault = Fault { program: "pageable_copies", id: "pageable-copies", assume: SLOW_COPIES };

#[test]
fn copies_from_pageable_memory_are_found_with_what_pinning_gains() {
    PAGEABLE.is_reported_with_its_gain();
    PAGEABLE.is_absent_from_the_twin();
}
