//! Is this context still the one that its handle meant before?
//!
//! A call that may end a context (destroy, primary release or reset) and the concurrent calls of other
//! threads are ordered by the driver's own lock, which the agent cannot see: a handle that is met during such
//! a call may mean the old context, or one that another thread has just created under the same handle. So
//! from the start of such a call to its return the agent does not use the handle. The context's `ending`
//! keeps hooks from timing on it, the poller from querying its events and [`Contexts::get`] from returning
//! it, and no context is adopted on a device whose primary context may be ending. Calls that other threads
//! make during that time are recorded without a stream and not timed; the next call after it adopts the
//! context again. Only a create call that returns the handle proves that it means another context by then. No
//! lock is held across the real call, which may wait for work that another thread has yet to release.
//!
//! When the call has returned, a context that it has ended is gone for good, and its unread operations are
//! counted as lost. A successful reset has ended it. A primary context's release has ended it if the driver
//! says that the primary context is not active now. If it is active, it is the same context only if no other
//! thread retained or released it meanwhile: a retain may have created it again, and of two releases the one
//! that was counted first may come last. In doubt it counts as gone. Taking a live context for gone costs a
//! second event pool and the pending times; taking a dead one for alive would use freed events.

use core::cell::Cell;
use core::sync::atomic::Ordering;

use crate::cuda::{CUcontext, CUdevice};
use crate::driver::{self, Driver};
use crate::gpu::context::{Context, Contexts};
use crate::gpu::stream::{Stream, Streams};
use crate::gpu::stream_capture::StreamCaptures;
use crate::names::Names;
use crate::sink::Session;
use crate::thread::Call;

/// A call that may end contexts, from before it to after it. If it never returns (its thread is cancelled
/// inside the real call), the agent leaves those contexts alone for good.
#[derive(Default)]
pub struct Ending(Cell<Vec<&'static Context>>);

impl Ending {
    /// Keeps the agent away from the contexts, before the real call and after [`drain`]. The handles of their
    /// streams and functions mean nothing any more: after the call, another thread may already have them as
    /// handles of new ones.
    pub fn begin(&self, session: Session, ends: impl Fn(&Context) -> bool) {
        session.get::<Names>().context_ends();
        let contexts: Vec<&'static Context> = session.get::<Contexts>().iter().filter(|c| ends(c)).collect();
        if contexts.is_empty() {
            return;
        }
        let is_theirs = |c: &Context| contexts.iter().any(|ended| core::ptr::eq(*ended, c));
        // SeqCst pairs with the holders of streams and the poller's `polls`: a holder or poller that does not
        // see it is seen here, and waited for.
        contexts.iter().for_each(|c| _ = c.ending.fetch_add(1, Ordering::SeqCst));
        session.poller.finished(|| streams(session, &is_theirs).all(|s| !s.is_held()));
        session.poller.let_leave();
        contexts.iter().for_each(|c| session.get::<Streams>().abandon(c));
        self.0.set(contexts);
    }

    /// Forgets the contexts after the real call if they are gone, or makes them usable again. Without a `call` their ends are
    /// not recorded.
    pub fn over(&self, session: Session, call: Option<&Call>, gone: bool) {
        for context in self.0.take() {
            if !gone {
                context.ending.fetch_sub(1, Ordering::SeqCst);
                continue;
            }
            // `ending` is not lowered, so that no thread that still has a reference uses the context.
            match call {
                Some(call) => session.get::<Contexts>().ended(call, context),
                None => _ = session.get::<Contexts>().forget(context),
            }
            session.get::<StreamCaptures>().context_ended(core::ptr::from_ref(context) as u64);
            session.poller.wake(); // the poller reports what is lost of it
        }
    }
}

/// Waits until the operations that are pending on these contexts now are read, as long as [`drain`](crate::sink::poller::Shared::drain)
/// does at most. Other threads may go on launching.
pub fn drain(session: Session, ends: impl Fn(&Context) -> bool) {
    let pending: Vec<(&Stream, u64)> = streams(session, &ends).map(|s| (s, s.unread().1)).collect();
    session.poller.drain(|| pending.iter().all(|(stream, behind)| stream.unread().0 >= *behind));
}

/// The streams of the contexts that `of` accepts.
fn streams(session: Session, of: &impl Fn(&Context) -> bool) -> impl Iterator<Item = &'static Stream> {
    session.get::<Streams>().iter().filter(move |s| s.context().is_some_and(of))
}

/// Takes note that a call has just created the context with this handle. A context that had the handle
/// before is gone.
pub fn made(call: &Call, driver: &Driver, handle: CUcontext) {
    let contexts = call.session.get::<Contexts>();
    if let Some(old) = contexts.iter().find(|c| c.handle == handle as u64) {
        call.session.get::<Streams>().abandon(old);
        contexts.ended(call, old);
    }
    contexts.get(call, driver, handle);
}

/// A release or reset of a device's primary context.
#[derive(Default)]
pub struct PrimaryEnding {
    ending: Ending,
    /// Whether this call may end it.
    may_end: Cell<bool>,
    /// The number of other calls that retain, release or reset it and were over when this one began.
    others: Cell<u64>,
}

impl PrimaryEnding {
    /// Starts the ending before the real call, if the call may end the context.
    pub fn begin(&self, session: Session, device: CUdevice, is_reset: bool) {
        let Some(primary) = session.get::<Contexts>().primary(device) else { return };
        // Relaxed: the driver's lock, or `retained`, orders the calls that matter.
        self.others.set(primary.call_counts.done());
        primary.call_counts.begin();
        if !primary.release() && !is_reset {
            return;
        }
        let ends = |c: &Context| c.device == device as u32 && primary.is(c);
        drain(session, ends);
        self.may_end.set(true);
        // SeqCst pairs with `adopt`: either it sees this and adopts no context, or this thread sees the
        // context that it adopted.
        primary.ending.fetch_add(1, Ordering::SeqCst);
        self.ending.begin(session, ends);
    }

    /// Completes the ending after the real call.
    pub fn over(
        &self,
        session: Session,
        call: Option<&Call>,
        device: CUdevice,
        is_reset: bool,
        succeeded: bool,
    ) {
        let Some(primary) = session.get::<Contexts>().primary(device) else { return };
        if self.may_end.take() {
            let is_active = || driver::driver().is_some_and(|d| d.is_primary_active(device));
            // The order matters: a retain that made it active has begun before.
            let begun = || primary.call_counts.begun();
            let is_the_same = || is_active() && begun() == self.others.get() + 1;
            if succeeded && is_reset {
                primary.retained.store(0, Ordering::Release); // from here on each release may be the end
            }
            self.ending.over(session, call, succeeded && (is_reset || !is_the_same()));
            primary.ending.fetch_sub(1, Ordering::SeqCst);
        }
        primary.call_counts.end();
    }
}
