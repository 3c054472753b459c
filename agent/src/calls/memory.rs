//! How are allocations and frees recorded?

use core::cell::Cell;
use gpuspy_wire::record::{self, Kind, Memory, flag};

use crate::calls::array::{self, Extent};
use crate::calls::order::Untimed;
use crate::calls::{Plain, context_number, current_context, stack_of, stream_of, written};
use crate::cuda::*;
use crate::driver;
use crate::gpu::context::{Context, Contexts};
use crate::gpu::depth::Entries;
use crate::gpu::stream::Stream;
use crate::gpu::stream_capture::is_captured;
use crate::python::Depth;
use crate::sink::Session;
use crate::thread::Call;

/// Where an allocation's address or handle is found.
enum Address {
    /// Written by the call, to be read after success: a CUdeviceptr, a pointer or a handle, each with 64
    /// bits.
    Out(*const u64),
    /// Known before the call.
    Known(u64),
}

/// The size of an allocation.
enum Size {
    /// This number of bytes.
    Bytes(usize),
    /// This number of rows, each of the number of bytes that the call writes.
    Rows(usize, *const size_t),
    /// Unknown from the call: the driver is queried.
    FromDriver,
}

/// An allocation, or a similar call: memory is mapped, imported or registered with CUDA.
pub struct Alloc {
    address: Address,
    size: Size,
    memory: Memory,
    /// The pool, or the handle that is mapped.
    source: u64,
    stream: Option<CUstream>,
    /// The GPU that the call names; none: that of the stream, or of the current context.
    device: Option<CUdevice>,
    untimed: Untimed,
    is_captured: Cell<bool>,
}

impl Alloc {
    fn new(address: Address, size: Size, memory: Memory) -> Alloc {
        let (untimed, is_captured) = (Untimed::default(), Cell::new(false));
        Alloc { address, size, memory, source: 0, stream: None, device: None, untimed, is_captured }
    }

    /// An allocation whose address or handle the call writes to `out`.
    pub fn at<T>(out: *mut T, bytes: usize, memory: Memory) -> Alloc {
        const { assert!(size_of::<T>() == 8) };
        Alloc::new(Address::Out(out.cast_const().cast()), Size::Bytes(bytes), memory)
    }

    /// Rows of device memory; the call writes their distance in bytes to `pitch`.
    pub fn pitched<T>(out: *mut T, pitch: *mut size_t, rows: usize) -> Alloc {
        Alloc { size: Size::Rows(rows, pitch), ..Alloc::at(out, 0, Memory::Device) }
    }

    /// cudaMalloc3D's allocation: rows of slices.
    pub fn pitched_3d(out: *mut cudaPitchedPtr, extent: cudaExtent) -> Alloc {
        // The struct's first two words. Nothing is read unless the call succeeds, so wrapping_add on a null
        // pointer is harmless.
        let (address, pitch) = (out.cast::<u64>(), out.cast::<size_t>().wrapping_add(1));
        Alloc::pitched(address, pitch, extent.height.saturating_mul(extent.depth))
    }

    /// An array with `levels` mipmap levels, whose handle the call writes to `out`.
    pub fn array<T>(out: *mut T, extent: Option<Extent>, levels: unsigned_int) -> Alloc {
        Alloc::at(out, extent.map_or(0, |e| array::bytes(&e, levels)), Memory::Array)
    }

    /// Memory of the app's own that the call registers with CUDA.
    pub fn of(address: *mut void, bytes: usize, memory: Memory) -> Alloc {
        Alloc::new(Address::Known(address as u64), Size::Bytes(bytes), memory)
    }

    /// Physical memory, whose handle the call writes to `out`. Host memory is not tracked, so only the call
    /// is recorded then.
    pub fn created(
        out: *mut CUmemGenericAllocationHandle,
        bytes: usize,
        properties: *const CUmemAllocationProp,
    ) -> Alloc {
        // SAFETY: null, or the properties that the app has passed to the call.
        let properties = unsafe { properties.as_ref() };
        match properties.map(|p| p.location) {
            Some(LOCATION_DEVICE) => {
                Alloc { device: properties.map(|p| p.device), ..Alloc::at(out, bytes, Memory::Reserved) }
            }
            Some(LOCATION_LOCALITY_DOMAIN) => Alloc::at(out, bytes, Memory::Reserved),
            _ => Alloc::of(core::ptr::null_mut(), 0, Memory::Reserved),
        }
    }

    /// Another reference to the physical memory whose handle the call writes to `out`.
    pub fn retained(out: *mut CUmemGenericAllocationHandle) -> Alloc {
        Alloc::at(out, 0, Memory::Reserved)
    }

    /// A buffer in another API's memory.
    pub fn of_external<T>(out: *mut T, buffer: *const CUDA_EXTERNAL_MEMORY_BUFFER_DESC) -> Alloc {
        // SAFETY: as above.
        let bytes = unsafe { buffer.as_ref() }.map_or(0, |b| b.size as usize);
        Alloc::at(out, bytes, Memory::Imported)
    }

    /// Physical memory of a handle, mapped at an address.
    pub fn mapped(address: CUdeviceptr, bytes: usize, handle: CUmemGenericAllocationHandle) -> Alloc {
        Alloc { source: handle, ..Alloc::new(Address::Known(address), Size::Bytes(bytes), Memory::Mapped) }
    }

    /// Another process's memory, whose address the call writes to `out`.
    pub fn imported<T>(out: *mut T) -> Alloc {
        Alloc { size: Size::FromDriver, ..Alloc::at(out, 0, Memory::Imported) }
    }

    /// Makes it a stream-ordered allocation.
    pub fn on(self, stream: CUstream) -> Alloc {
        Alloc { stream: Some(stream), ..self }
    }

    /// Makes it an allocation from a pool that the app names.
    pub fn from(self, pool: CUmemoryPool) -> Alloc {
        Alloc { source: pool as u64, ..self }
    }

    fn address(&self) -> u64 {
        match self.address {
            Address::Known(address) => address,
            Address::Out(out) => written(out).unwrap_or(0),
        }
    }

    fn bytes(&self, address: u64) -> u64 {
        match self.size {
            Size::Bytes(bytes) => bytes as u64,
            Size::Rows(rows, pitch) => written(pitch).unwrap_or(0).saturating_mul(rows) as u64,
            Size::FromDriver => driver::driver().map_or(0, |d| d.bytes_at(address)) as u64,
        }
    }

    /// The number of a context on the GPU that has the memory; 0 = unknown.
    fn context(&self, call: &Call, stream: Option<&Stream>) -> u32 {
        let Some(device) = self.device else { return context_number(call, stream) };
        let is_there = |context: &&Context| context.device == device as u32;
        let current = current_context(call).filter(is_there);
        current.or_else(|| call.session.get::<Contexts>().iter().find(is_there)).map_or(0, |c| c.number)
    }
}

impl Plain for Alloc {
    const IS_ALWAYS_NOTED: bool = true;

    fn kind(&self) -> Kind {
        Kind::Alloc
    }

    fn before(&self, call: &Call) {
        if let Some(stream) = self.stream {
            self.is_captured.set(is_captured(call, stream_of(call, stream).map_or(stream, Stream::handle)));
            self.untimed.begin(call, stream);
        }
    }

    fn failed(&self, _: &Call) {
        self.untimed.failed();
    }

    fn after(&self, call: &Call, end: u64) -> bool {
        if let Some(stream) = self.stream {
            self.untimed.end(call, stream, Entries::add);
        }
        let address = self.address();
        if address == 0 {
            return false; // cudaMalloc of no bytes succeeds with a null pointer; or it is host memory
        }
        let stream = self.stream.and_then(|s| stream_of(call, s));
        let mut record = record::Alloc {
            head: call.head::<record::Alloc>(if self.is_captured.get() { flag::CAPTURED } else { 0 }),
            correlation: call.correlation,
            begin: call.begin,
            end,
            caller: call.caller,
            address,
            bytes: self.bytes(address),
            context: self.context(call, stream),
            stream: stream.map_or(0, Stream::id),
            pool: self.source,
            ..Default::default()
        };
        record.memory = self.memory as u8;
        record.stack = stack_of(call, Depth::Whole);
        call.record(&record);
        true
    }

    fn begins_unrecorded(&self, session: Session, per_thread: bool) {
        if let Some(stream) = self.stream {
            self.untimed.begin_unrecorded(session, stream, per_thread);
        }
    }

    fn over_unrecorded(&self, session: Session, succeeded: bool) {
        self.untimed.end_unrecorded(session, succeeded, Entries::add);
    }

    /// Of a call that failed, the bytes that it asked for.
    fn subject(&self) -> u64 {
        match self.size {
            Size::Bytes(bytes) => bytes as u64,
            Size::Rows(..) | Size::FromDriver => 0,
        }
    }
}

/// A free. It is published before the real call, so that no allocation of the same address can come before
/// it.
pub struct Free {
    address: u64,
    /// Frees all blocks in this number of bytes; 0: the one block at the address.
    bytes: usize,
    memory: Memory,
    stream: Option<CUstream>,
    untimed: Untimed,
    is_captured: Cell<bool>,
}

impl Free {
    /// A free of an address or a handle.
    pub fn of(address: u64, memory: Memory) -> Free {
        let (untimed, is_captured) = (Untimed::default(), Cell::new(false));
        Free { address, bytes: 0, memory, stream: None, untimed, is_captured }
    }

    /// An unmapping of everything mapped in a range.
    pub fn unmapped(address: u64, bytes: usize) -> Free {
        Free { bytes, ..Free::of(address, Memory::Mapped) }
    }

    /// Makes it a stream-ordered free.
    pub fn on(self, stream: CUstream) -> Free {
        Free { stream: Some(stream), ..self }
    }

    fn publish(&self, call: &Call) {
        if self.address == 0 {
            return; // a free of nothing
        }
        let stream = self.stream.and_then(|s| stream_of(call, s));
        let mut record = record::Free {
            head: call.head::<record::Free>(if self.is_captured.get() { flag::CAPTURED } else { 0 }),
            correlation: call.correlation,
            begin: call.begin,
            caller: call.caller,
            address: self.address,
            context: context_number(call, stream),
            stream: stream.map_or(0, Stream::id),
            bytes: self.bytes as u64,
            ..Default::default()
        };
        record.memory = self.memory as u8;
        record.stack = stack_of(call, Depth::Whole);
        call.publish(&record);
    }
}

impl Plain for Free {
    const IS_ALWAYS_NOTED: bool = true;

    fn kind(&self) -> Kind {
        Kind::Free
    }

    fn before(&self, call: &Call) {
        if let Some(stream) = self.stream {
            self.is_captured.set(is_captured(call, stream_of(call, stream).map_or(stream, Stream::handle)));
        }
        self.publish(call);
        if let Some(stream) = self.stream {
            self.untimed.begin(call, stream);
        }
    }

    fn failed(&self, _: &Call) {
        self.untimed.failed();
    }

    fn after(&self, call: &Call, _: u64) -> bool {
        if let Some(stream) = self.stream {
            self.untimed.end(call, stream, Entries::add);
        }
        if call.layer == crate::hook::Layer::Runtime {
            // The driver's free was not observed, so the record is published late rather than never.
            self.publish(call);
        }
        false // the call's end and result follow as an Api record with the same correlation
    }

    fn begins_unrecorded(&self, session: Session, per_thread: bool) {
        if let Some(stream) = self.stream {
            self.untimed.begin_unrecorded(session, stream, per_thread);
        }
    }

    fn over_unrecorded(&self, session: Session, succeeded: bool) {
        self.untimed.end_unrecorded(session, succeeded, Entries::add);
    }

    fn subject(&self) -> u64 {
        self.address
    }
}
