//! The steps of the program.

use super::numbers::or_null;
use crate::analyze::idle::Cause;
use crate::analyze::steps::{self, TimedOn};
use crate::model::named::named;
use crate::model::steps::Source;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

named! {
    /// How steps were found.
    pub enum SourceKind {
        /// The sequence of launches repeats.
        Launches = "launches",
        /// An NVTX range is opened in each step.
        Nvtx = "nvtx",
        /// A graph is launched in each step.
        Graphs = "graphs",
    }
}

/// The steps of the program; count is 0 if it has none. Times are of the steps after the warm-up, null = none.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Steps {
    /// The number of steps, those of the warm-up included.
    pub count: u64,
    /// launches: the sequence of launches repeats; nvtx: a range is opened in each step; graphs: a graph is launched in
    /// each step; null = no steps.
    #[schemars(extend("enum" = or_null(SourceKind::ALL.map(SourceKind::name))))]
    pub source: Option<&'static str>,
    /// The name of that NVTX range.
    pub range: Option<String>,
    /// The id of the process whose steps these are: of several processes, those of one stand for the run. null = not known.
    pub pid: Option<u32>,
    /// The rank of that process; null = it has none.
    pub rank: Option<u32>,
    /// The id of the thread whose steps these are, where several have loops of their own; everything here is about what it does. null =
    /// the steps of the process.
    pub tid: Option<u32>,
    /// Kernel and graph launches in a step, median.
    pub launches_per_step: u64,
    /// The steps at the start that are longer than those after them.
    pub warm_up: u64,
    /// From where to where a step is timed. gpu: from the start of its first operation on the GPU to that of the next step;
    /// steps between two starts that are known are given the mean of their time. host: from call to call on the host, which
    /// keeps pace with the GPU. host_ahead: the same where the host is ahead of the GPU or may be: it issues some steps at
    /// once and waits in another, so that only the mean says how long a step takes. null = no times.
    #[schemars(extend("enum" = or_null(TimedOn::ALL.map(TimedOn::name))))]
    pub timed_on: Option<&'static str>,
    /// How many times were measured, of one step or of several together.
    pub measured: Option<u64>,
    #[schemars(range(min = 0))]
    pub mean_ns: Option<f64>,
    #[schemars(range(min = 0))]
    pub std_ns: Option<f64>,
    pub median_ns: Option<u64>,
    pub p95_ns: Option<u64>,
    pub p99_ns: Option<u64>,
    pub min_ns: Option<u64>,
    pub max_ns: Option<u64>,
    /// How much longer the steps at the end are than those at the start, as a share of the mean.
    pub drift: Option<f64>,
    /// The mean time from call to call on the host. Where the host is ahead of the GPU, the last step is one of them, until the first wait
    /// after it: what the host issued ahead is done only then.
    #[schemars(range(min = 0))]
    pub host_mean_ns: Option<f64>,
    /// The standard deviation of those times, without that of the last step.
    #[schemars(range(min = 0))]
    pub host_std_ns: Option<f64>,
    /// Steps that took much longer than the others, the longest first; at most ten.
    #[schemars(length(max = 10))]
    pub outliers: Vec<Outlier>,
    /// Where twenty or more steps in a row took longer than the others, all at once, though they launched as much: more than 1.1 times
    /// as long. In their order; at most ten, those that took most time more.
    #[schemars(length(max = 10))]
    pub slow_stretches: Vec<SlowStretch>,
    /// What a step after the warm-up contains, on average.
    pub per_step: Contents,
    /// NVTX ranges that are opened in nearly every step, without the one that is the step.
    pub phases: Vec<Phase>,
    /// Step times over the run: the means of equally many steps each; at most sixty.
    #[schemars(length(max = 60))]
    pub plot_ns: Vec<u64>,
}

/// A step that took much longer than the others.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Outlier {
    /// The number of the step, from 0. If steps are timed on the GPU, what the host did before the first launch of the next step lies
    /// in this one: --step N..N+1 has both.
    pub step: u64,
    /// The time from the start of the collection (of the first process) to the start of the step.
    pub start_ns: u64,
    pub duration_ns: u64,
    /// The idle gaps of GPUs in it by cause, as in idle; those of several GPUs are added. Empty = none, or not kept.
    pub idle_by_cause_ns: BTreeMap<&'static str, u64>,
}

/// Steps in a row that took longer than the others.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SlowStretch {
    /// The number of the first of them, from 0: --step first_step..last_step selects them.
    pub first_step: u64,
    /// The number of the last of them.
    pub last_step: u64,
    /// The time from the start of the collection (of the first process) to the start of the first.
    pub start_ns: u64,
    /// The time that they took together.
    pub duration_ns: u64,
    /// Their mean.
    #[schemars(range(min = 0))]
    pub mean_ns: f64,
    /// How long a step takes otherwise: the median over the run of the means of a few steps each.
    pub usual_ns: u64,
    /// How many times as long the same kernels took on the GPU: launches of a kernel with one grid, block and shared memory size, and
    /// launches of a graph. About 1: the GPU was as fast as otherwise, and other things took longer. null = not known: most of their
    /// time was in others than run in other steps.
    #[schemars(range(min = 0))]
    pub same_kernels: Option<f64>,
}

/// What a step contains, on average.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Contents {
    /// The time in which the GPU was busy.
    #[schemars(range(min = 0))]
    pub busy_ns: f64,
    /// The time in which the GPU was idle.
    #[schemars(range(min = 0))]
    pub idle_ns: f64,
    /// The time in which it is not known which of both it was, as in identity. The three sum to the step.
    #[schemars(range(min = 0))]
    pub undecided_ns: f64,
    /// The idle time by cause, as in idle.
    pub idle_by_cause_ns: BTreeMap<&'static str, f64>,
    /// The number of copies and memsets.
    #[schemars(range(min = 0))]
    pub copies: f64,
    /// The bytes that they moved or set.
    #[schemars(range(min = 0))]
    pub copied_bytes: f64,
    /// The number of calls that synchronize.
    #[schemars(range(min = 0))]
    pub syncs: f64,
    /// The number of allocations of device memory.
    #[schemars(range(min = 0))]
    pub allocations: f64,
    #[schemars(range(min = 0))]
    pub allocated_bytes: f64,
    /// By how much the live device memory grows.
    pub growth_bytes: f64,
}

/// A phase of a step.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Phase {
    /// The NVTX range's name.
    pub name: String,
    /// How often it is opened in a step.
    #[schemars(range(min = 0))]
    pub per_step: f64,
    /// The host time in the phase per step.
    #[schemars(range(min = 0))]
    pub host_ns: f64,
}

impl Steps {
    /// Whether each step's own time is known, and not only the mean: unlike where the host may be ahead of the GPU.
    pub fn are_told_apart(&self) -> bool {
        self.timed_on != Some(TimedOn::HostAhead.name())
    }

    /// Returns the rows.
    pub fn of(steps: &steps::Steps) -> Steps {
        let (source, range) = match &steps.source {
            None => (None, None),
            Some(Source::Launches) => (Some(SourceKind::Launches), None),
            Some(Source::NvtxRange(name)) => (Some(SourceKind::Nvtx), Some(name.clone())),
            Some(Source::Graphs) => (Some(SourceKind::Graphs), None),
        };
        let time = steps.time;
        Steps {
            count: steps.count,
            source: source.map(SourceKind::name),
            range,
            pid: steps.pid,
            rank: steps.rank,
            tid: steps.tid,
            launches_per_step: steps.launches,
            warm_up: steps.warm_up,
            timed_on: steps.timed_on.map(TimedOn::name),
            measured: time.map(|time| time.measured),
            mean_ns: time.map(|time| time.mean),
            std_ns: time.map(|time| time.std),
            median_ns: time.map(|time| time.median),
            p95_ns: time.map(|time| time.p95),
            p99_ns: time.map(|time| time.p99),
            min_ns: time.map(|time| time.min),
            max_ns: time.map(|time| time.max),
            drift: time.map(|time| time.drift),
            host_mean_ns: steps.on_host.map(|time| time.mean),
            host_std_ns: steps.on_host.map(|time| time.std),
            outliers: steps.outliers.iter().map(Outlier::of).collect(),
            slow_stretches: steps.slow_stretches.iter().map(SlowStretch::of).collect(),
            per_step: Contents::of(&steps.contents),
            phases: steps.phases.iter().map(Phase::of).collect(),
            plot_ns: steps.plot.clone(),
        }
    }
}

impl Outlier {
    fn of(outlier: &steps::Outlier) -> Outlier {
        let steps::Outlier { step, start, duration, ref idle_by_cause } = *outlier;
        let by_cause = idle_by_cause.iter().map(|(cause, ns)| (cause.name(), *ns));
        Outlier { step, start_ns: start, duration_ns: duration, idle_by_cause_ns: by_cause.collect() }
    }
}

impl SlowStretch {
    fn of(stretch: &steps::SlowStretch) -> SlowStretch {
        SlowStretch {
            first_step: stretch.steps.start,
            last_step: stretch.steps.end.saturating_sub(1),
            start_ns: stretch.start,
            duration_ns: stretch.duration,
            mean_ns: stretch.mean(),
            usual_ns: stretch.usual,
            same_kernels: stretch.same_kernels,
        }
    }
}

impl Contents {
    fn of(of: &steps::Contents) -> Contents {
        let by_cause = |(cause, ns): (&Cause, &f64)| (cause.name(), *ns);
        Contents {
            busy_ns: of.busy,
            idle_ns: of.idle,
            undecided_ns: of.undecided,
            idle_by_cause_ns: of.idle_by_cause.iter().map(by_cause).collect(),
            copies: of.copies,
            copied_bytes: of.copied_bytes,
            syncs: of.syncs,
            allocations: of.allocations,
            allocated_bytes: of.allocated_bytes,
            growth_bytes: of.growth_bytes,
        }
    }
}

impl Phase {
    fn of(phase: &steps::Phase) -> Phase {
        Phase { name: phase.name.to_string(), per_step: phase.per_step, host_ns: phase.host }
    }
}
