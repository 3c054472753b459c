//! Copies to, from and between arrays. Each becomes a copy by rows of the driver.

use std::ffi::{c_int, c_void};

use crate::array::described;
use crate::copy::{
    Copy2D, DEFAULT, DEVICE_TO_DEVICE, DEVICE_TO_HOST, HOST_TO_DEVICE, Side2D, array_side, side,
};
use crate::driver::{DefaultStream, Driver, Handle};
use crate::error::{INVALID_MEMCPY_DIRECTION, INVALID_VALUE, Result};

/// Returns where the side that is not an array lies: on the host, on a device, or wherever its address says. `host` is
/// the kind of copy in which that side is the host.
fn is_device(kind: c_int, host: c_int) -> Result<Option<bool>> {
    match kind {
        DEFAULT => Ok(None),
        DEVICE_TO_DEVICE => Ok(Some(true)),
        _ if kind == host => Ok(Some(false)),
        _ => Err(INVALID_MEMCPY_DIRECTION),
    }
}

/// Makes one driver call, or none for 0 bytes.
unsafe fn run(driver: &Driver, default: DefaultStream, copy: Copy2D, stream: Option<Handle>) -> Result {
    if copy.width == 0 || copy.height == 0 {
        return Ok(());
    }
    let copy = (&raw const copy).cast();
    // SAFETY: the caller passes sides that hold what is copied.
    unsafe {
        match stream {
            None => driver.cuMemcpy2DUnaligned(default, copy),
            Some(stream) => driver.cuMemcpy2DAsync(default, copy, stream),
        }
    }
}

/// Copies contiguous bytes, which continue in the next row of an array: one copy for each part that lies in one row on
/// both sides, and one copy for all whole rows.
unsafe fn run_on(
    driver: &Driver,
    default: DefaultStream,
    [mut to, mut from]: [Side2D; 2],
    mut bytes: usize,
    stream: Option<Handle>,
) -> Result {
    // SAFETY: the caller passes arrays that are alive.
    let (to_row, from_row) = unsafe { (row(driver, &to)?, row(driver, &from)?) };
    let left_in_row =
        |side: &Side2D, row: Option<usize>| row.map_or(usize::MAX, |row| row.saturating_sub(side.x_bytes));
    while bytes > 0 {
        let width = bytes.min(left_in_row(&to, to_row)).min(left_in_row(&from, from_row));
        if width == 0 {
            return Err(INVALID_VALUE);
        }
        let whole = |row: Option<usize>| row.is_none_or(|row| row == width);
        let height = if whole(to_row) && whole(from_row) { bytes / width } else { 1 };
        let pitched = |side: Side2D| Side2D { pitch: width, ..side };
        // SAFETY: as above.
        unsafe {
            run(driver, default, Copy2D { from: pitched(from), to: pitched(to), width, height }, stream)?
        };
        advance(&mut to, to_row, width, height);
        advance(&mut from, from_row, width, height);
        bytes -= width * height;
    }
    Ok(())
}

/// Returns the bytes of a row of a side that is an array.
unsafe fn row(driver: &Driver, side: &Side2D) -> Result<Option<usize>> {
    if side.array.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller passes an array that is alive.
    let known = unsafe { described(driver, side.array) }?;
    Ok(Some(known.size[0] * known.element()))
}

/// Moves a side past the bytes that were copied.
fn advance(side: &mut Side2D, row: Option<usize>, width: usize, height: usize) {
    match row {
        None => {
            side.host = side.host.wrapping_byte_add(width * height);
            side.device += (width * height) as u64;
        }
        Some(row) if side.x_bytes + width == row => (side.x_bytes, side.y) = (0, side.y + height),
        Some(_) => side.x_bytes += width,
    }
}

/// Returns the side that is host or device memory.
fn memory(address: *const c_void, pitch: usize, kind: c_int, host: c_int) -> Result<Side2D> {
    Ok(side(address, pitch, is_device(kind, host)?))
}

/// Checks the kind of a copy between two arrays: both sides are device memory.
fn check_between(kind: c_int) -> Result {
    if matches!(kind, DEVICE_TO_DEVICE | DEFAULT) { Ok(()) } else { Err(INVALID_MEMCPY_DIRECTION) }
}

export_on_stream! {
    fn cudaMemcpy2DToArray, cudaMemcpy2DToArray_ptds(to: Handle, x: usize, y: usize, from: *const c_void, pitch: usize,
        width: usize, height: usize, kind: c_int) = with_context |driver, default| {
        let (to, from) = (array_side(to, x, y), memory(from, pitch, kind, HOST_TO_DEVICE)?);
        run(driver, default, Copy2D { from, to, width, height }, None)
    }

    fn cudaMemcpy2DToArrayAsync, cudaMemcpy2DToArrayAsync_ptsz(to: Handle, x: usize, y: usize, from: *const c_void,
        pitch: usize, width: usize, height: usize, kind: c_int, stream: Handle) = with_context |driver, default| {
        let (to, from) = (array_side(to, x, y), memory(from, pitch, kind, HOST_TO_DEVICE)?);
        run(driver, default, Copy2D { from, to, width, height }, Some(stream))
    }

    fn cudaMemcpy2DFromArray, cudaMemcpy2DFromArray_ptds(to: *mut c_void, pitch: usize, from: Handle, x: usize, y: usize,
        width: usize, height: usize, kind: c_int) = with_context |driver, default| {
        let (to, from) = (memory(to, pitch, kind, DEVICE_TO_HOST)?, array_side(from, x, y));
        run(driver, default, Copy2D { from, to, width, height }, None)
    }

    fn cudaMemcpy2DFromArrayAsync, cudaMemcpy2DFromArrayAsync_ptsz(to: *mut c_void, pitch: usize, from: Handle, x: usize,
        y: usize, width: usize, height: usize, kind: c_int, stream: Handle) = with_context |driver, default| {
        let (to, from) = (memory(to, pitch, kind, DEVICE_TO_HOST)?, array_side(from, x, y));
        run(driver, default, Copy2D { from, to, width, height }, Some(stream))
    }

    fn cudaMemcpy2DArrayToArray, cudaMemcpy2DArrayToArray_ptds(to: Handle, to_x: usize, to_y: usize, from: Handle,
        from_x: usize, from_y: usize, width: usize, height: usize, kind: c_int) = with_context |driver, default| {
        check_between(kind)?;
        let (to, from) = (array_side(to, to_x, to_y), array_side(from, from_x, from_y));
        run(driver, default, Copy2D { from, to, width, height }, None)
    }

    fn cudaMemcpyToArray, cudaMemcpyToArray_ptds(to: Handle, x: usize, y: usize, from: *const c_void, bytes: usize,
        kind: c_int) = with_context |driver, default| {
        run_on(driver, default, [array_side(to, x, y), memory(from, 0, kind, HOST_TO_DEVICE)?], bytes, None)
    }

    fn cudaMemcpyToArrayAsync, cudaMemcpyToArrayAsync_ptsz(to: Handle, x: usize, y: usize, from: *const c_void,
        bytes: usize, kind: c_int, stream: Handle) = with_context |driver, default| {
        run_on(driver, default, [array_side(to, x, y), memory(from, 0, kind, HOST_TO_DEVICE)?], bytes, Some(stream))
    }

    fn cudaMemcpyFromArray, cudaMemcpyFromArray_ptds(to: *mut c_void, from: Handle, x: usize, y: usize, bytes: usize,
        kind: c_int) = with_context |driver, default| {
        run_on(driver, default, [memory(to, 0, kind, DEVICE_TO_HOST)?, array_side(from, x, y)], bytes, None)
    }

    fn cudaMemcpyFromArrayAsync, cudaMemcpyFromArrayAsync_ptsz(to: *mut c_void, from: Handle, x: usize, y: usize,
        bytes: usize, kind: c_int, stream: Handle) = with_context |driver, default| {
        run_on(driver, default, [memory(to, 0, kind, DEVICE_TO_HOST)?, array_side(from, x, y)], bytes, Some(stream))
    }

    fn cudaMemcpyArrayToArray, cudaMemcpyArrayToArray_ptds(to: Handle, to_x: usize, to_y: usize, from: Handle,
        from_x: usize, from_y: usize, bytes: usize, kind: c_int) = with_context |driver, default| {
        check_between(kind)?;
        run_on(driver, default, [array_side(to, to_x, to_y), array_side(from, from_x, from_y)], bytes, None)
    }
}
