//! Managed memory: prefetches, discards, advice (CUDA driver API reference, "Unified Addressing").
//!
//! A prefetch takes as long as a copy of its range. None of these has a graph node of its own (cuda.h, CUgraphNodeType),
//! so none can be captured.

use super::device::ordinal;
use crate::call::Call;
use crate::error::{INVALID_DEVICE, INVALID_VALUE, Outcome};
use crate::export::exports;
use crate::handle::Handle;
use crate::memory::MemoryKind;
use crate::parameter::Slice;
use crate::state::{Guard, State, StreamKind};
use crate::transfer::{Copy, Direction, Shape};
use crate::work::{Work, issue};

exports! {
    cuMemAdvise => advise(address: u64, bytes: usize, advice: u32, device: i32);
    cuMemAdvise_v2 => advise_v2(address: u64, bytes: usize, advice: u32, location: Location);
    cuMemPrefetchAsync | cuMemPrefetchAsync_ptsz => prefetch(address: u64, bytes: usize, device: i32, stream: Handle);
    cuMemPrefetchAsync_v2 | cuMemPrefetchAsync_v2_ptsz => prefetch_v2(address: u64, bytes: usize, location: Location, flags: u32, stream: Handle);
    cuMemPrefetchBatchAsync | cuMemPrefetchBatchAsync_ptsz | cuMemDiscardAndPrefetchBatchAsync | cuMemDiscardAndPrefetchBatchAsync_ptsz => prefetch_batch(addresses[count]: Slice<u64>, sizes[count]: Slice<usize>, count: usize, locations[kinds]: Slice<Location>, starts[kinds]: Slice<usize>, kinds: usize, flags: u64, stream: Handle);
    cuMemDiscardBatchAsync | cuMemDiscardBatchAsync_ptsz => discard_batch(addresses[count]: Slice<u64>, sizes[count]: Slice<usize>, count: usize, flags: u64, stream: Handle);
    cuStreamAttachMemAsync | cuStreamAttachMemAsync_ptsz => attach(stream: Handle, address: u64, bytes: usize, flags: u32);
}

/// `CUmemLocation` of cuda.h.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Location {
    kind: i32,
    id: i32,
}

impl Location {
    /// A device ordinal, or `CU_DEVICE_CPU`.
    fn of(device: i32) -> Self {
        if device == -1 { Self { kind: 2, id: 0 } } else { Self { kind: 1, id: device } }
    }

    /// The device, or none for the host (HOST, HOST_NUMA, HOST_NUMA_CURRENT).
    fn device(self) -> Outcome<Option<u32>> {
        match self.kind {
            1 => ordinal(self.id).map(Some).map_err(|_| INVALID_DEVICE),
            2..=4 => Ok(None),
            _ => Err(INVALID_VALUE),
        }
    }
}

fn check_managed(state: &State, address: u64, bytes: usize) -> Outcome<u32> {
    let managed = state.memory.find(address).filter(|found| found.kind == MemoryKind::Managed);
    let device = managed.ok_or(INVALID_VALUE)?.device;
    if bytes > 0 && state.memory.covers(address, bytes as u64) { Ok(device) } else { Err(INVALID_VALUE) }
}

fn check_advice(call: &Call, address: u64, bytes: usize, advice: u32, location: Location) -> Outcome {
    // CUmem_advise: 1 to 6. Read-mostly advice (1, 2) and unsetting a preferred location (4) have no location.
    match advice {
        1 | 2 | 4 => {}
        3 | 5 | 6 => drop(location.device()?),
        _ => return Err(INVALID_VALUE),
    }
    let state = call.lock();
    state.current()?;
    check_managed(&state, address, bytes).map(|_| ())
}

fn advise(call: &mut Call, address: u64, bytes: usize, advice: u32, device: i32) -> Outcome {
    check_advice(call, address, bytes, advice, Location::of(device))
}

fn advise_v2(call: &mut Call, address: u64, bytes: usize, advice: u32, location: Location) -> Outcome {
    check_advice(call, address, bytes, advice, location)
}

/// Returns the copy that models a prefetch of a range. The contents do not change.
fn moved(state: &State, address: u64, bytes: usize, location: Location) -> Outcome<Copy> {
    let home = check_managed(state, address, bytes)? as usize;
    let shape = Shape::linear(bytes as u64);
    let (direction, lane) = match location.device()? {
        Some(device) => (Direction::HtoD, device as usize * 3),
        None => (Direction::DtoH, home * 3 + 1),
    };
    let (host_memory, lane, staged, rest) = ("managed", Some(lane), None, Vec::new());
    Ok(Copy { dst: address, src: address, shape, direction, host_memory, lane, staged, rest })
}

fn enqueue(call: &Call, mut state: Guard, stream: Handle, work: &Work) -> Outcome {
    state.check_not_captured(stream)?;
    issue(call, state, stream, work).map(|_| ())
}

fn prefetch_one(call: &Call, address: u64, bytes: usize, location: Location, stream: Handle) -> Outcome {
    let mut state = call.lock();
    let stream = state.stream(call.api.per_thread, stream)?;
    let copy = moved(&state, address, bytes, location)?;
    enqueue(call, state, stream, &Work::Copy(copy))
}

fn prefetch(call: &mut Call, address: u64, bytes: usize, device: i32, stream: Handle) -> Outcome {
    prefetch_one(call, address, bytes, Location::of(device), stream)
}

fn prefetch_v2(
    call: &mut Call,
    address: u64,
    bytes: usize,
    location: Location,
    flags: u32,
    stream: Handle,
) -> Outcome {
    // There are no flags yet.
    if flags != 0 {
        return Err(INVALID_VALUE);
    }
    prefetch_one(call, address, bytes, location, stream)
}

/// The stream of a batch, which is not the legacy default stream.
fn batch_stream(call: &Call, state: &mut Guard, stream: Handle) -> Outcome<Handle> {
    let stream = state.stream(call.api.per_thread, stream)?;
    if state.checked(stream).kind == StreamKind::Legacy { Err(INVALID_VALUE) } else { Ok(stream) }
}

#[allow(clippy::too_many_arguments)]
fn prefetch_batch(
    call: &mut Call,
    addresses: Slice<u64>,
    sizes: Slice<usize>,
    count: usize,
    locations: Slice<Location>,
    starts: Slice<usize>,
    kinds: usize,
    flags: u64,
    stream: Handle,
) -> Outcome {
    if flags != 0 || kinds == 0 || kinds > count {
        return Err(INVALID_VALUE);
    }
    // The rules are those of cuMemcpyBatchAsync's attributes.
    if starts[0] != 0 || !starts.is_sorted_by(|one, next| one < next) || starts[kinds - 1] >= count {
        return Err(INVALID_VALUE);
    }
    let mut state = call.lock();
    let stream = batch_stream(call, &mut state, stream)?;
    let one = |index: usize| {
        let kind = starts.partition_point(|&start| start <= index) - 1;
        moved(&state, addresses[index], sizes[index], locations[kind])
    };
    let rest = (1..count).map(one).collect::<Outcome<Vec<Copy>>>()?;
    let all = Copy { rest, ..one(0)? };
    enqueue(call, state, stream, &Work::Copy(all))
}

fn discard_batch(
    call: &mut Call,
    addresses: Slice<u64>,
    sizes: Slice<usize>,
    count: usize,
    flags: u64,
    stream: Handle,
) -> Outcome {
    if flags != 0 || count == 0 {
        return Err(INVALID_VALUE);
    }
    let mut state = call.lock();
    let stream = batch_stream(call, &mut state, stream)?;
    for index in 0..count {
        check_managed(&state, addresses[index], sizes[index])?;
    }
    enqueue(call, state, stream, &Work::Empty)
}

fn attach(call: &mut Call, stream: Handle, address: u64, bytes: usize, flags: u32) -> Outcome {
    // CU_MEM_ATTACH_GLOBAL, _HOST, _SINGLE, of a whole allocation.
    if !matches!(flags, 1 | 2 | 4) {
        return Err(INVALID_VALUE);
    }
    let mut state = call.lock();
    let stream = state.stream(call.api.per_thread, stream)?;
    let found = state.memory.at(address).filter(|found| found.kind == MemoryKind::Managed);
    let whole = found.is_some_and(|found| bytes == 0 || bytes as u64 == found.bytes);
    // CU_MEM_ATTACH_SINGLE is about a stream of the app's own.
    let single_on_none = flags == 4 && state.checked(stream).kind == StreamKind::Legacy;
    if !whole || single_on_none {
        return Err(INVALID_VALUE);
    }
    enqueue(call, state, stream, &Work::Empty)
}
