//! The questions a user asks, one module each.
//!
//! Every analysis is a fold over the model's [`Event`]s with bounded state: nothing holds a trace. Totals and identities
//! are exact, medians are [sketches](quantile). What is not known exactly is an [`Estimate`](estimate::Estimate).
//!
//! - [`coverage`]: what was seen and what was not?
//! - [`identity`], [`gaps`]: where did the GPU's time go, when had it nothing to do? (both read from one [`timeline`])
//! - [`graphs`]: what ran inside graph launches?
//! - [`kernels`], [`transfers`], [`memory`], [`calls`]: which work, which memory, which calls?
//! - [`startup`]: why did it take so long until the GPU had something to do? [`waits`]: which calls waited for it unasked?
//! - [`ranges`]: what did the program say it was doing, and what did that cost?
//! - [`shapes`]: in which shapes were kernels launched, and how well do those fill a GPU?
//! - [`together`]: what did several processes of one machine do, on one line?
//! - [`overhead`]: what did looking cost? [`windows`]: how much was timed, and what did that cost?
//! - [`extrapolate`], [`whole`]: what did all take, and where did all the time go, when only some was timed?

pub mod calls;
pub mod coverage;
pub mod devices;
pub mod durations;
pub mod estimate;
pub mod extrapolate;
pub mod gaps;
pub mod graphs;
pub mod identity;
pub mod kernels;
pub mod memory;
pub mod merge;
pub mod overhead;
pub mod owners;
pub mod pipeline;
pub mod quantile;
pub mod ranges;
pub mod scope;
pub mod shapes;
pub mod startup;
pub mod summary;
pub mod timeline;
pub mod together;
pub mod transfers;
pub mod waits;
pub mod whole;
pub mod windows;

use crate::model::filter::Filter;
use crate::model::gpu_clock::Clocks;
use crate::trace;
use crate::trace::record::{Names, Status};
pub use pipeline::{Analysis, Tables, process};
pub use summary::{Line, ProcessInfo, ProcessReport, lines, sort};
pub use together::{Member, together};

/// What reading a trace lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Damage {
    /// Chunks that could not be read.
    pub chunks_lost: u64,
    /// Chunks that were refused: they claim more than a file of this size can hold.
    pub chunks_refused: u64,
    /// Records that were in them, as far as that is known.
    pub records_lost: u64,
    /// GPU times that were in them, as far as that is known.
    pub times_lost: u64,
    /// The file ends inside a chunk.
    pub cut: bool,
}

impl From<trace::Damage> for Damage {
    fn from(damage: trace::Damage) -> Damage {
        let trace::Damage { chunks_lost, chunks_refused, cut, .. } = damage;
        let (records_lost, times_lost) = (damage.records_lost_at_least, damage.times_lost_at_least);
        Damage { chunks_lost, chunks_refused, records_lost, times_lost, cut }
    }
}

/// One process's trace, opened.
#[derive(Debug)]
pub struct Input<'a, Records> {
    /// Where it was read from.
    pub path: String,
    /// Its texts.
    pub names: &'a Names,
    /// Its last status, if it has one.
    pub status: Option<&'a Status>,
    /// What reading it lost.
    pub damage: Damage,
    /// Its clocks, by a [`Survey`](crate::model::survey::Survey) of the same records.
    pub clocks: &'a Clocks,
    /// What of it is asked for.
    pub filter: &'a Filter,
    /// Its records, in time order.
    pub records: Records,
}
