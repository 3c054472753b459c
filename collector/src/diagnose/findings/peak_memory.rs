//! Device memory that is nearly full at the peak.

use super::holding;
use crate::analyze::Tables;
use crate::analyze::memory::holders::Holder;
use crate::analyze::memory::{MemoryUse, Use};
use crate::diagnose::Facts;
use crate::diagnose::finding::{Claimed, Id};
use crate::diagnose::framework::Advice;
use crate::units::{bytes, duration, percent};
use gpuspy_wire::record::Memory;

/// The share of the GPU's memory from which its peak is reported: the context, the libraries and fragmentation take some
/// of what is left.
const FULL: f64 = 0.8;

const ADVICE: Advice = Advice {
    pytorch: "To make room: a smaller batch with gradient accumulation, activation checkpointing \
              (torch.utils.checkpoint), mixed precision, optimizer states in fewer bytes or sharded (FSDP). \
              Call torch.cuda.memory._record_memory_history() at the start and \
              torch.cuda.memory._dump_snapshot('memory.pickle') at the peak: pytorch.org/memory_viz then shows the lines \
              that hold memory.",
    jax: "To make room: a smaller batch, jax.checkpoint, lower precision, donated arguments (donate_argnums). JAX takes \
          75 % of the GPU at the start unless XLA_PYTHON_CLIENT_PREALLOCATE=false.",
    cuda: "To make room: free what later phases do not need before the peak, use blocks again, or work on smaller parts.",
};

/// What was held of a GPU's memory. Managed memory is none of it.
struct Peak<'a> {
    /// The GPU, in a process that uses several.
    gpu: Option<u32>,
    held: Use,
    /// The GPU's size, bytes.
    size: u64,
    /// Who held it, the most first; none in a process that uses several GPUs, whose holders are not known by GPU.
    holders: Vec<&'a Holder>,
    /// Whether managed memory was held as well.
    has_managed: bool,
}

impl Peak<'_> {
    fn share(&self) -> f64 {
        self.held.peak_bytes as f64 / self.size as f64
    }
}

/// Returns the peaks of one process, of each of its GPUs; or that of all processes, whose GPUs cannot be told apart.
fn peaks(tables: &Tables) -> Vec<Peak<'_>> {
    let MemoryUse { by_gpu, resident, .. } = &tables.memory;
    let has_managed = tables.memory.has_managed();
    if by_gpu.len() > 1 {
        let peak = |(gpu, held): (&u32, &Use)| {
            let (size, holders) = (holding::size_of(tables, *gpu)?, Vec::new());
            Some(Peak { gpu: Some(*gpu), held: *held, size, holders, has_managed })
        };
        return by_gpu.iter().filter_map(peak).collect();
    }
    let peak =
        |size| Peak { gpu: None, held: *resident, size, holders: holders(&tables.memory), has_managed };
    holding::size(tables).map(peak).into_iter().collect()
}

/// Returns who held what was on the GPU at its peak; none if that was not at the peak of all memory, whose holders are known, or
/// if these are of the peaks of several processes.
fn holders(memory: &MemoryUse) -> Vec<&Holder> {
    let is_same = memory.resident.peak_at == memory.device.peak_at;
    let at_peak = || memory.holders.at_peak.iter();
    let is_of_one =
        at_peak().all(|holder| holder.origin.pid == at_peak().next().and_then(|first| first.origin.pid));
    let all = at_peak().filter(|_| is_same && is_of_one);
    all.filter(|holder| holder.origin.kind != Memory::Managed.name()).collect()
}

/// Looks for the GPU whose memory a process, or all of them together, comes nearest to.
pub fn find(facts: &Facts<'_>) -> Option<Claimed> {
    let most = holding::each(facts.reports, facts.all)
        .flat_map(|tables| peaks(tables).into_iter().map(move |peak| (tables, peak)))
        .max_by(|(_, one), (_, other)| one.share().total_cmp(&other.share()));
    let (tables, peak) = most.filter(|(_, peak)| peak.share() > FULL)?;
    let Peak { gpu, held, size, holders, has_managed } = peak;
    let process = facts.in_process_of(|its| std::ptr::eq(its, tables));
    let share = percent(held.peak_bytes, size);
    let by = holding::holders(&holders, held.peak_bytes);
    let text = format!(
        "At {} it held {} of {} ({share}{}){}. Headroom: {}.",
        duration(held.peak_at),
        bytes(held.peak_bytes),
        bytes(size),
        if has_managed { ", without managed memory" } else { "" },
        if by.is_empty() { by } else { format!(": {by}") },
        bytes(size.saturating_sub(held.peak_bytes)),
    );
    let origin = holders.first().map(|holder| holder.origin.clone()).unwrap_or_default();
    let whose = gpu.map_or("Device memory".to_owned(), |gpu| format!("The memory of GPU {gpu}"));
    Some(holding::finding(
        Id::PeakMemory,
        format!("{whose} is {share} full at the peak{process}"),
        holding::evidence(&origin, text, 1, Some(held.peak_at)),
        "A larger batch, a longer input or another process on the GPU does not fit any more.",
        ADVICE.of(facts),
    ))
}
