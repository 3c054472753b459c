//! How do a thread's calls, the ranges around them and the functions of Python that made them nest on one row?
//!
//! Of calls and ranges the trace has beginnings and ends. Of a function it has only that it was on the stacks of some calls. It is
//! drawn from the first to the last call of those that follow each other and have it under the same functions: it ran at least that
//! long, and may have returned and been called again in between.
//!
//! Functions and ranges lie around each other as their calls say:
//!
//! - A range that begins when functions are open lies inside of them as long as all calls in it have them. If one lacks a function,
//!   that one had returned: it is drawn up to its last call before the range, and once more around the calls in the range that have it.
//! - A function that is first seen in a range is drawn inside. PyTorch's operators are the exception: what calls an operator is around
//!   it, and what is seen by the first call in it calls the operator.
//! - All functions inside a range end with it.

use super::rows::{APART, Nest};

/// The functions of Python on a call's stack, by numbers, the outermost first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Chain {
    pub functions: Vec<u32>,
    /// Whether the outermost were not read.
    pub is_cut: bool,
}

/// A function that is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Drawn {
    pub function: u32,
    pub span: (i64, i64),
}

/// The row of a thread.
#[derive(Clone, Debug, Default)]
pub(super) struct ThreadRow {
    outside: Nest,
    /// The open ranges and functions, the innermost last.
    open: Vec<Open>,
    /// The functions that have ended and were not written.
    ended: Vec<Drawn>,
}

/// What may contain calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Range { domain: u32, is_operator: bool },
    Function(u32),
}

/// An open range or function on a row.
#[derive(Clone, Debug)]
struct Open {
    kind: Kind,
    begin: i64,
    inside: Nest,
    /// The end of the last call in it, or of what lies around that; `None` without a call.
    called: Option<i64>,
}

impl Open {
    fn function(&self) -> Option<u32> {
        match self.kind {
            Kind::Function(function) => Some(function),
            Kind::Range { .. } => None,
        }
    }

    /// Whether it is an operator that has made no call so far.
    fn is_operator_without_calls(&self) -> bool {
        matches!(self.kind, Kind::Range { is_operator: true, .. }) && self.called.is_none()
    }
}

impl ThreadRow {
    /// Returns where the next call is drawn, which has these functions on its stack.
    pub fn place(&mut self, chain: &Chain, begin: i64, end: i64) -> (i64, i64) {
        let (same, index) = self.alike(chain);
        self.end_functions(index);
        self.begin_functions(chain.functions.get(same..).unwrap_or_default(), begin);
        // Readers draw what begins first as the outer one.
        let begin = self.open.last().map_or(begin, |around| begin.max(around.begin.saturating_add(APART)));
        let innermost = self.open.len();
        let span = self.nest(innermost).place(begin, end);
        self.has_call(innermost, span.1);
        span
    }

    /// Opens a range around what follows.
    pub fn push(&mut self, domain: u32, is_operator: bool, at: i64) {
        let innermost = self.open.len();
        let room = self.room();
        let begin = at.max(self.nest(innermost).end().saturating_add(room));
        let kind = Kind::Range { domain, is_operator };
        self.open.push(Open { kind, begin, inside: Nest::after(begin), called: None });
    }

    /// Closes the innermost range of a domain and returns where it is drawn. Ranges that are open inside it begin
    /// again after it.
    pub fn pop(&mut self, domain: u32, at: i64) -> Option<(i64, i64)> {
        let is_it = |open: &Open| matches!(open.kind, Kind::Range { domain: of, .. } if of == domain);
        let index = self.open.iter().rposition(is_it)?;
        self.end_functions(index + 1);
        let end = self.open[index..]
            .iter()
            .map(|range| range.inside.end().saturating_add(APART))
            .fold(at, i64::max);
        let is_called = self.open[index..].iter().any(|range| range.called.is_some());
        let range = self.open.remove(index);
        let mut begin = end.saturating_add(self.room());
        for crossing in &mut self.open[index..] {
            *crossing = Open { kind: crossing.kind, begin, inside: Nest::after(begin), called: None };
            begin = begin.saturating_add(APART);
        }
        let span = self.nest(index).place(range.begin, end);
        if is_called {
            self.has_call(index, span.1);
        }
        Some(span)
    }

    /// Ends all functions.
    pub fn finish(&mut self) {
        self.end_functions(0);
    }

    /// Takes the functions that have ended.
    pub fn take_ended(&mut self) -> Vec<Drawn> {
        std::mem::take(&mut self.ended)
    }

    /// How far from what came before a range begins, ns: the open functions may turn out to end before it, one after the other.
    fn room(&self) -> i64 {
        let functions = self.open.iter().filter(|open| open.function().is_some()).count() as i64;
        functions.saturating_add(1).saturating_mul(APART)
    }

    /// What lies directly around the open thing with this index.
    fn nest(&mut self, index: usize) -> &mut Nest {
        match index.checked_sub(1).and_then(|around| self.open.get_mut(around)) {
            Some(around) => &mut around.inside,
            None => &mut self.outside,
        }
    }

    /// Notes that what lies around the open thing with this index has a call that ended.
    fn has_call(&mut self, index: usize, end: i64) {
        if let Some(around) = index.checked_sub(1).and_then(|around| self.open.get_mut(around)) {
            around.called = around.called.max(Some(end));
        }
    }

    /// Returns how many of a chain's functions are open, and the index from which on open functions are not in it.
    fn alike(&self, chain: &Chain) -> (usize, usize) {
        let functions = || self.open.iter().enumerate().filter_map(|(at, open)| Some((at, open.function()?)));
        let from = |start: usize| {
            let (mut same, mut rest) = (0, functions().skip(start));
            loop {
                let Some((index, function)) = rest.next() else { return (same, self.open.len()) };
                if chain.functions.get(same) != Some(&function) {
                    return (same, index);
                }
                same += 1;
            }
        };
        if !chain.is_cut || chain.functions.is_empty() {
            return from(0);
        }
        // Its outermost function is any of those that are open: if all are alike, the innermost, and otherwise the one under which
        // most is.
        let (open, length) = (functions().count(), chain.functions.len());
        let whole = open.checked_sub(length).map(from).filter(|(same, _)| *same == length);
        let most = || (0..open).map(from).filter(|(same, _)| *same > 0).max_by_key(|found| *found);
        whole.or_else(most).unwrap_or((0, 0))
    }

    /// Returns what functions around a call that begins lie in front of, as an index, and when the outermost of them begins.
    fn beginning(&mut self, functions: usize, call: i64) -> (usize, i64) {
        let length = i64::try_from(functions).unwrap_or(i64::MAX).saturating_mul(APART);
        let operators = self.open.iter().rev().take_while(|open| open.is_operator_without_calls()).count();
        let place = |row: &mut ThreadRow, index: usize| {
            let inside = row.open.get(index).map_or(call, |operator| operator.begin);
            let begin = inside.saturating_sub(length).max(row.nest(index).end().saturating_add(APART));
            (index, begin, begin.saturating_add(length) <= inside)
        };
        let innermost = self.open.len();
        let (index, begin, is_room) = place(self, innermost - operators);
        // Operators in front of which there is no room begin later, unless that would cut what is in them.
        if is_room || self.open[index..].iter().all(|operator| operator.inside.is_empty()) {
            return (index, begin);
        }
        let (index, begin, _) = place(self, innermost);
        (index, begin)
    }

    /// Opens functions around a call that begins, the innermost last.
    fn begin_functions(&mut self, functions: &[u32], call: i64) {
        if functions.is_empty() {
            return;
        }
        let (index, mut begin) = self.beginning(functions.len(), call);
        let operators = self.open.split_off(index);
        for function in functions {
            let inside = Nest::after(begin.saturating_add(APART));
            self.open.push(Open { kind: Kind::Function(*function), begin, inside, called: None });
            begin = begin.saturating_add(APART);
        }
        for mut operator in operators {
            if begin > operator.begin {
                (operator.begin, operator.inside) = (begin, Nest::after(begin));
            }
            begin = operator.begin.saturating_add(APART);
            self.open.push(operator);
        }
    }

    /// Ends the open functions from this index on.
    fn end_functions(&mut self, index: usize) {
        for index in (index..self.open.len()).rev() {
            if let Some(function) = self.open[index].function() {
                self.end_function(function, index);
            }
        }
    }

    /// Ends a function that has only ranges open in it.
    fn end_function(&mut self, function: u32, index: usize) {
        let Open { begin, mut inside, called, .. } = self.open.remove(index);
        let (later, around) = (inside.split_after(called), self.nest(index));
        if let Some(called) = called {
            let span = around.place(begin, called.saturating_add(APART));
            self.has_call(index, span.1);
            self.ended.push(Drawn { function, span });
        }
        self.nest(index).extend(later);
        for index in index..self.open.len() {
            let after = self.nest(index).end().saturating_add(APART);
            let range = &mut self.open[index];
            range.begin = range.begin.max(after);
            let Some(called) = range.called else { continue };
            let later = range.inside.split_after(Some(called));
            let begin = range.inside.begin().saturating_sub(APART).max(range.begin);
            let span = (begin, called.saturating_add(APART));
            range.inside = Nest::of(span);
            range.inside.extend(later);
            range.called = Some(span.1);
            self.ended.push(Drawn { function, span });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::generator::Random;

    fn chain(functions: &[u32]) -> Chain {
        Chain { functions: functions.to_vec(), is_cut: false }
    }

    /// The functions that have ended, sorted by their beginnings.
    fn ended(row: &mut ThreadRow) -> Vec<(u32, (i64, i64))> {
        row.finish();
        let mut ended: Vec<_> = row.take_ended().iter().map(|drawn| (drawn.function, drawn.span)).collect();
        ended.sort_by_key(|(_, span)| (span.0, -span.1));
        ended
    }

    #[test]
    fn ranges_lie_around_their_calls_and_never_cross() {
        let (mut row, none) = (ThreadRow::default(), chain(&[]));
        assert_eq!(row.pop(0, 1), None);
        row.push(0, false, 10);
        for call in 1..1_000 {
            assert_eq!(row.place(&none, call * 20, call * 20 + 5), (call * 20, call * 20 + 5));
        }
        row.push(0, false, 20_000);
        row.push(7, false, 20_010);
        assert_eq!(row.place(&none, 20_020, 20_030), (20_020, 20_030));
        assert_eq!(row.pop(0, 20_040), Some((20_000, 20_040)), "the inner one of this domain");
        assert_eq!(
            row.place(&none, 20_035, 20_050),
            (20_042, 20_050),
            "it begins later than the range around it"
        );
        assert_eq!(row.pop(7, 20_060), Some((20_041, 20_060)), "it would cross the other");
        assert_eq!(row.pop(0, 20_070), Some((10, 20_070)), "around all of them, however many");
        assert_eq!(row.place(&none, 20_000, 20_080), (20_071, 20_080));
        assert_eq!(ended(&mut row), []);
    }

    #[test]
    fn a_function_is_drawn_from_its_first_to_its_last_call_in_a_row() {
        let mut row = ThreadRow::default();
        row.place(&chain(&[1, 2]), 100, 200);
        row.place(&chain(&[1, 2, 3]), 300, 400);
        row.place(&chain(&[1, 2]), 500, 600);
        row.place(&chain(&[1, 3]), 700, 800);
        row.place(&chain(&[]), 900, 950);
        row.place(&chain(&[1]), 1_000, 1_100);
        let spans = [(1, (98, 802)), (2, (99, 601)), (3, (299, 401)), (3, (699, 801)), (1, (999, 1_101))];
        assert_eq!(ended(&mut row), spans);
    }

    #[test]
    fn a_function_lies_around_the_operators_that_it_calls() {
        let mut row = ThreadRow::default();
        // aten::linear calls aten::t and aten::addmm, of which only that launches; aten::relu launches nothing.
        row.push(0, true, 100);
        row.push(0, true, 110);
        assert_eq!(row.pop(0, 115), Some((110, 115)));
        row.push(0, true, 120);
        assert_eq!(row.place(&chain(&[1, 2]), 150, 160), (150, 160));
        assert_eq!(row.pop(0, 170), Some((120, 170)));
        assert_eq!(row.pop(0, 180), Some((100, 180)));
        row.push(0, true, 200);
        assert_eq!(row.pop(0, 210), Some((200, 210)));
        assert_eq!(ended(&mut row), [(1, (98, 182)), (2, (99, 181))], "up to the last operator with a call");
    }

    #[test]
    fn a_function_that_a_range_has_not_lies_beside_it() {
        let mut row = ThreadRow::default();
        row.place(&chain(&[1, 2]), 100, 110);
        row.push(0, false, 200);
        row.place(&chain(&[1, 2]), 300, 310);
        row.place(&chain(&[1, 3]), 400, 410);
        assert_eq!(row.pop(0, 500), Some((200, 500)));
        row.place(&chain(&[1]), 600, 610);
        let spans = [(1, (98, 611)), (2, (99, 111)), (2, (299, 311)), (3, (399, 411))];
        assert_eq!(ended(&mut row), spans);
    }

    #[test]
    fn a_function_that_returned_before_a_range_without_calls_ends_before_it() {
        let mut row = ThreadRow::default();
        row.place(&chain(&[1, 2]), 100, 110);
        row.push(0, false, 200);
        assert_eq!(row.pop(0, 300), Some((200, 300)));
        row.place(&chain(&[1]), 400, 410);
        assert_eq!(ended(&mut row), [(1, (98, 411)), (2, (99, 111))]);
    }

    #[test]
    fn of_a_stack_that_was_cut_the_known_functions_are_found_among_the_open_ones() {
        let cut = |functions: &[u32]| Chain { functions: functions.to_vec(), is_cut: true };
        let mut row = ThreadRow::default();
        row.place(&chain(&[1, 2, 3, 4]), 100, 110);
        row.place(&cut(&[3, 4]), 200, 210);
        row.place(&cut(&[2, 5]), 300, 310);
        row.place(&cut(&[7]), 400, 410);
        // The outer ones hold both cut stacks that fit, and end before the one that does not.
        let spans = [
            (1, (96, 313)),
            (2, (97, 312)),
            (3, (98, 212)),
            (4, (99, 211)),
            (5, (299, 311)),
            (7, (399, 411)),
        ];
        assert_eq!(ended(&mut row), spans);
    }

    /// A thread that calls, enters and leaves functions, and opens and closes ranges, at random.
    #[test]
    fn whatever_a_thread_does_each_call_lies_in_exactly_its_functions_and_nothing_crosses() {
        for seed in 1..200 {
            let (mut random, mut row) = (Random(seed), ThreadRow::default());
            let (mut stack, mut domains, mut ranges, mut calls) =
                (vec![0], Vec::<u32>::new(), Vec::new(), Vec::new());
            let mut now = 1_000;
            for _ in 0..400 {
                now += if random.below(4) == 0 { random.below(3) } else { random.below(2_000) } as i64;
                match random.below(10) {
                    0 | 1 if stack.len() < 8 => stack.push(random.below(4) as u32),
                    2 | 3 if stack.len() > 1 => drop(stack.pop()),
                    4 if domains.len() < 5 => {
                        domains.push(random.below(2) as u32);
                        row.push(domains[domains.len() - 1], random.below(2) == 0, now);
                    }
                    5 if !domains.is_empty() => {
                        let domain = domains.swap_remove(random.below(domains.len() as u64) as usize);
                        ranges.push(row.pop(domain, now).unwrap());
                    }
                    _ => {
                        let begin = now;
                        now += random.below(300) as i64;
                        calls.push((row.place(&chain(&stack), begin, now), stack.clone()));
                    }
                }
            }
            let functions = ended(&mut row);
            for (span, expected) in &calls {
                let around = functions.iter().filter(|(_, of)| of.0 <= span.0 && span.1 <= of.1);
                assert_eq!(&around.map(|(function, _)| *function).collect::<Vec<_>>(), expected, "{seed}");
            }
            let mut all: Vec<(i64, i64)> = functions.iter().map(|(_, span)| *span).chain(ranges).collect();
            all.extend(calls.iter().map(|(span, _)| *span));
            for (index, a) in all.iter().enumerate() {
                for b in &all[index + 1..] {
                    let is_apart = a.1 < b.0 || b.1 < a.0;
                    let is_inside = a.0 <= b.0 && b.1 <= a.1 || b.0 <= a.0 && a.1 <= b.1;
                    assert!(is_apart || is_inside, "{a:?} crosses {b:?}: {seed}");
                }
            }
        }
    }
}
