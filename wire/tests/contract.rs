//! Does the ring behave like a queue? It is compared with a model: a `VecDeque` that knows how much room
//! there is. Numbers refer to the contract's rules (`src/ring.rs`).

mod common;

use common::{cursors_at, record, words};
use gpuspy_wire::record::CELL_WORDS;
use gpuspy_wire::ring::{Full, LEVELS, MAX_RECORD_WORDS, Phase, Reader, State, Writer};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The steps that may happen to a slot, one at a time.
#[derive(Clone, Debug)]
enum Step {
    /// The writer publishes a record of this number of cells.
    Push(u8),
    /// The writer prepares a record of two cells, and publishes it or not.
    Prepare { is_published: bool },
    /// The reader reads a record.
    Pop,
    /// The reader gives back the space of what it has read.
    Release,
    /// The writer moves to the next level.
    Grow,
    /// The owner ends, the reader drains and frees the slot, and another owner claims it.
    Reopen,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        8 => (1u8..=4).prop_map(Step::Push),
        2 => (1u8..=255).prop_map(Step::Push),
        1 => Just(Step::Push(255)),
        2 => any::<bool>().prop_map(|is_published| Step::Prepare { is_published }),
        8 => Just(Step::Pop),
        4 => Just(Step::Release),
        1 => Just(Step::Grow),
        1 => Just(Step::Reopen),
    ];
    prop::collection::vec(step, 1..if cfg!(miri) { 40 } else { 400 })
}

/// Exponents of the levels' numbers of cells: small, so that everything wraps, and sometimes large enough for
/// the longest record.
fn levels() -> impl Strategy<Value = [u32; LEVELS]> {
    (0u32..=4, 1u32..=4, 1u32..=4).prop_map(|(a, b, c)| [a, a + b, a + b + c])
}

/// How often the runs reached the interesting situations: a generator that never reaches them tests nothing.
#[derive(Default)]
struct Reached {
    full: Cell<u32>,
    wrapped: Cell<u32>,
    top_level: Cell<u32>,
    straddled_growth: Cell<u32>,
    reopened_above: Cell<u32>,
    longest: Cell<u32>,
    prepared: Cell<u32>,
    overwritten: Cell<u32>,
}

fn count(cell: &Cell<u32>, happened: bool) {
    cell.set(cell.get() + u32::from(happened));
}

/// The expected contents of the ring.
struct Model {
    waiting: VecDeque<Vec<u64>>,
    capacities: [u64; LEVELS],
    level: usize,
    base: u64,
    tail: u64,
    popped: u64,
    head: u64,
}

impl Model {
    /// Rules 5 and 6: room is the length of the level in use, minus what was published in it and not given
    /// back.
    fn has_room(&self, length: u64) -> bool {
        self.tail - self.head.max(self.base) + length <= self.capacities[self.level]
    }
}

fn play(
    start: u64,
    exponents: [u32; LEVELS],
    steps: &[Step],
    reached: &Reached,
) -> Result<(), TestCaseError> {
    let cursors = cursors_at(start);
    let buffers = exponents.map(|e| words(CELL_WORDS << e));
    let slices: [&[AtomicU64]; LEVELS] = [&buffers[0], &buffers[1], &buffers[2]];
    let state = State(AtomicU64::new(0));

    let mut generation = state.claim().unwrap();
    let mut writer = Writer::claim(&cursors, slices[0]).unwrap();
    state.open(generation);
    let mut reader = Reader::new(&cursors, slices).unwrap();
    let mut model = Model {
        waiting: VecDeque::new(),
        capacities: slices.map(|s| s.len() as u64),
        level: 0,
        base: start,
        tail: start,
        popped: start,
        head: start,
    };
    let mut out = [0; MAX_RECORD_WORDS];
    let mut sequence = 0;

    for step in steps {
        match *step {
            Step::Push(cells) => {
                sequence += 1;
                let record = record(cells, sequence);
                let length = record.len() as u64;
                if model.has_room(length) {
                    prop_assert_eq!(writer.push(&record), Ok(()));
                    let capacity = model.capacities[model.level];
                    count(&reached.wrapped, model.tail % capacity + length > capacity);
                    count(&reached.top_level, model.level == LEVELS - 1);
                    count(&reached.straddled_growth, model.level > 0 && model.popped < model.base);
                    count(&reached.longest, cells == 255);
                    model.tail += length;
                    model.waiting.push_back(record);
                } else {
                    prop_assert_eq!(writer.push(&record), Err(Full)); // rule 5
                    count(&reached.full, true);
                }
                prop_assert_eq!(cursors.tail.0.load(Relaxed), model.tail); // rules 2 and 4
            }
            Step::Prepare { is_published } => {
                sequence += 1;
                let mut record = record(2, sequence);
                let cells = record.as_chunks::<CELL_WORDS>().0.try_into().unwrap();
                // It is refused wherever room is not certain.
                if let Some(prepared) = writer.prepare::<2>(cells) {
                    let length = record.len() as u64;
                    prop_assert!(model.has_room(length));
                    prop_assert_eq!(cursors.tail.0.load(Relaxed), model.tail); // rule 4
                    let is_there = writer.has(&prepared);
                    prop_assert_eq!(is_there, model.tail > model.base);
                    if is_published && is_there {
                        count(&reached.prepared, true);
                        record[3] = !record[3];
                        prepared.set::<3>(record[3]);
                        writer.publish(prepared);
                    } else {
                        count(&reached.overwritten, is_there);
                        prop_assert_eq!(writer.push(&record), Ok(()));
                        prop_assert!(!writer.has(&prepared));
                    }
                    model.tail += length;
                    model.waiting.push_back(record);
                }
                prop_assert_eq!(cursors.tail.0.load(Relaxed), model.tail); // rules 2 and 4
            }
            Step::Pop => {
                let got = reader.pop(&mut out).map(|words| words.map(<[u64]>::to_vec));
                let expected = model.waiting.pop_front();
                model.popped += expected.as_ref().map_or(0, |w| w.len() as u64);
                prop_assert_eq!(got, Ok(expected)); // rules 3, 4, 6
                prop_assert_eq!(cursors.head.0.load(Relaxed), model.head); // nothing has been given back yet
            }
            Step::Release => {
                reader.release();
                model.head = model.popped;
                prop_assert_eq!(cursors.head.0.load(Relaxed), model.head);
            }
            Step::Grow => {
                let next = model.level + 1;
                let grew = slices.get(next).is_some_and(|buffer| writer.grow(buffer));
                prop_assert_eq!(grew, next < LEVELS);
                if grew {
                    (model.level, model.base) = (next, model.tail);
                }
                prop_assert_eq!(writer.level(), model.level);
            }
            Step::Reopen => {
                count(&reached.reopened_above, model.level > 0);
                state.close(generation);
                prop_assert_eq!(state.claim(), None); // rule 8: not before it is freed
                prop_assert_eq!(state.get(), (Phase::Closed, generation));
                while let Some(expected) = model.waiting.pop_front() {
                    prop_assert_eq!(reader.pop(&mut out).unwrap(), Some(&expected[..]));
                }
                prop_assert_eq!(reader.pop(&mut out), Ok(None));
                reader.release();
                state.free(generation);
                prop_assert_eq!(state.get(), (Phase::Free, generation));
                generation += 1;
                prop_assert_eq!(state.claim(), Some(generation));
                prop_assert_eq!(state.get(), (Phase::Claiming, generation));
                writer = Writer::claim(&cursors, slices[0]).unwrap();
                state.open(generation);
                reader.reopened();
                (model.popped, model.head, model.base, model.level) = (model.tail, model.tail, model.tail, 0);
            }
        }
    }
    for expected in model.waiting {
        prop_assert_eq!(reader.pop(&mut out).unwrap(), Some(&expected[..]));
    }
    prop_assert_eq!(reader.pop(&mut out), Ok(None));
    Ok(())
}

/// The number of cases of a property: `PROPTEST_CASES`, or few under Miri, which is several hundred times
/// slower.
fn cases(default: u32) -> Config {
    let requested = std::env::var("PROPTEST_CASES").ok().and_then(|n| n.parse().ok());
    let cases = requested.unwrap_or(if cfg!(miri) { 6 } else { default });
    Config { cases, failure_persistence: None, ..Config::default() }
}

#[test]
fn rules_2_to_6_and_8_the_ring_behaves_like_a_queue() {
    let reached = Reached::default();
    // The start can be any position: a slot's positions continue for as long as the process lives (rule 2).
    let start =
        prop_oneof![Just(0), (0u64..1 << 20), (0u64..1 << 58)].prop_map(|cell| cell * CELL_WORDS as u64);
    TestRunner::new(cases(600))
        .run(&(start, levels(), steps()), |(start, exponents, steps)| {
            play(start, exponents, &steps, &reached)
        })
        .unwrap();
    if !cfg!(miri) {
        for (what, cell) in [
            ("full", &reached.full),
            ("wrapped", &reached.wrapped),
            ("records in the top level", &reached.top_level),
            ("a growth with records still below it", &reached.straddled_growth),
            ("reopened above level 0", &reached.reopened_above),
            ("the longest record", &reached.longest),
            ("a prepared record that is published", &reached.prepared),
            ("a prepared record that is overwritten", &reached.overwritten),
        ] {
            assert!(cell.get() > 0, "no case reached: {what}");
        }
    }
}

#[test]
fn rule_5_a_full_ring_accepts_records_again_as_soon_as_there_is_room() {
    let cursors = cursors_at(0);
    let buffers = [words(4 * CELL_WORDS), words(8 * CELL_WORDS), words(16 * CELL_WORDS)];
    let mut writer = Writer::claim(&cursors, &buffers[0]).unwrap();
    let mut reader = Reader::new(&cursors, [&buffers[0], &buffers[1], &buffers[2]]).unwrap();
    let mut out = [0; MAX_RECORD_WORDS];
    for n in 0..4 {
        assert_eq!(writer.is_half_full(), n > 2);
        assert_eq!(writer.push(&record(1, n)), Ok(()));
    }
    assert_eq!(writer.push(&record(1, 4)), Err(Full));
    assert_eq!(reader.pop(&mut out).unwrap(), Some(&record(1, 0)[..]));
    assert_eq!(writer.push(&record(1, 4)), Err(Full), "the popped record's space is not given back yet");
    reader.release();
    assert_eq!(writer.push(&record(2, 4)), Err(Full), "one cell is free, not two");
    assert_eq!(writer.push(&record(1, 4)), Ok(()));
    for n in 1..5 {
        assert_eq!(reader.pop(&mut out).unwrap(), Some(&record(1, n)[..]));
    }
}

#[test]
fn rule_3_a_prepared_record_is_gone_with_the_next_record_or_buffer() {
    let cursors = cursors_at(0);
    let buffers = [words(8 * CELL_WORDS), words(16 * CELL_WORDS), words(32 * CELL_WORDS)];
    let mut writer = Writer::claim(&cursors, &buffers[0]).unwrap();
    let mut reader = Reader::new(&cursors, [&buffers[0], &buffers[1], &buffers[2]]).unwrap();
    let mut out = [0; MAX_RECORD_WORDS];
    assert_eq!(writer.push(&record(1, 0)), Ok(()));
    let cells = |sequence| record(2, sequence).as_chunks::<CELL_WORDS>().0.try_into().unwrap();
    let prepared = writer.prepare::<2>(cells(1)).unwrap();
    assert!(writer.has(&prepared));
    assert_eq!(writer.push(&record(1, 2)), Ok(()));
    assert!(!writer.has(&prepared));
    let prepared = writer.prepare::<2>(cells(3)).unwrap();
    assert!(writer.grow(&buffers[1]));
    assert!(!writer.has(&prepared));
    assert_eq!(writer.push(&record(1, 4)), Ok(()));
    for n in [0, 2, 4] {
        assert_eq!(reader.pop(&mut out).unwrap(), Some(&record(1, n)[..]));
    }
    assert_eq!(reader.pop(&mut out), Ok(None));
}

#[test]
fn rule_6_a_ring_that_is_read_in_time_is_never_half_full() {
    let cursors = cursors_at(0);
    let buffers = [words(4 * CELL_WORDS), words(8 * CELL_WORDS), words(16 * CELL_WORDS)];
    let mut writer = Writer::claim(&cursors, &buffers[0]).unwrap();
    let mut reader = Reader::new(&cursors, [&buffers[0], &buffers[1], &buffers[2]]).unwrap();
    let mut out = [0; MAX_RECORD_WORDS];
    for n in 0..100 {
        writer.push(&record(1, n)).unwrap();
        assert!(!writer.is_half_full(), "record {n}");
        assert!(reader.pop(&mut out).unwrap().is_some());
        reader.release();
    }
}

#[test]
fn rule_6_a_writer_only_moves_up_and_a_slot_has_no_fourth_level() {
    let cursors = cursors_at(0);
    let buffers = [words(CELL_WORDS), words(2 * CELL_WORDS), words(4 * CELL_WORDS)];
    let (same, odd, fourth) = (words(CELL_WORDS), words(3 * CELL_WORDS), words(8 * CELL_WORDS));
    let mut writer = Writer::claim(&cursors, &buffers[0]).unwrap();
    assert!(!writer.grow(&same), "not larger");
    assert!(!writer.grow(&odd), "not a power of two");
    assert!(!writer.grow(&[]), "empty");
    assert_eq!(cursors.moved.each_ref().map(|m| m.load(Relaxed)), [u64::MAX; LEVELS - 1], "nothing changed");
    assert!(writer.grow(&buffers[1]) && writer.grow(&buffers[2]));
    assert!(!writer.grow(&fourth), "beyond the last");
    assert_eq!(writer.level(), LEVELS - 1);
}

#[test]
fn buffers_whose_length_is_no_power_of_two_are_rejected() {
    let cursors = cursors_at(0);
    let good = words(CELL_WORDS);
    for bad in [0, 1, 4, 12, 24] {
        let bad = words(bad);
        assert!(Writer::claim(&cursors, &bad).is_none());
        assert!(Reader::new(&cursors, [&good, &bad, &good]).is_none());
    }
}
