//! How do hooks and the poller coordinate? Hooks wake the poller when it has work, and threads wait for it
//! before a context or the process goes away.

use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use crate::sys;

/// How long a teardown waits for pending operations to be read, at most.
const DRAIN_NS: u64 = 100_000_000;
/// How long a teardown waits for the poller to end a polling pass, or for hooks to close their pairs, at
/// most. Both take microseconds, unless a driver call blocks.
const FINISH_NS: u64 = 100_000_000;
/// How long a call that may end a context waits for the poller to end its polling pass, at most. What may
/// hold the poller up is a lock of the driver (compiling a module takes seconds), for which the call would
/// wait as well; after the call, the poller would query an event that is gone.
const LEAVE_NS: u64 = 10_000_000_000;
/// How long the process's end waits until the collector has been reached, at most. Starting the collector
/// takes 30 ms on a busy machine.
const INTRODUCTION_NS: u64 = 1_000_000_000;

/// How long a teardown waits instead where the poller would run and gets no processor, at most: on a busy machine, a context of
/// some milliseconds (`first_use` in `tests/programs/capture_matrix.c`) had no GPU times in one run of a hundred.
const STARVED_NS: u64 = 1_000_000_000;

/// The first sleep of a thread that waits.
const FIRST_STEP_NS: u64 = 5_000;

/// The poller works, or sleeps so briefly that nobody needs to wake it.
const ABOUT: u32 = 0;
/// The poller sleeps long, or is about to: a thread that has work for it wakes it.
const ASLEEP: u32 = 1;
/// A thread has woken the poller, and the poller has not noticed yet.
const WOKEN: u32 = 2;

/// What the poller has not published yet follows when it is due.
const LATER: u32 = 0;
/// The process ends: the poller publishes it now.
const NOW: u32 = 1;
/// The poller has published it.
const DONE: u32 = 2;

/// The state that hooks and the poller share. Valid when zero.
pub struct Shared {
    /// [`ABOUT`], [`ASLEEP`] or [`WOKEN`]; the futex that the poller sleeps on.
    sleeping: AtomicU32,
    /// Odd during a polling pass. SeqCst pairs with `ending` of contexts: either the poller sees that a
    /// context may end, or the thread that ends it sees the polling pass.
    polls: AtomicU64,
    /// Whether no driver call may be made any more, because the driver or the process is shutting down.
    /// SeqCst pairs with `polls`, as above.
    stopped: AtomicBool,
    /// Whether a collector has the segment, with the names of functions in it, or is known to be out of reach. Release by the
    /// poller, acquire by the exit handler.
    introduced: AtomicBool,
    /// [`LATER`], [`NOW`] or [`DONE`]: what the poller does about names and libraries. Release and acquire both ways, between the
    /// exit handler and the poller: this one publishes what was there when it was asked, and that one finds it in the ring.
    publishes: AtomicU32,
    /// How many threads wait for operations to be read. Relaxed: a hint to do nothing else.
    awaited: AtomicU32,
    /// The poller's thread; 0 = it has not begun. Relaxed: the word stands alone.
    thread: AtomicU32,
}

impl Shared {
    /// Wakes the poller if it sleeps long, after a hook has added work.
    ///
    /// Relaxed, so that no launch pays for a fence: the load may overtake the store that added the work, and
    /// then neither side sees the other. The poller makes up for it: it polls once more between announcing a
    /// long sleep and sleeping, a short sleep later, when such a store has long left its processor's store
    /// buffer.
    #[inline]
    pub fn work_added(&self) {
        if self.sleeping.load(Ordering::Relaxed) == ASLEEP {
            self.wake();
        }
    }

    /// Ends the poller's sleep, or prevents its next one, because something cannot wait.
    #[cold]
    pub fn wake(&self) {
        // AcqRel pairs with the swap in `sleep`: the poller sees the work that it was woken for.
        if self.sleeping.swap(WOKEN, Ordering::AcqRel) != WOKEN {
            let errno = sys::Errno::save();
            sys::futex_wake(&self.sleeping);
            errno.restore();
        }
    }

    /// Poller: sleeps for `ns`. If `long`, hooks wake it. Returns true if it was woken, now or since its last
    /// sleep.
    pub fn sleep(&self, long: bool, ns: u64) -> bool {
        let announced = if long { ASLEEP } else { ABOUT };
        // AcqRel pairs with the swap in `wake`: the next polling pass sees the work that was added before.
        if self.sleeping.swap(announced, Ordering::AcqRel) == WOKEN {
            return true;
        }
        sys::futex_wait(&self.sleeping, announced, ns);
        // The announcement remains until the next sleep, unless the poller was woken; then it is reset.
        self.sleeping.compare_exchange(WOKEN, ABOUT, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Poller: starts a polling pass. Returns false if the driver must not be called.
    pub fn begin_poll(&self) -> bool {
        self.polls.fetch_add(1, Ordering::SeqCst);
        !self.is_stopped()
    }

    /// Poller: ends the polling pass.
    pub fn end_poll(&self) {
        self.polls.fetch_add(1, Ordering::SeqCst);
    }

    /// Poller: takes note of the calling thread.
    pub fn begin(&self) {
        self.thread.store(sys::tid(), Ordering::Relaxed);
    }

    /// Waits until the poller has read and reported what `is_read` waits for, [`DRAIN_NS`] at most, or as long as the poller gets no
    /// processor, [`STARVED_NS`] at most.
    pub fn drain(&self, is_read: impl Fn() -> bool) {
        self.awaited.fetch_add(1, Ordering::Relaxed);
        self.wait_for_poller(DRAIN_NS, || {
            let over = is_read() || self.is_stopped();
            if !over {
                self.wake();
            }
            over
        });
        self.let_finish();
        self.awaited.fetch_sub(1, Ordering::Relaxed);
    }

    /// Waits for something that the poller does, for `most_ns`, or as long as the poller gets no processor, [`STARVED_NS`] at most.
    fn wait_for_poller(&self, most_ns: u64, is_over: impl Fn() -> bool) {
        for _ in 0..STARVED_NS / most_ns {
            wait(most_ns, 100_000, &is_over);
            if is_over() || !sys::is_runnable(self.thread.load(Ordering::Relaxed)) {
                return;
            }
        }
    }

    /// Poller: whether a thread waits until operations are read.
    pub fn is_awaited(&self) -> bool {
        self.awaited.load(Ordering::Relaxed) != 0
    }

    /// Waits until the current polling pass, if there is one, is over, [`FINISH_NS`] at most.
    pub fn let_finish(&self) {
        self.await_poll_end(FINISH_NS);
    }

    /// Waits, before a context may end, until the current polling pass is over, so that no driver call of the
    /// poller's is under way on it. Later passes do not query the context.
    pub fn let_leave(&self) {
        self.await_poll_end(LEAVE_NS);
    }

    fn await_poll_end(&self, most_ns: u64) {
        let poll = self.polls.load(Ordering::SeqCst);
        if poll % 2 == 1 {
            wait(most_ns, 20_000, || self.polls.load(Ordering::SeqCst) != poll);
        }
    }

    /// Waits for something that is under way and takes only a moment, [`FINISH_NS`] at most.
    pub fn finished(&self, is_over: impl Fn() -> bool) {
        wait(FINISH_NS, 20_000, is_over);
    }

    /// Forbids the poller to call the driver from here on.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::SeqCst);
    }

    /// Whether the poller must not call the driver.
    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::SeqCst)
    }

    /// Poller: a collector has been reached or is known to be out of reach, and the names of functions are published.
    pub fn introduced(&self) {
        self.introduced.store(true, Ordering::Release);
    }

    /// Waits at the process's end until `introduced`. A process that ended earlier would take all its records
    /// with it.
    pub fn wait_until_introduced(&self) {
        let is_introduced = || self.introduced.load(Ordering::Acquire);
        wait(INTRODUCTION_NS, 100_000, is_introduced);
        if !is_introduced() {
            // The poller tries no longer to reach a collector that takes no connection, and says so.
            self.stop();
            wait(FINISH_NS, 100_000, is_introduced);
        }
    }

    /// Has the poller publish at the process's end what it has not yet, and waits for that, [`FINISH_NS`] at most, or as long as the
    /// poller gets no processor, [`STARVED_NS`] at most.
    pub fn publish_last(&self) {
        let _ = self.publishes.compare_exchange(LATER, NOW, Ordering::AcqRel, Ordering::Relaxed);
        self.wait_for_poller(FINISH_NS, || {
            let is_done = self.publishes.load(Ordering::Acquire) == DONE;
            if !is_done {
                self.wake();
            }
            is_done
        });
    }

    /// Poller: whether what is not published yet is due because the process ends.
    pub fn is_to_publish(&self) -> bool {
        self.publishes.load(Ordering::Acquire) == NOW
    }

    /// Poller: it has published the last that it will.
    pub fn published_last(&self) {
        self.publishes.store(DONE, Ordering::Release);
    }
}

/// Waits until something is over, but no longer than `most_ns`. It looks at once, and then ever less often, up to every
/// `step_ns`: most of what is waited for takes microseconds. (A sleep takes 50 µs longer than asked for: prctl(2), PR_SET_TIMERSLACK.)
fn wait(most_ns: u64, step_ns: u64, is_over: impl Fn() -> bool) {
    let errno = sys::Errno::save();
    let _whole = sys::Uncancelled::new();
    let until = sys::clock_ns(libc::CLOCK_MONOTONIC) + most_ns;
    let mut step = FIRST_STEP_NS.min(step_ns);
    while !is_over() && sys::clock_ns(libc::CLOCK_MONOTONIC) < until {
        sys::sleep_ns(step);
        step = (2 * step).min(step_ns);
    }
    errno.restore();
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    fn shared() -> Shared {
        Shared {
            sleeping: AtomicU32::new(ABOUT),
            polls: AtomicU64::new(0),
            stopped: AtomicBool::new(false),
            introduced: AtomicBool::new(false),
            publishes: AtomicU32::new(LATER),
            awaited: AtomicU32::new(0),
            thread: AtomicU32::new(0),
        }
    }

    const MINUTE: u64 = 60_000_000_000;

    #[test]
    fn work_ends_a_long_sleep_and_leaves_a_short_one_alone() {
        let shared = shared();
        std::thread::scope(|threads| {
            let sleeper = threads.spawn(|| shared.sleep(true, MINUTE));
            while shared.sleeping.load(Ordering::Relaxed) != ASLEEP {
                std::thread::yield_now();
            }
            shared.work_added();
            assert!(sleeper.join().unwrap());
        });
        let began = Instant::now();
        shared.work_added();
        assert!(!shared.sleep(false, 20_000_000), "the poller wakes on its own soon");
        assert!(began.elapsed() >= Duration::from_millis(20));
    }

    #[test]
    fn a_wake_up_before_the_sleep_is_not_lost_and_not_taken_twice() {
        let shared = shared();
        shared.wake();
        assert!(shared.sleep(true, MINUTE));
        assert!(!shared.sleep(false, 1));
        assert!(!shared.sleep(true, 1));
        // The announcement remains: work added during the second polling pass prevents the long sleep.
        shared.work_added();
        assert!(shared.sleep(true, MINUTE));
    }

    /// A context whose poller got no processor for 0.1 s had no GPU times.
    #[test]
    #[cfg_attr(miri, ignore = "Miri has no /proc")]
    fn a_poller_that_gets_no_processor_is_waited_for_longer() {
        let (shared, is_over) = (shared(), AtomicBool::new(false));
        std::thread::scope(|threads| {
            threads.spawn(|| {
                shared.begin();
                while !is_over.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
            while shared.thread.load(Ordering::Relaxed) == 0 {
                std::thread::yield_now();
            }
            let began = Instant::now();
            shared.drain(|| began.elapsed() >= Duration::from_millis(300));
            let took = began.elapsed();
            is_over.store(true, Ordering::Relaxed);
            assert!(took >= Duration::from_millis(300), "{took:?}");
        });
    }

    #[test]
    fn waits_for_the_poller_are_bounded() {
        let shared = shared();
        assert!(shared.begin_poll());
        let began = Instant::now();
        shared.drain(|| false);
        assert!(began.elapsed() >= Duration::from_millis(190), "both were waited for");
        shared.end_poll();
        shared.stop();
        assert!(!shared.begin_poll());
    }
}
