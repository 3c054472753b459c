//! Copies of one-dimensional arrays. [`super::copy`] copies others, by rows and slices.

use super::copy::run;
use crate::call::Call;
use crate::error::{INVALID_HANDLE, INVALID_VALUE, Outcome};
use crate::export::exports;
use crate::handle::Handle;
use crate::transfer::{Direction, Shape};

exports! {
    cuMemcpyHtoA_v2 | cuMemcpyHtoA_v2_ptds => h2a(to: Handle, at: usize, from: u64, bytes: usize);
    cuMemcpyHtoAAsync_v2 | cuMemcpyHtoAAsync_v2_ptsz => h2a_async(to: Handle, at: usize, from: u64, bytes: usize, stream: Handle);
    cuMemcpyAtoH_v2 | cuMemcpyAtoH_v2_ptds => a2h(to: u64, from: Handle, at: usize, bytes: usize);
    cuMemcpyAtoHAsync_v2 | cuMemcpyAtoHAsync_v2_ptsz => a2h_async(to: u64, from: Handle, at: usize, bytes: usize, stream: Handle);
    cuMemcpyDtoA_v2 | cuMemcpyDtoA_v2_ptds => d2a(to: Handle, at: usize, from: u64, bytes: usize);
    cuMemcpyAtoD_v2 | cuMemcpyAtoD_v2_ptds => a2d(to: u64, from: Handle, at: usize, bytes: usize);
    cuMemcpyAtoA_v2 | cuMemcpyAtoA_v2_ptds => a2a(to: Handle, to_at: usize, from: Handle, from_at: usize, bytes: usize);
}

/// Returns the address of a range of bytes in an array, and the size of its elements. cuda.h says "1D CUDA array" for
/// each of these functions.
fn place(call: &Call, array: Handle, at: usize, bytes: usize) -> Outcome<(u64, u64)> {
    let state = call.lock();
    let found = state.arrays.arrays.get(array).ok_or(INVALID_HANDLE)?;
    let element = found.shape.element().filter(|_| found.shape.size[1] == 0).ok_or(INVALID_VALUE)?;
    Ok((found.part([at as u64, 0, 0], [bytes as u64, 1, 1])?.address, element))
}

fn copy(
    call: &Call,
    [to, from]: [u64; 2],
    bytes: usize,
    direction: Direction,
    stream: Option<Handle>,
) -> Outcome {
    run(call, to, from, Shape::linear(bytes as u64), Some(direction), stream)
}

fn h2a(call: &mut Call, to: Handle, at: usize, from: u64, bytes: usize) -> Outcome {
    let to = place(call, to, at, bytes)?.0;
    copy(call, [to, from], bytes, Direction::HtoD, None)
}

fn h2a_async(call: &mut Call, to: Handle, at: usize, from: u64, bytes: usize, stream: Handle) -> Outcome {
    let to = place(call, to, at, bytes)?.0;
    copy(call, [to, from], bytes, Direction::HtoD, Some(stream))
}

fn a2h(call: &mut Call, to: u64, from: Handle, at: usize, bytes: usize) -> Outcome {
    let from = place(call, from, at, bytes)?.0;
    copy(call, [to, from], bytes, Direction::DtoH, None)
}

fn a2h_async(call: &mut Call, to: u64, from: Handle, at: usize, bytes: usize, stream: Handle) -> Outcome {
    let from = place(call, from, at, bytes)?.0;
    copy(call, [to, from], bytes, Direction::DtoH, Some(stream))
}

fn d2a(call: &mut Call, to: Handle, at: usize, from: u64, bytes: usize) -> Outcome {
    let to = place(call, to, at, bytes)?.0;
    copy(call, [to, from], bytes, Direction::DtoD, None)
}

fn a2d(call: &mut Call, to: u64, from: Handle, at: usize, bytes: usize) -> Outcome {
    let (from, element) = place(call, from, at, bytes)?;
    // cuda.h, cuMemcpyAtoD: the destination is aligned as the elements are.
    if !to.is_multiple_of(element) {
        return Err(INVALID_VALUE);
    }
    copy(call, [to, from], bytes, Direction::DtoD, None)
}

fn a2a(call: &mut Call, to: Handle, to_at: usize, from: Handle, from_at: usize, bytes: usize) -> Outcome {
    let (to, from) = (place(call, to, to_at, bytes)?, place(call, from, from_at, bytes)?);
    // cuda.h, cuMemcpyAtoA: the formats may differ, the sizes of their elements may not.
    if to.1 != from.1 {
        return Err(INVALID_VALUE);
    }
    copy(call, [to.0, from.0], bytes, Direction::DtoD, None)
}
