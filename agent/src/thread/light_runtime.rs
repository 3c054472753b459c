//! A launch of the runtime's API that is entered and left with less than other calls: the thread's only one, while nothing waits to
//! go out and nothing is timed. The driver's call inside it makes the record, mostly as a [light call](super::light), and it
//! goes out when this one returns.

use core::hint::cold_path;
use gpuspy_wire::in_progress;
use gpuspy_wire::record::{Kind, Via};

use super::call::{ALIKE, Call, Measured, stands_for_many};
use super::light::{Around, INSIDE, OUTERMOST, mark};
use super::out::LAUNCH_WORDS;
use super::{END_WORD, NO_SCOPE, Scope, State, THREAD, Thread};
use crate::hook::Entry;
use crate::sink::Session;
use crate::sys::{self, Caller};

/// Such a call. Its thread's state is held, except during the real call.
#[derive(Clone, Copy)]
pub struct LightRuntimeCall {
    session: Session,
    state: *const State,
    /// Ticks when the hook was entered.
    entered: u64,
    /// The correlation of the call's own record, which it has if the driver's call inside it makes none.
    correlation: u64,
    /// Whether our own time in it is measured, for many.
    is_measured: bool,
}

impl LightRuntimeCall {
    /// Enters a hook with such a call, if the call can be one; nothing is changed otherwise. The session is this process's and
    /// [lives](crate::sink::Live::is_alive), and the hook is of the runtime's layer.
    #[inline(always)]
    pub fn enter(session: Session, entry: Entry) -> Option<LightRuntimeCall> {
        let state = THREAD.with(core::ptr::from_ref);
        // SAFETY: as in `enter` of the module above.
        let own = unsafe { &*state };
        if !own.thread.has(mark::<OUTERMOST>(session)) {
            return None;
        }
        own.thread.hold();
        // The mark says that ticks are the counter's.
        let entered = sys::counter();
        // SAFETY: held by this frame alone; the borrow ends before the real call.
        let t = unsafe { own.thread.get() };
        let correlation = t.out.next_correlation();
        let Entry { caller: Caller { address: caller, frame }, api, .. } = entry;
        t.runtime = Scope { frame, api, begin: entered, caller, ..NO_SCOPE };
        t.out.count_call();
        t.out.enter_call(in_progress::Call { api, caller, since: entered });
        let is_measured = stands_for_many(correlation);
        Some(LightRuntimeCall { session, state, entered, correlation, is_measured })
    }

    #[inline(always)]
    fn own(&self) -> &State {
        // SAFETY: as in `enter`; made there on this thread.
        unsafe { &*self.state }
    }

    /// Returns the thread's state. A borrow never lasts across the real call.
    #[inline(always)]
    #[allow(clippy::mut_from_ref, reason = "the state is the thread's, not the call's")]
    fn thread(&self) -> &mut Thread {
        // SAFETY: held since `enter` on this thread, which such a call never leaves, except during the real call; borrows end
        // before that, and before the calling function returns.
        unsafe { self.own().thread.get() }
    }

    /// Makes the real call, in which the driver's may be a light one. Returns its result, and the ticks around it. Nothing of ours
    /// before or after it changes errno.
    #[inline(always)]
    pub fn real<R>(&self, real: impl FnOnce() -> R) -> (R, Around) {
        // Nothing has come to wait since the state was at rest.
        self.own().thread.release_with(mark::<INSIDE>(self.session));
        let before = if self.is_measured { sys::counter() } else { self.entered };
        let result = real();
        (result, Around { before, after: sys::counter() })
    }

    /// Publishes the launch that was recorded inside, and leaves the hook. Returns false, and does neither, if that is not all that was
    /// recorded, or if the call was taken as abandoned by a handler on a stack above this one: then it
    /// [becomes a usual one](Self::into_call).
    #[inline(always)]
    pub fn leave(&self, entry: Entry, Around { before, after }: Around) -> bool {
        self.own().thread.hold();
        let t = self.thread();
        let is_launch = t.pending_words == LAUNCH_WORDS && t.runtime.recorded == 1 << Kind::Launch as u32;
        let is_all = t.behind_words == 0 && t.runtime.frame == entry.caller.frame;
        let Some(launch) = t.pending.get_mut(..LAUNCH_WORDS).filter(|_| is_launch && is_all) else {
            return false;
        };
        if let Some(word) = launch.get_mut(END_WORD) {
            *word = after;
        }
        t.runtime = NO_SCOPE;
        t.pending_words = 0;
        t.out.leave_call();
        t.out.push_here(launch);
        if self.is_measured {
            cold_path();
            let inside = after.wrapping_sub(before);
            let own = sys::counter().wrapping_sub(self.entered).wrapping_sub(inside);
            t.out.count_own(own.wrapping_mul(ALIKE));
        }
        self.own().rest(self.session);
        true
    }

    /// Goes on as a usual call, of which the real one has been made.
    pub fn into_call(self, entry: Entry) -> Call {
        self.own().thread.hold();
        let t = self.thread();
        t.errno = t.errno_place.get();
        self.as_call(entry)
    }

    /// Returns the call as others see it, which they do not leave.
    #[inline(always)]
    pub fn as_call(&self, entry: Entry) -> Call {
        Call {
            session: self.session,
            state: self.state,
            entered: self.entered,
            layer: entry.layer,
            per_thread: entry.per_thread,
            api: entry.api,
            begin: self.entered,
            caller: entry.caller.address,
            correlation: self.correlation,
            via: Via::Runtime,
            measured: if self.is_measured { Measured::ForMany } else { Measured::ByOthers },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hook::Layer;
    use core::ptr::NonNull;

    #[test]
    fn a_launch_of_the_runtimes_is_left_at_once_only_if_a_launch_is_all_that_was_recorded_inside() {
        let state = State::new();
        // SAFETY: only its address is used.
        let session = unsafe { Session::new(NonNull::dangling()) };
        let call =
            LightRuntimeCall { session, state: &state, entered: 70, correlation: 5, is_measured: false };
        let caller = Caller { address: 0x1234, frame: 100 };
        let entry = Entry { caller, layer: Layer::Runtime, per_thread: false, api: 9 };
        let around = Around { before: 71, after: 90 };
        let launch = 1 << Kind::Launch as u32;
        let left = |frame: u64, recorded: u32, words: usize, behind: usize| {
            state.thread.hold();
            let t = call.thread();
            t.runtime = Scope { frame, api: 9, begin: 70, caller: 0x1234, recorded, ..NO_SCOPE };
            (t.pending, t.pending_words, t.behind_words) = ([7; super::super::PENDING_WORDS], words, behind);
            let is_left = call.leave(entry, around);
            state.thread.hold();
            let t = call.thread();
            (is_left, t.runtime.frame, t.pending_words, t.pending[END_WORD])
        };
        assert_eq!(left(100, launch, LAUNCH_WORDS, 0), (true, 0, 0, 90));
        let also = 1 << Kind::Api as u32;
        for (recorded, words, behind) in [
            (launch | also, LAUNCH_WORDS, 0),
            (launch, LAUNCH_WORDS, LAUNCH_WORDS),
            (launch, 0, 0),
            (0, 0, 0),
        ] {
            assert_eq!(
                left(100, recorded, words, behind),
                (false, 100, words, 7),
                "{recorded:b} {words} {behind}"
            );
        }
        assert_eq!(
            left(0, launch, LAUNCH_WORDS, 0),
            (false, 0, LAUNCH_WORDS, 7),
            "a handler took it as abandoned"
        );
        let usual = call.into_call(entry);
        let told = (usual.api, usual.begin, usual.caller, usual.correlation, usual.via, usual.layer);
        assert_eq!(told, (9, 70, 0x1234, 5, Via::Runtime, Layer::Runtime));
    }
}
