//! Collectives of ranks whose arrivals are known.

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
            let starts: Vec<i64> = (0..8).map(|_| random.below(1_000_000) as i64 + n * 2_000_000).collect();
            collective(n as u64, &starts, 0)
        })
        .collect();
    let mut theirs = [0u64; 8];
    for iteration in &all {
        let latest = (0..8).max_by_key(|rank| iteration[*rank].start.value).unwrap();
        theirs[latest] += 1;
    }
    for is_one_line in [true, false] {
        let ours: Vec<u64> = compare(&ranks(&all), is_one_line).ranks.iter().map(|one| one.last).collect();
        assert_eq!(ours, theirs);
    }
}
