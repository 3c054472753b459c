//! What the calls begin with that are entered and left with less than others ([`light`](super::light),
//! [`light_runtime`](super::light_runtime)), and how it is known that a call can be one.
//!
//! Whether it can is a comparison: a thread's state has a mark of the session that it records into since the last
//! call that left it so, and each frame that changes the state since has removed the mark. A signal handler may do so between
//! the comparison and the time when the state is held, so that what matters is looked at again then.

use core::hint::cold_path;
use gpuspy_wire::in_progress;
use gpuspy_wire::record::Via;

use super::call::{ALIKE, Call, Measured, stands_for_many};
use super::{State, Thread};
use crate::guarded::Mark;
use crate::hook::Entry;
use crate::sink::{Live, Session};
use crate::sys;

impl State {
    /// Releases the state, which this frame holds, and marks it if the next call can be a light one.
    #[inline(always)]
    pub(super) fn rest(&self, session: Session) {
        // SAFETY: this frame holds the state, or it would not release it; the borrow ends before that.
        if unsafe { self.thread.get() }.is_at_rest(session) && sys::has_counter() {
            self.thread.release_with(mark::<OUTERMOST>(session));
        } else {
            self.thread.release();
        }
    }

    /// Does the same for the time of the real call of a launch of the runtime's.
    #[inline(always)]
    pub(super) fn lend(&self, session: Session) {
        // SAFETY: as above.
        if unsafe { self.thread.get() }.pending_words == 0 && sys::has_counter() {
            self.thread.release_with(mark::<INSIDE>(session));
        } else {
            self.thread.release();
        }
    }
}

impl Thread {
    /// Whether no call is open and nothing waits to go out, for which there is a way in this session.
    #[inline(always)]
    fn is_at_rest(&self, session: Session) -> bool {
        let is_open = self.driver.frame | self.runtime.frame != 0;
        let waits = self.pending_words | self.behind_words != 0;
        !is_open && !waits && self.out.leads_to(session) && self.out.is_clear()
    }
}

/// The two kinds of light calls: the thread's only one, and one in a launch of the runtime's.
pub(super) const OUTERMOST: bool = false;
pub(super) const INSIDE: bool = true;

/// The mark of a state in which the next call can be a light one of this kind.
#[inline(always)]
pub(super) fn mark<const IS_INSIDE: bool>(session: Session) -> Mark {
    let mark = Mark::at::<Live>(session.as_ptr());
    if IS_INSIDE { mark.other() } else { mark }
}

/// The ticks around a real call; those before it are the entry's if our own time is not measured.
#[derive(Clone, Copy)]
pub struct Around {
    pub before: u64,
    pub after: u64,
}

/// Such a call. Its thread's state is held, except during the real call.
#[derive(Clone, Copy)]
pub struct Entered {
    pub(super) session: Session,
    pub(super) state: *const State,
    /// Ticks when the hook was entered.
    pub(super) entered: u64,
    /// The correlation of the call's record.
    pub(super) correlation: u64,
    /// Whether our own time in it is measured, for many.
    pub(super) is_measured: bool,
}

impl Entered {
    /// Holds the calling thread's state, which is at `state`, if it has this kind's mark of the session; nothing is changed otherwise.
    #[inline(always)]
    pub(super) fn enter<const IS_INSIDE: bool>(session: Session, state: *const State) -> Option<Entered> {
        // SAFETY: as in `enter` of the module above.
        let own = unsafe { &*state };
        if !own.thread.has(mark::<IS_INSIDE>(session)) {
            return None;
        }
        own.thread.hold();
        // The mark says that ticks are the counter's.
        let entered = sys::counter();
        // SAFETY: held by this frame alone; the borrow ends before the real call.
        let correlation = unsafe { own.thread.get() }.out.next_correlation();
        Some(Entered { session, state, entered, correlation, is_measured: stands_for_many(correlation) })
    }

    #[inline(always)]
    pub(super) fn own(&self) -> &State {
        // SAFETY: as in `enter`; made there on this thread.
        unsafe { &*self.state }
    }

    /// Returns the thread's state. A borrow never lasts across the real call.
    #[inline(always)]
    #[allow(clippy::mut_from_ref, reason = "the state is the thread's, not the call's")]
    pub(super) fn thread(&self) -> &mut Thread {
        // SAFETY: held since `enter` on this thread, which such a call never leaves, except during the real call; borrows end
        // before that, and before the calling function returns.
        unsafe { self.own().thread.get() }
    }

    /// Makes the real call, for whose time the state has been released. Returns its result, and the ticks around it.
    #[inline(always)]
    pub(super) fn real<R>(&self, real: impl FnOnce() -> R) -> (R, Around) {
        let before = if self.is_measured { sys::counter() } else { self.entered };
        let result = real();
        (result, Around { before, after: sys::counter() })
    }

    /// Counts our own time in the call until now, if it is measured.
    #[inline(always)]
    pub(super) fn count_own(&self, Around { before, after }: Around) {
        if self.is_measured {
            cold_path();
            let inside = after.wrapping_sub(before);
            let own = sys::counter().wrapping_sub(self.entered).wrapping_sub(inside);
            self.thread().out.count_own(own.wrapping_mul(ALIKE));
        }
    }

    /// Returns the call as others see it: of this outermost one, by this way.
    #[inline(always)]
    pub(super) fn as_call(&self, entry: Entry, outermost: in_progress::Call, via: Via) -> Call {
        let in_progress::Call { api, caller, since } = outermost;
        Call {
            session: self.session,
            state: self.state,
            entered: self.entered,
            layer: entry.layer,
            per_thread: entry.per_thread,
            api,
            begin: since,
            caller,
            correlation: self.correlation,
            via,
            measured: if self.is_measured { Measured::ForMany } else { Measured::ByOthers },
        }
    }
}
