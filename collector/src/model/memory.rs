//! What memory does the program hold, and what does an address mean?
//!
//! Blocks are kept by first address or by handle. An allocation counts from the return of its call. A free is
//! published before its call, and taken back if the call fails. Host memory that was never allocated through CUDA is
//! pageable.
//!
//! - Physical memory (`cuMemCreate`) is *reserved* from its creation until no reference and no mapping of it is left;
//!   while it is mapped it is also *mapped*, once, however many mappings there are. Mappings of memory that this
//!   process did not create on a GPU (imported, multicast or host memory) are *imported*.
//! - Imported memory that is opened again while it is open counts as another block of 0 bytes.
//! - An allocation in a stream capture is a node of a graph: it comes and goes with the graph's launches ([`graph`]).
//! - A context's end frees what was allocated in it, except physical memory and memory from pools (cuda.h,
//!   cuCtxDestroy), and except what graphs allocated, which is not in that function's list.

pub mod graph;
mod physical;
#[cfg(test)]
mod tests;

use crate::hash::HashMap;
use crate::trace::record::{Alloc, Api, Body, Call, Free, Record};
use gpuspy_wire::record::{Memory, flag};
use physical::{Gone, PhysicalMemory, Unmapped};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// Whether memory of this kind occupies a GPU and counts as the program's use of it. An unmapped reservation holds
/// nothing that a program can access, and imported memory is counted in the process that allocated it.
pub fn is_device_memory(memory: Memory) -> bool {
    use Memory::{Array, Device, Graph, Managed, Mapped, Pool};
    matches!(memory, Device | Managed | Pool | Mapped | Array | Graph)
}

/// Whether memory of this kind is the host's, and its pages stay where they are.
pub fn is_page_locked(memory: Memory) -> bool {
    matches!(memory, Memory::Pinned | Memory::Registered)
}

/// Whether a block of this kind is on its GPU from its allocation to its free. Pages of managed memory come to a GPU when
/// it touches them, and leave it when it needs the room: there may be more of it than the GPU has.
pub fn fills_gpu(memory: Memory) -> bool {
    is_device_memory(memory) && memory != Memory::Managed
}

/// Whether a record of a thread shows that its call that frees has returned: `Some(true)` is that return itself, `Some(false)` a later
/// call. `free` is `None` for the end of a context, whose record has no call.
pub fn returned(free: Option<&Call>, record: &Record) -> Option<bool> {
    let call = record.body.call()?;
    let is_free = |free: &Call| matches!(record.body, Body::Api(_)) && call.correlation == free.correlation;
    let is_end = free.is_none_or(is_free);
    (is_end || free.is_none_or(|free| call.begin > free.begin)).then_some(is_end)
}

/// The origin of a block's allocation; if the allocation was never recorded, that of its free.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Allocator {
    /// The call's context; 0 = unknown.
    pub context: u32,
    /// The thread's claim number.
    pub thread: u32,
    /// The stream, if the memory is stream-ordered.
    pub stream: Option<u64>,
    /// Return address of the call.
    pub caller: u64,
    /// The call's correlation, which tells the block from others; 0 = its allocation was never recorded.
    pub correlation: u64,
}

impl Allocator {
    fn of(thread: u32, call: &Call, memory: Memory, stream: u64) -> Self {
        let is_ordered = matches!(memory, Memory::Pool | Memory::Graph);
        let stream = is_ordered.then_some(stream);
        let Call { context, caller, correlation, .. } = *call;
        Allocator { context, thread, stream, caller, correlation }
    }
}

/// A change of the memory that the program holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryChange {
    /// A block was allocated.
    Allocated {
        /// Its kind.
        memory: Memory,
        /// Its size.
        bytes: u64,
        /// The block's origin.
        of: Allocator,
    },
    /// The program freed a block. 0 bytes if its allocation was never recorded, or if other references hold it.
    Freed {
        /// Its kind.
        memory: Memory,
        /// Its size.
        bytes: u64,
        /// The block's origin.
        of: Allocator,
    },
    /// A free failed after it had been counted.
    FreeFailed {
        /// The kind of the block that is back.
        memory: Memory,
        /// Its size.
        bytes: u64,
        /// The block's origin.
        of: Allocator,
    },
    /// One call allocated and freed blocks.
    Passed {
        /// Their kind.
        memory: Memory,
        /// The number of blocks.
        blocks: u64,
        /// Bytes of all of them.
        bytes: u64,
        /// The most bytes of them that can have existed at the same time.
        at_once: u64,
        /// The least that certainly did at some moment: the largest of them.
        largest: u64,
        /// The blocks' origin.
        of: Allocator,
    },
    /// A block vanished without a recorded free: with its context, or because the free's record was lost.
    Vanished {
        /// Its kind.
        memory: Memory,
        /// Its size.
        bytes: u64,
        /// The block's origin.
        of: Allocator,
    },
}

impl MemoryChange {
    /// The kind of the block or blocks.
    pub fn memory(&self) -> Memory {
        match *self {
            MemoryChange::Allocated { memory, .. }
            | MemoryChange::Freed { memory, .. }
            | MemoryChange::FreeFailed { memory, .. }
            | MemoryChange::Vanished { memory, .. }
            | MemoryChange::Passed { memory, .. } => memory,
        }
    }

    /// The block's origin, to be renumbered.
    pub fn allocator_mut(&mut self) -> &mut Allocator {
        match self {
            MemoryChange::Allocated { of, .. }
            | MemoryChange::Freed { of, .. }
            | MemoryChange::FreeFailed { of, .. }
            | MemoryChange::Passed { of, .. }
            | MemoryChange::Vanished { of, .. } => of,
        }
    }

    /// The block's origin.
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
    /// The context whose end frees it; 0 = none.
    context: u32,
    /// The physical memory that it maps; 0 = none.
    handle: u64,
    /// The number of times it was opened.
    references: u32,
}

/// A free whose call has not ended yet, and the blocks that it took.
#[derive(Clone, Debug, Default)]
struct PendingFree {
    correlation: u64,
    /// By first address.
    addressed: Vec<(u64, Block)>,
    /// By handle.
    array: Option<(u64, Block)>,
    /// The physical memory of which it took a reference.
    reference: Option<u64>,
    /// Physical memory that vanished with its last reference or mapping.
    gone: Vec<Gone>,
    /// What was reported as freed.
    freed: Vec<(Memory, u64, Allocator)>,
}

impl PendingFree {
    /// Notes physical memory that vanished; `of` is the origin of its last reference or mapping.
    fn went(&mut self, gone: Option<Gone>, of: Allocator) {
        self.freed.extend(gone.map(|gone| (Memory::Reserved, gone.bytes(), of)));
        self.gone.extend(gone);
    }
}

/// The blocks that the program holds. Its size is that of the present allocations.
#[derive(Clone, Debug, Default)]
pub struct Blocks {
    /// Blocks whose addresses copies can use.
    addressed: BTreeMap<u64, Block>,
    /// Arrays by handle, which is not an address.
    arrays: BTreeMap<u64, Block>,
    physical: PhysicalMemory,
    /// At most one per thread: a thread's next record is the end of its free.
    pending: HashMap<u32, PendingFree>,
}

impl Blocks {
    /// The kind of memory that an address lies in, or that an array's handle stands for; `None` if it was not
    /// allocated through CUDA.
    pub fn kind_of(&self, address: u64) -> Option<Memory> {
        let below = self.addressed.range(..=address).next_back();
        let within = below.filter(|(start, block)| address - *start < block.bytes);
        within.map(|(_, block)| block.memory).or_else(|| self.arrays.get(&address).map(|block| block.memory))
    }

    /// The context on whose GPU the memory at an address is, if that is certain: managed memory moves, and only the
    /// driver knows about pools and mappings.
    pub fn context_of(&self, address: u64) -> Option<u32> {
        let (start, block) = self.addressed.range(..=address).next_back()?;
        let is_there = address - *start < block.bytes && block.memory == Memory::Device;
        (is_there && block.of.context != 0).then_some(block.of.context)
    }

    /// Takes an allocation.
    pub fn allocated(&mut self, thread: u32, alloc: &Alloc) -> Vec<MemoryChange> {
        if alloc.address == 0 || alloc.call.flags & (flag::FAILED | flag::CAPTURED) != 0 {
            return Vec::new();
        }
        let Alloc { memory, address, bytes, .. } = *alloc;
        let is_contexts = !matches!(memory, Memory::Pool | Memory::Mapped);
        let context = if is_contexts { alloc.call.context } else { 0 };
        let mut of = Allocator::of(thread, &alloc.call, memory, alloc.stream);
        let mut block = Block { memory, bytes, of, context, handle: 0, references: 1 };
        let mut changes = Vec::new();
        let mut counted = bytes;
        match memory {
            Memory::Reserved if bytes == 0 => {
                self.physical.retain(address);
                return changes;
            }
            Memory::Reserved => {
                let lost = self.physical.create(address, bytes, alloc.call.context);
                changes.extend(lost.map(|bytes| vanished(memory, bytes, of)));
            }
            Memory::Array => {
                changes.extend(self.arrays.insert(address, block).map(|b| vanished(memory, b.bytes, b.of)))
            }
            Memory::Imported if self.open_again(address) => counted = 0,
            Memory::Mapped => {
                changes.extend(self.displace(address, bytes));
                match self.physical.map(alloc.pool, bytes, of) {
                    Some(added) => {
                        (counted, of) = (added.bytes, added.of);
                        (block.handle, block.of) = (alloc.pool, of);
                    }
                    None => block.memory = Memory::Imported,
                }
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

    /// Takes a free. Freeing a null pointer changes nothing.
    pub fn freed(&mut self, thread: u32, free: &Free) -> Vec<MemoryChange> {
        if free.address == 0 || free.call.flags & flag::CAPTURED != 0 {
            return Vec::new();
        }
        let mut pending = PendingFree { correlation: free.call.correlation, ..PendingFree::default() };
        // Which call allocated the block is not known.
        let unseen =
            Allocator { correlation: 0, ..Allocator::of(thread, &free.call, free.memory, free.stream) };
        match free.memory {
            // Unknown handles stand for memory that is not this process's own.
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

    /// Takes the end of a call, which may be that of a free.
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

    /// Takes the end of a context, which frees what was allocated in it.
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

    /// Counts another opening of imported memory. Returns false if it is not open.
    fn open_again(&mut self, address: u64) -> bool {
        let open = self.addressed.get_mut(&address).filter(|block| block.memory == Memory::Imported);
        open.map(|block| block.references = block.references.saturating_add(1)).is_some()
    }

    /// The first addresses of the blocks that a free refers to: the block at `address`, or all in a range of `bytes`.
    fn starts(&self, address: u64, bytes: u64) -> Vec<u64> {
        self.addressed.range(address..address.saturating_add(bytes.max(1))).map(|(start, _)| *start).collect()
    }

    /// Takes away a block, or one opening of it.
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

    /// Removes the blocks that overlap a new one: their frees were lost.
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
