//! All answers about a process, and how those of several processes add up to a run's.

use super::calls::{ApiTimes, ByApi};
use super::coverage::{Coverage, Seen};
use super::estimate::{Estimate, Sum};
use super::gaps::{BANDS, Found, Gap, LARGEST, Neighbour, Part};
use super::graphs::{GraphTimes, GraphUse};
use super::identity::Identity;
use super::kernels::{self, Kernel, KernelTimes};
use super::memory::{MemoryTimeline, MemoryUse};
use super::overhead::Overhead;
use super::quantile::Quantiles;
use super::ranges::{RangeFold, RangeUse};
use super::shapes::ShapeCounts;
use super::startup::{Startup, StartupFold};
use super::timeline::{DeviceTime, Timelines};
use super::together::Together;
use super::transfers::{self, TransferTimes, Transfers};
use super::waits::{self, ImplicitSyncs, Waits};
use super::whole::{Work, extrapolated};
use super::windows::{Duty, Windows};
use super::{Analysis, Damage, Input};
use crate::model::filter::RecordFilter;
use crate::model::gpu_interval::host;
use crate::model::job::{self, Job};
use crate::model::modules::CallSite;
use crate::model::outcome::Outcome;
use crate::model::period::{self, Period};
use crate::model::{self, Action, Model};
use crate::trace::record::{self, Body, Names, Record};
use gpuspy_wire::record::{Fact, Namespace};
use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
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

/// The answers, about one process or several.
#[derive(Clone, Debug, Default)]
pub struct Tables {
    /// What was seen.
    pub coverage: Coverage,
    /// Half-widths of the clock interval at each timed operation, ns.
    pub clock: Quantiles,
    /// How much was timed, and what that cost.
    pub duty: Duty,
    /// What looking cost; `None` when no status said so.
    pub overhead: Option<Overhead>,
    /// Where each GPU's time went.
    pub devices: Vec<DeviceReport>,
    /// When GPUs had nothing to do.
    pub gaps: GapReport,
    /// Kernels, the longest total first.
    pub kernels: Vec<Kernel>,
    /// What ran inside graphs.
    pub graphs: GraphUse,
    /// Transfers.
    pub transfers: Transfers,
    /// Memory; times in it are host ns since the collection began.
    pub memory: MemoryUse,
    /// API calls.
    pub apis: ByApi,
    /// Of those, the ones that wait.
    pub syncs: ByApi,
    /// Calls that waited though they are no synchronise calls.
    pub implicit_syncs: ImplicitSyncs,
    /// How long it took until the first kernel ran, and why: the process's, limited in time only. `None` if none did, or it
    /// did before that time.
    pub startup: Option<Startup>,
    /// What the program said it was doing.
    pub ranges: RangeUse,
}

/// A GPU and where its time went.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeviceReport {
    /// Its ordinal in the process; `None` when its context was never told.
    pub id: Option<u32>,
    /// Its UUID, as nvidia-smi prints it.
    pub uuid: Option<String>,
    /// Its name.
    pub name: Option<String>,
    /// Bytes of its memory.
    pub memory_bytes: Option<u64>,
    /// Host ns from the begin of its line to the begin of its span; `None` if it had no work, or for several timelines added.
    pub began_ns: Option<u64>,
    /// The time that its row is about.
    pub line: Line,
    /// The parts of its time.
    pub identity: Identity,
    /// What its operations took in the time that was observed, and in the pauses of the budget.
    pub work: Work,
    /// Streams that had work.
    pub streams: u64,
    /// How many timelines there are: one, or one for each context whose device was never told, added side by side.
    pub timelines: u64,
    /// How many processes used it.
    pub processes: u64,
    /// Operations with a GPU time, in the time that is asked for or outside of it.
    pub timed: u64,
    /// Operations that came too late for their place.
    pub late: u64,
}

/// The gaps of all devices.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GapReport {
    /// How many.
    pub count: u64,
    /// Their total, ns.
    pub total: Sum,
    /// By length, see [`BANDS`]; they sum to the whole.
    pub bands: [Part; BANDS.len() + 1],
    /// By who ended them, the largest total first; they sum to the whole.
    pub by_library: Vec<LibraryGaps>,
    /// The largest, longest first.
    pub largest: Vec<GapRow>,
}

/// The gaps that were ended by operations of one library.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LibraryGaps {
    /// Its path; `None` where it is not known who called.
    pub library: Option<String>,
    /// How many.
    pub count: u64,
    /// Their total by the best values, ns.
    pub total: u64,
}

/// One gap.
#[derive(Clone, Debug, PartialEq)]
pub struct GapRow {
    /// The process.
    pub pid: Option<u32>,
    /// The device's ordinal.
    pub device: Option<u32>,
    /// Host ns from the begin of its process's collection to the begin of the timeline's span; `None` for several
    /// timelines added.
    pub began_ns: Option<u64>,
    /// ns from the begin of the timeline's span.
    pub start: u64,
    /// How long.
    pub duration: Estimate<u64>,
    /// The operation before it.
    pub before: Side,
    /// The operation after it.
    pub after: Side,
}

/// An operation beside a gap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Side {
    /// `kernel`, `graph`, or a transfer's kind.
    pub kind: &'static str,
    /// A kernel's name as the app's binary has it, where known.
    pub symbol: Option<String>,
    /// A transfer's bytes.
    pub bytes: Option<u64>,
    /// A graph's kernels.
    pub kernels: Option<u32>,
    /// Its correlation.
    pub correlation: u64,
    /// The library that asked for it, where known.
    pub caller: Option<CallSite>,
}

/// Answers all questions about one process, in one pass over its records (the second: the first surveyed its clocks).
///
/// What the filter leaves out is in no table but that of what looking cost. Losses nobody can place: they always count.
pub fn process<Records>(input: Input<'_, Records>) -> ProcessReport
where
    Records: Iterator<Item = Record>,
{
    let Input { path, names, status, damage, clocks, filter, records } = input;
    let began = clocks.began(status);
    let mut last = began;
    let mut model = Model::new(names, clocks);
    let mut record_filter = RecordFilter::new(filter, names, status, began, &clocks.captures);
    let mut seen = Seen::new(names, status, damage.records_lost);
    let captured = clocks.captures.period(names, status, (i64::MIN, i64::MAX));
    let mut windows = Windows::new(names, captured);
    let mut timelines = Timelines::new(record_filter.period().clone());
    let mut kernels = KernelTimes::new(names);
    let mut shapes = ShapeCounts::default();
    let mut graphs = GraphTimes::new(names);
    let mut transfers = TransferTimes::default();
    let mut memory = MemoryTimeline::new(began, record_filter.period().clone());
    let mut apis = ApiTimes::new(names);
    let mut waits = Waits::new(names);
    let mut startup = StartupFold::new(names, record_filter.period().clone());
    let mut ranges = RangeFold::new(names);
    for record in records {
        last = last.max(record.at).max(seen_over(&record));
        let mut event = model.observe(&record);
        // What looking cost is the whole process's.
        windows.observe(&event);
        let passed = record_filter.check(&event);
        if passed.call {
            apis.observe(&event);
        }
        // A call may wait for work that is not asked for.
        waits.observe(&event, passed.call);
        // A process starts once, whatever of it is asked for.
        startup.observe(&event);
        if !passed.concerns {
            event.forget_operation();
        }
        event.memory.retain(|change| record_filter.holds(change.allocator()));
        memory.observe(&event, passed.call);
        // What began before the time that is asked for may fill some of it, and what comes after ends its last gap.
        timelines.observe(&event);
        // A range is whole, and so are its operations, wherever they ran.
        ranges.observe(&event, passed.call);
        if !passed.operation {
            event.forget_operation();
        }
        // Beside a gap a graph or a burst stands whole; in the counts only what of it is asked for.
        record_filter.limit(&mut event);
        seen.observe(&event);
        kernels.observe(&event);
        shapes.observe(&event);
        graphs.observe(&event);
        transfers.observe(&event);
    }
    // The last status of a trace that was cut, or is still being written, is older than what follows it.
    let ended = status.map_or(last, |status| status.ended.max(last));
    let (coverage, clock) = seen.finish();
    let (apis, syncs) = apis.finish();
    let known = model.finish();
    let mut kernels = kernels.finish();
    shapes.finish().join(&mut kernels, &known, names);
    let pid = status.map(|status| status.pid);
    let line = Line::of(began, ended, record_filter.period());
    let (mut devices, mut gaps) = devices(timelines.finish(), &known, names, pid, line);
    devices.retain(|device| filter.is_of_device(device.id));
    let (graphs, transfers) = (graphs.finish(), transfers.finish());
    for device in &mut devices {
        let id = device.id;
        let [compute, communication] = kernels::untimed(&kernels, |strata| strata.paused(id));
        let copies = transfers::untimed(&transfers, |strata| strata.paused(id));
        device.work.paused = [compute, graphs.strata.paused(id), communication, copies];
        let [compute, communication] = kernels::untimed(&kernels, |strata| strata.unseen(id));
        let copies = transfers::untimed(&transfers, |strata| strata.unseen(id));
        device.work.unseen = [compute, graphs.strata.unseen(id), communication, copies];
    }
    gaps.total.hi = devices.iter().fold(0, |sum: u64, device| sum.saturating_add(device.whole().idle.hi));
    let library = |caller| library(caller, &known, names);
    let looked_at = record_filter.period();
    let captured = looked_at.is_span().then(|| Captured {
        asked: period::asked(names).unwrap_or_default().to_owned(),
        ranges: looked_at.stretches().len() as u64,
    });
    ProcessReport {
        process: ProcessInfo {
            pid,
            command: fact(names, Fact::CommandLine)
                .map(|line| line.trim_end_matches('\0').replace('\0', " ")),
            path,
            outcome: status.map(|status| Outcome::of(status.ending, status.exit)),
            parent: job::parent(names, status),
            job: Job::of(names),
            gpus: devices.iter().filter_map(|device| device.uuid.clone()).collect(),
            began_realtime: status.map(|status| status.began_realtime),
            line,
            captured,
            damage,
            filter: filter.to_string(),
            notes: [Fact::Interception, Fact::TimingNote]
                .into_iter()
                .filter_map(|told| fact(names, told))
                .map(str::to_owned)
                .collect(),
            clock_contradictions: known.clock_contradictions,
            causality_broken: known.causality_broken,
        },
        tables: Tables {
            coverage,
            clock,
            duty: windows.finish(ended),
            overhead: status.map(|status| Overhead::of(status, clocks.earliest)),
            devices,
            gaps,
            kernels,
            graphs,
            transfers,
            memory: memory.finish(ended, library),
            apis,
            syncs,
            implicit_syncs: waits.finish(),
            startup: startup.finish(library),
            ranges: ranges.finish(ended),
        },
        together: None,
    }
}

/// Host ns at which an operation was seen to be over; 0 where that is not told.
fn seen_over(record: &Record) -> u64 {
    match &record.body {
        Body::Work(record::Work { gpu: Some(gpu), .. }) => gpu.seen,
        _ => 0,
    }
}

fn fact(names: &Names, fact: Fact) -> Option<&str> {
    names.get(Namespace::Fact, fact as u32).filter(|text| !text.is_empty())
}

/// Every device that was told of or used, and their gaps.
fn devices(
    mut times: BTreeMap<Option<u32>, DeviceTime>,
    known: &model::Process,
    names: &Names,
    pid: Option<u32>,
    line: Line,
) -> (Vec<DeviceReport>, GapReport) {
    for ordinal in known.devices.keys() {
        times.entry(Some(*ordinal)).or_default();
    }
    let (mut devices, mut gaps) = (Vec::new(), GapReport::default());
    for (id, time) in times {
        let device = id.and_then(|id| known.devices.get(&id));
        let Found { count, total, bands, callers, largest } = time.gaps.finish(time.identity.idle.hi);
        let began_ns = time.began.map(|at| at.saturating_sub(host(line.began)).max(0) as u64);
        let row = |gap: &Gap| GapRow {
            pid,
            device: id,
            began_ns,
            start: gap.start,
            duration: gap.duration,
            before: side(&gap.before, gap.before.caller, known, names),
            after: side(&gap.after, gap.after.caller, known, names),
        };
        let largest = largest.iter().map(row).collect();
        let by_library = by_library(callers, known, names);
        gaps.merge(&GapReport { count, total, bands, by_library, largest });
        devices.push(DeviceReport {
            id,
            uuid: device.map(|device| uuid(&device.uuid)),
            name: id.and_then(|id| names.get(Namespace::Device, id.checked_add(1)?)).map(str::to_owned),
            memory_bytes: device.map(|device| device.memory_bytes),
            began_ns,
            line,
            timed: time.timed,
            identity: time.identity,
            work: Work { observed: time.work, ..Work::default() },
            streams: time.streams,
            timelines: time.timelines,
            processes: u64::from(time.timelines > 0),
            late: time.late,
        });
    }
    (devices, gaps)
}

/// Gaps by the library that ended them, in no order.
fn by_library(callers: HashMap<u64, Part>, known: &model::Process, names: &Names) -> Vec<LibraryGaps> {
    let row = |(caller, part): (u64, Part)| LibraryGaps {
        library: library(caller, known, names),
        count: part.count,
        total: part.total,
    };
    callers.into_iter().map(row).collect()
}

/// The path of the library that an address lies in, if any is known.
pub(super) fn library(address: u64, known: &model::Process, names: &Names) -> Option<String> {
    known.modules.resolve(address, names).map(|site| site.path)
}

/// An operation beside a gap, whose call returned to `caller`.
pub(super) fn side(neighbour: &Neighbour, caller: u64, known: &model::Process, names: &Names) -> Side {
    let (kind, symbol, bytes, kernels) = match neighbour.what {
        Action::Kernel { name, .. } => ("kernel", names.get(Namespace::Kernel, name), None, None),
        Action::Graph { kernels } => ("graph", None, None, Some(kernels)),
        Action::Burst { .. } if neighbour.what.is_run() => ("run", None, None, None),
        Action::Burst { .. } => ("burst", None, None, None),
        Action::Transfer { kind, bytes, .. } => (kind.name(), None, Some(bytes), None),
    };
    let symbol = symbol.map(str::to_owned);
    let caller = known.modules.resolve(caller, names);
    Side { kind, symbol, bytes, kernels, correlation: neighbour.correlation, caller }
}

/// A UUID as nvidia-smi prints it.
fn uuid(bytes: &[u8; 16]) -> String {
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("GPU-{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

impl GapReport {
    /// Adds another's.
    pub fn merge(&mut self, other: &GapReport) {
        self.count += other.count;
        self.total.add(other.total);
        for (mine, theirs) in self.bands.iter_mut().zip(other.bands) {
            mine.add(theirs);
        }
        let mut libraries: BTreeMap<Option<String>, Part> = BTreeMap::new();
        for LibraryGaps { library, count, total } in self.by_library.drain(..).chain(other.by_library.clone())
        {
            libraries.entry(library).or_default().add(Part { count, total });
        }
        let row = |(library, Part { count, total })| LibraryGaps { library, count, total };
        self.by_library = libraries.into_iter().map(row).collect();
        self.by_library.sort_by_key(|gaps| Reverse(gaps.total));
        self.largest.extend(other.largest.iter().cloned());
        self.largest.sort_by_key(|gap| (Reverse(gap.duration.value), gap.pid, gap.device, gap.start));
        self.largest.truncate(LARGEST);
    }
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
            all.merge(&report.tables);
        }
        for (at, report) in reports.iter().enumerate().filter(|(at, _)| is_first(reports, *at)) {
            match &report.together {
                Some(together) => {
                    all.devices.extend(together.devices.iter().cloned());
                    all.gaps.merge(&together.gaps);
                    if at == 0 {
                        all.memory = together.memory.clone();
                    } else {
                        all.memory.merge(&together.memory);
                    }
                }
                None => {
                    all.devices.extend(report.tables.devices.iter().cloned());
                    all.gaps.merge(&report.tables.gaps);
                    all.memory.merge(&report.tables.memory);
                }
            }
        }
        all.kernels.sort_by_cached_key(Kernel::rank);
        Cow::Owned(all)
    }

    /// Adds what adds up, whenever it was.
    fn merge(&mut self, other: &Tables) {
        self.coverage.merge(&other.coverage);
        self.clock.merge(&other.clock);
        self.duty.merge(&other.duty);
        if let Some(theirs) = &other.overhead {
            self.overhead.get_or_insert_default().merge(theirs);
        }
        let mut kernels: BTreeMap<String, Kernel> = std::mem::take(&mut self.kernels)
            .into_iter()
            .map(|kernel| (kernel.symbol.clone(), kernel))
            .collect();
        for theirs in &other.kernels {
            kernels
                .entry(theirs.symbol.clone())
                .and_modify(|mine| mine.merge(theirs))
                .or_insert_with(|| theirs.clone());
        }
        self.kernels = kernels.into_values().collect();
        self.graphs.merge(&other.graphs);
        for (key, theirs) in &other.transfers {
            self.transfers.entry(*key).or_default().merge(theirs);
        }
        for (mine, theirs) in [(&mut self.apis, &other.apis), (&mut self.syncs, &other.syncs)] {
            for (name, calls) in theirs {
                mine.entry(name.clone()).or_default().merge(calls);
            }
        }
        waits::merge(&mut self.implicit_syncs, &other.implicit_syncs);
        if let Some(theirs) = &other.startup {
            self.startup.get_or_insert_default().merge(theirs);
        }
        self.ranges.merge(&other.ranges);
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

impl DeviceReport {
    /// The parts of its time, with what passed in pauses of the budget shared out, as far as that can be told.
    pub fn whole(&self) -> Identity {
        extrapolated(&self.identity, &self.work).unwrap_or(self.identity)
    }
}
