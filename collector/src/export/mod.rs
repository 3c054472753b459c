//! What another tool reads: a trace in the format of that tool.
//!
//! Exports stream. A first pass over the trace learns its clocks and its rows, the second one writes as it reads.

pub mod chrome;
