//! What a person reads, and the same for programs.
//!
//! [`terminal()`] is a screen; [`json()`] the contract that scripts rely on, with its JSON Schema in
//! `collector/schema/report.schema.json`. Both say first what was seen and what was not. [`Operations`] are the single
//! operations, a line of JSON each.

mod chart;
pub mod damage;
mod json;
pub mod names;
mod operations;
mod table;
mod terminal;
mod text;
pub mod units;
mod view;

pub use json::{json, json_without};
pub use operations::Operations;
pub use terminal::terminal;
pub use view::{NARROWEST, Section, Sort, Style, USUAL, Unread, View};
