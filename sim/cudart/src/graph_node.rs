//! Graph nodes of every type: adding them, and reading and setting their parameters.

use std::ffi::{c_int, c_void};
use std::ptr::null_mut;

use crate::device::runtime_version;
use crate::driver::{Driver, Handle};
use crate::error::{INVALID_VALUE, Result};
use crate::graph::{DriverKernelNode, KernelNode, current, kernel_node, linear};
use crate::kernel::stub;
use crate::shaped::{Copy3D, DriverCopy3D};
use crate::variable::symbol;

/// `cudaGraphNodeParams` and `CUgraphNodeParams`: a type and a union, of the same size in both APIs.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Parameters {
    kind: c_int,
    reserved: [c_int; 3],
    body: [u64; 29],
    reserved2: u64,
}

/// `cudaMemcpyNodeParams`: the copy has the same offset as in the driver's structure.
const BEFORE_COPY: usize = 2;

const _: () = assert!(size_of::<Parameters>() == 256);

/// `cudaGraphNodeType` of the types that the two APIs describe differently.
const KERNEL: c_int = 0;
const MEMCPY: c_int = 1;
const MEMSET: c_int = 2;
const HOST: c_int = 3;

/// `cudaKernelFunctionTypeKernel` and `cudaKernelFunctionTypeFunction`: a kernel or a function of the driver's.
const OF_KERNEL: u64 = 2;
const OF_FUNCTION: u64 = 3;

impl Parameters {
    /// The application's parameters.
    unsafe fn given(parameters: *const Parameters) -> Result<Parameters> {
        // SAFETY: null or the application's structure.
        unsafe { parameters.as_ref() }.copied().ok_or(INVALID_VALUE)
    }

    /// Converts them to the driver's. CUDA 12's structures end where CUDA 13's continue with a context, which the
    /// driver's also have; null there means the current context.
    unsafe fn of_driver(self, driver: &Driver) -> Result<Parameters> {
        let mut known = Parameters { body: [0; 29], ..self };
        let is_13 = runtime_version() >= 13000;
        let body = self.body.as_ptr();
        // SAFETY: the union's member is what `kind` says; none is larger than the body, of either API.
        unsafe {
            match self.kind {
                KERNEL => {
                    let (context, kind) = if is_13 { (self.body[7], self.body[8] as u32) } else { (0, 0) };
                    let mut node = match u64::from(kind) {
                        OF_KERNEL | OF_FUNCTION => DriverKernelNode::of_driver(&*body.cast::<KernelNode>()),
                        _ => kernel_node(driver, body.cast())?,
                    };
                    if u64::from(kind) == OF_KERNEL {
                        (node.kernel, node.first.func) = (node.first.func.cast_mut(), null_mut());
                    }
                    node.context = context as Handle;
                    known.body.as_mut_ptr().cast::<DriverKernelNode>().write(node);
                }
                MEMCPY => {
                    let copy = (*body.add(BEFORE_COPY).cast::<Copy3D>()).of_driver(driver)?;
                    known.body[1] = current(driver)? as u64;
                    known.body.as_mut_ptr().add(BEFORE_COPY).cast::<DriverCopy3D>().write(copy);
                }
                MEMSET => {
                    known.body[..5].copy_from_slice(&self.body[..5]);
                    known.body[5] = if is_13 { self.body[5] } else { 0 };
                    if known.body[5] == 0 {
                        known.body[5] = current(driver)? as u64;
                    }
                }
                HOST => known.body[..2].copy_from_slice(&self.body[..2]),
                _ => known.body = self.body,
            }
        }
        Ok(known)
    }

    /// Returns the driver's results in them: the address of a node's memory, the bodies of a condition.
    unsafe fn answer(&self, parameters: *mut Parameters) {
        const ALLOCATION: c_int = 10;
        const CONDITIONAL: c_int = 13;
        if [ALLOCATION, CONDITIONAL].contains(&self.kind) {
            // SAFETY: the structure was read before.
            unsafe { (*parameters).body = self.body };
        }
    }
}

impl DriverKernelNode {
    /// The parameters of a node whose function is already a driver handle.
    fn of_driver(node: &KernelNode) -> DriverKernelNode {
        DriverKernelNode { first: node.clone(), kernel: null_mut(), context: null_mut() }
    }
}

/// Adds a node of any type. Edge data needs a driver that supports it.
unsafe fn add(
    driver: &Driver,
    node: *mut Handle,
    graph: Handle,
    before: *const Handle,
    edges: Option<*const u64>,
    count: usize,
    parameters: *mut Parameters,
) -> Result {
    // SAFETY: the caller's.
    unsafe {
        let mut known = Parameters::given(parameters)?.of_driver(driver)?;
        let place = (&raw mut known).cast();
        match edges {
            None => driver.cuGraphAddNode(node, graph, before, count, place)?,
            Some(edges) => driver.cuGraphAddNode_v2(node, graph, before, edges, count, place)?,
        }
        known.answer(parameters);
    }
    Ok(())
}

export! {
    // CUDA 12: node, graph, nodes, count, parameters; CUDA 13: as `_v2` of CUDA 12.
    fn cudaGraphAddNode(node: *mut Handle, graph: Handle, before: *const Handle, fourth: usize, fifth: usize, sixth: usize)
        = with_context |driver| {
        if runtime_version() < 13000 {
            return add(driver, node, graph, before, None, fourth, fifth as *mut Parameters);
        }
        add(driver, node, graph, before, Some(fourth as *const u64), fifth, sixth as *mut Parameters)
    }

    fn cudaGraphAddNode_v2(node: *mut Handle, graph: Handle, before: *const Handle, edges: *const u64, count: usize,
        parameters: *mut Parameters) = with_context |driver| {
        add(driver, node, graph, before, Some(edges), count, parameters)
    }

    fn cudaGraphNodeSetParams(node: Handle, parameters: *mut Parameters) = with_context |driver| {
        let mut known = Parameters::given(parameters)?.of_driver(driver)?;
        driver.cuGraphNodeSetParams(node, (&raw mut known).cast())
    }

    fn cudaGraphExecNodeSetParams(exec: Handle, node: Handle, parameters: *mut Parameters) = with_context |driver| {
        let mut known = Parameters::given(parameters)?.of_driver(driver)?;
        driver.cuGraphExecNodeSetParams(exec, node, (&raw mut known).cast())
    }

    fn cudaGraphAddMemcpyNode(node: *mut Handle, graph: Handle, before: *const Handle, count: usize, copy: *const Copy3D)
        = with_context |driver| {
        let copy = copy.as_ref().ok_or(INVALID_VALUE)?.of_driver(driver)?;
        driver.cuGraphAddMemcpyNode(node, graph, before, count, (&raw const copy).cast(), current(driver)?)
    }

    fn cudaGraphAddMemcpyNodeToSymbol(node: *mut Handle, graph: Handle, before: *const Handle, count: usize,
        to: *const c_void, from: *const c_void, bytes: usize, offset: usize, _kind: c_int) = with_context |driver| {
        let copy = linear(symbol(driver, to, bytes, offset)? as *mut c_void, from, bytes);
        driver.cuGraphAddMemcpyNode(node, graph, before, count, (&raw const copy).cast(), current(driver)?)
    }

    fn cudaGraphAddMemcpyNodeFromSymbol(node: *mut Handle, graph: Handle, before: *const Handle, count: usize,
        to: *mut c_void, from: *const c_void, bytes: usize, offset: usize, _kind: c_int) = with_context |driver| {
        let copy = linear(to, symbol(driver, from, bytes, offset)? as *const c_void, bytes);
        driver.cuGraphAddMemcpyNode(node, graph, before, count, (&raw const copy).cast(), current(driver)?)
    }

    // cudaHostNodeParams is laid out as the driver's structure.
    fn cudaGraphAddHostNode(node: *mut Handle, graph: Handle, before: *const Handle, count: usize, host: *const c_void)
        = with_driver |driver| { driver.cuGraphAddHostNode(node, graph, before, count, host) }

    fn cudaGraphAddEmptyNode(node: *mut Handle, graph: Handle, before: *const Handle, count: usize)
        = with_driver |driver| { driver.cuGraphAddEmptyNode(node, graph, before, count) }

    fn cudaGraphAddEventRecordNode(node: *mut Handle, graph: Handle, before: *const Handle, count: usize, event: Handle)
        = with_driver |driver| { driver.cuGraphAddEventRecordNode(node, graph, before, count, event) }

    fn cudaGraphAddEventWaitNode(node: *mut Handle, graph: Handle, before: *const Handle, count: usize, event: Handle)
        = with_driver |driver| { driver.cuGraphAddEventWaitNode(node, graph, before, count, event) }

    // The function is reported by the pointer that the application uses for it.
    fn cudaGraphKernelNodeGetParams(node: Handle, parameters: *mut KernelNode) = with_context |driver| {
        let mut known = std::mem::MaybeUninit::<DriverKernelNode>::zeroed();
        driver.cuGraphKernelNodeGetParams(node, known.as_mut_ptr().cast())?;
        let DriverKernelNode { first, .. } = known.assume_init();
        let parameters = parameters.as_mut().ok_or(INVALID_VALUE)?;
        parameters.clone_from(&first);
        parameters.func = stub(first.func.cast_mut());
        Ok(())
    }

    fn cudaGraphKernelNodeSetParams(node: Handle, parameters: *const KernelNode) = with_context |driver| {
        let parameters = kernel_node(driver, parameters)?;
        driver.cuGraphKernelNodeSetParams(node, (&raw const parameters).cast())
    }

    fn cudaGraphKernelNodeGetAttribute(node: Handle, attribute: c_int, value: *mut c_void) = with_driver |driver| {
        driver.cuGraphKernelNodeGetAttribute(node, attribute, value)
    }

    fn cudaGraphKernelNodeSetAttribute(node: Handle, attribute: c_int, value: *const c_void) = with_driver |driver| {
        driver.cuGraphKernelNodeSetAttribute(node, attribute, value)
    }

    // The header names the parameters source and destination; its text has them the other way round, as the driver
    // does.
    fn cudaGraphKernelNodeCopyAttributes(to: Handle, from: Handle) = with_driver |driver| {
        driver.cuGraphKernelNodeCopyAttributes(to, from)
    }

    fn cudaGraphMemcpyNodeGetParams(node: Handle, copy: *mut Copy3D) = with_context |driver| {
        let mut known = std::mem::MaybeUninit::<DriverCopy3D>::zeroed();
        driver.cuGraphMemcpyNodeGetParams(node, known.as_mut_ptr().cast())?;
        *copy.as_mut().ok_or(INVALID_VALUE)? = Copy3D::of_runtime(driver, &known.assume_init())?;
        Ok(())
    }

    fn cudaGraphMemcpyNodeSetParams(node: Handle, copy: *const Copy3D) = with_context |driver| {
        let copy = copy.as_ref().ok_or(INVALID_VALUE)?.of_driver(driver)?;
        driver.cuGraphMemcpyNodeSetParams(node, (&raw const copy).cast())
    }

    fn cudaGraphMemcpyNodeSetParams1D(node: Handle, to: *mut c_void, from: *const c_void, bytes: usize, _kind: c_int)
        = with_context |driver| {
        let copy = linear(to, from, bytes);
        driver.cuGraphMemcpyNodeSetParams(node, (&raw const copy).cast())
    }

    fn cudaGraphMemcpyNodeSetParamsToSymbol(node: Handle, to: *const c_void, from: *const c_void, bytes: usize,
        offset: usize, _kind: c_int) = with_context |driver| {
        let copy = linear(symbol(driver, to, bytes, offset)? as *mut c_void, from, bytes);
        driver.cuGraphMemcpyNodeSetParams(node, (&raw const copy).cast())
    }

    fn cudaGraphMemcpyNodeSetParamsFromSymbol(node: Handle, to: *mut c_void, from: *const c_void, bytes: usize,
        offset: usize, _kind: c_int) = with_context |driver| {
        let copy = linear(to, symbol(driver, from, bytes, offset)? as *const c_void, bytes);
        driver.cuGraphMemcpyNodeSetParams(node, (&raw const copy).cast())
    }

    // cudaMemsetParams is laid out as the driver's structure.
    fn cudaGraphMemsetNodeGetParams(node: Handle, set: *mut c_void) = with_driver |driver| {
        driver.cuGraphMemsetNodeGetParams(node, set)
    }

    fn cudaGraphMemsetNodeSetParams(node: Handle, set: *const c_void) = with_context |driver| {
        driver.cuGraphMemsetNodeSetParams(node, set)
    }

    fn cudaGraphHostNodeGetParams(node: Handle, host: *mut c_void) = with_driver |driver| {
        driver.cuGraphHostNodeGetParams(node, host)
    }

    fn cudaGraphHostNodeSetParams(node: Handle, host: *const c_void) = with_driver |driver| {
        driver.cuGraphHostNodeSetParams(node, host)
    }

    fn cudaGraphChildGraphNodeGetGraph(node: Handle, graph: *mut Handle) = with_driver |driver| {
        driver.cuGraphChildGraphNodeGetGraph(node, graph)
    }

    fn cudaGraphEventRecordNodeGetEvent(node: Handle, event: *mut Handle) = with_driver |driver| {
        driver.cuGraphEventRecordNodeGetEvent(node, event)
    }

    fn cudaGraphEventRecordNodeSetEvent(node: Handle, event: Handle) = with_driver |driver| {
        driver.cuGraphEventRecordNodeSetEvent(node, event)
    }

    fn cudaGraphEventWaitNodeGetEvent(node: Handle, event: *mut Handle) = with_driver |driver| {
        driver.cuGraphEventWaitNodeGetEvent(node, event)
    }

    fn cudaGraphEventWaitNodeSetEvent(node: Handle, event: Handle) = with_driver |driver| {
        driver.cuGraphEventWaitNodeSetEvent(node, event)
    }

    fn cudaGraphMemAllocNodeGetParams(node: Handle, parameters: *mut c_void) = with_driver |driver| {
        driver.cuGraphMemAllocNodeGetParams(node, parameters)
    }

    fn cudaGraphMemFreeNodeGetParams(node: Handle, block: *mut c_void) = with_driver |driver| {
        driver.cuGraphMemFreeNodeGetParams(node, block)
    }
}
