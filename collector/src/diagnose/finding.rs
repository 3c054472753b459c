//! A finding: one fault of a program, with its evidence, its remedy and what that would gain.

use super::Facts;
use super::buckets::{Bucket, Buckets};
use crate::analyze::estimate::{Estimate, Sum};
use crate::analyze::source::Source;
use crate::model::named::named;
use crate::units::{between, duration};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// A function that looks for one fault.
pub type Find = fn(&Facts<'_>) -> Option<Claimed>;

/// The least gain that is worth a change, as a share of the time that is [judged](Buckets::judged): less is within what two runs of one program
/// differ by.
pub const WORTH: f64 = 0.01;

named! {
    /// The kinds of faults. The names are in JSON and in `gpuspy report --section findings`, and `docs/what-to-look-for.md`
    /// has each of them.
    pub enum Id {
        /// The GPU stopped with an error.
        GpuError = "gpu-error",
        /// The host reads a result, or waits for a stream, again and again.
        SyncPerStep = "sync-per-step",
        /// The host waits for all work of the GPU again and again.
        DeviceWideSync = "device-wide-sync",
        /// The host waits for copies and memsets that need no wait.
        SynchronousCopies = "synchronous-copies",
        /// Copies from or to ordinary memory.
        PageableCopies = "pageable-copies",
        /// Many copies of little data.
        SmallCopies = "small-copies",
        /// A copy on the GPU before a matrix product.
        HiddenCopy = "hidden-copy",
        /// Work on the legacy default stream takes turns with other streams.
        DefaultStream = "default-stream",
        /// Copies and kernels take turns.
        NoOverlap = "no-overlap",
        /// The same data is copied to the GPU again and again.
        DuplicateUploads = "duplicate-uploads",
        /// Memory is allocated and freed again and again.
        AllocationChurn = "allocation-churn",
        /// Kernels are shorter than their launches.
        TinyKernels = "tiny-kernels",
        /// The program asks for the occupancy before launches.
        AdaptiveLaunches = "adaptive-launches",
        /// The GPU waits for the host outside CUDA.
        HostStall = "host-stall",
        /// Operations wait for functions that run on the host.
        HostFunction = "host-function",
        /// The GPU takes longer for the same work in some steps.
        SlowerGpu = "slower-gpu",
        /// Launches of one kernel take different times.
        UnstableKernel = "unstable-kernel",
        /// The last wave of blocks fills little of the GPU.
        TailWave = "tail-wave",
        /// Code is compiled and loaded again and again.
        Recompilation = "recompilation",
        /// Code is loaded and compiled before the first kernel.
        ColdStart = "cold-start",
        /// Launches wait for room in the queue: the GPU is the bound.
        QueueFull = "queue-full",
        /// gpuspy itself costs much.
        ProfilerCost = "profiler-cost",
        /// A kernel has fewer blocks than the GPU has multiprocessors.
        UnderfilledGrid = "underfilled-grid",
        /// A thread changes the GPU after each launch.
        DeviceSwitches = "device-switches",
        /// One rank ended before the others, and the job with it.
        FailedRank = "failed-rank",
        /// Ranks wait in a collective that does not end.
        StuckCollective = "stuck-collective",
        /// One rank comes late to the collectives.
        StragglerRank = "straggler-rank",
        /// Memory is reserved and not used.
        Fragmentation = "fragmentation",
        /// Memory grows from step to step.
        MemoryGrows = "memory-grows",
        /// Memory is never freed.
        NeverFreed = "never-freed",
        /// An allocation failed.
        OutOfMemory = "out-of-memory",
        /// A GPU's memory is nearly full.
        PeakMemory = "peak-memory",
    }
}

/// A fault, with the parts of the wall time that removing it would give back.
#[derive(Clone, Debug)]
pub struct Claimed {
    /// The finding; its gain is computed from the claims.
    pub finding: Finding,
    /// At most this much of each bucket, ns.
    pub claims: BTreeMap<Bucket, Sum>,
    /// Of claims of idle time: where it was.
    pub sites: Sites,
}

/// Which idle time a claim is about: by bucket and the place of a row in [`sites`](crate::analyze::idle::IdleReport::sites).
pub type Sites = BTreeMap<(Bucket, usize), OfSite>;

/// A part of a site's idle time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OfSite {
    /// What is claimed of it, ns on the GPUs that [`Facts::idle`](super::Facts::idle) is about.
    pub claimed: u64,
    /// All of it, ns on the same.
    pub whole: u64,
}

/// A fault.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// What kind of fault it is.
    pub id: Id,
    /// What was found, in a few words.
    pub title: String,
    /// What it was found by.
    pub evidence: Evidence,
    /// Why that costs time, in a sentence or two.
    pub explanation: String,
    /// What to change, in the words of the framework that the program uses.
    pub fix: String,
    /// What that would gain: ns of wall time. 0 for faults that cost something other than time.
    pub saves: Estimate<u64>,
}

impl Finding {
    /// Says in few words what removing the fault would gain: `saves 135 ms`, with the interval if that is wide, `saves at most
    /// 135 ms` if it may gain nothing, and what is true of a fault for which no time is promised.
    pub fn gain(&self) -> String {
        let Estimate { value, lo, hi, .. } = self.saves;
        match (value, lo) {
            (0, _) => self.id.unpromised().to_owned(),
            (_, 0) => format!("saves at most {}", duration(hi)),
            _ if self.saves.is_wide() => format!("saves {} ({})", duration(value), between(lo, hi)),
            _ => format!("saves {}", duration(value)),
        }
    }
}

impl Id {
    /// Says what is true of a fault for which no time is promised.
    fn unpromised(self) -> &'static str {
        match self {
            Id::Fragmentation | Id::MemoryGrows | Id::NeverFreed | Id::OutOfMemory | Id::PeakMemory => {
                "costs memory"
            }
            Id::GpuError | Id::FailedRank | Id::StuckCollective => "ends the work",
            Id::QueueFull => "costs no time",
            Id::ProfilerCost => "only when profiled",
            _ => "gain unknown",
        }
    }
}

/// What a finding was found by. Everything that does not apply is absent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Evidence {
    /// The evidence in a sentence, with its figures.
    pub text: String,
    /// How often it happened.
    pub count: u64,
    /// The time that it took, ns.
    pub total: Option<Sum>,
    /// ns from the start of the collection to the first time that it happened.
    pub first: Option<u64>,
    /// The API.
    pub api: Option<String>,
    /// The kernel, demangled.
    pub kernel: Option<String>,
    /// Where in the program most of it comes from.
    pub source: Source,
    /// The thread's id in the system.
    pub tid: Option<u32>,
}

/// Ranks findings by what they gain, after `first`: the fault that ended the program, if one did. No nanosecond is promised
/// twice: a finding gets what those before it have left of its claims, in each bucket, and of its idle time at each site. A
/// finding that claims time, and gets less than [`WORTH`] of it, is dropped.
pub fn ranked(mut claimed: Vec<Claimed>, buckets: &Buckets, first: Option<Id>) -> Vec<Finding> {
    let mut left = Left { parts: buckets.parts.clone(), taken: BTreeMap::new() };
    let mut ranked = Vec::with_capacity(claimed.len());
    while !claimed.is_empty() {
        let gains = claimed.iter().map(|claim| left.gain(claim));
        let best = gains
            .enumerate()
            .max_by_key(|(at, gain)| (Some(claimed[*at].finding.id) == first, gain.value, Reverse(*at)));
        let Some((at, gain)) = best else { break };
        let claim = claimed.remove(at);
        if !claim.claims.is_empty() && (gain.value as f64) < WORTH * buckets.judged() as f64 {
            continue;
        }
        left.take(&claim);
        ranked.push(Finding { saves: gain.estimate(), ..claim.finding });
    }
    ranked
}

/// What the findings that are ranked already have left.
struct Left {
    /// Of each bucket, ns.
    parts: BTreeMap<Bucket, Sum>,
    /// What they have claimed of each site, ns.
    taken: BTreeMap<(Bucket, usize), u64>,
}

impl Left {
    /// Returns what a claim gets.
    fn gain(&self, claimed: &Claimed) -> Sum {
        let mut gain = Sum::default();
        for (bucket, claim) in self.open(claimed) {
            let part = self.parts.get(&bucket).copied().unwrap_or_default();
            let value = claim.value.min(part.value);
            let (lo, hi) = (claim.lo.min(part.lo).min(value), claim.hi.min(part.hi).max(value));
            gain.add(Sum { value, lo, hi });
        }
        gain
    }

    /// Takes off what a claim gets.
    fn take(&mut self, claimed: &Claimed) {
        for (bucket, claim) in self.open(claimed) {
            if let Some(part) = self.parts.get_mut(&bucket) {
                part.value -= claim.value.min(part.value);
                part.lo -= claim.lo.min(part.lo);
                part.hi -= claim.hi.min(part.hi);
            }
        }
        for (site, of) in &claimed.sites {
            *self.taken.entry(*site).or_default() += of.claimed;
        }
    }

    /// Returns a finding's claims, without what was claimed already of their sites.
    fn open(&self, claimed: &Claimed) -> BTreeMap<Bucket, Sum> {
        let mut shares: BTreeMap<Bucket, (u64, u64)> = BTreeMap::new();
        for (site, of) in &claimed.sites {
            let taken = self.taken.get(site).copied().unwrap_or(0);
            let (open, all) = shares.entry(site.0).or_default();
            *open += of.claimed.min(of.whole.saturating_sub(taken));
            *all += of.claimed;
        }
        let open = |(bucket, claim): (&Bucket, &Sum)| match shares.get(bucket) {
            Some((open, all)) if open < all => (*bucket, claim.share(*open, *all)),
            _ => (*bucket, *claim),
        };
        claimed.claims.iter().map(open).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analyze::idle::Cause;
    use proptest::prelude::*;

    const PARTS: [Bucket; 4] = [
        Bucket::Compute,
        Bucket::ExposedCopies,
        Bucket::Idle(Cause::Launching),
        Bucket::Idle(Cause::OutsideCuda),
    ];

    fn exactly(value: u64) -> Sum {
        Sum { value, lo: value, hi: value }
    }

    fn divided(parts: [u64; 4]) -> Buckets {
        let parts: BTreeMap<_, _> = PARTS.into_iter().zip(parts.map(exactly)).collect();
        Buckets { wall: parts.values().map(|part| part.value).sum(), parts, ..Buckets::default() }
    }

    fn claim(id: Id, claims: [u64; 4]) -> Claimed {
        let claims = PARTS.into_iter().zip(claims).filter(|(_, ns)| *ns > 0);
        Claimed {
            finding: Finding {
                id,
                title: String::new(),
                evidence: Evidence::default(),
                explanation: String::new(),
                fix: String::new(),
                saves: Estimate::exactly(0),
            },
            claims: claims.map(|(bucket, ns)| (bucket, exactly(ns))).collect(),
            sites: Sites::new(),
        }
    }

    /// A claim of idle time outside CUDA, of these sites and how much of them is claimed, of 200 ns each.
    fn idle_claim(id: Id, sites: &[(usize, u64)]) -> Claimed {
        let ns = sites.iter().map(|(_, ns)| ns).sum();
        let of = |(at, claimed): &(usize, u64)| ((PARTS[3], *at), OfSite { claimed: *claimed, whole: 200 });
        Claimed { sites: sites.iter().map(of).collect(), ..claim(id, [0, 0, 0, ns]) }
    }

    fn gains(claimed: Vec<Claimed>, buckets: &Buckets) -> Vec<(Id, u64)> {
        ranked(claimed, buckets, None).iter().map(|found| (found.id, found.saves.value)).collect()
    }

    #[test]
    fn each_fault_is_in_the_table_of_what_to_look_for() {
        let table = include_str!("../../../docs/what-to-look-for.md");
        let missing: Vec<&str> =
            Id::ALL.map(Id::name).into_iter().filter(|id| !table.contains(&format!("`{id}`"))).collect();
        assert!(missing.is_empty(), "{missing:?}");
    }

    #[test]
    fn a_gain_is_said_in_one_way() {
        const MS: u64 = 1_000_000;
        let said = |id, lo, value, hi| {
            let finding = claim(id, [0; 4]).finding;
            Finding { saves: Estimate::new(value * MS, lo * MS, hi * MS), ..finding }.gain()
        };
        assert_eq!(said(Id::NoOverlap, 135, 135, 135), "saves 135 ms");
        assert_eq!(said(Id::NoOverlap, 130, 135, 140), "saves 135 ms", "the bounds are close");
        assert_eq!(said(Id::NoOverlap, 90, 135, 150), "saves 135 ms (90.0 .. 150 ms)");
        assert_eq!(said(Id::NoOverlap, 0, 135, 150), "saves at most 150 ms");
        assert_eq!(said(Id::MemoryGrows, 0, 0, 0), "costs memory");
        assert_eq!(said(Id::UnderfilledGrid, 0, 0, 0), "gain unknown");
        assert_eq!(said(Id::GpuError, 0, 0, 0), "ends the work");
    }

    #[test]
    fn what_ended_the_program_comes_before_what_gains_most() {
        let buckets = divided([500, 300, 100, 100]);
        let claimed = vec![claim(Id::NoOverlap, [0, 250, 0, 60]), claim(Id::GpuError, [0; 4])];
        let first = |fault| ranked(claimed.clone(), &buckets, fault)[0].id;
        assert_eq!((first(Some(Id::GpuError)), first(None)), (Id::GpuError, Id::NoOverlap));
    }

    #[test]
    fn two_findings_share_a_bucket() {
        let buckets = divided([500, 300, 100, 100]);
        let claimed = vec![claim(Id::SmallCopies, [0, 150, 0, 0]), claim(Id::NoOverlap, [0, 250, 0, 60])];
        assert_eq!(gains(claimed, &buckets), [(Id::NoOverlap, 310), (Id::SmallCopies, 50)]);
    }

    /// A loop that copies input and a result with the same call was promised the idle time behind that call twice, since the GPU was
    /// idle elsewhere, too.
    #[test]
    fn two_findings_share_the_idle_time_of_a_site() {
        let buckets = divided([500, 100, 0, 400]);
        let both = [(0, 200), (1, 100)];
        let claimed = vec![idle_claim(Id::SyncPerStep, &both), idle_claim(Id::SynchronousCopies, &both[..1])];
        assert_eq!(gains(claimed, &buckets), [(Id::SyncPerStep, 300)]);
        let claimed = vec![idle_claim(Id::HostStall, &both), idle_claim(Id::TinyKernels, &[(1, 200)])];
        assert_eq!(gains(claimed, &buckets), [(Id::HostStall, 300), (Id::TinyKernels, 100)]);
    }

    #[test]
    fn a_gain_below_one_percent_is_no_finding_unless_it_is_not_about_time() {
        let buckets = divided([960, 20, 10, 10]);
        let claimed = vec![
            claim(Id::MemoryGrows, [0; 4]),
            claim(Id::SmallCopies, [0, 9, 0, 0]),
            claim(Id::NoOverlap, [0, 0, 10, 0]),
        ];
        assert_eq!(gains(claimed, &buckets), [(Id::NoOverlap, 10), (Id::MemoryGrows, 0)]);
    }

    proptest! {
        #[test]
        fn no_nanosecond_is_promised_twice(
            parts in prop::array::uniform4(0..1_000_000u64),
            claims in prop::collection::vec(prop::array::uniform4(0..2_000_000u64), 0..8),
        ) {
            let buckets = divided(parts);
            let largest = claims.iter().map(|ns| ns.iter().zip(parts).map(|(ns, part)| (*ns).min(part)).sum::<u64>()).max();
            let found = ranked(claims.into_iter().map(|ns| claim(Id::NoOverlap, ns)).collect(), &buckets, None);
            prop_assert!(found.iter().map(|found| found.saves.value).sum::<u64>() <= buckets.wall);
            prop_assert!(found.is_sorted_by(|a, b| a.saves.value >= b.saves.value));
            prop_assert!(found.iter().all(|found| found.saves.lo <= found.saves.value && found.saves.value <= found.saves.hi));
            if let Some(first) = found.first() {
                prop_assert_eq!(Some(first.saves.value), largest, "the first gets all that it claims");
            }
        }
    }
}
