//! Contexts: which ones there are, and when they come and go.

use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};
use gpuspy_wire::record::{self, Head};

use crate::cuda::*;
use crate::driver::Driver;
use crate::gpu::passage::Passages;
use crate::gpu::pool::Pool;
use crate::gpu::stream::Stream;
use crate::keyed::Keyed;
use crate::session::Session;
use crate::sys::ticks;
use crate::thread::Call;

/// Contexts of a process that are alive at the same time: one a GPU, and a few more.
const PLACES: usize = 64;
/// The contexts of a session. Valid when zero.
pub struct Contexts {
    /// By CUcontext: the context that has this handle now, or null. Release on the store, acquire on the load.
    places: Keyed<AtomicPtr<Context>, PLACES>,
    /// The last number given. Relaxed: only its being unique matters.
    last: AtomicU32,
    /// By device: how often the app has retained its primary context and not released it. Relaxed: a count.
    retained: [AtomicU32; PLACES],
    /// By device: its primary context's handle; 0 = not seen. Relaxed: an address.
    primary: [AtomicU64; PLACES],
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
    /// A call that may be its end is under way: the poller leaves it alone. SeqCst, with the poller's `looks`.
    pub paused: AtomicBool,
    /// Destroyed or reset: its events are gone. Release by the hook, acquire by the poller.
    pub gone: AtomicBool,
}

impl Contexts {
    /// The context with this handle, made known now if it is new. Slow only then.
    #[inline]
    pub fn get(&self, call: &Call, driver: &Driver, handle: CUcontext) -> Option<&'static Context> {
        if handle.is_null() {
            return None;
        }
        let place = self.places.get(handle as u64)?;
        // SAFETY: null or a leaked context. Acquire, with the release in `adopt`.
        match unsafe { place.load(Ordering::Acquire).as_ref() } {
            Some(context) => Some(context),
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
        with_context(driver, handle, || {
            if let Some(ask) = driver.context_device {
                // SAFETY: a context is current; writes a place of ours.
                unsafe { ask(&mut device) };
            }
            if call.session.timing.is_on() {
                driver.relaxed(|| pool.fill(driver));
            }
        })?;
        let number = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        let context = Box::into_raw(Box::new(Context {
            number,
            handle: handle as u64,
            device: device as u32,
            pool,
            legacy: Passages::default(),
            blocking: Passages::default(),
            paused: AtomicBool::new(false),
            gone: AtomicBool::new(false),
        }));
        // Two threads can meet a new context at once: the first one's stands; the other's events stay unused.
        let first = place
            .compare_exchange(core::ptr::null_mut(), context, Ordering::Release, Ordering::Relaxed)
            .is_ok();
        // SAFETY: just stored, or stored by the other; leaked. Acquire, with the release above.
        let context = unsafe { place.load(Ordering::Acquire).as_ref() }?;
        if first {
            announce(call, driver, context);
            crate::session::exit::register_drain();
        }
        errno.restore();
        Some(context)
    }

    /// The app has retained a device's primary context.
    pub fn retain(&self, device: CUdevice, handle: CUcontext) {
        let at = device as usize;
        if let (Some(count), Some(primary)) = (self.retained.get(at), self.primary.get(at)) {
            count.fetch_add(1, Ordering::Relaxed);
            primary.store(handle as u64, Ordering::Relaxed);
        }
    }

    /// Whether a context is its device's primary one; where none was seen retained, any may be.
    pub fn is_primary(&self, context: &Context) -> bool {
        let primary = self.primary.get(context.device as usize).map_or(0, |p| p.load(Ordering::Relaxed));
        primary == 0 || primary == context.handle
    }

    /// The app releases a device's primary context. True when that may be its end.
    pub fn release(&self, device: CUdevice) -> bool {
        let Some(count) = self.retained.get(device as usize) else { return true };
        let before = count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1));
        before.is_err() || before == Ok(1)
    }

    /// The handle is this context's no longer. Returns the context, once.
    pub fn forget(&self, handle: u64) -> Option<&'static Context> {
        let place = self.places.get(handle)?;
        // SAFETY: null or a leaked context. Acquire, with the release in `adopt`.
        unsafe { place.swap(core::ptr::null_mut(), Ordering::AcqRel).as_ref() }
    }

    /// It is after all, unless another has it by now.
    pub fn remember(&self, context: &'static Context) {
        if let Some(place) = self.places.get(context.handle) {
            let this = core::ptr::from_ref(context).cast_mut();
            let _ = place.compare_exchange(core::ptr::null_mut(), this, Ordering::Release, Ordering::Relaxed);
        }
    }

    /// The pool of the context with this number, if it is alive.
    pub fn pool(&self, number: u32) -> Option<&'static Pool> {
        self.iter().find(|c| c.number == number).map(|c| &c.pool)
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
pub fn record_of(context: &Context, change: u8) -> record::Context {
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

/// Before a call that may be the end of these contexts: the poller reads what it can of them, then leaves them alone.
pub fn pause(session: &Session, ends: impl Fn(&Context) -> bool) {
    if !session.contexts.iter().any(&ends) {
        return;
    }
    let is_read = |s: &Stream| s.oldest().is_none() || !s.context().is_some_and(&ends);
    session.poller.drain(|| session.streams.iter().all(is_read));
    session.contexts.iter().filter(|c| ends(c)).for_each(|c| c.paused.store(true, Ordering::SeqCst));
    session.poller.let_finish();
}

/// After that call: the same contexts are gone, or they are not.
pub fn resume(call: &Call, ends: impl Fn(&Context) -> bool, gone: bool) {
    let session = call.session;
    for context in session.contexts.iter().filter(|c| c.paused.load(Ordering::Relaxed) && ends(c)) {
        if !gone {
            context.paused.store(false, Ordering::SeqCst);
        } else if session.contexts.forget(context.handle).is_some() {
            session.streams.abandon(context);
            ended(call, context);
        }
    }
}

/// Its events are gone.
pub fn ended(call: &Call, context: &Context) {
    context.gone.store(true, Ordering::Release);
    call.publish(&record_of(context, 2));
}
