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
//! - [`event`]: what is the meaning of a record, as the analyses see it?
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
mod event;
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
use memory::{Blocks, failed};
use modules::Modules;
use stacks::{Caller, Stacks};
use std::collections::BTreeMap;
use std::sync::Arc;
use transfer::{HostMemory, TransferKind};

pub use event::{Action, CountedCall, Event, Operation, Reason, When};
pub use events::Drained;

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
mod tests;
