//! The collecting side of gpuspy as a library: it receives, stores, interprets and reports what the agent records.
//!
//! Dependencies point one way: `trace ← model ← analyze ← diagnose ← report ← export ← cli`, `collect` writes what `trace` reads,
//! and `symbols` reads the program's files for `cli`. ARCHITECTURE.md describes each folder.
#![deny(missing_docs)]

mod ahead;
pub mod analyze;
pub mod cli;
pub mod collect;
pub mod diagnose;
pub mod export;
pub mod harmless;
pub mod hash;
pub mod model;
pub mod report;
pub mod symbols;
pub mod trace;
pub mod units;
mod why;
