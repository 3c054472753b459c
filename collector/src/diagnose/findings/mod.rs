//! The faults that are looked for, one module for each.
//!
//! A finder is a pure function of [`Facts`](super::Facts). It claims the parts of the wall time that removing the fault
//! would give back, and [`ranked`](super::finding::ranked) drops what is not worth the change.

mod allocation_churn;
mod fragmentation;
mod holding;
mod memory_grows;
mod never_freed;
mod out_of_memory;
mod peak_memory;

use super::finding::Find;

/// All finders. The order does not matter.
pub const FINDERS: &[Find] = &[
    allocation_churn::find,
    fragmentation::find,
    memory_grows::find,
    never_freed::find,
    out_of_memory::find,
    peak_memory::find,
];
