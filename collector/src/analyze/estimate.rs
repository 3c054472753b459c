//! Numbers that are not known exactly, with their intervals.

use serde::Serialize;

/// How the value of an [`Estimate`] was obtained.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Known exactly: lo = value = hi.
    Exact,
    /// Corrected for over-read (see [`crate::model::gpu_interval`]): the true value is in [lo, hi].
    Corrected,
    /// A quantile from a sketch: the value is within 1 % of the exact quantile, and the true value is in [lo, hi].
    Sketch,
    /// Extrapolated from the operations that were timed (see [`super::extrapolate`]): the true value is in [lo, hi]
    /// if the untimed ones resemble them.
    Extrapolated,
}

/// A best value and the interval that contains the true one.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Estimate<T> {
    /// The best value.
    pub value: T,
    /// The true value is not less.
    pub lo: T,
    /// The true value is not more.
    pub hi: T,
    /// How the value was obtained.
    pub kind: Kind,
}

impl Estimate<u64> {
    /// An estimate of a number that is known exactly.
    pub fn exactly(value: u64) -> Self {
        Estimate::new(value, value, value)
    }

    /// Whether the interval is wider than a fifth of the value, so that the value alone would be misleading.
    pub fn is_wide(&self) -> bool {
        self.hi.saturating_sub(self.lo).saturating_mul(5) > self.value
    }
}

impl Estimate<f64> {
    /// Rounds to whole numbers, the interval outwards.
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
    /// Returns the sum of both. It is extrapolated if one of them is.
    pub fn plus(self, other: Estimate<u64>) -> Self {
        let sum = |a: u64, b: u64| a.saturating_add(b);
        let (value, lo, hi) = (sum(self.value, other.value), sum(self.lo, other.lo), sum(self.hi, other.hi));
        let is_extrapolated = [self.kind, other.kind].contains(&Kind::Extrapolated);
        let kind = if is_extrapolated { Kind::Extrapolated } else { Estimate::new(value, lo, hi).kind };
        Estimate { value, lo, hi, kind }
    }
}

/// Three sums that are added together: of the best values and of both bounds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    /// The sum of the best values.
    pub value: u64,
    /// The sum of the lower bounds.
    pub lo: u64,
    /// The sum of the upper bounds.
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

    /// Returns `part / whole` of it.
    pub fn share(self, part: u64, whole: u64) -> Sum {
        let of = |ns: u64| (u128::from(ns) * u128::from(part) / u128::from(whole)) as u64;
        match part.min(whole) {
            0 => Sum::default(),
            part if part == whole => self,
            _ => Sum { value: of(self.value), lo: of(self.lo), hi: of(self.hi) },
        }
    }

    /// Returns the sum as an estimate.
    pub fn estimate(self) -> Estimate<u64> {
        Estimate::new(self.value, self.lo, self.hi)
    }
}
