//! What ran inside graph launches.

use super::Run;
use super::screen::{NONE, Screen, about, estimate, line, number};
use super::stats::Stats;
use crate::hash::HashMap;
use crate::report::names::shorten;
use crate::report::rows::Report;
use crate::report::rows::graphs::{Graphs, Moves, Node};
use crate::report::rows::numbers::Estimate;
use crate::report::table::{Table, left, names, right};
use crate::report::text::Text;
use crate::report::units::{bytes, count, percent, plural};

/// Rows that the overview shows.
const ROWS: usize = 10;

/// Draws the section.
pub fn graphs(screen: &mut Screen<'_>, run: &Run<'_>) {
    let graphs = &run.rows.graphs;
    if graphs.launches == 0 {
        return screen.none("Graphs", "no graph was launched");
    }
    let mut sentence = format!(
        "{} ran {}; {} timed",
        plural(graphs.launches, "launch", "launches"),
        plural(graphs.kernels, "kernel", "kernels"),
        count(graphs.timed)
    );
    if let Some((total, median)) = graphs.total_ns.zip(graphs.median_ns) {
        sentence.push_str(&format!(
            ": {} in total, {} {}, median {}",
            about(total),
            percent(total.value, run.gpu_wall()),
            run.of_gpu_wall(),
            about(median)
        ));
    }
    screen.section("Graphs", sentence);
    let mut moved = inside(graphs);
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
    kernels(screen, &run.rows);
}

/// Returns the copies and memsets that graphs ran, in words.
pub fn inside(graphs: &Graphs) -> Vec<String> {
    let all = [("copy", "copies", &graphs.copies), ("memset", "memsets", &graphs.memsets)];
    let moved = all.into_iter().filter(|(.., moves)| moves.count > 0);
    let said = |(one, many, moves): (&str, &str, &Moves)| {
        format!("{} of {}", plural(moves.count, one, many), bytes(moves.bytes))
    };
    moved.map(said).collect()
}

/// Draws the kernels by how often they ran in graphs, with times from the launches whose nodes were timed.
fn kernels(screen: &mut Screen<'_>, all: &Report) {
    let nodes: HashMap<&str, &Node> =
        all.graphs.nodes.iter().map(|node| (node.symbol.as_str(), node)).collect();
    let mut rows: Vec<(Stats, u64)> = all
        .kernels
        .iter()
        .filter(|kernel| kernel.in_graphs > 0)
        .map(|kernel| {
            let node = nodes.get(kernel.symbol.as_str());
            let row = Stats {
                // The total is not known: the launches with node times are not a random sample of all launches.
                total: None,
                count: kernel.in_graphs,
                avg: node.and_then(|node| node.avg_ns).map(Estimate::rounded),
                med: node.and_then(|node| node.median_ns),
                min: node.and_then(|node| node.min_ns),
                max: node.and_then(|node| node.max_ns),
                stddev: node.and_then(|node| node.stddev_ns).map(Estimate::rounded),
                name: kernel.name.clone(),
                line: line(&kernel.captured),
                shape: Stats::no_shape(),
            };
            (row, node.map_or(0, |node| node.samples))
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
        left("captured at").or_drop(4),
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
            row.line.clone(),
            Text::from(&row.name),
        ]);
    }
    screen.table(&table, rows.len() - shown, "graphs");
}
