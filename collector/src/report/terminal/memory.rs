//! Memory use: the peak and its time, what is live at the end, allocations and frees.

use super::Run;
use super::screen::{NONE, Screen, number};
use crate::analyze::lines;
use crate::analyze::memory::Reasons;
use crate::report::chart::sparkline;
use crate::report::names::{cut, library, line};
use crate::report::rows::memory::{Origin, Peaks, Timeline, Use};
use crate::report::table::{Table, left, names, right};
use crate::report::text::{Text, Tone, dim};
use crate::report::units::{bytes, duration, percent, plural, rate};
use std::cmp::Reverse;

/// Holders that the overview shows.
const HOLDERS: usize = 3;
/// Lifetimes by their names in JSON, in words.
const LIFETIMES: [(&str, &str); 4] = [
    ("persistent", "to the end, or half of the run"),
    ("longer", "several steps"),
    ("per_step", "up to the next step"),
    ("temporary", "1 ms, or without other work"),
];
/// The fewest columns in which a library's path is readable.
const FILE: usize = 20;

/// Draws the section.
pub fn memory(screen: &mut Screen<'_>, run: &Run<'_>) {
    let memory = &run.rows.memory;
    let failed = memory.out_of_memory;
    if memory.by_kind.is_empty() && failed == 0 {
        return screen.none("Memory", "no memory was allocated");
    }
    screen.section("Memory", sentence(run));
    if failed > 0 {
        let calls = plural(failed, "call", "calls");
        let failures = format!("  {calls} failed because memory ran out; --section calls shows which");
        screen.line(Text::toned(Tone::Problem, failures));
    }
    growth(screen, run);
    timeline(screen, run);
    holders(screen, run);
    if screen.view.is_selected() {
        lifetimes(screen, run);
        by_kind(screen, run);
        by_library(screen, run);
    }
}

/// Draws who held the most device memory at the peak; of several processes, at the peak of each.
fn holders(screen: &mut Screen<'_>, run: &Run<'_>) {
    let memory = &run.rows.memory;
    let several = run.reports.len() > 1;
    let mut table = Table::new(&[
        left(if several { "held at its process's peak by" } else { "held at peak by" }),
        right("bytes"),
        right(if several { "of that peak" } else { "of peak" }),
        right("blocks"),
        right("steps").or_drop(3),
        left("API"),
        right("process"),
        right("thread").or_drop(2),
        names("NVTX range", cut).down_to(FILE).or_drop(1),
    ]);
    let whole = screen.view.is_selected();
    let all = memory.device.peak_bytes.value;
    let with_steps = memory.holders.iter().any(|holder| holder.first_step.is_some());
    let shown = if whole { memory.holders.len() } else { HOLDERS.min(memory.holders.len()) };
    for holder in &memory.holders[..shown] {
        let steps = holder.first_step.zip(holder.last_step).map(|(first, last)| match first == last {
            true => first.to_string(),
            false => format!("{first} .. {last}"),
        });
        table.row([
            by(&holder.origin).into(),
            bytes(holder.bytes).into(),
            percent(holder.bytes, holder.of_bytes).into(),
            number(holder.blocks),
            dim(steps.unwrap_or_else(|| if with_steps { NONE.to_owned() } else { String::new() })),
            dim(holder.origin.api.as_deref().unwrap_or_default()),
            dim(holder.origin.pid.filter(|_| several).map_or_else(String::new, |pid| pid.to_string())),
            dim(holder.origin.tid.map_or_else(String::new, |tid| tid.to_string())),
            dim(holder.origin.range.as_deref().unwrap_or_default()),
        ]);
    }
    let listed = memory.holders.iter().fold(0u64, |sum, holder| sum.saturating_add(holder.bytes));
    let rest = if whole && !several { all.saturating_sub(listed) } else { 0 };
    if rest > 0 {
        let known = ["all others".into(), bytes(rest).into(), percent(rest, all).into()];
        table.row(known.into_iter().chain((0..6).map(|_| Text::default())));
    }
    screen.table(&table, memory.holders.len() - shown, "memory");
}

/// Returns who allocated: the line of the program, the library, and whether it is a framework's pool.
fn by(origin: &Origin) -> String {
    let library = library(origin.library.as_deref());
    let library = origin.pool.map_or(library.clone(), |pool| format!("{library} ({pool}'s pool)"));
    origin.line.as_deref().map_or(library.clone(), |at| format!("{} by {library}", line(at)))
}

/// Draws how fast memory grows, if it does.
fn growth(screen: &mut Screen<'_>, run: &Run<'_>) {
    let memory = &run.rows.memory;
    for (what, growth) in [("", &memory.growth), ("page-locked host memory ", &memory.page_locked_growth)] {
        let Some(growth) = growth else { continue };
        let (slope, per) = match growth.bytes_per_step {
            Some(slope) => (slope, "step"),
            None => (growth.bytes_per_second.unwrap_or(0.0), "second"),
        };
        let by_whom = growth.by.first().map(|most| format!(", mostly by {}", by(&most.origin)));
        let by_whom = by_whom.unwrap_or_default();
        let sentence = format!("  {what}grows by {} per {per}{by_whom}", bytes(slope as u64));
        screen.line(Text::toned(Tone::Waste, sentence));
    }
}

/// Draws how long blocks live, and what is in the pools of frameworks.
fn lifetimes(screen: &mut Screen<'_>, run: &Run<'_>) {
    let memory = &run.rows.memory;
    let several = run.reports.len() > 1;
    // Of several processes, they are of the peak of each, which may be at different times.
    let all = match several {
        true => memory.lifetimes.values().fold(0u64, |sum, lived| sum.saturating_add(lived.at_peak_bytes)),
        false => memory.device.peak_bytes.value,
    };
    let mut table = Table::new(&[
        left("lifetime of blocks"),
        right(if several { "at each process's peak" } else { "at peak" }),
        right(if several { "of these peaks" } else { "of peak" }),
        right("blocks"),
        right("bytes"),
    ]);
    for (name, meaning) in LIFETIMES {
        let Some(lived) = memory.lifetimes.get(name) else { continue };
        table.row([
            meaning.into(),
            bytes(lived.at_peak_bytes).into(),
            percent(lived.at_peak_bytes, all).into(),
            number(lived.blocks),
            bytes(lived.bytes).into(),
        ]);
    }
    screen.table(&table, 0, "memory");
    if memory.at_peak.pools_bytes > 0 {
        let (pools, outside) = (bytes(memory.at_peak.pools_bytes), bytes(memory.at_peak.outside_bytes));
        screen.remark(&format!("at the peak {pools} in the pools of frameworks, and {outside} outside them"));
    }
}

/// Draws the use of each kind of memory.
fn by_kind(screen: &mut Screen<'_>, run: &Run<'_>) {
    let memory = &run.rows.memory;
    let mut table = Table::new(&[
        left("kind"),
        right("peak"),
        right("at").or_drop(2),
        right("live at end"),
        right("allocations"),
        right("frees"),
        right("allocated"),
        right("per second").or_drop(1),
    ]);
    let wall = run.host_wall();
    for (kind, part) in &memory.by_kind {
        table.row([
            (*kind).into(),
            peak(part).into(),
            dim(part.peak_ns.map_or_else(|| NONE.to_owned(), duration)),
            bytes(part.live_bytes).into(),
            number(part.allocations),
            number(part.frees),
            bytes(part.allocated_bytes).into(),
            format!("{}/s", bytes(rate(part.allocated_bytes, wall))).into(),
        ]);
    }
    screen.table(&table, 0, "memory");
    let uncertain = memory.by_kind.values().filter(|part| !is_certain(part));
    if let Some(part) = uncertain.max_by_key(|part| part.peak_bytes.value) {
        screen.remark(&format!(
            "~ {}{} may be {}; all bounds are in --json",
            why(part),
            peak(part),
            between(part)
        ));
    }
    if run.reports.len() > 1 {
        screen.remark(if lines(run.reports).count() > 1 {
            "peak and live at end are of the machine that held the most; all else is summed over machines"
        } else {
            "all processes together; memory that a process holds when it ends counts as freed then"
        });
    }
}

/// Draws which libraries allocated, hold and freed device memory.
fn by_library(screen: &mut Screen<'_>, run: &Run<'_>) {
    let memory = &run.rows.memory;
    let mut rows: Vec<_> = memory.by_library.iter().collect();
    rows.sort_by_key(|row| Reverse((row.at_peak_bytes, row.allocated_bytes)));
    let mut table = Table::new(&[
        left("allocated by"),
        right("at peak"),
        right("of peak"),
        right("live at end"),
        right("allocations"),
        right("frees made"),
        right("bytes freed").or_drop(2),
        names("file", cut).down_to(FILE).or_drop(1),
    ]);
    for row in &rows {
        let path = row.library.as_deref();
        table.row([
            library(path).into(),
            bytes(row.at_peak_bytes).into(),
            percent(row.at_peak_bytes, memory.device.peak_bytes.value).into(),
            bytes(row.live_bytes).into(),
            number(row.allocations),
            number(row.frees),
            bytes(row.freed_bytes).into(),
            dim(path.unwrap_or_default()),
        ]);
    }
    screen.table(&table, 0, "memory");
}

/// Returns whether both bounds of the peak print the same.
fn is_certain(part: &Use) -> bool {
    bytes(part.peak_bytes.lo) == bytes(part.peak_bytes.hi)
}

/// Says why the bounds of the peak differ, before them.
fn why(part: &Use) -> String {
    let Reasons { overlap, graphs } = part.doubt;
    let said = [
        (overlap, "calls of several threads overlap"),
        (graphs, "a graph may hold its blocks at once or one after the other"),
    ];
    let said: Vec<&str> = said.into_iter().filter_map(|(is_so, said)| is_so.then_some(said)).collect();
    // At the edge of the selected time, a single call that frees is enough.
    if said.is_empty() { String::new() } else { said.join(", and ") + ": " }
}

fn peak(part: &Use) -> String {
    format!("{}{}", if is_certain(part) { "" } else { "~" }, bytes(part.peak_bytes.value))
}

fn between(part: &Use) -> String {
    format!("{} to {}", bytes(part.peak_bytes.lo), bytes(part.peak_bytes.hi))
}

fn sentence(run: &Run<'_>) -> String {
    let device = &run.rows.memory.device;
    let sizes: Vec<u64> = run.rows.devices.iter().filter_map(|device| device.memory_bytes).collect();
    let of = match sizes.as_slice() {
        [size] => {
            let without = if run.all.memory.has_managed() { "without managed memory " } else { "" };
            format!(" ({without}{} of {})", percent(run.all.memory.resident.peak_bytes, *size), bytes(*size))
        }
        _ => String::new(),
    };
    let within = if is_certain(device) { String::new() } else { format!(", {}", between(device)) };
    let peak = format!("{}{of} at {}{within}", peak(device), duration(device.peak_ns.unwrap_or(0)));
    let live = bytes(device.live_bytes);
    let allocations = plural(rate(device.allocations, run.host_wall()), "allocation/s", "allocations/s");
    let place = if sizes.len() > 1 { "GPUs" } else { "GPU" };
    format!("on the {place}: peak {peak}, {live} at the end, {allocations}")
}

/// Draws memory over time: device memory, and with `--section memory` each kind, each scaled to its own peak.
fn timeline(screen: &mut Screen<'_>, run: &Run<'_>) {
    // There is none for processes on several machines.
    let mut lines = lines(run.reports);
    let (Some(line), None) = (lines.next(), lines.next()) else { return };
    let memory = &run.rows.memory;
    let with_kinds = screen.view.is_selected() && memory.timeline.by_kind.len() > 1;
    let kinds = || memory.timeline.by_kind.iter().filter(|_| with_kinds);
    let ends = Ends {
        from: duration(memory.timeline.from_ns),
        to: duration(end(&memory.timeline).min(line.period_ns.1)),
        longest_kind: kinds().map(|(kind, _)| kind.len()).max().unwrap_or(0),
    };
    // The lines of kinds are below that of the device, labelled with the kind only.
    if memory.device.peak_bytes.value > 0 {
        draw(screen, &memory.timeline.peaks_bytes, &ends.from, &ends.to, &ends);
    }
    for (kind, line) in kinds() {
        draw(screen, line, "", kind, &ends);
    }
}

/// The labels beside the lines, which all cover the same time.
struct Ends {
    from: String,
    to: String,
    /// The longest name of a kind, in characters.
    longest_kind: usize,
}

fn draw(screen: &mut Screen<'_>, line: &Peaks, before: &str, after: &str, ends: &Ends) {
    let left = ends.from.chars().count();
    let right = ends.to.chars().count().max(ends.longest_kind);
    let room = screen.inner().saturating_sub(left + right + 2);
    let most = line.0.iter().copied().max().unwrap_or(0);
    let drawn = sparkline(&line.0, most, room, screen.style.ascii);
    screen.picture(dim(format!("{before:left$} ")).then(drawn).then(" ").then(dim(after)));
}

/// Returns when a line ends, in ns since the start of the collection.
fn end(line: &Timeline) -> u64 {
    line.from_ns.saturating_add(line.bucket_ns.saturating_mul(line.peaks_bytes.0.len() as u64))
}
