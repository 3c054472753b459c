//! NVTX ranges with their host and GPU times, and NVTX markers.

use super::Run;
use super::screen::{Screen, estimate, number, plural, time};
use crate::analyze::estimate::Estimate;
use crate::analyze::ranges::{RangeName, RangeTimes, RangeUse};
use crate::report::names::cut;
use crate::report::table::{Table, names, right};
use crate::report::text::{Text, dim};
use crate::report::units::{count, percent};
use crate::report::view::Keys;

/// Rows that the overview shows.
const ROWS: usize = 10;
/// Markers that the overview names.
const MARKERS: usize = 5;

/// Draws the section.
pub fn ranges(screen: &mut Screen<'_>, run: &Run<'_>) {
    let ranges = &run.all.ranges;
    if ranges.is_empty() {
        return screen.none("Ranges", "the program reported no NVTX range");
    }
    screen.section("Ranges", sentence(ranges));
    if !ranges.marks.is_empty() {
        screen.more(markers(screen, ranges));
    }
    if !ranges.by_name.is_empty() {
        table(screen, ranges, run.host_wall());
    }
}

fn sentence(ranges: &RangeUse) -> String {
    let sum = |of: fn(&RangeTimes) -> u64| ranges.by_name.values().map(of).fold(0, u64::saturating_add);
    let mut sentence = plural(sum(|times| times.host.count), "range", "ranges");
    if sum(|times| times.gpu.count()) > 0 {
        sentence.push_str(
            "; GPU time is from the start of a range's first timed operation to the end of its last",
        );
    }
    let (open, stray) = (sum(|times| times.open), ranges.stray);
    if open > 0 {
        sentence.push_str(&format!("; {} never ended", count(open)));
    }
    if stray > 0 {
        sentence.push_str(&format!("; {} without a start", plural(stray, "end", "ends")));
    }
    if ranges.not_followed > 0 {
        let more = count(ranges.not_followed);
        sentence
            .push_str(&format!("; {more} more are not listed because too many were open when they started"));
    }
    let payloads = ranges.marks.values().fold(sum(|times| times.payloads), |sum, mark| sum + mark.payloads);
    if payloads > 0 {
        let payloads = plural(payloads, "payload", "payloads");
        sentence.push_str(&format!("; {payloads} not recorded"));
    }
    sentence
}

/// Returns the most frequent markers.
fn markers(screen: &Screen<'_>, ranges: &RangeUse) -> String {
    let mut rows: Vec<(&RangeName, u64)> =
        ranges.marks.iter().map(|(name, times)| (name, times.count)).collect();
    rows.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let shown = screen.view.rows(MARKERS).min(rows.len());
    let mut named: Vec<String> = rows[..shown]
        .iter()
        .map(|(name, times)| format!("{} {}", cut(&name.to_string(), screen.width() / 3), count(*times)))
        .collect();
    if rows.len() > shown {
        named.push(format!("and {} more", count((rows.len() - shown) as u64)));
    }
    format!("markers: {}", named.join(", "))
}

/// A row of the table.
struct Row<'a> {
    name: String,
    times: &'a RangeTimes,
}

impl Row<'_> {
    fn keys(&self) -> Keys<'_> {
        let host = &self.times.host;
        Keys {
            total: Some(host.total),
            count: host.count,
            avg: host.mean().map(|ns| ns.round() as u64),
            med: host.median().map(|median| median.value),
            min: host.min(),
            max: host.max(),
            stddev: host.stddev().map(|ns| ns.round() as u64),
            name: &self.name,
        }
    }
}

fn table(screen: &mut Screen<'_>, ranges: &RangeUse, wall: u64) {
    let row = |(name, times)| Row { name: RangeName::to_string(name), times };
    let mut rows: Vec<Row<'_>> = ranges.by_name.iter().map(row).collect();
    screen.view.sort.apply(&mut rows, Row::keys);
    let mut table = Table::new(&[
        right("host"),
        right("of wall").or_drop(2),
        right("count"),
        right("avg"),
        right("on GPU"),
        right("GPU avg").or_drop(1),
        right("operations"),
        names("name", cut),
    ]);
    let shown = screen.view.rows(ROWS).min(rows.len());
    for row in &rows[..shown] {
        let (keys, gpu) = (row.keys(), &row.times.gpu);
        table.row([
            time(keys.total),
            dim(percent(row.times.host.total, wall)),
            number(keys.count),
            time(keys.avg),
            estimate(gpu.total()),
            estimate(gpu.mean().map(Estimate::rounded)),
            number(row.times.operations),
            Text::from(&row.name),
        ]);
    }
    screen.table(&table, rows.len() - shown, "ranges");
}
