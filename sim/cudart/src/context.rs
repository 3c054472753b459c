//! The context of runtime calls: the current one if the application set it, otherwise its device's primary context.

use parking_lot::Mutex;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::ptr::null_mut;

use crate::driver::{Device, Driver, Handle};
use crate::error::{INVALID_DEVICE, Result};

thread_local! {
    /// The device that `cudaSetDevice` chose; 0 until then.
    static DEVICE: Cell<Device> = const { Cell::new(0) };
}

/// The primary contexts retained so far, as addresses.
static PRIMARY: Mutex<BTreeMap<Device, usize>> = Mutex::new(BTreeMap::new());

/// Returns the primary context of a device, which its first use retains.
pub fn primary(driver: &Driver, device: Device) -> Result<Handle> {
    let mut primary = PRIMARY.lock();
    if let Some(context) = primary.get(&device) {
        return Ok(*context as Handle);
    }
    let mut context = null_mut();
    // SAFETY: a place for the context; the driver checks the device.
    unsafe { driver.cuDevicePrimaryCtxRetain(&mut context, device)? };
    primary.insert(device, context as usize);
    Ok(context)
}

/// Returns the current context. If there is none, it makes the primary context of the thread's device current.
pub fn current(driver: &Driver) -> Result<Handle> {
    let mut context = null_mut();
    // SAFETY: a place for the context.
    unsafe { driver.cuCtxGetCurrent(&mut context)? };
    if !context.is_null() {
        return Ok(context);
    }
    let context = primary(driver, DEVICE.get())?;
    // SAFETY: a context that this process retains.
    unsafe { driver.cuCtxSetCurrent(context)? };
    Ok(context)
}

/// Returns the device of the current context, or the one that the next call will use.
pub fn device(driver: &Driver) -> Result<Device> {
    let mut context = null_mut();
    let mut device = DEVICE.get();
    // SAFETY: places for both answers.
    unsafe {
        driver.cuCtxGetCurrent(&mut context)?;
        if !context.is_null() {
            driver.cuCtxGetDevice(&mut device)?;
        }
    }
    Ok(device)
}

/// Returns the device that the thread's first call will use if it has not chosen one.
pub fn prefer(device: Device) {
    DEVICE.set(device);
}

/// Chooses the thread's device and makes its primary context current, which creates it (so since CUDA 12).
pub fn choose(driver: &Driver, device: Device) -> Result {
    let mut count = 0;
    // SAFETY: a place for the count; then a context that this process retains.
    unsafe {
        driver.cuDeviceGetCount(&mut count)?;
        if !(0..count).contains(&device) {
            return Err(INVALID_DEVICE);
        }
        let context = primary(driver, device)?;
        driver.cuCtxSetCurrent(context)?;
    }
    DEVICE.set(device);
    Ok(())
}

/// Destroys the contents of the device's primary context. The next call starts with a fresh one.
pub fn reset(driver: &Driver) -> Result {
    let device = device(driver)?;
    let retained = PRIMARY.lock().remove(&device).is_some();
    // SAFETY: a device that the driver itself named; no current context is always allowed.
    unsafe {
        driver.cuDevicePrimaryCtxReset(device)?;
        if retained {
            // cuda.h, cuDevicePrimaryCtxReset: a user that retained it "should explicitly release its usage".
            driver.cuDevicePrimaryCtxRelease(device)?;
        }
        driver.cuCtxSetCurrent(null_mut())
    }
}
