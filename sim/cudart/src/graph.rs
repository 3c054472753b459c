//! Graphs.

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::ptr::null_mut;

use crate::driver::{DevicePtr, Driver, Handle};
use crate::error::{self, INVALID_VALUE, Result};
use crate::kernel::function;
use crate::launch::Dim3;
use crate::shaped::Copy3D;
use crate::variable::symbol;

/// `cudaKernelNodeParams` (driver_types.h).
#[repr(C)]
#[derive(Clone)]
pub struct KernelNode {
    pub func: *const c_void,
    grid: Dim3,
    block: Dim3,
    shared_bytes: c_uint,
    arguments: *mut *mut c_void,
    extra: *mut *mut c_void,
}

/// `CUDA_KERNEL_NODE_PARAMS_v2` (cuda.h): the same with a function of the driver's, a kernel and a context.
#[repr(C)]
pub struct DriverKernelNode {
    pub first: KernelNode,
    pub kernel: Handle,
    pub context: Handle,
}

/// A side of `CUDA_MEMCPY3D` (cuda.h), as far as a linear copy needs it.
#[repr(C)]
struct Side {
    offsets: [usize; 4],
    memory: c_uint,
    host: *const c_void,
    device: *const c_void,
    array: [usize; 4],
}

/// `CUDA_MEMCPY3D`.
#[repr(C)]
pub struct LinearCopy {
    from: Side,
    to: Side,
    extent: [usize; 3],
}

const _: () = assert!(size_of::<KernelNode>() == 56 && size_of::<LinearCopy>() == 200);

/// `CU_MEMORYTYPE_UNIFIED`: the address says where it is.
const UNIFIED: c_uint = 4;

pub unsafe fn kernel_node(driver: &Driver, node: *const KernelNode) -> Result<DriverKernelNode> {
    // SAFETY: the application's structure, or null.
    let node = unsafe { node.as_ref() }.ok_or(error::INVALID_VALUE)?;
    let func = function(driver, node.func)?.cast_const();
    let first = KernelNode { func, ..*node };
    Ok(DriverKernelNode { first, kernel: null_mut(), context: null_mut() })
}

/// Returns a copy of contiguous bytes between addresses whose memory type is unified.
pub fn linear(to: *mut c_void, from: *const c_void, bytes: usize) -> LinearCopy {
    let side = |device| Side { offsets: [0; 4], memory: UNIFIED, host: null_mut(), device, array: [0; 4] };
    LinearCopy { from: side(from), to: side(to), extent: [bytes, 1, 1] }
}

pub unsafe fn current(driver: &Driver) -> Result<Handle> {
    let mut context = null_mut();
    // SAFETY: a place of ours.
    unsafe { driver.cuCtxGetCurrent(&mut context) }?;
    Ok(context)
}

export! {
    fn cudaGraphCreate(graph: *mut Handle, flags: c_uint) = with_driver |driver| {
        driver.cuGraphCreate(graph, flags)
    }

    fn cudaGraphDestroy(graph: Handle) = with_driver |driver| {
        driver.cuGraphDestroy(graph)
    }

    // The signature of CUDA 12; before, there were places for an error node and a log.
    fn cudaGraphInstantiate(exec: *mut Handle, graph: Handle, flags: u64) = with_context |driver| {
        driver.cuGraphInstantiateWithFlags(exec, graph, flags)
    }

    fn cudaGraphInstantiateWithFlags(exec: *mut Handle, graph: Handle, flags: u64) = with_context |driver| {
        driver.cuGraphInstantiateWithFlags(exec, graph, flags)
    }

    fn cudaGraphClone(clone: *mut Handle, graph: Handle) = with_driver |driver| {
        driver.cuGraphClone(clone, graph)
    }

    fn cudaGraphAddKernelNode(node: *mut Handle, graph: Handle, before: *const Handle, count: usize,
        parameters: *const KernelNode) = with_context |driver| {
        let parameters = kernel_node(driver, parameters)?;
        driver.cuGraphAddKernelNode(node, graph, before, count, (&raw const parameters).cast())
    }

    fn cudaGraphAddMemcpyNode1D(node: *mut Handle, graph: Handle, before: *const Handle, count: usize,
        to: *mut c_void, from: *const c_void, bytes: usize, _kind: c_int) = with_context |driver| {
        let copy = linear(to, from, bytes);
        driver.cuGraphAddMemcpyNode(node, graph, before, count, (&raw const copy).cast(), current(driver)?)
    }

    // cudaMemsetParams is laid out as the driver's structure.
    fn cudaGraphAddMemsetNode(node: *mut Handle, graph: Handle, before: *const Handle, count: usize,
        parameters: *const c_void) = with_context |driver| {
        driver.cuGraphAddMemsetNode(node, graph, before, count, parameters, current(driver)?)
    }

    fn cudaGraphAddChildGraphNode(node: *mut Handle, graph: Handle, before: *const Handle, count: usize,
        child: Handle) = with_driver |driver| {
        driver.cuGraphAddChildGraphNode(node, graph, before, count, child)
    }

    // cudaMemAllocNodeParams is laid out as the driver's structure.
    fn cudaGraphAddMemAllocNode(node: *mut Handle, graph: Handle, before: *const Handle, count: usize,
        parameters: *mut c_void) = with_context |driver| {
        driver.cuGraphAddMemAllocNode(node, graph, before, count, parameters)
    }

    fn cudaGraphAddMemFreeNode(node: *mut Handle, graph: Handle, before: *const Handle, count: usize,
        block: *mut c_void) = with_context |driver| {
        driver.cuGraphAddMemFreeNode(node, graph, before, count, block as DevicePtr)
    }

    fn cudaDeviceGetGraphMemAttribute(device: c_int, attribute: c_int, value: *mut c_void) = with_driver |driver| {
        driver.cuDeviceGetGraphMemAttribute(device, attribute, value)
    }

    fn cudaDeviceSetGraphMemAttribute(device: c_int, attribute: c_int, value: *mut c_void) = with_driver |driver| {
        driver.cuDeviceSetGraphMemAttribute(device, attribute, value)
    }

    fn cudaDeviceGraphMemTrim(device: c_int) = with_driver |driver| {
        driver.cuDeviceGraphMemTrim(device)
    }

    fn cudaGraphExecKernelNodeSetParams(exec: Handle, node: Handle, parameters: *const KernelNode)
        = with_context |driver| {
        let parameters = kernel_node(driver, parameters)?;
        driver.cuGraphExecKernelNodeSetParams(exec, node, (&raw const parameters).cast())
    }

    fn cudaGraphExecMemcpyNodeSetParams(exec: Handle, node: Handle, copy: *const Copy3D) = with_context |driver| {
        let copy = copy.as_ref().ok_or(INVALID_VALUE)?.of_driver(driver)?;
        driver.cuGraphExecMemcpyNodeSetParams(exec, node, (&raw const copy).cast(), current(driver)?)
    }

    fn cudaGraphExecMemcpyNodeSetParams1D(exec: Handle, node: Handle, to: *mut c_void, from: *const c_void, bytes: usize,
        _kind: c_int) = with_context |driver| {
        let copy = linear(to, from, bytes);
        driver.cuGraphExecMemcpyNodeSetParams(exec, node, (&raw const copy).cast(), current(driver)?)
    }

    fn cudaGraphExecMemsetNodeSetParams(exec: Handle, node: Handle, parameters: *const c_void) = with_context |driver| {
        driver.cuGraphExecMemsetNodeSetParams(exec, node, parameters, current(driver)?)
    }

    fn cudaGraphExecChildGraphNodeSetParams(exec: Handle, node: Handle, child: Handle) = with_driver |driver| {
        driver.cuGraphExecChildGraphNodeSetParams(exec, node, child)
    }

    // The signature of CUDA 12; the structure is the driver's.
    fn cudaGraphExecUpdate(exec: Handle, graph: Handle, info: *mut c_void) = with_context |driver| {
        driver.cuGraphExecUpdate(exec, graph, info)
    }

    fn cudaGraphNodeSetEnabled(exec: Handle, node: Handle, enabled: c_uint) = with_driver |driver| {
        driver.cuGraphNodeSetEnabled(exec, node, enabled)
    }

    fn cudaGraphNodeGetEnabled(exec: Handle, node: Handle, enabled: *mut c_uint) = with_driver |driver| {
        driver.cuGraphNodeGetEnabled(exec, node, enabled)
    }

    fn cudaGraphExecGetFlags(exec: Handle, flags: *mut u64) = with_driver |driver| {
        driver.cuGraphExecGetFlags(exec, flags)
    }

    fn cudaGraphExecHostNodeSetParams(exec: Handle, node: Handle, host: *const c_void) = with_driver |driver| {
        driver.cuGraphExecHostNodeSetParams(exec, node, host)
    }

    fn cudaGraphExecEventRecordNodeSetEvent(exec: Handle, node: Handle, event: Handle) = with_driver |driver| {
        driver.cuGraphExecEventRecordNodeSetEvent(exec, node, event)
    }

    fn cudaGraphExecEventWaitNodeSetEvent(exec: Handle, node: Handle, event: Handle) = with_driver |driver| {
        driver.cuGraphExecEventWaitNodeSetEvent(exec, node, event)
    }

    fn cudaGraphExecMemcpyNodeSetParamsToSymbol(exec: Handle, node: Handle, to: *const c_void, from: *const c_void,
        bytes: usize, offset: usize, _kind: c_int) = with_context |driver| {
        let copy = linear(symbol(driver, to, bytes, offset)? as *mut c_void, from, bytes);
        driver.cuGraphExecMemcpyNodeSetParams(exec, node, (&raw const copy).cast(), current(driver)?)
    }

    fn cudaGraphExecMemcpyNodeSetParamsFromSymbol(exec: Handle, node: Handle, to: *mut c_void, from: *const c_void,
        bytes: usize, offset: usize, _kind: c_int) = with_context |driver| {
        let copy = linear(to, symbol(driver, from, bytes, offset)? as *const c_void, bytes);
        driver.cuGraphExecMemcpyNodeSetParams(exec, node, (&raw const copy).cast(), current(driver)?)
    }

    fn cudaUserObjectCreate(object: *mut Handle, pointer: *mut c_void, destroy: *mut c_void, references: c_uint,
        flags: c_uint) = with_driver |driver| {
        driver.cuUserObjectCreate(object, pointer, destroy, references, flags)
    }

    fn cudaUserObjectRetain(object: Handle, count: c_uint) = with_driver |driver| {
        driver.cuUserObjectRetain(object, count)
    }

    fn cudaUserObjectRelease(object: Handle, count: c_uint) = with_driver |driver| {
        driver.cuUserObjectRelease(object, count)
    }

    fn cudaGraphRetainUserObject(graph: Handle, object: Handle, count: c_uint, flags: c_uint) = with_driver |driver| {
        driver.cuGraphRetainUserObject(graph, object, count, flags)
    }

    fn cudaGraphReleaseUserObject(graph: Handle, object: Handle, count: c_uint) = with_driver |driver| {
        driver.cuGraphReleaseUserObject(graph, object, count)
    }

    fn cudaGraphExecDestroy(exec: Handle) = with_driver |driver| {
        driver.cuGraphExecDestroy(exec)
    }

    fn cudaGraphDebugDotPrint(graph: Handle, path: *const c_char, flags: c_uint) = with_driver |driver| {
        driver.cuGraphDebugDotPrint(graph, path, flags)
    }
}

export_on_stream! {
    fn cudaGraphInstantiateWithParams, cudaGraphInstantiateWithParams_ptsz(exec: *mut Handle, graph: Handle,
        parameters: *mut c_void) = with_context |driver, default| {
        driver.cuGraphInstantiateWithParams(default, exec, graph, parameters)
    }

    fn cudaGraphUpload, cudaGraphUpload_ptsz(exec: Handle, stream: Handle) = with_context |driver, default| {
        driver.cuGraphUpload(default, exec, stream)
    }

    fn cudaGraphLaunch, cudaGraphLaunch_ptsz(exec: Handle, stream: Handle) = with_context |driver, default| {
        driver.cuGraphLaunch(default, exec, stream)
    }
}
