//! Contexts: which ones there are, and when they come and go.

use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};
use gpuspy_wire::record::{self, Head};

use crate::cuda::*;
use crate::driver::Driver;
use crate::gpu::budget::Gate;
use crate::gpu::capture::is_captured;
use crate::gpu::green::{Current, Greens};
use crate::gpu::overlap::CallCounts;
use crate::gpu::pool::Pool;
use crate::keyed::Keyed;
use crate::names::Names;
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
    /// By device.
    primaries: [Primary; PLACES],
    /// Those that are a part of a primary context.
    pub greens: Greens,
    /// Hardware queues that the streams of a context share (`CUDA_DEVICE_MAX_CONNECTIONS`). Written before the session is
    /// published.
    pub connections: u32,
}

/// What is known of a device's primary context.
pub struct Primary {
    /// Its handle; 0 = not seen. Relaxed: an address.
    handle: AtomicU64,
    /// How often the app has retained it and not released it, or less: never more. AcqRel: of two that release it at the
    /// same time the second sees the first under way.
    pub retained: AtomicU32,
    /// Calls that retain, release or reset it, as they pass.
    pub call_counts: CallCounts,
    /// Calls under way that may be its end: the device takes no context in. SeqCst, with the store in `adopt`.
    pub ending: AtomicU32,
}

impl Primary {
    /// The app has retained it.
    pub fn retain(&self) {
        self.retained.fetch_add(1, Ordering::AcqRel);
    }

    /// Its handle is known.
    pub fn met(&self, handle: CUcontext) {
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
    /// The stream of the clock's samples, ours; 0 = none.
    pub samples: u64,
    /// Hardware queues that its streams are given in turn, and streams that have been given one, ours included. Relaxed: a
    /// number; a call under way on another thread may not have seen the last.
    connections: u32,
    connected: AtomicU32,
    /// Calls on all streams, where some share a queue.
    pub all: CallCounts,
    /// Calls on the legacy default stream, and on the streams that it orders itself with.
    pub legacy: CallCounts,
    pub blocking: CallCounts,
    /// Calls under way that may be its end: nobody touches it. SeqCst, with the poller's `looks` and streams' claims.
    pub ending: AtomicU32,
    /// Destroyed or reset: its events are gone. Release by the hook, acquire by the poller.
    pub gone: AtomicBool,
}

impl Context {
    /// Takes a free event for a call; the caller is its one holder.
    #[inline]
    pub fn take_event(&self, call: &Call) -> Option<u32> {
        let others = |context| call.session.get::<Contexts>().pool(context);
        call.with_events(|events| events.take(self.number, &self.pool, others))
    }

    /// All its streams have one hardware queue.
    pub fn has_one_queue(&self) -> bool {
        self.connections == 1
    }

    /// Some of its streams may have one hardware queue together. From then on for good: which ones, nobody tells.
    #[inline]
    pub fn shares_queues(&self) -> bool {
        self.has_one_queue() || self.connected.load(Ordering::Relaxed) > self.connections
    }

    /// The app has one more stream, besides the legacy default stream.
    pub fn has_stream_more(&self) {
        self.connected.fetch_add(1, Ordering::Relaxed);
    }

    /// It is gone, or may be any moment: nothing is asked of its events.
    #[inline]
    pub fn is_leaving(&self) -> bool {
        self.ending.load(Ordering::SeqCst) != 0 || self.gone.load(Ordering::Acquire)
    }
}

impl Contexts {
    /// The context with this handle, made known now if it is new; slow only then, and for a green one's, which is its primary
    /// context. `None` too while a call that may be its end is under way: the handle may mean another by now.
    #[inline]
    pub fn get(&self, call: &Call, driver: &Driver, handle: CUcontext) -> Option<&'static Context> {
        self.find(call, driver, handle, true)
    }

    /// The same; a primary context, where `may_be_green` is false.
    #[inline]
    fn find(
        &self,
        call: &Call,
        driver: &Driver,
        handle: CUcontext,
        may_be_green: bool,
    ) -> Option<&'static Context> {
        if handle.is_null() {
            return None;
        }
        let known = self.places.find(handle as u64);
        // SAFETY: null or a leaked context. Acquire, with the release in `adopt`.
        match known.and_then(|place| unsafe { place.load(Ordering::Acquire).as_ref() }) {
            // Relaxed: who has made it anew has met the driver's lock after the call that ended it.
            Some(context) => (context.ending.load(Ordering::Relaxed) == 0).then_some(context),
            None => match self.greens.primary(handle).filter(|_| may_be_green) {
                Some(primary) => self.find(call, driver, primary, false),
                None => self.adopt(call, driver, handle, may_be_green),
            },
        }
    }

    #[cold]
    fn adopt(
        &self,
        call: &Call,
        driver: &Driver,
        handle: CUcontext,
        may_be_green: bool,
    ) -> Option<&'static Context> {
        let errno = crate::sys::Errno::save();
        let mut device: CUdevice = 0;
        let pool = Pool::new();
        let connections = self.connections;
        let mut samples: CUstream = core::ptr::null_mut();
        let is_ending = |device| self.primary(device).is_some_and(|p| p.ending.load(Ordering::SeqCst) != 0);
        // RELAXED: the context is new to us, and a capture may be under way in it.
        let entered = driver.relaxed(|| {
            with_context(driver, handle, || {
                // SAFETY: writes a place of ours.
                let asked = driver.context_device.map(|ask| unsafe { ask(&mut device) });
                if asked.is_some_and(|result| result != CUDA_SUCCESS) {
                    return None; // current to this thread, and dead
                }
                // It asks about the legacy stream, which stands for every blocking stream that captures.
                if is_captured(call, STREAM_LEGACY as CUstream) {
                    return None;
                }
                let current = Current::ask(driver);
                if matches!(current, Current::Plain)
                    && !is_ending(device)
                    && call.session.get::<Gate>().is_on()
                {
                    pool.fill(driver);
                    if connections > 1 {
                        samples = sample_stream(driver);
                    }
                }
                Some(current)
            })
        });
        let primary = match entered.flatten().flatten() {
            Some(Current::Plain) if !is_ending(device) => None,
            Some(Current::Green(primary)) if may_be_green => Some(primary),
            _ => {
                errno.restore();
                return None;
            }
        };
        if let Some(primary) = primary {
            errno.restore();
            self.greens.stands_for(handle, primary);
            return self.find(call, driver, primary, false);
        }
        let place = self.places.get(handle as u64)?;
        let number = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        let context = Box::into_raw(Box::new(Context {
            number,
            handle: handle as u64,
            device: device as u32,
            pool,
            samples: samples as u64,
            connections,
            // The legacy default stream is there from the beginning.
            connected: AtomicU32::new(1 + u32::from(!samples.is_null())),
            all: CallCounts::of_all(),
            legacy: CallCounts::default(),
            blocking: CallCounts::default(),
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
            call.session.register_drain();
        }
        errno.restore();
        context
    }

    /// What is known of a device's primary context.
    pub fn primary(&self, device: CUdevice) -> Option<&Primary> {
        self.primaries.get(usize::try_from(device).ok()?)
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
        self.greens.forget();
        let this = core::ptr::from_ref(context).cast_mut();
        self.places.find(context.handle).is_some_and(|place| {
            place.compare_exchange(this, core::ptr::null_mut(), Ordering::AcqRel, Ordering::Relaxed).is_ok()
        })
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
    if !session.get::<Contexts>().iter().any(|c| c.number != context.number && c.device == context.device) {
        call.publish(&describe_device(driver, context.device));
        session.get::<Names>().device(call, driver, context.device);
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

/// Makes the stream of the clock's samples in the current context; null where the driver makes none.
fn sample_stream(driver: &Driver) -> CUstream {
    let (mut least, mut greatest) = (0, 0);
    // SAFETY: a context is current; writes places of ours.
    driver.stream_priorities.map(|ask| unsafe { ask(&mut least, &mut greatest) });
    let mut stream: CUstream = core::ptr::null_mut();
    // SAFETY: as above.
    let made = driver.stream_create.map(|create| unsafe { create(&mut stream, STREAM_NON_BLOCKING, least) });
    if made == Some(CUDA_SUCCESS) { stream } else { core::ptr::null_mut() }
}
