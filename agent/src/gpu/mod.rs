//! GPU time: an event before and one after each operation, read later by the poller.
//!
//! - [`context`]: contexts, from their coming to their going; [`ending`] is about calls that may be that;
//! - [`green`]: those that are a part of another;
//! - [`pool`]: the events of one;
//! - [`stream`]: streams, and the operations on them whose events are not read yet;
//! - [`overlap`]: whether a call was alone on its stream;
//! - [`event_pairs`]: the pair around one call;
//! - [`depth`]: how deep a stream is, and how dense events may stand on it;
//! - [`draw`]: which launches of a deep stream are timed alone;
//! - [`burst`]: the pair around launches that are timed together; [`open_burst`]: one that has not ended;
//! - [`capture`]: whether the app is capturing streams;
//! - [`budget`]: whether to time at all, by what it may cost; [`range`]: and whether to look at all;
//! - [`poller`]: the thread that reads events and turns them into [`gpuspy_wire::record::GpuTime`];
//! - [`time_base`]: where on a context's clock an event lies;
//! - [`sample`]: what time it is on the GPU;
//! - [`nodes`]: the events inside graphs.

pub mod budget;
pub mod burst;
pub mod capture;
pub mod context;
pub mod depth;
pub mod draw;
pub mod ending;
pub mod event_pairs;
pub mod green;
pub mod nodes;
pub mod open_burst;
pub mod overlap;
pub mod poller;
pub mod pool;
pub mod range;
pub mod sample;
pub mod stream;
pub mod time_base;
