//! `failed-rank`: one rank of a job ended before all others, and the job with it.

use super::stopped::{collective, evidence, finding, last_launch, report, waited};
use crate::analyze::ranks::stopped::{Stopped, Why};
use crate::diagnose::Facts;
use crate::diagnose::finding::{Claimed, Id};
use crate::diagnose::rank_names::with_host;
use crate::model::outcome::{Outcome, SIGKILL};
use crate::units::{capital, duration};

/// Looks for it.
pub fn find(facts: &Facts<'_>) -> Option<Claimed> {
    let Failed { stopped, place, at, before } = failed(facts)?;
    let (report, others) = (report(facts, place), waits(facts, stopped));
    let next = match &others {
        Some(_) => "any other rank",
        None => "the next rank",
    };
    let mut said = vec![format!("It ended at {}, {} before {next}.", duration(at), duration(before))];
    said.extend(others);
    said.extend(last_launch(report));
    let who = with_host(facts.ranks, &[place]);
    let outcome = report.process.outcome?;
    Some(finding(
        Id::FailedRank,
        format!("{} ended first ({outcome})", capital(&who)),
        evidence(stopped, Some(report), said.join(" ")),
        "A collective ends when all ranks have come to it. Without one of them the others wait until something ends them, so \
         the first end is the one that counts.",
        fix(outcome, &who, facts.ranks.rows[place].host.as_deref().filter(|_| facts.ranks.has_hosts())),
    ))
}

/// Returns what to say first of such a job, in two sentences at most.
pub fn lead(facts: &Facts<'_>) -> Option<Vec<String>> {
    let Failed { stopped, place, at, before } = failed(facts)?;
    let who = capital(&with_host(facts.ranks, &[place]));
    let outcome = report(facts, place).process.outcome?;
    let first = format!("{who} ended first: {outcome} at {}.", duration(at));
    let next = || format!("The next rank ended {} later.", duration(before));
    Some(vec![first, waits(facts, stopped).unwrap_or_else(next)])
}

/// The rank that failed.
struct Failed<'f> {
    stopped: &'f Stopped,
    place: usize,
    at: u64,
    before: u64,
}

fn failed<'f>(facts: &Facts<'f>) -> Option<Failed<'f>> {
    let stopped = facts.ranks.stopped.as_ref()?;
    let Why::Failed { place, at, before } = stopped.why else { return None };
    Some(Failed { stopped, place, at, before })
}

/// Says which ranks waited for it, in a sentence; `None` if none did.
fn waits(facts: &Facts<'_>, stopped: &Stopped) -> Option<String> {
    (!stopped.waits.is_empty()).then(|| {
        let waited = waited(facts, stopped, &format!("for it in {}", collective(stopped)));
        let others = stopped.waits.len() + 1 < facts.ranks.rows.len();
        format!("{waited}{}.", if others { ", as far as is known" } else { "" })
    })
}

/// Says where to look.
fn fix(outcome: Outcome, who: &str, host: Option<&str>) -> String {
    let on = host.map_or_else(String::new, |host| format!(" on {host}"));
    match outcome {
        Outcome::Killed(SIGKILL) => format!(
            "Look whether memory ran out: dmesg -T | grep -i 'killed process'{on}. So the system ends processes where the \
             machine's memory or the container's limit is reached; else the launcher's or the scheduler's log says who \
             killed {who}."
        ),
        Outcome::Killed(_) => {
            format!(
                "Find out what ended {who}: the log of the launcher or of the scheduler says so (a time limit, a person)."
            )
        }
        Outcome::Crashed(_) => format!(
            "Look for where {who} crashed: its standard error, or coredumpctl gdb{on}. Run again with PYTHONFAULTHANDLER=1 for \
             its Python stack."
        ),
        Outcome::Exited(None) | Outcome::Vanished => format!(
            "Look in the output of {who} for how it ended: its exit code is not known. Those of the other ranks follow from it."
        ),
        Outcome::Exited(Some(0)) | Outcome::Left(0) => format!(
            "Let all ranks make the same number of steps: {who} had no more. drop_last=True of DataLoader and \
             DistributedSampler, or torch.distributed.algorithms.Join."
        ),
        _ => {
            format!("Look for the error of {who} in its own output. Those of the other ranks follow from it.")
        }
    }
}
