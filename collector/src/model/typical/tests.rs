//! Usual lengths of operations whose true lengths are known.

use super::super::Model;
use super::super::survey::Survey;
use super::*;
use crate::trace::record::{Alloc, Call, Context, Names};
use gpuspy_wire::record::{Direction, Memory, Untimed};

/// Launches with a known truth on a GPU whose clock is the host's. A queued launch waits for earlier work, and
/// its events determine its length; one on a drained stream is issued while its start event fires.
#[derive(Default)]
struct Gpu {
    now: u64,
    records: Vec<Record>,
}

impl Gpu {
    fn record(&mut self, body: Body) {
        self.records.push(Record { thread: 1, at: self.now, body });
    }

    fn ran(&mut self, what: What, is_queued: bool, lasted: u64) -> Work {
        let begin = self.now + 1_000_000;
        let (submitted, end) = (begin + 4_000, begin + 5_000);
        self.now = end + 1_000_000;
        let start = if is_queued { begin + 500_000 } else { begin + 1_000 };
        let over = if is_queued { start + lasted } else { end.max(submitted + lasted) };
        let call = Call { begin, end, context: 1, ..Call::default() };
        let gpu = GpuTime {
            time_base: 1,
            start: start as i64,
            duration: over - start,
            seen: self.now,
            ..GpuTime::default()
        };
        let (lead, tail, stream) = (4_000, 1_000, 7);
        let gpu = Some(gpu);
        let work =
            Work { call, submitted, entered: 0, lead, tail, untimed: Untimed::Timed, stream, gpu, what };
        self.record(Body::Work(work.clone()));
        work
    }

    fn kernel(&mut self, blocks: u32, is_queued: bool, lasted: u64) -> Work {
        let (name, function, shared_bytes, attributes) = (3, 0, 0, 0);
        let (grid, block, cluster) = ([blocks, 1, 1], [64, 1, 1], [0; 3]);
        let kernel = What::Kernel { name, function, grid, block, shared_bytes, attributes, cluster };
        self.ran(kernel, is_queued, lasted)
    }

    fn copy(&mut self, dst: u64, bytes: u64, is_queued: bool, lasted: u64) -> Work {
        let (direction, asynchronous) = (Direction::DtoH, true);
        let (src, rows, peer_context) = (0x10, 1, 0);
        let copy = What::Memcpy { direction, asynchronous, bytes, dst, src, rows, peer_context };
        self.ran(copy, is_queued, lasted)
    }

    fn typical(&self) -> Typical {
        Survey::of(self.records.iter().cloned()).typical
    }
}

const KERNEL: Action = Action::Kernel { name: 3, communication: false };

fn to_host(host_memory: HostMemory, bytes: u64) -> Action {
    Action::Transfer { kind: TransferKind::DtoH, host_memory, bytes }
}

/// Starts with a drained launch, which bounds the clock, and two with nothing between, which show that
/// an event costs nothing.
fn known() -> Gpu {
    let mut gpu = Gpu::default();
    gpu.kernel(9_999, false, 0);
    let mut next = gpu.kernel(9_998, true, 7_001);
    if let Some(gpu) = &mut next.gpu {
        gpu.start += 7_001;
    }
    gpu.record(Body::Work(next));
    gpu
}

#[test]
fn lengths_that_agree_are_typical_of_their_shape_only() {
    let mut gpu = known();
    let wide = gpu.kernel(8, false, 5_000);
    for ns in [5_000, 5_050, 5_100] {
        gpu.kernel(8, true, ns);
    }
    let other = gpu.kernel(16, true, 9_000);
    let typical = gpu.typical();
    assert_eq!(typical.of(&wide, KERNEL), Some(5_050));
    assert_eq!(
        typical.usual(&wide, KERNEL),
        Some(Usual { from: 5_000, value: 5_050, to: 5_100, beyond: 0, is_agreed: true })
    );
    assert_eq!(typical.of(&other, KERNEL), None, "one alone is too few");
    let mut elsewhere = wide.clone();
    elsewhere.call.context = 2;
    assert_eq!(typical.of(&elsewhere, KERNEL), None);
    let mut unnamed = wide;
    if let What::Kernel { name, .. } = &mut unnamed.what {
        *name = 0;
    }
    assert_eq!(typical.of(&unnamed, KERNEL), None);
}

/// A launch that is timed alone between runs counts like any other operation.
#[test]
fn a_launch_between_runs_counts_like_any_other() {
    let mut gpu = known();
    let wide = gpu.kernel(8, false, 5_000);
    for lasted in [5_000, 5_020] {
        gpu.kernel(8, true, lasted);
        let last = gpu.records.last_mut().map(|record| &mut record.body);
        let Some(Body::Work(work)) = last else { panic!("no launch") };
        work.call.flags |= flag::SAMPLED;
    }
    assert_eq!(gpu.typical().of(&wide, KERNEL), Some(5_020));
}

#[test]
fn nothing_is_typical_where_determined_lengths_differ() {
    for (lengths, expected) in [([4_000, 5_000], Some(5_000)), ([4_000, 5_300], None)] {
        let mut gpu = known();
        let wide = gpu.kernel(8, false, 4_500);
        for ns in lengths {
            gpu.kernel(8, true, ns);
        }
        assert_eq!(gpu.typical().of(&wide, KERNEL), expected, "{lengths:?}");
    }
}

/// Of a drained stream's operations, only the long ones exceed what their events over-read.
#[test]
fn long_operations_do_not_speak_for_short_ones_that_contradict_them() {
    let mut gpu = known();
    let wide = gpu.kernel(8, false, 3_000);
    for lasted in [2_000, 40_000, 4_000, 42_000, 6_000, 41_000] {
        gpu.kernel(8, false, lasted);
    }
    assert_eq!(gpu.typical().of(&wide, KERNEL), None);
}

/// Kernels of 2 µs on a drained stream, none of them conclusive. The host stalled after one of them.
#[test]
fn an_operation_after_which_the_host_stalled_is_taken_to_be_like_the_others() {
    let mut gpu = known();
    let mut last = gpu.kernel(8, false, 2_000);
    for lasted in [1_000, 2_500, 1_500, 3_000, 2_000, 500, 2_000, 2_000] {
        last = gpu.kernel(8, false, lasted);
    }
    let typical = gpu.typical();
    assert_eq!(typical.of(&last, KERNEL), None, "no determined lengths agree on it");
    let usual = typical.usual(&last, KERNEL).unwrap();
    assert_eq!(usual.within(0, 8_000), None, "its own estimate is as good");
    assert!(usual.within(0, 900_000).is_some_and(|ns| ns < 4_000), "{usual:?}");
    assert_eq!(usual.within(800_000, 900_000), Some(800_000));
}

/// The host returns late from a call that waits, so the shortest measurement is the least wrong.
#[test]
fn of_copies_that_the_host_waits_for_the_shortest_are_nearest_to_the_truth() {
    let mut gpu = known();
    let copies = [3_000, 90_000, 4_000, 3_100, 60_000].map(|seems| {
        let mut copy = gpu.copy(1 << 40, 64, false, seems);
        // The call returned when the copy seemed to be over; the end event was recorded only then.
        (copy.lead, copy.submitted) = (seems, copy.call.begin + seems);
        copy.call.end = copy.submitted + 1_000;
        gpu.records.pop();
        gpu.record(Body::Work(copy.clone()));
        copy
    });
    let pageable = to_host(HostMemory::Pageable, 64);
    let typical = gpu.typical();
    let usual = typical.usual(&copies[1], pageable).unwrap();
    assert_eq!((typical.of(&copies[1], pageable), usual.beyond), (None, 0));
    assert!(usual.value <= 7_000, "{usual:?}");
}

/// A copy of 14 KiB whose call was held up for 40 ms was the only one of its size, and counted with 20 or 40 ms.
#[test]
fn a_copy_whose_call_was_held_up_takes_as_long_as_those_of_sizes_near_it() {
    const STALL: u64 = 40_000_000;
    let mut gpu = known();
    let waits_for = |gpu: &mut Gpu, bytes: u64, seems: u64| {
        let mut copy = gpu.copy(1 << 40, bytes, false, seems);
        (copy.lead, copy.submitted) = (seems, copy.call.begin + seems);
        copy.call.end = copy.submitted + 1_000;
        gpu.records.pop();
        gpu.record(Body::Work(copy.clone()));
        copy
    };
    let others = [9_000, 10_700, 12_400, 17_000, 19_000, 25_000, 37_000, 49_000];
    for bytes in others {
        waits_for(&mut gpu, bytes, 2_000 + bytes / 6);
    }
    let held_up = waits_for(&mut gpu, 14_465, STALL);
    let far = waits_for(&mut gpu, 1 << 20, STALL);
    let typical = gpu.typical();
    let of = |copy: &Work, bytes| typical.usual(copy, to_host(HostMemory::Pageable, bytes));
    let usual = of(&held_up, 14_465).unwrap();
    assert_eq!(typical.of(&held_up, to_host(HostMemory::Pageable, 14_465)), None, "it is a guess");
    let best = usual.within(0, STALL).unwrap();
    assert!(
        (3_000..9_000).contains(&best),
        "{usual:?}; others of its size take 4.4 µs and what is over-read"
    );
    assert_eq!(usual.within(0, 12_000), None, "its own estimate is as good");
    assert_eq!(usual.within(STALL / 2, STALL), Some(STALL / 2), "it certainly took that long");
    assert_eq!(of(&far, 1 << 20), None, "none of a comparable size was timed");
}

#[test]
fn of_few_operations_one_stands_out_if_it_may_have_taken_very_long() {
    let of = |hi: u64| Length { lo: 0, value: hi / 2, hi };
    let usual = stalled(&[of(4_000), of(40_000_000), of(5_000)]).unwrap();
    assert_eq!([40_000_000, 300_000].map(|hi| usual.within(0, hi)), [Some(2_500), None]);
    assert_eq!(stalled(&[of(4_000), of(40_000_000)]), None, "either may be the usual one");
}

#[test]
fn copies_are_similar_by_direction_host_memory_and_size() {
    const PINNED: u64 = 0x10_000;
    let mut gpu = known();
    let (memory, stream, pool) = (Memory::Pinned, 0, 0);
    let (call, address, bytes) = (Call { context: 1, ..Call::default() }, PINNED, 1 << 16);
    gpu.record(Body::Alloc(Alloc { call, memory, address, bytes, stream, pool }));
    let pinned = gpu.copy(PINNED, 40_000, false, 3_000);
    for ns in [3_000, 3_100] {
        gpu.copy(PINNED, 40_500, true, ns);
    }
    for ns in [9_000, 9_100] {
        gpu.copy(1 << 40, 40_500, true, ns);
    }
    let typical = gpu.typical();
    assert_eq!(typical.of(&pinned, to_host(HostMemory::Pinned, 40_000)), Some(3_100));
    assert_eq!(typical.of(&pinned, to_host(HostMemory::Pageable, 40_000)), Some(9_100));
    assert_eq!(typical.of(&pinned, to_host(HostMemory::Pinned, 80_000)), None);
}

/// The first pass took them for copies inside of a GPU, and the second one for what they are: none had a typical length.
#[test]
fn copies_between_two_gpus_are_similar_in_both_passes() {
    let mut gpu = known();
    for (context, device, address) in [(1, 0, 0x10_000), (2, 1, 0x20_000)] {
        gpu.record(Body::Context(Context { context, device, handle: 9, destroyed: false }));
        let (memory, bytes, stream, pool) = (Memory::Device, 0x1000, 0, 0);
        let call = Call { context, ..Call::default() };
        gpu.record(Body::Alloc(Alloc { call, memory, address, bytes, stream, pool }));
    }
    let (asynchronous, src, dst, rows, peer_context) = (true, 0x10_000, 0x20_000, 1, 0);
    let (direction, bytes) = (Direction::DtoD, 64);
    let copy = What::Memcpy { direction, asynchronous, bytes, dst, src, rows, peer_context };
    let copies = [3_000, 3_050, 3_100].map(|ns| gpu.ran(copy, true, ns));
    let clocks = Survey::of(gpu.records.iter().cloned());
    let mut model = Model::new(&Names::default(), &clocks);
    let operations = gpu.records.iter().filter_map(|record| model.observe(record).operation);
    let actions: Vec<Action> = operations.map(|operation| operation.what).collect();
    let what = *actions.last().unwrap();
    assert_eq!(what.moved(), Some((TransferKind::PtoP, HostMemory::None, 64)));
    assert_eq!(clocks.typical.of(&copies[0], what), Some(3_050));
}

#[test]
fn a_class_of_sizes_spans_an_eighth() {
    assert_eq!([0, 1, 15, 16, 17, 18, 1 << 20].map(size_class), [0, 1, 15, 16, 16, 18, 1 << 20]);
    assert_eq!(size_class(u64::MAX), 15 << 60);
}

#[test]
fn an_operation_whose_bounds_exclude_the_usual_length_is_not_typical() {
    let usual = Usual { from: 90, value: 100, to: 110, beyond: 0, is_agreed: true };
    assert_eq!(
        [(0, 200), (0, 95), (105, 200)].map(|(lo, hi)| usual.within(lo, hi)),
        [100, 95, 105].map(Some)
    );
    assert_eq!([(0, 89), (111, 300)].map(|(lo, hi)| usual.within(lo, hi)), [None, None]);
}

#[test]
fn memory_is_bounded_and_the_most_frequent_kinds_stay() {
    let mut gpu = known();
    for ns in [5_000, 5_050] {
        gpu.kernel(8, true, ns);
    }
    let mut lengths = Lengths::default();
    let launch = gpu.records.last().cloned();
    let Some(Body::Work(work)) = launch.map(|record| record.body) else { panic!("no launch") };
    for n in 0..5 * MOST_KINDS as u32 {
        let mut one = work.clone();
        if let What::Kernel { name, .. } = &mut one.what {
            *name = if n % 2 == 0 { 3 } else { 10 + n };
        }
        lengths.timed(&one, &one.gpu.unwrap(), &HashMap::default());
        assert!(lengths.alike.len() <= MOST_KINDS);
    }
    let often = &lengths.alike[&(1, Like::of(&work, None).unwrap())];
    assert_eq!((often.all.seen, often.all.drawn.len()), (5 * MOST_KINDS as u64 / 2, DRAWN));
}
