//! Where a GPU's time went: parts that sum to the wall time.

use super::Run;
use super::screen::{Screen, about, about_share};
use crate::analyze::devices::DeviceReport;
use crate::analyze::estimate::Sum;
use crate::report::chart::{Part, bar};
use crate::report::rows::devices::Device;
use crate::report::rows::numbers::{Estimate, Kind};
use crate::report::table::{Table, left, right};
use crate::report::text::{Text, Tone, dim};
use crate::report::units::{count, duration, percent, plural};

/// Draws a section for each GPU that had work.
pub fn gpus(screen: &mut Screen<'_>, run: &Run<'_>) {
    let mut is_silent = true;
    for (device, of) in run.rows.devices.iter().zip(&run.all.devices) {
        if device.timelines > 0 && device.span_ns > 0 {
            is_silent = false;
            gpu(screen, run, device, of);
        }
    }
    if is_silent {
        let why = if run.timing_is_off() { ", because timing was off" } else { "" };
        let sentence = screen.limited("no operation has a GPU time") + why;
        let sentence = format!(
            "{sentence}: busy and idle times are not known; counts, bytes and host times are complete"
        );
        screen.section("GPU", Text::toned(Tone::Waste, sentence));
    }
}

/// Draws a GPU's section. `of` is what its row was made from: it also knows the time around the span.
fn gpu(screen: &mut Screen<'_>, run: &Run<'_>, device: &Device, of: &DeviceReport) {
    let frame = Frame::of(of);
    let title = match (device.rank, device.id) {
        (Some(rank), _) => format!("rank {rank}"),
        (None, Some(id)) => format!("GPU {id}"),
        (None, None) => "GPU ?".to_owned(),
    };
    screen.section(&title, verdict(device, of.timed));
    let rows = rows(device, frame);
    let parts: Vec<Part> = rows.iter().map(|row| Part { value: row.time.value, ..row.part }).collect();
    screen.picture(bar(&parts, screen.inner(), screen.style.ascii));
    screen.table(&table(screen, &rows, device.span_ns, frame), 0, "gpu");
    remarks(screen, device, of.identity.unobserved.value, &rows);
    if run.filter().is_some() {
        screen.remark("idle: nothing ran that matches the filters");
    }
}

/// Returns the parts in which the GPU was busy.
fn busy_parts(device: &Device) -> [Estimate; 4] {
    [device.compute_ns, device.exposed_comm_ns, device.exposed_copy_ns, device.graph_ns]
}

/// Returns whether a part's value is close to its upper bound and less than half of it is certain. Printed alone, such a value
/// would claim too much.
fn is_loose(time: Estimate) -> bool {
    let is_most = time.hi.saturating_sub(time.value) <= time.value / 20;
    is_most && time.lo.saturating_mul(2) < time.value
}

/// Returns a sentence about how busy the GPU was. `timed` is the number of operations with a GPU time.
fn verdict(device: &Device, timed: u64) -> Text {
    let name = device.name.as_deref().unwrap_or("name unknown");
    let span = device.span_ns;
    let mut busy = Sum::default();
    busy_parts(device).into_iter().for_each(|part| busy.add(part.into()));
    let busy = Sum { hi: busy.hi.min(span), ..busy };
    // Only between two timed operations is the GPU known to be idle.
    let is_known = device.undecided_ns.value == 0 && device.unobserved_ns.value == 0;
    if busy.value == 0 && (timed == 0 || !is_known) {
        let idle = format!("idle for at least {}", percent(device.idle_ns.lo, span));
        let unknown = match timed {
            0 => "no operation has a GPU time",
            _ => "busy time not known",
        };
        let unknown = Text::toned(Tone::Waste, unknown);
        let rest = format!(" of its span of {}", duration(span));
        return Text::from(format!("{name}: ")).then(unknown).then("; ").then(idle).then(rest);
    }
    Text::from(format!("{name}: "))
        .then(Text::toned(Tone::Work, format!("busy {}", busy_share(device, busy))))
        .then(" and ")
        .then(Text::toned(Tone::Waste, format!("idle {}", about_share(device.idle_ns, span))))
        .then(format!(" of its span of {}", duration(span)))
}

/// Returns the busy share of the span. It is an interval where parts are busy of which less than half is certain.
fn busy_share(device: &Device, busy: Sum) -> String {
    let (parts, span) = (busy_parts(device), device.span_ns);
    let loose = || parts.iter().filter(|part| is_loose(**part));
    let below = loose().fold(0u64, |sum, part| sum.saturating_add(part.value - part.lo));
    if below.saturating_mul(20) <= busy.value {
        return about_share(busy.estimate(), span);
    }
    let above = loose().fold(0u64, |sum, part| sum.saturating_add(part.hi - part.value));
    let most = busy.value.saturating_add(above).min(span);
    format!("{} .. {}", percent(busy.value - below, span), percent(most, span))
}

/// The time of the run outside a GPU's span, in ns.
#[derive(Clone, Copy)]
struct Frame {
    /// Before the first operation.
    start_up: u64,
    /// After the last operation.
    tail: u64,
    /// The report covers all time of the processes, not a selected period.
    is_whole: bool,
    /// The report covers the captured ranges, which are then also the GPU's span.
    is_captured: bool,
}

impl Frame {
    /// Returns `None` if several timelines are added up.
    fn of(device: &DeviceReport) -> Option<Frame> {
        let DeviceReport { line, identity, .. } = device;
        let (from, to) = line.period_ns;
        let frame = Frame {
            start_up: 0,
            tail: 0,
            is_whole: (from, to) == (0, line.wall_ns),
            is_captured: line.is_captured,
        };
        if line.is_captured {
            return Some(frame);
        }
        if identity.span == 0 {
            // It has no work in this period.
            return Some(Frame { start_up: to.saturating_sub(from), ..frame });
        }
        let began = device.began_ns?;
        let (start_up, over) = (began.saturating_sub(from), began.saturating_add(identity.span));
        Some(Frame { start_up, tail: to.saturating_sub(over), ..frame })
    }
}

/// A part of the wall time.
struct Row {
    name: &'static str,
    part: Part,
    time: Estimate,
    /// Whether it is inside the span, from the first operation to the last.
    in_span: bool,
}

/// The part that is neither certainly busy nor certainly idle.
const UNDECIDED: &str = "undecided";

fn rows(device: &Device, frame: Option<Frame>) -> Vec<Row> {
    let row =
        |name, glyph, tone, time, in_span| Row { name, part: Part { value: 0, glyph, tone }, time, in_span };
    let (start_up, tail) = frame.map_or((0, 0), |frame| (frame.start_up, frame.tail));
    let rows = [
        row("before first operation", ['·', '-'], Tone::Dim, Estimate::exactly(start_up), false),
        row("compute", ['█', '#'], Tone::Work, device.compute_ns, true),
        row("graphs", ['▓', '='], Tone::Work, device.graph_ns, true),
        row("exposed communication", ['▞', '%'], Tone::Move, device.exposed_comm_ns, true),
        row("exposed copies and memsets", ['▒', '+'], Tone::Move, device.exposed_copy_ns, true),
        row(UNDECIDED, ['?', '?'], Tone::Dim, device.undecided_ns, true),
        row("not observed", ['╌', '~'], Tone::Dim, device.unobserved_ns, true),
        row("idle", ['░', '.'], Tone::Waste, device.idle_ns, true),
        row("after last operation", ['·', '-'], Tone::Dim, Estimate::exactly(tail), false),
    ];
    // Without any GPU time, parts that may be anything from zero to all of the undecided time are left out.
    let is_timed = busy_parts(device).iter().any(|part| part.value > 0);
    rows.into_iter().filter(|row| row.time.value > 0 || (is_timed && row.time.hi > 0)).collect()
}

fn table(screen: &Screen<'_>, rows: &[Row], span: u64, frame: Option<Frame>) -> Table {
    let mut table =
        Table::new(&[left(""), right("time"), right("of wall"), right("of span"), left("bounds, of span")]);
    let total = rows.iter().fold(0u64, |sum, row| sum.saturating_add(row.time.value));
    let of_wall = |ns| frame.map_or_else(String::new, |_| percent(ns, total));
    for row in rows {
        let glyph = Text::toned(row.part.tone, row.part.drawn(screen.style.ascii).to_string());
        let tone = if row.name == "idle" { Tone::Waste } else { Tone::Plain };
        let cell = |text: String| Text::toned(tone, text);
        // Of a part that may well be zero, the upper bound is printed.
        let is_loose = row.part.tone != Tone::Dim && is_loose(row.time);
        let shown = if is_loose { row.time.hi } else { row.time.value };
        let of_span = if row.in_span { percent(shown, span) } else { String::new() };
        let at_most = |text: String| if is_loose && !text.is_empty() { format!("<= {text}") } else { text };
        let time = if is_loose { duration(shown) } else { about(row.time) };
        table.row([
            glyph.then(" ").then(cell(row.name.to_owned())),
            cell(at_most(time)),
            cell(at_most(of_wall(shown))),
            cell(at_most(of_span)),
            range(row, span),
        ]);
    }
    let sum = match frame {
        Some(Frame { is_captured: true, .. }) => "  = captured",
        Some(Frame { is_whole: true, .. }) => "  = wall",
        Some(_) => "  = period",
        None => "  = span",
    };
    let exact = dim(format!("{} ns", count(total)));
    let span = if frame.is_some() { String::new() } else { percent(total, span) };
    table.row([sum.into(), duration(total).into(), of_wall(total).into(), span.into(), exact]);
    table
}

/// Returns the bounds of a part, as shares of the span.
fn range(row: &Row, span: u64) -> Text {
    let (lo, hi) = (percent(row.time.lo, span), percent(row.time.hi, span));
    match row.name {
        _ if row.time.lo == row.time.hi => Text::default(),
        UNDECIDED => dim(format!("up to {hi}")),
        _ => dim(format!("{lo} .. {hi}")),
    }
}

/// Draws the remarks. `paused` is the time in sampling pauses, in ns.
fn remarks(screen: &mut Screen<'_>, device: &Device, paused: u64, rows: &[Row]) {
    if matches!(device.idle_ns.kind, Kind::Extrapolated) {
        let share = percent(paused, device.span_ns);
        screen.remark(&match paused {
            0 => "work without a GPU time is assumed to take as long as timed work of its kind".to_owned(),
            _ => format!(
                "{share} of the span was in sampling pauses: work launched in them is assumed to take as long as timed work of its kind"
            ),
        });
    }
    if rows.iter().any(|row| row.name == UNDECIDED) {
        screen.remark("undecided: time that is neither certainly busy nor certainly idle");
    }
    if device.processes > 1 {
        let processes = count(device.processes);
        screen.remark(&format!(
            "{processes} processes used this GPU: it is busy where any of them is, idle where none is"
        ));
    }
    if device.timelines > 1 {
        let timelines = count(device.timelines);
        screen.remark(&format!(
            "{timelines} contexts whose device is not known: all times here are sums over them"
        ));
    }
    if device.late_operations > 0 {
        let late = plural(device.late_operations, "operation", "operations");
        screen.remark(&format!("{late} came too late to be placed: the bounds allow for them"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::view::{Style, View};

    /// A GPU that was idle for 79.1 % at most was said to be idle "<= 75.5 %".
    #[test]
    fn a_loose_part_is_printed_as_its_upper_bound() {
        let (view, style) = (View::default(), Style::default());
        let mut screen = Screen::new(&view, &style, false);
        let time = Estimate { value: 755_000, lo: 127_000, hi: 791_000, kind: Kind::Corrected };
        let part = Part { value: 0, glyph: ['░', '.'], tone: Tone::Waste };
        let rows = [Row { name: "idle", part, time, in_span: true }];
        let drawn = table(&screen, &rows, 1_000_000, None);
        screen.table(&drawn, 0, "gpu");
        let text = screen.text();
        let idle = text.lines().find(|line| line.contains("idle")).unwrap();
        let cells = ["<= 791 µs", "<= 79.1 %", "12.7 % .. 79.1 %"];
        assert!(cells.iter().all(|cell| idle.contains(cell)) && !idle.contains("75"), "{text}");
    }
}
