//! Streams and stream capture.

use std::ffi::{c_int, c_uint, c_void};

use crate::driver::Handle;

export! {
    fn cudaStreamCreate(stream: *mut Handle) = with_context |driver| {
        driver.cuStreamCreate(stream, 0)
    }

    fn cudaStreamCreateWithFlags(stream: *mut Handle, flags: c_uint) = with_context |driver| {
        driver.cuStreamCreate(stream, flags)
    }

    fn cudaStreamCreateWithPriority(stream: *mut Handle, flags: c_uint, priority: c_int) = with_context |driver| {
        driver.cuStreamCreateWithPriority(stream, flags, priority)
    }

    fn cudaStreamDestroy(stream: Handle) = with_context |driver| {
        driver.cuStreamDestroy(stream)
    }

    fn cudaThreadExchangeStreamCaptureMode(mode: *mut c_int) = with_driver |driver| {
        driver.cuThreadExchangeStreamCaptureMode(mode)
    }
}

export_on_stream! {
    fn cudaStreamSynchronize, cudaStreamSynchronize_ptsz(stream: Handle) = with_context |driver, default| {
        driver.cuStreamSynchronize(default, stream)
    }

    fn cudaStreamQuery, cudaStreamQuery_ptsz(stream: Handle) = with_context |driver, default| {
        driver.cuStreamQuery(default, stream)
    }

    fn cudaStreamWaitEvent, cudaStreamWaitEvent_ptsz(stream: Handle, event: Handle, flags: c_uint)
        = with_context |driver, default| { driver.cuStreamWaitEvent(default, stream, event, flags) }

    fn cudaStreamGetPriority, cudaStreamGetPriority_ptsz(stream: Handle, priority: *mut c_int)
        = with_context |driver, default| { driver.cuStreamGetPriority(default, stream, priority) }

    fn cudaStreamGetFlags, cudaStreamGetFlags_ptsz(stream: Handle, flags: *mut c_uint)
        = with_context |driver, default| { driver.cuStreamGetFlags(default, stream, flags) }

    fn cudaStreamGetId, cudaStreamGetId_ptsz(stream: Handle, id: *mut u64) = with_context |driver, default| {
        driver.cuStreamGetId(default, stream, id)
    }

    fn cudaStreamAddCallback, cudaStreamAddCallback_ptsz(stream: Handle, callback: *mut c_void, data: *mut c_void,
        flags: c_uint) = with_context |driver, default| {
        driver.cuStreamAddCallback(default, stream, callback, data, flags)
    }

    fn cudaStreamBeginCapture, cudaStreamBeginCapture_ptsz(stream: Handle, mode: c_int)
        = with_context |driver, default| { driver.cuStreamBeginCapture(default, stream, mode) }

    fn cudaStreamBeginCaptureToGraph, cudaStreamBeginCaptureToGraph_ptsz(stream: Handle, graph: Handle,
        before: *const Handle, edges: *const c_void, count: usize, mode: c_int) = with_context |driver, default| {
        driver.cuStreamBeginCaptureToGraph(default, stream, graph, before, edges, count, mode)
    }

    fn cudaStreamEndCapture, cudaStreamEndCapture_ptsz(stream: Handle, graph: *mut Handle)
        = with_context |driver, default| { driver.cuStreamEndCapture(default, stream, graph) }

    fn cudaStreamIsCapturing, cudaStreamIsCapturing_ptsz(stream: Handle, status: *mut c_int)
        = with_context |driver, default| { driver.cuStreamIsCapturing(default, stream, status) }

    fn cudaStreamGetCaptureInfo_v2, cudaStreamGetCaptureInfo_v2_ptsz(stream: Handle, status: *mut c_int, id: *mut u64,
        graph: *mut Handle, dependencies: *mut *const Handle, count: *mut usize) = with_context |driver, default| {
        driver.cuStreamGetCaptureInfo(default, stream, status, id, graph, dependencies, count)
    }
}
