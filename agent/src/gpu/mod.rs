//! GPU time: an event before and one after each operation, read later by the poller.
//!
//! - [`context`]: contexts and their pools of events;
//! - [`stream`]: streams, and the operations on them whose events are not read yet;
//! - [`timing`]: the pair around one call;
//! - [`ending`]: calls that may be a context's end;
//! - [`chain`]: where on a context's clock an event lies;
//! - [`sample`]: what time it is on the GPU;
//! - [`poller`]: the thread that reads events and turns them into [`gpuspy_wire::record::GpuTime`].

pub mod chain;
pub mod context;
pub mod ending;
pub mod poller;
pub mod sample;
pub mod stream;
pub mod timing;
