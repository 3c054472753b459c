//! What did all of them take, when only some were timed?
//!
//! **With windows** (`--timing auto`): the operations in a window resemble each other (one phase of the program, one state
//! of the GPU), so windows, not operations, are the sample. The mean time of an operation is the sum of times over the
//! number of operations in all windows behind the first phase: a ratio estimate, whose error is read from how far each
//! window is from it (Cochran, "Sampling Techniques", 3rd ed. 1977, §6.3 and §9A). The first phase is known in full and
//! stands for itself only: it is a program's warming up. The untimed ones take that mean each; the interval holds their
//! true sum in 99 of 100 cases, by Student's t with as many degrees of freedom as windows less one, and is widened by the
//! intervals of the timed ones themselves.
//!
//! **Assumed** is that windows open regardless of what the program does: by the account of what timing costs.
//!
//! **Without** enough windows, the untimed ones are assumed to take no less than the shortest timed one, and no more than
//! the longest (by their best values), or what the intervals of the timed ones allow for on average, if that is more.

use super::estimate::{Estimate, Kind, Sum};
use crate::trace::record::Body;
use gpuspy_wire::record::WindowChange;

/// Windows in which an operation must have been timed to speak of variation between them.
const LEAST_WINDOWS: u64 = 5;
/// The normal distribution's 99.5 % quantile: 1 in 100 is outside, on both sides together.
const Z: f64 = 2.575_829;

/// Which window it is: counted from 1, the first phase; 0 = none has opened.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct WindowCount(u64);

impl WindowCount {
    /// Takes the next record.
    pub fn observe(&mut self, body: &Body) {
        if let Body::Window(window) = body
            && window.change == WindowChange::Opens
        {
            self.0 += 1;
        }
    }
}

/// Timed operations of one kind, window by window.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sample {
    /// The shortest and the longest, by the best values, ns.
    shortest: Option<u64>,
    longest: u64,
    /// The window that is being added to: its number, operations, time.
    open: (WindowCount, f64, f64),
    /// Windows behind the first phase that are complete and had any, their operations, and their time.
    windows: u64,
    sampled: u64,
    time: Sum,
    /// Over windows, of operations n and time y: Σn², Σny, Σy².
    nn: f64,
    ny: f64,
    yy: f64,
}

impl Sample {
    /// Takes an operation's time.
    pub fn add(&mut self, window: WindowCount, time: Sum) {
        self.shortest = Some(self.shortest.map_or(time.value, |shortest| shortest.min(time.value)));
        self.longest = self.longest.max(time.value);
        if window.0 < 2 {
            return;
        }
        if self.open.0 != window {
            self.close();
            self.open.0 = window;
        }
        self.open.1 += 1.0;
        self.open.2 += time.value as f64;
        self.sampled += 1;
        self.time.add(time);
    }

    /// The open window is complete.
    fn close(&mut self) {
        let (_, n, y) = std::mem::take(&mut self.open);
        if n > 0.0 {
            self.windows += 1;
            self.nn += n * n;
            self.ny += n * y;
            self.yy += y * y;
        }
    }

    /// Takes over another's.
    pub fn merge(&mut self, other: &Sample) {
        let mut other = *other;
        self.close();
        other.close();
        self.shortest = self.shortest.into_iter().chain(other.shortest).min();
        self.longest = self.longest.max(other.longest);
        self.windows += other.windows;
        self.sampled += other.sampled;
        self.time.add(other.time);
        self.nn += other.nn;
        self.ny += other.ny;
        self.yy += other.yy;
    }

    /// The time of `count` operations, ns, of which `timed` took `known`.
    pub fn total(&self, count: u64, timed: u64, known: Estimate<u64>) -> Estimate<u64> {
        let untimed = count.saturating_sub(timed);
        if untimed == 0 || timed == 0 {
            return known;
        }
        let (lo, value, hi) = self.mean(untimed).unwrap_or_else(|| {
            let mean = |sum: u64| sum as f64 / timed as f64;
            let shortest = self.shortest.unwrap_or(0) as f64;
            (shortest.min(mean(known.lo)), mean(known.value), mean(known.hi).max(self.longest as f64))
        });
        // Rounded outwards; a float that is too large becomes the largest number.
        let sum = |known: u64, rest: f64| known.saturating_add((untimed as f64 * rest) as u64);
        Estimate {
            value: sum(known.value, value),
            lo: sum(known.lo, lo.max(0.0)),
            hi: sum(known.hi, hi).saturating_add(1),
            kind: Kind::Extrapolated,
        }
    }

    /// The mean time of the untimed ones, ns, between its bounds; `None` with too few windows.
    fn mean(&self, untimed: u64) -> Option<(f64, f64, f64)> {
        let mut all = *self;
        all.close();
        if all.windows < LEAST_WINDOWS {
            return None;
        }
        let (k, n) = (all.windows as f64, all.sampled as f64);
        let (lo, mean, hi) = (all.time.lo as f64 / n, all.time.value as f64 / n, all.time.hi as f64 / n);
        let squares = (all.yy - 2.0 * mean * all.ny + mean * mean * all.nn).max(0.0);
        // Of the mean of those that were not drawn, of a population that is finite.
        let error = (k / (k - 1.0) * squares).sqrt() / n * ((n + untimed as f64) / untimed as f64).sqrt();
        let margin = student(k - 1.0) * error;
        Some((lo - margin, mean, hi + margin))
    }
}

/// Student's t, its 99.5 % quantile, for 4 degrees of freedom or more: the expansion of Cornish and Fisher in 1/ν
/// (Abramowitz and Stegun 26.7.5), 1 % low at 4 and better beyond.
fn student(freedom: f64) -> f64 {
    let (z, v) = (Z, freedom);
    let powers = |c: [f64; 5]| c.iter().enumerate().map(|(i, c)| c * z.powi(2 * i as i32 + 1)).sum::<f64>();
    z + powers([1.0, 1.0, 0.0, 0.0, 0.0]) / (4.0 * v)
        + powers([3.0, 16.0, 5.0, 0.0, 0.0]) / (96.0 * v.powi(2))
        + powers([-15.0, 17.0, 19.0, 3.0, 0.0]) / (384.0 * v.powi(3))
        + powers([-945.0, -1920.0, 1482.0, 776.0, 79.0]) / (92160.0 * v.powi(4))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::generator::Random;

    fn exactly(ns: u64) -> Sum {
        Sum { value: ns, lo: ns, hi: ns }
    }

    #[test]
    fn student_is_that_of_the_tables() {
        for (freedom, table) in [(4.0, 4.604), (9.0, 3.250), (29.0, 2.756), (1e9, 2.576)] {
            let t = student(freedom);
            assert!((t / table - 1.0_f64).abs() < 0.01, "{freedom}: {t}, {table}");
        }
    }

    /// Phases of a program, each with a mean time of its own; in one of five, by chance, a window of 50 operations.
    fn drawn(seed: u64) -> (Estimate<u64>, u64) {
        let mut random = Random(seed);
        let (mut sample, mut window) = (Sample::default(), WindowCount(1));
        let (mut truth, mut known, mut timed, mut count) = (0, 0, 0, 0);
        for _ in 0..200 {
            let mean = 2_000 + random.below(20_000);
            let is_drawn = random.below(5) == 0;
            let from = random.below(950);
            window.0 += u64::from(is_drawn);
            for n in 0..1_000u64 {
                let ns = mean + random.below(1_000);
                truth += ns;
                count += 1;
                if is_drawn && (from..from + 50).contains(&n) {
                    sample.add(window, exactly(ns));
                    (known, timed) = (known + ns, timed + 1);
                }
            }
        }
        (sample.total(count, timed, Estimate::new(known, known, known)), truth)
    }

    #[test]
    fn the_interval_holds_the_truth_in_99_of_100_cases() {
        let all: Vec<_> = (0..400).map(drawn).collect();
        let held = all.iter().filter(|(total, truth)| total.lo <= *truth && *truth <= total.hi).count();
        assert!(held >= 388, "{held} of 400");
        // And no more than is needed: half of it would not do.
        let half = |t: &Estimate<u64>, truth: u64| t.value.abs_diff(truth) <= (t.hi - t.lo) / 4;
        let held = all.iter().filter(|(total, truth)| half(total, *truth)).count();
        assert!(held < 370, "{held} of 400 are within half of the interval");
        assert!(all.iter().all(|(total, _)| total.kind == Kind::Extrapolated));
    }

    #[test]
    fn with_few_windows_the_shortest_and_the_longest_bound_the_rest() {
        let mut sample = Sample::default();
        for ns in [10, 20, 60] {
            sample.add(WindowCount(2), exactly(ns));
        }
        let total = sample.total(13, 3, Estimate::new(90, 90, 90));
        assert_eq!((total.lo, total.value, total.hi), (90 + 100, 90 + 300, 90 + 600 + 1));
    }

    #[test]
    fn what_is_timed_in_full_is_not_extrapolated() {
        let mut sample = Sample::default();
        sample.add(WindowCount(1), exactly(10));
        assert_eq!(sample.total(1, 1, Estimate::new(10, 9, 12)), Estimate::new(10, 9, 12));
    }

    #[test]
    fn the_first_phase_stands_for_itself_only() {
        let mut sample = Sample::default();
        for _ in 0..1_000 {
            sample.add(WindowCount(1), exactly(1_000_000));
        }
        for window in 2..=11 {
            sample.add(WindowCount(window), exactly(10));
        }
        let known = 1_000 * 1_000_000 + 100;
        let total = sample.total(1_000 + 110, 1_000 + 10, Estimate::new(known, known, known));
        assert_eq!(total.value, known + 100 * 10);
    }

    #[test]
    fn parts_add_up_to_the_whole() {
        let times = [(2, 10), (2, 30), (3, 20), (4, 20), (5, 90), (6, 10), (7, 15), (8, 20)];
        let add = |sample: &mut Sample, part: &[(u64, u64)]| {
            part.iter().for_each(|&(window, ns)| sample.add(WindowCount(window), exactly(ns)));
        };
        let (mut whole, mut one, mut other) = (Sample::default(), Sample::default(), Sample::default());
        add(&mut whole, &times);
        add(&mut one, &times[..4]);
        add(&mut other, &times[4..]);
        one.merge(&other);
        let known = Estimate::new(215, 215, 215);
        assert_eq!(one.total(100, 8, known), whole.total(100, 8, known));
    }
}
