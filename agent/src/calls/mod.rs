//! What calls are: the words of the hook table, and how each is recorded.
//!
//! Three ways to intercept:
//!
//! - [`work`]: call_counts something on a stream: timed where it can be, one record;
//! - [`plain`]: anything else: something to do before the call, a record after it;
//! - [`query`]: asks whether something is done: many in a row are one record;
//! - [`launches`]: launches on several streams at once;
//! - [`lookup`]: hands out function pointers; never recorded.
//!
//! All share the layers' rule: a driver call makes the record; a runtime call labels it, and makes one itself only when
//! it succeeded and no driver call inside it did.

mod array;
mod capture;
mod code;
mod copy;
mod launch;
mod lookup;
mod memory;
mod order;
mod query;
mod setup;
mod work;

pub use array::Extent;
pub use capture::{
    CaptureBegin, CaptureEnd, Change, GraphDestroy, GraphLaunch, GraphUpdate, Instantiate, NodeChange,
};
pub use code::{Enumerated, FunctionNamed, FunctionOfKernel, HandleGiven, Load, Unload};
pub use copy::{Copy, Set, runtime_direction};
pub use launch::{Attributes, Launch, Launches, Origin, launches};
pub use lookup::{Lookup, lookup};
pub use memory::{Alloc, Free};
pub use order::{ContextEvent, Enqueue, EventOp, Sync, Unmarked, Whole};
pub use query::{Query, query};
pub use setup::{
    ContextCreate, ContextDestroy, DeviceReset, GreenCreate, GreenDestroy, Host, PrimaryEnd, PrimaryRetain,
    Profiler, StreamCreate, StreamDestroy,
};
pub use work::{Work, work};

use gpuspy_wire::record::{self, Kind, flag};

use crate::cuda::{CUDA_SUCCESS, CUresult, CUstream};
use crate::driver::{self, Driver};
use crate::gpu::context::Contexts;
use crate::gpu::stream::{Stream, Streams};
use crate::hook::{Entry, Layer};
use crate::names::Names;
use crate::sink;
use crate::thread::{self, Call};

/// A call that is recorded when it returns, or only counted.
pub trait Plain: Sized {
    /// The call tells what handles are, on a thread that is not observed too ([`Plain::tell_kinds`]).
    const TELLS_KINDS: bool = false;
    /// What kind of record a successful call makes: by this a runtime call knows whether the driver layer has made it.
    fn kind(&self) -> Kind {
        Kind::Api
    }
    /// Before the real call.
    fn before(&self, _call: &Call) {}
    /// After a successful call of the driver layer, or of a runtime whose driver calls were not seen: makes the record
    /// and returns true, or returns false for a plain [`record::Api`].
    fn after(&self, _call: &Call, _end: u64) -> bool {
        false
    }
    /// Before the real call, in the runtime's layer.
    fn before_runtime(&self, _call: &Call) {}
    /// After it.
    fn after_runtime(&self, _call: &Call, _succeeded: bool) {}
    /// After a successful call of a runtime, the record of which the driver layer has made.
    fn labelled(&self, _call: &Call) {}
    /// After a failed one, in the driver's layer: true when something of ours may be why. It is undone now, and the app's
    /// call is to be made as it is.
    fn undone(&self) -> bool {
        false
    }
    /// After a failed one.
    fn failed(&self, _call: &Call) {}
    /// After a successful call: tells what the handles are that it gave out, and needs nothing of the thread's.
    fn tell_kinds(&self, _names: &Names) {}
    /// The handle that the call is about.
    fn subject(&self) -> u64 {
        0
    }
}

/// Intercepts any other call.
#[inline]
pub fn plain<P: Plain>(entry: Entry, what: impl FnOnce() -> P, real: impl Fn() -> CUresult) -> CUresult {
    let Some(call) = thread::enter(&entry) else {
        let result = real();
        // What a thread without a place for its records is given, another one may launch.
        if P::TELLS_KINDS
            && result == CUDA_SUCCESS
            && let Some(session) = sink::existing()
        {
            what().tell_kinds(session.get::<Names>());
        }
        return result;
    };
    let what = what();
    let is_driver = call.layer == Layer::Driver;
    if is_driver {
        what.before(&call);
    } else {
        what.before_runtime(&call);
    }
    let (mut result, before, mut end) = call.real(&real);
    if result != CUDA_SUCCESS && is_driver && what.undone() {
        (result, _, end) = call.real(&real);
    }
    if !is_driver {
        what.after_runtime(&call, result == CUDA_SUCCESS);
    }
    let seen = !is_driver && call.was_recorded(what.kind());
    if seen && result == CUDA_SUCCESS {
        what.labelled(&call);
    }
    if !seen {
        let recorded = result == CUDA_SUCCESS && what.after(&call, end);
        if result != CUDA_SUCCESS && is_driver {
            what.failed(&call);
        }
        if !recorded {
            record_call(&call, result, what.subject(), before);
        }
    }
    call.leave(end.wrapping_sub(before));
    result
}

/// The record of a call that is nothing more than a call, or that failed. CUDA's own function was called at `before` (ticks).
fn record_call(call: &Call, result: CUresult, subject: u64, before: u64) {
    call.record(&record::Api {
        head: call.head::<record::Api>(if result == CUDA_SUCCESS { 0 } else { flag::FAILED }),
        correlation: call.correlation,
        begin: call.begin,
        end: call.begin,
        caller: call.caller,
        context: 0,
        result,
        subject,
        more: 0,
        inside: call.until(before),
    });
}

/// What the call wrote, read after its success.
fn written<T: core::marker::Copy>(out: *const T) -> Option<T> {
    // SAFETY: the call succeeded, so it has written there; null would have failed.
    (!out.is_null()).then(|| unsafe { out.read_unaligned() })
}

/// The current context's number, for records that are about no stream.
fn current_context(call: &Call) -> u32 {
    let context =
        driver::driver().and_then(|d| call.session.get::<Contexts>().get(call, d, d.current_context()));
    context.map_or(0, |c| c.number)
}

/// The stream that a handle means to this call.
fn stream_of(call: &Call, handle: CUstream) -> Option<&'static Stream> {
    driver::driver().and_then(|d: &Driver| call.session.get::<Streams>().get(call, d, handle))
}
