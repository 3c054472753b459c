//! Arrays, mipmapped or not.

use std::ffi::{c_int, c_uint};

use crate::driver::{ArrayDescription, Driver, Handle};
use crate::error::{INVALID_VALUE, Result};
use crate::memory::Extent;

/// `cudaChannelFormatDesc` (driver_types.h): the bits of each channel, and their kind.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Channels {
    bits: [c_int; 4],
    kind: c_int,
}

/// `cudaExternalMemoryMipmappedArrayDesc` (driver_types.h).
#[repr(C)]
pub struct ExternalArray {
    offset: u64,
    channels: Channels,
    extent: Extent,
    flags: c_uint,
    levels: c_uint,
}

/// `CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC` (cuda.h).
#[repr(C)]
struct DriverExternalArray {
    offset: u64,
    array: ArrayDescription,
    levels: c_uint,
    reserved: [c_uint; 16],
}

const _: () = assert!(size_of::<ExternalArray>() == 64 && size_of::<DriverExternalArray>() == 120);

/// The driver's description: `CUarray_format` (cuda.h) from the width and the kind of a channel
/// (`cudaChannelFormatKindSigned` 0, `Unsigned` 1, `Float` 2).
pub unsafe fn description(
    channels: *const Channels,
    extent: Extent,
    flags: c_uint,
) -> Result<ArrayDescription> {
    // SAFETY: null or a description.
    let Channels { bits, kind } = unsafe { channels.as_ref() }.ok_or(INVALID_VALUE)?;
    let format = match (kind, bits[0]) {
        (0, 8) => 0x08,
        (0, 16) => 0x09,
        (0, 32) => 0x0a,
        (1, 8) => 0x01,
        (1, 16) => 0x02,
        (1, 32) => 0x03,
        (2, 16) => 0x10,
        (2, 32) => 0x20,
        _ => return Err(INVALID_VALUE),
    };
    let used = bits.iter().take_while(|bits| **bits != 0).count();
    if bits[..used].iter().any(|bits_of| *bits_of != bits[0]) {
        return Err(INVALID_VALUE);
    }
    let size = [extent.width, extent.height, extent.depth];
    Ok(ArrayDescription { size, format, channels: used as c_uint, flags })
}

/// The shape and format of an array.
pub unsafe fn described(driver: &Driver, array: Handle) -> Result<ArrayDescription> {
    let mut known = ArrayDescription { size: [0; 3], format: 0, channels: 0, flags: 0 };
    // SAFETY: the caller passes an array; writes a place of ours.
    unsafe { driver.cuArray3DGetDescriptor(&mut known, array)? };
    Ok(known)
}

impl Channels {
    /// Channels of the driver's format.
    pub fn of_driver(format: c_uint, count: c_uint) -> Result<Channels> {
        let (width, kind) = match format {
            0x08 => (8, 0),
            0x09 => (16, 0),
            0x0a => (32, 0),
            0x01 => (8, 1),
            0x02 => (16, 1),
            0x03 => (32, 1),
            0x10 => (16, 2),
            0x20 => (32, 2),
            _ => return Err(INVALID_VALUE),
        };
        let bits = std::array::from_fn(|channel| if channel < count as usize { width } else { 0 });
        Ok(Channels { bits, kind })
    }
}

impl ArrayDescription {
    /// Bytes of an element.
    pub fn element(&self) -> usize {
        let channel = match self.format {
            0x01 | 0x08 => 1,
            0x02 | 0x09 | 0x10 => 2,
            _ => 4,
        };
        channel * self.channels as usize
    }
}

/// Bytes of an array's elements.
pub unsafe fn element(driver: &Driver, array: Handle) -> Result<usize> {
    // SAFETY: the caller's.
    Ok(unsafe { described(driver, array) }?.element())
}

/// Builds a description, which is not checked before it is used.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn cudaCreateChannelDesc(
    x: c_int,
    y: c_int,
    z: c_int,
    w: c_int,
    kind: c_int,
) -> Channels {
    Channels { bits: [x, y, z, w], kind }
}

export! {
    fn cudaMallocArray(array: *mut Handle, channels: *const Channels, width: usize, height: usize, flags: c_uint)
        = with_context |driver| {
        driver.cuArray3DCreate(array, &description(channels, Extent { width, height, depth: 0 }, flags)?)
    }

    fn cudaMalloc3DArray(array: *mut Handle, channels: *const Channels, extent: Extent, flags: c_uint)
        = with_context |driver| {
        driver.cuArray3DCreate(array, &description(channels, extent, flags)?)
    }

    fn cudaMallocMipmappedArray(mipmap: *mut Handle, channels: *const Channels, extent: Extent, levels: c_uint, flags: c_uint)
        = with_context |driver| {
        driver.cuMipmappedArrayCreate(mipmap, &description(channels, extent, flags)?, levels)
    }

    fn cudaExternalMemoryGetMappedMipmappedArray(mipmap: *mut Handle, external: Handle, array: *const ExternalArray)
        = with_context |driver| {
        let ExternalArray { offset, channels, extent, flags, levels } = array.as_ref().ok_or(INVALID_VALUE)?;
        let array = description(channels, *extent, *flags)?;
        let array = DriverExternalArray { offset: *offset, array, levels: *levels, reserved: [0; 16] };
        driver.cuExternalMemoryGetMappedMipmappedArray(mipmap, external, (&raw const array).cast())
    }

    fn cudaArrayGetInfo(channels: *mut Channels, extent: *mut Extent, flags: *mut c_uint, array: Handle)
        = with_context |driver| {
        let known = described(driver, array)?;
        let [width, height, depth] = known.size;
        if let Some(channels) = channels.as_mut() {
            *channels = Channels::of_driver(known.format, known.channels)?;
        }
        if let Some(extent) = extent.as_mut() {
            *extent = Extent { width, height, depth };
        }
        if let Some(flags) = flags.as_mut() {
            *flags = known.flags;
        }
        Ok(())
    }

    fn cudaGetChannelDesc(channels: *mut Channels, array: Handle) = with_context |driver| {
        let known = described(driver, array)?;
        *channels.as_mut().ok_or(INVALID_VALUE)? = Channels::of_driver(known.format, known.channels)?;
        Ok(())
    }

    fn cudaGetMipmappedArrayLevel(array: *mut Handle, mipmap: Handle, level: c_uint) = with_context |driver| {
        driver.cuMipmappedArrayGetLevel(array, mipmap, level)
    }

    fn cudaFreeArray(array: Handle) = with_context |driver| {
        if array.is_null() { Ok(()) } else { driver.cuArrayDestroy(array) }
    }

    fn cudaFreeMipmappedArray(mipmap: Handle) = with_context |driver| {
        if mipmap.is_null() { Ok(()) } else { driver.cuMipmappedArrayDestroy(mipmap) }
    }
}
