//! The time of launches: in the API call, in the queue, on the GPU.

use super::Run;
use super::screen::{Screen, estimate, number, time};
use super::stats::Stats;
use crate::report::names::shorten;
use crate::report::rows::kernels::Kernel;
use crate::report::rows::numbers::Estimate;
use crate::report::table::{Table, names, right};
use crate::report::text::Text;

/// Draws the section.
pub fn launches(screen: &mut Screen<'_>, run: &Run<'_>) {
    let timed = run.rows.kernels.iter().filter(|kernel| kernel.timed > 0);
    let mut kernels: Vec<(Stats, &Kernel)> = timed.map(|kernel| (Stats::of(kernel), kernel)).collect();
    if kernels.is_empty() {
        return screen.none("Launches", "no launch has a GPU time, so queue times are not known");
    }
    screen.section(
        "Launches",
        "time in the API call, in the queue (from the return of the call to the start on the GPU), and on the GPU",
    );
    screen.view.sort.apply(&mut kernels, |(stats, _)| stats.keys());
    let mut table = Table::new(&[
        right("timed"),
        right("call avg"),
        right("med").or_drop(3),
        right("queue avg"),
        right("med").or_drop(2),
        right("GPU avg"),
        right("med").or_drop(1),
        names("name", shorten),
    ]);
    let shown = screen.view.rows(usize::MAX).min(kernels.len());
    for (stats, kernel) in &kernels[..shown] {
        let call_avg = kernel.api.avg_ns.map(|mean| mean.round() as u64);
        table.row([
            number(kernel.timed),
            time(call_avg),
            time(kernel.api.median_ns.map(|median| median.value)),
            estimate(kernel.queue.avg_ns.map(Estimate::rounded)),
            estimate(kernel.queue.median_ns),
            estimate(stats.avg),
            estimate(stats.med),
            Text::from(&stats.name),
        ]);
    }
    screen.table(&table, kernels.len() - shown, "launches");
}
