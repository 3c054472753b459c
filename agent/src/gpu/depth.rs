//! How deep a stream is, and how dense our events may stand on it.
//!
//! A stream's launch queue holds about 1024 entries (facts: OneFlow PR#890); whoever launches one more waits until the GPU
//! has finished one. A program that the GPU holds up keeps its queue full all the time, so a deep stream is the common
//! case. Our own entries are events, and two things bound them:
//!
//! - **What they cost.** An event takes a place in the queue and about a microsecond of the GPU, and on a deep stream both
//!   delay the program. There one operation in about eight is timed alone and the others in runs ([`burst`](super::burst)).
//! - **What they could block.** A program may fill a queue behind a gate that it opens itself afterwards. If our events took
//!   the last places, it would wait for good. So where nothing is seen to complete, events become sparse, and in the last
//!   sixteenth of the queue there are none.
//!
//! The limits are shares of the queue's length, which `CUDA_SCALE_LAUNCH_QUEUES` scales (CUDA C++ Programming Guide,
//! "CUDA Environment Variables": 0.25x, 0.5x, 2x, 4x).

use core::ffi::CStr;
use core::sync::atomic::{AtomicU64, Ordering};

/// Entries of a launch queue that nothing scales.
const QUEUE: u64 = 1024;

/// How dense our events may stand behind what a stream holds at the moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Density {
    /// Each operation may have a pair of events.
    Each,
    /// One operation in several may, the others are timed as a run. Entries are seen to complete.
    Sampled,
    /// One event in many entries. Nothing was seen to complete lately.
    Sparse,
    /// No event at all: it could be the entry that blocks the program.
    None,
}

/// The length of launch queues.
#[derive(Clone, Copy)]
pub struct Queue {
    entries: u64,
}

impl Queue {
    /// As `CUDA_SCALE_LAUNCH_QUEUES` says.
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

    /// Up to this depth each operation may have a pair, whatever is known: half of these entries are ours, which leaves
    /// room for a program that fills nine tenths of its queue. Also how many entries may be enqueued until the next is
    /// seen to complete.
    fn shallow(self) -> u64 {
        self.entries / 8
    }

    /// The depth up to which each may while entries are seen to complete.
    fn flowing(self) -> u64 {
        self.entries / 4
    }

    /// From this depth on no event is recorded unless entries are seen to complete.
    fn reserved(self) -> u64 {
        self.entries - self.entries / 16
    }
}

/// The entries of a stream: launches, whatever else takes a place in its queue, and our own events. Relaxed, all of them:
/// bounds that several threads raise, not hand-overs.
#[derive(Default)]
pub struct Entries {
    /// Enqueued so far.
    submitted: AtomicU64,
    /// Seen complete.
    completed: AtomicU64,
    /// What `submitted` was when `completed` was last seen to rise.
    flowed: AtomicU64,
    /// What `submitted` was behind the last entry that the host, and perhaps only the program, ends: a host function, or a
    /// wait for a value.
    gate: AtomicU64,
    /// What `submitted` was when a hook last asked the driver how far the stream has come.
    asked: AtomicU64,
}

impl Entries {
    /// One more is enqueued. Returns its number.
    #[inline]
    pub fn add(&self) -> u64 {
        self.submitted.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// The same, and it is one that the host ends.
    pub fn add_gate(&self) -> u64 {
        let entry = self.add();
        self.gate.fetch_max(entry, Ordering::Relaxed);
        entry
    }

    /// Enqueued so far.
    #[inline]
    pub fn submitted(&self) -> u64 {
        self.submitted.load(Ordering::Relaxed)
    }

    /// Those up to `entry` are complete.
    #[inline]
    pub fn seen(&self, entry: u64) {
        if self.completed.fetch_max(entry, Ordering::Relaxed) < entry {
            self.flowed.store(self.submitted(), Ordering::Relaxed);
        }
    }

    /// Whether this one was seen to be complete.
    pub fn is_complete(&self, entry: u64) -> bool {
        entry <= self.completed.load(Ordering::Relaxed)
    }

    /// Another stream takes over the counts: nothing of it is enqueued.
    pub fn restart(&self) {
        self.seen(self.submitted());
        self.gate.store(0, Ordering::Relaxed);
    }

    /// Those not yet seen complete.
    #[inline]
    pub fn depth(&self) -> u64 {
        self.submitted().saturating_sub(self.completed.load(Ordering::Relaxed))
    }

    /// Whether a hook that finds the stream deep may ask the driver how far it has come: once in so many entries. True for one
    /// that comes by.
    pub fn is_to_be_asked(&self, queue: Queue) -> bool {
        let (now, asked) = (self.submitted(), self.asked.load(Ordering::Relaxed));
        now.saturating_sub(asked) >= queue.shallow()
            && self.asked.compare_exchange(asked, now, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Whether one more may have to wait until the GPU has finished one.
    pub fn is_nearly_full(&self, queue: Queue) -> bool {
        self.depth() > queue.entries / 2
    }

    /// Whether each operation may soon not have a pair any more.
    pub fn is_deep(&self, queue: Queue) -> bool {
        self.depth() > queue.shallow()
    }

    /// How dense events may stand behind what is enqueued now.
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

    /// Whether entries were seen to complete lately, and none that the host ends stands before those that are enqueued now.
    fn flows(&self, queue: Queue) -> bool {
        let since = self.submitted().saturating_sub(self.flowed.load(Ordering::Relaxed));
        since <= queue.shallow() && self.is_complete(self.gate.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Queue = Queue { entries: QUEUE };

    /// Launches as a hook does, until `launches` are enqueued; returns the entries that they took with our events. Of
    /// those that flow, `completes` entries are seen complete with each launch.
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
            entries.seen((entries.completed.load(Ordering::Relaxed) + completes).min(entries.submitted()));
        }
        entries.submitted() - before
    }

    #[test]
    fn behind_a_gate_nine_tenths_of_a_queue_are_the_programs() {
        for scale in [None, Some(c"0.25x"), Some(c"0.5x"), Some(c"2x"), Some(c"4x")] {
            let queue = Queue::scaled(scale);
            let entries = Entries::default();
            let taken = fill(&entries, queue, queue.entries * 900 / 1024, 0);
            assert!(taken < queue.entries, "{scale:?}: {taken} of {}", queue.entries);
        }
    }

    #[test]
    fn a_gate_in_the_middle_of_what_flows_is_noticed() {
        let entries = Entries::default();
        fill(&entries, PLAIN, 5_000, 1);
        entries.seen(entries.submitted());
        let gate = entries.add_gate();
        assert!(fill(&entries, PLAIN, 900, 0) < PLAIN.entries, "nothing behind it completes");
        // Of what is before it some may still be seen to complete.
        let entries = Entries::default();
        fill(&entries, PLAIN, 5_000, 0);
        assert_eq!(entries.density(PLAIN), Density::None);
        entries.seen(entries.submitted() - 300);
        assert_eq!(entries.density(PLAIN), Density::Sampled);
        entries.add_gate();
        entries.seen(entries.submitted() - 200);
        assert_eq!(entries.density(PLAIN), Density::Sparse, "the gate is not open");
        entries.seen(entries.submitted());
        assert_eq!((entries.density(PLAIN), gate > 0), (Density::Each, true));
    }

    #[test]
    fn a_full_queue_that_flows_is_sampled_for_good() {
        let entries = Entries::default();
        fill(&entries, PLAIN, 400, 0);
        assert_eq!(entries.density(PLAIN), Density::Sparse);
        fill(&entries, PLAIN, 700, 0);
        for _ in 0..10_000 {
            entries.add();
            entries.add();
            entries.seen(entries.submitted() - 1_000);
            assert_eq!(entries.density(PLAIN), Density::Sampled);
        }
    }
}
