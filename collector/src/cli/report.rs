//! `gpuspy report`, and the report at the end of `gpuspy run`.

use super::filter::FilterOptions;
use super::following::Following;
use super::machines::Machines;
use super::output::write_file_as;
use super::traces::{Found, Opened, PATIENCE, damaged};
use super::view::ViewOptions;
use super::{Failure, html, operations, panic, print, say};
use crate::analyze::{self, Input, Member, ProcessReport, RunSum, Tables};
use crate::diagnose::Diagnosis;
use crate::harmless;
use crate::model::filter::Filter;
use crate::report::html::Timeline;
use crate::report::{self, Style, Unread, View};
use crate::trace::PRIVATE;
use clap::Args;
use serde::de::IgnoredAny;
use serde_json::Value;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufReader, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

#[derive(Args, Debug)]
pub(super) struct Options {
    /// A trace, or the directory with the traces of one run
    #[arg(value_name = "TRACE")]
    trace: PathBuf,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
    /// Print each operation as a line of JSON instead: its call, its stream, and when it ran
    #[arg(long, conflicts_with = "json")]
    operations: bool,
    /// Write the report as a page for a browser instead, with the timeline: one file that needs nothing else
    #[arg(long, value_name = "FILE", conflicts_with_all = ["json", "operations"])]
    html: Option<PathBuf>,
    #[command(flatten)]
    view: ViewOptions,
    #[command(flatten)]
    filter: FilterOptions,
}

pub(super) fn report(options: &Options) -> Result<ExitCode, Failure> {
    panic::about(&options.trace);
    let filter = options.filter.filter()?;
    if options.operations {
        return operations::print(&options.trace, &filter);
    }
    if let Some(page) = &options.html {
        return html::write(&options.trace, &filter, page, PATIENCE).map(|()| ExitCode::SUCCESS);
    }
    let run = read(&options.trace, PATIENCE, &filter)?;
    if options.json {
        return print(&run.json());
    }
    print(&run.screen(&options.view, &io::stdout(), false))
}

/// What is made of traces that were just written.
#[derive(Debug)]
pub(super) struct Wanted<'a> {
    /// The report is printed on stderr.
    pub print: bool,
    /// It is written as JSON beside the trace.
    pub json: bool,
    /// It is written as a page.
    pub html: Option<&'a Path>,
}

/// Makes what is wanted of traces that were just written.
pub(super) fn after_run(trace: &Path, wanted: &Wanted<'_>) -> Result<(), Failure> {
    let &Wanted { print, json, html } = wanted;
    if !print && !json && html.is_none() {
        return Ok(());
    }
    let reading = Reading::of(trace, Duration::ZERO)?;
    let filter = Filter::default();
    let (run, timeline) = match html {
        Some(_) => reading.with_timeline(&filter)?,
        None => (reading.run(&filter)?, Timeline::default()),
    };
    if print {
        let stderr = io::stderr();
        // The top of the screen may have scrolled away.
        let text = run.screen(&ViewOptions::default(), &stderr, true);
        // A closed stderr is not an error.
        let _ = stderr.lock().write_all(text.as_bytes());
    }
    if json {
        let path = beside(trace);
        json_replaceable(&path)?;
        write_file_as(PRIVATE, &path, |out| out.write_all(run.json().as_bytes()))?;
    }
    html.map_or(Ok(()), |page| html::write_page(trace, &run, timeline, page))
}

/// Returns the report of traces that were just written, drawn for stdout.
pub(super) fn for_stdout(trace: &Path) -> Result<String, Failure> {
    let run = read(trace, Duration::ZERO, &Filter::default())?;
    Ok(run.screen(&ViewOptions::default(), &io::stdout(), false))
}

/// Returns how lines are drawn on stdout.
pub(super) fn stdout_style() -> Style {
    ViewOptions::default().style(io::stdout())
}

/// Refuses to write the JSON of a trace where something else would be lost.
pub(super) fn json_beside(trace: &Path) -> Result<(), Failure> {
    json_replaceable(&beside(trace))
}

fn json_replaceable(path: &Path) -> Result<(), Failure> {
    let is_lost = path.is_dir() || path.is_file() && !is_report(path);
    if is_lost && fs::metadata(path).is_ok_and(|found| found.is_dir() || found.len() > 0) {
        let shown = path.display();
        return Err(Failure::usage(format_args!(
            "--json writes {shown}, which exists and is not a report of gpuspy's: choose another path for the trace, or remove it"
        )));
    }
    Ok(())
}

/// Whether a file is a report as JSON, by keys that all versions have.
fn is_report(path: &Path) -> bool {
    let Ok(file) = File::open(path) else { return false };
    let keys: Result<BTreeMap<String, IgnoredAny>, _> = serde_json::from_reader(BufReader::new(file));
    keys.is_ok_and(|keys| ["coverage", "apis", "syncs", "wall_ns"].iter().all(|key| keys.contains_key(*key)))
}

/// Returns the path of a trace's JSON: `x.gspy` → `x.json`; any other name gets `.json` appended.
fn beside(trace: &Path) -> PathBuf {
    if trace.extension().is_some_and(|e| e == "gspy") {
        return trace.with_extension("json");
    }
    // A slash at the end is removed, so that the file is beside a directory, not in it.
    let mut name = trace.components().as_path().as_os_str().to_owned();
    name.push(".json");
    name.into()
}

/// The reports of all traces that could be read; at least one.
pub(super) struct Run {
    pub reports: Vec<ProcessReport>,
    /// The sums over all processes; `None` for one process, whose tables they are.
    pub sums: Option<Tables>,
    pub unread: Vec<Unread>,
    /// The bytes of what was read.
    bytes: u64,
}

impl Run {
    /// The tables of the run.
    pub fn all(&self) -> Cow<'_, Tables> {
        self.sums.as_ref().map_or_else(|| Tables::of_run(&self.reports), Cow::Borrowed)
    }

    fn screen(&self, options: &ViewOptions, stream: &impl AsFd, repeats_verdict: bool) -> String {
        let view = View { repeats_verdict, ..options.view(Some(self.bytes)) };
        self.drawn(view, &options.style(stream))
    }

    pub(super) fn drawn(&self, view: View, style: &Style) -> String {
        let view = View { unread: self.unread.clone(), ..view };
        report::terminal_of(&self.reports, self.all(), &view, style)
    }

    fn json(&self) -> String {
        harmless::json(format!("{:#}\n", self.value()))
    }

    /// The report as `--json` has it.
    pub fn value(&self) -> Value {
        report::json_of(&self.reports, &self.all(), &self.unread)
    }
}

/// Reads a trace, or all traces of a directory.
pub(super) fn read(path: &Path, patience: Duration, filter: &Filter) -> Result<Run, Failure> {
    Reading::of(path, patience)?.run(filter)
}

/// The most arrivals at collectives that are kept of all processes of a run: 56 bytes each. A sample of them stands for all.
const ARRIVALS: usize = 1 << 20;

/// A run of which one machine after another is read.
pub(super) struct Reading<'f> {
    machines: Machines<'f>,
    sum: RunSum,
    reports: Vec<ProcessReport>,
}

impl<'f> Reading<'f> {
    pub(super) fn of(path: &Path, patience: Duration) -> Result<Reading<'f>, Failure> {
        Machines::of(path, patience).map(Reading::new)
    }

    /// Reads these traces of a path, which are read again and again.
    pub(super) fn following(path: &Path, traces: Vec<Found>, following: &'f mut Following) -> Reading<'f> {
        Reading::new(Machines::following(path, traces, following))
    }

    fn new(machines: Machines<'f>) -> Reading<'f> {
        Reading { machines, sum: RunSum::default(), reports: Vec::new() }
    }

    /// Returns the reports.
    pub(super) fn run(self, filter: &Filter) -> Result<Run, Failure> {
        self.each(filter, |_, _| ())
    }

    /// Returns the reports, and what happened when.
    pub(super) fn with_timeline(self, filter: &Filter) -> Result<(Run, Timeline), Failure> {
        let mut timeline = Timeline::default();
        let run = self.each(filter, |traces, filters| html::add(&mut timeline, traces, filters))?;
        Ok((run, timeline))
    }

    fn each(self, filter: &Filter, mut visit: impl FnMut(&mut [Opened], &[Filter])) -> Result<Run, Failure> {
        let Reading { mut machines, mut sum, mut reports } = self;
        let (count, mut bytes) = (machines.count(), 0);
        machines.each(filter, |traces, filters| {
            let mut own = reports_of(traces, filters, |report| {
                if count > 1 {
                    sum.add_process(report);
                    reduce(report, ARRIVALS / count);
                }
            });
            if count > 1 {
                sum.add_lines(&own);
                analyze::reduce_line(&mut own);
            }
            reports.append(&mut own);
            bytes += traces.iter().map(|trace| trace.reader.bytes()).sum::<u64>();
            visit(traces, filters);
        })?;
        let unread = machines
            .unread
            .iter()
            .map(|(path, error)| Unread { path: path.display().to_string(), why: error.to_string() });
        let unread: Vec<Unread> = unread.collect();
        unread.iter().for_each(|Unread { path, why }| say(format_args!("cannot read {path}: {why}")));
        analyze::sort(&mut reports);
        Ok(Run { reports, sums: (count > 1).then(|| sum.finish()), unread, bytes })
    }
}

/// Returns the reports of the processes of a machine, each with its filter, in their order in the run. `made` gets each, in this order,
/// when it is made.
fn reports_of(
    traces: &mut [Opened],
    filters: &[Filter],
    mut made: impl FnMut(&mut ProcessReport),
) -> Vec<ProcessReport> {
    let mut order: Vec<usize> = (0..traces.len()).collect();
    order.sort_by_key(|at| traces[*at].surveyed().place().order());
    let mut reports = vec![None; traces.len()];
    for at in order {
        let mut report = analyze(&mut traces[at], &filters[at]);
        made(&mut report);
        reports[at] = Some(report);
    }
    let mut reports: Vec<ProcessReport> = reports.into_iter().flatten().collect();
    if reports.len() > 1 {
        let members = traces.iter_mut().zip(filters).map(|(trace, filter)| Member {
            names: &trace.names,
            status: trace.status.as_ref(),
            clocks: &trace.clocks,
            filter,
            not_before: trace.reader.not_before(),
            records: trace.clocks.callers.on_stacks(trace.reader.records()),
        });
        analyze::together(&mut reports, members.collect());
    }
    analyze::sort(&mut reports);
    reports
}

/// Drops what the report of a run does not say of each process.
fn reduce(report: &mut ProcessReport, arrivals: usize) {
    // Only a rank's row has the number.
    let alone = report.process.job.rank.map(|_| Diagnosis::of(std::slice::from_ref(report), &report.tables));
    report.reduce(alone.map_or(0, |alone| alone.findings.len() as u64), arrivals);
}

/// Returns the report of one process.
pub(super) fn analyze(trace: &mut Opened, filter: &Filter) -> ProcessReport {
    let mut report = analyze::process(Input {
        path: trace.path.display().to_string(),
        names: &trace.names,
        status: trace.status.as_ref(),
        // Damage inside a chunk is found when the chunk is read. All chunks have been read once by now, so that the report
        // can start with what was lost.
        damage: trace.reader.damage().into(),
        clocks: &trace.clocks,
        filter,
        records: trace.clocks.callers.on_stacks(trace.reader.records()),
    });
    report.process.windows = trace.reader.windows() as u64;
    report.process.damaged = damaged(&trace.path, &trace.reader);
    report
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_written_beside_its_trace() {
        assert_eq!(beside(Path::new("a/run.gspy")), Path::new("a/run.json"));
        assert_eq!(beside(Path::new("run.1")), Path::new("run.1.json"));
        assert_eq!(beside(Path::new("/a/runs/")), Path::new("/a/runs.json"));
    }
}
