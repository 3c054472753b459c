//! Quantiles in bounded memory: exact below [`EXACT`] samples, within 1 % beyond.
//!
//! Beyond that it counts in bins: one for each number below [`BINS`], and that many for each doubling from there, equally wide,
//! as HdrHistogram has them (Gil Tene, hdrhistogram.org). A bin is found without a logarithm, its middle is within 1/256 of
//! anything in it, and two sketches merge by adding.

/// Samples that are kept as they are.
pub const EXACT: usize = 10_000;

/// Bins for each doubling: a power of two. Their half-width is less than half of the 1 % that is promised, so that rounding
/// cannot spoil it.
const BINS: u64 = 128;

/// Durations (or any whole numbers), to be asked for quantiles.
#[derive(Clone, Debug, Default)]
pub struct Quantiles {
    samples: Vec<u64>,
    /// Counts by bin, from the bin of 0; empty while the samples are kept.
    bins: Vec<u64>,
    count: u64,
}

impl Quantiles {
    /// Takes a sample.
    pub fn add(&mut self, sample: u64) {
        self.count += 1;
        if self.is_exact() && self.samples.len() + 1 < EXACT {
            self.samples.push(sample);
        } else {
            self.spill();
            self.bin(sample);
        }
    }

    /// Takes over all samples of another.
    pub fn merge(&mut self, other: &Quantiles) {
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
            self.bins.resize(self.bins.len().max(other.bins.len()), 0);
            for (mine, theirs) in self.bins.iter_mut().zip(&other.bins) {
                *mine += theirs;
            }
        }
    }

    /// Samples taken.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Whether answers are exact.
    pub fn is_exact(&self) -> bool {
        self.bins.is_empty()
    }

    /// The sample in the middle (the mean of both middle ones, rounded down, when they are even and exact); `None`
    /// without samples.
    pub fn median(&self) -> Option<u64> {
        if !self.is_exact() {
            return Some(self.binned((self.count - 1) / 2));
        }
        let mut sorted = self.samples.clone();
        sorted.sort_unstable();
        let upper = *sorted.get(sorted.len() / 2)?;
        let lower = sorted[(sorted.len() - 1) / 2];
        Some(lower + (upper - lower) / 2)
    }

    fn spill(&mut self) {
        if self.is_exact() {
            self.bins.push(0);
            for sample in std::mem::take(&mut self.samples) {
                self.bin(sample);
            }
        }
    }

    fn bin(&mut self, sample: u64) {
        // Bits that are cut off, so that what is left is below 2 · BINS.
        let cut = (sample / BINS).checked_ilog2().map_or(0, u64::from);
        let index = (cut * BINS + (sample >> cut)) as usize;
        if index >= self.bins.len() {
            self.bins.resize(index + 1, 0);
        }
        self.bins[index] += 1;
    }

    /// The sample of a rank (from 0), from the bins.
    fn binned(&self, rank: u64) -> u64 {
        let mut seen = 0;
        let bin = self.bins.iter().position(|count| {
            seen += count;
            rank < seen
        });
        bin.map_or(0, |index| {
            let index = index as u64;
            let cut = (index / BINS).saturating_sub(1);
            // From the bin's least to its greatest: the middle.
            ((index - cut * BINS) << cut) + ((1 << cut) - 1) / 2
        })
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
    fn few_samples_are_exact() {
        assert_eq!(of([]).median(), None);
        assert_eq!(of([7]).median(), Some(7));
        assert_eq!(of([9, 1, 4]).median(), Some(4));
        assert_eq!(of([1, 2, 4, 8]).median(), Some(3));
        let most = of((0..EXACT as u64 - 1).rev());
        assert!(most.is_exact());
        assert_eq!(most.median(), Some((EXACT as u64 - 2) / 2));
    }

    #[test]
    fn memory_does_not_grow_with_samples() {
        let q = of((0..200_000u64).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
        assert!(q.samples.capacity() == 0 && q.bins.len() < 7_500, "{} bins", q.bins.len());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn many_samples_are_within_a_percent(seed in 1u64.., spread in 1u32..40, parts in 1usize..4) {
            let mut x = seed;
            let mut samples: Vec<u64> = (0..EXACT * 2 + 1).map(|_| {
                x ^= x << 13; x ^= x >> 7; x ^= x << 17;
                x >> (63 - spread)
            }).collect();
            let mut merged = Quantiles::default();
            for part in samples.chunks(samples.len() / parts) {
                merged.merge(&of(part.iter().copied()));
            }
            samples.sort_unstable();
            let truth = samples[EXACT];
            let found = merged.median().unwrap();
            prop_assert_eq!(merged.count(), samples.len() as u64);
            prop_assert!(found.abs_diff(truth) as f64 <= 0.01 * truth as f64 + 0.5, "{} for {}", found, truth);
        }
    }
}
