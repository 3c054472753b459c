//! `gpuspy report`, and the report that `gpuspy run` ends with.

use super::filter::FilterOptions;
use super::view::ViewOptions;
use super::{Failure, UNREADABLE, operations, panic, print, say};
use crate::analyze::together::Machine;
use crate::analyze::{self, Input, Member, ProcessReport};
use crate::model::clock::Clocks;
use crate::model::filter::Filter;
use crate::model::survey::Survey;
use crate::report::{self, Unread, View};
use crate::trace::record::{Names, Status};
use crate::trace::{Damage, TraceError, TraceReader, wait_until_complete};
use crate::why::why;
use clap::Args;
use std::fs;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

#[derive(Args, Debug)]
pub(super) struct Options {
    /// A trace, or the directory of one run's traces
    #[arg(value_name = "TRACE")]
    trace: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Print a line of JSON for every operation instead: who asked for it, where and when it ran
    #[arg(long, conflicts_with = "json")]
    operations: bool,
    #[command(flatten)]
    view: ViewOptions,
    #[command(flatten)]
    filter: FilterOptions,
}

/// How long a report waits for a trace that is still being written: a collector needs a moment after its program ends.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

pub(super) fn report(options: &Options) -> Result<ExitCode, Failure> {
    panic::about(&options.trace);
    let filter = options.filter.filter()?;
    if options.operations {
        return operations::print(&options.trace, &filter);
    }
    let run = read(&options.trace, PATIENCE, &filter)?;
    if options.json {
        return print(&run.json());
    }
    print(&run.screen(&options.view, &io::stdout()))
}

/// The report of traces that were just written: on stderr, and as JSON beside them.
pub(super) fn after_run(trace: &Path, print: bool, write_json: bool) -> Result<(), Failure> {
    if !print && !write_json {
        return Ok(());
    }
    let run = read(trace, Duration::ZERO, &Filter::default())?;
    if print {
        let stderr = io::stderr();
        let text = run.screen(&ViewOptions::default(), &stderr);
        // That nobody reads it is no error.
        let _ = stderr.lock().write_all(text.as_bytes());
    }
    if write_json {
        let path = beside(trace);
        fs::write(&path, run.json())
            .map_err(|e| Failure::usage(format_args!("cannot write {}: {}", path.display(), why(&e))))?;
    }
    Ok(())
}

/// The report of traces that were just written, as stdout shows it.
pub(super) fn for_stdout(trace: &Path) -> Result<String, Failure> {
    let run = read(trace, Duration::ZERO, &Filter::default())?;
    Ok(run.screen(&ViewOptions::default(), &io::stdout()))
}

/// Columns of stdout.
pub(super) fn stdout_width() -> usize {
    ViewOptions::default().style(io::stdout()).width
}

/// Where a trace's JSON goes: `x.gspy` → `x.json`, any other name with `.json` behind it.
fn beside(trace: &Path) -> PathBuf {
    if trace.extension().is_some_and(|e| e == "gspy") {
        return trace.with_extension("json");
    }
    // Without a slash at the end: beside a directory, not in it.
    let mut name = trace.components().as_path().as_os_str().to_owned();
    name.push(".json");
    name.into()
}

/// What was read: a report of each trace that could be, one at least.
struct Run {
    reports: Vec<ProcessReport>,
    unread: Vec<Unread>,
}

impl Run {
    fn screen(&self, options: &ViewOptions, stream: &impl AsFd) -> String {
        let sizes =
            self.reports.iter().map(|report| fs::metadata(&report.process.path).map(|file| file.len()));
        let trace_bytes = sizes.sum::<io::Result<u64>>().ok();
        let view = View { unread: self.unread.clone(), ..options.view(trace_bytes) };
        report::terminal(&self.reports, &view, &options.style(stream))
    }

    fn json(&self) -> String {
        format!("{:#}\n", report::json_without(&self.reports, &self.unread))
    }
}

/// Reads a trace, or all traces of a directory.
fn read(path: &Path, patience: Duration, filter: &Filter) -> Result<Run, Failure> {
    let opened = open_all(path, patience)?;
    let filters = filters(&opened.traces, filter);
    let mut reports = Vec::new();
    let mut traces = opened.traces;
    for (trace, filter) in traces.iter_mut().zip(&filters) {
        reports.push(analyze::process(Input {
            path: trace.path.display().to_string(),
            names: &trace.names,
            status: trace.status.as_ref(),
            // Damage inside a chunk shows when it is read, and the report begins with what was lost: by now all is known.
            damage: trace.reader.damage().into(),
            clocks: &trace.clocks,
            filter,
            records: trace.reader.records(),
        }));
    }
    if reports.len() > 1 {
        let members = traces.iter_mut().zip(&filters).map(|(trace, filter)| Member {
            names: &trace.names,
            status: trace.status.as_ref(),
            clocks: &trace.clocks,
            filter,
            records: trace.reader.records(),
        });
        analyze::together(&mut reports, members.collect());
    }
    let unread = opened
        .unread
        .iter()
        .map(|(path, error)| Unread { path: path.display().to_string(), why: error.to_string() });
    let unread: Vec<Unread> = unread.collect();
    unread.iter().for_each(|Unread { path, why }| say(format_args!("cannot read {path}: {why}")));
    analyze::sort(&mut reports);
    Ok(Run { reports, unread })
}

/// A trace after the first pass over it.
pub(super) struct Opened {
    pub path: PathBuf,
    pub reader: TraceReader,
    pub names: Names,
    pub status: Option<Status>,
    pub clocks: Clocks,
}

/// Traces that were read once: one at least, and those that could not be read.
pub(super) struct AllOpened {
    pub traces: Vec<Opened>,
    pub unread: Vec<(PathBuf, TraceError)>,
}

/// Opens a trace, or all traces of a directory, and reads them for the first time.
pub(super) fn open_all(path: &Path, patience: Duration) -> Result<AllOpened, Failure> {
    let deadline = Instant::now() + patience;
    let (mut traces, mut unread) = (Vec::new(), Vec::new());
    for trace in traces_of(path)? {
        match open(&trace, deadline) {
            Ok(opened) => traces.push(opened),
            Err(error) => unread.push((trace, error)),
        }
    }
    match unread.last() {
        Some((path, error)) if traces.is_empty() => Err(unreadable(path, error)),
        _ => Ok(AllOpened { traces, unread }),
    }
}

fn open(path: &Path, deadline: Instant) -> Result<Opened, TraceError> {
    if !wait_until_complete(path, deadline.saturating_duration_since(Instant::now()))? {
        say(format_args!("{} is still being written: this is what it holds so far", path.display()));
    }
    let mut reader = TraceReader::open(path)?;
    let clocks = Survey::of(reader.records());
    let (names, status) = (reader.names().clone(), reader.status().cloned());
    Ok(Opened { path: path.to_owned(), reader, names, status, clocks })
}

/// What is asked for of each trace: its times count from the begin of the first of its machine's.
pub(super) fn filters(traces: &[Opened], filter: &Filter) -> Vec<Filter> {
    let of = |trace: &Opened| (trace.machine(), trace.clocks.began(trace.status.as_ref()));
    let began =
        |machine: &Machine| traces.iter().map(of).filter(|one| one.0 == *machine).map(|one| one.1).min();
    traces.iter().map(|trace| Filter { origin: began(&trace.machine()), ..filter.clone() }).collect()
}

impl Opened {
    fn machine(&self) -> Machine {
        Machine::of(&self.names, self.status.as_ref())
    }
}

pub(super) fn unreadable(path: &Path, error: &TraceError) -> Failure {
    Failure { code: UNREADABLE, sentence: format!("cannot read {}: {error}", path.display()) }
}

/// Says what a trace that was read lacks.
pub(super) fn say_damage(path: &Path, damage: Damage) {
    for (what, how) in report::damage::told(&damage.into()) {
        say(format_args!("{} is {what}: {how}", path.display()));
    }
}

/// The trace itself, or those of a directory in the order of their names: one at least.
pub(super) fn traces_of(path: &Path) -> Result<Vec<PathBuf>, Failure> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let entries = fs::read_dir(path).map_err(|e| unreadable(path, &e.into()))?;
    let mut traces: Vec<PathBuf> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|e| e == "gspy") && path.is_file())
        .collect();
    traces.sort();
    if traces.is_empty() {
        let sentence = format!("there is no trace in {}", path.display());
        return Err(Failure { code: UNREADABLE, sentence });
    }
    Ok(traces)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_lies_beside_its_trace() {
        assert_eq!(beside(Path::new("a/run.gspy")), Path::new("a/run.json"));
        assert_eq!(beside(Path::new("run.1")), Path::new("run.1.json"));
        assert_eq!(beside(Path::new("/a/runs/")), Path::new("/a/runs.json"));
    }
}
