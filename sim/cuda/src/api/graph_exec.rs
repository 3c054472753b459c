//! Executable graphs: instantiation, update, launch.

use super::copy::Memcpy3D;
use super::graph_parameters::{
    HostParameters, KernelParameters, KernelParametersV1, NodeParameters, SetParameters, copy_work,
    event_work,
};
use crate::call::Call;
use crate::engine::Done;
use crate::error::{GRAPH_EXEC_UPDATE_FAILURE, INVALID_HANDLE, INVALID_VALUE, NOT_SUPPORTED, Outcome};
use crate::export::exports;
use crate::graph::{Exec, Graph, NodeWork, Step};
use crate::graph_memory::Moves;
use crate::handle::Handle;
use crate::parameter::{In, InOut, Maybe, Out};
use crate::state::{Guard, State};
use crate::truth;
use crate::work::{Work, make_room};
use std::ffi::c_char;

exports! {
    cuGraphInstantiate | cuGraphInstantiate_v2 => instantiate_v2(exec: Out<Handle>, graph: Handle, error: Maybe<Handle>, log: Maybe<c_char>, room: usize);
    cuGraphInstantiateWithFlags => instantiate(exec: Out<Handle>, graph: Handle, flags: u64);
    cuGraphInstantiateWithParams | cuGraphInstantiateWithParams_ptsz => instantiate_with(exec: Out<Handle>, graph: Handle, parameters: InOut<InstantiateParameters>);
    cuGraphExecDestroy => destroy(exec: Handle);
    cuGraphExecGetFlags => get_flags(exec: Handle, flags: Out<u64>);
    cuGraphUpload | cuGraphUpload_ptsz => upload(exec: Handle, stream: Handle);
    cuGraphLaunch | cuGraphLaunch_ptsz => launch(exec: Handle, stream: Handle);
    cuGraphExecUpdate => update_v1(exec: Handle, graph: Handle, node: Maybe<Handle>, result: Out<u32>);
    cuGraphExecUpdate_v2 => update(exec: Handle, graph: Handle, info: Out<UpdateInfo>);
    cuGraphExecKernelNodeSetParams => set_kernel_v1(exec: Handle, node: Handle, parameters: In<KernelParametersV1>);
    cuGraphExecKernelNodeSetParams_v2 => set_kernel(exec: Handle, node: Handle, parameters: In<KernelParameters>);
    cuGraphExecMemcpyNodeSetParams => set_copy(exec: Handle, node: Handle, copy: In<Memcpy3D>, context: Handle);
    cuGraphExecMemsetNodeSetParams => set_set(exec: Handle, node: Handle, set: In<SetParameters>, context: Handle);
    cuGraphExecHostNodeSetParams => set_host(exec: Handle, node: Handle, host: In<HostParameters>);
    cuGraphExecChildGraphNodeSetParams => set_child(exec: Handle, node: Handle, child: Handle);
    cuGraphExecEventRecordNodeSetEvent | cuGraphExecEventWaitNodeSetEvent => set_event(exec: Handle, node: Handle, event: Handle);
    cuGraphExecNodeSetParams => set_node(exec: Handle, node: Handle, parameters: In<NodeParameters>);
    cuGraphNodeSetEnabled => set_enabled(exec: Handle, node: Handle, enabled: u32);
    cuGraphNodeGetEnabled => get_enabled(exec: Handle, node: Handle, enabled: Out<u32>);
}

/// `CUDA_GRAPH_INSTANTIATE_PARAMS` of cuda.h.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct InstantiateParameters {
    flags: u64,
    stream: Handle,
    error_node: Handle,
    result: u32,
}

/// `CUgraphExecUpdateResultInfo` of cuda.h.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct UpdateInfo {
    result: u32,
    node: Handle,
    from: Handle,
}

/// `CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH`.
const DEVICE_LAUNCH: u64 = 4;

fn make(call: &Call, exec: Out<Handle>, graph: Handle, flags: u64) -> Outcome {
    if flags > 15 {
        return Err(INVALID_VALUE);
    }
    if flags & DEVICE_LAUNCH != 0 {
        return Err(NOT_SUPPORTED);
    }
    let mut state = call.lock();
    let context = state.current()?;
    if state.graphs.get(graph).ok_or(INVALID_HANDLE)?.owned && state.has_memory(graph) {
        // cuda.h, CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE: the graph can no longer be instantiated on its own.
        return Err(INVALID_VALUE);
    }
    let mut steps = Vec::new();
    state.flatten(graph, &[], &mut steps)?;
    // cuda.h, CU_GRAPH_NODE_TYPE_CONDITIONAL: "Only one instantiation of the graph may exist at any point in time.";
    // the same holds for nodes that allocate or free memory (cuGraphInstantiate).
    let single = steps.iter().any(|step| [10, 11, 13].contains(&step.kind));
    if single && state.execs.iter().any(|(_, exec)| exec.graph == graph) {
        return Err(INVALID_VALUE);
    }
    let count = |kind| steps.iter().filter(|step| step.kind == kind).count();
    let [kernels, copies, sets] = [0, 1, 2].map(count);
    let others = steps.len() - kernels - copies - sets;
    let objects = state.kept_by(graph);
    let handle = state.execs.insert(Exec { steps, last: Done::At(0), flags, context, graph, objects });
    truth::line(format_args!(
        "\"kind\":\"graph_instantiate\",\"handle\":{handle},\"graph\":{graph},\"kernels\":{kernels},\"copies\":{copies},\
         \"memsets\":{sets},\"others\":{others}"
    ));
    exec.put(handle);
    Ok(())
}

fn instantiate_v2(
    call: &mut Call,
    exec: Out<Handle>,
    graph: Handle,
    error: Maybe<Handle>,
    log: Maybe<c_char>,
    room: usize,
) -> Outcome {
    error.put(0);
    if room > 0 {
        log.put(0);
    }
    make(call, exec, graph, 0)
}

fn instantiate(call: &mut Call, exec: Out<Handle>, graph: Handle, flags: u64) -> Outcome {
    make(call, exec, graph, flags)
}

fn instantiate_with(
    call: &mut Call,
    exec: Out<Handle>,
    graph: Handle,
    parameters: InOut<InstantiateParameters>,
) -> Outcome {
    let place = parameters;
    let mut parameters = place.get();
    let made = make(call, exec, graph, parameters.flags);
    parameters.error_node = 0;
    // CUDA_GRAPH_INSTANTIATE_SUCCESS, CUDA_GRAPH_INSTANTIATE_ERROR.
    parameters.result = u32::from(made.is_err());
    place.put(parameters);
    made
}

fn destroy(call: &mut Call, exec: Handle) -> Outcome {
    // cuda.h: a launch in progress runs to its end.
    let mut state = call.lock();
    state.execs.remove(exec).ok_or(INVALID_HANDLE)?;
    state.sweep_graph_memory();
    Ok(())
}

fn get_flags(call: &mut Call, exec: Handle, flags: Out<u64>) -> Outcome {
    let known = call.lock().execs.get(exec).ok_or(INVALID_HANDLE)?.flags;
    flags.put(known);
    Ok(())
}

fn upload(call: &mut Call, exec: Handle, stream: Handle) -> Outcome {
    let mut state = call.lock();
    let stream = state.stream(call.api.per_thread, stream)?;
    state.execs.get(exec).ok_or(INVALID_HANDLE)?;
    crate::work::issue(call, state, stream, &Work::Empty).map(|_| ())
}

fn launch(call: &mut Call, exec: Handle, stream: Handle) -> Outcome {
    let mut state = call.lock();
    let stream = state.stream(call.api.per_thread, stream)?;
    state.execs.get(exec).ok_or(INVALID_HANDLE)?;
    state.check_legacy(stream)?;
    if state.checked(stream).capture.is_some() {
        // CUDA programming guide, "Creating a Graph Using Stream Capture": the launch becomes a child graph.
        let child = state.as_graph(exec)?;
        return state.capture_node(stream, NodeWork::Child(child)).map(|_| ());
    }
    let mut state = make_room(call, state, stream)?;
    state.launch_graph(call, stream, exec).map(|_| ())
}

impl State {
    /// Builds a graph from an executable graph's steps.
    fn as_graph(&mut self, exec: Handle) -> Outcome<Handle> {
        let steps = self.execs.get(exec).ok_or(INVALID_HANDLE)?.steps.clone();
        if !Moves::of(&steps).is_empty() {
            // Such a graph cannot be cloned (cuda.h, cuGraphClone).
            return Err(NOT_SUPPORTED);
        }
        let graph = self.graphs.insert(Graph { owned: true, ..Graph::default() });
        let mut nodes: Vec<Handle> = Vec::with_capacity(steps.len());
        for step in steps {
            let before = step.before.iter().map(|&index| nodes[index]).collect();
            let work = if step.enabled { step.work } else { Work::Empty };
            nodes.push(self.add_node(graph, NodeWork::One(work), before)?);
        }
        Ok(graph)
    }

    /// Replaces the work of the steps that a node became.
    fn replace_step(&mut self, exec: Handle, node: Handle, work: Work) -> Outcome {
        let kind = NodeWork::One(work.clone()).kind();
        let exec = self.execs.get_mut(exec).ok_or(INVALID_HANDLE)?;
        let step = exec.steps.iter_mut().find(|step| step.node == node).ok_or(INVALID_VALUE)?;
        if step.kind != kind {
            return Err(INVALID_VALUE);
        }
        step.work = work;
        Ok(())
    }
}

/// Returns why `new` cannot replace `old`: a CUgraphExecUpdateResult and the node.
fn difference(old: &[Step], new: &[Step]) -> Option<(u32, Handle)> {
    const TOPOLOGY_CHANGED: u32 = 2;
    const NODE_TYPE_CHANGED: u32 = 3;
    const PARAMETERS_CHANGED: u32 = 5;
    if old.len() != new.len() {
        return Some((TOPOLOGY_CHANGED, 0));
    }
    old.iter().zip(new).find_map(|(old, new)| {
        if old.kind != new.kind {
            Some((NODE_TYPE_CHANGED, new.node))
        } else if is_other_memory(&old.work, &new.work) {
            Some((PARAMETERS_CHANGED, new.node))
        } else {
            (old.before != new.before).then_some((TOPOLOGY_CHANGED, new.node))
        }
    })
}

/// Returns whether nodes allocate, or free, different memory. It is an assumption that an executable graph keeps its
/// own memory: the parameters of such nodes cannot be set (cuda.h, cuGraphExecNodeSetParams).
fn is_other_memory(old: &Work, new: &Work) -> bool {
    match (old, new) {
        (Work::Take(old), Work::Take(new)) | (Work::Give(old), Work::Give(new)) => old != new,
        _ => false,
    }
}

fn replace_all(call: &Call, exec: Handle, graph: Handle) -> Outcome<Option<(u32, Handle)>> {
    let mut state = call.lock();
    state.execs.get(exec).ok_or(INVALID_HANDLE)?;
    let mut new = Vec::new();
    state.flatten(graph, &[], &mut new)?;
    let steps = &mut state.execs.get_mut(exec).ok_or(INVALID_HANDLE)?.steps;
    let different = difference(steps, &new);
    if different.is_none() {
        steps.iter_mut().zip(new).for_each(|(old, new)| old.work = new.work);
    }
    Ok(different)
}

fn update_v1(call: &mut Call, exec: Handle, graph: Handle, node: Maybe<Handle>, result: Out<u32>) -> Outcome {
    let different = replace_all(call, exec, graph)?;
    let (found, at) = different.unwrap_or_default();
    node.put(at);
    result.put(found);
    if different.is_some() { Err(GRAPH_EXEC_UPDATE_FAILURE) } else { Ok(()) }
}

fn update(call: &mut Call, exec: Handle, graph: Handle, info: Out<UpdateInfo>) -> Outcome {
    let different = replace_all(call, exec, graph)?;
    let (result, node) = different.unwrap_or_default();
    info.put(UpdateInfo { result, node, from: 0 });
    if different.is_some() { Err(GRAPH_EXEC_UPDATE_FAILURE) } else { Ok(()) }
}

fn replace(
    call: &Call,
    exec: Handle,
    node: Handle,
    work: impl FnOnce(&mut Guard) -> Outcome<Work>,
) -> Outcome {
    let mut state = call.lock();
    let work = work(&mut state)?;
    state.replace_step(exec, node, work)
}

fn set_kernel_v1(call: &mut Call, exec: Handle, node: Handle, parameters: In<KernelParametersV1>) -> Outcome {
    let parameters = KernelParameters::of_v1(*parameters);
    replace(call, exec, node, |state| parameters.work(state))
}

fn set_kernel(call: &mut Call, exec: Handle, node: Handle, parameters: In<KernelParameters>) -> Outcome {
    let parameters = *parameters;
    replace(call, exec, node, |state| parameters.work(state))
}

fn set_copy(call: &mut Call, exec: Handle, node: Handle, copy: In<Memcpy3D>, _: Handle) -> Outcome {
    replace(call, exec, node, |state| copy_work(state, &copy))
}

fn set_set(call: &mut Call, exec: Handle, node: Handle, set: In<SetParameters>, _: Handle) -> Outcome {
    replace(call, exec, node, |state| set.work(state))
}

fn set_host(call: &mut Call, exec: Handle, node: Handle, host: In<HostParameters>) -> Outcome {
    replace(call, exec, node, |_| host.work())
}

fn set_event(call: &mut Call, exec: Handle, node: Handle, event: Handle) -> Outcome {
    let record = call.api.name == "cuGraphExecEventRecordNodeSetEvent";
    replace(call, exec, node, |state| event_work(state, event, record))
}

fn set_child(call: &mut Call, exec: Handle, node: Handle, child: Handle) -> Outcome {
    let mut state = call.lock();
    let mut new = Vec::new();
    state.flatten(child, &[], &mut new)?;
    let steps = &mut state.execs.get_mut(exec).ok_or(INVALID_HANDLE)?.steps;
    // The child's steps are between the two empty ones that the node became.
    let begin = steps.iter().position(|step| step.node == node).ok_or(INVALID_VALUE)?;
    let end = steps.iter().rposition(|step| step.node == node).ok_or(INVALID_VALUE)?;
    let kinds = |steps: &[Step]| steps.iter().map(|step| step.kind).collect::<Vec<_>>();
    let inner = steps.get_mut(begin + 1..end).ok_or(INVALID_VALUE)?;
    let mut pairs = inner.iter().zip(&new);
    if kinds(inner) != kinds(&new) || pairs.any(|(old, new)| is_other_memory(&old.work, &new.work)) {
        return Err(GRAPH_EXEC_UPDATE_FAILURE);
    }
    inner.iter_mut().zip(new).for_each(|(old, new)| old.work = new.work);
    Ok(())
}

fn set_node(call: &mut Call, exec: Handle, node: Handle, parameters: In<NodeParameters>) -> Outcome {
    let parameters = *parameters;
    replace(call, exec, node, |state| match parameters.work(state)? {
        NodeWork::One(work) => Ok(work),
        NodeWork::Child(_) | NodeWork::Conditional(_) => Err(NOT_SUPPORTED),
    })
}

fn set_enabled(call: &mut Call, exec: Handle, node: Handle, enabled: u32) -> Outcome {
    let mut state = call.lock();
    let exec = state.execs.get_mut(exec).ok_or(INVALID_HANDLE)?;
    let step = exec.steps.iter_mut().find(|step| step.node == node).ok_or(INVALID_VALUE)?;
    // cuda.h: only kernel, memset and memcpy nodes.
    if step.kind > 2 {
        return Err(INVALID_VALUE);
    }
    step.enabled = enabled != 0;
    Ok(())
}

fn get_enabled(call: &mut Call, exec: Handle, node: Handle, enabled: Out<u32>) -> Outcome {
    let state = call.lock();
    let exec = state.execs.get(exec).ok_or(INVALID_HANDLE)?;
    let step = exec.steps.iter().find(|step| step.node == node).ok_or(INVALID_VALUE)?;
    enabled.put(u32::from(step.enabled));
    Ok(())
}
