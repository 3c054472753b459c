//! A session: everything that the agent has in a process that calls CUDA. It starts at the first call for which there
//! is a real function; a process that makes no such call has no thread, no file and no output of ours.
//!
//! All of it lies in one zeroed mapping that is wiped in a forked child ([`wiped`](crate::sink::wiped)): the child
//! finds [`Live`]'s first word zero, leaves its parent's session alone, and starts one of its own at its own first
//! call. (After vfork the memory, and with it the session, is the parent's.)
//!
//! The agent is put together here: [`Whole`] has every part of a session, and the lower floors reach the parts that
//! they name by type ([`sink::Part`]).

mod announcement;
mod attachment;
mod clone;
pub mod collector;
mod environment;
pub mod exit;
pub mod job;
mod place;
mod poller;

use core::ffi::c_void;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use gpuspy_wire::capture_range::CaptureRange;
use gpuspy_wire::record::{CaptureEdge, LossCause, Record};
use gpuspy_wire::segment::POLLER_SLOT;

use crate::facts::Facts;
use crate::gpu::budget::{Budget, Gate};
use crate::gpu::capture_range::Range;
use crate::gpu::context::Contexts;
use crate::gpu::depth::Queue;
use crate::gpu::event_pairs::PairsOnly;
use crate::gpu::nodes::Nodes;
use crate::gpu::open_burst::Bursts;
use crate::gpu::stream::Streams;
use crate::gpu::stream_capture::StreamCaptures;
use crate::graphs::Graphs;
use crate::loader::{sanitizers, symbols};
use crate::names::Names;
use crate::native::Native;
use crate::nvtx::watch;
use crate::options::{Connections, Options};
use crate::python::Python;
use crate::sink::segment::Claim;
use crate::sink::{self, Begin, Beginning, Live, Part, Ring, Session, descriptors, lookups, wiped};
use crate::sys::{self, ticks};
use crate::thread::{self, Leaving};
use collector::Waiting;
use environment::Environment;

/// Declares the session's memory, and where each part lies in it.
macro_rules! session {
    ($($(#[$meta:meta])* $field:ident: $part:ty,)*) => {
        /// A session's state and tables. Every field is valid when zero.
        #[repr(C)]
        struct Whole {
            /// The first field: a session's handle is its address.
            live: Live,
            $($(#[$meta])* $field: $part,)*
        }

        $(impl Part for $part {
            #[inline(always)]
            fn of(session: Session) -> &'static $part {
                &whole(session).$field
            }
        })*
    };
}

session! {
    contexts: Contexts,
    streams: Streams,
    names: Names,
    facts: Facts,
    graphs: Graphs,
    nodes: Nodes,
    bursts: Bursts,
    captures: StreamCaptures,
    python: Python,
    native: Native,
    /// Which operations are timed.
    timing: Gate,
    /// Which part of the run is observed.
    range: Range,
    /// How long launch queues are.
    queue: Queue,
    pairs_only: PairsOnly,
    exit: exit::Shared,
    environment: Waiting,
    listed: job::Listed,
}

/// Returns all of a session.
#[inline(always)]
fn whole(session: Session) -> &'static Whole {
    // SAFETY: every session is made by `make`: the front of a `Whole` that is never unmapped.
    unsafe { &*session.as_ptr().cast::<Whole>() }
}

/// The process that has started a session, and whether it is still doing so: pid and phase in one word, so that one
/// compare-exchange decides which thread starts it. A child inherits the word, and `fork` [clears](forked) it there: a word with another
/// pid is that of a parent whose child was made without handlers. Release on the stores, acquire on the loads: what the
/// starting thread did before.
static STATE: AtomicU64 = AtomicU64::new(0);

/// `fork` calls this in a child, so that it begins a session of its own.
extern "C" fn forked() {
    STATE.store(0, Ordering::Release);
}

/// Returns [`STATE`] while a process's session is being made.
const fn starting(pid: u32) -> u64 {
    (pid as u64) << 1
}

/// Returns [`STATE`] when that is over, with a session or without.
const fn started(pid: u32) -> u64 {
    starting(pid) | 1
}

/// Calls that passed unrecorded while another thread was making the session, and were not counted in it so far.
static MISSED: AtomicU64 = AtomicU64::new(0);

impl Begin for Beginning {
    #[cold]
    fn begin() -> Option<Session> {
        begin()
    }
}

#[cold]
fn begin() -> Option<Session> {
    let errno = sys::Errno::save();
    let _whole = sys::Uncancelled::new();
    static HANDLED: AtomicBool = AtomicBool::new(false);
    // Before anything else, since a thread may fork meanwhile. Without memory for the handler, children are not observed.
    sys::handle_children(&HANDLED, forked);
    let pid = sys::pid();
    let is_ours = |state| state == starting(pid) || state == started(pid);
    let begun = STATE.fetch_update(Ordering::AcqRel, Ordering::Acquire, |state| {
        // The first call of this process finds its parent's word, or 0.
        (!is_ours(state)).then_some(starting(pid))
    });
    let session = match begun {
        Ok(before) => start(pid, before != 0),
        Err(state) if state == starting(pid) => wait_for_start(pid),
        Err(_) => sink::existing(),
    };
    errno.restore();
    session
}

/// Waits for the thread that is making the session. That takes a fraction of a millisecond; the wait ends after 5 ms.
fn wait_for_start(pid: u32) -> Option<Session> {
    for _ in 0..100 {
        if STATE.load(Ordering::Acquire) == started(pid) {
            return sink::existing();
        }
        sys::sleep_ns(50_000);
    }
    // Acquire and release, as in `count_missed`: either that of `start` sees this call, or what follows sees its session.
    MISSED.fetch_add(1, Ordering::AcqRel);
    sink::existing().iter().for_each(count_missed);
    None
}

/// Counts the calls that were missed so far as lost.
fn count_missed(session: &Session) {
    // Acquire and release: see `wait_for_start`.
    session.lost(LossCause::Starting, MISSED.swap(0, Ordering::AcqRel));
}

/// Makes the session of a process. A child that `clone` or `_Fork` made gets none: threads of its parent that it does not have may hold
/// libc's locks in it for ever, and to start a thread takes some. (CUDA refuses the calls of such a child, if its parent has called it.)
fn start(pid: u32, is_cloned: bool) -> Option<Session> {
    let made = if sink::is_enabled() && !is_cloned { make() } else { Err("") };
    match made {
        Ok(session) => sink::publish(session),
        Err(_) => sink::turn_off(),
    }
    STATE.store(started(pid), Ordering::Release);
    match made {
        Ok(session) => {
            count_missed(&session);
            range_begins(session);
            sink::existing()
        }
        Err(why) => {
            exit::say_unobserved(why, sys::env_is_on(c"GPUSPY_QUIET"));
            None
        }
    }
}

fn make() -> Result<Session, &'static str> {
    symbols::in_libc(c"clock_gettime").into_iter().for_each(sys::read_clocks_with);
    if sys::is_data_low() {
        return Err("the limit on its data (ulimit -d) leaves no room for it");
    }
    let Some(wiped) = wiped::map(size_of::<Whole>()) else { return Err("there is no memory for it") };
    sanitizers::is_no_leak(wiped.memory.cast(), size_of::<Whole>());
    let memory = wiped.memory.cast::<Whole>();
    // SAFETY: zeroed, and every field is valid when zero; page-aligned; ours alone until it is published.
    let whole: &mut Whole = unsafe { &mut *memory };
    let is_tight = sys::is_memory_tight(memory.cast(), size_of::<Whole>());
    whole.live.segment.create(is_tight)?;
    descriptors::close_in_children();
    whole.live.segment.fd().into_iter().for_each(|fd| descriptors::SEGMENT.keep(fd));
    sys::keep_one_heap();
    let mut key: libc::pthread_key_t = 0;
    // SAFETY: writes our own variable; the destructor is a function of this library, which is never unloaded.
    if unsafe { libc::pthread_key_create(&mut key, Some(thread_ended)) } != 0 {
        return Err("this process has no thread-specific keys left");
    }
    whole.live.key = AtomicU32::new(key);
    whole.live.at_exit = Some(exit::at_exit);
    whole.pairs_only = PairsOnly(sys::env(c"GPUSPY_EVENTS").is_some_and(|e| e == c"pairs"));
    let connections = sys::env(c"CUDA_DEVICE_MAX_CONNECTIONS");
    whole.contexts.connections = Connections::read(connections);
    whole.queue = Queue::scaled(sys::env(c"CUDA_SCALE_LAUNCH_QUEUES"));
    let options = Options::read(sys::env(c"GPUSPY_TIMING"), sys::env(c"GPUSPY_BUDGET"), connections);
    let options = options.with_nvtx_tool(sys::env(c"NVTX_INJECTION64_PATH"));
    let options = options.with_graphs(sys::env(c"GPUSPY_GRAPH"));
    let times_nodes = options.times_nodes;
    whole.timing = Gate::new(options.in_range(sys::env(c"GPUSPY_CAPTURE_RANGE")));
    whole.range = Range::begin();
    whole.python.begin(sys::env(c"GPUSPY_STACKS"));
    whole.native.begin(whole.python.is_off(), sys::env_is_on(c"GPUSPY_NATIVE"));
    watch::owned_by(sys::pid());
    whole.nodes.on = AtomicBool::new(whole.timing.is_on() && times_nodes);
    whole.exit.set_quiet(sys::env_is_on(c"GPUSPY_QUIET"));
    whole.live.begin(wiped.by_kernel);
    // SAFETY: mapped for good; the front is the mapping's first field, and the rest of it lies behind that.
    let session = unsafe { Session::new(NonNull::new_unchecked(memory.cast::<Live>())) };
    lookups::bring_over(&session);
    let claim =
        session.segment.claim(POLLER_SLOT..POLLER_SLOT + 1).ok_or("its shared memory cannot be mapped")?;
    session.get::<Waiting>().put(Environment::copy().ok_or("there is no memory for it")?);
    poller::start(session, introduced(session, claim)).map_err(|()| "no thread can be started")?;
    collector::reach_at_once(session);
    session.register_at_exit();
    Ok(session)
}

/// Returns the poller's ring with the process's identity in it, before anything else, and the names of the functions: without them,
/// the calls of a process that ends before the poller has begun would be numbers.
fn introduced(session: Session, claim: Claim) -> Ring {
    let mut ring = Ring::new(session, claim);
    attachment::introduce(session, &mut ring);
    session.get::<Names>().publish_functions(&mut ring);
    Budget::introduce(session, &mut ring);
    ring
}

/// Records that the capture range begins with the session, if it does. The session has been published.
fn range_begins(session: Session) {
    let now = ticks();
    let publish = |change: &CaptureEdge| thread::aside(session, now, change.as_words());
    let (range, gate) = (session.get::<Range>(), session.get::<Gate>());
    match gate.range() {
        Some(CaptureRange::Nvtx { .. }) => range.follow(gate, now, watch::is_open, publish),
        Some(CaptureRange::Delay { delay: 0, .. }) => {
            range.change(gate, true, now).iter().for_each(publish);
        }
        _ => {}
    }
}

/// Runs at a thread's end: records that it leaves an NVTX range, and gives its events and its streams back.
unsafe extern "C" fn thread_ended(state: *mut c_void) {
    let parts = |thread: &mut Leaving<'_>| {
        let session = thread.session;
        if watch::thread_ended() {
            let publish = |change: &CaptureEdge| thread.push(change.as_words());
            session.get::<Range>().follow(session.get::<Gate>(), ticks(), watch::is_open, publish);
        }
        thread.events().empty(|context| session.get::<Contexts>().pool(context));
        session.get::<Streams>().thread_ended(thread.identity);
    };
    // SAFETY: the key's destructor: what `Live::claim` was given on this thread.
    unsafe { thread::ended(state, parts) };
}
