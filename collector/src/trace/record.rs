//! What does a trace contain, once decoded? The collector's own form of the wire's records.
//!
//! Times are host ns on `CLOCK_MONOTONIC_RAW` unless a field says otherwise, nearly all of them in whole
//! [steps](super::rounding); GPU times are ns on their context's clock. Names are ids into [`Names`].

pub use super::hang::{Blocked, Completed, Hang, MAX_HANGS, Operation};
use gpuspy_wire::build_id::BuildId;
use gpuspy_wire::record::{
    Direction, LossCause, Memory, Namespace, NodeKind, NvtxChange, SyncScope, Untimed, Via, WindowChange,
    flag,
};
use std::collections::BTreeMap;

/// One thing that happened, on one thread.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// The thread's claim number, unique in the process. [`Names`] and the `Status` contain its tid.
    pub thread: u32,
    /// When the record was published, which is its place in the trace's order: the end of a call, the start of a
    /// free. Queries in a row that are recorded late are placed at most a second before the newest record of that
    /// moment.
    pub at: u64,
    /// What happened.
    pub body: Body,
}

/// How long before its window of time a trace places what it has of the time before, ns.
pub const CARRIED_BEFORE: u64 = 1;

/// Before the length of a window of time in [`Fact::CaptureRange`](gpuspy_wire::record::Fact::CaptureRange), and after it.
const WINDOW: (&str, &str) = ("window of ", " s");

/// Returns the [`Fact::CaptureRange`](gpuspy_wire::record::Fact::CaptureRange) of a trace that is about a window of time, by the window's length.
pub fn window_text(seconds: u64) -> String {
    format!("{}{seconds}{}", WINDOW.0, WINDOW.1)
}

/// Returns the length in seconds of the window of time that a [`Fact::CaptureRange`](gpuspy_wire::record::Fact::CaptureRange) is.
pub fn seconds_of_window(text: &str) -> Option<u64> {
    text.strip_prefix(WINDOW.0)?.strip_suffix(WINDOW.1)?.parse().ok()
}

impl Record {
    /// The correlation of an operation that should get a GPU time and has none.
    pub fn awaits_time(&self) -> Option<u64> {
        match &self.body {
            Body::Work(work) if work.untimed == Untimed::Timed && work.gpu.is_none() => {
                Some(work.call.correlation)
            }
            _ => None,
        }
    }

    /// The name of the kernel that it launches on a stream, outside of a stream capture.
    pub fn launched(&self) -> Option<u32> {
        match &self.body {
            Body::Work(Work { what: What::Kernel { name, .. }, untimed, call, .. })
                if *untimed != Untimed::Captured && call.flags & flag::CAPTURED == 0 =>
            {
                Some(*name)
            }
            _ => None,
        }
    }

    /// Returns the host ns at which its call, or the change of its NVTX range, began; `None` for other records.
    pub fn began(&self) -> Option<u64> {
        match self.body {
            Body::NvtxRange(_) => Some(self.at),
            _ => self.body.call().map(|call| call.begin),
        }
    }
}

/// What happened.
#[derive(Clone, Debug, PartialEq)]
pub enum Body {
    /// Work for a GPU.
    Work(Work),
    /// An allocation of memory.
    Alloc(Alloc),
    /// A free of memory, published before its call. A later [`Api`] with the same correlation and the flag `FAILED`
    /// takes it back.
    Free(Free),
    /// A synchronization of the host.
    Synchronize(Synchronize),
    /// The program recorded an event.
    EventRecord(EventOp),
    /// The program made a stream wait for an event.
    EventWait(EventOp),
    /// Any other call, a failed one, or the end of a free.
    Api(Api),
    /// A context was created or destroyed.
    Context(Context),
    /// A stream was created or destroyed.
    Stream(Stream),
    /// A graph was instantiated.
    Graph(Graph),
    /// The contents of a graph of one kind.
    GraphNode(GraphNode),
    /// When a node of a graph ran.
    NodeTime(NodeTime),
    /// A sample of a GPU's clock.
    ClockSample(ClockSample),
    /// The start or the end of a window of `--timing auto`.
    Window(Window),
    /// The start or the end of an NVTX range, or a marker.
    NvtxRange(NvtxRange),
    /// An executable mapping of the process.
    Module(Module),
    /// A GPU.
    Device(Device),
    /// What the driver says about a kernel.
    KernelFacts(KernelFacts),
    /// A program looked up a CUDA function that the agent does not know.
    Lookup(Lookup),
    /// The start or the end of a capture range.
    CaptureEdge {
        /// Whether it is the start.
        begins: bool,
    },
    /// How long the thread has run so far, by the system. The collector makes it.
    ThreadTime(ThreadTime),
    /// Something was lost.
    Loss {
        /// The cause.
        cause: LossCause,
        /// How much was lost.
        count: u64,
    },
}

impl Body {
    /// The call that it belongs to, if any.
    pub fn call(&self) -> Option<&Call> {
        match self {
            Body::Work(work) => Some(&work.call),
            Body::Alloc(alloc) => Some(&alloc.call),
            Body::Free(free) => Some(&free.call),
            Body::Synchronize(sync) => Some(&sync.call),
            Body::EventRecord(op) | Body::EventWait(op) => Some(&op.call),
            Body::Api(api) => Some(&api.call),
            Body::Context(_)
            | Body::Stream(_)
            | Body::Graph(_)
            | Body::GraphNode(_)
            | Body::NodeTime(_)
            | Body::ClockSample(_)
            | Body::Window(_)
            | Body::NvtxRange(_)
            | Body::Module(_)
            | Body::Device(_)
            | Body::KernelFacts(_)
            | Body::Lookup(_)
            | Body::CaptureEdge { .. }
            | Body::ThreadTime(_)
            | Body::Loss { .. } => None,
        }
    }

    /// The same, to change it.
    pub fn call_mut(&mut self) -> Option<&mut Call> {
        match self {
            Body::Work(work) => Some(&mut work.call),
            Body::Alloc(alloc) => Some(&mut alloc.call),
            Body::Free(free) => Some(&mut free.call),
            Body::Synchronize(sync) => Some(&mut sync.call),
            Body::EventRecord(op) | Body::EventWait(op) => Some(&mut op.call),
            Body::Api(api) => Some(&mut api.call),
            Body::Context(_)
            | Body::Stream(_)
            | Body::Graph(_)
            | Body::GraphNode(_)
            | Body::NodeTime(_)
            | Body::ClockSample(_)
            | Body::Window(_)
            | Body::NvtxRange(_)
            | Body::Module(_)
            | Body::Device(_)
            | Body::KernelFacts(_)
            | Body::Lookup(_)
            | Body::CaptureEdge { .. }
            | Body::ThreadTime(_)
            | Body::Loss { .. } => None,
        }
    }
}

/// The fields that every recorded call has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Call {
    /// Unique in the process.
    pub correlation: u64,
    /// The outermost API, in [`Namespace::Api`].
    pub api: u16,
    /// The route by which the call reached the agent; `None` if the question makes no sense for it.
    pub via: Option<Via>,
    /// Bits of [`gpuspy_wire::record::flag`].
    pub flags: u16,
    /// Host ns at entry.
    pub begin: u64,
    /// Host ns at return (of the driver call, if `flags` contains `MORE`).
    pub end: u64,
    /// Return address of the call.
    pub caller: u64,
    /// Context number; 0 = unknown or none.
    pub context: u32,
    /// The stack that made the call, in [`Namespace::Stack`]; 0 = not known.
    pub stack: u32,
}

/// An operation on a stream.
#[derive(Clone, Debug, PartialEq)]
pub struct Work {
    /// The call.
    pub call: Call,
    /// Host ns when the enqueuing driver call returned.
    pub submitted: u64,
    /// Host ns from the call's start until CUDA's own function was called, for copies and memsets; 0 = unknown.
    pub entered: u64,
    /// ns from the start of the start event's record to `submitted`; `u64::MAX` = unbounded; 0 = untimed.
    pub lead: u64,
    /// ns from `submitted` to the return of the end event's record; `u64::MAX` = unbounded; 0 = untimed.
    pub tail: u64,
    /// Why it has no GPU time, or `Timed`.
    pub untimed: Untimed,
    /// Stream id.
    pub stream: u64,
    /// Its GPU time, once known. If `untimed` is `Timed` and this is `None`, the time was lost.
    pub gpu: Option<GpuTime>,
    /// What it does.
    pub what: What,
}

/// What an operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// A kernel.
    Kernel {
        /// In [`Namespace::Kernel`]; 0 = unknown.
        name: u32,
        /// The handle that was launched.
        function: u64,
        /// Blocks.
        grid: [u32; 3],
        /// Threads per block.
        block: [u32; 3],
        /// Dynamic shared memory, bytes.
        shared_bytes: u32,
        /// The launch attributes that were given, one bit each.
        attributes: u32,
        /// Cluster dimensions; 0 = none.
        cluster: [u8; 3],
    },
    /// A copy.
    Memcpy {
        /// The direction that the program stated.
        direction: Direction,
        /// Whether the API was an asynchronous one.
        asynchronous: bool,
        /// Bytes.
        bytes: u64,
        /// Destination address.
        dst: u64,
        /// Source address.
        src: u64,
        /// Rows of a 2D or 3D copy, or copies of a batch ([`flag::BATCH`]); 1 for a
        /// linear copy.
        rows: u32,
        /// The other context of a peer copy; 0 = none.
        peer_context: u32,
    },
    /// A memset.
    Memset {
        /// Whether the API was an asynchronous one.
        asynchronous: bool,
        /// Bytes.
        bytes: u64,
        /// First address.
        dst: u64,
        /// The value.
        value: u32,
        /// Size of an element, bytes.
        element: u8,
        /// Rows of a 2D memset; 1 for a linear one.
        rows: u32,
    },
    /// A graph launch.
    Graph {
        /// Its [`Graph::graph`]; 0 = unknown.
        graph: u32,
        /// The handle that was launched.
        handle: u64,
        /// The number of its kernels.
        kernels: u32,
        /// The number of its copies.
        copies: u32,
        /// The number of its memsets.
        memsets: u32,
    },
    /// Several launches timed by one event pair, which come before it on its stream: a burst of programmatic
    /// launches, which no event may split, or a run of launches on a deep stream.
    Burst {
        /// The number of launches.
        launches: u32,
        /// The number of ordinary launches among them; all of them in a run.
        ordinary: u32,
        /// ns from the return of the last launch to the return of the end event's record, which is `call.end`.
        closing: u64,
    },
}

/// The GPU time of an operation, on its context's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct GpuTime {
    /// The time base that `start` is measured on.
    pub time_base: u32,
    /// Start event, ns since the time base's origin.
    pub start: i64,
    /// End event − start event, ns: the raw value, which includes over-read.
    pub duration: u64,
    /// Error of `start`: ± this, ns.
    pub start_error: u32,
    /// Error of `duration`: ± this, ns.
    pub duration_error: u32,
    /// Host ns when the end event was first observed to be complete.
    pub seen: u64,
    /// Bits of [`gpuspy_wire::record::flag`] that the poller added.
    pub flags: u16,
    /// If the end event was recorded later: host ns from `submitted` to the return of that event's record, which
    /// replaces [`Work::tail`]; `u64::MAX` = longer than the field can say. 0: `Work::tail` counts.
    pub tail: u64,
}

/// An allocation of memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alloc {
    /// The call.
    pub call: Call,
    /// The kind of memory.
    pub memory: Memory,
    /// First address, or handle.
    pub address: u64,
    /// Size in bytes. With [`Memory::Reserved`], 0 means another reference.
    pub bytes: u64,
    /// The stream of a stream-ordered allocation.
    pub stream: u64,
    /// Its source: the pool that the call named, or the handle that is mapped; 0 = none.
    pub pool: u64,
}

/// A free of memory. `call.end` equals `call.begin`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Free {
    /// The call.
    pub call: Call,
    /// The kind of memory, as far as the API determines it.
    pub memory: Memory,
    /// First address, or handle.
    pub address: u64,
    /// The stream of a stream-ordered free.
    pub stream: u64,
    /// If all blocks of a range are freed, its size in bytes; 0: the block at `address`.
    pub bytes: u64,
}

/// A synchronization of the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Synchronize {
    /// The call.
    pub call: Call,
    /// What it waited for.
    pub scope: SyncScope,
    /// The stream, if the scope is `Stream`.
    pub stream: u64,
    /// The event, if the scope is `Event`.
    pub event: u64,
}

/// An event that is recorded, or waited for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventOp {
    /// The call.
    pub call: Call,
    /// The stream.
    pub stream: u64,
    /// The event's handle.
    pub event: u64,
    /// The API's flags.
    pub event_flags: u32,
}

/// Any other call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Api {
    /// The call.
    pub call: Call,
    /// What it returned.
    pub result: i32,
    /// The handle it was about, or 0. Of an allocation that failed, the bytes that it asked for; 0 = unknown.
    pub subject: u64,
    /// The number of calls: more than one only for queries (`cuEventQuery` and similar calls) in a row.
    pub calls: u32,
    /// ns inside those calls. 0 for a single call, whose `begin` and `end` say it.
    pub inside: u64,
    /// Host ns from the call's start until CUDA's own function was called; 0 = unknown, or several calls.
    pub entered: u64,
}

/// A context.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Context {
    /// Its number.
    pub context: u32,
    /// The device's ordinal.
    pub device: u32,
    /// The CUcontext.
    pub handle: u64,
    /// Whether it was destroyed or reset; else it was created or adopted.
    pub destroyed: bool,
}

/// A stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stream {
    /// Its id.
    pub stream: u64,
    /// The CUstream.
    pub handle: u64,
    /// Its context.
    pub context: u32,
    /// CUstream_flags.
    pub flags: u32,
    /// Its priority.
    pub priority: i32,
    /// Whether it was destroyed; else it became known.
    pub destroyed: bool,
}

/// An instantiated graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Graph {
    /// Its number.
    pub graph: u32,
    /// The CUgraphExec.
    pub handle: u64,
    /// Kernel nodes.
    pub kernels: u32,
    /// Copy nodes.
    pub copies: u32,
    /// Memset nodes.
    pub memsets: u32,
    /// Nodes of other kinds.
    pub others: u32,
}

/// The contents of a graph of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GraphNode {
    /// The graph's [`Graph::graph`].
    pub graph: u32,
    /// What the nodes do.
    pub kind: NodeKind,
    /// Kernels: in [`Namespace::Kernel`]; 0 = unknown.
    pub kernel: u32,
    /// The number of nodes.
    pub count: u32,
    /// Bytes that all copies or memsets move in one launch, or that the node allocates.
    pub bytes: u64,
    /// First address of what the node allocates or frees; else 0.
    pub address: u64,
}

/// When a node of a graph ran, in one launch of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeTime {
    /// Correlation of the launch.
    pub correlation: u64,
    /// The context; 0 = unknown.
    pub context: u32,
    /// Its kernel, in [`Namespace::Kernel`]; 0 = unknown.
    pub kernel: u32,
    /// Its number in the graph.
    pub node: u32,
    /// Its GPU time.
    pub gpu: GpuTime,
}

/// A sample of a GPU's clock: an event of the poller's own that fired between two host times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClockSample {
    /// The context.
    pub context: u32,
    /// The time base that `gpu` is measured on.
    pub time_base: u32,
    /// The event's stamp, GPU ns since the time base's origin.
    pub gpu: i64,
    /// Error of `gpu`: ± this, ns.
    pub error: u32,
    /// Host ns at which it had not fired yet.
    pub after: u64,
    /// Host ns at which it had fired.
    pub before: u64,
}

/// The start or the end of a window of `--timing auto`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    /// Whether it is the start or the end.
    pub change: WindowChange,
    /// Time that hooks have taken of the program's threads so far, ns.
    pub agent_ns: u64,
    /// CPU time of the poller so far, ns.
    pub poller_ns: u64,
    /// The number of launches so far.
    pub launches: u64,
}

/// The start or the end of an NVTX range, or a marker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NvtxRange {
    /// The change.
    pub change: NvtxChange,
    /// The range's id if any thread may end it; else 0.
    pub id: u64,
    /// In [`Namespace::Domain`]; 0 = the default domain.
    pub domain: u32,
    /// Its text, in [`Namespace::NvtxRange`]; 0 = none, or more texts than a trace names.
    pub text: u32,
    /// The program's number of a category; 0 = none.
    pub category: u32,
    /// ARGB; 0 = none.
    pub color: u32,
    /// Whether the program gave a payload, which is not kept.
    pub payload: bool,
}

/// An executable mapping, as it was seen.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Module {
    /// First address of its code.
    pub start: u64,
    /// First address after that.
    pub end: u64,
    /// Load bias.
    pub bias: u64,
    /// In [`Namespace::Path`].
    pub path: u32,
    /// The first bytes of its build id, with zeros after it; all zero = it has none, or not known.
    pub build_id: BuildId,
}

/// A GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// Ordinal in the process.
    pub ordinal: u32,
    /// UUID.
    pub uuid: [u8; 16],
    /// Size of its memory, bytes.
    pub memory_bytes: u64,
    /// Streaming multiprocessors.
    pub multiprocessors: u32,
    /// Compute capability, major * 10 + minor.
    pub capability: u32,
    /// The most warps that a multiprocessor holds.
    pub warps_per_multiprocessor: u32,
}

/// What the driver says about a kernel in launches with blocks of one size.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KernelFacts {
    /// The handle that was launched.
    pub function: u64,
    /// The module or library that contains it; 0 = unknown.
    pub module: u64,
    /// An address inside the file that the kernel came from; 0 = unknown.
    pub origin: u64,
    /// In [`Namespace::Kernel`].
    pub kernel: u32,
    /// The context.
    pub context: u32,
    /// Threads per block.
    pub threads: u32,
    /// Dynamic shared memory per block, bytes.
    pub shared_bytes: u32,
    /// Static shared memory per block, bytes.
    pub static_shared_bytes: u32,
    /// Local memory per thread, bytes.
    pub local_bytes: u32,
    /// Registers per thread.
    pub registers: u16,
    /// Blocks that a multiprocessor holds at a time; 0 = unknown.
    pub blocks_per_multiprocessor: u16,
    /// Threads of the largest block that it can be launched with.
    pub max_threads: u16,
}

/// A program looked up a CUDA function that the agent does not know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lookup {
    /// Its name, in [`Namespace::Function`]; 0 = all functions beyond the limit on names.
    pub function: u32,
    /// The number of lookups so far.
    pub count: u64,
}

/// How long a thread has run since it was created (`/proc/PID/task/TID/schedstat`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThreadTime {
    /// Time on a processor, ns.
    pub ran: u64,
    /// Time in which it was ready to run and waited for a processor, ns. A wait counts once it is over.
    pub queued: u64,
    /// How much of the latest time on a processor `ran` may lack, ns: the system counts that of a running thread once a
    /// tick.
    pub late: u64,
}

/// The texts that ids stand for. All are known before the first record is read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names(pub BTreeMap<(Namespace, u32), String>);

impl Names {
    /// The text of an id, if the trace has it.
    pub fn get(&self, namespace: Namespace, id: u32) -> Option<&str> {
        self.0.get(&(namespace, id)).map(String::as_str)
    }
}

/// How a session ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ending {
    /// It was still running when this was written.
    #[default]
    Running,
    /// The process reached its exit handlers.
    Exited,
    /// The process ended without them: killed, crashed, or by `_exit`. [`Status::exit`] says which, if that is known.
    Vanished,
    /// The process replaced itself (exec) or closed the session.
    Replaced,
    /// The collector was stopped while the process was running.
    Detached,
}

/// How a process exited, as its parent learns it (wait(2)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// It exited with this code.
    Code(u8),
    /// This signal ended it.
    Signal(u8),
}

impl Exit {
    /// Decodes a wait status from `waitpid`.
    pub fn from_wait_status(status: i32) -> Exit {
        // wait(2) on Linux: the signal is in the low seven bits, a code in the next eight above them and the core flag.
        match status & 0x7f {
            0 => Exit::Code((status >> 8) as u8),
            signal => Exit::Signal(signal as u8),
        }
    }
}

/// What is known about a process and its collection at the time of a flush; the last one in a file counts, with the threads of
/// those before it. In a trace without an end, its counters may be ten seconds older than the last records.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Status {
    /// Process id, in the collector's namespace, or in its own where the collector's has none for it.
    pub pid: u32,
    /// Field 22 of /proc/PID/stat.
    pub start_time: u64,
    /// Host ns (CLOCK_MONOTONIC_RAW) of the session's first anchor.
    pub began: u64,
    /// CLOCK_REALTIME at that moment, ns.
    pub began_realtime: u64,
    /// CLOCK_REALTIME when the session began, ns, if the trace does not have its beginning.
    pub session_realtime: Option<u64>,
    /// Host ns when this status was written, or the process ended.
    pub ended: u64,
    /// How the session ended.
    pub ending: Ending,
    /// How the process exited, if the system reported it to the collector.
    pub exit: Option<Exit>,
    /// The boot of the machine that its host times count from: the first half of the system's boot id, if it has one.
    /// Processes with the same value share a time line.
    pub boot: Option<u64>,
    /// The pid of its parent at the start of collection, in the collector's namespace; `None` if it has none there.
    pub parent: Option<u32>,
    /// Why a part of the trace could not be written: the system's error number (errno(3)).
    pub write_error: Option<i32>,
    /// Time in hooks outside the real calls, summed over all threads, ns.
    pub agent_ns: u64,
    /// CPU time of the poller outside driver calls, ns.
    pub poller_ns: u64,
    /// The number of calls entered.
    pub calls: u64,
    /// The number of records that the agent published.
    pub published: u64,
    /// The number of records read from the rings and accepted.
    pub collected: u64,
    /// The number of operations whose GPU time was pending at the end.
    pub pending: u64,
    /// The number of losses by cause, from the agent's and the collector's counters.
    pub lost: BTreeMap<LossCause, u64>,
    /// The number of kernel launches that were left out because they were outside the capture ranges. It counts
    /// launches that succeeded and were not part of a stream capture.
    pub outside_launches: u64,
    /// The same for copies, memsets and graph launches.
    pub outside_others: u64,
    /// The number of lookups of CUDA names by cuGetProcAddress and dlsym.
    pub lookups: u64,
    /// The number of those that were answered with a hook.
    pub lookups_hooked: u64,
    /// Whether a driver launch function certainly passes through the agent.
    pub driver_hooked: bool,
    /// Threads: claim number → Linux tid.
    pub threads: BTreeMap<u32, u32>,
    /// What hung, in the order in which it was found; those that are over only as far as there is room.
    pub hangs: Vec<Hang>,
}

impl Status {
    /// How many records of calls, or calls that would have had one, were lost. What else may be lost, GPU times and names, leaves
    /// the call.
    pub fn records_lost(&self) -> u64 {
        let is_of_calls = |cause: &LossCause| match cause {
            LossCause::RingFull
            | LossCause::NoSlot
            | LossCause::Starting
            | LossCause::Reentered
            | LossCause::Corrupt
            | LossCause::ScopeLost => true,
            LossCause::GpuTimePending | LossCause::TableFull | LossCause::NameLost => false,
        };
        let lost = self.lost.iter().filter(|(cause, _)| is_of_calls(cause));
        lost.fold(0, |sum, (_, count)| sum.saturating_add(*count))
    }
}
