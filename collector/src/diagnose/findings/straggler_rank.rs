//! `straggler-rank`: one rank of a job comes late to the collectives, and the others wait for it.
//!
//! What it costs is the time in which only this rank was missing: if it were as early as the one before it, each collective
//! would end by so much earlier.

use crate::analyze::ProcessReport;
use crate::analyze::estimate::{Estimate, Sum};
use crate::analyze::idle::Cause;
use crate::analyze::ranks::Ranks;
use crate::analyze::ranks::odd::{Longer, Odd};
use crate::diagnose::Facts;
use crate::diagnose::buckets::Bucket;
use crate::diagnose::finding::{Claimed, Evidence, Finding, Id, Sites};
use crate::model::names::demangle;
use crate::model::short_names::shorten;
use crate::units::{duration, plural};
use std::collections::BTreeMap;

/// The room for a kernel's name in a sentence, in columns.
const NAME: usize = 40;

/// Looks for it.
pub fn find(facts: &Facts<'_>, ranks: &Ranks) -> Option<Claimed> {
    let odd = ranks.odd.as_ref()?;
    let row = &ranks.rows[odd.place];
    let arrivals = &ranks.matched.ranks[odd.place];
    let report = &facts.reports[row.at];
    let text = format!(
        "{} waited for it alone, in {} of {} to which it came last: {}.",
        duration(arrivals.waited.value),
        arrivals.last,
        plural(arrivals.complete, "collective", "collectives"),
        what_it_does(odd)
    );
    let claim = bucket(facts, report, odd).map(|bucket| (bucket, arrivals.waited));
    Some(Claimed {
        finding: Finding {
            id: Id::StragglerRank,
            title: format!("Rank {} keeps the others waiting", row.rank),
            evidence: Evidence {
                text,
                count: arrivals.last,
                total: Some(arrivals.waited),
                kernel: Some(demangle(&odd.collective)),
                ..Evidence::default()
            },
            explanation: "A collective ends when all ranks have come to it, so the slowest rank sets the pace of the whole job."
                .to_owned(),
            fix: fix(odd.why.map(|(what, _)| what), row.rank, report.process.pid),
            saves: Estimate::exactly(0),
        },
        claims: claim.into_iter().collect::<BTreeMap<Bucket, Sum>>(),
        sites: Sites::new(),
    })
}

/// Returns the part of the wall time in which the wait for a rank is, on the GPU that the parts are about: the other ranks
/// wait in communication, and the late rank's own GPU does what takes it longer.
fn bucket(facts: &Facts<'_>, report: &ProcessReport, odd: &Odd) -> Option<Bucket> {
    let used = |report: &ProcessReport, uuid: &Option<String>| {
        report.tables.devices.iter().any(|device| device.timelines > 0 && device.uuid == *uuid)
    };
    let uuid = &facts.all.devices.get(facts.buckets.device?)?.uuid;
    let others = facts.reports.iter().filter(|other| !std::ptr::eq(*other, report));
    if !used(report, uuid) || others.into_iter().any(|other| used(other, uuid)) {
        return Some(Bucket::ExposedCommunication);
    }
    Some(match odd.why?.0 {
        Longer::Kernels => Bucket::Compute,
        Longer::Copies => Bucket::ExposedCopies,
        Longer::Idle(cause) => Bucket::Idle(cause),
    })
}

/// Says what the late rank does longer than the others, and where these wait for it.
pub fn what_it_does(odd: &Odd) -> String {
    let unit = if odd.is_per_step { "in each step" } else { "before each collective" };
    let why = match odd.why {
        Some((what, more)) => format!("{} {} longer {unit}", doing(what), duration(more)),
        None => format!("it comes {} later {unit}", duration(odd.late)),
    };
    format!("{why}; the others wait for it in {}", operation(&odd.collective))
}

/// The beginnings of NCCL's kernels: before 2.19, since then, and on symmetric memory in 2.27 and since 2.28.
const NCCL: [&str; 4] = ["ncclKernel_", "ncclDevKernel_", "ncclSymDevKernel_", "ncclSymkDevKernel_"];

/// Returns the NCCL function that launches a kernel, from the kernel's symbol, as `ncclDevKernel_AllReduce_…`. For other
/// kernels it is the kernel's name.
fn operation(symbol: &str) -> String {
    let name = demangle(symbol);
    let operation = NCCL.into_iter().find_map(|start| name.split_once(start));
    let operation = operation.and_then(|(_, rest)| rest.split('_').next());
    match operation.filter(|operation| !operation.is_empty() && *operation != "Generic") {
        Some(operation) => format!("nccl{operation}"),
        None => shorten(&name, NAME),
    }
}

/// Returns what a rank does, up to the time that it does so.
fn doing(what: Longer) -> &'static str {
    match what {
        Longer::Kernels => "its kernels run",
        Longer::Copies => "its copies run",
        Longer::Idle(Cause::ExplicitSync) => "its host synchronizes",
        Longer::Idle(Cause::ImplicitSync) => "its host waits in calls that synchronize",
        Longer::Idle(Cause::Allocating) => "its host allocates memory",
        Longer::Idle(Cause::Freeing) => "its host frees memory",
        Longer::Idle(Cause::Copying) => "its host is in calls that copy",
        Longer::Idle(Cause::Launching | Cause::BetweenLaunches) => "its host launches",
        Longer::Idle(Cause::StreamWait) => "its GPU waits for other streams",
        Longer::Idle(Cause::Starting) => "its enqueued work starts",
        Longer::Idle(Cause::Loading) => "its host loads modules or compiles",
        Longer::Idle(Cause::HostCallback) => "its streams run host functions",
        Longer::Idle(Cause::OtherCall) => "its host is in other CUDA calls",
        Longer::Idle(Cause::OutsideCuda | Cause::SetUp) => "its host is outside CUDA",
        Longer::Idle(Cause::Undecided) => "its GPU is idle",
    }
}

/// Says what to change.
fn fix(what: Option<Longer>, rank: u32, pid: Option<u32>) -> String {
    let pid = pid.map_or("PID".to_owned(), |pid| pid.to_string());
    match what {
        Some(Longer::Kernels | Longer::Copies) => format!(
            "Give rank {rank} no more work than the others (uneven batches, sequence lengths or layers). If the work is the \
             same, compare its GPU with another one: nvidia-smi -q -d PERFORMANCE,CLOCK shows their clocks, and nvidia-smi \
             --query-gpu=pcie.link.gen.current,pcie.link.width.current --format=csv their links to the host."
        ),
        Some(Longer::Idle(Cause::OutsideCuda | Cause::SetUp)) => format!(
            "Look at rank {rank}'s host: more or slower input than the others have, logging or checkpoints that only it does, \
             or busy processors. py-spy dump --pid {pid} shows where it is."
        ),
        _ => format!(
            "Compare rank {rank} with another one: gpuspy report DIR --rank {rank} says what only it does."
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
        let said = fix(Some(Longer::Kernels), 3, None);
        for command in [
            "nvidia-smi -q -d PERFORMANCE,CLOCK ",
            "nvidia-smi --query-gpu=pcie.link.gen.current,pcie.link.width.current --format=csv ",
        ] {
            assert!(said.contains(command), "{said}");
        }
    }
}
