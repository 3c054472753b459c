//! How long does physical memory (`cuMemCreate`) exist? Until nothing refers to it and nothing maps it (cuda.h,
//! cuMemRelease, cuMemUnmap).

use super::Allocator;
use crate::hash::HashMap;

#[derive(Clone, Copy, Debug, Default)]
struct Physical {
    bytes: u64,
    references: u32,
    mappings: u32,
    /// A context on the GPU that has it; 0 = unknown.
    context: u32,
    /// What all its mappings count together: the bytes of the first, which belong to that mapping's caller.
    mapped: Mapped,
}

/// Bytes that are mapped.
#[derive(Clone, Copy, Debug, Default)]
pub struct Mapped {
    /// The number of bytes.
    pub bytes: u64,
    /// The call that mapped them.
    pub of: Allocator,
}

/// Physical memory that no longer exists.
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

/// The effect of removing one mapping.
#[derive(Clone, Copy, Debug)]
pub enum Unmapped {
    /// The memory is unknown.
    Unknown,
    /// Other mappings are left.
    OthersAreLeft,
    /// These bytes are no longer mapped.
    Last(Mapped),
}

/// The physical memory that the process created and still holds.
#[derive(Clone, Debug, Default)]
pub struct PhysicalMemory(HashMap<u64, Physical>);

impl PhysicalMemory {
    /// Adds new memory, on the GPU of a context. Returns the bytes of earlier memory with this handle, whose release was lost.
    pub fn create(&mut self, handle: u64, bytes: u64, context: u32) -> Option<u64> {
        let new = Physical { bytes, references: 1, context, ..Physical::default() };
        self.0.insert(handle, new).map(|lost| lost.bytes)
    }

    /// Adds a reference if the memory is known.
    pub fn retain(&mut self, handle: u64) {
        if let Some(physical) = self.0.get_mut(&handle) {
            physical.references = physical.references.saturating_add(1);
        }
    }

    /// Removes a reference. Returns false if the memory is unknown.
    pub fn release(&mut self, handle: u64) -> bool {
        let known = self.0.get_mut(&handle);
        known.map(|physical| physical.references = physical.references.saturating_sub(1)).is_some()
    }

    /// Adds a mapping by a call. Returns what that adds to the mapped bytes, or `None` if the memory is unknown.
    pub fn map(&mut self, handle: u64, bytes: u64, of: Allocator) -> Option<Mapped> {
        let physical = self.0.get_mut(&handle)?;
        // Whatever context maps it, it is on the GPU that it was created on.
        let of = if physical.context == 0 { of } else { Allocator { context: physical.context, ..of } };
        let is_first = physical.mappings == 0;
        if is_first {
            physical.mapped = Mapped { bytes, of };
        }
        self.map_again(handle);
        Some(Mapped { bytes: if is_first { bytes } else { 0 }, of })
    }

    /// Takes back an `unmap`, if the memory is known.
    pub fn map_again(&mut self, handle: u64) {
        if let Some(physical) = self.0.get_mut(&handle) {
            physical.mappings = physical.mappings.saturating_add(1);
        }
    }

    /// Removes a mapping. Returns what that takes from the mapped bytes.
    pub fn unmap(&mut self, handle: u64) -> Unmapped {
        let Some(physical) = self.0.get_mut(&handle) else { return Unmapped::Unknown };
        physical.mappings = physical.mappings.saturating_sub(1);
        if physical.mappings == 0 { Unmapped::Last(physical.mapped) } else { Unmapped::OthersAreLeft }
    }

    /// Drops the memory if nothing refers to it and nothing maps it.
    pub fn settle(&mut self, handle: u64) -> Option<Gone> {
        let physical = *self.0.get(&handle)?;
        if physical.references != 0 || physical.mappings != 0 {
            return None;
        }
        self.0.remove(&handle);
        Some(Gone { handle, physical })
    }

    /// Takes back a `settle`. The caller then also puts back the reference or mapping that was removed.
    pub fn put_back(&mut self, gone: Gone) {
        self.0.entry(gone.handle).or_insert(gone.physical);
    }
}
