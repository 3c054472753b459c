//! A taut string: the straightest path through a row of gates.
//!
//! Pulled tight between its ends, a string bends only where a gate forces it to, and there as little as it can. If any
//! path passes all gates with slopes in some range, the string's slopes are in that range too: an edge at which they are
//! least hangs between a gate's lower post and a later one's upper post, and no path can rise less there.

use super::hull::Point;
use std::collections::VecDeque;

/// A gate that a path has to pass: at `at`, from `low` to `high`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gate {
    /// Host ns.
    pub at: i64,
    /// Its lower post.
    pub low: i64,
    /// Its upper post.
    pub high: i64,
}

/// A slope, as a fraction with a denominator > 0.
#[derive(Clone, Copy)]
struct Slope {
    rise: i128,
    run: i128,
}

impl Slope {
    fn between(from: Point, at: i64, offset: i64) -> Slope {
        Slope {
            rise: i128::from(offset) - i128::from(from.offset),
            run: (i128::from(at) - i128::from(from.at)).abs(),
        }
    }

    fn is_less(self, other: Slope) -> bool {
        self.rise * other.run < other.rise * self.run
    }

    /// Where a line of this slope from `from` passes a gate, or which of its posts is the nearer one.
    fn reach(self, from: Point, gate: &Gate) -> i64 {
        let run = (i128::from(gate.at) - i128::from(from.at)).abs();
        let rise = (self.rise * run).div_euclid(self.run.max(1));
        let offset = (i128::from(from.offset) + rise).clamp(i64::MIN.into(), i64::MAX.into()) as i64;
        offset.clamp(gate.low, gate.high)
    }
}

/// The string's bends and ends. The gates' times rise strictly, and none is higher than it is low.
pub fn pull<'g>(gates: impl Iterator<Item = &'g Gate>) -> Vec<Point> {
    let gates: Vec<&Gate> = gates.collect();
    let [first, following @ ..] = &gates[..] else { return Vec::new() };
    // The strings along the lower and the upper side. Where they meet, all strings pass; where they do not, a straight
    // line fits between them.
    let sides = [LOWER, UPPER].map(|side| along(side, first, following));
    let level = Slope { rise: 0, run: 1 };
    let Some(meeting) = meeting(&sides) else {
        let (start, slope) = straight(&sides, first);
        return from(start, following, slope);
    };
    // What is before the meeting and what follows are pulled from there, each end as straight on from the other side as
    // it can be.
    let (back, ahead) = gates.split_at(gates.partition_point(|gate| gate.at <= meeting.at));
    let back: Vec<&Gate> = back.iter().rev().skip_while(|gate| gate.at >= meeting.at).copied().collect();
    let on = |path: &[Point]| {
        let slope = path.get(1).map(|next| Slope::between(meeting, next.at, next.offset));
        slope.map_or(level, |slope| Slope { rise: -slope.rise, ..slope })
    };
    let behind = from(meeting, &back, level);
    let ahead = from(meeting, ahead, on(&behind));
    let mut whole = from(meeting, &back, on(&ahead));
    whole.reverse();
    whole.extend(&ahead[1..]);
    whole
}

/// The string from the first gate's post of one side to the last one's.
fn along(side: usize, first: &Gate, following: &[&Gate]) -> Vec<Point> {
    let post = |gate: &Gate| Point { at: gate.at, offset: [gate.low, gate.high][side] };
    let Some((last, between)) = following.split_last() else { return vec![post(first)] };
    let end = post(last);
    let end = Gate { at: end.at, low: end.offset, high: end.offset };
    let gates: Vec<&Gate> = between.iter().copied().chain([&end]).collect();
    from(post(first), &gates, Slope { rise: 0, run: 1 })
}

/// The first point that the strings along both sides share. One of them has a corner there.
fn meeting(sides: &[Vec<Point>; 2]) -> Option<Point> {
    let mut next = [0, 0];
    loop {
        let [lower, upper] = [LOWER, UPPER].map(|side| sides[side].get(next[side]).copied());
        let (corner, side) = match (lower?, upper?) {
            (lower, upper) if lower.at <= upper.at => (lower, LOWER),
            (_, upper) => (upper, UPPER),
        };
        // Both begin at the same time, so the other one has a corner before this one or at it.
        let ahead = sides[1 - side][next[1 - side]];
        let is_shared = match next[1 - side].checked_sub(1).map(|before| sides[1 - side][before]) {
            _ if ahead.at == corner.at => ahead == corner,
            Some(before) => corner.above(before, ahead) == 0,
            None => false,
        };
        if is_shared {
            return Some(corner);
        }
        next[side] += 1;
    }
}

/// The start and the slope of the most level line between two sides that do not meet: they are a concave and a convex chain.
///
/// The room that a slope leaves between them is a concave function of it. Where a level line does not fit, each step goes
/// to the line through the two corners that are in each other's way, which is Newton's method; it never goes too far, and
/// meets each corner once at most.
fn straight(sides: &[Vec<Point>; 2], first: &Gate) -> (Point, Slope) {
    let mut slope = Slope { rise: 0, run: 1 };
    let mut steps = sides[LOWER].len() + sides[UPPER].len();
    loop {
        let height =
            |point: &&Point| i128::from(point.offset) * slope.run - i128::from(point.at) * slope.rise;
        let (Some(lower), Some(upper)) =
            (sides[LOWER].iter().max_by_key(height), sides[UPPER].iter().min_by_key(height))
        else {
            return (Point { at: first.at, offset: first.low }, slope);
        };
        let room = height(&upper) - height(&lower);
        // Without end it would go on only where no line fits, which is said not to be.
        if room < 0 && lower.at != upper.at && steps > 0 {
            steps -= 1;
            let rise = (i128::from(upper.offset) - i128::from(lower.offset))
                * i128::from((upper.at - lower.at).signum());
            slope = Slope { rise, run: i128::from(upper.at.abs_diff(lower.at)) };
            continue;
        }
        let middle = height(&lower) + room / 2 + i128::from(first.at) * slope.rise;
        let offset = middle.div_euclid(slope.run).clamp(first.low.into(), first.high.into()) as i64;
        return (Point { at: first.at, offset }, slope);
    }
}

/// Pulls it from a point through gates that follow on one side of it. Its free end follows `slope` as well as it can.
///
/// What can be reached in a straight line from the last bend is a funnel between two chains: the string to the last
/// gate's lower post and the one to its upper post. A gate takes what it shadows off their ends; where a chain is gone,
/// the string bends around the other one. Each post comes and goes once, so the time is in proportion to the gates.
fn from(start: Point, gates: &[&Gate], slope: Slope) -> Vec<Point> {
    let mut path = vec![start];
    let Some(end) = gates.last() else { return path };
    let mut funnel = Funnel { here: start, last: slope, chains: Default::default() };
    for gate in gates {
        for (side, offset) in [(LOWER, gate.low), (UPPER, gate.high)] {
            funnel.pass(side, Point { at: gate.at, offset }, &mut path);
        }
    }
    // Whole ns may miss a post by a fraction that the slope would not: then it is bent there.
    loop {
        let wish = Point { at: end.at, offset: funnel.last.reach(funnel.here, end) };
        let straight = Slope::between(funnel.here, wish.at, wish.offset);
        let is_in_the_way =
            |side: &usize| funnel.first(*side).is_some_and(|post| beyond(*side, straight, post));
        match [LOWER, UPPER].into_iter().find(is_in_the_way) {
            Some(side) => funnel.bend(side, &mut path),
            None if wish.at == funnel.here.at => return path,
            None => {
                path.push(wish);
                return path;
            }
        }
    }
}

const LOWER: usize = 0;
const UPPER: usize = 1;

/// Whether a line of this slope passes on the wrong side of a post that lies in the direction `post`.
fn beyond(side: usize, slope: Slope, post: Slope) -> bool {
    if side == LOWER { slope.is_less(post) } else { post.is_less(slope) }
}

/// Where the string can go from its last bend on.
struct Funnel {
    /// The last bend.
    here: Point,
    /// The slope of the edge that leads to it.
    last: Slope,
    /// By side: the posts that the string to the last gate's post of that side bends around, and that post.
    chains: [VecDeque<Point>; 2],
}

impl Funnel {
    /// The direction of a chain's first edge.
    fn first(&self, side: usize) -> Option<Slope> {
        self.chains[side].front().map(|post| Slope::between(self.here, post.at, post.offset))
    }

    /// A post of a gate further on.
    fn pass(&mut self, side: usize, post: Point, path: &mut Vec<Point>) {
        // While the line to it passes on the wrong side of the other chain, the string bends around that.
        let to_it = |funnel: &Funnel| Slope::between(funnel.here, post.at, post.offset);
        while self.first(1 - side).is_some_and(|other| beyond(1 - side, to_it(self), other)) {
            self.bend(1 - side, path);
        }
        let chain = &mut self.chains[side];
        while let Some(last) = chain.back().copied() {
            let before = chain.len().checked_sub(2).map_or(self.here, |before| chain[before]);
            let [edge, whole] = [last, post].map(|to| Slope::between(before, to.at, to.offset));
            if beyond(side, whole, edge) {
                break;
            }
            chain.pop_back();
        }
        chain.push_back(post);
    }

    /// The string bends around the first post of a chain.
    fn bend(&mut self, side: usize, path: &mut Vec<Point>) {
        let Some(post) = self.chains[side].pop_front() else { return };
        let before = std::mem::replace(&mut self.here, post);
        self.last = Slope::between(before, post.at, post.offset);
        path.push(post);
        // Of the other chain, what is passed is gone, and what the posts behind it shadow from here.
        let other = &mut self.chains[1 - side];
        while let Some(first) = other.front() {
            let direction = |to: &Point| Slope::between(post, to.at, to.offset);
            let is_shadowed = |second: &Point| !beyond(1 - side, direction(second), direction(first));
            let is_ahead = before.at.abs_diff(first.at) > before.at.abs_diff(post.at);
            if is_ahead && !other.get(1).is_some_and(is_shadowed) {
                return;
            }
            other.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(path: &[Point], time: i64) -> f64 {
        let next = path.iter().position(|point| point.at >= time).unwrap();
        let (a, b) = (path[next.saturating_sub(1)], path[next]);
        if a.at == b.at {
            b.offset as f64
        } else {
            a.offset as f64 + (b.offset - a.offset) as f64 * (time - a.at) as f64 / (b.at - a.at) as f64
        }
    }

    #[test]
    fn where_a_straight_line_fits_the_string_is_nearly_straight() {
        let gates: Vec<Gate> = (0..100)
            .map(|n| Gate { at: n * 1_000, low: n * 50 - 7 * (n % 5), high: n * 50 + 9 * (n % 7) })
            .collect();
        let path = pull(gates.iter());
        for pair in path.windows(2) {
            let slope = (pair[1].offset - pair[0].offset) as f64 / (pair[1].at - pair[0].at) as f64;
            assert!((0.0499..=0.0501).contains(&slope), "{path:?}");
        }
    }

    #[test]
    fn it_bends_at_the_posts_that_are_in_its_way() {
        let gates = [(0, 0, 100), (10, 80, 90), (20, -100, 300), (30, 10, 20), (40, 0, 100)];
        let gates = gates.map(|(at, low, high)| Gate { at, low, high });
        let path = pull(gates.iter());
        let corners: Vec<(i64, i64)> = path.iter().map(|point| (point.at, point.offset)).collect();
        assert_eq!(corners, [(0, 100), (10, 80), (30, 20), (40, 0)]);
    }

    fn offsets<const N: usize>(gates: [(i64, i64, i64); N]) -> Vec<i64> {
        let gates = gates.map(|(at, low, high)| Gate { at, low, high });
        pull(gates.iter()).iter().map(|point| point.offset).collect()
    }

    #[test]
    fn where_it_begins_is_no_guess() {
        assert_eq!(offsets([(1, 0, 34), (2, 0, 0), (3, -2, 0)]), [0, 0, 0]);
        assert_eq!(offsets([(1, 0, 74), (2, -13, 0), (3, -26, -26)]), [0, -26]);
        assert_eq!(offsets([(1, 0, 74), (2, -13, 0), (3, -40, -26)]), [0, -26]);
    }

    #[test]
    fn a_level_line_lies_in_the_middle_of_where_one_fits() {
        assert_eq!(offsets([(1, 0, 1000), (2, 40, 60), (3, -500, 90)]), [50, 50]);
    }

    proptest! {
        /// It passes all gates, and rises nowhere more or less steeply than a path that they were put around.
        #[test]
        fn it_passes_all_gates_with_the_slopes_of_any_path(
            steps in proptest::collection::vec((1i64..50, -20i64..=20, 0i64..300, 0i64..300), 2..80),
        ) {
            let (mut time, mut value) = (0, 0);
            let gates: Vec<Gate> = steps
                .iter()
                .map(|(run, slope, below, above)| {
                    time += run;
                    value += run * slope;
                    Gate { at: time, low: value - below, high: value + above }
                })
                .collect();
            let path = pull(gates.iter());
            for gate in &gates {
                let here = at(&path, gate.at);
                prop_assert!(gate.low as f64 - 1e-6 <= here && here <= gate.high as f64 + 1e-6, "{gate:?}: {here}");
            }
            let slopes = || steps.iter().skip(1).map(|step| step.1);
            let (least, most) = (slopes().min().unwrap().min(0), slopes().max().unwrap().max(0));
            for pair in path.windows(2) {
                prop_assert!(pair[0].at < pair[1].at);
                let slope = (pair[1].offset - pair[0].offset) as f64 / (pair[1].at - pair[0].at) as f64;
                // The begin of the first edge, and the end of the last, are whole numbers.
                let whole = 1.0 / (pair[1].at - pair[0].at) as f64;
                let inside = least as f64 - whole..=most as f64 + whole;
                prop_assert!(inside.contains(&slope), "{slope}: {path:?}");
            }
        }
    }
}
