//! Which stream does a handle mean?

use super::*;
use crate::driver::{self, Driver};
use crate::gpu::context::{Context, Contexts};
use crate::gpu::stream_capture::is_captured;
use crate::keyed::Keyed;
use crate::objects::{Objects, Refused};
use crate::sink::{Ring, Session};
use crate::sys::{Errno, ticks};
use crate::thread::Call;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
use gpuspy_wire::record::{self, Head, LossCause, Record, flag};

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
