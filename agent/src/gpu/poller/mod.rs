//! What the poller reads: the agent's one thread, which `crate::session` runs.
//!
//! - [`rhythm`]: when it looks;
//! - [`reader`]: what it reads;
//! - [`cost`]: what that costs.

pub mod cost;
pub mod reader;
pub mod rhythm;
