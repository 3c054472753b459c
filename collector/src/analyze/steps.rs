//! The steps of a program: how long they take, how steady they are, and what is in them.
//!
//! Which launch begins a step is found in the first pass over the trace ([`model::steps`](crate::model::steps)).

use super::idle::Cause;
use crate::model::steps::Source;
use std::collections::BTreeMap;

/// The steps that were found; without steps, `count` is 0.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Steps {
    /// The number of steps, those of the warm-up included.
    pub count: u64,
    /// How they were found.
    pub source: Option<Source>,
    /// The launches of a step (kernels and graphs), median.
    pub launches: u64,
    /// The steps at the start that are longer than those after them.
    pub warm_up: u64,
    /// How long the steps after the warm-up took.
    pub time: Option<StepTimes>,
    /// Steps that took much longer than the others, the longest first; at most ten.
    pub outliers: Vec<Outlier>,
    /// Times of steps over the run, for a plot: the mean of equally many steps each; at most 60.
    pub plot: Vec<u64>,
    /// What a step after the warm-up contains, on average.
    pub contents: Contents,
    /// Phases of a step: NVTX ranges that are opened in nearly every step.
    pub phases: Vec<Phase>,
}

/// Times of steps, ns.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StepTimes {
    /// Mean.
    pub mean: f64,
    /// Standard deviation.
    pub std: f64,
    /// Median.
    pub median: u64,
    /// 95th percentile.
    pub p95: u64,
    /// 99th percentile.
    pub p99: u64,
    /// Shortest.
    pub min: u64,
    /// Longest.
    pub max: u64,
    /// How much longer the steps at the end are than those at the start, as a share of the mean.
    pub drift: f64,
}

/// A step that took much longer than the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outlier {
    /// Its number, from 0.
    pub step: u64,
    /// ns from the start of the collection to its start.
    pub start: u64,
    /// ns that it took.
    pub duration: u64,
}

/// What one step contains, on average.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Contents {
    /// ns in which the GPU was busy.
    pub busy: f64,
    /// ns in which it was idle.
    pub idle: f64,
    /// The same by cause.
    pub idle_by_cause: BTreeMap<Cause, f64>,
    /// Copies and memsets.
    pub copies: f64,
    /// Bytes that they moved.
    pub copied_bytes: f64,
    /// Calls that synchronize.
    pub syncs: f64,
    /// Allocations of device memory.
    pub allocations: f64,
    /// Bytes that they allocated.
    pub allocated_bytes: f64,
    /// How much the live device memory grows, bytes.
    pub growth_bytes: f64,
}

/// A phase of a step.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Phase {
    /// The NVTX range's name.
    pub name: String,
    /// How often it is opened in a step, on average.
    pub per_step: f64,
    /// Host ns in it per step, on average.
    pub host: f64,
}
