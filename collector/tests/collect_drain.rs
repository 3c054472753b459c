//! The drain by itself: order, growth, the life of slots, and hostile bytes.

#[allow(dead_code, reason = "shared with tests that use the rest of it")]
mod collect_support;

use collect_support::FakeAgent;
use gpuspy_collector::collect::{Batch, Clock, Drain, Item, Pair, Slope, convert};
use gpuspy_wire::record::{CELL_WORDS, Head, Launch, Record as _};
use gpuspy_wire::ring::Phase;
use gpuspy_wire::segment::{HEADER_BYTES, Layout, Slot};
use proptest::prelude::*;

/// A layout with few slots and small rings.
const SMALL: Layout = {
    let slots_at = HEADER_BYTES as u64;
    let rings_at = 8192;
    assert!(slots_at + 3 * size_of::<Slot>() as u64 <= rings_at);
    let region_bytes = (4 + 16 + 64) * 64;
    Layout {
        segment_bytes: rings_at + 3 * region_bytes,
        slots_at,
        slot_bytes: size_of::<Slot>() as u64,
        slots: 3,
        rings_at,
        region_bytes,
        level_cells: [4, 16, 64],
    }
};

fn round(drain: &mut Drain<'_>) -> Vec<Batch> {
    let mut batches = Vec::new();
    drain
        .round(|batch| {
            batches.push(batch);
            Ok(())
        })
        .unwrap();
    batches
}

/// Returns the numbers of the launches in a batch.
fn launches(batch: &Batch) -> Vec<u32> {
    batch.words.chunks(2 * CELL_WORDS).map(|words| Launch::from_words(words).unwrap().grid[0]).collect()
}

#[test]
fn records_come_in_order_over_all_levels() {
    let agent = FakeAgent::new(SMALL);
    let mut drain = Drain::new(agent.segment);
    let mut thread = agent.thread();
    let mut seen = Vec::new();
    let mut sent = 0;
    for burst in [1, 2, 2, 8, 7, 30, 31, 2, 32] {
        // As many as fit without the reader: `push` grows the ring from level to level.
        for _ in 0..burst {
            thread.launch(1);
            sent += 1;
        }
        for batch in round(&mut drain) {
            assert_eq!((batch.thread, batch.tid, batch.corrupt), (1, 1001, 0));
            seen.extend(launches(&batch));
        }
    }
    assert_eq!(seen, (1..=sent).collect::<Vec<u32>>());
}

#[test]
fn a_closed_slot_is_freed_when_it_is_empty_and_goes_to_the_next_thread() {
    let agent = FakeAgent::new(SMALL);
    let mut drain = Drain::new(agent.segment);
    for owner in 1..=5u32 {
        let mut thread = agent.thread();
        assert_eq!(thread.number, 1, "the first slot is free again");
        thread.launch(1);
        thread.grow();
        thread.launch(1);
        if owner % 2 == 0 {
            // The reader observes the slot while it is open, or only after it was closed.
            assert_eq!(round(&mut drain).len(), 1);
        }
        thread.launch(1);
        thread.close();
        let batch = &round(&mut drain)[0];
        assert_eq!((batch.thread, batch.tid), (owner, 1000 + owner));
        assert_eq!(launches(batch).last(), Some(&3));
        let (phase, generation) = agent.segment.slot(1).unwrap().state.get();
        assert_eq!((phase, generation), (Phase::Free, u64::from(owner)));
    }
    assert!(round(&mut drain).is_empty());
}

#[test]
fn a_second_reader_continues_where_the_first_stopped() {
    let agent = FakeAgent::new(SMALL);
    let mut thread = agent.thread();
    thread.launch(1);
    assert_eq!(launches(&round(&mut Drain::new(agent.segment))[0]), [1]);
    thread.grow();
    thread.launch(1);
    assert_eq!(launches(&round(&mut Drain::new(agent.segment))[0]), [2]);
}

#[test]
fn a_full_slot_does_not_delay_the_others() {
    let agent = FakeAgent::new(Layout::OURS);
    let mut drain = Drain::new(agent.segment);
    let (mut busy, mut calm) = (agent.thread(), agent.thread());
    for _ in 0..20_000 {
        busy.launch(1);
    }
    calm.launch(1);
    let batches = round(&mut drain);
    assert_eq!(batches.iter().map(|b| b.thread).collect::<Vec<_>>(), [1, 2]);
    assert!(launches(&batches[0]).len() < 20_000, "one round takes one batch");
    let mut more = 0;
    while !round(&mut drain).is_empty() {
        more += 1;
    }
    assert!(more > 10, "the rest comes in later rounds: {more}");
}

#[test]
fn garbage_is_skipped_and_counted_once() {
    let agent = FakeAgent::new(SMALL);
    let mut drain = Drain::new(agent.segment);
    let mut thread = agent.thread();
    thread.launch(1);
    // A header with a length of zero cells.
    let buffer = agent.segment.buffers(1).unwrap()[0];
    buffer[0].store(1, std::sync::atomic::Ordering::Relaxed);
    assert_eq!(round(&mut drain).iter().map(|b| b.corrupt).collect::<Vec<_>>(), [1]);
    thread.launch(1);
    assert_eq!(launches(&round(&mut drain)[0]), [2], "what comes behind is read again");
    // A tail that moves backwards.
    agent.segment.slot(1).unwrap().cursors.tail.0.store(0, std::sync::atomic::Ordering::Relaxed);
    assert_eq!(round(&mut drain).iter().map(|b| b.corrupt).collect::<Vec<_>>(), [1]);
    assert!(round(&mut drain).is_empty(), "told once");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn any_bytes_in_a_segment_are_drained_and_converted_without_panic(
        seed in any::<u64>(),
        tails in prop::collection::vec((0u64..800, any::<bool>()), 3),
    ) {
        let agent = FakeAgent::new(SMALL);
        let mut state = seed | 1;
        let mut random = || {
            // xorshift64, Marsaglia 2003.
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        for at in (HEADER_BYTES as u64..SMALL.segment_bytes).step_by(8) {
            // Plausible headers: small kinds, short records.
            let word = if random() % 3 == 0 { random() & 0x0303_00ff_0000_031f } else { random() };
            // SAFETY: the address is inside the mapping and aligned, and nothing else uses the mapping now.
            unsafe { agent.base.add(at as usize).cast::<u64>().write(word) };
        }
        for (n, (tail, plausible)) in tails.into_iter().enumerate() {
            let slot = agent.segment.slot(n).unwrap();
            slot.state.open(random() >> 8);
            if plausible {
                slot.cursors.head.0.store(0, std::sync::atomic::Ordering::Relaxed);
                slot.cursors.tail.0.store(tail / 8 * 8, std::sync::atomic::Ordering::Relaxed);
            }
        }
        let clock = Clock::new(Pair { ticks: random(), ns: random(), uncertainty: 0 }, Slope::NANOSECONDS);
        let mut drain = Drain::new(agent.segment);
        for _ in 0..4 {
            for batch in round(&mut drain) {
                let mut rest = &batch.words[..];
                while let Some(head) = Head::of(rest) {
                    let (words, others) = rest.split_at(usize::from(head.cells) * CELL_WORDS);
                    let item = convert(words, batch.thread, 0, &clock);
                    prop_assert!(!matches!(item, Item::Record(ref r) if r.thread != batch.thread));
                    rest = others;
                }
            }
        }
        prop_assert!(round(&mut drain).is_empty(), "a segment that nobody writes to is empty in the end");
    }
}
