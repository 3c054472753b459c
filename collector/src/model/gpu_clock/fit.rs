//! How do bounds on θ at some moments bound it at all moments?
//!
//! Host time is cut into **slots**: one for each second in which any time base of the device has bounds, and one for
//! each pause between those. Within a second, θ is a straight line whose slope is that slot's drift. Bounds on θ
//! limit the drift ([`TimeBase::slopes_within`], [`TimeBase::slopes_between`]), limits on the drift spread to
//! neighboring slots ([`turn_slowly`]) and tighten the bounds on θ at the slots' borders
//! ([`TimeBase::find_borders`]), and so on for [`ROUNDS`].
//!
//! Upper and lower bounds are treated alike: a lower bound on θ is stored as an upper bound on −θ, and index 0 or 1
//! (`side`) says which it is. The ends of the drift's range are stored in the same way. A bound that contradicts the
//! other side is counted, and the other side's value is used.
//!
//! The tests are in `gpu_clock/tests.rs`.

use super::hull::{Hull, Point};
use super::{Bounds, DRIFT_PPM, PIECE_NS, TURN_PPM};

/// Units of drift per ppm: drift is computed in parts per 10¹².
pub const PER_PPM: i64 = 1_000_000;
const WHOLE: i128 = 1_000_000_000_000;
const MOST_DRIFT: i64 = DRIFT_PPM * PER_PPM;
const TURN: i64 = TURN_PPM * PER_PPM;
/// The absence of a bound. Sums of a few of them fit 64 bits.
const NONE: i64 = i64::MAX / 8;
/// How often bounds and drift tighten each other. More rounds change no digit that reports show.
const ROUNDS: usize = 3;
/// Distances, in pieces, over which drift is measured: long ones give its mean more precisely, short ones its changes.
const APART: [usize; 6] = [1, 2, 4, 8, 16, 32];

/// Limit on the slots that all time bases together may span: this many, and [`ROOM_A_PIECE`] more for each of their
/// pieces. A genuine time base has bounds in nearly every second that it spans, since the poller samples its clock.
/// Many time bases with bounds only at the two ends of a long time are forged, to cost memory; those that exceed the
/// limit stay unbounded, and what they time is not placed.
const LEAST_ROOM: usize = 1 << 18;
const ROOM_A_PIECE: usize = 8;

/// A segment of host time.
#[derive(Clone, Debug)]
struct Slot {
    /// Its first second, and the first second after it.
    from: i64,
    to: i64,
    /// The largest and, negated, the smallest drift in each of its seconds.
    drift: [i64; 2],
    contradicted: bool,
}

impl Slot {
    /// The most that side `side` of θ can grow within `ns`, or, for negative `ns`, the least that it can shrink
    /// backwards.
    fn grows(&self, side: usize, ns: i64) -> i64 {
        let most = if ns < 0 { -self.drift[1 - side] } else { self.drift[side] };
        let growth = i128::from(most) * i128::from(ns);
        (growth + WHOLE - 1).div_euclid(WHOLE).clamp(-i128::from(NONE), i128::from(NONE)) as i64
    }

    fn is_pause(&self) -> bool {
        self.to - self.from > 1
    }

    /// Limits side `side` of the drift to `most`.
    fn bound(&mut self, side: usize, most: i64) {
        if self.contradicted || most >= self.drift[side] {
            return;
        }
        if most.saturating_add(self.drift[1 - side]) < 0 {
            (self.contradicted, self.drift) = (true, [MOST_DRIFT; 2]);
        } else {
            self.drift[side] = most;
        }
    }
}

/// A time base's bounds, laid over the slots from its first to its last.
struct TimeBase {
    first: usize,
    /// By side and slot.
    hulls: [Vec<Hull>; 2],
    /// By side and border; there is one border more than slots.
    borders: [Vec<i64>; 2],
    contradicted: Vec<bool>,
}

/// The moment within a slot at which a time base has the narrowest bounds.
struct Knot {
    slot: usize,
    at: i64,
    bounds: [i64; 2],
}

/// The polylines above θ and, negated, below it, from the border before a time base's first bound to the one after its
/// last. A side is empty if θ is not bounded on it.
pub type Corridor = [Vec<Point>; 2];

/// Fits the time bases of one oscillator. Returns a corridor for each, and the number of contradictions.
pub fn fit(time_bases: &[Bounds]) -> (Vec<Corridor>, u64) {
    let mut slots = slots(time_bases);
    let pieces: usize = time_bases.iter().map(|bounds| bounds.pieces.len()).sum();
    let mut room = LEAST_ROOM + ROOM_A_PIECE * pieces;
    let mut laid: Vec<TimeBase> =
        time_bases.iter().map(|bounds| TimeBase::lay(bounds, &slots, &mut room)).collect();
    for time_base in &laid {
        time_base.slopes_within(&mut slots);
    }
    for _ in 0..ROUNDS {
        turn_slowly(&mut slots);
        for time_base in &mut laid {
            time_base.find_borders(&slots);
            time_base.slopes_between(&mut slots);
        }
    }
    turn_slowly(&mut slots);
    laid.iter_mut().for_each(|time_base| time_base.find_borders(&slots));
    let of_time_bases = laid.iter().flat_map(|time_base| &time_base.contradicted).filter(|is| **is).count();
    let of_slots = slots.iter().filter(|slot| slot.contradicted).count();
    (laid.iter().map(|time_base| time_base.corridor(&slots)).collect(), (of_time_bases + of_slots) as u64)
}

/// Returns the seconds in which any time base has bounds, and the pauses between them.
fn slots(time_bases: &[Bounds]) -> Vec<Slot> {
    let mut seconds: Vec<i64> = time_bases.iter().flat_map(|c| c.pieces.iter().map(|p| p.second)).collect();
    seconds.sort_unstable();
    seconds.dedup();
    let slot = |from, to| Slot { from, to, drift: [MOST_DRIFT; 2], contradicted: false };
    let mut slots: Vec<Slot> = Vec::with_capacity(seconds.len());
    for second in seconds {
        if let Some(before) = slots.last().map(|slot| slot.to).filter(|before| *before < second) {
            slots.push(slot(before, second));
        }
        slots.push(slot(second, second + 1));
    }
    slots
}

/// Spreads limits on the drift to neighboring slots: it changes by at most [`TURN_PPM`] a second.
fn turn_slowly(slots: &mut [Slot]) {
    let spread = |from: &Slot, to: &mut Slot| {
        let turned = TURN.saturating_mul(to.to - to.from);
        for side in [0, 1] {
            to.bound(side, from.drift[side].saturating_add(turned));
        }
    };
    for here in 1..slots.len() {
        let (before, after) = slots.split_at_mut(here);
        spread(&before[here - 1], &mut after[0]);
    }
    for here in (1..slots.len()).rev() {
        let (before, after) = slots.split_at_mut(here);
        spread(&after[0], &mut before[here - 1]);
    }
}

impl TimeBase {
    fn lay(bounds: &Bounds, slots: &[Slot], room: &mut usize) -> TimeBase {
        let place = |second| slots.partition_point(|slot| slot.from < second);
        let ends = bounds.pieces.first().zip(bounds.pieces.last());
        let (first, count) = ends.map_or((0, 0), |(first, last)| {
            let begin = place(first.second);
            (begin, place(last.second) + 1 - begin)
        });
        if count == 0 || count > *room {
            let (hulls, borders) = ([vec![], vec![]], [vec![], vec![]]);
            return TimeBase { first: 0, hulls, borders, contradicted: vec![] };
        }
        *room -= count;
        let mut hulls = [vec![Hull::default(); count], vec![Hull::default(); count]];
        for piece in &bounds.pieces {
            for side in [0, 1] {
                let hull = &mut hulls[side][place(piece.second) - first];
                hull.clone_from(&piece.hulls[side]);
                hull.raise(bounds.slack(piece, side));
            }
        }
        let borders = [vec![NONE; count + 1], vec![NONE; count + 1]];
        TimeBase { first, hulls, borders, contradicted: vec![false; count + 1] }
    }

    fn slots<'s>(&self, slots: &'s [Slot]) -> &'s [Slot] {
        &slots[self.first..self.first + self.hulls[0].len()]
    }

    /// Limits each slot's drift to the slopes of lines that fit between the bounds in it.
    fn slopes_within(&self, slots: &mut [Slot]) {
        for (here, slot) in slots[self.first..].iter_mut().enumerate().take(self.hulls[0].len()) {
            for upper in self.hulls[0][here].corners() {
                for lower in self.hulls[1][here].corners() {
                    let rise = upper.offset.saturating_add(lower.offset);
                    match upper.at - lower.at {
                        0 if rise < 0 => slot.bound(0, -NONE),
                        0 => {}
                        run => slot.bound(usize::from(run < 0), slope(rise, run.abs())),
                    }
                }
            }
        }
    }

    /// Bounds θ at the slots' borders.
    fn find_borders(&mut self, slots: &[Slot]) {
        let slots = self.slots(slots);
        for (here, slot) in slots.iter().enumerate() {
            for side in [0, 1] {
                let hull = std::mem::take(&mut self.hulls[side][here]);
                for corner in hull.corners() {
                    self.bound(
                        side,
                        here,
                        corner.offset + slot.grows(side, slot.from * PIECE_NS - corner.at),
                    );
                    self.bound(
                        side,
                        here + 1,
                        corner.offset + slot.grows(side, slot.to * PIECE_NS - corner.at),
                    );
                }
                self.hulls[side][here] = hull;
            }
        }
        let length = |slot: &Slot| (slot.to - slot.from) * PIECE_NS;
        for side in [0, 1] {
            for (here, slot) in slots.iter().enumerate() {
                self.bound(
                    side,
                    here + 1,
                    self.borders[side][here].saturating_add(slot.grows(side, length(slot))),
                );
            }
            for (here, slot) in slots.iter().enumerate().rev() {
                self.bound(
                    side,
                    here,
                    self.borders[side][here + 1].saturating_add(slot.grows(side, -length(slot))),
                );
            }
        }
    }

    fn bound(&mut self, side: usize, border: usize, most: i64) {
        // Values beyond this are not times: they stand for the absence of a bound.
        if most >= self.borders[side][border].min(NONE / 2) {
            return;
        }
        let least = -self.borders[1 - side][border];
        self.contradicted[border] |= most < least;
        self.borders[side][border] = most.max(least);
    }

    /// The best bound of side `side` at a moment of slot `here`.
    fn at(&self, side: usize, here: usize, slot: &Slot, at: i64) -> i64 {
        let ends = [(slot.from, here), (slot.to, here + 1)];
        let ends =
            ends.map(|(second, border)| Point { at: second * PIECE_NS, offset: self.borders[side][border] });
        let all = self.hulls[side][here].corners().iter().chain(&ends);
        all.map(|point| point.offset.saturating_add(slot.grows(side, at - point.at))).min().unwrap_or(NONE)
    }

    /// Limits the drift by the slopes between the moments with the narrowest bounds.
    fn slopes_between(&self, slots: &mut [Slot]) {
        let knots = self.knots(slots);
        for apart in APART {
            for (a, b) in knots.iter().zip(knots.iter().skip(apart)) {
                let (first, last) = (slots[a.slot].from, slots[b.slot].from);
                let middle = slots.partition_point(|slot| slot.to <= first + (last - first) / 2);
                for slot in [a.slot, middle, b.slot] {
                    if slots[slot].is_pause() {
                        continue;
                    }
                    let turned = turned(slots[slot].from, first, last, b.at - a.at);
                    for side in [0, 1] {
                        let rise = b.bounds[side].saturating_add(a.bounds[1 - side]);
                        slots[slot].bound(side, slope(rise, b.at - a.at).saturating_add(turned));
                    }
                }
            }
        }
    }

    fn knots(&self, slots: &[Slot]) -> Vec<Knot> {
        let mut knots = Vec::new();
        for (here, slot) in self.slots(slots).iter().enumerate() {
            let corners = self.hulls.iter().flat_map(|hulls| hulls[here].corners());
            let knot = |at| Knot {
                slot: self.first + here,
                at,
                bounds: [0, 1].map(|side| self.at(side, here, slot, at)),
            };
            let width = |knot: &Knot| knot.bounds[0].saturating_add(knot.bounds[1]);
            knots.extend(corners.map(|corner| knot(corner.at)).min_by_key(width));
        }
        knots
    }

    fn corridor(&self, slots: &[Slot]) -> Corridor {
        let slots = self.slots(slots);
        [0, 1].map(|side| self.polyline(side, slots))
    }

    /// The bounds at all times. Within a second θ is a line, so a line between two bounds is a bound; in a pause, the
    /// drift bounds θ from both of its ends.
    fn polyline(&self, side: usize, slots: &[Slot]) -> Vec<Point> {
        let mut line: Vec<Point> = Vec::new();
        for (here, slot) in slots.iter().enumerate() {
            let end =
                |second: i64, border| Point { at: second * PIECE_NS, offset: self.borders[side][border] };
            let (from, to) = (end(slot.from, here), end(slot.to, here + 1));
            if from.offset == NONE || to.offset == NONE {
                return Vec::new();
            }
            let mut hull = self.hulls[side][here].clone();
            hull.add(from);
            hull.add(to);
            let skip = usize::from(line.last().is_some_and(|last| last.at == from.at));
            if slot.is_pause() {
                line.extend([from, top(side, slot, from, to), to].iter().skip(skip));
            } else {
                line.extend(hull.corners().iter().skip(skip));
            }
        }
        line.dedup_by_key(|point| point.at);
        line
    }
}

/// The point in a pause at which the bounds from its two ends meet.
fn top(side: usize, slot: &Slot, from: Point, to: Point) -> Point {
    let back = i128::from(slot.grows(side, from.at - to.at));
    let over = i128::from(to.offset) + back - i128::from(from.offset);
    let range = i128::from(slot.drift[0]) + i128::from(slot.drift[1]);
    let after = (over * WHOLE).checked_div(range).unwrap_or(0);
    let after = after.clamp(0, i128::from(to.at - from.at)) as i64;
    Point { at: from.at + after, offset: from.offset.saturating_add(slot.grows(side, after) + 1) }
}

/// `rise` over `run` > 0, rounded up.
fn slope(rise: i64, run: i64) -> i64 {
    let slope = (i128::from(rise) * WHOLE + i128::from(run) - 1).div_euclid(i128::from(run));
    slope.clamp(-i128::from(NONE), i128::from(NONE)) as i64
}

/// How far the mean drift over `run` ns, from second `first` to second `last`, can differ from the drift in second
/// `here` between them.
fn turned(here: i64, first: i64, last: i64, run: i64) -> i64 {
    let sum = |n: i64| i128::from(n) * (i128::from(n) + 1) / 2;
    let mean = (sum(here - first) + sum(last - here)) * i128::from(TURN) * i128::from(PIECE_NS)
        / i128::from(run)
        + 1;
    let most = i128::from((here - first).max(last - here)) * i128::from(TURN);
    mean.min(most) as i64
}
