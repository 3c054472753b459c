//! Do rare long steps make the change? The median does not show them: a loader that starts its workers again for each epoch.

use super::change::{Basis, Change, Verdict};
use super::noise::{self, Clock, MOST_LONG};
use crate::report::rows::steps::Steps;
use crate::report::units::{count, duration};

/// Returns the change of the mean step if rare long steps make most of it and it is beyond its noise. `of_median` is that of
/// the median step.
pub fn by_mean(of_median: &Change, before: &Steps, after: &Steps) -> Option<Change> {
    let (of_before, of_after) = before.mean_ns.zip(after.mean_ns)?;
    let noise = noise::of_mean(before, after, Clock::Own)?;
    let mut of_mean = Change::from(Basis::StepMean, of_before, of_after, Some(noise));
    let by = |change: &Change| change.after_ns - change.before_ns;
    let of_long = by(&of_mean) - by(of_median);
    let is_most = 2.0 * of_long.abs() > by(&of_mean).abs();
    let is_beyond = matches!(of_mean.verdict, Verdict::Faster | Verdict::Slower);
    (is_most && is_beyond).then(|| {
        of_mean.text = format!("{} {}", of_mean.text, sentence(of_median, before, after));
        of_mean
    })
}

/// Says what the median step does, and how many long steps there are.
fn sentence(of_median: &Change, before: &Steps, after: &Steps) -> String {
    let [of_before, of_after] =
        [of_median.before_ns, of_median.after_ns].map(|ns| duration(ns.round() as u64));
    let median = match of_median.verdict {
        Verdict::Faster => format!("is faster ({of_after} instead of {of_before})"),
        Verdict::Slower => format!("is slower ({of_after} instead of {of_before})"),
        _ => format!("has not changed ({of_after})"),
    };
    let excess = noise::longest_excess(before).max(noise::longest_excess(after));
    let long = |steps: &Steps| match noise::long_steps(steps, excess).len() {
        0 => "none".to_owned(),
        known if known >= MOST_LONG => format!("{} or more", count(known as u64)),
        known => count(known as u64),
    };
    let counts = match excess {
        0 => String::new(),
        _ => format!(", {} before and {} after", long(before), long(after)),
    };
    format!("The median step {median}: rare long steps make the difference{counts}.")
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
        let of = |step| if at.contains(&step) { long } else { USUAL };
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
            ..steps(count, USUAL, 0.0)
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

    /// Of a long step in a pause of the timing, only the sum with others is known.
    #[test]
    fn a_long_step_that_is_known_as_a_sum_with_others_is_no_change() {
        let pause: Vec<u64> = (80..96).collect();
        let smeared =
            Steps { outliers: Vec::new(), measured: Some(185), ..with_long(200, &pause, USUAL + LONG / 16) };
        let change = change(with_long(200, &[], LONG), smeared);
        assert_eq!(change.basis, Basis::Step, "{change:#?}");
    }

    #[test]
    fn a_median_that_changes_as_much_as_the_mean_is_compared() {
        let half = Steps {
            median_ns: Some(USUAL / 2),
            mean_ns: of_epochs().mean_ns.map(|mean| mean - (USUAL / 2) as f64),
            ..of_epochs()
        };
        assert_eq!(change(of_epochs(), half).basis, Basis::Step);
    }
}
