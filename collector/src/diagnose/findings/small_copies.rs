//! `small-copies`: many small copies, whose fixed cost is more than that of their bytes.

use super::super::Facts;
use super::super::buckets::Bucket;
use super::super::finding::{Claimed, Finding, Id};
use super::super::framework::Advice;
use super::copies::Found;
use super::idle::{Idle, times};
use crate::analyze::copy_sites::CopySite;
use crate::analyze::estimate::Estimate;
use crate::analyze::idle::{Cause, Next, Site};
use crate::analyze::source::Source;
use crate::analyze::transfers::SizeClass;
use crate::model::transfer::TransferKind;
use crate::units::{bytes, count, duration};
use std::collections::BTreeSet;

const FIX: Advice = Advice {
    pytorch: "Copy once: collate the tensors of a batch into one (torch.stack or torch.cat on the host, in the \
              DataLoader's collate_fn), move that, and take views of it on the GPU. Create constants on the GPU \
              (device=...), once.",
    jax: "Put one pytree or one stacked array on the device instead of many scalars and small arrays.",
    cuda: "Gather the data in one page-locked buffer and copy that once, or use cudaMemcpyBatchAsync (CUDA 12.8); pass \
           a few values as kernel parameters.",
};

/// The fewest small copies for each group that are worth joining.
const MANY: u64 = 8;

/// Small copies that can be joined: those of one step; where no steps were found, of one launch.
struct Many<'a> {
    found: Found<'a>,
    /// The number of steps, or of launches, and what they are.
    groups: (u64, &'static str),
    /// Their lines, and libraries.
    places: BTreeSet<&'a Source>,
}

impl<'a> Many<'a> {
    fn of(facts: &Facts<'a>) -> Option<Many<'a>> {
        let found = Found::of(facts, is_small)?;
        let kernels: u64 = facts.all.kernels.iter().map(|kernel| kernel.count).sum();
        let launches = kernels.saturating_add(facts.all.graphs.launches);
        let groups = match facts.steps() {
            0 => (launches, "launch"),
            steps => (steps, "step"),
        };
        let sites = facts.all.copy_sites.keys().filter(|site| is_small(site));
        let places = sites.map(|site| &site.source).collect();
        // A program that launches nothing has no groups: nothing says which of its copies belong together.
        let are_many = groups.0 > 0 && found.all.count >= MANY * groups.0;
        are_many.then_some(Many { found, groups, places })
    }

    /// Whether idle time is that between two of them, for which the host prepares one after the other.
    fn is_between(&self, cause: Cause, site: &Site) -> bool {
        let is_outside = matches!(cause, Cause::OutsideCuda | Cause::BetweenLaunches);
        is_outside && site.next == Next::MoreInput && self.places.contains(&site.source)
    }
}

/// Returns a function that tells which idle time is that between two small copies of one line.
pub fn between<'a>(facts: &Facts<'a>) -> impl Fn(Cause, &Site) -> bool + use<'a> {
    let many = Many::of(facts);
    move |cause, site| many.as_ref().is_some_and(|many| many.is_between(cause, site))
}

/// Looks for it.
pub fn find(facts: &Facts<'_>) -> Option<Claimed> {
    let many = Many::of(facts)?;
    let (found, (groups, of)) = (&many.found, many.groups);
    let each = rounded(found.all.count, groups);
    let saved = 1.0 - groups as f64 / found.all.count as f64;
    let is_in_copy = |cause, site: &Site| {
        cause == Cause::Copying && site.api.as_deref().is_some_and(|api| found.apis.contains(api))
    };
    let idle = Idle::of(facts, |cause, site| is_in_copy(cause, site) || many.is_between(cause, site));
    let text = format!(
        "{} copies of at most 64 KiB, {} in all and {} for each {of}; the GPU ran nothing but them for {}, and was idle \
         for {} while the host made their calls, one after the other.",
        count(found.all.count),
        bytes(found.all.bytes),
        count(each),
        duration(found.exposed.value),
        duration(idle.part.total.value)
    );
    let mut claims = idle.claims;
    claims.insert(Bucket::ExposedCopies, found.exposed);
    claims.values_mut().for_each(|sum| *sum = times(*sum, [saved; 3]));
    Some(Claimed {
        finding: Finding {
            id: Id::SmallCopies,
            title: format!("{} small copies for each {of}", count(each)),
            evidence: found.evidence(text),
            explanation:
                "Each copy costs the host a call and the GPU more than a microsecond, whatever its size."
                    .to_owned(),
            fix: FIX.of(facts),
            saves: Estimate::exactly(0),
        },
        claims,
        sites: idle.sites,
    })
}

/// Whether copies are small and go to the GPU or stay there, or to the host without a wait: a read that waits is
/// `sync-per-step`.
fn is_small(site: &CopySite) -> bool {
    let is_meant = match site.kind {
        _ if site.sets_up => false,
        TransferKind::HtoD | TransferKind::DtoD => true,
        TransferKind::DtoH => !site.blocks,
        _ => false,
    };
    is_meant && site.size <= SizeClass::UpTo64KiB
}

/// Returns how many copies are for each group, to the nearest number.
fn rounded(copies: u64, groups: u64) -> u64 {
    copies.saturating_add(groups / 2) / groups
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 4 500 copies in 151 steps, of which the first was the warm-up and had none, were "29 small copies for each step" of 30.
    #[test]
    fn copies_for_each_step_are_rounded_to_the_nearest_number() {
        assert_eq!([rounded(4_500, 151), rounded(4_500, 150), rounded(4_424, 150)], [30, 30, 29]);
    }
}
