//! Which events, rows, names and arguments does the timeline of a trace have, whatever format it is written in?
//!
//! A format implements [`Sink`]: it is given each row and event, and decides only how they are written.
//!
//! Times:
//!
//! - Times are ns since a base, which is in ns of the real-time clock and is rounded as in PyTorch's Kineto, so that all
//!   files of one run, and of several exports, have the same. They lie on the model's line, so the start and the end of an
//!   operation are host time.
//!
//! Rows and events:
//!
//! - A *row* is what tools draw as a line: a (pid, tid) pair. A process whose pid another one of the file has gets another pid, and
//!   its threads other tids; the labels have those of the system. Nothing on a row overlaps unless it lies inside, because
//!   tools drop events that do. `rows` describes how.
//! - An operation without a GPU time has its call on the host's side and nothing on the GPU's. A graph launch, and a
//!   burst of launches, is one `kernel`: Kineto has no category for either.
//! - Queries in a row (`cudaEventQuery` until it succeeds) are one slice, because they are one record. Its `calls` is
//!   their number, and `ns inside` the time in them.
//! - An NVTX range is a `user_annotation`, and a `gpu_user_annotation` for each stream on which its operations ran,
//!   on a row of its own beside the stream's. `process/ranges.rs` describes the rows. An NVTX marker is an instant.
//! - A range that PyTorch pushed for an operator (`emit_nvtx`) is a `cpu_op` instead, with the operator's name alone; the
//!   calls in it, and what they launched, have its `External id`. `process/operators.rs` describes it.
//! - A function of Python that called CUDA is a `python_function` around its calls. `process/functions.rs` describes it.
//! - Steps that gpuspy found are `user_annotation`s on a row of their own, named as torch.profiler names steps.
//!   `process/steps.rs` describes them.
//! - A synchronization is inside its call, on the host's thread. As in Kineto, it has the call's correlation, and the
//!   device and the stream that was waited for, or -1 for all streams.
//!
//! Numbers:
//!
//! - Streams have the numbers that reports show ([`run`]), which are unique in a file of one rank.
//! - Correlations are renumbered, one per call: they are unique in the file and small enough for any reader.
//!
//! Selection:
//!
//! - With a filter, an event is exported whole if it concerns what is selected and any part of it is in the selected
//!   time. All numbers and times are those of the whole trace.
//! - If ranges were captured, the time in them is selected in the same way; an NVTX range that was open before a
//!   capture range begins with it.
//! - What a trace does not contain is left out. `est. achieved occupancy %` is computed as in Kineto; it is not a
//!   measurement. `cbid` is 0, which is CUPTI's invalid one.
//!
//! Memory grows with the number of threads, streams and different kernels, not with the length of the trace.

mod layout;
mod process;
mod rows;
mod scene;
pub mod sink;
mod thread_row;

#[cfg(test)]
pub(super) mod given;

use crate::analyze::reading::Reading;
use crate::hash::HashMap;
use crate::model::callers::Callers;
use crate::model::clocks::Clocks;
use crate::model::filter::Filter;
use crate::model::gpu_interval::host;
use crate::model::job::Job;
use crate::model::period;
use crate::model::run::{self, Machine, Surveyed};
use crate::model::survey::Survey;
use crate::trace::record::{Names, Record, Status};
use gpuspy_wire::record::{Fact, Namespace};
use layout::{Layout, ProcessRows};
pub use process::WARP;
use scene::Scene;
use sink::{Group, Header, JobOfFile, NamedGpu, NamedRow, Row, RowKind, Sink};
use std::collections::BTreeMap;
use std::io;

/// What is known of a process after the first pass over its trace.
#[derive(Debug)]
pub struct Source {
    names: Names,
    status: Option<Status>,
    clocks: Clocks,
    scene: Scene,
    place: InRun,
}

/// How a process relates to the others of its run.
#[derive(Clone, Debug, Default)]
struct InRun {
    /// The real-time clock at time 0 of a file, ns: the same for all files of a run.
    base: i128,
    /// Host ns of that moment.
    zero: i64,
    /// What is selected of the process.
    filter: Filter,
}

/// Kineto's baseTimeNanoseconds is the real time rounded down to a multiple of this (libkineto,
/// `ChromeTraceBaseTime`: intervals of 7 889 238 s, about three months), so that files that were written separately
/// can be compared. Times are still exact to the ns in a double.
const BASE_NS: i128 = 7_889_238 * 1_000_000_000;

/// Gives the processes of a run one base, one time line for each machine, and the numbers of their streams, whichever
/// of them share a file. Only what `filter` selects will be exported.
pub fn lay_out(run: &mut [&mut Source], filter: &Filter) {
    let surveyed: Vec<Surveyed<'_>> = run.iter().map(|source| source.surveyed()).collect();
    let filters = run::filters(&surveyed, filter);
    // The real time minus the host's time is one number for each machine, from its first process with a status.
    let real = |status: &Status| i128::from(status.began_realtime) - i128::from(host(status.began));
    let mut machines: HashMap<Machine, i128> = HashMap::default();
    for process in &surveyed {
        if let Some(status) = process.status {
            machines.entry(process.machine()).or_insert_with(|| real(status));
        }
    }
    let began =
        surveyed.iter().filter_map(|process| process.status).map(|status| status.began_realtime).min();
    let base = began.map_or(0, |began| i128::from(began) / BASE_NS * BASE_NS);
    let earliest = surveyed.iter().filter_map(|process| process.clocks.earliest).min().map_or(0, host);
    let zeros: Vec<i64> = surveyed
        .iter()
        // Without a status, the real time is unknown, and the first call is at 0.
        .map(|process| machines.get(&process.machine()).map_or(earliest, |real| (base - real) as i64))
        .collect();
    for ((source, filter), zero) in run.iter_mut().zip(filters).zip(zeros) {
        source.place = InRun { base, zero, filter };
    }
}

impl Source {
    /// Makes the first pass over a trace: `each` calls a function with each of its records.
    pub fn of(names: Names, status: Option<Status>, each: impl FnOnce(&mut dyn FnMut(&Record))) -> Source {
        let (mut survey, mut scene) = (Survey::of_steps(&names), Scene::default());
        each(&mut |record| {
            survey.observe(record);
            scene.observe(record);
        });
        Source { names, status, clocks: survey.finish(), scene, place: InRun::default() }
    }

    /// Finds out which lines the calls come from, by a function that gives the callers their stacks.
    pub fn resolve(&mut self, by: impl FnOnce(&mut Callers, &mut Names, Option<&Status>)) {
        by(&mut self.clocks.callers, &mut self.names, self.status.as_ref());
    }

    pub(super) fn surveyed(&self) -> Surveyed<'_> {
        Surveyed { names: &self.names, status: self.status.as_ref(), clocks: &self.clocks }
    }

    /// Returns what the trace contains, and the filter that [`lay_out`] gave it.
    pub fn contents(&self) -> (&Names, Option<&Status>, &Clocks, &Filter) {
        (&self.names, self.status.as_ref(), &self.clocks, &self.place.filter)
    }

    /// Its process's place in a job.
    pub fn job(&self) -> Job {
        Job::of(&self.names)
    }

    /// The ranges that were to be captured of its process; `None` for the whole run.
    pub fn captured(&self) -> Option<&str> {
        period::requested(&self.names)
    }

    /// Its process's id, if the trace has a status.
    pub fn pid(&self) -> Option<u32> {
        self.status.as_ref().map(|status| status.pid)
    }

    /// The name of its machine, if the trace has one.
    pub fn host(&self) -> Option<&str> {
        self.names.get(Namespace::Fact, Fact::Host as u32).filter(|host| !host.is_empty())
    }

    /// The machine whose clock and process ids it has.
    pub fn machine(&self) -> Machine {
        self.surveyed().machine()
    }

    /// CLOCK_REALTIME at which its collection began, ns; 0 without a status.
    pub fn began(&self) -> u64 {
        self.status.as_ref().map_or(0, |status| status.began_realtime)
    }

    /// Whether an NCCL kernel was launched. All of them have names that begin like this (ncclDevKernel_…,
    /// ncclKernel_…).
    fn uses_nccl(&self) -> bool {
        let is_nccl = |(&(namespace, _), name): (&(Namespace, u32), &String)| {
            namespace == Namespace::Kernel && name.starts_with("nccl")
        };
        self.names.0.iter().any(is_nccl)
    }

    /// The program's name: that of its file.
    fn program(&self) -> &str {
        let fact = |fact: Fact| self.names.get(Namespace::Fact, fact as u32);
        let path = fact(Fact::Executable).or_else(|| fact(Fact::CommandLine)?.split('\0').next());
        let name = path.and_then(|path| path.rsplit('/').next());
        name.filter(|name| !name.is_empty()).unwrap_or("(unknown program)")
    }
}

/// What an export contains.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// The number of API calls, including all queries in a row, which share one event.
    pub calls: u64,
    /// The number of operations on a GPU's row.
    pub operations: u64,
    /// Executed operations that are on no GPU row, by reason.
    pub untimed: BTreeMap<&'static str, u64>,
    /// The number of operations that became nodes of a graph instead of being executed.
    pub captured: u64,
    /// The number of NVTX ranges, on the host and on each stream of a GPU, of markers, and of steps that were found.
    pub annotations: u64,
    /// The number of ranges that are operators of PyTorch's.
    pub operators: u64,
    /// The number of functions of Python around calls.
    pub functions: u64,
    /// The number of changes of the device memory that is held.
    pub memory_events: u64,
}

impl Summary {
    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        *self == Summary::default()
    }

    /// Adds another summary.
    pub fn add(&mut self, other: &Summary) {
        self.calls += other.calls;
        self.operations += other.operations;
        self.captured += other.captured;
        self.annotations += other.annotations;
        self.operators += other.operators;
        self.functions += other.functions;
        self.memory_events += other.memory_events;
        for (why, count) in &other.untimed {
            *self.untimed.entry(why).or_default() += count;
        }
    }
}

/// An export that is being written.
#[derive(Debug)]
pub struct Export<S> {
    sink: S,
    layout: Layout,
    correlations: u64,
    /// How many operators of PyTorch's have a number (`External id`).
    operators: u64,
    has_steps: bool,
    has_functions: bool,
    summary: Summary,
}

impl<S: Sink> Export<S> {
    /// Writes what comes before the events of all processes, after [`lay_out`].
    ///
    /// # Errors
    /// Fails if writing does.
    pub fn begin(mut sink: S, sources: &[Source]) -> io::Result<Export<S>> {
        let layout = Layout::of(sources);
        let mut gpus = Vec::new();
        for (source, process) in sources.iter().zip(&layout.processes) {
            gpus.extend(process.gpus.iter().map(|(ordinal, number)| named_gpu(source, *ordinal, *number)));
        }
        let began = sources.first().map_or(0, Source::began);
        sink.begin(&Header { base: layout.base, began, job: job_of_file(sources), gpus })?;
        for (source, process) in sources.iter().zip(&layout.processes) {
            name_rows(&mut sink, source, process)?;
        }
        Ok(Export {
            sink,
            layout,
            correlations: 0,
            operators: 0,
            has_steps: true,
            has_functions: true,
            summary: Summary::default(),
        })
    }

    /// Leaves out the steps that gpuspy found.
    pub fn without_steps(self) -> Export<S> {
        Export { has_steps: false, ..self }
    }

    /// Leaves out the functions of Python.
    pub fn without_functions(self) -> Export<S> {
        Export { has_functions: false, ..self }
    }

    /// Makes the second pass over a trace and writes its process's events; `index` is its place in the `sources` that
    /// the export began with.
    ///
    /// # Errors
    /// Fails if writing does.
    pub fn process(
        &mut self,
        index: usize,
        source: &Source,
        records: impl Iterator<Item = Record> + Send,
    ) -> io::Result<()> {
        let (names, status, clocks, filter) = source.contents();
        let mut reading = Reading::new(names, status, clocks, filter);
        let mut pass = process::Pass::new(self, source, index, reading.period().clone());
        reading.ahead(records, |batches| {
            for batch in batches {
                batch.events().try_for_each(|(event, scope)| pass.observe(event, &scope))?;
            }
            Ok::<(), io::Error>(())
        })?;
        pass.finish()
    }

    /// Writes the end, with the numbers of operations that no row shows.
    ///
    /// # Errors
    /// Fails if writing does.
    pub fn finish(self) -> io::Result<(S::Out, Summary)> {
        let out = self.sink.finish(&self.summary)?;
        Ok((out, self.summary))
    }
}

/// A file's place in a job, if all processes of the file have the same.
fn job_of_file(sources: &[Source]) -> Option<JobOfFile> {
    let job = sources.first().map_or_else(Job::default, Source::job);
    let rank = job.rank.filter(|rank| sources.iter().all(|other| other.job().rank == Some(*rank)))?;
    Some(JobOfFile { rank, world_size: job.world_size, uses_nccl: sources.iter().any(Source::uses_nccl) })
}

fn named_gpu(source: &Source, ordinal: Option<u32>, number: u32) -> NamedGpu<'_> {
    let id = ordinal.and_then(|ordinal| ordinal.checked_add(1));
    let name = id.and_then(|id| source.names.get(Namespace::Device, id));
    let device = ordinal.and_then(|ordinal| source.scene.devices.get(&ordinal));
    NamedGpu { number, ordinal, name, device }
}

/// Names the rows of a process that are known before its events.
fn name_rows(sink: &mut impl Sink, source: &Source, process: &ProcessRows) -> io::Result<()> {
    let filter = &source.place.filter;
    let has_device = |ordinal: Option<u32>| filter.is_of_device(ordinal);
    let (pid, program) = (process.pid, source.program());
    let known_as = process.real_pid.map(|real| match source.host() {
        Some(host) => format!("pid {real} on {host}"),
        None => format!("pid {real}"),
    });
    let (rank, known_as) = (source.job().rank, known_as.as_deref());
    sink.group(&Group::Process { pid, program, rank, known_as })?;
    for thread in &source.scene.threads {
        let tid = process.tid(*thread);
        let name = source.names.get(Namespace::Thread, *thread).unwrap_or(program);
        let name = &format!("thread {} ({name})", process.real_tid(*thread));
        sink.row(&NamedRow { row: Row { pid, tid }, name, kind: RowKind::Thread })?;
    }
    for (ordinal, number) in process.gpus.iter().filter(|(ordinal, _)| has_device(**ordinal)) {
        sink.group(&Group::Gpu { pid, program, rank, gpu: named_gpu(source, *ordinal, *number) })?;
    }
    for stream in &source.scene.streams {
        let Some(place) = process.streams.get(&stream.key()) else { continue };
        let row = place.row;
        let is_asked_for = filter.streams.is_empty() || filter.streams.contains(&u64::from(row));
        if !is_asked_for || !has_device(source.clocks.devices.get(&stream.context).copied()) {
            continue;
        }
        let name = &format!("stream {row} ");
        sink.row(&NamedRow { row: place.shown(), name, kind: RowKind::Stream })?;
    }
    Ok(())
}
