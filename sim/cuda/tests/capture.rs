//! Stream capture and graphs.

mod common;

use common::{
    Gate, alone, begin, device, error_name, event, kernel, launch, number, of_kind, stream, synchronize,
    try_launch, with_truth,
};

const UNSUPPORTED: i32 = 900;
const INVALIDATED: i32 = 901;
const UNMATCHED: i32 = 903;
const UNJOINED: i32 = 904;
const ISOLATION: i32 = 905;
const IMPLICIT: i32 = 906;
const CAPTURED_EVENT: i32 = 907;
const WRONG_THREAD: i32 = 908;

const GLOBAL: u32 = 0;
const THREAD_LOCAL: u32 = 1;
const RELAXED: u32 = 2;

fn capture(stream: u64, mode: u32) {
    ok!(cuStreamBeginCapture_v2(stream => u64, mode => u32));
}

/// Ends a capture: result and graph.
fn end(stream: u64) -> (i32, u64) {
    let mut graph = u64::MAX;
    let result = cu!(cuStreamEndCapture(stream => u64, &mut graph => &mut u64));
    (result, graph)
}

fn status(stream: u64) -> (i32, u32) {
    let mut status = 9;
    let result = cu!(cuStreamIsCapturing(stream => u64, &mut status => &mut u32));
    (result, status)
}

fn exchange(mode: u32) -> u32 {
    let mut mode = mode;
    ok!(cuThreadExchangeStreamCaptureMode(&mut mode => &mut u32));
    mode
}

fn instantiate(graph: u64) -> u64 {
    let mut exec = 0;
    ok!(cuGraphInstantiateWithFlags(&mut exec => &mut u64, graph => u64, 0 => u64));
    exec
}

fn record(event: u64, stream: u64) {
    ok!(cuEventRecord(event => u64, stream => u64));
}

fn wait(stream: u64, event: u64) -> i32 {
    cu!(cuStreamWaitEvent(stream => u64, event => u64, 0 => u32))
}

fn nodes(graph: u64) -> usize {
    let mut count = 0;
    ok!(cuGraphGetNodes(graph => u64, std::ptr::null_mut() => *mut u64, &mut count => &mut usize));
    count
}

#[test]
fn a_captured_launch_does_not_run_until_its_graph_is_launched() {
    with_truth(
        "a_captured_launch_does_not_run_until_its_graph_is_launched",
        &[],
        || {
            begin();
            let (main, side) = (stream(1), stream(1));
            let (fork, join) = (event(2), event(2));
            let (a, b, c) = (kernel("a_30us"), kernel("b_50us"), kernel("c_10us"));
            capture(main, GLOBAL);
            launch(a, main, 0);
            record(fork, main);
            assert_eq!(wait(side, fork), 0);
            assert_eq!(status(side), (0, 1), "a stream that waits for a captured event is captured");
            launch(b, side, 0);
            launch(b, main, 0);
            record(join, side);
            assert_eq!(wait(main, join), 0);
            launch(c, main, 0);
            let (result, graph) = end(main);
            assert_eq!((result, nodes(graph)), (0, 4));
            assert_eq!((status(main), status(side)), ((0, 0), (0, 0)));
            let mut edges = 0usize;
            let none = std::ptr::null_mut::<u64>();
            ok!(cuGraphGetEdges(graph => u64, none => *mut u64, none => *mut u64, &mut edges => &mut usize));
            assert_eq!(edges, 4);
            let exec = instantiate(graph);
            let gate = Gate::close(&[main]);
            ok!(cuGraphLaunch(exec => u64, main => u64));
            ok!(cuGraphLaunch(exec => u64, main => u64));
            gate.open();
            synchronize(main);
            ok!(cuGraphDestroy(graph => u64));
            ok!(cuGraphExecDestroy(exec => u64));
            assert_eq!(cu!(cuGraphLaunch(exec => u64, main => u64)), 400);
        },
        |truth| {
            let kernels = of_kind(&truth, "kernel");
            let captured = kernels.iter().filter(|line| line["captured"] == true).count();
            assert_eq!(captured, 4);
            assert!(
                kernels.iter().filter(|line| line["captured"] == true).all(|line| line["start"].is_null())
            );
            let graphs = of_kind(&truth, "graph");
            assert_eq!(graphs.len(), 2);
            for graph in &graphs {
                let seq = number(graph, "seq");
                let inside: Vec<_> = kernels.iter().filter(|line| number(line, "in_graph") == seq).collect();
                assert_eq!(inside.len(), 4);
                // a, then both b side by side, then c: 30 + 50 + 10 µs.
                assert_eq!(number(graph, "end") - number(graph, "start"), 90_000);
                let c = inside.iter().find(|line| line["name"] == "c_10us").unwrap();
                assert_eq!(number(c, "start") - number(graph, "start"), 80_000);
            }
            assert_eq!(number(graphs[1], "head"), number(graphs[0], "end"));
            let made = of_kind(&truth, "graph_instantiate")[0];
            assert_eq!((number(made, "kernels"), number(made, "others")), (4, 0));
        },
    );
}

#[test]
fn unsafe_calls_are_refused_by_mode_and_invalidate() {
    alone("unsafe_calls_are_refused_by_mode_and_invalidate", &[], || {
        let context = begin();
        let (captured, other) = (stream(1), stream(1));
        let (free_event, work) = (event(0), kernel("k_1us"));
        record(free_event, other);
        synchronize(other);
        let alloc = || {
            let mut address = 0u64;
            cu!(cuMemAlloc_v2(&mut address => &mut u64, 8 => usize))
        };
        let in_thread = move |mode: u32, call: fn(u64, u64) -> i32| {
            let body = move || {
                ok!(cuCtxSetCurrent(context => u64));
                exchange(mode);
                call(free_event, other)
            };
            std::thread::spawn(body).join().unwrap()
        };
        let query: fn(u64, u64) -> i32 = |event, _| cu!(cuEventQuery(event => u64));
        let sync: fn(u64, u64) -> i32 = |_, stream| cu!(cuStreamSynchronize(stream => u64));

        // The capturing thread itself.
        capture(captured, GLOBAL);
        assert_eq!(alloc(), UNSUPPORTED);
        assert_eq!(status(captured), (0, 2), "invalidated");
        assert_eq!(try_launch(work, captured, 0), INVALIDATED);
        assert_eq!(end(captured), (INVALIDATED, 0));
        assert_eq!(status(captured), (0, 0));

        // Other threads: only a GLOBAL capture, and not if they are RELAXED or THREAD_LOCAL.
        for (mode, of_thread, call, result) in [
            (GLOBAL, GLOBAL, query, UNSUPPORTED),
            (GLOBAL, GLOBAL, sync, UNSUPPORTED),
            (GLOBAL, THREAD_LOCAL, query, 0),
            (GLOBAL, RELAXED, query, 0),
            (THREAD_LOCAL, GLOBAL, query, 0),
            (RELAXED, GLOBAL, query, 0),
        ] {
            capture(captured, mode);
            assert_eq!(in_thread(of_thread, call), result, "{mode} {of_thread}");
            assert_eq!(end(captured).0, if result == 0 { 0 } else { INVALIDATED }, "{mode} {of_thread}");
        }

        // The capturing thread, once RELAXED.
        assert_eq!(exchange(RELAXED), GLOBAL);
        capture(captured, GLOBAL);
        assert_eq!((alloc(), cu!(cuEventQuery(free_event => u64))), (0, 0));
        assert_eq!(end(captured).0, 0);
        exchange(GLOBAL);
        let mut wrong = 3u32;
        assert_eq!(cu!(cuThreadExchangeStreamCaptureMode(&mut wrong => &mut u32)), 1);
    });
}

#[test]
fn an_assumption_makes_event_queries_safe() {
    let assume = [("SIMCUDA_ASSUME", "event_query_in_capture=safe")];
    alone("an_assumption_makes_event_queries_safe", &assume, || {
        begin();
        let (captured, event) = (stream(1), event(0));
        record(event, 0);
        capture(captured, GLOBAL);
        ok!(cuEventQuery(event => u64));
        assert_eq!(end(captured).0, 0);
    });
}

#[test]
fn captured_streams_and_events_cannot_be_waited_for() {
    alone("captured_streams_and_events_cannot_be_waited_for", &[], || {
        begin();
        let captured = stream(1);
        let inside = event(0);
        exchange(RELAXED);
        for (call, result) in [
            ((|stream, _| cu!(cuStreamSynchronize(stream => u64))) as fn(u64, u64) -> i32, UNSUPPORTED),
            (|stream, _| cu!(cuStreamQuery(stream => u64)), UNSUPPORTED),
            (|_, event| cu!(cuEventQuery(event => u64)), CAPTURED_EVENT),
            (|_, event| cu!(cuEventSynchronize(event => u64)), CAPTURED_EVENT),
            // A synchronise of the whole context, whatever the mode.
            (|_, _| cu!(cuCtxSynchronize()), UNSUPPORTED),
        ] {
            capture(captured, THREAD_LOCAL);
            record(inside, captured);
            let found = call(captured, inside);
            assert_eq!(error_name(found), error_name(result));
            assert_eq!(end(captured).0, INVALIDATED);
        }
        assert_eq!(cu!(cuEventQuery(inside => u64)), CAPTURED_EVENT, "until it is recorded anew");
        record(inside, captured);
        ok!(cuEventSynchronize(inside => u64));
    });
}

#[test]
fn the_legacy_stream_is_unusable_while_a_blocking_stream_captures() {
    alone("the_legacy_stream_is_unusable_while_a_blocking_stream_captures", &[], || {
        begin();
        let (blocking, free) = (stream(0), stream(1));
        let work = kernel("k_1us");
        capture(blocking, RELAXED);
        assert_eq!(status(0).0, IMPLICIT);
        assert_eq!(status(blocking), (0, 1), "asking does no harm");
        assert_eq!(try_launch(work, free, 0), 0);
        assert_eq!(try_launch(work, 0, 0), IMPLICIT);
        assert_eq!(end(blocking).0, INVALIDATED);
        capture(blocking, RELAXED);
        let memory = 0u64;
        let copy = cu!(cuMemcpyHtoD_v2(device(8) => u64, &memory => &u64, 8 => usize));
        assert_eq!(copy, IMPLICIT, "a synchronous copy uses the legacy stream");
        assert_eq!(end(blocking).0, INVALIDATED);
        // A non-blocking stream's capture is none of its business.
        capture(free, RELAXED);
        assert_eq!((try_launch(work, 0, 0), status(0)), (0, (0, 0)));
        assert_eq!(end(free).0, 0);
        assert_eq!(cu!(cuStreamBeginCapture_v2(0 => u64, RELAXED => u32)), UNSUPPORTED);
    });
}

#[test]
fn a_capture_must_be_joined_and_end_on_its_own_stream_and_thread() {
    alone("a_capture_must_be_joined_and_end_on_its_own_stream_and_thread", &[], || {
        let context = begin();
        let (main, side) = (stream(1), stream(1));
        let (fork, before) = (event(2), event(2));
        let work = kernel("k_1us");
        record(before, side);

        capture(main, RELAXED);
        launch(work, main, 0);
        record(fork, main);
        assert_eq!(wait(side, fork), 0);
        launch(work, side, 0);
        assert_eq!(end(main), (UNJOINED, 0), "side's kernel leads nowhere");
        assert_eq!(status(side), (0, 0));

        capture(main, RELAXED);
        record(fork, main);
        assert_eq!(wait(side, fork), 0);
        assert_eq!(end(side).0, UNMATCHED);
        assert_eq!(end(main).0, INVALIDATED);

        capture(main, RELAXED);
        assert_eq!(wait(main, before), ISOLATION, "work outside the capture");
        assert_eq!(end(main).0, INVALIDATED);

        capture(main, GLOBAL);
        let elsewhere = std::thread::spawn(move || {
            ok!(cuCtxSetCurrent(context => u64));
            end(main).0
        });
        assert_eq!(elsewhere.join().unwrap(), WRONG_THREAD);
        assert_eq!(end(main).0, 0);
        assert_eq!(end(main).0, 401, "no capture to end");

        capture(main, RELAXED);
        capture(side, RELAXED);
        record(fork, main);
        assert_eq!(error_name(wait(side, fork)), "CUDA_ERROR_STREAM_CAPTURE_MERGE");
        assert_eq!((end(main).0, end(side).0), (INVALIDATED, INVALIDATED));
    });
}

#[test]
fn graphs_are_built_from_nodes_updated_and_launched() {
    #[repr(C)]
    struct KernelParameters {
        function: u64,
        dimensions: [u32; 6],
        shared: u32,
        arguments: *const *const u64,
        extra: *const u64,
        kernel: u64,
        context: u64,
    }
    #[repr(C)]
    struct SetParameters {
        dst: u64,
        pitch: usize,
        value: u32,
        element: u32,
        width: usize,
        height: usize,
    }
    with_truth(
        "graphs_are_built_from_nodes_updated_and_launched",
        &[],
        || {
            begin();
            let (stream, memory) = (stream(1), device(64));
            let (mut graph, mut first, mut second) = (0u64, 0u64, 0u64);
            ok!(cuGraphCreate(&mut graph => &mut u64, 0 => u32));
            let none = std::ptr::null::<u64>();
            let mut set =
                SetParameters { dst: memory, pitch: 64, value: 5, element: 1, width: 64, height: 1 };
            ok!(cuGraphAddMemsetNode(
                &mut first => &mut u64, graph => u64, none => *const u64, 0 => usize, &set => &SetParameters, 0 => u64
            ));
            let argument = 40_000u64;
            let arguments = [&argument as *const u64];
            let launch = |ns: &[*const u64]| KernelParameters {
                function: kernel("k_argns"),
                dimensions: [1; 6],
                shared: 0,
                arguments: ns.as_ptr(),
                extra: std::ptr::null(),
                kernel: 0,
                context: 0,
            };
            ok!(cuGraphAddKernelNode_v2(
                &mut second => &mut u64, graph => u64, &first => &u64, 1 => usize,
                &launch(&arguments) => &KernelParameters
            ));
            let exec = instantiate(graph);
            ok!(cuGraphLaunch(exec => u64, stream => u64));
            synchronize(stream);
            let mut back = [0u8; 64];
            ok!(cuMemcpyDtoH_v2(back.as_mut_ptr() => *mut u8, memory => u64, 64 => usize));
            assert_eq!(back, [5; 64]);

            set.value = 6;
            ok!(cuGraphExecMemsetNodeSetParams(
                exec => u64, first => u64, &set => &SetParameters, 0 => u64
            ));
            let longer = 70_000u64;
            let longer = [&longer as *const u64];
            ok!(cuGraphExecKernelNodeSetParams_v2(
                exec => u64, second => u64, &launch(&longer) => &KernelParameters
            ));
            ok!(cuGraphLaunch(exec => u64, stream => u64));
            synchronize(stream);
            ok!(cuMemcpyDtoH_v2(back.as_mut_ptr() => *mut u8, memory => u64, 64 => usize));
            assert_eq!(back, [6; 64]);

            let mut kept = launch(&longer);
            ok!(cuGraphKernelNodeGetParams_v2(second => u64, &mut kept => &mut KernelParameters));
            // SAFETY: the driver's copy of the one argument.
            assert_eq!(unsafe { **kept.arguments }, 40_000, "the graph itself keeps what it was made with");

            ok!(cuGraphNodeSetEnabled(exec => u64, second => u64, 0 => u32));
            ok!(cuGraphLaunch(exec => u64, stream => u64));
            synchronize(stream);

            let (mut clone, mut child) = (0u64, 0u64);
            ok!(cuGraphClone(&mut clone => &mut u64, graph => u64));
            ok!(cuGraphAddChildGraphNode(
                &mut child => &mut u64, clone => u64, none => *const u64, 0 => usize, graph => u64
            ));
            assert_eq!((nodes(graph), nodes(clone)), (2, 3));
            let mut info = [0u64; 3];
            assert_eq!(cu!(cuGraphExecUpdate_v2(exec => u64, clone => u64, &mut info => &mut [u64; 3])), 910);
            assert_eq!(info[0] as u32, 2, "the topology changed");
            ok!(cuGraphExecUpdate_v2(exec => u64, graph => u64, &mut info => &mut [u64; 3]));
            let again = instantiate(clone);
            ok!(cuGraphLaunch(again => u64, stream => u64));
            synchronize(stream);
        },
        |truth| {
            let lengths: Vec<_> = of_kind(&truth, "kernel")
                .iter()
                .map(|line| number(line, "end") - number(line, "start"))
                .collect();
            assert_eq!(lengths, [40_000, 70_000, 40_000, 40_000]);
            let sets = of_kind(&truth, "memset");
            assert_eq!(sets.len(), 5);
            assert!(sets.iter().all(|line| number(line, "in_graph") > 0 && number(line, "bytes") == 64));
        },
    );
}

#[test]
fn edges_keep_their_data_and_a_query_that_would_lose_it_fails() {
    alone("edges_keep_their_data_and_a_query_that_would_lose_it_fails", &[], || {
        begin();
        let (main, work) = (stream(1), kernel("k_20us"));
        capture(main, THREAD_LOCAL);
        launch(work, main, 0);
        launch(work, main, 0);
        launch(work, main, 0);
        let (_, graph) = end(main);
        let (mut list, mut count) = ([0u64; 3], 3usize);
        ok!(cuGraphGetNodes(graph => u64, &mut list => &mut [u64; 3], &mut count => &mut usize));
        let [first, second, third] = list;
        // CUgraphEdgeData: from port, to port, type, zeroes. Programmatic edges have port 1 or 2 and type 1.
        let (programmatic, nonsense) = (u64::from_ne_bytes([1, 0, 1, 0, 0, 0, 0, 0]), 1u64);
        let add = |data: u64| {
            cu!(cuGraphAddDependencies_v2(
                graph => u64, &first => &u64, &third => &u64, &data => &u64, 1 => usize
            ))
        };
        assert_eq!(add(nonsense), 1, "a port without its type");
        assert_eq!(add(programmatic), 0);
        let (mut from, mut to, mut data) = ([0u64; 3], [0u64; 3], [9u64; 3]);
        assert_eq!(
            error_name(cu!(cuGraphGetEdges(
                graph => u64, &mut from => &mut [u64; 3], &mut to => &mut [u64; 3], &mut count => &mut usize
            ))),
            "CUDA_ERROR_LOSSY_QUERY"
        );
        ok!(cuGraphGetEdges_v2(
            graph => u64, &mut from => &mut [u64; 3], &mut to => &mut [u64; 3], &mut data => &mut [u64; 3],
            &mut count => &mut usize
        ));
        let edges: Vec<_> = from.into_iter().zip(to).zip(data).collect();
        assert_eq!(edges, [((first, second), 0), ((second, third), 0), ((first, third), programmatic)]);
        ok!(cuGraphDestroyNode(first => u64));
        count = 3;
        ok!(cuGraphGetEdges(
            graph => u64, &mut from => &mut [u64; 3], &mut to => &mut [u64; 3], &mut count => &mut usize
        ));
        assert_eq!((count, from, to), (1, [second, 0, 0], [third, 0, 0]));
    });
}

#[test]
fn an_event_of_a_graph_and_the_capture_info_are_what_they_should_be() {
    alone("an_event_of_a_graph_and_the_capture_info_are_what_they_should_be", &[], || {
        begin();
        let (main, mark) = (stream(1), event(0));
        let work = kernel("k_20us");
        capture(main, THREAD_LOCAL);
        launch(work, main, 0);
        ok!(cuEventRecordWithFlags(mark => u64, main => u64, 1 => u32));
        let (mut status, mut id, mut graph, mut count) = (0u32, 0u64, 0u64, 0usize);
        let mut tips = std::ptr::null::<u64>();
        ok!(cuStreamGetCaptureInfo_v2(
            main => u64, &mut status => &mut u32, &mut id => &mut u64, &mut graph => &mut u64,
            &mut tips => &mut *const u64, &mut count => &mut usize
        ));
        assert_eq!((status, count), (1, 1));
        let mut kind = 0u32;
        // SAFETY: one node, as was said.
        ok!(cuGraphNodeGetType(unsafe { *tips } => u64, &mut kind => &mut u32));
        assert_eq!(kind, 7, "an external record is a node");
        let (result, ended) = end(main);
        assert_eq!((result, ended), (0, graph));
        ok!(cuGraphLaunch(instantiate(graph) => u64, main => u64));
        ok!(cuEventSynchronize(mark => u64));
        synchronize(main);
        assert_eq!(
            cu!(cuEventRecordWithFlags(mark => u64, main => u64, 1 => u32)),
            1,
            "external outside a capture"
        );
    });
}
