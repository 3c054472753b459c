//! `gpuspy export`: a trace for another tool.

use super::report::{PATIENCE, traces_of, unreadable};
use super::{Failure, say};
use crate::export::chrome::{Export, Source};
use crate::trace::{TraceError, TraceReader, wait_until_complete};
use clap::{Args, ValueEnum};
use flate2::Compression;
use flate2::write::GzEncoder;
use std::fs::{self, File};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(Args, Debug)]
pub(super) struct Options {
    /// A trace, or the directory of one run's traces, which become one file
    #[arg(value_name = "TRACE")]
    trace: PathBuf,
    /// For which tool
    #[arg(long, value_enum, default_value = "chrome")]
    to: Format,
    /// The file to write, compressed if its name ends in .gz; - or nothing: stdout
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    /// Chrome's JSON as PyTorch writes it: for ui.perfetto.dev, chrome://tracing, HTA
    Chrome,
}

pub(super) fn export(options: &Options) -> Result<ExitCode, Failure> {
    let Format::Chrome = options.to;
    let opened = open_all(&options.trace)?;
    let written = match options.output.as_deref().filter(|path| path.as_os_str() != "-") {
        Some(path) => write_file(path, opened),
        None => match write_to(io::stdout().lock(), opened) {
            // `gpuspy export … | head` has seen what it wanted.
            Err(e) if e.kind() == ErrorKind::BrokenPipe => Ok(()),
            written => written.map_err(|e| cannot_write("stdout", &e)),
        },
    };
    written.map(|()| ExitCode::SUCCESS)
}

/// Writes a trace as a Chrome trace.
pub(super) fn write_chrome(trace: &Path, file: &Path) -> Result<(), Failure> {
    write_file(file, open_all(trace)?)
}

fn cannot_write(name: impl std::fmt::Display, error: &io::Error) -> Failure {
    Failure::usage(format_args!("cannot write {name}: {error}"))
}

/// A trace after the first pass over it.
struct Opened {
    path: PathBuf,
    reader: TraceReader,
    source: Source,
}

/// All traces that can be read: one at least.
fn open_all(path: &Path) -> Result<Vec<Opened>, Failure> {
    let (mut opened, mut failures) = (Vec::new(), Vec::new());
    for trace in traces_of(path)? {
        match open(&trace) {
            Ok(one) => opened.push(one),
            Err(error) => failures.push(unreadable(&trace, &error)),
        }
    }
    match failures.pop() {
        Some(failure) if opened.is_empty() => Err(failure),
        last => {
            failures.into_iter().chain(last).for_each(|failure| say(&failure.sentence));
            Ok(opened)
        }
    }
}

fn open(path: &Path) -> Result<Opened, TraceError> {
    if !wait_until_complete(path, PATIENCE)? {
        say(format_args!("{} is still being written: this is what it holds so far", path.display()));
    }
    let mut reader = TraceReader::open(path)?;
    let (names, status) = (reader.names().clone(), reader.status().cloned());
    let source = Source::of(names, status, reader.records());
    let lost = reader.damage().records_lost_at_least;
    if lost > 0 {
        say(format_args!("{} is damaged: at least {lost} records are missing", path.display()));
    }
    Ok(Opened { path: path.to_owned(), reader, source })
}

fn write_to(out: impl Write, opened: Vec<Opened>) -> io::Result<()> {
    let (mut readers, sources): (Vec<_>, Vec<_>) = opened.into_iter().map(|o| (o.reader, o.source)).unzip();
    let mut export = Export::begin(BufWriter::with_capacity(1 << 20, out), &sources)?;
    for (index, (reader, source)) in readers.iter_mut().zip(&sources).enumerate() {
        export.process(index, source, reader.records())?;
    }
    let (out, _) = export.finish()?;
    out.into_inner().map_err(io::IntoInnerError::into_error)?.flush()
}

/// Writes beside the file and takes its place in the end, so that under its name there is a whole one or the one before.
fn write_file(path: &Path, opened: Vec<Opened>) -> Result<(), Failure> {
    let failed = |e: &io::Error| cannot_write(path.display(), e);
    let compress = path.extension().is_some_and(|e| e == "gz");
    // The file that a link names is written, not the link.
    let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    if let Some(trace) = opened.iter().find(|o| fs::canonicalize(&o.path).is_ok_and(|p| p == target)) {
        let trace = trace.path.display();
        return Err(Failure::usage(format_args!("{trace} is the trace itself: name another file with -o")));
    }
    if target.exists() && !target.is_file() {
        // A device or a pipe; a directory says so itself.
        let file = File::options().write(true).open(&target).map_err(|e| failed(&e))?;
        return write_compressed(file, compress, opened).map_err(|e| failed(&e));
    }
    let mut beside = target.clone().into_os_string();
    beside.push(format!(".{}.part", std::process::id()));
    let beside = PathBuf::from(beside);
    let written = File::create(&beside)
        .and_then(|file| write_compressed(file, compress, opened))
        .and_then(|()| fs::rename(&beside, &target));
    written.map_err(|e| {
        let _ = fs::remove_file(&beside); // it may never have been there
        failed(&e)
    })
}

fn write_compressed(file: File, compress: bool, opened: Vec<Opened>) -> io::Result<()> {
    if !compress {
        return write_to(file, opened);
    }
    let mut encoder = GzEncoder::new(file, Compression::fast());
    write_to(&mut encoder, opened)?;
    encoder.finish().map(drop)
}
