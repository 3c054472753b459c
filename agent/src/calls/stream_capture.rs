//! How are stream captures and graph calls recorded?

use core::cell::Cell;
use core::sync::atomic::Ordering;
use gpuspy_wire::record::{self, flag};

use crate::calls::{Plain, Work, stream_of, written};
use crate::cuda::*;
use crate::driver;
use crate::gpu::burst;
use crate::gpu::nodes::{Nodes, Pair};
use crate::gpu::stream::Stream;
use crate::gpu::stream_capture::{StreamCaptures, is_captured};
use crate::graphs::events::Inserted;
use crate::graphs::{Contents, Graphs, KernelEvents, What};
use crate::names::Names;
use crate::sink::Session;
use crate::thread::Call;

/// The start of a capture. It is counted before the real call, so that no launch in the capture is missed; a
/// launch outside it only queries the capture state unnecessarily.
pub struct CaptureBegin {
    stream: CUstream,
    origin: Cell<Option<&'static Stream>>,
}

impl CaptureBegin {
    /// The start of a capture on a stream.
    pub fn of(stream: CUstream) -> CaptureBegin {
        CaptureBegin { stream, origin: Cell::new(None) }
    }
}

impl Plain for CaptureBegin {
    const IS_ALWAYS_NOTED: bool = true;

    fn before(&self, call: &Call) {
        if let Some(stream) = stream_of(call, self.stream) {
            burst::end_on(call, stream, burst::Next::Nothing);
            self.origin.set(Some(stream));
        }
        call.session.get::<StreamCaptures>().open.fetch_add(1, Ordering::Relaxed);
    }

    fn after(&self, call: &Call, _: u64) -> bool {
        if let Some(stream) = self.origin.get() {
            call.session.get::<StreamCaptures>().begun(stream.address(), stream.context_address());
        }
        false
    }

    fn failed(&self, call: &Call) {
        call.session.get::<StreamCaptures>().ended();
    }

    // Nothing says when a capture ends that such a thread has begun: it counts as open from here on.
    fn begins_unrecorded(&self, session: Session, _: bool) {
        session.get::<StreamCaptures>().open.fetch_add(1, Ordering::Relaxed);
    }

    fn over_unrecorded(&self, session: Session, succeeded: bool) {
        if !succeeded {
            session.get::<StreamCaptures>().ended();
        }
    }

    fn subject(&self) -> u64 {
        self.stream as u64
    }
}

/// The end of a capture. A capture has ended if its stream was capturing before the call and is not after it,
/// whatever the call returned (ending an invalidated capture fails, and ends it). An end on a stream that
/// does not capture changes nothing.
pub struct CaptureEnd {
    stream: CUstream,
    was_capturing: Cell<bool>,
}

impl CaptureEnd {
    /// The end of a capture on a stream.
    pub fn of(stream: CUstream) -> CaptureEnd {
        CaptureEnd { stream, was_capturing: Cell::new(false) }
    }

    fn is_capturing(&self, call: &Call) -> bool {
        is_captured(call, stream_of(call, self.stream).map_or(self.stream, Stream::handle))
    }

    fn end(&self, call: &Call) {
        if self.was_capturing.get() && !self.is_capturing(call) {
            let captures = call.session.get::<StreamCaptures>();
            if let Some(stream) = stream_of(call, self.stream) {
                captures.forget(stream.address());
            }
            captures.ended();
        }
    }
}

impl Plain for CaptureEnd {
    fn before(&self, call: &Call) {
        self.was_capturing.set(self.is_capturing(call));
    }

    fn after(&self, call: &Call, _: u64) -> bool {
        if call.layer == crate::hook::Layer::Driver {
            self.end(call);
        }
        false
    }

    fn failed(&self, call: &Call) {
        self.end(call);
    }

    fn subject(&self) -> u64 {
        self.stream as u64
    }
}

/// The instantiation of a graph.
pub struct Instantiate {
    out: *mut CUgraphExec,
    graph: CUgraph,
    /// Whether it may be launched from the device: such graphs contain only kernels, copies and memsets.
    for_device: bool,
    /// Our nodes in the graph while the driver instantiates it.
    inserted: Cell<Option<(Inserted, KernelEvents)>>,
    /// The events with which the driver has refused it.
    refused: Cell<Vec<Pair>>,
}

impl Instantiate {
    /// An instantiation with its flags.
    pub fn of(out: *mut CUgraphExec, graph: CUgraph, flags: cuuint64_t) -> Instantiate {
        let for_device = flags & GRAPH_DEVICE_LAUNCH != 0;
        Instantiate { out, graph, for_device, inserted: Cell::new(None), refused: Cell::default() }
    }

    /// An instantiation with its flags in a structure. The driver refuses a null one.
    pub fn with(
        out: *mut CUgraphExec,
        graph: CUgraph,
        parameters: *const CUDA_GRAPH_INSTANTIATE_PARAMS,
    ) -> Instantiate {
        // SAFETY: the app's structure, which the real call reads too.
        Instantiate::of(out, graph, unsafe { parameters.as_ref() }.map_or(0, |p| p.flags))
    }

    /// Gives back the events with which the driver has refused it.
    fn give_back(&self, session: Session) {
        let refused = self.refused.take();
        if let Some(driver) = driver::driver().filter(|_| !refused.is_empty()) {
            driver.relaxed(|| session.get::<Nodes>().give_back(driver, refused.as_flattened()));
        }
    }
}

impl Plain for Instantiate {
    const IS_ALWAYS_NOTED: bool = true;
    const OUTLIVES_SESSION: bool = true;

    fn before(&self, call: &Call) {
        self.inserted.set(call.session.get::<Graphs>().insert(call, self.graph, self.for_device));
    }

    fn retry(&self) -> bool {
        let Some((inserted, events)) = self.inserted.take() else { return false };
        drop(inserted);
        // They are given back once the driver has been called without them.
        self.refused.set(events.pairs);
        true
    }

    fn failed(&self, call: &Call) {
        self.give_back(call.session);
    }

    fn after(&self, call: &Call, _: u64) -> bool {
        self.give_back(call.session);
        let events = self.inserted.take().map(|(_, events)| events);
        // SAFETY: the call succeeded, so it has written there; null would have failed.
        let handle = unsafe { self.out.as_ref() };
        if let (Some(handle), Some(driver)) = (handle, driver::driver()) {
            call.session.get::<Graphs>().instantiated(call, driver, *handle, self.graph, events);
        }
        false
    }

    // Nothing is known of the new graph, but that the one is gone which had its handle before.
    fn over_unrecorded(&self, session: Session, succeeded: bool) {
        if succeeded && let Some(handle) = written(self.out) {
            session.get::<Graphs>().destroyed(session.get::<Nodes>(), handle);
        }
    }
}

/// The update of an executable graph from another graph.
pub struct GraphUpdate {
    exec: CUgraphExec,
    graph: CUgraph,
    /// Where the driver writes which nodes did not match.
    errors: [*mut CUgraphNode; 2],
    /// Our nodes in the graph during the real call.
    inserted: Cell<Option<Inserted>>,
}

impl GraphUpdate {
    /// An update with a place for the node that did not match.
    pub fn of(exec: CUgraphExec, graph: CUgraph, error: *mut CUgraphNode) -> GraphUpdate {
        GraphUpdate { exec, graph, errors: [error, core::ptr::null_mut()], inserted: Cell::new(None) }
    }

    /// An update with a structure for both nodes.
    pub fn with(exec: CUgraphExec, graph: CUgraph, info: *mut CUgraphExecUpdateResultInfo) -> GraphUpdate {
        let errors = if info.is_null() {
            [core::ptr::null_mut(); 2]
        } else {
            // SAFETY: the app's structure, which the real call writes.
            unsafe { [&raw mut (*info).error, &raw mut (*info).error_from] }
        };
        GraphUpdate { exec, graph, errors, inserted: Cell::new(None) }
    }

    fn begin(&self, session: Session) {
        self.inserted.set(session.get::<Graphs>().insert_again(self.exec, self.graph));
    }

    fn refused(&self) {
        let Some(inserted) = self.inserted.take() else { return };
        for error in self.errors {
            // SAFETY: null, or the app's variable, which the driver has written. The app does not know a node
            // of ours, so the kernel node next to it is reported instead.
            if let Some(error) = unsafe { error.as_mut() }
                && let Some(kernel) = inserted.kernel_next_to(*error)
            {
                *error = kernel;
            }
        }
    }
}

impl Plain for GraphUpdate {
    // A graph that was instantiated with our events can only be updated from one that has them, too.
    const IS_ALWAYS_NOTED: bool = true;
    const OUTLIVES_SESSION: bool = true;

    fn before(&self, call: &Call) {
        self.begin(call.session);
    }

    fn failed(&self, _: &Call) {
        self.refused();
    }

    fn begins_unrecorded(&self, session: Session, _: bool) {
        self.begin(session);
    }

    fn over_unrecorded(&self, session: Session, succeeded: bool) {
        if !succeeded {
            return self.refused();
        }
        drop(self.inserted.take());
        session.get::<Graphs>().updated_unrecorded(self.exec);
    }

    fn after(&self, call: &Call, _: u64) -> bool {
        drop(self.inserted.take());
        if let Some(driver) = driver::driver() {
            call.session.get::<Graphs>().updated(call, driver, self.exec, self.graph);
        }
        false
    }

    fn subject(&self) -> u64 {
        self.exec as u64
    }
}

/// A change of one node of an executable graph.
pub struct NodeChange {
    pub exec: CUgraphExec,
    pub node: CUgraphNode,
    pub to: Change,
}

/// The node's new contents. The pointers are the app's parameters, which the real call reads too.
pub enum Change {
    KernelV1(*const CUDA_KERNEL_NODE_PARAMS_v1),
    Kernel(*const CUDA_KERNEL_NODE_PARAMS_v2),
    Copy(*const CUDA_MEMCPY3D),
    Memset(*const CUDA_MEMSET_NODE_PARAMS),
    Child(CUgraph),
    Any(*const CUgraphNodeParams),
    Enabled(bool),
}

impl Plain for NodeChange {
    fn after(&self, call: &Call, _: u64) -> bool {
        let graphs = call.session.get::<Graphs>();
        let set = |what: Option<What>| {
            graphs.changed(call, self.exec, |contents| contents.set(self.node, what?));
        };
        let set_child = |graph: CUgraph| {
            let Some(driver) = driver::driver() else { return };
            let new = driver.relaxed(|| Contents::read(call, driver, graph)).flatten().unwrap_or_default();
            graphs.changed(call, self.exec, |contents| contents.replace_child(self.node, &new));
        };
        // SAFETY: the app's structures, which the call has read; null would have failed.
        unsafe {
            match self.to {
                Change::KernelV1(kernel) => set(kernel.as_ref().map(|&first| {
                    let none = core::ptr::null_mut();
                    What::Kernel(CUDA_KERNEL_NODE_PARAMS_v2 { first, kern: none, context: none }.name(call))
                })),
                Change::Kernel(kernel) => {
                    set(kernel.as_ref().map(|kernel| What::Kernel(kernel.given().name(call))))
                }
                Change::Copy(copy) => set(copy.as_ref().map(|copy| What::Copy(copy.bytes()))),
                Change::Memset(of) => set(of.as_ref().map(|of| What::Memset(of.bytes()))),
                Change::Child(graph) => set_child(graph),
                Change::Any(any) => match any.as_ref().map(|any| (any.what(call), any.child())) {
                    Some((None, child)) => set_child(child),
                    known => set(known.and_then(|(what, _)| what)),
                },
                Change::Enabled(enabled) => {
                    graphs.changed(call, self.exec, |contents| contents.enable(self.node, enabled));
                }
            }
        }
        false
    }

    fn subject(&self) -> u64 {
        self.exec as u64
    }
}

/// The destruction of an executable graph.
pub struct GraphDestroy {
    pub exec: CUgraphExec,
}

impl Plain for GraphDestroy {
    const IS_ALWAYS_NOTED: bool = true;
    const OUTLIVES_SESSION: bool = true;

    fn before(&self, call: &Call) {
        self.begins_unrecorded(call.session, call.per_thread);
    }

    fn begins_unrecorded(&self, session: Session, _: bool) {
        session.get::<Graphs>().destroyed(session.get::<Nodes>(), self.exec);
    }

    fn subject(&self) -> u64 {
        self.exec as u64
    }
}

/// The launch of a graph: one operation on its stream.
pub struct GraphLaunch {
    pub exec: CUgraphExec,
    pub stream: CUstream,
}

impl Work for GraphLaunch {
    type Record = record::GraphLaunch;

    fn stream(&self) -> CUstream {
        self.stream
    }

    fn waits_for_others(&self, call: &Call) -> bool {
        call.session.get::<Names>().has_communication()
            && call.session.get::<Graphs>().has_communication(self.exec)
    }

    fn before(&self, call: &Call) {
        call.session.get::<Graphs>().launches(call, self.exec);
    }

    fn record(self, call: &Call, work: record::Work, _: u32) -> record::GraphLaunch {
        if work.head.flags & flag::CAPTURED != 0 {
            call.session.get::<Graphs>().captured(self.exec);
        }
        let counts = call.session.get::<Graphs>().of_handle(call, self.exec);
        record::GraphLaunch {
            work,
            graph: counts.graph,
            kernels: counts.kernels,
            copies: counts.copies,
            memsets: counts.memsets,
            handle: self.exec as u64,
            reserved: [0; 4],
        }
    }
}
