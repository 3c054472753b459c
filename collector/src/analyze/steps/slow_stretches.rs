//! Where did steps in a row take longer than the others?
//!
//! The run is divided into up to 480 parts of equally many steps. Those that take more than 1.1 times the median of all parts, and
//! more than the median and three standard deviations, are slow; the deviation is taken from the parts below the median, which slow ones
//! do not change. At least five slow parts in a row, with at least twenty steps, are a slow stretch, if the time changes at once where
//! it begins and where it ends: steps that become longer little by little have a [drift](super::StepTimes::drift) instead. The longest
//! step of each part is left out of all of that, since a single pause says nothing about the others.

use super::plot::Part;
use std::ops::Range;

/// By how much a slow part exceeds the median at least, as a factor.
const SLOW: f64 = 1.1;
/// By how many standard deviations, so that the parts of unsteady steps are not slow by chance.
const SIGMAS: f64 = 3.0;
/// The fewest slow parts in a row, and their fewest steps.
const PARTS: usize = 5;
const STEPS: u64 = 20;
/// The fewest parts from which a usual time is known.
const ALL: usize = 4 * PARTS;
/// How far the parts beside a slow stretch may be above the median, as a share of what the slow ones are.
const ABRUPT: f64 = 0.3;
/// The parts beside a slow stretch that are looked at.
const BESIDE: usize = 3;

/// Steps in a row that took longer than the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Slow {
    /// Their numbers.
    pub steps: Range<u64>,
    /// When the first began, host ns.
    pub start: u64,
    /// How long they took, ns.
    pub total: u64,
    /// How long a step usually takes, ns.
    pub usual: u64,
}

/// Returns the slow stretches in the parts of a run, whose warm-up ends before step `warm_up`.
pub(super) fn found(parts: &[Part], warm_up: u64) -> Vec<Slow> {
    let from = parts.iter().position(|part| part.first >= warm_up).unwrap_or(parts.len());
    let steady = &parts[from..];
    let levels: Vec<u64> = steady.iter().map(Part::trimmed_mean).collect();
    let Some(levels) = Levels::of(levels).filter(|levels| levels.of.len() >= ALL) else { return Vec::new() };
    let is_long = |range: &Range<usize>| {
        range.len() >= PARTS && steady[range.clone()].iter().map(|part| part.steps).sum::<u64>() >= STEPS
    };
    let slow = |range: Range<usize>| {
        let end = steady.get(range.end).map(|next| next.first);
        let (first, last) = (&steady[range.start], &steady[range.end - 1]);
        Slow {
            steps: first.first..end.unwrap_or(last.first + last.steps),
            start: first.start,
            total: steady[range].iter().fold(0, |sum: u64, part| sum.saturating_add(part.total)),
            usual: levels.median,
        }
    };
    let runs = levels.slow().into_iter();
    runs.filter(|range| is_long(range) && levels.is_abrupt(range)).map(slow).collect()
}

/// How long a step takes in each part, ns.
struct Levels {
    of: Vec<u64>,
    median: u64,
    /// What is slow takes longer than this.
    threshold: f64,
}

impl Levels {
    fn of(levels: Vec<u64>) -> Option<Levels> {
        let mut sorted = levels.clone();
        sorted.sort_unstable();
        let at = |share: f64| sorted.get((share * sorted.len() as f64) as usize).copied();
        let (low, median) = (at(0.158_655)?, at(0.5)?);
        let sigma = (median - low) as f64;
        let threshold = (median as f64 * SLOW).max(median as f64 + SIGMAS * sigma);
        Some(Levels { of: levels, median, threshold })
    }

    /// Returns the slow parts; one between two slow ones that is not is one of them.
    fn slow(&self) -> Vec<Range<usize>> {
        let mut found: Vec<Range<usize>> = Vec::new();
        for (at, _) in self.of.iter().enumerate().filter(|(_, level)| **level as f64 > self.threshold) {
            match found.last_mut() {
                Some(last) if at <= last.end + 1 => last.end = at + 1,
                _ => found.push(at..at + 1),
            }
        }
        found
    }

    /// Whether the time changes at once on each side on which there are other parts, and there are some. (Of the part right beside a
    /// slow stretch, some steps may be slow.)
    fn is_abrupt(&self, range: &Range<usize>) -> bool {
        let excess = |levels: &[u64]| {
            let mean = levels.iter().map(|level| *level as f64).sum::<f64>() / levels.len().max(1) as f64;
            mean - self.median as f64
        };
        let slow = excess(&self.of[range.clone()]);
        let before = range.start.saturating_sub(1 + BESIDE)..range.start.saturating_sub(1);
        let after = (range.end + 1).min(self.of.len())..(range.end + 1 + BESIDE).min(self.of.len());
        let beside = [before, after].map(|side| &self.of[side]);
        let mut known = beside.into_iter().filter(|side| !side.is_empty()).peekable();
        known.peek().is_some() && known.all(|side| excess(side) <= ABRUPT * slow)
    }
}

#[cfg(test)]
mod tests {
    use super::super::plot::Plot;
    use super::super::times::Taken;
    use super::*;

    /// The slow stretches of steps that take so long, ns.
    fn slow(durations: impl IntoIterator<Item = u64>) -> Vec<Slow> {
        let (mut plot, mut start) = (Plot::default(), 1_000);
        for (step, duration) in (0..).zip(durations) {
            plot.add(&Taken { step, start, duration, is_shared: false });
            start += duration;
        }
        found(&plot.parts(), 0)
    }

    /// Noise of up to 2 %, which repeats.
    fn noise(step: u64, ns: u64) -> u64 {
        ns + ns * (step * 37 % 20) / 1_000
    }

    fn steps(found: &[Slow]) -> Vec<(u64, u64)> {
        found.iter().map(|slow| (slow.steps.start, slow.steps.end)).collect()
    }

    /// In a job of two hours, each step of three minutes took 22 % longer, and nothing said so.
    #[test]
    fn steps_in_a_row_that_take_longer_are_a_slow_stretch() {
        let durations = (0..360_000u64)
            .map(|step| noise(step, if (120_000..130_000).contains(&step) { 24_000 } else { 19_600 }));
        let found = slow(durations);
        let [Slow { steps, start, total, usual }] = &found[..] else { panic!("{found:?}") };
        // A part is of a thousand steps.
        assert!(steps.start.abs_diff(120_000) <= 1_024 && steps.end.abs_diff(130_000) <= 1_024, "{steps:?}");
        assert!(start.abs_diff(120_000 * 19_786) <= 1_024 * 20_000, "{start}");
        assert!(
            total.abs_diff(10_000 * 24_228) <= 2_048 * 25_000 && usual.abs_diff(19_786) <= 20,
            "{found:?}"
        );
    }

    #[test]
    fn a_slow_stretch_may_begin_or_end_the_run_and_there_may_be_several() {
        let of = |slow: &'static [(u64, u64)]| {
            let is_slow = move |step| slow.iter().any(|(from, to)| (*from..*to).contains(&step));
            (0..400u64).map(move |step| noise(step, if is_slow(step) { 2_000 } else { 1_000 }))
        };
        assert_eq!(steps(&slow(of(&[(300, 400)]))), [(300, 400)]);
        assert_eq!(steps(&slow(of(&[(0, 100)]))), [(0, 100)]);
        assert_eq!(steps(&slow(of(&[(50, 90), (200, 260)]))), [(50, 90), (200, 260)]);
        assert_eq!(steps(&slow(of(&[(50, 69)]))), [], "of fewer than twenty steps");
        assert_eq!(steps(&slow(of(&[]))), []);
        assert_eq!(slow([]), []);
    }

    #[test]
    fn single_pauses_and_what_recurs_all_the_time_are_no_slow_stretch() {
        let pauses = (0..30_000u64).map(|step| noise(step, if step % 999 == 500 { 500_000 } else { 1_000 }));
        assert_eq!(slow(pauses), []);
        // Half of the steps, twenty in a row by turns.
        assert_eq!(slow((0..30_000u64).map(|step| if step / 20 % 2 == 0 { 1_000 } else { 2_000 })), []);
        // A random length each.
        let random = (0..30_000u64).map(|step| 1_000 + ((step * 0x9e37_79b9) >> 7) % 2_000);
        assert_eq!(slow(random), []);
    }

    /// As of a text that becomes longer with each step, and begins again from scratch.
    #[test]
    fn steps_that_become_longer_little_by_little_are_no_slow_stretch() {
        assert_eq!(slow((0..5_000u64).map(|step| 1_000 + step)), []);
        assert_eq!(slow((0..5_000u64).map(|step| 1_000 + 2 * (step % 1_000))), []);
    }
}
