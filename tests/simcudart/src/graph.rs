//! Graphs.

use std::ffi::{c_char, c_uint};

use crate::driver::Handle;

export! {
    fn cudaGraphCreate(graph: *mut Handle, flags: c_uint) = with_driver |driver| {
        driver.cuGraphCreate(graph, flags)
    }

    fn cudaGraphDestroy(graph: Handle) = with_driver |driver| {
        driver.cuGraphDestroy(graph)
    }

    fn cudaGraphGetNodes(graph: Handle, nodes: *mut Handle, count: *mut usize) = with_driver |driver| {
        driver.cuGraphGetNodes(graph, nodes, count)
    }

    // The signature of CUDA 12; before, there were places for an error node and a log.
    fn cudaGraphInstantiate(exec: *mut Handle, graph: Handle, flags: u64) = with_context |driver| {
        driver.cuGraphInstantiateWithFlags(exec, graph, flags)
    }

    fn cudaGraphInstantiateWithFlags(exec: *mut Handle, graph: Handle, flags: u64) = with_context |driver| {
        driver.cuGraphInstantiateWithFlags(exec, graph, flags)
    }

    fn cudaGraphExecDestroy(exec: Handle) = with_driver |driver| {
        driver.cuGraphExecDestroy(exec)
    }

    fn cudaGraphDebugDotPrint(graph: Handle, path: *const c_char, flags: c_uint) = with_driver |driver| {
        driver.cuGraphDebugDotPrint(graph, path, flags)
    }
}

export_on_stream! {
    fn cudaGraphLaunch, cudaGraphLaunch_ptsz(exec: Handle, stream: Handle) = with_context |driver, default| {
        driver.cuGraphLaunch(default, exec, stream)
    }
}
