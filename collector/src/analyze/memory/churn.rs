//! Allocations and frees while work is being done: after the warm-up, and followed by more work.
//!
//! What is allocated before the first operation, and freed after the last, costs once. Stream-ordered calls
//! (`cuMemAllocAsync`) do not count: they take memory from a pool and wait for nothing.

use super::holders::Origin;
use super::stretches::{Join, Stretches};
use crate::hash::HashMap;
use crate::model::Event;
use crate::model::stacks::Caller;
use crate::trace::record::Body;
use gpuspy_wire::record::{Memory, flag};

/// The most stretches that are kept.
const STRETCHES: usize = 128;

/// So many stretches of time are one, where no steps are known: a step of the program may be longer than one.
const OF_TIME: usize = 8;

/// Calls that allocate or free.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Allocations.
    pub allocations: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Frees.
    pub frees: u64,
    /// The host time of both, ns.
    pub host_ns: u64,
    /// When the first of them was called: host ns.
    pub first: Option<u64>,
}

impl Counts {
    fn is_none(&self) -> bool {
        self.allocations + self.frees == 0
    }
}

impl Join for Counts {
    fn join(self, other: Counts) -> Counts {
        Counts {
            allocations: self.allocations + other.allocations,
            bytes: self.bytes.saturating_add(other.bytes),
            frees: self.frees + other.frees,
            host_ns: self.host_ns.saturating_add(other.host_ns),
            first: self.first.into_iter().chain(other.first).min(),
        }
    }
}

/// Allocations and frees after the warm-up (the first eighth).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Churn {
    /// What they were.
    pub counts: Counts,
    /// The steps after the warm-up; `None` without steps.
    pub steps: Option<u64>,
    /// The share of the stretches of steps after the warm-up in which there was one, without steps of an eighth to a sixteenth of the run,
    /// 0 to 1.
    pub spread: f64,
    /// The share of the host time of all allocations and frees since the first operation that such calls take at the rate
    /// that they have after the warm-up, 0 to 1. The rest is done once.
    pub share: f64,
    /// What took the most host time of them.
    pub origin: Origin,
    /// When the first of them was called: ns since the collection began.
    pub first_ns: u64,
}

/// Where in the run something happens: as of the last operation.
#[derive(Clone, Copy, Debug, Default)]
pub struct Place {
    /// The number of operations so far.
    pub operations: u64,
    /// Of those, operations in the selected time.
    pub selected: u64,
    /// The step.
    pub step: Option<u64>,
    /// Steps since the first one with an operation in the selected time; `None` before, and the last one after it.
    pub steps: Option<u64>,
    /// µs since the first operation in the selected time, in the same way.
    pub micros: Option<u64>,
}

impl Place {
    /// Whether there are enough steps to judge by them.
    pub fn is_in_steps(&self) -> bool {
        self.steps.is_some_and(|last| last >= 8)
    }
}

/// The fold.
#[derive(Debug)]
pub struct ChurnFold {
    /// By thread: an allocation (with its bytes) or a free whose call has not been counted.
    open: HashMap<u32, Counts>,
    /// What no operation has followed yet, and where that was.
    latest: (Counts, Place),
    steps: Stretches<Counts>,
    time: Stretches<Counts>,
    /// Host ns by API, and by where it was called. Programs call from few places.
    by_site: HashMap<(u16, Caller), u64>,
}

impl Default for ChurnFold {
    fn default() -> Self {
        let stretches = || Stretches::new(STRETCHES);
        ChurnFold {
            open: HashMap::default(),
            latest: Default::default(),
            steps: stretches(),
            time: stretches(),
            by_site: HashMap::default(),
        }
    }
}

impl ChurnFold {
    /// Takes an event at a place of the run. `is_counted`: its call passes the filter.
    pub fn observe(&mut self, event: &Event<'_>, place: Place, is_counted: bool) {
        let thread = event.record.thread;
        let one = match &event.record.body {
            Body::Alloc(alloc) if is_slow(alloc.memory, alloc.call.flags) => {
                Some(Counts { allocations: 1, bytes: alloc.bytes, ..Counts::default() })
            }
            Body::Free(free) if is_slow(free.memory, free.call.flags) && free.address != 0 => {
                Some(Counts { frees: 1, ..Counts::default() })
            }
            _ if self.open.is_empty() => return,
            _ => None,
        };
        if let Some(one) = one {
            self.open.insert(thread, one);
        }
        let Some((counted, call)) = event.call.zip(event.record.body.call()) else { return };
        let Some(counts) = self.open.remove(&thread) else { return };
        if counted.failed || !is_counted || place.micros.is_none() {
            return;
        }
        let host_ns = counted.host_ns;
        let site = self.by_site.entry((counted.api, event.caller)).or_default();
        *site = site.saturating_add(host_ns);
        self.settle(place);
        self.latest.0 = self.latest.0.join(Counts { host_ns, first: Some(call.begin), ..counts });
        self.latest.1 = place;
    }

    /// Counts the latest calls if an operation has followed them.
    fn settle(&mut self, now: Place) {
        let (counts, place) = self.latest;
        if now.operations == place.operations || counts.is_none() {
            return;
        }
        self.latest.0 = Counts::default();
        if let Some(step) = place.steps {
            let here = self.steps.at(step, Counts::default());
            *here = here.join(counts);
        }
        if let Some(micros) = place.micros {
            let here = self.time.at(micros, Counts::default());
            *here = here.join(counts);
        }
    }

    /// Returns the API and the return address that took the most host time.
    pub fn most(&self) -> Option<(u16, Caller)> {
        self.by_site.iter().max_by_key(|(site, ns)| (**ns, **site)).map(|(site, _)| *site)
    }

    /// Returns the row, at the end of a run that began at host ns `began`; `origin` is that of [`most`](Self::most).
    pub fn finish(mut self, end: Place, began: u64, origin: Origin) -> Option<Churn> {
        self.settle(end);
        let is_in_steps = end.is_in_steps();
        let (mut of, last) = if is_in_steps {
            (self.steps, end.steps.unwrap_or(0))
        } else {
            (self.time, end.micros.unwrap_or(0))
        };
        of.at(last, Counts::default());
        let from = of.values.len().div_ceil(8).max(1);
        let sum = |of: &[Counts]| of.iter().fold(Counts::default(), |sum, counts| sum.join(*counts));
        let (all, steady) = (sum(&of.values), of.values.get(from..)?);
        let counts = sum(steady);
        if counts.is_none() {
            return None;
        }
        let parts = steady.chunks(if is_in_steps { 1 } else { OF_TIME });
        let parts: Vec<bool> = parts.map(|part| part.iter().any(|counts| !counts.is_none())).collect();
        let some = parts.iter().filter(|has_some| **has_some).count();
        let steps = is_in_steps.then(|| (last + 1).saturating_sub(from as u64 * of.length));
        let spread = some as f64 / parts.len() as f64;
        let whole = counts.host_ns as f64 * of.values.len() as f64 / steady.len() as f64;
        let share = (whole / all.host_ns.max(1) as f64).min(1.0);
        let first_ns = counts.first?.saturating_sub(began);
        Some(Churn { counts, steps, spread, share, origin, first_ns })
    }
}

/// Whether allocating or freeing memory of this kind takes the driver's time: not from a pool, and not in a capture.
fn is_slow(memory: Memory, flags: u16) -> bool {
    let is_slow =
        matches!(memory, Memory::Device | Memory::Managed | Memory::Array | Memory::Mapped | Memory::Pinned);
    is_slow && flags & (flag::CAPTURED | flag::FAILED) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first of those "after the warm-up" was a weight of the set-up, six seconds before the loop.
    #[test]
    fn the_first_call_after_the_warm_up_is_none_of_the_set_up() {
        let mut fold = ChurnFold::default();
        for step in 0..16 {
            let one =
                Counts { allocations: 1, frees: 1, first: Some(1_000 + 10 * step), ..Counts::default() };
            *fold.steps.at(step, Counts::default()) = one;
        }
        let churn =
            fold.finish(Place { steps: Some(16), ..Place::default() }, 900, Origin::default()).unwrap();
        assert_eq!((churn.counts.allocations, churn.first_ns), (13, 130));
    }

    /// Of a program without steps that allocates in each of 40 turns, fewer than half of the stretches had calls: they are shorter than a
    /// turn. Its verdict was "allocation-bound", without a finding.
    #[test]
    fn without_steps_calls_need_not_be_in_each_of_many_stretches() {
        let spread = |turns: &[u64]| {
            let mut fold = ChurnFold::default();
            for turn in turns {
                let one = Counts { allocations: 6, frees: 6, first: Some(1_000), ..Counts::default() };
                *fold.time.at(turn * 7_000, Counts::default()) = one;
            }
            let end = Place { micros: Some(40 * 7_000), ..Place::default() };
            fold.finish(end, 900, Origin::default()).unwrap().spread
        };
        let each: Vec<u64> = (0..40).collect();
        assert!(spread(&each) > 0.9, "{}", spread(&each));
        assert!(spread(&each[10..20]) < 0.5, "they are of one phase");
    }
}
