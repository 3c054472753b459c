//! Green contexts: a part of a device's multiprocessors, under the device's primary context.
//!
//! What is made while one is current (events, modules, memory) is the primary context's, and an event of that one may be
//! recorded on a green one's streams (cuda.h: cuCtxFromGreenCtx, cuGreenCtxRecordEvent; the runtime knows no other events).
//! So to us it is its primary context: one pool of events, one clock. Only its streams know more: they end with it. Where a
//! driver has green contexts and does not tell whose they are (12.4), nothing on them is timed.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::cuda::*;
use crate::driver::Driver;
use crate::keyed::Keyed;

/// Green contexts of a process that are alive at the same time: a device has 132 multiprocessors and the least part is 2.
const PLACES: usize = 256;

/// The green contexts of a session. Valid when zero.
pub struct Greens {
    /// By CUgreenCtx: its device's ordinal and one; 0 = not seen. Relaxed: who has the handle has it from the call that was
    /// seen to make it.
    devices: Keyed<AtomicU32, PLACES>,
    /// By CUcontext: the primary context of the green one that it stands for; 0 = not asked. Relaxed: a handle.
    primaries: Keyed<AtomicU64, PLACES>,
}

/// What the driver says of the current context.
pub enum Current {
    /// It is a context like any other.
    Plain,
    /// It stands for a green one of this primary context.
    Green(CUcontext),
    /// It stands for a green one, and whose is not told.
    Untold,
}

impl Greens {
    /// A call has made one.
    pub fn made(&self, green: CUgreenCtx, device: CUdevice) {
        if let Some(place) = self.devices.get(green as u64) {
            place.store(device as u32 + 1, Ordering::Relaxed);
        }
    }

    /// A call ends one: the device that it was made on, if that was seen. What its context stands for is to be asked anew.
    pub fn ending(&self, green: CUgreenCtx) -> Option<CUdevice> {
        self.forget();
        let device = self.devices.find(green as u64)?.swap(0, Ordering::Relaxed);
        device.checked_sub(1).map(|device| device as CUdevice)
    }

    /// Contexts have gone: their handles may be others' by now.
    pub fn forget(&self) {
        self.primaries.values().for_each(|place| place.store(0, Ordering::Relaxed));
    }

    /// The primary context of the green one that a handle is known to stand for.
    pub fn primary(&self, handle: CUcontext) -> Option<CUcontext> {
        let known = self.primaries.find(handle as u64)?.load(Ordering::Relaxed);
        (known != 0).then_some(known as CUcontext)
    }

    /// Keeps what a handle stands for.
    pub fn stands_for(&self, handle: CUcontext, primary: CUcontext) {
        if let Some(place) = self.primaries.get(handle as u64) {
            place.store(primary as u64, Ordering::Relaxed);
        }
    }
}

impl Current {
    /// Asks for the calling thread's.
    pub fn ask(driver: &Driver) -> Current {
        let legacy = STREAM_LEGACY as CUstream;
        if let Some((primary, green)) = driver.contexts_of(legacy) {
            return if green.is_null() { Current::Plain } else { Current::Green(primary) };
        }
        let mut green: CUgreenCtx = core::ptr::null_mut();
        // SAFETY: the current context's own stream; writes a place of ours.
        driver.stream_green.map(|ask| unsafe { ask(legacy, &mut green) });
        if green.is_null() { Current::Plain } else { Current::Untold }
    }
}
