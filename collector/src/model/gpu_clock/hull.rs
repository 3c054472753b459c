//! Which of many bounds on one side of a linear function matter?
//!
//! A straight line lies below all of some points exactly if it lies below the corners of their lower convex hull, so
//! the corners are all that has to be kept: about ten of thousands of points. The hull is built as in Andrew's
//! monotone chain ("Another efficient algorithm for convex hulls in two dimensions", 1979), but accepts points in any
//! order. Bounds from below use the same code with negated values. The test `corners_represent_all_points` checks the
//! equivalence.

use std::cmp::Ordering;

/// A value at a time, both in ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point {
    /// Host time.
    pub at: i64,
    /// θ, or a bound on it.
    pub offset: i64,
}

impl Point {
    /// Whether `self` lies above the line through `a` and a later `b` (`Greater`), on it, or below it. Clocks drift slowly, so
    /// that 64 bits are nearly always enough.
    pub fn height(self, a: Point, b: Point) -> Ordering {
        let near = || {
            let height = self.offset.checked_sub(a.offset)?.checked_mul(b.at.checked_sub(a.at)?)?;
            let line = b.offset.checked_sub(a.offset)?.checked_mul(self.at.checked_sub(a.at)?)?;
            Some(height.cmp(&line))
        };
        let far = || {
            let between = |from: i64, to: i64| i128::from(to) - i128::from(from);
            let height = between(a.offset, self.offset) * between(a.at, b.at);
            height.cmp(&(between(a.offset, b.offset) * between(a.at, self.at)))
        };
        near().unwrap_or_else(far)
    }
}

/// Limit on a hull's corners. A genuine trace has about ten a second; a forged one that has more loses bounds, which
/// widens intervals but keeps them true.
const MOST_CORNERS: usize = 128;

/// The lower convex hull of points, from left to right.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hull {
    corners: Vec<Point>,
}

impl Hull {
    /// Adds a point if it changes the hull.
    pub fn add(&mut self, point: Point) {
        let corners = &mut self.corners;
        let mut here = corners.partition_point(|corner| corner.at < point.at);
        let left = here.checked_sub(1).map(|left| corners[left]);
        match (left, corners.get(here)) {
            (_, Some(same)) if same.at == point.at && same.offset <= point.offset => return,
            (_, Some(same)) if same.at == point.at => {
                corners.remove(here);
            }
            (Some(left), Some(right)) if point.height(left, *right).is_ge() => return,
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
        while here + 2 < corners.len() && corners[here + 1].height(point, corners[here + 2]).is_ge() {
            corners.remove(here + 1);
        }
        while here >= 2 && corners[here - 1].height(corners[here - 2], point).is_ge() {
            corners.remove(here - 1);
            here -= 1;
        }
    }

    /// The corners, from left to right.
    pub fn corners(&self) -> &[Point] {
        &self.corners
    }

    /// Raises the whole hull by `by`.
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
    fn of_two_points_at_one_time_the_lower_is_kept() {
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
        fn corners_represent_all_points(
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
