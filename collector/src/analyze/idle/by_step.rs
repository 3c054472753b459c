//! The idle time of a device in each step of the program, by cause.
//!
//! On a device a step begins when the first of its operations starts, and lasts until one of the next step does. A gap ends
//! when an operation starts, so no step begins inside of a gap: all of it lies in the step of the operations before it.

use super::super::identity::PARTS;
use super::Cause;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// The number of steps at the start that can be warm-up. They are kept one by one.
pub const FIRST: usize = 64;
/// The number of steps with most idle time that are kept one by one.
const MOST: usize = 64;

/// Idle time by [`Cause`], ns.
pub type Causes = [u64; Cause::COUNT];

/// What the time of a timeline went to before the first step, if the program only set itself up until then, ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BeforeSteps {
    /// By [`Part`](super::super::identity::Part).
    pub parts: [u64; PARTS],
    /// The idle time by cause.
    pub idle: Causes,
}

impl BeforeSteps {
    /// Adds another timeline's.
    pub fn add(&mut self, other: &BeforeSteps) {
        self.parts.iter_mut().zip(other.parts).for_each(|(sum, ns)| *sum = sum.saturating_add(ns));
        add(&mut self.idle, &other.idle);
    }
}

/// The idle time of a timeline by step. Its size does not grow with the number of steps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StepIdle {
    /// The first steps that have idle time, one by one, because they may be warm-up.
    first: BTreeMap<u64, Causes>,
    /// The sum of the steps after those.
    rest: Causes,
    /// Of the steps after those, the ones with most idle time.
    most: Vec<(u64, Causes)>,
    /// The step that the device is in.
    open: Option<(u64, Causes)>,
}

impl StepIdle {
    /// An operation of this step starts.
    pub fn reach(&mut self, step: u64) {
        if self.open.as_ref().is_some_and(|(open, _)| *open >= step) {
            return;
        }
        if let Some((over, causes)) = self.open.replace((step, [0; Cause::COUNT]))
            && total(&causes) > 0
        {
            self.close(over, causes);
        }
    }

    /// Whether the first step has begun.
    pub fn has_begun(&self) -> bool {
        self.open.is_some()
    }

    /// Returns the step that the device is in, if that is one of the first.
    pub fn first_now(&self) -> Option<u64> {
        self.open.as_ref().map(|(step, _)| *step).filter(|step| *step < FIRST as u64)
    }

    /// Adds a part of a gap to the step that the device is in.
    pub fn add(&mut self, cause: Cause, ns: u64) {
        if let Some((_, causes)) = self.open.as_mut() {
            causes[cause as usize] = causes[cause as usize].saturating_add(ns);
        }
    }

    /// Returns the idle time of the steps from `from` on and before `to`. `from` is at most the first step after the
    /// warm-up, and `to` at least the last one of the program.
    pub fn between(&self, from: u64, to: u64) -> Causes {
        let mut all = self.rest;
        let single = self.first.iter().map(|(step, causes)| (*step, causes));
        let open = self.open.as_ref().map(|(step, causes)| (*step, causes));
        for (_, causes) in single.chain(open).filter(|(step, _)| (from..to).contains(step)) {
            add(&mut all, causes);
        }
        all
    }

    /// Returns the idle time of the steps before `to`, which is at most the first step after the warm-up.
    pub fn until(&self, to: u64) -> Causes {
        let mut all = [0; Cause::COUNT];
        let open = self.open.as_ref().map(|(step, causes)| (step, causes));
        for (_, causes) in self.first.iter().chain(open).filter(|(step, _)| **step < to) {
            add(&mut all, causes);
        }
        all
    }

    /// Returns the idle time of one step, if that is kept.
    pub fn of(&self, step: u64) -> Option<&Causes> {
        let most = self.most.iter().chain(&self.open).find(|(kept, _)| *kept == step);
        self.first.get(&step).or(most.map(|(_, causes)| causes))
    }

    fn close(&mut self, step: u64, causes: Causes) {
        if self.first.len() < FIRST {
            self.first.insert(step, causes);
            return;
        }
        add(&mut self.rest, &causes);
        self.most.push((step, causes));
        // Sorting twice as many seldom costs less than finding the least each time.
        if self.most.len() >= 2 * MOST {
            self.most.sort_by_key(|(_, causes)| Reverse(total(causes)));
            self.most.truncate(MOST);
        }
    }
}

/// Returns the sum of all causes, ns.
pub fn total(causes: &Causes) -> u64 {
    causes.iter().fold(0, |sum, ns| sum.saturating_add(*ns))
}

/// Adds idle time, cause by cause.
pub fn add(sum: &mut Causes, causes: &Causes) {
    sum.iter_mut().zip(causes).for_each(|(sum, ns)| *sum = sum.saturating_add(*ns));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(count: u64, of: impl Fn(u64) -> (Cause, u64)) -> StepIdle {
        let mut idle = StepIdle::default();
        // No step has begun, so this is of none.
        idle.add(Cause::SetUp, 1_000_000);
        for step in 0..count {
            idle.reach(step);
            let (cause, ns) = of(step);
            idle.add(cause, ns);
        }
        idle
    }

    fn found(causes: &Causes) -> Vec<(Cause, u64)> {
        Cause::ALL
            .into_iter()
            .map(|cause| (cause, causes[cause as usize]))
            .filter(|(_, ns)| *ns > 0)
            .collect()
    }

    #[test]
    fn each_step_has_its_own_causes_and_the_last_one_is_not_over() {
        let idle =
            steps(11, |step| if step % 10 == 7 { (Cause::Allocating, 500) } else { (Cause::Launching, 20) });
        assert_eq!(found(&idle.between(0, 10)), [(Cause::Allocating, 500), (Cause::Launching, 180)]);
        assert_eq!(found(&idle.between(3, 11)), [(Cause::Allocating, 500), (Cause::Launching, 140)]);
        assert_eq!(idle.of(7).map(found), Some(vec![(Cause::Allocating, 500)]));
        assert_eq!(idle.of(11), None);
    }

    #[test]
    fn a_step_goes_on_until_an_operation_of_a_later_one_starts() {
        let mut idle = StepIdle::default();
        for (step, ns) in [(4, 10), (4, 20), (3, 40), (6, 80), (5, 160)] {
            idle.reach(step);
            idle.add(Cause::Starting, ns);
        }
        assert_eq!(idle.of(4).map(found), Some(vec![(Cause::Starting, 70)]));
        assert_eq!(idle.of(6).map(found), Some(vec![(Cause::Starting, 240)]));
    }

    #[test]
    fn of_many_steps_those_with_most_idle_time_are_kept_and_the_sum_is_exact() {
        let of = |step| (Cause::OutsideCuda, if step % 1_000 == 999 { 5_000 + step } else { 10 });
        let idle = steps(20_001, of);
        let expected: u64 = (5..20_000).map(|step| of(step).1).sum();
        assert_eq!(found(&idle.between(5, 20_000)), [(Cause::OutsideCuda, expected)]);
        for step in (999..20_000).step_by(1_000) {
            assert_eq!(idle.of(step).map(found), Some(vec![(Cause::OutsideCuda, 5_000 + step)]));
        }
        assert!(idle.most.len() < 2 * MOST && idle.first.len() == FIRST);
    }
}
