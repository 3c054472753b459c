//! `unstable-kernel`: a kernel whose launches of one shape take very different times.

use super::super::Facts;
use super::super::buckets::Bucket;
use super::super::finding::{Claimed, Evidence, Finding, Id, Sites};
use super::super::framework::Advice;
use crate::analyze::estimate::{Estimate, Sum};
use crate::analyze::kernels::Kernel;
use crate::analyze::shapes::Launched;
use crate::model::names::demangle;
use crate::units::{duration, plural};
use std::collections::BTreeMap;

const FIX: Advice = Advice {
    pytorch: "Look at what differs between its launches: the data (sparse or padded input, indices that collide), other \
              streams, other processes on the GPU, or its clocks (nvidia-smi -q -d PERFORMANCE). Ranges around the step's \
              parts (torch.cuda.nvtx.range) tell the launches apart.",
    jax: "Look at what differs between its launches: the data, other processes on the GPU, or its clocks (nvidia-smi -q \
          -d PERFORMANCE).",
    cuda: "Look at what differs between its launches: the data (divergent branches, atomics that collide), other streams, \
           other processes on the GPU, or its clocks (nvidia-smi -q -d PERFORMANCE).",
};

/// The fewest timed launches from which a spread can be judged.
const FEWEST: u64 = 20;
/// By how much the mean of the timed launches may differ from that of all, as a share. Beyond, they are no fair sample.
const FAIR: f64 = 0.1;
/// By how much the mean exceeds the median at least, as a factor.
const SKEWED: f64 = 1.25;

/// What the launches of a kernel took beyond its median.
struct Excess<'a> {
    kernel: &'a Kernel,
    /// Its share of the time of all kernels, numerator and denominator, ns.
    excess: u64,
    all: u64,
}

/// Looks for it, in kernels that are launched in one shape and with one number of blocks: others have a reason to differ.
pub fn find(facts: &Facts<'_>) -> Option<Claimed> {
    let total = |kernel: &Kernel| kernel.total().map_or(0, |total| total.value);
    let all = facts.all.kernels.iter().map(total).sum();
    let excess = |kernel| Some(Excess { kernel, excess: excess(kernel)?, all });
    let Excess { kernel, excess, all } =
        facts.all.kernels.iter().filter_map(excess).max_by_key(|found| found.excess)?;
    let (median, most) = (kernel.durations.median()?, kernel.durations.max()?);
    let mean = kernel.durations.mean()?;
    let text = format!(
        "Median {}, mean {}, longest {}, in {} of one shape.",
        duration(median.value),
        duration(mean.value as u64),
        duration(most.value),
        plural(kernel.durations.count(), "timed launch", "timed launches")
    );
    let gain = facts.buckets.get(Bucket::Compute).share(excess, all);
    Some(Claimed {
        finding: Finding {
            id: Id::UnstableKernel,
            title: "A kernel takes a different time at each launch".to_owned(),
            evidence: Evidence {
                text,
                count: kernel.count,
                total: kernel.total().map(Sum::from),
                kernel: Some(demangle(&kernel.symbol)),
                source: facts.source_of_kernel(&kernel.symbol),
                ..Evidence::default()
            },
            explanation: "Launches of one shape do the same work unless their data differs, so that the longer ones wait for \
                          something or do more than is needed."
                .to_owned(),
            fix: FIX.of(facts),
            saves: Estimate::exactly(0),
        },
        claims: BTreeMap::from([(Bucket::Compute, Sum { lo: 0, ..gain })]),
        sites: Sites::new(),
    })
}

/// Returns what all launches took beyond the median, ns, by the share that it is of the timed ones' time, if that is certain
/// and considerable.
fn excess(kernel: &Kernel) -> Option<u64> {
    let has_one_grid = |shape: &Launched| shape.blocks.is_some_and(|(least, most)| least == most);
    let is_one_shape =
        kernel.shapes.others == 0 && matches!(&kernel.shapes.list[..], [one] if has_one_grid(one));
    let (median, mean) = (kernel.durations.median()?, kernel.durations.mean()?);
    let is_certain = mean.lo > median.hi as f64 && mean.value > SKEWED * median.value as f64;
    let of_all = kernel.mean()?.value;
    let is_fair = (of_all - mean.value).abs() <= FAIR * of_all;
    let is_many = kernel.durations.count() >= FEWEST;
    let is_judged = is_one_shape && is_certain && is_fair && is_many && !kernel.communication;
    let share = 1.0 - median.value as f64 / mean.value;
    is_judged.then(|| kernel.total().map_or(0, |total| (total.value as f64 * share) as u64))
}
