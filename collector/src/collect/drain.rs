//! How are a segment's rings emptied? Slot by slot, without interpreting the records.

use gpuspy_wire::record::CELL_WORDS;
use gpuspy_wire::ring::{Corrupt, MAX_RECORD_WORDS, Phase, Reader};
use gpuspy_wire::segment::{Segment, Slot};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The number of words that a round takes from a slot, give or take a record, so that no slot delays the others for
/// long.
pub const BATCH_WORDS: usize = 8192;

/// Records of one thread, in the thread's order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// The thread's claim number.
    pub thread: u32,
    /// Its Linux thread id.
    pub tid: u32,
    /// Whole records, one after another.
    pub words: Vec<u64>,
    /// How often the ring did not contain a record where one should be.
    pub corrupt: u64,
}

impl Batch {
    /// The bytes of its records.
    pub fn bytes(&self) -> usize {
        self.words.len() * size_of::<u64>()
    }
}

/// The result of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Round {
    /// The number of words taken from the slot that had the most.
    pub fullest: usize,
    /// Whether a slot had more than a round takes.
    pub more: bool,
}

/// The receiver of the batches no longer exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gone;

/// The reading ends of all slots.
pub struct Drain<'s> {
    slots: Vec<SlotReader<'s>>,
    record: Box<[u64; MAX_RECORD_WORDS]>,
}

struct SlotReader<'s> {
    slot: &'s Slot,
    reader: Reader<'s, AtomicU64>,
    /// The generation of the slot's owner that was seen last.
    generation: u64,
    thread: u32,
    tid: u32,
    /// Whether the ring's cursors are inconsistent, which has been counted.
    stuck: bool,
}

impl<'s> Drain<'s> {
    /// Starts where the last reader stopped.
    pub fn new(segment: Segment<'s>) -> Drain<'s> {
        let slots = (0..segment.layout().slots as usize).filter_map(|n| {
            let slot = segment.slot(n)?;
            let reader = Reader::new(&slot.cursors, segment.buffers(n)?)?;
            Some(SlotReader { slot, reader, generation: 0, thread: 0, tid: 0, stuck: false })
        });
        Drain { slots: slots.collect(), record: Box::new([0; MAX_RECORD_WORDS]) }
    }

    /// Takes at most a batch from every slot, and frees closed slots that are empty.
    ///
    /// # Errors
    /// Returns [`Gone`] if `deliver` does.
    pub fn round(&mut self, mut deliver: impl FnMut(Batch) -> Result<(), Gone>) -> Result<Round, Gone> {
        let mut round = Round::default();
        for slot in &mut self.slots {
            let (phase, generation) = slot.slot.state.get();
            if !matches!(phase, Phase::Open | Phase::Closed) {
                continue;
            }
            if generation != slot.generation {
                slot.begin(generation);
            }
            let batch = slot.take(&mut self.record);
            round.fullest = round.fullest.max(batch.words.len());
            let more = batch.words.len() >= BATCH_WORDS;
            round.more |= more;
            if !batch.words.is_empty() || batch.corrupt != 0 {
                deliver(batch)?;
            }
            // The phase was read before the ring was emptied, so all records of a closed slot have been taken
            // (contract 8).
            if phase == Phase::Closed && !more {
                slot.slot.state.free(generation);
            }
        }
        Ok(round)
    }
}

impl SlotReader<'_> {
    fn begin(&mut self, generation: u64) {
        self.generation = generation;
        // Relaxed: published by the release that opened the slot, which `state.get` acquired.
        self.thread = self.slot.claim.load(Ordering::Relaxed) as u32;
        self.tid = self.slot.tid.load(Ordering::Relaxed) as u32;
        self.reader.reopened();
    }

    fn take(&mut self, record: &mut [u64; MAX_RECORD_WORDS]) -> Batch {
        let mut batch = Batch { thread: self.thread, tid: self.tid, words: Vec::new(), corrupt: 0 };
        while batch.words.len() < BATCH_WORDS {
            match self.reader.pop(record) {
                Ok(Some(words)) => {
                    batch.words.extend_from_slice(words);
                    self.stuck = false;
                }
                Ok(None) => break,
                Err(Corrupt { words }) => {
                    // A tail before the head, or inside a cell, stays that way: count it once, not in every round.
                    let moved = words >= CELL_WORDS as u64;
                    batch.corrupt += u64::from(moved || !self.stuck);
                    self.stuck = !moved;
                    break;
                }
            }
        }
        if !batch.words.is_empty() || batch.corrupt != 0 {
            self.reader.release();
        }
        batch
    }
}

/// The pause between rounds: as long as possible while no ring gets nearly full.
#[derive(Clone, Copy, Debug)]
pub struct Pace(Duration);

impl Pace {
    const SHORTEST: Duration = Duration::from_millis(1);
    const LONGEST: Duration = Duration::from_millis(10);
    /// A quarter of the smallest buffer, in words: a thread that fills that much in a pause fills the buffer in four.
    const MUCH: usize = gpuspy_wire::segment::LEVEL_CELLS[0] * CELL_WORDS / 4;

    /// Starts without a pause.
    pub fn new() -> Pace {
        Pace(Pace::SHORTEST)
    }

    /// Returns the pause after a round.
    pub fn after(&mut self, round: Round) -> Duration {
        if round.more {
            self.0 = Pace::SHORTEST;
            return Duration::ZERO;
        }
        if round.fullest >= Pace::MUCH {
            // At this rate, MUCH words arrive in the new pause.
            self.0 = (self.0 * Pace::MUCH as u32 / round.fullest as u32).max(Pace::SHORTEST);
        } else if round.fullest < Pace::MUCH / 4 {
            self.0 = (self.0 * 2).min(Pace::LONGEST);
        }
        self.0
    }
}

impl Default for Pace {
    fn default() -> Self {
        Pace::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pace_follows_the_load() {
        let mut pace = Pace::new();
        for _ in 0..10 {
            pace.after(Round::default());
        }
        assert_eq!(pace.after(Round::default()), Pace::LONGEST, "idle: seldom");
        assert_eq!(pace.after(Round { fullest: 4 * Pace::MUCH, more: false }), Pace::LONGEST / 4);
        assert_eq!(pace.after(Round { fullest: 100 * Pace::MUCH, more: false }), Pace::SHORTEST);
        assert_eq!(
            pace.after(Round { fullest: BATCH_WORDS, more: true }),
            Duration::ZERO,
            "there is more: no pause"
        );
        assert_eq!(
            pace.after(Round { fullest: Pace::MUCH / 2, more: false }),
            Pace::SHORTEST,
            "a steady load keeps the pause"
        );
    }
}
