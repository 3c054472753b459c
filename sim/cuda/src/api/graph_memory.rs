//! Nodes that allocate and free memory, and the memory that a device reserves for graphs.

use super::device::ordinal;
use crate::call::Call;
use crate::error::{INVALID_HANDLE, INVALID_VALUE, Outcome};
use crate::export::exports;
use crate::graph::NodeWork;
use crate::graph_memory::{Access, Requested};
use crate::handle::Handle;
use crate::parameter::{In, InOut, Out, Pointer, Slice};
use crate::work::Work;

exports! {
    cuGraphAddMemAllocNode => add_alloc(node: Out<Handle>, graph: Handle, before[count]: Slice<Handle>, count: usize, parameters: InOut<AllocParameters>);
    cuGraphMemAllocNodeGetParams => get_alloc(node: Handle, parameters: Out<AllocParameters>);
    cuGraphAddMemFreeNode => add_free(node: Out<Handle>, graph: Handle, before[count]: Slice<Handle>, count: usize, address: u64);
    cuGraphMemFreeNodeGetParams => get_free(node: Handle, address: Out<u64>);
    cuDeviceGetGraphMemAttribute => get_attribute(device: i32, attribute: u32, value: Out<u64>);
    cuDeviceSetGraphMemAttribute => set_attribute(device: i32, attribute: u32, value: In<u64>);
    cuDeviceGraphMemTrim => trim(device: i32);
}

/// `CUDA_MEM_ALLOC_NODE_PARAMS` of cuda.h.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct AllocParameters {
    pool: [u64; 11],
    access: Pointer<Access>,
    accesses: usize,
    bytes: usize,
    address: u64,
}

const _: () = assert!(size_of::<AllocParameters>() == 120);

fn add_alloc(
    call: &mut Call,
    node: Out<Handle>,
    graph: Handle,
    before: Slice<Handle>,
    _: usize,
    parameters: InOut<AllocParameters>,
) -> Outcome {
    let mut given = parameters.get();
    let made = add_take(call, graph, &before, &mut given)?;
    parameters.put(given);
    node.put(made);
    Ok(())
}

/// Adds a node that allocates memory, and writes its address to the parameters.
pub fn add_take(
    call: &mut Call,
    graph: Handle,
    before: &[Handle],
    given: &mut AllocParameters,
) -> Outcome<Handle> {
    // SAFETY: cuda.h's promise: `accesses` descriptors.
    let access = unsafe { given.access.list(given.accesses) }?;
    let wanted = Requested { pool: given.pool, access: Box::from(&*access), bytes: given.bytes as u64 };
    let (made, address) = call.lock().add_take(call, graph, before.to_vec(), wanted)?;
    given.address = address;
    Ok(made)
}

fn add_free(
    call: &mut Call,
    node: Out<Handle>,
    graph: Handle,
    before: Slice<Handle>,
    _: usize,
    address: u64,
) -> Outcome {
    node.put(call.lock().add_give(call, graph, before.to_vec(), address)?);
    Ok(())
}

fn get_alloc(call: &mut Call, node: Handle, parameters: Out<AllocParameters>) -> Outcome {
    let state = call.lock();
    let NodeWork::One(Work::Take(block)) = state.nodes.get(node).ok_or(INVALID_HANDLE)?.work else {
        return Err(INVALID_VALUE);
    };
    let block = state.graph_memory.block(block).ok_or(INVALID_VALUE)?;
    let Requested { pool, ref access, bytes } = block.requested;
    let known = AllocParameters {
        pool,
        // SAFETY: the block's own list, which lives as long as the node.
        access: unsafe { Pointer::new(access.as_ptr()) },
        accesses: access.len(),
        bytes: bytes as usize,
        address: block.address,
    };
    parameters.put(known);
    Ok(())
}

fn get_free(call: &mut Call, node: Handle, address: Out<u64>) -> Outcome {
    let state = call.lock();
    let NodeWork::One(Work::Give(block)) = state.nodes.get(node).ok_or(INVALID_HANDLE)?.work else {
        return Err(INVALID_VALUE);
    };
    let known = state.graph_memory.block(block).ok_or(INVALID_VALUE)?.address;
    address.put(known);
    Ok(())
}

fn get_attribute(call: &mut Call, device: i32, attribute: u32, value: Out<u64>) -> Outcome {
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
    value.put(known);
    Ok(())
}

fn set_attribute(call: &mut Call, device: i32, attribute: u32, value: In<u64>) -> Outcome {
    let device = ordinal(device)?;
    let new = *value;
    let mut state = call.lock();
    let footprint = state.graph_memory.footprint(device);
    // cuda.h: the high watermarks can only be reset to zero; from then on they count from the current use.
    match attribute {
        1 if new == 0 => footprint.used.1 = footprint.used.0,
        3 if new == 0 => footprint.reserved.1 = footprint.reserved.0,
        _ => return Err(INVALID_VALUE),
    }
    Ok(())
}

fn trim(call: &mut Call, device: i32) -> Outcome {
    let device = ordinal(device)?;
    call.lock().trim_graph_memory(device);
    Ok(())
}
