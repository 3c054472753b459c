//! Which ranks are slower than the others, and what do they do in that time?
//!
//! What counts is by how much a rank comes later than half of them, summed over all collectives, beyond what the others do:
//! few long delays count as much as many short ones. Ranks that are alike also come at different times. They have as much
//! lateness by turns, so a rank is named only if it is late by more than such turns explain.

use super::matching::{Arrivals, Matched};
use super::{Rank, Waiting};
use crate::analyze::ProcessReport;
use crate::analyze::estimate::Sum;
use crate::analyze::identity::Class;
use crate::analyze::idle::Cause;
use std::collections::BTreeMap;

/// The ranks that the others wait for.
#[derive(Clone, Debug, PartialEq)]
pub struct Odd {
    /// Their places among the ranks, in their order. There are several if they are about equally late.
    pub places: Vec<usize>,
    /// ns by which they come later than half of the ranks, on average of them: in each [`Unit`].
    pub late: u64,
    /// What the times are of.
    pub unit: Unit,
    /// What they do longer than the others, and for how many ns more; `None` if nothing explains at least half of how late
    /// they come, or not the same for each of them.
    pub why: Option<(Longer, u64)>,
    /// The symbol of the kernel in which the others wait for them most.
    pub collective: String,
    /// The time in which all others were there, and only these were missing, ns.
    pub waited: Sum,
    /// The part of it that would not be waited if these ranks were like the others, for which also is waited at times.
    pub excess: Sum,
    /// To how many collectives one of them came last, and how many were compared on all ranks.
    pub last: (u64, u64),
}

/// What times are of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A step: the program has steps.
    Step,
    /// A collective.
    Collective,
    /// The whole run. Most of it is before this many of the collectives that were compared, at this number.
    Run(u64, u64),
}

/// What a rank does longer than others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Longer {
    /// Its kernels or graphs run.
    Kernels,
    /// Its copies run, and no kernel.
    Copies,
    /// Its GPU is idle, for this cause.
    Idle(Cause),
}

/// How many standard deviations a rank must be later than the others, and by how much of that more with one collective. Of ranks
/// that are alike, one is in fewer than one of a hundred jobs.
const CERTAIN: (f64, f64) = (3.0, 5.0);
/// The fewest collectives by which one of two ranks is named: that the same one was late to all of them may be chance.
const FEWEST_OF_TWO: u64 = 5;
/// Where a rank is late for long to a part of them, less than this one, how many times what chance does with the others it must be later.
const LONG: (f64, f64) = (0.5, 8.0);
/// Ranks are about equally late if one is later than the others by at least this part of what the latest one is.
const ALIKE: f64 = 0.5;
/// A rank is late at few moments if collectives that are all equally late would have to be fewer than this part of them.
const FEW: f64 = 0.2;

/// Returns the ranks that the others wait for, if it is certain and they are later by more than is noticeable in this time.
pub fn odd(reports: &[&ProcessReport], rows: &[Rank], matched: &Matched, is_one_line: bool) -> Option<Odd> {
    let waiting = Waiting::of(rows, matched);
    let is_odd = |later: &f64| matched.is_enough() && waiting.is_much(*later);
    let later = |place: usize| Some((place, later(&matched.ranks, place).filter(is_odd)?));
    let all: Vec<(usize, f64)> = (0..rows.len()).filter_map(later).collect();
    let most = all.iter().map(|(_, later)| *later).fold(0.0, f64::max);
    let places: Vec<usize> =
        all.iter().filter(|(_, later)| *later >= ALIKE * most).map(|(place, _)| *place).collect();
    let first = *places.first()?;
    let arrivals = match places.len() {
        1 => matched.ranks[first].clone(),
        _ => {
            let collectives: Vec<_> = reports.iter().map(|report| &report.tables.collectives).collect();
            super::matching::of_group(&collectives, is_one_line, &places)
        }
    };
    let unit = unit(reports, matched, &places);
    let lates: Vec<f64> = places.iter().map(|place| matched.ranks[*place].late() as f64).collect();
    let late =
        lates.iter().sum::<f64>() / lates.len() as f64 / unit.count(reports[first], &matched.ranks[first]);
    Some(Odd {
        late: late as u64,
        unit,
        why: why(reports, matched, &places, unit),
        collective: collective(matched, &places)?,
        waited: arrivals.waited,
        excess: excess(&arrivals, matched, &places, unit),
        last: (arrivals.last, arrivals.complete),
        places,
    })
}

/// Returns by how many ns a rank is later, over all collectives, than the one in the middle of the others, if that is certain.
fn later(ranks: &[Arrivals], place: usize) -> Option<f64> {
    let of_others = |of: &dyn Fn(&Arrivals) -> f64| {
        let others = ranks.iter().enumerate().filter(|(at, _)| *at != place);
        median(others.map(|(_, other)| of(other)).collect())
    };
    let (late, squares) = (ranks[place].late() as f64, ranks[place].squares);
    let (compared, count) = (ranks[place].compared, ranks[place].compared.max(1) as f64);
    let later = late - of_others(&|other| other.late() as f64);
    let theirs = of_others(&|other| other.squares);
    // Student's test of the differences, with more than the usual distance where there are few.
    let variance = (squares + theirs - later * later / count).max(0.0) / (count - 1.0).max(1.0);
    let is_enough = compared >= if ranks.len() == 2 { FEWEST_OF_TWO } else { 2 };
    let is_steady = is_enough && later >= CERTAIN.0 * (1.0 + CERTAIN.1 / count) * (count * variance).sqrt();
    // What varies so much because of a few long delays is compared with how late the others ever are. Of two ranks, only one can be
    // late to a collective, so that the other one may have no lateness at all.
    let alone = if ranks.len() == 2 { (late / count).powi(2) } else { 0.0 };
    let is_seldom = moments(&ranks[place]) < LONG.0 * count;
    let is_long = is_seldom && later >= LONG.1 * (2.0 * theirs + alone).sqrt();
    (later > 0.0 && (is_steady || is_long)).then_some(later)
}

/// Returns to how many collectives a rank would be late if it were equally late to those, and to no others.
fn moments(arrivals: &Arrivals) -> f64 {
    (arrivals.late() as f64).powi(2) / arrivals.squares.max(1.0)
}

impl Unit {
    /// Returns how many there are.
    fn count(self, report: &ProcessReport, arrivals: &Arrivals) -> f64 {
        let count = match self {
            Unit::Step if report.tables.steps.count > 0 => report.tables.steps.count,
            Unit::Run(..) => 1,
            _ => arrivals.stand_for,
        };
        count.max(1) as f64
    }
}

/// Returns in what to say how late ranks are.
fn unit(reports: &[&ProcessReport], matched: &Matched, places: &[usize]) -> Unit {
    let of = |place: &usize| (moments(&matched.ranks[*place]), matched.ranks[*place].compared);
    let few = places.iter().map(of).filter(|(moments, compared)| *moments < FEW * *compared as f64);
    let few: Vec<(f64, u64)> = few.collect();
    match few.first() {
        Some((_, compared)) if few.len() == places.len() => {
            let moments = few.iter().map(|(moments, _)| moments.round() as u64).max();
            Unit::Run(moments.unwrap_or(1).max(1), *compared)
        }
        _ if places.iter().all(|place| reports[*place].tables.steps.count > 0) => Unit::Step,
        _ => Unit::Collective,
    }
}

/// Returns what ranks do longer than the median of the others, each of them, and by how much on average.
fn why(reports: &[&ProcessReport], matched: &Matched, places: &[usize], unit: Unit) -> Option<(Longer, u64)> {
    let each = |at: usize, ns: u64| ns as f64 / unit.count(reports[at], &matched.ranks[at]);
    let parts: Vec<BTreeMap<Longer, f64>> = reports
        .iter()
        .enumerate()
        .map(|(at, report)| parts(report).into_iter().map(|(what, ns)| (what, each(at, ns))).collect())
        .collect();
    let longest = |place: &usize| {
        let more = |(what, ns): (&Longer, &f64)| {
            let others = parts.iter().enumerate().filter(|(at, _)| !places.contains(at));
            let others = others.map(|(_, other)| other.get(what).copied().unwrap_or(0.0));
            (*what, ns - median(others.collect()))
        };
        let longest = parts[*place].iter().map(more).max_by(|(_, a), (_, b)| a.total_cmp(b))?;
        let late = each(*place, matched.ranks[*place].late());
        Some(longest).filter(|(_, more)| *more * 2.0 >= late)
    };
    let all: Vec<(Longer, f64)> = places.iter().map(longest).collect::<Option<_>>()?;
    let (what, _) = *all.first()?;
    let more = all.iter().map(|(_, more)| more).sum::<f64>() / all.len() as f64;
    all.iter().all(|(other, _)| *other == what).then_some((what, more as u64))
}

/// Returns the kernel in which the others wait for these ranks most.
fn collective(matched: &Matched, places: &[usize]) -> Option<String> {
    let mut late: BTreeMap<&String, u64> = BTreeMap::new();
    for (symbol, ns) in places.iter().flat_map(|place| &matched.ranks[*place].late) {
        let all = late.entry(symbol).or_default();
        *all = all.saturating_add(*ns);
    }
    late.into_iter().max_by_key(|(_, ns)| *ns).map(|(symbol, _)| symbol.clone())
}

/// Returns what would be waited less if ranks were like the others. They would come last now and then: at least as often and as
/// late as the others do now, and else by as much as their own times vary.
fn excess(arrivals: &Arrivals, matched: &Matched, places: &[usize], unit: Unit) -> Sum {
    let (all, group) = (matched.ranks.len() as f64, places.len() as f64);
    let others = matched.ranks.iter().enumerate().filter(|(place, _)| !places.contains(place));
    let others = others.fold(0.0, |sum, (_, other)| sum + other.waited.value as f64);
    let others = others / (all - group).max(1.0) * group;
    // The expectation of the time by which the last of so many normal variables is alone, as a part of the standard deviation: 0.40
    // of 2, 0.22 of 3, 0.15 of 4, 0.06 of 8.
    let alone = 0.4 * (2.0 * group / all).powf(1.3);
    let varies = if matches!(unit, Unit::Run(..)) { 0.0 } else { alone * arrivals.varies };
    let Sum { value, lo, hi } = arrivals.waited;
    let less = |ns: u64, part: f64| ns.saturating_sub(part as u64);
    let value = less(value, others.max(varies));
    let (lo, hi) = (less(lo, others.max(2.0 * varies)), less(hi, others));
    Sum { value, lo: lo.min(value), hi: hi.max(value) }
}

/// Returns what a rank's GPUs do, in ns. Communication is not among it: that is where a rank waits.
fn parts(report: &ProcessReport) -> BTreeMap<Longer, u64> {
    let of =
        |class: Class| report.tables.devices.iter().map(move |one| one.whole().busy[class as usize].value);
    let mut parts = BTreeMap::from([
        (Longer::Kernels, of(Class::Compute).chain(of(Class::Graph)).sum()),
        (Longer::Copies, of(Class::Copy).sum()),
    ]);
    let causes = report.tables.idle.by_cause.iter().filter(|(cause, _)| **cause != Cause::Undecided);
    parts.extend(causes.map(|(cause, part)| (Longer::Idle(*cause), part.total.value)));
    parts
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analyze::collectives::{Arrival, Collectives, Kind, Moment};
    use crate::analyze::ranks::{Time, matching};
    use crate::analyze::{ProcessInfo, Tables};
    use crate::trace::generator::Random;

    const REDUCE: &str = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)";
    const US: i64 = 1_000;

    /// A job, by how long each rank works before each collective, ns.
    struct Job(Vec<Vec<i64>>);

    impl Job {
        /// Ranks that work for up to a millisecond, and for so many µs more.
        fn of_random(seed: u64, count: usize, more: &[i64]) -> Job {
            let mut random = Random(seed);
            let mut work = |more: &i64| random.below(1_000_000) as i64 + more * US;
            Job((0..count).map(|_| more.iter().map(&mut work).collect()).collect())
        }

        /// Returns when each rank comes to each collective, and when that ends.
        fn arrivals(&self) -> Vec<(Vec<i64>, i64)> {
            let mut at = 0;
            let arrive = |work: &Vec<i64>| {
                let came: Vec<i64> = work.iter().map(|ns| at + ns).collect();
                at = came.iter().max().unwrap() + 50 * US;
                (came, at)
            };
            self.0.iter().map(arrive).collect()
        }

        fn ns(&self) -> u64 {
            self.arrivals().last().unwrap().1 as u64
        }

        fn odd(&self) -> Option<Odd> {
            let all = self.arrivals();
            let exactly = |at: i64| Moment::new(at, at, at);
            let of = |rank: usize| {
                let one = |(number, (came, end)): (u64, &(Vec<i64>, i64))| Arrival {
                    number,
                    start: exactly(came[rank]),
                    end: exactly(*end),
                    length: exactly(end - came[rank]),
                };
                let kept: Vec<Arrival> = (0..).zip(&all).map(one).collect();
                let count = kept.len() as u64;
                let kind = Kind { count, selected: count, timed: count, kept };
                let kinds = BTreeMap::from([(REDUCE.to_owned(), kind)]);
                let collectives = Collectives { kinds, ..Collectives::default() };
                let tables = Tables { collectives, ..Tables::default() };
                ProcessReport { process: ProcessInfo::default(), tables, together: None, findings: None }
            };
            let reports: Vec<ProcessReport> = (0..self.0[0].len()).map(of).collect();
            let reports: Vec<&ProcessReport> = reports.iter().collect();
            let time = Time { span: self.ns(), ..Time::default() };
            let rows: Vec<Rank> = reports.iter().map(|_| Rank { time, ..Rank::default() }).collect();
            let collectives: Vec<&Collectives> = reports.iter().map(|one| &one.tables.collectives).collect();
            odd(&reports, &rows, &matching::matched(&collectives, true), true)
        }
    }

    /// Whichever of two such ranks came last to more than half of the collectives was called slower, with all of the wait for it
    /// as its gain.
    #[test]
    fn ranks_whose_steps_vary_alike_are_not_called_slow() {
        for (ranks, count) in [(2, 10), (2, 200), (3, 10), (3, 60), (8, 30)] {
            let named = |seed: &u64| Job::of_random(*seed, count, &vec![0; ranks]).odd().is_some();
            let named = (1..=400).filter(named).count();
            assert!(named <= 8, "{named} of 400 jobs of {ranks} ranks with {count} collectives");
        }
    }

    #[test]
    fn the_gain_is_what_a_rank_like_the_others_would_save() {
        for (more, ranks) in [(300, 2), (600, 2), (2_000, 2), (600, 4), (2_000, 4), (2_000, 8)] {
            let mut works = vec![0; ranks];
            let alike = Job::of_random(5, 500, &works);
            works[1] = more;
            let job = Job::of_random(5, 500, &works);
            let (odd, truth) = (job.odd().unwrap(), job.ns() - alike.ns());
            assert_eq!((&odd.places, odd.unit), (&vec![1], Unit::Collective));
            let Sum { value, lo, hi } = odd.excess;
            assert!(value.abs_diff(truth) < truth / 5, "{more}, {ranks}: {truth} {:?}", odd.excess);
            assert!(lo <= truth && truth <= hi, "{more}, {ranks}: {truth} {:?}", odd.excess);
        }
    }

    /// Each of them came last to half of the collectives, and nobody was said to keep the others waiting.
    #[test]
    fn ranks_that_are_equally_late_are_named_together() {
        let mut more = [0; 8];
        (more[2], more[5]) = (20_000, 20_000);
        let (job, alike) = (Job::of_random(9, 50, &more), Job::of_random(9, 50, &[0; 8]));
        let odd = job.odd().unwrap();
        assert_eq!((&odd.places[..], odd.last), (&[2, 5][..], (50, 50)));
        let truth = job.ns() - alike.ns();
        assert!(odd.excess.value.abs_diff(truth) < truth / 20, "{truth} {:?}", odd.excess);
    }

    /// A rank that stops for a second once, or to write a checkpoint now and then, comes last to few collectives.
    #[test]
    fn a_rank_that_is_late_a_few_times_for_long_is_named_with_how_often() {
        for (every, moments) in [(10, 6), (60, 1)] {
            let mut job = Job::of_random(3, 60, &[0; 4]);
            (0..60).filter(|n| n % every == 7).for_each(|n| job.0[n][3] += 300_000 * US);
            let odd = job.odd().unwrap();
            assert_eq!((&odd.places[..], odd.unit), (&[3][..], Unit::Run(moments, 60)));
            let late = moments * 300_000_000;
            assert!(odd.late.abs_diff(late) < late / 10 && odd.last.0 < 30, "{odd:?}");
            assert!(odd.excess.value.abs_diff(late) < late / 10, "{odd:?}");
        }
    }

    /// A long delay of one of two ranks in so few collectives may come to each of them.
    #[test]
    fn of_two_ranks_none_is_named_by_fewer_than_five_collectives() {
        let named = |count: usize| Job::of_random(2, count, &[0, 5_000]).odd().is_some();
        assert_eq!([1, 3, 4, 8].map(named), [false, false, false, true]);
    }
}
