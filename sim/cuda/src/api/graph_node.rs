//! The nodes of graphs: reading and replacing their parameters.

use super::copy::Memcpy3D;
use super::graph_parameters::{
    HostParameters, KernelParameters, KernelParametersV1, NodeParameters, SetParameters, copy_work,
    event_work,
};
use crate::call::Call;
use crate::error::{INVALID_HANDLE, INVALID_VALUE, Outcome};
use crate::export::exports;
use crate::graph::NodeWork;
use crate::handle::Handle;
use crate::parameter::{In, Out, Pointer};
use crate::state::Guard;
use crate::transfer::Set;
use crate::work::{Launch, Work};
use crate::worker::HostCall;

exports! {
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

/// Replaces the work of a node by other work of the same kind.
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

/// Reads the work of a node.
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
    let known = kernel_parameters(call, node)?.reported();
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
