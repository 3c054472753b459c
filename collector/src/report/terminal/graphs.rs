//! What ran inside graph launches.

use super::Run;
use super::screen::{NONE, Screen, about, estimate, number, plural};
use super::stats::Stats;
use crate::analyze::Tables;
use crate::analyze::durations::Durations;
use crate::report::names::shorten;
use crate::report::table::{Table, names, right};
use crate::report::text::Text;
use crate::report::units::{bytes, count, percent};

/// Rows that the overview shows.
const ROWS: usize = 10;

/// Draws the section.
pub fn graphs(screen: &mut Screen<'_>, run: &Run<'_>) {
    let graphs = &run.all.graphs;
    if graphs.launches == 0 {
        return screen.none("Graphs", "no graph was launched");
    }
    let durations = &graphs.durations;
    let mut sentence = format!(
        "{} ran {}; {} timed",
        plural(graphs.launches, "launch", "launches"),
        plural(graphs.kernels, "kernel", "kernels"),
        count(durations.count())
    );
    if let Some((total, median)) = graphs.total().zip(durations.median()) {
        sentence.push_str(&format!(
            ": {} in total, {} of wall, median {}",
            about(total),
            percent(total.value, run.gpu_wall()),
            about(median)
        ));
    }
    screen.section("Graphs", sentence);
    let moved =
        [("copies", graphs.copies), ("memsets", graphs.sets)].into_iter().filter(|(_, m)| m.count > 0);
    let mut moved: Vec<String> =
        moved.map(|(kind, m)| format!("{} {kind} of {}", count(m.count), bytes(m.bytes))).collect();
    if graphs.others > 0 {
        moved.push(format!("{} other nodes", count(graphs.others)));
    }
    if !moved.is_empty() {
        screen.more(format!("inside graphs: {}", moved.join(", ")));
    }
    if graphs.sampled > 0 {
        let sampled = plural(graphs.sampled, "launch", "launches");
        screen.more(format!("kernel times are from {sampled}; each includes the cost of an event"));
    }
    kernels(screen, &run.all);
}

/// Draws the kernels by how often they ran in graphs, with times from the launches whose nodes were timed.
fn kernels(screen: &mut Screen<'_>, all: &Tables) {
    let untimed = Durations::default();
    let mut rows: Vec<(Stats, u64)> = all
        .kernels
        .iter()
        .filter(|kernel| kernel.in_graphs > 0)
        .map(|kernel| {
            let timed = all.graphs.nodes.get(&kernel.symbol).unwrap_or(&untimed);
            // The total is not known: the launches with node times are not a random sample of all launches.
            (Stats::of(timed, None, kernel.in_graphs, &kernel.symbol), timed.count())
        })
        .collect();
    screen.view.sort.apply(&mut rows, |(stats, _)| stats.keys());
    let mut table = Table::new(&[
        right("ran"),
        right("samples"),
        right("avg"),
        right("med"),
        right("min").or_drop(2),
        right("max").or_drop(1),
        right("stddev").or_drop(3),
        names("name", shorten),
    ]);
    let shown = screen.view.rows(ROWS).min(rows.len());
    for (row, samples) in &rows[..shown] {
        table.row([
            number(row.count),
            if *samples > 0 { number(*samples) } else { NONE.into() },
            estimate(row.avg),
            estimate(row.med),
            estimate(row.min),
            estimate(row.max),
            estimate(row.stddev),
            Text::from(&row.name),
        ]);
    }
    screen.table(&table, rows.len() - shown, "graphs");
}
