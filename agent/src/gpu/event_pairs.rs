//! The pair of events around one call.
//!
//! A pair is taken only where it can do no harm and will mean something: one at a time per stream, never inside a
//! capture, never between launches that may overlap ([`burst`](super::burst)), on a deep stream only around some
//! ([`depth`](super::depth), [`draw`](super::draw)). Everything else is counted with its reason ([`Untimed`]).
//!
//! Where operations follow back to back, the end event of one is the start event of the next: half the records, half the
//! entries in the stream's queue, half the time that events take of the GPU. It may be, if nothing has come between that
//! we know of ([`overlap`](super::overlap)), and
//!
//! - it was recorded a moment ago, so that a record of its own would have begun hardly later; or
//! - it has not fired yet: the stream is busy, and whatever the host did since has left no gap. The driver is asked, which
//!   costs less than a record, where the stream is likely to be deep.
//!
//! The start event's over-read is bounded by `lead` either way: it counts from the last moment at which the event is known
//! not to have fired.

use core::sync::atomic::Ordering;
use gpuspy_wire::record::{Untimed, flag};

use crate::cuda::{CUDA_ERROR_NOT_READY, CUDA_SUCCESS};
use crate::driver::Driver;
use crate::gpu::budget::Gate;
use crate::gpu::burst::{self, Joined};
use crate::gpu::capture::Captures;
use crate::gpu::context::Context;
use crate::gpu::depth::{Density, Queue};
use crate::gpu::open_burst::saturated;
use crate::gpu::overlap::OverlapCheck;
use crate::gpu::stream::{End, Hold, Pending, Stream};
use crate::sink::Session;
use crate::sys::{tenth_of_a_second, ticks};
use crate::thread::Call;

/// Entries of a stream, not seen complete, from which on it may well be busy: two operations and their events.
const BUSY_DEPTH: u64 = 6;
/// Operations that go by before a stream that was found idle is asked again.
const PATIENCE: u32 = 16;
/// Of so many start events in a row that could be shared, one is not: the distance between two neighbours' events tells
/// what an event costs the GPU.
const SHARED_IN_A_ROW: u32 = 63;

/// An open pair: its start event is recorded. Dropped without being closed (the thread is cancelled inside the real call)
/// it only lets go: an event that is recorded and not read can be recorded anew at any time.
pub struct Pair {
    hold: Hold,
    events: Events,
    /// It was drawn by chance, for launches in runs.
    is_sample: bool,
}

/// Its events.
struct Events {
    context: &'static Context,
    start: Start,
    end: u32,
    /// They are the queue's, or a burst's, now.
    handed_over: bool,
}

/// A start event.
#[derive(Clone, Copy)]
pub struct Start {
    pub event: u32,
    /// It is the end event of what was before.
    pub shared: bool,
    /// The last ticks at which it is known not to have fired.
    pub begun: u64,
}

impl Drop for Events {
    fn drop(&mut self) {
        if !self.handed_over {
            self.context.pool.give(self.start.event);
            self.context.pool.give(self.end);
        }
    }
}

impl Pair {
    /// [`flag::SAMPLED`], if it is one.
    pub fn sampled(&self) -> u16 {
        if self.is_sample { flag::SAMPLED } else { 0 }
    }

    /// Gives up the end event, which is recorded later: the operation begins a burst, or what is next ends it.
    pub fn into_start(self) -> (Hold, &'static Context, Start) {
        let Pair { hold, mut events, .. } = self;
        events.context.pool.give(events.end);
        events.handed_over = true;
        (hold, events.context, events.start)
    }
}

/// What closing a pair tells.
pub struct Closed {
    pub untimed: Untimed,
    /// Ticks from when the start event is known not to have fired to the launch's return.
    pub lead: u32,
    /// Ticks from the launch's return to the return of the end event's record.
    pub tail: u32,
    /// [`flag::SHARED_INTERVAL`], [`flag::SHARED_START`] and [`flag::SAMPLED`].
    pub flags: u16,
}

/// How an operation is timed.
pub enum Opened {
    /// By a pair of its own.
    Pair(Pair),
    /// As a part of a run.
    Member(burst::Member),
}

/// Begins to time an operation on a stream, or says why not. `kernel` is the handle launched, or 0.
#[inline]
pub fn open(
    call: &Call,
    driver: &'static Driver,
    stream: &'static Stream,
    overlap: &OverlapCheck,
    kernel: u64,
) -> Result<Opened, Untimed> {
    let session = call.session;
    session.get::<Gate>().admit()?;
    let context = stream.context().ok_or(Untimed::NoStream)?;
    let refused = || if context.is_leaving() { Untimed::Teardown } else { Untimed::Contended };
    let hold = stream.hold().ok_or_else(refused)?;
    if context.pool.is_low() {
        session.poller.wake(); // it is late: events that it could give back are complete
    }
    match stream.entries.density(*session.get::<Queue>()) {
        Density::Each => pair(call, driver, context, hold, overlap, false),
        _ => open_deep(call, driver, context, hold, overlap, kernel),
    }
}

/// The same where the stream looks deep.
#[cold]
#[inline(never)]
fn open_deep(
    call: &Call,
    driver: &'static Driver,
    context: &'static Context,
    hold: Hold,
    overlap: &OverlapCheck,
    kernel: u64,
) -> Result<Opened, Untimed> {
    let (session, stream) = (call.session, hold.stream());
    ask_now_and_then(session, driver, stream, context);
    match stream.entries.density(*session.get::<Queue>()) {
        Density::Each => pair(call, driver, context, hold, overlap, false),
        Density::Sampled if kernel == 0 => pair(call, driver, context, hold, overlap, false),
        Density::None => Err(Untimed::DeepQueue),
        Density::Sparse if kernel == 0 => Err(Untimed::DeepQueue),
        density => match burst::run(call, driver, hold, overlap, density, kernel)? {
            Joined::Member(member) => Ok(Opened::Member(member)),
            Joined::Alone { hold, by_chance } => pair(call, driver, context, hold, overlap, by_chance),
        },
    }
}

/// A pair, whose start event is recorded.
fn pair(
    call: &Call,
    driver: &Driver,
    context: &'static Context,
    mut hold: Hold,
    overlap: &OverlapCheck,
    is_sample: bool,
) -> Result<Opened, Untimed> {
    if !hold.stream().has_room() {
        return Err(Untimed::DeepQueue);
    }
    let end = context.take_event(call).ok_or(Untimed::NoEvent)?;
    match start(call, driver, context, &mut hold, overlap) {
        Ok(start) => {
            let events = Events { context, start, end, handed_over: false };
            Ok(Opened::Pair(Pair { hold, events, is_sample }))
        }
        Err(why) => {
            context.pool.give(end);
            Err(why)
        }
    }
}

/// The start event: the last end event, where that will do, or one recorded now.
fn start(
    call: &Call,
    driver: &Driver,
    context: &Context,
    hold: &mut Hold,
    overlap: &OverlapCheck,
) -> Result<Start, Untimed> {
    burst::end(call, driver, hold, |since| overlap.follows(since));
    if let Some(end) = hold.last().end.take() {
        if let Some(begun) = serves(call.session, driver, context, hold, &end, overlap) {
            return Ok(Start { event: end.event, shared: true, begun });
        }
        context.pool.give(end.event);
    }
    recorded(call, driver, context, hold.stream())
}

/// A start event, recorded now.
pub fn recorded(call: &Call, driver: &Driver, context: &Context, stream: &Stream) -> Result<Start, Untimed> {
    let event = context.take_event(call).ok_or(Untimed::NoEvent)?;
    let begun = ticks();
    if record(call, driver, context, event, stream).is_none() {
        context.pool.give(event);
        return Err(Untimed::EventFailed);
    }
    Ok(Start { event, shared: false, begun })
}

/// Records an event on a stream, as one more entry, and gives its number: what is seen complete with it. `None`: the driver
/// refused it.
///
/// Where the queue is full it waits until the GPU has finished an entry, as the app's next call would have done otherwise:
/// that is no cost of ours.
pub fn record(call: &Call, driver: &Driver, context: &Context, event: u32, stream: &Stream) -> Option<u64> {
    let begun = stream.entries.is_nearly_full(*call.session.get::<Queue>()).then(ticks);
    // SAFETY: an event of the stream's context, and a stream that the app is about to use or has just used.
    let recorded = driver
        .event_record
        .is_some_and(|record| unsafe { record(context.pool.event(event), stream.handle()) } == CUDA_SUCCESS);
    if let Some(begun) = begun {
        call.waited(ticks().wrapping_sub(begun).saturating_sub(most_record()));
    }
    recorded.then(|| stream.entries.add())
}

/// Ticks that a record takes at most while there is room: 10 µs, more or less.
fn most_record() -> u64 {
    tenth_of_a_second() / 10_000
}

/// No event serves two operations (`GPUSPY_EVENTS=pairs`). Written before the session is published.
pub struct PairsOnly(pub bool);

/// Whether an end event may serve as the next start event, and if so, the last ticks at which it had not fired.
fn serves(
    session: Session,
    driver: &Driver,
    context: &Context,
    hold: &mut Hold,
    end: &End,
    overlap: &OverlapCheck,
) -> Option<u64> {
    if session.get::<PairsOnly>().0 || !overlap.follows(end.since) {
        return None;
    }
    let row = &mut hold.last().row;
    *row = if *row < SHARED_IN_A_ROW { *row + 1 } else { 0 };
    if *row == 0 {
        return None;
    }
    let now = ticks();
    if now.wrapping_sub(end.ended) <= end.ended.wrapping_sub(end.begun) {
        return Some(end.begun);
    }
    if hold.stream().entries.depth() <= BUSY_DEPTH
        || session.get::<Captures>().open.load(Ordering::Relaxed) != 0
    {
        return None;
    }
    if let Some(less) = hold.last().patience.checked_sub(1) {
        hold.last().patience = less;
        return None;
    }
    let query = driver.event_query?;
    // RELAXED: a capture may begin meanwhile. SAFETY: an event of this context, recorded and held.
    match driver.relaxed(|| unsafe { query(context.pool.event(end.event)) }) {
        Some(CUDA_ERROR_NOT_READY) => Some(now),
        Some(CUDA_SUCCESS) => {
            hold.stream().entries.seen(end.position);
            hold.last().patience = PATIENCE;
            None
        }
        _ => None,
    }
}

/// The poller wakes late on busy machines, so a hook may look for itself, now and then, how far a stream has come; but not
/// while anything is being captured, which a query from a thread that is not RELAXED would invalidate.
#[cold]
fn ask_now_and_then(session: Session, driver: &Driver, stream: &Stream, context: &Context) {
    if session.get::<Captures>().open.load(Ordering::Relaxed) == 0
        && stream.entries.is_to_be_asked(*session.get::<Queue>())
    {
        // RELAXED all the same: a capture may begin meanwhile.
        driver.relaxed(|| ask(driver, stream, context));
    }
}

/// One asking is a search by halving over what is unread, eleven queries at most.
fn ask(driver: &Driver, stream: &Stream, context: &Context) {
    let entries = stream.entries.submitted();
    if stream.oldest().is_none() {
        // Nothing of ours is left to ask for: whether the stream is empty, the driver can tell.
        // SAFETY: a stream that the app is about to use.
        let asked = driver.stream_query.map(|query| unsafe { query(stream.handle()) });
        if asked == Some(CUDA_SUCCESS) {
            stream.entries.seen(entries);
        }
        return;
    }
    // Operations of a stream complete in order: halving finds the newest that is complete.
    let (mut complete, mut unknown) = stream.unread();
    while let (Some(query), true) = (driver.event_query, complete < unknown) {
        let middle = complete + (unknown - complete) / 2;
        let Some(op) = stream.at(middle) else { break };
        // SAFETY: an event of this context; it may have been read and reused meanwhile, then it is simply not ready.
        if unsafe { query(context.pool.event(op.end)) } == CUDA_SUCCESS {
            stream.entries.seen(op.position);
            complete = middle + 1;
        } else {
            unknown = middle;
        }
    }
}

/// Closes a pair after the real call returned at `submitted` with success or not. `function` is the kernel launched, or 0.
#[inline]
pub fn close(
    call: &Call,
    driver: &Driver,
    pair: Pair,
    overlap: &OverlapCheck,
    (submitted, succeeded): (u64, bool),
    function: u64,
) -> Closed {
    let Pair { mut hold, mut events, is_sample } = pair;
    let Events { context, start, end, .. } = events;
    let stream = hold.stream();
    if succeeded {
        stream.entries.add();
    }
    let begun = ticks();
    let recorded = record(call, driver, context, end, stream);
    let ended = ticks();
    // While a call that may end the context is under way, others' calls are recorded without a stream, and leave no overlap.
    let alone = overlap.alone().filter(|_| !context.is_leaving());
    if let (Some(position), Some(since)) = (recorded, alone) {
        // Held before it is the poller's, which may give it back at once.
        context.pool.hold(end);
        hold.last().end = Some(End { event: end, function, begun, ended, position, since });
    }
    let pending = |position| Pending {
        correlation: call.correlation,
        start: start.event,
        end,
        position,
        window: call.session.get::<Gate>().window(),
        launches: stream.call_counts.begun(),
        cancelled: !succeeded,
        ..Pending::default()
    };
    let queued = recorded.is_some_and(|position| hold.push(pending(position)));
    if queued {
        events.handed_over = true;
        call.session.poller.work_added();
    }
    let shared_interval = if alone.is_none() { flag::SHARED_INTERVAL } else { 0 };
    let shared_start = if start.shared { flag::SHARED_START } else { 0 };
    let sampled = if is_sample { flag::SAMPLED } else { 0 };
    Closed {
        untimed: if queued { Untimed::Timed } else { Untimed::EventFailed },
        lead: saturated(submitted.wrapping_sub(start.begun)),
        tail: saturated(ended.wrapping_sub(submitted)),
        flags: shared_interval | shared_start | sampled,
    }
}

/// Before an operation that gets no event: when a deep stream has nothing left that would show how far it has come, records
/// one event that will. In a pause of the budget and outside the range, too: else every stream would look deep when the next
/// window opens, since nothing of it was seen complete meanwhile. (Before an ordinary operation, never behind one: what
/// comes next may be a programmatic launch.)
pub fn mark(call: &Call, driver: &Driver, stream: &'static Stream, why: Untimed) {
    let session = call.session;
    let is_paused = matches!(why, Untimed::Budget | Untimed::OutsideRange);
    let looks_deep =
        (is_paused || why == Untimed::DeepQueue) && stream.entries.is_deep(*session.get::<Queue>());
    let Some(context) = stream.context().filter(|_| looks_deep) else { return };
    if stream.is_watched() || stream.entries.density(*session.get::<Queue>()) == Density::None {
        // In a window `open` asks.
        if is_paused {
            ask_now_and_then(session, driver, stream, context);
        }
        return;
    }
    let Some(mut hold) = stream.hold() else { return };
    let Some(event) = context.take_event(call) else { return };
    let recorded = record(call, driver, context, event, stream);
    let marker =
        |position| Pending { start: event, end: event, position, marker: true, ..Pending::default() };
    match recorded.is_some_and(|position| hold.push(marker(position))) {
        // In a pause nobody waits for it: a hook asks it, and the poller gives it back when it wakes.
        true if is_paused => {}
        true => session.poller.work_added(),
        false => context.pool.give(event),
    }
}

/// Counts an operation that was enqueued without a pair.
pub fn count_untimed(stream: &Stream) {
    stream.entries.add();
}
