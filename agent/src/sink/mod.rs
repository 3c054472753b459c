//! The session as the lower floors see it: where records go, and who is told that there are some.
//!
//! A session is one zeroed mapping, which `crate::session` makes at the process's first call. Its front is [`Live`]; behind
//! that lie the parts of higher floors, each reached by its type ([`Session::get`]). So a file names the parts that it uses,
//! and the floors below those know nothing of them.

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

/// The front of a session: what it takes to get a record out. Every field is valid when zero.
pub struct Live {
    /// [`WIPED`], [`ALIVE`], [`ALIVE_HERE`] or [`UNOBSERVED`]. Relaxed: the two that say that it lives are written before the
    /// session is published, `UNOBSERVED` may be seen late.
    alive: AtomicU32,
    pub segment: Segment,
    /// How the poller is woken, and waited for.
    pub poller: poller::Shared,
    /// Larger buffers, by slot.
    growth: [Growth; SLOTS],
    /// The pthread key whose destructor closes a thread's slot.
    pub key: AtomicU32,
    /// Our exit handler. Written before the session is published.
    pub at_exit: Option<extern "C" fn()>,
}

/// What stands in [`Live::alive`]: the memory is a parent's, and has been wiped.
const WIPED: u32 = 0;
/// The session is this process's.
const ALIVE: u32 = 1;
/// It was, but no collector was reached: nothing more is recorded.
const UNOBSERVED: u32 = 2;
/// The session is a process's that did not have the kernel wipe it: this one's, unless [`wiped::is_childs`].
const ALIVE_HERE: u32 = 3;

/// A slot's wish for its next buffer.
struct Growth {
    /// The level asked for; 0 = none. Release by the slot's thread, acquire by the poller.
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
    /// The session's own.
    fn of(session: Session) -> &'static Self;
}

impl Session {
    /// A session by its front, which has access to all of it.
    ///
    /// # Safety
    /// The front is initialised and never unmapped, and the parts lie behind it where [`Part::of`] looks for them.
    pub unsafe fn new(front: NonNull<Live>) -> Session {
        Session(front)
    }

    /// The session's part of this type.
    #[inline(always)]
    pub fn get<P: Part>(self) -> &'static P {
        P::of(self)
    }

    /// Where its front is.
    #[inline(always)]
    pub fn as_ptr(self) -> *mut Live {
        self.0.as_ptr()
    }
}

/// What begins the process's session: implemented by `crate::session`.
pub struct Beginning;

/// See [`Beginning`].
pub trait Begin {
    /// Begins it, or waits for the thread that is doing so. `None`: there is none to be had.
    fn begin() -> Option<Session>;
}

/// The session of this process, or null. Release on the store, acquire on the load: the session behind it.
static SESSION: AtomicPtr<Live> = AtomicPtr::new(core::ptr::null_mut());

/// No session can be had, here or in a child: what stands in the way (`GPUSPY=0`, a limit, an old kernel) is inherited.
/// Relaxed: a thread that misses it is told so by [`Begin::begin`].
static OFF: AtomicBool = AtomicBool::new(false);

/// `GPUSPY=0` turns the agent off: hooks pass through and lookups are answered untouched.
pub fn is_enabled() -> bool {
    static ENABLED: AtomicU8 = AtomicU8::new(0); // 0 = not asked, 1 = on, 2 = off; relaxed: all find the same
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

#[inline]
fn published() -> Option<Session> {
    NonNull::new(SESSION.load(Ordering::Acquire)).map(Session)
}

/// This process's session; begins it at the first call. `None`: the agent is off, or could not begin.
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

/// The session if there is one; never begins it.
pub fn existing() -> Option<Session> {
    published().filter(|session| match session.alive.load(Ordering::Relaxed) {
        ALIVE => true,
        ALIVE_HERE => !wiped::is_childs(),
        _ => false,
    })
}

/// The process has a session from here on.
pub fn publish(session: Session) {
    SESSION.store(session.as_ptr(), Ordering::Release);
}

/// It gets none.
pub fn turn_off() {
    OFF.store(true, Ordering::Relaxed);
}

impl Live {
    /// Before the session is published: it lives, and its memory is wiped in a child by the kernel, or is not.
    pub fn begin(&mut self, wiped_by_kernel: bool) {
        self.alive = AtomicU32::new(if wiped_by_kernel { ALIVE } else { ALIVE_HERE });
    }

    /// Counts losses of calls that have no slot to count them in.
    pub fn lost(&self, cause: LossCause, count: u64) {
        if let Some(counter) = self.segment.header().live.0.lost.get(cause as usize) {
            // Relaxed: a counter.
            counter.fetch_add(count, Ordering::Relaxed);
        }
    }

    /// Ends the session before the process: there is nobody to record for. Hooks pass through from here on.
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

    /// Registers it once more, now that there is a context: exit handlers run last-in-first-out, and the driver's own,
    /// behind which it answers nothing, was registered when it was initialised.
    pub fn register_drain(&self) {
        static DONE: AtomicBool = AtomicBool::new(false); // relaxed: once is enough, twice does no harm
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
        // SAFETY: our own key; the value is only handed back to our destructor.
        unsafe { libc::pthread_setspecific(self.key.load(Ordering::Relaxed) as libc::pthread_key_t, thread) };
        Some(claim)
    }

    /// Asks for a slot's next buffer, once.
    pub fn want_buffer(&self, slot: usize, level: usize) {
        let Some(growth) = self.growth.get(slot) else { return };
        // Relaxed load: only the slot's thread stores it. Release: pairs with the poller's acquire.
        if usize::from(growth.wanted.load(Ordering::Relaxed)) < level {
            growth.wanted.store(level as u8, Ordering::Release);
            self.poller.wake();
        }
    }

    /// The buffer asked for, once it is mapped.
    pub fn ready_buffer(&self, slot: usize, level: usize) -> Option<&'static [AtomicU64]> {
        // Acquire, with the poller's release: the mapping is there.
        let ready = self.growth.get(slot)?.ready.load(Ordering::Acquire);
        if usize::from(ready) >= level { self.segment.buffer(slot, level) } else { None }
    }

    /// Poller: maps and populates the buffers that threads ask for. When the session is over, so is the poller's work:
    /// it sleeps in here for good, and calls the driver no more.
    pub fn serve_growth(&self) {
        while self.alive.load(Ordering::Relaxed) == UNOBSERVED {
            sys::sleep_ns(u64::from(u32::MAX) * 1_000_000_000);
        }
        for (slot, growth) in self.growth.iter().enumerate() {
            let wanted = growth.wanted.load(Ordering::Acquire);
            // Relaxed: of the two sides only we raise it; the slot's owner resets it at a claim.
            if wanted > growth.ready.load(Ordering::Relaxed)
                && self.segment.buffer(slot, usize::from(wanted)).is_some()
            {
                growth.ready.store(wanted, Ordering::Release);
            }
        }
    }
}
