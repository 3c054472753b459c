//! How nothing overlaps on a row.
//!
//! The operations of a stream run one after the other, but the model's estimates of two neighbours can overlap by what it
//! does not know. Where they do, the later one begins with the end of the earlier one. The calls of a thread follow each
//! other too; one made by a signal handler lies inside another. Ranges lie around calls; those of different domains may
//! cross, and then the one that ends later is drawn from where the other ends.
//!
//! Moments are so many µs since the base that a reader's double holds them to half a nanosecond, and one that cuts the rest off
//! (Perfetto's) reads some a nanosecond early. So what follows something, or lies around it, does so by one at least.

use std::collections::VecDeque;

/// How far ends of different stretches are from each other, ns.
const APART: i64 = 1;

/// The row of a stream: its operations in the order in which they begin.
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
    /// Where the next one goes.
    pub fn place(&mut self, begin: i64, end: i64) -> (i64, i64) {
        let begin = begin.max(self.end.saturating_add(APART));
        self.end = end.max(begin);
        (begin, self.end)
    }
}

/// Calls of a thread that a later one may still have inside it: signal handlers of that many calls at most interrupt one.
const KEPT: usize = 64;

/// Calls in the order in which they end.
#[derive(Clone, Debug)]
pub(super) struct Nest {
    /// Calls that are inside no other so far: apart from each other, and ascending.
    outermost: VecDeque<(i64, i64)>,
    /// Behind those that are no longer kept.
    floor: i64,
}

impl Default for Nest {
    fn default() -> Self {
        Nest { outermost: VecDeque::new(), floor: i64::MIN }
    }
}

impl Nest {
    /// For calls that come after a moment.
    fn after(floor: i64) -> Nest {
        Nest { outermost: VecDeque::new(), floor }
    }

    /// The end of all that is on it.
    fn end(&self) -> i64 {
        self.outermost.back().map_or(self.floor, |last| last.1)
    }

    /// Where the next one goes: around earlier ones, or behind them.
    pub fn place(&mut self, begin: i64, end: i64) -> (i64, i64) {
        let mut begin = begin.max(self.floor);
        let mut end = end;
        while let Some(last) = self.outermost.back() {
            if begin > last.0 {
                begin = begin.max(last.1.saturating_add(APART));
                break;
            }
            // The one with the same begin and end is the same stretch, however it is read.
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
    /// Open ranges, the innermost last.
    open: Vec<OpenRange>,
}

/// A range that is open on a row.
#[derive(Clone, Debug)]
struct OpenRange {
    domain: u32,
    begin: i64,
    inside: Nest,
}

impl ThreadRow {
    /// Where the next call goes.
    pub fn place(&mut self, begin: i64, end: i64) -> (i64, i64) {
        self.innermost().place(begin, end)
    }

    /// Opens a range around what comes next.
    pub fn push(&mut self, domain: u32, at: i64) {
        let begin = at.max(self.innermost().end().saturating_add(APART));
        self.open.push(OpenRange { domain, begin, inside: Nest::after(begin) });
    }

    /// Closes the innermost range of a domain: where it lies. Those that are open inside it begin anew behind it.
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
        assert_eq!(row.place(19, 30), (21, 30), "it begins behind the one before");
        assert_eq!(row.place(22, 28), (31, 31), "nothing is left of what lies inside the one before");
        assert_eq!(row.place(31, 32), (32, 32));
        assert_eq!(row.place(33, 34), (33, 34));
    }

    #[test]
    fn calls_stand_behind_or_around_each_other() {
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
    fn no_two_calls_cross_whatever_comes() {
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
