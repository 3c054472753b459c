//! The overview: one screen of 80 columns and 24 lines that says what bounds the program, where its time went, what to
//! change and how to check that.
//!
//! Each block is a title with a line or two. Findings and kernels give way where the rest needs more room.

use super::screen::{Screen, WIDE, about, has_wide_figure};
use super::stats::Stats;
use super::steps::{in_words, scale, slowest_stretch, whose};
use super::{Run, coverage, header, ranks, timeline};
use crate::analyze::estimate::Sum;
use crate::analyze::idle::Cause;
use crate::diagnose::buckets::Bucket;
use crate::report::chart::sparkline;
use crate::report::names::shorten;
use crate::report::rows::findings::{Finding, comparison};
use crate::report::shell::printable;
use crate::report::table::{Table, names, right};
use crate::report::text::{Text, Tone, dim};
use crate::report::units::{bytes, count, duration, percent, plural, rate};
use std::cmp::Reverse;

/// The lines of a screen.
const LINES: usize = 24;
/// The column at which a block's lines start, after its title.
const INDENT: usize = 10;
/// The most findings and kernels.
const MOST: (usize, usize) = (3, 4);
/// The columns of a kernel's name below which it is not shortened.
const NAME: usize = 28;
/// The narrowest plot of steps, in columns.
const PLOT: usize = 8;
/// The causes of idle time on the screen.
const CAUSES: usize = 4;

/// Draws the overview.
pub fn overview(screen: &mut Screen<'_>, run: &Run<'_>) {
    header::header(screen, run);
    let is_doubtful = run.rows.verdict.is_unsafe.is_some() || coverage::is_incomplete(&run.all);
    let covered = block(screen, "Coverage", coverage::in_short(run));
    let (on_top, at_the_end) = if is_doubtful { (covered, Vec::new()) } else { (Vec::new(), covered) };
    screen.push(on_top);
    screen.push([Text::default()]);
    let verdict = verdict(screen, run);
    screen.push(verdict.clone());
    // Sums over ranks say little: which rank is slower is the first question.
    let before = if run.rows.ranks.is_empty() {
        [wall(screen, run), idle(screen, run), steps(screen, run)].concat()
    } else {
        ranks::ranks(screen, run);
        Vec::new()
    };
    let after = [memory(screen, run), at_the_end, check(screen, run)].concat();
    // The last line says where everything else is.
    let room = LINES.saturating_sub(screen.height() + before.len() + after.len() + 1);
    let (some, few) = fitting(run, screen.view.rows(MOST.1), room);
    let found = [findings(screen, run, some), kernels(screen, run, few)].concat();
    // An empty line before the blocks is the last thing for which there is room.
    let between = (found.len() < room).then(Text::default).into_iter().collect();
    let blocks = [between, before, found, after].concat();
    let more = more(blocks.iter().any(|line| has_wide_figure(&line.characters())));
    screen.push(blocks.into_iter().chain([more]));
    if screen.view.repeats_verdict {
        screen.push([Text::default()]);
        screen.push(verdict);
    }
}

/// Returns how many findings and kernels fit into so many lines: kernels give way first, and one finding stays.
fn fitting(run: &Run<'_>, most_kernels: usize, room: usize) -> (usize, usize) {
    let launched = run.rows.kernels.iter().filter(|kernel| kernel.count > 0).count();
    let mut some = run.rows.findings.len().min(MOST.0);
    let mut few = launched.min(most_kernels);
    while 2 * some + few > room {
        match (some, few) {
            (_, 3..) => few -= 1,
            (2.., _) => some -= 1,
            (_, 2) => few -= 1,
            _ => break,
        }
    }
    (some, few)
}

/// Returns a block: its title, and its lines, each of which may be wrapped.
fn block(screen: &Screen<'_>, title: &str, lines: impl IntoIterator<Item = Text>) -> Vec<Text> {
    let mut before = Text::toned(Tone::Title, title);
    let wrapped = lines.into_iter().flat_map(|line| line.wrapped(screen.width() - INDENT));
    wrapped.map(|line| std::mem::take(&mut before).padded(INDENT).then(line)).collect()
}

/// Returns the verdict. What to change first has one line.
fn verdict(screen: &Screen<'_>, run: &Run<'_>) -> Vec<Text> {
    const MORE: &str = "  --section findings";
    let verdict = &run.rows.verdict;
    let room = screen.width() - 2;
    // A fault that ended the program comes first in both.
    let first = run.rows.findings.first();
    let has_ended =
        verdict.text.first().zip(first).is_some_and(|(text, first)| text.starts_with(&first.title));
    let tone = match verdict.bound {
        _ if has_ended => Tone::Problem,
        None => Tone::Problem,
        Some("gpu") => Tone::Work,
        Some(_) => Tone::Waste,
    };
    let mut lines = Vec::new();
    for (at, sentence) in verdict.text.iter().enumerate() {
        match at {
            0 => lines.extend(Text::toned(tone, sentence).wrapped(room)),
            1 => lines.extend(Text::from(sentence).wrapped(room)),
            _ => lines.push(Text::from(clipped(sentence, room - MORE.len())).then(dim(MORE))),
        }
    }
    lines.into_iter().map(|line| Text::from("  ").then(line)).collect()
}

/// Returns the start of a sentence that fits, up to a word's end.
fn clipped(sentence: &str, width: usize) -> String {
    let whole = Text::from(sentence);
    if whole.width() <= width {
        return whole.characters();
    }
    let mut lines = whole.wrapped(width.saturating_sub(2));
    lines.swap_remove(0).characters() + ".."
}

/// Returns the parts of the wall time, and when they were.
fn wall(screen: &Screen<'_>, run: &Run<'_>) -> Vec<Text> {
    let (identity, room) = (&run.rows.identity, screen.width() - INDENT);
    let parts = timeline::parts(identity).into_iter().filter(|part| part.bar.value > 0).map(|part| {
        let glyph = Text::toned(part.bar.tone, part.bar.drawn(screen.style.ascii).to_string());
        glyph.then(format!(" {} {}", part.name, about(part.time)))
    });
    // A part is not broken.
    let mut lines: Vec<Text> = Vec::new();
    for part in parts.chain([Text::from(format!("= {}", duration(identity.wall_ns)))]) {
        match lines.last_mut().filter(|line| line.width() + 2 + part.width() <= room) {
            Some(line) => *line = std::mem::take(line).then("  ").then(part),
            None => lines.push(part),
        }
    }
    lines.push(timeline::drawn(run, room, screen.style.ascii));
    block(screen, "Wall", lines)
}

/// Returns the largest causes of the idle time in the line of the wall time, which is that of one GPU.
fn idle(screen: &Screen<'_>, run: &Run<'_>) -> Vec<Text> {
    let of_idle = |(bucket, part): (&Bucket, &Sum)| match bucket {
        // It is what the causes leave, and as uncertain as they are.
        Bucket::Idle(Cause::Undecided) => Some((Cause::Undecided, Sum { lo: 0, ..*part })),
        Bucket::Idle(cause) => Some((*cause, *part)),
        _ => None,
    };
    let mut causes: Vec<(Cause, Sum)> = run
        .rows
        .identity
        .buckets
        .parts
        .iter()
        .filter_map(of_idle)
        .filter(|(_, part)| part.value > 0)
        .collect();
    causes.sort_by_key(|(_, part)| Reverse(part.value));
    let mut line = String::new();
    for (of, part) in causes.into_iter().take(CAUSES) {
        let next = format!("{} {}", cause(of.name()), about(part.estimate()));
        // A cause is not broken: what has no place is in the section.
        if !line.is_empty() && Text::from(format!("{line}, {next}")).width() > screen.width() - INDENT {
            break;
        }
        line = if line.is_empty() { next } else { format!("{line}, {next}") };
    }
    if line.is_empty() {
        return Vec::new();
    }
    block(screen, "Idle", [Text::from(line)])
}

/// Returns a cause in words, from its name in JSON.
fn cause(name: &str) -> String {
    match name {
        "outside_cuda" => "host outside CUDA".to_owned(),
        "set_up" => "set-up".to_owned(),
        name => name.replace('_', " "),
    }
}

/// Returns how long steps took, with a plot in the rest of the line, and where some in a row took longer.
fn steps(screen: &Screen<'_>, run: &Run<'_>) -> Vec<Text> {
    let steps = &run.rows.steps;
    if steps.count == 0 {
        return Vec::new();
    }
    let mut line = count(steps.count) + &whose(run);
    if run.has_windows() {
        line.push_str(" in one part of its time");
    }
    if steps.warm_up > 0 {
        line.push_str(&format!(", warm-up {}", count(steps.warm_up)));
    }
    in_words(steps).iter().for_each(|time| line.push_str(&format!(", {time}")));
    let line = Text::from(clipped(&line, screen.width() - INDENT)).then("  ");
    let room = (screen.width() - INDENT).saturating_sub(line.width()).min(steps.plot_ns.len());
    let plot = if room < PLOT.min(steps.plot_ns.len()) {
        String::new()
    } else {
        sparkline(&steps.plot_ns, scale(steps), room, screen.style.ascii)
    };
    let slow = slowest_stretch(steps).map(dim);
    block(screen, "Steps", [line.then(plot)].into_iter().chain(slow))
}

/// Returns the first findings: what was found, with its gain at the right, and what to change.
fn findings(screen: &Screen<'_>, run: &Run<'_>, some: usize) -> Vec<Text> {
    let room = screen.width() - INDENT;
    let lines = run.rows.findings.iter().take(some).enumerate().flat_map(|(at, finding)| {
        let gain = gain(finding);
        let what = format!("{} {}: {}", at + 1, finding.title, finding.evidence.text);
        let what = Text::from(clipped(&what, room - gain.width() - 1)).padded(room - gain.width());
        [what.then(gain), Text::from(format!("  fix: {}", clipped(&finding.fix, room - 7)))]
    });
    block(screen, "Findings", lines.collect::<Vec<_>>())
}

/// Returns what removing a fault would gain. The interval would leave no room for what the fault is; `~` stands for it.
fn gain(finding: &Finding) -> Text {
    match finding.saves_ns.value {
        0 => dim(finding.gain.clone()),
        _ if finding.saves_ns.lo > 0 => {
            Text::toned(Tone::Waste, format!("saves {}", about(finding.saves_ns)))
        }
        _ => Text::toned(Tone::Waste, &finding.gain),
    }
}

/// Returns the kernels that take most time.
fn kernels(screen: &Screen<'_>, run: &Run<'_>, few: usize) -> Vec<Text> {
    let mut rows: Vec<Stats> =
        run.rows.kernels.iter().filter(|kernel| kernel.count > 0).map(Stats::of).collect();
    screen.view.sort.apply(&mut rows, Stats::keys);
    let wall = run.gpu_wall();
    let mut table = Table::new(&[right(""), right(""), names("", shorten).down_to(NAME)]);
    for row in rows.iter().take(few) {
        let share = row.total.map_or_else(String::new, |total| {
            format!("{} {}", percent(total.value, wall), run.of_gpu_wall())
        });
        let times = row.avg.map_or_else(String::new, |avg| format!(" x {}", about(avg)));
        table.row([share.into(), (count(row.count) + &times).into(), Text::from(&row.name)]);
    }
    let limit = (!screen.style.full_names).then(|| screen.width() - INDENT);
    let mut title = Text::toned(Tone::Title, "Kernels");
    let rows = table.lines(limit).into_iter().skip(1);
    rows.map(|row| std::mem::take(&mut title).padded(INDENT).then(row)).collect()
}

/// Returns the peak of device memory.
fn memory(screen: &Screen<'_>, run: &Run<'_>) -> Vec<Text> {
    let (memory, device) = (&run.rows.memory, &run.rows.memory.device);
    if memory.by_kind.is_empty() && memory.out_of_memory == 0 {
        return Vec::new();
    }
    let sizes: Vec<u64> = run.rows.devices.iter().filter_map(|device| device.memory_bytes).collect();
    let of = match sizes.as_slice() {
        [size] => {
            let without = if run.all.memory.has_managed() { "without managed memory " } else { "" };
            format!(" ({without}{})", percent(run.all.memory.resident.peak_bytes, *size))
        }
        _ => String::new(),
    };
    let line = format!(
        "peak {}{of} at {}, end {}, {}",
        bytes(device.peak_bytes.value),
        duration(device.peak_ns.unwrap_or(0)),
        bytes(device.live_bytes),
        plural(rate(device.allocations, run.host_wall()), "allocation/s", "allocations/s")
    );
    let failed = (memory.out_of_memory > 0).then(|| {
        let calls = plural(memory.out_of_memory, "call", "calls");
        Text::toned(Tone::Problem, format!("{calls} failed because memory ran out: --section memory,calls"))
    });
    block(screen, "Memory", [Text::from(line)].into_iter().chain(failed))
}

/// Returns how to check a change, if there is something to change.
fn check(screen: &Screen<'_>, run: &Run<'_>) -> Vec<Text> {
    let Some(first) = run.rows.findings.first() else { return Vec::new() };
    let room = screen.width() - INDENT;
    let commands = [
        first.verify_shown.clone(),
        format!("run it again, then {}", printable(&comparison(run.reports, "NEW"))),
        "run it again, then compare both traces: gpuspy diff".to_owned(),
    ];
    let fits = commands.into_iter().map(Text::from).find(|command| command.width() <= room);
    block(screen, "Check", fits)
}

/// Returns where everything else is, and what the sign before figures with wide bounds means.
fn more(has_wide_figures: bool) -> Text {
    let mark = if has_wide_figures { format!("; {WIDE} marks wide bounds") } else { String::new() };
    let line = dim(format!("gpuspy report TRACE --section all{mark}"));
    Text::toned(Tone::Title, "More").padded(INDENT).then(line)
}

#[cfg(test)]
mod tests;
