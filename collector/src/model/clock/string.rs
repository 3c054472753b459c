//! A taut string: the straightest path through a row of gates.
//!
//! Pulled tight between its ends, a string bends only where a gate forces it to, and there as little as it can. If any
//! path passes all gates with slopes in some range, the string's slopes are in that range too: an edge at which they are
//! least hangs between a gate's lower post and a later one's upper post, and no path can rise less there.

use super::hull::Point;

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

/// Gates that are looked at from one bend before the string is pinned without need, so that the time for a forged trace
/// stays in proportion to its size.
const FARTHEST: usize = 8192;

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
fn from(start: Point, gates: &[&Gate], slope: Slope) -> Vec<Point> {
    let mut path = vec![start];
    let (mut here, mut next) = (start, 0);
    let mut last = slope;
    while next < gates.len() {
        let (bend, index) = reach(here, &gates[next..], last);
        last = Slope::between(here, bend.at, bend.offset);
        path.push(bend);
        (here, next) = (bend, next + index + 1);
    }
    path
}

/// The next bend or the end, and the number of its gate.
fn reach(here: Point, gates: &[&Gate], slope: Slope) -> (Point, usize) {
    let side = |gate: &Gate, offset| Slope::between(here, gate.at, offset);
    // The steepest and the flattest line that pass all gates so far, and whose posts they touch.
    let (mut least, mut most) = ((side(gates[0], gates[0].low), 0), (side(gates[0], gates[0].high), 0));
    let mut end = 0;
    for (number, gate) in gates.iter().enumerate().take(FARTHEST) {
        let (low, high) = (side(gate, gate.low), side(gate, gate.high));
        if most.0.is_less(low) {
            return (Point { at: gates[most.1].at, offset: gates[most.1].high }, most.1);
        }
        if high.is_less(least.0) {
            return (Point { at: gates[least.1].at, offset: gates[least.1].low }, least.1);
        }
        if !low.is_less(least.0) {
            least = (low, number);
        }
        if !most.0.is_less(high) {
            most = (high, number);
        }
        end = number;
    }
    // Whole ns may miss a post by a fraction that the slope would not: then it is bent there.
    let wish = Point { at: gates[end].at, offset: slope.reach(here, gates[end]) };
    let straight = side(gates[end], wish.offset);
    if straight.is_less(least.0) {
        return (Point { at: gates[least.1].at, offset: gates[least.1].low }, least.1);
    }
    if most.0.is_less(straight) {
        return (Point { at: gates[most.1].at, offset: gates[most.1].high }, most.1);
    }
    (wish, end)
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
