//! The pair of events around one call.
//!
//! A pair is taken only where it can do no harm and will mean something: one at a time per stream, never inside a
//! capture, never beside a programmatic launch, never on a stream that is already deep. Everything else is counted with
//! its reason ([`Untimed`]).

use core::sync::atomic::Ordering;
use gpuspy_wire::record::Untimed;

use crate::cuda::{CUDA_ERROR_DEINITIALIZED, CUDA_SUCCESS};
use crate::driver::Driver;
use crate::gpu::context::{Context, Passages};
use crate::gpu::stream::{MAX_DEPTH, Pending, Stream};
use crate::session::Session;
use crate::sys::ticks;

/// How often a hook may ask the driver how far a deep stream has come: once per so many launches.
const ASK_EVERY: u32 = 64;

/// Beyond this depth not even a marker is recorded: it could be the entry that blocks the app.
const MAX_MARKED: u64 = 768;

/// An open pair: its start event is recorded. Dropped without being closed (the thread is cancelled inside the real call)
/// it only lets go: an event that is recorded and not read can be recorded anew at any time.
pub struct Pair {
    stream: &'static Stream,
    context: &'static Context,
    start: u32,
    end: u32,
    /// Ticks before the start event's record.
    begun: u64,
}

impl Drop for Pair {
    fn drop(&mut self) {
        self.context.pool.give(self.start);
        self.context.pool.give(self.end);
        let_go(self.stream);
    }
}

/// What closing a pair tells.
pub struct Closed {
    pub untimed: Untimed,
    /// Ticks from the begin of the start event's record to the launch's return.
    pub lead: u32,
    /// Ticks from the launch's return to the return of the end event's record.
    pub tail: u32,
}

/// A call's passage through its stream: whether something of another thread's came by meanwhile that the driver may have
/// put between our events. That is a call on the same stream, and, between the legacy default stream and every blocking
/// one, a call on a stream of the other kind: an end event on the one waits for what the others have queued.
pub struct Passage {
    stream: &'static Passages,
    /// Calls on the stream that were over when this one began.
    over: u64,
    across: Option<Across>,
}

/// The same between streams.
struct Across {
    own: &'static Passages,
    other: &'static Passages,
    over: u64,
}

impl Passage {
    /// Before the real call, and before anything of ours.
    #[inline]
    pub fn begin(stream: &'static Stream) -> Passage {
        let over = stream.passages.done.load(Ordering::Relaxed);
        stream.passages.begun.fetch_add(1, Ordering::Relaxed);
        let across = stream.passages_across().map(|(own, other)| {
            let over = other.done.load(Ordering::Relaxed);
            own.begun.fetch_add(1, Ordering::Relaxed);
            Across { own, other, over }
        });
        Passage { stream: &stream.passages, over, across }
    }

    /// After it: whether another call may lie between.
    #[inline]
    pub fn end(self) -> bool {
        let across = self.across.as_ref().is_some_and(|a| a.other.begun.load(Ordering::Relaxed) != a.over);
        // Itself has begun, too.
        across || self.stream.begun.load(Ordering::Relaxed) != self.over + 1
    }
}

impl Drop for Passage {
    // Also where the thread is cancelled inside the real call.
    fn drop(&mut self) {
        if let Some(across) = &self.across {
            across.own.done.fetch_add(1, Ordering::Relaxed);
        }
        self.stream.done.fetch_add(1, Ordering::Relaxed);
    }
}

fn saturated(ticks: u64) -> u32 {
    u32::try_from(ticks).unwrap_or(u32::MAX)
}

/// Opens a pair on a stream, or says why not.
#[inline]
pub fn open(session: &Session, driver: &Driver, stream: &'static Stream) -> Result<Pair, Untimed> {
    session.timing.admit()?;
    let context = stream.context().ok_or(Untimed::NoStream)?;
    // Acquire, with the release in `let_go`: the last holder's queue entry.
    if stream.claim.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
        return Err(Untimed::Contended);
    }
    match pair(session, driver, stream, context) {
        Ok(pair) => Ok(pair),
        Err(why) => {
            let_go(stream);
            Err(why)
        }
    }
}

/// As the claim's holder.
fn pair(
    session: &Session,
    driver: &Driver,
    stream: &'static Stream,
    context: &'static Context,
) -> Result<Pair, Untimed> {
    if context.gone.load(Ordering::Relaxed) {
        return Err(Untimed::Teardown);
    }
    if stream.depth() > MAX_DEPTH && !is_shallow_after_asking(session, driver, stream, context) {
        return Err(Untimed::DeepQueue);
    }
    if !stream.has_room() {
        return Err(Untimed::DeepQueue);
    }
    let record = driver.event_record.ok_or(Untimed::EventFailed)?;
    if context.pool.is_low() {
        session.poller.wake(); // it is late: events that it could give back are complete
    }
    let start = context.pool.take().ok_or(Untimed::NoEvent)?;
    let Some(end) = context.pool.take() else {
        context.pool.give(start);
        return Err(Untimed::NoEvent);
    };
    let begun = ticks();
    // SAFETY: an event of the stream's context, and a stream that the app is about to use.
    if unsafe { record(context.pool.event(start), stream.handle()) } != CUDA_SUCCESS {
        context.pool.give(start);
        context.pool.give(end);
        return Err(Untimed::EventFailed);
    }
    stream.submitted.fetch_add(1, Ordering::Relaxed);
    Ok(Pair { stream, context, start, end, begun })
}

/// The poller wakes late on busy machines, so a hook may look for itself, now and then; but not while anything is being
/// captured, which a query from a thread that is not RELAXED would invalidate.
#[cold]
fn is_shallow_after_asking(session: &Session, driver: &Driver, stream: &Stream, context: &Context) -> bool {
    if session.captures.load(Ordering::Relaxed) != 0
        || !stream.unasked.fetch_add(1, Ordering::Relaxed).is_multiple_of(ASK_EVERY)
    {
        return false;
    }
    // RELAXED all the same: a capture may begin meanwhile.
    driver.relaxed(|| ask(driver, stream, context));
    stream.depth() <= MAX_DEPTH
}

fn ask(driver: &Driver, stream: &Stream, context: &Context) {
    // Operations of a stream complete in order: halving finds the newest that is complete.
    let (mut complete, mut unknown) = stream.unread();
    while let (Some(query), true) = (driver.event_query, complete < unknown) {
        let middle = complete + (unknown - complete) / 2;
        let Some(op) = stream.at(middle) else { break };
        // SAFETY: an event of this context; it may have been read and reused meanwhile, then it is simply not ready.
        if unsafe { query(context.pool.event(op.end)) } == CUDA_SUCCESS {
            stream.seen(op.position);
            complete = middle + 1;
        } else {
            unknown = middle;
        }
    }
}

/// Closes a pair after the real call returned at `submitted` with success or not.
#[inline]
pub fn close(
    session: &Session,
    driver: &Driver,
    stream: &'static Stream,
    pair: Pair,
    correlation: u64,
    submitted: u64,
    succeeded: bool,
) -> Closed {
    let pool = &pair.context.pool;
    stream.submitted.fetch_add(u64::from(succeeded), Ordering::Relaxed);
    // SAFETY: an event of the stream's context, and the stream that the app has just used.
    let result = driver
        .event_record
        .map_or(CUDA_ERROR_DEINITIALIZED, |record| unsafe { record(pool.event(pair.end), stream.handle()) });
    let ended = ticks();
    let position = stream.submitted.fetch_add(1, Ordering::Relaxed) + 1;
    let recorded = result == CUDA_SUCCESS;
    let pending = Pending {
        correlation,
        start: pair.start,
        end: pair.end,
        position,
        marker: false,
        cancelled: !succeeded,
    };
    let queued = recorded && stream.push(pending);
    let begun = pair.begun;
    if queued {
        core::mem::forget(pair); // the events are the queue's now
        let_go(stream);
        session.poller.work_added();
    } else {
        drop(pair);
    }
    Closed {
        untimed: if queued { Untimed::Timed } else { Untimed::EventFailed },
        lead: saturated(submitted.wrapping_sub(begun)),
        tail: saturated(ended.wrapping_sub(submitted)),
    }
}

/// Counts an operation that is enqueued without a pair, and, when a deep stream has nothing left that would show how far
/// it has come, records one event that will. In a pause of the budget, too: else every stream would look deep when the
/// next window opens, since nothing of it was seen complete meanwhile.
pub fn count_untimed(session: &Session, driver: &Driver, stream: &'static Stream, why: Untimed) {
    stream.submitted.fetch_add(1, Ordering::Relaxed);
    let looks_deep = matches!(why, Untimed::DeepQueue | Untimed::Budget) && stream.depth() > MAX_DEPTH / 2;
    if !looks_deep || stream.depth() > MAX_MARKED {
        return;
    }
    if stream.is_watched() {
        // In a window `open` asks.
        if why == Untimed::Budget
            && let Some(context) = stream.context()
        {
            is_shallow_after_asking(session, driver, stream, context);
        }
        return;
    }
    if stream.claim.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
        return;
    }
    if let (Some(context), Some(record)) = (stream.context(), driver.event_record)
        && let Some(event) = context.pool.take()
    {
        // SAFETY: an event of the stream's context, and the stream that the app has just used.
        let recorded = unsafe { record(context.pool.event(event), stream.handle()) } == CUDA_SUCCESS;
        let position = stream.submitted.fetch_add(1, Ordering::Relaxed) + 1;
        let marker = Pending { start: event, end: event, position, marker: true, ..Pending::default() };
        match recorded && stream.push(marker) {
            // In a pause nobody waits for it: a hook asks it, and the poller gives it back when it wakes.
            true if why == Untimed::Budget => {}
            true => session.poller.work_added(),
            false => context.pool.give(event),
        }
    }
    let_go(stream);
}

fn let_go(stream: &Stream) {
    // Release, with the acquire in `open`: the next holder sees our queue entry.
    stream.claim.store(0, Ordering::Release);
}
