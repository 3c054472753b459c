//! Where are a trace's chunks, which process is it from, and what is damaged? This is the reader's first pass.

use super::format::{ChunkKind, HEADER_BYTES, Header, MAGIC, VERSION};
use super::limits::Limits;
use super::lost::LostTime;
use super::meta;
use super::record::{Names, Status};
use super::windows::Part;
use crate::why::said;
use std::collections::BTreeSet;
use std::fmt;
use std::io::{self, Read, Seek, SeekFrom};

/// How far into a file the first chunk is searched before the file counts as something else, bytes.
const FIRST_CHUNK_WITHIN: u64 = 64 << 20;
/// Bytes read at once while searching.
const WINDOW: usize = 64 << 10;

/// Why no part of a trace can be read.
#[derive(Debug)]
pub enum TraceError {
    /// There is no such file.
    NotFound,
    /// It is a directory.
    IsDirectory,
    /// It is a pipe, a terminal or the like, in which nothing can be read again.
    NotAFile,
    /// It has no bytes.
    Empty,
    /// It is not a trace.
    NotATrace,
    /// Its format version is newer than this build's.
    Newer(u8),
    /// It starts like a trace, but has no whole chunk with content.
    NothingReadable,
    /// Reading it failed.
    Io(io::Error),
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TraceError::NotFound => f.write_str("No such file or directory"),
            TraceError::IsDirectory => f.write_str("it is a directory, not a trace file"),
            TraceError::NotAFile => {
                f.write_str("a trace has to be a file: save what is piped to one, and name that")
            }
            TraceError::Empty => f.write_str("the file is empty"),
            TraceError::NotATrace => f.write_str("it is not a gpuspy trace"),
            TraceError::Newer(version) => write!(
                f,
                "it was written by a newer gpuspy (trace format {version}; this one reads up to {VERSION})"
            ),
            TraceError::NothingReadable => {
                f.write_str("it began as a gpuspy trace, but nothing in it is readable")
            }
            TraceError::Io(error) => f.write_str(&said(error)),
        }
    }
}

impl std::error::Error for TraceError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        if let TraceError::Io(error) = self { Some(error) } else { None }
    }
}

impl From<io::Error> for TraceError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound => TraceError::NotFound,
            io::ErrorKind::IsADirectory => TraceError::IsDirectory,
            io::ErrorKind::NotSeekable => TraceError::NotAFile,
            _ => TraceError::Io(error),
        }
    }
}

/// What could not be read of a trace. It grows while records are read, because damage inside a chunk shows only then.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Damage {
    /// The number of chunks that are missing or unreadable.
    pub chunks_lost: u64,
    /// The number of intact chunks that were refused, because they claim more than a file of this size may contain.
    pub chunks_refused: u64,
    /// The number of records in those chunks, as a lower bound: records lost at the very end of a file were never
    /// counted.
    pub records_lost_at_least: u64,
    /// The number of GPU times in lost or refused Times chunks.
    pub times_lost_at_least: u64,
    /// Bytes of the file outside the chunks that were read.
    pub bytes_skipped: u64,
    /// Whether what is at its end is no chunk any more: nobody knows how many records were there.
    pub end_unread: bool,
    /// Whether the file ends in the middle of a chunk.
    pub cut: bool,
    /// Whether its writer is gone and did not come to the end.
    pub unfinished: bool,
    /// Why its writer could not write a part of it: the system's error number.
    pub write_error: Option<i32>,
}

impl Damage {
    /// Whether nothing is missing.
    pub fn is_none(&self) -> bool {
        *self == Damage::default()
    }

    /// Counts a lost chunk whose header is known.
    pub(super) fn lose(&mut self, header: &Header, bytes: u64) {
        self.chunks_lost = self.chunks_lost.saturating_add(1);
        self.bytes_skipped = self.bytes_skipped.saturating_add(bytes);
        self.lose_entries(header, header.entries);
    }

    /// Counts a chunk that exceeds what a file of this size may contain.
    pub(super) fn refuse(&mut self, header: &Header, bytes: u64) {
        self.chunks_refused = self.chunks_refused.saturating_add(1);
        self.bytes_skipped = self.bytes_skipped.saturating_add(bytes);
        self.lose_entries(header, header.entries);
    }

    /// Counts lost entries of a chunk whose header is known.
    pub(super) fn lose_entries(&mut self, header: &Header, entries: u32) {
        let counter = match header.known_kind() {
            Some(ChunkKind::Records) => &mut self.records_lost_at_least,
            Some(ChunkKind::Times) => &mut self.times_lost_at_least,
            _ => return,
        };
        *counter = counter.saturating_add(u64::from(entries));
    }
}

/// A chunk of records or times in the file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chunk {
    /// Offset of its payload.
    pub at: u64,
    /// The number of its file among [`Index::parts`].
    pub part: u32,
    pub header: Header,
}

impl Chunk {
    /// Size in the file including the header, bytes.
    pub fn bytes(&self) -> u64 {
        HEADER_BYTES as u64 + u64::from(self.header.payload_bytes)
    }

    /// Reads and unpacks the payload; `None` if it is not what was written, or if reading fails.
    pub fn plain(&self, source: &mut (impl Read + Seek)) -> Option<Vec<u8>> {
        source.seek(SeekFrom::Start(self.at)).ok()?;
        let mut payload = Vec::new();
        let bytes = u64::from(self.header.payload_bytes);
        source.take(bytes).read_to_end(&mut payload).ok()?;
        self.header.unpack(payload)
    }
}

/// The result of the first pass.
#[derive(Debug, Default)]
pub(super) struct Index {
    /// Chunks of records, ordered by `first`.
    pub records: Vec<Chunk>,
    /// Chunks of late times, ordered by `first`.
    pub times: Vec<Chunk>,
    pub names: Names,
    pub status: Option<Status>,
    /// What counts of each file.
    pub parts: Vec<Part>,
    /// The bytes that were read.
    pub bytes: u64,
    pub complete: bool,
    pub damage: Damage,
    /// The numbers of the files among [`parts`](Index::parts) that lack something.
    pub damaged: BTreeSet<u32>,
    /// When records may have been lost.
    pub lost: LostTime,
    /// The number of chunks whose content was understood.
    readable: u64,
    newest_version: u8,
    /// What may still be read from the file.
    pub limits: Limits,
    /// The sequence number that the next chunk should have.
    sequence: u64,
    records_before: u64,
    /// The times of the last chunk of records so far: its first and its last.
    last_records: (u64, u64),
    /// Records may be missing since then, and until the last of the next chunk of records, or without one until the process ended.
    missing_since: Option<u64>,
}

impl Index {
    /// Reads all chunk headers, the names and the status.
    pub fn of(source: &mut (impl Read + Seek)) -> Result<Index, TraceError> {
        let bytes = source.seek(SeekFrom::End(0))?;
        if bytes == 0 {
            return Err(TraceError::Empty);
        }
        let begins_as_trace = starts_with_magic(source)?;
        let mut index =
            Index { limits: Limits::of(bytes), parts: vec![Part::WHOLE], bytes, ..Index::default() };
        let mut at = 0;
        while at < bytes {
            let limit = if at == 0 && !begins_as_trace { bytes.min(FIRST_CHUNK_WITHIN) } else { bytes };
            match next_header(source, at, limit)? {
                Some((found, header)) => at = index.take(source, at, found, header, bytes)?,
                None if at == 0 && !begins_as_trace => return Err(TraceError::NotATrace),
                None => {
                    index.damage.bytes_skipped += bytes - at;
                    index.damage.chunks_lost = index.damage.chunks_lost.saturating_add(1);
                    index.damage.end_unread = true;
                    index.damage.cut |= bytes - at < HEADER_BYTES as u64;
                    break;
                }
            }
        }
        if index.readable == 0 {
            return Err(match index.newest_version {
                newer if newer > VERSION => TraceError::Newer(newer),
                _ => TraceError::NothingReadable,
            });
        }
        if let Some(status) = &index.status {
            if let Some(since) = index.missing_since {
                index.lost.add(since.max(status.began), status.ended);
            }
            // Records that were read before the process was seen to be over are written after that, with statuses of then.
            let last = index.records.iter().map(|chunk| chunk.header.last).max();
            index.lost.end_at(last.unwrap_or(0).max(status.ended));
        }
        index.records.sort_by_key(|chunk| chunk.header.first);
        index.times.sort_by_key(|chunk| chunk.header.first);
        Ok(index)
    }

    /// Takes the chunk whose header is at `found`, after a search that started at `at`. Returns where the next one
    /// should be.
    fn take(
        &mut self,
        source: &mut (impl Read + Seek),
        at: u64,
        found: u64,
        header: Header,
        bytes: u64,
    ) -> Result<u64, TraceError> {
        self.damage.bytes_skipped += found - at;
        let last_before = self.last_records.1;
        self.missing_before(&header);
        let chunk = Chunk { at: found + HEADER_BYTES as u64, part: 0, header };
        let next = found + chunk.bytes();
        if next > bytes {
            self.damage.lose(&header, bytes - found);
            self.damage.cut = true;
            return Ok(bytes);
        }
        self.newest_version = self.newest_version.max(header.version);
        match header.known_kind() {
            // A file of a newer version is refused here; a newer chunk in an old file is skipped like an unknown kind.
            None if header.kind == ChunkKind::File as u8 => return Err(TraceError::Newer(header.version)),
            None => {}
            Some(_) if !self.limits.admit(&header) => {
                self.damage.refuse(&header, chunk.bytes());
                self.lost.add_chunk(&header, last_before);
            }
            Some(ChunkKind::Records) => self.records.push(chunk),
            Some(ChunkKind::Times) => self.times.push(chunk),
            Some(kind) => match chunk.plain(source).and_then(|plain| self.understand(kind, &plain)) {
                Some(()) => {}
                None if kind == ChunkKind::Names && self.limits.names == 0 => {
                    self.damage.refuse(&header, chunk.bytes());
                }
                None => {
                    self.damage.lose(&header, chunk.bytes());
                    return Ok(next);
                }
            },
        }
        self.readable += u64::from(!matches!(header.known_kind(), None | Some(ChunkKind::File)));
        Ok(next)
    }

    /// Counts the chunks that are missing before this one, from the hole in the sequence.
    fn missing_before(&mut self, header: &Header) {
        let damage = &mut self.damage;
        let chunks = header.sequence.saturating_sub(self.sequence);
        damage.chunks_lost = damage.chunks_lost.saturating_add(chunks);
        let records = header.records_before.saturating_sub(self.records_before);
        damage.records_lost_at_least = damage.records_lost_at_least.saturating_add(records);
        if records > 0 {
            // Threads are drained by turns, so that the chunk before has times after some of those that are missing.
            self.missing_since.get_or_insert(self.last_records.0);
        }
        let is_records = header.kind == ChunkKind::Records as u8;
        let own = if is_records { u64::from(header.entries) } else { 0 };
        if is_records {
            if let Some(since) = self.missing_since.take() {
                self.lost.add(since, header.last);
            }
            self.last_records = (header.first, header.last);
        }
        self.sequence = header.sequence.saturating_add(1);
        self.records_before = header.records_before.saturating_add(own);
    }

    /// Takes a payload that is needed before the first record.
    fn understand(&mut self, kind: ChunkKind, plain: &[u8]) -> Option<()> {
        match kind {
            ChunkKind::Status => {
                let (status, lost_since) = meta::status_from_bytes(plain)?;
                if let Some(since) = lost_since {
                    self.lost.add(since, status.ended);
                }
                // It need not list threads again that one before it lists.
                let mut threads = self.status.take().map(|before| before.threads).unwrap_or_default();
                meta::add_threads(&mut threads, &status.threads, meta::MAX_THREADS);
                self.status = Some(Status { threads, ..status });
            }
            ChunkKind::Names => meta::names_from_bytes(plain, &mut self.names, &mut self.limits.names)?,
            ChunkKind::End => self.complete = true,
            ChunkKind::File | ChunkKind::Records | ChunkKind::Times => {}
        }
        Some(())
    }
}

fn starts_with_magic(source: &mut (impl Read + Seek)) -> io::Result<bool> {
    source.seek(SeekFrom::Start(0))?;
    let mut start = Vec::new();
    source.take(MAGIC.len() as u64).read_to_end(&mut start)?;
    Ok(start == MAGIC)
}

/// Finds the first valid header in `at..limit`, which is at `at` itself unless something is damaged.
fn next_header(
    source: &mut (impl Read + Seek),
    mut at: u64,
    limit: u64,
) -> io::Result<Option<(u64, Header)>> {
    let mut window = Vec::new();
    let mut wanted = HEADER_BYTES;
    while limit.saturating_sub(at) >= HEADER_BYTES as u64 {
        source.seek(SeekFrom::Start(at))?;
        window.clear();
        source.take((limit - at).min(wanted as u64)).read_to_end(&mut window)?;
        let headers = window.windows(HEADER_BYTES).enumerate();
        let found = headers.filter(|(_, bytes)| bytes.starts_with(&MAGIC)).find_map(|(offset, bytes)| {
            Some((at + offset as u64, Header::from_bytes(bytes.first_chunk()?)?))
        });
        if found.is_some() {
            return Ok(found);
        }
        if window.len() < HEADER_BYTES {
            break; // The file was truncated meanwhile.
        }
        at += (window.len() - HEADER_BYTES + 1) as u64;
        wanted = WINDOW;
    }
    Ok(None)
}
