//! Does the median step stand for the run? It does not show rare long steps, as those of a loader that starts its workers again for
//! each epoch; and where a run has steps of two kinds, as training and evaluation, it is one of the commoner kind, which may
//! take little of the time.

use super::change::{Basis, Change, Verdict};
use super::noise::{self, Clock, MOST_LONG};
use crate::report::rows::steps::Steps;
use crate::report::units::{count, duration};
use std::ops::RangeInclusive;

/// The medians that stand for a run, as shares of its mean step.
const STANDS: RangeInclusive<f64> = 0.8..=1.25;
/// By how much the changes of the mean and of the median may differ, as a share of the larger one, to be the same change.
const SAME: f64 = 0.25;

/// Returns the change of the mean step if that is the change of the run, and the median step, whose change is `of_median`, did not
/// change by the same share:
///
/// - rare long steps make most of the mean's change, and it is beyond its noise;
/// - or other steps than the median do, and without the long ones, of which a run may have some by chance, it is still beyond that;
/// - or the median does not stand for a run. If the mean's change is not beyond its noise, that is so of both runs, and what
///   changed more is the median, which is no change of the run.
pub fn by_mean(of_median: &Change, before: &Steps, after: &Steps) -> Option<Change> {
    let (of_before, of_after) = before.mean_ns.zip(after.mean_ns)?;
    let noise = noise::of_mean(before, after, Clock::Own)?;
    let mut of_mean = Change::from(Basis::StepMean, of_before, of_after, Some(noise));
    let by = |change: &Change| change.after_ns - change.before_ns;
    let share = |change: &Change| change.share.unwrap_or(0.0).abs();
    let is_beyond = matches!(of_mean.verdict, Verdict::Faster | Verdict::Slower);
    let unlike_median = by(&of_mean) - by(of_median);
    let is_unlike_median = is_beyond && 2.0 * unlike_median.abs() > by(&of_mean).abs();
    let of_long = of_long_steps(before, after);
    let is_of_long = of_long.is_none_or(|part| 2.0 * part * unlike_median.signum() > unlike_median.abs());
    let without_long = (by(&of_mean) - of_long.unwrap_or(0.0)) * by(&of_mean).signum();
    let is_of_all = match (stands(before), stands(after)) {
        (true, true) => false,
        (false, false) => is_beyond || share(of_median) > share(&of_mean),
        _ => is_beyond,
    };
    let reason = match () {
        () if !differ(&of_mean, of_median) => return None,
        () if is_unlike_median && is_of_long => Reason::Long,
        () if is_unlike_median && without_long > noise => Reason::OtherSteps,
        () if is_of_all => Reason::NoMedian,
        () => return None,
    };
    of_mean.text = format!("{} {}", of_mean.text, sentence(of_median, before, after, reason));
    Some(of_mean)
}

/// Why the mean is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reason {
    /// Long steps make most of the change.
    Long,
    /// Others do, which are not the median either.
    OtherSteps,
    /// The median is that of steps that take little of the run, or that take more than the others.
    NoMedian,
}

/// Returns by how much the mean step changed by what long steps take beyond the median, ns; `None` if a run may have more of them than
/// are known.
fn of_long_steps(before: &Steps, after: &Steps) -> Option<f64> {
    let excess = noise::longest_excess(before).max(noise::longest_excess(after));
    let part = |steps: &Steps| {
        let long = noise::long_steps(steps, excess);
        let median = steps.median_ns.unwrap_or(0);
        let beyond = long.iter().map(|step| step.duration_ns.saturating_sub(median)).sum::<u64>() as f64;
        (long.len() < MOST_LONG).then(|| beyond / steps.measured.unwrap_or(0).max(1) as f64)
    };
    Some(part(after)? - part(before)?)
}

/// Whether the median step, as often as there are steps, is about the time of all of them.
fn stands(steps: &Steps) -> bool {
    let share = steps.median_ns.zip(steps.mean_ns).map(|(median, mean)| median as f64 / mean.max(1.0));
    share.is_none_or(|share| STANDS.contains(&share))
}

/// Whether two changes are not by the same share.
pub fn differ(one: &Change, other: &Change) -> bool {
    let shares = one.share.zip(other.share);
    shares.is_none_or(|(one, other)| (one - other).abs() > SAME * one.abs().max(other.abs()))
}

/// Says what the median step does, why it is not compared, and how many long steps there are.
fn sentence(of_median: &Change, before: &Steps, after: &Steps, reason: Reason) -> String {
    let [of_before, of_after] =
        [of_median.before_ns, of_median.after_ns].map(|ns| duration(ns.round() as u64));
    let median = match of_median.verdict {
        Verdict::Faster => format!("is faster ({of_after} instead of {of_before})"),
        Verdict::Slower => format!("is slower ({of_after} instead of {of_before})"),
        Verdict::Noise if of_after != of_before => {
            format!("has not changed beyond its noise ({of_after} instead of {of_before})")
        }
        _ => format!("has not changed ({of_after})"),
    };
    let excess = noise::longest_excess(before).max(noise::longest_excess(after));
    let long = |steps: &Steps| match noise::long_steps(steps, excess).len() {
        0 => "none".to_owned(),
        known if known >= MOST_LONG => format!("{} or more", count(known as u64)),
        known => count(known as u64),
    };
    let counts = match noise::paired(before, after) {
        // Of both runs, though those of one may be less than half as long as those of the other.
        Some([in_each, _]) => format!("{} in each run", count(in_each.len() as u64)),
        None => format!("{} before and {} after", long(before), long(after)),
    };
    match (reason, excess) {
        (Reason::OtherSteps, _) => format!("The median step {median}: other steps make the difference."),
        (Reason::Long, _) => {
            format!("The median step {median}: rare long steps make the difference, {counts}.")
        }
        (Reason::NoMedian, 0) => {
            format!("The median step {median}, but most of the time is not in such steps.")
        }
        (Reason::NoMedian, _) => {
            format!(
                "The median step {median}, but does not stand for the run: long steps do not show in it, {counts}."
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analyze::Tables;
    use crate::report::diff::noise::tests::steps;
    use crate::report::rows::Report;
    use crate::report::rows::steps::Outlier;
    use std::collections::BTreeMap;

    const USUAL: u64 = 5_620_000;
    const LONG: u64 = 1_500_000_000;

    /// Returns `count` steps, those `at` some numbers of which are long, as a report has them.
    fn with_long(count: u64, at: &[u64], long: u64) -> Steps {
        of_two_kinds(count, USUAL, at, long)
    }

    fn of_two_kinds(count: u64, usual: u64, at: &[u64], long: u64) -> Steps {
        let of = |step| if at.contains(&step) { long } else { usual };
        let all: Vec<u64> = (0..count).map(of).collect();
        let mean = all.iter().sum::<u64>() as f64 / count as f64;
        let squares: f64 = all.iter().map(|ns| (*ns as f64 - mean).powi(2)).sum();
        let outlier = |step: &u64| Outlier {
            step: *step,
            start_ns: 0,
            duration_ns: long,
            idle_by_cause_ns: BTreeMap::new(),
        };
        Steps {
            mean_ns: Some(mean),
            std_ns: Some((squares / count as f64).sqrt()),
            plot_ns: all.chunks(4).map(|few| few.iter().sum::<u64>() / few.len() as u64).collect(),
            outliers: at.iter().take(MOST_LONG).map(outlier).collect(),
            ..steps(count, usual, 0.0)
        }
    }

    fn change(before: Steps, after: Steps) -> Change {
        let run = |steps| Report { steps, ..Report::of(&[], &Tables::default(), &[]) };
        Change::of(&run(before), &run(after))
    }

    fn of_epochs() -> Steps {
        with_long(200, &[49, 99, 149], LONG)
    }

    /// The mean of such a program fell to a fifth, and it had "no change beyond the noise".
    #[test]
    fn long_steps_in_each_epoch_are_a_change_though_the_median_is_the_same() {
        let fixed = || with_long(200, &[], LONG);
        let faster = change(of_epochs(), fixed());
        assert_eq!((faster.verdict, faster.basis), (Verdict::Faster, Basis::StepMean), "{faster:#?}");
        let said = "The median step has not changed (5.62 ms): rare long steps make the difference, 3 before and none after.";
        assert!(
            faster.text.starts_with("AFTER is 4.99x faster per step on average: ")
                && faster.text.ends_with(said)
        );
        let slower = change(fixed(), of_epochs());
        assert!(slower.is_slower_than(300.0), "{slower:#?}");
        assert_eq!(change(of_epochs(), of_epochs()).verdict, Verdict::Same);
    }

    #[test]
    fn long_steps_by_chance_are_no_change() {
        let none = || with_long(200, &[], LONG);
        for at in
            [&[77][..], &[20, 180], &[20, 31, 180], &[100, 101, 102, 103, 104, 105, 106, 107, 108, 109, 110]]
        {
            for change in [change(none(), with_long(200, at, LONG)), change(with_long(200, at, LONG), none())]
            {
                assert_eq!(
                    (change.verdict, change.basis),
                    (Verdict::Same, Basis::Step),
                    "{at:?}: {change:#?}"
                );
            }
        }
        let hiccup = change(of_epochs(), with_long(200, &[49, 77, 99, 149], LONG));
        assert_eq!(hiccup.basis, Basis::Step, "one more among those of the epochs: {hiccup:#?}");
    }

    #[test]
    fn many_long_steps_that_only_one_run_has_are_no_chance() {
        let many: Vec<u64> = (0..200).filter(|step| step * step % 17 == 4).collect();
        assert!(many.len() > MOST_LONG);
        let change = change(with_long(200, &[], LONG), with_long(200, &many, LONG));
        assert_eq!((change.verdict, change.basis), (Verdict::Slower, Basis::StepMean), "{change:#?}");
        assert!(change.text.ends_with("none before and 10 or more after."), "{change:#?}");
    }

    /// A run of less than an epoch has no long step, whether or not the next epoch would begin with one.
    #[test]
    fn a_run_too_short_for_a_long_step_is_not_faster() {
        let change = change(of_epochs(), with_long(40, &[], LONG));
        assert_eq!(change.basis, Basis::Step, "{change:#?}");
    }

    /// Ordinary steps that a busy machine had made longer were said to be rare long steps, of which there were four, and `--fail-over`
    /// failed: six of them are no change.
    #[test]
    fn a_few_long_steps_are_not_blamed_for_what_other_steps_take() {
        let slow: Vec<u64> = (0..4_000).filter(|step| step % 10 == 3).collect();
        let busy = |others: u64, at: &[u64]| {
            let of = |step| match step {
                step if at.contains(&step) => 17_000_000,
                step if slow.contains(&step) => 650_000 + others,
                _ => 650_000,
            };
            let all: Vec<u64> = (0..4_000).map(of).collect();
            let mean = all.iter().sum::<u64>() as f64 / 4_000.0;
            let squares: f64 = all.iter().map(|ns| (*ns as f64 - mean).powi(2)).sum();
            Steps {
                mean_ns: Some(mean),
                std_ns: Some((squares / 4_000.0).sqrt()),
                plot_ns: all.chunks(100).map(|few| few.iter().sum::<u64>() / 100).collect(),
                outliers: of_two_kinds(4_000, 650_000, at, 17_000_000).outliers,
                ..steps(4_000, 650_000, 0.0)
            }
        };
        let at = [870, 1_331, 1_734, 1_926];
        let change = |after| change(of_two_kinds(4_000, 650_000, &[], 0), after);
        let few = change(busy(200_000, &at));
        assert_eq!((few.verdict, few.basis), (Verdict::Same, Basis::Step), "{few:#?}");
        let others = change(busy(1_000_000, &at));
        assert_eq!((others.verdict, others.basis), (Verdict::Slower, Basis::StepMean), "{others:#?}");
        assert!(
            others
                .text
                .ends_with("The median step has not changed (650 µs): other steps make the difference."),
            "{others:#?}"
        );
    }

    /// Of a long step in a pause of the timing, only the sum with others is known.
    #[test]
    fn a_long_step_that_is_known_as_a_sum_with_others_is_no_change() {
        let pause: Vec<u64> = (80..96).collect();
        let smeared =
            Steps { outliers: Vec::new(), measured: Some(185), ..with_long(200, &pause, USUAL + LONG / 16) };
        let change = change(with_long(200, &[], LONG), smeared);
        assert_eq!(change.basis, Basis::Step, "{change:#?}");
    }

    /// A program with an evaluation of 20 steps after 30 of training took 17 % less time, and was said to be 2.29 times as fast: so much
    /// faster were the steps of the evaluation, which took a fifth of the time.
    #[test]
    fn the_median_of_steps_that_take_little_of_the_run_is_not_the_change() {
        let faulty = of_two_kinds(160, 2_163_000, &[20, 40, 60, 80, 100, 120, 140], 86_300_000);
        let fixed = || of_two_kinds(160, 943_000, &[19, 39, 59, 79, 99, 119, 139], 90_100_000);
        let faster = change(faulty, fixed());
        assert_eq!((faster.verdict, faster.basis), (Verdict::Faster, Basis::StepMean), "{faster:#?}");
        let said = "The median step is faster (943 µs instead of 2.16 ms), but does not stand for the run: long steps do not \
                    show in it, 7 in each run.";
        assert!(
            faster.text.starts_with("AFTER is 1.21x faster per step on average: ")
                && faster.text.ends_with(said),
            "{faster:#?}"
        );
        // Of the long steps of one run, some are not known: each may have more of them than the other.
        let unknown = || of_two_kinds(160, 2_163_000, &[20, 40, 80, 100, 120, 140], 86_300_000);
        let change = change(unknown(), fixed());
        assert_eq!((change.verdict, change.basis), (Verdict::Noise, Basis::StepMean), "{change:#?}");
    }

    /// An evaluation took half as long in each of two epochs, which was "no change", since two long steps may be chance.
    #[test]
    fn long_steps_at_the_same_places_in_both_runs_are_no_chance() {
        let with = |at: &[u64], long| of_two_kinds(181, 2_800_000, at, long);
        let faster = change(with(&[60, 120], 46_000_000), with(&[60, 120], 26_700_000));
        assert_eq!((faster.verdict, faster.basis), (Verdict::Faster, Basis::StepMean), "{faster:#?}");
        let said =
            "The median step has not changed (2.80 ms): rare long steps make the difference, 2 in each run.";
        assert!(
            faster.text.starts_with("AFTER is 1.07x faster per step on average: ")
                && faster.text.ends_with(said),
            "{faster:#?}"
        );
        let elsewhere = change(with(&[60, 120], 46_000_000), with(&[60, 130], 26_700_000));
        assert_eq!((elsewhere.verdict, elsewhere.basis), (Verdict::Same, Basis::Step), "{elsewhere:#?}");
        let once = change(with(&[60], 46_000_000), with(&[60], 26_700_000));
        assert_eq!((once.verdict, once.basis), (Verdict::Same, Basis::Step), "{once:#?}");
    }

    #[test]
    fn a_median_that_takes_most_of_the_run_is_compared_though_some_steps_are_long_by_chance() {
        let few = [31, 77, 180];
        let change = |usual, at: &[u64], long| {
            let steps = of_two_kinds(200, usual, at, long);
            change(of_two_kinds(200, USUAL, &few, 60_000_000), steps)
        };
        let faster = change(USUAL * 7 / 10, &[20, 93, 140], 60_000_000);
        assert_eq!((faster.verdict, faster.basis), (Verdict::Faster, Basis::Step), "{faster:#?}");
        let as_long = change(USUAL, &[20, 93, 140], 60_000_000);
        assert_eq!((as_long.verdict, as_long.basis), (Verdict::Same, Basis::Step), "{as_long:#?}");
    }

    /// The steps between those that are long took half as long, which is a tenth of the run, and it was said to be twice as fast.
    #[test]
    fn a_median_that_changes_by_the_same_share_as_the_mean_is_compared() {
        let at = [49, 99, 149];
        let half = of_two_kinds(200, USUAL / 2, &at, LONG);
        let faster = change(of_epochs(), half);
        assert_eq!((faster.verdict, faster.basis), (Verdict::Faster, Basis::StepMean), "{faster:#?}");
        let all_half = of_two_kinds(200, USUAL / 2, &at, LONG / 2);
        let faster = change(of_epochs(), all_half);
        assert_eq!((faster.verdict, faster.basis), (Verdict::Faster, Basis::Step), "{faster:#?}");
    }
}
