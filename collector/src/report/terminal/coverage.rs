//! Coverage: what was recorded and timed, what was not and why, and the profiling overhead.

use super::Run;
use super::screen::Screen;
use crate::analyze::Tables;
use crate::analyze::call_class::CallClass;
use crate::analyze::calls::base_name;
use crate::analyze::coverage::DAMAGED_TRACE;
use crate::analyze::kernels::never_timed;
use crate::analyze::windows::{Duty, Timing};
use crate::diagnose::has_operations;
use crate::model::Reason;
use crate::model::gpu_clock::{DRIFT_PPM, TURN_PPM};
use crate::report::names::plain;
use crate::report::text::{Text, Tone, dim};
use crate::report::units::{count, duration, percent, plural};
use gpuspy_wire::record::{LossCause, Untimed};

/// Draws the section: four lines on a wide screen, and more where something is missing. With `--section coverage` it has
/// all details.
pub fn coverage(screen: &mut Screen<'_>, run: &Run<'_>) {
    let all = &run.all;
    let whole = screen.view.is_selected();
    screen.section("Coverage", launches(all));
    failed(all).into_iter().for_each(|sentence| screen.more(sentence));
    screen.more(losses(all));
    for sentence in [unknown(all, whole), bursts(all), never(all)].into_iter().flatten() {
        screen.more(sentence);
    }
    windows(&all.duty, whole).into_iter().for_each(|sentence| screen.more(sentence));
    screen.joined([overhead(all, whole), clock(run, whole)]);
    screen.more(dim("not covered by design: launches from device code, OptiX, video engines, graphics"));
}

/// Returns whether so much is missing that a reader has to know it first.
pub fn is_incomplete(all: &Tables) -> bool {
    !is_all(all) || !all.coverage.unknown_functions.is_empty()
}

/// Returns what was recorded and timed, and what that cost, for the overview.
pub fn in_short(run: &Run<'_>) -> Vec<Text> {
    let (all, coverage) = (&run.all, &run.all.coverage);
    let mut line = plural(coverage.launches, "launch", "launches");
    if coverage.launches > 0 {
        let timed = coverage.timed.saturating_add(coverage.runs.launches);
        line.push_str(&format!(", {} timed", percent(timed, coverage.launches)));
    }
    line.push_str(&ran_after(all));
    line.push_str(if is_all(all) { "; no record lost" } else { "" });
    if let Some(cost) = all.overhead.as_ref().and_then(|overhead| overhead.cost(&all.duty)) {
        line.push_str(&format!("; overhead {}", share(cost.total())));
    }
    if let Some(off) = all.clock.median() {
        line.push_str(&format!("; clock +/- {}", duration(off.value)));
    }
    let lost = (!is_all(all)).then(|| losses(all));
    [Some(Text::from(line)), failed(all), lost, unknown(all, false)].into_iter().flatten().collect()
}

/// Returns how many calls that launch failed: what they were to launch never ran, and is in no other table.
fn failed(all: &Tables) -> Option<Text> {
    let launches = all.apis.iter().filter(|(api, _)| {
        api.contains("Launch") && CallClass::of(base_name(api)) != CallClass::HostFunction
    });
    let failed = launches.fold(0u64, |sum, (_, calls)| sum.saturating_add(calls.failed));
    let calls = plural(failed, "call that launches", "calls that launch");
    (failed > 0).then(|| Text::toned(Tone::Waste, format!("{calls} failed")).then(": --section calls"))
}

/// Returns how many launches there were, and what share of them has a GPU time.
fn launches(all: &Tables) -> String {
    let (coverage, duty) = (&all.coverage, &all.duty);
    let mut line = plural(coverage.launches, "launch", "launches");
    if coverage.launches > 0 {
        let counted = if is_all(all) { "100 % recorded, " } else { "" };
        line.push_str(&format!(": {counted}{} timed", percent(coverage.timed, coverage.launches)));
        if coverage.runs.launches > 0 {
            let part = percent(coverage.runs.launches, coverage.launches);
            line.push_str(&format!(" individually, {part} in runs on deep streams"));
        }
    }
    match duty.timing {
        // There was nothing to time.
        Some(Timing::Auto(_)) if !has_operations(all) => {}
        Some(Timing::Auto(budget))
            if duty.windows == 0 && all.devices.iter().all(|device| device.timed == 0) =>
        {
            line.push_str(&format!(
                "; nothing was timed, because no sampling window opened (budget {budget} %)"
            ));
        }
        Some(Timing::Auto(_)) => {
            line.push_str(&format!(" in {}", plural(duty.windows, "sampling window", "sampling windows")));
        }
        _ => {}
    }
    if coverage.in_graphs > 0 {
        let kernels = plural(coverage.in_graphs, "more kernel", "more kernels");
        line.push_str(&format!("; {kernels} ran in graphs"));
    }
    if let (launches @ 1.., _) = coverage.outside {
        line.push_str(&format!("; {} more outside the capture range, not recorded", count(launches)));
    }
    line.push_str(&ran_after(all));
    if coverage.captured > 0 {
        line.push_str(&format!("; {} captured into graphs, not run", count(coverage.captured)));
    }
    line
}

/// Returns how many launches were made in the capture ranges and ran after them, which the others do not include.
fn ran_after(all: &Tables) -> String {
    match all.coverage.ran_after {
        (0, _) => String::new(),
        (launches, _) => format!("; {} more ran after the capture range", count(launches)),
    }
}

/// Whether it is known that no record was lost.
fn is_all(all: &Tables) -> bool {
    records_lost(all).is_empty() && !all.coverage.uncounted
}

/// Returns how many records were lost, by cause.
fn records_lost(all: &Tables) -> Vec<String> {
    let lost =
        all.coverage.dropped_by.iter().filter(|(cause, _)| **cause != LossCause::GpuTimePending.name());
    lost.map(|(cause, n)| format!("{} {}", count(*n), cause_in_words(cause))).collect()
}

/// Returns a cause in words that fit after a count of records.
fn cause_in_words(name: &str) -> &str {
    match LossCause::ALL.iter().find(|cause| cause.name() == name) {
        Some(LossCause::RingFull) => "in full buffers",
        Some(LossCause::NoSlot) => "of threads beyond the maximum",
        Some(LossCause::Starting) => "while tracing was set up",
        Some(LossCause::Reentered) => "of reentrant calls (signal handlers)",
        Some(LossCause::GpuTimePending) => UNREAD_END,
        Some(LossCause::Corrupt) => "corrupt in a buffer",
        Some(LossCause::ScopeLost) => "of calls that never returned",
        Some(LossCause::TableFull) => "because tables of streams and contexts were full",
        Some(LossCause::NameLost) => "because the table of names was full",
        None if name == DAMAGED_TRACE => "in damaged parts of the trace",
        None => name,
    }
}

/// Describes operations whose end event was not read before their process or context ended. Whether they had finished is
/// not known: the poller may have been late.
const UNREAD_END: &str = "whose end event was never read";

/// What is said of records that may have been in a trace's end that cannot be read.
const UNCOUNTED: &str = "how many records were lost is not known";

fn losses(all: &Tables) -> Text {
    let coverage = &all.coverage;
    let records = records_lost(all);
    let mut line = match records.as_slice() {
        [] if coverage.uncounted => Text::toned(Tone::Problem, UNCOUNTED),
        [] => Text::from("no record lost"),
        records => Text::toned(Tone::Problem, "LOST").then(format!(" records: {}", records.join(", "))),
    };
    let unattributed = format!("{} unattributed", count(coverage.unattributed));
    let tone = if coverage.unattributed > 0 { Tone::Waste } else { Tone::Plain };
    line = line.then(", ").then(Text::toned(tone, unattributed));
    if let Some(untimed) = untimed(all) {
        line = line.then("; ").then(untimed);
    }
    if let Some(n) = coverage.dropped_by.get(LossCause::GpuTimePending.name()) {
        let times = plural(*n, "GPU time", "GPU times");
        line = line.then(format!("; {times} lost because a context or the process ended"));
    }
    let launches = coverage.untimed.get(Reason::Lost.name()).copied().unwrap_or(0);
    if coverage.pending > launches {
        let others =
            plural(coverage.pending - launches, "copy, memset or graph", "copies, memsets and graphs");
        line = line.then(format!("; {others} {UNREAD_END}"));
    }
    line
}

/// Returns why launches have no GPU time, with counts.
fn untimed(all: &Tables) -> Option<Text> {
    let coverage = &all.coverage;
    let why: Vec<String> = coverage
        .untimed
        .iter()
        .filter(|(_, n)| **n > 0)
        .map(|(why, n)| format!("{} {}", count(*n), reason(why)))
        .collect();
    (!why.is_empty()).then(|| format!("without GPU time: {}", why.join(", ")).into())
}

/// Returns a reason in words that fit after a count of launches.
fn reason(name: &str) -> &str {
    let words = [
        (Untimed::Budget, "in sampling pauses"),
        (Untimed::DeepQueue, "on deep streams"),
        (Untimed::Run, "in runs without a time"),
        (Untimed::Contended, "on streams that two threads used at once"),
        (Untimed::NoEvent, "because no event was available"),
        (Untimed::Off, "with timing off"),
        (Untimed::NotHooked, "that bypassed the driver hooks"),
        (Untimed::EventFailed, "because recording an event failed"),
        (Untimed::Programmatic, "in sequences of programmatic launches"),
        (Untimed::Teardown, "during context teardown"),
        (Untimed::NoStream, "outside streams"),
        (Untimed::OutsideRange, "at the edges of the capture range"),
    ];
    let words = words.into_iter().find(|(untimed, _)| untimed.name() == name);
    words.map_or(if name == LossCause::GpuTimePending.name() { UNREAD_END } else { name }, |(_, words)| words)
}

/// How many unknown functions the overview names.
const UNKNOWN_NAMED: usize = 4;

/// Returns the CUDA functions that the program looked up and that the agent does not know.
fn unknown(all: &Tables, whole: bool) -> Option<Text> {
    let functions = &all.coverage.unknown_functions;
    if functions.is_empty() {
        return None;
    }
    let named = if whole { functions.len() } else { UNKNOWN_NAMED };
    let mut list: Vec<String> = functions
        .iter()
        .take(named)
        .map(|(name, lookups)| {
            let name = name.as_deref().map_or("others".into(), plain);
            format!("{name} ({})", plural(*lookups, "lookup", "lookups"))
        })
        .collect();
    if functions.len() > named {
        list.push(format!("and {} more", functions.len() - named));
    }
    let line = Text::toned(Tone::Waste, "CUDA functions unknown to this version");
    Some(line.then(format!(": {}; GPU work that they submit is not recorded", list.join(", "))))
}

fn bursts(all: &Tables) -> Option<Text> {
    let bursts = all.coverage.bursts;
    (bursts.count > 0).then(|| {
        format!(
            "{} timed as {}, {} in total: no event may be recorded between them",
            plural(bursts.launches, "programmatic launch is", "programmatic launches are"),
            plural(bursts.count, "burst", "bursts"),
            duration(bursts.total.value)
        )
        .into()
    })
}

fn never(all: &Tables) -> Option<Text> {
    let Some(Timing::Auto(_)) = all.duty.timing else { return None };
    let untimed = never_timed(&all.kernels);
    (untimed > 0).then(|| {
        format!(
            "{} of kernels that were never timed; totals do not include them",
            plural(untimed, "launch is", "launches are")
        )
        .into()
    })
}

/// Returns what `--timing auto` did after the first phase, if that phase ended. The overview has it where sampling pauses
/// were at least 1 % of the time.
fn windows(duty: &Duty, whole: bool) -> Vec<Text> {
    let (timed, all) = duty.time();
    let Some(Timing::Auto(_)) = duty.timing else { return Vec::new() };
    if all <= timed || (!whole && all - timed < all / 100) {
        return Vec::new();
    }
    let mut sentences =
        vec![Text::from(format!("sampling windows cover {} of the time", percent(timed, all)))];
    if duty.is_exhausted() {
        let exhausted =
            "recording calls alone costs more than the budget, so only short sampling windows could open";
        sentences.push(Text::toned(Tone::Waste, exhausted));
    }
    sentences
}

/// Returns the profiling overhead: the total, its parts, and how it compares with the budget.
fn overhead(all: &Tables, whole: bool) -> Text {
    let Some(overhead) = &all.overhead else {
        return "profiling overhead unknown: the trace ends before its first status record".into();
    };
    let Some(cost) = overhead.cost(&all.duty) else {
        return "profiling overhead unknown: no time passed".into();
    };
    // Threads that run side by side may take more than the time that passes.
    let threads = if cost.hooks > 100.0 { ", all threads added" } else { "" };
    let line = Text::from(format!("profiling overhead {} of host time{threads}", share(cost.total())));
    let mut parts = vec![format!("hooks {}", share(cost.hooks)), format!("poller {}", share(cost.poller))];
    match (cost.events, all.duty.slowdown()) {
        (Some(events), Some(slower)) if whole => parts.push(format!(
            "launch slowdown {} ({} .. {} of the time in sampling windows, compared with pauses)",
            share(events),
            share(100.0 * slower.lo),
            share(100.0 * slower.hi)
        )),
        (Some(events), _) => parts.push(format!("launch slowdown {}", share(events))),
        (None, Some(slower)) if whole => parts.push(format!(
            "launch slowdown too small to be told ({} .. {} of the time in sampling windows, compared with pauses)",
            share(100.0 * slower.lo),
            share(100.0 * slower.hi)
        )),
        (None, Some(_)) => parts.push("launch slowdown too small to be told".to_owned()),
        (None, _) if all.duty.timing == Some(Timing::Off) => {}
        (None, _) => parts.push("launch slowdown not measured".to_owned()),
    }
    let line = line.then(dim(format!(": {}", parts.join(", "))));
    let line = line.then(against_budget(&all.duty));
    if !whole {
        return line;
    }
    let (hooks, poller) = (duration(overhead.agent_ns), duration(overhead.poller_ns));
    line.then(dim(format!("; hooks {hooks} and poller {poller} of {}", duration(overhead.wall_ns))))
}

fn share(percent: f64) -> String {
    format!("{percent:.1} %")
}

/// Returns the part of the overhead that the budget limits: all of it after the first phase, as far as it was measured.
fn against_budget(duty: &Duty) -> String {
    let Some(Timing::Auto(budget)) = duty.timing else { return String::new() };
    let first =
        duty.first.percent().map_or_else(String::new, |percent| format!(" and cost {}", share(percent)));
    match duty.measured().percent() {
        Some(measured) => {
            let slowed = duty.slowed_percent();
            let what = if slowed.is_some() { "total" } else { "hooks and poller" };
            format!(
                "; {what} {} of a budget of {budget} % after the first phase, which is timed in full{first}",
                share(measured + slowed.unwrap_or(0.0))
            )
        }
        None => format!(
            "; a short run may exceed the budget of {budget} %: its first second, or its first 10 000 launches, do \
             not count against it"
        ),
    }
}

fn clock(run: &Run<'_>, whole: bool) -> Text {
    let Some(half_width) = run.all.clock.median().map(|median| median.value) else {
        return "host and GPU clocks not related: nothing was timed".into();
    };
    let line = Text::from(format!("host-GPU clock offset known to +/- {}", duration(half_width)));
    let turn = format!(" that changes by at most {TURN_PPM} ppm per second");
    let turn = if whole { turn.as_str() } else { "" };
    let line = line.then(dim(format!(" (median; assumes a drift of at most {DRIFT_PPM} ppm{turn})")));
    let contradictions: u64 = run.reports.iter().map(|report| report.process.clock_contradictions).sum();
    if contradictions == 0 {
        return line;
    }
    let more = format!("; the drift exceeded that {}", plural(contradictions, "time", "times"));
    line.then(Text::toned(Tone::Waste, more))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analyze::calls::HostTimes;

    /// Half of a program's launches failed, and only the table of calls said so.
    #[test]
    fn launches_that_failed_are_counted_and_host_functions_are_none() {
        let mut all = Tables::default();
        let calls = |failed| {
            let mut times = HostTimes::default();
            (times.count, times.failed) = (400, failed);
            times
        };
        all.apis.insert("cuLaunchHostFunc".to_owned(), calls(9));
        all.apis.insert("cuMemAlloc".to_owned(), calls(5));
        assert_eq!(failed(&all), None);
        all.apis.insert("cuLaunchKernel".to_owned(), calls(200));
        all.apis.insert("cuGraphLaunch".to_owned(), calls(1));
        let said = Text::toned(Tone::Waste, "201 calls that launch failed").then(": --section calls");
        assert_eq!(failed(&all), Some(said));
    }
}
