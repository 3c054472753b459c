//! Which process a report is about, and how the reports of several processes add up to a run's.

use super::Damage;
use super::devices::{self, DeviceReport};
use super::merge::Merge;
use super::pipeline::{End, Start, Tables};
use super::together::Together;
use crate::model::filter::Filter;
use crate::model::gpu_interval::host;
use crate::model::job::{self, Job};
use crate::model::outcome::Outcome;
use crate::model::period::{self, Period};
use crate::trace::record::Names;
use gpuspy_wire::record::{Fact, Namespace};
use std::borrow::Cow;
use std::sync::Arc;

/// A process and the answers about it.
#[derive(Clone, Debug)]
pub struct ProcessReport {
    /// Which process.
    pub process: ProcessInfo,
    /// The answers.
    pub tables: Tables,
    /// What it and others did, where they were laid on one line ([`together`](super::together)); the same for each of them.
    pub together: Option<Arc<Together>>,
}

/// Which process a report is about, and how its collection went.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessInfo {
    /// Process id; `None` when the trace holds no status.
    pub pid: Option<u32>,
    /// The command line, arguments separated by blanks.
    pub command: Option<String>,
    /// Where the trace was read from.
    pub path: String,
    /// How it ended; `None` when the trace holds no status.
    pub outcome: Option<Outcome>,
    /// Its parent's process id, where the parent is in our namespace.
    pub parent: Option<u32>,
    /// Its place in a job.
    pub job: Job,
    /// UUIDs of the GPUs on which it had a context, as nvidia-smi prints them.
    pub gpus: Vec<String>,
    /// When its collection began: CLOCK_REALTIME, ns.
    pub began_realtime: Option<u64>,
    /// The time that the tables are about.
    pub line: Line,
    /// The ranges that were captured; `None` where all of the run was.
    pub captured: Option<Captured>,
    /// What reading the trace lost.
    pub damage: Damage,
    /// What the tables are limited to, in words; empty where they are about everything.
    pub filter: String,
    /// What the agent wanted readers to know.
    pub notes: Vec<String>,
    /// Clock bounds contradicted each other this often: moments may be less certain than stated.
    pub clock_contradictions: u64,
    /// So many operations lie before their call or after they were seen to be over.
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
            asked: period::asked(names).unwrap_or_default().to_owned(),
            ranges: period.stretches().len() as u64,
        });
        let notes = [Fact::Interception, Fact::TimingNote].into_iter().filter_map(|note| fact(names, note));
        ProcessInfo {
            pid: end.pid,
            command: fact(names, Fact::CommandLine)
                .map(|line| line.trim_end_matches('\0').replace('\0', " ")),
            path,
            outcome: status.map(|status| Outcome::of(status.ending, status.exit)),
            parent: job::parent(names, status),
            job: Job::of(names),
            gpus: devices.iter().filter_map(|device| device.uuid.clone()).collect(),
            began_realtime: status.map(|status| status.began_realtime),
            line: end.line,
            captured,
            damage,
            filter: filter.to_string(),
            notes: notes.map(str::to_owned).collect(),
            clock_contradictions: end.known.clock_contradictions,
            causality_broken: end.known.causality_broken,
        }
    }
}

fn fact(names: &Names, fact: Fact) -> Option<&str> {
    names.get(Namespace::Fact, fact as u32).filter(|text| !text.is_empty())
}

/// The time that a report is about. Of several processes on one line it is from the first begin to the last end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Line {
    /// When the collection began: host ns.
    pub began: u64,
    /// Host ns from the begin to the end of the collection.
    pub wall_ns: u64,
    /// From when to when it is looked at, ns since the collection began: the whole of it, or what is asked for.
    pub period_ns: (u64, u64),
    /// How long that is, ns; of captured ranges, without what lies between them.
    pub looked_ns: u64,
    /// Those ranges are what is looked at (`--capture-range`).
    pub is_captured: bool,
}

impl Line {
    /// Of a collection from the one host ns to the other, of which `period` is looked at.
    pub fn of(began: u64, ended: u64, period: &Period) -> Line {
        let wall_ns = ended.saturating_sub(began);
        let (from, to) = period.ends();
        let in_wall = |moment: i64| (moment.saturating_sub(host(began)).max(0) as u64).min(wall_ns);
        Line {
            began,
            wall_ns,
            period_ns: (in_wall(from), in_wall(to)),
            looked_ns: period.length(host(began), host(ended)),
            is_captured: period.is_span(),
        }
    }

    /// When it ended: host ns.
    pub fn ended(&self) -> u64 {
        self.began.saturating_add(self.wall_ns)
    }
}

/// The part of a run that `--capture-range` asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Captured {
    /// What it said.
    pub asked: String,
    /// How often that came; of a part of the trace, in this part.
    pub ranges: u64,
}

/// Puts the processes of a run in the order in which people look for them: by rank, those without one behind, then by time.
pub fn sort(reports: &mut [ProcessReport]) {
    reports.sort_by_key(|ProcessReport { process, .. }| {
        (process.job.rank.is_none(), process.job.rank, process.began_realtime, process.pid)
    });
}

impl Tables {
    /// The tables of a run: a single process's own, or sums over several. Medians are of all operations. GPUs, gaps and
    /// memory are those of the lines that processes were laid on; what lies on different lines stands side by side.
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
        Cow::Owned(all)
    }
}

/// Whether a process is the first of those that lie on its line.
fn is_first(reports: &[ProcessReport], at: usize) -> bool {
    let is_same = |other: &ProcessReport| match (&other.together, &reports[at].together) {
        (Some(theirs), Some(own)) => Arc::ptr_eq(theirs, own),
        _ => false,
    };
    !reports[..at].iter().any(is_same)
}

/// The lines that the processes of a run lie on, each once.
pub fn lines(reports: &[ProcessReport]) -> impl Iterator<Item = &Line> {
    let firsts = reports.iter().enumerate().filter(|(at, _)| is_first(reports, *at));
    firsts.map(|(_, report)| report.together.as_ref().map_or(&report.process.line, |together| &together.line))
}
