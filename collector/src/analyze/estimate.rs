//! A number that is not known exactly, and says so.

use serde::Serialize;

/// What the value of an [`Estimate`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Nothing had to be estimated: lo = value = hi.
    Exact,
    /// Corrected for over-read (see [`crate::model::gpu_interval`]): the truth is in [lo, hi].
    Corrected,
    /// A quantile from a sketch: the value is within 1 % of the one that it stands for, the truth is in [lo, hi].
    Sketch,
    /// What was not timed is taken to be like what was (see [`super::extrapolate`]): the truth is in [lo, hi] if it is.
    Extrapolated,
}

/// A best value and the interval that holds the truth.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Estimate<T> {
    /// The best value.
    pub value: T,
    /// The truth is no less.
    pub lo: T,
    /// The truth is no more.
    pub hi: T,
    /// What the value is.
    pub kind: Kind,
}

impl Estimate<u64> {
    /// A number that is known.
    pub fn exactly(value: u64) -> Self {
        Estimate::new(value, value, value)
    }

    /// Whether its interval is wider than a fifth of it: then the value alone says too much.
    pub fn is_wide(&self) -> bool {
        self.hi.saturating_sub(self.lo).saturating_mul(5) > self.value
    }
}

impl Estimate<f64> {
    /// In whole numbers, the interval rounded outwards.
    pub fn rounded(self) -> Estimate<u64> {
        let Estimate { value, lo, hi, kind } = self;
        Estimate { value: value.round() as u64, lo: lo.floor() as u64, hi: hi.ceil() as u64, kind }
    }
}

impl<T: PartialEq> Estimate<T> {
    /// An estimate that is exact where its bounds meet and corrected elsewhere.
    pub fn new(value: T, lo: T, hi: T) -> Self {
        let kind = if lo == hi { Kind::Exact } else { Kind::Corrected };
        Estimate { value, lo, hi, kind }
    }
}

impl Estimate<u64> {
    /// The sum of both: extrapolated if one is.
    pub fn plus(self, other: Estimate<u64>) -> Self {
        let sum = |a: u64, b: u64| a.saturating_add(b);
        let (value, lo, hi) = (sum(self.value, other.value), sum(self.lo, other.lo), sum(self.hi, other.hi));
        let is_extrapolated = [self.kind, other.kind].contains(&Kind::Extrapolated);
        let kind = if is_extrapolated { Kind::Extrapolated } else { Estimate::new(value, lo, hi).kind };
        Estimate { value, lo, hi, kind }
    }
}

/// Three sums that grow together: of the best values and of both bounds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    /// Of the best values.
    pub value: u64,
    /// Of the lower bounds.
    pub lo: u64,
    /// Of the upper bounds.
    pub hi: u64,
}

impl From<Estimate<u64>> for Sum {
    fn from(estimate: Estimate<u64>) -> Sum {
        let Estimate { value, lo, hi, .. } = estimate;
        Sum { value, lo, hi }
    }
}

impl Sum {
    /// Adds another.
    pub fn add(&mut self, other: Sum) {
        self.value = self.value.saturating_add(other.value);
        self.lo = self.lo.saturating_add(other.lo);
        self.hi = self.hi.saturating_add(other.hi);
    }

    /// As an estimate.
    pub fn estimate(self) -> Estimate<u64> {
        Estimate::new(self.value, self.lo, self.hi)
    }
}
