//! Kernels by name.

use super::super::names::demangle;
use super::numbers::{Estimate, HostTimes};
use super::shapes::Shape;
use super::source_lines::MainLine;
use crate::analyze::durations::Durations;
use crate::analyze::kernels;
use crate::analyze::source_lines::SourceLines;
use schemars::JsonSchema;
use serde::Serialize;

/// The launches of one kernel.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Kernel {
    /// The demangled name.
    pub name: String,
    /// The name as the app's binary has it.
    pub symbol: String,
    /// The number of launches outside stream captures.
    pub count: u64,
    /// The number of those with a GPU time.
    pub timed: u64,
    /// The number of executions inside graphs, which count leaves out: the launches of each graph, times its nodes of
    /// this name.
    pub in_graphs: u64,
    /// The sum of the GPU times of all launches.
    pub total_ns: Option<Estimate>,
    /// The mean of the GPU times of all launches.
    pub avg_ns: Option<Estimate<f64>>,
    /// The median of the GPU times of the timed launches, which need not be typical of the others.
    pub median_ns: Option<Estimate>,
    /// The shortest of the timed launches.
    pub min_ns: Option<Estimate>,
    /// The longest of the timed launches.
    pub max_ns: Option<Estimate>,
    /// The standard deviation of the GPU times of the timed launches, of the population.
    pub stddev_ns: Option<Estimate<f64>>,
    /// The host's time in the calls of the timed launches; a call that made several launches counts with its last.
    pub api: HostTimes,
    pub queue: Queue,
    /// Of its launches, and of its runs in graphs, which have the lines that captured it.
    #[serde(flatten)]
    pub main: MainLine,
    /// Of its captured launches; only on the screen.
    #[serde(skip)]
    pub captured: MainLine,
    #[serde(flatten)]
    pub shape: Shape,
}

/// The time from the return of the launch call to the start on the GPU, for timed launches; 0 if the kernel started
/// before the return.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Queue {
    /// The sum of these times.
    pub total_ns: Option<Estimate>,
    /// The mean of these times.
    pub avg_ns: Option<Estimate<f64>>,
    /// The median of these times.
    pub median_ns: Option<Estimate>,
    /// The shortest of these times.
    pub min_ns: Option<Estimate>,
    /// The longest of these times.
    pub max_ns: Option<Estimate>,
    /// The standard deviation of these times, of the population.
    pub stddev_ns: Option<Estimate<f64>>,
}

impl Kernel {
    /// Returns the row.
    pub fn of(kernel: &kernels::Kernel, lines: &SourceLines) -> Kernel {
        let durations = &kernel.durations;
        Kernel {
            name: demangle(&kernel.symbol),
            symbol: kernel.symbol.clone(),
            count: kernel.count,
            timed: durations.count(),
            in_graphs: kernel.in_graphs,
            total_ns: kernel.total().map(Into::into),
            avg_ns: kernel.mean().map(Into::into),
            median_ns: durations.median().map(Into::into),
            min_ns: durations.min().map(Into::into),
            max_ns: durations.max().map(Into::into),
            stddev_ns: durations.stddev().map(Into::into),
            api: HostTimes::of(&kernel.api),
            queue: Queue::of(&kernel.queue),
            main: MainLine::of(lines.of_runs(kernel)),
            captured: MainLine::of(lines.of_captured(&kernel.symbol)),
            shape: Shape::of(&kernel.shapes),
        }
    }
}

impl Queue {
    fn of(queue: &Durations) -> Queue {
        Queue {
            total_ns: queue.total().map(Into::into),
            avg_ns: queue.mean().map(Into::into),
            median_ns: queue.median().map(Into::into),
            min_ns: queue.min().map(Into::into),
            max_ns: queue.max().map(Into::into),
            stddev_ns: queue.stddev().map(Into::into),
        }
    }
}
