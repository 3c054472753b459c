//! Events.

use crate::call::Call;
use crate::clocks::elapsed_ms;
use crate::config::config;
use crate::engine::Done;
use crate::error::{INVALID_CONTEXT, INVALID_HANDLE, INVALID_VALUE, NOT_READY, Outcome};
use crate::export::exports;
use crate::fault;
use crate::graph::NodeWork;
use crate::handle::{Handle, stale};
use crate::interprocess::{ExportedEvent, Shared};
use crate::parameter::Out;
use crate::state::{self, Event, Guard, Recorded};
use crate::work::{Work, issue};
use crate::{effects, thread, truth};

exports! {
    cuEventCreate => create(event: Out<Handle>, flags: u32);
    cuEventRecord | cuEventRecord_ptsz => record(event: Handle, stream: Handle);
    cuEventRecordWithFlags | cuEventRecordWithFlags_ptsz => record_with_flags(event: Handle, stream: Handle, flags: u32);
    cuEventQuery => query(event: Handle);
    cuEventSynchronize => synchronize(event: Handle);
    cuEventDestroy | cuEventDestroy_v2 => destroy(event: Handle);
    cuIpcGetEventHandle => export(exported: Out<ExportedEvent>, event: Handle);
    cuIpcOpenEventHandle => open(event: Out<Handle>, exported: ExportedEvent);
    cuEventElapsedTime | cuEventElapsedTime_v2 => elapsed_time(milliseconds: Out<f32>, start: Handle, end: Handle);
}

/// `CU_EVENT_DISABLE_TIMING`.
pub const DISABLE_TIMING: u32 = 2;
/// `CU_EVENT_INTERPROCESS`.
pub const INTERPROCESS: u32 = 4;
/// `CU_EVENT_RECORD_EXTERNAL`.
pub const EXTERNAL: u32 = 1;

fn create(call: &mut Call, event: Out<Handle>, flags: u32) -> Outcome {
    // cuda.h: an interprocess event must have timing disabled.
    if flags > 7 || flags & (INTERPROCESS | DISABLE_TIMING) == INTERPROCESS {
        return Err(INVALID_VALUE);
    }
    let mut state = call.lock();
    let (context, made_in) = (state.current()?, state.current_itself()?);
    state.check_assumed_unsafe("event_create_in_capture")?;
    let shared = if flags & INTERPROCESS == 0 { None } else { Some(state.shared_events.create()?) };
    let handle = state.events.insert(Event { context, made_in, flags, recorded: Recorded::Never, shared });
    event.put(handle);
    Ok(())
}

fn record(call: &mut Call, event: Handle, stream: Handle) -> Outcome {
    record_with_flags(call, event, stream, 0)
}

fn record_with_flags(call: &mut Call, event: Handle, stream: Handle, flags: u32) -> Outcome {
    if flags > EXTERNAL {
        return Err(INVALID_VALUE);
    }
    let mut state = call.lock();
    // Before the stream, which may be gone as well: the driver may use the event first.
    if state.events.get(event).is_none() {
        return Err(stale(INVALID_HANDLE, event));
    }
    let stream = state.stream(call.api.per_thread, stream)?;
    let &Event { context, made_in, .. } =
        state.events.get(event).ok_or_else(|| stale(INVALID_HANDLE, event))?;
    let of = state.checked(stream).context;
    // cuda.h, cuEventRecord: "hEvent and hStream must be from the same context".
    let other = config().assume.is("green_events", "own") && made_in != of;
    if context != state.root(of) || other {
        return Err(INVALID_HANDLE);
    }
    state.check_legacy(stream)?;
    let captured = state.checked(stream).capture.is_some();
    if flags == EXTERNAL {
        if !captured {
            // cuda.h: outside a capture the flag is an error.
            return Err(INVALID_VALUE);
        }
        return state.capture_node(stream, NodeWork::One(Work::Record(event))).map(|_| ());
    }
    let id = state.checked(stream).id;
    let (mut state, done) = issue(call, state, stream, &Work::Record(event))?;
    if truth::wanted() {
        let clock = config().gpu_clock;
        let end = done.and_then(|done| done.end());
        let text = |time: Option<i64>| time.map_or("null".to_owned(), |time| time.to_string());
        let (at, gpu) = (text(end.map(|end| end as i64)), text(end.map(|end| clock.stamp(end))));
        let (tid, begin, seq) = (thread::tid(), call.begin, state.id());
        truth::line(format_args!(
            "\"kind\":\"event_record\",\"seq\":{seq},\"tid\":{tid},\"stream\":{id},\"event\":{event},\"begin\":{begin},\
             \"captured\":{captured},\"end\":{at},\"gpu_end\":{gpu}"
        ));
    }
    Ok(())
}

/// Returns the work of the event's last record, if there is one.
fn recorded(state: &mut Guard, event: Handle, unsafe_as: &str) -> Outcome<Option<Done>> {
    if config().assume.is("event_needs_context", "yes") {
        state.current()?;
    }
    state.events.get(event).ok_or_else(|| stale(INVALID_HANDLE, event))?;
    state.check_event(event)?;
    state.check_assumed_unsafe(unsafe_as)?;
    state.learn(event);
    match &state.events.get(event).ok_or_else(|| stale(INVALID_HANDLE, event))?.recorded {
        Recorded::Stream(done) => Ok(Some(done.clone())),
        // cuda.h, cuEventRecord: before the first record an event represents no work.
        _ => Ok(None),
    }
}

fn query(call: &mut Call, event: Handle) -> Outcome {
    let mut state = call.lock();
    let done = recorded(&mut state, event, "event_query_in_capture")?;
    state.check_works(state.events.get(event).map_or(0, |event| event.context))?;
    if done.is_some_and(|done| !done.by(state.now)) {
        return Err(NOT_READY);
    }
    drop(state);
    effects::drain();
    Ok(())
}

fn synchronize(call: &mut Call, event: Handle) -> Outcome {
    let mut state = call.lock();
    let done = recorded(&mut state, event, "sync_in_capture")?;
    let context = state.events.get(event).map_or(0, |event| event.context);
    drop(state);
    if let Some(done) = done {
        state::wait(&done);
    }
    fault::check(context)?;
    call.report_sync("event", 0, event);
    Ok(())
}

fn destroy(call: &mut Call, event: Handle) -> Outcome {
    let mut state = call.lock();
    state.current()?;
    // cuda.h: it may be destroyed before it is done; streams that wait for it continue to wait.
    state.events.remove(event).map(|_| ()).ok_or_else(|| stale(INVALID_HANDLE, event))
}

fn export(call: &mut Call, exported: Out<ExportedEvent>, event: Handle) -> Outcome {
    let state = call.lock();
    state.current()?;
    // cuda.h: the event must be an interprocess one; the error for others is an assumption.
    let shared = state.events.get(event).and_then(|event| event.shared.as_ref()).ok_or(INVALID_HANDLE)?;
    exported.put(shared.export()?);
    Ok(())
}

fn open(call: &mut Call, event: Out<Handle>, exported: ExportedEvent) -> Outcome {
    let mut state = call.lock();
    let (context, made_in) = (state.current()?, state.current_itself()?);
    let shared = Some(Shared::open(&exported)?);
    let flags = INTERPROCESS | DISABLE_TIMING;
    let handle = state.events.insert(Event { context, made_in, flags, recorded: Recorded::Never, shared });
    event.put(handle);
    Ok(())
}

fn elapsed_time(call: &mut Call, milliseconds: Out<f32>, start: Handle, end: Handle) -> Outcome {
    let mut state = call.lock();
    if config().assume.is("event_needs_context", "yes") {
        state.current()?;
    }
    let mut times = [0; 2];
    let mut contexts = [0; 2];
    for (index, event) in [start, end].into_iter().enumerate() {
        state.check_event(event)?;
        let event = state.events.get(event).ok_or_else(|| stale(INVALID_HANDLE, event))?;
        contexts[index] = event.context;
        // cuda.h, cuEventElapsedTime: INVALID_HANDLE without a record or without timing, NOT_READY before completion.
        let Recorded::Stream(done) = &event.recorded else { return Err(INVALID_HANDLE) };
        if event.flags & DISABLE_TIMING != 0 {
            return Err(INVALID_HANDLE);
        }
        times[index] =
            done.end().filter(|&end| end <= state.now).map_or(i64::MIN, |at| config().gpu_clock.stamp(at));
    }
    if contexts[0] != contexts[1] {
        // CUDA programming guide, "Stream and Event Behavior": fails for events of different devices.
        return Err(if state.contexts.get(contexts[0]).is_some() { INVALID_HANDLE } else { INVALID_CONTEXT });
    }
    if times.contains(&i64::MIN) {
        return Err(NOT_READY);
    }
    if times[1] < times[0] && config().assume.is("negative_elapsed", "refused") {
        return Err(INVALID_VALUE);
    }
    let multiplied = config().assume.is("elapsed", "multiplied");
    milliseconds.put(elapsed_ms(times[1] - times[0], multiplied));
    Ok(())
}
