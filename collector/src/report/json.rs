//! The report as JSON. Its keys are a contract, stated in `collector/schema/report.schema.json`.

use super::rows::Report;
use super::view::Unread;
use crate::analyze::{ProcessReport, Tables};
use serde_json::Value;

/// Returns the report of one process, or the sums of several. `processes` lists each of them.
pub fn json(reports: &[ProcessReport]) -> Value {
    json_without(reports, &[])
}

/// Returns the report of a run of which some traces could not be read.
pub fn json_without(reports: &[ProcessReport], unread: &[Unread]) -> Value {
    // The rows have string keys and finite numbers: JSON can hold all of them.
    serde_json::to_value(Report::of(reports, &Tables::of_run(reports), unread)).unwrap_or_default()
}
