//! `straggler-rank`: one rank of a job, or several, come late to the collectives, and the others wait for them.
//!
//! What it costs is the time in which only these ranks were missing, beyond the time for which the others are waited for at
//! times: if they were like the others, they would also be.

use crate::analyze::ProcessReport;
use crate::analyze::estimate::{Estimate, Sum};
use crate::analyze::idle::Cause;
use crate::analyze::ranks::odd::{Longer, Odd, Unit};
use crate::analyze::ranks::{Missing, Ranks};
use crate::diagnose::Facts;
use crate::diagnose::buckets::Bucket;
use crate::diagnose::finding::{Claimed, Evidence, Finding, Id, Sites};
use crate::diagnose::rank_names::{named, numbers, with_host};
use crate::model::names::demangle;
use crate::model::short_names::shorten;
use crate::units::{capital, duration, plural};
use std::collections::BTreeMap;

/// The room for a kernel's name in a sentence, in columns.
const NAME: usize = 40;

/// Looks for it.
pub fn find(facts: &Facts<'_>) -> Option<Claimed> {
    let ranks = facts.ranks;
    let odd = ranks.odd.as_ref()?;
    let reports: Vec<&ProcessReport> =
        odd.places.iter().map(|place| &facts.reports[ranks.rows[*place].at]).collect();
    let numbers = numbers(ranks, &odd.places);
    let who = with_host(ranks, &odd.places);
    let (verb, them, it) = if numbers.len() > 1 { ("keep", "them", "they") } else { ("keeps", "it", "it") };
    let (last, complete) = odd.last;
    let text = format!(
        "{} waited for {them} alone, in {last} of {} to which {it} came last{}: {}.{}",
        duration(odd.waited.value),
        plural(complete, "collective", "collectives"),
        beyond(odd),
        what_they_do(odd),
        missing(ranks).map_or_else(String::new, |said| format!(" {}.", capital(&unknown(ranks, &said))))
    );
    let claim = bucket(facts, &reports, odd).map(|bucket| (bucket, odd.excess));
    Some(Claimed {
        finding: Finding {
            id: Id::StragglerRank,
            title: format!("{} {verb} the others waiting", capital(&who)),
            evidence: Evidence {
                text,
                count: last,
                total: Some(odd.waited),
                kernel: Some(demangle(&odd.collective)),
                ..Evidence::default()
            },
            explanation: "A collective ends when all ranks have come to it, so the slowest rank sets the pace of the whole job."
                .to_owned(),
            fix: fix(odd.why.map(|(what, _)| what), &numbers, reports.first()?.process.pid),
            saves: Estimate::exactly(0),
        },
        claims: claim.into_iter().collect::<BTreeMap<Bucket, Sum>>(),
        sites: Sites::new(),
    })
}

/// Says which ranks have no trace; `None` if all have one.
pub fn missing(ranks: &Ranks) -> Option<String> {
    let Missing { ranks: missing, of } = &ranks.missing;
    let numbers: Vec<u32> = missing.iter().copied().collect();
    let have = if numbers.len() > 1 { "have" } else { "has" };
    (!numbers.is_empty()).then(|| format!("{} of {of} {have} no trace", named(&numbers)))
}

/// Says what is not known about [missing] ranks.
pub fn unknown(ranks: &Ranks, missing: &str) -> String {
    let them = if ranks.missing.ranks.len() > 1 { "them" } else { "it" };
    format!("{missing}: how long the others wait for {them} is not known")
}

/// Says how much of the wait is not what ranks wait for the others as well.
fn beyond(odd: &Odd) -> String {
    let Odd { waited, excess, .. } = odd;
    if excess.value >= waited.value - waited.value / 50 {
        return String::new();
    }
    format!(", {} more than for ranks like the others", duration(excess.value))
}

/// Returns the part of the wall time in which the wait for ranks is, on the GPU that the parts are about: the other ranks
/// wait in communication, and the late ranks' own GPUs do what takes them longer.
fn bucket(facts: &Facts<'_>, reports: &[&ProcessReport], odd: &Odd) -> Option<Bucket> {
    let used = |report: &ProcessReport, uuid: &Option<String>| {
        report.tables.devices.iter().any(|device| device.timelines > 0 && device.uuid == *uuid)
    };
    let uuid = &facts.all.devices.get(facts.buckets.device?)?.uuid;
    let is_late = |one: &ProcessReport| reports.iter().any(|late| std::ptr::eq(*late, one));
    let mut others = facts.reports.iter().filter(|other| !is_late(other));
    if !reports.iter().any(|report| used(report, uuid)) || others.any(|other| used(other, uuid)) {
        return Some(Bucket::ExposedCommunication);
    }
    Some(match odd.why?.0 {
        Longer::Kernels => Bucket::Compute,
        Longer::Copies => Bucket::ExposedCopies,
        Longer::Idle(cause) => Bucket::Idle(cause),
    })
}

/// Says what the late ranks do longer than the others, and where these wait for them.
pub fn what_they_do(odd: &Odd) -> String {
    let (whose, they_come, them) =
        if odd.places.len() > 1 { ("each one's", "they come", "them") } else { ("its", "it comes", "it") };
    let unit = match odd.unit {
        Unit::Step => " in each step".to_owned(),
        Unit::Collective => " before each collective".to_owned(),
        Unit::Run(few, compared) => {
            format!(" in all, most of it before {few} of {}", plural(compared, "collective", "collectives"))
        }
    };
    let why = match odd.why {
        Some((what, more)) => format!("{whose} {} {} longer{unit}", doing(what), duration(more)),
        None => format!("{they_come} {} later{}", duration(odd.late), unit.replace("before", "to")),
    };
    format!("{why}; the others wait for {them} in {}", operation(&odd.collective))
}

/// The beginnings of NCCL's kernels: before 2.19, since then, and on symmetric memory in 2.27 and since 2.28.
const NCCL: [&str; 4] = ["ncclKernel_", "ncclDevKernel_", "ncclSymDevKernel_", "ncclSymkDevKernel_"];

/// Returns the NCCL function that launches a kernel, from the kernel's symbol, as `ncclDevKernel_AllReduce_…`. For other
/// kernels it is the kernel's name.
pub fn operation(symbol: &str) -> String {
    let name = demangle(symbol);
    let operation = NCCL.into_iter().find_map(|start| name.split_once(start));
    let operation = operation.and_then(|(_, rest)| rest.split('_').next());
    match operation.filter(|operation| !operation.is_empty() && *operation != "Generic") {
        Some(operation) => format!("nccl{operation}"),
        None => shorten(&name, NAME),
    }
}

/// Returns what a rank does, after whose it is and up to the time that it does so.
fn doing(what: Longer) -> &'static str {
    match what {
        Longer::Kernels => "kernels run",
        Longer::Copies => "copies run",
        Longer::Idle(Cause::ExplicitSync) => "host synchronizes",
        Longer::Idle(Cause::ImplicitSync) => "host waits in calls that synchronize",
        Longer::Idle(Cause::Allocating) => "host allocates memory",
        Longer::Idle(Cause::Freeing) => "host frees memory",
        Longer::Idle(Cause::Copying) => "host is in calls that copy",
        Longer::Idle(Cause::Launching | Cause::BetweenLaunches) => "host launches",
        Longer::Idle(Cause::StreamWait) => "GPU waits for other streams",
        Longer::Idle(Cause::Starting) => "enqueued work starts",
        Longer::Idle(Cause::Loading) => "host loads modules or compiles",
        Longer::Idle(Cause::HostCallback) => "streams run host functions",
        Longer::Idle(Cause::OtherCall) => "host is in other CUDA calls",
        Longer::Idle(Cause::OutsideCuda | Cause::SetUp) => "host is outside CUDA",
        Longer::Idle(Cause::Undecided) => "GPU is idle",
    }
}

/// Says what to change.
fn fix(what: Option<Longer>, ranks: &[u32], pid: Option<u32>) -> String {
    let pid = pid.map_or("PID".to_owned(), |pid| pid.to_string());
    let first = ranks.first().copied().unwrap_or(0);
    let (these, gpu, they, host) = match ranks {
        [_] => (named(ranks), "its GPU", "it does", format!("rank {first}'s host")),
        _ => (named(ranks), "their GPUs", "they do", format!("the hosts of {}", named(ranks))),
    };
    match what {
        Some(Longer::Kernels | Longer::Copies) => format!(
            "Give {these} no more work than the others (uneven batches, sequence lengths or layers). If the work is the \
             same, compare {gpu} with another one: nvidia-smi -q -d PERFORMANCE,CLOCK shows their clocks, and nvidia-smi \
             --query-gpu=pcie.link.gen.current,pcie.link.width.current --format=csv their links to the host."
        ),
        Some(Longer::Idle(Cause::OutsideCuda | Cause::SetUp)) => format!(
            "Look at {host}: more or slower input than the others have, logging or checkpoints that only {they}, or busy \
             processors. py-spy dump --pid {pid} shows where rank {first} is."
        ),
        _ => format!(
            "Compare {these} with another one: gpuspy report DIR --rank {first} says what only rank {first} does."
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Those on symmetric memory were given as the kernel's name.
    #[test]
    fn nccls_kernels_on_symmetric_memory_are_said_by_their_function() {
        for (symbol, said) in [
            ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "ncclAllReduce"),
            ("ncclSymDevKernel_AllReduce_RSxLD_AGxST_sum_bf16(ncclSymDevArgs)", "ncclAllReduce"),
            ("ncclSymkDevKernel_ReduceScatter_LD_sum_f32(ncclSymkDevWorkArgs4K)", "ncclReduceScatter"),
        ] {
            assert_eq!(operation(symbol), said);
        }
    }

    /// `PCIE` is nothing that `nvidia-smi -d` displays.
    #[test]
    fn the_advice_to_compare_gpus_is_a_command_that_nvidia_smi_knows() {
        let said = fix(Some(Longer::Kernels), &[3], None);
        for command in [
            "nvidia-smi -q -d PERFORMANCE,CLOCK ",
            "nvidia-smi --query-gpu=pcie.link.gen.current,pcie.link.width.current --format=csv ",
        ] {
            assert!(said.contains(command), "{said}");
        }
    }
}
