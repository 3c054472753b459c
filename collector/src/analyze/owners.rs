//! Device memory by library: which one allocated it, which one holds it, and which one freed it.
//!
//! A block belongs to its allocator until it is freed, whichever library frees it; a free counts for the library that
//! called it. The columns sum to those of [`MemoryUse::device`](super::memory::MemoryUse::device).

use crate::hash::HashMap;
use crate::model::memory::MemoryChange;
use std::collections::BTreeMap;

/// Device memory of one owner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Holding {
    /// The number of its allocations.
    pub allocations: u64,
    /// Their bytes.
    pub allocated_bytes: u64,
    /// The bytes that it held at the process's peak.
    pub at_peak_bytes: u64,
    /// The bytes that it held at the end.
    pub live_bytes: u64,
    /// The number of frees that it called, of any owner's blocks.
    pub frees: u64,
    /// Their bytes.
    pub freed_bytes: u64,
}

impl Holding {
    /// Adds another's.
    pub fn add(&mut self, other: &Holding) {
        self.allocations += other.allocations;
        self.allocated_bytes = self.allocated_bytes.saturating_add(other.allocated_bytes);
        self.at_peak_bytes = self.at_peak_bytes.saturating_add(other.at_peak_bytes);
        self.live_bytes = self.live_bytes.saturating_add(other.live_bytes);
        self.frees += other.frees;
        self.freed_bytes = self.freed_bytes.saturating_add(other.freed_bytes);
    }
}

/// Holdings by the path of a library; `None` if the caller is unknown.
pub type ByLibrary = BTreeMap<Option<String>, Holding>;

/// The analysis: holdings by the return address of the call. Programs call from few places.
#[derive(Debug, Default)]
pub struct Owners {
    by_caller: HashMap<u64, Holding>,
    /// What is held now is the peak, and the rows do not have it yet.
    is_at_peak: bool,
}

impl Owners {
    /// Applies a change of device memory by a call from `caller`; `is_counted` if it is in the selected time.
    pub fn change(&mut self, change: &MemoryChange, caller: u64, is_counted: bool) {
        let one = u64::from(is_counted);
        if let MemoryChange::Freed { .. } | MemoryChange::Vanished { .. } = change {
            self.leave_peak();
        }
        let owner = self.by_caller.entry(change.allocator().caller).or_default();
        match *change {
            MemoryChange::Allocated { bytes, .. } => {
                owner.allocations += one;
                owner.allocated_bytes = owner.allocated_bytes.saturating_add(one * bytes);
                owner.live_bytes = owner.live_bytes.saturating_add(bytes);
            }
            MemoryChange::Freed { bytes, .. } => {
                owner.live_bytes = owner.live_bytes.saturating_sub(bytes);
                let freeing = self.by_caller.entry(caller).or_default();
                freeing.frees += one;
                freeing.freed_bytes = freeing.freed_bytes.saturating_add(one * bytes);
            }
            // A free counts when its call returns.
            MemoryChange::FreeFailed { .. } => {}
            MemoryChange::Vanished { bytes, .. } => {
                owner.live_bytes = owner.live_bytes.saturating_sub(bytes);
            }
            MemoryChange::Passed { blocks, bytes, .. } => {
                owner.allocations += one * blocks;
                owner.allocated_bytes = owner.allocated_bytes.saturating_add(one * bytes);
                let freeing = self.by_caller.entry(caller).or_default();
                freeing.frees += one * blocks;
                freeing.freed_bytes = freeing.freed_bytes.saturating_add(one * bytes);
            }
        }
    }

    /// Records that what is held now is a new peak.
    pub fn peaked(&mut self) {
        self.is_at_peak = true;
    }

    /// Records the same with `passing` bytes more of one owner, held for no longer than this moment.
    pub fn peaked_with(&mut self, caller: u64, passing: u64) {
        self.peaked();
        if passing > 0 {
            self.leave_peak();
            let owner = self.by_caller.entry(caller).or_default();
            owner.at_peak_bytes = owner.at_peak_bytes.saturating_add(passing);
        }
    }

    /// Returns the rows; `library` names the library of a code address.
    pub fn finish(mut self, library: impl Fn(u64) -> Option<String>) -> ByLibrary {
        self.leave_peak();
        let mut libraries = ByLibrary::new();
        for (caller, holding) in self.by_caller.into_iter().filter(|(_, row)| *row != Holding::default()) {
            libraries.entry(library(caller)).or_default().add(&holding);
        }
        libraries
    }

    /// Writes the holdings at the peak into the rows. This happens only when less is held again, since a program that
    /// grows has a new peak at each step.
    fn leave_peak(&mut self) {
        if std::mem::take(&mut self.is_at_peak) {
            self.by_caller.values_mut().for_each(|row| row.at_peak_bytes = row.live_bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::memory::Allocator;
    use gpuspy_wire::record::Memory;

    const MEMORY: Memory = Memory::Device;

    fn of(caller: u64) -> Allocator {
        Allocator { caller, ..Allocator::default() }
    }

    fn library(caller: u64) -> Option<String> {
        (caller != 0).then(|| format!("lib{}.so", caller / 10))
    }

    #[test]
    fn a_block_counts_for_its_allocator_and_a_free_for_its_caller() {
        let mut owners = Owners::default();
        let came = |caller, bytes| MemoryChange::Allocated { memory: MEMORY, bytes, of: of(caller) };
        let freed = |caller, bytes| MemoryChange::Freed { memory: MEMORY, bytes, of: of(caller) };
        owners.change(&came(10, 100), 10, true);
        owners.peaked();
        owners.change(&came(11, 50), 11, true);
        owners.peaked();
        owners.change(&came(20, 30), 20, false);
        owners.peaked();
        owners.change(&freed(10, 100), 20, true);
        owners.change(&came(0, 7), 0, true);
        owners.change(&MemoryChange::Vanished { memory: MEMORY, bytes: 30, of: of(20) }, 99, true);
        let row = |allocations, allocated_bytes, at_peak_bytes, live_bytes, frees, freed_bytes| Holding {
            allocations,
            allocated_bytes,
            at_peak_bytes,
            live_bytes,
            frees,
            freed_bytes,
        };
        let expected = [
            (None, row(1, 7, 0, 7, 0, 0)),
            (library(10), row(2, 150, 150, 50, 0, 0)),
            (library(20), row(0, 0, 30, 0, 1, 100)),
        ];
        assert_eq!(owners.finish(library), ByLibrary::from(expected));
    }

    #[test]
    fn holdings_at_a_peak_that_lasts_to_the_end_are_recorded() {
        let mut owners = Owners::default();
        owners.change(&MemoryChange::Allocated { memory: MEMORY, bytes: 5, of: of(10) }, 10, true);
        owners.peaked();
        assert_eq!(owners.finish(library)[&library(10)].at_peak_bytes, 5);
    }
}
