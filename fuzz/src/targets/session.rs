//! What a process sends to the collector's socket, and what the collector answers.

use super::segment_bytes;
use super::trace::report_of;
use crate::bounded;
use gpuspy_collector::collect::{Collector, Target};
use gpuspy_collector::trace::TraceReader;
use gpuspy_wire::handshake::{self, Hello};
use std::fs::File;
use std::io::Write;
use std::net::Shutdown;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;

#[path = "../../../collector/tests/collect_support/sending.rs"]
mod sending;

/// Limit on the memory of a session and of its report, bytes: docs/usage.md has the sums.
const MOST: usize = 512 << 20;

/// Reads a greeting, and the collector's answer to one.
pub fn handshake(input: &[u8]) {
    if let Some(bytes) = input.first_chunk::<{ handshake::BYTES }>()
        && let Some(hello) = Hello::from_bytes(bytes)
    {
        assert_eq!(hello.to_bytes(), *bytes);
    }
    if let Some(why) = handshake::failure(input) {
        assert!(!why.contains(&b'\n') && why.len() < input.len());
    }
}

/// Sends a greeting and a segment to a collector, and makes the report of what it writes. The first byte says what is sent:
/// bit 0: the greeting is right, else it is the next bytes; bits 1 and 2: one descriptor too few or too many.
pub fn session(input: &[u8]) {
    let Some((&help, rest)) = input.split_first() else { return };
    let folder = tempfile::tempdir_in("/dev/shm").expect("there is memory for a folder");
    bounded(MOST, || {
        let cells = segment_bytes::segment(rest);
        let (collector, stopper) =
            Collector::new(Target::Directory(folder.path().to_owned())).expect("there are descriptors");
        let (ours, theirs) = UnixStream::pair().expect("there are descriptors");
        let bytes = segment_bytes::bytes(&cells);
        let memfd = sending::memfd(bytes.len() as u64, sending::SEALS);
        File::from(memfd.try_clone().expect("there are descriptors"))
            .write_all(bytes)
            .expect("there is memory");
        let right = Hello::new(std::process::id(), 1, bytes.len() as u64).to_bytes();
        let greeting = if help & 1 != 0 { &right } else { &rest[..rest.len().min(handshake::BYTES)] };
        let count = match help >> 1 & 3 {
            1 => 0,
            2 => 2,
            _ => 1,
        };
        if !greeting.is_empty() {
            sending::send(&ours, greeting, &vec![memfd.as_raw_fd(); count]);
        }
        if greeting.len() < handshake::BYTES {
            ours.shutdown(Shutdown::Write).expect("it is connected");
        }
        // A collector that is to stop takes what there is, and does not wait for the end of this process.
        drop(stopper);
        let Ok(session) = collector.receive(theirs) else { return };
        let path = collector.traces().path(session.trace).to_owned();
        let mut reader = TraceReader::open(&path).expect("the collector has written a trace");
        assert!(reader.complete() && reader.damage().is_none(), "{:?}", reader.damage());
        let last = reader.records().fold(0, |last, record| {
            assert!(record.at >= last, "records are in order");
            record.at
        });
        assert!(reader.damage().is_none(), "{:?} at {last}", reader.damage());
        report_of(reader);
    });
}
