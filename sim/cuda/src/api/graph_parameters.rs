//! The parameters of graph nodes as cuda.h lays them out, and the work that they describe.

use super::copy::Memcpy3D;
use super::launch::Request;
use crate::config::config;
use crate::error::{INVALID_HANDLE, INVALID_VALUE, NOT_SUPPORTED, Outcome};
use crate::graph::{Conditional, Graph, KernelNode, NodeWork};
use crate::handle::{Handle, stale};
use crate::parameter::Pointer;
use crate::state::State;
use crate::transfer::Set;
use crate::work::Work;
use crate::worker::HostCall;

/// `CUDA_KERNEL_NODE_PARAMS_v1` of cuda.h.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct KernelParametersV1 {
    pub(super) function: Handle,
    pub(super) dimensions: [u32; 6],
    pub(super) shared_bytes: u32,
    pub(super) arguments: Pointer<*const u8>,
    pub(super) extra: Pointer<u64>,
}

/// `CUDA_KERNEL_NODE_PARAMS_v2` and `_v3` of cuda.h.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct KernelParameters {
    pub(super) first: KernelParametersV1,
    pub(super) kernel: Handle,
    pub(super) context: Handle,
}

/// `CUDA_MEMSET_NODE_PARAMS` of cuda.h, which `_v2` begins with.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct SetParameters {
    pub(super) dst: u64,
    pub(super) pitch: u64,
    pub(super) value: u32,
    pub(super) element: u32,
    pub(super) width: u64,
    pub(super) height: u64,
}

/// `CUDA_HOST_NODE_PARAMS` of cuda.h.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct HostParameters {
    pub(super) function: Option<extern "C-unwind" fn(u64)>,
    pub(super) data: u64,
}

/// `CUgraphNodeParams` of cuda.h: a type and a union.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct NodeParameters {
    pub(super) kind: u32,
    reserved: [u32; 3],
    pub(super) body: [u64; 29],
    reserved2: u64,
}

const _: () = assert!(size_of::<KernelParameters>() == 72 && size_of::<NodeParameters>() == 256);

impl KernelParameters {
    /// Converts the parameters of a `_v1` function.
    pub fn of_v1(first: KernelParametersV1) -> Self {
        Self { first, kernel: 0, context: 0 }
    }

    /// Returns the launch that the parameters describe.
    pub fn work(&self, state: &mut State) -> Outcome<Work> {
        let Self { first, kernel, context } = *self;
        let KernelParametersV1 { function, dimensions, shared_bytes, arguments, extra } = first;
        let function = if function == 0 { kernel } else { function };
        let context = if context == 0 { state.current()? } else { context };
        let request = Request { function, dimensions, shared_bytes, arguments, extra };
        // The module is loaded when the node is added, not when the graph is launched.
        let (launch, _) = state.launch(&request, context, true)?;
        Ok(Work::Kernel(launch))
    }

    pub(super) fn of(node: &KernelNode) -> Self {
        let KernelNode { function, kernel, dimensions, shared_bytes, context, ref arguments } = *node;
        // SAFETY: the node's own copy of its kernel's arguments, or NULL.
        let arguments = unsafe { Pointer::new(arguments.address() as *const *const u8) };
        let first =
            KernelParametersV1 { function, dimensions, shared_bytes, arguments, extra: Pointer::NULL };
        Self { first, kernel, context }
    }

    /// Returns the parameters as functions report them that also have a field for the CUkernel.
    pub(super) fn reported(mut self) -> Self {
        let is = |word| config().assume.is("captured_kernel", word);
        if self.kernel != 0 && !is("both") {
            let (function, kernel) = (self.first.function, self.kernel);
            (self.first.function, self.kernel) = match () {
                () if is("kernel") => (0, kernel),
                () if is("cast") => (kernel, 0),
                () => (function, 0),
            };
        }
        self
    }
}

impl SetParameters {
    /// Returns the memset that the parameters describe.
    pub fn work(&self, state: &State) -> Outcome<Work> {
        let Self { dst, pitch, value, element, width, height } = *self;
        if ![1, 2, 4].contains(&element) {
            return Err(INVALID_VALUE);
        }
        let element = u64::from(element);
        let set = Set { dst, value, element, width, height, pitch, host_memory: "none" };
        state.set(set).map(Work::Set)
    }
}

impl HostParameters {
    /// Returns the host function call that the parameters describe.
    pub fn work(&self) -> Outcome<Work> {
        let function = self.function.ok_or(INVALID_VALUE)?;
        Ok(Work::Host(HostCall::Function { function, data: self.data }))
    }
}

/// Returns the copy of a memcpy node.
pub fn copy_work(state: &State, copy: &Memcpy3D) -> Outcome<Work> {
    let (dst, src, shape, requested) = copy.resolve(state)?;
    state.copy(dst, src, shape, requested).map(Work::Copy)
}

/// Returns the work of an event node.
pub fn event_work(state: &State, event: Handle, record: bool) -> Outcome<Work> {
    state.events.get(event).ok_or_else(|| stale(INVALID_HANDLE, event))?;
    Ok(if record { Work::Record(event) } else { Work::Wait(event) })
}

impl NodeParameters {
    /// Returns the work that the parameters describe.
    pub fn work(&self, state: &mut State) -> Outcome<NodeWork> {
        let body = self.body.as_ptr();
        // SAFETY: the union's member is what `kind` (CUgraphNodeType) says; none is larger than the body.
        let work = unsafe {
            match self.kind {
                0 => (*body.cast::<KernelParameters>()).work(state)?,
                // CUDA_MEMCPY_NODE_PARAMS: flags, reserved, context, copy.
                1 => copy_work(state, &*body.add(2).cast::<Memcpy3D>())?,
                2 => (*body.cast::<SetParameters>()).work(state)?,
                3 => (*body.cast::<HostParameters>()).work()?,
                4 => return self.child(state).map(NodeWork::Child),
                5 => Work::Empty,
                6 => event_work(state, self.body[0], false)?,
                7 => event_work(state, self.body[0], true)?,
                _ => return Err(NOT_SUPPORTED),
            }
        };
        Ok(NodeWork::One(work))
    }
}

/// `CU_GRAPH_NODE_TYPE_CONDITIONAL`.
pub(super) const CONDITIONAL: u32 = 13;
/// `CU_GRAPH_NODE_TYPE_MEM_ALLOC`.
pub(super) const MEM_ALLOC: u32 = 10;
/// `CU_GRAPH_NODE_TYPE_MEM_FREE`.
pub(super) const MEM_FREE: u32 = 11;
/// `CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE`.
const MOVE: u32 = 1;

impl NodeParameters {
    /// Returns the graph that a child node runs (CUDA_CHILD_GRAPH_NODE_PARAMS: graph, ownership): a copy, or the graph
    /// itself, which then can no longer be instantiated, destroyed or moved.
    pub(super) fn child(&self, state: &mut State) -> Outcome<Handle> {
        let [graph, ownership, ..] = self.body;
        if ownership as u32 != MOVE {
            return state.clone_graph(graph, true);
        }
        let is_used = state.execs.iter().any(|(_, exec)| exec.graph == graph);
        let moved = state.graphs.get_mut(graph).ok_or(INVALID_HANDLE)?;
        if moved.owned || is_used {
            return Err(INVALID_VALUE);
        }
        moved.owned = true;
        Ok(graph)
    }

    /// Returns the work of a conditional node (CUDA_CONDITIONAL_NODE_PARAMS: handle, type and size, place for the
    /// bodies, context). It creates the bodies, which are empty.
    pub(super) fn conditional(&self, state: &mut State) -> Outcome<Conditional> {
        let [handle, shape, ..] = self.body;
        let (kind, size) = (shape as u32, (shape >> 32) as u32);
        let (graph, index) = (handle & ((1 << CONDITION_SHIFT) - 1), (handle >> CONDITION_SHIFT) as usize);
        let values = &state.graphs.get(graph).ok_or(INVALID_VALUE)?.conditions;
        let value = *index.checked_sub(1).and_then(|index| values.get(index)).ok_or(INVALID_VALUE)?;
        // cuda.h: the sizes that each type allows.
        let fits = match kind {
            0 => (1..=2).contains(&size),
            1 => size == 1,
            2 => size > 0,
            _ => false,
        };
        if !fits {
            return Err(INVALID_VALUE);
        }
        let body = |_| state.graphs.insert(Graph { owned: true, ..Graph::default() });
        Ok(Conditional { kind, value, bodies: (0..size).map(body).collect() })
    }
}

/// A CUgraphConditionalHandle contains a graph's handle and, above it, the number of its condition, from 1.
pub(super) const CONDITION_SHIFT: u32 = 48;
