//! Execution control: kernels and host functions.

use super::device::MULTIPROCESSORS;
use super::event::{DISABLE_TIMING, EXTERNAL, INTERPROCESS};
use crate::call::Call;
use crate::config::config;
use crate::error::{
    COOPERATIVE_LAUNCH_TOO_LARGE, INVALID_CONTEXT, INVALID_HANDLE, INVALID_VALUE, LAUNCH_OUT_OF_RESOURCES,
    Outcome,
};
use crate::export::exports;
use crate::fault::Fault;
use crate::graph::{Arguments, KernelNode};
use crate::handle::Handle;
use crate::image::Duration;
use crate::parameter::{In, Pointer, Slice};
use crate::programmatic::Moment;
use crate::state::{Guard, Recorded, State, StreamKind};
use crate::thread;
use crate::work::{Launch, Work, issue};
use crate::worker::HostCall;
use crate::worker::Meeting;
use std::sync::Arc;

exports! {
    cuLaunchKernel | cuLaunchKernel_ptsz | cuTomorrowLaunchKernel => launch_kernel(function: Handle, gx: u32, gy: u32, gz: u32, bx: u32, by: u32, bz: u32, shared: u32, stream: Handle, arguments: Pointer<*const u8>, extra: Pointer<u64>);
    cuLaunchKernelEx | cuLaunchKernelEx_ptsz => launch_kernel_ex(config: In<LaunchConfig>, function: Handle, arguments: Pointer<*const u8>, extra: Pointer<u64>);
    cuLaunchCooperativeKernel | cuLaunchCooperativeKernel_ptsz => launch_cooperative(function: Handle, gx: u32, gy: u32, gz: u32, bx: u32, by: u32, bz: u32, shared: u32, stream: Handle, arguments: Pointer<*const u8>);
    cuLaunchCooperativeKernelMultiDevice => launch_on_devices(launches[count]: Slice<LaunchParameters>, count: u32, flags: u32);
    cuLaunch => launch_one(function: Handle);
    cuLaunchGrid => launch_grid(function: Handle, width: i32, height: i32);
    cuLaunchGridAsync => launch_grid_async(function: Handle, width: i32, height: i32, stream: Handle);
    cuLaunchHostFunc | cuLaunchHostFunc_ptsz => launch_host(stream: Handle, function: Option<extern "C-unwind" fn(u64)>, data: u64);
    cuLaunchHostFunc_v2 | cuLaunchHostFunc_v2_ptsz => launch_host_v2(stream: Handle, function: Option<extern "C-unwind" fn(u64)>, data: u64, mode: u32);
    cuStreamAddCallback | cuStreamAddCallback_ptsz => add_callback(stream: Handle, function: Option<extern "C-unwind" fn(u64, i32, u64)>, data: u64, flags: u32);
}

/// `CUlaunchConfig` of cuda.h.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct LaunchConfig {
    dimensions: [u32; 6],
    shared_bytes: u32,
    stream: Handle,
    attributes: Pointer<LaunchAttribute>,
    count: u32,
}

/// `CUlaunchAttribute` of cuda.h: an id and 64 bytes of value.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct LaunchAttribute {
    id: u32,
    pad: u32,
    value: [u64; 8],
}

/// `CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION`.
const PROGRAMMATIC_SERIALIZATION: u32 = 6;
/// `CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT`.
const PROGRAMMATIC_EVENT: u32 = 7;
/// `CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT`.
const COMPLETION_EVENT: u32 = 12;

/// Checks the threads of a block, the bytes of shared memory and the blocks in each dimension (device attributes, see
/// `device.rs`).
fn check_dimensions([gx, gy, gz, bx, by, bz]: [u32; 6], shared_bytes: u32) -> Outcome {
    let threads = u64::from(bx) * u64::from(by) * u64::from(bz);
    let blocks =
        (1..=i32::MAX as u32).contains(&gx) && (1..=65535).contains(&gy) && (1..=65535).contains(&gz);
    let block = (1..=1024).contains(&threads) && bz <= 64;
    if blocks && block && shared_bytes <= 227 << 10 { Ok(()) } else { Err(INVALID_VALUE) }
}

/// The parameters of a launch.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// CUfunction or CUkernel.
    pub function: Handle,
    /// Grid and block.
    pub dimensions: [u32; 6],
    /// Dynamic shared memory.
    pub shared_bytes: u32,
    /// `kernelParams`.
    pub arguments: Pointer<*const u8>,
    /// `extra`.
    pub extra: Pointer<u64>,
}

impl State {
    /// Returns the work of a launch in `context`, whose arguments are read now, and the cost of its module's first
    /// launch, ns.
    pub fn launch(&mut self, request: &Request, context: Handle, keep: bool) -> Outcome<(Launch, u64)> {
        let Request { function, dimensions, shared_bytes, arguments, extra } = *request;
        check_dimensions(dimensions, shared_bytes)?;
        if !arguments.is_null() && !extra.is_null() {
            // cuda.h: "specifying both kernelParams and extra" is CUDA_ERROR_INVALID_VALUE.
            return Err(INVALID_VALUE);
        }
        let handle = self.function(function)?;
        let of = self.functions.get(handle).ok_or(INVALID_HANDLE)?;
        if of.context != context {
            return Err(INVALID_CONTEXT);
        }
        let [.., bx, by, bz] = dimensions;
        if bx * by * bz > of.resources.max_threads {
            // cuda.h, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES: "too many threads for the kernel's register count".
            return Err(LAUNCH_OUT_OF_RESOURCES);
        }
        if shared_bytes > 0 && shared_bytes > self.most_dynamic_shared(handle)? {
            // cuda.h, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES: the launch fails beyond it.
            return Err(INVALID_VALUE);
        }
        // SAFETY: cuda.h's promise; a kernel of this duration has these parameters.
        let argument = |at| unsafe { argument(arguments, extra, at) }.ok_or(INVALID_VALUE);
        let (length, meeting) = match of.duration {
            Duration::Fixed(ns) => (ns, None),
            Duration::Argument => (argument(0)?, None),
            Duration::Meeting => {
                let (counter, all) = (argument(0)?, argument(1)? as u32);
                (0, Some(Meeting { counter, all, arrived: false }))
            }
        };
        let name = of.kernel.name.clone();
        let fault = of.fault.map(|result| Fault { context: self.number(context), result });
        let module = of.module;
        let node = keep.then(|| {
            let sizes = of.kernel.parameters.as_deref().filter(|_| !arguments.is_null());
            // SAFETY: cuda.h's promise: a pointer to each of the kernel's parameters.
            let copy = |sizes: &[_]| unsafe { Arguments::copy(arguments.as_ptr(), sizes) };
            let arguments = sizes.map(copy).unwrap_or_default();
            let kernel = if handle == function { 0 } else { function };
            Arc::new(KernelNode { function: handle, kernel, dimensions, shared_bytes, context, arguments })
        });
        let module = self.modules.get_mut(module).ok_or(INVALID_HANDLE)?;
        let cost = if module.launched { 0 } else { config().cost.module };
        module.launched = true;
        Ok((Launch { name, length, meeting, fault, programmatic: false, events: Vec::new(), node }, cost))
    }
}

impl State {
    /// Reads the attributes that make a launch a programmatic one.
    fn programmatic(&self, launch: &mut Launch, attributes: &[LaunchAttribute], context: Handle) -> Outcome {
        for LaunchAttribute { id, value, .. } in attributes {
            // CUlaunchAttributeValue: an int; an event, flags and triggerAtBlockStart; an event and flags.
            let (event, flags, at_start) = (value[0], value[1] as u32, value[1] >> 32 != 0);
            let moment = match *id {
                PROGRAMMATIC_SERIALIZATION => {
                    launch.programmatic = value[0] as u32 != 0;
                    continue;
                }
                PROGRAMMATIC_EVENT if !at_start => Moment::Trigger,
                PROGRAMMATIC_EVENT | COMPLETION_EVENT => Moment::Start,
                _ => continue,
            };
            let of = self.events.get(event).filter(|of| of.context == context).ok_or(INVALID_HANDLE)?;
            // cuda.h: "The event must disable timing"; no interprocess event, no CU_EVENT_RECORD_EXTERNAL.
            if of.flags & (DISABLE_TIMING | INTERPROCESS) != DISABLE_TIMING || flags & EXTERNAL != 0 {
                return Err(INVALID_VALUE);
            }
            launch.events.push((event, moment));
        }
        Ok(())
    }
}

/// Returns one argument of a kernel whose arguments have 64 bits each, from `kernelParams` or from the buffer in
/// `extra`.
///
/// # Safety
/// The arguments are as cuda.h, cuLaunchKernel, requires, and there are more than `at`.
unsafe fn argument(arguments: Pointer<*const u8>, extra: Pointer<u64>, at: usize) -> Option<u64> {
    const BUFFER_POINTER: u64 = 1; // CU_LAUNCH_PARAM_BUFFER_POINTER
    let (arguments, extra) = (arguments.as_ptr(), extra.as_ptr());
    // SAFETY: the caller's; `extra` is a list of pairs that ends with CU_LAUNCH_PARAM_END, 0.
    unsafe {
        if !arguments.is_null() {
            return Some((*arguments.add(at)).cast::<u64>().read_unaligned());
        }
        let mut pair = extra;
        while !pair.is_null() && *pair != 0 {
            if *pair == BUFFER_POINTER {
                return Some((*pair.add(1) as *const u64).add(at).read_unaligned());
            }
            pair = pair.add(2);
        }
    }
    None
}

/// Launches on a stream.
fn launch(call: &mut Call, request: Request, stream: Handle, attributes: &[LaunchAttribute]) -> Outcome {
    let mut state: Guard = call.lock();
    let stream = state.stream(call.api.per_thread, stream)?;
    let context = state.checked(stream).context;
    let context = state.root(context);
    let keep = state.checked(stream).capture.is_some();
    if context != state.current()? {
        // CUDA programming guide, "Stream and Event Behavior": a launch fails on a stream of another device's context.
        return Err(INVALID_HANDLE);
    }
    let (mut launch, cost) = state.launch(&request, context, keep)?;
    call.costs(cost);
    state.now = state.now.max(call.acts());
    state.programmatic(&mut launch, attributes, context)?;
    let events = launch.events.clone();
    let (mut state, done) = issue(call, state, stream, &Work::Kernel(launch))?;
    if done.is_none()
        && let Some(capture) = state.checked(stream).capture
    {
        let nodes = state.captures.get(&capture).and_then(|capture| capture.tips.get(&stream));
        let nodes = nodes.cloned().unwrap_or_default();
        for (event, _) in events {
            state.fire(event, Recorded::Capture { capture, nodes: nodes.clone() });
        }
    }
    Ok(())
}

#[allow(clippy::too_many_arguments)]
fn launch_kernel(
    call: &mut Call,
    function: Handle,
    gx: u32,
    gy: u32,
    gz: u32,
    bx: u32,
    by: u32,
    bz: u32,
    shared_bytes: u32,
    stream: Handle,
    arguments: Pointer<*const u8>,
    extra: Pointer<u64>,
) -> Outcome {
    let dimensions = [gx, gy, gz, bx, by, bz];
    launch(call, Request { function, dimensions, shared_bytes, arguments, extra }, stream, &[])
}

fn launch_kernel_ex(
    call: &mut Call,
    config: In<LaunchConfig>,
    function: Handle,
    arguments: Pointer<*const u8>,
    extra: Pointer<u64>,
) -> Outcome {
    let LaunchConfig { dimensions, shared_bytes, stream, attributes, count } = *config;
    // SAFETY: cuda.h's promise: `count` attributes.
    let attributes = unsafe { attributes.list(count as usize) }?;
    let request = Request { function, dimensions, shared_bytes, arguments, extra };
    launch(call, request, stream, &attributes)
}

#[allow(clippy::too_many_arguments)]
fn launch_cooperative(
    call: &mut Call,
    function: Handle,
    gx: u32,
    gy: u32,
    gz: u32,
    bx: u32,
    by: u32,
    bz: u32,
    shared_bytes: u32,
    stream: Handle,
    arguments: Pointer<*const u8>,
) -> Outcome {
    let threads = bx.saturating_mul(by).saturating_mul(bz).max(1);
    let blocks = u64::from(gx) * u64::from(gy) * u64::from(gz);
    let resources = call.lock().resources(function)?;
    // cuda.h: the grid must be resident at once.
    let resident = u64::from(resources.blocks_per_multiprocessor(threads, shared_bytes));
    if blocks > resident * MULTIPROCESSORS as u64 {
        return Err(COOPERATIVE_LAUNCH_TOO_LARGE);
    }
    let dimensions = [gx, gy, gz, bx, by, bz];
    let request = Request { function, dimensions, shared_bytes, arguments, extra: Pointer::NULL };
    launch(call, request, stream, &[])
}

/// `CUDA_LAUNCH_PARAMS` of cuda.h.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct LaunchParameters {
    function: Handle,
    dimensions: [u32; 6],
    shared_bytes: u32,
    stream: Handle,
    arguments: Pointer<*const u8>,
}

/// Launches a cooperative kernel on each of several devices (cuda.h, cuLaunchCooperativeKernelMultiDevice): with the
/// same dimensions, on streams of different devices, none of them a default stream.
fn launch_on_devices(call: &mut Call, launches: Slice<LaunchParameters>, count: u32, flags: u32) -> Outcome {
    if count == 0 || flags > 3 {
        return Err(INVALID_VALUE);
    }
    let before = call.lock().current_itself()?;
    let mut targets = Vec::with_capacity(launches.len());
    {
        let mut state = call.lock();
        let mut devices = std::collections::BTreeSet::new();
        for one in launches.iter() {
            let alike =
                one.dimensions == launches[0].dimensions && one.shared_bytes == launches[0].shared_bytes;
            let stream = state.stream(call.api.per_thread, one.stream)?;
            let is_own = state.checked(stream).kind == StreamKind::Created;
            let context = state.checked(stream).context;
            if !alike || !is_own || !devices.insert(state.context(context)?.device) {
                return Err(INVALID_VALUE);
            }
            targets.push((*one, context));
        }
    }
    for (LaunchParameters { function, dimensions, shared_bytes, stream, arguments }, context) in targets {
        let request = Request { function, dimensions, shared_bytes, arguments, extra: Pointer::NULL };
        thread::set_current(context)?;
        let launched = launch(call, request, stream, &[]);
        thread::set_current(before)?;
        launched?;
    }
    Ok(())
}

/// Launches with the interface of CUDA 3: `cuFuncSetBlockShape` sets the block's dimensions.
fn launch_one(call: &mut Call, function: Handle) -> Outcome {
    launch_grid_async(call, function, 1, 1, 0)
}

fn launch_grid(call: &mut Call, function: Handle, width: i32, height: i32) -> Outcome {
    launch_grid_async(call, function, width, height, 0)
}

fn launch_grid_async(call: &mut Call, function: Handle, width: i32, height: i32, stream: Handle) -> Outcome {
    let [width, height] = [width, height].map(|blocks| u32::try_from(blocks).unwrap_or(0));
    let block = {
        let mut state = call.lock();
        let handle = state.function(function)?;
        state.functions.get(handle).ok_or(INVALID_HANDLE)?.block
    };
    let dimensions = [width, height, 1, block[0], block[1], block[2]];
    let (arguments, extra) = (Pointer::NULL, Pointer::NULL);
    launch(call, Request { function, dimensions, shared_bytes: 0, arguments, extra }, stream, &[])
}

fn host(call: &mut Call, stream: Handle, host: HostCall) -> Outcome {
    let mut state = call.lock();
    let stream = state.stream(call.api.per_thread, stream)?;
    issue(call, state, stream, &Work::Host(host)).map(|_| ())
}

fn launch_host(
    call: &mut Call,
    stream: Handle,
    function: Option<extern "C-unwind" fn(u64)>,
    data: u64,
) -> Outcome {
    let function = function.ok_or(INVALID_VALUE)?;
    host(call, stream, HostCall::Function { function, data })
}

fn launch_host_v2(
    call: &mut Call,
    stream: Handle,
    function: Option<extern "C-unwind" fn(u64)>,
    data: u64,
    _: u32,
) -> Outcome {
    launch_host(call, stream, function, data)
}

fn add_callback(
    call: &mut Call,
    stream: Handle,
    function: Option<extern "C-unwind" fn(u64, i32, u64)>,
    data: u64,
    flags: u32,
) -> Outcome {
    let function = function.filter(|_| flags == 0).ok_or(INVALID_VALUE)?;
    let mut state = call.lock();
    let target = state.stream(call.api.per_thread, stream)?;
    // cuda.h, cuStreamAddCallback: not supported in a capture; cuLaunchHostFunc is.
    state.check_not_captured(target)?;
    issue(call, state, target, &Work::Host(HostCall::Callback { function, stream, data })).map(|_| ())
}
