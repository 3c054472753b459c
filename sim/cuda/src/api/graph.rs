//! Graphs and their nodes.

use super::capture::list;
use super::copy::Memcpy3D;
use super::launch::Request;
use super::{graph_memory, put};
use crate::call::Call;
use crate::config::config;
use crate::error::{INVALID_HANDLE, INVALID_VALUE, NOT_SUPPORTED, Outcome};
use crate::export::exports;
use crate::graph::{Conditional, Graph, KernelNode, NodeWork};
use crate::handle::Handle;
use crate::memory::Set;
use crate::state::{Guard, State};
use crate::work::{Launch, Work};
use crate::worker::HostCall;

exports! {
    cuGraphCreate => create(graph: *mut Handle, flags: u32);
    cuGraphDestroy => destroy(graph: Handle);
    cuGraphConditionalHandleCreate => create_condition(handle: *mut u64, graph: Handle, context: Handle, value: u32, flags: u32);
    cuGraphClone => clone(clone: *mut Handle, graph: Handle);
    cuGraphNodeFindInClone => find_in_clone(found: *mut Handle, node: Handle, clone: Handle);
    cuGraphAddKernelNode => add_kernel_v1(node: *mut Handle, graph: Handle, before: *const Handle, count: usize, parameters: *const KernelParameters);
    cuGraphAddKernelNode_v2 => add_kernel(node: *mut Handle, graph: Handle, before: *const Handle, count: usize, parameters: *const KernelParameters);
    cuGraphAddMemcpyNode => add_copy(node: *mut Handle, graph: Handle, before: *const Handle, count: usize, copy: *const Memcpy3D, context: Handle);
    cuGraphAddMemsetNode => add_set(node: *mut Handle, graph: Handle, before: *const Handle, count: usize, set: *const SetParameters, context: Handle);
    cuGraphAddHostNode => add_host(node: *mut Handle, graph: Handle, before: *const Handle, count: usize, host: *const HostParameters);
    cuGraphAddEmptyNode => add_empty(node: *mut Handle, graph: Handle, before: *const Handle, count: usize);
    cuGraphAddChildGraphNode => add_child(node: *mut Handle, graph: Handle, before: *const Handle, count: usize, child: Handle);
    cuGraphAddEventRecordNode => add_record(node: *mut Handle, graph: Handle, before: *const Handle, count: usize, event: Handle);
    cuGraphAddEventWaitNode => add_wait(node: *mut Handle, graph: Handle, before: *const Handle, count: usize, event: Handle);
    cuGraphAddNode => add_node(node: *mut Handle, graph: Handle, before: *const Handle, count: usize, parameters: *const NodeParameters);
    cuGraphAddNode_v2 => add_node_v2(node: *mut Handle, graph: Handle, before: *const Handle, edges: *const u64, count: usize, parameters: *const NodeParameters);
    cuGraphNodeSetParams => set_node(node: Handle, parameters: *const NodeParameters);
    cuGraphKernelNodeGetParams => get_kernel_v1(node: Handle, parameters: *mut KernelParametersV1);
    cuGraphKernelNodeGetParams_v2 => get_kernel(node: Handle, parameters: *mut KernelParameters);
    cuGraphKernelNodeSetParams => set_kernel_v1(node: Handle, parameters: *const KernelParameters);
    cuGraphKernelNodeSetParams_v2 => set_kernel(node: Handle, parameters: *const KernelParameters);
    cuGraphMemcpyNodeGetParams => get_copy(node: Handle, copy: *mut Memcpy3D);
    cuGraphMemcpyNodeSetParams => set_copy(node: Handle, copy: *const Memcpy3D);
    cuGraphMemsetNodeGetParams => get_set(node: Handle, set: *mut SetParameters);
    cuGraphMemsetNodeSetParams => set_set(node: Handle, set: *const SetParameters);
    cuGraphHostNodeGetParams => get_host(node: Handle, host: *mut HostParameters);
    cuGraphHostNodeSetParams => set_host(node: Handle, host: *const HostParameters);
    cuGraphEventRecordNodeGetEvent | cuGraphEventWaitNodeGetEvent => get_event(node: Handle, event: *mut Handle);
    cuGraphEventRecordNodeSetEvent | cuGraphEventWaitNodeSetEvent => set_event(node: Handle, event: Handle);
    cuGraphChildGraphNodeGetGraph => get_child(node: Handle, graph: *mut Handle);
    cuGraphKernelNodeGetAttribute => get_attribute(node: Handle, attribute: u32, value: *mut [u64; 8]);
    cuGraphKernelNodeSetAttribute => set_attribute(node: Handle, attribute: u32, value: *const [u64; 8]);
    cuGraphKernelNodeCopyAttributes => copy_attributes(to: Handle, from: Handle);
    cuGraphNodeGetType => get_type(node: Handle, kind: *mut u32);
}

/// `CUDA_KERNEL_NODE_PARAMS_v1` of cuda.h.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct KernelParametersV1 {
    function: Handle,
    dimensions: [u32; 6],
    shared_bytes: u32,
    arguments: *const *const u8,
    extra: *const u64,
}

/// `CUDA_KERNEL_NODE_PARAMS_v2` and `_v3` of cuda.h.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct KernelParameters {
    first: KernelParametersV1,
    kernel: Handle,
    context: Handle,
}

/// `CUDA_MEMSET_NODE_PARAMS` of cuda.h, which `_v2` begins with.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct SetParameters {
    dst: u64,
    pitch: u64,
    value: u32,
    element: u32,
    width: u64,
    height: u64,
}

/// `CUDA_HOST_NODE_PARAMS` of cuda.h.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct HostParameters {
    function: Option<extern "C-unwind" fn(u64)>,
    data: u64,
}

/// `CUgraphNodeParams` of cuda.h: a type and a union.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct NodeParameters {
    kind: u32,
    reserved: [u32; 3],
    body: [u64; 29],
    reserved2: u64,
}

const _: () = assert!(size_of::<KernelParameters>() == 72 && size_of::<NodeParameters>() == 256);

impl KernelParameters {
    /// What was given to a `_v1` function.
    ///
    /// # Safety
    /// `parameters` is NULL or points to a `_v1` structure.
    pub unsafe fn of_v1(parameters: *const Self) -> Outcome<Self> {
        // SAFETY: the caller's; only the first part is read.
        let first = *unsafe { parameters.cast::<KernelParametersV1>().as_ref() }.ok_or(INVALID_VALUE)?;
        Ok(Self { first, kernel: 0, context: 0 })
    }

    /// The launch that it asks for.
    ///
    /// # Safety
    /// The arguments are as cuda.h, cuLaunchKernel, asks.
    pub unsafe fn work(&self, state: &mut State) -> Outcome<Work> {
        let Self { first, kernel, context } = *self;
        let KernelParametersV1 { function, dimensions, shared_bytes, arguments, extra } = first;
        let function = if function == 0 { kernel } else { function };
        let context = if context == 0 { state.current()? } else { context };
        let request = Request { function, dimensions, shared_bytes, arguments, extra };
        // SAFETY: the caller's. The module is loaded when the graph is made, not when it is launched.
        let (launch, _) = unsafe { state.launch(&request, context, true) }?;
        Ok(Work::Kernel(launch))
    }

    fn of(node: &KernelNode) -> Self {
        let KernelNode { function, kernel, dimensions, shared_bytes, context, ref arguments } = *node;
        let arguments = arguments.address() as *const *const u8;
        let first =
            KernelParametersV1 { function, dimensions, shared_bytes, arguments, extra: std::ptr::null() };
        Self { first, kernel, context }
    }

    /// As they are told where there is a place for a CUkernel.
    fn told(mut self) -> Self {
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
    /// The set that it asks for.
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
    /// The call that it asks for.
    pub fn work(&self) -> Outcome<Work> {
        let function = self.function.ok_or(INVALID_VALUE)?;
        Ok(Work::Host(HostCall::Function { function, data: self.data }))
    }
}

/// The copy that a memcpy node asks for.
pub fn copy_work(state: &State, copy: &Memcpy3D) -> Outcome<Work> {
    let (dst, src, shape, asked) = copy.resolve(state)?;
    state.copy(dst, src, shape, asked).map(Work::Copy)
}

/// The work of an event node.
pub fn event_work(state: &State, event: Handle, record: bool) -> Outcome<Work> {
    state.events.get(event).ok_or(INVALID_HANDLE)?;
    Ok(if record { Work::Record(event) } else { Work::Wait(event) })
}

impl NodeParameters {
    /// What the node is to do.
    ///
    /// # Safety
    /// As cuda.h, cuGraphAddNode, asks.
    pub unsafe fn work(&self, state: &mut State) -> Outcome<NodeWork> {
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
const CONDITIONAL: u32 = 13;
/// `CU_GRAPH_NODE_TYPE_MEM_ALLOC`.
const MEM_ALLOC: u32 = 10;
/// `CU_GRAPH_NODE_TYPE_MEM_FREE`.
const MEM_FREE: u32 = 11;
/// `CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE`.
const MOVE: u32 = 1;

impl NodeParameters {
    /// The graph that a child node runs (CUDA_CHILD_GRAPH_NODE_PARAMS: graph, ownership): a copy, or itself, which is no
    /// longer to be instantiated, destroyed or moved then.
    fn child(&self, state: &mut State) -> Outcome<Handle> {
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

    /// What a conditional node is to do (CUDA_CONDITIONAL_NODE_PARAMS: handle, type and size, place for the bodies,
    /// context). Its bodies are made, empty.
    fn conditional(&self, state: &mut State) -> Outcome<Conditional> {
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

/// A CUgraphConditionalHandle: a graph's handle, and above it the number of its condition, from 1.
const CONDITION_SHIFT: u32 = 48;

unsafe fn create_condition(
    call: &mut Call,
    handle: *mut u64,
    graph: Handle,
    _: Handle,
    value: u32,
    flags: u32,
) -> Outcome {
    if flags > 1 {
        return Err(INVALID_VALUE);
    }
    let mut state = call.lock();
    let conditions = &mut state.graphs.get_mut(graph).ok_or(INVALID_HANDLE)?.conditions;
    // CU_GRAPH_COND_ASSIGN_DEFAULT: the value is assigned at each launch; without, nobody does, and it stays 0.
    conditions.push(if flags == 1 { value } else { 0 });
    let number = conditions.len() as u64;
    // SAFETY: cuda.h's promise.
    unsafe { put(handle, number << CONDITION_SHIFT | graph) }
}

unsafe fn create(call: &mut Call, graph: *mut Handle, flags: u32) -> Outcome {
    if flags != 0 {
        return Err(INVALID_VALUE);
    }
    let handle = call.lock().graphs.insert(Graph::default());
    // SAFETY: cuda.h's promise.
    unsafe { put(graph, handle) }
}

unsafe fn destroy(call: &mut Call, graph: Handle) -> Outcome {
    let mut state = call.lock();
    // A child node's graph is the node's own.
    if state.graphs.get(graph).ok_or(INVALID_HANDLE)?.owned {
        return Err(INVALID_VALUE);
    }
    state.destroy_graph(graph)?;
    state.sweep_graph_memory();
    Ok(())
}

unsafe fn clone(call: &mut Call, clone: *mut Handle, graph: Handle) -> Outcome {
    let handle = call.lock().clone_graph(graph, false)?;
    // SAFETY: cuda.h's promise.
    unsafe { put(clone, handle) }
}

unsafe fn find_in_clone(call: &mut Call, found: *mut Handle, node: Handle, clone: Handle) -> Outcome {
    let state = call.lock();
    let nodes = &state.graphs.get(clone).ok_or(INVALID_HANDLE)?.nodes;
    let original = |&&copy: &&Handle| state.nodes.get(copy).is_some_and(|copy| copy.original == node);
    let copy = *nodes.iter().find(original).ok_or(INVALID_VALUE)?;
    // SAFETY: cuda.h's promise.
    unsafe { put(found, copy) }
}

/// Adds a node of the work that `work` makes.
unsafe fn add(
    call: &Call,
    node: *mut Handle,
    graph: Handle,
    before: *const Handle,
    count: usize,
    work: impl FnOnce(&mut Guard) -> Outcome<NodeWork>,
) -> Outcome {
    // SAFETY: the callers pass on cuda.h's promise.
    unsafe {
        let before = list(before, count)?;
        let mut state = call.lock();
        state.graphs.get(graph).ok_or(INVALID_HANDLE)?;
        let work = work(&mut state)?;
        put(node, state.add_node(graph, work, before)?)
    }
}

unsafe fn add_kernel_v1(
    call: &mut Call,
    node: *mut Handle,
    graph: Handle,
    before: *const Handle,
    count: usize,
    parameters: *const KernelParameters,
) -> Outcome {
    // SAFETY: cuda.h's promise.
    unsafe {
        let parameters = KernelParameters::of_v1(parameters)?;
        add(call, node, graph, before, count, |state| parameters.work(state).map(NodeWork::One))
    }
}

unsafe fn add_kernel(
    call: &mut Call,
    node: *mut Handle,
    graph: Handle,
    before: *const Handle,
    count: usize,
    parameters: *const KernelParameters,
) -> Outcome {
    // SAFETY: cuda.h's promise.
    unsafe {
        let parameters = *parameters.as_ref().ok_or(INVALID_VALUE)?;
        add(call, node, graph, before, count, |state| parameters.work(state).map(NodeWork::One))
    }
}

unsafe fn add_copy(
    call: &mut Call,
    node: *mut Handle,
    graph: Handle,
    before: *const Handle,
    count: usize,
    copy: *const Memcpy3D,
    _: Handle,
) -> Outcome {
    // SAFETY: cuda.h's promise.
    unsafe {
        let copy = copy.as_ref().ok_or(INVALID_VALUE)?;
        add(call, node, graph, before, count, |state| copy_work(state, copy).map(NodeWork::One))
    }
}

unsafe fn add_set(
    call: &mut Call,
    node: *mut Handle,
    graph: Handle,
    before: *const Handle,
    count: usize,
    set: *const SetParameters,
    _: Handle,
) -> Outcome {
    // SAFETY: cuda.h's promise.
    unsafe {
        let set = set.as_ref().ok_or(INVALID_VALUE)?;
        add(call, node, graph, before, count, |state| set.work(state).map(NodeWork::One))
    }
}

unsafe fn add_host(
    call: &mut Call,
    node: *mut Handle,
    graph: Handle,
    before: *const Handle,
    count: usize,
    host: *const HostParameters,
) -> Outcome {
    // SAFETY: cuda.h's promise.
    unsafe {
        let host = host.as_ref().ok_or(INVALID_VALUE)?;
        add(call, node, graph, before, count, |_| host.work().map(NodeWork::One))
    }
}

unsafe fn add_empty(
    call: &mut Call,
    node: *mut Handle,
    graph: Handle,
    before: *const Handle,
    count: usize,
) -> Outcome {
    // SAFETY: cuda.h's promise.
    unsafe { add(call, node, graph, before, count, |_| Ok(NodeWork::One(Work::Empty))) }
}

unsafe fn add_child(
    call: &mut Call,
    node: *mut Handle,
    graph: Handle,
    before: *const Handle,
    count: usize,
    child: Handle,
) -> Outcome {
    // cuda.h: the node gets a clone of the child graph.
    // SAFETY: cuda.h's promise.
    unsafe {
        add(call, node, graph, before, count, |state| Ok(NodeWork::Child(state.clone_graph(child, true)?)))
    }
}

unsafe fn add_record(
    call: &mut Call,
    node: *mut Handle,
    graph: Handle,
    before: *const Handle,
    count: usize,
    event: Handle,
) -> Outcome {
    // SAFETY: cuda.h's promise.
    unsafe {
        add(call, node, graph, before, count, |state| event_work(state, event, true).map(NodeWork::One))
    }
}

unsafe fn add_wait(
    call: &mut Call,
    node: *mut Handle,
    graph: Handle,
    before: *const Handle,
    count: usize,
    event: Handle,
) -> Outcome {
    // SAFETY: cuda.h's promise.
    unsafe {
        add(call, node, graph, before, count, |state| event_work(state, event, false).map(NodeWork::One))
    }
}

unsafe fn add_node(
    call: &mut Call,
    node: *mut Handle,
    graph: Handle,
    before: *const Handle,
    count: usize,
    parameters: *const NodeParameters,
) -> Outcome {
    // SAFETY: cuda.h's promise.
    unsafe {
        let given = *parameters.as_ref().ok_or(INVALID_VALUE)?;
        match given.kind {
            CONDITIONAL => {}
            // The address comes back in the parameters.
            MEM_ALLOC => {
                let body = (&raw mut (*parameters.cast_mut()).body).cast();
                return graph_memory::add_alloc(call, node, graph, before, count, body);
            }
            MEM_FREE => return graph_memory::add_free(call, node, graph, before, count, given.body[0]),
            _ => return add(call, node, graph, before, count, |state| given.work(state)),
        }
        let mut bodies = Vec::new();
        add(call, node, graph, before, count, |state| {
            let of = given.conditional(state)?;
            bodies.clone_from(&of.bodies);
            Ok(NodeWork::Conditional(of))
        })?;
        // cuda.h, CUDA_CONDITIONAL_NODE_PARAMS: the driver's own array, "valid for the lifetime of the conditional node".
        let place = (&raw mut (*parameters.cast_mut()).body).cast::<*const Handle>().add(2);
        place.write(Box::leak(bodies.into_boxed_slice()).as_ptr());
        Ok(())
    }
}

unsafe fn add_node_v2(
    call: &mut Call,
    node: *mut Handle,
    graph: Handle,
    before: *const Handle,
    edges: *const u64,
    count: usize,
    parameters: *const NodeParameters,
) -> Outcome {
    // SAFETY: cuda.h's promise; a CUgraphEdgeData is eight bytes, and NULL stands for zeroes.
    unsafe {
        let kind = parameters.as_ref().ok_or(INVALID_VALUE)?.kind;
        let data = if edges.is_null() { vec![0; count] } else { list(edges, count)? };
        let edges: Vec<_> = list(before, count)?.into_iter().zip(data).collect();
        let state = call.lock();
        edges.iter().try_for_each(|&(before, data)| state.check_edge_data(before, Some(kind), data))?;
        drop(state);
        add_node(call, node, graph, before, count, parameters)?;
        let mut state = call.lock();
        edges.into_iter().for_each(|(before, data)| state.set_edge_data(before, *node, data));
    }
    Ok(())
}

/// Replaces what a node does by work of the same kind.
fn replace(call: &Call, node: Handle, work: impl FnOnce(&mut Guard) -> Outcome<NodeWork>) -> Outcome {
    let mut state = call.lock();
    state.nodes.get(node).ok_or(INVALID_HANDLE)?;
    let work = work(&mut state)?;
    let of = state.nodes.get_mut(node).ok_or(INVALID_HANDLE)?;
    if of.work.kind() != work.kind() {
        return Err(INVALID_VALUE);
    }
    let old = std::mem::replace(&mut of.work, work);
    state.destroy_inner(old)
}

unsafe fn set_node(call: &mut Call, node: Handle, parameters: *const NodeParameters) -> Outcome {
    // SAFETY: cuda.h's promise.
    let parameters = *unsafe { parameters.as_ref() }.ok_or(INVALID_VALUE)?;
    // SAFETY: as above.
    replace(call, node, |state| unsafe { parameters.work(state) })
}

/// What a node does, to be looked at.
fn look<T>(call: &Call, node: Handle, at: impl FnOnce(&NodeWork) -> Option<T>) -> Outcome<T> {
    let state = call.lock();
    at(&state.nodes.get(node).ok_or(INVALID_HANDLE)?.work).ok_or(INVALID_VALUE)
}

fn kernel_parameters(call: &Call, node: Handle) -> Outcome<KernelParameters> {
    look(call, node, |work| match work {
        NodeWork::One(Work::Kernel(Launch { node: Some(node), .. })) => Some(KernelParameters::of(node)),
        _ => None,
    })
}

unsafe fn get_kernel_v1(call: &mut Call, node: Handle, parameters: *mut KernelParametersV1) -> Outcome {
    let known = kernel_parameters(call, node)?;
    // SAFETY: cuda.h's promise.
    unsafe { put(parameters, known.first) }
}

unsafe fn get_kernel(call: &mut Call, node: Handle, parameters: *mut KernelParameters) -> Outcome {
    let known = kernel_parameters(call, node)?.told();
    // SAFETY: cuda.h's promise.
    unsafe { put(parameters, known) }
}

unsafe fn set_kernel_v1(call: &mut Call, node: Handle, parameters: *const KernelParameters) -> Outcome {
    // SAFETY: cuda.h's promise.
    let parameters = unsafe { KernelParameters::of_v1(parameters) }?;
    // SAFETY: as above.
    replace(call, node, |state| unsafe { parameters.work(state) }.map(NodeWork::One))
}

unsafe fn set_kernel(call: &mut Call, node: Handle, parameters: *const KernelParameters) -> Outcome {
    // SAFETY: cuda.h's promise.
    let parameters = *unsafe { parameters.as_ref() }.ok_or(INVALID_VALUE)?;
    // SAFETY: as above.
    replace(call, node, |state| unsafe { parameters.work(state) }.map(NodeWork::One))
}

unsafe fn get_copy(call: &mut Call, node: Handle, copy: *mut Memcpy3D) -> Outcome {
    let known = look(call, node, |work| match work {
        NodeWork::One(Work::Copy(copy)) => Some(copy.clone()),
        _ => None,
    })?;
    let known = Memcpy3D::of(&known, &call.lock().arrays);
    // SAFETY: cuda.h's promise.
    unsafe { put(copy, known) }
}

unsafe fn set_copy(call: &mut Call, node: Handle, copy: *const Memcpy3D) -> Outcome {
    // SAFETY: cuda.h's promise.
    let copy = unsafe { copy.as_ref() }.ok_or(INVALID_VALUE)?;
    replace(call, node, |state| copy_work(state, copy).map(NodeWork::One))
}

unsafe fn get_set(call: &mut Call, node: Handle, set: *mut SetParameters) -> Outcome {
    let known = look(call, node, |work| match work {
        &NodeWork::One(Work::Set(Set { dst, value, element, width, height, pitch, .. })) => {
            Some(SetParameters { dst, pitch, value, element: element as u32, width, height })
        }
        _ => None,
    })?;
    // SAFETY: cuda.h's promise.
    unsafe { put(set, known) }
}

unsafe fn set_set(call: &mut Call, node: Handle, set: *const SetParameters) -> Outcome {
    // SAFETY: cuda.h's promise.
    let set = unsafe { set.as_ref() }.ok_or(INVALID_VALUE)?;
    replace(call, node, |state| set.work(state).map(NodeWork::One))
}

unsafe fn get_host(call: &mut Call, node: Handle, host: *mut HostParameters) -> Outcome {
    let known = look(call, node, |work| match work {
        &NodeWork::One(Work::Host(HostCall::Function { function, data })) => {
            Some(HostParameters { function: Some(function), data })
        }
        _ => None,
    })?;
    // SAFETY: cuda.h's promise.
    unsafe { put(host, known) }
}

unsafe fn set_host(call: &mut Call, node: Handle, host: *const HostParameters) -> Outcome {
    // SAFETY: cuda.h's promise.
    let host = unsafe { host.as_ref() }.ok_or(INVALID_VALUE)?;
    replace(call, node, |_| host.work().map(NodeWork::One))
}

unsafe fn get_event(call: &mut Call, node: Handle, event: *mut Handle) -> Outcome {
    let known = look(call, node, |work| match work {
        NodeWork::One(Work::Record(event) | Work::Wait(event)) => Some(*event),
        _ => None,
    })?;
    // SAFETY: cuda.h's promise.
    unsafe { put(event, known) }
}

unsafe fn set_event(call: &mut Call, node: Handle, event: Handle) -> Outcome {
    let record = call.api.name == "cuGraphEventRecordNodeSetEvent";
    replace(call, node, |state| event_work(state, event, record).map(NodeWork::One))
}

unsafe fn get_child(call: &mut Call, node: Handle, graph: *mut Handle) -> Outcome {
    let known = look(call, node, |work| match work {
        NodeWork::Child(child) => Some(*child),
        NodeWork::One(_) | NodeWork::Conditional(_) => None,
    })?;
    // SAFETY: cuda.h's promise.
    unsafe { put(graph, known) }
}

fn check_kernel(call: &Call, node: Handle) -> Outcome {
    look(call, node, |work| (work.kind() == 0).then_some(()))
}

unsafe fn get_attribute(call: &mut Call, node: Handle, _: u32, value: *mut [u64; 8]) -> Outcome {
    check_kernel(call, node)?;
    // SAFETY: cuda.h's promise: a CUlaunchAttributeValue is 64 bytes.
    unsafe { put(value, [0; 8]) }
}

unsafe fn set_attribute(call: &mut Call, node: Handle, _: u32, _: *const [u64; 8]) -> Outcome {
    check_kernel(call, node)
}

unsafe fn copy_attributes(call: &mut Call, to: Handle, from: Handle) -> Outcome {
    check_kernel(call, to)?;
    check_kernel(call, from)
}

unsafe fn get_type(call: &mut Call, node: Handle, kind: *mut u32) -> Outcome {
    let known = look(call, node, |work| Some(work.kind()))?;
    // SAFETY: cuda.h's promise.
    unsafe { put(kind, known) }
}
