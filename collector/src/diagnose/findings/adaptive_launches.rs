//! `adaptive-launches`: the program asks for a kernel's occupancy again and again to choose how to launch it.

use super::super::Facts;
use super::super::finding::{Claimed, Evidence, Finding, Id};
use super::idle::Idle;
use crate::analyze::calls::HostTimes;
use crate::analyze::estimate::{Estimate, Sum};
use crate::analyze::idle::Cause;
use crate::analyze::merge::Merge;
use crate::units::{duration, plural};

/// How many launches there are at most for each query.
const OFTEN: u64 = 4;

/// Looks for it.
pub fn find(facts: &Facts<'_>) -> Option<Claimed> {
    let queries = || facts.all.apis.iter().filter(|(api, _)| is_query(api));
    let (api, _) = queries().max_by_key(|(_, calls)| calls.total)?;
    let mut all = HostTimes::default();
    queries().for_each(|(_, calls)| all.merge(calls));
    let launches: u64 = facts.all.kernels.iter().map(|kernel| kernel.count).sum();
    if all.count.saturating_mul(OFTEN) < launches {
        return None;
    }
    let idle =
        Idle::of(facts, |cause, site| cause == Cause::OtherCall && site.api.as_deref().is_some_and(is_query));
    let site = idle.main?;
    let text = format!(
        "{} idle, in {} of {api} and similar for {}, which took {} of the host's time.",
        duration(idle.part.total.value),
        plural(all.count, "call", "calls"),
        plural(launches, "launch", "launches"),
        duration(all.total)
    );
    let total = Sum { value: all.total, lo: all.total, hi: all.total };
    Some(Claimed {
        finding: Finding {
            id: Id::AdaptiveLaunches,
            title: "The occupancy is asked for before launches".to_owned(),
            evidence: Evidence {
                text,
                count: all.count,
                total: Some(total),
                api: Some(api.clone()),
                source: idle.source(),
                tid: site.tid,
                ..Evidence::default()
            },
            explanation: "The answer depends only on the kernel, the block's size and its shared memory, so it is the same \
                          each time."
                .to_owned(),
            fix: "Ask once for each kernel and block size, and keep the answer.".to_owned(),
            saves: Estimate::exactly(0),
        },
        claims: idle.claims,
        sites: idle.sites,
    })
}

fn is_query(api: &str) -> bool {
    api.starts_with("cuOccupancy") || api.starts_with("cudaOccupancy")
}
