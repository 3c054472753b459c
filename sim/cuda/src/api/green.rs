//! Green contexts, and events of whole contexts.

use super::context::release_primary;
use super::device::{MULTIPROCESSORS, ordinal};
use crate::call::Call;
use crate::config::config;
use crate::engine::Length;
use crate::error::{
    CONTEXT_IS_DESTROYED, INVALID_CONTEXT, INVALID_HANDLE, INVALID_RESOURCE_TYPE, INVALID_VALUE, Outcome,
    STREAM_CAPTURE_UNSUPPORTED,
};
use crate::export::exports;
use crate::green::{self, Part};
use crate::handle::Handle;
use crate::parameter::{In, InOut, Maybe, Out, Rows, Slice};
use crate::state::{Recorded, State, StreamKind};
use crate::work::{Action, Job};
use crate::{thread, truth};

exports! {
    cuDeviceGetDevResource => of_device(device: i32, resource: Out<Resource>, kind: u32);
    cuCtxGetDevResource => of_context(context: Handle, resource: Out<Resource>, kind: u32);
    cuGreenCtxGetDevResource => of_green(green: Handle, resource: Out<Resource>, kind: u32);
    cuDevSmResourceSplitByCount => split(parts: Rows<Resource>, count: InOut<u32>, whole: In<Resource>, rest: Maybe<Resource>, flags: u32, least: u32);
    cuDevResourceGenerateDesc => describe(descriptor: Out<Handle>, parts[count]: Slice<Resource>, count: u32);
    cuGreenCtxCreate => create(green: Out<Handle>, descriptor: Handle, device: i32, flags: u32);
    cuGreenCtxDestroy => destroy(green: Handle);
    cuCtxFromGreenCtx => convert(context: Out<Handle>, green: Handle);
    cuGreenCtxGetId => get_id(green: Handle, id: Out<u64>);
    cuGreenCtxStreamCreate => new_stream(stream: Out<Handle>, green: Handle, flags: u32, priority: i32);
    cuStreamGetGreenCtx => of_stream(stream: Handle, green: Out<Handle>);
    cuGreenCtxRecordEvent => record_green(green: Handle, event: Handle);
    cuGreenCtxWaitEvent => wait_green(green: Handle, event: Handle);
    cuCtxRecordEvent => record(context: Handle, event: Handle);
    cuCtxWaitEvent => wait(context: Handle, event: Handle);
}

/// `CUdevResource` of cuda.h: the type, the fields that only the driver reads, and those that the application may read.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Resource {
    kind: u32,
    part: Part,
    hidden: [u32; 20],
    count: u32,
    /// minSmPartitionSize, smCoscheduledAlignment (CUDA 13).
    least: u32,
    alignment: u32,
    rest: [u32; 9],
}

const _: () = assert!(size_of::<Resource>() == 144 && std::mem::offset_of!(Resource, count) == 96);

impl Resource {
    fn of(part: Part) -> Self {
        // cuda.h: it has the invalid type if nothing is left.
        let kind = if part.count == 0 { 0 } else { green::MULTIPROCESSORS };
        let size = Part::size(0, 1);
        let (hidden, rest) = ([0; 20], [0; 9]);
        Self { kind, part, hidden, count: part.count, least: size, alignment: size, rest }
    }

    fn part(&self) -> Outcome<Part> {
        if self.kind == green::MULTIPROCESSORS { Ok(self.part) } else { Err(INVALID_RESOURCE_TYPE) }
    }
}

/// Only multiprocessors are simulated.
fn report(resource: Out<Resource>, kind: u32, part: Part) -> Outcome {
    if kind != green::MULTIPROCESSORS {
        return Err(INVALID_RESOURCE_TYPE);
    }
    resource.put(Resource::of(part));
    Ok(())
}

fn whole(device: u32) -> Part {
    Part { device, count: MULTIPROCESSORS as u32, split: 0 }
}

fn of_device(_: &mut Call, device: i32, resource: Out<Resource>, kind: u32) -> Outcome {
    report(resource, kind, whole(ordinal(device)?))
}

fn of_context(call: &mut Call, context: Handle, resource: Out<Resource>, kind: u32) -> Outcome {
    let state = call.lock();
    let device = state.context(context)?.device;
    let green = state.greens.get(state.green_of(context));
    // A green context's resource can be split again (cuda.h, cuDevSmResourceSplitByCount).
    let part = green.map_or(whole(device), |green| Part { split: 0, ..green.part });
    report(resource, kind, part)
}

fn of_green(call: &mut Call, green: Handle, resource: Out<Resource>, kind: u32) -> Outcome {
    let context = call.lock().context_of(green)?;
    of_context(call, context, resource, kind)
}

fn split(
    call: &mut Call,
    parts: Rows<Resource>,
    count: InOut<u32>,
    whole: In<Resource>,
    rest: Maybe<Resource>,
    flags: u32,
    least: u32,
) -> Outcome {
    let whole = whole.part()?;
    let most = if parts.is_none() { u32::MAX } else { count.get() };
    let (made, left) = whole.divide(flags, least, most, call.lock().id() as u32)?;
    for (index, part) in made.iter().enumerate().filter(|_| !parts.is_none()) {
        // SAFETY: cuda.h's promise: room for `*count`, and there are no more.
        unsafe { parts.put(index, Resource::of(*part)) };
    }
    rest.put(Resource::of(left));
    count.put(made.len() as u32);
    Ok(())
}

fn describe(call: &mut Call, descriptor: Out<Handle>, parts: Slice<Resource>, count: u32) -> Outcome {
    if count == 0 {
        return Err(INVALID_VALUE);
    }
    let parts = parts.iter().map(Resource::part).collect::<Outcome<Vec<Part>>>()?;
    let known = call.lock().resources.insert(Part::join(&parts)?);
    descriptor.put(known);
    Ok(())
}

fn create(call: &mut Call, green: Out<Handle>, descriptor: Handle, device: i32, flags: u32) -> Outcome {
    const DEFAULT_STREAM: u32 = 1;
    let device = ordinal(device)?;
    // cuda.h: the flag is required in CUDA 12, and not in CUDA 13.
    let allowed = flags == DEFAULT_STREAM || (flags == 0 && config().driver_version >= 13000);
    let mut state = call.lock();
    let part = *state.resources.get(descriptor).ok_or(INVALID_VALUE)?;
    if !allowed || part.device != device {
        return Err(INVALID_VALUE);
    }
    let root = state.retain_primary(device)?;
    let known = state.new_green(root, part)?;
    green.put(known);
    Ok(())
}

impl State {
    /// Returns a green context's context.
    fn context_of(&self, green: Handle) -> Outcome<Handle> {
        match self.greens.get(green).ok_or(INVALID_CONTEXT)?.context {
            0 => Err(CONTEXT_IS_DESTROYED),
            context => Ok(context),
        }
    }
}

fn destroy(call: &mut Call, green: Handle) -> Outcome {
    let mut state = call.lock();
    let device = state.greens.get(green).ok_or(INVALID_CONTEXT)?.part.device;
    state.end_green(green)?;
    state.greens.remove(green);
    release_primary(call, state, device)
}

fn convert(call: &mut Call, context: Out<Handle>, green: Handle) -> Outcome {
    let known = call.lock().context_of(green)?;
    context.put(known);
    Ok(())
}

fn get_id(call: &mut Call, green: Handle, id: Out<u64>) -> Outcome {
    let state = call.lock();
    let known = state.context(state.context_of(green)?)?.id;
    id.put(u64::from(known));
    Ok(())
}

fn new_stream(call: &mut Call, stream: Out<Handle>, green: Handle, flags: u32, priority: i32) -> Outcome {
    // cuda.h: CU_STREAM_NON_BLOCKING must be specified.
    if flags != 1 {
        return Err(INVALID_VALUE);
    }
    let mut state = call.lock();
    let context = state.context_of(green)?;
    state.check_assumed_unsafe("event_create_in_capture")?;
    let priority = priority.clamp(super::context::GREATEST_PRIORITY, 0);
    let known = state.new_stream(context, StreamKind::Created, flags, priority)?;
    stream.put(known);
    Ok(())
}

fn of_stream(call: &mut Call, stream: Handle, green: Out<Handle>) -> Outcome {
    let mut state = call.lock();
    let stream = state.stream(call.api.per_thread, stream)?;
    let context = state.checked(stream).context;
    green.put(state.green_of(context));
    Ok(())
}

fn record_green(call: &mut Call, green: Handle, event: Handle) -> Outcome {
    let context = call.lock().context_of(green)?;
    record(call, context, event)
}

fn wait_green(call: &mut Call, green: Handle, event: Handle) -> Outcome {
    let context = call.lock().context_of(green)?;
    wait(call, context, event)
}

fn record(call: &mut Call, context: Handle, event: Handle) -> Outcome {
    let mut state = call.lock();
    let device = state.context(context)?.device;
    // cuda.h, cuCtxRecordEvent, cuGreenCtxRecordEvent: the event must have the same primary context.
    let of = state.events.get(event).ok_or(INVALID_HANDLE)?.context;
    if of != state.root(context) {
        return Err(INVALID_HANDLE);
    }
    state.check_context(context)?;
    let before = state.context_work(context);
    let done =
        state.add(&before, Length::Fixed(config().event_ns), None, Job { action: Action::None, truth: None });
    state.fire(event, Recorded::Stream(done));
    report_event("record", call, &state, context, event, device);
    Ok(())
}

fn wait(call: &mut Call, context: Handle, event: Handle) -> Outcome {
    let mut state = call.lock();
    let device = state.context(context)?.device;
    let recorded = state.events.get(event).ok_or(INVALID_HANDLE)?.recorded.clone();
    state.check_context(context)?;
    let done = match recorded {
        Recorded::Never => return Ok(()),
        Recorded::Stream(done) => done,
        Recorded::Capture { capture, .. } => {
            state.invalidate(&[capture]);
            return Err(STREAM_CAPTURE_UNSUPPORTED);
        }
    };
    // cuda.h, cuCtxWaitEvent: a primary context's green contexts also wait.
    let waits = |of: Handle, root: Handle| of == context || root == context;
    let all: Vec<Handle> =
        state.contexts.iter().filter(|(of, its)| waits(*of, its.root)).map(|(of, _)| of).collect();
    for context in all {
        state.live(context)?.waits.push(done.clone());
    }
    report_event("wait", call, &state, context, event, device);
    Ok(())
}

fn report_event(what: &str, call: &Call, state: &State, context: Handle, event: Handle, device: u32) {
    let (number, green, tid, begin) =
        (state.number(context), state.green_of(context), thread::tid(), call.begin);
    truth::line(format_args!(
        "\"kind\":\"context_{what}\",\"tid\":{tid},\"context\":{number},\"green\":{green},\"device\":{device},\
         \"event\":{event},\"begin\":{begin}"
    ));
}
