//! Copies and memsets. Each becomes the driver's typed call for its direction; one of 0 bytes becomes no call.

use std::ffi::{c_int, c_void};
use std::ptr::null_mut;

use crate::context;
use crate::driver::{DefaultStream, DevicePtr, Driver, Handle};
use crate::error::{INVALID_MEMCPY_DIRECTION, Result};

/// `cudaMemcpyKind` (driver_types.h).
pub const HOST_TO_HOST: c_int = 0;
pub const HOST_TO_DEVICE: c_int = 1;
pub const DEVICE_TO_HOST: c_int = 2;
pub const DEVICE_TO_DEVICE: c_int = 3;
pub const DEFAULT: c_int = 4;

pub unsafe fn copy(
    driver: &Driver,
    default: DefaultStream,
    to: *mut c_void,
    from: *const c_void,
    bytes: usize,
    kind: c_int,
) -> Result {
    // SAFETY: the caller passes ranges of that many bytes, on the sides that `kind` says.
    unsafe {
        match kind {
            HOST_TO_HOST..=DEFAULT if bytes == 0 => Ok(()),
            HOST_TO_DEVICE => driver.cuMemcpyHtoD(default, to as DevicePtr, from, bytes),
            DEVICE_TO_HOST => driver.cuMemcpyDtoH(default, to, from as DevicePtr, bytes),
            DEVICE_TO_DEVICE => driver.cuMemcpyDtoD(default, to as DevicePtr, from as DevicePtr, bytes),
            HOST_TO_HOST | DEFAULT => driver.cuMemcpy(default, to as DevicePtr, from as DevicePtr, bytes),
            _ => Err(INVALID_MEMCPY_DIRECTION),
        }
    }
}

pub unsafe fn copy_async(
    driver: &Driver,
    default: DefaultStream,
    to: *mut c_void,
    from: *const c_void,
    bytes: usize,
    kind: c_int,
    stream: Handle,
) -> Result {
    let (to_device, from_device) = (to as DevicePtr, from as DevicePtr);
    // SAFETY: as in `copy`, until the stream has come so far.
    unsafe {
        match kind {
            HOST_TO_HOST..=DEFAULT if bytes == 0 => Ok(()),
            HOST_TO_DEVICE => driver.cuMemcpyHtoDAsync(default, to_device, from, bytes, stream),
            DEVICE_TO_HOST => driver.cuMemcpyDtoHAsync(default, to, from_device, bytes, stream),
            DEVICE_TO_DEVICE => driver.cuMemcpyDtoDAsync(default, to_device, from_device, bytes, stream),
            HOST_TO_HOST | DEFAULT => driver.cuMemcpyAsync(default, to_device, from_device, bytes, stream),
            _ => Err(INVALID_MEMCPY_DIRECTION),
        }
    }
}

/// `CUDA_MEMCPY2D` (cuda.h); memory types 1 host, 2 device, 4 unified.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Copy2D {
    pub from: Side2D,
    pub to: Side2D,
    pub width: usize,
    pub height: usize,
}

/// A side of it.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Side2D {
    pub x_bytes: usize,
    pub y: usize,
    pub memory_type: u32,
    pub host: *const c_void,
    pub device: DevicePtr,
    pub array: Handle,
    pub pitch: usize,
}

const _: () = assert!(size_of::<Copy2D>() == 128);

/// The side of a copy that is an array; memory type 3.
pub fn array_side(array: Handle, x_bytes: usize, y: usize) -> Side2D {
    let (memory_type, host, device, pitch) = (3, null_mut::<c_void>().cast_const(), 0, 0);
    Side2D { x_bytes, y, memory_type, host, device, array, pitch }
}

/// One side of a copy, `device` by the copy's kind or unknown.
pub fn side(address: *const c_void, pitch: usize, device: Option<bool>) -> Side2D {
    let memory_type = match device {
        Some(false) => 1,
        Some(true) => 2,
        None => 4,
    };
    Side2D {
        x_bytes: 0,
        y: 0,
        memory_type,
        host: address,
        device: address as DevicePtr,
        array: null_mut(),
        pitch,
    }
}

/// Returns the driver's parameters for a copy by rows; none for 0 bytes.
pub fn rows(
    to: *mut c_void,
    to_pitch: usize,
    from: *const c_void,
    from_pitch: usize,
    width: usize,
    height: usize,
    kind: c_int,
) -> Result<Option<Copy2D>> {
    let (from_device, to_device) = match kind {
        HOST_TO_HOST..DEFAULT => (Some(kind & DEVICE_TO_HOST != 0), Some(kind & HOST_TO_DEVICE != 0)),
        DEFAULT => (None, None),
        _ => return Err(INVALID_MEMCPY_DIRECTION),
    };
    let (from, to) = (side(from, from_pitch, from_device), side(to, to_pitch, to_device));
    Ok((width != 0 && height != 0).then_some(Copy2D { from, to, width, height }))
}

export_on_stream! {
    fn cudaMemcpy, cudaMemcpy_ptds(to: *mut c_void, from: *const c_void, bytes: usize, kind: c_int)
        = with_context |driver, default| { copy(driver, default, to, from, bytes, kind) }

    fn cudaMemcpyAsync, cudaMemcpyAsync_ptsz(to: *mut c_void, from: *const c_void, bytes: usize, kind: c_int,
        stream: Handle) = with_context |driver, default| {
        copy_async(driver, default, to, from, bytes, kind, stream)
    }

    fn cudaMemcpy2DAsync, cudaMemcpy2DAsync_ptsz(to: *mut c_void, to_pitch: usize, from: *const c_void,
        from_pitch: usize, width: usize, height: usize, kind: c_int, stream: Handle)
        = with_context |driver, default| {
        match rows(to, to_pitch, from, from_pitch, width, height, kind)? {
            Some(copy) => driver.cuMemcpy2DAsync(default, (&raw const copy).cast(), stream),
            None => Ok(()),
        }
    }

    fn cudaMemset, cudaMemset_ptds(to: *mut c_void, value: c_int, bytes: usize) = with_context |driver, default| {
        if bytes == 0 { Ok(()) } else { driver.cuMemsetD8(default, to as DevicePtr, value as u8, bytes) }
    }

    fn cudaMemsetAsync, cudaMemsetAsync_ptsz(to: *mut c_void, value: c_int, bytes: usize, stream: Handle)
        = with_context |driver, default| {
        if bytes == 0 { Ok(()) } else { driver.cuMemsetD8Async(default, to as DevicePtr, value as u8, bytes, stream) }
    }
}

export! {
    fn cudaMemcpyPeerAsync(to: *mut c_void, to_device: c_int, from: *const c_void, from_device: c_int, bytes: usize,
        stream: Handle) = with_context |driver| {
        if bytes == 0 {
            return Ok(());
        }
        let (to_context, from_context) = (context::primary(driver, to_device)?, context::primary(driver, from_device)?);
        driver.cuMemcpyPeerAsync(DefaultStream::Legacy, to as DevicePtr, to_context, from as DevicePtr, from_context,
            bytes, stream)
    }
}
