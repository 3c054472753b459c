//! Which process a report is about, and how the reports of several processes add up to a run's.

use super::Damage;
use super::analysis::{End, Line, Start};
use super::bins::Bins;
use super::devices::DeviceReport;
use super::gaps::LARGEST;
use super::gaps::rows::GapReport;
use super::idle::IdleReport;
use super::merge::Merge;
use super::pipeline::Tables;
use super::together::Together;
use crate::model::filter::Filter;
use crate::model::framework::Framework;
use crate::model::hangs::Hang;
use crate::model::job::{self, Job};
use crate::model::outcome::Outcome;
use crate::model::period::{self};
use crate::model::run::{self, ProcessId};
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
    /// The tables of the [line](mod@super::together) that it shares with other processes of its machine; the same for
    /// each of them.
    pub together: Option<Arc<Together>>,
    /// The number of findings about it alone, if its tables were [reduced](ProcessReport::reduce).
    pub findings: Option<u64>,
}

/// Which process a report is about, and how its collection went.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessInfo {
    /// Its process id; `None` if the trace has no status.
    pub pid: Option<u32>,
    /// Which process it is; `None` if the trace has no status.
    pub id: Option<ProcessId>,
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
    /// The path of the trace; of several windows, that of the first.
    pub path: String,
    /// Where it is damaged, if it is: the path, or of several windows which of them are.
    pub damaged: String,
    /// How it ended; `None` if the trace has no status.
    pub outcome: Option<Outcome>,
    /// Its parent's process id, if the parent is in our pid namespace.
    pub parent: Option<u32>,
    /// The name of its machine; `None` if it is not known.
    pub host: Option<String>,
    /// Its place in a job.
    pub job: Job,
    /// How many windows of the same process came before the first one that the report is about; `None` if it is about the whole run.
    pub window: Option<u64>,
    /// How many traces were read as one: those of successive windows, or one.
    pub windows: u64,
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
    /// Whether the filter selects a part of what a GPU did at one time.
    pub divides_a_gpu: bool,
    /// Whether the filter selects ranks, so that others are left out.
    pub selects_ranks: bool,
    /// Whether its environment let every launch wait for its kernel (CUDA_LAUNCH_BLOCKING).
    pub launch_blocking: bool,
    /// Notes for the reader, most of them the agent's.
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
        let outcome = status.map(|status| match Outcome::of(status.ending, status.exit) {
            // The last status is from before the cut.
            Outcome::Running if damage.unfinished || damage.cut => Outcome::CutOff,
            outcome => outcome,
        });
        let requested = period::requested(names).unwrap_or_default();
        let captured = period
            .is_span()
            .then(|| Captured { requested: requested.to_owned(), ranges: period.stretches().len() as u64 });
        let notes =
            [Fact::EndNote, Fact::Interception, Fact::TimingNote, Fact::StacksNote, Fact::CollectorNote];
        let notes = notes.into_iter().filter_map(|note| fact(names, note));
        let launch_blocking = job::is_set(names, "CUDA_LAUNCH_BLOCKING");
        let line = fact(names, Fact::CommandLine);
        let arguments = line.map_or(Vec::new(), words);
        let launch = fact(names, Fact::Launch).map_or(Vec::new(), words);
        let hangs = status.into_iter().flat_map(|status| &status.hangs);
        ProcessInfo {
            pid: end.pid,
            id: ProcessId::of(names, status),
            command: line.map(|line| line.trim_end_matches('\0').replace('\0', " ")),
            framework: Framework::of(end.known.modules.paths(names)),
            arguments,
            launch,
            driver_version: fact(names, Fact::DriverVersion).and_then(|text| text.parse().ok()),
            damaged: path.clone(),
            path,
            outcome,
            parent: job::parent(names, status),
            host: fact(names, Fact::Host).map(str::to_owned),
            job: Job::of(names),
            window: period::window(names),
            windows: 1,
            gpus: devices.iter().filter_map(|device| device.uuid.clone()).collect(),
            began_realtime: status.map(|status| status.began_realtime),
            line: end.line,
            captured,
            damage,
            filter: filter.to_string(),
            divides_a_gpu: filter.divides_a_gpu(),
            selects_ranks: !filter.ranks.is_empty(),
            launch_blocking,
            notes: notes.chain(launch_blocking.then_some(BLOCKING)).map(str::to_owned).collect(),
            hangs: hangs.map(|hang| Hang::of(hang, names)).collect(),
            clock_contradictions: end.known.clock_contradictions,
            causality_broken: end.known.causality_broken,
        }
    }
}

/// The note of a process with [`launch_blocking`](ProcessInfo::launch_blocking).
const BLOCKING: &str =
    "CUDA_LAUNCH_BLOCKING was set: every launch waited for its kernel. Unset it and run again.";

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

/// Returns the [processes](run::processes) that reports are about.
pub fn processes(reports: &[ProcessReport]) -> Vec<Vec<usize>> {
    run::processes(reports.iter().map(|report| report.process.id.as_ref()))
}

impl Tables {
    /// Returns the tables of a run: a single process's own, or the sums over several. Medians are of all operations.
    /// Devices, gaps and memory are those of the lines that the processes share; those of different lines are added.
    pub fn of_run(reports: &[ProcessReport]) -> Cow<'_, Tables> {
        if let [only] = reports {
            return Cow::Borrowed(&only.tables);
        }
        let mut sum = RunSum::default();
        reports.iter().for_each(|report| sum.add_process(report));
        sum.add_lines(reports);
        Cow::Owned(sum.finish())
    }
}

/// The tables of a run of several processes, which are added line by line, so that the tables of each are needed only until
/// they are added.
#[derive(Debug, Default)]
pub struct RunSum {
    all: Tables,
    has_process: bool,
    has_line: bool,
}

impl RunSum {
    /// Adds what a process did, but for what it shares with others of its machine.
    pub fn add_process(&mut self, report: &ProcessReport) {
        let timing = report.tables.duty.timing;
        let is_same = !self.has_process || self.all.duty.timing == timing;
        self.has_process = true;
        self.all.add(&report.tables);
        self.all.duty.timing = timing.filter(|_| is_same);
    }

    /// Adds the devices, the gaps and the memory of processes: all those of a [line](mod@super::together), or of several.
    pub fn add_lines(&mut self, reports: &[ProcessReport]) {
        let firsts = reports.iter().enumerate().filter(|(at, _)| is_first(reports, *at));
        for (_, report) in firsts {
            let is_first_of_run = !self.has_line;
            self.has_line = true;
            let (devices, memory) = match &report.together {
                Some(together) => (&together.devices, &together.memory),
                None => (&report.tables.devices, &report.tables.memory),
            };
            for device in devices {
                self.all.gaps.merge(&device.gaps);
                self.all.idle.merge(&device.idle);
            }
            self.all.devices.extend(devices.iter().map(DeviceReport::without_gaps));
            if is_first_of_run {
                self.all.memory = memory.clone();
            } else {
                self.all.memory.merge(memory);
            }
        }
    }

    /// Returns the tables of the run.
    pub fn finish(mut self) -> Tables {
        self.all.fit_lines();
        self.all
    }
}

impl ProcessReport {
    /// Drops what the report of a run does not say of each of its processes, once it is [added](RunSum::add_process) to the tables
    /// of the run. Of its collectives, at most `arrivals` are kept, and `findings` is how many findings there are about it alone.
    pub fn reduce(&mut self, findings: u64, arrivals: usize) {
        let Tables {
            coverage, steps, memory, mut collectives, last_work, mut devices, mut gaps, idle, ..
        } = std::mem::take(&mut self.tables);
        collectives.thin(arrivals);
        let of_devices = devices.iter_mut().map(|device| &mut device.gaps);
        of_devices.chain([&mut gaps]).for_each(|gaps| gaps.largest.truncate(LARGEST));
        self.tables = Tables {
            coverage,
            steps,
            memory,
            collectives,
            last_work,
            devices,
            gaps,
            idle,
            ..Tables::default()
        };
        self.findings = Some(findings);
    }

    /// Drops the same of its devices, which the line that it shares with others is made from.
    fn reduce_devices(&mut self) {
        let Tables { devices, gaps, idle, .. } = &mut self.tables;
        *gaps = GapReport::default();
        *idle = IdleReport { by_cause: std::mem::take(&mut idle.by_cause), ..IdleReport::default() };
        for device in devices {
            *device = DeviceReport { bins: Bins::default(), ..device.without_gaps() };
        }
    }
}

/// Drops what the report of a run does not say of the devices of each process, and what processes of a line share but its time, once it
/// is [added](RunSum::add_lines) to the tables of the run.
pub fn reduce_line(reports: &mut [ProcessReport]) {
    reports.iter_mut().for_each(ProcessReport::reduce_devices);
    let Some(line) = reports.iter().find_map(|report| report.together.clone()) else { return };
    let reduced = Arc::new(Together { line: line.line, ..Together::default() });
    let shared = reports.iter_mut().filter_map(|report| report.together.as_mut());
    shared.filter(|own| Arc::ptr_eq(own, &line)).for_each(|own| *own = Arc::clone(&reduced));
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
