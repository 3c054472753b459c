//! How long did each operation run on the GPU? An event is recorded before and after each operation, and the
//! poller reads both later.
//!
//! - [`context`] tracks contexts from creation to destruction; [`ending`] handles calls that may destroy one.
//! - [`green_context`] maps green contexts to their primary context.
//! - [`pool`] owns the events of a context.
//! - [`stream`] tracks streams and the operations on them whose events have not been read yet.
//! - [`overlap`] checks whether a call was alone on its stream.
//! - [`event_pairs`] records the pair of events around one call.
//! - [`depth`] estimates how many entries a stream holds and limits how densely events may be recorded on it.
//! - [`draw`] chooses the launches of a deep stream that are timed alone.
//! - [`burst`] times several launches together with one event pair; [`open_burst`] is a burst that has not ended.
//! - [`stream_capture`] tracks whether the app is capturing streams.
//! - [`budget`] decides whether to time at all, from the measured cost; [`capture_range`] applies `--capture-range`.
//! - [`poller`] reads events and turns them into [`gpuspy_wire::record::GpuTime`].
//! - [`query`] queries events during a launch, and stops all such calls when the driver is shutting down.
//! - [`time_base`] computes where on a context's clock an event lies.
//! - [`clock_sample`] samples the GPU clock.
//! - [`nodes`] reads the events inside graphs.

pub mod budget;
pub mod burst;
pub mod capture_range;
pub mod clock_sample;
pub mod context;
pub mod depth;
pub mod draw;
pub mod ending;
pub mod event_pairs;
pub mod green_context;
pub mod nodes;
pub mod open_burst;
pub mod overlap;
pub mod poller;
pub mod pool;
pub mod query;
pub mod stream;
pub mod stream_capture;
pub mod time_base;
