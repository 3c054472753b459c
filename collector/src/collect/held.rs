//! Which blocks of memory does a process hold? The records of their allocations, for a trace that begins later.
//!
//! It follows what [`crate::model::memory`] makes of the records, in less detail: a block whose free was lost is replaced when
//! another one has its address.

use crate::hash::HashMap;
use crate::trace::record::{Alloc, Api, Body, Call, Free, Record};
use gpuspy_wire::record::{Memory, flag};
use std::collections::BTreeMap;

/// Limit on the allocations of all blocks. Pools of frameworks hold some thousand.
const MOST: usize = 1 << 18;
/// Limit on the threads that are in a free; of more, all are taken to have returned.
const MOST_THREADS: usize = 1 << 12;

/// What an address or a handle stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Space {
    /// Physical memory (`cuMemCreate`), by handle.
    Physical,
    /// Arrays, by handle.
    Arrays,
    /// Everything else, by first address.
    Addresses,
}

impl Space {
    fn of(memory: Memory) -> Space {
        match memory {
            Memory::Reserved => Space::Physical,
            Memory::Array => Space::Arrays,
            _ => Space::Addresses,
        }
    }
}

type Key = (Space, u64);

/// The records that made a block what it is: its allocation, and further references to it.
type Block = Vec<Record>;

/// The blocks that are allocated.
#[derive(Debug, Default)]
pub struct HeldMemory {
    blocks: BTreeMap<Key, Block>,
    /// The number of allocations in `blocks` and `freeing`.
    count: usize,
    /// Physical memory by handle: how many mappings of it there are, and its release, if nothing but mappings holds it.
    mappings: HashMap<u64, u64>,
    released: HashMap<u64, Record>,
    /// By thread: the free whose call has not returned.
    freeing: HashMap<u32, Freeing>,
}

/// A free whose call has not returned.
#[derive(Debug)]
struct Freeing {
    correlation: u64,
    free: Record,
    /// What it took: the allocations, and the releases of memory that mappings still hold.
    taken: Vec<(Key, Record)>,
}

impl Freeing {
    /// The allocations that it took.
    fn blocks(&self) -> impl Iterator<Item = &Record> {
        let taken = self.taken.iter().map(|(_, record)| record);
        taken.filter(|record| matches!(record.body, Body::Alloc(_)))
    }
}

impl HeldMemory {
    /// Takes the next record of a call. Returns whether it changes what is held.
    pub fn observe(&mut self, record: &Record) -> bool {
        match &record.body {
            Body::Alloc(alloc) => self.allocated(alloc, record),
            Body::Free(free) => self.freed(free, record),
            Body::Api(api) => return self.ended(record.thread, api),
            _ => return false,
        }
        true
    }

    /// A context's end frees what was allocated in it, except physical memory, mappings of it, and memory of pools.
    pub fn context_destroyed(&mut self, context: u32) {
        let mut gone = 0;
        self.blocks.retain(|(space, _), block| {
            let Some(Body::Alloc(alloc)) = block.first().map(|record| &record.body) else { return false };
            let is_its_own =
                !matches!(alloc.memory, Memory::Pool | Memory::Mapped) && *space != Space::Physical;
            let stays = !is_its_own || alloc.call.context != context || context == 0;
            gone += if stays { 0 } else { block.len() };
            stays
        });
        self.count -= gone;
    }

    /// The records that say what is held, in the order in which they have to be read.
    pub fn records(&self) -> impl Iterator<Item = Record> {
        let releases = self.released.values().flat_map(|free| [free.clone(), returned(free)]);
        let freeing =
            self.freeing.values().flat_map(|freeing| freeing.blocks().chain([&freeing.free]).cloned());
        self.blocks.values().flatten().cloned().chain(releases).chain(freeing)
    }

    fn allocated(&mut self, alloc: &Alloc, record: &Record) {
        if alloc.address == 0 || alloc.call.flags & (flag::FAILED | flag::CAPTURED) != 0 {
            return;
        }
        let key = (Space::of(alloc.memory), alloc.address);
        let is_reference = match alloc.memory {
            Memory::Reserved => alloc.bytes == 0,
            Memory::Imported => true,
            _ => false,
        };
        if !is_reference {
            self.forget(key);
        }
        let is_of_unknown = is_reference && key.0 == Space::Physical && !self.blocks.contains_key(&key);
        if is_of_unknown || self.count >= MOST {
            return;
        }
        if alloc.memory == Memory::Mapped {
            *self.mappings.entry(alloc.pool).or_default() += 1;
        }
        self.blocks.entry(key).or_default().push(record.clone());
        self.count += 1;
    }

    fn freed(&mut self, free: &Free, record: &Record) {
        if free.address == 0 || free.call.flags & flag::CAPTURED != 0 {
            return;
        }
        let space = Space::of(free.memory);
        let last = if space == Space::Addresses { free.bytes.max(1) - 1 } else { 0 };
        let range = (space, free.address)..=(space, free.address.saturating_add(last));
        let keys: Vec<Key> = self.blocks.range(range).map(|(key, _)| *key).collect();
        let taken = keys.into_iter().filter_map(|key| self.take(key, record)).collect();
        let freeing = Freeing { correlation: free.call.correlation, free: record.clone(), taken };
        if self.freeing.len() >= MOST_THREADS {
            std::mem::take(&mut self.freeing).into_values().for_each(|freeing| self.has_freed(&freeing));
        }
        if let Some(before) = self.freeing.insert(record.thread, freeing) {
            self.has_freed(&before);
        }
    }

    /// A free has returned: what it took is gone.
    fn has_freed(&mut self, freeing: &Freeing) {
        self.count -= freeing.blocks().count();
    }

    /// The end of a call. Returns whether it is that of a free, which may have failed.
    fn ended(&mut self, thread: u32, api: &Api) -> bool {
        if self.freeing.get(&thread).is_none_or(|freeing| freeing.correlation != api.call.correlation) {
            return false;
        }
        let Some(freeing) = self.freeing.remove(&thread) else { return false };
        if api.call.flags & flag::FAILED == 0 {
            self.has_freed(&freeing);
            return true;
        }
        for (key, record) in freeing.taken {
            if let Body::Alloc(Alloc { memory: Memory::Mapped, pool, .. }) = record.body {
                *self.mappings.entry(pool).or_default() += 1;
            }
            if matches!(record.body, Body::Free(_)) {
                self.released.remove(&key.1);
            } else {
                self.blocks.entry(key).or_default().push(record);
            }
        }
        true
    }

    /// Takes a block, or one reference to it. Physical memory that is mapped stays, with its release.
    fn take(&mut self, key: Key, free: &Record) -> Option<(Key, Record)> {
        let (space, handle) = key;
        let block = self.blocks.get_mut(&key)?;
        let is_mapped = space == Space::Physical && self.mappings.contains_key(&handle);
        if is_mapped && block.len() == 1 {
            self.released.insert(handle, free.clone());
            return Some((key, free.clone()));
        }
        let record = block.pop()?;
        if block.is_empty() {
            self.blocks.remove(&key);
        }
        self.unmapped(&record);
        Some((key, record))
    }

    /// Forgets a block whose free was lost.
    fn forget(&mut self, key: Key) {
        let block = self.blocks.remove(&key).unwrap_or_default();
        self.count -= block.len();
        block.iter().for_each(|record| self.unmapped(record));
        if key.0 == Space::Physical {
            self.mappings.remove(&key.1);
            self.released.remove(&key.1);
        }
    }

    /// Counts a mapping less, and forgets the physical memory if it was its last holder.
    fn unmapped(&mut self, record: &Record) {
        let Body::Alloc(Alloc { memory: Memory::Mapped, pool, .. }) = record.body else { return };
        let Some(left) = self.mappings.get_mut(&pool) else { return };
        *left -= 1;
        if *left == 0 {
            self.mappings.remove(&pool);
            if self.released.remove(&pool).is_some() {
                let block = self.blocks.remove(&(Space::Physical, pool));
                self.count -= block.map_or(0, |block| block.len());
            }
        }
    }
}

/// Returns the end of the call of a free, which nobody counts.
fn returned(free: &Record) -> Record {
    let call = free.body.call().copied().unwrap_or_default();
    let call = Call { api: 0, ..call };
    let body = Body::Api(Api { call, result: 0, subject: 0, calls: 1, inside: 0, entered: 0 });
    Record { thread: free.thread, at: free.at, body }
}
