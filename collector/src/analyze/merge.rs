//! How the tables of several processes become those of a run.

use std::collections::BTreeMap;

/// A table, or a row of one, that adds up over processes.
pub trait Merge {
    /// Adds another process's.
    fn merge(&mut self, other: &Self);
}

/// Rows by key: rows of the same key are one.
impl<K: Ord + Clone, Row: Merge + Default> Merge for BTreeMap<K, Row> {
    fn merge(&mut self, other: &Self) {
        for (key, row) in other {
            self.entry(key.clone()).or_default().merge(row);
        }
    }
}

/// A table that not every process has.
impl<Table: Merge + Default> Merge for Option<Table> {
    fn merge(&mut self, other: &Self) {
        if let Some(other) = other {
            self.get_or_insert_default().merge(other);
        }
    }
}
