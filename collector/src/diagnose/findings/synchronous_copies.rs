//! `synchronous-copies`: copies and memsets whose calls return only when they are done, though nothing forces that.

use super::super::Facts;
use super::super::finding::{Claimed, Finding, Id};
use super::super::framework::Advice;
use super::copies::Found;
use super::waits::{Waits, in_series};
use crate::analyze::copy_sites::CopySite;
use crate::analyze::estimate::Estimate;
use crate::analyze::idle::HABIT;
use crate::analyze::transfers::SizeClass;
use crate::model::transfer::{HostMemory, TransferKind};
use crate::units::{bytes, duration, plural};

const FIX: Advice = Advice {
    pytorch: "Copy with non_blocking=True (tensor.to(device, non_blocking=True), tensor.copy_(source, non_blocking=True)); \
              the source is page-locked already.",
    jax: "The call is made by a library: look at the one that is named here.",
    cuda: "Use cudaMemcpyAsync and cudaMemsetAsync on the stream that needs the data: the host goes on, and the stream \
           keeps the order.",
};

/// Looks for it. Copies of pageable memory are `pageable-copies`, and small ones to the host read results:
/// `sync-per-step`.
pub fn find(facts: &Facts<'_>) -> Option<Claimed> {
    let found = Found::of(facts, is_needless).filter(|found| found.all.count >= HABIT)?;
    let mut waits = Waits::of(facts, |api| found.apis.contains(api))?;
    // The waits are known by API: those of copies that have to wait are in the same one.
    let is_blocking =
        |site: &CopySite| site.blocks && !site.sets_up && found.apis.contains(site.api.as_str());
    let blocking = facts.all.copy_sites.iter().filter(|(site, _)| is_blocking(site));
    waits.idle.reduce(found.all.count, blocking.map(|(_, copied)| copied.count).sum());
    let text = format!(
        "{} idle behind {} of {} in all, each of which the host waited for.",
        duration(waits.idle.part.total.value),
        plural(found.all.count, "copy or memset", "copies and memsets"),
        bytes(found.all.bytes)
    );
    let claimed = Claimed {
        finding: Finding {
            id: Id::SynchronousCopies,
            title: format!("{} waits for the GPU", found.main.api),
            evidence: found.evidence(text),
            explanation: "The call returns only when the GPU has done everything before it and the copy itself. The host \
                          launches nothing meanwhile, so the GPU has no work afterwards."
                .to_owned(),
            fix: FIX.of(facts),
            saves: Estimate::exactly(0),
        },
        claims: waits.idle.claims,
        sites: waits.idle.sites,
    };
    Some(in_series(facts, |api| found.apis.contains(api), claimed))
}

fn is_needless(site: &CopySite) -> bool {
    let is_read = site.kind == TransferKind::DtoH && site.size <= SizeClass::UpTo64KiB;
    site.blocks && !site.sets_up && site.host_memory != HostMemory::Pageable && !is_read
}
