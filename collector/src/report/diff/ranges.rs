//! The NVTX ranges of both runs; and is the range that is the step longer itself?
//!
//! A step lasts until the next one starts. Where something else sets the pace, as the clients of a server do, that is as long as before
//! whatever is done in a step, and what became slower is the range itself: the time to serve a request.

use super::change::{Basis, Change};
use super::figure::{Figure, Scale};
use super::noise;
use crate::report::rows::Report;
use crate::report::rows::numbers::Estimate;
use crate::report::rows::ranges;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

/// The ranges of one name in both runs. Times are of one range; null = a run has none.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Range {
    /// As in the report's ranges.
    pub domain: Option<String>,
    /// As in the report's ranges.
    pub name: String,
    /// The number of ranges.
    pub count: Figure,
    /// The median of their times on the host.
    pub host_median_ns: Figure,
    /// The mean of their times on the host.
    pub host_avg_ns: Figure,
    /// The median of their projections onto the GPU.
    pub gpu_median_ns: Figure,
    /// The mean of their projections onto the GPU.
    pub gpu_avg_ns: Figure,
}

/// Compares the ranges of two runs, the largest change of the median on the host first.
pub fn ranges(before: &[ranges::Range], after: &[ranges::Range], scale: Scale) -> Vec<Range> {
    let by_name = |rows: &'_ [ranges::Range]| -> BTreeMap<(Option<String>, String), usize> {
        rows.iter().enumerate().map(|(at, row)| ((row.domain.clone(), row.name.clone()), at)).collect()
    };
    let (one, other) = (by_name(before), by_name(after));
    let new = other.keys().filter(|name| !one.contains_key(name));
    let row = |key: &(Option<String>, String)| {
        let of = |rows: &'_ BTreeMap<_, usize>| rows.get(key).copied();
        Range::of(key, of(&one).map(|at| &before[at]), of(&other).map(|at| &after[at]), scale)
    };
    let mut rows: Vec<Range> = one.keys().chain(new).map(row).collect();
    rows.sort_by(|a, b| b.host_median_ns.size().total_cmp(&a.host_median_ns.size()));
    rows
}

impl Range {
    fn of(
        (domain, name): &(Option<String>, String),
        before: Option<&ranges::Range>,
        after: Option<&ranges::Range>,
        scale: Scale,
    ) -> Range {
        let count = |row: Option<&ranges::Range>| row.map_or(0, |row| row.count);
        let whole = |of: fn(&ranges::Range) -> Option<Estimate>| {
            Scale::RUN.times(before.and_then(of), after.and_then(of))
        };
        Range {
            domain: domain.clone(),
            name: name.clone(),
            count: scale.count(count(before), count(after)),
            host_median_ns: whole(|row| Some(row.host_median_ns)),
            host_avg_ns: Figure::exactly(before.map(|row| row.host_avg_ns), after.map(|row| row.host_avg_ns)),
            gpu_median_ns: whole(|row| row.gpu_median_ns),
            gpu_avg_ns: Figure::of(
                before.and_then(|row| row.gpu_avg_ns),
                after.and_then(|row| row.gpu_avg_ns),
            ),
        }
    }
}

/// Returns the change of the length of the range that is the step; `None` if that is no range in one of the runs, or if its length is not
/// known.
pub fn of_step(before: &Report, after: &Report) -> Option<Change> {
    let is_same = before.steps.range.is_some() && before.steps.range == after.steps.range;
    let (one, other) = (Length::of(before)?, Length::of(after)?);
    let noise_ns = noise::of_medians(one.median, [one.error()?, other.error()?]);
    is_same.then(|| Change::from(Basis::Range, one.median, other.median, Some(noise_ns)))
}

/// The length of a range, ns: on the host or on the GPU, whichever is longer. Where the host waits for what it launched, or issues it no
/// faster than it is done, that is how long the range takes on the host. Where it runs ahead, the host's time is none of the work.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Length {
    median: f64,
    std: f64,
    /// How many were measured.
    count: u64,
}

impl Length {
    /// Returns the length of the range that is the step of a run.
    fn of(report: &Report) -> Option<Length> {
        let is_meant = |row: &&ranges::Range| Some(&row.name) == report.steps.range.as_ref();
        let row = report.ranges.iter().filter(is_meant).max_by_key(|row| row.count)?;
        let on_host =
            Length { median: row.host_median_ns.value as f64, std: row.host_stddev_ns, count: row.count };
        let on_gpu = row.gpu_median_ns.zip(row.gpu_stddev_ns);
        let on_gpu =
            on_gpu.map(|(median, std)| Length { median: median.value as f64, std, count: row.projected });
        match on_gpu {
            Some(on_gpu) if on_gpu.median > on_host.median => Some(on_gpu),
            Some(_) => Some(on_host),
            None => report.steps.are_told_apart().then_some(on_host),
        }
    }

    fn error(&self) -> Option<f64> {
        noise::error_of_median(self.std, self.count)
    }
}

#[cfg(test)]
pub mod tests {
    use super::super::change::Verdict;
    use super::super::noise::tests::steps;
    use super::*;
    use crate::analyze::Tables;
    use crate::analyze::calls::HostTimes;
    use crate::analyze::ranges::{RangeName, RangeTimes};
    use crate::model::CountedCall;
    use crate::report::rows::numbers::Kind;

    const MS: u64 = 1_000_000;

    /// A run of 400 requests of 4 ms each from start to start, in ranges of so many ms on the host and on the GPU.
    pub fn run(host: u64, gpu: Option<u64>) -> Report {
        let mut times = HostTimes::default();
        for _ in 0..400 {
            times.add(CountedCall { api: 0, calls: 1, host_ns: host * MS, failed: false });
        }
        let name = RangeName { domain: None, text: "request".to_owned() };
        let mut of_name = RangeTimes::default();
        of_name.host = times;
        let mut row = ranges::Range::of((&name, &of_name)).unwrap();
        let exact = |value| Estimate { value, lo: value, hi: value, kind: Kind::Exact };
        row.gpu_median_ns = gpu.map(|gpu| exact(gpu * MS));
        (row.gpu_stddev_ns, row.projected) = (gpu.map(|_| 0.0), 400);
        let mut steps = steps(400, 4 * MS, 0.0);
        steps.range = Some(name.text);
        Report { steps, ranges: vec![row], ..Report::of(&[], &Tables::default(), &[]) }
    }

    /// A server with a request every 4 ms whose kernels took three times as long: there was no change, and --fail-over passed it.
    #[test]
    fn requests_that_take_longer_are_slower_though_their_clients_set_the_pace() {
        let (before, after) = (run(1, Some(1)), run(3, Some(3)));
        assert_eq!(Change::of(&before, &after).verdict, Verdict::Same, "from start to start");
        let own = of_step(&before, &after).unwrap();
        assert_eq!((own.verdict, own.before_ns, own.after_ns), (Verdict::Slower, 1e6, 3e6));
        assert!(own.is_slower_than(5.0));
        let sentence = "AFTER is 3.00x slower in the NVTX range that is the step: 3.00 ms instead of 1.00 ms";
        assert!(own.text.starts_with(sentence), "{}", own.text);
    }

    /// The host issues a step in 1 ms and runs ahead of the GPU: how long it takes for that is not how long a step takes.
    #[test]
    fn where_the_host_runs_ahead_the_range_lasts_as_long_as_on_the_gpu() {
        let own = of_step(&run(1, Some(3)), &run(2, Some(3))).unwrap();
        assert_eq!((own.verdict, own.before_ns), (Verdict::Same, 3e6));
        let mut untimed = [run(1, None), run(2, None)];
        assert_eq!(of_step(&untimed[0], &untimed[1]).unwrap().verdict, Verdict::Slower);
        untimed[1].steps.timed_on = Some("host_ahead");
        assert!(of_step(&untimed[0], &untimed[1]).is_none());
    }

    #[test]
    fn ranges_of_both_runs_stand_side_by_side() {
        let (before, mut after) = (run(1, Some(1)), run(3, Some(2)));
        let rows = ranges(&before.ranges, &after.ranges, Scale { before: 400.0, after: 400.0 });
        let [row] = &rows[..] else { panic!("{rows:?}") };
        assert_eq!((row.count.change, row.host_median_ns.change), (Some(0.0), Some(2e6)));
        assert_eq!(row.gpu_median_ns.change_share, Some(1.0));
        after.ranges[0].name = "answer".to_owned();
        let rows = ranges(&before.ranges, &after.ranges, Scale::RUN);
        assert!(rows.iter().all(|row| row.host_median_ns.change.is_none()) && rows.len() == 2);
    }
}
