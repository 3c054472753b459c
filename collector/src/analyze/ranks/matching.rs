//! Who came last to each collective?
//!
//! The k-th communication kernel of a name on one rank belongs to the k-th of that name on every other. A kernel of a
//! collective runs until those of all other ranks run, so those who came early wait in it.
//!
//! - **On one machine** the GPU times of all processes are times of one host clock, and a rank arrives when its kernel
//!   starts. Its kernels are compared only if they ran at the same time and ended together: others belong to different
//!   communicators, or records between them were lost.
//! - **On several machines** the clocks cannot be compared, but the lengths can: all kernels of a collective end together,
//!   so the shortest one is that of the rank that came last.
//!
//! Nothing is claimed where the bounds leave the order open.

use crate::analyze::collectives::{Arrival, Collectives, Kind, is_kept};
use crate::analyze::estimate::Sum;
use std::collections::{BTreeMap, BTreeSet};

/// What was found of the collectives of all ranks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Matched {
    /// In the order of the ranks.
    pub ranks: Vec<Arrivals>,
    /// Collectives of which the arrivals were compared.
    pub compared: u64,
    /// Those that did not run at the same time, or did not end together.
    pub apart: u64,
    /// How many kinds of kernels were launched more often on one rank than on another.
    pub uneven: u64,
}

/// The arrivals of one rank.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Arrivals {
    /// Collectives to which its arrival was compared.
    pub compared: u64,
    /// How many collectives those stand for: more, if only a sample of its arrivals was kept.
    pub stand_for: u64,
    /// Those to which it certainly came last.
    pub last: u64,
    /// By the kernel's symbol: ns by which it came later than half of the ranks.
    pub late: BTreeMap<String, u64>,
    /// The time in which all others were there, and only this one was missing, ns.
    pub waited: Sum,
}

impl Arrivals {
    /// Returns how late it came over all collectives, ns.
    pub fn late(&self) -> u64 {
        self.late.values().fold(0, |sum, ns| sum.saturating_add(*ns))
    }
}

/// Whether a kernel is one that all ranks of a communicator launch: NCCL's, but not its point-to-point kernels, of
/// which each rank launches as many as it has messages.
fn is_collective(symbol: &str) -> bool {
    (symbol.starts_with("nccl") || symbol.contains("ncclKernel") || symbol.contains("ncclDevKernel"))
        && !symbol.contains("SendRecv")
}

/// When a rank arrived: a time, or minus a length, and its bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Came {
    rank: usize,
    at: i64,
    lo: i64,
    hi: i64,
}

/// Matches the collectives of the ranks. `is_one_line`: their times are of one clock.
pub fn matched(ranks: &[&Collectives], is_one_line: bool) -> Matched {
    let mut all = Matched { ranks: vec![Arrivals::default(); ranks.len()], ..Matched::default() };
    let symbols: BTreeSet<&String> = ranks.iter().flat_map(|one| one.kinds.keys()).collect();
    let level = ranks.iter().map(|one| one.level).max().unwrap_or(0);
    for symbol in symbols.into_iter().filter(|symbol| is_collective(symbol)) {
        let kinds = ranks.iter().map(|one| one.kinds.get(symbol)).enumerate();
        let members: Vec<(usize, &Kind)> = kinds.filter_map(|(rank, kind)| Some((rank, kind?))).collect();
        if members.len() > 1 {
            let counts = || members.iter().map(|(_, kind)| kind.count);
            all.uneven += u64::from(counts().min() != counts().max());
            all.kind(symbol, &members, level, is_one_line);
        }
    }
    all
}

impl Matched {
    /// Compares the kernels of one name.
    fn kind(&mut self, symbol: &str, members: &[(usize, &Kind)], level: u32, is_one_line: bool) {
        let mut late = vec![(0u64, 0u64); self.ranks.len()];
        let mut waited = vec![Sum::default(); self.ranks.len()];
        for together in by_number(members, level) {
            // With fewer, the median is not that of the ranks.
            if together.len() < 2 || together.len() * 2 < members.len() {
                continue;
            }
            if is_one_line && !waited_for_each_other(&together) {
                self.apart += 1;
                continue;
            }
            let came: Vec<Came> =
                together.iter().map(|(rank, one)| Came::of(*rank, one, is_one_line)).collect();
            self.compared += 1;
            for (rank, ns) in lateness(&came) {
                self.ranks[rank].compared += 1;
                late[rank] = (late[rank].0 + 1, late[rank].1.saturating_add(ns));
            }
            if let Some((last, alone)) = last(&came).filter(|_| together.len() == members.len()) {
                self.ranks[last].last += 1;
                waited[last].add(alone);
            }
        }
        for (rank, kind) in members {
            // What is kept stands for what was dropped to keep within the bound, and for nothing that the filter left out.
            let kept = kind.kept.iter().filter(|one| is_kept(one.number, level)).count();
            let each = kind.timed as f64 / kept.max(1) as f64;
            let whole = |part: u64| (part as f64 * each).round() as u64;
            let ((compared, ns), Sum { value, lo, hi }) = (late[*rank], waited[*rank]);
            let arrivals = &mut self.ranks[*rank];
            arrivals.stand_for += whole(compared);
            arrivals.waited.add(Sum { value: whole(value), lo: whole(lo), hi: whole(hi) });
            if ns > 0 {
                arrivals.late.insert(symbol.to_owned(), whole(ns));
            }
        }
    }
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
            let kind = Kind { count, timed: count, kept };
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
    }

    #[test]
    fn a_rank_that_launched_more_is_matched_by_order_and_that_is_said() {
        let mut ranks = ranks(&one_is_late(US));
        let kind = ranks[0].kinds.get_mut(REDUCE).unwrap();
        (kind.count, kind.timed, kind.kept) = (8, 8, kind.kept[..8].to_vec());
        let matched = compare(&ranks, true);
        assert_eq!((matched.compared, matched.uneven, matched.ranks[2].last), (10, 1, 8));
        assert!(matched.ranks[2].late() > 9 * 19_999_000, "three of four are enough for how late it was");
    }

    #[test]
    fn point_to_point_kernels_are_not_collectives() {
        assert!(is_collective(REDUCE) && is_collective("_Z25ncclKernel_AllGather_RING_SIMPLE_Sum_int8_t"));
        assert!(!is_collective("ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"));
        assert!(!is_collective("nvshmem_wait") && !is_collective("gemm"));
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
