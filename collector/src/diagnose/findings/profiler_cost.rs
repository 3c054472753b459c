//! `profiler-cost`: gpuspy itself takes so much time that the other figures are not those of the program alone.

use super::super::finding::{Claimed, Evidence, Finding, Id, Sites};
use super::super::{Facts, Part};
use crate::analyze::estimate::Estimate;
use crate::analyze::windows::{Duty, Timing};
use std::collections::BTreeMap;

/// The cost from which on it is reported, percent: the least budget that users are likely to find too much.
const MUCH: f64 = 5.0;
/// What costs less.
const LESS: &str =
    "Record again with --timing auto --budget 2, which times part of the launches and estimates the rest";
/// What costs less if little was recorded but the first phase.
const LONGER: &str = "Record for longer: --timing auto times the first second, or 10 000 launches, in full, and keeps to its budget after that";
/// The shortest run that it is reported of, ns: what the agent does once, at the start, is most of a shorter one's cost.
const SHORTEST: u64 = 1_000_000_000;

/// Looks for it, in reports of whole runs.
pub fn find(facts: &Facts<'_>) -> Option<Claimed> {
    // The cost is that of the whole run.
    let is_part = facts.reports.iter().any(|report| !report.process.filter.is_empty());
    if is_part || facts.buckets.wall < SHORTEST {
        return None;
    }
    let cost = facts.all.overhead.as_ref()?.cost(&facts.all.duty)?;
    if cost.total() < MUCH || is_within_budget(&facts.all.duty) {
        return None;
    }
    let less = if is_first_phase(&facts.all.duty) { LONGER } else { LESS };
    let events =
        cost.events.map_or(String::new(), |events| format!(", and timing slowed the work by {events:.1} %"));
    let text =
        format!("Hooks took {:.1} % of the time and the poller {:.1} %{events}.", cost.hooks, cost.poller);
    Some(Claimed {
        finding: Finding {
            id: Id::ProfilerCost,
            title: "gpuspy itself takes much of the time".to_owned(),
            evidence: Evidence { text, ..Evidence::default() },
            explanation: "Every call costs gpuspy some hundreds of nanoseconds, and every timed launch two events. In a \
                          program of very many short calls that adds up, and idle time looks longer than it is."
                .to_owned(),
            fix: match facts.part() {
                Some(Part::Captured) => format!("{less}."),
                _ => format!("{less}; or record a part of the run with --capture-range."),
            },
            saves: Estimate::exactly(0),
        },
        claims: BTreeMap::new(),
        sites: Sites::new(),
    })
}

/// Whether `--timing auto` has kept to its budget after the first phase, which it times in full: what that cost is no part of a longer run.
fn is_within_budget(duty: &Duty) -> bool {
    let Some(Timing::Auto(budget)) = duty.timing else { return false };
    let cost = duty.measured().percent().map(|cost| cost + duty.slowed_percent().unwrap_or(0.0));
    !is_first_phase(duty) && cost.is_some_and(|cost| cost <= budget)
}

/// Whether `--timing auto` was in its first phase for most of the time.
fn is_first_phase(duty: &Duty) -> bool {
    matches!(duty.timing, Some(Timing::Auto(_))) && duty.measured().ns < duty.first.ns
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analyze::overhead::Overhead;
    use crate::analyze::ranks::Ranks;
    use crate::analyze::windows::Stretch;
    use crate::analyze::{ProcessInfo, ProcessReport, Tables};
    use crate::diagnose::buckets::Buckets;

    fn found(agent_ns: u64, wall_ns: u64, filter: &str) -> bool {
        let overhead = Overhead { agent_ns, wall_ns, ..Overhead::default() };
        let all = Tables { overhead: Some(overhead), ..Tables::default() };
        let process = ProcessInfo { filter: filter.to_owned(), ..ProcessInfo::default() };
        let reports = [ProcessReport { process, tables: Tables::default(), together: None, findings: None }];
        let buckets = Buckets { wall: wall_ns, ..Buckets::default() };
        find(&Facts { reports: &reports, all: &all, buckets: &buckets, ranks: &Ranks::default() }).is_some()
    }

    #[test]
    fn a_cost_of_5_percent_of_a_whole_run_is_found() {
        assert!(found(100_000_000, 2_000_000_000, ""));
        assert!(!found(98_000_000, 2_000_000_000, ""));
        assert!(!found(100_000_000, 2_000_000_000, "from 1 s"), "the cost of the part is not known");
        assert!(!found(100_000_000, 500_000_000, ""), "most of it is the start");
    }

    /// A run of 2 s was told to use --timing auto, which it did: only the first second had cost more than the budget.
    #[test]
    fn a_first_phase_that_costs_more_than_the_budget_is_no_finding_where_the_rest_keeps_to_it() {
        let fix = |first_ns: u64, timed: Stretch| {
            let first = Stretch { ns: first_ns, agent_ns: 110_000_000, ..Stretch::default() };
            let mut duty = Duty::default();
            (duty.timing, duty.first, duty.timed) = (Some(Timing::Auto(5.0)), first, timed);
            let agent_ns = first.agent_ns + timed.agent_ns;
            let overhead = Overhead { agent_ns, wall_ns: 2_000_000_000, ..Overhead::default() };
            let all = Tables { overhead: Some(overhead), duty, ..Tables::default() };
            let buckets = Buckets { wall: 2_000_000_000, ..Buckets::default() };
            let found = find(&Facts { reports: &[], all: &all, buckets: &buckets, ranks: &Ranks::default() });
            found.map(|found| found.finding.fix)
        };
        let timed = |ns, agent_ns| Stretch { ns, agent_ns, ..Stretch::default() };
        assert_eq!(fix(900_000_000, timed(1_000_000_000, 49_000_000)), None);
        let beyond = fix(900_000_000, timed(1_000_000_000, 51_000_000)).unwrap();
        assert!(beyond.starts_with(LESS), "{beyond}");
        let short = fix(1_900_000_000, timed(10_000_000, 0)).unwrap();
        assert!(short.starts_with("Record for longer"), "{short}");
    }
}
