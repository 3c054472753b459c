//! Idle gaps of the GPUs: how many, how long, and what ended them.

use super::Run;
use super::screen::{Screen, about, number, plural};
use crate::analyze::gaps::rows::{GapReport, GapRow, Side};
use crate::analyze::gaps::{BANDS, Part};
use crate::analyze::kernels::UNKNOWN;
use crate::report::chart::length;
use crate::report::names::{LIBRARY, cut, demangle, library, shorten};
use crate::report::table::{Table, left, names, right};
use crate::report::text::{Text, Tone, dim};
use crate::report::units::{bytes, count, duration, percent};

/// Rows of gaps, and of libraries, that the overview shows.
const ROWS: usize = 5;
/// The length of the longest bar, in columns.
const BAR: usize = 24;

/// Draws the section.
pub fn gaps(screen: &mut Screen<'_>, run: &Run<'_>) {
    let gaps = &run.all.gaps;
    if run.all.devices.iter().all(|device| device.identity.span == 0) {
        return screen.none("Gaps", "no operation has a GPU time, so gaps are not known");
    }
    let Some(largest) = gaps.largest.first() else {
        return screen.section("Gaps", screen.limited("no idle gap between two timed operations"));
    };
    let total = gaps.total.value;
    let of_wall = percent(total, run.gpu_wall());
    let mut rest = format!(" in total ({of_wall} of wall), the longest {}", about(largest.duration));
    if let [only] = gaps.by_library.as_slice()
        && only.library.is_some()
    {
        rest.push_str(&format!(", all ended by {}", library(only.library.as_deref())));
    }
    let sentence = Text::from(format!("{}, ", plural(gaps.count, "gap", "gaps")));
    let sentence = sentence.then(Text::toned(Tone::Waste, about(gaps.total.estimate()))).then(rest);
    screen.section("Gaps", sentence);
    let by_length = by_length(screen, gaps);
    screen.table(&by_length, 0, "gaps");
    by_library(screen, gaps);
    longest(screen, run);
    let idle = run.all.devices.iter().fold(0u64, |sum, device| sum.saturating_add(device.whole().idle.value));
    let besides = idle.saturating_sub(total);
    if besides.saturating_mul(100) > idle {
        let besides = duration(besides);
        screen
            .remark(&format!("{besides} more idle time is not in gaps: it is at the ends of the span or next to sampling pauses"));
    }
}

/// Returns a bar for a share of all gaps.
fn share(screen: &Screen<'_>, total: u64, gaps: &GapReport) -> Text {
    Text::toned(Tone::Waste, length(total, gaps.total.value, BAR, screen.style.ascii))
}

fn by_length(screen: &Screen<'_>, gaps: &GapReport) -> Table {
    let mut table = Table::new(&[right("gaps"), right("count"), right("total"), right("of gaps"), left("")]);
    let bounds = BANDS.iter().map(|bound| format!("< {}", whole(*bound)));
    let last = BANDS.last().map_or_else(String::new, |bound| format!(">= {}", whole(*bound)));
    for (band, Part { count, total }) in bounds.chain([last]).zip(gaps.bands) {
        if count > 0 {
            table.row([
                band.into(),
                number(count),
                duration(total).into(),
                percent(total, gaps.total.value).into(),
                share(screen, total, gaps),
            ]);
        }
    }
    table
}

/// Formats a bound of a band: `10 µs`.
fn whole(ns: u64) -> String {
    if ns < 1_000_000 { format!("{} µs", ns / 1_000) } else { format!("{} ms", ns / 1_000_000) }
}

/// Draws the gaps by the library whose call ended them. If there is only one library, the overview says so in words.
fn by_library(screen: &mut Screen<'_>, gaps: &GapReport) {
    let whole = !screen.view.sections.is_empty();
    if gaps.by_library.len() < 2 && !whole {
        return;
    }
    let columns =
        [right("ended by"), right("count"), right("total"), right("of gaps"), left(""), names("", cut)];
    let mut table = Table::new(&columns);
    let shown = screen.view.rows(ROWS).min(gaps.by_library.len());
    for row in &gaps.by_library[..shown] {
        let path = row.library.as_deref();
        table.row([
            library(path).into(),
            number(row.count),
            duration(row.total).into(),
            percent(row.total, gaps.total.value).into(),
            share(screen, row.total, gaps),
            dim(path.filter(|_| whole).unwrap_or_default()),
        ]);
    }
    screen.table(&table, gaps.by_library.len() - shown, "gaps");
}

/// Draws the longest gaps, each with the operations before and after it.
fn longest(screen: &mut Screen<'_>, run: &Run<'_>) {
    let (gaps, several) = (&run.all.gaps, run.reports.len() > 1);
    let mut table = Table::new(&[
        right("longest"),
        right("at"),
        names("before it", shorten),
        names("after it", shorten),
        left("ended by"),
    ]);
    let shown = screen.view.rows(ROWS).min(gaps.largest.len());
    for gap in &gaps.largest[..shown] {
        table.row([
            about(gap.duration).into(),
            // The time base of `--since`.
            duration(gap.began_ns.unwrap_or(0).saturating_add(gap.start)).into(),
            operation(&gap.before).into(),
            operation(&gap.after).into(),
            caller(gap, several).into(),
        ]);
    }
    screen.table(&table, 0, "gaps");
}

/// Returns the library (and with several processes, the process) whose call ended a gap.
fn caller(gap: &GapRow, several: bool) -> String {
    let library = library(gap.after.caller.as_ref().map(|site| site.path.as_str()));
    match gap.pid {
        Some(pid) if several => cut(&format!("{pid} {library}"), LIBRARY),
        _ => library,
    }
}

fn operation(side: &Side) -> String {
    match (side.kind, &side.symbol, side.bytes) {
        (_, Some(symbol), _) => demangle(symbol),
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
