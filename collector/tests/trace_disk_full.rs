//! A full disk, simulated with RLIMIT_FSIZE. The test is alone in its process, because the limit is per process.

mod trace_common;

use gpuspy_collector::trace::generator::{Generator, Options};
use gpuspy_collector::trace::record::{Ending, Record};
use gpuspy_collector::trace::{TraceReader, TraceWriter};
use trace_common::{read_whole, status};

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

    // During a long shortage memory stays bounded, so some chunks are dropped, and the trace says how many.
    limit_file_size(std::fs::metadata(&path).unwrap().len() + 100);
    let refused =
        records[5_000..].iter().filter(|record| writer.push((*record).clone()).is_err()).count() as u64;
    assert!(refused > 0);
    limit_file_size(libc::RLIM_INFINITY);
    let summary = writer.finish(&status(Ending::Exited)).unwrap();
    let mut reader = TraceReader::open(&path).unwrap();
    let read = reader.records().count() as u64;
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
