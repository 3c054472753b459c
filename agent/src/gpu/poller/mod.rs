//! What does the poller read, and when? `crate::session` runs it, on the agent's only thread.
//!
//! - [`rhythm`] decides when it polls next.
//! - [`reader`] reads the events.
//! - [`cost`] measures what that costs.

pub mod cost;
pub mod reader;
pub mod rhythm;
