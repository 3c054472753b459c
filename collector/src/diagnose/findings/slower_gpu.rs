//! `slower-gpu`: steps in a row took longer because the same kernels took longer on the GPU.

use super::super::Facts;
use super::super::buckets::Bucket;
use super::super::finding::{Claimed, Evidence, Finding, Id, Sites};
use crate::analyze::ProcessReport;
use crate::analyze::estimate::{Estimate, Sum};
use crate::analyze::steps::{SlowStretch, on_slower_gpu};
use crate::units::{duration, plural};
use std::collections::BTreeMap;

const FIX: &str = "Look at the GPU while it is slow: nvidia-smi -q -d PERFORMANCE says why its clocks are lower, nvidia-smi dmon -s pc shows \
                   its power, temperature and clocks over time, and nvidia-smi pmon which other programs use it.";

/// What a GPU's slowness added to the steps of a process, ns.
struct Slow<'a> {
    process: &'a ProcessReport,
    /// Its slow stretches, with how many times as long the same kernels took, and what that added.
    of: Vec<(&'a SlowStretch, f64, u64)>,
    total: u64,
}

/// Looks for it, in the process in which it added most.
pub fn find(facts: &Facts<'_>) -> Option<Claimed> {
    let Slow { process, of, total } = facts.reports.iter().map(slow).max_by_key(|slow| slow.total)?;
    let (stretch, times, _) = of.iter().max_by_key(|(_, _, ns)| *ns)?;
    let others = match of.len() - 1 {
        0 => String::new(),
        more => format!(" It was slower {} more.", plural(more as u64, "time", "times")),
    };
    let text = format!(
        "Steps {}..{} took {} each instead of {}: the same kernels took {times:.2} times as long on the GPU.{others}",
        stretch.steps.start,
        stretch.steps.end.saturating_sub(1),
        duration(stretch.mean().round() as u64),
        duration(stretch.usual),
    );
    let in_process = facts.in_process(process.process.job.rank, process.process.pid);
    Some(Claimed {
        finding: Finding {
            id: Id::SlowerGpu,
            title: format!("The GPU was slower for a part of the time{in_process}"),
            evidence: Evidence {
                text,
                count: of.iter().map(|(stretch, ..)| stretch.count()).sum(),
                total: Some(Sum { value: total, lo: total, hi: total }),
                first: of.iter().map(|(stretch, ..)| stretch.start).min(),
                ..Evidence::default()
            },
            explanation: "Launches of one kernel in one shape mostly take the same time. They take longer where the GPU lowers its \
                          clocks, because it is too hot or takes too much power, and where another program uses it, too."
                .to_owned(),
            fix: FIX.to_owned(),
            saves: Estimate::exactly(0),
        },
        claims: claims(facts, total),
        sites: Sites::new(),
    })
}

/// Returns what the GPU's slowness added to the steps of a process: by as much longer its kernels took, it was busy for longer
/// in each step than in others.
fn slow(process: &ProcessReport) -> Slow<'_> {
    let steps = &process.tables.steps;
    let slower = || {
        steps
            .slow_stretches
            .iter()
            .filter_map(|stretch| Some((stretch, on_slower_gpu(stretch.same_kernels)?)))
    };
    // The mean of all steps has the longer ones in it.
    let all = steps.steady.end.saturating_sub(steps.steady.start) as f64;
    let longer = |stretch: &SlowStretch, times: f64| (times - 1.0) * stretch.count() as f64;
    let in_all = slower().map(|(stretch, times)| longer(stretch, times)).sum::<f64>();
    let busy = steps.contents.busy * all / (all + in_all).max(1.0);
    let added = |stretch: &SlowStretch, times| stretch.excess().min((busy * longer(stretch, times)) as u64);
    let of: Vec<_> = slower().map(|(stretch, times)| (stretch, times, added(stretch, times))).collect();
    let total = of.iter().map(|(_, _, ns)| ns).sum();
    Slow { process, of, total }
}

/// Claims time in which the GPU computed, on its own or in graphs. Other ranks wait in collectives for the one that is slower.
fn claims(facts: &Facts<'_>, ns: u64) -> BTreeMap<Bucket, Sum> {
    let ranks = (facts.reports.len() > 1).then_some(Bucket::ExposedCommunication);
    let parts = [Bucket::Compute, Bucket::Graphs].into_iter().chain(ranks);
    let parts: Vec<(Bucket, Sum)> = parts.map(|bucket| (bucket, facts.buckets.get(bucket))).collect();
    let all = parts.iter().map(|(_, part)| part.value).sum::<u64>();
    let claim = |(bucket, part): (Bucket, Sum)| (bucket, Sum { lo: 0, ..part.share(ns.min(all), all) });
    parts.into_iter().filter(|(_, part)| part.value > 0).map(claim).collect()
}
