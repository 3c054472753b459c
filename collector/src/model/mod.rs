//! What do a trace's records mean?
//!
//! The model is pure: it does no I/O and reads no clock of its own, and its state is bounded by what is alive in the
//! program.
//!
//! It folds a trace twice. First a [`Survey`](survey::Survey) learns the clocks. Then [`Model::observe`] takes one
//! [`Record`] after another, in the trace's order, and returns its meaning as an [`Event`]: an operation with bounds
//! on its GPU time, a counted call, a change of memory. The analyses fold over those events.
//!
//! Clocks and times:
//!
//! - [`survey`]: what does the first pass over a trace learn?
//! - [`gpu_clock`]: how does a GPU's clock relate to the host's?
//! - [`stamps`]: how precise is an event's time stamp?
//! - [`gpu_interval`]: when was the GPU busy with an operation?
//! - [`typical`]: how long does an operation of a kind typically take?
//! - [`members`]: which launches were timed together?
//! - [`order`]: how does host order become GPU order?
//!
//! Meaning of records:
//!
//! - [`graphs`]: what does a graph launch run?
//! - [`events`]: which work of streams is certainly over, by the program's waits and its events?
//! - [`memory`]: what memory does the program hold, and what does an address mean?
//! - [`transfer`]: what kind of transfer is a copy?
//! - [`facts`], [`multiprocessor`]: what does the driver say about kernels, and which limit of the hardware explains
//!   it?
//! - [`modules`], [`names`]: which library made a call, and what is a kernel called?
//! - [`framework`]: which framework does the program use?
//! - [`stacks`], [`native_stacks`], [`callers`], [`backward`]: which line of the program made a call?
//! - [`steps`]: which launch begins a step of the program?
//! - [`ranges`], [`range_names`], [`emit_nvtx`]: which NVTX ranges are open around a call, which of their names differ
//!   only in a number, and what does PyTorch say in them?
//!
//! Selection and context:
//!
//! - [`filter`], [`period`]: which part and which time of a trace is selected?
//! - [`placement`]: when did untimed work start?
//! - [`lost`]: when may records have been lost?
//! - [`run`], [`job`]: what do the processes of a run share, and what is a process's rank?
//! - [`outcome`]: how did a process end? [`gpu_error`]: which errors say that a GPU stopped?
#![forbid(unsafe_code)]

pub mod backward;
pub mod callers;
pub mod clocks;
pub mod emit_nvtx;
pub mod events;
pub mod facts;
pub mod filter;
pub mod forward;
pub mod framework;
pub mod gpu_clock;
pub mod gpu_error;
pub mod gpu_interval;
pub mod graphs;
pub mod hangs;
pub mod host_time;
pub mod job;
pub mod lost;
pub mod members;
pub mod memory;
pub mod modules;
pub mod multiprocessor;
pub(crate) mod named;
pub mod names;
pub mod native_stacks;
pub mod order;
pub mod outcome;
pub mod period;
pub mod placement;
pub mod process_key;
pub mod range_names;
pub mod ranges;
pub mod run;
pub mod short_names;
#[cfg(test)]
pub(crate) mod simulation;
pub mod stacks;
pub mod stamps;
pub mod steps;
pub mod streams;
pub mod survey;
pub mod thread_times;
pub mod transfer;
pub mod typical;

use crate::hash::{HashMap, HashSet};
use crate::trace::record::{
    Api, Body, Call, Device, GpuTime, Names, NodeTime, Record, Synchronize, What, Work,
};
use clocks::Clocks;
use events::Events;
use facts::Facts;
use gpu_clock::Clock;
use gpu_interval::{GpuInterval, host};
use gpuspy_wire::communication::is_communication;
use gpuspy_wire::record::{LossCause, Namespace, SyncScope, Untimed, flag};
use graphs::{Contents, Graphs};
use memory::{Blocks, MemoryChange, failed};
use modules::Modules;
use stacks::{Caller, Stacks};
use std::collections::BTreeMap;
use std::sync::Arc;
use transfer::{HostMemory, Moved, TransferKind};

pub use events::Drained;

/// The meaning of one record.
#[derive(Clone, Debug)]
pub struct Event<'r> {
    /// The record itself.
    pub record: &'r Record,
    /// An API call that ended here. `None` for records that are not the last of their call.
    pub call: Option<CountedCall>,
    /// Work for a GPU.
    pub operation: Option<Operation>,
    /// What a graph launch ran.
    pub graph: Option<Arc<Contents>>,
    /// When a node of a graph ran.
    pub node: Option<GpuInterval>,
    /// Changes of the memory that the program holds.
    pub memory: Vec<MemoryChange>,
    /// Work that is certainly over, as the program waited for it, or for work that had waited for it.
    pub drained: Vec<Drained>,
    /// Where in the program its call was made.
    pub caller: Caller,
    /// The number of its process on the line; 0 for the only one.
    pub process: u32,
    /// The number of its call's context on the line; 0 = unknown or none.
    pub context: u32,
    /// The number of the program's step that the call belongs to, from 0; `None` before the first step, or without steps.
    pub step: Option<u64>,
    /// Whether it comes before the second step, or without steps before a twentieth of the launches: the program prepares,
    /// and warms up.
    pub is_preparing: bool,
    /// Whether it comes before the first step of a program that launches little until then, or is the first operation of that step:
    /// the program has set up until now.
    pub is_setting_up: bool,
}

impl<'r> Event<'r> {
    /// An event without a meaning yet.
    pub fn new(record: &'r Record) -> Self {
        Event {
            record,
            call: None,
            operation: None,
            graph: None,
            node: None,
            memory: Vec::new(),
            drained: Vec::new(),
            caller: record
                .body
                .call()
                .map_or(Caller::default(), |call| Caller { address: call.caller, line: 0 }),
            process: 0,
            context: record.body.call().map_or(0, |call| call.context),
            step: None,
            is_preparing: false,
            is_setting_up: false,
        }
    }
}

/// A call of the program, or several queries in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CountedCall {
    /// The outermost API, in [`Namespace::Api`].
    pub api: u16,
    /// The number of calls: 1 except for queries in a row.
    pub calls: u32,
    /// Time from entry to return on the host, ns.
    pub host_ns: u64,
    /// Whether it returned an error.
    pub failed: bool,
}

/// An operation on a stream.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Operation {
    /// Unique in the process.
    pub correlation: u64,
    /// The context; 0 = unknown.
    pub context: u32,
    /// The device's ordinal, where the context is known.
    pub device: Option<u32>,
    /// The stream's id.
    pub stream: u64,
    /// Where in the program the call was made, of a burst the first one.
    pub caller: Caller,
    /// Host ns when the call was entered; of a burst, its first call, where that is known.
    pub called: u64,
    /// Host ns when the call returned; of a burst, the record of its end event, or without a GPU time its last launch.
    pub returned: u64,
    /// What it does.
    pub what: Action,
    /// When it ran, or why that is unknown.
    pub when: When,
}

/// What an operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A kernel launch.
    Kernel {
        /// In [`Namespace::Kernel`]; 0 = unknown.
        name: u32,
        /// It moves data between GPUs (NCCL and similar libraries).
        communication: bool,
    },
    /// A copy or a memset.
    Transfer {
        /// Direction, or memset.
        kind: TransferKind,
        /// The kind of host memory that takes part.
        host_memory: HostMemory,
        /// Size in bytes.
        bytes: u64,
    },
    /// A graph launch.
    Graph {
        /// The number of kernels in the graph.
        kernels: u32,
    },
    /// Several launches that one event pair timed. The launches themselves are untimed and come before it on its
    /// stream.
    Burst {
        /// The number of launches.
        launches: u32,
        /// The number of ordinary launches among them: all of them in a run.
        ordinary: u32,
        /// Whether all of them move data between GPUs.
        communication: bool,
    },
}

impl Action {
    /// Whether it is a run: ordinary launches on a deep stream.
    pub fn is_run(&self) -> bool {
        matches!(self, Action::Burst { launches, ordinary, .. } if launches == ordinary)
    }

    /// What it moves, if it is a copy or a memset.
    pub fn moved(&self) -> Option<Moved> {
        match *self {
            Action::Transfer { kind, host_memory, bytes } => Some((kind, host_memory, bytes)),
            _ => None,
        }
    }
}

/// When an operation ran.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum When {
    /// Its interval.
    Timed(GpuInterval),
    /// It ran at an unknown time.
    Untimed {
        /// Why.
        reason: Reason,
        /// It did not start before this: host ns on the line. `None` if a [`Burst`](Action::Burst) has its time.
        after: Option<i64>,
    },
    /// It did not run: stream capture made it a node of a graph.
    Captured,
}

/// Why an operation has no GPU time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// No event pair was recorded.
    Untimed(Untimed),
    /// A pair was recorded, but its time was lost.
    Lost,
}

impl Reason {
    /// All reasons that an executed operation can have.
    pub fn all() -> impl Iterator<Item = Reason> {
        let none = [Untimed::Timed, Untimed::Captured];
        let untimed = Untimed::ALL.iter().copied().filter(move |u| !none.contains(u)).map(Reason::Untimed);
        untimed.chain([Reason::Lost])
    }

    /// The reason's name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Reason::Untimed(untimed) => untimed.name(),
            Reason::Lost => LossCause::GpuTimePending.name(),
        }
    }
}

/// The last timed operation of a stream.
#[derive(Clone, Copy, Debug)]
struct StreamEnd {
    /// Its end on the line, host ns, and the error of its stamps, ns.
    end: i64,
    error: i64,
    /// Host ns when its call returned.
    returned: u64,
}

/// The fold from records to events.
#[derive(Debug)]
pub struct Model<'c> {
    clocks: &'c Clocks,
    devices: BTreeMap<u32, Device>,
    communication: HashSet<u32>,
    /// Context → the time base on which its operations are currently measured.
    time_bases: HashMap<u32, u32>,
    causality_broken: u64,
    stream_ends: HashMap<(u32, u64), StreamEnd>,
    events: Events,
    members: members::Open,
    graphs: Graphs,
    blocks: Blocks,
    facts: Facts,
    stacks: Stacks,
}

/// What a [`Model`] has learned about the process itself.
#[derive(Clone, Debug, Default)]
pub struct Process {
    /// Its GPUs, by ordinal.
    pub devices: BTreeMap<u32, Device>,
    /// Its executable mappings.
    pub modules: Modules,
    /// What the driver says about its kernels.
    pub facts: Facts,
    /// Which lines of the program made its calls.
    pub stacks: Stacks,
    /// Context → device ordinal.
    pub context_devices: HashMap<u32, u32>,
    /// How often bounds on the clocks contradicted each other, which shows that an assumption about drift is wrong.
    pub clock_contradictions: u64,
    /// How many operations the line places before their call or after they were observed to be over. 0 unless bounds
    /// contradicted each other.
    pub causality_broken: u64,
}

impl<'c> Model<'c> {
    /// A model at the start of a trace with these names and clocks.
    pub fn new(names: &Names, clocks: &'c Clocks) -> Self {
        let kernels = names.0.iter().filter(|((space, _), _)| *space == Namespace::Kernel);
        Model {
            clocks,
            devices: BTreeMap::new(),
            communication: kernels
                .filter(|(_, name)| is_communication(name.as_bytes()))
                .map(|((_, id), _)| *id)
                .collect(),
            time_bases: HashMap::default(),
            causality_broken: 0,
            stream_ends: HashMap::default(),
            events: Events::new(names),
            members: members::Open::default(),
            graphs: Graphs::default(),
            blocks: Blocks::default(),
            facts: Facts::new(names),
            stacks: Stacks::of(names),
        }
    }

    /// Returns the meaning of the next record.
    pub fn observe<'r>(&mut self, record: &'r Record) -> Event<'r> {
        let mut event = Event::new(record);
        event.caller.line = record.body.call().map_or(0, |call| self.stacks.line_of(call));
        match &record.body {
            Body::Work(work) => {
                event.call = counted(&work.call);
                let operation = self.operation(work, event.caller);
                event.drained = self.started(&operation);
                event.operation = Some(operation);
                if let What::Burst { .. } = work.what {
                    self.members.ended(work);
                }
                event.graph = self.contents(&work.what);
                if let Some(graph) = event.graph.as_ref().filter(|_| !is_captured(work)) {
                    event.memory = self.blocks.graph_launched(record.thread, work, &graph.memory);
                }
            }
            Body::Alloc(alloc) => {
                event.call = counted(&alloc.call);
                event.memory = self.blocks.allocated(record.thread, alloc);
            }
            // The end of this call is another record, which counts it.
            Body::Free(free) => event.memory = self.blocks.freed(record.thread, free),
            Body::Synchronize(sync) => {
                event.call = counted(&sync.call);
                event.drained = self.synchronized(sync);
            }
            Body::EventRecord(op) => {
                event.call = counted(&op.call);
                self.events.recorded(op);
            }
            Body::EventWait(op) => {
                event.call = counted(&op.call);
                self.events.stream_waits(op);
            }
            Body::Api(api) => {
                event.call = counted(&api.call).map(|call| queries(call, api));
                event.memory = self.blocks.call_ended(record.thread, api);
                self.facts.called(api);
                self.events.called(api);
            }
            Body::Context(context) if context.destroyed => {
                event.memory = self.blocks.context_destroyed(context.context);
                self.stream_ends.retain(|(owner, _), _| *owner != context.context);
                self.events.forget_context(context.context);
                self.members.forget_context(context.context);
            }
            Body::Stream(stream) if stream.destroyed => {
                self.stream_ends.remove(&(stream.context, stream.stream));
                self.events.forget(stream.context, stream.stream);
                self.members.forget(stream.context, stream.stream);
            }
            // Records of events before this may be missing.
            Body::CaptureEdge { begins: true } => self.events.forget_records(),
            Body::Loss { cause, count } if *count > 0 && *cause != LossCause::GpuTimePending => {
                self.events.forget_records();
            }
            Body::Graph(graph) => self.graphs.define(graph),
            Body::GraphNode(node) => self.graphs.holds(node),
            Body::NodeTime(node) => event.node = self.node(node),
            Body::KernelFacts(facts) => self.facts.add(facts),
            Body::Device(device) => {
                self.devices.insert(device.ordinal, device.clone());
            }
            Body::Context(_)
            | Body::Stream(_)
            | Body::ClockSample(_)
            | Body::Window(_)
            | Body::NvtxRange(_)
            | Body::Lookup(_)
            | Body::Module(_)
            | Body::CaptureEdge { .. }
            | Body::ThreadTime(_)
            | Body::Loss { .. } => {}
        }
        event
    }

    /// There are no more records: forgets the memory that the program holds, which only they would ask about.
    pub fn no_more_records(&mut self) {
        self.blocks = Blocks::default();
    }

    /// Ends the fold.
    pub fn finish(self) -> Process {
        Process {
            devices: self.devices,
            modules: self.clocks.callers.modules().clone(),
            facts: self.facts,
            stacks: self.stacks,
            context_devices: self.clocks.devices.clone(),
            clock_contradictions: self.clocks.contradictions(),
            causality_broken: self.causality_broken,
        }
    }

    fn operation(&mut self, work: &Work, caller: Caller) -> Operation {
        let what = self.action(work, caller);
        let when = self.when(work, what);
        Operation {
            correlation: work.call.correlation,
            context: work.call.context,
            device: self.clocks.devices.get(&work.call.context).copied(),
            stream: work.stream,
            caller: match what {
                Action::Burst { .. } => self.members.of(work).caller.unwrap_or(caller),
                _ => caller,
            },
            called: called(work),
            returned: match (when, work.what) {
                // Its end event, which may be recorded in the synchronization that waits for it, says nothing.
                (When::Untimed { .. }, What::Burst { closing, .. }) => work.call.end.saturating_sub(closing),
                _ => work.call.end,
            },
            what,
            when,
        }
    }

    fn action(&mut self, work: &Work, caller: Caller) -> Action {
        match work.what {
            What::Kernel { name, .. } => {
                let communication = self.communication.contains(&name);
                let action = Action::Kernel { name, communication };
                let typical = || self.clocks.typical.of(work, action);
                self.members.observe(work, caller, communication, typical);
                action
            }
            What::Memcpy { direction, bytes, dst, src, peer_context, .. } => {
                let devices = &self.clocks.devices;
                let (kind, host_memory) =
                    transfer::of_copy(direction, (src, dst), peer_context, &self.blocks, devices);
                Action::Transfer { kind, host_memory, bytes }
            }
            What::Memset { bytes, .. } => {
                Action::Transfer { kind: TransferKind::Memset, host_memory: HostMemory::None, bytes }
            }
            What::Graph { kernels, .. } => Action::Graph { kernels },
            What::Burst { launches, ordinary, .. } => {
                let communication = self.members.of(work).are_communication();
                Action::Burst { launches, ordinary, communication }
            }
        }
    }

    /// The contents of a launched graph.
    fn contents(&self, what: &What) -> Option<Arc<Contents>> {
        match *what {
            What::Graph { graph, kernels, copies, memsets, .. } => {
                Some(self.graphs.launched(graph, kernels, copies, memsets))
            }
            _ => None,
        }
    }

    /// When a graph's node ran: the graph orders it between its two events.
    fn node(&self, node: &NodeTime) -> Option<GpuInterval> {
        Some(gpu_interval::of_node(&node.gpu, self.clocks.of(node.context, node.gpu.time_base)?))
    }

    fn when(&mut self, work: &Work, what: Action) -> When {
        if is_captured(work) {
            return When::Captured;
        }
        let known = survey::timed(work)
            .and_then(|gpu| Some((gpu, self.clocks.of(work.call.context, gpu.time_base)?)));
        if let Some((gpu, clock)) = known {
            return When::Timed(self.timed(work, gpu, clock, what));
        }
        let reason = match work.untimed {
            Untimed::Timed => Reason::Lost,
            why => Reason::Untimed(why),
        };
        When::Untimed { reason, after: (!self.is_in_burst(work)).then(|| self.submitted_after(work)) }
    }

    /// Whether the record of a burst, which may come later, contains this launch's time.
    fn is_in_burst(&self, work: &Work) -> bool {
        let ended = self.clocks.bursts.get(&(work.call.context, work.stream));
        members::is_member(work) && ended.is_some_and(|ended| work.submitted <= *ended)
    }

    fn timed(&mut self, work: &Work, gpu: &GpuTime, clock: &Clock, what: Action) -> GpuInterval {
        let context = work.call.context;
        let blocking = transfer::blocks_host(work.call.flags, what.moved());
        let usual = self.clocks.typical.usual(work, what);
        let mut interval = gpu_interval::derive(work, gpu, blocking, usual, clock);
        if let (Action::Burst { .. }, Some(ns)) = (what, self.members.of(work).expected()) {
            interval.expect(ns);
        }
        self.causality_broken += u64::from(gpu_interval::breaks_causality(work, gpu, clock));
        self.time_bases.insert(context, gpu.time_base);
        let (stamp, error) = gpu_interval::end_stamp(work, gpu);
        let end = StreamEnd { end: clock.to_host(stamp), error, returned: work.call.end };
        self.stream_ends.insert((context, work.stream), end);
        interval
    }

    /// The time before which this untimed work cannot have started, because its call (a burst's first one) had not
    /// been entered.
    fn submitted_after(&self, work: &Work) -> i64 {
        let begin = host(called(work));
        let lower = |clock: &Clock| Some(clock.to_host(begin + clock.lower(begin)?).min(begin));
        self.clock(work.call.context).and_then(lower).unwrap_or(begin)
    }

    /// A timed operation started, so what its stream had waited for is over.
    fn started(&mut self, operation: &Operation) -> Vec<Drained> {
        let When::Timed(interval) = operation.when else { return Vec::new() };
        // Its start event is behind the waits on the stream.
        let fired = interval.earliest_start.saturating_add(interval.stamps_off_by());
        let Some(by) = interval.off_by.map(|ns| fired.saturating_add(host(ns))) else { return Vec::new() };
        self.events.started((operation.context, operation.stream), operation.called, by)
    }

    /// The program waited, so the operations that it had issued to the streams before are over.
    fn synchronized(&mut self, sync: &Synchronize) -> Vec<Drained> {
        let (own, begin, end) = (sync.call.context, sync.call.begin, host(sync.call.end));
        let (context, stream, issued_before) = match sync.scope {
            SyncScope::Device | SyncScope::Context => (own, None, begin),
            SyncScope::Stream => (own, Some(sync.stream), begin),
            SyncScope::Event => match self.events.before(sync.event, begin) {
                Some(work) => (work.context, Some(work.stream), work.before),
                None => return Vec::new(),
            },
            SyncScope::GreenContext => return Vec::new(),
        };
        for (key, last) in &self.stream_ends {
            let is_late = last.end - last.error > end && survey::covers(sync, *key, last.returned);
            self.causality_broken += u64::from(is_late);
        }
        let upper = |clock: &Clock| Some(clock.to_host(end + clock.upper(end)?).max(end));
        let by = self.clock(context).and_then(upper).unwrap_or(end);
        let mut over = vec![Drained { context, stream, issued_before, by }];
        self.events.follow(&mut over);
        over
    }

    /// The clock of the time base on which a context is currently measured.
    fn clock(&self, context: u32) -> Option<&'c Clock> {
        self.clocks.of(context, *self.time_bases.get(&context)?)
    }
}

/// The call that a record ends, if it ends one and the program made it.
fn counted(call: &Call) -> Option<CountedCall> {
    (call.api != 0 && call.flags & flag::MORE == 0).then(|| CountedCall {
        api: call.api,
        calls: 1,
        host_ns: call.end.saturating_sub(call.begin).min(gpu_interval::MOST_TIME),
        failed: failed(call),
    })
}

/// Counts a record of queries in a row. The time between the queries is the program's own.
fn queries(call: CountedCall, api: &Api) -> CountedCall {
    if api.calls <= 1 {
        return call;
    }
    CountedCall { calls: api.calls, host_ns: api.inside.min(gpu_interval::MOST_TIME), ..call }
}

/// Host ns when the call was entered; of a burst, its first call.
fn called(work: &Work) -> u64 {
    match work.what {
        What::Burst { .. } if work.lead < u64::MAX => {
            work.call.begin.min(work.submitted.saturating_sub(work.lead))
        }
        _ => work.call.begin,
    }
}

/// Whether stream capture made the work a node of a graph instead of running it.
fn is_captured(work: &Work) -> bool {
    work.untimed == Untimed::Captured || work.call.flags & flag::CAPTURED != 0
}

#[cfg(test)]
mod tests {
    use super::survey::Survey;
    use super::*;
    use crate::trace::record::{Alloc, Context, EventOp, Free, Graph, GraphNode};
    use transfer::TransferKind;

    fn record(body: Body) -> Record {
        Record { thread: 1, at: 0, body }
    }

    fn call(api: u16, flags: u16) -> Call {
        Call { api, flags, begin: 10, end: 25, correlation: 3, context: 1, ..Call::default() }
    }

    fn kernel(untimed: Untimed, gpu: Option<GpuTime>, flags: u16) -> Work {
        let mut work = simulation::work(10_000, 4_000, 1_000);
        (work.untimed, work.gpu) = (untimed, gpu);
        work.call.flags = flags;
        work
    }

    fn when(model: &mut Model<'_>, work: Work) -> When {
        model.observe(&record(Body::Work(work))).operation.unwrap().when
    }

    fn after(when: When) -> Option<i64> {
        match when {
            When::Untimed { after, .. } => after,
            _ => panic!("{when:?}"),
        }
    }

    /// The clocks of a trace whose only burst ended at `at`.
    fn burst_ended(at: u64) -> Clocks {
        let mut burst = kernel(Untimed::Programmatic, None, 0);
        (burst.what, burst.call.end) = (What::Burst { launches: 2, ordinary: 0, closing: 0 }, at);
        Survey::of([record(Body::Work(burst))])
    }

    #[test]
    fn a_call_is_counted_at_its_last_record() {
        let clocks = Clocks::default();
        let mut model = Model::new(&Names::default(), &clocks);
        let op = |flags| {
            record(Body::EventRecord(EventOp { call: call(4, flags), stream: 0, event: 0, event_flags: 0 }))
        };
        assert_eq!(model.observe(&op(flag::MORE)).call, None);
        let expected = CountedCall { api: 4, calls: 1, host_ns: 15, failed: false };
        assert_eq!(model.observe(&op(0)).call, Some(expected));
    }

    /// Such a run seemed to be issued after the synchronization had begun, so that nothing said when it was over, and a GPU's time
    /// ended at the last timed operation.
    #[test]
    fn a_run_whose_end_event_is_refused_in_a_synchronization_was_issued_before_it() {
        let clocks = Clocks::default();
        let mut model = Model::new(&Names::default(), &clocks);
        let mut run = kernel(Untimed::Contended, None, 0);
        (run.what, run.call.end) = (What::Burst { launches: 2, ordinary: 2, closing: 30_000 }, 60_000);
        let issued = model.observe(&record(Body::Work(run))).operation.unwrap().returned;
        let mut waits = call(4, 0);
        (waits.begin, waits.end) = (40_000, 90_000);
        let sync = Synchronize { call: waits, scope: SyncScope::Context, stream: 0, event: 0 };
        let drained = model.observe(&record(Body::Synchronize(sync))).drained;
        let [drained] = drained[..] else { panic!("{drained:?}") };
        assert!(issued == 30_000 && issued <= drained.issued_before && drained.by == 90_000, "{drained:?}");
    }

    #[test]
    fn queries_in_a_row_count_each_and_their_own_time() {
        let clocks = Clocks::default();
        let mut model = Model::new(&Names::default(), &clocks);
        let requested = |calls, inside| {
            record(Body::Api(Api { call: call(4, 0), result: 600, subject: 9, calls, inside, entered: 0 }))
        };
        let counted = |model: &mut Model<'_>, record: &Record| {
            let call = model.observe(record).call.unwrap();
            (call.calls, call.host_ns)
        };
        assert_eq!(counted(&mut model, &requested(1, 0)), (1, 15));
        assert_eq!(counted(&mut model, &requested(3, 6)), (3, 6));
    }

    /// Such copies once counted as DtoD, because the call does not say that its addresses are on two GPUs.
    #[test]
    fn a_copy_between_the_memory_of_two_gpus_is_a_peer_copy() {
        use gpuspy_wire::record::{Direction, Memory};
        let on =
            |context, device| record(Body::Context(Context { context, device, handle: 9, destroyed: false }));
        let contexts = [on(1, 0), on(2, 1), on(3, 0)];
        let clocks = Survey::of(contexts.iter().cloned());
        let mut model = Model::new(&Names::default(), &clocks);
        for (context, address) in [(1, 0x1000), (2, 0x2000), (3, 0x3000)] {
            let call = Call { context, ..call(4, 0) };
            let (memory, bytes, stream, pool) = (Memory::Device, 0x1000, 0, 0);
            model.observe(&record(Body::Alloc(Alloc { call, memory, address, bytes, stream, pool })));
        }
        let mut kind = |direction, src, dst| {
            let mut copy = kernel(Untimed::Off, None, 0);
            let (asynchronous, bytes, rows, peer_context) = (false, 64, 1, 0);
            copy.what = What::Memcpy { direction, asynchronous, bytes, dst, src, rows, peer_context };
            match model.observe(&record(Body::Work(copy))).operation.unwrap().what {
                Action::Transfer { kind, .. } => kind,
                other => panic!("{other:?}"),
            }
        };
        for direction in [Direction::Default, Direction::DtoD] {
            assert_eq!(kind(direction, 0x1000, 0x2040), TransferKind::PtoP, "{direction:?}");
            assert_eq!(kind(direction, 0x1000, 0x3040), TransferKind::DtoD, "{direction:?}, one GPU");
            assert_ne!(kind(direction, 0x1000, 0x9000_0000), TransferKind::PtoP, "the GPU is unknown");
        }
    }

    #[test]
    fn a_free_counts_once_when_it_ends() {
        use gpuspy_wire::record::Memory;
        let clocks = Clocks::default();
        let mut model = Model::new(&Names::default(), &clocks);
        let free = record(Body::Free(Free {
            call: call(4, 0),
            memory: Memory::Device,
            address: 64,
            stream: 0,
            bytes: 0,
        }));
        let end = record(Body::Api(Api {
            call: call(4, flag::FAILED),
            result: 1,
            subject: 0,
            calls: 1,
            inside: 0,
            entered: 0,
        }));
        assert_eq!(model.observe(&free).call, None);
        let ended = model.observe(&end);
        assert!(ended.call.unwrap().failed);
        let of = memory::Allocator { context: 1, thread: 1, stream: None, caller: 0, correlation: 0 };
        assert_eq!(ended.memory, [MemoryChange::FreeFailed { memory: Memory::Device, bytes: 0, of }]);
    }

    #[test]
    fn an_operation_is_timed_untimed_lost_or_captured() {
        let gpu = Some(GpuTime { time_base: 2, start: 50_000, duration: 9_000, ..GpuTime::default() });
        let timed = kernel(Untimed::Timed, gpu, 0);
        let clocks = Survey::of([record(Body::Work(timed.clone()))]);
        let mut model = Model::new(&Names::default(), &clocks);
        let untimed = |reason| When::Untimed { reason, after: Some(6_000) };
        assert_eq!(when(&mut model, kernel(Untimed::Timed, None, 0)), untimed(Reason::Lost));
        assert!(matches!(when(&mut model, timed), When::Timed(_)));
        let deep = when(&mut model, kernel(Untimed::DeepQueue, None, 0));
        assert_eq!(deep, untimed(Reason::Untimed(Untimed::DeepQueue)));
        assert_eq!(when(&mut model, kernel(Untimed::Captured, None, 0)), When::Captured);
        assert_eq!(when(&mut model, kernel(Untimed::Off, None, flag::CAPTURED)), When::Captured);
    }

    #[test]
    fn a_burst_times_its_launches_and_a_lost_one_is_undecided_from_its_first_launch() {
        let clocks = burst_ended(10_000);
        let mut model = Model::new(&Names::default(), &clocks);
        assert_eq!(after(when(&mut model, kernel(Untimed::Programmatic, None, flag::BURST))), None);
        assert_eq!(after(when(&mut model, kernel(Untimed::Programmatic, None, 0))), Some(6_000));
        let mut lost = kernel(Untimed::Timed, None, 0);
        (lost.what, lost.call.begin) = (What::Burst { launches: 3, ordinary: 0, closing: 0 }, 9_000);
        assert_eq!(
            after(when(&mut model, lost)),
            Some(6_000),
            "where its first launch's start event was recorded"
        );
    }

    /// The last launches of a stream that is destroyed, or that the program leaves as it is: nothing follows them, so
    /// no event is recorded.
    #[test]
    fn launches_of_an_unended_burst_are_undecided_from_their_calls() {
        for clocks in [Clocks::default(), burst_ended(9_999)] {
            let mut model = Model::new(&Names::default(), &clocks);
            assert_eq!(
                after(when(&mut model, kernel(Untimed::Programmatic, None, flag::BURST))),
                Some(6_000)
            );
        }
    }

    #[test]
    fn a_graph_launch_knows_what_it_ran() {
        let clocks = Clocks::default();
        let mut model = Model::new(&Names::default(), &clocks);
        let (copies, memsets, handle) = (0, 0, 0);
        model.observe(&record(Body::Graph(Graph {
            graph: 5,
            handle,
            kernels: 12,
            copies,
            memsets,
            others: 1,
        })));
        let mut launch = kernel(Untimed::Off, None, 0);
        launch.what = What::Graph { graph: 5, handle, kernels: 12, copies, memsets };
        let launch = record(Body::Work(launch));
        let event = model.observe(&launch);
        assert_eq!(event.operation.unwrap().what, Action::Graph { kernels: 12 });
        assert_eq!(event.graph.unwrap().others, 1);
    }

    #[test]
    fn a_graph_allocates_memory_when_it_runs_and_not_when_it_is_captured() {
        use gpuspy_wire::record::{Memory, NodeKind};
        let clocks = Clocks::default();
        let mut model = Model::new(&Names::default(), &clocks);
        let (graph, kernels, copies, memsets, handle) = (5, 0, 0, 0, 0);
        model.observe(&record(Body::Graph(Graph { graph, handle, kernels, copies, memsets, others: 1 })));
        for (kind, bytes, address) in
            [(NodeKind::Alloc, 64, 4096), (NodeKind::Alloc, 32, 8192), (NodeKind::Free, 0, 4096)]
        {
            let node = GraphNode { graph, kind, kernel: 0, count: 1, bytes, address };
            model.observe(&record(Body::GraphNode(node)));
        }
        let mut memory_of = |flags| {
            let mut launch = kernel(Untimed::Off, None, flags);
            launch.what = What::Graph { graph, handle, kernels, copies, memsets };
            model.observe(&record(Body::Work(launch))).memory
        };
        assert_eq!(memory_of(flag::CAPTURED), []);
        let of = memory::Allocator { context: 1, thread: 1, stream: Some(7), caller: 0, correlation: 0 };
        let came = |bytes| MemoryChange::Allocated { memory: Memory::Graph, bytes, of };
        let memory = Memory::Graph;
        let passed = MemoryChange::Passed { memory, blocks: 1, bytes: 64, at_once: 64, largest: 64, of };
        assert_eq!(memory_of(0), [came(32), passed]);
    }

    #[test]
    fn an_operation_gets_its_device_from_a_context_recorded_anywhere() {
        let context = Context { context: 1, device: 3, handle: 9, destroyed: false };
        let clocks = Survey::of([record(Body::Context(context))]);
        let mut model = Model::new(&Names::default(), &clocks);
        let operation = model.observe(&record(Body::Work(kernel(Untimed::Off, None, 0)))).operation;
        assert_eq!(operation.unwrap().device, Some(3));
    }

    #[test]
    fn a_synchronization_bounds_the_clock_only_for_earlier_work() {
        let gpu = GpuTime { time_base: 2, start: 50_000, duration: 9_000, ..GpuTime::default() };
        let work = record(Body::Work(kernel(Untimed::Timed, Some(gpu), 0)));
        let sync = |begin, scope, stream| {
            let call = Call { begin, end: 20_000, context: 1, ..Call::default() };
            record(Body::Synchronize(Synchronize { call, scope, stream, event: 0 }))
        };
        let half_width = |sync| Survey::of([work.clone(), sync]).of(1, 2).unwrap().half_width(20_000);
        for vain in [sync(10_500, SyncScope::Context, 0), sync(12_000, SyncScope::Stream, 8)] {
            assert_eq!(half_width(vain), None);
        }
        assert!(half_width(sync(12_000, SyncScope::Stream, 7)).is_some_and(|ns| ns < 5_000));
    }
}
