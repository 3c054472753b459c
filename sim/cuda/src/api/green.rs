//! Green contexts, and events of whole contexts.

use super::context::release_primary;
use super::device::{MULTIPROCESSORS, ordinal};
use super::put;
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
use crate::state::{Recorded, State, StreamKind};
use crate::work::{Action, Job};
use crate::{thread, truth};

exports! {
    cuDeviceGetDevResource => of_device(device: i32, resource: *mut Resource, kind: u32);
    cuCtxGetDevResource => of_context(context: Handle, resource: *mut Resource, kind: u32);
    cuGreenCtxGetDevResource => of_green(green: Handle, resource: *mut Resource, kind: u32);
    cuDevSmResourceSplitByCount => split(parts: *mut Resource, count: *mut u32, whole: *const Resource, rest: *mut Resource, flags: u32, least: u32);
    cuDevResourceGenerateDesc => describe(descriptor: *mut Handle, parts: *const Resource, count: u32);
    cuGreenCtxCreate => create(green: *mut Handle, descriptor: Handle, device: i32, flags: u32);
    cuGreenCtxDestroy => destroy(green: Handle);
    cuCtxFromGreenCtx => convert(context: *mut Handle, green: Handle);
    cuGreenCtxGetId => get_id(green: Handle, id: *mut u64);
    cuGreenCtxStreamCreate => new_stream(stream: *mut Handle, green: Handle, flags: u32, priority: i32);
    cuStreamGetGreenCtx => of_stream(stream: Handle, green: *mut Handle);
    cuGreenCtxRecordEvent => record_green(green: Handle, event: Handle);
    cuGreenCtxWaitEvent => wait_green(green: Handle, event: Handle);
    cuCtxRecordEvent => record(context: Handle, event: Handle);
    cuCtxWaitEvent => wait(context: Handle, event: Handle);
}

/// `CUdevResource` of cuda.h: the kind, what only the driver reads, and what the application may.
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
        // cuda.h: of the invalid kind where nothing is left.
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
unsafe fn tell(resource: *mut Resource, kind: u32, part: Part) -> Outcome {
    if kind != green::MULTIPROCESSORS {
        return Err(INVALID_RESOURCE_TYPE);
    }
    // SAFETY: the caller's.
    unsafe { put(resource, Resource::of(part)) }
}

fn whole(device: u32) -> Part {
    Part { device, count: MULTIPROCESSORS as u32, split: 0 }
}

unsafe fn of_device(_: &mut Call, device: i32, resource: *mut Resource, kind: u32) -> Outcome {
    // SAFETY: cuda.h's promise.
    unsafe { tell(resource, kind, whole(ordinal(device)?)) }
}

unsafe fn of_context(call: &mut Call, context: Handle, resource: *mut Resource, kind: u32) -> Outcome {
    let state = call.lock();
    let device = state.context(context)?.device;
    let green = state.greens.get(state.green_of(context));
    // What a green context has can be split again (cuda.h, cuDevSmResourceSplitByCount).
    let part = green.map_or(whole(device), |green| Part { split: 0, ..green.part });
    // SAFETY: cuda.h's promise.
    unsafe { tell(resource, kind, part) }
}

unsafe fn of_green(call: &mut Call, green: Handle, resource: *mut Resource, kind: u32) -> Outcome {
    let context = call.lock().context_of(green)?;
    // SAFETY: cuda.h's promise.
    unsafe { of_context(call, context, resource, kind) }
}

unsafe fn split(
    call: &mut Call,
    parts: *mut Resource,
    count: *mut u32,
    whole: *const Resource,
    rest: *mut Resource,
    flags: u32,
    least: u32,
) -> Outcome {
    // SAFETY: cuda.h's promise: NULL or valid.
    let (whole, wanted) = unsafe { (whole.as_ref(), count.as_ref()) };
    let (whole, wanted) = (whole.ok_or(INVALID_VALUE)?.part()?, *wanted.ok_or(INVALID_VALUE)?);
    let most = if parts.is_null() { u32::MAX } else { wanted };
    let (made, left) = whole.divide(flags, least, most, call.lock().id() as u32)?;
    for (index, part) in made.iter().enumerate().filter(|_| !parts.is_null()) {
        // SAFETY: cuda.h's promise: room for `*count`, and there are no more.
        unsafe { parts.add(index).write(Resource::of(*part)) };
    }
    // SAFETY: cuda.h's promise; the rest need not be wanted.
    unsafe {
        super::offer(rest, Resource::of(left));
        put(count, made.len() as u32)
    }
}

unsafe fn describe(call: &mut Call, descriptor: *mut Handle, parts: *const Resource, count: u32) -> Outcome {
    if parts.is_null() || count == 0 {
        return Err(INVALID_VALUE);
    }
    // SAFETY: cuda.h's promise: `count` resources.
    let parts = unsafe { std::slice::from_raw_parts(parts, count as usize) };
    let parts = parts.iter().map(Resource::part).collect::<Outcome<Vec<Part>>>()?;
    let known = call.lock().resources.insert(Part::join(&parts)?);
    // SAFETY: cuda.h's promise.
    unsafe { put(descriptor, known) }
}

unsafe fn create(
    call: &mut Call,
    green: *mut Handle,
    descriptor: Handle,
    device: i32,
    flags: u32,
) -> Outcome {
    const DEFAULT_STREAM: u32 = 1;
    let device = ordinal(device)?;
    // cuda.h of CUDA 12: the flag is required; of CUDA 13: it is not.
    let allowed = flags == DEFAULT_STREAM || (flags == 0 && config().driver_version >= 13000);
    let mut state = call.lock();
    let part = *state.resources.get(descriptor).ok_or(INVALID_VALUE)?;
    if green.is_null() || !allowed || part.device != device {
        return Err(INVALID_VALUE);
    }
    let root = state.retain_primary(device)?;
    let known = state.new_green(root, part)?;
    // SAFETY: cuda.h's promise; not NULL.
    unsafe { put(green, known) }
}

impl State {
    /// A green context's context.
    fn context_of(&self, green: Handle) -> Outcome<Handle> {
        match self.greens.get(green).ok_or(INVALID_CONTEXT)?.context {
            0 => Err(CONTEXT_IS_DESTROYED),
            context => Ok(context),
        }
    }
}

unsafe fn destroy(call: &mut Call, green: Handle) -> Outcome {
    let mut state = call.lock();
    let device = state.greens.get(green).ok_or(INVALID_CONTEXT)?.part.device;
    state.end_green(green)?;
    state.greens.remove(green);
    release_primary(call, state, device)
}

unsafe fn convert(call: &mut Call, context: *mut Handle, green: Handle) -> Outcome {
    let known = call.lock().context_of(green)?;
    // SAFETY: cuda.h's promise.
    unsafe { put(context, known) }
}

unsafe fn get_id(call: &mut Call, green: Handle, id: *mut u64) -> Outcome {
    let state = call.lock();
    let known = state.context(state.context_of(green)?)?.id;
    // SAFETY: cuda.h's promise.
    unsafe { put(id, u64::from(known)) }
}

unsafe fn new_stream(
    call: &mut Call,
    stream: *mut Handle,
    green: Handle,
    flags: u32,
    priority: i32,
) -> Outcome {
    // cuda.h: CU_STREAM_NON_BLOCKING must be specified.
    if stream.is_null() || flags != 1 {
        return Err(INVALID_VALUE);
    }
    let mut state = call.lock();
    let context = state.context_of(green)?;
    state.check_assumed_unsafe("event_create_in_capture")?;
    let priority = priority.clamp(super::context::GREATEST_PRIORITY, 0);
    let known = state.new_stream(context, StreamKind::Created, flags, priority)?;
    // SAFETY: cuda.h's promise.
    unsafe { put(stream, known) }
}

unsafe fn of_stream(call: &mut Call, stream: Handle, green: *mut Handle) -> Outcome {
    let mut state = call.lock();
    let stream = state.stream(call.api.per_thread, stream)?;
    let context = state.checked(stream).context;
    // SAFETY: cuda.h's promise.
    unsafe { put(green, state.green_of(context)) }
}

unsafe fn record_green(call: &mut Call, green: Handle, event: Handle) -> Outcome {
    let context = call.lock().context_of(green)?;
    // SAFETY: nothing is asked for.
    unsafe { record(call, context, event) }
}

unsafe fn wait_green(call: &mut Call, green: Handle, event: Handle) -> Outcome {
    let context = call.lock().context_of(green)?;
    // SAFETY: nothing is asked for.
    unsafe { wait(call, context, event) }
}

unsafe fn record(call: &mut Call, context: Handle, event: Handle) -> Outcome {
    let mut state = call.lock();
    let device = state.context(context)?.device;
    // cuda.h, cuCtxRecordEvent, cuGreenCtxRecordEvent: of the same primary context.
    let of = state.events.get(event).ok_or(INVALID_HANDLE)?.context;
    if of != state.root(context) {
        return Err(INVALID_HANDLE);
    }
    state.check_context(context)?;
    let before = state.context_work(context);
    let done =
        state.add(&before, Length::Fixed(config().event_ns), None, Job { action: Action::None, truth: None });
    state.fire(event, Recorded::Stream(done));
    tell_event("record", call, &state, context, event, device);
    Ok(())
}

unsafe fn wait(call: &mut Call, context: Handle, event: Handle) -> Outcome {
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
    // cuda.h, cuCtxWaitEvent: a primary context's green contexts wait, too.
    let waits = |of: Handle, root: Handle| of == context || root == context;
    let all: Vec<Handle> =
        state.contexts.iter().filter(|(of, its)| waits(*of, its.root)).map(|(of, _)| of).collect();
    for context in all {
        state.live(context)?.waits.push(done.clone());
    }
    tell_event("wait", call, &state, context, event, device);
    Ok(())
}

fn tell_event(what: &str, call: &Call, state: &State, context: Handle, event: Handle, device: u32) {
    let (number, green, tid, begin) =
        (state.number(context), state.green_of(context), thread::tid(), call.begin);
    truth::line(format_args!(
        "\"kind\":\"context_{what}\",\"tid\":{tid},\"context\":{number},\"green\":{green},\"device\":{device},\
         \"event\":{event},\"begin\":{begin}"
    ));
}
