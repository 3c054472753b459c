//! Memory: how much the program held, and which libraries held it.

use super::numbers::Estimate;
use crate::analyze::memory::holders;
use crate::analyze::memory::lifetimes::{self, Lifetime};
use crate::analyze::memory::{self, MemoryUse, Reasons, pool_of};
use crate::analyze::owners;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

/// Device memory (allocated, managed, pools, mapped, arrays, graphs; no reservations); everything else under by_kind.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Memory {
    #[serde(flatten)]
    pub device: Use,
    /// The use of memory by kind. Of graph, all memory of one launch counts as held at once, except blocks that share
    /// addresses.
    pub by_kind: BTreeMap<&'static str, Use>,
    /// Device memory by the library that allocated or freed it; each column sums to the whole.
    pub by_library: Vec<Holding>,
    pub at_peak: AtPeak,
    /// Who held the most device memory at the peak, the largest holder first; of several processes, at the peak of
    /// each. Blocks have one holder if the same process, thread, line, library, CUDA function and NVTX range allocated them;
    /// where that is more than ten holders, in whichever thread and range.
    #[schemars(length(max = 10))]
    pub holders: Vec<Holder>,
    /// Blocks of device memory by how long they lived. persistent: held at the end, or for half of the run; per_step:
    /// freed in the step in which they were allocated, or in the next (without steps: after less than a twentieth of the
    /// run); temporary: freed within 1 ms, or before any work was launched after their allocation; longer: all others.
    pub lifetimes: BTreeMap<&'static str, Lived>,
    /// How device memory grows throughout the run; null = it does not grow, or what grew in the selected time is freed after it
    /// while work goes on.
    pub growth: Option<Growth>,
    /// The same of page-locked host memory (pinned and registered).
    pub page_locked_growth: Option<Growth>,
    /// Blocks of device memory that were allocated after the warm-up, in at least three steps (without steps: eighths of
    /// the run), and never freed; by line, in whichever thread and NVTX range. What a framework's pool keeps does not
    /// count, nor, where a line frees most of its blocks, what is hardly older than others that it had freed.
    #[schemars(length(max = 10))]
    pub never_freed: Vec<Holder>,
    /// The last call that failed because there was not enough memory; null = no call did.
    pub failure: Option<Failure>,
    pub timeline: Timeline,
    /// The number of calls that failed because there was not enough memory.
    pub out_of_memory: u64,
}

/// Device memory at the peak, by its best value: what frameworks' pools had allocated (PyTorch's caching allocator and
/// similar, known by the library that called), and what was allocated outside them.
#[derive(Debug, Serialize, JsonSchema)]
pub struct AtPeak {
    pub pools_bytes: u64,
    pub outside_bytes: u64,
}

/// Device memory of one origin.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Holder {
    #[serde(flatten)]
    pub origin: Origin,
    pub bytes: u64,
    pub blocks: u64,
    /// The first and the last step in which one of the blocks was allocated; null = in no step.
    pub first_step: Option<u64>,
    pub last_step: Option<u64>,
    /// The time from the start of the collection to the allocation of the first block; null = not known.
    pub first_ns: Option<u64>,
    /// What the process held in all at that moment.
    #[serde(skip)]
    pub of_bytes: u64,
}

/// Where memory was allocated; null = not known, none, or several.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Origin {
    pub pid: Option<u32>,
    /// The thread's id in the system.
    pub tid: Option<u32>,
    /// The path of the library that called.
    pub library: Option<String>,
    /// The line of the program that called, as file:line.
    pub line: Option<String>,
    pub api: Option<String>,
    /// The innermost NVTX range that was open.
    pub range: Option<String>,
    /// As in by_kind; empty of a call that failed.
    pub memory: &'static str,
    /// The framework whose memory pool that library is.
    pub pool: Option<&'static str>,
}

/// Blocks of one lifetime.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Lived {
    pub blocks: u64,
    pub bytes: u64,
    /// The bytes of the blocks that were held at the peak.
    pub at_peak_bytes: u64,
}

/// Memory that grows: the least that is held rises from quarter to quarter of the run after the warm-up.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Growth {
    /// The growth per step; null = the program has no steps.
    #[schemars(range(min = 0))]
    pub bytes_per_step: Option<f64>,
    /// The growth per second; null = it is given per step.
    #[schemars(range(min = 0))]
    pub bytes_per_second: Option<f64>,
    /// The least that was held in the first and in the last quarter after the warm-up.
    pub from_bytes: u64,
    pub to_bytes: u64,
    /// The lines that hold more in the last quarter than in the first, in whichever thread and NVTX range, the largest
    /// growth first.
    #[schemars(length(max = 10))]
    pub by: Vec<Grown>,
}

/// Memory of one origin that grows.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Grown {
    #[serde(flatten)]
    pub origin: Origin,
    /// The bytes by which it grew.
    pub bytes: u64,
}

/// The state when a call failed because there was not enough memory.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Failure {
    #[serde(flatten)]
    pub origin: Origin,
    /// The time of the call, from the start of the collection.
    pub at_ns: u64,
    /// The bytes that the call asked for; null = not known.
    pub requested_bytes: Option<u64>,
    /// The device memory that the process held.
    pub live_bytes: u64,
    /// The physical memory that the process had created (cuMemCreate) and not mapped.
    pub unmapped_bytes: u64,
    /// Who held that memory, the largest holder first.
    #[schemars(length(max = 10))]
    pub holders: Vec<Holder>,
    /// Whether the program launched work afterwards.
    pub went_on: bool,
}

/// The use of memory of one kind, or of all device memory.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Use {
    /// The most that was held at once, by all processes of a machine; of several machines the largest. Exact where no
    /// calls of two threads overlap, and no graph takes and frees several blocks; else a block may come and go at any moment of the
    /// calls that take and free it, and a graph may hold its blocks at once or one after the other.
    pub peak_bytes: Estimate,
    /// Why it may not be exact.
    #[serde(skip)]
    pub doubt: Reasons,
    /// The time from the start of the collection to the moment at which the peak was first reached; null = there was
    /// none.
    pub peak_ns: Option<u64>,
    /// The bytes that are live at the end of the run. What a process holds when it ends is freed with it, and is listed
    /// in its own row.
    pub live_bytes: u64,
    /// The number of allocations that succeeded.
    pub allocations: u64,
    /// The bytes of all allocations, freed or not.
    pub allocated_bytes: u64,
    /// The number of frees that succeeded.
    pub frees: u64,
}

/// The device memory of one library.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Holding {
    /// The path of the library; null = it is not known who called.
    pub library: Option<String>,
    /// The number of allocations that the library called.
    pub allocations: u64,
    /// The bytes of those allocations.
    pub allocated_bytes: u64,
    /// The bytes of the library's allocations that were held when the most was held, by the peak's best value.
    pub at_peak_bytes: u64,
    /// The bytes of the library's allocations that are held at the end.
    pub live_bytes: u64,
    /// The number of frees that the library called, also of what others had allocated.
    pub frees: u64,
    /// The bytes of those frees.
    pub freed_bytes: u64,
    /// The framework whose memory pool the library is; null = none.
    pub pool: Option<&'static str>,
}

/// The most memory held in each of equal stretches of time. Empty where none was held, and of several machines.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Timeline {
    /// The time from the start of the collection to the start of the first stretch.
    pub from_ns: u64,
    /// The length of each stretch.
    pub bucket_ns: u64,
    /// The most device memory held.
    pub peaks_bytes: Peaks,
    /// The most memory held of each kind, in the same stretches.
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
            at_peak: AtPeak::of(memory),
            holders: memory.holders.at_peak.iter().map(Holder::of).collect(),
            lifetimes: memory.holders.lifetimes.iter().map(Lived::of).collect(),
            growth: memory.holders.growth.as_ref().map(Growth::of),
            page_locked_growth: memory.holders.page_locked.as_ref().map(Growth::of),
            never_freed: memory.holders.never_freed.iter().map(Holder::of).collect(),
            failure: memory.holders.failure.as_ref().map(Failure::of),
            timeline: Timeline::of(memory),
            out_of_memory: memory.out_of_memory,
        }
    }
}

impl AtPeak {
    fn of(memory: &MemoryUse) -> AtPeak {
        let is_pool = |library: &Option<String>| library.as_deref().and_then(pool_of).is_some();
        let sum = |of_pools: bool| {
            let rows = memory.by_library.iter().filter(|(library, _)| is_pool(library) == of_pools);
            rows.map(|(_, holding)| holding.at_peak_bytes).sum()
        };
        AtPeak { pools_bytes: sum(true), outside_bytes: sum(false) }
    }
}

impl Holder {
    fn of(holder: &holders::Holder) -> Holder {
        let holders::Holder { ref origin, bytes, of, blocks, steps, first_ns } = *holder;
        let (first_step, last_step) = steps.unzip();
        let first_ns = (first_ns > 0).then_some(first_ns);
        let origin = Origin::of(origin);
        Holder { origin, bytes, blocks, first_step, last_step, first_ns, of_bytes: of }
    }
}

impl Origin {
    fn of(origin: &holders::Origin) -> Origin {
        let holders::Origin { pid, tid, source, api, range, kind, pool } = origin.clone();
        let (library, line) = (source.library, source.line.map(|frame| frame.place()));
        Origin { pid, tid, library, line, api, range, memory: kind, pool }
    }
}

impl Lived {
    fn of((lifetime, lived): (&Lifetime, &lifetimes::Lived)) -> (&'static str, Lived) {
        let lifetimes::Lived { blocks, bytes, at_peak_bytes } = *lived;
        (lifetime.name(), Lived { blocks, bytes, at_peak_bytes })
    }
}

impl Growth {
    fn of(growth: &holders::Growth) -> Growth {
        let grown = |(origin, bytes): &(_, u64)| Grown { origin: Origin::of(origin), bytes: *bytes };
        Growth {
            bytes_per_step: growth.is_per_step.then_some(growth.slope),
            bytes_per_second: (!growth.is_per_step).then_some(growth.slope),
            from_bytes: growth.first,
            to_bytes: growth.last,
            by: growth.origins.iter().map(grown).collect(),
        }
    }
}

impl Failure {
    fn of(failure: &holders::Failure) -> Failure {
        Failure {
            origin: Origin::of(&failure.origin),
            at_ns: failure.at,
            requested_bytes: failure.requested,
            live_bytes: failure.live,
            unmapped_bytes: failure.unmapped,
            holders: failure.holders.iter().map(Holder::of).collect(),
            went_on: failure.went_on,
        }
    }
}

impl Use {
    fn of(part: &memory::Use) -> Use {
        Use {
            peak_bytes: part.peak().into(),
            doubt: part.doubt,
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
            pool: library.as_deref().and_then(pool_of),
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
