//! NVTX ranges and markers: how often the program used each, and the time of ranges on the host and on the GPU.
//!
//! An operation belongs to every range that is open when its call starts ([`ranges`](crate::model::ranges)). The
//! **projection** of a range onto the GPU is from the start of the first timed operation launched in it to the end of
//! the last, whatever ran between; a range without a timed operation has none. If all of its operations have GPU times, alone
//! or in runs, it is **measured**. Where some of a name are and others are not, as in the pauses of the budget, the time of all is
//! [extrapolated](super::extrapolate) from those that are, as that of kernels is from their launches. Captured operations did not run and
//! belong to no range. Names that differ only in a number at their end ([`range_names`](crate::model::range_names)) share a
//! row. Launches timed as one (bursts) have no time of their own, so they do not extend a projection.
//!
//! If only a part of a trace is selected, a range belongs to the time at which it starts and to the thread that
//! starts it, and counts whole. Its operations count if they pass the filter, whenever they ran.

use super::analysis::{Analysis, End, Start};
use super::calls::HostTimes;
use super::durations::Durations;
use super::estimate::{Estimate, Kind, Sum};
use super::extrapolate::{Sample, Why, Windows};
use super::merge::Merge;
use super::scope::Scope;
use crate::hash::HashSet;
use crate::model::gpu_clock::parted;
use crate::model::gpu_interval::{GpuInterval, Length};
use crate::model::range_names::Folded;
use crate::model::ranges::{Begun, Inside, Over, RECENT, Ranges, Stray};
use crate::model::{Action, CountedCall, Event, Operation, When};
use crate::trace::record::{Body, Names, NvtxRange};
use gpuspy_wire::record::{Namespace, NvtxChange};
use std::collections::BTreeMap;
use std::fmt;

/// The most ranges, and markers, with rows of their own; all others share one row.
const MOST_ROWS: usize = 4096;
/// The name of that row.
pub const OTHERS: &str = "(others)";
/// The name of a range without text, or whose text was one too many for the trace.
pub const NO_TEXT: &str = "(no text)";

/// The name of a range.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct RangeName {
    /// Its domain; `None` stands for the default domain.
    pub domain: Option<String>,
    /// Its text.
    pub text: String,
}

impl RangeName {
    /// Returns the name that a record gives.
    pub fn of(range: &NvtxRange, names: &Names) -> RangeName {
        let domain = (range.domain != 0).then(|| {
            names.get(Namespace::Domain, range.domain).map_or_else(|| range.domain.to_string(), str::to_owned)
        });
        let text = names.get(Namespace::NvtxRange, range.text).filter(|_| range.text != 0);
        RangeName { domain, text: text.unwrap_or(NO_TEXT).to_owned() }
    }

    /// Returns the name of a domain and of all texts that this number stands for.
    pub(super) fn numbered((domain, text): (u32, u32), names: &Names, folded: &Folded) -> RangeName {
        let change = NvtxChange::Mark;
        let range = NvtxRange { change, id: 0, domain, text, category: 0, color: 0, payload: false };
        let name = RangeName::of(&range, names);
        folded.name(text).map_or(name.clone(), |text| RangeName { text: text.to_owned(), ..name })
    }

    fn others() -> RangeName {
        RangeName { domain: None, text: OTHERS.to_owned() }
    }
}

/// The notation of other tools: `domain:text`.
impl fmt::Display for RangeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.domain {
            Some(domain) => write!(f, "{domain}:{}", self.text),
            None => f.write_str(&self.text),
        }
    }
}

/// The ranges of one name.
#[derive(Clone, Debug, Default)]
pub struct RangeTimes {
    /// Their number, and their times from start to end on the host.
    pub host: HostTimes,
    /// The lengths of the projections onto the GPU of those that are measured, host ns.
    measured: Durations,
    /// The same of others that have a projection: it may have been longer.
    partly: Durations,
    /// The sample from which the projections of those that are not measured are estimated.
    sample: Sample,
    /// How many operated on the GPU and are not measured, and the sum of the times at which their first operations were called.
    unmeasured: u64,
    called: u128,
    /// The sum of the times from there to the end of the records, ns.
    room: u64,
    /// The operations in them.
    pub operations: u64,
    /// How many of those have a GPU time.
    pub timed: u64,
    /// Kernel launches in them.
    pub launches: u64,
    /// How many had a payload.
    pub payloads: u64,
    /// How many were never ended; these last until the end of the trace.
    pub open: u64,
    /// The number of different names that differ in a number only; 0 if the name is the only one of the row.
    pub names: u64,
    /// Those names, by their numbers in the trace.
    texts: HashSet<u32>,
}

impl RangeTimes {
    /// The lengths of the projections that are measured; if none is, of those of which a part is.
    pub fn gpu(&self) -> &Durations {
        if self.measured.count() > 0 { &self.measured } else { &self.partly }
    }

    /// How many had operations that ran.
    pub fn working(&self) -> u64 {
        self.measured.count() + self.unmeasured
    }

    /// Returns the sum of the projections of all, ns, extrapolated if not all are measured; `None` if nothing is known of any. If none
    /// is measured, each is at least what is known of it, and lasts until the end of the records at most.
    pub fn total(&self) -> Option<Estimate<u64>> {
        if self.unmeasured == 0 {
            return self.measured.total();
        }
        let partly = self.partly.total();
        let Some(all) = self.sample.total() else {
            let known = partly?;
            return Some(Estimate { hi: known.hi.max(self.room), kind: Kind::Extrapolated, ..known });
        };
        let known = self.measured.total().into_iter().chain(partly).reduce(Estimate::plus)?;
        let (value, lo) = (all.value.max(known.value), all.lo.max(known.lo));
        Some(Estimate { value, lo, hi: all.hi.max(value), ..all })
    }

    /// Counts what a range did on the GPU.
    fn ran(&mut self, inside: &Contents, windows: &Windows) {
        let Some(called) = inside.called else { return };
        let length = inside.projection.as_ref().map(Projection::length);
        if let Some(length) = length.filter(|_| inside.untimed == 0) {
            let Length { lo, value, hi } = length;
            self.sample.timed(windows, Sum { value, lo, hi }, false);
            return self.measured.add(length);
        }
        self.sample.untimed(windows, Why::Paused);
        self.unmeasured += 1;
        self.called += u128::from(called);
        length.into_iter().for_each(|length| self.partly.add(length));
    }

    /// Notes when the records ended: host ns.
    fn end(&mut self, ended: u64) {
        let room = u128::from(ended) * u128::from(self.unmeasured);
        self.room = u64::try_from(room.saturating_sub(self.called)).unwrap_or(u64::MAX);
    }

    fn merge(&mut self, other: &RangeTimes) {
        self.host.merge(&other.host);
        self.measured.merge(&other.measured);
        self.partly.merge(&other.partly);
        self.sample.merge(&other.sample);
        self.unmeasured += other.unmeasured;
        self.called += other.called;
        self.room = self.room.saturating_add(other.room);
        self.operations += other.operations;
        self.timed += other.timed;
        self.launches += other.launches;
        self.payloads += other.payloads;
        self.open += other.open;
        // Processes use the same names.
        self.names = self.names.max(other.names).max(other.texts.len() as u64);
    }
}

/// The markers of one name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MarkTimes {
    /// How many.
    pub count: u64,
    /// How many had a payload.
    pub payloads: u64,
}

impl MarkTimes {
    fn merge(&mut self, other: &MarkTimes) {
        self.count += other.count;
        self.payloads += other.payloads;
    }
}

/// All ranges and markers.
#[derive(Clone, Debug, Default)]
pub struct RangeUse {
    /// Ranges by name.
    pub by_name: BTreeMap<RangeName, RangeTimes>,
    /// Markers by name.
    pub marks: BTreeMap<RangeName, MarkTimes>,
    /// Ends of ranges that were not open.
    pub stray: u64,
    /// Ranges that started while too many others were open; they are in no row.
    pub not_followed: u64,
}

impl RangeUse {
    /// Whether there are neither ranges nor markers.
    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty() && self.marks.is_empty()
    }
}

impl Merge for RangeUse {
    fn merge(&mut self, other: &RangeUse) {
        for (name, times) in &other.by_name {
            row(&mut self.by_name, name.clone(), RangeName::others).merge(times);
        }
        for (name, times) in &other.marks {
            row(&mut self.marks, name.clone(), RangeName::others).merge(times);
        }
        self.stray += other.stray;
        self.not_followed += other.not_followed;
    }
}

/// Returns the row of a key, or that of all others if there are too many.
fn row<K: Ord, V: Default>(rows: &mut BTreeMap<K, V>, key: K, others: impl FnOnce() -> K) -> &mut V {
    let is_full = rows.len() >= MOST_ROWS && !rows.contains_key(&key);
    rows.entry(if is_full { others() } else { key }).or_default()
}

/// The operations of a range.
#[derive(Clone, Debug, Default)]
struct Contents {
    /// Whether the range passes the filter.
    counts: bool,
    operations: u64,
    launches: u64,
    timed: u64,
    /// Those without a GPU time, of their own or in a run or a burst.
    untimed: u64,
    /// When the first of them was called: host ns.
    called: Option<u64>,
    projection: Option<Projection>,
}

impl Contents {
    fn add(&mut self, operation: &Operation) {
        let interval = match &operation.when {
            When::Captured => return,
            _ if matches!(operation.what, Action::Burst { .. }) => return,
            When::Timed(interval) => Some(interval),
            When::Untimed { after, .. } => {
                self.untimed += u64::from(after.is_some());
                None
            }
        };
        self.calls_at(operation.called);
        self.operations += 1;
        self.launches += u64::from(matches!(operation.what, Action::Kernel { .. }));
        if let Some(interval) = interval {
            self.timed += 1;
            self.cover(Projection::of(operation.context, interval));
        }
    }

    fn calls_at(&mut self, called: u64) {
        self.called = Some(self.called.map_or(called, |first| first.min(called)));
    }

    fn cover(&mut self, projection: Projection) {
        self.projection = Some(match self.projection {
            Some(before) => before.with(projection),
            None => projection,
        });
    }
}

impl Inside for Contents {
    fn absorb(&mut self, inner: &Contents) {
        self.operations += inner.operations;
        self.launches += inner.launches;
        self.timed += inner.timed;
        self.untimed += inner.untimed;
        inner.called.into_iter().for_each(|called| self.calls_at(called));
        inner.projection.into_iter().for_each(|projection| self.cover(projection));
    }
}

/// From the start of the first operation to the end of the last, host ns on the line.
#[derive(Clone, Copy, Debug)]
struct Projection {
    earliest_start: i64,
    start: i64,
    latest_start: i64,
    earliest_end: i64,
    end: i64,
    latest_end: i64,
    /// The clock that placed all of them: a context and its time base; `None` if several did.
    lane: Option<(u32, u32)>,
    /// How far a place on the line can be from the true one, ns.
    off_by: u64,
}

impl Projection {
    fn of(context: u32, interval: &GpuInterval) -> Projection {
        let &GpuInterval { earliest_start, start, latest_start, earliest_end, end, latest_end, .. } =
            interval;
        let lane = Some((context, interval.time_base));
        let off_by = interval.off_by.unwrap_or(u64::MAX);
        Projection { earliest_start, start, latest_start, earliest_end, end, latest_end, lane, off_by }
    }

    /// Returns the projection that contains both.
    fn with(self, other: Projection) -> Projection {
        Projection {
            earliest_start: self.earliest_start.min(other.earliest_start),
            start: self.start.min(other.start),
            latest_start: self.latest_start.min(other.latest_start),
            earliest_end: self.earliest_end.max(other.earliest_end),
            end: self.end.max(other.end),
            latest_end: self.latest_end.max(other.latest_end),
            lane: self.lane.filter(|_| self.lane == other.lane),
            off_by: self.off_by.max(other.off_by),
        }
    }

    /// Returns its length. Both ends can be off; on one clock by no more than that clock can drift from the host's
    /// within the length.
    fn length(&self) -> Length {
        let ns = |from: i64, to: i64| to.saturating_sub(from).max(0) as u64;
        let longest = ns(self.earliest_start, self.latest_end);
        let on_one_clock =
            self.lane.map_or(u64::MAX, |_| parted(longest.min(i64::MAX as u64) as i64) as u64 + 1);
        let doubt = self.off_by.saturating_mul(2).min(on_one_clock);
        let lo = ns(self.latest_start, self.earliest_end).saturating_sub(doubt);
        let hi = longest.saturating_add(doubt);
        Length { lo, value: ns(self.start, self.end).clamp(lo, hi), hi }
    }
}

/// A domain and a text, by their numbers; `None` stands for all others.
type Key = Option<(u32, u32)>;

/// The analysis.
#[derive(Debug)]
pub struct RangeFold<'a> {
    names: &'a Names,
    folded: Folded,
    windows: Windows,
    open: Ranges<Contents>,
    by_name: BTreeMap<Key, RangeTimes>,
    marks: BTreeMap<Key, MarkTimes>,
    stray: u64,
    not_followed: u64,
}

impl RangeFold<'_> {
    /// Counts a range that has ended, if it passes the filter.
    fn over(&mut self, over: &Over<Contents>, is_open: bool) {
        let Begun { at, range, inside, .. } = &over.begun;
        if !inside.counts {
            return;
        }
        let name = self.folded.number(range.text);
        let times = row(&mut self.by_name, Some((range.domain, name)), || None);
        if self.folded.name(name).is_some() {
            times.texts.insert(range.text);
        }
        let host_ns = over.end.saturating_sub(*at);
        times.host.add(CountedCall { api: 0, calls: 1, host_ns, failed: false });
        times.ran(inside, &self.windows);
        times.operations += inside.operations;
        times.timed += inside.timed;
        times.launches += inside.launches;
        times.payloads += u64::from(range.payload);
        times.open += u64::from(is_open);
    }
}

impl<'a> Analysis<'a> for RangeFold<'a> {
    type Rows = RangeUse;

    fn new(start: &Start<'a>) -> Self {
        RangeFold {
            names: start.names,
            folded: Folded::of(start.names),
            windows: Windows::default(),
            open: Ranges::new(RECENT),
            by_name: BTreeMap::new(),
            marks: BTreeMap::new(),
            stray: 0,
            not_followed: 0,
        }
    }

    fn observe(&mut self, event: &Event<'_>, scope: &Scope<'_>) {
        let (record, counts) = (event.record, scope.call());
        self.windows.observe(record);
        // A range is whole, and so are the operations in it, whenever they ran.
        if let Some((operation, call)) = scope.operation_at_any_time().zip(record.body.call()) {
            self.open.around(record.thread, call.begin).for_each(|begun| begun.inside.add(operation));
        }
        let Body::NvtxRange(range) = &record.body else { return };
        let over = match range.change {
            NvtxChange::Push | NvtxChange::Start => {
                let inside = Contents { counts, ..Contents::default() };
                let (thread, at, range) = (record.thread, record.at, range.clone());
                let is_followed = self.open.begin(Begun { thread, at, range, inside });
                self.not_followed += u64::from(counts && !is_followed);
                return;
            }
            NvtxChange::Mark if counts => {
                let mark = MarkTimes { count: 1, payloads: u64::from(range.payload) };
                let name = self.folded.number(range.text);
                return row(&mut self.marks, Some((range.domain, name)), || None).merge(&mark);
            }
            NvtxChange::Mark => return,
            NvtxChange::Pop => self.open.pop(record.thread, range.domain, record.at),
            NvtxChange::End => self.open.end(range.id, record.at),
        };
        match over {
            Ok(None) => {}
            Ok(Some(over)) => self.over(&over, false),
            Err(Stray) => self.stray += u64::from(counts),
        }
    }

    fn finish(mut self, end: &End<'_>) -> RangeUse {
        let (over, open) = std::mem::replace(&mut self.open, Ranges::new(0)).finish(end.ended);
        over.iter().for_each(|over| self.over(over, false));
        open.iter().for_each(|over| self.over(over, true));
        let name = |key: Key| {
            key.map_or_else(RangeName::others, |key| RangeName::numbered(key, self.names, &self.folded))
        };
        let (stray, not_followed) = (self.stray, self.not_followed);
        let mut all = RangeUse { stray, not_followed, ..RangeUse::default() };
        for (key, mut times) in self.by_name {
            times.end(end.ended);
            all.by_name.entry(name(key)).or_default().merge(&times);
        }
        for (key, times) in self.marks {
            all.marks.entry(name(key)).or_default().merge(&times);
        }
        all
    }
}

#[cfg(test)]
mod tests;
