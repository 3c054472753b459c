//! How long steps take, in bounded memory.

use super::plot::Plot;
use super::slow_stretches::{self, Slow};
use super::{HostTimes, Outlier, StepTimes};
use crate::analyze::idle::by_step::FIRST;
use crate::analyze::quantile::Quantiles;
use std::collections::BTreeMap;

/// The number of longest steps that are kept.
const LONGEST: usize = 64;
/// The most outliers.
const OUTLIERS: usize = 10;
/// How many standard deviations an outlier is above the median at least. Of normally distributed times fewer than one
/// in a million are.
const SIGMAS: f64 = 5.0;
/// How many times the median an outlier takes at least, so that very steady steps have none that nobody would notice.
const LONG: f64 = 1.2;

/// A step that is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Taken {
    pub step: u64,
    /// Host ns.
    pub start: u64,
    pub duration: u64,
    /// Whether it is the mean of several steps, of which only the sum is known.
    pub is_shared: bool,
}

/// The times of the steps by one clock.
#[derive(Clone, Debug, Default)]
pub(super) struct Times {
    pub count: u64,
    /// How often a time was measured: fewer than steps where some are known as a sum.
    pub measured: u64,
    /// The sum of all, ns.
    pub total: u64,
    first: Vec<Taken>,
    rest: Moments,
    longest: Vec<Taken>,
    plot: Plot,
}

/// Quantiles, mean and spread.
#[derive(Clone, Debug, Default)]
struct Moments {
    quantiles: Quantiles,
    least: Option<u64>,
    most: u64,
    mean: f64,
    /// Σ (value − mean)², by Welford's recurrence.
    squares: f64,
}

impl Moments {
    fn add(&mut self, value: u64) {
        self.quantiles.add(value);
        self.least = Some(self.least.map_or(value, |least| least.min(value)));
        self.most = self.most.max(value);
        let before = value as f64 - self.mean;
        self.mean += before / self.quantiles.count() as f64;
        self.squares += before * (value as f64 - self.mean);
    }

    /// The standard deviation by the quantiles between which 68 % of a normal distribution lie: outliers do not change it.
    fn robust_sigma(&self) -> f64 {
        let at = |share| self.quantiles.quantile(share).unwrap_or(0);
        at(0.841_345).saturating_sub(at(0.158_655)) as f64 / 2.0
    }

    fn std(&self) -> f64 {
        (self.squares / self.quantiles.count().max(1) as f64).sqrt()
    }

    fn median(&self) -> Option<u64> {
        self.quantiles.quantile(0.5)
    }
}

/// What the times of steps say.
#[derive(Clone, Debug, Default)]
pub(super) struct Told {
    /// The number of the first step after the warm-up; 0 without a warm-up.
    pub warm_up: u64,
    pub time: Option<StepTimes>,
    pub outliers: Vec<Outlier>,
    pub plot: Vec<u64>,
    /// Where steps in a row took longer than the others, in their order.
    pub slow: Vec<Slow>,
}

impl Times {
    /// Takes the next `steps` steps, which began with number `step` at host ns `start` and took `duration` together: each
    /// is given the mean.
    pub(super) fn add(&mut self, step: u64, steps: u64, start: u64, duration: u64) {
        self.measured += 1;
        self.total = self.total.saturating_add(duration);
        let of = |at: u64| (u128::from(duration) * u128::from(at) / u128::from(steps.max(1))) as u64;
        for at in 0..steps {
            self.add_one(Taken {
                step: step + at,
                start: start.saturating_add(of(at)),
                duration: of(at + 1) - of(at),
                is_shared: steps > 1,
            });
        }
    }

    fn add_one(&mut self, taken: Taken) {
        self.count += 1;
        self.plot.add(&taken);
        if self.first.len() < FIRST {
            self.first.push(taken);
            return;
        }
        self.rest.add(taken.duration);
        if taken.is_shared {
            return;
        }
        if self.longest.len() < LONGEST {
            self.longest.push(taken);
        } else if let Some(least) = self.longest.iter_mut().min_by_key(|of| of.duration)
            && least.duration < taken.duration
        {
            *least = taken;
        }
    }

    /// Returns mean and spread of the steps that are not before number `step`.
    pub(super) fn since(&self, step: u64) -> Option<HostTimes> {
        let mut steady = self.rest.clone();
        let first = self.first.iter().filter(|taken| taken.step >= step);
        first.for_each(|taken| steady.add(taken.duration));
        let count = steady.quantiles.count();
        (count > 0).then(|| HostTimes { mean: steady.mean, std: steady.std(), count })
    }

    /// Returns what they say, of a run that began at host ns `origin`.
    pub(super) fn told(mut self, origin: u64) -> Told {
        let mut all = self.rest.clone();
        self.first.iter().for_each(|taken| all.add(taken.duration));
        let Some(usual) = all.median() else { return Told::default() };
        let threshold = (usual as f64 + SIGMAS * all.robust_sigma()).max(LONG * usual as f64) as u64;
        // The warm-up is never most of the steps: then the others are shorter, and there is another reason.
        let most = (self.count / 2) as usize;
        let is_long = |taken: &&Taken| taken.duration as f64 > LONG * usual as f64;
        let long = self.first.iter().take_while(is_long).count();
        // What takes longer in so many steps is no warm-up: a language model's first text, for each length of which something is
        // compiled.
        let warm_up = if long == FIRST { 0 } else { long.min(most) };
        let steady = self.first.split_off(warm_up);
        steady.iter().for_each(|taken| self.rest.add(taken.duration));
        let mut outliers: Vec<Taken> = steady.into_iter().chain(self.longest).collect();
        outliers.retain(|taken| taken.duration > threshold && !taken.is_shared);
        outliers.sort_by_key(|taken| (std::cmp::Reverse(taken.duration), taken.step));
        let outlier = |taken: &Taken| Outlier {
            step: taken.step,
            start: taken.start.saturating_sub(origin),
            duration: taken.duration,
            idle_by_cause: BTreeMap::new(),
        };
        let steady = self.count - warm_up as u64;
        let drift = self.plot.drift(warm_up as u64) / self.rest.mean.max(1.0);
        // The first step that was measured may not be the first one.
        let first_steady = self.first.last().map_or(0, |last| last.step + 1);
        Told {
            warm_up: first_steady,
            time: (steady > 0).then(|| StepTimes {
                mean: self.rest.mean,
                std: self.rest.std(),
                median: self.rest.median().unwrap_or(0),
                p95: self.rest.quantiles.quantile(0.95).unwrap_or(0),
                p99: self.rest.quantiles.quantile(0.99).unwrap_or(0),
                min: self.rest.least.unwrap_or(0),
                max: self.rest.most,
                drift,
                measured: self.measured.saturating_sub(warm_up as u64).max(1),
            }),
            outliers: outliers.iter().take(OUTLIERS).map(outlier).collect(),
            plot: self.plot.means(),
            slow: slow_stretches::found(&self.plot.parts(), first_steady),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(durations: impl IntoIterator<Item = u64>) -> Told {
        let mut times = Times::default();
        let mut start = 1_000;
        for (step, duration) in (0..).zip(durations) {
            times.add(step, 1, start, duration);
            start += duration;
        }
        times.told(1_000)
    }

    #[test]
    fn warm_up_and_outliers_are_told_apart_from_the_others() {
        let durations = (0..2_000).map(|n: u64| match n {
            0..3 => 9_000 - n * 1_000,
            777 => 5_000,
            _ => 1_000 + n * 37 % 20,
        });
        let found = told(durations);
        let time = found.time.unwrap();
        assert_eq!((found.warm_up, time.max, time.min), (3, 5_000, 1_000));
        assert!(time.median.abs_diff(1_010) <= 2 && time.p99 < 1_022 && time.drift.abs() < 0.01, "{time:?}");
        assert_eq!(
            found.outliers.iter().map(|of| (of.step, of.duration)).collect::<Vec<_>>(),
            [(777, 5_000)]
        );
        assert!((30..=60).contains(&found.plot.len()), "{}", found.plot.len());
    }

    /// On an H100, cuDNN compiled a kernel for each of the first 80 tokens: that was warm-up, and hardly a fault.
    #[test]
    fn what_takes_longer_in_each_of_many_steps_is_no_warm_up() {
        let found = |long| told((0..240).map(|n| if n < long { 40_000 } else { 5_000 })).warm_up;
        assert_eq!((found(63), found(64), found(80)), (63, 0, 0));
    }

    #[test]
    fn steps_that_become_longer_drift() {
        let found = told((0..900).map(|n| 1_000 + n));
        let drift = found.time.unwrap().drift;
        assert!((0.35..0.45).contains(&drift), "{drift}");
        assert_eq!(found.outliers, []);
    }

    #[test]
    fn steady_steps_have_no_outliers_that_nobody_would_notice() {
        assert_eq!(told((0..300).map(|n| if n == 200 { 1_150 } else { 1_000 })).outliers, []);
        assert_eq!(told([]).time, None);
    }
}
