//! Physical memory (`cuMemCreate`), by handle: it is there until nothing refers to it and nothing maps it (cuda.h,
//! cuMemRelease, cuMemUnmap).

use super::Allocator;
use std::collections::HashMap;

#[derive(Clone, Copy, Debug, Default)]
struct Physical {
    bytes: u64,
    references: u32,
    mappings: u32,
    /// What its mappings count, all together: the bytes of the first, which are its maker's.
    mapped: Mapped,
}

/// Bytes that are mapped.
#[derive(Clone, Copy, Debug, Default)]
pub struct Mapped {
    /// So many.
    pub bytes: u64,
    /// Who mapped them.
    pub of: Allocator,
}

/// Physical memory that is gone.
#[derive(Clone, Copy, Debug)]
pub struct Gone {
    handle: u64,
    physical: Physical,
}

impl Gone {
    /// Its size.
    pub fn bytes(&self) -> u64 {
        self.physical.bytes
    }
}

/// What one mapping less means.
#[derive(Clone, Copy, Debug)]
pub enum Unmapped {
    /// The memory is not known.
    Unknown,
    /// It is mapped elsewhere still.
    OthersAreLeft,
    /// These bytes are mapped no more.
    Last(Mapped),
}

/// What the process created and still holds.
#[derive(Clone, Debug, Default)]
pub struct PhysicalMemory(HashMap<u64, Physical>);

impl PhysicalMemory {
    /// Some was created. Returns the bytes of what had the handle: its release was lost.
    pub fn create(&mut self, handle: u64, bytes: u64) -> Option<u64> {
        let new = Physical { bytes, references: 1, ..Physical::default() };
        self.0.insert(handle, new).map(|lost| lost.bytes)
    }

    /// One more reference, to what is known.
    pub fn retain(&mut self, handle: u64) {
        if let Some(physical) = self.0.get_mut(&handle) {
            physical.references = physical.references.saturating_add(1);
        }
    }

    /// One reference less. False: not known.
    pub fn release(&mut self, handle: u64) -> bool {
        let known = self.0.get_mut(&handle);
        known.map(|physical| physical.references = physical.references.saturating_sub(1)).is_some()
    }

    /// It is mapped once more. Returns what that adds to the bytes that are mapped, or `None` when it is not known.
    pub fn map(&mut self, handle: u64, bytes: u64, of: Allocator) -> Option<u64> {
        let physical = self.0.get_mut(&handle)?;
        let is_first = physical.mappings == 0;
        if is_first {
            physical.mapped = Mapped { bytes, of };
        }
        self.map_again(handle);
        Some(if is_first { bytes } else { 0 })
    }

    /// One mapping more after all, of what is known.
    pub fn map_again(&mut self, handle: u64) {
        if let Some(physical) = self.0.get_mut(&handle) {
            physical.mappings = physical.mappings.saturating_add(1);
        }
    }

    /// One mapping less. Returns what that takes from the bytes that are mapped.
    pub fn unmap(&mut self, handle: u64) -> Unmapped {
        let Some(physical) = self.0.get_mut(&handle) else { return Unmapped::Unknown };
        physical.mappings = physical.mappings.saturating_sub(1);
        if physical.mappings == 0 { Unmapped::Last(physical.mapped) } else { Unmapped::OthersAreLeft }
    }

    /// Forgets it if nothing refers to it and nothing maps it.
    pub fn settle(&mut self, handle: u64) -> Option<Gone> {
        let physical = *self.0.get(&handle)?;
        if physical.references != 0 || physical.mappings != 0 {
            return None;
        }
        self.0.remove(&handle);
        Some(Gone { handle, physical })
    }

    /// It is not gone after all; whoever took the last reference or mapping puts that back, too.
    pub fn put_back(&mut self, gone: Gone) {
        self.0.entry(gone.handle).or_insert(gone.physical);
    }
}
