//! Is this context still the one that we know?
//!
//! A call that may be a context's end (destroy, primary release or reset) and whatever other threads do meanwhile are
//! put in order by the driver's own lock, of which we see nothing: a handle that is met during such a call may mean the
//! old context or one that another thread has just made anew under the same handle. So between its begin and its return
//! nobody uses the handle: the context's `ending` keeps hooks from timing on it, the poller from asking for its events
//! and [`Contexts::get`] from giving it out, and a device whose primary context may be ending takes no context in. Calls
//! that other threads make in those moments are recorded without a stream and not timed; the next one after it meets the
//! context anew. Only a create that returns the handle says for sure that it is another's by then. No lock is held across the real call, which may wait for work that another thread has yet to release.
//!
//! When the call has returned, a context that it has ended is gone for good: what was not read of it is counted. A reset
//! that succeeded has ended it. A primary context's release has ended it if the driver says that there is none now; if
//! there is one, it is the same only when no other thread retained or released it meanwhile: one's retain may have made
//! it anew, and of two releases the one that we counted first may come last. Where it cannot be told, it counts as gone.
//! To take a living context for gone costs a second pool of events and
//! its pending times; to take a dead one for living would be a use of freed events.

use core::cell::Cell;
use core::sync::atomic::Ordering;

use crate::cuda::{CUcontext, CUdevice};
use crate::driver::{self, Driver};
use crate::gpu::context::{Context, Contexts};
use crate::gpu::stream::{Stream, Streams};
use crate::names::Names;
use crate::sink::Session;
use crate::thread::Call;

/// A call that may be the end of contexts, from before it to after it. Never over (its thread is cancelled inside the real
/// call), it leaves them alone for good.
#[derive(Default)]
pub struct Ending(Cell<Vec<&'static Context>>);

impl Ending {
    /// Before the real call, and after [`drain`]: nobody touches the contexts from here on. Their streams' handles mean
    /// nothing any more, nor their functions': behind the call, another thread may already have them as new ones'.
    pub fn begin(&self, session: Session, ends: impl Fn(&Context) -> bool) {
        session.get::<Names>().context_ends();
        let contexts: Vec<&'static Context> = session.get::<Contexts>().iter().filter(|c| ends(c)).collect();
        if contexts.is_empty() {
            return;
        }
        let is_theirs = |c: &Context| contexts.iter().any(|ended| core::ptr::eq(*ended, c));
        // SeqCst, with the holders of streams and the poller's `looks`: who does not see it is seen, and waited for.
        contexts.iter().for_each(|c| _ = c.ending.fetch_add(1, Ordering::SeqCst));
        session.poller.finished(|| streams(session, &is_theirs).all(|s| !s.is_held()));
        session.poller.let_leave();
        contexts.iter().for_each(|c| session.get::<Streams>().abandon(c));
        self.0.set(contexts);
    }

    /// After it: they are gone, or they are not.
    pub fn over(&self, call: &Call, gone: bool) {
        for context in self.0.take() {
            if !gone {
                context.ending.fetch_sub(1, Ordering::SeqCst);
                continue;
            }
            // `ending` stays: nobody who still has it at hand uses it.
            call.session.get::<Contexts>().ended(call, context);
            call.session.poller.wake(); // what is lost of it is told
        }
    }
}

/// Waits, but not for long, until what is pending on these contexts now is read. Other threads may go on launching.
pub fn drain(session: Session, ends: impl Fn(&Context) -> bool) {
    let pending: Vec<(&Stream, u64)> = streams(session, &ends).map(|s| (s, s.unread().1)).collect();
    session.poller.drain(|| pending.iter().all(|(stream, behind)| stream.unread().0 >= *behind));
}

/// The streams of some contexts.
fn streams(session: Session, of: &impl Fn(&Context) -> bool) -> impl Iterator<Item = &'static Stream> {
    session.get::<Streams>().iter().filter(move |s| s.context().is_some_and(of))
}

/// A call has just made the context with this handle: whichever had it before is gone.
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
    /// This may be its end.
    may_end: Cell<bool>,
    /// Other calls that retain, release or reset it, and that were over when this one began.
    others: Cell<u64>,
}

impl PrimaryEnding {
    /// Before the real call.
    pub fn begin(&self, session: Session, device: CUdevice, is_reset: bool) {
        let Some(primary) = session.get::<Contexts>().primary(device) else { return };
        // Relaxed: the driver's lock, or `retained`, orders those that matter.
        self.others.set(primary.call_counts.done());
        primary.call_counts.begin();
        if !primary.release() && !is_reset {
            return;
        }
        let ends = |c: &Context| c.device == device as u32 && primary.is(c);
        drain(session, ends);
        self.may_end.set(true);
        // SeqCst, with `adopt`: either it sees this and takes none in, or we see what it took in.
        primary.ending.fetch_add(1, Ordering::SeqCst);
        self.ending.begin(session, ends);
    }

    /// After it.
    pub fn over(&self, call: &Call, device: CUdevice, is_reset: bool, succeeded: bool) {
        let Some(primary) = call.session.get::<Contexts>().primary(device) else { return };
        if self.may_end.take() {
            let is_active = || driver::driver().is_some_and(|d| d.is_primary_active(device));
            // In this order: a retain that made it active has begun before.
            let begun = || primary.call_counts.begun();
            let is_the_same = || is_active() && begun() == self.others.get() + 1;
            if succeeded && is_reset {
                primary.retained.store(0, Ordering::Release); // from here on each release may be the end
            }
            self.ending.over(call, succeeded && (is_reset || !is_the_same()));
            primary.ending.fetch_sub(1, Ordering::SeqCst);
        }
        primary.call_counts.end();
    }
}
