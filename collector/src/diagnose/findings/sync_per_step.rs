//! `sync-per-step`: the host reads a result, or waits for a stream, again and again, and the GPU runs out of work.

use super::super::Facts;
use super::super::finding::{Claimed, Evidence, Finding, Id};
use super::super::framework::Advice;
use super::pageable_copies;
use super::waits::{Waits, is_device_wide};
use crate::analyze::copy_sites::{Copied, CopySite};
use crate::analyze::estimate::Estimate;
use crate::analyze::merge::Merge;
use crate::analyze::transfers::SizeClass;
use crate::model::framework::Framework;
use crate::model::transfer::TransferKind;
use crate::units::{duration, plural};

const FIX: Advice = Advice {
    pytorch: "Call .item() every 100 steps: add up loss.detach() on the GPU until then. Replace .cpu(), print(tensor), \
              bool(tensor) and indexing by a tensor's value in the step. Pinned memory does not help, because the wait \
              is what costs.",
    jax: "Do not read a value in every step: keep metrics as arrays and convert them (float(), np.asarray, \
          block_until_ready) every 100 steps.",
    cuda: "Do not wait in every step: read the value every 100 steps, or copy it asynchronously into page-locked \
           memory, record an event, and read it a step later. Let other streams wait with cudaStreamWaitEvent.",
};

/// Looks for it.
pub fn find(facts: &Facts<'_>) -> Option<Claimed> {
    let reads = || facts.all.copy_sites.iter().filter(|(site, _)| is_read(site));
    let of_copies = pageable_copies::own_wait(facts);
    let is_wait = |api: &str| {
        let is_sync = facts.all.syncs.contains_key(api) && !is_device_wide(api) && Some(api) != of_copies;
        is_sync || reads().any(|(site, _)| site.blocks && site.api == api)
    };
    let waits = Waits::of(facts, is_wait)?;
    let (site, api) = (waits.idle.main?, waits.api()?);
    let mut read = Copied::default();
    reads().for_each(|(_, copied)| read.merge(copied));
    let calls = facts.all.apis.get(api).map_or(waits.count, |calls| calls.count);
    let per_step = match facts.steps() {
        0 => String::new(),
        steps => format!(" ({:.1} per step)", calls as f64 / steps as f64),
    };
    let mut text = format!(
        "{} idle, behind {} of {api}{per_step}",
        duration(waits.idle.part.total.value),
        plural(calls, "call", "calls")
    );
    if read.count > 0 {
        text += &format!("; {} of at most 64 KiB to the host", plural(read.count, "copy", "copies"));
    }
    if let Some(range) = &site.range {
        text += &format!("; most of it in the NVTX range {range}");
    }
    let mut frameworks = facts.reports.iter().map(|report| report.process.framework);
    let is_pytorch = frameworks.all(|framework| framework == Framework::PyTorch);
    Some(Claimed {
        finding: Finding {
            id: Id::SyncPerStep,
            title: if is_pytorch && read.count >= calls / 2 {
                "The GPU idles after loss.item() or the like".to_owned()
            } else {
                format!("The GPU idles after {api}")
            },
            evidence: Evidence {
                text: text + ".",
                count: calls,
                total: Some(waits.idle.part.total),
                first: (read.count > 0).then_some(read.first),
                api: Some(api.to_owned()),
                kernel: None,
                source: waits.idle.source(),
                tid: site.tid,
            },
            explanation: "While the host waits it launches nothing, so the GPU's queue is empty when the wait is over, and \
                          the GPU is idle until the host has launched more."
                .to_owned(),
            fix: FIX.of(facts),
            saves: Estimate::exactly(0),
        },
        claims: waits.idle.claims,
        sites: waits.idle.sites,
    })
}

/// Whether copies read results: they bring little to the host.
fn is_read(site: &CopySite) -> bool {
    site.kind == TransferKind::DtoH && site.size <= SizeClass::UpTo64KiB
}
