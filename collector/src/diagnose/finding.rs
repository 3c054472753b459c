//! A finding: one fault of a program, with its evidence, its remedy and what that would gain.

use super::Facts;
use super::buckets::{Bucket, Buckets};
use crate::analyze::estimate::{Estimate, Sum};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// A function that looks for one fault.
pub type Find = fn(&Facts<'_>) -> Option<Claimed>;

/// All of them. The order does not matter.
pub const FINDERS: &[Find] = &[];

/// A fault, with the parts of the wall time that removing it would give back.
#[derive(Clone, Debug)]
pub struct Claimed {
    /// The finding; its gain is computed from the claims.
    pub finding: Finding,
    /// At most this much of each bucket, ns.
    pub claims: BTreeMap<Bucket, Sum>,
}

/// A fault.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// Its name in JSON, and in `gpuspy report --section findings`: lower case, with hyphens.
    pub id: &'static str,
    /// What was found, in a few words.
    pub title: String,
    /// What it was found by.
    pub evidence: Evidence,
    /// Why that costs time, in a sentence or two.
    pub explanation: String,
    /// What to change, in the words of the framework that the program uses.
    pub fix: String,
    /// What that would gain: ns of wall time. 0 for faults that cost something other than time.
    pub saves: Estimate<u64>,
}

/// What a finding was found by. Everything that does not apply is absent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Evidence {
    /// The evidence in a sentence, with its figures.
    pub text: String,
    /// How often it happened.
    pub count: u64,
    /// The time that it took, ns.
    pub total: Option<Sum>,
    /// ns from the start of the collection to the first time that it happened.
    pub first: Option<u64>,
    /// The API.
    pub api: Option<String>,
    /// The kernel, demangled.
    pub kernel: Option<String>,
    /// The path of the library that made the call.
    pub library: Option<String>,
    /// The thread's id in the system.
    pub tid: Option<u32>,
}

/// Ranks findings by what they gain. No nanosecond of a bucket is promised twice: a finding gets what those before it
/// have left of its claims.
pub fn ranked(mut claimed: Vec<Claimed>, buckets: &Buckets) -> Vec<Finding> {
    let mut left = buckets.parts.clone();
    let mut ranked = Vec::with_capacity(claimed.len());
    while !claimed.is_empty() {
        let gains = claimed.iter().map(|claim| gain(claim, &left));
        let best = gains.enumerate().max_by_key(|(at, gain)| (gain.value, Reverse(*at)));
        let Some((at, gain)) = best else { break };
        let Claimed { finding, claims } = claimed.remove(at);
        for (bucket, claim) in claims {
            if let Some(part) = left.get_mut(&bucket) {
                part.value -= claim.value.min(part.value);
                part.lo -= claim.lo.min(part.lo);
                part.hi -= claim.hi.min(part.hi);
            }
        }
        ranked.push(Finding { saves: gain.estimate(), ..finding });
    }
    ranked
}

/// Returns what a claim gets of what is left.
fn gain(claimed: &Claimed, left: &BTreeMap<Bucket, Sum>) -> Sum {
    let mut gain = Sum::default();
    for (bucket, claim) in &claimed.claims {
        let part = left.get(bucket).copied().unwrap_or_default();
        let value = claim.value.min(part.value);
        gain.add(Sum { value, lo: claim.lo.min(part.lo).min(value), hi: claim.hi.min(part.hi).max(value) });
    }
    gain
}
