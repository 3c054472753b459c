//! `unstable-kernel`: a kernel whose launches of one shape take very different times on the same GPU, in the same process.

use super::super::Facts;
use super::super::buckets::Bucket;
use super::super::finding::{Claimed, Evidence, Finding, Id, Sites};
use super::super::framework::Advice;
use crate::analyze::estimate::{Estimate, Sum};
use crate::analyze::kernels::Kernel;
use crate::analyze::shapes::Launched;
use crate::analyze::unsteady::Spread;
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

/// By how much the mean of the timed launches may differ from that of all, as a share. Beyond, they are no fair sample.
const FAIR: f64 = 0.1;

/// What the launches of a kernel took beyond their medians.
struct Excess<'a> {
    kernel: &'a Kernel,
    /// Its launches on the GPU where they differ most.
    worst: Spread,
    /// Its share of the time of all kernels, numerator and denominator, ns.
    excess: u64,
    all: u64,
}

/// Looks for it, in kernels that are launched in one shape and with one number of blocks: others have a reason to differ.
pub fn find(facts: &Facts<'_>) -> Option<Claimed> {
    let total = |kernel: &Kernel| kernel.total().map_or(0, |total| total.value);
    let all = facts.all.kernels.iter().map(total).sum();
    let excess = |kernel: &Kernel| excess(kernel).zip(kernel.unsteady.worst);
    let of = |kernel| excess(kernel).map(|(excess, worst)| Excess { kernel, worst, excess, all });
    let Excess { kernel, worst, excess, all } =
        facts.all.kernels.iter().filter_map(of).max_by_key(|found| found.excess)?;
    let place = if worst.count < kernel.durations.count() { " on one GPU of one process" } else { "" };
    let text = format!(
        "Median {}, mean {}, longest {}, in {} of one shape{place}.",
        duration(worst.median),
        duration(worst.mean as u64),
        duration(worst.longest),
        plural(worst.count, "timed launch", "timed launches")
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

/// Returns what all launches took beyond the medians of their GPUs, ns, by the share that it is of the timed ones' time.
fn excess(kernel: &Kernel) -> Option<u64> {
    let has_one_grid = |shape: &Launched| shape.blocks.is_some_and(|(least, most)| least == most);
    let is_one_shape =
        kernel.shapes.others == 0 && matches!(&kernel.shapes.list[..], [one] if has_one_grid(one));
    let (of_all, timed) = (kernel.mean()?.value, kernel.durations.mean()?.value);
    let is_fair = (of_all - timed).abs() <= FAIR * of_all;
    let is_judged = is_one_shape && is_fair && !kernel.communication;
    let share = kernel.unsteady.beyond / kernel.durations.total()?.value.max(1) as f64;
    is_judged.then(|| kernel.total().map_or(0, |total| (total.value as f64 * share) as u64))
}
