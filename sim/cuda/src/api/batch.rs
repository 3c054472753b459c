//! Copies with attributes, one by one and in batches (cuda.h, cuMemcpyBatchAsync and cuMemcpy3DBatchAsync), and batches to
//! decompress: a batch is one operation of its stream.

use crate::call::Call;
use crate::config::config;
use crate::error::{INVALID_VALUE, Outcome, STREAM_CAPTURE_UNSUPPORTED};
use crate::export::exports;
use crate::handle::Handle;
use crate::memory::MemoryKind;
use crate::parameter::{In, Maybe, Slice};
use crate::state::{Guard, State, StreamKind};
use crate::transfer::{Copy, Direction, Shape};
use crate::work::{Work, issue};

exports! {
    cuMemcpyBatchAsync | cuMemcpyBatchAsync_ptsz => batch(dsts[count]: Slice<u64>, srcs[count]: Slice<u64>, sizes[count]: Slice<usize>, count: usize, attributes[kinds]: Slice<Attributes>, starts[kinds]: Slice<usize>, kinds: usize, failed: Maybe<usize>, stream: Handle);
    cuMemcpyBatchAsync_v2 | cuMemcpyBatchAsync_v2_ptsz => batch_v2(dsts[count]: Slice<u64>, srcs[count]: Slice<u64>, sizes[count]: Slice<usize>, count: usize, attributes[kinds]: Slice<Attributes>, starts[kinds]: Slice<usize>, kinds: usize, stream: Handle);
    cuMemcpy3DBatchAsync | cuMemcpy3DBatchAsync_ptsz => batch_3d(count: usize, operations[count]: Slice<Operation3D>, failed: Maybe<usize>, flags: u64, stream: Handle);
    cuMemcpy3DBatchAsync_v2 | cuMemcpy3DBatchAsync_v2_ptsz => batch_3d_v2(count: usize, operations[count]: Slice<Operation3D>, flags: u64, stream: Handle);
    cuMemBatchDecompressAsync | cuMemBatchDecompressAsync_ptsz => decompress(parameters[count]: Slice<Decompress>, count: usize, flags: u32, failed: Maybe<usize>, stream: Handle);
    cuMemcpyWithAttributesAsync | cuMemcpyWithAttributesAsync_ptsz => with_attributes(dst: u64, src: u64, bytes: usize, attributes: In<Attributes>, stream: Handle);
    cuMemcpy3DWithAttributesAsync | cuMemcpy3DWithAttributesAsync_ptsz => with_attributes_3d(operation: In<Operation3D>, flags: u64, stream: Handle);
}

/// `CUmemcpyAttributes` of cuda.h: access order, a location hint for each side, flags.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Attributes {
    order: u32,
    hints: [[i32; 2]; 2],
    flags: u32,
}

/// `CUmemcpy3DOperand` of cuda.h: a pointer (1) with row length and layer height, or an array (2).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Operand {
    kind: u32,
    at: u64,
    row: u64,
    layer: u64,
    hint: [i32; 2],
}

/// `CUDA_MEMCPY3D_BATCH_OP` of cuda.h.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Operation3D {
    source: Operand,
    destination: Operand,
    extent: [u64; 3],
    order: u32,
    flags: u32,
}

/// `CUmemDecompressParams` of cuda.h.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Decompress {
    source_bytes: u64,
    /// The size of the destination, a hint.
    bytes: u64,
    /// The address for the number of bytes written, 32 bits wide.
    written: u64,
    source: u64,
    destination: u64,
    algorithm: u32,
    padding: [u8; 20],
}

const _: () = assert!(size_of::<Attributes>() == 24 && size_of::<Operation3D>() == 112);
const _: () = assert!(size_of::<Decompress>() == 64);

/// `CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL`; STREAM is 1, ANY is 3.
const DURING_CALL: u32 = 2;

/// Returns one copy of a batch, whose source is read now if the access order requires it.
fn one(state: &State, dst: u64, src: u64, shape: Shape, order: u32) -> Outcome<Copy> {
    if !(1..=3).contains(&order) {
        return Err(INVALID_VALUE);
    }
    let mut copy = state.copy(dst, src, shape, None)?;
    if order == DURING_CALL && matches!(copy.direction, Direction::HtoD | Direction::HtoH) {
        copy.stage();
    }
    Ok(copy)
}

impl Operation3D {
    fn copy(&self, state: &State) -> Outcome<Copy> {
        let [width, height, depth] = self.extent;
        let sides = [self.destination, self.source];
        // A row has at least the width of the copy, or is 0 for packed; the same goes for layers. The simulator's
        // batches do not accept arrays.
        let fits = |side: &Operand| {
            side.kind == 1
                && (side.row == 0 || side.row >= width)
                && (side.layer == 0 || side.layer >= height)
        };
        if self.extent.contains(&0) || !sides.iter().all(fits) {
            return Err(INVALID_VALUE);
        }
        let pitch = sides.map(|side| if side.row == 0 { width } else { side.row });
        let rows = sides.map(|side| if side.layer == 0 { height } else { side.layer });
        let slice = [pitch[0] * rows[0], pitch[1] * rows[1]];
        let shape = Shape { width, height, depth, pitch, slice };
        one(state, self.destination.at, self.source.at, shape, self.order)
    }
}

/// Runs copies as one operation. `copy` returns the copy at an index; if it fails, `failed` gets the index.
fn run(
    call: &Call,
    count: usize,
    failed: Maybe<usize>,
    stream: Handle,
    is_batch: bool,
    copy: impl Fn(&State, usize) -> Outcome<Copy>,
) -> Outcome {
    // SIZE_MAX: the error concerns no single copy.
    failed.put(usize::MAX);
    let mut state: Guard = call.lock();
    let target = state.stream(call.api.per_thread, stream)?;
    // cuda.h: a batch cannot use the legacy default stream.
    if count == 0 || (is_batch && state.checked(target).kind == StreamKind::Legacy) {
        return Err(INVALID_VALUE);
    }
    let mut copies = Vec::with_capacity(count);
    for index in 0..count {
        let refused = |error| {
            failed.put(index);
            error
        };
        copies.push(copy(&state, index).map_err(refused)?);
    }
    if state.checked(target).capture.is_none() {
        let mut copies = copies.into_iter();
        let first = copies.next().ok_or(INVALID_VALUE)?;
        let all = Copy { rest: copies.collect(), ..first };
        return if all.bytes() == 0 {
            Ok(())
        } else {
            issue(call, state, target, &Work::Copy(all)).map(|_| ())
        };
    }
    if is_batch && config().assume.is("batch_in_capture", "refused") {
        // As on an H100, where the capture goes on (docs/hardware.md).
        return Err(STREAM_CAPTURE_UNSUPPORTED);
    }
    for copy in copies {
        state = issue(call, state, target, &Work::Copy(copy))?.0;
    }
    Ok(())
}

#[allow(clippy::too_many_arguments)]
fn batch(
    call: &mut Call,
    dsts: Slice<u64>,
    srcs: Slice<u64>,
    sizes: Slice<usize>,
    count: usize,
    attributes: Slice<Attributes>,
    starts: Slice<usize>,
    kinds: usize,
    failed: Maybe<usize>,
    stream: Handle,
) -> Outcome {
    if kinds == 0 || kinds > count {
        return Err(INVALID_VALUE);
    }
    {
        // The starts begin with 0, rise, and stay below `count`.
        if starts[0] != 0 || !starts.is_sorted_by(|one, next| one < next) || starts[kinds - 1] >= count {
            return Err(INVALID_VALUE);
        }
        run(call, count, failed, stream, true, |state, index| {
            let kind = starts.partition_point(|&start| start <= index) - 1;
            let shape = Shape::linear(sizes[index] as u64);
            one(state, dsts[index], srcs[index], shape, attributes[kind].order)
        })
    }
}

#[allow(clippy::too_many_arguments)]
fn batch_v2(
    call: &mut Call,
    dsts: Slice<u64>,
    srcs: Slice<u64>,
    sizes: Slice<usize>,
    count: usize,
    attributes: Slice<Attributes>,
    starts: Slice<usize>,
    kinds: usize,
    stream: Handle,
) -> Outcome {
    batch(call, dsts, srcs, sizes, count, attributes, starts, kinds, Maybe::NONE, stream)
}

fn batch_3d(
    call: &mut Call,
    count: usize,
    operations: Slice<Operation3D>,
    failed: Maybe<usize>,
    flags: u64,
    stream: Handle,
) -> Outcome {
    if flags != 0 {
        return Err(INVALID_VALUE);
    }
    run(call, count, failed, stream, true, |state, index| operations[index].copy(state))
}

fn batch_3d_v2(
    call: &mut Call,
    count: usize,
    operations: Slice<Operation3D>,
    flags: u64,
    stream: Handle,
) -> Outcome {
    batch_3d(call, count, operations, Maybe::NONE, flags, stream)
}

fn with_attributes(
    call: &mut Call,
    dst: u64,
    src: u64,
    bytes: usize,
    attributes: In<Attributes>,
    stream: Handle,
) -> Outcome {
    let order = attributes.order;
    let shape = Shape::linear(bytes as u64);
    run(call, 1, Maybe::NONE, stream, false, |state, _| one(state, dst, src, shape, order))
}

fn with_attributes_3d(call: &mut Call, operation: In<Operation3D>, flags: u64, stream: Handle) -> Outcome {
    if flags != 0 {
        return Err(INVALID_VALUE);
    }
    run(call, 1, Maybe::NONE, stream, false, |state, _| operation.copy(state))
}

impl Decompress {
    /// cuda.h, cuMemBatchDecompressAsync: all three addresses are device memory; unused bytes are zero; the algorithm
    /// is exactly one (1 deflate, 2 snappy, 4 LZ4). It is an assumption that a size of 0 bytes is refused.
    fn is_valid(&self, state: &State) -> bool {
        let fits = |address, bytes| {
            let kind = state.memory.find(address).map(|found| found.kind);
            let capable = matches!(kind, Some(MemoryKind::Device | MemoryKind::Pool | MemoryKind::Mapped));
            capable && bytes > 0 && state.memory.covers(address, bytes)
        };
        matches!(self.algorithm, 1 | 2 | 4)
            && self.padding == [0; 20]
            && fits(self.source, self.source_bytes)
            && fits(self.destination, self.bytes.max(1))
            && fits(self.written, 4)
    }
}

/// Enqueues an operation of no length; nothing is decompressed. cuda.h's CUgraphNodeType has no such node, so it cannot
/// be captured.
fn decompress(
    call: &mut Call,
    parameters: Slice<Decompress>,
    count: usize,
    flags: u32,
    failed: Maybe<usize>,
    stream: Handle,
) -> Outcome {
    // SIZE_MAX: the error concerns no single operation.
    failed.put(usize::MAX);
    if count == 0 || flags != 0 {
        return Err(INVALID_VALUE);
    }
    let mut state = call.lock();
    let stream = state.stream(call.api.per_thread, stream)?;
    if let Some(index) = parameters.iter().position(|one| !one.is_valid(&state)) {
        failed.put(index);
        return Err(INVALID_VALUE);
    }
    state.check_not_captured(stream)?;
    issue(call, state, stream, &Work::Empty).map(|_| ())
}
