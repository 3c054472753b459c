//! Traces forged to be expensive: small, with valid checksums, and claims of far more data than the bytes can contain. The cost
//! of reading is bounded by the size of the file, and what was refused is reported.

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
    /// The bytes that this thread has allocated, and their peak.
    static HELD: Cell<(isize, isize)> = const { Cell::new((0, 0)) };
}

/// The system allocator, with a count.
struct Counting;

fn count(bytes: isize) {
    let (held, most) = HELD.get();
    HELD.set((held + bytes, most.max(held + bytes)));
}

// SAFETY: all calls go to the system allocator with the same arguments; counting does not allocate.
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

/// Returns the peak of the bytes that `work` allocates.
fn most_held<T>(work: impl FnOnce() -> T) -> (T, usize) {
    let before = HELD.get().0;
    HELD.set((before, before));
    let result = work();
    (result, (HELD.get().1 - before) as usize)
}

/// Returns the CPU time of this thread that `work` takes, in ns, on which other programs have little effect.
fn cpu_ns(work: impl FnOnce()) -> u64 {
    let now = || {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the clock is valid, and the pointer is to a local variable.
        unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
        time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
    };
    let before = now();
    work();
    now() - before
}

/// Returns how many times longer `work` takes on four times as much data: 4 if linear, 16 if quadratic.
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

/// Returns a chunk of records in order.
fn records(numbers: Range<u64>, make: impl Fn(u64) -> Record) -> Vec<u8> {
    let mut encoder = Encoder::default();
    let (first, last) = (make(numbers.start).at, make(numbers.end - 1).at);
    numbers.clone().for_each(|n| encoder.record(&mut make(n)));
    chunk(ChunkKind::Records, encoder.pack().unwrap(), numbers.end - numbers.start, (first, last))
}

/// Returns a launch that returned at `at`, with the time base of its GPU time and when its end was observed, or with a late time.
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

/// Returns the records and the memory that a reader may use for a file of this size, including a few MiB of its own.
fn allowed(bytes: &[u8]) -> (u64, usize) {
    ((1 << 17) + 8 * bytes.len() as u64, (72 << 20) + 16 * bytes.len())
}

/// 59 KiB of chunks that overlap in time and claim 7 million launches, or 12 million losses. Reading all launches took 25 s of
/// CPU time and 134 MiB; reading the allowed part takes 1.2 s and 17 MiB.
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

/// Chunks of late times of which all but one are used. A former version kept the table of a whole chunk for the one that was left.
#[test]
fn unused_late_times_take_only_their_own_memory() {
    let mut bytes = Vec::new();
    while bytes.len() < 4 << 10 {
        let first = bytes.len() as u64 * FULL;
        bytes.extend(records(first..first + FULL, |n| launch(n, n, None)));
        let mut encoder = Encoder::default();
        // The time of a launch that never appears, far from the others.
        encoder.time(first + FULL, &GpuTime::default());
        (first..first + FULL - 1).for_each(|n| encoder.time(n, &GpuTime::default()));
        bytes.extend(chunk(ChunkKind::Times, encoder.pack().unwrap(), FULL, (first, u64::MAX)));
    }
    // Padding makes the file large enough for all these chunks.
    let bytes = [bytes, vec![0; 1 << 20]].concat();
    let ((read, damage), held) = most_held(|| read(&bytes));
    println!("{} bytes: {read} records read with {} KiB, {damage:?}", bytes.len(), held >> 10);
    assert!(read > 6 * FULL && damage.chunks_refused == 0, "{read}: {damage:?}");
    assert!(held < 16 << 20, "{held}");
}

/// Chunks with one late time each, all open at once. A former version searched all of them for each launch.
#[test]
fn the_search_for_a_late_time_does_not_depend_on_the_number_of_chunks() {
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

/// The end of each launch is observed one second after that of the one before, which gives each its own piece of the clock fit.
/// 5.8 KB took 36 s of CPU time, and now take 1.1 s.
#[test]
fn one_second_per_record_has_linear_cost() {
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
        let growth = growth(trace, |trace| drop(Survey::of(trace.iter().cloned())), 1_200);
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

/// Time bases that start and end with the trace and have no bounds between. A former version extended each over the whole trace.
#[test]
fn time_bases_with_two_distant_bounds_cost_only_those_bounds() {
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

/// Payloads of each kind that expand greatly when decompressed.
#[test]
fn decompressed_bytes_are_bounded_too() {
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

/// The most regular program on the coarsest clock: both times of each call are as expected or one tick off.
#[test]
fn a_genuine_trace_is_never_refused_as_too_regular() {
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
fn refused_chunks_are_reported() {
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

/// A name of 1 MiB that compresses to almost nothing, under many IDs.
#[test]
fn names_take_no_more_memory_than_the_file_allows() {
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
    // The file is large enough for the decompression to be allowed.
    let bytes = [(0..40).flat_map(|n| names(n * 15)).collect(), vec![0; 8 << 20]].concat();
    let ((_, damage), held) = most_held(|| read(&bytes));
    println!("{} bytes: {} KiB, {damage:?}", bytes.len(), held >> 10);
    assert!(
        held <= allowed(&bytes).1 + (40 << 20) && damage.chunks_lost + damage.chunks_refused > 0,
        "{held}"
    );
}
