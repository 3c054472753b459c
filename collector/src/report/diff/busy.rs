//! Does the GPU do more in a step than its time shows? Where the host, or the clients of a server, set the pace, kernels that take longer
//! fill time in which the GPU was idle.

use super::change::{Change, signed_percent};
use crate::report::rows::Report;
use crate::report::units::duration;

/// The least change of the busy time that is worth a word, as a share of it; and the least part of a step that it is then.
const LEAST: f64 = 0.1;
/// By which part of it the step changes at most, if it does not show it.
const SHOWN: f64 = 0.5;

/// Returns a sentence if the GPU is busy in a step for much longer, or shorter, and the step is not.
pub fn said(before: &Report, after: &Report, change: &Change) -> Option<String> {
    if !change.basis.is_step() {
        return None;
    }
    let (one, other) = (&before.steps.per_step, &after.steps.per_step);
    let by = other.busy_ns - one.busy_ns;
    let is_known = one.busy_ns > 0.0 && one.undecided_ns.max(other.undecided_ns) < by.abs() / 2.0;
    let is_much = by.abs() > LEAST * one.busy_ns.max(other.busy_ns) && by.abs() > LEAST * change.before_ns;
    let is_shown = (change.after_ns - change.before_ns) / by >= SHOWN;
    (is_known && is_much && !is_shown).then(|| {
        let [before, after] = [one, other].map(|step| duration(step.busy_ns.round() as u64));
        format!(
            "the GPU is busy for {after} of a step instead of {before} ({}), which the time of a step does not show: something else sets its \
             pace",
            signed_percent(by / one.busy_ns)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::super::noise::tests::steps;
    use super::*;
    use crate::analyze::Tables;

    /// Kernels of a paced server took three times as long: "There is no change beyond the noise", and no warning.
    #[test]
    fn work_that_the_time_of_a_step_does_not_show_is_said() {
        let run = |step: u64, busy: f64, undecided: f64| {
            let mut steps = steps(400, step, 0.0);
            (steps.per_step.busy_ns, steps.per_step.undecided_ns) = (busy, undecided);
            Report { steps, ..Report::of(&[], &Tables::default(), &[]) }
        };
        let of = |before: Report, after: Report| said(&before, &after, &Change::of(&before, &after));
        let slower = of(run(4_000_000, 1e6, 0.0), run(4_000_000, 3e6, 0.0)).unwrap();
        let start = "the GPU is busy for 3.00 ms of a step instead of 1.00 ms (+200 %), which the time";
        assert!(slower.starts_with(start), "{slower}");
        assert!(of(run(4_000_000, 3e6, 0.0), run(4_000_000, 1e6, 0.0)).is_some(), "it is idle for longer");
        assert_eq!(of(run(4_000_000, 1e6, 0.0), run(6_000_000, 3e6, 0.0)), None, "the step shows it");
        assert_eq!(of(run(4_000_000, 1e4, 0.0), run(4_000_000, 3e4, 0.0)), None, "it is little of a step");
        assert_eq!(of(run(4_000_000, 1e6, 2e6), run(4_000_000, 3e6, 0.0)), None, "it is not known");
    }
}
