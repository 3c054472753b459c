//! Time in which a rank may wait for other ranks in a way that is not seen, as in MPI.

use super::super::Facts;
use super::super::finding::Claimed;

/// Says of a finding about what the host does outside CUDA that this may be a wait for another rank: then the time of that rank is what
/// counts, and nothing is gained here. Of ranks that communicate on the GPU, their collectives show who waits for whom.
pub fn may_be_waited_for(facts: &Facts<'_>, mut claimed: Claimed) -> Claimed {
    let is_one_of_several = facts.reports.iter().any(|report| {
        let job = &report.process.job;
        job.rank.is_some() && job.world_size.is_none_or(|size| size > 1)
    });
    let communicates = facts.reports.iter().any(|report| !report.tables.collectives.kinds.is_empty());
    if is_one_of_several && !communicates {
        claimed.claims.values_mut().for_each(|claim| claim.lo = 0);
        claimed.finding.fix += " This is one rank of several, whose GPUs do not communicate: where it waited for another rank, as in MPI, this \
                                gains nothing. Look at the rank that is busy for longest.";
    }
    claimed
}
