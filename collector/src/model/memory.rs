//! What memory the app holds, and what an address means.
//!
//! Blocks by first address, or by handle. An allocation is known when its call has returned; a free is published before
//! its call, and taken back if the call then fails. Host memory that was never allocated through CUDA is pageable.
//!
//! - Physical memory (`cuMemCreate`) is *reserved* from its creation until no reference and no mapping of it is left; while
//!   it is mapped it is *mapped* too, once, however often. Mappings of what this process did not create on a GPU (imported,
//!   multicast, the host's) are *imported*.
//! - Memory that is opened again where it is open already is counted again, without bytes.
//! - What is captured is a node of a graph: it comes and goes with the graph's launches ([`graph`]).
//! - A context's end takes what was allocated in it, but neither physical memory nor what came from pools (cuda.h,
//!   cuCtxDestroy), nor what graphs took, which is in no list of what goes.

pub mod graph;
mod physical;
#[cfg(test)]
mod tests;

use crate::trace::record::{Alloc, Api, Call, Free};
use gpuspy_wire::record::{Memory, flag};
use physical::{Gone, PhysicalMemory, Unmapped};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap};

/// Whether bytes of this kind occupy a GPU's memory and count as the app's use of it. Reservations hold nothing an app
/// can touch until they are mapped, and imported memory is counted by who allocated it.
pub fn is_device_memory(memory: Memory) -> bool {
    use Memory::{Array, Device, Graph, Managed, Mapped, Pool};
    matches!(memory, Device | Managed | Pool | Mapped | Array | Graph)
}

/// Who allocated a block. Of one whose allocation was never seen: who frees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Allocator {
    /// The call's context; 0 = unknown.
    pub context: u32,
    /// The thread's claim number.
    pub thread: u32,
    /// The stream, where the memory is stream-ordered.
    pub stream: Option<u64>,
    /// Return address of the call.
    pub caller: u64,
}

impl Allocator {
    fn of(thread: u32, call: &Call, memory: Memory, stream: u64) -> Self {
        let is_ordered = matches!(memory, Memory::Pool | Memory::Graph);
        let stream = is_ordered.then_some(stream);
        Allocator { context: call.context, thread, stream, caller: call.caller }
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
    /// The app freed a block; 0 bytes when its allocation was never seen, or others hold it still.
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
    /// Blocks came and went with one call.
    Passed {
        /// Their kind.
        memory: Memory,
        /// How many.
        blocks: u64,
        /// Bytes of all of them.
        bytes: u64,
        /// Bytes of those that can have been there at the same time.
        at_once: u64,
        /// Whose they were.
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
    /// The kind of the block, or blocks.
    pub fn memory(&self) -> Memory {
        match *self {
            MemoryChange::Allocated { memory, .. }
            | MemoryChange::Freed { memory, .. }
            | MemoryChange::FreeFailed { memory, .. }
            | MemoryChange::Vanished { memory, .. }
            | MemoryChange::Passed { memory, .. } => memory,
        }
    }

    /// Whose the block is, to be given another name.
    pub fn allocator_mut(&mut self) -> &mut Allocator {
        match self {
            MemoryChange::Allocated { of, .. }
            | MemoryChange::Freed { of, .. }
            | MemoryChange::FreeFailed { of, .. }
            | MemoryChange::Passed { of, .. }
            | MemoryChange::Vanished { of, .. } => of,
        }
    }

    /// Whose the block is.
    pub fn allocator(&self) -> &Allocator {
        match self {
            MemoryChange::Allocated { of, .. }
            | MemoryChange::Freed { of, .. }
            | MemoryChange::FreeFailed { of, .. }
            | MemoryChange::Passed { of, .. }
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
    /// Whose end it does not survive; 0 = none.
    context: u32,
    /// The physical memory that it maps; 0 = none.
    handle: u64,
    /// How often it was opened.
    references: u32,
}

/// A free whose call has not ended yet, and what it took.
#[derive(Clone, Debug, Default)]
struct PendingFree {
    correlation: u64,
    /// By first address.
    addressed: Vec<(u64, Block)>,
    /// By handle.
    array: Option<(u64, Block)>,
    /// A reference to physical memory.
    reference: Option<u64>,
    /// Physical memory that went with the last of them.
    gone: Vec<Gone>,
    /// What was said to be freed.
    freed: Vec<(Memory, u64, Allocator)>,
}

impl PendingFree {
    /// Physical memory went, with the last that was `of` somebody.
    fn went(&mut self, gone: Option<Gone>, of: Allocator) {
        self.freed.extend(gone.map(|gone| (Memory::Reserved, gone.bytes(), of)));
        self.gone.extend(gone);
    }
}

/// The blocks that the app holds. Its size is that of what is allocated at the moment.
#[derive(Clone, Debug, Default)]
pub struct Blocks {
    /// Blocks with addresses that copies can name.
    addressed: BTreeMap<u64, Block>,
    /// Arrays, by handle: these are no addresses.
    arrays: HashMap<u64, Block>,
    physical: PhysicalMemory,
    /// One per thread at most: a thread's next record is the end of its free.
    pending: HashMap<u32, PendingFree>,
}

impl Blocks {
    /// The kind of memory that an address lies in, or an array's handle stands for; `None` = not allocated through CUDA.
    pub fn kind_of(&self, address: u64) -> Option<Memory> {
        let below = self.addressed.range(..=address).next_back();
        let within = below.filter(|(start, block)| address - *start < block.bytes);
        within.map(|(_, block)| block.memory).or_else(|| self.arrays.get(&address).map(|block| block.memory))
    }

    /// The context on whose GPU the memory at an address is, where it is on one: managed memory moves, and of pools and mappings
    /// only the driver knows.
    pub fn context_of(&self, address: u64) -> Option<u32> {
        let (start, block) = self.addressed.range(..=address).next_back()?;
        let is_there = address - *start < block.bytes && block.memory == Memory::Device;
        (is_there && block.of.context != 0).then_some(block.of.context)
    }

    /// A block came.
    pub fn allocated(&mut self, thread: u32, alloc: &Alloc) -> Vec<MemoryChange> {
        if alloc.address == 0 || alloc.call.flags & (flag::FAILED | flag::CAPTURED) != 0 {
            return Vec::new();
        }
        let Alloc { memory, address, bytes, .. } = *alloc;
        let is_contexts = !matches!(memory, Memory::Pool | Memory::Mapped);
        let context = if is_contexts { alloc.call.context } else { 0 };
        let of = Allocator::of(thread, &alloc.call, memory, alloc.stream);
        let mut block = Block { memory, bytes, of, context, handle: 0, references: 1 };
        let mut changes = Vec::new();
        let mut counted = bytes;
        match memory {
            Memory::Reserved if bytes == 0 => {
                self.physical.retain(address);
                return changes;
            }
            Memory::Reserved => {
                let lost = self.physical.create(address, bytes);
                changes.extend(lost.map(|bytes| vanished(memory, bytes, of)));
            }
            Memory::Array => {
                changes.extend(self.arrays.insert(address, block).map(|b| vanished(memory, b.bytes, b.of)))
            }
            Memory::Imported if self.open_again(address) => counted = 0,
            Memory::Mapped => {
                changes.extend(self.displace(address, bytes));
                (block.memory, counted) = match self.physical.map(alloc.pool, bytes, of) {
                    Some(counted) => {
                        block.handle = alloc.pool;
                        (Memory::Mapped, counted)
                    }
                    None => (Memory::Imported, bytes),
                };
                self.addressed.insert(address, block);
            }
            _ => {
                changes.extend(self.displace(address, bytes));
                self.addressed.insert(address, block);
            }
        }
        changes.push(MemoryChange::Allocated { memory: block.memory, bytes: counted, of });
        changes
    }

    /// A block goes. Freeing the null pointer is no free.
    pub fn freed(&mut self, thread: u32, free: &Free) -> Vec<MemoryChange> {
        if free.address == 0 || free.call.flags & flag::CAPTURED != 0 {
            return Vec::new();
        }
        let mut pending = PendingFree { correlation: free.call.correlation, ..PendingFree::default() };
        let unseen = Allocator::of(thread, &free.call, free.memory, free.stream);
        match free.memory {
            // References to what is not known are to what takes no memory of this process.
            Memory::Reserved => {
                if self.physical.release(free.address) {
                    pending.reference = Some(free.address);
                    pending.went(self.physical.settle(free.address), unseen);
                }
            }
            Memory::Array => {
                pending.array = self.arrays.remove_entry(&free.address);
                let (bytes, of) = pending.array.map_or((0, unseen), |(_, block)| (block.bytes, block.of));
                pending.freed.push((Memory::Array, bytes, of));
            }
            _ => {
                for start in self.starts(free.address, free.bytes) {
                    self.take(start, &mut pending);
                }
                if pending.addressed.is_empty() {
                    pending.freed.push((free.memory, 0, unseen));
                }
            }
        }
        let freed = pending.freed.iter();
        let changes = freed.map(|&(memory, bytes, of)| MemoryChange::Freed { memory, bytes, of }).collect();
        self.pending.insert(thread, pending);
        changes
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
        pending.gone.iter().for_each(|gone| self.physical.put_back(*gone));
        if let Some(handle) = pending.reference {
            self.physical.retain(handle);
        }
        self.arrays.extend(pending.array);
        for (start, block) in pending.addressed {
            match self.addressed.entry(start) {
                Entry::Vacant(place) => {
                    self.physical.map_again(block.handle);
                    place.insert(block);
                }
                Entry::Occupied(mut open) => {
                    open.get_mut().references = open.get().references.saturating_add(1)
                }
            }
        }
        let freed = pending.freed.into_iter();
        freed.map(|(memory, bytes, of)| MemoryChange::FreeFailed { memory, bytes, of }).collect()
    }

    /// A context went, and with it what was allocated in it.
    pub fn context_destroyed(&mut self, context: u32) -> Vec<MemoryChange> {
        let mut changes = Vec::new();
        let mut keep = |block: &Block| {
            let keep = block.context != context || context == 0;
            if !keep {
                changes.push(vanished(block.memory, block.bytes, block.of));
            }
            keep
        };
        self.addressed.retain(|_, block| keep(block));
        self.arrays.retain(|_, block| keep(block));
        changes
    }

    /// Counts one more opening of imported memory that is open already. False when it is not.
    fn open_again(&mut self, address: u64) -> bool {
        let open = self.addressed.get_mut(&address).filter(|block| block.memory == Memory::Imported);
        open.map(|block| block.references = block.references.saturating_add(1)).is_some()
    }

    /// Where the blocks begin that a free means: the one at `address`, or all in so many bytes.
    fn starts(&self, address: u64, bytes: u64) -> Vec<u64> {
        self.addressed.range(address..address.saturating_add(bytes.max(1))).map(|(start, _)| *start).collect()
    }

    /// Takes a block, or one opening of it.
    fn take(&mut self, start: u64, taken: &mut PendingFree) {
        let Entry::Occupied(mut place) = self.addressed.entry(start) else { return };
        let block = *place.get();
        taken.addressed.push((start, block));
        if block.references > 1 {
            place.get_mut().references -= 1;
            taken.freed.push((block.memory, 0, block.of));
            return;
        }
        place.remove();
        let (bytes, of) = match self.physical.unmap(block.handle) {
            Unmapped::Unknown => (block.bytes, block.of),
            Unmapped::OthersAreLeft => (0, block.of),
            Unmapped::Last(mapped) => (mapped.bytes, mapped.of),
        };
        taken.freed.push((block.memory, bytes, of));
        taken.went(self.physical.settle(block.handle), block.of);
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
        let mut lost = PendingFree::default();
        for start in overlapping {
            self.addressed.entry(start).and_modify(|block| block.references = 1);
            self.take(start, &mut lost);
        }
        lost.freed.into_iter().map(|(memory, bytes, of)| vanished(memory, bytes, of)).collect()
    }
}

fn vanished(memory: Memory, bytes: u64, of: Allocator) -> MemoryChange {
    MemoryChange::Vanished { memory, bytes, of }
}

/// Whether a call failed.
pub fn failed(call: &Call) -> bool {
    call.flags & flag::FAILED != 0
}
