//! `queue-full`: the host is so far ahead that launches wait for a place in the GPU's queue.

use super::super::Facts;
use super::super::buckets::Bucket;
use super::super::finding::{Claimed, Evidence, Finding, Id, Sites};
use crate::analyze::estimate::{Estimate, Sum};
use crate::units::{count, duration, percent};
use std::collections::BTreeMap;

/// The share of the wall time in launch calls from which on they are blocked and not only many.
const BLOCKED: f64 = 0.3;
/// A launch call that has to wait for nothing is shorter: 2 to 10 µs, ns.
const ORDINARY: u64 = 20_000;
/// The smallest share of the GPU's span in which kernels and graphs run if it is the bound.
const BUSY: f64 = 0.85;
/// The fewest launches that fill a stream's queue, which takes 1 020 operations (`launch_queue` in docs/hardware.md).
const QUEUE: u64 = 1_000;

/// Looks for it. It costs nothing: it tells where not to look.
pub fn find(facts: &Facts<'_>) -> Option<Claimed> {
    let is_launch = |api: &str| api.contains("LaunchKernel");
    let (api, calls) =
        facts.all.apis.iter().filter(|(api, _)| is_launch(api)).max_by_key(|(_, calls)| calls.total)?;
    let (wall, idle) = (facts.buckets.wall, facts.buckets.idle().value);
    // The calls are those of all processes.
    let walls = wall.saturating_mul(facts.gpus());
    let is_blocked = calls.total as f64 > BLOCKED * walls as f64 && calls.mean()? > ORDINARY as f64;
    let busy: u64 =
        [Bucket::Compute, Bucket::Graphs].map(|bucket| facts.buckets.get(bucket).value).iter().sum();
    let is_busy = busy > 0 && busy as f64 >= BUSY * facts.buckets.span() as f64;
    // Then they wait for their own kernels.
    let is_told_to_wait = facts.reports.iter().any(|report| report.process.launch_blocking);
    if !is_blocked || !is_busy || calls.count < QUEUE || is_told_to_wait {
        return None;
    }
    let text = format!(
        "{} calls of {api} took {} on average, the longest {}: {} of the wall time. The GPU was idle for {}.",
        count(calls.count),
        duration(calls.mean()? as u64),
        duration(calls.max()?),
        percent(calls.total, walls),
        percent(idle, wall)
    );
    let total = Sum { value: calls.total, lo: calls.total, hi: calls.total };
    Some(Claimed {
        finding: Finding {
            id: Id::QueueFull,
            title: "Launches wait for the GPU, which is the bound".to_owned(),
            evidence: Evidence {
                text,
                count: calls.count,
                total: Some(total),
                api: Some(api.clone()),
                source: facts.source_of_api(api),
                ..Evidence::default()
            },
            explanation: "A stream takes about a thousand operations; then the next launch waits until one is done. The \
                          host is ahead of the GPU, and its time in these calls is not lost."
                .to_owned(),
            fix: "Nothing on the host: faster launches, graphs or fewer waits gain no time. Make the kernels faster or \
                  fewer."
                .to_owned(),
            saves: Estimate::exactly(0),
        },
        claims: BTreeMap::new(),
        sites: Sites::new(),
    })
}
