//! What the findings about idle time share.

use super::super::Facts;
use super::super::buckets::Bucket;
use super::super::finding::{OfSite, Sites};
use crate::analyze::estimate::Sum;
use crate::analyze::gaps::rows::GapRow;
use crate::analyze::idle::{Cause, Next, Part, Site};
use crate::analyze::source::{Lines, Source};
use crate::model::stacks::Frame;
use crate::units::{duration, plural};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// Returns a share of a sum whose own bounds and that of the share are known.
pub fn times(sum: Sum, share: [f64; 3]) -> Sum {
    let [lo, value, hi] = share;
    let of = |ns: u64, share: f64| (ns as f64 * share).round() as u64;
    Sum { value: of(sum.value, value), lo: of(sum.lo, lo), hi: of(sum.hi, hi) }
}

/// Returns claims of idle time without what gpuspy's hooks took of `calls` in it: without gpuspy the program is faster by
/// that, which no remedy gains. `calls` are outermost ones, as the report counts them: a call of the runtime passes the hook
/// of its driver call, too. What a hook takes is that of the whole run, since its cost is not known of a part of it. On a
/// busy machine the time of hooks contains that of other programs, so at most half of the claims is taken to be theirs.
pub fn without_own_cost(
    facts: &Facts<'_>,
    claims: BTreeMap<Bucket, Sum>,
    calls: u64,
) -> BTreeMap<Bucket, Sum> {
    let Some(own) = &facts.all.overhead else { return claims };
    let all = claims.values().fold(0u64, |sum, claim| sum.saturating_add(claim.value));
    let count = |is_one: fn(&str) -> bool| {
        let counted = facts.all.apis.iter().filter(|(name, _)| is_one(name.as_str()));
        counted.fold(0u64, |sum, (_, calls)| sum.saturating_add(calls.count))
    };
    let (all_calls, of_runtime) =
        (count(|_| true), count(|name| name.trim_start_matches('_').starts_with("cuda")));
    let second_hooks = Sum { value: calls, lo: 0, hi: 0 }.share(of_runtime, all_calls).value;
    let hooks = calls.saturating_add(second_hooks);
    let cost = Sum { value: own.agent_ns, lo: 0, hi: 0 }.share(hooks, own.calls).value;
    let rest = all - cost.min(all / 2);
    claims.into_iter().map(|(bucket, claim)| (bucket, claim.share(rest, all))).collect()
}

/// A mean says nothing of gaps if half of their time is in fewer than one in so many.
const FEW: u64 = 4;

/// Returns `part` of `whole` of something.
fn share(of: u64, part: u64, whole: u64) -> u64 {
    Sum { value: of, lo: 0, hi: of }.share(part, whole).value
}

/// Idle time that a finding is about.
#[derive(Clone, Debug, Default)]
pub struct Idle<'a> {
    /// The gaps, at least, and their time on the GPUs that [`Facts::idle`] is about.
    pub part: Part,
    /// The time by bucket, of the device that the buckets are about.
    pub claims: BTreeMap<Bucket, Sum>,
    /// Where it was.
    pub sites: Sites,
    /// The site of most of it.
    pub main: Option<&'a Site>,
    /// Whether one thread led all of it.
    is_of_one_thread: bool,
    /// The lines of the program that it comes from: those of the waits that it is owed to, else of the calls that the host
    /// was in, or that came too late, ns.
    lines: Lines,
}

impl<'a> Idle<'a> {
    /// Returns the idle time whose cause and site are `meant`.
    pub fn of(facts: &Facts<'a>, is_meant: impl Fn(Cause, &Site) -> bool) -> Idle<'a> {
        let mut idle = Idle::default();
        let mut by_cause: BTreeMap<Cause, u64> = BTreeMap::new();
        let mut by_call: BTreeMap<(Cause, Option<&str>, bool), u64> = BTreeMap::new();
        let (mut most, mut tids) = (0, BTreeSet::new());
        for (at, ((cause, site), part)) in facts.idle().sites.iter().enumerate() {
            // What happened once, before the steps, is no habit.
            if *cause == Cause::SetUp || !is_meant(*cause, site) {
                continue;
            }
            idle.part.total.add(part.total);
            tids.insert(site.tid);
            let whole = part.total.value;
            idle.sites.insert((Bucket::Idle(*cause), at), OfSite { claimed: whole, whole });
            *by_cause.entry(*cause).or_default() += part.total.value;
            let before_code = site.next == Next::Code;
            *by_call.entry((*cause, site.api.as_deref(), before_code)).or_default() += part.count;
            let is_owed = facts.owed_to(*cause, site).is_some();
            let wait = site.after_wait.as_ref().filter(|_| is_owed).map(|wait| &wait.line);
            idle.lines.add(wait.unwrap_or(&site.source.line).clone(), part.total.value);
            if part.total.value > most {
                (most, idle.main) = (part.total.value, Some(site));
            }
        }
        idle.is_of_one_thread = tids.len() <= 1;
        // A gap in which the thread was in several calls, or outside CUDA before it loaded code and after that, is counted once.
        idle.part.count = by_call.into_values().max().unwrap_or(0);
        for (cause, ns) in by_cause {
            let whole = facts.idle().by_cause.get(&cause).map_or(0, |part| part.total.value);
            let bucket = Bucket::Idle(cause);
            idle.claims.insert(bucket, facts.buckets.get(bucket).share(ns, whole));
        }
        idle
    }

    /// Leaves `part` of `whole` of all of it.
    pub fn reduce(&mut self, part: u64, whole: u64) {
        self.part.count = share(self.part.count, part, whole);
        self.part.total = self.part.total.share(part, whole);
        self.claims.values_mut().for_each(|claim| *claim = claim.share(part, whole));
        self.sites.values_mut().for_each(|site| site.claimed = share(site.claimed, part, whole));
    }

    /// Says how many gaps there are and how long they are, in words: each, or, where a few have half of the time, those. The few are
    /// looked for among the [largest gaps](crate::analyze::gaps::rows::GapReport) whose main cause is `cause`.
    pub fn lengths(&self, facts: &Facts<'_>, cause: Cause) -> String {
        let Part { count, total } = self.part;
        // In sampling pauses, no gap is seen.
        let about = if facts.idle().has_pauses() { "about " } else { "" };
        let (gaps, all) = (format!("{about}{}", plural(count, "gap", "gaps")), duration(total.value));
        let mut sum = 0u64;
        let few = self.largest(facts, cause).iter().position(|gap| {
            sum = sum.saturating_add(gap.duration.value);
            sum >= total.value / 2
        });
        let of_few = duration(sum.min(total.value));
        match few.map(|at| at as u64 + 1).filter(|few| few * FEW <= count) {
            Some(1) => format!("{gaps}, {all} in all, of which one has {of_few}"),
            Some(few) => format!("{gaps}, {all} in all, of which the {few} longest have {of_few}"),
            None if count == 1 => format!("{gaps} of {all}"),
            None => format!("{gaps} of {} each, {all} in all", duration(total.value / count.max(1))),
        }
    }

    /// Returns those of the [largest gaps](crate::analyze::gaps::rows::GapReport) whose largest part is of this idle time, the longest first;
    /// where no part is known, those whose main cause is `cause`.
    pub fn largest<'f>(&self, facts: &Facts<'f>, cause: Cause) -> Vec<&'f GapRow> {
        let sites = facts.idle().sites.keys().enumerate();
        let own = sites.filter(|(at, (cause, _))| self.sites.contains_key(&(Bucket::Idle(*cause), *at)));
        let own: BTreeSet<&(Cause, Site)> = own.map(|(_, site)| site).collect();
        let is_meant = |gap: &&GapRow| match &gap.largest {
            Some(part) => own.contains(part),
            None => gap.causes[0].is_some_and(|(main, _)| main == cause),
        };
        let mut largest: Vec<&GapRow> = facts.largest_gaps().iter().filter(is_meant).collect();
        largest.sort_by_key(|gap| Reverse(gap.duration.value));
        largest
    }

    /// Names the thread that led it.
    pub fn leader(&self) -> String {
        match self.main.and_then(|site| site.tid).filter(|_| self.is_of_one_thread) {
            Some(tid) => format!("thread {tid}"),
            None => "the thread that launches".to_owned(),
        }
    }

    /// Returns the line that most of it comes from, and its share, 0 to 1.
    pub fn main_line(&self) -> Option<(&Frame, f64)> {
        self.lines.main()
    }

    /// Returns where most of it comes from.
    pub fn source(&self) -> Source {
        let library = self.main.and_then(|site| site.source.library.clone());
        Source { library, line: self.main_line().map(|(line, _)| line.clone()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analyze::Tables;
    use crate::analyze::calls::HostTimes;
    use crate::analyze::overhead::Overhead;
    use crate::analyze::ranks::Ranks;
    use crate::diagnose::buckets::Buckets;
    use crate::model::CountedCall;

    /// Returns what is left of 1 ms after what gpuspy took of 50 calls, in a run that passed 400 hooks in 400 µs and of which
    /// these calls are reported.
    fn rest(apis: &[(&str, u64)]) -> Sum {
        let overhead = Overhead { agent_ns: 400_000, calls: 400, ..Overhead::default() };
        let mut all = Tables { overhead: Some(overhead), ..Tables::default() };
        for (name, calls) in apis {
            let mut times = HostTimes::default();
            times.add(CountedCall { api: 1, calls: *calls as u32, host_ns: 3_000 * calls, failed: false });
            all.apis.insert((*name).to_owned(), times);
        }
        let buckets = Buckets::default();
        let facts = Facts { reports: &[], all: &all, buckets: &buckets, ranks: &Ranks::default() };
        let idle = Bucket::Idle(Cause::Launching);
        let claims = BTreeMap::from([(idle, Sum { value: 1_000_000, lo: 900_000, hi: 1_100_000 })]);
        without_own_cost(&facts, claims, 50)[&idle]
    }

    /// Half of the promise of `tiny-kernels` was gpuspy's own time in programs that call the runtime.
    #[test]
    fn the_cost_of_a_call_is_that_of_the_hooks_of_both_layers() {
        let runtime = rest(&[("__cudaLaunchKernel", 200)]);
        assert_eq!((runtime.value, runtime.lo, runtime.hi), (900_000, 810_000, 990_000));
        assert_eq!(rest(&[("cuLaunchKernel", 400)]).value, 950_000);
        assert_eq!(rest(&[("cuLaunchKernel", 100), ("cudaMalloc", 100)]).value, 925_000);
    }

    /// A report of a part of a run took the cost of the whole for that of the part's calls.
    #[test]
    fn the_cost_of_a_call_is_the_same_in_a_part_of_the_run() {
        assert_eq!(rest(&[("cuLaunchKernel", 40)]), rest(&[("cuLaunchKernel", 400)]));
        assert_eq!(rest(&[("cudaLaunchKernel", 20)]), rest(&[("cudaLaunchKernel", 200)]));
    }

    #[test]
    fn a_gap_in_which_the_thread_was_in_several_calls_counts_once() {
        let site = |api: Option<&str>, tid| Site { api: api.map(str::to_owned), tid, ..Site::default() };
        let part = |count| Part { count, total: Sum { value: 50, lo: 40, hi: 60 } };
        let mut all = Tables::default();
        all.idle.sites = [
            ((Cause::OtherCall, site(Some("cuEventRecord"), Some(1))), part(3)),
            ((Cause::OtherCall, site(Some("cuStreamWaitEvent"), Some(1))), part(3)),
            ((Cause::OutsideCuda, site(None, Some(1))), part(2)),
            ((Cause::OutsideCuda, site(None, Some(2))), part(2)),
            ((Cause::OutsideCuda, Site { next: Next::Code, ..site(None, Some(2)) }), part(2)),
        ]
        .into();
        let (buckets, ranks) = (Buckets::default(), Ranks::default());
        let idle =
            Idle::of(&Facts { reports: &[], all: &all, buckets: &buckets, ranks: &ranks }, |_, _| true);
        assert_eq!((idle.part.count, idle.part.total.value), (4, 250));
    }
}
