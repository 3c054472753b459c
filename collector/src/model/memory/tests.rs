//! Tests of the model of memory.

use super::*;

const ONE: Allocator = Allocator { context: 1, thread: 1, stream: None, caller: 0, correlation: 0 };

fn alloc(memory: Memory, address: u64, bytes: u64) -> Alloc {
    Alloc { call: Call { context: 1, ..Call::default() }, memory, address, bytes, stream: 0, pool: 0 }
}

fn free(address: u64, correlation: u64) -> Free {
    Free {
        call: Call { correlation, context: 1, ..Call::default() },
        memory: Memory::Device,
        address,
        stream: 0,
        bytes: 0,
    }
}

fn end(correlation: u64, flags: u16) -> Api {
    Api {
        call: Call { correlation, flags, ..Call::default() },
        result: 0,
        subject: 0,
        calls: 1,
        inside: 0,
        entered: 0,
    }
}

#[test]
fn an_address_belongs_to_its_block_to_the_last_byte() {
    let mut blocks = Blocks::default();
    blocks.allocated(1, &alloc(Memory::Pinned, 100, 10));
    assert_eq!(blocks.kind_of(99), None);
    assert_eq!(blocks.kind_of(100), Some(Memory::Pinned));
    assert_eq!(blocks.kind_of(109), Some(Memory::Pinned));
    assert_eq!(blocks.kind_of(110), None);
}

#[test]
fn a_free_takes_the_kind_of_its_allocation() {
    let mut blocks = Blocks::default();
    blocks.allocated(1, &alloc(Memory::Managed, 100, 10));
    assert_eq!(
        blocks.freed(1, &free(100, 5)),
        [MemoryChange::Freed { memory: Memory::Managed, bytes: 10, of: ONE }]
    );
    assert_eq!(blocks.kind_of(100), None);
    assert!(blocks.call_ended(1, &end(5, 0)).is_empty());
}

#[test]
fn a_failed_free_is_taken_back_by_its_own_end_only() {
    let mut blocks = Blocks::default();
    blocks.allocated(1, &alloc(Memory::Device, 100, 10));
    blocks.freed(1, &free(100, 5));
    assert!(blocks.call_ended(2, &end(5, flag::FAILED)).is_empty(), "another thread's call");
    assert!(blocks.call_ended(1, &end(6, flag::FAILED)).is_empty(), "another call");
    let back = MemoryChange::FreeFailed { memory: Memory::Device, bytes: 10, of: ONE };
    assert_eq!(blocks.call_ended(1, &end(5, flag::FAILED)), [back]);
    assert_eq!(blocks.kind_of(105), Some(Memory::Device));
    assert!(blocks.call_ended(1, &end(5, flag::FAILED)).is_empty(), "once");
}

#[test]
fn freeing_null_or_an_unknown_address_changes_no_known_block() {
    let mut blocks = Blocks::default();
    assert!(blocks.freed(1, &free(0, 5)).is_empty());
    assert_eq!(
        blocks.freed(1, &free(64, 5)),
        [MemoryChange::Freed { memory: Memory::Device, bytes: 0, of: ONE }]
    );
}

#[test]
fn memory_goes_with_its_context() {
    let mut blocks = Blocks::default();
    blocks.allocated(1, &alloc(Memory::Device, 100, 10));
    blocks.allocated(
        1,
        &Alloc { call: Call { context: 2, ..Call::default() }, ..alloc(Memory::Device, 200, 20) },
    );
    let gone = MemoryChange::Vanished { memory: Memory::Device, bytes: 10, of: ONE };
    assert_eq!(blocks.context_destroyed(1), [gone]);
    assert_eq!((blocks.kind_of(100), blocks.kind_of(200)), (None, Some(Memory::Device)));
}

#[test]
fn a_lost_free_is_noticed_when_the_address_is_used_again() {
    let mut blocks = Blocks::default();
    blocks.allocated(1, &alloc(Memory::Device, 100, 10));
    blocks.allocated(1, &alloc(Memory::Device, 120, 10));
    let changes = blocks.allocated(1, &alloc(Memory::Device, 105, 20));
    assert_eq!(changes.len(), 3, "{changes:?}");
    assert_eq!(changes[2], MemoryChange::Allocated { memory: Memory::Device, bytes: 20, of: ONE });
    assert_eq!((blocks.kind_of(101), blocks.kind_of(124)), (None, Some(Memory::Device)));
}

#[test]
fn a_reservation_has_no_address() {
    let mut blocks = Blocks::default();
    blocks.allocated(1, &alloc(Memory::Reserved, 100, 10));
    assert_eq!(blocks.kind_of(100), None);
    let mut release = free(100, 5);
    release.memory = Memory::Reserved;
    assert_eq!(
        blocks.freed(1, &release),
        [MemoryChange::Freed { memory: Memory::Reserved, bytes: 10, of: ONE }]
    );
}

fn map(handle: u64, address: u64, bytes: u64) -> Alloc {
    Alloc { pool: handle, ..alloc(Memory::Mapped, address, bytes) }
}

fn unmap(address: u64, bytes: u64, correlation: u64) -> Free {
    Free { memory: Memory::Mapped, bytes, ..free(address, correlation) }
}

/// It was counted on the GPU whose context was current when it was mapped.
#[test]
fn physical_memory_is_on_its_own_gpu_whatever_context_maps_it() {
    let mut blocks = Blocks::default();
    let in_context = |context| Call { context, ..Call::default() };
    blocks.allocated(1, &Alloc { call: in_context(2), ..alloc(Memory::Reserved, 7, 10) });
    let of = Allocator { context: 2, ..ONE };
    let mapped = Alloc { call: in_context(1), ..map(7, 100, 10) };
    assert_eq!(
        blocks.allocated(1, &mapped),
        [MemoryChange::Allocated { memory: Memory::Mapped, bytes: 10, of }]
    );
    assert_eq!(
        blocks.freed(1, &unmap(100, 10, 1)),
        [MemoryChange::Freed { memory: Memory::Mapped, bytes: 10, of }]
    );
}

fn release(handle: u64, correlation: u64) -> Free {
    Free { memory: Memory::Reserved, ..free(handle, correlation) }
}

fn freed(memory: Memory, bytes: u64) -> MemoryChange {
    MemoryChange::Freed { memory, bytes, of: ONE }
}

fn came(memory: Memory, bytes: u64) -> MemoryChange {
    MemoryChange::Allocated { memory, bytes, of: ONE }
}

/// Physical memory of 10 bytes under handle 7, mapped at 100.
fn mapped_once() -> Blocks {
    let mut blocks = Blocks::default();
    assert_eq!(blocks.allocated(1, &alloc(Memory::Reserved, 7, 10)), [came(Memory::Reserved, 10)]);
    assert_eq!(blocks.allocated(1, &map(7, 100, 10)), [came(Memory::Mapped, 10)]);
    blocks
}

#[test]
fn physical_memory_goes_with_its_last_reference_or_mapping_whichever_is_last() {
    let mut first = mapped_once();
    assert_eq!(first.freed(1, &release(7, 1)), [], "it is mapped");
    assert_eq!(first.kind_of(105), Some(Memory::Mapped));
    assert_eq!(first.freed(1, &unmap(100, 10, 2)), [freed(Memory::Mapped, 10), freed(Memory::Reserved, 10)]);
    let mut second = mapped_once();
    assert_eq!(second.freed(1, &unmap(100, 10, 1)), [freed(Memory::Mapped, 10)]);
    assert_eq!(second.kind_of(105), None);
    assert_eq!(second.freed(1, &release(7, 2)), [freed(Memory::Reserved, 10)]);
}

#[test]
fn a_retained_handle_is_released_twice() {
    let mut blocks = mapped_once();
    assert_eq!(blocks.allocated(1, &alloc(Memory::Reserved, 7, 0)), []);
    blocks.freed(1, &unmap(100, 10, 1));
    assert_eq!(blocks.freed(1, &release(7, 2)), []);
    assert_eq!(blocks.freed(1, &release(7, 3)), [freed(Memory::Reserved, 10)]);
}

#[test]
fn memory_mapped_twice_is_taken_once() {
    let mut blocks = mapped_once();
    assert_eq!(blocks.allocated(1, &map(7, 200, 10)), [came(Memory::Mapped, 0)]);
    assert_eq!(blocks.freed(1, &unmap(100, 10, 1)), [freed(Memory::Mapped, 0)]);
    assert_eq!((blocks.kind_of(105), blocks.kind_of(205)), (None, Some(Memory::Mapped)));
    assert_eq!(blocks.freed(1, &unmap(200, 10, 2)), [freed(Memory::Mapped, 10)]);
}

#[test]
fn mapped_bytes_belong_to_the_first_mapping() {
    let mut blocks = Blocks::default();
    let by = |caller| Allocator { caller, ..ONE };
    let map = |handle, address, caller| {
        let mut alloc = map(handle, address, 10);
        alloc.call.caller = caller;
        alloc
    };
    blocks.allocated(1, &alloc(Memory::Reserved, 7, 10));
    blocks.allocated(1, &map(7, 100, 1));
    blocks.allocated(1, &map(7, 200, 2));
    blocks.freed(1, &release(7, 1));
    blocks.freed(1, &unmap(100, 10, 2));
    let last = [
        MemoryChange::Freed { memory: Memory::Mapped, bytes: 10, of: by(1) },
        MemoryChange::Freed { memory: Memory::Reserved, bytes: 10, of: by(2) },
    ];
    assert_eq!(blocks.freed(1, &unmap(200, 10, 3)), last);
    let back = MemoryChange::FreeFailed { memory: Memory::Mapped, bytes: 10, of: by(1) };
    assert_eq!(blocks.call_ended(1, &end(3, flag::FAILED))[0], back);
    assert_eq!(blocks.freed(1, &unmap(200, 10, 4)), last);
}

#[test]
fn one_call_unmaps_all_that_lies_in_its_range() {
    let mut blocks = mapped_once();
    blocks.allocated(1, &alloc(Memory::Reserved, 8, 20));
    blocks.allocated(1, &map(8, 110, 20));
    blocks.allocated(1, &alloc(Memory::Device, 130, 5));
    assert_eq!(blocks.freed(1, &unmap(100, 30, 1)), [freed(Memory::Mapped, 10), freed(Memory::Mapped, 20)]);
    assert_eq!((blocks.kind_of(129), blocks.kind_of(130)), (None, Some(Memory::Device)));
}

#[test]
fn a_mapping_of_memory_that_the_process_did_not_create_is_imported() {
    let mut blocks = Blocks::default();
    assert_eq!(blocks.allocated(1, &map(9, 100, 10)), [came(Memory::Imported, 10)]);
    assert_eq!(blocks.freed(1, &unmap(100, 10, 1)), [freed(Memory::Imported, 10)]);
    assert_eq!(blocks.freed(1, &release(9, 2)), [], "and its handle holds none of the process's memory");
}

#[test]
fn failed_unmaps_and_releases_are_taken_back() {
    let mut blocks = mapped_once();
    let back = |memory| MemoryChange::FreeFailed { memory, bytes: 10, of: ONE };
    blocks.freed(1, &release(7, 1));
    assert_eq!(blocks.call_ended(1, &end(1, flag::FAILED)), []);
    blocks.freed(1, &release(7, 2));
    blocks.freed(1, &unmap(100, 10, 3));
    assert_eq!(blocks.call_ended(1, &end(3, flag::FAILED)), [back(Memory::Mapped), back(Memory::Reserved)]);
    assert_eq!(blocks.kind_of(105), Some(Memory::Mapped));
    assert_eq!(blocks.freed(1, &unmap(100, 10, 4)), [freed(Memory::Mapped, 10), freed(Memory::Reserved, 10)]);
}

#[test]
fn imported_memory_is_closed_as_often_as_it_was_opened() {
    let mut blocks = Blocks::default();
    let close = |correlation| Free { memory: Memory::Imported, ..free(100, correlation) };
    assert_eq!(blocks.allocated(1, &alloc(Memory::Imported, 100, 10)), [came(Memory::Imported, 10)]);
    assert_eq!(blocks.allocated(1, &alloc(Memory::Imported, 100, 10)), [came(Memory::Imported, 0)]);
    assert_eq!(blocks.freed(1, &close(1)), [freed(Memory::Imported, 0)]);
    let back = MemoryChange::FreeFailed { memory: Memory::Imported, bytes: 0, of: ONE };
    assert_eq!(blocks.call_ended(1, &end(1, flag::FAILED)), [back]);
    assert_eq!(blocks.freed(1, &close(2)), [freed(Memory::Imported, 0)]);
    assert_eq!(blocks.kind_of(105), Some(Memory::Imported));
    assert_eq!(blocks.freed(1, &close(3)), [freed(Memory::Imported, 10)]);
    assert_eq!(blocks.kind_of(105), None);
}

#[test]
fn an_array_has_no_address_and_ends_with_its_context() {
    let mut blocks = Blocks::default();
    blocks.allocated(1, &alloc(Memory::Array, 100, 10));
    blocks.allocated(1, &alloc(Memory::Array, 101, 20));
    assert_eq!(blocks.kind_of(105), None);
    assert_eq!(blocks.freed(1, &Free { memory: Memory::Array, ..free(100, 5) }), [freed(Memory::Array, 10)]);
    assert_eq!(
        blocks.context_destroyed(1),
        [MemoryChange::Vanished { memory: Memory::Array, bytes: 20, of: ONE }]
    );
}

#[test]
fn pools_and_physical_memory_survive_their_context() {
    let mut blocks = mapped_once();
    blocks.allocated(1, &alloc(Memory::Pool, 200, 20));
    assert_eq!(blocks.context_destroyed(1), []);
    let of = Allocator { stream: Some(0), ..ONE };
    let pooled = MemoryChange::Freed { memory: Memory::Pool, bytes: 20, of };
    assert_eq!(blocks.freed(1, &free(200, 5)), [pooled]);
    assert_eq!(blocks.freed(1, &unmap(100, 10, 1)), [freed(Memory::Mapped, 10)]);
}

#[test]
fn allocations_in_a_stream_capture_do_not_count() {
    let mut blocks = Blocks::default();
    let mut captured = alloc(Memory::Pool, 100, 10);
    captured.call.flags = flag::CAPTURED;
    assert_eq!(blocks.allocated(1, &captured), []);
    let mut node = free(100, 5);
    node.call.flags = flag::CAPTURED;
    assert_eq!(blocks.freed(1, &node), []);
}

#[test]
fn nothing_is_left_after_all_releases_and_unmaps_in_any_order() {
    // Three references and three mappings of one handle, taken away in every order.
    for order in 0..720 {
        let mut blocks = Blocks::default();
        blocks.allocated(1, &alloc(Memory::Reserved, 7, 10));
        (0..2).for_each(|_| drop(blocks.allocated(1, &alloc(Memory::Reserved, 7, 0))));
        (0..3).for_each(|place| drop(blocks.allocated(1, &map(7, 100 + 10 * place, 10))));
        let mut left: Vec<u64> = (0..6).collect();
        let (mut mapped, mut reserved) = (Vec::new(), Vec::new());
        for step in (1..=6).rev() {
            let which = left.remove(order / (1..step).product::<usize>() % step);
            let free = if which < 3 { release(7, 1) } else { unmap(100 + 10 * (which - 3), 10, 1) };
            for change in blocks.freed(1, &free) {
                let MemoryChange::Freed { memory, bytes, of: ONE } = change else { panic!("{change:?}") };
                if memory == Memory::Reserved { reserved.push(bytes) } else { mapped.push(bytes) }
            }
            assert_eq!(reserved.is_empty(), !left.is_empty(), "it goes with the last of them, not before");
        }
        assert_eq!((mapped.as_slice(), reserved.as_slice()), (&[0, 0, 10][..], &[10][..]));
    }
}
