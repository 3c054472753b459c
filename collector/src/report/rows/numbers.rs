//! Numbers that several tables have: estimates, rates, and the times of calls.

use crate::analyze::calls;
use crate::analyze::estimate::{self, Sum};
use schemars::JsonSchema;
use serde::Serialize;

/// A number that may not be known exactly: the truth is in [lo, hi].
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct Estimate<T = u64> {
    /// The best value.
    #[schemars(with = "f64", range(min = 0))]
    pub value: T,
    /// The lower bound of the truth.
    #[schemars(with = "f64", range(min = 0))]
    pub lo: T,
    /// The upper bound of the truth.
    #[schemars(with = "f64", range(min = 0))]
    pub hi: T,
    pub kind: Kind,
}

/// Returns an estimate of whole numbers, divided.
pub fn divided(estimate: Estimate, divisor: f64) -> Estimate<f64> {
    let Estimate { value, lo, hi, kind } = estimate;
    let by = |n: u64| n as f64 / divisor;
    Estimate { value: by(value), lo: by(lo), hi: by(hi), kind }
}

/// A rate, as an estimate; a figure is null where the time it divides by may be nothing.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct Rate {
    /// The best value.
    #[schemars(range(min = 0))]
    pub value: Option<f64>,
    /// The lower bound of the truth.
    #[schemars(range(min = 0))]
    pub lo: Option<f64>,
    /// The upper bound of the truth.
    #[schemars(range(min = 0))]
    pub hi: Option<f64>,
    pub kind: Kind,
}

/// How the value of an estimate was obtained.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// lo and hi meet.
    Exact,
    /// value is the best estimate after correcting over-read, or of what calls that overlap leave open.
    Corrected,
    /// A quantile of very many: value is within 1 %, corrected where lo and hi are further apart.
    Sketch,
    /// What was not timed is taken to be like what was: by windows a 99 % interval, else between the shortest and the
    /// longest timed one.
    Extrapolated,
}

/// The host's time in calls, from entry to return. The times are exact, except for the median of very many calls: a
/// sketch gives it to 1 %, with the interval that contains it. null = no calls.
#[derive(Debug, Serialize, JsonSchema)]
pub struct HostTimes {
    /// The number of calls.
    pub count: u64,
    /// The sum of their times.
    pub total_ns: u64,
    /// The mean of their times.
    #[schemars(range(min = 0))]
    pub avg_ns: Option<f64>,
    /// The median of their times.
    pub median_ns: Option<Estimate>,
    /// The shortest of their times.
    pub min_ns: Option<u64>,
    /// The longest of their times.
    pub max_ns: Option<u64>,
    /// The standard deviation of their times, of the population.
    #[schemars(range(min = 0))]
    pub stddev_ns: Option<f64>,
}

impl<T> From<estimate::Estimate<T>> for Estimate<T> {
    fn from(estimate: estimate::Estimate<T>) -> Estimate<T> {
        let estimate::Estimate { value, lo, hi, kind } = estimate;
        Estimate { value, lo, hi, kind: kind.into() }
    }
}

impl<T> From<Estimate<T>> for estimate::Estimate<T> {
    fn from(estimate: Estimate<T>) -> estimate::Estimate<T> {
        let Estimate { value, lo, hi, kind } = estimate;
        estimate::Estimate { value, lo, hi, kind: kind.into() }
    }
}

impl From<Sum> for Estimate {
    fn from(sum: Sum) -> Estimate {
        sum.estimate().into()
    }
}

impl From<Estimate> for Sum {
    fn from(estimate: Estimate) -> Sum {
        estimate::Estimate::from(estimate).into()
    }
}

impl Estimate {
    /// Returns the estimate of a number that is known exactly.
    pub fn exactly(value: u64) -> Estimate {
        estimate::Estimate::exactly(value).into()
    }

    /// Returns the sum of both.
    pub fn plus(self, other: Estimate) -> Estimate {
        estimate::Estimate::from(self).plus(other.into()).into()
    }
}

impl Estimate<f64> {
    /// Rounds to whole numbers, the interval outwards.
    pub fn rounded(self) -> Estimate {
        estimate::Estimate::from(self).rounded().into()
    }
}

impl From<estimate::Estimate<Option<f64>>> for Rate {
    fn from(estimate: estimate::Estimate<Option<f64>>) -> Rate {
        let estimate::Estimate { value, lo, hi, kind } = estimate;
        Rate { value, lo, hi, kind: kind.into() }
    }
}

impl From<estimate::Kind> for Kind {
    fn from(kind: estimate::Kind) -> Kind {
        match kind {
            estimate::Kind::Exact => Kind::Exact,
            estimate::Kind::Corrected => Kind::Corrected,
            estimate::Kind::Sketch => Kind::Sketch,
            estimate::Kind::Extrapolated => Kind::Extrapolated,
        }
    }
}

impl From<Kind> for estimate::Kind {
    fn from(kind: Kind) -> estimate::Kind {
        match kind {
            Kind::Exact => estimate::Kind::Exact,
            Kind::Corrected => estimate::Kind::Corrected,
            Kind::Sketch => estimate::Kind::Sketch,
            Kind::Extrapolated => estimate::Kind::Extrapolated,
        }
    }
}

impl HostTimes {
    /// Returns the times of these calls.
    pub fn of(calls: &calls::HostTimes) -> HostTimes {
        HostTimes {
            count: calls.count,
            total_ns: calls.total,
            avg_ns: calls.mean(),
            median_ns: calls.median().map(Into::into),
            min_ns: calls.min(),
            max_ns: calls.max(),
            stddev_ns: calls.stddev(),
        }
    }
}

/// Returns the names that a key can have in the schema where it can be null as well.
pub fn or_null<const N: usize>(names: [&'static str; N]) -> Vec<Option<&'static str>> {
    names.into_iter().map(Some).chain([None]).collect()
}
