//! Who came last to each collective?
//!
//! The k-th communication kernel of a name on one rank belongs to the k-th of that name on every other. A kernel of a
//! collective runs until those of all other ranks run, so those who came early wait in it.
//!
//! - **On one machine** the GPU times of all processes are times of one host clock, and a rank arrives when its kernel
//!   starts. Its kernels are compared only if they ran at the same time and ended together: others belong to different
//!   communicators, or records between them were lost.
//! - **On several machines** the clocks cannot be compared, but the lengths can: all kernels of a collective end together,
//!   so the shortest one is that of the rank that came last. Each clock can measure the time from the end of one collective to
//!   the end of the next: if ranks differ in it, their kernels belong to different communicators.
//!
//! With `--timing auto` each rank times windows of its own, and few collectives have a time on all ranks. Those stand for all
//! that were launched.
//!
//! Nothing is claimed where the bounds leave the order open.

use crate::analyze::collectives::{Arrival, Collectives, Kind, is_kept};
use crate::analyze::estimate::Sum;
use crate::analyze::extrapolate::Z;
use gpuspy_wire::communication::is_collective;
use std::collections::{BTreeMap, BTreeSet};

/// What was found of the collectives of all ranks.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Matched {
    /// In the order of the ranks.
    pub ranks: Vec<Arrivals>,
    /// Collectives of which the arrivals were compared.
    pub compared: u64,
    /// Those of them in which all ranks were compared.
    pub complete: u64,
    /// Those that did not run at the same time, or did not end together.
    pub apart: u64,
    /// Collectives that were launched and that the filter selects.
    pub launched: u64,
    /// How many kinds of kernels were launched more often on one rank than on another.
    pub uneven: u64,
}

/// The arrivals of one rank.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Arrivals {
    /// Collectives to which its arrival was compared.
    pub compared: u64,
    /// Those of them in which all ranks were compared.
    pub complete: u64,
    /// How many collectives those stand for: more, if only some were timed on several ranks, or kept.
    pub stand_for: u64,
    /// Those to which it certainly came last.
    pub last: u64,
    /// By the kernel's symbol: ns by which it came later than half of the ranks, over all that the compared ones stand for.
    pub late: BTreeMap<String, u64>,
    /// The sum of the squares of how late it came to each, ns².
    pub squares: f64,
    /// ns by which it certainly came earlier than the last rank, over all that the compared ones stand for.
    pub waits: u64,
    /// The time in which all others were there, and only this one was missing, ns, over all that the compared ones stand for.
    pub waited: Sum,
    /// By how many ns this time varies from collective to collective (its standard deviation), times their number.
    pub varies: f64,
}

impl Arrivals {
    /// Returns how late it came over all collectives, ns.
    pub fn late(&self) -> u64 {
        self.late.values().fold(0, |sum, ns| sum.saturating_add(*ns))
    }
}

/// When a rank arrived: a time, or minus a length, and its bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Came {
    rank: usize,
    at: i64,
    lo: i64,
    hi: i64,
}

/// Fewer complete collectives say nothing about others.
const LEAST: u64 = 5;

/// The clocks of two machines run equally fast to one part in this.
const DRIFT: i64 = 10_000;

/// The collectives of one name, of one rank.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    /// Those that it has in common with at least half of the ranks, and with all of them; whether they could be compared or not.
    common: u64,
    whole: u64,
    /// Those that were compared, and by how many ns it was late to them.
    compared: u64,
    complete: u64,
    late: u64,
    late_squares: f64,
    /// By how many ns it was earlier than the last rank.
    waits: u64,
    /// How long the others waited for it alone, ns, and the sum of the squares.
    waited: Sum,
    squares: f64,
}

/// Matches the collectives of the ranks. `is_one_line`: their times are of one clock.
pub fn matched(ranks: &[&Collectives], is_one_line: bool) -> Matched {
    with_group(ranks, is_one_line, &[])
}

/// Returns the arrivals of the first of several ranks, of which `last`, `waited` and `varies` are those of all of them: to
/// how many collectives one of them certainly came last, and the time in which all ranks but these were there.
pub fn of_group(ranks: &[&Collectives], is_one_line: bool, group: &[usize]) -> Arrivals {
    let mut all = with_group(ranks, is_one_line, group);
    group.first().map_or_else(Arrivals::default, |first| all.ranks.swap_remove(*first))
}

/// Matches the collectives of the ranks, of which those of a group count as the first of them where it comes to who was
/// last.
fn with_group(ranks: &[&Collectives], is_one_line: bool, group: &[usize]) -> Matched {
    let mut all = Matched { ranks: vec![Arrivals::default(); ranks.len()], ..Matched::default() };
    let symbols: BTreeSet<&String> = ranks.iter().flat_map(|one| one.kinds.keys()).collect();
    let level = ranks.iter().map(|one| one.level).max().unwrap_or(0);
    for symbol in symbols.into_iter().filter(|symbol| is_collective(symbol.as_bytes())) {
        let kinds = ranks.iter().map(|one| one.kinds.get(symbol)).enumerate();
        let members: Vec<(usize, &Kind)> = kinds.filter_map(|(rank, kind)| Some((rank, kind?))).collect();
        if members.len() > 1 {
            let counts = || members.iter().map(|(_, kind)| kind.count);
            all.uneven += u64::from(counts().min() != counts().max());
            all.launched += members.iter().map(|(_, kind)| kind.selected).max().unwrap_or(0);
            all.kind(symbol, &members, level, is_one_line, group);
        }
    }
    all
}

impl Matched {
    /// Whether enough collectives were compared on all ranks to say which rank the others wait for.
    pub fn is_enough(&self) -> bool {
        self.complete >= LEAST.min(self.launched.max(1))
    }

    /// Whether so many were that something can be said of the ranks.
    pub fn is_many(&self) -> bool {
        self.complete >= LEAST
    }

    /// Adds those of other ranks, which come after these.
    pub(super) fn add(&mut self, other: Matched) {
        self.ranks.extend(other.ranks);
        self.compared += other.compared;
        self.complete += other.complete;
        self.apart += other.apart;
        self.launched += other.launched;
        self.uneven += other.uneven;
    }

    /// Compares the kernels of one name.
    fn kind(
        &mut self,
        symbol: &str,
        members: &[(usize, &Kind)],
        level: u32,
        is_one_line: bool,
        group: &[usize],
    ) {
        let tallies = self.tallies(members, level, is_one_line, group);
        // Windows of the ranks are independent, so what has no time is left to what several ranks have in common.
        let is_sampled = members.iter().any(|(_, kind)| kind.timed < kind.selected);
        for (rank, kind) in members {
            let tally = &tallies[*rank];
            let kept = kind.kept.iter().filter(|one| is_kept(one.number, level)).count() as u64;
            // What is kept stands for what was dropped to keep within the bound, and for nothing that the filter left out.
            let (each, whole) = if is_sampled {
                (ratio(kind.selected, tally.common), ratio(kind.selected, tally.whole))
            } else {
                (ratio(kind.timed, kept), ratio(kind.timed, kept))
            };
            let arrivals = &mut self.ranks[*rank];
            arrivals.stand_for += times(tally.compared, each);
            arrivals.squares += tally.late_squares * each * each;
            arrivals.varies += tally.varies(whole);
            arrivals.waits = arrivals.waits.saturating_add(times(tally.waits, each));
            arrivals.waited.add(if is_sampled { tally.extrapolated(whole) } else { tally.times(whole) });
            if tally.late > 0 {
                arrivals.late.insert(symbol.to_owned(), times(tally.late, each));
            }
        }
    }

    /// Compares the kernels of one name that several ranks have.
    fn tallies(
        &mut self,
        members: &[(usize, &Kind)],
        level: u32,
        is_one_line: bool,
        group: &[usize],
    ) -> Vec<Tally> {
        let mut tallies = vec![Tally::default(); self.ranks.len()];
        // With fewer, the median is not that of the ranks.
        let is_common = |of: &Vec<_>| of.len() > 1 && of.len() * 2 >= members.len();
        let mut collectives = by_number(members, level).filter(is_common).peekable();
        let mut before: Option<Vec<(usize, Arrival)>> = None;
        while let Some(together) = collectives.next() {
            let is_whole = together.len() == members.len();
            for (rank, _) in &together {
                tallies[*rank].common += 1;
                tallies[*rank].whole += u64::from(is_whole);
            }
            let is_one = if is_one_line {
                waited_for_each_other(&together)
            } else {
                let in_step = before.as_ref().and_then(|before| ended_in_step(&together, before));
                // The first one has none before it.
                in_step.or_else(|| ended_in_step(&together, collectives.peek()?)).unwrap_or(false)
            };
            if is_one {
                let came = together.iter().map(|(rank, one)| Came::of(*rank, one, is_one_line)).collect();
                self.compare(&mut tallies, came, is_whole, group);
            } else {
                self.apart += 1;
            }
            before = Some(together);
        }
        tallies
    }

    /// Compares the kernels of one collective.
    fn compare(&mut self, all: &mut [Tally], came: Vec<Came>, is_whole: bool, group: &[usize]) {
        self.compared += 1;
        self.complete += u64::from(is_whole);
        for (rank, ns) in lateness(&came) {
            self.ranks[rank].compared += 1;
            self.ranks[rank].complete += u64::from(is_whole);
            all[rank].compared += 1;
            all[rank].complete += u64::from(is_whole);
            all[rank].late = all[rank].late.saturating_add(ns);
            all[rank].late_squares += (ns as f64).powi(2);
        }
        for (rank, ns) in earliness(&came) {
            all[rank].waits = all[rank].waits.saturating_add(ns);
        }
        if let Some((last, alone)) = last(&as_one(came, group)).filter(|_| is_whole) {
            self.ranks[last].last += 1;
            all[last].waited.add(alone);
            all[last].squares += (alone.value as f64).powi(2);
        }
    }
}

impl Tally {
    /// Returns how long the others waited for it in all collectives, each of which stands for so many.
    fn times(&self, each: f64) -> Sum {
        let Sum { value, lo, hi } = self.waited;
        Sum { value: times(value, each), lo: times(lo, each), hi: times(hi, each) }
    }

    /// The same, where it is an estimate from those that were timed on all ranks. Its interval contains the true time in 99 of
    /// 100 cases, if those resemble the others.
    fn extrapolated(&self, each: f64) -> Sum {
        let Sum { value, lo, hi } = self.times(each);
        let (whole, sum) = (self.whole as f64, self.waited.value as f64);
        let variance = (self.squares - sum * sum / whole.max(1.0)).max(0.0) / (whole - 1.0).max(1.0);
        // The variance of the sum of those that were not timed, and of what is taken for it.
        let off_by = (Z * (variance * whole * each * (each - 1.0).max(0.0)).sqrt()) as u64;
        Sum { value, lo: lo.saturating_sub(off_by).max(self.waited.lo), hi: hi.saturating_add(off_by) }
    }

    /// Returns by how much that time varies, times the number of collectives, each of which stands for so many.
    fn varies(&self, each: f64) -> f64 {
        let (complete, sum) = (self.complete as f64, self.waited.value as f64);
        each * (complete * self.squares - sum * sum).max(0.0).sqrt()
    }
}

fn ratio(all: u64, part: u64) -> f64 {
    all as f64 / part.max(1) as f64
}

fn times(ns: u64, each: f64) -> u64 {
    (ns as f64 * each).round() as u64
}

/// Returns the kernels of each number, with their ranks.
fn by_number(members: &[(usize, &Kind)], level: u32) -> impl Iterator<Item = Vec<(usize, Arrival)>> {
    let kept = members.iter().map(|(rank, kind)| {
        let kept = kind.kept.iter().copied().filter(move |one| is_kept(one.number, level));
        (*rank, kept.peekable())
    });
    let mut queues: Vec<_> = kept.collect();
    std::iter::from_fn(move || {
        let next = queues.iter_mut().filter_map(|(_, queue)| queue.peek().map(|one| one.number)).min()?;
        let of = |(rank, queue): &mut (usize, std::iter::Peekable<_>)| {
            queue.next_if(|one: &Arrival| one.number == next).map(|one| (*rank, one))
        };
        Some(queues.iter_mut().filter_map(of).collect())
    })
}

/// Whether the kernels may be those of one collective: the last one started before the first one ended, and they ended
/// closer together than they started.
fn waited_for_each_other(together: &[(usize, Arrival)]) -> bool {
    let all = || together.iter().map(|(_, one)| one);
    let most = |of: &dyn Fn(&Arrival) -> i64| all().map(of).max().unwrap_or(0);
    let least = |of: &dyn Fn(&Arrival) -> i64| all().map(of).min().unwrap_or(0);
    let overlap = most(&|one| one.start.lo()) <= least(&|one| one.end.hi());
    let starts = most(&|one| one.start.value).saturating_sub(least(&|one| one.start.value));
    let ends = most(&|one| one.end.lo()).saturating_sub(least(&|one| one.end.hi()));
    overlap && ends <= starts.max(0) / 2
}

/// Whether the kernels may be those of one collective, by their ends and those of another collective, each on the clock of
/// its own machine: these are equally far from each other on all ranks, or at least closer than the ranks came. `None` if
/// one of the ranks has no kernel in the other collective.
fn ended_in_step(together: &[(usize, Arrival)], other: &[(usize, Arrival)]) -> Option<bool> {
    let (mut most, mut least, mut drift) = (i64::MIN, i64::MAX, 0);
    for (rank, one) in together {
        let theirs = other[other.binary_search_by_key(rank, |(of, _)| *of).ok()?].1.end;
        most = most.max(one.end.lo().saturating_sub(theirs.hi()));
        least = least.min(one.end.hi().saturating_sub(theirs.lo()));
        drift = drift.max(one.end.value.saturating_sub(theirs.value).saturating_abs() / DRIFT);
    }
    let lengths = || together.iter().map(|(_, one)| one.length.value);
    let came = lengths().max()?.saturating_sub(lengths().min()?);
    Some(most.saturating_sub(least).saturating_sub(drift) <= came / 2)
}

impl Came {
    fn of(rank: usize, one: &Arrival, is_one_line: bool) -> Came {
        let (start, length) = (one.start, one.length);
        if is_one_line {
            Came { rank, at: start.value, lo: start.lo(), hi: start.hi() }
        } else {
            let minus = |ns: i64| ns.saturating_neg();
            Came { rank, at: minus(length.value), lo: minus(length.hi()), hi: minus(length.lo()) }
        }
    }
}

/// Puts together the ranks of a group: as the first of them, it has come when all of them have.
fn as_one(mut came: Vec<Came>, group: &[usize]) -> Vec<Came> {
    let Some((first, _)) = group.split_first() else { return came };
    let of = |one: &Came| group.contains(&one.rank);
    let latest =
        |a: Came, b: Came| Came { rank: *first, at: a.at.max(b.at), lo: a.lo.max(b.lo), hi: a.hi.max(b.hi) };
    let whole = came.iter().copied().filter(of).reduce(latest);
    came.retain(|one| !of(one));
    came.extend(whole.map(|whole| Came { rank: *first, ..whole }));
    came
}

/// Returns who certainly came last, and how long the others were there before, ns.
fn last(came: &[Came]) -> Option<(usize, Sum)> {
    let latest = came.iter().max_by_key(|one| one.at)?;
    let others = || came.iter().filter(|one| one.rank != latest.rank);
    let before = others().map(|one| one.hi).max()?;
    let after = |mine: i64, theirs: Option<i64>| theirs.map_or(0, |at| mine.saturating_sub(at).max(0) as u64);
    let value = after(latest.at, others().map(|one| one.at).max());
    let (lo, hi) = (after(latest.lo, Some(before)), after(latest.hi, others().map(|one| one.lo).max()));
    (latest.lo > before).then_some((latest.rank, Sum { value, lo: lo.min(value), hi: hi.max(value) }))
}

/// Returns by how many ns each came earlier than the last one, 0 where that is not certain.
fn earliness(came: &[Came]) -> impl Iterator<Item = (usize, u64)> {
    let most = |of: &dyn Fn(&Came) -> i64| came.iter().map(of).max().unwrap_or(i64::MIN);
    let (last, lo) = (most(&|one| one.at), most(&|one| one.lo));
    came.iter().map(move |one| {
        let early = if one.hi < lo { last.saturating_sub(one.at).max(0) as u64 } else { 0 };
        (one.rank, early)
    })
}

/// Returns by how many ns each came later than half of them, 0 where that is not certain.
fn lateness(came: &[Came]) -> impl Iterator<Item = (usize, u64)> {
    // Of two ranks, the first one is the half that the other is compared with.
    let half = (came.len() - 1) / 2;
    let middle = |of: &dyn Fn(&Came) -> i64| {
        let mut times: Vec<i64> = came.iter().map(of).collect();
        *times.select_nth_unstable(half).1
    };
    let (median, hi) = (middle(&|one| one.at), middle(&|one| one.hi));
    came.iter().map(move |one| {
        let late = if one.lo > hi { one.at.saturating_sub(median).max(0) as u64 } else { 0 };
        (one.rank, late)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analyze::collectives::Moment;
    use crate::trace::generator::Random;

    const REDUCE: &str = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)";
    const US: i64 = 1_000;

    /// A collective of which each rank's kernel starts at these times, and all end 50 µs after the last.
    fn collective(number: u64, starts: &[i64], error: i64) -> Vec<Arrival> {
        let end = starts.iter().max().unwrap() + 50 * US;
        let near = |at: i64| Moment::new(at, at - error, at + error);
        let of = |start: &i64| Arrival {
            number,
            start: near(*start),
            end: near(end),
            length: Moment::new(end - start, end - start - error, end - start + error),
        };
        starts.iter().map(of).collect()
    }

    fn ranks(collectives: &[Vec<Arrival>]) -> Vec<Collectives> {
        let of = |rank: usize| {
            let kept: Vec<Arrival> = collectives.iter().map(|one| one[rank]).collect();
            let count = kept.len() as u64;
            let kind = Kind { count, selected: count, timed: count, kept };
            Collectives { kinds: BTreeMap::from([(REDUCE.to_owned(), kind)]), ..Collectives::default() }
        };
        (0..collectives[0].len()).map(of).collect()
    }

    fn compare(ranks: &[Collectives], is_one_line: bool) -> Matched {
        matched(&ranks.iter().collect::<Vec<_>>(), is_one_line)
    }

    /// Rank 2 of four is 20 ms late to each of ten collectives, the others are within 2 µs.
    fn one_is_late(error: i64) -> Vec<Vec<Arrival>> {
        let starts = |number: i64| [0, 1, 20_000, 2].map(|us| (number * 30_000 + us) * US);
        (0..10).map(|number| collective(number as u64, &starts(number), error)).collect()
    }

    #[test]
    fn the_rank_that_comes_last_is_named_with_how_late_it_came() {
        for is_one_line in [true, false] {
            let matched = compare(&ranks(&one_is_late(5 * US)), is_one_line);
            assert_eq!((matched.compared, matched.apart, matched.uneven), (10, 0, 0));
            let last: Vec<u64> = matched.ranks.iter().map(|one| one.last).collect();
            assert_eq!(last, [0, 0, 10, 0], "on one line: {is_one_line}");
            // The median is that of the second of four.
            assert_eq!(matched.ranks[2].late(), 10 * 19_999_000);
            // The one before it came 2 µs after the first.
            let Sum { value, lo, hi } = matched.ranks[2].waited;
            assert_eq!((value, lo, hi), (10 * 19_998_000, 10 * 19_988_000, 10 * 20_008_000));
            assert_eq!(matched.ranks[0].late() + matched.ranks[1].late() + matched.ranks[3].late(), 0);
        }
    }

    #[test]
    fn nothing_is_claimed_within_the_uncertainty_of_the_clocks() {
        let matched = compare(&ranks(&one_is_late(15_000 * US)), true);
        assert!(matched.compared == 10 && matched.ranks.iter().all(|one| one.last == 0 && one.late() == 0));
        let alike: Vec<Vec<Arrival>> = (0..10).map(|n| collective(n, &[0, 900, 400, 100], 500)).collect();
        assert!(compare(&ranks(&alike), true).ranks.iter().all(|one| one.last == 0 && one.late() == 0));
    }

    #[test]
    fn kernels_that_did_not_wait_for_each_other_are_not_compared() {
        // Two pairs of ranks, each with a communicator of its own, the second pair 10 ms later.
        let two_pairs = |number: u64| {
            let one = collective(number, &[0, 30 * US], US);
            [one, collective(number, &[10_000 * US, 10_010 * US], US)].concat()
        };
        let matched = compare(&ranks(&(0..5).map(two_pairs).collect::<Vec<_>>()), true);
        assert_eq!((matched.compared, matched.apart), (0, 5));
        // They ran at the same time, but each pair ended for itself.
        let side_by_side = |number: u64| {
            let mut four = collective(number, &[0, 10 * US, 30 * US, 40 * US], US);
            four[0].end = Moment::new(300 * US, 299 * US, 301 * US);
            four
        };
        let matched = compare(&ranks(&(0..5).map(side_by_side).collect::<Vec<_>>()), true);
        assert_eq!((matched.compared, matched.apart), (0, 5));
        // The pairs are on two machines, and each has a pace of its own.
        let at_their_pace = |number: u64| {
            let [mine, theirs] = [5_000, 6_000].map(|us| number as i64 * us * US);
            let one = collective(number, &[mine, mine + 30 * US], US);
            [one, collective(number, &[theirs, theirs + 10 * US], US)].concat()
        };
        let matched = compare(&ranks(&(0..5).map(at_their_pace).collect::<Vec<_>>()), false);
        assert_eq!((matched.compared, matched.apart), (0, 5));
    }

    /// The clocks of machines differ by a constant, and run unequally fast.
    #[test]
    fn clocks_of_machines_that_differ_keep_no_collective_from_being_compared() {
        let mut all = one_is_late(US);
        for (number, collective) in (0..).zip(&mut all) {
            let off = 7_000_000 * US + number * 30_000 * US / 20_000;
            let later = |at: Moment| Moment::new(at.value + off, at.lo() + off, at.hi() + off);
            let one = &mut collective[3];
            (one.start, one.end) = (later(one.start), later(one.end));
        }
        let matched = compare(&ranks(&all), false);
        assert_eq!((matched.compared, matched.complete, matched.apart), (10, 10, 0));
        assert_eq!(matched.ranks[2].last, 10);
    }

    /// With `--timing auto` the ranks time windows of their own. What few of them had in common was taken for all.
    #[test]
    fn collectives_that_all_ranks_have_timed_stand_for_those_that_were_launched() {
        let whole = sampled(0, |_| false);
        let mut windows = whole.clone();
        // A window in each hundred, which opens later on each rank.
        for (rank, one) in (0..).zip(&mut windows) {
            let kind = one.kinds.get_mut(REDUCE).unwrap();
            kind.kept.retain(|one| one.number % 100 < 20 && one.number % 100 >= rank * 2);
            kind.timed = kind.kept.len() as u64;
        }
        let (whole, windows) = (compare(&whole, true), compare(&windows, true));
        assert_eq!((windows.complete, windows.launched, windows.ranks[2].last), (40 * 14, 4_000, 40 * 14));
        let ratio = |of: fn(&Arrivals) -> u64| of(&windows.ranks[2]) as f64 / of(&whole.ranks[2]) as f64;
        let (late, waited) = (ratio(Arrivals::late), ratio(|one| one.waited.value));
        assert!((late - 1.0).abs() < 0.02 && (waited - 1.0).abs() < 0.02, "{late} {waited}");
        assert_eq!(windows.ranks[2].stand_for, 4_000);
        let (Sum { lo, hi, .. }, truth) = (windows.ranks[2].waited, whole.ranks[2].waited.value);
        assert!(lo < truth && truth < hi && hi - lo < truth / 10, "{lo} {truth} {hi}");
        assert!(windows.is_enough() && !Matched { complete: 4, launched: 4_000, ..whole }.is_enough());
    }

    #[test]
    fn a_rank_that_launched_more_is_matched_by_order_and_that_is_said() {
        let mut ranks = ranks(&one_is_late(US));
        let kind = ranks[0].kinds.get_mut(REDUCE).unwrap();
        (kind.count, kind.selected, kind.timed) = (8, 8, 8);
        kind.kept.truncate(8);
        let matched = compare(&ranks, true);
        assert_eq!((matched.compared, matched.uneven, matched.ranks[2].last), (10, 1, 8));
        assert!(matched.ranks[2].late() > 9 * 19_999_000, "three of four are enough for how late it was");
    }

    /// 4 000 collectives, to each of which rank 2 of four comes last. One rank was thinned out by itself to this level.
    fn sampled(level: u32, is_apart: fn(u64) -> bool) -> Vec<Collectives> {
        let of = |n: u64| {
            let starts = [0, 1, 500 + (n % 7) as i64, 2].map(|us| (n as i64 * 1_000 + us) * US);
            let mut four = collective(n, &starts, 0);
            if is_apart(n) {
                let late = four[0].end.value + 10_000 * US;
                four[0].end = Moment::new(late, late, late);
            }
            four
        };
        let mut ranks = ranks(&(0..4_000).map(of).collect::<Vec<_>>());
        ranks[1].level = level;
        ranks[1].kinds.get_mut(REDUCE).unwrap().kept.retain(|one| is_kept(one.number, level));
        ranks
    }

    #[test]
    fn a_sample_of_the_collectives_stands_for_all() {
        let all = |level: u32| compare(&sampled(level, |_| false), true);
        let (whole, sample) = (all(0), all(3));
        assert!(sample.compared < whole.compared / 6 && sample.ranks[2].last == sample.compared);
        assert_eq!((whole.ranks[2].stand_for, sample.ranks[2].stand_for), (4_000, 4_000));
        let (whole, sample) = (whole.ranks[2].late() as f64, sample.ranks[2].late() as f64);
        assert!((whole / sample - 1.0).abs() < 0.01, "{whole} {sample}");
    }

    /// A step with 20 000 of a million collectives was selected, and all ranks were said to be 50 times as late.
    #[test]
    fn a_sample_does_not_stand_for_collectives_that_the_filter_left_out() {
        let of = |launched: u64| {
            let mut ranks = sampled(3, |_| false);
            let kinds = ranks.iter_mut().flat_map(|one| one.kinds.values_mut());
            kinds.for_each(|kind| kind.count = launched);
            compare(&ranks, true)
        };
        assert_eq!(of(200_000), of(4_000));
    }

    #[test]
    fn a_sample_does_not_stand_for_collectives_that_cannot_be_compared() {
        let all = |level: u32| compare(&sampled(level, |n| n % 2 == 0), true);
        let (whole, sample) = (all(0), all(3));
        assert!(whole.apart == 2_000 && sample.apart > 0 && sample.apart < 2_000 / 6);
        let (whole, sample) = (whole.ranks[2].late() as f64, sample.ranks[2].late() as f64);
        assert!((whole / sample - 1.0).abs() < 0.2, "{whole} {sample}");
    }

    /// Holistic Trace Analysis (get_potential_stragglers) takes the rank whose communication kernels of an iteration start
    /// last, from the means over the kernels. Where each iteration has one collective, that is ours.
    #[test]
    fn the_stragglers_of_holistic_trace_analysis_are_those_that_come_last() {
        let mut random = Random(7);
        let all: Vec<Vec<Arrival>> = (0..200)
            .map(|n| {
                let starts: Vec<i64> =
                    (0..8).map(|_| random.below(1_000_000) as i64 + n * 2_000_000).collect();
                collective(n as u64, &starts, 0)
            })
            .collect();
        let mut theirs = [0u64; 8];
        for iteration in &all {
            let latest = (0..8).max_by_key(|rank| iteration[*rank].start.value).unwrap();
            theirs[latest] += 1;
        }
        for is_one_line in [true, false] {
            let ours: Vec<u64> =
                compare(&ranks(&all), is_one_line).ranks.iter().map(|one| one.last).collect();
            assert_eq!(ours, theirs);
        }
    }
}
