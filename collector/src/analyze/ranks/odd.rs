//! Which rank is slower than the others, and what does it do in that time?

use super::Rank;
use super::matching::Matched;
use crate::analyze::ProcessReport;
use crate::analyze::identity::Class;
use crate::analyze::idle::Cause;
use std::collections::BTreeMap;

/// The rank that the others wait for.
#[derive(Clone, Debug, PartialEq)]
pub struct Odd {
    /// Its place among the ranks.
    pub place: usize,
    /// ns by which it comes later than half of the ranks, in each step, or in each collective.
    pub late: u64,
    /// Whether the times are of a step: the program has steps.
    pub is_per_step: bool,
    /// What it does longer than the others, and for how many ns more; `None` if nothing explains at least half of how late
    /// it comes.
    pub why: Option<(Longer, u64)>,
    /// The symbol of the kernel in which the others wait for it most.
    pub collective: String,
}

/// What a rank does longer than others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Longer {
    /// Its kernels or graphs run.
    Kernels,
    /// Its copies run, and no kernel.
    Copies,
    /// Its GPU is idle, for this cause.
    Idle(Cause),
}

/// The share of the time of a run below which a rank is not called slower than the others. Ranks that do the same work
/// differ by some percent anyway.
const LEAST_SHARE: f64 = 0.02;

/// Returns the rank that comes last to most collectives, if it is certain and costs the others more than
/// [`LEAST_SHARE`] of their time.
pub fn odd(reports: &[&ProcessReport], rows: &[Rank], matched: &Matched) -> Option<Odd> {
    let (place, arrivals) = matched.ranks.iter().enumerate().max_by_key(|(_, one)| one.late())?;
    let (late, span) = (arrivals.late(), rows[place].time.span);
    // A rank is last only to collectives that all ranks have timed.
    let is_mostly_last = matched.is_enough() && arrivals.last * 2 > arrivals.complete;
    if !is_mostly_last || (late as f64) < LEAST_SHARE * span as f64 || late == 0 {
        return None;
    }
    let (collective, _) = arrivals.late.iter().max_by_key(|(_, ns)| **ns)?;
    let steps = reports[place].tables.steps.count;
    let count = |at: usize| match reports[at].tables.steps.count {
        0 => matched.ranks[at].stand_for,
        steps => steps,
    };
    let each = |at: usize, ns: u64| ns as f64 / count(at).max(1) as f64;
    let late = each(place, late);
    let parts: Vec<BTreeMap<Longer, f64>> = reports
        .iter()
        .enumerate()
        .map(|(at, report)| parts(report).into_iter().map(|(what, ns)| (what, each(at, ns))).collect())
        .collect();
    let more = |(what, ns): (&Longer, &f64)| {
        let others = parts.iter().enumerate().filter(|(at, _)| *at != place);
        let others = others.map(|(_, other)| other.get(what).copied().unwrap_or(0.0));
        (*what, ns - median(others.collect()))
    };
    let why = parts[place].iter().map(more).max_by(|(_, a), (_, b)| a.total_cmp(b));
    let why = why.filter(|(_, more)| *more * 2.0 >= late).map(|(what, more)| (what, more as u64));
    Some(Odd { place, late: late as u64, is_per_step: steps > 0, why, collective: collective.clone() })
}

/// Returns what a rank's GPUs do, in ns. Communication is not among it: that is where a rank waits.
fn parts(report: &ProcessReport) -> BTreeMap<Longer, u64> {
    let of =
        |class: Class| report.tables.devices.iter().map(move |one| one.whole().busy[class as usize].value);
    let mut parts = BTreeMap::from([
        (Longer::Kernels, of(Class::Compute).chain(of(Class::Graph)).sum()),
        (Longer::Copies, of(Class::Copy).sum()),
    ]);
    let causes = report.tables.idle.by_cause.iter().filter(|(cause, _)| **cause != Cause::Undecided);
    parts.extend(causes.map(|(cause, part)| (Longer::Idle(*cause), part.total.value)));
    parts
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}
