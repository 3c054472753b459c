//! From bounds on θ at some moments to bounds at all: how drift is known, and what that makes of the bounds.
//!
//! Host time is cut into **slots**: one for each second in which a clock of the device was bounded, and one for each pause
//! between those. θ is a straight line within a second, with the drift of that slot.
//!
//! All bounds are treated alike. An upper bound on θ and an upper bound on −θ are two [`Side`]s of the same; so are both ends of the
//! drift's range. A bound that contradicts the other side is counted, and the other side's is taken.

use super::hull::{Hull, Point};
use super::{Bounds, DRIFT_PPM, PIECE_NS, TURN_PPM};

/// Drift is reckoned in parts per 10¹².
pub const PER_PPM: i64 = 1_000_000;
const WHOLE: i128 = 1_000_000_000_000;
const MOST_DRIFT: i64 = DRIFT_PPM * PER_PPM;
const TURN: i64 = TURN_PPM * PER_PPM;
/// No bound. Sums of a few stay in 64 bits.
const NONE: i64 = i64::MAX / 8;
/// How often bounds and drift are narrowed by each other. More changes nothing that could be seen.
const ROUNDS: usize = 3;
/// Between which pieces drift is read off: so many apart. Far ones tell its mean better, near ones its changes.
const APART: [usize; 6] = [1, 2, 4, 8, 16, 32];

/// Slots that all time bases together are laid over: so many, and so many more for each piece of theirs. A true time base is bounded
/// in nearly each second that it spans, since its clock is sampled. Many that are bounded at both ends of a long time
/// and nowhere between were made to cost, and those beyond the room are left unbounded: what they time is not placed.
const LEAST_ROOM: usize = 1 << 18;
const ROOM_A_PIECE: usize = 8;

/// A stretch of host time.
#[derive(Clone, Debug)]
struct Slot {
    /// Its first second, and the first one after it.
    from: i64,
    to: i64,
    /// The most and, negated, the least that the drift is in each of its seconds.
    drift: [i64; 2],
    contradicted: bool,
}

impl Slot {
    /// The most that side `side` of θ grows within `ns`, or (negative) the least that it grows backwards.
    fn grows(&self, side: usize, ns: i64) -> i64 {
        let most = if ns < 0 { -self.drift[1 - side] } else { self.drift[side] };
        let growth = i128::from(most) * i128::from(ns);
        (growth + WHOLE - 1).div_euclid(WHOLE).clamp(-i128::from(NONE), i128::from(NONE)) as i64
    }

    fn is_pause(&self) -> bool {
        self.to - self.from > 1
    }

    /// Learns the most that side `side` of the drift is.
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
    /// By side and border, one more than slots.
    borders: [Vec<i64>; 2],
    contradicted: Vec<bool>,
}

/// Where a time base is known best within a slot.
struct Knot {
    slot: usize,
    at: i64,
    bounds: [i64; 2],
}

/// The polylines above θ and, negated, below it, from the border before a time base's first bound to the one after its last.
/// Empty: it is not bounded on that side.
pub type Corridor = [Vec<Point>; 2];

/// Fits the time bases of one oscillator. The second number counts the contradictions.
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

/// The seconds in which any time base is bounded, and the pauses between.
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

/// Spreads what is known of the drift: it turns slowly.
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

    /// Bounds each slot's drift by the bounds in it: exactly those slopes are left with which a line fits between.
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

    /// Bounds θ at the borders of slots.
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
        // Beyond this there is no time, only the absence of a bound.
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

    /// Bounds drift by the slopes between the places where θ is known best.
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

    /// Bounds at all times. Within a second θ is a line, so a line between two bounds is one; in a pause it is bounded by
    /// the drift from both of its ends.
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

/// Where the bounds from both ends of a pause meet.
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

/// How far the mean drift over `run` ns from second `first` to second `last` can be from that of second `here` between.
fn turned(here: i64, first: i64, last: i64, run: i64) -> i64 {
    let sum = |n: i64| i128::from(n) * (i128::from(n) + 1) / 2;
    let mean = (sum(here - first) + sum(last - here)) * i128::from(TURN) * i128::from(PIECE_NS)
        / i128::from(run)
        + 1;
    let most = i128::from((here - first).max(last - here)) * i128::from(TURN);
    mean.min(most) as i64
}
