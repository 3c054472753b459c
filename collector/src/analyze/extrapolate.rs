//! Extrapolates the time of all operations from those that were timed.
//!
//! Operations of one kind (a kernel in one shape, copies of one size) are all counted, and some of them are timed.
//! The time of the others is estimated from three sources:
//!
//! **Draws.** On a deep stream the launches are timed as runs, and of each run some launches are drawn at random and
//! timed alone ([`flag::SAMPLED`]). These are a random sample of the launches in runs, and stand for the launches
//! next to them: `draws.rs`.
//!
//! **Windows** (`--timing auto`). The operations in a window resemble each other (they belong to one phase of the
//! program and one state of the GPU). So windows, and not operations, are the sample of what ran in the pauses
//! between them, and each counts by how likely it was: `clusters.rs`. The first phase is timed in full and stands only
//! for itself: it is the program's warm-up.
//!
//! Both intervals contain the true sum in 99 of 100 cases, and are widened by the intervals of the timed operations
//! themselves. They **assume** that an operation is drawn, and a window opened, independently of how long the
//! operations take.
//!
//! An operation's time depends on the shape that a kernel is launched in, and on the size of a copy. Each of these is
//! a sample of its own as long as each has enough data: `strata.rs`.
//!
//! **Calls.** A copy that the host waits for runs inside its call, whose time is known for each, timed or not. So all of
//! those that were called in pauses took no longer than their calls.
//!
//! **Bursts.** The launches of a burst have its time together and none of their own, so their times are estimated like those
//! of operations in pauses. That counts for the totals of their kernels; for the GPU's time the burst does.
//!
//! **Neither.** With fewer than five windows or draws, the untimed operations are assumed to take at least as long as
//! the shortest timed one, and at most as long as the longest (by their best values), or as the mean of the upper
//! bounds if that is more. Where none of their own shape, size or graph was timed, they may have taken no time. Transfers
//! of a size of which none was timed take as long as those of other sizes by their bytes (`strata.rs`), and of a size of
//! which fewer than five were, half to twice as long as those.

mod clusters;
mod draws;
mod strata;

use super::estimate::{Estimate, Kind, Sum};
use crate::model::transfer::blocks_host;
use crate::model::{Operation, Reason, When};
use crate::trace::record::{Body, Record, Work};
use clusters::Clusters;
use draws::Draws;
use gpuspy_wire::record::{Untimed, WindowChange, flag};
pub use strata::Strata;

/// The fewest windows, or draws, from which the variation between them can be estimated.
const LEAST: u64 = 5;
/// The 99.5 % quantile of the normal distribution: 1 in 100 is outside, counting both sides.
pub(super) const Z: f64 = 2.575_829;

/// The windows of a process, as its records tell of them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Windows {
    /// The number of the last one. The first phase is 1; 0 means that none has opened.
    number: u64,
    /// When it opened, host ns.
    opened: u64,
    /// How long the last ones were, by their numbers, ns; 0 = it is still open.
    spans: [u64; SPANS as usize],
}

/// How many windows are remembered. An operation that is the first of its kind after more of them than this is rare.
const SPANS: u64 = 16;

impl Windows {
    /// Takes the next record.
    pub fn observe(&mut self, record: &Record) {
        let Body::Window(window) = &record.body else { return };
        let span = match window.change {
            WindowChange::Opens => {
                (self.number, self.opened) = (self.number + 1, record.at);
                0
            }
            WindowChange::Closes => record.at.saturating_sub(self.opened).max(1),
        };
        self.spans[(self.number % SPANS) as usize] = span;
    }

    /// How long a window was, ns; `None` if it is still open, or no longer remembered.
    fn span(&self, number: u64) -> Option<u64> {
        let is_remembered = number <= self.number && self.number - number < SPANS;
        is_remembered.then(|| self.spans[(number % SPANS) as usize]).filter(|span| *span > 0)
    }
}

/// Why an operation has no time of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Why {
    /// It is in a run and was not drawn.
    NotDrawn,
    /// It was called in a pause.
    Paused,
    /// It is in a burst, which has its time.
    InBurst,
    /// Any other reason.
    Other,
}

impl Why {
    /// Returns it; `None` for an operation that has a time, or that did not run.
    pub fn of(when: &When) -> Option<Why> {
        match when {
            When::Untimed { reason: Reason::Untimed(Untimed::Run), .. } => Some(Why::NotDrawn),
            When::Untimed { reason: Reason::Untimed(Untimed::Budget), .. } => Some(Why::Paused),
            When::Untimed { after: None, .. } => Some(Why::InBurst),
            When::Untimed { .. } => Some(Why::Other),
            When::Timed(_) | When::Captured => None,
        }
    }
}

/// Operations that [may never have run](super::pending).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Doubtful {
    count: u64,
    /// How many of them did not run, by the best estimate.
    missing: f64,
}

impl Doubtful {
    fn plus(self, other: Doubtful) -> Doubtful {
        Doubtful { count: self.count + other.count, missing: self.missing + other.missing }
    }

    fn less(self, other: Doubtful) -> Doubtful {
        Doubtful { count: self.count - other.count, missing: (self.missing - other.missing).max(0.0) }
    }

    /// Takes them out of the time of `all` operations, among which they are: the least that they took is nothing.
    fn out_of(self, time: Range, all: u64) -> Range {
        let left = |gone: f64| (1.0 - gone / all.max(1) as f64).max(0.0);
        Range { lo: time.lo * left(self.count as f64), value: time.value * left(self.missing), ..time }
    }
}

/// Untimed operations that ran inside their calls, as copies from and to pageable memory do.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Inside {
    count: u64,
    /// The time of their calls, ns.
    calls: u64,
}

impl Inside {
    /// Such an operation; `None` if it may have run after its call.
    fn of(operation: &Operation, body: &Body) -> Option<Inside> {
        let Body::Work(Work { call, .. }) = body else { return None };
        let calls = call.end.saturating_sub(call.begin);
        blocks_host(call.flags, operation.what.moved()).then_some(Inside { count: 1, calls })
    }

    fn plus(self, other: Inside) -> Inside {
        Inside { count: self.count + other.count, calls: self.calls.saturating_add(other.calls) }
    }

    fn less(self, other: Inside) -> Inside {
        Inside { count: self.count - other.count, calls: self.calls.saturating_sub(other.calls) }
    }

    /// Cuts the time of `all` operations to that of their calls, if each of them ran inside of its own.
    fn bound(self, time: Range, all: u64) -> Range {
        if self.count < all {
            return time;
        }
        let cut = |ns: f64| ns.min(self.calls as f64);
        Range { lo: cut(time.lo), value: cut(time.value), hi: cut(time.hi) }
    }
}

/// Operations of one kind: their number, and the time of the timed ones.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sample {
    timed: u64,
    /// The time of the timed ones, ns, and the sum of its squares by the best values.
    known: Sum,
    squares: f64,
    /// The shortest and the longest of them by the best values, ns.
    shortest: Option<u64>,
    longest: u64,
    /// The number of untimed ones: in runs, in pauses, in bursts, and for any other reason.
    not_drawn: u64,
    paused: u64,
    in_bursts: u64,
    others: u64,
    /// Those of the untimed ones that may never have run, by [`Why`].
    doubtful: [Doubtful; 4],
    /// Those of the untimed ones that ran inside their calls, by [`Why`].
    inside: [Inside; 4],
    /// What all of them moved.
    bytes: u64,
    /// How long an untimed one took, ns, where that is known from others.
    assumed: Option<Range>,
    draws: Draws,
    windows: Clusters,
}

/// An estimated time with its bounds, ns.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Range {
    /// The lower bound.
    pub lo: f64,
    /// The best value.
    pub value: f64,
    /// The upper bound.
    pub hi: f64,
}

/// Operations that were called in pauses, and their time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Extent {
    /// How many of them have an estimated time.
    pub known: u64,
    /// For how many of those enough windows stand.
    pub sampled: u64,
    /// That time, ns.
    pub time: Range,
    /// How many of the known ones have the time of others: none of their shape, size or graph was timed, and there are too few
    /// windows to stand for them. They may have taken any time.
    pub guessed: u64,
    /// How many have none, since no operation of their kind was ever timed.
    pub unknown: u64,
}

impl Extent {
    /// Whether what was observed in windows stands for them.
    pub fn is_sampled(&self) -> bool {
        self.sampled.saturating_mul(2) >= self.known
    }

    /// Returns the sum of both.
    pub fn plus(self, other: Extent) -> Extent {
        Extent {
            known: self.known + other.known,
            sampled: self.sampled + other.sampled,
            time: self.time.plus(other.time),
            guessed: self.guessed + other.guessed,
            unknown: self.unknown + other.unknown,
        }
    }
}

impl Range {
    fn times(self, count: u64) -> Range {
        self.scaled(count as f64)
    }

    fn scaled(self, factor: f64) -> Range {
        Range { lo: self.lo * factor, value: self.value * factor, hi: self.hi * factor }
    }

    /// Returns the sum of both.
    pub fn plus(self, other: Range) -> Range {
        Range { lo: self.lo + other.lo, value: self.value + other.value, hi: self.hi + other.hi }
    }

    /// Moves the interval towards zero.
    fn less(self, by: f64) -> Range {
        Range { lo: self.lo - by, value: (self.value - by).max(0.0), hi: self.hi - by }
    }

    /// Widens the interval by `margin` on both sides.
    fn widened(self, margin: f64) -> Range {
        Range { lo: self.lo - margin, hi: self.hi + margin, ..self }
    }

    /// Adds a known sum, and rounds outwards; a float that is too large becomes the largest integer.
    fn beside(self, known: Sum) -> Estimate<u64> {
        Estimate {
            value: known.value.saturating_add(self.value as u64),
            lo: known.lo.saturating_add(self.lo.max(0.0) as u64),
            hi: known.hi.saturating_add(self.hi as u64).saturating_add(1),
            kind: Kind::Extrapolated,
        }
    }
}

impl Sample {
    /// Adds an operation that ran, with its record.
    pub fn observe(&mut self, windows: &Windows, operation: &Operation, body: &Body) {
        let moved = operation.what.moved().map_or(0, |(_, _, bytes)| bytes);
        self.bytes = self.bytes.saturating_add(moved);
        if let When::Timed(o) = &operation.when {
            let time = Sum { value: o.value(), lo: o.lo(), hi: o.hi() };
            return self.timed(windows, time, is_drawn(body));
        }
        let Some(why) = Why::of(&operation.when) else { return };
        self.untimed(windows, why);
        let inside = &mut self.inside[why as usize];
        *inside = inside.plus(Inside::of(operation, body).unwrap_or_default());
    }

    /// Adds one with this time.
    pub(super) fn timed(&mut self, windows: &Windows, time: Sum, is_drawn: bool) {
        self.timed += 1;
        self.known.add(time);
        self.squares += (time.value as f64).powi(2);
        self.shortest = Some(self.shortest.map_or(time.value, |shortest| shortest.min(time.value)));
        self.longest = self.longest.max(time.value);
        self.windows.timed(windows, time, is_drawn);
        if is_drawn {
            self.draws.drawn(time);
        }
    }

    /// Adds one without a time.
    pub(super) fn untimed(&mut self, windows: &Windows, why: Why) {
        match why {
            Why::NotDrawn => {
                self.not_drawn += 1;
                self.draws.not_drawn();
                self.windows.not_drawn(windows);
            }
            Why::Paused => self.paused += 1,
            Why::InBurst => self.in_bursts += 1,
            Why::Other => self.others += 1,
        }
        self.windows.time_passes(windows);
    }

    /// Adds another sample.
    pub fn merge(&mut self, other: &Sample) {
        self.timed += other.timed;
        self.known.add(other.known);
        self.squares += other.squares;
        self.shortest = self.shortest.into_iter().chain(other.shortest).min();
        self.longest = self.longest.max(other.longest);
        self.not_drawn += other.not_drawn;
        self.paused += other.paused;
        self.in_bursts += other.in_bursts;
        self.others += other.others;
        self.doubtful.iter_mut().zip(other.doubtful).for_each(|(mine, theirs)| *mine = mine.plus(theirs));
        self.inside.iter_mut().zip(other.inside).for_each(|(mine, theirs)| *mine = mine.plus(theirs));
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.draws.merge(&other.draws);
        self.windows.merge(&other.windows);
    }

    /// Returns the time of all operations, ns; `None` if none was timed.
    pub fn total(&self) -> Option<Estimate<u64>> {
        if self.timed == 0 {
            return None;
        }
        Some(self.untimed_time().map_or_else(|| self.known.estimate(), |rest| rest.beside(self.known)))
    }

    /// Returns the time of the untimed ones, ns; `None` without any.
    fn untimed_time(&self) -> Option<Range> {
        let in_runs = || self.drawn_rest().unwrap_or_else(|| self.bounds().times(self.not_drawn));
        let [not_drawn, doubtful @ ..] = self.doubtful;
        let doubtful = doubtful.into_iter().fold(Doubtful::default(), Doubtful::plus);
        let [_, inside @ ..] = self.inside;
        let inside = inside.into_iter().fold(Inside::default(), Inside::plus);
        let others = self.in_no_run();
        (self.not_drawn + others > 0).then(|| {
            let in_runs = not_drawn.out_of(in_runs(), self.not_drawn);
            doubtful.out_of(inside.bound(self.rest(others), others), others).plus(in_runs)
        })
    }

    /// Notes that so many of the untimed ones may never have run, and how many of those did not, by the best estimate.
    fn doubt(&mut self, why: Why, count: u64, missing: f64) {
        let doubtful = &mut self.doubtful[why as usize];
        *doubtful = doubtful.plus(Doubtful { count, missing });
    }

    /// Returns the number of operations that are untimed for a reason.
    fn count(&self, why: Why) -> u64 {
        match why {
            Why::NotDrawn => self.not_drawn,
            Why::Paused => self.paused,
            Why::InBurst => self.in_bursts,
            Why::Other => self.others,
        }
    }

    /// Returns the number of those that have certainly run.
    fn certain(&self, why: Why) -> u64 {
        self.count(why).saturating_sub(self.doubtful[why as usize].count)
    }

    /// Returns the number of untimed ones that are in no run.
    fn in_no_run(&self) -> u64 {
        self.paused + self.in_bursts + self.others
    }

    /// Returns the time of the operations that are in no run and untimed for this reason, ns; `None` without any.
    fn time_of(&self, why: Why) -> Option<Range> {
        let count = self.count(why);
        (count > 0).then(|| self.of_those(why, self.rest(count)))
    }

    /// Returns the time of the operations that are untimed for this reason if all of them took `time`, ns: no more than
    /// their calls, and without those that may never have run.
    fn of_those(&self, why: Why, time: Range) -> Range {
        let (count, why) = (self.count(why), why as usize);
        self.doubtful[why].out_of(self.inside[why].bound(time, count), count)
    }

    /// Takes out the operations of another sample, of which none was timed or is in a run.
    fn remove(&mut self, other: &Sample) {
        self.paused -= other.paused;
        self.in_bursts -= other.in_bursts;
        self.others -= other.others;
        self.doubtful.iter_mut().zip(other.doubtful).for_each(|(mine, theirs)| *mine = mine.less(theirs));
        self.inside.iter_mut().zip(other.inside).for_each(|(mine, theirs)| *mine = mine.less(theirs));
        self.bytes = self.bytes.saturating_sub(other.bytes);
    }

    /// Returns the number of all operations.
    fn len(&self) -> u64 {
        self.timed + self.not_drawn + self.in_no_run()
    }

    /// Returns the mean size of a transfer, bytes; `None` if these are none.
    fn size(&self) -> Option<f64> {
        (self.bytes > 0).then(|| self.bytes as f64 / self.len().max(1) as f64)
    }

    /// Returns the time of `count` untimed operations that are in no run, ns.
    fn rest(&self, count: u64) -> Range {
        let mean = || self.windows.mean(self.in_no_run()).unwrap_or_else(|| self.bounds_of_others());
        self.assumed.unwrap_or_else(mean).times(count)
    }

    /// Whether there are enough draws and windows to estimate the time of the untimed ones.
    fn is_known(&self) -> bool {
        (self.not_drawn == 0 || self.has_draws()) && (self.in_no_run() == 0 || self.has_windows())
    }

    fn has_draws(&self) -> bool {
        self.drawn_rest().is_some()
    }

    /// Returns the time of those in runs that were not drawn, ns; `None` with too few draws.
    fn drawn_rest(&self) -> Option<Range> {
        let mean = self.known.value as f64 / self.timed.max(1) as f64;
        let variance = (self.squares / self.timed.max(1) as f64 - mean * mean).max(0.0);
        // Of equal times only rounding is left.
        let varies = self.shortest != Some(self.longest);
        self.draws.rest(if varies { variance } else { 0.0 })
    }

    fn has_windows(&self) -> bool {
        self.windows.mean(self.in_no_run()).is_some()
    }

    /// Returns the bounds of an untimed one where only the timed ones are known. Transfers of a few sizes are in one sample, and
    /// share the bus with others: what a few of them took bounds the rest only to a factor of two.
    fn bounds_of_others(&self) -> Range {
        let Range { lo, value, hi } = self.bounds();
        match self.size() {
            Some(_) if self.timed < LEAST => Range { lo: lo / 2.0, value, hi: hi * 2.0 },
            _ => Range { lo, value, hi },
        }
    }

    /// Returns the bounds of one operation where only the timed ones are known.
    fn bounds(&self) -> Range {
        let mean = |sum: u64| sum as f64 / self.timed.max(1) as f64;
        let shortest = self.shortest.unwrap_or(0) as f64;
        Range {
            lo: shortest.min(mean(self.known.lo)),
            value: mean(self.known.value),
            hi: mean(self.known.hi).max(self.longest as f64),
        }
    }
}

/// Whether a timed operation was drawn from a run.
pub fn is_drawn(body: &Body) -> bool {
    matches!(body, Body::Work(Work { call, .. }) if call.flags & flag::SAMPLED != 0)
}

/// The 99.5 % quantile of Student's t for 4 degrees of freedom or more: the Cornish-Fisher expansion in 1/ν
/// (Abramowitz and Stegun 26.7.5). It is 1 % low at 4 and closer beyond.
pub fn student(freedom: f64) -> f64 {
    let (z, v) = (Z, freedom);
    let powers = |c: [f64; 5]| c.iter().enumerate().map(|(i, c)| c * z.powi(2 * i as i32 + 1)).sum::<f64>();
    z + powers([1.0, 1.0, 0.0, 0.0, 0.0]) / (4.0 * v)
        + powers([3.0, 16.0, 5.0, 0.0, 0.0]) / (96.0 * v.powi(2))
        + powers([-15.0, 17.0, 19.0, 3.0, 0.0]) / (384.0 * v.powi(3))
        + powers([-945.0, -1920.0, 1482.0, 776.0, 79.0]) / (92160.0 * v.powi(4))
}

#[cfg(test)]
mod tests;
