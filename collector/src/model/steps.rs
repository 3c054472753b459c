//! Which launch begins a step of the program?
//!
//! The first pass over a trace learns a [`StepRule`]; the second one gives every event the number of its step by
//! following it.

use crate::trace::record::Record;

/// How steps were found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// The sequence of launches repeats.
    Launches,
    /// An NVTX range of this name is opened once in each step; digits at its end count the steps.
    NvtxRange(String),
    /// A graph is launched once in each step.
    Graphs,
}

/// What begins a step.
#[derive(Clone, Debug, Default)]
pub struct StepRule {
    /// How the rule was found; `None` if the program has no steps.
    pub source: Option<Source>,
}

/// Follows a [`StepRule`] through a trace.
#[derive(Clone, Debug, Default)]
pub struct StepCounter {
    step: Option<u64>,
}

impl StepCounter {
    /// Creates a counter at the start of a trace.
    pub fn new(_rule: &StepRule) -> StepCounter {
        StepCounter::default()
    }

    /// Takes the next record, and returns the number of its step, from 0; `None` before the first step.
    pub fn observe(&mut self, _record: &Record) -> Option<u64> {
        self.step
    }
}
