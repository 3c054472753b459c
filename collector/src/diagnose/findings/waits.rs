//! What the findings about waits of the host for the GPU share.
//!
//! A wait empties the GPU's queue, so the GPU is idle until the host has launched more, and again wherever the host comes too
//! late for what follows. The gain is the idle time that [would not be there](crate::analyze::idle::without_waits) without
//! the waits.

use super::super::Facts;
use super::super::buckets::Bucket;
use super::super::finding::{Claimed, OfSite};
use super::idle::Idle;
use crate::analyze::idle::{Cause, HABIT, Site, Wait};
use crate::analyze::memory::pools::pool_of;
use crate::model::stacks::Frame;
use std::collections::BTreeMap;

/// Behind one of so many calls, at least, the GPU must be idle, or in every other step.
const OFTEN: u64 = 10;

/// Waits, and what they cost.
#[derive(Debug)]
pub struct Waits<'a> {
    /// The idle time that is owed to them.
    pub idle: Idle<'a>,
    /// How many of them left the GPU idle.
    pub count: u64,
    /// The API that most of the idle time is behind.
    pub api: Option<&'a str>,
    /// Whether they were in more than one API.
    is_of_several: bool,
}

impl<'a> Waits<'a> {
    /// Returns the cost of the waits in these APIs; `None` if they leave the GPU idle rarely.
    pub fn of(facts: &Facts<'a>, is_wait: impl Fn(&str) -> bool) -> Option<Waits<'a>> {
        let is = |api: Option<&str>| api.is_some_and(&is_wait);
        let is_rare = |site: &Site| own_wait(site).is_some_and(|wait| facts.is_rare(&wait));
        let idle = Idle::of(facts, |cause, site| {
            let is_own = is_in_wait(cause) && is(site.api.as_deref()) && !is_rare(site);
            is_own || is(facts.owed_to(cause, site))
        });
        let mut by_api: BTreeMap<&str, u64> = BTreeMap::new();
        for (wait, emptied) in &facts.idle().waits {
            if emptied.count > 0 && is_wait(&wait.api) && !facts.is_rare(wait) {
                *by_api.entry(&wait.api).or_default() += emptied.count;
            }
        }
        // A wait that leaves several GPUs idle is counted for each of them.
        let calls =
            |api: &str, most: u64| facts.all.apis.get(api).map_or(most, |calls| calls.count.min(most));
        let count = by_api.iter().map(|(api, count)| calls(api, *count)).sum();
        // The site may be that of a wait that is owed to another one.
        let api = idle.main.and_then(|site: &Site| {
            let of_wait = site.wait().filter(|api| is_wait(api));
            of_wait.or(site.api.as_deref().filter(|api| is_wait(api)))
        });
        let waits = Waits { idle, count, api, is_of_several: by_api.len() > 1 };
        waits.are_habit(facts).then_some(waits)
    }

    /// Whether the GPU is idle behind many of the waits. A loop that waits for an earlier step keeps the GPU busy, except
    /// where the host was held up.
    fn are_habit(&self, facts: &Facts<'a>) -> bool {
        // One wait is many queries.
        let api = self.api.filter(|api| !is_query(api));
        let calls = api.and_then(|api| facts.all.apis.get(api)).map_or(0, |calls| calls.count);
        let is_in_steps = facts.steps() > 0 && self.count >= facts.steps() / 2;
        self.count >= HABIT && (self.count >= calls / OFTEN || is_in_steps)
    }
}

impl Waits<'_> {
    /// Returns that API, and says if other APIs have a part of the waits.
    pub fn named(&self) -> Option<String> {
        let api = self.api?;
        Some(if self.is_of_several { format!("{api} and others") } else { api.to_owned() })
    }
}

/// Says of idle time that a finding claims, where another wait comes directly after those that it is owed to, that only without both it is
/// gained. Nothing of that is certain, unless the other one is also `is_own`: a wait that the finding is about.
pub fn in_series(facts: &Facts<'_>, is_own: impl Fn(&str) -> bool, mut claimed: Claimed) -> Claimed {
    let mut behind: BTreeMap<&Wait, u64> = BTreeMap::new();
    let mut shares: BTreeMap<Bucket, [u64; 2]> = BTreeMap::new();
    let mut all = 0u64;
    for (at, ((cause, site), _)) in facts.idle().sites.iter().enumerate() {
        let bucket = Bucket::Idle(*cause);
        let Some(OfSite { claimed: ns, .. }) = claimed.sites.get(&(bucket, at)) else { continue };
        all = all.saturating_add(*ns);
        let [certain, whole] = shares.entry(bucket).or_default();
        *whole += ns;
        let is_second = |wait: &&Wait| facts.owed_to(*cause, site).is_some() && !is_of_allocator(wait);
        let second = site.then_waited.as_ref().filter(is_second);
        if let Some(wait) = second {
            *behind.entry(wait).or_default() += ns;
        }
        if second.is_none_or(|wait| is_own(&wait.api)) {
            *certain += ns;
        }
    }
    for (bucket, claim) in &mut claimed.claims {
        if let Some([certain, whole]) = shares.get(bucket) {
            claim.lo = claim.share(*certain, *whole).lo;
        }
    }
    let second = behind.into_iter().max_by_key(|(_, ns)| *ns).filter(|(_, ns)| *ns >= all / 2);
    if let Some((Wait { api, line }, _)) = second {
        let at = line.as_ref().map_or_else(String::new, |line| format!(" at {}", line.short_place()));
        claimed.finding.fix += &format!(
            " {api}{at} comes directly after that wait, and waits for the same work without it: only without both is this gained."
        );
    }
    claimed
}

/// Returns the wait that a thread was in.
fn own_wait(site: &Site) -> Option<Wait> {
    Some(Wait { api: site.api.clone()?, line: site.source.line.clone() })
}

/// Whether a thread was in a call that waits.
pub fn is_in_wait(cause: Cause) -> bool {
    matches!(cause, Cause::ExplicitSync | Cause::ImplicitSync | Cause::Copying)
}

/// Whether an API asks whether work is done: a loop of such calls is a wait.
pub fn is_query(api: &str) -> bool {
    matches!(api, "cudaEventQuery" | "cuEventQuery" | "cudaStreamQuery" | "cuStreamQuery")
}

/// Whether a wait is a query of an allocator, of GPU memory or of pinned memory: it asks which blocks are free again, and waits for nothing.
pub fn is_of_allocator(wait: &Wait) -> bool {
    let is_allocator =
        |line: &Frame| pool_of(&line.library).is_some() || line.function.contains("CachingHostAllocator");
    is_query(&wait.api) && wait.line.as_ref().is_some_and(is_allocator)
}

/// Whether an API waits for all work of a device or of a context.
pub fn is_device_wide(api: &str) -> bool {
    matches!(api, "cudaDeviceSynchronize" | "cuCtxSynchronize" | "cudaThreadSynchronize")
}

#[cfg(test)]
mod tests {
    use super::super::super::buckets::Buckets;
    use super::*;
    use crate::analyze::Tables;
    use crate::analyze::estimate::Sum;
    use crate::analyze::idle::running::{Outside, Running};
    use crate::analyze::idle::{Emptied, Part};
    use crate::analyze::ranks::Ranks;
    use crate::analyze::summary::{ProcessInfo, ProcessReport};
    use crate::model::stacks::Frame;

    const OUTSIDE: Bucket = Bucket::Idle(Cause::OutsideCuda);
    const WAIT: &str = "cuStreamSynchronize";

    fn exactly(value: u64) -> Sum {
        Sum { value, lo: value, hi: value }
    }

    /// So many waits, in steps that are not known.
    fn emptied(count: u64) -> Emptied {
        Emptied { count, steps: 0 }
    }

    /// Returns what waits cost, of which `count` left the GPU idle, for 1000 ns in all; it was idle for another 1000 ns for
    /// another reason. There are `calls` of the wait.
    fn cost(count: u64, calls: u64) -> Option<u64> {
        let wait = |api: &str| Wait { api: api.to_owned(), line: None };
        let site = |api: Option<&str>| Site { after_wait: api.map(wait), ..Site::default() };
        let part = Part { count, total: exactly(1_000) };
        let mut all = Tables::default();
        all.apis.entry(WAIT.to_owned()).or_default().count = calls;
        all.idle.sites = [Some(WAIT), None].map(|wait| ((Cause::OutsideCuda, site(wait)), part)).into();
        all.idle.by_cause = [(Cause::OutsideCuda, Part { count: 2 * count, total: exactly(2_000) })].into();
        all.idle.waits = [(wait(WAIT), emptied(count))].into();
        let parts = [(OUTSIDE, exactly(2_000)), (Bucket::Compute, exactly(8_000))].into();
        let buckets = Buckets { wall: 10_000, parts, ..Buckets::default() };
        let facts = Facts { reports: &[], all: &all, buckets: &buckets, ranks: &Ranks::default() };
        let waits = Waits::of(&facts, |api| api == WAIT)?;
        assert_eq!(waits.api, Some(WAIT));
        Some(waits.idle.claims[&OUTSIDE].value)
    }

    /// A wait in `cuStreamSynchronize` behind another one was reported with that one's name and its own count.
    #[test]
    fn a_wait_that_is_owed_to_another_has_its_own_name() {
        let after_wait = Some(Wait { api: "cuMemcpyHtoDAsync".to_owned(), line: None });
        let site = Site { api: Some(WAIT.to_owned()), after_wait, ..Site::default() };
        let part = Part { count: 20, total: exactly(1_000) };
        let mut all = Tables::default();
        all.idle.sites = [((Cause::ExplicitSync, site), part)].into();
        all.idle.by_cause = [(Cause::ExplicitSync, part)].into();
        let wait = |api: &str| Wait { api: api.to_owned(), line: None };
        all.idle.waits = [(wait(WAIT), emptied(20)), (wait("cuMemcpyHtoDAsync"), emptied(5))].into();
        let buckets = Buckets::default();
        let facts = Facts { reports: &[], all: &all, buckets: &buckets, ranks: &Ranks::default() };
        assert_eq!(Waits::of(&facts, |api| api == WAIT).unwrap().api, Some(WAIT));
    }

    /// The advice to a thread that waits for its data loader was not to read the loss, which gains nothing: the loader comes no earlier.
    #[test]
    fn what_a_thread_waits_for_off_the_cpu_is_owed_to_no_wait_for_the_gpu() {
        let owed = |runnable: u64, ran: u64, is_long| {
            let wait = Wait { api: WAIT.to_owned(), line: None };
            let site = Site { after_wait: Some(wait.clone()), is_long, ..Site::default() };
            let running = Running {
                outside: exactly(1_000),
                sampled: 1_000,
                runnable: exactly(runnable),
                ran: exactly(ran),
                ..Running::default()
            };
            let mut all = Tables::default();
            all.idle.running = [(Outside::Long, running)].into();
            all.idle.waits = [(wait, emptied(20))].into();
            let buckets = Buckets::default();
            let facts = Facts { reports: &[], all: &all, buckets: &buckets, ranks: &Ranks::default() };
            let of = |cause| facts.owed_to_habit(cause, &site).is_some();
            [of(Cause::OutsideCuda), of(Cause::Launching)]
        };
        assert_eq!(owed(100, 100, true), [false, true]);
        assert_eq!(owed(900, 900, true), [true, true], "it computes");
        assert_eq!(owed(800, 100, true), [false, true], "it has its input, and waits for a processor");
        assert_eq!(owed(1_000, 300, true), [true, true], "it computes, and waits for a processor");
        assert_eq!(owed(100, 100, false), [true, true], "Python does that between two calls");
    }

    /// Three processes that sleep between their requests, each host-bound, were said to be bound by their waits where they share a GPU.
    #[test]
    fn what_processes_that_share_a_gpu_wait_for_off_the_cpu_is_owed_to_no_wait_for_the_gpu() {
        let wait = Wait { api: WAIT.to_owned(), line: None };
        let site = Site { after_wait: Some(wait.clone()), is_long: true, ..Site::default() };
        let tables = |ran: Sum| {
            let (outside, runnable) = (exactly(1_000), ran);
            let running = Running { outside, sampled: 1_000, runnable, ran, ..Running::default() };
            let mut tables = Tables::default();
            tables.idle.running = [(Outside::Long, running)].into();
            tables.idle.waits = [(wait.clone(), emptied(20))].into();
            tables
        };
        // Each thread leads a small part of the gaps of the GPU, and may have run in all of it.
        let shared = tables(Sum { value: 500, lo: 0, hi: 1_000 });
        let is_owed = |own: u64| {
            let process = || {
                let tables = tables(exactly(own));
                ProcessReport { process: ProcessInfo::default(), tables, together: None, findings: None }
            };
            let (reports, buckets) = ([process(), process()], Buckets::default());
            let facts =
                Facts { reports: &reports, all: &shared, buckets: &buckets, ranks: &Ranks::default() };
            facts.owed_to(Cause::OutsideCuda, &site).is_some()
        };
        assert!(!is_owed(100), "both sleep");
        assert!(is_owed(900), "both compute");
    }

    /// A program that waits in each of a hundred steps waited once more before it wrote a checkpoint for a second: its report said
    /// that it would gain that second if it did not wait in every step.
    #[test]
    fn what_follows_a_single_wait_is_not_owed_to_those_of_the_loop() {
        let wait = |line: u32| Wait {
            api: WAIT.to_owned(),
            line: Some(Frame { file: "train.c".to_owned(), line, ..Frame::default() }),
        };
        let site = |line| Site { after_wait: Some(wait(line)), ..Site::default() };
        let part = |count, ns| Part { count, total: exactly(ns) };
        let mut all = Tables::default();
        all.idle.waits = [(wait(10), emptied(99)), (wait(33), emptied(1))].into();
        let places = [(10, 99, 1_000), (33, 1, 50_000)];
        all.idle.sites =
            places.map(|(line, count, ns)| ((Cause::OutsideCuda, site(line)), part(count, ns))).into();
        let buckets = Buckets::default();
        let facts = Facts { reports: &[], all: &all, buckets: &buckets, ranks: &Ranks::default() };
        let waits = Waits::of(&facts, |api| api == WAIT).unwrap();
        assert_eq!((waits.count, waits.idle.part.total), (99, exactly(1_000)));
        let is_owed = |site: &Site| facts.owed_to_habit(Cause::OutsideCuda, site).is_some();
        assert_eq!((is_owed(&site(10)), is_owed(&site(33))), (true, false), "it is the host's time");
        let both = Site { then_waited: Some(wait(33)), ..site(10) };
        assert!(!is_owed(&both), "the single wait would wait for what the loop's wait has waited for");
    }

    #[test]
    fn waits_cost_the_idle_time_that_is_owed_to_them() {
        assert_eq!(cost(20, 20), Some(1_000));
        assert_eq!(cost(9, 9), None, "that is no habit");
        assert_eq!(cost(20, 210), None, "most of them cost nothing");
    }
}
