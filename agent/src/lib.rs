//! `libgpuspy.so`: the preloaded side of gpuspy.
//!
//! ```text
//! table ─▸ calls ─▸ gpu, graphs, names ─▸ driver
//!   │        └────▸ thread ─▸ sink ─▸ (wire)
//!   └────▸ interpose (which function is called next)
//!
//! session puts all of them together
//! ```
//!
//! It is a guest in someone's process. It never crashes, blocks or exits its host, prints nothing but the lines in
//! [`session::exit`], and costs nothing in processes that do not call CUDA. A hook allocates no memory, takes no lock,
//! waits for nothing and formats nothing; its one system call wakes the poller from its long sleep.
//!
//! `scripts/check-layers` checks which module may use which (ARCHITECTURE.md).
// A test executable exports nothing: it must not interpose its own dlsym.
#![cfg_attr(test, allow(dead_code))]
#![cfg_attr(
    not(test),
    deny(
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::panic,
        clippy::print_stderr,
        clippy::print_stdout,
        clippy::unwrap_used
    )
)]

mod calls;
#[cfg(test)]
mod coverage;
mod cuda;
mod driver;
mod facts;
mod gpu;
mod graphs;
mod guarded;
mod heap;
mod hook;
mod interpose;
mod keyed;
mod loader;
mod memory;
mod modules;
mod names;
mod native;
mod note;
mod numbers;
mod nvtx;
mod objects;
mod options;
mod pages;
#[cfg(test)]
mod prototypes;
mod python;
mod session;
mod shape;
mod sink;
mod sys;
mod table;
mod thread;
