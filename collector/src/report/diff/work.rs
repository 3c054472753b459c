//! The transfers and the synchronization of both runs.

use super::figure::{Figure, Scale};
use crate::analyze::estimate;
use crate::report::rows::Report;
use crate::report::rows::numbers::Estimate;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

/// Copies in one direction with one kind of host memory, or memsets, of both runs.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Transfer {
    /// As in the report's transfers.
    pub kind: &'static str,
    /// As in the report's transfers.
    pub host_memory: &'static str,
    /// The number of operations.
    pub count: Figure,
    /// The sum of their bytes.
    pub bytes: Figure,
    /// The sum of the GPU times of all; null = none was timed.
    pub total_ns: Figure,
    /// The host's time in the calls.
    pub host_ns: Figure,
}

/// The calls of one API that waited for the GPU, of both runs.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Sync {
    /// The function's name.
    pub api: String,
    /// Why calls that are no synchronize calls waited, as in the report's implicit_syncs; null = they are synchronize
    /// calls.
    pub implicit: Option<&'static str>,
    /// The number of calls; of implicit synchronizations, at most also those that may have waited.
    pub count: Figure,
    /// The host's time in them; of implicit synchronizations, the part in which they waited, and at most also all of the
    /// calls that may have waited.
    pub waited_ns: Figure,
}

/// Compares the transfers of two runs, the largest change of GPU time first, then the largest of the bytes.
pub fn transfers(before: &Report, after: &Report, scale: Scale) -> Vec<Transfer> {
    let of = |report: &Report| {
        let rows = report.transfers.iter().map(|row| {
            let total = if row.count == 0 { Some(Estimate::exactly(0)) } else { row.total_ns };
            ((row.kind, row.host_memory), [row.count, row.bytes, row.host.total_ns], total)
        });
        rows.map(|(key, numbers, total)| (key, (numbers, total))).collect::<BTreeMap<_, _>>()
    };
    let row = |(kind, host_memory), (before, total), (after, other_total)| {
        let [count, bytes, host_ns] = pairs(before, after, scale);
        Transfer { kind, host_memory, count, bytes, total_ns: scale.times(total, other_total), host_ns }
    };
    let nothing = ([0; 3], Some(Estimate::exactly(0)));
    let mut rows = matched(&of(before), &of(after), nothing, row);
    rows.sort_by(|a, b| {
        b.total_ns.size().total_cmp(&a.total_ns.size()).then(b.bytes.size().total_cmp(&a.bytes.size()))
    });
    rows
}

/// Compares the calls of two runs that waited for the GPU, the largest change of the time first.
pub fn syncs(before: &Report, after: &Report, scale: Scale) -> Vec<Sync> {
    let of = |report: &Report| {
        let explicit = report.syncs.iter().map(|row| {
            let time = Estimate::exactly(row.times.host_ns);
            ((row.api.clone(), None), (Estimate::exactly(row.times.count), time))
        });
        let implicit = report.implicit_syncs.iter().map(|row| {
            let counts = estimate::Estimate::new(row.count, row.count, row.count + row.undecided.count);
            let hi = row.waited.hi.saturating_add(row.undecided.host_ns);
            let waited = estimate::Estimate::new(row.waited.value, row.waited.lo, hi);
            ((row.api.clone(), Some(row.cause.name())), (counts.into(), waited.into()))
        });
        explicit.chain(implicit).collect::<BTreeMap<_, _>>()
    };
    let row = |(api, implicit): (String, _), (count, time), (other_count, other_time)| Sync {
        api,
        implicit,
        count: scale.times(Some(count), Some(other_count)),
        waited_ns: scale.times(Some(time), Some(other_time)),
    };
    let nothing = (Estimate::exactly(0), Estimate::exactly(0));
    let mut rows = matched(&of(before), &of(after), nothing, row);
    // Calls of which it is known in neither run that one waited are no row.
    rows.retain(|row: &Sync| !row.count.is_nothing());
    rows.sort_by(|a, b| {
        b.waited_ns.size().total_cmp(&a.waited_ns.size()).then(b.count.size().total_cmp(&a.count.size()))
    });
    rows
}

/// Puts numbers of both runs side by side.
fn pairs<const N: usize>(before: [u64; N], after: [u64; N], scale: Scale) -> [Figure; N] {
    std::array::from_fn(|at| scale.count(before[at], after[at]))
}

/// Returns a row for each key of two tables; `nothing` stands for a row that one of them lacks.
fn matched<Key: Clone + Ord, Of: Copy, Row>(
    before: &BTreeMap<Key, Of>,
    after: &BTreeMap<Key, Of>,
    nothing: Of,
    row: impl Fn(Key, Of, Of) -> Row,
) -> Vec<Row> {
    let new = after.keys().filter(|key| !before.contains_key(key));
    let of = |table: &BTreeMap<Key, Of>, key: &Key| table.get(key).copied().unwrap_or(nothing);
    before.keys().chain(new).map(|key| row(key.clone(), of(before, key), of(after, key))).collect()
}
