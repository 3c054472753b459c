//! Occupancy queries.

use super::device::MULTIPROCESSORS;
use super::launch::LaunchConfig;
use crate::call::Call;
use crate::error::{INVALID_VALUE, Outcome};
use crate::export::exports;
use crate::handle::Handle;
use crate::parameter::{Out, Pointer};
use crate::resources::{Resources, SHARED_BYTES, SHARED_BYTES_OPTIN, SHARED_BYTES_RESERVED};
use crate::truth::{self, Escaped};

exports! {
    cuOccupancyMaxActiveBlocksPerMultiprocessor => active_blocks(blocks: Out<i32>, function: Handle, threads: i32, shared: usize);
    cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags => active_blocks_flags(blocks: Out<i32>, function: Handle, threads: i32, shared: usize, flags: u32);
    cuOccupancyMaxPotentialBlockSize => potential_block(grid: Out<i32>, block: Out<i32>, function: Handle, shared_of: Option<extern "C-unwind" fn(i32) -> usize>, shared: usize, limit: i32);
    cuOccupancyMaxPotentialBlockSizeWithFlags => potential_block_flags(grid: Out<i32>, block: Out<i32>, function: Handle, shared_of: Option<extern "C-unwind" fn(i32) -> usize>, shared: usize, limit: i32, flags: u32);
    cuOccupancyAvailableDynamicSMemPerBlock => available_shared(bytes: Out<usize>, function: Handle, blocks: i32, threads: i32);
    cuOccupancyMaxPotentialClusterSize | cuOccupancyMaxActiveClusters => clusters(count: Out<i32>, function: Handle, config: Pointer<LaunchConfig>);
}

/// Returns the resources of a kernel: a function of the current context, or a CUkernel (cuda.h,
/// cuOccupancyMaxActiveBlocksPerMultiprocessor: "casting to CUfunction", in "the current context").
fn resources(call: &Call, function: Handle) -> Outcome<Resources> {
    let mut state = call.lock();
    let function = state.function_here(function)?;
    state.resources(function)
}

fn active_blocks(
    call: &mut Call,
    blocks: Out<i32>,
    function: Handle,
    threads: i32,
    shared: usize,
) -> Outcome {
    active_blocks_flags(call, blocks, function, threads, shared, 0)
}

fn active_blocks_flags(
    call: &mut Call,
    blocks: Out<i32>,
    function: Handle,
    threads: i32,
    shared: usize,
    _: u32,
) -> Outcome {
    let takes = resources(call, function)?;
    if threads < 1 {
        return Err(INVALID_VALUE);
    }
    let known = takes.blocks_per_multiprocessor(threads.cast_unsigned(), clamped(shared));
    if truth::wanted() {
        let (api, state) = (call.api.name, call.lock());
        let name = Escaped(&state.kernel(function)?.name);
        truth::line(format_args!(
            "\"kind\":\"asked\",\"api\":\"{api}\",\"function\":{function},\"kernel\":\"{name}\",\"threads\":{threads},\
             \"shared\":{shared},\"value\":{known}"
        ));
    }
    blocks.put(known.cast_signed());
    Ok(())
}

fn clamped(bytes: usize) -> u32 {
    bytes.try_into().unwrap_or(u32::MAX)
}

fn potential_block(
    call: &mut Call,
    grid: Out<i32>,
    block: Out<i32>,
    function: Handle,
    shared_of: Option<extern "C-unwind" fn(i32) -> usize>,
    shared: usize,
    limit: i32,
) -> Outcome {
    potential_block_flags(call, grid, block, function, shared_of, shared, limit, 0)
}

#[allow(clippy::too_many_arguments)]
fn potential_block_flags(
    call: &mut Call,
    grid: Out<i32>,
    block: Out<i32>,
    function: Handle,
    shared_of: Option<extern "C-unwind" fn(i32) -> usize>,
    shared: usize,
    limit: i32,
    _: u32,
) -> Outcome {
    let takes = resources(call, function)?;
    // cuda.h: the callback decides if there is one; otherwise every size has the same shared memory.
    let shared_of = |threads: u32| clamped(shared_of.map_or(shared, |of| of(threads.cast_signed())));
    let (threads, blocks) = takes.best_block(limit.try_into().unwrap_or(0), shared_of);
    block.put(threads.cast_signed());
    grid.put(blocks.cast_signed() * MULTIPROCESSORS);
    Ok(())
}

fn available_shared(
    call: &mut Call,
    bytes: Out<usize>,
    function: Handle,
    blocks: i32,
    threads: i32,
) -> Outcome {
    let takes = resources(call, function)?;
    let (Ok(blocks @ 1..), Ok(threads @ 1..)) = (u32::try_from(blocks), u32::try_from(threads)) else {
        return Err(INVALID_VALUE);
    };
    // No document says what happens if this many blocks do not fit even without shared memory. The simulator refuses
    // it.
    if takes.blocks_per_multiprocessor(threads, 0) < blocks {
        return Err(INVALID_VALUE);
    }
    // A whole number of units is left for each block.
    let each = SHARED_BYTES / blocks / 128 * 128 - SHARED_BYTES_RESERVED;
    bytes.put((each.min(SHARED_BYTES_OPTIN) - takes.shared_bytes) as usize);
    Ok(())
}

fn clusters(call: &mut Call, count: Out<i32>, function: Handle, _: Pointer<LaunchConfig>) -> Outcome {
    resources(call, function)?;
    // 8 is the portable cluster size (CUDA programming guide, "Thread Block Clusters").
    count.put(8);
    Ok(())
}
