//! The verdict: what bounds the program.

use super::numbers::or_null;
use crate::diagnose::verdict::{self, Bound};
use schemars::JsonSchema;
use serde::Serialize;

/// What bounds the program.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Verdict {
    /// gpu: kernels; launches: the host cannot launch as fast as the GPU runs; host: outside CUDA; syncs: synchronization
    /// empties the GPU's queue; tail: after the last operation; null = not safe to say.
    #[schemars(extend("enum" = or_null(Bound::ALL.map(Bound::name))))]
    pub bound: Option<&'static str>,
    /// The verdict in at most three sentences.
    pub text: Vec<String>,
    /// The bound's share of the wall time, 0 to 1.
    #[schemars(range(min = 0, max = 1))]
    pub share: Option<f64>,
    /// The most that removing the bound would save.
    pub saves_ns: Option<u64>,
    /// Why no verdict is safe, and what to run again; null = the verdict is safe.
    #[serde(rename = "unsafe")]
    pub is_unsafe: Option<String>,
}

impl Verdict {
    /// Returns the row.
    pub fn of(verdict: &verdict::Verdict) -> Verdict {
        Verdict {
            bound: verdict.bound.map(Bound::name),
            text: verdict.text.clone(),
            share: verdict.share,
            saves_ns: verdict.saves,
            is_unsafe: verdict.is_unsafe.clone(),
        }
    }
}
