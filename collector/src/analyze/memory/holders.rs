//! Who holds device memory: the rows.

use super::churn::Churn;
use super::lifetimes::{Lifetime, Lived};
use crate::analyze::merge::Merge;
use crate::analyze::source::Source;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// The most holders that are listed.
pub const LISTED: usize = 10;

/// Where memory was allocated. Blocks of the same origin are one holder; where holders are joined over threads and ranges,
/// it has those that they have in common.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Origin {
    /// The process.
    pub pid: Option<u32>,
    /// The thread's id in the system, if known.
    pub tid: Option<u32>,
    /// Where the call was made.
    pub source: Source,
    /// The API, by its base name; `None` for the row of all origins beyond the limit.
    pub api: Option<String>,
    /// The innermost NVTX range that was open.
    pub range: Option<String>,
    /// The kind of memory.
    pub kind: &'static str,
    /// The framework whose memory pool the library is.
    pub pool: Option<&'static str>,
}

/// Memory of one origin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Holder {
    /// Where it was allocated.
    pub origin: Origin,
    /// How much it is, bytes.
    pub bytes: u64,
    /// What its process held in all at that moment, bytes; 0 of memory that is of no moment.
    pub of: u64,
    /// The number of blocks.
    pub blocks: u64,
    /// The first and the last step in which one of them was allocated; `None` if none was allocated in a step.
    pub steps: Option<(u64, u64)>,
    /// When the first of them was allocated: ns since the collection began.
    pub first_ns: u64,
}

impl Holder {
    /// Adds what is of the same origin.
    pub fn join(&mut self, other: &Holder) {
        self.first_ns = if self.blocks == 0 { other.first_ns } else { self.first_ns.min(other.first_ns) };
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.blocks += other.blocks;
        self.steps = match (self.steps, other.steps) {
            (Some(mine), Some(theirs)) => Some((mine.0.min(theirs.0), mine.1.max(theirs.1))),
            (mine, theirs) => mine.or(theirs),
        };
    }
}

/// Memory that grows throughout the run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Growth {
    /// Whether the slope is per step; else it is per second.
    pub is_per_step: bool,
    /// The growth, bytes per step or per second.
    pub slope: f64,
    /// The least that was held in the first quarter after the warm-up, bytes.
    pub first: u64,
    /// The least that was held in the last quarter, bytes.
    pub last: u64,
    /// Who grows: by how much from the first to the last quarter, the most first.
    pub origins: Vec<(Origin, u64)>,
}

/// The state when an allocation failed because memory ran out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Failure {
    /// ns since the collection began.
    pub at: u64,
    /// The same of the first one of the process.
    pub first_at: u64,
    /// The call; its kind is not known.
    pub origin: Origin,
    /// The bytes that it asked for, if the trace has them.
    pub requested: Option<u64>,
    /// The device memory that was held, bytes.
    pub live: u64,
    /// How much of it was managed memory, which need not be on a GPU, bytes.
    pub managed: u64,
    /// What the process held of the rest on each of its GPUs, by their ordinals, bytes. A failed call does not say which it asked.
    pub by_gpu: BTreeMap<u32, u64>,
    /// Physical memory that was created and not mapped, bytes.
    pub unmapped: u64,
    /// Who held it, the most first.
    pub holders: Vec<Holder>,
    /// Whether the program launched work afterwards.
    pub went_on: bool,
}

/// Who holds device memory. Of several processes, each one's own peak and growth.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Holders {
    /// Who held it at the peak, the most first: at most [`LISTED`].
    pub at_peak: Vec<Holder>,
    /// Blocks by lifetime.
    pub lifetimes: BTreeMap<Lifetime, Lived>,
    /// The growth, if memory grows.
    pub growth: Option<Growth>,
    /// The growth of page-locked host memory, if that grows.
    pub page_locked: Option<Growth>,
    /// Blocks that were allocated after the warm-up at several times, and never freed; the most first.
    pub never_freed: Vec<Holder>,
    /// Allocations and frees after the warm-up.
    pub churn: Option<Churn>,
    /// The last allocation that failed because memory ran out. Of several processes, that of one which did not go on after
    /// it, if there is one.
    pub failure: Option<Failure>,
}

/// Sorts holders, and keeps those that are listed.
pub fn listed(mut holders: Vec<Holder>) -> Vec<Holder> {
    holders.retain(|holder| holder.bytes > 0);
    holders
        .sort_by(|one, other| (Reverse(one.bytes), &one.origin).cmp(&(Reverse(other.bytes), &other.origin)));
    holders.truncate(LISTED);
    holders
}

impl Merge for Holders {
    fn merge(&mut self, other: &Holders) {
        self.at_peak.extend(other.at_peak.iter().cloned());
        self.at_peak = listed(std::mem::take(&mut self.at_peak));
        for (lifetime, lived) in &other.lifetimes {
            self.lifetimes.entry(*lifetime).or_default().add(*lived);
        }
        let slope = |growth: &Option<Growth>| growth.as_ref().map_or(0.0, |growth| growth.slope);
        let grown = [(&mut self.growth, &other.growth), (&mut self.page_locked, &other.page_locked)];
        for (mine, theirs) in grown.into_iter().filter(|(mine, theirs)| slope(theirs) > slope(mine)) {
            mine.clone_from(theirs);
        }
        self.never_freed.extend(other.never_freed.iter().cloned());
        self.never_freed = listed(std::mem::take(&mut self.never_freed));
        let host_ns = |churn: &Option<Churn>| churn.as_ref().map_or(0, |churn| churn.counts.host_ns);
        if host_ns(&other.churn) > host_ns(&self.churn) {
            self.churn.clone_from(&other.churn);
        }
        let is_last = |failure: &Option<Failure>| failure.as_ref().map(|failure| !failure.went_on);
        if is_last(&other.failure) > is_last(&self.failure) {
            self.failure.clone_from(&other.failure);
        }
    }
}
