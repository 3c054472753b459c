//! API calls: how many of each were made, and how much time the host spent in them.

use super::analysis::{Analysis, End, Start};
use super::estimate::Estimate;
use super::merge::Merge;
use super::quantile::Quantiles;
use super::scope::Scope;
use crate::hash::HashMap;
use crate::model::{CountedCall, Event};
use crate::trace::record::{Body, Names};
use gpuspy_wire::record::Namespace;
use std::collections::BTreeMap;

/// The host's time in calls of one kind, from entry to return. Its size is bounded, and two of them can be merged.
#[derive(Clone, Debug, Default)]
pub struct HostTimes {
    /// The number of calls.
    pub count: u64,
    /// How many of those returned an error.
    pub failed: u64,
    /// The sum of their host times, ns.
    pub total: u64,
    /// The shortest and the longest call, ns.
    extremes: Option<(u64, u64)>,
    values: Quantiles,
    /// Σ value². It cannot overflow within 584 years of calls.
    squares: u128,
}

impl HostTimes {
    /// Adds a call, or several that were recorded as one; each of those counts with their mean time.
    pub fn add(&mut self, call: CountedCall) {
        let calls = u64::from(call.calls.max(1));
        let each = call.host_ns / calls;
        self.count += calls;
        self.failed += u64::from(call.failed);
        self.total = self.total.saturating_add(call.host_ns);
        self.stretch(each, each);
        self.values.add_equal(each, calls);
        let squares = u128::from(each) * u128::from(each) * u128::from(calls);
        self.squares = self.squares.saturating_add(squares);
    }

    /// The shortest call, ns; `None` without any.
    pub fn min(&self) -> Option<u64> {
        self.extremes.map(|(shortest, _)| shortest)
    }

    /// The longest call, ns.
    pub fn max(&self) -> Option<u64> {
        self.extremes.map(|(_, longest)| longest)
    }

    /// The mean, ns.
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.total as f64 / self.count as f64)
    }

    /// The median, ns.
    pub fn median(&self) -> Option<Estimate<u64>> {
        self.values.median()
    }

    /// The standard deviation (of the population), ns.
    pub fn stddev(&self) -> Option<f64> {
        // Computed in integers until the end, since both terms are large where their difference is small.
        let total = u128::from(self.total);
        let around_mean = self.squares.saturating_sub((total * total).checked_div(self.count.into())?);
        Some((around_mean as f64 / self.count as f64).sqrt())
    }

    fn stretch(&mut self, shortest: u64, longest: u64) {
        let (low, high) = self.extremes.unwrap_or((shortest, longest));
        self.extremes = Some((low.min(shortest), high.max(longest)));
    }
}

impl Merge for HostTimes {
    fn merge(&mut self, other: &HostTimes) {
        let Some((shortest, longest)) = other.extremes else { return };
        self.count += other.count;
        self.failed += other.failed;
        self.total = self.total.saturating_add(other.total);
        self.stretch(shortest, longest);
        self.values.merge(&other.values);
        self.squares = self.squares.saturating_add(other.squares);
    }
}

/// Calls by the name of the API, see [`base_name`].
pub type ByApi = BTreeMap<String, HostTimes>;

/// Calls by the number of their API.
#[derive(Debug)]
struct Calls<'a> {
    names: &'a Names,
    by_api: HashMap<u16, HostTimes>,
}

impl<'a> Calls<'a> {
    fn new(names: &'a Names) -> Self {
        Calls { names, by_api: HashMap::default() }
    }

    fn add(&mut self, call: CountedCall) {
        self.by_api.entry(call.api).or_default().add(call);
    }

    fn by_name(&self) -> ByApi {
        let mut by_name = ByApi::new();
        for (api, calls) in &self.by_api {
            by_name.entry(api_name(self.names, *api)).or_default().merge(calls);
        }
        by_name
    }
}

/// The analysis of all API calls.
#[derive(Debug)]
pub struct ApiTimes<'a>(Calls<'a>);

impl<'a> Analysis<'a> for ApiTimes<'a> {
    type Rows = ByApi;

    fn new(start: &Start<'a>) -> Self {
        ApiTimes(Calls::new(start.names))
    }

    fn observe(&mut self, event: &Event<'_>, scope: &Scope<'_>) {
        event.call.filter(|_| scope.call()).into_iter().for_each(|call| self.0.add(call));
    }

    fn finish(self, _: &End<'_>) -> ByApi {
        self.0.by_name()
    }
}

/// The analysis of the calls that synchronize.
#[derive(Debug)]
pub struct SyncTimes<'a>(Calls<'a>);

impl<'a> Analysis<'a> for SyncTimes<'a> {
    type Rows = ByApi;

    fn new(start: &Start<'a>) -> Self {
        SyncTimes(Calls::new(start.names))
    }

    fn observe(&mut self, event: &Event<'_>, scope: &Scope<'_>) {
        if let (Body::Synchronize(_), Some(call)) = (&event.record.body, event.call)
            && scope.call()
        {
            self.0.add(call);
        }
    }

    fn finish(self, _: &End<'_>) -> ByApi {
        self.0.by_name()
    }
}

/// Calls that a filter on devices leaves out since their device is unknown: each may be of a selected one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// How many.
    pub count: u64,
}

impl Merge for LeftOut {
    fn merge(&mut self, other: &LeftOut) {
        self.count += other.count;
    }
}

/// The analysis of the calls that are left out.
#[derive(Debug)]
pub struct CallsLeftOut(LeftOut);

impl<'a> Analysis<'a> for CallsLeftOut {
    type Rows = LeftOut;

    fn new(_: &Start<'a>) -> Self {
        CallsLeftOut(LeftOut::default())
    }

    fn observe(&mut self, event: &Event<'_>, scope: &Scope<'_>) {
        let call = event.call.filter(|_| scope.is_of_unknown_device());
        self.0.count += call.map_or(0, |call| u64::from(call.calls.max(1)));
    }

    fn finish(self, _: &End<'_>) -> LeftOut {
        self.0
    }
}

/// Returns the base name of an API, by its number in a trace.
pub fn api_name(names: &Names, api: u16) -> String {
    shown_name(names.get(Namespace::Api, u32::from(api)), api)
}

/// Returns how an API is shown whose name may not be known.
pub fn shown_name(name: Option<&str>, api: u16) -> String {
    name.map_or_else(|| format!("(api {api})"), |name| base_name(name).to_owned())
}

/// Returns an API's name without the suffixes of its variants: `_v2` and later, `_ptsz`, `_ptds`.
pub fn base_name(name: &str) -> &str {
    let mut name = name;
    loop {
        let Some((base, suffix)) = name.rsplit_once('_') else { return name };
        let is_version =
            suffix.strip_prefix('v').is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()));
        if base.is_empty() || !(is_version || suffix == "ptsz" || suffix == "ptds") {
            return name;
        }
        name = base;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(times: &[u64]) -> HostTimes {
        let mut calls = HostTimes::default();
        times
            .iter()
            .for_each(|ns| calls.add(CountedCall { api: 1, calls: 1, host_ns: *ns, failed: ns % 2 == 1 }));
        calls
    }

    #[test]
    fn the_times_of_calls_are_exact() {
        let calls = of(&[9, 4, 4, 2, 5, 7, 4, 5]);
        assert_eq!((calls.count, calls.failed, calls.total), (8, 4, 40));
        assert_eq!((calls.min(), calls.max(), calls.mean()), (Some(2), Some(9), Some(5.0)));
        assert_eq!(calls.median(), Some(Estimate::new(4, 4, 4)), "the middle of 4 and 5, rounded down");
        assert_eq!(calls.stddev(), Some(2.0));
        let none = HostTimes::default();
        assert_eq!((none.min(), none.mean(), none.stddev()), (None, None, None));
        assert!(none.median().is_none());
    }

    #[test]
    fn a_small_spread_of_long_calls_is_not_rounded_away() {
        assert_eq!(of(&[1 << 45, (1 << 45) + 2]).stddev(), Some(1.0));
    }

    #[test]
    fn calls_of_two_processes_add_up() {
        let (mut all, parts) = (HostTimes::default(), [of(&[3, 8]), HostTimes::default(), of(&[1, 2, 9])]);
        parts.iter().for_each(|part| all.merge(part));
        let whole = of(&[3, 8, 1, 2, 9]);
        assert_eq!((all.count, all.failed, all.total), (5, 3, 23));
        assert_eq!((all.min(), all.max(), all.median()), (Some(1), Some(9), whole.median()));
        assert_eq!(all.stddev(), whole.stddev());
    }

    #[test]
    fn variants_of_an_api_are_one() {
        for (name, base) in [
            ("cuMemcpyHtoDAsync_v2_ptsz", "cuMemcpyHtoDAsync"),
            ("cuCtxCreate_v3", "cuCtxCreate"),
            ("cudaMemcpy_ptds", "cudaMemcpy"),
            ("__cudaLaunchKernel_ptsz", "__cudaLaunchKernel"),
            ("cudaLaunchKernelExC", "cudaLaunchKernelExC"),
            ("__cudaLaunchKernel", "__cudaLaunchKernel"),
            ("cuGraph_vx", "cuGraph_vx"),
            ("_v2", "_v2"),
        ] {
            assert_eq!(base_name(name), base);
        }
    }
}
