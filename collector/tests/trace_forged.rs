//! A trace that was made to cost: small, valid by its checksums, and about far more than its bytes can tell. What it takes to
//! read one is bounded by its size, and what was refused is told.

mod trace_common;

use gpuspy_collector::analyze::{self, Input, ProcessReport};
use gpuspy_collector::model::filter::Filter;
use gpuspy_collector::model::survey::Survey;
use gpuspy_collector::trace::coding::Encoder;
use gpuspy_collector::trace::format::{ChunkKind, FLAG_ZSTD, Header, MAX_ENTRIES, MAX_PLAIN, VERSION};
use gpuspy_collector::trace::generator::Random;
use gpuspy_collector::trace::record::*;
use gpuspy_collector::trace::{Damage, TraceReader};
use gpuspy_wire::record::{LossCause, Namespace, Untimed};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::io::Cursor;
use std::ops::Range;
use std::process::Command;
use trace_common::written;

thread_local! {
    /// Bytes that this thread holds, and the most that it ever did.
    static HELD: Cell<(isize, isize)> = const { Cell::new((0, 0)) };
}

/// The system's allocator, which counts.
struct Counting;

fn count(bytes: isize) {
    let (held, most) = HELD.get();
    HELD.set((held + bytes, most.max(held + bytes)));
}

// SAFETY: everything is the system's, with the same arguments; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The most bytes that `work` holds beside what was held before.
fn most_held<T>(work: impl FnOnce() -> T) -> (T, usize) {
    let before = HELD.get().0;
    HELD.set((before, before));
    let result = work();
    (result, (HELD.get().1 - before) as usize)
}

/// CPU time of this thread that `work` takes, ns: other programs cost it little.
fn cpu_ns(work: impl FnOnce()) -> u64 {
    let now = || {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: a valid clock and a valid place for its answer.
        unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
        time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
    };
    let before = now();
    work();
    now() - before
}

/// How many times longer `work` takes on four times as much: 4 where it is in proportion, 16 where it goes by the square.
fn growth<T>(make: impl Fn(u64) -> T, work: impl Fn(&T), much: u64) -> f64 {
    let [little, much] = [make(much), make(4 * much)];
    let least = |of: &T| (0..3).map(|_| cpu_ns(|| work(of))).min().unwrap_or(0) as f64;
    least(&much) / least(&little)
}

const FULL: u64 = MAX_ENTRIES as u64;

fn chunk(
    kind: ChunkKind,
    (payload, flags, plain_bytes): (Vec<u8>, u16, u32),
    entries: u64,
    (first, last): (u64, u64),
) -> Vec<u8> {
    let header = Header {
        kind: kind as u8,
        version: VERSION,
        flags,
        payload_bytes: payload.len() as u32,
        plain_bytes,
        entries: entries as u32,
        payload_checksum: crc32fast::hash(&payload),
        sequence: 0,
        records_before: 0,
        first,
        last,
    };
    [&header.to_bytes()[..], &payload].concat()
}

/// A chunk of records that come in order.
fn records(numbers: Range<u64>, make: impl Fn(u64) -> Record) -> Vec<u8> {
    let mut encoder = Encoder::default();
    let (first, last) = (make(numbers.start).at, make(numbers.end - 1).at);
    numbers.clone().for_each(|n| encoder.record(&make(n)));
    chunk(ChunkKind::Records, encoder.pack().unwrap(), numbers.end - numbers.start, (first, last))
}

/// A launch that returned at `at`; on which time base its GPU time lies and when its end was seen, or it comes late.
fn launch(correlation: u64, at: u64, time: Option<(u32, u64)>) -> Record {
    let call = Call { correlation, begin: at, end: at, context: 1, ..Call::default() };
    let gpu =
        time.map(|(time_base, seen)| GpuTime { time_base, start: at as i64, seen, ..GpuTime::default() });
    let what = What::Kernel {
        name: 1,
        function: 1,
        grid: [1; 3],
        block: [1; 3],
        shared_bytes: 0,
        attributes: 0,
        cluster: [0; 3],
    };
    let (untimed, stream) = (Untimed::Timed, 7);
    let work = Work { call, submitted: at, entered: 0, lead: 0, tail: 0, untimed, stream, gpu, what };
    Record { thread: 1, at, body: Body::Work(work) }
}

/// Reads all records.
fn read(bytes: &[u8]) -> (u64, Damage) {
    let mut reader = TraceReader::new(Cursor::new(bytes)).unwrap();
    let read = reader.records().count() as u64;
    (read, reader.damage())
}

/// Reads a trace as `gpuspy report` does.
fn report(bytes: &[u8]) -> ProcessReport {
    let mut reader = TraceReader::new(Cursor::new(bytes)).unwrap();
    let clocks = Survey::of(reader.records());
    let (names, damage) = (reader.names().clone(), reader.damage().into());
    analyze::process(Input {
        path: String::new(),
        names: &names,
        status: None,
        damage,
        clocks: &clocks,
        filter: &Filter::default(),
        records: reader.records(),
    })
}

/// What may be read of a file of so many bytes: records, and memory to do so. A reader's own few MiB are in it.
fn allowed(bytes: &[u8]) -> (u64, usize) {
    ((1 << 17) + 8 * bytes.len() as u64, (72 << 20) + 16 * bytes.len())
}

/// 59 KiB of chunks that lie over each other and hold 7 million launches, or 12 million losses. All of the launches took 25 s
/// of CPU time and 134 MiB; what is allowed takes 1.2 s and 17 MiB.
#[test]
fn a_small_file_that_claims_millions_of_records_is_read_as_far_as_its_size_allows() {
    let loss = |at| Record { thread: 0, at, body: Body::Loss { cause: LossCause::RingFull, count: 1 } };
    for one in [records(0..FULL, |n| launch(n, n, None)), records(0..FULL, loss)] {
        let bytes = one.repeat((59 << 10) / one.len());
        let claimed = (bytes.len() / one.len()) as u64 * FULL;
        let ((read, damage), held) = most_held(|| read(&bytes));
        println!(
            "{} bytes of {claimed} records: {read} read with {} KiB, {damage:?}",
            bytes.len(),
            held >> 10
        );
        let (most, memory) = allowed(&bytes);
        assert!(read <= most && most - read < FULL, "{read} of {most}");
        assert!(held <= memory, "{held}");
        assert_eq!(damage.records_lost_at_least, claimed - read);
        assert_eq!((damage.chunks_lost, damage.chunks_refused), (0, (claimed - read) / FULL));
    }
}

/// Late times that all but one launch takes, chunk after chunk: what was left of a chunk once held the table of all of it.
#[test]
fn late_times_that_nobody_takes_hold_no_more_than_themselves() {
    let mut bytes = Vec::new();
    while bytes.len() < 12 << 10 {
        let first = bytes.len() as u64 * FULL;
        bytes.extend(records(first..first + FULL, |n| launch(n, n, None)));
        let mut encoder = Encoder::default();
        // Of a launch that never came, which stands far away.
        encoder.time(first + FULL, &GpuTime::default());
        (first..first + FULL - 1).for_each(|n| encoder.time(n, &GpuTime::default()));
        bytes.extend(chunk(ChunkKind::Times, encoder.pack().unwrap(), FULL, (first, u64::MAX)));
    }
    // Bytes that nobody reads make it large enough for all those chunks.
    let bytes = [bytes, vec![0; 1 << 20]].concat();
    let ((read, damage), held) = most_held(|| read(&bytes));
    println!("{} bytes: {read} records read with {} KiB, {damage:?}", bytes.len(), held >> 10);
    assert!(read > 20 * FULL && damage.chunks_refused == 0, "{read}: {damage:?}");
    assert!(held < 16 << 20, "{held}");
}

/// Chunks of one late time each, all open at once: each launch was looked for in each of them.
#[test]
fn a_launch_looks_for_its_late_time_once_however_many_chunks_there_are() {
    let trace = |chunks: u64| {
        let mut encoder = Encoder::default();
        encoder.time(1 << 40, &GpuTime::default());
        let one = chunk(ChunkKind::Times, encoder.pack().unwrap(), 1, (0, u64::MAX));
        [records(0..chunks, |n| launch(n, n, None)), one.repeat(chunks as usize)].concat()
    };
    let growth = growth(trace, |bytes| assert!(read(bytes).0 >= 4_000), 4_000);
    println!("4 times the chunks and launches: {growth:.1} times the work");
    assert!(growth < 9.0, "{growth}");
}

/// Each launch was seen to be over a second later than the one before: a piece of time each. 5.8 KB took 36 s of CPU time,
/// and take 1.1 s.
#[test]
fn a_second_for_each_record_costs_in_proportion() {
    const SECOND: u64 = 1_000_000_000;
    type Seen = fn(u64) -> (u64, u64);
    let forged: [(&str, Seen); 3] = [
        ("forwards", |n| (SECOND, (2 + n) * SECOND)),
        ("backwards", |n| (SECOND, (100_000 - n) * SECOND)),
        ("apart", |n| (n * SECOND, (100_000 - n) * SECOND)),
    ];
    for (how, seen) in forged {
        let trace = |launches| -> Vec<Record> {
            let launch = |n| launch(n, seen(n).0, Some((1, seen(n).1)));
            (0..launches).map(launch).collect()
        };
        let growth = growth(trace, |trace| drop(Survey::of(trace.iter().cloned())), 3_000);
        println!("{how}: 4 times the seconds, {growth:.1} times the work");
        assert!(growth < 9.0, "{how}: {growth}");
    }
    let bytes = records(0..FULL, |n| launch(n, SECOND, Some((1, (2 + n) * SECOND)))).repeat(15);
    let (report, held) = most_held(|| report(&bytes));
    println!("{} bytes: {:?}, {} KiB", bytes.len(), report.process.damage, held >> 10);
    let (most, _) = allowed(&bytes);
    assert_eq!(report.tables.coverage.launches, most / FULL * FULL);
}

fn read_all(bytes: &[u8]) -> Vec<Record> {
    TraceReader::new(Cursor::new(bytes)).unwrap().records().collect()
}

/// Chains that begin and end with the trace, and of which nothing is known between: each was laid over all of it.
#[test]
fn chains_of_two_bounds_far_apart_take_no_more_than_their_bounds() {
    const SECOND: u64 = 1_000_000_000;
    let trace = |launches: u64| {
        let far = launches * SECOND;
        let time_base = |n: u64| (n % launches) as u32 + 2;
        let begin_and_end = |n| launch(n, SECOND, Some((time_base(n), far)));
        let between = |n| launch(n, SECOND, Some((1, SECOND + n * SECOND)));
        [records(0..launches, begin_and_end), records(0..launches, between)].concat()
    };
    let (_, held) = most_held(|| Survey::of(read_all(&trace(20_000))));
    println!("40 000 launches on 20 001 time_bases: {} KiB", held >> 10);
    assert!(held < 400 << 20, "{held}");
}

/// Payloads that are little before and much after decompression, of each kind.
#[test]
fn what_is_decompressed_is_bounded_too() {
    let plain = vec![0; MAX_PLAIN as usize];
    let payload = zstd::bulk::compress(&plain, 1).unwrap();
    for kind in [ChunkKind::Status, ChunkKind::Names, ChunkKind::Records, ChunkKind::Times, ChunkKind::End] {
        let one = chunk(kind, (payload.clone(), FLAG_ZSTD, MAX_PLAIN), 1, (0, 0));
        let bytes = [written(&[]), one.repeat(64)].concat();
        let ((_, damage), held) = most_held(|| read(&bytes));
        let within = (64 << 20) + 64 * bytes.len() as u64;
        println!("{kind:?}: {} bytes, {} KiB, {damage:?}", bytes.len(), held >> 10);
        assert_eq!(damage.chunks_refused, 64 - within / u64::from(MAX_PLAIN), "{kind:?}");
        assert!(held <= allowed(&bytes).1, "{kind:?}: {held}");
    }
}

/// The most regular program on the coarsest clock: of two times of a call, each is as expected or a tick off.
#[test]
fn a_true_trace_is_never_too_regular() {
    let mut random = Random(5);
    let mut now = 0;
    let calls: Vec<(u64, u64)> = std::iter::repeat_with(|| {
        let begin = now + 40 * random.below(2);
        now = begin + 40 * random.below(2);
        (begin, now)
    })
    .take(20 * FULL as usize)
    .collect();
    let call = |n: u64| {
        let (begin, end) = calls[n as usize];
        let call = Call { correlation: n, begin, end, ..Call::default() };
        Record {
            thread: 1,
            at: end,
            body: Body::Api(Api { call, result: 0, subject: 0, calls: 1, inside: 0, entered: 0 }),
        }
    };
    let bytes: Vec<u8> = (0..20).flat_map(|n| records(n * FULL..(n + 1) * FULL, call)).collect();
    let (read, damage) = read(&bytes);
    println!("{} bytes of {read} records: {:.2} a byte", bytes.len(), read as f64 / bytes.len() as f64);
    assert_eq!((read, damage), (20 * FULL, Damage::default()));
}

/// The screen and the JSON say what was refused.
#[test]
fn what_was_refused_is_told() {
    let one = records(0..FULL, |n| launch(n, n, None));
    let bytes = one.repeat(20);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("forged.gspy");
    std::fs::write(&path, &bytes).unwrap();
    let read = (1 << 17) / FULL + 1;
    let gpuspy = |arguments: &[&str]| {
        let output =
            Command::new(env!("CARGO_BIN_EXE_gpuspy")).arg("report").arg(&path).args(arguments).output();
        String::from_utf8(output.unwrap().stdout).unwrap()
    };
    let screen = gpuspy(&[]).split_whitespace().collect::<Vec<_>>().join(" ");
    let refused =
        format!("{} chunks refused because they claim more than a file of this size can hold", 20 - read);
    assert!(screen.contains(&refused), "{screen}");
    let json: serde_json::Value = serde_json::from_str(&gpuspy(&["--json"])).unwrap();
    let lost = (20 - read) * FULL;
    assert_eq!(
        json["processes"][0]["damage"]["chunks_refused"],
        20 - read,
        "{}",
        json["processes"][0]["damage"]
    );
    assert_eq!(json["processes"][0]["damage"]["records_lost"], lost);
    assert_eq!(json["coverage"]["dropped_by"]["damaged_trace"], lost);
}

/// A name of a MiB that compresses to nothing, under many ids.
#[test]
fn names_take_no_more_memory_than_the_file_may() {
    let text = vec![b'k'; 1 << 20];
    let names = |from: u32| {
        let mut plain = Vec::new();
        for id in from..from + 15 {
            plain.extend([Namespace::Kernel as u8, 0, 0, 0]);
            plain.extend(id.to_le_bytes());
            plain.extend((text.len() as u32).to_le_bytes());
            plain.extend(&text);
        }
        let payload = zstd::bulk::compress(&plain, 1).unwrap();
        chunk(ChunkKind::Names, (payload, FLAG_ZSTD, plain.len() as u32), 15, (0, 0))
    };
    // Large enough for the decompression to be allowed.
    let bytes = [(0..40).flat_map(|n| names(n * 15)).collect(), vec![0; 8 << 20]].concat();
    let ((_, damage), held) = most_held(|| read(&bytes));
    println!("{} bytes: {} KiB, {damage:?}", bytes.len(), held >> 10);
    assert!(
        held <= allowed(&bytes).1 + (40 << 20) && damage.chunks_lost + damage.chunks_refused > 0,
        "{held}"
    );
}
