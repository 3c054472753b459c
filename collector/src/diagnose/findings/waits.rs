//! What the findings about waits of the host for the GPU share.
//!
//! A wait empties the GPU's queue, so the GPU is idle from the end of the wait's work until the host has launched more.
//! Without the wait, the host would be ahead, as long as it is not the slower of the two: it gains no more time than it
//! spent waiting. So the gain is the idle time behind the waits, and at most the time in them.

use super::super::Facts;
use super::super::buckets::Bucket;
use super::idle::Idle;
use crate::analyze::estimate::Sum;
use crate::analyze::idle::{Cause, Site};
use std::collections::BTreeMap;

/// The fewest waits that are a habit of the program.
const HABIT: u64 = 10;

/// Behind one of so many calls, at least, the GPU must be idle, or in every other step.
const OFTEN: u64 = 10;

/// Waits, and what they cost.
#[derive(Debug)]
pub struct Waits<'a> {
    /// How often the GPU was idle behind one.
    pub idle: Idle<'a>,
    /// What they cost, by bucket.
    pub claims: BTreeMap<Bucket, Sum>,
    /// The time that the leading threads waited, ns.
    pub waited: u64,
}

impl<'a> Waits<'a> {
    /// Returns the cost of the waits in these APIs; `None` if they leave the GPU idle rarely.
    pub fn of(facts: &Facts<'a>, is_wait: impl Fn(&str) -> bool) -> Option<Waits<'a>> {
        let is = |api: &Option<String>| api.as_deref().is_some_and(&is_wait);
        let idle = Idle::of(facts, |cause, site| is_in_wait(cause) && is(&site.api) || is(&site.after_wait));
        let leads =
            |tid: Option<u32>| idle.main.is_none_or(|site: &Site| site.tid.is_none() || site.tid == tid);
        let threads = facts.all.idle.threads.iter().filter(|thread| leads(thread.tid));
        let in_waits = [Cause::ExplicitSync, Cause::ImplicitSync];
        let waited =
            threads.flat_map(|thread| in_waits.map(|cause| thread.calls.get(&cause).copied().unwrap_or(0)));
        let waited = waited.sum();
        let claims = idle.clone().at_most(waited).claims;
        let waits = Waits { idle, claims, waited };
        waits.are_habit(facts).then_some(waits)
    }

    /// Whether the GPU is idle behind many of the waits. A loop that waits for an earlier step keeps the GPU busy, except
    /// where the host was held up.
    fn are_habit(&self, facts: &Facts<'a>) -> bool {
        let count = self.idle.part.count;
        let calls = self.api().and_then(|api| facts.all.apis.get(api)).map_or(0, |calls| calls.count);
        let is_in_steps = facts.all.steps.count > 0 && count >= facts.all.steps.count / 2;
        count >= HABIT && (count >= calls / OFTEN || is_in_steps)
    }

    /// Returns the API that most of the idle time is behind.
    pub fn api(&self) -> Option<&'a str> {
        let site = self.idle.main?;
        site.after_wait.as_deref().or(site.api.as_deref())
    }
}

fn is_in_wait(cause: Cause) -> bool {
    matches!(cause, Cause::ExplicitSync | Cause::ImplicitSync | Cause::Copying)
}

/// Whether an API waits for all work of a device or of a context.
pub fn is_device_wide(api: &str) -> bool {
    matches!(api, "cudaDeviceSynchronize" | "cuCtxSynchronize" | "cudaThreadSynchronize")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analyze::Tables;
    use crate::analyze::idle::{Part, ThreadUse};
    use crate::diagnose::buckets::Buckets;

    const OUTSIDE: Bucket = Bucket::Idle(Cause::OutsideCuda);

    fn exactly(value: u64) -> Sum {
        Sum { value, lo: value, hi: value }
    }

    /// Returns what waits cost whose thread waited for `waited` ns, where `count` gaps of 1000 ns in all are behind them, and
    /// another 1000 ns are not. There are `calls` of the wait.
    fn cost(waited: u64, count: u64, calls: u64) -> Option<u64> {
        let site = |wait: Option<&str>| Site {
            tid: Some(7),
            after_wait: wait.map(str::to_owned),
            ..Site::default()
        };
        let part = Part { count, total: exactly(1_000) };
        let mut all = Tables::default();
        all.apis.entry("cuStreamSynchronize".to_owned()).or_default().count = calls;
        let sites = [Some("cuStreamSynchronize"), None].map(|wait| ((Cause::OutsideCuda, site(wait)), part));
        all.idle.sites = sites.into();
        all.idle.by_cause = [(Cause::OutsideCuda, Part { count: 2 * count, total: exactly(2_000) })].into();
        let thread = |tid, waited| ThreadUse {
            tid: Some(tid),
            calls: [(Cause::ExplicitSync, waited), (Cause::Launching, 5_000)].into(),
            ..ThreadUse::default()
        };
        all.idle.threads = vec![thread(7, waited), thread(8, 900)];
        let parts = [(OUTSIDE, exactly(2_000)), (Bucket::Compute, exactly(8_000))].into();
        let buckets = Buckets { wall: 10_000, parts, ..Buckets::default() };
        let facts = Facts { reports: &[], all: &all, buckets: &buckets };
        let waits = Waits::of(&facts, |api| api == "cuStreamSynchronize")?;
        assert_eq!(waits.api(), Some("cuStreamSynchronize"));
        Some(waits.claims[&OUTSIDE].value)
    }

    #[test]
    fn waits_cost_the_idle_time_behind_them_and_at_most_the_time_in_them() {
        assert_eq!(cost(5_000, 20, 20), Some(1_000));
        assert_eq!(cost(400, 20, 20), Some(400), "the host has no more to gain");
        assert_eq!(cost(5_000, 9, 9), None, "that is no habit");
        assert_eq!(cost(5_000, 20, 210), None, "most of them cost nothing");
    }
}
