//! What `gpuspy diff` does with a trace that is not whole: it lets none pass `--fail-over`, and compares none without a call.

mod trace_common;

use gpuspy_collector::trace::format::{ChunkKind, HEADER_BYTES, Header};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use trace_common::written;

/// Returns a whole trace.
fn whole() -> Vec<u8> {
    fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/former/graphs.gspy")).unwrap()
}

/// Returns where the first chunk of a kind begins.
fn start_of(bytes: &[u8], kind: ChunkKind) -> usize {
    let mut at = 0;
    loop {
        let header = Header::from_bytes(bytes[at..].first_chunk().unwrap()).unwrap();
        if header.kind == kind as u8 {
            return at;
        }
        at += HEADER_BYTES + header.payload_bytes as usize;
    }
}

fn file(folder: &Path, name: &str, bytes: &[u8]) -> PathBuf {
    let path = folder.join(name);
    fs::write(&path, bytes).unwrap();
    path
}

fn diff(before: &Path, after: &Path, options: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gpuspy"));
    command.arg("diff").arg(before).arg(after).args(options).output().unwrap()
}

fn said(done: &Output) -> String {
    String::from_utf8_lossy(&done.stderr).into_owned()
}

#[test]
fn a_trace_of_which_no_call_can_be_read_is_not_compared() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = whole();
    let good = file(folder.path(), "good.gspy", &bytes);
    let in_the_first_records = start_of(&bytes, ChunkKind::Records) + HEADER_BYTES + 100;
    let cut = file(folder.path(), "cut.gspy", &bytes[..in_the_first_records]);
    let all_options: [&[&str]; 4] = [&[], &["--json"], &["--fail-over", "5"], &["--since", "0s"]];
    for (before, after) in [(&good, &cut), (&cut, &good)] {
        for options in all_options {
            let done = diff(before, after, options);
            let said = said(&done);
            assert_eq!((done.status.code(), done.stdout.len()), (Some(3), 0), "{options:?}: {said}");
            assert!(said.starts_with("gpuspy: cannot compare: no call "), "{said}");
            assert!(
                said.contains("cut.gspy") && said.contains("the file ends in the middle of a chunk"),
                "{said}"
            );
            assert_eq!(said.lines().count(), 1, "{said}");
        }
    }
}

#[test]
fn a_trace_without_a_call_is_not_compared() {
    let folder = tempfile::tempdir().unwrap();
    let good = file(folder.path(), "good.gspy", &whole());
    let empty = file(folder.path(), "empty.gspy", &written(&[]));
    for (before, after) in [(&good, &empty), (&empty, &good)] {
        let done = diff(before, after, &["--fail-over", "5"]);
        let said = said(&done);
        assert_eq!((done.status.code(), done.stdout.len()), (Some(3), 0), "{said}");
        assert!(said.contains("empty.gspy has no call of CUDA"), "{said}");
    }
}

#[test]
fn a_damaged_trace_is_compared_and_passes_no_limit() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = whole();
    let good = file(folder.path(), "good.gspy", &bytes);
    let cut = file(folder.path(), "cut.gspy", &bytes[..start_of(&bytes, ChunkKind::End) + 10]);
    for (before, after) in [(&good, &cut), (&cut, &good)] {
        let done = diff(before, after, &[]);
        assert_eq!(done.status.code(), Some(0), "{}", said(&done));
        let done = diff(before, after, &["--fail-over", "5"]);
        let said = said(&done);
        assert_eq!(done.status.code(), Some(3), "{said}");
        assert!(!done.stdout.is_empty(), "the comparison is printed, whatever the exit code");
        assert!(said.contains("cut.gspy is cut (the file ends in the middle of a chunk"), "{said}");
        assert!(said.contains("so --fail-over cannot decide: record it again"), "{said}");
    }
    let done = diff(&good, &good, &["--fail-over", "5"]);
    assert_eq!(done.status.code(), Some(0), "{}", said(&done));
}
