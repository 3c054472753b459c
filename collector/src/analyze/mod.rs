//! The analyses: one module for each.
//!
//! Every analysis takes the model's [`Event`](crate::model::Event)s one by one and keeps bounded state: none holds a
//! whole trace. Totals and the parts of GPU time are exact, medians are [sketches](quantile). What is not known
//! exactly is an [`Estimate`](estimate::Estimate).
//!
//! - [`analysis`]: the trait that analyses implement; [`pipeline`]: their list, and the pass over the records; [`scope`]:
//!   what the record filter lets through of an event; [`merge`]: how tables of several processes add up
//! - [`reading`]: the records' meanings, ahead on a thread of their own
//! - [`coverage`]: what was observed and what was not
//! - [`devices`]: where each GPU's time went, and its idle gaps; [`identity`] defines the parts of the time and
//!   [`gaps`] the gaps, both computed from one [`timeline`]; [`bins`]: what ran when
//! - [`idle`]: why the GPUs were idle; [`steps`]: the steps of the program
//! - [`kernels`], [`graphs`], [`transfers`]: the work; [`shapes`]: the shapes that kernels were launched in, and how
//!   well they fill a GPU
//! - [`copy_sites`]: which calls copy; [`product_copies`]: copies before matrix products
//! - [`repeated_uploads`]: copies of the same data; [`device_switches`]: threads that change the GPU
//! - [`legacy_stream`]: what waits for the legacy default stream
//! - [`memory`]: device and host memory; [`owners`]: the libraries that hold it
//! - [`calls`]: API calls; [`call_class`]: what a call is for; [`waits`]: calls that waited for the GPU though they are no synchronize calls
//! - [`gpu_errors`]: the error with which a GPU stopped
//! - [`startup`]: why it took so long until the GPU had something to do
//! - [`ranges`]: NVTX ranges and markers
//! - [`source_lines`]: the lines of the program, by what they cause; [`source`]: where a call was made
//! - [`mod@together`]: several processes on one machine
//! - [`collectives`]: when the communication kernels of a process ran; [`ranks`]: which rank the others wait for
//! - [`last_work`]: what a process launched last, and what its GPUs did not end
//! - [`overhead`]: what profiling cost; [`windows`]: how much was timed, and what that cost
//! - [`pending`]: operations that may never have run
//! - [`extrapolate`], [`whole`]: the time of all operations, and the parts of all the time, if only some was timed
//! - [`summary`]: which process a report is about, and how the reports of a run add up
#![forbid(unsafe_code)]

pub mod analysis;
pub mod bins;
pub mod call_class;
pub mod calls;
pub mod collectives;
pub mod copy_sites;
pub mod coverage;
pub mod device_switches;
pub mod devices;
pub mod durations;
pub mod estimate;
pub mod extrapolate;
pub mod gaps;
pub mod gpu_errors;
pub mod graphs;
pub mod identity;
pub mod idle;
pub mod kernels;
pub mod last_work;
pub mod legacy_stream;
pub mod memory;
pub mod merge;
pub mod overhead;
pub mod owners;
pub mod pending;
pub mod pipeline;
pub mod product_copies;
pub mod quantile;
pub mod ranges;
pub mod ranks;
pub mod reading;
pub mod repeated_uploads;
pub mod scope;
pub mod shapes;
pub mod source;
pub mod source_lines;
pub mod startup;
pub mod steps;
pub mod summary;
pub mod timeline;
pub mod together;
pub mod transfers;
pub mod unsteady;
pub mod waits;
pub mod whole;
pub mod windows;

use crate::model::clocks::Clocks;
use crate::model::filter::Filter;
use crate::trace;
use crate::trace::record::{Names, Status};
pub use analysis::{Analysis, Line};
pub use pipeline::{Tables, Watch, process, watched};
pub use summary::{ProcessInfo, ProcessReport, RunSum, lines, processes, reduce_line, sort};
pub use together::{Member, together};

/// What reading a trace lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Damage {
    /// Chunks that could not be read.
    pub chunks_lost: u64,
    /// Chunks that were refused because they claim more than a file of this size can contain.
    pub chunks_refused: u64,
    /// Records in lost chunks: at least this many.
    pub records_lost: u64,
    /// GPU times in lost chunks: at least this many.
    pub times_lost: u64,
    /// What is at its end is no chunk any more: nobody knows how many records were there.
    pub end_unread: bool,
    /// The file ends inside a chunk.
    pub cut: bool,
    /// Its writer is gone and did not come to the end.
    pub unfinished: bool,
    /// Why its writer could not write a part of it: the system's error number.
    pub write_error: Option<i32>,
}

impl Damage {
    /// Whether nothing is missing but the file's end: the chunk in which it ends is counted as lost.
    pub fn is_only_cut(&self) -> bool {
        self.cut && self.chunks_lost <= 1 && self.chunks_refused == 0
    }
}

impl From<trace::Damage> for Damage {
    fn from(damage: trace::Damage) -> Damage {
        let trace::Damage { chunks_lost, chunks_refused, end_unread, cut, unfinished, write_error, .. } =
            damage;
        let (records_lost, times_lost) = (damage.records_lost_at_least, damage.times_lost_at_least);
        Damage {
            chunks_lost,
            chunks_refused,
            records_lost,
            times_lost,
            end_unread,
            cut,
            unfinished,
            write_error,
        }
    }
}

/// The opened trace of a process.
#[derive(Debug)]
pub struct Input<'a, Records> {
    /// The path that it was read from.
    pub path: String,
    /// Its texts.
    pub names: &'a Names,
    /// Its last status, if it has one.
    pub status: Option<&'a Status>,
    /// What reading it lost.
    pub damage: Damage,
    /// Its clocks, from a [`Survey`](crate::model::survey::Survey) of the same records.
    pub clocks: &'a Clocks,
    /// The filter that selects a part of it.
    pub filter: &'a Filter,
    /// Its records, in time order.
    pub records: Records,
}
