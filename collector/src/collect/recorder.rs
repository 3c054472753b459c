//! What becomes of the records of a process? They are converted, and written into its trace.

use super::capture_range::{CaptureRanges, Outside};
use super::convert::{Item, convert};
use super::drain::Batch;
use super::hangs::{HangWatch, Polled, ProcessWatch, Watch};
use super::host_ticks::Pair;
use super::host_time::HostTime;
use super::memory::Share;
use super::output::Traces;
use super::process::Process;
use super::progress::{Figures, Progress};
use super::receive::Peer;
use super::stacks::{Named, Stacks};
use super::starting::Starting;
use super::status::{End, add, is_exiting, shown_pid, status};
use super::sys;
use super::taken_over::Beginning;
use super::texts::Texts;
use super::thread_times::ThreadTimes;
use super::windows::{Division, Incomplete, Recording};
use super::{Error, Result};
use crate::hash::HashSet;
use crate::trace::FLUSH_INTERVAL;
use crate::trace::record::{Body, Ending, Record, Status};
use crate::why::why;
use crossbeam_channel::{Receiver, RecvTimeoutError};
use gpuspy_wire::record::{CELL_WORDS, Fact, Head, Kind, LossCause, Namespace};
use gpuspy_wire::segment::Segment;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::io;
use std::time::{Duration, Instant};

/// Limit on the threads whose numbers are kept; of more, those are forgotten that have been quiet for longest.
const MOST_THREADS: usize = 1 << 17;
/// How often the writer is called to flush while it has records: nine times in its interval.
const FLUSH: Duration = Duration::from_millis(FLUSH_INTERVAL.as_millis() as u64 / 9);
/// How often the status is taken, which reads all slots' counters.
const STATUS: Duration = Duration::from_millis(100);

/// A message from the draining thread to the writing one.
pub(super) enum Drained {
    /// Records of a thread.
    Batch(Batch),
    /// Every ring has been empty since the last such message.
    Emptied(Polled),
    /// The process waits in its exit handler until all of this is written.
    Leaving,
    /// The program was seen to be over at this moment: CLOCK_MONOTONIC_RAW, ns.
    Over(u64),
}

/// What a session has of its collector: where it writes, and whom it tells what.
#[derive(Clone, Copy)]
pub(crate) struct Place<'s> {
    /// Counts the session until it records.
    pub starting: &'s Starting<'s>,
    pub traces: &'s Mutex<Traces>,
    /// The windows of time that have traces of their own, if any.
    pub division: Option<&'s Division>,
    /// Gets a report at once, once for each trace, that it cannot be written.
    pub tell: Option<fn(&Error)>,
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

/// Forgets a quarter of the threads: those that have been quiet for longest, of which most have ended. One that makes a call after all
/// becomes known again.
fn forget_quiet(threads: &mut BTreeMap<u32, (u32, u64)>) {
    let mut latest: Vec<u64> = threads.values().map(|(_, at)| *at).collect();
    let quarter = latest.len() / 4;
    let (_, &mut quiet, _) = latest.select_nth_unstable(quarter);
    threads.retain(|_, (_, at)| *at > quiet);
}

/// The writing half of a session: converts batches and writes the trace.
pub(super) struct Recorder<'s> {
    segment: Segment<'s>,
    peer: &'s Peer,
    process: &'s Process,
    share: &'s Share<'s>,
    clock: HostTime,
    pub(super) recording: Recording<'s>,
    /// Claim number → tid, and `at` of the thread's last record.
    threads: BTreeMap<u32, (u32, u64)>,
    /// Those of them that the trace has not been told of: claim number → tid.
    new_threads: BTreeMap<u32, u32>,
    collected: u64,
    /// GPU times among them.
    timed: u64,
    corrupt: u64,
    pub(super) unknown: u64,
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
    /// When the program was seen to be over: host ns. What has its process id from then on may be another one.
    over: Option<u64>,
    /// Whether the agent has a report that a trace is incomplete. The writer tries again, so what is missing is reported at the end.
    has_failed: bool,
    tell: Option<fn(&Error)>,
}

impl<'s> Recorder<'s> {
    pub(super) fn new(
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
            over: None,
            has_failed: false,
            tell: place.tell,
        })
    }

    /// Records until the drain has ended.
    pub(super) fn record(&mut self, batches: &Receiver<Drained>, progress: &Progress) {
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
                        hangs.look(polled, self.clock.clock(), || self.clock.now());
                    }
                }
                Ok(Drained::Leaving) => self.complete(),
                Ok(Drained::Over(seen)) => self.end(seen),
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
                if self.over.is_none() && self.recording.is_over() {
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
        if !self.has_failed {
            self.peer.tell_written();
        }
    }

    /// Notes that the program is over. Of a process that ends, how long its threads have run can be read for the last time.
    fn end(&mut self, seen: u64) {
        let passed = sys::monotonic_raw().saturating_sub(seen);
        let over = self.clock.now().saturating_sub(passed);
        if !self.process.is_another_program() {
            let mut samples = self.thread_times.sample_now(|| self.clock.now());
            samples.iter_mut().for_each(|sample| sample.at = sample.at.min(over));
            self.push_all(samples);
        }
        // What was read until the drain had seen the end is from before it, too.
        self.over = Some(over.max(self.latest));
    }

    /// Begins the next window.
    fn turn(&mut self) {
        // Threads that have ended are not in the next trace. One that makes a call after all becomes known again.
        let (began, times) = (self.recording.began(), &self.thread_times);
        self.threads.retain(|thread, (_, at)| *at >= began || times.samples(*thread));
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
        if self.over.is_some() {
            return;
        }
        let samples = self.thread_times.sample(is_exiting(self.segment), || self.clock.now());
        self.push_all(samples);
        for thread in self.thread_times.take_ended() {
            self.recording.thread_ended(thread);
        }
    }

    fn push_all(&mut self, records: Vec<Record>) {
        for record in records {
            self.latest = self.latest.max(record.at);
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
            forget_quiet(&mut self.threads);
        }
        if has_called
            && self.over.is_none()
            && let Some(name) = self.thread_times.has_called(batch.thread, batch.tid)
        {
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
        let lost = lost.saturating_add(self.recording.missing());
        Figures { records: self.collected, timed: self.timed, lost, bytes: self.recording.bytes() }
    }

    /// Tells the agent of the first error, and who collects of the first of each trace.
    fn note(&mut self, written: io::Result<()>) {
        let Err(error) = written else { return };
        if !std::mem::replace(&mut self.has_failed, true) {
            self.peer.tell_failed(&Error::new(why(&error)));
        }
        let Some(tell) = self.tell else { return };
        for (path, error) in self.recording.troubled() {
            let (path, why) = (path.display(), why(&error));
            tell(&Error::new(format!(
                "cannot write {path} for now, and what finds no room will be missing: {why}"
            )));
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
        status.ended = self.over.unwrap_or(status.ended);
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

    /// Completes the trace. Returns what is missing because it could not be written.
    pub(super) fn finish(mut self, end: End) -> Option<Incomplete> {
        if self.over.is_none() {
            let samples = self.thread_times.sample_now(|| self.clock.now());
            self.push_all(samples);
        }
        let rest = self.capture_ranges.finish();
        self.write(rest);
        let named = self.stacks.finish();
        self.name_all(named);
        if let Some(hangs) = &mut self.hangs {
            hangs.finish(self.clock.clock(), self.over.unwrap_or_else(|| self.clock.now()), end.ending);
        }
        let status = self.status(end);
        let incomplete = self.recording.finish(&status);
        if let Some(incomplete) = incomplete.as_ref().filter(|_| !self.has_failed) {
            self.peer.tell_failed(&Error::new(&*incomplete.why));
        }
        incomplete
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::record::{Api, Call};

    /// The thread that had begun first was forgotten with each new one and told again, so that a Status was written with each
    /// flush.
    #[test]
    fn of_too_many_threads_those_that_make_calls_stay() {
        let mut threads = BTreeMap::from([(1, (500, 9_000)), (2, (501, 9_000))]);
        threads.extend((3..=10).map(|claim| (claim, (600 + claim, 100 * u64::from(claim)))));
        forget_quiet(&mut threads);
        assert_eq!(threads.keys().copied().collect::<Vec<_>>(), [1, 2, 6, 7, 8, 9, 10]);
        assert_eq!(threads[&1], (500, 9_000));
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
