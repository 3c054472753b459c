//! Which stream does a call's handle mean, and which of its operations have events that are not read yet?
//!
//! A [`Stream`] is created when its handle is first used and is never freed, so hooks and the poller may keep
//! references to it. A hook that wants to record events on it takes a [`Hold`], which only one thread has at
//! a time and for which no thread waits; the operations that it has timed go through a queue to the poller.

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, Ordering};
use gpuspy_wire::record::flag;

use crate::cuda::*;
use crate::gpu::context::Context;
use crate::gpu::depth::{Density, Entries, Queue};
use crate::gpu::draw::Draw;
use crate::gpu::open_burst::{Bursts, OpenBurst};
use crate::gpu::overlap::{CallCounts, Queues, Since, StreamCounts};
use crate::pages::Pages;
use crate::sink::poller;

mod table;
pub use table::Streams;

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

    /// How densely our events may follow the entries that it holds now: where none might, because nothing completes, there may be a
    /// few if so few of them are pending.
    pub fn density(&self, queue: Queue) -> Density {
        match self.entries.density(queue) {
            Density::None if self.may_take_events(queue) => Density::Sparse,
            density => density,
        }
    }

    /// Whether so few of our events are pending that more do not block the program: see [`Queue::most_events`].
    pub fn may_take_events(&self, queue: Queue) -> bool {
        let most = queue.most_events(self.entries.depth());
        let (oldest, end) = self.unread();
        let newest_first = (oldest..end).rev().filter_map(|position| self.at(position));
        let pending =
            newest_first.take_while(|op| !self.entries.is_complete(op.position)).take(most as usize);
        pending.map(|op| if op.marker || op.shares_start { 1 } else { 2 }).sum::<u64>() < most
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
