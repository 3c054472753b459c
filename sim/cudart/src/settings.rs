//! Settings and limits of a device and of the current context.

use std::ffi::{c_char, c_int, c_uint, c_void};

use crate::array::{Channels, description};
use crate::context;
use crate::error::{INVALID_DEVICE, INVALID_VALUE};
use crate::memory::Extent;

export! {
    fn cudaDeviceSetLimit(limit: c_int, value: usize) = with_context |driver| {
        driver.cuCtxSetLimit(limit, value)
    }

    fn cudaDeviceGetLimit(value: *mut usize, limit: c_int) = with_context |driver| {
        driver.cuCtxGetLimit(value, limit)
    }

    fn cudaThreadSetLimit(limit: c_int, value: usize) = with_context |driver| {
        driver.cuCtxSetLimit(limit, value)
    }

    fn cudaThreadGetLimit(value: *mut usize, limit: c_int) = with_context |driver| {
        driver.cuCtxGetLimit(value, limit)
    }

    fn cudaDeviceSetCacheConfig(config: c_int) = with_context |driver| {
        driver.cuCtxSetCacheConfig(config)
    }

    fn cudaDeviceGetCacheConfig(config: *mut c_int) = with_context |driver| {
        driver.cuCtxGetCacheConfig(config)
    }

    fn cudaThreadSetCacheConfig(config: c_int) = with_context |driver| {
        driver.cuCtxSetCacheConfig(config)
    }

    fn cudaThreadGetCacheConfig(config: *mut c_int) = with_context |driver| {
        driver.cuCtxGetCacheConfig(config)
    }

    fn cudaDeviceSetSharedMemConfig(config: c_int) = with_context |driver| {
        driver.cuCtxSetSharedMemConfig(config)
    }

    fn cudaDeviceGetSharedMemConfig(config: *mut c_int) = with_context |driver| {
        driver.cuCtxGetSharedMemConfig(config)
    }

    fn cudaCtxResetPersistingL2Cache() = with_context |driver| {
        driver.cuCtxResetPersistingL2Cache()
    }

    // The flags of the current context; of a device that has none yet, those that it will be made with.
    fn cudaGetDeviceFlags(flags: *mut c_uint) = with_driver |driver| {
        let mut current = std::ptr::null_mut();
        driver.cuCtxGetCurrent(&mut current)?;
        if !current.is_null() {
            return driver.cuCtxGetFlags(flags);
        }
        driver.cuDevicePrimaryCtxGetState(context::device(driver)?, flags, &mut 0)
    }

    fn cudaDeviceGetP2PAttribute(value: *mut c_int, attribute: c_int, from: c_int, to: c_int) = with_driver |driver| {
        driver.cuDeviceGetP2PAttribute(value, attribute, from, to)
    }

    fn cudaDeviceGetByPCIBusId(device: *mut c_int, id: *const c_char) = with_driver |driver| {
        driver.cuDeviceGetByPCIBusId(device, id)
    }

    // The first of the list is tried first, and all of the simulator's devices can be used.
    fn cudaSetValidDevices(list: *mut c_int, length: c_int) = with_driver |driver| {
        let mut count = 0;
        driver.cuDeviceGetCount(&mut count)?;
        let Ok(length) = usize::try_from(length) else { return Err(INVALID_VALUE) };
        if list.is_null() && length > 0 {
            return Err(INVALID_VALUE);
        }
        let listed = if length == 0 { &[] } else { std::slice::from_raw_parts(list, length) };
        if listed.iter().any(|device| !(0..count).contains(device)) {
            return Err(INVALID_DEVICE);
        }
        context::prefer(listed.first().copied().unwrap_or(0));
        Ok(())
    }

    fn cudaDeviceGetTexture1DLinearMaxWidth(width: *mut usize, channels: *const Channels, device: c_int)
        = with_driver |driver| {
        let known = description(channels, Extent { width: 1, height: 0, depth: 0 }, 0)?;
        driver.cuDeviceGetTexture1DLinearMaxWidth(width, known.format, known.channels, device)
    }

    fn cudaHostGetFlags(flags: *mut c_uint, block: *mut c_void) = with_context |driver| {
        driver.cuMemHostGetFlags(flags, block)
    }

    // Every device that CUDA 12 runs on has numbers of that width, so that nothing is converted.
    fn cudaSetDoubleForDevice(number: *mut f64) = with_driver |_driver| {
        if number.is_null() { Err(INVALID_VALUE) } else { Ok(()) }
    }

    fn cudaSetDoubleForHost(number: *mut f64) = with_driver |_driver| {
        if number.is_null() { Err(INVALID_VALUE) } else { Ok(()) }
    }
}
