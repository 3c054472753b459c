//! Is the second run faster than the first one, and is that more than noise?

use crate::report::rows::Report;
use crate::report::rows::steps::Steps;
use crate::report::units::duration;
use schemars::JsonSchema;
use serde::Serialize;

/// The change from the first run to the second one.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Change {
    /// The change in one sentence.
    pub text: String,
    /// faster, slower: beyond the noise, or, where the noise is not known, by the plain figures; noise: a difference
    /// that is not beyond the noise; same: none at all.
    pub verdict: Verdict,
    /// What is compared. step: the median time of a step after the warm-up; step_mean: the mean time of a step from call to
    /// call on the host, where the two runs' steps are timed differently or the host is ahead of the GPU; gpu: the time from the first operation to
    /// the last on the GPU that was used longest, where a run has no steps or a step may not be the same work in both;
    /// wall: the wall time of the run, where no GPU was used.
    pub basis: Basis,
    /// That time in the run before the change.
    #[schemars(range(min = 0))]
    pub before_ns: f64,
    /// That time in the run after the change.
    #[schemars(range(min = 0))]
    pub after_ns: f64,
    /// How many times faster the second run is: before divided by after; below 1 it is slower. null = nothing ran.
    #[schemars(range(min = 0))]
    pub speedup: Option<f64>,
    /// After less before, as a share of before; null = before is 0.
    pub share: Option<f64>,
    /// What two runs of the same program may differ by, from the spread of both runs' steps; null = not known.
    #[schemars(range(min = 0))]
    pub noise_ns: Option<f64>,
    /// The same as a share of before.
    #[schemars(range(min = 0))]
    pub noise_share: Option<f64>,
}

/// What is said of the change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// The second run takes less time.
    Faster,
    /// The second run takes more time.
    Slower,
    /// The difference is not beyond the noise.
    Noise,
    /// There is no difference.
    Same,
}

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Basis {
    /// The median time of a step.
    Step,
    /// The mean time of a step by the host's calls.
    #[serde(rename = "step_mean")]
    StepMean,
    /// From the first operation on the GPU to the last.
    Gpu,
    /// The wall time.
    Wall,
}

/// The least noise, as a share: where libraries and buffers happen to lie changes the speed of a program from run to run
/// by about so much, which one run's steps cannot show (Mytkowicz et al., "Producing Wrong Data Without Doing Anything
/// Obviously Wrong!", ASPLOS 2009).
const LEAST_NOISE: f64 = 0.01;
/// Counts that differ by more than this, as a share, are not those of the same work.
const ALIKE: f64 = 0.05;
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
/// Equal parts of a run whose levels show how much the speed wanders.
const PARTS: usize = 8;

impl Change {
    /// Compares two runs, by steps if both have them and they are the same work.
    pub fn of(before: &Report, after: &Report) -> Change {
        let (basis, before_ns, after_ns) = times(before, after);
        let noise_ns = match basis {
            Basis::Step => noise(&before.steps, &after.steps, uncertainty, before_ns),
            Basis::StepMean => noise(&before.steps, &after.steps, uncertainty_of_mean, before_ns),
            Basis::Gpu | Basis::Wall => None,
        };
        let of_before = |ns: f64| (before_ns > 0.0).then(|| ns / before_ns);
        let mut change = Change {
            text: String::new(),
            verdict: verdict(after_ns - before_ns, noise_ns),
            basis,
            before_ns,
            after_ns,
            speedup: (before_ns > 0.0 && after_ns > 0.0).then(|| before_ns / after_ns),
            share: of_before(after_ns - before_ns),
            noise_ns,
            noise_share: noise_ns.and_then(of_before),
        };
        change.text = change.sentence();
        change
    }

    /// Whether the second run is slower by more than so many percent. Noise is no slowdown.
    pub fn is_slower_than(&self, percent: f64) -> bool {
        let is_more = |share: f64| 100.0 * share > percent;
        // A run that took no time at all has become slower by more than any share.
        self.verdict == Verdict::Slower && self.share.is_none_or(is_more)
    }

    fn sentence(&self) -> String {
        let of = match self.basis {
            Basis::Step => "per step",
            Basis::StepMean => "per step on average",
            Basis::Gpu => "from the first GPU operation to the last",
            Basis::Wall => "of wall time",
        };
        let [before, after] = [self.before_ns, self.after_ns].map(|ns| duration(ns.round() as u64));
        if self.verdict == Verdict::Same {
            return format!("There is no change: {after} {of}, exactly as before.");
        }
        let percent = self.share.map_or_else(|| "from nothing".to_owned(), signed_percent);
        let noise = match self.noise_share {
            Some(share) if self.verdict == Verdict::Noise => format!("the noise is {}", plain_percent(share)),
            Some(share) => format!("beyond the noise of {}", plain_percent(share)),
            None => "the noise is not known".to_owned(),
        };
        let figures = format!("{after} instead of {before} ({percent}, {noise})");
        match (self.verdict, self.speedup) {
            (Verdict::Noise, _) => {
                format!(
                    "There is no change beyond the noise: {after} {of} instead of {before} ({percent}, {noise})."
                )
            }
            (Verdict::Faster, Some(speedup)) => format!("AFTER is {speedup:.2}x faster {of}: {figures}."),
            (Verdict::Slower, Some(speedup)) => {
                format!("AFTER is {:.2}x slower {of}: {figures}.", 1.0 / speedup)
            }
            _ => format!("AFTER took another time {of}: {figures}."),
        }
    }
}

impl Basis {
    /// Whether steps are compared.
    pub fn is_step(self) -> bool {
        matches!(self, Basis::Step | Basis::StepMean)
    }
}

/// Returns the times that are compared, ns.
fn times(before: &Report, after: &Report) -> (Basis, f64, f64) {
    let (steps, other_steps) = (&before.steps, &after.steps);
    if are_same_work(steps, other_steps) {
        let medians = steps.median_ns.zip(other_steps.median_ns);
        if let Some((of_before, of_after)) = medians.filter(|_| are_of_one_kind(steps, other_steps)) {
            return (Basis::Step, of_before as f64, of_after as f64);
        }
        if let Some((of_before, of_after)) = steps.host_mean_ns.zip(other_steps.host_mean_ns) {
            return (Basis::StepMean, of_before, of_after);
        }
    }
    let [of_before, of_after] = [before, after].map(on_gpu);
    if of_before > 0 && of_after > 0 {
        return (Basis::Gpu, of_before as f64, of_after as f64);
    }
    let [of_before, of_after] = [before, after].map(|report| report.wall_ns.unwrap_or(0));
    (Basis::Wall, of_before as f64, of_after as f64)
}

/// Whether the times of both runs' steps are measured alike, and say how long each step takes. Where the host is ahead of the
/// GPU, the median of its times is how long it takes to issue a step.
pub fn are_of_one_kind(before: &Steps, after: &Steps) -> bool {
    before.timed_on == after.timed_on && before.are_told_apart()
}

/// Whether a step is the same work in both runs. What repeats may be one step in one run and several in the other, or a
/// part of one. The program's own name of a step, as many steps, or as many launches in each speak against that.
pub fn are_same_work(before: &Steps, after: &Steps) -> bool {
    let are_alike = |before: u64, after: u64| far(before, after).is_none();
    let is_named = before.range.is_some() && before.range == after.range;
    is_named
        || are_alike(before.count, after.count)
        || are_alike(before.launches_per_step, after.launches_per_step)
}

/// Returns by which share of `before` a count of both runs differs, if they are not alike.
pub fn far(before: u64, after: u64) -> Option<f64> {
    let share = (after as f64 - before as f64) / before.max(1) as f64;
    (share.abs() > ALIKE).then_some(share)
}

/// Returns the time from the first operation to the last on the GPU that was used longest.
fn on_gpu(report: &Report) -> u64 {
    let identity = &report.identity;
    identity.wall_ns.saturating_sub(identity.start_up_ns).saturating_sub(identity.tail_ns)
}

fn verdict(change: f64, noise: Option<f64>) -> Verdict {
    match change {
        0.0 => Verdict::Same,
        _ if noise.is_some_and(|noise| change.abs() <= noise) => Verdict::Noise,
        ..0.0 => Verdict::Faster,
        _ => Verdict::Slower,
    }
}

/// Returns what the times of two runs of the same program may differ by, ns, from the standard error of each run's time;
/// `None` if there are too few steps.
fn noise(
    before: &Steps,
    after: &Steps,
    uncertainty: fn(&Steps) -> Option<f64>,
    before_ns: f64,
) -> Option<f64> {
    let (of_before, of_after) = (uncertainty(before)?, uncertainty(after)?);
    let least = LEAST_NOISE * before_ns;
    Some((IN_99_PERCENT * of_before.hypot(of_after)).max(least))
}

/// Returns the standard error of a run's median step time, as it would vary from run to run.
///
/// Steps are not independent of each other: a clock or a neighbour changes and stays so for a while. So the levels of
/// equal parts of the run are compared too, and a whole run is taken to vary as much as such a part does.
fn uncertainty(steps: &Steps) -> Option<f64> {
    let count = steps.measured.filter(|count| *count >= FEWEST)?;
    let std = steps.std_ns?;
    // A few steps that took much longer inflate the standard deviation, and leave the median where it was.
    let above = steps.p95_ns?.saturating_sub(steps.median_ns?) as f64 / TO_P95;
    let spread = if steps.outliers.is_empty() { std } else { std.min(above) };
    Some((OF_MEDIAN * spread / (count as f64).sqrt()).max(wandering(&steps.plot_ns)))
}

/// Returns the same of the mean of a run's times from call to call on the host. Where the host is ahead, long ones make up
/// for short ones, so that this is more than it varies.
fn uncertainty_of_mean(steps: &Steps) -> Option<f64> {
    let count = steps.count.saturating_sub(steps.warm_up);
    let std = steps.host_std_ns.filter(|_| count >= FEWEST)?;
    Some((std / (count as f64).sqrt()).max(wandering(&steps.plot_ns)))
}

/// Returns the standard deviation of the levels of equal parts of a run; 0 if there are too few times.
fn wandering(plot: &[u64]) -> f64 {
    if plot.len() < PARTS {
        return 0.0;
    }
    let part = |at: usize| median(&plot[at * plot.len() / PARTS..(at + 1) * plot.len() / PARTS]);
    let levels: Vec<u64> = (0..PARTS).map(part).collect();
    let middle = median(&levels);
    let deviations: Vec<u64> = levels.iter().map(|level| level.abs_diff(middle)).collect();
    OF_DEVIATION * median(&deviations) as f64
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

/// Formats a share with its sign: `-24 %`, `+3.1 %`.
pub fn signed_percent(share: f64) -> String {
    let percent = 100.0 * share;
    match percent.abs() {
        0.0 => "0 %".to_owned(),
        ..0.05 => (if percent < 0.0 { "-<0.1 %" } else { "+<0.1 %" }).to_owned(),
        ..9.95 => format!("{percent:+.1} %"),
        _ => format!("{percent:+.0} %"),
    }
}

fn plain_percent(share: f64) -> String {
    let percent = 100.0 * share;
    if percent < 9.95 { format!("{percent:.1} %") } else { format!("{percent:.0} %") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analyze::Tables;
    use crate::analyze::steps::{HostTimes, StepTimes, Steps as Found, TimedOn};
    use crate::model::steps::Source;

    /// Returns steps of a median and a standard deviation, ns.
    fn steps(count: u64, median: u64, std: f64) -> Steps {
        let time = StepTimes {
            mean: median as f64,
            std,
            median,
            p95: median + (TO_P95 * std) as u64,
            measured: count,
            ..StepTimes::default()
        };
        let on_host = Some(HostTimes { mean: median as f64, std });
        Steps::of(&Found {
            count,
            source: Some(Source::Launches),
            time: Some(time),
            timed_on: Some(TimedOn::Gpu),
            on_host,
            ..Found::default()
        })
    }

    fn noise_of(before: &Steps, after: &Steps) -> Option<f64> {
        noise(before, after, uncertainty, before.median_ns? as f64)
    }

    #[test]
    fn more_steps_make_the_noise_smaller_but_not_smaller_than_its_least() {
        let with = |count| noise_of(&steps(count, 1_000_000, 100_000.0), &steps(count, 1_000_000, 100_000.0));
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
        let with_hiccups = noise_of(&hiccups, &quiet).unwrap();
        hiccups.outliers.push(crate::report::rows::steps::Outlier {
            step: 7,
            start_ns: 0,
            duration_ns: 9_000_000,
            idle_by_cause_ns: std::collections::BTreeMap::new(),
        });
        assert!(with_hiccups > 200_000.0);
        assert_eq!(noise_of(&hiccups, &quiet), Some(10_000.0));
    }

    #[test]
    fn a_speed_that_wanders_during_a_run_is_noise() {
        let mut wanders = steps(10_000, 1_000_000, 1_000.0);
        wanders.plot_ns = (0..60).map(|at| if at / 15 % 2 == 0 { 900_000 } else { 1_100_000 }).collect();
        let quiet = steps(10_000, 1_000_000, 1_000.0);
        assert_eq!(noise_of(&quiet, &quiet), Some(10_000.0));
        assert!(noise_of(&wanders, &quiet).unwrap() > 200_000.0);
        wanders.plot_ns = vec![1_000_000; 60];
        wanders.plot_ns[0] = 90_000_000;
        assert_eq!(noise_of(&wanders, &quiet), Some(10_000.0), "the first steps are slow in every run");
    }

    /// 4 000 "steps" of 8 launches before and 100 of 93 after were said to be 48 times slower, where the runs took as long.
    #[test]
    fn steps_that_may_not_be_the_same_work_are_not_compared() {
        let of = |count, launches| Steps { launches_per_step: launches, ..steps(count, 1_000_000, 0.0) };
        assert!(!are_same_work(&of(4_000, 8), &of(100, 93)));
        assert!(are_same_work(&of(4_000, 8), &of(4_100, 93)), "the launches of a step were fused");
        assert!(are_same_work(&of(4_000, 93), &of(100, 92)), "the run is shorter");
        let named = |steps: Steps| Steps { range: Some("step".to_owned()), ..steps };
        assert!(are_same_work(&named(of(4_000, 8)), &named(of(100, 93))), "the program says what a step is");
        assert!(!are_same_work(&named(of(4_000, 8)), &of(100, 93)));
        let basis = |before: Steps, after: Steps| {
            let run = |steps| Report { steps, ..Report::of(&[], &Tables::default(), &[]) };
            Change::of(&run(before), &run(after)).basis
        };
        assert_eq!(basis(of(4_000, 8), of(100, 8)), Basis::Step);
        assert_eq!(basis(of(4_000, 8), of(100, 93)), Basis::Wall, "no GPU was used");
    }

    /// The host had issued most steps ahead in the second run, so that it was said to be 2.75x faster.
    #[test]
    fn steps_that_are_timed_differently_are_compared_by_the_mean_of_the_hosts_times() {
        let ahead = |on| Steps { timed_on: Some(on), median_ns: Some(300_000), ..steps(100, 1_000_000, 0.0) };
        let of = |before: Steps, after: Steps| {
            let run = |steps| Report { steps, ..Report::of(&[], &Tables::default(), &[]) };
            let change = Change::of(&run(before), &run(after));
            (change.basis, change.verdict)
        };
        let on_gpu = || steps(100, 1_000_000, 0.0);
        assert_eq!(of(on_gpu(), on_gpu()).0, Basis::Step);
        assert_eq!(of(on_gpu(), ahead("host_ahead")), (Basis::StepMean, Verdict::Same));
        assert_eq!(of(ahead("host_ahead"), ahead("host_ahead")).0, Basis::StepMean);
        assert_eq!(of(ahead("host"), ahead("host")).0, Basis::Step, "the host keeps pace");
        assert_eq!(of(on_gpu(), ahead("host")).0, Basis::StepMean);
    }

    #[test]
    fn the_sentence_says_how_much_and_whether_it_is_noise() {
        let said = |before: f64, after: f64, noise_ns: Option<f64>| {
            let change = Change {
                text: String::new(),
                verdict: verdict(after - before, noise_ns),
                basis: Basis::Step,
                before_ns: before,
                after_ns: after,
                speedup: (before > 0.0 && after > 0.0).then(|| before / after),
                share: (before > 0.0).then(|| (after - before) / before),
                noise_ns,
                noise_share: noise_ns.map(|ns| ns / before),
            };
            (change.sentence(), change.is_slower_than(10.0))
        };
        for (before, after, noise, sentence, is_slower) in [
            (
                55.2e6,
                41.8e6,
                Some(1.6e6),
                "AFTER is 1.32x faster per step: 41.8 ms instead of 55.2 ms (-24 %, beyond the noise of 2.9 %).",
                false,
            ),
            (
                10e6,
                12e6,
                None,
                "AFTER is 1.20x slower per step: 12.0 ms instead of 10.0 ms (+20 %, the noise is not known).",
                true,
            ),
            (
                10e6,
                12e6,
                Some(3e6),
                "There is no change beyond the noise: 12.0 ms per step instead of 10.0 ms (+20 %, the noise is 30 %).",
                false,
            ),
            (10e6, 10e6, Some(1.0), "There is no change: 10.0 ms per step, exactly as before.", false),
        ] {
            assert_eq!(said(before, after, noise), (sentence.to_owned(), is_slower));
        }
    }

    #[test]
    fn small_shares_keep_their_sign() {
        let all = [-0.2412, 0.031, 0.0001, -0.0001, 0.0].map(signed_percent);
        assert_eq!(all, ["-24 %", "+3.1 %", "+<0.1 %", "-<0.1 %", "0 %"]);
    }
}
