//! What memory the app holds, and what an address means.
//!
//! Blocks by first address. An allocation is known when its call has returned; a free is published before its call, and
//! taken back if the call then fails. Host memory that was never allocated through CUDA is pageable.

use crate::trace::record::{Alloc, Api, Call, Free};
use gpuspy_wire::record::{Memory, flag};
use std::collections::{BTreeMap, HashMap};

/// Whether bytes of this kind occupy a GPU's memory and count as the app's use of it. Reservations hold nothing an app
/// can touch until they are mapped, and imported memory is counted by who allocated it.
pub fn is_device_memory(memory: Memory) -> bool {
    matches!(memory, Memory::Device | Memory::Managed | Memory::Pool | Memory::Mapped | Memory::Array)
}

/// Who allocated a block. Of one whose allocation was never seen: who frees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allocator {
    /// The call's context; 0 = unknown.
    pub context: u32,
    /// The thread's claim number.
    pub thread: u32,
    /// The stream, where the memory is stream-ordered.
    pub stream: Option<u64>,
}

impl Allocator {
    fn of(thread: u32, call: &Call, memory: Memory, stream: u64) -> Self {
        Allocator { context: call.context, thread, stream: (memory == Memory::Pool).then_some(stream) }
    }
}

/// What happened to the app's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryChange {
    /// A block came.
    Allocated {
        /// Its kind.
        memory: Memory,
        /// Its size.
        bytes: u64,
        /// Whose it is.
        of: Allocator,
    },
    /// The app freed a block; 0 bytes when its allocation was never seen.
    Freed {
        /// Its kind.
        memory: Memory,
        /// Its size.
        bytes: u64,
        /// Whose it is.
        of: Allocator,
    },
    /// The free turned out to have failed.
    FreeFailed {
        /// The kind of the block that is back.
        memory: Memory,
        /// Its size.
        bytes: u64,
        /// Whose it is.
        of: Allocator,
    },
    /// A block went without a call of the app that we saw: with its context, or in a free that was lost.
    Vanished {
        /// Its kind.
        memory: Memory,
        /// Its size.
        bytes: u64,
        /// Whose it is.
        of: Allocator,
    },
}

impl MemoryChange {
    /// Whose the block is.
    pub fn allocator(&self) -> &Allocator {
        match self {
            MemoryChange::Allocated { of, .. }
            | MemoryChange::Freed { of, .. }
            | MemoryChange::FreeFailed { of, .. }
            | MemoryChange::Vanished { of, .. } => of,
        }
    }
}

/// A block of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Block {
    memory: Memory,
    bytes: u64,
    of: Allocator,
}

/// A free whose call has not ended yet.
#[derive(Clone, Copy, Debug)]
struct PendingFree {
    correlation: u64,
    address: u64,
    memory: Memory,
    block: Option<Block>,
    of: Allocator,
}

/// The blocks that the app holds. Its size is that of what is allocated at the moment.
#[derive(Clone, Debug, Default)]
pub struct Blocks {
    /// Blocks with addresses that copies can name.
    addressed: BTreeMap<u64, Block>,
    /// Reservations, by handle: these are no addresses.
    reserved: HashMap<u64, Block>,
    /// One per thread at most: a thread's next record is the end of its free.
    pending: HashMap<u32, PendingFree>,
}

impl Blocks {
    /// The kind of memory that an address lies in; `None` = not allocated through CUDA.
    pub fn kind_of(&self, address: u64) -> Option<Memory> {
        let (start, block) = self.addressed.range(..=address).next_back()?;
        (address - start < block.bytes).then_some(block.memory)
    }

    /// A block came.
    pub fn allocated(&mut self, thread: u32, alloc: &Alloc) -> Vec<MemoryChange> {
        let (memory, bytes) = (alloc.memory, alloc.bytes);
        if alloc.address == 0 || bytes == 0 || alloc.call.flags & flag::FAILED != 0 {
            return Vec::new();
        }
        let of = Allocator::of(thread, &alloc.call, memory, alloc.stream);
        let block = Block { memory, bytes, of };
        let mut changes = Vec::new();
        if memory == Memory::Reserved {
            changes.extend(self.reserved.insert(alloc.address, block).map(vanished));
        } else {
            changes.extend(self.displace(alloc.address, bytes));
            self.addressed.insert(alloc.address, block);
        }
        changes.push(MemoryChange::Allocated { memory, bytes, of });
        changes
    }

    /// A block goes. Freeing the null pointer is no free.
    pub fn freed(&mut self, thread: u32, free: &Free) -> Vec<MemoryChange> {
        if free.address == 0 {
            return Vec::new();
        }
        let block = match free.memory {
            Memory::Reserved => self.reserved.remove(&free.address),
            _ => self.addressed.remove(&free.address),
        };
        let unseen = Allocator::of(thread, &free.call, free.memory, free.stream);
        let (memory, bytes, of) = block.map_or((free.memory, 0, unseen), |b| (b.memory, b.bytes, b.of));
        let (correlation, address) = (free.call.correlation, free.address);
        self.pending.insert(thread, PendingFree { correlation, address, memory, block, of });
        vec![MemoryChange::Freed { memory, bytes, of }]
    }

    /// The end of a call, which may be that of a free.
    pub fn call_ended(&mut self, thread: u32, api: &Api) -> Vec<MemoryChange> {
        if self.pending.get(&thread).is_none_or(|p| p.correlation != api.call.correlation) {
            return Vec::new();
        }
        let Some(pending) = self.pending.remove(&thread) else { return Vec::new() };
        if !failed(&api.call) {
            return Vec::new();
        }
        if let Some(block) = pending.block {
            match block.memory {
                Memory::Reserved => self.reserved.insert(pending.address, block),
                _ => self.addressed.insert(pending.address, block),
            };
        }
        let bytes = pending.block.map_or(0, |b| b.bytes);
        vec![MemoryChange::FreeFailed { memory: pending.memory, bytes, of: pending.of }]
    }

    /// A context went, and with it what was allocated in it.
    pub fn context_destroyed(&mut self, context: u32) -> Vec<MemoryChange> {
        let mut changes = Vec::new();
        let mut keep = |block: &Block| {
            let keep = block.of.context != context || context == 0;
            if !keep {
                changes.push(vanished(*block));
            }
            keep
        };
        self.addressed.retain(|_, block| keep(block));
        self.reserved.retain(|_, block| keep(block));
        changes
    }

    /// Removes what lies where a new block came: its free was lost.
    fn displace(&mut self, address: u64, bytes: u64) -> Vec<MemoryChange> {
        let end = address.saturating_add(bytes);
        let overlapping: Vec<u64> = self
            .addressed
            .range(..end)
            .rev()
            .take_while(|(start, block)| start.saturating_add(block.bytes) > address)
            .map(|(start, _)| *start)
            .collect();
        overlapping.iter().filter_map(|start| self.addressed.remove(start)).map(vanished).collect()
    }
}

fn vanished(block: Block) -> MemoryChange {
    MemoryChange::Vanished { memory: block.memory, bytes: block.bytes, of: block.of }
}

/// Whether a call failed.
pub fn failed(call: &Call) -> bool {
    call.flags & flag::FAILED != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Allocator = Allocator { context: 1, thread: 1, stream: None };

    fn alloc(memory: Memory, address: u64, bytes: u64) -> Alloc {
        Alloc { call: Call { context: 1, ..Call::default() }, memory, address, bytes, stream: 0, pool: 0 }
    }

    fn free(address: u64, correlation: u64) -> Free {
        Free {
            call: Call { correlation, context: 1, ..Call::default() },
            memory: Memory::Device,
            address,
            stream: 0,
        }
    }

    fn end(correlation: u64, flags: u16) -> Api {
        Api { call: Call { correlation, flags, ..Call::default() }, result: 0, subject: 0 }
    }

    #[test]
    fn an_address_belongs_to_its_block_to_the_last_byte() {
        let mut blocks = Blocks::default();
        blocks.allocated(1, &alloc(Memory::Pinned, 100, 10));
        assert_eq!(blocks.kind_of(99), None);
        assert_eq!(blocks.kind_of(100), Some(Memory::Pinned));
        assert_eq!(blocks.kind_of(109), Some(Memory::Pinned));
        assert_eq!(blocks.kind_of(110), None);
    }

    #[test]
    fn a_free_takes_the_kind_of_its_allocation() {
        let mut blocks = Blocks::default();
        blocks.allocated(1, &alloc(Memory::Managed, 100, 10));
        assert_eq!(
            blocks.freed(1, &free(100, 5)),
            [MemoryChange::Freed { memory: Memory::Managed, bytes: 10, of: ONE }]
        );
        assert_eq!(blocks.kind_of(100), None);
        assert!(blocks.call_ended(1, &end(5, 0)).is_empty());
    }

    #[test]
    fn a_failed_free_is_taken_back_and_only_by_its_own_end() {
        let mut blocks = Blocks::default();
        blocks.allocated(1, &alloc(Memory::Device, 100, 10));
        blocks.freed(1, &free(100, 5));
        assert!(blocks.call_ended(2, &end(5, flag::FAILED)).is_empty(), "another thread's call");
        assert!(blocks.call_ended(1, &end(6, flag::FAILED)).is_empty(), "another call");
        let back = MemoryChange::FreeFailed { memory: Memory::Device, bytes: 10, of: ONE };
        assert_eq!(blocks.call_ended(1, &end(5, flag::FAILED)), [back]);
        assert_eq!(blocks.kind_of(105), Some(Memory::Device));
        assert!(blocks.call_ended(1, &end(5, flag::FAILED)).is_empty(), "once");
    }

    #[test]
    fn a_null_free_is_none_and_an_unknown_one_frees_nothing_known() {
        let mut blocks = Blocks::default();
        assert!(blocks.freed(1, &free(0, 5)).is_empty());
        assert_eq!(
            blocks.freed(1, &free(64, 5)),
            [MemoryChange::Freed { memory: Memory::Device, bytes: 0, of: ONE }]
        );
    }

    #[test]
    fn memory_goes_with_its_context() {
        let mut blocks = Blocks::default();
        blocks.allocated(1, &alloc(Memory::Device, 100, 10));
        blocks.allocated(
            1,
            &Alloc { call: Call { context: 2, ..Call::default() }, ..alloc(Memory::Device, 200, 20) },
        );
        let gone = MemoryChange::Vanished { memory: Memory::Device, bytes: 10, of: ONE };
        assert_eq!(blocks.context_destroyed(1), [gone]);
        assert_eq!((blocks.kind_of(100), blocks.kind_of(200)), (None, Some(Memory::Device)));
    }

    #[test]
    fn a_lost_free_is_noticed_when_the_address_is_used_again() {
        let mut blocks = Blocks::default();
        blocks.allocated(1, &alloc(Memory::Device, 100, 10));
        blocks.allocated(1, &alloc(Memory::Device, 120, 10));
        let changes = blocks.allocated(1, &alloc(Memory::Device, 105, 20));
        assert_eq!(changes.len(), 3, "{changes:?}");
        assert_eq!(changes[2], MemoryChange::Allocated { memory: Memory::Device, bytes: 20, of: ONE });
        assert_eq!((blocks.kind_of(101), blocks.kind_of(124)), (None, Some(Memory::Device)));
    }

    #[test]
    fn a_reservation_is_no_address() {
        let mut blocks = Blocks::default();
        blocks.allocated(1, &alloc(Memory::Reserved, 100, 10));
        assert_eq!(blocks.kind_of(100), None);
        let mut release = free(100, 5);
        release.memory = Memory::Reserved;
        assert_eq!(
            blocks.freed(1, &release),
            [MemoryChange::Freed { memory: Memory::Reserved, bytes: 10, of: ONE }]
        );
    }
}
