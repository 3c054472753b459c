//! What does a generated trace contain before its first work?

use super::super::record::*;
use super::{API_HOST_MALLOC, BEGAN, CALLER, CONTEXT, HOST_BLOCK, stream_of};
use gpuspy_wire::record::{Memory, Via};

const HOST_BLOCK_BYTES: u64 = 1 << 20;

/// The GPU, its context, a stream for each thread, and the host block of all copies.
pub(super) fn preamble(threads: u32, uuid: [u8; 16]) -> Vec<Record> {
    let record = |body| Record { thread: 0, at: BEGAN, body };
    let device = Device {
        ordinal: 0,
        uuid,
        memory_bytes: 80 << 30,
        multiprocessors: 132,
        capability: 90,
        warps_per_multiprocessor: 64,
    };
    let context = Context { context: CONTEXT, device: 0, handle: 0x5555_2000_0000, destroyed: false };
    let stream = |thread| {
        let stream = stream_of(thread);
        let handle = 0x5555_3000_0000 + stream;
        record(Body::Stream(Stream {
            stream,
            handle,
            context: CONTEXT,
            flags: 1,
            priority: 0,
            destroyed: false,
        }))
    };
    let call = Call {
        // No thread's count gets that far.
        correlation: (1 << 40) - 1,
        api: API_HOST_MALLOC,
        via: Some(Via::RuntimeDriver),
        flags: 0,
        begin: BEGAN - 1_000_000,
        end: BEGAN,
        caller: CALLER,
        context: CONTEXT,
        stack: 0,
    };
    let block = Alloc {
        call,
        memory: Memory::Pinned,
        address: HOST_BLOCK,
        bytes: HOST_BLOCK_BYTES,
        stream: 0,
        pool: 0,
    };
    let inventory = [record(Body::Device(device)), record(Body::Context(context))];
    inventory.into_iter().chain((0..threads).map(stream)).chain([record(Body::Alloc(block))]).collect()
}
