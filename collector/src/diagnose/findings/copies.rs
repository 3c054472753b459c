//! What the findings about copies share.

use super::super::Facts;
use super::super::buckets::Bucket;
use super::super::finding::Evidence;
use crate::analyze::copy_sites::{Copied, CopySite};
use crate::analyze::estimate::Sum;
use crate::analyze::merge::Merge;
use crate::analyze::repeated_uploads::Repeats;
use std::collections::BTreeSet;

/// Copies of a kind that a finding is about.
#[derive(Debug)]
pub struct Found<'a> {
    /// All of them, added.
    pub all: Copied,
    /// The site that most of their time, and of that of equal ones most bytes, are from.
    pub main: &'a CopySite,
    /// Their APIs.
    pub apis: BTreeSet<&'a str>,
    /// Their part of the time in which copies ran and no kernel did, ns.
    pub exposed: Sum,
}

impl<'a> Found<'a> {
    /// Returns the copies whose site `is_meant`; `None` without any. The exposed time of copies is divided among them by
    /// how long they ran: which of them the kernels covered is not kept apart.
    pub fn of(facts: &Facts<'a>, is_meant: impl Fn(&CopySite) -> bool) -> Option<Found<'a>> {
        let sites = || facts.all.copy_sites.iter().filter(|(site, _)| is_meant(site));
        let (main, _) = sites().max_by_key(|(_, copied)| (whole(copied), copied.bytes))?;
        let mut all = Copied::default();
        sites().for_each(|(_, copied)| all.merge(copied));
        let time = |copied: &Copied| whole(copied);
        let mine: u64 = sites().map(|(_, copied)| time(copied)).sum();
        let of_all: u64 = facts.all.copy_sites.values().map(time).sum();
        let exposed = facts.buckets.get(Bucket::ExposedCopies).share(mine, of_all);
        Some(Found { all, main, apis: sites().map(|(site, _)| site.api.as_str()).collect(), exposed })
    }

    /// Returns the evidence, with `text` as its sentence.
    pub fn evidence(&self, text: String) -> Evidence {
        Evidence {
            text,
            count: self.all.count,
            total: Some(self.all.time),
            first: Some(self.all.first),
            api: Some(self.main.api.clone()),
            kernel: None,
            source: self.main.source.clone(),
            tid: self.all.tid,
        }
    }
}

/// Returns the part of the exposed time that copies of the same data take, which need not be made again, ns.
pub fn repeated(facts: &Facts<'_>) -> Sum {
    let of_all = facts.all.copy_sites.values().map(whole).sum();
    let mine = facts.all.repeated_uploads.values().map(Repeats::whole).sum();
    facts.buckets.get(Bucket::ExposedCopies).share(mine, of_all)
}

/// Returns the time of all copies of a site, ns: the untimed ones like the timed ones.
pub fn whole(copied: &Copied) -> u64 {
    let each = copied.time.value.checked_div(copied.timed);
    each.unwrap_or(0).saturating_mul(copied.count)
}

/// The throughput of copies, bytes per ns.
#[derive(Clone, Copy, Debug)]
pub struct Rate {
    /// The best value.
    pub value: f64,
    /// Whether it is known to a factor of 2. That of a copy on a stream without other work is not.
    pub is_known: bool,
}

impl Rate {
    /// Returns the throughput of the timed ones of these copies; `None` without any.
    pub fn of<'s>(copies: impl Iterator<Item = (&'s CopySite, &'s Copied)>) -> Option<Rate> {
        let mut all = Copied::default();
        copies.for_each(|(_, copied)| all.merge(copied));
        let timed_bytes = all.bytes as f64 * all.timed as f64 / all.count.max(1) as f64;
        let is_known = all.time.lo > 0 && all.time.hi <= all.time.lo.saturating_mul(4);
        (all.time.value > 0).then(|| Rate { value: timed_bytes / all.time.value as f64, is_known })
    }
}
