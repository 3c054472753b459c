//! Stream captures: begin, end, information.

use crate::call::Call;
use crate::capture::{Capture, GLOBAL, RELAXED};
use crate::error::{
    ILLEGAL_STATE, INVALID_HANDLE, INVALID_VALUE, Outcome, STREAM_CAPTURE_IMPLICIT,
    STREAM_CAPTURE_INVALIDATED, STREAM_CAPTURE_UNJOINED, STREAM_CAPTURE_UNMATCHED,
    STREAM_CAPTURE_UNSUPPORTED, STREAM_CAPTURE_WRONG_THREAD,
};
use crate::export::exports;
use crate::graph::Graph;
use crate::handle::Handle;
use crate::parameter::{Maybe, Out, Pointer, Slice};
use crate::state::StreamKind;
use crate::thread;
use std::collections::HashMap;

exports! {
    cuStreamBeginCapture | cuStreamBeginCapture_ptsz => begin_v1(stream: Handle);
    cuStreamBeginCapture_v2 | cuStreamBeginCapture_v2_ptsz => begin(stream: Handle, mode: u32);
    cuStreamBeginCaptureToGraph | cuStreamBeginCaptureToGraph_ptsz => begin_to_graph(stream: Handle, graph: Handle, nodes[count]: Slice<Handle>, edges: Pointer<u64>, count: usize, mode: u32);
    cuStreamEndCapture | cuStreamEndCapture_ptsz => end(stream: Handle, graph: Out<Handle>);
    cuStreamIsCapturing | cuStreamIsCapturing_ptsz => is_capturing(stream: Handle, status: Out<u32>);
    cuStreamGetCaptureInfo | cuStreamGetCaptureInfo_ptsz => info(stream: Handle, status: Out<u32>, id: Maybe<u64>);
    cuStreamGetCaptureInfo_v2 | cuStreamGetCaptureInfo_v2_ptsz => info_v2(stream: Handle, status: Out<u32>, id: Maybe<u64>, graph: Maybe<Handle>, nodes: Maybe<*const Handle>, count: Maybe<usize>);
    cuStreamGetCaptureInfo_v3 | cuStreamGetCaptureInfo_v3_ptsz => info_v3(stream: Handle, status: Out<u32>, id: Maybe<u64>, graph: Maybe<Handle>, nodes: Maybe<*const Handle>, edges: Maybe<*const u64>, count: Maybe<usize>);
    cuStreamUpdateCaptureDependencies | cuStreamUpdateCaptureDependencies_ptsz => update(stream: Handle, nodes[count]: Slice<Handle>, count: usize, flags: u32);
    cuStreamUpdateCaptureDependencies_v2 | cuStreamUpdateCaptureDependencies_v2_ptsz => update_v2(stream: Handle, nodes[count]: Slice<Handle>, edges: Pointer<u64>, count: usize, flags: u32);
}

fn begin_v1(call: &mut Call, stream: Handle) -> Outcome {
    start(call, stream, GLOBAL, None, Vec::new())
}

fn begin(call: &mut Call, stream: Handle, mode: u32) -> Outcome {
    start(call, stream, mode, None, Vec::new())
}

fn begin_to_graph(
    call: &mut Call,
    stream: Handle,
    graph: Handle,
    nodes: Slice<Handle>,
    _: Pointer<u64>,
    _: usize,
    mode: u32,
) -> Outcome {
    start(call, stream, mode, Some(graph), nodes.to_vec())
}

fn start(call: &Call, stream: Handle, mode: u32, graph: Option<Handle>, nodes: Vec<Handle>) -> Outcome {
    if mode > RELAXED {
        return Err(INVALID_VALUE);
    }
    let mut state = call.lock();
    let origin = state.stream(call.api.per_thread, stream)?;
    let of = state.checked(origin);
    if of.kind == StreamKind::Legacy {
        // cuda.h: "Capture may not be initiated if stream is CU_STREAM_LEGACY".
        return Err(STREAM_CAPTURE_UNSUPPORTED);
    }
    if of.capture.is_some() {
        return Err(ILLEGAL_STATE);
    }
    let graph = match graph {
        Some(graph) => {
            state.graphs.get(graph).ok_or(INVALID_HANDLE)?;
            state.check_dependencies(graph, &nodes)?;
            graph
        }
        None => state.graphs.insert(Graph::default()),
    };
    let id = state.id();
    let tips = HashMap::from([(origin, nodes)]);
    let tid = thread::tid();
    let capture = Capture { graph, mode, origin, tid, invalid: false, tips, shown: HashMap::new() };
    state.captures.insert(id, capture);
    state.checked(origin).capture = Some(id);
    Ok(())
}

fn end(call: &mut Call, stream: Handle, graph: Out<Handle>) -> Outcome {
    let mut state = call.lock();
    let stream = state.stream(call.api.per_thread, stream)?;
    let id = state.checked(stream).capture.ok_or(ILLEGAL_STATE)?;
    let capture = state.captures.get_mut(&id).ok_or(ILLEGAL_STATE)?;
    if capture.origin != stream {
        // cuda.h, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED: "the capture was not initiated in this stream".
        capture.invalid = true;
        return Err(STREAM_CAPTURE_UNMATCHED);
    }
    if capture.mode != RELAXED && capture.tid != thread::tid() {
        return Err(STREAM_CAPTURE_WRONG_THREAD);
    }
    let capture = state.leave_capture(id).ok_or(ILLEGAL_STATE)?;
    let failure = if capture.invalid {
        Some(STREAM_CAPTURE_INVALIDATED)
    } else if !state.joined(&capture) {
        Some(STREAM_CAPTURE_UNJOINED)
    } else {
        None
    };
    let Some(failure) = failure else {
        graph.put(capture.graph);
        return Ok(());
    };
    state.destroy_graph(capture.graph)?;
    // cuda.h: after a violation "a NULL graph will be returned".
    graph.put(0);
    Err(failure)
}

fn is_capturing(call: &mut Call, stream: Handle, status: Out<u32>) -> Outcome {
    info(call, stream, status, Maybe::NONE)
}

fn info(call: &mut Call, stream: Handle, status: Out<u32>, id: Maybe<u64>) -> Outcome {
    let none = Maybe::NONE;
    info_v2(call, stream, status, id, none, Maybe::NONE, Maybe::NONE)
}

fn info_v2(
    call: &mut Call,
    stream: Handle,
    status: Out<u32>,
    id: Maybe<u64>,
    graph: Maybe<Handle>,
    nodes: Maybe<*const Handle>,
    count: Maybe<usize>,
) -> Outcome {
    let mut state = call.lock();
    let stream = state.stream(call.api.per_thread, stream)?;
    if state.implicitly_captured(stream) {
        // cuda.h, cuStreamIsCapturing: "The blocking stream capture is not invalidated."
        return Err(STREAM_CAPTURE_IMPLICIT);
    }
    let number = state.checked(stream).capture;
    let capture = number.and_then(|number| state.captures.get_mut(&number));
    // CUstreamCaptureStatus: none, active, invalidated.
    let known = capture.as_ref().map_or(0, |capture| if capture.invalid { 2 } else { 1 });
    status.put(known);
    if let Some((number, capture)) = number.zip(capture) {
        let tips: Box<[Handle]> = capture.tips.get(&stream).cloned().unwrap_or_default().into();
        id.put(number);
        graph.put(capture.graph);
        nodes.put(tips.as_ptr());
        count.put(tips.len());
        capture.shown.insert(stream, tips);
    }
    Ok(())
}

#[allow(clippy::too_many_arguments)]
fn info_v3(
    call: &mut Call,
    stream: Handle,
    status: Out<u32>,
    id: Maybe<u64>,
    graph: Maybe<Handle>,
    nodes: Maybe<*const Handle>,
    edges: Maybe<*const u64>,
    count: Maybe<usize>,
) -> Outcome {
    // NULL means edges without data.
    edges.put(std::ptr::null());
    info_v2(call, stream, status, id, graph, nodes, count)
}

fn update(call: &mut Call, stream: Handle, nodes: Slice<Handle>, _: usize, flags: u32) -> Outcome {
    let nodes = nodes.to_vec();
    let mut state = call.lock();
    let stream = state.stream(call.api.per_thread, stream)?;
    let id = state.checked(stream).capture.ok_or(ILLEGAL_STATE)?;
    let graph = state.captures.get(&id).ok_or(ILLEGAL_STATE)?.graph;
    state.check_dependencies(graph, &nodes)?;
    let tips = state.captures.get_mut(&id).and_then(|capture| capture.tips.get_mut(&stream));
    let tips = tips.ok_or(ILLEGAL_STATE)?;
    match flags {
        0 => tips.extend(nodes.iter().filter(|node| !tips.contains(node)).copied().collect::<Vec<_>>()),
        1 => *tips = nodes,
        _ => return Err(INVALID_VALUE),
    }
    Ok(())
}

fn update_v2(
    call: &mut Call,
    stream: Handle,
    nodes: Slice<Handle>,
    _: Pointer<u64>,
    count: usize,
    flags: u32,
) -> Outcome {
    update(call, stream, nodes, count, flags)
}
