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

/// How much exports are compressed. At this level it takes about as long as making what is compressed, which another thread does
/// meanwhile; the next ones take longer than they make it smaller.
pub const COMPRESSION: flate2::Compression = flate2::Compression::new(3);
