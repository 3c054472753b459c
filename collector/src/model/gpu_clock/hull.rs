//! The bounds that matter, of many on one side of a function that is linear over a stretch of time.
//!
//! A straight line lies below all of some points exactly if it lies below the corners of their lower convex hull. So the
//! corners are all that is kept, a handful of thousands of points. Bounds from below are the same, turned around.

/// A value at a time. Both in ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point {
    /// Host time.
    pub at: i64,
    /// θ, or a bound on it.
    pub offset: i64,
}

impl Point {
    /// How far `self` lies above the line through `a` and `b`, times the time between those.
    pub fn above(self, a: Point, b: Point) -> i128 {
        let (run, rise) = (i128::from(b.at) - i128::from(a.at), i128::from(b.offset) - i128::from(a.offset));
        let (at, offset) =
            (i128::from(self.at) - i128::from(a.at), i128::from(self.offset) - i128::from(a.offset));
        offset * run - rise * at
    }
}

/// Corners of a lower convex hull that are kept at most. A true trace has some ten; one that was made to have more loses
/// bounds, never truth.
const MOST_CORNERS: usize = 128;

/// The lower convex hull of points, from left to right.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hull {
    corners: Vec<Point>,
}

impl Hull {
    /// Adds a point, if it makes a difference.
    pub fn add(&mut self, point: Point) {
        let corners = &mut self.corners;
        let mut here = corners.partition_point(|corner| corner.at < point.at);
        let left = here.checked_sub(1).map(|left| corners[left]);
        match (left, corners.get(here)) {
            (_, Some(same)) if same.at == point.at && same.offset <= point.offset => return,
            (_, Some(same)) if same.at == point.at => {
                corners.remove(here);
            }
            (Some(left), Some(right)) if point.above(left, *right) >= 0 => return,
            _ => {}
        }
        if corners.len() >= MOST_CORNERS {
            match here {
                0 => drop(corners.remove(0)),
                last if last == corners.len() => {
                    corners.pop();
                    here -= 1;
                }
                _ => return,
            }
        }
        corners.insert(here, point);
        while here + 2 < corners.len() && corners[here + 1].above(point, corners[here + 2]) >= 0 {
            corners.remove(here + 1);
        }
        while here >= 2 && corners[here - 1].above(corners[here - 2], point) >= 0 {
            corners.remove(here - 1);
            here -= 1;
        }
    }

    /// The corners, from left to right.
    pub fn corners(&self) -> &[Point] {
        &self.corners
    }

    /// Raises all of it.
    pub fn raise(&mut self, by: i64) {
        self.corners.iter_mut().for_each(|corner| corner.offset = corner.offset.saturating_add(by));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn hull(points: &[(i64, i64)]) -> Hull {
        let mut hull = Hull::default();
        points.iter().for_each(|&(at, offset)| hull.add(Point { at, offset }));
        hull
    }

    #[test]
    fn the_lower_of_two_at_one_time_is_kept() {
        assert_eq!(hull(&[(5, 9), (5, 7), (5, 8)]).corners(), [Point { at: 5, offset: 7 }]);
    }

    #[test]
    fn a_forged_hull_stays_small() {
        let parabola: Vec<(i64, i64)> = (0..10_000).map(|at| (at, at * at)).collect();
        assert_eq!(hull(&parabola).corners().len(), MOST_CORNERS);
    }

    proptest! {
        /// A line is below all points exactly if it is below the corners.
        #[test]
        fn corners_stand_for_all(
            points in proptest::collection::vec((0i64..100, -50i64..50), 1..40),
            (start, slope) in (-60i64..60, -3i64..=3),
        ) {
            let hull = hull(&points);
            let below = |(at, offset): (i64, i64)| start + slope * at <= offset;
            let corners = hull.corners();
            prop_assert!(corners.iter().all(|corner| points.contains(&(corner.at, corner.offset))));
            prop_assert!(corners.is_sorted_by(|a, b| a.at < b.at));
            prop_assert_eq!(
                points.iter().all(|&point| below(point)),
                corners.iter().all(|corner| below((corner.at, corner.offset)))
            );
        }
    }
}
