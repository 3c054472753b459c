//! External semaphores, which other APIs (Vulkan, Direct3D) share with CUDA.

use std::ffi::{c_uint, c_void};

use crate::device::runtime_version;
use crate::driver::{DefaultStream, Driver, Handle};
use crate::error::{INVALID_VALUE, Result};

/// `cudaExternalSemaphoreSignalParams` and `WaitParams` of CUDA 13, and the driver's: their size in bytes, and the offset of their flags.
const BYTES: usize = 144;
const FLAGS: usize = 72;

/// The size of the parameters of CUDA 10 and of `_v1` in CUDA 12's driver_types.h, whose last word is their flags.
const SIGNAL_V1_BYTES: usize = 32;
const WAIT_V1_BYTES: usize = 40;

/// Converts the parameters of `count` semaphores, of `bytes` each with flags in the last word, to the driver's.
unsafe fn of_v1(parameters: *const u8, bytes: usize, count: usize) -> Result<Vec<[u64; BYTES / 8]>> {
    if parameters.is_null() {
        return Err(INVALID_VALUE);
    }
    let mut known = vec![[0u64; BYTES / 8]; count];
    for (index, known) in known.iter_mut().enumerate() {
        // SAFETY: the list is the application's; its structures are aligned like words and padded to whole words.
        let given =
            unsafe { std::slice::from_raw_parts(parameters.add(index * bytes).cast::<u64>(), bytes / 8) };
        let (flags, fields) = given.split_last().ok_or(INVALID_VALUE)?;
        known[..fields.len()].copy_from_slice(fields);
        known[FLAGS / 8] = u64::from(*flags as u32);
    }
    Ok(known)
}

/// Signals semaphores or waits for them, with the parameters of the CUDA version that is simulated.
unsafe fn plain(
    driver: &Driver,
    default: DefaultStream,
    is_wait: bool,
    semaphores: *const Handle,
    parameters: *const c_void,
    count: c_uint,
    stream: Handle,
) -> Result {
    let v1_bytes = if is_wait { WAIT_V1_BYTES } else { SIGNAL_V1_BYTES };
    // SAFETY: the caller passes a valid list.
    unsafe {
        if runtime_version() >= 13000 {
            return issue(driver, default, is_wait, semaphores, parameters, count, stream);
        }
        let known = of_v1(parameters.cast(), v1_bytes, count as usize)?;
        issue(driver, default, is_wait, semaphores, known.as_ptr().cast(), count, stream)
    }
}

unsafe fn issue(
    driver: &Driver,
    default: DefaultStream,
    is_wait: bool,
    semaphores: *const Handle,
    parameters: *const c_void,
    count: c_uint,
    stream: Handle,
) -> Result {
    // SAFETY: the caller passes a valid list.
    unsafe {
        match is_wait {
            false => driver.cuSignalExternalSemaphoresAsync(default, semaphores, parameters, count, stream),
            true => driver.cuWaitExternalSemaphoresAsync(default, semaphores, parameters, count, stream),
        }
    }
}

export! {
    // cudaExternalSemaphoreHandleDesc; the driver's structure continues with reserved words.
    fn cudaImportExternalSemaphore(semaphore: *mut Handle, description: *const [u64; 4]) = with_context |driver| {
        let mut known = [0u64; 12];
        known[..4].copy_from_slice(description.as_ref().ok_or(INVALID_VALUE)?);
        driver.cuImportExternalSemaphore(semaphore, known.as_ptr().cast())
    }

    fn cudaDestroyExternalSemaphore(semaphore: Handle) = with_context |driver| {
        driver.cuDestroyExternalSemaphore(semaphore)
    }
}

export_on_stream! {
    fn cudaSignalExternalSemaphoresAsync, cudaSignalExternalSemaphoresAsync_ptsz(semaphores: *const Handle,
        parameters: *const c_void, count: c_uint, stream: Handle) = with_context |driver, default| {
        plain(driver, default, false, semaphores, parameters, count, stream)
    }

    fn cudaSignalExternalSemaphoresAsync_v2, cudaSignalExternalSemaphoresAsync_v2_ptsz(semaphores: *const Handle,
        parameters: *const c_void, count: c_uint, stream: Handle) = with_context |driver, default| {
        issue(driver, default, false, semaphores, parameters, count, stream)
    }

    fn cudaWaitExternalSemaphoresAsync, cudaWaitExternalSemaphoresAsync_ptsz(semaphores: *const Handle,
        parameters: *const c_void, count: c_uint, stream: Handle) = with_context |driver, default| {
        plain(driver, default, true, semaphores, parameters, count, stream)
    }

    fn cudaWaitExternalSemaphoresAsync_v2, cudaWaitExternalSemaphoresAsync_v2_ptsz(semaphores: *const Handle,
        parameters: *const c_void, count: c_uint, stream: Handle) = with_context |driver, default| {
        issue(driver, default, true, semaphores, parameters, count, stream)
    }
}
