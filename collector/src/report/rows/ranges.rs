//! NVTX ranges and markers.

use super::numbers::{Estimate, divided};
use crate::analyze::ranges::{MarkTimes, RangeName, RangeTimes};
use schemars::JsonSchema;
use serde::Serialize;

/// The ranges of one name.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Range {
    /// The NVTX domain of the ranges; null = the default domain.
    pub domain: Option<String>,
    /// The text of the range; of ranges whose texts differ in a number at their end only, * stands for the number.
    pub name: String,
    /// The number of different texts; null = all ranges of this row have the same text.
    pub names: Option<u64>,
    /// The number of ranges.
    pub count: u64,
    /// The number of those that were never ended; they last until the end of the collection.
    pub open: u64,
    /// The number of those with a payload.
    pub payloads: u64,
    /// The sum of the ranges' times on the host, from start to end.
    pub host_ns: u64,
    /// The mean of their times on the host.
    #[schemars(range(min = 0))]
    pub host_avg_ns: f64,
    /// The median of their times on the host.
    pub host_median_ns: Estimate,
    /// The shortest of their times on the host.
    pub host_min_ns: u64,
    /// The longest of their times on the host.
    pub host_max_ns: u64,
    /// The standard deviation of the population; the screen sorts by it.
    #[serde(skip)]
    pub host_stddev_ns: f64,
    /// The number of ranges that were measured: all operations in them have GPU times, alone or in runs. If there is none, the number
    /// of those with a timed operation. The keys gpu_median_ns to gpu_max_ns are about the projections of these ranges: each lasts from
    /// the start of the range's first timed operation to the end of its last.
    pub projected: u64,
    /// The sum of the projections of all ranges with operations, extrapolated from those that were measured if not all were. If none
    /// was, hi is the time from their first calls to the end of the records.
    pub gpu_ns: Option<Estimate>,
    /// The number of ranges with operations; the screen says of how many the GPU time was measured.
    #[serde(skip)]
    pub working: u64,
    /// The mean projection of all ranges with operations: gpu_ns divided by their number.
    pub gpu_avg_ns: Option<Estimate<f64>>,
    /// The median projection.
    pub gpu_median_ns: Option<Estimate>,
    /// The standard deviation of the projections; a comparison takes its noise from it.
    #[serde(skip)]
    pub gpu_stddev_ns: Option<f64>,
    /// The shortest projection.
    pub gpu_min_ns: Option<Estimate>,
    /// The longest projection.
    pub gpu_max_ns: Option<Estimate>,
    /// The number of kernel launches, copies, memsets and graph launches in the ranges, timed or not. An operation counts
    /// in each range that contains it.
    pub operations: u64,
    /// The number of those with a GPU time.
    pub timed: u64,
    /// The number of those that are kernel launches.
    pub launches: u64,
}

/// The markers of one name.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Marker {
    /// The NVTX domain of the markers; null = the default domain.
    pub domain: Option<String>,
    /// The text of the marker.
    pub name: String,
    /// The number of markers.
    pub count: u64,
    /// The number of those with a payload.
    pub payloads: u64,
}

impl Range {
    /// Returns the row of a name; `None` without a range.
    pub fn of((name, times): (&RangeName, &RangeTimes)) -> Option<Range> {
        Some(Range {
            domain: name.domain.clone(),
            name: name.text.clone(),
            names: (times.names > 0).then_some(times.names),
            count: times.host.count,
            open: times.open,
            payloads: times.payloads,
            host_ns: times.host.total,
            host_avg_ns: times.host.mean()?,
            host_median_ns: times.host.median()?.into(),
            host_min_ns: times.host.min()?,
            host_max_ns: times.host.max()?,
            host_stddev_ns: times.host.stddev()?,
            projected: times.gpu().count(),
            gpu_ns: times.total().map(Into::into),
            working: times.working(),
            gpu_avg_ns: times.total().map(|total| divided(total.into(), times.working() as f64)),
            gpu_median_ns: times.gpu().median().map(Into::into),
            gpu_stddev_ns: times.gpu().stddev().map(|std| std.value),
            gpu_min_ns: times.gpu().min().map(Into::into),
            gpu_max_ns: times.gpu().max().map(Into::into),
            operations: times.operations,
            timed: times.timed,
            launches: times.launches,
        })
    }
}

impl Marker {
    /// Returns the row of a name.
    pub fn of((name, times): (&RangeName, &MarkTimes)) -> Marker {
        let MarkTimes { count, payloads } = *times;
        Marker { domain: name.domain.clone(), name: name.text.clone(), count, payloads }
    }
}
