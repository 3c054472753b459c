//! The shape of graphs: nodes, edges, dependencies.

use crate::call::Call;
use crate::error::{INVALID_HANDLE, INVALID_VALUE, LOSSY_QUERY, Outcome};
use crate::export::exports;
use crate::graph::GraphNode;
use crate::handle::Handle;
use crate::parameter::{InOut, MaybeSlice, Pointer, Rows, Slice};
use crate::state::State;

exports! {
    cuGraphGetNodes => get_nodes(graph: Handle, nodes: Rows<Handle>, count: InOut<usize>);
    cuGraphGetRootNodes => get_roots(graph: Handle, nodes: Rows<Handle>, count: InOut<usize>);
    cuGraphGetEdges => get_edges(graph: Handle, from: Rows<Handle>, to: Rows<Handle>, count: InOut<usize>);
    cuGraphGetEdges_v2 => get_edges_v2(graph: Handle, from: Rows<Handle>, to: Rows<Handle>, data: Rows<u64>, count: InOut<usize>);
    cuGraphNodeGetDependencies => get_dependencies(node: Handle, nodes: Rows<Handle>, count: InOut<usize>);
    cuGraphNodeGetDependencies_v2 => get_dependencies_v2(node: Handle, nodes: Rows<Handle>, data: Rows<u64>, count: InOut<usize>);
    cuGraphNodeGetDependentNodes => get_dependents(node: Handle, nodes: Rows<Handle>, count: InOut<usize>);
    cuGraphNodeGetDependentNodes_v2 => get_dependents_v2(node: Handle, nodes: Rows<Handle>, data: Rows<u64>, count: InOut<usize>);
    cuGraphAddDependencies => add_dependencies(graph: Handle, from[count]: Slice<Handle>, to[count]: Slice<Handle>, count: usize);
    cuGraphAddDependencies_v2 => add_dependencies_v2(graph: Handle, from[count]: Slice<Handle>, to[count]: Slice<Handle>, data[count]: MaybeSlice<u64>, count: usize);
    cuGraphRemoveDependencies => remove_dependencies(graph: Handle, from[count]: Slice<Handle>, to[count]: Slice<Handle>, count: usize);
    cuGraphRemoveDependencies_v2 => remove_dependencies_v2(graph: Handle, from[count]: Slice<Handle>, to[count]: Slice<Handle>, data: Pointer<u64>, count: usize);
    cuGraphDestroyNode => destroy_node(node: Handle);
}

/// Returns a list as cuda.h's getters do: its length if there is no room; otherwise as many elements as fit, NULL in
/// the rest of the room, and the number of elements written.
fn give<const N: usize>(rows: &[[Handle; N]], out: [Rows<Handle>; N], count: InOut<usize>) -> Outcome {
    if out.iter().any(|list| list.is_none()) {
        count.put(rows.len());
        return Ok(());
    }
    let room = count.get();
    for index in 0..room {
        let row = rows.get(index).copied().unwrap_or([0; N]);
        for (list, handle) in out.iter().zip(row) {
            // SAFETY: cuda.h's promise: room for `*count` in each list that is not NULL.
            unsafe { list.put(index, handle) };
        }
    }
    count.put(rows.len().min(room));
    Ok(())
}

fn rows(nodes: impl IntoIterator<Item = Handle>) -> Vec<[Handle; 1]> {
    nodes.into_iter().map(|node| [node]).collect()
}

fn get_nodes(call: &mut Call, graph: Handle, nodes: Rows<Handle>, count: InOut<usize>) -> Outcome {
    let known = rows(call.lock().graphs.get(graph).ok_or(INVALID_HANDLE)?.nodes.iter().copied());
    give(&known, [nodes], count)
}

fn get_roots(call: &mut Call, graph: Handle, nodes: Rows<Handle>, count: InOut<usize>) -> Outcome {
    let state = call.lock();
    let all = state.graphs.get(graph).ok_or(INVALID_HANDLE)?.nodes.iter().copied();
    let root = |&node: &Handle| state.nodes.get(node).is_some_and(|node| node.before.is_empty());
    let known = rows(all.filter(root));
    give(&known, [nodes], count)
}

/// Returns the data of an edge; zeroes are what cuda.h calls a default edge.
fn edge_data(state: &State, [from, to]: [Handle; 2]) -> u64 {
    state.nodes.get(to).and_then(|node| node.data.get(&from).copied()).unwrap_or(0)
}

/// Returns edges as the nodes at one or both of their ends and, if there is room, their data. cuda.h,
/// CUDA_ERROR_LOSSY_QUERY: without room for data, no edge may have any.
fn give_edges<const N: usize>(
    state: &State,
    edges: &[[Handle; 2]],
    row: impl Fn([Handle; 2]) -> [Handle; N],
    out: [Rows<Handle>; N],
    data: Rows<u64>,
    count: InOut<usize>,
) -> Outcome {
    let known: Vec<u64> = edges.iter().map(|&edge| edge_data(state, edge)).collect();
    let requested = out.iter().all(|list| !list.is_none());
    if requested && data.is_none() && known.iter().any(|&data| data != 0) {
        return Err(LOSSY_QUERY);
    }
    let rows: Vec<[Handle; N]> = edges.iter().map(|&edge| row(edge)).collect();
    give(&rows, out, count)?;
    if requested && !data.is_none() {
        for (index, &data_of_edge) in known[..count.get()].iter().enumerate() {
            // SAFETY: cuda.h's promise: room for as many CUgraphEdgeData, of eight bytes each.
            unsafe { data.put(index, data_of_edge) };
        }
    }
    Ok(())
}

fn get_edges(
    call: &mut Call,
    graph: Handle,
    from: Rows<Handle>,
    to: Rows<Handle>,
    count: InOut<usize>,
) -> Outcome {
    get_edges_v2(call, graph, from, to, Rows::NONE, count)
}

fn get_edges_v2(
    call: &mut Call,
    graph: Handle,
    from: Rows<Handle>,
    to: Rows<Handle>,
    data: Rows<u64>,
    count: InOut<usize>,
) -> Outcome {
    let state = call.lock();
    let mut known = Vec::new();
    for &node in &state.graphs.get(graph).ok_or(INVALID_HANDLE)?.nodes {
        let before = state.nodes.get(node).map(|node| &node.before).into_iter().flatten();
        known.extend(before.map(|&before| [before, node]));
    }
    give_edges(&state, &known, |edge| edge, [from, to], data, count)
}

fn get_dependencies(call: &mut Call, node: Handle, nodes: Rows<Handle>, count: InOut<usize>) -> Outcome {
    get_dependencies_v2(call, node, nodes, Rows::NONE, count)
}

fn get_dependencies_v2(
    call: &mut Call,
    node: Handle,
    nodes: Rows<Handle>,
    data: Rows<u64>,
    count: InOut<usize>,
) -> Outcome {
    let state = call.lock();
    let before = &state.nodes.get(node).ok_or(INVALID_HANDLE)?.before;
    let known: Vec<[Handle; 2]> = before.iter().map(|&before| [before, node]).collect();
    give_edges(&state, &known, |[before, _]| [before], [nodes], data, count)
}

fn get_dependents(call: &mut Call, node: Handle, nodes: Rows<Handle>, count: InOut<usize>) -> Outcome {
    get_dependents_v2(call, node, nodes, Rows::NONE, count)
}

fn get_dependents_v2(
    call: &mut Call,
    node: Handle,
    nodes: Rows<Handle>,
    data: Rows<u64>,
    count: InOut<usize>,
) -> Outcome {
    let state = call.lock();
    let graph = state.nodes.get(node).ok_or(INVALID_HANDLE)?.graph;
    let all = state.graphs.get(graph).ok_or(INVALID_HANDLE)?.nodes.iter().copied();
    let behind = |&other: &Handle| state.nodes.get(other).is_some_and(|other| other.before.contains(&node));
    let known: Vec<[Handle; 2]> = all.filter(behind).map(|other| [node, other]).collect();
    give_edges(&state, &known, |[_, other]| [other], [nodes], data, count)
}

/// Returns pairs of nodes, which must belong to the graph.
fn pairs(state: &State, graph: Handle, from: &[Handle], to: &[Handle]) -> Outcome<Vec<(Handle, Handle)>> {
    let pairs: Vec<_> = from.iter().copied().zip(to.iter().copied()).collect();
    let of_graph = |node| state.nodes.get(node).is_some_and(|node: &GraphNode| node.graph == graph);
    let known = pairs.iter().all(|&(from, to)| from != to && of_graph(from) && of_graph(to));
    if known { Ok(pairs) } else { Err(INVALID_VALUE) }
}

fn add_dependencies(
    call: &mut Call,
    graph: Handle,
    from: Slice<Handle>,
    to: Slice<Handle>,
    _: usize,
) -> Outcome {
    let mut state = call.lock();
    for (from, to) in pairs(&state, graph, &from, &to)? {
        let before = &mut state.nodes.get_mut(to).ok_or(INVALID_VALUE)?.before;
        // cuda.h: specifying an existing dependency returns an error.
        if before.contains(&from) {
            return Err(INVALID_VALUE);
        }
        before.push(from);
    }
    Ok(())
}

fn add_dependencies_v2(
    call: &mut Call,
    graph: Handle,
    from: Slice<Handle>,
    to: Slice<Handle>,
    data: MaybeSlice<u64>,
    count: usize,
) -> Outcome {
    // A CUgraphEdgeData has eight bytes, and NULL means zeroes.
    let data = data.get().map_or_else(|| vec![0; count], <[u64]>::to_vec);
    let pairs = from.iter().copied().zip(to.iter().copied());
    let edges: Vec<_> = pairs.zip(data).collect();
    let state = call.lock();
    for &((from, to), data) in &edges {
        state.check_edge_data(from, state.kind_of(to), data)?;
    }
    drop(state);
    add_dependencies(call, graph, from, to, count)?;
    let mut state = call.lock();
    edges.into_iter().for_each(|((from, to), data)| state.set_edge_data(from, to, data));
    Ok(())
}

fn remove_dependencies(
    call: &mut Call,
    graph: Handle,
    from: Slice<Handle>,
    to: Slice<Handle>,
    _: usize,
) -> Outcome {
    let mut state = call.lock();
    if state.has_memory(graph) {
        // cuda.h: such a graph keeps its dependencies.
        return Err(INVALID_VALUE);
    }
    for (from, to) in pairs(&state, graph, &from, &to)? {
        let before = &mut state.nodes.get_mut(to).ok_or(INVALID_VALUE)?.before;
        // cuda.h: specifying a non-existing dependency returns an error.
        let at = before.iter().position(|&node| node == from).ok_or(INVALID_VALUE)?;
        before.remove(at);
        state.nodes.get_mut(to).ok_or(INVALID_VALUE)?.data.remove(&from);
    }
    Ok(())
}

fn remove_dependencies_v2(
    call: &mut Call,
    graph: Handle,
    from: Slice<Handle>,
    to: Slice<Handle>,
    _: Pointer<u64>,
    count: usize,
) -> Outcome {
    remove_dependencies(call, graph, from, to, count)
}

fn destroy_node(call: &mut Call, node: Handle) -> Outcome {
    let mut state = call.lock();
    if state.has_memory(state.nodes.get(node).ok_or(INVALID_HANDLE)?.graph) {
        // cuda.h: such a graph keeps its nodes.
        return Err(INVALID_VALUE);
    }
    let gone = state.nodes.remove(node).ok_or(INVALID_HANDLE)?;
    let mut others = Vec::new();
    if let Some(graph) = state.graphs.get_mut(gone.graph) {
        graph.nodes.retain(|&other| other != node);
        others.clone_from(&graph.nodes);
    }
    for other in others {
        if let Some(other) = state.nodes.get_mut(other) {
            other.before.retain(|&before| before != node);
            other.data.remove(&node);
        }
    }
    state.destroy_inner(gone.work)
}
