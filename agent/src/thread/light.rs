//! A call that is entered and left with less than others: a launch of the driver's API, which is its thread's only call or the
//! first inside a launch of the runtime's, while nothing waits to go out. Its record is stored before the real call, when all
//! that it needs is at hand: in the ring, where it is published after the real call, or where records wait for the runtime's
//! call to return.
//!
//! What it begins with, and how it is known that a call can be one, is in [`entered`](super::entered).

use core::hint::cold_path;
use gpuspy_wire::in_progress;
use gpuspy_wire::record::{self, Kind, StackNumber, Via};

use super::call::Call;
use super::entered::{Around, Entered, INSIDE, OUTERMOST, mark};
use super::out::{CORRELATION_WORD, LAUNCH_WORDS, PreparedLaunch, SUBMITTED_WORD};
use super::{END_WORD, NO_SCOPE, Scope, State, THREAD};
use crate::hook::Entry;
use crate::sink::Session;
use crate::sys::Caller;

/// A light call. Its thread's state is held, except during the real call.
#[derive(Clone, Copy)]
pub struct LightCall<const IS_INSIDE: bool>(Entered);

/// A light call of either kind.
pub enum AnyLightCall {
    Outermost(LightCall<OUTERMOST>),
    Inside(LightCall<INSIDE>),
}

/// A record that is stored until the real call has returned.
pub enum Stored {
    InRing(PreparedLaunch),
    /// It waits for the runtime's call to return.
    Waiting,
}

/// Enters a hook with a light call, if the call can be one; nothing is changed otherwise. The session is this process's and
/// [lives](crate::sink::Live::is_alive), and the hook is of the driver's layer and has this frame.
#[inline(always)]
pub fn enter_light(session: Session, frame: u64) -> Option<AnyLightCall> {
    let state = THREAD.with(core::ptr::from_ref);
    if let Some(call) = LightCall::enter(session, state, frame) {
        return Some(AnyLightCall::Outermost(call));
    }
    LightCall::enter(session, state, frame).map(AnyLightCall::Inside)
}

impl<const IS_INSIDE: bool> LightCall<IS_INSIDE> {
    #[inline(always)]
    fn enter(session: Session, state: *const State, frame: u64) -> Option<Self> {
        let entered = Entered::enter::<IS_INSIDE>(session, state)?;
        if IS_INSIDE && entered.thread().runtime.frame <= frame {
            // The runtime's call was left without returning: see `discard_scopes`.
            cold_path();
            entered.thread().out.give_back_correlation();
            entered.own().thread.release();
            return None;
        }
        Some(LightCall(entered))
    }

    /// Leaves the hook before the real call: the call cannot be a light one. Another call gets its correlation.
    pub fn give_up(self) {
        self.0.thread().out.give_back_correlation();
        self.0.own().rest(self.0.session);
    }

    /// Returns the call that the record is of, and how it came to the driver.
    #[inline(always)]
    fn outermost(&self, entry: Entry) -> (in_progress::Call, Via) {
        if IS_INSIDE {
            let Scope { api, begin, caller, .. } = self.0.thread().runtime;
            (in_progress::Call { api, caller, since: begin }, Via::RuntimeDriver)
        } else {
            let call =
                in_progress::Call { api: entry.api, caller: entry.caller.address, since: self.0.entered };
            (call, Via::Driver)
        }
    }

    /// Begins the call's record.
    #[inline(always)]
    pub fn work(&self, entry: Entry, flags: u16) -> record::Work {
        let (in_progress::Call { api, caller, since }, via) = self.outermost(entry);
        let head = record::Head::new::<record::Launch>();
        record::Work {
            head: record::Head { api, via: via as u8, flags, ..head },
            correlation: self.0.correlation,
            begin: since,
            caller,
            ..record::Work::default()
        }
    }

    /// Returns the native stack of the launch; none if there is none.
    #[inline(always)]
    pub fn launch_stack(&self) -> StackNumber {
        if IS_INSIDE { self.0.thread().runtime.stack } else { StackNumber::NONE }
    }

    /// Stores the call's record until [`leave`](Self::leave). `None` if it is not certain that there is room for it, or if
    /// something has to go out before it by now.
    #[inline(always)]
    pub fn store(&self, record: record::Launch) -> Option<Stored> {
        let t = self.0.thread();
        if !IS_INSIDE {
            return t.out.prepare(record).map(Stored::InRing);
        }
        let cells = record.to_cells();
        let words = cells.as_flattened();
        if t.pending_words != 0 || t.pending.len() < words.len() {
            return None;
        }
        t.pending.iter_mut().zip(words).for_each(|(waiting, word)| *waiting = *word);
        Some(Stored::Waiting)
    }

    /// Makes the real call. Returns its result, and the ticks around it. A light call does not change errno.
    #[inline(always)]
    pub fn real<R>(&self, entry: Entry, real: impl FnOnce() -> R) -> (R, Around) {
        let t = self.0.thread();
        t.out.count_call();
        // What a hook that is entered inside looks at.
        t.driver.frame = entry.caller.frame;
        if !IS_INSIDE {
            let (call, _) = self.outermost(entry);
            t.out.enter_call(call);
        }
        self.0.own().thread.release();
        self.0.real(real)
    }

    /// Publishes the record after the real call, or lets it wait for the runtime's call, and leaves the hook. Returns false, and
    /// does neither, if another hook that was entered meanwhile has recorded something: then the record is gone, and the call
    /// [becomes a usual one](Self::into_call).
    #[inline(always)]
    pub fn leave(&self, stored: Stored, around: Around) -> bool {
        self.0.own().thread.hold();
        let (t, after) = (self.0.thread(), around.after);
        match stored {
            Stored::InRing(prepared) if t.out.has(&prepared) => {
                t.out.publish(prepared, after);
                t.out.leave_call();
            }
            // A handler on a stack above this one takes our scopes as abandoned, and its record takes the place of ours.
            Stored::Waiting
                if t.pending_words == 0 && t.pending.get(CORRELATION_WORD) == Some(&self.0.correlation) =>
            {
                for at in [END_WORD, SUBMITTED_WORD] {
                    if let Some(word) = t.pending.get_mut(at) {
                        *word = after;
                    }
                }
                t.pending_words = LAUNCH_WORDS;
                t.runtime.recorded |= 1 << Kind::Launch as u32;
            }
            _ => return false,
        }
        t.driver.frame = 0;
        self.0.count_own(around);
        if IS_INSIDE {
            self.0.own().thread.release();
        } else {
            self.0.own().thread.release_with(mark::<OUTERMOST>(self.0.session));
        }
        true
    }

    /// Goes on as a usual call, of which the real one has been made.
    pub fn into_call(self, entry: Entry) -> Call {
        self.0.own().thread.hold();
        let t = self.0.thread();
        t.errno = t.errno_place.get();
        let Entry { caller: Caller { address: caller, frame }, api, .. } = entry;
        t.driver = Scope { frame, api, begin: self.0.entered, caller, ..NO_SCOPE };
        let call = self.as_call(entry);
        if IS_INSIDE && t.runtime.frame == 0 {
            // A handler on a stack above this one has taken the runtime's call as abandoned, and what is known of it is gone.
            return Call { api, begin: self.0.entered, caller, ..call };
        }
        call
    }

    /// Returns the call as others see it, which they do not leave.
    #[inline(always)]
    pub fn as_call(&self, entry: Entry) -> Call {
        let (call, via) = self.outermost(entry);
        self.0.as_call(entry, call, via)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hook::Layer;
    use core::ptr::NonNull;

    /// The launch went out as the handler's record with another end, and the handler's record went out twice.
    #[test]
    fn a_handlers_record_on_a_stack_above_is_not_taken_for_the_launch_that_it_interrupted() {
        let state = State::new();
        // SAFETY: only its address is used.
        let session = unsafe { Session::new(NonNull::dangling()) };
        let call = LightCall::<INSIDE>(Entered {
            session,
            state: &state,
            entered: 70,
            correlation: 5,
            is_measured: false,
        });
        let caller = Caller { address: 0x1234, frame: 100 };
        let entry = Entry { caller, layer: Layer::Driver, per_thread: false, api: 9 };
        let around = Around { before: 71, after: 90 };
        state.thread.hold();
        call.0.thread().runtime = Scope { frame: 200, api: 3, begin: 60, caller: 0x5678, ..NO_SCOPE };
        let launch = || record::Launch { work: call.work(entry, 0), ..record::Launch::default() };

        let stored = call.store(launch()).unwrap();
        assert!(call.leave(stored, around), "nothing has come in between");
        state.thread.hold();
        let t = call.0.thread();
        assert_eq!(
            (t.pending_words, t.pending[CORRELATION_WORD], t.pending[END_WORD]),
            (LAUNCH_WORDS, 5, 90)
        );
        t.pending_words = 0;

        let stored = call.store(launch()).unwrap();
        // The handler has discarded the scopes, and its record, which has gone out, was where the launch's waited.
        let t = call.0.thread();
        t.runtime = NO_SCOPE;
        t.driver = NO_SCOPE;
        t.pending = [7; super::super::PENDING_WORDS];
        assert!(!call.leave(stored, around));
        assert_eq!((call.0.thread().pending_words, call.0.thread().pending[END_WORD]), (0, 7));
        let usual = call.into_call(entry);
        let told = (usual.api, usual.begin, usual.caller, usual.correlation, usual.via);
        assert_eq!(told, (9, 70, 0x1234, 5, Via::RuntimeDriver));
    }
}
