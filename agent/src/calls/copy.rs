//! How are copies, memsets and prefetches recorded?

use core::ffi::c_uint;
use gpuspy_wire::record::{self, Direction, flag};

use crate::calls::Work;
use crate::cuda::*;
use crate::gpu::context::Contexts;
use crate::thread::Call;

/// A copy by any API.
#[derive(Clone, core::marker::Copy)]
pub struct Copy {
    direction: Direction,
    dst: u64,
    src: u64,
    bytes: u64,
    /// The number of rows of a 2D or 3D copy, or of copies in a batch.
    rows: u64,
    /// [`flag::PREFETCH`] or [`flag::BATCH`].
    flags: u16,
    /// The stream argument; `None`: a blocking copy on the default stream.
    stream: Option<CUstream>,
    /// The contexts of a peer copy: the destination's and the source's.
    peer: Option<(CUcontext, CUcontext)>,
}

/// Converts a cudaMemcpyKind (driver_types.h): HostToHost, HostToDevice, DeviceToHost, DeviceToDevice,
/// Default.
pub fn runtime_direction(kind: cudaMemcpyKind) -> Direction {
    match kind {
        0 => Direction::HtoH,
        1 => Direction::HtoD,
        2 => Direction::DtoH,
        3 => Direction::DtoD,
        _ => Direction::Default,
    }
}

/// Returns the direction between two sides, each of which is the host, a device, or unknown.
fn between(src_is_host: Option<bool>, dst_is_host: Option<bool>) -> Direction {
    match (src_is_host, dst_is_host) {
        (Some(true), Some(true)) => Direction::HtoH,
        (Some(true), Some(false)) => Direction::HtoD,
        (Some(false), Some(true)) => Direction::DtoH,
        (Some(false), Some(false)) => Direction::DtoD,
        _ => Direction::Default,
    }
}

/// Whether a CUmemorytype is host memory; `None` for unified addresses, which the driver resolves.
fn is_host(memory: c_uint) -> Option<bool> {
    (memory != MEMORYTYPE_UNIFIED).then_some(memory == MEMORYTYPE_HOST)
}

/// Returns the first address of a side, by its CUmemorytype. An array has no address and is represented by its
/// handle.
fn first(memory: c_uint, [host, device, array]: [u64; 3], offset: u64) -> u64 {
    match memory {
        MEMORYTYPE_HOST => host.wrapping_add(offset),
        MEMORYTYPE_ARRAY => array,
        _ => device.wrapping_add(offset),
    }
}

impl Side2D {
    fn first(&self) -> u64 {
        let offset = self.y.wrapping_mul(self.pitch).wrapping_add(self.x_bytes) as u64;
        first(self.memory, [self.host, self.device, self.array as u64], offset)
    }
}

impl Side3D {
    fn first(&self) -> u64 {
        let rows = self.z.wrapping_mul(self.height).wrapping_add(self.y);
        let offset = rows.wrapping_mul(self.pitch).wrapping_add(self.x_bytes) as u64;
        first(self.memory, [self.host, self.device, self.array as u64], offset)
    }
}

impl RuntimeSide3D {
    /// Returns the first address, or the array's handle.
    fn first(&self) -> u64 {
        let [x, y, z] = self.position;
        let rows = z.wrapping_mul(self.pointer.height).wrapping_add(y);
        let offset = rows.wrapping_mul(self.pointer.pitch).wrapping_add(x) as u64;
        if self.array.is_null() { (self.pointer.ptr as u64).wrapping_add(offset) } else { self.array as u64 }
    }
}

impl Operand3D {
    fn first(&self) -> u64 {
        let [pointer_or_array, ..] = self.body;
        pointer_or_array
    }

    fn is_host(&self) -> Option<bool> {
        (self.kind == OPERAND_ARRAY).then_some(false)
    }
}

impl Copy {
    /// Creates a blocking copy.
    pub fn new(direction: Direction, dst: u64, src: u64, bytes: usize) -> Copy {
        Copy { direction, dst, src, bytes: bytes as u64, rows: 1, flags: 0, stream: None, peer: None }
    }

    /// Makes it an asynchronous copy.
    pub fn on(self, stream: CUstream) -> Copy {
        Copy { stream: Some(stream), ..self }
    }

    /// Makes it an asynchronous copy by the runtime where it is unknown which argument is the stream. The
    /// stream is not needed: no event is recorded around a runtime call.
    pub fn on_some_stream(self) -> Copy {
        self.on(core::ptr::null_mut())
    }

    /// Makes it a copy between two contexts.
    pub fn peer(self, dst: CUcontext, src: CUcontext) -> Copy {
        Copy { peer: Some((dst, src)), ..self }
    }

    /// Sets the width of a row in bytes, the number of rows and the number of slices.
    fn shaped(self, width: usize, height: usize, depth: usize) -> Copy {
        let rows = (height as u64).saturating_mul(depth as u64);
        Copy { bytes: rows.saturating_mul(width as u64), rows, ..self }
    }

    /// Creates a copy of rows.
    pub fn plane(direction: Direction, dst: u64, src: u64, width: usize, height: usize) -> Copy {
        Copy::new(direction, dst, src, 0).shaped(width, height, 1)
    }

    /// Creates a copy between an address and an array, or between two arrays. An array is represented by its
    /// handle.
    pub fn array(
        direction: Direction,
        dst: *const void,
        src: *const void,
        width: usize,
        height: usize,
    ) -> Copy {
        Copy::plane(direction, dst as u64, src as u64, width, height)
    }

    /// Creates a copy about which nothing is known: its arguments are null, and the driver will refuse them.
    fn unknown() -> Copy {
        Copy::new(Direction::Default, 0, 0, 0)
    }

    /// Reads cuMemcpy2D's structure.
    pub fn of_2d(copy: *const CUDA_MEMCPY2D) -> Copy {
        // SAFETY: the app's struct, which the real call reads too.
        let Some(copy) = (unsafe { copy.as_ref() }) else { return Copy::unknown() };
        let direction = between(is_host(copy.src.memory), is_host(copy.dst.memory));
        Copy::plane(direction, copy.dst.first(), copy.src.first(), copy.width, copy.height)
    }

    /// Reads cuMemcpy3D's structure.
    pub fn of_3d(copy: *const CUDA_MEMCPY3D) -> Copy {
        // SAFETY: as in `of_2d`.
        let Some(copy) = (unsafe { copy.as_ref() }) else { return Copy::unknown() };
        let direction = between(is_host(copy.src.memory), is_host(copy.dst.memory));
        let linear = Copy::new(direction, copy.dst.first(), copy.src.first(), 0);
        linear.shaped(copy.width, copy.height, copy.depth)
    }

    /// Reads cuMemcpy3DPeer's structure. The copy is between two contexts, as far as its sides have one.
    pub fn of_3d_peer(copy: *const CUDA_MEMCPY3D_PEER) -> Copy {
        let plain = Copy::of_3d(copy);
        // The context field may contain anything where it is not read (cuda.h, CUDA_MEMCPY3D_PEER).
        let of_side = |side: &Side3D| match side.memory {
            MEMORYTYPE_DEVICE | MEMORYTYPE_UNIFIED => side.context,
            _ => core::ptr::null_mut(),
        };
        // SAFETY: as in `of_2d`.
        match unsafe { copy.as_ref() } {
            Some(copy) if matches!(plain.direction, Direction::DtoD | Direction::Default) => {
                let direction = match plain.direction {
                    Direction::DtoD => Direction::PtoP,
                    unsaid => unsaid,
                };
                Copy { direction, ..plain }.peer(of_side(&copy.dst), of_side(&copy.src))
            }
            _ => plain,
        }
    }

    /// Reads cudaMemcpy3D's structure. For an array, the width is in elements whose size is unknown: each
    /// counts as a byte.
    pub fn of_runtime_3d(copy: *const cudaMemcpy3DParms) -> Copy {
        // SAFETY: as in `of_2d`.
        let Some(copy) = (unsafe { copy.as_ref() }) else { return Copy::unknown() };
        let direction = runtime_direction(copy.kind);
        let linear = Copy::new(direction, copy.dst.first(), copy.src.first(), 0);
        linear.shaped(copy.extent.width, copy.extent.height, copy.extent.depth)
    }

    /// Reads cudaMemcpy3DPeer's structure. For the width see [`Copy::of_runtime_3d`].
    pub fn of_runtime_3d_peer(copy: *const cudaMemcpy3DPeerParms) -> Copy {
        // SAFETY: as in `of_2d`.
        let Some(copy) = (unsafe { copy.as_ref() }) else { return Copy::unknown() };
        let linear = Copy::new(Direction::PtoP, copy.dst.side.first(), copy.src.side.first(), 0);
        linear.shaped(copy.extent.width, copy.extent.height, copy.extent.depth)
    }

    /// Joins the copies of a batch, which are one operation on the stream, under the addresses of the first.
    fn several<T>(all: &[T], one: impl Fn(&T) -> Copy) -> Copy {
        let mut copies = all.iter().map(one);
        let Some(first) = copies.next() else { return Copy::unknown() };
        let bytes = copies.fold(first.bytes, |sum, copy| sum.saturating_add(copy.bytes));
        Copy { bytes, rows: all.len() as u64, flags: first.flags | flag::BATCH, ..first }
    }

    /// Creates a batch from arrays of addresses and sizes.
    pub fn batch<A: Address>(dsts: *const A, srcs: *const A, sizes: *const usize, count: usize) -> Copy {
        let first = |of: &[A]| of.first().map_or(0, A::address);
        let copy = Copy::new(Direction::Default, first(list(dsts, count)), first(list(srcs, count)), 0);
        let all = Copy::several(list(sizes, count), |size| Copy { bytes: *size as u64, ..copy });
        Copy { dst: copy.dst, src: copy.src, ..all }
    }

    /// Creates a batch of 3D copies. If an array is involved, the width is in elements whose size is unknown:
    /// each counts as a byte.
    pub fn batch_3d(operations: *const CUDA_MEMCPY3D_BATCH_OP, count: usize) -> Copy {
        Copy::several(list(operations, count), |operation| {
            let [width, height, depth] = operation.extent;
            let direction = between(operation.src.is_host(), operation.dst.is_host());
            Copy::new(direction, operation.dst.first(), operation.src.first(), 0).shaped(width, height, depth)
        })
    }

    /// Creates one 3D copy from the structure of a batch.
    pub fn of_operation(operation: *const CUDA_MEMCPY3D_BATCH_OP) -> Copy {
        let alone = Copy::batch_3d(operation, 1);
        // SAFETY: as in `of_2d`.
        let rows = unsafe { operation.as_ref() }.map_or(1, |operation| {
            let [_, height, depth] = operation.extent;
            (height as u64).saturating_mul(depth as u64)
        });
        Copy { rows, flags: alone.flags & !flag::BATCH, ..alone }
    }

    /// Creates a prefetch of managed memory to a device or to the host.
    fn prefetch(address: u64, bytes: usize, to_host: bool) -> Copy {
        let direction = if to_host { Direction::DtoH } else { Direction::HtoD };
        Copy { flags: flag::PREFETCH, ..Copy::new(direction, address, address, bytes) }
    }

    /// Creates a prefetch where it is unknown which argument is the destination.
    pub fn prefetch_somewhere(address: u64, bytes: usize) -> Copy {
        Copy { direction: Direction::Default, ..Copy::prefetch(address, bytes, false) }
    }

    /// Creates a prefetch to a device, or with [`DEVICE_CPU`] to the host.
    pub fn prefetch_to_device(address: u64, bytes: usize, device: CUdevice) -> Copy {
        Copy::prefetch(address, bytes, device == DEVICE_CPU)
    }

    /// Creates a prefetch to a location.
    pub fn prefetch_to(address: u64, bytes: usize, location: CUmemLocation) -> Copy {
        Copy::prefetch(address, bytes, LOCATIONS_HOST.contains(&location.kind))
    }

    /// Creates a batch of prefetches, with the first one's destination. `kinds` is the number of destinations.
    pub fn prefetch_batch<A: Address>(
        addresses: *const A,
        sizes: *const usize,
        count: usize,
        locations: *const CUmemLocation,
        kinds: usize,
    ) -> Copy {
        let (Some(address), Some(location)) =
            (list(addresses, count).first(), list(locations, kinds).first())
        else {
            return Copy::unknown();
        };
        Copy::several(list(sizes, count), |size| Copy::prefetch_to(address.address(), *size, *location))
    }
}

/// An address in an array of the app's: a number for the driver, a pointer for the runtime.
pub trait Address {
    /// Returns the address as a number.
    fn address(&self) -> u64;
}

impl Address for CUdeviceptr {
    fn address(&self) -> u64 {
        *self
    }
}

impl Address for *mut void {
    fn address(&self) -> u64 {
        *self as u64
    }
}

/// Returns the app's array; an empty one if it is impossible, which the driver will refuse.
fn list<'a, T>(first: *const T, count: usize) -> &'a [T] {
    if first.is_null() || count > isize::MAX as usize / size_of::<T>() {
        return &[];
    }
    // SAFETY: the app's array of `count` elements, which the real call reads too; it lives as long as that
    // call.
    unsafe { core::slice::from_raw_parts(first, count) }
}

impl Work for Copy {
    type Record = record::Memcpy;

    fn stream(&self) -> CUstream {
        self.stream.unwrap_or(core::ptr::null_mut())
    }

    fn is_work(&self) -> bool {
        self.bytes != 0
    }

    fn is_blocking(&self) -> bool {
        self.stream.is_none()
    }

    fn record(self, call: &Call, mut work: record::Work, entered: u32) -> record::Memcpy {
        let other = |(dst, src): (CUcontext, CUcontext)| {
            let driver = crate::driver::driver()?;
            let number = |handle| call.session.get::<Contexts>().get(call, driver, handle).map(|c| c.number);
            number(dst).filter(|n| *n != work.context).or_else(|| number(src))
        };
        let peer_context = self.peer.and_then(other).unwrap_or(0);
        work.head.flags |= self.flags;
        record::Memcpy {
            work,
            bytes: self.bytes,
            dst: self.dst,
            src: self.src,
            rows: u32::try_from(self.rows).unwrap_or(u32::MAX),
            peer_context,
            direction: self.direction as u8,
            asynchronous: u8::from(self.stream.is_some()),
            reserved: [0; 2],
            entered,
            reserved2: [0; 2],
        }
    }
}

/// A memset by any API.
pub struct Memset {
    dst: u64,
    value: u32,
    element: u8,
    count: u64,
    rows: u64,
    stream: Option<CUstream>,
}

impl Memset {
    /// Creates a memset of `count` elements of `element` bytes.
    pub fn new(dst: u64, value: u32, element: u8, count: usize) -> Memset {
        Memset::shaped(dst, value, element, [count, 1, 1])
    }

    /// Creates a memset of `height` rows of `width` elements.
    pub fn plane(dst: u64, value: u32, element: u8, width: usize, height: usize) -> Memset {
        Memset::shaped(dst, value, element, [width, height, 1])
    }

    /// Reads cudaMemset3D's structures.
    pub fn of_3d(pointer: cudaPitchedPtr, value: int, extent: cudaExtent) -> Memset {
        let shape = [extent.width, extent.height, extent.depth];
        Memset::shaped(pointer.ptr as u64, value as u32 & 0xff, 1, shape)
    }

    fn shaped(dst: u64, value: u32, element: u8, [width, height, depth]: [usize; 3]) -> Memset {
        let rows = (height as u64).saturating_mul(depth as u64);
        Memset { dst, value, element, count: rows.saturating_mul(width as u64), rows, stream: None }
    }

    /// Makes it an asynchronous memset.
    pub fn on(self, stream: CUstream) -> Memset {
        Memset { stream: Some(stream), ..self }
    }
}

impl Work for Memset {
    type Record = record::Memset;

    fn stream(&self) -> CUstream {
        self.stream.unwrap_or(core::ptr::null_mut())
    }

    fn is_work(&self) -> bool {
        self.count != 0
    }

    fn record(self, _: &Call, work: record::Work, entered: u32) -> record::Memset {
        record::Memset {
            work,
            bytes: self.count.saturating_mul(u64::from(self.element)),
            dst: self.dst,
            value: self.value,
            rows: u32::try_from(self.rows).unwrap_or(u32::MAX),
            element: self.element,
            asynchronous: u8::from(self.stream.is_some()),
            reserved: [0; 2],
            entered,
            reserved2: [0; 3],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_copy_has_the_contexts_of_those_sides_that_have_one() {
        let (one, garbage) = (0x1000 as CUcontext, 0xdead as CUcontext);
        let peer = |src, dst| {
            // SAFETY: integers and pointers only, all of them valid when zero.
            let mut copy: CUDA_MEMCPY3D_PEER = unsafe { core::mem::zeroed() };
            (copy.src.memory, copy.src.context) = src;
            (copy.dst.memory, copy.dst.context) = dst;
            Copy::of_3d_peer(&copy).peer
        };
        let none = core::ptr::null_mut();
        assert_eq!(peer((MEMORYTYPE_ARRAY, garbage), (MEMORYTYPE_DEVICE, one)), Some((one, none)));
        assert_eq!(peer((MEMORYTYPE_UNIFIED, one), (MEMORYTYPE_ARRAY, garbage)), Some((none, one)));
        assert_eq!(peer((MEMORYTYPE_HOST, garbage), (MEMORYTYPE_UNIFIED, one)), Some((one, none)));
        assert_eq!(
            peer((MEMORYTYPE_HOST, garbage), (MEMORYTYPE_DEVICE, one)),
            None,
            "a copy from the host has no second context"
        );
    }
}
