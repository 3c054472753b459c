//! `gpuspy export --to parquet`: writes the tables of a trace into folders for DuckDB and Spark.

use super::machines::Machines;
use super::output::cannot_write;
use super::traces::{Opened, PATIENCE, say_damage, unreadable};
use super::{Failure, say};
use crate::analyze::Input;
use crate::export::parquet::{self, Written, place};
use crate::model::filter::Filter;
use crate::trace::TraceReader;
use crate::units::utc;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Writes a trace, or all traces of a directory, as one job.
pub(super) fn export(
    trace: &Path,
    filter: &Filter,
    output: Option<&Path>,
    job: Option<&str>,
) -> Result<(), Failure> {
    let Some(directory) = output else {
        return Err(Failure::usage("tables need a directory: name it with -o DIR"));
    };
    if directory.exists() && !directory.is_dir() {
        let shown = directory.display();
        return Err(Failure::usage(format_args!("{shown} is a file: tables need a directory, -o DIR")));
    }
    let mut machines = Machines::of(trace, PATIENCE)?;
    let job = job.map_or_else(|| named(&machines), |job| Ok(place::safe(job)))?;
    let folder = place::of_job(directory, &job);
    free(&folder)?;
    let hidden = hidden(&folder);
    let written = all(&mut machines, filter, &hidden).and_then(|written| {
        // A folder that came in the meantime is not replaced, unless it is empty.
        let renamed = fs::rename(&hidden, &folder);
        renamed.map(|()| written).map_err(|e| cannot_write(folder.display(), &e))
    });
    if written.is_err() {
        let _ = fs::remove_dir_all(&hidden); // It may not exist.
    }
    let written = written?;
    machines.unread.iter().for_each(|(path, error)| say(&unreadable(path, error).sentence));
    let (shown, rows) = (folder.display(), written.rows);
    say(format_args!("wrote {shown}, {} with {rows} rows", processes(machines.count())));
    Ok(())
}

/// Adds the tables of the trace of a window that began then, s since 1970, to the job of that window: `NAME.TIME`.
pub(super) fn add(trace: &Path, directory: &Path, job: Option<&str>, began: u64) -> Result<Written, Failure> {
    let mut machines = Machines::of(trace, PATIENCE)?;
    if let Some((path, error)) = machines.unread.first() {
        return Err(unreadable(path, error));
    }
    let name = match (job, first(&machines)?) {
        (Some(job), _) => job.to_owned(),
        (None, Some(reader)) => place::program_of(reader.names()),
        (None, None) => String::new(),
    };
    let folder = place::of_job(directory, &format!("{name}.{}", utc(began)));
    all(&mut machines, &Filter::default(), &folder)
}

/// Returns the name of a job that the user has not named.
fn named(machines: &Machines) -> Result<String, Failure> {
    let reader = first(machines)?;
    Ok(place::job_of(reader.iter().map(|reader| (reader.names(), reader.status()))))
}

/// Opens the trace that began first, if there is any.
fn first(machines: &Machines) -> Result<Option<TraceReader>, Failure> {
    let open = |path: &Path| TraceReader::open(path).map_err(|error| unreadable(path, &error));
    machines.first().map(open).transpose()
}

fn processes(count: usize) -> String {
    if count == 1 { "one process".to_owned() } else { format!("{count} processes") }
}

/// Refuses a job that is there already: half of it could be old.
fn free(folder: &Path) -> Result<(), Failure> {
    match fs::read_dir(folder).map(Iterator::count) {
        Ok(0) => Ok(()),
        Ok(_) => Err(Failure::usage(format_args!(
            "{} is there already: name another job with --job NAME, or remove it",
            folder.display()
        ))),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(e) => Err(cannot_write(folder.display(), &e)),
    }
}

/// Where a job is written until it is complete: beside its folder, under a name that readers skip.
fn hidden(folder: &Path) -> PathBuf {
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    folder.with_file_name(format!(".{name}.{}.part", std::process::id()))
}

/// Writes the tables of all processes, one machine after another.
fn all(machines: &mut Machines, filter: &Filter, job: &Path) -> Result<Written, Failure> {
    let (mut all, mut failed) = (Written::default(), None);
    machines.each(filter, |traces, filters| {
        for (trace, filter) in traces.iter_mut().zip(filters) {
            if failed.is_some() {
                return;
            }
            let folder = place::of_process(job, &trace.names);
            let file = place::file(&folder, trace.status.as_ref());
            match one(trace, filter, &folder, &file) {
                Ok(written) => all.rows += written.rows,
                Err(error) => {
                    place::remove(&folder, &file);
                    failed = Some(cannot_write(folder.display(), &error));
                }
            }
            say_damage(&trace.path, trace.reader.damage());
        }
    })?;
    failed.map_or(Ok(all), Err)
}

/// Writes the tables of a process into its folder, in files of this name.
fn one(trace: &mut Opened, filter: &Filter, folder: &Path, file: &str) -> io::Result<Written> {
    let input = Input {
        path: trace.path.display().to_string(),
        names: &trace.names,
        status: trace.status.as_ref(),
        damage: trace.reader.damage().into(),
        clocks: &trace.clocks,
        filter,
        records: trace.clocks.callers.on_stacks(trace.reader.records()),
    };
    parquet::write(folder, file, input)
}
