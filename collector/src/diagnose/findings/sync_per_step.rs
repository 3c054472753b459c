//! `sync-per-step`: the host reads a result, or waits for a stream, again and again, and the GPU runs out of work.

use super::super::Facts;
use super::super::finding::{Claimed, Evidence, Finding, Id};
use super::super::framework::{Advice, only_infers};
use super::pageable_copies;
use super::waits::{Waits, is_device_wide, is_query};
use crate::analyze::copy_sites::{Copied, CopySite};
use crate::analyze::estimate::Estimate;
use crate::analyze::merge::Merge;
use crate::analyze::transfers::SizeClass;
use crate::model::framework::Framework;
use crate::model::transfer::{HostMemory, TransferKind};
use crate::units::{duration, plural};

const FIX: Advice = Advice {
    pytorch: "Call .item() every 100 steps: add up loss.detach() on the GPU until then. Replace .cpu(), print(tensor), \
              bool(tensor) and indexing by a tensor's value in the step. Pinned memory does not help here, because the wait \
              is what costs.",
    jax: "Do not read a value in every step: keep metrics as arrays and convert them (float(), np.asarray, \
          block_until_ready) every 100 steps.",
    cuda: "Do not wait in every step: read the value every 100 steps, or copy it asynchronously into page-locked \
           memory, record an event, and read it a step later. Let other streams wait with cudaStreamWaitEvent.",
};

/// If nothing trains.
const READS: Advice = Advice {
    pytorch: "Read the results of several batches at once, or copy them with .to('cpu', non_blocking=True) into pinned memory and \
              use them a batch later, behind an event (torch.cuda.Event): .cpu(), .item() and bool(tensor) wait for the GPU. A \
              server needs two batches in flight for that.",
    ..FIX
};

/// If PyTorch waits for copies to the GPU, from memory that is not page-locked.
const UPLOADS: Advice = Advice {
    pytorch: "Move batches with .to(device, non_blocking=True) from pinned memory (DataLoader(pin_memory=True), or \
              tensor.pin_memory()): .to(), .cuda() and copy_() of other memory wait for the GPU, however little they copy. Create \
              constants on the GPU (device=...), once.",
    ..FIX
};

/// Looks for it.
pub fn find(facts: &Facts<'_>) -> Option<Claimed> {
    let reads = || facts.all.copy_sites.iter().filter(|(site, _)| is_read(site));
    let of_copies = pageable_copies::own_wait(facts);
    let is_wait = |api: &str| {
        let is_sync = facts.all.syncs.contains_key(api) && !is_device_wide(api) && Some(api) != of_copies;
        is_sync || is_query(api) || reads().any(|(site, _)| site.blocks && site.api == api)
    };
    let waits = Waits::of(facts, is_wait)?;
    let (site, api, named) = (waits.idle.main?, waits.api?, waits.named()?);
    let mut read = Copied::default();
    reads().for_each(|(_, copied)| read.merge(copied));
    let count = waits.count;
    let per_step = match facts.steps() {
        0 => String::new(),
        steps => format!(" ({:.1} per step)", count as f64 / steps as f64),
    };
    let mut text = format!(
        "{} idle, behind {} in {named}{per_step}",
        duration(waits.idle.part.total.value),
        plural(count, "wait", "waits")
    );
    if read.count > 0 {
        text += &format!("; {} of at most 64 KiB to the host", plural(read.count, "copy", "copies"));
    }
    if let Some(range) = &site.range {
        text += &format!("; most of it in the NVTX range {range}");
    }
    let (title, fix) = match what(facts, count, read.count) {
        What::Reads => ("The GPU idles after loss.item() or the like".to_owned(), FIX),
        What::ReadsOfInference => ("The GPU idles after .cpu(), .item() or the like".to_owned(), READS),
        What::Uploads => ("The GPU idles after tensor.to(device) or the like".to_owned(), UPLOADS),
        What::Other => (format!("The GPU idles after {named}"), FIX),
    };
    Some(Claimed {
        finding: Finding {
            id: Id::SyncPerStep,
            title,
            evidence: Evidence {
                text: text + ".",
                count,
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
            fix: fix.of(facts),
            saves: Estimate::exactly(0),
        },
        claims: waits.idle.claims,
        sites: waits.idle.sites,
    })
}

/// What most of the waits are for, in the words of the framework.
enum What {
    /// A program that trains reads results.
    Reads,
    /// One that does not.
    ReadsOfInference,
    /// PyTorch copies to the GPU.
    Uploads,
    /// Anything else.
    Other,
}

/// Returns what most of `waits` are for, if `reads` copies read results.
fn what(facts: &Facts<'_>, waits: u64, reads: u64) -> What {
    let mut frameworks = facts.reports.iter().map(|report| report.process.framework);
    let is_pytorch = frameworks.all(|framework| framework == Framework::PyTorch);
    let is_upload =
        |site: &CopySite| site.kind == TransferKind::HtoD && site.host_memory == HostMemory::Pageable;
    let uploads = facts.all.copy_sites.iter().filter(|(site, _)| is_upload(site));
    let uploads = uploads.fold(0u64, |sum, (_, copied)| sum.saturating_add(copied.count));
    let is_most = |count: u64| count.saturating_mul(2) >= waits;
    match () {
        () if !is_pytorch => What::Other,
        () if is_most(reads) && only_infers(facts) => What::ReadsOfInference,
        () if is_most(reads) => What::Reads,
        () if is_most(uploads) => What::Uploads,
        () => What::Other,
    }
}

/// Whether copies read results: they bring little to the host.
fn is_read(site: &CopySite) -> bool {
    site.kind == TransferKind::DtoH && site.size <= SizeClass::UpTo64KiB
}
