//! Which operations have completed, and when did they run?
//!
//! A polling pass goes through the contexts that have work, makes each current once, and reads in each
//! stream the oldest operations until one is not complete, so one stalled stream never holds back
//! another. Streams take turns of [`TURN`] operations, so that a busy one does not make the others wait until
//! they are deep.
//!
//! A driver call of the poller's makes the program's launches wait: they take 0.5 to 1.5 µs longer beside one
//! (`question_lock` in docs/hardware.md). So it makes few: an operation that is complete was preceded by complete ones,
//! and one that begins with the event that ended the operation before needs no second distance.

use gpuspy_wire::pace::Compared;
use gpuspy_wire::record::{GpuTime, Head, Loss, LossCause, Record};
use std::sync::atomic::Ordering;

use crate::cuda::*;
use crate::driver;
use crate::gpu::budget::{Follower, Gate};
use crate::gpu::clock_sample::Sampler;
use crate::gpu::context::{Context, Contexts};
use crate::gpu::nodes::{self, Nodes};
use crate::gpu::open_burst::Bursts;
use crate::gpu::poller::cost::{Meter, Outside, PoolEvents};
use crate::gpu::poller::rhythm::Found;
use crate::gpu::query::shut_down;
use crate::gpu::stream::{Pending, Stream, Streams};
use crate::gpu::time_base::{self, Position, TimeBase};
use crate::sink::{Ring, Session};
use crate::sys::ticks;

/// The number of operations read from one stream before the next one's turn: with one or two driver calls
/// each, about 100 µs.
const TURN: u64 = 64;
/// The largest number of turns of a stream in one polling pass. The next pass, which follows at once, reads
/// the rest.
const TURNS: u64 = 4;

/// The poller's state for a context.
struct Polled {
    context: &'static Context,
    time_base: TimeBase,
    sampler: Sampler,
}

/// Where an operation ended.
#[derive(Clone, Copy)]
struct Ended {
    /// The index of its end event.
    event: u32,
    at: Position,
}

/// The part of the poller that reads events and measures GPU times.
pub struct Reader {
    session: Session,
    known: Vec<Polled>,
    /// The times that were read and are not published yet. All get the same `seen`, a moment at which all of
    /// their operations were complete: that takes less space in the trace than one moment each.
    measured: Vec<GpuTime>,
    nodes: nodes::Reader,
    /// Passes the times on to the budget.
    follower: Follower,
    /// Whether this thread's stream capture mode has been set to RELAXED.
    relaxed: bool,
}

impl Reader {
    /// Creates the reader of a session.
    pub fn new(session: Session) -> Reader {
        Reader {
            session,
            known: Vec::new(),
            measured: Vec::new(),
            nodes: nodes::Reader::default(),
            follower: Follower::NEW,
            relaxed: false,
        }
    }

    /// Makes one polling pass over all contexts, between [`begin_poll`](crate::sink::poller::Shared::begin_poll) and its end.
    /// `may_query` is what `begin_poll` returned.
    pub fn poll(&mut self, ring: &mut Ring, meter: &Meter, may_query: bool) -> Found {
        let session = self.session;
        self.report_lost(ring, session.get::<Streams>().drop_abandoned());
        // Acquire pairs with the release of the thread that has seen the context end: its events must not be
        // used any more.
        self.known.retain(|k| !k.context.gone.load(Ordering::Acquire));
        let mut found = Found::default();
        let Some(driver) = driver::driver().filter(|_| may_query) else { return found };
        let outside = meter.outside(driver);
        let timing = session.get::<Gate>().is_on();
        for context in session.get::<Contexts>().iter() {
            context.queues.settle(|| session.get::<Streams>().of(context).all(Stream::is_counted));
            let busy = session.get::<Streams>().iter().any(|s| is_busy(s, context));
            // A context without work is left alone as long as it can begin with what it has.
            let is_short = || timing && if busy { context.pool.is_short() } else { context.pool.is_low() };
            if !(busy || is_short()) || !self.may_touch(context) {
                continue;
            }
            if !self.relaxed {
                let mut mode = CAPTURE_MODE_RELAXED;
                // SAFETY: exchanges this thread's own mode.
                let refused = outside
                    .call(|d| d.capture_mode.map(|exchange| unsafe { exchange(&mut mode) != CUDA_SUCCESS }));
                if refused == Some(true) {
                    break; // a query now could end a capture
                }
                self.relaxed = true;
            }
            let known = self.known.iter().position(|k| core::ptr::eq(k.context, context));
            let mut known = known.map_or_else(
                || Polled { context, time_base: TimeBase::default(), sampler: Sampler::default() },
                |at| self.known.swap_remove(at),
            );
            let polled = outside.within(context.handle, || {
                self.read_context(ring, outside, &mut known, &mut found);
                // Reading gives events back, and a thread that waits for the poller has no use for new ones.
                if is_short() {
                    outside.call(|driver| context.pool.replenish(driver, || session.poller.is_awaited()));
                }
                if busy && !context.queues.is_one() {
                    let Polled { time_base, sampler, .. } = &mut known;
                    let sample = sampler.sample(outside, context, time_base, || self.may_touch(context));
                    sample.into_iter().for_each(|s| _ = ring.push(s.as_words()));
                }
            });
            match polled {
                Ok(()) => self.known.push(known),
                Err(CUDA_ERROR_DEINITIALIZED) => shut_down(self.session),
                Err(_) => {
                    // The app destroyed the context by a call that the agent does not intercept: what is
                    // pending on it is lost.
                    session.get::<Contexts>().forget(context);
                    session.get::<Streams>().abandon(context);
                }
            }
        }
        self.report_lost(
            ring,
            session.get::<Streams>().iter().map(|s| s.retire_if_dead(session.get::<Bursts>())).sum(),
        );
        found
    }

    /// Returns how a sampling pause compares with the windows next to it, if the last polling pass could
    /// compare them, and the share of all launches that went onto the compared stream.
    pub fn compared(&mut self) -> Option<(Compared, f64)> {
        let (compared, launches) = self.follower.take()?;
        Some((compared, launches as f64 / self.session.get::<Streams>().passed().max(1) as f64))
    }

    /// Whether a context's events may be queried: no call may be ending it or have ended it.
    fn may_touch(&self, context: &Context) -> bool {
        !self.session.poller.is_stopped() && !context.is_leaving()
    }

    /// Reads the operations of the current context that are complete.
    fn read_context(&mut self, ring: &mut Ring, outside: Outside<'_>, known: &mut Polled, found: &mut Found) {
        let session = self.session;
        let context = known.context;
        let streams = || session.get::<Streams>().iter().filter(|s| is_busy(s, context));
        let mut most = 0;
        for _ in 0..TURNS {
            let mut longest = 0;
            for stream in streams() {
                longest = longest.max(self.read_stream(ring, outside, known, stream));
            }
            let seen = ticks();
            for record in self.measured.drain(..) {
                ring.push(GpuTime { seen, ..record }.as_words());
            }
            self.nodes.report(ring, seen);
            most += longest;
            if longest < TURN {
                break;
            }
        }
        found.most = found.most.max(most);
        found.pending += streams().map(Stream::to_be_read).sum::<u64>();
        found.more |= most >= TURN * TURNS;
    }

    /// Reads a stream's operations from the oldest on, as far as they are complete, or for one turn. Returns
    /// their number. Markers ([`Pending::marker`]) do not count: hooks query them in sampling pauses, so the
    /// poller need not hurry.
    fn read_stream(
        &mut self,
        ring: &mut Ring,
        outside: Outside<'_>,
        known: &mut Polled,
        stream: &Stream,
    ) -> u64 {
        let context = known.context;
        let (mut read, mut operations) = (0, 0);
        // Operations before the first position are complete, and that at the second one was not when it was queried.
        let (mut complete, mut incomplete) = (0, None);
        // Where the operation ended that was measured just before.
        let mut before = None;
        while read < TURN
            && let Some(op) = stream.oldest()
            && self.may_touch(context)
        {
            let position = stream.unread().0;
            if incomplete == Some(position) {
                break;
            }
            let state = if position < complete { Some(CUDA_SUCCESS) } else { query(outside, context, op) };
            let end_before = before.take();
            match state {
                Some(CUDA_SUCCESS) => {
                    if position >= complete {
                        (complete, incomplete) =
                            self.complete_until(outside, context, stream, position, TURN - read);
                    }
                    if !op.marker && !op.cancelled {
                        before = self.measure(ring, outside, known, (stream, op), end_before);
                    }
                }
                Some(CUDA_ERROR_NOT_READY) | None => break,
                Some(CUDA_ERROR_DEINITIALIZED) => {
                    shut_down(self.session);
                    break;
                }
                // A sticky error of the app's, or an event that cannot be queried: the time is lost, and
                // counted as such.
                Some(_) => self.report_lost(ring, u64::from(!op.marker && !op.cancelled)),
            }
            finish(context, stream, op);
            read += 1;
            operations += u64::from(!op.marker);
        }
        operations
    }

    /// Returns the position up to which a stream's operations are complete, by few queries: that at `position` is, they
    /// complete in order, and after each that is, one twice as far away is queried. It looks at `most` operations. Also returns the
    /// position of one that is not, if one was found.
    fn complete_until(
        &self,
        outside: Outside<'_>,
        context: &Context,
        stream: &Stream,
        position: u64,
        most: u64,
    ) -> (u64, Option<u64>) {
        let last = stream.unread().1.min(position + most);
        let (mut until, mut step) = (position + 1, 1);
        while until < last {
            let next = (until + step).min(last);
            match stream.at(next - 1).and_then(|op| query(outside, context, op)) {
                Some(CUDA_SUCCESS) => (until, step) = (next, 2 * step),
                Some(CUDA_ERROR_NOT_READY) => return (until, Some(next - 1)),
                Some(CUDA_ERROR_DEINITIALIZED) => {
                    shut_down(self.session);
                    break;
                }
                _ => break,
            }
        }
        (until, None)
    }

    /// Measures an operation's time, and returns where it ended. `before` is where the operation ended that was measured just
    /// before it on its stream: this one may begin with that event.
    fn measure(
        &mut self,
        ring: &mut Ring,
        outside: Outside<'_>,
        known: &mut Polled,
        (stream, op): (&Stream, Pending),
        before: Option<Ended>,
    ) -> Option<Ended> {
        let events = PoolEvents { outside, pool: &known.context.pool };
        let duration = time_base::distance(&events, op.start, op.end);
        let shared = before.filter(|end| op.shares_start && op.start == end.event);
        let near = shared.map(|end| end.at).filter(|at| known.time_base.has_anchor_near(at));
        let start = near.or_else(|| known.time_base.locate(&events, op.start));
        let (Some(duration), Some(start)) = (duration, start) else {
            self.report_lost(ring, 1);
            return None;
        };
        let time = GpuTime {
            head: Head { flags: op.flags, ..Head::new::<GpuTime>() },
            correlation: op.correlation,
            context: known.context.number,
            time_base: start.time_base,
            tail: op.tail,
            reserved: 0,
            start: start.ns,
            duration: duration.ns.max(0) as u64,
            start_error: start.error,
            duration_error: duration.error.ceil() as u32,
            seen: 0,
        };
        if self.measured.try_reserve(1).is_err() {
            self.session.lost(LossCause::GpuTimePending, 1);
            return None;
        }
        self.measured.push(time);
        self.follower.observe(stream, &op, time.time_base, time.start.saturating_add_unsigned(time.duration));
        if let Some(start) = events.pool.event(op.start) {
            self.nodes.read(self.session.get::<Nodes>(), outside, known.context, start, &time);
        }
        let end = Ended { event: op.end, at: Position { ns: start.ns + duration.ns, ..start } };
        (duration.error == 0.0).then_some(end)
    }

    /// Reports operations whose times are lost, if there are any.
    fn report_lost(&mut self, ring: &mut Ring, count: u64) {
        if count == 0 {
            return;
        }
        let cause = LossCause::GpuTimePending;
        self.session.lost(cause, count);
        let loss =
            Loss { head: Head::new::<Loss>(), at: ticks(), count, cause: cause as u8, ..Loss::default() };
        ring.push(loss.as_words());
    }
}

/// Whether a stream belongs to this context and has unread operations.
fn is_busy(stream: &Stream, context: &Context) -> bool {
    stream.oldest().is_some() && stream.context().is_some_and(|c| core::ptr::eq(c, context))
}

/// Queries whether an operation is complete; `None` if that cannot be queried.
fn query(outside: Outside<'_>, context: &Context, op: Pending) -> Option<CUresult> {
    context.pool.event(op.end).and_then(|event| outside.query(event))
}

/// Removes an operation that has been read and releases its events.
fn finish(context: &Context, stream: &Stream, op: Pending) {
    stream.entries.observe_complete(op.position);
    stream.pop();
    context.pool.give(op.end);
    if !op.marker {
        context.pool.give(op.start);
    }
}
