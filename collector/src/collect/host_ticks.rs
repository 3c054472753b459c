//! When, in ns on `CLOCK_MONOTONIC_RAW`, was a host tick?
//!
//! The kernel derives `CLOCK_MONOTONIC_RAW` from the counter by one constant that nothing adjusts. So the truth is a
//! straight line, and a longer baseline always gives a better slope. [`Clock`] starts with the slope over a few
//! milliseconds and takes a better one whenever the error bound has halved. It never jumps: it slews back to the
//! line, and a tick that was converted before a refinement converts to the same time after it. The tests in this
//! module check both, and an error below 5 ppm over three hours.
//!
//! While the computer sleeps (a suspend), `CLOCK_MONOTONIC_RAW` stands still, and the counter may go on, or begin again at
//! 0. The line after it is another one of the same slope: [`Clock::restart`].

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

    /// Reads both clocks once. This thread may be interrupted in between, for any time.
    pub fn rough() -> Pair {
        Pair { ticks: sys::counter(), ns: sys::monotonic_raw(), uncertainty: 0 }
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
        let here = Pair::now();
        let mut slope = None;
        for _ in 0..25 {
            std::thread::sleep(Duration::from_millis(2));
            slope = Slope::from_first_or(first, &here, &Pair::now());
            if slope.is_some_and(|s| s.error <= ENOUGH) {
                break;
            }
        }
        // If the counter does not advance, it does not measure time, whatever the slope.
        slope.unwrap_or(Slope { ns_per_tick: 1.0, error: 1.0 })
    }

    /// The slope of the line to `later` from the first reading, or from the one `here` if the computer has slept between
    /// these two.
    fn from_first_or(first: &Pair, here: &Pair, later: &Pair) -> Option<Slope> {
        match (first.slope_to(later), here.slope_to(later)) {
            (Some(long), Some(short)) if !long.contradicts(short) => Some(long),
            (long, short) => short.or(long),
        }
    }

    /// Whether one of the two must be wrong: they differ by much more than their error bounds allow.
    fn contradicts(self, other: Slope) -> bool {
        let allowed = GENEROUS * (self.error + other.error) + SAME;
        (self.ns_per_tick - other.ns_per_tick).abs() > allowed * self.ns_per_tick.max(other.ns_per_tick)
    }
}

/// Measurements that differ by more than their error bounds times this contradict each other.
const GENEROUS: f64 = 10.0;
/// Slopes that differ by less than this share agree, whatever their error bounds: in some virtual machines, the kernel's
/// clock is not exactly a straight line of the counter.
const SAME: f64 = 1e-6;
/// Where the two clocks part by less than this between two readings, the computer has not slept: ns.
const AWAKE: f64 = 1e6;
/// Limit on the pieces of a mapping; of more, the oldest are forgotten.
const MOST_PIECES: usize = 1 << 10;

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

/// The mapping of one process's ticks: continuous and monotonic while the computer is awake, and always the same for the
/// same tick.
#[derive(Clone, Debug)]
pub struct Clock {
    /// Ordered by their ticks, never empty. There are few, because each refinement halves the error.
    pieces: Vec<Piece>,
    /// The present line goes through this reading.
    origin: Pair,
    slope: Slope,
}

impl Clock {
    /// A line through `origin`.
    pub fn new(origin: Pair, slope: Slope) -> Clock {
        let piece = Piece { ticks: origin.ticks, ns: origin.ns, ns_per_tick: slope.ns_per_tick };
        Clock { pieces: vec![piece], origin, slope }
    }

    /// The time of a tick, ns.
    pub fn ns(&self, ticks: u64) -> u64 {
        let piece = self.pieces.iter().rev().find(|p| p.ticks <= ticks).unwrap_or(&self.pieces[0]);
        piece.ns(ticks)
    }

    /// The length of a number of ticks at the clock's present slope, ns.
    pub fn length(&self, ticks: u64) -> u64 {
        (ticks as f64 * self.slope.ns_per_tick) as u64
    }

    /// Takes a better slope, if its error is less than half as large and it does not contradict the known one. `now` is a
    /// tick that no tick converted so far exceeds: only later ticks are mapped with the new slope.
    pub fn refine(&mut self, slope: Slope, now: u64) {
        // Of two exact slopes, neither is better.
        if slope.error * 2.0 < self.slope.error && !slope.contradicts(self.slope) {
            self.go_on_with(slope, now);
        }
    }

    /// Takes a better slope, or one that contradicts the known one: between the readings that make the new one, the computer
    /// has certainly not slept. `now` is as above.
    pub fn correct(&mut self, slope: Slope, now: u64) {
        if slope.contradicts(self.slope) {
            self.go_on_with(slope, now);
        } else {
            self.refine(slope, now);
        }
    }

    /// Whether the computer has slept between two readings: the counter has counted another time than the kernel's clock.
    pub fn has_slept(&self, before: &Pair, here: &Pair) -> bool {
        let Slope { ns_per_tick, error } = self.slope;
        // Negative if the counter has begun again.
        let counted = here.ticks.wrapping_sub(before.ticks) as i64 as f64 * ns_per_tick;
        let passed = here.ns.saturating_sub(before.ns) as f64;
        let brackets = (before.uncertainty as f64 + here.uncertainty as f64) * ns_per_tick;
        (counted - passed).abs() > GENEROUS * (error * counted.max(passed) + brackets) + AWAKE
    }

    /// Goes on from the reading `here` with the same slope, because the computer has slept since the reading `before`.
    ///
    /// The program has run since it woke, for the time between the readings at most. So that much before `here`, ticks are of
    /// the new line, and all earlier ones of the old line: these are from before the sleep, or from none of the program's.
    pub fn restart(&mut self, before: &Pair, here: &Pair) {
        let ns_per_tick = self.slope.ns_per_tick;
        let since = here.ns.saturating_sub(before.ns) as f64 / ns_per_tick;
        let most = here.ticks.checked_sub(before.ticks).unwrap_or(here.ticks);
        let since = (since as u64).min(most);
        let ns = here.ns.saturating_sub((since as f64 * ns_per_tick) as u64);
        let woken = Piece { ticks: here.ticks - since, ns, ns_per_tick };
        // If the counter has begun again, no piece from before the sleep is left.
        self.pieces.retain(|piece| piece.ticks < woken.ticks);
        self.pieces.push(woken);
        self.origin = *here;
        self.forget_the_oldest();
    }

    fn forget_the_oldest(&mut self) {
        let many = self.pieces.len().saturating_sub(MOST_PIECES);
        self.pieces.drain(..many);
    }

    /// Returns to the line of this slope through the origin.
    fn go_on_with(&mut self, slope: Slope, now: u64) {
        if now <= self.origin.ticks {
            return;
        }
        self.slope = slope;
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
        self.forget_the_oldest();
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

    /// The counter goes on while the computer sleeps, and the kernel's clock does not. The slope over such a time is far too
    /// small, and was taken because its error bound is.
    #[test]
    fn a_slope_over_a_sleep_of_the_computer_is_refused() {
        let second = (1e9 / NS_PER_TICK) as u64;
        let first = reading(ORIGIN, 0);
        let mut clock = Clock::new(first, first.slope_to(&reading(ORIGIN + second / 50, 0)).unwrap());
        let (now, asleep) = (ORIGIN + 600 * second, 3600 * second);
        clock.refine(first.slope_to(&reading(now, 0)).unwrap(), now);
        let woken = Pair { ticks: now + asleep, ..reading(now, 0) };
        clock.refine(first.slope_to(&woken).unwrap(), woken.ticks);
        let hour = clock.length(asleep);
        assert!(hour.abs_diff(3_600_000_000_000) < 10_000_000, "an hour has {hour} ns");
    }

    #[test]
    fn a_slope_is_measured_from_after_a_sleep() {
        let second = (1e9 / NS_PER_TICK) as u64;
        let first = reading(ORIGIN, 0);
        let slope = |asleep: u64, awake: u64| {
            let at = |ticks: u64| Pair { ticks: ticks + asleep, ..reading(ticks, 0) };
            let here = at(ORIGIN + awake);
            Slope::from_first_or(&first, &here, &at(ORIGIN + awake + second / 500)).unwrap()
        };
        let is_right = |slope: Slope| (slope.ns_per_tick / NS_PER_TICK - 1.0).abs() < 10.0 * slope.error;
        let (long, short) = (slope(0, 600 * second), slope(3600 * second, 600 * second));
        assert!(is_right(long) && long.error < 1e-9, "{long:?}");
        assert!(is_right(short) && short.error > 1e-6, "{short:?}");
        let counter = Pair { ticks: ORIGIN + 60 * second, ..first };
        let again = Slope::from_first_or(&counter, &first, &reading(ORIGIN + second, 0)).unwrap();
        assert!(is_right(again), "the counter has begun again after the first reading: {again:?}");
    }

    /// Each anchor whose uncertainty is 0 added a piece.
    #[test]
    fn readings_that_claim_to_be_exact_are_taken_once() {
        let exact = |ticks| Pair { uncertainty: 0, ..reading(ticks, 0) };
        let first = exact(ORIGIN);
        let mut clock = Clock::new(first, Slope { ns_per_tick: NS_PER_TICK, error: 4e-6 });
        for second in 1..1000 {
            let now = ORIGIN + second * 2_000_000_000;
            clock.refine(first.slope_to(&exact(now)).unwrap(), now);
        }
        assert!(clock.pieces.len() <= 3, "{} pieces", clock.pieces.len());
    }

    #[test]
    fn of_many_sleeps_the_oldest_are_forgotten() {
        let mut before = reading(ORIGIN, 0);
        let mut clock = Clock::new(before, Slope { ns_per_tick: NS_PER_TICK, error: 4e-6 });
        for _ in 0..3 * MOST_PIECES {
            let here = Pair { ticks: before.ticks + 1_000_000_000, ns: before.ns + 1_000, ..before };
            assert!(clock.has_slept(&before, &here), "0.5 s of the counter, and 1 µs of the clock");
            clock.restart(&before, &here);
            before = here;
        }
        assert_eq!(clock.pieces.len(), MOST_PIECES);
        assert!(clock.ns(before.ticks).abs_diff(before.ns) <= 1);
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
