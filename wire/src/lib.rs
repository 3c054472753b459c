//! The contract between gpuspy's two halves: what the agent writes into shared memory and the collector reads.
//!
//! Three layers, each in its own module:
//!
//! - [`record`]: what one record means, byte by byte. Fixed-width, versioned; unknown kinds can be skipped.
//! - [`ring`]: how records travel: one single-producer single-consumer ring per thread. Its contract is numbered prose.
//! - [`segment`]: where everything lies in the one shared memory object of a process, readable after its death.
//!
//! And one definition that both use, [`pace`]: what timing costs the work that is timed.
//!
//! All times in records are **host clock ticks** (the TSC, CNTVCT, or `CLOCK_MONOTONIC_RAW` nanoseconds: the segment
//! header says which); the collector turns them into nanoseconds with the anchors it is given. The agent never
//! divides. GPU times are nanoseconds on the clock of their context.
#![no_std]
#![deny(missing_docs)]

pub mod capture;
pub mod communication;
pub mod duration;
pub mod handshake;
pub mod pace;
pub mod record;
pub mod ring;
pub mod segment;
