//! How long the host waited for the GPU: in calls that are made to wait, and in calls that wait besides what they do.

use super::calls::section;
use super::screen::{Screen, interval, plural};
use super::{Run, screen};
use crate::analyze::calls::HostTimes;
use crate::analyze::waits::{Cause, Waited};
use crate::report::names::cut;
use crate::report::table::{Table, names, right};
use crate::report::text::{Text, dim};
use crate::report::units::{count, duration, percent};
use crate::report::view::Keys;
use std::collections::BTreeMap;

/// Rows that the overview has room for.
const ROWS: usize = 5;

/// The section.
pub fn syncs(screen: &mut Screen<'_>, run: &Run<'_>) {
    let (all, asked) = (&run.all, questions(run));
    match (all.syncs.is_empty(), asked, all.implicit_syncs.is_empty()) {
        (true, None, true) => screen.none("Syncs", "no call that waits was made"),
        (true, None, false) => screen.section("Syncs", "no synchronise call was made"),
        (true, Some(asked), _) => screen.section("Syncs", asked),
        (false, asked, _) => {
            section(screen, run, "Syncs", &all.syncs, "syncs");
            asked.into_iter().for_each(|asked| screen.section("", asked));
        }
    }
    if !all.implicit_syncs.is_empty() {
        implicit(screen, run);
    }
}

/// How often the host asked whether work is over: many times in a row, that is a way to wait.
fn questions(run: &Run<'_>) -> Option<String> {
    let is_question = |api: &str| api.contains("EventQuery") || api.contains("StreamQuery");
    let mut asked: Vec<_> = run.all.apis.iter().filter(|(api, _)| is_question(api)).collect();
    asked.sort_by_key(|(_, times)| std::cmp::Reverse(times.count));
    let sum = |of: fn(&HostTimes) -> u64| asked.iter().fold(0u64, |sum, (_, t)| sum.saturating_add(of(t)));
    let named: Vec<String> =
        asked.iter().map(|(api, times)| format!("{api} {}", count(times.count))).collect();
    (!asked.is_empty()).then(|| {
        format!(
            "asked {} whether work is over ({}): {} of wall in those calls",
            plural(sum(|times| times.count), "time", "times"),
            named.join(", "),
            percent(sum(|times| times.total), run.host_wall())
        )
    })
}

struct Row<'a> {
    name: String,
    cause: Cause,
    waited: &'a Waited,
}

/// Calls that waited though nobody asked them to.
fn implicit(screen: &mut Screen<'_>, run: &Run<'_>) {
    let syncs = run.all.implicit_syncs.iter();
    let all: Vec<Row<'_>> =
        syncs.map(|((api, cause), waited)| Row { name: named(api, *cause), cause: *cause, waited }).collect();
    let undecided = all.iter().map(|row| row.waited.undecided).sum::<u64>();
    let undecided_ns = all.iter().fold(0u64, |sum, row| sum.saturating_add(row.waited.undecided_host_ns));
    let mut rows: Vec<Row<'_>> = all.into_iter().filter(|row| row.waited.count > 0).collect();
    let sum = |of: fn(&Waited) -> u64| rows.iter().fold(0u64, |sum, row| sum.saturating_add(of(row.waited)));
    let (calls, waited) = (sum(|w| w.count), sum(|w| w.waited.value));
    let (lo, hi) = (sum(|w| w.waited.lo), sum(|w| w.waited.hi));
    if calls > 0 {
        let sentence = format!(
            "implicit: {} waited for {} until the GPU was done, {} of wall",
            plural(calls, "other call", "other calls"),
            duration(waited),
            percent(waited, run.host_wall())
        );
        screen.section("", Text::from(sentence).then(interval(lo, hi)));
        largest(&rows).into_iter().for_each(|cause| screen.more(advice(cause)));
    }
    // Where nothing is timed, that goes without saying.
    if undecided > 0 && !screen.view.sections.is_empty() {
        let more = if calls > 0 { "more" } else { "other" };
        screen.more(dim(format!(
            "{} may have waited{}: {} of host time at most",
            plural(undecided, &format!("{more} call"), &format!("{more} calls")),
            if calls > 0 { ", too" } else { "" },
            duration(undecided_ns)
        )));
    }
    screen.view.sort.apply(&mut rows, |row| Keys {
        total: Some(row.waited.waited.value),
        count: row.waited.count,
        name: &row.name,
        ..Keys::default()
    });
    let shown = screen.view.rows(ROWS).min(rows.len());
    let mut table = Table::new(&[
        right("waited"),
        right("of wall"),
        right("calls"),
        right("in calls"),
        names("implicit wait", cut),
    ]);
    for Row { name, waited, .. } in &rows[..shown] {
        table.row([
            screen::about(waited.waited.estimate()).into(),
            dim(percent(waited.waited.value, run.host_wall())),
            screen::number(waited.count),
            duration(waited.host_ns).into(),
            Text::from(name),
        ]);
    }
    if shown > 0 {
        screen.table(&table, rows.len() - shown, "syncs");
    }
}

/// Why the host waited longest.
fn largest(rows: &[Row<'_>]) -> Option<Cause> {
    let mut causes: BTreeMap<Cause, u64> = BTreeMap::new();
    for row in rows {
        let sum = causes.entry(row.cause).or_default();
        *sum = sum.saturating_add(row.waited.waited.value);
    }
    causes.into_iter().max_by_key(|(_, ns)| *ns).map(|(cause, _)| cause)
}

fn named(api: &str, cause: Cause) -> String {
    match cause {
        Cause::PageableCopy => format!("{api} (pageable memory)"),
        Cause::BlockingCopy => format!("{api} (blocking)"),
        _ => api.to_owned(),
    }
}

/// What to change.
fn advice(cause: Cause) -> &'static str {
    match cause {
        Cause::Free => "keep the buffer for the next use, free it when the GPU is done, or use cudaFreeAsync",
        Cause::HostFree => {
            "keep page-locked buffers for the next use, or give them back when the GPU is done"
        }
        Cause::PageableCopy => {
            "copy from and to pinned memory (cudaMallocHost): then an asynchronous copy is one"
        }
        Cause::BlockingCopy => "use cudaMemcpyAsync with pinned memory, and wait where the data is needed",
        Cause::Unload => "keep modules loaded, or unload them when the GPU is done",
        Cause::ContextEnd => {
            "wait for the GPU before its context ends, and keep one context for the whole process"
        }
    }
}
