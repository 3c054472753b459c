//! Virtual memory management.

use super::device::ordinal;
use super::memory::{report_alloc, report_free};
use crate::call::Call;
use crate::config::config;
use crate::error::{INVALID_HANDLE, INVALID_VALUE, NOT_SUPPORTED, Outcome};
use crate::export::exports;
use crate::handle::Handle;
use crate::memory::{Allocation, MemoryKind};
use crate::parameter::{In, Out, Slice};
use crate::state::Guard;
use crate::virtual_memory::{GRANULARITY, Mapping, Origin, Physical, memory_file};

exports! {
    cuMemAddressReserve => reserve(address: Out<u64>, bytes: usize, alignment: usize, hint: u64, flags: u64);
    cuMemAddressFree => unreserve(address: u64, bytes: usize);
    cuMemCreate => create(handle: Out<Handle>, bytes: usize, properties: In<Properties>, flags: u64);
    cuMemRelease => release(handle: Handle);
    cuMemRetainAllocationHandle => retain(handle: Out<Handle>, address: u64);
    cuMemMap => map(address: u64, bytes: usize, offset: usize, handle: Handle, flags: u64);
    cuMemUnmap => unmap(address: u64, bytes: usize);
    cuMemSetAccess => set_access(address: u64, bytes: usize, access[count]: Slice<Access>, count: usize);
    cuMemGetAccess => get_access(flags: Out<u64>, location: In<Location>, address: u64);
    cuMemGetAllocationGranularity => granularity(granularity: Out<usize>, properties: In<Properties>, option: u32);
    cuMemExportToShareableHandle => export(shared: Out<i32>, handle: Handle, kind: u32, flags: u64);
    cuMemImportFromShareableHandle => import(handle: Out<Handle>, shared: usize, kind: u32);
}

/// `CUmemLocation` of cuda.h.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Location {
    kind: u32,
    id: i32,
}

/// `CUmemAllocationProp` of cuda.h.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Properties {
    kind: u32,
    handles: u32,
    location: Location,
    security: u64,
    flags: u64,
}

/// `CUmemAccessDesc` of cuda.h.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Access {
    location: Location,
    flags: u32,
}

const _: () = assert!(size_of::<Properties>() == 32 && size_of::<Access>() == 12);

impl Properties {
    /// Returns where memory with these properties lies. CU_MEM_ALLOCATION_TYPE_PINNED = 1; CU_MEM_LOCATION_TYPE_DEVICE =
    /// 1, _HOST = 2, _HOST_NUMA = 3; CU_MEM_HANDLE_TYPE_NONE = 0, _POSIX_FILE_DESCRIPTOR = 1.
    fn origin(&self) -> Outcome<Origin> {
        if self.kind != 1 {
            return Err(INVALID_VALUE);
        }
        if self.handles > 1 {
            return Err(NOT_SUPPORTED);
        }
        match self.location.kind {
            1 => ordinal(self.location.id).map(Origin::Device),
            2 | 3 => Ok(Origin::Host),
            _ => Err(INVALID_VALUE),
        }
    }
}

fn reserve(
    call: &mut Call,
    address: Out<u64>,
    bytes: usize,
    alignment: usize,
    _: u64,
    flags: u64,
) -> Outcome {
    if flags != 0 {
        return Err(INVALID_VALUE);
    }
    let known = call.lock().virtual_memory.reserve(bytes as u64, alignment as u64)?;
    address.put(known);
    Ok(())
}

fn unreserve(call: &mut Call, address: u64, bytes: usize) -> Outcome {
    call.lock().virtual_memory.unreserve(address, bytes as u64)
}

fn create(
    call: &mut Call,
    handle: Out<Handle>,
    bytes: usize,
    properties: In<Properties>,
    flags: u64,
) -> Outcome {
    let (origin, bytes) = (properties.origin()?, bytes as u64);
    if flags != 0 || bytes == 0 || !bytes.is_multiple_of(GRANULARITY) {
        return Err(INVALID_VALUE);
    }
    let mut state = call.lock();
    if let Origin::Device(device) = origin {
        state.memory.charge(device, bytes)?;
    }
    let (shared, file) = (properties.handles == 1, memory_file(bytes)?);
    let new = Physical { bytes, origin, references: 1, mappings: 0, shared, file };
    let known = state.virtual_memory.physical.insert(new);
    if matches!(origin, Origin::Device(_)) {
        report_alloc(call, known, bytes, MemoryKind::Reserved, 0);
    }
    handle.put(known);
    Ok(())
}

/// Frees physical memory that has neither references nor mappings any more.
fn settle(call: &Call, state: &mut Guard, handle: Handle) {
    let Some(gone) = state.virtual_memory.settle(handle) else { return };
    if let Origin::Device(device) = gone.origin {
        state.memory.discharge(device, gone.bytes);
        report_free(call, handle, gone.bytes, MemoryKind::Reserved, 0);
    }
}

fn release(call: &mut Call, handle: Handle) -> Outcome {
    let mut state = call.lock();
    let physical = state.virtual_memory.physical.get_mut(handle).filter(|physical| physical.references > 0);
    physical.ok_or(INVALID_VALUE)?.references -= 1;
    settle(call, &mut state, handle);
    Ok(())
}

fn retain(call: &mut Call, handle: Out<Handle>, address: u64) -> Outcome {
    let mut state = call.lock();
    let known = state.virtual_memory.mapping_at(address).ok_or(INVALID_VALUE)?.handle;
    state.virtual_memory.physical.get_mut(known).ok_or(INVALID_HANDLE)?.references += 1;
    handle.put(known);
    Ok(())
}

/// Returns a mapping's kind for the truth file, and the bytes that it adds: the first mapping of physical memory adds
/// them, and the last one removes them.
fn counted(state: &Guard, mapping: Mapping) -> (MemoryKind, u64) {
    let Some(physical) = state.virtual_memory.physical.get(mapping.handle) else {
        return (MemoryKind::Mapped, 0);
    };
    match physical.origin {
        Origin::Device(_) if physical.mappings > 1 => (MemoryKind::Mapped, 0),
        Origin::Device(_) => (MemoryKind::Mapped, mapping.bytes),
        _ => (MemoryKind::Imported, mapping.bytes),
    }
}

fn map(call: &mut Call, address: u64, bytes: usize, offset: usize, handle: Handle, flags: u64) -> Outcome {
    let mut state = call.lock();
    let physical = state.virtual_memory.physical.get(handle).filter(|physical| physical.references > 0);
    let origin = physical.ok_or(INVALID_VALUE)?.origin;
    if flags != 0 {
        return Err(INVALID_VALUE);
    }
    state.virtual_memory.map(address, bytes as u64, offset as u64, handle)?;
    let (kind, bytes_counted) = counted(&state, Mapping { bytes: bytes as u64, handle });
    let device = if let Origin::Device(device) = origin { device } else { 0 };
    report_alloc(call, address, bytes_counted, kind, 0);
    // The address is known, but unusable before cuMemSetAccess.
    state.virtual_memory.protect(address, false)?;
    let new = Allocation { address, usable: false, ..Allocation::new(kind, bytes as u64, 0, device) };
    state.memory.register(new);
    Ok(())
}

fn unmap(call: &mut Call, address: u64, bytes: usize) -> Outcome {
    let state = call.lock();
    let mappings = state.virtual_memory.mappings_in(address, bytes as u64)?;
    if mappings.len() > 1 && config().assume.is("unmap_many", "refused") {
        return Err(INVALID_VALUE);
    }
    // cuda.h calls cuMemUnmap synchronous for most uses: it waits for the work that may use the memory.
    let contexts: Vec<_> = state.contexts.iter().map(|(handle, _)| handle).collect();
    let work: Vec<_> = contexts.iter().flat_map(|context| state.context_work(*context)).collect();
    drop(state);
    call.wait_for(&work);
    let mut state = call.lock();
    for (first, mapping) in mappings {
        let (kind, bytes_counted) = counted(&state, mapping);
        state.virtual_memory.unmap(first)?;
        state.memory.remove(first);
        report_free(call, first, bytes_counted, kind, 0);
        settle(call, &mut state, mapping.handle);
    }
    Ok(())
}

fn set_access(call: &mut Call, address: u64, bytes: usize, access: Slice<Access>, count: usize) -> Outcome {
    if count == 0 {
        return Err(INVALID_VALUE);
    }
    // CU_MEM_ACCESS_FLAGS_PROT_NONE = 0, _READ = 1, _READWRITE = 3.
    if access.iter().any(|one| ![0, 1, 3].contains(&one.flags)) {
        return Err(INVALID_VALUE);
    }
    for one in access.iter().filter(|one| one.location.kind == 1) {
        ordinal(one.location.id)?;
    }
    let mut state = call.lock();
    let can_use = access.iter().any(|one| one.flags != 0);
    for (first, _) in state.virtual_memory.mappings_in(address, bytes as u64)? {
        state.virtual_memory.protect(first, can_use)?;
        state.memory.set_usable(first, can_use);
    }
    Ok(())
}

fn get_access(call: &mut Call, flags: Out<u64>, _: In<Location>, address: u64) -> Outcome {
    let state = call.lock();
    state.virtual_memory.mapping_at(address).ok_or(INVALID_VALUE)?;
    let known = if state.memory.is_usable(address) { 3 } else { 0 };
    flags.put(known);
    Ok(())
}

fn granularity(_: &mut Call, granularity: Out<usize>, properties: In<Properties>, option: u32) -> Outcome {
    properties.origin()?;
    // CU_MEM_ALLOC_GRANULARITY_MINIMUM = 0, _RECOMMENDED = 1.
    if option > 1 {
        return Err(INVALID_VALUE);
    }
    granularity.put(GRANULARITY as usize);
    Ok(())
}

fn export(call: &mut Call, shared: Out<i32>, handle: Handle, kind: u32, flags: u64) -> Outcome {
    let state = call.lock();
    let physical = state.virtual_memory.physical.get(handle).ok_or(INVALID_VALUE)?;
    if kind != 1 || flags != 0 || !physical.shared {
        return Err(INVALID_VALUE);
    }
    let known = physical.export()?;
    shared.put(known);
    Ok(())
}

fn import(call: &mut Call, handle: Out<Handle>, shared: usize, kind: u32) -> Outcome {
    if kind != 1 {
        return Err(INVALID_VALUE);
    }
    let known = call.lock().virtual_memory.physical.insert(Physical::import(shared as i32)?);
    handle.put(known);
    Ok(())
}
