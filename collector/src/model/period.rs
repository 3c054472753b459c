//! Which time of a trace is selected: all of it, a part between two moments, or its capture ranges (`--capture-range`)?

use super::host_time::host;
use super::outcome::Outcome;
use crate::trace::record::{Body, Names, Record, Status, seconds_of_window};
use gpuspy_wire::record::{Fact, Namespace};
use std::sync::Arc;

/// Stretches of host time, ns, in order and disjoint; each includes its first moment and excludes its last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Period {
    stretches: Arc<[(i64, i64)]>,
    /// Whether it is the span for which a GPU's time is accounted, instead of the time from its first to its last
    /// operation. That is so for capture ranges.
    is_span: bool,
}

impl Default for Period {
    /// All time.
    fn default() -> Self {
        Period::between(i64::MIN, i64::MAX)
    }
}

impl Period {
    /// The time from one moment up to another.
    pub fn between(from: i64, to: i64) -> Period {
        Period { stretches: [(from, to)].into(), is_span: false }
    }

    /// The union of some periods; it is a [span](Period::is_span) if all of them are.
    pub fn union<'a>(periods: impl Iterator<Item = &'a Period>) -> Period {
        let (mut all, mut is_span) = (Vec::new(), true);
        for period in periods {
            all.extend_from_slice(&period.stretches);
            is_span &= period.is_span;
        }
        all.sort_unstable();
        let mut stretches: Vec<(i64, i64)> = Vec::new();
        for (from, to) in all {
            match stretches.last_mut().filter(|last| from <= last.1) {
                Some(last) => last.1 = last.1.max(to),
                None => stretches.push((from, to)),
            }
        }
        Period { stretches: stretches.into(), is_span }
    }

    /// The stretches of this period between two moments that `other` does not contain.
    pub fn without(&self, other: &Period, (from, to): (i64, i64)) -> Vec<(i64, i64)> {
        let mut rest = Vec::new();
        for &(begin, end) in self.within(from, to).stretches.iter() {
            let mut open = begin;
            for &(begin, until) in other.within(open, end).stretches.iter() {
                rest.push((open, begin));
                open = until;
            }
            rest.push((open, end));
        }
        rest.retain(|(from, to)| from < to);
        rest
    }

    /// The same period without some stretches.
    pub fn without_stretches(&self, gone: &[(i64, i64)]) -> Period {
        if gone.is_empty() {
            return self.clone();
        }
        let gone: Vec<Period> = gone.iter().map(|(from, to)| Period::between(*from, *to)).collect();
        let rest = self.without(&Period::union(gone.iter()), (i64::MIN, i64::MAX));
        Period { stretches: rest.into(), is_span: self.is_span }
    }

    /// Its stretches between two moments.
    pub fn between_moments(&self, from: i64, to: i64) -> Vec<(i64, i64)> {
        self.within(from, to).stretches.to_vec()
    }

    /// Whether it is the span for which a GPU's time is accounted.
    pub fn is_span(&self) -> bool {
        self.is_span
    }

    /// Its stretches, in order; empty if it contains no time.
    pub fn stretches(&self) -> &[(i64, i64)] {
        &self.stretches
    }

    /// Its first moment and its end.
    pub fn ends(&self) -> (i64, i64) {
        let first = self.stretches.first().map_or(0, |first| first.0);
        (first, self.stretches.last().map_or(first, |last| last.1))
    }

    /// Whether it contains a moment.
    pub fn contains(&self, moment: i64) -> bool {
        self.from(moment).first().is_some_and(|(from, _)| *from <= moment)
    }

    /// How much of the time between two moments it contains, ns; 0 if `to` is before `from`.
    pub fn length(&self, from: i64, to: i64) -> u64 {
        if let [(begin, end)] = *self.stretches {
            return to.min(end).saturating_sub(from.max(begin)).max(0) as u64;
        }
        let until_to = self.from(from).iter().take_while(|(begin, _)| *begin < to);
        until_to.map(|(begin, end)| (to.min(*end) - from.max(*begin)).max(0) as u64).sum()
    }

    /// Its first moment that is not before `moment`.
    pub fn next(&self, moment: i64) -> Option<i64> {
        self.from(moment).first().map(|(from, _)| moment.max(*from))
    }

    /// Whether one of its stretches, end included, contains all of the time between two moments.
    pub fn holds(&self, from: i64, to: i64) -> bool {
        self.reaching(to).is_some_and(|begin| begin <= from)
    }

    /// Whether one of its stretches, end included, meets the time between two moments.
    pub fn touches(&self, from: i64, to: i64) -> bool {
        self.reaching(from).is_some_and(|begin| begin <= to)
    }

    /// The start of the first stretch that reaches `moment`.
    fn reaching(&self, moment: i64) -> Option<i64> {
        let over = self.stretches.partition_point(|(_, end)| *end < moment);
        self.stretches.get(over).map(|(begin, _)| *begin)
    }

    /// The stretches that end after `moment`.
    fn from(&self, moment: i64) -> &[(i64, i64)] {
        let over = self.stretches.partition_point(|(_, end)| *end <= moment);
        &self.stretches[over..]
    }

    /// Its part between two moments.
    fn within(&self, from: i64, to: i64) -> Period {
        let clipped = self.stretches.iter().map(|(begin, end)| (from.max(*begin), to.min(*end)));
        Period { stretches: clipped.filter(|(begin, end)| begin < end).collect(), is_span: self.is_span }
    }
}

/// The capture ranges of a trace, as the agent reported them.
#[derive(Clone, Debug, Default)]
pub struct CaptureRanges {
    /// Host ns; the last may be open.
    ranges: Vec<(i64, Option<i64>)>,
    /// The time of the last record.
    last: u64,
}

impl CaptureRanges {
    /// Takes the next record, in the trace's order.
    pub fn observe(&mut self, record: &Record) {
        self.last = self.last.max(record.at);
        let Body::CaptureEdge { begins } = record.body else { return };
        let (at, open) = (host(record.at), self.ranges.last_mut().filter(|range| range.1.is_none()));
        match open {
            Some(range) if !begins => range.1 = Some(at),
            None if begins => self.ranges.push((at, None)),
            // A change in between was lost.
            _ => {}
        }
    }

    /// Whether these are all windows of time of a process that is over: they leave nothing out.
    fn is_whole_run(&self, names: &Names, status: Option<&Status>, ended: i64) -> bool {
        let is_window = window(names) == Some(0) && requested(names).and_then(seconds_of_window).is_some();
        let (Some(status), [(from, to)], true) = (status, self.ranges.as_slice(), is_window) else {
            return false;
        };
        let is_over = !Outcome::of(status.ending, status.exit).runs_on();
        is_over && *from <= host(status.began) && to.is_none_or(|to| to >= ended)
    }

    /// The selected time between two moments: the capture ranges if there are any or were requested, else all of it.
    pub fn period(&self, names: &Names, status: Option<&Status>, (from, to): (i64, i64)) -> Period {
        // The last status of a trace that is still being written is older than the records after it.
        let ended = host(status.map_or(self.last, |status| status.ended.max(self.last)));
        if (requested(names).is_none() && self.ranges.is_empty()) || self.is_whole_run(names, status, ended) {
            return Period::between(from, to);
        }
        let range = |(from, to): &(i64, Option<i64>)| (*from, to.unwrap_or(ended));
        Period { stretches: self.ranges.iter().map(range).collect(), is_span: true }.within(from, to)
    }
}

/// Which ranges `--capture-range` selected; `None` for the whole run.
pub fn requested(names: &Names) -> Option<&str> {
    names.get(Namespace::Fact, Fact::CaptureRange as u32).filter(|text| !text.is_empty())
}

/// How many windows of time of the same process came before the one that a trace is about; `None` for a trace of the whole
/// run.
pub fn window(names: &Names) -> Option<u64> {
    names.get(Namespace::Fact, Fact::Window as u32)?.parse().ok()
}

/// Returns when the window of time began that a trace is about, s since 1970, if its records began at this time (ns since 1970);
/// `None` for a trace of the whole run. Windows begin at whole multiples of their length; of one with a capture range of the
/// user's, the length is not in the trace, and the time of its records counts.
pub fn window_began(names: &Names, records_began: u64) -> Option<u64> {
    window(names)?;
    let began = records_began / 1_000_000_000;
    let length = requested(names).and_then(seconds_of_window);
    Some(began - began % length.unwrap_or(1).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::record::window_text;
    use proptest::prelude::*;

    fn captures(changes: &[(u64, bool)]) -> CaptureRanges {
        let mut captures = CaptureRanges::default();
        for (at, begins) in changes {
            captures.observe(&Record { thread: 0, at: *at, body: Body::CaptureEdge { begins: *begins } });
        }
        captures
    }

    fn asked_for() -> Names {
        Names([((Namespace::Fact, Fact::CaptureRange as u32), "profiler-api".to_owned())].into())
    }

    #[test]
    fn windows_begin_at_multiples_of_their_length() {
        let fact = |fact, text: &str| ((Namespace::Fact, fact as u32), text.to_owned());
        let names = |range: &str| Names([fact(Fact::Window, "7"), fact(Fact::CaptureRange, range)].into());
        let began = |range: &str| window_began(&names(range), 1_795_924_516_700_000_000);
        assert_eq!(began(&window_text(600)), Some(1_795_924_200));
        assert_eq!(began("profiler-api"), Some(1_795_924_516), "the length is not known");
        assert_eq!(window_began(&asked_for(), 1), None, "of the whole run");
    }

    #[test]
    fn capture_ranges_lie_between_their_changes_and_without_a_request_all_time_counts() {
        let all = (i64::MIN, i64::MAX);
        let period = |changes: &[(u64, bool)], names: &Names, within| {
            captures(changes).period(names, None, within).stretches().to_vec()
        };
        let two = [(10, true), (20, false), (30, true), (35, true), (40, false), (45, false)];
        assert_eq!(period(&two, &asked_for(), all), [(10, 20), (30, 40)]);
        assert_eq!(period(&two, &asked_for(), (15, 33)), [(15, 20), (30, 33)]);
        assert_eq!(period(&two[..3], &asked_for(), all), [(10, 20)], "it ends with the trace, as it begins");
        let written = |ended| {
            let status = Status { ended, ..Status::default() };
            captures(&two[..4]).period(&asked_for(), Some(&status), all).stretches().to_vec()
        };
        assert_eq!(written(38), [(10, 20), (30, 38)]);
        assert_eq!(written(32), [(10, 20), (30, 35)], "a record is later than the status");
        assert_eq!(period(&[], &asked_for(), all), []);
        assert_eq!(period(&[], &Names::default(), (3, 9)), [(3, 9)]);
        assert!(!captures(&[]).period(&Names::default(), None, all).is_span());
    }

    #[test]
    fn an_empty_period_contains_nothing() {
        let none = captures(&[]).period(&asked_for(), None, (i64::MIN, i64::MAX));
        assert!(none.is_span() && !none.contains(0) && !none.touches(-5, 5) && !none.holds(0, 0));
        assert_eq!((none.length(-5, 5), none.next(0), none.ends()), (0, None, (0, 0)));
    }

    proptest! {
        /// Compares moment by moment.
        #[test]
        fn lengths_and_moments_agree(
            edges in prop::collection::btree_set(0i64..60, 0..8),
            from in 0i64..60,
            to in 0i64..60,
        ) {
            let edges: Vec<i64> = edges.into_iter().collect();
            let stretches: Vec<(i64, i64)> = edges.chunks_exact(2).map(|two| (two[0], two[1])).collect();
            let held = |moment: &i64| stretches.iter().any(|(from, to)| from <= moment && moment < to);
            let period = Period { stretches: stretches.clone().into(), is_span: true };
            prop_assert!((0..60).all(|moment| period.contains(moment) == held(&moment)));
            prop_assert_eq!(period.length(from, to), (from..to).filter(held).count() as u64);
            prop_assert_eq!(period.next(from), (from..60).find(held));
            prop_assert_eq!(period.within(from, to).length(0, 60), period.length(from, to));
        }

        /// Compares moment by moment.
        #[test]
        fn unions_and_differences_agree(
            mine in prop::collection::btree_set(0i64..60, 0..8),
            theirs in prop::collection::btree_set(0i64..60, 0..8),
        ) {
            let period = |edges: &std::collections::BTreeSet<i64>| {
                let edges: Vec<i64> = edges.iter().copied().collect();
                let stretches = edges.chunks_exact(2).map(|two| (two[0], two[1])).collect();
                Period { stretches, is_span: true }
            };
            let (mine, theirs) = (period(&mine), period(&theirs));
            let both = Period::union([&mine, &theirs].into_iter());
            let held = |moment: &i64| mine.contains(*moment) || theirs.contains(*moment);
            prop_assert!((0..60).all(|moment| both.contains(moment) == held(&moment)));
            prop_assert!(both.stretches().windows(2).all(|two| two[0].1 < two[1].0));
            let lacks = both.without(&mine, (5, 50));
            let lacking = |moment: i64| lacks.iter().any(|(from, to)| (*from..*to).contains(&moment));
            let lacks_it = |moment: i64| (5..50).contains(&moment) && held(&moment) && !mine.contains(moment);
            prop_assert!((0..60).all(|moment| lacking(moment) == lacks_it(moment)));
        }
    }
}
