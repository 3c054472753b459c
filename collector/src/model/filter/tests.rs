use super::*;
use crate::model::graphs::Moves;
use crate::model::stacks::Caller;
use crate::model::transfer::{HostMemory, TransferKind};
use crate::model::{CountedCall, Reason, simulation};
use crate::trace::record::{Api, Call, Context, Free, GpuTime, NodeTime, Record, Synchronize, What};
use gpuspy_wire::record::{LossCause, Untimed};

const GEMM: Action = Action::Kernel { name: 1, communication: false };
const ADD: Action = Action::Kernel { name: 2, communication: false };
const COPY: Action = Action::Transfer { kind: TransferKind::HtoD, host_memory: HostMemory::Pinned, bytes: 4 };

fn names() -> Names {
    let kernel = |id, symbol: &str| ((Namespace::Kernel, id), symbol.to_owned());
    Names([kernel(1, "_Z4gemmPKf"), kernel(2, "add")].into())
}

fn kernel(pattern: &str) -> Filter {
    Filter { kernel: Some(Regex::new(pattern).unwrap()), ..Filter::default() }
}

/// An operation of thread 1 on device 3's stream 7, called at 100, untimed.
fn launch(what: Action, in_burst: bool) -> (Record, Operation) {
    let mut work = simulation::work(150, 50, 0);
    work.call.begin = 100;
    let when =
        When::Untimed { reason: Reason::Untimed(Untimed::Programmatic), after: (!in_burst).then_some(100) };
    let operation = Operation {
        correlation: 1,
        context: 1,
        device: Some(3),
        stream: 7,
        caller: Caller::default(),
        called: 100,
        returned: 150,
        what,
        when,
    };
    (Record { thread: 1, at: 150, body: Body::Work(work) }, operation)
}

fn passes(record_filter: &mut RecordFilter<'_>, (record, operation): &(Record, Operation)) -> bool {
    record_filter.passes(&Event { operation: Some(*operation), ..Event::new(record) })
}

/// What a filter passes of a launch of each kernel, and of a copy.
fn passed(filter: &Filter) -> [bool; 3] {
    let names = names();
    let mut record_filter = RecordFilter::new(filter, &names, None, 0, &CaptureRanges::default());
    record_filter.threads.extend(filter.threads.contains(&900).then_some(1));
    [GEMM, ADD, COPY].map(|what| passes(&mut record_filter, &launch(what, false)))
}

#[test]
fn an_operation_has_a_device_a_stream_a_thread_and_a_kernel() {
    let everything = Filter::default();
    for (filter, expected) in [
        (everything.clone(), [true; 3]),
        (Filter { devices: vec![3], ..everything.clone() }, [true; 3]),
        (Filter { devices: vec![0, 1], ..everything.clone() }, [false; 3]),
        (Filter { streams: vec![1, 7], ..everything.clone() }, [true; 3]),
        (Filter { streams: vec![8], ..everything.clone() }, [false; 3]),
        (Filter { threads: vec![900], ..everything.clone() }, [true; 3]),
        (Filter { threads: vec![1], ..everything.clone() }, [false; 3]),
        (kernel("^gemm\\(float"), [true, false, false]),
        (kernel("^_Z4"), [true, false, false]),
        (kernel("nothing"), [false; 3]),
        (Filter { devices: vec![3], streams: vec![8], ..everything.clone() }, [false; 3]),
        (Filter { since: Some(100), ..everything.clone() }, [true; 3]),
        (Filter { since: Some(101), ..everything.clone() }, [false; 3]),
        (Filter { until: Some(100), ..everything.clone() }, [false; 3]),
    ] {
        assert_eq!(passed(&filter), expected, "{filter}");
    }
}

#[test]
fn a_burst_concerns_every_thread_that_launched_into_it() {
    let (names, filter) = (names(), kernel("gemm"));
    let mut record_filter = RecordFilter::new(&filter, &names, None, 0, &CaptureRanges::default());
    let burst = launch(Action::Burst { launches: 2, ordinary: 0, communication: false }, false);
    for (launches, expected) in [([GEMM, ADD], true), ([ADD, ADD], false), ([ADD, GEMM], true)] {
        let passed = launches.map(|what| passes(&mut record_filter, &launch(what, true)));
        assert_eq!(passed, launches.map(|what| what == GEMM));
        assert_eq!(passes(&mut record_filter, &burst), expected);
    }
}

#[test]
fn of_a_burst_only_the_selected_launches_count() {
    let names = names();
    let left = |filter: &Filter| {
        let mut record_filter = RecordFilter::new(filter, &names, None, 0, &CaptureRanges::default());
        for what in [GEMM, ADD, GEMM] {
            passes(&mut record_filter, &launch(what, true));
        }
        let (record, operation) =
            launch(Action::Burst { launches: 3, ordinary: 0, communication: false }, false);
        let event = Event { operation: Some(operation), ..Event::new(&record) };
        record_filter.check(&event);
        record_filter.limit(&event).map_or(operation, |limited| limited.operation).what
    };
    assert_eq!(left(&kernel("gemm")), Action::Burst { launches: 2, ordinary: 0, communication: false });
    assert_eq!(
        left(&Filter { streams: vec![7], ..Filter::default() }),
        Action::Burst { launches: 3, ordinary: 0, communication: false }
    );
    assert_eq!(
        left(&Filter { since: Some(9), ..Filter::default() }),
        Action::Burst { launches: 3, ordinary: 0, communication: false }
    );
}

#[test]
fn of_a_graph_only_the_selected_kernels_count() {
    let names = names();
    let (record, operation) = launch(Action::Graph { kernels: 6 }, false);
    let copies = Moves { count: 1, bytes: 8 };
    let ran = Contents { kernel_count: 6, kernels: vec![(1, 2), (2, 3)], copies, ..Contents::default() };
    let left = |filter: &Filter| {
        let graph = Some(Arc::new(ran.clone()));
        let event = Event { operation: Some(operation), graph, ..Event::new(&record) };
        let limited = RecordFilter::new(filter, &names, None, 0, &CaptureRanges::default()).limit(&event);
        limited
            .map_or((operation.what, ran.clone()), |limited| (limited.operation.what, limited.graph.unwrap()))
    };
    let adds = Contents { kernel_count: 3, kernels: vec![(2, 3)], ..Contents::default() };
    assert_eq!(left(&kernel("add")), (Action::Graph { kernels: 3 }, adds));
    let streams = Filter { streams: vec![7], ..Filter::default() };
    assert_eq!(left(&streams), (Action::Graph { kernels: 6 }, ran.clone()));
}

/// The poller, which is no thread of the program, reports when a graph's nodes ran.
#[test]
fn a_nodes_time_concerns_the_thread_that_launched_its_graph() {
    let (names, poller) = (names(), 9);
    let gpu = GpuTime::default();
    let node = NodeTime { correlation: 1 << 40 | 77, context: 1, kernel: 1, node: 0, gpu };
    let record = Record { thread: poller, at: 150, body: Body::NodeTime(node) };
    let passes = |tid| {
        let filter = Filter { threads: vec![tid], ..Filter::default() };
        let threads = [(1, 900), (poller, 901)].into();
        let status = Status { threads, ..Status::default() };
        RecordFilter::new(&filter, &names, Some(&status), 0, &CaptureRanges::default())
            .check(&Event::new(&record))
            .concerns
    };
    assert_eq!((passes(900), passes(901)), (true, false));
}

/// A server had made more threads than a correlation has numbers for: no node was of such a thread.
#[test]
fn a_nodes_time_concerns_its_thread_also_after_so_many_that_a_correlation_has_not_all_of_its_number() {
    let names = names();
    let gpu = GpuTime::default();
    let node = NodeTime { correlation: 5 << 40 | 77, context: 1, kernel: 1, node: 0, gpu };
    let record = Record { thread: 9, at: 150, body: Body::NodeTime(node) };
    let passes = |tid| {
        let filter = Filter { threads: vec![tid], ..Filter::default() };
        let status = Status { threads: [((1 << 24) + 5, 900), (6, 901)].into(), ..Status::default() };
        RecordFilter::new(&filter, &names, Some(&status), 0, &CaptureRanges::default())
            .check(&Event::new(&record))
            .concerns
    };
    assert_eq!((passes(900), passes(901)), (true, false));
}

#[test]
fn a_graph_concerns_every_kernel_that_it_ran() {
    let names = names();
    let (record, operation) = launch(Action::Graph { kernels: 3 }, false);
    let graph = Some(Arc::new(Contents { kernel_count: 3, kernels: vec![(2, 3)], ..Contents::default() }));
    let event = Event { operation: Some(operation), graph, ..Event::new(&record) };
    for (pattern, expected) in [("add", true), ("gemm", false)] {
        assert_eq!(
            RecordFilter::new(&kernel(pattern), &names, None, 0, &CaptureRanges::default()).passes(&event),
            expected
        );
    }
}

#[test]
fn a_call_concerns_its_contexts_device_and_a_stream_that_it_names() {
    let names = names();
    let reported = Context { context: 1, device: 3, handle: 0, destroyed: false };
    let call = Call { context: 1, api: 1, begin: 40, ..Call::default() };
    let record = |body| Record { thread: 1, at: 60, body };
    let wait = |scope| record(Body::Synchronize(Synchronize { call, scope, stream: 7, event: 0 }));
    let passed = |filter: &Filter| {
        let mut record_filter = RecordFilter::new(filter, &names, None, 0, &CaptureRanges::default());
        assert!(
            record_filter.passes(&Event::new(&record(Body::Context(reported.clone())))),
            "the process itself"
        );
        let loss = Body::Loss { cause: LossCause::RingFull, count: 1 };
        assert!(record_filter.passes(&Event::new(&record(loss))), "its owner is unknown");
        let calls = [
            record(Body::Api(Api { call, result: 0, subject: 0, calls: 1, inside: 0, entered: 0 })),
            wait(SyncScope::Stream),
            wait(SyncScope::Device),
        ];
        calls.map(|record| {
            let call = Some(CountedCall { api: 1, calls: 1, host_ns: 20, failed: false });
            record_filter.passes(&Event { call, ..Event::new(&record) })
        })
    };
    let everything = Filter::default();
    assert_eq!(passed(&Filter { devices: vec![3], ..everything.clone() }), [true; 3]);
    assert_eq!(passed(&Filter { devices: vec![0], ..everything.clone() }), [false; 3]);
    assert_eq!(passed(&Filter { streams: vec![7], ..everything.clone() }), [false, true, false]);
    assert_eq!(passed(&kernel(".*")), [false; 3]);
    assert_eq!(passed(&Filter { since: Some(40), ..everything.clone() }), [true; 3]);
    assert_eq!(passed(&Filter { since: Some(41), ..everything }), [false; 3], "where it began counts");
}

/// Failed calls, queries of new events, and calls that the runtime makes by itself.
#[test]
fn a_call_without_a_known_context_concerns_the_only_device() {
    let passes = |used: &[u32], requested: u32| {
        let device = |ordinal: &u32| ((Namespace::Device, ordinal + 1), "GPU".to_owned());
        let names = Names(used.iter().map(device).collect());
        let call = Call { api: 1, begin: 40, ..Call::default() };
        let body = Body::Api(Api { call, result: 2, subject: 0, calls: 1, inside: 0, entered: 0 });
        let filter = Filter { devices: vec![requested], ..Filter::default() };
        let mut record_filter = RecordFilter::new(&filter, &names, None, 0, &CaptureRanges::default());
        let unknown = Allocator { context: 0, thread: 1, stream: None, caller: 0, correlation: 0 };
        let passes = record_filter.passes(&Event::new(&Record { thread: 1, at: 60, body }));
        assert_eq!(record_filter.holds(&unknown), passes, "its memory too");
        passes
    };
    assert!(passes(&[3], 3) && !passes(&[3], 0));
    assert!(!passes(&[3, 4], 3), "its device is unknown");
    assert!(!passes(&[], 3));
}

/// With two GPUs in use, no call of cuMemFree was of either: the record that ends a free names no context, and only the record
/// before it does.
#[test]
fn a_free_concerns_the_device_and_the_stream_that_its_first_record_names() {
    let device = |ordinal: u32| ((Namespace::Device, ordinal + 1), "GPU".to_owned());
    let names = Names([device(3), device(4)].into());
    let context = |context, device| Context { context, device, handle: 0, destroyed: false };
    let record = |thread, body| Record { thread, at: 60, body };
    let call = |correlation, context| Call { api: 1, correlation, begin: 40, context, ..Call::default() };
    let begun = |thread, correlation, context, memory, stream| {
        let call = call(correlation, context);
        record(thread, Body::Free(Free { call, memory, address: 64, stream, bytes: 0 }))
    };
    let ended = |thread, correlation| {
        let call = call(correlation, 0);
        record(thread, Body::Api(Api { call, result: 0, subject: 64, calls: 1, inside: 0, entered: 0 }))
    };
    let records = [
        begun(1, 5, 1, Memory::Device, 0),
        begun(2, 6, 2, Memory::Pool, 9),
        ended(1, 5),
        ended(2, 6),
        ended(1, 7),
    ];
    let passed = |filter: Filter| {
        let mut record_filter = RecordFilter::new(&filter, &names, None, 0, &CaptureRanges::default());
        for (number, ordinal) in [(1, 3), (2, 4)] {
            record_filter.check(&Event::new(&record(0, Body::Context(context(number, ordinal)))));
        }
        let passed = records.iter().map(|record| {
            let is_counted = matches!(record.body, Body::Api(_));
            let counted = CountedCall { api: 1, calls: 1, host_ns: 20, failed: false };
            let passed =
                record_filter.check(&Event { call: is_counted.then_some(counted), ..Event::new(record) });
            (passed.call, passed.is_of_unknown_device)
        });
        passed.collect::<Vec<_>>()
    };
    let (yes, no, unknown) = ((true, false), (false, false), (false, true));
    let of_device = |device| passed(Filter { devices: vec![device], ..Filter::default() });
    assert_eq!(of_device(3), [yes, no, yes, no, unknown]);
    assert_eq!(of_device(4), [no, yes, no, yes, unknown]);
    let on_stream = passed(Filter { streams: vec![9], ..Filter::default() });
    assert_eq!(on_stream, [no, yes, no, yes, no], "a call that names no stream is on none");
    let late = passed(Filter { devices: vec![3], since: Some(41), ..Filter::default() });
    assert_eq!(late, [no; 5]);
}

#[test]
fn a_timed_operation_counts_where_it_starts_and_its_call_where_that_begins() {
    let names = names();
    let truths = simulation::Simulation::new(0, 0).run(simulation::Load::Queued, 8, 1_000..2_000);
    let clocks = simulation::survey(&truths);
    let truth = &truths[4];
    let interval =
        crate::model::gpu_interval::derive(&truth.work, &truth.gpu, false, None, clocks.of(1, 1).unwrap());
    let (mut record, mut operation) = launch(GEMM, false);
    operation.when = When::Timed(interval);
    record.body = Body::Work(truth.work.clone());
    assert!(matches!(truth.work.what, What::Kernel { .. }));
    let begin = truth.work.call.begin;
    let between = (begin + interval.start as u64) / 2;
    let event = Event { operation: Some(operation), ..Event::new(&record) };
    let early = Filter { until: Some(between), ..Filter::default() };
    let late = Filter { since: Some(between), ..Filter::default() };
    let check = |filter| RecordFilter::new(filter, &names, None, 0, &CaptureRanges::default()).check(&event);
    assert_eq!(check(&early), Passed { operation: false, ..Passed::WHOLE });
    assert_eq!(check(&late), Passed { call: false, ..Passed::WHOLE });
}

#[test]
fn a_filter_describes_its_conditions() {
    assert_eq!(Filter::default().to_string(), "");
    assert!(Filter::default().is_everything());
    let filter = Filter {
        devices: vec![0],
        streams: vec![7, 8, 11],
        since: Some(1_500_000_000),
        until: Some(20_000_000_000),
        ..kernel("gemm|conv")
    };
    let words = "device 0, streams 7, 8 and 11, kernels that match gemm|conv, from 1.5 s, until 20 s";
    assert_eq!(filter.to_string(), words);
    assert!(!filter.is_everything());
}
