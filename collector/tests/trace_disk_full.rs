//! A full disk, simulated with RLIMIT_FSIZE. The tests take turns, because the limit is per process.

mod trace_common;

use gpuspy_collector::trace::generator::{Generator, Options};
use gpuspy_collector::trace::record::{Ending, Record, Status};
use gpuspy_collector::trace::{Missing, Summary, TraceReader, TraceWriter};
use parking_lot::Mutex;
use std::path::Path;
use trace_common::{read_whole, status};

/// Held by the test whose turn it is.
static TURN: Mutex<()> = Mutex::new(());

fn limit_file_size(bytes: u64) {
    let limit = libc::rlimit { rlim_cur: bytes, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: these are system calls on a local struct; the signal is ignored so that write fails instead.
    unsafe {
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
        assert_eq!(libc::setrlimit(libc::RLIMIT_FSIZE, &limit), 0);
    }
}

#[test]
fn a_full_disk_loses_only_new_chunks_and_reports_them() {
    let _turn = TURN.lock();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.gspy");
    let records: Vec<Record> = Generator::new(6, Options::default()).take(300_000).collect();
    let mut writer = TraceWriter::create(&path, &status(Ending::Running)).unwrap();
    for record in &records[..1_000] {
        writer.push(record.clone()).unwrap();
    }
    writer.flush().unwrap();
    let good = std::fs::metadata(&path).unwrap().len();

    // After a short shortage, everything is written.
    limit_file_size(good + 100);
    for record in &records[1_000..5_000] {
        writer.push(record.clone()).unwrap();
    }
    assert!(writer.flush().is_err());
    assert_eq!(std::fs::metadata(&path).unwrap().len(), good, "the chunk that did not fit is cut off again");
    let mut reader = TraceReader::open(&path).unwrap();
    assert!(reader.records().eq(records[..1_000].iter().cloned()));
    assert!(reader.damage().is_none());
    limit_file_size(libc::RLIM_INFINITY);
    writer.flush().unwrap();
    assert_eq!(TraceReader::open(&path).unwrap().records().count(), 5_000);
    assert!(writer.write_error().is_some() && writer.missing() == Missing::default(), "nothing is lost");

    // During a long shortage memory stays bounded, so some chunks are dropped, and the trace says how many.
    limit_file_size(std::fs::metadata(&path).unwrap().len() + 100);
    let refused =
        records[5_000..].iter().filter(|record| writer.push((*record).clone()).is_err()).count() as u64;
    assert!(refused > 0);
    limit_file_size(libc::RLIM_INFINITY);
    let summary = writer.end_here(&status(Ending::Exited)).unwrap();
    let mut reader = TraceReader::open(&path).unwrap();
    let read = reader.records().count() as u64;
    assert_eq!(writer.missing(), Missing { something: true, records: 300_000 - read });
    drop(writer);
    assert_eq!(read, summary.records);
    assert_eq!(reader.damage().records_lost_at_least, 300_000 - read);
    assert!(read < 300_000 && reader.complete() && reader.damage().chunks_lost == refused);

    let missing = TraceWriter::create(&folder.path().join("no/such/folder"), &status(Ending::Running));
    assert_eq!(missing.unwrap_err().kind(), std::io::ErrorKind::NotFound);
    let full = TraceWriter::create(std::path::Path::new("/dev/full"), &status(Ending::Running));
    assert_eq!(full.unwrap_err().kind(), std::io::ErrorKind::StorageFull);

    // An old file of the same name is replaced, whatever its length.
    let writer = TraceWriter::create(&path, &status(Ending::Running)).unwrap();
    writer.finish(&status(Ending::Exited)).unwrap();
    assert!(read_whole(&path).is_empty());
}

/// Writes a trace of two chunks of records on a disk that has room for so many bytes when the second one comes. Returns the
/// size that the file had at its start, and how the writer ended.
fn written_with_room(path: &Path, records: &[Record], room: u64) -> (u64, std::io::Result<Summary>) {
    let mut writer = TraceWriter::create(path, &status(Ending::Running)).unwrap();
    let start = writer.bytes();
    let (first, second) = records.split_at(records.len() / 2);
    for record in first {
        writer.push(record.clone()).unwrap();
    }
    writer.flush().unwrap();
    for record in second {
        writer.push(record.clone()).unwrap();
    }
    limit_file_size(room);
    let finished = writer.finish(&Status { ended: ended(records), ..status(Ending::Exited) });
    limit_file_size(libc::RLIM_INFINITY);
    (start, finished)
}

/// When the process ended that has these records.
fn ended(records: &[Record]) -> u64 {
    records.iter().map(|record| record.at).max().unwrap_or(0) + 1_000_000
}

/// Where there was room for the last Status and not for the End behind it, the writer wrote and removed that Status for ever;
/// where only the End had no room, the trace had none.
#[test]
fn a_disk_that_is_full_at_any_byte_of_the_end_leaves_a_readable_trace() {
    let _turn = TURN.lock();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.gspy");
    let records: Vec<Record> = Generator::new(7, Options::default()).take(60).collect();
    let (start, summary) = written_with_room(&path, &records, libc::RLIM_INFINITY);
    let whole = summary.unwrap().bytes;
    let mut had_room_for_the_end = false;
    for room in start..=whole {
        let (_, finished) = written_with_room(&path, &records, room);
        assert_eq!(finished.is_ok(), room == whole, "{room} of {whole} bytes");
        assert!(std::fs::metadata(&path).unwrap().len() <= room, "{room} of {whole} bytes");
        let mut reader = TraceReader::open(&path).unwrap();
        let read: Vec<Record> = reader.records().collect();
        let (damage, is_complete) = (reader.damage(), reader.complete());
        assert!(records.starts_with(&read), "{room} of {whole} bytes");
        assert_eq!(reader.status().unwrap().pid, 4242);
        assert!(
            is_complete || !had_room_for_the_end,
            "less room was enough for the end: {room} of {whole} bytes"
        );
        had_room_for_the_end = is_complete;
        if is_complete && room < whole {
            let lost = damage.records_lost_at_least;
            assert_eq!((read.len() as u64 + lost, damage.write_error), (60, Some(libc::EFBIG)), "{damage:?}");
            assert_eq!(reader.status().unwrap().ending, Ending::Exited);
            // Of that time it was said that the GPU had nothing to do.
            let since = read.last().map_or(u64::MAX, |last| last.at);
            let missing = reader.lost_time().sorted();
            let is_known = missing.last().is_some_and(|(from, to)| *from <= since && *to == ended(&records));
            assert_eq!(is_known, lost > 0, "{lost}: {missing:?}");
        }
    }
    assert!(had_room_for_the_end);
    assert_eq!(read_whole(&path), records);
}
