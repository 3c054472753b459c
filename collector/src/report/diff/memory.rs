//! The device memory of both runs.

use super::figure::{Figure, Scale};
use crate::report::rows::Report;
use schemars::JsonSchema;
use serde::Serialize;

/// The device memory of both runs. Its figures are always of the run, since most programs allocate most at their start;
/// what a step allocates is under steps.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Memory {
    /// The most bytes that were held at once.
    pub peak_bytes: Figure,
    /// The bytes that processes held as they ended.
    pub live_bytes: Figure,
    /// The number of allocations that succeeded.
    pub allocations: Figure,
    /// The bytes of all allocations, freed or not.
    pub allocated_bytes: Figure,
    /// The number of frees that succeeded.
    pub frees: Figure,
    /// The number of calls that failed because there was not enough memory.
    pub out_of_memory: Figure,
}

impl Memory {
    /// Compares the memory of two runs.
    pub fn of(before: &Report, after: &Report) -> Memory {
        let count = |of: fn(&Report) -> u64| Scale::RUN.count(of(before), of(after));
        let (peak, other_peak) = (before.memory.device.peak_bytes, after.memory.device.peak_bytes);
        Memory {
            peak_bytes: Scale::RUN.times(Some(peak), Some(other_peak)),
            live_bytes: count(|report| {
                let ended = report.processes.iter().filter(|process| process.is_last_part);
                ended.fold(0, |sum, process| sum.saturating_add(process.memory.live_bytes))
            }),
            allocations: count(|report| report.memory.device.allocations),
            allocated_bytes: count(|report| report.memory.device.allocated_bytes),
            frees: count(|report| report.memory.device.frees),
            out_of_memory: count(|report| report.memory.out_of_memory),
        }
    }
}
