//! How is each kind of call recorded? This module defines the terms of the hook table.
//!
//! There are five kinds of interception:
//!
//! - [`work`] is for calls that put something on a stream: timed where possible, with one record.
//! - [`plain`] is for all other calls: an action before the call, and a record after it.
//! - [`query`] is for queries of completion: consecutive ones become one record.
//! - [`launches`] is for launches on several streams at once.
//! - [`lookup`] is for calls that hand out function pointers, which are never recorded.
//!
//! All follow one rule for the two layers: a driver call makes the record. A runtime call labels it, and
//! makes a record itself only when it succeeded and no driver call inside it was recorded.

mod array;
mod code;
mod copy;
mod launch;
mod light;
mod lookup;
mod memory;
mod order;
mod query;
mod setup;
mod stream_capture;
mod work;

pub use array::Extent;
pub use code::{Enumerated, FunctionNamed, FunctionOfKernel, HandleGiven, Load, Unload};
pub use copy::{Copy, Memset, runtime_direction};
pub use launch::{Attributes, Launch, Launches, Origin, launches};
pub use light::light;
pub use lookup::{Lookup, lookup};
pub use memory::{Alloc, Free};
pub use order::{AllStreamsOf, ContextEvent, Enqueue, EventOp, ForgetEvent, Sync};
pub use query::{Query, query};
pub use setup::{
    ContextCreate, ContextDestroy, DeviceReset, GreenCreate, GreenDestroy, Host, PrimaryEnd, PrimaryRetain,
    Profiler, StreamCreate, StreamDestroy,
};
pub use stream_capture::{
    CaptureBegin, CaptureEnd, Change, GraphDestroy, GraphLaunch, GraphUpdate, Instantiate, NodeChange,
};
pub use work::{Work, launch, work};

use gpuspy_wire::record::{self, Kind, StackNumber, flag};

use crate::cuda::{CUDA_SUCCESS, CUresult, CUstream};
use crate::driver::{self, Driver};
use crate::gpu::context::{Context, Contexts};
use crate::gpu::stream::{Stream, Streams};
use crate::hook::{Entry, Layer};
use crate::names::Names;
use crate::native::Native;
use crate::python::{Depth, Python};
use crate::sink::{self, Session};
use crate::sys::Errno;
use crate::thread::{self, Call};

/// A call that is recorded when it returns, or only counted.
pub trait Plain: Sized {
    /// Whether the call returns handles that [`Plain::register_kinds`] registers, also on a thread that is not
    /// observed.
    const REGISTERS_KINDS: bool = false;
    /// Whether the call decides what the agent may use or query, or puts something on a stream, so that
    /// [`Plain::begins_unrecorded`] takes note of it on a thread without a slot, too.
    const IS_ALWAYS_NOTED: bool = false;
    /// Whether that is so after the session has ended, too: without what [`Plain::begins_unrecorded`] does, the call would not
    /// return what it does without the agent.
    const OUTLIVES_SESSION: bool = false;
    /// The kind of record that a successful call makes: a runtime call uses it to check whether the driver
    /// layer has made the record.
    fn kind(&self) -> Kind {
        Kind::Api
    }
    /// Called before the real call, in the driver layer.
    fn before(&self, _call: &Call) {}
    /// Called after a successful driver call, or after a runtime call whose driver calls were not observed.
    /// Makes the record and returns true, or returns false to have a plain [`record::Api`] made.
    fn after(&self, _call: &Call, _end: u64) -> bool {
        false
    }
    /// Called before the real call, in the runtime layer.
    fn before_runtime(&self, _call: &Call) {}
    /// Called after the real call, in the runtime layer.
    fn after_runtime(&self, _call: &Call, _succeeded: bool) {}
    /// Called after a successful runtime call that the driver layer has recorded.
    fn after_labelled(&self, _call: &Call) {}
    /// Called after a failed driver call. Returns true if something that the agent has done may be the
    /// cause: then that is undone, and the app's call has to be repeated unchanged.
    fn retry(&self) -> bool {
        false
    }
    /// Called after a failed driver call.
    fn failed(&self, _call: &Call) {}
    /// Called after a successful call: registers what the returned handles are. It must not use the
    /// thread's state.
    fn register_kinds(&self, _names: &Names) {}
    /// Called before the real call in the driver layer, where the thread has no slot or the session has ended.
    fn begins_unrecorded(&self, _session: Session, _per_thread: bool) {}
    /// Called after it.
    fn over_unrecorded(&self, _session: Session, _succeeded: bool) {}
    /// The handle that the call is about.
    fn subject(&self) -> u64 {
        0
    }
}

/// Intercepts a call that is of none of the other kinds.
#[inline]
pub fn plain<P: Plain>(entry: Entry, what: impl FnOnce() -> P, real: impl Fn() -> CUresult) -> CUresult {
    let Some(call) = thread::enter(&entry) else {
        // Other threads may use what the call ends, and the poller may query it.
        if P::IS_ALWAYS_NOTED
            && entry.layer == Layer::Driver
            && let Some(session) = noted_in::<P>()
        {
            return unrecorded(session, &what(), entry.per_thread, real);
        }
        let result = real();
        // Another thread may launch a handle that was returned to a thread without a place for its records.
        if P::REGISTERS_KINDS
            && result == CUDA_SUCCESS
            && let Some(session) = sink::existing()
        {
            let errno = Errno::save();
            what().register_kinds(session.get::<Names>());
            errno.restore();
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
    if result != CUDA_SUCCESS && is_driver && what.retry() {
        (result, _, end) = call.real(&real);
    }
    if !is_driver {
        what.after_runtime(&call, result == CUDA_SUCCESS);
    }
    let is_recorded = !is_driver && call.was_recorded(what.kind());
    if is_recorded && result == CUDA_SUCCESS {
        what.after_labelled(&call);
    }
    if !is_recorded {
        let recorded = result == CUDA_SUCCESS && what.after(&call, end);
        if result != CUDA_SUCCESS && is_driver {
            what.failed(&call);
        }
        if !recorded {
            record_call(&call, result, what.subject(), before);
        }
    }
    call.leave(before, end);
    result
}

/// Returns the session in which a call that is not recorded has to be noted, if there is one.
fn noted_in<P: Plain>() -> Option<Session> {
    thread::without_slot().or_else(|| if P::OUTLIVES_SESSION { sink::ended() } else { None })
}

/// Makes a call that is not recorded, and that the agent has to know of.
#[cold]
fn unrecorded(
    session: Session,
    what: &impl Plain,
    per_thread: bool,
    real: impl Fn() -> CUresult,
) -> CUresult {
    let mut errno = Errno::save();
    what.begins_unrecorded(session, per_thread);
    errno.restore();
    let result = real();
    errno = Errno::save();
    what.over_unrecorded(session, result == CUDA_SUCCESS);
    errno.restore();
    result
}

/// Records a call that has no record of its own kind, or that failed. The real function was called at
/// `before` (ticks).
fn record_call(call: &Call, result: CUresult, subject: u64, before: u64) {
    let flags = if result == CUDA_SUCCESS { 0 } else { flag::FAILED };
    record_flagged(call, flags, result, subject, before);
}

/// Does the same, and says by the flags whether it failed.
fn record_flagged(call: &Call, flags: u16, result: CUresult, subject: u64, before: u64) {
    let api = record::Api {
        head: call.head::<record::Api>(flags),
        correlation: call.correlation,
        begin: call.begin,
        end: call.begin,
        caller: call.caller,
        context: 0,
        result,
        subject,
        more: 0,
        inside: call.until(before),
    };
    match stack_of(call, Depth::Whole) {
        StackNumber::NONE => call.record(&api),
        stack => {
            let api = record::Api { head: call.head::<record::ApiOnStack>(flags), ..api };
            call.record(&record::ApiOnStack { api, stack, ..Default::default() });
        }
    }
}

/// Returns the stack of the program that made the call, after the call.
#[inline(always)]
fn stack_of(call: &Call, depth: Depth) -> StackNumber {
    let python = call.session.get::<Python>().stack(call, depth);
    if let Some(both) = call.session.get::<Native>().of_long(call, python) {
        return both;
    }
    if python == StackNumber::NONE { call.launch_stack() } else { python }
}

/// Reads what a successful call wrote to `out`; `None` if that is null.
fn written<T: core::marker::Copy>(out: *const T) -> Option<T> {
    // SAFETY: the call succeeded, so it has written there; null would have failed.
    (!out.is_null()).then(|| unsafe { out.read_unaligned() })
}

/// The current context, for records that have no stream.
fn current_context(call: &Call) -> Option<&'static Context> {
    driver::driver().and_then(|d| call.session.get::<Contexts>().get(call, d, d.current_context()))
}

/// The number of the context of a call on this stream, or without a stream; 0 = unknown.
fn context_number(call: &Call, stream: Option<&Stream>) -> u32 {
    stream.and_then(Stream::context).or_else(|| current_context(call)).map_or(0, |c| c.number)
}

/// The stream that a handle means in this call.
fn stream_of(call: &Call, handle: CUstream) -> Option<&'static Stream> {
    driver::driver().and_then(|d: &Driver| call.session.get::<Streams>().get(call, d, handle))
}
