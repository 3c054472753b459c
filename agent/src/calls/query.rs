//! How are queries of completion recorded? A program that waits by polling makes them without end.

use gpuspy_wire::record::Kind;

use crate::calls::{record_call, record_flagged, stream_of};
use crate::cuda::*;
use crate::gpu::stream::{Stream, Streams};
use crate::hook::{Entry, Layer};
use crate::thread::{self, Call};

/// The subject of a query.
pub enum Query {
    /// An event.
    Event(CUevent),
    /// A stream.
    Stream(CUstream),
}

impl Query {
    /// The stream, and the number of its entries that are complete if the query succeeds.
    fn entries(&self, call: &Call) -> Option<(&'static Stream, u64)> {
        match *self {
            Query::Event(event) => call.session.get::<Streams>().recorded_at(event),
            Query::Stream(stream) => {
                // Relaxed: a lower bound.
                stream_of(call, stream).map(|stream| (stream, stream.entries.submitted()))
            }
        }
    }

    fn subject(&self) -> u64 {
        let (Query::Event(handle) | Query::Stream(handle)) = *self;
        handle as u64
    }
}

/// Intercepts a query. Consecutive queries of a thread become one record, which is written when anything else
/// is recorded.
#[inline]
pub fn query(entry: Entry, what: impl FnOnce() -> Query, real: impl FnOnce() -> CUresult) -> CUresult {
    let Some(call) = thread::enter(&entry) else { return real() };
    let what = what();
    let is_driver = call.layer == Layer::Driver;
    let entries = if is_driver { what.entries(&call) } else { None };
    if let Some(context) = entries.and_then(|(stream, _)| stream.context()) {
        call.queries_context(context.number);
    }
    let (result, before, end) = call.real(real);
    if result == CUDA_SUCCESS
        && let Some((stream, entries)) = entries
    {
        stream.entries.observe_complete(entries);
    }
    // A query inside a runtime's query is the same one.
    if call.is_outermost() {
        // The runtime's first call initializes it, which has made records of the call. The query is their last then: among those
        // that share a record it would be counted twice.
        let has_records = !is_driver && call.was_recorded(Kind::Api);
        match result {
            CUDA_SUCCESS | CUDA_ERROR_NOT_READY if has_records => {
                record_flagged(&call, 0, result, what.subject(), before);
            }
            CUDA_SUCCESS | CUDA_ERROR_NOT_READY => call.queried(what.subject(), result, end),
            _ => record_call(&call, result, what.subject(), before),
        }
    }
    call.leave(before, end);
    result
}
