//! API calls and explicit synchronization.

use super::numbers::Estimate;
use super::source_lines::MainLine;
use crate::analyze::calls::HostTimes;
use crate::analyze::source_lines::SourceLines;
use schemars::JsonSchema;
use serde::Serialize;

/// The calls of one API.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Api {
    /// The function's name.
    pub name: String,
    /// Of the calls, those that returned an error.
    pub failed: u64,
    #[serde(flatten)]
    pub times: CallTimes,
    #[serde(flatten)]
    pub main: MainLine,
}

/// The synchronize calls of one API.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Sync {
    /// The function's name.
    pub api: String,
    /// Of the calls, those that returned an error. In the JSON they are under apis.
    #[serde(skip)]
    pub failed: u64,
    #[serde(flatten)]
    pub times: CallTimes,
    #[serde(flatten)]
    pub main: MainLine,
}

/// The host's time in calls, from entry to return.
#[derive(Debug, Serialize, JsonSchema)]
pub struct CallTimes {
    /// The number of calls.
    pub count: u64,
    /// The sum of their times.
    pub host_ns: u64,
    /// The mean of their times.
    #[schemars(range(min = 0))]
    pub avg_ns: f64,
    /// The median of their times.
    pub median_ns: Estimate,
    /// The shortest of their times.
    pub min_ns: u64,
    /// The longest of their times.
    pub max_ns: u64,
    /// The standard deviation of their times, of the population.
    #[schemars(range(min = 0))]
    pub stddev_ns: f64,
}

impl Api {
    /// Returns the row of an API; `None` without a call.
    pub fn of((name, calls): (&String, &HostTimes), lines: &SourceLines) -> Option<Api> {
        let main = MainLine::of(lines.of_api(name));
        Some(Api { name: name.clone(), failed: calls.failed, times: CallTimes::of(calls)?, main })
    }
}

impl Sync {
    /// Returns the row of an API; `None` without a call.
    pub fn of((api, calls): (&String, &HostTimes), lines: &SourceLines) -> Option<Sync> {
        let main = MainLine::of(lines.of_api(api));
        Some(Sync { api: api.clone(), failed: calls.failed, times: CallTimes::of(calls)?, main })
    }
}

impl CallTimes {
    fn of(calls: &HostTimes) -> Option<CallTimes> {
        Some(CallTimes {
            count: calls.count,
            host_ns: calls.total,
            avg_ns: calls.mean()?,
            median_ns: calls.median()?.into(),
            min_ns: calls.min()?,
            max_ns: calls.max()?,
            stddev_ns: calls.stddev()?,
        })
    }
}
