//! The trace file: what was collected, on disk.

pub mod record;
