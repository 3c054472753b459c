//! What does another tool read? A trace in that tool's format.
//!
//! Exports stream: a first pass over a trace learns its clocks and its rows, and a second one writes while it reads.
#![forbid(unsafe_code)]

pub mod chrome;
pub mod flame;
pub mod parquet;
pub mod perfetto;
pub mod queries;
pub mod timeline;
