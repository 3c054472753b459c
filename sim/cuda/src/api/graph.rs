//! Graphs: creation, destruction, clones, and the handles of conditions.

use super::graph_parameters::CONDITION_SHIFT;
use crate::call::Call;
use crate::error::{INVALID_HANDLE, INVALID_VALUE, Outcome};
use crate::export::exports;
use crate::graph::Graph;
use crate::handle::Handle;
use crate::parameter::Out;

exports! {
    cuGraphCreate => create(graph: Out<Handle>, flags: u32);
    cuGraphDestroy => destroy(graph: Handle);
    cuGraphConditionalHandleCreate => create_condition(handle: Out<u64>, graph: Handle, context: Handle, value: u32, flags: u32);
    cuGraphClone => clone(clone: Out<Handle>, graph: Handle);
    cuGraphNodeFindInClone => find_in_clone(found: Out<Handle>, node: Handle, clone: Handle);
}

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
    // CU_GRAPH_COND_ASSIGN_DEFAULT: each launch assigns the value; without the flag it stays 0.
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
    // A child node owns its graph.
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
