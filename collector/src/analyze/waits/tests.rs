use super::super::analysis::finish_at;
use super::*;
use crate::model::gpu_interval::{Basis, GpuInterval, Length};
use crate::model::memory::{Allocator, MemoryChange};
use crate::model::stacks::Caller;
use crate::model::{Reason, simulation};
use crate::trace::record::{Api, Call, Context, EventOp, Free, Record, Stream as StreamRecord};
use gpuspy_wire::record::Untimed;

const FREE: u16 = 1;
const UNLOAD: u16 = 2;
const COPY: u16 = 3;
const DESTROY: u16 = 4;
const QUERY: u16 = 5;
const LOAD: u16 = 6;

const KERNEL: Action = Action::Kernel { name: 1, communication: false };

fn names() -> Names {
    let api = |id: u16, name: &str| ((Namespace::Api, id.into()), name.to_owned());
    let apis = [(FREE, "cuMemFree_v2"), (UNLOAD, "cuModuleUnload"), (COPY, "cudaMemcpyAsync_ptsz")];
    let more = [(DESTROY, "cuCtxDestroy_v2"), (QUERY, "cuMemGetInfo_v2"), (LOAD, "cuModuleLoadData")];
    Names(apis.into_iter().chain(more).map(|(id, name)| api(id, name)).collect())
}

/// An analysis and the events for it. Times on the line are exact to ± `off_by`.
struct Trace<'n> {
    waits: Waits<'n>,
    off_by: u64,
    counts: bool,
    flags: u16,
    /// ns from a call's start until CUDA was entered.
    entered: u64,
}

impl<'n> Trace<'n> {
    fn new(names: &'n Names) -> Self {
        Trace { waits: Waits::new(&Start::of(names)), off_by: 5, counts: true, flags: 0, entered: 0 }
    }

    fn observe(&mut self, event: &Event<'_>) {
        self.waits.observe(event, &Scope::whole(event, self.counts));
    }

    fn record(&mut self, thread: u32, at: u64, body: Body) {
        let record = Record { thread, at, body };
        self.observe(&Event::new(&record));
    }

    /// Adds work on a stream of context 1, by a call from `begin` to `end`; it ran during `ran`, or at an unknown
    /// time.
    fn work(
        &mut self,
        (thread, stream): (u32, u64),
        (begin, end): (u64, u64),
        what: Action,
        ran: Option<(i64, i64)>,
    ) {
        let mut work = simulation::work(end, end - begin, 10);
        work.entered = self.entered;
        (work.call.begin, work.call.api, work.stream) = (begin, COPY, stream);
        work.call.flags = self.flags;
        if stream == 1 {
            work.call.flags |= flag::LEGACY_STREAM;
        }
        let when = match ran {
            Some((start, over)) => When::Timed(GpuInterval {
                time_base: 1,
                earliest_start: start - 1,
                latest_start: start + 1,
                earliest_end: over - 1,
                latest_end: over + 1,
                busy_from: over,
                starved: 0,
                start,
                end: over,
                length: Length::default(),
                basis: Basis::Proven,
                raw: 0,
                clock_half_width: None,
                off_by: Some(self.off_by),
            }),
            None => When::Untimed { reason: Reason::Untimed(Untimed::DeepQueue), after: None },
        };
        let operation = Operation {
            correlation: 1,
            context: 1,
            device: Some(0),
            stream,
            caller: Caller::default(),
            called: begin,
            returned: end,
            what,
            when,
        };
        let call = CountedCall { api: COPY, calls: 1, host_ns: end - begin, failed: false };
        let record = Record { thread, at: end, body: Body::Work(work) };
        let event = Event { operation: Some(operation), call: Some(call), ..Event::new(&record) };
        self.observe(&event);
    }

    /// Adds a kernel of thread 1 that is launched at once and runs until `over`.
    fn kernel(&mut self, stream: u64, begin: u64, over: i64) {
        self.work((1, stream), (begin, begin + 10), KERNEL, Some((begin as i64 + 20, over)));
    }

    /// Adds a call of thread 1 that is no work; if it is one that frees, it frees memory of context 1.
    fn call(&mut self, api: u16, (begin, end): (u64, u64)) {
        let call = Call { api, begin, end, ..Call::default() };
        if api == FREE {
            let call = Call { context: 1, end: begin, ..call };
            let free = Free { call, memory: Memory::Device, address: 64, stream: 0, bytes: 0 };
            self.record(1, begin, Body::Free(free));
        }
        let body = Body::Api(Api { call, result: 0, subject: 0, calls: 1, inside: 0, entered: self.entered });
        let record = Record { thread: 1, at: end, body };
        let counted = CountedCall { api, calls: 1, host_ns: end - begin, failed: false };
        self.observe(&Event { call: Some(counted), ..Event::new(&record) });
    }

    /// Adds the same call, which frees nothing.
    fn free_null(&mut self, (begin, end): (u64, u64)) {
        let call = Call { api: FREE, context: 1, begin, end, ..Call::default() };
        let body = Body::Api(Api { call, result: 0, subject: 0, calls: 1, inside: 0, entered: self.entered });
        let counted = CountedCall { api: FREE, calls: 1, host_ns: end - begin, failed: false };
        let record = Record { thread: 1, at: end, body };
        self.observe(&Event { call: Some(counted), ..Event::new(&record) });
    }

    /// Returns the row, if there is one.
    fn only(self) -> Option<((String, Cause), Waited)> {
        let table = finish_at(self.waits, 0).by_api;
        assert!(table.len() <= 1, "{table:?}");
        table.into_iter().next()
    }
}

fn copy(host_memory: HostMemory) -> Action {
    Action::Transfer { kind: TransferKind::DtoH, host_memory, bytes: 8 }
}

fn waited(host_ns: u64, (lo, value, hi): (u64, u64, u64)) -> Waited {
    Waited { count: 1, host_ns, waited: Sum { value, lo, hi }, ..Waited::default() }
}

fn undecided(host_ns: u64) -> Waited {
    Waited { undecided: 1, undecided_host_ns: host_ns, ..Waited::default() }
}

#[test]
fn a_free_of_the_null_pointer_waits_for_nothing() {
    let names = names();
    let mut trace = Trace::new(&names);
    trace.kernel(1, 1_000, 5_000);
    trace.free_null((2_000, 5_400));
    assert_eq!(trace.only(), None);
}

#[test]
fn a_free_waits_from_its_entry_to_the_end_of_the_last_work() {
    let names = names();
    let mut trace = Trace::new(&names);
    trace.kernel(7, 1_000, 3_000);
    trace.kernel(8, 1_100, 5_000);
    trace.call(FREE, (2_000, 5_400));
    let key = ("cuMemFree".to_owned(), Cause::Free);
    assert_eq!(trace.only(), Some((key, waited(3_400, (2_994, 3_000, 3_006)))));
}

/// Loads waited for the GPU, and no analysis knew it.
#[test]
fn a_load_of_code_waits_until_the_end_of_the_work_at_most() {
    let names = names();
    let mut trace = Trace::new(&names);
    trace.kernel(7, 1_000, 5_000);
    trace.call(LOAD, (2_000, 5_400));
    let key = ("cuModuleLoadData".to_owned(), Cause::Load);
    assert_eq!(trace.only(), Some((key, waited(3_400, (0, 3_000, 3_006)))), "it may have compiled first");
}

#[test]
fn a_free_on_an_idle_gpu_and_one_that_returns_while_work_runs_wait_for_nothing() {
    let names = names();
    for (over, free) in [(1_500, (2_000, 2_400)), (5_000, (2_000, 2_400))] {
        let mut trace = Trace::new(&names);
        trace.kernel(7, 1_000, over);
        trace.call(FREE, free);
        assert_eq!(trace.only(), None, "{over}");
    }
}

#[test]
fn a_free_waits_for_its_allocators_context_and_for_pools_and_mappings_for_all() {
    let names = names();
    let freed = |memory: Memory, owner: u32, contexts: u32| {
        let mut trace = Trace::new(&names);
        trace.kernel(7, 1_000, 5_000);
        if contexts == 2 {
            trace.waits.streams.insert((2, 9), Stream::default());
        }
        let call = Call { begin: 2_000, end: 2_000, context: 2, ..Call::default() };
        let free = Free { call, memory: Memory::Device, address: 64, stream: 0, bytes: 0 };
        let record = Record { thread: 1, at: 2_000, body: Body::Free(free) };
        let of = Allocator { context: owner, thread: 1, stream: None, caller: 0, correlation: 0 };
        let memory = vec![MemoryChange::Freed { memory, bytes: 8, of }];
        trace.observe(&Event { memory, ..Event::new(&record) });
        // The return of the same call.
        trace.call(UNLOAD, (2_000, 5_400));
        trace.only().map(|(_, waited)| (waited.count, waited.undecided))
    };
    assert_eq!(freed(Memory::Device, 1, 2), Some((1, 0)));
    assert_eq!(freed(Memory::Device, 2, 2), None);
    for shared in [Memory::Mapped, Memory::Pool, Memory::Graph] {
        assert_eq!(freed(shared, 2, 1), Some((1, 0)));
        assert_eq!(freed(shared, 2, 2), Some((0, 1)), "there is work of one, and it may be the other's");
    }
}

#[test]
fn a_call_that_does_not_synchronize_waits_for_nothing() {
    let names = names();
    let mut trace = Trace::new(&names);
    trace.kernel(7, 1_000, 5_000);
    trace.call(QUERY, (2_000, 5_400));
    assert_eq!(trace.only(), None);
}

#[test]
fn a_wait_is_undecided_if_the_clocks_cannot_order_it() {
    let names = names();
    let mut trace = Trace::new(&names);
    trace.kernel(7, 1_000, 2_003);
    trace.call(FREE, (2_000, 2_400));
    assert_eq!(trace.only().unwrap().1, undecided(400));
}

#[test]
fn a_wait_for_untimed_work_is_undecided_until_the_program_has_synchronized() {
    let names = names();
    for is_drained in [false, true] {
        let mut trace = Trace::new(&names);
        trace.work((1, 7), (1_000, 1_010), KERNEL, None);
        let record = Record { thread: 1, at: 1_500, body: Body::CaptureEdge { begins: false } };
        let drained = Drained { context: 1, stream: Some(7), issued_before: 1_400, by: 1_500 };
        let drained = Some(drained).filter(|_| is_drained).into_iter().collect();
        trace.observe(&Event { drained, ..Event::new(&record) });
        trace.call(FREE, (2_000, 2_400));
        assert_eq!(trace.only().map(|(_, waited)| waited), (!is_drained).then(|| undecided(400)));
    }
}

#[test]
fn timed_work_after_untimed_work_bounds_the_end_of_that() {
    let names = names();
    let mut trace = Trace::new(&names);
    trace.work((1, 7), (1_000, 1_010), KERNEL, None);
    trace.kernel(7, 1_100, 1_900);
    trace.call(FREE, (2_000, 2_400));
    assert_eq!(trace.only(), None);
}

/// Found by a soak: a report said that a wait of 129 to 148 us had taken 154 us.
#[test]
fn the_best_value_of_a_wait_is_not_above_what_later_work_shows() {
    let names = names();
    let mut trace = Trace::new(&names);
    trace.kernel(7, 0, 500);
    // It was over before 496, and so was the kernel.
    trace.work((1, 7), (50, 60), KERNEL, Some((480, 490)));
    trace.call(FREE, (100, 600));
    let row = (("cuMemFree".to_owned(), Cause::Free), waited(500, (394, 396, 396)));
    assert_eq!(trace.only(), Some(row));
}

#[test]
fn two_threads_calls_may_return_in_another_order_than_the_streams() {
    let names = names();
    let mut trace = Trace::new(&names);
    // It was entered first, and perhaps reached the stream first, but is later in the trace: it does not bound the
    // other.
    trace.work((2, 7), (1_005, 1_020), KERNEL, None);
    trace.work((1, 7), (1_000, 1_030), KERNEL, Some((1_030, 1_900)));
    trace.call(FREE, (2_000, 2_400));
    assert_eq!(trace.only().unwrap().1, undecided(400));
}

#[test]
fn a_pageable_copy_waits_for_its_own_stream() {
    let names = names();
    let ahead = |stream: u64, of: u64, memory: HostMemory| {
        let mut trace = Trace::new(&names);
        trace.kernel(of, 1_000, 5_000);
        let start = if stream == of || stream == 1 { 5_000 } else { 2_020 };
        trace.work((1, stream), (2_000, 6_000), copy(memory), Some((start, 5_990)));
        trace.only()
    };
    let key = ("cudaMemcpyAsync".to_owned(), Cause::PageableCopy);
    let expected = Some((key, waited(4_000, (2_994, 3_000, 3_006))));
    assert_eq!(ahead(7, 7, HostMemory::Pageable), expected);
    assert_eq!(ahead(8, 7, HostMemory::Pageable), None, "of another stream");
    assert_eq!(ahead(7, 7, HostMemory::Pinned), None, "an asynchronous one");
    assert_eq!(ahead(1, 7, HostMemory::Pageable), expected, "the legacy stream waits for the blocking ones");
    assert_eq!(ahead(7, 1, HostMemory::Pageable).unwrap().1.count, 1, "and they for it");
}

/// With events that cost the host 1 µs, a wait of 618 ns was reported where there was none: the kernel ended after
/// the program had entered the copy, and before CUDA had. A hook's part before a free took 2 µs on a busy machine.
#[test]
fn work_that_ends_before_cuda_is_entered_is_not_waited_for() {
    let names = names();
    let copied = |over: i64| {
        let mut trace = Trace::new(&names);
        trace.kernel(7, 1_000, over);
        trace.entered = 2_000;
        trace.work((1, 7), (2_000, 6_000), copy(HostMemory::Pageable), Some((over, 5_990)));
        trace.only().map(|(_, waited)| waited)
    };
    let freed = |over: i64| {
        let mut trace = Trace::new(&names);
        trace.kernel(7, 1_000, over);
        trace.entered = 2_000;
        trace.call(FREE, (2_000, 6_000));
        trace.only().map(|(_, waited)| waited)
    };
    for reported in [&copied as &dyn Fn(i64) -> Option<Waited>, &freed] {
        assert_eq!(reported(2_618), None);
        assert_eq!(reported(4_000), Some(undecided(4_000)), "the clocks cannot order them");
        assert_eq!(reported(4_200), Some(waited(4_000, (194, 200, 206))));
    }
}

#[test]
fn a_copy_that_was_not_over_when_its_call_returned_waited_for_nothing_unless_it_was_staged() {
    let names = names();
    let copied = |kind, host_memory, flags, over: Option<i64>| {
        let mut trace = Trace::new(&names);
        trace.kernel(7, 1_000, 5_000);
        trace.flags = flags;
        let what = Action::Transfer { kind, host_memory, bytes: 8 };
        trace.work((1, 7), (2_000, 6_000), what, over.map(|over| (5_000, over)));
        let (certain, undecided) =
            trace.only().map_or((0, 0), |(_, waited)| (waited.count, waited.undecided));
        ["none", "waited", "undecided"][certain as usize + 2 * undecided as usize]
    };
    use HostMemory::{Pageable, Pinned};
    use TransferKind::{DtoH, HtoD};
    for (kind, memory, flags, over, expected) in [
        (HtoD, Pinned, flag::BLOCKING, Some(5_500), "waited"),
        (HtoD, Pinned, flag::BLOCKING, Some(9_000), "none"),
        (DtoH, Pageable, 0, Some(9_000), "none"),
        (DtoH, Pageable, 0, None, "waited"),
        (HtoD, Pageable, flag::BLOCKING, Some(9_000), "waited"),
        (HtoD, Pageable, 0, Some(5_500), "waited"),
        (HtoD, Pageable, 0, Some(9_000), "undecided"),
        (HtoD, Pageable, 0, None, "undecided"),
    ] {
        assert_eq!(copied(kind, memory, flags, over), expected, "{kind:?} {memory:?} {flags} {over:?}");
    }
}

#[test]
fn a_non_blocking_stream_does_not_wait_for_the_legacy_one() {
    let names = names();
    let mut trace = Trace::new(&names);
    let flags = NON_BLOCKING;
    let stream = StreamRecord { stream: 7, handle: 7, context: 1, flags, priority: 0, destroyed: false };
    trace.record(1, 900, Body::Stream(stream));
    trace.kernel(1, 1_000, 5_000);
    trace.work((1, 7), (2_000, 6_000), copy(HostMemory::Pageable), Some((2_020, 5_990)));
    assert_eq!(trace.only(), None);
}

#[test]
fn a_copy_after_an_event_of_another_stream_is_undecided_up_to_its_start() {
    let names = names();
    for (start, expected) in [(4_000, Some(undecided(4_000))), (1_990, None)] {
        let mut trace = Trace::new(&names);
        trace.kernel(8, 1_000, 4_000);
        let call = Call { begin: 1_500, end: 1_510, context: 1, ..Call::default() };
        trace.record(1, 1_510, Body::EventWait(EventOp { call, stream: 7, event: 1, event_flags: 0 }));
        trace.work((1, 7), (2_000, 6_000), copy(HostMemory::Pageable), Some((start, 5_990)));
        assert_eq!(trace.only().map(|(_, waited)| waited), expected);
    }
}

#[test]
fn calls_wait_for_the_work_of_destroyed_streams() {
    let names = names();
    let mut trace = Trace::new(&names);
    trace.kernel(7, 1_000, 5_000);
    let stream = StreamRecord { stream: 7, handle: 7, context: 1, flags: 0, priority: 0, destroyed: true };
    trace.record(1, 1_200, Body::Stream(stream));
    trace.call(UNLOAD, (2_000, 5_400));
    assert_eq!(trace.only().unwrap().1.count, 1);
}

#[test]
fn only_the_end_of_a_context_waits_for_its_work() {
    let names = names();
    let mut trace = Trace::new(&names);
    trace.kernel(7, 1_000, 5_000);
    trace.record(1, 5_300, Body::Context(Context { context: 1, device: 0, handle: 9, destroyed: true }));
    trace.call(DESTROY, (2_000, 5_400));
    assert!(trace.waits.streams.is_empty());
    assert_eq!(trace.only().unwrap().0.1, Cause::ContextEnd);
}

#[test]
fn work_that_other_threads_were_issuing_only_raises_the_upper_bound() {
    let names = names();
    let mut trace = Trace::new(&names);
    trace.kernel(7, 1_000, 3_000);
    trace.call(FREE, (2_000, 5_400));
    // Its call was entered before the free, and returned after it.
    trace.work((2, 8), (1_900, 5_500), copy(HostMemory::Pinned), Some((2_000, 5_000)));
    // Its call was entered after the free.
    trace.work((1, 7), (5_600, 5_610), KERNEL, Some((5_650, 9_000)));
    assert_eq!(trace.only().unwrap().1, waited(3_400, (994, 1_000, 3_006)));
}

#[test]
fn a_call_does_not_certainly_wait_for_work_issued_meanwhile() {
    let names = names();
    let mut trace = Trace::new(&names);
    trace.kernel(7, 1_000, 3_000);
    trace.work((2, 7), (2_500, 2_510), KERNEL, Some((3_000, 3_200)));
    trace.call(FREE, (2_000, 3_400));
    assert_eq!(trace.only().unwrap().1, waited(1_400, (994, 1_000, 1_206)));
}

#[test]
fn work_outside_the_filter_is_waited_for_and_not_counted() {
    let names = names();
    let mut trace = Trace::new(&names);
    trace.counts = false;
    trace.kernel(7, 1_000, 5_000);
    trace.counts = true;
    trace.call(FREE, (2_000, 5_400));
    trace.counts = false;
    trace.call(FREE, (2_000, 5_400));
    assert_eq!(trace.only().unwrap().1.count, 1);
}

#[test]
fn the_memory_of_the_analysis_does_not_grow_with_the_trace() {
    let names = names();
    let mut trace = Trace::new(&names);
    for n in 0..10_000 {
        trace.kernel(7, n * 10_000, n as i64 * 10_000 + 6_000);
        trace.call(FREE, (n * 10_000 + 4_000, n * 10_000 + 7_000));
    }
    assert!(trace.waits.held.len() <= HELD && trace.waits.streams.len() == 1);
    assert!(trace.waits.streams.values().all(|stream| stream.operations.len() <= REMEMBERED));
    assert_eq!(trace.only().unwrap().1.count, 10_000);
}
