//! Which work of streams is certainly over, by the program's waits and its events?
//!
//! An event that a stream records is over when the work before it is, so a wait of the host for the event shows
//! that this work is over. A stream that waits for the event (cudaStreamWaitEvent) goes on only then: when later
//! work of that stream starts, or is known to be over, the work before the event is over as well.
//!
//! What counts is an event's last record. It is not known which one that is if two threads recorded the event at
//! one time, or if records are missing in the trace. In a stream capture, a record or a wait becomes a node of a
//! graph.
//!
//! The trace does not have records of events by graphs, by launches with an attribute for it, and by other
//! processes. If a program records an event in such a way and by a call of its own, too, a wait may be for a record
//! that is not known here. So it may if one thread waits while another one is recording the event.

use crate::hash::{HashMap, HashSet};
use crate::trace::record::{Api, EventOp, Names};
use gpuspy_wire::record::{Namespace, flag};

/// Limit on the events that are known. Beyond it all are forgotten: no program needs so many at one time.
const MOST_EVENTS: usize = 1 << 16;
/// Limit on the waits of a stream that are not known to be over. Beyond it the first one is forgotten.
const MOST_WAITS: usize = 64;
/// Calls after which an event's last record by a stream says nothing: the event is gone, or all streams of a
/// context recorded it.
const FORGETTING: [&str; 5] = [
    "cuEventDestroy",
    "cudaEventDestroy",
    "cuCtxRecordEvent",
    "cuGreenCtxRecordEvent",
    "cudaExecutionCtxRecordEvent",
];

/// Work that is certainly over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drained {
    /// The context of its streams.
    pub context: u32,
    /// Its stream; `None` for all streams of the context.
    pub stream: Option<u64>,
    /// Work whose call had returned by this host time, ns, is done.
    pub issued_before: u64,
    /// The work was done by this time: host ns on the line.
    pub by: i64,
}

/// Work of a stream: all whose call had returned by a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Issued {
    /// The context.
    pub context: u32,
    /// The stream's id.
    pub stream: u64,
    /// That moment: host ns.
    pub before: u64,
}

/// The last record of an event.
#[derive(Clone, Copy, Debug)]
struct Recorded {
    /// The work before it; `None` if another record may have come after it.
    work: Option<Issued>,
    /// Host ns when its call returned.
    returned: u64,
}

/// A stream's wait for an event.
#[derive(Clone, Copy, Debug)]
struct Wait {
    /// The work before the event.
    work: Issued,
    /// Host ns when the call returned: what the stream gets later runs after that work.
    returned: u64,
}

/// The events of a process, and the streams that wait for them.
#[derive(Debug, Default)]
pub struct Events {
    forgetting: HashSet<u16>,
    /// By handle.
    recorded: HashMap<u64, Recorded>,
    /// By context and stream: its waits that are not known to be over, in the order of their calls. None is empty.
    waits: HashMap<(u32, u64), Vec<Wait>>,
}

impl Events {
    /// Starts with a trace's names and no events.
    pub fn new(names: &Names) -> Events {
        let apis = names.0.iter().filter(|((space, _), _)| *space == Namespace::Api);
        let forgets = |name: &str| FORGETTING.iter().any(|start| name.starts_with(start));
        let forgetting = apis.filter(|(_, name)| forgets(name));
        Events {
            forgetting: forgetting.filter_map(|((_, id), _)| u16::try_from(*id).ok()).collect(),
            ..Events::default()
        }
    }

    /// Takes a record of an event by a stream.
    pub fn recorded(&mut self, op: &EventOp) {
        let before = self.recorded.remove(&op.event);
        if !is_effective(op) {
            return;
        }
        if self.recorded.len() >= MOST_EVENTS {
            self.recorded.clear();
        }
        let is_last = before.is_none_or(|before| before.returned <= op.call.begin);
        let work = Issued { context: op.call.context, stream: op.stream, before: op.call.begin };
        let record = Recorded { work: is_last.then_some(work), returned: op.call.end };
        self.recorded.insert(op.event, record);
    }

    /// Takes a wait of a stream for an event.
    pub fn stream_waits(&mut self, op: &EventOp) {
        let Some(work) = self.before(op.event, op.call.begin).filter(|_| is_effective(op)) else { return };
        let stream = (op.call.context, op.stream);
        if (work.context, work.stream) == stream {
            return;
        }
        let waits = self.waits.entry(stream).or_default();
        if waits.len() == MOST_WAITS {
            waits.remove(0);
        }
        waits.push(Wait { work, returned: op.call.end });
    }

    /// Takes the end of a call, which may say that an event's last record counts no more.
    pub fn called(&mut self, api: &Api) {
        if api.result == 0 && self.forgetting.contains(&api.call.api) {
            self.recorded.remove(&api.subject);
        }
    }

    /// Returns the work that a wait for an event waits for, which began at host ns `begin`.
    pub fn before(&self, event: u64, begin: u64) -> Option<Issued> {
        self.recorded.get(&event).filter(|recorded| recorded.returned <= begin)?.work
    }

    /// Forgets the last record of each event, because later ones may be missing.
    pub fn forget_records(&mut self) {
        self.recorded.clear();
    }

    /// Forgets a stream that was destroyed.
    pub fn forget(&mut self, context: u32, stream: u64) {
        self.waits.remove(&(context, stream));
    }

    /// Forgets a context that was destroyed.
    pub fn forget_context(&mut self, context: u32) {
        self.waits.retain(|(of, _), _| *of != context);
        self.recorded.retain(|_, recorded| recorded.work.is_none_or(|work| work.context != context));
    }

    /// Returns what is over because work of a stream, called at host ns `called`, had started by the time `by`.
    pub fn started(&mut self, stream: (u32, u64), called: u64, by: i64) -> Vec<Drained> {
        let mut over = Vec::new();
        // Few programs have any.
        if !self.waits.is_empty() {
            self.passed(stream, called, by, &mut over);
            self.follow(&mut over);
        }
        over
    }

    /// Adds to the work that is over what its streams had waited for, and so on.
    pub fn follow(&mut self, over: &mut Vec<Drained>) {
        let mut next = 0;
        while let Some(Drained { context, stream, issued_before, by }) = over.get(next).copied() {
            next += 1;
            if let Some(stream) = stream {
                self.passed((context, stream), issued_before, by, over);
                continue;
            }
            let of_context = self.waits.keys().filter(|(of, _)| *of == context);
            let mut streams: Vec<(u32, u64)> = of_context.copied().collect();
            // So that the result is the same each time.
            streams.sort_unstable();
            streams.into_iter().for_each(|stream| self.passed(stream, issued_before, by, over));
        }
    }

    /// Takes the waits of a stream whose calls had returned by host ns `until`, and which were over by the time
    /// `by`; adds what they waited for.
    fn passed(&mut self, stream: (u32, u64), until: u64, by: i64, over: &mut Vec<Drained>) {
        let Some(waits) = self.waits.get_mut(&stream) else { return };
        for Wait { work: Issued { context, stream, before }, .. } in
            waits.extract_if(.., |wait| wait.returned <= until)
        {
            over.push(Drained { context, stream: Some(stream), issued_before: before, by });
        }
        if waits.is_empty() {
            self.waits.remove(&stream);
        }
    }
}

/// Whether a stream records an event, or waits for one, when the call returns, and is known.
fn is_effective(op: &EventOp) -> bool {
    op.call.context != 0 && op.call.flags & (flag::FAILED | flag::CAPTURED) == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::record::Call;

    const DESTROY: u16 = 5;
    const EVENT: u64 = 0xe0;

    fn events() -> Events {
        let name = ((Namespace::Api, DESTROY.into()), "cuEventDestroy_v2".to_owned());
        Events::new(&Names([name].into_iter().collect()))
    }

    /// A call on a stream of context 1 about the event, which takes 10 ns.
    fn op(stream: u64, begin: u64, flags: u16) -> EventOp {
        let call = Call { begin, end: begin + 10, context: 1, flags, ..Call::default() };
        EventOp { call, stream, event: EVENT, event_flags: 0 }
    }

    fn drained(stream: u64, issued_before: u64, by: i64) -> Drained {
        Drained { context: 1, stream: Some(stream), issued_before, by }
    }

    #[test]
    fn an_event_is_about_the_stream_that_recorded_it_last() {
        let mut events = events();
        assert_eq!(events.before(EVENT, 500), None, "never recorded");
        events.recorded(&op(7, 100, 0));
        events.recorded(&op(8, 200, 0));
        assert_eq!(events.before(EVENT, 210), Some(Issued { context: 1, stream: 8, before: 200 }));
        assert_eq!(events.before(EVENT, 205), None, "the record had not returned");
    }

    #[test]
    fn an_event_that_two_threads_record_at_once_says_nothing_until_it_is_recorded_again() {
        let mut events = events();
        events.recorded(&op(7, 100, 0));
        events.recorded(&op(8, 105, 0));
        events.recorded(&op(9, 112, 0));
        assert_eq!(events.before(EVENT, 500), None, "each may be the last one");
        events.recorded(&op(7, 130, 0));
        assert_eq!(events.before(EVENT, 500).map(|work| work.stream), Some(7));
    }

    #[test]
    fn an_event_that_is_gone_or_captured_says_nothing() {
        let destroyed = |result| {
            let call = Call { api: DESTROY, begin: 120, end: 125, ..Call::default() };
            let mut events = events();
            events.recorded(&op(7, 100, 0));
            events.called(&Api { call, result, subject: EVENT, calls: 1, inside: 0, entered: 0 });
            events.before(EVENT, 500)
        };
        assert!(destroyed(0).is_none() && destroyed(1).is_some());
        let mut events = events();
        events.recorded(&op(7, 100, 0));
        events.stream_waits(&op(9, 110, flag::CAPTURED));
        assert_eq!(events.started((1, 9), 500, 600), [], "the wait is a node of a graph");
        events.recorded(&op(7, 120, flag::CAPTURED));
        assert_eq!(events.before(EVENT, 500), None);
    }

    #[test]
    fn work_that_starts_after_a_wait_shows_that_what_it_waited_for_is_over() {
        let mut events = events();
        events.recorded(&op(8, 100, 0));
        events.stream_waits(&op(7, 120, 0));
        assert_eq!(events.started((1, 7), 125, 300), [], "called before the wait had returned");
        assert_eq!(events.started((1, 9), 400, 400), [], "on another stream");
        assert_eq!(events.started((1, 7), 130, 310), [drained(8, 100, 310)]);
        assert_eq!(events.started((1, 7), 400, 410), [], "once is enough");
        assert!(events.waits.is_empty());
    }

    #[test]
    fn waits_are_followed_from_stream_to_stream() {
        let mut events = events();
        for (from, to, at) in [(8, 9, 100), (9, 10, 140), (7, 10, 180)] {
            events.recorded(&op(from, at, 0));
            events.stream_waits(&op(to, at + 20, 0));
        }
        let mut over = vec![drained(10, 190, 500)];
        events.follow(&mut over);
        // Stream 9 recorded the event after its own wait had returned, and stream 10's last wait was not over.
        assert_eq!(over, [drained(10, 190, 500), drained(9, 140, 500), drained(8, 100, 500)]);
        let mut all = vec![Drained { stream: None, ..drained(0, 600, 700) }];
        events.follow(&mut all);
        assert_eq!(all[1..], [drained(7, 180, 700)]);
    }

    #[test]
    fn of_many_waits_the_last_ones_are_kept() {
        let mut events = events();
        for n in 0..MOST_WAITS as u64 + 5 {
            events.recorded(&op(8, n * 100, 0));
            events.stream_waits(&op(7, n * 100 + 20, 0));
        }
        let over = events.started((1, 7), u64::MAX, 9);
        assert_eq!((over.len(), over[0].issued_before), (MOST_WAITS, 500));
    }
}
