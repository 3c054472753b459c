//! Records are read back as written: all fields, all kinds, in order, whenever their GPU times arrive.

mod trace_common;

use gpuspy_collector::trace::generator::{Generator, Held, Options, Parts, Random};
use gpuspy_collector::trace::record::*;
use gpuspy_collector::trace::{Damage, FLUSH_INTERVAL, TraceReader, TraceWriter, wait_until_complete};
use gpuspy_wire::record::{LossCause, Namespace, Untimed};
use proptest::prelude::*;
use std::io::Cursor;
use std::time::{Duration, Instant};
use trace_common::{KINDS, Numbers, read, read_whole, status, written};

fn sorted(mut records: Vec<Record>) -> Vec<Record> {
    records.sort_by_key(|record| record.at);
    records
}

/// Ordinary numbers, and extreme ones.
fn number() -> impl Strategy<Value = u64> {
    prop_oneof![
        any::<u64>(),
        0u64..4,
        Just(u64::MAX),
        Just(u64::from(u32::MAX)),
        Just(1 << 63),
        1_000_000u64..1_010_000
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn any_records_are_read_back(
        records in prop::collection::vec((0..KINDS, prop::collection::vec(number(), 0..32)), 0..40),
    ) {
        let records: Vec<Record> =
            records.into_iter().map(|(kind, numbers)| Numbers(numbers.into_iter()).record(kind)).collect();
        prop_assert_eq!(read(&written(&records)), sorted(records));
    }
}

#[test]
fn many_random_records_of_every_kind_are_read_back() {
    let mut random = Random(1);
    let record = |i| Numbers(std::iter::repeat_with(|| random.word() >> random.below(64))).record(i);
    let records: Vec<Record> = (0..5_000).map(record).collect();
    assert_eq!(read(&written(&records)), sorted(records));
}

#[test]
fn saturated_and_negative_times_are_read_back() {
    let mut generator = Generator::new(3, Options::default());
    let mut records: Vec<Record> = generator.by_ref().take(50).collect();
    for (i, record) in records.iter_mut().enumerate() {
        if let Body::Work(Work { lead, tail, gpu: Some(gpu), call, .. }) = &mut record.body {
            match i % 5 {
                0 => *lead = u64::MAX,
                1 => *tail = u64::MAX,
                2 => gpu.start = i64::MIN,
                3 => (gpu.start, gpu.duration) = (i64::MAX, u64::MAX),
                _ => call.begin = u64::MAX,
            }
        }
    }
    assert_eq!(read(&written(&records)), records);
}

/// A server that serves each request on a thread of its own had a trace that grew with the square of their number.
#[test]
fn each_thread_is_written_once_and_once_more_at_the_end() {
    const THREADS: u32 = 1_000;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.gspy");
    let first = Status { threads: [(0, 5_000)].into(), ..status(Ending::Running) };
    let mut writer = TraceWriter::create(&path, &first).unwrap();
    let all = |count: u32| (0..count).map(|claim| (claim, 5_000 + claim)).collect();
    let mut damaged = 0;
    for count in 2..=THREADS {
        // Whether a status leaves out the threads of those before it does not matter.
        let threads = if count % 2 == 0 { all(count) } else { [(count - 1, 5_000 + count - 1)].into() };
        writer.status(&Status { threads, calls: count.into(), ..status(Ending::Running) });
        damaged = if count == 500 { writer.bytes() } else { damaged };
        writer.flush().unwrap();
    }
    assert!(writer.bytes() < u64::from(THREADS) * 600, "{} bytes", writer.bytes());

    let threads =
        |bytes: &[u8]| TraceReader::new(Cursor::new(bytes)).unwrap().status().unwrap().threads.clone();
    let mut cut = std::fs::read(&path).unwrap();
    assert_eq!(threads(&cut), all(THREADS), "a file without an end");
    let last = Status { calls: u64::from(THREADS), threads: [].into(), ..status(Ending::Exited) };
    writer.finish(&last).unwrap();
    let mut whole = std::fs::read(&path).unwrap();
    for bytes in [&mut cut, &mut whole] {
        bytes[damaged as usize + 70] ^= 1;
    }
    let mut all_but_one = all(THREADS);
    all_but_one.remove(&499);
    assert_eq!(threads(&cut), all_but_one, "a Status is damaged");
    assert_eq!(threads(&whole), all(THREADS), "the last Status lists all");
}

/// The poller of a program that did nothing for days ran now and then, and each time a Status was written.
#[test]
fn counters_alone_are_written_every_ten_seconds_and_at_the_end() {
    const TENTHS: u64 = 36_000;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.gspy");
    let first = status(Ending::Running);
    let mut writer = TraceWriter::create(&path, &first).unwrap();
    let (mut now, mut written) = (Instant::now(), 0);
    let after = |tenths: u64| {
        let counted = |count: u64| count + tenths;
        Status {
            ended: first.ended + tenths * 100_000_000,
            agent_ns: counted(first.agent_ns),
            poller_ns: counted(first.poller_ns),
            calls: counted(first.calls),
            published: counted(first.published),
            collected: counted(first.collected),
            ..first.clone()
        }
    };
    for tenths in 1..=TENTHS {
        now += Duration::from_millis(100);
        writer.status(&after(tenths));
        let before = writer.bytes();
        writer.flush_if_due(now).unwrap();
        written += u32::from(writer.bytes() > before);
    }
    assert!((300..400).contains(&written), "{written} in an hour");
    let pending = Status { pending: 99, ..after(TENTHS) };
    writer.status(&pending);
    writer.flush().unwrap();
    assert_eq!(
        TraceReader::open(&path).unwrap().status(),
        Some(&pending),
        "what is no counter is written at once"
    );
    let last = Status { ending: Ending::Exited, ..after(TENTHS + 1) };
    writer.finish(&last).unwrap();
    assert_eq!(TraceReader::open(&path).unwrap().status(), Some(&last));
}

/// The file says of losses only how many they were so far: a report cannot take the time of one for idle if it knows when that was.
#[test]
fn a_trace_says_between_which_two_looks_records_were_lost() {
    const LOOK: u64 = 100_000_000;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.gspy");
    let first = Status { lost: [].into(), ..status(Ending::Running) };
    let mut writer = TraceWriter::create(&path, &first).unwrap();
    let mut now = Instant::now();
    let after = |looks: u64, cause: LossCause, count: u64| Status {
        ended: first.ended + looks * LOOK,
        lost: [(cause, count)].into(),
        ..first.clone()
    };
    // What is lost in a minute of ten looks a second, by the number of the look.
    for look in 1..=600 {
        now += Duration::from_nanos(LOOK);
        let count = u64::from(look >= 55) + u64::from(look >= 56) + u64::from(look >= 300);
        writer.status(&after(look, LossCause::RingFull, count));
        writer.flush_if_due(now).unwrap();
    }
    writer.finish(&after(601, LossCause::RingFull, 4)).unwrap();
    let at = |look: u64| first.ended + look * LOOK;
    let lost = TraceReader::open(&path).unwrap().lost_time().sorted();
    let expected = [(54, 56), (299, 300), (600, 601)].map(|(from, to)| (at(from), at(to)));
    assert_eq!(lost.len(), 3, "{lost:?}");
    for (found, expected) in lost.iter().zip(expected) {
        // One more look may pass until it is written.
        assert!(
            found.0 == expected.0 && (0..=LOOK).contains(&(found.1 - expected.1)),
            "{found:?}, {expected:?}"
        );
    }
    let mut writer = TraceWriter::create(&path, &first).unwrap();
    writer.status(&after(1, LossCause::GpuTimePending, 7));
    writer.finish(&after(2, LossCause::NameLost, 7)).unwrap();
    assert_eq!(TraceReader::open(&path).unwrap().lost_time().sorted(), [], "no call is missing");
}

/// While a collector that had been stopped wrote what it had read, the process was over already: a GPU's span was longer than the run.
#[test]
fn nothing_was_lost_after_the_process_had_ended() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.gspy");
    let first = Status { lost: [].into(), ..status(Ending::Running) };
    let after = |ns: u64, ending| Status {
        ended: first.ended + ns,
        lost: [(LossCause::RingFull, 3)].into(),
        ending,
        ..first.clone()
    };
    let mut writer = TraceWriter::create(&path, &first).unwrap();
    writer.status(&after(900, Ending::Running));
    writer.flush().unwrap();
    let last = after(400, Ending::Exited);
    writer.finish(&last).unwrap();
    let lost = TraceReader::open(&path).unwrap().lost_time().sorted();
    assert_eq!(lost, [(first.ended, last.ended)]);
}

#[test]
fn names_and_the_last_status_are_read_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.gspy");
    let mut writer = TraceWriter::create(&path, &status(Ending::Running)).unwrap();
    let long = "x".repeat(300_000);
    let names = [
        (Namespace::Kernel, 1, "_Z6kernelPf"),
        (Namespace::Kernel, u32::MAX, ""),
        (Namespace::Fact, 1, "python\0train.py"),
        (Namespace::Path, 3, "/tmp/ä/лib.so"),
        (Namespace::Thread, 4, &long),
        (Namespace::Device, 5, &long),
    ];
    for (namespace, id, text) in names {
        writer.name(namespace, id, text).unwrap();
    }
    let last = Status { calls: 1_000, ..status(Ending::Vanished) };
    writer.finish(&last).unwrap();
    let reader = TraceReader::open(&path).unwrap();
    assert_eq!(reader.names().0.len(), names.len());
    for (namespace, id, text) in names {
        assert_eq!(reader.names().get(namespace, id), Some(text));
    }
    assert_eq!(reader.status(), Some(&last));
    assert!(reader.complete());
}

#[test]
fn a_trace_without_an_end_is_readable_and_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.gspy");
    let mut writer = TraceWriter::create(&path, &status(Ending::Running)).unwrap();
    let records: Vec<Record> = Generator::new(1, Options::default()).take(1_000).collect();
    for record in &records {
        writer.push(record.clone()).unwrap();
    }
    writer.flush().unwrap();
    drop(writer); // as if killed
    let mut reader = TraceReader::open(&path).unwrap();
    assert!(reader.records().eq(records));
    assert!(!reader.complete());
    assert_eq!(reader.damage(), Damage { unfinished: true, ..Damage::default() });
    assert_eq!(reader.status(), Some(&status(Ending::Running)));
}

/// Separates a record from its GPU time.
fn split(record: &Record) -> (Record, Option<(u64, GpuTime)>) {
    let mut record = record.clone();
    let time = match &mut record.body {
        Body::Work(work) => work.gpu.take().map(|gpu| (work.call.correlation, gpu)),
        _ => None,
    };
    (record, time)
}

#[test]
fn gpu_times_are_joined_whenever_they_arrive() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.gspy");
    let options = Options { threads: 4, other_calls: true, ..Options::default() };
    let expected: Vec<Record> = Generator::new(5, options).take(20_000).collect();
    let mut random = Random(8);
    let mut writer = TraceWriter::create(&path, &status(Ending::Running)).unwrap();
    // Times arrive up to 3000 records before or after their launches; the file is flushed about every 1000.
    let mut events = Vec::new();
    for (i, record) in expected.iter().enumerate() {
        events.push((3_000 + i as u64, i, None));
        if let (_, Some(time)) = split(record) {
            events.push((i as u64 + random.below(6_000), i, Some(time)));
        }
    }
    events.sort_by_key(|(when, i, time)| (*when, *i, time.is_some()));
    for (_, i, time) in events {
        match time {
            Some((correlation, time)) => writer.gpu_time(correlation, time).unwrap(),
            None => writer.push(split(&expected[i]).0).unwrap(),
        }
        if random.below(1_000) == 0 {
            writer.flush().unwrap();
        }
    }
    let summary = writer.finish(&status(Ending::Exited)).unwrap();
    assert!(summary.timed_joined > 1_000 && summary.timed_late > 1_000, "{summary:?}");
    assert_eq!(summary.timed_orphaned, 0);
    assert_eq!(read_whole(&path), expected);
}

/// Returns a launch and its time.
fn first_timed() -> (Record, (u64, GpuTime)) {
    let mut records = Generator::new(5, Options::default()).map(|record| split(&record));
    records.find_map(|(record, time)| time.map(|time| (record, time))).unwrap()
}

#[test]
fn a_time_without_its_launch_is_counted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.gspy");
    let mut writer = TraceWriter::create(&path, &status(Ending::Running)).unwrap();
    let (record, (correlation, time)) = first_timed();
    writer.gpu_time(correlation + 1, time).unwrap();
    writer.push(record.clone()).unwrap();
    let summary = writer.finish(&status(Ending::Exited)).unwrap();
    assert_eq!((summary.timed_orphaned, summary.timed_joined, summary.timed_late), (1, 0, 0));
    assert_eq!(read_whole(&path), [record], "timed, and its time is lost");
}

#[test]
fn an_untimed_operation_takes_no_late_time() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.gspy");
    let mut writer = TraceWriter::create(&path, &status(Ending::Running)).unwrap();
    let (mut record, (correlation, time)) = first_timed();
    if let Body::Work(work) = &mut record.body {
        work.untimed = Untimed::Contended;
    }
    writer.push(record.clone()).unwrap();
    writer.gpu_time(correlation, time).unwrap();
    writer.finish(&status(Ending::Exited)).unwrap();
    assert_eq!(read_whole(&path), [record]);
}

#[test]
fn records_that_are_drained_late_are_sorted() {
    // Four threads, drained one after the other, 500 records each: chunks overlap.
    let options = Options { threads: 4, ..Options::default() };
    let expected: Vec<Record> = Generator::new(9, options).take(20_000).collect();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.gspy");
    let mut writer = TraceWriter::create(&path, &status(Ending::Running)).unwrap();
    for part in expected.chunks(2_000) {
        for thread in 0..4 {
            for record in part.iter().filter(|record| record.thread == thread) {
                writer.push(record.clone()).unwrap();
            }
            writer.flush().unwrap();
        }
    }
    writer.finish(&status(Ending::Exited)).unwrap();
    assert_eq!(read_whole(&path), expected);
}

#[test]
fn a_burst_is_written_without_a_flush_and_memory_stays_bounded() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.gspy");
    let mut writer = TraceWriter::create(&path, &status(Ending::Running)).unwrap();
    let expected: Vec<Record> = Generator::new(9, Options::default()).take(150_000).collect();
    for record in &expected {
        writer.push(record.clone()).unwrap();
    }
    let mut reader = TraceReader::open(&path).unwrap();
    assert!(reader.records().count() >= 150_000 - 65_536, "no more than 65536 are held back");
    writer.finish(&status(Ending::Exited)).unwrap();
    assert_eq!(read_whole(&path), expected);
}

#[test]
fn a_record_is_in_the_file_one_flush_interval_later() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.gspy");
    let mut writer = TraceWriter::create(&path, &status(Ending::Running)).unwrap();
    let step = Duration::from_millis(10);
    let mut now = Instant::now();
    let mut came = Vec::new();
    for record in Generator::new(9, Options::default()).take(200) {
        writer.push(split(&record).0).unwrap();
        came.push(now);
        writer.flush_if_due(now).unwrap();
        let due = came.iter().filter(|came| now.duration_since(**came) >= FLUSH_INTERVAL).count();
        let in_file = TraceReader::open(&path).unwrap().records().count();
        assert!(in_file >= due, "{in_file} of {due}");
        now += step;
    }
    assert!(TraceReader::open(&path).unwrap().records().count() > 150);
}

#[test]
fn a_long_trace_can_be_read_again_from_the_start() {
    let records: Vec<Record> = Generator::new(2, Options::default()).take(3_000).collect();
    let bytes = written(&records);
    let mut reader = TraceReader::new(Cursor::new(&bytes)).unwrap();
    assert_eq!(reader.records().take(10).count(), 10);
    assert!(reader.records().eq(records));
}

#[test]
fn waiting_ends_when_the_writer_does() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.gspy");
    let writer = TraceWriter::create(&path, &status(Ending::Running)).unwrap();
    assert!(!wait_until_complete(&path, Duration::from_millis(30)).unwrap(), "still being written");
    let again = TraceWriter::create(&path, &status(Ending::Running)).unwrap_err();
    assert_eq!(again.kind(), std::io::ErrorKind::WouldBlock, "and not by two");
    let ends = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(50));
        writer.finish(&status(Ending::Exited)).unwrap()
    });
    assert!(wait_until_complete(&path, Duration::from_secs(60)).unwrap());
    assert!(TraceReader::open(&path).unwrap().complete());
    ends.join().unwrap();
}

#[test]
fn the_generators_truth_matches_its_trace() {
    let mut generator = Generator::new(4, Options { threads: 3, other_calls: true, ..Options::default() });
    let records: Vec<Record> = generator.by_ref().take(30_000).collect();
    assert!(records.windows(2).all(|pair| pair[0].at <= pair[1].at));
    let truth = generator.truth();
    let count = |wanted: fn(&Body) -> bool| records.iter().filter(|r| wanted(&r.body)).count() as u64;
    assert_eq!(truth.records, 30_000);
    assert_eq!(
        truth.launches,
        count(|body| matches!(body, Body::Work(Work { what: What::Kernel { .. }, .. })))
    );
    assert_eq!(truth.launches, truth.kernels.values().map(|lengths| lengths.count).sum::<u64>());
    let transfers = truth.transfers.values().map(|moved| moved.count).sum::<u64>();
    assert_eq!(
        transfers,
        count(|body| matches!(
            body,
            Body::Work(Work { what: What::Memcpy { .. } | What::Memset { .. }, .. })
        ))
    );
    let memory = |of: fn(&Held) -> u64| truth.memory.values().map(of).sum::<u64>();
    let (allocations, frees) = (memory(|held| held.allocations), memory(|held| held.frees));
    assert_eq!(allocations, count(|body| matches!(body, Body::Alloc(_))));
    assert_eq!(frees, count(|body| matches!(body, Body::Free(_))));
    let Parts { span, compute, transfer, idle, gaps, .. } = truth.parts();
    assert!(compute > 0 && transfer > 0 && idle > 0 && gaps > 100 && compute + transfer + idle == span);
    assert!(transfers > 100 && frees > 100);
    let again: Vec<Record> =
        Generator::new(4, Options { threads: 3, other_calls: true, ..Options::default() })
            .take(30_000)
            .collect();
    assert_eq!(records, again);
}
