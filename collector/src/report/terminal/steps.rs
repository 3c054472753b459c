//! The program's steps: how long they take, how steady they are, and what is in them.

use super::Run;
use super::screen::{Screen, number, time};
use crate::analyze;
use crate::analyze::steps::on_slower_gpu;
use crate::report::chart::{CUT, sparkline};
use crate::report::names::cut;
use crate::report::rows::steps::{Contents, SlowStretch, Steps};
use crate::report::table::{Table, left, names, right};
use crate::report::text::{Text, dim};
use crate::report::units::{bytes, count, duration, percent, plural};
use std::collections::BTreeMap;

/// Drift that is worth a word: a twentieth of a step.
const DRIFTS: f64 = 0.05;

/// Draws the section. The overview has its first lines.
pub fn steps(screen: &mut Screen<'_>, run: &Run<'_>) {
    let steps = &run.rows.steps;
    if steps.count == 0 {
        return screen.none("Steps", "no launches, NVTX ranges or graphs that recur regularly");
    }
    screen.section("Steps", sentence(steps, &whose(run), run.has_windows()));
    plot(screen, steps);
    slow_stretches(screen, steps);
    if !screen.view.is_selected() {
        return;
    }
    contents(screen, steps);
    outliers(screen, steps, run.gpus() > 1);
    phases(screen, steps);
}

/// Says which of several processes the steps are of.
pub fn whose(run: &Run<'_>) -> String {
    let is_one_of = analyze::processes(run.reports).len() > 1;
    if is_one_of { of_process(&run.rows.steps) } else { String::new() }
}

fn of_process(steps: &Steps) -> String {
    match (steps.rank, steps.pid) {
        (Some(rank), _) => format!(" of rank {rank}"),
        (None, Some(pid)) => format!(" of process {pid}"),
        (None, None) => String::new(),
    }
}

fn sentence(steps: &Steps, whose: &str, is_of_window: bool) -> String {
    let mut parts = vec![format!(
        "{}{whose} found{}{}{} ({} each)",
        count(steps.count),
        match (&steps.range, steps.source) {
            (Some(range), _) => format!(" by the NVTX range {}", cut(range, 40)),
            (None, Some("graphs")) => " by graph launches".to_owned(),
            (None, _) => String::new(),
        },
        steps.tid.map_or_else(String::new, |tid| format!(" in thread {tid}, one of several with a GPU each")),
        if is_of_window { " in one part of its time" } else { "" },
        plural(steps.launches_per_step, "launch", "launches")
    )];
    if steps.warm_up > 0 {
        parts.push(format!("warm-up {}", count(steps.warm_up)));
    }
    let times = in_words(steps);
    if !times.is_empty() {
        parts.push(times.join(", "));
    }
    if let Some(drift) = steps.drift.filter(|drift| drift.abs() >= DRIFTS) {
        let direction = if drift > 0.0 { "longer" } else { "shorter" };
        let share = percent((drift.abs() * 1e6) as u64, 1_000_000);
        parts.push(format!("the last ones {share} {direction} than the first"));
    }
    parts.join(" \u{b7} ")
}

/// Returns the times in words, as `median 2.27 ms`. Where the host may be ahead of the GPU, only their mean says something.
pub fn in_words(steps: &Steps) -> Vec<String> {
    let named = |(name, ns): (&str, Option<u64>)| ns.map(|ns| format!("{name} {}", duration(ns)));
    let times: Vec<String> = match steps.are_told_apart() {
        true => vec![("median", steps.median_ns), ("p95", steps.p95_ns), ("p99", steps.p99_ns)],
        false => vec![("mean", steps.mean_ns.map(|ns| ns.round() as u64))],
    }
    .into_iter()
    .filter_map(named)
    .collect();
    let how = match steps.timed_on {
        Some("host") => " by host calls",
        Some("host_ahead") => " by host calls, which may run ahead of the GPU",
        _ => "",
    };
    let last = times.len().saturating_sub(1);
    let with_how = |(at, time): (usize, String)| if at == last { time + how } else { time };
    times.into_iter().enumerate().map(with_how).collect()
}

/// Returns what the highest character of the plot stands for, ns: the highest value that is no longer than the longest step
/// after the warm-up. The warm-up can take so much longer that all other steps would look alike.
pub fn scale(steps: &Steps) -> u64 {
    let longest = steps.max_ns.unwrap_or(u64::MAX);
    let values = || steps.plot_ns.iter().copied();
    values().filter(|ns| *ns <= longest).max().or_else(|| values().max()).unwrap_or(0)
}

fn plot(screen: &mut Screen<'_>, steps: &Steps) {
    let most = scale(steps);
    if steps.plot_ns.len() < 2 || most == 0 {
        return;
    }
    let width = steps.plot_ns.len().min(screen.inner());
    let line = sparkline(&steps.plot_ns, most, width, screen.style.ascii);
    screen.more(Text::from(line).then(dim(legend(steps, most, screen.style.ascii))));
}

/// Says what the values of the plot are, and what its highest character stands for.
fn legend(steps: &Steps, most: u64, ascii: bool) -> String {
    // Steps at the end that are in no mean yet are among those that were found.
    let are_means = steps.plot_ns.len() as u64 * 3 / 2 < steps.count;
    let what = if are_means { " means" } else { "" };
    let is_cut = steps.plot_ns.iter().any(|ns| *ns > most);
    let cut = if is_cut { format!("; {} took longer", CUT[usize::from(ascii)]) } else { String::new() };
    format!("{what} up to {}{cut}", duration(most))
}

/// Says where steps in a row took longer.
fn slow_stretches(screen: &mut Screen<'_>, steps: &Steps) {
    steps.slow_stretches.iter().for_each(|stretch| screen.remark(&slower(stretch)));
}

/// Says in few words where steps in a row took longer, of several slow stretches the one that took most time more.
pub fn slowest_stretch(steps: &Steps) -> Option<String> {
    let excess = |of: &SlowStretch| of.duration_ns as f64 * (1.0 - of.usual_ns as f64 / of.mean_ns.max(1.0));
    let most = steps.slow_stretches.iter().rev().max_by(|a, b| excess(a).total_cmp(&excess(b)))?;
    let cause = if on_slower_gpu(most.same_kernels).is_some() { ": a slower GPU" } else { "" };
    let others = match steps.slow_stretches.len() - 1 {
        0 => String::new(),
        others => format!(
            ", and {} (--section steps)",
            plural(others as u64, "slow stretch more", "slow stretches more")
        ),
    };
    Some(format!("{}{cause}{others}", by_how_much(most)))
}

/// Says which steps took longer, when, and by how much.
fn by_how_much(stretch: &SlowStretch) -> String {
    let SlowStretch { first_step, last_step, start_ns, duration_ns, mean_ns, usual_ns, .. } = *stretch;
    format!(
        "steps {first_step}..{last_step}, from {} for {}, took {}",
        duration(start_ns),
        duration(duration_ns),
        longer(mean_ns / usual_ns.max(1) as f64)
    )
}

/// Says how much longer so many times as long is.
fn longer(times: f64) -> String {
    match times {
        2.0.. => format!("{times:.1} times as long"),
        _ => format!("{} longer", percent(((times - 1.0).max(0.0) * 1e6) as u64, 1_000_000)),
    }
}

/// Says how much longer steps took, and whether the GPU did.
fn slower(stretch: &SlowStretch) -> String {
    let why = match (on_slower_gpu(stretch.same_kernels), stretch.same_kernels) {
        (Some(times), _) => format!(": the same kernels took {} on the GPU", longer(times)),
        (None, Some(_)) => ": the same kernels took about as long".to_owned(),
        (None, None) => String::new(),
    };
    format!("{}, {} each{why}", by_how_much(stretch), duration(stretch.mean_ns.round() as u64))
}

fn contents(screen: &mut Screen<'_>, steps: &Steps) {
    let Contents { busy_ns, idle_ns, undecided_ns, ref idle_by_cause_ns, .. } = steps.per_step;
    let whole = (busy_ns + idle_ns + undecided_ns).round() as u64;
    let mut table = Table::new(&[left("per step"), right("mean"), right("of step")]);
    let mut timed = |name: String, ns: f64| {
        let ns = ns.round() as u64;
        table.row([Text::from(name), time(Some(ns)), dim(percent(ns, whole))]);
    };
    timed("GPU busy".to_owned(), busy_ns);
    timed("GPU idle".to_owned(), idle_ns);
    let mut causes: Vec<_> = idle_by_cause_ns.iter().filter(|(_, ns)| **ns >= 1.0).collect();
    causes.sort_by(|a, b| b.1.total_cmp(a.1));
    causes.iter().for_each(|(cause, ns)| timed(format!("  {}", cause.replace('_', " ")), **ns));
    if undecided_ns >= 1.0 {
        timed("undecided".to_owned(), undecided_ns);
    }
    screen.table(&table, 0, "steps");
    screen.remark(&counted(&steps.per_step));
}

fn counted(of: &Contents) -> String {
    let each = |n: f64| if n.fract() == 0.0 { count(n as u64) } else { format!("{n:.1}") };
    let size = |n: f64| bytes(n.abs().round() as u64);
    let mut parts = vec![
        format!("copies and memsets {} ({})", each(of.copies), size(of.copied_bytes)),
        format!("synchronizations {}", each(of.syncs)),
        format!("allocations {} ({})", each(of.allocations), size(of.allocated_bytes)),
    ];
    if of.growth_bytes.abs() >= 1.0 {
        let change = if of.growth_bytes > 0.0 { "grows" } else { "shrinks" };
        parts.push(format!("memory {change} by {}", size(of.growth_bytes)));
    }
    format!("per step: {}", parts.join(", "))
}

fn outliers(screen: &mut Screen<'_>, steps: &Steps, has_gpus: bool) {
    let Some(longest) = steps.outliers.first() else { return };
    let mut table = Table::new(&[
        right("longest steps"),
        right("start"),
        right("took"),
        right("median"),
        left(if has_gpus { "idle, added over its GPUs, mostly" } else { "GPU idle, mostly" }),
    ]);
    for outlier in &steps.outliers {
        let times = steps.median_ns.filter(|median| *median > 0);
        let times = times
            .map_or_else(String::new, |median| format!("{:.1}x", outlier.duration_ns as f64 / median as f64));
        table.row([
            number(outlier.step),
            time(Some(outlier.start_ns)),
            time(Some(outlier.duration_ns)),
            times.into(),
            dim(mostly(&outlier.idle_by_cause_ns)),
        ]);
    }
    screen.table(&table, 0, "steps");
    if steps.timed_on == Some("gpu") {
        screen.remark(&with_the_next(longest.step));
    }
}

/// Says where to look for what the host did in a step that is timed on the GPU.
fn with_the_next(step: u64) -> String {
    format!(
        "a step begins on the GPU with its first operation: what the host did before that lies in the step before; \
         --step {step}..{} has both",
        step + 1
    )
}

/// Returns the idle time of a step and its largest cause.
fn mostly(by_cause: &BTreeMap<&'static str, u64>) -> String {
    let all = by_cause.values().fold(0u64, |sum, ns| sum.saturating_add(*ns));
    let most = by_cause.iter().max_by_key(|(_, ns)| **ns);
    most.map_or_else(String::new, |(cause, _)| format!("{}, {}", duration(all), cause.replace('_', " ")))
}

fn phases(screen: &mut Screen<'_>, steps: &Steps) {
    if steps.phases.is_empty() {
        return;
    }
    let mut table = Table::new(&[right("host"), right("per step"), names("phase", cut)]);
    for phase in &steps.phases {
        let per_step = format!("{:.1}", phase.per_step);
        table.row([time(Some(phase.host_ns.round() as u64)), per_step.into(), Text::from(&phase.name)]);
    }
    screen.table(&table, 0, "steps");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analyze::idle::Cause;
    use crate::analyze::steps::{self, TimedOn};
    use crate::report::view::{Style, View};

    fn of(count: u64, plot: &[u64], max: u64) -> Steps {
        let time = Some(steps::StepTimes { max, ..steps::StepTimes::default() });
        Steps::of(&steps::Steps { count, time, plot: plot.to_vec(), ..steps::Steps::default() })
    }

    fn scaled(plot: &[u64], max: u64) -> u64 {
        scale(&of(9, plot, max))
    }

    /// Of a job, "Steps 200 found" was said of one rank's.
    #[test]
    fn steps_of_a_job_say_whose_they_are() {
        let said = |rank, pid| {
            let steps = Steps { rank, pid, ..of(9, &[], 15) };
            sentence(&steps, &of_process(&steps), false)
        };
        assert!(said(Some(2), Some(71)).starts_with("9 of rank 2 found"));
        assert!(said(None, Some(71)).starts_with("9 of process 71 found"));
    }

    /// Nothing was said of a part of the run in which each step took longer.
    #[test]
    fn slow_stretches_say_which_steps_and_whether_the_gpu_was_slower() {
        let stretch = |first: u64, same_kernels| steps::SlowStretch {
            steps: first..first + 2_000,
            start: 90_000_000_000,
            duration: 2_440_000_000,
            usual: 1_000_000,
            same_kernels,
        };
        let all = vec![stretch(0, Some(1.3)), stretch(4_000, Some(1.01)), stretch(8_000, None)];
        let of = steps::Steps { slow_stretches: all, ..steps::Steps::default() };
        let (view, style) = (View::default(), Style::default());
        let mut screen = Screen::new(&view, &style, false);
        slow_stretches(&mut screen, &Steps::of(&of));
        let said = screen.sentences().join(" ");
        let first = "steps 0..1999, from 90.0 s for 2.44 s, took 22.0 % longer, 1.22 ms each: the same kernels took 30.0 % longer on the GPU";
        assert!(said.starts_with(first), "{said}");
        assert!(said.contains("1.22 ms each: the same kernels took about as long"), "{said}");
        assert!(
            said.ends_with("steps 8000..9999, from 90.0 s for 2.44 s, took 22.0 % longer, 1.22 ms each"),
            "{said}"
        );
        let brief = "steps 0..1999, from 90.0 s for 2.44 s, took 22.0 % longer: a slower GPU, and 2 slow stretches more (--section steps)";
        assert_eq!(slowest_stretch(&Steps::of(&of)).as_deref(), Some(brief));
        assert_eq!(slowest_stretch(&Steps::of(&steps::Steps::default())), None);
        assert_eq!(longer(64.16), "64.2 times as long", "and not 6316 % longer");
    }

    fn long_steps(timed_on: TimedOn, has_gpus: bool) -> String {
        let idle_by_cause = [(Cause::OutsideCuda, 6_220_000)].into();
        let long = steps::Outlier { step: 48, start: 9, duration: 2_350_000, idle_by_cause };
        let timed_on = Some(timed_on);
        let steps = steps::Steps { timed_on, outliers: vec![long], ..steps::Steps::default() };
        let (view, style) = (View::default(), Style::default());
        let mut screen = Screen::new(&view, &style, false);
        outliers(&mut screen, &Steps::of(&steps), has_gpus);
        screen.sentences().join(" ")
    }

    /// "48 took 35.6 ms", and `--step 48` showed a step of 4.8 ms: the host had slept before the first launch of step 49.
    #[test]
    fn a_long_step_leads_to_the_host_time_that_it_was_idle_for() {
        let said = long_steps(TimedOn::Gpu, false);
        assert!(said.contains("--step 48..49 has both"), "{said}");
        let said = long_steps(TimedOn::Host, false);
        assert!(said.contains("GPU idle, mostly") && !said.contains("--step"), "{said}");
    }

    /// A step that took 2.35 ms was said to be idle for 6.22 ms.
    #[test]
    fn idle_time_of_a_step_on_several_gpus_is_said_to_be_added() {
        let said = long_steps(TimedOn::Gpu, true);
        assert!(said.contains("idle, added over its GPUs, mostly"), "{said}");
    }

    /// A plot of steps that took up to 385 ms was said to be "up to 48.4 ms".
    #[test]
    fn a_plot_of_means_says_that_it_is_one() {
        let said = |count, plot: &[u64]| {
            let steps = of(count, plot, 385_000_000);
            legend(&steps, scale(&steps), false)
        };
        let plot = [48_400_000; 45];
        assert_eq!(said(360, &plot), " means up to 48.4 ms");
        assert_eq!(said(89, &plot), " means up to 48.4 ms");
        assert_eq!(said(46, &plot), " up to 48.4 ms");
        assert_eq!(said(59, &[1_000_000; 58]), " up to 1.00 ms");
    }

    #[test]
    fn the_plot_is_scaled_to_the_steps_after_the_warm_up() {
        assert_eq!(scaled(&[9_000, 400, 10, 12, 15, 11], 15), 15);
        // A value of the plot is the mean of several steps, so none may be as long as the longest step.
        assert_eq!(scaled(&[9_000, 400, 10, 12, 13, 11], 40), 13);
        assert_eq!(scaled(&[10, 12], 12), 12, "without a warm-up nothing is cut");
        assert_eq!(scaled(&[9_000], 12), 9_000, "nothing would be left to show");
    }
}
