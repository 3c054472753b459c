//! Samples of one thing, told apart by what its time depends on: a kernel's by the shape of its launches, copies' by size.
//!
//! Where each stratum is known by draws and windows of its own, theirs add up. Where one is not, all are taken together, as
//! one sample of the mix that was launched.

use super::{Extent, Range, Sample, WindowCount};
use crate::analyze::estimate::Estimate;
use crate::model::{Event, Operation};
use std::collections::HashMap;
use std::hash::Hash;

/// Strata of a device that are told apart.
const MOST: usize = 64;

/// Samples by device and key.
#[derive(Clone, Debug)]
pub struct Strata<K> {
    devices: HashMap<Option<u32>, Device<K>>,
}

impl<K> Default for Strata<K> {
    fn default() -> Self {
        Strata { devices: HashMap::new() }
    }
}

/// What ran on one device.
#[derive(Clone, Debug)]
struct Device<K> {
    all: Sample,
    strata: HashMap<K, Sample>,
    /// Operations that no stratum has: there were too many.
    is_partial: bool,
}

impl<K: Copy + Eq + Hash> Strata<K> {
    /// Takes an operation that ran, with its event.
    pub fn observe(&mut self, key: K, window: WindowCount, operation: &Operation, event: &Event<'_>) {
        let device = self.devices.entry(operation.device).or_default();
        device.all.observe(window, &operation.when, &event.record.body);
        if let Some(stratum) = device.stratum(key) {
            stratum.observe(window, &operation.when, &event.record.body);
        }
    }

    /// Takes over another's.
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

    /// The time of all, ns; `None` when none was timed.
    pub fn total(&self) -> Option<Estimate<u64>> {
        let mut devices = self.devices.values();
        if devices.clone().any(|device| device.all.timed == 0) {
            // One device's are as long as the others'.
            return self.whole().total();
        }
        let first = devices.next()?.total();
        Some(devices.fold(first, |sum, device| sum.plus(device.total())))
    }

    /// What ran on a device in the pauses.
    pub fn paused(&self, device: Option<u32>) -> Extent {
        let Some(device) = self.devices.get(&device) else { return Extent::default() };
        let count = device.all.paused;
        if device.all.timed > 0 {
            return Extent {
                known: count,
                time: device.sum(Sample::paused_time).unwrap_or_default(),
                unknown: 0,
            };
        }
        let whole = self.whole();
        if whole.timed > 0 {
            let time = whole.rest(count);
            return Extent { known: count, time, unknown: 0 };
        }
        Extent { unknown: count, ..Extent::default() }
    }

    /// All devices' as one sample.
    fn whole(&self) -> Sample {
        let mut whole = Sample::default();
        self.devices.values().for_each(|device| whole.merge(&device.all));
        whole
    }
}

impl<K> Default for Device<K> {
    fn default() -> Self {
        Device { all: Sample::default(), strata: HashMap::new(), is_partial: false }
    }
}

impl<K: Copy + Eq + Hash> Device<K> {
    /// A stratum, if there is room for it.
    fn stratum(&mut self, key: K) -> Option<&mut Sample> {
        if self.strata.len() == MOST && !self.strata.contains_key(&key) {
            self.is_partial = true;
            return None;
        }
        Some(self.strata.entry(key).or_default())
    }

    /// The time of all, some of which are timed.
    fn total(&self) -> Estimate<u64> {
        let known = self.all.known;
        self.sum(Sample::untimed_time).map_or_else(|| known.estimate(), |rest| rest.beside(known))
    }

    /// A sum over strata, or of all of them taken together.
    fn sum(&self, of: impl Fn(&Sample) -> Option<Range>) -> Option<Range> {
        if self.is_partial || !self.strata.values().all(Sample::is_known) {
            return of(&self.all);
        }
        self.strata.values().filter_map(of).reduce(Range::plus)
    }
}
