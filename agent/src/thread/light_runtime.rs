//! A launch of the runtime's API that is entered and left with less than other calls: the thread's only one, while nothing waits to
//! go out and nothing is timed. The driver's call inside it makes the record, mostly as a [light call](super::light), and it
//! goes out when this one returns.

use gpuspy_wire::in_progress;
use gpuspy_wire::record::{Kind, Via};

use super::call::Call;
use super::entered::{Around, Entered, INSIDE, OUTERMOST, mark};
use super::out::LAUNCH_WORDS;
use super::{END_WORD, NO_SCOPE, Scope, THREAD};
use crate::hook::Entry;
use crate::sink::Session;

/// Such a call. Its correlation is its own record's, which it has if the driver's call inside it makes none.
#[derive(Clone, Copy)]
pub struct LightRuntimeCall(Entered);

impl LightRuntimeCall {
    /// Enters a hook with such a call, if the call can be one; nothing is changed otherwise. The session is this process's and
    /// [lives](crate::sink::Live::is_alive), and the hook is of the runtime's layer.
    #[inline(always)]
    pub fn enter(session: Session, entry: Entry) -> Option<LightRuntimeCall> {
        let call = LightRuntimeCall(Entered::enter::<OUTERMOST>(session, THREAD.with(core::ptr::from_ref))?);
        let t = call.0.thread();
        let in_progress::Call { api, caller, since } = call.told(entry);
        t.runtime = Scope { frame: entry.caller.frame, api, begin: since, caller, ..NO_SCOPE };
        t.out.count_call();
        t.out.enter_call(call.told(entry));
        Some(call)
    }

    /// Returns what its record says of it.
    #[inline(always)]
    fn told(&self, entry: Entry) -> in_progress::Call {
        in_progress::Call { api: entry.api, caller: entry.caller.address, since: self.0.entered }
    }

    /// Makes the real call, in which the driver's may be a light one. Returns its result, and the ticks around it. Nothing of ours
    /// before or after it changes errno.
    #[inline(always)]
    pub fn real<R>(&self, real: impl FnOnce() -> R) -> (R, Around) {
        // Nothing has come to wait since the state was at rest.
        self.0.own().thread.release_with(mark::<INSIDE>(self.0.session));
        self.0.real(real)
    }

    /// Publishes the launch that was recorded inside, and leaves the hook. Returns false, and does neither, if that is not all that was
    /// recorded, or if the call was taken as abandoned by a handler on a stack above this one: then it
    /// [becomes a usual one](Self::into_call).
    #[inline(always)]
    pub fn leave(&self, entry: Entry, around: Around) -> bool {
        self.0.own().thread.hold();
        let t = self.0.thread();
        let is_launch = t.pending_words == LAUNCH_WORDS && t.runtime.recorded == 1 << Kind::Launch as u32;
        let is_all = t.behind_words == 0 && t.runtime.frame == entry.caller.frame;
        let Some(launch) = t.pending.get_mut(..LAUNCH_WORDS).filter(|_| is_launch && is_all) else {
            return false;
        };
        if let Some(word) = launch.get_mut(END_WORD) {
            *word = around.after;
        }
        t.runtime = NO_SCOPE;
        t.pending_words = 0;
        t.out.leave_call();
        t.out.push_here(launch);
        self.0.count_own(around);
        self.0.own().rest(self.0.session);
        true
    }

    /// Goes on as a usual call, of which the real one has been made.
    pub fn into_call(self, entry: Entry) -> Call {
        self.0.own().thread.hold();
        let t = self.0.thread();
        t.errno = t.errno_place.get();
        self.as_call(entry)
    }

    /// Returns the call as others see it, which they do not leave.
    #[inline(always)]
    pub fn as_call(&self, entry: Entry) -> Call {
        self.0.as_call(entry, self.told(entry), Via::Runtime)
    }
}

#[cfg(test)]
mod tests {
    use super::super::State;
    use super::*;
    use crate::hook::Layer;
    use crate::sys::Caller;
    use core::ptr::NonNull;

    #[test]
    fn a_launch_of_the_runtimes_is_left_at_once_only_if_a_launch_is_all_that_was_recorded_inside() {
        let state = State::new();
        // SAFETY: only its address is used.
        let session = unsafe { Session::new(NonNull::dangling()) };
        let call = LightRuntimeCall(Entered {
            session,
            state: &state,
            entered: 70,
            correlation: 5,
            is_measured: false,
        });
        let caller = Caller { address: 0x1234, frame: 100 };
        let entry = Entry { caller, layer: Layer::Runtime, per_thread: false, api: 9 };
        let around = Around { before: 71, after: 90 };
        let launch = 1 << Kind::Launch as u32;
        let left = |frame: u64, recorded: u32, words: usize, behind: usize| {
            state.thread.hold();
            let t = call.0.thread();
            t.runtime = Scope { frame, api: 9, begin: 70, caller: 0x1234, recorded, ..NO_SCOPE };
            (t.pending, t.pending_words, t.behind_words) = ([7; super::super::PENDING_WORDS], words, behind);
            let is_left = call.leave(entry, around);
            state.thread.hold();
            let t = call.0.thread();
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
