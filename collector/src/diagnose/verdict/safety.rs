//! Is it safe to say what bounds a program?

use super::groups::Group;
use super::{Bound, UNDECIDED};
use crate::analyze::coverage::DAMAGED_TRACE;
use crate::analyze::idle::Cause;
use crate::analyze::last_work::Work;
use crate::analyze::windows::Timing;
use crate::analyze::{Damage, ProcessReport, Tables};
use crate::diagnose::buckets::Bucket;
use crate::diagnose::framework::Advice;
use crate::diagnose::{Facts, Part, has_operations};
use crate::model::outcome::Outcome;
use crate::units::{capital, duration, percent};
use crate::why::advice;
use gpuspy_wire::record::{LossCause, Untimed};
use std::io;

/// Of a hundred records, more than this many lost ones make figures unsafe.
const LOST_PERCENT: u64 = 1;

/// What makes the clock better known: completions are seen sooner.
const QUIETER: &str = "Run again with --timing exact on a machine with idle processors.";

/// What to do about a trace that could not be written, for a reason that nothing more is known about.
const ELSEWHERE: &str = "choose another path for the trace";

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

/// What to do about a program that does not use the GPU.
const UNUSED: Advice = Advice {
    pytorch: "Move the model and its inputs there: model.to('cuda'), tensor.to('cuda').",
    jax: "Look at jax.devices() and JAX_PLATFORMS: it computed on another device.",
    cuda: "If it should have, gpuspy doctor shows which GPUs it can use.",
};

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
    let checks: [fn(&Facts<'_>) -> Option<Unsafe>; 8] =
        [part_of_a_gpu, unread, ran_after, unused, blocked, not_timed, lost, untimed];
    checks.into_iter().find_map(|check| check(facts))
}

/// Returns that only some of the work of a GPU is selected, if so: what else it did in the meantime is not.
fn part_of_a_gpu(facts: &Facts<'_>) -> Option<Unsafe> {
    facts.divide_a_gpu().then(|| {
        let why = "the filter leaves out other work that may have kept the GPU busy.";
        Unsafe::new(why, "Leave out --stream, --thread and --kernel.")
    })
}

/// Returns that too much of the traces cannot be read, if so. A file that is only cut ends earlier, and is whole until then.
fn unread(facts: &Facts<'_>) -> Option<Unsafe> {
    let damages = facts.reports.iter().map(|report| report.process.damage);
    let damages = damages.filter(|damage| !damage.is_only_cut());
    let share = too_many(facts, damages.fold(0u64, |sum, damage| sum.saturating_add(damage.records_lost)))?;
    let error = facts.reports.iter().find_map(|report| report.process.damage.write_error);
    let remedy = match error.map(io::Error::from_raw_os_error) {
        Some(error) => format!("{}, and run again.", capital(advice(&error).unwrap_or(ELSEWHERE))),
        None => "Run the program again.".to_owned(),
    };
    Some(Unsafe::new(format!("{share} of the records cannot be read."), &remedy))
}

/// Returns that most of what was launched in the capture ranges ran after them, if so: what the GPU did in the ranges is not
/// what the program did in them.
fn ran_after(facts: &Facts<'_>) -> Option<Unsafe> {
    let coverage = &facts.all.coverage;
    let (after, launches) = (coverage.ran_after.0, coverage.launches.saturating_add(coverage.ran_after.0));
    (after > launches / 2).then(|| {
        let share = percent(after, launches);
        Unsafe::new(
            format!("{share} of the launches in the capture range ran after it."),
            "Synchronize before the end of the range, and run again.",
        )
    })
}

/// Returns that the GPU had nothing to do in a run, or in a part of it, of which everything is known, if so.
fn unused(facts: &Facts<'_>) -> Option<Unsafe> {
    let is_known = facts.reports.iter().all(|report| report.process.damage == Damage::default());
    if !is_known || lost_records(facts) > 0 || has_operations(facts.all) || facts.buckets.span() > 0 {
        return None;
    }
    if let Some(part) = facts.part() {
        return unused_in(facts, part);
    }
    // Launches that failed are in no other table.
    let has_tried =
        facts.all.apis.keys().any(|api| api.contains("Launch")) || facts.all.gpu_errors.first.is_some();
    (!has_tried).then(|| {
        let why = "the program launched nothing on the GPU, and copied nothing to it.";
        Unsafe::new(why, &UNUSED.of(facts))
    })
}

/// Returns the same of a part of a run. Without GPU times, work that was launched before it may have run in it.
fn unused_in(facts: &Facts<'_>, part: Part) -> Option<Unsafe> {
    if facts.all.duty.timing == Some(Timing::Off) {
        return None;
    }
    let mut captured = facts.reports.iter().filter_map(|report| report.process.captured.as_ref());
    let (why, remedy) = match part {
        Part::Selected => {
            ("nothing ran on a GPU in the selected part.", "Select a part in which it has work.")
        }
        Part::Captured if captured.all(|captured| captured.ranges == 0) => {
            ("the capture range never started.", "Run again with a range that the program enters.")
        }
        Part::Captured => {
            ("nothing ran on a GPU in the captured time.", "Run again with a range in which it has work.")
        }
    };
    Some(Unsafe::new(why, remedy))
}

/// Returns that launches waited for their kernels because the program's environment said so, if so.
fn blocked(facts: &Facts<'_>) -> Option<Unsafe> {
    let is_blocked = facts.reports.iter().any(|report| report.process.launch_blocking);
    let why = "CUDA_LAUNCH_BLOCKING was set: every launch waited for its kernel.";
    is_blocked.then(|| Unsafe::new(why, "Unset it and run again."))
}

/// Returns that nothing was to be timed, if so.
fn not_timed(facts: &Facts<'_>) -> Option<Unsafe> {
    (facts.all.duty.timing == Some(Timing::Off)).then(|| {
        let why = "timing was off, so it is not known when the GPU was busy.";
        Unsafe::new(why, "Run again with --timing auto.")
    })
}

/// Returns that too many records were lost before they were in a trace, if so.
fn lost(facts: &Facts<'_>) -> Option<Unsafe> {
    let share = too_many(facts, lost_records(facts))?;
    Some(Unsafe::new(format!("{share} of the records were lost."), record_less(facts)))
}

/// Returns the number of records that were lost before they were in a trace. An operation whose end was not read has its record.
fn lost_records(facts: &Facts<'_>) -> u64 {
    let others = [LossCause::GpuTimePending.name(), DAMAGED_TRACE];
    let lost = facts.all.coverage.dropped_by.iter().filter(|(cause, _)| !others.contains(*cause));
    lost.fold(0u64, |sum, (_, count)| sum.saturating_add(*count))
}

/// Says how to record less than was recorded.
fn record_less(facts: &Facts<'_>) -> &'static str {
    match facts.reports.iter().any(|report| report.process.captured.is_some()) {
        true => "Run again with a shorter capture range.",
        false => "Run again with --capture-range, to record a part of the run.",
    }
}

/// Returns the share of the records of whole traces that `lost` ones are, if that is too large.
fn too_many(facts: &Facts<'_>, lost: u64) -> Option<String> {
    let calls = facts.all.coverage.recorded.saturating_add(lost);
    (lost.saturating_mul(100) > calls.saturating_mul(LOST_PERCENT)).then(|| percent(lost, calls))
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
        let share = percent(open, span);
        if let Some(remedy) = pending(facts, open / 2) {
            let why = format!("{share} of the GPU's time is undecided: some work had not ended.");
            return Unsafe::new(why, &remedy);
        }
        Unsafe::new(format!("{share} of the GPU's time is undecided."), time_more(facts))
    })
}

/// What to do about a program that ends by itself before its work does.
const WAITS_AT_END: Advice = Advice {
    pytorch: "Run again with torch.cuda.synchronize() at the end of the program, behind its last step.",
    jax: "Run again with block_until_ready() on the last results at the end of the program.",
    cuda: "Run again with cudaDeviceSynchronize() at the end of the program, behind its last work.",
};

/// Says what to do about work that was pending at the end of a process for longer than `least` ns; `None` if none was.
fn pending(facts: &Facts<'_>, least: u64) -> Option<String> {
    let is_long = |tables: &Tables| tables.pending.iter().any(|pending| pending.left > least);
    let processes = || facts.reports.iter().filter(|report| is_long(&report.tables));
    if processes().next().is_none() && !is_long(facts.all) {
        return None;
    }
    let outcome = |report: &ProcessReport| report.process.outcome;
    let is_killed = processes().any(|report| matches!(outcome(report), Some(Outcome::Killed(_))));
    let has_ended = processes().any(|report| outcome(report).is_some_and(Outcome::is_own));
    let has_hung = facts.reports.iter().any(|report| !report.process.hangs.is_empty());
    Some(match () {
        () if has_hung => "What hung, and where the host waits, is said of its process.".to_owned(),
        () if is_waiting_rank(facts) => {
            "It waited for another rank: the report of all ranks, gpuspy report DIR, says for which."
                .to_owned()
        }
        () if is_killed => {
            "If it hung, run again with --hang-after 5, which says what hangs and where the host waits."
                .to_owned()
        }
        () if has_ended => WAITS_AT_END.of(facts),
        () => "Let the program end, or wait for its work first.".to_owned(),
    })
}

/// Whether this is one rank of several that waited in a collective at its end.
fn is_waiting_rank(facts: &Facts<'_>) -> bool {
    let [only] = facts.reports else { return false };
    let unended = only.tables.last_work.unended.as_ref();
    only.process.job.rank.is_some()
        && only.process.job.world_size != Some(1)
        && unended.is_some_and(|unended| matches!(unended.work, Work::Collective(_)))
}

/// Says how more operations get times, by the reason why most have none.
fn time_more(facts: &Facts<'_>) -> &'static str {
    let untimed = facts.all.coverage.untimed.iter().filter(|(_, count)| **count > 0);
    let most = untimed.max_by_key(|(_, count)| **count).map(|(reason, _)| *reason);
    let is = |reason: Untimed| most == Some(reason.name());
    match facts.all.duty.timing {
        _ if is(Untimed::Contended) => {
            "Give each thread a stream of its own: one that two use at once has few times."
        }
        _ if is(Untimed::DeepQueue) => {
            "Wait for the GPU now and then: on a stream that is far ahead of it few operations have times."
        }
        Some(Timing::Exact) => record_less(facts),
        _ => exact(facts),
    }
}

/// Says how to time all that can be timed. A collector of programs that are started elsewhere has no such option.
fn exact(facts: &Facts<'_>) -> &'static str {
    match facts.reports.iter().any(|report| report.process.window.is_some()) {
        true => "Run the program again with GPUSPY_TIMING=exact.",
        false => "Run again with --timing exact.",
    }
}

/// Returns why a bound is unsafe because of the GPU's idle time; `None` if it is safe.
pub fn of_idle(facts: &Facts<'_>, bound: Bound, group: &Group) -> Option<Unsafe> {
    let (span, open) = (facts.buckets.span(), facts.buckets.get(Bucket::Idle(Cause::Undecided)).value);
    if !bound.is_around() && open as f64 > span as f64 * UNDECIDED {
        return Some(Unsafe::new(
            format!("the GPU is idle for {} of its time for causes that are open.", percent(open, span)),
            match facts.all.duty.timing {
                Some(Timing::Exact) => QUIETER,
                _ => exact(facts),
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
