//! Events.

use std::ffi::c_uint;

use crate::driver::{Handle, IpcHandle};

export! {
    fn cudaEventCreate(event: *mut Handle) = with_context |driver| {
        driver.cuEventCreate(event, 0)
    }

    fn cudaEventCreateWithFlags(event: *mut Handle, flags: c_uint) = with_context |driver| {
        driver.cuEventCreate(event, flags)
    }

    fn cudaEventDestroy(event: Handle) = with_context |driver| {
        driver.cuEventDestroy(event)
    }

    fn cudaEventQuery(event: Handle) = with_context |driver| {
        driver.cuEventQuery(event)
    }

    fn cudaEventSynchronize(event: Handle) = with_context |driver| {
        driver.cuEventSynchronize(event)
    }

    fn cudaIpcGetEventHandle(handle: *mut IpcHandle, event: Handle) = with_context |driver| {
        driver.cuIpcGetEventHandle(handle, event)
    }

    fn cudaIpcOpenEventHandle(event: *mut Handle, handle: IpcHandle) = with_context |driver| {
        driver.cuIpcOpenEventHandle(event, handle)
    }

    fn cudaEventElapsedTime(ms: *mut f32, start: Handle, end: Handle) = with_context |driver| {
        driver.cuEventElapsedTime(ms, start, end)
    }
}

export! {
    // Of CUDA 12.8; CUDA 13's plain function.
    fn cudaEventElapsedTime_v2(ms: *mut f32, start: Handle, end: Handle) = with_context |driver| {
        driver.cuEventElapsedTime(ms, start, end)
    }
}

export_on_stream! {
    fn cudaEventRecord, cudaEventRecord_ptsz(event: Handle, stream: Handle) = with_context |driver, default| {
        driver.cuEventRecord(default, event, stream)
    }

    fn cudaEventRecordWithFlags, cudaEventRecordWithFlags_ptsz(event: Handle, stream: Handle, flags: c_uint)
        = with_context |driver, default| { driver.cuEventRecordWithFlags(default, event, stream, flags) }
}
