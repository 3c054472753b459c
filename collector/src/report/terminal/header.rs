//! The warnings, and the lines that say what the report is about.

use super::Run;
use super::screen::{NONE, Screen, number};
use crate::analyze::summary::{Captured, ProcessInfo};
use crate::analyze::{self, lines};
use crate::diagnose::findings::straggler_rank;
use crate::model::outcome::Outcome;
use crate::report::damage;
use crate::report::names::{cut, plain};
use crate::report::rows::processes::Process;
use crate::report::table::{Table, names, right};
use crate::report::text::{Text, Tone, dim};
use crate::report::units::{bytes, duration, percent, plural};
use crate::report::view::Unread;
use std::collections::{BTreeMap, BTreeSet};

/// The column at which the text next to the title `gpuspy` starts.
const INDENT: usize = 8;

/// Prints whatever makes the whole report doubtful, above everything else.
pub fn warnings(screen: &mut Screen<'_>, run: &Run<'_>) {
    let problem = |text: &str| Text::toned(Tone::Problem, text);
    if run.reports.iter().any(|report| report.tables.coverage.driver_hooked == Some(false)) {
        screen.line(problem("driver not hooked: launches did not pass through the agent.").then(
            " This report is based on runtime calls; GPU work of this program may be missing, and no GPU time is \
             known. Run `gpuspy doctor` to find out why.",
        ));
    }
    let unread = &screen.view.unread;
    for Unread { path, why } in unread {
        let rest = format!(" {}: {why}. It is missing from this report.", plain(path));
        screen.line(problem("unreadable trace:").then(rest));
    }
    if let Some(said) = straggler_rank::missing(&run.rows.compared) {
        screen.line(
            problem("incomplete job:").then(format!(" {said}, so that this report is about the others.")),
        );
    }
    for process in run.reports.iter().map(|report| &report.process) {
        let is_named = run.reports.len() > 1 || process.windows > 1;
        let which = if is_named { format!(" {}:", plain(&process.damaged)) } else { String::new() };
        for (what, how) in damage::described(&process.damage) {
            let reach = if what == "cut" { "; the report ends there" } else { "" };
            screen.line(problem(&format!("{what} trace:")).then(format!("{which} {how}{reach}.")));
        }
        for note in &process.notes {
            screen.line(Text::toned(Tone::Waste, note));
        }
    }
}

/// Prints the program, its GPUs, how long it ran, the trace, and which part of it is reported.
pub fn header(screen: &mut Screen<'_>, run: &Run<'_>) {
    whole(screen, run);
    list(screen, run);
    part(screen, run);
}

/// Prints the same for a view that has a list of the processes of its own.
pub fn about(screen: &mut Screen<'_>, run: &Run<'_>) {
    whole(screen, run);
    part(screen, run);
}

/// Prints which part of the run is reported.
fn part(screen: &mut Screen<'_>, run: &Run<'_>) {
    if let Some(range) = captured(run).or_else(|| collected(run)) {
        screen.titled("Range", INDENT, range);
    }
    if let Some(filter) = run.filter() {
        let only = Text::toned(Tone::Waste, "only ").then(filter);
        screen.titled("", INDENT, only);
    }
}

/// Returns which part of the run was captured (`--capture-range`): `profiler-api: 3 ranges, 1.20 s of 61.0 s`.
fn captured(run: &Run<'_>) -> Option<String> {
    let all: Vec<&Captured> = run.reports.iter().filter_map(|one| one.process.captured.as_ref()).collect();
    let requested = &all.first()?.requested;
    let ranges = plural(all.iter().map(|captured| captured.ranges).sum(), "range", "ranges");
    let (looked, wall) = (duration(run.host_wall()), duration(wall(run)));
    Some(format!("{}: {ranges}, {looked} of {wall}", plain(requested)))
}

/// Returns which part of the run was collected, if nobody collected anything for a time: between two traces of one process.
fn collected(run: &Run<'_>) -> Option<String> {
    let (looked, wall) = (run.host_wall(), wall(run));
    (run.filter().is_none() && looked < wall).then(|| format!("{} of {}", duration(looked), duration(wall)))
}

/// Returns the host time from the start of the first process to the end of the last, in ns, without filters.
fn wall(run: &Run<'_>) -> u64 {
    lines(run.reports).map(|line| line.wall_ns).max().unwrap_or(0)
}

fn whole(screen: &mut Screen<'_>, run: &Run<'_>) {
    let processes = analyze::processes(run.reports);
    if let [parts] = processes.as_slice()
        && let Some(last) = parts.last()
    {
        let process = &run.reports[*last].process;
        let command = command(run, parts).unwrap_or("(command unknown)");
        let room = screen.width() - INDENT;
        screen.titled("gpuspy", INDENT, cut(&plain(command), room));
        let pid = process.pid.map_or("pid unknown".to_owned(), |pid| format!("pid {pid}"));
        let rank = process.job.rank.map_or(String::new(), |rank| format!("rank {rank}, "));
        let facts = Text::from(format!("{rank}{pid}, ")).then(ending(process));
        let facts = facts.then(format!(", {}, {}", gpus(run), duration(wall(run))));
        let trace = match windows_of_time(run) {
            0 | 1 if parts.len() == 1 => trace(screen, &process.path),
            0 | 1 => dim(plural(parts.len() as u64, "trace", "traces")),
            several => dim(plural(several, WINDOW.0, WINDOW.1)),
        };
        let more = facts.clone().then(", ").then(trace);
        // The overview has no second line for the trace, which its reader has named.
        let is_short = screen.view.sections.is_empty() && more.width() > room;
        screen.titled("", INDENT, if is_short { facts } else { more });
        return;
    }
    let hosts: BTreeSet<&str> =
        run.reports.iter().filter_map(|report| report.process.host.as_deref()).collect();
    let on = if hosts.len() > 1 { format!(" on {} hosts", hosts.len()) } else { String::new() };
    let mut sum = format!(
        "{}{on}, {}, {}",
        plural(processes.len() as u64, "process", "processes"),
        gpus(run),
        duration(wall(run))
    );
    match windows_of_time(run) {
        0 => {}
        windows => sum += &format!(", {}", plural(windows, WINDOW.0, WINDOW.1)),
    }
    match command_of_all(run).filter(|_| !run.rows.ranks.is_empty()) {
        Some(command) => {
            screen.titled("gpuspy", INDENT, cut(&plain(command), screen.width() - INDENT));
            screen.titled("", INDENT, sum);
        }
        None => screen.titled("gpuspy", INDENT, sum),
    }
}

/// What a trace of `gpuspy collect --every` is about, and several.
const WINDOW: (&str, &str) = ("window of time", "windows of time");

/// Returns how many traces there are of windows of a process's time.
fn windows_of_time(run: &Run<'_>) -> u64 {
    let windows = run.reports.iter().filter(|report| report.process.window.is_some());
    windows.map(|report| report.process.windows).sum()
}

/// Returns the command, if it is the same for all processes.
fn command_of_all<'r>(run: &Run<'r>) -> Option<&'r str> {
    let processes = analyze::processes(run.reports);
    let mut commands = processes.iter().map(|parts| command(run, parts));
    let first = commands.next()??;
    commands.all(|command| command == Some(first)).then_some(first)
}

/// Returns the command of a process, of whose parts one may have had no room for it.
fn command<'r>(run: &Run<'r>, parts: &[usize]) -> Option<&'r str> {
    parts.iter().rev().find_map(|at| run.reports[*at].process.command.as_deref())
}

/// Lists the processes of several that the section of ranks does not contain: each in one row, which adds up the parts of its time.
fn list(screen: &mut Screen<'_>, run: &Run<'_>) {
    let processes = analyze::processes(run.reports);
    if processes.len() < 2 {
        return;
    }
    let mut table = Table::new(&[
        right("rank"),
        right("pid"),
        right("parent").or_drop(2),
        right("GPUs").or_drop(1),
        names("ending", cut),
        right("wall"),
        right("launches"),
        right("timed"),
        names("command", cut),
    ]);
    let or_none = |n: Option<u32>| n.map_or(NONE.to_owned(), |n| n.to_string());
    let ranks: BTreeSet<usize> = run.rows.compared.rows.iter().map(|row| row.at).collect();
    let mut is_empty = true;
    for parts in processes.iter().filter(|parts| parts.iter().all(|at| !ranks.contains(at))) {
        let Some(last) = parts.last() else { continue };
        let process = &run.rows.processes[*last];
        let rows = || parts.iter().map(|at| &run.rows.processes[*at]);
        let wall_ns = |row: &Process| row.captured.as_ref().map_or(row.wall_ns, |captured| captured.run_ns);
        let gpus: BTreeSet<&String> = rows().flat_map(|row| &row.gpus).collect();
        let launches = rows().map(|row| row.launches).sum();
        table.row([
            or_none(process.rank).into(),
            process.pid.map_or("?".to_owned(), |pid| pid.to_string()).into(),
            dim(or_none(process.parent)),
            or_none(Some(gpus.len() as u32).filter(|n| *n > 0)).into(),
            ending(&run.reports[*last].process),
            duration(rows().map(wall_ns).sum()).into(),
            number(launches),
            percent(rows().map(|row| row.timed.saturating_add(row.timed_in_runs)).sum(), launches).into(),
            command(run, parts).unwrap_or(&process.path).into(),
        ]);
        is_empty = false;
    }
    if !is_empty {
        screen.table(&table, 0, "");
    }
}

/// Returns the trace's path and its size on disk.
fn trace(screen: &Screen<'_>, path: &str) -> Text {
    let size = screen.view.trace_bytes.map_or(String::new(), |size| format!(" ({})", bytes(size)));
    dim(format!("trace {path}{size}"))
}

/// Returns the GPUs in words: `2 GPUs (2x NVIDIA H200)`.
fn gpus(run: &Run<'_>) -> String {
    let devices = &run.rows.devices;
    if devices.is_empty() {
        return "GPUs unknown".to_owned();
    }
    let mut models: BTreeMap<&str, u64> = BTreeMap::new();
    for device in devices {
        *models.entry(device.name.as_deref().unwrap_or("name unknown")).or_default() += 1;
    }
    let models: Vec<String> = models
        .into_iter()
        .map(|(name, n)| if devices.len() == 1 { name.to_owned() } else { format!("{n}x {name}") })
        .collect();
    format!("{} ({})", plural(devices.len() as u64, "GPU", "GPUs"), models.join(", "))
}

fn ending(process: &ProcessInfo) -> Text {
    let outcome = process.outcome;
    let tone = match outcome {
        Some(outcome) if outcome.is_violent() => Tone::Problem,
        Some(Outcome::Running | Outcome::CutOff | Outcome::Vanished) | None => Tone::Waste,
        Some(_) => Tone::Plain,
    };
    Text::toned(tone, self::outcome(process))
}

/// Returns how a process ended, in words.
pub fn outcome(process: &ProcessInfo) -> String {
    process.outcome.map_or_else(|| "ending unknown".to_owned(), |outcome| outcome.to_string())
}
