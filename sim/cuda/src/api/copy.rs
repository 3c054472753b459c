//! Copies. The CUDA driver API reference, "API synchronization behavior", says how far each one waits.

use crate::array::{Arrays, Part};
use crate::call::Call;
use crate::config::config;
use crate::error::{INVALID_CONTEXT, INVALID_VALUE, Outcome};
use crate::export::exports;
use crate::handle::Handle;
use crate::memory::MemoryKind;
use crate::parameter::In;
use crate::state::{self, Guard, State};
use crate::transfer::{Copy, Direction, Shape};
use crate::work::{Work, issue};
use crate::{fault, thread};

exports! {
    cuMemcpy | cuMemcpy_ptds => copy(dst: u64, src: u64, bytes: usize);
    cuMemcpyAsync | cuMemcpyAsync_ptsz => copy_async(dst: u64, src: u64, bytes: usize, stream: Handle);
    cuMemcpyHtoD_v2 | cuMemcpyHtoD_v2_ptds => copy_h2d(dst: u64, src: u64, bytes: usize);
    cuMemcpyHtoDAsync_v2 | cuMemcpyHtoDAsync_v2_ptsz => copy_h2d_async(dst: u64, src: u64, bytes: usize, stream: Handle);
    cuMemcpyDtoH_v2 | cuMemcpyDtoH_v2_ptds => copy_d2h(dst: u64, src: u64, bytes: usize);
    cuMemcpyDtoHAsync_v2 | cuMemcpyDtoHAsync_v2_ptsz => copy_d2h_async(dst: u64, src: u64, bytes: usize, stream: Handle);
    cuMemcpyDtoD_v2 | cuMemcpyDtoD_v2_ptds => copy_d2d(dst: u64, src: u64, bytes: usize);
    cuMemcpyDtoDAsync_v2 | cuMemcpyDtoDAsync_v2_ptsz => copy_d2d_async(dst: u64, src: u64, bytes: usize, stream: Handle);
    cuMemcpyPeer | cuMemcpyPeer_ptds => copy_peer(dst: u64, to: Handle, src: u64, from: Handle, bytes: usize);
    cuMemcpyPeerAsync | cuMemcpyPeerAsync_ptsz => copy_peer_async(dst: u64, to: Handle, src: u64, from: Handle, bytes: usize, stream: Handle);
    cuMemcpy2D_v2 | cuMemcpy2D_v2_ptds | cuMemcpy2DUnaligned_v2 | cuMemcpy2DUnaligned_v2_ptds => copy_2d(copy: In<Memcpy2D>);
    cuMemcpy2DAsync_v2 | cuMemcpy2DAsync_v2_ptsz => copy_2d_async(copy: In<Memcpy2D>, stream: Handle);
    cuMemcpy3D_v2 | cuMemcpy3D_v2_ptds => copy_3d(copy: In<Memcpy3D>);
    cuMemcpy3DAsync_v2 | cuMemcpy3DAsync_v2_ptsz => copy_3d_async(copy: In<Memcpy3D>, stream: Handle);
    cuMemcpy3DPeer | cuMemcpy3DPeer_ptds => copy_3d_peer(copy: In<Memcpy3D>);
    cuMemcpy3DPeerAsync | cuMemcpy3DPeerAsync_ptsz => copy_3d_peer_async(copy: In<Memcpy3D>, stream: Handle);
}

/// The kind of memory on one side of a copy.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Pageable,
    Pinned,
    Managed(u32),
    Device(u32),
}

impl Side {
    fn device(self) -> Option<u32> {
        match self {
            Self::Managed(device) | Self::Device(device) => Some(device),
            _ => None,
        }
    }
}

impl State {
    /// Returns the kind of memory of `span` bytes at an address; an error if known memory ends before them.
    pub(super) fn side(&self, address: u64, span: u64) -> Outcome<Side> {
        let Some(found) = self.memory.find(address) else {
            let no_access = address == 0 || self.virtual_memory.is_reserved(address);
            return if no_access { Err(INVALID_VALUE) } else { Ok(Side::Pageable) };
        };
        if !self.memory.covers(address, span) {
            return Err(INVALID_VALUE);
        }
        Ok(match found.kind {
            MemoryKind::Managed => Side::Managed(found.device),
            MemoryKind::Pinned | MemoryKind::Registered => Side::Pinned,
            _ => Side::Device(found.device),
        })
    }

    /// Returns a copy of known memory. `requested` is the direction in the call's name.
    pub fn copy(&self, dst: u64, src: u64, shape: Shape, requested: Option<Direction>) -> Outcome<Copy> {
        let (to, from) = (self.side(dst, shape.span(0))?, self.side(src, shape.span(1))?);
        let real = match (from.device(), to.device()) {
            (None, None) => Direction::HtoH,
            (None, Some(_)) => Direction::HtoD,
            (Some(_), None) => Direction::DtoH,
            (Some(from), Some(to)) if from != to => Direction::PtoP,
            (Some(_), Some(_)) => Direction::DtoD,
        };
        let unreachable = match requested {
            Some(Direction::HtoD) => to == Side::Pageable,
            Some(Direction::DtoH) => from == Side::Pageable,
            Some(Direction::DtoD | Direction::PtoP) => to == Side::Pageable || from == Side::Pageable,
            Some(Direction::HtoH) | None => false,
        };
        if unreachable {
            return Err(INVALID_VALUE);
        }
        // A pointer to page-locked memory is also a device pointer, so the name of the call decides.
        let direction = requested.filter(|_| real != Direction::PtoP).unwrap_or(real);
        let sides = [from, to];
        let host_memory = if sides.contains(&Side::Pageable) {
            "pageable"
        } else if sides.contains(&Side::Pinned) {
            "pinned"
        } else if sides.iter().any(|side| matches!(side, Side::Managed(_))) {
            "managed"
        } else {
            "none"
        };
        let device = from.device().or(to.device()).unwrap_or(0) as usize;
        // A copy engine for each direction (CUDA programming guide, "Overlap of Data Transfer and Kernel Execution").
        let lane = match direction {
            Direction::HtoD => Some(device * 3),
            Direction::DtoH => Some(device * 3 + 1),
            Direction::PtoP => Some(device * 3 + 2),
            Direction::DtoD | Direction::HtoH => None,
        };
        Ok(Copy { dst, src, shape, direction, host_memory, lane, staged: None, rest: Vec::new() })
    }
}

/// Runs a copy and blocks the caller as far as the API says. Without a `stream` the call is synchronous.
pub fn run(
    call: &Call,
    dst: u64,
    src: u64,
    shape: Shape,
    requested: Option<Direction>,
    stream: Option<Handle>,
) -> Outcome {
    let mut state = call.lock();
    let target = state.stream(call.api.per_thread, stream.unwrap_or(0))?;
    if shape.bytes() == 0 {
        return Ok(());
    }
    let mut copy = state.copy(dst, src, shape, requested)?;
    if stream.is_none() {
        check_synchronous(&mut state, target)?;
    }
    let captured = state.checked(target).capture.is_some();
    let pageable = copy.host_memory == "pageable";
    let staged = pageable
        && copy.direction == Direction::HtoD
        && copy.shape.span(1) <= config().assume.number("staging_bytes");
    let staging = stream.is_none() || config().assume.is("pageable_async", "staged");
    if staged && staging && !captured {
        if stream.is_none() {
            // "a stream sync is performed before the copy is initiated"
            state = settle(call, state, target)?;
        }
        copy.stage();
    }
    let wait = match (stream, copy.direction) {
        _ if captured => false,
        (_, Direction::HtoH) => true,
        (None, Direction::DtoD | Direction::PtoP) => false,
        (None, _) => copy.staged.is_none(),
        (Some(_), _) => pageable && staging && copy.staged.is_none(),
    };
    let ahead = if wait { state.ahead(target) } else { Vec::new() };
    let (state, done) = issue(call, state, target, &Work::Copy(copy))?;
    drop(state);
    if let Some(done) = done.filter(|_| wait) {
        state::wait(&done);
        fault::check(thread::current())?;
        call.report_waited(&ahead);
    }
    Ok(())
}

/// Synchronous calls use the default stream and wait for it, so they fail during a capture that involves it (CUDA
/// programming guide, "Prohibited and Unhandled Operations").
pub(super) fn check_synchronous(state: &mut Guard, stream: Handle) -> Outcome {
    state.check_legacy(stream)?;
    state.check_not_captured(stream)?;
    state.check_assumed_unsafe("sync_in_capture")
}

/// Waits, with the state unlocked, for the work on a stream.
fn settle(call: &Call, mut state: Guard, stream: Handle) -> Outcome<Guard> {
    let now = state.now;
    let work = state.stream_work(stream);
    if work.iter().all(|done| done.by(now)) {
        return Ok(state);
    }
    drop(state);
    call.wait_for(&work);
    let mut state = call.lock();
    state.check_works(thread::current())?;
    state.stream(call.api.per_thread, stream)?;
    Ok(state)
}

fn copy(call: &mut Call, dst: u64, src: u64, bytes: usize) -> Outcome {
    run(call, dst, src, Shape::linear(bytes as u64), None, None)
}

fn copy_async(call: &mut Call, dst: u64, src: u64, bytes: usize, stream: Handle) -> Outcome {
    run(call, dst, src, Shape::linear(bytes as u64), None, Some(stream))
}

fn copy_h2d(call: &mut Call, dst: u64, src: u64, bytes: usize) -> Outcome {
    run(call, dst, src, Shape::linear(bytes as u64), Some(Direction::HtoD), None)
}

fn copy_h2d_async(call: &mut Call, dst: u64, src: u64, bytes: usize, stream: Handle) -> Outcome {
    run(call, dst, src, Shape::linear(bytes as u64), Some(Direction::HtoD), Some(stream))
}

fn copy_d2h(call: &mut Call, dst: u64, src: u64, bytes: usize) -> Outcome {
    run(call, dst, src, Shape::linear(bytes as u64), Some(Direction::DtoH), None)
}

fn copy_d2h_async(call: &mut Call, dst: u64, src: u64, bytes: usize, stream: Handle) -> Outcome {
    run(call, dst, src, Shape::linear(bytes as u64), Some(Direction::DtoH), Some(stream))
}

fn copy_d2d(call: &mut Call, dst: u64, src: u64, bytes: usize) -> Outcome {
    run(call, dst, src, Shape::linear(bytes as u64), Some(Direction::DtoD), None)
}

fn copy_d2d_async(call: &mut Call, dst: u64, src: u64, bytes: usize, stream: Handle) -> Outcome {
    run(call, dst, src, Shape::linear(bytes as u64), Some(Direction::DtoD), Some(stream))
}

fn check_contexts(call: &Call, contexts: [Handle; 2]) -> Outcome {
    let state = call.lock();
    let live = |context| state.contexts.get(context).is_some_and(|context| context.active);
    if contexts.into_iter().all(live) { Ok(()) } else { Err(INVALID_CONTEXT) }
}

fn copy_peer(call: &mut Call, dst: u64, to: Handle, src: u64, from: Handle, bytes: usize) -> Outcome {
    check_contexts(call, [to, from])?;
    run(call, dst, src, Shape::linear(bytes as u64), Some(Direction::PtoP), None)
}

fn copy_peer_async(
    call: &mut Call,
    dst: u64,
    to: Handle,
    src: u64,
    from: Handle,
    bytes: usize,
    stream: Handle,
) -> Outcome {
    check_contexts(call, [to, from])?;
    run(call, dst, src, Shape::linear(bytes as u64), Some(Direction::PtoP), Some(stream))
}

/// A side of `CUDA_MEMCPY2D`: x, y, memory type, host, device, array, pitch.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Side2D {
    x: u64,
    y: u64,
    memory: u32,
    host: u64,
    device: u64,
    array: u64,
    pitch: u64,
}

/// `CUDA_MEMCPY2D_v2` of cuda.h.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Memcpy2D {
    source: Side2D,
    destination: Side2D,
    width: u64,
    height: u64,
}

/// A side of `CUDA_MEMCPY3D`: x, y, z, level, memory type, host, device, array, reserved (of `CUDA_MEMCPY3D_PEER`: the
/// context), pitch, height.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Side3D {
    x: u64,
    y: u64,
    z: u64,
    level: u64,
    memory: u32,
    host: u64,
    device: u64,
    array: u64,
    context: u64,
    pitch: u64,
    height: u64,
}

/// `CUDA_MEMCPY3D_v2` of cuda.h.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Memcpy3D {
    source: Side3D,
    destination: Side3D,
    width: u64,
    height: u64,
    depth: u64,
}

const _: () = assert!(size_of::<Memcpy2D>() == 128 && size_of::<Memcpy3D>() == 200);

/// `CU_MEMORYTYPE_ARRAY`.
const ARRAY: u32 = 3;

impl Side3D {
    /// Returns the address of a box (bytes of a row, rows, slices), and its pitch and slice size.
    fn part(&self, arrays: &Arrays, extent: [u64; 3]) -> Outcome<Part> {
        let [width, height, _] = extent;
        let base = match self.memory {
            ARRAY => return arrays.part(self.array, [self.x, self.y, self.z], extent),
            1 => self.host,
            2 | 4 => self.device,
            _ => return Err(INVALID_VALUE),
        };
        let pitch = if self.pitch == 0 { width } else { self.pitch };
        let slice = pitch * if self.height == 0 { height } else { self.height };
        Ok(Part { address: base + self.z * slice + self.y * pitch + self.x, pitch, slice })
    }

    /// Returns parameters that describe memory, or an array's memory, at an address. The memory type is unified, which
    /// is all that is known.
    fn of(arrays: &Arrays, at: u64, pitch: u64, height: u64) -> Self {
        let [level, host, context] = [0; 3];
        match arrays.at(at) {
            Some((array, [x, y, z])) => {
                let (memory, device, pitch, height) = (ARRAY, 0, 0, 0);
                Self { x, y, z, level, memory, host, device, array, context, pitch, height }
            }
            None => {
                let ([x, y, z], memory, array) = ([0; 3], 4, 0);
                Self { x, y, z, level, memory, host, device: at, array, context, pitch, height }
            }
        }
    }
}

/// Returns the direction that two memory types imply; an array counts as device memory.
fn requested(source: u32, destination: u32) -> Option<Direction> {
    let of = |memory: u32| if memory == ARRAY { 2 } else { memory };
    match (of(source), of(destination)) {
        (1, 1) => Some(Direction::HtoH),
        (1, 2) => Some(Direction::HtoD),
        (2, 1) => Some(Direction::DtoH),
        (2, 2) => Some(Direction::DtoD),
        _ => None,
    }
}

impl Memcpy2D {
    fn run(&self, call: &Call, stream: Option<Handle>) -> Outcome {
        let Self { source, destination, width, height } = *self;
        let side = |side: Side2D| {
            let Side2D { x, y, memory, host, device, array, pitch } = side;
            let (z, level, context) = (0, 0, 0);
            Side3D { x, y, z, level, memory, host, device, array, context, pitch, height }
        };
        let copy = Memcpy3D { source: side(source), destination: side(destination), width, height, depth: 1 };
        let (dst, src, shape, requested) = copy.resolve(&call.lock())?;
        if height > 1 && shape.pitch.into_iter().any(|pitch| pitch < width) {
            return Err(INVALID_VALUE);
        }
        run(call, dst, src, shape, requested, stream)
    }
}

impl Memcpy3D {
    /// Returns parameters that describe this copy.
    pub fn of(copy: &Copy, arrays: &Arrays) -> Self {
        let Shape { width, height, depth, pitch, slice } = copy.shape;
        let side = |at: u64, pitch: u64, slice: u64| {
            Side3D::of(arrays, at, pitch, slice.checked_div(pitch).unwrap_or(height))
        };
        let destination = side(copy.dst, pitch[0], slice[0]);
        Self { source: side(copy.src, pitch[1], slice[1]), destination, width, height, depth }
    }

    /// Returns the destination, source, extent and direction.
    pub fn resolve(&self, state: &State) -> Outcome<(u64, u64, Shape, Option<Direction>)> {
        let Self { source, destination, width, height, depth } = *self;
        let extent = [width, height, depth];
        let (to, from) = (destination.part(&state.arrays, extent)?, source.part(&state.arrays, extent)?);
        let shape =
            Shape { width, height, depth, pitch: [to.pitch, from.pitch], slice: [to.slice, from.slice] };
        Ok((to.address, from.address, shape, requested(source.memory, destination.memory)))
    }

    fn run(&self, call: &Call, stream: Option<Handle>) -> Outcome {
        let (dst, src, shape, requested) = self.resolve(&call.lock())?;
        run(call, dst, src, shape, requested, stream)
    }
}

fn copy_2d(call: &mut Call, copy: In<Memcpy2D>) -> Outcome {
    copy.run(call, None)
}

fn copy_2d_async(call: &mut Call, copy: In<Memcpy2D>, stream: Handle) -> Outcome {
    copy.run(call, Some(stream))
}

fn copy_3d(call: &mut Call, copy: In<Memcpy3D>) -> Outcome {
    copy.run(call, None)
}

fn copy_3d_async(call: &mut Call, copy: In<Memcpy3D>, stream: Handle) -> Outcome {
    copy.run(call, Some(stream))
}

/// Runs a copy between contexts: a side that is not host memory needs a live context.
fn peer_3d(call: &Call, copy: In<Memcpy3D>, stream: Option<Handle>) -> Outcome {
    let other = |one: Handle, side: Side3D| if side.memory == 1 { one } else { side.context };
    let current = call.lock().current()?;
    check_contexts(call, [other(current, copy.destination), other(current, copy.source)])?;
    let (dst, src, shape, requested) = copy.resolve(&call.lock())?;
    let requested =
        requested.map(|requested| if requested == Direction::DtoD { Direction::PtoP } else { requested });
    run(call, dst, src, shape, requested, stream)
}

fn copy_3d_peer(call: &mut Call, copy: In<Memcpy3D>) -> Outcome {
    peer_3d(call, copy, None)
}

fn copy_3d_peer_async(call: &mut Call, copy: In<Memcpy3D>, stream: Handle) -> Outcome {
    peer_3d(call, copy, Some(stream))
}
