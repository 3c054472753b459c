//! `stuck-collective`: ranks wait in a collective that does not end, though all of them are there.

use super::stopped::{collective, evidence, finding, last_launch, report, waited};
use super::straggler_rank::operation;
use crate::analyze::ranks::stopped::{Stopped, Why};
use crate::diagnose::Facts;
use crate::diagnose::finding::{Claimed, Id};
use crate::diagnose::rank_names::{named, numbers, with_host};
use crate::model::hangs::Hang;
use crate::units::{capital, count, duration};
use std::collections::BTreeMap;

/// The most collectives that are named.
const NAMED: usize = 4;

/// Looks for it.
pub fn find(facts: &Facts<'_>) -> Option<Claimed> {
    let stopped = facts.ranks.stopped.as_ref()?;
    let first = absent(stopped).first().map(|place| report(facts, *place));
    let text = said(facts, stopped)?.join(" ");
    Some(finding(
        Id::StuckCollective,
        title(facts, stopped)?,
        evidence(stopped, first, text),
        "A collective ends when all ranks have come to it. Without one of them the others wait until something ends them.",
        fix(facts, stopped)?,
    ))
}

/// Returns what to say first of such a job, in two sentences at most.
pub fn lead(facts: &Facts<'_>) -> Option<Vec<String>> {
    let stopped = facts.ranks.stopped.as_ref()?;
    let title = format!("{}.", title(facts, stopped)?);
    Some([title].into_iter().chain(said(facts, stopped)?).take(2).collect())
}

fn absent(stopped: &Stopped) -> &[usize] {
    match &stopped.why {
        Why::Absent(places) => places,
        _ => &[],
    }
}

fn title(facts: &Facts<'_>, stopped: &Stopped) -> Option<String> {
    let what = collective(stopped);
    Some(match &stopped.why {
        Why::Failed { .. } => return None,
        Why::Absent(places) => {
            let who = capital(&with_host(facts.ranks, places));
            format!("{who} did not come to {what}, in which the others wait")
        }
        Why::Different => "All ranks wait in collectives, and not in the same one".to_owned(),
        Why::Same => format!("All ranks came to {what}, and it did not end"),
    })
}

/// Returns what is known, in sentences.
fn said(facts: &Facts<'_>, stopped: &Stopped) -> Option<Vec<String>> {
    Some(match &stopped.why {
        Why::Failed { .. } => return None,
        Why::Absent(places) => {
            let waited = format!("{}.", waited(facts, stopped, "there"));
            let first = report(facts, *places.first()?);
            [waited].into_iter().chain(last_launch(first)).chain(blocked(&first.process.hangs)).collect()
        }
        Why::Different => {
            vec![format!("After {}: {}.", duration(stopped.longest()), by_collective(facts, stopped))]
        }
        Why::Same => vec![format!("{}.", waited(facts, stopped, "in it"))],
    })
}

/// Says in which call a thread of a rank is blocked.
fn blocked(hangs: &[Hang]) -> Option<String> {
    let call = hangs.iter().filter(|hang| !hang.is_over).find_map(|hang| hang.call.as_ref())?;
    let api = call.api.as_deref().unwrap_or("a CUDA call");
    Some(format!("Its thread {} was in {api} for {}.", call.tid, duration(call.age)))
}

/// Says which ranks are in which collective, and in which of its launches.
fn by_collective(facts: &Facts<'_>, stopped: &Stopped) -> String {
    let mut places: BTreeMap<(&str, u64), Vec<usize>> = BTreeMap::new();
    for wait in &stopped.waits {
        places.entry((&wait.collective, wait.launched)).or_default().push(wait.place);
    }
    let mut all: Vec<String> = places
        .iter()
        .take(NAMED)
        .map(|((symbol, launched), places)| {
            let (who, what) = (named(&numbers(facts.ranks, places)), operation(symbol));
            let of = if *launched > 0 { format!(" number {}", count(*launched)) } else { String::new() };
            format!("{who} in {what}{of}")
        })
        .collect();
    let more = places.len().saturating_sub(NAMED);
    all.extend((more > 0).then(|| format!("others in {more} more")));
    all.join("; ")
}

/// Says where to look.
fn fix(facts: &Facts<'_>, stopped: &Stopped) -> Option<String> {
    Some(match &stopped.why {
        Why::Failed { .. } => return None,
        Why::Absent(places) => {
            let (who, pid) = (with_host(facts.ranks, places), report(facts, *places.first()?).process.pid);
            let pid = pid.map_or_else(|| "PID".to_owned(), |pid| pid.to_string());
            format!(
                "Look at what the host of {who} does: py-spy dump --pid {pid}, or gdb -p {pid}, shows it while the job hangs. \
                 It may have taken another branch than the others, have run out of input, or wait for a lock, a file or another \
                 process."
            )
        }
        Why::Different => "Let all ranks call the same collectives in the same order: a branch that depends on the rank or on \
                           its data changes that. Run again with TORCH_DISTRIBUTED_DEBUG=DETAIL, which compares them."
            .to_owned(),
        Why::Same => "Look at the network between the ranks: NCCL_DEBUG=INFO names the interfaces that NCCL uses, and \
                      nvidia-smi nvlink -s and ibstat the state of links."
            .to_owned(),
    })
}
