//! `no-overlap`: asynchronous copies of page-locked memory that could run beside kernels, and do not.

use super::super::Facts;
use super::super::buckets::Bucket;
use super::super::finding::{Claimed, Finding, Id, Sites};
use super::super::framework::Advice;
use super::copies::{Found, repeated};
use crate::analyze::copy_sites::{Copied, CopySite};
use crate::analyze::estimate::{Estimate, Sum};
use crate::analyze::transfers::SizeClass;
use crate::model::transfer::{HostMemory, TransferKind};
use crate::units::{bytes, duration, percent, plural};
use std::collections::BTreeMap;

const FIX: Advice = Advice {
    pytorch: "Copy the next batch on a stream of its own while this one is computed: with torch.cuda.stream(copy_stream) \
              around .to(device, non_blocking=True), copy_stream.wait_stream before its memory is used again, and \
              current_stream().wait_stream(copy_stream) before the batch is used.",
    jax: "Put the next batch on the device (jax.device_put) before the step that computes this one is waited for.",
    cuda: "Copy on a stream of its own into a second buffer, record an event behind the copy, and let the computing \
           stream wait for it (cudaStreamWaitEvent). Let the copy wait for no kernels but those that used its buffer last.",
};

const TURNS: &str = "The GPU can copy while it computes, but operations of one stream run one after the other: the kernels wait for the \
                     copies, and the copies for the kernels.";

/// If there are several streams: the copies may have one of their own already.
const LATE: &str = "The GPU can copy while it computes, but operations of one stream run one after the other, and a copy on another \
                    stream runs beside kernels only if it is launched before they end, and waits for no event that is behind them.";

/// The share of the copies' time that no kernel covers from which on they do not overlap.
const EXPOSED: f64 = 0.8;

/// The fewest copies that are a habit of the program: of one to the GPU and one back, there is no next batch to copy meanwhile.
const HABIT: u64 = 3;

/// Looks for it. At best all copies are hidden behind kernels, as far as those last; at worst the program needs each
/// copy at once.
pub fn find(facts: &Facts<'_>) -> Option<Claimed> {
    let found = Found::of(facts, could_overlap).filter(|found| found.all.count >= HABIT)?;
    let each = found.all.time.value.checked_div(found.all.timed)?;
    let time = each.saturating_mul(found.all.count);
    // What passed while no kernel ran is of one GPU, and of the whole run: so is this.
    let of_gpu = time / facts.gpus();
    let compute = facts.buckets.get(Bucket::Compute).value;
    if (found.exposed.value as f64) < EXPOSED * of_gpu as f64 || compute == 0 {
        return None;
    }
    let streams =
        facts.buckets.device.and_then(|at| facts.all.devices.get(at)).map_or(0, |device| device.streams);
    let on_one = if streams == 1 { " All work of the GPU is on one stream." } else { "" };
    let text = format!(
        "{} of the {} of {} of {} in all from or to page-locked memory passed while no kernel ran.{on_one}",
        percent(found.exposed.value.min(of_gpu), of_gpu),
        duration(time),
        plural(found.all.count, "asynchronous copy", "asynchronous copies"),
        bytes(found.all.bytes)
    );
    // What need not be copied again need not overlap.
    let value = found.exposed.value.saturating_sub(repeated(facts).value).min(compute);
    let hi = found.exposed.hi.min(compute).min(most(facts, &found.all));
    // Those without a GPU time ran when it is not known what ran, as exposed as the others, unless what is exposed has their time.
    let unseen = time.saturating_sub(found.all.time.value) / facts.gpus();
    let left = of_gpu.saturating_sub(found.exposed.value);
    let unseen = unseen.min(left).min(facts.buckets.get(Bucket::Undecided).value);
    Some(Claimed {
        finding: Finding {
            id: Id::NoOverlap,
            title: "Copies and kernels take turns".to_owned(),
            evidence: found.evidence(text),
            explanation: if streams == 1 { TURNS } else { LATE }.to_owned(),
            fix: FIX.of(facts),
            saves: Estimate::exactly(0),
        },
        claims: BTreeMap::from([
            (Bucket::ExposedCopies, Sum { value, lo: 0, hi: hi.max(value) }),
            (Bucket::Undecided, Sum { value: unseen, lo: 0, hi: unseen }),
        ]),
        sites: Sites::new(),
    })
}

/// Returns the most time that the copies can have taken, whatever else may have run when only copies did, ns.
fn most(facts: &Facts<'_>, all: &Copied) -> u64 {
    if all.timed == all.count {
        return all.time.hi;
    }
    let kinds = [TransferKind::HtoD, TransferKind::DtoH].map(|kind| (kind, HostMemory::Pinned));
    let of_kinds = kinds.iter().filter_map(|kind| facts.all.transfers.get(kind));
    of_kinds.fold(0, |sum: u64, all| sum.saturating_add(all.total().map_or(u64::MAX, |total| total.hi)))
}

fn could_overlap(site: &CopySite) -> bool {
    let is_between = matches!(site.kind, TransferKind::HtoD | TransferKind::DtoH);
    is_between && site.host_memory == HostMemory::Pinned && !site.blocks && site.size > SizeClass::UpTo64KiB
}
