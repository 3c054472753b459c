//! How does a GPU's clock relate to the host's, and where on the host's time line does a GPU time lie?
//!
//! # Symbols
//!
//! All times are in ns.
//!
//! - *b*: host time at which a call began that records a CUDA event
//! - *g*: the event's GPU time stamp
//! - *s*: host time at which the event was observed to be complete, by the poller or because a synchronization of the
//!   program's returned
//! - *θ(t)*: the GPU's time minus the host's time, at host time *t*
//!
//! # Bounds
//!
//! θ cannot be read, but every event bounds it twice:
//!
//! - An event never completes before it was recorded. It fired at a host time ≥ *b*, so θ(b) ≤ g − b.
//! - An event observed complete at *s* fired at a host time ≤ *s*, so θ(s) ≥ g − s.
//!
//! A first pass over the trace collects these as [`Bounds`]. Of each second of host time it keeps only those that
//! matter: the corners of their [convex hull](hull), the method of Duda et al., "Estimating Global Time in
//! Distributed Systems" (ICDCS 1987), and of Zhang, Liu and Xia, "Clock Synchronization Algorithms for Network
//! Measurements" (INFOCOM 2002). Then θ is [fitted](fit).
//!
//! # Assumptions
//!
//! What a bound says about other times rests on three assumptions, which every report prints:
//!
//! - The drift dθ/dt is at most [`DRIFT_PPM`] either way: oscillators of PCs are specified to ±100 ppm, and each of
//!   the two clocks has one.
//! - The drift changes by at most [`TURN_PPM`] from one second to the next. A crystal's frequency follows its
//!   temperature by less than 1 ppm per kelvin, and a board does not keep warming by a kelvin a second.
//! - All time bases of all contexts of a device have the same drift, because one oscillator drives them.
//!
//! The first two make θ nearly straight: within a second, any drift that changes by at most 1 ppm a second keeps θ
//! within ±[`BEND_NS`] of a line. Bounds that contradict each other show that an assumption failed. They are
//! [counted](super::clocks::Clocks::contradictions), and the report says so.
//!
//! # The line
//!
//! The bounds form a corridor between two polylines, and θ lies inside. A [taut string](string) through the corridor
//! maps GPU times to host times. The corridor for the string is the narrower one that the stamps give when they are
//! taken literally, without their errors. So there is one line for all time bases, contexts and devices, on which no
//! operation begins before its call did and none ends after it was observed to be over. The line's distance from the
//! truth is at most its distance from the corridor's far side: [`Clock::off_by`].
//!
//! # Tests
//!
//! `tests.rs` simulates oscillators with a known θ. `theta_is_always_inside` checks that the interval and `off_by`
//! contain θ for arbitrary drifts within the assumptions; `the_line_keeps_every_bound` checks causality, also with
//! forged bounds; `the_width_is_what_the_bounds_allow` checks the precision (a median width of at most 20 µs where
//! the program synchronizes once a second, 60 µs where its queue never drains);
//! `a_step_of_the_clock_is_counted_and_both_sides_are_kept` checks a clock that breaks the assumptions.

mod fit;
mod hull;
mod polyline;
mod string;

use super::stamps::Stamps;
use crate::hash::HashMap;
use hull::{Hull, Point};
use polyline::{Place, Polyline, between, share};
use string::Segment;

/// Largest assumed drift between a GPU clock and the host's, in parts per million: two oscillators of ±100 ppm each.
pub const DRIFT_PPM: i64 = 200;

/// Largest assumed change of the drift from one second to the next, in parts per million.
pub const TURN_PPM: i64 = 1;

/// Length of a piece of host time within which θ is treated as a straight line, ns.
pub const PIECE_NS: i64 = 1_000_000_000;

/// How far θ can be from a straight line within a piece, ns: a curve whose slope changes by κ per ns deviates from
/// its chord by κ · length² / 8, which is 1e-15 · (1e9)² / 8 = 125.
pub const BEND_NS: i64 = 125;

/// Errors of stamps above this many ns move the bound itself. Smaller ones widen the whole piece by the largest of
/// them.
const SMALL_ERROR: i64 = 1_000;

/// The two sides that θ is bounded on: above and, negated so that the same code treats both, below.
const ABOVE: usize = 0;
const BELOW: usize = 1;

/// Returns how far the clocks can drift apart within `elapsed` ns, in whole ns.
pub fn parted(elapsed: i64) -> i64 {
    elapsed.saturating_abs() / (1_000_000 / DRIFT_PPM)
}

/// The bounds on θ of one time base of one context, as a pass over the trace finds them. All times are in ns. Its size
/// depends on the number of seconds that have bounds, not on the number of bounds.
#[derive(Clone, Debug, Default)]
pub struct Bounds {
    /// The precision of the events' stamps.
    pub stamps: Stamps,
    record_cost: Option<i64>,
    /// In the order in which they were first used; after [`settle`](Bounds::settle), in order of time.
    pieces: Vec<Piece>,
    /// Second → its index in `pieces`.
    places: HashMap<i64, usize>,
    /// The indices used last.
    recent: [usize; 2],
}

/// The bounds of one second of host time.
#[derive(Clone, Debug)]
struct Piece {
    second: i64,
    /// By side.
    hulls: [Hull; 2],
    /// By side: the largest error of the stamps, ns.
    errors: [i64; 2],
}

impl Bounds {
    /// Adds an event with GPU time `gpu` (± `error`) that was recorded by a call that began at host time `host`.
    pub fn recorded(&mut self, host: i64, gpu: i64, error: i64) {
        self.bound(ABOVE, Point { at: host, offset: gpu - host }, error);
    }

    /// Adds an event with GPU time `gpu` (± `error`) that had completed by host time `host`.
    pub fn completed(&mut self, host: i64, gpu: i64, error: i64) {
        self.bound(BELOW, Point { at: host, offset: host - gpu }, error);
    }

    /// Notes that a call that records an event took `ns`. The shortest one estimates how far the upper bounds are
    /// above θ.
    pub fn record_took(&mut self, ns: i64) {
        self.record_cost = Some(self.record_cost.map_or(ns, |least| least.min(ns)));
    }

    /// The number of bounds that are kept.
    pub fn kept(&self) -> usize {
        self.pieces.iter().flat_map(|piece| &piece.hulls).map(|hull| hull.corners().len()).sum()
    }

    fn bound(&mut self, side: usize, mut point: Point, mut error: i64) {
        if error > SMALL_ERROR {
            (point.offset, error) = (point.offset.saturating_add(error), 0);
        }
        let here = self.place(point.at.div_euclid(PIECE_NS));
        let piece = &mut self.pieces[here];
        piece.hulls[side].add(point);
        piece.errors[side] = piece.errors[side].max(error);
    }

    /// Returns the index of a second's piece, which it makes if there is none.
    fn place(&mut self, second: i64) -> usize {
        // Nearly all bounds belong to the last piece or the one before.
        let is_it = |here: &usize| self.pieces.get(*here).is_some_and(|piece| piece.second == second);
        if let Some(here) = self.recent.into_iter().find(is_it) {
            return here;
        }
        let pieces = &mut self.pieces;
        let here = *self.places.entry(second).or_insert_with(|| {
            pieces.push(Piece { second, hulls: Default::default(), errors: [0; 2] });
            pieces.len() - 1
        });
        self.recent = [here, self.recent[0]];
        here
    }

    /// Sorts the pieces by time. Called when all bounds have been added.
    fn settle(&mut self) {
        self.pieces.sort_unstable_by_key(|piece| piece.second);
        (self.places, self.recent) = Default::default();
        self.places.extend(self.pieces.iter().enumerate().map(|(here, piece)| (piece.second, here)));
    }

    /// How much further out than a piece's bounds θ can be, ns: the stamps' errors, the delay from an event's stamp
    /// to its firing, and θ's deviation from a line.
    fn slack(&self, piece: &Piece, side: usize) -> i64 {
        let late = if side == ABOVE { self.stamps.resolution() } else { 0 };
        piece.errors[side] + late + BEND_NS
    }

    /// The slack at a moment: where two pieces meet, the larger one.
    fn slack_at(&self, at: i64, side: usize) -> i64 {
        let second = at.div_euclid(PIECE_NS);
        let first = second - i64::from(at.rem_euclid(PIECE_NS) == 0);
        let begin = self.pieces.partition_point(|piece| piece.second < first);
        let meeting = self.pieces[begin..].iter().take_while(|piece| piece.second <= second);
        meeting.map(|piece| self.slack(piece, side)).max().unwrap_or(BEND_NS)
    }
}

/// θ of one time base of one context: the interval that contains it, and the line. All times are in ns.
#[derive(Clone, Debug, Default)]
pub struct Clock {
    /// The precision of the events' stamps.
    pub stamps: Stamps,
    record_cost: i64,
    /// By side; empty if θ is not bounded on it.
    sides: [Polyline; 2],
    /// The line by host time, and by GPU time.
    line: Polyline,
    gpu_line: Polyline,
}

/// The interval that contains θ at one host time, ns. A side without a bound is `None`.
#[derive(Clone, Copy, Debug)]
pub struct Theta {
    /// The upper bound.
    pub upper: Option<i64>,
    /// The lower bound.
    pub lower: Option<i64>,
}

impl Theta {
    /// Half the width of the interval, ns; `None` while θ is bounded on one side only.
    pub fn half_width(self) -> Option<u64> {
        Some(self.lower?.abs_diff(self.upper?) / 2)
    }

    /// How far a value can be from θ, ns; `None` while θ is bounded on one side only.
    pub fn off_by(self, value: i64) -> Option<u64> {
        Some(self.upper?.abs_diff(value).max(self.lower?.abs_diff(value)))
    }
}

impl Clock {
    fn new(bounds: &Bounds, sides: fit::Corridor) -> Clock {
        let line = line(bounds, &sides);
        Clock {
            stamps: bounds.stamps,
            record_cost: bounds.record_cost.unwrap_or(0),
            sides: sides.map(|side| Polyline::new(side, at)),
            gpu_line: Polyline::new(line.clone(), gpu),
            line: Polyline::new(line, at),
        }
    }

    /// The bounds on θ at host time `moment`. Where they contradict each other, the interval covers both.
    #[inline]
    pub fn theta(&self, moment: i64) -> Theta {
        let bound = |side: &Polyline| {
            Some(match side.find(moment, at) {
                Place::Nowhere => return None,
                Place::Beyond(end) => end.offset + parted(moment.saturating_sub(end.at)) + 1 + BEND_NS,
                Place::Between(a, b) => between(a, b, moment) + 1 + BEND_NS,
            })
        };
        match [bound(&self.sides[ABOVE]), bound(&self.sides[BELOW]).map(|bound| -bound)] {
            [Some(upper), Some(lower)] => {
                Theta { upper: Some(upper.max(lower)), lower: Some(upper.min(lower)) }
            }
            [upper, lower] => Theta { upper, lower },
        }
    }

    /// The upper bound on θ at host time `at`.
    pub fn upper(&self, at: i64) -> Option<i64> {
        self.theta(at).upper
    }

    /// The lower bound on θ at host time `at`.
    pub fn lower(&self, at: i64) -> Option<i64> {
        self.theta(at).lower
    }

    /// The best estimate of θ, of which these bounds are known.
    ///
    /// The upper bounds count from the start of the call that records an event, but the event reaches the GPU at the
    /// call's end. On a drained stream it fires at once, so the least `g − b` lies above θ by the length of one such
    /// call. This subtracts the length of the shortest one, and the slack that was added for θ not being a line.
    pub fn guess(&self, theta: Theta) -> Option<i64> {
        let guess = theta.upper? - 2 * BEND_NS - self.record_cost;
        Some(theta.lower.map_or(guess, |lower| guess.max(lower)))
    }

    /// Half the width of the interval at host time `at`, ns; `None` while θ is bounded on one side only.
    pub fn half_width(&self, at: i64) -> Option<u64> {
        self.theta(at).half_width()
    }

    /// The largest possible error of the line at host time `at`, ns; `None` while θ is bounded on one side only.
    #[inline]
    pub fn off_by(&self, at: i64) -> Option<u64> {
        self.theta(at).off_by(self.line(at))
    }

    /// The line's value of θ at host time `moment`.
    pub fn line(&self, moment: i64) -> i64 {
        match self.line.find(moment, at) {
            Place::Nowhere => 0,
            Place::Beyond(end) => end.offset,
            Place::Between(a, b) => between(a, b, moment),
        }
    }

    /// Maps GPU time `moment` to host time along the line, rounded down. Bounds are whole ns, so rounding breaks none.
    pub fn to_host(&self, moment: i64) -> i64 {
        match self.gpu_line.find(moment, gpu) {
            Place::Nowhere => moment,
            Place::Beyond(end) => moment - end.offset,
            Place::Between(a, b) => {
                let (from, to) = (gpu(&a), gpu(&b));
                a.at + (moment - from) + share([b.offset, a.offset], moment - from, to - from)
            }
        }
    }
}

/// The host time of a point on the line.
fn at(point: &Point) -> i64 {
    point.at
}

/// The GPU time of a point on the line.
fn gpu(point: &Point) -> i64 {
    point.at + point.offset
}

/// Returns the taut string through the corridor, or the one side that there is. As a map from host to GPU time it rises
/// strictly.
fn line(bounds: &Bounds, sides: &fit::Corridor) -> Vec<Point> {
    let alone = |side: usize, sign: i64| {
        let as_stamped = |p: &Point| Point { offset: sign * (p.offset - bounds.slack_at(p.at, side)), ..*p };
        sides[side].iter().map(as_stamped).collect()
    };
    let mut line: Vec<Point> = match sides {
        [_, none] if none.is_empty() => alone(ABOVE, 1),
        [none, _] if none.is_empty() => alone(BELOW, -1),
        [above, below] => string::pull(segments(bounds, above, below).iter()),
    };
    let mut last: Option<Point> = None;
    line.retain(|point| {
        let rises =
            last.is_none_or(|last| last.at < point.at && last.at + last.offset < point.at + point.offset);
        if rises {
            last = Some(*point);
        }
        rises
    });
    line
}

/// Returns the corridor at each of its corners, as narrow as the stamps taken literally make it. Where that leaves
/// nothing, the middle.
fn segments(bounds: &Bounds, above: &[Point], below: &[Point]) -> Vec<Segment> {
    let mut times: Vec<i64> = above.iter().chain(below).map(|point| point.at).collect();
    times.sort_unstable();
    times.dedup();
    let [above, below] = [above, below].map(|side| Polyline::new(side.to_vec(), at));
    let segment = |moment: i64| {
        let end = |side: usize, line: &Polyline| match line.find(moment, at) {
            Place::Between(a, b) => between(a, b, moment) - bounds.slack_at(moment, side),
            Place::Beyond(end) => end.offset - bounds.slack_at(moment, side),
            Place::Nowhere => 0,
        };
        let (high, low) = (end(ABOVE, &above), -end(BELOW, &below));
        let middle = low + (high - low).div_euclid(2);
        let (low, high) = if low <= high { (low, high) } else { (middle, middle) };
        Segment { at: moment, low, high }
    };
    times.into_iter().map(segment).collect()
}

/// Fits the bounds of the time bases that one oscillator drives. Returns a clock for each, and how many bounds contradicted
/// each other.
pub fn fit_oscillator(mut time_bases: Vec<Bounds>) -> (Vec<Clock>, u64) {
    let stamps = time_bases.iter().fold(Stamps::default(), |all, time_base| all.and(time_base.stamps));
    for time_base in &mut time_bases {
        time_base.stamps = stamps;
        time_base.settle();
    }
    let (corridors, contradictions) = fit::fit(&time_bases);
    let fitted =
        time_bases.iter().zip(corridors).map(|(time_base, corridor)| Clock::new(time_base, corridor));
    (fitted.collect(), contradictions)
}

#[cfg(test)]
mod tests;
