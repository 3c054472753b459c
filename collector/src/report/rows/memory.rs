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
    device: Use,
    /// Of graph: of each launch all that it takes is held at once, but for blocks that share addresses.
    by_kind: BTreeMap<&'static str, Use>,
    /// Device memory by the library that allocated or freed it; each column sums to the whole.
    by_library: Vec<Holding>,
    timeline: Timeline,
    /// Calls that failed because there was not enough memory.
    out_of_memory: u64,
}

/// The use of memory of one kind, or of all device memory.
#[derive(Debug, Serialize, JsonSchema)]
struct Use {
    /// The most that was held at once, by all processes of a machine; of several machines the largest. Exact where no
    /// calls of two threads overlap; else a block may come and go at any moment of the calls that take and free it.
    peak_bytes: Estimate,
    /// When the peak was first reached, since the collection began; null = there was none.
    peak_ns: Option<u64>,
    /// Live at the end of the run. What a process holds when it ends is freed with it, and is listed in its own row.
    live_bytes: u64,
    /// The number of allocations that succeeded.
    allocations: u64,
    /// Of all allocations, freed or not.
    allocated_bytes: u64,
    /// The number of frees that succeeded.
    frees: u64,
}

/// The device memory of one library.
#[derive(Debug, Serialize, JsonSchema)]
struct Holding {
    /// Its path; null where it is not known who called.
    library: Option<String>,
    /// The number of its allocations.
    allocations: u64,
    /// Their bytes.
    allocated_bytes: u64,
    /// Of its allocations, what was held when the most was held, by the peak's best value.
    at_peak_bytes: u64,
    /// Of its allocations, what is held at the end.
    live_bytes: u64,
    /// The number of frees that it called, also of other threads' allocations.
    frees: u64,
    /// Their bytes.
    freed_bytes: u64,
}

/// The most memory held in each of equal stretches of time. Empty where none was held, and of several processes.
#[derive(Debug, Serialize, JsonSchema)]
struct Timeline {
    /// Start of the first one, from the start of the collection.
    from_ns: u64,
    /// How long each is.
    bucket_ns: u64,
    /// Of device memory.
    peaks_bytes: Peaks,
    /// Of each kind, in the same stretches.
    by_kind: BTreeMap<&'static str, Peaks>,
}

/// The most memory held in each stretch of time, in bytes.
#[derive(Debug, Serialize, JsonSchema)]
struct Peaks(#[schemars(length(max = 128))] Vec<u64>);

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
