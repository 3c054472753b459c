//! Queries and changes of the nodes and edges of graphs. CUDA 13 has the names of CUDA 12's `_v2` functions, which also
//! report the data of edges. Where the last arguments of a name differ between the two, they are taken as words.

use std::ffi::c_int;
use std::ptr::null_mut;

use crate::device::runtime_version;
use crate::driver::Handle;

fn is_13() -> bool {
    runtime_version() >= 13000
}

export! {
    fn cudaGraphGetNodes(graph: Handle, nodes: *mut Handle, count: *mut usize) = with_driver |driver| {
        driver.cuGraphGetNodes(graph, nodes, count)
    }

    fn cudaGraphGetRootNodes(graph: Handle, nodes: *mut Handle, count: *mut usize) = with_driver |driver| {
        driver.cuGraphGetRootNodes(graph, nodes, count)
    }

    fn cudaGraphNodeGetType(node: Handle, kind: *mut c_int) = with_driver |driver| {
        driver.cuGraphNodeGetType(node, kind)
    }

    fn cudaGraphNodeFindInClone(found: *mut Handle, node: Handle, clone: Handle) = with_driver |driver| {
        driver.cuGraphNodeFindInClone(found, node, clone)
    }

    fn cudaGraphDestroyNode(node: Handle) = with_driver |driver| {
        driver.cuGraphDestroyNode(node)
    }

    fn cudaGraphGetEdges(graph: Handle, from: *mut Handle, to: *mut Handle, fourth: usize, fifth: usize)
        = with_driver |driver| {
        if is_13() {
            driver.cuGraphGetEdges_v2(graph, from, to, fourth as *mut u64, fifth as *mut usize)
        } else {
            driver.cuGraphGetEdges(graph, from, to, fourth as *mut usize)
        }
    }

    fn cudaGraphGetEdges_v2(graph: Handle, from: *mut Handle, to: *mut Handle, edges: *mut u64, count: *mut usize)
        = with_driver |driver| { driver.cuGraphGetEdges_v2(graph, from, to, edges, count) }

    fn cudaGraphNodeGetDependencies(node: Handle, nodes: *mut Handle, third: usize, fourth: usize)
        = with_driver |driver| {
        if is_13() {
            driver.cuGraphNodeGetDependencies_v2(node, nodes, third as *mut u64, fourth as *mut usize)
        } else {
            driver.cuGraphNodeGetDependencies(node, nodes, third as *mut usize)
        }
    }

    fn cudaGraphNodeGetDependencies_v2(node: Handle, nodes: *mut Handle, edges: *mut u64, count: *mut usize)
        = with_driver |driver| { driver.cuGraphNodeGetDependencies_v2(node, nodes, edges, count) }

    fn cudaGraphNodeGetDependentNodes(node: Handle, nodes: *mut Handle, third: usize, fourth: usize)
        = with_driver |driver| {
        if is_13() {
            driver.cuGraphNodeGetDependentNodes_v2(node, nodes, third as *mut u64, fourth as *mut usize)
        } else {
            driver.cuGraphNodeGetDependentNodes(node, nodes, third as *mut usize)
        }
    }

    fn cudaGraphNodeGetDependentNodes_v2(node: Handle, nodes: *mut Handle, edges: *mut u64, count: *mut usize)
        = with_driver |driver| { driver.cuGraphNodeGetDependentNodes_v2(node, nodes, edges, count) }

    fn cudaGraphAddDependencies(graph: Handle, from: *const Handle, to: *const Handle, fourth: usize, fifth: usize)
        = with_driver |driver| {
        if is_13() {
            driver.cuGraphAddDependencies_v2(graph, from, to, fourth as *const u64, fifth)
        } else {
            driver.cuGraphAddDependencies(graph, from, to, fourth)
        }
    }

    fn cudaGraphAddDependencies_v2(graph: Handle, from: *const Handle, to: *const Handle, edges: *const u64,
        count: usize) = with_driver |driver| { driver.cuGraphAddDependencies_v2(graph, from, to, edges, count) }

    fn cudaGraphRemoveDependencies(graph: Handle, from: *const Handle, to: *const Handle, fourth: usize, fifth: usize)
        = with_driver |driver| {
        if is_13() {
            driver.cuGraphRemoveDependencies_v2(graph, from, to, fourth as *const u64, fifth)
        } else {
            driver.cuGraphRemoveDependencies(graph, from, to, fourth)
        }
    }

    fn cudaGraphRemoveDependencies_v2(graph: Handle, from: *const Handle, to: *const Handle, edges: *const u64,
        count: usize) = with_driver |driver| { driver.cuGraphRemoveDependencies_v2(graph, from, to, edges, count) }

    // The runtime's condition is of the current context's device.
    fn cudaGraphConditionalHandleCreate(handle: *mut u64, graph: Handle, value: u32, flags: u32)
        = with_context |driver| {
        let mut context = null_mut();
        driver.cuCtxGetCurrent(&mut context)?;
        driver.cuGraphConditionalHandleCreate(handle, graph, context, value, flags)
    }

    // An execution context is one of the driver's; null is the current one.
    fn cudaGraphConditionalHandleCreate_v2(handle: *mut u64, graph: Handle, context: Handle, value: u32, flags: u32)
        = with_context |driver| {
        let mut context = context;
        if context.is_null() {
            driver.cuCtxGetCurrent(&mut context)?;
        }
        driver.cuGraphConditionalHandleCreate(handle, graph, context, value, flags)
    }
}
