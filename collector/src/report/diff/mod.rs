//! Two runs compared: what changed, by how much, and whether that is more than noise.
//!
//! A [`Diff`] is a pure function of the rows of two [reports](crate::report::rows), and plain structs like those: the JSON
//! Schema in `collector/schema/diff.schema.json` is generated from them, and the screen draws its tables from them. Where
//! both runs have the same steps, figures are those of a step of one process, so that runs of different length, or of a different
//! number of ranks, can be compared.

pub mod busy;
pub mod change;
pub mod circumstances;
pub mod figure;
pub mod findings;
pub mod kernels;
pub mod memory;
pub mod noise;
pub mod outside;
pub mod parts;
pub mod ranges;
pub mod rare;
pub mod steps;
pub mod work;

use crate::analyze::{ProcessReport, Tables};
use crate::harmless;
use crate::report::rows::Report;
use crate::report::view::Unread;
use change::{Basis, Change, Verdict};
use circumstances::{Side, warnings};
use figure::Scale;
use parts::Per;
use schemars::JsonSchema;
use serde::Serialize;
use std::borrow::Cow;

/// What `gpuspy diff --json` prints: two runs, side by side. Times are nanoseconds; a change is after less before.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(title = "gpuspy diff", extend("$id" = "urn:gpuspy:diff:1"))]
pub struct Diff {
    /// The run before the change.
    pub before: Side,
    /// The run after the change.
    pub after: Side,
    /// How much faster or slower the run is after the change.
    pub change: Change,
    /// The same of the length of the NVTX range that is the step of both runs: where something else sets the pace, as the clients of a server
    /// do, the time from the start of a step to that of the next one does not show it. null = the step is no range in one of them, or that is
    /// not known.
    pub range: Option<Change>,
    /// What runs of as many steps differ by outside of them; null = by no more than a tenth of the longer run, or the noise of its steps; or
    /// that is not known.
    pub outside: Option<outside::Outside>,
    /// What else differs, or is missing, so that the change may not be the program's: a sentence each.
    pub warnings: Vec<String>,
    /// What the counts and total times below are of. step: the steps of both runs are compared, and the figures of each run, which are sums
    /// over its processes, are divided by its all_steps, so that they are of a step of one process; those of memory are always of
    /// the run.
    pub per: Per,
    /// null = neither run has steps.
    pub steps: Option<steps::Steps>,
    /// The parts of the wall time of the GPU that was used most.
    pub identity: Vec<parts::Part>,
    /// The idle time by cause, the largest change first; causes that are of the run are behind those of a step.
    pub idle: Vec<parts::Cause>,
    /// NVTX ranges, the largest change of the median length first.
    pub ranges: Vec<ranges::Range>,
    /// The largest change of the total time first.
    pub kernels: Vec<kernels::Kernel>,
    /// Copies and memsets outside graphs, the largest change of the GPU time first.
    pub transfers: Vec<work::Transfer>,
    /// Calls that waited for the GPU, the largest change of the time first.
    pub syncs: Vec<work::Sync>,
    /// Device memory.
    pub memory: memory::Memory,
    /// The findings: what was promised, and what was gained.
    pub findings: findings::Findings,
}

/// One of the runs that are compared.
#[derive(Clone, Copy, Debug)]
pub struct Run<'a> {
    /// The trace, or the directory of traces, as the user named it.
    pub path: &'a str,
    /// Its processes.
    pub reports: &'a [ProcessReport],
    /// Their sums, if they were added before.
    pub sums: Option<&'a Tables>,
    /// Its traces that could not be read.
    pub unread: &'a [Unread],
    /// Whether it is what a window of time has of a run (--since, --until, --last).
    pub is_window: bool,
    /// Whether it is a part of what its GPUs did at one time (--kernel, --stream, --thread).
    pub is_part: bool,
}

/// One of the runs, with its rows.
#[derive(Clone, Copy, Debug)]
pub struct Compared<'a> {
    path: &'a str,
    report: &'a Report,
    /// The number of steps of all processes together.
    all_steps: u64,
    is_window: bool,
    is_part: bool,
}

impl<'a> Compared<'a> {
    fn of(run: Run<'a>, report: &'a Report) -> Compared<'a> {
        let all_steps = steps::of_all(run.reports, &report.steps);
        let Run { path, is_window, is_part, .. } = run;
        Compared { path, report, all_steps, is_window, is_part }
    }
}

impl Diff {
    /// Compares two runs.
    pub fn of(before: Run<'_>, after: Run<'_>) -> Diff {
        let rows = |run: Run<'_>| {
            let all = run.sums.map_or_else(|| Tables::of_run(run.reports), Cow::Borrowed);
            Report::of(run.reports, &all, run.unread)
        };
        let (of_before, of_after) = (rows(before), rows(after));
        Diff::of_rows(&Compared::of(before, &of_before), &Compared::of(after, &of_after))
    }

    fn of_rows(before: &Compared<'_>, after: &Compared<'_>) -> Diff {
        let (one, other) = (before.report, after.report);
        let change = Change::of(one, other);
        let is_of_windows = (before.is_window || after.is_window) && !change.basis.is_step();
        let change = match is_of_windows {
            true => change.of_windows(),
            false if circumstances::are_of_other_work(one, other, &change) => change.of_other_work(),
            false => change,
        };
        // The wall time's parts are those of one GPU, and all else are sums over processes.
        let (per, of_one, scale) = match change.basis {
            Basis::Step | Basis::StepMean => {
                let by = |before: u64, after: u64| Scale { before: before as f64, after: after as f64 };
                let of_one = by(one.steps.count, other.steps.count);
                (Per::Step, of_one, by(before.all_steps, after.all_steps))
            }
            Basis::Gpu | Basis::Wall | Basis::Range => (Per::Run, Scale::RUN, Scale::RUN),
        };
        Diff {
            before: Side::of(before),
            after: Side::of(after),
            range: ranges::of_step(one, other).filter(|_| change.is_known()),
            outside: outside::of(one, other, &change),
            warnings: warnings(before, after, &change),
            per,
            steps: steps::Steps::of(&one.steps, &other.steps),
            identity: parts::parts(one, other, per, of_one),
            idle: parts::causes(one, other, per, scale),
            ranges: ranges::ranges(&one.ranges, &other.ranges, scale),
            kernels: kernels::kernels(&one.kernels, &other.kernels, scale),
            transfers: work::transfers(one, other, scale),
            syncs: work::syncs(one, other, scale),
            memory: memory::Memory::of(one, other),
            findings: findings::Findings::of(one, other, &change),
            change,
        }
    }

    /// Returns the change of the range that is the step, if the steps do not show it: it is beyond its noise, and not by the same share.
    pub fn unseen(&self) -> Option<&Change> {
        let is_beyond = |range: &&Change| matches!(range.verdict, Verdict::Faster | Verdict::Slower);
        self.range.as_ref().filter(is_beyond).filter(|range| rare::differ(range, &self.change))
    }

    /// Says in what the second run is slower by more than so many percent: from step to step; in the range that is the step, unless its
    /// steps follow each other faster than before; or outside of the steps.
    pub fn slower_than(&self, percent: f64) -> Option<String> {
        let is_faster = self.change.verdict == Verdict::Faster;
        let of_steps = [Some(&self.change), self.range.as_ref().filter(|_| !is_faster)];
        let slower = of_steps.into_iter().flatten().find(|change| change.is_slower_than(percent));
        let outside = || self.outside.filter(|outside| 100.0 * outside.share > percent);
        slower.map(|change| change.text.clone()).or_else(|| Some(outside()?.sentence()))
    }

    /// Returns what `--json` prints.
    pub fn json(&self) -> String {
        // The rows have string keys and finite numbers: JSON can hold all of them.
        harmless::json(format!("{:#}\n", serde_json::to_value(self).unwrap_or_default()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slower(before: &Report, after: &Report, percent: f64) -> String {
        let run = |report| Compared { path: "", report, all_steps: 400, is_window: false, is_part: false };
        Diff::of_rows(&run(before), &run(after)).slower_than(percent).unwrap_or_default()
    }

    /// --fail-over passed runs that were slower in what the time from step to step does not show.
    #[test]
    fn a_gate_sees_ranges_and_time_outside_of_the_steps() {
        let request = |ms, step| {
            let mut run = ranges::tests::run(ms, Some(ms));
            run.steps.median_ns = Some(step);
            run
        };
        let of_range = slower(&request(1, 4_000_000), &request(3, 4_000_000), 5.0);
        assert!(of_range.contains("in the NVTX range"), "{of_range}");
        assert_eq!(slower(&request(1, 4_000_000), &request(3, 4_000_000), 250.0), "");
        assert_eq!(
            slower(&request(1, 4_000_000), &request(3, 2_000_000), 5.0),
            "",
            "more at once, and faster"
        );
        let outside = |more| outside::tests::run(8_000_000, 100, more);
        let of_outside = slower(&outside(0), &outside(800_000_000), 5.0);
        assert!(of_outside.starts_with("AFTER takes 800 ms more outside of its steps"), "{of_outside}");
        assert_eq!(slower(&outside(800_000_000), &outside(0), 5.0), "");
    }
}
