//! Opens the traces of a run: a file, or those of a directory.

use super::filter::{self, Contents};
use super::{Failure, UNREADABLE, say};
use crate::collect;
use crate::hash::{HashMap, HashSet};
use crate::model::callers::Callers;
use crate::model::clocks::Clocks;
use crate::model::filter::Filter;
use crate::model::job::Job;
use crate::model::lost::Lost;
use crate::model::run::{self, Place, ProcessId, Surveyed};
use crate::model::steps::Span;
use crate::model::survey::Survey;
use crate::report;
use crate::symbols::{self, Process};
use crate::trace::format::MAGIC;
use crate::trace::record::{Ending, Names, Status};
use crate::trace::{TraceError, TraceReader, wait_until_complete};
use crate::units::plural;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

/// How long a report waits for a trace that is still being written. A collector needs a moment after its program ends.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// A trace after the first pass over it, or those of successive windows of a process as one.
pub(super) struct Opened {
    /// Where it is; of several, the first.
    pub path: PathBuf,
    pub reader: TraceReader,
    pub names: Names,
    pub status: Option<Status>,
    pub clocks: Clocks,
}

impl Opened {
    pub(super) fn surveyed(&self) -> Surveyed<'_> {
        Surveyed { names: &self.names, status: self.status.as_ref(), clocks: &self.clocks }
    }

    pub(super) fn contents<'a>(&'a self, filter: &'a Filter) -> Contents<'a> {
        Contents { names: &self.names, status: self.status.as_ref(), clocks: &self.clocks, filter }
    }

    pub(super) fn rank(&self) -> Option<u32> {
        Job::of(&self.names).rank
    }

    pub(super) fn bounds(&mut self, filter: &Filter) -> Bounds {
        Bounds::of(&mut self.reader, self.status.as_ref(), &self.clocks, filter)
    }
}

/// When what a filter may ask for was in a process.
pub(super) struct Bounds {
    /// Host ns from which the filter's times count.
    origin: u64,
    /// Host ns at which the collection ended.
    ended: u64,
    /// When the steps began that the filter selects, if it selects steps.
    steps: Option<Span>,
}

impl Bounds {
    /// Finds out so of a trace that was read once.
    pub(super) fn of(
        reader: &mut TraceReader,
        status: Option<&Status>,
        clocks: &Clocks,
        filter: &Filter,
    ) -> Bounds {
        let steps = filter.steps.map(|steps| Span::of(&clocks.steps, reader.records(), steps));
        let origin = filter.origin.unwrap_or(clocks.began(status));
        Bounds { origin, ended: clocks.ended(status), steps }
    }
}

/// At least one trace that was read once, and those that could not be read.
pub(super) struct AllOpened {
    pub traces: Vec<Opened>,
    pub unread: Unread,
}

/// A trace, or those of successive windows of a process, which are read as one.
#[derive(Clone)]
pub(super) struct Found {
    pub paths: Vec<PathBuf>,
    /// Where it belongs; of several, the first.
    pub place: Place,
}

/// Traces that could not be read, and why.
pub(super) type Unread = Vec<(PathBuf, TraceError)>;

/// Looks into a trace, or into all traces of a directory, for where they belong; at least one can be read. Of copies of a trace, one
/// is read.
pub(super) fn find(path: &Path, patience: Duration) -> Result<(Vec<Found>, Unread), Failure> {
    look_into(traces_of(path)?, path, patience)
}

/// The traces that are being written.
#[derive(Default)]
pub(super) struct Live {
    /// Those that can be read.
    pub readable: Vec<Found>,
    /// Whether there are others, which are only begun.
    pub is_begun: bool,
}

/// Returns those of a path's traces that are being written.
pub(super) fn live(path: &Path) -> Result<Live, Failure> {
    let mut live = Live::default();
    // A directory without a trace is one in which nothing is written.
    for trace in traces_of(path).unwrap_or_default() {
        let is_written = wait_until_complete(&trace, Duration::ZERO).map(|is_complete| !is_complete);
        match (is_written, TraceReader::open(&trace)) {
            (Ok(true), Ok(reader)) => {
                let place = Place::of(reader.names(), reader.status());
                live.readable.push(Found { paths: vec![trace], place });
            }
            (Ok(true), Err(_)) => live.is_begun = true,
            (Err(error), _) if trace == path => return Err(unreadable(path, &error)),
            // It is complete, or has gone meanwhile.
            _ => {}
        }
    }
    Ok(live)
}

/// Does the same with the traces that were there a moment ago.
fn look_into(traces: Vec<PathBuf>, path: &Path, patience: Duration) -> Result<(Vec<Found>, Unread), Failure> {
    let deadline = Instant::now() + patience;
    let (mut found, mut unread) = (Vec::new(), Vec::new());
    for trace in traces {
        match wait(&trace, deadline).and_then(|()| TraceReader::open(&trace)) {
            Ok(reader) => {
                let place = Place::of(reader.names(), reader.status());
                found.push(Found { paths: vec![trace], place });
            }
            Err(TraceError::NotFound) if trace != path => say_gone(&trace),
            Err(error) => unread.push((trace, error)),
        }
    }
    match unread.last() {
        Some((path, error)) if found.is_empty() => Err(unreadable(path, error)),
        None if found.is_empty() => Err(no_trace(path)),
        _ => Ok((without_copies(found), unread)),
    }
}

/// Says that a trace of a directory is no more: it was there when the directory was read.
fn say_gone(trace: &Path) {
    let shown = trace.display();
    say(format_args!(
        "{shown} is left out: it has gone meanwhile, as `collect` turns traces into tables (--to parquet) or removes old ones (--keep)"
    ));
}

/// Leaves out copies of a trace, which are about the same time of the same process. A copy that was made while the program ran has
/// less of it: the one with most bytes stays.
fn without_copies(mut found: Vec<Found>) -> Vec<Found> {
    let mut most: HashMap<Identity<'_>, (u64, &Path)> = HashMap::default();
    let traces =
        || found.iter().filter_map(|one| Some((identity(&one.place)?, one.paths.first()?.as_path())));
    for (identity, path) in traces() {
        let bytes = fs::metadata(path).map_or(0, |file| file.len());
        let of = most.entry(identity).or_insert((bytes, path));
        if bytes > of.0 {
            *of = (bytes, path);
        }
    }
    let mut copies: HashSet<PathBuf> = HashSet::default();
    for (identity, path) in traces() {
        let kept = most[&identity].1;
        if path != kept {
            say(format_args!("{} is left out: it is a copy of {}", path.display(), kept.display()));
            copies.insert(path.to_owned());
        }
    }
    found.retain(|one| !one.paths.iter().any(|path| copies.contains(path)));
    found
}

/// A process, when the collection that a trace is about began in it, and the number of its window.
type Identity<'a> = (&'a ProcessId, (u64, u32), Option<u64>);

/// Returns what only copies of a trace have in common; `None` if the trace does not say which process it is about.
fn identity(place: &Place) -> Option<Identity<'_>> {
    Some((place.process.as_ref()?, place.began?, place.number))
}

/// Puts the traces of successive windows of a process together.
pub(super) fn joined(found: Vec<Found>) -> Vec<Found> {
    let places: Vec<Place> = found.iter().map(|one| one.place.clone()).collect();
    let paths = |list: &[usize]| list.iter().flat_map(|at| found[*at].paths.clone()).collect();
    let lists = run::successive(&places).into_iter();
    lists.map(|list| Found { paths: paths(&list), place: places[list[0]].clone() }).collect()
}

/// Opens a trace, or those of successive windows as one; where one of these cannot be opened, the next one begins another.
pub(super) fn open(paths: &[PathBuf], unread: &mut Unread) -> Vec<(PathBuf, TraceReader)> {
    let (mut readers, mut is_begun) = (Vec::<(PathBuf, TraceReader)>::new(), false);
    for path in paths {
        let opened = match readers.last_mut().filter(|_| is_begun) {
            Some((_, reader)) => reader.continue_with(path),
            None => TraceReader::open(path).map(|reader| readers.push((path.clone(), reader))),
        };
        is_begun = opened.is_ok();
        // It could be read a moment ago.
        if let Err(error) = opened
            && !unread.iter().any(|(unread, _)| unread == path)
        {
            unread.push((path.clone(), error));
        }
    }
    readers
}

/// Opens a trace, or all traces of a directory, and reads each once.
pub(super) fn open_all(path: &Path, patience: Duration) -> Result<AllOpened, Failure> {
    let (found, mut unread) = find(path, patience)?;
    let mut traces = Vec::new();
    for found in joined(found) {
        traces.extend(open(&found.paths, &mut unread).into_iter().map(|(path, reader)| read(path, reader)));
    }
    match unread.last() {
        Some((path, error)) if traces.is_empty() => Err(unreadable(path, error)),
        None if traces.is_empty() => Err(no_trace(path)),
        _ => Ok(AllOpened { traces, unread }),
    }
}

/// Waits until a trace is complete, or says that it is not.
fn wait(path: &Path, deadline: Instant) -> Result<(), TraceError> {
    if !wait_until_complete(path, deadline.saturating_duration_since(Instant::now()))? {
        say(format_args!("{} is still being written: this is what it contains so far", path.display()));
    }
    Ok(())
}

/// Reads a trace once.
pub(super) fn read(path: PathBuf, mut reader: TraceReader) -> Opened {
    let mut names = reader.names().clone();
    let mut survey = Survey::of_steps(&names);
    reader.each(|record| survey.observe(record));
    let mut clocks = survey.finish();
    clocks.lost = Lost::of(reader.lost_time());
    let status = reader.status().cloned();
    resolve_callers(&mut clocks.callers, &mut names, status.as_ref());
    Opened { path, reader, names, status, clocks }
}

/// Finds out which lines of the program's source the calls come from, in its files as they are now.
pub(super) fn resolve_callers(callers: &mut Callers, names: &mut Names, status: Option<&Status>) {
    let process = status.map(process_of);
    callers.resolve(names, |places| symbols::resolve(places, process.as_ref()));
}

/// Returns when the process ran whose files these are: a trace of a window is about a part of that.
fn process_of(status: &Status) -> Process {
    let at = |ns: u64| SystemTime::UNIX_EPOCH + Duration::from_nanos(ns);
    let ran = status.ended.saturating_sub(status.began);
    let ended = at(status.began_realtime.saturating_add(ran));
    let may_run_on = matches!(status.ending, Ending::Running | Ending::Detached);
    let runs_on = may_run_on && collect::process::is_there(status.pid, status.start_time, status.boot);
    Process {
        pid: status.pid,
        began: at(status.session_realtime.unwrap_or(status.began_realtime)),
        ended: if runs_on { ended.max(SystemTime::now()) } else { ended },
    }
}

/// Returns the filter of each trace, which has the numbers of its streams. Traces of ranks that are not selected are
/// dropped. `path` is what the user named.
///
/// # Errors
/// The filter selects something that no trace contains.
pub(super) fn filters(
    path: &Path,
    traces: &mut Vec<Opened>,
    filter: &Filter,
) -> Result<Vec<Filter>, Failure> {
    // Times count from the start of the run, and streams have their numbers in the run, whichever ranks are selected.
    let mut filters = run::filters(&traces.iter().map(Opened::surveyed).collect::<Vec<_>>(), filter);
    filter::check_ranks(path, filter, traces.iter().map(|trace| trace.rank()))?;
    let is_selected = |trace: &Opened| filter.is_of_rank(trace.rank());
    let mut selected = traces.iter().map(is_selected).collect::<Vec<_>>().into_iter();
    filters.retain(|_| selected.next().unwrap_or(true));
    traces.retain(is_selected);
    let bounds =
        traces.iter_mut().zip(&filters).map(|(trace, filter)| trace.bounds(filter)).collect::<Vec<_>>();
    if let Some((since, until)) = selected_time(path, filter, bounds.into_iter())? {
        for filter in &mut filters {
            (filter.since, filter.until) = (Some(since), until);
        }
    }
    let contents = traces.iter().zip(&filters).map(|(trace, filter)| trace.contents(filter));
    filter::check(path, filter, contents)?;
    Ok(filters)
}

/// Returns the host time that a filter selects by what the run contains, ns since the start of the run; `None` if it selects none so.
/// The time of steps is from the start of the first to that of the one after the last, and of several processes, that of the steps
/// of the one with most steps. The last time of a run is that before the latest end.
///
/// # Errors
/// No process has these steps.
pub(super) fn selected_time(
    path: &Path,
    filter: &Filter,
    processes: impl Iterator<Item = Bounds>,
) -> Result<Option<(u64, Option<u64>)>, Failure> {
    if let Some(last) = filter.last {
        let ended = processes.map(|of| of.ended.saturating_sub(of.origin)).max().unwrap_or(0);
        return Ok(Some((ended.saturating_sub(last), None)));
    }
    let Some(steps) = filter.steps else { return Ok(None) };
    let spans = processes.filter_map(|of| Some((of.steps?, of.origin)));
    time_of_steps(path, steps, spans).map(Some)
}

fn time_of_steps(
    path: &Path,
    steps: (u64, u64),
    processes: impl Iterator<Item = (Span, u64)>,
) -> Result<(u64, Option<u64>), Failure> {
    let most = processes.max_by_key(|(span, _)| span.count);
    if let Some((Span { count, from: Some(from), to }, origin)) = most
        && steps.1 < count
    {
        return Ok((from.saturating_sub(origin), to.map(|to| to.saturating_sub(origin))));
    }
    let known = match most.map_or(0, |(span, _)| span.count) {
        0 => "no steps were found in it".to_owned(),
        1 => "it has only step 0".to_owned(),
        count => format!("it has {count} steps, 0 to {}", count - 1),
    };
    Err(Failure::usage(format_args!("--step {} is not in {}; {known}", steps.1, path.display())))
}

pub(super) fn unreadable(path: &Path, error: &TraceError) -> Failure {
    Failure { code: UNREADABLE, sentence: format!("cannot read {}: {error}", path.display()) }
}

/// Says where what is missing of a trace is: in this file, or of several windows in which ones.
pub(super) fn damaged(path: &Path, reader: &TraceReader) -> String {
    let mut files = reader.damaged();
    let first = files.next().unwrap_or(path).display();
    match files.count() as u64 {
        0 => first.to_string(),
        more => format!("{first} with {}", plural(more, "later window", "later windows")),
    }
}

/// Prints what could not be read of a trace.
pub(super) fn say_damage(path: &Path, reader: &TraceReader) {
    for (what, how) in report::damage::described(&reader.damage().into()) {
        say(format_args!("{} is {what}: {how}", damaged(path, reader)));
    }
}

/// Prints of which of the program's files nothing is believed, so that calls have no line.
pub(super) fn say_unread(callers: &Callers) {
    callers.notes().for_each(|note| say(&note));
}

/// Returns the trace itself, or the traces of a directory in the order of their names; at least one. A directory in it that is
/// called like a trace has those of one command with several processes (`run -o rank0.gspy`), which are among them. Of links to one
/// file, one is.
pub(super) fn traces_of(path: &Path) -> Result<Vec<PathBuf>, Failure> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut traces = Vec::new();
    for found in named_like_traces(path)? {
        if found.is_dir() {
            traces.extend(named_like_traces(&found)?.into_iter().filter(|path| path.is_file()));
        } else if found.is_file() {
            traces.push(found);
        }
    }
    if traces.is_empty() { Err(no_trace(path)) } else { Ok(without_links(traces)) }
}

fn no_trace(path: &Path) -> Failure {
    let sentence = format!(
        "no trace (*.gspy) in {}: name a trace, or the directory that the traces are in",
        path.display()
    );
    Failure { code: UNREADABLE, sentence }
}

/// Leaves out paths of files that other paths are of, too: symbolic links rather than the files themselves.
fn without_links(traces: Vec<PathBuf>) -> Vec<PathBuf> {
    let is_link = |path: &PathBuf| path.is_symlink();
    let (links, files): (Vec<PathBuf>, Vec<PathBuf>) = traces.into_iter().partition(is_link);
    let mut known: HashSet<(u64, u64)> = HashSet::default();
    let is_new =
        |path: &PathBuf| fs::metadata(path).map_or(true, |file| known.insert((file.dev(), file.ino())));
    let mut once: Vec<PathBuf> = files.into_iter().chain(links).filter(is_new).collect();
    once.sort();
    once
}

/// Returns what is called `*.gspy` in a directory, in the order of the names.
pub(super) fn named_like_traces(directory: &Path) -> Result<Vec<PathBuf>, Failure> {
    let entries = fs::read_dir(directory).map_err(|e| unreadable(directory, &e.into()))?;
    let paths = entries.flatten().map(|entry| entry.path());
    let mut named: Vec<PathBuf> =
        paths.filter(|path| path.extension().is_some_and(|e| e == "gspy")).collect();
    named.sort();
    Ok(named)
}

/// Whether it is a trace with something in it that no process is writing.
pub(super) fn is_left(path: &Path) -> bool {
    let has_more = |bytes: u64| bytes > MAGIC.len() as u64;
    let has_bytes = fs::metadata(path).is_ok_and(|found| found.is_file() && has_more(found.len()));
    has_bytes && wait_until_complete(path, Duration::ZERO).unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A report of a folder in which a collector turned windows into tables said that the window before was unreadable.
    #[test]
    fn a_trace_that_goes_while_another_one_is_waited_for_is_not_called_unreadable() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/former");
        let mut traces = traces_of(&folder).unwrap();
        traces.truncate(1);
        let (stays, gone) = (traces.clone(), folder.join("gone.gspy"));
        traces.push(gone.clone());
        let (found, unread) = look_into(traces, &folder, Duration::ZERO).unwrap();
        let found: Vec<_> = found.into_iter().flat_map(|found| found.paths).collect();
        assert_eq!((found, unread.len()), (stays, 0));
        let refused =
            |path: &Path| look_into(vec![gone.clone()], path, Duration::ZERO).err().unwrap().sentence;
        assert!(refused(&folder).starts_with("no trace (*.gspy) in "), "{}", refused(&folder));
        assert!(refused(&gone).ends_with("No such file or directory"), "the user has named it");
    }

    /// What it had written before a window, or after it, was not believed to be its own.
    #[test]
    fn the_process_of_a_window_ran_before_it_and_until_now_if_it_still_runs() {
        let stat = fs::read_to_string("/proc/self/stat").unwrap();
        let start_time = stat.rsplit(')').next().unwrap().split_whitespace().nth(19).unwrap();
        let window = Status {
            pid: std::process::id(),
            start_time: start_time.parse().unwrap(),
            boot: collect::process::boot(),
            ending: Ending::Detached,
            began: 100,
            began_realtime: 5_000,
            session_realtime: Some(3_000),
            ended: 1_100,
            ..Status::default()
        };
        let at = |ns| SystemTime::UNIX_EPOCH + Duration::from_nanos(ns);
        let now = SystemTime::now();
        let Process { began, ended, .. } = process_of(&window);
        assert!(began == at(3_000) && ended >= now, "{began:?} to {ended:?}");
        for over in [
            Status { start_time: window.start_time + 1, ..window.clone() },
            Status { boot: Some(1), ..window.clone() },
            Status { ending: Ending::Replaced, ..window.clone() },
        ] {
            let Process { began, ended, .. } = process_of(&over);
            assert_eq!((began, ended), (at(3_000), at(6_000)), "{over:?}");
        }
        let whole = Status { session_realtime: None, ..window };
        assert_eq!(process_of(&whole).began, at(5_000));
    }

    /// Such a trace was another process with the same pid, whose launches counted twice.
    #[test]
    fn a_link_to_a_trace_beside_it_is_no_other_trace() {
        let job = tempfile::tempdir().unwrap();
        let at = |name: &str| job.path().join(name);
        fs::create_dir(at("node1.gspy")).unwrap();
        fs::write(at("b.gspy"), "").unwrap();
        fs::write(at("node1.gspy/c.gspy"), "").unwrap();
        fs::write(at("elsewhere"), "").unwrap();
        let link = |to: &str, name: &str| std::os::unix::fs::symlink(at(to), at(name)).unwrap();
        link("b.gspy", "a.gspy");
        link("b.gspy", "z.gspy");
        link("node1.gspy", "node2.gspy");
        link("elsewhere", "linked.gspy");
        fs::hard_link(at("b.gspy"), at("d.gspy")).unwrap();
        let found = traces_of(job.path()).map_err(|failure| failure.sentence).unwrap();
        assert_eq!(found, ["b.gspy", "linked.gspy", "node1.gspy/c.gspy"].map(at));
    }

    #[test]
    fn a_rank_of_several_processes_is_among_the_traces_of_its_job() {
        let job = tempfile::tempdir().unwrap();
        let at = |name: &str| job.path().join(name);
        for directory in ["rank1.gspy", "notes", "rank2.gspy/deeper.gspy/none"] {
            fs::create_dir_all(at(directory)).unwrap();
        }
        let traces = ["rank0.gspy", "rank1.gspy/python-7.gspy", "rank1.gspy/python-8.gspy", "rank3.gspy"];
        let others =
            ["rank0.json", "rank1.gspy/notes.txt", "notes/old.gspy", "rank2.gspy/deeper.gspy/a.gspy"];
        for file in traces.iter().chain(&others) {
            fs::write(at(file), "").unwrap();
        }
        let sentence = |path: &Path| traces_of(path).map_err(|failure| failure.sentence);
        assert_eq!(sentence(job.path()), Ok(traces.map(at).to_vec()));
        assert_eq!(sentence(&at("rank0.gspy")), Ok(vec![at("rank0.gspy")]));
        assert!(
            sentence(&at("rank2.gspy/deeper.gspy/none")).unwrap_err().starts_with("no trace (*.gspy) in ")
        );
    }
}
