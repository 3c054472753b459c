//! Allocation, and queries about memory.

use std::ffi::{c_int, c_uint, c_void};
use std::ptr::null_mut;

use crate::driver::{DevicePtr, Driver, Handle, IpcHandle};
use crate::error::{INVALID_VALUE, Result};

/// `cudaPointerAttributes` (driver_types.h).
#[repr(C)]
pub struct PointerAttributes {
    /// `cudaMemoryType`: 0 unregistered, 1 host, 2 device, 3 managed.
    memory_type: c_int,
    device: c_int,
    device_pointer: *mut c_void,
    host_pointer: *mut c_void,
}

/// `cudaPitchedPtr` (driver_types.h).
#[repr(C)]
#[derive(Clone, Copy)]
pub struct PitchedPtr {
    pub address: *mut c_void,
    pub pitch: usize,
    pub width: usize,
    pub height: usize,
}

/// `cudaExtent` (driver_types.h): bytes, rows, slices; of copies of arrays elements in place of bytes.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Extent {
    pub width: usize,
    pub height: usize,
    pub depth: usize,
}

impl Extent {
    pub fn is_empty(&self) -> bool {
        self.width == 0 || self.height == 0 || self.depth == 0
    }
}

/// Bytes of an element, which cuMemAllocPitch wants to know for coalescing.
const ELEMENT: c_uint = 4;

/// A driver allocation into a pointer: null for zero bytes, without a call.
pub unsafe fn allocate(
    place: *mut *mut c_void,
    bytes: usize,
    call: impl FnOnce(*mut DevicePtr) -> Result,
) -> Result {
    // SAFETY: null or a place for a pointer.
    let place = unsafe { place.as_mut() }.ok_or(INVALID_VALUE)?;
    let mut block = 0;
    if bytes != 0 {
        call(&mut block)?;
    }
    *place = block as *mut c_void;
    Ok(())
}

/// Returns one pointer attribute, by its number in `CUpointer_attribute` (cuda.h); `initial` if the driver does not
/// know it.
fn attribute<T>(driver: &Driver, number: c_int, pointer: *const c_void, initial: T) -> T {
    let mut value = initial;
    // SAFETY: the place has the attribute's size; the pointer is only looked up.
    let _ = unsafe { driver.cuPointerGetAttribute((&raw mut value).cast(), number, pointer as DevicePtr) };
    value
}

export! {
    fn cudaMalloc(place: *mut *mut c_void, bytes: usize) = with_context |driver| {
        allocate(place, bytes, |block| driver.cuMemAlloc(block, bytes))
    }

    fn cudaMallocManaged(place: *mut *mut c_void, bytes: usize, flags: c_uint) = with_context |driver| {
        allocate(place, bytes, |block| driver.cuMemAllocManaged(block, bytes, flags))
    }

    fn cudaFree(block: *mut c_void) = with_context |driver| {
        if block.is_null() { Ok(()) } else { driver.cuMemFree(block as DevicePtr) }
    }

    fn cudaMallocHost(place: *mut *mut c_void, bytes: usize) = with_context |driver| {
        driver.cuMemHostAlloc(place, bytes, 0)
    }

    fn cudaHostAlloc(place: *mut *mut c_void, bytes: usize, flags: c_uint) = with_context |driver| {
        driver.cuMemHostAlloc(place, bytes, flags)
    }

    fn cudaFreeHost(block: *mut c_void) = with_context |driver| {
        if block.is_null() { Ok(()) } else { driver.cuMemFreeHost(block) }
    }

    fn cudaHostRegister(block: *mut c_void, bytes: usize, flags: c_uint) = with_context |driver| {
        driver.cuMemHostRegister(block, bytes, flags)
    }

    fn cudaHostUnregister(block: *mut c_void) = with_context |driver| {
        driver.cuMemHostUnregister(block)
    }

    fn cudaHostGetDevicePointer(device: *mut *mut c_void, host: *mut c_void, flags: c_uint) = with_context |driver| {
        driver.cuMemHostGetDevicePointer(device.cast(), host, flags)
    }

    fn cudaMemGetInfo(free: *mut usize, total: *mut usize) = with_context |driver| {
        driver.cuMemGetInfo(free, total)
    }

    fn cudaPointerGetAttributes(attributes: *mut PointerAttributes, pointer: *const c_void) = with_context |driver| {
        // CU_POINTER_ATTRIBUTE_: MEMORY_TYPE 2, DEVICE_POINTER 3, HOST_POINTER 4, IS_MANAGED 8, DEVICE_ORDINAL 9.
        // A pointer that CUDA does not know is no error: it is unregistered host memory.
        let memory_type = attribute(driver, 2, pointer, 0 as c_uint) as c_int;
        let managed = attribute(driver, 8, pointer, 0 as c_uint) != 0;
        let known = memory_type != 0;
        attributes.write(PointerAttributes {
            memory_type: if managed { 3 } else { memory_type },
            device: if known { attribute(driver, 9, pointer, 0) } else { -2 },
            device_pointer: if known { attribute(driver, 3, pointer, null_mut()) } else { null_mut() },
            host_pointer: if known { attribute(driver, 4, pointer, null_mut()) } else { pointer.cast_mut() },
        });
        Ok(())
    }

    fn cudaIpcGetMemHandle(handle: *mut IpcHandle, block: *mut c_void) = with_context |driver| {
        driver.cuIpcGetMemHandle(handle, block as DevicePtr)
    }

    fn cudaIpcOpenMemHandle(place: *mut *mut c_void, handle: IpcHandle, flags: c_uint) = with_context |driver| {
        driver.cuIpcOpenMemHandle(place.cast(), handle, flags)
    }

    fn cudaIpcCloseMemHandle(block: *mut c_void) = with_context |driver| {
        driver.cuIpcCloseMemHandle(block as DevicePtr)
    }

    fn cudaMallocPitch(place: *mut *mut c_void, pitch: *mut usize, width: usize, height: usize) = with_context |driver| {
        allocate(place, width * height, |block| driver.cuMemAllocPitch(block, pitch, width, height, ELEMENT))
    }

    fn cudaMalloc3D(pitched: *mut PitchedPtr, extent: Extent) = with_context |driver| {
        let pitched = pitched.as_mut().ok_or(INVALID_VALUE)?;
        let Extent { width, height, depth } = extent;
        let rows = height * depth;
        allocate(&mut pitched.address, width * rows, |block| {
            driver.cuMemAllocPitch(block, &mut pitched.pitch, width, rows, ELEMENT)
        })?;
        (pitched.width, pitched.height) = (width, height);
        Ok(())
    }

    fn cudaImportExternalMemory(external: *mut Handle, description: *const c_void) = with_context |driver| {
        driver.cuImportExternalMemory(external, description)
    }

    fn cudaExternalMemoryGetMappedBuffer(place: *mut *mut c_void, external: Handle, buffer: *const c_void) = with_context |driver| {
        driver.cuExternalMemoryGetMappedBuffer(place.cast(), external, buffer)
    }

    fn cudaDestroyExternalMemory(external: Handle) = with_context |driver| {
        driver.cuDestroyExternalMemory(external)
    }
}
