//! How long do the same kernels take over the run?
//!
//! Kernels are the same if their kind is ([`Like`]): launches of one with one grid, block and shared memory size, and launches of
//! a graph. Steps in a row that take longer because each of their kernels does point to the GPU: its clocks, or another program on
//! it. Only lengths that the events determine are used: others may be taken from what is typical. How long copies take depends on the
//! host, too, and how long a collective takes on the other ranks.

use crate::hash::HashMap;
use crate::model::typical::Like;
use crate::model::{Action, Operation, When};
use crate::trace::record::{Body, Record};
use std::ops::Range;

/// The most parts of the run, each a power of two of steps.
const PARTS: usize = 240;
/// The most kinds, which are the first ones.
const KINDS: usize = 256;
/// The fewest launches of a kind in each of two groups of steps for which it is compared.
const FEWEST: u64 = 3;
/// The share of the time of some steps' kernels that must be of compared kinds.
const MOSTLY: f64 = 0.5;
/// By how much the launches in a step may differ, as a share, for steps to do the same.
const SAME: f64 = 0.05;

/// The launches of a kind.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    count: u64,
    ns: u64,
}

impl Sum {
    fn add(&mut self, other: Sum) {
        self.count += other.count;
        self.ns = self.ns.saturating_add(other.ns);
    }

    fn mean(self) -> f64 {
        self.ns as f64 / self.count as f64
    }
}

/// The launches of some steps in a row.
#[derive(Clone, Debug, Default)]
struct Part {
    launches: u64,
    /// By the number of the kind.
    kinds: Vec<Sum>,
    /// ns of further kinds.
    others: u64,
}

impl Part {
    fn add(&mut self, other: &Part) {
        self.launches += other.launches;
        self.others = self.others.saturating_add(other.others);
        if self.kinds.len() < other.kinds.len() {
            self.kinds.resize_with(other.kinds.len(), Sum::default);
        }
        self.kinds.iter_mut().zip(&other.kinds).for_each(|(sum, other)| sum.add(*other));
    }

    /// Returns how many times as long its kernels take as the same ones of `usual`, if most of them are known in both.
    fn times_as_long_as(&self, usual: &Part) -> Option<f64> {
        let all = self.kinds.iter().fold(self.others, |all, sum| all.saturating_add(sum.ns));
        let (mut own, mut expected) = (0, 0.0);
        let both = self.kinds.iter().zip(&usual.kinds);
        for (here, there) in both.filter(|(here, there)| here.count.min(there.count) >= FEWEST) {
            own += here.ns;
            expected += here.count as f64 * there.mean();
        }
        let is_known = own > 0 && expected > 0.0 && own as f64 >= all as f64 * MOSTLY;
        is_known.then(|| own as f64 / expected)
    }
}

/// How long the same kernels take over the run.
#[derive(Debug, Default)]
pub(super) struct Speed {
    kinds: HashMap<Like, usize>,
    parts: Vec<Part>,
    /// The steps of a part are two to the power of this.
    doublings: u32,
    /// The first step.
    from: Option<u64>,
}

/// Two groups of steps, compared.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Compared {
    /// Whether they launch as much.
    pub is_same: bool,
    /// How many times as long the same kernels take on the GPU, if that is known.
    pub times: Option<f64>,
}

impl Speed {
    /// Takes the next operation, which is of this step, and its record.
    pub(super) fn observe(&mut self, operation: &Operation, record: &Record, step: u64) {
        let is_launch = matches!(operation.what, Action::Kernel { .. } | Action::Graph { .. });
        if !is_launch || operation.when == When::Captured {
            return;
        }
        let waits_for_ranks = matches!(operation.what, Action::Kernel { communication: true, .. });
        let timed = match (operation.when, &record.body) {
            (When::Timed(interval), Body::Work(work)) if !waits_for_ranks && !interval.length.is_wide() => {
                Like::of(work, None).map(|like| (like, interval.value()))
            }
            _ => None,
        };
        self.launched(step, timed);
    }

    /// Takes a launch: its kind and how long it took, ns, if both are known.
    fn launched(&mut self, step: u64, timed: Option<(Like, u64)>) {
        let timed = timed.map(|(like, ns)| (self.kind(like), ns));
        let part = self.part(step);
        part.launches += 1;
        match timed {
            None => {}
            Some((None, ns)) => part.others = part.others.saturating_add(ns),
            Some((Some(kind), ns)) => {
                if part.kinds.len() <= kind {
                    part.kinds.resize_with(kind + 1, Sum::default);
                }
                part.kinds[kind].add(Sum { count: 1, ns });
            }
        }
    }

    /// Returns the number of a kind; `None` if there are too many.
    fn kind(&mut self, like: Like) -> Option<usize> {
        let known = self.kinds.len();
        match self.kinds.get(&like) {
            Some(kind) => Some(*kind),
            None if known < KINDS => {
                self.kinds.insert(like, known);
                Some(known)
            }
            None => None,
        }
    }

    fn part(&mut self, step: u64) -> &mut Part {
        let after = step.saturating_sub(*self.from.get_or_insert(step));
        while after >> self.doublings >= PARTS as u64 {
            let one = |two: &[Part]| {
                let mut whole = Part::default();
                two.iter().for_each(|part| whole.add(part));
                whole
            };
            self.parts = self.parts.chunks(2).map(one).collect();
            self.doublings += 1;
        }
        let at = (after >> self.doublings) as usize;
        if self.parts.len() <= at {
            self.parts.resize_with(at + 1, Part::default);
        }
        &mut self.parts[at]
    }

    /// Compares steps with those that `is_usual` says of; `None` if there are none of either.
    pub(super) fn compare(
        &self,
        steps: &Range<u64>,
        is_usual: impl Fn(Range<u64>) -> bool,
    ) -> Option<Compared> {
        let width = 1 << self.doublings;
        let (mut here, mut there) = ((0, Part::default()), (0, Part::default()));
        // The last part is not over.
        for (at, part) in (0..).zip(&self.parts[..self.parts.len().saturating_sub(1)]) {
            let first = self.from? + at * width;
            let of = first..first + width;
            let (count, sum) = match () {
                () if steps.start <= of.start && of.end <= steps.end => &mut here,
                () if is_usual(of) => &mut there,
                () => continue,
            };
            *count += width;
            sum.add(part);
        }
        let per_step = |(count, sum): &(u64, Part)| (*count > 0).then(|| sum.launches as f64 / *count as f64);
        let (own, usual) = (per_step(&here)?, per_step(&there)?);
        Some(Compared {
            is_same: (own - usual).abs() <= SAME * usual,
            times: here.1.times_as_long_as(&there.1),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernel(name: u32, blocks: u32) -> Like {
        Like::Kernel { name, grid: [blocks, 1, 1], block: [128, 1, 1], shared_bytes: 0 }
    }

    /// Steps of a kernel whose grid is `blocks`, for as many ns each as `length` says.
    fn steps(count: u64, of: impl Fn(u64) -> (u32, u64)) -> Speed {
        let mut speed = Speed::default();
        for step in 100..100 + count {
            let (blocks, ns) = of(step);
            speed.launched(step, Some((kernel(1, blocks), ns)));
        }
        speed
    }

    fn compared(speed: &Speed, slow: Range<u64>) -> Option<Compared> {
        let range = slow.clone();
        speed.compare(&slow, move |of| of.end <= range.start || range.end <= of.start)
    }

    #[test]
    fn the_same_kernels_take_longer_in_some_steps() {
        for count in [200, 240, 5_000, 100_000] {
            let slow = 100 + count / 4..100 + count / 2;
            let speed = steps(count, |step| (7, if slow.contains(&step) { 1_300 } else { 1_000 }));
            let Some(Compared { is_same: true, times: Some(times) }) = compared(&speed, slow) else {
                panic!()
            };
            assert!((times - 1.3).abs() < 0.005, "{count} steps: {times}");
            assert!(speed.parts.len() <= PARTS);
        }
    }

    #[test]
    fn kernels_of_other_shapes_are_not_compared() {
        let slow = 150..200;
        let speed = steps(200, |step| if slow.contains(&step) { (9, 1_300) } else { (7, 1_000) });
        assert_eq!(compared(&speed, slow), Some(Compared { is_same: true, times: None }));
    }

    #[test]
    fn steps_that_launch_more_are_not_the_same() {
        let slow = 150..200;
        let mut speed = steps(200, |_| (7, 1_000));
        for step in slow.clone() {
            speed.launched(step, None);
        }
        assert_eq!(compared(&speed, slow.clone()), Some(Compared { is_same: false, times: Some(1.0) }));
        assert_eq!(compared(&Speed::default(), slow), None);
    }

    #[test]
    fn many_kinds_take_bounded_memory_and_say_nothing() {
        let mut speed = Speed::default();
        for step in 0..20_000u64 {
            let ns = if step < 10_000 { 1_000 } else { 2_000 };
            speed.launched(step, Some((kernel(1, step as u32), ns)));
        }
        assert_eq!((speed.kinds.len(), compared(&speed, 10_000..20_000).unwrap().times), (KINDS, None));
    }
}
