//! The shares that lines have of a row of another table, with the time of the operations in it.
//!
//! Of a line's untimed operations, each is assumed to take as long as the timed ones of the same line do on average, or
//! those of all lines where the line has none. None is assumed to have taken less than the shortest timed one, or more
//! than the longest. Transfers are compared by their time per byte.
//!
//! Launches in runs are such untimed ones: others, drawn at random from the same runs, were timed alone and stand for them.
//! Where none of a kernel's launches was timed alone, they have their part of the time of the runs and bursts that they are in.

use super::super::estimate::Sum;
use super::super::merge::Merge;
use super::super::source;
use crate::model::stacks::Frame;
use std::collections::BTreeMap;

/// The fewest timed operations of a line that stand for its others.
const LEAST: u64 = 3;

/// What one line has.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Share {
    /// Its amount: launches, bytes, or ns.
    weight: u64,
    /// The amount of its operations that were timed alone, how many they are, and their time, ns.
    timed: u64,
    alone: u64,
    time: Sum,
    /// The amount of its operations that were timed together with others, and their part of that time, ns.
    joined: u64,
    together: Sum,
    /// The shortest and the longest time for one unit of the amount, ns; `None` if nothing was timed alone.
    rates: Option<(f64, f64)>,
}

impl Share {
    /// A share of something that is no operation.
    pub fn of(weight: u64) -> Share {
        Share { weight, ..Share::default() }
    }

    /// Counts an operation, or a call, with the operation's time if it was timed alone.
    pub fn count(&mut self, weight: u64, time: Option<Sum>) {
        self.weight = self.weight.saturating_add(weight);
        let Some(time) = time else { return };
        self.time.add(time);
        self.timed = self.timed.saturating_add(weight);
        self.alone += 1;
        if weight > 0 {
            let rate = (time.lo as f64 / weight as f64, time.hi as f64 / weight as f64);
            self.rates = Some(widest(self.rates, rate));
        }
    }

    /// Adds what counted launches took together with others.
    pub fn count_together(&mut self, launches: u64, time: Sum) {
        self.joined = self.joined.saturating_add(launches);
        self.together.add(time);
    }

    /// Its operations' time, if all lines together have `all`; `None` if none like them was timed.
    fn all_time(&self, all: &Share) -> Option<Sum> {
        let Some((shortest, longest)) = all.rates else {
            return (self.joined > 0 || self.alone > 0).then(|| {
                let mut time = self.time;
                time.add(self.together);
                time
            });
        };
        let like = if self.alone >= LEAST && self.timed > 0 { self } else { all };
        let untimed = self.weight.saturating_sub(self.timed) as f64;
        let value = untimed * like.time.value as f64 / like.timed.max(1) as f64;
        let mut time = self.time;
        let (lo, hi) = ((untimed * shortest).min(value), (untimed * longest).ceil().max(value));
        time.add(Sum { value: value as u64, lo: lo as u64, hi: hi as u64 });
        Some(time)
    }
}

fn widest(known: Option<(f64, f64)>, (shortest, longest): (f64, f64)) -> (f64, f64) {
    known.map_or((shortest, longest), |(from, to)| (from.min(shortest), to.max(longest)))
}

impl Merge for Share {
    fn merge(&mut self, other: &Share) {
        self.weight = self.weight.saturating_add(other.weight);
        self.timed = self.timed.saturating_add(other.timed);
        self.alone += other.alone;
        self.time.add(other.time);
        self.joined = self.joined.saturating_add(other.joined);
        self.together.add(other.together);
        self.rates = other.rates.map(|rates| widest(self.rates, rates)).or(self.rates);
    }
}

/// The shares of all lines; `None` is what comes from lines that are not known.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Shares {
    lines: BTreeMap<Option<Frame>, Share>,
    /// What the row's own table says of the time; `None` if it says nothing.
    fit: Option<Fit>,
}

/// What another table says of the time of a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Fit {
    /// The time of all lines, as a multiple of what these say together.
    pub multiple: f64,
    /// It is no more than this, so that of no line it is, ns.
    pub most: u64,
}

impl Shares {
    /// Adds a line's share.
    pub(super) fn add(&mut self, line: Option<Frame>, share: &Share) {
        self.lines.entry(line).or_default().merge(share);
    }

    /// Returns each line with its amount: launches, bytes, or ns.
    pub fn weights(&self) -> impl Iterator<Item = (Option<&Frame>, u64)> + Clone {
        self.lines.iter().map(|(line, share)| (line.as_ref(), share.weight))
    }

    /// Returns the line with the largest share, and that share, 0 to 1; `None` if most is of lines that are not known.
    pub fn main(&self) -> Option<(&Frame, f64)> {
        source::main(self.weights())
    }

    /// Returns each line with the time of all its operations, ns, estimated where not all were timed; without those of which
    /// none like them was timed.
    pub fn times(&self) -> impl Iterator<Item = (Option<&Frame>, Sum)> {
        let mut all = Share::default();
        self.lines.values().for_each(|share| all.merge(share));
        let time = move |share: &Share| Some(self.fitted(share.all_time(&all)?));
        self.lines.iter().filter_map(move |(line, share)| Some((line.as_ref(), time(share)?)))
    }

    /// Has [`times`](Self::times) agree with what the row's table says: two estimates of one time, that table's by sizes and shapes
    /// and the lines' by their operations, differ a little.
    pub(super) fn fit(&mut self, fit: Option<Fit>) {
        self.fit = fit;
    }

    fn fitted(&self, own: Sum) -> Sum {
        let Some(Fit { multiple, most }) = self.fit else { return own };
        let value = (own.value as f64 * multiple).round() as u64;
        Sum { value, lo: own.lo.min(value), hi: own.hi.min(most).max(value) }
    }
}

impl Merge for Shares {
    fn merge(&mut self, other: &Shares) {
        self.fit = None;
        other.lines.iter().for_each(|(line, share)| self.add(line.clone(), share));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(number: u32) -> Option<Frame> {
        Some(Frame { file: "train.py".to_owned(), line: number, ..Frame::default() })
    }

    fn exactly(value: u64) -> Option<Sum> {
        Some(Sum { value, lo: value, hi: value })
    }

    /// A line with operations of one amount each, of which some were timed.
    fn share(weight: u64, times: &[Option<Sum>]) -> Share {
        let mut share = Share::default();
        times.iter().for_each(|time| share.count(weight, *time));
        share
    }

    fn times(lines: [Share; 2]) -> Vec<Sum> {
        let mut shares = Shares::default();
        shares.add(line(1), &lines[0]);
        shares.add(line(2), &lines[1]);
        shares.times().map(|(_, time)| time).collect()
    }

    #[test]
    fn untimed_operations_take_as_long_as_the_timed_ones_of_their_line() {
        let one = share(1, &[exactly(10), exactly(12), exactly(14), None, None]);
        let other = share(1, &[exactly(100), exactly(100), exactly(100), None]);
        assert_eq!(times([one, other])[0], Sum { value: 36 + 24, lo: 36 + 20, hi: 36 + 200 });
        assert_eq!(times([one, other])[1].value, 400);
    }

    #[test]
    fn untimed_operations_of_a_line_without_timed_ones_are_like_those_of_the_others() {
        let all = times([share(1, &[exactly(10), exactly(30)]), share(1, &[None, None, None])]);
        assert_eq!(all[1], Sum { value: 60, lo: 30, hi: 90 });
        assert!(times([share(1, &[None]), share(1, &[None])]).is_empty(), "none was timed");
    }

    #[test]
    fn transfers_are_compared_by_their_bytes() {
        let all = times([share(1_000, &[exactly(500)]), share(4_000, &[None])]);
        assert_eq!(all[1].value, 2_000);
    }

    #[test]
    fn launches_in_runs_are_like_those_that_were_timed_alone() {
        let mut run = share(1, &[None, None, None]);
        run.count_together(3, Sum { value: 90, lo: 0, hi: 120 });
        assert_eq!(times([run, share(1, &[exactly(20)])])[0].value, 60);
        let all = times([run, share(1, &[])]);
        assert_eq!(all, [Sum { value: 90, lo: 0, hi: 120 }], "no launch was timed alone");
    }

    #[test]
    fn lines_have_the_time_of_the_table_that_their_row_stands_in() {
        let mut shares = Shares::default();
        shares.add(line(1), &share(1, &[exactly(10), exactly(30)]));
        shares.fit(Some(Fit { multiple: 1.5, most: 70 }));
        let times: Vec<Sum> = shares.times().map(|(_, time)| time).collect();
        assert_eq!(times, [Sum { value: 60, lo: 40, hi: 60 }]);
        shares.merge(&shares.clone());
        let times: Vec<Sum> = shares.times().map(|(_, time)| time).collect();
        assert_eq!(times[0].value, 80, "the table of two processes is another one");
    }

    /// A line that may have had 146 s of a GPU in a run of one second: each of its launches in runs could have taken as long as the one
    /// with the widest bounds.
    #[test]
    fn a_line_has_no_more_than_all_launches_of_its_kernels_can_have_taken() {
        let wide = Some(Sum { value: 20, lo: 10, hi: 6_000 });
        let mut shares = Shares::default();
        shares.add(line(1), &share(1, &[exactly(20), exactly(20), wide, None, None, None]));
        shares.fit(Some(Fit { multiple: 1.0, most: 125 }));
        let times: Vec<Sum> = shares.times().map(|(_, time)| time).collect();
        assert_eq!(times, [Sum { value: 120, lo: 80, hi: 125 }]);
    }

    #[test]
    fn the_line_with_the_largest_share_is_the_main_one() {
        let mut shares = Shares::default();
        shares.add(line(1), &Share::of(10));
        shares.add(line(2), &Share::of(30));
        assert_eq!(shares.main(), Some((&line(2).unwrap(), 0.75)));
        shares.add(None, &Share::of(60));
        assert_eq!(shares.main(), None);
    }
}
