//! What does one pair of event stamps say about the length of the operation between them?

use super::super::gpu_clock::parted;
use super::super::stamps::Stamps;
use super::{Length, MOST_TIME, host};
use crate::trace::record::{GpuTime, What, Work};
use gpuspy_wire::record::flag;

/// A pair of events and the host times around it, clamped so that arithmetic on them cannot overflow.
#[derive(Clone, Copy, Debug)]
pub struct Pair {
    /// Host: neither event was recorded before.
    pub began: i64,
    /// Host: when the operation's call returned; of a burst or a run, the first call.
    pub submitted: i64,
    /// Host: when the operation's call returned; of a burst or a run, the last call.
    pub last: i64,
    /// Host ns from the start of the start event's record to `submitted`.
    pub lead: i64,
    /// Host ns from `submitted` to the return of the end event's record.
    pub tail: i64,
    /// GPU: the start event.
    pub start: i64,
    /// GPU ns between the events.
    pub raw: i64,
    /// Errors of the stamp and of the distance along the time base, GPU ns.
    pub start_error: i64,
    pub duration_error: i64,
    /// Host: when the end event was observed to be complete; `i64::MAX` if it was not.
    pub seen: i64,
    /// The flags of the call and of the GPU time.
    pub flags: u16,
    /// Whether it is a graph launch.
    pub is_graph: bool,
}

impl Pair {
    /// Makes a pair from a record. `lead` and `tail` are cut to the length of the call, since both events are
    /// recorded inside it. Exceptions: the start event is another operation's end event, the call's end was never
    /// recorded, or the calls of a burst are many.
    pub fn new(work: &Work, gpu: &GpuTime) -> Self {
        let flags = work.call.flags | gpu.flags;
        let is_burst = matches!(work.what, What::Burst { .. });
        let unless = |bit: u16, bound: u64| if flags & bit == 0 && !is_burst { bound } else { u64::MAX };
        let lead = work.lead.min(unless(flag::SHARED_START, work.submitted.saturating_sub(work.call.begin)));
        let ended = work.call.end.saturating_sub(work.submitted);
        // A burst's tail ends with its end event's record, which may be later than the record's field can say. A
        // deferred end event is recorded outside the call.
        let tail = match gpu.tail {
            0 if is_burst => work.tail.min(ended),
            0 => work.tail.min(unless(flag::SCOPE_LOST, ended)),
            deferred => deferred,
        };
        let last = match work.what {
            What::Burst { closing, .. } => work.call.end.saturating_sub(closing).max(work.submitted),
            _ => work.submitted,
        };
        Pair {
            began: host(if is_burst { work.submitted.saturating_sub(lead) } else { work.call.begin }),
            submitted: host(work.submitted),
            last: host(last),
            lead: host(lead),
            tail: host(tail),
            start: gpu.start.clamp(-(MOST_TIME as i64), MOST_TIME as i64),
            raw: host(gpu.duration),
            start_error: i64::from(gpu.start_error),
            duration_error: i64::from(gpu.duration_error),
            seen: if gpu.seen == 0 { i64::MAX } else { host(gpu.seen) },
            flags,
            is_graph: matches!(work.what, What::Graph { .. }),
        }
    }

    /// GPU: the end event.
    pub fn end(&self) -> i64 {
        self.start + self.raw
    }

    /// Error of the end event's stamp along the time base: the start's error and the distance's.
    pub fn error(&self) -> i64 {
        self.start_error + self.duration_error
    }

    /// Whether another operation may lie between the events.
    pub fn is_shared(&self) -> bool {
        self.flags & flag::SHARED_INTERVAL != 0
    }
}

/// The GPU times between which an operation started and ended.
#[derive(Clone, Copy, Debug)]
pub struct Spread {
    /// Bound on the time from the start event to the operation's submission, ns: *B* in [`gpu_interval`](super).
    pub over_start: i64,
    /// Whether the end event was certainly in the queue when the operation completed.
    pub end_was_queued: bool,
    /// The operation started no later, GPU ns.
    pub latest_start: i64,
    /// It ended no earlier, GPU ns.
    pub earliest_end: i64,
    /// It ended no later, GPU ns.
    pub latest_end: i64,
}

impl Spread {
    /// Computes the spread of a pair. `upper` holds the upper bounds on θ when the operation was submitted and when
    /// the end event had been recorded. An event fires up to `late` ns after its stamp and costs the GPU up to `cost`
    /// ns; a launch takes it up to `launch` ns.
    pub fn of(pair: &Pair, upper: [i64; 2], late: i64, cost: i64, launch: i64) -> Spread {
        // GPU ns: the latest time of submission minus the start event.
        let fired_before = pair.submitted + upper[0] - (pair.start - pair.start_error);
        let over_start = fired_before.clamp(0, pair.lead + parted(pair.lead));
        let shared = pair.is_shared();
        let end_was_queued = !shared && end_was_queued(pair, over_start, upper[1], late + cost);
        let latest_end = pair.end() + pair.duration_error + late;
        // Behind a queued start event the launch comes before the operation. Otherwise the call's return says when it began, and
        // its end event came late (on an H200, by CUPTI's times).
        let (before, after) = if over_start > 0 { (0, launch) } else { (launch, 0) };
        let latest_start = match shared {
            true => latest_end, // other work between the events may have run first
            false => (pair.start + over_start + late + before).min(latest_end),
        };
        let earliest_end = match end_was_queued {
            true => pair.end() - pair.duration_error - cost - after,
            false => pair.start,
        };
        Spread { over_start, end_was_queued, latest_start, earliest_end, latest_end }
    }

    /// Whether the pair determines the operation's length: the over-read is at most a fifth of it. Errors that all
    /// pairs have in common, an event's cost, a launch's and the rounding of stamps, do not count; so call this on a spread
    /// that was computed with costs of 0.
    pub fn is_conclusive(&self, pair: &Pair) -> bool {
        let off_by = self.over_start.saturating_add(2 * pair.duration_error);
        self.end_was_queued && off_by.saturating_mul(5) <= pair.raw
    }

    /// Best estimate of the last moment at which the operation ran, GPU ns: a queued end event is stamped when its own time is
    /// over as well.
    pub fn last(&self, pair: &Pair, stamps: &Stamps) -> i64 {
        if !self.end_was_queued {
            return pair.end();
        }
        let late = if self.over_start > 0 { stamps.launch().late } else { 0 };
        (pair.end() - stamps.cost() - late).max(self.earliest_end).max(pair.start)
    }

    /// Returns the bounds on the operation's length, with `value` as the best estimate.
    pub fn length(&self, pair: &Pair, value: i64) -> Length {
        let ns = |from: i64, to: i64| (to - from).max(0) as u64;
        let (lo, hi) = (ns(self.latest_start, self.earliest_end), ns(pair.start, self.latest_end));
        Length { lo, value: ns(0, value).clamp(lo, hi), hi }
    }
}

/// Margin of the proof beyond its inequality, ns: the result jumps there.
const PROOF_MARGIN: i64 = 500;

/// Whether the end event was certainly in the queue when the operation completed. `fires_late` is the largest
/// difference between its stamp and the moment when it was at the head of the queue, ns.
fn end_was_queued(pair: &Pair, over_start: i64, upper: i64, fires_late: i64) -> bool {
    let margin = PROOF_MARGIN + fires_late;
    let by_length =
        pair.raw - pair.duration_error > over_start.saturating_add(pair.tail + parted(pair.tail)) + margin;
    let fired_after = pair.end() - pair.start_error - pair.duration_error - upper;
    let by_clock = fired_after > pair.submitted.saturating_add(pair.tail) + margin;
    pair.tail < MOST_TIME as i64 && (by_length || by_clock)
}
