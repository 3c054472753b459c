//! The table of totals, counts and statistics that users of other profilers know.

use super::screen::{NONE, Screen, estimate, number};
use crate::analyze::durations::Durations;
use crate::analyze::estimate::{Estimate, Sum};
use crate::report::names::demangle;
use crate::report::table::{Table, names, right};
use crate::report::text::{Text, dim};
use crate::report::units::percent;
use crate::report::view::Keys;

/// A row. Times are in ns.
pub struct Stats {
    /// The total time; `None` if it is not known.
    pub total: Option<Estimate<u64>>,
    /// How many calls or operations.
    pub count: u64,
    /// The mean of the known times,
    pub avg: Option<Estimate<u64>>,
    /// the median,
    pub med: Option<Estimate<u64>>,
    /// the shortest,
    pub min: Option<Estimate<u64>>,
    /// the longest,
    pub max: Option<Estimate<u64>>,
    /// and the standard deviation.
    pub stddev: Option<Estimate<u64>>,
    /// The name, not shortened.
    pub name: String,
    /// Registers, occupancy and waves of kernels, for wide screens.
    pub shape: [Text; 3],
}

/// The width of a screen that has room for [`Stats::shape`], in columns.
const BROAD: usize = 120;

impl Stats {
    /// Returns the row of `count` operations; `durations` are those of the timed ones.
    pub fn of(durations: &Durations, total: Option<Estimate<u64>>, count: u64, symbol: &str) -> Stats {
        Stats {
            total,
            count,
            avg: durations.mean().map(Estimate::rounded),
            med: durations.median(),
            min: durations.min(),
            max: durations.max(),
            stddev: durations.stddev().map(Estimate::rounded),
            name: demangle(symbol),
            shape: Stats::no_shape(),
        }
    }

    /// Returns the cells of a row that is not a kernel.
    pub fn no_shape() -> [Text; 3] {
        [NONE, NONE, NONE].map(Text::from)
    }

    /// Returns the values that the row can be sorted by.
    pub fn keys(&self) -> Keys<'_> {
        let value = |estimate: Option<Estimate<u64>>| estimate.map(|estimate| estimate.value);
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
        right("of wall").or_drop(1),
        right("total"),
        right(labels.count),
        right("avg"),
        right("med").or_drop(2),
        right("min").or_drop(4),
        right("max").or_drop(3),
        right("stddev").or_drop(5),
        right("regs").or_drop(8),
        right("theor. occ.").or_drop(7),
        right("waves").or_drop(6),
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
            Text::from(&row.name),
        ]);
    }
    screen.table(&table, rows.len() - shown, labels.section);
}

/// Returns the total time of all rows.
pub fn sum(rows: &[Stats]) -> Estimate<u64> {
    let mut sum = Sum::default();
    rows.iter().filter_map(|row| row.total).for_each(|total| sum.add(total.into()));
    sum.estimate()
}
