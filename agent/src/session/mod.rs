//! A session: what a process that calls CUDA has to do with gpuspy. It begins at the first call that has a real function
//! behind it; a process that makes none has no thread, no file and no output of ours.
//!
//! All of it lies in one zeroed mapping that the kernel wipes in a forked child (MADV_WIPEONFORK, Linux 4.14): the child,
//! however it was forked, finds `alive` zero, leaves everything of its parent's alone, and begins a session of its own
//! at its own first call. (After vfork the memory is the parent's and so is the session.)

pub mod collector;
pub mod exit;
pub mod segment;

use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, Ordering};
use gpuspy_wire::record::LossCause;
use gpuspy_wire::segment::{POLLER_SLOT, SLOTS};

use crate::gpu::context::Contexts;
use crate::gpu::poller;
use crate::gpu::stream::Streams;
use crate::graphs::Graphs;
use crate::hook::{Hook, Layer};
use crate::names::Names;
use crate::{sys, thread};
use segment::Segment;

/// The session's state and tables. Every field is valid when zero.
pub struct Session {
    /// 1 while this memory is this process's; the kernel zeroes it in a child. Relaxed: written before the session is
    /// published, and after that by the kernel only.
    alive: AtomicU32,
    pub segment: Segment,
    pub contexts: Contexts,
    pub streams: Streams,
    pub names: Names,
    pub graphs: Graphs,
    pub poller: poller::Shared,
    /// Larger buffers, by slot.
    growth: [Growth; SLOTS],
    /// Captures that the app has begun and not ended: outside any, no launch asks. Relaxed: a thread that begins a
    /// capture sees its own change, and only its streams are in it.
    pub captures: AtomicU64,
    /// Events are recorded (`--timing exact`).
    pub timing: AtomicBool,
    /// The pthread key whose destructor closes a thread's slot.
    key: AtomicU32,
    pub exit: exit::Shared,
}

/// A slot's wish for its next buffer.
struct Growth {
    /// The level asked for; 0 = none. Release by the slot's thread, acquire by the poller.
    wanted: AtomicU8,
    /// The level that is mapped and ready. Release by the poller, acquire by the slot's thread.
    ready: AtomicU8,
}

/// The session of this process, or null. Release on the store, acquire on the load: the session behind it.
static SESSION: AtomicPtr<Session> = AtomicPtr::new(core::ptr::null_mut());

/// Whether a session can be had: nobody has tried; one is being made by the process in [`STARTER`]; it cannot.
/// Relaxed: `SESSION` publishes the result.
static STATE: AtomicU8 = AtomicU8::new(IDLE);
const IDLE: u8 = 0;
const STARTING: u8 = 1;
const STARTED: u8 = 2;
const OFF: u8 = 3;
/// The process that STATE speaks of: a child inherits the word but not the thread that was starting.
static STARTER: AtomicU32 = AtomicU32::new(0);
/// Calls that passed unrecorded while another thread was making the session.
static MISSED: AtomicU64 = AtomicU64::new(0);
/// Lookups before the session began. Counted into the header when it does.
static LOOKUPS: AtomicU64 = AtomicU64::new(0);
static LOOKUPS_HOOKED: AtomicU64 = AtomicU64::new(0);
static DRIVER_HOOKED: AtomicBool = AtomicBool::new(false);

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

/// This process's session; begins it at the first call. `None`: the agent is off, or could not begin.
#[inline]
pub fn current() -> Option<&'static Session> {
    // SAFETY: null or a session, which is never unmapped.
    match unsafe { SESSION.load(Ordering::Acquire).as_ref() } {
        Some(session) if session.alive.load(Ordering::Relaxed) == 1 => Some(session),
        _ => begin(),
    }
}

/// The session if there is one; never begins it.
pub fn existing() -> Option<&'static Session> {
    // SAFETY: as in `current`.
    unsafe { SESSION.load(Ordering::Acquire).as_ref() }.filter(|s| s.alive.load(Ordering::Relaxed) == 1)
}

#[cold]
fn begin() -> Option<&'static Session> {
    let errno = sys::Errno::save();
    let _whole = sys::Uncancelled::new();
    let pid = sys::pid();
    if STARTER.swap(pid, Ordering::Relaxed) != pid {
        // The first call of this process: whatever stands here is a parent's.
        SESSION.store(core::ptr::null_mut(), Ordering::Relaxed);
        STATE.store(IDLE, Ordering::Relaxed);
    }
    let session = match STATE.compare_exchange(IDLE, STARTING, Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => start(),
        Err(STARTING) => wait_for_start(),
        Err(_) => existing(),
    };
    errno.restore();
    session
}

/// Another thread is making the session, which takes a fraction of a millisecond: give it that, and no more than a few.
fn wait_for_start() -> Option<&'static Session> {
    for _ in 0..100 {
        if let Some(session) = existing() {
            return Some(session);
        }
        if STATE.load(Ordering::Relaxed) == OFF {
            return None;
        }
        sys::sleep_ns(50_000);
    }
    // Relaxed: a counter, read by `start` or never.
    MISSED.fetch_add(1, Ordering::Relaxed);
    None
}

fn start() -> Option<&'static Session> {
    let started = if is_enabled() { make() } else { Err("") };
    match started {
        Ok(session) => {
            SESSION.store(core::ptr::from_ref(session).cast_mut(), Ordering::Release);
            STATE.store(STARTED, Ordering::Relaxed);
            Some(session)
        }
        Err(why) => {
            STATE.store(OFF, Ordering::Relaxed);
            exit::say_unobserved(why);
            None
        }
    }
}

fn make() -> Result<&'static Session, &'static str> {
    let bytes = size_of::<Session>();
    // SAFETY: a fresh private mapping of zeros.
    let memory = unsafe {
        libc::mmap(
            core::ptr::null_mut(),
            bytes,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
            -1,
            0,
        )
    };
    if memory == libc::MAP_FAILED {
        return Err("there is no memory for it");
    }
    // SAFETY: our own mapping. Without WIPEONFORK (Linux before 4.14) a child would believe in its parent's session.
    if unsafe { libc::madvise(memory, bytes, libc::MADV_WIPEONFORK) } != 0 {
        return Err("this kernel cannot wipe memory on fork (Linux 4.14 is needed)");
    }
    // SAFETY: zeroed, and every field is valid when zero; page-aligned; ours alone until it is published.
    let session: &'static mut Session = unsafe { &mut *memory.cast::<Session>() };
    session.segment.create()?;
    let mut key: libc::pthread_key_t = 0;
    // SAFETY: writes our own variable; the destructor is a function of this library, which is never unloaded.
    if unsafe { libc::pthread_key_create(&mut key, Some(thread::ended)) } != 0 {
        return Err("this process has no thread-specific keys left");
    }
    session.key = AtomicU32::new(key);
    session.timing = AtomicBool::new(sys::env(c"GPUSPY_TIMING").is_none_or(|t| t != c"off"));
    session.alive = AtomicU32::new(1);
    let session: &'static Session = session;
    let live = &session.segment.header().live.0;
    // Relaxed: counters, brought over once.
    live.lookups.store(LOOKUPS.load(Ordering::Relaxed), Ordering::Relaxed);
    live.lookups_hooked.store(LOOKUPS_HOOKED.load(Ordering::Relaxed), Ordering::Relaxed);
    live.driver_hooked.store(u64::from(DRIVER_HOOKED.load(Ordering::Relaxed)), Ordering::Relaxed);
    session.lost(LossCause::Starting, MISSED.swap(0, Ordering::Relaxed));
    let claim =
        session.segment.claim(POLLER_SLOT..POLLER_SLOT + 1).ok_or("its shared memory cannot be mapped")?;
    poller::start(session, claim).map_err(|()| "no thread can be started")?;
    exit::register();
    Ok(session)
}

impl Session {
    /// Counts losses of calls that have no slot to count them in.
    pub fn lost(&self, cause: LossCause, count: u64) {
        if let Some(counter) = self.segment.header().live.0.lost.get(cause as usize) {
            // Relaxed: a counter.
            counter.fetch_add(count, Ordering::Relaxed);
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

    /// Poller: maps and populates the buffers that threads ask for.
    pub fn serve_growth(&self) {
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

/// A lookup of a table name was answered, with a hook or with the real function.
pub fn looked_up(hook: &Hook, hooked: bool) {
    // Relaxed throughout: counters for the report.
    let (lookups, lookups_hooked) = match existing() {
        Some(session) => {
            let live = &session.segment.header().live.0;
            (&live.lookups, &live.lookups_hooked)
        }
        None => (&LOOKUPS, &LOOKUPS_HOOKED),
    };
    lookups.fetch_add(1, Ordering::Relaxed);
    if hooked {
        lookups_hooked.fetch_add(1, Ordering::Relaxed);
        road_found(hook);
    }
}

/// Calls of this function will come through us. Without a launch function among them the report opens with a warning.
pub fn road_found(hook: &Hook) {
    if hook.layer == Layer::Driver && hook.base == c"cuLaunchKernel" {
        // Relaxed: a flag for the report.
        DRIVER_HOOKED.store(true, Ordering::Relaxed);
        if let Some(session) = existing() {
            session.segment.header().live.0.driver_hooked.store(1, Ordering::Relaxed);
        }
    }
}
