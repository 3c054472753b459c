//! Traces that could not be read.

use super::super::view;
use schemars::JsonSchema;
use serde::Serialize;

/// A trace that could not be read at all.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Unread {
    /// The path of the trace.
    pub path: String,
    /// The reason, as the end of a sentence.
    pub why: String,
}

impl Unread {
    /// Returns the row.
    pub fn of(unread: &view::Unread) -> Unread {
        Unread { path: unread.path.clone(), why: unread.why.clone() }
    }
}
