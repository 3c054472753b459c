//! Idle gaps: when a GPU had nothing to do, and which operations were on both sides.
//!
//! A gap is a longest interval between two operations in which, by the best estimate, nothing ran on the timeline.
//! [`sweep`] finds gaps, this module counts them, and [`rows`] names the operations and libraries beside them.

pub mod cover;
pub mod edges;
pub mod rows;
pub mod sweep;

use super::estimate::{Estimate, Sum};
use super::idle::lead::LeadNumber;
use super::idle::split::Divided;
use crate::hash::HashMap;
use crate::model::Action;
use crate::model::stacks::Caller;
use parking_lot::Mutex;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

/// The number of the largest gaps that are listed.
pub const LARGEST: usize = 10;
/// The number of the largest gaps that are kept with their neighbors: they show the pauses that a program makes now and then.
pub const KEPT: usize = 64;

/// The upper bounds of the bands that gaps are counted in by their length, ns. Longer gaps are a band of their own.
pub const BANDS: [u64; 4] = [10_000, 100_000, 1_000_000, 10_000_000];

/// A part of the gaps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Part {
    /// The number of gaps.
    pub count: u64,
    /// Their total by the best values, ns.
    pub total: u64,
}

impl Part {
    /// Adds another.
    pub fn add(&mut self, other: Part) {
        self.count += other.count;
        self.total = self.total.saturating_add(other.total);
    }
}

/// An operation at the edge of a gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Neighbour {
    /// Its correlation.
    pub correlation: u64,
    /// What it does.
    pub what: Action,
    /// Where its call was made.
    pub caller: Caller,
    /// The clock that placed it; `None` for untimed work, whose place already includes the clocks' interval.
    pub lane: Option<Lane>,
    /// It did not end before this: host ns on the line.
    pub earliest_end: i64,
    /// It did not start after this: host ns on the line.
    pub latest_start: i64,
    /// The thread that enqueued it, and what that did before.
    pub lead: LeadNumber,
}

/// A time base of a context: distances within it are exact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lane {
    /// The context.
    pub context: u32,
    /// Its time base.
    pub time_base: u32,
    /// How far its place on the line can be from the true one, ns; `None` if that is not known.
    pub off_by: Option<u64>,
}

impl Lane {
    /// Returns how far its place on the line can be from the true one, ns.
    pub fn off_by(self) -> u64 {
        self.off_by.unwrap_or(u64::MAX)
    }

    /// Returns how far the distance of two places can be off because of their clocks, ns; 0 within one lane.
    pub fn doubt(self, other: Lane) -> u64 {
        if (self.context, self.time_base) == (other.context, other.time_base) {
            return 0;
        }
        self.off_by().saturating_add(other.off_by())
    }
}

impl Neighbour {
    /// Returns how far its place on the line can be from the true one, ns; 0 if its bounds already include that.
    pub fn off_by(&self) -> u64 {
        self.lane.map_or(0, Lane::off_by)
    }

    /// Returns how far the distance of two can be off because of their clocks, ns; 0 if a place already includes that.
    pub fn doubt(&self, other: &Neighbour) -> u64 {
        self.lane.zip(other.lane).map_or(0, |(this, other)| this.doubt(other))
    }
}

/// A gap.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gap {
    /// ns from the start of its timeline's span.
    pub start: u64,
    /// Its length, ns.
    pub duration: Estimate<u64>,
    /// The operation before it.
    pub before: Neighbour,
    /// The operation after it.
    pub after: Neighbour,
    /// What the host was doing in it.
    pub host: Divided,
    /// The thread that led it: the number of its process on the line, and its own there.
    pub leader: Option<(u32, u32)>,
}

/// A gap of a device, and when it was: host ns on the line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LoggedGap {
    /// The device's ordinal; `None` if it is not known.
    pub device: Option<u32>,
    /// Its start.
    pub start: i64,
    /// The gap.
    pub gap: Gap,
}

/// Gaps as they are found, for a reader on another thread.
#[derive(Clone, Debug, Default)]
pub struct GapLog(Arc<Mutex<Vec<LoggedGap>>>);

impl GapLog {
    /// Adds a gap.
    pub fn add(&self, gap: LoggedGap) {
        self.0.lock().push(gap);
    }

    /// Takes all gaps that were added since.
    pub fn take(&self) -> Vec<LoggedGap> {
        std::mem::take(&mut *self.0.lock())
    }
}

/// Gaps of one or more timelines.
#[derive(Clone, Debug, Default)]
pub struct Gaps {
    count: u64,
    total: Sum,
    bands: [Part; BANDS.len() + 1],
    /// By where the operation was called that ended the gap.
    callers: HashMap<Caller, Part>,
    largest: BinaryHeap<Reverse<Ranked>>,
}

/// The gaps of a device.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// How many there are.
    pub count: u64,
    /// Their total length, ns.
    pub total: Sum,
    /// The same by length, see [`BANDS`].
    pub bands: [Part; BANDS.len() + 1],
    /// By where the operation was called that ended the gap.
    pub callers: HashMap<Caller, Part>,
    /// The largest, longest first.
    pub largest: Vec<Gap>,
}

impl Gaps {
    /// Counts a gap. The total's `hi` is not the sum of the gaps' own: it is that of the idle time, see
    /// [`Gaps::finish`].
    pub fn add(&mut self, gap: Gap) {
        self.count += 1;
        let Estimate { value, lo, hi, .. } = gap.duration;
        self.total.add(Sum { value, lo, hi });
        let one = Part { count: 1, total: value };
        self.bands[BANDS.partition_point(|bound| *bound <= value)].add(one);
        self.callers.entry(gap.after.caller).or_default().add(one);
        self.keep(gap);
    }

    /// Adds the gaps of another timeline.
    pub fn merge(&mut self, other: Gaps) {
        self.count += other.count;
        self.total.add(other.total);
        for (mine, theirs) in self.bands.iter_mut().zip(other.bands) {
            mine.add(theirs);
        }
        for (caller, theirs) in other.callers {
            self.callers.entry(caller).or_default().add(theirs);
        }
        for Reverse(ranked) in other.largest {
            self.keep(ranked.0);
        }
    }

    /// Returns the gaps of a device that was idle for at most `idle_hi` ns.
    pub fn finish(self, idle_hi: u64) -> Found {
        let mut largest: Vec<Gap> = self.largest.into_iter().map(|Reverse(ranked)| ranked.0).collect();
        largest.sort_by_key(|gap| (Reverse(gap.duration.value), gap.start));
        let Gaps { count, bands, callers, .. } = self;
        Found { count, total: Sum { hi: idle_hi, ..self.total }, bands, callers, largest }
    }

    fn keep(&mut self, gap: Gap) {
        let gap = Ranked(gap);
        if self.largest.len() < KEPT {
            self.largest.push(Reverse(gap));
        } else if let Some(mut least) = self.largest.peek_mut()
            && least.0 <= gap
        {
            *least = Reverse(gap);
        }
    }
}

/// A gap ordered by its length; of two equal ones the earlier is the larger.
#[derive(Clone, Copy, Debug)]
struct Ranked(Gap);

impl Ranked {
    fn rank(&self) -> (u64, Reverse<u64>, Reverse<u64>) {
        (self.0.duration.value, Reverse(self.0.start), Reverse(self.0.after.correlation))
    }
}

impl PartialEq for Ranked {
    fn eq(&self, other: &Self) -> bool {
        self.rank() == other.rank()
    }
}
impl Eq for Ranked {}
impl PartialOrd for Ranked {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Ranked {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.rank().cmp(&other.rank())
    }
}
