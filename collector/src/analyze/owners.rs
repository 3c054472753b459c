//! Which library took device memory, which holds it, and which gave it back?
//!
//! A block is its allocator's until it goes, whoever frees it; a free is counted where it was called. The columns sum to those of
//! [`MemoryUse::device`](super::memory::MemoryUse::device).

use crate::model::memory::MemoryChange;
use std::collections::{BTreeMap, HashMap};

/// Device memory of one owner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Holding {
    /// Allocations of it.
    pub allocations: u64,
    /// Bytes of all of those.
    pub allocated_bytes: u64,
    /// What it held when the process held the most.
    pub at_peak_bytes: u64,
    /// What it held in the end.
    pub live_bytes: u64,
    /// Frees that it called, whoever's the blocks were.
    pub frees: u64,
    /// Bytes of those.
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

/// Holdings by the path of a library; `None` = nobody knows who called.
pub type ByLibrary = BTreeMap<Option<String>, Holding>;

/// The fold: holdings by the return address of the call. Programs call from few places.
#[derive(Debug, Default)]
pub struct Owners {
    by_caller: HashMap<u64, Holding>,
    /// What is held now is the most that ever was, and no row says so yet.
    is_at_peak: bool,
}

impl Owners {
    /// Takes a change of device memory that a call from `caller` made; `is_counted` if it is in the time that is asked for.
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
            // A free counts when it is over.
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

    /// What is held now is more than ever before.
    pub fn peaked(&mut self) {
        self.is_at_peak = true;
    }

    /// The same, with so much more of an owner's for no longer than this moment.
    pub fn peaked_with(&mut self, caller: u64, passing: u64) {
        self.peaked();
        if passing > 0 {
            self.leave_peak();
            let owner = self.by_caller.entry(caller).or_default();
            owner.at_peak_bytes = owner.at_peak_bytes.saturating_add(passing);
        }
    }

    /// Answers, with `library` naming the file that an address lies in.
    pub fn finish(mut self, library: impl Fn(u64) -> Option<String>) -> ByLibrary {
        self.leave_peak();
        let mut libraries = ByLibrary::new();
        for (caller, holding) in self.by_caller.into_iter().filter(|(_, row)| *row != Holding::default()) {
            libraries.entry(library(caller)).or_default().add(&holding);
        }
        libraries
    }

    /// Writes down who held what at the most. Only when it becomes less: a program that grows has a peak at each step.
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
    fn a_block_is_its_allocators_and_a_free_its_callers() {
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
    fn who_held_the_most_is_known_where_it_was_held_to_the_end() {
        let mut owners = Owners::default();
        owners.change(&MemoryChange::Allocated { memory: MEMORY, bytes: 5, of: of(10) }, 10, true);
        owners.peaked();
        assert_eq!(owners.finish(library)[&library(10)].at_peak_bytes, 5);
    }
}
