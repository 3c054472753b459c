//! The time that the host waited for the GPU: in synchronization calls, and in calls that synchronize implicitly.

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

/// Rows that the overview shows.
const ROWS: usize = 5;

/// Draws the section.
pub fn syncs(screen: &mut Screen<'_>, run: &Run<'_>) {
    let (all, queries) = (&run.all, queries(run));
    match (all.syncs.is_empty(), queries, all.implicit_syncs.is_empty()) {
        (true, None, true) => screen.none("Syncs", "no synchronization call was made"),
        (true, None, false) => screen.section("Syncs", "no explicit synchronization call was made"),
        (true, Some(queries), _) => screen.section("Syncs", queries),
        (false, queries, _) => {
            section(screen, run, "Syncs", &all.syncs, "syncs");
            queries.into_iter().for_each(|queries| screen.section("", queries));
        }
    }
    if !all.implicit_syncs.is_empty() {
        implicit(screen, run);
    }
}

/// Returns how often the host queried whether work was done. A loop of queries is a way to wait.
fn queries(run: &Run<'_>) -> Option<String> {
    let is_query = |api: &str| api.contains("EventQuery") || api.contains("StreamQuery");
    let mut made: Vec<_> = run.all.apis.iter().filter(|(api, _)| is_query(api)).collect();
    made.sort_by_key(|(_, times)| std::cmp::Reverse(times.count));
    let sum = |of: fn(&HostTimes) -> u64| made.iter().fold(0u64, |sum, (_, t)| sum.saturating_add(of(t)));
    let named: Vec<String> =
        made.iter().map(|(api, times)| format!("{api} {}", count(times.count))).collect();
    (!made.is_empty()).then(|| {
        format!(
            "{} whether work was done ({}): {} of wall in those calls",
            plural(sum(|times| times.count), "query", "queries"),
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

/// Draws the calls that synchronized implicitly.
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
            "implicit synchronization: {} waited {} for the GPU, {} of wall",
            plural(calls, "other call", "other calls"),
            duration(waited),
            percent(waited, run.host_wall())
        );
        screen.section("", Text::from(sentence).then(interval(lo, hi)));
        largest(&rows).into_iter().for_each(|cause| screen.more(advice(cause)));
    }
    // Where nothing is timed, every such call is undecided: the overview leaves that out.
    if undecided > 0 && !screen.view.sections.is_empty() {
        let more = if calls > 0 { "more" } else { "other" };
        screen.more(dim(format!(
            "{} may have waited{}, for at most {} of host time",
            plural(undecided, &format!("{more} call"), &format!("{more} calls")),
            if calls > 0 { " too" } else { "" },
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
        names("implicit synchronization", cut),
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

/// Returns the cause of the longest waits.
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

/// Returns what to change.
fn advice(cause: Cause) -> &'static str {
    match cause {
        Cause::Free => "reuse the buffer, free it when the GPU is done with it, or use cudaFreeAsync",
        Cause::HostFree => "reuse pinned buffers, or free them when the GPU is done with them",
        Cause::PageableCopy => {
            "use pinned memory (cudaMallocHost): only then is an asynchronous copy asynchronous"
        }
        Cause::BlockingCopy => {
            "use cudaMemcpyAsync with pinned memory, and synchronize where the data is needed"
        }
        Cause::Unload => "keep modules loaded, or unload them when the GPU is done",
        Cause::ContextEnd => {
            "synchronize before the context is destroyed, and keep one context for the whole process"
        }
    }
}
