//! `--capture-range`: which part of the run is looked at, and when that begins and ends.
//!
//! Who changes it: the app's calls of `cuProfilerStart` and `cuProfilerStop`, its NVTX ranges of the name that is asked for
//! ([`crate::nvtx::watch`]), or the poller, when the time has come. Each change is told with its moment, by who made it, and
//! tells the [`Gate`], which hooks ask anyway: outside the range they time nothing, as in a pause of the budget. Which
//! records are worth keeping the collector decides.

use core::sync::atomic::{AtomicU64, Ordering};
use gpuspy_wire::capture::CaptureRange;
use gpuspy_wire::record::{Capture, Head, Record};

use crate::gpu::budget::Gate;
use crate::gpu::poller::Ring;
use crate::nvtx::watch;
use crate::session::Session;
use crate::sys::{self, ticks};
use crate::thread;

/// The range's state. Valid when zero.
pub struct Range {
    /// When it last began (odd) or ended (even): ticks; 0 = it has not begun. SeqCst, with `Gate::set_in_range`: of two threads that
    /// change it at once each sees the other's change, and the later one's is what the gate is left with.
    changed: AtomicU64,
    /// CLOCK_MONOTONIC at the session's begin, ns. Relaxed: written before the session is published.
    begun: AtomicU64,
}

/// Ticks as a change's mark, no later than they are, but later than the last one's.
fn mark(now: u64, last: u64, begins: bool) -> u64 {
    let bit = u64::from(begins);
    let rounded = if now & 1 == bit { now } else { now.saturating_sub(1) };
    // The last mark was the other kind's, and odd or even as this one is not.
    rounded.max(last + 1)
}

impl Range {
    /// In a session that begins now.
    pub fn begin() -> Range {
        Range { changed: AtomicU64::new(0), begun: AtomicU64::new(sys::clock_ns(libc::CLOCK_MONOTONIC)) }
    }

    /// It begins, or ends, at `now` (ticks). Gives the record that tells it, unless it has already.
    pub fn change(&self, gate: &Gate, begins: bool, now: u64) -> Option<Capture> {
        let changes = |last: u64| (last & 1 != u64::from(begins)).then(|| mark(now, last, begins));
        let last = self.changed.fetch_update(Ordering::SeqCst, Ordering::SeqCst, changes).ok()?;
        let mut seen = mark(now, last, begins);
        let (at, change) = (seen, if begins { 1 } else { 2 });
        loop {
            gate.set_in_range(seen & 1 == 1);
            let newest = self.changed.load(Ordering::SeqCst);
            if newest == seen {
                break;
            }
            seen = newest;
        }
        Some(Capture { head: Head::new::<Capture>(), at, change, ..Capture::default() })
    }

    /// Makes it what NVTX ranges say, at `now`.
    pub fn follow(&self, gate: &Gate, now: u64, mut tell: impl FnMut(&Capture)) {
        // Another thread may change what they say meanwhile: whoever looks last leaves it as it is.
        loop {
            let is_open = watch::is_open();
            if let Some(change) = self.change(gate, is_open, now) {
                tell(&change);
            }
            if watch::is_open() == is_open {
                break;
            }
        }
    }
}

/// The session has been published: what holds from its begin on.
pub fn begun(session: &'static Session) {
    let now = ticks();
    let tell = |change: &Capture| thread::aside(session, now, change.as_words());
    match session.timing.range() {
        Some(CaptureRange::Nvtx { .. }) => session.range.follow(&session.timing, now, tell),
        Some(CaptureRange::Delay { delay: 0, .. }) => {
            session.range.change(&session.timing, true, now).iter().for_each(tell);
        }
        _ => {}
    }
}

/// What is still to come by the clock. The poller's own.
pub struct Schedule {
    /// CLOCK_MONOTONIC, ns, and whether the range begins then: the next one is the last in here.
    to_come: Vec<(u64, bool)>,
}

impl Schedule {
    /// As the options ask for.
    pub fn new(session: &Session) -> Schedule {
        let begun = session.range.begun.load(Ordering::Relaxed);
        let mut to_come = Vec::new();
        if let Some(CaptureRange::Delay { delay, duration }) = session.timing.range() {
            to_come.extend(duration.map(|duration| (begun + delay + duration, false)));
            to_come.push((begun + delay, true));
        }
        Schedule { to_come }
    }

    /// A turn of the poller. Returns for how long it may sleep at most, ns.
    pub fn step(&mut self, session: &Session, ring: &mut Ring) -> u64 {
        while let Some((moment, begins)) = self.to_come.last().copied() {
            let now = sys::clock_ns(libc::CLOCK_MONOTONIC);
            if now < moment {
                return moment - now;
            }
            self.to_come.pop();
            if let Some(change) = session.range.change(&session.timing, begins, ticks()) {
                ring.push(change.as_words());
            }
        }
        u64::MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::options::{Mode, Options};

    #[test]
    fn it_begins_and_ends_in_turn_and_at_moments_that_grow() {
        let gate = Gate::new(Options { range: Some("profiler-api"), ..Options::of(Mode::Exact) });
        let range = Range::begin();
        let at = |begins, now| range.change(&gate, begins, now).map(|change| (change.change, change.at));
        assert_eq!(at(false, 50), None);
        assert_eq!(at(true, 100), Some((1, 99)), "no later than it was");
        assert!(gate.admit().is_ok());
        assert_eq!(at(true, 110), None);
        assert_eq!(at(false, 80), Some((2, 100)), "another processor's clock may be behind");
        assert!(gate.admit().is_err());
        assert_eq!(at(true, 101), Some((1, 101)));
        assert_eq!(at(false, 200), Some((2, 200)));
    }

    #[test]
    fn threads_that_change_it_at_once_leave_the_gate_as_the_last_change_has_it() {
        let gate = Gate::new(Options { range: Some("profiler-api"), ..Options::of(Mode::Exact) });
        let range = Range::begin();
        for _ in 0..200 {
            std::thread::scope(|threads| {
                for begins in [true, false, true, false] {
                    threads.spawn({
                        let (range, gate) = (&range, &gate);
                        move || (0..20).for_each(|_| _ = range.change(gate, begins, ticks()))
                    });
                }
            });
            let is_open = range.changed.load(Ordering::SeqCst) & 1 == 1;
            assert_eq!(gate.admit().is_ok(), is_open);
        }
    }
}
