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

/// How much exports are compressed. Of 93 MB of JSON, level 1 made 13.7 MB in 0.20 s, this one 9.7 MB in 0.40 s, and the default 7.5 MB
/// in 0.90 s; what writes the JSON takes 0.3 s, on another thread.
pub const COMPRESSION: flate2::Compression = flate2::Compression::new(3);
