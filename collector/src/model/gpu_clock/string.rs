//! What is the straightest path through a corridor?
//!
//! The corridor is a sequence of vertical segments: at time `at`, the path may pass anywhere from `low` to `high`. A
//! taut string through them (Davies and Kovac, "Local Extremes, Runs, Strings and Multiresolution", Annals of
//! Statistics 29, 2001) bends only where a segment forces it to, and as little as possible.
//!
//! If any path passes all segments with slopes in some range, the string's slopes lie in that range too: an edge on
//! which the string's slope is least runs from one segment's lower endpoint to a later one's upper endpoint, so no
//! path can rise less there. The test `it_passes_all_segments_with_the_slopes_of_any_path` checks both properties.

use super::hull::Point;
use std::collections::VecDeque;

/// A vertical segment that the path has to cross: at `at`, from `low` to `high`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Host ns.
    pub at: i64,
    /// Its lower endpoint.
    pub low: i64,
    /// Its upper endpoint.
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

    /// Where a line of this slope from `from` crosses the segment, or else the segment's nearer endpoint.
    fn reach(self, from: Point, segment: &Segment) -> i64 {
        let run = (i128::from(segment.at) - i128::from(from.at)).abs();
        let rise = (self.rise * run).div_euclid(self.run.max(1));
        let offset = (i128::from(from.offset) + rise).clamp(i64::MIN.into(), i64::MAX.into()) as i64;
        offset.clamp(segment.low, segment.high)
    }
}

/// Returns the string's bends and ends. The segments' times must rise strictly, with `low` ≤ `high` in each.
pub fn pull<'g>(segments: impl Iterator<Item = &'g Segment>) -> Vec<Point> {
    let segments: Vec<&Segment> = segments.collect();
    let [first, following @ ..] = &segments[..] else { return Vec::new() };
    // The strings along the lower and the upper side. If they meet in a point, every taut string passes there; if
    // they do not, a straight line fits between them.
    let sides = [LOWER, UPPER].map(|side| along(side, first, following));
    let level = Slope { rise: 0, run: 1 };
    let Some(meeting) = meeting(&sides) else {
        let (start, slope) = straight(&sides, first);
        return from(start, following, slope);
    };
    // The parts before and after the meeting point are pulled from there. Each free end continues the other part's
    // direction as far as it can.
    let (back, ahead) = segments.split_at(segments.partition_point(|segment| segment.at <= meeting.at));
    let back: Vec<&Segment> =
        back.iter().rev().skip_while(|segment| segment.at >= meeting.at).copied().collect();
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

/// The string from the first segment's endpoint on one side to the last segment's.
fn along(side: usize, first: &Segment, following: &[&Segment]) -> Vec<Point> {
    let endpoint = |segment: &Segment| Point { at: segment.at, offset: [segment.low, segment.high][side] };
    let Some((last, between)) = following.split_last() else { return vec![endpoint(first)] };
    let end = endpoint(last);
    let end = Segment { at: end.at, low: end.offset, high: end.offset };
    let segments: Vec<&Segment> = between.iter().copied().chain([&end]).collect();
    from(endpoint(first), &segments, Slope { rise: 0, run: 1 })
}

/// The first point that the strings along both sides share. At least one of them has a corner there.
fn meeting(sides: &[Vec<Point>; 2]) -> Option<Point> {
    let mut next = [0, 0];
    loop {
        let [lower, upper] = [LOWER, UPPER].map(|side| sides[side].get(next[side]).copied());
        let (corner, side) = match (lower?, upper?) {
            (lower, upper) if lower.at <= upper.at => (lower, LOWER),
            (_, upper) => (upper, UPPER),
        };
        // Both start at the same time, so the other one has a corner before this one or at it.
        let ahead = sides[1 - side][next[1 - side]];
        let is_shared = match next[1 - side].checked_sub(1).map(|before| sides[1 - side][before]) {
            _ if ahead.at == corner.at => ahead == corner,
            Some(before) => corner.height(before, ahead).is_eq(),
            None => false,
        };
        if is_shared {
            return Some(corner);
        }
        next[side] += 1;
    }
}

/// Returns the start and the slope of the most level line between two sides that do not meet: a concave polyline
/// below and a convex one above.
///
/// The room between the sides for a line of given slope is a concave function of the slope. Where a level line does not
/// fit, each step moves to the line through the two corners that block it. That is Newton's method, which on a concave
/// function never overshoots and visits each corner at most once.
fn straight(sides: &[Vec<Point>; 2], first: &Segment) -> (Point, Slope) {
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
        // The steps are limited for the case that no line fits, which callers exclude.
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

/// Pulls the string from a point through segments that all follow on one side of it. Its free end continues in
/// direction `slope` as far as it can.
///
/// This is the funnel algorithm (Lee and Preparata, "Euclidean Shortest Paths in the Presence of Rectilinear
/// Barriers", Networks 14, 1984). The points that a straight line from the last bend can reach form a funnel between
/// two polylines: the string to the last segment's lower endpoint and the string to its upper one. A new segment
/// removes the corners that it hides; where one polyline is used up, the string bends around the other. Each endpoint
/// is added and removed once, so the time is linear in the number of segments.
fn from(start: Point, segments: &[&Segment], slope: Slope) -> Vec<Point> {
    let mut path = vec![start];
    let Some(end) = segments.last() else { return path };
    let mut funnel = Funnel { here: start, last: slope, polylines: Default::default() };
    for segment in segments {
        for (side, offset) in [(LOWER, segment.low), (UPPER, segment.high)] {
            funnel.pass(side, Point { at: segment.at, offset }, &mut path);
        }
    }
    // Rounding to whole ns can miss an endpoint by a fraction that the exact slope would not; the string bends there.
    loop {
        let wish = Point { at: end.at, offset: funnel.last.reach(funnel.here, end) };
        let straight = Slope::between(funnel.here, wish.at, wish.offset);
        let is_in_the_way =
            |side: &usize| funnel.first(*side).is_some_and(|endpoint| beyond(*side, straight, endpoint));
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

/// Whether a line of this slope passes on the wrong side of an endpoint that lies in direction `endpoint`.
fn beyond(side: usize, slope: Slope, endpoint: Slope) -> bool {
    if side == LOWER { slope.is_less(endpoint) } else { endpoint.is_less(slope) }
}

/// Where the string can go from its last bend.
struct Funnel {
    /// The last bend.
    here: Point,
    /// The slope of the edge that leads to the last bend.
    last: Slope,
    /// By side: the endpoints that the string to the last segment's endpoint of that side bends around, then that
    /// endpoint.
    polylines: [VecDeque<Point>; 2],
}

impl Funnel {
    /// The direction of a polyline's first edge.
    fn first(&self, side: usize) -> Option<Slope> {
        self.polylines[side].front().map(|endpoint| Slope::between(self.here, endpoint.at, endpoint.offset))
    }

    /// Adds an endpoint of the next segment.
    fn pass(&mut self, side: usize, endpoint: Point, path: &mut Vec<Point>) {
        // While the line to it passes on the wrong side of the other polyline, the string bends around that one.
        let to_it = |funnel: &Funnel| Slope::between(funnel.here, endpoint.at, endpoint.offset);
        while self.first(1 - side).is_some_and(|other| beyond(1 - side, to_it(self), other)) {
            self.bend(1 - side, path);
        }
        let line = &mut self.polylines[side];
        while let Some(last) = line.back().copied() {
            let before = line.len().checked_sub(2).map_or(self.here, |before| line[before]);
            let [edge, whole] = [last, endpoint].map(|to| Slope::between(before, to.at, to.offset));
            if beyond(side, whole, edge) {
                break;
            }
            line.pop_back();
        }
        line.push_back(endpoint);
    }

    /// Bends the string around the first endpoint of a polyline.
    fn bend(&mut self, side: usize, path: &mut Vec<Point>) {
        let Some(endpoint) = self.polylines[side].pop_front() else { return };
        let before = std::mem::replace(&mut self.here, endpoint);
        self.last = Slope::between(before, endpoint.at, endpoint.offset);
        path.push(endpoint);
        // On the other side, drop the endpoints that have been passed, and those that later ones hide from here.
        let other = &mut self.polylines[1 - side];
        while let Some(first) = other.front() {
            let direction = |to: &Point| Slope::between(endpoint, to.at, to.offset);
            let is_shadowed = |second: &Point| !beyond(1 - side, direction(second), direction(first));
            let is_ahead = before.at.abs_diff(first.at) > before.at.abs_diff(endpoint.at);
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
        let segments: Vec<Segment> = (0..100)
            .map(|n| Segment { at: n * 1_000, low: n * 50 - 7 * (n % 5), high: n * 50 + 9 * (n % 7) })
            .collect();
        let path = pull(segments.iter());
        for pair in path.windows(2) {
            let slope = (pair[1].offset - pair[0].offset) as f64 / (pair[1].at - pair[0].at) as f64;
            assert!((0.0499..=0.0501).contains(&slope), "{path:?}");
        }
    }

    #[test]
    fn it_bends_at_the_endpoints_in_its_way() {
        let segments = [(0, 0, 100), (10, 80, 90), (20, -100, 300), (30, 10, 20), (40, 0, 100)];
        let segments = segments.map(|(at, low, high)| Segment { at, low, high });
        let path = pull(segments.iter());
        let corners: Vec<(i64, i64)> = path.iter().map(|point| (point.at, point.offset)).collect();
        assert_eq!(corners, [(0, 100), (10, 80), (30, 20), (40, 0)]);
    }

    fn offsets<const N: usize>(segments: [(i64, i64, i64); N]) -> Vec<i64> {
        let segments = segments.map(|(at, low, high)| Segment { at, low, high });
        pull(segments.iter()).iter().map(|point| point.offset).collect()
    }

    #[test]
    fn the_start_follows_from_the_first_bend() {
        assert_eq!(offsets([(1, 0, 34), (2, 0, 0), (3, -2, 0)]), [0, 0, 0]);
        assert_eq!(offsets([(1, 0, 74), (2, -13, 0), (3, -26, -26)]), [0, -26]);
        assert_eq!(offsets([(1, 0, 74), (2, -13, 0), (3, -40, -26)]), [0, -26]);
    }

    #[test]
    fn a_level_line_lies_in_the_middle_of_its_room() {
        assert_eq!(offsets([(1, 0, 1000), (2, 40, 60), (3, -500, 90)]), [50, 50]);
    }

    proptest! {
        /// The path crosses all segments, and is nowhere steeper or flatter than the path that they were generated
        /// around.
        #[test]
        fn it_passes_all_segments_with_the_slopes_of_any_path(
            steps in proptest::collection::vec((1i64..50, -20i64..=20, 0i64..300, 0i64..300), 2..80),
        ) {
            let (mut time, mut value) = (0, 0);
            let segments: Vec<Segment> = steps
                .iter()
                .map(|(run, slope, below, above)| {
                    time += run;
                    value += run * slope;
                    Segment { at: time, low: value - below, high: value + above }
                })
                .collect();
            let path = pull(segments.iter());
            for segment in &segments {
                let here = at(&path, segment.at);
                prop_assert!(segment.low as f64 - 1e-6 <= here && here <= segment.high as f64 + 1e-6, "{segment:?}: {here}");
            }
            let slopes = || steps.iter().skip(1).map(|step| step.1);
            let (least, most) = (slopes().min().unwrap().min(0), slopes().max().unwrap().max(0));
            for pair in path.windows(2) {
                prop_assert!(pair[0].at < pair[1].at);
                let slope = (pair[1].offset - pair[0].offset) as f64 / (pair[1].at - pair[0].at) as f64;
                // The first edge's start and the last edge's end are rounded to whole ns.
                let whole = 1.0 / (pair[1].at - pair[0].at) as f64;
                let inside = least as f64 - whole..=most as f64 + whole;
                prop_assert!(inside.contains(&slope), "{slope}: {path:?}");
            }
        }
    }
}
