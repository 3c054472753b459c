//! The time until the first kernel ran, and what it was spent on.

use super::Run;
use super::screen::{Screen, interval};
use crate::analyze::startup::Part;
use crate::report::names::{line, plain};
use crate::report::rows::startup::{Loads, Startup};
use crate::report::table::{Table, left, right};
use crate::report::text::{Text, Tone, dim};
use crate::report::units::{duration, percent, plural};
use std::cmp::Reverse;

/// The overview shows the section if start-up takes this share of wall time, in percent,
const WORTH_PERCENT: u64 = 5;
/// or this long per process, in ns.
const WORTH_NS: u64 = 500_000_000;
/// How many libraries are named.
const LIBRARIES: usize = 3;

/// Draws the section.
pub fn startup(screen: &mut Screen<'_>, run: &Run<'_>) {
    let Some(startup) = &run.rows.startup else {
        return none(screen, run);
    };
    let wall = run.host_wall();
    if !screen.view.is_selected() && !is_worth_it(startup, wall) {
        return;
    }
    let first = startup.first_kernel_ns;
    let processes = match startup.processes {
        1 => String::new(),
        n => format!(" (summed over {n} processes)"),
    };
    let captured = if is_captured(run) { " in the capture range" } else { "" };
    let sentence = format!(
        "first CUDA call to first kernel{captured}{processes}: {}, {} of wall",
        duration(first.value),
        percent(first.value, wall)
    );
    screen.section("Start-up", Text::from(sentence).then(interval(first.lo, first.hi)));
    let warm_up = startup.warm_up_ns;
    if startup.steady > 0 {
        let warm_up = duration(warm_up);
        screen.more(format!("warm-up: {warm_up} more until all launches were of kernels launched before"));
    }
    loads(screen, startup);
    first_launches(screen, startup);
    let own_ns = run.all.overhead.map_or(0, |overhead| overhead.agent_ns);
    let largest = largest(startup);
    // gpuspy creates its events with each context: the program has nothing to change if that may be most of it.
    let is_ours = largest == Part::Context && own_ns > startup.until_first_kernel_ns.part(Part::Context) / 2;
    advice(startup, largest).filter(|_| !is_ours).into_iter().for_each(|advice| screen.more(advice));
    parts(screen, startup);
    if own_ns > 0 && (is_ours || screen.view.is_selected()) {
        screen.remark(&own_cost(startup, own_ns));
    }
    remarks(screen, run, startup);
}

/// Says why there is nothing to show.
fn none(screen: &mut Screen<'_>, run: &Run<'_>) {
    let ran = run.all.coverage.launches > 0 || run.all.coverage.in_graphs > 0;
    if !ran {
        screen.none("Start-up", "no kernel ran");
    } else if screen.view.is_selected() {
        let limits = if is_captured(run) { "the capture range" } else { "these filters" };
        screen.section("Start-up", format!("the start of the program is outside {limits}"));
    }
}

/// Returns whether only captured ranges are reported: what came before them is not in the trace.
fn is_captured(run: &Run<'_>) -> bool {
    run.reports.iter().any(|report| report.process.captured.is_some())
}

fn is_worth_it(startup: &Startup, wall: u64) -> bool {
    let cold = startup.first_kernel_ns.value.saturating_add(startup.first_launches.excess_ns);
    cold >= WORTH_NS.saturating_mul(startup.processes)
        || cold.saturating_mul(100) >= wall.saturating_mul(WORTH_PERCENT)
}

fn loads(screen: &mut Screen<'_>, startup: &Startup) {
    let sum =
        |of: fn(&Loads) -> u64| startup.loads.iter().fold(0u64, |sum, loads| sum.saturating_add(of(loads)));
    let (modules, host_ns) = (sum(|loads| loads.count), sum(|loads| loads.host_ns));
    if modules == 0 {
        return;
    }
    let mut libraries: Vec<&Loads> = startup.loads.iter().collect();
    libraries.sort_by_key(|loads| Reverse(loads.host_ns));
    let named = libraries.iter().take(LIBRARIES).map(|loads| {
        let path = loads.library.as_deref().unwrap_or("(caller unknown)");
        let at = loads.line.as_deref().map_or_else(String::new, |at| format!(" at {}", line(at)));
        format!("{}{at} {}", plain(path.rsplit('/').next().unwrap_or(path)), duration(loads.host_ns))
    });
    let named: Vec<String> = named.collect();
    screen.more(format!(
        "{} loaded in {}: {}",
        plural(modules, "module", "modules"),
        duration(host_ns),
        named.join(", ")
    ));
}

fn first_launches(screen: &mut Screen<'_>, startup: &Startup) {
    let first = &startup.first_launches;
    if first.excess_ns > 0 {
        let at =
            first.main.line.as_deref().map_or_else(String::new, |at| format!(", most of it at {}", line(at)));
        screen.more(format!(
            "first launches of {} took {} longer than their later launches{at}",
            plural(first.compared, "kernel", "kernels"),
            duration(first.excess_ns)
        ));
    }
}

/// Returns the largest of the parts that a program can do something about. Of launches that is what the first ones took longer.
fn largest(startup: &Startup) -> Part {
    let of = |part| startup.until_first_kernel_ns.part(part);
    let parts = [Part::Context, Part::Load, Part::Link, Part::Memory, Part::Copy, Part::Own];
    let parts = parts.into_iter().map(|part| (of(part), part));
    let all = parts.chain([(startup.first_launches.excess_ns, Part::Launch)]);
    all.max_by_key(|(ns, _)| *ns).map_or(Part::Own, |(_, largest)| largest)
}

/// Returns what to change about the largest part.
fn advice(startup: &Startup, largest: Part) -> Option<&'static str> {
    let all = &startup.until_first_kernel_ns;
    let is_eager = startup.module_loading.as_deref() == Some("EAGER");
    Some(match largest {
        Part::Context => {
            "keep the process alive, so that it creates its context once; hide unused GPUs with CUDA_VISIBLE_DEVICES"
        }
        Part::Load if is_eager => {
            "CUDA_MODULE_LOADING=EAGER is set; with LAZY, a kernel is loaded when it is first launched"
        }
        Part::Load => "load fewer or smaller modules, built for this GPU only, or keep the process alive",
        Part::Link => "link ahead of time, or cache the linked module for the next start",
        Part::Launch if is_eager => {
            "launch each kernel once before timing matters, or keep the process alive"
        }
        Part::Launch => {
            "launch each kernel once before timing matters; CUDA_MODULE_LOADING=EAGER loads all of them at the start"
        }
        Part::Memory => "allocate memory once and in large blocks, or while something else is loaded",
        Part::Copy => {
            "use pinned memory, and launch kernels that do not need all of the data before it has arrived"
        }
        // Most of it may be launches, of which nothing is slow.
        _ if all.part(Part::Own) <= all.whole() / 2 => return None,
        _ => {
            "most of it is spent outside CUDA: in what the program reads, imports or compiles between its CUDA calls"
        }
    })
}

fn parts(screen: &mut Screen<'_>, startup: &Startup) {
    let (first, warm_up) = (&startup.until_first_kernel_ns, &startup.until_steady_ns);
    let mut rows: Vec<Part> =
        Part::ALL.into_iter().filter(|part| first.part(*part) + warm_up.part(*part) > 0).collect();
    rows.sort_by_key(|part| Reverse(first.part(*part)));
    let mut table =
        Table::new(&[right("start-up"), right("share"), right("warm-up"), right("share"), left("in")]);
    let cells = |ns: u64, whole: u64| -> [Text; 2] {
        if whole == 0 { ["-".into(), "-".into()] } else { [duration(ns).into(), dim(percent(ns, whole))] }
    };
    for part in rows {
        let [start, start_share] = cells(first.part(part), first.whole());
        let [warm, warm_share] = cells(warm_up.part(part), warm_up.whole());
        let tone = if part == Part::Own { Tone::Plain } else { Tone::Waste };
        table.row([start, start_share, warm, warm_share, Text::toned(tone, part.label())]);
    }
    screen.table(&table, 0, "startup");
}

/// Returns the profiling overhead of the start-up. The hooks' time is known only for the whole run and all threads.
fn own_cost(startup: &Startup, own_ns: u64) -> String {
    let until_kernel = duration(own_ns.min(startup.first_kernel_ns.value));
    format!(
        "at most {until_kernel} of the start-up is profiling overhead (gpuspy creates its events with each context); {} in the whole run",
        duration(own_ns)
    )
}

fn remarks(screen: &mut Screen<'_>, run: &Run<'_>, startup: &Startup) {
    let first = startup.first_kernel_ns;
    let off_by = first.value.saturating_sub(first.lo);
    if off_by.saturating_mul(100) >= first.value.saturating_mul(WORTH_PERCENT) {
        screen.remark(
            "a GPU's span starts at the earliest time at which its first operation may have started, not at the best \
             estimate as here: the time between may count as idle there",
        );
    }
    if run.filter().is_some() {
        screen.remark("of the filters, only those of time apply here");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analyze::startup;

    /// Of a start-up that was in launches for 92.7 % of its time, "most of it is spent outside CUDA" was said.
    #[test]
    fn a_start_that_launches_is_not_said_to_be_outside_cuda() {
        let advice = |launching, outside| {
            let mut of = Startup::of(&startup::Startup::default());
            (of.until_first_kernel_ns.launch, of.until_first_kernel_ns.own) = (launching, outside);
            advice(&of, largest(&of))
        };
        assert_eq!(advice(927, 57), None);
        assert_eq!(advice(400, 400), None);
        assert!(advice(57, 927).is_some_and(|advice| advice.contains("outside CUDA")));
    }
}
