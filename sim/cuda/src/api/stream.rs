//! Streams, and values in memory that they wait for and write.

use super::context::GREATEST_PRIORITY;
use crate::call::Call;
use crate::config::config;
use crate::error::{INVALID_HANDLE, INVALID_VALUE, NOT_READY, NOT_SUPPORTED, Outcome};
use crate::export::exports;
use crate::fault;
use crate::handle::{Handle, stale};
use crate::parameter::{In, Out, Slice};
use crate::state::{self, Orphan, Stream, StreamKind};
use crate::truth;
use crate::work::{Work, issue};
use crate::worker::Value;

exports! {
    cuStreamCreate => create(stream: Out<Handle>, flags: u32);
    cuStreamCreateWithPriority => create_with_priority(stream: Out<Handle>, flags: u32, priority: i32);
    cuStreamDestroy | cuStreamDestroy_v2 => destroy(stream: Handle);
    cuStreamQuery | cuStreamQuery_ptsz => query(stream: Handle);
    cuStreamSynchronize | cuStreamSynchronize_ptsz => synchronize(stream: Handle);
    cuStreamGetFlags | cuStreamGetFlags_ptsz => get_flags(stream: Handle, flags: Out<u32>);
    cuStreamGetPriority | cuStreamGetPriority_ptsz => get_priority(stream: Handle, priority: Out<i32>);
    cuStreamGetId | cuStreamGetId_ptsz => get_id(stream: Handle, id: Out<u64>);
    cuStreamGetCtx | cuStreamGetCtx_ptsz => get_context(stream: Handle, context: Out<Handle>);
    cuStreamGetCtx_v2 | cuStreamGetCtx_v2_ptsz => get_context_v2(stream: Handle, context: Out<Handle>, green: Out<Handle>);
    cuStreamGetDevice | cuStreamGetDevice_ptsz => get_device(stream: Handle, device: Out<i32>);
    cuStreamWaitEvent | cuStreamWaitEvent_ptsz => wait_event(stream: Handle, event: Handle, flags: u32);
    cuStreamGetAttribute | cuStreamGetAttribute_ptsz => get_attribute(stream: Handle, attribute: u32, value: Out<[u64; 8]>);
    cuStreamSetAttribute | cuStreamSetAttribute_ptsz => set_attribute(stream: Handle, attribute: u32, value: In<[u64; 8]>);
    cuStreamCopyAttributes | cuStreamCopyAttributes_ptsz => copy_attributes(to: Handle, from: Handle);
    cuStreamWaitValue32 | cuStreamWaitValue32_ptsz | cuStreamWaitValue32_v2 | cuStreamWaitValue32_v2_ptsz => wait_value_32(stream: Handle, address: u64, value: u32, flags: u32);
    cuStreamWaitValue64 | cuStreamWaitValue64_ptsz | cuStreamWaitValue64_v2 | cuStreamWaitValue64_v2_ptsz => wait_value_64(stream: Handle, address: u64, value: u64, flags: u32);
    cuStreamWriteValue32 | cuStreamWriteValue32_ptsz | cuStreamWriteValue32_v2 | cuStreamWriteValue32_v2_ptsz => write_value_32(stream: Handle, address: u64, value: u32, flags: u32);
    cuStreamWriteValue64 | cuStreamWriteValue64_ptsz | cuStreamWriteValue64_v2 | cuStreamWriteValue64_v2_ptsz => write_value_64(stream: Handle, address: u64, value: u64, flags: u32);
    cuStreamBatchMemOp | cuStreamBatchMemOp_ptsz | cuStreamBatchMemOp_v2 | cuStreamBatchMemOp_v2_ptsz => batch_memory_operations(stream: Handle, count: u32, operations[count]: Slice<MemoryOperation>, flags: u32);
}

fn create(call: &mut Call, stream: Out<Handle>, flags: u32) -> Outcome {
    create_with_priority(call, stream, flags, 0)
}

fn create_with_priority(call: &mut Call, stream: Out<Handle>, flags: u32, priority: i32) -> Outcome {
    if flags > 1 {
        return Err(INVALID_VALUE);
    }
    let mut state = call.lock();
    let context = state.current_itself()?;
    state.check_assumed_unsafe("event_create_in_capture")?;
    // cuda.h: a priority outside the range is clamped to it.
    let priority = priority.clamp(GREATEST_PRIORITY, 0);
    let handle = state.new_stream(context, StreamKind::Created, flags, priority)?;
    stream.put(handle);
    Ok(())
}

fn destroy(call: &mut Call, stream: Handle) -> Outcome {
    let mut state = call.lock();
    state.current()?;
    let of = state.streams.get(stream).filter(|of| of.kind == StreamKind::Created).ok_or(INVALID_HANDLE)?;
    let (id, owner, capture) = (of.id, of.context, of.capture);
    if let Some(capture) = capture
        && let Some(capture) = state.captures.get_mut(&capture)
    {
        // A capture whose stream is destroyed can no longer be ended.
        capture.invalid = true;
        capture.tips.remove(&stream);
    }
    let (green, number) = (state.green_of(owner), state.number(owner));
    // cuda.h: the call returns at once; work still on the stream runs to its end.
    let now = state.now;
    let of = state.streams.remove(stream).ok_or(INVALID_HANDLE)?;
    let context = state.live(owner)?;
    context.streams.remove(&stream);
    context.dirty.retain(|&dirty| dirty != stream);
    context.orphans.retain(|orphan| !orphan.tail.by(now));
    context.orphans.push(Orphan { tail: of.tail.clone(), blocking: of.blocking() });
    truth::line(format_args!(
        "\"kind\":\"stream\",\"stream\":{id},\"stream_handle\":{stream},\"context\":{number},\"green\":{green},\"flags\":{},\
         \"priority\":{},\"default\":false,\"destroyed\":true",
        of.flags, of.priority
    ));
    Ok(())
}

fn query(call: &mut Call, stream: Handle) -> Outcome {
    let mut state = call.lock();
    let stream = state.stream(call.api.per_thread, stream)?;
    state.check_legacy(stream)?;
    state.check_not_captured(stream)?;
    state.check_assumed_unsafe("stream_query_in_capture")?;
    let context = state.checked(stream).context;
    state.check_works(context)?;
    let now = state.now;
    let done = state.stream_work(stream).iter().all(|done| done.by(now));
    drop(state);
    if !done {
        return Err(NOT_READY);
    }
    crate::effects::drain();
    Ok(())
}

fn synchronize(call: &mut Call, stream: Handle) -> Outcome {
    let mut state = call.lock();
    let stream = state.stream(call.api.per_thread, stream)?;
    state.check_legacy(stream)?;
    state.check_not_captured(stream)?;
    state.check_assumed_unsafe("sync_in_capture")?;
    let Stream { id, context, .. } = *state.checked(stream);
    let work = state.stream_work(stream);
    drop(state);
    state::wait_all(&work);
    fault::check(context)?;
    call.report_sync("stream", id, 0);
    Ok(())
}

fn get_flags(call: &mut Call, stream: Handle, flags: Out<u32>) -> Outcome {
    let mut state = call.lock();
    let stream = state.stream(call.api.per_thread, stream)?;
    state.check_question(stream)?;
    let known = state.checked(stream).flags;
    flags.put(known);
    Ok(())
}

fn get_priority(call: &mut Call, stream: Handle, priority: Out<i32>) -> Outcome {
    let mut state = call.lock();
    let stream = state.stream(call.api.per_thread, stream)?;
    state.check_question(stream)?;
    let known = state.checked(stream).priority;
    priority.put(known);
    Ok(())
}

fn get_id(call: &mut Call, stream: Handle, id: Out<u64>) -> Outcome {
    let mut state = call.lock();
    let stream = state.stream(call.api.per_thread, stream)?;
    state.check_question(stream)?;
    let known = state.checked(stream).id;
    id.put(known);
    Ok(())
}

fn get_context(call: &mut Call, stream: Handle, context: Out<Handle>) -> Outcome {
    let mut state = call.lock();
    let stream = state.stream(call.api.per_thread, stream)?;
    state.check_question(stream)?;
    let Stream { context: known, kind, .. } = *state.checked(stream);
    // cuda.h of CUDA 12, cuStreamGetCtx: not for streams of cuGreenCtxStreamCreate (the simulator does not distinguish
    // them from a green context's other streams). CUDA 13 returns the context of cuCtxFromGreenCtx.
    let is_green = state.root(known) != known && kind == StreamKind::Created;
    if is_green && config().driver_version < 13000 {
        return Err(NOT_SUPPORTED);
    }
    context.put(known);
    Ok(())
}

fn get_context_v2(call: &mut Call, stream: Handle, context: Out<Handle>, green: Out<Handle>) -> Outcome {
    let mut state = call.lock();
    let stream = state.stream(call.api.per_thread, stream)?;
    state.check_question(stream)?;
    let known = state.checked(stream).context;
    green.put(state.green_of(known));
    context.put(state.root(known));
    Ok(())
}

fn get_device(call: &mut Call, stream: Handle, device: Out<i32>) -> Outcome {
    let mut state = call.lock();
    let stream = state.stream(call.api.per_thread, stream)?;
    state.check_question(stream)?;
    let context = state.checked(stream).context;
    let known = state.context(context)?.device;
    device.put(known as i32);
    Ok(())
}

fn wait_event(call: &mut Call, stream: Handle, event: Handle, flags: u32) -> Outcome {
    if flags > 1 {
        return Err(INVALID_VALUE);
    }
    let mut state = call.lock();
    let stream = state.stream(call.api.per_thread, stream)?;
    // CUDA programming guide, "Stream and Event Behavior": the event may be of another context.
    state.events.get(event).ok_or_else(|| stale(INVALID_HANDLE, event))?;
    if state.checked(stream).capture.is_none() && state.join_capture(stream, event)? {
        return Ok(());
    }
    truth::line(format_args!(
        "\"kind\":\"event_wait\",\"tid\":{},\"stream\":{},\"event\":{event},\"begin\":{}",
        crate::thread::tid(),
        state.checked(stream).id,
        call.begin
    ));
    issue(call, state, stream, &Work::Wait(event)).map(|_| ())
}

/// `CUstreamAttrID`: the launch attributes that are valid for streams, by what cuda.h says of each.
const SYNCHRONIZATION_POLICY: u32 = 3;
const PRIORITY: u32 = 8;
const DOMAIN_MAP: u32 = 9;
const DOMAIN: u32 = 10;
const OF_STREAMS: [u32; 6] = [1, SYNCHRONIZATION_POLICY, PRIORITY, DOMAIN_MAP, DOMAIN, 16];

fn get_attribute(call: &mut Call, stream: Handle, attribute: u32, value: Out<[u64; 8]>) -> Outcome {
    let mut state = call.lock();
    let stream = state.stream(call.api.per_thread, stream)?;
    if !OF_STREAMS.contains(&attribute) {
        return Err(INVALID_VALUE);
    }
    let of = state.checked(stream);
    let initial = match attribute {
        SYNCHRONIZATION_POLICY => 1, // CU_SYNC_POLICY_AUTO
        PRIORITY => u64::from(of.priority as u32),
        DOMAIN_MAP => 0x100, // two bytes: the default domain 0, the remote one 1
        _ => 0,
    };
    let known = of.attributes.get(&attribute).copied().unwrap_or([initial, 0, 0, 0, 0, 0, 0, 0]);
    // A CUstreamAttrValue is 64 bytes.
    value.put(known);
    Ok(())
}

fn set_attribute(call: &mut Call, stream: Handle, attribute: u32, value: In<[u64; 8]>) -> Outcome {
    let mut state = call.lock();
    let stream = state.stream(call.api.per_thread, stream)?;
    let mut value = *value;
    let first = value[0] as u32;
    let right = match attribute {
        SYNCHRONIZATION_POLICY => (1..=4).contains(&first),
        DOMAIN => first <= 1,
        _ => OF_STREAMS.contains(&attribute),
    };
    if !right {
        return Err(INVALID_VALUE);
    }
    let of = state.checked(stream);
    if attribute == PRIORITY {
        // It is clamped to the range, as at the creation of a stream.
        of.priority = (first as i32).clamp(GREATEST_PRIORITY, 0);
        value[0] = u64::from(of.priority as u32);
    }
    of.attributes.insert(attribute, value);
    Ok(())
}

/// cuda.h: both streams are of the same context.
fn copy_attributes(call: &mut Call, to: Handle, from: Handle) -> Outcome {
    let mut state = call.lock();
    let to = state.stream(call.api.per_thread, to)?;
    let from = state.stream(call.api.per_thread, from)?;
    let Stream { context, ref attributes, priority, .. } = *state.checked(from);
    let attributes = attributes.clone();
    let of = state.checked(to);
    if of.context != context {
        return Err(INVALID_VALUE);
    }
    (of.attributes, of.priority) = (attributes, priority);
    Ok(())
}

/// `CUstreamBatchMemOpParams` of cuda.h: the fields that all operations share; 48 bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct MemoryOperation {
    operation: u32,
    address: u64,
    value: u64,
    flags: u32,
    rest: [u64; 2],
}

const _: () = assert!(size_of::<MemoryOperation>() == 48);

fn values(call: &mut Call, stream: Handle, values: &[Value]) -> Outcome {
    let mut state = call.lock();
    let stream = state.stream(call.api.per_thread, stream)?;
    for value in values {
        let bytes = if value.wide { 8 } else { 4 };
        if !value.address.is_multiple_of(bytes) || !state.memory.covers(value.address, bytes) {
            return Err(INVALID_VALUE);
        }
    }
    for value in values {
        state = issue(call, state, stream, &Work::Value(*value))?.0;
    }
    Ok(())
}

fn wait_value_32(call: &mut Call, stream: Handle, address: u64, value: u32, flags: u32) -> Outcome {
    values(call, stream, &[Value { address, wide: false, value: u64::from(value), wait: Some(flags) }])
}

fn wait_value_64(call: &mut Call, stream: Handle, address: u64, value: u64, flags: u32) -> Outcome {
    values(call, stream, &[Value { address, wide: true, value, wait: Some(flags) }])
}

fn write_value_32(call: &mut Call, stream: Handle, address: u64, value: u32, _: u32) -> Outcome {
    values(call, stream, &[Value { address, wide: false, value: u64::from(value), wait: None }])
}

fn write_value_64(call: &mut Call, stream: Handle, address: u64, value: u64, _: u32) -> Outcome {
    values(call, stream, &[Value { address, wide: true, value, wait: None }])
}

fn batch_memory_operations(
    call: &mut Call,
    stream: Handle,
    count: u32,
    operations: Slice<MemoryOperation>,
    flags: u32,
) -> Outcome {
    // cuda.h, cuStreamBatchMemOp: at most 256 operations.
    if flags != 0 || count > 256 {
        return Err(INVALID_VALUE);
    }
    let mut all = Vec::new();
    for &MemoryOperation { operation, address, value, flags, .. } in operations.iter() {
        let narrow = value & u64::from(u32::MAX);
        // CUstreamBatchMemOpType; 3 and 6 are barriers, which order alone satisfies.
        all.push(match operation {
            1 => Value { address, wide: false, value: narrow, wait: Some(flags) },
            2 => Value { address, wide: false, value: narrow, wait: None },
            4 => Value { address, wide: true, value, wait: Some(flags) },
            5 => Value { address, wide: true, value, wait: None },
            3 | 6 => continue,
            _ => return Err(INVALID_VALUE),
        });
    }
    values(call, stream, &all)
}
