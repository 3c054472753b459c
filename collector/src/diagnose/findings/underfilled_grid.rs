//! `underfilled-grid`: a kernel with so few blocks that most multiprocessors have none.
//!
//! What a larger grid gains depends on the kernel's work, which nobody can see from outside, so no time is promised.

use super::super::Facts;
use super::super::buckets::Bucket;
use super::super::finding::{Claimed, Evidence, Finding, Id, Sites};
use super::super::framework::Advice;
use super::grids::{self, OneShape};
use crate::analyze::estimate::{Estimate, Sum};
use crate::model::names::demangle;
use crate::units::{duration, percent, plural};
use std::collections::BTreeMap;

const FIX: Advice = Advice {
    pytorch: "Give the kernel more work at a time (a larger batch, fewer loops in Python), or let independent work run beside \
              it on another stream; torch.compile may split reductions.",
    jax: "Give the kernel more work at a time: a larger batch, or vmap in place of a loop.",
    cuda: "Launch more blocks: smaller tiles, one dimension more in the grid, split-K or a reduction in two steps; or let \
           independent work run beside it on another stream.",
};

/// The shortest launch to which the grid matters, ns: shorter kernels are `tiny-kernels` if anything.
const LEAST: u64 = 100_000;
/// The share of the wall time that the kernel takes at least.
const SHARE: f64 = 0.1;
/// How much longer the kernels run in all than the GPU is busy with kernels if others fill the rest of it.
const SHARED: f64 = 1.5;

/// Looks for it: fewer blocks than half of the multiprocessors, and no other kernel beside it.
pub fn find(facts: &Facts<'_>) -> Option<Claimed> {
    // The kernels are those of all GPUs, and the buckets are of one.
    let [wall, busy] = [facts.buckets.wall, facts.buckets.get(Bucket::Compute).value]
        .map(|of_gpu| of_gpu.saturating_mul(facts.gpus()));
    if grids::time_of_all(facts) as f64 > SHARED * busy as f64 {
        return None;
    }
    let found = grids::kernels(facts, LEAST, 0.0)
        .into_iter()
        .filter(|found| found.total as f64 >= SHARE * wall as f64);
    let (found, multiprocessors) =
        found.filter_map(|found| Some((found, fewer_than(&found)?))).max_by_key(|(found, _)| found.total)?;
    let text = format!(
        "At most {} for {}, in {} of {} each, which take {} of the wall time.",
        plural(found.blocks.1, "block", "blocks"),
        plural(multiprocessors, "multiprocessor", "multiprocessors"),
        plural(found.kernel.count, "launch", "launches"),
        duration(found.total / found.kernel.count.max(1)),
        percent(found.total.min(wall), wall)
    );
    Some(Claimed {
        finding: Finding {
            id: Id::UnderfilledGrid,
            title: "A kernel uses less than half of the GPU".to_owned(),
            evidence: Evidence {
                text,
                count: found.kernel.count,
                total: found.kernel.total().map(Sum::from),
                kernel: Some(demangle(&found.kernel.symbol)),
                source: facts.source_of_kernel(&found.kernel.symbol),
                ..Evidence::default()
            },
            explanation: "A block runs on one multiprocessor, so the others have nothing to do. How much a larger grid gains \
                          depends on the work, so no time is promised."
                .to_owned(),
            fix: FIX.of(facts),
            saves: Estimate::exactly(0),
        },
        claims: BTreeMap::new(),
        sites: Sites::new(),
    })
}

/// Returns the number of multiprocessors, if half of them or more never get a block.
fn fewer_than(found: &OneShape<'_>) -> Option<u64> {
    let multiprocessors = u64::from(found.shape.said.as_ref()?.multiprocessors);
    (found.blocks.1.saturating_mul(2) < multiprocessors).then_some(multiprocessors)
}
