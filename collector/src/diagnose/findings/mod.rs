//! The faults that are looked for, one module for each.
//!
//! A finder is a pure function of [`Facts`]. It claims the parts of the wall time that removing the fault
//! would give back, and [`ranked`](super::finding::ranked) drops what is not worth the change.

mod adaptive_launches;
mod allocation_churn;
mod cold_start;
mod copies;
mod default_stream;
mod device_switches;
mod device_wide_sync;
mod duplicate_uploads;
mod failed_rank;
mod fragmentation;
mod gpu_error;
mod grids;
mod hidden_copy;
mod holding;
mod host_function;
mod host_stall;
mod idle;
mod memory_grows;
mod never_freed;
mod no_overlap;
mod other_ranks;
mod out_of_memory;
pub mod pageable_copies;
mod pauses;
mod peak_memory;
mod profiler_cost;
mod queue_full;
mod recompilation;
mod slower_gpu;
mod small_copies;
mod stopped;
pub mod straggler_rank;
mod stuck_collective;
mod sync_per_step;
mod synchronous_copies;
mod tail_wave;
#[cfg(test)]
mod tests;
mod tiny_kernels;
mod underfilled_grid;
mod unstable_kernel;
pub mod waits;

use super::Facts;
use super::finding::{Find, Id};

/// All finders. Of two findings that gain the same, that of the first finder comes first: a whole job's fault; and where the host
/// waits for the GPU and then does something else, not to wait is the smaller change.
pub const FINDERS: &[Find] = &[
    failed_rank::find,
    stuck_collective::find,
    straggler_rank::find,
    gpu_error::find,
    sync_per_step::find,
    device_wide_sync::find,
    synchronous_copies::find,
    pageable_copies::find,
    small_copies::find,
    hidden_copy::find,
    default_stream::find,
    no_overlap::find,
    duplicate_uploads::find,
    allocation_churn::find,
    tiny_kernels::find,
    adaptive_launches::find,
    recompilation::find,
    host_stall::find,
    host_function::find,
    slower_gpu::find,
    unstable_kernel::find,
    tail_wave::find,
    cold_start::find,
    queue_full::find,
    profiler_cost::find,
    underfilled_grid::find,
    device_switches::find,
    fragmentation::find,
    memory_grows::find,
    never_freed::find,
    out_of_memory::find,
    peak_memory::find,
];

/// Says first of a run that a fault ended why it did, in two sentences at most.
type Lead = fn(&Facts<'_>) -> Option<Vec<String>>;

/// Returns the fault that is known to have ended the program, if there is one, and what to say of it first, in two sentences
/// at most.
pub fn ended(facts: &Facts<'_>) -> Option<(Id, Vec<String>)> {
    let leads: [(Id, Lead); 4] = [
        (Id::GpuError, gpu_error::lead),
        (Id::OutOfMemory, out_of_memory::lead),
        (Id::FailedRank, failed_rank::lead),
        (Id::StuckCollective, stuck_collective::lead),
    ];
    leads.into_iter().find_map(|(id, lead)| Some((id, lead(facts)?)))
}
