//! Contexts: primary ones, created ones, the calling thread's current one.

use super::device::ordinal;
use super::memory::report_gone;
use crate::call::Call;
use crate::config::config;
use crate::engine::Done;
use crate::error::{
    INVALID_CONTEXT, INVALID_DEVICE, INVALID_VALUE, Outcome, PEER_ACCESS_ALREADY_ENABLED,
    PEER_ACCESS_NOT_ENABLED, PRIMARY_CONTEXT_ACTIVE, UNSUPPORTED_LIMIT,
};
use crate::export::exports;
use crate::handle::Handle;
use crate::parameter::{Maybe, Out, Pointer};
use crate::state::{self, Context, Guard, State, StreamKind};
use crate::{effects, fault, thread, truth};
use std::collections::{BTreeSet, HashMap};

exports! {
    cuDevicePrimaryCtxRetain => primary_retain(context: Out<Handle>, device: i32);
    cuDevicePrimaryCtxRelease | cuDevicePrimaryCtxRelease_v2 => primary_release(device: i32);
    cuDevicePrimaryCtxReset | cuDevicePrimaryCtxReset_v2 => primary_reset(device: i32);
    cuDevicePrimaryCtxSetFlags | cuDevicePrimaryCtxSetFlags_v2 => primary_set_flags(device: i32, flags: u32);
    cuDevicePrimaryCtxGetState => primary_state(device: i32, flags: Out<u32>, active: Out<i32>);
    cuCtxCreate | cuCtxCreate_v2 => create(context: Out<Handle>, flags: u32, device: i32);
    cuCtxCreate_v3 => create_v3(context: Out<Handle>, affinity: Pointer<u8>, count: i32, flags: u32, device: i32);
    cuCtxCreate_v4 => create_v4(context: Out<Handle>, parameters: Pointer<u8>, flags: u32, device: i32);
    cuCtxDestroy | cuCtxDestroy_v2 => destroy(context: Handle);
    cuCtxDetach => detach(context: Handle);
    cuCtxPushCurrent | cuCtxPushCurrent_v2 => push_current(context: Handle);
    cuCtxPopCurrent | cuCtxPopCurrent_v2 => pop_current(context: Maybe<Handle>);
    cuCtxSetCurrent => set_current(context: Handle);
    cuCtxGetCurrent => get_current(context: Out<Handle>);
    cuCtxGetDevice => get_device(device: Out<i32>);
    cuCtxGetDevice_v2 => get_device_v2(device: Out<i32>, context: Handle);
    cuCtxGetFlags => get_flags(flags: Out<u32>);
    cuCtxSetFlags => set_flags(flags: u32);
    cuCtxGetId => get_id(context: Handle, id: Out<u64>);
    cuCtxGetApiVersion => get_api_version(context: Handle, version: Out<u32>);
    cuCtxGetStreamPriorityRange => priority_range(least: Maybe<i32>, greatest: Maybe<i32>);
    cuCtxGetLimit => get_limit(value: Out<usize>, limit: u32);
    cuCtxSetLimit => set_limit(limit: u32, value: usize);
    cuCtxGetCacheConfig | cuCtxGetSharedMemConfig => get_config(config: Out<u32>);
    cuCtxSetCacheConfig | cuCtxSetSharedMemConfig => set_config(config: u32);
    cuCtxResetPersistingL2Cache => reset_l2();
    cuCtxSynchronize => synchronize();
    cuCtxSynchronize_v2 => synchronize_v2(context: Handle);
    cuCtxEnablePeerAccess => enable_peer(peer: Handle, flags: u32);
    cuCtxDisablePeerAccess => disable_peer(peer: Handle);
}

/// `CU_CTX_FLAGS_MASK`.
const FLAGS: u32 = 0xFF;

impl State {
    /// The settings of a context at its creation, or when a primary context becomes active.
    pub fn blank(&mut self, device: u32, flags: u32, primary: bool, api_version: u32) -> Context {
        Context {
            id: self.context_id(),
            active: true,
            root: 0,
            device,
            flags,
            primary,
            api_version,
            legacy: 0,
            per_thread: HashMap::new(),
            streams: BTreeSet::new(),
            dirty: Vec::new(),
            taken: vec![Done::At(0); config().connections.max(1)],
            connected: 0,
            orphans: Vec::new(),
            limits: HashMap::new(),
            peers: BTreeSet::new(),
            waits: Vec::new(),
        }
    }

    /// Returns whether a handle names an active context.
    pub fn is_active(&self, handle: Handle) -> bool {
        self.contexts.get(handle).is_some_and(|context| context.active)
    }

    /// Creates a context's default stream.
    pub fn begin_legacy(&mut self, handle: Handle) -> Outcome {
        let legacy = self.new_stream(handle, StreamKind::Legacy, 0, 0)?;
        self.live(handle)?.legacy = legacy;
        Ok(())
    }

    fn begin_context(&mut self, handle: Handle) -> Outcome {
        self.begin_legacy(handle)?;
        let context = self.live(handle)?;
        let Context { id, device, primary, .. } = *context;
        report(id, device, handle, primary, false);
        Ok(())
    }

    /// Destroys a context's streams, events, modules and memory. Pool memory and physical memory remain (cuda.h,
    /// cuCtxDestroy).
    fn end_context(&mut self, handle: Handle) -> Outcome {
        self.end_greens(handle)?;
        let context = self.live(handle)?;
        context.active = false;
        let Context { id, device, primary, .. } = *context;
        let streams = std::mem::take(&mut context.streams);
        context.per_thread.clear();
        context.dirty.clear();
        context.orphans.clear();
        for stream in streams {
            if let Some(id) = self.streams.get(stream).and_then(|stream| stream.capture)
                && let Some(capture) = self.leave_capture(id)
            {
                self.destroy_graph(capture.graph)?;
            }
            self.streams.remove(stream);
        }
        self.events.remove_where(|event| event.context == handle);
        self.execs.remove_where(|exec| exec.context == handle);
        self.functions.remove_where(|function| function.context == handle);
        self.modules.remove_where(|module| module.context == handle);
        self.forget_modules(handle);
        for address in self.memory.of_context(handle) {
            let Some((gone, range)) = self.memory.remove(address) else { continue };
            report_gone(address, gone.bytes, gone.kind);
            if let Some(range) = range {
                effects::push(effects::Effect::Release(range));
            }
        }
        self.sweep_graph_memory();
        self.imports.forget(handle);
        self.end_arrays(handle);
        self.textures.end(handle);
        report(id, device, handle, primary, true);
        Ok(())
    }
}

fn report(id: u32, device: u32, handle: Handle, primary: bool, destroyed: bool) {
    truth::line(format_args!(
        "\"kind\":\"context\",\"context\":{id},\"device\":{device},\"handle\":{handle},\"primary\":{primary},\
         \"destroyed\":{destroyed}"
    ));
}

impl State {
    /// Retains a device's primary context, and makes it active.
    pub fn retain_primary(&mut self, device: u32) -> Outcome<Handle> {
        let mut primary = self.primaries[device as usize];
        if !self.is_active(primary.handle) {
            let blank = self.blank(device, primary.flags, true, 3020);
            match self.contexts.get_mut(primary.handle) {
                Some(old) => *old = blank,
                None => primary.handle = self.contexts.insert(blank),
            }
            self.begin_context(primary.handle)?;
        }
        primary.references += 1;
        self.primaries[device as usize] = primary;
        Ok(primary.handle)
    }
}

fn primary_retain(call: &mut Call, context: Out<Handle>, device: i32) -> Outcome {
    let device = ordinal(device)?;
    let mut state = call.lock();
    let is_new = !state.is_active(state.primaries[device as usize].handle);
    let handle = state.retain_primary(device)?;
    if is_new {
        call.costs(config().cost.context);
    }
    context.put(handle);
    Ok(())
}

fn primary_release(call: &mut Call, device: i32) -> Outcome {
    let device = ordinal(device)?;
    release_primary(call, call.lock(), device)
}

/// Releases a device's primary context, and ends it with the last release.
pub fn release_primary(call: &Call, mut state: Guard, device: u32) -> Outcome {
    let primary = &mut state.primaries[device as usize];
    // cuda.h: INVALID_CONTEXT if the context has not been retained.
    let left = primary.references.checked_sub(1).ok_or(INVALID_CONTEXT)?;
    let handle = primary.handle;
    if left > 0 {
        primary.references = left;
        return Ok(());
    }
    let mut state = wait_for_work(call, state, handle);
    // Another thread may have retained it meanwhile.
    let references = &mut state.primaries[device as usize].references;
    *references = references.saturating_sub(1);
    if *references > 0 {
        return Ok(());
    }
    end_primary(state, handle)
}

/// Waits, with the state unlocked, until a context's work is done.
fn wait_for_work(call: &Call, state: Guard, handle: Handle) -> Guard {
    let work = state.context_work(handle);
    drop(state);
    call.wait_for(&work);
    call.lock()
}

/// Ends a primary context, if it is active.
fn end_primary(mut state: Guard, handle: Handle) -> Outcome {
    if state.is_active(handle) {
        state.end_context(handle)?;
    }
    drop(state);
    truth::flush().map_err(|_| crate::error::FILE_NOT_FOUND)
}

fn primary_reset(call: &mut Call, device: i32) -> Outcome {
    // cuda.h: "Resetting the primary context does not release it"; the next retain makes a new one active.
    let device = ordinal(device)?;
    let state = call.lock();
    let handle = state.primaries[device as usize].handle;
    if !state.is_active(handle) {
        return Ok(());
    }
    let state = wait_for_work(call, state, handle);
    end_primary(state, handle)
}

fn primary_set_flags(call: &mut Call, device: i32, flags: u32) -> Outcome {
    let device = ordinal(device)?;
    if flags & !FLAGS != 0 {
        return Err(INVALID_VALUE);
    }
    let mut state = call.lock();
    let primary = &mut state.primaries[device as usize];
    primary.flags = flags;
    let handle = primary.handle;
    // cuda.h: since 11.0 (_v2) the flags of an active context are changed; before, PRIMARY_CONTEXT_ACTIVE.
    if let Some(context) = state.contexts.get_mut(handle).filter(|context| context.active) {
        if crate::config::config().driver_version < 11000 {
            return Err(PRIMARY_CONTEXT_ACTIVE);
        }
        context.flags = flags;
    }
    Ok(())
}

fn primary_state(call: &mut Call, device: i32, flags: Out<u32>, active: Out<i32>) -> Outcome {
    let device = ordinal(device)?;
    let state = call.lock();
    let primary = state.primaries[device as usize];
    flags.put(primary.flags);
    active.put(i32::from(state.is_active(primary.handle)));
    Ok(())
}

fn make(call: &mut Call, out: Out<Handle>, flags: u32, device: i32, api_version: u32) -> Outcome {
    let device = ordinal(device)?;
    if flags & !FLAGS != 0 {
        return Err(INVALID_VALUE);
    }
    let mut state = call.lock();
    let blank = state.blank(device, flags, false, api_version);
    let handle = state.contexts.insert(blank);
    state.begin_context(handle)?;
    thread::push(handle)?;
    call.costs(config().cost.context);
    out.put(handle);
    Ok(())
}

fn create(call: &mut Call, context: Out<Handle>, flags: u32, device: i32) -> Outcome {
    make(call, context, flags, device, 3020)
}

fn create_v3(
    call: &mut Call,
    context: Out<Handle>,
    _: Pointer<u8>,
    count: i32,
    flags: u32,
    device: i32,
) -> Outcome {
    if count != 0 {
        return Err(crate::error::UNSUPPORTED_EXEC_AFFINITY);
    }
    make(call, context, flags, device, 3020)
}

fn create_v4(call: &mut Call, context: Out<Handle>, _: Pointer<u8>, flags: u32, device: i32) -> Outcome {
    make(call, context, flags, device, 3020)
}

fn destroy(call: &mut Call, context: Handle) -> Outcome {
    let state = call.lock();
    let known = state.contexts.get(context).filter(|context| context.active).ok_or(INVALID_CONTEXT)?;
    if known.primary || known.root != 0 {
        // cuda.h, cuDevicePrimaryCtxRetain: a primary context must not be destroyed with cuCtxDestroy; cuCtxFromGreenCtx:
        // nor a green one's.
        return Err(INVALID_CONTEXT);
    }
    let work = state.context_work(context);
    drop(state);
    call.wait_for(&work);
    let mut state = call.lock();
    state.end_context(context)?;
    state.contexts.remove(context);
    drop(state);
    // cuda.h: if it is current to the calling thread, it is popped.
    if thread::current() == context {
        thread::pop()?;
    }
    truth::flush().map_err(|_| crate::error::FILE_NOT_FOUND)
}

fn detach(call: &mut Call, context: Handle) -> Outcome {
    // cuda.h: deprecated; drops the one reference that a created context has.
    destroy(call, context)
}

fn push_current(call: &mut Call, context: Handle) -> Outcome {
    call.lock().contexts.get(context).filter(|context| context.active).ok_or(INVALID_CONTEXT)?;
    thread::push(context)
}

fn pop_current(_: &mut Call, context: Maybe<Handle>) -> Outcome {
    let popped = thread::pop()?;
    context.put(popped);
    Ok(())
}

fn set_current(call: &mut Call, context: Handle) -> Outcome {
    if context != 0 {
        call.lock().contexts.get(context).filter(|context| context.active).ok_or(INVALID_CONTEXT)?;
    }
    thread::set_current(context)
}

fn get_current(_: &mut Call, context: Out<Handle>) -> Outcome {
    context.put(thread::current());
    Ok(())
}

fn get_device(call: &mut Call, device: Out<i32>) -> Outcome {
    let state = call.lock();
    let ordinal = state.context(state.current()?)?.device;
    device.put(ordinal as i32);
    Ok(())
}

fn get_device_v2(call: &mut Call, device: Out<i32>, context: Handle) -> Outcome {
    let state = call.lock();
    let context = if context == 0 { state.current()? } else { context };
    let ordinal = state.context(context)?.device;
    device.put(ordinal as i32);
    Ok(())
}

fn get_flags(call: &mut Call, flags: Out<u32>) -> Outcome {
    let state = call.lock();
    let known = state.context(state.current()?)?.flags;
    flags.put(known);
    Ok(())
}

fn set_flags(call: &mut Call, flags: u32) -> Outcome {
    if flags & !FLAGS != 0 {
        return Err(INVALID_VALUE);
    }
    let mut state = call.lock();
    let context = state.current()?;
    state.live(context)?.flags = flags;
    Ok(())
}

fn get_id(call: &mut Call, context: Handle, id: Out<u64>) -> Outcome {
    let state = call.lock();
    let context = if context == 0 { state.current_itself()? } else { context };
    let known = state.context(context)?.id;
    id.put(u64::from(known));
    Ok(())
}

fn get_api_version(call: &mut Call, context: Handle, version: Out<u32>) -> Outcome {
    let state = call.lock();
    let context = if context == 0 { state.current()? } else { context };
    let known = state.context(context)?.api_version;
    version.put(known);
    Ok(())
}

/// Priorities from 0 down to this.
pub const GREATEST_PRIORITY: i32 = -5;

fn priority_range(call: &mut Call, least: Maybe<i32>, greatest: Maybe<i32>) -> Outcome {
    call.lock().current()?;
    least.put(0);
    greatest.put(GREATEST_PRIORITY);
    Ok(())
}

/// The default limits (`CUlimit` 0 to 6).
const LIMITS: [usize; 7] = [1024, 1 << 20, 8 << 20, 2, 2048, 64, 0];

fn get_limit(call: &mut Call, value: Out<usize>, limit: u32) -> Outcome {
    let state = call.lock();
    let context = state.context(state.current()?)?;
    let default = *LIMITS.get(limit as usize).ok_or(UNSUPPORTED_LIMIT)?;
    value.put(context.limits.get(&limit).copied().unwrap_or(default));
    Ok(())
}

fn set_limit(call: &mut Call, limit: u32, value: usize) -> Outcome {
    let mut state = call.lock();
    let context = state.current()?;
    LIMITS.get(limit as usize).ok_or(UNSUPPORTED_LIMIT)?;
    state.live(context)?.limits.insert(limit, value);
    Ok(())
}

fn get_config(call: &mut Call, config: Out<u32>) -> Outcome {
    call.lock().current()?;
    // 0 = no preference, default bank size.
    config.put(0);
    Ok(())
}

fn set_config(call: &mut Call, _: u32) -> Outcome {
    call.lock().current().map(|_| ())
}

fn reset_l2(call: &mut Call) -> Outcome {
    call.lock().current().map(|_| ())
}

fn synchronize(call: &mut Call) -> Outcome {
    let context = call.lock().current_itself()?;
    synchronize_v2(call, context)
}

fn synchronize_v2(call: &mut Call, context: Handle) -> Outcome {
    let mut state = call.lock();
    let context = if context == 0 { state.current_itself()? } else { context };
    state.context(context)?;
    state.check_unsafe()?;
    state.check_context(context)?;
    let work = state.context_work(context);
    drop(state);
    state::wait_all(&work);
    fault::check(context)?;
    call.report_sync("context", 0, 0);
    Ok(())
}

fn enable_peer(call: &mut Call, peer: Handle, flags: u32) -> Outcome {
    if flags != 0 {
        return Err(INVALID_VALUE);
    }
    let mut state = call.lock();
    let context = state.current()?;
    let other = state.contexts.get(peer).filter(|context| context.active).ok_or(INVALID_CONTEXT)?.device;
    let own = state.live(context)?;
    if own.device == other {
        return Err(INVALID_DEVICE);
    }
    if own.peers.insert(peer) { Ok(()) } else { Err(PEER_ACCESS_ALREADY_ENABLED) }
}

fn disable_peer(call: &mut Call, peer: Handle) -> Outcome {
    let mut state = call.lock();
    let context = state.current()?;
    if state.live(context)?.peers.remove(&peer) { Ok(()) } else { Err(PEER_ACCESS_NOT_ENABLED) }
}
