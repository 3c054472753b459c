//! Which part of a trace is selected?
//!
//! A [`Filter`] holds the conditions, and a [`RecordFilter`] checks each event against them. It answers two separate
//! questions: does an event **concern** what is selected (a device, a stream, a thread, a kernel), and is it **in
//! time**?
//!
//! - An operation concerns its device, its stream, the thread that called, and its kernel. A graph launch concerns
//!   every kernel that it ran, and a burst every thread and kernel that launched into it; of their launches, only the
//!   selected ones count ([`RecordFilter::limit`]).
//! - A call that is not an operation concerns its thread, the device of its context (if that is unknown, the only
//!   device that the process uses) and a stream only if it names one. It concerns no kernel. A block of memory
//!   belongs to its allocator, whichever thread frees it. A free is two records, and only the first one names a context and
//!   a stream: the second one, which counts the call, concerns what the first one does.
//! - An NVTX range or marker concerns the thread that made it.
//! - Records about the process itself (its devices, its modules, losses) match every filter.
//!
//! An operation is in time if it starts in time by the best estimate: its own, or if it is untimed, by what was before it on
//! its stream ([`placement`](super::placement)). A call or a range is in time if it begins in time. So something that spans a
//! boundary is counted once, on one side. If ranges were captured, only the time in them counts ([`period`]).

use super::clocks::Clocks;
use super::gpu_interval::host;
use super::graphs::Contents;
use super::memory::Allocator;
use super::names::demangle;
use super::period::{self, CaptureRanges, Period};
use super::placement::Placement;
use super::streams::StreamNumbers;
use super::typical::Typical;
use super::{Action, Event, Operation, When};
use crate::hash::{HashMap, HashSet};
use crate::trace::record::{Body, Names, Status};
use gpuspy_wire::record::{Memory, Namespace, SyncScope};
use regex::Regex;
use std::fmt;
use std::sync::Arc;

/// The conditions, all of which a selected event meets. An empty list and a field that is `None` are no condition.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Processes of a run, by their ranks. The traces of the others are not read further once their ranks are known.
    pub ranks: Vec<u32>,
    /// Ordinals of devices in their process.
    pub devices: Vec<u32>,
    /// Streams, by their [numbers](super::run).
    pub streams: Vec<u64>,
    /// Threads, by their Linux tids.
    pub threads: Vec<u32>,
    /// Kernels, by their demangled names or their symbols.
    pub kernel: Option<Regex>,
    /// ns since the start of the collection: nothing before.
    pub since: Option<u64>,
    /// ns since the start of the collection: nothing from there on.
    pub until: Option<u64>,
    /// The first and the last step: then the two times above are theirs.
    pub steps: Option<(u64, u64)>,
    /// The time before the end of the run, ns: then `since` is where that begins.
    pub last: Option<u64>,
    /// Host ns from which both count, if not from the start of the process's own collection: with several processes,
    /// the run's start.
    pub origin: Option<u64>,
    /// The numbers of streams, where they differ from the ids in the trace.
    pub numbers: Option<Arc<StreamNumbers>>,
}

impl Filter {
    /// Whether the filter has no condition.
    pub fn is_everything(&self) -> bool {
        self.is_of_all() && self.since.is_none() && self.until.is_none() && !self.depends_on_the_run()
    }

    /// Whether what the run contains says which times are selected.
    pub fn depends_on_the_run(&self) -> bool {
        self.steps.is_some() || self.last.is_some()
    }

    /// Whether kernels are selected by their names, and there is no other condition.
    pub fn is_of_kernels(&self) -> bool {
        self.kernel.is_some() && Filter { kernel: None, ..self.clone() }.is_everything()
    }

    /// Whether a part of what a GPU did at one time is selected: the rest may have run while that part did not.
    pub fn divides_a_gpu(&self) -> bool {
        !self.streams.is_empty() || !self.threads.is_empty() || self.kernel.is_some()
    }

    /// Whether a device is selected; `None` stands for an unknown one.
    pub fn is_of_device(&self, device: Option<u32>) -> bool {
        self.devices.is_empty() || device.is_some_and(|device| self.devices.contains(&device))
    }

    /// Whether a process with this rank is selected.
    pub fn is_of_rank(&self, rank: Option<u32>) -> bool {
        self.ranks.is_empty() || rank.is_some_and(|rank| self.ranks.contains(&rank))
    }

    /// The number that reports show for a stream.
    pub fn number_of(&self, context: u32, stream: u64) -> u64 {
        let number = |numbers: &Arc<StreamNumbers>| numbers.get(&(context, stream)).copied();
        self.numbers.as_ref().and_then(number).map_or(stream, u64::from)
    }

    /// Whether a kernel with this symbol is selected.
    pub fn names(&self, symbol: &str) -> bool {
        self.kernel
            .as_ref()
            .is_none_or(|kernel| kernel.is_match(&demangle(symbol)) || kernel.is_match(symbol))
    }

    /// The selected time in host ns, for a collection that began at host ns `began`.
    fn between(&self, began: u64) -> (i64, i64) {
        let began = self.origin.unwrap_or(began);
        let moment = |since: u64| host(began.saturating_add(since));
        (self.since.map_or(i64::MIN, moment), self.until.map_or(i64::MAX, moment))
    }

    /// Whether there is no condition except on time.
    fn is_of_all(&self) -> bool {
        self.devices.is_empty() && self.streams.is_empty() && self.threads.is_empty() && self.kernel.is_none()
    }
}

/// The conditions in words; an empty text if there are none.
impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |what: &str, numbers: Vec<String>| match numbers.as_slice() {
            [] => None,
            [one] => Some(format!("{what} {one}")),
            [first @ .., last] => Some(format!("{what}s {} and {last}", first.join(", "))),
        };
        let seconds = |ns: u64| format!("{} s", ns as f64 / 1e9);
        // Nobody chose the moment from which the last seconds are counted.
        let is_computed = self.last.is_some_and(|last| last >= 1_000_000_000);
        let shown = |ns: u64| if is_computed { ns / 1_000_000 * 1_000_000 } else { ns };
        let conditions =
            [
                list("device", self.devices.iter().map(u32::to_string).collect()),
                list("stream", self.streams.iter().map(u64::to_string).collect()),
                list("thread", self.threads.iter().map(u32::to_string).collect()),
                self.kernel.as_ref().map(|kernel| format!("kernels that match {kernel}")),
                self.steps.map(|(from, to)| {
                    if from == to { format!("step {from}") } else { format!("steps {from} to {to}") }
                }),
                self.last.map(|last| format!("the last {}", seconds(last))),
                self.since.map(|since| format!("from {}", seconds(shown(since)))),
                self.until.map(|until| format!("until {}", seconds(until))),
            ];
        let conditions: Vec<String> = conditions.into_iter().flatten().collect();
        f.write_str(&conditions.join(", "))
    }
}

/// The parts of an event that are selected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passed {
    /// It concerns what is selected, at whatever time.
    pub concerns: bool,
    /// It also has a call that began in time.
    pub call: bool,
    /// It also has an operation, or a graph's node, that started in time.
    pub operation: bool,
    /// It has a call in time that concerns everything else that is selected, but whose device is unknown: it may be of a
    /// selected one, and is left out.
    pub is_of_unknown_device: bool,
    /// It has an operation whose call passes, in a capture range, and that started after that range and in no other: it is in
    /// no figure of what ran.
    pub ran_after_capture: bool,
}

impl Passed {
    /// What passes of an event that passes whole.
    pub const WHOLE: Passed = Passed {
        concerns: true,
        call: true,
        operation: true,
        is_of_unknown_device: false,
        ran_after_capture: false,
    };
}

/// What a call that is not an operation names: its context (0 = unknown) and its stream, if any.
type Place = (u32, Option<u64>);

/// A graph launch or a burst of which only some members pass.
#[derive(Clone, Debug)]
pub struct Limited {
    /// The operation, with the number of those members.
    pub operation: Operation,
    /// Those kernels of a graph; `None` for a burst.
    pub graph: Option<Contents>,
}

/// Checks each event of a trace, in the trace's order; it must be given all of them.
#[derive(Debug)]
pub struct RecordFilter<'a> {
    filter: &'a Filter,
    names: &'a Names,
    is_everything: bool,
    period: Period,
    /// The capture ranges, whatever is selected of them; `None` if the whole run was recorded.
    captured: Option<Period>,
    /// Whether an operation counts where its call began, not where it started: so it counts in one of the traces of a
    /// collection in windows of time, however uncertain its start is.
    counts_by_call: bool,
    /// Claim numbers of the selected threads.
    threads: HashSet<u32>,
    /// Kernel number → whether it is selected.
    kernels: HashMap<u32, bool>,
    /// Context → device, from the records so far.
    devices: HashMap<u32, u32>,
    /// The only device that the process uses.
    only_device: Option<u32>,
    /// (Context, stream) of open bursts that contain selected launches, and how many.
    bursts: HashMap<(u32, u64), u32>,
    /// That number for the burst that was checked last.
    of_burst: u32,
    /// The free that a thread has begun, by its thread: its correlation, and what its record names. At most one of each
    /// thread, since a thread's next record is the end of its free.
    frees: HashMap<u32, (u64, Place)>,
    /// When operations started; `None` if it does not matter.
    placement: Option<Placement<'a>>,
}

impl<'a> RecordFilter<'a> {
    /// A filter for a process of which these are the clocks. Without a status, no thread's tid is known.
    pub fn of(filter: &'a Filter, names: &'a Names, status: Option<&Status>, clocks: &'a Clocks) -> Self {
        let (began, captures) = (clocks.began(status), &clocks.capture_ranges);
        RecordFilter::with(Some(&clocks.typical), filter, names, status, began, captures)
    }

    /// The same for a collection that began at host ns `began` and in which `captures` were captured, without knowing how
    /// long operations typically take.
    pub fn new(
        filter: &'a Filter,
        names: &'a Names,
        status: Option<&Status>,
        began: u64,
        captures: &CaptureRanges,
    ) -> Self {
        RecordFilter::with(None, filter, names, status, began, captures)
    }

    fn with(
        typical: Option<&'a Typical>,
        filter: &'a Filter,
        names: &'a Names,
        status: Option<&Status>,
        began: u64,
        captures: &CaptureRanges,
    ) -> Self {
        let period = captures.period(names, status, filter.between(began));
        let captured = Some(captures.period(names, status, (i64::MIN, i64::MAX))).filter(Period::is_span);
        let counts_by_call = period::window(names).is_some();
        let is_limited = filter.since.is_some() || filter.until.is_some() || period.is_span();
        let claims = status.iter().flat_map(|status| &status.threads);
        let threads = claims.filter(|(_, tid)| filter.threads.contains(tid)).map(|(claim, _)| *claim);
        RecordFilter {
            filter,
            names,
            is_everything: filter.is_everything() && !period.is_span(),
            counts_by_call,
            placement: (is_limited && !counts_by_call).then(|| Placement::new(typical)),
            period,
            captured,
            threads: threads.collect(),
            kernels: HashMap::default(),
            devices: HashMap::default(),
            only_device: only_device(names),
            bursts: HashMap::default(),
            of_burst: 0,
            frees: HashMap::default(),
        }
    }

    /// The selected time.
    pub fn period(&self) -> &Period {
        &self.period
    }

    /// Whether an event is selected; if it is an operation, whether the operation is.
    pub fn passes(&mut self, event: &Event<'_>) -> bool {
        let passed = self.check(event);
        if event.operation.is_some() || event.node.is_some() { passed.operation } else { passed.call }
    }

    /// Returns the parts of an event that are selected.
    pub fn check(&mut self, event: &Event<'_>) -> Passed {
        if self.is_everything {
            return Passed::WHOLE;
        }
        let start = self.placement.as_mut().and_then(|placement| placement.observe(event));
        let starts_in_time = start.is_none_or(|start| self.period.contains(start));
        let is_call = event.operation.is_none() && event.record.body.call().is_some();
        let place = if is_call { self.place(event) } else { (0, None) };
        let concerns = self.concerns(event, place);
        let began_in_time = event.record.began().is_none_or(|begin| self.period.contains(host(begin)));
        let call = concerns && began_in_time;
        let operation = if self.counts_by_call { call } else { concerns && starts_in_time };
        let is_of_unknown_device = event.call.is_some()
            && is_call
            && !concerns
            && began_in_time
            && self.device_of(place.0).is_none()
            && self.is_of_stream(place.0, place.1)
            && self.is_of_thread(event.record.thread)
            && self.filter.kernel.is_none();
        let starts_outside = |captured: &Period| start.is_some_and(|start| !captured.contains(start));
        let ran_after_capture =
            call && event.operation.is_some() && self.captured.as_ref().is_some_and(starts_outside);
        Passed { concerns, call, operation, is_of_unknown_device, ran_after_capture }
    }

    /// Returns the graph launch or the burst that was checked last, reduced to the members that pass; `None` if the event's
    /// operation is no such launch, or all of its members pass.
    pub fn limit(&mut self, event: &Event<'_>) -> Option<Limited> {
        if self.filter.is_of_all() {
            return None;
        }
        let operation = event.operation.as_ref()?;
        match operation.what {
            Action::Burst { ordinary, communication, .. } => {
                let (launches, ordinary) = (self.of_burst, self.of_burst.min(ordinary));
                let what = Action::Burst { launches, ordinary, communication };
                Some(Limited { operation: Operation { what, ..*operation }, graph: None })
            }
            Action::Graph { .. } if self.filter.kernel.is_some() => {
                let mut ran = event.graph.as_deref().map_or_else(Vec::new, |graph| graph.kernels.clone());
                ran.retain(|(name, _)| self.matches(*name));
                let count = ran.iter().fold(0, |sum: u64, (_, count)| sum.saturating_add(*count));
                let what = Action::Graph { kernels: u32::try_from(count).unwrap_or(u32::MAX) };
                let graph = Contents { kernel_count: count, kernels: ran, ..Contents::default() };
                Some(Limited { operation: Operation { what, ..*operation }, graph: Some(graph) })
            }
            _ => None,
        }
    }

    /// Whether a block that `allocator` allocated is selected.
    pub fn holds(&self, allocator: &Allocator) -> bool {
        self.calls_on(allocator.context, allocator.stream)
            && self.is_of_thread(allocator.thread)
            && self.filter.kernel.is_none()
    }

    /// What a call names that is not an operation. It has to be asked for each, in the trace's order.
    fn place(&mut self, event: &Event<'_>) -> Place {
        let (thread, body) = (event.record.thread, &event.record.body);
        let Some(call) = body.call() else { return (0, None) };
        let named = (call.context, stream(body));
        match body {
            Body::Free(_) => {
                self.frees.insert(thread, (call.correlation, named));
                named
            }
            Body::Api(_) => match self.frees.remove(&thread) {
                Some((correlation, of_free)) if correlation == call.correlation => of_free,
                _ => named,
            },
            _ => named,
        }
    }

    /// `place`: what the event's call names, if it is a call and not an operation.
    fn concerns(&mut self, event: &Event<'_>, (context, stream): Place) -> bool {
        if self.filter.is_of_all() {
            return true;
        }
        let body = &event.record.body;
        match (&event.operation, body) {
            (_, Body::Context(context)) => {
                self.devices.insert(context.context, context.device);
                true
            }
            (Some(operation), _) => {
                self.devices.extend(operation.device.map(|device| (operation.context, device)));
                self.is_of(operation.context, Some(operation.stream)) && self.launches(operation, event)
            }
            (None, Body::NodeTime(node)) => {
                self.is_of(node.context, None)
                    // The poller wrote the record; the filter is about the thread that launched.
                    && self.is_from_thread(node.correlation)
                    && self.matches(node.kernel)
            }
            (None, Body::NvtxRange(_)) => self.is_of_thread(event.record.thread),
            (None, _) => body.call().is_none_or(|_| {
                self.calls_on(context, stream)
                    && self.is_of_thread(event.record.thread)
                    && self.filter.kernel.is_none()
            }),
        }
    }

    /// Whether an operation concerns a selected thread and kernel.
    fn launches(&mut self, operation: &Operation, event: &Event<'_>) -> bool {
        let stream = (operation.context, operation.stream);
        let is_of_thread = self.is_of_thread(event.record.thread);
        match operation.what {
            Action::Burst { .. } => {
                let launches = self.bursts.remove(&stream);
                self.of_burst = launches.unwrap_or(0);
                launches.is_some() || (self.filter.threads.is_empty() && self.filter.kernel.is_none())
            }
            Action::Kernel { name, .. } => {
                let passes = is_of_thread && self.matches(name);
                if passes && matches!(operation.when, When::Untimed { after: None, .. }) {
                    *self.bursts.entry(stream).or_default() += 1;
                }
                passes
            }
            Action::Graph { .. } => {
                let kernels = event.graph.iter().flat_map(|graph| &graph.kernels);
                is_of_thread
                    && (self.filter.kernel.is_none()
                        || kernels.into_iter().any(|(name, _)| self.matches(*name)))
            }
            Action::Transfer { .. } => is_of_thread && self.filter.kernel.is_none(),
        }
    }

    /// Whether work in a context and on a stream is selected.
    fn is_of(&self, context: u32, stream: Option<u64>) -> bool {
        self.filter.is_of_device(self.devices.get(&context).copied()) && self.is_of_stream(context, stream)
    }

    /// Whether a call that is not work is selected: many such calls have no known context.
    fn calls_on(&self, context: u32, stream: Option<u64>) -> bool {
        self.filter.is_of_device(self.device_of(context)) && self.is_of_stream(context, stream)
    }

    /// The device of a call that is not work, if it is known.
    fn device_of(&self, context: u32) -> Option<u32> {
        if context == 0 { self.only_device } else { self.devices.get(&context).copied() }
    }

    fn is_of_stream(&self, context: u32, stream: Option<u64>) -> bool {
        let streams = &self.filter.streams;
        let is_asked_for = |stream| streams.contains(&self.filter.number_of(context, stream));
        streams.is_empty() || stream.is_some_and(is_asked_for)
    }

    fn is_of_thread(&self, claim: u32) -> bool {
        self.filter.threads.is_empty() || self.threads.contains(&claim)
    }

    /// Whether the thread that gave an operation its correlation is selected.
    fn is_from_thread(&self, correlation: u64) -> bool {
        let gave = |claim: &u32| claim & CLAIM_IN_CORRELATION == claim_in(correlation);
        self.filter.threads.is_empty() || self.threads.iter().any(gave)
    }

    /// Whether a kernel's name is selected. If names are selected, a kernel without a name is not.
    fn matches(&mut self, name: u32) -> bool {
        let (filter, names) = (self.filter, self.names);
        let is_asked_for = || names.get(Namespace::Kernel, name).is_some_and(|symbol| filter.names(symbol));
        filter.kernel.is_none() || *self.kernels.entry(name).or_insert_with(is_asked_for)
    }
}

/// The bits of a claim number that a correlation has.
const CLAIM_IN_CORRELATION: u32 = (1 << 24) - 1;

/// The lower 24 bits of the claim number of the thread that gave an operation its correlation: they are above a count
/// of 40 bits ([`Work::correlation`](gpuspy_wire::record::Work)).
fn claim_in(correlation: u64) -> u32 {
    (correlation >> 40) as u32
}

/// The device of a process that uses only one: each device in use has a name ([`Namespace::Device`], its ordinal + 1).
fn only_device(names: &Names) -> Option<u32> {
    let mut used = names.0.keys().filter(|(namespace, _)| *namespace == Namespace::Device);
    match (used.next(), used.next()) {
        (Some((_, id)), None) => id.checked_sub(1),
        _ => None,
    }
}

/// The stream that a call names.
fn stream(body: &Body) -> Option<u64> {
    match body {
        Body::Work(work) => Some(work.stream),
        Body::Synchronize(sync) => (sync.scope == SyncScope::Stream).then_some(sync.stream),
        Body::EventRecord(op) | Body::EventWait(op) => Some(op.stream),
        Body::Alloc(alloc) => (alloc.memory == Memory::Pool).then_some(alloc.stream),
        Body::Free(free) => (free.memory == Memory::Pool).then_some(free.stream),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
