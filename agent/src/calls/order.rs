//! How are waits recorded, and the events that order streams?

use core::cell::Cell;
use gpuspy_wire::record::{self, Head, Kind, SyncScope};

use crate::calls::{Plain, stack_of, stream_of};
use crate::cuda::*;
use crate::driver;
use crate::gpu::burst::{self, Next};
use crate::gpu::context::Contexts;
use crate::gpu::depth::{Entries, Queue};
use crate::gpu::overlap::OverlapCheck;
use crate::gpu::stream::{Stream, Streams};
use crate::gpu::stream_capture::{is_any_open, is_captured};
use crate::python::Depth;
use crate::sink::Session;
use crate::thread::Call;

/// A call by which the host waits.
pub struct Sync {
    scope: SyncScope,
    stream: Option<CUstream>,
    event: CUevent,
    /// The context whose work is waited for; null: the current one.
    context: CUcontext,
    /// Streams, and how many of their entries are complete when the call has returned: the stream that is
    /// waited for or, for a wait for everything, some deep streams.
    waited: Cell<[Option<HowFar>; WAITED]>,
}

/// A stream and a number of its entries.
type HowFar = (&'static Stream, u64);
/// The number of streams that one wait can give information about.
const WAITED: usize = 8;

impl Sync {
    /// A wait for everything in a scope.
    pub fn of(scope: SyncScope) -> Sync {
        let (event, context) = (core::ptr::null_mut(), core::ptr::null_mut());
        Sync { scope, stream: None, event, context, waited: Cell::new([None; WAITED]) }
    }

    /// A wait for a stream.
    pub fn on(self, stream: CUstream) -> Sync {
        Sync { stream: Some(stream), ..self }
    }

    /// A wait for everything on this context.
    pub fn of_context(context: CUcontext) -> Sync {
        Sync { context, ..Sync::of(SyncScope::Context) }
    }

    /// A wait for an event.
    pub fn event(self, event: CUevent) -> Sync {
        Sync { event, ..self }
    }
}

impl Sync {
    /// Returns which entries will be complete when the call returns.
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
                *first = stream.map(now).or_else(|| streams.recorded_at(self.event));
            }
        }
        waited
    }
}

impl Sync {
    /// Returns the number of the context whose work is waited for, and whether it is only that of a green context, which stands for its
    /// primary context: a wait for a green context leaves others at work (cuda.h, cuCtxSynchronize).
    fn context(&self, call: &Call) -> (u32, bool) {
        let Some(driver) = driver::driver() else { return (0, false) };
        let handle = if self.context.is_null() { driver.current_context() } else { self.context };
        let contexts = call.session.get::<Contexts>();
        let context = contexts.get(call, driver, handle);
        (context.map_or(0, |context| context.number), contexts.greens.primary(handle).is_some())
    }

    fn end_bursts(&self, call: &Call, stream: Option<&'static Stream>, next: Next) {
        match (stream, self.scope) {
            (Some(stream), _) => burst::end_on(call, stream, next),
            (None, SyncScope::Device | SyncScope::Context) if next == Next::Wait => {
                burst::end_own(call, Next::WaitForAll);
            }
            (None, SyncScope::Device | SyncScope::Context) => burst::end_own(call, next),
            (None, SyncScope::Stream | SyncScope::Event | SyncScope::GreenContext) => {}
        }
    }
}

impl Plain for Sync {
    fn kind(&self) -> Kind {
        Kind::Synchronize
    }

    fn before(&self, call: &Call) {
        let stream = self.stream.and_then(|s| stream_of(call, s));
        // What is waited for is complete afterwards, so the burst's end event cannot overlap anything. The
        // burst on an event's stream was ended when the event was recorded.
        self.end_bursts(call, stream, Next::Wait);
        self.waited.set(self.entries(call, stream));
    }

    fn after(&self, call: &Call, end: u64) -> bool {
        let stream = self.stream.and_then(|s| stream_of(call, s));
        for (stream, entries) in self.waited.get().into_iter().flatten() {
            stream.entries.observe_complete(entries);
        }
        // A burst that got no end event before the call, so as not to hold up other streams, is over now.
        self.end_bursts(call, stream, Next::Nothing);
        // A wait for a stream need not ask which context is current.
        let of_stream = stream.and_then(Stream::context).map(|context| (context.number, false));
        let (context, is_green) = of_stream.unwrap_or_else(|| self.context(call));
        let mut record = record::Synchronize {
            head: call.head::<record::Synchronize>(record::flag::BLOCKING | stream.map_or(0, Stream::flags)),
            correlation: call.correlation,
            begin: call.begin,
            end,
            caller: call.caller,
            context,
            stream: stream.map_or(0, Stream::id),
            event: self.event as u64,
            ..Default::default()
        };
        let is_of_all = matches!(self.scope, SyncScope::Device | SyncScope::Context);
        record.scope = if is_of_all && is_green { SyncScope::GreenContext } else { self.scope } as u8;
        record.stack = stack_of(call, Depth::Whole);
        call.record(&record);
        true
    }

    fn subject(&self) -> u64 {
        self.event as u64
    }
}

/// The overlap check of an operation that takes a place on a stream and is not timed: it may still come
/// between another thread's two events.
#[derive(Default)]
pub struct Untimed {
    /// While the real call is under way: the stream, and the check.
    overlap: Cell<Option<(&'static Stream, OverlapCheck)>>,
}

impl Untimed {
    /// Ends the stream's burst and starts the overlap check, before the real call.
    pub fn begin(&self, call: &Call, stream: CUstream) {
        let Some(stream) = stream_of(call, stream) else { return };
        burst::end_on(call, stream, Next::Work);
        self.begin_on(call.session, stream);
    }

    /// Starts the overlap check before the real call, on a thread that can record nothing.
    pub fn begin_unrecorded(&self, session: Session, stream: CUstream, per_thread: bool) {
        if let Some(stream) = session.get::<Streams>().at_once(stream, per_thread) {
            self.begin_on(session, stream);
        }
    }

    fn begin_on(&self, session: Session, stream: &'static Stream) {
        // A wait for an event can make the stream part of a capture, which only its end shows.
        let is_maybe_captured = is_any_open(session);
        let counts = if is_maybe_captured { stream.counts_of_captured() } else { stream.counts() };
        self.overlap.set(Some((stream, OverlapCheck::begin(counts))));
    }

    /// Ends the overlap check after the real call, on a thread that can record nothing. Where nothing is captured, the
    /// operation is an entry of the stream's queue, which `add` counts.
    pub fn end_unrecorded(&self, session: Session, succeeded: bool, add: impl FnOnce(&Entries) -> u64) {
        if let Some((stream, _overlap)) = self.overlap.take()
            && succeeded
            && !is_any_open(session)
        {
            add(&stream.entries);
        }
    }

    /// Drops the overlap check after a real call that failed.
    pub fn failed(&self) {
        drop(self.overlap.take());
    }

    /// Ends the overlap check after a real call that succeeded. Outside a stream capture, the operation is an
    /// entry of the stream's queue, which `add` counts. Returns the stream and the entry's number, which is
    /// `None` in a stream capture.
    pub fn end(
        &self,
        call: &Call,
        stream: CUstream,
        add: impl FnOnce(&Entries) -> u64,
    ) -> Option<(&'static Stream, Option<u64>)> {
        let overlap = self.overlap.take();
        let stream = stream_of(call, stream)?;
        let is_entry = !is_captured(call, stream.handle());
        if is_entry {
            // The stream has work from now on.
            stream.counts();
        }
        drop(overlap);
        Some((stream, is_entry.then(|| add(&stream.entries))))
    }
}

/// A call that puts something onto a stream of which only the call is recorded: a host function, or a value
/// to wait for or to write.
pub struct Enqueue {
    stream: CUstream,
    untimed: Untimed,
    host_ends_it: bool,
}

impl Enqueue {
    /// An operation on a stream.
    pub fn on(stream: CUstream) -> Enqueue {
        Enqueue { stream, untimed: Untimed::default(), host_ends_it: false }
    }

    /// An operation on a stream that only the host can end.
    pub fn until_host(stream: CUstream) -> Enqueue {
        Enqueue { host_ends_it: true, ..Enqueue::on(stream) }
    }
}

impl Enqueue {
    fn add(&self, entries: &Entries) -> u64 {
        if self.host_ends_it { entries.add_host_wait() } else { entries.add() }
    }
}

impl Plain for Enqueue {
    const IS_ALWAYS_NOTED: bool = true;

    fn before(&self, call: &Call) {
        self.untimed.begin(call, self.stream);
    }

    fn after(&self, call: &Call, _: u64) -> bool {
        self.untimed.end(call, self.stream, |entries| self.add(entries));
        false
    }

    fn begins_unrecorded(&self, session: Session, per_thread: bool) {
        self.untimed.begin_unrecorded(session, self.stream, per_thread);
    }

    fn over_unrecorded(&self, session: Session, succeeded: bool) {
        self.untimed.end_unrecorded(session, succeeded, |entries| self.add(entries));
    }

    fn failed(&self, _: &Call) {
        self.untimed.failed();
    }

    fn subject(&self) -> u64 {
        self.stream as u64
    }
}

/// An event that is recorded on all streams of a context, or that all of them wait for.
pub struct ContextEvent {
    context: AllStreamsOf,
    event: CUevent,
    is_record: bool,
    /// The overlap checks on the context's streams: the operation may come between two events of ours on any
    /// of them.
    call_counts: Cell<Vec<OverlapCheck>>,
}

/// All streams of a context, or of a green context.
pub enum AllStreamsOf {
    /// By the CUcontext, which may stand for a green context.
    Context(CUcontext),
    /// By the green context's own handle.
    Green(CUgreenCtx),
}

impl ContextEvent {
    /// An event recorded on all streams.
    pub fn record(context: AllStreamsOf, event: CUevent) -> ContextEvent {
        ContextEvent { context, event, is_record: true, call_counts: Cell::default() }
    }

    /// An event that all streams wait for.
    pub fn wait(context: AllStreamsOf, event: CUevent) -> ContextEvent {
        ContextEvent { is_record: false, ..ContextEvent::record(context, event) }
    }

    /// The known streams. A CUcontext that stands for a green context means all streams of its primary
    /// context here, which are more than it has.
    fn streams(&self, call: &Call) -> Vec<&'static Stream> {
        let of = |handle| driver::driver().and_then(|d| call.session.get::<Contexts>().get(call, d, handle));
        let context = match self.context {
            AllStreamsOf::Context(handle) => of(handle),
            AllStreamsOf::Green(_) => None,
        };
        let is_of = |stream: &&Stream| match self.context {
            AllStreamsOf::Green(green) => stream.may_be_green(green),
            AllStreamsOf::Context(_) => {
                context.zip(stream.context()).is_some_and(|(of, its)| core::ptr::eq(of, its))
            }
        };
        call.session.get::<Streams>().iter().filter(|s| s.is_live()).filter(is_of).collect()
    }
}

impl Plain for ContextEvent {
    fn before(&self, call: &Call) {
        let streams = self.streams(call);
        streams.iter().for_each(|stream| burst::end_on(call, stream, Next::Work));
        self.call_counts
            .set(streams.into_iter().map(|stream| OverlapCheck::begin(stream.counts())).collect());
    }

    fn after(&self, call: &Call, _: u64) -> bool {
        self.call_counts.take();
        if self.is_record {
            call.session.get::<Streams>().forget_recorded(self.event);
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

/// An event that is recorded on a stream, or that a stream waits for.
pub struct EventOp {
    kind: Kind,
    event: CUevent,
    flags: u32,
    stream: CUstream,
    untimed: Untimed,
}

impl EventOp {
    /// A record of the event.
    pub fn record(event: CUevent, flags: u32) -> EventOp {
        EventOp {
            kind: Kind::EventRecord,
            event,
            flags,
            stream: core::ptr::null_mut(),
            untimed: Untimed::default(),
        }
    }

    /// A wait for the event.
    pub fn wait(event: CUevent, flags: u32) -> EventOp {
        EventOp {
            kind: Kind::EventWait,
            event,
            flags,
            stream: core::ptr::null_mut(),
            untimed: Untimed::default(),
        }
    }

    /// Sets the stream.
    pub fn on(self, stream: CUstream) -> EventOp {
        EventOp { stream, ..self }
    }
}

impl Plain for EventOp {
    const IS_ALWAYS_NOTED: bool = true;

    fn kind(&self) -> Kind {
        self.kind
    }

    fn before(&self, call: &Call) {
        self.untimed.begin(call, self.stream);
    }

    fn begins_unrecorded(&self, session: Session, per_thread: bool) {
        self.untimed.begin_unrecorded(session, self.stream, per_thread);
    }

    fn over_unrecorded(&self, session: Session, succeeded: bool) {
        self.untimed.end_unrecorded(session, succeeded, Entries::add);
        if self.kind == Kind::EventRecord {
            session.get::<Streams>().forget_recorded(self.event);
        }
    }

    fn failed(&self, _: &Call) {
        self.untimed.failed();
    }

    fn after(&self, call: &Call, end: u64) -> bool {
        let entry = self.untimed.end(call, self.stream, Entries::add);
        let stream = entry.map(|(stream, _)| stream);
        match (self.kind, entry) {
            (Kind::EventRecord, Some((stream, Some(position)))) => {
                call.session.get::<Streams>().note_recorded(self.event, stream, position);
            }
            // In a capture: the graph's launches record the event, on whatever stream they run.
            (Kind::EventRecord, _) => call.session.get::<Streams>().forget_recorded(self.event),
            _ => {}
        }
        let captured = if matches!(entry, Some((_, None))) { record::flag::CAPTURED } else { 0 };
        let head = call.head::<record::EventOp>(stream.map_or(0, Stream::flags) | captured);
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

/// A call that destroys an event, so that its handle may come back as another's, or that records it on
/// something other than a stream. Its completion then says nothing about the stream that it was recorded on
/// before.
pub struct ForgetEvent {
    /// The event.
    pub event: CUevent,
}

impl Plain for ForgetEvent {
    fn before(&self, call: &Call) {
        call.session.get::<Streams>().forget_recorded(self.event);
    }

    fn subject(&self) -> u64 {
        self.event as u64
    }
}
