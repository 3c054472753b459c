//! `device-wide-sync`: the host waits for everything on the GPU, again and again.

use super::super::Facts;
use super::super::finding::{Claimed, Evidence, Finding, Id};
use super::super::framework::Advice;
use super::waits::{Waits, in_series, is_device_wide};
use crate::analyze::estimate::Estimate;
use crate::units::{count, duration, plural};

const FIX: Advice = Advice {
    pytorch: "Remove torch.cuda.synchronize() from the step. To measure time, record torch.cuda.Event(enable_timing=True) \
              and read the events every 100 steps.",
    jax: "Remove block_until_ready() from the step; to measure time, wait once after many steps.",
    cuda: "Remove the wait for the whole GPU from the step. Where the host needs a result, wait for an event behind it \
           (cudaEventSynchronize); where another stream needs it, use cudaStreamWaitEvent. To find errors while \
           debugging, use CUDA_LAUNCH_BLOCKING=1 or compute-sanitizer and not a call in the code.",
};

/// Looks for it.
pub fn find(facts: &Facts<'_>) -> Option<Claimed> {
    let waits = Waits::of(facts, is_device_wide)?;
    let (site, api, named) = (waits.idle.main?, waits.api?, waits.named()?);
    let calls = facts.all.syncs.iter().filter(|(api, _)| is_device_wide(api)).map(|(_, calls)| calls);
    let (calls, in_them) =
        calls.fold((0, 0u64), |(count, ns), calls| (count + calls.count, ns.saturating_add(calls.total)));
    let text = format!(
        "{} idle, behind {} of {} of {named}, in which the host was for {}.",
        duration(waits.idle.part.total.value),
        count(waits.count),
        plural(calls, "call", "calls"),
        duration(in_them)
    );
    let claimed = Claimed {
        finding: Finding {
            id: Id::DeviceWideSync,
            title: format!("The GPU idles after {named}"),
            evidence: Evidence {
                text,
                count: calls,
                total: Some(waits.idle.part.total),
                first: None,
                api: Some(api.to_owned()),
                kernel: None,
                source: waits.idle.source(),
                tid: site.tid,
            },
            explanation: "It waits for all streams of the GPU. The host launches nothing meanwhile, so all of them are \
                          empty when the wait is over, and the GPU is idle until the host has launched more."
                .to_owned(),
            fix: FIX.of(facts),
            saves: Estimate::exactly(0),
        },
        claims: waits.idle.claims,
        sites: waits.idle.sites,
    };
    Some(in_series(facts, is_device_wide, claimed))
}
