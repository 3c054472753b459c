//! The ranks of a job: one line for each, and those that the others wait for.

use super::Run;
use super::screen::{NONE, Screen, number, time};
use crate::analyze;
use crate::analyze::ranks::Ranks;
use crate::analyze::ranks::odd::Odd;
use crate::diagnose::findings::straggler_rank;
use crate::diagnose::rank_names::with_host;
use crate::model::outcome::Outcome;
use crate::report::names::{cut, plain};
use crate::report::rows::ranks::Rank;
use crate::report::table::{Table, left, right};
use crate::report::text::{Text, Tone};
use crate::report::units::{bytes, count, duration, percent, plural};
use std::collections::{BTreeMap, BTreeSet};

/// The most ranks that are shown one by one unless the user asks for more: so many fit on a screen of 24 lines.
const FEW: usize = 16;
/// The most in the overview, which has the verdict and the findings beside them.
const FEWEST: usize = 11;
/// The most outliers that it names.
const OUTLIERS: usize = 8;

/// Draws the section, for a run of several ranks.
pub fn ranks(screen: &mut Screen<'_>, run: &Run<'_>) {
    let rows = &run.rows.ranks;
    if rows.is_empty() {
        return screen.none("Ranks", "no two processes have ranks");
    }
    screen.section("Ranks", sentence(run));
    more(screen, run);
    let is_overview = !screen.view.is_selected();
    let few = if is_overview { FEWEST } else { FEW };
    let most = screen.view.rows(if rows.len() > few { 0 } else { few });
    let shown: Vec<&Rank> =
        if is_overview && most == 0 { outliers(run) } else { rows.iter().take(most).collect() };
    // On one machine its name tells no ranks apart.
    let has_hosts = run.rows.compared.has_hosts();
    let mut table = table(has_hosts);
    if rows.len() > few {
        summary(&mut table, rows, has_hosts);
    }
    shown.iter().for_each(|rank| row(&mut table, rank, has_hosts));
    screen.table(&table, rows.len() - shown.len(), "ranks");
}

/// Says what the section says above its table.
pub fn sentences(screen: &mut Screen<'_>, run: &Run<'_>) {
    if !run.rows.ranks.is_empty() {
        screen.more(sentence(run));
        more(screen, run);
    }
}

fn more(screen: &mut Screen<'_>, run: &Run<'_>) {
    endings(screen, run);
    remarks(screen, run);
}

fn table(has_hosts: bool) -> Table {
    let mut columns = vec![left("rank"), left("host").or_drop(0), right("pid").or_drop(3)];
    if !has_hosts {
        columns.remove(1);
    }
    columns.extend([
        right("busy"),
        right("idle"),
        right("comm"),
        right("step"),
        right("late"),
        right("score"),
        right("memory"),
        right("found"),
        right("launches").or_drop(1),
        right("timed").or_drop(2),
    ]);
    Table::new(&columns)
}

/// The most columns of a machine's name.
const HOST: usize = 20;

fn row(table: &mut Table, rank: &Rank, has_hosts: bool) {
    let share = |ns: u64| percent(ns, rank.span_ns);
    let straggler = rank.straggler.as_ref();
    let compared = straggler.filter(|one| one.collectives > 0);
    let host = || rank.host.as_deref().map_or(NONE.to_owned(), |host| cut(&plain(host), HOST));
    let mut cells: Vec<Text> = vec![rank.rank.to_string().into()];
    cells.extend(has_hosts.then(|| host().into()));
    cells.extend([
        rank.pid.map_or(NONE.to_owned(), |pid| pid.to_string()).into(),
        share(rank.busy_ns.value).into(),
        share(rank.idle_ns.value).into(),
        share(rank.exposed_comm_ns.value).into(),
        time(rank.step_median_ns),
        time(compared.map(|one| one.late_ns)),
        score(straggler.and_then(|one| one.vs_best)),
        bytes(rank.memory_peak_bytes.value).into(),
        number(rank.findings),
        number(rank.launches),
        percent(timed_launches(rank), rank.launches).into(),
    ]);
    table.row(cells);
}

/// The launches of a rank that were timed, alone or in runs, as the overview counts them.
fn timed_launches(rank: &Rank) -> u64 {
    rank.timed.saturating_add(rank.timed_in_runs)
}

fn score(score: Option<f64>) -> Text {
    score.map_or(NONE.to_owned(), |score| format!("{score:.2}")).into()
}

/// A column of figures: what a rank has in it, and how that is written.
struct Figures {
    of: fn(&Rank) -> Option<f64>,
    text: fn(f64) -> String,
    /// The least distance from the median that is worth naming, and the least share of the median.
    least: f64,
    share: f64,
}

/// The columns of [`table`] after rank, host and pid.
const FIGURES: [Figures; 10] = [
    Figures { of: |one| share(one.busy_ns.value, one), text: shared, least: 0.05, share: 0.0 },
    Figures { of: |one| share(one.idle_ns.value, one), text: shared, least: 0.05, share: 0.0 },
    Figures { of: |one| share(one.exposed_comm_ns.value, one), text: shared, least: 0.05, share: 0.0 },
    Figures { of: |one| one.step_median_ns.map(|ns| ns as f64), text: timed, least: 0.0, share: 0.05 },
    Figures {
        of: |one| one.straggler.as_ref().filter(|one| one.collectives > 0).map(|one| one.late_ns as f64),
        text: timed,
        least: 0.0,
        share: f64::INFINITY,
    },
    Figures {
        of: |one| one.straggler.as_ref().and_then(|one| one.vs_best),
        text: |score| format!("{score:.2}"),
        least: 0.1,
        share: 0.0,
    },
    Figures {
        of: |one| Some(one.memory_peak_bytes.value as f64),
        text: |size| bytes(size as u64),
        least: 0.0,
        share: 0.1,
    },
    Figures { of: |one| Some(one.findings as f64), text: counted, least: 0.5, share: 0.0 },
    Figures { of: |one| Some(one.launches as f64), text: counted, least: 0.0, share: 0.05 },
    Figures {
        of: |one| (one.launches > 0).then(|| timed_launches(one) as f64 / one.launches as f64),
        text: shared,
        least: 0.2,
        share: 0.0,
    },
];

fn share(ns: u64, rank: &Rank) -> Option<f64> {
    (rank.span_ns > 0).then(|| ns as f64 / rank.span_ns as f64)
}

fn shared(share: f64) -> String {
    percent((share * 1e6).round() as u64, 1_000_000)
}

fn timed(ns: f64) -> String {
    duration(ns as u64)
}

fn counted(found: f64) -> String {
    count(found as u64)
}

/// Adds a row with the least, the median and the largest figure of each column.
fn summary(table: &mut Table, rows: &[Rank], has_hosts: bool) {
    for (name, place) in [("min", 0.0), ("median", 0.5), ("max", 1.0)] {
        let figures = FIGURES.iter().map(|figures| {
            let sorted = sorted(figures, rows);
            let at = (sorted.len().saturating_sub(1) as f64 * place).round() as usize;
            sorted.get(at).map_or(NONE.to_owned(), |value| (figures.text)(*value)).into()
        });
        let none = if has_hosts { 2 } else { 1 };
        table.row([Text::from(name)].into_iter().chain(vec![NONE.into(); none]).chain(figures));
    }
}

fn sorted(figures: &Figures, rows: &[Rank]) -> Vec<f64> {
    let mut values: Vec<f64> = rows.iter().filter_map(figures.of).collect();
    values.sort_by(f64::total_cmp);
    values
}

/// Returns the ranks that differ from the others, at most [`OUTLIERS`]: those that the others wait for, and those that
/// are far from the median of a column, the farthest first. Far is six times the median distance from the median.
fn outliers<'r>(run: &'r Run<'_>) -> Vec<&'r Rank> {
    let rows = &run.rows.ranks;
    let mut farness = vec![0.0f64; rows.len()];
    for figures in &FIGURES {
        let values = sorted(figures, rows);
        let Some(median) = values.get(values.len() / 2).copied() else { continue };
        let mut distances: Vec<f64> = values.iter().map(|value| (value - median).abs()).collect();
        distances.sort_by(f64::total_cmp);
        let far = (distances[distances.len() / 2] * 6.0).max(figures.least).max(figures.share * median.abs());
        for (farness, row) in farness.iter_mut().zip(rows) {
            let distance = (figures.of)(row).map_or(0.0, |value| (value - median).abs());
            if far > 0.0 && distance > far {
                *farness = farness.max(distance / far);
            }
        }
    }
    for place in run.rows.compared.odd.iter().flat_map(|odd| &odd.places) {
        farness[*place] = f64::INFINITY;
    }
    let mut far: Vec<usize> = (0..rows.len()).filter(|at| farness[*at] > 0.0).collect();
    far.sort_by(|a, b| farness[*b].total_cmp(&farness[*a]).then(a.cmp(b)));
    far.into_iter().take(OUTLIERS).map(|at| &rows[at]).collect()
}

/// Returns the sentence next to the title.
fn sentence(run: &Run<'_>) -> Text {
    let ranks = &run.rows.compared;
    let numbers: BTreeSet<u32> = ranks.rows.iter().map(|row| row.rank).collect();
    let count = match &ranks.missing {
        missing if missing.ranks.is_empty() => plural(numbers.len() as u64, "rank", "ranks"),
        missing => format!("{} of {}", numbers.len(), plural(missing.of.into(), "rank", "ranks")),
    };
    let matched = &ranks.matched;
    match &ranks.odd {
        Some(odd) => slower(ranks, odd),
        None if matched.compared > 0 && !matched.is_enough() => {
            let all = plural(matched.launched, "collective", "collectives");
            format!("{count}: too few of {all} could be compared ({} on all ranks)", matched.complete).into()
        }
        None if matched.compared > 0 => {
            let compared = plural(matched.compared, "collective", "collectives");
            let said = match ranks.waiting {
                waiting if waiting.is_noticeable() => format!(
                    "each waits {} for others in collectives on average ({}), and {}",
                    duration(waiting.mean),
                    percent(waiting.mean, waiting.span),
                    if matched.is_many() { "none stands out" } else { "they are too few to say for which" }
                ),
                _ => "none keeps the others waiting".to_owned(),
            };
            format!("{count}: {said} ({compared} compared)").into()
        }
        None => format!("{count}: when they came to their collectives is not known").into(),
    }
}

/// Returns the sentence about the ranks that the others wait for.
fn slower(ranks: &Ranks, odd: &Odd) -> Text {
    let are = if odd.places.len() > 1 { "are" } else { "is" };
    let said = format!("{} {are} slower than the others", plain(&with_host(ranks, &odd.places)));
    Text::toned(Tone::Waste, said).then(format!(": {}", plain(&straggler_rank::what_they_do(odd))))
}

/// Says which ranks did not end well.
pub fn endings(screen: &mut Screen<'_>, run: &Run<'_>) {
    let mut badly: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    // After a window of its time that is not the last, a process goes on.
    let processes = analyze::processes(run.reports);
    let last: BTreeSet<usize> = processes.iter().filter_map(|windows| windows.last()).copied().collect();
    for (place, rank) in run.rows.compared.rows.iter().enumerate() {
        if !last.contains(&rank.at) {
            continue;
        }
        let outcome = run.reports[rank.at].process.outcome;
        let is_well = |outcome: &Outcome| matches!(outcome, Outcome::Exited(None | Some(0)));
        if let Some(outcome) = outcome.filter(|outcome| !is_well(outcome)) {
            badly.entry(outcome.to_string()).or_default().push(place);
        }
    }
    for (outcome, ranks) in badly {
        let ranks = plain(&with_host(&run.rows.compared, &ranks));
        screen.more(Text::toned(Tone::Problem, format!("{ranks}: {outcome}")));
    }
}

/// Says what was compared with what, and what could not be compared.
fn remarks(screen: &mut Screen<'_>, run: &Run<'_>) {
    let Ranks { starts, is_uneven, rows, matched, .. } = &run.rows.compared;
    if let Some(missing) = straggler_rank::missing(&run.rows.compared) {
        screen.more(Text::toned(Tone::Problem, straggler_rank::unknown(&run.rows.compared, &missing)));
    }
    if *starts > 1 {
        let is_window = rows.iter().any(|row| run.reports[row.at].process.window.is_some());
        let is_part = || analyze::processes(run.reports).iter().any(|parts| parts.len() > 1);
        let what = match is_window {
            true => "in windows of time",
            false if is_part() => "collected more than once",
            false => "started more than once",
        };
        let uneven = if *is_uneven { ", not all of them with all ranks" } else { "" };
        screen.more(format!(
            "{what} ({starts}{uneven}): each has lines of its own, and is compared for itself"
        ));
    }
    if matched.uneven > 0 {
        let kernels = plural(matched.uneven, "communication kernel", "communication kernels");
        screen.more(format!("{kernels} launched more often on some ranks than on others: matched by order"));
    }
    if matched.apart > 0 {
        let all = matched.apart + matched.compared;
        let share = percent(matched.apart, all);
        screen.more(format!(
            "{share} of the collectives did not run at the same time on all ranks, or did not end together, and are \
             not compared: other communicators, or lost records"
        ));
    }
}
