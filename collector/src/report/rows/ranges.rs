//! NVTX ranges and markers.

use super::numbers::Estimate;
use crate::analyze::ranges::{MarkTimes, RangeName, RangeTimes};
use schemars::JsonSchema;
use serde::Serialize;

/// The ranges of one name.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Range {
    /// null = the default domain.
    domain: Option<String>,
    /// The text of the range.
    name: String,
    /// The number of ranges.
    count: u64,
    /// Of those, ranges that were never ended: they last until the collection's end.
    open: u64,
    /// Of those, ranges with a payload.
    payloads: u64,
    /// The sum of their times on the host, from start to end.
    host_ns: u64,
    /// The mean.
    #[schemars(range(min = 0))]
    host_avg_ns: f64,
    /// The median.
    host_median_ns: Estimate,
    /// The shortest.
    host_min_ns: u64,
    /// The longest.
    host_max_ns: u64,
    /// Of those, ranges with a timed operation in them: gpu_ is about these.
    projected: u64,
    /// The sum of their projections.
    gpu_ns: Option<Estimate>,
    /// The mean.
    gpu_avg_ns: Option<Estimate>,
    /// The median.
    gpu_median_ns: Option<Estimate>,
    /// The shortest.
    gpu_min_ns: Option<Estimate>,
    /// The longest.
    gpu_max_ns: Option<Estimate>,
    /// Launches, copies, memsets and graph launches in them, timed or not. An operation counts in each range that it is
    /// in.
    operations: u64,
    /// Of those, operations with a GPU time.
    timed: u64,
    /// Of those, kernel launches.
    launches: u64,
}

/// The markers of one name.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Marker {
    /// null = the default domain.
    domain: Option<String>,
    /// The text of the marker.
    name: String,
    /// The number of markers.
    count: u64,
    /// Of those, markers with a payload.
    payloads: u64,
}

impl Range {
    /// Returns the row of a name; `None` without a range.
    pub fn of((name, times): (&RangeName, &RangeTimes)) -> Option<Range> {
        Some(Range {
            domain: name.domain.clone(),
            name: name.text.clone(),
            count: times.host.count,
            open: times.open,
            payloads: times.payloads,
            host_ns: times.host.total,
            host_avg_ns: times.host.mean()?,
            host_median_ns: times.host.median()?.into(),
            host_min_ns: times.host.min()?,
            host_max_ns: times.host.max()?,
            projected: times.gpu.count(),
            gpu_ns: times.gpu.total().map(Into::into),
            gpu_avg_ns: times.gpu.mean().map(Into::into),
            gpu_median_ns: times.gpu.median().map(Into::into),
            gpu_min_ns: times.gpu.min().map(Into::into),
            gpu_max_ns: times.gpu.max().map(Into::into),
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
