//! Is the second run faster than the first one, and is that more than noise?

use super::noise::{self, Clock};
use super::rare;
use crate::report::rows::Report;
use crate::report::rows::steps::Steps;
use crate::report::units::duration;
use schemars::JsonSchema;
use serde::Serialize;

/// The change from the first run to the second one.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Change {
    /// The change in one sentence; where the median step is not what changed the run, a second one says what it does.
    pub text: String,
    /// faster, slower: beyond the noise, or, where the noise is not known, by the plain figures; noise: a difference
    /// that is not beyond the noise; same: none at all; unknown: the times say nothing of the change, since a window of time was
    /// selected (--since, --until, --last) and there are no steps in it to compare, or since neither a step nor the whole run is the same work in
    /// both.
    pub verdict: Verdict,
    /// What is compared. step: the median time of a step after the warm-up; step_mean: the mean time of a step, where
    /// rare long steps make most of its change, or the median step does not stand for a run and changed by another share, or where the two
    /// runs' steps are timed differently or the host is ahead of the GPU: then that from call to call on the host; gpu: the time from the first operation to
    /// the last on the GPU that was used longest, where a run has no steps or a step may not be the same work in both;
    /// wall: the wall time of the run, where no GPU was used; range: the median length of the NVTX range that is the step, on the host or
    /// on the GPU, whichever is longer.
    pub basis: Basis,
    /// That time in the run before the change.
    #[schemars(range(min = 0))]
    pub before_ns: f64,
    /// That time in the run after the change.
    #[schemars(range(min = 0))]
    pub after_ns: f64,
    /// How many times faster the second run is: before divided by after; below 1 it is slower. null = nothing ran, or the verdict is
    /// unknown.
    #[schemars(range(min = 0))]
    pub speedup: Option<f64>,
    /// After less before, as a share of before; null = before is 0, or the verdict is unknown.
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
    /// The times say nothing of the change.
    Unknown,
}

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Basis {
    /// The median time of a step.
    Step,
    /// The mean time of a step.
    #[serde(rename = "step_mean")]
    StepMean,
    /// From the first operation on the GPU to the last.
    Gpu,
    /// The wall time.
    Wall,
    /// The length of the NVTX range that is the step.
    Range,
}

/// Counts that differ by more than this, as a share, are not those of the same work.
const ALIKE: f64 = 0.05;

impl Change {
    /// Compares two runs, by steps if both have them and they are the same work.
    pub fn of(before: &Report, after: &Report) -> Change {
        let (basis, before_ns, after_ns) = times(before, after);
        let noise_ns = match basis {
            Basis::Step => noise::of_median(&before.steps, &after.steps),
            Basis::StepMean => noise::of_mean(&before.steps, &after.steps, Clock::Host),
            Basis::Gpu | Basis::Wall | Basis::Range => None,
        };
        let change = Change::from(basis, before_ns, after_ns, noise_ns);
        if basis == Basis::Step
            && let Some(of_mean) = rare::by_mean(&change, &before.steps, &after.steps)
        {
            return of_mean;
        }
        change
    }

    /// Returns the change from a time to another one.
    pub fn from(basis: Basis, before_ns: f64, after_ns: f64, noise_ns: Option<f64>) -> Change {
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

    /// Returns that the times of the parts of two runs say nothing of the change: a window cuts each run at a time, wherever its
    /// work is then, and most often ends where it is said to end.
    pub fn of_windows(self) -> Change {
        let text = "Nothing can be said of the change: without steps to compare, the time that --since, --until or --last selects is no \
                    measure of its work. Compare whole runs, or the same steps of both with --step.";
        Change { text: text.to_owned(), verdict: Verdict::Unknown, speedup: None, share: None, ..self }
    }

    /// Returns that the times of two runs say nothing of the change, since neither their steps nor the runs are the same work.
    pub fn of_other_work(self) -> Change {
        let text = "Nothing can be said of the change: neither a step nor the whole run is the same work in both. Compare runs of as \
                    many steps, or name the step with an NVTX range in both.";
        Change { text: text.to_owned(), verdict: Verdict::Unknown, speedup: None, share: None, ..self }
    }

    /// Whether the times say something of the change.
    pub fn is_known(&self) -> bool {
        self.verdict != Verdict::Unknown
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
            Basis::Range => "in the NVTX range that is the step",
        };
        let in_words = if self.basis == Basis::Wall { "in wall time" } else { of };
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
            (Verdict::Faster, Some(speedup)) => {
                format!("AFTER is {} {in_words}: {figures}.", by_factor(speedup, "faster"))
            }
            (Verdict::Slower, Some(speedup)) => {
                format!("AFTER is {} {in_words}: {figures}.", by_factor(1.0 / speedup, "slower"))
            }
            (Verdict::Slower, None) => format!("AFTER takes {after} {of}, and BEFORE took none."),
            _ => format!("AFTER takes no time, and BEFORE took {before} {of}."),
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
pub fn on_gpu(report: &Report) -> u64 {
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

/// Says how many times faster or slower something is: `1.32x faster`, `161x slower`.
fn by_factor(factor: f64, what: &str) -> String {
    match factor {
        ..1.005 => format!("slightly {what}"),
        ..9.995 => format!("{factor:.2}x {what}"),
        ..99.95 => format!("{factor:.1}x {what}"),
        _ => format!("{factor:.0}x {what}"),
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
    use crate::report::diff::noise::tests::steps;

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

    /// "AFTER is 161.12x slower of wall time" was no sentence, nor was "took another time per step".
    #[test]
    fn the_sentence_is_one_whatever_is_compared() {
        let said = |basis, before, after| Change::from(basis, before, after, None).text;
        for (basis, before, after, sentence) in [
            (
                Basis::Wall,
                10e6,
                1_611.2e6,
                "AFTER is 161x slower in wall time: 1.61 s instead of 10.0 ms (+16012 %, ",
            ),
            (
                Basis::Wall,
                420e6,
                10e6,
                "AFTER is 42.0x faster in wall time: 10.0 ms instead of 420 ms (-98 %, ",
            ),
            (Basis::Wall, 10e6, 10e6, "There is no change: 10.0 ms of wall time, exactly as before."),
            (
                Basis::Gpu,
                10e6,
                20e6,
                "AFTER is 2.00x slower from the first GPU operation to the last: 20.0 ms instead of",
            ),
            (
                Basis::StepMean,
                10e6,
                5e6,
                "AFTER is 2.00x faster per step on average: 5.00 ms instead of 10.0 ms",
            ),
            (
                Basis::Step,
                10e6,
                10.001e6,
                "AFTER is slightly slower per step: 10.0 ms instead of 10.0 ms (+<0.1 %, ",
            ),
            (Basis::Step, 0.0, 10e6, "AFTER takes 10.0 ms per step, and BEFORE took none."),
            (Basis::Wall, 10e6, 0.0, "AFTER takes no time, and BEFORE took 10.0 ms of wall time."),
        ] {
            let text = said(basis, before, after);
            assert!(text.starts_with(sentence), "{text}");
        }
    }

    #[test]
    fn small_shares_keep_their_sign() {
        let all = [-0.2412, 0.031, 0.0001, -0.0001, 0.0].map(signed_percent);
        assert_eq!(all, ["-24 %", "+3.1 %", "+<0.1 %", "-<0.1 %", "0 %"]);
    }
}
