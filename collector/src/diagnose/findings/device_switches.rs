//! `device-switches`: one thread serves several GPUs by turns, operation by operation.
//!
//! The calls that make a context current are not observed, so no gain is promised: the evidence has the time between the
//! operations around a switch.

use super::super::Facts;
use super::super::finding::{Claimed, Evidence, Finding, Id, Sites};
use super::super::framework::Advice;
use crate::analyze::estimate::Estimate;
use crate::analyze::quantile::Quantiles;
use crate::units::{count, duration};
use std::collections::BTreeMap;

const FIX: Advice = Advice {
    pytorch: "Give each GPU a process of its own: torch.nn.parallel.DistributedDataParallel in place of DataParallel. In one \
              process, issue all work of one GPU before that of the next, under one torch.cuda.device block.",
    jax: "Run the step under jax.jit over a sharded array, which launches on all devices from threads of the runtime, or one \
          process for each GPU.",
    cuda: "Give each GPU a thread of its own, which calls cudaSetDevice once; or issue all work of one GPU before that of the \
           next.",
};

/// The fewest switches in a second of the thread. CUDA's documentation calls cudaSetDevice cheap once the context exists;
/// with the framework's part a switch takes microseconds, which is below a percent at lower rates.
const OFTEN: u64 = 1_000;
/// At most how many operations there are for each switch: with more, the thread serves one GPU after the other.
const OPERATIONS: u64 = 8;

/// Looks for it.
pub fn find(facts: &Facts<'_>) -> Option<Claimed> {
    let switches = &facts.all.device_switches;
    // The changes of several threads and processes are added, and their times are not.
    let rate = u128::from(switches.most.0) * 1_000_000_000 / u128::from(switches.span.max(1));
    let is_by_turns = switches.count.saturating_mul(OPERATIONS) >= switches.count + switches.others;
    // A thread that issues all work of a step to one GPU before that to the next one changes once for each of them.
    let least = switches.gpus.saturating_mul(facts.steps());
    if rate < u128::from(OFTEN) || !is_by_turns || switches.count <= least {
        return None;
    }
    // What the program waits for between two steps is no cost of a change.
    let median = |of: &Quantiles| duration(of.median().map_or(0, |median| median.value));
    let text = format!(
        "{} of {} operations went to another GPU than the one before of the same thread; between the two calls, {} passed \
         in the median, and {} between two calls for one GPU.",
        count(switches.count),
        count(switches.count + switches.others),
        median(&switches.outside),
        median(&switches.others_outside)
    );
    Some(Claimed {
        finding: Finding {
            id: Id::DeviceSwitches,
            title: "A thread changes from GPU to GPU".to_owned(),
            evidence: Evidence {
                text,
                count: switches.count,
                first: Some(switches.first),
                tid: switches.most.1,
                source: switches.lines.source(),
                ..Evidence::default()
            },
            explanation: "Each change makes another context current, and while the thread serves one GPU, the others get no \
                          work. How much time that takes cannot be seen, so none is promised."
                .to_owned(),
            fix: FIX.of(facts),
            saves: Estimate::exactly(0),
        },
        claims: BTreeMap::new(),
        sites: Sites::new(),
    })
}
