//! A session: what a process that calls CUDA has to do with gpuspy. It begins at the first call that has a real function
//! behind it; a process that makes none has no thread, no file and no output of ours.
//!
//! All of it lies in one zeroed mapping that is wiped in a forked child ([`wiped`]): the child finds `alive` zero, leaves
//! everything of its parent's alone, and begins a session of its own at its own first call. (After vfork the memory is the
//! parent's and so is the session.)

pub mod collector;
pub mod exit;
pub mod job;
pub mod options;
pub mod segment;
pub mod wiped;

use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, Ordering};
use gpuspy_wire::record::LossCause;
use gpuspy_wire::segment::{POLLER_SLOT, SLOTS};

use crate::facts::Facts;
use crate::gpu::budget::Gate;
use crate::gpu::burst;
use crate::gpu::context::Contexts;
use crate::gpu::depth::Queue;
use crate::gpu::nodes::Nodes;
use crate::gpu::poller;
use crate::gpu::range::{self, Range};
use crate::gpu::stream::Streams;
use crate::graphs::Graphs;
use crate::hook::{Hook, Layer};
use crate::names::Names;
use crate::nvtx::watch;
use crate::{sys, thread};
use collector::Environment;
use options::Options;
use segment::Segment;

/// The session's state and tables. Every field is valid when zero.
pub struct Session {
    /// [`WIPED`], [`ALIVE`], [`ALIVE_HERE`] or [`UNOBSERVED`]. Relaxed: the two that say that it lives are written before the
    /// session is published, `UNOBSERVED` may be seen late.
    alive: AtomicU32,
    pub segment: Segment,
    pub contexts: Contexts,
    pub streams: Streams,
    pub names: Names,
    pub facts: Facts,
    pub graphs: Graphs,
    pub nodes: Nodes,
    pub poller: poller::Shared,
    pub bursts: burst::Shared,
    /// Larger buffers, by slot.
    growth: [Growth; SLOTS],
    /// Captures that the app has begun and not ended: outside any, no launch asks. Relaxed: a thread that begins a
    /// capture sees its own change, and only its streams are in it.
    pub stream_captures: AtomicU64,
    /// Which operations are timed.
    pub timing: Gate,
    /// Which part of the run is looked at.
    pub range: Range,
    /// Hardware queues that the streams of a context share (`CUDA_DEVICE_MAX_CONNECTIONS`). Written before the session is
    /// published, like the next.
    pub connections: u32,
    /// How long launch queues are.
    pub queue: Queue,
    /// No event serves two operations (`GPUSPY_EVENTS=pairs`).
    pub pairs_only: AtomicBool,
    /// The pthread key whose destructor closes a thread's slot.
    key: AtomicU32,
    pub exit: exit::Shared,
    /// The environment as it was at the beginning, for the poller, which must not read it while the app may write it; or
    /// null. Release by who makes it, acquire by the poller, which takes it.
    environment: AtomicPtr<Environment>,
}

/// What stands in [`Session::alive`]: the memory is a parent's, and has been wiped.
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

/// The session of this process, or null. Release on the store, acquire on the load: the session behind it.
static SESSION: AtomicPtr<Session> = AtomicPtr::new(core::ptr::null_mut());

/// The process that has begun a session, and whether it is still at it: pid and phase in one word, so that one
/// compare-exchange decides who begins. A child inherits the word but not the thread that was starting: another pid's word
/// says nothing. Release on the stores, acquire on the loads: what the starter did before.
static STATE: AtomicU64 = AtomicU64::new(0);

/// [`STATE`] while a process's session is being made.
const fn starting(pid: u32) -> u64 {
    (pid as u64) << 1
}

/// [`STATE`] when that is over, with a session or without.
const fn started(pid: u32) -> u64 {
    starting(pid) | 1
}

/// No session can be had, here or in a child: what stands in the way (`GPUSPY=0`, a limit, an old kernel) is inherited.
/// Relaxed: who misses it asks [`STATE`].
static OFF: AtomicBool = AtomicBool::new(false);
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
    let session = unsafe { SESSION.load(Ordering::Acquire).as_ref() };
    match session.map_or(WIPED, |s| s.alive.load(Ordering::Relaxed)) {
        ALIVE => session,
        UNOBSERVED => None,
        ALIVE_HERE if !wiped::is_childs() => session,
        _ if OFF.load(Ordering::Relaxed) => None,
        _ => begin(),
    }
}

/// The session if there is one; never begins it.
pub fn existing() -> Option<&'static Session> {
    // SAFETY: as in `current`.
    let session = unsafe { SESSION.load(Ordering::Acquire).as_ref() };
    session.filter(|session| match session.alive.load(Ordering::Relaxed) {
        ALIVE => true,
        ALIVE_HERE => !wiped::is_childs(),
        _ => false,
    })
}

#[cold]
fn begin() -> Option<&'static Session> {
    let errno = sys::Errno::save();
    let _whole = sys::Uncancelled::new();
    let pid = sys::pid();
    let is_ours = |state| state == starting(pid) || state == started(pid);
    let begun = STATE.fetch_update(Ordering::AcqRel, Ordering::Acquire, |state| {
        // The first call of this process finds a parent's word, or none.
        (!is_ours(state)).then_some(starting(pid))
    });
    let session = match begun {
        Ok(_) => start(pid),
        Err(state) if state == starting(pid) => wait_for_start(pid),
        Err(_) => existing(),
    };
    errno.restore();
    session
}

/// Another thread is making the session, which takes a fraction of a millisecond: give it that, and no more than a few.
fn wait_for_start(pid: u32) -> Option<&'static Session> {
    for _ in 0..100 {
        if STATE.load(Ordering::Acquire) == started(pid) {
            return existing();
        }
        sys::sleep_ns(50_000);
    }
    // Relaxed: a counter, read by `start` or never.
    MISSED.fetch_add(1, Ordering::Relaxed);
    None
}

fn start(pid: u32) -> Option<&'static Session> {
    let made = if is_enabled() { make() } else { Err("") };
    match made {
        Ok(session) => SESSION.store(core::ptr::from_ref(session).cast_mut(), Ordering::Release),
        Err(_) => OFF.store(true, Ordering::Relaxed),
    }
    STATE.store(started(pid), Ordering::Release);
    match made {
        Ok(session) => {
            range::begun(session);
            existing()
        }
        Err(why) => {
            exit::say_unobserved(why, sys::env_is_on(c"GPUSPY_QUIET"));
            None
        }
    }
}

fn make() -> Result<&'static Session, &'static str> {
    let Some(wiped) = wiped::map(size_of::<Session>()) else { return Err("there is no memory for it") };
    // SAFETY: zeroed, and every field is valid when zero; page-aligned; ours alone until it is published.
    let session: &'static mut Session = unsafe { &mut *wiped.memory.cast::<Session>() };
    session.segment.create()?;
    let mut key: libc::pthread_key_t = 0;
    // SAFETY: writes our own variable; the destructor is a function of this library, which is never unloaded.
    if unsafe { libc::pthread_key_create(&mut key, Some(thread::ended)) } != 0 {
        return Err("this process has no thread-specific keys left");
    }
    session.key = AtomicU32::new(key);
    session.pairs_only = AtomicBool::new(sys::env(c"GPUSPY_EVENTS").is_some_and(|e| e == c"pairs"));
    let connections = sys::env(c"CUDA_DEVICE_MAX_CONNECTIONS");
    session.connections = options::connections(connections);
    session.queue = Queue::scaled(sys::env(c"CUDA_SCALE_LAUNCH_QUEUES"));
    let options = Options::read(sys::env(c"GPUSPY_TIMING"), sys::env(c"GPUSPY_BUDGET"), connections);
    let options = options.with_nvtx_tool(sys::env(c"NVTX_INJECTION64_PATH"));
    session.timing = Gate::new(options.in_range(sys::env(c"GPUSPY_CAPTURE_RANGE")));
    session.range = Range::begin();
    watch::owned_by(sys::pid());
    let nodes = session.timing.is_on() && sys::env(c"GPUSPY_GRAPH").is_some_and(|g| g == c"nodes");
    session.nodes.on = AtomicBool::new(nodes);
    session.exit.set_quiet(sys::env_is_on(c"GPUSPY_QUIET"));
    session.alive = AtomicU32::new(if wiped.by_kernel { ALIVE } else { ALIVE_HERE });
    let session: &'static Session = session;
    let live = &session.segment.header().live.0;
    // Relaxed: counters, brought over once.
    live.lookups.store(LOOKUPS.load(Ordering::Relaxed), Ordering::Relaxed);
    live.lookups_hooked.store(LOOKUPS_HOOKED.load(Ordering::Relaxed), Ordering::Relaxed);
    live.driver_hooked.store(u64::from(DRIVER_HOOKED.load(Ordering::Relaxed)), Ordering::Relaxed);
    session.lost(LossCause::Starting, MISSED.swap(0, Ordering::Relaxed));
    let claim =
        session.segment.claim(POLLER_SLOT..POLLER_SLOT + 1).ok_or("its shared memory cannot be mapped")?;
    session.environment.store(Box::into_raw(Box::new(Environment::copy())), Ordering::Release);
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

    /// Poller: shows the environment, as long as it has not been handed on.
    fn with_environment(&self, look: impl FnOnce(&Environment)) {
        // Acquire, with the release in `make`.
        let environment = self.environment.load(Ordering::Acquire);
        // SAFETY: null, or made by `make` and not freed yet: the poller, which calls this, is who takes it.
        if let Some(environment) = unsafe { environment.as_ref() } {
            look(environment);
        }
    }

    /// Ends the session before the process: there is nobody to record for. Hooks pass through from here on.
    fn end_unobserved(&self) {
        self.alive.store(UNOBSERVED, Ordering::Relaxed);
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

/// Calls of this function will come through us. Without one among them that launches kernels the report opens with a
/// warning.
pub fn road_found(hook: &Hook) {
    if hook.layer == Layer::Driver && launches_kernels(hook.base.to_bytes()) {
        // Relaxed: a flag for the report.
        DRIVER_HOOKED.store(true, Ordering::Relaxed);
        if let Some(session) = existing() {
            session.segment.header().live.0.driver_hooked.store(1, Ordering::Relaxed);
        }
    }
}

/// Whether this is the name of a function that launches kernels.
fn launches_kernels(base: &[u8]) -> bool {
    base.starts_with(b"cuLaunch") && base != b"cuLaunchHostFunc"
}

#[cfg(test)]
mod tests {
    use super::launches_kernels;

    #[test]
    fn a_host_function_is_no_kernel() {
        let names = crate::table::all().iter().map(|hook| hook.base.to_bytes());
        let mut launching: Vec<&[u8]> = names.filter(|base| launches_kernels(base)).collect();
        launching.sort_unstable();
        launching.dedup();
        let expected = [
            &b"cuLaunch"[..],
            b"cuLaunchCooperativeKernel",
            b"cuLaunchCooperativeKernelMultiDevice",
            b"cuLaunchGrid",
            b"cuLaunchGridAsync",
            b"cuLaunchKernel",
            b"cuLaunchKernelEx",
        ];
        assert_eq!(launching, expected);
    }
}
