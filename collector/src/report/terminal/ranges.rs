//! NVTX ranges with their host and GPU times, and NVTX markers.

use super::Run;
use super::screen::{Screen, estimate, number, time};
use crate::report::names::cut;
use crate::report::rows::Report;
use crate::report::rows::numbers::Estimate;
use crate::report::rows::ranges::{Marker, Range};
use crate::report::table::{Table, names, right};
use crate::report::text::{Text, dim};
use crate::report::units::{count, percent, plural};
use crate::report::view::Keys;

/// Rows that the overview shows.
const ROWS: usize = 10;
/// Markers that the overview names.
const MARKERS: usize = 5;

/// Draws the section.
pub fn ranges(screen: &mut Screen<'_>, run: &Run<'_>) {
    let rows = &run.rows;
    if rows.ranges.is_empty() && rows.markers.is_empty() && rows.coverage.ranges_not_followed == 0 {
        return screen.none("Ranges", "the program reported no NVTX range");
    }
    screen.section("Ranges", sentence(rows));
    if !rows.markers.is_empty() {
        screen.more(markers(screen, &rows.markers));
    }
    if !rows.ranges.is_empty() {
        table(screen, &rows.ranges, run.host_wall());
    }
}

fn sentence(rows: &Report) -> String {
    let sum = |of: fn(&Range) -> u64| rows.ranges.iter().map(of).fold(0, u64::saturating_add);
    let mut sentence = plural(sum(|range| range.count), "range", "ranges");
    if sum(|range| range.projected) > 0 {
        sentence.push_str(
            "; GPU time is from the start of a range's first timed operation to the end of its last",
        );
    }
    let (measured, working) = (sum(|range| range.projected), sum(|range| range.working));
    if measured < working && measured > 0 {
        let (measured, working) = (count(measured), plural(working, "range", "ranges"));
        sentence.push_str(&format!(", measured for {measured} of {working} and extrapolated for the others"));
    }
    let (open, stray) = (sum(|range| range.open), rows.coverage.stray_range_ends);
    if open > 0 {
        sentence.push_str(&format!("; {} never ended", count(open)));
    }
    if stray > 0 {
        sentence.push_str(&format!("; {} without a start", plural(stray, "end", "ends")));
    }
    if rows.coverage.ranges_not_followed > 0 {
        let more = count(rows.coverage.ranges_not_followed);
        sentence
            .push_str(&format!("; {more} more are not listed because too many were open when they started"));
    }
    let after = &rows.coverage.ran_after_range;
    let after = after.launches.saturating_add(after.others);
    if after > 0 {
        let after = plural(after, "operation", "operations");
        sentence.push_str(&format!("; {after} ran after the capture range and are in no other table"));
    }
    let payloads = rows.markers.iter().fold(sum(|range| range.payloads), |sum, mark| sum + mark.payloads);
    if payloads > 0 {
        let payloads = plural(payloads, "payload", "payloads");
        sentence.push_str(&format!("; {payloads} not recorded"));
    }
    sentence
}

/// Returns the most frequent markers.
fn markers(screen: &Screen<'_>, markers: &[Marker]) -> String {
    let mut rows: Vec<&Marker> = markers.iter().collect();
    rows.sort_by_key(|marker| std::cmp::Reverse(marker.count));
    let shown = screen.view.rows(MARKERS).min(rows.len());
    let mut named: Vec<String> = rows[..shown]
        .iter()
        .map(|marker| {
            let name = whole_name(marker.domain.as_deref(), &marker.name);
            format!("{} {}", cut(&name, screen.width() / 3), count(marker.count))
        })
        .collect();
    if rows.len() > shown {
        named.push(format!("and {} more", count((rows.len() - shown) as u64)));
    }
    format!("markers: {}", named.join(", "))
}

/// Returns a name in the notation of other tools: `domain:text`.
pub fn whole_name(domain: Option<&str>, text: &str) -> String {
    domain.map_or_else(|| text.to_owned(), |domain| format!("{domain}:{text}"))
}

/// A row of the table.
struct Row<'a> {
    name: String,
    range: &'a Range,
}

impl Row<'_> {
    fn keys(&self) -> Keys<'_> {
        let range = self.range;
        Keys {
            total: Some(range.host_ns),
            count: range.count,
            avg: Some(range.host_avg_ns.round() as u64),
            med: Some(range.host_median_ns.value),
            min: Some(range.host_min_ns),
            max: Some(range.host_max_ns),
            stddev: Some(range.host_stddev_ns.round() as u64),
            name: &self.name,
        }
    }
}

fn table(screen: &mut Screen<'_>, ranges: &[Range], wall: u64) {
    let mut rows: Vec<Row<'_>> = ranges
        .iter()
        .map(|range| {
            let names = range.names.map_or_else(String::new, |names| format!(" ({} names)", count(names)));
            let name = whole_name(range.domain.as_deref(), &range.name) + &names;
            Row { name, range }
        })
        .collect();
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
        let (keys, range) = (row.keys(), row.range);
        table.row([
            time(keys.total),
            dim(percent(range.host_ns, wall)),
            number(keys.count),
            time(keys.avg),
            estimate(range.gpu_ns),
            estimate(range.gpu_avg_ns.map(Estimate::rounded)),
            number(range.operations),
            Text::from(&row.name),
        ]);
    }
    screen.table(&table, rows.len() - shown, "ranges");
}
