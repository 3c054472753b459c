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
    /// The part, as in the report's identity, where its key ends in _ns.
    #[schemars(extend("enum" = PARTS.map(|(part, _)| part)))]
    pub part: &'static str,
    /// start_up and tail are of the run, even where the other parts are of a step.
    pub per: Per,
    pub ns: Figure,
}

/// The idle time of one cause in both runs.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Cause {
    /// As in the report's idle.by_cause.
    #[schemars(extend("enum" = idle::Cause::ALL.map(idle::Cause::name)))]
    pub cause: &'static str,
    /// The number of gaps that have such a part.
    pub count: Figure,
    pub total_ns: Figure,
}

/// What a figure is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Per {
    /// One step: the figure of the run, divided by its number of steps.
    Step,
    /// The whole run.
    Run,
}

/// A part: its name, and how it is read.
type Named = (&'static str, fn(&Buckets) -> Sum);

/// The parts, in the order of the identity.
const PARTS: [Named; 8] = [
    ("start_up", |buckets| buckets.get(Bucket::StartUp)),
    ("compute", |buckets| buckets.get(Bucket::Compute)),
    ("exposed_comm", |buckets| buckets.get(Bucket::ExposedCommunication)),
    ("exposed_copy", |buckets| buckets.get(Bucket::ExposedCopies)),
    ("graph", |buckets| buckets.get(Bucket::Graphs)),
    ("idle", Buckets::idle),
    ("undecided", |buckets| buckets.get(Bucket::Undecided)),
    ("tail", |buckets| buckets.get(Bucket::Tail)),
];

/// Compares the parts of the wall time, in the order of the identity.
pub fn parts(before: &Identity, after: &Identity, per: Per, scale: Scale) -> Vec<Part> {
    let row = |(part, of): Named| {
        let is_of_run = ["start_up", "tail"].contains(&part);
        let (per, scale) = if is_of_run { (Per::Run, Scale::RUN) } else { (per, scale) };
        let of = |identity: &Identity| Some(of(&identity.buckets).into());
        Part { part, per, ns: scale.times(of(before), of(after)) }
    };
    PARTS.into_iter().map(row).collect()
}

/// Compares the idle time by cause, the largest change first. A cause that is in one run only took no time in the other.
pub fn causes(before: &Idle, after: &Idle, scale: Scale) -> Vec<Cause> {
    let find = |idle: &Idle, cause: &str| -> (u64, Estimate) {
        let found = idle.by_cause.iter().find(|row| row.cause == cause);
        found.map_or((0, Estimate::exactly(0)), |row| (row.count, row.total_ns))
    };
    let is_new = |row: &&ByCause| !before.by_cause.iter().any(|known| known.cause == row.cause);
    let names = before.by_cause.iter().chain(after.by_cause.iter().filter(is_new)).map(|row| row.cause);
    let mut rows: Vec<Cause> = names
        .map(|cause| {
            let (of_before, of_after) = (find(before, cause), find(after, cause));
            Cause {
                cause,
                count: scale.count(of_before.0, of_after.0),
                total_ns: scale.times(Some(of_before.1), Some(of_after.1)),
            }
        })
        .collect();
    rows.sort_by(|a, b| b.total_ns.size().total_cmp(&a.total_ns.size()));
    rows
}
