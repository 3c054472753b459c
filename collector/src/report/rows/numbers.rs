//! Numbers that several tables have: estimates, rates, and the times of calls.

use crate::analyze::calls;
use crate::analyze::estimate::{self, Sum};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

/// A number that may not be known exactly: the truth is in [lo, hi].
#[derive(Debug, Serialize, JsonSchema)]
pub struct Estimate {
    /// The best value.
    #[schemars(with = "f64", range(min = 0))]
    value: Value,
    /// The truth is not less.
    #[schemars(with = "f64", range(min = 0))]
    lo: Value,
    /// The truth is not more.
    #[schemars(with = "f64", range(min = 0))]
    hi: Value,
    kind: Kind,
}

/// A rate, as an estimate; a figure is null where the time it divides by may be nothing.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Rate {
    /// The best value.
    #[schemars(range(min = 0))]
    value: Option<f64>,
    /// The truth is not less.
    #[schemars(range(min = 0))]
    lo: Option<f64>,
    /// The truth is not more.
    #[schemars(range(min = 0))]
    hi: Option<f64>,
    kind: Kind,
}

/// How the value of an estimate was obtained.
#[derive(Debug, Serialize, JsonSchema)]
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

/// Times of calls on the host, from entry to return: exact, but for a median of very many, which a sketch gives to
/// 1 %, with the interval that contains it. null = no calls.
#[derive(Debug, Serialize, JsonSchema)]
pub struct HostTimes {
    /// The number of calls.
    count: u64,
    /// The sum of their times.
    total_ns: u64,
    /// The mean.
    #[schemars(range(min = 0))]
    avg_ns: Option<f64>,
    /// The median.
    median_ns: Option<Estimate>,
    /// The shortest.
    min_ns: Option<u64>,
    /// The longest.
    max_ns: Option<u64>,
    /// The standard deviation of the population.
    #[schemars(range(min = 0))]
    stddev_ns: Option<f64>,
}

impl<T: Into<Value>> From<estimate::Estimate<T>> for Estimate {
    fn from(estimate: estimate::Estimate<T>) -> Estimate {
        let estimate::Estimate { value, lo, hi, kind } = estimate;
        Estimate { value: value.into(), lo: lo.into(), hi: hi.into(), kind: kind.into() }
    }
}

impl From<Sum> for Estimate {
    fn from(sum: Sum) -> Estimate {
        sum.estimate().into()
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
