//! The section of calls: the host time of each CUDA function.

use super::screen::{Screen, line};
use super::stats::{self, Labels, Stats};
use super::{OF_WALL, Run};
use crate::report::names::cut;
use crate::report::rows::calls::{Api, CallTimes};
use crate::report::rows::numbers::Estimate;
use crate::report::rows::source_lines::MainLine;
use crate::report::text::dim;
use crate::report::units::{count, duration, percent, plural};

/// The number of rows that the overview shows.
const ROWS: usize = 10;

/// Draws the section of all calls.
pub fn calls(screen: &mut Screen<'_>, run: &Run<'_>) {
    if run.rows.apis.is_empty() {
        return screen.none("Calls", "no call was made");
    }
    section(screen, run, "Calls", run.rows.apis.iter().map(of_api).collect(), "calls");
    let left_out = run.rows.calls_of_unknown_device;
    if left_out > 0 {
        screen.more(dim(format!(
            "{} left out: the trace does not say of which device, if of any",
            plural(left_out, "call is", "calls are")
        )));
    }
}

/// Draws a section of calls, of which there is at least one.
pub fn section(screen: &mut Screen<'_>, run: &Run<'_>, title: &str, rows: Vec<Stats>, section: &'static str) {
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
    stats::draw(
        screen,
        rows,
        wall,
        ROWS,
        &Labels { section, of_wall: OF_WALL, count: "calls", shorten: cut },
    );
}

fn of_api(api: &Api) -> Stats {
    row(&api.name, api.failed, &api.times, &api.main)
}

/// Returns the row of one CUDA function.
pub fn row(name: &str, failed: u64, times: &CallTimes, main: &MainLine) -> Stats {
    let failed = if failed > 0 { format!(" ({} failed)", count(failed)) } else { String::new() };
    let rounded = |ns: f64| Estimate::exactly(ns.round() as u64);
    Stats {
        total: Some(Estimate::exactly(times.host_ns)),
        count: times.count,
        avg: Some(rounded(times.avg_ns)),
        med: Some(times.median_ns),
        min: Some(Estimate::exactly(times.min_ns)),
        max: Some(Estimate::exactly(times.max_ns)),
        stddev: Some(rounded(times.stddev_ns)),
        name: format!("{name}{failed}"),
        line: line(main),
        shape: Stats::no_shape(),
    }
}
