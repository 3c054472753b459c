//! How is a recorded session stored in a file, and read back?
//!
//! [`TraceWriter`] appends self-contained chunks; [`TraceReader`] streams their records back in order of time.
//! [`mod@format`] specifies the bytes of a file, [`coding`] how a record becomes columns, and [`columns`] how columns
//! are packed. Of a file that was cut or damaged, all whole chunks are read, and [`Damage`] says what is missing. The
//! time and memory that reading takes are bounded by the file's size (`limits.rs`). Traces of successive windows of a process are
//! read as one (`windows.rs`).
//!
//! [`generator`] makes records of a training-like program whose truth is known, for tests and benchmarks.
#![forbid(unsafe_code)]

pub mod coding;
pub mod columns;
pub mod format;
pub mod generator;
mod hang;
mod index;
mod limits;
mod lost;
mod meta;
mod pending;
mod reader;
pub mod record;
pub mod rounding;
mod windows;
mod writer;

pub use index::{Damage, TraceError};
pub use lost::LostTime;
pub use meta::Summary;
pub use reader::{Records, TraceReader, batch, read_bytes, wait_until_complete};
pub use windows::Files;
pub use writer::{FLUSH_INTERVAL, Missing, PRIVATE, TraceWriter};
