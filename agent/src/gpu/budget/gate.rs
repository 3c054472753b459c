//! What hooks ask: is this launch to be timed?

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use gpuspy_wire::capture::CaptureRange;
use gpuspy_wire::record::Untimed;

use crate::options::{Mode, Options};
use crate::sys::ticks;

/// The first phase ends after so many launches, if not by its time.
pub const FIRST_LAUNCHES: u64 = 10_000;

/// States of [`Gate::left`] that are no number of launches.
const OFF: u64 = u64::MAX;
const ALWAYS: u64 = u64::MAX - 1;
/// Timing is paused.
const PAUSED: u64 = 0;
/// Added to a number of launches, [`PAUSED`] included: it is not looked at now ([`super::range`]), and that is how many there
/// will be. So an account goes on as it is, and a window waits for the range to begin.
const OUTSIDE: u64 = 1 << 63;
/// The same of [`ALWAYS`].
const NOT_NOW: u64 = u64::MAX - 2;

/// What hooks ask whether to time. Valid when zero.
pub struct Gate {
    /// [`OFF`], [`ALWAYS`], [`PAUSED`], or how many more launches this window may time; or one of those [`outside`]. Relaxed:
    /// a number; a hook that sees a change late times or counts one launch more.
    left: AtomicU64,
    /// Ticks of the first launch, and ticks when a window's last launch was taken; 0 = not yet. Release by the hook that
    /// takes it, acquire by the poller.
    pub(super) first_taken: AtomicU64,
    pub(super) last_taken: AtomicU64,
    /// The number of the window, which goes with each operation that is timed. Relaxed: a number; one that is timed at the
    /// window's edge may have the next one's.
    window: AtomicU32,
    pub(super) options: Options,
}

impl Gate {
    /// As the options say.
    pub fn new(options: Options) -> Gate {
        let left = match options.mode {
            Mode::Off => OFF,
            Mode::Exact => ALWAYS,
            Mode::Auto => FIRST_LAUNCHES,
        };
        let left = if options.range.is_some() { outside(left) } else { left };
        Gate {
            left: AtomicU64::new(left),
            first_taken: AtomicU64::new(0),
            last_taken: AtomicU64::new(0),
            window: AtomicU32::new(0),
            options,
        }
    }

    /// Whether a launch is to be timed, or why not.
    #[inline]
    pub fn admit(&self) -> Result<(), Untimed> {
        match self.left.load(Ordering::Relaxed) {
            PAUSED => Err(Untimed::Budget),
            OFF => Err(Untimed::Off),
            ALWAYS => Ok(()),
            left if is_outside(left) => Err(Untimed::OutsideRange),
            _ => self.take(),
        }
    }

    /// Takes one of the window's launches.
    fn take(&self) -> Result<(), Untimed> {
        // Before: whatever finds the window closed has come later.
        let now = ticks();
        match self.change(|left| left - 1) {
            Some(left) => {
                if left == FIRST_LAUNCHES && self.first_taken.load(Ordering::Relaxed) == 0 {
                    self.first_taken.store(now, Ordering::Release);
                }
                if left == 1 {
                    self.last_taken.store(now, Ordering::Release);
                }
                Ok(())
            }
            None => Err(match self.left.load(Ordering::Relaxed) {
                OFF => Untimed::Off,
                left if is_outside(left) => Untimed::OutsideRange,
                _ => Untimed::Budget,
            }),
        }
    }

    /// Changes the number of launches, if it is one and not 0. Returns what it was.
    fn change(&self, to: impl Fn(u64) -> u64) -> Option<u64> {
        let is_number = |left| left != PAUSED && left < OUTSIDE;
        self.left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| is_number(left).then(|| to(left)))
            .ok()
    }

    /// The same, whether it is looked at now or not.
    pub(super) fn change_anywhere(&self, to: impl Fn(u64) -> u64) -> Option<u64> {
        let changed = |left: u64| {
            let (number, bit) = if is_outside(left) { (inside(left), OUTSIDE) } else { (left, 0) };
            (number != PAUSED && number < OUTSIDE).then(|| to(number) | bit)
        };
        self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, changed).ok().map(inside)
    }

    /// It is looked at from here on, or no more.
    pub fn look(&self, now: bool) {
        let changed = |left| {
            (is_outside(left) == now && left != OFF).then(|| if now { inside(left) } else { outside(left) })
        };
        // SeqCst, with `super::range`: who changes it sees a change of the range that came meanwhile. That there was nothing
        // to change is no failure.
        let _ = self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, changed);
    }

    /// The part of the run that is looked at; `None` = all of it.
    pub fn range(&self) -> Option<CaptureRange<'static>> {
        self.options.range()
    }

    /// The window that is open, or was last.
    #[inline]
    pub fn window(&self) -> u32 {
        self.window.load(Ordering::Relaxed)
    }

    /// Poller: how many more launches it may time.
    pub(super) fn left(&self) -> u64 {
        let left = inside(self.left.load(Ordering::Relaxed));
        if left < OUTSIDE { left } else { PAUSED }
    }

    /// Whether anything is ever timed.
    pub fn is_on(&self) -> bool {
        self.left.load(Ordering::Relaxed) != OFF
    }

    /// From here on nothing is timed any more.
    pub fn stop(&self) {
        self.left.store(OFF, Ordering::Relaxed);
    }

    /// Poller: opens a window of so many launches. False when timing has stopped.
    pub(super) fn open(&self, launches: u64) -> bool {
        self.window.fetch_add(1, Ordering::Relaxed);
        let opened = |left| match left {
            PAUSED => Some(launches.max(1)),
            OUTSIDE => Some(outside(launches.max(1))),
            _ => None,
        };
        self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, opened).is_ok()
    }

    /// Poller: closes it. Returns the launches that nobody took, or `None` when the hooks took the last just now.
    pub(super) fn close(&self) -> Option<u64> {
        self.change_anywhere(|_| PAUSED)
    }
}

/// A state of [`Gate::left`] while it is not looked at.
fn outside(left: u64) -> u64 {
    match left {
        OFF => OFF,
        ALWAYS | NOT_NOW => NOT_NOW,
        number => number | OUTSIDE,
    }
}

/// The same while it is.
fn inside(left: u64) -> u64 {
    match left {
        NOT_NOW | ALWAYS => ALWAYS,
        OFF => OFF,
        number => number & !OUTSIDE,
    }
}

fn is_outside(left: u64) -> bool {
    left >= OUTSIDE && left != ALWAYS && left != OFF
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_timing_is_not_is_said_with_its_reason() {
        let gate = |mode| Gate::new(Options::of(mode));
        assert_eq!(gate(Mode::Off).admit(), Err(Untimed::Off));
        assert_eq!(gate(Mode::Exact).admit(), Ok(()));
        let auto = gate(Mode::Auto);
        for _ in 0..FIRST_LAUNCHES {
            assert_eq!(auto.admit(), Ok(()));
        }
        assert_eq!(auto.admit(), Err(Untimed::Budget));
        assert!(auto.open(1) && !auto.open(1));
        auto.stop();
        assert_eq!(auto.admit(), Err(Untimed::Off));
        assert!(!auto.open(5) && auto.close().is_none(), "what has stopped stays so");
    }

    #[test]
    fn outside_the_range_nothing_is_timed_and_a_window_waits_for_it() {
        let gate = |mode| Gate::new(Options { range: Some("profiler-api"), ..Options::of(mode) });
        let (exact, auto, off) = (gate(Mode::Exact), gate(Mode::Auto), gate(Mode::Off));
        for turn in 0..3 {
            assert_eq!(exact.admit(), Err(Untimed::OutsideRange));
            assert_eq!(auto.admit(), Err(Untimed::OutsideRange));
            [&exact, &auto, &off].into_iter().for_each(|gate| gate.look(true));
            assert_eq!(exact.admit(), Ok(()));
            for _ in 0..if turn == 0 { FIRST_LAUNCHES } else { 7 } {
                assert_eq!(auto.admit(), Ok(()), "turn {turn}");
            }
            assert_eq!(auto.admit(), Err(Untimed::Budget));
            [&exact, &auto, &off].into_iter().for_each(|gate| gate.look(false));
            assert!(auto.open(7) && !auto.open(7), "the account goes on");
            assert_eq!(auto.change_anywhere(|left| left.max(5)), Some(7));
        }
        assert_eq!(auto.close(), Some(7));
        assert_eq!(off.admit(), Err(Untimed::Off));
        exact.stop();
        exact.look(true);
        assert_eq!(exact.admit(), Err(Untimed::Off), "what has stopped stays so");
    }
}
