//! The table that users of other profilers know: how long, how often, and how that is spread.

use super::screen::{NONE, Screen, number, time, total};
use crate::analyze::durations::Durations;
use crate::analyze::estimate::{Estimate, Kind};
use crate::report::names::demangle;
use crate::report::table::{Table, names, right};
use crate::report::text::{Text, dim};
use crate::report::units::percent;
use crate::report::view::Keys;

/// A row; times are ns.
pub struct Stats {
    /// All the time; `None` where nothing is known of it.
    pub total: Option<Estimate<u64>>,
    /// How often.
    pub count: u64,
    /// Of those that are known: the mean,
    pub avg: Option<u64>,
    /// the median,
    pub med: Option<u64>,
    /// the shortest,
    pub min: Option<u64>,
    /// the longest,
    pub max: Option<u64>,
    /// and the standard deviation.
    pub stddev: Option<u64>,
    /// Of what. Not shortened.
    pub name: String,
    /// Of kernels, on broad screens: registers, occupancy, waves.
    pub shape: [Text; 3],
}

/// The columns of a screen that has room for [`Stats::shape`].
const BROAD: usize = 120;

impl Stats {
    /// Of `count` operations, the timed ones of which lasted so.
    pub fn of(durations: &Durations, total: Option<Estimate<u64>>, count: u64, symbol: &str) -> Stats {
        let value = |estimate: Option<Estimate<u64>>| estimate.map(|estimate| estimate.value);
        let rounded =
            |estimate: Option<Estimate<f64>>| estimate.map(|estimate| estimate.value.round() as u64);
        Stats {
            total,
            count,
            avg: rounded(durations.mean()),
            med: value(durations.median()),
            min: value(durations.min()),
            max: value(durations.max()),
            stddev: rounded(durations.stddev()),
            name: demangle(symbol),
            shape: Stats::no_shape(),
        }
    }

    /// Of what is no kernel.
    pub fn no_shape() -> [Text; 3] {
        [NONE, NONE, NONE].map(Text::from)
    }

    /// Whether not all of its time was measured.
    pub fn is_extrapolated(&self) -> bool {
        self.total.is_some_and(|total| total.kind == Kind::Extrapolated)
    }

    /// What the row can be sorted by.
    pub fn keys(&self) -> Keys<'_> {
        Keys {
            total: self.total.map(|total| total.value),
            count: self.count,
            avg: self.avg,
            med: self.med,
            min: self.min,
            max: self.max,
            stddev: self.stddev,
            // A template's name comes with its return type, others do not.
            name: self.name.strip_prefix("void ").unwrap_or(&self.name),
        }
    }
}

/// How a table of statistics is labelled.
pub struct Labels {
    /// The section's name, as an option.
    pub section: &'static str,
    /// Heads the column of counts.
    pub count: &'static str,
    /// Shortens names to so many columns.
    pub shorten: fn(&str, usize) -> String,
}

/// Draws the rows that there is room for, in the order that was asked for.
pub fn draw(screen: &mut Screen<'_>, mut rows: Vec<Stats>, wall: u64, few: usize, labels: &Labels) {
    screen.view.sort.apply(&mut rows, Stats::keys);
    let list = sum(&rows);
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
            total(row.total),
            number(row.count),
            time(row.avg),
            time(row.med),
            time(row.min),
            time(row.max),
            dim(time(row.stddev).characters()),
            registers,
            occupancy,
            waves,
            Text::from(&row.name),
        ]);
    }
    screen.table(&table, rows.len() - shown, labels.section);
    if rows[..shown].iter().any(Stats::is_extrapolated) {
        screen.remark("~ is extrapolated from the timed ones; its interval is in --json");
    }
}

/// The time of all rows.
pub fn sum(rows: &[Stats]) -> u64 {
    rows.iter().filter_map(|row| row.total).fold(0, |sum, total| sum.saturating_add(total.value))
}
