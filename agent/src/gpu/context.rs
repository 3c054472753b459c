//! Contexts, and their pools of events.
//!
//! Events are created when a context is first seen and, later, by the poller; a hook only takes and never makes one.

use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};
use gpuspy_wire::record::{self, Head};

use crate::cuda::*;
use crate::driver::Driver;
use crate::keyed::Keyed;
use crate::sys::ticks;
use crate::thread::Call;

/// Contexts of a process that are alive at the same time: one a GPU, and a few more.
const PLACES: usize = 64;
/// Events of a context at most: two for each operation that is timed and not read yet.
pub const MAX_EVENTS: usize = 1 << 14;
/// Events made when a context is first seen, and by the poller when fewer than [`LOW`] are free. The poller can be 4 ms
/// late on a busy machine: 800 launches a thread, two events each.
const FIRST: usize = 4096;
const MORE: usize = 2048;
const LOW: u32 = 2048;

/// The contexts of a session. Valid when zero.
pub struct Contexts {
    /// By CUcontext: the context that has this handle now, or null. Release on the store, acquire on the load.
    places: Keyed<AtomicPtr<Context>, PLACES>,
    /// The last number given. Relaxed: only its being unique matters.
    last: AtomicU32,
    /// By device.
    primaries: [Primary; PLACES],
}

/// What is known of a device's primary context.
pub struct Primary {
    /// Its handle; 0 = not seen. Relaxed: an address.
    handle: AtomicU64,
    /// How often the app has retained it and not released it, or less: never more. AcqRel: of two that release it at the
    /// same time the second sees the first under way.
    pub retained: AtomicU32,
    /// Calls that retain, release or reset it, as they pass.
    pub passages: Passages,
    /// Calls under way that may be its end: the device takes no context in. SeqCst, with the store in `adopt`.
    pub ending: AtomicU32,
}

impl Primary {
    /// The app has retained it.
    pub fn retain(&self, handle: CUcontext) {
        self.retained.fetch_add(1, Ordering::AcqRel);
        self.handle.store(handle as u64, Ordering::Relaxed);
    }

    /// The app releases it. True when that may be its end.
    pub fn release(&self) -> bool {
        let before = self.retained.fetch_update(Ordering::AcqRel, Ordering::Acquire, |n| n.checked_sub(1));
        before.is_err() || before == Ok(1)
    }

    /// Whether it is this context; where none was seen retained, any of the device's may be.
    pub fn is(&self, context: &Context) -> bool {
        let handle = self.handle.load(Ordering::Relaxed);
        handle == 0 || handle == context.handle
    }
}

/// A context. Never freed: a few exist in a process's life.
pub struct Context {
    /// Its number in records; never reused.
    pub number: u32,
    pub handle: u64,
    pub device: u32,
    pub pool: Pool,
    /// Calls on the legacy default stream, and on the streams that it orders itself with.
    pub legacy: Passages,
    pub blocking: Passages,
    /// Calls under way that may be its end: nobody touches it. SeqCst, with the poller's `looks` and streams' claims.
    pub ending: AtomicU32,
    /// Destroyed or reset: its events are gone. Release by the hook, acquire by the poller.
    pub gone: AtomicBool,
}

impl Context {
    /// It is gone, or may be any moment: nothing is asked of its events.
    #[inline]
    pub fn is_leaving(&self) -> bool {
        self.ending.load(Ordering::SeqCst) != 0 || self.gone.load(Ordering::Acquire)
    }
}

/// Calls of a kind, as they pass. Relaxed: the driver's own lock orders the calls in question, and each
/// thread counts before and reads after its own.
#[derive(Default)]
pub struct Passages {
    pub begun: AtomicU64,
    pub done: AtomicU64,
}

impl Contexts {
    /// The context with this handle, made known now if it is new. Slow only then. `None` too while a call that may be its
    /// end is under way: the handle may mean another by now.
    #[inline]
    pub fn get(&self, call: &Call, driver: &Driver, handle: CUcontext) -> Option<&'static Context> {
        if handle.is_null() {
            return None;
        }
        let place = self.places.get(handle as u64)?;
        // SAFETY: null or a leaked context. Acquire, with the release in `adopt`.
        match unsafe { place.load(Ordering::Acquire).as_ref() } {
            // Relaxed: who has made it anew has met the driver's lock after the call that ended it.
            Some(context) => (context.ending.load(Ordering::Relaxed) == 0).then_some(context),
            None => self.adopt(call, driver, handle, place),
        }
    }

    #[cold]
    fn adopt(
        &self,
        call: &Call,
        driver: &Driver,
        handle: CUcontext,
        place: &AtomicPtr<Context>,
    ) -> Option<&'static Context> {
        let errno = crate::sys::Errno::save();
        let mut device: CUdevice = 0;
        let pool = Pool::new();
        let is_ending = |device| self.primary(device).is_some_and(|p| p.ending.load(Ordering::SeqCst) != 0);
        let entered = with_context(driver, handle, || {
            // SAFETY: writes a place of ours.
            let asked = driver.context_device.map(|ask| unsafe { ask(&mut device) });
            if asked.is_some_and(|result| result != CUDA_SUCCESS) {
                return None; // current to this thread, and dead
            }
            if !is_ending(device) && call.session.timing.load(Ordering::Relaxed) {
                driver.relaxed(|| pool.make(driver, FIRST));
            }
            Some(())
        });
        if entered.flatten().is_none() || is_ending(device) {
            errno.restore();
            return None;
        }
        let number = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        let context = Box::into_raw(Box::new(Context {
            number,
            handle: handle as u64,
            device: device as u32,
            pool,
            legacy: Passages::default(),
            blocking: Passages::default(),
            ending: AtomicU32::new(0),
            gone: AtomicBool::new(false),
        }));
        // Two threads can meet a new context at once: the first one's stands; the other's events stay unused. SeqCst: see
        // `Primary::ending`.
        let first = place
            .compare_exchange(core::ptr::null_mut(), context, Ordering::SeqCst, Ordering::Relaxed)
            .is_ok();
        // SAFETY: just stored, or stored by the other; leaked. Acquire, with the store above.
        let context = unsafe { place.load(Ordering::Acquire).as_ref() };
        if let Some(context) = context.filter(|_| first) {
            if is_ending(device) {
                // Since the last look: it may not be what we took it for.
                self.forget(context);
                errno.restore();
                return None;
            }
            announce(call, driver, context);
            crate::session::exit::register_drain();
        }
        errno.restore();
        context
    }

    /// What is known of a device's primary context.
    pub fn primary(&self, device: CUdevice) -> Option<&Primary> {
        self.primaries.get(usize::try_from(device).ok()?)
    }

    /// A call has just made the context with this handle: whichever had it before is gone.
    pub fn made(&self, call: &Call, driver: &Driver, handle: CUcontext) {
        if let Some(old) = self.iter().find(|c| c.handle == handle as u64) {
            call.session.streams.abandon(old);
            self.ended(call, old);
        }
        self.get(call, driver, handle);
    }

    /// A context is gone. Told by the one who says so first.
    pub fn ended(&self, call: &Call, context: &Context) {
        if self.forget(context) {
            call.publish(&record_of(context, 2));
        }
    }

    /// A context is gone, and the handle its no longer. True for the one who says so first.
    pub fn forget(&self, context: &Context) -> bool {
        context.gone.store(true, Ordering::Release);
        let this = core::ptr::from_ref(context).cast_mut();
        self.places.find(context.handle).is_some_and(|place| {
            place.compare_exchange(this, core::ptr::null_mut(), Ordering::AcqRel, Ordering::Relaxed).is_ok()
        })
    }

    /// All contexts that are known and alive.
    pub fn iter(&self) -> impl Iterator<Item = &'static Context> + '_ {
        // SAFETY: null or a leaked context. Acquire, with the release in `adopt`.
        self.places.values().filter_map(|p| unsafe { p.load(Ordering::Acquire).as_ref() })
    }
}

/// Tells of a context and, when it is the first on it, of its device.
fn announce(call: &Call, driver: &Driver, context: &Context) {
    let session = call.session;
    if !session.contexts.iter().any(|c| c.number != context.number && c.device == context.device) {
        call.publish(&describe_device(driver, context.device));
        session.names.device(call, driver, context.device);
    }
    call.publish(&record_of(context, 1));
}

/// The record that tells of a context's coming (1) or going (2).
fn record_of(context: &Context, change: u8) -> record::Context {
    record::Context {
        head: Head::new::<record::Context>(),
        at: ticks(),
        handle: context.handle,
        context: context.number,
        device: context.device,
        change,
        ..Default::default()
    }
}

fn describe_device(driver: &Driver, ordinal: u32) -> record::Device {
    let device = ordinal as CUdevice;
    let attribute = |which| {
        let mut value = 0;
        if let Some(ask) = driver.device_attribute {
            // SAFETY: writes a place of ours.
            unsafe { ask(&mut value, which, device) };
        }
        value as u32
    };
    let mut uuid = [0u8; 16];
    let mut memory = 0usize;
    // SAFETY: each writes a place of ours.
    unsafe {
        driver.device_uuid.map(|ask| ask(&mut uuid, device));
        driver.device_memory.map(|ask| ask(&mut memory, device));
    }
    let warp = attribute(DEVICE_WARP_SIZE).max(1);
    record::Device {
        head: Head::new::<record::Device>(),
        memory_bytes: memory as u64,
        uuid,
        ordinal,
        multiprocessors: attribute(DEVICE_MULTIPROCESSORS),
        capability: attribute(DEVICE_CAPABILITY_MAJOR) * 10 + attribute(DEVICE_CAPABILITY_MINOR),
        warps_per_multiprocessor: attribute(DEVICE_THREADS_PER_MULTIPROCESSOR) / warp,
        reserved: [0; 2],
    }
}

/// Runs `work` with the context current, and leaves the thread's context stack as it was. `None`: it cannot be made
/// current, and nothing was done.
pub fn with_context<T>(driver: &Driver, handle: CUcontext, work: impl FnOnce() -> T) -> Option<T> {
    if driver.current_context() == handle {
        return Some(work());
    }
    let (push, pop) = (driver.context_push?, driver.context_pop?);
    // SAFETY: a context's handle; a dead one is refused.
    if unsafe { push(handle) } != CUDA_SUCCESS {
        return None;
    }
    let result = work();
    let mut popped: CUcontext = core::ptr::null_mut();
    // SAFETY: undoes our own push.
    unsafe { pop(&mut popped) };
    Some(result)
}

/// A context's events: a fixed table and a free list over it (a Treiber stack of indices; the tag in the head's upper
/// half changes at every operation, so that a stale head is never exchanged).
///
/// An event has as many holders as need it to stay as it was recorded: the operation that it begins, the one that it ends,
/// a chain whose anchor it is. It is free again when the last one has given it back.
pub struct Pool {
    /// CUevents by index. Release on the store, acquire on the load by way of the free list.
    events: Box<[AtomicPtr<void>]>,
    /// Holders of each event; 0 = it is free. AcqRel: who frees it has seen the other holders' last use.
    holders: Box<[AtomicU32]>,
    /// The free list: index + 1 of the next free event.
    next: Box<[AtomicU32]>,
    /// Tag << 32 | index + 1 of the first free event; index 0 = none. AcqRel: hands an event from thread to thread.
    free: AtomicU64,
    /// How many are free, about. Relaxed: a hint to make more.
    free_count: AtomicU32,
    /// How many exist. Written by the adopting thread, then by the poller. Relaxed.
    made: AtomicU32,
}

impl Pool {
    fn new() -> Pool {
        Pool {
            events: (0..MAX_EVENTS).map(|_| AtomicPtr::new(core::ptr::null_mut())).collect(),
            holders: (0..MAX_EVENTS).map(|_| AtomicU32::new(0)).collect(),
            next: (0..MAX_EVENTS).map(|_| AtomicU32::new(0)).collect(),
            free: AtomicU64::new(0),
            free_count: AtomicU32::new(0),
            made: AtomicU32::new(0),
        }
    }

    /// Creates events in the current context, as many as the table still holds.
    fn make(&self, driver: &Driver, count: usize) {
        let Some(create) = driver.event_create else { return };
        for _ in 0..count {
            let index = self.made.load(Ordering::Relaxed);
            let Some(place) = self.events.get(index as usize) else { return };
            let mut event: CUevent = core::ptr::null_mut();
            // SAFETY: the context is current; flags 0 = CU_EVENT_DEFAULT, with timing; writes a place of ours.
            if unsafe { create(&mut event, 0) } != CUDA_SUCCESS {
                return;
            }
            place.store(event, Ordering::Release);
            self.made.store(index + 1, Ordering::Relaxed);
            self.free(index);
        }
    }

    /// Poller, with the context current: makes more when few are left.
    pub fn replenish(&self, driver: &Driver) {
        if self.free_count.load(Ordering::Relaxed) < LOW {
            self.make(driver, MORE);
        }
    }

    /// Whether the poller should come, to give events back and make more.
    #[inline]
    pub fn is_low(&self) -> bool {
        self.free_count.load(Ordering::Relaxed) < LOW
            && (self.made.load(Ordering::Relaxed) as usize) < MAX_EVENTS
    }

    /// Takes a free event; the caller is its one holder.
    #[inline]
    pub fn take(&self) -> Option<u32> {
        let mut head = self.free.load(Ordering::Acquire);
        loop {
            let index = (head as u32).checked_sub(1)?;
            let next = self.next.get(index as usize)?.load(Ordering::Relaxed);
            let new = ((head >> 32).wrapping_add(1) << 32) | u64::from(next);
            match self.free.compare_exchange_weak(head, new, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => {
                    self.free_count.fetch_sub(1, Ordering::Relaxed);
                    self.hold(index);
                    return Some(index);
                }
                Err(now) => head = now,
            }
        }
    }

    /// One more holder of an event that the caller holds, or has just taken.
    #[inline]
    pub fn hold(&self, index: u32) {
        if let Some(holders) = self.holders.get(index as usize) {
            holders.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Gives an event back: it is free when nobody else holds it.
    #[inline]
    pub fn give(&self, index: u32) {
        let last = self.holders.get(index as usize).is_some_and(|h| h.fetch_sub(1, Ordering::AcqRel) == 1);
        if last {
            self.free(index);
        }
    }

    fn free(&self, index: u32) {
        let Some(next) = self.next.get(index as usize) else { return };
        let mut head = self.free.load(Ordering::Acquire);
        loop {
            next.store(head as u32, Ordering::Relaxed);
            let new = ((head >> 32).wrapping_add(1) << 32) | u64::from(index + 1);
            match self.free.compare_exchange_weak(head, new, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => {
                    self.free_count.fetch_add(1, Ordering::Relaxed);
                    return;
                }
                Err(now) => head = now,
            }
        }
    }

    /// The CUevent of an index.
    #[inline]
    pub fn event(&self, index: u32) -> CUevent {
        self.events.get(index as usize).map_or(core::ptr::null_mut(), |e| e.load(Ordering::Acquire))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_event_is_given_to_two_threads() {
        let pool = Pool::new();
        let owned: Vec<AtomicBool> = (0..64).map(|_| AtomicBool::new(false)).collect();
        (0..64).for_each(|index| pool.give(index));
        std::thread::scope(|threads| {
            for _ in 0..4 {
                threads.spawn(|| {
                    for _ in 0..50_000 {
                        let Some(index) = pool.take() else { continue };
                        let place = &owned[index as usize];
                        assert!(!place.swap(true, Ordering::AcqRel), "event {index} is out twice");
                        place.store(false, Ordering::Release);
                        pool.give(index);
                    }
                });
            }
        });
        let mut left: Vec<u32> = std::iter::from_fn(|| pool.take()).collect();
        left.sort_unstable();
        assert_eq!(left, (0..64).collect::<Vec<_>>(), "every event came back, once");
    }
}
