//! Calls that set things up or take them down: streams, contexts, modules, functions.

use core::ffi::CStr;

use crate::calls::{Plain, stream_of};
use crate::cuda::*;
use crate::driver;
use crate::gpu::context;
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

/// A context goes.
pub struct ContextDestroy {
    pub context: CUcontext,
}

impl Plain for ContextDestroy {
    fn before(&self, call: &Call) {
        take_down(call, |c| c.handle == self.context as u64);
    }

    fn subject(&self) -> u64 {
        self.context as u64
    }
}

/// A primary context may go: a release is one when it is the last, a reset always. What is still there afterwards is
/// simply met again.
pub struct PrimaryReset {
    pub device: CUdevice,
}

impl Plain for PrimaryReset {
    fn before(&self, call: &Call) {
        take_down(call, |c| c.device == self.device as u32);
    }
}

/// The poller reads what it can of the contexts that are about to go; then they are forgotten.
fn take_down(call: &Call, goes: impl Fn(&context::Context) -> bool) {
    let session = call.session;
    let going: Vec<u64> = session.contexts.iter().filter(|c| goes(c)).map(|c| c.handle).collect();
    if going.is_empty() {
        return;
    }
    session.poller.drain(|| session.streams.iter().all(|s| s.oldest().is_none()));
    for handle in going {
        context::forget(call, session, handle);
    }
}

/// A loading call that tells a function's name.
pub struct FunctionNamed {
    pub out: *mut CUfunction,
    pub name: *const char_t,
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
            call.session.names.learn(call, function, name, self.is_kernel);
        }
        false
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
