//! Does memory grow throughout the run?
//!
//! The first eighth of the stretches is the warm-up, in which every program allocates. The rest is divided into quarters.
//! Memory grows if the least that was held rises from quarter to quarter, and not only once: an even growth gives each
//! quarter a third of the sum, and each has to have half of that.

use super::stretches::Floor;

/// The fewest stretches after the warm-up from which growth is judged: two in each quarter.
const FEWEST: usize = 8;
/// Less growth than this is not reported, bytes: allocators round up to units of this order (cuMemAlloc gives out memory
/// of 2 MiB pages).
const LEAST: u64 = 1 << 20;

/// The course of what was held.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Trend {
    /// The first stretch after the warm-up.
    pub from: usize,
    /// The least that was held in the first quarter, bytes.
    pub first: u64,
    /// The least that was held in the last quarter, bytes.
    pub last: u64,
    /// The growth per stretch, bytes: the median of the slopes between all pairs of stretches (Theil and Sen).
    pub slope: f64,
}

impl Trend {
    /// Returns the course, or `None` if it is too short to judge.
    pub fn of(floors: &[Floor]) -> Option<Trend> {
        let from = floors.len().div_ceil(8).max(1);
        let steady = floors.get(from..).filter(|steady| steady.len() >= FEWEST)?;
        let [first, .., last] = quarters(steady);
        Some(Trend { from, first, last, slope: slope(steady) })
    }

    /// Returns the course if it grows throughout.
    pub fn growing(floors: &[Floor]) -> Option<Trend> {
        let trend = Trend::of(floors)?;
        let quarters = quarters(&floors[trend.from..]);
        let growth = trend.last.saturating_sub(trend.first);
        let rises = |two: &[u64]| two[1].saturating_sub(two[0]) >= (growth / 6).max(1);
        let is_much = growth >= LEAST && growth >= trend.first / 100;
        (is_much && trend.slope > 0.0 && quarters.windows(2).all(rises)).then_some(trend)
    }
}

/// Returns the least of each quarter.
fn quarters(steady: &[Floor]) -> [u64; 4] {
    let least = |quarter: usize| {
        let (from, to) = (steady.len() * quarter / 4, steady.len() * (quarter + 1) / 4);
        steady[from..to].iter().map(|floor| floor.0).min().unwrap_or(0)
    };
    [least(0), least(1), least(2), least(3)]
}

fn slope(steady: &[Floor]) -> f64 {
    let mut slopes = Vec::with_capacity(steady.len() * steady.len() / 2);
    for (at, one) in steady.iter().enumerate() {
        let later = steady[at + 1..].iter().enumerate();
        slopes.extend(later.map(|(after, other)| (other.0 as f64 - one.0 as f64) / (after + 1) as f64));
    }
    slopes.sort_unstable_by(f64::total_cmp);
    slopes.get(slopes.len() / 2).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn grows(level: impl Fn(u64) -> u64) -> bool {
        let floors: Vec<Floor> = (0..64).map(|step| Floor(level(step) * MIB)).collect();
        Trend::growing(&floors).is_some()
    }

    #[test]
    fn only_memory_that_rises_throughout_grows() {
        assert!(grows(|step| 100 + step), "evenly");
        assert!(grows(|step| 100 + step / 10 * 10), "in jumps");
        assert!(grows(|step| 100 + step + step % 3 * 50), "with much that comes and goes");
        assert!(!grows(|_| 100), "constant");
        assert!(!grows(|step| 100 + step.min(8)), "in the warm-up");
        assert!(!grows(|step| if step < 40 { 100 } else { 300 }), "once");
        assert!(!grows(|step| 100 + step % 16), "up and down");
        assert!(!grows(|step| 200 - step), "it shrinks");
        assert!(!grows(|step| 10_000 + step), "less than a hundredth");
    }

    #[test]
    fn the_slope_is_the_growth_of_a_stretch() {
        let floors: Vec<Floor> = (0..64).map(|step| Floor(step * 3 * MIB + step % 2 * 100)).collect();
        let trend = Trend::growing(&floors).unwrap();
        assert!((trend.slope / (3.0 * MIB as f64) - 1.0).abs() < 0.01, "{trend:?}");
        assert!(Trend::of(&floors[..8]).is_none(), "too short");
    }
}
