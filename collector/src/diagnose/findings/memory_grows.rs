//! Device memory, or page-locked host memory, that grows throughout the run.

use super::holding;
use crate::analyze::memory::holders::Growth;
use crate::diagnose::Facts;
use crate::diagnose::finding::{Claimed, Id};
use crate::diagnose::framework::Advice;
use crate::units::{bytes, count, duration};
use gpuspy_wire::record::Memory;

const ADVICE: Advice = Advice {
    pytorch: "Keep no tensors of earlier steps: add up loss.detach() and not the loss itself, empty lists of outputs, \
              and hold no graph (retain_graph, hooks). Call torch.cuda.memory._record_memory_history() at the start and \
              torch.cuda.memory._dump_snapshot('memory.pickle') some steps later: pytorch.org/memory_viz then shows the \
              lines that hold memory. If sizes vary from step to step, the pool may be fragmented: set \
              PYTORCH_ALLOC_CONF=expandable_segments:True (before PyTorch 2.9, PYTORCH_CUDA_ALLOC_CONF).",
    jax: "Keep no arrays of earlier steps: drop references to them, and donate arguments (donate_argnums). \
          jax.profiler.save_device_memory_profile() names them.",
    cuda: "Free in each step what it allocates, or allocate it once before the loop and use it again.",
};

/// If page-locked host memory grows.
const PAGE_LOCKED: Advice = Advice {
    pytorch: "Keep no pinned tensors of earlier steps (pin_memory(), DataLoader(pin_memory=True)): copy the next batch into the same \
              one. PyTorch keeps what it has page-locked, in sizes that are powers of two: batches of many sizes take one block of each.",
    jax: "Keep no host buffers of earlier steps: drop references to what was put on the device or fetched from it.",
    cuda: "Free in each step what it page-locks (cudaFreeHost, cudaHostUnregister), or allocate it once before the loop and use it again.",
};

/// Looks for it.
pub fn find(facts: &Facts<'_>) -> Option<Claimed> {
    of_device(facts).or_else(|| of_host(facts))
}

/// Returns the growth in words, as a rate, and as a sentence that says where it is.
fn said(growth: &Growth) -> Option<(String, String)> {
    let (origin, grown) = growth.origins.first()?;
    let per = if growth.is_per_step { "step" } else { "second" };
    let slope = format!("{} per {per}", bytes(growth.slope as u64));
    let text = format!(
        "After the warm-up the least that is held rises from {} to {}: {slope}, of that {} by {}.",
        bytes(growth.first),
        bytes(growth.last),
        bytes(*grown),
        holding::place(origin),
    );
    Some((slope, text))
}

/// Looks for page-locked host memory that grows.
fn of_host(facts: &Facts<'_>) -> Option<Claimed> {
    let growth = facts.all.memory.holders.page_locked.as_ref()?;
    let (origin, _) = growth.origins.first()?;
    let (slope, text) = said(growth)?;
    let process = facts.in_process_of(|tables| tables.memory.holders.page_locked.as_ref() == Some(growth));
    Some(holding::finding(
        Id::MemoryGrows,
        format!("Page-locked host memory{process} grows by {slope}"),
        holding::evidence(origin, text, 1, None),
        "Page-locked memory is never paged out: what grows in each step takes the machine's memory from all of its processes in the end.",
        PAGE_LOCKED.of(facts),
    ))
}

/// Looks for device memory that grows.
fn of_device(facts: &Facts<'_>) -> Option<Claimed> {
    let growth = facts.all.memory.holders.growth.as_ref()?;
    let (origin, _) = growth.origins.first()?;
    let (slope, mut text) = said(growth)?;
    text += &until_full(growth, facts).unwrap_or_default();
    if let Some((slope, _)) = facts.all.memory.holders.page_locked.as_ref().and_then(said) {
        text += &format!(" Page-locked host memory grows, too: {slope}.");
    }
    let freed = &facts.all.memory.holders.never_freed;
    let leak = freed.iter().find(|holder| holder.origin == *origin);
    let text = match leak {
        // Those of the warm-up and of the last steps are not counted.
        Some(leak) => format!("{text} At least {} of its blocks are never freed.", count(leak.blocks)),
        None => text,
    };
    let process = facts.in_process_of(|tables| tables.memory.holders.growth.as_ref() == Some(growth));
    let evidence =
        holding::evidence(origin, text, leak.map_or(1, |leak| leak.blocks), leak.map(|leak| leak.first_ns));
    Some(holding::finding(
        Id::MemoryGrows,
        format!("Device memory{process} grows by {slope}"),
        evidence,
        "What grows in each step fills the GPU in the end, however much memory it has.",
        ADVICE.of(facts),
    ))
}

/// Returns when memory is full at this rate, as a sentence. Where managed memory grows, that is not known: it need not be on
/// the GPU.
fn until_full(growth: &Growth, facts: &Facts<'_>) -> Option<String> {
    if growth.origins.iter().any(|(origin, _)| origin.kind == Memory::Managed.name()) {
        return None;
    }
    let tables = facts.of_process(|tables| tables.memory.holders.growth.as_ref() == Some(growth));
    // At the peak there is less room than at the least of the last quarter, which the growth is measured by.
    let last = growth.last.saturating_sub(tables.memory.managed_peak());
    let most = tables.memory.resident.peak_bytes.max(last);
    let left = holding::size(tables)?.saturating_sub(most) as f64 / growth.slope.max(1.0);
    let is_full = tables.memory.holders.failure.is_some() || left < 1.0;
    if is_full {
        return None;
    }
    let ns_each = match growth.is_per_step {
        true => tables.steps.time.map(|time| time.mean),
        false => Some(1e9),
    };
    let time = ns_each.map(|ns| duration((left * ns) as u64));
    Some(match (growth.is_per_step, time) {
        (true, Some(time)) => {
            format!(" The GPU's memory is full after {} more steps ({time}).", count(left as u64))
        }
        (true, None) => format!(" The GPU's memory is full after {} more steps.", count(left as u64)),
        (false, time) => format!(" The GPU's memory is full after {}.", time?),
    })
}
