//! Tests of the memory analysis with a few changes.

mod held;

use super::lifetimes::{Lifetime, Lived};
use super::*;
use crate::analyze::analysis::finish_at;
use crate::analyze::estimate::Estimate;
use crate::analyze::merge::Merge;
use crate::model::memory::Allocator;
use crate::model::period::CaptureRanges;
use crate::trace::record::{Alloc, Api, Context, Free, Names};
use gpuspy_wire::record::{LossCause, flag};

#[test]
fn the_peak_is_at_the_first_moment_with_the_most_memory() {
    let (memory, mut use_) = (Memory::Device, Use::default());
    let of = OF;
    for (at, change) in [
        (10, MemoryChange::Allocated { memory, bytes: 100, of }),
        (20, MemoryChange::Allocated { memory, bytes: 50, of }),
        (30, MemoryChange::Freed { memory, bytes: 100, of }),
        (40, MemoryChange::Allocated { memory, bytes: 100, of }),
        (50, MemoryChange::Freed { memory, bytes: 50, of }),
        (60, MemoryChange::Vanished { memory, bytes: 100, of }),
    ] {
        use_.change(change, true);
        use_.raise_peak(at, 0);
    }
    let expected = Use {
        allocations: 3,
        allocated_bytes: 250,
        frees: 2,
        peak_bytes: 150,
        peak_between: (0, 0),
        doubt: Reasons::default(),
        peak_at: 20,
        live_bytes: 0,
    };
    assert_eq!(use_, expected);
}

#[test]
fn counts_of_several_lines_add_up_and_held_memory_does_not() {
    let used = |allocations, allocated_bytes, frees, peak_bytes, peak_at, live_bytes| Use {
        allocations,
        allocated_bytes,
        frees,
        peak_bytes,
        peak_between: (peak_bytes - 2, peak_bytes + 3),
        doubt: Reasons::default(),
        peak_at,
        live_bytes,
    };
    let one = used(1, 10, 0, 10, 5, 10);
    let two = used(2, 40, 2, 30, 7, 0);
    let mut both = one;
    both.merge(&two);
    assert_eq!(both, used(3, 50, 2, 30, 7, 10));
}

const OF: Allocator = Allocator { context: 1, thread: 1, stream: None, caller: 0, correlation: 0 };

fn take(fold: &mut MemoryTimeline, event: &Event<'_>) {
    fold.observe(event, &Scope::whole(event, true));
}

/// Applies changes of device memory, each at its time: bytes allocated, or freed if negative.
fn observe(fold: &mut MemoryTimeline, changes: &[(u64, i64)]) {
    for (at, bytes) in changes {
        let (memory, size) = (Memory::Device, bytes.unsigned_abs());
        let change = match bytes {
            1.. => MemoryChange::Allocated { memory, bytes: size, of: OF },
            _ => MemoryChange::Freed { memory, bytes: size, of: OF },
        };
        let body = Body::Loss { cause: LossCause::RingFull, count: 0 };
        let record = Record { thread: 1, at: *at, body };
        take(fold, &Event { memory: vec![change], ..Event::new(&record) });
    }
}

fn line(changes: &[(u64, i64)], ended: u64) -> MemoryLine {
    let mut fold = MemoryTimeline::over(1_000_000, Period::default());
    observe(&mut fold, changes);
    fold.rows(ended, |_| None).timeline
}

#[test]
fn a_level_is_held_until_it_changes() {
    let changes = [(1_001_500, 10), (1_001_700, 5), (1_001_800, -10), (1_004_000, -5)];
    let expected = MemoryLine { from_ns: 0, bucket_ns: 1_000, peaks: vec![0, 15, 5, 5, 5, 0, 0] };
    assert_eq!(line(&changes, 1_007_000), expected);
    assert!(line(&[], 1_007_000).peaks.is_empty(), "nothing was ever held");
}

#[test]
fn memory_that_a_graph_allocates_and_frees_is_held_for_a_moment() {
    let mut fold = MemoryTimeline::over(1_000_000, Period::default());
    observe(&mut fold, &[(1_000_500, 10)]);
    let memory = Memory::Graph;
    let passed = MemoryChange::Passed { memory, blocks: 3, bytes: 9, at_once: 7, largest: 7, of: OF };
    let body = Body::Loss { cause: LossCause::RingFull, count: 0 };
    let record = Record { thread: 1, at: 1_002_500, body };
    take(&mut fold, &Event { memory: vec![passed], ..Event::new(&record) });
    let reported = fold.rows(1_005_000, |_| None);
    assert_eq!(reported.timeline.peaks, [10, 10, 17, 10, 10]);
    let (peak_bytes, peak_at) = (17, 2_500);
    let all = Use {
        allocations: 4,
        allocated_bytes: 19,
        frees: 3,
        peak_bytes,
        peak_between: (17, 17),
        doubt: Reasons::default(),
        peak_at,
        live_bytes: 10,
    };
    assert_eq!(reported.device, all);
    assert_eq!((reported.by_kind["graph"].peak_bytes, reported.by_kind["graph"].live_bytes), (7, 0));
}

#[test]
fn a_long_line_gets_longer_intervals() {
    let long =
        line(&[(1_000_000, 7), (1_001_000, 20), (1_002_000, -20), (1_000_000 + 512_000, 3)], 1_600_000);
    assert_eq!((long.bucket_ns, long.peaks.len()), (8_000, 75));
    assert_eq!((long.peaks[0], &long.peaks[1..64]), (27, [7; 63].as_slice()));
    assert_eq!(&long.peaks[64..], [10; 11]);
    for ended in [1_127_999, 1_128_001, 5_000_000_000, u64::MAX] {
        let line = line(&[(1_000_000, 7)], ended);
        assert!(line.peaks.len() <= 128 && line.peaks.iter().all(|peak| *peak == 7), "{ended}: {line:?}");
    }
}

#[test]
fn memory_from_before_the_selected_time_is_held_from_its_start_on() {
    let changes = [(1_000_100, 100), (1_000_200, -60), (1_003_000, 10), (1_004_000, -50), (1_009_000, 500)];
    let mut fold = MemoryTimeline::over(1_000_000, Period::between(1_002_000, 1_008_000));
    observe(&mut fold, &changes);
    let memory = fold.rows(2_000_000, |_| None);
    let expected = Use {
        allocations: 1,
        allocated_bytes: 10,
        frees: 1,
        peak_bytes: 50,
        peak_between: (50, 50),
        doubt: Reasons::default(),
        peak_at: 3_000,
        live_bytes: 0,
    };
    assert_eq!((memory.device, memory.by_kind["device"]), (expected, expected));
    let expected = MemoryLine { from_ns: 2_000, bucket_ns: 1_000, peaks: vec![40, 50, 50, 0, 0, 0] };
    assert_eq!(memory.timeline, expected);
    let mut quiet = MemoryTimeline::over(1_000_000, Period::between(1_001_000, 1_002_000));
    observe(&mut quiet, &changes);
    let memory = quiet.rows(2_000_000, |_| None);
    assert_eq!((memory.device.peak_bytes, memory.device.peak_at, memory.device.allocations), (40, 1_000, 0));
}

#[test]
fn each_of_several_selected_parts_starts_with_what_is_held_then() {
    let mut captures = CaptureRanges::default();
    for (at, begins) in [(1_002_000, true), (1_004_000, false), (1_010_000, true), (1_012_000, false)] {
        captures.observe(&Record { thread: 0, at, body: Body::CaptureEdge { begins } });
    }
    let period = captures.period(&Names::default(), None, (i64::MIN, i64::MAX));
    let mut fold = MemoryTimeline::over(1_000_000, period);
    observe(
        &mut fold,
        &[(1_001_000, 40), (1_003_000, 2), (1_005_000, 900), (1_006_000, -850), (1_013_000, 500)],
    );
    let memory = fold.rows(2_000_000, |_| None);
    let Use { allocations, allocated_bytes, frees, peak_bytes, peak_at, live_bytes, .. } = memory.device;
    assert_eq!((allocations, allocated_bytes, frees), (1, 2, 0));
    assert_eq!((peak_bytes, peak_at, live_bytes), (92, 10_000, 92), "not the 942 in between");
    assert_eq!(memory.timeline.peaks, [40, 42, 42, 42, 42, 42, 42, 42, 92, 92]);
}

/// A block is allocated at 10 ns, and a call from 20 to 40 ns frees it or fails to.
fn freed(from: i64, to: i64, fails: bool) -> Use {
    let mut fold = MemoryTimeline::over(0, Period::between(from, to));
    observe(&mut fold, &[(10, 8)]);
    let call = Call { begin: 20, end: 40, flags: if fails { flag::FAILED } else { 0 }, ..Call::default() };
    let free = Free { call, memory: Memory::Device, address: 1, stream: 0, bytes: 0 };
    let free = Record { thread: 1, at: 20, body: Body::Free(free) };
    let api = Api { call, result: i32::from(fails), subject: 0, calls: 1, inside: 0, entered: 0 };
    let end = Record { thread: 1, at: 40, body: Body::Api(api) };
    let (memory, bytes) = (Memory::Device, 8);
    let goes = MemoryChange::Freed { memory, bytes, of: OF };
    take(&mut fold, &Event { memory: vec![goes], ..Event::new(&free) });
    let back = fails.then_some(MemoryChange::FreeFailed { memory, bytes, of: OF });
    let end = Event { memory: back.into_iter().collect(), ..Event::new(&end) };
    take(&mut fold, &end);
    fold.rows(50, |_| None).device
}

#[test]
fn a_free_that_fails_frees_nothing() {
    for (from, to) in [(i64::MIN, 30), (30, i64::MAX)] {
        let used = freed(from, to, true);
        assert_eq!((used.frees, used.live_bytes, used.peak()), (0, 8, Estimate::new(8, 8, 8)));
    }
}

#[test]
fn a_free_counts_where_it_ends() {
    let (before, after) = (freed(i64::MIN, 30, false), freed(30, i64::MAX, false));
    assert_eq!((before.frees, before.live_bytes), (0, 8), "its call is not over");
    assert_eq!((after.frees, after.live_bytes, after.peak_bytes), (1, 0, 8));
}

/// Begins to free, in a call of a process's thread 1 from 20 to 60 ns, what the fold holds: 400 bytes.
fn begin_free(fold: &mut MemoryTimeline, process: u32) -> Call {
    let call = Call { correlation: 7, begin: 20, end: 60, ..Call::default() };
    let (memory, bytes) = (Memory::Device, 400);
    let free = Free { call, memory, address: 1, stream: 0, bytes: 0 };
    let free = Record { thread: 1, at: 20, body: Body::Free(free) };
    let goes = MemoryChange::Freed { memory, bytes, of: OF };
    take(fold, &Event { memory: vec![goes], process, ..Event::new(&free) });
    call
}

/// Allocates 300 bytes in a call of a process's thread 1 that returns at this time.
fn allocate(fold: &mut MemoryTimeline, process: u32, at: u64) {
    let (call, memory) = (Call { correlation: 7, begin: at - 5, end: at, ..Call::default() }, Memory::Device);
    let alloc = Alloc { call, memory, address: 1, bytes: 300, stream: 0, pool: 0 };
    let alloc = Record { thread: 1, at, body: Body::Alloc(alloc) };
    let came = MemoryChange::Allocated { memory, bytes: 300, of: OF };
    take(fold, &Event { memory: vec![came], process, ..Event::new(&alloc) });
}

/// Numbers of threads are those of their process: a call of another process passed for the return of a free that
/// waited for the GPU, and the peak of two processes was "exactly" that of one.
#[test]
fn a_free_is_over_when_its_own_process_returns_from_it() {
    let mut fold = MemoryTimeline::over(0, Period::default());
    observe(&mut fold, &[(10, 400)]);
    let call = begin_free(&mut fold, 0);
    allocate(&mut fold, 1, 40);
    let api = Api { call, result: 0, subject: 0, calls: 1, inside: 0, entered: 0 };
    let end = Record { thread: 1, at: 60, body: Body::Api(api) };
    take(&mut fold, &Event::new(&end));
    let device = fold.rows(100, |_| None).device;
    assert_eq!((device.peak_bytes, device.peak_at, device.live_bytes), (700, 40, 300));
}

#[test]
fn a_free_that_the_end_of_its_process_cut_off_is_over_then() {
    let mut fold = MemoryTimeline::over(0, Period::default());
    observe(&mut fold, &[(10, 400)]);
    begin_free(&mut fold, 0);
    fold.process_ended(1, 30);
    assert_eq!(fold.sum.device.live_bytes, 400, "it is another process");
    fold.process_ended(0, 50);
    allocate(&mut fold, 1, 70);
    let device = fold.rows(100, |_| None).device;
    assert_eq!((device.peak_bytes, device.live_bytes), (400, 300));
}

/// They were those of the first line.
#[test]
fn several_lines_have_no_memory_over_time_and_none_by_gpu() {
    let mut fold = MemoryTimeline::over(1_000_000, Period::default());
    observe(&mut fold, &[(1_000_500, 10)]);
    let mut sum = fold.rows(1_005_000, |_| None);
    sum.by_gpu.insert(0, sum.device);
    let other = sum.clone();
    assert!(!sum.timeline.peaks.is_empty() && !sum.timelines.is_empty());
    sum.merge(&other);
    assert_eq!((sum.timeline, sum.timelines.len(), sum.by_gpu.len()), (MemoryLine::default(), 0, 0));
}

/// With `--since`, the blocks that were freed before were in the table of lifetimes too.
#[test]
fn blocks_count_by_their_lifetime_if_they_were_held_in_the_selected_time() {
    let names = Names::default();
    let start = Start { period: Period::between(2_000, 8_000), ..Start::of(&names) };
    let mut fold = MemoryTimeline::new(&start);
    let before = [(100, 10), (200, -10)];
    let into_it = [(1_000, 20), (3_000, -20)];
    let inside = [(4_000, 40), (5_000, -40)];
    let after = [(9_000, 80), (9_500, -80)];
    observe(&mut fold, &[before, into_it, inside, after].concat());
    let expected = Lived { blocks: 2, bytes: 60, at_peak_bytes: 40 };
    assert_eq!(finish_at(fold, 10_000).holders.lifetimes, BTreeMap::from([(Lifetime::Temporary, expected)]));
}

/// A caching allocator allocates nothing in the steady state, and with `--since` each of several GPUs had a peak of 0.
#[test]
fn what_a_gpu_holds_when_the_selected_time_begins_may_be_its_peak() {
    let names = Names::default();
    let start = Start { period: Period::between(2_000, 8_000), ..Start::of(&names) };
    let mut fold = MemoryTimeline::new(&start);
    for (context, bytes) in [(1, 40), (2, 70)] {
        let of_context = Context { context, device: context - 1, handle: 9, destroyed: false };
        let record = Record { thread: 1, at: 100, body: Body::Context(of_context) };
        take(&mut fold, &Event::new(&record));
        let of = Allocator { context, correlation: context.into(), ..OF };
        let allocated = MemoryChange::Allocated { memory: Memory::Device, bytes, of };
        let body = Body::Loss { cause: LossCause::RingFull, count: 0 };
        let record = Record { thread: 1, at: 1_000, body };
        take(&mut fold, &Event { memory: vec![allocated], ..Event::new(&record) });
    }
    let by_gpu = finish_at(fold, 10_000).by_gpu;
    let peaks: Vec<_> = by_gpu.values().map(|held| (held.peak_bytes, held.peak_at)).collect();
    assert_eq!(peaks, [(40, 2_000), (70, 2_000)]);
}

/// 70 GiB of managed memory that nothing had touched were 87.5 % of a GPU, and more of it than a GPU has was no room at all.
#[test]
fn managed_memory_does_not_fill_a_gpu() {
    let names = Names::default();
    let mut fold = MemoryTimeline::new(&Start::of(&names));
    let of_context = Context { context: 1, device: 0, handle: 9, destroyed: false };
    take(&mut fold, &Event::new(&Record { thread: 1, at: 100, body: Body::Context(of_context) }));
    let blocks = [(Memory::Device, 5, 1), (Memory::Managed, 70, 2), (Memory::Pool, 3, 3)];
    for (memory, bytes, correlation) in blocks {
        let of = Allocator { correlation, ..OF };
        let body = Body::Loss { cause: LossCause::RingFull, count: 0 };
        let record = Record { thread: 1, at: 1_000 * correlation, body };
        let allocated = MemoryChange::Allocated { memory, bytes, of };
        take(&mut fold, &Event { memory: vec![allocated], ..Event::new(&record) });
    }
    let memory = finish_at(fold, 10_000);
    assert_eq!((memory.device.peak_bytes, memory.by_kind["managed"].peak_bytes), (78, 70));
    assert_eq!((memory.resident.peak_bytes, memory.by_gpu[&0].peak_bytes), (8, 8));
}
