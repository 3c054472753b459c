//! The time that the host waited for the GPU: in synchronization calls, and in calls that synchronize implicitly.

use super::calls::{row, section};
use super::screen::{Screen, interval};
use super::{Run, screen};
use crate::analyze::waits::Cause;
use crate::report::names::cut;
use crate::report::rows::calls::Api;
use crate::report::rows::syncs::ImplicitSync;
use crate::report::table::{Table, left, names, right};
use crate::report::text::{Text, dim};
use crate::report::units::{count, duration, percent, plural};
use crate::report::view::Keys;
use std::collections::BTreeMap;

/// Rows that the overview shows.
const ROWS: usize = 5;

/// Draws the section.
pub fn syncs(screen: &mut Screen<'_>, run: &Run<'_>) {
    let (rows, queries) = (&run.rows, queries(run));
    match (rows.syncs.is_empty(), queries, rows.implicit_syncs.is_empty()) {
        (true, None, true) => screen.none("Syncs", "no synchronization call was made"),
        (true, None, false) => screen.section("Syncs", "no explicit synchronization call was made"),
        (true, Some(queries), _) => screen.section("Syncs", queries),
        (false, queries, _) => {
            let rows =
                rows.syncs.iter().map(|sync| row(&sync.api, sync.failed, &sync.times, &sync.main)).collect();
            section(screen, run, "Syncs", rows, "syncs");
            queries.into_iter().for_each(|queries| screen.section("", queries));
        }
    }
    if !rows.implicit_syncs.is_empty() {
        implicit(screen, run);
    }
}

/// Returns how often the host queried whether work was done. A loop of queries is a way to wait.
fn queries(run: &Run<'_>) -> Option<String> {
    let is_query = |api: &str| api.contains("EventQuery") || api.contains("StreamQuery");
    let mut made: Vec<&Api> = run.rows.apis.iter().filter(|api| is_query(&api.name)).collect();
    made.sort_by_key(|api| std::cmp::Reverse(api.times.count));
    let sum = |of: fn(&Api) -> u64| made.iter().fold(0u64, |sum, api| sum.saturating_add(of(api)));
    let named: Vec<String> =
        made.iter().map(|api| format!("{} {}", api.name, count(api.times.count))).collect();
    (!made.is_empty()).then(|| {
        format!(
            "{} whether work was done ({}): {} of wall in those calls",
            plural(sum(|api| api.times.count), "query", "queries"),
            named.join(", "),
            percent(sum(|api| api.times.host_ns), run.host_wall())
        )
    })
}

struct Row<'a> {
    name: String,
    sync: &'a ImplicitSync,
}

/// Draws the calls that synchronized implicitly.
fn implicit(screen: &mut Screen<'_>, run: &Run<'_>) {
    let syncs = run.rows.implicit_syncs.iter();
    let all: Vec<Row<'_>> = syncs.map(|sync| Row { name: named(&sync.api, sync.cause), sync }).collect();
    let undecided = all.iter().map(|row| row.sync.undecided.count).sum::<u64>();
    let undecided_ns = all.iter().fold(0u64, |sum, row| sum.saturating_add(row.sync.undecided.host_ns));
    let mut rows: Vec<Row<'_>> = all.into_iter().filter(|row| row.sync.count > 0).collect();
    let sum =
        |of: fn(&ImplicitSync) -> u64| rows.iter().fold(0u64, |sum, row| sum.saturating_add(of(row.sync)));
    let (calls, waited) = (sum(|sync| sync.count), sum(|sync| sync.waited.value));
    let (lo, hi) = (sum(|sync| sync.waited.lo), sum(|sync| sync.waited.hi));
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
    if undecided > 0 && screen.view.is_selected() {
        let more = if calls > 0 { "more" } else { "other" };
        screen.more(dim(format!(
            "{} may have waited{}, for at most {} of host time",
            plural(undecided, &format!("{more} call"), &format!("{more} calls")),
            if calls > 0 { " too" } else { "" },
            duration(undecided_ns)
        )));
    }
    screen.view.sort.apply(&mut rows, |row| Keys {
        total: Some(row.sync.waited.value),
        count: row.sync.count,
        name: &row.name,
        ..Keys::default()
    });
    let shown = screen.view.rows(ROWS).min(rows.len());
    let mut table = Table::new(&[
        right("waited"),
        right("of wall"),
        right("calls"),
        right("in calls"),
        left("line").or_drop(1),
        names("implicit synchronization", cut),
    ]);
    for Row { name, sync } in &rows[..shown] {
        table.row([
            screen::about(sync.waited).into(),
            dim(percent(sync.waited.value, run.host_wall())),
            screen::number(sync.count),
            duration(sync.host_ns).into(),
            screen::line(&sync.main),
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
        let sum = causes.entry(row.sync.cause).or_default();
        *sum = sum.saturating_add(row.sync.waited.value);
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
        Cause::Load => "load code before the work that it would wait for, and keep it",
        Cause::Unload => "keep modules loaded, or unload them when the GPU is done",
        Cause::ContextEnd => {
            "synchronize before the context is destroyed, and keep one context for the whole process"
        }
    }
}
