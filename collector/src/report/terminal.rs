//! One plain screen. What was seen comes first, and what was not; then where the time went.

use super::names::{cut, demangle, plain, shorten};
use super::table::{Align, Table};
use super::units::{bytes, count, duration, percent};
use crate::analyze::durations::Durations;
use crate::analyze::estimate::{Estimate, Kind, Sum};
use crate::analyze::identity::{Class, Identity};
use crate::analyze::kernels::{Kernel, UNKNOWN, never_timed};
use crate::analyze::summary::{DeviceReport, GapRow, Side};
use crate::analyze::whole::extrapolated;
use crate::analyze::windows::{Duty, Timing};
use crate::analyze::{ProcessReport, Tables};
use crate::model::clock::{DRIFT_PPM, TURN_PPM};
use crate::model::outcome::Outcome;
use Align::{Left, Right};
use gpuspy_wire::record::LossCause;

/// How the screen is drawn.
#[derive(Clone, Copy, Debug)]
pub struct Style {
    /// Columns. Fewer than 80 are taken as 80.
    pub width: usize,
}

/// Column at which the text of a section begins, behind its title.
const INDENT: usize = 11;
/// Rows of a table that a screen has room for; the rest is in the JSON.
const ROWS: usize = 10;
/// Gaps that a screen has room for.
const GAPS: usize = 5;
/// The part that nobody can tell.
const UNDECIDED: &str = "undecided";
/// The part that nobody looked at.
const UNOBSERVED: &str = "not observed";
/// Columns for the name of a library that called.
const CALLER: usize = 22;
/// Heads the column of the libraries that asked for what ended a gap.
const ASKED: &str = "asked for by";

/// The report of one process, or of a run of several.
pub fn terminal(reports: &[ProcessReport], style: &Style) -> String {
    let mut screen = Screen { width: style.width.max(80), text: String::new() };
    let all = Tables::of_run(reports);
    warnings(&mut screen, reports, &all);
    header(&mut screen, reports);
    seen(&mut screen, reports, &all);
    for device in all.devices.iter().filter(|device| device.timelines > 0) {
        gpu(&mut screen, device);
    }
    gaps(&mut screen, &all, reports.len() > 1);
    kernels(&mut screen, &all);
    graphs(&mut screen, &all);
    transfers(&mut screen, &all);
    memory(&mut screen, &all);
    calls(&mut screen, &all);
    screen.text
}

/// Text that grows by sections.
struct Screen {
    width: usize,
    text: String,
}

impl Screen {
    /// Columns for a section's text.
    fn room(&self) -> usize {
        self.width - INDENT
    }

    fn line(&mut self, line: &str) {
        self.text.push_str(line.trim_end());
        self.text.push('\n');
    }

    /// A section: its title beside its first line, an empty line before it.
    fn section(&mut self, title: &str, lines: impl IntoIterator<Item = String>) {
        self.text.push('\n');
        let mut title = title;
        for line in lines {
            let line = cut(&line, self.room());
            self.line(&format!("{title:<INDENT$}{line}"));
            title = "";
        }
    }
}

/// Whatever makes everything below doubtful stands above everything.
fn warnings(screen: &mut Screen, reports: &[ProcessReport], all: &Tables) {
    if all.coverage.driver_hooked == Some(false) {
        screen.line("driver not hooked: launches did not pass through the agent. What follows is what the runtime told;");
        screen.line("GPU work of this program may be missing, and no GPU time is known. `gpuspy doctor` looks for why.");
    }
    for process in reports.iter().map(|report| &report.process) {
        let damage = process.damage;
        let which = if reports.len() > 1 { format!("{}: ", plain(&process.path)) } else { String::new() };
        if damage.chunks_lost > 0 || damage.records_lost > 0 {
            let (chunks, records) = (count(damage.chunks_lost), count(damage.records_lost));
            screen.line(&format!(
                "{which}damaged trace: {chunks} chunks could not be read, {records} records in them are missing."
            ));
        }
        if damage.cut {
            screen.line(&format!(
                "{which}cut trace: the file ends in the middle of a chunk; the report goes up to there."
            ));
        }
        for note in &process.notes {
            screen.line(&plain(note));
        }
    }
}

fn header(screen: &mut Screen, reports: &[ProcessReport]) {
    if let [only] = reports {
        let process = &only.process;
        let command = process.command.as_deref().map_or_else(|| "(command unknown)".to_owned(), plain);
        screen.line(&format!("gpuspy  {}", cut(&command, screen.width - 8)));
        let facts = [pid(process.pid), ending(process.outcome), duration(process.wall_ns)];
        let path = format!("trace {}", plain(&process.path));
        let facts = facts.join(", ");
        screen.line(&cut(&format!("        {facts}, {path}"), screen.width));
        return;
    }
    screen.line(&format!("gpuspy  {} processes", reports.len()));
    let mut table = Table::new(&[Left, Left, Right, Right, Right, Left]);
    table.row(["pid", "ending", "wall", "launches", "timed", "command"]);
    for report in reports {
        let (process, coverage) = (&report.process, &report.tables.coverage);
        table.row([
            process.pid.map_or("?".to_owned(), |pid| pid.to_string()),
            ending(process.outcome),
            duration(process.wall_ns),
            count(coverage.launches),
            percent(coverage.timed, coverage.launches),
            process.command.as_deref().map_or_else(|| plain(&process.path), plain),
        ]);
    }
    for line in table.lines() {
        screen.line(&cut(&format!("        {line}"), screen.width));
    }
}

fn pid(pid: Option<u32>) -> String {
    pid.map_or("pid unknown".to_owned(), |pid| format!("pid {pid}"))
}

fn ending(outcome: Option<Outcome>) -> String {
    outcome.map_or_else(|| "ending unknown".to_owned(), |outcome| outcome.to_string())
}

/// What was seen, what was not and why, and what looking cost.
fn seen(screen: &mut Screen, reports: &[ProcessReport], all: &Tables) {
    let coverage = &all.coverage;
    let mut lines = launches(all);
    let untimed: Vec<String> = coverage
        .untimed
        .iter()
        .filter(|(_, n)| **n > 0)
        .map(|(why, n)| format!("{} {why}", count(*n)))
        .collect();
    if !untimed.is_empty() {
        let total = coverage.launches - coverage.timed;
        lines.push(format!("{} launches have no GPU time: {}", count(total), untimed.join(", ")));
    }
    if coverage.bursts.count > 0 {
        let bursts = coverage.bursts;
        lines.push(format!(
            "{} of those are timed as {} bursts, {} in all: programmatic launches, which no event may stand between",
            count(bursts.launches),
            count(bursts.count),
            duration(bursts.total.value)
        ));
    }
    lines.push(lost(all));
    if coverage.pending > 0 {
        lines.push(format!(
            "{} operations were still on the GPU at the end: no time known",
            count(coverage.pending)
        ));
    }
    lines.push(own_cost(all));
    lines.push(clock(reports, all));
    lines.push(format!(
        "assumed: they part by at most {DRIFT_PPM} ppm, which changes by at most {TURN_PPM} ppm a second"
    ));
    lines.push("not seen by design: launches from device code, OptiX, video engines, graphics".to_owned());
    screen.section("Seen", lines);
}

/// How many launches there were, and of how many of them the time is known.
fn launches(all: &Tables) -> Vec<String> {
    let (coverage, duty) = (&all.coverage, &all.duty);
    let others = format!(
        "{} unattributed; {} captured, {} ran in graphs",
        count(coverage.unattributed),
        count(coverage.captured),
        count(coverage.in_graphs),
    );
    let (launches, timed) = (count(coverage.launches), percent(coverage.timed, coverage.launches));
    let Some(Timing::Auto(budget)) = duty.timing else {
        return vec![format!("{launches} launches: {timed} timed, {others}")];
    };
    let counted = if records_lost(all).is_empty() { "100 % counted, " } else { "" };
    let windows = format!("{} {}", count(duty.windows), if duty.windows == 1 { "window" } else { "windows" });
    let measured = duty.measured().percent();
    let measured = measured.map_or("not used up".to_owned(), |percent| format!("measured {percent:.1} %"));
    let mut lines = vec![
        format!("{launches} launches: {counted}{timed} timed in {windows} (budget {budget} %, {measured})"),
        others,
    ];
    lines.extend(windows_in_words(duty));
    let untimed = never_timed(&all.kernels);
    if untimed > 0 {
        lines.push(format!(
            "{} launches are of kernels that were never timed: no total has them",
            count(untimed)
        ));
    }
    lines
}

/// What `--timing auto` did after the first phase, if that ever ended.
fn windows_in_words(duty: &Duty) -> Vec<String> {
    let (timed, all) = duty.time();
    let Some(first) = duty.first.percent().filter(|_| all > timed) else { return Vec::new() };
    let mut lines = vec![format!(
        "windows are {} of the time; the first, of {}, cost {first:.1} %",
        percent(timed, all),
        duration(duty.first.ns),
    )];
    if duty.is_exhausted() {
        lines.push(
            "counting alone costs more than the budget: but for short looks, windows had to wait".to_owned(),
        );
    }
    lines.push(match duty.slowdown() {
        Some(s) => format!(
            "in windows, events slow the GPU's work by {:.1} % ({:.1} .. {:.1} %, by launch rates)",
            100.0 * s.value,
            100.0 * s.lo,
            100.0 * s.hi
        ),
        None => "how much events slow the GPU's work is unknown: too few windows to compare".to_owned(),
    });
    lines
}

/// What records were lost, by cause.
fn records_lost(all: &Tables) -> Vec<String> {
    let lost =
        all.coverage.dropped_by.iter().filter(|(cause, _)| **cause != LossCause::GpuTimePending.name());
    lost.map(|(cause, n)| format!("{} {cause}", count(*n))).collect()
}

fn lost(all: &Tables) -> String {
    let records = records_lost(all);
    let records = if records.is_empty() {
        "no record lost".to_owned()
    } else {
        format!("LOST: {}", records.join(", "))
    };
    match all.coverage.dropped_by.get(LossCause::GpuTimePending.name()) {
        Some(n) => format!("{records}; {} GPU times lost with their context or process", count(*n)),
        None => records,
    }
}

fn own_cost(all: &Tables) -> String {
    let Some(overhead) = &all.overhead else {
        return "own cost unknown: the trace ends before its first status".to_owned();
    };
    format!(
        "own cost {} of host time ({} in hooks, poller {}, of {})",
        percent(overhead.agent_ns, overhead.wall_ns),
        duration(overhead.agent_ns),
        duration(overhead.poller_ns),
        duration(overhead.wall_ns),
    )
}

fn clock(reports: &[ProcessReport], all: &Tables) -> String {
    let contradictions: u64 = reports.iter().map(|report| report.process.clock_contradictions).sum();
    let mut line = match all.clock.median() {
        Some(half_width) => format!("host and GPU clock known to +/- {} (median)", duration(half_width)),
        None => "host and GPU clock not related: nothing was timed".to_owned(),
    };
    if contradictions > 0 {
        line.push_str(&format!("; they drifted more than assumed {} times", count(contradictions)));
    }
    line
}

/// Where a GPU's time went.
fn gpu(screen: &mut Screen, device: &DeviceReport) {
    let whole = extrapolated(&device.identity);
    let identity = whole.as_ref().unwrap_or(&device.identity);
    let title = device.id.map_or("GPU ?".to_owned(), |id| format!("GPU {id}"));
    let name = device.name.as_deref().map_or_else(|| "name unknown".to_owned(), plain);
    let mut lines = vec![format!("{name}: {} from the first operation to the last", duration(identity.span))];
    if device.timelines > 1 {
        lines.push(format!(
            "{} processes, or contexts of unknown device, do not compare: added side by side",
            device.timelines
        ));
    }
    if device.late > 0 {
        lines.push(format!(
            "{} operations came too late to be placed: the ranges allow for them",
            count(device.late)
        ));
    }
    if whole.is_some() {
        let unobserved = device.identity.unobserved.value;
        lines.push(format!(
            "{} of it passed in pauses of the budget: the parts are extrapolated from the rest",
            percent(unobserved, identity.span)
        ));
    }
    let mut table = Table::new(&[Left, Right, Right, Left]);
    table.row(["", "time", "of span", ""]);
    for (part, sum) in parts(identity) {
        let span = identity.span;
        let (lo, hi) = (percent(sum.lo, span), percent(sum.hi, span));
        let range = match part {
            _ if sum.lo == sum.hi => String::new(),
            UNDECIDED => format!("{hi} is not certain"),
            _ => format!("truth in {lo} .. {hi}"),
        };
        table.row([part.to_owned(), duration(sum.value), percent(sum.value, span), range]);
    }
    let total: u64 = parts(identity).map(|(_, sum)| sum.value).sum();
    table.row([
        "sum".to_owned(),
        duration(total),
        percent(total, identity.span),
        format!("= {} ns", count(total)),
    ]);
    lines.extend(table.lines());
    screen.section(&title, lines);
}

fn parts(identity: &Identity) -> impl Iterator<Item = (&'static str, Sum)> {
    let busy = |class: Class| identity.busy[class as usize];
    [
        ("compute", busy(Class::Compute)),
        ("graphs", busy(Class::Graph)),
        ("exposed communication", busy(Class::Communication)),
        ("exposed copies and sets", busy(Class::Copy)),
        (UNOBSERVED, identity.unobserved),
        (UNDECIDED, identity.undecided),
        ("idle", identity.idle),
    ]
    .into_iter()
    .filter(|(part, sum)| *part != UNOBSERVED || sum.value > 0)
}

fn gaps(screen: &mut Screen, all: &Tables, several: bool) {
    let gaps = &all.gaps;
    let span: u64 = all.devices.iter().map(|device| device.identity.span).sum();
    if span == 0 {
        return screen.section(
            "GPU",
            ["no operation has a GPU time: nothing can be said about busy and idle".to_owned()],
        );
    }
    let Some(largest) = gaps.largest.first() else {
        return screen.section("Gaps", ["none between two timed operations".to_owned()]);
    };
    let mut lines = vec![format!(
        "{} gaps, {} in all ({} of the GPU's span), largest {}",
        count(gaps.count),
        duration(gaps.total.value),
        percent(gaps.total.value, span),
        duration(largest.duration.value),
    )];
    let kept = || gaps.largest.iter().take(GAPS);
    let callers: Vec<String> = kept().map(|gap| caller(gap, several)).collect();
    // Both operations share what the other columns leave of a line: two of ten, the callers', and what is between.
    let widest = callers.iter().map(|caller| caller.chars().count()).max().unwrap_or(0).max(ASKED.len());
    let room = screen.room().saturating_sub(2 * 10 + widest + 4 * 2) / 2;
    let mut table = Table::new(&[Right, Right, Left, Left, Left]);
    table.row(["gap", "at", "before it", "after it", ASKED]);
    for (gap, caller) in kept().zip(callers) {
        let (before, after) = (operation(&gap.before, room), operation(&gap.after, room));
        table.row([duration(gap.duration.value), duration(gap.start), before, after, caller]);
    }
    lines.extend(table.lines());
    screen.section("Gaps", lines);
}

/// Which library (and, of several, which process) asked for what ended a gap.
fn caller(gap: &GapRow, several: bool) -> String {
    let library = gap.after.caller.as_ref().and_then(|site| site.path.rsplit('/').next());
    let library = library.map_or_else(|| "?".to_owned(), plain);
    match gap.pid {
        Some(pid) if several => cut(&format!("{pid} {library}"), CALLER),
        _ => cut(&library, CALLER),
    }
}

fn operation(side: &Side, width: usize) -> String {
    match (side.kind, &side.symbol, side.bytes) {
        (_, Some(symbol), _) => shorten(&demangle(symbol), width),
        ("kernel", None, _) => UNKNOWN.to_owned(),
        ("graph", ..) => graph(side.kernels),
        (kind, None, Some(size)) => format!("{kind} {}", bytes(size)),
        (kind, None, None) => kind.to_owned(),
    }
}

/// A graph launch beside a gap.
fn graph(kernels: Option<u32>) -> String {
    match kernels {
        Some(1) => "graph (1 kernel)".to_owned(),
        Some(kernels) if kernels > 0 => format!("graph ({} kernels)", count(kernels.into())),
        _ => "graph launch".to_owned(),
    }
}

/// A total; `~` before one that is extrapolated.
fn total(total: Estimate<u64>) -> String {
    let mark = if total.kind == Kind::Extrapolated { "~" } else { "" };
    format!("{mark}{}", duration(total.value))
}

fn kernels(screen: &mut Screen, all: &Tables) {
    // Those that ran in graphs only are under "Graphs".
    let launched: Vec<_> = all.kernels.iter().filter(|kernel| kernel.count > 0).collect();
    if launched.is_empty() {
        return;
    }
    let span: u64 = all.devices.iter().map(|device| device.identity.span).sum();
    let mut table = Table::new(&[Right, Right, Right, Right, Right, Right, Right, Left]);
    table.row(["total", "of span", "count", "avg", "median", "min", "max", "name"]);
    for kernel in launched.iter().take(ROWS) {
        let d = &kernel.durations;
        let time = |ns: Option<u64>| ns.map_or("-".to_owned(), duration);
        table.row([
            kernel.total().map_or("-".to_owned(), total),
            kernel.total().map_or("-".to_owned(), |t| percent(t.value, span)),
            count(kernel.count),
            time(d.mean().map(|t| t.value.round() as u64)),
            time(d.median().map(|t| t.value)),
            time(d.min().map(|t| t.value)),
            time(d.max().map(|t| t.value)),
            kernel.symbol.clone(),
        ]);
    }
    let room = screen.room().saturating_sub(table.width_before(7));
    table.map_column(7, |symbol| shorten(&demangle(symbol), room));
    let mut lines = table.lines();
    if let Some(rest) = launched.len().checked_sub(ROWS).filter(|rest| *rest > 0) {
        lines.push(format!("and {} more kernels, in --json", count(rest as u64)));
    }
    let is_extrapolated =
        |kernel: &Kernel| kernel.total().is_some_and(|total| total.kind == Kind::Extrapolated);
    if all.kernels.iter().take(ROWS).any(is_extrapolated) {
        lines.push("~ is extrapolated from the timed launches; its interval is in --json".to_owned());
    }
    screen.section("Kernels", lines);
}

fn graphs(screen: &mut Screen, all: &Tables) {
    let graphs = &all.graphs;
    if graphs.launches == 0 {
        return;
    }
    let durations = &graphs.durations;
    let mut lines = vec![format!(
        "{} launches ran {} kernels; {} timed: {} in all, median {}",
        count(graphs.launches),
        count(graphs.kernels),
        count(durations.count()),
        durations.total().map_or("-".to_owned(), |total| duration(total.value)),
        durations.median().map_or("-".to_owned(), |median| duration(median.value)),
    )];
    let moved = [("copies", graphs.copies), ("sets", graphs.sets)].into_iter().filter(|(_, m)| m.count > 0);
    let mut moved: Vec<String> =
        moved.map(|(kind, m)| format!("{} {kind} of {}", count(m.count), bytes(m.bytes))).collect();
    if graphs.others > 0 {
        moved.push(format!("{} other nodes", count(graphs.others)));
    }
    if !moved.is_empty() {
        lines.push(format!("inside them: {}", moved.join(", ")));
    }
    if graphs.sampled > 0 {
        lines.push(format!(
            "{} launches have times of their kernels, each with the cost of an event",
            count(graphs.sampled)
        ));
    }
    lines.extend(kernels_in_graphs(screen, all));
    screen.section("Graphs", lines);
}

/// Kernels by how often they ran in graphs, with the times of the launches whose nodes were timed.
fn kernels_in_graphs(screen: &Screen, all: &Tables) -> Vec<String> {
    let mut kernels: Vec<_> = all.kernels.iter().filter(|kernel| kernel.in_graphs > 0).collect();
    kernels.sort_by_key(|kernel| (std::cmp::Reverse(kernel.in_graphs), &kernel.symbol));
    let mut table = Table::new(&[Right, Right, Right, Right, Right, Left]);
    table.row(["ran", "samples", "median", "min", "max", "name"]);
    for kernel in kernels.iter().take(ROWS) {
        let timed = all.graphs.nodes.get(&kernel.symbol);
        let time = |of: fn(&Durations) -> Option<Estimate<u64>>| {
            timed.and_then(of).map_or("-".to_owned(), |time| duration(time.value))
        };
        table.row([
            count(kernel.in_graphs),
            timed.map_or("-".to_owned(), |durations| count(durations.count())),
            time(Durations::median),
            time(Durations::min),
            time(Durations::max),
            kernel.symbol.clone(),
        ]);
    }
    let room = screen.room().saturating_sub(table.width_before(5));
    table.map_column(5, |symbol| shorten(&demangle(symbol), room));
    let mut lines = table.lines();
    if let Some(rest) = kernels.len().checked_sub(ROWS).filter(|rest| *rest > 0) {
        lines.push(format!("and {} more kernels, in --json", count(rest as u64)));
    }
    lines
}

fn transfers(screen: &mut Screen, all: &Tables) {
    if all.transfers.is_empty() {
        return;
    }
    let mut table = Table::new(&[Left, Left, Right, Right, Right, Right]);
    table.row(["kind", "host memory", "count", "bytes", "time", "GB/s"]);
    for ((kind, host_memory), transfer) in &all.transfers {
        let speed = transfer.gbps().and_then(|gbps| gbps.value);
        table.row([
            kind.name().to_owned(),
            host_memory.name().replace("none", "-"),
            count(transfer.count),
            bytes(transfer.bytes),
            transfer.total().map_or("-".to_owned(), total),
            speed.map_or(
                "-".to_owned(),
                |gbps| if gbps < 0.1 { "<0.1".to_owned() } else { format!("{gbps:.1}") },
            ),
        ]);
    }
    screen.section("Transfers", table.lines());
}

fn memory(screen: &mut Screen, all: &Tables) {
    let (device, failed) = (&all.memory.device, all.memory.out_of_memory);
    let mut lines = Vec::new();
    if failed > 0 {
        let calls = if failed == 1 { "call" } else { "calls" };
        lines.push(format!("{} {calls} failed for lack of memory; Calls says which", count(failed)));
    }
    if !all.memory.by_kind.is_empty() {
        lines.push(format!(
            "device: peak {} at {}, {} live at the end; {} allocations, {} frees",
            bytes(device.peak_bytes),
            duration(device.peak_at),
            bytes(device.live_bytes),
            count(device.allocations),
            count(device.frees),
        ));
        let mut table = Table::new(&[Left, Right, Right, Right, Right]);
        table.row(["kind", "peak", "live", "allocations", "frees"]);
        for (kind, part) in &all.memory.by_kind {
            let (peak, live) = (bytes(part.peak_bytes), bytes(part.live_bytes));
            table.row([(*kind).to_owned(), peak, live, count(part.allocations), count(part.frees)]);
        }
        lines.extend(table.lines());
    }
    if !lines.is_empty() {
        screen.section("Memory", lines);
    }
}

fn calls(screen: &mut Screen, all: &Tables) {
    for (title, calls) in [("Syncs", &all.syncs), ("Calls", &all.apis)] {
        let mut rows: Vec<_> = calls.iter().collect();
        rows.sort_by_key(|(name, calls)| (std::cmp::Reverse(calls.total), name.as_str()));
        let mut table = Table::new(&[Right, Right, Right, Left]);
        table.row(["host time", "count", "avg", "name"]);
        for (name, calls) in rows.iter().take(ROWS) {
            let average = duration(calls.total / calls.count.max(1));
            let failed =
                if calls.failed > 0 { format!("  ({} failed)", count(calls.failed)) } else { String::new() };
            table.row([
                duration(calls.total),
                count(calls.count),
                average,
                format!("{}{failed}", plain(name)),
            ]);
        }
        if !rows.is_empty() {
            let mut lines = table.lines();
            if rows.len() > ROWS {
                lines.push(format!("and {} more, in --json", rows.len() - ROWS));
            }
            screen.section(title, lines);
        }
    }
}
