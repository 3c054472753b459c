//! The ranks of a job beside each other: which ones do the others wait for?
//!
//! [`matching`] puts the collectives of the ranks together and finds who came last to each; [`scores`] compares the time
//! that ranks need for themselves; [`odd`] says which ranks are slower than the others, and by what; [`stopped`] whether the job
//! stopped, and because of which rank.

pub mod matching;
pub mod odd;
pub mod scores;
pub mod stopped;

use super::ProcessReport;
use super::estimate::Sum;
use super::identity::Class;
use matching::Matched;
use odd::Odd;
use scores::Score;
use std::collections::BTreeSet;
use std::sync::Arc;
use stopped::Stopped;

/// The ranks of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ranks {
    /// How often the job was started, or how many windows of time there are of it. Its ranks are compared within each.
    pub starts: usize,
    /// Whether some of them are without ranks that others have: a rank may run a program more, as to evaluate at the end.
    pub is_uneven: bool,
    /// For each start, one row for each rank, in the order of the reports; none if there are fewer than two ranks.
    pub rows: Vec<Rank>,
    /// What is known of their collectives.
    pub matched: Matched,
    /// The ranks of the job that have no trace here, of any start.
    pub missing: Missing,
    /// How long they wait for each other.
    pub waiting: Waiting,
    /// The ranks that the others wait for, if there are any.
    pub odd: Option<Odd>,
    /// Why the job stopped, if it did; of several starts, the last one.
    pub stopped: Option<Stopped>,
}

/// Ranks of a job of which nothing is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Missing {
    /// Their numbers.
    pub ranks: BTreeSet<u32>,
    /// How many ranks the job has.
    pub of: u32,
}

/// How long ranks wait for each other in collectives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waiting {
    /// ns by which they certainly came earlier than the last one, over all collectives, on average of the ranks.
    pub mean: u64,
    /// The longest time from the first operation on a rank's GPUs to the last, ns.
    pub span: u64,
}

/// The most ranks of a job among which missing ones are looked for.
const MOST_RANKS: u32 = 1 << 20;

/// The share of the time of a run below which it is not said that ranks wait for each other. Ranks that do the same work
/// differ by some percent anyway.
const LEAST_SHARE: f64 = 0.02;

/// One rank.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rank {
    /// Its place among the reports.
    pub at: usize,
    /// Its number.
    pub rank: u32,
    /// The name of its machine; `None` if it is not known.
    pub host: Option<String>,
    /// Where the time of its GPUs went.
    pub time: Time,
    /// How it compares with the others; `None` if its collectives could not be compared.
    pub straggler: Option<Straggler>,
}

/// Where the time of a rank's GPUs went, ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Time {
    /// From the first operation to the last.
    pub span: u64,
    /// A kernel, a graph or a copy ran.
    pub busy: Sum,
    /// Nothing ran.
    pub idle: Sum,
    /// A communication kernel ran, and no other.
    pub exposed_communication: Sum,
}

/// How a rank compares with the others.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Straggler {
    /// Its own time compared with the best rank and with itself.
    pub score: Score,
    /// ns by which it came later than half of the ranks, over all collectives. What was not timed on several ranks is estimated.
    pub late: u64,
    /// The collectives to which it certainly came last.
    pub last_arrivals: u64,
    /// The collectives to which its arrival was compared with that of others.
    pub collectives: u64,
}

impl Ranks {
    /// Compares the ranks of a run.
    pub fn of(reports: &[ProcessReport]) -> Ranks {
        let ranks = ranks(reports);
        let numbers: BTreeSet<u32> = ranks.iter().map(|(_, rank)| *rank).collect();
        let mut all = Ranks::default();
        if numbers.len() > 1 {
            let missing = Missing::of(&of(reports, &ranks));
            let is_once = numbers.len() == ranks.len();
            let starts = if is_once { vec![ranks] } else { starts(reports, ranks) };
            let are_all =
                |start: &Vec<(usize, u32)>| numbers.iter().all(|rank| start.iter().any(|one| one.1 == *rank));
            all.is_uneven = !starts.iter().all(are_all);
            starts.iter().for_each(|ranks| all.add(Ranks::of_start(reports, ranks, &missing)));
            all.missing = missing;
        }
        all
    }

    /// Adds the ranks of another start.
    fn add(&mut self, other: Ranks) {
        let costs = |ranks: &Ranks| ranks.odd.as_ref().map(|odd| odd.excess.value);
        let before = self.rows.len();
        if costs(&other) > costs(self) {
            let moved = |odd: Odd| Odd { places: odd.places.iter().map(|at| before + at).collect(), ..odd };
            self.odd = other.odd.map(moved);
        }
        self.stopped = other.stopped.map(|stopped| stopped.behind(before));
        self.waiting.mean += other.waiting.mean;
        self.waiting.span = self.waiting.span.saturating_add(other.waiting.span);
        self.starts += other.starts;
        self.rows.extend(other.rows);
        self.matched.add(other.matched);
    }

    /// Whether they are on several machines, by their names.
    pub fn has_hosts(&self) -> bool {
        let hosts = || self.rows.iter().filter_map(|row| row.host.as_deref());
        hosts().any(|host| hosts().next() != Some(host))
    }

    /// Compares the ranks of one start, given by their places among the reports, with their numbers.
    fn of_start(reports: &[ProcessReport], ranks: &[(usize, u32)], missing: &Missing) -> Ranks {
        let of = of(reports, ranks);
        let collectives: Vec<_> = of.iter().map(|report| &report.tables.collectives).collect();
        let is_one_line = share_a_line(&of);
        let matched = matching::matched(&collectives, is_one_line);
        let scores = scores::scores(&collectives);
        let straggler = |place: usize| {
            let arrivals = &matched.ranks[place];
            let straggler = Straggler {
                score: scores[place],
                late: arrivals.late(),
                last_arrivals: arrivals.last,
                collectives: arrivals.compared,
            };
            (straggler.collectives > 0 || straggler.score != Score::default()).then_some(straggler)
        };
        let row = |(place, (at, rank)): (usize, &(usize, u32))| {
            let time = Time::of(of[place]);
            let host = of[place].process.host.clone();
            Rank { at: *at, rank: *rank, host, time, straggler: straggler(place) }
        };
        let rows: Vec<Rank> = ranks.iter().enumerate().map(row).collect();
        let odd = odd::odd(&of, &rows, &matched, is_one_line);
        let waiting = Waiting::of(&rows, &matched);
        let stopped = Stopped::of(&of, missing);
        Ranks { starts: 1, waiting, rows, matched, odd, stopped, ..Ranks::default() }
    }
}

/// Returns the reports of ranks that are given by their places, with their numbers.
fn of<'r>(reports: &'r [ProcessReport], ranks: &[(usize, u32)]) -> Vec<&'r ProcessReport> {
    ranks.iter().map(|(at, _)| &reports[*at]).collect()
}

/// Returns the processes that are ranks, by their places among the reports, with their numbers. A process inherits the
/// variables of the rank that started it, so one that does nothing on a GPU (a worker that loads data) is a rank only if no
/// other process has its number.
fn ranks(reports: &[ProcessReport]) -> Vec<(usize, u32)> {
    let ranks = |(at, report): (usize, &ProcessReport)| Some((at, report.process.job.rank?));
    let all: Vec<(usize, u32)> = reports.iter().enumerate().filter_map(ranks).collect();
    let uses_a_gpu = |at: usize| {
        let tables = &reports[at].tables;
        tables.coverage.launches > 0 || tables.devices.iter().any(|device| device.timelines > 0)
    };
    let is_helper = |(at, rank): (usize, u32)| {
        let is_rank = |(other, number): (usize, u32)| number == rank && (other < at || uses_a_gpu(other));
        !uses_a_gpu(at) && all.iter().any(|other| other.0 != at && is_rank(*other))
    };
    all.iter().copied().filter(|one| !is_helper(*one)).collect()
}

/// How long before its end a process may have been over, ns: the end is noticed late, and of a job that is started again within
/// milliseconds, one rank may begin again while another one ends.
const NEARLY_OVER: u64 = 200_000_000;

/// Divides ranks some of which have the same number into those that lived at the same time: a job that was started again.
/// `collector/queries/views/started.sql` does the same.
fn starts(reports: &[ProcessReport], mut ranks: Vec<(usize, u32)>) -> Vec<Vec<(usize, u32)>> {
    let lived = |at: usize| {
        let process = &reports[at].process;
        let began = process.began_realtime.unwrap_or(0);
        (began, began.saturating_add(process.line.wall_ns))
    };
    ranks.sort_by_key(|(at, _)| lived(*at));
    let (mut starts, mut known) = (Vec::<Vec<(usize, u32)>>::new(), BTreeSet::new());
    // When all processes so far had ended, and when they had nearly.
    let (mut ended, mut nearly) = (0, 0);
    for rank in ranks {
        let (began, end) = lived(rank.0);
        let is_again = !known.insert(rank.1);
        match starts.last_mut() {
            Some(start) if began < if is_again { nearly } else { ended } => start.push(rank),
            _ => starts.push(vec![rank]),
        }
        ended = ended.max(end);
        nearly = nearly.max(end - NEARLY_OVER.min((end - began) / 2));
    }
    starts.iter_mut().for_each(|start| start.sort_unstable());
    starts
}

/// Whether all processes lie on one line, so that their GPU times can be compared.
fn share_a_line(reports: &[&ProcessReport]) -> bool {
    let Some(first) = reports.first().and_then(|report| report.together.as_ref()) else { return false };
    reports.iter().all(|report| report.together.as_ref().is_some_and(|other| Arc::ptr_eq(first, other)))
}

impl Missing {
    fn of(ranks: &[&ProcessReport]) -> Missing {
        let of = ranks.iter().filter_map(|report| report.process.job.world_size).max().unwrap_or(0);
        if ranks.iter().any(|report| report.process.selects_ranks) {
            return Missing { of, ..Missing::default() };
        }
        // A number of ranks that no job has is in no sentence.
        let there: BTreeSet<u32> = ranks.iter().filter_map(|report| report.process.job.rank).collect();
        let missing = (0..of.min(MOST_RANKS)).filter(|rank| !there.contains(rank));
        Missing { ranks: missing.collect(), of }
    }
}

impl Waiting {
    fn of(rows: &[Rank], matched: &Matched) -> Waiting {
        let waits = matched.ranks.iter().fold(0u64, |sum, one| sum.saturating_add(one.waits));
        let span = rows.iter().map(|row| row.time.span).max().unwrap_or(0);
        Waiting { mean: waits / (rows.len() as u64).max(1), span }
    }

    /// Whether ranks wait for each other more than ranks with the same work do anyway.
    pub fn is_noticeable(self) -> bool {
        self.is_much(self.mean as f64)
    }

    /// Whether a time is a noticeable part of that of the run.
    fn is_much(self, ns: f64) -> bool {
        ns > 0.0 && ns >= LEAST_SHARE * self.span as f64
    }
}

impl Time {
    fn of(report: &ProcessReport) -> Time {
        let mut time = Time::default();
        for device in &report.tables.devices {
            let whole = device.whole();
            time.span = time.span.saturating_add(whole.span);
            whole.busy.iter().for_each(|part| time.busy.add(*part));
            time.idle.add(whole.idle);
            time.exposed_communication.add(whole.busy[Class::Communication as usize]);
        }
        time.busy.hi = time.busy.hi.min(time.span);
        time
    }
}
