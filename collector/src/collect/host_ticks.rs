//! When, in ns on `CLOCK_MONOTONIC_RAW`, was a host tick?
//!
//! The kernel derives `CLOCK_MONOTONIC_RAW` from the counter by one constant that nothing adjusts. So the truth is a
//! straight line, and a longer baseline always gives a better slope. [`Clock`] starts with the slope over a few
//! milliseconds and takes a better one whenever the error bound has halved. It never jumps: it slews back to the
//! line, and a tick that was converted before a refinement converts to the same time after it. The tests in this
//! module check both, and an error below 5 ppm over three hours.

use super::sys;
use std::time::Duration;

/// One moment on both clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    /// Host ticks.
    pub ticks: u64,
    /// `CLOCK_MONOTONIC_RAW`, ns.
    pub ns: u64,
    /// The two clocks were read within this many ticks of each other.
    pub uncertainty: u64,
}

impl Pair {
    /// Reads both clocks several times and keeps the reading with the shortest interruption.
    pub fn now() -> Pair {
        let read = |_| {
            let before = sys::counter();
            let ns = sys::monotonic_raw();
            let uncertainty = sys::counter().saturating_sub(before);
            Pair { ticks: before + uncertainty / 2, ns, uncertainty }
        };
        (0..16).map(read).min_by_key(|pair| pair.uncertainty).expect("sixteen readings")
    }

    /// The slope of the line from here to a later pair; `None` if that is not later on both clocks.
    pub fn slope_to(&self, later: &Pair) -> Option<Slope> {
        let ticks = later.ticks.checked_sub(self.ticks).filter(|&t| t > 0)? as f64;
        let ns = later.ns.checked_sub(self.ns).filter(|&n| n > 0)? as f64;
        // Each reading is somewhere in its bracket: at most half the bracket from the middle.
        let error = (self.uncertainty as f64 + later.uncertainty as f64) / 2.0 / ticks;
        Some(Slope { ns_per_tick: ns / ticks, error })
    }
}

/// The length of a tick.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Slope {
    /// ns per tick.
    pub ns_per_tick: f64,
    /// Bound on the relative error.
    pub error: f64,
}

impl Slope {
    /// The slope of ticks that are already nanoseconds.
    pub const NANOSECONDS: Slope = Slope { ns_per_tick: 1.0, error: 0.0 };

    /// Measures the counter since `first` until the slope is known to 4 ppm; takes at most 50 ms.
    pub fn measure(first: &Pair) -> Slope {
        /// Good enough to start with; the baseline grows from here.
        const ENOUGH: f64 = 4e-6;
        let mut slope = None;
        for _ in 0..25 {
            std::thread::sleep(Duration::from_millis(2));
            slope = first.slope_to(&Pair::now());
            if slope.is_some_and(|s| s.error <= ENOUGH) {
                break;
            }
        }
        // If the counter does not advance, it does not measure time, whatever the slope.
        slope.unwrap_or(Slope { ns_per_tick: 1.0, error: 1.0 })
    }
}

/// How much faster or slower than the truth the mapping runs while it returns to the line.
const SLEW: f64 = 2e-6;

/// A piece of the mapping: from `ticks` on, `ns` plus `ns_per_tick` for each further tick.
#[derive(Clone, Copy, Debug)]
struct Piece {
    ticks: u64,
    ns: u64,
    ns_per_tick: f64,
}

impl Piece {
    fn ns(&self, ticks: u64) -> u64 {
        match ticks.checked_sub(self.ticks) {
            Some(after) => self.ns.saturating_add((after as f64 * self.ns_per_tick) as u64),
            None => self.ns.saturating_sub(((self.ticks - ticks) as f64 * self.ns_per_tick).ceil() as u64),
        }
    }
}

/// The mapping of one process's ticks: continuous, monotonic, and always the same for the same tick.
#[derive(Clone, Debug)]
pub struct Clock {
    /// Ordered by their ticks, never empty. There are few, because each refinement halves the error.
    pieces: Vec<Piece>,
    origin: Pair,
    error: f64,
}

impl Clock {
    /// A line through `origin`.
    pub fn new(origin: Pair, slope: Slope) -> Clock {
        let piece = Piece { ticks: origin.ticks, ns: origin.ns, ns_per_tick: slope.ns_per_tick };
        Clock { pieces: vec![piece], origin, error: slope.error }
    }

    /// The time of a tick, ns.
    pub fn ns(&self, ticks: u64) -> u64 {
        let piece = self.pieces.iter().rev().find(|p| p.ticks <= ticks).unwrap_or(&self.pieces[0]);
        piece.ns(ticks)
    }

    /// The length of a number of ticks at the clock's present slope, ns.
    pub fn length(&self, ticks: u64) -> u64 {
        (ticks as f64 * self.pieces[self.pieces.len() - 1].ns_per_tick) as u64
    }

    /// Takes a better slope, if its error is at most half as large. `now` is a tick that no tick converted so far
    /// exceeds: only later ticks are mapped with the new slope.
    pub fn refine(&mut self, slope: Slope, now: u64) {
        if slope.error * 2.0 > self.error || now <= self.origin.ticks {
            return;
        }
        self.error = slope.error;
        let here = self.ns(now);
        let truth = Piece { ticks: self.origin.ticks, ns: self.origin.ns, ns_per_tick: slope.ns_per_tick };
        let ahead = here as f64 - truth.ns(now) as f64;
        // An unfinished slew ends here; `here` contains its effect so far.
        let origin = self.origin.ticks;
        self.pieces.retain(|p| p.ticks < now || p.ticks == origin);
        let slewing =
            Piece { ticks: now, ns: here, ns_per_tick: slope.ns_per_tick * (1.0 - SLEW.copysign(ahead)) };
        let until = now.saturating_add((ahead.abs() / (slope.ns_per_tick * SLEW)) as u64);
        if until > now {
            self.pieces.push(slewing);
        }
        self.pieces.push(Piece { ticks: until, ns: slewing.ns(until), ns_per_tick: slope.ns_per_tick });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A counter of about 2.1 GHz, and its true rate.
    const NS_PER_TICK: f64 = 1.0 / 2.099_998;
    const ORIGIN: u64 = 987_654_321_000;

    fn truth(ticks: u64) -> f64 {
        5e12 + (ticks - ORIGIN) as f64 * NS_PER_TICK
    }

    /// A reading in which the clock was read `off` ticks from the middle of a bracket of `2 * |off|` or 100 ticks.
    fn reading(ticks: u64, off: i64) -> Pair {
        let at = ticks.saturating_add_signed(off);
        Pair { ticks, ns: truth(at.max(ORIGIN)) as u64, uncertainty: (2 * off.unsigned_abs()).max(100) }
    }

    #[test]
    fn durations_over_three_hours_are_true_to_five_ppm() {
        let second = (1e9 / NS_PER_TICK) as u64;
        let first = reading(ORIGIN, 60);
        // A baseline of 20 ms and brackets of 120 ticks can be wrong by 3 ppm; this one is.
        let slope = first.slope_to(&reading(ORIGIN + second / 50, -60)).unwrap();
        assert!(
            (slope.ns_per_tick / NS_PER_TICK - 1.0).abs() > 1e-6,
            "the test needs a clock that starts wrong"
        );
        let mut clock = Clock::new(first, slope);
        let mut last = clock.ns(ORIGIN);
        let mut worst: f64 = 0.0;
        for step in 1..3 * 3600 {
            let now = ORIGIN + step * second;
            let ns = clock.ns(now);
            worst = worst.max(((ns - last) as f64 / 1e9 - 1.0).abs());
            last = ns;
            let off = if step % 7 < 3 { 55 } else { -35 };
            clock.refine(first.slope_to(&reading(now, off)).unwrap(), now);
            assert_eq!(clock.ns(now), ns, "continuous at a refinement");
        }
        assert!(worst < 5e-6, "a second was wrong by {worst:e}");
        let end = ORIGIN + 3 * 3600 * second;
        assert!((clock.ns(end) as f64 - truth(end)).abs() < 200.0, "three hours must end on the line");
        assert!(
            clock.pieces.len() < 64,
            "refinements halve the error, so there are few: {}",
            clock.pieces.len()
        );
    }

    #[test]
    fn a_tick_is_the_same_before_and_after_a_refinement() {
        let first = reading(ORIGIN, 0);
        let mut clock = Clock::new(first, Slope { ns_per_tick: NS_PER_TICK * 1.000_02, error: 3e-5 });
        let now = ORIGIN + 1_000_000_000;
        let before: Vec<u64> = (0..1000).map(|n| clock.ns(ORIGIN + n * 1_000_000)).collect();
        clock.refine(Slope { ns_per_tick: NS_PER_TICK, error: 1e-8 }, now);
        let after: Vec<u64> = (0..1000).map(|n| clock.ns(ORIGIN + n * 1_000_000)).collect();
        assert_eq!(before, after);
    }

    #[test]
    fn ticks_before_the_origin_and_nonsense_saturate() {
        let clock = Clock::new(reading(ORIGIN, 0), Slope { ns_per_tick: NS_PER_TICK, error: 0.0 });
        assert!(clock.ns(ORIGIN - 21) < clock.ns(ORIGIN));
        assert_eq!(Clock::new(Pair { ticks: 9, ns: 9, uncertainty: 0 }, Slope::NANOSECONDS).ns(0), 0);
        let fast =
            Clock::new(Pair { ticks: 0, ns: 5, uncertainty: 0 }, Slope { ns_per_tick: 10.0, error: 0.0 });
        assert_eq!(fast.ns(u64::MAX), u64::MAX);
    }

    #[test]
    fn nanoseconds_stay_nanoseconds() {
        let clock = Clock::new(Pair { ticks: 70, ns: 70, uncertainty: 0 }, Slope::NANOSECONDS);
        for ns in [0, 1, 70, 71, 1 << 50, (1 << 53) + 70] {
            assert_eq!(clock.ns(ns), ns);
        }
    }

    #[test]
    fn the_real_counter_is_measured() {
        let first = Pair::now();
        let slope = Slope::measure(&first);
        let clock = Clock::new(first, slope);
        std::thread::sleep(Duration::from_millis(20));
        let later = Pair::now();
        let bound = later.uncertainty as f64 * slope.ns_per_tick + 20e6 * (slope.error + 1e-5) + 100.0;
        assert!((clock.ns(later.ticks) as f64 - later.ns as f64).abs() <= bound, "{clock:?} {later:?}");
    }

    proptest! {
        #[test]
        fn the_mapping_never_goes_back(
            steps in prop::collection::vec((1u64..1_000_000_000, -3e-5..3e-5f64, 1e-9..1e-4f64), 1..40),
        ) {
            let mut clock = Clock::new(reading(ORIGIN, 0), Slope { ns_per_tick: NS_PER_TICK, error: 1e-3 });
            let (mut now, mut last) = (ORIGIN, clock.ns(ORIGIN));
            for (gap, wrong, error) in steps {
                for n in 1..=4 {
                    let ns = clock.ns(now + gap * n / 4);
                    prop_assert!(ns >= last);
                    last = ns;
                }
                now += gap;
                clock.refine(Slope { ns_per_tick: NS_PER_TICK * (1.0 + wrong), error }, now);
            }
        }
    }
}
