//! Tests of who holds memory, with a program of a few lines.

use super::super::holders::Holders;
use super::*;
use crate::model::{Action, Operation, Reason, When};
use crate::trace::record::{NvtxRange, Status};
use gpuspy_wire::record::{NvtxChange, Untimed};

const MIB: u64 = 1 << 20;
const MS: u64 = 1_000_000;

/// A program that allocates at addresses in its code, and launches a kernel in each step.
struct Program {
    fold: MemoryTimeline,
    at: u64,
    calls: u64,
    thread: u32,
    /// What its context holds.
    held: Vec<MemoryChange>,
}

impl Program {
    fn of(period: Period) -> Program {
        let names = Names::default();
        let threads = (1..200).map(|thread| (thread, 1_000 + thread)).collect();
        let status = Status { threads, ..Status::default() };
        let fold = MemoryTimeline::new(&Start { period, status: Some(&status), ..Start::of(&names) });
        Program { fold, at: MS, calls: 0, thread: 1, held: Vec::new() }
    }

    fn take(&mut self, body: Body, change: Option<MemoryChange>) {
        let record = Record { thread: self.thread, at: self.at, body };
        take(&mut self.fold, &Event { memory: change.into_iter().collect(), ..Event::new(&record) });
        self.at += 1;
    }

    fn call(&mut self, caller: u64) -> Call {
        self.calls += 1;
        Call { correlation: self.calls, begin: self.at, end: self.at, caller, ..Call::default() }
    }

    /// Launches the kernel of a step, a millisecond later.
    fn step(&mut self, step: u64) {
        self.at += MS;
        let record =
            Record { thread: 1, at: self.at, body: Body::Loss { cause: LossCause::RingFull, count: 0 } };
        let operation = Operation {
            correlation: 0,
            context: 1,
            device: Some(0),
            stream: 0,
            caller: Caller::default(),
            called: self.at,
            returned: self.at,
            what: Action::Kernel { name: 0, communication: false },
            when: When::Untimed { reason: Reason::Untimed(Untimed::OutsideRange), after: None },
        };
        take(&mut self.fold, &Event { operation: Some(operation), step: Some(step), ..Event::new(&record) });
        self.at += 1;
    }

    /// Allocates MiB of memory, and returns the block.
    fn allocate(&mut self, caller: u64, mib: u64) -> MemoryChange {
        self.allocate_of(Memory::Device, caller, mib)
    }

    fn allocate_of(&mut self, memory: Memory, caller: u64, mib: u64) -> MemoryChange {
        let (call, bytes) = (self.call(caller), mib * MIB);
        let of = Allocator { correlation: call.correlation, caller, ..OF };
        let alloc = Alloc { call, memory, address: call.correlation, bytes, stream: 0, pool: 0 };
        self.take(Body::Alloc(alloc), Some(MemoryChange::Allocated { memory, bytes, of }));
        MemoryChange::Freed { memory, bytes, of }
    }

    fn free(&mut self, block: MemoryChange) {
        let (call, memory) = (self.call(0), Memory::Device);
        self.take(Body::Free(Free { call, memory, address: 1, stream: 0, bytes: 0 }), Some(block));
        let api = Api { call, result: 0, subject: 0, calls: 1, inside: 0, entered: 0 };
        self.take(Body::Api(api), None);
    }

    /// Ends the context that holds blocks.
    fn end_context(&mut self) {
        for block in std::mem::take(&mut self.held) {
            let MemoryChange::Freed { memory, bytes, of } = block else { continue };
            let body = Body::Loss { cause: LossCause::RingFull, count: 0 };
            self.take(body, Some(MemoryChange::Vanished { memory, bytes, of }));
        }
    }

    fn range(&mut self, change: NvtxChange, text: u32) {
        let range = NvtxRange { change, id: 0, domain: 0, text, category: 0, color: 0, payload: false };
        self.take(Body::NvtxRange(range), None);
    }

    fn holders(self) -> Holders {
        let ended = self.at + MS;
        finish_at(self.fold, ended).holders
    }
}

/// Returns the blocks of each line that are never freed.
fn leaks(holders: &Holders) -> Vec<u64> {
    holders.never_freed.iter().map(|holder| holder.blocks).collect()
}

/// Of 156 blocks of 1 MiB, each from another thread, nothing was said; with a range for each user, memory grew "by 1 MiB".
#[test]
fn blocks_of_one_line_are_judged_together_whatever_thread_or_range_allocates_them() {
    for (threads, ranges) in [(100, 0), (0, 100)] {
        let mut program = Program::of(Period::default());
        program.allocate(0x10, 64);
        for step in 0..100 {
            program.step(step);
            program.thread = 2 + (step % (threads + 1)) as u32;
            program.range(NvtxChange::Push, 1 + (step % (ranges + 1)) as u32);
            program.allocate(0x20, 1);
            program.range(NvtxChange::Pop, 0);
        }
        let holders = program.holders();
        assert_eq!(leaks(&holders), [84], "in {threads} threads and {ranges} ranges");
        let growth = holders.growth.unwrap();
        let grown: Vec<u64> = growth.origins.iter().map(|(_, bytes)| *bytes).collect();
        assert_eq!(grown, [growth.last - growth.first], "it is all that grows");
        let held: Vec<u64> = holders.at_peak.iter().map(|holder| holder.bytes / MIB).collect();
        assert_eq!(held, [100, 64], "more rows than are listed are joined");
    }
}

/// The blocks of a cache that had filled after half of the run were "never freed".
#[test]
fn a_cache_that_stops_growing_half_way_is_no_leak() {
    let leaks_of = |allocates: fn(u64) -> bool| {
        let mut program = Program::of(Period::default());
        program.allocate(0x10, 64);
        for step in 0..100 {
            program.step(step);
            if allocates(step) {
                program.allocate(0x20, 1);
            }
        }
        leaks(&program.holders())
    };
    assert!(leaks_of(|step| step < 50).is_empty(), "a block in each step until then");
    assert!(leaks_of(|step| step < 50 && step % 8 == 5).is_empty(), "now and then until then");
    assert_eq!(leaks_of(|step| step % 20 == 15), [5], "a block in each fifth of the run");
    assert_eq!(leaks_of(|step| step < 70 && step % 17 == 0), [4], "more rarely towards the end");
}

/// 600 MiB that cudaMallocHost took in 600 requests were in the table, and no finding said that they grow.
#[test]
fn page_locked_memory_that_grows_is_found_beside_device_memory() {
    let mut program = Program::of(Period::default());
    program.allocate(0x10, 64);
    for step in 0..100 {
        program.step(step);
        program.range(NvtxChange::Push, 1);
        program.allocate_of(Memory::Pinned, 0x20, 1);
        program.range(NvtxChange::Pop, 0);
    }
    let holders = program.holders();
    let growth = holders.page_locked.unwrap();
    let grown: Vec<_> = growth.origins.iter().map(|(origin, bytes)| (origin.kind, *bytes)).collect();
    assert_eq!(grown, [("pinned", growth.last - growth.first)]);
    assert!(growth.is_per_step && (growth.slope / MIB as f64 - 1.0).abs() < 0.01, "{growth:?}");
    assert_eq!((holders.growth, holders.never_freed), (None, vec![]), "device memory does not");
    let held: Vec<u64> = holders.at_peak.iter().map(|holder| holder.bytes / MIB).collect();
    assert_eq!(held, [64], "it is none of the device's");
}

#[test]
fn threads_have_rows_of_their_own_where_all_can_be_listed() {
    let mut program = Program::of(Period::default());
    program.step(0);
    for (thread, mib) in [(1, 3), (2, 5), (1, 4)] {
        program.thread = thread;
        program.allocate(0x20, mib);
    }
    let held = program.holders().at_peak;
    let rows: Vec<_> = held.iter().map(|row| (row.origin.tid, row.bytes / MIB, row.blocks)).collect();
    assert_eq!(rows, [(Some(1_001), 7, 2), (Some(1_002), 5, 1)]);
}

/// Returns the time of some steps: a program's step `n` is at 2 + n ms, and a little later.
fn steps(from: i64, to: i64) -> Period {
    let ms = MS as i64;
    Period::between((from + 1) * ms + ms / 2, (to + 2) * ms + ms / 2)
}

/// Allocates 4 MiB in each of 100 steps, and frees all of it every 20 steps.
fn ring(period: Period) -> Holders {
    let mut program = Program::of(period);
    let mut held = Vec::new();
    program.allocate(0x10, 256);
    for step in 0..100 {
        program.step(step);
        if step % 20 == 0 {
            held.drain(..).for_each(|block| program.free(block));
        }
        held.push(program.allocate(0x20, 4));
    }
    program.holders()
}

/// It was said that 17 of the blocks of such a ring are never freed, though each of 80 was, and the program only ended in
/// the middle of a cycle.
#[test]
fn a_ring_that_is_emptied_again_and_again_is_no_leak() {
    let holders = ring(Period::default());
    assert_eq!((leaks(&holders), holders.growth), (vec![], None));
}

/// "14 of its blocks are never freed", and the GPU was to be full after some more steps.
#[test]
fn what_is_freed_after_the_selected_time_is_not_lost() {
    let holders = ring(steps(20, 39));
    assert_eq!((leaks(&holders), holders.growth), (vec![], None), "a part of a ring");
    let mut program = Program::of(steps(0, 60));
    let mut held = Vec::new();
    for step in 0..100 {
        program.step(step);
        held.push(program.allocate(0x20, 1));
        program.allocate(0x30, 1);
    }
    held.drain(..).for_each(|block| program.free(block));
    let holders = program.holders();
    assert_eq!(leaks(&holders), [50], "only the line that frees nothing");
    assert!(holders.growth.is_some(), "it grew for as long as there was work");
}

#[test]
fn a_line_that_frees_most_of_its_blocks_and_loses_some_leaks() {
    let mut program = Program::of(Period::default());
    for step in 0..100 {
        program.step(step);
        for block in 0..10 {
            let block = (block, program.allocate(0x20, 1));
            if block.0 > 0 {
                program.free(block.1);
            }
        }
    }
    let holders = program.holders();
    assert_eq!(leaks(&holders), [84]);
    assert!(holders.growth.is_some());
}

/// Of 21 jobs with a context and 16 blocks each, which cudaDeviceReset freed, "21.0 GiB are allocated and never freed, still held at the
/// end": at most 256 MiB were held, and nothing at the end.
#[test]
fn what_ends_with_its_context_before_the_work_does_is_no_leak() {
    let of = |jobs: u64, period: Period| {
        let mut program = Program::of(period);
        for step in 0..96 {
            program.step(step);
            let block = program.allocate(0x20, 16);
            program.held.push(block);
            if (step + 1) % (96 / jobs) == 0 {
                program.end_context();
            }
        }
        leaks(&program.holders())
    };
    assert_eq!(of(6, Period::default()), [] as [u64; 0]);
    assert_eq!(of(1, Period::default()), [81], "one context, which ends with the work");
    assert_eq!(of(2, steps(0, 40)), [] as [u64; 0], "it ends after the selected time, and the work goes on");
    assert_eq!(of(1, steps(0, 40)), [33], "it ends after the selected time, with the work");
}

/// The peak was in the first step, and its holder had "steps 0 .. 4" and no time.
#[test]
fn memory_that_passes_in_a_launch_has_the_step_and_the_time_of_that_launch() {
    let mut program = Program::of(Period::default());
    for step in 0..5 {
        program.step(step);
        let (call, memory) = (program.call(0x20), Memory::Graph);
        let (at_once, of) = ((5 - step) * MIB, Allocator { correlation: call.correlation, ..OF });
        let passed =
            MemoryChange::Passed { memory, blocks: 2, bytes: at_once, at_once, largest: at_once, of };
        program.take(Body::Loss { cause: LossCause::RingFull, count: 0 }, Some(passed));
    }
    let at_peak = program.holders().at_peak;
    let rows: Vec<_> = at_peak.iter().map(|row| (row.bytes / MIB, row.steps, row.first_ns / MS)).collect();
    assert_eq!(rows, [(5, Some((0, 0)), 2)]);
}
