//! When does an operation start and end on the GPU? A pair of events is recorded around one call.
//!
//! A pair is recorded only where it does no harm and its times mean something: one at a time on each stream,
//! never inside a stream capture, never between launches that may overlap ([`burst`](super::burst)), and on a
//! deep stream only around some operations ([`depth`](super::depth), [`draw`](super::draw)). Every other
//! operation is counted with the reason ([`Untimed`]).
//!
//! Where operations follow back to back, the end event of one is the start event of the next. That halves the
//! records, the entries in the stream's queue and the time that events take on the GPU. An end event can be
//! shared if no other call is known to have come in between ([`overlap`](super::overlap)), and
//!
//! - it was recorded so recently that a new event would be recorded hardly later; or
//! - it has not fired yet: then the stream is busy, and nothing that the host did since has left a gap. Where
//!   the stream is likely to be deep, the driver is queried for this, which costs less than a record.
//!
//! In both cases `lead` bounds how much too early the start event may be: it counts from the last moment at
//! which the event is known not to have fired.

use core::sync::atomic::Ordering;
use gpuspy_wire::record::{Untimed, flag};

use crate::cuda::{CUDA_ERROR_NOT_READY, CUDA_SUCCESS};
use crate::driver::Driver;
use crate::gpu::budget::Gate;
use crate::gpu::burst::{self, Joined};
use crate::gpu::context::Context;
use crate::gpu::depth::{Density, Queue};
use crate::gpu::open_burst::saturated;
use crate::gpu::overlap::OverlapCheck;
use crate::gpu::query::query_event;
use crate::gpu::stream::{End, Hold, Pending, Stream};
use crate::gpu::stream_capture::{StreamCaptures, is_captured};
use crate::sink::Session;
use crate::sys::{tenth_of_a_second, ticks};
use crate::thread::Call;

/// The number of pending entries above which a stream may well be busy: two operations and their events.
const BUSY_DEPTH: u64 = 6;
/// The number of operations to wait before a stream that was found idle is queried again.
const PATIENCE: u32 = 16;
/// One start event after this many consecutive shared ones is not shared: the distance between two events in
/// a row shows what an event costs the GPU.
const SHARED_IN_A_ROW: u32 = 63;

/// An open pair, whose start event is recorded. Dropping it without closing it (because the thread is
/// cancelled inside the real call) only releases the events: an event that is recorded and not read can be
/// recorded again at any time.
pub struct Pair {
    hold: Hold,
    events: Events,
    /// Whether it was drawn at random to represent launches in runs.
    is_sample: bool,
}

/// The events of a pair.
struct Events {
    context: &'static Context,
    start: Start,
    end: u32,
    /// Whether the events belong to the queue or to a burst now.
    handed_over: bool,
}

/// A start event that is recorded.
#[derive(Clone, Copy)]
pub struct Start {
    pub event: u32,
    /// Whether it is the end event of the previous operation.
    pub shared: bool,
    /// The last ticks at which it is known not to have fired.
    pub begun: u64,
    /// Its entry number.
    pub position: u64,
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
    /// Returns [`flag::SAMPLED`] if the pair was drawn at random, else 0.
    pub fn sampled(&self) -> u16 {
        if self.is_sample { flag::SAMPLED } else { 0 }
    }

    /// Gives up the end event, which will be recorded later: the operation starts a burst, or the next call
    /// ends it.
    pub fn into_start(self) -> (Hold, &'static Context, Start) {
        let Pair { hold, mut events, .. } = self;
        events.context.pool.give(events.end);
        events.handed_over = true;
        (hold, events.context, events.start)
    }
}

/// The result of closing a pair.
pub struct Closed {
    pub untimed: Untimed,
    /// Ticks from the last moment at which the start event is known not to have fired to the launch's return.
    pub lead: u32,
    /// Ticks from the launch's return to the return of the end event's record.
    pub tail: u32,
    /// Bits of [`flag::SHARED_INTERVAL`], [`flag::SHARED_START`] and [`flag::SAMPLED`].
    pub flags: u16,
}

/// How an operation is timed.
pub enum Opened {
    /// It has a pair of its own.
    Pair(Pair),
    /// It is part of a run or burst.
    Member(burst::Member),
}

/// Starts to time an operation on a stream, or returns the reason why it is not timed. `kernel` is the handle
/// launched, or 0. `is_apart` says whether it is timed alone on deep streams too, wherever others are.
#[inline]
pub fn open(
    call: &Call,
    driver: &'static Driver,
    stream: &'static Stream,
    overlap: &OverlapCheck,
    kernel: u64,
    is_apart: &dyn Fn() -> bool,
) -> Result<Opened, Untimed> {
    let session = call.session;
    session.get::<Gate>().admit()?;
    let context = stream.context().ok_or(Untimed::NoStream)?;
    let refused = || if context.is_leaving() { Untimed::Teardown } else { Untimed::Contended };
    let hold = stream.hold().ok_or_else(refused)?;
    if context.pool.is_low() {
        session.poller.wake(); // the poller is late: there are complete events that it could give back
    }
    match stream.entries.density(*session.get::<Queue>()) {
        Density::Each => pair(call, driver, context, hold, overlap, false),
        _ => open_deep(call, driver, context, hold, overlap, kernel, is_apart),
    }
}

/// Does the same for a stream that looks deep.
#[cold]
#[inline(never)]
fn open_deep(
    call: &Call,
    driver: &'static Driver,
    context: &'static Context,
    hold: Hold,
    overlap: &OverlapCheck,
    kernel: u64,
    is_apart: &dyn Fn() -> bool,
) -> Result<Opened, Untimed> {
    let (session, stream) = (call.session, hold.stream());
    let queue = *session.get::<Queue>();
    query_at_intervals(session, driver, stream, context);
    match stream.density(queue) {
        Density::Each => pair(call, driver, context, hold, overlap, false),
        Density::Sampled if kernel == 0 || is_apart() => pair(call, driver, context, hold, overlap, false),
        Density::None => Err(Untimed::DeepQueue),
        // It does not end a run, after which no launch would follow.
        Density::Sparse if kernel == 0 => Err(Untimed::DeepQueue),
        density => match burst::run(call, driver, hold, overlap, density, kernel)? {
            Joined::Member(member) => Ok(Opened::Member(member)),
            Joined::Alone { hold, by_chance } => pair(call, driver, context, hold, overlap, by_chance),
        },
    }
}

/// Opens a pair by recording its start event.
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

/// Returns the start event: the last end event if it can be shared, or one recorded now.
fn start(
    call: &Call,
    driver: &Driver,
    context: &Context,
    hold: &mut Hold,
    overlap: &OverlapCheck,
) -> Result<Start, Untimed> {
    burst::end(call, driver, hold, |since| overlap.follows(since));
    if let Some(end) = hold.last().end.take() {
        if let Some(begun) = shareable_since(call.session, driver, context, hold, &end, overlap) {
            return Ok(Start { event: end.event, shared: true, begun, position: end.position });
        }
        context.pool.give(end.event);
    }
    recorded(call, driver, context, hold.stream())
}

/// Records a start event now.
pub fn recorded(call: &Call, driver: &Driver, context: &Context, stream: &Stream) -> Result<Start, Untimed> {
    let event = context.take_event(call).ok_or(Untimed::NoEvent)?;
    let begun = ticks();
    let Some(position) = record(call, driver, context, event, stream) else {
        context.pool.give(event);
        return Err(unrecorded(context));
    };
    Ok(Start { event, shared: false, begun, position })
}

/// Records an event on a stream as one more entry, and returns the entry's number: all entries up to it are
/// complete when the event is. `None`: the driver refused the record, or the context is gone or may be at any moment.
///
/// Where the queue is full, the record waits until the GPU has finished an entry, as the app's next call
/// would otherwise have done. So that time is not charged to the agent.
pub fn record(call: &Call, driver: &Driver, context: &Context, event: u32, stream: &Stream) -> Option<u64> {
    // The app's call may have taken so long that a call that ends the context no longer waits for the hold.
    if context.is_leaving() {
        return None;
    }
    let begun = stream.entries.is_nearly_full(*call.session.get::<Queue>()).then(ticks);
    // SAFETY: an event of the stream's context, and a stream that the app is about to use or has just used.
    let recorded = driver
        .event_record
        .zip(context.pool.event(event))
        .is_some_and(|(record, event)| unsafe { record(event, stream.handle()) } == CUDA_SUCCESS);
    if let Some(begun) = begun {
        call.waited(ticks().wrapping_sub(begun).saturating_sub(most_record()));
    }
    recorded.then(|| stream.entries.add())
}

/// Why an event could not be recorded. Hooks hold a stream while the driver launches, which takes seconds where it loads a
/// module; a call that may end the context does not wait so long for them.
pub fn unrecorded(context: &Context) -> Untimed {
    if context.is_leaving() { Untimed::Teardown } else { Untimed::EventFailed }
}

/// The longest time in ticks that a record takes while there is room: about 10 µs.
fn most_record() -> u64 {
    tenth_of_a_second() / 10_000
}

/// Whether no event serves two operations (`GPUSPY_EVENTS=pairs`). Written before the session is published.
pub struct PairsOnly(pub bool);

/// Returns the last ticks at which an end event had not fired, if it may serve as the next start event.
fn shareable_since(
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
        || session.get::<StreamCaptures>().open.load(Ordering::Relaxed) != 0
    {
        return None;
    }
    if let Some(less) = hold.last().patience.checked_sub(1) {
        hold.last().patience = less;
        return None;
    }
    // RELAXED: a capture may begin meanwhile.
    match driver.relaxed(|| query_event(session, driver, context, end.event)) {
        Some(Some(CUDA_ERROR_NOT_READY)) => Some(now),
        Some(Some(CUDA_SUCCESS)) => {
            hold.stream().entries.observe_complete(end.position);
            hold.last().patience = PATIENCE;
            None
        }
        _ => None,
    }
}

/// Queries how far a stream has come, at intervals. The poller wakes late on busy machines, so a hook may
/// query for itself, but not while anything is being captured: a query from a thread that is not RELAXED
/// would invalidate the capture.
#[cold]
fn query_at_intervals(session: Session, driver: &Driver, stream: &Stream, context: &Context) {
    if session.get::<StreamCaptures>().open.load(Ordering::Relaxed) == 0
        && stream.entries.should_query(*session.get::<Queue>())
    {
        // RELAXED all the same: a capture may begin meanwhile.
        driver.relaxed(|| search(session, driver, stream, context));
    }
}

/// Whether the driver says that nothing is left on a stream. False without a query while anything is being captured.
pub fn is_drained(session: Session, driver: &Driver, stream: &Stream) -> bool {
    // RELAXED all the same: a capture may begin meanwhile.
    session.get::<StreamCaptures>().open.load(Ordering::Relaxed) == 0
        && driver.relaxed(|| query_stream(driver, stream)) == Some(true)
}

/// Queries the driver whether nothing is left on a stream, and takes note of it. The thread has to be RELAXED.
fn query_stream(driver: &Driver, stream: &Stream) -> bool {
    let entries = stream.entries.submitted();
    // SAFETY: a stream that the app is about to use.
    let result = driver.stream_query.map(|query| unsafe { query(stream.handle()) });
    let is_empty = result == Some(CUDA_SUCCESS);
    if is_empty {
        stream.entries.observe_complete(entries);
    }
    is_empty
}

/// Searches the unread operations by halving for the newest that is complete, with eleven queries at most.
fn search(session: Session, driver: &Driver, stream: &Stream, context: &Context) {
    if stream.oldest().is_none() {
        // No event of ours is unread; only the driver knows whether the stream is empty.
        query_stream(driver, stream);
        return;
    }
    // Operations of a stream complete in order, so halving finds the newest that is complete.
    let (mut complete, mut unknown) = stream.unread();
    while complete < unknown {
        let middle = complete + (unknown - complete) / 2;
        let Some(op) = stream.at(middle) else { break };
        match query_event(session, driver, context, op.end) {
            Some(CUDA_SUCCESS) => {
                stream.entries.observe_complete(op.position);
                complete = middle + 1;
            }
            Some(CUDA_ERROR_NOT_READY) => unknown = middle,
            _ => break,
        }
    }
}

/// Closes a pair after the real call returned at `submitted` (ticks), successfully or not. `function` is the
/// kernel launched, or 0.
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
    let is_late = is_late(call, stream, overlap);
    let recorded = if is_late { None } else { record(call, driver, context, end, stream) };
    let ended = ticks();
    // While a call that may end the context is under way, other calls are recorded without a stream and leave
    // no counts.
    let alone = overlap.alone().filter(|_| !context.is_leaving());
    if let (Some(position), Some(since)) = (recorded, alone) {
        // Held before it is handed to the poller, which may give it back at once.
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
        shares_start: start.shared,
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
        untimed: match queued {
            true => Untimed::Timed,
            false if is_late => Untimed::Contended,
            false => unrecorded(context),
        },
        lead: saturated(submitted.wrapping_sub(start.begun)),
        tail: saturated(ended.wrapping_sub(submitted)),
        flags: shared_interval | shared_start | sampled,
    }
}

/// Whether it is too late for an event after the real call, which may have taken milliseconds. Another thread may have put work onto
/// streams that this one is ordered with, so that the event, and who waits for the stream, would wait for it; or a capture has begun,
/// which an event on the legacy default stream would end.
pub fn is_late(call: &Call, stream: &Stream, overlap: &OverlapCheck) -> bool {
    overlap.is_ordered_with_others() || is_captured(call, stream.handle())
}

/// Returns why nothing is timed at the moment, unless it is time to look how far the stream has come: see
/// [`record_marker`].
#[inline(always)]
pub fn passed_by(session: Session, stream: &Stream) -> Option<Untimed> {
    let queue = *session.get::<Queue>();
    let is_due = stream.entries.is_deep(queue) && stream.entries.is_query_due(queue);
    session.get::<Gate>().is_shut_for().filter(|why| *why == Untimed::Off || !is_due)
}

/// Records a marker before an operation without events, when a deep stream has no unread event left that
/// would show how far it has come. It does so in a pause of the budget and outside the capture range, too:
/// otherwise every stream would look deep when the next window opens, since none of its entries were observed
/// to complete meanwhile. (The marker comes before an ordinary operation, never after one: a programmatic
/// launch may follow.)
pub fn record_marker(call: &Call, driver: &Driver, stream: &'static Stream, why: Untimed) {
    let session = call.session;
    let queue = *session.get::<Queue>();
    let is_paused = matches!(why, Untimed::Budget | Untimed::OutsideRange);
    let looks_deep = || (is_paused || why == Untimed::DeepQueue) && stream.entries.is_deep(queue);
    let Some(context) = stream.context().filter(|_| looks_deep()) else { return };
    let is_watched = || stream.is_watched() || stream.entries.density(queue) == Density::None;
    let mut held = None;
    // In a window, `open` makes the query. A call that ends the context waits for the hold.
    if is_paused && is_watched() {
        held = stream.hold();
        if held.is_none() {
            return;
        }
        query_at_intervals(session, driver, stream, context);
    }
    if is_watched() || !looks_deep() {
        return;
    }
    let Some(mut hold) = held.or_else(|| stream.hold()) else { return };
    let Some(event) = context.take_event(call) else { return };
    let recorded = record(call, driver, context, event, stream);
    let marker =
        |position| Pending { start: event, end: event, position, marker: true, ..Pending::default() };
    match recorded.is_some_and(|position| hold.push(marker(position))) {
        // In a pause the poller need not hurry: a hook queries the marker, and the poller gives it back when
        // it wakes.
        true if is_paused => {}
        true => session.poller.work_added(),
        false => context.pool.give(event),
    }
}

/// Counts an operation that was enqueued without events.
pub fn count_untimed(stream: &Stream) {
    stream.entries.add();
}
