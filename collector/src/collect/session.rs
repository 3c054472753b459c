//! How is one process collected, from its first record to its trace's last chunk?

use super::capture_range::{CaptureRanges, Outside};
use super::convert::{Item, convert};
use super::drain::{Batch, Drain, Gone, Pace, Round};
use super::hangs::{HangWatch, Polled, ProcessWatch, Watch};
use super::host_ticks::{Clock, Pair, Slope};
use super::memory::{PAGES_READ, Share};
use super::output::{self, Traces};
use super::process::{self, Process};
use super::progress::{Figures, Progress};
use super::receive::Peer;
use super::stacks::{Named, Stacks};
use super::sys::{self, Stopped};
use super::taken_over::Beginning;
use super::texts::Texts;
use super::thread_times::ThreadTimes;
use super::windows::{Division, Recording};
use super::{Error, Result};
use crate::hash::HashSet;
use crate::trace::FLUSH_INTERVAL;
use crate::trace::record::{Body, Ending, Exit, Record, Status};
use crate::why::why;
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender};
use gpuspy_wire::record::{CELL_WORDS, Fact, Head, Kind, LossCause, Namespace};
use gpuspy_wire::segment::{HostClock, Segment};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Limit on the batches between the draining and the writing thread: 16 MiB.
const QUEUE: usize = 256;
/// The size of a page, bytes; that of other machines is larger by less than the margin.
const PAGE: usize = 4096;
/// Limit on the threads whose numbers are kept; of more, the oldest are forgotten.
const MOST_THREADS: usize = 1 << 17;
/// How often the writer is called to flush while it has records: nine times in its interval.
const FLUSH: Duration = Duration::from_millis(FLUSH_INTERVAL.as_millis() as u64 / 9);
/// How often the status is taken, which reads all slots' counters.
const STATUS: Duration = Duration::from_millis(100);
/// How long after its connection a process may end and still count as ended instead of replaced.
const DYING: Duration = Duration::from_millis(200);
/// How long after its connection a process may end that the system is taking apart: a GPU's memory and contexts are given back
/// when its device files are closed, which can take seconds.
const TAKEN_APART: Duration = Duration::from_secs(30);

/// A message from the draining thread to the writing one.
enum Drained {
    /// Records of a thread.
    Batch(Batch),
    /// Every ring has been empty since the last such message.
    Emptied(Polled),
    /// The process waits in its exit handler until all of this is written.
    Leaving,
}

/// Where sessions write.
#[derive(Clone, Copy)]
pub(crate) struct Place<'s> {
    pub traces: &'s Mutex<Traces>,
    /// The windows of time that have traces of their own, if any.
    pub division: Option<&'s Division>,
}

/// A session that has ended.
#[derive(Clone, Debug)]
pub struct Session {
    /// The process.
    pub pid: u32,
    /// Its name for display.
    pub program: String,
    /// Its trace's number among the [`Traces`].
    pub trace: usize,
    /// How it ended.
    pub ending: Ending,
    /// How it exited, if the system reported it.
    pub exit: Option<Exit>,
    /// The number of records of kinds that this version does not know, which were skipped.
    pub unknown: u64,
    /// Why the trace is incomplete; it contains what could be written.
    pub failure: Option<String>,
    /// Why a window of time has no trace of its own: then that of the window before has its time, too.
    pub undivided: Option<String>,
}

impl Session {
    /// Collects from a process until it ends or `stopped` fires.
    pub(crate) fn run(
        peer: &Peer,
        stopped: &Stopped,
        place: Place<'_>,
        first: &Pair,
        progress: &Progress,
        hangs: HangWatch,
        share: &Share<'_>,
    ) -> Result<Session> {
        // Of the two threads here, this one writes.
        sys::survive_size_limit();
        let segment = peer.mapping.segment();
        let segment = segment.map_err(|e| Error::new(e.to_string()).about(peer.process.pid))?;
        let pid = shown_pid(&peer.process, segment);
        // A copy: the other process can still write there.
        let program = output::in_file_names(segment.header().program);
        let (sender, receiver) = crossbeam_channel::bounded(QUEUE);
        let recorded = std::thread::scope(|threads| {
            let draining = std::thread::Builder::new()
                .spawn_scoped(threads, || drain(peer, segment, stopped, sender, share))
                .map_err(|e| Error::no_thread("it", &e).about(pid))?;
            // This owns the receiver: if there is no recorder, the drain notices that it is gone.
            let recorder =
                Recorder::new(segment, peer, first, place, &program, hangs, share).map(|mut recorder| {
                    peer.tell_begun();
                    recorder.record(&receiver, progress);
                    recorder
                });
            drop(receiver);
            let end = draining.join().map_err(|_| Error::new("its drain failed").about(pid))?;
            recorder.map(|recorder| (recorder, end))
        });
        peer.detach();
        let (recorder, End { ending, exit }) = recorded?;
        let (trace, unknown, undivided) =
            (recorder.recording.number(), recorder.unknown, recorder.recording.undivided());
        let failure = recorder.finish(End { ending, exit }).map(|e| e.to_string());
        Ok(Session { pid, program, trace, ending, exit, unknown, failure, undivided })
    }
}

/// How a process ended.
#[derive(Clone, Copy, Debug)]
struct End {
    ending: Ending,
    exit: Option<Exit>,
}

impl End {
    const NONE: End = End { ending: Ending::Running, exit: None };
    /// Nobody writes what was recorded.
    const GIVEN_UP: End = End { ending: Ending::Detached, exit: None };
}

/// The draining thread: empties the rings until the process has ended or the collector is stopped, and returns how it
/// ended.
fn drain(
    peer: &Peer,
    segment: Segment<'_>,
    stopped: &Stopped,
    sender: Sender<Drained>,
    share: &Share<'_>,
) -> End {
    let mut drain = Drain::new(segment);
    let send = |drained| sender.send(drained).map_err(|_| Gone);
    let mut read = 0;
    let mut round = || {
        let polled = Polled::read(segment);
        let found = drain.round(|batch| {
            // A batch touches the pages of its words, at most one more on each side, and that of its slot.
            read += batch.bytes() + 3 * PAGE;
            while share.all().is_queue_full() && !share.is_queue_empty() {
                std::thread::sleep(Duration::from_millis(1));
            }
            share.queue(batch.bytes());
            send(Drained::Batch(batch))
        })?;
        // Whatever a peer claims to have written, no more of its segment than this is in our memory.
        if read >= PAGES_READ {
            read = 0;
            peer.mapping.release();
        }
        if found.more { Ok(found) } else { send(Drained::Emptied(polled)).map(|()| found) }
    };
    // Bounded by what a ring can contain; otherwise a process that keeps running could keep us here for ever.
    let words = segment.layout().level_cells.iter().sum::<u64>() as usize * CELL_WORDS;
    let most_rounds = words.div_ceil(super::drain::BATCH_WORDS) + 1;
    let mut pace = Pace::new();
    let mut is_leaving = false;
    let is_stopped = loop {
        let Ok(found) = round() else { return End::GIVEN_UP };
        let connection = peer.connection().filter(|_| !is_leaving);
        let watched = [connection, peer.process.end(), Some(stopped.as_fd())];
        // Nothing is sent over the connection but the Hello: if it is readable, it has ended, or its peer broke the contract, or
        // the process exits and waits.
        let Ok([connection, end, stop]) = sys::wait(watched, pace.after(found)) else { break false };
        if connection && !end && is_exiting(segment) && peer.is_half_closed() {
            is_leaving = true;
            if empty(&mut round, most_rounds).and_then(|()| send(Drained::Leaving)).is_err() {
                return End::GIVEN_UP;
            }
            continue;
        }
        if connection || end || peer.is_over() || is_leaving && !peer.is_half_closed() {
            break false;
        }
        if stop {
            break true;
        }
    };
    let end = end(peer, segment, stopped, is_stopped);
    for _ in 0..most_rounds {
        if round().is_ok_and(|found| found == Round::default()) {
            break;
        }
    }
    end
}

/// Empties the rings, with `most` rounds at most: twice, so that nothing is held back that is still to be decided about.
fn empty(
    round: &mut impl FnMut() -> std::result::Result<Round, Gone>,
    most: usize,
) -> std::result::Result<(), Gone> {
    let mut emptied = 0;
    for _ in 0..most {
        emptied += u32::from(!round()?.more);
        if emptied == 2 {
            break;
        }
    }
    Ok(())
}

fn end(peer: &Peer, segment: Segment<'_>, stopped: &Stopped, is_stopped: bool) -> End {
    let began = Instant::now();
    let (mut is_dying, mut hurries) = (peer.process.is_dying(), false);
    // A process closes its descriptors before it is gone.
    while !is_stopped
        && peer.process.is_running()
        && began.elapsed() < if is_dying && !hurries { TAKEN_APART } else { DYING }
    {
        let stop = (!hurries).then(|| stopped.as_fd());
        // An error here only shortens the wait.
        let waited = sys::wait([peer.process.end(), stop], Duration::from_millis(10));
        hurries |= waited.is_ok_and(|[_, stop]| stop);
        is_dying = peer.process.is_dying();
    }
    let ending = match (is_exiting(segment), peer.process.is_running() && (is_stopped || !is_dying)) {
        (_, true) if is_stopped => Ending::Detached,
        (true, _) => Ending::Exited,
        (false, true) => Ending::Replaced,
        (false, false) => Ending::Vanished,
    };
    End { ending, exit: peer.process.exit() }
}

/// Whether the agent's exit handler has run.
fn is_exiting(segment: Segment<'_>) -> bool {
    // Acquire pairs with the agent's release: what was recorded before is in the rings.
    segment.header().live.0.exiting.load(Ordering::Acquire) == 1
}

/// How much earlier than the newest record a record may be placed, ns. Readers keep all chunks that overlap in memory.
const MOST_LATE: u64 = 1_000_000_000;

/// Places a late record. Queries in a row are recorded when the thread makes another call, which may be hours later.
/// They are placed near that call; their `begin` and `end` say when they were made.
fn place(record: &mut Record, latest: u64) {
    if matches!(record.body, Body::Api(_)) {
        record.at = record.at.max(latest.saturating_sub(MOST_LATE));
    }
}

/// The writing half of a session: converts batches and writes the trace.
struct Recorder<'s> {
    segment: Segment<'s>,
    peer: &'s Peer,
    process: &'s Process,
    share: &'s Share<'s>,
    clock: HostTime,
    recording: Recording<'s>,
    /// Claim number → tid, and `at` of the thread's last record.
    threads: BTreeMap<u32, (u32, u64)>,
    /// Those of them that the trace has not been told of: claim number → tid.
    new_threads: BTreeMap<u32, u32>,
    collected: u64,
    /// GPU times among them.
    timed: u64,
    corrupt: u64,
    unknown: u64,
    /// Numbers for the texts of NVTX ranges in the present trace.
    texts: Texts,
    /// What the program's own frames are.
    stacks: Stacks,
    /// The greatest `at` so far.
    latest: u64,
    /// The `at` of a thread's first record if it has no time of its own.
    began: u64,
    /// Decides which records are kept.
    capture_ranges: CaptureRanges,
    /// Samples how long threads run.
    thread_times: ThreadTimes,
    /// Looks for what hangs, unless that is off.
    hangs: Option<ProcessWatch<'s>>,
    /// Where the trace begins, if another collector has what was before.
    beginning: Option<Beginning>,
    /// How the process ends, as far as it is known.
    end: End,
    /// Why the trace is incomplete. The writer tries again, so this is reported at the end.
    failure: Option<io::Error>,
}

impl<'s> Recorder<'s> {
    fn new(
        segment: Segment<'s>,
        peer: &'s Peer,
        first: &Pair,
        place: Place<'s>,
        program: &'s str,
        hangs: HangWatch,
        share: &'s Share<'s>,
    ) -> Result<Recorder<'s>> {
        let process = &peer.process;
        let clock = HostTime::new(segment, first)?;
        let began = status(segment, process, &clock, End::NONE);
        let beginning = peer.taken_over.map(|at| Beginning::of(&began, at));
        let began = beginning.as_ref().map_or_else(|| began.clone(), |beginning| beginning.part_of(&began));
        let recording = Recording::create(place.traces, program, &began, place.division)?;
        Ok(Recorder {
            segment,
            peer,
            process,
            share,
            clock,
            recording,
            threads: BTreeMap::new(),
            new_threads: BTreeMap::new(),
            collected: 0,
            timed: 0,
            corrupt: 0,
            unknown: 0,
            texts: Texts::default(),
            stacks: Stacks::default(),
            latest: 0,
            began: began.began,
            capture_ranges: CaptureRanges::default(),
            thread_times: ThreadTimes::of(process, segment.header().start_time),
            hangs: ProcessWatch::new(segment, hangs, shown_pid(process, segment), program),
            beginning,
            end: End::NONE,
            failure: None,
        })
    }

    /// Records until the drain has ended.
    fn record(&mut self, batches: &Receiver<Drained>, progress: &Progress) {
        let mut due = Instant::now() + FLUSH;
        let mut status_due = due;
        let mut reported = Figures::default();
        loop {
            let drained = batches.recv_deadline(due);
            // Before ticks are converted that may be from after a sleep.
            self.clock.look();
            match drained {
                Ok(Drained::Batch(batch)) => {
                    self.take(&batch);
                    self.share.unqueue(batch.bytes());
                    self.share.set_pending(self.recording.pending());
                    if self.share.all().is_much_pending() {
                        let flushed = self.recording.flush();
                        self.note(flushed);
                    }
                }
                Ok(Drained::Emptied(polled)) => {
                    let decided = self.capture_ranges.emptied();
                    self.write(decided);
                    let named = self.stacks.settle();
                    self.name_all(named);
                    if let Some(hangs) = &mut self.hangs {
                        hangs.look(polled, &self.clock.clock, || self.clock.now());
                    }
                }
                Ok(Drained::Leaving) => self.complete(),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    progress.add(reported, self.figures(&self.status_without_threads(End::NONE)));
                    return;
                }
            }
            self.sample_threads();
            let now = Instant::now();
            // Records may have come while there was nothing to flush.
            let pause = if self.recording.pending() == 0 { STATUS } else { FLUSH };
            due = due.min(now + pause);
            if now >= due {
                due = now + pause;
                if now >= status_due {
                    status_due = now + STATUS;
                    self.clock.refine();
                    let threads = std::mem::take(&mut self.new_threads);
                    let status = Status { threads, ..self.status_without_threads(self.end) };
                    self.recording.status(&status);
                    let figures = self.figures(&status);
                    progress.add(std::mem::replace(&mut reported, figures), figures);
                }
                let flushed = self.recording.flush_if_due(now);
                self.note(flushed);
                if self.recording.is_over() {
                    self.turn();
                }
            }
        }
    }

    /// Writes all of the trace for a process that waits for that in its exit handler, and tells it. What ends with the process may be
    /// this collector, too.
    fn complete(&mut self) {
        self.sample_threads();
        let named = self.stacks.finish();
        self.name_all(named);
        self.end = End { ending: Ending::Exited, exit: None };
        let status = self.status(self.end);
        let written = self.recording.complete(&status);
        self.note(written);
        if self.failure.is_none() {
            self.peer.tell_written();
        }
    }

    /// Begins the next window.
    fn turn(&mut self) {
        // They end the window, and begin the next one.
        let samples = self.thread_times.sample_now(|| self.clock.now());
        self.push_all(samples);
        let status = self.status(End::NONE);
        // Of the texts of ranges, the next trace needs those that records after this may have.
        let texts: HashSet<u32> = self.recording.texts().chain(self.capture_ranges.texts()).collect();
        self.recording.keep_texts(&texts);
        self.texts.turn(&texts);
        let turned = self.recording.turn(status.ended, &status);
        self.note(turned);
    }

    /// Records how long threads have run, if it is time.
    fn sample_threads(&mut self) {
        let samples = self.thread_times.sample(is_exiting(self.segment), || self.clock.now());
        self.push_all(samples);
        for thread in self.thread_times.take_ended() {
            self.recording.thread_ended(thread);
        }
    }

    fn push_all(&mut self, records: Vec<Record>) {
        for record in records {
            let written = self.push(record);
            self.note(written);
        }
    }

    fn take(&mut self, batch: &Batch) {
        self.corrupt += batch.corrupt;
        let mut has_called = false;
        let (_, mut at) = *self.threads.entry(batch.thread).or_insert_with(|| {
            self.new_threads.insert(batch.thread, batch.tid);
            (batch.tid, self.began)
        });
        let mut rest = &batch.words[..];
        while let Some(head) = Head::of(rest) {
            let length = (usize::from(head.cells) * CELL_WORDS).clamp(CELL_WORDS, rest.len());
            let (words, others) = rest.split_at(length);
            rest = others;
            // The kinds of calls come first; the poller writes only later ones.
            has_called |= head.kind <= Kind::Api as u8;
            at = self.take_one(words, batch.thread, at);
        }
        self.threads.insert(batch.thread, (batch.tid, at));
        if self.threads.len() > MOST_THREADS {
            self.threads.pop_first();
        }
        if has_called && let Some(name) = self.thread_times.has_called(batch.thread, batch.tid) {
            let written = self.recording.name(Namespace::Thread, batch.thread, &name);
            self.note(written);
        }
    }

    /// Takes a record of a thread whose previous one has the time `before`; returns this one's time.
    fn take_one(&mut self, words: &[u64], thread: u32, before: u64) -> u64 {
        let mut at = before;
        let mut item = convert(words, thread, before, self.clock.clock());
        if !self.takes(&mut item, before) {
            return before;
        }
        let written = match item {
            Item::Record(mut record) => {
                place(&mut record, self.latest);
                at = record.at;
                self.latest = self.latest.max(at);
                self.push(record)
            }
            Item::Range(mut record, text) => {
                at = record.at;
                let (number, is_new) = self.texts.number(&text);
                if let Body::NvtxRange(range) = &mut record.body {
                    range.text = number;
                }
                let named =
                    if is_new { self.recording.name(Namespace::NvtxRange, number, &text) } else { Ok(()) };
                named.and_then(|()| self.push(record))
            }
            Item::Name(namespace, id, text) => {
                if (namespace, id) == (Namespace::Fact, Fact::CaptureRange as u32) && !text.is_empty() {
                    self.capture_ranges.begin();
                }
                self.watch(|watch| watch.name(namespace, id, &text));
                self.recording.name(namespace, id, &text)
            }
            Item::Code(code) => {
                self.stacks.code(code);
                Ok(())
            }
            Item::CodePart(part, bytes) => {
                self.stacks.part(part, bytes);
                Ok(())
            }
            Item::Stack(stack, frames) => {
                let named = self.stacks.stack(stack, frames);
                self.name_all(named);
                Ok(())
            }
            Item::GpuTime(correlation, time) => {
                self.timed += 1;
                self.watch(|watch| watch.time(correlation, time.seen));
                self.recording.gpu_time(correlation, time)
            }
            Item::Anchor(anchor) => {
                self.clock.anchor(&anchor);
                Ok(())
            }
            Item::Unknown => {
                self.unknown += 1;
                return at;
            }
            Item::Invalid => {
                self.corrupt += 1;
                return at;
            }
        };
        self.collected += 1;
        self.note(written);
        at
    }

    /// Whether an item is in the trace: all are, unless another collector has what was before.
    fn takes(&mut self, item: &mut Item<'_>, before: u64) -> bool {
        let Some(beginning) = &mut self.beginning else { return true };
        let now = || status(self.segment, self.process, &self.clock, End::NONE);
        let takes = beginning.takes(item, before, self.clock.clock(), now);
        if self.began != beginning.began() {
            self.began = beginning.began();
            self.threads.clear();
        }
        takes
    }

    /// Gives a record to the trace, unless it is held back or left out.
    fn push(&mut self, record: Record) -> io::Result<()> {
        self.watch(|watch| watch.record(&record));
        if !self.capture_ranges.is_on() {
            return self.recording.push(record);
        }
        let decided = self.capture_ranges.take(record);
        self.write(decided);
        Ok(())
    }

    fn write(&mut self, records: Vec<Record>) {
        for record in records {
            let written = self.recording.push(record);
            self.note(written);
        }
    }

    fn name_all(&mut self, named: Vec<Named>) {
        for (namespace, id, text) in named {
            let written = self.recording.name(namespace, id, &text);
            self.note(written);
        }
    }

    fn watch(&mut self, with: impl FnOnce(&mut Watch)) {
        if let Some(hangs) = &mut self.hangs {
            with(hangs.watch());
        }
    }

    /// The figures for display.
    fn figures(&self, status: &Status) -> Figures {
        let lost = status.lost.values().fold(0, |sum: u64, &count| sum.saturating_add(count));
        Figures { records: self.collected, timed: self.timed, lost, bytes: self.recording.bytes() }
    }

    /// Keeps the first error.
    fn note(&mut self, written: io::Result<()>) {
        if let Err(error) = written
            && self.failure.is_none()
        {
            self.peer.tell_failed(&Error::new(why(&error)));
            self.failure = Some(error);
        }
    }

    /// The present status.
    fn status(&self, end: End) -> Status {
        let threads = self.threads.iter().map(|(&claim, &(tid, _))| (claim, tid)).collect();
        Status { threads, ..self.status_without_threads(end) }
    }

    /// The present status without its threads, of which a server may have had a hundred thousand.
    fn status_without_threads(&self, end: End) -> Status {
        let mut status = status(self.segment, self.process, &self.clock, end);
        status.collected = self.collected;
        let Outside { launches, others } = self.capture_ranges.outside();
        (status.outside_launches, status.outside_others) = (launches, others);
        status.hangs = self.hangs.as_ref().map(ProcessWatch::hangs).unwrap_or_default();
        if self.corrupt != 0 {
            add(status.lost.entry(LossCause::Corrupt).or_default(), self.corrupt);
        }
        match &self.beginning {
            Some(beginning) => beginning.part_of(&status),
            None => status,
        }
    }

    /// Completes the trace. Returns why it is incomplete.
    fn finish(mut self, end: End) -> Option<io::Error> {
        let samples = self.thread_times.sample_now(|| self.clock.now());
        self.push_all(samples);
        let rest = self.capture_ranges.finish();
        self.write(rest);
        let named = self.stacks.finish();
        self.name_all(named);
        if let Some(hangs) = &mut self.hangs {
            hangs.finish(&self.clock.clock, self.clock.now(), end.ending);
        }
        let status = self.status(end);
        let finished = self.recording.finish(&status);
        self.failure.take().or(finished.err())
    }
}

/// A process's pid for display: in the collector's namespace, or in its own where the collector's has none for it, as that
/// of a container beside it.
fn shown_pid(process: &Process, segment: Segment<'_>) -> u32 {
    if process.pid == 0 { segment.header().pid } else { process.pid }
}

/// The status as far as the segment contains it.
fn status(segment: Segment<'_>, process: &Process, clock: &HostTime, end: End) -> Status {
    // Relaxed, all of them: counters that stand alone, exact once their writers have ended.
    let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let header = segment.header();
    let live = &header.live.0;
    let mut status = Status {
        pid: shown_pid(process, segment),
        start_time: header.start_time,
        began: clock.began,
        began_realtime: header.anchor_realtime,
        session_realtime: None,
        ended: clock.now(),
        ending: end.ending,
        exit: end.exit,
        boot: process::boot(),
        parent: process.parent,
        write_error: None,
        agent_ns: 0,
        poller_ns: read(&live.poller_ns),
        calls: 0,
        published: 0,
        collected: 0,
        pending: read(&live.pending),
        lost: BTreeMap::new(),
        outside_launches: 0,
        outside_others: 0,
        lookups: read(&live.lookups),
        lookups_hooked: read(&live.lookups_hooked),
        driver_hooked: read(&live.driver_hooked) == 1,
        threads: BTreeMap::new(),
        hangs: Vec::new(),
    };
    let mut lose = |counters: &[AtomicU64]| {
        for &cause in LossCause::ALL {
            match read(&counters[cause as usize]) {
                0 => {}
                count => add(status.lost.entry(cause).or_default(), count),
            }
        }
    };
    lose(&live.lost);
    let mut agent_ticks = 0;
    for slot in (0..segment.layout().slots as usize).filter_map(|n| segment.slot(n)) {
        let counters = &slot.counters.0;
        lose(&counters.lost);
        add(&mut agent_ticks, read(&counters.agent_ticks));
        add(&mut status.calls, read(&counters.calls));
        add(&mut status.published, read(&counters.records));
    }
    status.agent_ns = clock.clock().length(agent_ticks);
    status
}

/// Adds without overflow: a peer can write any number into a counter.
fn add(sum: &mut u64, count: u64) {
    *sum = sum.saturating_add(count);
}

/// The process's clock, and the readings that refine it.
struct HostTime {
    kind: HostClock,
    /// When the process's session began: host ns.
    began: u64,
    clock: Clock,
    /// The collector's first reading since the computer slept, with which later ones are compared, and its latest.
    ours: Pair,
    latest: Pair,
    /// The agent's first anchor record since then, likewise.
    theirs: Option<Pair>,
}

impl HostTime {
    fn new(segment: Segment<'_>, first: &Pair) -> Result<HostTime> {
        let header = segment.header();
        let origin = Pair { ticks: header.anchor_ticks, ns: header.anchor_monotonic_raw, uncertainty: 0 };
        let kinds = [HostClock::MonotonicRaw, HostClock::Counter];
        let kind = kinds.into_iter().find(|&kind| kind as u32 == header.host_clock);
        let (kind, origin, slope) = match kind {
            Some(HostClock::MonotonicRaw) => {
                let origin = Pair { ns: origin.ticks, ..origin };
                (HostClock::MonotonicRaw, origin, Slope::NANOSECONDS)
            }
            Some(HostClock::Counter) => (HostClock::Counter, origin, Slope::measure(first)),
            None => return Err(Error::new("its segment uses a clock that this version does not know")),
        };
        let clock = Clock::new(origin, slope);
        let mut time = HostTime { kind, began: origin.ns, clock, ours: origin, latest: origin, theirs: None };
        if kind == HostClock::Counter {
            // The computer may have slept since the session began. The reading of then is no baseline: it does not say how exact
            // it is.
            let here = Pair::now();
            time.restart_if_slept(here);
            time.ours = here;
        }
        Ok(time)
    }

    fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Host ns now.
    fn now(&self) -> u64 {
        match self.kind {
            HostClock::MonotonicRaw => sys::monotonic_raw(),
            HostClock::Counter => self.clock.ns(sys::counter()),
        }
    }

    /// Looks whether the computer has slept since the latest reading.
    fn look(&mut self) {
        // Most of the time, two quick reads show that it has not.
        if self.kind == HostClock::Counter && self.clock.has_slept(&self.latest, &Pair::rough()) {
            self.take(Pair::now());
        }
    }

    /// Reads the clocks again, now that the baseline is longer.
    fn refine(&mut self) {
        if self.kind == HostClock::Counter {
            self.take(Pair::now());
        }
    }

    /// Takes a reading of the clocks by the collector. All ticks that were converted are from before it.
    fn take(&mut self, pair: Pair) {
        if !self.restart_if_slept(pair)
            && let Some(slope) = self.ours.slope_to(&pair)
        {
            self.clock.correct(slope, pair.ticks);
        }
    }

    /// Begins a new line at a reading by the collector, if the computer has slept since the latest one. Returns whether it has.
    fn restart_if_slept(&mut self, pair: Pair) -> bool {
        let has_slept = self.clock.has_slept(&self.latest, &pair);
        if has_slept {
            self.clock.restart(&self.latest, &pair);
            (self.ours, self.theirs) = (pair, None);
        }
        self.latest = pair;
        has_slept
    }

    /// Takes a reading of the clocks by the agent.
    fn anchor(&mut self, anchor: &gpuspy_wire::record::Anchor) {
        let pair = Pair { ticks: anchor.ticks, ns: anchor.monotonic_raw, uncertainty: anchor.uncertainty };
        // An earlier one may be from before a sleep.
        if self.kind != HostClock::Counter || pair.ticks < self.ours.ticks {
            return;
        }
        let theirs = *self.theirs.get_or_insert(pair);
        if let Some(slope) = theirs.slope_to(&pair) {
            // No record has a tick later than the present, so what was converted stays as it is.
            self.clock.refine(slope, sys::counter());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::record::{Api, Call};

    const SECOND: u64 = 1_000_000_000;

    /// Reads both clocks after the computer has been awake and asleep for so long, ns. The counter has 2 GHz and goes on in a
    /// sleep.
    fn reading(awake: u64, asleep: u64) -> Pair {
        Pair { ticks: 5_000_000 + 2 * (awake + asleep), ns: 7_000 + awake, uncertainty: 100 }
    }

    /// The time of a process on that counter, after the slope was measured.
    fn host_time() -> HostTime {
        let first = reading(0, 0);
        let clock = Clock::new(first, first.slope_to(&reading(SECOND / 50, 0)).unwrap());
        let (kind, began) = (HostClock::Counter, first.ns);
        HostTime { kind, began, clock, ours: first, latest: first, theirs: None }
    }

    /// How far the time of a reading's tick is from the reading, ns.
    fn off(time: &HostTime, pair: Pair) -> u64 {
        time.clock.ns(pair.ticks).abs_diff(pair.ns)
    }

    /// What the uncertainty of a reading makes of its time, ns.
    const EXACT: u64 = 50;

    /// Takes a reading each second from ten minutes on, for ten more. Each has the right time already.
    fn goes_on(mut time: HostTime, read: impl Fn(u64) -> Pair) {
        for second in 601..=1200 {
            let here = read(second * SECOND);
            assert!(off(&time, here) <= EXACT, "{second} s: {} ns off", off(&time, here));
            time.take(here);
        }
        assert_eq!(time.began, 7_000);
    }

    /// After a sleep, the slope from the first reading to the present had a smaller error bound and was taken: all times from
    /// there on were far too early.
    #[test]
    fn times_after_a_sleep_of_the_computer_are_right() {
        let mut time = host_time();
        (1..=600).for_each(|second| time.take(reading(second * SECOND, 0)));
        let (fell_asleep, woke) = (600 * SECOND + SECOND / 100, 600 * SECOND + SECOND / 50);
        let asleep = 3600 * SECOND;
        time.take(reading(woke + SECOND / 50, asleep));
        assert!(off(&time, reading(300 * SECOND, 0)) <= EXACT, "long before");
        assert!(off(&time, reading(fell_asleep, 0)) <= EXACT, "right before, and converted after");
        assert!(off(&time, reading(woke, asleep)) <= EXACT, "right after, and before the reading");
        goes_on(time, |awake| reading(awake, asleep));
    }

    #[test]
    fn times_after_a_sleep_in_which_the_counter_was_reset_are_right() {
        let mut time = host_time();
        (1..=600).for_each(|second| time.take(reading(second * SECOND, 0)));
        let again = |awake: u64| Pair { ticks: 2 * (awake - 600 * SECOND), ..reading(awake, 0) };
        time.take(again(600 * SECOND + SECOND / 20));
        goes_on(time, again);
    }

    /// An anchor that the agent has read before a sleep may be converted after it, and the next one is from after it.
    #[test]
    fn anchors_on_both_sides_of_a_sleep_make_no_slope() {
        let mut time = host_time();
        let anchor = |pair: Pair| gpuspy_wire::record::Anchor {
            ticks: pair.ticks,
            monotonic_raw: pair.ns,
            uncertainty: pair.uncertainty,
            ..gpuspy_wire::record::Anchor::default()
        };
        let asleep = 3600 * SECOND;
        time.take(reading(10 * SECOND, 0));
        time.take(reading(10 * SECOND + SECOND / 10, asleep));
        time.anchor(&anchor(reading(10 * SECOND + SECOND / 20, 0)));
        assert_eq!(time.theirs, None);
        let [one, other] = [11, 12].map(|second| reading(second * SECOND, asleep));
        time.anchor(&anchor(one));
        time.anchor(&anchor(other));
        assert_eq!(time.theirs, Some(one));
        assert!(off(&time, other) <= EXACT);
    }

    /// The collector's first reading was before a sleep of eight seconds. Beside ten hours, that is too little to be seen when
    /// the process begins.
    #[test]
    fn a_slope_that_was_measured_over_a_sleep_is_corrected() {
        let (hours, asleep) = (36_000 * SECOND, 8 * SECOND);
        let here = reading(hours, asleep);
        let slope = reading(0, 0).slope_to(&here).unwrap();
        let mut time = HostTime { clock: Clock::new(here, slope), ours: here, latest: here, ..host_time() };
        let later = reading(hours + SECOND, asleep);
        assert!(off(&time, later) > 100_000, "the test needs a slope that is wrong");
        (1..=600).for_each(|tenth| time.take(reading(hours + tenth * (SECOND / 10), asleep)));
        let end = reading(hours + 61 * SECOND, asleep);
        assert!(off(&time, end) <= EXACT, "{} ns off", off(&time, end));
    }

    #[test]
    fn queries_that_are_recorded_late_are_placed_near_the_newest_record() {
        let queries = |at| {
            let call = Call { begin: 5, end: at, ..Call::default() };
            Record {
                thread: 1,
                at,
                body: Body::Api(Api { call, result: 600, subject: 0, calls: 7, inside: 9, entered: 0 }),
            }
        };
        for (at, latest, placed) in [
            (10, 3_600_000_000_000, 3_599_000_000_000),
            (3_599_500_000_000, 3_600_000_000_000, 3_599_500_000_000),
            (70, 0, 70),
        ] {
            let mut record = queries(at);
            place(&mut record, latest);
            assert_eq!(
                (record.at, &record.body),
                (placed, &queries(at).body),
                "the times of the queries stay"
            );
        }
    }
}
