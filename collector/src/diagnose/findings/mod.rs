//! The faults that are looked for, one module for each.
//!
//! A finder is a pure function of [`Facts`](super::Facts). It claims the parts of the wall time that removing the fault
//! would give back, and [`ranked`](super::finding::ranked) drops what is not worth the change.

use super::finding::Find;

/// All finders. The order does not matter.
pub const FINDERS: &[Find] = &[];
