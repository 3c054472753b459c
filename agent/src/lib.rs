//! `libgpuspy.so`: the preloaded side of gpuspy.
//!
//! ```text
//! table ── hook ── calls ── thread ── session ── (wire)
//!            │        └───── gpu (events, poller)
//!          routes (who is called next)
//! ```
//!
//! It is a guest in someone's process. It never crashes, blocks or exits its host, prints nothing but the lines in
//! [`session::exit`], and pays for itself only in processes that call CUDA. On a hook's path there is no heap, no lock,
//! no wait and no formatting; its one system call wakes the poller from its long sleep.
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
mod hook;
mod interpose;
mod keyed;
mod loader;
mod modules;
mod names;
mod note;
mod nvtx;
mod options;
#[cfg(test)]
mod prototypes;
mod session;
mod shape;
mod sink;
mod sys;
mod table;
mod thread;
