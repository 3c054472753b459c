//! How are the traces of successive windows of a process (`gpuspy collect --every`) read as one?
//!
//! They are traces of one collection: names, threads, contexts and correlations are numbered alike in all of them. So the chunks of
//! all files are read as those of one file, in which the files lie one after the other ([`Files`]). What the edge between two
//! windows has put into a trace is left out ([`Part`]): there is no edge in what is read.

use super::index::{Damage, Index};
use super::limits::Limits;
use super::record::{Body, Hang, Names, Record, Status};
use gpuspy_wire::record::{Fact, Namespace};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// Which records of a file count: all of a trace that is read alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part {
    /// The edge at which it continues the file before, host ns. What began earlier is in that one, too.
    since: Option<u64>,
    /// The edge at which another file continues it.
    until: Option<u64>,
}

impl Part {
    /// All of a trace.
    pub const WHOLE: Part = Part { since: None, until: None };

    /// Whether a record counts.
    #[inline]
    pub fn has(&self, record: &Record) -> bool {
        match self {
            Part { since: None, until: None } => true,
            Part { since, until } => {
                let is_repeated = since.is_some_and(|since| record.began().unwrap_or(record.at) < since);
                // What a window begins with says how ranges of the user's stood, which the file before has said.
                let is_edge = match record.body {
                    Body::CaptureEdge { begins: true } => *since == Some(record.at),
                    Body::CaptureEdge { begins: false } => [*since, *until].contains(&Some(record.at)),
                    _ => false,
                };
                !is_repeated && !is_edge
            }
        }
    }
}

impl Index {
    /// Adds the index of the trace of the next window, whose file comes after the others.
    pub(super) fn continue_with(&mut self, mut next: Index) {
        let edge = next.status.as_ref().map(|status| status.began);
        // The time of an operation that was launched before the edge may have come when only the later trace was open.
        let before = self.parts.last().and_then(|last| last.since).unwrap_or(0);
        next.times
            .iter_mut()
            .filter(|chunk| edge.is_some_and(|edge| chunk.header.first < edge))
            .for_each(|chunk| chunk.header.first = before);
        if let Some(last) = self.parts.last_mut() {
            last.until = edge;
        }
        next.parts.iter_mut().for_each(|part| part.since = edge);
        let part = self.parts.len() as u32;
        for chunk in next.records.iter_mut().chain(&mut next.times) {
            (chunk.at, chunk.part) = (chunk.at + self.bytes, part);
        }
        self.parts.append(&mut next.parts);
        self.records.append(&mut next.records);
        self.times.append(&mut next.times);
        self.records.sort_by_key(|chunk| chunk.header.first);
        self.times.sort_by_key(|chunk| chunk.header.first);
        self.names.continue_with(next.names);
        self.status = match (self.status.take(), next.status) {
            (Some(status), Some(next)) => Some(status.continued_by(next)),
            (status, next) => next.or(status),
        };
        self.complete &= next.complete;
        self.damage = self.damage.and(&next.damage);
        self.damaged.extend((!next.damaged.is_empty()).then_some(part));
        self.lost.extend(&next.lost);
        self.bytes += next.bytes;
        self.limits.memory = Limits::of(self.bytes).memory;
    }
}

impl Names {
    /// Adds the names of the next window. How many windows came before, and how often each kernel had been launched, stays as the
    /// first one has it.
    fn continue_with(&mut self, next: Names) {
        let is_of_first = |(space, id): &(Namespace, u32)| {
            *space == Namespace::Launched || (*space, *id) == (Namespace::Fact, Fact::Window as u32)
        };
        self.0.extend(next.0.into_iter().filter(|(name, _)| !is_of_first(name)));
    }
}

impl Status {
    /// Returns the status of both windows, of which `next` is the later one. What windows count is about each alone.
    fn continued_by(mut self, mut next: Status) -> Status {
        let goes_on = |hang: &_| next.hangs.iter().any(|later| is_same(hang, later));
        self.hangs.retain(|hang| !goes_on(hang));
        self.hangs.append(&mut next.hangs);
        for (cause, count) in next.lost {
            let lost = self.lost.entry(cause).or_default();
            *lost = lost.saturating_add(count);
        }
        self.threads.append(&mut next.threads);
        Status {
            began: self.began,
            began_realtime: self.began_realtime,
            session_realtime: self.session_realtime,
            write_error: self.write_error.or(next.write_error),
            agent_ns: self.agent_ns.saturating_add(next.agent_ns),
            poller_ns: self.poller_ns.saturating_add(next.poller_ns),
            calls: self.calls.saturating_add(next.calls),
            published: self.published.saturating_add(next.published),
            collected: self.collected.saturating_add(next.collected),
            pending: self.pending.saturating_add(next.pending),
            outside_launches: self.outside_launches.saturating_add(next.outside_launches),
            outside_others: self.outside_others.saturating_add(next.outside_others),
            lost: self.lost,
            threads: self.threads,
            hangs: self.hangs,
            ..next
        }
    }
}

/// Whether two windows mean the same hang, which went on from one to the other.
fn is_same(one: &Hang, other: &Hang) -> bool {
    (one.since, one.device, one.stream) == (other.since, other.device, other.stream)
}

/// Files that lie one after the other. Of several, one is open at a time: weeks have more windows than a process may have files.
#[derive(Debug)]
pub struct Files {
    /// Where each ends, and what it is called.
    ends: Vec<(u64, PathBuf)>,
    /// The number of the open one.
    open: Option<(usize, File)>,
}

impl Files {
    /// One file.
    pub(super) fn one(path: PathBuf, file: File, bytes: u64) -> Files {
        Files { ends: vec![(bytes, path)], open: Some((0, file)) }
    }

    /// Adds the next one.
    pub(super) fn push(&mut self, path: PathBuf, bytes: u64) {
        let begins = self.ends.last().map_or(0, |(end, _)| *end);
        self.ends.push((begins + bytes, path));
    }

    /// What one of them is called, by its number.
    pub(super) fn path(&self, number: u32) -> Option<&Path> {
        self.ends.get(number as usize).map(|(_, path)| path.as_path())
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.ends.len()
    }
}

impl Read for Files {
    /// Reads from the file in which the last [`seek`](Self::seek) was, and not beyond it: no chunk is in two files.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.open.as_mut().map_or(Ok(0), |(_, file)| file.read(buffer))
    }
}

impl Seek for Files {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let SeekFrom::Start(at) = to else { return Err(io::ErrorKind::Unsupported.into()) };
        let number = self.ends.partition_point(|(end, _)| *end <= at).min(self.ends.len().saturating_sub(1));
        let begins = number.checked_sub(1).map_or(0, |before| self.ends[before].0);
        let file = match self.open.take_if(|(open, _)| *open == number) {
            Some((_, file)) => file,
            None => File::open(&self.ends[number].1)?,
        };
        let (_, file) = self.open.insert((number, file));
        file.seek(SeekFrom::Start(at - begins)).map(|at| begins + at)
    }
}

impl Damage {
    /// Returns what both lack.
    pub(super) fn and(&self, other: &Damage) -> Damage {
        Damage {
            chunks_lost: self.chunks_lost.saturating_add(other.chunks_lost),
            chunks_refused: self.chunks_refused.saturating_add(other.chunks_refused),
            records_lost_at_least: self.records_lost_at_least.saturating_add(other.records_lost_at_least),
            times_lost_at_least: self.times_lost_at_least.saturating_add(other.times_lost_at_least),
            bytes_skipped: self.bytes_skipped.saturating_add(other.bytes_skipped),
            end_unread: self.end_unread || other.end_unread,
            cut: self.cut || other.cut,
            unfinished: self.unfinished || other.unfinished,
            write_error: self.write_error.or(other.write_error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::record::{Api, CARRIED_BEFORE, Call, NvtxRange};
    use crate::trace::{TraceReader, TraceWriter};
    use gpuspy_wire::record::{LossCause, NvtxChange};
    use std::fs;

    const EDGE: u64 = 5_000;

    /// A call that began and returned then.
    fn call(begin: u64, end: u64) -> Record {
        let call = Call { begin, end, ..Call::default() };
        let body = Body::Api(Api { call, result: 0, subject: 0, calls: 1, inside: 0, entered: 0 });
        Record { thread: 1, at: end, body }
    }

    fn edge(at: u64, begins: bool) -> Record {
        Record { thread: 0, at, body: Body::CaptureEdge { begins } }
    }

    fn range(at: u64) -> Record {
        let range = NvtxRange {
            change: NvtxChange::Push,
            id: 0,
            domain: 0,
            text: 1,
            category: 0,
            color: 0,
            payload: false,
        };
        Record { thread: 1, at, body: Body::NvtxRange(range) }
    }

    fn write(path: &Path, status: &Status, texts: &[(Namespace, u32, &str)], records: &[Record]) {
        let mut writer = TraceWriter::create(path, status).unwrap();
        texts.iter().for_each(|(space, id, text)| writer.name(*space, *id, text).unwrap());
        records.iter().for_each(|record| writer.push(record.clone()).unwrap());
        writer.finish(status).unwrap();
    }

    fn hang(since: u64, until: u64) -> Hang {
        Hang { since, until, ..Hang::default() }
    }

    fn status(began: u64, ended: u64, hangs: Vec<Hang>) -> Status {
        let lost = [(LossCause::RingFull, 1)].into();
        Status { pid: 7, began, ended, calls: 10, pending: 1, lost, hangs, ..Status::default() }
    }

    /// Returns a folder with two windows, and what their records are without the edge between them.
    fn two_windows() -> (tempfile::TempDir, Vec<Record>) {
        let folder = tempfile::tempdir().unwrap();
        let (first, over, late) = (call(1_000, 1_100), call(4_900, 5_300), call(4_950, 4_990));
        let (next, last) = (call(5_000, 5_100), call(6_000, 6_400));
        let fact = Fact::Window as u32;
        let names =
            [(Namespace::Fact, fact, "0"), (Namespace::Kernel, 1, "gemm"), (Namespace::Launched, 1, "4")];
        let records =
            [edge(900, true), range(950), first.clone(), late.clone(), edge(EDGE, false), over.clone()];
        write(&folder.path().join("0"), &status(900, EDGE, vec![hang(950, EDGE)]), &names, &records);
        let names =
            [(Namespace::Fact, fact, "1"), (Namespace::Kernel, 2, "relu"), (Namespace::Launched, 1, "6")];
        // It begins with what is known of the time before, and has what returned after the edge, too.
        let carried = [range(EDGE - CARRIED_BEFORE), edge(EDGE, true), over.clone()];
        let records = [&carried[..], &[next.clone(), last.clone(), edge(6_500, false)]].concat();
        let hangs = vec![hang(950, 6_000), hang(6_200, 6_600)];
        write(&folder.path().join("1"), &status(EDGE, 7_000, hangs), &names, &records);
        let expected = [edge(900, true), range(950), first, late, next, over, last, edge(6_500, false)];
        (folder, expected.to_vec())
    }

    fn joined(folder: &Path) -> TraceReader {
        let mut reader = TraceReader::open(&folder.join("0")).unwrap();
        reader.continue_with(&folder.join("1")).unwrap();
        reader
    }

    #[test]
    fn windows_that_are_read_as_one_have_each_record_once_and_no_edge_between_them() {
        let (folder, expected) = two_windows();
        let mut reader = joined(folder.path());
        for _ in 0..2 {
            assert_eq!(reader.records().collect::<Vec<_>>(), expected);
        }
        assert_eq!(reader.windows(), 2);
        let bytes = |name: &str| fs::metadata(folder.path().join(name)).unwrap().len();
        assert_eq!(reader.bytes(), bytes("0") + bytes("1"));
        assert!(reader.complete() && reader.damage().is_none());
    }

    #[test]
    fn names_and_statuses_of_windows_are_those_of_both() {
        let (folder, _) = two_windows();
        let reader = joined(folder.path());
        let text = |space, id| reader.names().get(space, id);
        assert_eq!([1, 2].map(|id| text(Namespace::Kernel, id)), [Some("gemm"), Some("relu")]);
        assert_eq!(
            (text(Namespace::Fact, Fact::Window as u32), text(Namespace::Launched, 1)),
            (Some("0"), Some("4"))
        );
        let status = reader.status().unwrap();
        assert_eq!((status.began, status.ended, status.calls, status.pending), (900, 7_000, 20, 2));
        assert_eq!(status.lost, [(LossCause::RingFull, 2)].into());
        assert_eq!(status.hangs, [hang(950, 6_000), hang(6_200, 6_600)], "the first one went on");
    }

    /// The first window was said to be damaged, whichever was.
    #[test]
    fn what_is_missing_of_windows_is_said_of_the_window_that_lacks_it() {
        let (folder, _) = two_windows();
        let at = |name: &str| folder.path().join(name);
        assert_eq!(joined(folder.path()).damaged().count(), 0);
        let whole = fs::read(at("1")).unwrap();
        // One has no end, of another the records are not what was written.
        let mut changed = whole.clone();
        let records = changed.len() - 150;
        changed[records] ^= 1;
        for bytes in [&whole[..whole.len() - 10], &changed] {
            fs::write(at("1"), bytes).unwrap();
            let mut reader = joined(folder.path());
            reader.records().for_each(drop);
            assert!(!reader.damage().is_none());
            assert_eq!(reader.damaged().collect::<Vec<_>>(), [at("1")]);
        }
    }

    #[test]
    fn what_is_missing_of_windows_is_added_up_and_a_window_that_is_none_changes_nothing() {
        let (folder, expected) = two_windows();
        let later = folder.path().join("1");
        let bytes = fs::read(&later).unwrap();
        fs::write(&later, &bytes[..bytes.len() - 10]).unwrap();
        let reader = joined(folder.path());
        assert!(reader.damage().cut && !reader.complete(), "{:?}", reader.damage());
        fs::write(&later, "no trace").unwrap();
        let mut reader = TraceReader::open(&folder.path().join("0")).unwrap();
        assert!(reader.continue_with(&later).is_err());
        let alone: Vec<Record> = reader.records().collect();
        assert_eq!((reader.windows(), &alone[..4]), (1, &expected[..4]));
    }
}
