//! Copies and memsets: bytes, throughput, and the host time of their calls.

use super::Run;
use super::graphs::inside;
use super::screen::{NONE, Screen, WIDE, estimate, line, number, time};
use crate::report::rows::numbers::Rate;
use crate::report::rows::transfers::{Size, Transfer};
use crate::report::table::{Table, left, right};
use crate::report::text::{Text, dim};
use crate::report::units::{bytes, duration, percent, plural};
use crate::report::view::{Keys, Section};

/// Rows that the overview shows.
const ROWS: usize = 8;

/// The head of the throughput column.
const GBPS: &str = "GB/s";

type Row<'a> = (String, &'a Transfer);

/// Draws the section.
pub fn transfers(screen: &mut Screen<'_>, run: &Run<'_>) {
    let transfers = &run.rows.transfers;
    if transfers.is_empty() {
        return match inside(&run.rows.graphs) {
            moved if moved.is_empty() => screen.none("Transfers", "no copy and no memset was made"),
            moved => screen
                .none("Transfers", &format!("none outside of graphs, which ran {}", moved.join(" and "))),
        };
    }
    let sum = |of: fn(&Transfer) -> u64| transfers.iter().fold(0u64, |sum, t| sum.saturating_add(of(t)));
    let (count, size, host) = (sum(|t| t.count), sum(|t| t.bytes), sum(|t| t.host.total_ns));
    screen.section(
        "Transfers",
        format!(
            "{}, {}; host time in these calls {}, {} of wall",
            plural(count, "copy or memset", "copies and memsets"),
            bytes(size),
            duration(host),
            percent(host, run.host_wall())
        ),
    );
    let mut rows: Vec<Row<'_>> = transfers
        .iter()
        .map(|transfer| (format!("{} {}", transfer.kind, transfer.host_memory), transfer))
        .collect();
    screen.view.sort.apply(&mut rows, keys);
    let shown = screen.view.rows(ROWS).min(rows.len());
    let with_sizes = screen.view.sections.contains(&Section::Transfers);
    let table = table(&rows[..shown], run, with_sizes);
    screen.table(&table, rows.len() - shown, "transfers");
    if with_sizes && rows[..shown].iter().any(|(.., t)| t.timed > 0 && t.timed < t.count) {
        screen.remark("times by size are of timed operations only");
    }
    if table.has(GBPS) && rows[..shown].iter().any(|(.., t)| t.timed > 0 && !t.gbps_is_known) {
        screen.remark("GB/s: > marks a lower bound; - means that the GPU time is not known well enough");
    }
}

fn keys<'a>((name, transfer): &'a Row<'_>) -> Keys<'a> {
    let total = transfer.total_ns.map(|total| total.value);
    Keys {
        total,
        count: transfer.count,
        avg: total.map(|total| total / transfer.count.max(1)),
        name,
        ..Keys::default()
    }
}

/// Returns a row for each kind and memory, and below it, if selected, one for each size.
fn table(rows: &[Row<'_>], run: &Run<'_>, with_sizes: bool) -> Table {
    let wall = run.gpu_wall();
    let mut table = Table::new(&[
        left("kind"),
        left("host memory"),
        right("count"),
        right("bytes"),
        right("GPU time"),
        right(run.of_gpu_wall()).or_drop(1),
        right(GBPS),
        right("in calls"),
        right("avg call").or_drop(3),
        left("line").or_drop(2),
    ]);
    for (_, transfer) in rows {
        let of_wall = transfer.total_ns.map_or(NONE.to_owned(), |total| percent(total.value, wall));
        table.row([
            transfer.kind.into(),
            transfer.host_memory.replace("none", NONE).into(),
            number(transfer.count),
            bytes(transfer.bytes).into(),
            estimate(transfer.total_ns),
            dim(of_wall),
            speed(transfer.gbps, transfer.gbps_is_known),
            duration(transfer.host.total_ns).into(),
            time(transfer.host.avg_ns.map(|mean| mean.round() as u64)),
            line(&transfer.main),
        ]);
        let sizes = transfer.sizes.iter().filter(|_| with_sizes);
        sizes.for_each(|of_size| table.row(size(of_size, wall)));
    }
    table
}

/// Returns the row of a size class.
fn size(part: &Size, wall: u64) -> [Text; 10] {
    let timed = part.timed > 0;
    let of_wall = if timed { percent(part.timed_ns.value, wall) } else { NONE.to_owned() };
    [
        Text::default(),
        dim(format!("  {}", part.class.label())),
        number(part.count),
        bytes(part.bytes).into(),
        estimate(timed.then_some(part.timed_ns)),
        dim(of_wall),
        speed(part.gbps, part.gbps_is_known),
        Text::default(),
        Text::default(),
        Text::default(),
    ]
}

/// Formats a throughput: its value if that is known, else its lower bound if that is at least half of it, else `-`.
fn speed(gbps: Option<Rate>, is_known: bool) -> Text {
    let decimals = |gbps: f64| if gbps < 0.1 { "<0.1".to_owned() } else { format!("{gbps:.1}") };
    let ends = gbps.and_then(|gbps| Some((gbps.lo?, gbps.value?, gbps.hi?)));
    let is_wide = ends.is_none_or(|(lo, value, hi)| 5.0 * (hi - lo) > value);
    let bound = gbps.and_then(|gbps| gbps.lo.zip(gbps.value)).filter(|(lo, value)| 2.0 * lo >= *value);
    let text = match (is_known, gbps.and_then(|gbps| gbps.value), bound) {
        (true, Some(value), _) => format!("{}{}", if is_wide { WIDE } else { "" }, decimals(value)),
        (false, _, Some((lo, _))) if lo >= 0.1 => format!(">{}", decimals(lo)),
        _ => NONE.to_owned(),
    };
    text.into()
}
