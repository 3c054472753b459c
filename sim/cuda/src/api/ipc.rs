//! Memory of other processes (IPC, shared pools) and of other APIs.

use super::array::{Descriptor3d, new_mipmap};
use super::memory::{report_alloc, report_free};
use crate::call::Call;
use crate::effects;
use crate::error::{INVALID_HANDLE, INVALID_VALUE, NOT_SUPPORTED, Outcome};
use crate::export::exports;
use crate::handle::Handle;
use crate::imported::{Exported, External};
use crate::memory::{Allocation, MemoryKind};
use crate::parameter::{In, Out};
use crate::pool::Pool;
use crate::state::Guard;
use crate::virtual_memory::{Physical, memory_file};

exports! {
    cuIpcGetMemHandle => get_handle(exported: Out<Exported>, address: u64);
    cuIpcOpenMemHandle | cuIpcOpenMemHandle_v2 => open_handle(address: Out<u64>, exported: Exported, flags: u32);
    cuIpcCloseMemHandle => close_handle(address: u64);
    cuMemPoolExportToShareableHandle => export_pool(shared: Out<i32>, pool: Handle, kind: u32, flags: u64);
    cuMemPoolImportFromShareableHandle => import_pool(pool: Out<Handle>, shared: usize, kind: u32, flags: u64);
    cuMemPoolExportPointer => export_pointer(exported: Out<Exported>, address: u64);
    cuMemPoolImportPointer => import_pointer(address: Out<u64>, pool: Handle, exported: In<Exported>);
    cuImportExternalMemory => import_external(external: Out<Handle>, descriptor: In<ExternalDescriptor>);
    cuExternalMemoryGetMappedBuffer => external_buffer(address: Out<u64>, external: Handle, buffer: In<Buffer>);
    cuExternalMemoryGetMappedMipmappedArray => external_mipmap(mipmap: Out<Handle>, external: Handle, array: In<ExternalArray>);
    cuDestroyExternalMemory => destroy_external(external: Handle);
}

/// The beginning of `CUDA_EXTERNAL_MEMORY_HANDLE_DESC` of cuda.h.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ExternalDescriptor {
    kind: u32,
    /// The first of a union of handles, which is aligned as a pointer is.
    descriptor: u64,
    rest: u64,
    bytes: u64,
}

const _: () = assert!(size_of::<ExternalDescriptor>() == 32);

/// The beginning of `CUDA_EXTERNAL_MEMORY_BUFFER_DESC` of cuda.h.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Buffer {
    offset: u64,
    bytes: u64,
    flags: u32,
}

/// The beginning of `CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC` of cuda.h.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ExternalArray {
    offset: u64,
    array: Descriptor3d,
    levels: u32,
}

/// Adds memory of another process or API to this process's addresses.
fn import(call: &Call, state: &mut Guard, bytes: u64, pool: Handle) -> Outcome<u64> {
    let context = state.current()?;
    let device = state.context(context)?.device;
    let new = Allocation { pool, ..Allocation::new(MemoryKind::Imported, bytes, context, device) };
    let address = state.memory.allocate(new)?;
    report_alloc(call, address, bytes, MemoryKind::Imported, 0);
    Ok(address)
}

fn get_handle(call: &mut Call, exported: Out<Exported>, address: u64) -> Outcome {
    let state = call.lock();
    state.current()?;
    // cuda.h: the base of an allocation of cuMemAlloc.
    let found =
        state.memory.at(address).filter(|found| found.kind == MemoryKind::Device).ok_or(INVALID_VALUE)?;
    exported.put(Exported::new(found.id, found.bytes));
    Ok(())
}

fn open_handle(call: &mut Call, address: Out<u64>, exported: Exported, flags: u32) -> Outcome {
    // CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS; cuda.h: "must be specified as".
    if flags != 1 {
        return Err(INVALID_VALUE);
    }
    exported.check_foreign()?;
    let mut state = call.lock();
    let context = state.current()?;
    state.check_unsafe()?;
    let known = match state.imports.again(context, &exported) {
        Some(known) => {
            report_alloc(call, known, 0, MemoryKind::Imported, 0);
            known
        }
        None => {
            let known = import(call, &mut state, exported.bytes, 0)?;
            state.imports.opened(context, exported, known);
            known
        }
    };
    address.put(known);
    Ok(())
}

fn close_handle(call: &mut Call, address: u64) -> Outcome {
    let mut state = call.lock();
    state.current()?;
    let for_good = state.imports.closed(address)?;
    let mut bytes = 0;
    if for_good && let Some((gone, range)) = state.memory.remove(address) {
        bytes = gone.bytes;
        if let Some(range) = range {
            effects::push(effects::Effect::Release(range));
        }
    }
    report_free(call, address, bytes, MemoryKind::Imported, 0);
    Ok(())
}

fn export_pool(call: &mut Call, shared: Out<i32>, pool: Handle, kind: u32, flags: u64) -> Outcome {
    let state = call.lock();
    let of = state.pools.get(pool).ok_or(INVALID_HANDLE)?;
    if !of.shared || of.imported || kind != 1 || flags != 0 {
        return Err(INVALID_VALUE);
    }
    // The file has no bytes: the memory in a pool is shared pointer by pointer.
    let origin = crate::virtual_memory::Origin::Imported;
    let (references, mappings) = (0, 0);
    let known =
        Physical { bytes: 0, origin, references, mappings, shared: true, file: memory_file(0)? }.export()?;
    shared.put(known);
    Ok(())
}

fn import_pool(call: &mut Call, pool: Out<Handle>, shared: usize, kind: u32, flags: u64) -> Outcome {
    if kind != 1 || flags != 0 {
        return Err(INVALID_VALUE);
    }
    Physical::import(shared as i32)?;
    let known = call.lock().pools.insert(Pool { imported: true, ..Pool::default() });
    pool.put(known);
    Ok(())
}

fn export_pointer(call: &mut Call, exported: Out<Exported>, address: u64) -> Outcome {
    let state = call.lock();
    let found =
        state.memory.at(address).filter(|found| found.kind == MemoryKind::Pool).ok_or(INVALID_VALUE)?;
    if !state.pools.get(found.pool).is_some_and(|pool| pool.shared) {
        return Err(INVALID_VALUE);
    }
    exported.put(Exported::new(found.id, found.bytes));
    Ok(())
}

fn import_pointer(call: &mut Call, address: Out<u64>, pool: Handle, exported: In<Exported>) -> Outcome {
    let exported = *exported;
    exported.check()?;
    let mut state = call.lock();
    if !state.pools.get(pool).ok_or(INVALID_HANDLE)?.imported {
        return Err(INVALID_VALUE);
    }
    // It is freed like other memory, and never returned to a pool.
    let known = import(call, &mut state, exported.bytes, 0)?;
    address.put(known);
    Ok(())
}

fn import_external(call: &mut Call, external: Out<Handle>, descriptor: In<ExternalDescriptor>) -> Outcome {
    let ExternalDescriptor { kind, descriptor, bytes, .. } = *descriptor;
    // CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD.
    if kind != 1 {
        return Err(NOT_SUPPORTED);
    }
    let mut state = call.lock();
    let context = state.current()?;
    // SAFETY: cuda.h: after success the descriptor is the driver's; closing what is none fails.
    if bytes == 0 || unsafe { libc::close(descriptor as i32) } != 0 {
        return Err(INVALID_VALUE);
    }
    let known = state.imports.external.insert(External { bytes, context });
    external.put(known);
    Ok(())
}

fn external_buffer(call: &mut Call, address: Out<u64>, external: Handle, buffer: In<Buffer>) -> Outcome {
    let Buffer { offset, bytes, flags } = *buffer;
    let mut state = call.lock();
    let all = state.imports.external.get(external).ok_or(INVALID_HANDLE)?.bytes;
    if flags != 0 || bytes == 0 || offset.checked_add(bytes).is_none_or(|end| end > all) {
        return Err(INVALID_VALUE);
    }
    let known = import(call, &mut state, bytes, 0)?;
    address.put(known);
    Ok(())
}

fn external_mipmap(
    call: &mut Call,
    mipmap: Out<Handle>,
    external: Handle,
    array: In<ExternalArray>,
) -> Outcome {
    let ExternalArray { array, levels, .. } = *array;
    let mut state = call.lock();
    state.imports.external.get(external).ok_or(INVALID_HANDLE)?;
    let known = new_mipmap(call, &mut state, &array, levels, false)?;
    mipmap.put(known);
    Ok(())
}

fn destroy_external(call: &mut Call, external: Handle) -> Outcome {
    call.lock().imports.external.remove(external).map(|_| ()).ok_or(INVALID_HANDLE)
}
