//! Is the capture range open, and when does it open and close (`--capture-range`)?
//!
//! Three things change it: the app's calls of `cuProfilerStart` and `cuProfilerStop`, its NVTX ranges with
//! the requested name (`crate::nvtx::watch`), and the poller when a requested time has come. The thread
//! that makes a change publishes a record with its time and sets the [`Gate`], which hooks query anyway:
//! outside the range they time nothing, as in a pause of the budget. The collector decides which records are
//! worth keeping.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use gpuspy_wire::capture_range::CaptureRange;
use gpuspy_wire::record::{CaptureEdge, Head, Record};

use crate::gpu::budget::Gate;
use crate::sink::{Ring, Session};
use crate::sys::{self, ticks};

/// The capture range's state. Valid when zero.
pub struct Range {
    /// When the range last opened (odd) or closed (even), in ticks; 0 = it has not opened yet. SeqCst, with
    /// `Gate::set_in_range`: of two threads that change it at once, each sees the other's change, and the
    /// later change is the one that the gate keeps.
    changed: AtomicU64,
    /// Whether nobody reads what is recorded, so that nothing is timed. SeqCst: as `changed`.
    is_paused: AtomicBool,
    /// CLOCK_MONOTONIC at the session's start, ns. Relaxed: written before the session is published.
    begun: AtomicU64,
}

/// Returns the time in ticks to store for a change: odd if the range opens, even if it closes, no later than
/// `now`, but later than the last change.
fn moment(now: u64, last: u64, opens: bool) -> u64 {
    let bit = u64::from(opens);
    let rounded = if now & 1 == bit { now } else { now.saturating_sub(1) };
    // The last change was of the other kind, so `last + 1` has the right parity.
    rounded.max(last + 1)
}

impl Range {
    /// Creates the range of a session that starts now.
    pub fn begin() -> Range {
        let begun = AtomicU64::new(sys::clock_ns(libc::CLOCK_MONOTONIC));
        Range { changed: AtomicU64::new(0), is_paused: AtomicBool::new(false), begun }
    }

    /// Opens or closes the range at `now` (ticks). Returns the record of the change, or `None` if the range
    /// was in that state already.
    pub fn change(&self, gate: &Gate, opens: bool, now: u64) -> Option<CaptureEdge> {
        let changes = |last: u64| (last & 1 != u64::from(opens)).then(|| moment(now, last, opens));
        let last = self.changed.fetch_update(Ordering::SeqCst, Ordering::SeqCst, changes).ok()?;
        self.settle(gate);
        let (at, change) = (moment(now, last, opens), if opens { 1 } else { 2 });
        Some(CaptureEdge { head: Head::new::<CaptureEdge>(), at, change, ..CaptureEdge::default() })
    }

    /// Poller: begins or ends a time in which nothing is timed.
    pub fn pause(&self, gate: &Gate, is_paused: bool) {
        if self.is_paused.swap(is_paused, Ordering::SeqCst) != is_paused {
            self.settle(gate);
        }
    }

    /// Brings the gate in line.
    fn settle(&self, gate: &Gate) {
        let state = || (self.changed.load(Ordering::SeqCst), self.is_paused.load(Ordering::SeqCst));
        let mut newest_seen = state();
        loop {
            let (changed, is_paused) = newest_seen;
            gate.set_in_range(!is_paused && (gate.range().is_none() || changed & 1 == 1));
            let newest = state();
            if newest == newest_seen {
                break;
            }
            newest_seen = newest;
        }
    }

    /// Poller: publishes again that the range is open, if it is, for a collector that has not seen it open.
    pub fn publish_again(&self, gate: &Gate, ring: &mut Ring) {
        let at = self.changed.load(Ordering::SeqCst);
        if gate.range().is_some() && at & 1 == 1 {
            let head = Head::new::<CaptureEdge>();
            ring.push(CaptureEdge { head, at, change: 1, ..CaptureEdge::default() }.as_words());
        }
    }

    /// Brings the range in line with the open NVTX ranges, at `now` (ticks). `is_any_open` says
    /// whether one with the requested name is open.
    pub fn follow(
        &self,
        gate: &Gate,
        now: u64,
        is_any_open: fn() -> bool,
        mut publish: impl FnMut(&CaptureEdge),
    ) {
        // Another thread may open or close an NVTX range meanwhile; the last thread to check leaves the right
        // state.
        loop {
            let is_open = is_any_open();
            if let Some(change) = self.change(gate, is_open, now) {
                publish(&change);
            }
            if is_any_open() == is_open {
                break;
            }
        }
    }
}

/// The changes of the range that the clock will trigger. Only the poller uses it.
pub struct Schedule {
    /// CLOCK_MONOTONIC in ns, and whether the range opens then. The next change is last in the list.
    to_come: Vec<(u64, bool)>,
}

impl Schedule {
    /// Creates the schedule that the options ask for.
    pub fn new(session: Session) -> Schedule {
        let begun = session.get::<Range>().begun.load(Ordering::Relaxed);
        let mut to_come = Vec::new();
        if let Some(CaptureRange::Delay { delay, duration }) = session.get::<Gate>().range() {
            to_come.extend(duration.map(|duration| (begun + delay + duration, false)));
            to_come.push((begun + delay, true));
        }
        Schedule { to_come }
    }

    /// Makes the changes that are due on one pass of the poller. Returns how long the poller may sleep at
    /// most, ns.
    pub fn step(&mut self, session: Session, ring: &mut Ring) -> u64 {
        while let Some((moment, opens)) = self.to_come.last().copied() {
            let now = sys::clock_ns(libc::CLOCK_MONOTONIC);
            if now < moment {
                return moment - now;
            }
            self.to_come.pop();
            if let Some(change) = session.get::<Range>().change(session.get::<Gate>(), opens, ticks()) {
                ring.push(change.as_words());
            }
        }
        u64::MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::{Mode, Options};

    #[test]
    fn the_range_opens_and_closes_in_turn_at_increasing_times() {
        let gate = Gate::new(Options { range: Some("profiler-api"), ..Options::of(Mode::Exact) });
        let range = Range::begin();
        let at = |opens, now| range.change(&gate, opens, now).map(|change| (change.change, change.at));
        assert_eq!(at(false, 50), None);
        assert_eq!(at(true, 100), Some((1, 99)), "rounded down to an odd number");
        assert!(gate.admit().is_ok());
        assert_eq!(at(true, 110), None);
        assert_eq!(at(false, 80), Some((2, 100)), "another processor's clock may be behind");
        assert!(gate.admit().is_err());
        assert_eq!(at(true, 101), Some((1, 101)));
        assert_eq!(at(false, 200), Some((2, 200)));
    }

    #[test]
    fn nothing_is_timed_while_nobody_reads_it() {
        let whole = Gate::new(Options::of(Mode::Exact));
        let part = Gate::new(Options { range: Some("profiler-api"), ..Options::of(Mode::Exact) });
        let admits = |gate: &Gate| gate.admit().is_ok();
        let ranges = [Range::begin(), Range::begin()];
        for (range, gate) in ranges.iter().zip([&whole, &part]) {
            range.pause(gate, true);
            assert!(!admits(gate));
        }
        let [of_whole, of_part] = &ranges;
        assert!(of_part.change(&part, true, 100).is_some() && !admits(&part), "it is recorded all the same");
        of_part.pause(&part, false);
        of_whole.pause(&whole, false);
        assert!(admits(&part) && admits(&whole));
        of_part.pause(&part, true);
        assert!(of_part.change(&part, false, 200).is_some());
        of_part.pause(&part, false);
        assert!(!admits(&part), "the range is closed by now");
    }

    #[test]
    fn threads_that_change_the_range_at_once_leave_the_gate_in_the_state_of_the_last_change() {
        let gate = Gate::new(Options { range: Some("profiler-api"), ..Options::of(Mode::Exact) });
        let range = Range::begin();
        for _ in 0..200 {
            std::thread::scope(|threads| {
                for opens in [true, false, true, false] {
                    threads.spawn({
                        let (range, gate) = (&range, &gate);
                        move || (0..20).for_each(|_| _ = range.change(gate, opens, ticks()))
                    });
                }
            });
            let is_open = range.changed.load(Ordering::SeqCst) & 1 == 1;
            assert_eq!(gate.admit().is_ok(), is_open);
        }
    }
}
