//! Managed memory: prefetches, discards, advice; copies with attributes. What has other arguments in CUDA 12 and 13 under
//! one name (`cudaMemPrefetchAsync`, `cudaMemAdvise`, `cudaMemcpyBatchAsync`) is here as CUDA 12 has it.

use std::ffi::{c_int, c_uint, c_void};

use crate::driver::{DevicePtr, Handle, Location};

export_on_stream! {
    fn cudaMemPrefetchAsync, cudaMemPrefetchAsync_ptsz(address: *const c_void, bytes: usize, device: c_int,
        stream: Handle) = with_context |driver, default| {
        driver.cuMemPrefetchAsync(default, address as DevicePtr, bytes, Location::of(device), 0, stream)
    }

    fn cudaMemPrefetchAsync_v2, cudaMemPrefetchAsync_v2_ptsz(address: *const c_void, bytes: usize, location: Location,
        flags: c_uint, stream: Handle) = with_context |driver, default| {
        driver.cuMemPrefetchAsync(default, address as DevicePtr, bytes, location, flags, stream)
    }

    fn cudaMemPrefetchBatchAsync, cudaMemPrefetchBatchAsync_ptsz(addresses: *const DevicePtr, sizes: *const usize,
        count: usize, locations: *const Location, starts: *const usize, kinds: usize, flags: u64, stream: Handle)
        = with_context |driver, default| {
        driver.cuMemPrefetchBatchAsync(default, addresses, sizes, count, locations, starts, kinds, flags, stream)
    }

    fn cudaMemDiscardAndPrefetchBatchAsync, cudaMemDiscardAndPrefetchBatchAsync_ptsz(addresses: *const DevicePtr,
        sizes: *const usize, count: usize, locations: *const Location, starts: *const usize, kinds: usize, flags: u64,
        stream: Handle) = with_context |driver, default| {
        driver.cuMemDiscardAndPrefetchBatchAsync(default, addresses, sizes, count, locations, starts, kinds, flags,
            stream)
    }

    fn cudaMemDiscardBatchAsync, cudaMemDiscardBatchAsync_ptsz(addresses: *const DevicePtr, sizes: *const usize,
        count: usize, flags: u64, stream: Handle) = with_context |driver, default| {
        driver.cuMemDiscardBatchAsync(default, addresses, sizes, count, flags, stream)
    }

    fn cudaStreamAttachMemAsync, cudaStreamAttachMemAsync_ptsz(stream: Handle, address: *mut c_void, bytes: usize,
        flags: c_uint) = with_context |driver, default| {
        driver.cuStreamAttachMemAsync(default, stream, address as DevicePtr, bytes, flags)
    }

    fn cudaMemcpyWithAttributesAsync, cudaMemcpyWithAttributesAsync_ptsz(to: *mut c_void, from: *const c_void,
        bytes: usize, attributes: *const c_void, stream: Handle) = with_context |driver, default| {
        driver.cuMemcpyWithAttributesAsync(default, to as DevicePtr, from as DevicePtr, bytes, attributes, stream)
    }

    fn cudaMemcpy3DWithAttributesAsync, cudaMemcpy3DWithAttributesAsync_ptsz(operation: *const c_void, flags: u64,
        stream: Handle) = with_context |driver, default| {
        driver.cuMemcpy3DWithAttributesAsync(default, operation, flags, stream)
    }

    fn cudaMemcpyBatchAsync, cudaMemcpyBatchAsync_ptsz(to: *const DevicePtr, from: *const DevicePtr,
        sizes: *const usize, count: usize, attributes: *const c_void, starts: *const usize, kinds: usize,
        failed: *mut usize, stream: Handle) = with_context |driver, default| {
        driver.cuMemcpyBatchAsync(default, to, from, sizes, count, attributes, starts, kinds, failed, stream)
    }
}

export! {
    fn cudaMemAdvise(address: *const c_void, bytes: usize, advice: c_int, device: c_int) = with_context |driver| {
        driver.cuMemAdvise(address as DevicePtr, bytes, advice, Location::of(device))
    }

    fn cudaMemAdvise_v2(address: *const c_void, bytes: usize, advice: c_int, location: Location)
        = with_context |driver| { driver.cuMemAdvise(address as DevicePtr, bytes, advice, location) }
}
