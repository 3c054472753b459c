//! The Chrome trace format, in the dialect of PyTorch's Kineto: Perfetto, chrome://tracing and HTA read it.
//!
//! - Moments are µs with three decimals since `baseTimeNanoseconds` (ns of the real-time clock, rounded as Kineto does, so that
//!   files of one run, and of several exports, have the same); they lie on the model's line, so `ts` and `dur` of an operation are ns
//!   of the host.
//! - A *row* is what these tools draw as a line: a (pid, tid) pair. Nothing on a row overlaps: Perfetto drops what
//!   does. `rows` says how.
//! - An operation without a GPU time has its call on the host's side and nothing on the GPU's. A graph launch, and a burst
//!   of launches, is one `kernel`: Kineto has no category for either, and HTA counts as idle what is none of `kernel`,
//!   `gpu_memcpy` and `gpu_memset`.
//! - Questions in a row (`cudaEventQuery` until it says yes) are one slice with their number in `calls` and the time in them in `ns
//!   inside`: they are one record.
//! - A range of the program's (NVTX) is a `user_annotation`, and a `gpu_user_annotation` for each stream on which something of it
//!   ran: on a row of its own beside the stream's, without `args.stream`. `process/ranges.rs` says which row. A mark is an instant.
//! - A synchronise stands inside its call, on the host's thread. It has the call's correlation, the device and the stream that was
//!   waited for, -1 where it was all of them, as Kineto has it: HTA joins what has no correlation with all else that has none.
//! - The stream numbers are those of reports ([`run`](crate::model::run)), unique in a file of one rank, because HTA tells GPU
//!   rows apart by nothing else.
//! - Correlations are counted anew, one per call: they are unique in the file and small enough for any reader.
//! - `distributedInfo` tells the rank, if all processes of the file have the same: HTA tells files apart by it, and wants the
//!   blank behind the colon. Its backend is NCCL where a kernel of NCCL's was launched, and otherwise unknown.
//! - With a filter, a row is there if it concerns what is asked for and any part of it lies in the time asked for; then it is
//!   there whole. All numbers and moments are those of the whole trace.
//! - Where ranges were captured, it is so with the time in them; a range of the program's that was open before begins with them.
//! - What a trace does not know is left out. `est. achieved occupancy %` is reckoned as Kineto's own is: nothing is measured.
//!   `cbid` is 0, CUPTI's invalid one.
//!
//! Memory does not grow with the trace, but with the number of its threads, streams and different kernels.

mod json;
mod layout;
mod process;
mod rows;
mod scene;

use crate::model::filter::Filter;
use crate::model::gpu_clock::Clocks;
use crate::model::gpu_interval::host;
use crate::model::job::Job;
use crate::model::period;
use crate::model::run::{self, Machine, Told};
use crate::model::survey::Survey;
use crate::trace::record::{Names, Record, Status};
use gpuspy_wire::record::{Fact, Namespace};
use json::Text;
use layout::Layout;
use scene::Scene;
use std::collections::{BTreeMap, HashMap};
use std::io::{self, Write};

/// What is known of a process after the first pass over its trace.
#[derive(Debug)]
pub struct Source {
    names: Names,
    status: Option<Status>,
    clocks: Clocks,
    scene: Scene,
    place: InRun,
}

/// What a process has in common with the others of its run, or by itself.
#[derive(Clone, Debug, Default)]
struct InRun {
    /// The real-time clock at the moment that is 0 in a file, ns: one for all files of a run.
    base: i128,
    /// Host ns of that moment.
    zero: i64,
    /// What of the process is asked for.
    filter: Filter,
}

/// Kineto's baseTimeNanoseconds is the real time, rounded down to a multiple of this (libkineto, `ChromeTraceBaseTime`: intervals of
/// 7 889 238 s, about three months), so that moments of files which were written apart can be compared. Moments still
/// fit a double to the ns.
const BASE_NS: i128 = 7_889_238 * 1_000_000_000;

/// Gives the processes of a run one base, one line for each machine, and the numbers of their streams: whichever of them share a
/// file. Of each only what `filter` asks for is exported.
pub fn lay_out(run: &mut [&mut Source], filter: &Filter) {
    let told: Vec<Told<'_>> = run.iter().map(|source| source.told()).collect();
    let filters = run::asked(&told, filter);
    // The real time less the host's is one for each machine: by its first process that tells it.
    let real = |status: &Status| i128::from(status.began_realtime) - i128::from(host(status.began));
    let mut machines: HashMap<Machine, i128> = HashMap::new();
    for told in &told {
        if let Some(status) = told.status {
            machines.entry(told.machine()).or_insert_with(|| real(status));
        }
    }
    let began = told.iter().filter_map(|told| told.status).map(|status| status.began_realtime).min();
    let base = began.map_or(0, |began| i128::from(began) / BASE_NS * BASE_NS);
    let earliest = told.iter().filter_map(|told| told.clocks.earliest).min().map_or(0, host);
    let zeros: Vec<i64> = told
        .iter()
        // Without a status nobody knows the real time: then the first call is at 0.
        .map(|told| machines.get(&told.machine()).map_or(earliest, |real| (base - real) as i64))
        .collect();
    for ((source, filter), zero) in run.iter_mut().zip(filters).zip(zeros) {
        source.place = InRun { base, zero, filter };
    }
}

impl Source {
    /// The first pass.
    pub fn of(names: Names, status: Option<Status>, records: impl IntoIterator<Item = Record>) -> Source {
        let (mut survey, mut scene) = (Survey::default(), Scene::default());
        for record in records {
            survey.observe(&record);
            scene.observe(&record);
        }
        Source { names, status, clocks: survey.finish(), scene, place: InRun::default() }
    }

    fn told(&self) -> Told<'_> {
        Told { names: &self.names, status: self.status.as_ref(), clocks: &self.clocks }
    }

    /// Returns what the trace contains, and the filter that [`lay_out`] gave it.
    pub fn contents(&self) -> (&Names, Option<&Status>, &Clocks, &Filter) {
        (&self.names, self.status.as_ref(), &self.clocks, &self.place.filter)
    }

    /// Its process's place in a job.
    pub fn job(&self) -> Job {
        Job::of(&self.names)
    }

    /// Which ranges of its process were to be captured; `None` = all of the run.
    pub fn captured(&self) -> Option<&str> {
        period::asked(&self.names)
    }

    /// Its process's id, where the trace holds a status.
    pub fn pid(&self) -> Option<u32> {
        self.status.as_ref().map(|status| status.pid)
    }

    /// CLOCK_REALTIME at which its collection began, ns; 0 without a status.
    pub fn began(&self) -> u64 {
        self.status.as_ref().map_or(0, |status| status.began_realtime)
    }

    /// A kernel of NCCL's was launched. All of them are called so (ncclDevKernel_…, ncclKernel_…).
    fn uses_nccl(&self) -> bool {
        let is_nccl = |(&(namespace, _), name): (&(Namespace, u32), &String)| {
            namespace == Namespace::Kernel && name.starts_with("nccl")
        };
        self.names.0.iter().any(is_nccl)
    }

    /// The program's name: its file's.
    fn program(&self) -> &str {
        let fact = |fact: Fact| self.names.get(Namespace::Fact, fact as u32);
        let path = fact(Fact::Executable).or_else(|| fact(Fact::CommandLine)?.split('\0').next());
        let name = path.and_then(|path| path.rsplit('/').next());
        name.filter(|name| !name.is_empty()).unwrap_or("(unknown program)")
    }
}

/// What an export holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// API calls; questions in a row are one event and count each.
    pub calls: u64,
    /// Operations on a row of a GPU.
    pub operations: u64,
    /// Executed operations that are on none, by reason.
    pub untimed: BTreeMap<&'static str, u64>,
    /// Work that became a node of a graph instead of being executed.
    pub captured: u64,
    /// Ranges, on the host and on each stream of a GPU, and marks.
    pub annotations: u64,
    /// Changes of the device memory that is held.
    pub memory_events: u64,
}

impl Summary {
    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        *self == Summary::default()
    }

    /// Adds another's.
    pub fn add(&mut self, other: &Summary) {
        self.calls += other.calls;
        self.operations += other.operations;
        self.captured += other.captured;
        self.annotations += other.annotations;
        self.memory_events += other.memory_events;
        for (why, count) in &other.untimed {
            *self.untimed.entry(why).or_default() += count;
        }
    }
}

/// An export that is being written.
#[derive(Debug)]
pub struct Export<W> {
    out: Events<W>,
    layout: Layout,
    correlations: u64,
    summary: Summary,
}

impl<W: Write> Export<W> {
    /// Writes what stands before the events of the trace, of all its processes, which [`lay_out`] has seen. Metadata comes first: HTA takes an event in
    /// the first place of all for one without a correlation.
    ///
    /// # Errors
    /// Of writing.
    pub fn begin(mut out: W, sources: &[Source]) -> io::Result<Export<W>> {
        let layout = Layout::of(sources);
        writeln!(
            out,
            "{{\n\"schemaVersion\": 1,\n\"displayTimeUnit\": \"ms\",\n\"baseTimeNanoseconds\": {},",
            layout.base
        )?;
        distributed_info(&mut out, sources)?;
        out.write_all(b"\"deviceProperties\": [")?;
        let mut separator = "";
        for (source, process) in sources.iter().zip(&layout.processes) {
            for (ordinal, gpu) in &process.gpus {
                let Some(ordinal) = ordinal else { continue };
                let name = ordinal.checked_add(1).and_then(|id| source.names.get(Namespace::Device, id));
                let device = source.scene.devices.get(ordinal);
                json::device(&mut out, separator, *gpu, name, device)?;
                separator = ",";
            }
        }
        out.write_all(b"],\n\"traceEvents\": [")?;
        let mut out = Events { out, any: false };
        for (source, process) in sources.iter().zip(&layout.processes) {
            metadata(&mut out, source, process)?;
        }
        Ok(Export { out, layout, correlations: 0, summary: Summary::default() })
    }

    /// Writes the events of a process, the `index`th of those that the export began with: the second pass over its trace.
    ///
    /// # Errors
    /// Of writing.
    pub fn process(
        &mut self,
        index: usize,
        source: &Source,
        records: impl IntoIterator<Item = Record>,
    ) -> io::Result<()> {
        let mut pass = process::Pass::new(self, source, index);
        for record in records {
            pass.observe(&record)?;
        }
        pass.finish()
    }

    /// Writes the end, and what the trace had that no row shows.
    ///
    /// # Errors
    /// Of writing.
    pub fn finish(mut self) -> io::Result<(W, Summary)> {
        let Summary { calls, operations, untimed, captured, annotations, .. } = &self.summary;
        let untimed: Vec<String> = untimed.iter().map(|(why, count)| format!("\"{why}\": {count}")).collect();
        let version = env!("CARGO_PKG_VERSION");
        write!(
            self.out.out,
            "\n],\n\"gpuspy\": {{\"version\": \"{version}\", \"calls\": {calls}, \"operations\": {operations}, \
             \"annotations\": {annotations}, \
             \"captured\": {captured}, \"untimed\": {{{}}}}}\n}}\n",
            untimed.join(", ")
        )?;
        self.out.out.flush()?;
        Ok((self.out.out, self.summary))
    }
}

/// The list of events: a line each.
#[derive(Debug)]
struct Events<W> {
    out: W,
    any: bool,
}

impl<W: Write> Events<W> {
    fn push(&mut self, event: std::fmt::Arguments<'_>) -> io::Result<()> {
        self.out.write_all(if self.any { b",\n" } else { b"\n" })?;
        self.any = true;
        self.out.write_fmt(event)
    }
}

/// Writes which place in a job the file has, if it has one.
fn distributed_info(out: &mut impl Write, sources: &[Source]) -> io::Result<()> {
    let job = sources.first().map_or_else(Job::default, Source::job);
    let Some(rank) = job.rank.filter(|rank| sources.iter().all(|other| other.job().rank == Some(*rank)))
    else {
        return Ok(());
    };
    out.write_all(b"\"distributedInfo\": {")?;
    if sources.iter().any(Source::uses_nccl) {
        out.write_all(b"\"backend\": \"nccl\", ")?;
    }
    write!(out, "\"rank\": {rank}")?;
    if let Some(world_size) = job.world_size {
        write!(out, ", \"world_size\": {world_size}")?;
    }
    out.write_all(b"},\n")
}

/// Where a GPU's rows stand: below all of the host's, as Kineto has it.
const GPU_SORT_INDEX: u32 = 5_000_000;

/// The names of a process' rows.
fn metadata<W: Write>(out: &mut Events<W>, source: &Source, process: &layout::ProcessRows) -> io::Result<()> {
    let filter = &source.place.filter;
    let has_device = |ordinal: Option<u32>| filter.is_of_device(ordinal);
    let mut meta = |name: &str, pid: u32, tid: u32, key: &str, value: std::fmt::Arguments<'_>| {
        out.push(format_args!(
            r#"{{"ph":"M","name":"{name}","ts":0,"pid":{pid},"tid":{tid},"args":{{"{key}":{value}}}}}"#
        ))
    };
    let (pid, program) = (process.pid, source.program());
    let shown = Text::of(program);
    meta("process_name", pid, 0, "name", format_args!("{shown}"))?;
    meta("process_labels", pid, 0, "labels", format_args!("\"CPU\""))?;
    meta("process_sort_index", pid, 0, "sort_index", format_args!("{pid}"))?;
    for thread in &source.scene.threads {
        let tid = process.tid(*thread);
        let name = source.names.get(Namespace::Thread, tid).unwrap_or(program);
        let name = Text::of(&format!("thread {tid} ({name})"));
        meta("thread_name", pid, tid, "name", format_args!("{name}"))?;
    }
    for (ordinal, gpu) in process.gpus.iter().filter(|(ordinal, _)| has_device(**ordinal)) {
        let label = ordinal.map_or_else(|| "GPU ?".to_owned(), |ordinal| format!("GPU {ordinal}"));
        meta("process_name", *gpu, 0, "name", format_args!("{shown}"))?;
        meta("process_labels", *gpu, 0, "labels", format_args!("\"{label}\""))?;
        meta(
            "process_sort_index",
            *gpu,
            0,
            "sort_index",
            format_args!("{}", GPU_SORT_INDEX.saturating_add(*gpu)),
        )?;
    }
    for stream in &source.scene.streams {
        let Some(place) = process.streams.get(&stream.key()) else { continue };
        let row = place.row;
        let is_asked_for = filter.streams.is_empty() || filter.streams.contains(&u64::from(row));
        if !is_asked_for || !has_device(source.clocks.devices.get(&stream.context).copied()) {
            continue;
        }
        meta("thread_name", place.gpu, row, "name", format_args!("\"stream {row} \""))?;
        meta("thread_sort_index", place.gpu, row, "sort_index", format_args!("{row}"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
