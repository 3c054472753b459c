//! Memsets. The CUDA driver API reference, "API synchronization behavior", says how far each one waits.

use super::copy::{Side, check_synchronous};
use crate::call::Call;
use crate::error::{INVALID_VALUE, Outcome};
use crate::export::exports;
use crate::handle::Handle;
use crate::state::{self, State};
use crate::transfer::Set;
use crate::work::{Work, issue};
use crate::{fault, thread};

exports! {
    cuMemsetD8_v2 | cuMemsetD8_v2_ptds => set_8(dst: u64, value: u8, count: usize);
    cuMemsetD16_v2 | cuMemsetD16_v2_ptds => set_16(dst: u64, value: u16, count: usize);
    cuMemsetD32_v2 | cuMemsetD32_v2_ptds => set_32(dst: u64, value: u32, count: usize);
    cuMemsetD8Async | cuMemsetD8Async_ptsz => set_8_async(dst: u64, value: u8, count: usize, stream: Handle);
    cuMemsetD16Async | cuMemsetD16Async_ptsz => set_16_async(dst: u64, value: u16, count: usize, stream: Handle);
    cuMemsetD32Async | cuMemsetD32Async_ptsz => set_32_async(dst: u64, value: u32, count: usize, stream: Handle);
    cuMemsetD2D8_v2 | cuMemsetD2D8_v2_ptds => set_2d_8(dst: u64, pitch: usize, value: u8, width: usize, height: usize);
    cuMemsetD2D16_v2 | cuMemsetD2D16_v2_ptds => set_2d_16(dst: u64, pitch: usize, value: u16, width: usize, height: usize);
    cuMemsetD2D32_v2 | cuMemsetD2D32_v2_ptds => set_2d_32(dst: u64, pitch: usize, value: u32, width: usize, height: usize);
    cuMemsetD2D8Async | cuMemsetD2D8Async_ptsz => set_2d_8_async(dst: u64, pitch: usize, value: u8, width: usize, height: usize, stream: Handle);
    cuMemsetD2D16Async | cuMemsetD2D16Async_ptsz => set_2d_16_async(dst: u64, pitch: usize, value: u16, width: usize, height: usize, stream: Handle);
    cuMemsetD2D32Async | cuMemsetD2D32Async_ptsz => set_2d_32_async(dst: u64, pitch: usize, value: u32, width: usize, height: usize, stream: Handle);
}

impl State {
    /// Determines the kind of memory of a memset; an error if the range is unknown or misaligned.
    pub fn set(&self, mut set: Set) -> Outcome<Set> {
        let span = if set.height == 0 { 0 } else { set.pitch * (set.height - 1) + set.width * set.element };
        let aligned = set.dst.is_multiple_of(set.element) && set.pitch.is_multiple_of(set.element);
        if !aligned || (set.height > 1 && set.pitch < set.width * set.element) {
            return Err(INVALID_VALUE);
        }
        set.host_memory = match self.side(set.dst, span)? {
            Side::Pageable => return Err(INVALID_VALUE),
            Side::Pinned => "pinned",
            Side::Managed(_) => "managed",
            Side::Device(_) => "none",
        };
        Ok(set)
    }
}

fn set(call: &Call, set: Set, stream: Option<Handle>) -> Outcome {
    let mut state = call.lock();
    let target = state.stream(call.api.per_thread, stream.unwrap_or(0))?;
    if set.bytes() == 0 {
        return Ok(());
    }
    let set = state.set(set)?;
    if stream.is_none() {
        check_synchronous(&mut state, target)?;
    }
    // "The synchronous memset functions are asynchronous with respect to the host except when the target is pinned host
    // memory or a Unified Memory region."
    let wait = stream.is_none() && set.host_memory != "none";
    let ahead = if wait { state.ahead(target) } else { Vec::new() };
    let (state, done) = issue(call, state, target, &Work::Set(set))?;
    drop(state);
    if let Some(done) = done.filter(|_| wait) {
        state::wait(&done);
        fault::check(thread::current())?;
        call.report_waited(&ahead);
    }
    Ok(())
}

fn row(dst: u64, value: u32, element: u64, count: usize) -> Set {
    plane(dst, count * element as usize, value, element, [count, 1])
}

fn plane(dst: u64, pitch: usize, value: u32, element: u64, [width, height]: [usize; 2]) -> Set {
    Set {
        dst,
        value,
        element,
        width: width as u64,
        height: height as u64,
        pitch: pitch as u64,
        host_memory: "none",
    }
}

fn set_8(call: &mut Call, dst: u64, value: u8, count: usize) -> Outcome {
    set(call, row(dst, value.into(), 1, count), None)
}

fn set_16(call: &mut Call, dst: u64, value: u16, count: usize) -> Outcome {
    set(call, row(dst, value.into(), 2, count), None)
}

fn set_32(call: &mut Call, dst: u64, value: u32, count: usize) -> Outcome {
    set(call, row(dst, value, 4, count), None)
}

fn set_8_async(call: &mut Call, dst: u64, value: u8, count: usize, stream: Handle) -> Outcome {
    set(call, row(dst, value.into(), 1, count), Some(stream))
}

fn set_16_async(call: &mut Call, dst: u64, value: u16, count: usize, stream: Handle) -> Outcome {
    set(call, row(dst, value.into(), 2, count), Some(stream))
}

fn set_32_async(call: &mut Call, dst: u64, value: u32, count: usize, stream: Handle) -> Outcome {
    set(call, row(dst, value, 4, count), Some(stream))
}

fn set_2d_8(call: &mut Call, dst: u64, pitch: usize, value: u8, width: usize, height: usize) -> Outcome {
    set(call, plane(dst, pitch, value.into(), 1, [width, height]), None)
}

fn set_2d_16(call: &mut Call, dst: u64, pitch: usize, value: u16, width: usize, height: usize) -> Outcome {
    set(call, plane(dst, pitch, value.into(), 2, [width, height]), None)
}

fn set_2d_32(call: &mut Call, dst: u64, pitch: usize, value: u32, width: usize, height: usize) -> Outcome {
    set(call, plane(dst, pitch, value, 4, [width, height]), None)
}

fn set_2d_8_async(
    call: &mut Call,
    dst: u64,
    pitch: usize,
    value: u8,
    width: usize,
    height: usize,
    stream: Handle,
) -> Outcome {
    set(call, plane(dst, pitch, value.into(), 1, [width, height]), Some(stream))
}

fn set_2d_16_async(
    call: &mut Call,
    dst: u64,
    pitch: usize,
    value: u16,
    width: usize,
    height: usize,
    stream: Handle,
) -> Outcome {
    set(call, plane(dst, pitch, value.into(), 2, [width, height]), Some(stream))
}

fn set_2d_32_async(
    call: &mut Call,
    dst: u64,
    pitch: usize,
    value: u32,
    width: usize,
    height: usize,
    stream: Handle,
) -> Outcome {
    set(call, plane(dst, pitch, value, 4, [width, height]), Some(stream))
}
