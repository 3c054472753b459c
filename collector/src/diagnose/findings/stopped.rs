//! What the findings about a job that stopped say in the same way.

use super::straggler_rank::operation;
use crate::analyze::ProcessReport;
use crate::analyze::estimate::{Estimate, Sum};
use crate::analyze::last_work::{Launched, Work};
use crate::analyze::ranks::stopped::Stopped;
use crate::analyze::source::Source;
use crate::diagnose::Facts;
use crate::diagnose::finding::{Claimed, Evidence, Finding, Id, Sites};
use crate::diagnose::rank_names::{named, numbers};
use crate::model::names::demangle;
use crate::model::outcome::Outcome;
use crate::model::short_names::shorten;
use crate::units::{capital, duration};
use std::collections::BTreeMap;

/// The room for a kernel's name in a sentence, in columns.
const NAME: usize = 40;

/// Returns the report of the rank at a place.
pub fn report<'f>(facts: &Facts<'f>, place: usize) -> &'f ProcessReport {
    &facts.reports[facts.ranks.rows[place].at]
}

/// Returns what ranks wait in: `ncclAllReduce`, or `collectives` if they do not wait in the same one.
pub fn collective(stopped: &Stopped) -> String {
    stopped.collective().map_or_else(|| "collectives".to_owned(), operation)
}

/// Says which ranks waited, in what place, and for how long: `Ranks 0, 1 and 3 waited there to the end, for 3.01 s`. Of ranks that still run, that
/// they have been waiting.
pub fn waited(facts: &Facts<'_>, stopped: &Stopped, place: &str) -> String {
    let places = stopped.waiting();
    let outcome = |place: &usize| report(facts, *place).process.outcome;
    let runs_on = places.iter().any(|place| outcome(place).is_some_and(Outcome::runs_on));
    let who = capital(&named(&numbers(facts.ranks, &places)));
    let longest = duration(stopped.longest());
    match (runs_on, places.len()) {
        (true, 1) => format!("{who} has been waiting {place} for {longest}"),
        (true, _) => format!("{who} have been waiting {place} for {longest}"),
        (false, _) => format!("{who} waited {place} to the end, for {longest}"),
    }
}

/// Returns what a rank launched last and how long before its end, in a sentence.
pub fn last_launch(report: &ProcessReport) -> Option<String> {
    let Launched { work, line, ago, .. } = report.tables.last_work.launched.as_ref()?;
    let what = match work {
        Work::Collective(symbol) => operation(symbol),
        Work::Kernel(symbol) => shorten(&demangle(symbol), NAME),
        Work::Graph => "a graph".to_owned(),
        Work::Transfer => "a copy".to_owned(),
    };
    let line = line.as_ref().map_or_else(String::new, |line| format!(" at {}", line.place()));
    Some(format!("Its last launch, of {what}{line}, was {} before its end.", duration(*ago)))
}

/// Returns evidence about a rank: the collective that the others wait in, and the line of its last launch.
pub fn evidence(stopped: &Stopped, report: Option<&ProcessReport>, text: String) -> Evidence {
    let launched = report.and_then(|report| report.tables.last_work.launched.as_ref());
    let line = launched.and_then(|launched| launched.line.clone());
    let longest = (!stopped.waits.is_empty()).then(|| stopped.longest());
    Evidence {
        text,
        count: stopped.waits.len() as u64,
        total: longest.map(|ns| Sum { value: ns, lo: ns, hi: ns }),
        kernel: stopped.collective().map(demangle),
        source: Source { library: None, line },
        tid: launched.and_then(|launched| launched.tid),
        ..Evidence::default()
    }
}

/// Returns a finding that promises no time: it ended the work.
pub fn finding(id: Id, title: String, evidence: Evidence, explanation: &str, fix: String) -> Claimed {
    let (explanation, saves) = (explanation.to_owned(), Estimate::exactly(0));
    let finding = Finding { id, title, evidence, explanation, fix, saves };
    Claimed { finding, claims: BTreeMap::new(), sites: Sites::new() }
}
