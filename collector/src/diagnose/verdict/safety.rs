//! Is it safe to say what bounds a program?

use super::groups::Group;
use super::{Bound, UNDECIDED};
use crate::analyze::idle::Cause;
use crate::analyze::windows::Timing;
use crate::diagnose::Facts;
use crate::diagnose::buckets::Bucket;
use crate::units::{duration, percent};
use gpuspy_wire::record::LossCause;

/// Of a hundred records, more than this many lost ones make figures unsafe.
const LOST_PERCENT: u64 = 1;

/// What makes the clock better known: completions are seen sooner.
const QUIETER: &str = "Run again with --timing exact on a machine with idle processors.";

/// Why no verdict is safe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsafe {
    /// The reason, in a sentence.
    pub why: String,
    /// What to run again, in a sentence.
    pub remedy: String,
}

impl Unsafe {
    fn new(why: impl Into<String>, remedy: &str) -> Unsafe {
        Unsafe { why: why.into(), remedy: remedy.to_owned() }
    }
}

/// Returns why nothing can be said about a run, whatever bounds it; `None` if that is safe.
pub fn of_run(facts: &Facts<'_>) -> Option<Unsafe> {
    let coverage = &facts.all.coverage;
    if coverage.driver_hooked == Some(false)
        && (coverage.launches > 0 || facts.all.apis.keys().any(|api| api.starts_with("cuda")))
    {
        return Some(Unsafe::new(
            "launches did not pass through the agent.",
            "Run gpuspy doctor with the program to find out why.",
        ));
    }
    if facts.reports.iter().any(|report| {
        let damage = report.process.damage;
        damage.chunks_lost > 0 || damage.chunks_refused > 0 || damage.records_lost > 0
    }) {
        return Some(Unsafe::new("parts of the trace cannot be read.", "Run the program again."));
    }
    if facts.all.duty.timing == Some(Timing::Off) {
        return Some(Unsafe::new(
            "timing was off, so it is not known when the GPU was busy.",
            "Run again with --timing auto.",
        ));
    }
    lost(facts).or_else(|| untimed(facts))
}

/// Returns that too many records were lost, if so.
fn lost(facts: &Facts<'_>) -> Option<Unsafe> {
    let pending = LossCause::GpuTimePending.name();
    let lost = facts.all.coverage.dropped_by.iter().filter(|(cause, _)| **cause != pending);
    let lost = lost.fold(0u64, |sum, (_, count)| sum.saturating_add(*count));
    let calls = facts.all.apis.values().fold(lost, |sum, calls| sum.saturating_add(calls.count));
    (lost.saturating_mul(100) > calls.saturating_mul(LOST_PERCENT)).then(|| {
        Unsafe::new(
            format!("{} of the records were lost.", percent(lost, calls)),
            "Run again with --capture-range, to record a part of the run.",
        )
    })
}

/// Returns that too much of the GPU's time is unknown, if so.
fn untimed(facts: &Facts<'_>) -> Option<Unsafe> {
    let buckets = facts.buckets;
    let span = buckets.span();
    if buckets.device.is_none() || span == 0 {
        return Some(Unsafe::new(
            "no operation has a GPU time.",
            "Run again with --timing exact, until work runs on a GPU.",
        ));
    }
    let open = buckets.get(Bucket::Undecided).value;
    (open as f64 > span as f64 * UNDECIDED).then(|| {
        let remedy = match facts.all.duty.timing {
            Some(Timing::Exact) => "Run again with --capture-range, to record a part of the run.",
            _ => "Run again with --timing exact.",
        };
        Unsafe::new(format!("{} of the GPU's time is undecided.", percent(open, span)), remedy)
    })
}

/// Returns why a bound is unsafe because of the GPU's idle time; `None` if it is safe.
pub fn of_idle(facts: &Facts<'_>, bound: Bound, group: &Group) -> Option<Unsafe> {
    let (span, open) = (facts.buckets.span(), facts.buckets.get(Bucket::Idle(Cause::Undecided)).value);
    if bound != Bound::StartUp && open as f64 > span as f64 * UNDECIDED {
        return Some(Unsafe::new(
            format!("the GPU is idle for {} of its time for causes that are open.", percent(open, span)),
            match facts.all.duty.timing {
                Some(Timing::Exact) => QUIETER,
                _ => "Run again with --timing exact.",
            },
        ));
    }
    let off = facts.all.clock.median()?.value;
    // Gaps of a thread that only launches are that wherever the clock may put them.
    let is_short = bound != Bound::Launches && group.idle > group.ns / 2 && group.mean_gap() < off;
    is_short.then(|| {
        let (mean, off) = (duration(group.mean_gap()), duration(off));
        Unsafe::new(
            format!("the GPU's gaps are {mean} long, and its clock is known to +/- {off} only."),
            QUIETER,
        )
    })
}
