//! What a trace holds, decoded: the collector's own form of the wire's records.
//!
//! Times are host nanoseconds on `CLOCK_MONOTONIC_RAW` unless a field says otherwise; GPU times are nanoseconds on
//! their context's clock. Names are ids into [`Names`].

use gpuspy_wire::record::{
    Direction, LossCause, Memory, Namespace, NodeKind, NvtxChange, SyncScope, Untimed, Via, WindowChange,
};
use std::collections::BTreeMap;

/// One thing that happened, on one thread.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// The thread: its claim number, unique in the process. [`Names`] and the `Status` say which tid that was.
    pub thread: u32,
    /// Where it stands in the trace's order: when it was published. The end of a call; the begin of a free. Questions in a row
    /// that were told late stand at most a second behind what was told then.
    pub at: u64,
    /// What happened.
    pub body: Body,
}

/// What happened.
#[derive(Clone, Debug, PartialEq)]
pub enum Body {
    /// Work for a GPU.
    Work(Work),
    /// Memory came.
    Alloc(Alloc),
    /// Memory went (published before the call; an [`Api`] of the same correlation with `failed` takes it back).
    Free(Free),
    /// The host waited.
    Synchronize(Synchronize),
    /// The app recorded an event.
    EventRecord(EventOp),
    /// The app made a stream wait for an event.
    EventWait(EventOp),
    /// Any other call, a failed one, or the end of a free.
    Api(Api),
    /// A context came or went.
    Context(Context),
    /// A stream came or went.
    Stream(Stream),
    /// A graph was instantiated.
    Graph(Graph),
    /// What a graph holds of one kind.
    GraphNode(GraphNode),
    /// When a node of a graph ran.
    NodeTime(NodeTime),
    /// A look at a GPU's clock.
    ClockSample(ClockSample),
    /// A window of `--timing auto` begins or ends.
    Window(Window),
    /// An NVTX range begins or ends, or a mark.
    NvtxRange(NvtxRange),
    /// An executable mapping of the process.
    Module(Module),
    /// A GPU.
    Device(Device),
    /// What the driver says of a kernel.
    KernelFacts(KernelFacts),
    /// A CUDA function that the agent does not know was looked up.
    Lookup(Lookup),
    /// The part of the run that is looked at begins, else ends.
    Capture {
        /// Which of the two.
        begins: bool,
    },
    /// Something was lost here.
    Loss {
        /// Why.
        cause: LossCause,
        /// How many.
        count: u64,
    },
}

impl Body {
    /// The call that it belongs to, if it is one's.
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
            | Body::Capture { .. }
            | Body::Loss { .. } => None,
        }
    }
}

/// The part that every recorded call has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Call {
    /// Unique in the process.
    pub correlation: u64,
    /// The outermost API, in [`Namespace::Api`].
    pub api: u16,
    /// How the call reached us; `None` where it has no meaning.
    pub via: Option<Via>,
    /// Bits of [`gpuspy_wire::record::flag`].
    pub flags: u16,
    /// Host ns at entry.
    pub begin: u64,
    /// Host ns at return (of the driver call, where `flags` has MORE).
    pub end: u64,
    /// Return address of the call.
    pub caller: u64,
    /// Context number; 0 = unknown or none.
    pub context: u32,
}

/// An operation on a stream.
#[derive(Clone, Debug, PartialEq)]
pub struct Work {
    /// The call.
    pub call: Call,
    /// Host ns when the enqueuing driver call returned.
    pub submitted: u64,
    /// Host ns from the call's begin until CUDA's own function was called, of copies and sets; 0 = unknown.
    pub entered: u64,
    /// ns from the begin of the start event's record to `submitted`; `u64::MAX` = unbounded; 0 = untimed.
    pub lead: u64,
    /// ns from `submitted` to the return of the end event's record; `u64::MAX` = unbounded; 0 = untimed.
    pub tail: u64,
    /// Why it has no GPU time, or `Timed`.
    pub untimed: Untimed,
    /// Stream id.
    pub stream: u64,
    /// Its GPU time, once known: with `untimed == Timed` and none here, the time was lost.
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
        /// The handle launched.
        function: u64,
        /// Blocks.
        grid: [u32; 3],
        /// Threads of a block.
        block: [u32; 3],
        /// Dynamic shared memory, bytes.
        shared_bytes: u32,
        /// Launch attributes given, a bit each.
        attributes: u32,
        /// Cluster dimensions; 0 = none.
        cluster: [u8; 3],
    },
    /// A copy.
    Memcpy {
        /// As asked for.
        direction: Direction,
        /// The API was an asynchronous one.
        asynchronous: bool,
        /// Bytes.
        bytes: u64,
        /// Destination address.
        dst: u64,
        /// Source address.
        src: u64,
        /// Rows of a 2D or 3D copy, copies of a batch ([`flag::BATCH`](gpuspy_wire::record::flag::BATCH)); 1 for a
        /// linear one.
        rows: u32,
        /// The other context of a peer copy; 0 = none.
        peer_context: u32,
    },
    /// A set.
    Memset {
        /// The API was an asynchronous one.
        asynchronous: bool,
        /// Bytes.
        bytes: u64,
        /// First address.
        dst: u64,
        /// The value.
        value: u32,
        /// Bytes of an element.
        element: u8,
        /// Rows of a 2D set; 1 for a linear one.
        rows: u32,
    },
    /// A graph launch.
    Graph {
        /// Which, by [`Graph::graph`]; 0 = unknown.
        graph: u32,
        /// The handle launched.
        handle: u64,
        /// Kernels in it.
        kernels: u32,
        /// Copies in it.
        copies: u32,
        /// Sets in it.
        memsets: u32,
    },
    /// Launches timed as one, which stand before it on its stream: a burst that no event may cut, or a run of a deep stream.
    Burst {
        /// How many.
        launches: u32,
        /// Those of them that are ordinary; all of them in a run.
        ordinary: u32,
        /// From the last launch's return to the return of the end event's record, which is `call.end`: ns.
        closing: u64,
    },
}

/// When an operation ran, on its context's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct GpuTime {
    /// The time base that `start` is measured on.
    pub time_base: u32,
    /// Start event, ns since the time base's origin.
    pub start: i64,
    /// End event − start event, ns: raw, over-read included.
    pub duration: u64,
    /// `start` is exact to ± this, ns.
    pub start_error: u32,
    /// `duration` is exact to ± this, ns.
    pub duration_error: u32,
    /// Host ns when the end event was first seen complete.
    pub seen: u64,
    /// Bits of [`gpuspy_wire::record::flag`] that the poller added.
    pub flags: u16,
    /// Of an operation whose end event was recorded later: host ns from `submitted` to the return of that event's record, in
    /// place of [`Work::tail`]; `u64::MAX` = longer than can be said. 0: the work's record says it.
    pub tail: u64,
}

/// Memory came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alloc {
    /// The call.
    pub call: Call,
    /// What kind.
    pub memory: Memory,
    /// First address, or handle.
    pub address: u64,
    /// Bytes. With [`Memory::Reserved`], 0: one more reference.
    pub bytes: u64,
    /// Stream, for stream-ordered ones.
    pub stream: u64,
    /// Where it comes from: the pool that the call named, the handle that is mapped; 0 = none.
    pub pool: u64,
}

/// Memory went. `call.end` equals `call.begin`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Free {
    /// The call.
    pub call: Call,
    /// What kind, as far as the API tells.
    pub memory: Memory,
    /// First address, or handle.
    pub address: u64,
    /// Stream, for stream-ordered ones.
    pub stream: u64,
    /// Bytes, where all blocks of a range go; 0: the block at `address`.
    pub bytes: u64,
}

/// The host waited.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Synchronize {
    /// The call.
    pub call: Call,
    /// For what.
    pub scope: SyncScope,
    /// The stream, with scope `Stream`.
    pub stream: u64,
    /// The event, with scope `Event`.
    pub event: u64,
}

/// An event recorded or waited for.
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
    /// The handle it was about, or 0.
    pub subject: u64,
    /// How many calls it stands for: more than one only for questions (`cuEventQuery` and its like) in a row.
    pub calls: u32,
    /// ns inside those calls; of a single one, 0: its begin and end say it.
    pub inside: u64,
    /// Host ns from the call's begin until CUDA's own function was called; 0 = unknown, or several calls.
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
    /// Destroyed or reset, else created or adopted.
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
    /// Destroyed, else known.
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
    /// Set nodes.
    pub memsets: u32,
    /// Others.
    pub others: u32,
}

/// What a graph holds of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GraphNode {
    /// Which, by [`Graph::graph`].
    pub graph: u32,
    /// What the nodes do.
    pub kind: NodeKind,
    /// Kernels: in [`Namespace::Kernel`]; 0 = unknown.
    pub kernel: u32,
    /// Nodes.
    pub count: u32,
    /// Bytes that copies or sets move in one launch, all together, or that the node takes.
    pub bytes: u64,
    /// First address of what the node takes or gives back; else 0.
    pub address: u64,
}

/// When a node of a graph ran, in one launch of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeTime {
    /// Of the launch.
    pub correlation: u64,
    /// The context; 0 = unknown.
    pub context: u32,
    /// Its kernel, in [`Namespace::Kernel`]; 0 = unknown.
    pub kernel: u32,
    /// Its number in the graph.
    pub node: u32,
    /// When.
    pub gpu: GpuTime,
}

/// A look at a GPU's clock: an event of the poller's own fired between two host times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClockSample {
    /// The context.
    pub context: u32,
    /// The time base that `gpu` is measured on.
    pub time_base: u32,
    /// The event, GPU ns since the time base's origin.
    pub gpu: i64,
    /// `gpu` is exact to ± this, ns.
    pub error: u32,
    /// Host ns: it had not fired.
    pub after: u64,
    /// Host ns: it had fired.
    pub before: u64,
}

/// A window of `--timing auto` begins or ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    /// Which of the two.
    pub change: WindowChange,
    /// ns that hooks took of the app's threads until then.
    pub agent_ns: u64,
    /// CPU time of the poller until then, ns.
    pub poller_ns: u64,
    /// Launches until then.
    pub launches: u64,
}

/// An NVTX range begins or ends, or a mark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NvtxRange {
    /// What happens here.
    pub change: NvtxChange,
    /// Which range, of those that any thread may end; else 0.
    pub id: u64,
    /// In [`Namespace::Domain`]; 0 = the default domain.
    pub domain: u32,
    /// Its text, in [`Namespace::NvtxRange`]; 0 = none, or one too many.
    pub text: u32,
    /// The app's number of a category; 0 = none.
    pub category: u32,
    /// ARGB; 0 = none.
    pub color: u32,
    /// The app gave a payload, which is not kept.
    pub payload: bool,
}

/// An executable mapping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Module {
    /// First address.
    pub start: u64,
    /// First address behind.
    pub end: u64,
    /// Load bias.
    pub bias: u64,
    /// In [`Namespace::Path`].
    pub path: u32,
}

/// A GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// Ordinal in the process.
    pub ordinal: u32,
    /// UUID.
    pub uuid: [u8; 16],
    /// Bytes of memory.
    pub memory_bytes: u64,
    /// Streaming multiprocessors.
    pub multiprocessors: u32,
    /// Compute capability, major * 10 + minor.
    pub capability: u32,
    /// Warps a multiprocessor holds at most.
    pub warps_per_multiprocessor: u32,
}

/// What the driver says of a kernel, launched with blocks of one size.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KernelFacts {
    /// The handle launched.
    pub function: u64,
    /// The module or library that it lies in; 0 = unknown.
    pub module: u64,
    /// An address inside the file that brought the kernel; 0 = unknown.
    pub origin: u64,
    /// In [`Namespace::Kernel`].
    pub kernel: u32,
    /// The context.
    pub context: u32,
    /// Threads of a block.
    pub threads: u32,
    /// Dynamic shared memory of a block, bytes.
    pub shared_bytes: u32,
    /// Static shared memory of a block, bytes.
    pub static_shared_bytes: u32,
    /// Local memory of a thread, bytes.
    pub local_bytes: u32,
    /// Registers of a thread.
    pub registers: u16,
    /// Blocks that a multiprocessor holds at a time; 0 = unknown.
    pub blocks_per_multiprocessor: u16,
    /// Threads of the largest block it can be launched with.
    pub max_threads: u16,
}

/// A CUDA function that the agent does not know was looked up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lookup {
    /// In [`Namespace::Function`]; 0 = of all functions whose names were too many.
    pub function: u32,
    /// Lookups until then.
    pub count: u64,
}

/// The texts that ids stand for. Known whole before the first record is read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names(pub BTreeMap<(Namespace, u32), String>);

impl Names {
    /// The text of an id, if it was ever sent.
    pub fn get(&self, namespace: Namespace, id: u32) -> Option<&str> {
        self.0.get(&(namespace, id)).map(String::as_str)
    }
}

/// How a session ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ending {
    /// Still running when this was written.
    #[default]
    Running,
    /// The process reached its exit handlers.
    Exited,
    /// The process went away without: killed, crashed, or `_exit`. [`Status::exit`] tells which, where it is known.
    Vanished,
    /// The process replaced itself (exec) or closed the session.
    Replaced,
    /// The collector was told to stop while the process ran on.
    Detached,
}

/// What a process ended with, as its parent learns it (wait(2)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// It exited with this code.
    Code(u8),
    /// This signal ended it.
    Signal(u8),
}

impl Exit {
    /// From a wait status, as `waitpid` gives it.
    pub fn from_wait_status(status: i32) -> Exit {
        // wait(2) on Linux: the signal is in the low seven bits, a code in the next eight above them and the core flag.
        match status & 0x7f {
            0 => Exit::Code((status >> 8) as u8),
            signal => Exit::Signal(signal as u8),
        }
    }
}

/// What is known about a process and its collection, as of the last flush; the last one in a file counts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Status {
    /// Process id, in the collector's namespace.
    pub pid: u32,
    /// Field 22 of /proc/PID/stat.
    pub start_time: u64,
    /// Host ns (CLOCK_MONOTONIC_RAW) of the session's first anchor.
    pub began: u64,
    /// CLOCK_REALTIME at that moment, ns.
    pub began_realtime: u64,
    /// Host ns when this status was written, or the process ended.
    pub ended: u64,
    /// How it ended.
    pub ending: Ending,
    /// What it ended with, where the system told the collector.
    pub exit: Option<Exit>,
    /// Which start of which machine its host times are counted from: the first half of the system's boot id, where it
    /// tells one. Processes that have the same can be laid on one line.
    pub boot: Option<u64>,
    /// Its parent when it was met, in the collector's namespace; `None` when it has none there.
    pub parent: Option<u32>,
    /// ns spent in hooks outside the real calls, all threads.
    pub agent_ns: u64,
    /// CPU time of the poller outside driver calls, ns.
    pub poller_ns: u64,
    /// Calls entered.
    pub calls: u64,
    /// Records the agent published.
    pub published: u64,
    /// Records read from the rings and accepted.
    pub collected: u64,
    /// Operations whose GPU time was pending at the end.
    pub pending: u64,
    /// What was lost, by cause, as the agent's and the collector's counters have it.
    pub lost: BTreeMap<LossCause, u64>,
    /// Outside the captured ranges and therefore left out: kernel launches that succeeded outside graph captures.
    pub outside_launches: u64,
    /// The same of copies, sets and graph launches.
    pub outside_others: u64,
    /// cuGetProcAddress and dlsym questions about CUDA names.
    pub lookups: u64,
    /// Of those, answered with a hook.
    pub lookups_hooked: u64,
    /// A driver launch function is known to pass through the agent.
    pub driver_hooked: bool,
    /// Threads: claim number → Linux tid.
    pub threads: BTreeMap<u32, u32>,
}
