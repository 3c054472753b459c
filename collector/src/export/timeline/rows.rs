//! How is overlap on a row avoided?
//!
//! The operations of a stream run one after another, but the model's estimates of two neighbors can overlap by their
//! uncertainty. If they do, the later one begins at the end of the earlier one. The calls of a thread also follow
//! each other; one made by a signal handler lies inside another. Ranges lie around calls; those of different domains
//! may cross, and then the one that ends later is drawn from where the other ends.
//!
//! Times are so many µs since the base that a reader's double resolves only half a nanosecond, and a reader that cuts
//! off the rest (Perfetto's) reads some times a nanosecond early. So events that follow or contain each other do so
//! by at least 1 ns.

use std::collections::VecDeque;

/// Least distance between the ends of different events, ns.
pub(super) const APART: i64 = 1;

/// The row of a stream, with operations in the order in which they begin.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sequence {
    end: i64,
}

impl Default for Sequence {
    fn default() -> Self {
        Sequence { end: i64::MIN }
    }
}

impl Sequence {
    /// Returns where the next operation is drawn.
    pub fn place(&mut self, begin: i64, end: i64) -> (i64, i64) {
        let begin = begin.max(self.end.saturating_add(APART));
        self.end = end.max(begin);
        (begin, self.end)
    }
}

/// The number of calls that are kept because a later call may contain them: the signal handlers that interrupt a call
/// make at most this many.
const KEPT: usize = 64;

/// A row of calls in the order in which they end.
#[derive(Clone, Debug)]
pub(super) struct Nest {
    /// The calls that are inside no other so far: disjoint and ascending.
    outermost: VecDeque<(i64, i64)>,
    /// The end of the calls that are no longer kept.
    floor: i64,
    /// The beginning of the first of those.
    first: Option<i64>,
}

impl Default for Nest {
    fn default() -> Self {
        Nest::after(i64::MIN)
    }
}

impl Nest {
    /// An empty row that begins after `floor`.
    pub fn after(floor: i64) -> Nest {
        Nest { outermost: VecDeque::new(), floor, first: None }
    }

    /// A row with one event.
    pub fn of(span: (i64, i64)) -> Nest {
        Nest { outermost: VecDeque::from([span]), ..Nest::after(span.0) }
    }

    /// Whether nothing is on the row.
    pub fn is_empty(&self) -> bool {
        self.outermost.is_empty()
    }

    /// The beginning of everything on the row.
    pub fn begin(&self) -> i64 {
        self.first.or(self.outermost.front().map(|first| first.0)).unwrap_or(self.floor)
    }

    /// The end of everything on the row.
    pub fn end(&self) -> i64 {
        self.outermost.back().map_or(self.floor, |last| last.1)
    }

    /// Takes from the row what begins after `end`, of what is kept; all of that if there is no such end.
    pub fn split_after(&mut self, end: Option<i64>) -> VecDeque<(i64, i64)> {
        let kept = self.outermost.partition_point(|span| end.is_some_and(|end| span.0 < end));
        self.outermost.split_off(kept)
    }

    /// Adds events that come after all others.
    pub fn extend(&mut self, later: VecDeque<(i64, i64)>) {
        for span in later {
            self.keep(span);
        }
    }

    /// Returns where the next call is drawn: around earlier ones, or after them.
    pub fn place(&mut self, begin: i64, end: i64) -> (i64, i64) {
        let mut begin = begin.max(self.floor);
        let mut end = end;
        while let Some(last) = self.outermost.back() {
            if begin > last.0 {
                begin = begin.max(last.1.saturating_add(APART));
                break;
            }
            // Two calls with the same start and end are drawn alike, whichever is read as the inner one.
            end = if *last == (begin, end) { end } else { end.max(last.1.saturating_add(APART)) };
            self.outermost.pop_back();
        }
        let end = end.max(begin);
        self.keep((begin, end));
        (begin, end)
    }

    fn keep(&mut self, span: (i64, i64)) {
        self.outermost.push_back(span);
        if self.outermost.len() > KEPT
            && let Some(oldest) = self.outermost.pop_front()
        {
            self.floor = oldest.1.saturating_add(APART);
            self.first.get_or_insert(oldest.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::generator::Random;

    #[test]
    fn operations_of_a_stream_do_not_overlap() {
        let mut row = Sequence::default();
        assert_eq!(row.place(10, 20), (10, 20));
        assert_eq!(row.place(19, 30), (21, 30), "it begins after the one before");
        assert_eq!(row.place(22, 28), (31, 31), "nothing is left of what lies inside the one before");
        assert_eq!(row.place(31, 32), (32, 32));
        assert_eq!(row.place(33, 34), (33, 34));
    }

    #[test]
    fn calls_lie_after_or_around_each_other() {
        let mut row = Nest::default();
        assert_eq!(row.place(10, 20), (10, 20));
        assert_eq!(row.place(30, 40), (30, 40));
        assert_eq!(row.place(25, 50), (25, 50), "the handler's call lies inside");
        assert_eq!(row.place(49, 60), (51, 60), "no two cross");
        assert_eq!(row.place(5, 70), (5, 70), "around all of them");
        assert_eq!(row.place(71, 71), (71, 71));
    }

    #[test]
    fn no_two_calls_ever_cross() {
        let mut random = Random(7);
        let mut row = Nest::default();
        let mut placed: Vec<(i64, i64)> = Vec::new();
        let mut now = 0;
        for _ in 0..2_000 {
            now += random.below(10) as i64;
            let longest = if random.below(50) == 0 { 3_000 } else { 12 };
            let begin = now - random.below(longest) as i64;
            let new = row.place(begin, now);
            assert!(new.0 <= new.1 && new.1 >= now);
            for old in &placed {
                let is_apart = old.1 < new.0 || new.1 < old.0;
                let is_around = new.0 <= old.0 && old.1 < new.1;
                assert!(is_apart || is_around || old == &new, "{old:?} {new:?}");
            }
            placed.push(new);
        }
        assert!(placed.windows(2).any(|w| w[1].0 < w[0].0), "some lie inside others");
    }
}
