//! Which operations may never have run?
//!
//! A process that is killed, that ends without a wait, or that still runs has issued operations that nothing shows to be over:
//! no later operation of their stream was seen to start, and the program did not wait for them. They are counted, but the
//! least that they took is nothing, and all of a stream together took no longer than the time that was left.
//!
//! What is known to be over is known by the moment at which its call had returned. Of the operations of a stream only two
//! generations are kept, each with its last such moment, so that a program whose waits lag behind its launches does not let
//! them grow: when the older one is over, the newer one takes its place.

use super::analysis::{Analysis, End, Start};
use super::extrapolate::Why;
use super::graphs::GraphUse;
use super::kernels::{Kernel, Shaped, symbol};
use super::scope::Scope;
use super::timeline::completed;
use super::transfers::{SizeStep, Transfers};
use crate::hash::HashMap;
use crate::model::gpu_interval::host;
use crate::model::transfer::{HostMemory, TransferKind};
use crate::model::{Action, Drained, Event, Operation, When};
use crate::trace::record::{Body, Names, What as Ran, Work};

/// The stream id by which the operations of destroyed streams are kept: no stream has it.
const DESTROYED: u64 = u64::MAX;

/// Operations of one stream that nothing shows to be over.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pending {
    /// How long they can have run in all, ns.
    pub left: u64,
    /// How many of each kind.
    pub kinds: Vec<(Kind, u64)>,
}

/// Operations that the tables count as one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Kind {
    /// The device's ordinal.
    pub device: Option<u32>,
    /// What they do.
    pub what: What,
    /// Why they have no time of their own.
    pub why: Why,
}

/// What an operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum What {
    /// It runs a kernel, by the number of its name.
    Kernel(u32, Shaped),
    /// It launches a graph, by its number.
    Graph(u32),
    /// It copies or memsets memory.
    Transfer(TransferKind, HostMemory, SizeStep),
}

/// The tables that count operations.
#[derive(Debug)]
pub struct Counted<'t> {
    /// Kernels.
    pub kernels: &'t mut [Kernel],
    /// Graphs.
    pub graphs: &'t mut GraphUse,
    /// Copies and memsets.
    pub transfers: &'t mut Transfers,
}

/// Tells the tables of operations which of theirs may never have run.
pub fn settle(all: &[Pending], mut tables: Counted<'_>, names: &Names) {
    for Pending { left, kinds } in all {
        let time = kinds.iter().map(|(kind, count)| expected(&tables, names, kind).saturating_mul(*count));
        let time = time.fold(0u64, u64::saturating_add);
        let ran = (*left as f64 / time.max(1) as f64).min(1.0);
        for (kind, count) in kinds {
            doubt(&mut tables, names, kind, (*count, *count as f64 * (1.0 - ran)));
        }
    }
    if !all.is_empty() {
        tables.kernels.sort_by_cached_key(Kernel::rank);
    }
}

/// Returns how long one operation takes, ns, by those that were timed; 0 if none was.
fn expected(tables: &Counted<'_>, names: &Names, kind: &Kind) -> u64 {
    let device = kind.device;
    match kind.what {
        What::Kernel(name, shape) => {
            let kernel = tables.kernels.iter().find(|kernel| kernel.symbol == symbol(names, name));
            kernel.map_or(0, |kernel| kernel.strata.expected(device, shape))
        }
        What::Graph(graph) => tables.graphs.strata.expected(device, graph),
        What::Transfer(way, memory, size) => {
            tables.transfers.get(&(way, memory)).map_or(0, |of| of.strata.expected(device, size))
        }
    }
}

fn doubt(
    tables: &mut Counted<'_>,
    names: &Names,
    &Kind { device, what, why }: &Kind,
    (count, missing): (u64, f64),
) {
    match what {
        What::Kernel(name, shape) => {
            let symbol = symbol(names, name);
            if let Some(kernel) = tables.kernels.iter_mut().find(|kernel| kernel.symbol == symbol) {
                kernel.strata.doubt(device, shape, why, count, missing);
            }
        }
        What::Graph(graph) => tables.graphs.strata.doubt(device, graph, why, count, missing),
        What::Transfer(way, memory, size) => {
            if let Some(of) = tables.transfers.get_mut(&(way, memory)) {
                of.strata.doubt(device, size, why, count, missing);
            }
        }
    }
}

/// The analysis.
#[derive(Debug, Default)]
pub struct PendingFold {
    streams: HashMap<(u32, u64), Stream>,
}

#[derive(Debug, Default)]
struct Stream {
    /// When its last timed operation ended, by the best estimate: host ns on the line.
    ended: Option<i64>,
    older: Generation,
    newer: Generation,
}

#[derive(Debug, Default)]
struct Generation {
    kinds: HashMap<Kind, u64>,
    /// Host ns when the first was called, and when the call of the last one had returned.
    called: Option<u64>,
    returned: u64,
}

impl Generation {
    fn add(&mut self, kind: Kind, count: u64, (called, returned): (u64, u64)) {
        *self.kinds.entry(kind).or_default() += count;
        self.called = Some(self.called.map_or(called, |first| first.min(called)));
        self.returned = self.returned.max(returned);
    }

    /// Forgets all of them if all had been called by a moment.
    fn close(&mut self, until: u64) {
        if self.returned <= until && !self.kinds.is_empty() {
            *self = Generation::default();
        }
    }
}

impl Stream {
    /// What had been called by a moment is over.
    fn close(&mut self, until: u64) {
        self.older.close(until);
        self.newer.close(until);
        if self.older.kinds.is_empty() && !self.newer.kinds.is_empty() {
            std::mem::swap(&mut self.older, &mut self.newer);
        }
    }

    fn is_empty(&self) -> bool {
        self.older.kinds.is_empty() && self.newer.kinds.is_empty()
    }

    /// Returns what is left until host ns `until`.
    fn left(self, until: u64) -> Pending {
        let called = [self.older.called, self.newer.called].into_iter().flatten().min().unwrap_or(until);
        let since = host(called).max(self.ended.unwrap_or(i64::MIN));
        let left = host(until).saturating_sub(since).max(0) as u64;
        let mut kinds: Vec<(Kind, u64)> = self.older.kinds.into_iter().chain(self.newer.kinds).collect();
        // Sums of fractions depend on their order.
        kinds.sort_unstable();
        Pending { left, kinds }
    }
}

impl PendingFold {
    fn operation(&mut self, event: &Event<'_>, operation: &Operation, counts: bool) {
        let stream = self.streams.entry((operation.context, operation.stream)).or_default();
        if let When::Timed(interval) = operation.when {
            stream.ended = stream.ended.max(Some(interval.end));
            // A burst has the time of launches that were called after its first one.
            let is_burst = matches!(operation.what, Action::Burst { .. });
            stream.close(if is_burst { operation.returned } else { operation.called });
        } else if let (Some(why), Some(what)) = (Why::of(&operation.when), what(event, operation))
            && counts
        {
            let kind = Kind { device: operation.device, what, why };
            stream.newer.add(kind, 1, (operation.called, operation.returned));
        }
    }

    fn over(&mut self, over: Drained) {
        let all = self.streams.iter_mut().filter(|((context, _), _)| *context == over.context);
        match over.stream {
            None => all.for_each(|(_, stream)| stream.close(over.issued_before)),
            Some(stream) => {
                if let Some(stream) = self.streams.get_mut(&(over.context, stream)) {
                    stream.close(over.issued_before);
                }
            }
        }
    }

    /// Forgets a stream that was destroyed, but not what is in it.
    fn destroyed(&mut self, (context, stream): (u32, u64)) {
        let Some(gone) = self.streams.remove(&(context, stream)).filter(|gone| !gone.is_empty()) else {
            return;
        };
        let all = self.streams.entry((context, DESTROYED)).or_default();
        for Generation { kinds, called, returned } in [gone.older, gone.newer] {
            let calls = (called.unwrap_or(returned), returned);
            kinds.into_iter().for_each(|(kind, count)| all.newer.add(kind, count, calls));
        }
    }
}

/// Returns what an operation does, as the tables have it.
fn what(event: &Event<'_>, operation: &Operation) -> Option<What> {
    match operation.what {
        Action::Kernel { name, .. } => Some(What::Kernel(name, Shaped::of(&event.record.body))),
        Action::Transfer { kind, host_memory, bytes } => {
            Some(What::Transfer(kind, host_memory, SizeStep::of(bytes)))
        }
        Action::Graph { .. } => match &event.record.body {
            Body::Work(Work { what: Ran::Graph { graph, .. }, .. }) => Some(What::Graph(*graph)),
            _ => None,
        },
        // Its launches are counted.
        Action::Burst { .. } => None,
    }
}

impl<'a> Analysis<'a> for PendingFold {
    type Rows = Vec<Pending>;

    fn new(_: &Start<'a>) -> Self {
        PendingFold::default()
    }

    fn observe(&mut self, event: &Event<'_>, scope: &Scope<'_>) {
        if let Some(operation) = &event.operation {
            self.operation(event, operation, scope.operation().is_some());
        }
        completed(event).for_each(|drained| self.over(drained));
        match &event.record.body {
            Body::Context(context) if context.destroyed => {
                self.streams.retain(|(owner, _), _| *owner != context.context);
            }
            Body::Stream(stream) if stream.destroyed => self.destroyed((stream.context, stream.stream)),
            _ => {}
        }
    }

    fn finish(self, end: &End<'_>) -> Vec<Pending> {
        let open = self.streams.into_iter().filter(|(_, stream)| !stream.is_empty());
        let mut open: Vec<_> = open.collect();
        // So that the result is the same each time.
        open.sort_by_key(|(key, _)| *key);
        open.into_iter().map(|(_, stream)| stream.left(end.ended)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::analysis::finish_at;
    use super::*;
    use crate::model::Reason;
    use crate::model::simulation::{exactly, operation};
    use crate::trace::record::Record;
    use gpuspy_wire::record::{LossCause, Namespace, Untimed};

    const KERNEL: Action = Action::Kernel { name: 1, communication: false };

    /// Launches of one stream, each called right after the one before, of which the first `timed` ran for 1000 ns each.
    fn launched(fold: &mut PendingFold, launches: u64, timed: u64) {
        for n in 0..launches {
            let ran = When::Timed(exactly(1_000 * n as i64, 1_000 * (n as i64 + 1)));
            let lost = When::Untimed { reason: Reason::Lost, after: Some(n as i64) };
            let when = if n < timed { ran } else { lost };
            observe(fold, Some(Operation { when, ..operation(KERNEL, (n, n + 1)) }), Vec::new());
        }
    }

    fn observe(fold: &mut PendingFold, operation: Option<Operation>, drained: Vec<Drained>) {
        let record = Record { thread: 1, at: 0, body: Body::Loss { cause: LossCause::RingFull, count: 0 } };
        let event = Event { operation, drained, ..Event::new(&record) };
        fold.observe(&event, &Scope::whole(&event, true));
    }

    fn found(pending: &[Pending]) -> Vec<(u64, u64)> {
        pending.iter().map(|one| (one.left, one.kinds.iter().map(|(_, count)| count).sum())).collect()
    }

    #[test]
    fn launches_behind_the_last_one_that_was_seen_are_pending() {
        let mut fold = PendingFold::default();
        launched(&mut fold, 300, 208);
        assert_eq!(found(&finish_at(fold, 230_000)), [(22_000, 92)]);
    }

    #[test]
    fn what_the_program_waited_for_is_not_pending() {
        let waited = |stream, issued_before| Drained { context: 1, stream, issued_before, by: 0 };
        let left = |over: Drained| {
            let mut fold = PendingFold::default();
            launched(&mut fold, 300, 208);
            observe(&mut fold, None, vec![over]);
            found(&finish_at(fold, 230_000)).len()
        };
        assert_eq!((left(waited(Some(7), 300)), left(waited(None, 300))), (0, 0));
        assert_eq!((left(waited(Some(8), 300)), left(waited(Some(7), 299))), (1, 1));
    }

    /// A program that waits for the event of the step before: what it launched an hour ago is over.
    #[test]
    fn waits_that_lag_behind_leave_a_few_steps() {
        let mut fold = PendingFold::default();
        for step in 0..1_000u64 {
            for n in 0..10 {
                let at = 100 * step + n;
                let when = When::Untimed { reason: Reason::Untimed(Untimed::Budget), after: Some(at as i64) };
                observe(&mut fold, Some(Operation { when, ..operation(KERNEL, (at, at + 1)) }), Vec::new());
            }
            let issued_before = (100 * step).saturating_sub(50);
            let over = Drained { context: 1, stream: Some(7), issued_before, by: 0 };
            observe(&mut fold, None, vec![over]);
        }
        let [(_, count)] = found(&finish_at(fold, 100_000))[..] else { panic!("one stream") };
        assert!((10..=40).contains(&count), "{count}");
    }

    /// 300 launches of 1 ms were said to have run for 300 ms, at least 299.99, of a process that was killed after 230 ms.
    #[test]
    fn launches_that_never_ran_take_no_time() {
        let names = Names([((Namespace::Kernel, 1), "work".to_owned())].into());
        let mut kernel = Kernel { symbol: "work".to_owned(), count: 300, ..Kernel::default() };
        for n in 0..300 {
            kernel.strata.add(Shaped::default(), 1, (n < 210).then_some(1_000));
        }
        let kind = Kind { device: Some(0), what: What::Kernel(1, Shaped::default()), why: Why::Paused };
        let told = |left| {
            let pending = vec![Pending { left, kinds: vec![(kind, 90)] }];
            let mut kernels = [kernel.clone()];
            let (graphs, transfers) = (&mut GraphUse::default(), &mut Transfers::default());
            settle(&pending, Counted { kernels: &mut kernels, graphs, transfers }, &names);
            let (total, paused) = (kernels[0].total().unwrap(), kernels[0].strata.paused(Some(0)));
            // Each launch that ran took 1 µs: the mean of 300 was less than any.
            assert_eq!(kernels[0].mean().map(|mean| mean.value.round()), Some(1_000.0));
            ([total.lo, total.value, total.hi], [paused.time.lo, paused.time.value])
        };
        assert_eq!(told(20_000), ([210_000, 230_000, 300_001], [0.0, 20_000.0]));
        assert_eq!(told(500_000), ([210_000, 300_000, 300_001], [0.0, 90_000.0]), "all of them may have run");
    }
}
