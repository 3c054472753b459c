//! `sync-per-step`: the host reads a result, or waits for a stream, again and again, and the GPU runs out of work.

use super::super::Facts;
use super::super::finding::{Claimed, Evidence, Finding, Id};
use super::super::framework::{Advice, only_infers};
use super::waits::{Waits, in_series, is_device_wide, is_in_wait, is_of_allocator, is_query};
use super::{other_ranks, pageable_copies};
use crate::analyze::copy_sites::{Copied, CopySite};
use crate::analyze::estimate::Estimate;
use crate::analyze::idle::Wait;
use crate::analyze::merge::Merge;
use crate::analyze::transfers::SizeClass;
use crate::model::framework::Framework;
use crate::model::stacks::Frame;
use crate::model::steps::is_optimizer;
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

/// If PyTorch waits for the number of elements that a mask selects.
const SELECTS: Advice = Advice {
    pytorch: "Do not select by a mask in the step: multiply by the mask (or weight the loss with it), or use torch.where, so that the \
              shapes stay the same. For nonzero() and indexing by a mask the host has to know how many elements there are, and \
              waits for the GPU; torch.nonzero_static(size=...) does not.",
    ..FIX
};

/// If PyTorch waits for an event or a stream, and no copy is what it waits for.
const EVENTS: Advice = Advice {
    pytorch: "Wait less often: read the times of events (elapsed_time) every 100 steps or after the loop, from a pair of events for \
              each step, and not behind an Event.synchronize() in each of them. Let a stream wait for another one with \
              Stream.wait_event() or wait_stream(), which do not hold up the host.",
    ..FIX
};

/// If PyTorch's scaler of mixed precision reads whether a gradient is infinite.
const SCALES: Advice = Advice {
    pytorch: "Give the optimizer fused=True (torch.optim.AdamW(..., fused=True)): it checks on the GPU whether a gradient is infinite, \
              and GradScaler.step() need not read that. Or train in bfloat16, which needs no GradScaler.",
    ..FIX
};

/// If the program asks for events or streams in a loop.
const QUERIES: Advice = Advice {
    pytorch: "Do not ask in a loop whether the GPU is ready (Event.query(), Stream.query()): that holds up the host as a wait does. \
              Launch the next step first, and use what an event stands for a step later; or let a stream wait for it with \
              Stream.wait_event(), which does not hold up the host.",
    cuda: "Do not ask in a loop whether the GPU is ready: that holds up the host as a wait does, and a sleep between two queries \
           ends after the GPU has. Launch the next step first, and use what an event stands for a step later; or let other streams \
           wait with cudaStreamWaitEvent. Where the host has to wait, cudaEventSynchronize returns as soon as the GPU is done.",
    ..FIX
};

/// If PyTorch waits in an operator, which reads nothing that the program sees.
const OPERATORS: Advice = Advice {
    pytorch: "Leave out of the step what needs a size or a value on the host, and waits for it: sparse gradients (coalesce(); \
              nn.Embedding(sparse=False) has dense ones), unique(), nonzero() and other operators whose results have a size that \
              depends on the data.",
    ..FIX
};

/// Looks for it.
pub fn find(facts: &Facts<'_>) -> Option<Claimed> {
    let reads = || facts.all.copy_sites.iter().filter(|(site, _)| is_read(site));
    let of_copies = pageable_copies::own_wait(facts);
    let is_wait = |api: &str| {
        let is_sync = facts.all.syncs.contains_key(api) && !is_device_wide(api) && Some(api) != of_copies;
        is_sync || asks(facts, api) || reads().any(|(site, _)| site.blocks && site.api == api)
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
    let (title, fix) = match what(facts, &waits, (api, read.count)) {
        What::Reads => ("The GPU idles after loss.item() or the like".to_owned(), FIX),
        What::ReadsOfInference => ("The GPU idles after .cpu(), .item() or the like".to_owned(), READS),
        What::Selects => {
            ("The GPU idles after indexing by a mask, nonzero() or the like".to_owned(), SELECTS)
        }
        What::Uploads => ("The GPU idles after tensor.to(device) or the like".to_owned(), UPLOADS),
        What::Scales => ("The GPU idles after GradScaler.step()".to_owned(), SCALES),
        What::Event(call) => (format!("The GPU idles after {call}"), EVENTS),
        What::Asks => (format!("The GPU idles after {named}"), QUERIES),
        What::Operator => ("The GPU idles after an operator that waits for it".to_owned(), OPERATORS),
        What::Other => (format!("The GPU idles after {named}"), FIX),
    };
    let claimed = Claimed {
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
    };
    Some(other_ranks::may_be_waited_for(facts, in_series(facts, is_wait, claimed)))
}

/// What most of the waits are for, in the words of the framework.
enum What {
    /// A program that trains reads results.
    Reads,
    /// One that does not.
    ReadsOfInference,
    /// PyTorch reads how many elements are selected.
    Selects,
    /// PyTorch copies to the GPU.
    Uploads,
    /// PyTorch's scaler of mixed precision reads whether a gradient is infinite.
    Scales,
    /// The program waits for an event or a stream in this call of PyTorch, and for no copy.
    Event(&'static str),
    /// It asks for an event or a stream again and again.
    Asks,
    /// An operator of PyTorch waits.
    Operator,
    /// Anything else.
    Other,
}

/// Returns what most of the waits in `api` are for. Where their line is known, its copies say that, and else those of all lines, of which
/// `reads` read results.
fn what(facts: &Facts<'_>, waits: &Waits<'_>, (api, reads): (&str, u64)) -> What {
    let mut frameworks = facts.reports.iter().map(|report| report.process.framework);
    if !frameworks.all(|framework| framework == Framework::PyTorch) {
        return if is_query(api) { What::Asks } else { What::Other };
    }
    let line = waits.idle.source().line;
    let copies = |is_one: fn(&CopySite) -> bool| {
        let is_there = |site: &CopySite| line.is_none() || site.source.line == line;
        let of =
            facts.all.copy_sites.iter().filter(|(site, _)| !site.sets_up && is_there(site) && is_one(site));
        of.fold(0u64, |sum, (_, copied)| sum.saturating_add(copied.count))
    };
    let of_line = facts.idle().waits.iter().filter(|(wait, _)| wait.line == line);
    let of_line = of_line.map(|(_, emptied)| emptied.count).max().unwrap_or(0);
    let count = if line.is_some() { of_line } else { waits.count };
    let is_most = |part: u64| part > 0 && part.saturating_mul(2) >= count;
    let reads = if line.is_some() { copies(|site| site.kind == TransferKind::DtoH) } else { reads };
    let selections = copies(|site| site.of_selection);
    let uploads = copies(|site| site.kind == TransferKind::HtoD && site.host_memory == HostMemory::Pageable);
    match api {
        _ if is_most(selections) && selections.saturating_mul(2) >= reads => What::Selects,
        _ if is_most(reads) && reads >= uploads && is_of_scaler(facts, line.as_ref()) => What::Scales,
        _ if is_most(reads) && reads >= uploads && only_infers(facts) => What::ReadsOfInference,
        _ if is_most(reads) && reads >= uploads => What::Reads,
        _ if is_most(uploads) => What::Uploads,
        "cudaEventSynchronize" => What::Event("Event.synchronize()"),
        _ if is_query(api) => What::Asks,
        "cudaStreamSynchronize" if line.is_some() => {
            // What the program calls is in the library of Python's bindings, and operators are in others.
            match waiting_library(facts, &Wait { api: api.to_owned(), line }) {
                Some(library) if library.starts_with("libtorch_python") => {
                    What::Event("Stream.synchronize()")
                }
                Some(library) if library.starts_with("libtorch") => What::Operator,
                _ => What::Event("cudaStreamSynchronize"),
            }
        }
        _ => What::Other,
    }
}

/// Whether the program asks by this API whether work is done, and not [an allocator](is_of_allocator).
fn asks(facts: &Facts<'_>, api: &str) -> bool {
    let mut waits = facts.idle().waits.keys().filter(|wait| wait.api == api);
    is_query(api) && waits.any(|wait| !is_of_allocator(wait))
}

/// Whether the kernels with which PyTorch's scaler checks gradients, or those of the optimizer that it runs then, are launched at a
/// line of a program that has such a scaler.
fn is_of_scaler(facts: &Facts<'_>, line: Option<&Frame>) -> bool {
    let symbols = || facts.all.kernels.iter().map(|kernel| kernel.symbol.as_str());
    let is_meant = |symbol: &str| symbol.contains("amp_foreach_non_finite_check") || is_optimizer(symbol);
    let is_there = |symbol: &str| {
        let of_kernel = facts.all.source_lines.of_kernel(symbol);
        of_kernel.is_some_and(|(of_kernel, _)| Some(of_kernel) == line)
    };
    symbols().any(|symbol| symbol.contains("amp_update_scale"))
        && symbols().any(|symbol| is_meant(symbol) && is_there(symbol))
}

/// Returns the name of the library in which most of the idle time of a wait's own calls is.
fn waiting_library<'f>(facts: &Facts<'f>, wait: &Wait) -> Option<&'f str> {
    let of_wait = facts.idle().sites.iter().filter(|((cause, site), _)| {
        is_in_wait(*cause) && site.api.as_deref() == Some(&wait.api) && site.source.line == wait.line
    });
    let ((_, site), _) = of_wait.max_by_key(|(_, part)| part.total.value)?;
    site.source.library.as_deref()?.rsplit('/').next()
}

/// Whether copies read results: they bring little to the host.
fn is_read(site: &CopySite) -> bool {
    site.kind == TransferKind::DtoH && site.size <= SizeClass::UpTo64KiB && !site.sets_up
}
