//! A gap that has been closed, and a place of the program that a part of it belongs to.

use super::super::estimate::Estimate;
use super::Next;
use super::history::WaitPlace;
use crate::model::stacks::Caller;

/// A place of the program, before it is named.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Place {
    /// The number of the process on the line.
    pub process: u32,
    /// The leading thread's number in the process.
    pub thread: u32,
    /// The number of the API that it was in; `None` outside CUDA.
    pub api: Option<u16>,
    /// Where its call was made; outside CUDA, the call that ended the gap, or the last one that loaded code.
    pub caller: Caller,
    /// The text of its NVTX range; 0 = none.
    pub range: u32,
    /// The wait that it is owed to.
    pub waited: Option<WaitPlace>,
    /// The wait behind that one which would wait in its place.
    pub then_waited: Option<WaitPlace>,
    /// Whether the part of a gap is [`LONG`](super::LONG) or longer.
    pub is_long: bool,
    /// Outside CUDA, what the thread went on with.
    pub next: Next,
}

/// A gap that has been closed. Times are host ns on the line.
#[derive(Clone, Copy, Debug)]
pub struct Closed {
    /// Its start, by the best estimate.
    pub from: i64,
    /// Its end, by the best estimate.
    pub to: i64,
    /// The earliest that it can have begun, and the latest that it can have ended, by the operations beside it.
    pub widest: (i64, i64),
    /// Its counted length.
    pub duration: Estimate<u64>,
    /// How far the clock allows its place to be off, ns.
    pub off_by: u64,
    /// Whether it lies between two operations. The time at the start of the span does not.
    pub is_gap: bool,
}

impl Closed {
    /// Returns 1 if it counts as a gap.
    pub fn count(&self) -> u64 {
        u64::from(self.is_gap)
    }
}
