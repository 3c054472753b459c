//! GPU time: an event before and one after each operation, read later by the poller.
//!
//! - [`context`]: contexts and their pools of events;
//! - [`stream`]: streams, and the operations on them whose events are not read yet;
//! - [`timing`]: the pair around one call;
//! - [`nodes`]: the events inside graphs;
//! - [`poller`]: the thread that reads events and turns them into [`gpuspy_wire::record::GpuTime`].

pub mod context;
pub mod nodes;
pub mod poller;
pub mod stream;
pub mod timing;
