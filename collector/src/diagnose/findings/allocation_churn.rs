//! Device memory that is allocated and freed again and again while work is being done.

use super::holding;
use super::idle::without_own_cost;
use super::waits::in_series;
use crate::analyze;
use crate::analyze::estimate::{Estimate, Sum};
use crate::analyze::idle::{Cause, Site};
use crate::analyze::memory::churn::Churn;
use crate::analyze::waits;
use crate::diagnose::Facts;
use crate::diagnose::buckets::Bucket;
use crate::diagnose::finding::{Claimed, Evidence, Finding, Id, OfSite, Sites};
use crate::diagnose::framework::Advice;
use crate::units::{bytes, duration, plural};
use std::collections::{BTreeMap, BTreeSet};

const WHY: &str = "The driver takes its time to allocate and to free, and a free waits until the GPU has done all its work: the GPU has \
                   nothing to do until the next launch arrives.";
const WHY_OF_HOST: &str = "To page-lock memory, the system has to find and pin each of its pages, which takes as long as to copy it, and to free \
                           it waits until the GPU has done all its work.";

/// Calls in at least this share of the run are made again and again, and not in a phase.
const OFTEN: f64 = 0.5;

/// The fewest frees that are a habit of the program.
const HABIT: u64 = 10;

const ADVICE: Advice = Advice {
    pytorch: "If it is PyTorch's own pool that allocates (libc10_cuda.so), take torch.cuda.empty_cache() out of the loop; \
              if sizes vary, set PYTORCH_ALLOC_CONF=expandable_segments:True (before PyTorch 2.9, \
              PYTORCH_CUDA_ALLOC_CONF). An extension should allocate tensors, which come from the pool, in place of \
              cudaMalloc.",
    jax: "Leave memory to XLA's own pool: unset XLA_PYTHON_CLIENT_ALLOCATOR=platform, which calls CUDA for each array.",
    cuda: "Allocate once before the loop, or take memory from a pool: cudaMallocAsync and cudaFreeAsync, with \
           cudaMemPoolAttrReleaseThreshold above what a step needs.",
};

/// If it is page-locked memory of the host.
const PINNED: Advice = Advice {
    pytorch: "Take pinned memory from PyTorch's own cache (tensor.pin_memory(), DataLoader(pin_memory=True)): an extension should \
              not call cudaMallocHost or cudaHostRegister for each batch.",
    jax: "The calls are made by a library: let it page-lock its buffers once and use them in turn.",
    cuda: "Page-lock a few buffers once before the loop (cudaMallocHost, cudaHostRegister), and use them in turn.",
};

/// Looks for it.
pub fn find(facts: &Facts<'_>) -> Option<Claimed> {
    let churn = facts.all.memory.holders.churn.as_ref()?;
    let counts = &churn.counts;
    // What is hardly ever freed grows, and what is only freed was taken once.
    let are_both = counts.allocations.min(counts.frees) >= counts.allocations.max(counts.frees) / 2;
    if churn.spread < OFTEN || counts.frees < HABIT || !are_both {
        return None;
    }
    let how_often = churn.steps.map(|steps| {
        let each = |calls: u64| calls as f64 / steps.max(1) as f64;
        format!(" ({:.1} and {:.1} per step)", each(counts.allocations), each(counts.frees))
    });
    let waited = waits(facts);
    let text = format!(
        "{} and {} after the warm-up{}, {} in all, took the host {}.{}",
        plural(counts.allocations, "allocation", "allocations"),
        plural(counts.frees, "free", "frees"),
        how_often.unwrap_or_default(),
        bytes(counts.bytes),
        duration(counts.host_ns),
        if waited.0 > 0 {
            // The allocations and frees are those of the process in which they take most time.
            let whose = match (facts.reports.len(), analyze::processes(facts.reports).len()) {
                (0 | 1, _) => "",
                (_, 1) => " of all windows of time",
                _ => " of all processes",
            };
            let frees = plural(waited.0, "free", "frees");
            // Those of the warm-up are among them.
            let when = facts.part().map_or("the whole run", |_| "all of this part of the run");
            format!(" In {when}, {frees}{whose} waited for the GPU, for {}.", duration(waited.1))
        } else {
            String::new()
        },
    );
    // In each gap there are a free, an allocation and the next launch: what its hook does behind the launch is not.
    let calls = churn.counts.frees * 3 / 2 + churn.counts.allocations;
    let (claims, sites) = claims(facts, churn);
    let claims = without_own_cost(facts, claims, calls);
    let mut total = Sum::default();
    claims.values().for_each(|claim| total.add(*claim));
    let evidence =
        holding::evidence(&churn.origin, text, counts.allocations + counts.frees, Some(churn.first_ns));
    let is_of_host = churn.origin.api.as_deref().is_some_and(|api| api.contains("Host"));
    let finding = Finding {
        id: Id::AllocationChurn,
        title: match is_of_host {
            true => "Page-locked memory is allocated and freed again and again".to_owned(),
            false => "Memory is allocated and freed again and again".to_owned(),
        },
        evidence: Evidence { total: Some(total), ..evidence },
        explanation: if is_of_host { WHY_OF_HOST } else { WHY }.to_owned(),
        fix: if is_of_host { PINNED } else { ADVICE }.of(facts),
        saves: Estimate::exactly(0),
    };
    Some(in_series(facts, waits::Cause::is_free, Claimed { finding, claims, sites }))
}

/// Returns how many frees waited, and how long, ns.
fn waits(facts: &Facts<'_>) -> (u64, u64) {
    let of_frees = facts.all.implicit_syncs.by_api.iter().filter(|((api, _), _)| waits::Cause::is_free(api));
    of_frees.fold((0, 0), |(calls, ns), (_, waited)| (calls + waited.count, ns + waited.waited.value))
}

/// Returns the share of a site's idle time that goes with the allocations and frees: the host was in one, or the GPU had
/// run out of work because a free had waited for it. Where it is not known which calls waited, that is `behind_frees`.
fn share(facts: &Facts<'_>, cause: Cause, site: &Site, behind_frees: f64) -> f64 {
    let is_free = |api: Option<&str>| api.is_some_and(waits::Cause::is_free);
    match (cause, facts.owed_to(cause, site)) {
        (Cause::Allocating | Cause::Freeing, _) => 1.0,
        (Cause::ImplicitSync, _) if is_free(site.api.as_deref()) => 1.0,
        (_, after) if is_free(after) => 1.0,
        (Cause::Launching | Cause::Starting | Cause::OutsideCuda | Cause::OtherCall, None) => behind_frees,
        _ => 0.0,
    }
}

/// Returns which share of a thread's gaps began with a free, by the cause of the idle time in them: a gap in which the
/// host was in a free began so, and all that is in it until its end was caused by that. Empty if no free waited. Threads
/// of which some idle time is known to be owed to frees are left out.
fn behind_frees(facts: &Facts<'_>) -> BTreeMap<(Cause, Option<u32>), f64> {
    if waits(facts).0 == 0 {
        return BTreeMap::new();
    }
    let sites = &facts.idle().sites;
    let is_owed = |site: &Site| site.wait().is_some_and(waits::Cause::is_free);
    let known: BTreeSet<Option<u32>> =
        sites.keys().filter(|(_, site)| is_owed(site)).map(|(_, site)| site.tid).collect();
    let mut gaps: BTreeMap<(Cause, Option<u32>), u64> = BTreeMap::new();
    for ((cause, site), part) in sites.iter().filter(|((_, site), _)| !known.contains(&site.tid)) {
        *gaps.entry((*cause, site.tid)).or_default() += part.count;
    }
    let frees = |tid: Option<u32>| gaps.get(&(Cause::Freeing, tid)).copied().unwrap_or(0);
    let share = |((cause, tid), count): (&(Cause, Option<u32>), &u64)| {
        ((*cause, *tid), (frees(*tid) as f64 / (*count).max(1) as f64).min(1.0))
    };
    gaps.iter().map(share).collect()
}

/// Claims that idle time, in as far as it is after the warm-up, and says where it was.
fn claims(facts: &Facts<'_>, churn: &Churn) -> (BTreeMap<Bucket, Sum>, Sites) {
    let idle = facts.idle();
    let behind_frees = behind_frees(facts);
    let mut claims = BTreeMap::from([(Bucket::Idle(Cause::Allocating), Sum::default())]);
    let mut sites = Sites::new();
    for (at, ((cause, site), part)) in idle.sites.iter().enumerate() {
        let behind_frees = behind_frees.get(&(*cause, site.tid)).copied().unwrap_or(0.0);
        // The sites may be those of all devices, the buckets are those of one.
        let of_device = facts.buckets.get(Bucket::Idle(*cause)).value as f64
            / idle.by_cause.get(cause).map_or(1, |all| all.total.value.max(1)) as f64;
        let of_site = share(facts, *cause, site, behind_frees) * churn.share;
        let share = of_site * of_device.min(1.0);
        if share > 0.0 {
            let claimed = (part.total.value as f64 * of_site) as u64;
            sites.insert((Bucket::Idle(*cause), at), OfSite { claimed, whole: part.total.value });
            let of = |ns: u64| (ns as f64 * share) as u64;
            let Sum { value, lo, hi } = part.total;
            let claim = Sum { value: of(value), lo: of(lo), hi: of(hi) };
            claims.entry(Bucket::Idle(*cause)).or_default().add(claim);
        }
    }
    (claims, sites)
}
