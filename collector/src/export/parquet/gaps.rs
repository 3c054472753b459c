//! The table of idle gaps, and that of steps.

use super::context::Context;
use super::layout::{Cell, fitted};
use super::sheet::Entries;
use super::tables::{Rows, Table};
use crate::analyze::gaps::rows::LaunchKind;
use crate::analyze::gaps::{Gap, LoggedGap, Neighbour};
use crate::analyze::idle::Cause;
use crate::analyze::idle::split::Divided;
use crate::model::gpu_interval::host;
use crate::model::{Action, Event};

/// What an operation beside a gap is: its kind, its kernel, and its line.
type Side = (&'static str, u32, u32);

/// The table of gaps.
#[derive(Debug, Default)]
pub(super) struct Gaps {
    /// By device and leading thread.
    places: Entries<(Option<u32>, Option<u32>)>,
    causes: Entries<[Option<Cause>; 3]>,
    before: Entries<Side>,
    after: Entries<Side>,
}

impl Gaps {
    /// Adds a gap.
    pub fn add(&mut self, of: &mut Context<'_>, rows: &mut Rows<'_>, logged: &LoggedGap) {
        let LoggedGap { device, start, gap } = *logged;
        let Gap { duration, before, after, host: Divided { causes, .. }, leader, .. } = gap;
        let table = Table::Gap;
        let thread = leader.map(|(_, thread)| thread);
        let place = rows.entry((table, 0), &mut self.places, (device, thread), || {
            let tid = thread.map_or(Cell::Null, |thread| of.tid(thread));
            let [process, pid] = of.whose();
            vec![Cell::number(device), tid, process, pid]
        });
        let names = causes.map(|cause| cause.map(|(cause, _)| cause));
        let cause = rows.entry((table, 1), &mut self.causes, names, || {
            names.map(|cause| Cell::text(cause.map(Cause::name))).to_vec()
        });
        let key = side(&before);
        let first = rows.entry((table, 2), &mut self.before, key, || beside(of, key));
        let key = side(&after);
        let then = rows.entry((table, 3), &mut self.after, key, || {
            let mut cells = beside(of, key);
            cells.push(of.line(key.2));
            cells
        });
        let [one, two, three] = causes.map(|cause| cause.map(|(_, ns)| fitted(ns)));
        let own = [
            Some(start),
            Some(start.saturating_add(host(duration.value))),
            Some(fitted(duration.value)),
            Some(fitted(duration.lo)),
            Some(fitted(duration.hi)),
            one,
            two,
            three,
            Some(fitted(before.correlation)),
            Some(fitted(after.correlation)),
        ];
        rows.add(table, &own, &[place, cause, first, then]);
    }
}

fn side(neighbour: &Neighbour) -> Side {
    let (kind, kernel) = match neighbour.what {
        Action::Kernel { name, .. } => (LaunchKind::Kernel.name(), name),
        Action::Graph { .. } => (LaunchKind::Graph.name(), 0),
        Action::Burst { .. } if neighbour.what.is_run() => (LaunchKind::Run.name(), 0),
        Action::Burst { .. } => (LaunchKind::Burst.name(), 0),
        Action::Transfer { kind, .. } => (kind.name(), 0),
    };
    (kind, kernel, neighbour.caller.line)
}

fn beside(of: &mut Context<'_>, (kind, kernel, line): Side) -> Vec<Cell> {
    let [name, ..] = if kernel == 0 { Default::default() } else { of.kernel(kernel) };
    vec![Cell::text(Some(kind)), name, of.line(line)]
}

/// The table of steps.
#[derive(Debug, Default)]
pub(super) struct Steps {
    /// The step that has not ended: its number, its start, and its thread.
    current: Option<(u64, u64, u32)>,
    /// The number of the step that the last event belonged to.
    step: Option<u64>,
    threads: Entries<u32>,
}

impl Steps {
    /// Takes the next event.
    pub fn observe(&mut self, of: &Context<'_>, rows: &mut Rows<'_>, event: &Event<'_>) {
        let Some(step) = event.step.filter(|_| event.step != self.step) else { return };
        self.step = event.step;
        let at = event.record.began().unwrap_or(event.record.at);
        self.end(of, rows, Some(at));
        self.current = Some((step, at, event.record.thread));
    }

    /// Adds the step that has not ended. Of the last one of the trace, the end is not known.
    pub fn end(&mut self, of: &Context<'_>, rows: &mut Rows<'_>, end: Option<u64>) {
        let Some((step, start, thread)) = self.current.take() else { return };
        if of.period.contains(host(start)) {
            let by = rows.entry((Table::Step, 0), &mut self.threads, thread, || {
                let [process, pid] = of.whose();
                vec![of.tid(thread), process, pid]
            });
            rows.add(Table::Step, &[Some(fitted(step)), Some(fitted(start)), end.map(fitted)], &[by]);
        }
    }
}
