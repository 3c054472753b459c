//! Adding nodes to graphs.

use super::copy::Memcpy3D;
use super::graph_memory::{self, AllocParameters};
use super::graph_parameters::{
    CONDITIONAL, HostParameters, KernelParameters, KernelParametersV1, MEM_ALLOC, MEM_FREE, NodeParameters,
    SetParameters, copy_work, event_work,
};
use crate::call::Call;
use crate::error::{INVALID_HANDLE, Outcome};
use crate::export::exports;
use crate::graph::NodeWork;
use crate::handle::Handle;
use crate::parameter::{In, InOut, MaybeSlice, Out, Slice};
use crate::state::Guard;
use crate::work::Work;

exports! {
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
}

/// Adds a node with the work that `work` returns.
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

/// Adds a node of any type. Results that the driver computes are written to the parameters.
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
    // A CUgraphEdgeData has eight bytes, and NULL means zeroes.
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
