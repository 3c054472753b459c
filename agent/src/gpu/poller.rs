//! The poller: the agent's one thread. It reads events and writes GPU times, makes events and buffers ready for the
//! hooks, tells the names of things, and keeps the host clock anchored.
//!
//! It blocks all signals, runs no code of the app's, never synchronises, and stops for good when the driver says that it
//! is shutting down. The driver calls it makes: context push / pop / current, event create / query / elapsed,
//! capture-mode exchange.

use core::ffi::c_void;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use gpuspy_wire::record::{Anchor, GpuTime, Head, Loss, LossCause, Record};
use gpuspy_wire::ring::LEVELS;

use crate::cuda::*;
use crate::driver::{self, Driver};
use crate::gpu::context::{Context, with_context};
use crate::gpu::nodes;
use crate::gpu::stream::{Pending, Stream};
use crate::modules::Modules;
use crate::session::segment::{Claim, anchor};
use crate::session::{Session, collector};
use crate::sys::{self, ticks};

/// Between looks while operations are pending.
const BUSY_NS: u64 = 200_000;
/// Between looks when nothing is: also the longest that a wake-up lost to a race can delay a reading.
const IDLE_NS: u64 = 20_000_000;
/// Looks without work before the long sleep.
const PATIENCE: u32 = 25;
/// Between anchors of the host clock, and between looks at the loaded modules.
const ANCHOR_NS: u64 = 1_000_000_000;
const MODULES_NS: u64 = 100_000_000;
/// How long a teardown waits for the poller at most.
const DRAIN_NS: u64 = 100_000_000;
/// An anchor event is replaced when it is this old, so that no distance reaches 8 ms.
const HOP_NS: i64 = 4_000_000;
/// Operations read of one stream in one look, at most: their times are published together at its end, and a busy stream
/// would not let it come.
const LOOK: u64 = 256;
/// How long the process's end waits for the collector to be reached at most. Starting it takes 30 ms on a busy machine.
const INTRODUCTION_NS: u64 = 1_000_000_000;
/// Up to here the driver's float milliseconds are exact to the ns (facts: 9.2 ms if it multiplies by 1e-6f).
const EXACT_NS: f64 = 9_000_000.0;

/// The poller works / sleeps shortly, with operations pending / sleeps long, with nothing to do.
const AWAKE: u32 = 0;
const DOZING: u32 = 1;
const ASLEEP: u32 = 2;

/// What hooks and poller share. Valid when zero.
pub struct Shared {
    /// [`AWAKE`], [`DOZING`] or [`ASLEEP`]; the futex that the poller sleeps on. Whoever wakes it sets `AWAKE`.
    /// Relaxed: a hook that misses it costs a reading [`IDLE_NS`] of delay, and spares every other a fence.
    sleeping: AtomicU32,
    /// Odd while the poller looks at events. SeqCst, with `paused` of contexts: either the poller sees the pause, or who
    /// pauses sees it looking.
    looks: AtomicU64,
    /// No driver call any more: it, or the process, is shutting down. Release by either side, acquire by the other.
    stopped: AtomicBool,
    /// A collector has been given the segment, or there is none. Release by the poller, acquire by the exit handler.
    introduced: AtomicBool,
}

impl Shared {
    /// A hook has given the poller something to read.
    #[inline]
    pub fn work_added(&self) {
        if self.sleeping.load(Ordering::Relaxed) == ASLEEP {
            self.wake();
        }
    }

    /// Ends the poller's sleep, if it is in one: something cannot wait.
    #[cold]
    pub fn wake(&self) {
        if self.sleeping.swap(AWAKE, Ordering::Relaxed) != AWAKE {
            let errno = sys::Errno::save();
            sys::futex_wake(&self.sleeping);
            errno.restore();
        }
    }

    /// Waits until the poller has read, and told, what `is_idle` asks for, but not for long: before a context, or the
    /// process, goes away.
    pub fn drain(&self, is_idle: impl Fn() -> bool) {
        let errno = sys::Errno::save();
        let _whole = sys::Uncancelled::new();
        let until = sys::clock_ns(libc::CLOCK_MONOTONIC) + DRAIN_NS;
        while !is_idle() && !self.is_stopped() && sys::clock_ns(libc::CLOCK_MONOTONIC) < until {
            self.wake();
            sys::sleep_ns(100_000);
        }
        self.let_finish();
        errno.restore();
    }

    /// Waits until the poller is not in the look that it may be in now, but not for long.
    pub fn let_finish(&self) {
        let errno = sys::Errno::save();
        let _whole = sys::Uncancelled::new();
        let look = self.looks.load(Ordering::SeqCst);
        let until = sys::clock_ns(libc::CLOCK_MONOTONIC) + DRAIN_NS;
        while look % 2 == 1
            && self.looks.load(Ordering::SeqCst) == look
            && sys::clock_ns(libc::CLOCK_MONOTONIC) < until
        {
            sys::sleep_ns(20_000);
        }
        errno.restore();
    }

    /// From here on the poller calls the driver no more.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
    }

    fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }

    /// At the process's end: waits until a collector has been reached or is known to be out of reach. A process that ends
    /// before would take everything with it.
    pub fn wait_until_introduced(&self) {
        let until = sys::clock_ns(libc::CLOCK_MONOTONIC) + INTRODUCTION_NS;
        while !self.introduced.load(Ordering::Acquire) && sys::clock_ns(libc::CLOCK_MONOTONIC) < until {
            sys::sleep_ns(100_000);
        }
    }
}

struct Start {
    session: &'static Session,
    claim: Claim,
}

/// Starts the poller thread. `Err`: it cannot be started.
pub fn start(session: &'static Session, claim: Claim) -> Result<(), ()> {
    let argument = Box::into_raw(Box::new(Start { session, claim }));
    // SAFETY: plain libc calls on values of ours; the signal mask is put back whatever happens, and the thread owns the
    // argument once it is started.
    unsafe {
        let mut all: libc::sigset_t = core::mem::zeroed();
        let mut before: libc::sigset_t = core::mem::zeroed();
        libc::sigfillset(&mut all);
        // Blocked before the thread exists, so that not one signal of the app's is ever delivered on it.
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
        let mut attributes: libc::pthread_attr_t = core::mem::zeroed();
        libc::pthread_attr_init(&mut attributes);
        libc::pthread_attr_setdetachstate(&mut attributes, libc::PTHREAD_CREATE_DETACHED);
        libc::pthread_attr_setstacksize(&mut attributes, 256 << 10);
        let mut thread: libc::pthread_t = core::mem::zeroed();
        let result = libc::pthread_create(&mut thread, &attributes, run, argument.cast());
        libc::pthread_attr_destroy(&mut attributes);
        libc::pthread_sigmask(libc::SIG_SETMASK, &before, core::ptr::null_mut());
        if result != 0 {
            drop(Box::from_raw(argument));
            return Err(());
        }
        libc::pthread_setname_np(thread, c"gpuspy".as_ptr());
    }
    Ok(())
}

extern "C" fn run(argument: *mut c_void) -> *mut c_void {
    // SAFETY: `start` gave us this box.
    let start = unsafe { Box::from_raw(argument.cast::<Start>()) };
    let mut poller = Poller {
        session: start.session,
        ring: Ring { claim: start.claim, session: start.session },
        chains: Vec::new(),
        measured: Vec::new(),
        nodes: nodes::Reader::default(),
        modules: Modules::default(),
        relaxed: false,
    };
    poller.introduce();
    poller.run();
    core::ptr::null_mut()
}

/// The poller's own ring: it grows it itself.
pub struct Ring {
    claim: Claim,
    session: &'static Session,
}

impl Ring {
    /// Publishes a record; false when it did not fit (counted).
    pub fn push(&mut self, words: &[u64]) -> bool {
        let next = self.claim.writer.level() + 1;
        if next < LEVELS
            && self.claim.writer.is_half_full()
            && let Some(buffer) = self.session.segment.buffer(self.claim.index, next)
        {
            self.claim.writer.grow(buffer);
        }
        let pushed = self.claim.writer.push(words).is_ok();
        let counters = &self.claim.slot.counters.0;
        let counter =
            if pushed { Some(&counters.records) } else { counters.lost.get(LossCause::RingFull as usize) };
        if let Some(counter) = counter {
            // Relaxed load and store: this thread is the only writer.
            counter.store(counter.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        }
        pushed
    }
}

/// A context's chain of anchors: positions on its GPU clock.
struct Chain {
    context: u32,
    /// The anchor event; the chain holds it until the next hop.
    anchor: u32,
    /// Its position, ns since the chain's first event, and how far off that may be.
    position: i64,
    error: f64,
}

struct Poller {
    session: &'static Session,
    ring: Ring,
    chains: Vec<Chain>,
    /// Times read in this look, not published yet: they were all seen complete before one and the same moment, which
    /// costs less in the trace than a moment each.
    measured: Vec<GpuTime>,
    nodes: nodes::Reader,
    modules: Modules,
    /// The thread's capture mode is RELAXED.
    relaxed: bool,
}

impl Poller {
    /// Who we are, before anything else is said, and somebody to say it to.
    fn introduce(&mut self) {
        self.session.names.introduce(&mut self.ring);
        collector::reach(self.session);
        self.session.poller.introduced.store(true, Ordering::Release);
    }

    fn run(&mut self) {
        let shared = &self.session.poller;
        let mut idle = 0u32;
        let mut anchored = 0u64;
        let mut looked = 0u64;
        loop {
            let began = ticks();
            let mut driver_ticks = 0;
            shared.looks.fetch_add(1, Ordering::SeqCst);
            let (read, pending) = self.poll(&mut driver_ticks);
            shared.looks.fetch_add(1, Ordering::SeqCst);
            self.session.serve_growth();
            let now = sys::clock_ns(libc::CLOCK_MONOTONIC);
            if now - looked >= MODULES_NS {
                looked = now;
                self.modules.tell_new(self.session, &mut self.ring);
                self.session.names.tell_unsent(&mut self.ring);
            }
            if now - anchored >= ANCHOR_NS {
                anchored = now;
                self.drop_anchor();
            }
            let live = &self.session.segment.header().live.0;
            live.pending.store(pending, Ordering::Relaxed); // a figure for the report
            let own = ticks().wrapping_sub(began).saturating_sub(driver_ticks);
            live.poller_ns.fetch_add(own, Ordering::Relaxed); // a figure for the report
            idle = if read != 0 || pending != 0 { 0 } else { idle.saturating_add(1) };
            let (sleep, ns) = if idle < PATIENCE { (DOZING, BUSY_NS) } else { (ASLEEP, IDLE_NS) };
            shared.sleeping.store(sleep, Ordering::Relaxed);
            sys::futex_wait(&shared.sleeping, sleep, ns);
            shared.sleeping.store(AWAKE, Ordering::Relaxed);
        }
    }

    fn drop_anchor(&mut self) {
        let (ticks, monotonic_raw, realtime, uncertainty) = anchor();
        let record = Anchor {
            head: Head::new::<Anchor>(),
            ticks,
            monotonic_raw,
            realtime,
            uncertainty,
            reserved: [0; 3],
        };
        self.ring.push(record.as_words());
    }

    /// Reads what has completed. Returns how many operations were read and how many are pending.
    fn poll(&mut self, driver_ticks: &mut u64) -> (u64, u64) {
        let lost = self.session.streams.drop_abandoned();
        if lost != 0 {
            self.tell_lost(LossCause::GpuTimePending, lost);
        }
        if self.session.poller.is_stopped() {
            return (0, 0);
        }
        let Some(driver) = driver::driver() else { return (0, 0) };
        let (mut read, mut pending) = (0, 0);
        let timing = self.session.timing.load(Ordering::Relaxed);
        for context in self.session.contexts.iter().filter(|c| !c.paused.load(Ordering::SeqCst)) {
            let busy =
                |s: &Stream| s.oldest().is_some() && s.context().is_some_and(|c| core::ptr::eq(c, context));
            let low = timing && context.pool.is_low();
            if !low && !self.session.streams.iter().any(busy) {
                continue;
            }
            if !self.relaxed {
                let mut mode = CAPTURE_MODE_RELAXED;
                if let Some(exchange) = driver.capture_mode {
                    // SAFETY: exchanges this thread's own mode.
                    unsafe { exchange(&mut mode) };
                }
                self.relaxed = true;
            }
            let entered = ticks();
            let looked = with_context(driver, context.handle as CUcontext, || {
                if low {
                    context.pool.replenish(driver);
                }
                for stream in self.session.streams.iter().filter(|s| busy(s)) {
                    read += self.read_stream(driver, context, stream);
                    let (oldest, behind) = stream.unread();
                    pending += behind - oldest;
                }
                let seen = ticks();
                for record in self.measured.drain(..) {
                    self.ring.push(GpuTime { seen, ..record }.as_words());
                }
                self.nodes.tell(&mut self.ring, seen);
            });
            if looked.is_none() {
                // It was taken down by a call that we do not see: what is pending on it is lost.
                context.gone.store(true, Ordering::Release);
            }
            *driver_ticks += ticks().wrapping_sub(entered);
        }
        self.session.streams.iter().for_each(Stream::retire_if_dead);
        (read, pending)
    }

    fn tell_lost(&mut self, cause: LossCause, count: u64) {
        self.session.lost(cause, count);
        let loss =
            Loss { head: Head::new::<Loss>(), at: ticks(), count, cause: cause as u8, ..Loss::default() };
        self.ring.push(loss.as_words());
    }

    /// Reads a stream's operations from the oldest on, as far as they are complete, or enough for one look.
    fn read_stream(&mut self, driver: &Driver, context: &Context, stream: &Stream) -> u64 {
        let Some(query) = driver.event_query else { return 0 };
        let mut read = 0;
        while read < LOOK
            && let Some(op) = stream.oldest()
        {
            // A teardown may be under way: its flag is set before the real call.
            if self.session.poller.is_stopped()
                || context.paused.load(Ordering::SeqCst)
                || context.gone.load(Ordering::Acquire)
            {
                return read;
            }
            // SAFETY: an event of the pool, whose context is current and not gone.
            match unsafe { query(context.pool.event(op.end)) } {
                CUDA_SUCCESS => {}
                CUDA_ERROR_NOT_READY => break,
                CUDA_ERROR_DEINITIALIZED => {
                    self.session.poller.stop();
                    break;
                }
                _ => {
                    // A sticky error of the app's, or an event that cannot be asked: its time is lost, and said so.
                    self.tell_lost(LossCause::GpuTimePending, 1);
                    finish(context, stream, op);
                    continue;
                }
            }
            if !op.marker && !op.cancelled {
                self.measure(driver, context, stream, op);
            }
            finish(context, stream, op);
            read += 1;
        }
        read
    }

    /// Publishes an operation's time.
    fn measure(&mut self, driver: &Driver, context: &Context, stream: &Stream, op: Pending) {
        let pool = &context.pool;
        let Some((duration, duration_error)) = elapsed(driver, pool.event(op.start), pool.event(op.end))
        else {
            self.tell_lost(LossCause::GpuTimePending, 1);
            return;
        };
        let known = self.chains.iter().position(|c| c.context == context.number);
        let (start, start_error) = match known.and_then(|n| self.chains.get_mut(n)) {
            None => {
                // The chain's origin: this operation's start.
                pool.hold(op.start);
                self.chains.push(Chain {
                    context: context.number,
                    anchor: op.start,
                    position: 0,
                    error: 0.0,
                });
                (0, 0.0)
            }
            Some(chain) => {
                let Some((distance, error)) = elapsed(driver, pool.event(chain.anchor), pool.event(op.start))
                else {
                    self.tell_lost(LossCause::GpuTimePending, 1);
                    return;
                };
                let start = chain.position + distance;
                let start_error = chain.error + error;
                if distance.abs() > HOP_NS {
                    // The end event is the newest that we know complete.
                    pool.hold(op.end);
                    pool.give(chain.anchor);
                    chain.anchor = op.end;
                    chain.position = start + duration;
                    chain.error = start_error + duration_error;
                }
                (start, start_error)
            }
        };
        let record = GpuTime {
            head: Head::new::<GpuTime>(),
            correlation: op.correlation,
            context: context.number,
            chain: 1,
            stream: stream.id(),
            start,
            duration: duration.max(0) as u64,
            start_error: start_error.ceil() as u32,
            duration_error: duration_error.ceil() as u32,
            seen: 0,
        };
        self.nodes.read(&self.session.nodes, driver, context, pool.event(op.start), &record);
        self.measured.push(record);
    }
}

/// An operation is read: it holds its events no more.
fn finish(context: &Context, stream: &Stream, op: Pending) {
    stream.seen(op.position);
    stream.pop();
    context.pool.give(op.end);
    if !op.marker {
        context.pool.give(op.start);
    }
}

/// Distance of two complete events in ns, and how far off it may be: the driver answers in float milliseconds. Some
/// drivers refuse a negative distance: then the other way round is asked.
pub fn elapsed(driver: &Driver, from: CUevent, to: CUevent) -> Option<(i64, f64)> {
    let ask = driver.event_elapsed?;
    let mut ms = 0f32;
    // SAFETY: complete events of the current context; writes a place of ours.
    let mut ns = if unsafe { ask(&mut ms, from, to) } == CUDA_SUCCESS {
        f64::from(ms) * 1e6
    } else {
        // SAFETY: as above.
        if unsafe { ask(&mut ms, to, from) } != CUDA_SUCCESS {
            return None;
        }
        f64::from(ms) * -1e6
    };
    // One step of the float, in ns, where that is more than nothing.
    let error = if ns.abs() < EXACT_NS { 0.0 } else { f64::from(f32::EPSILON) * ns.abs() };
    ns = ns.round();
    Some((ns as i64, error))
}
