//! Did a job stop, and because of which rank?
//!
//! A collective ends when all ranks have come to it. Where one does not come, because it has failed or because its host does something
//! else, the others wait until something ends them, and how they end says nothing. What says something is who ended first, and who did
//! not wait in a collective at the end.

use super::Missing;
use crate::analyze::last_work::Work;
use crate::analyze::{ProcessInfo, ProcessReport};
use crate::model::outcome::{Outcome, SIGKILL};
use std::collections::BTreeSet;

/// A job that stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stopped {
    /// Why it did.
    pub why: Why,
    /// The ranks that waited in a collective to their end.
    pub waits: Vec<Wait>,
}

/// Why a job stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    /// A rank ended before all others, which waited for it, or which failed later.
    Failed {
        /// Its place among the ranks.
        place: usize,
        /// When it ended, ns since the first rank began.
        at: u64,
        /// How much later the next one ended, ns.
        before: u64,
    },
    /// These ranks, by their places, did not come to a collective in which all others wait.
    Absent(Vec<usize>),
    /// All ranks wait in collectives, but not in the same one.
    Different,
    /// All ranks wait in the same collective.
    Same,
}

/// A rank that waits in a collective.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// Its place among the ranks.
    pub place: usize,
    /// The symbol of the collective's kernel.
    pub collective: String,
    /// How many kernels with the symbol it launched.
    pub launched: u64,
    /// How long it has been waiting, ns.
    pub ns: u64,
    /// Whether that is known, and not only that it launched nothing more.
    pub is_known: bool,
}

/// How long a rank waits in a collective, at the least, if it waits for one that is gone: ranks come at different times anyway, and a
/// trace that is still being written is a little behind its process.
const LEAST: u64 = 1_000_000_000;
/// The same if all ranks are there: a slow rank may yet come.
const LEAST_OF_LIVING: u64 = 5_000_000_000;
/// The same in median steps.
const STEPS: u64 = 10;
/// How much earlier than on other machines a rank must have ended, ns: their clocks differ by some milliseconds where NTP sets them.
const OTHER_CLOCK: i64 = 100_000_000;
/// How much earlier a rank must have ended than others that failed by themselves, or by the same signal, ns: they may all have failed for one
/// reason.
const FOLLOWS: i64 = 100_000_000;

impl Stopped {
    /// Looks for it in one start of a job. A part of a run says nothing about its end.
    pub fn of(reports: &[&ProcessReport], missing: &Missing) -> Option<Stopped> {
        let is_part = |process: &ProcessInfo| {
            !process.filter.is_empty() || process.captured.is_some() || process.window.is_some()
        };
        if reports.iter().any(|report| is_part(&report.process)) {
            return None;
        }
        let waits: Vec<Wait> =
            reports.iter().enumerate().filter_map(|(place, report)| wait(place, report)).collect();
        let why = failed(reports, &waits).or_else(|| hung(reports, &waits, missing))?;
        Some(Stopped { why, waits })
    }

    /// The symbol of the collective in which ranks wait, if it is the same for all of them.
    pub fn collective(&self) -> Option<&str> {
        let first = self.waits.first()?;
        let is_same = self.waits.iter().all(|wait| wait.collective == first.collective);
        is_same.then_some(first.collective.as_str())
    }

    /// Moves the ranks by so many places.
    pub(super) fn behind(self, before: usize) -> Stopped {
        let why = match self.why {
            Why::Failed { place, at, before: lead } => {
                Why::Failed { place: place + before, at, before: lead }
            }
            Why::Absent(places) => Why::Absent(places.iter().map(|place| place + before).collect()),
            why => why,
        };
        let moved = |wait: Wait| Wait { place: wait.place + before, ..wait };
        Stopped { why, waits: self.waits.into_iter().map(moved).collect() }
    }

    /// How long the rank waited that did for longest, ns.
    pub fn longest(&self) -> u64 {
        self.waits.iter().map(|wait| wait.ns).max().unwrap_or(0)
    }

    /// The places of the ranks that wait.
    pub fn waiting(&self) -> Vec<usize> {
        self.waits.iter().map(|wait| wait.place).collect()
    }
}

fn wait(place: usize, report: &ProcessReport) -> Option<Wait> {
    let unended = report.tables.last_work.unended.as_ref().filter(|unended| unended.ns >= LEAST)?;
    let Work::Collective(collective) = &unended.work else { return None };
    let launched = report.tables.collectives.kinds.get(collective).map_or(0, |kind| kind.count);
    Some(Wait { place, collective: collective.clone(), launched, ns: unended.ns, is_known: unended.is_known })
}

/// Returns that a rank ended before all others, if they waited for it, or if it failed by itself and others failed after it.
fn failed(reports: &[&ProcessReport], waits: &[Wait]) -> Option<Why> {
    let is_over = |place: &usize| reports[*place].process.outcome.is_some_and(|outcome| !runs_on(outcome));
    let others = |place: usize| (0..reports.len()).filter(move |other| *other != place);
    let place = (0..reports.len()).filter(is_over).min_by_key(|place| ended(reports[*place]))?;
    let before = others(place).map(|other| earlier(reports[place], reports[other])).min()??;
    if before <= 0 || waits.iter().any(|wait| wait.place == place) {
        return None;
    }
    // Who waited for long before it ended waited for something else.
    let is_waited_for = || waits.iter().any(|wait| wait.ns / 2 <= before as u64);
    let outcome = |place: usize| reports[place].process.outcome;
    let is_failed = |other: usize| outcome(other).is_some_and(Outcome::is_failure);
    let is_ended_by_it = |other: usize| is_ended(outcome(other)) && outcome(other) != outcome(place);
    let follows = |other: usize| !is_failed(other) || is_ended_by_it(other) || before >= FOLLOWS;
    let is_followed = || {
        is_failure_of_its_own(outcome(place)) && others(place).any(is_failed) && others(place).all(follows)
    };
    (if waits.is_empty() { is_followed() } else { is_waited_for() }).then(|| {
        let began = others(place).filter_map(|other| began_later(reports[other], reports[place]));
        let own = reports[place].process.line.wall_ns;
        let at = own.saturating_add(began.max().unwrap_or(0).max(0) as u64);
        Why::Failed { place, at, before: before as u64 }
    })
}

/// Returns when the collection of a process ended, ns since 1970; on a machine's own clock if that is not known.
fn ended(report: &ProcessReport) -> u64 {
    let process = &report.process;
    process.began_realtime.unwrap_or(process.line.began).saturating_add(process.line.wall_ns)
}

/// Whether a process may go on after its trace has ended, or be another program.
fn runs_on(outcome: Outcome) -> bool {
    outcome.runs_on() || outcome == Outcome::Replaced
}

/// Whether a process did not end because another one wanted it to.
fn is_failure_of_its_own(outcome: Option<Outcome>) -> bool {
    outcome.is_some_and(|outcome| match outcome {
        Outcome::Killed(signal) => signal == SIGKILL,
        outcome => outcome.is_failure(),
    })
}

/// Whether a signal from another process ended it.
fn is_ended(outcome: Option<Outcome>) -> bool {
    matches!(outcome, Some(Outcome::Killed(_)))
}

/// Returns by how many ns a process ended earlier than another one, at the least; `None` if that is not known.
fn earlier(one: &ProcessReport, other: &ProcessReport) -> Option<i64> {
    let wall = |report: &ProcessReport| i64::try_from(report.process.line.wall_ns).unwrap_or(i64::MAX);
    let unsure = if is_one_machine(one, other) { 0 } else { OTHER_CLOCK };
    Some(
        began_later(one, other)?.saturating_add(wall(other)).saturating_sub(wall(one)).saturating_sub(unsure),
    )
}

/// Returns by how many ns the collection of `other` began later than that of `one`; `None` if that is not known.
fn began_later(one: &ProcessReport, other: &ProcessReport) -> Option<i64> {
    let ns = |from: u64, to: u64| to as i64 - from as i64;
    if is_one_machine(one, other) {
        return Some(ns(one.process.line.began, other.process.line.began));
    }
    Some(ns(one.process.began_realtime?, other.process.began_realtime?))
}

fn is_one_machine(one: &ProcessReport, other: &ProcessReport) -> bool {
    matches!((&one.process.id, &other.process.id), (Some(one), Some(other)) if one.machine == other.machine)
}

/// Returns why ranks wait in collectives though none has ended before.
fn hung(reports: &[&ProcessReport], waits: &[Wait], missing: &Missing) -> Option<Why> {
    let step = |place: usize| reports[place].tables.steps.time.map_or(0, |time| time.median);
    let is_long = |wait: &Wait| wait.ns >= LEAST_OF_LIVING.max(step(wait.place).saturating_mul(STEPS));
    let is_certain = |wait: &Wait| wait.is_known && is_long(wait);
    if waits.is_empty() || !waits.iter().all(is_certain) || !missing.ranks.is_empty() {
        return None;
    }
    let waiting: BTreeSet<usize> = waits.iter().map(|wait| wait.place).collect();
    let absent: Vec<usize> = (0..reports.len()).filter(|place| !waiting.contains(place)).collect();
    // A graph may contain the collective.
    let is_unknown = |place: &usize| {
        let unended = reports[*place].tables.last_work.unended.as_ref();
        unended.is_some_and(|unended| unended.work == Work::Graph)
    };
    if absent.iter().any(is_unknown) || absent.len() > waits.len() {
        return None;
    }
    let first = &waits[0];
    let is_same = |wait: &Wait| wait.collective == first.collective && wait.launched == first.launched;
    Some(match () {
        () if !absent.is_empty() => Why::Absent(absent),
        () if waits.iter().all(is_same) => Why::Same,
        () => Why::Different,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analyze::collectives::{Collectives, Kind};
    use crate::analyze::last_work::{LastWork, Unended};
    use crate::analyze::{Line, Tables};
    use crate::model::run::{Machine, ProcessId};
    use std::collections::BTreeMap;

    const MS: u64 = 1_000_000;
    const S: u64 = 1_000 * MS;
    const KILLED: Outcome = Outcome::Killed(15);

    /// A rank on a machine: how it ended, when, and how long and in what it waits.
    fn rank(
        machine: u64,
        outcome: Outcome,
        ended: u64,
        waits: Option<(&str, u64)>,
        launched: u64,
    ) -> ProcessReport {
        let work = |(symbol, _): (&str, u64)| Work::Collective(symbol.to_owned());
        let unended = waits.map(|wait| Unended { work: work(wait), ns: wait.1, is_known: true });
        let kinds = waits.map(|(symbol, _)| (symbol.to_owned(), Kind { count: launched, ..Kind::default() }));
        let tables = Tables {
            last_work: LastWork { unended, launched: None },
            collectives: Collectives { kinds: BTreeMap::from_iter(kinds), ..Collectives::default() },
            ..Tables::default()
        };
        let process = ProcessInfo {
            outcome: Some(outcome),
            id: Some(ProcessId { machine: Machine::Boot(machine), pid: 1, began: 0 }),
            began_realtime: Some(1_000 * S),
            line: Line { began: 70 * S * machine, wall_ns: ended, ..Line::default() },
            ..ProcessInfo::default()
        };
        ProcessReport { process, tables, together: None, findings: None }
    }

    fn why(reports: &[ProcessReport]) -> Option<Why> {
        Stopped::of(&reports.iter().collect::<Vec<_>>(), &Missing::default()).map(|stopped| stopped.why)
    }

    /// A rank that the others wait for, for 3 s after its end.
    fn waits() -> ProcessReport {
        rank(1, KILLED, 9 * S, Some(("reduce", 3 * S)), 7)
    }

    #[test]
    fn a_rank_that_is_gone_while_the_others_wait_is_why_the_job_stopped() {
        for outcome in [Outcome::Killed(9), Outcome::Crashed(11), Outcome::Exited(Some(0)), Outcome::Left(3)]
        {
            let of = [waits(), rank(1, outcome, 6 * S, None, 0), waits()];
            assert_eq!(why(&of), Some(Why::Failed { place: 1, at: 6 * S, before: 3 * S }), "{outcome}");
        }
    }

    #[test]
    fn of_ranks_that_fail_one_after_the_other_the_first_counts() {
        let exits = |at| rank(1, Outcome::Exited(Some(1)), at, None, 0);
        let ended = |at| rank(1, KILLED, at, None, 0);
        assert_eq!(
            why(&[ended(2_010 * MS), exits(2_000 * MS), ended(2_015 * MS)]),
            Some(Why::Failed { place: 1, at: 2 * S, before: 10 * MS })
        );
        let (first, soon) = (exits(2_000 * MS), exits(2_010 * MS));
        assert_eq!(why(&[soon.clone(), first.clone()]), None, "both may have failed for one reason");
        assert!(why(&[exits(2_200 * MS), first]).is_some());
        assert_eq!(why(&[ended(2_000 * MS), ended(2_500 * MS)]), None, "somebody ended the job");
        let killed = |at| rank(1, Outcome::Killed(9), at, None, 0);
        assert_eq!(why(&[killed(2_000 * MS), killed(2_020 * MS)]), None, "as where a container is killed");
        assert!(why(&[killed(2_000 * MS), ended(2_020 * MS)]).is_some());
        assert_eq!(why(&[soon, rank(1, Outcome::Exited(Some(0)), 3 * S, None, 0)]), None, "the job went on");
    }

    /// The machines' clocks may differ by some milliseconds.
    #[test]
    fn on_another_machine_a_rank_must_have_ended_clearly_earlier() {
        let of = |at| [rank(2, Outcome::Exited(Some(1)), 2 * S, None, 0), rank(1, KILLED, at, None, 0)];
        assert_eq!(why(&of(2_050 * MS)), None);
        assert_eq!(why(&of(2_300 * MS)), Some(Why::Failed { place: 0, at: 2 * S, before: 200 * MS }));
    }

    #[test]
    fn a_rank_that_does_not_come_is_named_and_one_that_was_ended_with_the_others_is_not_called_failed() {
        let hangs = |ended| rank(1, KILLED, ended, Some(("reduce", 8 * S)), 7);
        let of = [hangs(9 * S + MS), rank(1, KILLED, 9 * S, None, 0), hangs(9 * S + 2 * MS)];
        assert_eq!(why(&of), Some(Why::Absent(vec![1])));
        let soon = |ended| rank(1, KILLED, ended, Some(("reduce", 3 * S)), 7);
        let of = [soon(9 * S), rank(1, KILLED, 9 * S, None, 0), soon(9 * S)];
        assert_eq!(why(&of), None, "a slow rank may yet come");
    }

    #[test]
    fn ranks_that_all_wait_are_said_to_wait_in_one_collective_or_in_several() {
        let of = |symbol, launched| rank(1, KILLED, 9 * S, Some((symbol, 8 * S)), launched);
        assert_eq!(why(&[of("reduce", 7), of("reduce", 7)]), Some(Why::Same));
        assert_eq!(why(&[of("reduce", 7), of("reduce", 8)]), Some(Why::Different));
        assert_eq!(why(&[of("reduce", 7), of("broadcast", 7)]), Some(Why::Different));
    }
}
