//! The findings of both runs: what was promised, and what was gained.

use super::change::{Basis, Change};
use super::figure::plus;
use super::outside;
use crate::diagnose::finding::Id;
use crate::report::rows::Report;
use crate::report::rows::findings;
use crate::report::rows::numbers::Estimate;
use schemars::JsonSchema;
use serde::Serialize;
use std::cmp::Reverse;

/// The findings of both runs.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Findings {
    /// What the findings that are gone were said to cost, of the wall time of the run before the change.
    pub promised_ns: Estimate,
    /// What the change gained of that wall time; negative = it lost. By steps, it is the gain of the mean step times the steps
    /// of the run before the change, and where both have as many steps, what the runs differ by outside of those. null = the verdict is
    /// unknown.
    pub gained_ns: Option<f64>,
    /// The findings that are gone first, then new ones, then those that are still there; of each the costliest first.
    pub list: Vec<Finding>,
}

/// A finding of either run.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Finding {
    /// The kind of fault.
    #[schemars(extend("enum" = Id::ALL.map(Id::name)))]
    pub id: &'static str,
    /// What was found, in a few words; in the run after the change, if it is in both.
    pub title: String,
    pub state: State,
    /// What removing the fault would have gained before the change; null = it was not found.
    pub saves_before_ns: Option<Estimate>,
    /// What removing the fault would gain after the change; null = it is not found.
    pub saves_after_ns: Option<Estimate>,
}

/// Which run has the finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Only the run before the change.
    Gone,
    /// Only the run after it.
    New,
    /// Both.
    Still,
}

impl Findings {
    /// Compares the findings of two runs by their ids.
    pub fn of(before: &Report, after: &Report, change: &Change) -> Findings {
        let mut list = matched(&before.findings, &after.findings);
        list.sort_by_key(|row| {
            let saves = row.saves_after_ns.or(row.saves_before_ns).map(|saves| saves.value);
            (row.state, Reverse(saves))
        });
        let gone = list.iter().filter(|row| row.state == State::Gone).filter_map(|row| row.saves_before_ns);
        let (before_ns, after_ns, steps) = match change.basis {
            // What is promised is a total, and the median times the steps is none where other steps are longer.
            Basis::Step => {
                let means = before.steps.mean_ns.zip(after.steps.mean_ns);
                let (of_before, of_after) = means.unwrap_or((change.before_ns, change.after_ns));
                (of_before, of_after, before.steps.count as f64)
            }
            Basis::StepMean => (change.before_ns, change.after_ns, before.steps.count as f64),
            Basis::Gpu | Basis::Wall | Basis::Range => (change.before_ns, change.after_ns, 1.0),
        };
        Findings {
            promised_ns: gone.fold(Estimate::exactly(0), plus),
            gained_ns: change.is_known().then(|| {
                (before_ns - after_ns) * steps
                    - outside::of(before, after, change).map_or(0.0, |outside| outside.ns)
            }),
            list,
        }
    }
}

/// Returns a row for each id. What findings of one id save is added.
fn matched(before: &[findings::Finding], after: &[findings::Finding]) -> Vec<Finding> {
    let saves = |findings: &[findings::Finding], id: &str| {
        findings.iter().filter(|row| row.id == id).map(|row| row.saves_ns).reduce(plus)
    };
    let mut rows: Vec<Finding> = Vec::new();
    for found in after.iter().chain(before) {
        if rows.iter().any(|row| row.id == found.id) {
            continue;
        }
        let (saves_before_ns, saves_after_ns) = (saves(before, found.id), saves(after, found.id));
        let state = match (saves_before_ns, saves_after_ns) {
            (_, None) => State::Gone,
            (None, _) => State::New,
            _ => State::Still,
        };
        let title = found.title.clone();
        rows.push(Finding { id: found.id, title, state, saves_before_ns, saves_after_ns });
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analyze::Tables;
    use crate::analyze::estimate::Estimate as Known;
    use crate::diagnose::finding;
    use crate::report::diff::noise::tests::steps;
    use crate::report::rows::steps::Steps;

    fn finding(id: Id, saves: u64) -> findings::Finding {
        let found = finding::Finding {
            id,
            title: format!("{}, which costs {saves}", id.name()),
            evidence: finding::Evidence::default(),
            explanation: String::new(),
            fix: String::new(),
            saves: Known::exactly(saves),
        };
        findings::Finding::of(&found, &[])
    }

    /// A wait in few of the steps was promised to cost 7 % of a run, which then "lost 4 µs": the median had not changed.
    #[test]
    fn what_a_run_gained_is_of_all_its_steps() {
        let of = |mean: f64| {
            let steps = Steps { mean_ns: Some(mean), ..steps(180, 2_800_000, 400_000.0) };
            Report { steps, ..Report::of(&[], &Tables::default(), &[]) }
        };
        let (before, after) = (of(3_000_000.0), of(2_900_000.0));
        let change = Change::of(&before, &after);
        assert_eq!(change.basis, Basis::Step);
        assert_eq!(Findings::of(&before, &after, &change).gained_ns, Some(180.0 * 100_000.0));
    }

    #[test]
    fn findings_are_gone_new_or_still_there() {
        let before = [finding(Id::SyncPerStep, 900), finding(Id::TinyKernels, 50)];
        let after = [finding(Id::NoOverlap, 70), finding(Id::TinyKernels, 40)];
        let rows = matched(&before, &after);
        let of = |id: &str| {
            let row = rows.iter().find(|row| row.id == id).unwrap();
            let value = |saves: Option<Estimate>| saves.map(|saves| saves.value);
            (row.state, value(row.saves_before_ns), value(row.saves_after_ns), row.title.as_str())
        };
        assert_eq!(rows.len(), 3);
        assert_eq!(of("sync-per-step"), (State::Gone, Some(900), None, "sync-per-step, which costs 900"));
        assert_eq!(of("no-overlap"), (State::New, None, Some(70), "no-overlap, which costs 70"));
        assert_eq!(of("tiny-kernels"), (State::Still, Some(50), Some(40), "tiny-kernels, which costs 40"));
    }
}
