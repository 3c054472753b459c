//! The traces of a run: a file, or those of a directory.

use super::{Failure, UNREADABLE, say};
use crate::model::filter::Filter;
use crate::model::gpu_clock::Clocks;
use crate::model::run::{self, Told};
use crate::model::survey::Survey;
use crate::report;
use crate::trace::record::{Names, Status};
use crate::trace::{Damage, TraceError, TraceReader, wait_until_complete};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long a report waits for a trace that is still being written: a collector needs a moment after its program ends.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

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

/// What is asked for of each trace.
pub(super) fn filters(traces: &[Opened], filter: &Filter) -> Vec<Filter> {
    fn told(trace: &Opened) -> Told<'_> {
        let Opened { names, status, clocks, .. } = trace;
        Told { names, status: status.as_ref(), clocks }
    }
    run::asked(&traces.iter().map(told).collect::<Vec<_>>(), filter)
}

pub(super) fn unreadable(path: &Path, error: &TraceError) -> Failure {
    Failure { code: UNREADABLE, sentence: format!("cannot read {}: {error}", path.display()) }
}

/// Says what a trace that was read lacks.
pub(super) fn say_damage(path: &Path, damage: Damage) {
    for (what, how) in report::damage::described(&damage.into()) {
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
