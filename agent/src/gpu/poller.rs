//! What does the agent's only thread do? The poller reads events and writes GPU times, creates events and
//! buffers for the hooks, samples the GPU's clock, publishes the names of things, and anchors the host clock.
//!
//! It blocks all signals, runs no code of the app, never synchronizes, and stops for good when the driver
//! reports that it is shutting down. The driver calls it makes are context push and pop, event create, query
//! and elapsed time, the exchange of the capture mode, and, for its samples, an event record on a stream of
//! our own.
//!
//! - [`shared`] is its interface to hooks and other threads: waking it, and waiting for it.
//! - [`rhythm`] decides when it polls next.
//! - [`reader`] reads the events.
//! - [`cost`] measures what that costs.

pub mod cost;
pub mod reader;
mod rhythm;
mod shared;

pub use shared::Shared;

use core::ffi::c_void;
use core::sync::atomic::Ordering;
use gpuspy_wire::record::{Anchor, Head, LossCause, Record};
use gpuspy_wire::ring::LEVELS;

use crate::gpu::budget::Budget;
use crate::gpu::range::Schedule;
use crate::interpose::unknown;
use crate::modules::Modules;
use crate::nvtx;
use crate::session::segment::{Claim, anchor};
use crate::session::{Session, collector, job};
use crate::sys;
use cost::Meter;
use reader::Reader;
use rhythm::Rhythm;

/// The time between anchors of the host clock, and between checks for new modules, ns.
const ANCHOR_NS: u64 = 1_000_000_000;
const MODULES_NS: u64 = 100_000_000;

struct Start {
    session: &'static Session,
    claim: Claim,
}

/// Starts the poller thread. `Err`: the thread cannot be created.
pub fn start(session: &'static Session, claim: Claim) -> Result<(), ()> {
    let argument = Box::into_raw(Box::new(Start { session, claim }));
    // SAFETY: plain libc calls on local variables; the signal mask is restored in every case, and the thread
    // owns the argument once it is started.
    unsafe {
        let mut all: libc::sigset_t = core::mem::zeroed();
        let mut before: libc::sigset_t = core::mem::zeroed();
        libc::sigfillset(&mut all);
        // Blocked before the thread exists, so that no signal of the app's is ever delivered on it.
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
    // SAFETY: `start` passed this box.
    let start = unsafe { Box::from_raw(argument.cast::<Start>()) };
    let mut poller = Poller {
        session: start.session,
        ring: Ring { claim: start.claim, session: start.session },
        reader: Reader::new(start.session),
        meter: Meter::default(),
        modules: Modules::default(),
        domains: nvtx::PublishedDomains::default(),
        budget: Budget::new(start.session),
        schedule: Schedule::new(start.session),
        anchored: 0,
        checked: 0,
    };
    poller.introduce();
    poller.run();
    core::ptr::null_mut()
}

/// The poller's own ring, which the poller grows itself.
pub struct Ring {
    claim: Claim,
    session: &'static Session,
}

impl Ring {
    /// Publishes a record. Returns false if it did not fit, which is counted as a loss.
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

struct Poller {
    session: &'static Session,
    ring: Ring,
    reader: Reader,
    meter: Meter,
    modules: Modules,
    domains: nvtx::PublishedDomains,
    budget: Budget,
    schedule: Schedule,
    /// CLOCK_MONOTONIC, ns, of the last anchor and of the last check for new modules.
    anchored: u64,
    checked: u64,
}

impl Poller {
    /// Publishes the process's identity before anything else, and makes sure that a collector reads it.
    fn introduce(&mut self) {
        self.session.names.introduce(&mut self.ring);
        job::introduce(self.session, &mut self.ring);
        self.budget.introduce(self.session, &mut self.ring);
        collector::reach(self.session);
        self.session.poller.introduced();
    }

    fn run(&mut self) {
        let shared = &self.session.poller;
        let live = &self.session.segment.header().live.0;
        let mut rhythm = Rhythm::NEW;
        let mut woken = true;
        loop {
            let slept = self.meter.begin();
            let may_query = shared.begin_poll();
            let found = self.reader.poll(&mut self.ring, &self.meter, may_query);
            shared.end_poll();
            self.session.serve_growth();
            self.keep_up();
            // Relaxed: figures for the report.
            live.pending.store(found.pending, Ordering::Relaxed);
            live.poller_ns.fetch_add(slept + self.meter.end(), Ordering::Relaxed);
            let sleep = rhythm.next(found, woken);
            if let Some((compared, share)) = self.reader.compared() {
                self.budget.learn(compared, share);
            }
            let until_budget = self.budget.step(self.session, &mut self.ring);
            let until_range = self.schedule.step(self.session, &mut self.ring);
            woken = shared.sleep(sleep.long, sleep.ns.min(until_budget).min(until_range));
        }
    }

    /// Publishes what is due at intervals.
    fn keep_up(&mut self) {
        let now = sys::clock_ns(libc::CLOCK_MONOTONIC);
        if now - self.checked >= MODULES_NS {
            self.checked = now;
            self.modules.tell_new(self.session, &mut self.ring);
            self.session.names.tell_unsent(&mut self.ring);
            self.domains.publish_new(&mut self.ring);
            unknown::publish_new(&mut self.ring);
        }
        if now - self.anchored >= ANCHOR_NS {
            self.anchored = now;
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
    }
}
