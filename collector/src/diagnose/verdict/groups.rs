//! The wall time by what bounds it.

use super::Bound;
use crate::analyze::idle::{Cause, IdleReport, Next, Part, Site};
use crate::analyze::source::Source;
use crate::analyze::waits;
use crate::diagnose::Facts;
use crate::diagnose::buckets::Bucket;
use std::collections::BTreeMap;

/// Host time between two launches that is shorter is part of launching, ns: Python takes some tens of microseconds from
/// one operator of PyTorch to the next.
const BETWEEN_LAUNCHES: u64 = 100_000;

/// The share of a group from which on one part of it stands for the whole.
pub const NEARLY_ALL: f64 = 0.9;

/// The part of the wall time that one bound takes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Group {
    /// ns of the wall time.
    pub ns: u64,
    /// Of that, idle time, ns.
    pub idle: u64,
    /// Of that, time in which an enqueued operation waited on its stream, ns: for a function of the program if the bound is the host, and
    /// for another stream if it is synchronization.
    pub on_stream: u64,
    /// Of the idle time, what is owed to a wait before it, ns.
    pub owed: u64,
    /// Of the idle time, that in which the host was in calls that are no launches, ns.
    pub in_others: u64,
    /// The idle gaps on all GPUs that it is in.
    pub gaps: u64,
    /// How long they are in all, as far as it is in them, ns.
    pub in_gaps: u64,
    /// The calls that it comes from, with their ns.
    pub calls: BTreeMap<String, u64>,
}

impl Group {
    /// Returns the call that most of it comes from, with its ns.
    pub fn main_call(&self) -> Option<(&String, &u64)> {
        self.calls.iter().max_by_key(|(_, ns)| **ns)
    }

    /// Returns the name of that call, and says if other calls have a part of it.
    pub fn call(&self) -> Option<String> {
        let (call, most) = self.main_call()?;
        let is_nearly_all = *most as f64 >= self.idle as f64 * NEARLY_ALL;
        Some(if is_nearly_all { call.clone() } else { format!("{call} and others") })
    }

    /// Whether most of it is time in which an enqueued operation waited on its stream.
    pub fn is_on_stream(&self) -> bool {
        self.on_stream > self.ns / 2
    }

    /// Returns the mean length of its idle parts, ns.
    pub fn mean_gap(&self) -> u64 {
        self.in_gaps / self.gaps.max(1)
    }
}

/// Divides the wall time by bound. What is undecided is in no group.
pub fn groups(facts: &Facts<'_>) -> BTreeMap<Bound, Group> {
    let (buckets, idle) = (facts.buckets, facts.idle());
    let mut groups: BTreeMap<Bound, Group> = BTreeMap::new();
    for (bucket, bound) in [
        (Bucket::StartUp, Bound::StartUp),
        (Bucket::Compute, Bound::Gpu),
        (Bucket::Graphs, Bound::Gpu),
        (Bucket::ExposedCommunication, Bound::Communication),
        (Bucket::ExposedCopies, Bound::Copies),
        (Bucket::Tail, Bound::Tail),
    ] {
        let group = groups.entry(bound).or_default();
        group.ns = group.ns.saturating_add(buckets.get(bucket).value - buckets.once(bucket));
    }
    for (cause, site, part) in parts(idle) {
        let owed_to = facts.owed_to_habit(cause, site);
        let call = owed_to.or(site.api.as_deref());
        let Some(bound) = bound(cause, (call, owed_to.is_some()), site.next, &part) else {
            continue;
        };
        let of_all = idle.by_cause.get(&cause).map_or(0, |all| all.total.value);
        let of_this = buckets.get(Bucket::Idle(cause)).value;
        // The sites may be those of all devices.
        let share = u128::from(part.total.value) * u128::from(of_this) / u128::from(of_all.max(1));
        let whole = u64::try_from(share).unwrap_or(u64::MAX).min(of_this);
        // Each site has its part of what comes once.
        let of = |part: u64| (u128::from(whole) * u128::from(part) / u128::from(of_this.max(1))) as u64;
        let once = of(buckets.once(Bucket::Idle(cause)));
        let start_up = groups.entry(Bound::StartUp).or_default();
        start_up.ns = start_up.ns.saturating_add(once);
        let ns = whole - once;
        let group = groups.entry(bound).or_default();
        group.ns = group.ns.saturating_add(ns);
        group.idle = group.idle.saturating_add(ns);
        if matches!(cause, Cause::HostCallback | Cause::StreamWait) {
            group.on_stream = group.on_stream.saturating_add(ns);
        }
        if owed_to.is_some() {
            group.owed = group.owed.saturating_add(ns);
        }
        if matches!(cause, Cause::OtherCall | Cause::Loading) {
            group.in_others = group.in_others.saturating_add(ns);
        }
        group.gaps = group.gaps.saturating_add(part.count);
        group.in_gaps = group.in_gaps.saturating_add(part.total.share(ns, whole).value);
        let is_of_waits = matches!(bound, Bound::Syncs | Bound::Allocations);
        if let Some(call) = facts.owed_to(cause, site).filter(|_| is_of_waits).or(site.api.as_deref()) {
            let sum = group.calls.entry(call.to_owned()).or_default();
            *sum = sum.saturating_add(ns);
        }
    }
    groups
}

/// Returns the idle time by cause and site, and for causes without sites as a whole.
fn parts(idle: &IdleReport) -> Vec<(Cause, &Site, Part)> {
    const UNKNOWN: Source = Source { library: None, line: None };
    static NOWHERE: Site = Site {
        api: None,
        source: UNKNOWN,
        tid: None,
        range: None,
        after_wait: None,
        then_waited: None,
        is_long: false,
        next: Next::Other,
    };
    let sites = idle.sites.iter().map(|((cause, site), part)| (*cause, site, *part));
    let without =
        idle.by_cause.iter().filter(|(cause, _)| !idle.sites.keys().any(|(with, _)| with == *cause));
    sites.chain(without.map(|(cause, part)| (*cause, &NOWHERE, *part))).collect()
}

/// Returns what bounds the program in an idle part; `None` if that is not known. It is owed to `call` if `is_owed`, and otherwise the
/// host was in it. Outside CUDA it went on with `next`.
fn bound(cause: Cause, (call, is_owed): (Option<&str>, bool), next: Next, part: &Part) -> Option<Bound> {
    let is_of_free = call.is_some_and(waits::Cause::is_free);
    let is_long = part.total.value / part.count.max(1) >= BETWEEN_LAUNCHES;
    Some(match cause {
        Cause::ImplicitSync if is_of_free => Bound::Allocations,
        Cause::ExplicitSync | Cause::ImplicitSync | Cause::StreamWait => Bound::Syncs,
        Cause::OutsideCuda
        | Cause::Launching
        | Cause::BetweenLaunches
        | Cause::Starting
        | Cause::OtherCall
            if is_owed =>
        {
            if is_of_free {
                Bound::Allocations
            } else {
                Bound::Syncs
            }
        }
        Cause::OutsideCuda if is_long => Bound::Host,
        // Between copies one by one.
        Cause::OutsideCuda if next == Next::MoreInput => Bound::Copies,
        Cause::OutsideCuda
        | Cause::Launching
        | Cause::BetweenLaunches
        | Cause::Starting
        | Cause::OtherCall => Bound::Launches,
        Cause::Allocating | Cause::Freeing => Bound::Allocations,
        Cause::Copying => Bound::Copies,
        Cause::SetUp => Bound::StartUp,
        // In each step: what comes once is left out before.
        Cause::Loading => Bound::Launches,
        Cause::HostCallback => Bound::Host,
        Cause::Undecided => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analyze::Tables;
    use crate::analyze::estimate::Sum;
    use crate::analyze::ranks::Ranks;
    use crate::diagnose::buckets::Buckets;

    /// A program that copied its input row by row was called launch-bound: between two copies, the host is outside CUDA for a moment.
    #[test]
    fn the_time_between_copies_one_by_one_is_theirs() {
        let part = |ns| Part { count: 10, total: Sum { value: ns, lo: ns, hi: ns } };
        let of = |next, ns| bound(Cause::OutsideCuda, (None, false), next, &part(ns));
        assert_eq!(of(Next::MoreInput, 90_000), Some(Bound::Copies));
        assert_eq!(of(Next::Other, 90_000), Some(Bound::Launches));
        assert_eq!(of(Next::MoreInput, 90_000_000), Some(Bound::Host));
    }

    /// The idle time of one of eight GPUs was divided by the gaps of all: gaps of 1 ms seemed to be 125 µs long.
    #[test]
    fn gaps_of_several_gpus_are_as_long_as_those_of_one() {
        let exactly = |value| Sum { value, lo: value, hi: value };
        let part = Part { count: 80, total: exactly(80_000_000) };
        let idle = IdleReport { by_cause: [(Cause::OutsideCuda, part)].into(), ..IdleReport::default() };
        let parts = [(Bucket::Idle(Cause::OutsideCuda), exactly(10_000_000))].into();
        let buckets = Buckets { wall: 20_000_000, parts, ..Buckets::default() };
        let all = Tables { idle, ..Tables::default() };
        let groups = groups(&Facts { reports: &[], all: &all, buckets: &buckets, ranks: &Ranks::default() });
        let host = &groups[&Bound::Host];
        assert_eq!((host.ns, host.mean_gap()), (10_000_000, 1_000_000));
    }
}
