//! The steps of both runs.

use super::change::{are_of_one_kind, are_same_work};
use super::figure::{Figure, Signed};
use crate::analyze::ProcessReport;
use crate::report::rows::numbers::{Estimate, Kind};
use crate::report::rows::steps;
use schemars::JsonSchema;
use serde::Serialize;

/// The steps of both runs. Times are of the steps after the warm-up; null = a run has no steps, or the two runs' steps are not
/// timed alike, or the host is ahead of the GPU in them: then the mean is that of the times from call to call on the host.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Steps {
    /// The number of steps, those of the warm-up included.
    pub count: Figure,
    /// The number of steps of the warm-up.
    pub warm_up: Figure,
    /// The kernel and graph launches in a step, median.
    pub launches: Figure,
    pub median_ns: Figure,
    pub mean_ns: Figure,
    pub p95_ns: Figure,
    pub p99_ns: Figure,
    pub min_ns: Figure,
    pub max_ns: Figure,
    /// The time of a step in which the GPU was busy, on average.
    pub busy_ns: Figure,
    /// The time of a step in which the GPU was idle, on average.
    pub idle_ns: Figure,
    /// The time of a step in which it is not known which of both it was, on average. Both may be more by so much, and are null
    /// where that is more than the figure itself.
    pub undecided_ns: Figure,
    /// The copies and memsets in a step, on average.
    pub copies: Figure,
    /// The bytes that they moved or set, on average.
    pub copied_bytes: Figure,
    /// The calls in a step that synchronize, on average.
    pub syncs: Figure,
    /// The allocations of device memory in a step, on average.
    pub allocations: Figure,
    /// The bytes of those allocations, on average.
    pub allocated_bytes: Figure,
    /// By how much the live device memory grows in a step, on average.
    pub growth_bytes: Signed,
}

impl Steps {
    /// Compares the steps of two runs; `None` if neither has any.
    pub fn of(before: &steps::Steps, after: &steps::Steps) -> Option<Steps> {
        if before.count == 0 && after.count == 0 {
            return None;
        }
        let both = Both { before, after, are_of_one_kind: are_of_one_kind(before, after) };
        Some(Steps {
            count: both.exactly(|steps| Some(steps.count as f64)),
            warm_up: both.exactly(|steps| Some(steps.warm_up as f64)),
            launches: both.exactly(|steps| Some(steps.launches_per_step as f64)),
            median_ns: both.time(|steps| steps.median_ns),
            mean_ns: both.exactly(match both.are_of_one_kind {
                true => |steps| steps.mean_ns,
                false => |steps| steps.host_mean_ns,
            }),
            p95_ns: both.time(|steps| steps.p95_ns),
            p99_ns: both.time(|steps| steps.p99_ns),
            min_ns: both.time(|steps| steps.min_ns),
            max_ns: both.time(|steps| steps.max_ns),
            busy_ns: both.gpu(|step| step.busy_ns),
            idle_ns: both.gpu(|step| step.idle_ns),
            undecided_ns: both.exactly(|steps| Some(steps.per_step.undecided_ns)),
            copies: both.exactly(|steps| Some(steps.per_step.copies)),
            copied_bytes: both.exactly(|steps| Some(steps.per_step.copied_bytes)),
            syncs: both.exactly(|steps| Some(steps.per_step.syncs)),
            allocations: both.exactly(|steps| Some(steps.per_step.allocations)),
            allocated_bytes: both.exactly(|steps| Some(steps.per_step.allocated_bytes)),
            growth_bytes: {
                let of = |steps: &steps::Steps| (steps.count > 0).then_some(steps.per_step.growth_bytes);
                Signed::of(of(before), of(after))
            },
        })
    }
}

/// Returns the number of steps of all processes of a run together: of those whose steps are the same work as the steps that stand for the
/// run. A process that only prepares something may have steps of another kind.
pub fn of_all(processes: &[ProcessReport], of_run: &steps::Steps) -> u64 {
    let steps = processes.iter().map(|report| steps::Steps::of(&report.tables.steps));
    let alike = steps.filter(|steps| steps.count > 0 && are_same_work(of_run, steps));
    alike.fold(0, |sum: u64, steps| sum.saturating_add(steps.count)).max(of_run.count)
}

struct Both<'a> {
    before: &'a steps::Steps,
    after: &'a steps::Steps,
    are_of_one_kind: bool,
}

impl Both<'_> {
    /// Puts a number of each run side by side; that of a run without steps is not known.
    fn exactly(&self, of: fn(&steps::Steps) -> Option<f64>) -> Figure {
        let of = |steps: &steps::Steps| if steps.count == 0 { None } else { of(steps) };
        Figure::exactly(of(self.before), of(self.after))
    }

    /// Puts a part of the GPU's time in a step of each run side by side. It may be more by what is undecided, and is not known
    /// where that is more than the part itself.
    fn gpu(&self, of: fn(&steps::Contents) -> f64) -> Figure {
        let of = |steps: &steps::Steps| {
            let (value, undecided) = (of(&steps.per_step), steps.per_step.undecided_ns);
            let kind = if undecided > 0.0 { Kind::Extrapolated } else { Kind::Exact };
            let is_known = steps.count > 0 && value >= undecided;
            is_known.then_some(Estimate { value, lo: value, hi: value + undecided, kind })
        };
        Figure::of(of(self.before), of(self.after))
    }

    /// Puts a time of each run side by side; it is not known for times that are not measured alike.
    fn time(&self, of: fn(&steps::Steps) -> Option<u64>) -> Figure {
        let of = |steps: &steps::Steps| of(steps).filter(|_| self.are_of_one_kind).map(|ns| ns as f64);
        Figure::exactly(of(self.before), of(self.after))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analyze::steps as found;

    /// "GPU busy 10.0 ms -> 0 ns, -100 %", of a run without times beside one with them.
    #[test]
    fn nothing_is_said_of_the_gpu_where_nothing_was_timed() {
        let steps = |busy, idle, undecided| {
            let contents = found::Contents { busy, idle, undecided, ..found::Contents::default() };
            steps::Steps::of(&found::Steps { count: 30, contents, ..found::Steps::default() })
        };
        let both = Steps::of(&steps(10.0, 2.0, 0.0), &steps(0.0, 2.0, 10.0)).unwrap();
        assert_eq!((both.busy_ns.change, both.idle_ns.change), (None, None));
        assert_eq!(both.undecided_ns.change, Some(10.0));
        let both = Steps::of(&steps(10.0, 2.0, 0.0), &steps(9.0, 2.0, 1.0)).unwrap();
        assert_eq!((both.busy_ns.change, both.busy_ns.is_certain), (Some(-1.0), false));
    }
}
