//! Where do launches meet their GPU times before they are written?
//!
//! Launches and times come from different rings, in any order. A launch without its time waits here among the records
//! to be written; a time without its launch waits in `early`; a launch that had to be written without its time is
//! remembered in `late`, so that the time can be written with the launch's `at` when it comes. All three are bounded.
//! On request `late` keeps the records of its launches, too: they are few, and launches that meet their times here cost
//! nothing for it.

use super::record::{Body, GpuTime, Record};
use crate::hash::HashMap;
use std::collections::VecDeque;

/// Limit on the times and launches in `early` and `late`: more than all streams of a process can have in flight.
const REMEMBERED: usize = 1 << 17;

/// A map that drops its oldest entries.
#[derive(Debug)]
struct Memory<V> {
    values: HashMap<u64, V>,
    /// Keys in the order of insertion, including those that were taken out.
    order: VecDeque<u64>,
    /// The number of values that were dropped.
    forgotten: u64,
}

impl<V> Memory<V> {
    fn new() -> Memory<V> {
        Memory { values: HashMap::default(), order: VecDeque::new(), forgotten: 0 }
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

/// A launch that was written without its time.
#[derive(Debug)]
struct Late {
    at: u64,
    /// Its record, if these are kept.
    record: Option<Box<Record>>,
}

/// What happened to a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// It was joined to its launch, which was still pending.
    Joined,
    /// Its launch had already been written.
    Late {
        /// The launch's `at`.
        at: u64,
    },
    /// Its launch has not come yet.
    Early,
}

/// Records that are not written yet, oldest first.
#[derive(Debug)]
pub(super) struct Pending {
    records: VecDeque<Record>,
    /// The number of records removed from the front.
    left: u64,
    /// Correlation → position of a record that waits for its time, counted from the first record of the session.
    waiting: HashMap<u64, u64>,
    early: Memory<GpuTime>,
    late: Memory<Late>,
    /// Whether `late` has the records.
    keeps_late: bool,
    joined: u64,
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
            waiting: HashMap::default(),
            early: Memory::new(),
            late: Memory::new(),
            keeps_late: false,
            joined: 0,
        }
    }

    /// Keeps the records of launches that are written without their times from here on.
    pub fn keep_late(&mut self) {
        self.keeps_late = true;
    }

    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// The number of launches whose times have not come, as far as they are remembered.
    pub fn awaiting(&self) -> usize {
        self.waiting.len() + self.late.values.len()
    }

    /// Whether the launch with this correlation has come, and its time has not.
    pub fn awaits(&self, correlation: u64) -> bool {
        self.waiting.contains_key(&correlation) || self.late.values.contains_key(&correlation)
    }

    /// The launches that were written without their times, as far as they are kept, and the records that are not written.
    pub fn held(&self) -> impl Iterator<Item = &Record> {
        let late = self.late.values.values().filter_map(|late| late.record.as_deref());
        late.chain(&self.records)
    }

    /// The number of times that met their launch here.
    pub fn joined(&self) -> u64 {
        self.joined
    }

    /// The number of times whose launch has not come, or came after they were dropped.
    pub fn orphaned(&self) -> u64 {
        self.early.forgotten + self.early.values.len() as u64
    }

    pub fn push(&mut self, mut record: Record) {
        if let Some(correlation) = record.awaits_time() {
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
        if let Some(late) = self.late.take(correlation) {
            return Place::Late { at: late.at };
        }
        self.early.insert(correlation, time);
        Place::Early
    }

    /// The `count` oldest records, ordered by `at`.
    pub fn oldest(&mut self, count: usize) -> Vec<&mut Record> {
        let mut oldest: Vec<&mut Record> = self.records.iter_mut().take(count).collect();
        oldest.sort_by_key(|record| record.at);
        oldest
    }

    /// Removes the `count` oldest records, which have been written: their times will be late.
    pub fn written(&mut self, count: usize) {
        let keeps = self.keeps_late;
        self.remove(count, |late, correlation, record| {
            let at = record.at;
            late.insert(correlation, Late { at, record: keeps.then(|| Box::new(record)) });
        });
    }

    /// Removes the `count` oldest records without having written them.
    pub fn give_up(&mut self, count: usize) {
        self.remove(count, |_, _, _| ());
    }

    /// Removes records, and hands over those of which no time has come, with their correlation.
    fn remove(&mut self, count: usize, mut untimed: impl FnMut(&mut Memory<Late>, u64, Record)) {
        let count = count.min(self.records.len());
        self.left += count as u64;
        for record in self.records.drain(..count) {
            let Some(correlation) = record.awaits_time() else { continue };
            // A younger record with the same correlation may wait under the same key; it stays.
            if self.waiting.get(&correlation).is_some_and(|position| *position < self.left) {
                self.waiting.remove(&correlation);
            }
            untimed(&mut self.late, correlation, record);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn launches_that_were_written_without_their_times_are_held_if_asked_for() {
        let launch = |correlation| {
            let mut work = crate::model::simulation::work(10, 5, 0);
            work.call.correlation = correlation;
            Record { thread: 1, at: 10, body: Body::Work(work) }
        };
        for keeps in [false, true] {
            let mut pending = Pending::new();
            if keeps {
                pending.keep_late();
            }
            (1..=3).for_each(|correlation| pending.push(launch(correlation)));
            pending.time(1, GpuTime::default());
            pending.written(2);
            assert_eq!([1, 2, 3].map(|correlation| pending.awaits(correlation)), [false, true, true]);
            let held: Vec<Option<u64>> = pending.held().map(Record::awaits_time).collect();
            assert_eq!(held, if keeps { vec![Some(2), Some(3)] } else { vec![Some(3)] });
            assert_eq!(pending.time(2, GpuTime::default()), Place::Late { at: 10 });
            assert_eq!(pending.held().count(), 1);
        }
    }

    #[test]
    fn a_full_memory_drops_the_oldest_and_counts_it() {
        let mut memory = Memory::new();
        for key in 0..REMEMBERED as u64 + 10 {
            memory.insert(key, key);
        }
        assert_eq!((memory.values.len(), memory.forgotten), (REMEMBERED, 10));
        assert_eq!((memory.take(9), memory.take(10)), (None, Some(10)));
    }
}
