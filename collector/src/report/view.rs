//! What of the report is shown, and how it is drawn.

use clap::ValueEnum;
use std::cmp::Reverse;

/// How the screen is drawn.
#[derive(Clone, Copy, Debug)]
pub struct Style {
    /// Columns. Fewer than [`NARROWEST`] are taken as that.
    pub width: usize,
    /// Tones become colours.
    pub color: bool,
    /// Nothing but ASCII.
    pub ascii: bool,
    /// Names are neither shortened nor cut, however long the line becomes.
    pub full_names: bool,
}

/// The least width that a screen is drawn for.
pub const NARROWEST: usize = 80;
/// The width where nobody says how wide the screen is.
pub const USUAL: usize = 100;

impl Default for Style {
    fn default() -> Self {
        Style { width: USUAL, color: false, ascii: false, full_names: false }
    }
}

/// A section of the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Section {
    /// What was seen, what was not, what looking cost
    Seen,
    /// Where each GPU's time went
    Gpu,
    /// When GPUs had nothing to do
    Gaps,
    /// What the program says it was doing (NVTX)
    Ranges,
    /// Kernels by time
    Kernels,
    /// What a launch took: in the call, in the queue, on the GPU
    Launches,
    /// How well kernels fill a GPU: registers, memory, blocks, waves
    Occupancy,
    /// What ran inside graph launches
    Graphs,
    /// Copies and sets, by kind, memory and size
    Transfers,
    /// Memory that was held, over time
    Memory,
    /// How long it took until the first kernel ran, and why
    Startup,
    /// Calls that wait, and those that do without being asked to
    Syncs,
    /// All API calls
    Calls,
}

/// What the rows of a table are sorted by: the largest first, names from A on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Sort {
    /// All their time
    #[default]
    Total,
    /// How many
    Count,
    /// Mean time
    Avg,
    /// Median time
    Med,
    /// Shortest time
    Min,
    /// Longest time
    Max,
    /// Standard deviation of their times
    Stddev,
    /// Name
    Name,
}

/// What of the report is shown.
#[derive(Clone, Debug, Default)]
pub struct View {
    /// These sections, with all their rows; none asked for: the overview.
    pub sections: Vec<Section>,
    /// Rows of each table.
    pub top: Option<usize>,
    /// What rows are sorted by.
    pub sort: Sort,
    /// Bytes of the traces on disk, where known.
    pub trace_bytes: Option<u64>,
    /// Traces that belong to what is shown and are not in it.
    pub unread: Vec<Unread>,
}

/// A trace that could not be read at all.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Unread {
    /// Where it is.
    pub path: String,
    /// Why, as the end of a sentence.
    pub why: String,
}

impl View {
    /// Whether a section stands on the screen.
    pub fn shows(&self, section: Section) -> bool {
        match self.sections.as_slice() {
            [] => section != Section::Launches,
            asked => asked.contains(&section),
        }
    }

    /// Rows that a table has room for, of which the overview shows `few`.
    pub fn rows(&self, few: usize) -> usize {
        self.top.unwrap_or(if self.sections.is_empty() { few } else { usize::MAX })
    }
}

/// What a row can be sorted by. Times are ns; `None` where not known, which comes last.
#[derive(Clone, Copy, Debug, Default)]
pub struct Keys<'a> {
    /// All their time.
    pub total: Option<u64>,
    /// How many.
    pub count: u64,
    /// Mean.
    pub avg: Option<u64>,
    /// Median.
    pub med: Option<u64>,
    /// Shortest.
    pub min: Option<u64>,
    /// Longest.
    pub max: Option<u64>,
    /// Standard deviation.
    pub stddev: Option<u64>,
    /// Name.
    pub name: &'a str,
}

impl Sort {
    /// Sorts rows; those that are alike by their total, then their count, then their name.
    pub fn apply<T>(self, rows: &mut [T], keys: impl Fn(&T) -> Keys<'_>) {
        let first = |keys: &Keys<'_>| match self {
            Sort::Name => None,
            Sort::Total => keys.total,
            Sort::Count => Some(keys.count),
            Sort::Avg => keys.avg,
            Sort::Med => keys.med,
            Sort::Min => keys.min,
            Sort::Max => keys.max,
            Sort::Stddev => keys.stddev,
        };
        rows.sort_by(|a, b| {
            let (a, b) = (keys(a), keys(b));
            let of = |keys: &Keys<'_>| {
                if self == Sort::Name {
                    Reverse((None, None, 0))
                } else {
                    Reverse((first(keys), keys.total, keys.count))
                }
            };
            of(&a).cmp(&of(&b)).then(a.name.cmp(b.name))
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_sorted_by_what_is_asked_and_the_unknown_comes_last() {
        fn keys<'a>((total, count, name): &'a (Option<u64>, u64, &str)) -> Keys<'a> {
            Keys { total: *total, count: *count, name, ..Keys::default() }
        }
        let sorted = |sort: Sort| {
            let mut rows = [(None, 9, "d"), (Some(5), 1, "c"), (Some(5), 1, "b"), (Some(7), 0, "a")];
            sort.apply(&mut rows, keys);
            rows.map(|row| row.2).concat()
        };
        assert_eq!(sorted(Sort::Total), "abcd");
        assert_eq!(sorted(Sort::Count), "dbca");
        assert_eq!(sorted(Sort::Name), "abcd");
        assert_eq!(sorted(Sort::Avg), "abcd", "by total, where no average is known");
    }

    #[test]
    fn the_overview_is_short_and_a_section_is_whole() {
        let overview = View::default();
        assert!(overview.shows(Section::Seen) && !overview.shows(Section::Launches));
        assert_eq!(overview.rows(10), 10);
        let section = View { sections: vec![Section::Kernels], ..View::default() };
        assert!(section.shows(Section::Kernels) && !section.shows(Section::Seen));
        assert_eq!(section.rows(10), usize::MAX);
        assert_eq!(View { top: Some(3), ..section }.rows(10), 3);
    }
}
