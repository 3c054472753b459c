//! Device memory that is nearly full at the peak.

use super::holding;
use crate::analyze::Tables;
use crate::diagnose::Facts;
use crate::diagnose::finding::{Claimed, Id};
use crate::diagnose::framework::Advice;
use crate::units::{bytes, duration, percent};

/// The share of the GPU's memory from which its peak is reported: the context, the libraries and fragmentation take some
/// of what is left.
const FULL: f64 = 0.8;

const ADVICE: Advice = Advice {
    pytorch: "To make room: a smaller batch with gradient accumulation, activation checkpointing \
              (torch.utils.checkpoint), mixed precision, optimizer.zero_grad(set_to_none=True). \
              torch.cuda.memory._snapshot() names the tensors.",
    jax: "To make room: a smaller batch, jax.checkpoint, lower precision, donated arguments (donate_argnums). JAX takes \
          75 % of the GPU at the start unless XLA_PYTHON_CLIENT_PREALLOCATE=false.",
    cuda: "To make room: free what later phases do not need before the peak, use blocks again, or work on smaller parts.",
};

/// Looks for the process, or all of them together, that comes nearest to the memory of its GPUs.
pub fn find(facts: &Facts<'_>) -> Option<Claimed> {
    let share = |tables: &Tables| {
        holding::size(tables).map(|size| tables.memory.device.peak_bytes as f64 / size as f64)
    };
    let most = holding::each(facts.reports, facts.all)
        .filter_map(|tables| Some((tables, share(tables)?)))
        .max_by(|(_, one), (_, other)| one.total_cmp(other));
    let (tables, _) = most.filter(|(_, share)| *share > FULL)?;
    let (size, peak) = (holding::size(tables)?, tables.memory.device);
    let held = &tables.memory.holders.at_peak;
    let text = format!(
        "At {} it held {} of {} ({}): {}. Headroom: {}.",
        duration(peak.peak_at),
        bytes(peak.peak_bytes),
        bytes(size),
        percent(peak.peak_bytes, size),
        holding::holders(held, peak.peak_bytes),
        bytes(size.saturating_sub(peak.peak_bytes)),
    );
    let origin = held.first().map(|holder| holder.origin.clone()).unwrap_or_default();
    Some(holding::finding(
        Id::PeakMemory,
        format!("Device memory is {} full at the peak", percent(peak.peak_bytes, size)),
        holding::evidence(&origin, text, 1, Some(peak.peak_at)),
        "A larger batch, a longer input or another process on the GPU does not fit any more.",
        ADVICE.of(facts),
    ))
}
