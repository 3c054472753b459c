//! The time until the first kernel ran and until the program was steady.

use super::numbers::Estimate;
use super::source_lines::MainLine;
use crate::analyze::source::Source;
use crate::analyze::startup::{self, Calls, Division, FirstLaunches, Part};
use crate::model::stacks::Frame;
use schemars::JsonSchema;
use serde::Serialize;

/// From the entry of a process's first CUDA call to the start of its first kernel (or graph) on the GPU, and from there
/// until it is steady; of several processes, sums. Of the filters, only those on time apply.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Startup {
    /// The number of processes that ran a kernel.
    pub processes: u64,
    /// The number of those whose first kernel is not timed: their start-up ends when its call returned.
    pub untimed: u64,
    /// The time from the first call to the first kernel.
    pub first_kernel_ns: Estimate,
    /// What that time was spent on; the parts sum to the value of first_kernel_ns.
    pub until_first_kernel_ns: Parts,
    /// The number of processes that became steady: 100 launches in a row were of kernels that had been launched before.
    /// The others have no warm-up.
    pub steady: u64,
    /// The time from the first kernel to the first launch of those 100.
    pub warm_up_ns: u64,
    /// What that time was spent on; the parts sum to warm_up_ns.
    pub until_steady_ns: Parts,
    /// Calls that loaded modules or libraries of kernels, whenever they were made, by the library that made them; null
    /// = not known. Not what a runtime loads inside its own calls.
    pub loads: Vec<Loads>,
    pub first_launches: First,
    /// CUDA_MODULE_LOADING as it was at the first call; null = not set, or processes differ.
    pub module_loading: Option<String>,
}

/// Host ns, each counted once: where several threads were in calls, for the first of these parts (in the order context,
/// load, link, launch, kernel_lookup, memory, copy, wait, other); own is time outside CUDA calls.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Parts {
    /// Initializing the driver and creating contexts.
    pub context: u64,
    /// Loading modules and libraries of kernels.
    pub load: u64,
    /// Linking modules and libraries of kernels.
    pub link: u64,
    /// Launching kernels and graphs.
    pub launch: u64,
    /// Looking up kernels, and reading and setting their attributes.
    pub kernel_lookup: u64,
    /// Allocating, registering and freeing memory.
    pub memory: u64,
    /// Copies and memsets.
    pub copy: u64,
    /// Synchronization.
    pub wait: u64,
    /// Other CUDA calls.
    pub other: u64,
    /// Time outside CUDA calls.
    pub own: u64,
}

/// The loads that one library called, at one line of the program.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Loads {
    /// The path of the library; null = not known.
    pub library: Option<String>,
    /// The line of the program that called, as file:line; null = not known.
    pub line: Option<String>,
    /// The number of calls.
    pub count: u64,
    /// The sum of their times on the host.
    pub host_ns: u64,
}

/// The first launch of each kernel in each context, whenever it was: the time of its call.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "FirstLaunches")]
pub struct First {
    /// The number of first launches.
    pub count: u64,
    /// The host time of their calls.
    pub host_ns: u64,
    /// The number of those whose kernel was launched again.
    pub compared: u64,
    /// The host time of the compared ones.
    pub compared_host_ns: u64,
    /// The time that the compared ones took beyond the median of their kernel's next launches, of which at most 15
    /// count.
    pub excess_ns: u64,
    #[serde(flatten)]
    pub main: MainLine,
}

impl Startup {
    /// Returns the row.
    pub fn of(startup: &startup::Startup) -> Startup {
        Startup {
            processes: startup.processes,
            untimed: startup.untimed,
            first_kernel_ns: startup.first_kernel.into(),
            until_first_kernel_ns: Parts::of(&startup.until_kernel),
            steady: startup.steady,
            warm_up_ns: startup.until_steady.whole(),
            until_steady_ns: Parts::of(&startup.until_steady),
            loads: startup.loads.iter().map(Loads::of).collect(),
            first_launches: First::of(&startup.first_launches),
            module_loading: startup.module_loading.clone(),
        }
    }
}

impl Parts {
    fn of(division: &Division) -> Parts {
        Parts {
            context: division.of(Part::Context),
            load: division.of(Part::Load),
            link: division.of(Part::Link),
            launch: division.of(Part::Launch),
            kernel_lookup: division.of(Part::Function),
            memory: division.of(Part::Memory),
            copy: division.of(Part::Copy),
            wait: division.of(Part::Wait),
            other: division.of(Part::Other),
            own: division.of(Part::Own),
        }
    }

    /// Returns one part, in ns.
    pub fn part(&self, part: Part) -> u64 {
        match part {
            Part::Context => self.context,
            Part::Load => self.load,
            Part::Link => self.link,
            Part::Launch => self.launch,
            Part::Function => self.kernel_lookup,
            Part::Memory => self.memory,
            Part::Copy => self.copy,
            Part::Wait => self.wait,
            Part::Other => self.other,
            Part::Own => self.own,
        }
    }

    /// Returns the sum of all parts, in ns.
    pub fn whole(&self) -> u64 {
        Part::ALL.into_iter().fold(0, |sum, part| sum.saturating_add(self.part(part)))
    }
}

impl Loads {
    fn of((source, calls): (&Source, &Calls)) -> Loads {
        let line = source.line.as_ref().map(Frame::place);
        Loads { library: source.library.clone(), line, count: calls.count, host_ns: calls.host_ns }
    }
}

impl First {
    fn of(first: &FirstLaunches) -> First {
        First {
            count: first.all.count,
            host_ns: first.all.host_ns,
            compared: first.compared.count,
            compared_host_ns: first.compared.host_ns,
            excess_ns: first.excess_ns,
            main: MainLine::of(first.lines.main()),
        }
    }
}
