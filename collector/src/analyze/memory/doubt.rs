//! The bounds of a memory peak where calls overlap, or a graph takes and frees blocks.
//!
//! A block is allocated at some moment of the call that allocates it and freed at some moment of the call that frees
//! it. So it is certainly held from the end of the first call to the start of the second, and possibly from the start
//! of the first to the end of the second. The lower bound of the peak is the most that was certainly held at a
//! moment, and the upper bound is the most that was possibly held. Where no two calls overlap, both are equal, since
//! the order of one thread's calls is known; unless a launch of a graph takes and frees several blocks, which it may hold
//! at once or one after the other.
//!
//! Records of calls come at their end, so an allocation is added in hindsight: it may have been there together with
//! everything that was held since its call began. A launch of a graph allocates and frees at one moment of its call.

use crate::model::memory::MemoryChange;
use std::collections::VecDeque;

/// The most intervals that are remembered. A call that overlaps more frees of other threads than this is compared
/// with the maximum of several intervals, which can only widen the bounds.
const MOST_STRETCHES: usize = 1 << 12;

/// Why the bounds of a peak may differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reasons {
    /// Calls of several threads overlapped.
    pub overlap: bool,
    /// A launch of a graph took and freed several blocks.
    pub graphs: bool,
}

impl Reasons {
    /// Adds those of another peak.
    pub fn add(&mut self, other: Reasons) {
        self.overlap |= other.overlap;
        self.graphs |= other.graphs;
    }
}

/// What one call does to memory of a kind, or of all kinds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Effect {
    /// The most by which it raises what is held at any moment of it, bytes.
    rise: u64,
    /// The least by which it certainly raises that at some moment of it, if no other call overlaps, bytes.
    least: u64,
    /// The bytes allocated and freed so far.
    came: u64,
    went: u64,
}

impl Effect {
    /// Adds the call's next change.
    pub fn takes(&mut self, change: &MemoryChange) {
        let (mut passing, mut largest) = (0, 0);
        match *change {
            MemoryChange::Allocated { bytes, .. } => self.came = self.came.saturating_add(bytes),
            MemoryChange::Freed { bytes, .. } | MemoryChange::Vanished { bytes, .. } => {
                self.went = self.went.saturating_add(bytes);
            }
            MemoryChange::Passed { at_once, largest: of_one, .. } => (passing, largest) = (at_once, of_one),
            MemoryChange::FreeFailed { .. } => {}
        }
        let raised = |by: u64| self.came.saturating_add(by).saturating_sub(self.went);
        (self.rise, self.least) = (self.rise.max(raised(passing)), self.least.max(raised(largest)));
    }
}

/// The time of a call, host ns.
#[derive(Clone, Copy, Debug)]
pub struct When {
    /// Nothing of it happened before this.
    pub began: i64,
    /// Nothing of it happened after this.
    pub ended: i64,
    /// Some of it is in the selected time.
    pub touches: bool,
    /// Its end is in the selected time.
    pub counts: bool,
}

/// The bounds of a peak, updated call by call.
#[derive(Clone, Debug, Default)]
pub struct Doubt {
    /// The lower bound of the peak, bytes, and the time at which it was reached.
    lo: u64,
    lo_at: i64,
    /// The upper bound of the peak, bytes.
    hi: u64,
    /// Bytes of blocks whose free has started and not returned.
    freeing: u64,
    /// The time of the last change of what is certainly held.
    changed: i64,
    /// Times until which more was possibly held than now, and how much that was at the most since the entry before.
    /// Amounts decrease from entry to entry.
    past: VecDeque<(i64, u64)>,
    /// Why the bounds may differ.
    reasons: Reasons,
}

impl Doubt {
    /// Returns the bounds of the peak, given its best value.
    pub fn around(&self, peak: u64) -> (u64, u64) {
        (self.lo.min(peak), self.hi.max(peak))
    }

    /// Returns why these bounds may differ.
    pub fn reasons(&self) -> Reasons {
        self.reasons
    }

    /// Starts a part of the selected time at a moment when the returned calls hold `held` bytes.
    pub fn enters(&mut self, held: u64, at: i64) {
        self.past.clear();
        self.hi = self.hi.max(held);
        self.certain(held.saturating_sub(self.freeing), at);
    }

    /// Starts a call that frees a block.
    pub fn begins_to_free(&mut self, bytes: u64, at: i64) {
        self.freeing = self.freeing.saturating_add(bytes);
        self.changed = at;
    }

    /// Ends a call that failed to free a block: the block is still there.
    pub fn fails_to_free(&mut self, bytes: u64, at: i64) {
        self.freeing = self.freeing.saturating_sub(bytes);
        self.changed = at;
    }

    /// Ends a call that freed a block; its effect follows.
    pub fn ends_to_free(&mut self, bytes: u64) {
        self.freeing = self.freeing.saturating_sub(bytes);
    }

    /// Ends a call, given what was held according to the calls that had returned before it, and with it.
    pub fn call(&mut self, (before, after): (u64, u64), effect: Effect, when: When) {
        self.possible((before, after), effect.rise, when);
        let is_alone = self.changed <= when.began;
        self.changed = when.ended;
        let overlaps = effect.rise > 0 && (!is_alone || self.freeing > 0);
        self.reasons.add(Reasons { overlap: overlaps, graphs: effect.least < effect.rise });
        if !is_alone && self.lo_at > when.began {
            // What it frees may have been gone before the lower bound was reached.
            self.lo = self.lo.saturating_sub(effect.went);
        }
        if when.counts {
            let held = if is_alone && effect.least > 0 { before.saturating_add(effect.least) } else { after };
            self.certain(held.saturating_sub(self.freeing), when.ended);
        }
    }

    /// Raises the upper bound: a call that returns may have had its effect, at most `rise`, at any moment since it
    /// began.
    fn possible(&mut self, (before, after): (u64, u64), rise: u64, when: When) {
        let top = before.saturating_add(rise);
        let overlapping = self.past.partition_point(|(until, _)| *until <= when.began);
        self.past.range_mut(overlapping..).for_each(|(_, held)| *held = held.saturating_add(rise));
        let most = self.past.get(overlapping).map_or(top, |(_, held)| top.max(*held));
        if when.touches {
            self.hi = self.hi.max(most);
        }
        // Entries below what is held later are no longer needed.
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

    /// Records that this much is certainly held at a moment.
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

    /// A call that allocates bytes, or frees them if negative, from its start to its end.
    type Call = (i64, i64, i64);

    fn interval(calls: &[Call]) -> (u64, u64) {
        let (doubt, peak) = doubt(calls);
        doubt.around(peak)
    }

    /// The bounds after these calls, and the best value of the peak.
    fn doubt(calls: &[Call]) -> (Doubt, u64) {
        // In trace order: a free has records at its start and its end, an allocation at its end.
        let mut reported: Vec<(i64, bool, Call)> = calls.iter().map(|call| (call.1, false, *call)).collect();
        reported.extend(calls.iter().filter(|call| call.2 < 0).map(|call| (call.0, true, *call)));
        reported.sort_unstable_by_key(|(at, is_begin, _)| (*at, *is_begin));
        let (mut doubt, mut held, mut peak) = (Doubt::default(), 0u64, 0);
        for (at, is_begin, (began, ended, bytes)) in reported {
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
        (doubt, peak)
    }

    fn reasons(calls: &[Call]) -> Reasons {
        doubt(calls).0.reasons()
    }

    /// A graph that allocates and frees one block after another was said to hold both at once, exactly.
    #[test]
    fn blocks_of_a_graph_may_exist_one_after_the_other() {
        let (memory, of, mut effect) = (Memory::Graph, Allocator::default(), Effect::default());
        effect.takes(&MemoryChange::Passed { memory, blocks: 2, bytes: 30, at_once: 30, largest: 20, of });
        let mut doubt = Doubt::default();
        doubt.call((5, 5), effect, When { began: 10, ended: 20, touches: true, counts: true });
        assert_eq!(doubt.around(35), (25, 35));
        assert_eq!(doubt.reasons(), Reasons { overlap: false, graphs: true });
    }

    /// Of a program with one thread, and with a graph that takes and frees blocks, it was said that calls of several threads overlap.
    #[test]
    fn calls_overlap_only_where_another_call_ran_beside_one_that_takes_memory() {
        let overlap = Reasons { overlap: true, graphs: false };
        let one_thread = [(0, 5, 100), (5, 9, 50), (9, 20, -100), (20, 21, 80), (30, 40, -50)];
        assert_eq!(reasons(&one_thread), Reasons::default());
        assert_eq!(reasons(&[(0, 5, 100), (10, 90, 30), (20, 25, -100)]), overlap, "a free within it");
        assert_eq!(reasons(&[(0, 5, 100), (10, 90, -100), (20, 25, 30)]), overlap, "within a free");
        assert_eq!(reasons(&[(0, 5, 100), (2, 9, 30)]), overlap);
    }

    /// Eight threads, each starting after the one before: each allocates 256 MiB and frees them, and no free returns
    /// until the last one has started.
    #[test]
    fn blocks_may_be_held_until_their_frees_return() {
        let size = 256 << 20;
        let came = (0..8).map(|n| (100 * n, 100 * n + 10, size));
        let went = (0..8).map(|n| (100 * n + 20, 1_000 + n, -size));
        let calls: Vec<Call> = came.chain(went).collect();
        assert_eq!(interval(&calls), (256 << 20, 2 << 30));
    }

    #[test]
    fn calls_that_do_not_overlap_leave_no_doubt() {
        let calls = [(0, 5, 100), (5, 9, 50), (9, 20, -100), (20, 21, 80), (30, 40, -50), (40, 50, -80)];
        assert_eq!(interval(&calls), (150, 150));
    }

    #[test]
    fn an_allocation_may_have_been_there_since_its_call_began() {
        assert_eq!(interval(&[(0, 5, 100), (10, 90, 30), (20, 25, -100)]), (100, 130));
        assert_eq!(interval(&[(0, 5, 100), (25, 90, 30), (20, 25, -100)]), (100, 100), "it began behind");
    }

    proptest! {
        /// Each block is allocated at some moment of one call of its thread and freed at some moment of the next
        /// call. Whichever moments those are, the true peak is within the bounds; and where threads take turns, the
        /// bounds are equal.
        #[test]
        fn the_true_peak_is_within_the_bounds(
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
                    // Twice as fine as the calls, so that nothing happens at the exact start or end of one.
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
