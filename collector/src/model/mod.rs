//! What the records mean. Pure: no I/O, no clock of its own, state bounded by what is alive in the app.
//!
//! Two folds over a trace. A [`Survey`](survey::Survey) learns its clocks. Then [`Model::observe`] takes one [`Record`]
//! after the other, in the trace's order, and says what each means as an [`Event`]: an operation with its honest time on
//! the GPU, a counted call, a change of memory. Analyses fold over those.
//!
//! - [`survey`], [`gpu_clock`]: what is known of the GPU clocks against the host's
//! - [`stamps`]: what an event's time stamp is worth
//! - [`gpu_interval`]: a raw event pair → an interval that holds the truth
//! - [`typical`]: what operations of a kind usually take, for those whose own interval is wide
//! - [`graphs`]: what a graph launch ran
//! - [`filter`]: which part of a trace somebody asks for; [`period`]: which time of it
//! - [`facts`], [`multiprocessor`]: what the driver says of kernels, and what that comes from
//! - [`job`], [`outcome`]: where a process stands among others, and how it ended
//! - [`members`]: which launches were timed together
//! - [`memory`], [`transfer`]: blocks by address; what a copy was
//! - [`modules`]: which library called; [`names`]: what a kernel is called
//! - [`ranges`]: which ranges of the program are open around a call
//! - [`run`]: what processes of a run have in common
//! - [`order`]: from host order to GPU order

pub mod facts;
pub mod filter;
pub mod gpu_clock;
pub mod gpu_interval;
pub mod graphs;
pub mod host_time;
pub mod job;
pub mod members;
pub mod memory;
pub mod modules;
pub mod multiprocessor;
pub mod names;
pub mod order;
pub mod outcome;
pub mod period;
pub mod ranges;
pub mod run;
#[cfg(test)]
pub(crate) mod simulation;
pub mod stamps;
pub mod survey;
pub mod transfer;
pub mod typical;

use crate::trace::record::{
    Api, Body, Call, Device, GpuTime, Names, NodeTime, Record, Synchronize, What, Work,
};
use facts::Facts;
use gpu_clock::{Clock, Clocks};
use gpu_interval::{GpuInterval, host};
use gpuspy_wire::communication::is_communication;
use gpuspy_wire::record::{LossCause, Namespace, SyncScope, Untimed, flag};
use graphs::{Contents, Graphs};
use memory::{Blocks, MemoryChange, failed};
use modules::Modules;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use transfer::{HostMemory, Moved, TransferKind};

/// What one record means.
#[derive(Clone, Debug)]
pub struct Event<'r> {
    /// The record itself.
    pub record: &'r Record,
    /// An API call that ended here. Absent on records that are not the last of their call.
    pub call: Option<CountedCall>,
    /// Work for a GPU.
    pub operation: Option<Operation>,
    /// What a graph launch ran.
    pub graph: Option<Arc<Contents>>,
    /// When a node of a graph ran.
    pub node: Option<GpuInterval>,
    /// What became of memory.
    pub memory: Vec<MemoryChange>,
    /// Streams that are known to be empty.
    pub drained: Option<Drained>,
}

impl<'r> Event<'r> {
    /// A record that means nothing yet.
    pub fn new(record: &'r Record) -> Self {
        Event {
            record,
            call: None,
            operation: None,
            graph: None,
            node: None,
            memory: Vec::new(),
            drained: None,
        }
    }
}

/// The app waited until streams were empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drained {
    /// Whose streams.
    pub context: u32,
    /// Which one; `None` = all of the context.
    pub stream: Option<u64>,
    /// Work whose call had returned by this host time is done.
    pub issued_before: u64,
    /// It was done by then: host ns on the line.
    pub by: i64,
}

/// A call of the app, counted once; or questions in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CountedCall {
    /// The outermost API, in [`Namespace::Api`].
    pub api: u16,
    /// How many: one, but for questions in a row.
    pub calls: u32,
    /// From entry to return on the host, ns.
    pub host_ns: u64,
    /// It returned an error.
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
    /// Return address of the call.
    pub caller: u64,
    /// Host ns when the call was entered; of a burst its first one, where that is known.
    pub called: u64,
    /// Host ns when the call returned.
    pub returned: u64,
    /// What it does.
    pub what: Action,
    /// When it ran, or why that is not known.
    pub when: When,
}

/// What an operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A kernel.
    Kernel {
        /// In [`Namespace::Kernel`]; 0 = unknown.
        name: u32,
        /// It moves data between GPUs (NCCL and its like).
        communication: bool,
    },
    /// A copy or a set.
    Transfer {
        /// Which way.
        kind: TransferKind,
        /// From or to what host memory.
        host_memory: HostMemory,
        /// How much.
        bytes: u64,
    },
    /// A graph launch.
    Graph {
        /// Kernels that it runs.
        kernels: u32,
    },
    /// Launches timed as one: themselves untimed, and before it on its stream.
    Burst {
        /// How many.
        launches: u32,
        /// Those of them that are ordinary: all of them in a run.
        ordinary: u32,
        /// All of them move data between GPUs.
        communication: bool,
    },
}

impl Action {
    /// Whether it is a run of ordinary launches on a deep stream.
    pub fn is_run(&self) -> bool {
        matches!(self, Action::Burst { launches, ordinary, .. } if launches == ordinary)
    }

    /// What it moves, if it is a copy or a set.
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
    /// It ran, nobody knows when.
    Untimed {
        /// Why.
        reason: Reason,
        /// Not before this: host ns on the line. `None` if a [`Burst`](Action::Burst) tells when.
        after: Option<i64>,
    },
    /// It did not run now: it became a node of a graph.
    Captured,
}

/// Why an operation has no GPU time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// No event pair was recorded.
    Untimed(Untimed),
    /// The pair was recorded, its time never came.
    Lost,
}

impl Reason {
    /// Every reason that an executed operation can have.
    pub fn all() -> impl Iterator<Item = Reason> {
        let none = [Untimed::Timed, Untimed::Captured];
        let untimed = Untimed::ALL.iter().copied().filter(move |u| !none.contains(u)).map(Reason::Untimed);
        untimed.chain([Reason::Lost])
    }

    /// The name users see.
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
    /// Its end on the line, and by how much its stamps can be off.
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
    /// Context → the time base that its operations are measured on at the moment.
    time_bases: HashMap<u32, u32>,
    causality_broken: u64,
    stream_ends: HashMap<(u32, u64), StreamEnd>,
    members: members::Open,
    graphs: Graphs,
    blocks: Blocks,
    modules: Modules,
    facts: Facts,
}

/// What a [`Model`] knows in the end about the process itself.
#[derive(Clone, Debug, Default)]
pub struct Process {
    /// Its GPUs, by ordinal.
    pub devices: BTreeMap<u32, Device>,
    /// Its code.
    pub modules: Modules,
    /// Its kernels.
    pub facts: Facts,
    /// Its contexts' devices, by their numbers.
    pub context_devices: HashMap<u32, u32>,
    /// How often clock bounds contradicted each other: the assumptions about drift do not hold.
    pub clock_contradictions: u64,
    /// How many operations the line puts before their call or after they were seen to be over. None, unless bounds
    /// contradicted each other.
    pub causality_broken: u64,
}

impl<'c> Model<'c> {
    /// A model that knows nothing yet but the texts and the clocks.
    pub fn new(names: &Names, clocks: &'c Clocks) -> Self {
        let kernels = names.0.iter().filter(|((space, _), _)| *space == Namespace::Kernel);
        Model {
            clocks,
            devices: BTreeMap::new(),
            communication: kernels
                .filter(|(_, name)| is_communication(name.as_bytes()))
                .map(|((_, id), _)| *id)
                .collect(),
            time_bases: HashMap::new(),
            causality_broken: 0,
            stream_ends: HashMap::new(),
            members: members::Open::default(),
            graphs: Graphs::default(),
            blocks: Blocks::default(),
            modules: Modules::default(),
            facts: Facts::new(names),
        }
    }

    /// Says what a record means.
    pub fn observe<'r>(&mut self, record: &'r Record) -> Event<'r> {
        let mut event = Event::new(record);
        match &record.body {
            Body::Work(work) => {
                event.call = counted(&work.call);
                event.operation = Some(self.operation(work));
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
            // Its call is counted when it ends.
            Body::Free(free) => event.memory = self.blocks.freed(record.thread, free),
            Body::Synchronize(sync) => {
                event.call = counted(&sync.call);
                event.drained = self.synchronized(sync);
            }
            Body::EventRecord(op) | Body::EventWait(op) => event.call = counted(&op.call),
            Body::Api(api) => {
                event.call = counted(&api.call).map(|call| questions(call, api));
                event.memory = self.blocks.call_ended(record.thread, api);
                self.facts.called(api);
            }
            Body::Context(context) if context.destroyed => {
                event.memory = self.blocks.context_destroyed(context.context);
                self.stream_ends.retain(|(owner, _), _| *owner != context.context);
                self.members.forget_context(context.context);
            }
            Body::Stream(stream) if stream.destroyed => {
                self.stream_ends.remove(&(stream.context, stream.stream));
                self.members.forget(stream.context, stream.stream);
            }
            Body::Graph(graph) => self.graphs.told(graph),
            Body::GraphNode(node) => self.graphs.holds(node),
            Body::NodeTime(node) => event.node = self.node(node),
            Body::Module(module) => self.modules.mapped(module),
            Body::KernelFacts(facts) => self.facts.told(facts),
            Body::Device(device) => {
                self.devices.insert(device.ordinal, device.clone());
            }
            Body::Context(_)
            | Body::Stream(_)
            | Body::ClockSample(_)
            | Body::Window(_)
            | Body::NvtxRange(_)
            | Body::Lookup(_)
            | Body::Capture { .. }
            | Body::Loss { .. } => {}
        }
        event
    }

    /// Ends the fold.
    pub fn finish(self) -> Process {
        Process {
            devices: self.devices,
            modules: self.modules,
            facts: self.facts,
            context_devices: self.clocks.devices.clone(),
            clock_contradictions: self.clocks.contradictions(),
            causality_broken: self.causality_broken,
        }
    }

    fn operation(&mut self, work: &Work) -> Operation {
        let what = self.action(work);
        Operation {
            correlation: work.call.correlation,
            context: work.call.context,
            device: self.clocks.devices.get(&work.call.context).copied(),
            stream: work.stream,
            caller: work.call.caller,
            called: called(work),
            returned: work.call.end,
            what,
            when: self.when(work, what),
        }
    }

    fn action(&mut self, work: &Work) -> Action {
        match work.what {
            What::Kernel { name, .. } => {
                let communication = self.communication.contains(&name);
                let action = Action::Kernel { name, communication };
                self.members.observe(work, communication, self.clocks.typical.of(work, action));
                action
            }
            What::Memcpy { direction, bytes, dst, src, peer_context, .. } => {
                let is_peer = peer_context != 0 || self.are_of_two_devices(src, dst);
                let (kind, host_memory) = transfer::resolve(direction, src, dst, is_peer, &self.blocks);
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

    /// Whether two addresses are known to lie in the memory of two GPUs.
    fn are_of_two_devices(&self, src: u64, dst: u64) -> bool {
        let device = |address| self.clocks.devices.get(&self.blocks.context_of(address)?).copied();
        device(src).zip(device(dst)).is_some_and(|(from, to)| from != to)
    }

    /// What a graph launch ran.
    fn contents(&self, what: &What) -> Option<Arc<Contents>> {
        match *what {
            What::Graph { graph, kernels, copies, memsets, .. } => {
                Some(self.graphs.launched(graph, kernels, copies, memsets))
            }
            _ => None,
        }
    }

    /// When a node ran: its graph orders it between its two events.
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

    /// Whether the record of a burst tells of a launch, be it in front of it.
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

    /// Before this untimed work cannot have begun: its call (a burst's first one) had not been entered.
    fn submitted_after(&self, work: &Work) -> i64 {
        let begin = host(called(work));
        let lower = |clock: &Clock| Some(clock.to_host(begin + clock.lower(begin)?).min(begin));
        self.clock(work.call.context).and_then(lower).unwrap_or(begin)
    }

    /// The app waited: what it had issued to the streams before is over.
    fn synchronized(&mut self, sync: &Synchronize) -> Option<Drained> {
        let (context, end) = (sync.call.context, host(sync.call.end));
        let stream = match sync.scope {
            SyncScope::Device | SyncScope::Context => None,
            SyncScope::Stream => Some(sync.stream),
            // Which operation an event stands behind is not kept.
            SyncScope::Event => return None,
        };
        for (key, last) in &self.stream_ends {
            let is_late = last.end - last.error > end && survey::covers(sync, *key, last.returned);
            self.causality_broken += u64::from(is_late);
        }
        let upper = |clock: &Clock| Some(clock.to_host(end + clock.upper(end)?).max(end));
        let by = self.clock(context).and_then(upper).unwrap_or(end);
        Some(Drained { context, stream, issued_before: sync.call.begin, by })
    }

    /// The clock that a context is read from at the moment.
    fn clock(&self, context: u32) -> Option<&'c Clock> {
        self.clocks.of(context, *self.time_bases.get(&context)?)
    }
}

/// The call that a record ends, if it does and is one of the app's.
fn counted(call: &Call) -> Option<CountedCall> {
    (call.api != 0 && call.flags & flag::MORE == 0).then(|| CountedCall {
        api: call.api,
        calls: 1,
        host_ns: call.end.saturating_sub(call.begin).min(gpu_interval::MOST_TIME),
        failed: failed(call),
    })
}

/// What a record of questions in a row counts: the time between them was the app's.
fn questions(call: CountedCall, api: &Api) -> CountedCall {
    if api.calls <= 1 {
        return call;
    }
    CountedCall { calls: api.calls, host_ns: api.inside.min(gpu_interval::MOST_TIME), ..call }
}

/// When the call was entered; a burst's first one.
fn called(work: &Work) -> u64 {
    match work.what {
        What::Burst { .. } if work.lead < u64::MAX => {
            work.call.begin.min(work.submitted.saturating_sub(work.lead))
        }
        _ => work.call.begin,
    }
}

/// It did not run now: it became a node of a graph.
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

    /// What is known of a trace whose one burst was ended then.
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

    #[test]
    fn questions_in_a_row_count_each_and_their_own_time() {
        let clocks = Clocks::default();
        let mut model = Model::new(&Names::default(), &clocks);
        let asked = |calls, inside| {
            record(Body::Api(Api { call: call(4, 0), result: 600, subject: 9, calls, inside, entered: 0 }))
        };
        let counted = |model: &mut Model<'_>, record: &Record| {
            let call = model.observe(record).call.unwrap();
            (call.calls, call.host_ns)
        };
        assert_eq!(counted(&mut model, &asked(1, 0)), (1, 15));
        assert_eq!(counted(&mut model, &asked(3, 6)), (3, 6));
    }

    /// They were DtoD: the call does not say that its addresses are of two GPUs.
    #[test]
    fn a_copy_between_the_memory_of_two_gpus_is_one_between_peers() {
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
            assert_ne!(kind(direction, 0x1000, 0x9000_0000), TransferKind::PtoP, "nobody knows");
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
        let of = memory::Allocator { context: 1, thread: 1, stream: None, caller: 0 };
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
    fn a_burst_tells_when_its_launches_ran_and_is_undecided_from_its_first_on_if_it_was_lost() {
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

    /// The last of a stream that is destroyed, or that the program leaves as it is: nothing follows them, so no event does.
    #[test]
    fn launches_of_a_burst_that_nothing_ended_are_undecided_from_their_calls_on() {
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
    fn a_graph_takes_memory_when_it_runs_and_not_when_it_is_captured() {
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
        let of = memory::Allocator { context: 1, thread: 1, stream: Some(7), caller: 0 };
        let came = |bytes| MemoryChange::Allocated { memory: Memory::Graph, bytes, of };
        let memory = Memory::Graph;
        let passed = MemoryChange::Passed { memory, blocks: 1, bytes: 64, at_once: 64, of };
        assert_eq!(memory_of(0), [came(32), passed]);
    }

    #[test]
    fn a_device_is_known_by_its_context_wherever_that_is_told() {
        let context = Context { context: 1, device: 3, handle: 9, destroyed: false };
        let clocks = Survey::of([record(Body::Context(context))]);
        let mut model = Model::new(&Names::default(), &clocks);
        let operation = model.observe(&record(Body::Work(kernel(Untimed::Off, None, 0)))).operation;
        assert_eq!(operation.unwrap().device, Some(3));
    }

    #[test]
    fn a_sync_bounds_the_clock_only_for_what_was_issued_before() {
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
