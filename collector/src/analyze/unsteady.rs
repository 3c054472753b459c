//! Launches of a kernel that take different times on the same GPU, in the same process.
//!
//! Launches of several processes or GPUs have reasons of their own to differ: another GPU, other data, another share of the
//! work. So those of each GPU of each process are judged for themselves, and only what was found is added.

use super::durations::Durations;
use super::merge::Merge;
use std::collections::BTreeMap;

/// The fewest timed launches from which a spread can be judged.
const FEWEST: u64 = 20;
/// By how much the mean exceeds the median at least, as a factor.
const SKEWED: f64 = 1.25;

/// A GPU, by its ordinal in the process; `None` if it is not known.
type Gpu = Option<u32>;

/// The durations of a kernel by GPU, kept from the second GPU on: those of a single one are all of the kernel's.
#[derive(Clone, Debug, Default)]
pub struct ByGpu {
    first: Option<Gpu>,
    each: BTreeMap<Gpu, Durations>,
}

impl ByGpu {
    /// Returns where to add the next duration beside those of all GPUs, of which these are known so far; `None` if there is
    /// one GPU.
    pub fn next(&mut self, gpu: Gpu, all: &Durations) -> Option<&mut Durations> {
        let first = *self.first.get_or_insert(gpu);
        if self.each.is_empty() {
            if first == gpu {
                return None;
            }
            self.each.insert(first, all.clone());
        }
        Some(self.each.entry(gpu).or_default())
    }

    /// Adds those of the same process, with the durations of all GPUs of both.
    pub fn merge(&mut self, all: &Durations, other: &ByGpu, others: &Durations) {
        let (Some(first), Some(theirs)) = (self.first, other.first) else {
            self.first = self.first.or(other.first);
            self.each.extend(other.each.clone());
            return;
        };
        if self.each.is_empty() && other.each.is_empty() && first == theirs {
            return;
        }
        if self.each.is_empty() {
            self.each.insert(first, all.clone());
        }
        if other.each.is_empty() {
            self.each.entry(theirs).or_default().merge(others);
        }
        other.each.iter().for_each(|(gpu, one)| self.each.entry(*gpu).or_default().merge(one));
    }

    /// Judges the launches on each GPU.
    pub fn judge(self, all: &Durations) -> Unsteady {
        let mut found = Unsteady::default();
        let each: Vec<&Durations> =
            if self.each.is_empty() { vec![all] } else { self.each.values().collect() };
        each.into_iter().filter_map(Spread::of).for_each(|spread| found.add(spread));
        found
    }
}

/// What was found of a kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Unsteady {
    /// What its timed launches took beyond the median of their GPU, where they differ, ns.
    pub beyond: f64,
    /// The GPU on which they differ most.
    pub worst: Option<Spread>,
}

/// How much launches on one GPU differ.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// The timed ones.
    pub count: u64,
    /// ns.
    pub median: u64,
    /// ns.
    pub mean: f64,
    /// ns.
    pub longest: u64,
}

impl Unsteady {
    fn add(&mut self, spread: Spread) {
        self.beyond += spread.beyond();
        if self.worst.is_none_or(|worst| spread.beyond() > worst.beyond()) {
            self.worst = Some(spread);
        }
    }
}

impl Merge for Unsteady {
    fn merge(&mut self, other: &Unsteady) {
        let beyond = self.beyond + other.beyond;
        other.worst.into_iter().for_each(|spread| self.add(spread));
        self.beyond = beyond;
    }
}

impl Spread {
    /// Returns how launches differ, if that is certain and considerable.
    fn of(durations: &Durations) -> Option<Spread> {
        let (median, mean, longest) = (durations.median()?, durations.mean()?, durations.max()?);
        let is_certain = mean.lo > median.hi as f64 && mean.value > SKEWED * median.value as f64;
        let count = durations.count();
        let spread = Spread { count, median: median.value, mean: mean.value, longest: longest.value };
        (is_certain && count >= FEWEST).then_some(spread)
    }

    /// Returns what the launches took beyond the median, ns.
    fn beyond(&self) -> f64 {
        (self.mean - self.median as f64) * self.count as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analyze::kernels::Kernel;
    use crate::model::gpu_interval::Length;

    /// A kernel with launches on GPUs, each of a length.
    fn kernel(launches: impl Iterator<Item = (u32, u64)>) -> Kernel {
        let mut kernel = Kernel::default();
        launches.for_each(|(gpu, ns)| kernel.time(Some(gpu), Length { lo: ns, value: ns, hi: ns }));
        kernel
    }

    fn judged(mut kernel: Kernel) -> Unsteady {
        kernel.judge();
        kernel.unsteady
    }

    /// The launches of all GPUs were judged together, and those of a kernel that takes longer on one of them were said to take a
    /// different time each.
    #[test]
    fn a_kernel_that_takes_longer_on_one_gpu_than_on_another_is_steady() {
        let on_each = |n: u64| ((n % 3) as u32, if n % 3 == 2 { 900_000 } else { 200_000 });
        assert_eq!(judged(kernel((0..300).map(on_each))), Unsteady::default());
        // The same kernel has another number in a module that was loaded for another GPU.
        let of = |gpu: u32| kernel((0..100).map(move |_| on_each(gpu.into())));
        let (mut one, two) = (of(0), of(2));
        one.merge(&two);
        assert_eq!((one.durations.count(), judged(one)), (200, Unsteady::default()));
    }

    #[test]
    fn what_launches_on_one_of_several_gpus_take_beyond_their_median_is_found() {
        let on_each = |n: u64| ((n % 2) as u32, if n % 10 == 1 { 1_000 } else { 100 });
        let whole = judged(kernel((0..400).map(on_each)));
        let worst = Spread { count: 200, median: 100, mean: 280.0, longest: 1_000 };
        assert_eq!((whole.beyond.round(), whole.worst), (36_000.0, Some(worst)));
        // Two processes.
        let mut both = whole;
        both.merge(&judged(kernel((0..400).map(on_each))));
        both.merge(&judged(kernel((0..400).map(|_| (0, 300)))));
        assert_eq!((both.beyond.round(), both.worst), (72_000.0, Some(worst)));
    }
}
