//! Managed memory: prefetches, discards, advice; copies with attributes. Functions whose last arguments differ between
//! CUDA 12 and 13 take them as words, and read them as this runtime's version defines them.

use std::ffi::{c_int, c_uint, c_void};

use std::ptr::null_mut;

use crate::device::runtime_version;
use crate::driver::{DevicePtr, Handle, Location};

/// The place for the index of a refused copy, and the stream, of the last two arguments of CUDA 12; CUDA 13 has only the
/// stream.
fn failed_and_stream(last: usize, behind: usize) -> (*mut usize, Handle) {
    if runtime_version() < 13000 {
        (last as *mut usize, behind as Handle)
    } else {
        (null_mut(), last as Handle)
    }
}

/// A place: a device in CUDA 12, a location in CUDA 13.
fn place(word: usize) -> Location {
    if runtime_version() < 13000 { Location::of(word as c_int) } else { Location::of_word(word) }
}

export_on_stream! {
    // CUDA 12: address, bytes, device, stream; CUDA 13: address, bytes, location, flags, stream.
    fn cudaMemPrefetchAsync, cudaMemPrefetchAsync_ptsz(address: *const c_void, bytes: usize, third: usize, fourth: usize,
        fifth: usize) = with_context |driver, default| {
        let (flags, stream) = if runtime_version() < 13000 { (0, fourth) } else { (fourth as c_uint, fifth) };
        driver.cuMemPrefetchAsync(default, address as DevicePtr, bytes, place(third), flags, stream as Handle)
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
        sizes: *const usize, count: usize, attributes: *const c_void, starts: *const usize, kinds: usize, last: usize,
        behind: usize) = with_context |driver, default| {
        let (failed, stream) = failed_and_stream(last, behind);
        driver.cuMemcpyBatchAsync(default, to, from, sizes, count, attributes, starts, kinds, failed, stream)
    }

    // CUDA 12: count, operations, failed, flags, stream; CUDA 13 has no `failed`.
    fn cudaMemcpy3DBatchAsync, cudaMemcpy3DBatchAsync_ptsz(count: usize, operations: *const c_void, third: usize,
        fourth: usize, fifth: usize) = with_context |driver, default| {
        let (failed, flags, stream) = if runtime_version() < 13000 {
            (third as *mut usize, fourth, fifth)
        } else {
            (null_mut(), third, fourth)
        };
        driver.cuMemcpy3DBatchAsync(default, count, operations, failed, flags as u64, stream as Handle)
    }
}

export! {
    fn cudaMemAdvise(address: *const c_void, bytes: usize, advice: c_int, where_to: usize) = with_context |driver| {
        driver.cuMemAdvise(address as DevicePtr, bytes, advice, place(where_to))
    }

    fn cudaMemAdvise_v2(address: *const c_void, bytes: usize, advice: c_int, location: Location)
        = with_context |driver| { driver.cuMemAdvise(address as DevicePtr, bytes, advice, location) }
}
