//! How is a trace read in order of time? By merging its chunks, with memory bounded by how much they overlap.

use super::coding::Decoder;
use super::columns::ColumnReader;
use super::format::{MAGIC, MAX_ENTRIES};
use super::index::{Chunk, Damage, Index, TraceError};
use super::lost::LostTime;
use super::record::{Body, GpuTime, Names, Record, Status};
use super::windows::{Files, Part};
use crate::ahead::ahead;
use crate::hash::HashMap;
use gpuspy_wire::record::{Namespace, Untimed};
use std::cmp::Reverse;
use std::collections::binary_heap::PeekMut;
use std::collections::{BTreeSet, BinaryHeap};
use std::fs::{File, TryLockError};
use std::io::{Cursor, Read, Seek};
use std::path::Path;
use std::time::{Duration, Instant};

/// The records of a [`batch`].
const BATCH: usize = 256;
/// Memory of an open chunk in addition to its columns: that of the decoder, bytes.
const DECODER_BYTES: usize = 1 << 20;
/// Upper bound on the memory of a late time, bytes: the table that contains it may be half empty, and exists twice
/// while it grows.
const TIME_BYTES: usize = 256;

/// Returns the next records, as many as are handed from thread to thread at once; `None` at the end.
pub fn batch(records: &mut impl Iterator<Item = Record>) -> Option<Vec<Record>> {
    let mut batch = Vec::with_capacity(BATCH);
    batch.extend(records.take(BATCH));
    (!batch.is_empty()).then_some(batch)
}

/// Waits until no process is writing the trace any more; returns `false` if one still is after `timeout`. An empty
/// file, and one with a trace's first bytes alone, is about to be written: an agent creates it before it starts a collector.
///
/// # Errors
/// Fails if the file cannot be opened. On a file system without locks, returns `true` at once.
pub fn wait_until_complete(path: &Path, timeout: Duration) -> Result<bool, TraceError> {
    let file = File::open(path)?;
    let began = Instant::now();
    loop {
        // Such a file is not locked here, because that would keep out the writer, which locks it before it writes.
        let is_begun = file.metadata().map_or(true, |m| m.len() > MAGIC.len() as u64 || !m.is_file());
        match is_begun.then(|| file.try_lock_shared()) {
            None | Some(Err(TryLockError::WouldBlock)) => {
                if began.elapsed() >= timeout {
                    return Ok(!is_begun);
                }
                std::thread::sleep(Duration::from_millis(10));
            }
            Some(Ok(()) | Err(TryLockError::Error(_))) => return Ok(true),
        }
    }
}

/// Reads a trace from arbitrary bytes to its end, for fuzzing: this returns for all of them.
pub fn read_bytes(bytes: &[u8]) {
    if let Ok(mut reader) = TraceReader::new(Cursor::new(bytes)) {
        let read = reader.records().count();
        std::hint::black_box((read, reader.damage()));
    }
}

/// An open trace, or the traces of successive windows of a process as one.
#[derive(Debug)]
pub struct TraceReader<R = Files> {
    source: R,
    index: Index,
    /// What is read instead of earlier records.
    start: Start,
    /// Damage that the latest pass over the records found, in addition to the index's.
    found: Found,
}

/// Where the records begin that are read.
#[derive(Debug, Default)]
struct Start {
    /// Host ns before which none is read.
    since: u64,
    /// What is read in their place.
    before: Vec<Record>,
}

/// Damage that a pass over the records finds.
#[derive(Debug, Default)]
struct Found {
    damage: Damage,
    /// When the records were made that it took.
    lost: LostTime,
    /// The numbers of the files that it is in.
    parts: BTreeSet<u32>,
}

impl Found {
    /// A chunk is unreadable.
    fn lose(&mut self, chunk: &Chunk) {
        self.damage.lose(&chunk.header, chunk.bytes());
        self.parts.insert(chunk.part);
    }

    /// A chunk claims too much.
    fn refuse(&mut self, chunk: &Chunk) {
        self.damage.refuse(&chunk.header, chunk.bytes());
        self.parts.insert(chunk.part);
    }
}

impl TraceReader {
    /// Opens a trace file. If it is still being written, its present contents will be read.
    ///
    /// # Errors
    /// Says why no part of it can be read.
    pub fn open(path: &Path) -> Result<TraceReader, TraceError> {
        let mut file = File::open(path)?;
        if file.metadata()?.is_dir() {
            return Err(TraceError::IsDirectory);
        }
        // Asked before the contents are read: a writer that comes to its end in between has written all of them.
        let has_writer = has_writer(&file);
        let mut index = Index::of(&mut file)?;
        index.damage.unfinished = !has_writer && !index.complete;
        let could_not_write = index.status.as_ref().is_some_and(|status| status.write_error.is_some());
        index.damaged.extend((could_not_write || !index.damage.is_none()).then_some(0));
        let source = Files::one(path.to_owned(), file, index.bytes);
        Ok(TraceReader { source, index, start: Start::default(), found: Found::default() })
    }

    /// Reads on with the trace of the next window of the same process.
    ///
    /// # Errors
    /// Says why no part of it can be read; what was open before stays so.
    pub fn continue_with(&mut self, path: &Path) -> Result<(), TraceError> {
        let TraceReader { index, .. } = TraceReader::open(path)?;
        self.source.push(path.to_owned(), index.bytes);
        self.index.continue_with(index);
        Ok(())
    }

    /// Returns the files that lack something, in order; complete after [`records`](TraceReader::records) has run to its end.
    pub fn damaged(&self) -> impl Iterator<Item = &Path> {
        self.index.damaged.union(&self.found.parts).filter_map(|part| self.source.path(*part))
    }

    /// How many files are read as one.
    pub fn windows(&self) -> usize {
        self.source.count()
    }

    /// The bytes of all of them.
    pub fn bytes(&self) -> u64 {
        self.index.bytes
    }
}

/// Whether a writer has the file, as far as its file system knows locks; otherwise one may have it.
fn has_writer(file: &File) -> bool {
    let is_free = file.try_lock_shared().is_ok();
    // If this fails, the lock is held for as long as the reader exists, and only a new writer would notice.
    let _ = file.unlock();
    !is_free
}

impl<R: Read + Seek> TraceReader<R> {
    /// Opens a trace in any seekable source.
    ///
    /// # Errors
    /// Says why no part of it can be read.
    pub fn new(mut source: R) -> Result<TraceReader<R>, TraceError> {
        let index = Index::of(&mut source)?;
        Ok(TraceReader { source, index, start: Start::default(), found: Found::default() })
    }

    /// All names.
    pub fn names(&self) -> &Names {
        &self.index.names
    }

    /// The last readable status of the process.
    pub fn status(&self) -> Option<&Status> {
        self.index.status.as_ref()
    }

    /// Whether the writer closed the trace properly.
    pub fn complete(&self) -> bool {
        self.index.complete
    }

    /// What is found missing so far; complete after [`records`](TraceReader::records) has run to its end.
    pub fn damage(&self) -> Damage {
        let write_error = self.status().and_then(|status| status.write_error);
        Damage { write_error, ..self.index.damage.and(&self.found.damage) }
    }

    /// Returns when records may have been lost, as far as it is known so far; complete after [`records`](TraceReader::records) has
    /// run to its end.
    pub fn lost_time(&self) -> LostTime {
        let mut lost = self.index.lost.clone();
        lost.extend(&self.found.lost);
        lost
    }

    /// Calls a function with each of the [`records`](TraceReader::records), which are decoded ahead on another thread.
    pub fn each(&mut self, mut observe: impl FnMut(&Record))
    where
        R: Send,
    {
        let mut records = self.records();
        ahead(
            || batch(&mut records),
            |batches| batches.for_each(|batch| batch.iter().for_each(&mut observe)),
        );
    }

    /// No record is earlier than this: host ns.
    pub fn not_before(&self) -> u64 {
        let first = self.index.records.first().map_or(0, |chunk| chunk.header.first);
        self.start.before.first().map_or(first.max(self.start.since), |before| before.at)
    }

    /// The trace has come as far as this: host ns.
    pub fn ended(&self) -> u64 {
        let last = self.index.records.iter().map(|chunk| chunk.header.last).max().unwrap_or(0);
        self.status().map_or(last, |status| status.ended.max(last))
    }

    /// Reads no records before host ns `since` from now on, and these in their place, which are in order and not later. Chunks that end
    /// before are not unpacked.
    pub fn begin_at(&mut self, since: u64, before: Vec<Record>) {
        self.start = Start { since, before };
    }

    /// Adds a name, or replaces it.
    pub fn name(&mut self, namespace: Namespace, id: u32, text: String) {
        self.index.names.0.insert((namespace, id), text);
    }

    /// The records from the start, in the order of `at`, with late GPU times filled in.
    pub fn records(&mut self) -> Records<'_, R> {
        self.found = Found::default();
        Records {
            source: &mut self.source,
            found: &mut self.found,
            before: self.start.before.iter(),
            since: self.start.since,
            last: 0,
            chunks: self.index.records.iter(),
            parts: &self.index.parts,
            times: LateTimes::new(&self.index.times, self.index.limits.memory),
            open: Vec::new(),
            order: BinaryHeap::new(),
            open_bytes: 0,
            most_bytes: self.index.limits.memory,
        }
    }
}

/// The records of a trace; see [`TraceReader::records`].
#[derive(Debug)]
pub struct Records<'a, R> {
    source: &'a mut R,
    found: &'a mut Found,
    before: std::slice::Iter<'a, Record>,
    since: u64,
    /// The last time of the chunk that was opened last.
    last: u64,
    /// Chunks that are not open yet, ordered by `first`.
    chunks: std::slice::Iter<'a, Chunk>,
    parts: &'a [Part],
    times: LateTimes<'a>,
    /// The open chunks; `None`: a place for another.
    open: Vec<Option<OpenChunk<'a>>>,
    /// The open chunks by their next record: the one with the least `at`, then the one that was written first.
    order: BinaryHeap<Reverse<Next>>,
    open_bytes: usize,
    /// Limit on `open_bytes`.
    most_bytes: usize,
}

/// The next record of an open chunk: its `at`, the sequence number of the chunk, and its place in `open`.
type Next = (u64, u64, usize);

/// An open chunk: its next record, and the decoder for the following ones.
#[derive(Debug)]
struct OpenChunk<'a> {
    next: Record,
    chunk: &'a Chunk,
    /// What counts of its file.
    part: &'a Part,
    /// Earlier records are left out.
    since: u64,
    decoder: Decoder,
    /// The number of entries after `next`.
    left: u32,
}

/// Memory of a chunk while it is open, bytes.
fn open_cost(chunk: &Chunk) -> usize {
    chunk.header.plain_bytes as usize + DECODER_BYTES
}

impl OpenChunk<'_> {
    /// Decodes the next record, in the place of the one before; returns `false` if there is none.
    fn advance(&mut self, not_before: u64, found: &mut Found) -> bool {
        while self.left > 0 {
            match self.decoder.record(&mut self.next) {
                // A record out of order, or outside the header's range, would break the order of the whole trace.
                Ok(true) if (not_before..=self.chunk.header.last).contains(&self.next.at) => {
                    self.left -= 1;
                    if self.next.at >= self.since && self.part.has(&self.next) {
                        return true;
                    }
                }
                Ok(false) => self.left -= 1, // A kind from a later version.
                _ => {
                    found.damage.chunks_lost = found.damage.chunks_lost.saturating_add(1);
                    found.damage.lose_entries(&self.chunk.header, self.left);
                    found.lost.add(not_before, self.chunk.header.last);
                    found.parts.insert(self.chunk.part);
                    break;
                }
            }
        }
        false
    }
}

impl<R: Read + Seek> Records<'_, R> {
    /// Opens all chunks that may contain the next record.
    fn open_due(&mut self) {
        while let Some(chunk) = self.chunks.as_slice().first() {
            if self.order.peek().is_some_and(|Reverse((at, ..))| *at < chunk.header.first) {
                break;
            }
            self.chunks.next();
            let last_before = std::mem::replace(&mut self.last, chunk.header.last);
            if chunk.header.last < self.since {
                continue;
            }
            if self.open_bytes + open_cost(chunk) > self.most_bytes {
                self.found.refuse(chunk);
                self.found.lost.add_chunk(&chunk.header, last_before);
                continue;
            }
            let plain = chunk.plain(self.source);
            let Some(columns) = plain.and_then(|plain| ColumnReader::new(plain, chunk.header.entries)) else {
                self.found.lose(chunk);
                self.found.lost.add_chunk(&chunk.header, last_before);
                continue;
            };
            let (decoder, left) = (Decoder::new(columns), chunk.header.entries);
            // Any record will do: the first one is decoded in its place.
            let next = Record { thread: 0, at: 0, body: Body::CaptureEdge { begins: false } };
            let part = self.parts.get(chunk.part as usize).unwrap_or(&Part::WHOLE);
            let mut open = OpenChunk { next, chunk, part, since: self.since, decoder, left };
            if open.advance(chunk.header.first, self.found) {
                self.open_bytes += open_cost(chunk);
                let place = self.open.iter().position(Option::is_none).unwrap_or(self.open.len());
                self.order.push(Reverse((open.next.at, chunk.header.sequence, place)));
                self.open.resize_with(self.open.len().max(place + 1), || None);
                self.open[place] = Some(open);
            }
        }
    }
}

impl<R: Read + Seek> Iterator for Records<'_, R> {
    type Item = Record;

    fn next(&mut self) -> Option<Record> {
        if let Some(before) = self.before.next() {
            return Some(before.clone());
        }
        self.open_due();
        let mut first = self.order.peek_mut()?;
        let Reverse((at, _, place)) = *first;
        let open = self.open[place].as_mut()?;
        let mut record = open.next.clone();
        if open.advance(at, self.found) {
            // Usually its next record is the least one again, and then nothing moves.
            if open.next.at > at {
                first.0.0 = open.next.at;
            }
        } else {
            PeekMut::pop(first);
            self.open_bytes -= open_cost(open.chunk);
            self.open[place] = None;
        }
        if let Body::Work(work) = &mut record.body
            && work.untimed == Untimed::Timed
            && work.gpu.is_none()
        {
            work.gpu = self.times.take(self.source, self.found, record.at, work.call.correlation);
        }
        Some(record)
    }
}

/// Late times whose records may come next.
#[derive(Debug)]
struct LateTimes<'a> {
    /// Chunks that are not open yet, ordered by `first`.
    chunks: std::slice::Iter<'a, Chunk>,
    /// Correlation → the last `at` of the chunk that the time is from, and the time.
    waiting: HashMap<u64, (u64, GpuTime)>,
    /// Limit on the waiting times.
    most: usize,
    /// The number of waiting times at which those that came too late are dropped.
    crowded: usize,
}

impl<'a> LateTimes<'a> {
    fn new(chunks: &'a [Chunk], memory: usize) -> LateTimes<'a> {
        let most = memory / TIME_BYTES;
        LateTimes { chunks: chunks.iter(), waiting: HashMap::default(), most, crowded: 0 }
    }

    /// Takes the time of the operation whose record is at `at`; calls must come in the order of `at`.
    fn take(
        &mut self,
        source: &mut (impl Read + Seek),
        found: &mut Found,
        at: u64,
        correlation: u64,
    ) -> Option<GpuTime> {
        while let Some(chunk) = self.chunks.as_slice().first().filter(|chunk| chunk.header.first <= at) {
            self.chunks.next();
            if chunk.header.last < at {
                continue; // Its records were lost, or it would have been taken earlier.
            }
            self.forget_passed(at);
            if self.waiting.len() + chunk.header.entries as usize > self.most {
                found.refuse(chunk);
                continue;
            }
            match Self::read(source, chunk) {
                Some(times) => self.wait(chunk.header.last, at, times),
                None => found.lose(chunk),
            }
        }
        self.waiting.remove(&correlation).filter(|(last, _)| *last >= at).map(|(_, time)| time)
    }

    /// Adds a chunk's times to the waiting ones. Of two times of one operation, the first counts while it is not too
    /// late.
    fn wait(&mut self, last: u64, at: u64, times: Vec<(u64, GpuTime)>) {
        for (correlation, time) in times {
            let held = self.waiting.entry(correlation).or_insert((last, time));
            if held.0 < at {
                *held = (last, time);
            }
        }
    }

    /// Drops the times whose operations were lost. The work per time is constant on average, because between two
    /// calls as many times are added as the previous call left.
    fn forget_passed(&mut self, at: u64) {
        if self.waiting.len() >= self.crowded {
            self.waiting.retain(|_, (last, _)| *last >= at);
            self.crowded = (2 * self.waiting.len()).max(MAX_ENTRIES as usize);
            self.waiting.shrink_to(self.crowded);
        }
    }

    fn read(source: &mut (impl Read + Seek), chunk: &Chunk) -> Option<Vec<(u64, GpuTime)>> {
        let columns = ColumnReader::new(chunk.plain(source)?, chunk.header.entries)?;
        let mut decoder = Decoder::new(columns);
        (0..chunk.header.entries).map(|_| decoder.time().ok()).collect()
    }
}
