//! A thread's state: the scopes that are open, the record that waits for its call's end, and its way [`out`].
//!
//! One API call makes one record. A runtime call opens a scope; the driver call inside makes the record, labelled with
//! the runtime's name; it waits in `pending` until the outermost call returns, whose end is the record's end. Driver
//! calls inside driver calls (another preload calling back into us) pass through: nothing is counted twice.
//!
//! The state is a const thread-local without a destructor, so it needs no registration and no allocation, and stays
//! valid in late destructors. Nothing in here is borrowed across the real call, which may enter a hook again.
//!
//! - [`call`]: what does a hook do that has been entered? [`entered`], [`light`], [`light_runtime`]: which ones have less to do?
//! - [`out`]: how do the records get out?
//! - [`ending`]: what is left to do before a thread, or its process, ends?

use core::hint::cold_path;
use core::sync::atomic::{AtomicPtr, Ordering};
use gpuspy_wire::in_progress;
use gpuspy_wire::record::{CELL_WORDS, Head, LossCause, StackNumber, Via, flag};
use gpuspy_wire::segment::Counters;

use crate::guarded::Guarded;
use crate::hook::{Entry, Layer};
use crate::sink::{self, Live, Session};
use crate::sys::{self, Caller, ticks};

mod call;
mod ending;
mod entered;
mod light;
mod light_runtime;
mod out;

pub use call::Call;
use call::Measured;
pub use ending::{Leaving, ended, exiting};
pub use entered::Around;
pub use light::{AnyLightCall, LightCall, Stored, enter_light};
pub use light_runtime::LightRuntimeCall;
use out::Out;

/// Words of the longest record that can wait: every record of a call is one or two cells.
const PENDING_WORDS: usize = 2 * CELL_WORDS;
/// Word 3 of every record of a call is `end` (asserted in wire by offset).
const END_WORD: usize = 3;

/// A scope: an intercepted call that has not returned.
#[derive(Clone, Copy)]
struct Scope {
    /// The hook's frame address; 0 = no scope. Stacks grow down, so an open scope's frame has a higher address than any
    /// later hook's.
    frame: u64,
    api: u16,
    begin: u64,
    caller: u64,
    /// Bits `1 << Kind` of what was recorded inside.
    recorded: u32,
    /// An address in the file that the launched kernel is from; 0 = unknown, or no launch.
    origin: u64,
    /// The context that a query inside is about; 0 = not known.
    context: u32,
    /// The number of the native stack of a launch.
    stack: StackNumber,
}

const NO_SCOPE: Scope = Scope {
    frame: 0,
    api: 0,
    begin: 0,
    caller: 0,
    recorded: 0,
    origin: 0,
    context: 0,
    stack: StackNumber::NONE,
};

/// A thread's own free events of one context. `crate::gpu::pool` takes them and gives them back.
pub struct Magazine {
    /// The context's number; 0 = none yet.
    pub context: u32,
    pub count: usize,
    pub events: [u32; BATCH],
}

/// The number of events that a thread fetches at a time, and keeps at most.
pub const BATCH: usize = 16;

impl Magazine {
    /// An empty magazine.
    pub const EMPTY: Magazine = Magazine { context: 0, count: 0, events: [0; BATCH] };
}

/// How many frames of Python a thread's last stack up to the user's had, by the hash of its innermost frame. Different frames
/// share a place: it is a guess.
pub struct Depths([u8; 64]);

impl Depths {
    /// No stack yet.
    const NONE: Depths = Depths([0; 64]);

    /// Returns the number for this frame; 0 = not known.
    #[inline(always)]
    pub fn of(&self, leaf: u64) -> usize {
        self.0.get(Self::place(leaf)).copied().unwrap_or(0).into()
    }

    /// Sets it.
    pub fn set(&mut self, leaf: u64, frames: usize) {
        if let Some(place) = self.0.get_mut(Self::place(leaf)) {
            *place = u8::try_from(frames).unwrap_or(0);
        }
    }

    #[inline(always)]
    fn place(leaf: u64) -> usize {
        (leaf >> 32) as usize % 64
    }
}

struct Thread {
    out: Out,
    /// The app's errno while our own code runs: our driver calls may change it.
    errno: sys::Errno,
    /// Where errno is. Set with the thread's slot.
    errno_place: sys::ErrnoPlace,
    runtime: Scope,
    driver: Scope,
    pending: [u64; PENDING_WORDS],
    pending_words: usize,
    /// A record that goes out after the pending one.
    behind: [u64; PENDING_WORDS],
    behind_words: usize,
    /// The thread's own free events.
    events: Magazine,
    depths: Depths,
    /// Ticks that a driver call of ours waited for the GPU during this call, where the app's own call would have waited
    /// as long.
    waited: u64,
}

/// A thread's state. It is held while our own code runs: a hook that is entered then (from a signal handler) passes
/// through, and uses only the fields next to it.
struct State {
    thread: Guarded<Thread>,
    /// The counters of the thread's claim, where a nested entry is counted, and the session that they belong to. If
    /// that is another than the process's, this is a forked child, and the counters are the parent's. Only this thread,
    /// handlers on it included, stores and loads them, so each is its own partner and nothing is ordered by it.
    counters: AtomicPtr<Counters>,
    session: AtomicPtr<Live>,
}

impl State {
    /// The state of a thread that has made no call.
    const fn new() -> State {
        State {
            thread: Guarded::new(Thread {
                out: Out::NONE,
                errno: sys::Errno::NONE,
                errno_place: sys::ErrnoPlace::NONE,
                runtime: NO_SCOPE,
                driver: NO_SCOPE,
                pending: [0; PENDING_WORDS],
                pending_words: 0,
                behind: [0; PENDING_WORDS],
                behind_words: 0,
                events: Magazine::EMPTY,
                depths: Depths::NONE,
                waited: 0,
            }),
            counters: AtomicPtr::new(core::ptr::null_mut()),
            session: AtomicPtr::new(core::ptr::null_mut()),
        }
    }
}

thread_local! {
    static THREAD: State = const { State::new() };
}

/// Enters a hook. `None`: the hook has to pass through and record nothing.
pub fn enter(entry: &Entry) -> Option<Call> {
    enter_here(entry)
}

/// Does the same as a part of the hook, for calls that a program makes most.
#[inline(always)]
pub fn enter_here(entry: &Entry) -> Option<Call> {
    let entered = ticks();
    let session = sink::current()?;
    let state = THREAD.with(core::ptr::from_ref);
    // SAFETY: this thread's own state, which lives as long as the thread, and of which there are shared references
    // only.
    let own = unsafe { &*state };
    if own.thread.is_busy() {
        own.count_nested(session);
        return None;
    }
    own.thread.hold();
    // SAFETY: held by this frame alone, as the flag says: a nested hook passes through. The borrow ends before the real
    // call.
    let t = unsafe { own.thread.get() };
    if !t.is_outermost(session, entry, own) {
        own.thread.release();
        return None;
    }
    // Nothing before this changes errno.
    t.errno = t.errno_place.get();
    let correlation = t.out.next_correlation();
    let Caller { address: caller, frame } = entry.caller;
    let scope = match entry.layer {
        Layer::Runtime => &mut t.runtime,
        Layer::Driver => &mut t.driver,
    };
    *scope = Scope { frame, api: entry.api, begin: since(session, entered), caller, ..NO_SCOPE };
    let (outer, via) = match entry.layer {
        Layer::Runtime => (&t.runtime, Via::Runtime),
        Layer::Driver if t.runtime.frame != 0 => (&t.runtime, Via::RuntimeDriver),
        Layer::Driver => (&t.driver, Via::Driver),
    };
    let &Scope { api, begin, caller, .. } = outer;
    if via != Via::RuntimeDriver {
        t.out.enter_call(in_progress::Call { api, caller, since: begin });
    }
    let Entry { layer, per_thread, .. } = *entry;
    let measured = Measured::Yes;
    Some(Call { session, state, entered, layer, per_thread, api, begin, caller, correlation, via, measured })
}

/// Returns when a call begins that entered our code at `entered`; both in ticks. Calls in which the session began, or that waited for
/// it, begin after that: what the agent does for its start is no part of them, and no call begins before the trace does.
#[inline(always)]
fn since(session: Session, entered: u64) -> u64 {
    if entered < session.segment.header().anchor_ticks {
        cold_path();
        return ticks();
    }
    entered
}

/// Returns the session if the calling thread has no slot in it, after a hook could not be entered for that reason. `None`: the
/// hook was entered inside another one or inside our own code.
pub fn without_slot() -> Option<Session> {
    let session = sink::existing()?;
    let state = THREAD.with(core::ptr::from_ref);
    // SAFETY: as in `enter`.
    let own = unsafe { &*state };
    // Relaxed loads: this thread's own, see the fields.
    let has_slot = core::ptr::eq(own.session.load(Ordering::Relaxed), session.as_ptr())
        && !own.counters.load(Ordering::Relaxed).is_null();
    (!own.thread.is_busy() && !has_slot).then_some(session)
}

/// Publishes a record that belongs to no intercepted call, at once. `entered`: when our code began, ticks.
pub fn aside(session: Session, entered: u64, words: &[u64]) {
    let errno = sys::Errno::save();
    let state = THREAD.with(core::ptr::from_ref);
    // SAFETY: as in `enter`.
    let own = unsafe { &*state };
    if own.thread.is_busy() {
        // This is a signal handler that interrupted our own code, which may have changed only half of the state.
        return own.count_nested(session);
    }
    own.thread.hold();
    // SAFETY: held by this frame alone; the borrow ends before the release.
    let t = unsafe { own.thread.get() };
    if t.out.leads_to(session) || t.adopt(session, own) {
        t.out.push(words);
        t.out.count_own(ticks().wrapping_sub(entered));
    }
    own.rest(session);
    errno.restore();
}

impl State {
    /// Counts a hook that was entered while our own code was running.
    #[cold]
    fn count_nested(&self, session: Session) {
        // Relaxed load: this thread's own, see the field.
        if !core::ptr::eq(self.session.load(Ordering::Relaxed), session.as_ptr()) {
            return;
        }
        // SAFETY: null, or in the session's segment, which is never unmapped. Relaxed load: as above.
        let counters = unsafe { self.counters.load(Ordering::Relaxed).as_ref() };
        if let Some(counter) = counters.and_then(|counters| counters.lost.get(LossCause::Reentered as usize))
        {
            // Relaxed load and store: this thread is the only writer.
            counter.store(counter.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
        }
    }

    /// Sets where nested entries are counted from here on.
    fn counts_at(&self, session: Session, counters: Option<&'static Counters>) {
        let counters = counters.map_or(core::ptr::null(), core::ptr::from_ref);
        // Relaxed stores: this thread's own, see the fields. In this order the counters never belong to another session
        // than the one that is stored.
        self.counters.store(core::ptr::null_mut(), Ordering::Relaxed);
        self.session.store(session.as_ptr(), Ordering::Relaxed);
        self.counters.store(counters.cast_mut(), Ordering::Relaxed);
    }
}

impl Thread {
    /// Returns whether the entering hook's call is to be recorded: the thread has a slot, and this is no call inside a
    /// driver call or inside one of its own layer.
    #[inline(always)]
    fn is_outermost(&mut self, session: Session, entry: &Entry, state: &State) -> bool {
        if !self.out.leads_to(session) && !self.adopt(session, state) {
            return false;
        }
        self.discard_scopes(entry.caller.frame);
        self.out.count_call();
        self.driver.frame == 0 && (entry.layer == Layer::Driver || self.runtime.frame == 0)
    }

    /// Claims a slot for the thread: at its first call, or at its first call in a forked child, where everything that
    /// the state had belongs to the parent. Returns false when there is no slot for it.
    #[cold]
    fn adopt(&mut self, session: Session, state: &State) -> bool {
        if !self.out.may_claim(session) {
            return false;
        }
        let errno = sys::Errno::save();
        self.errno_place = sys::ErrnoPlace::of_this_thread();
        self.runtime = NO_SCOPE;
        self.driver = NO_SCOPE;
        self.pending_words = 0;
        self.behind_words = 0;
        self.events = Magazine::EMPTY;
        let is_claimed = self.out.claim(session, core::ptr::from_ref(state).cast_mut().cast());
        state.counts_at(session, self.out.counters());
        errno.restore();
        is_claimed
    }

    /// Discards scopes that were left without returning (by longjmp, or by an exception through the real call): their
    /// frame is not above the entering hook's. What they had recorded goes out with the last time that is known.
    #[inline(always)]
    fn discard_scopes(&mut self, frame: u64) {
        if self.driver.frame | self.runtime.frame | self.pending_words as u64 != 0 {
            self.discard_old_scopes(frame);
        }
    }

    fn discard_old_scopes(&mut self, frame: u64) {
        if self.driver.frame != 0 && self.driver.frame <= frame {
            self.driver = NO_SCOPE;
            self.out.count_lost(LossCause::ScopeLost, 1);
        }
        if self.runtime.frame != 0 && self.runtime.frame <= frame {
            self.runtime = NO_SCOPE;
            self.out.count_lost(LossCause::ScopeLost, 1);
        }
        if self.pending_words != 0 && self.runtime.frame == 0 && self.driver.frame == 0 {
            self.flush_pending(flag::SCOPE_LOST);
            self.push_behind(None);
        }
    }

    /// Notes in the runtime scope which kind of record was made inside it.
    fn note(&mut self, words: &[u64]) {
        if let Some(head) = Head::of(words) {
            self.runtime.recorded |= 1u32.checked_shl(u32::from(head.kind)).unwrap_or(0);
        }
    }

    /// Publishes the record that waits, with these flags added.
    #[inline]
    fn flush_pending(&mut self, flags: u16) {
        let words = core::mem::take(&mut self.pending_words);
        if let Some(record) = self.pending.get_mut(..words)
            && let Some(first) = record.first_mut()
        {
            *first |= u64::from(flags) << 48; // Head::flags, the top two bytes (little-endian; asserted below)
            self.out.push(record);
        }
    }

    /// Publishes the record that goes out after the call's own, if there is one, with the call's end if that is known.
    #[inline]
    fn push_behind(&mut self, end: Option<u64>) {
        let words = core::mem::take(&mut self.behind_words);
        let Some(record) = self.behind.get_mut(..words).filter(|record| !record.is_empty()) else { return };
        if let (Some(word), Some(end)) = (record.get_mut(END_WORD), end) {
            *word = end;
        }
        self.out.push(record);
    }
}

const _: () = assert!(cfg!(target_endian = "little"), "flags are added to a record's first word");
