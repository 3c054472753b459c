//! What hooks and the poller share: who wakes it and when, and how somebody waits for it before a context, or the
//! process, goes away.

use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use crate::sys;

/// How long a teardown waits at most for what is pending to be read.
const DRAIN_NS: u64 = 100_000_000;
/// How long it waits at most for the poller to leave a look, or hooks to close their pairs. Both take microseconds, unless
/// a driver call blocks.
const FINISH_NS: u64 = 100_000_000;
/// How long a call that may be a context's end waits at most for the poller to leave its look. What may hold that one up is
/// a driver's lock (a module that is compiled takes seconds), for which the call would wait as well; behind it the poller
/// would ask for an event that is gone.
const LEAVE_NS: u64 = 10_000_000_000;
/// How long the process's end waits for the collector to be reached at most. Starting it takes 30 ms on a busy machine.
const INTRODUCTION_NS: u64 = 1_000_000_000;

/// The poller works, or sleeps for so short a time that nobody needs to wake it.
const ABOUT: u32 = 0;
/// It sleeps long, or is about to: whoever has work for it wakes it.
const ASLEEP: u32 = 1;
/// Somebody has woken it, and it has not noticed yet.
const WOKEN: u32 = 2;

/// What hooks and poller share. Valid when zero.
pub struct Shared {
    /// [`ABOUT`], [`ASLEEP`] or [`WOKEN`]; the futex that the poller sleeps on.
    sleeping: AtomicU32,
    /// Odd while the poller looks at events. SeqCst, with `ending` of contexts: either the poller sees that one may end,
    /// or who ends it sees the poller looking.
    looks: AtomicU64,
    /// No driver call any more: it, or the process, is shutting down. SeqCst, with `looks`: as above.
    stopped: AtomicBool,
    /// A collector has been given the segment, or there is none. Release by the poller, acquire by the exit handler.
    introduced: AtomicBool,
}

impl Shared {
    /// A hook has given the poller something to read.
    ///
    /// Relaxed, so that no launch pays for a fence: the load may overtake the store that gave the work, and then neither
    /// side sees the other. The poller makes up for it: it looks once more between announcing that it will sleep long
    /// and doing so, a short sleep later, when such a store has long left its processor's buffer.
    #[inline]
    pub fn work_added(&self) {
        if self.sleeping.load(Ordering::Relaxed) == ASLEEP {
            self.wake();
        }
    }

    /// Ends the poller's sleep, or keeps it from its next: something cannot wait.
    #[cold]
    pub fn wake(&self) {
        // AcqRel, with the swap in `sleep`: the poller sees what it was woken for.
        if self.sleeping.swap(WOKEN, Ordering::AcqRel) != WOKEN {
            let errno = sys::Errno::save();
            sys::futex_wake(&self.sleeping);
            errno.restore();
        }
    }

    /// Poller: sleeps for `ns`. When `long`, hooks wake it. True: it was woken, now or since its last sleep.
    pub fn sleep(&self, long: bool, ns: u64) -> bool {
        let announced = if long { ASLEEP } else { ABOUT };
        // AcqRel, with the swap in `wake`: what was asked for before is seen by the look that follows.
        if self.sleeping.swap(announced, Ordering::AcqRel) == WOKEN {
            return true;
        }
        sys::futex_wait(&self.sleeping, announced, ns);
        // What was announced stands until the next sleep, unless there was a wake-up, which is taken.
        self.sleeping.compare_exchange(WOKEN, ABOUT, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Poller: looks at events from here on; false: it may not.
    pub fn begin_look(&self) -> bool {
        self.looks.fetch_add(1, Ordering::SeqCst);
        !self.is_stopped()
    }

    /// Poller: does so no more.
    pub fn end_look(&self) {
        self.looks.fetch_add(1, Ordering::SeqCst);
    }

    /// Waits until the poller has read, and told, what `is_read` asks for, but not for long.
    pub fn drain(&self, is_read: impl Fn() -> bool) {
        wait(DRAIN_NS, 100_000, || {
            let over = is_read() || self.is_stopped();
            if !over {
                self.wake();
            }
            over
        });
        self.let_finish();
    }

    /// Waits until the poller is not in the look that it may be in now, but not for long.
    pub fn let_finish(&self) {
        self.let_end_look(FINISH_NS);
    }

    /// Before a context may end, of which the poller begins to ask nothing more: waits until it has the answer that it may be
    /// waiting for.
    pub fn let_leave(&self) {
        self.let_end_look(LEAVE_NS);
    }

    fn let_end_look(&self, most_ns: u64) {
        let look = self.looks.load(Ordering::SeqCst);
        if look % 2 == 1 {
            wait(most_ns, 20_000, || self.looks.load(Ordering::SeqCst) != look);
        }
    }

    /// Waits for something that is under way and over in a moment, but not for long.
    pub fn finished(&self, is_over: impl Fn() -> bool) {
        wait(FINISH_NS, 20_000, is_over);
    }

    /// From here on the poller calls the driver no more.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::SeqCst);
    }

    /// Whether it may not.
    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::SeqCst)
    }

    /// Poller: a collector has been reached or is known to be out of reach.
    pub fn introduced(&self) {
        self.introduced.store(true, Ordering::Release);
    }

    /// At the process's end: waits until the poller has been introduced. A process that ends before would take everything
    /// with it.
    pub fn wait_until_introduced(&self) {
        wait(INTRODUCTION_NS, 100_000, || self.introduced.load(Ordering::Acquire));
    }
}

/// Waits until something is over, but no longer than `most_ns`.
fn wait(most_ns: u64, step_ns: u64, is_over: impl Fn() -> bool) {
    let errno = sys::Errno::save();
    let _whole = sys::Uncancelled::new();
    let until = sys::clock_ns(libc::CLOCK_MONOTONIC) + most_ns;
    while !is_over() && sys::clock_ns(libc::CLOCK_MONOTONIC) < until {
        sys::sleep_ns(step_ns);
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
            looks: AtomicU64::new(0),
            stopped: AtomicBool::new(false),
            introduced: AtomicBool::new(false),
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
        assert!(!shared.sleep(false, 20_000_000), "the poller looks by itself soon");
        assert!(began.elapsed() >= Duration::from_millis(20));
    }

    #[test]
    fn a_wake_up_before_the_sleep_is_not_lost_and_not_taken_twice() {
        let shared = shared();
        shared.wake();
        assert!(shared.sleep(true, MINUTE));
        assert!(!shared.sleep(false, 1));
        assert!(!shared.sleep(true, 1));
        // What was announced stands: work that comes during the second look keeps it from the long sleep.
        shared.work_added();
        assert!(shared.sleep(true, MINUTE));
    }

    #[test]
    fn a_wait_for_a_look_or_for_work_that_never_ends_is_bounded() {
        let shared = shared();
        assert!(shared.begin_look());
        let began = Instant::now();
        shared.drain(|| false);
        assert!(began.elapsed() >= Duration::from_millis(190), "both were waited for");
        shared.end_look();
        shared.stop();
        assert!(!shared.begin_look());
    }
}
