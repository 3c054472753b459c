//! What a person reads, and the same for programs.
//!
//! [`terminal()`] is one plain screen; [`json()`] the contract that scripts rely on, with its JSON Schema in
//! `collector/schema/report.schema.json`. Both say first what was seen and what was not.

mod json;
pub mod names;
mod table;
mod terminal;
pub mod units;

pub use json::json;
pub use terminal::{Style, terminal};
