//! What a person reads, and the same for programs.
//!
//! [`terminal()`] is one plain screen; [`json()`] the contract that scripts rely on, with its JSON Schema in
//! `collector/schema/report.schema.json`. Both say first what was seen and what was not. [`Operations`] are the single
//! operations, a line of JSON each.

mod json;
pub mod names;
mod operations;
mod table;
mod terminal;
pub mod units;

pub use json::json;
pub use operations::Operations;
pub use terminal::{Style, terminal};
