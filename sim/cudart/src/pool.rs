//! Stream-ordered memory and its pools.

use std::ffi::{c_int, c_uint, c_void};

use crate::driver::{DevicePtr, Handle, Location};
use crate::memory::allocate;

export! {
    fn cudaMemPoolTrimTo(pool: Handle, keep: usize) = with_driver |driver| {
        driver.cuMemPoolTrimTo(pool, keep)
    }

    fn cudaMemPoolGetAttribute(pool: Handle, number: c_int, value: *mut c_void) = with_driver |driver| {
        driver.cuMemPoolGetAttribute(pool, number, value)
    }

    fn cudaMemPoolSetAttribute(pool: Handle, number: c_int, value: *mut c_void) = with_driver |driver| {
        driver.cuMemPoolSetAttribute(pool, number, value)
    }

    fn cudaMemPoolSetAccess(pool: Handle, list: *const c_void, count: usize) = with_driver |driver| {
        driver.cuMemPoolSetAccess(pool, list, count)
    }

    fn cudaMemPoolGetAccess(flags: *mut c_int, pool: Handle, location: *const Location) = with_driver |driver| {
        driver.cuMemPoolGetAccess(flags, pool, location)
    }

    fn cudaMemPoolCreate(pool: *mut Handle, properties: *const c_void) = with_driver |driver| {
        driver.cuMemPoolCreate(pool, properties)
    }

    fn cudaMemPoolDestroy(pool: Handle) = with_driver |driver| {
        driver.cuMemPoolDestroy(pool)
    }

    fn cudaDeviceGetMemPool(pool: *mut Handle, device: c_int) = with_driver |driver| {
        driver.cuDeviceGetMemPool(pool, device)
    }

    fn cudaDeviceSetMemPool(device: c_int, pool: Handle) = with_driver |driver| {
        driver.cuDeviceSetMemPool(device, pool)
    }

    fn cudaMemSetMemPool(location: *const Location, kind: c_int, pool: Handle) = with_driver |driver| {
        driver.cuMemSetMemPool(location, kind, pool)
    }

    fn cudaMemPoolExportToShareableHandle(shared: *mut c_void, pool: Handle, kind: c_int, flags: c_uint) = with_driver |driver| {
        driver.cuMemPoolExportToShareableHandle(shared, pool, kind, flags.into())
    }

    fn cudaMemPoolImportFromShareableHandle(pool: *mut Handle, shared: *mut c_void, kind: c_int, flags: c_uint) = with_driver |driver| {
        driver.cuMemPoolImportFromShareableHandle(pool, shared, kind, flags.into())
    }

    fn cudaMemPoolExportPointer(data: *mut c_void, block: *mut c_void) = with_context |driver| {
        driver.cuMemPoolExportPointer(data, block as DevicePtr)
    }

    fn cudaMemPoolImportPointer(place: *mut *mut c_void, pool: Handle, data: *mut c_void) = with_context |driver| {
        driver.cuMemPoolImportPointer(place.cast(), pool, data)
    }
}

export_on_stream! {
    fn cudaMallocAsync, cudaMallocAsync_ptsz(place: *mut *mut c_void, bytes: usize, stream: Handle)
        = with_context |driver, default| {
        allocate(place, bytes, |block| driver.cuMemAllocAsync(default, block, bytes, stream))
    }

    fn cudaFreeAsync, cudaFreeAsync_ptsz(block: *mut c_void, stream: Handle) = with_context |driver, default| {
        if block.is_null() { Ok(()) } else { driver.cuMemFreeAsync(default, block as DevicePtr, stream) }
    }

    fn cudaMallocFromPoolAsync, cudaMallocFromPoolAsync_ptsz(place: *mut *mut c_void, bytes: usize, pool: Handle,
        stream: Handle) = with_context |driver, default| {
        allocate(place, bytes, |block| driver.cuMemAllocFromPoolAsync(default, block, bytes, pool, stream))
    }
}
