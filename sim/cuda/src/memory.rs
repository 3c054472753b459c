//! Memory: device memory is host memory that counts against its device; addresses are known by range.

use crate::clocks::Ns;
use crate::config::config;
use crate::engine::Done;
use crate::error::{INVALID_VALUE, OUT_OF_MEMORY, Outcome};
use crate::handle::Handle;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

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

/// A block freed in stream order.
#[derive(Debug)]
pub struct FreeBlock {
    /// The block.
    pub allocation: Allocation,
    /// Where it was freed.
    pub stream: Handle,
    /// When the free is done.
    pub done: Done,
}

/// A stream-ordered memory pool.
#[derive(Debug, Default)]
pub struct Pool {
    /// Device ordinal.
    pub device: u32,
    /// A device's default pool.
    pub default: bool,
    /// Freed blocks, by bytes taken.
    pub free: HashMap<u64, Vec<FreeBlock>>,
    /// Bytes in use, and the most there were.
    pub used: (u64, u64),
    /// Bytes held, and the most there were.
    pub reserved: (u64, u64),
    /// `CUmemPool_attribute` that was set.
    pub attributes: HashMap<u32, u64>,
    /// The most bytes that it may hold; 0 = the device's.
    pub most: u64,
    /// `CUmemAccess_flags` that were set, by type and number of the location.
    pub access: HashMap<[u32; 2], u32>,
    /// It can be shared with other processes.
    pub shared: bool,
    /// It is another process's: nothing can be allocated from it.
    pub imported: bool,
}

impl Pool {
    /// A free block that an allocation of `taken` bytes on `stream` can have: one freed on the same stream, or whose
    /// free is done (CUDA programming guide, "Stream Ordered Memory Allocator").
    pub fn reuse(&mut self, taken: u64, stream: Handle, now: Ns) -> Option<FreeBlock> {
        let blocks = self.free.get_mut(&taken)?;
        let at = blocks.iter().rposition(|block| block.stream == stream || block.done.by(now))?;
        Some(blocks.swap_remove(at))
    }

    /// Whether it may hold so many bytes more.
    pub fn has_room(&self, bytes: u64) -> bool {
        self.most == 0 || self.reserved.0 + bytes <= self.most
    }

    /// Counts bytes in use and held.
    pub fn count(&mut self, used: i64, reserved: i64) {
        for (counter, change) in [(&mut self.used, used), (&mut self.reserved, reserved)] {
            counter.0 = counter.0.saturating_add_signed(change);
            counter.1 = counter.1.max(counter.0);
        }
    }
}

/// Where a copy goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Direction {
    HtoD,
    DtoH,
    DtoD,
    HtoH,
    PtoP,
}

impl Direction {
    /// The word of the truth file.
    pub fn name(self) -> &'static str {
        match self {
            Self::HtoD => "HtoD",
            Self::DtoH => "DtoH",
            Self::DtoD => "DtoD",
            Self::HtoH => "HtoH",
            Self::PtoP => "PtoP",
        }
    }
}

/// Extent and pitches of a copy, bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Bytes of a row.
    pub width: u64,
    /// Rows of a slice.
    pub height: u64,
    /// Slices.
    pub depth: u64,
    /// From row to row, destination and source.
    pub pitch: [u64; 2],
    /// From slice to slice, destination and source.
    pub slice: [u64; 2],
}

impl Shape {
    /// Bytes in a row.
    pub fn linear(bytes: u64) -> Self {
        Self { width: bytes, height: 1, depth: 1, pitch: [bytes; 2], slice: [bytes; 2] }
    }

    /// Bytes in all.
    pub fn bytes(&self) -> u64 {
        self.width * self.height * self.depth
    }

    /// Bytes from the first to the last on side 0 (destination) or 1 (source).
    pub fn span(&self, side: usize) -> u64 {
        if self.bytes() == 0 {
            return 0;
        }
        self.slice[side] * (self.depth - 1) + self.pitch[side] * (self.height - 1) + self.width
    }
}

/// A copy.
#[derive(Clone, Debug)]
pub struct Copy {
    /// Destination.
    pub dst: u64,
    /// Source.
    pub src: u64,
    /// Extent.
    pub shape: Shape,
    /// Direction.
    pub direction: Direction,
    /// The host memory that takes part.
    pub host_memory: &'static str,
    /// The copy engine.
    pub lane: Option<usize>,
    /// The source as it was when the call returned (`src` is not read then).
    pub staged: Option<Arc<[u8]>>,
    /// What else a batch copies.
    pub rest: Vec<Copy>,
}

impl Copy {
    /// Bytes, those of the rest of a batch included.
    pub fn bytes(&self) -> u64 {
        self.shape.bytes() + self.rest.iter().map(Copy::bytes).sum::<u64>()
    }

    /// ns that it takes.
    pub fn length(&self) -> Ns {
        let speed = match (self.direction, self.host_memory) {
            (Direction::PtoP, _) => "peer_mbps",
            (Direction::DtoD, _) => "device_mbps",
            (_, "pageable") => "pageable_mbps",
            _ => "pinned_mbps",
        };
        duration(self.bytes(), speed, "copy_ns")
    }

    /// Keeps the source as it is now. The caller may read it.
    pub fn stage(&mut self) {
        // SAFETY: the application gave the source for reading during this call.
        let bytes = unsafe { std::slice::from_raw_parts(self.src as *const u8, self.shape.span(1) as usize) };
        self.staged = Some(Arc::from(bytes));
    }

    /// Copies the bytes. A prefetch moves them to where they are: the host may be writing them.
    pub fn take_place(&self) {
        self.rest.iter().for_each(Copy::take_place);
        if self.src == self.dst {
            return;
        }
        let source = self.staged.as_ref().map_or(self.src, |staged| staged.as_ptr() as u64);
        let Shape { width, height, depth, pitch, slice } = self.shape;
        for z in 0..depth {
            for y in 0..height {
                let [to, from] = [0, 1].map(|side| slice[side] * z + pitch[side] * y);
                // SAFETY: both ranges were checked, as far as the driver knows them, when the copy was asked for; the
                // application keeps them until it is done. `copy` allows overlap.
                unsafe {
                    std::ptr::copy((source + from) as *const u8, (self.dst + to) as *mut u8, width as usize);
                }
            }
        }
    }
}

/// A set.
#[derive(Clone, Debug)]
pub struct Set {
    /// First address.
    pub dst: u64,
    /// The value, in its low `element` bytes.
    pub value: u32,
    /// Bytes of an element: 1, 2 or 4.
    pub element: u64,
    /// Elements of a row.
    pub width: u64,
    /// Rows.
    pub height: u64,
    /// Bytes from row to row.
    pub pitch: u64,
    /// The host memory that takes part.
    pub host_memory: &'static str,
}

impl Set {
    /// Bytes.
    pub fn bytes(&self) -> u64 {
        self.width * self.element * self.height
    }

    /// ns that it takes.
    pub fn length(&self) -> Ns {
        duration(self.bytes(), "device_mbps", "set_ns")
    }

    /// Sets the bytes.
    pub fn take_place(&self) {
        let value = self.value.to_ne_bytes();
        let element = &value[..self.element as usize];
        for row in 0..self.height {
            // SAFETY: the range was checked to be known memory when the set was asked for; the application keeps it
            // until it is done.
            let row = unsafe {
                let first = (self.dst + row * self.pitch) as *mut u8;
                std::slice::from_raw_parts_mut(first, (self.width * self.element) as usize)
            };
            match element {
                [byte] => row.fill(*byte),
                _ => row.chunks_exact_mut(element.len()).for_each(|chunk| chunk.copy_from_slice(element)),
            }
        }
    }
}

fn duration(bytes: u64, speed: &str, fixed: &str) -> Ns {
    let assume = &config().assume;
    assume.number(fixed) + (u128::from(bytes) * 1000 / u128::from(assume.number(speed).max(1))) as Ns
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

    #[test]
    fn copies_keep_to_their_rows() {
        let source: Vec<u8> = (0..32).collect();
        let mut to = [0u8; 12];
        let shape = Shape { width: 2, height: 3, depth: 1, pitch: [4, 8], slice: [12, 32] };
        let copy = Copy {
            dst: to.as_mut_ptr() as u64,
            src: source.as_ptr() as u64,
            shape,
            direction: Direction::HtoH,
            host_memory: "pageable",
            lane: None,
            staged: None,
            rest: Vec::new(),
        };
        copy.take_place();
        assert_eq!(to, [0, 1, 0, 0, 8, 9, 0, 0, 16, 17, 0, 0]);
        assert_eq!((shape.bytes(), shape.span(0), shape.span(1)), (6, 10, 18));
    }

    #[test]
    fn sets_write_their_element() {
        let mut to = [0u8; 8];
        let dst = to.as_mut_ptr() as u64;
        let set = Set { dst, value: 0x0102, element: 2, width: 1, height: 2, pitch: 4, host_memory: "none" };
        set.take_place();
        assert_eq!(to, [2, 1, 0, 0, 2, 1, 0, 0]);
    }
}
