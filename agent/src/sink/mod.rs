//! The session as the lower floors see it: where records go, and how the poller is woken.
//!
//! A session is one zeroed mapping, which `crate::session` makes at the process's first call. It begins with [`Live`],
//! followed by the parts that belong to higher floors. [`Session::get`] returns a part by its type, so that a file
//! names the parts that it uses, and nothing below those depends on them.

pub mod descriptors;
pub mod lookups;
pub mod poller;
mod ring;
pub mod segment;
pub mod text;
pub mod wiped;

pub use lookups::{looked_up, route_found};
pub use ring::Ring;

use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, Ordering};
use gpuspy_wire::record::LossCause;
use gpuspy_wire::segment::{POLLER_SLOT, SLOTS};

use crate::sys;
use segment::Segment;

/// The front of a session: what is needed to get a record out. Every field is valid when zero.
pub struct Live {
    /// [`WIPED`], [`ALIVE`], [`ALIVE_HERE`] or [`UNOBSERVED`]. Relaxed: the two that mean that it lives are written
    /// before the session is published, and it does no harm to see `UNOBSERVED` late.
    alive: AtomicU32,
    pub segment: Segment,
    /// Wakes the poller and waits for it.
    pub poller: poller::Shared,
    /// Larger buffers, by slot.
    growth: [Growth; SLOTS],
    /// The pthread key whose destructor closes a thread's slot.
    pub key: AtomicU32,
    /// Our exit handler. Written before the session is published.
    pub at_exit: Option<extern "C" fn()>,
}

/// The value of [`Live::alive`] in a forked child whose memory Linux has wiped.
const WIPED: u32 = 0;
/// The value of [`Live::alive`] where the session is this process's.
const ALIVE: u32 = 1;
/// The value of [`Live::alive`] where no collector was reached, or it is gone, so that nothing more is recorded.
const UNOBSERVED: u32 = 2;
/// The value of [`Live::alive`] where Linux does not wipe the memory in a child. The session is this
/// process's, unless [`wiped::is_childs`].
const ALIVE_HERE: u32 = 3;

/// A slot's request for its next buffer.
struct Growth {
    /// The level that is requested; 0 = none. Release by the slot's thread, acquire by the poller.
    wanted: AtomicU8,
    /// The level that is mapped and ready. Release by the poller, acquire by the slot's thread.
    ready: AtomicU8,
}

/// A session, by its front.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Session(NonNull<Live>);

// SAFETY: a session is never unmapped, and all that is shared in it is atomic.
unsafe impl Send for Session {}
// SAFETY: as above.
unsafe impl Sync for Session {}

impl core::ops::Deref for Session {
    type Target = Live;

    #[inline(always)]
    fn deref(&self) -> &Live {
        // SAFETY: as `Session::new` was promised.
        unsafe { self.0.as_ref() }
    }
}

/// A part of a session. Its type is declared on the floor that uses it; `crate::session` says where it lies.
pub trait Part: 'static {
    /// Returns the session's part of this type.
    fn of(session: Session) -> &'static Self;
}

impl Session {
    /// Makes the handle of a session from a pointer that may access all of it.
    ///
    /// # Safety
    /// The session is initialized and never unmapped, and its parts lie where [`Part::of`] expects them.
    pub unsafe fn new(front: NonNull<Live>) -> Session {
        Session(front)
    }

    /// Returns the session's part of this type. This adds a constant to the address.
    #[inline(always)]
    pub fn get<P: Part>(self) -> &'static P {
        P::of(self)
    }

    /// Returns the address of its front.
    #[inline(always)]
    pub fn as_ptr(self) -> *mut Live {
        self.0.as_ptr()
    }
}

/// The start of a session, as lower floors see it. `crate::session` implements [`Begin`] for it.
pub struct Beginning;

/// Starts the process's session.
pub trait Begin {
    /// Starts the session, or waits for the thread that is starting it. `None`: there can be none.
    fn begin() -> Option<Session>;
}

/// The session of this process, or null. Release on the store, acquire on the load: the session behind it.
static SESSION: AtomicPtr<Live> = AtomicPtr::new(core::ptr::null_mut());

/// There can be no session, here or in a child: its obstacle (`GPUSPY=0`, a limit, an old kernel) is inherited.
/// Relaxed: a thread that misses it calls [`Begin::begin`], which returns `None`.
static OFF: AtomicBool = AtomicBool::new(false);

/// Whether the agent is on: 0 = not read yet, 1 = on, 2 = off. Relaxed: all read the same, and a second copy is turned off before
/// the program runs.
static ENABLED: AtomicU8 = AtomicU8::new(0);

/// Turns the agent off: another copy of it comes first in this process, and records everything.
pub fn leave_to_other_copy() {
    ENABLED.store(2, Ordering::Relaxed);
}

/// Returns whether the agent is on. `GPUSPY=0`, or another word for it, turns it off: hooks pass through and lookups return the real functions.
pub fn is_enabled() -> bool {
    match ENABLED.load(Ordering::Relaxed) {
        1 => true,
        2 => false,
        _ => {
            let on = sys::env(c"GPUSPY").is_none() || sys::env_is_on(c"GPUSPY");
            ENABLED.store(if on { 1 } else { 2 }, Ordering::Relaxed);
            on
        }
    }
}

/// Returns the session that was published last, which may be that of the process that forked this one.
#[inline(always)]
pub fn published() -> Option<Session> {
    NonNull::new(SESSION.load(Ordering::Acquire)).map(Session)
}

/// Returns this process's session, and starts it at the first call. `None`: the agent is off, or could not start.
#[inline]
pub fn current() -> Option<Session> {
    let session = published();
    match session.map_or(WIPED, |s| s.alive.load(Ordering::Relaxed)) {
        ALIVE => session,
        UNOBSERVED => None,
        ALIVE_HERE if !wiped::is_childs() => session,
        _ if OFF.load(Ordering::Relaxed) => None,
        _ => Beginning::begin(),
    }
}

/// Returns the session if there is one, and never starts it.
pub fn existing() -> Option<Session> {
    published().filter(|session| match session.alive.load(Ordering::Relaxed) {
        ALIVE => true,
        ALIVE_HERE => !wiped::is_childs(),
        _ => false,
    })
}

/// Returns the session if it has ended before the process. Nothing more is recorded in it, and what it knows of handles stays.
pub fn ended() -> Option<Session> {
    published().filter(|session| session.alive.load(Ordering::Relaxed) == UNOBSERVED)
}

/// Makes a session the process's.
pub fn publish(session: Session) {
    SESSION.store(session.as_ptr(), Ordering::Release);
}

/// Keeps the process without a session from here on.
pub fn turn_off() {
    OFF.store(true, Ordering::Relaxed);
}

impl Live {
    /// Marks the session as alive, before it is published. `wiped_by_kernel`: the kernel wipes its memory in a forked
    /// child.
    pub fn begin(&mut self, wiped_by_kernel: bool) {
        self.alive = AtomicU32::new(if wiped_by_kernel { ALIVE } else { ALIVE_HERE });
    }

    /// Whether it is this process's and records, as one word says it; false where more than a word says so.
    #[inline(always)]
    pub fn is_alive(&self) -> bool {
        self.alive.load(Ordering::Relaxed) == ALIVE
    }

    /// Counts losses of calls whose thread has no slot.
    pub fn lost(&self, cause: LossCause, count: u64) {
        if let Some(counter) = self.segment.header().live.0.lost.get(cause as usize) {
            // Relaxed: a counter.
            counter.fetch_add(count, Ordering::Relaxed);
        }
    }

    /// Whether the collector has gone in order, and no other has come: nobody reads what is recorded.
    pub fn is_detached(&self) -> bool {
        // Relaxed: the word stands alone (see `gpuspy_wire::segment::Live`).
        let attached = self.segment.header().live.0.attached.load(Ordering::Relaxed);
        attached != 0 && attached.is_multiple_of(2)
    }

    /// Ends the session before the process ends, because there is no collector. Hooks pass through from here on.
    pub fn end_unobserved(&self) {
        self.alive.store(UNOBSERVED, Ordering::Relaxed);
    }

    /// Registers the exit handler.
    pub fn register_at_exit(&self) {
        if let Some(at_exit) = self.at_exit {
            // SAFETY: a function of this library, which is never unloaded.
            unsafe { libc::atexit(at_exit) };
        }
    }

    /// Registers the exit handler once more, now that there is a context. Exit handlers run last-in-first-out, and the
    /// driver registered its own when it was initialized: after that one has run, the driver answers nothing.
    pub fn register_drain(&self) {
        static DONE: AtomicBool = AtomicBool::new(false); // relaxed: registering twice does no harm
        if !DONE.swap(true, Ordering::Relaxed) {
            self.register_at_exit();
        }
    }

    /// Claims a slot for the calling thread and has it closed when the thread ends.
    pub fn claim(&self, thread: *mut core::ffi::c_void) -> Option<segment::Claim> {
        let claim = self.segment.claim(POLLER_SLOT + 1..SLOTS)?;
        if let Some(growth) = self.growth.get(claim.index) {
            // Relaxed: the slot is ours; the poller reads `wanted` with acquire when we set it next.
            growth.wanted.store(0, Ordering::Relaxed);
            growth.ready.store(0, Ordering::Relaxed);
        }
        // SAFETY: our own key; the value is only passed to our destructor.
        unsafe { libc::pthread_setspecific(self.key.load(Ordering::Relaxed) as libc::pthread_key_t, thread) };
        Some(claim)
    }

    /// Requests a slot's next buffer, once.
    pub fn want_buffer(&self, slot: usize, level: usize) {
        let Some(growth) = self.growth.get(slot) else { return };
        // Relaxed load: only the slot's thread stores it. Release: pairs with the poller's acquire.
        if usize::from(growth.wanted.load(Ordering::Relaxed)) < level {
            growth.wanted.store(level as u8, Ordering::Release);
            self.poller.wake();
        }
    }

    /// Returns the requested buffer once it is mapped.
    pub fn ready_buffer(&self, slot: usize, level: usize) -> Option<&'static [AtomicU64]> {
        // Acquire, with the poller's release: the mapping is there.
        let ready = self.growth.get(slot)?.ready.load(Ordering::Acquire);
        if usize::from(ready) >= level { self.segment.buffer(slot, level) } else { None }
    }

    /// Poller: maps and populates the buffers that threads request, while somebody reads them.
    pub fn serve_growth(&self) {
        if self.is_detached() {
            return;
        }
        for (slot, growth) in self.growth.iter().enumerate() {
            let wanted = growth.wanted.load(Ordering::Acquire);
            // Relaxed: only the poller raises it; the slot's owner resets it at a claim.
            if wanted > growth.ready.load(Ordering::Relaxed)
                && self.segment.buffer(slot, usize::from(wanted)).is_some()
            {
                growth.ready.store(wanted, Ordering::Release);
            }
        }
    }
}
