//! Quantiles in bounded memory: exact below [`EXACT`] samples, within 1 % beyond.
//!
//! Beyond [`EXACT`] samples are counted in bins: one for each number below [`BINS`], and from there [`BINS`] of equal
//! width for each doubling, as HdrHistogram has them (Gil Tene, hdrhistogram.org). A bin is found without a
//! logarithm, its middle is within 1/256 of every number in it, and two sketches are merged by adding their counts.

use super::estimate::{Estimate, Kind};
use super::merge::Merge;

/// The number of samples from which on they are counted in bins.
pub const EXACT: usize = 10_000;

/// Bins for each doubling: a power of two. Their half-width is less than half of the 1 % that is guaranteed, so that
/// rounding cannot exceed it.
const BINS: u64 = 128;

/// A collection of durations (or other integers) that returns quantiles.
#[derive(Clone, Debug, Default)]
pub struct Quantiles {
    samples: Vec<u64>,
    /// Counts by bin, from the bin of 0; empty while the samples are kept.
    bins: Vec<u64>,
    count: u64,
    /// The least sample and the greatest. A bin is wider than what lies between them if all samples are alike.
    ends: Option<(u64, u64)>,
}

impl Quantiles {
    /// Takes a sample.
    pub fn add(&mut self, sample: u64) {
        self.add_equal(sample, 1);
    }

    /// Takes `count` equal samples.
    pub fn add_equal(&mut self, sample: u64, count: u64) {
        self.count += count;
        if count > 0 {
            self.reach((sample, sample));
        }
        if self.is_exact() && self.count < EXACT as u64 {
            self.samples.extend(std::iter::repeat_n(sample, count as usize));
        } else {
            self.spill();
            self.bin(sample, count);
        }
    }

    /// The number of samples.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Whether quantiles are exact.
    pub fn is_exact(&self) -> bool {
        self.bins.is_empty()
    }

    /// Returns the median with the bounds of the bins of the middle samples. The exact median of an even number of
    /// samples is the mean of the two middle ones, rounded down. `None` without samples.
    pub fn median(&self) -> Option<Estimate<u64>> {
        if self.is_exact() {
            return self.middle().map(|median| Estimate::new(median, median, median));
        }
        let (below, above) = (self.binned((self.count - 1) / 2), self.binned(self.count / 2));
        // The middle between both ends of the bin.
        let value = below.0 + (below.1 - below.0) / 2;
        Some(Estimate { value, lo: below.0, hi: above.1, kind: Kind::Sketch })
    }

    /// Returns the sample below which a share of all samples lies, by its nearest rank; from bins, the middle of its bin.
    /// `None` without samples.
    pub fn quantile(&self, share: f64) -> Option<u64> {
        let rank = ((share * self.count as f64).ceil() as u64).clamp(1, self.count.max(1)) - 1;
        if !self.is_exact() {
            let (lo, hi) = self.binned(rank);
            return Some(lo + (hi - lo) / 2);
        }
        let mut samples = self.samples.clone();
        let at = usize::try_from(rank).ok().filter(|at| *at < samples.len())?;
        Some(*samples.select_nth_unstable(at).1)
    }

    /// Returns the median of samples that are kept as they are.
    fn middle(&self) -> Option<u64> {
        let mut samples = self.samples.clone();
        let (is_even, half) = (samples.len().is_multiple_of(2), samples.len() / 2);
        if samples.is_empty() {
            return None;
        }
        let (below, upper, _) = samples.select_nth_unstable(half);
        let lower = below.iter().copied().max().filter(|_| is_even).unwrap_or(*upper);
        Some(lower + (*upper - lower) / 2)
    }

    /// Notes that there are samples as small and as great as these.
    fn reach(&mut self, (least, greatest): (u64, u64)) {
        let (low, high) = self.ends.unwrap_or((least, greatest));
        self.ends = Some((low.min(least), high.max(greatest)));
    }

    fn spill(&mut self) {
        if self.is_exact() {
            self.bins.push(0);
            for sample in std::mem::take(&mut self.samples) {
                self.bin(sample, 1);
            }
        }
    }

    fn bin(&mut self, sample: u64, count: u64) {
        // The number of low bits to cut off, so that what is left is below 2 · BINS.
        let cut = (sample / BINS).checked_ilog2().map_or(0, u64::from);
        let index = (cut * BINS + (sample >> cut)) as usize;
        if index >= self.bins.len() {
            self.bins.resize(index + 1, 0);
        }
        self.bins[index] += count;
    }

    /// Returns the bounds of the bin of the sample with this rank (from 0), as far as there are samples.
    fn binned(&self, rank: u64) -> (u64, u64) {
        let mut seen = 0;
        let bin = self.bins.iter().position(|count| {
            seen += count;
            rank < seen
        });
        bin.zip(self.ends).map_or((0, 0), |(index, (low, high))| {
            let index = index as u64;
            let cut = (index / BINS).saturating_sub(1);
            let least = (index - cut * BINS) << cut;
            (least.max(low), (least + ((1 << cut) - 1)).min(high))
        })
    }
}

impl Merge for Quantiles {
    fn merge(&mut self, other: &Quantiles) {
        if self.count == 0 {
            self.clone_from(other);
            return;
        }
        for sample in &other.samples {
            self.add(*sample);
        }
        if !other.is_exact() {
            self.spill();
            self.count += other.count;
            other.ends.into_iter().for_each(|ends| self.reach(ends));
            self.bins.resize(self.bins.len().max(other.bins.len()), 0);
            for (mine, theirs) in self.bins.iter_mut().zip(&other.bins) {
                *mine += theirs;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(samples: impl IntoIterator<Item = u64>) -> Quantiles {
        let mut q = Quantiles::default();
        samples.into_iter().for_each(|s| q.add(s));
        q
    }

    #[test]
    fn quantiles_of_few_samples_are_exact() {
        assert_eq!(of([]).median(), None);
        let median = |samples: &[u64]| of(samples.iter().copied()).median();
        let exactly = |ns| Some(Estimate::new(ns, ns, ns));
        assert_eq!(median(&[7]), exactly(7));
        assert_eq!(median(&[9, 1, 4]), exactly(4));
        assert_eq!(median(&[1, 2, 4, 8]), exactly(3));
        let most = of((0..EXACT as u64 - 1).rev());
        assert!(most.is_exact());
        assert_eq!(most.median(), exactly((EXACT as u64 - 2) / 2));
    }

    #[test]
    fn a_quantile_is_the_sample_at_its_rank() {
        assert_eq!(of([]).quantile(0.5), None);
        let hundred = of((1..=100).rev());
        assert_eq!(
            [0.0, 0.5, 0.95, 0.99, 1.0].map(|share| hundred.quantile(share)),
            [1, 50, 95, 99, 100].map(Some)
        );
        let many = of(1..=100_000);
        assert!(
            many.quantile(0.95).is_some_and(|found| found.abs_diff(95_000) <= 500),
            "{:?}",
            many.quantile(0.95)
        );
    }

    /// Of launches that all took 5001 ns, the median was 5007 ns, and the 99th percentile, too.
    #[test]
    fn a_quantile_lies_between_the_least_sample_and_the_greatest() {
        let mut alike = of(std::iter::repeat_n(5_001, EXACT));
        alike.merge(&of([5_000; 7]));
        assert!(!alike.is_exact());
        let sketch = |value, lo, hi| Estimate { value, lo, hi, kind: Kind::Sketch };
        assert_eq!(alike.median(), Some(sketch(5_000, 5_000, 5_001)));
        assert_eq!(alike.quantile(0.99), Some(5_000));
        let mut many = of([]);
        many.add_equal(5_001, EXACT as u64);
        assert_eq!(many.median(), Some(sketch(5_001, 5_001, 5_001)));
        let mut both = of([1]);
        both.merge(&many);
        assert_eq!(both.quantile(1.0).map(|most| most <= 5_001), Some(true));
    }

    #[test]
    fn memory_does_not_grow_with_samples() {
        let q = of((0..200_000u64).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
        assert!(q.samples.capacity() == 0 && q.bins.len() < 7_500, "{} bins", q.bins.len());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn quantiles_of_many_samples_are_within_a_percent_and_inside_the_interval(
            seed in 1u64.., spread in 1u32..40, parts in 1usize..4, one_more in 0usize..2,
        ) {
            let mut x = seed;
            let mut samples: Vec<u64> = (0..EXACT * 2 + one_more).map(|_| {
                x ^= x << 13; x ^= x >> 7; x ^= x << 17;
                x >> (63 - spread)
            }).collect();
            let mut merged = Quantiles::default();
            for part in samples.chunks(samples.len() / parts) {
                merged.merge(&of(part.iter().copied()));
            }
            samples.sort_unstable();
            let (below, above) = (samples[(samples.len() - 1) / 2], samples[samples.len() / 2]);
            let (truth, found) = (below + (above - below) / 2, merged.median().unwrap());
            prop_assert_eq!(merged.count(), samples.len() as u64);
            prop_assert!(found.lo <= truth && truth <= found.hi, "{:?} for {}", found, truth);
            prop_assert!(found.lo <= found.value && found.value <= found.hi, "{:?}", found);
            let is_near = |value: u64| value.abs_diff(below) as f64 <= 0.01 * below as f64 + 0.5;
            prop_assert!(is_near(found.value), "{:?} for {}", found, truth);
        }
    }
}
