//! Multicast objects: addresses whose writes reach every device that is bound. They take no memory of their own.

use super::device::ordinal;
use crate::call::Call;
use crate::error::{INVALID_VALUE, Outcome};
use crate::export::exports;
use crate::handle::Handle;
use crate::parameter::{In, Out};
use crate::state::Guard;
use crate::virtual_memory::{GRANULARITY, Origin, Physical, memory_file};

exports! {
    cuMulticastCreate => create(handle: Out<Handle>, properties: In<Properties>);
    cuMulticastAddDevice => add_device(handle: Handle, device: i32);
    cuMulticastBindMem => bind_memory(handle: Handle, offset: usize, memory: Handle, from: usize, bytes: usize, flags: u64);
    cuMulticastBindMem_v2 => bind_memory_v2(handle: Handle, device: i32, offset: usize, memory: Handle, from: usize, bytes: usize, flags: u64);
    cuMulticastBindAddr_v2 => bind_address_v2(handle: Handle, device: i32, offset: usize, address: u64, bytes: usize, flags: u64);
    cuMulticastBindAddr => bind_address(handle: Handle, offset: usize, address: u64, bytes: usize, flags: u64);
    cuMulticastUnbind => unbind(handle: Handle, device: i32, offset: usize, bytes: usize);
    cuMulticastGetGranularity => granularity(granularity: Out<usize>, properties: In<Properties>, option: u32);
}

/// `CUmulticastObjectProp` of cuda.h.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Properties {
    devices: u32,
    bytes: usize,
    handles: u64,
    flags: u64,
}

fn create(call: &mut Call, handle: Out<Handle>, properties: In<Properties>) -> Outcome {
    let Properties { devices, bytes, flags, .. } = *properties;
    let bytes = bytes as u64;
    if devices == 0 || bytes == 0 || !bytes.is_multiple_of(GRANULARITY) || flags != 0 {
        return Err(INVALID_VALUE);
    }
    let file = memory_file(bytes)?;
    let new = Physical { bytes, origin: Origin::Multicast, references: 1, mappings: 0, shared: false, file };
    let known = call.lock().virtual_memory.physical.insert(new);
    handle.put(known);
    Ok(())
}

/// The size of a multicast object.
fn size(state: &Guard, handle: Handle) -> Outcome<u64> {
    let object =
        state.virtual_memory.physical.get(handle).filter(|object| object.origin == Origin::Multicast);
    Ok(object.ok_or(INVALID_VALUE)?.bytes)
}

/// Checks that a part of an object exists and is aligned.
fn check_part(state: &Guard, handle: Handle, offset: usize, bytes: usize) -> Outcome {
    let size = size(state, handle)?;
    let aligned = [offset, bytes].iter().all(|number| (*number as u64).is_multiple_of(GRANULARITY));
    if bytes > 0 && aligned && (offset as u64).saturating_add(bytes as u64) <= size {
        Ok(())
    } else {
        Err(INVALID_VALUE)
    }
}

fn add_device(call: &mut Call, handle: Handle, device: i32) -> Outcome {
    ordinal(device)?;
    size(&call.lock(), handle).map(|_| ())
}

fn bind_memory(
    call: &mut Call,
    handle: Handle,
    offset: usize,
    memory: Handle,
    from: usize,
    bytes: usize,
    flags: u64,
) -> Outcome {
    let state = call.lock();
    check_part(&state, handle, offset, bytes)?;
    let physical = state.virtual_memory.physical.get(memory).ok_or(INVALID_VALUE)?;
    let inside = (from as u64).saturating_add(bytes as u64) <= physical.bytes;
    if flags == 0 && inside && matches!(physical.origin, Origin::Device(_)) {
        Ok(())
    } else {
        Err(INVALID_VALUE)
    }
}

fn bind_address(
    call: &mut Call,
    handle: Handle,
    offset: usize,
    address: u64,
    bytes: usize,
    flags: u64,
) -> Outcome {
    let state = call.lock();
    check_part(&state, handle, offset, bytes)?;
    if flags == 0 && state.memory.covers(address, bytes as u64) { Ok(()) } else { Err(INVALID_VALUE) }
}

#[allow(clippy::too_many_arguments, reason = "as many as cuda.h has")]
fn bind_memory_v2(
    call: &mut Call,
    handle: Handle,
    device: i32,
    offset: usize,
    memory: Handle,
    from: usize,
    bytes: usize,
    flags: u64,
) -> Outcome {
    ordinal(device)?;
    bind_memory(call, handle, offset, memory, from, bytes, flags)
}

fn bind_address_v2(
    call: &mut Call,
    handle: Handle,
    device: i32,
    offset: usize,
    address: u64,
    bytes: usize,
    flags: u64,
) -> Outcome {
    ordinal(device)?;
    bind_address(call, handle, offset, address, bytes, flags)
}

fn unbind(call: &mut Call, handle: Handle, device: i32, offset: usize, bytes: usize) -> Outcome {
    ordinal(device)?;
    check_part(&call.lock(), handle, offset, bytes)
}

fn granularity(_: &mut Call, granularity: Out<usize>, _: In<Properties>, option: u32) -> Outcome {
    if option > 1 {
        return Err(INVALID_VALUE);
    }
    granularity.put(GRANULARITY as usize);
    Ok(())
}
