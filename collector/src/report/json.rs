//! The report as JSON. Its keys are a contract, stated in `collector/schema/report.schema.json`.

use super::rows::Report;
use super::view::Unread;
use crate::analyze::{ProcessReport, Tables};
use serde_json::Value;

/// Returns the report of one process, or the sums of several. `processes` lists each of them.
pub fn json(reports: &[ProcessReport]) -> Value {
    json_of(reports, &Tables::of_run(reports), &[])
}

/// Returns the report of a run whose tables were added before, and of which some traces could not be read.
pub fn json_of(reports: &[ProcessReport], all: &Tables, unread: &[Unread]) -> Value {
    // The rows have string keys and finite numbers: JSON can hold all of them.
    serde_json::to_value(Report::of(reports, all, unread)).unwrap_or_default()
}
