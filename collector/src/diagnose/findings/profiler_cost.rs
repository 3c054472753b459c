//! `profiler-cost`: gpuspy itself takes so much time that the other figures are not those of the program alone.

use super::super::finding::{Claimed, Evidence, Finding, Id, Sites};
use super::super::{Facts, Part};
use crate::analyze::estimate::Estimate;
use std::collections::BTreeMap;

/// The cost from which on it is reported, percent: the least budget that users are likely to find too much.
const MUCH: f64 = 5.0;
/// What costs less.
const LESS: &str =
    "Record again with --timing auto --budget 2, which times part of the launches and estimates the rest";
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
    if cost.total() < MUCH {
        return None;
    }
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
                Some(Part::Captured) => format!("{LESS}."),
                _ => format!("{LESS}; or record a part of the run with --capture-range."),
            },
            saves: Estimate::exactly(0),
        },
        claims: BTreeMap::new(),
        sites: Sites::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analyze::overhead::Overhead;
    use crate::analyze::{ProcessInfo, ProcessReport, Tables};
    use crate::diagnose::buckets::Buckets;

    fn found(agent_ns: u64, wall_ns: u64, filter: &str) -> bool {
        let overhead = Overhead { agent_ns, wall_ns, ..Overhead::default() };
        let all = Tables { overhead: Some(overhead), ..Tables::default() };
        let process = ProcessInfo { filter: filter.to_owned(), ..ProcessInfo::default() };
        let reports = [ProcessReport { process, tables: Tables::default(), together: None, findings: None }];
        let buckets = Buckets { wall: wall_ns, ..Buckets::default() };
        find(&Facts { reports: &reports, all: &all, buckets: &buckets }).is_some()
    }

    #[test]
    fn a_cost_of_5_percent_of_a_whole_run_is_found() {
        assert!(found(100_000_000, 2_000_000_000, ""));
        assert!(!found(98_000_000, 2_000_000_000, ""));
        assert!(!found(100_000_000, 2_000_000_000, "from 1 s"), "the cost of the part is not known");
        assert!(!found(100_000_000, 500_000_000, ""), "most of it is the start");
    }
}
