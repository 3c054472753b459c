//! Memory: how much the program held, and which libraries held it.

use super::numbers::Estimate;
use crate::analyze::memory::{self, MemoryUse};
use crate::analyze::owners;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

/// Device memory (allocated, managed, pools, mapped, arrays, graphs; no reservations); everything else under by_kind.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Memory {
    #[serde(flatten)]
    pub device: Use,
    /// Of graph: of each launch all that it takes is held at once, but for blocks that share addresses.
    pub by_kind: BTreeMap<&'static str, Use>,
    /// Device memory by the library that allocated or freed it; each column sums to the whole.
    pub by_library: Vec<Holding>,
    pub timeline: Timeline,
    /// Calls that failed because there was not enough memory.
    pub out_of_memory: u64,
}

/// The use of memory of one kind, or of all device memory.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Use {
    /// The most that was held at once, by all processes of a machine; of several machines the largest. Exact where no
    /// calls of two threads overlap; else a block may come and go at any moment of the calls that take and free it.
    pub peak_bytes: Estimate,
    /// When the peak was first reached, since the collection began; null = there was none.
    pub peak_ns: Option<u64>,
    /// Live at the end of the run. What a process holds when it ends is freed with it, and is listed in its own row.
    pub live_bytes: u64,
    /// The number of allocations that succeeded.
    pub allocations: u64,
    /// Of all allocations, freed or not.
    pub allocated_bytes: u64,
    /// The number of frees that succeeded.
    pub frees: u64,
}

/// The device memory of one library.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Holding {
    /// Its path; null where it is not known who called.
    pub library: Option<String>,
    /// The number of its allocations.
    pub allocations: u64,
    /// Their bytes.
    pub allocated_bytes: u64,
    /// Of its allocations, what was held when the most was held, by the peak's best value.
    pub at_peak_bytes: u64,
    /// Of its allocations, what is held at the end.
    pub live_bytes: u64,
    /// The number of frees that it called, also of other threads' allocations.
    pub frees: u64,
    /// Their bytes.
    pub freed_bytes: u64,
}

/// The most memory held in each of equal stretches of time. Empty where none was held, and of several processes.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Timeline {
    /// Start of the first one, from the start of the collection.
    pub from_ns: u64,
    /// How long each is.
    pub bucket_ns: u64,
    /// Of device memory.
    pub peaks_bytes: Peaks,
    /// Of each kind, in the same stretches.
    pub by_kind: BTreeMap<&'static str, Peaks>,
}

/// The most memory held in each stretch of time, in bytes.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Peaks(#[schemars(length(max = 128))] pub Vec<u64>);

impl Memory {
    /// Returns the row.
    pub fn of(memory: &MemoryUse) -> Memory {
        Memory {
            device: Use::of(&memory.device),
            by_kind: memory.by_kind.iter().map(|(kind, part)| (*kind, Use::of(part))).collect(),
            by_library: memory.by_library.iter().map(Holding::of).collect(),
            timeline: Timeline::of(memory),
            out_of_memory: memory.out_of_memory,
        }
    }
}

impl Use {
    fn of(part: &memory::Use) -> Use {
        Use {
            peak_bytes: part.peak().into(),
            peak_ns: (part.peak_bytes > 0).then_some(part.peak_at),
            live_bytes: part.live_bytes,
            allocations: part.allocations,
            allocated_bytes: part.allocated_bytes,
            frees: part.frees,
        }
    }
}

impl Holding {
    fn of((library, holding): (&Option<String>, &owners::Holding)) -> Holding {
        Holding {
            library: library.clone(),
            allocations: holding.allocations,
            allocated_bytes: holding.allocated_bytes,
            at_peak_bytes: holding.at_peak_bytes,
            live_bytes: holding.live_bytes,
            frees: holding.frees,
            freed_bytes: holding.freed_bytes,
        }
    }
}

impl Timeline {
    fn of(memory: &MemoryUse) -> Timeline {
        let by_kind = memory.timelines.iter().map(|(kind, line)| (*kind, Peaks(line.peaks.clone())));
        Timeline {
            from_ns: memory.timeline.from_ns,
            bucket_ns: memory.timeline.bucket_ns,
            peaks_bytes: Peaks(memory.timeline.peaks.clone()),
            by_kind: by_kind.collect(),
        }
    }
}
