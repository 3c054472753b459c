//! When may records be missing from a trace?
//!
//! Losses are counted, and the counts are looked at ten times a second: what was lost between two looks may have been called
//! at any time between them. Of a damaged or missing chunk, the chunks on both sides say from when it is.

use super::format::{ChunkKind, Header};

/// The most stretches that are kept.
const MOST: usize = 4096;

/// Stretches of host time in which records may have been lost: ns, from the first moment to the last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LostTime {
    /// In any order until they are [sorted](LostTime::sorted).
    stretches: Vec<(u64, u64)>,
}

impl LostTime {
    /// Adds a stretch.
    pub(super) fn add(&mut self, from: u64, to: u64) {
        self.stretches.push((from.min(to), to));
        if self.stretches.len() >= 2 * MOST {
            self.sort();
        }
    }

    /// Adds when the records of a chunk were made that cannot be read, if it has records. Calls take until their records are
    /// made; those in it began after the last record of the chunk before.
    pub(super) fn add_chunk(&mut self, header: &Header, last_before: u64) {
        if header.known_kind() == Some(ChunkKind::Records) {
            self.add(header.first.min(last_before), header.last);
        }
    }

    /// Adds those of another.
    pub(super) fn extend(&mut self, other: &LostTime) {
        other.stretches.iter().for_each(|(from, to)| self.add(*from, *to));
    }

    /// Leaves out what is after a moment.
    pub(super) fn end_at(&mut self, end: u64) {
        self.stretches.retain(|(from, _)| *from <= end);
        self.stretches.iter_mut().for_each(|(_, to)| *to = end.min(*to));
    }

    /// Returns the stretches in order. They do not touch, and there are some thousand at most: of more, those that are close
    /// together are one.
    pub fn sorted(mut self) -> Vec<(u64, u64)> {
        self.sort();
        self.stretches
    }

    fn sort(&mut self) {
        self.stretches.sort_unstable();
        self.join(0);
        if self.stretches.len() > MOST {
            let between = self.stretches.windows(2).map(|pair| pair[1].0 - pair[0].1);
            let mut between: Vec<u64> = between.collect();
            // More than half of them go, so that this is seldom.
            let at = between.len() / 2;
            let (_, &mut close, _) = between.select_nth_unstable(at);
            self.join(close);
        }
    }

    /// Makes one of those that are not further apart than so many ns.
    fn join(&mut self, close: u64) {
        self.stretches.dedup_by(|next, last| {
            let is_close = next.0 <= last.1.saturating_add(close);
            if is_close {
                last.1 = last.1.max(next.1);
            }
            is_close
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_very_many_losses_those_close_together_are_one() {
        let mut lost = LostTime::default();
        let all = 10 * MOST as u64;
        // In pairs that are close together.
        for n in (0..all).rev() {
            let from = n / 2 * 1_000 + n % 2 * 20;
            lost.add(from, from + 10);
        }
        let sorted = lost.sorted();
        assert!((2..=2 * MOST).contains(&sorted.len()), "{}", sorted.len());
        assert!(sorted.windows(2).all(|pair| pair[0].1 < pair[1].0));
        assert_eq!((sorted[0].0, sorted[sorted.len() - 1].1), (0, (all / 2 - 1) * 1_000 + 30));
        assert_eq!(LostTime { stretches: vec![(5, 9), (1, 4), (4, 5)] }.sorted(), [(1, 9)]);
    }
}
