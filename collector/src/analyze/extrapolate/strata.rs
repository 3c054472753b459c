//! Samples of one kind of operation, split by what its time depends on: a kernel's by the shape of its launches,
//! copies' by size.
//!
//! If each stratum can be estimated from draws and windows of its own, their estimates are added. If one cannot, all
//! of them are treated as one sample of the mix that was launched. If that has too few draws or windows as well, nothing
//! says how long the operations of a stratum took of which none was timed.
//!
//! Transfers of one size are never like the mix of the other sizes. Where none of a size was timed, their time follows from
//! their bytes: `by_bytes`.

use super::{Doubtful, Extent, Range, Sample, Why, Windows};
use crate::analyze::estimate::Estimate;
use crate::hash::HashMap;
use crate::model::{Event, Operation};
use std::hash::Hash;

/// The most strata of a device that are kept apart.
const MOST: usize = 64;

/// Samples by device and key.
#[derive(Clone, Debug)]
pub struct Strata<K> {
    devices: HashMap<Option<u32>, Device<K>>,
}

impl<K> Default for Strata<K> {
    fn default() -> Self {
        Strata { devices: HashMap::default() }
    }
}

/// What ran on one device.
#[derive(Clone, Debug)]
struct Device<K> {
    all: Sample,
    strata: HashMap<K, Sample>,
    /// Whether some operations are in no stratum, because there were too many strata.
    is_partial: bool,
}

impl<K: Copy + Ord + Hash> Strata<K> {
    /// Takes an operation that ran, with its event.
    pub fn observe(&mut self, key: K, windows: &Windows, operation: &Operation, event: &Event<'_>) {
        let device = self.devices.entry(operation.device).or_default();
        device.all.observe(windows, operation, &event.record.body);
        if let Some(stratum) = device.stratum(key) {
            stratum.observe(windows, operation, &event.record.body);
        }
    }

    /// Adds the samples of another process.
    pub fn merge(&mut self, other: &Strata<K>) {
        for (id, theirs) in &other.devices {
            let mine = self.devices.entry(*id).or_default();
            mine.all.merge(&theirs.all);
            mine.is_partial |= theirs.is_partial;
            for (key, sample) in &theirs.strata {
                if let Some(stratum) = mine.stratum(*key) {
                    stratum.merge(sample);
                }
            }
        }
    }

    /// Returns the time of all, ns; `None` if none was timed.
    pub fn total(&self) -> Option<Estimate<u64>> {
        let mut devices = self.devices.values();
        if devices.clone().any(|device| device.all.timed == 0) {
            // Operations on one device are assumed to take as long as on the others.
            return self.whole().total();
        }
        let first = devices.next()?.total();
        Some(devices.fold(first, |sum, device| sum.plus(device.total())))
    }

    /// Returns the operations on a device that were called in pauses.
    pub fn paused(&self, device: Option<u32>) -> Extent {
        self.extent(device, Why::Paused)
    }

    /// Returns the operations on a device that are untimed for other reasons, without those in runs and bursts, which have
    /// their time.
    pub fn unseen(&self, device: Option<u32>) -> Extent {
        self.extent(device, Why::Other)
    }

    /// Returns the upper bound of the time of all operations on a device, ns. `None`: some are untimed for other reasons than
    /// that they are in runs, or none was timed.
    pub fn most(&self, device: Option<u32>) -> Option<u64> {
        let Some(device) = self.devices.get(&device) else { return Some(0) };
        (device.all.timed > 0 && device.all.in_no_run() == 0).then(|| device.total().hi)
    }

    /// Returns how long an operation takes, ns, by those that were timed: of its kind, else of all; 0 without any.
    pub fn expected(&self, device: Option<u32>, key: K) -> u64 {
        let of_device = self.devices.get(&device);
        let own = of_device.and_then(|device| device.strata.get(&key)).filter(|sample| sample.timed > 0);
        own.map_or_else(|| self.whole().bounds().value, |sample| sample.bounds().value) as u64
    }

    /// Notes that so many untimed operations may never have run, and how many of those did not, by the best estimate.
    pub fn doubt(&mut self, device: Option<u32>, key: K, why: Why, count: u64, missing: f64) {
        let Some(device) = self.devices.get_mut(&device) else { return };
        device.all.doubt(why, count, missing);
        if let Some(stratum) = device.strata.get_mut(&key) {
            stratum.doubt(why, count, missing);
        }
    }

    /// Returns how many operations may never have run, and how many of those did not, by the best estimate.
    pub fn doubtful(&self) -> (u64, f64) {
        let all = self.devices.values().flat_map(|device| device.all.doubtful);
        let Doubtful { count, missing } = all.fold(Doubtful::default(), Doubtful::plus);
        (count, missing)
    }

    /// Returns the time of all operations on a device, ns; `None` if none was timed.
    pub fn total_on(&self, device: Option<u32>) -> Option<Estimate<u64>> {
        let Some(device) = self.devices.get(&device) else { return Some(Estimate::exactly(0)) };
        (device.all.timed > 0).then(|| device.total())
    }

    fn extent(&self, device: Option<u32>, why: Why) -> Extent {
        let Some(device) = self.devices.get(&device) else { return Extent::default() };
        let count = device.all.count(why);
        if device.all.timed > 0 {
            let certain = |sample: &Sample| sample.certain(why);
            let (sampled, guessed, like_others) = match device.all.has_windows() {
                true => (count, 0, 0),
                false => (0, device.never_timed(certain), device.like_others(certain)),
            };
            let time = device.sum(|sample| sample.time_of(why)).unwrap_or_default();
            let time = device.without(like_others, time);
            return Extent { known: count, sampled, time, guessed, unknown: 0 };
        }
        let whole = self.whole();
        if whole.timed > 0 {
            let time = device.all.of_those(why, whole.rest(count));
            return Extent { known: count, time, ..Extent::default() };
        }
        Extent { unknown: count, ..Extent::default() }
    }

    /// Returns the samples of all devices as one.
    fn whole(&self) -> Sample {
        let mut whole = Sample::default();
        self.devices.values().for_each(|device| whole.merge(&device.all));
        whole
    }
}

impl<K> Default for Device<K> {
    fn default() -> Self {
        Device { all: Sample::default(), strata: HashMap::default(), is_partial: false }
    }
}

impl<K: Copy + Ord + Hash> Device<K> {
    /// Returns a stratum, or `None` if there are too many.
    fn stratum(&mut self, key: K) -> Option<&mut Sample> {
        if self.strata.len() == MOST && !self.strata.contains_key(&key) {
            self.is_partial = true;
            return None;
        }
        Some(self.strata.entry(key).or_default())
    }

    /// Returns the time of all operations, some of which are timed.
    fn total(&self) -> Estimate<u64> {
        let known = self.all.known;
        let Some(rest) = self.sum(Sample::untimed_time) else { return known.estimate() };
        let certain = |sample: &Sample| sample.certain(Why::NotDrawn);
        let in_runs = if self.all.has_draws() { 0 } else { self.like_others(certain) };
        let certain = |sample: &Sample| {
            [Why::Paused, Why::InBurst, Why::Other].into_iter().map(|why| sample.certain(why)).sum()
        };
        let others = if self.all.has_windows() { 0 } else { self.like_others(certain) };
        self.without(in_runs + others, rest).beside(known)
    }

    /// Returns the strata in order, so that the sum of their times does not depend on the seed of a hash.
    fn in_order(&self) -> Vec<&Sample> {
        let mut strata: Vec<(&K, &Sample)> = self.strata.iter().collect();
        strata.sort_unstable_by_key(|(key, _)| **key);
        strata.into_iter().map(|(_, sample)| sample).collect()
    }

    /// Returns how many operations are in strata of which none was timed.
    fn never_timed(&self, count_of: impl Fn(&Sample) -> u64) -> u64 {
        self.strata.values().filter(|sample| sample.timed == 0).map(count_of).sum()
    }

    /// Returns how many of those are assumed to be like the operations of other strata.
    fn like_others(&self, count_of: impl Fn(&Sample) -> u64) -> u64 {
        let never = self.strata.values().filter(|sample| sample.timed == 0);
        never.filter(|sample| self.by_bytes(sample).is_none()).map(count_of).sum()
    }

    /// Returns the time of operations without the lower bounds of these.
    fn without(&self, guessed: u64, time: Range) -> Range {
        Range { lo: (time.lo - self.all.bounds().times(guessed).lo).max(0.0), ..time }
    }

    /// Returns a sum over strata. Those that were timed count as one sample unless each of them is known, or they are transfers: of
    /// these no size is like the mix of the others.
    fn sum(&self, of: impl Fn(&Sample) -> Option<Range>) -> Option<Range> {
        if self.is_partial {
            return of(&self.all);
        }
        let strata = self.in_order();
        let sized: Vec<Sample> = strata.iter().filter_map(|sample| self.by_bytes(sample)).collect();
        let others = || strata.iter().copied().filter(|sample| self.by_bytes(sample).is_none());
        let others = if others().all(|sample| sample.is_known() || sample.size().is_some()) {
            others().filter_map(&of).reduce(Range::plus)
        } else {
            let mut all = self.all.clone();
            sized.iter().for_each(|sample| all.remove(sample));
            of(&all)
        };
        others.into_iter().chain(sized.iter().filter_map(&of)).reduce(Range::plus)
    }

    /// Returns a sample of transfers of a size that was never timed, with the time that follows from their bytes; `None` for
    /// other samples, and where no transfer of another size was timed.
    fn by_bytes(&self, sample: &Sample) -> Option<Sample> {
        let size = sample.size().filter(|_| sample.timed == 0 && sample.not_drawn == 0)?;
        let timed = self.strata.values().filter(|other| other.timed > 0);
        let mut timed: Vec<(f64, Range)> =
            timed.filter_map(|other| Some((other.size()?, other.bounds()))).collect();
        timed.sort_by(|a, b| a.0.total_cmp(&b.0));
        Some(Sample { assumed: Some(of_size(size, &timed)?), ..sample.clone() })
    }
}

/// Returns how long a transfer of `size` bytes takes, ns, by those of other sizes, which are given in order; `None` without any.
/// Between two sizes its time grows evenly with the bytes, beyond the largest in proportion to them. Below the smallest it
/// falls with their square root, because part of it is the same for all sizes. At most it takes as long for each byte as the
/// slowest of the others, and as long as the longest if it is smaller. At least it takes no time.
fn of_size(size: f64, others: &[(f64, Range)]) -> Option<Range> {
    let (smaller, larger) = others.split_at(others.partition_point(|(of, _)| *of <= size));
    let value = match (smaller.last(), larger.first()) {
        (Some((a, from)), Some((b, to))) => {
            from.value + (to.value - from.value).max(0.0) * (size - a) / (b - a)
        }
        (Some((of, time)), None) => time.value * size / of,
        (None, Some((of, time))) => time.value * (size / of).sqrt(),
        (None, None) => return None,
    };
    let most = others.iter().map(|(of, time)| time.hi * (size / of).max(1.0));
    Some(Range { lo: 0.0, value, hi: most.fold(value, f64::max) })
}

#[cfg(test)]
impl<K: Copy + Ord + Hash> Strata<K> {
    /// Adds an operation that took `ns`, or that was called in a pause (`None`).
    pub fn add(&mut self, key: K, window: u64, ns: Option<u64>) {
        use super::Why;
        use crate::analyze::estimate::Sum;
        let device = self.devices.entry(Some(0)).or_default();
        let add = |sample: &mut Sample| match ns {
            Some(ns) => sample.timed(&Windows::alike(window), Sum { value: ns, lo: ns, hi: ns }, false),
            None => sample.untimed(&Windows::alike(window), Why::Paused),
        };
        add(&mut device.all);
        device.stratum(key).into_iter().for_each(add);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analyze::estimate::Kind;

    /// Ten windows with ten launches of 100 ns and one of 1000 each.
    fn two_shapes() -> Strata<u32> {
        let mut strata = Strata::default();
        for window in 2..12 {
            (0..10).for_each(|_| strata.add(1, window, Some(100)));
            strata.add(2, window, Some(1_000));
        }
        strata
    }

    #[test]
    fn each_shape_is_extrapolated_from_its_own_launches() {
        let mut strata = two_shapes();
        (0..100).for_each(|_| strata.add(1, 0, None));
        (0..1_000).for_each(|_| strata.add(2, 0, None));
        let (total, paused) = (strata.total().unwrap(), strata.paused(Some(0)));
        assert_eq!((total.value, total.kind), (20_000 + 10_000 + 1_000_000, Kind::Extrapolated));
        assert!(total.hi - total.lo <= 1 && paused.known == 1_100, "{total:?}, {paused:?}");
        assert_eq!((paused.time.value, paused.unknown), (1_010_000.0, 0));
    }

    #[test]
    fn if_one_shape_was_never_timed_all_are_one_sample() {
        let mut strata = two_shapes();
        (0..11).for_each(|_| strata.add(3, 0, None));
        assert_eq!(strata.total().unwrap().value, 20_000 + 2_000, "11 of which each takes 2000 / 11");
    }

    /// In a short run nothing stands for the graphs that were launched after the only window.
    #[test]
    fn with_too_few_windows_a_shape_that_was_never_timed_may_have_taken_any_time() {
        let mut strata = Strata::default();
        (0..7).for_each(|_| strata.add(1, 1, Some(120)));
        (0..3).for_each(|_| strata.add(1, 0, None));
        (0..34).for_each(|_| strata.add(2, 0, None));
        let (total, paused) = (strata.total().unwrap(), strata.paused(Some(0)));
        assert_eq!((total.lo, total.value), (10 * 120, 44 * 120));
        assert_eq!((paused.known, paused.guessed, paused.time.lo), (37, 34, 3.0 * 120.0));
    }

    #[test]
    fn operations_of_a_kind_that_was_never_timed_count_as_unknown() {
        let mut strata = Strata::default();
        (0..7).for_each(|_| strata.add(1, 0, None));
        assert_eq!(strata.total(), None);
        assert_eq!(strata.paused(Some(0)), Extent { unknown: 7, ..Extent::default() });
        assert_eq!(strata.paused(None), Extent::default(), "of another device");
    }

    #[test]
    fn a_size_between_others_takes_as_long_as_lies_between_them() {
        let time = |value: f64| Range { lo: value / 2.0, value, hi: value * 2.0 };
        let others = [(1_000.0, time(2_000.0)), (9_000.0, time(4_000.0))];
        let of = |size: f64| of_size(size, &others).unwrap();
        assert_eq!(of(5_000.0), Range { lo: 0.0, value: 3_000.0, hi: 20_000.0 });
        assert_eq!(of(90_000.0), Range { lo: 0.0, value: 40_000.0, hi: 360_000.0 });
        assert_eq!(of(250.0), Range { lo: 0.0, value: 1_000.0, hi: 8_000.0 });
        assert_eq!(of_size(5_000.0, &[]), None);
    }

    #[test]
    fn memory_does_not_grow_with_the_number_of_shapes() {
        let mut strata = Strata::default();
        for key in 0..10_000u64 {
            strata.add(key, 2 + key / 1_000, Some(50));
            strata.add(key, 0, None);
        }
        assert_eq!(strata.devices[&Some(0)].strata.len(), MOST);
        assert_eq!(strata.total().unwrap().value, 2 * 10_000 * 50);
    }
}
