//! When was the GPU busy with an operation? Turns a pair of event stamps into an interval that contains the truth.
//!
//! An operation's *GPU interval* lasts from the moment when it has been submitted and is at the head of its stream to
//! its completion. The agent records one event before the operation and one after it, and notes when it did so on the
//! host:
//!
//! ```text
//! host   b ──record──▸ ──────launch──────▸ submitted ──record──▸
//!          └ start event                   └ operation         └ end event     (each is submitted when its call ends)
//!        ╰────────────── lead ─────────────╯╰────── tail ───────╯
//! GPU        g_s ▪                          ▐ interval ▌   ▪ g_e
//! ```
//!
//! # Symbols
//!
//! - *b*: host time at which the start event's record began; *submitted*: host time at which the operation's call
//!   returned
//! - *lead*, *tail*: host ns from *b* to *submitted*, and from there to the return of the end event's record
//! - *g_s*, *g_e*: GPU times of the start and the end event; *raw* = g_e − g_s
//! - *θ*: the GPU's time minus the host's, which lies in [θ_lo, θ_hi] by [`Clock`]
//! - *B*: the bound on the start over-read, below
//!
//! On a busy stream both events wait in the queue together with the operation, and *raw* is its length. On a drained
//! stream, the start event fires while the host still issues the launch (*start over-read*), and a short operation is
//! over before the end event arrives (*end over-read*). Apart from the precision of stamps, *raw*
//! never reads less than the truth, and it may read more.
//!
//! # Start
//!
//! The operation is submitted by *submitted*, so the start over-read is at most θ + submitted − g_s. Two bounds follow:
//!
//! - Because g_s ≥ θ + b, the over-read is at most *lead*.
//! - Because θ ≤ θ_hi, it is at most submitted − (g_s − θ_hi).
//!
//! *B* is the smaller of the two. B = 0 proves that the launch was queued before its start event fired. The true start
//! is in [g_s, g_s + B].
//!
//! # End
//!
//! An end event that over-reads fires when it is submitted, by θ + submitted + tail at the latest. Then two
//! inequalities are true:
//!
//! - g_e − g_s ≤ B + tail
//! - g_e ≤ θ_hi + submitted + tail
//!
//! If either is false, the end event was queued while the operation ran, and g_e is its completion. If both are true,
//! the operation may have been over at once, and the shortest possible length is 0. The proof demands a margin of
//! 500 ns beyond the inequalities, because the result jumps there.
//!
//! So the length is in [lo, hi] with hi = raw, and lo = raw − B or 0. `duration_error` and the precision of
//! [stamps](super::stamps) widen both: an event fires up to one resolution after its stamp, and a queued end event
//! takes GPU time itself, as a launch does.
//!
//! # Best estimate
//!
//! Work reaches the GPU at the end of the call that submits it, so the operation began at θ̂ + submitted, or at g_s
//! if that is later ([`Clock::guess`] gives θ̂). A queued end event's own cost is taken off its end, and what a
//! [launch](super::stamps::Launch) usually takes the GPU off its start if it was queued, else off its end. If the rest
//! until g_e is no longer than *tail*, the operation was over before the end event arrived; the estimate is the middle
//! between nothing and that rest. A call that blocks
//! until its work is done is different: the work lies inside the call, begins soon after the start event and is over
//! when the call returns.
//!
//! These estimates are rough where the pair alone [says](Spread::is_conclusive) little. There the best value is the
//! typical length of [similar operations](super::typical), if there is one and it lies in the interval.
//!
//! # Errors of time bases
//!
//! `start_error`, the error along a time base, counts where GPU times meet host times. Between neighboring stamps of
//! one time base it cancels.
//!
//! # Units
//!
//! Lengths are in ns of the GPU's clock. Positions are in host ns on the [line](super::gpu_clock): an operation
//! begins no earlier than its call and ends no later than it was observed to be over, and lasts no longer than from the one
//! to the other. (A start event that is the end event of the operation before can have fired long before the call.)
//!
//! # Tests
//!
//! `judge` in this module's tests compares with a simulated GPU (`simulation.rs`) whose intervals are known, on
//! drained, queued and mixed streams. `drained_streams_are_corrected` checks a median error of at most 1 µs where
//! *raw* alone is further off; `queued_streams_need_no_correction` checks that there *raw* is exact.

pub(super) mod pair;

use super::gpu_clock::{Bounds, Clock, Theta, parted};
use super::stamps::{MOST_EVENT_COST, Stamps};
use crate::trace::record::{GpuTime, Work};
use gpuspy_wire::record::flag;
use pair::{Pair, Spread};
use std::borrow::Cow;

pub use super::host_time::{MOST_TIME, host};

/// The share of the time between two events that launches of known kernels have to need for nothing else to lie there: launches of
/// one kernel differ by less.
const NEARLY_ALL: f64 = 0.95;

/// How long similar operations usually take, GPU ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usual {
    /// The 10th percentile.
    pub from: u64,
    /// The median.
    pub value: u64,
    /// The 90th percentile.
    pub to: u64,
    /// Applies only to operations that may have taken longer than this.
    pub beyond: u64,
    /// Whether operations with a determined length agree on it.
    pub is_agreed: bool,
}

/// What the best estimate of a [`GpuInterval`] rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    /// Both events were queued around the operation: the raw pair is its length.
    Proven,
    /// The events may over-read, and the estimate takes that off.
    Corrected,
    /// Only the bounds are meaningful: other work may lie inside the pair.
    BoundsOnly,
    /// Other work may lie inside the pair, and beside it the launches of a run have what they typically take.
    Typical,
}

/// When an operation kept its stream busy, in host ns on the line, and for how long, in GPU ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GpuInterval {
    /// The time base of its stamps. The distance between intervals of two time bases or contexts is uncertain by
    /// `off_by`.
    pub time_base: u32,
    /// It began no earlier: the start event.
    pub earliest_start: i64,
    /// It began no later.
    pub latest_start: i64,
    /// It ended no earlier; this may lie before `latest_start`.
    pub earliest_end: i64,
    /// From here to its end it certainly kept the GPU busy, because all of it had been launched. This is
    /// `latest_start` except in bursts and runs.
    pub busy_from: i64,
    /// It ended no later: the end event.
    pub latest_end: i64,
    /// Best estimate of its start.
    pub start: i64,
    /// Best estimate of its end.
    pub end: i64,
    /// Best estimate of how long the GPU waited for the host between two launches of a burst or a run, host ns. The
    /// wait ended at `busy_from`.
    pub starved: i64,
    /// How long it lasted.
    pub length: Length,
    /// What the best estimates rest on.
    pub basis: Basis,
    /// The raw pair: end event − start event, GPU ns, as much of it as may be the operation's.
    pub raw: u64,
    /// Half-width of the clock's interval at the moment of submission, ns; `None` while θ is bounded on one side only.
    pub clock_half_width: Option<u64>,
    /// Largest error of its position on the line that the clocks allow, ns: the maximum at its submission, start and
    /// end. `None` while θ is bounded on one side only.
    pub off_by: Option<u64>,
}

/// Returns the name of a time base's clock; `None` is the host's.
pub fn clock_name(time_base: Option<u32>) -> Cow<'static, str> {
    time_base.map_or("host".into(), |time_base| format!("gpu {time_base}").into())
}

/// How long an operation lasted, in GPU ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Length {
    /// Lower bound.
    pub lo: u64,
    /// Best estimate.
    pub value: u64,
    /// Upper bound.
    pub hi: u64,
}

impl Length {
    /// Whether the interval is wider than a fifth of the best value, so that the value alone would claim too much.
    pub fn is_wide(&self) -> bool {
        (self.hi - self.lo.min(self.hi)).saturating_mul(5) > self.value
    }
}

impl Length {
    /// Cuts it to the best and the longest time between its positions, host ns; the clocks may part meanwhile.
    fn at_most(self, (best, most): (i64, i64)) -> Length {
        let ns = |host: i64| host.max(0).saturating_add(parted(host)) as u64;
        let hi = self.hi.min(ns(most)).max(self.lo);
        Length { value: self.value.min(ns(best)).clamp(self.lo, hi), hi, ..self }
    }
}

impl GpuInterval {
    /// The lower bound on its length, ns.
    pub fn lo(&self) -> u64 {
        self.length.lo
    }

    /// The upper bound on its length, ns.
    pub fn hi(&self) -> u64 {
        self.length.hi
    }

    /// The bounds of its start and of its end with what its clock may be off: host ns. Without a relation between the clocks,
    /// those of its own clock.
    pub fn bounds(&self) -> [(i64, i64); 2] {
        let off = host(self.off_by.unwrap_or(0));
        [
            (self.earliest_start - off, self.latest_start + off),
            (self.earliest_end - off, self.latest_end + off),
        ]
    }

    /// The name of the clock that its times are on: the host's, or that of its time base if nothing relates them.
    pub fn clock(&self) -> Cow<'static, str> {
        clock_name(self.off_by.is_none().then_some(self.time_base))
    }

    /// How far its stamps can be off in either direction, ns: their resolution, and rounding along the time base.
    pub fn stamps_off_by(&self) -> i64 {
        host(self.length.hi.saturating_sub(self.raw))
    }

    /// Uses the typical total of a run's launches, `ns`, as the best estimate of its busy time. If the host paused after
    /// the run, the end event was recorded after the GPU may have finished, and the run ended earlier. If it paused
    /// between two launches, the GPU starved in the meantime.
    ///
    /// Where other work may lie between the events, as where another thread or the legacy default stream took part, or graphs and
    /// copies on a stream too deep for events, the launches alone may need all of the time: then nothing did. If they need less of it,
    /// what is left is unknown.
    pub fn expect(&mut self, ns: u64) {
        let whole = self.latest_end.saturating_sub(self.earliest_start);
        if self.basis == Basis::BoundsOnly && ns as f64 >= whole as f64 * NEARLY_ALL {
            self.basis = Basis::Corrected;
        }
        if self.earliest_end <= self.busy_from {
            self.end = self
                .start
                .saturating_add(host(ns))
                .clamp(self.earliest_end.max(self.start), self.latest_end.max(self.start));
            self.length.value = ns.clamp(self.length.lo, self.length.hi);
            if self.basis == Basis::BoundsOnly {
                self.basis = Basis::Typical;
            }
            return;
        }
        // Launches differ a little in length, so a small rest says nothing.
        let rest = self.end.saturating_sub(self.start).saturating_sub(host(ns));
        if rest > host(ns) / 4 {
            self.starved = rest.min(self.busy_from - self.start).max(0);
        }
    }

    /// Best estimates of when it ran: of a run in which the GPU [starved](Self::starved), before that and after it.
    pub fn ran(&self) -> [(i64, i64); 2] {
        if self.starved == 0 {
            return [(self.start, self.end), (self.end, self.end)];
        }
        [(self.start, self.busy_from - self.starved), (self.busy_from, self.end)]
    }

    /// Best estimate of its length, ns.
    pub fn value(&self) -> u64 {
        self.length.value
    }
}

/// Adds to `bounds` what a pair of events proves about its clock and its stamps. `before` is the stamp of the
/// previous end event on the same stream.
pub fn teach(work: &Work, gpu: &GpuTime, before: Option<i64>, bounds: &mut Bounds) {
    let pair = Pair::new(work, gpu);
    if pair.duration_error == 0 {
        bounds.stamps.distance(pair.raw);
    }
    if pair.start_error == 0 {
        bounds.stamps.distance(pair.start);
    }
    // If both are one event, nothing lies between them whose cost could be measured.
    if let Some(before) = before.filter(|_| pair.flags & flag::SHARED_START == 0) {
        bounds.stamps.gap(pair.start - before, pair.start_error);
    }
    if pair.lead < MOST_TIME as i64 {
        bounds.recorded(pair.submitted - pair.lead, pair.start, pair.start_error);
    }
    bounds.recorded(pair.last, pair.end(), pair.error());
    if pair.seen != i64::MAX {
        bounds.completed(pair.seen, pair.end(), pair.error());
    }
    if pair.tail < MOST_TIME as i64 {
        bounds.record_took(pair.tail);
    }
}

/// The end event's stamp and its error.
pub fn end_stamp(work: &Work, gpu: &GpuTime) -> (i64, i64) {
    let pair = Pair::new(work, gpu);
    (pair.end(), pair.error())
}

/// Derives the interval of a timed operation from its events and its clock.
///
/// `blocking` says that the call returns only when the work is done (see the module).
///
/// `usual` is the usual length of similar operations, where it is known. It is used where the pair itself says little.
pub fn derive(
    work: &Work,
    gpu: &GpuTime,
    blocking: bool,
    usual: Option<Usual>,
    clock: &Clock,
) -> GpuInterval {
    let pair = Pair::new(work, gpu);
    let Measured { theta, spread, mut start, mut end, mut length, is_conclusive } =
        measure(&pair, blocking, clock);
    let events = [clock.to_host(pair.start), clock.to_host(pair.end())];
    // Work may start and end long after it was submitted, and the clocks drift apart meanwhile.
    let submitted = theta.off_by(clock.line(pair.submitted));
    let worst = |worst: u64, at: &i64| Some(worst.max(clock.off_by(*at)?));
    let off_by = submitted.and_then(|submitted| events.iter().try_fold(submitted, worst));
    // Most of the moments are those of the events.
    let to_host = |gpu: i64| match gpu {
        start if start == pair.start => events[0],
        end if end == pair.end() => events[1],
        other => clock.to_host(other),
    };
    let begins = |gpu: i64| to_host(gpu).max(pair.began);
    let ends = |gpu: i64| to_host(gpu).min(pair.seen).max(pair.began);
    let (earliest_start, latest_end) = (begins(pair.start), ends(spread.latest_end));
    let ends_moved = [earliest_start > events[0], latest_end < to_host(spread.latest_end)];
    let error = off_by.map(|ns| host(ns) + pair.error() + 1);
    let most = longest((earliest_start, latest_end), ends_moved, error);
    let uncut = length.hi;
    length = most.map_or(length, |most| length.at_most((most, most)));
    // If only the start is in doubt, the moment of submission is better than a length that is merely a guess.
    let helps = |usual: &Usual| !is_conclusive && (usual.is_agreed || !spread.end_was_queued);
    let usual = usual.filter(helps).and_then(|usual| usual.within(length.lo, length.hi));
    if let Some(usual) = usual {
        length.value = usual;
        (start, end) = placed(&pair, &spread, &clock.stamps, start, host(usual));
    }
    let best = (to_host(start), to_host(end));
    let (start, end) = between(best, (pair.began, pair.seen), (earliest_start, latest_end));
    length = most.map_or(length, |most| length.at_most((end.saturating_sub(start), most)));
    GpuInterval {
        time_base: gpu.time_base,
        earliest_start,
        latest_start: begins(spread.latest_start),
        earliest_end: ends(spread.earliest_end),
        latest_end,
        busy_from: begins(busy_from(&pair, &spread, theta, clock)),
        start,
        end,
        starved: 0,
        length,
        basis: match (pair.is_shared(), spread.end_was_queued && spread.over_start == 0) {
            (true, _) => Basis::BoundsOnly,
            (false, true) => Basis::Proven,
            (false, false) => Basis::Corrected,
        },
        raw: (pair.raw as u64).saturating_sub(uncut - length.hi),
        clock_half_width: theta.half_width(),
        off_by: off_by.map(|ns| ns.saturating_add(pair.error() as u64 + 1)),
    }
}

/// Returns the longest time between the positions, host ns, where the host's own calls moved one of them: it began its call
/// later than the start event fired, or saw the operation complete before the end event did. `error` is that of the clock.
fn longest(
    (earliest_start, latest_end): (i64, i64),
    ends_moved: [bool; 2],
    error: Option<i64>,
) -> Option<i64> {
    let error = match ends_moved {
        [true, true] => Some(0),
        [false, false] => None,
        // The other end is as uncertain as the clock.
        _ => error,
    };
    Some(latest_end.saturating_sub(earliest_start).saturating_add(error?))
}

/// Returns when an operation ran whose best start and end by the clock are given, on the host's line: not before its call
/// began, and not after it was seen to be over. Where the clock says otherwise, all of it was later or earlier, as far as its
/// earliest start and its latest end allow that.
fn between(
    (start, end): (i64, i64),
    (began, seen): (i64, i64),
    (earliest_start, latest_end): (i64, i64),
) -> (i64, i64) {
    let early = began.saturating_sub(start).max(0);
    let late = end.saturating_sub(seen).max(0);
    let least_end = end.min(seen).max(began);
    let end = end.saturating_add(early).min(latest_end).max(least_end);
    let start = start.max(began).saturating_sub(late).max(earliest_start);
    // What a launch usually takes may be more than the time until it was seen to be over.
    (start.min(end), end)
}

/// The moment from which the GPU was certainly busy with it. A launch of a burst or a run that was submitted later
/// may have found the stream empty.
fn busy_from(pair: &Pair, spread: &Spread, submitted: Theta, clock: &Clock) -> i64 {
    let theta = if pair.last == pair.submitted { submitted } else { clock.theta(pair.last) };
    let launched = pair.last + theta.upper.unwrap_or(MOST_TIME as i64);
    spread.latest_start.max(launched.min(spread.latest_end))
}

/// Places an operation of the given length: it ended with its end event if that was queued, and began when it was
/// submitted if the length leaves room for that.
fn placed(pair: &Pair, spread: &Spread, stamps: &Stamps, submitted: i64, length: i64) -> (i64, i64) {
    let ends_last = spread.end_was_queued || submitted + length > pair.end();
    let end = spread.last(pair, stamps);
    let latest = end.min(spread.latest_start).max(pair.start);
    let start = if ends_last { (end - length).clamp(pair.start, latest) } else { submitted };
    (start, (start + length).min(pair.end()))
}

/// What a pair of events says by itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct Measured {
    /// The bounds on θ when it was submitted.
    theta: Theta,
    spread: Spread,
    /// GPU: best estimates of start and end.
    start: i64,
    end: i64,
    /// How long the operation lasted.
    pub length: Length,
    /// Whether the pair determines the length, up to the errors that are [common to all pairs](Spread::is_conclusive).
    pub is_conclusive: bool,
}

/// Measures the operation between two events by the clock alone.
pub(super) fn measure(pair: &Pair, blocking: bool, clock: &Clock) -> Measured {
    let theta = clock.theta(pair.submitted);
    let upper = [theta, clock.theta(pair.submitted.saturating_add(pair.tail))];
    let upper = upper.map(|theta| theta.upper.unwrap_or(MOST_TIME as i64));
    let guess = clock.guess(theta).unwrap_or(MOST_TIME as i64);
    let late = clock.stamps.resolution();
    let launch = clock.stamps.launch();
    let launch = if pair.is_graph { launch.most_of_graph } else { launch.most };
    let spread = Spread::of(pair, upper, late, clock.stamps.most_cost(), launch);
    let (start, end) = estimate(pair, &spread, guess, &clock.stamps, blocking);
    let is_conclusive = Spread::of(pair, upper, late, 0, 0).is_conclusive(pair);
    Measured { theta, spread, start, end, length: spread.length(pair, end - start), is_conclusive }
}

/// Derives the interval of a graph's node, whose two events involve no host call: the node starts when the start
/// event is over, and the end event follows it. The pair includes the end event's own cost, which is taken off the best
/// estimate, and the graph's scheduling, which nothing measures: the lower bound takes off the most that is assumed of
/// an event. Its place on the line is as uncertain as the clock at its events.
pub fn of_node(gpu: &GpuTime, clock: &Clock) -> GpuInterval {
    let late = clock.stamps.resolution();
    let start = gpu.start.clamp(-(MOST_TIME as i64), MOST_TIME as i64);
    let (raw, error) = (host(gpu.duration), i64::from(gpu.duration_error));
    let [first, last] = [start, start + raw].map(|event| clock.off_by(clock.to_host(event)));
    let off_by = first.zip(last).map(|(first, last)| first.max(last));
    let lo = (raw - error - MOST_EVENT_COST - late).max(0);
    let hi = raw + error + late;
    let value = (raw - clock.stamps.cost()).clamp(lo, hi);
    GpuInterval {
        time_base: gpu.time_base,
        earliest_start: clock.to_host(start),
        latest_start: clock.to_host(start + late),
        earliest_end: clock.to_host(start + lo),
        latest_end: clock.to_host(start + hi),
        busy_from: clock.to_host(start + late),
        start: clock.to_host(start),
        end: clock.to_host(start + value),
        starved: 0,
        length: Length { lo: lo as u64, value: value as u64, hi: hi as u64 },
        basis: Basis::Corrected,
        raw: raw as u64,
        clock_half_width: None,
        off_by: off_by.map(|ns| ns.saturating_add(u64::from(gpu.start_error) + error as u64 + 1)),
    }
}

/// Whether the line puts an operation before its start event was recorded or after its end event was observed, by
/// more than its stamps' errors. That never happens while the clock's assumptions are true.
pub fn breaks_causality(work: &Work, gpu: &GpuTime, clock: &Clock) -> bool {
    let pair = Pair::new(work, gpu);
    let late = clock.stamps.resolution();
    let recorded = if pair.lead < MOST_TIME as i64 { pair.submitted - pair.lead } else { i64::MIN };
    clock.to_host(pair.start + pair.start_error + late) < recorded
        || clock.to_host(pair.end() - pair.error()) > pair.seen
}

/// Best estimates of start and end, GPU ns.
fn estimate(pair: &Pair, spread: &Spread, guess: i64, stamps: &Stamps, blocking: bool) -> (i64, i64) {
    let returned = (guess + pair.submitted).clamp(pair.start, pair.end());
    // A queued end event is stamped when its own time is over, too.
    let last = spread.last(pair, stamps);
    if blocking {
        // A start event of its own is recorded in the call; that of the operation before may have fired long before it.
        let is_shared = pair.flags & flag::SHARED_START != 0 && guess < MOST_TIME as i64;
        let called = if is_shared { (guess + pair.began).clamp(pair.start, returned) } else { pair.start };
        return (called, if spread.end_was_queued { last } else { returned });
    }
    let submitted = returned.min(pair.start + spread.over_start);
    let launch = if spread.over_start > 0 { 0 } else { stamps.launch().queued };
    let start = (submitted + launch).min(last).max(pair.start);
    let rest = last - start;
    let over_at_once = !spread.end_was_queued && rest <= pair.tail;
    (start, start + if over_at_once { rest / 2 } else { rest })
}

#[cfg(test)]
mod tests;
