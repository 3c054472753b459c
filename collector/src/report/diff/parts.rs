//! The parts of the wall time of both runs, and the idle time by cause.

use super::figure::{Figure, Scale};
use crate::analyze::estimate::Sum;
use crate::analyze::idle;
use crate::diagnose::buckets::{Bucket, Buckets};
use crate::report::rows::identity::Identity;
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
    /// start_up, set_up and tail are of the run, even where the other parts are of a step.
    pub per: Per,
    pub ns: Figure,
}

/// The idle time of one cause in both runs.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Cause {
    /// As in the report's idle.by_cause.
    #[schemars(extend("enum" = idle::Cause::ALL.map(idle::Cause::name)))]
    pub cause: &'static str,
    /// set_up and loading are of the run, even where the other causes are of a step.
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

/// Compares the parts of the wall time, in the order of the identity.
pub fn parts(before: &Identity, after: &Identity, per: Per, scale: Scale) -> Vec<Part> {
    let row = |(part, of): Named| {
        let (per, scale) = if PARTS_OF_RUN.contains(&part) { (Per::Run, Scale::RUN) } else { (per, scale) };
        let of = |identity: &Identity| Some(of(&identity.buckets).into());
        Part { part, per, ns: scale.times(of(before), of(after)) }
    };
    PARTS.into_iter().map(row).collect()
}

/// Compares the idle time by cause, the largest change first, and causes of the run behind those of a step. A cause that is
/// in one run only took no time in the other.
pub fn causes(before: &Idle, after: &Idle, per: Per, scale: Scale) -> Vec<Cause> {
    let of_run = CAUSES_OF_RUN.map(idle::Cause::name);
    let find = |idle: &Idle, cause: &str| -> (u64, Estimate) {
        let found = idle.by_cause.iter().find(|row| row.cause == cause);
        found.map_or((0, Estimate::exactly(0)), |row| (row.count, row.total_ns))
    };
    let is_new = |row: &&ByCause| !before.by_cause.iter().any(|known| known.cause == row.cause);
    let names = before.by_cause.iter().chain(after.by_cause.iter().filter(is_new)).map(|row| row.cause);
    let mut rows: Vec<Cause> = names
        .map(|cause| {
            let (of_before, of_after) = (find(before, cause), find(after, cause));
            let (per, scale) = if of_run.contains(&cause) { (Per::Run, Scale::RUN) } else { (per, scale) };
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
    use crate::analyze::idle::{IdleReport, Part as Gaps};

    /// With a long set-up, a run of more steps seemed to be idle for less time in each.
    #[test]
    fn set_up_is_of_the_run_and_no_idle_time_of_a_step() {
        let exactly = |value| Sum { value, lo: value, hi: value };
        let causes_of = |steps: u64| {
            use idle::Cause::{Loading, OutsideCuda, SetUp};
            [(OutsideCuda, 30_000 * steps), (SetUp, 2_000_000_000), (Loading, 5_000_000)]
        };
        let identity = |steps| {
            let parts = causes_of(steps).map(|(cause, ns)| (Bucket::Idle(cause), exactly(ns)));
            Identity::of(&Buckets { parts: parts.into(), ..Buckets::default() })
        };
        let idle = |steps| {
            let by_cause = causes_of(steps).map(|(cause, ns)| (cause, Gaps { count: 1, total: exactly(ns) }));
            Idle::of(&IdleReport { by_cause: by_cause.into(), ..IdleReport::default() })
        };
        let scale = Scale { before: 40.0, after: 80.0 };
        let both = |ns: &Figure| [ns.before, ns.after].map(|side| side.map_or(0.0, |side| side.value));
        let parts = parts(&identity(40), &identity(80), Per::Step, scale);
        let part = |name: &str| {
            let row = parts.iter().find(|row| row.part == name).unwrap();
            (row.per, both(&row.ns))
        };
        assert_eq!(part("idle"), (Per::Step, [30_000.0; 2]));
        assert_eq!(part("set_up"), (Per::Run, [2_005_000_000.0; 2]));
        let causes = causes(&idle(40), &idle(80), Per::Step, scale);
        let causes: Vec<_> = causes.iter().map(|row| (row.cause, row.per, both(&row.total_ns))).collect();
        assert_eq!(
            causes,
            [
                ("outside_cuda", Per::Step, [30_000.0; 2]),
                ("set_up", Per::Run, [2_000_000_000.0; 2]),
                ("loading", Per::Run, [5_000_000.0; 2])
            ]
        );
    }
}
