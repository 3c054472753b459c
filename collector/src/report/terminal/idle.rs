//! Why the GPUs were idle: the causes with their shares, and the places of the program.

use super::Run;
use super::screen::{Screen, about, about_share, number};
use crate::diagnose::running;
use crate::report::chart::length;
use crate::report::names::{cut, library, line};
use crate::report::rows::idle::{ByCause, BySite, Idle};
use crate::report::rows::numbers::Estimate;
use crate::report::table::{Table, left, names, right};
use crate::report::text::{Text, Tone};
use crate::report::units::{duration, percent, plural};

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
    let rest = beyond(&run.rows.idle);
    if shown == rows.len() && rest > 0 {
        screen.remark(&format!("and {} in other places", duration(rest)));
    }
}

/// Returns the idle time of known causes that is in none of the places, which are those with most of it, ns.
fn beyond(idle: &Idle) -> u64 {
    let all = idle.by_cause.iter().filter(|row| row.cause != "undecided").map(|row| row.total_ns.value);
    let listed = idle.sites.iter().filter(|row| row.cause != "undecided").map(|row| row.total_ns.value);
    all.fold(0, u64::saturating_add).saturating_sub(listed.fold(0, u64::saturating_add))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analyze::estimate::Sum;
    use crate::analyze::idle::{Cause, IdleReport, Part, Site};

    /// Of 25 places, 20 were listed, and nothing was said of the others.
    #[test]
    fn idle_time_in_places_that_are_not_listed_is_told() {
        let part = |ns| Part { count: 1, total: Sum { value: ns, lo: ns, hi: ns } };
        let mut idle = IdleReport::default();
        for tid in 0..25 {
            let site = Site { tid: Some(tid), ..Site::default() };
            idle.sites.insert((Cause::Launching, site), part(if tid < 5 { 10 } else { 100 }));
        }
        idle.sites.insert((Cause::Undecided, Site::default()), part(5));
        idle.by_cause = [(Cause::Launching, part(2_050)), (Cause::Undecided, part(5))].into();
        assert_eq!(beyond(&Idle::of(&idle)), 50);
        idle.sites.clear();
        assert_eq!(beyond(&Idle::of(&idle)), 2_050, "none of it is listed");
    }
}
