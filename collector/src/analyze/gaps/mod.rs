//! When did the GPU have nothing to do, and what was on both sides?
//!
//! A gap is a longest stretch between two operations in which, by the best estimate, nothing ran on the timeline.

pub mod rows;
pub mod sweep;

use super::estimate::{Estimate, Sum};
use crate::model::Action;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

/// How many of the largest gaps are kept with their neighbours.
pub const LARGEST: usize = 10;

/// Gaps are told apart by how long they were: below so many ns each, and longer ones.
pub const BANDS: [u64; 4] = [10_000, 100_000, 1_000_000, 10_000_000];

/// A part of the gaps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Part {
    /// How many.
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
    /// Return address of its call.
    pub caller: u64,
    /// The clock that placed it; `None` for untimed work, whose place holds the clocks' interval.
    pub lane: Option<Lane>,
    /// It did not end before: host ns on the line.
    pub earliest_end: i64,
    /// It did not begin after: host ns on the line.
    pub latest_start: i64,
}

/// A time base of a context: distances in it are exact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lane {
    /// The context.
    pub context: u32,
    /// Its time base.
    pub time_base: u32,
    /// How far from the truth its place on the line can be, ns; `None` = not known.
    pub off_by: Option<u64>,
}

impl Neighbour {
    /// How far from the truth its place on the line can be, ns: not at all where that is in its bounds already.
    pub fn off_by(&self) -> u64 {
        self.lane.map_or(0, |lane| lane.off_by.unwrap_or(u64::MAX))
    }

    /// How far off the distance of two can be for their clocks' sake, ns: not at all within one lane.
    pub fn doubt(&self, other: &Neighbour) -> u64 {
        let is_same = |a: Lane, b: Lane| (a.context, a.time_base) == (b.context, b.time_base);
        match (self.lane, other.lane) {
            (Some(a), Some(b)) if !is_same(a, b) => {
                a.off_by.zip(b.off_by).map_or(u64::MAX, |(a, b)| a.saturating_add(b))
            }
            _ => 0,
        }
    }
}

/// A gap.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gap {
    /// ns from the begin of its timeline's span.
    pub start: u64,
    /// How long it was.
    pub duration: Estimate<u64>,
    /// What ran before it.
    pub before: Neighbour,
    /// What ran after it.
    pub after: Neighbour,
}

/// Gaps of one or more timelines.
#[derive(Clone, Debug, Default)]
pub struct Gaps {
    count: u64,
    total: Sum,
    bands: [Part; BANDS.len() + 1],
    /// By the return address of the call whose operation ended the gap.
    callers: HashMap<u64, Part>,
    largest: BinaryHeap<Reverse<Ranked>>,
}

/// All about the gaps of a device.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// How many.
    pub count: u64,
    /// Their total, ns.
    pub total: Sum,
    /// By length, see [`BANDS`].
    pub bands: [Part; BANDS.len() + 1],
    /// By the return address of the call whose operation ended the gap.
    pub callers: HashMap<u64, Part>,
    /// The largest, longest first.
    pub largest: Vec<Gap>,
}

impl Gaps {
    /// Counts a gap. `hi` of the total is not a sum of gaps' own: it is the idle time's, see [`Gaps::finish`].
    pub fn add(&mut self, gap: Gap) {
        self.count += 1;
        let Estimate { value, lo, hi, .. } = gap.duration;
        self.total.add(Sum { value, lo, hi });
        let one = Part { count: 1, total: value };
        self.bands[BANDS.partition_point(|bound| *bound <= value)].add(one);
        self.callers.entry(gap.after.caller).or_default().add(one);
        self.keep(gap);
    }

    /// Takes over another's.
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

    /// All about them, given that the device was idle for at most `idle_hi` ns.
    pub fn finish(self, idle_hi: u64) -> Found {
        let mut largest: Vec<Gap> = self.largest.into_iter().map(|Reverse(ranked)| ranked.0).collect();
        largest.sort_by_key(|gap| (Reverse(gap.duration.value), gap.start));
        let Gaps { count, bands, callers, .. } = self;
        Found { count, total: Sum { hi: idle_hi, ..self.total }, bands, callers, largest }
    }

    fn keep(&mut self, gap: Gap) {
        self.largest.push(Reverse(Ranked(gap)));
        if self.largest.len() > LARGEST {
            self.largest.pop();
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
