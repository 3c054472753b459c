//! Devices, versions, and driver functions that applications look up through the runtime.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::ptr::null_mut;

use crate::context;
use crate::driver::{DefaultStream, Driver, Handle};
use crate::error::{self, Error, INVALID_VALUE, Result, SYMBOL_NOT_FOUND};
use crate::kernel;

/// The CUDA version of this runtime, from the library's name: `libcudart.so.12` or `.13`.
pub fn runtime_version() -> c_int {
    let mut info = std::mem::MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: a place for the answer, for which all zeroes are a valid value; the address is this function's own.
    let (found, info) = unsafe {
        let found = libc::dladdr(runtime_version as *const c_void, info.as_mut_ptr());
        (found != 0, info.assume_init())
    };
    // SAFETY: dladdr's answer names a loaded object for as long as that is loaded, which is as long as we run.
    let is_13 = found && unsafe { CStr::from_ptr(info.dli_fname) }.to_bytes().ends_with(b".13");
    if is_13 { 13050 } else { 12090 }
}

/// Looks up a driver function for the application.
///
/// `flags` is `cudaEnableDefault` 0, `cudaEnableLegacyStream` 1 or `cudaEnablePerThreadDefaultStream` 2, the driver's
/// own numbers. For an unknown name the call succeeds with a null pointer if the caller takes a status.
unsafe fn entry_point(
    driver: &Driver,
    default: DefaultStream,
    name: *const c_char,
    place: *mut *mut c_void,
    version: c_int,
    flags: u64,
    status: *mut c_int,
) -> Result {
    if name.is_null() || place.is_null() {
        return Err(INVALID_VALUE);
    }
    let flags = if flags == 0 && default == DefaultStream::PerThread { 2 } else { flags };
    let (mut answer, mut answer_status) = (null_mut(), 0);
    // SAFETY: a terminated name, and places for both answers.
    let result = unsafe { (driver.get_proc)(name, &mut answer, version, flags, &mut answer_status) };
    // SAFETY: a place for a pointer, checked above; and one for the status, or null.
    unsafe {
        *place = if result == 0 { answer } else { null_mut() };
        match (error::check(result), status.as_mut()) {
            (result @ (Ok(()) | Err(SYMBOL_NOT_FOUND)), Some(status)) => {
                // CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND is 1, and a driver may leave the status alone when it fails.
                *status = if result.is_err() { answer_status.max(1) } else { answer_status };
                Ok(())
            }
            (result, _) => result,
        }
    }
}

export! {
    fn cudaGetDeviceCount(count: *mut c_int) = with_driver |driver| {
        driver.cuDeviceGetCount(count)
    }

    fn cudaGetDevice(device: *mut c_int) = with_driver |driver| {
        *device = context::device(driver)?;
        Ok(())
    }

    fn cudaSetDevice(device: c_int) = with_driver |driver| {
        context::choose(driver, device)
    }

    fn cudaDeviceGetAttribute(value: *mut c_int, number: c_int, device: c_int) = with_driver |driver| {
        driver.cuDeviceGetAttribute(value, number, device)
    }

    fn cudaDeviceGetPCIBusId(id: *mut c_char, length: c_int, device: c_int) = with_driver |driver| {
        driver.cuDeviceGetPCIBusId(id, length, device)
    }

    fn cudaDeviceGetStreamPriorityRange(least: *mut c_int, greatest: *mut c_int) = with_context |driver| {
        driver.cuCtxGetStreamPriorityRange(least, greatest)
    }

    fn cudaDeviceGetDefaultMemPool(pool: *mut Handle, device: c_int) = with_driver |driver| {
        driver.cuDeviceGetDefaultMemPool(pool, device)
    }

    fn cudaDeviceCanAccessPeer(can: *mut c_int, device: c_int, peer: c_int) = with_driver |driver| {
        driver.cuDeviceCanAccessPeer(can, device, peer)
    }

    fn cudaDeviceEnablePeerAccess(peer: c_int, flags: c_uint) = with_context |driver| {
        driver.cuCtxEnablePeerAccess(context::primary(driver, peer)?, flags)
    }

    fn cudaDeviceDisablePeerAccess(peer: c_int) = with_context |driver| {
        driver.cuCtxDisablePeerAccess(context::primary(driver, peer)?)
    }

    fn cudaThreadSynchronize() = with_context |driver| {
        driver.cuCtxSynchronize()
    }

    fn cudaDeviceSynchronize() = with_context |driver| {
        driver.cuCtxSynchronize()
    }

    fn cudaDeviceReset() = with_driver |driver| {
        kernel::unload_all(driver);
        context::reset(driver)
    }

    // Since CUDA 4 another name for it.
    fn cudaThreadExit() = with_driver |driver| {
        kernel::unload_all(driver);
        context::reset(driver)
    }

    fn cudaSetDeviceFlags(flags: c_uint) = with_driver |driver| {
        driver.cuDevicePrimaryCtxSetFlags(context::device(driver)?, flags)
    }

    // `flags` is 1 where `device_flags` count (driver_types.h, cudaInitDeviceFlagsAreValid).
    fn cudaInitDevice(device: c_int, device_flags: c_uint, flags: c_uint) = with_driver |driver| {
        if flags > 1 {
            return Err(INVALID_VALUE);
        }
        if flags == 1 {
            driver.cuDevicePrimaryCtxSetFlags(device, device_flags)?;
        }
        context::primary(driver, device).map(|_| ())
    }

    fn cudaProfilerStart() = with_context |driver| {
        driver.cuProfilerStart()
    }

    fn cudaProfilerStop() = with_context |driver| {
        driver.cuProfilerStop()
    }
}

export_on_stream! {
    fn cudaGetDriverEntryPoint, cudaGetDriverEntryPoint_ptsz(name: *const c_char, place: *mut *mut c_void, flags: u64,
        status: *mut c_int) = with_driver |driver, default| {
        entry_point(driver, default, name, place, runtime_version(), flags, status)
    }

    fn cudaGetDriverEntryPointByVersion, cudaGetDriverEntryPointByVersion_ptsz(name: *const c_char,
        place: *mut *mut c_void, version: c_uint, flags: u64, status: *mut c_int) = with_driver |driver, default| {
        entry_point(driver, default, name, place, version as c_int, flags, status)
    }
}

/// Returns the driver's version; 0 without a driver, which is not an error.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn cudaDriverGetVersion(version: *mut c_int) -> c_int {
    // SAFETY: null or a place for the version.
    let Some(version) = (unsafe { version.as_mut() }) else { return error::remember(Err(INVALID_VALUE)) };
    *version = 0;
    let result = crate::driver::driver().and_then(|driver| {
        // SAFETY: a place for the version.
        unsafe { driver.cuDriverGetVersion(version) }
    });
    match result {
        Err(Error(code)) if code == error::INSUFFICIENT_DRIVER.0 => 0,
        result => error::remember(result),
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn cudaRuntimeGetVersion(version: *mut c_int) -> c_int {
    // SAFETY: null or a place for the version.
    match unsafe { version.as_mut() } {
        Some(version) => {
            *version = runtime_version();
            0
        }
        None => error::remember(Err(INVALID_VALUE)),
    }
}
