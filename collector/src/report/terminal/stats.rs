//! The table of totals, counts and statistics that users of other profilers know.

use super::screen::{NONE, Screen, estimate, line, number};
use crate::analyze::estimate::Sum;
use crate::report::rows::kernels::Kernel;
use crate::report::rows::numbers::Estimate;
use crate::report::table::{Table, left, names, right};
use crate::report::text::{Text, dim};
use crate::report::units::percent;
use crate::report::view::Keys;

/// A row. Times are in ns.
pub struct Stats {
    /// The total time; `None` if it is not known.
    pub total: Option<Estimate>,
    /// How many calls or operations.
    pub count: u64,
    /// The mean of the known times,
    pub avg: Option<Estimate>,
    /// the median,
    pub med: Option<Estimate>,
    /// the shortest,
    pub min: Option<Estimate>,
    /// the longest,
    pub max: Option<Estimate>,
    /// and the standard deviation.
    pub stddev: Option<Estimate>,
    /// The name, not shortened.
    pub name: String,
    /// The line of the program that most comes from.
    pub line: Text,
    /// Registers, occupancy and waves of kernels, for wide screens.
    pub shape: [Text; 3],
}

/// The width of a screen that has room for [`Stats::shape`], in columns.
const BROAD: usize = 120;

impl Stats {
    /// Returns the row of a kernel, without its shape.
    pub fn of(kernel: &Kernel) -> Stats {
        Stats {
            total: kernel.total_ns,
            count: kernel.count,
            avg: kernel.avg_ns.map(Estimate::rounded),
            med: kernel.median_ns,
            min: kernel.min_ns,
            max: kernel.max_ns,
            stddev: kernel.stddev_ns.map(Estimate::rounded),
            name: kernel.name.clone(),
            line: line(&kernel.main),
            shape: Stats::no_shape(),
        }
    }

    /// Returns the cells of a row that is not a kernel.
    pub fn no_shape() -> [Text; 3] {
        [NONE, NONE, NONE].map(Text::from)
    }

    /// Returns the values that the row can be sorted by.
    pub fn keys(&self) -> Keys<'_> {
        let value = |estimate: Option<Estimate>| estimate.map(|estimate| estimate.value);
        Keys {
            total: value(self.total),
            count: self.count,
            avg: value(self.avg),
            med: value(self.med),
            min: value(self.min),
            max: value(self.max),
            stddev: value(self.stddev),
            // The demangled name of a template starts with its return type; other names do not.
            name: self.name.strip_prefix("void ").unwrap_or(&self.name),
        }
    }
}

/// The labels of a table of statistics.
pub struct Labels {
    /// The section's name, as `--section` takes it.
    pub section: &'static str,
    /// The head of the column of shares of the wall time.
    pub of_wall: &'static str,
    /// The head of the column of counts.
    pub count: &'static str,
    /// Shortens names to a number of columns.
    pub shorten: fn(&str, usize) -> String,
}

/// Draws as many rows as the view allows, in the selected order.
pub fn draw(screen: &mut Screen<'_>, mut rows: Vec<Stats>, wall: u64, few: usize, labels: &Labels) {
    screen.view.sort.apply(&mut rows, Stats::keys);
    let list = sum(&rows).value;
    let mut table = Table::new(&[
        right("time %"),
        right(labels.of_wall).or_drop(1),
        right("total"),
        right(labels.count),
        right("avg"),
        right("med").or_drop(2),
        right("min").or_drop(5),
        right("max").or_drop(4),
        right("stddev").or_drop(6),
        right("regs").or_drop(9),
        right("theor. occ.").or_drop(8),
        right("waves").or_drop(7),
        left("line").or_drop(3),
        names("name", labels.shorten),
    ]);
    let shown = screen.view.rows(few).min(rows.len());
    for row in &rows[..shown] {
        let [registers, occupancy, waves] =
            if screen.width() >= BROAD { row.shape.clone() } else { Stats::no_shape() };
        let share = |whole| row.total.map_or("-".to_owned(), |total| percent(total.value, whole));
        table.row([
            share(list).into(),
            dim(share(wall)),
            estimate(row.total),
            number(row.count),
            estimate(row.avg),
            estimate(row.med),
            estimate(row.min),
            estimate(row.max),
            dim(estimate(row.stddev).characters()),
            registers,
            occupancy,
            waves,
            row.line.clone(),
            Text::from(&row.name),
        ]);
    }
    screen.table(&table, rows.len() - shown, labels.section);
}

/// Returns the total time of all rows.
pub fn sum(rows: &[Stats]) -> Estimate {
    let mut sum = Sum::default();
    rows.iter().filter_map(|row| row.total).for_each(|total| sum.add(total.into()));
    sum.into()
}
