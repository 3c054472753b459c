//! How is a trace written? Append-only, in chunks, with bounded memory.

use super::coding::Encoder;
use super::format::{ChunkKind, Header, MAGIC, MAX_ENTRIES, MAX_PLAIN, VERSION};
use super::meta::{self, Summary};
use super::pending::{Pending, Place};
use super::record::{GpuTime, Record, Status};
use gpuspy_wire::record::Namespace;
use std::collections::{BTreeMap, VecDeque};
use std::fs::{File, TryLockError};
use std::io::{self, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// Everything is in the file after this time, if [`TraceWriter::flush_if_due`] is called nine times in it. With the
/// longest pause of the drain, a record is in the file 100 ms after the program has made it.
pub const FLUSH_INTERVAL: Duration = Duration::from_millis(90);
/// The least time that a record has to meet its GPU time before it is written: longer than the poller's longest wake-up
/// delay, and than the 256 operations that a stream may have in flight usually take. More of it would make chunks shorter,
/// which costs more of the file than times that are written late.
const JOIN_TIME: Duration = Duration::from_millis(20);
/// The mode of a trace: names of kernels, files and functions, and command lines, are only its owner's.
pub const PRIVATE: u32 = 0o600;
/// Records in a full chunk.
const CHUNK_RECORDS: usize = MAX_ENTRIES as usize;
/// Limit on pending records: two chunks, less than 1 MiB of the file, so that records of a burst have had time to meet
/// their GPU times.
const MAX_PENDING: usize = 2 * CHUNK_RECORDS;
/// The least time between two Statuses of which only the counters differ, host ns: those of a process that does nothing grow all
/// the same.
const COUNTERS: u64 = 10_000_000_000;
/// How many chunks at the end may give way to the End of a file on a full disk.
const GIVE_WAY: usize = 8;
/// Bytes of names that are written as a chunk before a flush is due.
const NAMES_BYTES: usize = 256 << 10;
/// Limit on the threads whose numbers are kept for the last Status; of more, the oldest are left out of it, but for those that the
/// process still has.
const MOST_THREADS: usize = 1 << 17;
const _: () = assert!(NAMES_BYTES + meta::MAX_NAME + 64 < MAX_PLAIN as usize);

/// Writes one trace file.
///
/// The file is locked (`flock`, exclusive) until the writer is dropped;
/// [`wait_until_complete`](super::wait_until_complete) waits for that. The writer can continue after an error: it
/// cuts off a chunk that was written in part, and tries again with the next flush. Records that meanwhile exceed the
/// limit are given up, and the reader reports how many are missing.
#[derive(Debug)]
pub struct TraceWriter {
    file: File,
    /// Size of the whole chunks in the file, bytes.
    bytes: u64,
    /// The latest chunks, which may have to give way to the End. The first two are never among them.
    latest: VecDeque<Chunk>,
    /// What is in no chunk because it could not be written.
    missing: Missing,
    /// Why a part could not be written: the latest error's number.
    write_error: Option<i32>,
    sequence: u64,
    /// The number of records in the chunks so far, including those given up.
    records: u64,
    given_up: u64,
    pending: Pending,
    /// When the pending records were last marked, and how many of the marked ones are still pending.
    marked_at: Option<Instant>,
    marked: Option<usize>,
    late: Vec<(u64, u64, GpuTime)>,
    late_written: u64,
    names: Vec<u8>,
    names_count: u32,
    /// The latest status. Its threads are those that no Status in the file lists.
    status: Status,
    status_written: Option<Status>,
    /// When the losses were last fewer than those that the next Status in the file has, host ns; `None` if the last one has them.
    lost_since: Option<u64>,
    /// All threads so far.
    threads: BTreeMap<u32, u32>,
    /// The number of threads that the last Status in the file lists.
    threads_listed: usize,
}

/// A chunk in the file.
#[derive(Clone, Copy, Debug)]
struct Chunk {
    /// Where it begins.
    at: u64,
    /// The number of its records.
    records: u64,
}

/// What a trace lacks because it could not be written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Missing {
    /// Whether it lacks something: records, GPU times, names or its end.
    pub something: bool,
    /// The number of records among that.
    pub records: u64,
}

/// How long a file without a chunk may be locked by others, and how often that is looked at: a process that was started at the same moment
/// with the same name for its trace finds out that the file is not its own.
const LOOK: Duration = Duration::from_millis(10);
const LOOKS: u32 = 20;

/// Locks the file of a trace against other writers.
fn lock(file: &File) -> io::Result<()> {
    for _ in 0..LOOKS {
        match file.try_lock() {
            // On a file system without locks, only `wait_until_complete` does not work.
            Ok(()) | Err(TryLockError::Error(_)) => return Ok(()),
            Err(TryLockError::WouldBlock) if file.metadata()?.len() > MAGIC.len() as u64 => break,
            Err(TryLockError::WouldBlock) => std::thread::sleep(LOOK),
        }
    }
    Err(io::Error::new(io::ErrorKind::WouldBlock, "another process is writing this trace"))
}

impl TraceWriter {
    /// Creates or empties the file and writes what is known about the process.
    ///
    /// # Errors
    /// Fails if opening or writing fails; with [`io::ErrorKind::WouldBlock`] if another writer has the file.
    pub fn create(path: &Path, status: &Status) -> io::Result<TraceWriter> {
        let file = File::options().write(true).create(true).truncate(false).mode(PRIVATE).open(path)?;
        lock(&file)?;
        if file.metadata()?.is_file() {
            file.set_len(0)?;
        }
        let mut writer = TraceWriter {
            file,
            bytes: 0,
            latest: VecDeque::new(),
            missing: Missing::default(),
            write_error: None,
            sequence: 0,
            records: 0,
            given_up: 0,
            pending: Pending::new(),
            marked_at: None,
            marked: None,
            late: Vec::new(),
            late_written: 0,
            names: Vec::new(),
            names_count: 0,
            status: status.clone(),
            status_written: None,
            lost_since: (status.records_lost() > 0).then_some(status.began),
            threads: status.threads.clone(),
            threads_listed: 0,
        };
        let author = concat!("gpuspy ", env!("CARGO_PKG_VERSION"));
        writer.write_plain(ChunkKind::File, author.as_bytes(), 1)?;
        writer.write_status()?;
        // What says whose trace it is gives way to nothing.
        writer.latest.clear();
        Ok(writer)
    }

    /// Adds a name.
    ///
    /// # Errors
    /// Fails if writing does; then the name was not added.
    pub fn name(&mut self, namespace: Namespace, id: u32, text: &str) -> io::Result<()> {
        if self.names.len() >= NAMES_BYTES || self.names_count == MAX_ENTRIES {
            self.write_names().inspect_err(|_| self.missing.something = true)?;
        }
        meta::push_name(&mut self.names, namespace, id, text);
        self.names_count += 1;
        Ok(())
    }

    /// Adds a record.
    ///
    /// # Errors
    /// Fails if the limit on pending records made a write necessary and that failed; those records are given up.
    pub fn push(&mut self, record: Record) -> io::Result<()> {
        let mut result = Ok(());
        if self.pending.len() >= MAX_PENDING {
            result = self.write_records(CHUNK_RECORDS);
            if result.is_err() {
                self.give_up(CHUNK_RECORDS);
            }
        }
        self.pending.push(record);
        result
    }

    /// Adds the GPU time of the operation with this correlation, whose record may come before or after it.
    ///
    /// # Errors
    /// Fails if the limit on pending times made a write necessary and that failed; those times are given up.
    pub fn gpu_time(&mut self, correlation: u64, time: GpuTime) -> io::Result<()> {
        let mut result = Ok(());
        if let Place::Late { at } = self.pending.time(correlation, time) {
            if self.late.len() >= CHUNK_RECORDS {
                result = self.write_late();
                self.missing.something |= result.is_err();
                self.late.clear();
            }
            self.late.push((at, correlation, time));
        }
        result
    }

    /// Keeps the operations that are written without their GPU times from here on, for [`held`](Self::held).
    pub fn keep_late(&mut self) {
        self.pending.keep_late();
    }

    /// The records that are not written, and before them, in any order, the operations that were written without their GPU times,
    /// if these are [kept](Self::keep_late).
    pub fn held(&self) -> impl Iterator<Item = &Record> {
        self.pending.held()
    }

    /// The number of records that wait for their GPU times.
    pub fn pending(&self) -> usize {
        self.pending.len()
    }

    /// The number of operations whose GPU times have not come.
    pub fn awaiting(&self) -> usize {
        self.pending.awaiting()
    }

    /// Whether this operation is among them.
    pub fn awaits(&self, correlation: u64) -> bool {
        self.pending.awaits(correlation)
    }

    /// What the trace lacks, at the latest after [`end_here`](Self::end_here).
    pub fn missing(&self) -> Missing {
        self.missing
    }

    /// Why a part could not be written: the latest error, if any. What it was about may be in the file by now.
    pub fn write_error(&self) -> Option<io::Error> {
        self.write_error.map(io::Error::from_raw_os_error)
    }

    /// Size of the file so far, bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Takes the latest status of the process, which is written with the next flush if it has changed. It may leave out threads
    /// that one before it had.
    pub fn status(&mut self, status: &Status) {
        let mut unlisted = std::mem::take(&mut self.status.threads);
        unlisted.extend(status.threads.iter().filter(|(claim, tid)| self.threads.get(claim) != Some(tid)));
        if status.records_lost() > self.status.records_lost() {
            self.lost_since.get_or_insert(self.status.ended);
        }
        meta::add_threads(&mut self.threads, &status.threads, MOST_THREADS);
        self.status = Status { threads: unlisted, write_error: self.write_error, ..status.clone() };
    }

    /// Flushes what is due; call this every few milliseconds. It marks what has come so far, and writes what was
    /// marked 20 ms before. So every record has at least that long to meet its GPU time, and is in the file after a
    /// [`FLUSH_INTERVAL`].
    ///
    /// # Errors
    /// Fails if writing does.
    pub fn flush_if_due(&mut self, now: Instant) -> io::Result<()> {
        let since = now.saturating_duration_since(*self.marked_at.get_or_insert(now));
        let mut result = Ok(());
        if since >= JOIN_TIME
            && let Some(marked) = self.marked.take()
        {
            result = self.flush_oldest(marked);
        }
        if since >= FLUSH_INTERVAL - JOIN_TIME {
            self.marked_at = Some(now);
            self.marked = Some(self.pending.len());
        }
        result
    }

    /// Writes everything.
    ///
    /// # Errors
    /// Fails if writing does.
    pub fn flush(&mut self) -> io::Result<()> {
        self.flush_oldest(self.pending.len())
    }

    /// Writes everything and an End chunk, and may go on: the last End counts. If the writer is killed after this, the trace is
    /// whole.
    ///
    /// # Errors
    /// Fails if writing does.
    pub fn complete(&mut self, status: &Status) -> io::Result<()> {
        self.status(status);
        self.status.threads.clone_from(&self.threads);
        self.flush()?;
        self.end().map(drop)
    }

    /// Writes everything and the End chunk. It does not wait until all of it is on the disk: that can take seconds where others
    /// write much, and `gpuspy run` ends only after this.
    ///
    /// # Errors
    /// Fails if writing does. The file then contains as much as could be written, and as its end how the process ended
    /// and why something is missing.
    pub fn finish(mut self, status: &Status) -> io::Result<Summary> {
        self.end_here(status)
    }

    /// Does the same, and tells then what is [missing](Self::missing). Nothing is added after this.
    ///
    /// # Errors
    /// As [`finish`](Self::finish).
    pub fn end_here(&mut self, status: &Status) -> io::Result<Summary> {
        self.status(status);
        // This is the Status before the End unless something fails.
        self.status.threads.clone_from(&self.threads);
        let error = match self.flush().and_then(|()| self.end()) {
            Ok(summary) => return Ok(summary),
            Err(error) => error,
        };
        if self.pending.len() > 0 || self.names_count > 0 || !self.late.is_empty() {
            self.give_up(self.pending.len());
        }
        self.missing.something = true;
        self.status(status);
        self.end_in_place_of_the_latest()?;
        Err(error)
    }

    /// Writes the end, in the place of the latest chunks if a full disk has no room for both. It is worth more than the last
    /// records.
    fn end_in_place_of_the_latest(&mut self) -> io::Result<()> {
        loop {
            let (whole, sequence) = (self.bytes, self.sequence);
            if self.end().is_ok() {
                return Ok(());
            }
            // A Status that fitted without the End is no older chunk: if it alone gave way, there would be no more room than before.
            self.latest.retain(|chunk| chunk.at < whole);
            // If nothing can give way, such a Status says more than nothing.
            let Some(older) = self.latest.pop_back() else { return Ok(()) };
            // The sequence of the older chunks goes on, so the reader knows that one is missing, and how many records.
            self.cut_back_to(older.at)?;
            self.missing.records += older.records;
            self.sequence = sequence;
            self.status_written = None;
        }
    }

    /// Writes the last status, with all threads, and the End chunk.
    fn end(&mut self) -> io::Result<Summary> {
        if self.status_written.as_ref() != Some(&self.status) || self.threads_listed < self.threads.len() {
            self.status.threads.clone_from(&self.threads);
            self.write_status()?;
        }
        let mut summary = Summary {
            bytes: self.bytes,
            records: self.records - self.given_up,
            timed_joined: self.pending.joined(),
            timed_late: self.late_written,
            timed_orphaned: self.pending.orphaned(),
        };
        self.write_plain(ChunkKind::End, &meta::end_to_bytes(&summary), 4)?;
        self.file.flush()?;
        summary.bytes = self.bytes;
        Ok(summary)
    }

    fn flush_oldest(&mut self, count: usize) -> io::Result<()> {
        self.write_names()?;
        let mut left = count.min(self.pending.len());
        while left > 0 {
            let part = left.min(CHUNK_RECORDS);
            self.write_records(part)?;
            left -= part;
        }
        self.write_late()?;
        if self.is_status_due() { self.write_status() } else { Ok(()) }
    }

    /// Whether the status has changed. A later time alone is not a change, and larger counters are one after a while.
    fn is_status_due(&self) -> bool {
        let Some(written) = &self.status_written else { return true };
        let mut status = Status { ended: written.ended, ..self.status.clone() };
        if self.status.ended.saturating_sub(written.ended) < COUNTERS {
            (status.agent_ns, status.poller_ns) = (written.agent_ns, written.poller_ns);
            (status.calls, status.published, status.collected) =
                (written.calls, written.published, written.collected);
        }
        status != *written
    }

    fn write_names(&mut self) -> io::Result<()> {
        if self.names_count == 0 {
            return Ok(());
        }
        let names = std::mem::take(&mut self.names);
        let result = self.write_plain(ChunkKind::Names, &names, self.names_count);
        self.names = names;
        if result.is_ok() {
            self.names.clear();
            self.names_count = 0;
        }
        result
    }

    fn write_records(&mut self, count: usize) -> io::Result<()> {
        let mut encoder = Encoder::default();
        let oldest = self.pending.oldest(count);
        let (Some(first), Some(last)) = (oldest.first(), oldest.last()) else { return Ok(()) };
        let (range, entries) = ((first.at, last.at), oldest.len());
        for record in oldest {
            encoder.record(record);
        }
        self.write_chunk(ChunkKind::Records, encoder.pack()?, entries as u32, range)?;
        self.records += entries as u64;
        self.pending.written(entries);
        self.marked = self.marked.map(|marked| marked.saturating_sub(entries));
        Ok(())
    }

    /// Gives up records. That leaves a hole in the sequence, which the reader reports.
    fn give_up(&mut self, count: usize) {
        self.sequence += 1;
        self.records += count as u64;
        self.given_up += count as u64;
        self.missing = Missing { something: true, records: self.missing.records + count as u64 };
        self.pending.give_up(count);
        self.marked = self.marked.map(|marked| marked.saturating_sub(count));
    }

    fn write_late(&mut self) -> io::Result<()> {
        let moments = || self.late.iter().map(|(at, ..)| *at);
        let (Some(first), Some(last)) = (moments().min(), moments().max()) else { return Ok(()) };
        let mut encoder = Encoder::default();
        for (_, correlation, time) in &self.late {
            encoder.time(*correlation, time);
        }
        let entries = self.late.len();
        self.write_chunk(ChunkKind::Times, encoder.pack()?, entries as u32, (first, last))?;
        self.late_written += entries as u64;
        self.late.clear();
        Ok(())
    }

    fn write_status(&mut self) -> io::Result<()> {
        let bytes = meta::status_to_bytes(&self.status, self.lost_since);
        let entries = (bytes.len() / meta::ENTRY_BYTES).min(MAX_ENTRIES as usize);
        self.write_plain(ChunkKind::Status, &bytes, entries as u32)?;
        // Each Status with all threads that ever were would make the file grow with their square.
        self.threads_listed = std::mem::take(&mut self.status.threads).len();
        self.status_written = Some(self.status.clone());
        self.lost_since = None;
        Ok(())
    }

    /// Writes a payload, compressed if that makes it smaller.
    fn write_plain(&mut self, kind: ChunkKind, plain: &[u8], entries: u32) -> io::Result<()> {
        let frame = zstd::bulk::compress(plain, super::columns::LEVEL)?;
        let packed = if frame.len() < plain.len() {
            (frame, super::format::FLAG_ZSTD, plain.len() as u32)
        } else {
            (plain.to_vec(), 0, plain.len() as u32)
        };
        self.write_chunk(kind, packed, entries, (0, 0))
    }

    fn write_chunk(
        &mut self,
        kind: ChunkKind,
        (payload, flags, plain_bytes): (Vec<u8>, u16, u32),
        entries: u32,
        (first, last): (u64, u64),
    ) -> io::Result<()> {
        let header = Header {
            kind: kind as u8,
            version: VERSION,
            flags,
            payload_bytes: payload.len() as u32,
            plain_bytes,
            entries,
            payload_checksum: crc32fast::hash(&payload),
            sequence: self.sequence,
            records_before: self.records,
            first,
            last,
        };
        let chunk = [&header.to_bytes()[..], &payload].concat();
        if let Err(error) = self.file.write_all(&chunk) {
            self.write_error = error.raw_os_error();
            // If the file cannot be truncated (a pipe), the reader finds the next header by its magic.
            let _uncut = self.cut_back_to(self.bytes);
            return Err(error);
        }
        let records = if kind == ChunkKind::Records { u64::from(entries) } else { 0 };
        self.latest.push_back(Chunk { at: self.bytes, records });
        if self.latest.len() > GIVE_WAY {
            self.latest.pop_front();
        }
        self.bytes += chunk.len() as u64;
        self.sequence += 1;
        Ok(())
    }

    /// Shortens the file to some of its whole chunks.
    fn cut_back_to(&mut self, bytes: u64) -> io::Result<()> {
        self.file.set_len(bytes)?;
        self.file.seek(SeekFrom::Start(bytes))?;
        self.bytes = bytes;
        Ok(())
    }
}
