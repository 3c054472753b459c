//! The parts of the wall time of both runs, and the idle time by cause.

use super::figure::{Figure, Scale};
use crate::analyze::estimate::Sum;
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
    #[schemars(extend("enum" = ["start_up", "compute", "exposed_comm", "exposed_copy", "graph", "idle", "undecided", "tail"]))]
    pub part: &'static str,
    /// start_up and tail are of the run, even where the other parts are of a step.
    pub per: Per,
    pub ns: Figure,
}

/// The idle time of one cause in both runs.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Cause {
    /// As in the report's idle.by_cause.
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

/// Compares the parts of the wall time, in the order of the identity.
pub fn parts(before: &Identity, after: &Identity, per: Per, scale: Scale) -> Vec<Part> {
    let row = |part, per: Per, of: fn(&Buckets) -> Sum| {
        let scale = if per == Per::Run { Scale::RUN } else { scale };
        let of = |identity: &Identity| Some(of(&identity.buckets).into());
        Part { part, per, ns: scale.times(of(before), of(after)) }
    };
    vec![
        row("start_up", Per::Run, |buckets| buckets.get(Bucket::StartUp)),
        row("compute", per, |buckets| buckets.get(Bucket::Compute)),
        row("exposed_comm", per, |buckets| buckets.get(Bucket::ExposedCommunication)),
        row("exposed_copy", per, |buckets| buckets.get(Bucket::ExposedCopies)),
        row("graph", per, |buckets| buckets.get(Bucket::Graphs)),
        row("idle", per, Buckets::idle),
        row("undecided", per, |buckets| buckets.get(Bucket::Undecided)),
        row("tail", Per::Run, |buckets| buckets.get(Bucket::Tail)),
    ]
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
