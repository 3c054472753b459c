//! What does the agent's only thread do? The poller reads events and writes GPU times, creates events and
//! buffers for the hooks, samples the GPU's clock, publishes the names of things, and anchors the host clock.
//!
//! It blocks all signals, runs no code of the app, never synchronizes, stops for good when the driver reports that
//! it is shutting down, and ends when the session ends without a collector or when it is the last thread of the process.
//! The driver calls it makes are context push and pop, event create, query and elapsed time, the exchange of the capture
//! mode, for its samples an event record on a stream of our own, and for a collector that comes later what describes
//! devices and the driver.
//!
//! - [`sink::poller`](crate::sink::poller) is its interface to hooks and other threads: waking it, and waiting for it.
//! - [`gpu::poller`](crate::gpu::poller) decides when it polls next, reads the events, and measures what that costs.

use core::ffi::{CStr, c_void};
use core::sync::atomic::Ordering;
use gpuspy_wire::record::{Fact, Namespace, Record};

use crate::gpu::budget::{Budget, Gate};
use crate::gpu::capture_range::{Range, Schedule};
use crate::gpu::poller::cost::Meter;
use crate::gpu::poller::reader::Reader;
use crate::gpu::poller::rhythm::Rhythm;
use crate::heap;
use crate::interpose::unknown;
use crate::loader::{symbols, walks};
use crate::modules::Modules;
use crate::names::Names;
use crate::native::Native;
use crate::nvtx;
use crate::python::Python;
use crate::session::announcement::{self, Moment};
use crate::session::attachment::{Attachment, Collector};
use crate::session::{collector, exit};
use crate::sink::segment::anchor_now;
use crate::sink::text::publish;
use crate::sink::{Ring, Session};
use crate::sys;

/// Why a session ends when malloc(3) has refused an allocation.
const OUT_OF_MEMORY: &[u8] =
    b"The process had no memory left for gpuspy, which stopped: what the process did after that is not recorded";

/// The time between anchors of the host clock, and between checks for new modules and names, ns.
const ANCHOR_NS: u64 = 1_000_000_000;
const MODULES_NS: u64 = 100_000_000;

/// How often the pages of rings are given back that nobody reads any more, every [`MODULES_NS`].
const GIVE_BACK_TRIES: u32 = 100;

struct Start {
    session: Session,
    ring: Ring,
    /// The signals that the thread which started the poller blocks.
    blocked: libc::sigset_t,
}

/// The stack that the poller uses, bytes.
const STACK: usize = 256 << 10;

/// Returns how many bytes of a thread's stack glibc takes for itself, in whole pages: the program's thread-local variables lie
/// there, which may be more than the poller's stack has. 0 where glibc does not say.
fn bytes_of_threads(attributes: &libc::pthread_attr_t) -> usize {
    /// As Rust's standard library calls it; in glibc since 2.15.
    type MinStack = unsafe extern "C" fn(*const libc::pthread_attr_t) -> usize;
    const MIN_STACK: &CStr = c"__pthread_get_minstack";
    let found = symbols::in_libc(MIN_STACK).or_else(|| symbols::in_file(c"libpthread.so.0", MIN_STACK));
    // SAFETY: glibc's function with this prototype, which reads numbers of its own.
    let bytes = found.map_or(0, |f| unsafe { core::mem::transmute::<usize, MinStack>(f)(attributes) });
    bytes.next_multiple_of(4096)
}

/// Starts the poller thread, which goes on with the ring. `Err`: the thread cannot be created.
pub fn start(session: Session, ring: Ring) -> Result<(), ()> {
    // SAFETY: plain libc calls on local variables; the signal mask is restored in every case, and the thread
    // owns the argument once it is started.
    unsafe {
        let mut all: libc::sigset_t = core::mem::zeroed();
        let mut before: libc::sigset_t = core::mem::zeroed();
        libc::sigfillset(&mut all);
        // Blocked before the thread exists, so that no signal of the app's is delivered on it.
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
        let argument = Box::into_raw(Box::new(Start { session, ring, blocked: before }));
        let mut attributes: libc::pthread_attr_t = core::mem::zeroed();
        libc::pthread_attr_init(&mut attributes);
        libc::pthread_attr_setdetachstate(&mut attributes, libc::PTHREAD_CREATE_DETACHED);
        libc::pthread_attr_setstacksize(&mut attributes, STACK + bytes_of_threads(&attributes));
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
    start.session.poller.begin();
    sys::reset_arithmetic();
    sys::leave_real_time();
    walks::skip_in_forks();
    let mut poller = Poller {
        session: start.session,
        ring: start.ring,
        reader: Reader::new(start.session),
        meter: Meter::default(),
        modules: Modules::default(),
        domains: nvtx::PublishedDomains::default(),
        budget: Budget::new(start.session),
        schedule: Schedule::new(start.session),
        attachment: Attachment::FIRST,
        anchored: 0,
        checked: 0,
    };
    let is_reached = collector::reach(poller.session);
    if !is_reached {
        poller.end_session();
    }
    poller.session.poller.introduced();
    if is_reached {
        poller.run();
    }
    // As the last thread of the process, this one ends it: glibc calls exit(3) when it has returned. From here on it is as a
    // thread of the program's.
    // SAFETY: changes this thread's own mask.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &start.blocked, core::ptr::null_mut()) };
    core::ptr::null_mut()
}

struct Poller {
    session: Session,
    ring: Ring,
    reader: Reader,
    meter: Meter,
    modules: Modules,
    domains: nvtx::PublishedDomains,
    budget: Budget,
    schedule: Schedule,
    attachment: Attachment,
    /// CLOCK_MONOTONIC, ns, of the last anchor and of the last check for new modules and names.
    anchored: u64,
    checked: u64,
}

impl Poller {
    /// Polls until no other thread is left, which happens if the first thread has left by pthread_exit(3): the process would
    /// never end.
    fn run(&mut self) {
        let session = self.session;
        let shared = &session.poller;
        let live = &session.segment.header().live.0;
        let mut rhythm = Rhythm::NEW;
        let mut woken = true;
        loop {
            let slept = self.meter.begin();
            let began = sys::ticks();
            let may_query = shared.begin_poll();
            let polled = self.reader.poll(&mut self.ring, &self.meter, may_query);
            shared.end_poll();
            self.session.serve_growth();
            let is_last = shared.is_to_publish();
            let found = self.keep_up(is_last);
            if is_last {
                shared.published_last();
            }
            if matches!(found, Collector::Gone | Collector::Killed) {
                return self.end_unread(found);
            }
            if heap::is_short() {
                return self.give_up();
            }
            // Relaxed: figures for the report.
            live.pending.store(polled.pending, Ordering::Relaxed);
            if may_query {
                // Release pairs with the collector's acquire: it finds all that this pass has published in our ring.
                live.polled.store(began, Ordering::Release);
            }
            live.poller_ns.fetch_add(slept + self.meter.end(), Ordering::Relaxed);
            let sleep = rhythm.next(polled, woken);
            if let Some((compared, share)) = self.reader.compared() {
                self.budget.learn(compared, share);
            }
            let until_budget = self.budget.step(self.session, &mut self.ring);
            let until_range = self.schedule.step(self.session, &mut self.ring);
            woken = shared.sleep(sleep.long, sleep.ns.min(until_budget).min(until_range));
            if sleep.long && !woken && !session.segment.has_writers() && sys::is_last_thread() {
                self.keep_up(true);
                // This thread ends the process, and waits for nobody there.
                return shared.published_last();
            }
        }
    }

    /// Ends the session of a process that has no memory left for it. What was recorded stays.
    fn give_up(&mut self) {
        publish(&mut self.ring, Namespace::Fact, Fact::EndNote as u32, OUT_OF_MEMORY);
        self.session.get::<exit::Shared>().say_line(Moment::Early);
        self.end_session();
    }

    /// Ends the session of a process whose collector was killed, and gives the pages of its rings back as the calls return that are
    /// under way.
    fn end_unread(&self, found: Collector) {
        if found == Collector::Killed || announcement::was_killed() {
            exit::say_killed(self.session);
        }
        self.end_session();
        for _ in 0..GIVE_BACK_TRIES {
            sys::sleep_ns(MODULES_NS);
            if self.session.segment.give_back() || sys::is_last_thread() {
                return;
            }
        }
    }

    /// Ends the session before the process ends. No call that is under way waits for the poller from here on, which ends now.
    fn end_session(&self) {
        self.session.get::<Gate>().stop();
        self.session.end_unobserved();
        // Relaxed: the word stands alone. No other collector can take over, to wait for what never comes.
        self.session.segment.header().live.0.attached.fetch_or(1, Ordering::Relaxed);
        self.session.poller.stop();
    }

    /// Sends new modules and names, and anchors of the host clock, when they are due and somebody reads them. `is_last`: the process
    /// ends, and modules and names are due in any case. Returns what there is of collectors.
    fn keep_up(&mut self, is_last: bool) -> Collector {
        let now = sys::clock_ns(libc::CLOCK_MONOTONIC);
        if is_last || now - self.checked >= MODULES_NS {
            self.checked = now;
            let found = self.attachment.look(self.session);
            let is_detached = found == Collector::Detached;
            self.session.get::<Range>().pause(self.session.get::<Gate>(), is_detached);
            match found {
                Collector::Drains => {
                    self.attachment.tell_the_rest(self.session, &mut self.ring);
                    self.publish_new();
                }
                Collector::New => self.publish_again(),
                Collector::Detached | Collector::Gone | Collector::Killed => return found,
            }
        }
        if now - self.anchored >= ANCHOR_NS && !self.session.is_detached() {
            self.anchored = now;
            self.ring.push(anchor_now().as_words());
        }
        Collector::Drains
    }

    fn publish_new(&mut self) {
        self.modules.publish_new(&mut self.ring);
        self.session.get::<Names>().publish_unsent(&mut self.ring);
        self.domains.publish_new(&mut self.ring);
        unknown::publish_new(&mut self.ring);
        self.session.get::<Python>().keep_up(&mut self.ring);
        self.session.get::<Native>().keep_up();
    }

    /// Sends what was sent before, for a collector that has not seen it.
    fn publish_again(&mut self) {
        if self.attachment.tell(self.session, &self.budget, &mut self.ring) {
            self.modules = Modules::default();
            self.domains = nvtx::PublishedDomains::default();
            self.publish_new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::bytes_of_threads;

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no libraries")]
    fn the_bytes_that_glibc_takes_of_a_threads_stack_are_known() {
        // SAFETY: plain libc calls on a local variable.
        let bytes = unsafe {
            let mut attributes: libc::pthread_attr_t = core::mem::zeroed();
            libc::pthread_attr_init(&mut attributes);
            let bytes = bytes_of_threads(&attributes);
            libc::pthread_attr_destroy(&mut attributes);
            bytes
        };
        assert!(bytes >= libc::PTHREAD_STACK_MIN && bytes.is_multiple_of(4096), "{bytes}");
    }
}
