//! Whether a call was alone on its stream.
//!
//! An event pair times an operation only if nothing else came between the two on the stream. Every call that call_counts
//! something counts itself on its way in and out; who finds the counts as they would be without others was alone.
//!
//! Something of another thread's may come between on the same stream, and, between the legacy default stream and every
//! blocking one, on a stream of the other kind: an event on the one waits for what the others have queued (CUDA
//! Programming Guide, "Default stream"). Where streams share a hardware queue, because there are more than
//! `CUDA_DEVICE_MAX_CONNECTIONS`, an event waits for whatever another stream has put there before it: the context is as one stream.

use core::sync::atomic::{AtomicU64, Ordering};

/// Calls that overlap something, as they pass. Relaxed: the driver's own lock orders the calls in question, and each
/// thread counts before and reads after its own.
#[derive(Default)]
pub struct CallCounts {
    begun: AtomicU64,
    done: AtomicU64,
}

/// The counts in which a call onto a stream appears.
pub struct Lines {
    /// The stream's own.
    pub stream: &'static CallCounts,
    /// What a call must be alone on: the stream, or all streams of the context.
    pub line: &'static CallCounts,
    /// Of the streams of its kind, and of those that it is ordered with across streams.
    pub across: Option<(&'static CallCounts, &'static CallCounts)>,
}

/// A call's overlap through its stream.
pub struct OverlapCheck {
    stream: &'static CallCounts,
    /// What it must be alone on: the stream, or all streams of the context.
    line: &'static CallCounts,
    /// Calls there that were over when this one began.
    over: u64,
    across: Option<Across>,
}

/// The same between streams.
struct Across {
    own: &'static CallCounts,
    other: &'static CallCounts,
    over: u64,
}

/// The call_counts at a moment at which none was under way but the one that tells.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Since {
    own: u64,
    across: u64,
}

impl CallCounts {
    /// Of all streams of a context, which are counted from the moment on at which some share a queue: from numbers on that a
    /// stream's own calls never reach, so that a [`Since`] of the one never passes for one of the other.
    pub fn of_all() -> CallCounts {
        CallCounts { begun: AtomicU64::new(1 << 62), done: AtomicU64::new(1 << 62) }
    }

    /// A call begins.
    pub fn begin(&self) {
        self.begun.fetch_add(1, Ordering::Relaxed);
    }

    /// One is over.
    pub fn end(&self) {
        self.done.fetch_add(1, Ordering::Relaxed);
    }

    /// Calls so far.
    pub fn begun(&self) -> u64 {
        self.begun.load(Ordering::Relaxed)
    }

    /// Those that are over.
    pub fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }
}

impl OverlapCheck {
    /// Before the real call, and before anything of ours.
    #[inline]
    pub fn begin(Lines { stream, line, across }: Lines) -> OverlapCheck {
        let over = line.done();
        stream.begin();
        if !core::ptr::eq(line, stream) {
            line.begin();
        }
        let across = across.map(|(own, other)| {
            let over = other.done();
            own.begin();
            Across { own, other, over }
        });
        OverlapCheck { stream, line, over, across }
    }

    /// After the real call, and after anything of ours: the moment, if no other call may lie between.
    #[inline]
    pub fn alone(&self) -> Option<Since> {
        // Itself has begun, too.
        let since = Since { own: self.over + 1, across: self.across.as_ref().map_or(0, |a| a.over) };
        let across = self.across.as_ref().map_or(0, |a| a.other.begun());
        (self.line.begun() == since.own && across == since.across).then_some(since)
    }

    /// Whether this call is the first one since then.
    #[inline]
    pub fn follows(&self, since: Since) -> bool {
        let across = self.across.as_ref().map_or(0, |a| a.other.begun());
        self.line.begun() == since.own + 1 && across == since.across
    }
}

impl Since {
    /// Whether no call has begun since then on a stream, or on one that it is ordered with.
    pub fn is_now(self, Lines { line, across, .. }: Lines) -> bool {
        let across = across.map_or(0, |(_, other)| other.begun());
        line.begun() == self.own && across == self.across
    }
}

impl Drop for OverlapCheck {
    // Also where the thread is cancelled inside the real call.
    fn drop(&mut self) {
        if let Some(across) = &self.across {
            across.own.end();
        }
        if !core::ptr::eq(self.line, self.stream) {
            self.line.end();
        }
        self.stream.end();
    }
}
