//! A finding: one fault of a program, with its evidence, its remedy and what that would gain.

use super::Facts;
use super::buckets::{Bucket, Buckets};
use crate::analyze::estimate::{Estimate, Sum};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// A function that looks for one fault.
pub type Find = fn(&Facts<'_>) -> Option<Claimed>;

/// The least gain that is worth a change, as a share of the time that is [judged](Buckets::judged): less is within what two runs of one program
/// differ by.
pub const WORTH: f64 = 0.01;

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
/// have left of its claims. A finding that claims time, and gets less than [`WORTH`] of it, is dropped.
pub fn ranked(mut claimed: Vec<Claimed>, buckets: &Buckets) -> Vec<Finding> {
    let mut left = buckets.parts.clone();
    let mut ranked = Vec::with_capacity(claimed.len());
    while !claimed.is_empty() {
        let gains = claimed.iter().map(|claim| gain(claim, &left));
        let best = gains.enumerate().max_by_key(|(at, gain)| (gain.value, Reverse(*at)));
        let Some((at, gain)) = best else { break };
        let Claimed { finding, claims } = claimed.remove(at);
        if !claims.is_empty() && (gain.value as f64) < WORTH * buckets.judged() as f64 {
            continue;
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analyze::idle::Cause;
    use proptest::prelude::*;

    const PARTS: [Bucket; 4] = [
        Bucket::Compute,
        Bucket::ExposedCopies,
        Bucket::Idle(Cause::Launching),
        Bucket::Idle(Cause::OutsideCuda),
    ];

    fn exactly(value: u64) -> Sum {
        Sum { value, lo: value, hi: value }
    }

    fn divided(parts: [u64; 4]) -> Buckets {
        let parts: BTreeMap<_, _> = PARTS.into_iter().zip(parts.map(exactly)).collect();
        Buckets { wall: parts.values().map(|part| part.value).sum(), parts, ..Buckets::default() }
    }

    fn claim(id: &'static str, claims: [u64; 4]) -> Claimed {
        let claims = PARTS.into_iter().zip(claims).filter(|(_, ns)| *ns > 0);
        Claimed {
            finding: Finding {
                id,
                title: String::new(),
                evidence: Evidence::default(),
                explanation: String::new(),
                fix: String::new(),
                saves: Estimate::exactly(0),
            },
            claims: claims.map(|(bucket, ns)| (bucket, exactly(ns))).collect(),
        }
    }

    fn gains(claimed: Vec<Claimed>, buckets: &Buckets) -> Vec<(&'static str, u64)> {
        ranked(claimed, buckets).iter().map(|found| (found.id, found.saves.value)).collect()
    }

    #[test]
    fn two_findings_share_a_bucket() {
        let buckets = divided([500, 300, 100, 100]);
        let claimed = vec![claim("small", [0, 150, 0, 0]), claim("large", [0, 250, 0, 60])];
        assert_eq!(gains(claimed, &buckets), [("large", 310), ("small", 50)]);
    }

    #[test]
    fn a_gain_below_one_percent_is_no_finding_unless_it_is_not_about_time() {
        let buckets = divided([960, 20, 10, 10]);
        let claimed =
            vec![claim("memory", [0; 4]), claim("tiny", [0, 9, 0, 0]), claim("worth", [0, 0, 10, 0])];
        assert_eq!(gains(claimed, &buckets), [("worth", 10), ("memory", 0)]);
    }

    proptest! {
        #[test]
        fn no_nanosecond_is_promised_twice(
            parts in prop::array::uniform4(0..1_000_000u64),
            claims in prop::collection::vec(prop::array::uniform4(0..2_000_000u64), 0..8),
        ) {
            let buckets = divided(parts);
            let largest = claims.iter().map(|ns| ns.iter().zip(parts).map(|(ns, part)| (*ns).min(part)).sum::<u64>()).max();
            let found = ranked(claims.into_iter().map(|ns| claim("any", ns)).collect(), &buckets);
            prop_assert!(found.iter().map(|found| found.saves.value).sum::<u64>() <= buckets.wall);
            prop_assert!(found.is_sorted_by(|a, b| a.saves.value >= b.saves.value));
            prop_assert!(found.iter().all(|found| found.saves.lo <= found.saves.value && found.saves.value <= found.saves.hi));
            if let Some(first) = found.first() {
                prop_assert_eq!(Some(first.saves.value), largest, "the first gets all that it claims");
            }
        }
    }
}
