//! Where launches and their GPU times meet before they are written.
//!
//! The two come on different rings and in any order. A launch without its time waits here among the records to be
//! written; a time without its launch waits in `early`; a launch that had to be written without is remembered in
//! `late`, so that its time, when it comes, can be written under the moment of its launch. All three are bounded.

use super::record::{Body, GpuTime, Record};
use gpuspy_wire::record::Untimed;
use std::collections::{HashMap, VecDeque};

/// Times, and launches, remembered beyond the pending records: more than all streams of a process can have in flight.
const REMEMBERED: usize = 1 << 17;

/// A map that forgets what was inserted longest ago.
#[derive(Debug)]
struct Memory<V> {
    values: HashMap<u64, V>,
    /// Keys in the order of insertion, those already taken out included.
    order: VecDeque<u64>,
    /// Values forgotten.
    forgotten: u64,
}

impl<V> Memory<V> {
    fn new() -> Memory<V> {
        Memory { values: HashMap::new(), order: VecDeque::new(), forgotten: 0 }
    }

    fn insert(&mut self, key: u64, value: V) {
        if self.order.len() == REMEMBERED
            && let Some(oldest) = self.order.pop_front()
            && self.values.remove(&oldest).is_some()
        {
            self.forgotten += 1;
        }
        self.order.push_back(key);
        if self.values.insert(key, value).is_some() {
            self.forgotten += 1;
        }
    }

    fn take(&mut self, key: u64) -> Option<V> {
        self.values.remove(&key)
    }
}

/// Where a time went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Into its launch, not yet written.
    Joined,
    /// Its launch was written already; it stood at this moment.
    Late {
        /// The launch's `at`.
        at: u64,
    },
    /// Its launch has not come yet.
    Early,
}

/// Records not yet written, oldest first.
#[derive(Debug)]
pub(super) struct Pending {
    records: VecDeque<Record>,
    /// Records that have left from the front.
    left: u64,
    /// Records that wait for their time: correlation → position, counted from the first record ever.
    waiting: HashMap<u64, u64>,
    early: Memory<GpuTime>,
    late: Memory<u64>,
    joined: u64,
}

/// The correlation of a record that should have a GPU time and has none.
fn wants_time(record: &Record) -> Option<u64> {
    match &record.body {
        Body::Work(work) if work.untimed == Untimed::Timed && work.gpu.is_none() => {
            Some(work.call.correlation)
        }
        _ => None,
    }
}

fn join(record: &mut Record, time: GpuTime) {
    if let Body::Work(work) = &mut record.body {
        work.gpu = Some(time);
    }
}

impl Pending {
    pub fn new() -> Pending {
        Pending {
            records: VecDeque::new(),
            left: 0,
            waiting: HashMap::new(),
            early: Memory::new(),
            late: Memory::new(),
            joined: 0,
        }
    }

    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Times that met their launch here.
    pub fn joined(&self) -> u64 {
        self.joined
    }

    /// Times whose launch has not come, or came after they were forgotten.
    pub fn orphaned(&self) -> u64 {
        self.early.forgotten + self.early.values.len() as u64
    }

    pub fn push(&mut self, mut record: Record) {
        if let Some(correlation) = wants_time(&record) {
            match self.early.take(correlation) {
                Some(time) => {
                    join(&mut record, time);
                    self.joined += 1;
                }
                None => {
                    self.waiting.insert(correlation, self.left + self.records.len() as u64);
                }
            }
        }
        self.records.push_back(record);
    }

    pub fn time(&mut self, correlation: u64, time: GpuTime) -> Place {
        if let Some(position) = self.waiting.remove(&correlation)
            && let Some(record) = self.records.get_mut((position - self.left) as usize)
        {
            join(record, time);
            self.joined += 1;
            return Place::Joined;
        }
        if let Some(at) = self.late.take(correlation) {
            return Place::Late { at };
        }
        self.early.insert(correlation, time);
        Place::Early
    }

    /// The `count` oldest records, in the order of `at`.
    pub fn oldest(&self, count: usize) -> Vec<&Record> {
        let mut oldest: Vec<&Record> = self.records.iter().take(count).collect();
        oldest.sort_by_key(|record| record.at);
        oldest
    }

    /// The `count` oldest records are written: their times, from now on, are late.
    pub fn written(&mut self, count: usize) {
        for record in self.remove(count) {
            if let Some(correlation) = wants_time(&record) {
                self.late.insert(correlation, record.at);
            }
        }
    }

    /// Gives the `count` oldest records up.
    pub fn give_up(&mut self, count: usize) {
        drop(self.remove(count));
    }

    fn remove(&mut self, count: usize) -> Vec<Record> {
        let removed: Vec<Record> = self.records.drain(..count.min(self.records.len())).collect();
        self.left += removed.len() as u64;
        for correlation in removed.iter().filter_map(wants_time) {
            // Unless a younger record of the same correlation waits under it.
            if self.waiting.get(&correlation).is_some_and(|position| *position < self.left) {
                self.waiting.remove(&correlation);
            }
        }
        removed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_memory_forgets_the_oldest_and_counts_it() {
        let mut memory = Memory::new();
        for key in 0..REMEMBERED as u64 + 10 {
            memory.insert(key, key);
        }
        assert_eq!((memory.values.len(), memory.forgotten), (REMEMBERED, 10));
        assert_eq!((memory.take(9), memory.take(10)), (None, Some(10)));
    }
}
