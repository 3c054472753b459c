//! //! Measures how far reported durations are from the truth. `scripts/accuracy.sh` prints docs/accuracy.md from here.

use crate::compare::{Compared, compare, estimated};
use crate::estimates::{by_kind, is_far_off, is_wide, mix};
use crate::random_programs::{self, Breadth, Setting};
use gpuspy_collector::model::typical::Prior;
use gpuspy_tests::{Done, Run, root};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// What kind of stream an operation was on.
#[derive(Clone, Copy)]
struct Place {
    /// Only one thread used it.
    is_alone: bool,
    /// It is its context's legacy default stream.
    is_legacy: bool,
}

/// A row of the page: the simulator's settings, and which operations count.
struct Situation {
    name: &'static str,
    setting: Setting,
    counts: fn(&Compared, Place) -> bool,
}

const SITUATIONS: &[Situation] = &[
    Situation {
        name: "drained stream",
        setting: &[],
        counts: |c, place| c.truth.queue == 0 && place.is_alone && !place.is_legacy,
    },
    Situation {
        name: "queued stream",
        setting: &[],
        counts: |c, place| c.truth.queue > 0 && place.is_alone && !place.is_legacy,
    },
    Situation {
        name: "several threads on a stream",
        setting: &[],
        counts: |_, place| !place.is_alone && !place.is_legacy,
    },
    Situation { name: "legacy default stream", setting: &[], counts: |_, place| place.is_legacy },
    Situation {
        name: "event resolution 500 ns",
        setting: &[("SIMCUDA_EVENT_RESOLUTION_NS", "500")],
        counts: |_, _| true,
    },
    Situation {
        name: "an event costs the GPU 300 ns",
        setting: &[("SIMCUDA_EVENT_NS", "300")],
        counts: |_, _| true,
    },
    Situation {
        name: "clock drift +50 ppm",
        setting: &[("SIMCUDA_CLOCK_DRIFT_PPB", "50000")],
        counts: |_, _| true,
    },
    Situation {
        name: "clock drift -50 ppm",
        setting: &[("SIMCUDA_CLOCK_DRIFT_PPB", "-50000")],
        counts: |_, _| true,
    },
];

/// Mixes of work that is hard to time (`tests/programs/hard_to_time.c`) and a description of each, the worst first.
const MIXES: &[(&str, &str)] = &[
    ("drained", "1 µs kernels, each alone on an empty stream"),
    ("copies", "copies of 64 B to 1 MiB, pinned and pageable, some queued behind others"),
    ("some", "1 µs kernels on an empty stream, few of them queued behind others"),
    ("steps", "5 µs kernels at any distance, some queued behind others"),
    ("short", "a run of nine kernels of 20 µs and 200 µs, first launches among them"),
    ("random", "kernels of random lengths from 1 to 100 µs"),
];

/// What the best value of an operation may rest on when its own events do not determine it.
const ESTIMATORS: [Prior; 3] = [Prior::Never, Prior::Always, Prior::Agreeing];

/// Seeds of the random programs that run under each setting, besides the known work.
const SEEDS: std::ops::RangeInclusive<u64> = 1..=8;

/// Returns the page with these rows in its two tables.
fn page(rows: &str, mixes: &str) -> String {
    format!(
        "\
# How accurate the times are

An operation's duration is its GPU interval: from the moment at which it is submitted and at the head of its stream, to its
completion. The simulated GPU knows the truth. **Nothing here has been measured on a real GPU.**
`scripts/accuracy.sh > docs/accuracy.md` printed this page, from `tests/programs/work_driver.c` and the programs of seeds
{} to {} of `random_program.c`, each under the settings that a row names.

The error is |estimate - truth| in ns: of the corrected duration, which the report prints, and of the raw distance of the two
events. *Inside* is the share of true durations that lie in the interval reported with the estimate, with a tolerance of the
50 ppm by which the clocks of truth and GPU may differ; *clock width* is the median width of the interval that contains the
offset between GPU and host clock.

| situation | timed | corrected: median | p95 | raw: median | p95 | inside | clock width |
|---|--:|--:|--:|--:|--:|--:|--:|
{rows}
## Best values that the events do not determine

The first launch of a kernel, or one on an empty stream, can take anything from nothing to the distance of its two events. The
interval covers all of that; the best value inside it is a guess. These are programs made of such work
(`tests/programs/hard_to_time.c`, seeds {} to {}), by three estimators. *Alone* uses each operation's own events and the clock.
*Typical* uses the usual length of operations of its kind, wherever the events of two of them determine it. *Gated*, which the
report uses, does that only if those operations agree within a factor of 1.3 and at most one in ten of the others certainly took
another time; elsewhere it uses the two guesses that `collector/src/model/typical.rs` explains, for operations that the host was
late for.

*Wide* is the share of operations whose interval is wider than a fifth of their best value: the report marks totals that rest on
them. *Far off* is the share of best values that are more than a fifth off the truth; *worst total* is how far the total of a
kind of operations (a kernel, or copies of one direction, host memory and size) is off in a run, for the kind that is furthest
off.

| work | timed | wide | far off: alone | typical | gated | worst total: alone | typical | gated |
|---|--:|--:|--:|--:|--:|--:|--:|--:|
{mixes}",
        SEEDS.start(),
        SEEDS.end(),
        SEEDS.start(),
        SEEDS.end()
    )
}

/// Returns the operations of a run, each with the kind of stream that it was on.
fn placed(done: &Done) -> Vec<(Compared, Place)> {
    let truth = done.truth();
    // A context's first default stream is the legacy one: it exists before any thread can have its own.
    let mut legacy: BTreeMap<u64, u64> = BTreeMap::new();
    for line in truth.of("stream").filter(|line| line["default"] == true) {
        let (context, stream) = (line["context"].as_u64().unwrap(), line["stream"].as_u64().unwrap());
        legacy.entry(context).and_modify(|first| *first = stream.min(*first)).or_insert(stream);
    }
    let legacy: BTreeSet<u64> = legacy.into_values().collect();
    let compared = compare(done);
    let mut users: BTreeMap<u64, BTreeSet<u64>> = BTreeMap::new();
    for c in &compared {
        users.entry(c.truth.stream).or_default().insert(c.truth.tid);
    }
    let place = |c: &Compared| Place {
        is_alone: users[&c.truth.stream].len() == 1,
        is_legacy: legacy.contains(&c.truth.stream),
    };
    let places: Vec<Place> = compared.iter().map(place).collect();
    compared.into_iter().zip(places).collect()
}

/// Runs every program under a setting.
fn programs(setting: Setting) -> Vec<(Compared, Place)> {
    let work = setting.iter().fold(Run::of("work_driver"), |run, (name, value)| run.env(name, value));
    let runs = std::iter::once(work.observed())
        .chain(SEEDS.map(|seed| random_programs::run(seed, Breadth::Narrow, setting)));
    runs.flat_map(|done| placed(&done.succeeded())).collect()
}

fn quantile(values: &mut [u64], hundredths: usize) -> u64 {
    values.sort_unstable();
    values[(values.len() - 1) * hundredths / 100]
}

fn row(name: &str, operations: &[&Compared]) -> String {
    let timed: Vec<_> = operations.iter().filter_map(|c| Some((c.timed()?, c.violation()))).collect();
    assert!(timed.len() >= 100, "{name}: only {} operations are timed", timed.len());
    let mut corrected: Vec<u64> = timed.iter().map(|((o, truth), _)| o.value().abs_diff(*truth)).collect();
    let mut raw: Vec<u64> = timed.iter().map(|((o, truth), _)| o.raw.abs_diff(*truth)).collect();
    let mut widths: Vec<u64> = timed.iter().filter_map(|((o, _), _)| Some(2 * o.clock_half_width?)).collect();
    let outside: Vec<&String> = timed.iter().filter_map(|(_, violation)| violation.as_ref()).collect();
    assert!(outside.is_empty(), "{name}: {outside:#?}");
    format!(
        "| {name} | {} of {} | {} | {} | {} | {} | 100 % | {:.1} µs |\n",
        timed.len(),
        operations.len(),
        quantile(&mut corrected, 50),
        quantile(&mut corrected, 95),
        quantile(&mut raw, 50),
        quantile(&mut raw, 95),
        quantile(&mut widths, 50) as f64 / 1000.0,
    )
}

#[test]
#[ignore = "it checks nothing: scripts/accuracy.sh makes docs/accuracy.md with it"]
fn print_the_accuracy_page() {
    let out = std::env::var_os("GPUSPY_ACCURACY").expect("GPUSPY_ACCURACY names the file to write");
    let mut by_setting = BTreeMap::new();
    let mut rows = String::new();
    for situation in SITUATIONS {
        let all = by_setting.entry(situation.setting).or_insert_with(|| programs(situation.setting));
        let those: Vec<&Compared> =
            all.iter().filter(|(c, place)| (situation.counts)(c, *place)).map(|(c, _)| c).collect();
        write!(rows, "{}", row(situation.name, &those)).unwrap();
    }
    std::fs::write(out, page(&rows, &mixes())).unwrap();
}

/// Returns the rows for the mixes that are hard to time.
fn mixes() -> String {
    MIXES
        .iter()
        .map(|(name, what)| hard_row(what, &SEEDS.map(|seed| mix(name, seed)).collect::<Vec<_>>()))
        .collect()
}

/// Returns the row of one mix, from its runs.
fn hard_row(what: &str, runs: &[Done]) -> String {
    let share = |of: fn(&Compared) -> bool, all: &[Compared]| {
        all.iter().filter(|c| of(c)).count() as f64 / all.len() as f64 * 100.0
    };
    let mut row = String::new();
    let (mut far_off, mut totals) = (Vec::new(), Vec::new());
    for prior in ESTIMATORS {
        let runs: Vec<Vec<Compared>> = runs.iter().map(|done| estimated(done, prior)).collect();
        totals.push(runs.iter().map(|run| worst_total(run)).fold(0.0, f64::max));
        let all: Vec<Compared> = runs.into_iter().flatten().filter(|c| c.timed().is_some()).collect();
        if prior == Prior::Agreeing {
            row = format!("| {what} | {} | {:.0} % |", all.len(), share(is_wide, &all));
        }
        far_off.push(share(is_far_off, &all));
    }
    for percent in far_off.into_iter().chain(totals) {
        write!(row, " {percent:.1} % |").unwrap();
    }
    row + "\n"
}

/// Returns the error, in percent, of the total of a kind of operations, for the kind whose total is furthest off.
fn worst_total(run: &[Compared]) -> f64 {
    let off = |all: Vec<&Compared>| {
        let lengths = all.iter().filter_map(|c| c.timed()).map(|(o, truth)| (o.value(), truth));
        let (ours, truth) = lengths.fold((0, 0), |(ours, truth), (o, t)| (ours + o, truth + t));
        (ours as f64 / truth as f64 - 1.0).abs() * 100.0
    };
    by_kind(run).into_values().map(off).fold(0.0, f64::max)
}

/// Returns a page without the figures in its rows.
fn without_figures(page: &str) -> Vec<&str> {
    let names: Vec<&str> =
        SITUATIONS.iter().map(|s| s.name).chain(MIXES.iter().map(|(_, what)| *what)).collect();
    let is_row = |line: &str| names.iter().any(|name| line.starts_with(&format!("| {name} |")));
    page.lines()
        .map(|line| if is_row(line) { line.split('|').nth(1).unwrap_or(line) } else { line })
        .collect()
}

#[test]
fn the_accuracy_page_has_the_text_and_rows_that_the_script_prints() {
    let documented = std::fs::read_to_string(root().join("docs/accuracy.md")).unwrap();
    let rows: String = SITUATIONS.iter().map(|situation| format!("| {} |\n", situation.name)).collect();
    let mixes: String = MIXES.iter().map(|(_, what)| format!("| {what} |\n")).collect();
    assert_eq!(
        without_figures(&documented),
        without_figures(&page(&rows, &mixes)),
        "run scripts/accuracy.sh > docs/accuracy.md"
    );
}
