//! How long it took until the GPU had something to do, and what that time went to.

use super::Run;
use super::screen::{Screen, plural};
use crate::analyze::startup::{Calls, Part, Startup};
use crate::report::names::plain;
use crate::report::table::{Table, left, right};
use crate::report::text::{Text, Tone, dim};
use crate::report::units::{duration, percent};
use std::cmp::Reverse;

/// The overview shows the section from this share of wall time on, percent,
const WORTH_PERCENT: u64 = 5;
/// or from so many ns of a process on.
const WORTH_NS: u64 = 500_000_000;
/// Libraries that are named.
const LIBRARIES: usize = 3;

/// The section.
pub fn startup(screen: &mut Screen<'_>, run: &Run<'_>) {
    let Some(startup) = &run.all.startup else {
        return screen.none("Start-up", "no kernel ran");
    };
    let wall = run.host_wall();
    if screen.view.sections.is_empty() && !is_worth_it(startup, wall) {
        return;
    }
    let first = startup.first_kernel;
    let processes = match startup.processes {
        1 => String::new(),
        n => format!(" of {n} processes, added up"),
    };
    let interval = if first.lo == first.hi {
        Text::default()
    } else {
        dim(format!(" ({} to {})", duration(first.lo), duration(first.hi)))
    };
    let sentence = format!(
        "from the first CUDA call to the first kernel{processes} {}, {} of wall",
        duration(first.value),
        percent(first.value, wall)
    );
    screen.section("Start-up", Text::from(sentence).then(interval));
    let warm_up = startup.until_steady.whole();
    if startup.steady > 0 {
        let no_news = "until only kernels were launched that had been before";
        screen.more(format!("from there {}, {no_news}", duration(warm_up)));
    }
    loads(screen, startup);
    first_launches(screen, startup);
    advice(startup).into_iter().for_each(|advice| screen.more(advice));
    parts(screen, startup);
}

fn is_worth_it(startup: &Startup, wall: u64) -> bool {
    let cold = startup.first_kernel.value.saturating_add(startup.first_launches.excess_ns);
    cold >= WORTH_NS.saturating_mul(startup.processes)
        || cold.saturating_mul(100) >= wall.saturating_mul(WORTH_PERCENT)
}

fn loads(screen: &mut Screen<'_>, startup: &Startup) {
    let all = startup.all_loads();
    if all.count == 0 {
        return;
    }
    let mut libraries: Vec<(&Option<String>, &Calls)> = startup.loads.iter().collect();
    libraries.sort_by_key(|(_, calls)| Reverse(calls.host_ns));
    let named = libraries.iter().take(LIBRARIES).map(|(library, calls)| {
        let path = library.as_deref().unwrap_or("(caller unknown)");
        format!("{} {}", plain(path.rsplit('/').next().unwrap_or(path)), duration(calls.host_ns))
    });
    let named: Vec<String> = named.collect();
    screen.more(format!(
        "{} loaded in {}: {}",
        plural(all.count, "module", "modules"),
        duration(all.host_ns),
        named.join(", ")
    ));
}

fn first_launches(screen: &mut Screen<'_>, startup: &Startup) {
    let first = &startup.first_launches;
    if first.excess_ns > 0 {
        screen.more(format!(
            "first launches: {}, {} above their later launches",
            plural(first.compared.count, "kernel", "kernels"),
            duration(first.excess_ns)
        ));
    }
}

/// What to change about the largest part.
fn advice(startup: &Startup) -> Option<&'static str> {
    let of = |part| startup.until_kernel.of(part);
    let parts = [Part::Context, Part::Load, Part::Link, Part::Memory, Part::Copy, Part::Own];
    let parts = parts.into_iter().map(|part| (of(part), part));
    let (_, largest) =
        parts.chain([(startup.first_launches.excess_ns, Part::Launch)]).max_by_key(|(ns, _)| *ns)?;
    let is_eager = startup.module_loading.as_deref() == Some("EAGER");
    Some(match largest {
        Part::Context => {
            "a process that lives on makes its context once; CUDA_VISIBLE_DEVICES hides GPUs it does not use"
        }
        Part::Load if is_eager => {
            "CUDA_MODULE_LOADING=EAGER is set: LAZY loads a kernel when it is first launched"
        }
        Part::Load => "load fewer or smaller modules, built for this GPU alone, or keep the process alive",
        Part::Link => "link ahead of time, or keep what was linked for the next start",
        Part::Launch if is_eager => {
            "launch each kernel once before its time counts, or keep the process alive"
        }
        Part::Launch => {
            "launch each kernel once before its time counts; CUDA_MODULE_LOADING=EAGER loads all of them at the start"
        }
        Part::Memory => "take memory once and in large pieces, or while something else is loaded",
        Part::Copy => {
            "copy from pinned memory, and launch what does not need all of the data before it is there"
        }
        _ => "most of it is the program's own: what it reads, imports or compiles between its CUDA calls",
    })
}

fn parts(screen: &mut Screen<'_>, startup: &Startup) {
    let (first, warm_up) = (&startup.until_kernel, &startup.until_steady);
    let mut rows: Vec<Part> =
        Part::ALL.into_iter().filter(|part| first.of(*part) + warm_up.of(*part) > 0).collect();
    rows.sort_by_key(|part| Reverse(first.of(*part)));
    let mut table =
        Table::new(&[right("start-up"), right("share"), right("warm-up"), right("share"), left("in")]);
    let cells = |ns: u64, whole: u64| -> [Text; 2] {
        if whole == 0 { ["-".into(), "-".into()] } else { [duration(ns).into(), dim(percent(ns, whole))] }
    };
    for part in rows {
        let [start, start_share] = cells(first.of(part), first.whole());
        let [warm, warm_share] = cells(warm_up.of(part), warm_up.whole());
        let tone = if part == Part::Own { Tone::Plain } else { Tone::Waste };
        table.row([start, start_share, warm, warm_share, Text::toned(tone, part.label())]);
    }
    screen.table(&table, 0, "startup");
}
