//! How much memory do all sessions together use? Each has limits of its own; what they may hold beyond a little is
//! counted here, over all of them.
//!
//! A session's own limits: [`PAGES_READ`] of its segment in our memory, its queue and the records that wait to be
//! written (`session.rs`, `trace/writer.rs`), its tables of names, texts and stacks. See docs/usage.md for the sums.

use std::sync::atomic::{AtomicUsize, Ordering};

/// The most sessions at the same time. Each has two threads and a few descriptors.
pub(super) const MOST_SESSIONS: usize = 1024;
/// Limit on the bytes that all sessions have taken from rings and not yet converted. At the limit a session takes one
/// batch at a time, and the rings buffer the rest.
const MOST_QUEUED: usize = 256 << 20;
/// Limit on the records of all sessions that wait for their GPU times. At the limit, sessions write what they have.
const MOST_PENDING: usize = 1 << 20;
/// How much of a segment is read before its pages are taken out of our memory again, bytes.
pub(super) const PAGES_READ: usize = 4 << 20;

/// What all sessions hold. Relaxed, all of it: each figure only has to be right in the long run.
#[derive(Debug, Default)]
pub(crate) struct Held {
    queued: AtomicUsize,
    pending: AtomicUsize,
}

impl Held {
    /// Whether no further bytes should be queued, unless the session has none in its queue.
    pub(super) fn is_queue_full(&self) -> bool {
        self.queued.load(Ordering::Relaxed) > MOST_QUEUED
    }

    /// Whether sessions should write their records now.
    pub(super) fn is_much_pending(&self) -> bool {
        self.pending.load(Ordering::Relaxed) > MOST_PENDING
    }

    /// A session's share, which starts at nothing.
    pub(super) fn share(&self) -> Share<'_> {
        Share { held: self, queued: AtomicUsize::new(0), pending: AtomicUsize::new(0) }
    }
}

/// What one session holds. It is taken out of the sums when it is dropped.
#[derive(Debug)]
pub(crate) struct Share<'h> {
    held: &'h Held,
    queued: AtomicUsize,
    pending: AtomicUsize,
}

impl Share<'_> {
    /// The sums of all sessions.
    pub(super) fn all(&self) -> &Held {
        self.held
    }

    /// Whether nothing of this session is queued.
    pub(super) fn is_queue_empty(&self) -> bool {
        self.queued.load(Ordering::Relaxed) == 0
    }

    /// Counts bytes that come into the queue.
    pub(super) fn queue(&self, bytes: usize) {
        self.queued.fetch_add(bytes, Ordering::Relaxed);
        self.held.queued.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts bytes that leave the queue.
    pub(super) fn unqueue(&self, bytes: usize) {
        self.queued.fetch_sub(bytes, Ordering::Relaxed);
        self.held.queued.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Sets how many records of this session are pending. Only its writing thread calls this.
    pub(super) fn set_pending(&self, records: usize) {
        let before = self.pending.swap(records, Ordering::Relaxed);
        // Wraps when it falls, which cancels out: the sum is exact.
        self.held.pending.fetch_add(records.wrapping_sub(before), Ordering::Relaxed);
    }
}

impl Drop for Share<'_> {
    fn drop(&mut self) {
        self.unqueue(self.queued.load(Ordering::Relaxed));
        self.set_pending(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sums_are_those_of_the_sessions_that_exist() {
        let held = Held::default();
        let (one, other) = (held.share(), held.share());
        one.queue(MOST_QUEUED);
        other.queue(1);
        assert!(held.is_queue_full() && !one.is_queue_empty());
        other.unqueue(1);
        assert!(!held.is_queue_full() && other.is_queue_empty());
        one.set_pending(MOST_PENDING);
        other.set_pending(2);
        other.set_pending(1);
        assert!(held.is_much_pending());
        drop(one);
        assert!(!held.is_much_pending());
        drop(other);
        assert_eq!((held.queued.into_inner(), held.pending.into_inner()), (0, 0));
    }
}
