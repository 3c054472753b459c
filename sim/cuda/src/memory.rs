//! Memory: device memory is host memory that counts against its device, and addresses are looked up by range.

use crate::error::{INVALID_VALUE, OUT_OF_MEMORY, Outcome};
use crate::handle::Handle;
use std::collections::{BTreeMap, HashMap};

/// Bytes of a device's memory.
pub const DEVICE_BYTES: u64 = 80 << 30;
/// Alignment of every allocation (CUDA programming guide, "Device Memory Accesses": at least 256).
const ALIGNMENT: usize = 512;

/// The kinds of allocations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum MemoryKind {
    Device,
    Managed,
    Pool,
    Pinned,
    Registered,
    /// Memory of another process or another API.
    Imported,
    /// Physical memory mapped at an address.
    Mapped,
    /// Physical memory, which has a handle and no address.
    Reserved,
    /// An array, which has a handle and no address.
    Array,
    /// Memory that a graph allocates while it runs: the address is permanent, the memory is not.
    Graph,
}

impl MemoryKind {
    /// Returns its word in the truth file.
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

    /// Returns whether it uses a device's memory of its own. Mappings, imported memory and addresses of graphs do not.
    fn takes_memory(self) -> bool {
        matches!(self, Self::Device | Self::Managed | Self::Pool | Self::Reserved | Self::Array)
    }

    /// Returns whether it is page-locked host memory.
    pub fn pinned(self) -> bool {
        matches!(self, Self::Pinned | Self::Registered)
    }
}

/// Address space mapped from the system.
#[derive(Debug)]
pub struct Range {
    address: u64,
    bytes: usize,
}

impl Range {
    /// Maps zeroed memory. The system adds the pages when they are touched.
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

    /// Releases it.
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
    /// The requested number of bytes.
    pub bytes: u64,
    /// Its kind.
    pub kind: MemoryKind,
    /// The context it belongs to.
    pub context: Handle,
    /// Device ordinal.
    pub device: u32,
    /// Flags of `cuMemHostAlloc` or `cuMemHostRegister`.
    pub flags: u32,
    /// The pool it came from.
    pub pool: Handle,
    /// A unique number (`CU_POINTER_ATTRIBUTE_BUFFER_ID`).
    pub id: u64,
    /// Bytes that it occupies, by which free blocks are looked up.
    pub taken: u64,
    /// False for a mapping that no device has access to.
    pub usable: bool,
}

/// All addresses that the driver manages.
#[derive(Debug)]
pub struct Memory {
    allocations: BTreeMap<u64, Allocation>,
    used: Vec<u64>,
    /// Free blocks cut from slabs, by size.
    blocks: HashMap<u64, Vec<u64>>,
    /// The unused rest of the newest slab: address and bytes.
    slab: (u64, u64),
    ids: u64,
}

impl Memory {
    /// Creates an empty address space.
    pub fn new(devices: u32) -> Self {
        Self {
            allocations: BTreeMap::new(),
            used: vec![0; devices as usize],
            blocks: HashMap::new(),
            slab: (0, 0),
            ids: 0,
        }
    }

    /// Returns the bytes of a device's memory that are free.
    pub fn free_bytes(&self, device: u32) -> u64 {
        DEVICE_BYTES - self.used[device as usize]
    }

    /// Makes an allocation. Memory on a device counts against the device.
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

    /// Counts memory against a device whose bytes are stored elsewhere.
    pub fn charge(&mut self, device: u32, bytes: u64) -> Outcome {
        if bytes > self.free_bytes(device) {
            return Err(OUT_OF_MEMORY);
        }
        self.used[device as usize] += bytes;
        Ok(())
    }

    /// Releases it.
    pub fn discharge(&mut self, device: u32, bytes: u64) {
        self.used[device as usize] -= bytes;
    }

    /// Detaches a pool's allocations from its handle, which another pool may get next.
    pub fn orphan(&mut self, pool: Handle) {
        for allocation in self.allocations.values_mut().filter(|allocation| allocation.pool == pool) {
            allocation.pool = 0;
        }
    }

    /// Adds addresses that belong to the application.
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
            // SAFETY: a free block of this size from our own slab. CUDA does not guarantee that new device memory is
            // zero, but a test must not depend on its old contents.
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

    /// Returns the allocation that starts at `address`.
    pub fn at(&self, address: u64) -> Option<&Allocation> {
        self.allocations.get(&address)
    }

    /// Returns the allocation that contains `address`.
    pub fn find(&self, address: u64) -> Option<&Allocation> {
        let (_, allocation) = self.allocations.range(..=address).next_back()?;
        (address - allocation.address < allocation.bytes).then_some(allocation)
    }

    /// Returns whether `bytes` from `address` lie in known memory: in one allocation, or in adjacent mappings.
    pub fn covers(&self, address: u64, bytes: u64) -> bool {
        let Some(found) = self.find(address).filter(|found| found.usable) else { return false };
        let inside = found.address + found.bytes - address;
        let goes_on = found.kind == MemoryKind::Mapped || found.kind == MemoryKind::Imported;
        bytes <= inside || (goes_on && self.covers(address + inside, bytes - inside))
    }

    /// Grants or revokes access to a mapping.
    pub fn set_usable(&mut self, address: u64, usable: bool) {
        if let Some(allocation) = self.allocations.get_mut(&address) {
            allocation.usable = usable;
        }
    }

    /// Returns whether an address may be used.
    pub fn is_usable(&self, address: u64) -> bool {
        self.find(address).is_some_and(|found| found.usable)
    }

    /// Removes the allocation that starts at `address`. The caller releases the returned range in order with other
    /// effects.
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

    /// Returns the addresses of a context's allocations.
    pub fn of_context(&self, context: Handle) -> Vec<u64> {
        let of = self.allocations.values().filter(|allocation| allocation.context == context);
        of.map(|allocation| allocation.address).collect()
    }

    /// Hides a freed pool allocation: its address is unknown until it is allocated again.
    pub fn retire(&mut self, address: u64) -> Option<Allocation> {
        self.allocations.remove(&address)
    }

    /// Makes a retired pool allocation live again.
    pub fn revive(&mut self, allocation: Allocation, bytes: u64) -> u64 {
        self.insert(Allocation { bytes, ..allocation })
    }

    /// Releases a retired pool allocation.
    pub fn release(&mut self, allocation: &Allocation) -> Option<Range> {
        self.give_back(allocation)
    }
}

impl Allocation {
    /// Describes an allocation to be made.
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
