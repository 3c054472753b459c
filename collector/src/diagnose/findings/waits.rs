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
        (idle.part.count >= HABIT).then_some(Waits { idle, claims, waited })
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
