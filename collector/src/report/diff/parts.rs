//! The parts of the wall time of both runs, and the idle time by cause.

use super::figure::{Figure, Scale};
use crate::analyze::estimate::Sum;
use crate::analyze::idle;
use crate::diagnose::buckets::{Bucket, Buckets};
use crate::report::rows::Report;
use crate::report::rows::idle::{ByCause, Idle};
use crate::report::rows::numbers::Estimate;
use schemars::JsonSchema;
use serde::Serialize;

/// A part of the wall time of both runs.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Part {
    /// The part, as in the report's identity, where its key ends in _ns; but set_up is the idle time of the causes set_up
    /// and loading, and idle that of the others.
    #[schemars(extend("enum" = PARTS.map(|(part, _)| part)))]
    pub part: &'static str,
    /// start_up, set_up and tail are of the run, even where the other parts are of a step; and so is idle time that is mostly outside of
    /// the steps, in the run that has more of it.
    pub per: Per,
    pub ns: Figure,
}

/// The idle time of one cause in both runs.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Cause {
    /// As in the report's idle.by_cause.
    #[schemars(extend("enum" = idle::Cause::ALL.map(idle::Cause::name)))]
    pub cause: &'static str,
    /// set_up and loading are of the run, even where the other causes are of a step; and so are causes that are mostly outside of the
    /// steps, in the run that has more of them.
    pub per: Per,
    /// The number of gaps that have such a part.
    pub count: Figure,
    pub total_ns: Figure,
}

/// What a figure is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Per {
    /// One step of one process, on average: the figure of the run, divided by its number of steps.
    Step,
    /// The whole run.
    Run,
}

/// A part: its name, and how it is read.
type Named = (&'static str, fn(&Buckets) -> Sum);

/// The parts, in the order of the identity.
const PARTS: [Named; 9] = [
    ("start_up", |buckets| buckets.get(Bucket::StartUp)),
    ("set_up", |buckets| idle_time(buckets, true)),
    ("compute", |buckets| buckets.get(Bucket::Compute)),
    ("exposed_comm", |buckets| buckets.get(Bucket::ExposedCommunication)),
    ("exposed_copy", |buckets| buckets.get(Bucket::ExposedCopies)),
    ("graph", |buckets| buckets.get(Bucket::Graphs)),
    ("idle", |buckets| idle_time(buckets, false)),
    ("undecided", |buckets| buckets.get(Bucket::Undecided)),
    ("tail", |buckets| buckets.get(Bucket::Tail)),
];
/// Parts that a run has once, however many steps it has.
const PARTS_OF_RUN: [&str; 3] = ["start_up", "set_up", "tail"];
/// The same of the causes of idle time: a program sets itself up and loads its code before its steps.
const CAUSES_OF_RUN: [idle::Cause; 2] = [idle::Cause::SetUp, idle::Cause::Loading];

/// Returns the idle time that a run has once, or that of its steps.
fn idle_time(buckets: &Buckets, is_of_run: bool) -> Sum {
    let causes = idle::Cause::ALL.into_iter().filter(|cause| CAUSES_OF_RUN.contains(cause) == is_of_run);
    causes.fold(Sum::default(), |mut all, cause| {
        all.add(buckets.get(Bucket::Idle(cause)));
        all
    })
}

/// Whether idle time is mostly outside of the steps, as a pause behind them is, in the run that has more of it: what a change has left of
/// it says nothing of where it was. Of each run, its time in all, that of a step, and the number of steps.
fn is_once(runs: [(u64, f64, f64); 2]) -> bool {
    let each = |(total, _, steps): &(u64, f64, f64)| *total as f64 / steps;
    let [before, after] = runs;
    let (total, per_step, steps) = if each(&before) >= each(&after) { before } else { after };
    per_step * steps < total as f64 / 2.0
}

/// Compares the parts of the wall time, in the order of the identity. `scale` are the steps of each run.
pub fn parts(before: &Report, after: &Report, per: Per, scale: Scale) -> Vec<Part> {
    let of_idle = |report: &Report, steps: f64| {
        (idle_time(&report.identity.buckets, false).value, report.steps.per_step.idle_ns, steps)
    };
    let row = |(part, of): Named| {
        let is_idle = part == "idle" && is_once([of_idle(before, scale.before), of_idle(after, scale.after)]);
        let is_of_run = PARTS_OF_RUN.contains(&part) || is_idle;
        let (per, scale) = if is_of_run { (Per::Run, Scale::RUN) } else { (per, scale) };
        let of = |report: &Report| Some(of(&report.identity.buckets).into());
        Part { part, per, ns: scale.times(of(before), of(after)) }
    };
    PARTS.into_iter().map(row).collect()
}

/// Compares the idle time by cause, the largest change first, and causes of the run behind those of a step. A cause that is
/// in one run only took no time in the other. `scale` are the steps of all processes of each run.
pub fn causes(before: &Report, after: &Report, per: Per, scale: Scale) -> Vec<Cause> {
    let of_run = CAUSES_OF_RUN.map(idle::Cause::name);
    let find = |idle: &Idle, cause: &str| -> (u64, Estimate) {
        let found = idle.by_cause.iter().find(|row| row.cause == cause);
        found.map_or((0, Estimate::exactly(0)), |row| (row.count, row.total_ns))
    };
    let of_cause = |report: &Report, cause: &str, steps: f64| {
        let per_step = report.steps.per_step.idle_by_cause_ns.get(cause).copied().unwrap_or(0.0);
        (find(&report.idle, cause).1.value, per_step, steps)
    };
    let is_new = |row: &&ByCause| !before.idle.by_cause.iter().any(|known| known.cause == row.cause);
    let rows = before.idle.by_cause.iter().chain(after.idle.by_cause.iter().filter(is_new));
    let mut rows: Vec<Cause> = rows
        .map(|row| row.cause)
        .map(|cause| {
            let (of_before, of_after) = (find(&before.idle, cause), find(&after.idle, cause));
            let is_of_run = of_run.contains(&cause)
                || is_once([of_cause(before, cause, scale.before), of_cause(after, cause, scale.after)]);
            let (per, scale) = if is_of_run { (Per::Run, Scale::RUN) } else { (per, scale) };
            Cause {
                cause,
                per,
                count: scale.count(of_before.0, of_after.0),
                total_ns: scale.times(Some(of_before.1), Some(of_after.1)),
            }
        })
        .collect();
    rows.sort_by(|a, b| a.per.cmp(&b.per).then(b.total_ns.size().total_cmp(&a.total_ns.size())));
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analyze::Tables;
    use crate::analyze::idle::{IdleReport, Part as Gaps};
    use crate::analyze::steps as found;
    use crate::report::rows::identity::Identity;
    use crate::report::rows::steps::Steps;

    fn exactly(value: u64) -> Sum {
        Sum { value, lo: value, hi: value }
    }

    /// A run of so many steps, of which each is idle for 30 µs; besides, it sets itself up, and pauses once.
    fn run(steps: u64, pause: u64) -> Report {
        use idle::Cause::{ExplicitSync, Loading, OutsideCuda, SetUp};
        let causes = [
            (OutsideCuda, 20_000 * steps + pause),
            (ExplicitSync, 10_000 * steps),
            (SetUp, 2_000_000_000),
            (Loading, 5_000_000),
        ];
        let parts = causes.map(|(cause, ns)| (Bucket::Idle(cause), exactly(ns)));
        let identity = Identity::of(&Buckets { parts: parts.into(), ..Buckets::default() }, &[]);
        let by_cause = causes.map(|(cause, ns)| (cause, Gaps { count: 1, total: exactly(ns) }));
        let idle = Idle::of(&IdleReport { by_cause: by_cause.into(), ..IdleReport::default() });
        let idle_by_cause = [(OutsideCuda, 20_000.0), (ExplicitSync, 10_000.0)].into();
        let contents = found::Contents { idle: 30_000.0, idle_by_cause, ..found::Contents::default() };
        let steps = Steps::of(&found::Steps { count: steps, contents, ..found::Steps::default() });
        Report { identity, idle, steps, ..Report::of(&[], &Tables::default(), &[]) }
    }

    /// A cause of both runs, what its time is of, and the time in each.
    type OfBoth = (&'static str, Per, [f64; 2]);

    /// The part that is named idle, and the causes, of two runs.
    fn compared(before: &Report, after: &Report) -> ((Per, [f64; 2]), Vec<OfBoth>) {
        let scale = Scale { before: before.steps.count as f64, after: after.steps.count as f64 };
        let both = |ns: &Figure| [ns.before, ns.after].map(|side| side.map_or(0.0, |side| side.value));
        let parts = parts(before, after, Per::Step, scale);
        let idle = parts.iter().find(|row| row.part == "idle").unwrap();
        let causes = causes(before, after, Per::Step, scale);
        let causes = causes.iter().map(|row| (row.cause, row.per, both(&row.total_ns))).collect();
        ((idle.per, both(&idle.ns)), causes)
    }

    /// With a long set-up, a run of more steps seemed to be idle for less time in each.
    #[test]
    fn set_up_is_of_the_run_and_no_idle_time_of_a_step() {
        let (before, after) = (run(40, 0), run(80, 0));
        let (idle, causes) = compared(&before, &after);
        assert_eq!(idle, (Per::Step, [30_000.0; 2]));
        let expected = [
            ("outside_cuda", Per::Step, [20_000.0; 2]),
            ("explicit_sync", Per::Step, [10_000.0; 2]),
            ("set_up", Per::Run, [2_000_000_000.0; 2]),
            ("loading", Per::Run, [5_000_000.0; 2]),
        ];
        assert_eq!(causes, expected);
        let scale = Scale { before: 40.0, after: 80.0 };
        let parts = parts(&before, &after, Per::Step, scale);
        let set_up = parts.iter().find(|row| row.part == "set_up").unwrap();
        assert_eq!((set_up.per, set_up.ns.before.map(|ns| ns.value)), (Per::Run, Some(2_005_000_000.0)));
    }

    /// What a change had removed of the steps was of the run, behind all other causes, if only a remainder outside of them was left.
    #[test]
    fn a_cause_that_a_change_removes_from_the_steps_is_of_a_step() {
        let (slow, mut fast) = (run(100, 0), run(100, 0));
        let outside = fast.idle.by_cause.iter_mut().find(|row| row.cause == "outside_cuda").unwrap();
        outside.total_ns = exactly(300_000).into();
        fast.steps.per_step.idle_by_cause_ns.insert("outside_cuda", 1_000.0);
        for (before, after, figures) in
            [(&slow, &fast, [20_000.0, 3_000.0]), (&fast, &slow, [3_000.0, 20_000.0])]
        {
            let (_, causes) = compared(before, after);
            assert_eq!(causes[0], ("outside_cuda", Per::Step, figures));
        }
    }

    /// A pause of a second behind a hundred steps was 10 ms more in each of them, +547148 %.
    #[test]
    fn a_pause_outside_of_the_steps_is_of_the_run() {
        let (idle, causes) = compared(&run(100, 0), &run(100, 1_000_000_000));
        assert_eq!(idle, (Per::Run, [3_000_000.0, 1_003_000_000.0]));
        assert_eq!(causes[0], ("explicit_sync", Per::Step, [10_000.0; 2]));
        assert!(causes.contains(&("outside_cuda", Per::Run, [2_000_000.0, 1_002_000_000.0])), "{causes:?}");
    }
}
