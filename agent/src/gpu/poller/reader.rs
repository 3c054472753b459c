//! Which operations have completed, and when did they run?
//!
//! A look goes through the contexts that have work, pushes each once, and asks in each stream for the oldest operation's
//! end event until one is not complete: one stalled stream never holds back another. Streams take turns of [`TURN`]
//! operations, so that a busy one does not make the others wait until they are deep.

use gpuspy_wire::pace::Compared;
use gpuspy_wire::record::{GpuTime, Head, Loss, LossCause, Record};
use std::sync::atomic::Ordering;

use crate::cuda::*;
use crate::driver;
use crate::gpu::budget::{Follower, Gate};
use crate::gpu::context::{Context, Contexts};
use crate::gpu::nodes::{self, Nodes};
use crate::gpu::open_burst::Bursts;
use crate::gpu::poller::cost::{Asked, Meter, Outside};
use crate::gpu::poller::rhythm::Found;
use crate::gpu::sample::Sampler;
use crate::gpu::stream::{Pending, Stream, Streams};
use crate::gpu::time_base::{self, TimeBase};
use crate::sink::{Ring, Session};
use crate::sys::ticks;

/// Operations read of one stream before the next one's turn: with three driver calls each, about 100 µs.
const TURN: u64 = 64;
/// Turns that a stream has in one look at most. What is left is met by the next, which follows at once.
const TURNS: u64 = 4;

/// What the poller knows of a context.
struct Known {
    context: &'static Context,
    time_base: TimeBase,
    sampler: Sampler,
}

/// What reads events.
pub struct Reader {
    session: Session,
    known: Vec<Known>,
    /// Times read and not published yet: they were all seen complete before one and the same moment, which costs less in
    /// the trace than a moment each.
    measured: Vec<GpuTime>,
    nodes: nodes::Reader,
    /// What the budget learns from the times.
    follower: Follower,
    /// The thread's capture mode is RELAXED.
    relaxed: bool,
}

impl Reader {
    /// Of a session.
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

    /// One look at all contexts. Between [`begin_look`](crate::sink::poller::Shared::begin_look) and its end; `may_ask` is the answer to the first.
    pub fn look(&mut self, ring: &mut Ring, meter: &Meter, may_ask: bool) -> Found {
        let session = self.session;
        self.tell_lost(ring, session.get::<Streams>().drop_abandoned());
        // Acquire, with the release of who has seen it end: its events are not to be touched.
        self.known.retain(|k| !k.context.gone.load(Ordering::Acquire));
        let mut found = Found::default();
        let Some(driver) = driver::driver().filter(|_| may_ask) else { return found };
        let outside = meter.outside(driver);
        let timing = session.get::<Gate>().is_on();
        for context in session.get::<Contexts>().iter() {
            let low = timing && context.pool.is_low();
            let busy = session.get::<Streams>().iter().any(|s| is_busy(s, context));
            if !(low || busy) || !self.may_touch(context) {
                continue;
            }
            if !self.relaxed {
                let mut mode = CAPTURE_MODE_RELAXED;
                // SAFETY: exchanges this thread's own mode.
                let refused = outside
                    .call(|d| d.capture_mode.map(|exchange| unsafe { exchange(&mut mode) != CUDA_SUCCESS }));
                if refused == Some(true) {
                    break; // what is asked now could end a capture
                }
                self.relaxed = true;
            }
            let known = self.known.iter().position(|k| core::ptr::eq(k.context, context));
            let mut known = known.map_or_else(
                || Known { context, time_base: TimeBase::default(), sampler: Sampler::default() },
                |at| self.known.swap_remove(at),
            );
            let looked = outside.within(context.handle, || {
                if low {
                    outside.call(|driver| context.pool.replenish(driver));
                }
                self.read_context(ring, outside, &mut known, &mut found);
                if busy && !context.has_one_queue() {
                    let Known { time_base, sampler, .. } = &mut known;
                    let sample = sampler.sample(outside, context, time_base, || self.may_touch(context));
                    sample.into_iter().for_each(|s| _ = ring.push(s.as_words()));
                }
            });
            match looked {
                Ok(()) => self.known.push(known),
                Err(CUDA_ERROR_DEINITIALIZED) => self.shut_down(),
                Err(_) => {
                    // It was taken down by a call that we do not see: what is pending on it is lost.
                    session.get::<Contexts>().forget(context);
                    session.get::<Streams>().abandon(context);
                }
            }
        }
        self.tell_lost(
            ring,
            session.get::<Streams>().iter().map(|s| s.retire_if_dead(session.get::<Bursts>())).sum(),
        );
        found
    }

    /// How a pause of the budget compares with the windows beside it, where a look has told, and how much of all that was
    /// launched the stream has had that tells.
    pub fn compared(&mut self) -> Option<(Compared, f64)> {
        let (compared, launches) = self.follower.take()?;
        Some((compared, launches as f64 / self.session.get::<Streams>().passed().max(1) as f64))
    }

    /// Whether a context's events may be asked for: nothing may be its end just now, nor was.
    fn may_touch(&self, context: &Context) -> bool {
        !self.session.poller.is_stopped() && !context.is_leaving()
    }

    /// The driver has said that it is shutting down: it is asked nothing more, and nothing more is timed.
    fn shut_down(&self) {
        self.session.poller.stop();
        self.session.get::<Gate>().stop();
    }

    /// Reads what is complete in the context that is current.
    fn read_context(&mut self, ring: &mut Ring, outside: Outside<'_>, known: &mut Known, found: &mut Found) {
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
            self.nodes.tell(ring, seen);
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
    /// how many, without markers: in a pause of the budget hooks ask for those, and there is nothing to hurry for.
    fn read_stream(
        &mut self,
        ring: &mut Ring,
        outside: Outside<'_>,
        known: &mut Known,
        stream: &Stream,
    ) -> u64 {
        let context = known.context;
        let (mut read, mut operations) = (0, 0);
        while read < TURN
            && let Some(op) = stream.oldest()
            && self.may_touch(context)
        {
            match outside.query(context.pool.event(op.end)) {
                Some(CUDA_SUCCESS) => {
                    if !op.marker && !op.cancelled {
                        self.measure(ring, outside, known, stream, op);
                    }
                }
                Some(CUDA_ERROR_NOT_READY) | None => break,
                Some(CUDA_ERROR_DEINITIALIZED) => {
                    self.shut_down();
                    break;
                }
                // A sticky error of the app's, or an event that cannot be asked: its time is lost, and said so.
                Some(_) => self.tell_lost(ring, u64::from(!op.marker && !op.cancelled)),
            }
            finish(context, stream, op);
            read += 1;
            operations += u64::from(!op.marker);
        }
        operations
    }

    /// Finds out an operation's time.
    fn measure(
        &mut self,
        ring: &mut Ring,
        outside: Outside<'_>,
        known: &mut Known,
        stream: &Stream,
        op: Pending,
    ) {
        let events = Asked { outside, pool: &known.context.pool };
        let duration = time_base::distance(&events, op.start, op.end);
        let start = known.time_base.locate(&events, op.start);
        let (Some(duration), Some(start)) = (duration, start) else { return self.tell_lost(ring, 1) };
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
        self.measured.push(time);
        self.follower.saw(stream, &op, time.time_base, time.start.saturating_add_unsigned(time.duration));
        let start = events.pool.event(op.start);
        self.nodes.read(self.session.get::<Nodes>(), outside, known.context, start, &time);
    }

    /// Tells of operations whose times are lost, if there are any.
    fn tell_lost(&mut self, ring: &mut Ring, count: u64) {
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

/// Whether a stream is this context's and has something to be read.
fn is_busy(stream: &Stream, context: &Context) -> bool {
    stream.oldest().is_some() && stream.context().is_some_and(|c| core::ptr::eq(c, context))
}

/// An operation is read: it holds its events no more.
fn finish(context: &Context, stream: &Stream, op: Pending) {
    stream.entries.seen(op.position);
    stream.pop();
    context.pool.give(op.end);
    if !op.marker {
        context.pool.give(op.start);
    }
}
