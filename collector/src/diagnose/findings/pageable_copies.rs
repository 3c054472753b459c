//! `pageable-copies`: copies from or to ordinary memory, which the driver moves through a buffer of its own.

use super::super::Facts;
use super::super::buckets::Bucket;
use super::super::finding::{Claimed, Finding};
use super::super::framework::Advice;
use super::copies::{Found, Rate};
use super::idle::{Idle, times};
use crate::analyze::copy_sites::CopySite;
use crate::analyze::estimate::Estimate;
use crate::analyze::idle::Cause;
use crate::analyze::transfers::SizeClass;
use crate::model::transfer::{HostMemory, TransferKind};
use crate::units::{bytes, count, duration};

const FIX: Advice = Advice {
    pytorch: "Create the DataLoader with pin_memory=True and move batches with .to(device, non_blocking=True); for \
              tensors of your own, tensor.pin_memory() once.",
    jax: "Put batches on the device ahead of the step that uses them (jax.device_put in a prefetch of two batches), and \
          keep data that does not change on the device.",
    cuda: "Allocate the host side with cudaMallocHost (cuMemAllocHost), or register it once with cudaHostRegister, and \
           copy with cudaMemcpyAsync.",
};

/// What page-locked memory takes of the time of pageable memory if the trace has no copy to compare with: a half to a
/// quarter. NVIDIA measured 2.1 to 2.5 times the throughput ("How to Optimize Data Transfers in CUDA C/C++", 2012); on
/// newer buses the driver's own copying on the host limits pageable memory more.
const ASSUMED: [f64; 3] = [1.0 / 4.0, 1.0 / 3.0, 1.0 / 2.0];

/// Copies in fewer than one in so many steps are none of the steps'.
const RARE: u64 = 10;

/// Looks for it. Small copies are not counted: pinning does not make them faster.
pub fn find(facts: &Facts<'_>) -> Option<Claimed> {
    let is_pageable = |site: &CopySite| site.host_memory == HostMemory::Pageable && is_large(site);
    let found = Found::of(facts, is_pageable)?;
    // Of a model that is copied once, more steps make no more copies.
    if facts.buckets.around > 0 && found.all.count * RARE < facts.all.steps.count {
        return None;
    }
    let copies = |memory: HostMemory| {
        let sites = facts.all.copy_sites.iter();
        Rate::of(sites.filter(move |(site, _)| site.host_memory == memory && is_large(site)))
    };
    let (pageable, pinned) = (copies(HostMemory::Pageable), copies(HostMemory::Pinned));
    let [least, usual, most] = match pageable.zip(pinned) {
        Some((slow, fast)) => {
            let left = (slow.value / fast.value).min(1.0);
            let is_known = slow.is_known && fast.is_known;
            if is_known { [left; 3] } else { [left.min(ASSUMED[0]), left, left.max(ASSUMED[2])] }
        }
        None => ASSUMED,
    };
    let exposed = times(found.exposed, [1.0 - most, 1.0 - usual, 1.0 - least]);
    let mut claims = Idle::of(facts, |cause, site| {
        let waits = matches!(cause, Cause::Copying | Cause::ImplicitSync);
        waits && site.api.as_deref().is_some_and(|api| found.apis.contains(api))
    })
    .claims;
    claims.insert(Bucket::ExposedCopies, exposed);
    let (number, size) = (count(found.all.count), bytes(found.all.bytes));
    let speed = |rate: Option<Rate>| rate.map(|rate| format!("{:.1} GB/s", rate.value));
    let mut text = format!(
        "{number} copies of {size} in all from or to pageable memory: {} of the time only they ran on the GPU",
        duration(found.exposed.value)
    );
    if let Some(slow) = speed(pageable) {
        text += &format!(", at {slow}");
        text += &speed(pinned).map_or(String::new(), |fast| format!(" (from page-locked memory: {fast})"));
    }
    Some(Claimed {
        finding: Finding {
            id: "pageable-copies",
            title: format!("{} of pageable memory", found.main.api),
            evidence: found.evidence(text + "."),
            explanation: "The driver copies pageable memory through a buffer of its own, piece by piece, and the call \
                          returns only when that is done: the copy is slower, and the host cannot launch anything."
                .to_owned(),
            fix: FIX.of(facts),
            saves: Estimate::exactly(0),
        },
        claims,
    })
}

/// Whether copies are so large that their throughput decides how long they take, and between host and device.
fn is_large(site: &CopySite) -> bool {
    let is_between = matches!(site.kind, TransferKind::HtoD | TransferKind::DtoH);
    is_between && site.size > SizeClass::UpTo64KiB
}
