//! `gpuspy export --to parquet`: writes the tables of a trace into folders for DuckDB and Spark.

use super::machines::Machines;
use super::output::cannot_write;
use super::traces::{Opened, PATIENCE, say_damage, say_unread, unreadable};
use super::{Failure, UNREADABLE, part, say};
use crate::analyze::Input;
use crate::export::parquet::{self, Written, place};
use crate::model::filter::Filter;
use crate::model::process_key;
use crate::model::run::Place;
use crate::trace::record::{Names, Status};
use crate::trace::{Damage, PRIVATE, TraceReader};
use crate::units::plural;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::mem;
use std::path::{Path, PathBuf};

/// The mode of files that a user asks for.
const USUAL: u32 = 0o666;

/// Writes a trace, or all traces of a directory, as one job; traces of windows of time (`gpuspy collect --every`) as a job for each
/// window, as `gpuspy collect --to parquet` does: where the job of a window is there already, whole traces are added to it.
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
    let mut machines = Machines::of_windows(trace, PATIENCE)?;
    let windows = machines.windows();
    let job = job.map_or_else(|| named(&machines, &windows), |job| Ok(job.to_owned()))?;
    let folder = |window: &Option<u64>| place::of_part(directory, &job, *window);
    let Some(first) = windows.first().map(folder) else { return Ok(()) };
    let is_added =
        |window: &&Option<u64>| window.is_some() && filter.is_everything() && is_there(&folder(window));
    let (added, new): (BTreeSet<Option<u64>>, BTreeSet<Option<u64>>) = windows.iter().partition(is_added);
    new.iter().try_for_each(|window| free(&folder(window)))?;
    // Beside their folders, under a name that readers skip.
    let hidden = part::beside(&first, ".");
    let begun = fs::create_dir_all(&hidden).and_then(|()| File::open(&hidden));
    let begun = begun.map_err(|e| cannot_write(first.display(), &e))?;
    part::hold(&begun);
    let to = |window| place::of_part(if added.contains(&window) { directory } else { &hidden }, &job, window);
    let written = all(&mut machines, filter, to, USUAL).and_then(|written| {
        new.iter().try_for_each(|window| publish(&hidden, &folder(window))).map(|()| written)
    });
    let _ = fs::remove_dir_all(&hidden); // What cannot be removed stays.
    let written = written?;
    machines.unread.iter().for_each(|(path, error)| say(&unreadable(path, error).sentence));
    let jobs = match windows.len() as u64 {
        1 => first.display().to_string(),
        jobs => format!("{} and the {} after it", first.display(), plural(jobs - 1, "window", "windows")),
    };
    written.said(&jobs, machines.processes())
}

/// Whether something is in a folder.
fn is_there(folder: &Path) -> bool {
    fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some())
}

/// Gives a complete job its name. Of a window of which all ranks are filtered out, there is none.
fn publish(hidden: &Path, folder: &Path) -> Result<(), Failure> {
    let complete = hidden.join(folder.file_name().unwrap_or_default());
    // A folder that came in the meantime is not replaced, unless it is empty.
    match fs::rename(&complete, folder) {
        Err(_) if !complete.exists() => Ok(()),
        renamed => renamed.map_err(|e| cannot_write(folder.display(), &e)),
    }
}

/// Adds the tables of the trace of a window that began then, s since 1970, to the job of that window: `NAME.TIME`. They are as
/// private as the trace.
///
/// # Errors
/// Says why the trace still has what the tables lack.
pub(super) fn add(trace: &Path, directory: &Path, job: Option<&str>, began: u64) -> Result<(), Failure> {
    let mut machines = Machines::of_windows(trace, PATIENCE)?;
    if let Some((path, error)) = machines.unread.first() {
        return Err(unreadable(path, error));
    }
    let name = match (job, first(&machines)?) {
        (Some(job), _) => job.to_owned(),
        (None, Some(reader)) => place::program_of(reader.names()),
        (None, None) => String::new(),
    };
    whole(&mut machines, &place::of_window(directory, &name, began))
}

/// Whether the tables of a trace are there that [`add`] makes.
pub(super) fn is_added(trace: &Path, directory: &Path, job: Option<&str>) -> bool {
    let Ok(reader) = TraceReader::open(trace) else { return false };
    let (names, status) = (reader.names(), reader.status());
    let name = job.map_or_else(|| place::program_of(names), str::to_owned);
    let job = place::of_part(directory, &name, Place::of(names, status).window);
    is_written(&place::of_process(&job, names), names, status)
}

/// Whether the tables of a process are in its folder.
fn is_written(folder: &Path, names: &Names, status: Option<&Status>) -> bool {
    let key = process_key::key(names, status, &place::file(folder, status));
    parquet::is_written(folder, status, &key)
}

/// Writes the tables of all processes and everything that is in their traces.
fn whole(machines: &mut Machines<'_>, job: &Path) -> Result<(), Failure> {
    let Tables { is_partial, .. } = all(machines, &Filter::default(), |_| job.to_owned(), PRIVATE)?;
    // A trace that could be opened a moment ago may not be opened again.
    if let Some((path, error)) = machines.unread.first() {
        return Err(unreadable(path, error));
    }
    if is_partial {
        let sentence = format!("the tables in {} lack what could not be read", job.display());
        return Err(Failure { code: UNREADABLE, sentence });
    }
    Ok(())
}

/// Returns the name of a job that the user has not named: windows have their time in the names of their folders.
fn named(machines: &Machines<'_>, windows: &BTreeSet<Option<u64>>) -> Result<String, Failure> {
    let reader = first(machines)?;
    if windows.contains(&None) {
        return Ok(place::job_of(reader.iter().map(|reader| (reader.names(), reader.status()))));
    }
    Ok(reader.map_or_else(String::new, |reader| place::program_of(reader.names())))
}

/// Opens the trace that began first, if there is any.
fn first(machines: &Machines<'_>) -> Result<Option<TraceReader>, Failure> {
    let open = |path: &Path| TraceReader::open(path).map_err(|error| unreadable(path, &error));
    machines.first().map(open).transpose()
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

/// The tables of one job or more.
#[derive(Debug, Default)]
struct Tables {
    /// The number of rows in those of what happened.
    rows: u64,
    /// Whether a part of a trace's file could not be read.
    is_partial: bool,
    /// How many traces have become tables, and how many had tables there already.
    traces: [u64; 2],
}

impl Tables {
    /// Says what was written into these jobs, about so many processes.
    fn said(&self, jobs: &str, processes: usize) -> Result<(), Failure> {
        let [new, known] = self.traces.map(|count| plural(count, "trace", "traces"));
        match self.traces {
            [0, there] if there > 0 => Err(Failure::usage(format_args!(
                "{jobs} has the tables of {known} already, and there is no other"
            ))),
            [_, 0] => {
                let processes = plural(processes as u64, "process", "processes");
                say(format_args!("wrote {jobs}, {processes} with {} rows", self.rows));
                Ok(())
            }
            _ => {
                say(format_args!(
                    "wrote {new} into {jobs}, with {} rows; the tables of {known} were there already",
                    self.rows
                ));
                Ok(())
            }
        }
    }
}

/// Writes the tables of all processes, one machine after another, into files of this mode. `job` is the folder of the job that is a
/// window of time, by when that began; `None` for the whole run.
fn all(
    machines: &mut Machines<'_>,
    filter: &Filter,
    job: impl Fn(Option<u64>) -> PathBuf,
    mode: u32,
) -> Result<Tables, Failure> {
    let (mut all, mut failed) = (Tables::default(), None);
    machines.each(filter, |traces, filters| {
        for (trace, filter) in traces.iter_mut().zip(filters) {
            if failed.is_some() {
                return;
            }
            let window = trace.surveyed().place().window;
            let folder = place::of_process(&job(window), &trace.names);
            let file = place::file(&folder, trace.status.as_ref());
            if is_written(&folder, &trace.names, trace.status.as_ref()) {
                all.traces[1] += 1;
                continue;
            }
            let unfinished = Unfinished { folder: &folder, file: &file };
            // Each pass may lack another part.
            let first_pass = trace.reader.damage();
            match one(trace, filter, &unfinished, mode) {
                Ok(written) => {
                    mem::forget(unfinished);
                    all.rows += written.rows;
                    all.traces[0] += 1;
                }
                Err(error) => failed = Some(cannot_write(folder.display(), &error)),
            }
            let damage = trace.reader.damage();
            all.is_partial |= is_partial(&first_pass) || is_partial(&damage);
            say_damage(&trace.path, &trace.reader);
            say_unread(&trace.clocks.callers);
        }
    })?;
    failed.map_or(Ok(all), Err)
}

/// Whether a part of the file could not be read, which may succeed later. What was never written to it is no such part.
fn is_partial(damage: &Damage) -> bool {
    damage.bytes_skipped > 0 || (damage.chunks_lost > 0 && damage.write_error.is_none())
}

/// Files of a process's tables, which are removed if writing them fails or panics.
struct Unfinished<'a> {
    folder: &'a Path,
    file: &'a str,
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        place::remove(self.folder, self.file);
    }
}

/// Writes the tables of a process into these files.
fn one(trace: &mut Opened, filter: &Filter, files: &Unfinished<'_>, mode: u32) -> io::Result<Written> {
    let input = Input {
        path: trace.path.display().to_string(),
        names: &trace.names,
        status: trace.status.as_ref(),
        damage: trace.reader.damage().into(),
        clocks: &trace.clocks,
        filter,
        records: trace.clocks.callers.on_stacks(trace.reader.records()),
    };
    parquet::write(files.folder, files.file, mode, input)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::generator::{Generator, Options, write_idle_window, write_trace};
    use std::os::unix::fs::PermissionsExt;

    /// The start of a window, s since 1970.
    const BEGAN: u64 = 1_795_924_200;

    /// Writes a trace into a folder.
    fn trace(folder: &Path) -> PathBuf {
        let trace = folder.join("python-7.gspy");
        write_trace(&trace, &mut Generator::new(7, Options::default()), 20_000).unwrap();
        trace
    }

    /// Returns the files in a folder and in those below it.
    fn files(folder: &Path) -> Vec<PathBuf> {
        let mut files = Vec::new();
        for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if entry.is_dir() { files.extend(self::files(&entry)) } else { files.push(entry) }
        }
        files
    }

    /// They had the usual modes, and the trace that they replaced was its owner's alone.
    #[test]
    fn the_tables_of_a_window_are_as_private_as_its_trace() {
        let folder = tempfile::tempdir().unwrap();
        let trace = trace(folder.path());
        add(&trace, folder.path(), Some("lr"), BEGAN).unwrap();
        let job = place::of_window(folder.path(), "lr", BEGAN);
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let tables = files(&job);
        assert!(!tables.is_empty() && mode(&job) == 0o700);
        assert!(tables.iter().all(|table| mode(table) == 0o600 && mode(table.parent().unwrap()) == 0o700));
    }

    #[test]
    fn a_job_takes_the_place_of_what_an_interrupted_export_left_of_it() {
        let folder = tempfile::tempdir().unwrap();
        let (trace, tables) = (trace(folder.path()), folder.path().join("tables"));
        fs::create_dir_all(tables.join(".job=lr.gpuspy-7.part/host=a")).unwrap();
        export(&trace, &Filter::default(), Some(&tables), Some("lr")).unwrap();
        let names = fs::read_dir(&tables).unwrap().map(|entry| entry.unwrap().file_name());
        assert_eq!(names.collect::<Vec<_>>(), ["job=lr"]);
    }

    /// The collector removed a trace of which it had written nothing.
    #[test]
    fn a_trace_that_cannot_be_opened_a_second_time_has_no_tables() {
        let folder = tempfile::tempdir().unwrap();
        let trace = trace(folder.path());
        let mut machines = Machines::of_windows(&trace, PATIENCE).unwrap();
        fs::remove_file(&trace).unwrap();
        let failure = whole(&mut machines, &folder.path().join("job=lr")).unwrap_err();
        assert!(failure.sentence.starts_with("cannot read "), "{failure:?}");
    }

    /// The collector removed it, also if another try would have read all of it.
    #[test]
    fn tables_lack_what_could_not_be_read_of_a_trace() {
        let folder = tempfile::tempdir().unwrap();
        let trace = trace(folder.path());
        let mut bytes = fs::read(&trace).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        fs::write(&trace, bytes).unwrap();
        let failure = add(&trace, folder.path(), Some("lr"), BEGAN).unwrap_err();
        assert!(failure.sentence.ends_with(" lack what could not be read"), "{failure:?}");
        let job = place::of_window(folder.path(), "lr", BEGAN);
        assert!(!files(&job).is_empty(), "the rest is there");
    }

    /// A trace on a full disk would be kept for records that are not in it.
    #[test]
    fn what_was_never_written_to_a_trace_is_no_part_of_it() {
        let full = Damage { chunks_lost: 2, write_error: Some(libc::ENOSPC), ..Damage::default() };
        assert!(!is_partial(&full) && !is_partial(&Damage::default()));
        assert!(is_partial(&Damage { bytes_skipped: 1, ..full }));
        assert!(is_partial(&Damage { write_error: None, ..full }));
    }

    /// The second trace of a window was refused, and it was said to remove the tables of the first one.
    #[test]
    fn traces_of_a_window_are_added_to_its_job_one_after_another_and_none_twice() {
        let folder = tempfile::tempdir().unwrap();
        let tables = folder.path().join("tables");
        let window = |pid: u32| {
            let trace = folder.path().join(format!("{pid}.gspy"));
            write_idle_window(&trace, pid, BEGAN, 600).unwrap();
            trace
        };
        let export = |trace: &Path| export(trace, &Filter::default(), Some(&tables), Some("lr"));
        let count =
            || files(&tables).iter().filter(|path| path.to_string_lossy().contains("/process/")).count();
        let [one, other] = [window(7), window(8)];
        export(&one).unwrap();
        export(&other).unwrap();
        assert_eq!((count(), place::of_window(&tables, "lr", BEGAN).is_dir()), (2, true));
        let again = export(&one).unwrap_err();
        assert!(
            again.sentence.ends_with(" has the tables of 1 trace already, and there is no other"),
            "{again:?}"
        );
        window(9);
        export(folder.path()).unwrap();
        assert_eq!(count(), 3, "all that were left at once");
    }

    #[test]
    fn tables_whose_writing_panics_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let table = folder.path().join("kernel");
        fs::create_dir(&table).unwrap();
        fs::write(table.join("pid7-00000.parquet"), "").unwrap();
        let panicked = std::panic::catch_unwind(|| {
            let _unfinished = Unfinished { folder: folder.path(), file: "pid7-00000.parquet" };
            panic!("a fault of an analysis");
        });
        assert!(panicked.is_err());
        assert_eq!(files(folder.path()), [] as [PathBuf; 0]);
    }
}
