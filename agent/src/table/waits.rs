//! Which functions wait, and which events order streams?

macro_rules! waits { ($next:ident $($before:tt)*) => { $next! { $($before)*
    // Waiting.
    driver "cuCtxSynchronize" { cuCtxSynchronize @ 2000 } () => plain(Sync::of(SyncScope::Context));
    driver "cuCtxSynchronize" { cuCtxSynchronize_v2 @ 13000 } (ctx: CUcontext)
        => plain(Sync::of_context(ctx));
    driver "cuStreamSynchronize" { cuStreamSynchronize @ 2000, cuStreamSynchronize_ptsz @ 7000 per_thread }
        (hStream: CUstream) => plain(Sync::of(SyncScope::Stream).on(hStream));
    driver "cuEventSynchronize" { cuEventSynchronize @ 2000 } (hEvent: CUevent)
        => plain(Sync::of(SyncScope::Event).event(hEvent));
    runtime "cudaDeviceSynchronize" { cudaDeviceSynchronize @ 0 } () => plain(Sync::of(SyncScope::Device));
    runtime "cudaStreamSynchronize" { cudaStreamSynchronize @ 0, cudaStreamSynchronize_ptsz @ 0 per_thread }
        (stream: cudaStream_t) => plain(Sync::of(SyncScope::Stream).on(stream));
    runtime "cudaEventSynchronize" { cudaEventSynchronize @ 0 } (event: cudaEvent_t)
        => plain(Sync::of(SyncScope::Event).event(event));
    runtime "cudaExecutionCtxSynchronize" { cudaExecutionCtxSynchronize @ 0 } (ctx: cudaExecutionContext_t)
        => plain(Sync::of(SyncScope::Context));
    runtime "cudaThreadSynchronize" { cudaThreadSynchronize @ 0 } () => plain(Sync::of(SyncScope::Device));

    // Queries: consecutive ones become one record.
    driver "cuEventQuery" { cuEventQuery @ 2000 } (hEvent: CUevent) => query(Query::Event(hEvent));
    driver "cuStreamQuery" { cuStreamQuery @ 2000, cuStreamQuery_ptsz @ 7000 per_thread } (hStream: CUstream)
        => query(Query::Stream(hStream));
    runtime "cudaEventQuery" { cudaEventQuery @ 0 } (event: cudaEvent_t) => query(Query::Event(event));
    runtime "cudaStreamQuery" { cudaStreamQuery @ 0, cudaStreamQuery_ptsz @ 0 per_thread } (stream: cudaStream_t)
        => query(Query::Stream(stream));

    // Events.
    driver "cuEventCreate" { cuEventCreate @ 2000 } (phEvent: *mut CUevent, Flags: unsigned_int)
        => plain(Host { subject: 0 });
    driver "cuEventDestroy" { cuEventDestroy @ 2000, cuEventDestroy_v2 @ 4000 } (hEvent: CUevent)
        => plain(ForgetEvent { event: hEvent });
    driver "cuEventRecord" { cuEventRecord @ 2000, cuEventRecord_ptsz @ 7000 per_thread }
        (hEvent: CUevent, hStream: CUstream) => plain(EventOp::record(hEvent, 0).on(hStream));
    driver "cuEventRecordWithFlags" { cuEventRecordWithFlags @ 11010, cuEventRecordWithFlags_ptsz @ 11010 per_thread }
        (hEvent: CUevent, hStream: CUstream, flags: unsigned_int)
        => plain(EventOp::record(hEvent, flags).on(hStream));
    driver "cuStreamWaitEvent" { cuStreamWaitEvent @ 3020, cuStreamWaitEvent_ptsz @ 7000 per_thread }
        (hStream: CUstream, hEvent: CUevent, Flags: unsigned_int)
        => plain(EventOp::wait(hEvent, Flags).on(hStream));
    runtime "cudaEventCreate" { cudaEventCreate @ 0 } (event: *mut cudaEvent_t) => plain(Host { subject: 0 });
    runtime "cudaEventCreateWithFlags" { cudaEventCreateWithFlags @ 0 }
        (event: *mut cudaEvent_t, flags: unsigned_int) => plain(Host { subject: 0 });
    runtime "cudaEventDestroy" { cudaEventDestroy @ 0 } (event: cudaEvent_t) => plain(Host { subject: event as u64 });
    runtime "cudaEventRecord" { cudaEventRecord @ 0, cudaEventRecord_ptsz @ 0 per_thread }
        (event: cudaEvent_t, stream: cudaStream_t) => plain(EventOp::record(event, 0).on(stream));
    runtime "cudaEventRecordWithFlags" { cudaEventRecordWithFlags @ 0, cudaEventRecordWithFlags_ptsz @ 0 per_thread }
        (event: cudaEvent_t, stream: cudaStream_t, flags: unsigned_int)
        => plain(EventOp::record(event, flags).on(stream));
    runtime "cudaStreamWaitEvent" { cudaStreamWaitEvent @ 0, cudaStreamWaitEvent_ptsz @ 0 per_thread }
        (stream: cudaStream_t, event: cudaEvent_t, flags: unsigned_int)
        => plain(EventOp::wait(event, flags).on(stream));

    // Events of whole contexts.
    driver "cuCtxRecordEvent" { cuCtxRecordEvent @ 12050 } (hCtx: CUcontext, hEvent: CUevent)
        => plain(ContextEvent::record(AllStreamsOf::Context(hCtx), hEvent));
    driver "cuCtxWaitEvent" { cuCtxWaitEvent @ 12050 } (hCtx: CUcontext, hEvent: CUevent)
        => plain(ContextEvent::wait(AllStreamsOf::Context(hCtx), hEvent));
    driver "cuGreenCtxRecordEvent" { cuGreenCtxRecordEvent @ 12040 } (hCtx: CUgreenCtx, hEvent: CUevent)
        => plain(ContextEvent::record(AllStreamsOf::Green(hCtx), hEvent));
    driver "cuGreenCtxWaitEvent" { cuGreenCtxWaitEvent @ 12040 } (hCtx: CUgreenCtx, hEvent: CUevent)
        => plain(ContextEvent::wait(AllStreamsOf::Green(hCtx), hEvent));
    runtime "cudaExecutionCtxRecordEvent" { cudaExecutionCtxRecordEvent @ 0 }
        (ctx: cudaExecutionContext_t, event: cudaEvent_t) => plain(Host { subject: event as u64 });
    runtime "cudaExecutionCtxWaitEvent" { cudaExecutionCtxWaitEvent @ 0 }
        (ctx: cudaExecutionContext_t, event: cudaEvent_t) => plain(Host { subject: event as u64 });
} } }
