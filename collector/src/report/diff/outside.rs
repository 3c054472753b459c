//! By how much do two runs of as many steps differ outside of their steps?
//!
//! A change is that of a step, and a run has more: a wait that drains the GPU before the program writes a checkpoint, a test at the end.
//! What a program does to prepare, as imports, takes longer in one run than in another, and is none of that: it is shown by itself.

use super::change::{Change, far, on_gpu};
use crate::analyze::idle::Cause;
use crate::diagnose::buckets::Bucket;
use crate::report::rows::Report;
use crate::report::rows::steps::Steps;
use crate::report::units::duration;
use schemars::JsonSchema;
use serde::Serialize;

/// What two runs of as many steps differ by outside of them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Outside {
    /// By how much longer the second run is than its steps say, from its first GPU operation to its last and without set-up; negative: it is
    /// shorter.
    pub ns: f64,
    /// The same as a share of that time in the run before.
    pub share: f64,
    /// That time in both runs, ns.
    #[serde(skip)]
    runs: [u64; 2],
}

/// The least difference that is worth a word, as a share of the longer run.
const LEAST: f64 = 0.1;

/// Returns by how much longer the second run is than its steps say; `None` if it is about as long as they say, or if the runs cannot be
/// compared so.
pub fn of(before: &Report, after: &Report, change: &Change) -> Option<Outside> {
    let (steps, other) = (&before.steps, &after.steps);
    if !change.basis.is_step() || far(steps.count, other.count).is_some() {
        return None;
    }
    let in_steps = in_steps(other)? - in_steps(steps)?;
    let runs = [before, after].map(prepared);
    let [one, another] = runs.map(|ns| ns as f64);
    let outside = another - one - in_steps;
    let noise = change.noise_ns.unwrap_or(0.0) * steady(steps) as f64;
    (one > 0.0 && another > 0.0 && outside.abs() > noise.max(LEAST * one.max(another))).then(|| Outside {
        ns: outside,
        share: outside / one,
        runs,
    })
}

/// Returns the time from the first GPU operation to the last, without idle time in which the program prepares, ns.
fn prepared(report: &Report) -> u64 {
    on_gpu(report).saturating_sub(report.identity.buckets.get(Bucket::Idle(Cause::SetUp)).value)
}

/// Returns what the steps of a run take after the warm-up. What those of the warm-up waited for is set-up.
fn in_steps(steps: &Steps) -> Option<f64> {
    Some(steps.mean_ns? * steady(steps) as f64)
}

/// Returns how many steps are after the warm-up.
fn steady(steps: &Steps) -> u64 {
    steps.count.saturating_sub(steps.warm_up)
}

impl Outside {
    /// Says it.
    pub fn sentence(&self) -> String {
        let [one, another] = self.runs.map(duration);
        let ns = duration(self.ns.abs().round() as u64);
        let which = if self.ns > 0.0 { "more" } else { "less" };
        format!(
            "AFTER takes {ns} {which} outside of its steps, which the comparison of steps does not show: {one} before and {another} after \
             from the first GPU operation to the last, without set-up"
        )
    }
}

/// Returns a sentence if the runs differ outside of their steps.
pub fn said(before: &Report, after: &Report, change: &Change) -> Option<String> {
    of(before, after, change).map(|outside| outside.sentence())
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::analyze::Tables;
    use crate::analyze::estimate::Sum;
    use crate::diagnose::buckets::Buckets;
    use crate::report::diff::findings::Findings;
    use crate::report::diff::noise::tests::steps;
    use crate::report::rows::identity::Identity;

    /// A run of steps that take so long each, and of so much more time on the GPU.
    pub fn run(step: u64, count: u64, more: u64) -> Report {
        let ns = step * count + more;
        let compute = (Bucket::Compute, Sum { value: ns, lo: ns, hi: ns });
        let buckets = Buckets { wall: ns, parts: [compute].into(), ..Buckets::default() };
        let identity = Identity::of(&buckets, &[]);
        Report { steps: steps(count, step, 0.0), identity, ..Report::of(&[], &Tables::default(), &[]) }
    }

    /// A finding promised 804 ms, which the run gained: "There is no change beyond the noise", "the run gained 16.1 ms".
    #[test]
    fn time_outside_of_the_steps_is_said_and_counts_as_gained() {
        let of = |before: &Report, after: &Report| {
            let change = Change::of(before, after);
            let gained = Findings::of(before, after, &change).gained_ns;
            (said(before, after, &change), gained.map(|ns| ns.round() as i64))
        };
        let (long, short) = (run(8_000_000, 100, 1_000_000_000), run(8_000_000, 100, 0));
        let (sentence, gained) = of(&long, &short);
        let sentence = sentence.unwrap_or_default();
        assert!(sentence.starts_with("AFTER takes 1.00 s less outside of its steps"), "{sentence}");
        assert_eq!(gained, Some(1_000_000_000));
        let (sentence, gained) = of(&short, &long);
        assert!(sentence.is_some_and(|text| text.starts_with("AFTER takes 1.00 s more outside")));
        assert_eq!(gained, Some(-1_000_000_000));
        let faster = run(7_000_000, 100, 0);
        assert_eq!(of(&short, &faster), (None, Some(100_000_000)), "the steps say it");
        assert_eq!(of(&short, &run(8_000_000, 300, 0)).0, None, "the run is longer");
    }

    /// A program that lost its loader was faster by 241 ms, and "takes 65.6 ms more outside of its steps": in 15 steps that compile, the
    /// loader had been a part of the set-up, and these steps counted as all others.
    #[test]
    fn what_steps_of_the_warm_up_wait_for_is_not_expected_of_them() {
        let of = |loads: u64| {
            let mut one = run(6_000_000 + loads, 45, 15 * 6_000_000);
            one.steps.count += 15;
            one.steps.warm_up = 15;
            let ns = 15 * (20_000_000 + loads);
            let set_up = Sum { value: ns, lo: 0, hi: ns };
            one.identity.buckets.parts.insert(Bucket::Idle(Cause::SetUp), set_up);
            one.identity.wall_ns += ns;
            one
        };
        let (before, after) = (of(4_000_000), of(0));
        assert_eq!(said(&before, &after, &Change::of(&before, &after)), None);
    }

    /// Two promises of 1.01 s were kept, and imports took a second longer: "those gone promised 1.01 s, the run lost 59.2 ms".
    #[test]
    fn what_a_run_prepares_for_longer_is_no_loss() {
        let mut after = run(7_000_000, 100, 1_000_000_000);
        let set_up = Sum { value: 1_000_000_000, lo: 0, hi: 1_000_000_000 };
        after.identity.buckets.parts.insert(Bucket::Idle(Cause::SetUp), set_up);
        let before = run(8_000_000, 100, 0);
        let change = Change::of(&before, &after);
        assert_eq!(said(&before, &after, &change), None);
        assert_eq!(Findings::of(&before, &after, &change).gained_ns, Some(100_000_000.0));
    }
}
