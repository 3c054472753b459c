//! The report as plain structs: one small module for each table.
//!
//! The structs are what a reader of the JSON gets, with their doc comments as descriptions: the JSON Schema in
//! `collector/schema/report.schema.json` is generated from them (see `report/schema.rs`). The tables of the terminal report take
//! their columns from the same structs; a field that only the screen shows has `#[serde(skip)]`. Each row has an `of`
//! that builds it from the rows of an analysis, which know nothing of JSON.

pub mod calls;
pub mod clock;
pub mod coverage;
pub mod devices;
pub mod findings;
pub mod gaps;
pub mod graphs;
pub mod hangs;
pub mod identity;
pub mod idle;
pub mod kernels;
pub mod memory;
pub mod numbers;
pub mod overhead;
pub mod processes;
pub mod ranges;
pub mod ranks;
pub mod shapes;
pub mod source_lines;
pub mod startup;
pub mod steps;
pub mod syncs;
pub mod timing;
pub mod transfers;
pub mod unread;
pub mod verdict;

use super::view;
use crate::analyze::ranks::Ranks;
use crate::analyze::{ProcessReport, Tables, lines};
use crate::diagnose::Diagnosis;
use schemars::JsonSchema;
use serde::Serialize;

/// What `gpuspy report --json` prints. Times are nanoseconds. Where a number is known exactly it is plain; where
/// over-read of event pairs makes it uncertain it is an estimate.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(title = "gpuspy report", extend("$id" = "urn:gpuspy:report:2"))]
pub struct Report {
    /// Operations and calls that did not end for long: first those that lasted to the end, and of these the longest.
    pub hangs: Vec<hangs::Hang>,
    pub verdict: verdict::Verdict,
    pub identity: identity::Identity,
    pub idle: idle::Idle,
    pub steps: steps::Steps,
    /// What to change, the largest gain first.
    pub findings: Vec<findings::Finding>,
    pub coverage: coverage::Coverage,
    /// What profiling cost; null = not in the trace.
    pub overhead: Option<overhead::Overhead>,
    pub clock: clock::Clock,
    /// Where each GPU's time went: a row for each UUID, whichever processes used it. The values of compute,
    /// exposed_comm, exposed_copy, graph, idle, undecided and unobserved sum to span_ns exactly.
    pub devices: Vec<devices::Device>,
    pub gaps: gaps::Gaps,
    /// The longest total first. total_ns is of all launches, the other durations of the timed ones; null = none was
    /// timed.
    pub kernels: Vec<kernels::Kernel>,
    pub graphs: graphs::Graphs,
    /// Copies and memsets outside graphs.
    pub transfers: Vec<transfers::Transfer>,
    pub memory: memory::Memory,
    /// Calls by the outermost API, variants of one added.
    pub apis: Vec<calls::Api>,
    /// Calls that are in no table since their device is unknown, where devices were selected: most are of no device, as
    /// cuInit, and failed copies, copies of 0 bytes and host functions are among them. 0 = none, or the process uses only one device.
    pub calls_of_unknown_device: u64,
    /// Calls that waited for the GPU, by the outermost API.
    pub syncs: Vec<calls::Sync>,
    /// Calls that are no synchronize calls and waited for the GPU all the same: work that such calls wait for was
    /// unfinished when they were entered, and over when they returned. By the outermost API and the reason why it
    /// waits; those that never waited are absent.
    pub implicit_syncs: Vec<syncs::ImplicitSync>,
    /// Lines of the program (Python, or native code), by what they cause: those with the most time of the GPU, idle and waiting first, and
    /// calls without a line as a row of their own, so that the rows sum to the whole. Empty if no line and no function is known.
    pub lines: Vec<source_lines::SourceLine>,
    /// The time until the first kernel ran, and until the program was steady; null = no kernel ran, or start-up is outside the selected period or the capture range.
    pub startup: Option<startup::Startup>,
    /// NVTX ranges by name. An operation is in every range that is open when its call starts: pushed ranges of its own
    /// thread, and started ranges of any thread. A range's projection onto the GPU (gpu_) is from the start of its
    /// first timed operation to the end of its last. With a filter on time, a range counts completely if it starts in
    /// the period. From 4096 names on, further ones are one row, (others).
    pub ranges: Vec<ranges::Range>,
    /// NVTX markers by name.
    pub markers: Vec<ranges::Marker>,
    /// The wall time of the run within the selected period: from the start of the first process to the end of the
    /// last, on one clock. For processes on several machines, or of several boots of one, which have no common clock,
    /// the longest time. null = no process.
    pub wall_ns: Option<u64>,
    /// The sum of the wall times of all GPUs that were used, each within the selected period: what times on GPUs are shares of.
    /// 0 = no GPU is known to have had work.
    pub gpu_wall_ns: u64,
    /// The processes that the report is about, a row for each trace. With several, counts are their sums, medians are of all they did, and
    /// what a GPU did and what memory was held are of all of them together on one clock.
    pub processes: Vec<processes::Process>,
    /// The ranks of the job, in their order, for each time that it was started; empty if there are fewer than two.
    pub ranks: Vec<ranks::Rank>,
    /// What the ranks were compared by.
    #[serde(skip)]
    pub compared: Ranks,
    /// Traces of the directory that could not be read at all. They are missing from the report.
    pub unread: Vec<unread::Unread>,
    /// The number of the error with which a GPU stopped first, for the comparison of two runs; `None` if none did.
    #[serde(skip)]
    pub gpu_error: Option<i32>,
}

impl Report {
    /// Composes the report of a run of which some traces could not be read. `all` are the sums over all processes.
    pub fn of(reports: &[ProcessReport], all: &Tables, unread: &[view::Unread]) -> Report {
        let diagnosis = Diagnosis::of(reports, all);
        let ranks = ranks::of_gpus(reports);
        let devices: Vec<_> = all.devices.iter().map(|device| devices::Device::of(device, &ranks)).collect();
        let (lines_of, implicit) = (&all.source_lines, &all.implicit_syncs);
        Report {
            hangs: hangs::Hang::all(reports),
            verdict: verdict::Verdict::of(&diagnosis.verdict),
            identity: identity::Identity::of(&diagnosis.buckets, &devices),
            idle: idle::Idle::of(&all.idle),
            steps: steps::Steps::of(&all.steps),
            findings: diagnosis.findings.iter().map(|found| findings::Finding::of(found, reports)).collect(),
            coverage: coverage::Coverage::of(all),
            overhead: all.overhead.as_ref().map(|taken| overhead::Overhead::of(taken, &all.duty)),
            clock: clock::Clock::of(&all.clock),
            devices,
            gaps: gaps::Gaps::of(&all.gaps),
            kernels: all.kernels.iter().map(|kernel| kernels::Kernel::of(kernel, lines_of)).collect(),
            graphs: graphs::Graphs::of(&all.graphs),
            transfers: all.transfers.iter().map(|row| transfers::Transfer::of(row, lines_of)).collect(),
            memory: memory::Memory::of(&all.memory),
            apis: all.apis.iter().filter_map(|row| calls::Api::of(row, lines_of)).collect(),
            calls_of_unknown_device: all.left_out.count,
            syncs: all.syncs.iter().filter_map(|row| calls::Sync::of(row, lines_of)).collect(),
            implicit_syncs: implicit
                .by_api
                .iter()
                .map(|row| syncs::ImplicitSync::of(row, implicit))
                .collect(),
            lines: source_lines::SourceLine::all(&all.source_lines.rows),
            startup: all.startup.as_ref().map(startup::Startup::of),
            ranges: all.ranges.by_name.iter().filter_map(ranges::Range::of).collect(),
            markers: all.ranges.marks.iter().map(ranges::Marker::of).collect(),
            wall_ns: lines(reports).map(|line| line.looked_ns).max(),
            gpu_wall_ns: devices::wall(&all.devices),
            processes: processes::Process::all(reports),
            ranks: ranks::rows(&diagnosis.ranks, reports),
            compared: diagnosis.ranks,
            unread: unread.iter().map(unread::Unread::of).collect(),
            gpu_error: all.gpu_errors.first.as_ref().map(|stopped| stopped.result),
        }
    }
}
