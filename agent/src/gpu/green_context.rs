//! Which primary context does a green context belong to?
//!
//! A green context is a part of a device's multiprocessors, under the device's primary context. Events,
//! modules and memory created while one is current belong to the primary context, and an event of the primary
//! context may be recorded on a green context's streams (cuda.h: cuCtxFromGreenCtx, cuGreenCtxRecordEvent;
//! the runtime has no other events). So the agent treats a green context as its primary context, with one
//! event pool and one clock. Only its streams differ: they end with it. Where a driver has green contexts but
//! does not say which primary context they belong to (12.4), nothing on them is timed.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::cuda::*;
use crate::driver::Driver;
use crate::keyed::Keyed;

/// The number of green contexts of a process that are alive at the same time: a device has 132
/// multiprocessors, and the smallest part has 2.
const PLACES: usize = 256;

/// The green contexts of a session. Valid when zero.
pub struct Greens {
    /// By CUgreenCtx: its device's ordinal plus one; 0 = not observed. Relaxed: a thread that has the handle
    /// got it from the call that was observed to create it.
    devices: Keyed<AtomicU32, PLACES>,
    /// By CUcontext: the primary context of the green context that it stands for; 0 = not queried yet.
    /// Relaxed: a handle.
    primaries: Keyed<AtomicU64, PLACES>,
}

/// What the driver says about the current context.
pub enum Current {
    /// It is an ordinary context.
    Plain,
    /// It stands for a green context of this primary context.
    Green(CUcontext),
    /// It stands for a green context whose primary context is unknown.
    GreenUnknown,
}

impl Greens {
    /// Takes note that a call has created a green context, or has failed to end it. Returns false if there is no place for it, so
    /// that its end will not be noticed.
    pub fn made(&self, green: CUgreenCtx, device: CUdevice) -> bool {
        let Some(place) = self.devices.get(green as u64) else { return false };
        place.store(device as u32 + 1, Ordering::Relaxed);
        true
    }

    /// Takes note that a call ends a green context. Returns the device that it was created on, if that was
    /// observed. Cached handles are queried again afterwards.
    pub fn ending(&self, green: CUgreenCtx) -> Option<CUdevice> {
        self.forget();
        let device = self.devices.find(green as u64)?.swap(0, Ordering::Relaxed);
        device.checked_sub(1).map(|device| device as CUdevice)
    }

    /// Forgets the cached handles after contexts have gone: the handles may mean others by now.
    pub fn forget(&self) {
        self.primaries.values().for_each(|place| place.store(0, Ordering::Relaxed));
    }

    /// The primary context of the green context that a handle is known to stand for.
    pub fn primary(&self, handle: CUcontext) -> Option<CUcontext> {
        let known = self.primaries.find(handle as u64)?.load(Ordering::Relaxed);
        (known != 0).then_some(known as CUcontext)
    }

    /// Caches the primary context that a handle stands for.
    pub fn set_primary(&self, handle: CUcontext, primary: CUcontext) {
        if let Some(place) = self.primaries.get(handle as u64) {
            place.store(primary as u64, Ordering::Relaxed);
        }
    }
}

impl Current {
    /// Queries the driver about the calling thread's context.
    pub fn query(driver: &Driver) -> Current {
        let legacy = STREAM_LEGACY as CUstream;
        if let Some((primary, green)) = driver.contexts_of(legacy) {
            return if green.is_null() { Current::Plain } else { Current::Green(primary) };
        }
        let mut green: CUgreenCtx = core::ptr::null_mut();
        // SAFETY: the current context's own stream; the call writes to a local variable.
        driver.stream_green.map(|get| unsafe { get(legacy, &mut green) });
        if green.is_null() { Current::Plain } else { Current::GreenUnknown }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn greens() -> Box<Greens> {
        // SAFETY: valid when zero.
        unsafe { Box::<Greens>::new_zeroed().assume_init() }
    }

    /// A reference to the primary context was counted for each, and given up for those only that had a place.
    #[test]
    fn the_end_of_a_green_context_is_noticed_if_its_creation_says_so() {
        let greens = greens();
        let handles: Vec<CUgreenCtx> = (1..=3 * PLACES).map(|n| (64 * n) as CUgreenCtx).collect();
        let noted: Vec<bool> = handles.iter().map(|handle| greens.made(*handle, 2)).collect();
        assert!(noted.contains(&true) && noted.contains(&false));
        for (handle, is_noted) in handles.into_iter().zip(noted) {
            assert_eq!(greens.ending(handle), is_noted.then_some(2));
        }
        assert!(!greens.made(core::ptr::null_mut(), 2), "null is no handle");
    }

    #[test]
    fn a_green_context_that_could_not_be_destroyed_is_still_known() {
        let (greens, handle) = (greens(), 0x1000 as CUgreenCtx);
        assert!(greens.made(handle, 0));
        assert_eq!((greens.ending(handle), greens.ending(handle)), (Some(0), None));
        assert!(greens.made(handle, 0));
        assert_eq!(greens.ending(handle), Some(0));
    }
}
