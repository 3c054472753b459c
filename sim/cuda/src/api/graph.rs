//! Graphs and their nodes.

use super::copy::Memcpy3D;
use super::graph_memory::{self, AllocParameters};
use super::launch::Request;
use crate::call::Call;
use crate::config::config;
use crate::error::{INVALID_HANDLE, INVALID_VALUE, NOT_SUPPORTED, Outcome};
use crate::export::exports;
use crate::graph::{Conditional, Graph, KernelNode, NodeWork};
use crate::handle::Handle;
use crate::memory::Set;
use crate::parameter::{In, InOut, MaybeSlice, Out, Pointer, Slice};
use crate::state::{Guard, State};
use crate::work::{Launch, Work};
use crate::worker::HostCall;

exports! {
    cuGraphCreate => create(graph: Out<Handle>, flags: u32);
    cuGraphDestroy => destroy(graph: Handle);
    cuGraphConditionalHandleCreate => create_condition(handle: Out<u64>, graph: Handle, context: Handle, value: u32, flags: u32);
    cuGraphClone => clone(clone: Out<Handle>, graph: Handle);
    cuGraphNodeFindInClone => find_in_clone(found: Out<Handle>, node: Handle, clone: Handle);
    cuGraphAddKernelNode => add_kernel_v1(node: Out<Handle>, graph: Handle, before[count]: Slice<Handle>, count: usize, parameters: In<KernelParametersV1>);
    cuGraphAddKernelNode_v2 => add_kernel(node: Out<Handle>, graph: Handle, before[count]: Slice<Handle>, count: usize, parameters: In<KernelParameters>);
    cuGraphAddMemcpyNode => add_copy(node: Out<Handle>, graph: Handle, before[count]: Slice<Handle>, count: usize, copy: In<Memcpy3D>, context: Handle);
    cuGraphAddMemsetNode => add_set(node: Out<Handle>, graph: Handle, before[count]: Slice<Handle>, count: usize, set: In<SetParameters>, context: Handle);
    cuGraphAddHostNode => add_host(node: Out<Handle>, graph: Handle, before[count]: Slice<Handle>, count: usize, host: In<HostParameters>);
    cuGraphAddEmptyNode => add_empty(node: Out<Handle>, graph: Handle, before[count]: Slice<Handle>, count: usize);
    cuGraphAddChildGraphNode => add_child(node: Out<Handle>, graph: Handle, before[count]: Slice<Handle>, count: usize, child: Handle);
    cuGraphAddEventRecordNode => add_record(node: Out<Handle>, graph: Handle, before[count]: Slice<Handle>, count: usize, event: Handle);
    cuGraphAddEventWaitNode => add_wait(node: Out<Handle>, graph: Handle, before[count]: Slice<Handle>, count: usize, event: Handle);
    cuGraphAddNode => add_node(node: Out<Handle>, graph: Handle, before[count]: Slice<Handle>, count: usize, parameters: InOut<NodeParameters>);
    cuGraphAddNode_v2 => add_node_v2(node: Out<Handle>, graph: Handle, before[count]: Slice<Handle>, edges[count]: MaybeSlice<u64>, count: usize, parameters: InOut<NodeParameters>);
    cuGraphNodeSetParams => set_node(node: Handle, parameters: In<NodeParameters>);
    cuGraphKernelNodeGetParams => get_kernel_v1(node: Handle, parameters: Out<KernelParametersV1>);
    cuGraphKernelNodeGetParams_v2 => get_kernel(node: Handle, parameters: Out<KernelParameters>);
    cuGraphKernelNodeSetParams => set_kernel_v1(node: Handle, parameters: In<KernelParametersV1>);
    cuGraphKernelNodeSetParams_v2 => set_kernel(node: Handle, parameters: In<KernelParameters>);
    cuGraphMemcpyNodeGetParams => get_copy(node: Handle, copy: Out<Memcpy3D>);
    cuGraphMemcpyNodeSetParams => set_copy(node: Handle, copy: In<Memcpy3D>);
    cuGraphMemsetNodeGetParams => get_set(node: Handle, set: Out<SetParameters>);
    cuGraphMemsetNodeSetParams => set_set(node: Handle, set: In<SetParameters>);
    cuGraphHostNodeGetParams => get_host(node: Handle, host: Out<HostParameters>);
    cuGraphHostNodeSetParams => set_host(node: Handle, host: In<HostParameters>);
    cuGraphEventRecordNodeGetEvent | cuGraphEventWaitNodeGetEvent => get_event(node: Handle, event: Out<Handle>);
    cuGraphEventRecordNodeSetEvent | cuGraphEventWaitNodeSetEvent => set_event(node: Handle, event: Handle);
    cuGraphChildGraphNodeGetGraph => get_child(node: Handle, graph: Out<Handle>);
    cuGraphKernelNodeGetAttribute => get_attribute(node: Handle, attribute: u32, value: Out<[u64; 8]>);
    cuGraphKernelNodeSetAttribute => set_attribute(node: Handle, attribute: u32, value: Pointer<[u64; 8]>);
    cuGraphKernelNodeCopyAttributes => copy_attributes(to: Handle, from: Handle);
    cuGraphNodeGetType => get_type(node: Handle, kind: Out<u32>);
}

/// `CUDA_KERNEL_NODE_PARAMS_v1` of cuda.h.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct KernelParametersV1 {
    function: Handle,
    dimensions: [u32; 6],
    shared_bytes: u32,
    arguments: Pointer<*const u8>,
    extra: Pointer<u64>,
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
    /// The parameters that a `_v1` function was given.
    pub fn of_v1(first: KernelParametersV1) -> Self {
        Self { first, kernel: 0, context: 0 }
    }

    /// The launch that it asks for.
    pub fn work(&self, state: &mut State) -> Outcome<Work> {
        let Self { first, kernel, context } = *self;
        let KernelParametersV1 { function, dimensions, shared_bytes, arguments, extra } = first;
        let function = if function == 0 { kernel } else { function };
        let context = if context == 0 { state.current()? } else { context };
        let request = Request { function, dimensions, shared_bytes, arguments, extra };
        // The module is loaded when the graph is made, not when it is launched.
        let (launch, _) = state.launch(&request, context, true)?;
        Ok(Work::Kernel(launch))
    }

    fn of(node: &KernelNode) -> Self {
        let KernelNode { function, kernel, dimensions, shared_bytes, context, ref arguments } = *node;
        // SAFETY: the node's own copy of its kernel's arguments, or NULL.
        let arguments = unsafe { Pointer::new(arguments.address() as *const *const u8) };
        let first =
            KernelParametersV1 { function, dimensions, shared_bytes, arguments, extra: Pointer::NULL };
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

fn create_condition(
    call: &mut Call,
    handle: Out<u64>,
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
    handle.put(number << CONDITION_SHIFT | graph);
    Ok(())
}

fn create(call: &mut Call, graph: Out<Handle>, flags: u32) -> Outcome {
    if flags != 0 {
        return Err(INVALID_VALUE);
    }
    let handle = call.lock().graphs.insert(Graph::default());
    graph.put(handle);
    Ok(())
}

fn destroy(call: &mut Call, graph: Handle) -> Outcome {
    let mut state = call.lock();
    // A child node's graph is the node's own.
    if state.graphs.get(graph).ok_or(INVALID_HANDLE)?.owned {
        return Err(INVALID_VALUE);
    }
    state.destroy_graph(graph)?;
    state.sweep_graph_memory();
    Ok(())
}

fn clone(call: &mut Call, clone: Out<Handle>, graph: Handle) -> Outcome {
    let handle = call.lock().clone_graph(graph, false)?;
    clone.put(handle);
    Ok(())
}

fn find_in_clone(call: &mut Call, found: Out<Handle>, node: Handle, clone: Handle) -> Outcome {
    let state = call.lock();
    let nodes = &state.graphs.get(clone).ok_or(INVALID_HANDLE)?.nodes;
    let original = |&&copy: &&Handle| state.nodes.get(copy).is_some_and(|copy| copy.original == node);
    let copy = *nodes.iter().find(original).ok_or(INVALID_VALUE)?;
    found.put(copy);
    Ok(())
}

/// Adds a node of the work that `work` makes.
fn add(
    call: &Call,
    node: Out<Handle>,
    graph: Handle,
    before: Slice<Handle>,
    work: impl FnOnce(&mut Guard) -> Outcome<NodeWork>,
) -> Outcome {
    node.put(new_node(call, graph, &before, work)?);
    Ok(())
}

fn new_node(
    call: &Call,
    graph: Handle,
    before: &[Handle],
    work: impl FnOnce(&mut Guard) -> Outcome<NodeWork>,
) -> Outcome<Handle> {
    let mut state = call.lock();
    state.graphs.get(graph).ok_or(INVALID_HANDLE)?;
    let work = work(&mut state)?;
    state.add_node(graph, work, before.to_vec())
}

fn add_kernel_v1(
    call: &mut Call,
    node: Out<Handle>,
    graph: Handle,
    before: Slice<Handle>,
    _: usize,
    parameters: In<KernelParametersV1>,
) -> Outcome {
    let parameters = KernelParameters::of_v1(*parameters);
    add(call, node, graph, before, |state| parameters.work(state).map(NodeWork::One))
}

fn add_kernel(
    call: &mut Call,
    node: Out<Handle>,
    graph: Handle,
    before: Slice<Handle>,
    _: usize,
    parameters: In<KernelParameters>,
) -> Outcome {
    let parameters = *parameters;
    add(call, node, graph, before, |state| parameters.work(state).map(NodeWork::One))
}

fn add_copy(
    call: &mut Call,
    node: Out<Handle>,
    graph: Handle,
    before: Slice<Handle>,
    _: usize,
    copy: In<Memcpy3D>,
    _: Handle,
) -> Outcome {
    add(call, node, graph, before, |state| copy_work(state, &copy).map(NodeWork::One))
}

fn add_set(
    call: &mut Call,
    node: Out<Handle>,
    graph: Handle,
    before: Slice<Handle>,
    _: usize,
    set: In<SetParameters>,
    _: Handle,
) -> Outcome {
    add(call, node, graph, before, |state| set.work(state).map(NodeWork::One))
}

fn add_host(
    call: &mut Call,
    node: Out<Handle>,
    graph: Handle,
    before: Slice<Handle>,
    _: usize,
    host: In<HostParameters>,
) -> Outcome {
    add(call, node, graph, before, |_| host.work().map(NodeWork::One))
}

fn add_empty(call: &mut Call, node: Out<Handle>, graph: Handle, before: Slice<Handle>, _: usize) -> Outcome {
    add(call, node, graph, before, |_| Ok(NodeWork::One(Work::Empty)))
}

fn add_child(
    call: &mut Call,
    node: Out<Handle>,
    graph: Handle,
    before: Slice<Handle>,
    _: usize,
    child: Handle,
) -> Outcome {
    // cuda.h: the node gets a clone of the child graph.
    add(call, node, graph, before, |state| Ok(NodeWork::Child(state.clone_graph(child, true)?)))
}

fn add_record(
    call: &mut Call,
    node: Out<Handle>,
    graph: Handle,
    before: Slice<Handle>,
    _: usize,
    event: Handle,
) -> Outcome {
    add(call, node, graph, before, |state| event_work(state, event, true).map(NodeWork::One))
}

fn add_wait(
    call: &mut Call,
    node: Out<Handle>,
    graph: Handle,
    before: Slice<Handle>,
    _: usize,
    event: Handle,
) -> Outcome {
    add(call, node, graph, before, |state| event_work(state, event, false).map(NodeWork::One))
}

fn add_node(
    call: &mut Call,
    node: Out<Handle>,
    graph: Handle,
    before: Slice<Handle>,
    _: usize,
    parameters: InOut<NodeParameters>,
) -> Outcome {
    node.put(add_any(call, graph, &before, parameters)?);
    Ok(())
}

/// Adds a node of any type; what the driver has to say about it comes back in the parameters.
fn add_any(
    call: &mut Call,
    graph: Handle,
    before: &[Handle],
    parameters: InOut<NodeParameters>,
) -> Outcome<Handle> {
    let mut given = parameters.get();
    match given.kind {
        CONDITIONAL => {
            let mut bodies = Vec::new();
            let made = new_node(call, graph, before, |state| {
                let of = given.conditional(state)?;
                bodies.clone_from(&of.bodies);
                Ok(NodeWork::Conditional(of))
            })?;
            // cuda.h, CUDA_CONDITIONAL_NODE_PARAMS: the driver's own array, "valid for the lifetime of the conditional
            // node".
            given.body[2] = Box::leak(bodies.into_boxed_slice()).as_ptr() as u64;
            parameters.put(given);
            Ok(made)
        }
        MEM_ALLOC => {
            // SAFETY: the union's member for this type; it is not larger than the body.
            let body = unsafe { &mut *given.body.as_mut_ptr().cast::<AllocParameters>() };
            let made = graph_memory::add_take(call, graph, before, body)?;
            parameters.put(given);
            Ok(made)
        }
        MEM_FREE => call.lock().add_give(call, graph, before.to_vec(), given.body[0]),
        _ => new_node(call, graph, before, |state| given.work(state)),
    }
}

fn add_node_v2(
    call: &mut Call,
    node: Out<Handle>,
    graph: Handle,
    before: Slice<Handle>,
    edges: MaybeSlice<u64>,
    count: usize,
    parameters: InOut<NodeParameters>,
) -> Outcome {
    let kind = parameters.get().kind;
    // A CUgraphEdgeData is eight bytes, and NULL stands for zeroes.
    let data = edges.get().map_or_else(|| vec![0; count], <[u64]>::to_vec);
    let edges: Vec<_> = before.iter().copied().zip(data).collect();
    let state = call.lock();
    edges.iter().try_for_each(|&(before, data)| state.check_edge_data(before, Some(kind), data))?;
    drop(state);
    let made = add_any(call, graph, &before, parameters)?;
    let mut state = call.lock();
    edges.into_iter().for_each(|(before, data)| state.set_edge_data(before, made, data));
    node.put(made);
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

fn set_node(call: &mut Call, node: Handle, parameters: In<NodeParameters>) -> Outcome {
    let parameters = *parameters;
    replace(call, node, |state| parameters.work(state))
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

fn get_kernel_v1(call: &mut Call, node: Handle, parameters: Out<KernelParametersV1>) -> Outcome {
    let known = kernel_parameters(call, node)?;
    parameters.put(known.first);
    Ok(())
}

fn get_kernel(call: &mut Call, node: Handle, parameters: Out<KernelParameters>) -> Outcome {
    let known = kernel_parameters(call, node)?.told();
    parameters.put(known);
    Ok(())
}

fn set_kernel_v1(call: &mut Call, node: Handle, parameters: In<KernelParametersV1>) -> Outcome {
    let parameters = KernelParameters::of_v1(*parameters);
    replace(call, node, |state| parameters.work(state).map(NodeWork::One))
}

fn set_kernel(call: &mut Call, node: Handle, parameters: In<KernelParameters>) -> Outcome {
    let parameters = *parameters;
    replace(call, node, |state| parameters.work(state).map(NodeWork::One))
}

fn get_copy(call: &mut Call, node: Handle, copy: Out<Memcpy3D>) -> Outcome {
    let known = look(call, node, |work| match work {
        NodeWork::One(Work::Copy(copy)) => Some(copy.clone()),
        _ => None,
    })?;
    let known = Memcpy3D::of(&known, &call.lock().arrays);
    copy.put(known);
    Ok(())
}

fn set_copy(call: &mut Call, node: Handle, copy: In<Memcpy3D>) -> Outcome {
    replace(call, node, |state| copy_work(state, &copy).map(NodeWork::One))
}

fn get_set(call: &mut Call, node: Handle, set: Out<SetParameters>) -> Outcome {
    let known = look(call, node, |work| match work {
        &NodeWork::One(Work::Set(Set { dst, value, element, width, height, pitch, .. })) => {
            Some(SetParameters { dst, pitch, value, element: element as u32, width, height })
        }
        _ => None,
    })?;
    set.put(known);
    Ok(())
}

fn set_set(call: &mut Call, node: Handle, set: In<SetParameters>) -> Outcome {
    replace(call, node, |state| set.work(state).map(NodeWork::One))
}

fn get_host(call: &mut Call, node: Handle, host: Out<HostParameters>) -> Outcome {
    let known = look(call, node, |work| match work {
        &NodeWork::One(Work::Host(HostCall::Function { function, data })) => {
            Some(HostParameters { function: Some(function), data })
        }
        _ => None,
    })?;
    host.put(known);
    Ok(())
}

fn set_host(call: &mut Call, node: Handle, host: In<HostParameters>) -> Outcome {
    replace(call, node, |_| host.work().map(NodeWork::One))
}

fn get_event(call: &mut Call, node: Handle, event: Out<Handle>) -> Outcome {
    let known = look(call, node, |work| match work {
        NodeWork::One(Work::Record(event) | Work::Wait(event)) => Some(*event),
        _ => None,
    })?;
    event.put(known);
    Ok(())
}

fn set_event(call: &mut Call, node: Handle, event: Handle) -> Outcome {
    let record = call.api.name == "cuGraphEventRecordNodeSetEvent";
    replace(call, node, |state| event_work(state, event, record).map(NodeWork::One))
}

fn get_child(call: &mut Call, node: Handle, graph: Out<Handle>) -> Outcome {
    let known = look(call, node, |work| match work {
        NodeWork::Child(child) => Some(*child),
        NodeWork::One(_) | NodeWork::Conditional(_) => None,
    })?;
    graph.put(known);
    Ok(())
}

fn check_kernel(call: &Call, node: Handle) -> Outcome {
    look(call, node, |work| (work.kind() == 0).then_some(()))
}

fn get_attribute(call: &mut Call, node: Handle, _: u32, value: Out<[u64; 8]>) -> Outcome {
    check_kernel(call, node)?;
    // A CUlaunchAttributeValue is 64 bytes.
    value.put([0; 8]);
    Ok(())
}

fn set_attribute(call: &mut Call, node: Handle, _: u32, _: Pointer<[u64; 8]>) -> Outcome {
    check_kernel(call, node)
}

fn copy_attributes(call: &mut Call, to: Handle, from: Handle) -> Outcome {
    check_kernel(call, to)?;
    check_kernel(call, from)
}

fn get_type(call: &mut Call, node: Handle, kind: Out<u32>) -> Outcome {
    let known = look(call, node, |work| Some(work.kind()))?;
    kind.put(known);
    Ok(())
}
