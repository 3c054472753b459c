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
pub fn pull<'g>(gates: impl DoubleEndedIterator<Item = &'g Gate> + Clone) -> Vec<Point> {
    let forward: Vec<&Gate> = gates.collect();
    let Some(first) = forward.first() else { return Vec::new() };
    let start = Point { at: first.at, offset: first.low + (first.high - first.low) / 2 };
    let path = from(start, &forward[1..], Slope { rise: 0, run: 1 });
    // Where it begins was a guess. From the first bend on it no longer matters: what is before it and what follows are pulled
    // from there, each end as straight on from the other side as it can be.
    let [_, bend, _, ..] = path[..] else { return path };
    let (back, ahead) = forward.split_at(forward.partition_point(|gate| gate.at <= bend.at));
    let back: Vec<&Gate> = back.iter().rev().skip_while(|gate| gate.at >= bend.at).copied().collect();
    let on = |path: &[Point]| {
        let slope = path.get(1).map(|next| Slope::between(bend, next.at, next.offset));
        slope.map_or(Slope { rise: 0, run: 1 }, |slope| Slope { rise: -slope.rise, ..slope })
    };
    let behind = from(bend, &back, Slope { rise: 0, run: 1 });
    let ahead = from(bend, ahead, on(&behind));
    let mut whole = from(bend, &back, on(&ahead));
    whole.reverse();
    whole.extend(&ahead[1..]);
    whole
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

    #[test]
    fn a_guessed_begin_leaves_no_slope_behind() {
        let gates = [(1, 0, 34), (2, 0, 0), (3, -2, 0)].map(|(at, low, high)| Gate { at, low, high });
        let offsets: Vec<i64> = pull(gates.iter()).iter().map(|point| point.offset).collect();
        assert_eq!(offsets, [0, 0, 0]);
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
                let forced = pair[0] == path[0] && path.len() == 2;
                prop_assert!(forced || inside.contains(&slope), "{slope}: {path:?}");
            }
        }
    }
}
