//! `libgpuspy.so`: the preloaded side of gpuspy.
//!
//! ```text
//! table ── hook ── calls ── thread ── session ── (wire)
//!            │        └───── gpu (events, poller)
//!          roads (who is called next)
//! ```
//!
//! It is a guest in someone's process. It never crashes, blocks or exits its host, prints nothing but the lines in
//! [`session::exit`], and pays for itself only in processes that call CUDA. On a hook's path there is no heap, no lock,
//! no wait and no formatting; its one system call wakes the poller from its long sleep.

mod calls;
mod cuda;
mod driver;
mod gpu;
mod graphs;
mod hook;
mod keyed;
mod modules;
mod names;
mod roads;
mod session;
mod sys;
mod table;
mod thread;
