//! A hook that has been entered: what its record begins with, and how it records, makes the real call, and is left.

use gpuspy_wire::record::{Api, Head, Kind, LossCause, Record, StackNumber, Via, flag};

use super::{Depths, END_WORD, Magazine, NO_SCOPE, State, Thread};
use crate::hook::Layer;
use crate::sink::Session;
use crate::sys::{Caller, ticks};

/// Whether the ticks that our own code takes in a call are measured. Reading the clock takes as long as all that is done
/// for a launch that is not timed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Measured {
    /// They are.
    Yes,
    /// They are, for [`ALIKE`] calls that are alike.
    ForMany,
    /// They are not: another call of many that are alike stands for this one.
    ByOthers,
}

/// The number of calls of which one is measured where many are alike; a power of two.
pub(super) const ALIKE: u64 = 64;

/// Whether the call with this correlation is one of those that are measured.
///
/// Multiplication by the golden ratio spreads numbers in a row evenly (Knuth, TAOCP vol. 3, 6.4): of the calls that come
/// again in each step of a program, each is measured as often as the others, however many calls a step has.
#[inline(always)]
pub(super) fn stands_for_many(correlation: u64) -> bool {
    correlation.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (64 - ALIKE.trailing_zeros()) == 0
}

/// A hook that has been entered, with what its record begins with.
#[derive(Clone, Copy)]
pub struct Call {
    pub session: Session,
    pub(super) state: *const State,
    /// Ticks when the hook was entered.
    pub(super) entered: u64,
    pub layer: Layer,
    pub per_thread: bool,
    /// The outermost call's API, entry time (ticks) and caller, and the correlation of this call's record.
    pub api: u16,
    pub begin: u64,
    pub caller: u64,
    pub correlation: u64,
    pub via: Via,
    pub(super) measured: Measured,
}

impl Call {
    /// Returns the thread's state. A borrow never lasts across the real call.
    #[inline(always)]
    #[allow(clippy::mut_from_ref, reason = "the state is the thread's, not the call's")]
    fn thread(&self) -> &mut Thread {
        // SAFETY: held since `enter` on this thread, which a Call never leaves, except during the real call; borrows
        // end before that, and before the calling function returns.
        unsafe { self.own().thread.get() }
    }

    #[inline(always)]
    fn own(&self) -> &State {
        // SAFETY: as in `enter`; made there on this thread.
        unsafe { &*self.state }
    }

    /// Takes the call as one of many that are alike: our own time is measured in some of them only.
    #[inline(always)]
    pub fn is_one_of_many(&mut self) {
        self.measured =
            if stands_for_many(self.correlation) { Measured::ForMany } else { Measured::ByOthers };
    }

    /// Makes the real call with the state released and the app's errno in place, and keeps the errno that it leaves for
    /// the app. Returns its result, and the ticks before and after it. Those before it are the entry's if our own time
    /// is not measured.
    #[inline(always)]
    pub fn real<R>(&self, real: impl FnOnce() -> R) -> (R, u64, u64) {
        let t = self.thread();
        t.errno_place.set(t.errno);
        if self.layer == Layer::Runtime && self.measured != Measured::Yes {
            self.own().lend(self.session);
        } else {
            self.own().thread.release();
        }
        let before = if self.measured == Measured::ByOthers { self.entered } else { ticks() };
        let result = real();
        let after = ticks();
        self.own().thread.hold();
        let t = self.thread();
        t.errno = t.errno_place.get();
        (result, before, after)
    }

    /// Returns the ticks from the outermost call's entry until then, at most the largest number that a record can hold.
    #[inline(always)]
    pub fn until(&self, ticks: u64) -> u32 {
        u32::try_from(ticks.wrapping_sub(self.begin)).unwrap_or(u32::MAX)
    }

    /// Makes the head of a record of this call.
    #[inline(always)]
    pub fn head<R: Record>(&self, flags: u16) -> Head {
        Head { api: self.api, via: self.via as u8, flags, ..Head::new::<R>() }
    }

    /// Returns whether the driver layer has recorded the runtime call's work inside it.
    pub fn was_recorded(&self, kind: Kind) -> bool {
        self.thread().runtime.recorded & (1 << kind as u32) != 0
    }

    /// Sets, for the driver calls inside this runtime call, which file the kernel that they launch is from, and the native
    /// stack of the launch.
    #[inline(always)]
    pub fn hand_down(&self, origin: u64, stack: StackNumber) {
        let runtime = &mut self.thread().runtime;
        (runtime.origin, runtime.stack) = (origin, stack);
    }

    /// Returns the native stack that [`Call::hand_down`] has set; none if there is none.
    #[inline(always)]
    pub fn launch_stack(&self) -> StackNumber {
        self.thread().runtime.stack
    }

    /// Returns where the outermost call was made.
    pub fn outermost(&self) -> Caller {
        let t = self.thread();
        let scope = if t.runtime.frame != 0 { &t.runtime } else { &t.driver };
        Caller { address: scope.caller, frame: scope.frame }
    }

    /// Returns what the runtime call around this one has set with [`Call::hand_down`]; 0 = nothing, or there is no such
    /// call.
    pub fn origin(&self) -> u64 {
        self.thread().runtime.origin
    }

    /// Publishes a record at once, before the call's end is known.
    pub fn publish(&self, record: &impl Record) {
        let t = self.thread();
        t.note(record.as_words());
        t.out.push(record.as_words());
    }

    /// Keeps the call's record until the outermost call returns. A record that waits already is not the last of its
    /// call: it goes out now, marked with `MORE`.
    #[inline(always)]
    pub fn record(&self, record: &impl Record) {
        let t = self.thread();
        let words = record.as_words();
        if self.via == Via::Driver && self.measured == Measured::ByOthers && t.pending_words == 0 {
            // Its end is the driver's, which it has.
            t.out.push_here(words);
            return;
        }
        t.note(words);
        t.flush_pending(flag::MORE);
        if let Some(space) = t.pending.get_mut(..words.len()) {
            space.copy_from_slice(words);
            t.pending_words = words.len();
        }
    }

    /// Sets the end of the record that waits to now: another one of the same call follows.
    pub fn end_record(&self) {
        let t = self.thread();
        if t.pending_words != 0
            && let Some(word) = t.pending.get_mut(END_WORD)
        {
            *word = ticks();
        }
    }

    /// Returns whether this call is inside no other intercepted call.
    pub fn is_outermost(&self) -> bool {
        self.via != Via::RuntimeDriver
    }

    /// Sets which context a query is about, for the outermost call around it.
    pub fn queries_context(&self, context: u32) {
        let t = self.thread();
        let scope = if t.runtime.frame != 0 { &mut t.runtime } else { &mut t.driver };
        scope.context = context;
    }

    /// Adds a query that was answered to the queries that share a record, if it is like them, or begins another record.
    pub fn queried(&self, subject: u64, result: i32, end: u64) {
        let t = self.thread();
        let context = if self.layer == Layer::Runtime { t.runtime.context } else { t.driver.context };
        t.out.add_query(Api {
            head: self.head::<Api>(0),
            correlation: self.correlation,
            begin: self.begin,
            end,
            caller: self.caller,
            context,
            result,
            subject,
            more: 0,
            inside: self.until(end),
        });
    }

    /// Keeps a record that goes out after the call's own, and ends when the call does.
    pub fn record_behind(&self, record: &impl Record) {
        let t = self.thread();
        let words = record.as_words();
        t.push_behind(None);
        if let Some(space) = t.behind.get_mut(..words.len()) {
            space.copy_from_slice(words);
            t.behind_words = words.len();
        }
    }

    /// Adds ticks that a driver call of ours waited for the GPU, as the app's own call would have done instead.
    pub fn waited(&self, ticks: u64) {
        let t = self.thread();
        t.waited = t.waited.wrapping_add(ticks);
    }

    /// Leaves the hook. `before` and `after`: the ticks before and after the real call.
    pub fn leave(self, before: u64, after: u64) {
        self.leave_here(before, after);
    }

    /// Does the same as a part of the hook, for calls that a program makes most.
    #[inline(always)]
    pub fn leave_here(self, before: u64, after: u64) {
        let t = self.thread();
        let end = if self.measured == Measured::ByOthers { after } else { ticks() };
        match self.layer {
            Layer::Driver => t.driver.frame = 0,
            Layer::Runtime => t.runtime = NO_SCOPE,
        }
        if t.pending_words != 0
            && let Some(word) = t.pending.get_mut(END_WORD)
        {
            // The driver call's end for now; when a runtime call around it returns, that one's.
            *word = end;
        }
        if t.runtime.frame == 0 {
            t.out.leave_call();
            t.flush_pending(0);
            t.push_behind(Some(end));
        }
        let waited = core::mem::take(&mut t.waited);
        if self.measured != Measured::ByOthers {
            let inside = after.wrapping_sub(before);
            let own = end.wrapping_sub(self.entered).wrapping_sub(inside).wrapping_sub(waited);
            t.out.count_own(if self.measured == Measured::ForMany { own.wrapping_mul(ALIKE) } else { own });
        }
        t.errno_place.set(t.errno);
        self.own().rest(self.session);
    }

    /// Passes the thread's own free events to `with`.
    #[inline]
    pub fn with_events<R>(&self, with: impl FnOnce(&mut Magazine) -> R) -> R {
        with(&mut self.thread().events)
    }

    /// Passes the depths of the thread's last stacks to `with`.
    #[inline(always)]
    pub fn with_depths<R>(&self, with: impl FnOnce(&mut Depths) -> R) -> R {
        with(&mut self.thread().depths)
    }

    /// Returns a new correlation, besides the record's own.
    pub fn fresh_correlation(&self) -> u64 {
        self.thread().out.next_correlation()
    }

    /// Returns the same call with a correlation of its own, for another record of work.
    pub fn another(&self) -> Call {
        Call { correlation: self.fresh_correlation(), ..*self }
    }

    /// Returns a number that no other living thread has.
    #[inline]
    pub fn thread_identity(&self) -> u64 {
        self.state as u64
    }

    /// Counts losses of this call.
    pub fn lost(&self, cause: LossCause, count: u64) {
        self.thread().out.count_lost(cause, count);
    }

    /// Publishes a record of any length (a name) at once. Returns false when it did not fit.
    pub fn push_words(&self, words: &[u64]) -> bool {
        self.thread().out.push(words)
    }
}

#[cfg(test)]
mod tests {
    use super::{ALIKE, stands_for_many};

    #[test]
    fn each_call_of_a_step_is_measured_as_often_as_the_others() {
        const STEPS: u64 = 64_000;
        for calls_of_a_step in [1, 2, 7, 32, 64, 100, 128, 1000] {
            for call in 0..calls_of_a_step.min(70) {
                let claim = 3 << 40;
                let correlations = (0..STEPS).map(|step| claim + step * calls_of_a_step + call);
                let measured =
                    correlations.filter(|correlation| stands_for_many(*correlation)).count() as u64;
                let expected = STEPS / ALIKE;
                assert!(
                    (expected * 9 / 10..=expected * 11 / 10).contains(&measured),
                    "call {call} of {calls_of_a_step} in a step: {measured} of {STEPS} instead of {expected}"
                );
            }
        }
    }
}
