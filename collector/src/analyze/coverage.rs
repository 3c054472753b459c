//! Coverage: what was observed, what was not, and why.

use super::analysis::{Analysis, End, Start};
use super::calls::api_name;
use super::estimate::Sum;
use super::merge::Merge;
use super::quantile::Quantiles;
use super::scope::Scope;
use crate::hash::HashMap;
use crate::model::{Action, Event, Operation, Reason, When};
use crate::trace::record::{Body, Names, Status};
use gpuspy_wire::record::{LossCause, Namespace, Untimed};
use std::collections::{BTreeMap, BTreeSet};

/// The cause under which records that a damaged trace lost are counted.
pub const DAMAGED_TRACE: &str = "damaged_trace";

/// The analysis.
#[derive(Debug)]
pub struct CoverageFold<'a> {
    names: &'a Names,
    status: Option<&'a Status>,
    damaged: u64,
    coverage: Coverage,
    lost: BTreeMap<LossCause, u64>,
    /// By the number of the function's name.
    lookups: BTreeMap<u32, u64>,
    /// By context and stream: launches that passed the filter, and whose run or burst has not come yet.
    open: HashMap<(u32, u64), Members>,
    /// Launches of runs whose time was still pending at the end.
    lost_in_runs: u64,
    /// The functions that were called, by number, while no launch function of the driver had passed through the agent.
    called: BTreeSet<u16>,
}

/// Launches of a run or a burst that passed the filter. In time, each passes by itself, where it lies in the run
/// ([`placement`](crate::model::placement)), so that the last launches of a run may count without it, and it without them.
#[derive(Clone, Copy, Debug, Default)]
struct Members {
    ordinary: u32,
    programmatic: u32,
}

/// What was observed. `launches` = `timed` + `runs.launches` + Σ `untimed`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Coverage {
    /// Kernel launch calls that succeeded outside stream captures.
    pub launches: u64,
    /// Launches with a GPU time of their own.
    pub timed: u64,
    /// Launches without a GPU time, by [`Reason::name`]; every reason has an entry.
    pub untimed: BTreeMap<&'static str, u64>,
    /// Runs of launches on deep streams. Launches that were timed in them are neither in `timed` nor in `untimed`.
    pub runs: Bursts,
    /// Bursts of launches that no event may be recorded between (programmatic ones). Each launch of them is untimed
    /// by itself.
    pub bursts: Bursts,
    /// Kernel launch calls inside stream captures.
    pub captured: u64,
    /// Kernels that graph launches executed.
    pub in_graphs: u64,
    /// Launches whose kernel or context is unknown.
    pub unattributed: u64,
    /// The calls in the whole trace, whatever is selected of it: those that the losses, which are of the whole trace too, are
    /// compared with.
    pub recorded: u64,
    /// Losses by [`LossCause::name`] or [`DAMAGED_TRACE`]; causes that did not occur are absent.
    pub dropped_by: BTreeMap<&'static str, u64>,
    /// Whether the trace's end could not be read: records may be lost that nobody has counted.
    pub uncounted: bool,
    /// Operations whose GPU time was still pending when the collection ended.
    pub pending: u64,
    /// Calls outside the capture ranges, which are not in the trace: kernel launches, and other work (copies, memsets
    /// and graph launches). No other figure includes them.
    pub outside: (u64, u64),
    /// Calls in the capture ranges whose work ran after them: kernel launches, and other work. The work is in no other figure
    /// but those of NVTX ranges, which have all that was called in them.
    pub ran_after: (u64, u64),
    /// Whether a driver launch function passed through the agent; `None` without a status, and if none had to, since the
    /// program launched nothing and called no function of the runtime.
    pub driver_hooked: Option<bool>,
    /// Functions of CUDA that the program looked up and the agent does not know, so that their effects are not
    /// observed. Lookups by name; `None` stands for names beyond the number that the agent records.
    pub unknown_functions: BTreeMap<Option<String>, u64>,
}

/// Launches that were timed together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bursts {
    /// How many runs or bursts.
    pub count: u64,
    /// The launches in them.
    pub launches: u64,
    /// The sum of their times, each from the start of the first launch to the end of the last, ns.
    pub total: Sum,
}

impl Bursts {
    fn merge(&mut self, other: &Bursts) {
        self.count += other.count;
        self.launches = self.launches.saturating_add(other.launches);
        self.total.add(other.total);
    }
}

impl Coverage {
    /// All losses.
    pub fn dropped(&self) -> u64 {
        self.dropped_by.values().fold(0, |sum, count| sum.saturating_add(*count))
    }
}

impl Merge for Coverage {
    fn merge(&mut self, other: &Coverage) {
        self.launches += other.launches;
        self.timed += other.timed;
        self.runs.merge(&other.runs);
        self.bursts.merge(&other.bursts);
        self.captured += other.captured;
        self.in_graphs += other.in_graphs;
        self.unattributed += other.unattributed;
        self.recorded = self.recorded.saturating_add(other.recorded);
        self.uncounted |= other.uncounted;
        self.pending = self.pending.saturating_add(other.pending);
        self.outside.0 = self.outside.0.saturating_add(other.outside.0);
        self.outside.1 = self.outside.1.saturating_add(other.outside.1);
        self.ran_after.0 += other.ran_after.0;
        self.ran_after.1 += other.ran_after.1;
        self.driver_hooked = match (self.driver_hooked, other.driver_hooked) {
            (Some(mine), Some(theirs)) => Some(mine && theirs),
            (mine, theirs) => mine.or(theirs),
        };
        for (reason, count) in &other.untimed {
            *self.untimed.entry(reason).or_default() += count;
        }
        for (name, lookups) in &other.unknown_functions {
            let sum = self.unknown_functions.entry(name.clone()).or_default();
            *sum = sum.saturating_add(*lookups);
        }
        for (cause, count) in &other.dropped_by {
            let sum = self.dropped_by.entry(cause).or_default();
            *sum = sum.saturating_add(*count);
        }
    }
}

impl CoverageFold<'_> {
    /// Takes a burst or a run, which itself counts if it `passes`.
    fn burst(&mut self, operation: &Operation, launches: u32, ordinary: u32, passes: bool) {
        let members = self.open.remove(&(operation.context, operation.stream)).unwrap_or_default();
        let programmatic = launches.saturating_sub(ordinary);
        // More can be open only if the record of an earlier burst was lost.
        let (of_run, of_burst) = (members.ordinary.min(ordinary), members.programmatic.min(programmatic));
        let When::Timed(interval) = operation.when else {
            if let When::Untimed { reason: Reason::Lost, .. } = operation.when {
                self.lost_in_runs = self.lost_in_runs.saturating_add(of_run.into());
            }
            return;
        };
        let Coverage { runs, bursts, .. } = &mut self.coverage;
        // A burst may also contain ordinary launches of the program. It counts as a burst, and those launches count
        // under runs.
        runs.launches = runs.launches.saturating_add(of_run.into());
        bursts.launches = bursts.launches.saturating_add(of_burst.into());
        if passes {
            let whole = if programmatic == 0 { runs } else { bursts };
            whole.count += 1;
            whole.total.add(Sum { value: interval.value(), lo: interval.lo(), hi: interval.hi() });
        }
    }

    fn launch(&mut self, operation: &Operation, name: u32) {
        let coverage = &mut self.coverage;
        match operation.when {
            When::Captured => {
                coverage.captured += 1;
                return;
            }
            When::Timed(_) => coverage.timed += 1,
            When::Untimed { reason, after } => {
                *coverage.untimed.entry(reason.name()).or_default() += 1;
                if after.is_none() {
                    let members = self.open.entry((operation.context, operation.stream)).or_default();
                    let is_ordinary = reason == Reason::Untimed(Untimed::Run);
                    members.ordinary += u32::from(is_ordinary);
                    members.programmatic += u32::from(!is_ordinary);
                }
            }
        }
        coverage.launches += 1;
        if self.names.get(Namespace::Kernel, name).is_none() || operation.context == 0 {
            coverage.unattributed += 1;
        }
    }
}

impl<'a> Analysis<'a> for CoverageFold<'a> {
    type Rows = Coverage;

    fn new(start: &Start<'a>) -> Self {
        let untimed = Reason::all().map(|reason| (reason.name(), 0)).collect();
        CoverageFold {
            names: start.names,
            status: start.status,
            damaged: start.damage.records_lost,
            coverage: Coverage { untimed, uncounted: start.damage.end_unread, ..Coverage::default() },
            lost: BTreeMap::new(),
            lookups: BTreeMap::new(),
            open: HashMap::default(),
            lost_in_runs: 0,
            called: BTreeSet::new(),
        }
    }

    fn observe(&mut self, event: &Event<'_>, scope: &Scope<'_>) {
        let calls = event.call.map_or(0, |call| call.calls);
        self.coverage.recorded = self.coverage.recorded.saturating_add(calls.into());
        if self.status.is_some_and(|status| !status.driver_hooked) {
            self.called.extend(event.call.map(|call| call.api));
        }
        match &event.record.body {
            Body::Loss { cause, count } => {
                let lost = self.lost.entry(*cause).or_default();
                *lost = lost.saturating_add(*count);
            }
            // Each record has the sum so far.
            Body::Lookup(lookup) => {
                let lookups = self.lookups.entry(lookup.function).or_default();
                *lookups = lookup.count.max(*lookups);
            }
            _ => {}
        }
        if let Some(operation @ Operation { what: Action::Burst { launches, ordinary, .. }, .. }) =
            scope.operation_at_any_time()
        {
            return self.burst(operation, *launches, *ordinary, scope.operation().is_some());
        }
        if let Some(operation) = scope.operation_at_any_time().filter(|_| scope.ran_after_capture()) {
            let is_launch = matches!(operation.what, Action::Kernel { .. });
            let (launches, others) = &mut self.coverage.ran_after;
            *if is_launch { launches } else { others } += 1;
        }
        let Some(operation) = scope.operation() else { return };
        let is_lost = matches!(operation.when, When::Untimed { reason: Reason::Lost, .. });
        self.coverage.pending += u64::from(is_lost);
        match operation.what {
            Action::Kernel { name, .. } => self.launch(operation, name),
            Action::Graph { kernels } if operation.when != When::Captured => {
                self.coverage.in_graphs += u64::from(kernels);
            }
            Action::Graph { .. } | Action::Transfer { .. } | Action::Burst { .. } => {}
        }
    }

    fn finish(mut self, _: &End<'_>) -> Coverage {
        // The record stream reports a loss where it happened, the status as of its last flush: each may lack the
        // newest losses of the other.
        for (cause, count) in self.status.iter().flat_map(|status| &status.lost) {
            let reported = self.lost.entry(*cause).or_default();
            *reported = (*reported).max(*count);
        }
        let lost = self.lost.iter().map(|(cause, count)| (cause.name(), *count));
        let lost = lost.chain([(DAMAGED_TRACE, self.damaged)]);
        self.coverage.dropped_by = lost.filter(|(_, count)| *count > 0).collect();
        self.coverage.outside =
            self.status.map_or((0, 0), |status| (status.outside_launches, status.outside_others));
        for (function, lookups) in &self.lookups {
            let name = self.names.get(Namespace::Function, *function).map(str::to_owned);
            let sum = self.coverage.unknown_functions.entry(name).or_default();
            *sum = sum.saturating_add(*lookups);
        }
        // Each launch of a run was counted as untimed when it was launched, since the run's time comes later.
        let (timed, lost) = (self.coverage.runs.launches, self.lost_in_runs);
        let in_runs = self.coverage.untimed.entry(Untimed::Run.name()).or_default();
        let lost = in_runs.saturating_sub(timed).min(lost);
        *in_runs = in_runs.saturating_sub(timed + lost);
        *self.coverage.untimed.entry(Reason::Lost.name()).or_default() += lost;
        self.coverage.pending = self.coverage.pending.saturating_add(lost);
        let is_runtime = |api: &u16| api_name(self.names, *api).starts_with("cuda");
        let has_to = self.coverage.launches > 0 || self.called.iter().any(is_runtime);
        let status = self.status.filter(|status| status.driver_hooked || has_to);
        self.coverage.driver_hooked = status.map(|status| status.driver_hooked);
        self.coverage
    }
}

/// The analysis of the clock's precision: the half-width of its interval at each timed operation, ns.
#[derive(Debug, Default)]
pub struct ClockWidths(Quantiles);

impl<'a> Analysis<'a> for ClockWidths {
    type Rows = Quantiles;

    fn new(_: &Start<'a>) -> Self {
        ClockWidths::default()
    }

    fn observe(&mut self, _: &Event<'_>, scope: &Scope<'_>) {
        if let Some(Operation { when: When::Timed(interval), .. }) = scope.operation() {
            interval.clock_half_width.into_iter().for_each(|half_width| self.0.add(half_width));
        }
    }

    fn finish(self, _: &End<'_>) -> Quantiles {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::super::analysis::finish_at;
    use super::super::scope::Selected;
    use super::*;
    use crate::model::CountedCall;
    use crate::model::filter::{Filter, RecordFilter};
    use crate::model::period::CaptureRanges;
    use crate::model::simulation;
    use crate::trace::record::Record;

    /// Returns what is observed of a run of ten launches, which were called every 10 ns from 100 on, and which ran from 170 on.
    fn of_a_run(filter: &Filter) -> Coverage {
        let names = Names::default();
        let mut records = RecordFilter::new(filter, &names, None, 0, &CaptureRanges::default());
        let mut fold = CoverageFold::new(&Start::of(&names));
        let mut observe = |operation: Operation| {
            let work = simulation::work(operation.returned, operation.returned - operation.called, 0);
            let record = Record { thread: 1, at: operation.returned, body: Body::Work(work) };
            let event = Event { operation: Some(operation), ..Event::new(&record) };
            let selected = Selected::of(&mut records, &event);
            fold.observe(&event, &Scope::of(&event, &selected));
        };
        for called in (100..200).step_by(10) {
            let kernel = Action::Kernel { name: 1, communication: false };
            let when = When::Untimed { reason: Reason::Untimed(Untimed::Run), after: None };
            observe(Operation { when, ..simulation::operation(kernel, (called, called + 5)) });
        }
        let run = Action::Burst { launches: 10, ordinary: 10, communication: false };
        let when = When::Timed(simulation::exactly(170, 400));
        observe(Operation { when, ..simulation::operation(run, (100, 195)) });
        finish_at(fold, 1_000)
    }

    /// A program that queries the driver for its GPUs and launches nothing took the verdict from all others of its run.
    #[test]
    fn a_process_that_launches_nothing_does_not_say_that_the_driver_is_not_hooked() {
        let names = [(1, "cuInit"), (2, "cudaMalloc")];
        let names = Names(names.map(|(api, name)| ((Namespace::Api, api), name.to_owned())).into());
        let of = |api: u16, driver_hooked: bool| {
            let status = Status { driver_hooked, ..Status::default() };
            let mut fold = CoverageFold::new(&Start { status: Some(&status), ..Start::of(&names) });
            let work = simulation::work(100, 5, 0);
            let record = Record { thread: 1, at: 100, body: Body::Work(work) };
            let call = CountedCall { api, calls: 1, host_ns: 5, failed: false };
            let event = Event { call: Some(call), ..Event::new(&record) };
            fold.observe(&event, &Scope::whole(&event, true));
            finish_at(fold, 1_000)
        };
        assert_eq!(of(1, false).driver_hooked, None);
        assert_eq!(of(2, false).driver_hooked, Some(false));
        let mut all = of(2, true);
        all.merge(&of(1, false));
        assert_eq!(all.driver_hooked, Some(true));
    }

    /// The losses of a whole trace were compared with the calls of the part that was selected: nearly all of it seemed to be lost.
    #[test]
    fn the_calls_of_the_whole_trace_are_recorded_whatever_is_selected() {
        let names = Names::default();
        let mut fold = CoverageFold::new(&Start::of(&names));
        for is_selected in [true, false] {
            let work = simulation::work(100, 5, 0);
            let record = Record { thread: 1, at: 100, body: Body::Work(work) };
            let call = CountedCall { api: 1, calls: 3, host_ns: 5, failed: false };
            let event = Event { call: Some(call), ..Event::new(&record) };
            fold.observe(&event, &Scope::whole(&event, is_selected));
        }
        assert_eq!(finish_at(fold, 1_000).recorded, 6);
    }

    /// With `--since`, the whole run counted as timed, and of its launches only those that were called in time: more than 100 %
    /// were timed.
    #[test]
    fn of_a_run_the_launches_count_that_pass_the_filter() {
        let of = |since, until| {
            let coverage = of_a_run(&Filter { since, until, ..Filter::default() });
            let untimed: u64 = coverage.untimed.values().sum();
            (coverage.launches, coverage.runs.launches, coverage.runs.count, untimed)
        };
        assert_eq!(of(None, None), (10, 10, 1, 0));
        assert_eq!(of(Some(150), None), (5, 5, 1, 0));
        assert_eq!(of(None, Some(150)), (5, 5, 0, 0), "the two parts make the whole");
        assert_eq!(of(Some(190), None), (1, 1, 0, 0), "its time is known, though it began before");
        assert_eq!(of(Some(500), None), (0, 0, 0, 0));
    }
}
