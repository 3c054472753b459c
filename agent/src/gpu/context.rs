//! Which contexts exist, and when are they created and destroyed?

use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use gpuspy_wire::record::{self, Head, LossCause, Record};

use crate::cuda::*;
use crate::driver::Driver;
use crate::gpu::budget::Gate;
use crate::gpu::green_context::{Current, Greens};
use crate::gpu::overlap::{CallCounts, Queues};
use crate::gpu::pool::Pool;
use crate::gpu::stream_capture::is_captured;
use crate::names::Names;
use crate::objects::{Objects, Refused};
use crate::options::Connections;
use crate::sink::Ring;
use crate::sys::ticks;
use crate::thread::Call;

/// The number of contexts of a process that are alive at the same time: one for each GPU, and more in programs that create
/// their own.
const PLACES: usize = 256;
/// The number of devices of a process.
const DEVICES: usize = 64;

/// The contexts of a session. Valid when zero.
pub struct Contexts {
    /// By CUcontext: the context that has this handle now.
    places: Objects<Context, PLACES>,
    /// The last number given out. Relaxed: it only has to be unique.
    last: AtomicU32,
    /// The primary contexts, by device.
    primaries: [Primary; DEVICES],
    /// The green contexts, each of which is part of a primary context.
    pub greens: Greens,
    /// Hardware queues that the streams of a context share (`CUDA_DEVICE_MAX_CONNECTIONS`). Written before the session is
    /// published.
    pub connections: Connections,
}

/// What is known about a device's primary context.
pub struct Primary {
    /// Its handle; 0 = not observed yet. Relaxed: an address.
    handle: AtomicU64,
    /// How often the app has retained it without releasing it, or less, but never more. AcqRel: of two
    /// threads that release it at the same time, the second sees that the first is under way.
    pub retained: AtomicU32,
    /// The calls that retain, release or reset it, counted as they begin and end.
    pub call_counts: CallCounts,
    /// The number of calls under way that may end it; meanwhile no context of the device is adopted. SeqCst
    /// pairs with the fence in `adopt`.
    pub ending: AtomicU32,
}

impl Primary {
    /// Takes note that the app has retained it.
    pub fn retain(&self) {
        self.retained.fetch_add(1, Ordering::AcqRel);
    }

    /// Takes note of its handle.
    pub fn set_handle(&self, handle: CUcontext) {
        self.handle.store(handle as u64, Ordering::Relaxed);
    }

    /// Takes note that the app releases it. Returns true when that may be its end.
    pub fn release(&self) -> bool {
        let before = self.retained.fetch_update(Ordering::AcqRel, Ordering::Acquire, |n| n.checked_sub(1));
        before.is_err() || before == Ok(1)
    }

    /// Whether it is this context. If no retain was observed, any context of the device may be it.
    pub fn is(&self, context: &Context) -> bool {
        let handle = self.handle.load(Ordering::Relaxed);
        handle == 0 || handle == context.handle
    }
}

/// A context. Never freed, but for its events: a thread may have a reference for as long as a call of its takes.
pub struct Context {
    /// Its number in records, which is never reused.
    pub number: u32,
    pub handle: u64,
    pub device: u32,
    pub pool: Pool,
    /// The agent's stream for clock samples; 0 = none.
    pub samples: u64,
    /// The hardware queues of its streams.
    pub queues: Queues,
    /// The calls on the legacy default stream, and those on the streams that it is ordered with.
    pub legacy: CallCounts,
    pub blocking: CallCounts,
    /// The number of calls under way that may end it; meanwhile the agent does not touch it. SeqCst pairs
    /// with the poller's `polls` and with `Stream::try_hold`.
    pub ending: AtomicU32,
    /// Whether it was destroyed or reset, so that its events are gone. Release by the hook, acquire by the
    /// poller.
    pub gone: AtomicBool,
}

impl Context {
    /// Takes a free event for a call; the caller is its only holder.
    #[inline]
    pub fn take_event(&self, call: &Call) -> Option<u32> {
        let others = |context| call.session.get::<Contexts>().pool(context);
        call.with_events(|events| events.take(self.number, &self.pool, others))
    }

    /// Whether it is gone or may be at any moment, so that its events must not be queried.
    #[inline]
    pub fn is_leaving(&self) -> bool {
        self.ending.load(Ordering::SeqCst) != 0 || self.gone.load(Ordering::Acquire)
    }
}

impl Contexts {
    /// Returns the context with this handle, and adopts it if it is new; slow only then, and for a green
    /// context, which stands for its primary context. Returns `None` while a call that may end it is under
    /// way: the handle may mean another context by now.
    #[inline]
    pub fn get(&self, call: &Call, driver: &Driver, handle: CUcontext) -> Option<&'static Context> {
        self.find(call, driver, handle, true)
    }

    /// Does the same; if `may_be_green` is false, only a context that is not green is returned.
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
        match self.places.find(handle as u64) {
            // Relaxed: a thread that has created the context anew has taken the driver's lock after the call
            // that ended it.
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
        let mut pool = None;
        let mut connections = 1;
        let mut samples: CUstream = core::ptr::null_mut();
        let is_ending = |device| self.primary(device).is_some_and(|p| p.ending.load(Ordering::SeqCst) != 0);
        // RELAXED: the context is new to us, and a capture may be under way in it.
        let entered = driver.relaxed(|| {
            with_context(driver, handle, || {
                // SAFETY: the call writes to a local variable.
                let result = driver.context_device.map(|query| unsafe { query(&mut device) });
                if result.is_some_and(|result| result != CUDA_SUCCESS) {
                    return None; // current to this thread, but destroyed
                }
                // `Current::query` queries the legacy stream, which stands for every blocking stream that
                // captures.
                if is_captured(call, STREAM_LEGACY as CUstream) {
                    return None;
                }
                let current = Current::query(driver);
                if matches!(current, Current::Plain) && !is_ending(device) {
                    // Without a place nothing would ever use the events, and the next call would create more.
                    if !self.places.has_room(handle as u64) {
                        call.lost(LossCause::TableFull, 1);
                        return None;
                    }
                    let new = Pool::new()?;
                    connections = self.connections.number(|| is_mps_client(driver, device));
                    if call.session.get::<Gate>().is_on() {
                        new.fill(driver);
                        if connections > 1 {
                            samples = sample_stream(driver);
                        }
                    }
                    pool = Some(new);
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
            self.greens.set_primary(handle, primary);
            return self.find(call, driver, primary, false);
        }
        let Some(pool) = pool else {
            errno.restore(); // a call that may end it was under way for a moment
            return None;
        };
        let number = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        let context: &'static Context = Box::leak(Box::new(Context {
            number,
            handle: handle as u64,
            device: device as u32,
            pool,
            samples: samples as u64,
            queues: Queues::new(connections, u32::from(!samples.is_null())),
            legacy: CallCounts::default(),
            blocking: CallCounts::default(),
            ending: AtomicU32::new(0),
            gone: AtomicBool::new(false),
        }));
        // Two threads can meet a new context at the same time: the first one to insert it wins, and the
        // other's events stay unused.
        let adopted = match self.places.insert(handle as u64, context) {
            Ok(()) => {
                // SeqCst: see `Primary::ending`. It orders the insertion before the load.
                core::sync::atomic::fence(Ordering::SeqCst);
                if is_ending(device) {
                    // Since the check above a call may have begun to end it, so it may not be what we took it
                    // for.
                    self.forget(context);
                    None
                } else {
                    announce(call, driver, context);
                    call.session.register_drain();
                    Some(context)
                }
            }
            Err(Refused::Taken(other)) => Some(other),
            Err(Refused::Busy) => None,
            Err(Refused::Full) => {
                call.lost(LossCause::TableFull, 1);
                None
            }
        };
        errno.restore();
        adopted
    }

    /// What is known about a device's primary context.
    pub fn primary(&self, device: CUdevice) -> Option<&Primary> {
        self.primaries.get(usize::try_from(device).ok()?)
    }

    /// Takes note that a context is gone. The first thread to do so publishes the record.
    pub fn ended(&self, call: &Call, context: &'static Context) {
        if self.forget(context) {
            call.publish(&record_of(context, ticks(), 2));
        }
    }

    /// Poller: publishes the contexts that are alive and their devices again, as of `at` (ticks), for a collector that has not
    /// seen them. The driver may be called.
    pub fn publish_again(&self, driver: &Driver, names: &Names, at: u64, ring: &mut Ring) {
        let mut described = [false; DEVICES];
        for context in self.iter() {
            let is_described = described.get_mut(context.device as usize);
            if !is_described.is_some_and(|is_described| core::mem::replace(is_described, true)) {
                ring.push(describe_device(driver, context.device).as_words());
                names.device(driver, context.device, |words| ring.push(words));
            }
            ring.push(record_of(context, at, 1).as_words());
        }
    }

    /// Removes a context that is gone from its handle. Returns true for the first thread to do so.
    pub fn forget(&self, context: &'static Context) -> bool {
        context.gone.store(true, Ordering::Release);
        self.greens.forget();
        context.pool.close();
        self.places.remove_this(context.handle, context)
    }

    /// The event pool of the context with this number, if it is alive.
    pub fn pool(&self, number: u32) -> Option<&'static Pool> {
        self.iter().find(|c| c.number == number).map(|c| &c.pool)
    }

    /// All known contexts that are alive.
    pub fn iter(&self) -> impl Iterator<Item = &'static Context> + '_ {
        self.places.iter()
    }
}

/// Publishes a new context and, if it is the first one on its device, the device.
fn announce(call: &Call, driver: &Driver, context: &Context) {
    let session = call.session;
    if !session.get::<Contexts>().iter().any(|c| c.number != context.number && c.device == context.device) {
        call.publish(&describe_device(driver, context.device));
        session.get::<Names>().device(driver, context.device, |words| call.push_words(words));
    }
    call.publish(&record_of(context, ticks(), 1));
}

/// Builds the record of a context's creation (1) or end (2) at that moment (ticks).
fn record_of(context: &Context, at: u64, change: u8) -> record::Context {
    record::Context {
        head: Head::new::<record::Context>(),
        at,
        handle: context.handle,
        context: context.number,
        device: context.device,
        change,
        ..Default::default()
    }
}

/// Whether a device is used through MPS (CUDA 12.1 and later say so).
fn is_mps_client(driver: &Driver, device: CUdevice) -> bool {
    let mut value = 0;
    // SAFETY: the call writes to a local variable.
    let result =
        driver.device_attribute.map(|query| unsafe { query(&mut value, DEVICE_MPS_ENABLED, device) });
    result == Some(CUDA_SUCCESS) && value == 1
}

fn describe_device(driver: &Driver, ordinal: u32) -> record::Device {
    let device = ordinal as CUdevice;
    let attribute = |which| {
        let mut value = 0;
        if let Some(query) = driver.device_attribute {
            // SAFETY: the call writes to a local variable.
            unsafe { query(&mut value, which, device) };
        }
        value as u32
    };
    let mut uuid = [0u8; 16];
    let mut memory = 0usize;
    // SAFETY: each call writes to a local variable.
    unsafe {
        driver.device_uuid.map(|query| query(&mut uuid, device));
        driver.device_memory.map(|query| query(&mut memory, device));
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

/// Runs `work` with the context current, and leaves the thread's context stack as it was. `None`: the context
/// cannot be made current, and `work` was not run.
pub fn with_context<T>(driver: &Driver, handle: CUcontext, work: impl FnOnce() -> T) -> Option<T> {
    if driver.current_context() == handle {
        return Some(work());
    }
    let (push, pop) = (driver.context_push?, driver.context_pop?);
    // SAFETY: a context's handle; the driver refuses one that was destroyed.
    if unsafe { push(handle) } != CUDA_SUCCESS {
        return None;
    }
    let result = work();
    let mut popped: CUcontext = core::ptr::null_mut();
    // SAFETY: undoes our own push.
    unsafe { pop(&mut popped) };
    Some(result)
}

/// Creates the stream of the clock's samples in the current context. Returns null if the driver refuses.
fn sample_stream(driver: &Driver) -> CUstream {
    let (mut least, mut greatest) = (0, 0);
    // SAFETY: a context is current; the call writes to two local variables.
    driver.stream_priorities.map(|query| unsafe { query(&mut least, &mut greatest) });
    let mut stream: CUstream = core::ptr::null_mut();
    // SAFETY: as above, with one local variable.
    let made = driver.stream_create.map(|create| unsafe { create(&mut stream, STREAM_NON_BLOCKING, least) });
    if made == Some(CUDA_SUCCESS) { stream } else { core::ptr::null_mut() }
}
