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
mod tests;
