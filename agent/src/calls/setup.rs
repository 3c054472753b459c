//! Calls that set things up or take them down: streams, contexts, modules, functions.

use core::cell::Cell;
use core::ffi::CStr;
use core::sync::atomic::Ordering;

use crate::calls::{Plain, stream_of};
use crate::cuda::*;
use crate::driver;
use crate::gpu::burst;
use crate::gpu::context::{self, Context};
use crate::thread::Call;

/// A call of which only its time matters.
pub struct Host {
    pub subject: u64,
}

impl Plain for Host {
    fn subject(&self) -> u64 {
        self.subject
    }
}

/// What the call wrote, read after its success.
fn written<T: core::marker::Copy>(out: *const T) -> Option<T> {
    // SAFETY: the call succeeded, so it has written there; null would have failed.
    (!out.is_null()).then(|| unsafe { out.read_unaligned() })
}

/// A stream comes.
pub struct StreamCreate {
    pub out: *mut CUstream,
}

impl Plain for StreamCreate {
    fn after(&self, call: &Call, _: u64) -> bool {
        if let Some(stream) = written(self.out) {
            stream_of(call, stream);
        }
        false
    }
}

/// A stream goes.
pub struct StreamDestroy {
    pub stream: CUstream,
}

impl Plain for StreamDestroy {
    // Before the real call: behind it, another thread may already have the handle as a new stream's.
    fn before(&self, call: &Call) {
        burst::end_before(call, |s| s.handle() == self.stream);
        call.session.streams.destroyed(call, self.stream);
    }

    fn subject(&self) -> u64 {
        self.stream as u64
    }
}

/// A context comes.
pub struct ContextCreate {
    pub out: *mut CUcontext,
}

impl Plain for ContextCreate {
    fn after(&self, call: &Call, _: u64) -> bool {
        if let (Some(context), Some(driver)) = (written(self.out), driver::driver()) {
            call.session.contexts.get(call, driver, context);
        }
        false
    }
}

/// A primary context is retained: made, or met again.
pub struct PrimaryRetain {
    pub out: *mut CUcontext,
    pub device: CUdevice,
}

impl Plain for PrimaryRetain {
    fn after(&self, call: &Call, end: u64) -> bool {
        if let Some(context) = written(self.out) {
            call.session.contexts.retain(self.device, context);
        }
        ContextCreate { out: self.out }.after(call, end)
    }
}

/// A context goes.
pub struct ContextDestroy {
    handle: CUcontext,
    /// The one that had the handle when the call began.
    context: Cell<Option<&'static Context>>,
}

impl ContextDestroy {
    /// The one with this handle.
    pub fn of(handle: CUcontext) -> ContextDestroy {
        ContextDestroy { handle, context: Cell::new(None) }
    }
}

impl Plain for ContextDestroy {
    // Before the real call: behind it, another thread may already have the handle, and those of its streams, as new ones.
    fn before(&self, call: &Call) {
        let goes = |c: &Context| c.handle == self.handle as u64;
        burst::end_before(call, |s| s.context().is_some_and(goes));
        context::pause(call.session, goes);
        let context = call.session.contexts.forget(self.handle as u64);
        context.into_iter().for_each(|c| call.session.streams.abandon(c));
        self.context.set(context);
    }

    fn after(&self, call: &Call, _: u64) -> bool {
        self.context.take().into_iter().for_each(|c| context::ended(call, c));
        false
    }

    fn failed(&self, call: &Call) {
        if let Some(context) = self.context.take() {
            context.paused.store(false, Ordering::SeqCst);
            call.session.contexts.remember(context);
        }
    }

    fn subject(&self) -> u64 {
        self.handle as u64
    }
}

/// A primary context is released, which may be its end, or reset, which is.
pub struct PrimaryEnd {
    pub device: CUdevice,
    pub reset: bool,
}

impl PrimaryEnd {
    fn ends(&self, call: &Call, context: &context::Context) -> bool {
        context.device == self.device as u32 && call.session.contexts.is_primary(context)
    }

    fn resume(&self, call: &Call, succeeded: bool) {
        let active = driver::driver().is_some_and(|d| d.is_primary_active(self.device));
        context::resume(call, |c| self.ends(call, c), succeeded && (self.reset || !active));
    }
}

impl Plain for PrimaryEnd {
    fn before(&self, call: &Call) {
        if self.reset || call.session.contexts.release(self.device) {
            burst::end_before(call, |s| s.context().is_some_and(|c| self.ends(call, c)));
            context::pause(call.session, |c| self.ends(call, c));
        }
    }

    fn after(&self, call: &Call, _: u64) -> bool {
        self.resume(call, true);
        false
    }

    fn failed(&self, call: &Call) {
        self.resume(call, false);
    }
}

/// A loading call that tells a function's name.
pub struct FunctionNamed {
    pub out: *mut CUfunction,
    pub name: *const char_t,
    /// The CUmodule or CUlibrary that it lies in.
    pub owner: *mut void,
    /// The handle is a CUkernel.
    pub is_kernel: bool,
}

impl Plain for FunctionNamed {
    fn after(&self, call: &Call, _: u64) -> bool {
        if let Some(function) = written(self.out)
            && !self.name.is_null()
        {
            // SAFETY: the call succeeded by this terminated name.
            let name = unsafe { CStr::from_ptr(self.name) }.to_bytes();
            call.session.names.learn(call, function, name, self.owner as u64, self.is_kernel);
        }
        false
    }
}

/// A module or library goes, and its functions with it: their handles may come back as others'.
pub struct Unload {
    pub owner: *mut void,
}

impl Plain for Unload {
    fn before(&self, call: &Call) {
        call.session.names.forget(self.owner as u64);
    }

    fn subject(&self) -> u64 {
        self.owner as u64
    }
}

/// A CUfunction got from a CUkernel.
pub struct FunctionOfKernel {
    pub out: *mut CUfunction,
    pub kernel: CUkernel,
}

impl Plain for FunctionOfKernel {
    fn after(&self, call: &Call, _: u64) -> bool {
        if let Some(function) = written(self.out) {
            call.session.names.learn_same(call, function, self.kernel);
        }
        false
    }
}
