//! Reading a trace: in order of time, with memory bounded by how much its chunks overlap.

use super::coding::Decoder;
use super::columns::ColumnReader;
use super::format::MAX_ENTRIES;
use super::index::{Chunk, Damage, Index, TraceError};
use super::record::{Body, GpuTime, Names, Record, Status};
use gpuspy_wire::record::Untimed;
use std::cmp::Ordering;
use std::collections::{BinaryHeap, HashMap};
use std::fs::{File, TryLockError};
use std::io::{Cursor, Read, Seek};
use std::path::Path;
use std::time::{Duration, Instant};

/// What a chunk being read takes besides its columns: the coding's memory.
const DECODER_BYTES: usize = 1 << 20;
/// What a late time takes in memory at most: the table that holds it may be half empty, and is there twice while it grows.
const TIME_BYTES: usize = 256;

/// Waits until nobody is writing the trace any more; `false` when somebody still is after `timeout`. A file without a byte
/// is one that is about to be written: an agent makes it before it starts a collector.
///
/// # Errors
/// Of opening it. On a file system without locks there is nothing to wait for.
pub fn wait_until_complete(path: &Path, timeout: Duration) -> Result<bool, TraceError> {
    let file = File::open(path)?;
    let began = Instant::now();
    loop {
        // Not locked while it is empty: that would keep the writer out, who locks it before the first byte.
        let is_begun = file.metadata().map_or(true, |m| m.len() > 0 || !m.is_file());
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

/// Reads a trace from any bytes, to the end: what must hold for all of them is that this returns.
pub fn read_bytes(bytes: &[u8]) {
    if let Ok(mut reader) = TraceReader::new(Cursor::new(bytes)) {
        let read = reader.records().count();
        std::hint::black_box((read, reader.damage()));
    }
}

/// An open trace.
#[derive(Debug)]
pub struct TraceReader<R = File> {
    source: R,
    index: Index,
    /// Damage that the last reading of the records found, beyond the index's.
    found: Damage,
}

impl TraceReader<File> {
    /// Opens a trace file. If it is still being written, what is in it now is what will be read.
    ///
    /// # Errors
    /// Why nothing of it can be read.
    pub fn open(path: &Path) -> Result<TraceReader, TraceError> {
        let file = File::open(path)?;
        if file.metadata()?.is_dir() {
            return Err(TraceError::IsDirectory);
        }
        TraceReader::new(file)
    }
}

impl<R: Read + Seek> TraceReader<R> {
    /// Opens a trace that lies in anything one can seek in.
    ///
    /// # Errors
    /// Why nothing of it can be read.
    pub fn new(mut source: R) -> Result<TraceReader<R>, TraceError> {
        let index = Index::of(&mut source)?;
        Ok(TraceReader { source, index, found: Damage::default() })
    }

    /// All texts.
    pub fn names(&self) -> &Names {
        &self.index.names
    }

    /// The last state of the process that is readable.
    pub fn status(&self) -> Option<&Status> {
        self.index.status.as_ref()
    }

    /// The writer came to its end in good order.
    pub fn complete(&self) -> bool {
        self.index.complete
    }

    /// What is missing, as far as was read: whole after [`records`](TraceReader::records) has run to its end.
    pub fn damage(&self) -> Damage {
        let (a, b) = (&self.index.damage, &self.found);
        Damage {
            chunks_lost: a.chunks_lost.saturating_add(b.chunks_lost),
            chunks_refused: a.chunks_refused.saturating_add(b.chunks_refused),
            records_lost_at_least: a.records_lost_at_least.saturating_add(b.records_lost_at_least),
            times_lost_at_least: a.times_lost_at_least.saturating_add(b.times_lost_at_least),
            bytes_skipped: a.bytes_skipped.saturating_add(b.bytes_skipped),
            cut: a.cut || b.cut,
        }
    }

    /// The records, from the beginning, in the order of `at`, GPU times that came late put in.
    pub fn records(&mut self) -> Records<'_, R> {
        self.found = Damage::default();
        Records {
            source: &mut self.source,
            found: &mut self.found,
            chunks: self.index.records.iter(),
            times: LateTimes::new(&self.index.times, self.index.limits.memory),
            open: BinaryHeap::new(),
            open_bytes: 0,
            most_bytes: self.index.limits.memory,
        }
    }
}

/// The records of a trace, see [`TraceReader::records`].
#[derive(Debug)]
pub struct Records<'a, R> {
    source: &'a mut R,
    found: &'a mut Damage,
    /// Not yet open, by their first `at`.
    chunks: std::slice::Iter<'a, Chunk>,
    times: LateTimes<'a>,
    open: BinaryHeap<OpenChunk<'a>>,
    open_bytes: usize,
    /// That they may take.
    most_bytes: usize,
}

/// A chunk being read: its next record, and what yields the ones after.
#[derive(Debug)]
struct OpenChunk<'a> {
    next: Record,
    chunk: &'a Chunk,
    decoder: Decoder,
    /// Entries not yet taken, `next` not among them.
    left: u32,
}

impl OpenChunk<'_> {
    fn key(&self) -> (u64, u64) {
        (self.next.at, self.chunk.header.sequence)
    }
}

/// The greatest is the one to be read next: least `at`, then in the order of writing.
impl Ord for OpenChunk<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        other.key().cmp(&self.key())
    }
}

impl PartialOrd for OpenChunk<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for OpenChunk<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for OpenChunk<'_> {}

/// What a chunk takes while it is open.
fn open_cost(chunk: &Chunk) -> usize {
    chunk.header.plain_bytes as usize + DECODER_BYTES
}

impl<'a, R: Read + Seek> Records<'a, R> {
    /// Opens all chunks that may hold the next record.
    fn open_due(&mut self) {
        while let Some(chunk) = self.chunks.as_slice().first() {
            if self.open.peek().is_some_and(|open| open.next.at < chunk.header.first) {
                break;
            }
            self.chunks.next();
            if self.open_bytes + open_cost(chunk) > self.most_bytes {
                self.found.refuse(&chunk.header, chunk.bytes());
                continue;
            }
            let plain = chunk.plain(self.source);
            match plain.and_then(|plain| ColumnReader::new(plain, chunk.header.entries)) {
                Some(columns) => {
                    self.open_bytes += open_cost(chunk);
                    self.advance(chunk, Decoder::new(columns), chunk.header.entries, chunk.header.first);
                }
                None => self.found.lose(&chunk.header, chunk.bytes()),
            }
        }
    }

    /// Takes the next record of an open chunk and puts the chunk back, or closes it.
    fn advance(&mut self, chunk: &'a Chunk, mut decoder: Decoder, mut left: u32, not_before: u64) {
        while left > 0 {
            match decoder.record() {
                // Out of order or out of the header's range it would break the order of all.
                Ok(Some(next)) if (not_before..=chunk.header.last).contains(&next.at) => {
                    self.open.push(OpenChunk { next, chunk, decoder, left: left - 1 });
                    return;
                }
                Ok(None) => left -= 1, // of a kind from a later version
                _ => {
                    self.found.chunks_lost = self.found.chunks_lost.saturating_add(1);
                    self.found.lose_entries(&chunk.header, left);
                    break;
                }
            }
        }
        self.open_bytes -= open_cost(chunk);
    }
}

impl<R: Read + Seek> Iterator for Records<'_, R> {
    type Item = Record;

    fn next(&mut self) -> Option<Record> {
        self.open_due();
        let OpenChunk { next: mut record, chunk, decoder, left } = self.open.pop()?;
        self.advance(chunk, decoder, left, record.at);
        if let Body::Work(work) = &mut record.body
            && work.untimed == Untimed::Timed
            && work.gpu.is_none()
        {
            work.gpu = self.times.take(self.source, self.found, record.at, work.call.correlation);
        }
        Some(record)
    }
}

/// The late times that may belong to the records around the present moment.
#[derive(Debug)]
struct LateTimes<'a> {
    /// Not yet open, by their first `at`.
    chunks: std::slice::Iter<'a, Chunk>,
    /// By correlation: the last `at` of the chunk that it is from, and the time.
    waiting: HashMap<u64, (u64, GpuTime)>,
    /// How many may wait.
    most: usize,
    /// How many may wait before those whose moment has passed are looked for.
    crowded: usize,
}

impl<'a> LateTimes<'a> {
    fn new(chunks: &'a [Chunk], memory: usize) -> LateTimes<'a> {
        let most = memory / TIME_BYTES;
        LateTimes { chunks: chunks.iter(), waiting: HashMap::new(), most, crowded: 0 }
    }

    /// The time of an operation that stands at `at`; moments never go back.
    fn take(
        &mut self,
        source: &mut (impl Read + Seek),
        found: &mut Damage,
        at: u64,
        correlation: u64,
    ) -> Option<GpuTime> {
        while let Some(chunk) = self.chunks.as_slice().first().filter(|chunk| chunk.header.first <= at) {
            self.chunks.next();
            if chunk.header.last < at {
                continue; // of records that were lost, or it would have been wanted earlier
            }
            self.forget_passed(at);
            if self.waiting.len() + chunk.header.entries as usize > self.most {
                found.refuse(&chunk.header, chunk.bytes());
                continue;
            }
            match Self::read(source, chunk) {
                Some(times) => self.wait(chunk.header.last, at, times),
                None => found.lose(&chunk.header, chunk.bytes()),
            }
        }
        self.waiting.remove(&correlation).filter(|(last, _)| *last >= at).map(|(_, time)| time)
    }

    /// Puts a chunk's times beside those that wait. Of two of one operation the first is taken, while it is not too late.
    fn wait(&mut self, last: u64, at: u64, times: Vec<(u64, GpuTime)>) {
        for (correlation, time) in times {
            let held = self.waiting.entry(correlation).or_insert((last, time));
            if held.0 < at {
                *held = (last, time);
            }
        }
    }

    /// Drops the times whose operations were lost. Each time is looked at a few times in all, because as many come
    /// before the next look as were left by the last one.
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
