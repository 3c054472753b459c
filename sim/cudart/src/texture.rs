//! Textures and surfaces, which describe how kernels read arrays and memory. They allocate no memory.

use std::ffi::{c_int, c_uint};

use crate::array::{Channels, description};
use crate::device::runtime_version;
use crate::driver::{DevicePtr, Handle};
use crate::error::{INVALID_VALUE, Result};
use crate::memory::Extent;

/// `cudaResourceDesc` (driver_types.h) of CUDA 12: a type and a union, whose largest member is `pitch2D`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Resource {
    kind: c_int,
    /// An array, a mipmapped array or a device address.
    of: Handle,
    channels: Channels,
    /// `linear`: bytes; `pitch2D`: width, height and pitch.
    size: [usize; 3],
}

/// CUDA 13's structure, which has a larger union, and flags after it.
#[repr(C)]
struct Resource13 {
    first: Resource,
    rest: [u64; 9],
    flags: c_uint,
}

/// `CUDA_RESOURCE_DESC` (cuda.h), which is the runtime's structure without the channel description.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct DriverResource {
    kind: c_int,
    of: u64,
    format: c_uint,
    channels: c_uint,
    size: [usize; 3],
    rest: [u64; 11],
    flags: c_uint,
}

/// `cudaResourceViewDesc` (driver_types.h), as words. CUDA 13's structure ends with as many reserved words as the driver's.
pub type View = [u64; 6];
/// `CUDA_RESOURCE_VIEW_DESC` (cuda.h).
type DriverView = [u64; 14];

/// `cudaTextureDesc` (texture_types.h).
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Sampling {
    address_modes: [c_int; 3],
    filter: c_int,
    read_mode: c_int,
    srgb: c_int,
    border: [f32; 4],
    normalized: c_int,
    anisotropy: c_uint,
    mipmap_filter: c_int,
    bias: f32,
    clamps: [f32; 2],
    no_trilinear_optimization: c_int,
    seamless_cubemap: c_int,
}

/// `CUDA_TEXTURE_DESC` (cuda.h).
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct DriverSampling {
    address_modes: [c_int; 3],
    filter: c_int,
    flags: c_uint,
    anisotropy: c_uint,
    mipmap_filter: c_int,
    bias: f32,
    clamps: [f32; 2],
    border: [f32; 4],
    reserved: [c_int; 12],
}

const _: () = assert!(size_of::<Resource>() == 64 && size_of::<Resource13>() == 144);
const _: () = assert!(size_of::<DriverResource>() == 144);
const _: () = assert!(size_of::<Sampling>() == 72 && size_of::<DriverSampling>() == 104);

/// `cudaResourceTypeLinear` and `cudaResourceTypePitch2D`: plain memory, whose format is given in this structure only.
const LINEAR: c_int = 2;
const PITCHED: c_int = 3;
/// Flags of `CUDA_TEXTURE_DESC` (cuda.h, `CU_TRSF_`).
const READ_AS_INTEGER: c_uint = 1;
const NORMALIZED_COORDINATES: c_uint = 2;
const SRGB: c_uint = 0x10;
const NO_TRILINEAR_OPTIMIZATION: c_uint = 0x20;
const SEAMLESS_CUBEMAP: c_uint = 0x40;

impl Resource {
    unsafe fn of_driver(resource: *const Resource) -> Result<DriverResource> {
        // SAFETY: the pointer is null or the application's structure, which has flags in CUDA 13.
        let (Resource { kind, of, channels, size, .. }, flags) = unsafe {
            let known = resource.as_ref().ok_or(INVALID_VALUE)?;
            let is_13 = runtime_version() >= 13000;
            (known, if is_13 { (*resource.cast::<Resource13>()).flags } else { 0 })
        };
        let mut known = DriverResource { kind: *kind, of: *of as DevicePtr, flags, ..Default::default() };
        if [LINEAR, PITCHED].contains(kind) {
            let used = if *kind == LINEAR { 1 } else { 3 };
            known.size[..used].copy_from_slice(&size[..used]);
            // SAFETY: the pointer is to a local structure.
            let of = unsafe { description(channels, Extent { width: 1, height: 0, depth: 0 }, 0) }?;
            (known.format, known.channels) = (of.format, of.channels);
        }
        Ok(known)
    }

    /// Converts the driver's description to the runtime's.
    unsafe fn give(known: &DriverResource, to: *mut Resource) -> Result {
        let DriverResource { kind, of, format, channels, size, flags, .. } = *known;
        let is_memory = [LINEAR, PITCHED].contains(&kind);
        let channels = if is_memory { Channels::of_driver(format, channels)? } else { Channels::default() };
        // SAFETY: the pointer is null or has room for the version's structure.
        unsafe {
            let first = Resource { kind, of: of as Handle, channels, size };
            if to.is_null() {
                return Err(INVALID_VALUE);
            } else if runtime_version() >= 13000 {
                to.cast::<Resource13>().write(Resource13 { first, rest: [0; 9], flags });
            } else {
                to.write(first);
            }
        }
        Ok(())
    }
}

impl Sampling {
    unsafe fn of_driver(sampling: *const Sampling) -> Result<DriverSampling> {
        // SAFETY: the pointer is null or the application's structure.
        let from = unsafe { sampling.as_ref() }.ok_or(INVALID_VALUE)?;
        let flag = |is_set: bool, flag| if is_set { flag } else { 0 };
        Ok(DriverSampling {
            address_modes: from.address_modes,
            filter: from.filter,
            // cudaReadModeElementType is 0; any other mode reads normalized values.
            flags: flag(from.read_mode == 0, READ_AS_INTEGER)
                | flag(from.normalized != 0, NORMALIZED_COORDINATES)
                | flag(from.srgb != 0, SRGB)
                | flag(from.no_trilinear_optimization != 0, NO_TRILINEAR_OPTIMIZATION)
                | flag(from.seamless_cubemap != 0, SEAMLESS_CUBEMAP),
            anisotropy: from.anisotropy,
            mipmap_filter: from.mipmap_filter,
            bias: from.bias,
            clamps: from.clamps,
            border: from.border,
            reserved: [0; 12],
        })
    }

    fn of_runtime(known: &DriverSampling) -> Sampling {
        let flag = |flag| c_int::from(known.flags & flag != 0);
        Sampling {
            address_modes: known.address_modes,
            filter: known.filter,
            read_mode: 1 - flag(READ_AS_INTEGER),
            srgb: flag(SRGB),
            border: known.border,
            normalized: flag(NORMALIZED_COORDINATES),
            anisotropy: known.anisotropy,
            mipmap_filter: known.mipmap_filter,
            bias: known.bias,
            clamps: known.clamps,
            no_trilinear_optimization: flag(NO_TRILINEAR_OPTIMIZATION),
            seamless_cubemap: flag(SEAMLESS_CUBEMAP),
        }
    }
}

export! {
    fn cudaCreateTextureObject(texture: *mut u64, resource: *const Resource, sampling: *const Sampling, view: *const View)
        = with_context |driver| {
        let (resource, sampling) = (Resource::of_driver(resource)?, Sampling::of_driver(sampling)?);
        let mut driver_view: DriverView = [0; 14];
        let view = match view.as_ref() {
            None => std::ptr::null(),
            Some(view) => {
                driver_view[..view.len()].copy_from_slice(view);
                driver_view.as_ptr()
            }
        };
        driver.cuTexObjectCreate(texture, (&raw const resource).cast(), (&raw const sampling).cast(), view.cast())
    }

    fn cudaDestroyTextureObject(texture: u64) = with_context |driver| {
        driver.cuTexObjectDestroy(texture)
    }

    fn cudaGetTextureObjectResourceDesc(resource: *mut Resource, texture: u64) = with_context |driver| {
        let mut known = DriverResource::default();
        driver.cuTexObjectGetResourceDesc((&raw mut known).cast(), texture)?;
        Resource::give(&known, resource)
    }

    fn cudaGetTextureObjectTextureDesc(sampling: *mut Sampling, texture: u64) = with_context |driver| {
        let mut known = DriverSampling::default();
        driver.cuTexObjectGetTextureDesc((&raw mut known).cast(), texture)?;
        *sampling.as_mut().ok_or(INVALID_VALUE)? = Sampling::of_runtime(&known);
        Ok(())
    }

    fn cudaGetTextureObjectResourceViewDesc(view: *mut View, texture: u64) = with_context |driver| {
        let mut known: DriverView = [0; 14];
        driver.cuTexObjectGetResourceViewDesc(known.as_mut_ptr().cast(), texture)?;
        if view.is_null() {
            return Err(INVALID_VALUE);
        }
        let words = if runtime_version() >= 13000 { known.len() } else { size_of::<View>() / 8 };
        std::ptr::copy_nonoverlapping(known.as_ptr(), view.cast(), words);
        Ok(())
    }

    fn cudaCreateSurfaceObject(surface: *mut u64, resource: *const Resource) = with_context |driver| {
        let resource = Resource::of_driver(resource)?;
        driver.cuSurfObjectCreate(surface, (&raw const resource).cast())
    }

    fn cudaDestroySurfaceObject(surface: u64) = with_context |driver| {
        driver.cuSurfObjectDestroy(surface)
    }

    fn cudaGetSurfaceObjectResourceDesc(resource: *mut Resource, surface: u64) = with_context |driver| {
        let mut known = DriverResource::default();
        driver.cuSurfObjectGetResourceDesc((&raw mut known).cast(), surface)?;
        Resource::give(&known, resource)
    }
}
