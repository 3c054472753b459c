//! Coverage: what was recorded and timed, and what was not.

use super::numbers::Estimate;
use super::timing::Timing;
use crate::analyze::{Tables, coverage, kernels};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

/// What was recorded and timed, and what was not. launches = timed + runs.launches + the sum of untimed; dropped = the
/// sum of dropped_by.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Coverage {
    /// The number of kernel launch calls that succeeded outside stream captures.
    pub launches: u64,
    /// The number of launches with a GPU time of their own. Launches in runs are not among them.
    pub timed: u64,
    /// The number of kernel launch calls inside stream captures.
    pub captured: u64,
    /// The number of kernels that graph launches executed.
    pub in_graphs: u64,
    /// Launches on deep streams that were timed together; those timed alone among them are in timed. launches = timed
    /// + runs.launches + the sum of untimed.
    pub runs: Together,
    /// Sequences of programmatic launches, which no event may be recorded between, each timed as one burst. By itself,
    /// each of these launches is untimed (programmatic).
    pub bursts: Together,
    /// The number of launches without a GPU time, by reason.
    pub untimed: BTreeMap<&'static str, u64>,
    /// The number of launches whose kernel or context is not known.
    pub unattributed: u64,
    /// The number of records and GPU times that were lost.
    pub dropped: u64,
    /// Their number by cause: gpu_time_pending are GPU times, the others are records.
    pub dropped_by: BTreeMap<&'static str, u64>,
    /// The number of operations whose end event was not read before the collection ended.
    pub pending: u64,
    pub outside_range: OutsideRange,
    pub ran_after_range: RanAfterRange,
    /// The number of ends of NVTX ranges that were not open.
    pub stray_range_ends: u64,
    /// NVTX ranges that started while too many others were open (4096 per thread and domain, 256 started ones). They
    /// are not in ranges.
    pub ranges_not_followed: u64,
    /// A driver launch function passed through the agent; null = not known, or none had to: nothing was launched.
    pub driver_hooked: Option<bool>,
    /// CUDA functions that were looked up (cuGetProcAddress, cudaGetDriverEntryPoint, dlsym) and that the agent does
    /// not know: they pass through, and what they do is not recorded.
    pub unknown_functions: Vec<UnknownFunction>,
    /// Launches of kernels of which not one was timed: their total_ns is null.
    pub never_timed: u64,
    pub timing: Timing,
}

/// Launches that were timed together.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Together {
    /// The number of runs or bursts.
    pub count: u64,
    /// The number of launches in them.
    pub launches: u64,
    /// The sum of their times, each from the start of the first launch to the end of the last.
    pub total_ns: Estimate,
}

/// Not in the trace, because they were called outside the capture range (--capture-range). No other figure includes
/// them.
#[derive(Debug, Serialize, JsonSchema)]
pub struct OutsideRange {
    /// The number of kernel launch calls that succeeded outside stream captures.
    pub launches: u64,
    /// The number of copies, memsets and graph launches.
    pub others: u64,
}

/// Called in the capture range (--capture-range), and run after it. No other figure includes this work, except that ranges
/// have all operations that were called in them.
#[derive(Debug, Serialize, JsonSchema)]
pub struct RanAfterRange {
    /// The number of kernel launches.
    pub launches: u64,
    /// The number of copies, memsets and graph launches.
    pub others: u64,
}

/// A function that the agent does not know.
#[derive(Debug, Serialize, JsonSchema)]
pub struct UnknownFunction {
    /// The name of the function; null = functions beyond the number whose names are recorded.
    pub name: Option<String>,
    /// How often it was looked up.
    pub lookups: u64,
}

impl Coverage {
    /// Returns the coverage of a run.
    pub fn of(all: &Tables) -> Coverage {
        let coverage = &all.coverage;
        let (launches, others) = coverage.outside;
        let function = |(name, lookups): (&Option<String>, &u64)| UnknownFunction {
            name: name.clone(),
            lookups: *lookups,
        };
        Coverage {
            launches: coverage.launches,
            timed: coverage.timed,
            captured: coverage.captured,
            in_graphs: coverage.in_graphs,
            runs: Together::of(&coverage.runs),
            bursts: Together::of(&coverage.bursts),
            untimed: coverage.untimed.clone(),
            unattributed: coverage.unattributed,
            dropped: coverage.dropped(),
            dropped_by: coverage.dropped_by.clone(),
            pending: coverage.pending,
            outside_range: OutsideRange { launches, others },
            ran_after_range: RanAfterRange { launches: coverage.ran_after.0, others: coverage.ran_after.1 },
            stray_range_ends: all.ranges.stray,
            ranges_not_followed: all.ranges.not_followed,
            driver_hooked: coverage.driver_hooked,
            unknown_functions: coverage.unknown_functions.iter().map(function).collect(),
            never_timed: kernels::never_timed(&all.kernels),
            timing: Timing::of(&all.duty),
        }
    }
}

impl Together {
    fn of(bursts: &coverage::Bursts) -> Together {
        Together { count: bursts.count, launches: bursts.launches, total_ns: bursts.total.into() }
    }
}
