//! Which stream does a call's handle mean, and which of its operations have events that are not read yet?
//!
//! A [`Stream`] is created when its handle is first used and is never freed, so hooks and the poller may keep
//! references to it. A hook that wants to record events on it takes a [`Hold`], which only one thread has at
//! a time and for which no thread waits; the operations that it has timed go through a queue to the poller.

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, Ordering};
use gpuspy_wire::record::{self, Head, LossCause, Record, flag};

use crate::cuda::*;
use crate::driver::{self, Driver};
use crate::gpu::context::{Context, Contexts};
use crate::gpu::depth::Entries;
use crate::gpu::draw::Draw;
use crate::gpu::open_burst::{Bursts, OpenBurst};
use crate::gpu::overlap::{CallCounts, Queues, Since, StreamCounts};
use crate::gpu::stream_capture::is_captured;
use crate::keyed::Keyed;
use crate::objects::{Objects, Refused};
use crate::pages::Pages;
use crate::sink::{Ring, Session, poller};
use crate::sys::{Errno, ticks};
use crate::thread::Call;

/// The number of streams of a process that are alive at the same time, default streams included.
const PLACES: usize = 4096;
/// The number of operations of a stream that can wait to be read: what a late poller leaves unread of a
/// stream that drains.
const QUEUE: usize = 2048;
/// The places in the queue that only markers take. One marker comes every 128 entries, so they last for 100
/// ms of continuous launches.
const MARKERS: usize = 256;
/// Set in stream ids of our own, where the driver has no cuStreamGetId (before CUDA 12.0).
const OWN_ID: u64 = 1 << 63;

/// The streams of a session. Valid when zero.
pub struct Streams {
    /// The stream that has this key now. The key is the handle, or for default streams a mixture of context, kind and
    /// thread.
    places: Objects<Stream, PLACES>,
    /// Every [`Stream`] ever created, for the poller. Release on the store, acquire on the load.
    all: [AtomicPtr<Stream>; PLACES],
    /// How many places of `all` are in use. Relaxed: the store to the place in `all` publishes the stream,
    /// and a place that is counted but not stored yet is skipped.
    count: AtomicU32,
    /// The last id of our own. Relaxed: it only has to be unique.
    last_id: AtomicU64,
    /// By CUevent: which entries are complete when the event is.
    positions: Keyed<Position, EVENTS>,
}

/// How far a stream had come when an event was recorded on it: stream index << 48 | entry number. Relaxed:
/// one word that publishes nothing else.
type Position = AtomicU64;
const ENTRY_BITS: u32 = 48;
/// The number of events whose positions are kept.
const EVENTS: usize = 1 << 14;

/// The driver has not said whether the stream belongs to a green context.
const GREEN_UNKNOWN: u64 = u64::MAX;

/// The states of a stream's life.
const RETIRED: u8 = 0; // free: may be turned into another stream
const MAKING: u8 = 1; // a thread is turning it into another stream
const LIVE: u8 = 2;
const DEAD: u8 = 3; // destroyed by the app; the poller reads what it still can

/// A stream. Its memory is never freed, but reused for another stream after its end.
pub struct Stream {
    /// Its index in [`Streams::all`].
    index: usize,
    state: AtomicU8,
    /// The stream's number in records. Relaxed, like the next seven fields: written before the stream is
    /// published in its place.
    id: AtomicU64,
    handle: AtomicU64,
    flags: AtomicU32,
    /// 1 = created with CU_STREAM_NON_BLOCKING: it and the legacy default stream do not wait for each other.
    non_blocking: AtomicU32,
    priority: AtomicI32,
    context: AtomicPtr<Context>,
    /// The CUgreenCtx that it belongs to and ends with; 0 = none; or [`GREEN_UNKNOWN`].
    green: AtomicU64,
    /// The CUcontext whose default stream it is, which is a green context's own; 0 = it has a handle of its own.
    default_of: AtomicU64,
    /// 1 while a thread has the [`Hold`]. Acquire by the thread that takes it, release by the one that drops
    /// it; it guards `last` and the writing end of `queue`.
    held: AtomicU32,
    /// Only the holder accesses it.
    last: UnsafeCell<Last>,
    /// The calls on this stream, counted as they begin and end, to find out which overlap.
    pub call_counts: CallCounts,
    /// What [`is_counted`](Self::is_counted) has found. Relaxed: the poller's own; a thread that turns it into another stream writes
    /// it before the stream is in use.
    is_counted: AtomicBool,
    /// Whether it has been assigned a hardware queue, which its first work does. Relaxed: the thread that changes it counts the
    /// stream in its context's [`Queues`], whose order is the one that matters.
    has_queue: AtomicBool,
    /// The entries enqueued on it.
    pub entries: Entries,
    /// Operations to be read: written by the holder, read by the poller. The release / acquire pair on `tail`
    /// publishes an operation, the one on `head` gives its place back.
    tail: AtomicU64,
    head: AtomicU64,
    queue: Queued,
}

/// A stream's operations that are to be read. Frameworks create streams by the dozen and use few of them: those that are not
/// used take no memory.
type Queued = Pages<UnsafeCell<Pending>>;

/// Makes an empty queue. `None`: there is no memory for it.
fn queued() -> Option<Queued> {
    // SAFETY: an operation consists of numbers and `bool`s, and its memory is never given back.
    unsafe { Pages::new(QUEUE) }
}

// SAFETY: the queue's cells pass from the holder to the poller and back by way of `tail` and `head`; `last`
// passes from holder to holder by way of `held`.
unsafe impl Sync for Stream {}

/// The right to record our events on a stream. One thread has it at a time, and no thread waits for it.
pub struct Hold {
    stream: &'static Stream,
}

/// The newest of our events on a stream, and what is still open after them.
#[derive(Default)]
pub struct Last {
    /// The newest end event; the stream holds it. Other work may have followed it: see [`End::since`].
    pub end: Option<End>,
    /// Launches that are not followed by an end event yet.
    pub burst: Option<OpenBurst>,
    /// On a deep stream: the random draw of the launches that are timed alone.
    pub draw: Draw,
    /// The number of programmatic launches since the last one that was part of a burst.
    pub skipped_programmatic: u32,
    /// The number of operations to wait before the driver is queried again whether `end` has fired.
    pub patience: u32,
    /// The number of consecutive start events that could be shared.
    pub row: u32,
}

/// An end event that has been recorded.
pub struct End {
    /// Index in the context's pool.
    pub event: u32,
    /// The kernel launched before it; 0 = another operation.
    pub function: u64,
    /// Ticks before and after the event's record.
    pub begun: u64,
    pub ended: u64,
    /// The event's entry number.
    pub position: u64,
    /// The call counts at that moment.
    pub since: Since,
}

impl Hold {
    pub fn stream(&self) -> &'static Stream {
        self.stream
    }

    pub fn last(&mut self) -> &mut Last {
        // SAFETY: only the holder accesses `last`, and `self` is the hold; the borrow ends with the borrow of
        // `self`.
        unsafe { &mut *self.stream.last.get() }
    }

    /// Appends an operation for the poller. Returns false when the queue is full.
    pub fn push(&mut self, pending: Pending) -> bool {
        let stream = self.stream;
        let tail = stream.tail.load(Ordering::Relaxed); // only the holder writes it
        // Acquire pairs with the poller's release: it has finished reading the place that is reused.
        if tail - stream.head.load(Ordering::Acquire) >= QUEUE as u64 {
            return false;
        }
        let Some(cell) = stream.queue.get(tail as usize % QUEUE) else { return false };
        // SAFETY: the place is at `tail` and outside [head, tail), so only the holder accesses it.
        unsafe { *cell.get() = pending };
        stream.tail.store(tail + 1, Ordering::Release);
        true
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        // Release pairs with the acquire in `Stream::try_hold`.
        self.stream.held.store(0, Ordering::Release);
    }
}

/// An operation whose events are recorded and not read yet.
#[derive(Clone, Copy, Default)]
pub struct Pending {
    pub correlation: u64,
    /// Indices in the context's pool. A marker has no start event: both are its end event.
    pub start: u32,
    pub end: u32,
    /// The end event's entry number: all entries up to it are complete when the event is.
    pub position: u64,
    /// The budget's window in which it is timed, and the number of calls that had gone onto its stream until
    /// then.
    pub window: u32,
    pub launches: u64,
    /// Whether `start` is also the event that ended the operation before it on the stream.
    pub shares_start: bool,
    /// Whether this is no operation: the event only shows how far the stream has come.
    pub marker: bool,
    /// Whether the launch failed between the two records. The events are read, but nothing is reported.
    pub cancelled: bool,
    /// What the operation's own record could not contain because its end event was deferred: bits of
    /// [`flag`], and [`record::GpuTime::tail`].
    pub flags: u16,
    pub tail: u32,
}

impl Stream {
    fn new(index: usize, queue: Queued) -> Stream {
        Stream {
            index,
            state: AtomicU8::new(RETIRED),
            id: AtomicU64::new(0),
            handle: AtomicU64::new(0),
            flags: AtomicU32::new(0),
            non_blocking: AtomicU32::new(0),
            priority: AtomicI32::new(0),
            context: AtomicPtr::new(core::ptr::null_mut()),
            green: AtomicU64::new(0),
            default_of: AtomicU64::new(0),
            held: AtomicU32::new(0),
            last: UnsafeCell::new(Last::default()),
            call_counts: CallCounts::default(),
            is_counted: AtomicBool::new(false),
            has_queue: AtomicBool::new(false),
            entries: Entries::default(),
            tail: AtomicU64::new(0),
            head: AtomicU64::new(0),
            queue,
        }
    }

    /// The stream's number in records.
    pub fn id(&self) -> u64 {
        self.id.load(Ordering::Relaxed)
    }

    /// Whether its [`handle`](Self::handle) means it while this CUcontext is current.
    pub fn is_named_in(&self, context: CUcontext) -> bool {
        let default_of = self.default_of.load(Ordering::Relaxed);
        default_of == 0 || default_of == context as u64
    }

    /// The handle to record events on. It means the same stream on every thread, except that a default stream's means the current
    /// context's, and a per-thread default stream's the calling thread's.
    pub fn handle(&self) -> CUstream {
        self.handle.load(Ordering::Relaxed) as CUstream
    }

    /// The bits of [`flag`] that say which default stream it is.
    pub fn flags(&self) -> u16 {
        self.flags.load(Ordering::Relaxed) as u16
    }

    /// The counts in which a call appears that puts something on this stream.
    #[inline(always)]
    pub fn counts(&'static self) -> StreamCounts {
        let counts = self.counts_of_captured();
        if !self.has_queue.load(Ordering::Relaxed) {
            self.take_queue(counts.queues);
        }
        counts
    }

    /// The counts in which a call on this stream appears that is captured: it gives the stream no work, and so no queue.
    #[inline(always)]
    pub fn counts_of_captured(&'static self) -> StreamCounts {
        let queues = self.context().map(|context| &context.queues);
        StreamCounts { stream: &self.call_counts, queues, across: self.counts_across() }
    }

    /// Takes note of the stream's first work. cuBLAS of CUDA 13 creates 16 or 32 streams in each context and uses almost none: if
    /// those counted, every program that multiplies matrices would seem to share queues.
    #[cold]
    fn take_queue(&self, queues: Option<&Queues>) {
        if !self.has_queue.swap(true, Ordering::Relaxed) {
            queues.into_iter().for_each(Queues::add_stream);
        }
    }

    /// Poller: whether all calls on it that are under way are counted as calls on shared queues, which streams of its context
    /// have. It is so from the first moment at which none is under way.
    pub fn is_counted(&self) -> bool {
        let is_counted = self.is_counted.load(Ordering::Relaxed) || self.call_counts.is_quiet();
        self.is_counted.store(is_counted, Ordering::Relaxed);
        is_counted
    }

    /// The counts of the calls on streams of its kind, and of those that its work is ordered with across
    /// streams: the legacy default stream is ordered with every blocking stream (CUDA Programming Guide,
    /// "Default stream").
    fn counts_across(&self) -> Option<(&'static CallCounts, &'static CallCounts)> {
        let context = self.context()?;
        if self.flags() & flag::LEGACY_STREAM != 0 {
            Some((&context.legacy, &context.blocking))
        } else {
            (self.non_blocking.load(Ordering::Relaxed) == 0).then_some((&context.blocking, &context.legacy))
        }
    }

    /// The stream's context.
    pub fn context(&self) -> Option<&'static Context> {
        // SAFETY: the pointer is null or a leaked context, stored before the stream was published.
        unsafe { self.context.load(Ordering::Relaxed).as_ref() }
    }

    /// Its own address, which no other stream has while it exists.
    pub fn address(&self) -> u64 {
        core::ptr::from_ref(self) as u64
    }

    /// The address of its context.
    pub fn context_address(&self) -> u64 {
        self.context.load(Ordering::Relaxed) as u64
    }

    /// Whether it belongs to this green context.
    fn is_green(&self, green: CUgreenCtx) -> bool {
        !green.is_null() && self.green.load(Ordering::Relaxed) == green as u64
    }

    /// Whether it belongs to this green context or may belong to it.
    pub fn may_be_green(&self, green: CUgreenCtx) -> bool {
        self.is_green(green) || self.green.load(Ordering::Relaxed) == GREEN_UNKNOWN
    }

    /// Takes the hold, unless another thread has it or the context may be ending.
    #[inline]
    pub fn hold(&'static self) -> Option<Hold> {
        self.try_hold().filter(|_| !self.context().is_some_and(Context::is_leaving))
    }

    /// Acquire pairs with the release of the last holder. SeqCst pairs with the context's `ending`: either
    /// the thread that ends the context waits for the holder, or the holder sees that the context is ending.
    #[inline]
    fn try_hold(&'static self) -> Option<Hold> {
        let free = self.held.compare_exchange(0, 1, Ordering::SeqCst, Ordering::Relaxed).is_ok();
        // `then`, not `then_some`: dropping a `Hold` releases it, so one must be created only after the
        // exchange succeeded.
        free.then(|| Hold { stream: self })
    }

    /// Whether a thread has the hold.
    pub fn is_held(&self) -> bool {
        self.held.load(Ordering::SeqCst) != 0
    }

    /// Whether a pair of events has a place in the queue. The last places are kept for markers: without them,
    /// nothing would show how far the stream has come.
    pub fn has_room(&self) -> bool {
        let (oldest, end) = self.unread();
        end - oldest < (QUEUE - MARKERS) as u64
    }

    /// The oldest operation that is not read yet.
    pub fn oldest(&self) -> Option<Pending> {
        let (head, tail) = self.unread();
        if head < tail { self.at(head) } else { None }
    }

    /// The positions of the operations that are not read yet: that of the oldest, and one past the newest.
    /// Exact for the poller; a hint for a hook.
    pub fn unread(&self) -> (u64, u64) {
        // Acquire pairs with the release in `Hold::push`.
        let tail = self.tail.load(Ordering::Acquire);
        (self.head.load(Ordering::Relaxed).min(tail), tail)
    }

    /// The number of unread operations, or 0 if they can only be markers: hooks query those, and the poller
    /// need not hurry for them.
    pub fn to_be_read(&self) -> u64 {
        let (oldest, end) = self.unread();
        let is_marker = |position| self.at(position).is_none_or(|op| op.marker);
        if oldest < end && (!is_marker(oldest) || !is_marker(end - 1)) { end - oldest } else { 0 }
    }

    /// Whether an unread operation is not known to be complete, so that a query of its event can show how far
    /// the stream has come.
    pub fn is_watched(&self) -> bool {
        let (oldest, end) = self.unread();
        oldest < end && self.at(end - 1).is_some_and(|op| !self.entries.is_complete(op.position))
    }

    /// The unread operation at a position.
    pub fn at(&self, position: u64) -> Option<Pending> {
        // SAFETY: positions in [head, tail) were written before the release that `unread` acquired. A hook's
        // stale position can mean a place that is being rewritten: all fields are plain integers, and an
        // event query with a wrong index is harmless.
        self.queue.get(position as usize % QUEUE).map(|cell| unsafe { cell.get().read_volatile() })
    }

    /// Poller: removes the oldest operation, which has been read.
    pub fn pop(&self) {
        self.head.store(self.head.load(Ordering::Relaxed) + 1, Ordering::Release);
    }

    /// Whether the app still has the stream. Acquire pairs with the stores that end it: see
    /// [`Stream::ended`].
    pub fn is_live(&self) -> bool {
        self.state.load(Ordering::Acquire) == LIVE
    }

    /// Ends the stream when the app destroys it: when this returns, the agent does not touch it any more. A
    /// thread that takes the hold later checks that the stream is live before it records an event for
    /// anything but a launch there; this call waits for a thread that has the hold already. That takes as
    /// long as one record, or as long as a launch that the app makes on it at the same time, 100 ms at most.
    fn ended(&'static self, poller: &poller::Shared) {
        self.state.store(DEAD, Ordering::SeqCst);
        poller.finished(|| self.try_hold().is_some());
        poller.wake(); // the poller reads what is left, and then the stream can be reused
    }

    /// Whether its context has ended before it, so that its handle means another stream by now.
    #[inline(always)]
    fn is_outlived(&self) -> bool {
        self.context().is_some_and(|c| c.gone.load(Ordering::Acquire))
    }

    /// Whether the poller has anything to do with it.
    pub fn is_in_use(&self) -> bool {
        self.state.load(Ordering::Acquire) != RETIRED
    }

    /// Poller: releases a destroyed stream without unread operations for reuse. Returns the number of
    /// operations whose times are lost by that.
    pub fn retire_if_dead(&'static self, bursts: &Bursts) -> u64 {
        let mut lost = 0;
        if self.state.load(Ordering::Acquire) == DEAD
            && self.oldest().is_none()
            && let Some(mut hold) = self.try_hold()
        {
            let last = core::mem::take(hold.last());
            if let Some(burst) = &last.burst {
                bursts.abandoned();
                lost += u64::from(burst.is_deferred);
            }
            // What a gone context had is given back as a whole: see `Pool::close`.
            if let Some(Context { pool, .. }) = self.context().filter(|c| !c.gone.load(Ordering::Acquire)) {
                let held = [last.end.map(|e| e.event), last.burst.map(|b| b.start), last.draw.witness()];
                held.into_iter().flatten().for_each(|event| pool.give(event));
            }
            // Release pairs with the acquire in `take_retired`. Only the poller changes the state from DEAD.
            let _ = self.state.compare_exchange(DEAD, RETIRED, Ordering::Release, Ordering::Relaxed);
        }
        lost
    }

    /// Poller: drops the unread operations, which can never be read. Returns the number of operations whose
    /// times are lost.
    fn drop_pending(&self) -> u64 {
        let mut lost = 0;
        while let Some(pending) = self.oldest() {
            lost += u64::from(!pending.marker && !pending.cancelled);
            self.pop();
        }
        lost
    }
}

/// The stream that a call's handle means.
#[derive(Clone, Copy)]
enum Name {
    Handle(u64),
    Legacy,
    PerThread,
}

impl Name {
    fn of(handle: CUstream, per_thread: bool) -> Name {
        match handle as usize {
            0 if per_thread => Name::PerThread,
            0 | STREAM_LEGACY => Name::Legacy,
            STREAM_PER_THREAD => Name::PerThread,
            other => Name::Handle(other as u64),
        }
    }

    /// The key in [`Streams::places`]. `thread` is the identity of the calling thread's state.
    fn key(self, context: CUcontext, thread: u64) -> u64 {
        // Default streams' keys are odd mixtures; handles are aligned addresses, so the two never collide.
        match self {
            Name::Handle(handle) => handle,
            Name::Legacy => (context as u64).rotate_left(17) ^ 0x5151_0001,
            Name::PerThread => (context as u64).rotate_left(17) ^ thread.rotate_left(32) ^ 0xA3A3_0003,
        }
    }

    fn flags(self) -> u16 {
        match self {
            Name::Handle(_) => 0,
            Name::Legacy => flag::LEGACY_STREAM,
            Name::PerThread => flag::PER_THREAD_STREAM,
        }
    }
}

impl Streams {
    /// Returns the stream that a call means, and creates it if it is new; slow only then. `None`: there is no
    /// context or no room.
    #[inline(always)]
    pub fn get(&self, call: &Call, driver: &Driver, handle: CUstream) -> Option<&'static Stream> {
        match self.at_once(handle, call.per_thread) {
            None => self.get_any(call, driver, handle),
            stream => stream,
        }
    }

    /// Returns the stream that a call means, if it is found at once and is not the thread's own default stream.
    #[inline(always)]
    pub fn at_once(&self, handle: CUstream, per_thread: bool) -> Option<&'static Stream> {
        match Name::of(handle, per_thread) {
            Name::Handle(key) => self.first(key),
            Name::Legacy => self.legacy_at_once(),
            Name::PerThread => None,
        }
    }

    #[inline(always)]
    fn first(&self, key: u64) -> Option<&'static Stream> {
        self.places.first(key).filter(|stream| !stream.is_outlived())
    }

    /// Leaves errno as it is, which the driver may change.
    #[inline(never)]
    fn legacy_at_once(&self) -> Option<&'static Stream> {
        let errno = Errno::save();
        let context = driver::driver().map(Driver::current_context);
        errno.restore();
        self.first(Name::Legacy.key(context?, 0))
    }

    /// Does the same for default streams, and for those that are new or were not found at once.
    fn get_any(&self, call: &Call, driver: &Driver, handle: CUstream) -> Option<&'static Stream> {
        let name = Name::of(handle, call.per_thread);
        let context = match name {
            Name::Handle(_) => core::ptr::null_mut(),
            _ => driver.current_context(),
        };
        let key = name.key(context, call.thread_identity());
        match self.places.find(key) {
            Some(stream) if !stream.is_outlived() => return Some(stream),
            Some(stream) => self.give_up(key, stream),
            None => {}
        }
        if !self.places.has_room(key) {
            call.lost(LossCause::TableFull, 1);
            return None;
        }
        self.make(call, driver, handle, name, context, key)
    }

    /// Ends a stream whose destruction was not observed, and removes it from its key for the stream that has its handle now.
    #[cold]
    fn give_up(&self, key: u64, stream: &'static Stream) {
        if self.places.remove_this(key, stream) {
            stream.state.store(DEAD, Ordering::Release);
        }
    }

    /// Takes note that a call has just created the stream with this handle. A stream that had the handle
    /// before is gone.
    pub fn made(&self, call: &Call, handle: CUstream) {
        if let Some(old) = self.places.find(handle as u64) {
            self.give_up(handle as u64, old);
        }
        if let Some(driver) = crate::driver::driver() {
            self.get(call, driver, handle);
        }
    }

    /// Creates a stream. Querying a stream's properties while it captures would end the capture, so a
    /// capturing stream is created at its first use afterwards. Other streams are queried with the thread's
    /// capture mode RELAXED, since captures elsewhere may be under way.
    #[cold]
    fn make(
        &self,
        call: &Call,
        driver: &Driver,
        handle: CUstream,
        name: Name,
        context: CUcontext,
        key: u64,
    ) -> Option<&'static Stream> {
        let recorded_on = match name {
            Name::Handle(handle) => handle,
            Name::Legacy => STREAM_LEGACY as u64,
            Name::PerThread => STREAM_PER_THREAD as u64,
        };
        if is_captured(call, recorded_on as CUstream) {
            return None;
        }
        driver
            .relaxed(|| self.query_and_make(call, driver, (handle, recorded_on), name, context, key))
            .flatten()
    }

    fn query_and_make(
        &self,
        call: &Call,
        driver: &Driver,
        (handle, recorded_on): (CUstream, u64),
        name: Name,
        of: CUcontext,
        key: u64,
    ) -> Option<&'static Stream> {
        let (context_handle, green) = match (driver.contexts_of(recorded_on as CUstream), name) {
            (Some(contexts), _) => contexts,
            (None, Name::Handle(_)) => (context_of(driver, handle), GREEN_UNKNOWN as CUgreenCtx),
            (None, _) => (of, GREEN_UNKNOWN as CUgreenCtx),
        };
        let context = call.session.get::<Contexts>().get(call, driver, context_handle)?;
        let mut flags = 0;
        // SAFETY: a stream that the app is about to use; the call writes to a local variable.
        let result = driver.stream_flags.map(|query| unsafe { query(recorded_on as CUstream, &mut flags) });
        if result.is_some_and(|result| result != CUDA_SUCCESS) {
            return None; // no such stream: the app's call will fail, and a later stream may get this handle
        }
        let mut priority = 0;
        // SAFETY: as above.
        driver.stream_priority.map(|query| unsafe { query(recorded_on as CUstream, &mut priority) });
        let stream = self.take_retired()?;
        let id = self.id_of(driver, recorded_on as CUstream);
        stream.id.store(id, Ordering::Relaxed);
        stream.handle.store(recorded_on, Ordering::Relaxed);
        stream.flags.store(u32::from(name.flags()), Ordering::Relaxed);
        stream.non_blocking.store(flags & STREAM_NON_BLOCKING, Ordering::Relaxed);
        stream.priority.store(priority, Ordering::Relaxed);
        stream.context.store(core::ptr::from_ref(context).cast_mut(), Ordering::Relaxed);
        stream.green.store(green as u64, Ordering::Relaxed);
        let default_of = if name.flags() == 0 { 0 } else { of as u64 };
        stream.default_of.store(default_of, Ordering::Relaxed);
        stream.is_counted.store(false, Ordering::Relaxed);
        stream.has_queue.store(false, Ordering::Relaxed);
        stream.state.store(LIVE, Ordering::Release);
        // Two threads can meet a new stream at the same time: the first one to insert it wins, and the other's
        // goes back.
        let refused = match self.places.insert(key, stream) {
            Ok(()) => {
                call.publish(&describe(stream, context, ticks()));
                return Some(stream);
            }
            Err(refused) => refused,
        };
        stream.state.store(RETIRED, Ordering::Release);
        match refused {
            Refused::Taken(other) => Some(other),
            Refused::Busy => None,
            Refused::Full => {
                call.lost(LossCause::TableFull, 1);
                None
            }
        }
    }

    /// Returns a stream to turn into a new one: a retired one, or a newly allocated one.
    fn take_retired(&self) -> Option<&'static Stream> {
        for stream in self.iter() {
            let taken =
                stream.state.compare_exchange(RETIRED, MAKING, Ordering::AcqRel, Ordering::Relaxed).is_ok();
            if taken {
                stream.entries.restart();
                return Some(stream);
            }
        }
        let queue = queued()?;
        // Relaxed: the place is ours by the count; the store below publishes its contents.
        let index = self.count.fetch_add(1, Ordering::Relaxed) as usize;
        let Some(place) = self.all.get(index) else {
            self.count.fetch_sub(1, Ordering::Relaxed);
            return None;
        };
        let stream = Box::into_raw(Box::new(Stream::new(index, queue)));
        // SAFETY: the allocation has just been made, and is leaked.
        let stream = unsafe { &*stream };
        stream.state.store(MAKING, Ordering::Relaxed);
        place.store(core::ptr::from_ref(stream).cast_mut(), Ordering::Release);
        Some(stream)
    }

    /// Takes note that an event was recorded on a stream as its entry `position`.
    pub fn note_recorded(&self, event: CUevent, stream: &Stream, position: u64) {
        if let Some(word) = self.positions.get(event as u64) {
            word.store(
                (stream.index as u64) << ENTRY_BITS | position & ((1 << ENTRY_BITS) - 1),
                Ordering::Relaxed,
            );
        }
    }

    /// Forgets what is complete when an event is. (The agent does not observe a record by a graph's own node.
    /// Such an event, if it was recorded on a stream before, makes that stream look less deep than it is.)
    pub fn forget_recorded(&self, event: CUevent) {
        if let Some(word) = self.positions.find(event as u64) {
            word.store(0, Ordering::Relaxed);
        }
    }

    /// The stream that an event was last recorded on, and the entry number that is complete when the event
    /// is.
    pub fn recorded_at(&self, event: CUevent) -> Option<(&'static Stream, u64)> {
        let word = self.positions.get(event as u64)?.load(Ordering::Relaxed);
        let place = self.all.get((word >> ENTRY_BITS) as usize).filter(|_| word != 0)?;
        // SAFETY: null or a stream, which is never freed. Acquire pairs with the release in `take_retired`.
        let stream = unsafe { place.load(Ordering::Acquire).as_ref() }?;
        Some((stream, word & ((1 << ENTRY_BITS) - 1)))
    }

    /// All streams ever created. A place that is counted and not stored yet is skipped.
    pub fn iter(&self) -> impl Iterator<Item = &'static Stream> + '_ {
        let count = self.count.load(Ordering::Relaxed) as usize;
        // SAFETY: null or a stream, which is never freed. Acquire pairs with the release in `take_retired`.
        self.all.iter().take(count).filter_map(|place| unsafe { place.load(Ordering::Acquire).as_ref() })
    }

    /// The number of calls so far that went onto a stream.
    pub fn passed(&self) -> u64 {
        self.iter().map(|s| s.call_counts.begun()).sum()
    }

    fn id_of(&self, driver: &Driver, handle: CUstream) -> u64 {
        let mut id = 0u64;
        // SAFETY: a stream that the app is about to use; the call writes to a local variable.
        let has_id = driver.stream_id.is_some_and(|query| unsafe { query(handle, &mut id) } == CUDA_SUCCESS);
        if has_id { id } else { OWN_ID | (self.last_id.fetch_add(1, Ordering::Relaxed) + 1) }
    }

    /// Ends a stream that the app destroys. The driver may give its handle to another stream.
    /// `end_burst` ends an open burst on it.
    pub fn destroyed(&self, call: &Call, handle: CUstream, end_burst: impl Fn(&'static Stream)) {
        let Name::Handle(key) = Name::of(handle, call.per_thread) else { return };
        if let Some(stream) = self.places.remove(key) {
            end_burst(stream);
            self.end(call, stream);
        }
    }

    /// Does the same for a thread that can record nothing, and returns the stream. What is open on it is not timed.
    pub fn destroyed_unrecorded(
        &self,
        session: Session,
        handle: CUstream,
        per_thread: bool,
    ) -> Option<&'static Stream> {
        let Name::Handle(key) = Name::of(handle, per_thread) else { return None };
        let stream = self.places.remove(key)?;
        stream.ended(&session.poller);
        Some(stream)
    }

    /// Ends the streams of a green context that goes away. They can do nothing more, though the app has yet
    /// to destroy those that it created. `end_burst` ends an open burst on a stream.
    pub fn green_ends(&self, call: &Call, green: CUgreenCtx, end_burst: impl Fn(&'static Stream)) {
        self.places.remove_where(
            |stream| stream.is_green(green),
            |stream| {
                end_burst(stream);
                self.end(call, stream);
            },
        );
    }

    /// Ends a stream that no handle means any more.
    fn end(&self, call: &Call, stream: &'static Stream) {
        let record = record::Stream {
            head: Head::new::<record::Stream>(),
            at: ticks(),
            stream: stream.id(),
            handle: stream.handle() as u64,
            context: stream.context().map_or(0, |c| c.number),
            change: 2,
            ..Default::default()
        };
        call.publish(&record);
        stream.ended(&call.session.poller);
    }

    /// Ends the default streams of a thread that has ended.
    pub fn thread_ended(&self, thread: u64) {
        for of in self.iter().map(|stream| stream.default_of.load(Ordering::Relaxed)).filter(|of| *of != 0) {
            let key = Name::PerThread.key(of as CUcontext, thread);
            if let Some(stream) = self.places.remove(key) {
                stream.state.store(DEAD, Ordering::Release);
            }
        }
    }

    /// The streams of a context.
    pub fn of(&self, context: &Context) -> impl Iterator<Item = &'static Stream> + '_ {
        let context = core::ptr::from_ref(context).cast_mut();
        self.iter().filter(move |s| s.is_in_use() && s.context.load(Ordering::Relaxed) == context)
    }

    /// Ends the streams of a context that is gone; the poller drops what it had not read.
    pub fn abandon(&self, context: &Context) {
        let of_context = |s: &Stream| s.context().is_some_and(|c| core::ptr::eq(c, context));
        self.places.remove_where(of_context, |stream| stream.state.store(DEAD, Ordering::Release));
    }

    /// Poller: publishes the streams that the app has again, as of `at` (ticks), for a collector that has not seen them.
    pub fn publish_again(&self, at: u64, ring: &mut Ring) {
        for stream in self.iter().filter(|stream| stream.is_live() && !stream.is_outlived()) {
            let record = stream.context().map(|context| describe(stream, context, at));
            record.iter().for_each(|record| _ = ring.push(record.as_words()));
        }
    }

    /// Poller: drops what can no longer be read of streams whose context is gone. Returns the number of
    /// operations whose times are lost.
    pub fn drop_abandoned(&self) -> u64 {
        let gone = |s: &&Stream| s.is_in_use() && s.context().is_some_and(|c| c.gone.load(Ordering::Acquire));
        self.iter().filter(gone).map(Stream::drop_pending).sum()
    }
}

/// Returns a stream's context from the driver, or else the current context, which the call requires to be the
/// same.
fn context_of(driver: &Driver, stream: CUstream) -> CUcontext {
    let mut context: CUcontext = core::ptr::null_mut();
    if let Some(query) = driver.stream_context {
        // SAFETY: a stream that the app is about to use; the call writes to a local variable.
        if unsafe { query(stream, &mut context) } == CUDA_SUCCESS && !context.is_null() {
            return context;
        }
    }
    driver.current_context()
}

/// Builds the record of a stream's creation at that moment (ticks).
fn describe(stream: &Stream, context: &Context, at: u64) -> record::Stream {
    record::Stream {
        head: Head { flags: stream.flags(), ..Head::new::<record::Stream>() },
        at,
        stream: stream.id(),
        handle: stream.handle() as u64,
        context: context.number,
        flags: stream.non_blocking.load(Ordering::Relaxed),
        priority: stream.priority.load(Ordering::Relaxed),
        change: 1,
        ..Default::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_try_leaves_the_hold_to_its_holder() {
        let stream: &'static Stream = Box::leak(Box::new(Stream::new(0, queued().unwrap())));
        let hold = stream.try_hold();
        assert!(hold.is_some() && stream.try_hold().is_none() && stream.hold().is_none());
        assert!(stream.is_held(), "the failed attempt does not release it");
        drop(hold);
        assert!(!stream.is_held() && stream.hold().is_some());
    }
}
