//! What else differs between two runs, so that a change may not be the program's.

use super::Compared;
use super::busy;
use super::change::{Basis, Change, far, signed_percent};
use super::outside;
use crate::analyze::steps::on_slower_gpu;
use crate::diagnose::findings::straggler_rank;
use crate::report::rows::Report;
use crate::report::rows::coverage::Coverage;
use crate::report::rows::processes::Process;
use crate::report::rows::steps::Steps;
use crate::report::rows::timing::Mode;
use crate::report::units::{count, percent, plural};
use gpuspy_wire::record::LossCause;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeSet;

/// One of the two runs.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Side {
    /// The path of the trace, or of the directory of traces, as it was given.
    pub path: String,
    /// The command line of the first process; null = not known.
    pub command: Option<String>,
    /// The number of processes.
    pub processes: u64,
    /// The models of its GPUs, each once.
    pub gpus: Vec<String>,
    /// The version of the CUDA driver: 12090 is 12.9; null = not known, or processes differ.
    pub driver_version: Option<u32>,
    /// The wall time; null = no process.
    pub wall_ns: Option<u64>,
    /// The number of steps of the process whose steps are compared; 0 = none were found.
    pub steps: u64,
    /// The number of steps of all processes together.
    pub all_steps: u64,
    /// The number of kernel launch calls that succeeded outside stream captures.
    pub launches: u64,
    /// The number of those with a GPU time.
    pub timed: u64,
    /// The number of those whose GPU time is known together with that of others, in runs.
    pub timed_in_runs: u64,
    /// The number of records and GPU times that were lost.
    pub dropped: u64,
    /// How it failed, in a few words each: the GPU stopped with an error, or a process was killed, crashed, or exited with
    /// another code than 0. empty = it did not.
    pub failures: Vec<String>,
}

/// Coverage that differs by more than this, as a share of all launches, is worth a warning.
const COVERAGE: f64 = 0.1;

impl Side {
    /// Describes a run.
    pub fn of(run: &Compared<'_>) -> Side {
        let report = run.report;
        let gpus: BTreeSet<&str> =
            report.devices.iter().filter_map(|device| device.name.as_deref()).collect();
        Side {
            path: run.path.to_owned(),
            command: report.processes.first().and_then(|process| process.command.clone()),
            processes: report.processes.iter().filter(|process| process.is_last_part).count() as u64,
            gpus: gpus.into_iter().map(str::to_owned).collect(),
            driver_version: common(&report.processes, |process| process.driver_version),
            wall_ns: report.wall_ns,
            steps: report.steps.count,
            all_steps: run.all_steps,
            launches: report.coverage.launches,
            timed: report.coverage.timed,
            timed_in_runs: report.coverage.runs.launches,
            dropped: report.coverage.dropped,
            failures: failures(report),
        }
    }
}

/// Returns how a run failed: what it took is not the time of the whole work.
fn failures(report: &Report) -> Vec<String> {
    let stopped = report.gpu_error.map(|error| format!("the GPU stopped with an error ({error})"));
    let failed = report.processes.iter().filter_map(|process| {
        let how = match (process.ending, process.exit_code) {
            (Some("killed"), _) => "was killed".to_owned(),
            (Some("crashed"), _) => "crashed".to_owned(),
            (_, Some(code @ 1..)) => format!("exited with code {code}"),
            _ => return None,
        };
        Some(format!("{} {how}", named(process)))
    });
    stopped.into_iter().chain(failed).collect()
}

/// Returns what a process is called in a sentence.
fn named(process: &Process) -> String {
    process.pid.map_or_else(|| "process".to_owned(), |pid| format!("process {pid}"))
}

/// Returns what all processes have in common.
fn common<T: PartialEq>(processes: &[Process], of: fn(&Process) -> Option<T>) -> Option<T> {
    let first = processes.first().and_then(of);
    first.filter(|first| processes.iter().all(|process| of(process).as_ref() == Some(first)))
}

/// Returns a sentence for everything that makes the comparison doubtful.
pub fn warnings(before: &Compared<'_>, after: &Compared<'_>, change: &Change) -> Vec<String> {
    let (one, other) = (before.report, after.report);
    let mut said = differences(&Side::of(before), &Side::of(after));
    said.extend(differing("the timing mode", timing(&one.coverage), timing(&other.coverage)));
    said.extend(differing("the filter", filters(one), filters(other)));
    said.extend(differing("the capture range", captured(one), captured(other)));
    said.extend(differing_coverage(&one.coverage, &other.coverage));
    if before.is_part || after.is_part {
        said.push(
            "the change is that of whole steps or runs: what the filter selects is in the tables below"
                .to_owned(),
        );
    }
    said.extend(work(one, other, change));
    said.extend(outside::said(one, other, change));
    said.extend(busy::said(one, other, change));
    for (name, report) in [("BEFORE", one), ("AFTER", other)] {
        said.extend(slower_gpu(name, &report.steps));
        said.extend(incomplete(name, report));
    }
    said
}

/// Returns a sentence for each fact that both sides have and that differs.
fn differences(before: &Side, after: &Side) -> Vec<String> {
    let version = |side: &Side| side.driver_version.map(|v| format!("{}.{}", v / 1000, v % 1000 / 10));
    let processes = |side: &Side| Some(side.processes.to_string());
    let gpus = |side: &Side| Some(side.gpus.join(", ")).filter(|names| !names.is_empty());
    let said = [
        differing("the command", before.command.clone(), after.command.clone()),
        differing("the number of processes", processes(before), processes(after)),
        differing("the GPU", gpus(before), gpus(after)),
        differing("the driver", version(before), version(after)),
    ];
    said.into_iter().flatten().collect()
}

fn differing(what: &str, before: Option<String>, after: Option<String>) -> Option<String> {
    let (before, after) = before.zip(after)?;
    let or_none = |text: String| if text.is_empty() { "none".to_owned() } else { text };
    (before != after).then(|| format!("{what} differs: {} before, {} after", or_none(before), or_none(after)))
}

fn timing(coverage: &Coverage) -> Option<String> {
    let timing = &coverage.timing;
    Some(match timing.mode.as_ref()? {
        Mode::Auto => {
            timing.budget_percent.map_or("auto".to_owned(), |budget| format!("auto within {budget} %"))
        }
        Mode::Exact => "exact".to_owned(),
        Mode::Off => "off".to_owned(),
    })
}

fn filters(report: &Report) -> Option<String> {
    report.processes.first().map(|process| process.filter.clone())
}

fn captured(report: &Report) -> Option<String> {
    let process = report.processes.first()?;
    Some(process.captured.as_ref().map_or(String::new(), |captured| captured.range.clone()))
}

fn differing_coverage(before: &Coverage, after: &Coverage) -> Option<String> {
    let known = |coverage: &Coverage| coverage.timed.saturating_add(coverage.runs.launches);
    let share = |coverage: &Coverage| known(coverage) as f64 / coverage.launches.max(1) as f64;
    let have_launches = before.launches > 0 && after.launches > 0;
    let shown = |coverage: &Coverage| percent(known(coverage), coverage.launches);
    (have_launches && (share(before) - share(after)).abs() > COVERAGE).then(|| {
        let (before, after) = (shown(before), shown(after));
        format!("the share of launches that were timed differs: {before} before, {after} after")
    })
}

/// Whether both runs have steps that may not be the same work, and launched other numbers of kernels in all: what repeats in one is
/// not what repeats in the other, and one may have run for longer.
pub fn are_of_other_work(before: &Report, after: &Report, change: &Change) -> bool {
    let have_steps = before.steps.median_ns.is_some() && after.steps.median_ns.is_some();
    have_steps && !change.basis.is_step() && far(launched(before), launched(after)).is_some()
}

/// Returns how many kernels a run launched, those of its graphs with them.
fn launched(report: &Report) -> u64 {
    report.coverage.launches.saturating_add(report.coverage.in_graphs)
}

/// Returns a sentence if both runs may not have done the same work.
fn work(before: &Report, after: &Report, change: &Change) -> Option<String> {
    let (steps, other_steps) = (&before.steps, &after.steps);
    if change.basis == Basis::StepMean && steps.timed_on != other_steps.timed_on {
        return Some(format!(
            "steps are timed {} before, {} after: the means of the host's times are compared",
            timed(steps),
            timed(other_steps)
        ));
    }
    if change.basis.is_step() {
        return None;
    }
    let (launches, other_launches) = (launched(before), launched(after));
    let none = match (steps.median_ns, other_steps.median_ns) {
        (Some(_), Some(_)) => format!(
            "a step may not be the same work in both ({} of {} launches before, {} of {} after)",
            count(steps.count),
            count(steps.launches_per_step),
            count(other_steps.count),
            count(other_steps.launches_per_step)
        ),
        (Some(_), None) => "no steps were found after the change".to_owned(),
        (None, Some(_)) => "no steps were found before the change".to_owned(),
        (None, None) => "no steps were found".to_owned(),
    };
    let has_steps = steps.median_ns.is_some() || other_steps.median_ns.is_some();
    match far(launches, other_launches) {
        _ if !change.is_known() => has_steps.then_some(none),
        Some(share) => Some(format!(
            "{none}, and the kernels launched differ by {}: {} before, {} after. If the runs differ in length, so do all times",
            signed_percent(share),
            count(launches),
            count(other_launches)
        )),
        None if has_steps => Some(format!("{none}: whole runs are compared")),
        None => None,
    }
}

/// Returns in words how a run's steps are timed.
fn timed(steps: &Steps) -> &'static str {
    match steps.timed_on {
        Some("gpu") => "on the GPU",
        Some("host") => "from call to call on the host",
        _ => "from call to call on the host, which may run ahead,",
    }
}

/// Returns a sentence if the GPU was slower for a part of a run, which is no change of the program.
fn slower_gpu(name: &str, steps: &Steps) -> Option<String> {
    let all = steps.slow_stretches.iter();
    let slower = all.filter_map(|stretch| Some((stretch, on_slower_gpu(stretch.same_kernels)?)));
    let (stretch, times) = slower.max_by_key(|(stretch, _)| stretch.duration_ns)?;
    let (first, last) = (stretch.first_step, stretch.last_step);
    Some(format!(
        "{name}: the GPU was slower in steps {first}..{last}: the same kernels took {times:.2} times as long"
    ))
}

/// Returns sentences that say what one run lacks.
fn incomplete(name: &str, report: &Report) -> Vec<String> {
    let mut said: Vec<String> = failures(report).iter().map(|failure| format!("{name}: {failure}")).collect();
    let pending = report.coverage.dropped_by.get(LossCause::GpuTimePending.name()).copied().unwrap_or(0);
    let records = report.coverage.dropped.saturating_sub(pending);
    if records > 0 {
        let records = plural(records, "record", "records");
        said.push(format!("{name} lacks {records}, which could not be kept"));
    }
    if pending > 0 {
        let times = plural(pending, "GPU time", "GPU times");
        said.push(format!("{name} lacks {times}, lost because a context or the process ended"));
    }
    if report.coverage.driver_hooked == Some(false) && report.coverage.launches > 0 {
        said.push(format!("{name} is based on runtime calls only: launches did not pass through the agent"));
    }
    if let Some(missing) = straggler_rank::missing(&report.compared) {
        said.push(format!("{name} is a part of its job: {missing}"));
    }
    for unread in &report.unread {
        said.push(format!("{name} lacks a trace that cannot be read, {}: {}", unread.path, unread.why));
    }
    for process in &report.processes {
        let damage = &process.damage;
        if damage.cut || damage.chunks_lost + damage.chunks_refused > 0 {
            said.push(format!("{name} is damaged: {} could not be read completely", process.damaged));
        }
        let how = match process.ending {
            Some("running") => "was still running",
            Some("unknown") => "may have run on after its trace was cut off",
            Some("vanished") if process.exit_code.is_none() => "vanished",
            _ => continue,
        };
        said.push(format!("{name}: {} {how}", named(process)));
    }
    said
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analyze::steps;

    /// A change of 5 % was that of a GPU which had become too hot.
    #[test]
    fn a_gpu_that_was_slower_in_one_run_is_no_change_of_the_program() {
        let said = |of: &[(u64, f64)]| {
            let stretch = |(first, times): &(u64, f64)| steps::SlowStretch {
                steps: *first..first + 20,
                duration: *first,
                same_kernels: Some(*times),
                ..steps::SlowStretch::default()
            };
            let slow_stretches = of.iter().map(stretch).collect();
            slower_gpu("AFTER", &Steps::of(&steps::Steps { slow_stretches, ..steps::Steps::default() }))
        };
        let expected = "AFTER: the GPU was slower in steps 60..79: the same kernels took 1.50 times as long";
        assert_eq!(said(&[(20, 1.3), (60, 1.5), (100, 1.01)]).as_deref(), Some(expected));
        assert_eq!(said(&[(100, 1.01)]), None);
    }
}
