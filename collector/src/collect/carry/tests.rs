//! What the next trace of a process begins with, after records that are known.

use super::*;
use crate::trace::record::{
    Alloc, Api, Call, ClockSample, Context, Device, Free, Graph, KernelFacts, NvtxRange, Stream, ThreadTime,
};
use gpuspy_wire::record::{Memory, NodeKind, NvtxChange, flag};

fn carried(bodies: Vec<Body>) -> Vec<Body> {
    let mut carry = Carry::default();
    for (at, body) in (1..).zip(bodies) {
        carry.observe(&Record { thread: 1, at, body });
    }
    let records: Vec<Record> = carry.records(99).collect();
    assert!(records.iter().all(|record| record.at == 99));
    assert!(
        records.iter().filter_map(|record| record.body.call()).all(|call| (call.begin, call.end) == (99, 99))
    );
    records.into_iter().map(|record| record.body).collect()
}

fn alloc(memory: Memory, address: u64, bytes: u64, pool: u64) -> Body {
    let call = Call { context: 1, ..Call::default() };
    Body::Alloc(Alloc { call, memory, address, bytes, stream: 0, pool })
}

fn free(memory: Memory, address: u64, correlation: u64) -> Body {
    let call = Call { context: 1, correlation, ..Call::default() };
    Body::Free(Free { call, memory, address, stream: 0, bytes: 0 })
}

fn ended(correlation: u64, flags: u16) -> Body {
    let call = Call { correlation, flags, ..Call::default() };
    Body::Api(Api { call, result: 0, subject: 0, calls: 1, inside: 0, entered: 0 })
}

fn context(context: u32, destroyed: bool) -> Body {
    Body::Context(Context { context, device: 0, handle: 5, destroyed })
}

fn stream(stream: u64, destroyed: bool) -> Body {
    Body::Stream(Stream { stream, handle: 7, context: 1, flags: 0, priority: 0, destroyed })
}

fn device() -> Body {
    Body::Device(Device {
        ordinal: 0,
        uuid: [7; 16],
        memory_bytes: 1 << 30,
        multiprocessors: 132,
        capability: 90,
        warps_per_multiprocessor: 64,
    })
}

fn sample(context: u32, time_base: u32) -> Body {
    let (gpu, error, after, before) = (5, 0, 10, 20);
    Body::ClockSample(ClockSample { context, time_base, gpu, error, after, before })
}

fn facts(kernel: u32) -> Body {
    Body::KernelFacts(KernelFacts { kernel, context: 1, ..KernelFacts::default() })
}

fn range(change: NvtxChange, text: u32) -> Body {
    let id = u64::from(text);
    Body::NvtxRange(NvtxRange { change, id, domain: 0, text, category: 0, color: 0, payload: false })
}

fn addresses(bodies: &[Body]) -> Vec<u64> {
    let addresses = bodies.iter().filter_map(|body| match body {
        Body::Alloc(alloc) => Some(alloc.address),
        _ => None,
    });
    addresses.collect()
}

#[test]
fn what_is_destroyed_or_freed_is_not_carried() {
    let kept = carried(vec![
        context(1, false),
        context(2, false),
        stream(3, false),
        stream(4, false),
        alloc(Memory::Device, 64, 8, 0),
        alloc(Memory::Device, 128, 8, 0),
        stream(3, true),
        context(2, true),
        free(Memory::Device, 64, 11),
        ended(11, 0),
    ]);
    assert_eq!(kept.len(), 3, "{kept:?}");
    assert_eq!((&kept[0], &kept[1]), (&context(1, false), &stream(4, false)));
    assert_eq!(addresses(&kept), [128]);
}

#[test]
fn the_end_of_a_context_takes_its_streams_and_its_memory_with_it() {
    let kept = carried(vec![
        context(1, false),
        stream(3, false),
        alloc(Memory::Device, 64, 8, 0),
        alloc(Memory::Pool, 128, 8, 0),
        context(1, true),
    ]);
    assert_eq!((kept.len(), addresses(&kept)), (1, vec![128]), "pools are the device's");
}

#[test]
fn a_block_is_back_when_its_free_failed() {
    let both = [alloc(Memory::Device, 64, 8, 0), free(Memory::Device, 64, 11)];
    assert_eq!(addresses(&carried([&both[..], &[ended(11, flag::FAILED)]].concat())), [64]);
    assert_eq!(addresses(&carried([&both[..], &[ended(11, 0)]].concat())), [0; 0]);
}

/// It counts where it returns: both the block and the free are carried, and the return follows.
#[test]
fn a_free_that_has_not_returned_is_carried() {
    let kept = carried(vec![alloc(Memory::Device, 64, 8, 0), free(Memory::Device, 64, 11)]);
    assert_eq!((kept.len(), addresses(&kept)), (2, vec![64]));
    assert!(matches!(&kept[1], Body::Free(free) if free.call.correlation == 11), "{kept:?}");
}

#[test]
fn released_physical_memory_is_carried_while_it_is_mapped() {
    let mapped = [
        alloc(Memory::Reserved, 5, 4096, 0),
        alloc(Memory::Mapped, 64, 4096, 5),
        free(Memory::Reserved, 5, 11),
    ];
    let kept = carried(mapped.to_vec());
    assert_eq!(addresses(&kept), [5, 64]);
    assert!(matches!(&kept[2], Body::Free(free) if free.address == 5), "{kept:?}");
    let unmapped = [&mapped[..], &[ended(11, 0), free(Memory::Mapped, 64, 12), ended(12, 0)]].concat();
    assert_eq!(carried(unmapped), []);
    assert!(
        matches!(&kept[3], Body::Api(api) if api.call.api == 0 && api.call.correlation == 11),
        "{kept:?}"
    );
    let not_released = [&mapped[..], &[ended(11, flag::FAILED)]].concat();
    assert_eq!(carried(not_released).len(), 2);
}

#[test]
fn open_ranges_are_carried() {
    use NvtxChange::{End, Push, Start};
    let kept = carried(vec![range(Push, 1), range(Start, 4), range(Start, 5), range(End, 4)]);
    assert_eq!(kept, [range(Push, 1), range(Start, 5)]);
}

#[test]
fn an_updated_graph_takes_the_place_of_what_it_was() {
    let graph = |graph| Body::Graph(Graph { graph, handle: 9, kernels: 1, copies: 0, memsets: 0, others: 0 });
    let node = |graph, kernel| {
        let kind = NodeKind::Kernel;
        Body::GraphNode(GraphNode { graph, kind, kernel, count: 1, bytes: 0, address: 0 })
    };
    let kept = carried(vec![graph(1), node(1, 10), graph(2), node(2, 20), node(1, 11), node(2, 21)]);
    assert_eq!(kept, [graph(2), node(2, 20), node(2, 21)]);
}

/// Each allocation of imported memory is another reference to it, and a free takes one.
#[test]
fn the_allocations_of_all_blocks_are_bounded() {
    let most = 1 << 18;
    let mut records: Vec<Body> =
        (0..most + 10).map(|at| alloc(Memory::Imported, 64 * (1 + at % 3), 8, 0)).collect();
    assert_eq!(carried(records.clone()).len(), most as usize);
    records.extend([free(Memory::Imported, 64, 11), ended(11, 0), alloc(Memory::Device, 4096, 8, 0)]);
    let kept = addresses(&carried(records));
    assert_eq!((kept.len(), kept.contains(&4096)), (most as usize, true), "a free makes place");
}

#[test]
fn of_too_much_the_oldest_is_forgotten() {
    let streams = (0..MOST as u64 + 10).map(|number| stream(number, false)).collect();
    let kept = carried(streams);
    assert_eq!((kept.len(), &kept[0]), (MOST, &stream(10, false)));
}

/// Where work is sparse, a time base begins every 17 s. Each was carried to the end of the run, and in the end nothing else.
#[test]
fn the_latest_samples_of_a_clock_are_carried_whatever_their_time_bases() {
    let first = vec![device(), context(1, false), stream(3, false)];
    let samples = |time_bases: std::ops::Range<u32>| time_bases.map(|time_base| sample(1, time_base));
    let kept = carried(first.iter().cloned().chain(samples(0..300_000)).collect());
    let expected: Vec<Body> = first.into_iter().chain(samples(299_996..300_000)).collect();
    assert_eq!(kept, expected);
}

#[test]
fn the_clock_and_the_kernels_of_a_context_end_with_it() {
    let of_both = vec![context(1, false), sample(1, 1), facts(4), sample(2, 1), context(1, true)];
    assert_eq!(carried(of_both), [sample(2, 1)]);
}

/// The oldest were forgotten first: devices, contexts and modules, without which the rest means nothing.
#[test]
fn devices_contexts_and_streams_outlive_what_there_is_much_of() {
    let first = [device(), context(1, false), stream(3, false)];
    let kernels = (0..MOST as u32 + 10).map(facts);
    let kept = carried(first.iter().cloned().chain(kernels).collect());
    assert_eq!((kept.len(), &kept[..3]), (MOST, &first[..]));
    assert_eq!((&kept[3], kept.last()), (&facts(13), Some(&facts(MOST as u32 + 9))));
}

#[test]
fn a_thread_that_has_ended_is_not_carried() {
    let time = Body::ThreadTime(ThreadTime { ran: 5, queued: 6, late: 7 });
    let mut carry = Carry::default();
    (1..=2).for_each(|thread| {
        carry.observe(&Record { thread, at: 1, body: time.clone() });
    });
    carry.thread_ended(1);
    assert_eq!(carry.records(99).map(|record| record.thread).collect::<Vec<_>>(), [2]);
}

/// Each thread that ever was left its name, until there was no room for those of new kernels.
#[test]
fn names_of_threads_that_have_ended_make_room() {
    let mut carry = Carry::default();
    let most = (MOST_NAME_BYTES / NAME_BYTES) as u32;
    for thread in 0..most + 10 {
        carry.name(Namespace::Thread, thread, "request");
        carry.thread_ended(thread);
    }
    carry.name(Namespace::Kernel, 1, "kernel");
    assert_eq!(carry.names().collect::<Vec<_>>(), [(Namespace::Kernel, 1, "kernel")]);
}

/// They were open in each later window, and after 65 536 of them no range of other threads was.
#[test]
fn ranges_that_a_thread_left_open_end_with_it() {
    let mut carry = Carry::default();
    for (thread, text) in [(1, 1), (2, 2), (2, 3)] {
        carry.observe(&Record { thread, at: 1, body: range(NvtxChange::Push, text) });
    }
    carry.observe(&Record { thread: 2, at: 1, body: range(NvtxChange::Start, 4) });
    carry.thread_ended(2);
    let texts: Vec<u32> = carry.texts().collect();
    assert_eq!(texts, [1, 4], "any thread ends what was started");
}

#[test]
fn names_are_carried_and_their_bytes_are_bounded() {
    let mut carry = Carry::default();
    carry.name(Namespace::Kernel, 1, "a");
    carry.name(Namespace::Kernel, 1, "kernel");
    let much = "x".repeat(MOST_NAME_BYTES / 4);
    (2..20).for_each(|id| carry.name(Namespace::Kernel, id, &much));
    let names: Vec<(Namespace, u32, &str)> = carry.names().collect();
    assert_eq!((names[0], names.len()), ((Namespace::Kernel, 1, "kernel"), 4));
}

#[test]
fn only_texts_of_open_ranges_are_carried() {
    use NvtxChange::{Pop, Push};
    let mut carry = Carry::default();
    carry.name(Namespace::Kernel, 1, "kernel");
    for (id, text) in [(1, "epoch"), (2, "step 1"), (3, "step 2")] {
        carry.name(Namespace::NvtxRange, id, text);
    }
    for body in [range(Push, 1), range(Push, 2), range(Pop, 0)] {
        carry.observe(&Record { thread: 1, at: 5, body });
    }
    let open: HashSet<u32> = carry.texts().collect();
    carry.keep_texts(&open);
    let names: Vec<(Namespace, u32, &str)> = carry.names().collect();
    assert_eq!(names, [(Namespace::Kernel, 1, "kernel"), (Namespace::NvtxRange, 1, "epoch")]);
    assert_eq!(carry.name_bytes, "kernel".len() + "epoch".len() + 2 * NAME_BYTES);
}

/// Only the bytes of texts were counted, so that a program could give any number of empty ones.
#[test]
fn names_without_a_text_are_bounded_too() {
    let mut carry = Carry::default();
    let most = (MOST_NAME_BYTES / NAME_BYTES) as u32;
    (0..most + 10).for_each(|id| carry.name(Namespace::Kernel, id, ""));
    assert_eq!(carry.names().count(), most as usize);
}
