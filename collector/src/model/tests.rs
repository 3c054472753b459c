//! Records of each kind, and the events that they become.

use super::memory::MemoryChange;
use super::survey::Survey;
use super::*;
use crate::trace::record::{Alloc, Context, EventOp, Free, Graph, GraphNode};
use transfer::TransferKind;

fn record(body: Body) -> Record {
    Record { thread: 1, at: 0, body }
}

fn call(api: u16, flags: u16) -> Call {
    Call { api, flags, begin: 10, end: 25, correlation: 3, context: 1, ..Call::default() }
}

fn kernel(untimed: Untimed, gpu: Option<GpuTime>, flags: u16) -> Work {
    let mut work = simulation::work(10_000, 4_000, 1_000);
    (work.untimed, work.gpu) = (untimed, gpu);
    work.call.flags = flags;
    work
}

fn when(model: &mut Model<'_>, work: Work) -> When {
    model.observe(&record(Body::Work(work))).operation.unwrap().when
}

fn after(when: When) -> Option<i64> {
    match when {
        When::Untimed { after, .. } => after,
        _ => panic!("{when:?}"),
    }
}

/// The clocks of a trace whose only burst ended at `at`.
fn burst_ended(at: u64) -> Clocks {
    let mut burst = kernel(Untimed::Programmatic, None, 0);
    (burst.what, burst.call.end) = (What::Burst { launches: 2, ordinary: 0, closing: 0 }, at);
    Survey::of([record(Body::Work(burst))])
}

#[test]
fn a_call_is_counted_at_its_last_record() {
    let clocks = Clocks::default();
    let mut model = Model::new(&Names::default(), &clocks);
    let op = |flags| {
        record(Body::EventRecord(EventOp { call: call(4, flags), stream: 0, event: 0, event_flags: 0 }))
    };
    assert_eq!(model.observe(&op(flag::MORE)).call, None);
    let expected = CountedCall { api: 4, calls: 1, host_ns: 15, failed: false };
    assert_eq!(model.observe(&op(0)).call, Some(expected));
}

/// Such a run seemed to be issued after the synchronization had begun, so that nothing said when it was over, and a GPU's time
/// ended at the last timed operation.
#[test]
fn a_run_whose_end_event_is_refused_in_a_synchronization_was_issued_before_it() {
    let clocks = Clocks::default();
    let mut model = Model::new(&Names::default(), &clocks);
    let mut run = kernel(Untimed::Contended, None, 0);
    (run.what, run.call.end) = (What::Burst { launches: 2, ordinary: 2, closing: 30_000 }, 60_000);
    let issued = model.observe(&record(Body::Work(run))).operation.unwrap().returned;
    let mut waits = call(4, 0);
    (waits.begin, waits.end) = (40_000, 90_000);
    let sync = Synchronize { call: waits, scope: SyncScope::Context, stream: 0, event: 0 };
    let drained = model.observe(&record(Body::Synchronize(sync))).drained;
    let [drained] = drained[..] else { panic!("{drained:?}") };
    assert!(issued == 30_000 && issued <= drained.issued_before && drained.by == 90_000, "{drained:?}");
}

#[test]
fn queries_in_a_row_count_each_and_their_own_time() {
    let clocks = Clocks::default();
    let mut model = Model::new(&Names::default(), &clocks);
    let requested = |calls, inside| {
        record(Body::Api(Api { call: call(4, 0), result: 600, subject: 9, calls, inside, entered: 0 }))
    };
    let counted = |model: &mut Model<'_>, record: &Record| {
        let call = model.observe(record).call.unwrap();
        (call.calls, call.host_ns)
    };
    assert_eq!(counted(&mut model, &requested(1, 0)), (1, 15));
    assert_eq!(counted(&mut model, &requested(3, 6)), (3, 6));
}

/// Such copies once counted as DtoD, because the call does not say that its addresses are on two GPUs.
#[test]
fn a_copy_between_the_memory_of_two_gpus_is_a_peer_copy() {
    use gpuspy_wire::record::{Direction, Memory};
    let on =
        |context, device| record(Body::Context(Context { context, device, handle: 9, destroyed: false }));
    let contexts = [on(1, 0), on(2, 1), on(3, 0)];
    let clocks = Survey::of(contexts.iter().cloned());
    let mut model = Model::new(&Names::default(), &clocks);
    for (context, address) in [(1, 0x1000), (2, 0x2000), (3, 0x3000)] {
        let call = Call { context, ..call(4, 0) };
        let (memory, bytes, stream, pool) = (Memory::Device, 0x1000, 0, 0);
        model.observe(&record(Body::Alloc(Alloc { call, memory, address, bytes, stream, pool })));
    }
    let mut kind = |direction, src, dst| {
        let mut copy = kernel(Untimed::Off, None, 0);
        let (asynchronous, bytes, rows, peer_context) = (false, 64, 1, 0);
        copy.what = What::Memcpy { direction, asynchronous, bytes, dst, src, rows, peer_context };
        match model.observe(&record(Body::Work(copy))).operation.unwrap().what {
            Action::Transfer { kind, .. } => kind,
            other => panic!("{other:?}"),
        }
    };
    for direction in [Direction::Default, Direction::DtoD] {
        assert_eq!(kind(direction, 0x1000, 0x2040), TransferKind::PtoP, "{direction:?}");
        assert_eq!(kind(direction, 0x1000, 0x3040), TransferKind::DtoD, "{direction:?}, one GPU");
        assert_ne!(kind(direction, 0x1000, 0x9000_0000), TransferKind::PtoP, "the GPU is unknown");
    }
}

#[test]
fn a_free_counts_once_when_it_ends() {
    use gpuspy_wire::record::Memory;
    let clocks = Clocks::default();
    let mut model = Model::new(&Names::default(), &clocks);
    let free = record(Body::Free(Free {
        call: call(4, 0),
        memory: Memory::Device,
        address: 64,
        stream: 0,
        bytes: 0,
    }));
    let end = record(Body::Api(Api {
        call: call(4, flag::FAILED),
        result: 1,
        subject: 0,
        calls: 1,
        inside: 0,
        entered: 0,
    }));
    assert_eq!(model.observe(&free).call, None);
    let ended = model.observe(&end);
    assert!(ended.call.unwrap().failed);
    let of = memory::Allocator { context: 1, thread: 1, stream: None, caller: 0, correlation: 0 };
    assert_eq!(ended.memory, [MemoryChange::FreeFailed { memory: Memory::Device, bytes: 0, of }]);
}

#[test]
fn an_operation_is_timed_untimed_lost_or_captured() {
    let gpu = Some(GpuTime { time_base: 2, start: 50_000, duration: 9_000, ..GpuTime::default() });
    let timed = kernel(Untimed::Timed, gpu, 0);
    let clocks = Survey::of([record(Body::Work(timed.clone()))]);
    let mut model = Model::new(&Names::default(), &clocks);
    let untimed = |reason| When::Untimed { reason, after: Some(6_000) };
    assert_eq!(when(&mut model, kernel(Untimed::Timed, None, 0)), untimed(Reason::Lost));
    assert!(matches!(when(&mut model, timed), When::Timed(_)));
    let deep = when(&mut model, kernel(Untimed::DeepQueue, None, 0));
    assert_eq!(deep, untimed(Reason::Untimed(Untimed::DeepQueue)));
    assert_eq!(when(&mut model, kernel(Untimed::Captured, None, 0)), When::Captured);
    assert_eq!(when(&mut model, kernel(Untimed::Off, None, flag::CAPTURED)), When::Captured);
}

#[test]
fn a_burst_times_its_launches_and_a_lost_one_is_undecided_from_its_first_launch() {
    let clocks = burst_ended(10_000);
    let mut model = Model::new(&Names::default(), &clocks);
    assert_eq!(after(when(&mut model, kernel(Untimed::Programmatic, None, flag::BURST))), None);
    assert_eq!(after(when(&mut model, kernel(Untimed::Programmatic, None, 0))), Some(6_000));
    let mut lost = kernel(Untimed::Timed, None, 0);
    (lost.what, lost.call.begin) = (What::Burst { launches: 3, ordinary: 0, closing: 0 }, 9_000);
    assert_eq!(
        after(when(&mut model, lost)),
        Some(6_000),
        "where its first launch's start event was recorded"
    );
}

/// The last launches of a stream that is destroyed, or that the program leaves as it is: nothing follows them, so
/// no event is recorded.
#[test]
fn launches_of_an_unended_burst_are_undecided_from_their_calls() {
    for clocks in [Clocks::default(), burst_ended(9_999)] {
        let mut model = Model::new(&Names::default(), &clocks);
        assert_eq!(after(when(&mut model, kernel(Untimed::Programmatic, None, flag::BURST))), Some(6_000));
    }
}

#[test]
fn a_graph_launch_knows_what_it_ran() {
    let clocks = Clocks::default();
    let mut model = Model::new(&Names::default(), &clocks);
    let (copies, memsets, handle) = (0, 0, 0);
    model.observe(&record(Body::Graph(Graph { graph: 5, handle, kernels: 12, copies, memsets, others: 1 })));
    let mut launch = kernel(Untimed::Off, None, 0);
    launch.what = What::Graph { graph: 5, handle, kernels: 12, copies, memsets };
    let launch = record(Body::Work(launch));
    let event = model.observe(&launch);
    assert_eq!(event.operation.unwrap().what, Action::Graph { kernels: 12 });
    assert_eq!(event.graph.unwrap().others, 1);
}

#[test]
fn a_graph_allocates_memory_when_it_runs_and_not_when_it_is_captured() {
    use gpuspy_wire::record::{Memory, NodeKind};
    let clocks = Clocks::default();
    let mut model = Model::new(&Names::default(), &clocks);
    let (graph, kernels, copies, memsets, handle) = (5, 0, 0, 0, 0);
    model.observe(&record(Body::Graph(Graph { graph, handle, kernels, copies, memsets, others: 1 })));
    for (kind, bytes, address) in
        [(NodeKind::Alloc, 64, 4096), (NodeKind::Alloc, 32, 8192), (NodeKind::Free, 0, 4096)]
    {
        let node = GraphNode { graph, kind, kernel: 0, count: 1, bytes, address };
        model.observe(&record(Body::GraphNode(node)));
    }
    let mut memory_of = |flags| {
        let mut launch = kernel(Untimed::Off, None, flags);
        launch.what = What::Graph { graph, handle, kernels, copies, memsets };
        model.observe(&record(Body::Work(launch))).memory
    };
    assert_eq!(memory_of(flag::CAPTURED), []);
    let of = memory::Allocator { context: 1, thread: 1, stream: Some(7), caller: 0, correlation: 0 };
    let came = |bytes| MemoryChange::Allocated { memory: Memory::Graph, bytes, of };
    let memory = Memory::Graph;
    let passed = MemoryChange::Passed { memory, blocks: 1, bytes: 64, at_once: 64, largest: 64, of };
    assert_eq!(memory_of(0), [came(32), passed]);
}

#[test]
fn an_operation_gets_its_device_from_a_context_recorded_anywhere() {
    let context = Context { context: 1, device: 3, handle: 9, destroyed: false };
    let clocks = Survey::of([record(Body::Context(context))]);
    let mut model = Model::new(&Names::default(), &clocks);
    let operation = model.observe(&record(Body::Work(kernel(Untimed::Off, None, 0)))).operation;
    assert_eq!(operation.unwrap().device, Some(3));
}

#[test]
fn a_synchronization_bounds_the_clock_only_for_earlier_work() {
    let gpu = GpuTime { time_base: 2, start: 50_000, duration: 9_000, ..GpuTime::default() };
    let work = record(Body::Work(kernel(Untimed::Timed, Some(gpu), 0)));
    let sync = |begin, scope, stream| {
        let call = Call { begin, end: 20_000, context: 1, ..Call::default() };
        record(Body::Synchronize(Synchronize { call, scope, stream, event: 0 }))
    };
    let half_width = |sync| Survey::of([work.clone(), sync]).of(1, 2).unwrap().half_width(20_000);
    for vain in [sync(10_500, SyncScope::Context, 0), sync(12_000, SyncScope::Stream, 8)] {
        assert_eq!(half_width(vain), None);
    }
    assert!(half_width(sync(12_000, SyncScope::Stream, 7)).is_some_and(|ns| ns < 5_000));
}
