//! Streams: which one a call means, how deep it is, and the operations on it whose events are not read yet.

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicPtr, AtomicU8, AtomicU32, AtomicU64, Ordering};
use gpuspy_wire::record::{self, Head, LossCause, flag};

use crate::cuda::*;
use crate::driver::Driver;
use crate::gpu::capture::is_captured;
use crate::gpu::context::{Context, Contexts};
use crate::gpu::depth::Entries;
use crate::gpu::draw::Draw;
use crate::gpu::open_burst::{Bursts, OpenBurst};
use crate::gpu::overlap::{CallCounts, Lines, Since};
use crate::keyed::Keyed;
use crate::sink::poller;
use crate::sys::ticks;
use crate::thread::Call;

/// Distinct stream handles (and default streams) of a process's life. Handles are reused by the driver, so this bounds
/// streams alive at the same time, nearly.
const PLACES: usize = 4096;
/// Operations of a stream that can wait to be read: what a late poller leaves unread of a stream that drains.
const QUEUE: usize = 2048;
/// Of those, places that only markers take: one comes every 128 entries, so they last for 100 ms of a storm.
const MARKERS: usize = 256;
/// A stream id of our own making, where the driver has no cuStreamGetId (before CUDA 12.0).
const OWN_ID: u64 = 1 << 63;

/// The streams of a session. Valid when zero.
pub struct Streams {
    /// By handle, or for default streams by context, kind and thread mixed: the stream that has this key now, or null.
    /// Release on the store, acquire on the load.
    places: Keyed<AtomicPtr<Stream>, PLACES>,
    /// Every [`Stream`] ever made, for the poller. Release on the store, acquire on the load.
    all: [AtomicPtr<Stream>; PLACES],
    /// How many of `all` are in use. Release by the maker, acquire by the poller.
    count: AtomicU32,
    /// The last id of our own making. Relaxed: only its being unique matters.
    last_id: AtomicU64,
    /// By CUevent: what is complete when it is.
    marks: Keyed<Mark, MARKS>,
}

/// How far a stream had come when an event was recorded on it: stream index << 48 | entries. Relaxed: one word.
type Mark = AtomicU64;
const MARK_BITS: u32 = 48;
/// Events whose marks are kept.
const MARKS: usize = 1 << 14;

/// The driver has not told whether a stream is of a green context.
const UNTOLD: u64 = u64::MAX;

/// A stream's life.
const RETIRED: u8 = 0; // nobody's: may be made into another
const MAKING: u8 = 1; // a thread makes it into one
const LIVE: u8 = 2;
const DEAD: u8 = 3; // destroyed by the app; the poller reads what it still can

/// A stream. Never freed, but made into another after its end.
pub struct Stream {
    /// Its place in [`Streams::all`].
    index: usize,
    state: AtomicU8,
    /// What records call it. Relaxed, like the next five: written before the stream is published in its place.
    id: AtomicU64,
    handle: AtomicU64,
    flags: AtomicU32,
    /// 1 = created with CU_STREAM_NON_BLOCKING: the legacy default stream does not wait for it, nor it for that one.
    non_blocking: AtomicU32,
    context: AtomicPtr<Context>,
    /// The CUgreenCtx that it is of, and ends with; 0: none; [`UNTOLD`].
    green: AtomicU64,
    /// 1 while somebody holds it: see [`Hold`]. Acquire by who takes it, release by who lets go: `last` and `queue`.
    held: AtomicU32,
    /// The holder's.
    last: UnsafeCell<Last>,
    /// Calls that overlap something on it, as they pass.
    pub call_counts: CallCounts,
    /// What is enqueued on it.
    pub entries: Entries,
    /// Operations to be read: written by the holder, read by the poller. `tail` release / acquire publishes an
    /// operation, `head` release / acquire gives its place back.
    tail: AtomicU64,
    head: AtomicU64,
    queue: Box<[UnsafeCell<Pending>]>,
}

// SAFETY: the queue's cells are handed from the holder to the poller and back by `tail` and `head`; `last` from holder to
// holder by `held`.
unsafe impl Sync for Stream {}

/// The right to put our events on a stream: one thread's at a time, and never waited for.
pub struct Hold {
    stream: &'static Stream,
}

/// What stands last on a stream, as far as our events are concerned.
#[derive(Default)]
pub struct Last {
    /// Our end event; the stream holds it. Something may have come behind it: [`End::since`] tells.
    pub end: Option<End>,
    /// Launches that no event has ended yet.
    pub burst: Option<OpenBurst>,
    /// On a deep stream: how the launches are drawn that are timed alone.
    pub draw: Draw,
    /// Programmatic launches that have gone by without a burst.
    pub unjoined: u32,
    /// Operations that go by before the driver is asked again whether `end` has fired.
    pub patience: u32,
    /// Start events in a row that could be shared.
    pub row: u32,
}

/// An end event that was recorded.
pub struct End {
    /// Index in the context's pool.
    pub event: u32,
    /// The kernel that it ended; 0 = something else.
    pub function: u64,
    /// Ticks before its record, and after.
    pub begun: u64,
    pub ended: u64,
    /// Its number among the entries.
    pub position: u64,
    /// The call_counts then.
    pub since: Since,
}

impl Hold {
    pub fn stream(&self) -> &'static Stream {
        self.stream
    }

    pub fn last(&mut self) -> &mut Last {
        // SAFETY: the holder's, and that is us; the borrow ends with ours of the hold.
        unsafe { &mut *self.stream.last.get() }
    }

    /// Appends an operation for the poller. False when the queue is full.
    pub fn push(&mut self, pending: Pending) -> bool {
        let stream = self.stream;
        let tail = stream.tail.load(Ordering::Relaxed); // the holder's
        // Acquire, with the poller's release: it has read what was in the place.
        if tail - stream.head.load(Ordering::Acquire) >= QUEUE as u64 {
            return false;
        }
        let Some(cell) = stream.queue.get(tail as usize % QUEUE) else { return false };
        // SAFETY: behind `tail` and not in [head, tail): ours alone.
        unsafe { *cell.get() = pending };
        stream.tail.store(tail + 1, Ordering::Release);
        true
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        // Release, with the acquire in `Stream::hold`.
        self.stream.held.store(0, Ordering::Release);
    }
}

/// An operation whose events are recorded and not read yet.
#[derive(Clone, Copy, Default)]
pub struct Pending {
    pub correlation: u64,
    /// Indices in the context's pool. A marker has no start: both are its end.
    pub start: u32,
    pub end: u32,
    /// The end event's number among the entries: what is seen complete with it.
    pub position: u64,
    /// The window of the budget that it is timed in, and the calls that had gone onto its stream until then.
    pub window: u32,
    pub launches: u64,
    /// Not an operation: its event only shows how far the stream has come.
    pub marker: bool,
    /// The launch failed between the records: read the events, tell nothing.
    pub cancelled: bool,
    /// What its own record could not say, because its end event was deferred: bits of [`flag`], and
    /// [`record::GpuTime::tail`].
    pub flags: u16,
    pub tail: u32,
}

impl Stream {
    fn new(index: usize) -> Stream {
        Stream {
            index,
            state: AtomicU8::new(RETIRED),
            id: AtomicU64::new(0),
            handle: AtomicU64::new(0),
            flags: AtomicU32::new(0),
            non_blocking: AtomicU32::new(0),
            context: AtomicPtr::new(core::ptr::null_mut()),
            green: AtomicU64::new(0),
            held: AtomicU32::new(0),
            last: UnsafeCell::new(Last::default()),
            call_counts: CallCounts::default(),
            entries: Entries::default(),
            tail: AtomicU64::new(0),
            head: AtomicU64::new(0),
            queue: (0..QUEUE).map(|_| UnsafeCell::new(Pending::default())).collect(),
        }
    }

    /// What records call it.
    pub fn id(&self) -> u64 {
        self.id.load(Ordering::Relaxed)
    }

    /// The handle to record on, unambiguous for any thread.
    pub fn handle(&self) -> CUstream {
        self.handle.load(Ordering::Relaxed) as CUstream
    }

    /// Bits of [`flag`] that tell which default stream it is.
    pub fn flags(&self) -> u16 {
        self.flags.load(Ordering::Relaxed) as u16
    }

    /// Where calls onto this stream are counted.
    #[inline]
    pub fn lines(&'static self) -> Lines {
        Lines { stream: &self.call_counts, line: self.line(), across: self.passages_across() }
    }

    /// The calls among which one must be alone to be alone on this stream.
    #[inline]
    fn line(&'static self) -> &'static CallCounts {
        match self.context() {
            Some(context) if context.shares_queues() => &context.all,
            _ => &self.call_counts,
        }
    }

    /// The calls on streams of its kind, and those that it is ordered with across streams: the legacy default stream with
    /// every blocking one (CUDA Programming Guide, "Default stream").
    fn passages_across(&self) -> Option<(&'static CallCounts, &'static CallCounts)> {
        let context = self.context()?;
        if self.flags() & flag::LEGACY_STREAM != 0 {
            Some((&context.legacy, &context.blocking))
        } else {
            (self.non_blocking.load(Ordering::Relaxed) == 0).then_some((&context.blocking, &context.legacy))
        }
    }

    /// Its context.
    pub fn context(&self) -> Option<&'static Context> {
        // SAFETY: null or a leaked context, stored before the stream was published.
        unsafe { self.context.load(Ordering::Relaxed).as_ref() }
    }

    /// Whether it is of a green context.
    fn is_green(&self, green: CUgreenCtx) -> bool {
        !green.is_null() && self.green.load(Ordering::Relaxed) == green as u64
    }

    /// The same, or it is not known.
    pub fn may_be_green(&self, green: CUgreenCtx) -> bool {
        self.is_green(green) || self.green.load(Ordering::Relaxed) == UNTOLD
    }

    /// Holds it, unless another does or its context may be ending.
    #[inline]
    pub fn hold(&'static self) -> Option<Hold> {
        self.try_hold().filter(|_| !self.context().is_some_and(Context::is_leaving))
    }

    /// Acquire, with the release of the last holder. SeqCst, with the context's `ending`: who ends the context waits for
    /// the holder, or the holder sees that it ends.
    #[inline]
    fn try_hold(&'static self) -> Option<Hold> {
        let free = self.held.compare_exchange(0, 1, Ordering::SeqCst, Ordering::Relaxed).is_ok();
        // Made only when it is ours: dropping one lets go.
        free.then(|| Hold { stream: self })
    }

    /// Whether somebody holds it.
    pub fn is_held(&self) -> bool {
        self.held.load(Ordering::SeqCst) != 0
    }

    /// Whether a pair has a place. The last places are kept for markers: without them nobody would know any more how far
    /// the stream has come.
    pub fn has_room(&self) -> bool {
        let (oldest, behind) = self.unread();
        behind - oldest < (QUEUE - MARKERS) as u64
    }

    /// The oldest operation not yet read.
    pub fn oldest(&self) -> Option<Pending> {
        let (head, tail) = self.unread();
        if head < tail { self.at(head) } else { None }
    }

    /// The operations not yet read, from the oldest to behind the newest. Exact for the poller; for a hook a hint.
    pub fn unread(&self) -> (u64, u64) {
        // Acquire, with `push`'s release.
        let tail = self.tail.load(Ordering::Acquire);
        (self.head.load(Ordering::Relaxed).min(tail), tail)
    }

    /// How many of them somebody waits for: a marker alone is only asked how far the stream has come, by hooks.
    pub fn to_be_read(&self) -> u64 {
        let (oldest, behind) = self.unread();
        let is_marker = |position| self.at(position).is_none_or(|op| op.marker);
        if oldest < behind && (!is_marker(oldest) || !is_marker(behind - 1)) { behind - oldest } else { 0 }
    }

    /// Whether one of them is not seen complete: it will show how far the stream has come.
    pub fn is_watched(&self) -> bool {
        let (oldest, behind) = self.unread();
        oldest < behind && self.at(behind - 1).is_some_and(|op| !self.entries.is_complete(op.position))
    }

    /// One of them.
    pub fn at(&self, position: u64) -> Option<Pending> {
        // SAFETY: in [head, tail): written before the release that `unread` acquired. A hook's stale position can meet a
        // place that is being rewritten: all fields are plain integers, and what it does with them (an event query) is
        // harmless.
        self.queue.get(position as usize % QUEUE).map(|cell| unsafe { cell.get().read_volatile() })
    }

    /// Poller: the oldest operation has been read.
    pub fn pop(&self) {
        self.head.store(self.head.load(Ordering::Relaxed) + 1, Ordering::Release);
    }

    /// Whether the app still has it. Acquire, with the release of its end: see [`Stream::ended`].
    pub fn is_live(&self) -> bool {
        self.state.load(Ordering::Acquire) == LIVE
    }

    /// The app destroys it: nothing of ours touches it any more when this returns. Whoever holds a stream asks whether it
    /// is live before it records on behalf of another call than a launch there; who held it before is waited for. That
    /// takes as long as one record, or as long as the launch that the app makes on it at the same time, 100 ms at most.
    fn ended(&'static self, poller: &poller::Shared) {
        self.state.store(DEAD, Ordering::SeqCst);
        poller.finished(|| self.try_hold().is_some());
        poller.wake(); // what it still has is read, and it can be made into another
    }

    /// Whether its context has gone without it: the handle is another's by now.
    #[inline]
    fn is_outlived(&self) -> bool {
        self.context().is_some_and(|c| c.gone.load(Ordering::Acquire))
    }

    /// It has gone unseen: its place is free for the one that has its handle now.
    #[cold]
    fn give_up(&'static self, place: &AtomicPtr<Stream>) {
        let this = core::ptr::from_ref(self).cast_mut();
        let given = place.compare_exchange(this, core::ptr::null_mut(), Ordering::AcqRel, Ordering::Relaxed);
        if given.is_ok() {
            self.state.store(DEAD, Ordering::Release);
        }
    }

    /// Whether the poller has anything to do with it.
    pub fn is_in_use(&self) -> bool {
        self.state.load(Ordering::Acquire) != RETIRED
    }

    /// Poller: a destroyed stream that is drained becomes free to be made into another. Returns how many operations' times
    /// are lost by that.
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
            if let Some(pool) = self.context().map(|c| &c.pool) {
                let held = [last.end.map(|e| e.event), last.burst.map(|b| b.start), last.draw.witness()];
                held.into_iter().flatten().for_each(|event| pool.give(event));
            }
            // Release, with the acquire in `take_retired`; nobody else leaves DEAD.
            let _ = self.state.compare_exchange(DEAD, RETIRED, Ordering::Release, Ordering::Relaxed);
        }
        lost
    }

    /// Poller: nothing more can be read from it. Returns how many operations' times are lost.
    fn drop_pending(&self) -> u64 {
        let mut lost = 0;
        while let Some(pending) = self.oldest() {
            lost += u64::from(!pending.marker && !pending.cancelled);
            self.pop();
        }
        lost
    }
}

/// Which stream a call's handle means.
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

    /// `thread` is the identity of the calling thread's state.
    fn key(self, context: CUcontext, thread: u64) -> u64 {
        // Default streams' keys are odd mixtures; handles are aligned addresses.
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
    /// The stream that a call means, made known now if it is new. Slow only then. `None`: no context, or no room.
    #[inline]
    pub fn get(&self, call: &Call, driver: &Driver, handle: CUstream) -> Option<&'static Stream> {
        let name = Name::of(handle, call.per_thread);
        let context = match name {
            Name::Handle(_) => core::ptr::null_mut(),
            _ => driver.current_context(),
        };
        let place = self.places.get(name.key(context, call.thread_identity()));
        let Some(place) = place else {
            call.lost(LossCause::TableFull, 1);
            return None;
        };
        // SAFETY: null or a stream, which is never freed. Acquire, with the release in `make`.
        match unsafe { place.load(Ordering::Acquire).as_ref() } {
            Some(stream) if !stream.is_outlived() => Some(stream),
            Some(stream) => {
                stream.give_up(place);
                self.make(call, driver, handle, name, context, place)
            }
            None => self.make(call, driver, handle, name, context, place),
        }
    }

    /// A call has just made the stream with this handle: whichever had it before is gone.
    pub fn made(&self, call: &Call, handle: CUstream) {
        if let Some(place) = self.places.find(handle as u64) {
            // SAFETY: null or a stream, which is never freed. Acquire, with the release in `make`.
            let old = unsafe { place.load(Ordering::Acquire).as_ref() };
            old.into_iter().for_each(|stream| stream.give_up(place));
        }
        if let Some(driver) = crate::driver::driver() {
            self.get(call, driver, handle);
        }
    }

    /// What a stream is must not be asked of one that captures, which would end the capture: it is made known when it is used
    /// after that. Of others it is asked with the thread RELAXED, since captures elsewhere may be under way.
    #[cold]
    fn make(
        &self,
        call: &Call,
        driver: &Driver,
        handle: CUstream,
        name: Name,
        context: CUcontext,
        place: &AtomicPtr<Stream>,
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
            .relaxed(|| self.ask_and_make(call, driver, (handle, recorded_on), name, context, place))
            .flatten()
    }

    fn ask_and_make(
        &self,
        call: &Call,
        driver: &Driver,
        (handle, recorded_on): (CUstream, u64),
        name: Name,
        context: CUcontext,
        place: &AtomicPtr<Stream>,
    ) -> Option<&'static Stream> {
        let (context_handle, green) = match (driver.contexts_of(recorded_on as CUstream), name) {
            (Some(told), _) => told,
            (None, Name::Handle(_)) => (context_of(driver, handle), UNTOLD as CUgreenCtx),
            (None, _) => (context, UNTOLD as CUgreenCtx),
        };
        let context = call.session.get::<Contexts>().get(call, driver, context_handle)?;
        let mut flags = 0;
        // SAFETY: a stream that the app is about to use; writes a place of ours.
        let asked = driver.stream_flags.map(|ask| unsafe { ask(recorded_on as CUstream, &mut flags) });
        if asked.is_some_and(|result| result != CUDA_SUCCESS) {
            return None; // no stream: the app's call will fail, and a later stream may get this handle
        }
        let stream = self.take_retired()?;
        let id = self.id_of(driver, recorded_on as CUstream);
        stream.id.store(id, Ordering::Relaxed);
        stream.handle.store(recorded_on, Ordering::Relaxed);
        stream.flags.store(u32::from(name.flags()), Ordering::Relaxed);
        stream.non_blocking.store(flags & STREAM_NON_BLOCKING, Ordering::Relaxed);
        stream.context.store(core::ptr::from_ref(context).cast_mut(), Ordering::Relaxed);
        stream.green.store(green as u64, Ordering::Relaxed);
        stream.state.store(LIVE, Ordering::Release);
        // Two threads can meet a new stream at once: the first one's stands; ours goes back.
        let new = core::ptr::from_ref(stream).cast_mut();
        match place.compare_exchange(core::ptr::null_mut(), new, Ordering::Release, Ordering::Acquire) {
            Ok(_) => {
                if !matches!(name, Name::Legacy) {
                    context.has_stream_more();
                }
                call.publish(&describe(driver, stream, context, recorded_on, flags));
                Some(stream)
            }
            Err(other) => {
                stream.state.store(RETIRED, Ordering::Release);
                // SAFETY: a stream, which is never freed.
                unsafe { other.as_ref() }
            }
        }
    }

    /// A stream to make into a new one: a retired one, or another.
    fn take_retired(&self) -> Option<&'static Stream> {
        for stream in self.iter() {
            let taken =
                stream.state.compare_exchange(RETIRED, MAKING, Ordering::AcqRel, Ordering::Relaxed).is_ok();
            if taken {
                stream.entries.restart();
                return Some(stream);
            }
        }
        // Relaxed: the place is ours by the count; the store below publishes what is in it.
        let index = self.count.fetch_add(1, Ordering::Relaxed) as usize;
        let Some(place) = self.all.get(index) else {
            self.count.fetch_sub(1, Ordering::Relaxed);
            return None;
        };
        let stream = Box::into_raw(Box::new(Stream::new(index)));
        // SAFETY: just made; leaked.
        let stream = unsafe { &*stream };
        stream.state.store(MAKING, Ordering::Relaxed);
        place.store(core::ptr::from_ref(stream).cast_mut(), Ordering::Release);
        Some(stream)
    }

    /// An event was recorded on a stream, as its entry number `position`.
    pub fn mark(&self, event: CUevent, stream: &Stream, position: u64) {
        if let Some(mark) = self.marks.get(event as u64) {
            mark.store(
                (stream.index as u64) << MARK_BITS | position & ((1 << MARK_BITS) - 1),
                Ordering::Relaxed,
            );
        }
    }

    /// Nothing is known any more of what is complete when an event is. (What a graph's own node records is not seen: such
    /// an event, if it was recorded on a stream before, makes that one look less deep than it is.)
    pub fn unmark(&self, event: CUevent) {
        if let Some(mark) = self.marks.find(event as u64) {
            mark.store(0, Ordering::Relaxed);
        }
    }

    /// What will be complete when an event is, as it was last recorded: a stream and its entries so far.
    pub fn marked(&self, event: CUevent) -> Option<(&'static Stream, u64)> {
        let mark = self.marks.get(event as u64)?.load(Ordering::Relaxed);
        let place = self.all.get((mark >> MARK_BITS) as usize).filter(|_| mark != 0)?;
        // SAFETY: null or a stream, which is never freed. Acquire, with the release in `take_retired`.
        let stream = unsafe { place.load(Ordering::Acquire).as_ref() }?;
        Some((stream, mark & ((1 << MARK_BITS) - 1)))
    }

    /// All streams ever made. A place that is counted and not stored yet is skipped.
    pub fn iter(&self) -> impl Iterator<Item = &'static Stream> + '_ {
        let count = self.count.load(Ordering::Relaxed) as usize;
        // SAFETY: null or a stream, which is never freed. Acquire, with the release in `take_retired`.
        self.all.iter().take(count).filter_map(|place| unsafe { place.load(Ordering::Acquire).as_ref() })
    }

    /// Calls so far that went onto a stream.
    pub fn passed(&self) -> u64 {
        self.iter().map(|s| s.call_counts.begun()).sum()
    }

    fn id_of(&self, driver: &Driver, handle: CUstream) -> u64 {
        let mut id = 0u64;
        // SAFETY: a stream that the app is about to use; writes a place of ours.
        let answered = driver.stream_id.is_some_and(|ask| unsafe { ask(handle, &mut id) } == CUDA_SUCCESS);
        if answered { id } else { OWN_ID | (self.last_id.fetch_add(1, Ordering::Relaxed) + 1) }
    }

    /// The app destroys a stream: its handle may come back as another's. `end_burst` ends the burst on it, if there is one.
    pub fn destroyed(&self, call: &Call, handle: CUstream, end_burst: impl Fn(&'static Stream)) {
        let Name::Handle(key) = Name::of(handle, call.per_thread) else { return };
        let Some(place) = self.places.get(key) else { return };
        // SAFETY: null or a stream, which is never freed.
        if let Some(stream) = unsafe { place.swap(core::ptr::null_mut(), Ordering::AcqRel).as_ref() } {
            end_burst(stream);
            self.end(call, stream);
        }
    }

    /// A green context goes: its streams can do nothing more, though the app has yet to destroy those that it made.
    pub fn green_ends(&self, call: &Call, green: CUgreenCtx, end_burst: impl Fn(&'static Stream)) {
        for place in self.places.values() {
            // SAFETY: null or a stream, which is never freed. Acquire, with the release in `make`.
            let stream = unsafe { place.load(Ordering::Acquire).as_ref() };
            if let Some(stream) = stream.filter(|s| s.is_green(green)) {
                place.store(core::ptr::null_mut(), Ordering::Release);
                end_burst(stream);
                self.end(call, stream);
            }
        }
    }

    /// A stream that no handle means any more.
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

    /// A thread has ended, and its default streams with it.
    pub fn thread_ended(&self, thread: u64) {
        for context in self.iter().filter_map(Stream::context) {
            let key = Name::PerThread.key(context.handle as CUcontext, thread);
            // SAFETY: null or a stream, which is never freed.
            let stream = self
                .places
                .find(key)
                .and_then(|place| unsafe { place.swap(core::ptr::null_mut(), Ordering::AcqRel).as_ref() });
            if let Some(stream) = stream {
                stream.state.store(DEAD, Ordering::Release);
            }
        }
    }

    /// A context is gone, and its streams with it; the poller drops what it had not read.
    pub fn abandon(&self, context: &Context) {
        let of_context = |s: &Stream| s.context().is_some_and(|c| core::ptr::eq(c, context));
        for place in self.places.values() {
            // SAFETY: null or a stream, which is never freed.
            let stream = unsafe { place.load(Ordering::Acquire).as_ref() };
            if let Some(stream) = stream.filter(|s| of_context(s)) {
                place.store(core::ptr::null_mut(), Ordering::Release);
                stream.state.store(DEAD, Ordering::Release);
            }
        }
    }

    /// Poller: drops what can no longer be read of streams whose context is gone.
    pub fn drop_abandoned(&self) -> u64 {
        let gone = |s: &&Stream| s.is_in_use() && s.context().is_some_and(|c| c.gone.load(Ordering::Acquire));
        self.iter().filter(gone).map(Stream::drop_pending).sum()
    }
}

/// A stream's context: by the stream where the driver says, else the current one, which the call needs to be the same.
fn context_of(driver: &Driver, stream: CUstream) -> CUcontext {
    let mut context: CUcontext = core::ptr::null_mut();
    if let Some(ask) = driver.stream_context {
        // SAFETY: a stream that the app is about to use; writes a place of ours.
        if unsafe { ask(stream, &mut context) } == CUDA_SUCCESS && !context.is_null() {
            return context;
        }
    }
    driver.current_context()
}

fn describe(driver: &Driver, stream: &Stream, context: &Context, handle: u64, flags: u32) -> record::Stream {
    let mut priority = 0;
    // SAFETY: a stream that the app is about to use; writes a place of ours.
    driver.stream_priority.map(|ask| unsafe { ask(handle as CUstream, &mut priority) });
    record::Stream {
        head: Head { flags: stream.flags(), ..Head::new::<record::Stream>() },
        at: ticks(),
        stream: stream.id(),
        handle,
        context: context.number,
        flags,
        priority,
        change: 1,
        ..Default::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_try_leaves_the_hold_to_its_holder() {
        let stream: &'static Stream = Box::leak(Box::new(Stream::new(0)));
        let hold = stream.try_hold();
        assert!(hold.is_some() && stream.try_hold().is_none() && stream.hold().is_none());
        assert!(stream.is_held(), "it is not the second one's to let go");
        drop(hold);
        assert!(!stream.is_held() && stream.hold().is_some());
    }
}
