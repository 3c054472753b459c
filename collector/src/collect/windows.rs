//! How does a collection that lasts for weeks become traces that can be read, and removed, one by one? By windows of time: each
//! has a trace of its own, which says what it needs of the time before ([`Carry`]).
//!
//! A window is a capture range of its trace, so that what happened once counts in one window: a call, and what it launched,
//! where the call began. What crosses the edge between two windows is in both traces:
//!
//! - Records of calls that began before the edge, and times of operations that were launched before it, go to the earlier trace
//!   for [`GRACE`] after it. A call that lasts longer counts in the later window, from the edge on.
//! - An operation that is not known to be over at the edge is in the later trace, too, whenever it was launched. It fills the GPU's
//!   time there; until its time comes, how much is undecided.

use super::carry::{CAPTURE_RANGE, Carry, placed};
use super::finished::Finished;
use super::output::Traces;
use super::{Error, Result};
use crate::hash::{HashMap, HashSet};
use crate::trace::record::{Body, CARRIED_BEFORE, Ending, GpuTime, Record, Status, window_text};
use crate::trace::{Missing, TraceWriter};
use crate::why::said;
use crossbeam_channel::Sender;
use gpuspy_wire::record::{Fact, LossCause, Namespace};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How long a trace takes late records after its window: the drain has them after some 10 ms, and operations that wait in a
/// full launch queue are done by then.
const GRACE: Duration = Duration::from_secs(2);
/// Limit on the GPU times whose operations have not come: more than come in 2 s before them.
const MOST_EARLY: usize = 1 << 16;
/// Limit on the kernels whose launches are counted: more than a process has. Launches of further ones are not.
const MOST_KERNELS: usize = 1 << 16;

/// A stretch of real time. All begin at whole multiples of their length since 1970, so that those of all processes and
/// machines are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Its length.
    pub length: Duration,
    /// Its number since 1970.
    pub number: u64,
}

impl Window {
    /// The present one.
    pub fn now(length: Duration) -> Window {
        Window::at(since_1970().as_nanos() as u64, length)
    }

    /// The one of a time, ns since 1970.
    fn at(ns: u64, length: Duration) -> Window {
        Window { length, number: (u128::from(ns) / length.as_nanos().max(1)) as u64 }
    }

    /// When it began: s since 1970.
    pub fn began(&self) -> u64 {
        self.length.as_secs() * self.number
    }

    /// When it ends: s since 1970.
    pub fn ended(&self) -> u64 {
        self.began().saturating_add(self.length.as_secs())
    }
}

/// The time since 1970, by the system's clock.
pub(super) fn since_1970() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// How a collection is divided into windows.
#[derive(Clone, Debug)]
pub struct Division {
    /// The length of each: whole seconds.
    pub length: Duration,
    /// Gets the traces that are complete.
    pub complete: Sender<Complete>,
}

/// A trace of a window that is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Complete {
    /// The window.
    pub window: Window,
    /// The trace.
    pub path: PathBuf,
}

/// What the traces of a session lack because it could not be written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Incomplete {
    /// The first trace that lacks something.
    pub path: PathBuf,
    /// The number of later traces that do.
    pub later: u64,
    /// The number of records that they lack, as far as it is known.
    pub records: u64,
    /// Why.
    pub why: String,
}

/// What has become known of the traces that are complete.
#[derive(Debug, Default)]
struct Lacking {
    incomplete: Option<Incomplete>,
    records: u64,
}

impl Lacking {
    /// Takes a trace of which nothing is written any more.
    fn take(&mut self, writer: &TraceWriter, ended: Option<&io::Error>, path: &Path) {
        let Missing { something, records } = writer.missing();
        self.records += records;
        if !something && ended.is_none() {
            return;
        }
        match &mut self.incomplete {
            Some(incomplete) => incomplete.later += 1,
            none => {
                let error = writer.write_error();
                let why = error.as_ref().or(ended).map_or_else(String::new, said);
                *none = Some(Incomplete { path: path.to_owned(), why, ..Incomplete::default() });
            }
        }
        if let Some(incomplete) = &mut self.incomplete {
            incomplete.records = self.records;
        }
    }
}

/// Where the records of a session go: into a trace, or into one for each window.
pub(super) struct Recording<'s> {
    traces: &'s Mutex<Traces>,
    lacking: Lacking,
    /// Whether it was reported of the latest trace that it cannot be written.
    is_reported: bool,
    /// The number of the trace among the [`Traces`].
    number: usize,
    writer: TraceWriter,
    windows: Option<Windows<'s>>,
}

impl<'s> Recording<'s> {
    /// Creates the first trace of a process with this status.
    pub fn create(
        traces: &'s Mutex<Traces>,
        program: &'s str,
        status: &Status,
        division: Option<&'s Division>,
    ) -> Result<Recording<'s>> {
        let Some(division) = division else {
            let (number, writer) = traces.lock().create(program, status)?;
            return Ok(Recording::of(traces, number, writer, None));
        };
        // The first records may be from an earlier window than the present one, as on a busy machine.
        let first = Window::at(status.began_realtime, division.length);
        let (number, mut writer) = traces.lock().create_in(first, program, status)?;
        writer.keep_late();
        let windows = Windows {
            traces,
            program,
            division,
            carry: Carry::default(),
            window: Window::now(division.length),
            latest: first,
            count: 0,
            began: status.began,
            first: Status {
                began: status.began,
                began_realtime: status.began_realtime,
                session_realtime: status.session_realtime,
                ..Status::default()
            },
            before: None,
            finished: Finished::default(),
            early: HashMap::default(),
            launched: Launched::default(),
            undivided: None,
            owed: Owed::default(),
        };
        let mut recording = Recording::of(traces, number, writer, Some(windows));
        recording.begin(Vec::new()).map_err(|e| Error::io("cannot write the trace", e))?;
        Ok(recording)
    }

    fn of(
        traces: &'s Mutex<Traces>,
        number: usize,
        writer: TraceWriter,
        windows: Option<Windows<'s>>,
    ) -> Recording<'s> {
        Recording { traces, lacking: Lacking::default(), is_reported: false, number, writer, windows }
    }

    /// Where the latest trace is.
    fn path(&self) -> PathBuf {
        self.traces.lock().path(self.number).to_owned()
    }

    /// The number of records that could not be written and are given up.
    pub fn missing(&self) -> u64 {
        let before = self.before().map_or(0, |before| before.writer.missing().records);
        self.lacking.records + before + self.writer.missing().records
    }

    /// Returns the traces that could not be written at some time, each once, and why.
    pub fn troubled(&mut self) -> Vec<(PathBuf, io::Error)> {
        let before = self.windows.as_mut().and_then(|windows| windows.before.as_mut());
        let earlier = before.filter(|before| !before.is_reported).and_then(|before| {
            let error = before.writer.write_error()?;
            before.is_reported = true;
            Some((before.complete.path.clone(), error))
        });
        let latest = self.writer.write_error().filter(|_| !std::mem::replace(&mut self.is_reported, true));
        earlier.into_iter().chain(latest.map(|error| (self.path(), error))).collect()
    }

    /// The number of the latest trace.
    pub fn number(&self) -> usize {
        self.number
    }

    /// The number of records that wait for their GPU times.
    pub fn pending(&self) -> usize {
        self.writer.pending() + self.before().map_or(0, |before| before.writer.pending())
    }

    /// The bytes of the latest trace so far.
    pub fn bytes(&self) -> u64 {
        self.writer.bytes()
    }

    /// Host ns at which the window began; 0 for a trace that is not divided.
    pub fn began(&self) -> u64 {
        self.windows.as_ref().map_or(0, |windows| windows.began)
    }

    fn before(&self) -> Option<&Before> {
        self.windows.as_ref()?.before.as_ref()
    }

    /// Adds a name.
    pub fn name(&mut self, namespace: Namespace, id: u32, text: &str) -> io::Result<()> {
        let named = self.writer.name(namespace, id, text);
        match &mut self.windows {
            Some(windows) => named.and(windows.name(&mut self.writer, namespace, id, text)),
            None => named,
        }
    }

    /// Adds a record.
    pub fn push(&mut self, record: Record) -> io::Result<()> {
        match &mut self.windows {
            Some(windows) => windows.push(&mut self.writer, record),
            None => self.writer.push(record),
        }
    }

    /// Adds a GPU time.
    pub fn gpu_time(&mut self, correlation: u64, time: GpuTime) -> io::Result<()> {
        match &mut self.windows {
            Some(windows) => windows.gpu_time(&mut self.writer, correlation, time),
            None => self.writer.gpu_time(correlation, time),
        }
    }

    /// Takes the latest status of the process.
    pub fn status(&mut self, status: &Status) {
        match &self.windows {
            Some(windows) => self.writer.status(&windows.part_of(status)),
            None => self.writer.status(status),
        }
    }

    /// Writes what is due, and completes the trace of the window before, if that is due.
    pub fn flush_if_due(&mut self, now: Instant) -> io::Result<()> {
        let writer = &mut self.writer;
        let lacking = &mut self.lacking;
        let earlier =
            self.windows.as_mut().map_or(Ok(()), |windows| windows.flush_if_due(writer, lacking, now));
        self.writer.flush_if_due(now).and(earlier)
    }

    /// Writes everything.
    pub fn flush(&mut self) -> io::Result<()> {
        let earlier = self.windows.as_mut().and_then(|windows| windows.before.as_mut());
        let earlier = earlier.map_or(Ok(()), |before| before.writer.flush());
        self.writer.flush().and(earlier)
    }

    /// Whether the window is over: it is another one now, an earlier one if the system's clock was set back.
    pub fn is_over(&self) -> bool {
        let over =
            |windows: &Windows<'_>| Window::now(windows.division.length).number != windows.window.number;
        self.windows.as_ref().is_some_and(over)
    }

    /// The numbers of the texts of open NVTX ranges.
    pub fn texts(&self) -> impl Iterator<Item = u32> {
        self.windows.iter().flat_map(|windows| windows.carry.texts())
    }

    /// Forgets a thread that has ended: the traces of later windows do not have it.
    pub fn thread_ended(&mut self, thread: u32) {
        if let Some(windows) = &mut self.windows {
            windows.carry.thread_ended(thread);
        }
    }

    /// Forgets the texts of NVTX ranges except those with these numbers: the trace of the next window has no others.
    pub fn keep_texts(&mut self, kept: &HashSet<u32>) {
        if let Some(windows) = &mut self.windows {
            windows.carry.keep_texts(kept);
        }
    }

    /// Begins the next window at host ns `now`. If its trace cannot be created, the present one goes on, and
    /// [`undivided`](Self::undivided) says why.
    pub fn turn(&mut self, now: u64, status: &Status) -> io::Result<()> {
        let Some(windows) = &mut self.windows else { return Ok(()) };
        let finished = windows.finish_before(&mut self.writer, &mut self.lacking);
        let (part, first) = windows.divide(now, status);
        windows.window = Window::at(first.began_realtime, windows.division.length);
        let fresh = Status { ended: now, ..since(&first, &first) };
        let mut traces = windows.traces.lock();
        let path = traces.path(self.number).to_owned();
        let mut next = match traces.next(self.number, windows.window, windows.program, &fresh) {
            Ok(next) => next,
            Err(why) => {
                windows.undivided.get_or_insert(why);
                return finished;
            }
        };
        drop(traces);
        next.keep_late();
        let mut earlier = std::mem::replace(&mut self.writer, next);
        let unfinished = windows.unfinished(&earlier);
        let closed = earlier.push(edge(now, false));
        windows.before = Some(Before {
            writer: earlier,
            began: windows.began,
            status: part,
            complete: Complete { window: windows.latest, path },
            until: Instant::now() + GRACE.min(windows.division.length / 2),
            is_reported: std::mem::take(&mut self.is_reported),
        });
        windows.owed.turn(&first);
        windows.latest = windows.window;
        (windows.began, windows.first, windows.count) = (now, first, windows.count + 1);
        windows.launched.turn();
        let begun = self.begin(unfinished);
        finished.and(closed).and(begun)
    }

    /// Why a window has no trace of its own, if there is one: the first reason.
    pub fn undivided(&self) -> Option<String> {
        self.windows.as_ref()?.undivided.as_ref().map(ToString::to_string)
    }

    /// Writes what the trace of a window begins with, of it these operations that are not known to be over.
    fn begin(&mut self, unfinished: Vec<Record>) -> io::Result<()> {
        let Some(windows) = &mut self.windows else { return Ok(()) };
        let writer = &mut self.writer;
        for (namespace, id, text) in windows.carry.names() {
            writer.name(namespace, id, text)?;
        }
        if !windows.carry.has_capture_ranges() {
            let seconds = windows.division.length.as_secs();
            writer.name(CAPTURE_RANGE.0, CAPTURE_RANGE.1, &window_text(seconds))?;
        }
        writer.name(Namespace::Fact, Fact::Window as u32, &windows.count.to_string())?;
        for record in windows.carry.records(placed_before(windows.began)) {
            writer.push(record)?;
        }
        for record in unfinished {
            writer.push(crossing(record, windows.began))?;
        }
        if windows.carry.is_capturing() {
            writer.push(edge(windows.began, true))?;
        }
        Ok(())
    }

    /// Writes all of a trace that is not divided, with an end, and may go on.
    pub fn complete(&mut self, status: &Status) -> io::Result<()> {
        if self.windows.is_some() { self.flush() } else { self.writer.complete(status) }
    }

    /// Completes the last trace. Returns what all of them lack, if something could not be written.
    pub fn finish(mut self, status: &Status) -> Option<Incomplete> {
        let path = self.path();
        let Some(windows) = &mut self.windows else {
            let ended = self.writer.end_here(status);
            self.lacking.take(&self.writer, ended.err().as_ref(), &path);
            return self.lacking.incomplete;
        };
        // It is among what is lacking if that fails.
        let _ = windows.finish_before(&mut self.writer, &mut self.lacking);
        let ended = self.writer.end_here(&windows.part_of(status));
        self.lacking.take(&self.writer, ended.err().as_ref(), &path);
        // Unlocked for who gets it.
        drop(self.writer);
        windows.tell(Complete { window: windows.latest, path });
        self.lacking.incomplete
    }
}

/// The start or the end of what a trace is about.
fn edge(at: u64, begins: bool) -> Record {
    Record { thread: 0, at, body: Body::CaptureEdge { begins } }
}

/// The windows of a session.
struct Windows<'s> {
    traces: &'s Mutex<Traces>,
    program: &'s str,
    division: &'s Division,
    carry: Carry,
    /// The present window, and that of the latest trace: another one if the trace of a window could not be created.
    window: Window,
    latest: Window,
    /// How many windows of the process came before.
    count: u64,
    /// Host ns at which the window began, and the status then.
    began: u64,
    first: Status,
    before: Option<Before>,
    /// What is known to be over on the GPU.
    finished: Finished,
    /// GPU times without their operations, which may belong to either trace.
    early: HashMap<u64, GpuTime>,
    launched: Launched,
    undivided: Option<Error>,
    owed: Owed,
}

/// Losses that the status of an earlier window has counted, and that threads have not told yet: each does so with its next record. All by
/// cause.
#[derive(Debug, Default)]
struct Owed {
    /// All that have been told.
    told: BTreeMap<LossCause, u64>,
    /// Those that are still to be told of the time before the window.
    left: BTreeMap<LossCause, u64>,
}

impl Owed {
    /// Begins a window with this status of the process.
    fn turn(&mut self, first: &Status) {
        let untold = |(cause, count): (&LossCause, &u64)| {
            (*cause, count.saturating_sub(self.told.get(cause).copied().unwrap_or(0)))
        };
        self.left = first.lost.iter().map(untold).collect();
    }

    /// Takes a loss that a thread tells. Returns how much of it is of the window.
    fn pay(&mut self, cause: LossCause, count: u64) -> u64 {
        let told = self.told.entry(cause).or_default();
        *told = told.saturating_add(count);
        let left = self.left.entry(cause).or_default();
        let earlier = count.min(*left);
        *left -= earlier;
        count - earlier
    }
}

/// How often each kernel was launched, by the kernel's number: ranks compare the k-th launches of a name.
#[derive(Debug, Default)]
struct Launched {
    in_earlier: HashMap<u32, u64>,
    in_present: HashMap<u32, u64>,
}

impl Launched {
    fn observe(&mut self, record: &Record, is_earlier: bool) {
        if let Some(name) = record.launched() {
            add(if is_earlier { &mut self.in_earlier } else { &mut self.in_present }, name, 1);
        }
    }

    fn turn(&mut self) {
        for (name, count) in self.in_present.drain() {
            add(&mut self.in_earlier, name, count);
        }
    }
}

/// Adds launches of a kernel, unless it is one too many.
fn add(counts: &mut HashMap<u32, u64>, name: u32, count: u64) {
    if counts.len() < MOST_KERNELS || counts.contains_key(&name) {
        *counts.entry(name).or_default() += count;
    }
}

/// The trace of the window before, which takes late records.
struct Before {
    writer: TraceWriter,
    /// Host ns at which the window began.
    began: u64,
    status: Status,
    complete: Complete,
    until: Instant,
    /// Whether it was reported that it cannot be written.
    is_reported: bool,
}

impl Windows<'_> {
    /// Takes a name that `writer`, that of the present window, has.
    fn name(
        &mut self,
        writer: &mut TraceWriter,
        namespace: Namespace,
        id: u32,
        text: &str,
    ) -> io::Result<()> {
        let has_ranges = self.carry.has_capture_ranges();
        self.carry.name(namespace, id, text);
        let named = self.before.as_mut().map_or(Ok(()), |before| before.writer.name(namespace, id, text));
        if has_ranges || !self.carry.has_capture_ranges() {
            return named;
        }
        // Ranges of the user's are captured, and not all of these windows.
        let closed =
            self.before.as_mut().map_or(Ok(()), |before| before.writer.push(edge(before.began, false)));
        writer.push(edge(self.began, false)).and(closed).and(named)
    }

    fn push(&mut self, writer: &mut TraceWriter, mut record: Record) -> io::Result<()> {
        if let Body::Loss { cause, count } = &mut record.body {
            let of_window = self.owed.pay(*cause, *count);
            // The status of the window before has counted it.
            if of_window == 0 && *count > 0 {
                return Ok(());
            }
            *count = of_window;
        }
        let is_carried = self.carry.observe(&record);
        self.finished.observe(&record);
        let is_earlier = self.before.is_some() && is_before(&record, self.began);
        self.launched.observe(&record, is_earlier);
        let correlation = record.awaits_time();
        if is_earlier {
            self.push_late(writer, record, is_carried)?;
        } else {
            writer.push(counted_from(record, self.began))?;
        }
        if self.early.is_empty() {
            return Ok(());
        }
        match correlation.and_then(|correlation| Some((correlation, self.early.remove(&correlation)?))) {
            Some((correlation, time)) => self.gpu_time(writer, correlation, time),
            None => Ok(()),
        }
    }

    /// Adds a record to the trace of the window before, and to the present one what it means there.
    fn push_late(&mut self, writer: &mut TraceWriter, record: Record, is_carried: bool) -> io::Result<()> {
        let Some(before) = &mut self.before else { return Ok(()) };
        let edge = self.began;
        if let Body::CaptureEdge { .. } = record.body {
            // It changes what the window began with.
            writer.push(Record { at: edge, ..record.clone() })?;
        } else if is_carried && !self.carry.is_over(&record, edge) {
            // Memory changes when the call returns, which may be after the edge.
            let is_over = record.at < edge;
            let again = record.clone();
            writer.push(if is_over { placed(again, placed_before(edge)) } else { again })?;
        } else if record.awaits_time().is_some() {
            writer.push(crossing(record.clone(), edge))?;
        }
        before.writer.push(counted_from(record, before.began))
    }

    /// Adds a GPU time to each trace that has its operation.
    fn gpu_time(&mut self, writer: &mut TraceWriter, correlation: u64, time: GpuTime) -> io::Result<()> {
        let Some(before) = &mut self.before else { return writer.gpu_time(correlation, time) };
        let (is_earlier, is_present) = (before.writer.awaits(correlation), writer.awaits(correlation));
        if !is_earlier && !is_present && self.early.len() < MOST_EARLY {
            self.early.insert(correlation, time);
            return Ok(());
        }
        let earlier = if is_earlier { before.writer.gpu_time(correlation, time) } else { Ok(()) };
        let is_lost = !is_earlier && !is_present;
        let present = if is_present || is_lost { writer.gpu_time(correlation, time) } else { Ok(()) };
        present.and(earlier)
    }

    /// Returns the operations in a trace that are not known to be over, in the order of their calls.
    fn unfinished(&mut self, writer: &TraceWriter) -> Vec<Record> {
        let mut finished = std::mem::take(&mut self.finished);
        writer.held().for_each(|record| finished.observe(record));
        let awaited = writer.held().filter(|record| record.awaits_time().is_some());
        let mut unfinished: Vec<Record> = awaited.filter(|record| !finished.has(record)).cloned().collect();
        unfinished.sort_by_key(Record::began);
        unfinished
    }

    fn flush_if_due(
        &mut self,
        writer: &mut TraceWriter,
        lacking: &mut Lacking,
        now: Instant,
    ) -> io::Result<()> {
        match &mut self.before {
            Some(before) if now < before.until => before.writer.flush_if_due(now),
            _ => self.finish_before(writer, lacking),
        }
    }

    /// Completes the trace of the window before. `writer` is that of the present one.
    fn finish_before(&mut self, writer: &mut TraceWriter, lacking: &mut Lacking) -> io::Result<()> {
        let Some(Before { writer: mut earlier, mut status, complete, .. }) = self.before.take() else {
            return Ok(());
        };
        status.pending = earlier.awaiting() as u64;
        let mut launched = self.launched.in_earlier.iter();
        let counted = launched
            .try_for_each(|(name, count)| writer.name(Namespace::Launched, *name, &count.to_string()));
        let finished = earlier.end_here(&status).map(drop);
        lacking.take(&earlier, finished.as_ref().err(), &complete.path);
        // Unlocked for who gets it.
        drop(earlier);
        self.tell(complete);
        let mut early = std::mem::take(&mut self.early).into_iter();
        early
            .try_for_each(|(correlation, time)| writer.gpu_time(correlation, time))
            .and(counted)
            .and(finished)
    }

    fn tell(&self, complete: Complete) {
        // Whoever wanted to know has ended; the trace is there all the same.
        let _ = self.division.complete.send(complete);
    }

    /// Ends the window at host ns `now`: returns the status of its trace, and what has been counted until then.
    fn divide(&self, now: u64, status: &Status) -> (Status, Status) {
        let part = Status { ending: Ending::Detached, ended: now, ..self.part_of(status) };
        // What is in the rings now belongs to the next window.
        let part = Status { published: part.collected, ..part };
        let published = self.first.published.saturating_add(part.published);
        let began_realtime = since_1970().as_nanos() as u64;
        let session_realtime = Some(status.session_realtime.unwrap_or(status.began_realtime));
        (part, Status { began: now, began_realtime, session_realtime, published, ..status.clone() })
    }

    /// Returns the part of a process's status that is about the window.
    fn part_of(&self, status: &Status) -> Status {
        since(status, &self.first)
    }
}

/// Returns the time of what a trace has of the time before an edge, host ns.
fn placed_before(edge: u64) -> u64 {
    edge.saturating_sub(CARRIED_BEFORE)
}

/// Returns the record of an operation that was launched before an edge, as the trace after it has it.
fn crossing(mut record: Record, edge: u64) -> Record {
    record.at = placed_before(edge);
    record
}

/// Returns a record of a window that began then: calls count from there on.
fn counted_from(mut record: Record, began: u64) -> Record {
    if let Some(call) = record.body.call_mut() {
        call.begin = call.begin.max(began);
    }
    record.at = record.at.max(began);
    record
}

/// Whether what a record is about began before host ns `edge`.
fn is_before(record: &Record, edge: u64) -> bool {
    record.began().unwrap_or(record.at) < edge
}

/// Returns a status without what had been counted at an earlier moment.
pub(super) fn since(status: &Status, first: &Status) -> Status {
    let lost = status
        .lost
        .iter()
        .map(|(cause, count)| (*cause, count - first.lost.get(cause).unwrap_or(&0).min(count)));
    Status {
        began: first.began,
        began_realtime: first.began_realtime,
        session_realtime: first.session_realtime,
        agent_ns: status.agent_ns.saturating_sub(first.agent_ns),
        poller_ns: status.poller_ns.saturating_sub(first.poller_ns),
        calls: status.calls.saturating_sub(first.calls),
        published: status.published.saturating_sub(first.published),
        collected: status.collected.saturating_sub(first.collected),
        lost: lost.filter(|(_, count)| *count > 0).collect(),
        outside_launches: status.outside_launches.saturating_sub(first.outside_launches),
        outside_others: status.outside_others.saturating_sub(first.outside_others),
        hangs: status.hangs.iter().filter(|hang| hang.until >= first.began).cloned().collect(),
        ..status.clone()
    }
}

#[cfg(test)]
mod tests;
