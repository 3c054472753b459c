//! How far off are the durations? `scripts/accuracy.sh` prints docs/accuracy.md from here.

use crate::compare::{Compared, compare};
use crate::random::{self, Breadth, Setting};
use gpuspy_tests::{Done, Run, root};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// Where a stream stood in its program.
#[derive(Clone, Copy)]
struct Place {
    /// One thread used it.
    is_alone: bool,
    /// It is its context's legacy default stream.
    is_legacy: bool,
}

/// A row: what the stand-in is set to, and which operations count.
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

/// Random programs of each setting, besides the known work.
const SEEDS: std::ops::RangeInclusive<u64> = 1..=8;

/// The page, with this for the rows.
fn page(rows: &str) -> String {
    format!(
        "\
# How accurate the times are

An operation's duration is its stream occupancy: from being submitted and at the head of its stream, to its completion. The
stand-in GPU knows it. **Nothing here has been measured on a real GPU.** `scripts/accuracy.sh > docs/accuracy.md` printed
this page, from `tests/programs/work_driver.c` and the programs of seeds {} to {} of `random_program.c`, each under the
settings that a row names.

The error is |estimate - truth| in ns: of the corrected duration, which the report prints, and of the raw distance of the two
events. *Inside* is how many of the true durations lie in the interval that is given with the estimate, give or take the 50 ppm
that the clocks of truth and GPU may differ by; *clock width* is the median width of the interval that the offset between GPU
and host clock is known to lie in.

| situation | timed | corrected: median | p95 | raw: median | p95 | inside | clock width |
|---|--:|--:|--:|--:|--:|--:|--:|
{rows}",
        SEEDS.start(),
        SEEDS.end()
    )
}

/// The operations of a run, each with the place of its stream.
fn placed(done: &Done) -> Vec<(Compared, Place)> {
    let truth = done.truth();
    // A context's first default stream is the legacy one: it is there before any thread can have its own.
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

/// Everything that runs under a setting.
fn programs(setting: Setting) -> Vec<(Compared, Place)> {
    let work = setting.iter().fold(Run::of("work_driver"), |run, (name, value)| run.env(name, value));
    let runs =
        std::iter::once(work.observed()).chain(SEEDS.map(|seed| random::run(seed, Breadth::Narrow, setting)));
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
#[ignore = "prints the page for scripts/accuracy.sh"]
fn the_page_of_accuracy() {
    let out = std::env::var_os("GPUSPY_ACCURACY").expect("GPUSPY_ACCURACY names the file to write");
    let mut by_setting = BTreeMap::new();
    let mut rows = String::new();
    for situation in SITUATIONS {
        let all = by_setting.entry(situation.setting).or_insert_with(|| programs(situation.setting));
        let those: Vec<&Compared> =
            all.iter().filter(|(c, place)| (situation.counts)(c, *place)).map(|(c, _)| c).collect();
        write!(rows, "{}", row(situation.name, &those)).unwrap();
    }
    std::fs::write(out, page(&rows)).unwrap();
}

/// A page without the figures of its rows.
fn without_figures(page: &str) -> Vec<&str> {
    let is_row = |line: &str| SITUATIONS.iter().any(|s| line.starts_with(&format!("| {} |", s.name)));
    page.lines()
        .map(|line| if is_row(line) { line.split('|').nth(1).unwrap_or(line) } else { line })
        .collect()
}

#[test]
fn the_documented_accuracy_is_what_the_command_prints() {
    let documented = std::fs::read_to_string(root().join("docs/accuracy.md")).unwrap();
    let rows: String = SITUATIONS.iter().map(|situation| format!("| {} |\n", situation.name)).collect();
    assert_eq!(
        without_figures(&documented),
        without_figures(&page(&rows)),
        "run scripts/accuracy.sh > docs/accuracy.md"
    );
}
