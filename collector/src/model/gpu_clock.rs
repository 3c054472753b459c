//! What is known of a GPU clock against the host's, and the one line that both lie on.
//!
//! Let θ(t) be the GPU's time minus the host's at host time t. Nobody can read it; two facts bound it.
//!
//! - An event never completes before it was recorded. One recorded by a call that began at host time `b` and that
//!   carries GPU time `g` fired at a host time ≥ `b`, so θ(b) ≤ g − b.
//! - An event that was seen complete at host time `s` (by the poller, or because the app's own synchronise returned)
//!   fired at a host time ≤ `s`, so θ(s) ≥ g − s.
//!
//! A first pass over the trace collects those [`Bounds`], of each piece of a second only the ones that matter: the corners
//! of their [convex hull](hull). Then θ is [fitted](fit). What a bound says about other times rests on three
//! assumptions, which every report prints:
//!
//! - The drift dθ/dt is at most [`DRIFT_PPM`] either way. PC oscillators are specified to ±100 ppm, and both clocks have
//!   one.
//! - It changes by at most [`TURN_PPM`] from a second to the next. Crystals drift with their temperature, by less than
//!   1 ppm per kelvin, and a board does not warm by a kelvin a second for long.
//! - All time bases of all contexts of a device have the same drift: one oscillator drives them.
//!
//! The first two follow from any drift that turns by 1 ppm a second, however it does: within a second such a θ is a line
//! to ± [`BEND_NS`].
//!
//! **The line.** θ lies in a corridor between two polylines. Through it a [string](string) is pulled taut, inside even
//! what the bounds say of the stamps as they are, errors left out. It maps GPU times to host times: one line for all time bases,
//! contexts and devices, on which no operation begins before its call did and none ends after it was seen to be over.
//! How far it can be from the truth is the distance to the corridor's far side, [`Clock::off_by`].

mod fit;
mod hull;
mod string;

use super::period::Captures;
use super::run::Streams;
use super::stamps::Stamps;
use super::typical::Typical;
use crate::trace::record::Status;
use hull::{Hull, Point};
use std::collections::{BTreeMap, HashMap};
use string::Gate;

/// How far a GPU clock and the host's may part, in parts per million: two oscillators of ±100 ppm each. Assumed.
pub const DRIFT_PPM: i64 = 200;

/// How far that may change from one second to the next, in parts per million. Assumed.
pub const TURN_PPM: i64 = 1;

/// Length of a piece of host time in which θ counts as a straight line, ns.
pub const PIECE_NS: i64 = 1_000_000_000;

/// How far from a line θ can be within a piece, ns: a curve that turns by κ leaves its chord by κ · length² / 8.
pub const BEND_NS: i64 = 125;

/// A bound with a larger error than this is moved by it; smaller ones widen the corridor by that of their piece, ns.
const SMALL_ERROR: i64 = 1_000;

/// The two sides that θ is bounded from: above, and (negated, so that they are treated alike) below.
const ABOVE: usize = 0;
const BELOW: usize = 1;

/// How far the clocks can part within `elapsed` ns, in whole ns.
pub fn parted(elapsed: i64) -> i64 {
    elapsed.saturating_abs() / (1_000_000 / DRIFT_PPM)
}

/// Bounds on θ of one time base of one context, as they are found. All times in ns. Its size is that of the seconds in which
/// there were any.
#[derive(Clone, Debug, Default)]
pub struct Bounds {
    /// What its events' stamps are worth.
    pub stamps: Stamps,
    record_cost: Option<i64>,
    /// In the order in which they were met; [`settled`](Bounds::settle), in that of time.
    pieces: Vec<Piece>,
    /// Where in `pieces` a second's is.
    places: HashMap<i64, usize>,
    /// The two that were met last.
    recent: [usize; 2],
}

/// Those of a second of host time.
#[derive(Clone, Debug)]
struct Piece {
    second: i64,
    /// By side.
    hulls: [Hull; 2],
    /// By side: all of its stamps are exact to ± this.
    errors: [i64; 2],
}

impl Bounds {
    /// An event with GPU time `gpu`, exact to ± `error`, was recorded by a call that began at host time `host`.
    pub fn recorded(&mut self, host: i64, gpu: i64, error: i64) {
        self.bound(ABOVE, Point { at: host, offset: gpu - host }, error);
    }

    /// An event with GPU time `gpu`, exact to ± `error`, had completed at host time `host`.
    pub fn completed(&mut self, host: i64, gpu: i64, error: i64) {
        self.bound(BELOW, Point { at: host, offset: host - gpu }, error);
    }

    /// A call that records an event took `ns`. The least of them tells how far the upper bounds are from θ.
    pub fn record_took(&mut self, ns: i64) {
        self.record_cost = Some(self.record_cost.map_or(ns, |least| least.min(ns)));
    }

    /// How many bounds are kept.
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

    /// Where the piece of a second is.
    fn place(&mut self, second: i64) -> usize {
        // Nearly all bounds are of the last piece, or the one before.
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

    /// Puts the pieces in the order of time: all bounds have been found.
    fn settle(&mut self) {
        self.pieces.sort_unstable_by_key(|piece| piece.second);
        (self.places, self.recent) = Default::default();
        self.places.extend(self.pieces.iter().enumerate().map(|(here, piece)| (piece.second, here)));
    }

    /// How much further away than the bounds of a piece θ can be: by the stamps' errors, by how much later than its stamp an
    /// event can have fired, and by what θ is no line.
    fn slack(&self, piece: &Piece, side: usize) -> i64 {
        let late = if side == ABOVE { self.stamps.resolution() } else { 0 };
        piece.errors[side] + late + BEND_NS
    }

    /// The same at a moment: the most of the pieces that meet there.
    fn slack_at(&self, at: i64, side: usize) -> i64 {
        let second = at.div_euclid(PIECE_NS);
        let first = second - i64::from(at.rem_euclid(PIECE_NS) == 0);
        let begin = self.pieces.partition_point(|piece| piece.second < first);
        let meeting = self.pieces[begin..].iter().take_while(|piece| piece.second <= second);
        meeting.map(|piece| self.slack(piece, side)).max().unwrap_or(BEND_NS)
    }
}

/// θ of one time base of one context: the interval that it lies in, and the line. All times in ns.
#[derive(Clone, Debug, Default)]
pub struct Clock {
    /// What its events' stamps are worth.
    pub stamps: Stamps,
    record_cost: i64,
    /// By side; empty = not bounded.
    sides: [Vec<Point>; 2],
    line: Vec<Point>,
}

impl Clock {
    fn new(bounds: &Bounds, sides: fit::Corridor) -> Clock {
        let line = line(bounds, &sides);
        Clock { stamps: bounds.stamps, record_cost: bounds.record_cost.unwrap_or(0), sides, line }
    }

    /// The most that θ can be at host time `at`.
    pub fn upper(&self, at: i64) -> Option<i64> {
        self.interval(at)[ABOVE]
    }

    /// The least that θ can be at host time `at`.
    pub fn lower(&self, at: i64) -> Option<i64> {
        self.interval(at)[BELOW]
    }

    /// The best guess of θ at host time `at`.
    ///
    /// The upper bounds count from the begin of a record call, but the event reaches the GPU at its end. On a drained
    /// stream it fires at once, so the least of `g − b` stands one record call above θ; that call's cost is taken off,
    /// and what was added for θ being no line.
    pub fn guess(&self, at: i64) -> Option<i64> {
        let [upper, lower] = self.interval(at);
        let guess = upper? - 2 * BEND_NS - self.record_cost;
        Some(lower.map_or(guess, |lower| guess.max(lower)))
    }

    /// Half the width of the interval at host time `at`, ns; `None` while a side is unknown.
    pub fn half_width(&self, at: i64) -> Option<u64> {
        let [upper, lower] = self.interval(at);
        Some(lower?.abs_diff(upper?) / 2)
    }

    /// How far from the truth the line can be at host time `at`, ns; `None` while a side is unknown.
    pub fn off_by(&self, at: i64) -> Option<u64> {
        let ([upper, lower], line) = (self.interval(at), self.line(at));
        Some(upper?.abs_diff(line).max(lower?.abs_diff(line)))
    }

    /// θ by the line, at host time `at`.
    pub fn line(&self, at: i64) -> i64 {
        match find(&self.line, at, |point| point.at) {
            Place::Nowhere => 0,
            Place::Beyond(end) => end.offset,
            Place::Between(a, b) => between(a, b, at),
        }
    }

    /// The host time of GPU time `gpu` by the line, rounded down: that breaks no bound, which are whole ns.
    pub fn to_host(&self, gpu: i64) -> i64 {
        match find(&self.line, gpu, |point| point.at + point.offset) {
            Place::Nowhere => gpu,
            Place::Beyond(end) => gpu - end.offset,
            Place::Between(a, b) => {
                let (from, to) = (a.at + a.offset, b.at + b.offset);
                let passed = i128::from(gpu - from) * i128::from(b.at - a.at);
                a.at + passed.div_euclid(i128::from(to - from)) as i64
            }
        }
    }

    /// By side. Where bounds contradict each other, the interval holds what both say.
    fn interval(&self, at: i64) -> [Option<i64>; 2] {
        let bound = |side: &[Point]| {
            Some(match find(side, at, |point| point.at) {
                Place::Nowhere => return None,
                Place::Beyond(end) => end.offset + parted(at.saturating_sub(end.at)) + 1 + BEND_NS,
                Place::Between(a, b) => between(a, b, at) + 1 + BEND_NS,
            })
        };
        match [bound(&self.sides[ABOVE]), bound(&self.sides[BELOW]).map(|bound| -bound)] {
            [Some(upper), Some(lower)] => [Some(upper.max(lower)), Some(upper.min(lower))],
            one_sided => one_sided,
        }
    }
}

/// Where a value lies among the points of a polyline.
enum Place {
    Nowhere,
    Beyond(Point),
    Between(Point, Point),
}

fn find(points: &[Point], value: i64, key: impl Fn(&Point) -> i64) -> Place {
    let next = points.partition_point(|point| key(point) <= value);
    match (next.checked_sub(1).and_then(|last| points.get(last)), points.get(next)) {
        (Some(a), Some(b)) => Place::Between(*a, *b),
        (Some(end), None) | (None, Some(end)) => Place::Beyond(*end),
        (None, None) => Place::Nowhere,
    }
}

/// The offset at `at` on the line from `a` to `b`, rounded down.
fn between(a: Point, b: Point, at: i64) -> i64 {
    let rise = (i128::from(b.offset) - i128::from(a.offset)) * i128::from(at - a.at);
    a.offset + rise.div_euclid(i128::from(b.at - a.at)) as i64
}

/// The taut string through the corridor, or its one side; strictly increasing as a map from host to GPU time.
fn line(bounds: &Bounds, sides: &fit::Corridor) -> Vec<Point> {
    let alone = |side: usize, sign: i64| {
        let as_stamped = |p: &Point| Point { offset: sign * (p.offset - bounds.slack_at(p.at, side)), ..*p };
        sides[side].iter().map(as_stamped).collect()
    };
    let mut line: Vec<Point> = match sides {
        [_, none] if none.is_empty() => alone(ABOVE, 1),
        [none, _] if none.is_empty() => alone(BELOW, -1),
        [above, below] => string::pull(gates(bounds, above, below).iter()),
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

/// The corridor at each of its corners, less what it is wider by than the stamps as they are. Where nothing is left, the middle.
fn gates(bounds: &Bounds, above: &[Point], below: &[Point]) -> Vec<Gate> {
    let mut times: Vec<i64> = above.iter().chain(below).map(|point| point.at).collect();
    times.sort_unstable();
    times.dedup();
    let gate = |at: i64| {
        let post = |side: usize, points: &[Point]| match find(points, at, |point| point.at) {
            Place::Between(a, b) => between(a, b, at) - bounds.slack_at(at, side),
            Place::Beyond(end) => end.offset - bounds.slack_at(at, side),
            Place::Nowhere => 0,
        };
        let (high, low) = (post(ABOVE, above), -post(BELOW, below));
        let middle = low + (high - low).div_euclid(2);
        if low <= high { Gate { at, low, high } } else { Gate { at, low: middle, high: middle } }
    };
    times.into_iter().map(gate).collect()
}

/// Which clock a time base of a context is read from: a device's, where it is known, or its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Oscillator {
    Device(u32),
    Context(u32),
}

/// What is learned from a whole trace before its records mean anything: the clocks of all time bases of all contexts, which
/// device a context is on, which ranges were captured, and what operations typically take.
#[derive(Clone, Debug, Default)]
pub struct Clocks {
    /// Context → device ordinal.
    pub devices: HashMap<u32, u32>,
    /// Host ns at which the first call or range began; in a trace without any, the place of its first record.
    pub earliest: Option<u64>,
    /// The ranges that were captured.
    pub captures: Captures,
    /// Streams, as they were met.
    pub streams: Streams,
    /// Context and stream → host ns when the end event of its last burst was recorded. Launches of a burst that came later
    /// have none: the program ended, or its context did, before anything followed them.
    pub bursts: HashMap<(u32, u64), u64>,
    /// What operations typically take.
    pub typical: Typical,
    time_bases: HashMap<(u32, u32), Clock>,
    contradictions: u64,
}

impl Clocks {
    /// Host ns at which the collection began: by its status or, in a trace that lost it, with the earliest that is told.
    pub fn began(&self, status: Option<&Status>) -> u64 {
        status.map_or(self.earliest.unwrap_or(0), |status| status.began)
    }

    /// Fits all that was bounded, by (context, time base).
    pub fn fit(bounds: BTreeMap<(u32, u32), Bounds>, devices: HashMap<u32, u32>) -> Clocks {
        let mut clocks = Clocks { devices, ..Clocks::default() };
        let mut by_oscillator: BTreeMap<Oscillator, Vec<_>> = BTreeMap::new();
        for (key, bounds) in bounds {
            let device = clocks.devices.get(&key.0);
            let oscillator = device.map_or(Oscillator::Context(key.0), |device| Oscillator::Device(*device));
            by_oscillator.entry(oscillator).or_default().push((key, bounds));
        }
        for time_bases in by_oscillator.into_values() {
            let (keys, mut time_bases): (Vec<_>, Vec<_>) = time_bases.into_iter().unzip();
            let stamps =
                time_bases.iter().fold(Stamps::default(), |all, time_base| all.and(time_base.stamps));
            for time_base in &mut time_bases {
                time_base.stamps = stamps;
                time_base.settle();
            }
            let (corridors, contradictions) = fit::fit(&time_bases);
            clocks.contradictions += contradictions;
            let fitted =
                time_bases.iter().zip(corridors).map(|(time_base, corridor)| Clock::new(time_base, corridor));
            clocks.time_bases.extend(keys.into_iter().zip(fitted));
        }
        clocks
    }

    /// The clock of a time base.
    pub fn of(&self, context: u32, time_base: u32) -> Option<&Clock> {
        self.time_bases.get(&(context, time_base))
    }

    /// How often bounds contradicted each other: so often the assumptions did not hold on this machine.
    pub fn contradictions(&self) -> u64 {
        self.contradictions
    }
}

#[cfg(test)]
mod tests;
