//! What `gpuspy export` says of a trace that is not whole.

use gpuspy_collector::trace::TraceWriter;
use gpuspy_collector::trace::generator::{Generator, Options};
use gpuspy_collector::trace::record::{Body, Ending, Record, Status};
use gpuspy_wire::record::Namespace;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Writes a trace whose launches have a stack, and which ends in the middle of a chunk.
fn write_cut(path: &Path) {
    let mut generator = Generator::new(3, Options::default());
    let mut records: Vec<Record> = generator.by_ref().take(20_000).collect();
    for record in &mut records {
        if let Body::Work(work) = &mut record.body {
            work.call.stack = 1;
        }
    }
    let status = Status { pid: 7, began: records[0].at, ended: records[19_999].at, ..Status::default() };
    let running = Status { ending: Ending::Running, ..status.clone() };
    let mut writer = TraceWriter::create(path, &running).unwrap();
    for (space, id, text) in generator.names() {
        writer.name(space, id, &text).unwrap();
    }
    writer.name(Namespace::Frame, 1, "main\n/a/train.py\n3").unwrap();
    writer.name(Namespace::Stack, 1, "1").unwrap();
    for (n, record) in records.into_iter().enumerate() {
        writer.push(record).unwrap();
        if n % 2_000 == 1_999 {
            writer.flush().unwrap();
        }
    }
    writer.finish(&status).unwrap();
    let bytes = fs::read(path).unwrap();
    fs::write(path, &bytes[..bytes.len() * 2 / 3]).unwrap();
}

/// Those of stacks said nothing of it.
#[test]
fn each_format_says_that_the_trace_is_cut() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("cut.gspy");
    write_cut(&trace);
    for format in ["chrome", "perfetto", "collapsed", "speedscope", "parquet"] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gpuspy"));
        command.arg("export").arg(&trace).args(["--to", format, "-o"]).arg(folder.path().join(format));
        let done = command.output().unwrap();
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(done.status.success(), "{format}: {said}");
        assert_eq!(said.matches("cut.gspy is cut: ").count(), 1, "{format}: {said}");
    }
}
