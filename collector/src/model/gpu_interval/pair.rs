//! A pair of events as a trace holds it, and what it says of how long the operation between them lasted.

use super::super::gpu_clock::parted;
use super::{Length, MOST_TIME, host};
use crate::trace::record::{GpuTime, What, Work};
use gpuspy_wire::record::flag;

/// A pair of events and the host times around it, made safe to reckon with.
#[derive(Clone, Copy, Debug)]
pub struct Pair {
    /// Host: no event of it was recorded before.
    pub began: i64,
    /// Host: the operation's call returned; of a burst or a run the first one's.
    pub submitted: i64,
    /// The same; of a burst or a run the last one's.
    pub last: i64,
    /// Host ns from the begin of the start event's record to `submitted`.
    pub lead: i64,
    /// Host ns from `submitted` to the return of the end event's record.
    pub tail: i64,
    /// GPU: the start event.
    pub start: i64,
    /// GPU ns between the events.
    pub raw: i64,
    /// By how much each can be off along the time base.
    pub start_error: i64,
    pub duration_error: i64,
    /// Host: the end event was seen complete; the greatest of all numbers if it was not.
    pub seen: i64,
    /// Of the call and of the GPU time.
    pub flags: u16,
}

impl Pair {
    /// `lead` and `tail` reach no further than the call itself: the records lie inside it, unless the start event is
    /// another operation's end event, the call's end was never seen, or many calls are one burst.
    pub fn new(work: &Work, gpu: &GpuTime) -> Self {
        let flags = work.call.flags | gpu.flags;
        let is_burst = matches!(work.what, What::Burst { .. });
        let unless = |bit: u16, bound: u64| if flags & bit == 0 && !is_burst { bound } else { u64::MAX };
        let lead = work.lead.min(unless(flag::SHARED_START, work.submitted.saturating_sub(work.call.begin)));
        let ended = work.call.end.saturating_sub(work.submitted);
        // That of a burst ends with its end event's record, and may be longer than the record can say. A deferred end event is
        // outside the call.
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
        }
    }

    /// GPU: the end event.
    pub fn end(&self) -> i64 {
        self.start + self.raw
    }

    /// How much its stamps can be off along the time base, the end's and the start's.
    pub fn error(&self) -> i64 {
        self.start_error + self.duration_error
    }

    /// Another's operation may lie between the events.
    pub fn is_shared(&self) -> bool {
        self.flags & flag::SHARED_INTERVAL != 0
    }
}

/// Between which GPU times an operation began and ended.
#[derive(Clone, Copy, Debug)]
pub struct Spread {
    /// How much later than the start event the operation can have been submitted, ns.
    pub over_start: i64,
    /// The end event must have been in the queue when the operation completed.
    pub end_was_queued: bool,
    /// The operation began no later.
    pub latest_start: i64,
    /// It ended no earlier.
    pub earliest_end: i64,
    /// It ended no later.
    pub latest_end: i64,
}

impl Spread {
    /// Of a pair whose clock is at most `upper` ahead of the host's when the operation was submitted and, in the second
    /// place, when the end event had been. An event fires up to `late` after its stamp and costs the GPU up to `cost`.
    pub fn of(pair: &Pair, upper: [i64; 2], late: i64, cost: i64) -> Spread {
        // Both in GPU ns: by when it was submitted at the latest, less the start event.
        let fired_before = pair.submitted + upper[0] - (pair.start - pair.start_error);
        let over_start = fired_before.clamp(0, pair.lead + parted(pair.lead));
        let shared = pair.is_shared();
        let end_was_queued = !shared && end_was_queued(pair, over_start, upper[1], late + cost);
        let latest_end = pair.end() + pair.duration_error + late;
        // Where other work may lie between the events, it may have been there first.
        let latest_start = if shared { latest_end } else { (pair.start + over_start + late).min(latest_end) };
        let earliest_end = if end_was_queued { pair.end() - pair.duration_error - cost } else { pair.start };
        Spread { over_start, end_was_queued, latest_start, earliest_end, latest_end }
    }

    /// Whether the pair tells how long the operation lasted, up to what is common to all pairs: what an event costs the GPU, and
    /// what stamps are rounded by. What it may over-read is at most a fifth of it. (To be asked of a spread for which events
    /// cost nothing: their cost moves all that are alike by the same.)
    pub fn is_telling(&self, pair: &Pair) -> bool {
        let off_by = self.over_start.saturating_add(2 * pair.duration_error);
        self.end_was_queued && off_by.saturating_mul(5) <= pair.raw
    }

    /// How long the operation of this pair lasted at least and at most; `value` is the best estimate of it.
    pub fn length(&self, pair: &Pair, value: i64) -> Length {
        let ns = |from: i64, to: i64| (to - from).max(0) as u64;
        let (lo, hi) = (ns(self.latest_start, self.earliest_end), ns(pair.start, self.latest_end));
        Length { lo, value: ns(0, value).clamp(lo, hi), hi }
    }
}

/// ns that the proof asks for beyond what the inequality does, because its answer jumps.
const PROOF_MARGIN: i64 = 500;

/// Whether the end event must have been in the queue when the operation completed. `fires_late` is by how much its stamp
/// can differ from the moment that it was at the head of the queue.
fn end_was_queued(pair: &Pair, over_start: i64, upper: i64, fires_late: i64) -> bool {
    let margin = PROOF_MARGIN + fires_late;
    let by_length =
        pair.raw - pair.duration_error > over_start.saturating_add(pair.tail + parted(pair.tail)) + margin;
    let fired_after = pair.end() - pair.start_error - pair.duration_error - upper;
    let by_clock = fired_after > pair.submitted.saturating_add(pair.tail) + margin;
    pair.tail < MOST_TIME as i64 && (by_length || by_clock)
}
