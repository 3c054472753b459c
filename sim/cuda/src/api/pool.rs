//! Stream-ordered memory.

use super::device::ordinal;
use super::memory::{report_alloc, report_free};
use crate::call::Call;
use crate::effects;
use crate::error::{INVALID_HANDLE, INVALID_VALUE, NOT_SUPPORTED, OUT_OF_MEMORY, Outcome};
use crate::export::exports;
use crate::graph_memory::Requested;
use crate::handle::Handle;
use crate::memory::{Allocation, MemoryKind};
use crate::parameter::{In, Out, Slice};
use crate::pool::{FreeBlock, Pool};
use crate::state::{Guard, State};
use crate::work::{Work, issue};

exports! {
    cuMemAllocAsync | cuMemAllocAsync_ptsz => alloc_async(address: Out<u64>, bytes: usize, stream: Handle);
    cuMemAllocFromPoolAsync | cuMemAllocFromPoolAsync_ptsz => alloc_from_pool(address: Out<u64>, bytes: usize, pool: Handle, stream: Handle);
    cuMemFreeAsync | cuMemFreeAsync_ptsz => free_async(address: u64, stream: Handle);
    cuDeviceGetDefaultMemPool => default_pool(pool: Out<Handle>, device: i32);
    cuDeviceGetMemPool => device_pool(pool: Out<Handle>, device: i32);
    cuDeviceSetMemPool => set_device_pool(device: i32, pool: Handle);
    cuMemSetMemPool => set_pool(location: In<[i32; 2]>, kind: u32, pool: Handle);
    cuMemPoolCreate => create(pool: Out<Handle>, properties: In<PoolProperties>);
    cuMemPoolDestroy => destroy(pool: Handle);
    cuMemPoolTrimTo => trim(pool: Handle, keep: usize);
    cuMemPoolGetAttribute => get_attribute(pool: Handle, attribute: u32, value: Out<u8>);
    cuMemPoolSetAttribute => set_attribute(pool: Handle, attribute: u32, value: In<u8>);
    cuMemPoolGetAccess => get_access(flags: Out<u32>, pool: Handle, location: In<[u32; 2]>);
    cuMemPoolSetAccess => set_access(pool: Handle, map[count]: Slice<[u32; 3]>, count: usize);
}

/// `CUmemPoolProps` of cuda.h.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct PoolProperties {
    kind: u32,
    handles: u32,
    location: u32,
    device: i32,
    security: u64,
    most: u64,
    rest: [u64; 7],
}

const _: () = assert!(size_of::<PoolProperties>() == 88);

impl State {
    fn default_pool(&mut self, device: u32) -> Handle {
        let known = self.pools.iter().find(|(_, pool)| pool.default && pool.device == device);
        if let Some((handle, _)) = known {
            return handle;
        }
        self.pools.insert(Pool { device, default: true, ..Pool::default() })
    }

    /// Releases a pool's free blocks until it reserves no more than `keep` bytes.
    fn trim(&mut self, pool: Handle, keep: u64) {
        let now = self.now;
        let Some(of) = self.pools.get_mut(pool) else { return };
        let mut gone = Vec::new();
        for blocks in of.free.values_mut() {
            while of.reserved.0 > keep
                && let Some(at) = blocks.iter().position(|block| block.done.by(now))
            {
                let block = blocks.swap_remove(at);
                of.reserved.0 -= block.allocation.taken;
                gone.push(block);
            }
        }
        for block in gone {
            if let Some(range) = self.memory.release(&block.allocation) {
                effects::push(effects::Effect::Release(range));
            }
        }
    }
}

/// After a synchronization, makes pools release what they reserve beyond their threshold (cuda.h,
/// CU_MEMPOOL_ATTR_RELEASE_THRESHOLD).
pub fn synchronized(call: &Call) {
    let mut state = call.lock();
    let pools: Vec<_> = state.pools.iter().filter(|(_, pool)| !pool.free.is_empty()).collect();
    let keep: Vec<_> =
        pools.iter().map(|(handle, pool)| (*handle, pool.attributes.get(&4).copied())).collect();
    for (pool, threshold) in keep {
        state.trim(pool, threshold.unwrap_or(0));
    }
}

fn alloc_async(call: &mut Call, address: Out<u64>, bytes: usize, stream: Handle) -> Outcome {
    let mut state = call.lock();
    let stream = state.stream(call.api.per_thread, stream)?;
    let context = state.checked(stream).context;
    let device = state.context(context)?.device;
    let pool = match state.device_pools.get(&device) {
        Some(&pool) => pool,
        None => state.default_pool(device),
    };
    alloc(call, state, address, bytes as u64, pool, stream)
}

fn alloc_from_pool(
    call: &mut Call,
    address: Out<u64>,
    bytes: usize,
    pool: Handle,
    stream: Handle,
) -> Outcome {
    let mut state = call.lock();
    let stream = state.stream(call.api.per_thread, stream)?;
    alloc(call, state, address, bytes as u64, pool, stream)
}

fn alloc(
    call: &mut Call,
    mut state: Guard,
    address: Out<u64>,
    bytes: u64,
    pool: Handle,
    stream: Handle,
) -> Outcome {
    if state.checked(stream).capture.is_some() {
        let known = capture_alloc(call, &mut state, bytes, pool, stream)?;
        address.put(known);
        return Ok(());
    }
    let (now, id) = (state.now, state.checked(stream).id);
    let of = state.pools.get_mut(pool).ok_or(INVALID_HANDLE)?;
    if of.imported {
        // cuda.h, cuMemPoolImportFromShareableHandle: imported pools do not support new allocations.
        return Err(INVALID_VALUE);
    }
    let device = of.device;
    let taken = bytes.checked_next_multiple_of(512).filter(|&taken| taken > 0).ok_or(INVALID_VALUE)?;
    let known = match of.reuse(taken, stream, now) {
        Some(FreeBlock { allocation, .. }) => {
            of.count(taken as i64, 0);
            state.memory.revive(allocation, bytes)
        }
        None => {
            let has_room = |state: &Guard| state.pools.get(pool).is_some_and(|of| of.has_room(taken));
            if !has_room(&state) {
                // Free blocks that do not fit make room.
                state.trim(pool, 0);
            }
            if !has_room(&state) {
                return Err(OUT_OF_MEMORY);
            }
            // The memory belongs to no context: cuda.h, cuCtxDestroy.
            let new = Allocation { pool, ..Allocation::new(MemoryKind::Pool, bytes, 0, device) };
            let known = state.memory.allocate(new)?;
            state.pools.get_mut(pool).ok_or(INVALID_HANDLE)?.count(taken as i64, taken as i64);
            known
        }
    };
    report_alloc(call, known, bytes, MemoryKind::Pool, id);
    drop(issue(call, state, stream, &Work::Empty)?);
    address.put(known);
    Ok(())
}

/// In a capture an allocation becomes a node, "owned by the graph instead of the memory pool. The memory pool's properties
/// are used" (cuda.h, cuMemAllocAsync).
fn capture_alloc(call: &Call, state: &mut Guard, bytes: u64, pool: Handle, stream: Handle) -> Outcome<u64> {
    state.check_capture(stream)?;
    let of = state.pools.get(pool).ok_or(INVALID_HANDLE)?;
    if of.imported {
        return Err(INVALID_VALUE);
    }
    let mut properties = [0; 11];
    // CU_MEM_ALLOCATION_TYPE_PINNED, CU_MEM_HANDLE_TYPE_NONE; CU_MEM_LOCATION_TYPE_DEVICE, the device.
    (properties[0], properties[1]) = (1, 1 | u64::from(of.device) << 32);
    let requested = Requested { pool: properties, access: Box::default(), bytes };
    state.capture_with(stream, |state, graph, before| state.add_take(call, graph, before, requested))
}

fn free_async(call: &mut Call, address: u64, stream: Handle) -> Outcome {
    let mut state = call.lock();
    let stream = state.stream(call.api.per_thread, stream)?;
    if state.checked(stream).capture.is_some() {
        // cuda.h: it becomes a node, and "must therefore be passed the address of a graph allocation".
        state.check_capture(stream)?;
        return state.capture_with(stream, |state, graph, before| {
            let node = state.add_give(call, graph, before, address)?;
            Ok((node, ()))
        });
    }
    let id = state.checked(stream).id;
    let kind = state.memory.at(address).ok_or(INVALID_VALUE)?.kind;
    if kind == MemoryKind::Graph {
        state.check_graph_block(address)?;
        let (mut state, done) = issue(call, state, stream, &Work::Empty)?;
        return state.free_graph_block(call, address, id, done);
    }
    if kind.pinned() || state.virtual_memory.is_mapped(address) || state.imports.is_open(address) {
        return Err(INVALID_VALUE);
    }
    let (mut state, done) = issue(call, state, stream, &Work::Empty)?;
    let done = done.ok_or(INVALID_VALUE)?;
    // Memory of cuMemAlloc may be freed in stream order too (CUDA programming guide, "Stream Ordered Memory Allocator").
    let allocation = state.memory.retire(address).ok_or(INVALID_VALUE)?;
    report_free(call, address, allocation.bytes, kind, id);
    let pool = allocation.pool;
    let taken = allocation.taken;
    match state.pools.get_mut(pool) {
        Some(of) => {
            of.count(-(taken as i64), 0);
            of.free.entry(taken).or_default().push(FreeBlock { allocation, stream, done });
        }
        None => {
            if let Some(range) = state.memory.release(&allocation) {
                effects::push(effects::Effect::Release(range));
            }
        }
    }
    Ok(())
}

fn default_pool(call: &mut Call, pool: Out<Handle>, device: i32) -> Outcome {
    let device = ordinal(device)?;
    let known = call.lock().default_pool(device);
    pool.put(known);
    Ok(())
}

fn device_pool(call: &mut Call, pool: Out<Handle>, device: i32) -> Outcome {
    let device = ordinal(device)?;
    let mut state = call.lock();
    let known = match state.device_pools.get(&device) {
        Some(&known) => known,
        None => state.default_pool(device),
    };
    pool.put(known);
    Ok(())
}

fn set_device_pool(call: &mut Call, device: i32, pool: Handle) -> Outcome {
    let device = ordinal(device)?;
    let mut state = call.lock();
    let of = state.pools.get(pool).ok_or(INVALID_HANDLE)?;
    // cuda.h: the pool must be local to the device.
    if of.device != device || of.imported {
        return Err(INVALID_VALUE);
    }
    state.device_pools.insert(device, pool);
    Ok(())
}

/// cuda.h, cuMemSetMemPool: location and type must match the pool's. The simulator's pools all have pinned device
/// memory.
fn set_pool(call: &mut Call, location: In<[i32; 2]>, kind: u32, pool: Handle) -> Outcome {
    // A CUmemLocation is a type and a number.
    match *location {
        [1, device] if kind == 1 => set_device_pool(call, device, pool),
        _ => Err(INVALID_VALUE),
    }
}

fn create(call: &mut Call, pool: Out<Handle>, properties: In<PoolProperties>) -> Outcome {
    let PoolProperties { kind, handles, location, device, most, .. } = *properties;
    // CU_MEM_ALLOCATION_TYPE_PINNED, CU_MEM_LOCATION_TYPE_DEVICE.
    if kind != 1 || location != 1 {
        return Err(INVALID_VALUE);
    }
    // CU_MEM_HANDLE_TYPE_NONE, _POSIX_FILE_DESCRIPTOR.
    if handles > 1 {
        return Err(NOT_SUPPORTED);
    }
    let new = Pool { device: ordinal(device)?, most, shared: handles == 1, ..Pool::default() };
    let handle = call.lock().pools.insert(new);
    pool.put(handle);
    Ok(())
}

fn destroy(call: &mut Call, pool: Handle) -> Outcome {
    let mut state = call.lock();
    let of = state.pools.get(pool).ok_or(INVALID_HANDLE)?;
    // cuda.h: a device's default pool cannot be destroyed.
    if of.default {
        return Err(INVALID_VALUE);
    }
    // cuda.h: a device with this current pool gets its default pool back; allocated memory remains.
    state.device_pools.retain(|_, &mut current| current != pool);
    state.trim(pool, 0);
    state.memory.orphan(pool);
    state.pools.remove(pool).map(|_| ()).ok_or(INVALID_HANDLE)
}

fn trim(call: &mut Call, pool: Handle, keep: usize) -> Outcome {
    let mut state = call.lock();
    state.pools.get(pool).ok_or(INVALID_HANDLE)?;
    state.trim(pool, keep as u64);
    Ok(())
}

/// `CUmemPool_attribute`: 1 to 3 are ints, the others 64 bits wide.
fn get_attribute(call: &mut Call, pool: Handle, attribute: u32, value: Out<u8>) -> Outcome {
    let state = call.lock();
    let of = state.pools.get(pool).ok_or(INVALID_HANDLE)?;
    let set = of.attributes.get(&attribute).copied();
    let known = match attribute {
        1..=3 => set.unwrap_or(1),
        4 => set.unwrap_or(0),
        5 => of.reserved.0,
        6 => of.reserved.1,
        7 => of.used.0,
        8 => of.used.1,
        _ => return Err(INVALID_VALUE),
    };
    let value = value.as_ptr();
    // SAFETY: cuda.h's promise: room for the attribute.
    unsafe {
        if attribute <= 3 {
            value.cast::<i32>().write(known as i32)
        } else {
            value.cast::<u64>().write(known)
        }
    }
    Ok(())
}

fn set_attribute(call: &mut Call, pool: Handle, attribute: u32, value: In<u8>) -> Outcome {
    let mut state = call.lock();
    let of = state.pools.get_mut(pool).ok_or(INVALID_HANDLE)?;
    let value = value.as_ptr();
    // SAFETY: cuda.h's promise: an attribute of the size that its number says.
    let new = unsafe {
        match attribute {
            1..=3 => *value.cast::<i32>() as u64,
            _ => *value.cast::<u64>(),
        }
    };
    match attribute {
        1..=4 => _ = of.attributes.insert(attribute, new),
        // cuda.h: the high-water marks can only be reset.
        6 if new == 0 => of.reserved.1 = of.reserved.0,
        8 if new == 0 => of.used.1 = of.used.0,
        _ => return Err(INVALID_VALUE),
    }
    Ok(())
}

/// `CU_MEM_LOCATION_TYPE_DEVICE`, and the last type that has a place (cuda.h, CUmemLocationType).
const DEVICE: u32 = 1;
const LAST_LOCATION: u32 = 4;
/// `CU_MEM_ACCESS_FLAGS_PROT_READWRITE`.
const READ_AND_WRITE: u32 = 3;

/// Checks a location from which memory can be accessed: an existing device, or the host.
fn check_location(kind: u32, number: u32) -> Outcome {
    match kind {
        DEVICE => ordinal(number as i32).map(|_| ()),
        _ if (2..=LAST_LOCATION).contains(&kind) => Ok(()),
        _ => Err(INVALID_VALUE),
    }
}

fn get_access(call: &mut Call, flags: Out<u32>, pool: Handle, location: In<[u32; 2]>) -> Outcome {
    let state = call.lock();
    let of = state.pools.get(pool).ok_or(INVALID_HANDLE)?;
    // A CUmemLocation is a type and a number.
    let location = *location;
    check_location(location[0], location[1])?;
    // CUDA programming guide, "Device Accessibility for Multi-GPU Support": at first from its own device only.
    let initial = if location == [DEVICE, of.device] { READ_AND_WRITE } else { 0 };
    let known = of.access.get(&location).copied().unwrap_or(initial);
    flags.put(known);
    Ok(())
}

fn set_access(call: &mut Call, pool: Handle, map: Slice<[u32; 3]>, _: usize) -> Outcome {
    let mut state = call.lock();
    let of = state.pools.get_mut(pool).ok_or(INVALID_HANDLE)?;
    // A CUmemAccessDesc is a location and flags.
    for &[kind, number, flags] in map.iter() {
        check_location(kind, number)?;
        // The guide: its own device always has access.
        let own = [kind, number] == [DEVICE, of.device] && flags != READ_AND_WRITE;
        if own || ![0, 1, READ_AND_WRITE].contains(&flags) {
            return Err(INVALID_VALUE);
        }
    }
    of.access.extend(map.iter().map(|&[kind, number, flags]| ([kind, number], flags)));
    Ok(())
}
