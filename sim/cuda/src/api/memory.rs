//! Memory management: allocations on device and host, and queries about addresses.

use crate::call::Call;
use crate::clocks::Ns;
use crate::config::config;
use crate::error::{HOST_MEMORY_ALREADY_REGISTERED, HOST_MEMORY_NOT_REGISTERED, INVALID_VALUE, Outcome};
use crate::export::exports;
use crate::memory::{Allocation, DEVICE_BYTES, MemoryKind};
use crate::parameter::{Maybe, Out, Pointer, Slice};
use crate::state::Guard;
use crate::{effects, thread, truth};
use std::sync::atomic::{AtomicU64, Ordering};

exports! {
    cuMemAlloc_v2 => alloc(address: Out<u64>, bytes: usize);
    cuMemAllocPitch_v2 => alloc_pitch(address: Out<u64>, pitch: Out<usize>, width: usize, height: usize, element: u32);
    cuMemAllocManaged => alloc_managed(address: Out<u64>, bytes: usize, flags: u32);
    cuMemFree_v2 => free(address: u64);
    cuMemAllocHost_v2 => alloc_host(address: Out<u64>, bytes: usize);
    cuMemHostAlloc => host_alloc(address: Out<u64>, bytes: usize, flags: u32);
    cuMemFreeHost => free_host(address: u64);
    cuMemHostRegister | cuMemHostRegister_v2 => host_register(address: u64, bytes: usize, flags: u32);
    cuMemHostUnregister => host_unregister(address: u64);
    cuMemHostGetDevicePointer_v2 => device_pointer(device: Out<u64>, host: u64, flags: u32);
    cuMemHostGetFlags => host_flags(flags: Out<u32>, host: u64);
    cuMemGetAddressRange_v2 => address_range(first: Maybe<u64>, bytes: Maybe<usize>, address: u64);
    cuMemGetInfo_v2 => info(free: Maybe<usize>, total: Maybe<usize>);
    cuPointerGetAttribute => pointer_attribute(value: Out<u8>, attribute: u32, address: u64);
    cuPointerGetAttributes => pointer_attributes(count: u32, attributes[count]: Slice<u32>, values[count]: Slice<*mut u8>, address: u64);
    cuPointerSetAttribute => set_pointer_attribute(value: Pointer<u8>, attribute: u32, address: u64);
}

/// Writes an allocation to the truth file.
pub fn report_alloc(call: &Call, address: u64, bytes: u64, kind: MemoryKind, stream: u64) {
    report("alloc", call.api.name, call.begin, (address, bytes), kind, stream, "");
}

/// Writes a free to the truth file.
pub fn report_free(call: &Call, address: u64, bytes: u64, kind: MemoryKind, stream: u64) {
    report("free", call.api.name, call.begin, (address, bytes), kind, stream, "");
}

/// Writes to the truth file what the graph launch `launch` allocates or frees; `what` is `alloc` or `free`.
pub fn report_graph_memory(
    call: &Call,
    what: &str,
    (address, bytes): (u64, u64),
    stream: u64,
    launch: u64,
    ran: Option<Ns>,
) {
    let ran = ran.map_or_else(|| "null".to_owned(), |ran| ran.to_string());
    let more = format!(",\"launch\":{launch},\"ran\":{ran}");
    report(what, call.api.name, call.begin, (address, bytes), MemoryKind::Graph, stream, &more);
}

/// Writes to the truth file that memory ended with its context.
pub fn report_gone(address: u64, bytes: u64, kind: MemoryKind) {
    report("gone", "", 0, (address, bytes), kind, 0, "");
}

fn report(
    what: &str,
    api: &str,
    begin: Ns,
    (address, bytes): (u64, u64),
    kind: MemoryKind,
    stream: u64,
    more: &str,
) {
    // Counted under the state's lock, so in the order of the calls; the lines themselves are in no order.
    static SEQUENCE: AtomicU64 = AtomicU64::new(0);
    let (tid, memory, seq) = (thread::tid(), kind.name(), SEQUENCE.fetch_add(1, Ordering::Relaxed));
    truth::line(format_args!(
        "\"kind\":\"{what}\",\"api\":\"{api}\",\"tid\":{tid},\"begin\":{begin},\"address\":{address},\
         \"bytes\":{bytes},\"memory\":\"{memory}\",\"stream\":{stream},\"seq\":{seq}{more}"
    ));
}

fn allocate(call: &mut Call, kind: MemoryKind, bytes: u64, flags: u32) -> Outcome<u64> {
    call.costs(config().cost.memory);
    let mut state = call.lock();
    let context = state.current()?;
    // cuda.h, cuThreadExchangeStreamCaptureMode: cudaMalloc is its example of an unsafe call.
    state.check_unsafe()?;
    let device = state.context(context)?.device;
    let allocation = Allocation { flags, ..Allocation::new(kind, bytes, context, device) };
    let address = state.memory.allocate(allocation)?;
    report_alloc(call, address, bytes, kind, 0);
    Ok(address)
}

fn alloc(call: &mut Call, address: Out<u64>, bytes: usize) -> Outcome {
    let known = allocate(call, MemoryKind::Device, bytes as u64, 0)?;
    address.put(known);
    Ok(())
}

fn alloc_pitch(
    call: &mut Call,
    address: Out<u64>,
    pitch: Out<usize>,
    width: usize,
    height: usize,
    element: u32,
) -> Outcome {
    if width == 0 || height == 0 || ![4, 8, 16].contains(&element) {
        return Err(INVALID_VALUE);
    }
    let row = width.next_multiple_of(512);
    let known = allocate(call, MemoryKind::Device, (row * height) as u64, 0)?;
    pitch.put(row);
    address.put(known);
    Ok(())
}

fn alloc_managed(call: &mut Call, address: Out<u64>, bytes: usize, flags: u32) -> Outcome {
    // CU_MEM_ATTACH_GLOBAL or CU_MEM_ATTACH_HOST.
    if flags != 1 && flags != 2 {
        return Err(INVALID_VALUE);
    }
    let known = allocate(call, MemoryKind::Managed, bytes as u64, flags)?;
    address.put(known);
    Ok(())
}

/// Waits for the context's work, and frees the allocation of the right kind that starts at `address`.
fn release(call: &mut Call, address: u64, right: impl Fn(MemoryKind) -> bool, wait: bool) -> Outcome {
    let mut state = call.lock();
    let context = state.current()?;
    state.check_assumed_unsafe("free_in_capture")?;
    let is_mapping = state.virtual_memory.is_mapped(address);
    let found = state.memory.at(address).filter(|found| right(found.kind) && !is_mapping);
    let found = found.ok_or(INVALID_VALUE)?;
    let (owner, is_graphs) =
        (if found.context == 0 { context } else { found.context }, found.kind == MemoryKind::Graph);
    if is_graphs {
        state.check_graph_block(address)?;
    }
    if wait {
        let work = state.context_work(owner);
        drop(state);
        call.wait_for(&work);
        state = call.lock();
        state.check_works(owner)?;
    }
    if is_graphs {
        return state.free_graph_block(call, address, 0, None);
    }
    let (gone, range) = state.memory.remove(address).ok_or(INVALID_VALUE)?;
    if let Some(range) = range {
        effects::push(effects::Effect::Release(range));
    }
    if let Some(pool) = state.pools.get_mut(gone.pool) {
        pool.count(-(gone.taken as i64), -(gone.taken as i64));
    }
    report_free(call, address, gone.bytes, gone.kind, 0);
    Ok(())
}

fn free(call: &mut Call, address: u64) -> Outcome {
    if address == 0 {
        // cuda.h: freeing 0 is no error.
        return call.lock().current().map(|_| ());
    }
    if call.lock().imports.is_open(address) {
        // cuda.h, cuIpcOpenMemHandle: such memory must be freed with cuIpcCloseMemHandle.
        return Err(INVALID_VALUE);
    }
    let right = |kind| {
        use MemoryKind::{Device, Graph, Imported, Managed, Pool};
        matches!(kind, Device | Managed | Pool | Imported | Graph)
    };
    let wait = config().assume.is("free", "synchronizes");
    release(call, address, right, wait)?;
    call.costs_after_wait(config().cost.memory);
    Ok(())
}

fn alloc_host(call: &mut Call, address: Out<u64>, bytes: usize) -> Outcome {
    host_alloc(call, address, bytes, 0)
}

fn host_alloc(call: &mut Call, address: Out<u64>, bytes: usize, flags: u32) -> Outcome {
    if flags > 7 {
        return Err(INVALID_VALUE);
    }
    let known = allocate(call, MemoryKind::Pinned, bytes as u64, flags)?;
    address.put(known);
    Ok(())
}

fn free_host(call: &mut Call, address: u64) -> Outcome {
    release(call, address, |kind| kind == MemoryKind::Pinned, true)
}

fn host_register(call: &mut Call, address: u64, bytes: usize, flags: u32) -> Outcome {
    if address == 0 || bytes == 0 || flags > 15 {
        return Err(INVALID_VALUE);
    }
    let mut state = call.lock();
    let context = state.current()?;
    state.check_unsafe()?;
    if state.memory.find(address).is_some() || state.memory.find(address + bytes as u64 - 1).is_some() {
        return Err(HOST_MEMORY_ALREADY_REGISTERED);
    }
    let device = state.context(context)?.device;
    let new = Allocation::new(MemoryKind::Registered, bytes as u64, context, device);
    state.memory.register(Allocation { address, flags, ..new });
    report_alloc(call, address, bytes as u64, MemoryKind::Registered, 0);
    Ok(())
}

fn host_unregister(call: &mut Call, address: u64) -> Outcome {
    release(call, address, |kind| kind == MemoryKind::Registered, true)
        .map_err(|error| if error == INVALID_VALUE { HOST_MEMORY_NOT_REGISTERED } else { error })
}

fn device_pointer(call: &mut Call, device: Out<u64>, host: u64, flags: u32) -> Outcome {
    let state = call.lock();
    state.current()?;
    let found = state.memory.find(host).filter(|found| found.kind.pinned() && flags == 0);
    found.ok_or(INVALID_VALUE)?;
    // Unified addressing: the same address on both sides.
    device.put(host);
    Ok(())
}

fn host_flags(call: &mut Call, flags: Out<u32>, host: u64) -> Outcome {
    let state = call.lock();
    let known = state.memory.find(host).filter(|found| found.kind.pinned()).ok_or(INVALID_VALUE)?.flags;
    flags.put(known);
    Ok(())
}

fn address_range(call: &mut Call, first: Maybe<u64>, bytes: Maybe<usize>, address: u64) -> Outcome {
    let state = call.lock();
    state.current()?;
    let found = state.memory.find(address).ok_or(crate::error::NOT_FOUND)?;
    first.put(found.address);
    bytes.put(found.bytes as usize);
    Ok(())
}

fn info(call: &mut Call, free: Maybe<usize>, total: Maybe<usize>) -> Outcome {
    let state = call.lock();
    let device = state.context(state.current()?)?.device;
    free.put(state.memory.free_bytes(device) as usize);
    total.put(DEVICE_BYTES as usize);
    Ok(())
}

/// Returns the value of a `CUpointer_attribute` in its size; none if the attribute is unknown.
fn attribute_of(state: &Guard, found: &Allocation, attribute: u32, address: u64) -> Option<Vec<u8>> {
    let word = |word: u32| Some(word.to_ne_bytes().to_vec());
    let long = |long: u64| Some(long.to_ne_bytes().to_vec());
    let flag = |flag: bool| Some(vec![u8::from(flag)]);
    let host = found.kind.pinned();
    match attribute {
        1 => long(found.context),
        2 => word(if host { 1 } else { 2 }), // CU_MEMORYTYPE_HOST, CU_MEMORYTYPE_DEVICE
        3 => long(address),
        4 => long(if host || found.kind == MemoryKind::Managed { address } else { 0 }),
        6 => word(0),
        7 => long(found.id),
        8 => word(u32::from(found.kind == MemoryKind::Managed)),
        9 => word(found.device),
        10 => flag(found.kind == MemoryKind::Device),
        11 => long(found.address),
        12 => long(found.bytes),
        13 => flag(true),
        14 => long(0),
        15 => flag(false),
        16 => word(3),
        17 => long(if state.pools.get(found.pool).is_some() { found.pool } else { 0 }),
        18 => long(found.bytes),
        19 => long(found.address),
        20 => long(found.id),
        21 => flag(false),
        _ => None,
    }
}

fn pointer_attribute(call: &mut Call, value: Out<u8>, attribute: u32, address: u64) -> Outcome {
    let state = call.lock();
    state.current()?;
    let found = state.memory.find(address).ok_or(INVALID_VALUE)?;
    let bytes = attribute_of(&state, found, attribute, address).ok_or(INVALID_VALUE)?;
    // SAFETY: cuda.h's promise: room for the attribute.
    unsafe { value.as_ptr().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    Ok(())
}

fn pointer_attributes(
    call: &mut Call,
    _: u32,
    attributes: Slice<u32>,
    values: Slice<*mut u8>,
    address: u64,
) -> Outcome {
    let state = call.lock();
    state.current()?;
    let unknown = Allocation::new(MemoryKind::Device, 0, 0, 0);
    let found = state.memory.find(address);
    for (&attribute, &value) in attributes.iter().zip(values.iter()) {
        // SAFETY: cuda.h's promise: each place is NULL or has room for its attribute.
        unsafe {
            let mut bytes =
                attribute_of(&state, found.unwrap_or(&unknown), attribute, address).ok_or(INVALID_VALUE)?;
            if found.is_none() {
                // cuda.h: an address unknown to CUDA has attributes of 0, and its device is -2.
                let unknown =
                    if attribute == 9 { (-2i32).to_ne_bytes().to_vec() } else { vec![0; bytes.len()] };
                bytes = unknown;
            }
            if !value.is_null() {
                value.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
            }
        }
    }
    Ok(())
}

fn set_pointer_attribute(call: &mut Call, _: Pointer<u8>, attribute: u32, address: u64) -> Outcome {
    let state = call.lock();
    state.memory.find(address).ok_or(INVALID_VALUE)?;
    // CU_POINTER_ATTRIBUTE_SYNC_MEMOPS is the only one that can be set (cuda.h).
    if attribute == 6 { Ok(()) } else { Err(INVALID_VALUE) }
}
