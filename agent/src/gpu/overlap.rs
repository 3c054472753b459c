//! Was a call alone on its stream?
//!
//! An event pair times an operation only if no other work came between the two events on the stream. Every
//! call that enqueues something counts itself before and after. If the counts are what they would be without
//! other calls, no other call overlapped.
//!
//! Another thread's work may come in between on the same stream. Between the legacy default stream and the
//! blocking streams, it may also come from a stream of the other kind: an event on either kind waits for what
//! the other kind has queued (CUDA Programming Guide, "Default stream"). Where streams share a hardware queue,
//! because there are more streams than `CUDA_DEVICE_MAX_CONNECTIONS`, an event waits for whatever another
//! stream has put into the queue before it, so all streams of the context count as one.

use core::sync::atomic::{AtomicU64, Ordering};

/// The number of calls that have begun, and of those that are over. Relaxed: the driver's own lock orders the
/// calls that matter, and each thread counts before and reads after its own call.
#[derive(Default)]
pub struct CallCounts {
    begun: AtomicU64,
    done: AtomicU64,
}

/// The counts in which a call on a stream appears.
pub struct StreamCounts {
    /// The stream's own calls.
    pub stream: &'static CallCounts,
    /// The calls that can delay an event on the stream: its own, or those on all streams of the context.
    pub queue: &'static CallCounts,
    /// The calls on streams of its kind, and those that its work is ordered with across streams.
    pub across: Option<(&'static CallCounts, &'static CallCounts)>,
}

/// The overlap check of one call.
pub struct OverlapCheck {
    stream: &'static CallCounts,
    /// The counts of the calls that must not overlap it: those on its stream, or on all streams of the
    /// context.
    queue: &'static CallCounts,
    /// The number of those calls that were over when this one began.
    done_before: u64,
    across: Option<Across>,
}

/// The same check for the streams of the other kind, which the call's stream is ordered with.
struct Across {
    own: &'static CallCounts,
    other: &'static CallCounts,
    done_before: u64,
}

/// The call counts at a moment at which no call was under way but the one that read them.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Since {
    own: u64,
    across: u64,
}

impl CallCounts {
    /// Returns the counts for all streams of a context, which are used from the moment at which some streams
    /// share a queue. They start at a number that a stream's own counts never reach, so that a [`Since`] of
    /// the one never equals one of the other.
    pub fn of_all() -> CallCounts {
        CallCounts { begun: AtomicU64::new(1 << 62), done: AtomicU64::new(1 << 62) }
    }

    /// Counts a call that begins.
    pub fn begin(&self) {
        self.begun.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a call that is over.
    pub fn end(&self) {
        self.done.fetch_add(1, Ordering::Relaxed);
    }

    /// The number of calls that have begun.
    pub fn begun(&self) -> u64 {
        self.begun.load(Ordering::Relaxed)
    }

    /// The number of calls that are over.
    pub fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }
}

impl OverlapCheck {
    /// Starts the check, before the real call and before any driver call of ours.
    #[inline]
    pub fn begin(StreamCounts { stream, queue, across }: StreamCounts) -> OverlapCheck {
        let done_before = queue.done();
        stream.begin();
        if !core::ptr::eq(queue, stream) {
            queue.begin();
        }
        let across = across.map(|(own, other)| {
            let done_before = other.done();
            own.begin();
            Across { own, other, done_before }
        });
        OverlapCheck { stream, queue, done_before, across }
    }

    /// Returns the call counts if no other call may have overlapped. Called after the real call and after any
    /// driver call of ours.
    #[inline]
    pub fn alone(&self) -> Option<Since> {
        // The call itself has begun, too.
        let since =
            Since { own: self.done_before + 1, across: self.across.as_ref().map_or(0, |a| a.done_before) };
        let across = self.across.as_ref().map_or(0, |a| a.other.begun());
        (self.queue.begun() == since.own && across == since.across).then_some(since)
    }

    /// Whether this call is the first one after `since`.
    #[inline]
    pub fn follows(&self, since: Since) -> bool {
        let across = self.across.as_ref().map_or(0, |a| a.other.begun());
        self.queue.begun() == since.own + 1 && across == since.across
    }
}

impl Since {
    /// Whether no call has begun since that moment on the stream, or on one that it is ordered with.
    pub fn is_now(self, StreamCounts { queue, across, .. }: StreamCounts) -> bool {
        let across = across.map_or(0, |(_, other)| other.begun());
        queue.begun() == self.own && across == self.across
    }
}

impl Drop for OverlapCheck {
    // Also runs when the thread is cancelled inside the real call.
    fn drop(&mut self) {
        if let Some(across) = &self.across {
            across.own.end();
        }
        if !core::ptr::eq(self.queue, self.stream) {
            self.queue.end();
        }
        self.stream.end();
    }
}
