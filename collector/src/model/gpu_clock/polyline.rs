//! Where does a value lie among the corners of a polyline?
//!
//! A clock is asked some twenty times about each operation. A binary search would take most of that time, so a grid of
//! equal cells says where in the list to look: corners are spread evenly enough that a cell has one or two.

use super::hull::Point;

/// Where a value lies among the points of a polyline.
pub enum Place {
    /// There are no points.
    Nowhere,
    /// Before the first point or after the last: that point.
    Beyond(Point),
    /// Between two neighbors.
    Between(Point, Point),
}

/// Points in order of a key.
#[derive(Clone, Debug, Default)]
pub struct Polyline {
    points: Vec<Point>,
    /// The least key.
    first: i64,
    /// The logarithm of a cell's length.
    shift: u32,
    /// The number of points before each cell, and at last that of all points.
    starts: Vec<u32>,
}

impl Polyline {
    /// A polyline through points whose key never falls.
    pub fn new(points: Vec<Point>, key: impl Fn(&Point) -> i64) -> Polyline {
        let (Some(first), Some(last)) = (points.first().map(&key), points.last().map(&key)) else {
            return Polyline::default();
        };
        let span = last.abs_diff(first);
        // At most two cells for each point.
        let shift = u64::BITS - (span / (2 * points.len() as u64)).leading_zeros();
        let last_cell = (span >> shift) as usize;
        let mut starts = Vec::with_capacity(last_cell + 2);
        for (at, point) in points.iter().enumerate() {
            let cell = (key(point).max(first).abs_diff(first) >> shift) as usize;
            while starts.len() <= cell.min(last_cell) {
                starts.push(at as u32);
            }
        }
        starts.push(points.len() as u32);
        Polyline { points, first, shift, starts }
    }

    /// Its points.
    #[cfg(test)]
    pub fn points(&self) -> &[Point] {
        &self.points
    }

    /// Finds the place of a value of the key that it was made with.
    pub fn find(&self, value: i64, key: impl Fn(&Point) -> i64) -> Place {
        let next = self.next(value, key);
        match (next.checked_sub(1).and_then(|last| self.points.get(last)), self.points.get(next)) {
            (Some(a), Some(b)) => Place::Between(*a, *b),
            (Some(end), None) | (None, Some(end)) => Place::Beyond(*end),
            (None, None) => Place::Nowhere,
        }
    }

    /// The number of points that are not beyond a value.
    fn next(&self, value: i64, key: impl Fn(&Point) -> i64) -> usize {
        if value < self.first {
            return 0;
        }
        let cell = (value.abs_diff(self.first) >> self.shift) as usize;
        let Some([from, to]) = self.starts.get(cell..).and_then(|rest| rest.first_chunk()) else {
            return self.points.len();
        };
        let cell = &self.points[*from as usize..*to as usize];
        *from as usize + cell.partition_point(|point| key(point) <= value)
    }
}

/// The offset at `at` on the line from `a` to `b`, rounded down.
pub fn between(a: Point, b: Point, at: i64) -> i64 {
    a.offset + share([a.offset, b.offset], at - a.at, b.at - a.at)
}

/// How far a line that goes from one height to the other in `whole` ns rises in `run` of them, rounded down. Clocks drift
/// slowly, so that nearly every product fits into 64 bits, where a division takes a fraction of the time.
pub fn share([from, to]: [i64; 2], run: i64, whole: i64) -> i64 {
    let product = (i128::from(to) - i128::from(from)) * i128::from(run);
    match i64::try_from(product) {
        Ok(product) => product.div_euclid(whole),
        Err(_) => product.div_euclid(i128::from(whole)) as i64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_value_is_found_where_a_search_of_all_points_finds_it(
            mut keys in proptest::collection::vec(prop_oneof![-50i64..50, any::<i64>()], 0..60),
            values in proptest::collection::vec(prop_oneof![-60i64..60, any::<i64>()], 0..60),
        ) {
            keys.sort_unstable();
            let points: Vec<Point> = keys.iter().map(|at| Point { at: *at, offset: 0 }).collect();
            let line = Polyline::new(points, |point| point.at);
            for value in values.iter().chain(&keys) {
                let expected = keys.partition_point(|key| key <= value);
                prop_assert_eq!(line.next(*value, |point| point.at), expected, "{}", value);
            }
        }
    }
}
