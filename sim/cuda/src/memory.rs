//! Memory: device memory is host memory that counts against its device; addresses are known by range.

use crate::error::{INVALID_VALUE, OUT_OF_MEMORY, Outcome};
use crate::handle::Handle;
use std::collections::{BTreeMap, HashMap};

/// Bytes of a device's memory.
pub const DEVICE_BYTES: u64 = 80 << 30;
/// Alignment of every allocation (CUDA programming guide, "Device Memory Accesses": at least 256).
const ALIGNMENT: usize = 512;

/// What an allocation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum MemoryKind {
    Device,
    Managed,
    Pool,
    Pinned,
    Registered,
    /// Of another process, or another API.
    Imported,
    /// Physical memory mapped at an address.
    Mapped,
    /// Physical memory, by handle.
    Reserved,
    /// An array, by handle.
    Array,
    /// What a graph takes while it runs: an address at all times, memory in between.
    Graph,
}

impl MemoryKind {
    /// The word of the truth file.
    pub fn name(self) -> &'static str {
        match self {
            Self::Device => "device",
            Self::Managed => "managed",
            Self::Pool => "pool",
            Self::Pinned => "pinned",
            Self::Registered => "registered",
            Self::Imported => "imported",
            Self::Mapped => "mapped",
            Self::Reserved => "reserved",
            Self::Array => "array",
            Self::Graph => "graph",
        }
    }

    /// It takes a device's memory by itself: a mapping does not, nor what others allocated, nor an address of a graph.
    fn takes_memory(self) -> bool {
        matches!(self, Self::Device | Self::Managed | Self::Pool | Self::Reserved | Self::Array)
    }

    /// It lies on the host and is page-locked.
    pub fn pinned(self) -> bool {
        matches!(self, Self::Pinned | Self::Registered)
    }
}

/// Address space taken from the system.
#[derive(Debug)]
pub struct Range {
    address: u64,
    bytes: usize,
}

impl Range {
    /// Takes zeroed memory; the pages come when touched.
    fn take(bytes: u64) -> Outcome<Self> {
        let length = usize::try_from(bytes).map_err(|_| OUT_OF_MEMORY)?.next_multiple_of(4096);
        // SAFETY: an anonymous mapping at no particular address.
        let address = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                length,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if address == libc::MAP_FAILED {
            return Err(OUT_OF_MEMORY);
        }
        Ok(Self { address: address as u64, bytes: length })
    }

    /// Gives it back.
    pub fn release(self) {
        // SAFETY: the mapping was made by `take`, and this is its only owner.
        unsafe { libc::munmap(self.address as *mut libc::c_void, self.bytes) };
    }
}

/// Small allocations are cut from slabs of this many bytes, as the driver's are from its 2 MiB pages.
const SLAB: u64 = 2 << 20;

/// A live allocation.
#[derive(Clone, Debug)]
pub struct Allocation {
    /// First address.
    pub address: u64,
    /// Bytes asked for.
    pub bytes: u64,
    /// What it is.
    pub kind: MemoryKind,
    /// The context it belongs to.
    pub context: Handle,
    /// Device ordinal.
    pub device: u32,
    /// Flags of `cuMemHostAlloc` or `cuMemHostRegister`.
    pub flags: u32,
    /// The pool it came from.
    pub pool: Handle,
    /// A number never used before (`CU_POINTER_ATTRIBUTE_BUFFER_ID`).
    pub id: u64,
    /// Bytes taken, by which free blocks are found.
    pub taken: u64,
    /// False: mapped, and nobody was given access.
    pub usable: bool,
}

/// All addresses that the driver knows.
#[derive(Debug)]
pub struct Memory {
    allocations: BTreeMap<u64, Allocation>,
    used: Vec<u64>,
    /// Free blocks cut from slabs, by size.
    blocks: HashMap<u64, Vec<u64>>,
    /// The rest of the youngest slab.
    slab: (u64, u64),
    ids: u64,
}

impl Memory {
    /// Nothing allocated.
    pub fn new(devices: u32) -> Self {
        Self {
            allocations: BTreeMap::new(),
            used: vec![0; devices as usize],
            blocks: HashMap::new(),
            slab: (0, 0),
            ids: 0,
        }
    }

    /// Bytes of a device's memory that are free.
    pub fn free_bytes(&self, device: u32) -> u64 {
        DEVICE_BYTES - self.used[device as usize]
    }

    /// Makes an allocation; memory on the device counts.
    pub fn allocate(&mut self, mut allocation: Allocation) -> Outcome<u64> {
        if allocation.bytes == 0 {
            return Err(INVALID_VALUE);
        }
        let taken = allocation.bytes.checked_next_multiple_of(ALIGNMENT as u64).ok_or(OUT_OF_MEMORY)?;
        let counts = allocation.kind.takes_memory();
        if counts && taken > self.free_bytes(allocation.device) {
            return Err(OUT_OF_MEMORY);
        }
        allocation.address = self.take(taken)?;
        allocation.taken = taken;
        if counts {
            self.used[allocation.device as usize] += taken;
        }
        Ok(self.insert(allocation))
    }

    /// Takes memory of a device that has no address of its own; its bytes are somewhere else.
    pub fn charge(&mut self, device: u32, bytes: u64) -> Outcome {
        if bytes > self.free_bytes(device) {
            return Err(OUT_OF_MEMORY);
        }
        self.used[device as usize] += bytes;
        Ok(())
    }

    /// Gives it back.
    pub fn discharge(&mut self, device: u32, bytes: u64) {
        self.used[device as usize] -= bytes;
    }

    /// Detaches what came from a pool from its handle: that may be another pool's next.
    pub fn orphan(&mut self, pool: Handle) {
        for allocation in self.allocations.values_mut().filter(|allocation| allocation.pool == pool) {
            allocation.pool = 0;
        }
    }

    /// Makes addresses of the application's own known.
    pub fn register(&mut self, allocation: Allocation) -> u64 {
        self.insert(allocation)
    }

    fn insert(&mut self, mut allocation: Allocation) -> u64 {
        self.ids += 1;
        allocation.id = self.ids;
        let address = allocation.address;
        self.allocations.insert(address, allocation);
        address
    }

    fn take(&mut self, taken: u64) -> Outcome<u64> {
        if taken >= SLAB / 2 {
            return Ok(Range::take(taken)?.address);
        }
        if let Some(address) = self.blocks.get_mut(&taken).and_then(Vec::pop) {
            // SAFETY: a free block of this size, of our own slab. New device memory is not promised to be zero, but a
            // test must not depend on what lay there.
            unsafe { std::ptr::write_bytes(address as *mut u8, 0, taken as usize) };
            return Ok(address);
        }
        if self.slab.1 < taken {
            self.slab = (Range::take(SLAB)?.address, SLAB);
        }
        let address = self.slab.0;
        self.slab = (address + taken, self.slab.1 - taken);
        Ok(address)
    }

    /// The allocation that begins at `address`.
    pub fn at(&self, address: u64) -> Option<&Allocation> {
        self.allocations.get(&address)
    }

    /// The allocation that `address` lies in.
    pub fn find(&self, address: u64) -> Option<&Allocation> {
        let (_, allocation) = self.allocations.range(..=address).next_back()?;
        (address - allocation.address < allocation.bytes).then_some(allocation)
    }

    /// Whether `bytes` from `address` lie in known memory: in one allocation, or in mappings without a gap.
    pub fn covers(&self, address: u64, bytes: u64) -> bool {
        let Some(found) = self.find(address).filter(|found| found.usable) else { return false };
        let inside = found.address + found.bytes - address;
        let goes_on = found.kind == MemoryKind::Mapped || found.kind == MemoryKind::Imported;
        bytes <= inside || (goes_on && self.covers(address + inside, bytes - inside))
    }

    /// Gives or takes the right to use a mapping.
    pub fn set_usable(&mut self, address: u64, usable: bool) {
        if let Some(allocation) = self.allocations.get_mut(&address) {
            allocation.usable = usable;
        }
    }

    /// Whether an address may be used.
    pub fn is_usable(&self, address: u64) -> bool {
        self.find(address).is_some_and(|found| found.usable)
    }

    /// Forgets the allocation that begins at `address`. What it gives back is released in order with effects.
    pub fn remove(&mut self, address: u64) -> Option<(Allocation, Option<Range>)> {
        let allocation = self.allocations.remove(&address)?;
        let range = self.give_back(&allocation);
        Some((allocation, range))
    }

    fn give_back(&mut self, allocation: &Allocation) -> Option<Range> {
        let Allocation { address, kind, device, taken, .. } = *allocation;
        if kind.takes_memory() {
            self.used[device as usize] -= taken;
        }
        if taken >= SLAB / 2 {
            return Some(Range { address, bytes: (taken as usize).next_multiple_of(4096) });
        }
        if taken > 0 {
            self.blocks.entry(taken).or_default().push(address);
        }
        None
    }

    /// The addresses of a context's allocations.
    pub fn of_context(&self, context: Handle) -> Vec<u64> {
        let of = self.allocations.values().filter(|allocation| allocation.context == context);
        of.map(|allocation| allocation.address).collect()
    }

    /// Hides a pool allocation that has been freed: its address is unknown until it is allocated again.
    pub fn retire(&mut self, address: u64) -> Option<Allocation> {
        self.allocations.remove(&address)
    }

    /// Makes a retired pool allocation live again.
    pub fn revive(&mut self, allocation: Allocation, bytes: u64) -> u64 {
        self.insert(Allocation { bytes, ..allocation })
    }

    /// Gives a retired pool allocation back.
    pub fn release(&mut self, allocation: &Allocation) -> Option<Range> {
        self.give_back(allocation)
    }
}

impl Allocation {
    /// An allocation to be made.
    pub fn new(kind: MemoryKind, bytes: u64, context: Handle, device: u32) -> Self {
        Self { address: 0, bytes, kind, context, device, flags: 0, pool: 0, id: 0, taken: 0, usable: true }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allocate(memory: &mut Memory, bytes: u64) -> u64 {
        memory.allocate(Allocation::new(MemoryKind::Device, bytes, 1, 0)).unwrap()
    }

    #[test]
    fn addresses_are_found_by_range_and_counted() {
        let mut memory = Memory::new(1);
        let (small, large) = (allocate(&mut memory, 100), allocate(&mut memory, 3 << 20));
        assert_eq!((small % 256, large % 256), (0, 0));
        assert_eq!(memory.find(small + 99).map(|found| found.address), Some(small));
        assert!(memory.find(small + 100).is_none());
        assert!(memory.covers(large + 1, (3 << 20) - 1) && !memory.covers(large + 1, 3 << 20));
        assert_eq!(memory.free_bytes(0), DEVICE_BYTES - 512 - (3 << 20));
        let (_, range) = memory.remove(large).unwrap();
        range.expect("a large range goes back").release();
        assert!(memory.remove(small).unwrap().1.is_none());
        assert_eq!(memory.free_bytes(0), DEVICE_BYTES);
        assert_eq!(allocate(&mut memory, 200), small, "the block is used again");
        let most = Allocation::new(MemoryKind::Device, DEVICE_BYTES, 1, 0);
        assert_eq!(memory.allocate(most), Err(OUT_OF_MEMORY));
    }
}
