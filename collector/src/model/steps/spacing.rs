//! How regularly does something recur?
//!
//! The distances between occurrences are counted in bins, of which the most frequent few are kept. That takes bounded
//! memory however long the trace is, and one occurrence far from the others changes nothing.

/// The number of bins that are kept: distances of steps are alike, so that one or two bins contain nearly all.
const KEPT: usize = 8;

/// Bins for each doubling, and the distance below which each distance has a bin of its own. Distances in one bin differ
/// by less than an eighth.
const BINS: u64 = 8;

/// The distance from which on a launch more or less makes no difference.
const SMALL: u64 = 5;

/// A step that contains more than others, as statistics that a library takes in the first ones, is longer by less than this
/// part of it. Where a token is missing in a step, the distance is twice the usual one.
const STRETCHED: f64 = 0.75;

/// Distances of one bin.
#[derive(Clone, Copy, Debug, Default)]
struct Bin {
    /// Its number; 0 for an unused one, because no distance is 0.
    number: u64,
    count: u64,
    /// The sums of the distances and of the host ns.
    distance: u64,
    time: u64,
    /// The distance that most of them have, if most have the same (Boyer and Moore's majority vote).
    usual: u64,
    votes: u64,
}

/// The distances between the occurrences of something.
#[derive(Clone, Debug, Default)]
pub(super) struct Spacings {
    count: u64,
    bins: [Bin; KEPT],
    /// The place of the bin of the last distance, which is mostly that of the next one, too.
    last: usize,
}

/// The distance that most occurrences have.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Usual {
    /// The number of distances that are like it.
    pub count: u64,
    /// Their share of all distances.
    pub agreement: f64,
    /// The share of all distances that are like it or somewhat longer: something more came in between.
    pub stretched: f64,
    /// The share of all distances that are the same to the place, by a majority vote.
    pub exactness: f64,
    /// The distance in places of the sequence.
    pub distance: f64,
    /// Their mean in host ns.
    pub time: f64,
}

impl Spacings {
    /// Takes the distance to the occurrence before, in places of the sequence and in host ns.
    pub(super) fn add(&mut self, distance: u64, time: u64) {
        self.count += 1;
        let number = bin(distance.max(1));
        let is_it = |bin: &Bin| bin.number == number;
        let found =
            if is_it(&self.bins[self.last]) { Some(self.last) } else { self.bins.iter().position(is_it) };
        let at = found.unwrap_or_else(|| {
            // The rarest makes place. A frequent one is never the rarest for long.
            let rarest = (0..KEPT).min_by_key(|at| self.bins[*at].count).unwrap_or(0);
            self.bins[rarest] = Bin { number, ..Bin::default() };
            rarest
        });
        self.last = at;
        let bin = &mut self.bins[at];
        bin.count += 1;
        bin.distance = bin.distance.saturating_add(distance);
        bin.time = bin.time.saturating_add(time);
        match (bin.usual == distance, bin.votes) {
            (true, _) => bin.votes += 1,
            (false, 0) => (bin.usual, bin.votes) = (distance, 1),
            (false, _) => bin.votes -= 1,
        }
    }

    /// The distance that most have; `None` with less than two.
    pub(super) fn usual(&self) -> Option<Usual> {
        let most = self.bins.iter().max_by_key(|bin| bin.count).filter(|_| self.count >= 2)?;
        // A launch more or less may cross a bin's edge. Distances of two to four are what they are: in a random sequence
        // of two letters most are among them.
        let reach = if most.number < SMALL { 0 } else { 1 };
        let alike =
            || self.bins.iter().filter(|bin| bin.number > 0 && bin.number.abs_diff(most.number) <= reach);
        let count: u64 = alike().map(|bin| bin.count).sum();
        let (distance, time) = alike()
            .fold((0u64, 0u64), |(d, t), bin| (d.saturating_add(bin.distance), t.saturating_add(bin.time)));
        let mean = distance as f64 / count as f64;
        let distance = if most.votes > 0 { most.usual as f64 } else { mean };
        let share = |count: u64| count as f64 / self.count as f64;
        let is_longer = |bin: &&Bin| bin.number > most.number + reach;
        let is_near = |bin: &&Bin| (bin.distance as f64) < bin.count as f64 * distance * (1.0 + STRETCHED);
        let longer: u64 = self.bins.iter().filter(is_longer).filter(is_near).map(|bin| bin.count).sum();
        let (agreement, stretched) = (share(count), share(count + longer));
        let (exactness, time) = (share(most.votes), time as f64 / count as f64);
        Some(Usual { count, agreement, stretched, exactness, distance, time })
    }
}

/// The bin of a distance: exact below 16, and from there eight for each doubling.
fn bin(distance: u64) -> u64 {
    let cut = u64::from((distance / BINS).max(1).ilog2());
    cut * BINS + (distance >> cut)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usual(distances: impl IntoIterator<Item = u64>) -> Usual {
        let mut spacings = Spacings::default();
        distances.into_iter().for_each(|distance| spacings.add(distance, distance * 10));
        spacings.usual().unwrap()
    }

    #[test]
    fn a_few_other_distances_do_not_change_the_usual_one() {
        let found = usual((0..1_000).map(|n| if n % 10 == 9 { 77 * n } else { 1_204 }));
        assert!((found.distance, found.time, found.count) == (1_204.0, 12_040.0, 900), "{found:?}");
        assert!((found.agreement - 0.9).abs() < 1e-9);
    }

    #[test]
    fn small_distances_are_told_apart_and_large_ones_may_vary_by_an_eighth() {
        assert_eq!((usual([2, 2, 2, 3]).distance, usual([2, 2, 2, 3]).agreement), (2.0, 0.75));
        let varies = usual((0..100).map(|n| 1_000 + n % 7 * 10));
        assert!(varies.agreement == 1.0 && (1_000.0..=1_060.0).contains(&varies.distance), "{varies:?}");
    }

    #[test]
    fn distances_with_something_more_in_between_are_longer_by_less_than_the_usual_one() {
        let found = usual((0..40).map(|n| if n < 10 { 23 } else { 15 }));
        assert_eq!((found.distance, found.agreement, found.stretched), (15.0, 0.75, 1.0));
        let missing = usual((0..40).map(|n| if n % 10 == 0 { 30 } else { 15 }));
        assert_eq!((missing.agreement, missing.stretched), (0.9, 0.9));
        let elsewhere = usual((0..40).map(|n| if n % 10 == 0 { 7 } else { 15 }));
        assert_eq!(elsewhere.stretched, 0.9);
    }

    #[test]
    fn bins_follow_each_other() {
        let bins: Vec<u64> = (1..100_000).map(bin).collect();
        assert!(bins.windows(2).all(|two| two[1] == two[0] || two[1] == two[0] + 1));
        assert_eq!((bin(1), bin(15), bin(u64::MAX)), (1, 15, 60 * 8 + 15));
    }
}
