//! The trace file: what was collected, on disk.
//!
//! [`TraceWriter`] appends self-contained chunks, [`TraceReader`] streams them back in order of time. How the bytes lie
//! is told in [`mod@format`], how a record becomes a few of them in [`coding`], and [`columns`] packs those. A file that
//! was cut or damaged is read as far as its whole chunks go, and [`Damage`] says what is missing. What reading takes is bounded
//! by the file's size (`limits.rs`).
//!
//! [`generator`] makes records of a training-like program whose truth is known, for tests and benchmarks.

pub mod coding;
pub mod columns;
pub mod format;
pub mod generator;
mod index;
mod limits;
mod meta;
mod pending;
mod reader;
pub mod record;
mod writer;

pub use index::{Damage, TraceError};
pub use meta::Summary;
pub use reader::{Records, TraceReader, read_bytes, wait_until_complete};
pub use writer::{FLUSH_INTERVAL, TraceWriter};
