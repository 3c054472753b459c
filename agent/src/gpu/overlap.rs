//! Was a call alone on its stream?
//!
//! An event pair times an operation only if no other work came between the two events on the stream. Every
//! call that enqueues something counts itself before and after. If the counts are what they would be without
//! other calls, no other call overlapped.
//!
//! Another thread's work may come in between on the same stream. Between the legacy default stream and the
//! blocking streams, it may also come from a stream of the other kind: an event on either kind waits for what
//! the other kind has queued (CUDA Programming Guide, "Default stream"). Where streams share a hardware queue,
//! because more streams have had work than `CUDA_DEVICE_MAX_CONNECTIONS`, an event may wait for whatever another
//! stream has put into the queue before it, so all streams of the context count as one. (On an H200, a stream
//! waits for others only while timed events are pending on about as many others as there are connections:
//! `docs/hardware.md`.)

use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// The number of calls that have begun, and of those that are over. `done` is Relaxed: the driver's own lock orders the
/// calls that matter, and each thread counts before and reads after its own call. `begun` is SeqCst where [`Queues`] needs it.
#[derive(Default)]
pub struct CallCounts {
    begun: AtomicU64,
    done: AtomicU64,
}

/// The hardware queues of a context, to which its streams are assigned when they get their first work.
pub struct Queues {
    /// How many there are (`CUDA_DEVICE_MAX_CONNECTIONS`).
    count: u32,
    /// The number of streams that have had work, and so a queue, ours included. SeqCst, as a call's count on its stream: either the
    /// call sees that streams share queues, or [`Queues::settle`] sees the call.
    streams: AtomicU32,
    /// The calls on all streams, from the moment at which some share a queue.
    all: CallCounts,
    /// Whether every call that began before that moment is over. Release by the poller, acquire by the hooks: a check that
    /// begins afterwards overlaps none of them.
    is_settled: AtomicBool,
}

/// The counts in which a call on a stream appears.
#[derive(Clone, Copy)]
pub struct StreamCounts {
    /// The stream's own calls.
    pub stream: &'static CallCounts,
    /// The queues of its context.
    pub queues: Option<&'static Queues>,
    /// The calls on streams of its kind, and those that its work is ordered with across streams.
    pub across: Option<(&'static CallCounts, &'static CallCounts)>,
}

/// The overlap check of one call.
pub struct OverlapCheck {
    counts: StreamCounts,
    /// The counts of the calls that must not overlap it.
    queue: Queue,
    /// The number of those calls that were over when this one began.
    done_before: u64,
    across: Option<Across>,
}

/// Which calls can delay an event on a stream?
#[derive(Clone, Copy)]
enum Queue {
    /// Those on the stream.
    Own(&'static CallCounts),
    /// Those on all streams of the context.
    All(&'static CallCounts),
    /// The same, but some calls may be under way that are counted on their streams only.
    Unsettled(&'static CallCounts),
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
    /// Counts a call that begins.
    pub fn begin(&self) {
        self.begun.fetch_add(1, Ordering::SeqCst);
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

    /// Whether no call was under way at some moment since this was called.
    pub fn is_quiet(&self) -> bool {
        // In this order: a call that begins after the first load may be over before the second. Acquire: what the calls have
        // done is done, although `end` is Relaxed, because the driver's lock was theirs before.
        let begun = self.begun.load(Ordering::SeqCst);
        self.done.load(Ordering::Acquire) == begun
    }
}

impl Queues {
    /// The queues of a context with so many of them and so many streams.
    pub fn new(count: u32, streams: u32) -> Queues {
        let is_settled = AtomicBool::new(count == 1 || streams > count);
        // They start at a number that a stream's own counts never reach, so that a `Since` of the one never equals one of
        // the other.
        let all = CallCounts { begun: AtomicU64::new(1 << 62), done: AtomicU64::new(1 << 62) };
        Queues { count, streams: AtomicU32::new(streams), all, is_settled }
    }

    /// Whether there is only one.
    pub fn is_one(&self) -> bool {
        self.count == 1
    }

    /// Whether streams may share a queue. The answer stays true from then on: no API says which streams share.
    #[inline]
    pub fn are_shared(&self) -> bool {
        self.is_one() || self.streams.load(Ordering::SeqCst) > self.count
    }

    /// Takes note that one more stream of the context has work.
    pub fn add_stream(&self) {
        self.streams.fetch_add(1, Ordering::SeqCst);
    }

    /// Poller: takes note when each call that began before streams shared queues is over. `is_counted` says whether all calls
    /// on all streams of the context are counted as calls on shared queues.
    pub fn settle(&self, is_counted: impl FnOnce() -> bool) {
        if !self.is_settled.load(Ordering::Relaxed) && self.are_shared() && is_counted() {
            self.is_settled.store(true, Ordering::Release);
        }
    }
}

impl StreamCounts {
    /// Whether an event on the stream of these counts may wait for work on the stream of the others, of the same context.
    pub fn may_wait_for(&self, other: &StreamCounts) -> bool {
        let is_other_kind = |(_, waited_for): (_, &CallCounts)| {
            other.across.is_some_and(|(own, _)| core::ptr::eq(own, waited_for))
        };
        self.across.is_some_and(is_other_kind) || self.queues.is_some_and(Queues::are_shared)
    }

    #[inline(always)]
    fn queue(&self) -> Queue {
        match self.queues {
            Some(queues) if queues.are_shared() => match queues.is_settled.load(Ordering::Acquire) {
                true => Queue::All(&queues.all),
                false => Queue::Unsettled(&queues.all),
            },
            _ => Queue::Own(self.stream),
        }
    }
}

impl Queue {
    /// The counts, and whether they are those of the stream alone.
    fn counts(self) -> (&'static CallCounts, bool) {
        match self {
            Queue::Own(counts) => (counts, true),
            Queue::All(counts) | Queue::Unsettled(counts) => (counts, false),
        }
    }
}

impl OverlapCheck {
    /// Starts the check, before the real call and before any driver call of ours.
    #[inline(always)]
    pub fn begin(counts: StreamCounts) -> OverlapCheck {
        // The number of calls that are over may only be too small. The call is counted on its stream before it looks whether
        // streams share queues: see `Queues`.
        let own_done = counts.stream.done();
        counts.stream.begin();
        let queue = counts.queue();
        let done_before = match queue.counts() {
            (_, true) => own_done,
            (all, false) => {
                let done = all.done();
                all.begin();
                done
            }
        };
        let across = counts.across.map(|(own, other)| {
            let done_before = other.done();
            own.begin();
            Across { own, other, done_before }
        });
        OverlapCheck { counts, queue, done_before, across }
    }

    /// The counts in which every call appears that may have delayed this one, or an event of ours in it. `None`: streams have come
    /// to share queues since it began, or had just before, and calls on other streams are not counted here.
    #[inline(always)]
    fn complete_counts(&self) -> Option<&'static CallCounts> {
        match (self.queue, self.counts.queue()) {
            (Queue::Own(counts), Queue::Own(_)) | (Queue::All(counts), _) => Some(counts),
            _ => None,
        }
    }

    /// Returns the call counts if no other call may have overlapped. Called after the real call and after any
    /// driver call of ours.
    #[inline]
    pub fn alone(&self) -> Option<Since> {
        let queue = self.complete_counts()?;
        // The call itself has begun, too.
        let since =
            Since { own: self.done_before + 1, across: self.across.as_ref().map_or(0, |a| a.done_before) };
        let across = self.across.as_ref().map_or(0, |a| a.other.begun());
        (queue.begun() == since.own && across == since.across).then_some(since)
    }

    /// Whether a call on a stream of the other kind may have overlapped: an event that is recorded now may wait for what that call has
    /// put on its stream, and so would whatever waits for this call's stream.
    #[inline]
    pub fn is_ordered_with_others(&self) -> bool {
        self.across.as_ref().is_some_and(|across| across.other.begun() != across.done_before)
    }

    /// Whether this call is the first one after `since`. A driver call of ours that relies on the answer comes before the question,
    /// since other calls may come in between.
    #[inline]
    pub fn follows(&self, since: Since) -> bool {
        let across = self.across.as_ref().map_or(0, |a| a.other.begun());
        let is_first = |queue: &CallCounts| queue.begun() == since.own + 1 && across == since.across;
        self.complete_counts().is_some_and(is_first)
    }
}

impl Since {
    /// Whether no call has begun since that moment on the stream, or on one that it is ordered with.
    pub fn is_now(self, counts: StreamCounts) -> bool {
        let across = counts.across.map_or(0, |(_, other)| other.begun());
        counts.queue().counts().0.begun() == self.own && across == self.across
    }
}

impl Drop for OverlapCheck {
    // Also runs when the thread is cancelled inside the real call.
    fn drop(&mut self) {
        if let Some(across) = &self.across {
            across.own.end();
        }
        if let (all, false) = self.queue.counts() {
            all.end();
        }
        self.counts.stream.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A context with two queues and this many streams, and what is counted of a stream of it.
    fn stream(streams: u32) -> (&'static Queues, impl Fn() -> StreamCounts) {
        let queues: &Queues = Box::leak(Box::new(Queues::new(2, streams)));
        (queues, move || StreamCounts {
            stream: Box::leak(Box::default()),
            queues: Some(queues),
            across: None,
        })
    }

    #[test]
    fn calls_overlap_on_a_stream_or_on_all_streams_where_they_share_queues() {
        for (streams, is_alone) in [(2, true), (3, false)] {
            let (_, stream) = stream(streams);
            let (first, second) = (stream(), stream());
            let check = OverlapCheck::begin(first);
            assert!(check.alone().is_some());
            let other = OverlapCheck::begin(second);
            assert_eq!(check.alone().is_some(), is_alone, "{streams} streams: another stream's call");
            let since = check.alone();
            drop((check, other));
            assert_eq!(since.is_some_and(|since| since.is_now(first)), is_alone);
            let check = OverlapCheck::begin(first);
            assert!(check.alone().is_some(), "{streams} streams: both are over");
            let same = OverlapCheck::begin(first);
            assert!(check.alone().is_none() && same.alone().is_none());
        }
    }

    /// Found by a soak: a thread lost the processor in a launch, between its two events, while others created streams. An event
    /// waited for a kernel of another stream, and the interval missed the truth by 80 µs.
    #[test]
    fn a_call_is_not_alone_if_streams_come_to_share_queues_meanwhile() {
        let (queues, stream) = stream(2);
        let (first, second) = (stream(), stream());
        let check = OverlapCheck::begin(first);
        let since = check.alone().unwrap();
        queues.add_stream();
        assert!(check.alone().is_none());
        assert!(!since.is_now(first) && !OverlapCheck::begin(first).follows(since));
        // Nor is one that begins while others may be under way that are not counted with it.
        let other = OverlapCheck::begin(second);
        assert!(other.alone().is_none());
        drop(other);
        assert!(!first.stream.is_quiet() && second.stream.is_quiet());
        queues.settle(|| first.stream.is_quiet() && second.stream.is_quiet());
        assert!(OverlapCheck::begin(second).alone().is_none());
        let before = OverlapCheck::begin(second);
        drop(check);
        drop(before);
        queues.settle(|| first.stream.is_quiet() && second.stream.is_quiet());
        assert!(OverlapCheck::begin(second).alone().is_some());
    }

    /// Found by a random program: a thread lost the processor in a synchronization, before the event that ends a run, while others
    /// created streams. The event waited for work of another stream, and the run seemed to last 17 ms longer.
    #[test]
    fn a_call_follows_nothing_if_streams_come_to_share_queues_meanwhile() {
        let (queues, stream) = stream(2);
        let counts = stream();
        let since = OverlapCheck::begin(counts).alone().unwrap();
        let check = OverlapCheck::begin(counts);
        assert!(check.follows(since));
        queues.add_stream();
        assert!(!check.follows(since));
    }
}
