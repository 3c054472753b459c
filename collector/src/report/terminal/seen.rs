//! What was seen, what was not and why, and what looking cost.

use super::Run;
use super::screen::{Screen, plural};
use crate::analyze::Tables;
use crate::analyze::coverage::DAMAGED_TRACE;
use crate::analyze::kernels::never_timed;
use crate::analyze::windows::{Duty, Timing};
use crate::model::Reason;
use crate::model::gpu_clock::{DRIFT_PPM, TURN_PPM};
use crate::report::names::plain;
use crate::report::text::{Text, Tone, dim};
use crate::report::units::{count, duration, percent};
use gpuspy_wire::record::{LossCause, Untimed};

/// Four lines on a wide screen, and more where there is more to say; asked for by itself, everything.
pub fn seen(screen: &mut Screen<'_>, run: &Run<'_>) {
    let all = &run.all;
    let whole = !screen.view.sections.is_empty();
    screen.section("Seen", launches(all));
    screen.more(losses(all));
    for sentence in [unknown(all, whole), bursts(all), never(all)].into_iter().flatten() {
        screen.more(sentence);
    }
    windows(&all.duty, whole).into_iter().for_each(|sentence| screen.more(sentence));
    screen.joined([own_cost(all, whole), clock(run, whole)]);
    screen.more(dim("not seen by design: launches from device code, OptiX, video engines, graphics"));
}

/// How many launches there were, and of how many of them the time is known.
fn launches(all: &Tables) -> String {
    let (coverage, duty) = (&all.coverage, &all.duty);
    let mut line = plural(coverage.launches, "launch", "launches");
    if coverage.launches > 0 {
        let counted = if records_lost(all).is_empty() { "100 % counted, " } else { "" };
        line.push_str(&format!(": {counted}{} timed", percent(coverage.timed, coverage.launches)));
        if coverage.runs.launches > 0 {
            let part = percent(coverage.runs.launches, coverage.launches);
            line.push_str(&format!(" one by one, {part} in runs of deep streams"));
        }
    }
    if let Some(Timing::Auto(budget)) = duty.timing
        && duty.windows == 0
        && all.devices.iter().all(|device| device.timed == 0)
    {
        line.push_str(&format!("; nothing could be timed, as no window ever opened (budget {budget} %)"));
    } else if let Some(Timing::Auto(_)) = duty.timing {
        line.push_str(&format!(" in {}", plural(duty.windows, "window", "windows")));
    }
    if coverage.in_graphs > 0 {
        line.push_str(&format!("; {} more kernels ran in graphs", count(coverage.in_graphs)));
    }
    if let (launches @ 1.., _) = coverage.outside {
        line.push_str(&format!("; {} more outside the range, left out", count(launches)));
    }
    if coverage.captured > 0 {
        line.push_str(&format!("; {} captured, not run", count(coverage.captured)));
    }
    line
}

/// What records were lost, by cause.
fn records_lost(all: &Tables) -> Vec<String> {
    let lost =
        all.coverage.dropped_by.iter().filter(|(cause, _)| **cause != LossCause::GpuTimePending.name());
    lost.map(|(cause, n)| format!("{} {}", count(*n), cause_in_words(cause))).collect()
}

/// A cause in words that need no manual, behind a count of records.
fn cause_in_words(name: &str) -> &str {
    match LossCause::ALL.iter().find(|cause| cause.name() == name) {
        Some(LossCause::RingFull) => "in full buffers",
        Some(LossCause::NoSlot) => "of threads beyond those there is room for",
        Some(LossCause::Starting) => "while tracing was being set up",
        Some(LossCause::Reentered) => "in signal handlers and the like",
        Some(LossCause::GpuTimePending) => "whose end was not read",
        Some(LossCause::Corrupt) => "garbled in a buffer",
        Some(LossCause::ScopeLost) => "of calls that never returned",
        Some(LossCause::TableFull) => "for want of room for streams and contexts",
        Some(LossCause::NameLost) => "for want of room for names",
        None if name == DAMAGED_TRACE => "in damaged parts of the trace",
        None => name,
    }
}

fn losses(all: &Tables) -> Text {
    let coverage = &all.coverage;
    let records = records_lost(all);
    let mut line = match records.as_slice() {
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
        line = line.then(format!("; {} GPU times lost with their context or process", count(*n)));
    }
    let launches = coverage.untimed.get(Reason::Lost.name()).copied().unwrap_or(0);
    if coverage.pending > launches {
        let others = plural(coverage.pending - launches, "copy, set or graph", "copies, sets and graphs");
        line = line.then(format!("; {others} whose end was not read: no time known"));
    }
    line
}

/// Why launches have no GPU time.
fn untimed(all: &Tables) -> Option<Text> {
    let coverage = &all.coverage;
    let why: Vec<String> = coverage
        .untimed
        .iter()
        .filter(|(_, n)| **n > 0)
        .map(|(why, n)| format!("{} {}", count(*n), reason(why)))
        .collect();
    (!why.is_empty()).then(|| format!("without a GPU time: {}", why.join(", ")).into())
}

/// A reason in words that need no manual.
fn reason(name: &str) -> &str {
    let words = [
        (Untimed::Budget, "in pauses of the budget"),
        (Untimed::DeepQueue, "on deep streams"),
        (Untimed::Run, "in runs whose time is not known"),
        (Untimed::Contended, "on streams that two threads used at once"),
        (Untimed::NoEvent, "for want of events"),
        (Untimed::Off, "with timing off"),
        (Untimed::NotHooked, "unseen by the driver's hooks"),
        (Untimed::EventFailed, "with events refused"),
        (Untimed::Programmatic, "programmatic"),
        (Untimed::Teardown, "in a context's end"),
        (Untimed::NoStream, "on no stream"),
        (Untimed::OutsideRange, "as the range began or ended"),
    ];
    let words = words.into_iter().find(|(untimed, _)| untimed.name() == name);
    words.map_or(
        if name == LossCause::GpuTimePending.name() { "whose end was not read" } else { name },
        |(_, words)| words,
    )
}

/// Names of unknown functions that are listed in the overview.
const UNKNOWN_NAMED: usize = 4;

/// Functions that were looked up and that nobody here knows.
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
    let line = Text::toned(Tone::Waste, "functions that this version does not know");
    Some(line.then(format!(": {}; work that they give the GPU is not seen", list.join(", "))))
}

fn bursts(all: &Tables) -> Option<Text> {
    let bursts = all.coverage.bursts;
    (bursts.count > 0).then(|| {
        format!(
            "{} timed as {}, {} in all: programmatic launches, which no event may stand between",
            plural(bursts.launches, "launch is", "launches are"),
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
        format!("{} launches are of kernels that were never timed: no total has them", count(untimed)).into()
    })
}

/// What `--timing auto` did after the first phase, if that ever ended: in the overview where pauses were a part of the time
/// that matters.
fn windows(duty: &Duty, whole: bool) -> Vec<Text> {
    let (timed, all) = duty.time();
    let Some(Timing::Auto(_)) = duty.timing else { return Vec::new() };
    if all <= timed || (!whole && all - timed < all / 100) {
        return Vec::new();
    }
    let mut sentences = vec![Text::from(format!("windows are {} of the time", percent(timed, all)))];
    if duty.is_exhausted() {
        let exhausted = "counting alone costs more than the budget: but for short looks, windows had to wait";
        sentences.push(Text::toned(Tone::Waste, exhausted));
    }
    sentences
}

/// What looking cost, all of it in one figure, and what that is made of, against the budget.
fn own_cost(all: &Tables, whole: bool) -> Text {
    let Some(overhead) = &all.overhead else {
        return "own cost unknown: the trace ends before its first status".into();
    };
    let Some(cost) = overhead.cost(&all.duty) else {
        return "own cost unknown: no time passed".into();
    };
    let line = Text::from(format!("own cost {} of host time", share(cost.total())));
    let mut parts = vec![format!("hooks {}", share(cost.hooks)), format!("poller {}", share(cost.poller))];
    match (cost.events, all.duty.slowdown()) {
        (Some(events), Some(slower)) if whole => parts.push(format!(
            "slower launches {}, by windows and pauses: {} .. {} of the time in windows",
            share(events),
            share(100.0 * slower.lo),
            share(100.0 * slower.hi)
        )),
        (Some(events), _) => parts.push(format!("slower launches {}", share(events))),
        (None, _) if all.duty.timing == Some(Timing::Off) => {}
        (None, _) => parts.push("how much slower launches were is not known".to_owned()),
    }
    let line = line.then(dim(format!(": {}", parts.join(", "))));
    let line = line.then(against_budget(&all.duty));
    if !whole {
        return line;
    }
    let (hooks, poller) = (duration(overhead.agent_ns), duration(overhead.poller_ns));
    line.then(dim(format!("; in hooks {hooks}, poller {poller}, of {}", duration(overhead.wall_ns))))
}

fn share(percent: f64) -> String {
    format!("{percent:.1} %")
}

/// What of the cost the budget is about: all of it from the end of the first phase on, as far as it is known.
fn against_budget(duty: &Duty) -> String {
    let Some(Timing::Auto(budget)) = duty.timing else { return String::new() };
    let first =
        duty.first.percent().map_or_else(String::new, |percent| format!(", which cost {}", share(percent)));
    match duty.measured().percent() {
        Some(measured) => {
            let slowed = duty.slowed_percent();
            let what = if slowed.is_some() { "all of it" } else { "hooks and poller" };
            format!(
                "; {what} {} of a budget of {budget} %, behind a first phase timed in full{first}",
                share(measured + slowed.unwrap_or(0.0))
            )
        }
        None => format!(
            "; more than the budget of {budget} % may be spent in a short run: its first second, or 10 000 launches, \
             is timed in full"
        ),
    }
}

fn clock(run: &Run<'_>, whole: bool) -> Text {
    let Some(half_width) = run.all.clock.median().map(|median| median.value) else {
        return "host and GPU clock not related: nothing was timed".into();
    };
    let line = Text::from(format!("host and GPU clock known to +/- {}", duration(half_width)));
    let turn = format!(", which changes by at most {TURN_PPM} ppm a second");
    let turn = if whole { turn.as_str() } else { "" };
    let line = line.then(dim(format!(" (median; assumed: they part by at most {DRIFT_PPM} ppm{turn})")));
    let contradictions: u64 = run.reports.iter().map(|report| report.process.clock_contradictions).sum();
    if contradictions == 0 {
        return line;
    }
    let more = format!("; they drifted more than assumed {} times", count(contradictions));
    line.then(Text::toned(Tone::Waste, more))
}
