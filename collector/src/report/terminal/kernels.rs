//! Kernels by time.

use super::screen::{Screen, about};
use super::stats::{self, Labels, Stats};
use super::{Run, occupancy};
use crate::report::names::shorten;
use crate::report::units::{count, percent, plural};

/// Rows that the overview shows.
const ROWS: usize = 10;

/// Draws the section. Kernels that ran only inside graphs are under "Graphs".
pub fn kernels(screen: &mut Screen<'_>, run: &Run<'_>) {
    let launched = || run.rows.kernels.iter().filter(|kernel| kernel.count > 0);
    let rows: Vec<Stats> = launched()
        .map(|kernel| Stats { shape: occupancy::shape(&kernel.shape), ..Stats::of(kernel) })
        .collect();
    if rows.is_empty() {
        return screen.none("Kernels", "no kernel was launched");
    }
    let launches: u64 = rows.iter().map(|row| row.count).sum();
    let mut sentence = format!(
        "{}, {}",
        plural(rows.len() as u64, "kernel", "kernels"),
        plural(launches, "launch", "launches")
    );
    let (total, wall) = (stats::sum(&rows), run.gpu_wall());
    if rows.iter().any(|row| row.total.is_some()) {
        let of_wall = format!("{} {}", percent(total.value, wall), run.of_gpu_wall());
        sentence.push_str(&format!("; {} on the GPU, {of_wall}", about(total)));
    }
    let untimed = rows.iter().filter(|row| row.total.is_none()).count() as u64;
    if untimed > 0 && total.value > 0 {
        sentence.push_str(&format!("; {} never timed", count(untimed)));
    }
    let timed: u64 = launched().map(|kernel| kernel.timed).sum();
    if 0 < timed && timed < launches {
        sentence.push_str(&format!("; med, min, max and stddev are of the {} timed", count(timed)));
    }
    screen.section("Kernels", sentence);
    let labels = Labels { section: "kernels", of_wall: run.of_gpu_wall(), count: "count", shorten };
    stats::draw(screen, rows, wall, ROWS, &labels);
}
