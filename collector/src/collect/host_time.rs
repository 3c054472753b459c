//! When is a moment of a process, by the clock that its records have? The collector reads that clock beside the host's, again and
//! again, so that the longer both run, the better it is known.

use super::host_ticks::{Clock, Pair, Slope};
use super::sys;
use super::{Error, Result};
use gpuspy_wire::segment::{HostClock, Segment};

/// The process's clock, and the readings that refine it.
pub(super) struct HostTime {
    kind: HostClock,
    /// When the process's session began: host ns.
    pub(super) began: u64,
    clock: Clock,
    /// The collector's first reading since the computer slept, with which later ones are compared, and its latest.
    ours: Pair,
    latest: Pair,
    /// The agent's first anchor record since then, likewise.
    theirs: Option<Pair>,
}

impl HostTime {
    pub(super) fn new(segment: Segment<'_>, first: &Pair) -> Result<HostTime> {
        let header = segment.header();
        let origin = Pair { ticks: header.anchor_ticks, ns: header.anchor_monotonic_raw, uncertainty: 0 };
        let kinds = [HostClock::MonotonicRaw, HostClock::Counter];
        let kind = kinds.into_iter().find(|&kind| kind as u32 == header.host_clock);
        let (kind, origin, slope) = match kind {
            Some(HostClock::MonotonicRaw) => {
                let origin = Pair { ns: origin.ticks, ..origin };
                (HostClock::MonotonicRaw, origin, Slope::NANOSECONDS)
            }
            Some(HostClock::Counter) => (HostClock::Counter, origin, Slope::measure(first)),
            None => return Err(Error::new("its segment uses a clock that this version does not know")),
        };
        let clock = Clock::new(origin, slope);
        let mut time = HostTime { kind, began: origin.ns, clock, ours: origin, latest: origin, theirs: None };
        if kind == HostClock::Counter {
            // The computer may have slept since the session began. The reading of then is no baseline: it does not say how exact
            // it is.
            let here = Pair::now();
            time.restart_if_slept(here);
            time.ours = here;
        }
        Ok(time)
    }

    pub(super) fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Host ns now.
    pub(super) fn now(&self) -> u64 {
        match self.kind {
            HostClock::MonotonicRaw => sys::monotonic_raw(),
            HostClock::Counter => self.clock.ns(sys::counter()),
        }
    }

    /// Looks whether the computer has slept since the latest reading.
    pub(super) fn look(&mut self) {
        // Most of the time, two quick reads show that it has not.
        if self.kind == HostClock::Counter && self.clock.has_slept(&self.latest, &Pair::rough()) {
            self.take(Pair::now());
        }
    }

    /// Reads the clocks again, now that the baseline is longer.
    pub(super) fn refine(&mut self) {
        if self.kind == HostClock::Counter {
            self.take(Pair::now());
        }
    }

    /// Takes a reading of the clocks by the collector. All ticks that were converted are from before it.
    fn take(&mut self, pair: Pair) {
        if !self.restart_if_slept(pair)
            && let Some(slope) = self.ours.slope_to(&pair)
        {
            self.clock.correct(slope, pair.ticks);
        }
    }

    /// Begins a new line at a reading by the collector, if the computer has slept since the latest one. Returns whether it has.
    fn restart_if_slept(&mut self, pair: Pair) -> bool {
        let has_slept = self.clock.has_slept(&self.latest, &pair);
        if has_slept {
            self.clock.restart(&self.latest, &pair);
            (self.ours, self.theirs) = (pair, None);
        }
        self.latest = pair;
        has_slept
    }

    /// Takes a reading of the clocks by the agent.
    pub(super) fn anchor(&mut self, anchor: &gpuspy_wire::record::Anchor) {
        let pair = Pair { ticks: anchor.ticks, ns: anchor.monotonic_raw, uncertainty: anchor.uncertainty };
        // An earlier one may be from before a sleep.
        if self.kind != HostClock::Counter || pair.ticks < self.ours.ticks {
            return;
        }
        let theirs = *self.theirs.get_or_insert(pair);
        if let Some(slope) = theirs.slope_to(&pair) {
            // No record has a tick later than the present, so what was converted stays as it is.
            self.clock.refine(slope, sys::counter());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    /// Reads both clocks after the computer has been awake and asleep for so long, ns. The counter has 2 GHz and goes on in a
    /// sleep.
    fn reading(awake: u64, asleep: u64) -> Pair {
        Pair { ticks: 5_000_000 + 2 * (awake + asleep), ns: 7_000 + awake, uncertainty: 100 }
    }

    /// The time of a process on that counter, after the slope was measured.
    fn host_time() -> HostTime {
        let first = reading(0, 0);
        let clock = Clock::new(first, first.slope_to(&reading(SECOND / 50, 0)).unwrap());
        let (kind, began) = (HostClock::Counter, first.ns);
        HostTime { kind, began, clock, ours: first, latest: first, theirs: None }
    }

    /// How far the time of a reading's tick is from the reading, ns.
    fn off(time: &HostTime, pair: Pair) -> u64 {
        time.clock.ns(pair.ticks).abs_diff(pair.ns)
    }

    /// What the uncertainty of a reading makes of its time, ns.
    const EXACT: u64 = 50;

    /// Takes a reading each second from ten minutes on, for ten more. Each has the right time already.
    fn goes_on(mut time: HostTime, read: impl Fn(u64) -> Pair) {
        for second in 601..=1200 {
            let here = read(second * SECOND);
            assert!(off(&time, here) <= EXACT, "{second} s: {} ns off", off(&time, here));
            time.take(here);
        }
        assert_eq!(time.began, 7_000);
    }

    /// After a sleep, the slope from the first reading to the present had a smaller error bound and was taken: all times from
    /// there on were far too early.
    #[test]
    fn times_after_a_sleep_of_the_computer_are_right() {
        let mut time = host_time();
        (1..=600).for_each(|second| time.take(reading(second * SECOND, 0)));
        let (fell_asleep, woke) = (600 * SECOND + SECOND / 100, 600 * SECOND + SECOND / 50);
        let asleep = 3600 * SECOND;
        time.take(reading(woke + SECOND / 50, asleep));
        assert!(off(&time, reading(300 * SECOND, 0)) <= EXACT, "long before");
        assert!(off(&time, reading(fell_asleep, 0)) <= EXACT, "right before, and converted after");
        assert!(off(&time, reading(woke, asleep)) <= EXACT, "right after, and before the reading");
        goes_on(time, |awake| reading(awake, asleep));
    }

    #[test]
    fn times_after_a_sleep_in_which_the_counter_was_reset_are_right() {
        let mut time = host_time();
        (1..=600).for_each(|second| time.take(reading(second * SECOND, 0)));
        let again = |awake: u64| Pair { ticks: 2 * (awake - 600 * SECOND), ..reading(awake, 0) };
        time.take(again(600 * SECOND + SECOND / 20));
        goes_on(time, again);
    }

    /// An anchor that the agent has read before a sleep may be converted after it, and the next one is from after it.
    #[test]
    fn anchors_on_both_sides_of_a_sleep_make_no_slope() {
        let mut time = host_time();
        let anchor = |pair: Pair| gpuspy_wire::record::Anchor {
            ticks: pair.ticks,
            monotonic_raw: pair.ns,
            uncertainty: pair.uncertainty,
            ..gpuspy_wire::record::Anchor::default()
        };
        let asleep = 3600 * SECOND;
        time.take(reading(10 * SECOND, 0));
        time.take(reading(10 * SECOND + SECOND / 10, asleep));
        time.anchor(&anchor(reading(10 * SECOND + SECOND / 20, 0)));
        assert_eq!(time.theirs, None);
        let [one, other] = [11, 12].map(|second| reading(second * SECOND, asleep));
        time.anchor(&anchor(one));
        time.anchor(&anchor(other));
        assert_eq!(time.theirs, Some(one));
        assert!(off(&time, other) <= EXACT);
    }

    /// The collector's first reading was before a sleep of eight seconds. Beside ten hours, that is too little to be seen when
    /// the process begins.
    #[test]
    fn a_slope_that_was_measured_over_a_sleep_is_corrected() {
        let (hours, asleep) = (36_000 * SECOND, 8 * SECOND);
        let here = reading(hours, asleep);
        let slope = reading(0, 0).slope_to(&here).unwrap();
        let mut time = HostTime { clock: Clock::new(here, slope), ours: here, latest: here, ..host_time() };
        let later = reading(hours + SECOND, asleep);
        assert!(off(&time, later) > 100_000, "the test needs a slope that is wrong");
        (1..=600).for_each(|tenth| time.take(reading(hours + tenth * (SECOND / 10), asleep)));
        let end = reading(hours + 61 * SECOND, asleep);
        assert!(off(&time, end) <= EXACT, "{} ns off", off(&time, end));
    }
}
