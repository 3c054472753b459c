//! Which parts of the report are shown, and how they are drawn.

use clap::ValueEnum;
use std::cmp::Reverse;

/// How the screen is drawn.
#[derive(Clone, Copy, Debug)]
pub struct Style {
    /// The width in columns; at least [`NARROWEST`].
    pub width: usize,
    /// Whether colours are used.
    pub color: bool,
    /// Whether only ASCII is used.
    pub ascii: bool,
    /// Whether names are printed in full, however long the line becomes.
    pub full_names: bool,
}

/// The smallest width that a screen is drawn for, in columns.
pub const NARROWEST: usize = 80;
/// The width used if the screen does not report its own, in columns.
pub const USUAL: usize = 100;

impl Default for Style {
    fn default() -> Self {
        Style { width: USUAL, color: false, ascii: false, full_names: false }
    }
}

/// A section of the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Section {
    /// Every section, each table with its first rows
    All,
    /// What to change, with the evidence, the gain and how to check it
    Findings,
    /// The ranks of a job beside each other, and which one the others wait for
    Ranks,
    /// What was recorded and timed, what was not and why, and the profiling overhead
    Coverage,
    /// Where each GPU's time went: compute, exposed copies, idle
    Gpu,
    /// Why each GPU was idle: what the host was doing
    Idle,
    /// Idle gaps: how long, and what the host was doing
    Gaps,
    /// Steps of the program: how long they take, how steady they are, what is in them
    Steps,
    /// NVTX ranges and markers
    Ranges,
    /// Kernels by time
    Kernels,
    /// Time of launches: in the API call, in the queue, on the GPU
    Launches,
    /// How well kernels fill a GPU: registers, memory, blocks, waves
    Occupancy,
    /// What ran inside graph launches
    Graphs,
    /// Copies and memsets by kind, memory and size
    Transfers,
    /// Memory use over time
    Memory,
    /// Time until the first kernel ran, and what it was spent on
    Startup,
    /// Explicit and implicit synchronization
    Syncs,
    /// All CUDA API calls
    Calls,
    /// Lines of the program (Python or native), by the time of the GPU, idle time, waits and bytes that they cause
    Lines,
}

/// A section of the comparison of two runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DiffSection {
    /// What became of the findings: gone, new, still there
    Findings,
    /// Times and contents of steps
    Steps,
    /// Where the time of the GPU that was used most went
    Wall,
    /// Idle time by cause
    Idle,
    /// NVTX ranges: their times on the host and on the GPU
    Ranges,
    /// Kernels that appeared, vanished or changed
    Kernels,
    /// Copies and memsets by kind and memory
    Transfers,
    /// Calls that waited for the GPU
    Syncs,
    /// Device memory
    Memory,
}

/// Which parts of the comparison of two runs are shown.
#[derive(Clone, Debug, Default)]
pub struct DiffView {
    /// The selected sections, with all their rows. If none is selected, the overview is shown.
    pub sections: Vec<DiffSection>,
    /// The most rows of each table.
    pub top: Option<usize>,
}

/// What the rows of a table are sorted by: largest first, names alphabetically.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Sort {
    /// Total time
    #[default]
    Total,
    /// Number of calls or operations
    Count,
    /// Mean time
    Avg,
    /// Median time
    Med,
    /// Shortest time
    Min,
    /// Longest time
    Max,
    /// Standard deviation
    Stddev,
    /// Name
    Name,
}

/// Which parts of the report are shown.
#[derive(Clone, Debug, Default)]
pub struct View {
    /// The selected sections. If none is selected, the overview is shown.
    pub sections: Vec<Section>,
    /// The most rows of each table.
    pub top: Option<usize>,
    /// What rows are sorted by.
    pub sort: Sort,
    /// The size of the traces on disk in bytes, if known.
    pub trace_bytes: Option<u64>,
    /// Traces that could not be read and are missing from the report.
    pub unread: Vec<Unread>,
    /// Whether the overview ends with the verdict that it starts with, for screens that have scrolled.
    pub repeats_verdict: bool,
}

/// A trace that could not be read at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unread {
    /// Its path.
    pub path: String,
    /// The reason, as the end of a sentence.
    pub why: String,
}

impl View {
    /// Returns whether a section is shown.
    pub fn shows(&self, section: Section) -> bool {
        self.sections.contains(&section) || self.sections.contains(&Section::All)
    }

    /// Returns whether single sections are selected, which are then shown with all their rows.
    pub fn is_selected(&self) -> bool {
        !self.sections.is_empty() && !self.sections.contains(&Section::All)
    }

    /// Returns the most rows that a table shows; `few` is the limit if no single section is selected.
    pub fn rows(&self, few: usize) -> usize {
        self.top.unwrap_or(if self.is_selected() { usize::MAX } else { few })
    }
}

/// The values that a row can be sorted by. Times are in ns; `None` means not known and sorts last.
#[derive(Clone, Copy, Debug, Default)]
pub struct Keys<'a> {
    /// Total time.
    pub total: Option<u64>,
    /// Number of calls or operations.
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
    /// Sorts rows; equal ones by total, then by count, then by name.
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
    fn rows_are_sorted_by_the_selected_column_and_unknown_values_come_last() {
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
        assert_eq!(sorted(Sort::Avg), "abcd", "by total if no average is known");
    }

    #[test]
    fn the_overview_is_short_and_a_selected_section_is_complete() {
        let overview = View::default();
        assert!(!overview.shows(Section::Coverage));
        assert_eq!(overview.rows(10), 10);
        let all = View { sections: vec![Section::All], ..View::default() };
        assert!(all.shows(Section::Coverage) && all.shows(Section::Launches));
        assert_eq!(all.rows(10), 10);
        let section = View { sections: vec![Section::Kernels], ..View::default() };
        assert!(section.shows(Section::Kernels) && !section.shows(Section::Coverage));
        assert_eq!(section.rows(10), usize::MAX);
        assert_eq!(View { top: Some(3), ..section }.rows(10), 3);
    }
}
