//! Does rule 7 hold (`src/ring.rs`)? The other side may write anything anywhere at any time, and neither end
//! panics, loops, or accesses memory outside its buffers.

mod common;

use common::{cursors_at, record, words};
use gpuspy_wire::record::{CELL_WORDS, Head};
use gpuspy_wire::ring::{Corrupt, Cursors, Full, LEVELS, MAX_RECORD_WORDS, Reader, State, Writer};
use proptest::prelude::*;
use proptest::test_runner::Config;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

const GUARD: u64 = 0x6775_6172_6477_6f72;
const GUARD_WORDS: usize = 2 * CELL_WORDS;
/// The last level has room for the longest record, except under Miri, where each word that is compared takes
/// time.
const LEVEL_WORDS: [usize; LEVELS] =
    [4 * CELL_WORDS, 8 * CELL_WORDS, if cfg!(miri) { 16 } else { 256 } * CELL_WORDS];
const ALL_WORDS: u64 = (LEVEL_WORDS[0] + LEVEL_WORDS[1] + LEVEL_WORDS[2]) as u64;

/// A slot's buffers with guard words before, between and after them.
struct Guarded {
    cursors: Cursors<AtomicU64>,
    memory: Vec<AtomicU64>,
}

impl Guarded {
    fn new() -> Guarded {
        let memory = words(ALL_WORDS as usize + (LEVELS + 1) * GUARD_WORDS);
        let this = Guarded { cursors: cursors_at(0), memory };
        this.guards().for_each(|word| word.store(GUARD, Relaxed));
        this
    }

    /// The place of a level's buffer in `memory`.
    fn place(level: usize) -> std::ops::Range<usize> {
        let start = LEVEL_WORDS[..level].iter().sum::<usize>() + (level + 1) * GUARD_WORDS;
        start..start + LEVEL_WORDS[level]
    }

    fn buffers(&self) -> [&[AtomicU64]; LEVELS] {
        [0, 1, 2].map(|level| &self.memory[Self::place(level)])
    }

    fn guards(&self) -> impl Iterator<Item = &AtomicU64> {
        let before = (0..LEVELS).map(|level| Self::place(level).start - GUARD_WORDS);
        let behind = Self::place(LEVELS - 1).end;
        before.chain([behind]).flat_map(|at| &self.memory[at..at + GUARD_WORDS])
    }

    fn guards_are_intact(&self) -> bool {
        self.guards().all(|word| word.load(Relaxed) == GUARD)
    }

    /// Everything that a peer can reach, by number.
    fn shared(&self, n: usize) -> &AtomicU64 {
        match n % 8 {
            0 | 1 => &self.cursors.tail.0,
            2 | 3 => &self.cursors.head.0,
            4 => &self.cursors.moved[0],
            5 => &self.cursors.moved[1],
            // The first words of buffers, and any other words in them.
            6 => &self.buffers()[n / 8 % LEVELS][n / 32 % 16],
            _ => self.buffers()[n / 8 % LEVELS].get(n / 32 % LEVEL_WORDS[0]).unwrap(),
        }
    }
}

/// Reads what is there, as a drain does: until the ring is empty, or until the first error. Returns the
/// number of records and of lost words.
fn drain(reader: &mut Reader<'_, AtomicU64>, give_up: usize) -> (usize, u64) {
    let mut out = [0; MAX_RECORD_WORDS];
    for taken in 0..give_up {
        match reader.pop(&mut out) {
            Ok(None) => return (taken, 0),
            Err(Corrupt { words }) => return (taken, words),
            Ok(Some(words)) => {
                assert!(!words.is_empty() && words.len().is_multiple_of(CELL_WORDS));
                assert_eq!(Head::of(words).unwrap().cells as usize * CELL_WORDS, words.len());
            }
        }
    }
    panic!("more records than the buffers have cells");
}

/// A change that a peer makes to a word: extreme values, values near the present one, and random ones.
#[derive(Clone, Debug)]
enum Spoil {
    Set(u64),
    Add(i64),
}

#[derive(Clone, Debug)]
enum Step {
    Push(u8),
    Drain,
    Pop,
    Release,
    Grow,
    Reopen,
    Spoil(usize, Spoil),
}

fn step() -> impl Strategy<Value = Step> {
    let extreme =
        prop::sample::select(vec![0, 1, 7, 8, 1 << 63, u64::MAX, u64::MAX - 7, u64::MAX - 8, u64::MAX - 64]);
    let change = prop_oneof![
        extreme.prop_map(Spoil::Set),
        any::<u64>().prop_map(Spoil::Set),
        (-64i64..64).prop_map(Spoil::Add),
        (-5000i64..5000).prop_map(|cells| Spoil::Add(cells * 8)),
    ];
    prop_oneof![
        6 => (1u8..=6).prop_map(Step::Push),
        1 => (1u8..=255).prop_map(Step::Push),
        2 => Just(Step::Drain),
        4 => Just(Step::Pop),
        3 => Just(Step::Release),
        1 => Just(Step::Grow),
        1 => Just(Step::Reopen),
        4 => (any::<usize>(), change).prop_map(|(place, change)| Step::Spoil(place, change)),
    ]
}

fn cases(default: u32) -> Config {
    let requested = std::env::var("PROPTEST_CASES").ok().and_then(|n| n.parse().ok());
    let cases = requested.unwrap_or(if cfg!(miri) { 4 } else { default });
    Config { cases, failure_persistence: None, ..Config::default() }
}

proptest! {
    #![proptest_config(cases(150))]

    #[test]
    fn invalid_values_between_any_two_steps_do_no_harm(
        steps in prop::collection::vec(step(), 1..if cfg!(miri) { 30 } else { 200 })
    ) {
        let slot = Guarded::new();
        let buffers = slot.buffers();
        let mut writer = Writer::claim(&slot.cursors, buffers[0]);
        let mut reader = Reader::new(&slot.cursors, buffers).unwrap();
        let mut out = [0; MAX_RECORD_WORDS];
        for (sequence, step) in steps.iter().enumerate() {
            match step {
                Step::Push(cells) => {
                    let level = writer.as_ref().map_or(0, Writer::level);
                    let others = || (0..LEVELS).filter(|l| *l != level).flat_map(|l| buffers[l]);
                    let before: Vec<u64> = others().map(|w| w.load(Relaxed)).collect();
                    if let Some(writer) = &mut writer {
                        // Either result is right, but a record that cannot fit must be rejected.
                        let result = writer.push(&record(*cells, sequence as u64));
                        prop_assert!(result.is_err() || *cells as usize * CELL_WORDS <= buffers[level].len());
                    }
                    prop_assert!(others().map(|w| w.load(Relaxed)).eq(before), "only the level in use is written");
                }
                Step::Drain => drop(drain(&mut reader, ALL_WORDS as usize / CELL_WORDS + 1)),
                Step::Pop => drop(reader.pop(&mut out).map(|words| words.map(<[u64]>::len))),
                Step::Release => reader.release(),
                Step::Grow => {
                    if let Some(writer) = &mut writer
                        && let Some(next) = buffers.get(writer.level() + 1)
                    {
                        prop_assert!(writer.grow(next));
                    }
                }
                Step::Reopen => {
                    writer = Writer::claim(&slot.cursors, buffers[0]);
                    reader.reopened();
                }
                Step::Spoil(place, how) => {
                    let word = slot.shared(*place);
                    word.store(match how {
                        Spoil::Set(value) => *value,
                        Spoil::Add(delta) => word.load(Relaxed).wrapping_add_signed(*delta),
                    }, Relaxed);
                }
            }
            prop_assert!(slot.guards_are_intact(), "a guard was overwritten");
        }
    }

    #[test]
    fn a_state_word_may_have_any_value(word in any::<u64>()) {
        let state = State(AtomicU64::new(word));
        let (phase, generation) = state.get();
        prop_assert_eq!((generation, phase as u64), (word >> 2, word & 3));
        if let Some(claimed) = state.claim() {
            prop_assert_eq!(word & 3, 0);
            state.open(claimed);
            state.close(claimed);
            state.free(claimed);
        }
    }
}

/// Rule 7's bounds on `head`: a full ring whose `head` is not between the last accepted one and `tail` stays
/// full, and works again when `head` is right again.
#[test]
fn the_writer_rejects_an_impossible_head() {
    let slot = Guarded::new();
    let mut writer = Writer::claim(&slot.cursors, slot.buffers()[0]).unwrap();
    let head = &slot.cursors.head.0;
    for n in 0..4 {
        writer.push(&record(1, n)).unwrap();
    }
    head.store(16, Relaxed);
    writer.push(&record(2, 4)).unwrap(); // accepts 16; tail is now 48
    for wrong in [0, 8, 15, 49, 56, 1 << 40, u64::MAX, u64::MAX - 7] {
        head.store(wrong, Relaxed);
        assert_eq!(writer.push(&record(1, 5)), Err(Full), "head = {wrong}");
        assert_eq!(slot.cursors.tail.0.load(Relaxed), 48);
    }
    head.store(24, Relaxed);
    assert_eq!(writer.push(&record(1, 5)), Ok(()));
}

/// Rule 7's bounds on `tail` and on a record's length, and the reported losses.
#[test]
fn the_reader_skips_to_an_impossible_tail_and_continues_there() {
    let slot = Guarded::new();
    let mut reader = Reader::new(&slot.cursors, slot.buffers()).unwrap();
    let mut out = [0; MAX_RECORD_WORDS];
    let mut set_tail = |tail: u64| {
        slot.cursors.tail.0.store(tail, Relaxed);
        let lost = reader.pop(&mut out).map(|words| words.map(<[u64]>::len));
        reader.release();
        (lost, slot.cursors.head.0.load(Relaxed))
    };
    assert_eq!(
        set_tail(ALL_WORDS + 8),
        (Err(Corrupt { words: ALL_WORDS + 8 }), ALL_WORDS + 8),
        "too far ahead"
    );
    assert_eq!(
        set_tail(ALL_WORDS),
        (Err(Corrupt { words: 0 }), ALL_WORDS + 8),
        "below head: never backwards"
    );
    assert_eq!(set_tail(ALL_WORDS + 21), (Err(Corrupt { words: 8 }), ALL_WORDS + 16), "between cells");
    assert_eq!(
        set_tail(ALL_WORDS + 21),
        (Err(Corrupt { words: 0 }), ALL_WORDS + 16),
        "nothing is lost twice"
    );
    assert_eq!(set_tail(ALL_WORDS + 16), (Ok(None), ALL_WORDS + 16));
    assert_eq!(set_tail(ALL_WORDS + 24), (Err(Corrupt { words: 8 }), ALL_WORDS + 24), "a record of no cells");

    let at = (ALL_WORDS as usize + 24) % LEVEL_WORDS[2];
    slot.buffers()[2][at].store(u64::from_ne_bytes([1, 3, 1, 0, 0, 0, 0, 0]), Relaxed);
    assert_eq!(set_tail(ALL_WORDS + 40), (Err(Corrupt { words: 16 }), ALL_WORDS + 40), "ends after tail");
}

/// Positions that no writer reaches are not taken over from shared memory: sums with them would overflow.
#[test]
fn a_slot_with_an_impossible_tail_is_not_claimed() {
    for tail in [1, 7, 12, u64::MAX, u64::MAX - 7, u64::MAX - 63] {
        let slot = Guarded::new();
        slot.cursors.tail.0.store(tail, Relaxed);
        assert!(Writer::claim(&slot.cursors, slot.buffers()[0]).is_none(), "tail = {tail}");
    }
}

/// Stops the other thread when this one ends, also by a failure.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// A second thread writes invalid values without pause while both ends work.
#[test]
fn invalid_values_at_any_moment_do_no_harm() {
    let slot = Guarded::new();
    let rounds = if cfg!(miri) { 60 } else { 60_000 };
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut seed = 0x1234_5678u64;
            while !done.load(Relaxed) {
                seed = common::word_of(seed, 1);
                let near = slot.cursors.tail.0.load(Relaxed).wrapping_add_signed((seed >> 40) as i64 % 128);
                let value = if seed & 0x300 == 0 { seed } else { near };
                slot.shared(seed as usize >> 20).store(value, Relaxed);
                std::hint::spin_loop();
            }
        });
        let _stop = Stop(&done);
        let mut reader = Reader::new(&slot.cursors, slot.buffers()).unwrap();
        let mut writer = None;
        let mut out = [0; MAX_RECORD_WORDS];
        let (mut pushed, mut popped, mut refused) = (0u32, 0u32, 0u32);
        // On a busy machine the other thread may start late: continue until its effects were observed.
        for n in 0..rounds * 100 {
            if n >= rounds && popped > 0 && refused > 0 {
                break;
            }
            if n % 64 == 0 {
                // Both ends start again: a cursor that was moved to the end of all numbers never comes back
                // by itself.
                slot.cursors.tail.0.store(n * 8, Relaxed);
                slot.cursors.head.0.store(n * 8, Relaxed);
                reader = Reader::new(&slot.cursors, slot.buffers()).unwrap();
                writer = Writer::claim(&slot.cursors, slot.buffers()[0]);
            }
            let Some(writer) = &mut writer else { continue };
            if writer.is_half_full() && writer.level() + 1 < LEVELS {
                assert!(writer.grow(slot.buffers()[writer.level() + 1]));
            }
            pushed += u32::from(writer.push(&record(1 + (n % 4) as u8, n)).is_ok());
            match reader.pop(&mut out) {
                Ok(words) => popped += u32::from(words.is_some()),
                Err(Corrupt { .. }) => refused += 1,
            }
            reader.release();
        }
        assert!(pushed > 0 && popped > 0 && refused > 0, "{pushed} {popped} {refused}");
    });
    assert!(slot.guards_are_intact());
}
