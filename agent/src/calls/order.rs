//! Waiting, and the events that order streams.

use core::cell::Cell;
use gpuspy_wire::record::{self, Head, Kind, SyncScope};

use crate::calls::{Plain, current_context, stream_of};
use crate::cuda::*;
use crate::driver;
use crate::gpu::burst::{self, Next};
use crate::gpu::capture::is_captured;
use crate::gpu::context::Contexts;
use crate::gpu::depth::{Entries, Queue};
use crate::gpu::overlap::OverlapCheck;
use crate::gpu::stream::{Stream, Streams};
use crate::thread::Call;

/// The host waits.
pub struct Sync {
    scope: SyncScope,
    stream: Option<CUstream>,
    event: CUevent,
    /// Whose everything; null: the current one's.
    context: CUcontext,
    /// Streams, and their entries that are complete when the call has returned: the one that is waited for, or, of a wait
    /// for everything, some that are deep.
    waited: Cell<[Option<HowFar>; WAITED]>,
}

/// A stream, and how many entries it had.
type HowFar = (&'static Stream, u64);
/// Streams that one wait tells about.
const WAITED: usize = 8;

impl Sync {
    /// A wait for everything.
    pub fn of(scope: SyncScope) -> Sync {
        let (event, context) = (core::ptr::null_mut(), core::ptr::null_mut());
        Sync { scope, stream: None, event, context, waited: Cell::new([None; WAITED]) }
    }

    /// For a stream.
    pub fn on(self, stream: CUstream) -> Sync {
        Sync { stream: Some(stream), ..self }
    }

    /// For everything of this context.
    pub fn of_context(context: CUcontext) -> Sync {
        Sync { context, ..Sync::of(SyncScope::Context) }
    }

    /// For an event.
    pub fn event(self, event: CUevent) -> Sync {
        Sync { event, ..self }
    }
}

impl Sync {
    /// What will be complete.
    fn entries(&self, call: &Call, stream: Option<&'static Stream>) -> [Option<HowFar>; WAITED] {
        let now = |s: &'static Stream| (s, s.entries.submitted());
        let mut waited = [None; WAITED];
        let streams = call.session.get::<Streams>();
        match (stream, self.scope) {
            (None, SyncScope::Device | SyncScope::Context) => {
                let current = || driver::driver().map_or(0, |d| d.current_context() as u64);
                let whose = if self.context.is_null() { current() } else { self.context as u64 };
                let is_its = |s: &&Stream| s.context().is_some_and(|c| c.handle == whose);
                let deep = streams
                    .iter()
                    .filter(|s| s.is_live() && s.entries.is_deep(*call.session.get::<Queue>()) && is_its(s));
                waited.iter_mut().zip(deep).for_each(|(place, stream)| *place = Some(now(stream)));
            }
            (stream, _) => {
                let [first, ..] = &mut waited;
                *first = stream.map(now).or_else(|| streams.marked(self.event));
            }
        }
        waited
    }
}

impl Sync {
    fn end_bursts(&self, call: &Call, stream: Option<&'static Stream>, next: Next) {
        match (stream, self.scope) {
            (Some(stream), _) => burst::end_on(call, stream, next),
            (None, SyncScope::Device | SyncScope::Context) => burst::end_own(call, next),
            (None, SyncScope::Stream | SyncScope::Event) => {}
        }
    }
}

impl Plain for Sync {
    fn kind(&self) -> Kind {
        Kind::Synchronize
    }

    fn before(&self, call: &Call) {
        let stream = self.stream.and_then(|s| stream_of(call, s));
        // What is waited for is complete afterwards: nothing is left to overlap. An event's stream had its burst ended
        // when the event was recorded.
        self.end_bursts(call, stream, Next::Wait);
        self.waited.set(self.entries(call, stream));
    }

    fn after(&self, call: &Call, end: u64) -> bool {
        let stream = self.stream.and_then(|s| stream_of(call, s));
        for (stream, entries) in self.waited.get().into_iter().flatten() {
            stream.entries.seen(entries);
        }
        // What got no end event before, lest it hold up other streams, is over.
        self.end_bursts(call, stream, Next::Call);
        let whose = || match driver::driver() {
            Some(driver) if !self.context.is_null() => {
                call.session.get::<Contexts>().get(call, driver, self.context).map_or(0, |c| c.number)
            }
            _ => current_context(call),
        };
        let mut record = record::Synchronize {
            head: call.head::<record::Synchronize>(record::flag::BLOCKING | stream.map_or(0, Stream::flags)),
            correlation: call.correlation,
            begin: call.begin,
            end,
            caller: call.caller,
            context: stream.and_then(Stream::context).map_or_else(whose, |c| c.number),
            stream: stream.map_or(0, Stream::id),
            event: self.event as u64,
            ..Default::default()
        };
        record.scope = self.scope as u8;
        call.record(&record);
        true
    }

    fn subject(&self) -> u64 {
        self.event as u64
    }
}

/// The way through a stream of something that takes a place on it and is not timed: between another thread's two events
/// it may lie all the same.
#[derive(Default)]
pub struct Untimed {
    overlap: Cell<Option<OverlapCheck>>,
}

impl Untimed {
    /// Before the real call.
    pub fn begin(&self, call: &Call, stream: CUstream) {
        let Some(stream) = stream_of(call, stream) else { return };
        burst::end_on(call, stream, Next::Call);
        self.overlap.set(Some(OverlapCheck::begin(stream.lines())));
    }

    /// After one that failed.
    pub fn failed(&self) {
        drop(self.overlap.take());
    }

    /// After one that succeeded: outside a capture it is an entry of the stream's queue, which `add` counts. Returns the
    /// stream, and the entry's number; in a capture none.
    pub fn end(
        &self,
        call: &Call,
        stream: CUstream,
        add: impl FnOnce(&Entries) -> u64,
    ) -> Option<(&'static Stream, Option<u64>)> {
        drop(self.overlap.take());
        let stream = stream_of(call, stream)?;
        let is_entry = !is_captured(call, stream.handle());
        Some((stream, is_entry.then(|| add(&stream.entries))))
    }
}

/// A call that puts something onto a stream of which only the call is recorded: a host function, a value waited for or
/// written.
pub struct Enqueue {
    stream: CUstream,
    untimed: Untimed,
    is_gate: bool,
}

impl Enqueue {
    /// On a stream.
    pub fn on(stream: CUstream) -> Enqueue {
        Enqueue { stream, untimed: Untimed::default(), is_gate: false }
    }

    /// The same, and what comes behind it waits for the host.
    pub fn gate(stream: CUstream) -> Enqueue {
        Enqueue { is_gate: true, ..Enqueue::on(stream) }
    }
}

impl Plain for Enqueue {
    fn before(&self, call: &Call) {
        self.untimed.begin(call, self.stream);
    }

    fn after(&self, call: &Call, _: u64) -> bool {
        self.untimed.end(call, self.stream, if self.is_gate { Entries::add_gate } else { Entries::add });
        false
    }

    fn failed(&self, _: &Call) {
        self.untimed.failed();
    }

    fn subject(&self) -> u64 {
        self.stream as u64
    }
}

/// An event that takes all of a context for its record, or that all of a context waits for.
pub struct ContextEvent {
    context: Whole,
    event: CUevent,
    is_record: bool,
    /// The ways through its streams: between two events of ours it may lie on any of them.
    call_counts: Cell<Vec<OverlapCheck>>,
}

/// All streams of a context, or of a green one.
pub enum Whole {
    /// By what stands for it.
    Context(CUcontext),
    /// By itself.
    Green(CUgreenCtx),
}

impl ContextEvent {
    /// A record.
    pub fn record(context: Whole, event: CUevent) -> ContextEvent {
        ContextEvent { context, event, is_record: true, call_counts: Cell::default() }
    }

    /// A wait.
    pub fn wait(context: Whole, event: CUevent) -> ContextEvent {
        ContextEvent { is_record: false, ..ContextEvent::record(context, event) }
    }

    /// The streams that we know. What stands for a green context means all of its primary one here, which is more.
    fn streams(&self, call: &Call) -> Vec<&'static Stream> {
        let of = |handle| driver::driver().and_then(|d| call.session.get::<Contexts>().get(call, d, handle));
        let context = match self.context {
            Whole::Context(handle) => of(handle),
            Whole::Green(_) => None,
        };
        let is_of = |stream: &&Stream| match self.context {
            Whole::Green(green) => stream.may_be_green(green),
            Whole::Context(_) => {
                context.zip(stream.context()).is_some_and(|(of, its)| core::ptr::eq(of, its))
            }
        };
        call.session.get::<Streams>().iter().filter(|s| s.is_live()).filter(is_of).collect()
    }
}

impl Plain for ContextEvent {
    fn before(&self, call: &Call) {
        let streams = self.streams(call);
        streams.iter().for_each(|stream| burst::end_on(call, stream, Next::Call));
        self.call_counts.set(streams.into_iter().map(|stream| OverlapCheck::begin(stream.lines())).collect());
    }

    fn after(&self, call: &Call, _: u64) -> bool {
        self.call_counts.take();
        if self.is_record {
            call.session.get::<Streams>().unmark(self.event);
        }
        false
    }

    fn failed(&self, _: &Call) {
        self.call_counts.take();
    }

    fn subject(&self) -> u64 {
        self.event as u64
    }
}

/// An event recorded, or waited for by a stream.
pub struct EventOp {
    kind: Kind,
    event: CUevent,
    flags: u32,
    stream: CUstream,
    untimed: Untimed,
}

impl EventOp {
    /// A record.
    pub fn record(event: CUevent, flags: u32) -> EventOp {
        EventOp {
            kind: Kind::EventRecord,
            event,
            flags,
            stream: core::ptr::null_mut(),
            untimed: Untimed::default(),
        }
    }

    /// A wait.
    pub fn wait(event: CUevent, flags: u32) -> EventOp {
        EventOp {
            kind: Kind::EventWait,
            event,
            flags,
            stream: core::ptr::null_mut(),
            untimed: Untimed::default(),
        }
    }

    /// On a stream.
    pub fn on(self, stream: CUstream) -> EventOp {
        EventOp { stream, ..self }
    }
}

impl Plain for EventOp {
    fn kind(&self) -> Kind {
        self.kind
    }

    fn before(&self, call: &Call) {
        self.untimed.begin(call, self.stream);
    }

    fn failed(&self, _: &Call) {
        self.untimed.failed();
    }

    fn after(&self, call: &Call, end: u64) -> bool {
        let entry = self.untimed.end(call, self.stream, Entries::add);
        let stream = entry.map(|(stream, _)| stream);
        match (self.kind, entry) {
            (Kind::EventRecord, Some((stream, Some(position)))) => {
                call.session.get::<Streams>().mark(self.event, stream, position);
            }
            // Recorded by a launch of the graph, on whatever stream.
            (Kind::EventRecord, _) => call.session.get::<Streams>().unmark(self.event),
            _ => {}
        }
        let head = call.head::<record::EventOp>(stream.map_or(0, Stream::flags));
        call.record(&record::EventOp {
            head: Head { kind: self.kind as u8, ..head },
            correlation: call.correlation,
            begin: call.begin,
            end,
            caller: call.caller,
            context: stream.and_then(Stream::context).map_or(0, |c| c.number),
            event_flags: self.flags,
            stream: stream.map_or(0, Stream::id),
            event: self.event as u64,
        });
        true
    }

    fn subject(&self) -> u64 {
        self.event as u64
    }
}

/// An event that is destroyed, so that its handle may come back as another's, or recorded on something else than a stream:
/// that it is complete says nothing of the stream that it was recorded on before.
pub struct Unmarked {
    /// The event.
    pub event: CUevent,
}

impl Plain for Unmarked {
    fn before(&self, call: &Call) {
        call.session.get::<Streams>().unmark(self.event);
    }

    fn subject(&self) -> u64 {
        self.event as u64
    }
}
