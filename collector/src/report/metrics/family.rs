//! Which metrics are there?

use crate::model::named::named;

/// Whether a value only grows, by what each window adds, or is that of the latest window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It grows.
    Counter,
    /// It is the latest.
    Gauge,
}

/// What a value counts, and how it is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A number, as it is.
    Number,
    /// ns, printed as seconds with nine decimals, so that nothing is rounded.
    Nanoseconds,
}

/// Defines the metrics, each with its name, its unit, and what it is in a sentence.
macro_rules! families {
    ($($Family:ident = $name:literal, $Unit:ident: $help:literal;)+) => {
        named! {
            /// A metric: its values differ by their labels.
            pub enum Family { $(#[doc = $help] $Family = $name,)+ }
        }

        impl Family {
            /// Its unit.
            pub const fn unit(self) -> Unit {
                match self { $(Family::$Family => Unit::$Unit,)+ }
            }

            /// What it is.
            pub const fn help(self) -> &'static str {
                match self { $(Family::$Family => $help,)+ }
            }
        }
    };
}

// Their names are made as Prometheus advises: base units, the unit as a suffix, and `_total` for what grows
// (https://prometheus.io/docs/practices/naming/).
families! {
    Gpu = "gpuspy_gpu_seconds_total", Nanoseconds:
        "Time of a GPU by what it did for the process; the states sum to the time in which the process was observed.";
    Idle = "gpuspy_idle_seconds_total", Nanoseconds:
        "Time between the work of a process in which its GPUs were idle, by why; the causes sum to the idle time of its GPUs.";
    Finding = "gpuspy_finding_seconds_total", Nanoseconds:
        "Time that a program would save if what is found were changed, by the id of the finding.";
    FindingWindows = "gpuspy_finding_windows_total", Number:
        "Windows in which something was found, by the id of the finding: also what costs memory and no time.";
    Launches = "gpuspy_launches_total", Number:
        "Launches of kernels that succeeded, outside stream captures.";
    GraphLaunches = "gpuspy_graph_launches_total", Number:
        "Launches of CUDA graphs.";
    Copies = "gpuspy_copies_total", Number:
        "Copies and memsets outside CUDA graphs, by direction and by the kind of host memory.";
    CopiedBytes = "gpuspy_copied_bytes_total", Number:
        "Bytes of copies and memsets outside CUDA graphs.";
    Wait = "gpuspy_wait_seconds_total", Nanoseconds:
        "Time of host threads in calls that waited for the GPU, by the call.";
    FailedCalls = "gpuspy_failed_calls_total", Number:
        "Calls that returned an error.";
    OutOfMemory = "gpuspy_out_of_memory_total", Number:
        "Allocations that failed for lack of memory.";
    Allocations = "gpuspy_allocations_total", Number:
        "Allocations of memory by CUDA calls, by the kind of memory; those that a framework serves from its pool are none.";
    Memory = "gpuspy_memory_bytes", Number:
        "Memory that the process held at the end of the latest window, by kind.";
    MemoryPeak = "gpuspy_memory_peak_bytes", Number:
        "The most memory that the process held in the latest window, by kind.";
    Steps = "gpuspy_steps_total", Number:
        "Steps of the program, as the report of each window finds them.";
    Step = "gpuspy_step_seconds", Nanoseconds:
        "How long a step took in the latest window: the median, and what 95 % of them did not exceed.";
    Hanging = "gpuspy_hanging", Number:
        "Operations and calls that did not end for the time of --hang-after, and had not ended with the latest window.";
    Timed = "gpuspy_timed_launches_total", Number:
        "Launches of kernels with a GPU time of their own.";
    Dropped = "gpuspy_dropped_records_total", Number:
        "Records and GPU times that were lost, in the program or because a trace could not be written.";
    Overhead = "gpuspy_overhead_seconds_total", Nanoseconds:
        "Time that the agent took in the process: in hooks, of all threads together, and in its own thread.";
    WindowEnd = "gpuspy_window_end_timestamp_seconds", Number:
        "When the latest window ended that is counted here, in seconds since 1970.";
}

impl Family {
    /// Its kind.
    pub fn kind(self) -> Kind {
        if self.name().ends_with("_total") { Kind::Counter } else { Kind::Gauge }
    }
}
