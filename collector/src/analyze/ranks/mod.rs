//! The ranks of a job beside each other: which one do the others wait for?
//!
//! [`matching`] puts the collectives of the ranks together and finds who came last to each; [`scores`] compares the time
//! that ranks need for themselves; [`odd`] says which rank is slower than the others, and by what.

pub mod matching;
pub mod odd;
pub mod scores;

use super::ProcessReport;
use super::estimate::Sum;
use super::identity::Class;
use matching::Matched;
use odd::Odd;
use scores::Score;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The ranks of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ranks {
    /// How often the job was started, or how many windows of time there are of it. Its ranks are compared within each.
    pub starts: usize,
    /// For each start, one row for each rank, in the order of the reports; none if there are fewer than two ranks.
    pub rows: Vec<Rank>,
    /// What is known of their collectives.
    pub matched: Matched,
    /// The rank that the others wait for, if there is one.
    pub odd: Option<Odd>,
}

/// One rank.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rank {
    /// Its place among the reports.
    pub at: usize,
    /// Its number.
    pub rank: u32,
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
            let is_once = numbers.len() == ranks.len();
            let starts = if is_once { vec![ranks] } else { starts(reports, ranks) };
            starts.iter().for_each(|ranks| all.add(Ranks::of_start(reports, ranks)));
        }
        all
    }

    /// Adds the ranks of another start.
    fn add(&mut self, other: Ranks) {
        let late = |ranks: &Ranks| ranks.odd.as_ref().map(|odd| ranks.matched.ranks[odd.place].late());
        if late(&other) > late(self) {
            let before = self.rows.len();
            self.odd = other.odd.map(|odd| Odd { place: before + odd.place, ..odd });
        }
        self.starts += other.starts;
        self.rows.extend(other.rows);
        self.matched.add(other.matched);
    }

    /// Compares the ranks of one start, given by their places among the reports, with their numbers.
    fn of_start(reports: &[ProcessReport], ranks: &[(usize, u32)]) -> Ranks {
        let of: Vec<&ProcessReport> = ranks.iter().map(|(at, _)| &reports[*at]).collect();
        let collectives: Vec<_> = of.iter().map(|report| &report.tables.collectives).collect();
        let matched = matching::matched(&collectives, share_a_line(&of));
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
            Rank { at: *at, rank: *rank, time, straggler: straggler(place) }
        };
        let rows: Vec<Rank> = ranks.iter().enumerate().map(row).collect();
        let odd = odd::odd(&of, &rows, &matched);
        Ranks { starts: 1, rows, matched, odd }
    }
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
