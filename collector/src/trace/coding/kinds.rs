//! Which kind is a record of, and what is one of a kind before its fields are read?

use super::super::record::*;
use gpuspy_wire::record::{
    Direction, Kind, LossCause, Memory, NodeKind, NvtxChange, SyncScope, Untimed, WindowChange,
};

/// The kind that a body is coded as.
pub(super) fn kind_of(body: &Body) -> Kind {
    match body {
        Body::Work(work) => match work.what {
            What::Kernel { .. } => Kind::Launch,
            What::Memcpy { .. } => Kind::Memcpy,
            What::Memset { .. } => Kind::Memset,
            What::Graph { .. } => Kind::GraphLaunch,
            What::Burst { .. } => Kind::Burst,
        },
        Body::Alloc(_) => Kind::Alloc,
        Body::Free(_) => Kind::Free,
        Body::Synchronize(_) => Kind::Synchronize,
        Body::EventRecord(_) => Kind::EventRecord,
        Body::EventWait(_) => Kind::EventWait,
        Body::Api(_) => Kind::Api,
        Body::Context(_) => Kind::Context,
        Body::Stream(_) => Kind::Stream,
        Body::Graph(_) => Kind::Graph,
        Body::GraphNode(_) => Kind::GraphNode,
        Body::NodeTime(_) => Kind::NodeTime,
        Body::ClockSample(_) => Kind::ClockSample,
        Body::Window(_) => Kind::Window,
        Body::NvtxRange(_) => Kind::NvtxRange,
        Body::Module(_) => Kind::Module,
        Body::Device(_) => Kind::Device,
        Body::KernelFacts(_) => Kind::KernelFacts,
        Body::Lookup(_) => Kind::Lookup,
        Body::CaptureEdge { .. } => Kind::CaptureEdge,
        Body::ThreadTime(_) => Kind::ThreadTime,
        Body::Loss { .. } => Kind::Loss,
    }
}

/// An empty body of a kind; `None` for kinds that no record has.
pub(super) fn blank(kind: Kind) -> Option<Body> {
    let call = Call::default();
    let work = |what| {
        Body::Work(Work {
            call,
            submitted: 0,
            entered: 0,
            lead: 0,
            tail: 0,
            untimed: Untimed::Timed,
            stream: 0,
            gpu: None,
            what,
        })
    };
    let event = EventOp { call, stream: 0, event: 0, event_flags: 0 };
    let memory = Memory::Device;
    Some(match kind {
        Kind::Launch => work(What::Kernel {
            name: 0,
            function: 0,
            grid: [0; 3],
            block: [0; 3],
            shared_bytes: 0,
            attributes: 0,
            cluster: [0; 3],
        }),
        Kind::Memcpy => work(What::Memcpy {
            direction: Direction::Default,
            asynchronous: false,
            bytes: 0,
            dst: 0,
            src: 0,
            rows: 0,
            peer_context: 0,
        }),
        Kind::Memset => {
            work(What::Memset { asynchronous: false, bytes: 0, dst: 0, value: 0, element: 0, rows: 0 })
        }
        Kind::GraphLaunch => work(What::Graph { graph: 0, handle: 0, kernels: 0, copies: 0, memsets: 0 }),
        Kind::Burst => work(What::Burst { launches: 0, ordinary: 0, closing: 0 }),
        Kind::Alloc => Body::Alloc(Alloc { call, memory, address: 0, bytes: 0, stream: 0, pool: 0 }),
        Kind::Free => Body::Free(Free { call, memory, address: 0, stream: 0, bytes: 0 }),
        Kind::Synchronize => {
            Body::Synchronize(Synchronize { call, scope: SyncScope::Device, stream: 0, event: 0 })
        }
        Kind::EventRecord => Body::EventRecord(event),
        Kind::EventWait => Body::EventWait(event),
        Kind::Api => Body::Api(Api { call, result: 0, subject: 0, calls: 1, inside: 0, entered: 0 }),
        Kind::Context => Body::Context(Context { context: 0, device: 0, handle: 0, destroyed: false }),
        Kind::Stream => {
            Body::Stream(Stream { stream: 0, handle: 0, context: 0, flags: 0, priority: 0, destroyed: false })
        }
        Kind::Graph => {
            Body::Graph(Graph { graph: 0, handle: 0, kernels: 0, copies: 0, memsets: 0, others: 0 })
        }
        Kind::GraphNode => {
            let kind = NodeKind::Kernel;
            Body::GraphNode(GraphNode { graph: 0, kind, kernel: 0, count: 0, bytes: 0, address: 0 })
        }
        Kind::NodeTime => {
            let gpu = GpuTime::default();
            Body::NodeTime(NodeTime { correlation: 0, context: 0, kernel: 0, node: 0, gpu })
        }
        Kind::ClockSample => {
            Body::ClockSample(ClockSample { context: 0, time_base: 0, gpu: 0, error: 0, after: 0, before: 0 })
        }
        Kind::Window => {
            let change = WindowChange::Opens;
            Body::Window(Window { change, agent_ns: 0, poller_ns: 0, launches: 0 })
        }
        Kind::NvtxRange => Body::NvtxRange(NvtxRange {
            change: NvtxChange::Push,
            id: 0,
            domain: 0,
            text: 0,
            category: 0,
            color: 0,
            payload: false,
        }),
        Kind::Module => Body::Module(Module::default()),
        Kind::Device => Body::Device(Device {
            ordinal: 0,
            uuid: [0; 16],
            memory_bytes: 0,
            multiprocessors: 0,
            capability: 0,
            warps_per_multiprocessor: 0,
        }),
        Kind::KernelFacts => Body::KernelFacts(KernelFacts::default()),
        Kind::Lookup => Body::Lookup(Lookup { function: 0, count: 0 }),
        Kind::CaptureEdge => Body::CaptureEdge { begins: false },
        Kind::ThreadTime => Body::ThreadTime(ThreadTime::default()),
        Kind::Loss => Body::Loss { cause: LossCause::RingFull, count: 0 },
        Kind::GpuTime | Kind::Intern | Kind::Anchor | Kind::Code | Kind::CodePart | Kind::Stack => {
            return None;
        }
    })
}
