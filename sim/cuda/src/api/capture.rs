//! Stream capture: begin, end, what is being captured.

use super::{offer, put};
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
use crate::state::StreamKind;
use crate::thread;
use std::collections::HashMap;

exports! {
    cuStreamBeginCapture | cuStreamBeginCapture_ptsz => begin_v1(stream: Handle);
    cuStreamBeginCapture_v2 | cuStreamBeginCapture_v2_ptsz => begin(stream: Handle, mode: u32);
    cuStreamBeginCaptureToGraph | cuStreamBeginCaptureToGraph_ptsz => begin_to_graph(stream: Handle, graph: Handle, nodes: *const Handle, edges: *const u64, count: usize, mode: u32);
    cuStreamEndCapture | cuStreamEndCapture_ptsz => end(stream: Handle, graph: *mut Handle);
    cuStreamIsCapturing | cuStreamIsCapturing_ptsz => is_capturing(stream: Handle, status: *mut u32);
    cuStreamGetCaptureInfo | cuStreamGetCaptureInfo_ptsz => info(stream: Handle, status: *mut u32, id: *mut u64);
    cuStreamGetCaptureInfo_v2 | cuStreamGetCaptureInfo_v2_ptsz => info_v2(stream: Handle, status: *mut u32, id: *mut u64, graph: *mut Handle, nodes: *mut *const Handle, count: *mut usize);
    cuStreamGetCaptureInfo_v3 | cuStreamGetCaptureInfo_v3_ptsz => info_v3(stream: Handle, status: *mut u32, id: *mut u64, graph: *mut Handle, nodes: *mut *const Handle, edges: *mut *const u64, count: *mut usize);
    cuStreamUpdateCaptureDependencies | cuStreamUpdateCaptureDependencies_ptsz => update(stream: Handle, nodes: *const Handle, count: usize, flags: u32);
    cuStreamUpdateCaptureDependencies_v2 | cuStreamUpdateCaptureDependencies_v2_ptsz => update_v2(stream: Handle, nodes: *const Handle, edges: *const u64, count: usize, flags: u32);
}

/// Handles that the application gave.
///
/// # Safety
/// `handles` is valid for `count` handles, or `count` is 0.
pub unsafe fn list(handles: *const Handle, count: usize) -> Outcome<Vec<Handle>> {
    match count {
        0 => Ok(Vec::new()),
        _ if handles.is_null() => Err(INVALID_VALUE),
        // SAFETY: the caller's.
        _ => Ok(unsafe { std::slice::from_raw_parts(handles, count) }.to_vec()),
    }
}

unsafe fn begin_v1(call: &mut Call, stream: Handle) -> Outcome {
    start(call, stream, GLOBAL, None, Vec::new())
}

unsafe fn begin(call: &mut Call, stream: Handle, mode: u32) -> Outcome {
    start(call, stream, mode, None, Vec::new())
}

unsafe fn begin_to_graph(
    call: &mut Call,
    stream: Handle,
    graph: Handle,
    nodes: *const Handle,
    _: *const u64,
    count: usize,
    mode: u32,
) -> Outcome {
    // SAFETY: cuda.h's promise.
    let nodes = unsafe { list(nodes, count) }?;
    start(call, stream, mode, Some(graph), nodes)
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

unsafe fn end(call: &mut Call, stream: Handle, graph: *mut Handle) -> Outcome {
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
        // SAFETY: cuda.h's promise.
        return unsafe { put(graph, capture.graph) };
    };
    state.destroy_graph(capture.graph)?;
    // SAFETY: cuda.h's promise: after a violation "a NULL graph will be returned".
    unsafe { put(graph, 0) }?;
    Err(failure)
}

unsafe fn is_capturing(call: &mut Call, stream: Handle, status: *mut u32) -> Outcome {
    // SAFETY: cuda.h's promise.
    unsafe { info(call, stream, status, std::ptr::null_mut()) }
}

unsafe fn info(call: &mut Call, stream: Handle, status: *mut u32, id: *mut u64) -> Outcome {
    let none = std::ptr::null_mut();
    // SAFETY: cuda.h's promise.
    unsafe { info_v2(call, stream, status, id, none, std::ptr::null_mut(), std::ptr::null_mut()) }
}

unsafe fn info_v2(
    call: &mut Call,
    stream: Handle,
    status: *mut u32,
    id: *mut u64,
    graph: *mut Handle,
    nodes: *mut *const Handle,
    count: *mut usize,
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
    // SAFETY: cuda.h's promise; all but the status may be NULL.
    unsafe {
        put(status, known)?;
        if let Some((number, capture)) = number.zip(capture) {
            let tips: Box<[Handle]> = capture.tips.get(&stream).cloned().unwrap_or_default().into();
            offer(id, number);
            offer(graph, capture.graph);
            offer(nodes, tips.as_ptr());
            offer(count, tips.len());
            capture.shown.insert(stream, tips);
        }
    }
    Ok(())
}

#[allow(clippy::too_many_arguments)]
unsafe fn info_v3(
    call: &mut Call,
    stream: Handle,
    status: *mut u32,
    id: *mut u64,
    graph: *mut Handle,
    nodes: *mut *const Handle,
    edges: *mut *const u64,
    count: *mut usize,
) -> Outcome {
    // SAFETY: cuda.h's promise. NULL stands for edges without data.
    unsafe {
        offer(edges, std::ptr::null());
        info_v2(call, stream, status, id, graph, nodes, count)
    }
}

unsafe fn update(call: &mut Call, stream: Handle, nodes: *const Handle, count: usize, flags: u32) -> Outcome {
    // SAFETY: cuda.h's promise.
    let nodes = unsafe { list(nodes, count) }?;
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

unsafe fn update_v2(
    call: &mut Call,
    stream: Handle,
    nodes: *const Handle,
    _: *const u64,
    count: usize,
    flags: u32,
) -> Outcome {
    // SAFETY: cuda.h's promise.
    unsafe { update(call, stream, nodes, count, flags) }
}
