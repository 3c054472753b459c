//! Waiting, and the events that order streams.

use core::cell::Cell;
use core::sync::atomic::Ordering;
use gpuspy_wire::record::{self, Head, Kind, SyncScope};

use crate::calls::{Plain, current_context, is_captured, stream_of};
use crate::cuda::*;
use crate::gpu::stream::Stream;
use crate::gpu::timing::Passage;
use crate::thread::Call;

/// The host waits.
pub struct Sync {
    scope: SyncScope,
    stream: Option<CUstream>,
    event: CUevent,
    /// A stream and its entries that are complete when the call has returned.
    waited: Cell<Option<(&'static Stream, u64)>>,
}

impl Sync {
    /// A wait for everything.
    pub fn of(scope: SyncScope) -> Sync {
        Sync { scope, stream: None, event: core::ptr::null_mut(), waited: Cell::new(None) }
    }

    /// For a stream.
    pub fn on(self, stream: CUstream) -> Sync {
        Sync { stream: Some(stream), ..self }
    }

    /// For an event.
    pub fn event(self, event: CUevent) -> Sync {
        Sync { event, ..self }
    }
}

impl Plain for Sync {
    fn kind(&self) -> Kind {
        Kind::Synchronize
    }

    fn before(&self, call: &Call) {
        let stream = self.stream.and_then(|s| stream_of(call, s));
        let entries = stream.map(|s| (s, s.submitted.load(Ordering::Relaxed)));
        self.waited.set(entries.or_else(|| call.session.streams.marked(self.event)));
    }

    fn after(&self, call: &Call, end: u64) -> bool {
        let stream = self.stream.and_then(|s| stream_of(call, s));
        if let Some((stream, entries)) = self.waited.get() {
            stream.seen(entries);
        }
        let mut record = record::Synchronize {
            head: call.head::<record::Synchronize>(record::flag::BLOCKING | stream.map_or(0, Stream::flags)),
            correlation: call.correlation,
            begin: call.begin,
            end,
            caller: call.caller,
            context: stream.and_then(Stream::context).map_or_else(|| current_context(call), |c| c.number),
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

/// An event recorded, or waited for by a stream.
pub struct EventOp {
    kind: Kind,
    event: CUevent,
    flags: u32,
    stream: CUstream,
    /// From before the call to after it.
    passage: Cell<Option<Passage>>,
}

impl EventOp {
    /// A record.
    pub fn record(event: CUevent, flags: u32) -> EventOp {
        EventOp {
            kind: Kind::EventRecord,
            event,
            flags,
            stream: core::ptr::null_mut(),
            passage: Cell::new(None),
        }
    }

    /// A wait.
    pub fn wait(event: CUevent, flags: u32) -> EventOp {
        EventOp {
            kind: Kind::EventWait,
            event,
            flags,
            stream: core::ptr::null_mut(),
            passage: Cell::new(None),
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
        if let Some(stream) = stream_of(call, self.stream) {
            self.passage.set(Some(Passage::begin(stream)));
        }
    }

    fn failed(&self, _: &Call) {
        self.passage.take().map(Passage::end);
    }

    fn after(&self, call: &Call, end: u64) -> bool {
        self.passage.take().map(Passage::end);
        let stream = stream_of(call, self.stream);
        if let Some(stream) = stream.filter(|s| !is_captured(call, s.handle())) {
            // An entry of the stream's queue like any other. Relaxed: a bound.
            let position = stream.submitted.fetch_add(1, Ordering::Relaxed) + 1;
            if self.kind == Kind::EventRecord {
                call.session.streams.mark(self.event, stream, position);
            }
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
