//! The pipeline: one pass over a trace's records that all analyses share.
//!
//! [`process`] turns each record into an [`Event`], computes its [`Scope`] once, and gives both to every analysis in the
//! list at the end of this file, and to the [`Timelines`]. The order of the list does not matter: no analysis changes an event, and none reads
//! another's rows. What is computed from several tables (`Tables::relate`) comes after all of them are finished.

use super::analysis::{Analysis, End, Line, Start};
use super::calls::{ApiTimes, ByApi, CallsLeftOut, LeftOut, SyncTimes};
use super::collectives::{CollectiveFold, Collectives};
use super::copy_sites::{CopyCalls, CopySites};
use super::coverage::{ClockWidths, Coverage, CoverageFold};
use super::device_switches::{SwitchCount, Switches};
use super::devices::{self, DeviceReport, Listed};
use super::estimate::Sum;
use super::gaps::rows::GapReport;
use super::gaps::{GapLog, LoggedGap};
use super::gpu_errors::{ErrorFold, GpuErrors};
use super::graphs::{GraphTimes, GraphUse};
use super::idle::IdleReport;
use super::kernels::{Kernel, KernelTimes};
use super::last_work::{LastFold, LastWork};
use super::legacy_stream::{LegacyTurns, Turns};
use super::memory::{MemoryTimeline, MemoryUse};
use super::merge::Merge;
use super::overhead::Overhead;
use super::pending::{self, Counted, Pending, PendingFold};
use super::product_copies::{CopiesBefore, ProductCopies};
use super::quantile::Quantiles;
use super::ranges::{RangeFold, RangeUse};
use super::reading::Reading;
use super::repeated_uploads::{RepeatedUploads, Uploads};
use super::scope::Scope;
use super::source_lines::{LineFold, Row, SourceLines};
use super::startup::{Startup, StartupFold};
use super::steps::{StepFold, Steps};
use super::summary::{ProcessInfo, ProcessReport};
use super::timeline::Timelines;
use super::transfers::{TransferTimes, Transfers};
use super::waits::{ImplicitSyncs, Waits};
use super::windows::{Duty, Windows};
use super::{Damage, Input};
use crate::ahead::beside;
use crate::model::Event;
use crate::model::job::Job;
use crate::model::period::Period;
use crate::trace::record::{Names, Record, Status};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Analyzes one process in one pass over its records. A [`Survey`](crate::model::survey::Survey) has to have read them before,
/// for its clocks.
///
/// Losses are counted whatever the filter selects, since nobody knows what was lost. So is what profiling cost.
///
/// Four threads share the work: one decodes the records, one says what they mean, one computes the timelines of the GPUs, and
/// this one everything else.
pub fn process<Records>(input: Input<'_, Records>) -> ProcessReport
where
    Records: Iterator<Item = Record> + Send,
{
    watched(input, &mut Unwatched)
}

/// What is shown everything that the analyses see, in the same pass.
pub trait Watch {
    /// Begins: what passes the filter is in this period.
    fn begin(&mut self, period: &Period);

    /// Takes the next event, and what the record filter lets through of it.
    fn observe(&mut self, event: &Event<'_>, scope: &Scope<'_>);

    /// Takes a gap of a GPU's timeline. It comes some time after the operations on both sides; the gaps of a device come in
    /// order.
    fn gap(&mut self, gap: &LoggedGap);

    /// Ends: the process ended at this time, host ns.
    fn end(&mut self, ended: u64);

    /// Whether it takes gaps.
    fn takes_gaps(&self) -> bool {
        true
    }
}

/// Nothing watches.
struct Unwatched;

impl Watch for Unwatched {
    fn begin(&mut self, _: &Period) {}
    fn observe(&mut self, _: &Event<'_>, _: &Scope<'_>) {}
    fn gap(&mut self, _: &LoggedGap) {}
    fn end(&mut self, _: u64) {}
    fn takes_gaps(&self) -> bool {
        false
    }
}

/// Does the same, and shows everything to `watch`, on this thread.
pub fn watched<Records>(input: Input<'_, Records>, watch: &mut impl Watch) -> ProcessReport
where
    Records: Iterator<Item = Record> + Send,
{
    let Input { path, names, status, damage, clocks, filter, records } = input;
    let began = clocks.began(status);
    let mut reading = Reading::new(names, status, clocks, filter);
    let period = reading.period().clone();
    let captured = clocks.capture_ranges.period(names, status, (i64::MIN, i64::MAX));
    let (thread_times, lost) = (Arc::clone(&clocks.thread_times), clocks.lost.clone());
    let steps_of = clocks.steps.thread;
    let origin = filter.origin.unwrap_or(began);
    let start =
        Start { names, status, damage, began, origin, period, captured, thread_times, lost, steps_of };
    let (mut timelines, mut analyses) = (Timelines::new(&start), Analyses::new(&start));
    let gaps = GapLog::default();
    if watch.takes_gaps() {
        timelines.log_to(gaps.clone());
    }
    watch.begin(&start.period);
    reading.ahead(records, |batches| {
        beside(
            batches,
            |batch| batch.events().for_each(|(event, scope)| timelines.observe(event, &scope)),
            |batch| {
                batch.events().for_each(|(event, scope)| {
                    analyses.observe(event, &scope);
                    watch.observe(event, &scope);
                });
                gaps.take().iter().for_each(|gap| watch.gap(gap));
            },
        );
    });
    let (known, ended) = (reading.finish(), clocks.ended(status));
    let line = Line::of(began, ended, &start.period);
    let pid = status.map(|status| status.pid);
    let end = End { names, known: &known, pid, status, ended, line };
    let mut tables = analyses.finish(timelines, &end);
    gaps.take().iter().for_each(|gap| watch.gap(gap));
    watch.end(ended);
    tables.devices.retain(|device| filter.is_of_device(device.id));
    tables.overhead = status.map(|status| Overhead::of(status, clocks.earliest));
    tables.steps.found_by(clocks.steps.source.clone());
    tables.steps.are_of([pid, Job::of(names).rank], thread_id(status, steps_of));
    let is_whole = !start.period.is_span() && damage == Damage::default() && tables.coverage.dropped() == 0;
    let listed = match () {
        () if is_whole && filter.is_everything() => Listed::All,
        () if is_whole && filter.is_of_kernels() => Listed::Kernels,
        () => Listed::Some,
    };
    tables.relate(listed, names);
    let mut process = ProcessInfo::of(path, filter, &start, &end, &tables.devices);
    process.notes.extend(clocks.callers.notes());
    ProcessReport { process, tables, together: None, findings: None }
}

/// Returns the id of a thread in the system, if that is known.
fn thread_id(status: Option<&Status>, thread: Option<u32>) -> Option<u32> {
    status?.threads.get(&thread?).copied()
}

/// Declares the tables and the analyses that fill them. `sums` add up over the processes of a run. Those `on_a_line` do not:
/// two processes may use one GPU, and hold memory, at the same time. [`mod@super::together`] computes them again.
macro_rules! analyses {
    (
        sums { $($(#[$sum_doc:meta])* $sum:ident: $summing:ty => $sum_rows:ty,)* }
        on_a_line { $($(#[$line_doc:meta])* $line:ident: $lining:ty => $line_rows:ty,)* }
    ) => {
        /// The tables about one process, or about several.
        #[derive(Clone, Debug, Default)]
        pub struct Tables {
            $($(#[$sum_doc])* pub $sum: $sum_rows,)*
            $($(#[$line_doc])* pub $line: $line_rows,)*
            /// Where each GPU's time went, and its idle gaps. It does not add up either.
            pub devices: Vec<DeviceReport>,
            /// The idle gaps of all devices.
            pub gaps: GapReport,
            /// Why the GPUs were idle.
            pub idle: IdleReport,
            /// What profiling cost, by the agent's own account; `None` without a status.
            pub overhead: Option<Overhead>,
        }

        impl Tables {
            /// Adds the tables of another process that add up, whenever it ran.
            pub(super) fn add(&mut self, other: &Tables) {
                $(Merge::merge(&mut self.$sum, &other.$sum);)*
                Merge::merge(&mut self.overhead, &other.overhead);
            }
        }

        /// All analyses of one process but its timelines, which take as long as all the others.
        struct Analyses<'a> {
            $($sum: $summing,)*
            $($line: $lining,)*
        }

        impl<'a> Analyses<'a> {
            fn new(start: &Start<'a>) -> Self {
                Analyses { $($sum: Analysis::new(start),)* $($line: Analysis::new(start),)* }
            }

            fn observe(&mut self, event: &Event<'_>, scope: &Scope<'_>) {
                $(self.$sum.observe(event, scope);)*
                $(self.$line.observe(event, scope);)*
            }

            fn finish(self, timelines: Timelines, end: &End<'_>) -> Tables {
                Tables {
                    devices: timelines.finish(end),
                    $($sum: self.$sum.finish(end),)*
                    $($line: self.$line.finish(end),)*
                    gaps: GapReport::default(),
                    idle: IdleReport::default(),
                    overhead: None,
                }
            }
        }
    };
}

analyses! {
    sums {
        /// Launches with and without a GPU time, and what was lost.
        coverage: CoverageFold<'a> => Coverage,
        /// Half-widths of the clock interval at each timed operation, ns.
        clock: ClockWidths => Quantiles,
        /// How much of the time was timed, and what timing cost.
        duty: Windows => Duty,
        /// Kernels, the longest total first.
        kernels: KernelTimes<'a> => Vec<Kernel>,
        /// What ran inside graph launches.
        graphs: GraphTimes<'a> => GraphUse,
        /// Copies and memsets.
        transfers: TransferTimes => Transfers,
        /// Copies and memsets by the calls that make them.
        copy_sites: CopyCalls<'a> => CopySites,
        /// Copies inside a GPU right before matrix products.
        product_copies: CopiesBefore<'a> => ProductCopies,
        /// What the legacy default stream and other streams did in turns.
        legacy_stream: LegacyTurns => Turns,
        /// Copies to a GPU that move the same data again.
        repeated_uploads: Uploads<'a> => RepeatedUploads,
        /// How often threads changed the GPU.
        device_switches: SwitchCount => Switches,
        /// Errors with which a GPU stopped.
        gpu_errors: ErrorFold<'a> => GpuErrors,
        /// API calls.
        apis: ApiTimes<'a> => ByApi,
        /// Calls that the filter leaves out since their device is unknown.
        left_out: CallsLeftOut => LeftOut,
        /// API calls that synchronize.
        syncs: SyncTimes<'a> => ByApi,
        /// Calls that waited for the GPU though they are no synchronize calls.
        implicit_syncs: Waits<'a> => ImplicitSyncs,
        /// Lines of the program, by what they cause.
        source_lines: LineFold<'a> => SourceLines,
        /// How long it took until the first kernel ran, and why. The filter limits it in time only. `None` if no kernel
        /// ran, or the first one ran before that time.
        startup: StartupFold<'a> => Option<Startup>,
        /// NVTX ranges and markers.
        ranges: RangeFold<'a> => RangeUse,
        /// The steps of the program; of several processes, of the one that stands for them.
        steps: StepFold<'a> => Steps,
    }
    on_a_line {
        /// Memory; times in it are host ns since the collection began.
        memory: MemoryTimeline => MemoryUse,
        /// Communication kernels. Those of several processes are compared ([`ranks`](super::ranks)), and never added.
        collectives: CollectiveFold<'a> => Collectives,
        /// The end of the process's work.
        last_work: LastFold => LastWork,
        /// Operations at the end that may never have run, which the tables of operations have been told.
        pending: PendingFold => Vec<Pending>,
    }
}

impl Tables {
    /// Fills in what is computed from several tables: what the operations took that were called in pauses, which the tables
    /// of operations know and the devices need, and the gaps of all devices. `listed`: what the tables have of the operations.
    fn relate(&mut self, listed: Listed, names: &Names) {
        let (kernels, graphs, transfers) = (&mut self.kernels, &mut self.graphs, &mut self.transfers);
        pending::settle(&self.pending, Counted { kernels, graphs, transfers }, names);
        for device in &mut self.devices {
            device.idle.set_warm_up(self.steps.first_steady());
            device.gaps.set_warm_up(self.steps.first_steady());
            device.extrapolate(&self.kernels, &self.graphs, &self.transfers, listed);
        }
        self.gaps = devices::gaps(&self.devices);
        self.idle = devices::idle(&self.devices);
        self.steps.relate(&self.devices);
        self.source_lines.relate(&self.gaps.by_line, &self.idle.paused_by_line, &self.implicit_syncs);
        self.fit_lines();
    }

    /// Gives the lines the time that the tables of operations say.
    pub(super) fn fit_lines(&mut self) {
        let Tables { source_lines, kernels, transfers, graphs, .. } = self;
        let mut by_symbol: BTreeMap<&str, Sum> = BTreeMap::new();
        for (symbol, total) in kernels.iter().filter_map(|one| Some((one.symbol.as_str(), one.total()?))) {
            by_symbol.entry(symbol).or_default().add(total.into());
        }
        source_lines.fit(|row| match row {
            Row::Kernel(symbol) => by_symbol.get(symbol.as_str()).copied(),
            Row::Transfer(kind, memory) => Some(transfers.get(&(*kind, *memory))?.total()?.into()),
            Row::Graph(_) => Some(graphs.total()?.into()),
            Row::Api(_) | Row::Wait(_) | Row::Captured(_) => None,
        });
    }
}
