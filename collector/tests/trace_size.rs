//! The size of a launch on disk. `cargo test -p gpuspy bytes_per_launch -- --nocapture` prints it.

mod trace_common;

use gpuspy_collector::trace::generator::{Generator, Options};
use gpuspy_collector::trace::record::{Body, Ending, GpuTime, Record};
use gpuspy_collector::trace::{TraceReader, TraceWriter};
use std::collections::VecDeque;
use std::time::{Duration, Instant};
use trace_common::status;

const LAUNCHES: u64 = 240_000;

/// Separates a record from its GPU time, as an agent sends them.
fn split(mut record: Record) -> (Record, Option<(u64, GpuTime)>) {
    let time = match &mut record.body {
        Body::Work(work) => work.gpu.take().map(|gpu| (work.call.correlation, gpu)),
        _ => None,
    };
    (record, time)
}

/// Writes a generated run as a collector would, in simulated time: records when they happen, GPU times when the poller reads
/// them, and a tick of the writer every 10 ms. Returns bytes per launch, and the share of late times.
fn write_and_check(options: Options) -> (f64, f64) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.gspy");
    let mut generator = Generator::new(7, options);
    let mut writer = TraceWriter::create(&path, &status(Ending::Running)).unwrap();
    for (namespace, id, text) in generator.names() {
        writer.name(namespace, id, &text).unwrap();
    }
    let real = Instant::now();
    let mut times: VecDeque<(u64, GpuTime)> = VecDeque::new();
    let mut tick = 0;
    let mut expected = Vec::new();
    while generator.truth().launches < LAUNCHES {
        let record = generator.next().unwrap();
        let now = record.at;
        expected.push(record.clone());
        let (record, time) = split(record);
        writer.push(record).unwrap();
        times.extend(time);
        while let Some((correlation, time)) = times.pop_front_if(|(_, time)| time.seen <= now) {
            writer.gpu_time(correlation, time).unwrap();
        }
        if now >= tick {
            tick = now + 10_000_000;
            writer.flush_if_due(real + Duration::from_nanos(now)).unwrap();
        }
    }
    let timed = LAUNCHES + generator.truth().transfers.values().map(|moved| moved.count).sum::<u64>();
    for (correlation, time) in times {
        writer.gpu_time(correlation, time).unwrap();
    }
    let summary = writer.finish(&status(Ending::Exited)).unwrap();
    let mut reader = TraceReader::open(&path).unwrap();
    assert!(reader.complete() && reader.records().eq(expected.iter().cloned()));
    assert!(reader.damage().is_none());
    assert_eq!(summary.records, expected.len() as u64);
    assert_eq!(summary.timed_joined + summary.timed_late, timed);
    (summary.bytes as f64 / LAUNCHES as f64, summary.timed_late as f64 / LAUNCHES as f64)
}

#[test]
fn a_launch_takes_about_six_bytes() {
    let (bytes, late) = write_and_check(Options::default());
    println!("{bytes:.2} bytes per fully timed launch, all fields (120 kernels, host jitter 15 %, GPU 2 %)");
    assert!(bytes <= 6.1, "{bytes}");
    assert!(
        late < 0.01,
        "a time that comes within milliseconds is joined before its launch is written: {late}"
    );
}

#[test]
fn bytes_per_launch_where_the_poller_reads_the_clock_for_every_event() {
    let (bytes, _) = write_and_check(Options { poll_step: 1_000.0, ..Options::default() });
    println!("{bytes:.2} bytes per launch with a clock reading of its own for every event seen");
    assert!(bytes <= 7.0, "{bytes}");
}

#[test]
fn bytes_per_launch_with_four_threads_and_other_calls_between() {
    let (bytes, _) = write_and_check(Options { threads: 4, other_calls: true, ..Options::default() });
    println!("{bytes:.2} bytes per launch with four threads, and an eighth of other calls");
    assert!(bytes <= 8.3, "{bytes}");
}
