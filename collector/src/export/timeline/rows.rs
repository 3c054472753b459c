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
const APART: i64 = 1;

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
}

impl Default for Nest {
    fn default() -> Self {
        Nest { outermost: VecDeque::new(), floor: i64::MIN }
    }
}

impl Nest {
    /// An empty row that begins after `floor`.
    fn after(floor: i64) -> Nest {
        Nest { outermost: VecDeque::new(), floor }
    }

    /// The end of everything on the row.
    fn end(&self) -> i64 {
        self.outermost.back().map_or(self.floor, |last| last.1)
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
        self.outermost.push_back((begin, end));
        if self.outermost.len() > KEPT
            && let Some(oldest) = self.outermost.pop_front()
        {
            self.floor = oldest.1.saturating_add(APART);
        }
        (begin, end)
    }
}

/// The row of a thread: its calls, and the ranges around them.
#[derive(Clone, Debug, Default)]
pub(super) struct ThreadRow {
    outside: Nest,
    /// The open ranges, the innermost last.
    open: Vec<OpenRange>,
}

/// An open range on a row.
#[derive(Clone, Debug)]
struct OpenRange {
    domain: u32,
    begin: i64,
    inside: Nest,
}

impl ThreadRow {
    /// Returns where the next call is drawn.
    pub fn place(&mut self, begin: i64, end: i64) -> (i64, i64) {
        self.innermost().place(begin, end)
    }

    /// Opens a range around what follows.
    pub fn push(&mut self, domain: u32, at: i64) {
        let begin = at.max(self.innermost().end().saturating_add(APART));
        self.open.push(OpenRange { domain, begin, inside: Nest::after(begin) });
    }

    /// Closes the innermost range of a domain and returns where it is drawn. Ranges that are open inside it begin
    /// again after it.
    pub fn pop(&mut self, domain: u32, at: i64) -> Option<(i64, i64)> {
        let index = self.open.iter().rposition(|range| range.domain == domain)?;
        let end = self.open[index..]
            .iter()
            .map(|range| range.inside.end().saturating_add(APART))
            .fold(at, i64::max);
        let range = self.open.remove(index);
        for crossing in &mut self.open[index..] {
            let begin = end.saturating_add(APART);
            (crossing.begin, crossing.inside) = (begin, Nest::after(begin));
        }
        let around = self.open[..index].last_mut().map_or(&mut self.outside, |around| &mut around.inside);
        Some(around.place(range.begin, end))
    }

    fn innermost(&mut self) -> &mut Nest {
        self.open.last_mut().map_or(&mut self.outside, |range| &mut range.inside)
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
    fn ranges_lie_around_their_calls_and_never_cross() {
        let mut row = ThreadRow::default();
        assert_eq!(row.pop(0, 1), None);
        row.push(0, 10);
        for call in 1..1_000 {
            assert_eq!(row.place(call * 20, call * 20 + 5), (call * 20, call * 20 + 5));
        }
        row.push(0, 20_000);
        row.push(7, 20_010);
        assert_eq!(row.place(20_020, 20_030), (20_020, 20_030));
        assert_eq!(row.pop(0, 20_040), Some((20_000, 20_040)), "the inner one of this domain");
        assert_eq!(row.place(20_035, 20_050), (20_041, 20_050));
        assert_eq!(row.pop(7, 20_060), Some((20_041, 20_060)), "it would cross the other");
        assert_eq!(row.pop(0, 20_070), Some((10, 20_070)), "around all of them, however many");
        assert_eq!(row.place(20_000, 20_080), (20_071, 20_080));
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
