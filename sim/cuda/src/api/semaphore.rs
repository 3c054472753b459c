//! Semaphores of other APIs. Those of this process are simulated: what one stream signals, others wait for.

use crate::call::Call;
use crate::error::{INVALID_HANDLE, INVALID_VALUE, NOT_SUPPORTED, Outcome};
use crate::export::exports;
use crate::handle::Handle;
use crate::imported::Semaphore;
use crate::parameter::{In, Out, Slice};
use crate::work::{Work, issue};
use crate::worker::Value;

exports! {
    cuImportExternalSemaphore => import(semaphore: Out<Handle>, descriptor: In<Descriptor>);
    cuDestroyExternalSemaphore => destroy(semaphore: Handle);
    cuSignalExternalSemaphoresAsync | cuSignalExternalSemaphoresAsync_ptsz => signal(semaphores[count]: Slice<Handle>, parameters[count]: Slice<Parameters>, count: u32, stream: Handle);
    cuWaitExternalSemaphoresAsync | cuWaitExternalSemaphoresAsync_ptsz => wait(semaphores[count]: Slice<Handle>, parameters[count]: Slice<Parameters>, count: u32, stream: Handle);
}

/// `CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC` of cuda.h.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Descriptor {
    kind: u32,
    /// The first of a union of handles, which is aligned as a pointer is.
    descriptor: u64,
    rest: u64,
    flags: u32,
    reserved: [u32; 16],
}

/// `CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS` and `_WAIT_PARAMS` of cuda.h, as far as fences go.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Parameters {
    fence: u64,
    others: [u64; 8],
    flags: u32,
    reserved: [u32; 16],
}

const _: () = assert!(size_of::<Descriptor>() == 96 && size_of::<Parameters>() == 144);

/// `CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD` and `_TIMELINE_SEMAPHORE_FD`.
const BINARY: u32 = 1;
const TIMELINE: u32 = 9;

fn import(call: &mut Call, semaphore: Out<Handle>, descriptor: In<Descriptor>) -> Outcome {
    let Descriptor { kind, descriptor, flags, .. } = *descriptor;
    if !matches!(kind, BINARY | TIMELINE) {
        return Err(NOT_SUPPORTED);
    }
    let mut state = call.lock();
    let context = state.current()?;
    // SAFETY: cuda.h: on success the descriptor becomes the driver's. Closing a number that is no descriptor fails.
    if flags != 0 || unsafe { libc::close(descriptor as i32) } != 0 {
        return Err(INVALID_VALUE);
    }
    let value = std::ptr::from_ref(Box::leak(Box::new(0u64))) as u64;
    let known = state.imports.semaphores.insert(Semaphore { value, timeline: kind == TIMELINE, context });
    semaphore.put(known);
    Ok(())
}

fn destroy(call: &mut Call, semaphore: Handle) -> Outcome {
    call.lock().imports.semaphores.remove(semaphore).map(|_| ()).ok_or(INVALID_HANDLE)
}

/// Enqueues the operations on each semaphore on a stream, all or none.
fn run(
    call: &Call,
    semaphores: Slice<Handle>,
    parameters: Slice<Parameters>,
    count: u32,
    stream: Handle,
    values: impl Fn(&Semaphore, u64) -> Vec<Value>,
) -> Outcome {
    if count == 0 {
        return Err(INVALID_VALUE);
    }
    let mut state = call.lock();
    let stream = state.stream(call.api.per_thread, stream)?;
    let mut all = Vec::new();
    for (&semaphore, &Parameters { fence, flags, .. }) in semaphores.iter().zip(parameters.iter()) {
        if flags != 0 {
            return Err(INVALID_VALUE);
        }
        all.extend(values(state.imports.semaphores.get(semaphore).ok_or(INVALID_HANDLE)?, fence));
    }
    if state.checked(stream).capture.is_some() {
        // Nodes of semaphores are not simulated.
        return Err(NOT_SUPPORTED);
    }
    for value in all {
        state = issue(call, state, stream, &Work::Value(value))?.0;
    }
    Ok(())
}

fn value(of: &Semaphore, value: u64, wait: Option<u32>) -> Value {
    Value { address: of.value, wide: true, value, wait }
}

fn signal(
    call: &mut Call,
    semaphores: Slice<Handle>,
    parameters: Slice<Parameters>,
    count: u32,
    stream: Handle,
) -> Outcome {
    let values = |of: &Semaphore, fence| vec![value(of, if of.timeline { fence } else { 1 }, None)];
    run(call, semaphores, parameters, count, stream, values)
}

fn wait(
    call: &mut Call,
    semaphores: Slice<Handle>,
    parameters: Slice<Parameters>,
    count: u32,
    stream: Handle,
) -> Outcome {
    /// `CU_STREAM_WAIT_VALUE_GEQ`, `_EQ`.
    const AT_LEAST: u32 = 0;
    const EQUAL: u32 = 1;
    let values = |of: &Semaphore, fence| {
        if of.timeline {
            vec![value(of, fence, Some(AT_LEAST))]
        } else {
            vec![value(of, 1, Some(EQUAL)), value(of, 0, None)]
        }
    };
    run(call, semaphores, parameters, count, stream, values)
}
