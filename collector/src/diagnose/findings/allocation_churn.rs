//! Device memory that is allocated and freed again and again while work is being done.

use super::holding;
use crate::analyze::estimate::{Estimate, Sum};
use crate::analyze::idle::{Cause, Site};
use crate::analyze::memory::churn::Churn;
use crate::analyze::waits;
use crate::diagnose::Facts;
use crate::diagnose::buckets::Bucket;
use crate::diagnose::finding::{Claimed, Evidence, Finding};
use crate::diagnose::framework::Advice;
use crate::units::{bytes, count, duration};
use std::collections::BTreeMap;

/// Calls in at least this share of the run are made again and again, and not in a phase.
const OFTEN: f64 = 0.5;

const ADVICE: Advice = Advice {
    pytorch: "If it is PyTorch's own pool that allocates (libc10_cuda.so), take torch.cuda.empty_cache() out of the loop; \
              if sizes vary, set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True. An extension should allocate \
              tensors, which come from the pool, in place of cudaMalloc.",
    jax: "Leave memory to XLA's own pool: unset XLA_PYTHON_CLIENT_ALLOCATOR=platform, which calls CUDA for each array.",
    cuda: "Allocate once before the loop, or take memory from a pool: cudaMallocAsync and cudaFreeAsync, with \
           cudaMemPoolAttrReleaseThreshold above what a step needs.",
};

/// Looks for it.
pub fn find(facts: &Facts<'_>) -> Option<Claimed> {
    let churn = facts.all.memory.holders.churn.as_ref()?;
    if churn.spread < OFTEN {
        return None;
    }
    let counts = &churn.counts;
    let how_often = churn.steps.map(|steps| {
        let each = |calls: u64| calls as f64 / steps.max(1) as f64;
        format!(" ({:.1} and {:.1} per step)", each(counts.allocations), each(counts.frees))
    });
    let waited = waits(facts);
    let text = format!(
        "{} allocations and {} frees after the warm-up{}, {} in all, took the host {}.{}",
        count(counts.allocations),
        count(counts.frees),
        how_often.unwrap_or_default(),
        bytes(counts.bytes),
        duration(counts.host_ns),
        if waited.0 > 0 {
            format!(" {} frees waited for the GPU, for {}.", count(waited.0), duration(waited.1))
        } else {
            String::new()
        },
    );
    let claims = claims(facts, churn);
    let mut total = Sum::default();
    claims.values().for_each(|claim| total.add(*claim));
    let evidence =
        holding::evidence(&churn.origin, text, counts.allocations + counts.frees, Some(churn.first_ns));
    let finding = Finding {
        id: "allocation-churn",
        title: "device memory is allocated and freed while the GPU should work".to_owned(),
        evidence: Evidence { total: Some(total), ..evidence },
        explanation:
            "The driver takes its time to allocate and to free, and a free waits until the GPU has done all \
                      its work: the GPU has nothing to do until the next launch arrives."
                .to_owned(),
        fix: ADVICE.of(facts),
        saves: Estimate::exactly(0),
    };
    Some(Claimed { finding, claims })
}

/// Returns how many frees waited, and how long, ns.
fn waits(facts: &Facts<'_>) -> (u64, u64) {
    let of_frees = facts.all.implicit_syncs.iter().filter(|((api, _), _)| waits::Cause::is_free(api));
    of_frees.fold((0, 0), |(calls, ns), (_, waited)| (calls + waited.count, ns + waited.waited.value))
}

/// Whether the idle time of a site goes with the allocations and frees: the host was in one, or the GPU had run out of
/// work because a free had waited for it.
fn is_of_churn(cause: Cause, site: &Site) -> bool {
    let is_free = |api: &Option<String>| api.as_deref().is_some_and(waits::Cause::is_free);
    match cause {
        Cause::Allocating | Cause::Freeing => true,
        Cause::Undecided => false,
        Cause::ImplicitSync => is_free(&site.api) || is_free(&site.after_wait),
        _ => is_free(&site.after_wait),
    }
}

/// Claims that idle time, in as far as it is after the warm-up.
fn claims(facts: &Facts<'_>, churn: &Churn) -> BTreeMap<Bucket, Sum> {
    let mut claims = BTreeMap::from([(Bucket::Idle(Cause::Allocating), Sum::default())]);
    for ((cause, site), part) in &facts.all.idle.sites {
        if is_of_churn(*cause, site) {
            claims.entry(Bucket::Idle(*cause)).or_default().add(part.total);
        }
    }
    for (bucket, claim) in &mut claims {
        let Bucket::Idle(cause) = bucket else { continue };
        // The sites are those of all devices, the buckets those of one.
        let all = facts.all.idle.by_cause.get(cause).map_or(0, |part| part.total.value);
        let of_device = facts.buckets.get(*bucket).value as f64 / all.max(1) as f64;
        let part = |ns: u64| (ns as f64 * of_device.min(1.0) * churn.share) as u64;
        *claim = Sum { value: part(claim.value), lo: part(claim.lo), hi: part(claim.hi) };
    }
    claims
}
