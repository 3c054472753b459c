//! The report for people, and the same for programs.
//!
//! [`terminal()`] draws the screen; [`json()`] is the contract that scripts rely on. The rows of both are the structs in
//! `rows/`, from which the JSON Schema in `collector/schema/report.schema.json` is generated. Both begin with the coverage.
//! [`html`] puts that JSON and a timeline into a page. [`diff`] compares two runs, with a schema of its own. [`Operations`] writes a line of JSON for each operation.
//! [`Metrics`] adds up what the reports of windows say, for Prometheus.
#![forbid(unsafe_code)]

mod chart;
pub mod damage;
mod diff;
pub mod hangs;
pub mod html;
mod json;
mod metrics;
pub mod names;
mod operations;
mod rows;
#[cfg(test)]
mod schema;
pub mod shell;
mod table;
mod terminal;
mod text;
mod view;

pub use crate::units;
pub use diff::{Diff, Run as DiffRun};
pub use json::{json, json_of};
pub use metrics::Metrics;
pub use operations::Operations;
pub use rows::findings::verify;
pub use terminal::{Sentences, sentences, terminal, terminal_diff, terminal_of};
pub use text::line;
pub use view::{DiffSection, DiffView, NARROWEST, Section, Sort, Style, USUAL, Unread, View};
