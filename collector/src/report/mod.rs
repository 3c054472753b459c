//! The report for people, and the same for programs.
//!
//! [`terminal()`] draws the screen; [`json()`] is the contract that scripts rely on. The rows of both are the structs in
//! `rows/`, from which the JSON Schema in `collector/schema/report.schema.json` is generated. Both begin with the coverage.
//! [`Operations`] writes a line of JSON for each operation.

mod chart;
pub mod damage;
pub mod hangs;
mod json;
pub mod names;
mod operations;
mod rows;
mod table;
mod terminal;
mod text;
pub mod units;
mod view;

pub use json::{json, json_without};
pub use operations::Operations;
pub use terminal::terminal;
pub use view::{NARROWEST, Section, Sort, Style, USUAL, Unread, View};
