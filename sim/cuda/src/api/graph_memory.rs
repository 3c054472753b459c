//! Nodes that take and free memory, and what graphs hold of a device.

use super::capture::list;
use super::device::ordinal;
use super::put;
use crate::call::Call;
use crate::error::{INVALID_HANDLE, INVALID_VALUE, Outcome};
use crate::export::exports;
use crate::graph::NodeWork;
use crate::graph_memory::{Access, Asked};
use crate::handle::Handle;
use crate::work::Work;

exports! {
    cuGraphAddMemAllocNode => add_alloc(node: *mut Handle, graph: Handle, before: *const Handle, count: usize, parameters: *mut AllocParameters);
    cuGraphMemAllocNodeGetParams => get_alloc(node: Handle, parameters: *mut AllocParameters);
    cuGraphAddMemFreeNode => add_free(node: *mut Handle, graph: Handle, before: *const Handle, count: usize, address: u64);
    cuGraphMemFreeNodeGetParams => get_free(node: Handle, address: *mut u64);
    cuDeviceGetGraphMemAttribute => get_attribute(device: i32, attribute: u32, value: *mut u64);
    cuDeviceSetGraphMemAttribute => set_attribute(device: i32, attribute: u32, value: *const u64);
    cuDeviceGraphMemTrim => trim(device: i32);
}

/// `CUDA_MEM_ALLOC_NODE_PARAMS` of cuda.h.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct AllocParameters {
    pool: [u64; 11],
    access: *const Access,
    accesses: usize,
    bytes: usize,
    address: u64,
}

const _: () = assert!(size_of::<AllocParameters>() == 120);

/// Adds a node that takes memory.
///
/// # Safety
/// As cuda.h, cuGraphAddMemAllocNode, asks.
pub unsafe fn add_alloc(
    call: &mut Call,
    node: *mut Handle,
    graph: Handle,
    before: *const Handle,
    count: usize,
    parameters: *mut AllocParameters,
) -> Outcome {
    // SAFETY: the caller's.
    unsafe {
        let asked = parameters.as_mut().ok_or(INVALID_VALUE)?;
        let access = match asked.accesses {
            0 => Box::default(),
            _ if asked.access.is_null() => return Err(INVALID_VALUE),
            count => std::slice::from_raw_parts(asked.access, count).into(),
        };
        let before = list(before, count)?;
        let wanted = Asked { pool: asked.pool, access, bytes: asked.bytes as u64 };
        let (made, address) = call.lock().add_take(call, graph, before, wanted)?;
        asked.address = address;
        put(node, made)
    }
}

/// Adds a node that frees memory.
///
/// # Safety
/// As cuda.h, cuGraphAddMemFreeNode, asks.
pub unsafe fn add_free(
    call: &mut Call,
    node: *mut Handle,
    graph: Handle,
    before: *const Handle,
    count: usize,
    address: u64,
) -> Outcome {
    // SAFETY: the caller's.
    unsafe {
        let before = list(before, count)?;
        put(node, call.lock().add_give(call, graph, before, address)?)
    }
}

unsafe fn get_alloc(call: &mut Call, node: Handle, parameters: *mut AllocParameters) -> Outcome {
    let state = call.lock();
    let NodeWork::One(Work::Take(block)) = state.nodes.get(node).ok_or(INVALID_HANDLE)?.work else {
        return Err(INVALID_VALUE);
    };
    let block = state.graph_memory.block(block).ok_or(INVALID_VALUE)?;
    let Asked { pool, ref access, bytes } = block.asked;
    let known = AllocParameters {
        pool,
        access: access.as_ptr(),
        accesses: access.len(),
        bytes: bytes as usize,
        address: block.address,
    };
    // SAFETY: cuda.h's promise.
    unsafe { put(parameters, known) }
}

unsafe fn get_free(call: &mut Call, node: Handle, address: *mut u64) -> Outcome {
    let state = call.lock();
    let NodeWork::One(Work::Give(block)) = state.nodes.get(node).ok_or(INVALID_HANDLE)?.work else {
        return Err(INVALID_VALUE);
    };
    let known = state.graph_memory.block(block).ok_or(INVALID_VALUE)?.address;
    // SAFETY: cuda.h's promise.
    unsafe { put(address, known) }
}

unsafe fn get_attribute(call: &mut Call, device: i32, attribute: u32, value: *mut u64) -> Outcome {
    let device = ordinal(device)?;
    let footprint = *call.lock().graph_memory.footprint(device);
    // CUgraphMem_attribute.
    let known = match attribute {
        0 => footprint.used.0,
        1 => footprint.used.1,
        2 => footprint.reserved.0,
        3 => footprint.reserved.1,
        _ => return Err(INVALID_VALUE),
    };
    // SAFETY: cuda.h's promise: a cuuint64_t.
    unsafe { put(value, known) }
}

unsafe fn set_attribute(call: &mut Call, device: i32, attribute: u32, value: *const u64) -> Outcome {
    let device = ordinal(device)?;
    // SAFETY: cuda.h's promise: a cuuint64_t.
    let new = *unsafe { value.as_ref() }.ok_or(INVALID_VALUE)?;
    let mut state = call.lock();
    let footprint = state.graph_memory.footprint(device);
    // cuda.h: the high watermarks can only be reset to zero; what is there is the most since then.
    match attribute {
        1 if new == 0 => footprint.used.1 = footprint.used.0,
        3 if new == 0 => footprint.reserved.1 = footprint.reserved.0,
        _ => return Err(INVALID_VALUE),
    }
    Ok(())
}

unsafe fn trim(call: &mut Call, device: i32) -> Outcome {
    let device = ordinal(device)?;
    call.lock().trim_graph_memory(device);
    Ok(())
}
