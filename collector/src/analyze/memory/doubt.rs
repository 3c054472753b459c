//! Between what calls that overlap leave the most that was held.
//!
//! A block comes at some moment of the call that takes it and goes at some moment of the one that frees it. So it is
//! certainly held from the end of the first to the begin of the second, and possibly from the begin of the first to the
//! end of the second. The most that was certainly held at a moment is the least that the peak can be; the most that was
//! possibly held, the most. Where no two calls overlap, both are the same: a thread knows the order of its own calls.
//!
//! Records of calls come at their end, so what a call took is put in behind the fact: it may have been there beside
//! all that was held since the call began. A launch of a graph takes and frees at one moment of its call.

use crate::model::memory::MemoryChange;
use std::collections::VecDeque;

/// Stretches that are remembered at most. Calls that overlap with more than so many frees of other threads are reckoned
/// with the most of several stretches, which can only widen the interval.
const MOST_STRETCHES: usize = 1 << 12;

/// What one call does to the memory of a kind, or of all kinds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Effect {
    /// The most by which more is held at a moment of it.
    rise: u64,
    /// What has come and what has gone so far.
    came: u64,
    went: u64,
}

impl Effect {
    /// Takes what the call does next.
    pub fn takes(&mut self, change: &MemoryChange) {
        let mut passing = 0;
        match *change {
            MemoryChange::Allocated { bytes, .. } => self.came = self.came.saturating_add(bytes),
            MemoryChange::Freed { bytes, .. } | MemoryChange::Vanished { bytes, .. } => {
                self.went = self.went.saturating_add(bytes);
            }
            MemoryChange::Passed { at_once, .. } => passing = at_once,
            MemoryChange::FreeFailed { .. } => {}
        }
        self.rise = self.rise.max(self.came.saturating_add(passing).saturating_sub(self.went));
    }
}

/// When a call was, host ns.
#[derive(Clone, Copy, Debug)]
pub struct When {
    /// Nothing of it happened before.
    pub began: i64,
    /// Nothing of it happens after.
    pub ended: i64,
    /// Some of it lies in the time that is asked for.
    pub touches: bool,
    /// Its end lies in there.
    pub counts: bool,
}

/// The interval of a peak, as it is found.
#[derive(Clone, Debug, Default)]
pub struct Doubt {
    /// The peak is no less, and when that was.
    lo: u64,
    lo_at: i64,
    /// The peak is no more.
    hi: u64,
    /// Bytes of blocks whose free has begun and not ended.
    freeing: u64,
    /// When what is certainly held changed last.
    changed: i64,
    /// The most that was possibly held since a moment, where that is more than what is now: until when, and how much.
    /// Later ones are less.
    past: VecDeque<(i64, u64)>,
}

impl Doubt {
    /// The least and the most that the peak can be, if its best value is this.
    pub fn around(&self, peak: u64) -> (u64, u64) {
        (self.lo.min(peak), self.hi.max(peak))
    }

    /// A part of the time that is asked for begins at a moment, with so much held by the calls that have ended.
    pub fn enters(&mut self, held: u64, at: i64) {
        self.past.clear();
        self.hi = self.hi.max(held);
        self.certain(held.saturating_sub(self.freeing), at);
    }

    /// The call that frees a block begins.
    pub fn begins_to_free(&mut self, bytes: u64, at: i64) {
        self.freeing = self.freeing.saturating_add(bytes);
        self.changed = at;
    }

    /// It has failed: the block is there.
    pub fn fails_to_free(&mut self, bytes: u64, at: i64) {
        self.freeing = self.freeing.saturating_sub(bytes);
        self.changed = at;
    }

    /// It is over; its effect follows.
    pub fn ends_to_free(&mut self, bytes: u64) {
        self.freeing = self.freeing.saturating_sub(bytes);
    }

    /// A call is over: what was held by all calls that had ended before, and by all that have now.
    pub fn call(&mut self, (before, after): (u64, u64), effect: Effect, when: When) {
        self.possible((before, after), effect.rise, when);
        let is_alone = self.changed <= when.began;
        self.changed = when.ended;
        if !is_alone && self.lo_at > when.began {
            // What it frees may have gone before that was the most.
            self.lo = self.lo.saturating_sub(effect.went);
        }
        if when.counts {
            let most = if is_alone && effect.rise > 0 { before.saturating_add(effect.rise) } else { after };
            self.certain(most.saturating_sub(self.freeing), when.ended);
        }
    }

    /// A call that ends may have had its effect, which is `rise` at the most, at any moment since it began.
    fn possible(&mut self, (before, after): (u64, u64), rise: u64, when: When) {
        let top = before.saturating_add(rise);
        let overlapping = self.past.partition_point(|(until, _)| *until <= when.began);
        self.past.range_mut(overlapping..).for_each(|(_, held)| *held = held.saturating_add(rise));
        let most = self.past.get(overlapping).map_or(top, |(_, held)| top.max(*held));
        if when.touches {
            self.hi = self.hi.max(most);
        }
        // What was less than what is held later nobody asks for any more.
        let less = self.past.iter().take(overlapping).position(|(_, held)| *held <= most);
        self.past.drain(less.unwrap_or(overlapping)..overlapping);
        if top > after {
            self.past.push_back((when.ended, top));
        }
        if self.past.len() > MOST_STRETCHES
            && let Some((_, held)) = self.past.pop_front()
            && let Some(next) = self.past.front_mut()
        {
            next.1 = held;
        }
    }

    /// So much is certainly held at a moment.
    fn certain(&mut self, held: u64, at: i64) {
        if held > self.lo {
            (self.lo, self.lo_at) = (held, at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::memory::Allocator;
    use gpuspy_wire::record::Memory;
    use proptest::prelude::*;

    /// A call that takes bytes, or gives them back where negative, from its begin to its end.
    type Call = (i64, i64, i64);

    fn interval(calls: &[Call]) -> (u64, u64) {
        // In the order in which a trace tells them: what is freed at its begin and its end, what is taken at its end.
        let mut told: Vec<(i64, bool, Call)> = calls.iter().map(|call| (call.1, false, *call)).collect();
        told.extend(calls.iter().filter(|call| call.2 < 0).map(|call| (call.0, true, *call)));
        told.sort_unstable_by_key(|(at, is_begin, _)| (*at, *is_begin));
        let (mut doubt, mut held, mut peak) = (Doubt::default(), 0u64, 0);
        for (at, is_begin, (began, ended, bytes)) in told {
            let size = bytes.unsigned_abs();
            if is_begin {
                doubt.begins_to_free(size, at);
                continue;
            }
            let (memory, of, before) = (Memory::Device, Allocator::default(), held);
            let mut effect = Effect::default();
            let began = if bytes < 0 {
                doubt.ends_to_free(size);
                effect.takes(&MemoryChange::Freed { memory, bytes: size, of });
                ended
            } else {
                effect.takes(&MemoryChange::Allocated { memory, bytes: size, of });
                began
            };
            held = held.wrapping_add_signed(bytes);
            doubt.call((before, held), effect, When { began, ended, touches: true, counts: true });
            peak = held.max(peak);
        }
        doubt.around(peak)
    }

    /// Eight threads, one behind the other: each takes 256 MiB and frees them, which takes until the last has begun to.
    #[test]
    fn blocks_whose_frees_have_begun_may_all_be_there() {
        let size = 256 << 20;
        let came = (0..8).map(|n| (100 * n, 100 * n + 10, size));
        let went = (0..8).map(|n| (100 * n + 20, 1_000 + n, -size));
        let calls: Vec<Call> = came.chain(went).collect();
        assert_eq!(interval(&calls), (256 << 20, 2 << 30));
    }

    #[test]
    fn calls_one_behind_the_other_leave_no_doubt() {
        let calls = [(0, 5, 100), (5, 9, 50), (9, 20, -100), (20, 21, 80), (30, 40, -50), (40, 50, -80)];
        assert_eq!(interval(&calls), (150, 150));
    }

    #[test]
    fn what_a_call_takes_may_have_been_there_since_it_began() {
        assert_eq!(interval(&[(0, 5, 100), (10, 90, 30), (20, 25, -100)]), (100, 130));
        assert_eq!(interval(&[(0, 5, 100), (25, 90, 30), (20, 25, -100)]), (100, 100), "it began behind");
    }

    proptest! {
        /// Each block comes at some moment of one call of its thread and goes at some moment of the next: whichever those are,
        /// the peak is inside; and where threads take turns, it is known.
        #[test]
        fn the_peak_is_inside_whenever_blocks_come_and_go(
            threads in prop::collection::vec(prop::collection::vec((0i64..30, 1i64..40, 1i64..100, 0i64..40), 1..12), 1..6),
        ) {
            let (mut calls, mut moments) = (Vec::new(), Vec::new());
            for steps in &threads {
                let (mut now, mut last) = (0, 0);
                for (step, (pause, takes, bytes, within)) in steps.iter().enumerate() {
                    let began = now + pause;
                    now = began + takes;
                    let bytes = if step % 2 == 0 { *bytes } else { -last };
                    last = bytes;
                    calls.push((began, now, bytes));
                    // Twice as fine as the calls: nothing happens in the very moment of a begin or an end.
                    moments.push((2 * began + 1 + 2 * (within % takes), bytes));
                }
            }
            moments.sort_unstable();
            let mut held = 0;
            let peak = moments.iter().map(|(_, bytes)| { held += bytes; held }).max().unwrap_or(0) as u64;
            let (lo, hi) = interval(&calls);
            prop_assert!(lo <= peak && peak <= hi, "{lo}..{hi}: {peak}");
            prop_assert!(threads.len() > 1 || lo == hi, "{lo}..{hi}");
        }
    }
}
