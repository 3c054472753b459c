//! Copies and memsets by rows and slices, and copies of symbols.

use std::ffi::{c_int, c_uint, c_void};
use std::ptr::null_mut;

use crate::array::element;
use crate::context;
use crate::copy::{self, DEFAULT, DEVICE_TO_HOST, HOST_TO_DEVICE, HOST_TO_HOST};
use crate::driver::{DefaultStream, DevicePtr, Driver, Handle};
use crate::error::{INVALID_MEMCPY_DIRECTION, INVALID_VALUE, Result};
use crate::memory::{Extent, PitchedPtr};
use crate::variable::symbol;

/// A side of `cudaMemcpy3DParms` (driver_types.h): an array or a pointer, and where in it.
#[repr(C)]
#[derive(Clone, Copy)]
struct Side {
    array: Handle,
    position: [usize; 3],
    pointer: PitchedPtr,
}

/// `cudaMemcpy3DParms` (driver_types.h).
#[repr(C)]
pub struct Copy3D {
    from: Side,
    to: Side,
    extent: Extent,
    kind: c_int,
}

/// `cudaMemcpy3DPeerParms` (driver_types.h).
#[repr(C)]
pub struct Peer3D {
    from: Side,
    from_device: c_int,
    to: Side,
    to_device: c_int,
    extent: Extent,
}

/// A side of `CUDA_MEMCPY3D` and of `CUDA_MEMCPY3D_PEER` (cuda.h).
#[repr(C)]
pub struct DriverSide {
    x_bytes: usize,
    y: usize,
    z: usize,
    level: usize,
    memory_type: c_uint,
    host: *mut c_void,
    device: DevicePtr,
    array: Handle,
    context: Handle,
    pitch: usize,
    height: usize,
}

/// `CUDA_MEMCPY3D` and `CUDA_MEMCPY3D_PEER` (cuda.h).
#[repr(C)]
pub struct DriverCopy3D {
    from: DriverSide,
    to: DriverSide,
    extent: Extent,
}

const _: () =
    assert!(size_of::<Copy3D>() == 160 && size_of::<Peer3D>() == 168 && size_of::<DriverCopy3D>() == 200);

impl Side {
    /// Converts to the driver's form. Memory types are 1 host, 2 device, 3 array, 4 unified. A position in an array counts
    /// elements of `element` bytes.
    fn of_driver(&self, memory_type: c_uint, context: Handle, element: usize) -> Result<DriverSide> {
        // driver_types.h: a side is an array or a pointer, and not both.
        if self.array.is_null() == self.pointer.address.is_null() {
            return Err(INVALID_VALUE);
        }
        let Side { array, position: [x, y, z], pointer: PitchedPtr { address, pitch, height, .. } } = *self;
        let device = address as DevicePtr;
        let level = 0;
        let (memory_type, unit) = if array.is_null() { (memory_type, 1) } else { (3, element) };
        Ok(DriverSide {
            x_bytes: x * unit,
            y,
            z,
            level,
            memory_type,
            host: address,
            device,
            array,
            context,
            pitch,
            height,
        })
    }
}

/// Returns the size of the elements that a copy's width counts: the array's elements, or bytes (driver_types.h, cudaMemcpy3DParms).
unsafe fn unit(driver: &Driver, from: &Side, to: &Side) -> Result<usize> {
    let arrays = [from.array, to.array].into_iter().filter(|array| !array.is_null());
    // SAFETY: the caller passes arrays that are alive.
    let sizes = arrays.map(|array| unsafe { element(driver, array) }).collect::<Result<Vec<usize>>>()?;
    match sizes[..] {
        [] => Ok(1),
        [one] => Ok(one),
        // The elements of both arrays have one size.
        [one, other] if one == other => Ok(one),
        _ => Err(INVALID_VALUE),
    }
}

impl Copy3D {
    /// Converts to the driver's form.
    pub unsafe fn of_driver(&self, driver: &Driver) -> Result<DriverCopy3D> {
        let (from, to) = match self.kind {
            HOST_TO_HOST..DEFAULT => (
                1 + c_uint::from(self.kind & DEVICE_TO_HOST != 0),
                1 + c_uint::from(self.kind & HOST_TO_DEVICE != 0),
            ),
            DEFAULT => (4, 4),
            _ => return Err(INVALID_MEMCPY_DIRECTION),
        };
        // SAFETY: the caller passes arrays that are alive.
        let unit = unsafe { unit(driver, &self.from, &self.to) }?;
        let from = self.from.of_driver(from, null_mut(), unit)?;
        let to = self.to.of_driver(to, null_mut(), unit)?;
        Ok(DriverCopy3D { from, to, extent: Extent { width: self.extent.width * unit, ..self.extent } })
    }
}

impl DriverSide {
    /// Converts to the runtime's form, in which a position in an array counts elements.
    fn of_runtime(&self, element: usize) -> Side {
        let is_array = self.memory_type == 3;
        let (array, unit) = if is_array { (self.array, element) } else { (null_mut(), 1) };
        let address = match self.memory_type {
            1 => self.host,
            3 => null_mut(),
            _ => self.device as *mut c_void,
        };
        let pointer = PitchedPtr { address, pitch: self.pitch, width: self.pitch, height: self.height };
        Side { array, position: [self.x_bytes / unit, self.y, self.z], pointer }
    }
}

impl Copy3D {
    /// Converts a driver's copy. Its direction follows from its sides, if both have a known type.
    pub unsafe fn of_runtime(driver: &Driver, copy: &DriverCopy3D) -> Result<Copy3D> {
        let element = |side: &DriverSide| {
            // SAFETY: an array of a node of a graph is alive, or the driver refuses it.
            if side.memory_type == 3 { unsafe { element(driver, side.array) } } else { Ok(1) }
        };
        let (from, to) = (copy.from.of_runtime(element(&copy.from)?), copy.to.of_runtime(element(&copy.to)?));
        let is_host = |side: &DriverSide| side.memory_type == 1;
        let kind = match [&copy.from, &copy.to] {
            sides if sides.iter().any(|side| side.memory_type == 4) => DEFAULT,
            [from, to] => {
                c_int::from(!is_host(from)) * DEVICE_TO_HOST + c_int::from(!is_host(to)) * HOST_TO_DEVICE
            }
        };
        let unit = element(&copy.from)?.max(element(&copy.to)?);
        let extent = Extent { width: copy.extent.width / unit, ..copy.extent };
        Ok(Copy3D { from, to, extent, kind })
    }
}

impl Peer3D {
    unsafe fn of_driver(&self, driver: &Driver) -> Result<DriverCopy3D> {
        // SAFETY: the caller passes arrays that are alive.
        let unit = unsafe { unit(driver, &self.from, &self.to) }?;
        let from = self.from.of_driver(2, context::primary(driver, self.from_device)?, unit)?;
        let to = self.to.of_driver(2, context::primary(driver, self.to_device)?, unit)?;
        Ok(DriverCopy3D { from, to, extent: Extent { width: self.extent.width * unit, ..self.extent } })
    }
}

/// A memset by slices. The driver fills rows, so each slice is a call of its own.
unsafe fn set_slices(
    driver: &Driver,
    default: DefaultStream,
    pointer: PitchedPtr,
    value: c_int,
    extent: Extent,
    stream: Option<Handle>,
) -> Result {
    let Extent { width, height, depth } = extent;
    if extent.is_empty() {
        return Ok(());
    }
    for slice in 0..depth {
        let first = pointer.address as DevicePtr + (slice * pointer.pitch * pointer.height) as DevicePtr;
        // SAFETY: the caller passes memory of that pitch, height and depth.
        unsafe {
            match stream {
                None => {
                    driver.cuMemsetD2D8(default, first, pointer.pitch, value as u8, width, height)?;
                }
                Some(stream) => {
                    driver.cuMemsetD2D8Async(
                        default,
                        first,
                        pointer.pitch,
                        value as u8,
                        width,
                        height,
                        stream,
                    )?;
                }
            }
        }
    }
    Ok(())
}

export_on_stream! {
    fn cudaMemcpy2D, cudaMemcpy2D_ptds(to: *mut c_void, to_pitch: usize, from: *const c_void, from_pitch: usize,
        width: usize, height: usize, kind: c_int) = with_context |driver, default| {
        match copy::rows(to, to_pitch, from, from_pitch, width, height, kind)? {
            Some(copy) => driver.cuMemcpy2DUnaligned(default, (&raw const copy).cast()),
            None => Ok(()),
        }
    }

    fn cudaMemcpy3D, cudaMemcpy3D_ptds(copy: *const Copy3D) = with_context |driver, default| {
        let copy = copy.as_ref().ok_or(INVALID_VALUE)?;
        if copy.extent.is_empty() {
            return Ok(());
        }
        driver.cuMemcpy3D(default, std::ptr::from_ref(&copy.of_driver(driver)?).cast())
    }

    fn cudaMemcpy3DAsync, cudaMemcpy3DAsync_ptsz(copy: *const Copy3D, stream: Handle)
        = with_context |driver, default| {
        let copy = copy.as_ref().ok_or(INVALID_VALUE)?;
        if copy.extent.is_empty() {
            return Ok(());
        }
        driver.cuMemcpy3DAsync(default, std::ptr::from_ref(&copy.of_driver(driver)?).cast(), stream)
    }

    fn cudaMemcpy3DPeer, cudaMemcpy3DPeer_ptds(copy: *const Peer3D) = with_context |driver, default| {
        let copy = copy.as_ref().ok_or(INVALID_VALUE)?;
        if copy.extent.is_empty() {
            return Ok(());
        }
        driver.cuMemcpy3DPeer(default, std::ptr::from_ref(&copy.of_driver(driver)?).cast())
    }

    fn cudaMemcpy3DPeerAsync, cudaMemcpy3DPeerAsync_ptsz(copy: *const Peer3D, stream: Handle)
        = with_context |driver, default| {
        let copy = copy.as_ref().ok_or(INVALID_VALUE)?;
        if copy.extent.is_empty() {
            return Ok(());
        }
        driver.cuMemcpy3DPeerAsync(default, std::ptr::from_ref(&copy.of_driver(driver)?).cast(), stream)
    }

    fn cudaMemset2D, cudaMemset2D_ptds(to: *mut c_void, pitch: usize, value: c_int, width: usize, height: usize)
        = with_context |driver, default| {
        if width == 0 || height == 0 {
            return Ok(());
        }
        driver.cuMemsetD2D8(default, to as DevicePtr, pitch, value as u8, width, height)
    }

    fn cudaMemset2DAsync, cudaMemset2DAsync_ptsz(to: *mut c_void, pitch: usize, value: c_int, width: usize,
        height: usize, stream: Handle) = with_context |driver, default| {
        if width == 0 || height == 0 {
            return Ok(());
        }
        driver.cuMemsetD2D8Async(default, to as DevicePtr, pitch, value as u8, width, height, stream)
    }

    fn cudaMemset3D, cudaMemset3D_ptds(to: PitchedPtr, value: c_int, extent: Extent)
        = with_context |driver, default| { set_slices(driver, default, to, value, extent, None) }

    fn cudaMemset3DAsync, cudaMemset3DAsync_ptsz(to: PitchedPtr, value: c_int, extent: Extent, stream: Handle)
        = with_context |driver, default| { set_slices(driver, default, to, value, extent, Some(stream)) }

    fn cudaMemcpyToSymbol, cudaMemcpyToSymbol_ptds(to: *const c_void, from: *const c_void, bytes: usize, offset: usize,
        kind: c_int) = with_context |driver, default| {
        let to = symbol(driver, to, bytes, offset)?;
        copy::copy(driver, default, to as *mut c_void, from, bytes, kind)
    }

    fn cudaMemcpyToSymbolAsync, cudaMemcpyToSymbolAsync_ptsz(to: *const c_void, from: *const c_void, bytes: usize,
        offset: usize, kind: c_int, stream: Handle) = with_context |driver, default| {
        let to = symbol(driver, to, bytes, offset)?;
        copy::copy_async(driver, default, to as *mut c_void, from, bytes, kind, stream)
    }

    fn cudaMemcpyFromSymbol, cudaMemcpyFromSymbol_ptds(to: *mut c_void, from: *const c_void, bytes: usize,
        offset: usize, kind: c_int) = with_context |driver, default| {
        let from = symbol(driver, from, bytes, offset)?;
        copy::copy(driver, default, to, from as *const c_void, bytes, kind)
    }

    fn cudaMemcpyFromSymbolAsync, cudaMemcpyFromSymbolAsync_ptsz(to: *mut c_void, from: *const c_void, bytes: usize,
        offset: usize, kind: c_int, stream: Handle) = with_context |driver, default| {
        let from = symbol(driver, from, bytes, offset)?;
        copy::copy_async(driver, default, to, from as *const c_void, bytes, kind, stream)
    }
}

export! {
    fn cudaMemcpyPeer(to: *mut c_void, to_device: c_int, from: *const c_void, from_device: c_int, bytes: usize)
        = with_context |driver| {
        if bytes == 0 {
            return Ok(());
        }
        let (to_context, from_context) = (context::primary(driver, to_device)?, context::primary(driver, from_device)?);
        driver.cuMemcpyPeer(DefaultStream::Legacy, to as DevicePtr, to_context, from as DevicePtr, from_context, bytes)
    }
}
