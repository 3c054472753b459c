//! Idle gaps of the GPUs: how many, how long, and what the host was doing meanwhile.

use super::Run;
use super::screen::{Screen, about, number};
use crate::analyze::gaps::BANDS;
use crate::analyze::kernels::UNKNOWN;
use crate::report::chart::length;
use crate::report::names::{cut, library, line, shorten};
use crate::report::rows::gaps::{Gap, Gaps, Side};
use crate::report::table::{Table, left, names, right};
use crate::report::text::{Text, Tone, dim};
use crate::report::units::{bytes, count, duration, percent, plural};

/// Rows of gaps, and of libraries, that the overview shows.
const ROWS: usize = 5;
/// The length of the longest bar, in columns.
const BAR: usize = 24;

/// Draws the section.
pub fn gaps(screen: &mut Screen<'_>, run: &Run<'_>) {
    let gaps = &run.rows.gaps;
    if run.rows.devices.iter().all(|device| device.span_ns == 0) {
        return screen.none("Gaps", "no operation has a GPU time, so gaps are not known");
    }
    let Some(largest) = gaps.largest.first() else {
        return screen.section("Gaps", screen.limited("no idle gap between two timed operations"));
    };
    let total = gaps.total_ns.value;
    let of_wall = format!("{} {}", percent(total, run.gpu_wall()), run.of_gpu_wall());
    let mut rest = format!(" in total ({of_wall}), the longest {}", about(largest.duration_ns));
    if let [only] = gaps.by_library.as_slice()
        && only.library.is_some()
    {
        rest.push_str(&format!(", all before calls by {}", library(only.library.as_deref())));
    }
    let sentence = Text::from(format!("{}, ", plural(gaps.count, "gap", "gaps")));
    let sentence = sentence.then(Text::toned(Tone::Waste, about(gaps.total_ns))).then(rest);
    screen.section("Gaps", sentence);
    let by_length = by_length(screen, gaps);
    screen.table(&by_length, 0, "gaps");
    by_library(screen, gaps);
    longest(screen, run);
    let idle = run.rows.devices.iter().fold(0u64, |sum, device| sum.saturating_add(device.idle_ns.value));
    let besides = idle.saturating_sub(total);
    if besides.saturating_mul(100) > idle {
        let besides = duration(besides);
        screen
            .remark(&format!("{besides} more idle time is not in gaps: it is at the ends of the span or in sampling pauses, where no gap is seen"));
    }
}

/// Returns a bar for a share of all gaps.
fn share(screen: &Screen<'_>, total: u64, gaps: &Gaps) -> Text {
    Text::toned(Tone::Waste, length(total, gaps.total_ns.value, BAR, screen.style.ascii))
}

fn by_length(screen: &Screen<'_>, gaps: &Gaps) -> Table {
    let mut table = Table::new(&[right("gaps"), right("count"), right("total"), right("of gaps"), left("")]);
    let last = BANDS.last().map_or_else(String::new, |bound| format!(">= {}", whole(*bound)));
    for band in gaps.bands.iter().filter(|band| band.count > 0) {
        table.row([
            band.below_ns.map_or_else(|| last.clone(), |bound| format!("< {}", whole(bound))).into(),
            number(band.count),
            duration(band.total_ns).into(),
            percent(band.total_ns, gaps.total_ns.value).into(),
            share(screen, band.total_ns, gaps),
        ]);
    }
    table
}

/// Formats a bound of a band: `10 µs`.
fn whole(ns: u64) -> String {
    if ns < 1_000_000 { format!("{} µs", ns / 1_000) } else { format!("{} ms", ns / 1_000_000) }
}

/// Draws the gaps by the library whose call came next. If there is only one library, the overview says so in words.
fn by_library(screen: &mut Screen<'_>, gaps: &Gaps) {
    let whole = screen.view.is_selected();
    if gaps.by_library.len() < 2 && !whole {
        return;
    }
    let columns =
        [right("next call by"), right("count"), right("total"), right("of gaps"), left(""), names("", cut)];
    let mut table = Table::new(&columns);
    let shown = screen.view.rows(ROWS).min(gaps.by_library.len());
    for row in &gaps.by_library[..shown] {
        let path = row.library.as_deref();
        table.row([
            library(path).into(),
            number(row.count),
            duration(row.total_ns).into(),
            percent(row.total_ns, gaps.total_ns.value).into(),
            share(screen, row.total_ns, gaps),
            dim(path.filter(|_| whole).unwrap_or_default()),
        ]);
    }
    screen.table(&table, gaps.by_library.len() - shown, "gaps");
}

/// Draws the longest gaps, each with the operations before and after it, and the lines that made them.
fn longest(screen: &mut Screen<'_>, run: &Run<'_>) {
    let (gaps, several) = (&run.rows.gaps, run.reports.len() > 1);
    let mut table = Table::new(&[
        right("longest"),
        right("at"),
        names("before it", shorten),
        names("after it", shorten),
        left("the host meanwhile"),
    ]);
    let shown = screen.view.rows(ROWS).min(gaps.largest.len());
    for gap in &gaps.largest[..shown] {
        table.row([
            about(gap.duration_ns).into(),
            // The time base of `--since`.
            duration(gap.began_ns.unwrap_or(0).saturating_add(gap.start_ns)).into(),
            operation(&gap.before).into(),
            operation(&gap.after).into(),
            cause(gap, several).into(),
        ]);
        let [before, after] = [&gap.before, &gap.after].map(|side| side.line.as_deref().map(line));
        if before.is_some() || after.is_some() {
            let [before, after] = [before, after].map(|line| dim(line.unwrap_or_default()));
            table.row([Text::default(), Text::default(), before, after, Text::default()]);
        }
    }
    screen.table(&table, 0, "gaps");
}

/// Returns the main cause of a gap, its share if that is not all of it, and whose it is.
fn cause(gap: &Gap, several: bool) -> String {
    let Some(main) = gap.causes.first() else { return String::new() };
    let share = percent(main.total_ns, gap.duration_ns.value);
    let mut text = main.label.to_owned();
    if u128::from(main.total_ns) * 100 < u128::from(gap.duration_ns.value) * 99 {
        text.push_str(&format!(" {share}"));
    }
    match (gap.pid, gap.tid) {
        (Some(pid), _) if several => text.push_str(&format!(" (process {pid})")),
        (_, Some(tid)) => text.push_str(&format!(" (thread {tid})")),
        _ => {}
    }
    text
}

fn operation(side: &Side) -> String {
    match (side.kind, &side.name, side.bytes) {
        (_, Some(name), _) => name.clone(),
        ("kernel", None, _) => UNKNOWN.to_owned(),
        ("graph", ..) => graph(side.kernels),
        (kind, None, Some(size)) => format!("{kind} {}", bytes(size)),
        (kind, None, None) => kind.to_owned(),
    }
}

/// Names a graph launch next to a gap.
fn graph(kernels: Option<u32>) -> String {
    match kernels {
        Some(1) => "graph of 1 kernel".to_owned(),
        Some(kernels) if kernels > 0 => format!("graph of {} kernels", count(kernels.into())),
        _ => "graph launch".to_owned(),
    }
}
