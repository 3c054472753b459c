//! The host time of all CUDA calls.

use super::Run;
use super::screen::{Screen, plural};
use super::stats::{self, Labels, Stats};
use crate::analyze::calls::{ByApi, HostTimes};
use crate::analyze::estimate::Estimate;
use crate::report::names::cut;
use crate::report::units::{count, duration, percent};

/// Rows that the overview shows.
const ROWS: usize = 10;

/// Draws the section of all calls.
pub fn calls(screen: &mut Screen<'_>, run: &Run<'_>) {
    if run.all.apis.is_empty() {
        return screen.none("Calls", "no call was made");
    }
    section(screen, run, "Calls", &run.all.apis, "calls");
}

/// Draws a section of calls, of which there is at least one.
pub fn section(screen: &mut Screen<'_>, run: &Run<'_>, title: &str, calls: &ByApi, section: &'static str) {
    let rows: Vec<Stats> = calls.iter().map(|(name, times)| row(name, times)).collect();
    let made = rows.iter().fold(0u64, |sum, row| sum.saturating_add(row.count));
    let (total, wall) = (stats::sum(&rows).value, run.host_wall());
    screen.section(
        title,
        format!(
            "{}, {} of host time in all threads: {} of wall",
            plural(made, "call", "calls"),
            duration(total),
            percent(total, wall)
        ),
    );
    stats::draw(screen, rows, wall, ROWS, &Labels { section, count: "calls", shorten: cut });
}

fn row(name: &str, times: &HostTimes) -> Stats {
    let failed = if times.failed > 0 { format!(" ({} failed)", count(times.failed)) } else { String::new() };
    let rounded = |ns: Option<f64>| ns.map(|ns| Estimate::exactly(ns.round() as u64));
    Stats {
        total: Some(Estimate::exactly(times.total)),
        count: times.count,
        avg: rounded(times.mean()),
        med: times.median(),
        min: times.min().map(Estimate::exactly),
        max: times.max().map(Estimate::exactly),
        stddev: rounded(times.stddev()),
        name: format!("{name}{failed}"),
        shape: Stats::no_shape(),
    }
}
