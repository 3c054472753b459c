//! The collecting side of gpuspy, as a library: receive, store, understand, tell.
//!
//! Dependencies point one way: `trace ← model ← analyze ← report, export ← main`, and `collect` writes what `trace`
//! reads. The crate's boundaries are in ARCHITECTURE.md.
#![deny(missing_docs)]

pub mod analyze;
pub mod cli;
pub mod collect;
pub mod export;
pub mod model;
pub mod report;
pub mod trace;
mod why;
