//! What do gpuspy's two halves say to each other? The agent writes into shared memory, and the collector
//! reads it; this crate is the contract between them. `README.md` gives an overview.
//!
//! There are four parts, each in its own module:
//!
//! - [`record`]: what one record means, byte by byte. Records have a fixed width and a version; unknown kinds
//!   can be skipped.
//! - [`ring`]: how records travel. Each thread has one single-producer single-consumer ring; its contract is
//!   a list of numbered rules.
//! - [`in_progress`]: which call each thread is in, since a call's record comes when it returns.
//! - [`segment`]: where everything is in the one shared memory object of a process, readable after the
//!   process's death.
//!
//! Both halves also share definitions: [`build_id`] (which file an object was loaded from), [`pace`] (how timing slows down the work that is timed),
//! [`capture_range`], [`communication`], [`duration`], [`program_files`] and [`switch`] (which values of a variable mean off).
//!
//! All times in records are **host clock ticks** (of the TSC, of CNTVCT, or `CLOCK_MONOTONIC_RAW`
//! nanoseconds: the segment header says which); the collector converts them to nanoseconds with the anchors
//! it receives. The agent never divides. GPU times are nanoseconds on the clock of their context.
#![no_std]
#![deny(missing_docs)]

pub mod build_id;
pub mod capture_range;
pub mod communication;
pub mod duration;
pub mod handshake;
pub mod in_progress;
pub mod pace;
pub mod program_files;
pub mod record;
pub mod ring;
pub mod segment;
pub mod switch;

/// First four bytes of a trace. A file with these alone is one that a process has taken for its trace, and that its collector is
/// about to write.
pub const TRACE_MAGIC: [u8; 4] = *b"GSPY";
