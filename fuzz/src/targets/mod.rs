//! The targets.

mod program_files;
mod records;
#[path = "../../../wire/tests/common/segment_bytes.rs"]
mod segment_bytes;
mod session;
mod texts;
mod trace;

pub use program_files::program_files;
pub use records::{line_tables, records};
pub use session::{handshake, session};
pub use texts::{filters, names};
pub use trace::{report, trace};

/// Reads a process's segment, as the collector drains it.
pub fn segment(input: &[u8]) {
    let outcome = segment_bytes::read(input);
    assert!(outcome.decoded <= outcome.records);
}
