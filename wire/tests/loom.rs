//! Does the ring keep its rules (`src/ring.rs`) under every interleaving and every value that the memory
//! model allows, up to a number of preemptions? The records' words are plain cells whose accesses loom checks
//! for races, which is stricter than the ring needs: it shows that the cursors alone order them (rule 3).
//!
//! Each scenario also runs with one ordering weakened and must fail then, which proves that the model can
//! detect the fault.
#![cfg(not(miri))] // loom switches stacks, which Miri does not support

use gpuspy_wire::in_progress::{Call, InProgress};
use gpuspy_wire::record::CELL_WORDS;
use gpuspy_wire::ring::{Cursors, LEVELS, Line, MAX_RECORD_WORDS, Phase, Reader, State, Word, Writer};
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;

/// A shared word in the model.
enum Shared {
    /// An atomic whose orderings are used as requested, or all replaced by relaxed.
    Atomic {
        word: AtomicU64,
        /// Stored to, relaxed, before each access of `word`. loom (0.7.2) looks for other interleavings only
        /// at the last access of an atomic, so a load by a thread that stores next would hide the other
        /// thread's load before it. Two stores always count as a conflict.
        turn: AtomicU64,
        weakened: bool,
    },
    /// A record's word: plain memory, checked for races.
    Plain(UnsafeCell<u64>),
}

impl Word for Shared {
    fn load(&self, order: Ordering) -> u64 {
        match self {
            Shared::Atomic { word, turn, weakened } => {
                turn.store(0, Ordering::Relaxed);
                word.load(if *weakened { Ordering::Relaxed } else { order })
            }
            // SAFETY: loom ends the run if another thread's access is not ordered with this one.
            Shared::Plain(cell) => cell.with(|p| unsafe { *p }),
        }
    }

    fn store(&self, value: u64, order: Ordering) {
        match self {
            Shared::Atomic { word, turn, weakened } => {
                turn.store(0, Ordering::Relaxed);
                word.store(value, if *weakened { Ordering::Relaxed } else { order });
            }
            // SAFETY: as above.
            Shared::Plain(cell) => cell.with_mut(|p| unsafe { *p = value }),
        }
    }

    fn exchange_if(&self, current: u64, new: u64) -> bool {
        let Shared::Atomic { word, turn, weakened } = self else {
            unreachable!("only the state is exchanged")
        };
        if *weakened {
            // Two steps instead of one.
            let equal = self.load(Ordering::Relaxed) == current;
            if equal {
                self.store(new, Ordering::Relaxed);
            }
            return equal;
        }
        turn.store(0, Ordering::Relaxed);
        word.compare_exchange(current, new, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}

// SAFETY: loom checks each access to `Plain`.
unsafe impl Sync for Shared {}

/// The word of a slot whose orderings are weakened.
#[derive(Clone, Copy, PartialEq)]
enum Weakened {
    Nothing,
    Tail,
    Head,
    State,
    Call,
}

struct Slot {
    state: State<Shared>,
    cursors: Cursors<Shared>,
    buffers: [Vec<Shared>; LEVELS],
}

impl Slot {
    fn new(cells: [usize; LEVELS], weakened: Weakened) -> Arc<Slot> {
        let atomic = |which| Shared::Atomic {
            word: AtomicU64::new(0),
            turn: AtomicU64::new(0),
            weakened: which != Weakened::Nothing && which == weakened,
        };
        Arc::new(Slot {
            state: State(atomic(Weakened::State)),
            cursors: Cursors {
                tail: Line(atomic(Weakened::Tail)),
                head: Line(atomic(Weakened::Head)),
                moved: [atomic(Weakened::Nothing), atomic(Weakened::Nothing)],
            },
            buffers: cells.map(|n| (0..n * CELL_WORDS).map(|_| Shared::Plain(UnsafeCell::new(0))).collect()),
        })
    }

    fn buffers(&self) -> [&[Shared]; LEVELS] {
        [&self.buffers[0], &self.buffers[1], &self.buffers[2]]
    }
}

fn record(sequence: u64) -> [u64; CELL_WORDS] {
    let mut words = [sequence; CELL_WORDS];
    words[0] = u64::from_ne_bytes([1, 1, 1, 0, 0, 0, 0, 0]);
    words
}

/// Reads everything that is there now, checks that each record is complete, and gives the space back.
fn drain(reader: &mut Reader<'_, Shared>, into: &mut Vec<u64>) {
    let mut out = [0; MAX_RECORD_WORDS];
    while let Some(words) = reader.pop(&mut out).expect("the ring is not corrupt") {
        assert_eq!(words, record(words[1]), "the record is complete");
        into.push(words[1]);
    }
    reader.release();
}

/// A record did not fit in some run.
const FULL: u32 = 1;
/// The reader got a record while the writer was still running.
const EARLY: u32 = 2;
/// Both threads owned the slot, one after the other.
const TWO_OWNERS: u32 = 4;

/// Runs the model under all interleavings with this number of preemptions, or with `LOOM_MAX_PREEMPTIONS` if
/// that is set (as scripts/deep-check.sh does). Returns the union of everything that happened in them.
fn explore(preemptions: usize, model: impl Fn() -> u32 + Sync + Send + 'static) -> u32 {
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
    // Print only the message: a backtrace (RUST_BACKTRACE=1) needs more stack than loom's coroutines have.
    std::panic::set_hook(Box::new(|panic| eprintln!("{panic}")));
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(preemptions));
    let happened = std::sync::Arc::new(AtomicU32::new(0));
    let noted = happened.clone();
    builder.check(move || {
        noted.fetch_or(model(), Relaxed);
    });
    happened.load(Relaxed)
}

/// Reads while `writer` runs and then reads the rest; checks that what was read is what was published.
fn read_beside(slot: &Slot, writer: thread::JoinHandle<Vec<u64>>) -> u32 {
    let mut reader = Reader::new(&slot.cursors, slot.buffers()).unwrap();
    let mut got = Vec::new();
    for _ in 0..2 {
        drain(&mut reader, &mut got);
    }
    let early = if got.is_empty() { 0 } else { EARLY };
    let published = writer.join().unwrap();
    drain(&mut reader, &mut got);
    assert_eq!(got, published);
    early | if published.len() < 4 { FULL } else { 0 }
}

/// Rules 3 to 5: two cells and four records, so that the writer wraps and meets a full ring.
fn push_and_pop(weakened: Weakened) -> u32 {
    explore(3, move || {
        let slot = Slot::new([2, 2, 2], weakened);
        let theirs = slot.clone();
        let writer = thread::spawn(move || {
            let mut writer = Writer::claim(&theirs.cursors, &theirs.buffers[0]).unwrap();
            (1..=4).filter(|n| writer.push(&record(*n)).is_ok()).collect::<Vec<u64>>()
        });
        read_beside(&slot, writer)
    })
}

/// Rule 6: the writer moves up twice while the reader reads.
fn grow_while_reading(weakened: Weakened) -> u32 {
    explore(3, move || {
        let slot = Slot::new([1, 2, 4], weakened);
        let theirs = slot.clone();
        let writer = thread::spawn(move || {
            let mut writer = Writer::claim(&theirs.cursors, &theirs.buffers[0]).unwrap();
            for n in 1..=4 {
                assert!(writer.push(&record(n)).is_ok());
                if n != 2 && writer.level() + 1 < LEVELS {
                    assert!(writer.grow(&theirs.buffers[writer.level() + 1]));
                }
            }
            vec![1, 2, 3, 4]
        });
        read_beside(&slot, writer)
    })
}

/// One owner's life in a slot, if the slot can be claimed: two records, the second in the next level. Returns
/// what it published.
fn own(slot: &Slot, first: u64) -> Vec<u64> {
    let Some(generation) = slot.state.claim() else { return Vec::new() };
    let mut writer = Writer::claim(&slot.cursors, &slot.buffers[0]).unwrap();
    slot.state.open(generation);
    for n in first..first + 2 {
        assert!(writer.push(&record(n)).is_ok(), "all earlier records were consumed");
        writer.grow(&slot.buffers[1]);
    }
    slot.state.close(generation);
    vec![first, first + 1]
}

/// Rule 8, the collector's side: one pass over the slot.
fn visit(slot: &Slot, reader: &mut Reader<'_, Shared>, last_generation: &mut u64, got: &mut Vec<u64>) {
    let (phase, generation) = slot.state.get();
    if matches!(phase, Phase::Free | Phase::Claiming) {
        return;
    }
    if generation != *last_generation {
        *last_generation = generation;
        reader.reopened();
    }
    drain(reader, got);
    if phase == Phase::Closed {
        slot.state.free(generation);
    }
}

/// Rule 8: a slot is used, closed, drained, freed, and claimed by another thread.
fn close_and_claim_again(weakened: Weakened) -> u32 {
    explore(2, move || {
        let slot = Slot::new([1, 2, 4], weakened);
        let (one, two) = (slot.clone(), slot.clone());
        let first = thread::spawn(move || own(&one, 10));
        let mut reader = Reader::new(&slot.cursors, slot.buffers()).unwrap();
        let (mut last_generation, mut got) = (0, Vec::new());
        visit(&slot, &mut reader, &mut last_generation, &mut got);
        let second = thread::spawn(move || own(&two, 20));
        for _ in 0..2 {
            visit(&slot, &mut reader, &mut last_generation, &mut got);
        }
        let (first, second) = (first.join().unwrap(), second.join().unwrap());
        visit(&slot, &mut reader, &mut last_generation, &mut got);
        let both = !first.is_empty() && !second.is_empty();
        // Either may have come first; the records of each are complete and in order.
        assert!(got == [&first[..], &second].concat() || got == [&second[..], &first].concat(), "{got:?}");
        if both { TWO_OWNERS } else { 0 }
    })
}

/// Rule 8: of two threads that claim, one gets the slot.
fn claim_together(weakened: Weakened) -> u32 {
    explore(3, move || {
        let slot = Slot::new([1, 2, 4], weakened);
        let theirs = slot.clone();
        let other = thread::spawn(move || theirs.state.claim());
        let mine = slot.state.claim();
        let theirs = other.join().unwrap();
        assert_ne!(mine.is_some(), theirs.is_some(), "exactly one thread claims the slot");
        assert_eq!(mine.or(theirs), Some(1));
        assert_eq!(slot.state.get(), (Phase::Claiming, 1));
        u32::from(mine.is_some()) | u32::from(theirs.is_some()) << 1
    })
}

/// A reader looks twice while a thread makes two calls, and must never take a part of one for the other.
fn two_calls(weakened: Weakened) -> u32 {
    const CALLS: [Call; 2] =
        [Call { api: 1, caller: 0x11, since: 10 }, Call { api: 2, caller: 0x22, since: 20 }];
    explore(3, move || {
        let word = || Shared::Atomic {
            word: AtomicU64::new(0),
            turn: AtomicU64::new(0),
            weakened: weakened == Weakened::Call,
        };
        let mine = Arc::new(InProgress { since: word(), call: word() });
        let theirs = mine.clone();
        let thread = thread::spawn(move || {
            theirs.enter(CALLS[0]);
            theirs.leave();
            theirs.enter(CALLS[1]);
        });
        let mut seen = 0;
        for _ in 0..2 {
            if let Some(call) = mine.get() {
                assert!(CALLS.contains(&call), "the call is whole: {call:?}");
                seen |= u32::from(call.api);
            }
        }
        thread.join().unwrap();
        assert_eq!(mine.get(), Some(CALLS[1]));
        seen
    })
}

#[test]
fn a_call_in_progress_is_seen_whole_or_not_at_all() {
    assert_eq!(two_calls(Weakened::Nothing), 0b11);
}

#[test]
#[should_panic(expected = "the call is whole")]
fn the_model_fails_when_a_call_in_progress_is_relaxed() {
    two_calls(Weakened::Call);
}

#[test]
fn rules_3_to_5_push_and_pop() {
    assert_eq!(push_and_pop(Weakened::Nothing), FULL | EARLY);
}

#[test]
fn rule_6_grow_while_reading() {
    assert_eq!(grow_while_reading(Weakened::Nothing), EARLY);
}

#[test]
fn rule_8_close_drain_free_and_claim_again() {
    assert_eq!(close_and_claim_again(Weakened::Nothing), TWO_OWNERS);
}

#[test]
fn rule_8_one_of_two_claiming_threads_gets_the_slot() {
    assert_eq!(claim_together(Weakened::Nothing), 0b11);
}

#[test]
#[should_panic(expected = "the ring is not corrupt")]
fn the_model_fails_when_tail_is_relaxed() {
    push_and_pop(Weakened::Tail);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn the_model_fails_when_head_is_relaxed() {
    push_and_pop(Weakened::Head);
}

#[test]
#[should_panic(expected = "the ring is not corrupt")]
fn the_model_fails_when_growth_is_not_published() {
    grow_while_reading(Weakened::Tail);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn the_model_fails_when_a_slot_changes_owner_without_ordering() {
    close_and_claim_again(Weakened::State);
}

#[test]
#[should_panic(expected = "exactly one thread claims the slot")]
fn the_model_fails_when_a_claim_is_not_atomic() {
    claim_together(Weakened::State);
}
