//! What may the step times of two runs of the same program differ by?
//!
//! The noise is in both runs' own steps: their spread, their number, and how much the speed changes during a run.

use super::change::far;
use crate::analyze::steps::TimedOn;
use crate::report::rows::steps::{Outlier, Steps};

/// The least noise, as a share: where libraries and buffers happen to lie changes the speed of a program from run to run
/// by about so much, which one run's steps cannot show (Mytkowicz et al., "Producing Wrong Data Without Doing Anything
/// Obviously Wrong!", ASPLOS 2009).
const LEAST_NOISE: f64 = 0.01;
/// With fewer steps after the warm-up, the noise is not known.
const FEWEST: u64 = 5;
/// Standard deviations on either side of the mean of a normal distribution that contain 99 % of it.
const IN_99_PERCENT: f64 = 2.576;
/// The standard error of a median, in standard errors of a mean: √(π/2), for a normal distribution.
const OF_MEDIAN: f64 = 1.2533;
/// The standard deviation of a normal distribution, in its median absolute deviations.
const OF_DEVIATION: f64 = 1.4826;
/// The 95th percentile of a normal distribution, in standard deviations above its median.
const TO_P95: f64 = 1.645;
/// Of a run, at most so many steps that took much longer are known.
pub const MOST_LONG: usize = 10;
/// The fewest long steps whose equal distances are no chance.
const RECURS: usize = 3;
/// The fewest long steps that are no chance if both runs have them at the same places.
const PAIRED: usize = 2;
/// Equal parts of a run whose levels show how much the speed wanders.
const PARTS: usize = 8;

/// Returns what the median step times of two runs of the same program may differ by, ns; `None` if there are too few steps.
pub fn of_median(before: &Steps, after: &Steps) -> Option<f64> {
    let (one, other) = (by_chance(before)?, by_chance(after)?);
    let error = match beside_a_trend(before, after) {
        Some(wanders) => one.hypot(other).max(wanders),
        None => {
            let wanders = |steps: &Steps| wandering(&steps.plot_ns, median);
            one.max(wanders(before)).hypot(other.max(wanders(after)))
        }
    };
    let least = LEAST_NOISE * before.median_ns? as f64;
    Some((IN_99_PERCENT * error).max(least))
}

/// Returns the standard error of a run's median step time, if its steps were independent of each other.
///
/// They are not: a clock or a neighbour changes and stays so for a while. So the levels of equal parts of the run are compared,
/// too, and a whole run is taken to vary [as much as such a part does](wandering).
fn by_chance(steps: &Steps) -> Option<f64> {
    let count = steps.measured?;
    let std = steps.std_ns?;
    // A few steps that took much longer inflate the standard deviation, and leave the median where it was.
    let above = steps.p95_ns?.saturating_sub(steps.median_ns?) as f64 / TO_P95;
    let spread = if steps.outliers.is_empty() { std } else { std.min(above) };
    error_of_median(spread, count)
}

/// Returns the standard error of the median of so many times with this standard deviation; `None` if there are too few.
pub fn error_of_median(std: f64, count: u64) -> Option<f64> {
    (count >= FEWEST).then(|| OF_MEDIAN * std / (count as f64).sqrt())
}

/// Returns what two medians of the same program, of which the first is `before`, may differ by if they have these standard errors.
pub fn of_medians(before: f64, [one, other]: [f64; 2]) -> f64 {
    (IN_99_PERCENT * one.hypot(other)).max(LEAST_NOISE * before)
}

/// Returns the standard deviation of what the levels of two runs of as many steps differ by, beside a trend that both have: steps that
/// become longer from part to part, as with the length of a text, do so in each run of the program. `None` if there is no such trend.
fn beside_a_trend(before: &Steps, after: &Steps) -> Option<f64> {
    if far(before.count, after.count).is_some() {
        return None;
    }
    let (one, other) = (levels(&before.plot_ns, median)?, levels(&after.plot_ns, median)?);
    let grow = |levels: &[u64]| levels.windows(2).all(|pair| pair[0] < pair[1]);
    let shrink = |levels: &[u64]| levels.windows(2).all(|pair| pair[0] > pair[1]);
    if !(grow(&one) && grow(&other) || shrink(&one) && shrink(&other)) {
        return None;
    }
    let both = || one.iter().zip(&other).map(|(one, other)| (*one as f64, *other as f64));
    let mut ratios: Vec<f64> = both().map(|(one, other)| other / one.max(1.0)).collect();
    ratios.sort_by(f64::total_cmp);
    let ratio = ratios.get(PARTS / 2).copied()?;
    let deviations: Vec<u64> =
        both().map(|(one, other)| (other - ratio * one).abs().round() as u64).collect();
    Some(OF_DEVIATION * median(&deviations) as f64)
}

/// Returns the same of their mean step times.
///
/// Rare long steps make most of the spread. How many of them a run has is left to chance, so a run that has none may only have
/// been lucky, or too short: both runs are taken to have them as often as both together. Long steps that recur at equal
/// distances over a whole run, as at the start of each epoch, are no chance: of those, one more or less may lie in a run. And
/// those that both runs have at the same places are the program's own: of those, each run has as many.
pub fn of_mean(before: &Steps, after: &Steps, clock: Clock) -> Option<f64> {
    let paired = paired(before, after);
    let is_paired = paired.is_some();
    let [of_before, of_after] =
        paired.map_or_else(|| [recurring(before), recurring(after)], |both| both.map(Some));
    let (one, other) = (Spread::of(before, clock, of_before)?, Spread::of(after, clock, of_after)?);
    let variance = (one.count * one.variance + other.count * other.variance) / (one.count + other.count);
    let by_chance = (variance * (1.0 / one.count + 1.0 / other.count)).sqrt();
    // A number that is either of two neighbours deviates by at most one half.
    let by_length = one.longest.max(other.longest) / 2.0 * (1.0 / one.count).hypot(1.0 / other.count);
    let by_number = if is_paired { 0.0 } else { by_length };
    let of_long = one.of_long.hypot(other.of_long);
    // Long steps are in the mean of some of the times in a plot, and hardly in the least of them.
    let least = |plot: &[u64]| plot.iter().copied().min().unwrap_or(0);
    let wanders = wandering(&before.plot_ns, least).hypot(wandering(&after.plot_ns, least));
    let error = by_chance.hypot(by_number).hypot(of_long).max(wanders);
    Some((IN_99_PERCENT * error).max(LEAST_NOISE * one.mean))
}

/// By which clock the mean of the steps is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// That by which the steps of the run are timed.
    Own,
    /// From call to call on the host.
    Host,
}

/// The spread of a run's step times, ns.
#[derive(Clone, Copy, Debug)]
struct Spread {
    /// How many times were measured.
    count: f64,
    mean: f64,
    /// The variance of what is left to chance.
    variance: f64,
    /// By how much the longest of the long steps that are no chance is above the median; 0 without such steps.
    longest: f64,
    /// The standard error of the mean that comes from how much those steps differ from each other.
    of_long: f64,
}

impl Spread {
    /// Returns the spread of a run, of whose long steps some may be no chance.
    fn of(steps: &Steps, clock: Clock, no_chance: Option<Vec<&Outlier>>) -> Option<Spread> {
        let all = steps.count.saturating_sub(steps.warm_up);
        let (mean, std, count) = match clock {
            Clock::Own => (steps.mean_ns?, steps.std_ns?, steps.measured?),
            Clock::Host => (steps.host_mean_ns?, steps.host_std_ns?, all),
        };
        if count < FEWEST {
            return None;
        }
        let count = count as f64;
        let is_of_clock = clock == Clock::Own || steps.timed_on != Some(TimedOn::Gpu.name());
        let Some(long) = no_chance.filter(|_| is_of_clock) else {
            let variance = (std * std).max(of_parts(steps, count));
            return Some(Spread { count, mean, variance, longest: 0.0, of_long: 0.0 });
        };
        let durations = || long.iter().map(|step| step.duration_ns as f64);
        let number = durations().count() as f64;
        let middle = durations().sum::<f64>() / number.max(1.0);
        let squares: f64 = durations().map(|duration| (duration - middle).powi(2)).sum();
        let above = steps.median_ns.unwrap_or(0) as f64;
        Some(Spread {
            count,
            mean,
            variance: without(durations(), all as f64, mean, std),
            longest: durations().map(|duration| duration - above).fold(0.0, f64::max),
            of_long: (squares * number / (number - 1.0).max(1.0)).sqrt() / count,
        })
    }
}

/// Returns the long steps of each of two runs if both have as many steps, and long ones at the same places: at least
/// [`PAIRED`], each one step apart at most.
pub fn paired<'s>(before: &'s Steps, after: &'s Steps) -> Option<[Vec<&'s Outlier>; 2]> {
    let long = |steps: &'s Steps| {
        let mut long = long_steps(steps, longest_excess(steps));
        long.sort_by_key(|step| step.step);
        long
    };
    let (one, other) = (long(before), long(after));
    let are_apart = |(one, other): (&&Outlier, &&Outlier)| one.step.abs_diff(other.step) > 1;
    let are_as_many = before.count.abs_diff(after.count) <= 1 && one.len() == other.len();
    // Of more, those in between may not be known.
    let are_known = (PAIRED..MOST_LONG).contains(&one.len());
    let is_paired = are_as_many && are_known && !one.iter().zip(&other).any(are_apart);
    is_paired.then_some([one, other])
}

/// Returns the long steps of a run if they recur: at least [`RECURS`] at distances that are alike, from the start of the run to
/// its end.
fn recurring(steps: &Steps) -> Option<Vec<&Outlier>> {
    let mut long = long_steps(steps, longest_excess(steps));
    // Of more, those in between may not be known.
    if !(RECURS..MOST_LONG).contains(&long.len()) {
        return None;
    }
    long.sort_by_key(|step| step.step);
    let distances = long.windows(2).map(|pair| pair[1].step - pair[0].step);
    let (least, most) = distances.fold((u64::MAX, 0), |(least, most), of| (least.min(of), most.max(of)));
    let (first, last) = (long.first()?.step, long.last()?.step);
    let is_to_the_ends = first <= most && steps.count.saturating_sub(last) <= most.saturating_add(1);
    (far(least, most).is_none() && is_to_the_ends).then_some(long)
}

/// Returns by how much the longest step that took much longer is above the median, ns; 0 without such a step.
pub fn longest_excess(steps: &Steps) -> u64 {
    let longest = steps.outliers.iter().map(|step| step.duration_ns).max().unwrap_or(0);
    longest.saturating_sub(steps.median_ns.unwrap_or(0))
}

/// Returns the steps that are above the median by at least half of so many ns: at most [`MOST_LONG`] are known.
pub fn long_steps(steps: &Steps, excess: u64) -> Vec<&Outlier> {
    let least = steps.median_ns.unwrap_or(0).saturating_add(excess / 2);
    steps.outliers.iter().filter(|step| step.duration_ns >= least).collect()
}

/// Returns the variance of the others of `all` values about their own mean.
fn without(values: impl Iterator<Item = f64>, all: f64, mean: f64, std: f64) -> f64 {
    let from_mean = values.map(|value| value - mean);
    let (count, sum, squares) =
        from_mean.fold((0.0, 0.0, 0.0), |(n, sum, squares), of| (n + 1.0, sum + of, squares + of * of));
    let others = (all - count).max(1.0);
    ((all * std * std - squares - sum * sum / others) / others).max(0.0)
}

/// Returns the variance of `count` independent times whose means would differ as those of the equal parts of the run do after
/// the warm-up: long steps may come in bursts, or be known only as a sum with others. 0 if there are too few times.
fn of_parts(steps: &Steps, count: f64) -> f64 {
    let plot = &steps.plot_ns;
    let warm_up = (steps.warm_up as usize).saturating_mul(plot.len()).div_ceil((steps.count as usize).max(1));
    let steady = plot.get(warm_up..).unwrap_or_default();
    if steady.len() < PARTS {
        return 0.0;
    }
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let levels: Vec<f64> =
        parts(steady).map(|part| mean(&part.iter().map(|ns| *ns as f64).collect::<Vec<_>>())).collect();
    let middle = mean(&levels);
    let squares: f64 = levels.iter().map(|level| (level - middle).powi(2)).sum();
    squares / (PARTS - 1) as f64 * count / PARTS as f64
}

/// Returns [`PARTS`] equal parts.
fn parts(values: &[u64]) -> impl Iterator<Item = &[u64]> {
    (0..PARTS).map(|at| &values[at * values.len() / PARTS..(at + 1) * values.len() / PARTS])
}

/// Returns the standard deviation of the levels of equal parts of a run; 0 if there are too few times. `level` is that of a part.
fn wandering(plot: &[u64], level: fn(&[u64]) -> u64) -> f64 {
    let Some(levels) = levels(plot, level) else { return 0.0 };
    let middle = median(&levels);
    let deviations: Vec<u64> = levels.iter().map(|level| level.abs_diff(middle)).collect();
    OF_DEVIATION * median(&deviations) as f64
}

/// Returns the levels of equal parts of a run; `None` if there are too few times.
fn levels(plot: &[u64], level: fn(&[u64]) -> u64) -> Option<Vec<u64>> {
    (plot.len() >= PARTS).then(|| parts(plot).map(level).collect())
}

/// Returns the median, the mean of both in the middle of an even number; 0 of none.
fn median(values: &[u64]) -> u64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    match (sorted.len(), sorted.len() / 2) {
        (0, _) => 0,
        (n, half) if n % 2 == 1 => sorted[half],
        (_, half) => sorted[half - 1].midpoint(sorted[half]),
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::analyze::steps::{HostTimes, StepTimes, Steps as Found};
    use crate::model::steps::Source;

    /// Returns steps of a median and a standard deviation, ns.
    pub fn steps(count: u64, median: u64, std: f64) -> Steps {
        let time = StepTimes {
            mean: median as f64,
            std,
            median,
            p95: median + (TO_P95 * std) as u64,
            measured: count,
            ..StepTimes::default()
        };
        let on_host = Some(HostTimes { mean: median as f64, std, count });
        Steps::of(&Found {
            count,
            source: Some(Source::Launches),
            time: Some(time),
            timed_on: Some(TimedOn::Gpu),
            on_host,
            ..Found::default()
        })
    }

    #[test]
    fn more_steps_make_the_noise_smaller_but_not_smaller_than_its_least() {
        let with =
            |count| of_median(&steps(count, 1_000_000, 100_000.0), &steps(count, 1_000_000, 100_000.0));
        let few = with(16).unwrap();
        // 2.576 * √2 * 1.2533 * 100 µs / √16
        assert!((few - 114_140.0).abs() < 100.0, "{few}");
        assert!((with(64).unwrap() - few / 2.0).abs() < 1.0);
        assert_eq!(with(1_000_000), Some(10_000.0));
        assert_eq!(with(4), None, "four steps say nothing about noise");
    }

    #[test]
    fn steps_that_took_much_longer_are_not_noise() {
        let mut hiccups = steps(100, 1_000_000, 900_000.0);
        hiccups.p95_ns = Some(1_016_450);
        let quiet = steps(100, 1_000_000, 0.0);
        let with_hiccups = of_median(&hiccups, &quiet).unwrap();
        hiccups.outliers.push(crate::report::rows::steps::Outlier {
            step: 7,
            start_ns: 0,
            duration_ns: 9_000_000,
            idle_by_cause_ns: std::collections::BTreeMap::new(),
        });
        assert!(with_hiccups > 200_000.0);
        assert_eq!(of_median(&hiccups, &quiet), Some(10_000.0));
    }

    #[test]
    fn a_speed_that_wanders_during_a_run_is_noise() {
        let mut wanders = steps(10_000, 1_000_000, 1_000.0);
        wanders.plot_ns = (0..60).map(|at| if at / 15 % 2 == 0 { 900_000 } else { 1_100_000 }).collect();
        let quiet = steps(10_000, 1_000_000, 1_000.0);
        assert_eq!(of_median(&quiet, &quiet), Some(10_000.0));
        assert!(of_median(&wanders, &quiet).unwrap() > 200_000.0);
        wanders.plot_ns = vec![1_000_000; 60];
        wanders.plot_ns[0] = 90_000_000;
        assert_eq!(of_median(&wanders, &quiet), Some(10_000.0), "the first steps are slow in every run");
    }

    /// Steps that became longer all the time made a noise of 223 %, and steps 1.8 times as long were no change beyond it.
    #[test]
    fn a_trend_that_both_runs_have_is_no_noise() {
        let run = |scale: u64| {
            let mut steps = steps(300, 1_000_000 * scale, 350_000.0 * scale as f64);
            steps.plot_ns = (0..60).map(|at| (400_000 + 20_000 * at) * scale).collect();
            steps
        };
        let noise = of_median(&run(1), &run(2)).unwrap();
        assert!(noise < 200_000.0, "{noise} of 1 ms");
        let mut turned = run(1);
        turned.plot_ns.reverse();
        assert!(of_median(&run(1), &turned).unwrap() > 800_000.0, "the program's steps do not become longer");
        let longer = Steps { count: 600, ..run(1) };
        assert!(of_median(&run(1), &longer).unwrap() > 800_000.0, "longer runs have longer steps");
    }
}
