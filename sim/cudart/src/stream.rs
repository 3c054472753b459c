//! Streams and stream capture.

use std::ffi::{c_int, c_uint, c_void};
use std::ptr::null_mut;

use crate::device::runtime_version;
use crate::driver::{DefaultStream, Driver, Handle};
use crate::error::Result;

/// Returns information about a capture, including the data of edges.
unsafe fn captured(
    driver: &Driver,
    default: DefaultStream,
    stream: Handle,
    status: *mut c_int,
    id: *mut u64,
    graph: *mut Handle,
    nodes: *mut *const Handle,
    edges: *mut *const u64,
    count: *mut usize,
) -> Result {
    // SAFETY: the caller passes places, or null, for the answers.
    unsafe { driver.cuStreamGetCaptureInfo_v2(default, stream, status, id, graph, nodes, edges, count) }
}

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

    // CUDA 12: stream, status, id; CUDA 13: as `_v3` of CUDA 12.
    fn cudaStreamGetCaptureInfo, cudaStreamGetCaptureInfo_ptsz(stream: Handle, status: *mut c_int, id: *mut u64,
        graph: *mut Handle, nodes: *mut *const Handle, edges: *mut *const u64, count: *mut usize)
        = with_context |driver, default| {
        if runtime_version() < 13000 {
            return driver.cuStreamGetCaptureInfo(default, stream, status, id, null_mut(), null_mut(), null_mut());
        }
        captured(driver, default, stream, status, id, graph, nodes, edges, count)
    }

    fn cudaStreamGetCaptureInfo_v3, cudaStreamGetCaptureInfo_v3_ptsz(stream: Handle, status: *mut c_int, id: *mut u64,
        graph: *mut Handle, nodes: *mut *const Handle, edges: *mut *const u64, count: *mut usize)
        = with_context |driver, default| {
        captured(driver, default, stream, status, id, graph, nodes, edges, count)
    }

    // CUDA 12: stream, nodes, count, flags; CUDA 13: as `_v2` of CUDA 12.
    fn cudaStreamUpdateCaptureDependencies, cudaStreamUpdateCaptureDependencies_ptsz(stream: Handle, nodes: *mut Handle,
        third: usize, fourth: usize, fifth: usize) = with_context |driver, default| {
        if runtime_version() < 13000 {
            return driver.cuStreamUpdateCaptureDependencies(default, stream, nodes, third, fourth as c_uint);
        }
        let edges = third as *const u64;
        driver.cuStreamUpdateCaptureDependencies_v2(default, stream, nodes, edges, fourth, fifth as c_uint)
    }

    fn cudaStreamUpdateCaptureDependencies_v2, cudaStreamUpdateCaptureDependencies_v2_ptsz(stream: Handle,
        nodes: *mut Handle, edges: *const u64, count: usize, flags: c_uint) = with_context |driver, default| {
        driver.cuStreamUpdateCaptureDependencies_v2(default, stream, nodes, edges, count, flags)
    }

    fn cudaStreamGetDevice, cudaStreamGetDevice_ptsz(stream: Handle, device: *mut c_int)
        = with_context |driver, default| { driver.cuStreamGetDevice(default, stream, device) }

    // Attributes are the same in both APIs.
    fn cudaStreamGetAttribute, cudaStreamGetAttribute_ptsz(stream: Handle, attribute: c_int, value: *mut c_void)
        = with_context |driver, default| { driver.cuStreamGetAttribute(default, stream, attribute, value) }

    fn cudaStreamSetAttribute, cudaStreamSetAttribute_ptsz(stream: Handle, attribute: c_int, value: *const c_void)
        = with_context |driver, default| { driver.cuStreamSetAttribute(default, stream, attribute, value) }

    fn cudaStreamCopyAttributes, cudaStreamCopyAttributes_ptsz(to: Handle, from: Handle)
        = with_context |driver, default| { driver.cuStreamCopyAttributes(default, to, from) }
}
