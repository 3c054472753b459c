//! Which process a report is about, and how the reports of several processes add up to a run's.

use super::Damage;
use super::analysis::{End, Line, Start};
use super::devices::{self, DeviceReport};
use super::merge::Merge;
use super::pipeline::Tables;
use super::together::Together;
use crate::model::filter::Filter;
use crate::model::framework::Framework;
use crate::model::hangs::Hang;
use crate::model::job::{self, Job};
use crate::model::outcome::Outcome;
use crate::model::period::{self};
use crate::trace::record::Names;
use gpuspy_wire::record::{Fact, Namespace};
use std::borrow::Cow;
use std::sync::Arc;

/// A process and its tables.
#[derive(Clone, Debug)]
pub struct ProcessReport {
    /// Which process.
    pub process: ProcessInfo,
    /// The answers.
    pub tables: Tables,
    /// The tables of the [line](super::together) that it shares with other processes of its machine; the same for
    /// each of them.
    pub together: Option<Arc<Together>>,
}

/// Which process a report is about, and how its collection went.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessInfo {
    /// Its process id; `None` if the trace has no status.
    pub pid: Option<u32>,
    /// Its command line, arguments separated by blanks.
    pub command: Option<String>,
    /// What it calls CUDA through.
    pub framework: Framework,
    /// The same, each argument for itself; empty if it is not known.
    pub arguments: Vec<String>,
    /// The words after `gpuspy run` that record the run again; empty if it was recorded otherwise.
    pub launch: Vec<String>,
    /// The version of the CUDA driver, as cuDriverGetVersion returns it: 1000 times the major version and ten times the
    /// minor one.
    pub driver_version: Option<u32>,
    /// The path of the trace.
    pub path: String,
    /// How it ended; `None` if the trace has no status.
    pub outcome: Option<Outcome>,
    /// Its parent's process id, if the parent is in our pid namespace.
    pub parent: Option<u32>,
    /// Its place in a job.
    pub job: Job,
    /// The UUIDs of the GPUs on which it had a context, as nvidia-smi prints them.
    pub gpus: Vec<String>,
    /// When its collection began: CLOCK_REALTIME, ns.
    pub began_realtime: Option<u64>,
    /// The time that the tables are about.
    pub line: Line,
    /// The capture ranges; `None` if all of the run was recorded.
    pub captured: Option<Captured>,
    /// What reading the trace lost.
    pub damage: Damage,
    /// The filter in words; empty if everything passes.
    pub filter: String,
    /// Notes of the agent for the reader.
    pub notes: Vec<String>,
    /// What hung.
    pub hangs: Vec<Hang>,
    /// How often clock bounds contradicted each other: then times may be less certain than stated.
    pub clock_contradictions: u64,
    /// Operations that the line puts before their call, or after they were found completed.
    pub causality_broken: u64,
}

impl ProcessInfo {
    /// Describes a process that used these devices.
    pub(super) fn of(
        path: String,
        filter: &Filter,
        start: &Start<'_>,
        end: &End<'_>,
        devices: &[DeviceReport],
    ) -> ProcessInfo {
        let Start { names, status, damage, ref period, .. } = *start;
        let captured = period.is_span().then(|| Captured {
            requested: period::requested(names).unwrap_or_default().to_owned(),
            ranges: period.stretches().len() as u64,
        });
        let notes = [Fact::EndNote, Fact::Interception, Fact::TimingNote, Fact::StacksNote]
            .into_iter()
            .filter_map(|note| fact(names, note));
        let line = fact(names, Fact::CommandLine);
        let arguments = line.map_or(Vec::new(), words);
        let launch = fact(names, Fact::Launch).map_or(Vec::new(), words);
        let hangs = status.into_iter().flat_map(|status| &status.hangs);
        ProcessInfo {
            pid: end.pid,
            command: line.map(|line| line.trim_end_matches('\0').replace('\0', " ")),
            framework: Framework::of(end.known.modules.paths(names)),
            arguments,
            launch,
            driver_version: fact(names, Fact::DriverVersion).and_then(|text| text.parse().ok()),
            path,
            outcome: status.map(|status| match Outcome::of(status.ending, status.exit) {
                // The last status is from before the cut.
                Outcome::Running if damage.unfinished || damage.cut => Outcome::CutOff,
                outcome => outcome,
            }),
            parent: job::parent(names, status),
            job: Job::of(names),
            gpus: devices.iter().filter_map(|device| device.uuid.clone()).collect(),
            began_realtime: status.map(|status| status.began_realtime),
            line: end.line,
            captured,
            damage,
            filter: filter.to_string(),
            notes: notes.map(str::to_owned).collect(),
            hangs: hangs.map(|hang| Hang::of(hang, names)).collect(),
            clock_contradictions: end.known.clock_contradictions,
            causality_broken: end.known.causality_broken,
        }
    }
}

/// Returns words each of which ends with a NUL; the last one may be empty.
fn words(text: &str) -> Vec<String> {
    text.strip_suffix('\0').unwrap_or(text).split('\0').map(str::to_owned).collect()
}

fn fact(names: &Names, fact: Fact) -> Option<&str> {
    names.get(Namespace::Fact, fact as u32).filter(|text| !text.is_empty())
}

/// The part of a run that `--capture-range` selected.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Captured {
    /// The option's argument.
    pub requested: String,
    /// How many ranges of that kind were captured, in the selected part of the trace.
    pub ranges: u64,
}

/// Sorts the processes of a run by rank, those without a rank last, and then by time.
pub fn sort(reports: &mut [ProcessReport]) {
    reports.sort_by_key(|ProcessReport { process, .. }| {
        (process.job.rank.is_none(), process.job.rank, process.began_realtime, process.pid)
    });
}

impl Tables {
    /// Returns the tables of a run: a single process's own, or the sums over several. Medians are of all operations.
    /// Devices, gaps and memory are those of the lines that the processes share; those of different lines are added.
    pub fn of_run(reports: &[ProcessReport]) -> Cow<'_, Tables> {
        if let [only] = reports {
            return Cow::Borrowed(&only.tables);
        }
        let timing = reports.first().and_then(|report| report.tables.duty.timing);
        let is_same = |report: &ProcessReport| report.tables.duty.timing == timing;
        let mut all = Tables::default();
        all.duty.timing = timing.filter(|_| reports.iter().all(is_same));
        for report in reports {
            all.add(&report.tables);
        }
        for (at, report) in reports.iter().enumerate().filter(|(at, _)| is_first(reports, *at)) {
            match &report.together {
                Some(together) => {
                    all.devices.extend(together.devices.iter().cloned());
                    if at == 0 {
                        all.memory = together.memory.clone();
                    } else {
                        all.memory.merge(&together.memory);
                    }
                }
                None => {
                    all.devices.extend(report.tables.devices.iter().cloned());
                    all.memory.merge(&report.tables.memory);
                }
            }
        }
        all.gaps = devices::gaps(&all.devices);
        all.idle = devices::idle(&all.devices);
        all.fit_lines();
        Cow::Owned(all)
    }
}

/// Whether a process is the first one on its line.
fn is_first(reports: &[ProcessReport], at: usize) -> bool {
    let is_same = |other: &ProcessReport| match (&other.together, &reports[at].together) {
        (Some(theirs), Some(own)) => Arc::ptr_eq(theirs, own),
        _ => false,
    };
    !reports[..at].iter().any(is_same)
}

/// Returns the lines of the processes of a run, each once.
pub fn lines(reports: &[ProcessReport]) -> impl Iterator<Item = &Line> {
    let firsts = reports.iter().enumerate().filter(|(at, _)| is_first(reports, *at));
    firsts.map(|(_, report)| report.together.as_ref().map_or(&report.process.line, |together| &together.line))
}
