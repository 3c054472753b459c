//! What a GPU did when: its counted time in bins of equal length, each divided into the parts of its
//! [identity](super::identity).
//!
//! How long a trace is, is known at its end only. So the bins start short; whenever the time runs past the last of
//! them, each two neighbours become one of twice the length. There are never more than [`BINS`], and from the first
//! merge on never fewer than half of that.

use super::identity::{PARTS, Part};

/// The most bins: a screen of 240 columns has one for each.
pub const BINS: usize = 240;

/// The length of a bin at the start, ns: shorter than a launch takes.
const SHORTEST: u64 = 1 << 10;

/// The parts of a bin's time, ns, by [`Part`].
pub type Bin = [u64; PARTS];

/// The counted time of a GPU, from the start of its span, in bins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bins {
    /// The length of a bin, ns.
    length: u64,
    bins: Vec<Bin>,
    /// How much of the last bin is filled, ns.
    filled: u64,
}

impl Default for Bins {
    fn default() -> Self {
        Bins { length: SHORTEST, bins: Vec::new(), filled: SHORTEST }
    }
}

impl Bins {
    /// Appends `ns` that were spent on one part.
    pub fn pass(&mut self, part: Part, mut ns: u64) {
        loop {
            let fits = ns.min(self.length - self.filled);
            if let Some(last) = self.bins.last_mut() {
                last[part.index()] += fits;
            }
            self.filled += fits;
            ns -= fits;
            if ns == 0 {
                return;
            }
            self.next();
        }
    }

    /// Starts another bin. If there are too many, they are merged first.
    fn next(&mut self) {
        if self.bins.len() == BINS {
            let merged = self.bins.chunks(2).map(|pair| {
                std::array::from_fn(|part| pair.iter().fold(0u64, |sum, bin| sum.saturating_add(bin[part])))
            });
            self.bins = merged.collect();
            self.length = self.length.saturating_mul(2);
        }
        self.bins.push([0; PARTS]);
        self.filled = 0;
    }

    /// The length of each bin but the last one, ns.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// The bins, in order.
    pub fn bins(&self) -> &[Bin] {
        &self.bins
    }

    /// Returns how much of each part lies between two moments, ns from the start of the span. Within a bin, the parts
    /// are taken to be spread evenly.
    pub fn between(&self, from: u64, to: u64) -> Bin {
        let mut sum = [0; PARTS];
        let first = usize::try_from(from / self.length).unwrap_or(usize::MAX);
        for (at, bin) in self.bins.iter().enumerate().skip(first) {
            let start = (at as u64).saturating_mul(self.length);
            if start >= to {
                break;
            }
            let common = to.min(start.saturating_add(self.length)) - from.max(start);
            for (sum, ns) in sum.iter_mut().zip(bin) {
                *sum += (u128::from(*ns) * u128::from(common) / u128::from(self.length)) as u64;
            }
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analyze::identity::Class;
    use proptest::prelude::*;

    const WORK: Part = Part::Busy(Class::Compute);

    #[test]
    fn what_ran_when_is_kept_in_order() {
        let mut bins = Bins::default();
        bins.pass(WORK, 4 * SHORTEST);
        bins.pass(Part::Idle, 2 * SHORTEST);
        assert_eq!(bins.bins().len(), 6);
        assert_eq!(bins.between(0, 4 * SHORTEST)[WORK.index()], 4 * SHORTEST);
        assert_eq!(bins.between(3 * SHORTEST, 5 * SHORTEST)[Part::Idle.index()], SHORTEST);
        assert_eq!(bins.between(6 * SHORTEST, u64::MAX), [0; PARTS]);
    }

    #[test]
    fn hours_take_no_more_bins_than_a_moment() {
        let mut bins = Bins::default();
        for _ in 0..100 {
            bins.pass(WORK, 3_600_000_000_000);
            bins.pass(Part::Idle, 1);
        }
        assert!((BINS / 2..=BINS).contains(&bins.bins().len()), "{}", bins.bins().len());
        bins.pass(WORK, u64::MAX / 2);
        assert!(bins.bins().len() <= BINS);
    }

    proptest! {
        #[test]
        fn the_bins_sum_to_what_was_passed(
            passed in prop::collection::vec((0..PARTS, 0u64..10_000_000), 0..300),
        ) {
            let (mut bins, mut sums) = (Bins::default(), [0; PARTS]);
            for (part, ns) in passed {
                bins.pass(Part::ALL[part], ns);
                sums[part] += ns;
            }
            let of = |part: usize| bins.bins().iter().map(|bin| bin[part]).sum::<u64>();
            prop_assert_eq!(std::array::from_fn::<u64, PARTS, _>(of), sums);
            let full = bins.bins().len().saturating_sub(1);
            for bin in &bins.bins()[..full] {
                prop_assert_eq!(bin.iter().sum::<u64>(), bins.length());
            }
        }
    }
}
