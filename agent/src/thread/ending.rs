//! What is left to do for a thread before it, or its process, ends.

use core::ffi::c_void;
use gpuspy_wire::record::flag;

use super::{Magazine, State, THREAD, Thread};
use crate::sink::{self, Session};

/// Publishes, before the process ends, the calling thread's queries that are not recorded yet. Those of other threads
/// are lost: these may be running, and their state is theirs.
pub fn exiting() {
    let Some(session) = sink::existing() else { return };
    let state = THREAD.with(core::ptr::from_ref);
    // SAFETY: as in `enter`.
    let own = unsafe { &*state };
    // In an exit handler, only a hook that called exit can be in progress.
    if own.thread.is_busy() {
        return;
    }
    own.thread.hold();
    // SAFETY: held by this frame alone; the borrow ends before the release.
    let t = unsafe { own.thread.get() };
    if t.out.session == Some(session) {
        t.out.push_queries();
    }
    own.thread.release();
}

/// A thread that ends, for the parts of the session that keep something of it.
pub struct Leaving<'a> {
    pub session: Session,
    /// [`Call::thread_identity`](super::Call::thread_identity) of its calls.
    pub identity: u64,
    thread: &'a mut Thread,
}

impl Leaving<'_> {
    /// Publishes a record.
    pub fn push(&mut self, words: &[u64]) {
        self.thread.out.push(words);
    }

    /// Returns its free events.
    pub fn events(&mut self) -> &mut Magazine {
        &mut self.thread.events
    }
}

/// Runs at the thread's end, in the session key's destructor: publishes what waits, lets the session's parts give up
/// what they keep for the thread (`parts`), and closes the slot for the collector to drain and free. CUDA calls in
/// later destructors claim another slot.
///
/// # Safety
/// The state is what [`Live::claim`] was given on this thread.
pub unsafe fn ended(state: *mut c_void, parts: impl FnOnce(&mut Leaving<'_>)) {
    // SAFETY: the address of this thread's state, given to pthread_setspecific by `adopt`; thread-locals of the main
    // program's threads outlive key destructors in glibc (both run in start_thread before the stack goes).
    let own = unsafe { &*state.cast::<State>() };
    let Some(session) = sink::existing() else { return };
    own.thread.hold();
    // SAFETY: held by this frame alone: all other frames of the thread have returned or were left without returning.
    // The borrow ends before the release.
    let t = unsafe { own.thread.get() };
    if t.out.session != Some(session) {
        own.thread.release();
        return; // this is a forked child: the slot is the parent's
    }
    t.flush_pending(flag::SCOPE_LOST);
    t.push_behind(None);
    t.out.push_queries();
    parts(&mut Leaving { session, identity: state as u64, thread: t });
    own.counts_at(session, None);
    t.out.close();
    own.thread.release();
}
