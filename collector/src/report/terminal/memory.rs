//! The memory that was held: how much at most, when, how much in the end, how much came and went.

use super::Run;
use super::screen::{NONE, Screen, number, plural};
use crate::report::chart::sparkline;
use crate::report::table::{Table, left, right};
use crate::report::text::{Text, Tone, dim};
use crate::report::units::{bytes, count, duration, percent, rate};

/// The section.
pub fn memory(screen: &mut Screen<'_>, run: &Run<'_>) {
    let memory = &run.all.memory;
    let failed = memory.out_of_memory;
    if memory.by_kind.is_empty() && failed == 0 {
        return screen.none("Memory", "nothing was allocated");
    }
    screen.section("Memory", sentence(run));
    if failed > 0 {
        let calls = plural(failed, "call", "calls");
        let told = format!("  {calls} failed for lack of memory; Calls says which");
        screen.line(Text::toned(Tone::Problem, told));
    }
    timeline(screen, run);
    let mut table = Table::new(&[
        left("kind"),
        right("peak"),
        right("at").or_drop(2),
        right("live at end"),
        right("allocations"),
        right("frees"),
        right("allocated"),
        right("per second").or_drop(1),
    ]);
    let wall = run.host_wall();
    for (kind, part) in &memory.by_kind {
        let peak_at = if part.peak_bytes > 0 { duration(part.peak_at) } else { NONE.to_owned() };
        table.row([
            (*kind).into(),
            bytes(part.peak_bytes).into(),
            dim(peak_at),
            bytes(part.live_bytes).into(),
            number(part.allocations),
            number(part.frees),
            bytes(part.allocated_bytes).into(),
            format!("{}/s", bytes(rate(part.allocated_bytes, wall))).into(),
        ]);
    }
    screen.table(&table, 0, "memory");
}

fn sentence(run: &Run<'_>) -> String {
    let device = &run.all.memory.device;
    // The peak is that of one process; of several on one GPU it is no share of the GPU's memory.
    let sizes: Vec<u64> = run.all.devices.iter().filter_map(|device| device.memory_bytes).collect();
    let of = match sizes.as_slice() {
        [size] if run.reports.len() == 1 => {
            format!(" ({} of {})", percent(device.peak_bytes, *size), bytes(*size))
        }
        _ => String::new(),
    };
    let peak = format!("{}{of} at {}", bytes(device.peak_bytes), duration(device.peak_at));
    let (live, allocations) = (bytes(device.live_bytes), count(rate(device.allocations, run.host_wall())));
    format!("device: peak {peak}, {live} at the end, {allocations} allocations/s")
}

/// Device memory over time, of one process.
fn timeline(screen: &mut Screen<'_>, run: &Run<'_>) {
    let [only] = run.reports else { return };
    let line = &only.tables.memory.timeline;
    let most = line.peaks.iter().copied().max().unwrap_or(0);
    if most == 0 {
        return;
    }
    let from = duration(line.from_ns);
    let to = line.from_ns.saturating_add(line.bucket_ns.saturating_mul(line.peaks.len() as u64));
    let to = duration(to.min(only.process.period_ns.1));
    let room = screen.inner().saturating_sub(from.chars().count() + to.chars().count() + 2);
    let drawn = sparkline(&line.peaks, most, room, screen.style.ascii);
    screen.picture(dim(from).then(" ").then(drawn).then(" ").then(dim(to)));
}
