//! A simulated `libcuda.so.1` and GPU for tests on machines without one. `sim/README.md` describes what the simulator knows
//! and refuses, its settings and the truth file.
//!
//! Device memory is host memory, and copies and memsets really happen. The start and end of each operation are computed by
//! CUDA's ordering rules ([`engine`], [`work`]) on the host's `CLOCK_MONOTONIC_RAW`; events report them on a GPU clock with
//! an offset and a drift of its own ([`clocks`]). Each rule cites its source; a rule that has none is an assumption
//! ([`assume`]).

pub mod api;
pub mod array;
pub mod assume;
pub mod call;
pub mod capture;
pub mod clocks;
pub mod config;
pub mod effects;
pub mod engine;
pub mod error;
pub mod export;
pub mod fat_binary;
pub mod fault;
mod form;
pub mod graph;
pub mod graph_memory;
pub mod green;
pub mod handle;
pub mod image;
pub mod imported;
pub mod interprocess;
pub mod memory;
pub mod parameter;
pub mod pool;
pub mod programmatic;
pub mod resources;
pub mod state;
pub mod thread;
pub mod transfer;
pub mod truth;
pub mod virtual_memory;
pub mod work;
pub mod worker;
