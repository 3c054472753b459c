//! How much memory was used: the rows.

use super::doubt::Reasons;
use super::holders::Holders;
use super::line::MemoryLine;
use crate::analyze::estimate::Estimate;
use crate::analyze::merge::Merge;
use crate::analyze::owners::{ByLibrary, Holding};
use crate::model::memory::MemoryChange;
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
    /// The peak: the most that was held at once, by the best estimate, bytes.
    pub peak_bytes: u64,
    /// The lower and the upper bound of the peak, bytes.
    pub peak_between: (u64, u64),
    /// Why they may differ.
    pub doubt: Reasons,
    /// When the peak was first reached, by the best estimate, ns since the collection began.
    pub peak_at: u64,
    /// What was held at the end, bytes.
    pub live_bytes: u64,
}

/// Use of memory by one process or by several.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MemoryUse {
    /// Device memory: allocated, managed, from pools, mapped, arrays, by graphs; no reservations.
    pub device: Use,
    /// The same without managed memory, whose pages are where they were touched last: how full GPUs are. Its peak has no
    /// bounds.
    pub resident: Use,
    /// That memory on each GPU of a process, by its ordinal there. Of several processes, whose GPUs may be others, there is
    /// none.
    pub by_gpu: BTreeMap<u32, Use>,
    /// By [`Memory::name`].
    pub by_kind: BTreeMap<&'static str, Use>,
    /// Device memory by the library that allocated or freed it.
    pub by_library: ByLibrary,
    /// Device memory over time, on one line; several lines are of different times and cannot be combined.
    pub timeline: MemoryLine,
    /// The same for each kind, by [`Memory::name`]; all of them in the same intervals.
    pub timelines: BTreeMap<&'static str, MemoryLine>,
    /// Calls that failed because of too little memory.
    pub out_of_memory: u64,
    /// Who holds device memory, and how long.
    pub holders: Holders,
}

impl Use {
    /// Returns the peak with its bounds.
    pub fn peak(&self) -> Estimate<u64> {
        Estimate::new(self.peak_bytes, self.peak_between.0, self.peak_between.1)
    }

    /// Applies a change; `is_counted` if it is in the selected time.
    pub(super) fn change(&mut self, change: MemoryChange, is_counted: bool) {
        let one = u64::from(is_counted);
        match change {
            MemoryChange::Allocated { bytes, .. } => {
                self.allocations += one;
                self.allocated_bytes = self.allocated_bytes.saturating_add(one * bytes);
                self.live_bytes = self.live_bytes.saturating_add(bytes);
            }
            MemoryChange::Freed { bytes, .. } => {
                self.frees += one;
                self.live_bytes = self.live_bytes.saturating_sub(bytes);
            }
            // A free counts when its call returns.
            MemoryChange::FreeFailed { .. } => {}
            MemoryChange::Passed { blocks, bytes, .. } => {
                self.allocations += one * blocks;
                self.allocated_bytes = self.allocated_bytes.saturating_add(one * bytes);
                self.frees += one * blocks;
            }
            MemoryChange::Vanished { bytes, .. } => self.live_bytes = self.live_bytes.saturating_sub(bytes),
        }
    }

    /// Records that what is held now is held at this moment, and `passing` bytes more for no longer than the moment.
    /// Returns whether that is a new peak.
    pub(super) fn raise_peak(&mut self, at: u64, passing: u64) -> bool {
        let held = self.live_bytes.saturating_add(passing);
        let is_most = held > self.peak_bytes;
        if is_most {
            (self.peak_bytes, self.peak_at) = (held, at);
        }
        is_most
    }

    pub(super) fn merge(&mut self, other: &Use) {
        self.allocations += other.allocations;
        self.allocated_bytes = self.allocated_bytes.saturating_add(other.allocated_bytes);
        self.frees += other.frees;
        self.live_bytes = self.live_bytes.max(other.live_bytes);
        let (mine, theirs) = (self.peak_between, other.peak_between);
        self.peak_between = (mine.0.max(theirs.0), mine.1.max(theirs.1));
        self.doubt.add(other.doubt);
        if other.peak_bytes > self.peak_bytes {
            (self.peak_bytes, self.peak_at) = (other.peak_bytes, other.peak_at);
        }
    }

    /// Whether nothing was held, allocated or freed.
    pub(super) fn is_nothing(&self) -> bool {
        (self.allocations, self.frees, self.peak_bytes) == (0, 0, 0)
    }
}

impl MemoryUse {
    /// Whether managed memory was held.
    pub fn has_managed(&self) -> bool {
        self.managed_peak() > 0
    }

    /// The most managed memory that was held at once, bytes.
    pub fn managed_peak(&self) -> u64 {
        self.by_kind.get(Memory::Managed.name()).map_or(0, |part| part.peak_bytes)
    }
}

impl Merge for MemoryUse {
    /// Adds another line, which is of other times: of what was held at once, the larger one remains. What was
    /// held over time is left out.
    fn merge(&mut self, other: &MemoryUse) {
        let is_higher = other.device.peak_bytes > self.device.peak_bytes;
        if is_higher {
            self.by_library.values_mut().for_each(|mine| mine.at_peak_bytes = 0);
        }
        for (library, theirs) in &other.by_library {
            let at_peak_bytes = if is_higher { theirs.at_peak_bytes } else { 0 };
            self.by_library.entry(library.clone()).or_default().add(&Holding { at_peak_bytes, ..*theirs });
        }
        self.device.merge(&other.device);
        self.resident.merge(&other.resident);
        for (kind, theirs) in &other.by_kind {
            self.by_kind.entry(kind).or_default().merge(theirs);
        }
        self.timeline = MemoryLine::default();
        self.timelines.clear();
        self.by_gpu.clear();
        self.out_of_memory += other.out_of_memory;
        self.holders.merge(&other.holders);
    }
}
