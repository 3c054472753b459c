//! How much memory did the app hold, when was it the most, and what was left?

use super::Analysis;
use crate::model::Event;
use crate::model::memory::{MemoryChange, is_device_memory};
use crate::trace::record::Body;
use gpuspy_wire::record::Memory;
use std::collections::BTreeMap;

/// Use of memory of one kind or of several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Use {
    /// Allocations that succeeded.
    pub allocations: u64,
    /// Bytes of all of those.
    pub allocated_bytes: u64,
    /// Frees that succeeded.
    pub frees: u64,
    /// The most that was held at once.
    pub peak_bytes: u64,
    /// Host ns (the clock of the trace) when that was first so.
    pub peak_at: u64,
    /// What was held in the end.
    pub live_bytes: u64,
}

/// Use of memory by one process, or by several.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryUse {
    /// Device memory: allocated, managed, from pools, mapped, arrays; no reservations.
    pub device: Use,
    /// By [`Memory::name`].
    pub by_kind: BTreeMap<&'static str, Use>,
    /// Device memory over time. Of one process only: several began at different times, and a sum of lines that do not
    /// begin together would show what was never held.
    pub timeline: MemoryLine,
    /// Calls that failed because there was not enough memory.
    pub out_of_memory: u64,
}

/// The most device memory held in each of equal stretches of time, one behind the other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryLine {
    /// When the first begins, ns since the collection began: 0, or where the time that is asked for begins.
    pub from_ns: u64,
    /// How long each is, ns.
    pub bucket_ns: u64,
    /// The most that was held in each; none where no device memory was ever held.
    pub peaks: Vec<u64>,
}

/// CUDA_ERROR_OUT_OF_MEMORY = cudaErrorMemoryAllocation.
const OUT_OF_MEMORY: i32 = 2;

impl MemoryUse {
    /// Adds another process's. Their peaks were not at one time: the larger one stands.
    pub fn merge(&mut self, other: &MemoryUse) {
        self.device.merge(&other.device);
        for (kind, theirs) in &other.by_kind {
            self.by_kind.entry(kind).or_default().merge(theirs);
        }
        self.out_of_memory += other.out_of_memory;
    }
}

impl Use {
    fn change(&mut self, change: MemoryChange, at: u64) {
        match change {
            MemoryChange::Allocated { bytes, .. } => {
                self.allocations += 1;
                self.allocated_bytes = self.allocated_bytes.saturating_add(bytes);
                self.grow(bytes, at);
            }
            MemoryChange::Freed { bytes, .. } => {
                self.frees += 1;
                self.live_bytes = self.live_bytes.saturating_sub(bytes);
            }
            MemoryChange::FreeFailed { bytes, .. } => {
                self.frees = self.frees.saturating_sub(1);
                self.grow(bytes, at);
            }
            MemoryChange::Vanished { bytes, .. } => self.live_bytes = self.live_bytes.saturating_sub(bytes),
        }
    }

    fn grow(&mut self, bytes: u64, at: u64) {
        self.live_bytes = self.live_bytes.saturating_add(bytes);
        if self.live_bytes > self.peak_bytes {
            (self.peak_bytes, self.peak_at) = (self.live_bytes, at);
        }
    }

    fn merge(&mut self, other: &Use) {
        self.allocations += other.allocations;
        self.allocated_bytes = self.allocated_bytes.saturating_add(other.allocated_bytes);
        self.frees += other.frees;
        self.live_bytes = self.live_bytes.saturating_add(other.live_bytes);
        if other.peak_bytes > self.peak_bytes {
            (self.peak_bytes, self.peak_at) = (other.peak_bytes, other.peak_at);
        }
    }
}

/// The fold.
#[derive(Debug, Default)]
pub struct MemoryTimeline(MemoryUse);

impl Analysis for MemoryTimeline {
    type Table = MemoryUse;

    fn observe(&mut self, event: &Event<'_>) {
        for change in &event.memory {
            let memory = kind(*change);
            if is_device_memory(memory) {
                self.0.device.change(*change, event.record.at);
            }
            self.0.by_kind.entry(memory.name()).or_default().change(*change, event.record.at);
        }
        if let (Body::Api(api), Some(call)) = (&event.record.body, event.call)
            && call.failed
            && api.result == OUT_OF_MEMORY
        {
            self.0.out_of_memory += 1;
        }
    }

    fn finish(self) -> Self::Table {
        self.0
    }
}

fn kind(change: MemoryChange) -> Memory {
    match change {
        MemoryChange::Allocated { memory, .. }
        | MemoryChange::Freed { memory, .. }
        | MemoryChange::FreeFailed { memory, .. }
        | MemoryChange::Vanished { memory, .. } => memory,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::memory::Allocator;

    #[test]
    fn the_peak_is_the_first_moment_of_the_most() {
        let (memory, mut use_) = (Memory::Device, Use::default());
        let of = Allocator { context: 1, thread: 1, stream: None };
        for (at, change) in [
            (10, MemoryChange::Allocated { memory, bytes: 100, of }),
            (20, MemoryChange::Allocated { memory, bytes: 50, of }),
            (30, MemoryChange::Freed { memory, bytes: 100, of }),
            (40, MemoryChange::Allocated { memory, bytes: 100, of }),
            (50, MemoryChange::Freed { memory, bytes: 50, of }),
            (51, MemoryChange::FreeFailed { memory, bytes: 50, of }),
            (60, MemoryChange::Vanished { memory, bytes: 100, of }),
        ] {
            use_.change(change, at);
        }
        let expected = Use {
            allocations: 3,
            allocated_bytes: 250,
            frees: 1,
            peak_bytes: 150,
            peak_at: 20,
            live_bytes: 50,
        };
        assert_eq!(use_, expected);
    }

    #[test]
    fn processes_add_up_but_not_their_peaks() {
        let one =
            Use { allocations: 1, allocated_bytes: 10, frees: 0, peak_bytes: 10, peak_at: 5, live_bytes: 10 };
        let two =
            Use { allocations: 2, allocated_bytes: 40, frees: 2, peak_bytes: 30, peak_at: 7, live_bytes: 0 };
        let mut both = one;
        both.merge(&two);
        assert_eq!(
            both,
            Use { allocations: 3, allocated_bytes: 50, frees: 2, peak_bytes: 30, peak_at: 7, live_bytes: 10 }
        );
    }
}
