//! The durations of operations of one kind: total, mean, median, extremes and spread, each with its interval.

use super::estimate::{Estimate, Kind, Sum};
use super::merge::Merge;
use super::quantile::Quantiles;
use crate::model::gpu_interval::Length;

/// Durations of timed operations. Their size is bounded, and two of them can be merged.
#[derive(Clone, Debug, Default)]
pub struct Durations {
    total: Sum,
    least: Option<Sum>,
    most: Sum,
    values: Quantiles,
    los: Quantiles,
    his: Quantiles,
    mean: f64,
    /// Σ (value − mean)², by Welford's recurrence.
    squares: f64,
    /// Σ (the farthest that the truth can be from the value)².
    doubt_squares: f64,
}

impl Durations {
    /// Adds the duration of an operation.
    pub fn add(&mut self, length: Length) {
        let one = Sum { value: length.value, lo: length.lo, hi: length.hi };
        self.total.add(one);
        self.extremes(one, one);
        self.values.add(one.value);
        self.los.add(one.lo);
        self.his.add(one.hi);
        let value = one.value as f64;
        let before = value - self.mean;
        self.mean += before / self.count() as f64;
        self.squares += before * (value - self.mean);
        let doubt = one.value.abs_diff(one.lo).max(one.hi.abs_diff(one.value)) as f64;
        self.doubt_squares += doubt * doubt;
    }

    /// Adds all durations of another.
    pub fn merge(&mut self, other: &Durations) {
        let (mine, theirs) = (self.count() as f64, other.count() as f64);
        let Some(least) = other.least else { return };
        let apart = other.mean - self.mean;
        self.mean += apart * theirs / (mine + theirs);
        self.squares += other.squares + apart * apart * mine * theirs / (mine + theirs);
        self.doubt_squares += other.doubt_squares;
        self.total.add(other.total);
        self.extremes(least, other.most);
        self.values.merge(&other.values);
        self.los.merge(&other.los);
        self.his.merge(&other.his);
    }

    /// The number of durations.
    pub fn count(&self) -> u64 {
        self.values.count()
    }

    /// The sum, ns; `None` without any.
    pub fn total(&self) -> Option<Estimate<u64>> {
        self.least.map(|_| self.total.estimate())
    }

    /// The mean, ns.
    pub fn mean(&self) -> Option<Estimate<f64>> {
        let count = self.count() as f64;
        let of = |sum: u64| sum as f64 / count;
        self.least.map(|_| Estimate::new(of(self.total.value), of(self.total.lo), of(self.total.hi)))
    }

    /// The median, ns.
    pub fn median(&self) -> Option<Estimate<u64>> {
        let (median, lo, hi) = (self.values.median()?, self.los.median()?.lo, self.his.median()?.hi);
        match median.kind {
            Kind::Exact => Some(Estimate::new(median.value, lo, hi)),
            kind => Some(Estimate { value: median.value, lo, hi, kind }),
        }
    }

    /// The shortest, ns.
    pub fn min(&self) -> Option<Estimate<u64>> {
        self.least.map(Sum::estimate)
    }

    /// The longest, ns.
    pub fn max(&self) -> Option<Estimate<u64>> {
        self.least.map(|_| self.most.estimate())
    }

    /// The standard deviation (of the population), ns. A sample that is off by d changes it by at most the root of
    /// the mean of d², which gives the interval.
    pub fn stddev(&self) -> Option<Estimate<f64>> {
        let count = self.count() as f64;
        let value = (self.squares / count).max(0.0).sqrt();
        let doubt = (self.doubt_squares / count).sqrt();
        self.least.map(|_| Estimate::new(value, (value - doubt).max(0.0), value + doubt))
    }

    fn extremes(&mut self, least: Sum, most: Sum) {
        let l = self.least.get_or_insert(least);
        *l = Sum { value: l.value.min(least.value), lo: l.lo.min(least.lo), hi: l.hi.min(least.hi) };
        let m = self.most;
        self.most = Sum { value: m.value.max(most.value), lo: m.lo.max(most.lo), hi: m.hi.max(most.hi) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lasting(lo: u64, value: u64, hi: u64) -> Length {
        Length { lo, value, hi }
    }

    fn of(all: &[(u64, u64, u64)]) -> Durations {
        let mut d = Durations::default();
        all.iter().for_each(|&(lo, value, hi)| d.add(lasting(lo, value, hi)));
        d
    }

    #[test]
    fn without_timed_operations_nothing_is_known() {
        let none = Durations::default();
        assert_eq!((none.total(), none.median(), none.min(), none.max()), (None, None, None, None));
        assert!(none.mean().is_none() && none.stddev().is_none());
    }

    #[test]
    fn each_figure_carries_its_interval() {
        let d = of(&[(2, 4, 6), (4, 4, 4), (7, 7, 9)]);
        assert_eq!(d.total(), Some(Estimate::new(15, 13, 19)));
        assert_eq!(d.mean().unwrap().value, 5.0);
        assert_eq!(d.median(), Some(Estimate::new(4, 4, 6)));
        assert_eq!(d.min(), Some(Estimate::new(4, 2, 4)));
        assert_eq!(d.max(), Some(Estimate::new(7, 7, 9)));
        let s = d.stddev().unwrap();
        assert!((s.value - 2f64.sqrt()).abs() < 1e-9);
        // The true durations may be (6, 4, 9) or (2, 4, 7): √(38/9) in both cases.
        assert!(s.lo <= (38f64 / 9.0).sqrt() && (38f64 / 9.0).sqrt() <= s.hi, "{s:?}");
    }

    #[test]
    fn parts_add_up_to_the_whole() {
        let (a, b) = ([(1, 2, 3), (5, 8, 9)], [(100, 110, 111), (0, 0, 7), (3, 3, 3)]);
        let mut parts = Durations::default();
        parts.merge(&of(&a));
        parts.merge(&Durations::default());
        parts.merge(&of(&b));
        let whole = of(&[a.as_slice(), b.as_slice()].concat());
        assert_eq!((parts.total(), parts.min(), parts.max()), (whole.total(), whole.min(), whole.max()));
        assert_eq!(parts.median(), whole.median());
        assert!((parts.stddev().unwrap().value - whole.stddev().unwrap().value).abs() < 1e-6);
    }
}
