//! How many entries does a stream hold, and how densely may our events be recorded on it?
//!
//! A stream's launch queue holds 1020 entries (on an H200; about 1024 in OneFlow PR#890); a thread that launches one more waits
//! until the GPU has finished one. A GPU-bound program keeps its queue full all the time, so a deep stream is
//! the common case. Our own entries are events, and two concerns limit them:
//!
//! - **Their cost.** An event takes a place in the queue and about a microsecond of the GPU, and on a deep
//!   stream both delay the program. There, about one operation in eight is timed alone and the others are
//!   timed in runs ([`burst`](super::burst)).
//! - **What they could block.** A program may fill a queue behind a wait that only the program itself can end
//!   afterwards. If our events took the last places, it would hang. So where no entry completes, events
//!   become sparse, and in the last sixteenth of the queue there are none.
//!
//! The limits are shares of the queue's length, which `CUDA_SCALE_LAUNCH_QUEUES` scales (CUDA C++ Programming
//! Guide, "CUDA Environment Variables": 0.25x, 0.5x, 2x, 4x).

use core::ffi::CStr;
use core::sync::atomic::{AtomicU64, Ordering};

/// The number of places in a launch queue that the environment does not scale; four of them are never taken.
const QUEUE: u64 = 1024;

/// How densely our events may follow the entries that a stream holds at the moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Density {
    /// Each operation may have a pair of events.
    Each,
    /// One operation in several may have a pair; the others are timed as a run. Entries are completing.
    Sampled,
    /// One event in many entries is recorded, besides those that start again what another entry has cut, which are limited by
    /// [`Queue::most_events`]. No entry was observed to complete lately.
    Sparse,
    /// No event is recorded: it could be the entry that blocks the program.
    None,
}

/// The length of launch queues.
#[derive(Clone, Copy)]
pub struct Queue {
    entries: u64,
}

impl Queue {
    /// Returns the length for a value of `CUDA_SCALE_LAUNCH_QUEUES`.
    pub fn scaled(by: Option<&CStr>) -> Queue {
        let entries = match by.map(CStr::to_bytes) {
            Some(b"0.25x") => QUEUE / 4,
            Some(b"0.5x") => QUEUE / 2,
            Some(b"2x") => QUEUE * 2,
            Some(b"4x") => QUEUE * 4,
            _ => QUEUE,
        };
        Queue { entries }
    }

    /// The depth up to which each operation may have a pair in any case. Half of these entries are then ours,
    /// which leaves room for a program that fills nine tenths of its queue. Also the number of entries that
    /// may be enqueued before the next completion must be observed.
    fn shallow(self) -> u64 {
        self.entries / 8
    }

    /// The depth up to which each operation may have a pair while entries are completing.
    fn flowing(self) -> u64 {
        self.entries / 4
    }

    /// How many of our events may be pending on a stream so deep that is not flowing, for one to be recorded besides those of
    /// [`Density::Sparse`]: as many as there are if each operation had a pair up to [`shallow`](Self::shallow), and one entry
    /// in 32 an event from there on.
    pub fn most_events(self, depth: u64) -> u64 {
        self.shallow() / 2 + depth / 32
    }

    /// The depth from which no event is recorded unless entries are completing.
    fn reserved(self) -> u64 {
        self.entries - self.entries / 16
    }
}

/// The entries of a stream: launches, everything else that takes a place in its queue, and our own events.
/// All fields are relaxed: they are bounds that several threads raise, and publish nothing else.
#[derive(Default)]
pub struct Entries {
    /// The number of entries enqueued so far.
    submitted: AtomicU64,
    /// The newest entry that was observed to be complete.
    completed: AtomicU64,
    /// The value of `submitted` when `completed` was last observed to rise.
    flowed: AtomicU64,
    /// The newest entry that the host ends, and that perhaps only the program can end: a host function, or a
    /// wait for a value.
    host_wait: AtomicU64,
    /// The value of `submitted` when a hook last queried the driver how far the stream has come.
    queried: AtomicU64,
}

impl Entries {
    /// Counts one more enqueued entry. Returns its number.
    #[inline]
    pub fn add(&self) -> u64 {
        self.submitted.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Counts one more entry that the host ends. Returns its number.
    pub fn add_host_wait(&self) -> u64 {
        let entry = self.add();
        self.host_wait.fetch_max(entry, Ordering::Relaxed);
        entry
    }

    /// The number of entries enqueued so far.
    #[inline]
    pub fn submitted(&self) -> u64 {
        self.submitted.load(Ordering::Relaxed)
    }

    /// Takes note that all entries up to `entry` are complete.
    #[inline]
    pub fn observe_complete(&self, entry: u64) {
        if self.completed.fetch_max(entry, Ordering::Relaxed) < entry {
            self.flowed.store(self.submitted(), Ordering::Relaxed);
        }
    }

    /// Whether this entry was observed to be complete.
    pub fn is_complete(&self, entry: u64) -> bool {
        entry <= self.completed.load(Ordering::Relaxed)
    }

    /// Resets the counts for another stream that has nothing enqueued.
    pub fn restart(&self) {
        self.observe_complete(self.submitted());
        self.host_wait.store(0, Ordering::Relaxed);
    }

    /// The number of entries not yet observed to be complete.
    #[inline]
    pub fn depth(&self) -> u64 {
        self.submitted().saturating_sub(self.completed.load(Ordering::Relaxed))
    }

    /// Whether a hook that finds the stream deep may query the driver how far it has come: once per
    /// [`Queue::shallow`] entries, and true for one of the threads that call at the same time.
    pub fn should_query(&self, queue: Queue) -> bool {
        let (now, queried) = (self.submitted(), self.queried.load(Ordering::Relaxed));
        self.is_query_due(queue)
            && self.queried.compare_exchange(queried, now, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Whether so many entries were enqueued since the last query.
    #[inline(always)]
    pub fn is_query_due(&self, queue: Queue) -> bool {
        self.submitted().saturating_sub(self.queried.load(Ordering::Relaxed)) >= queue.shallow()
    }

    /// Whether one more entry may have to wait until the GPU has finished one.
    pub fn is_nearly_full(&self, queue: Queue) -> bool {
        self.depth() > queue.entries / 2
    }

    /// Whether the stream is so deep that operations may soon have to share events.
    pub fn is_deep(&self, queue: Queue) -> bool {
        self.depth() > queue.shallow()
    }

    /// How densely events may follow the entries that are enqueued now.
    #[inline]
    pub fn density(&self, queue: Queue) -> Density {
        let depth = self.depth();
        if depth <= queue.shallow() {
            Density::Each
        } else if self.flows(queue) {
            if depth <= queue.flowing() { Density::Each } else { Density::Sampled }
        } else if depth <= queue.reserved() {
            Density::Sparse
        } else {
            Density::None
        }
    }

    /// Whether entries were observed to complete lately, and no entry that the host ends is still pending.
    fn flows(&self, queue: Queue) -> bool {
        let since = self.submitted().saturating_sub(self.flowed.load(Ordering::Relaxed));
        since <= queue.shallow() && self.is_complete(self.host_wait.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Queue = Queue { entries: QUEUE };

    /// Enqueues `launches` launches as a hook does; returns the entries that they took together with our
    /// events. While entries flow, `completes` entries are observed to complete with each launch.
    fn fill(entries: &Entries, queue: Queue, launches: u64, completes: u64) -> u64 {
        let before = entries.submitted();
        for n in 0..launches {
            let event = match entries.density(queue) {
                Density::Each => true,
                Density::Sampled => n % 4 == 0,
                Density::Sparse => n % 32 == 0,
                Density::None => false,
            };
            entries.add();
            if event {
                entries.add();
            }
            entries.observe_complete(
                (entries.completed.load(Ordering::Relaxed) + completes).min(entries.submitted()),
            );
        }
        entries.submitted() - before
    }

    #[test]
    fn a_program_may_fill_nine_tenths_of_its_queue_while_nothing_completes() {
        for scale in [None, Some(c"0.25x"), Some(c"0.5x"), Some(c"2x"), Some(c"4x")] {
            let queue = Queue::scaled(scale);
            let entries = Entries::default();
            let taken = fill(&entries, queue, queue.entries * 900 / 1024, 0);
            assert!(taken < queue.entries, "{scale:?}: {taken} of {}", queue.entries);
        }
    }

    #[test]
    fn a_host_wait_among_flowing_entries_stops_the_flow() {
        let entries = Entries::default();
        fill(&entries, PLAIN, 5_000, 1);
        entries.observe_complete(entries.submitted());
        let host_wait = entries.add_host_wait();
        assert!(fill(&entries, PLAIN, 900, 0) < PLAIN.entries, "nothing behind it completes");
        // Some entries before the wait may still be observed to complete.
        let entries = Entries::default();
        fill(&entries, PLAIN, 5_000, 0);
        assert_eq!(entries.density(PLAIN), Density::None);
        entries.observe_complete(entries.submitted() - 300);
        assert_eq!(entries.density(PLAIN), Density::Sampled);
        entries.add_host_wait();
        entries.observe_complete(entries.submitted() - 200);
        assert_eq!(entries.density(PLAIN), Density::Sparse, "the host wait has not ended");
        entries.observe_complete(entries.submitted());
        assert_eq!((entries.density(PLAIN), host_wait > 0), (Density::Each, true));
    }

    #[test]
    fn a_full_queue_stays_sampled_while_its_entries_flow() {
        let entries = Entries::default();
        fill(&entries, PLAIN, 400, 0);
        assert_eq!(entries.density(PLAIN), Density::Sparse);
        fill(&entries, PLAIN, 700, 0);
        for _ in 0..10_000 {
            entries.add();
            entries.add();
            entries.observe_complete(entries.submitted() - 1_000);
            assert_eq!(entries.density(PLAIN), Density::Sampled);
        }
    }
}
