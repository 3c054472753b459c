//! Why the GPUs were idle: the causes with their shares, and the places of the program.

use super::Run;
use super::screen::{Screen, about, about_share, number};
use crate::diagnose::running;
use crate::report::chart::length;
use crate::report::names::{cut, library, line};
use crate::report::rows::idle::{ByCause, BySite};
use crate::report::rows::numbers::Estimate;
use crate::report::table::{Table, left, names, right};
use crate::report::text::{Text, Tone};
use crate::report::units::{percent, plural};

/// Rows of causes and of sites that the overview shows.
const ROWS: usize = 5;
/// The length of the longest bar, in columns.
const BAR: usize = 24;

/// Draws the section.
pub fn idle(screen: &mut Screen<'_>, run: &Run<'_>) {
    let idle = &run.rows.idle;
    let all = idle.by_cause.iter().fold(0u64, |sum, row| sum.saturating_add(row.total_ns.value));
    let Some(first) = idle.by_cause.first().filter(|_| all > 0) else {
        return screen.none("Idle", "no idle time is known");
    };
    // What is known of all of it together is more than what is known of each cause.
    let of_gpus = run.rows.devices.iter().fold(Estimate::exactly(0), |sum, device| sum.plus(device.idle_ns));
    let known = Estimate { value: all, ..of_gpus };
    let of_wall = format!("{} {}", about_share(known, run.gpu_wall()), run.of_gpu_wall());
    let share = percent(first.total_ns.value, all);
    let gpus = run.gpus();
    // The first screen has the time of one of them.
    let added =
        if gpus > 1 { format!(", added over {},", plural(gpus, "GPU", "GPUs")) } else { String::new() };
    let sentence = Text::toned(Tone::Waste, about(known))
        .then(format!(" idle{added} ({of_wall}), {share} of it {}", phrase(first)));
    screen.section("Idle", sentence);
    causes(screen, run, all);
    sites(screen, run, all);
}

/// Says what the host was doing.
fn phrase(row: &ByCause) -> String {
    match row.cause {
        "undecided" => "undecided".to_owned(),
        "stream_wait" => "while a stream was waiting for another one".to_owned(),
        "starting" => "while an enqueued operation was starting".to_owned(),
        "host_callback" => "while a stream ran a host function".to_owned(),
        _ => format!("while the host was {}", row.label),
    }
}

/// Draws the causes.
fn causes(screen: &mut Screen<'_>, run: &Run<'_>, all: u64) {
    // What may have had a part, and by the best estimate had none, is in --json.
    let rows: Vec<&ByCause> =
        run.rows.idle.by_cause.iter().filter(|row| row.count > 0 || row.total_ns.value > 0).collect();
    let shown = screen.view.rows(ROWS).min(rows.len());
    let columns = [
        right("the host was"),
        right("gaps"),
        right("total"),
        right(run.of_gpu_wall()),
        right("of idle"),
        left(""),
    ];
    let mut table = Table::new(&columns);
    for row in &rows[..shown] {
        table.row([
            row.label.into(),
            number(row.count),
            about(row.total_ns).into(),
            percent(row.total_ns.value, run.gpu_wall()).into(),
            percent(row.total_ns.value, all).into(),
            Text::toned(Tone::Waste, length(row.total_ns.value, all, BAR, screen.style.ascii)),
        ]);
    }
    screen.table(&table, rows.len() - shown, "idle");
    for row in rows {
        let said = row.running.and_then(|running| running::sentence(&running, "the thread that led it"));
        if let Some(said) = said {
            screen.more(format!("{}: {said}", row.label));
        }
    }
}

/// Draws the places of the program.
fn sites(screen: &mut Screen<'_>, run: &Run<'_>, all: u64) {
    let is_shown = |row: &&BySite| row.cause != "undecided" && (row.count > 0 || row.total_ns.value > 0);
    let rows: Vec<&BySite> = run.rows.idle.sites.iter().filter(is_shown).collect();
    if rows.is_empty() {
        return;
    }
    let shown = screen.view.rows(ROWS).min(rows.len());
    let columns =
        [right("where"), right("gaps"), right("total"), right("of idle"), left("thread"), names("", cut)];
    let mut table = Table::new(&columns);
    for row in &rows[..shown] {
        table.row([
            place(row).into(),
            number(row.count),
            about(row.total_ns).into(),
            percent(row.total_ns.value, all).into(),
            row.tid.map_or_else(String::new, |tid| tid.to_string()).into(),
            beside(row).into(),
        ]);
    }
    screen.table(&table, rows.len() - shown, "idle");
}

/// Names the call, or what else the thread was in.
fn place(row: &BySite) -> String {
    match (&row.api, row.cause) {
        (Some(api), "starting" | "stream_wait" | "host_callback") => format!("{}, {api}", row.label),
        (Some(api), _) => api.clone(),
        (None, _) => row.label.to_owned(),
    }
}

/// Says what else is known of a place.
fn beside(row: &BySite) -> String {
    let mut parts = Vec::new();
    if let Some(wait) = &row.after_wait {
        let at = row.after_wait_line.as_deref().map_or_else(String::new, |at| format!(" at {}", line(at)));
        parts.push(format!("after {wait}{at}"));
    }
    if let Some(at) = &row.line {
        parts.push(format!("at {}", line(at)));
    }
    if let Some(range) = &row.range {
        parts.push(format!("in {range}"));
    }
    if row.library.is_some() {
        parts.push(library(row.library.as_deref()));
    }
    parts.join(", ")
}
