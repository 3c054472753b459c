//! `pageable-copies`: copies from or to ordinary memory, which the driver moves through a buffer of its own.

use super::super::Facts;
use super::super::buckets::Bucket;
use super::super::finding::{Claimed, Finding, Id};
use super::super::framework::Advice;
use super::copies::{Found, Rate, whole};
use super::idle::{Idle, times};
use super::waits::in_series;
use crate::analyze::copy_sites::{Copied, CopySite};
use crate::analyze::estimate::{Estimate, Sum};
use crate::analyze::idle::{Cause, Site};
use crate::analyze::transfers::SizeClass;
use crate::model::framework::Framework;
use crate::model::transfer::{HostMemory, TransferKind};
use crate::units::{bytes, duration, plural};
use std::collections::BTreeMap;

const FIX: Advice = Advice {
    pytorch: "Create the DataLoader with pin_memory=True and move batches with .to(device, non_blocking=True); for \
              tensors of your own, tensor.pin_memory() once.",
    jax: "Put batches on the device ahead of the step that uses them (jax.device_put in a prefetch of two batches), and \
          keep data that does not change on the device.",
    cuda: "Allocate the host side with cudaMallocHost (cuMemAllocHost), or register it once with cudaHostRegister, and \
           copy with cudaMemcpyAsync.",
};

/// If most of the time is that of copies to the host: results, or a checkpoint.
const TO_HOST: Advice = Advice {
    pytorch: "Copy into pinned memory with non_blocking=True, let an event (torch.cuda.Event) say when it is there, and save it in \
              another thread; torch.distributed.checkpoint.async_save does that for checkpoints.",
    jax: "Start the copies ahead (copy_to_host_async) and read them a step later; Orbax saves checkpoints in another thread \
          (AsyncCheckpointer).",
    ..FIX
};

/// If all work of the GPU is on one stream: from page-locked memory, copies can run beside kernels.
const TURNS: Advice = Advice { pytorch: NEXT, jax: "", cuda: NEXT };
const NEXT: &str = " Then copy the next batch on a stream of its own while this one is computed: on one stream, copies and kernels \
                    take turns.";

/// What page-locked memory takes of the time of pageable memory if the trace has no copy to compare with: a half to a
/// quarter. NVIDIA measured 2.1 to 2.5 times the throughput ("How to Optimize Data Transfers in CUDA C/C++", 2012); on
/// newer buses the driver's own copying on the host limits pageable memory more.
const ASSUMED: [f64; 3] = [1.0 / 4.0, 1.0 / 3.0, 1.0 / 2.0];

/// Copies in fewer than one in so many steps are none of the steps'.
const RARE: u64 = 10;

/// The fewest copies that are a habit of the program: to page-lock memory takes about as long as to copy it once.
const HABIT: u64 = 10;

/// Looks for it. Small copies are not counted: pinning does not make them faster.
///
/// Pinning removes the driver's own copying and the host's wait for it, but the transfer stays. So it gains the time in which
/// only these copies ran, or the GPU was idle in their calls, without what the same bytes take from page-locked memory.
pub fn find(facts: &Facts<'_>) -> Option<Claimed> {
    let is_pageable =
        |site: &CopySite| site.host_memory == HostMemory::Pageable && is_large(site) && !site.sets_up;
    let found = Found::of(facts, is_pageable).filter(|found| found.all.count >= HABIT)?;
    // Of a model that is copied once, more steps make no more copies.
    if facts.buckets.around > 0 && found.all.count * RARE < facts.steps() {
        return None;
    }
    let is_in_copy = |cause: Cause, site: &Site| {
        let waits = matches!(cause, Cause::Copying | Cause::ImplicitSync);
        waits && site.api.as_deref().is_some_and(|api| found.apis.contains(api))
    };
    let idle = Idle::of(facts, is_in_copy);
    let waited = idle.claims.values().map(|claim| claim.value).sum();
    // The copies are those of all GPUs, and the claims those of one.
    let [least, usual, most] = left(facts, facts.gpus().saturating_mul(waited));
    let (mut claims, mut of_sites) = (idle.claims, idle.sites);
    claims.insert(Bucket::ExposedCopies, found.exposed);
    claims.values_mut().for_each(|sum| *sum = times(*sum, [1.0 - most, 1.0 - usual, 1.0 - least]));
    // A copy may have run, or the GPU may have been idle, for as long as its call took, but not both.
    let longest = found.all.time.hi.checked_div(found.all.timed).unwrap_or(0).saturating_mul(found.all.count);
    bound(&mut claims, (longest as f64 * (1.0 - least)) as u64 / facts.gpus());
    let own_wait = own_wait(facts);
    let is_own = |api: Option<&str>| api.is_some() && api == own_wait;
    // What the copies themselves waited for empties the GPU's queue, too.
    let is_owed = |api: Option<&str>| is_own(api) || api.is_some_and(|api| found.apis.contains(api));
    let owed = Idle::of(facts, |cause, site| {
        let is_own_wait = || cause == Cause::ExplicitSync && is_own(site.api.as_deref());
        !is_in_copy(cause, site) && (is_owed(facts.owed_to(cause, site)) || is_own_wait())
    });
    // Where the host needs at once what it reads, it waits for that all the same.
    let reads = sites(facts, HostMemory::Pageable, TransferKind::DtoH).next().is_some();
    owed.claims.into_iter().for_each(|(bucket, claim)| {
        let lo = if reads { 0 } else { claim.lo };
        claims.entry(bucket).or_default().add(Sum { lo, ..claim });
    });
    of_sites.extend(owed.sites);
    let main = found.main.kind;
    let (pageable, pinned) = (rate(facts, HostMemory::Pageable, main), rate(facts, HostMemory::Pinned, main));
    let (number, size) = (plural(found.all.count, "copy", "copies"), bytes(found.all.bytes));
    let speed = |rate: Option<Rate>| rate.map(|rate| format!("{:.1} GB/s", rate.value));
    let mut text = format!(
        "{number} of {size} in all from or to pageable memory: {} of the time only they ran on the GPU",
        duration(found.exposed.value)
    );
    if let Some(slow) = speed(pageable) {
        text += &format!(", at {slow}");
        text += &speed(pinned).map_or(String::new(), |fast| format!(" (from page-locked memory: {fast})"));
    }
    let claimed = Claimed {
        finding: Finding {
            id: Id::PageableCopies,
            title: format!("{} of pageable memory", found.main.api),
            evidence: found.evidence(text + "."),
            explanation: "The driver copies pageable memory through a buffer of its own, piece by piece, and the call \
                          returns only when that is done: the copy is slower, and the host cannot launch anything."
                .to_owned(),
            fix: match main {
                TransferKind::DtoH => TO_HOST.of(facts),
                _ if is_on_one_stream(facts) => FIX.of(facts) + &TURNS.of(facts),
                _ => FIX.of(facts),
            },
            saves: Estimate::exactly(0),
        },
        claims,
        sites: of_sites,
    };
    Some(in_series(facts, |api| found.apis.contains(api), claimed))
}

/// Returns the call in which PyTorch waits after each copy of pageable memory, if most of those calls are for that: from
/// page-locked memory, `non_blocking=True` leaves it out. PyTorch waits for its stream unless a copy is non-blocking
/// (`aten/src/ATen/native/cuda/Copy.cu`).
pub fn own_wait(facts: &Facts<'_>) -> Option<&'static str> {
    const WAIT: &str = "cudaStreamSynchronize";
    let is_pytorch = facts.reports.iter().all(|report| report.process.framework == Framework::PyTorch);
    let calls = facts.all.syncs.get(WAIT).map_or(0, |calls| calls.count);
    let sites = facts.all.copy_sites.iter();
    let large = sites.filter(|(site, _)| site.host_memory == HostMemory::Pageable && is_large(site));
    let copies: u64 = large.map(|(_, copied)| copied.count).sum();
    (is_pytorch && copies > 0 && 2 * copies >= calls).then_some(WAIT)
}

/// Whether all work of the GPU is on one stream, with kernels that copies could run beside.
fn is_on_one_stream(facts: &Facts<'_>) -> bool {
    let device = facts.buckets.device.and_then(|at| facts.all.devices.get(at));
    device.is_some_and(|device| device.streams == 1) && facts.buckets.get(Bucket::Compute).value > 0
}

/// Lowers the upper bounds of claims to at most `most` ns in all, but to no less than their values.
fn bound(claims: &mut BTreeMap<Bucket, Sum>, most: u64) {
    let all = |of: fn(&Sum) -> u64| claims.values().map(of).fold(0, u64::saturating_add);
    let (value, hi) = (all(|claim| claim.value), all(|claim| claim.hi));
    let share = most.saturating_sub(value) as f64 / hi.saturating_sub(value).max(1) as f64;
    claims.values_mut().for_each(|claim| {
        let more = claim.hi.saturating_sub(claim.value) as f64 * share.min(1.0);
        claim.hi = claim.value.saturating_add(more as u64);
    });
}

/// Returns what is left of the time of the copies, and of `idle` ns in their calls, if the memory is page-locked: the least,
/// the best and the most share. A direction is compared with page-locked copies of the same direction, if there are any.
fn left(facts: &Facts<'_>, idle: u64) -> [f64; 3] {
    let took = |kind| sites(facts, HostMemory::Pageable, kind).map(|(_, copied)| whole(copied)).sum();
    let directions = [TransferKind::HtoD, TransferKind::DtoH].map(|kind| (kind, took(kind)));
    let all = directions.iter().fold(0u64, |sum, (_, ns)| sum.saturating_add(*ns)).max(1) as f64;
    let mut left = [0.0; 3];
    for (kind, ns) in directions {
        // A direction's part of the idle time is as large as its part of the copies' time.
        let (part, with_idle) = (ns as f64 / all, (ns as f64 * (1.0 + idle as f64 / all)).max(1.0));
        let rates = rate(facts, HostMemory::Pageable, kind).zip(rate(facts, HostMemory::Pinned, kind));
        let shares = match rates {
            Some((slow, fast)) => {
                let usual = (ns as f64 * slow.value / fast.value / with_idle).min(1.0);
                let is_known = slow.is_known && fast.is_known;
                if is_known { [usual; 3] } else { [usual.min(ASSUMED[0]), usual, usual.max(ASSUMED[2])] }
            }
            None => ASSUMED,
        };
        left.iter_mut().zip(shares).for_each(|(left, share)| *left += part * share);
    }
    left.map(|share: f64| share.min(1.0))
}

/// Returns the throughput of large copies of one direction.
fn rate(facts: &Facts<'_>, memory: HostMemory, kind: TransferKind) -> Option<Rate> {
    Rate::of(sites(facts, memory, kind))
}

fn sites<'a>(
    facts: &Facts<'a>,
    memory: HostMemory,
    kind: TransferKind,
) -> impl Iterator<Item = (&'a CopySite, &'a Copied)> {
    let is_meant = move |site: &CopySite| site.host_memory == memory && is_large(site) && site.kind == kind;
    facts.all.copy_sites.iter().filter(move |(site, _)| is_meant(site))
}

/// Whether copies are so large that their throughput decides how long they take, and between host and device.
fn is_large(site: &CopySite) -> bool {
    let is_between = matches!(site.kind, TransferKind::HtoD | TransferKind::DtoH);
    is_between && site.size > SizeClass::UpTo64KiB
}
