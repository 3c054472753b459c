//! When did work start whose time is unknown?
//!
//! A filter on time puts each operation on one side of a boundary, and an untimed one has only its call. On a full stream
//! the call comes long before the work. So the work of each stream is laid out: an operation starts when it was called or,
//! if that is later, when the work before it on its stream was over, and it takes as long as operations like it typically
//! do. Each timed operation, each run or burst, and each wait of the program sets the stream right again.
//!
//! The launches of a run come before the record that has the run's time. They are laid out like all others, and so come to
//! lie in the run, which begins where the work before it ended. For that nothing has to be held back until the run is over,
//! and the first pass over the trace has to keep nothing of any run: a stream costs a few numbers. It also suits what the
//! GPU's own row does, which cuts a run at the boundary and does not put it on one side. Where a stream waited for
//! another one, its work is laid out too early, up to the next operation that has a time.

use super::typical::Typical;
use super::{Action, Drained, Event, Operation, When, host};
use crate::hash::HashMap;
use crate::trace::record::{Body, Work};

/// Where the work of one stream has come to.
#[derive(Clone, Copy, Debug)]
struct Stream {
    /// When the work so far was over, by the best estimate: host ns on the line.
    over: i64,
    /// The same without the last operation, and host ns when that was called.
    before: i64,
    called: i64,
    /// Host ns when the last call returned.
    returned: u64,
    /// Where the first launch started of the run or burst that is open.
    first: Option<i64>,
}

impl Stream {
    const NEW: Stream =
        Stream { over: i64::MIN, before: i64::MIN, called: i64::MIN, returned: 0, first: None };

    /// Adds an operation that was called at one time and over at another.
    fn add(&mut self, called: i64, over: i64) {
        (self.before, self.over, self.called) = (self.over, over, called);
    }

    fn drained(&mut self, drained: &Drained) {
        if self.returned <= drained.issued_before {
            self.over = self.over.min(drained.by);
            self.before = self.before.min(drained.by);
        }
    }
}

/// The fold over the events of a trace. Its size is that of the live streams.
#[derive(Debug, Default)]
pub struct Placement<'a> {
    /// How long operations typically take; without it they take no time.
    typical: Option<&'a Typical>,
    streams: HashMap<(u32, u64), Stream>,
}

impl<'a> Placement<'a> {
    /// A fold at the start of a trace with these typical lengths.
    pub fn new(typical: Option<&'a Typical>) -> Self {
        Placement { typical, streams: HashMap::default() }
    }

    /// Takes the next event, in the trace's order. Returns when its work started, by the best estimate: host ns on the line;
    /// `None` if it is no work. What a stream capture recorded is there when it was called.
    pub fn observe(&mut self, event: &Event<'_>) -> Option<i64> {
        event.drained.iter().for_each(|drained| self.drained(drained));
        match (&event.operation, &event.node, &event.record.body) {
            (Some(operation), _, Body::Work(work)) => Some(self.work(operation, work)),
            (None, Some(node), _) => Some(node.start),
            (_, _, Body::Stream(stream)) if stream.destroyed => {
                self.streams.remove(&(stream.context, stream.stream));
                None
            }
            (_, _, Body::Context(context)) if context.destroyed => {
                self.streams.retain(|(of, _), _| *of != context.context);
                None
            }
            _ => None,
        }
    }

    fn drained(&mut self, drained: &Drained) {
        if let Some(stream) = drained.stream {
            let state = self.streams.get_mut(&(drained.context, stream));
            state.into_iter().for_each(|state| state.drained(drained));
            return;
        }
        let of_context = self.streams.iter_mut().filter(|((context, _), _)| *context == drained.context);
        of_context.for_each(|(_, state)| state.drained(drained));
    }

    fn work(&mut self, operation: &Operation, work: &Work) -> i64 {
        let called = host(work.call.begin);
        if operation.when == When::Captured {
            return called;
        }
        let stream = (operation.context, operation.stream);
        let state = self.streams.entry(stream).or_insert(Stream::NEW);
        state.returned = state.returned.max(operation.returned);
        let is_whole = matches!(operation.what, Action::Burst { .. });
        let first = if is_whole { state.first.take() } else { state.first };
        match operation.when {
            // Its record is made in the call of whatever comes next, which no launch of it crosses.
            When::Timed(interval) if is_whole => {
                (state.over, state.before) = (interval.end, interval.end);
                interval.start
            }
            When::Timed(interval) => {
                state.add(called, interval.end);
                interval.start
            }
            // The time of a run was lost, but not where its launches were laid out.
            When::Untimed { .. } if is_whole => first.unwrap_or(called),
            When::Untimed { after, .. } => {
                // Where calls of two threads cross, neither is known to have come first.
                let ahead = if called < state.called { state.before } else { state.over };
                let start = called.max(ahead);
                let usual = self.typical.and_then(|typical| typical.usual(work, operation.what));
                let over = start.max(state.over).saturating_add(host(usual.map_or(0, |usual| usual.value)));
                state.add(called, over);
                if after.is_none() {
                    state.first.get_or_insert(start);
                }
                start
            }
            When::Captured => called,
        }
    }
}

#[cfg(test)]
mod tests;
