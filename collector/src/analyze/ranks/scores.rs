//! How fast is a rank with its own work, from 0 to 1?
//!
//! The scores are those of the straggler detection in NVIDIA's Resiliency Extension: a reference time divided by the rank's
//! own, against the best of all ranks, and against the best that the rank itself has shown. The time here is that
//! between two communication kernels, in which a rank waits for no other.

use crate::analyze::collectives::{Collectives, OwnTime, Window};

/// A rank's scores: 1 is as fast as the reference, 0.5 takes twice as long. `None` where there is nothing to compare.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Score {
    /// Against the best rank.
    pub vs_best: Option<f64>,
    /// Its mean against the best part of its own run.
    pub vs_own: Option<f64>,
}

/// Parts of a run are compared if there are this many whole ones.
const LEAST_WINDOWS: usize = 3;

/// Returns the scores of the ranks.
pub fn scores(ranks: &[&Collectives]) -> Vec<Score> {
    let means: Vec<Option<f64>> = ranks.iter().map(|one| one.own.mean()).collect();
    let timed = means.iter().flatten().count();
    let best = means.iter().flatten().copied().reduce(f64::min).filter(|_| timed > 1);
    let score = |(one, mean): (&&Collectives, &Option<f64>)| Score {
        vs_best: best.zip(*mean).map(ratio),
        vs_own: best_part(&one.own).zip(*mean).map(ratio),
    };
    ranks.iter().zip(&means).map(score).collect()
}

/// Returns a reference time divided by another, at most 1.
fn ratio((reference, time): (f64, f64)) -> f64 {
    if time <= reference { 1.0 } else { reference / time }
}

/// Returns the mean of the fastest part of a run.
fn best_part(own: &OwnTime) -> Option<f64> {
    let whole: Vec<&Window> = own.windows.iter().filter(|window| window.count >= own.each).collect();
    let means = whole.iter().filter_map(|window| window.mean());
    means.reduce(f64::min).filter(|_| whole.len() >= LEAST_WINDOWS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rank(times: impl IntoIterator<Item = u64>) -> Collectives {
        let mut own = OwnTime::default();
        times.into_iter().for_each(|ns| own.add(ns));
        Collectives { own, ..Collectives::default() }
    }

    fn of(ranks: &[Collectives]) -> Vec<(Option<f64>, Option<f64>)> {
        let scores = scores(&ranks.iter().collect::<Vec<_>>());
        scores.iter().map(|score| (score.vs_best, score.vs_own)).collect()
    }

    #[test]
    fn a_rank_that_takes_twice_as_long_scores_a_half() {
        let scores = of(&[rank([1_000; 100]), rank([2_000; 100]), rank([1_250; 100])]);
        assert_eq!(scores, [(Some(1.0), Some(1.0)), (Some(0.5), Some(1.0)), (Some(0.8), Some(1.0))]);
    }

    #[test]
    fn a_rank_that_slows_down_is_compared_with_its_own_best() {
        let slower = (0..6_400).map(|n| if n < 3_200 { 1_000 } else { 3_000 });
        let [(vs_best, vs_own), _] = of(&[rank(slower), rank([2_000; 6_400])])[..] else { panic!() };
        assert_eq!((vs_best, vs_own), (Some(1.0), Some(0.5)));
    }

    #[test]
    fn without_anything_to_compare_there_is_no_score() {
        assert_eq!(of(&[rank([]), rank([5; 10])]), [(None, None), (None, None)]);
        assert_eq!(of(&[rank([0; 40]), rank([0; 40])])[0].0, Some(1.0));
    }
}
