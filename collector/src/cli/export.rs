//! `gpuspy export`: writes a trace for another tool.

use super::exporting::{Asked, Exporting};
use super::filter::{self, Contents};
use super::flame::{self, Flames};
use super::output::{cannot_write, is_compressed, write_file, write_to, written_behind};
use super::traces::{
    self, Bounds, PATIENCE, find, joined, resolve_callers, say_damage, say_unread, selected_time, traces_of,
    unreadable,
};
use super::{Failure, panic, parquet, say, time};
use crate::export::chrome::Chrome;
use crate::export::flame::Weight;
use crate::export::perfetto::{self, Packed, Perfetto};
use crate::export::timeline::sink::Sink;
use crate::export::timeline::{Export, Source, Summary, lay_out};
use crate::model::filter::Filter;
use crate::model::job::Job;
use crate::model::run::Machine;
use crate::trace::TraceReader;
use crate::why::said;
use clap::builder::NonEmptyStringValueParser;
use clap::{Args, ValueEnum};
use flate2::read::GzDecoder;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufWriter, IsTerminal, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(Args, Debug)]
pub(super) struct Options {
    /// A trace, or the directory with the traces of one run, which become one file
    #[arg(value_name = "TRACE")]
    trace: PathBuf,
    /// The format
    #[arg(long, value_enum, default_value = "chrome")]
    to: Format,
    /// What the stacks of collapsed and speedscope are weighed by: the time of the GPU, its idle time, the host's waits for
    /// it, or the bytes that were moved [default: gpu; speedscope: all]
    #[arg(long, value_name = "gpu|idle|wait|bytes", value_parser = weight)]
    weight: Option<Weight>,
    /// The file to write, compressed if its name ends in .gz [default: stdout]. In a directory (DIR/), a file is written for
    /// each rank, rank<N>.json.gz (perfetto: .pftrace.gz), and for each process without a rank, pid<N>.json.gz. Parquet is
    /// written into a directory, in which other jobs may be
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// With --to parquet: the name of the job, which is that of its folder [default: the program, and when it began]
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    job: Option<String>,
    /// Leave out what ended before this time, counted from the start of the run: 1.5s, 200ms, 10us, 3m. Stacks and tables (collapsed,
    /// speedscope, parquet) have only what starts at this time or later, as the report
    #[arg(long, value_name = "TIME", value_parser = time::duration, allow_hyphen_values = true)]
    since: Option<u64>,
    /// Leave out what starts at this time or later
    #[arg(long, value_name = "TIME", value_parser = time::duration, allow_hyphen_values = true)]
    until: Option<u64>,
    /// Only the host time of this step of the program, or of the steps N to M, counted from 0
    #[arg(long = "step", value_name = "N|N..M", value_parser = filter::steps, conflicts_with_all = ["since", "until"])]
    steps: Option<(u64, u64)>,
    /// Only what starts in the last T of the run, or of what there is of a run that goes on
    #[arg(long, value_name = "T", value_parser = time::duration, conflicts_with_all = ["since", "until", "steps"])]
    last: Option<u64>,
    /// Only this GPU, by its CUDA device number in the program; may be repeated
    #[arg(long = "device", value_name = "N", allow_negative_numbers = true)]
    devices: Vec<u32>,
    /// Only this stream, by its number in `report --operations`; may be repeated
    #[arg(long = "stream", value_name = "ID", allow_negative_numbers = true)]
    streams: Vec<u64>,
    /// Leave out the steps that gpuspy found: HTA leaves out all that comes after the start of a file's last step
    #[arg(long)]
    without_steps: bool,
    /// Leave out the rows of Python functions that called CUDA: the file is smaller, and the stacks of calls stay in their arguments
    #[arg(long)]
    without_functions: bool,
}

impl Options {
    fn filter(&self) -> Result<Filter, Failure> {
        let (devices, streams) = (self.devices.clone(), self.streams.clone());
        let (since, until, steps, last) = (self.since, self.until, self.steps, self.last);
        filter::of_some_time(Filter { devices, streams, since, until, steps, last, ..Filter::default() })
    }

    /// Refuses the options that are for timelines only.
    fn of_timelines(&self) -> Result<(), Failure> {
        let given =
            [(self.without_steps, "--without-steps"), (self.without_functions, "--without-functions")];
        given.into_iter().find(|(is_given, _)| *is_given).map_or(Ok(()), |(_, option)| {
            Err(Failure::usage(format_args!("{option} is for --to chrome and --to perfetto")))
        })
    }
}

/// Why `--weight` is refused.
const FOR_STACKS: &str = "--weight is for --to collapsed and --to speedscope";

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    /// Chrome JSON as PyTorch writes it, for ui.perfetto.dev, chrome://tracing and HTA
    Chrome,
    /// Perfetto's own format, for ui.perfetto.dev and trace_processor: smaller than Chrome's
    Perfetto,
    /// A line for each stack, for flamegraph.pl, inferno and speedscope
    Collapsed,
    /// Stacks as JSON, for speedscope.app
    Speedscope,
    /// Tables for DuckDB, Spark and other readers of Parquet, in the directory -o
    Parquet,
}

fn weight(text: &str) -> Result<Weight, String> {
    let known = || Weight::ALL.map(Weight::name).join(", ");
    let named = Weight::ALL.into_iter().find(|weight| weight.name() == text);
    named.ok_or_else(|| format!("the weights are {}", known()))
}

pub(super) fn export(options: &Options) -> Result<ExitCode, Failure> {
    let filter = options.filter()?;
    panic::about(&options.trace);
    let output = options.output.as_deref().filter(|path| path.as_os_str() != "-");
    if !matches!(options.to, Format::Parquet) {
        output.map_or(Ok(()), |path| replaceable(path, options.to))?;
        if options.job.is_some() {
            return Err(Failure::usage("--job is for --to parquet"));
        }
    }
    match options.to {
        Format::Parquet => tables(options, &filter, output),
        Format::Chrome => timeline(options, &filter, output, Timeline::Chrome),
        Format::Perfetto => timeline(options, &filter, output, Timeline::Perfetto),
        Format::Collapsed => flames(options, &filter, output, Flames::Collapsed),
        Format::Speedscope => flames(options, &filter, output, Flames::Speedscope),
    }
}

/// A format of timelines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Timeline {
    Chrome,
    Perfetto,
}

impl Timeline {
    /// What it is called, and how names of its files end.
    fn names(self) -> (&'static str, &'static str) {
        match self {
            Timeline::Chrome => ("chrome", "json"),
            Timeline::Perfetto => ("perfetto", "pftrace"),
        }
    }

    /// Refuses a name that says the other format: readers of the file would believe it.
    fn fits(self, path: &Path) -> Result<(), Failure> {
        let inner = if is_compressed(path) { path.with_extension("") } else { path.to_owned() };
        let says = |other: &Timeline| inner.extension().is_some_and(|ending| ending == other.names().1);
        let other =
            [Timeline::Chrome, Timeline::Perfetto].into_iter().find(|other| *other != self && says(other));
        let Some(other) = other else { return Ok(()) };
        let ((to, _), (other, ending), shown) = (self.names(), other.names(), path.display());
        Err(Failure::usage(format_args!(
            "{shown} is not written by --to {to}: .{ending} is for --to {other}"
        )))
    }
}

fn timeline(
    options: &Options,
    filter: &Filter,
    output: Option<&Path>,
    to: Timeline,
) -> Result<ExitCode, Failure> {
    if options.weight.is_some() {
        return Err(Failure::usage(FOR_STACKS));
    }
    output.map_or(Ok(()), |path| to.fits(path))?;
    if output.is_none() && to == Timeline::Perfetto && io::stdout().is_terminal() {
        return Err(Failure::usage("a Perfetto trace is not text: name a file with -o FILE.pftrace"));
    }
    let is_one_file = !output.is_some_and(is_directory);
    let exporting = Exporting::new(Asked {
        is_chrome: to == Timeline::Chrome,
        is_compressed: !is_one_file || output.is_some_and(is_compressed),
        is_whole: filter.is_everything(),
        is_shared: is_one_file && traces_of(&options.trace)?.len() > 1,
        without_steps: options.without_steps,
        without_functions: options.without_functions,
    });
    // On one terminal, the line and the export would mix.
    let shows = output.is_some() || !io::stdout().is_terminal();
    let (captured, written) = exporting.with_progress(shows, || {
        let opened = open_all(&options.trace, filter, &exporting)?;
        let captured = opened.iter().find_map(|one| one.source.captured().map(str::to_owned));
        let written = match output {
            Some(path) if !is_one_file => Some(write_directory(path, opened, to, &exporting)?),
            _ => write_to(output, |out| export_to(out, opened, to, &exporting))?,
        };
        Ok((captured, written))
    })?;
    let Some(written) = written else { return Ok(ExitCode::SUCCESS) };
    let trace = options.trace.display();
    if let Some(requested) = captured.filter(|_| written.is_empty()) {
        say(format_args!(
            "the export is empty: nothing in {trace} is inside the capture range ({requested})"
        ));
    } else if written.is_empty() && !filter.is_everything() {
        say(format_args!("the export is empty: nothing in {trace} matches the filters ({filter})"));
    }
    Ok(ExitCode::SUCCESS)
}

fn tables(options: &Options, filter: &Filter, output: Option<&Path>) -> Result<ExitCode, Failure> {
    if options.weight.is_some() {
        return Err(Failure::usage(FOR_STACKS));
    }
    options.of_timelines()?;
    parquet::export(&options.trace, filter, output, options.job.as_deref()).map(|()| ExitCode::SUCCESS)
}

fn flames(
    options: &Options,
    filter: &Filter,
    output: Option<&Path>,
    to: Flames,
) -> Result<ExitCode, Failure> {
    if let Some(directory) = output.filter(|path| is_directory(path)) {
        let shown = directory.display();
        return Err(Failure::usage(format_args!("{shown} is a directory: stacks are written to one file")));
    }
    options.of_timelines()?;
    let processes = flame::read(&options.trace, filter)?;
    let write = |out: &mut (dyn Write + Send)| {
        let mut out = BufWriter::new(out);
        let any = flame::write(&mut out, to, &processes, options.weight)?;
        out.flush().map(|()| any)
    };
    if write_to(output, write)? == Some(false) {
        let weight = options.weight.map_or("no stack has any", |_| "no stack has any of that weight");
        say(format_args!("the export is empty: {weight}"));
    }
    Ok(ExitCode::SUCCESS)
}

/// Refuses to write where something else would be lost, as `run -o` does: a directory must be empty, and a file must be empty
/// or an earlier export. Collapsed stacks are text that others write too, and only collapsed stacks replace them.
fn replaceable(path: &Path, to: Format) -> Result<(), Failure> {
    let shown = path.display();
    if path.is_dir() {
        let mut entries = fs::read_dir(path)
            .map_err(|e| Failure::usage(format_args!("cannot read the directory {shown}: {}", said(&e))))?;
        return match entries.next() {
            None => Ok(()),
            Some(_) => Err(Failure::usage(format_args!(
                "{shown} is not empty: choose another path with -o, or remove it"
            ))),
        };
    }
    let is_export = || is_export(path) || (matches!(to, Format::Collapsed) && is_collapsed(path));
    if path.is_file() && !is_export() && fs::metadata(path).is_ok_and(|file| file.len() > 0) {
        return Err(Failure::usage(format_args!(
            "{shown} exists and is not an export: choose another path with -o, or remove it"
        )));
    }
    Ok(())
}

/// The first bytes of every Chrome trace that gpuspy writes; see `export::chrome`.
pub(super) const CHROME_START: &[u8] = b"{\n\"schemaVersion\": 1,";

/// Returns whether a file starts like a Chrome trace, compressed or not.
pub(super) fn is_chrome_trace(path: &Path) -> bool {
    begins(path, |start| start.starts_with(CHROME_START))
}

/// Returns whether a file starts like a Perfetto trace of gpuspy's, compressed or not.
fn is_perfetto_trace(path: &Path) -> bool {
    let mark = perfetto::MARK.as_bytes();
    begins(path, |start| start.windows(mark.len()).any(|part| part == mark))
}

/// Asks `is` about the first 32 bytes of a file, and about what they are if it is uncompressed.
fn begins(path: &Path, is: impl Fn(&[u8]) -> bool) -> bool {
    let asked = |file: &mut dyn Read| {
        let mut start = Vec::new();
        file.take(32).read_to_end(&mut start).is_ok() && is(&start)
    };
    let open = || File::open(path);
    open().is_ok_and(|mut file| asked(&mut file)) || open().is_ok_and(|file| asked(&mut GzDecoder::new(file)))
}

/// Returns whether a file is an earlier export that is no collapsed stacks.
fn is_export(path: &Path) -> bool {
    let starts = |start: &[u8]| {
        let mut read = vec![0; start.len()];
        File::open(path).and_then(|mut file| file.read_exact(&mut read)).is_ok() && read == start
    };
    is_chrome_trace(path) || is_perfetto_trace(path) || starts(flame::SPEEDSCOPE_START)
}

/// Returns whether a file begins like collapsed stacks that gpuspy wrote: each line is a stack and a number, in the
/// order of the stacks. Lines of a log may look like that, too, but not like a stack of several frames.
fn is_collapsed(path: &Path) -> bool {
    let mut start = Vec::new();
    if File::open(path).and_then(|file| file.take(1 << 16).read_to_end(&mut start)).is_err() {
        return false;
    }
    let complete = start.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    let text = String::from_utf8_lossy(&start[..complete]);
    let stacks: Option<Vec<&str>> = text.lines().map(collapsed_stack).collect();
    stacks.is_some_and(|stacks| {
        let is_known = |stack: &&str| stack.contains(';') || stack.starts_with("(no stack)");
        stacks.iter().any(is_known) && stacks.is_sorted_by(|one, next| one < next)
    })
}

/// Returns the stack of a line of collapsed stacks.
fn collapsed_stack(line: &str) -> Option<&str> {
    let (stack, amount) = line.rsplit_once(' ')?;
    (!stack.is_empty() && amount.parse::<u64>().is_ok()).then_some(stack)
}

/// Returns whether a path is a directory, or is written like one.
fn is_directory(path: &Path) -> bool {
    path.is_dir() || path.as_os_str().as_encoded_bytes().ends_with(b"/")
}

/// Writes a trace as a Chrome trace.
pub(super) fn write_chrome(trace: &Path, file: &Path) -> Result<(), Failure> {
    let exporting = Exporting::new(Asked { is_chrome: true, is_whole: true, ..Asked::default() });
    let opened = open_all(trace, &Filter::default(), &exporting)?;
    write_file(file, |out| export_to(out, opened, Timeline::Chrome, &exporting)).map(|_| ())
}

/// A trace after the first pass over it.
struct Opened {
    reader: TraceReader,
    source: Source,
    /// How many records it has.
    records: u64,
}

impl Opened {
    fn bounds(&mut self) -> Bounds {
        let (_, status, clocks, filter) = self.source.contents();
        Bounds::of(&mut self.reader, status, clocks, filter)
    }
}

fn sources(opened: &mut [Opened]) -> Vec<&mut Source> {
    opened.iter_mut().map(|one| &mut one.source).collect()
}

/// Opens all traces that can be read; at least one.
fn open_all(path: &Path, filter: &Filter, exporting: &Exporting) -> Result<Vec<Opened>, Failure> {
    let (found, mut unread) = find(path, PATIENCE)?;
    let mut opened = Vec::new();
    for found in joined(found) {
        let readers = traces::open(&found.paths, &mut unread).into_iter();
        opened.extend(readers.map(|(path, reader)| open(&path, reader, exporting)));
    }
    lay_out(&mut sources(&mut opened), filter);
    let bounds: Vec<Bounds> = opened.iter_mut().map(Opened::bounds).collect();
    if !bounds.is_empty()
        && let Some((since, until)) = selected_time(path, filter, bounds.into_iter())?
    {
        lay_out(&mut sources(&mut opened), &Filter { since: Some(since), until, ..filter.clone() });
    }
    filter::check_ranks(path, filter, opened.iter().map(|one| Job::of(one.source.contents().0).rank))?;
    opened.retain(|one| filter.is_of_rank(Job::of(one.source.contents().0).rank));
    filter::check(
        path,
        filter,
        opened.iter().map(|one| {
            let (names, status, clocks, filter) = one.source.contents();
            Contents { names, status, clocks, filter }
        }),
    )?;
    let mut failures = unread.iter().map(|(path, error)| unreadable(path, error));
    if opened.is_empty()
        && let Some(failure) = failures.next_back()
    {
        return Err(failure);
    }
    failures.for_each(|failure| say(&failure.sentence));
    Ok(opened)
}

fn open(path: &Path, mut reader: TraceReader, exporting: &Exporting) -> Opened {
    let (names, status) = (reader.names().clone(), reader.status().cloned());
    let mut records = 0;
    let mut source = Source::of(names, status, |observe| {
        reader.each(|record| {
            records += 1;
            exporting.read();
            observe(record);
        });
    });
    source.resolve(resolve_callers);
    say_damage(path, &reader);
    say_unread(&source.contents().2.callers);
    Opened { reader, source, records }
}

fn export_to(
    out: &mut (dyn Write + Send),
    opened: Vec<Opened>,
    to: Timeline,
    exporting: &Exporting,
) -> io::Result<Summary> {
    exporting.file_of(opened.iter().map(|one| one.records).sum());
    let mut out = exporting.counted(out);
    match to {
        Timeline::Chrome => written_behind(&mut out, |out| write_as(Chrome::new(out), opened, exporting)),
        Timeline::Perfetto if exporting.asked.is_compressed => {
            written_behind(&mut out, |out| write_as(Perfetto::new(out), opened, exporting))
        }
        Timeline::Perfetto => {
            written_behind(&mut Packed::new(out), |out| write_as(Perfetto::new(out), opened, exporting))
        }
    }
}

fn write_as<S: Sink>(sink: S, opened: Vec<Opened>, exporting: &Exporting) -> io::Result<Summary> {
    let (mut readers, sources): (Vec<_>, Vec<_>) = opened.into_iter().map(|o| (o.reader, o.source)).unzip();
    let mut export = Export::begin(sink, &sources)?;
    if exporting.asked.without_steps {
        export = export.without_steps();
    }
    if exporting.asked.without_functions {
        export = export.without_functions();
    }
    for (index, (reader, source)) in readers.iter_mut().zip(&sources).enumerate() {
        let callers = &source.contents().2.callers;
        let records = reader.records().inspect(|_| exporting.read());
        export.process(index, source, callers.on_stacks(records))?;
    }
    export.finish().map(|(_, summary)| summary)
}

/// Returns the name of the file of each process, without its ending. Processes of several machines that have one pid have a file each.
fn file_names<'s>(sources: impl Iterator<Item = &'s Source>) -> Vec<String> {
    let mut machines: BTreeMap<u32, Vec<Machine>> = BTreeMap::new();
    let name = |source: &Source| match (source.job().rank, source.pid()) {
        (Some(rank), _) => format!("rank{rank}"),
        (None, None) => "unknown".to_owned(),
        (None, Some(pid)) => {
            let (known, machine) = (machines.entry(pid).or_default(), source.machine());
            let number = known.iter().position(|known| *known == machine).unwrap_or_else(|| {
                known.push(machine);
                known.len() - 1
            });
            let host = source.host().unwrap_or("machine").replace(|c: char| !c.is_ascii_alphanumeric(), "-");
            if number == 0 { format!("pid{pid}") } else { format!("pid{pid}-{host}-{}", number + 1) }
        }
    };
    sources.map(name).collect()
}

/// Writes a file for each rank, as tools that compare ranks need them. Processes of one rank (a worker that forked) share it.
fn write_directory(
    directory: &Path,
    opened: Vec<Opened>,
    to: Timeline,
    exporting: &Exporting,
) -> Result<Summary, Failure> {
    fs::create_dir_all(directory).map_err(|e| cannot_write(directory.display(), &e))?;
    let (mut files, mut ranks) = (BTreeMap::<String, Vec<Opened>>::new(), 0);
    let names = file_names(opened.iter().map(|one| &one.source));
    for (one, name) in opened.into_iter().zip(names) {
        ranks += usize::from(one.source.job().rank.is_some() && !files.contains_key(&name));
        files.entry(name).or_default().push(one);
    }
    if to == Timeline::Chrome && ranks > 0 && ranks < files.len() {
        say("some processes have no rank; HTA reads their files as rank 0, so give it only the others");
    }
    let (mut all, mut written) = (Summary::default(), Vec::new());
    for (name, mut processes) in files {
        processes.sort_by_key(|one| one.source.began());
        let name = format!("{name}.{}.gz", to.names().1);
        all.add(&write_file(&directory.join(&name), |out| export_to(out, processes, to, exporting))?);
        written.push(name);
    }
    say(format_args!("wrote {} into {}", written.join(", "), directory.display()));
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::record::{Names, Status};
    use gpuspy_wire::record::{Fact, Namespace};

    #[test]
    fn processes_of_two_machines_with_one_pid_have_a_file_each() {
        let source = |pid, boot, host: &str| {
            let names = Names([((Namespace::Fact, Fact::Host as u32), host.to_owned())].into());
            let status = Status { pid, boot: Some(boot), ..Status::default() };
            Source::of(names, Some(status), |_| ())
        };
        let sources = [source(42, 1, "a"), source(42, 2, "b/c"), source(43, 2, "b/c"), source(42, 1, "a")];
        assert_eq!(file_names(sources.iter()), ["pid42", "pid42-b-c-2", "pid43", "pid42"]);
    }

    /// Any file whose first line ended in a number was overwritten.
    #[test]
    fn logs_are_not_taken_for_collapsed_stacks() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        let is_replaced = |text: &str, to| {
            fs::write(&file, text).unwrap();
            replaceable(&file, to).is_ok()
        };
        let logs = [
            "Epoch 1\nloss 0.5\n",
            "2026-11-28 run 7\n",
            "100 200\n",
            "a;b 1",
            "a;b 2\na;b 1\n",
            "a;b 1\nloss;acc 0.5\n",
            "(none) 5\n",
            "a;b 1\n\n",
        ];
        assert_eq!(logs.map(|log| is_replaced(log, Format::Collapsed)), [false; 8]);
        let long: Vec<String> = (10_000..20_000).map(|n| format!("f;{n} 1\n")).collect();
        let long = long.concat();
        let stacks =
            ["", "(no stack) 5\n", "main (a.py:1) 7\nmain (a.py:1);relu 5\n", "…;ü 1\n", long.as_str()];
        assert_eq!(stacks.map(|stack| is_replaced(stack, Format::Collapsed)), [true; 5]);
        assert!(!is_replaced(stacks[1], Format::Chrome), "others write such files, too");
    }
}
