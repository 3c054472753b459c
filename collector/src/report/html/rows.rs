//! The rows of the timeline's tables: each slice by itself, or, where there are too many, how busy each row was.

use super::columns::{Columns, Packed};
use super::density::{Density, Slice};
use crate::hash::HashMap;
use std::io;

/// The most slices of a table that are in a page each by itself.
pub const MOST_SLICES: usize = 1_000_000;

/// For rows that refer to nothing.
pub const NONE: u32 = u32::MAX;

/// The slices of a table.
#[derive(Debug)]
pub enum Slices<T> {
    /// Each by itself.
    Each(Vec<T>),
    /// Too many for that.
    Bins(Density),
}

impl<T: Slice> Slices<T> {
    /// Adds a slice, and returns its number; [`NONE`] if slices have none any more.
    pub fn push(&mut self, slice: T) -> u32 {
        if let Slices::Each(slices) = self
            && slices.len() >= MOST_SLICES
        {
            let mut density = Density::default();
            slices.iter().for_each(|slice| density.add(slice));
            *self = Slices::Bins(density);
        }
        match self {
            Slices::Each(slices) => {
                slices.push(slice);
                slices.len() as u32 - 1
            }
            Slices::Bins(density) => {
                density.add(&slice);
                NONE
            }
        }
    }

    /// Returns a slice that was added.
    pub fn get_mut(&mut self, number: u32) -> Option<&mut T> {
        match self {
            Slices::Each(slices) => slices.get_mut(number as usize),
            Slices::Bins(_) => None,
        }
    }

    /// The number of all slices.
    pub fn len(&self) -> u64 {
        match self {
            Slices::Each(slices) => slices.len() as u64,
            Slices::Bins(density) => density.slices,
        }
    }
}

/// An operation on a stream. Times are host ns since the start of the run.
#[derive(Clone, Copy, Debug)]
pub struct OperationRow {
    pub stream: u32,
    pub name: u32,
    pub call: u32,
    pub shape: u32,
    pub correlation: u64,
    /// Bytes of a transfer; kernels of a graph, launches of a burst or a run.
    pub amount: u64,
    pub start: i64,
    pub start_bounds: (i64, i64),
    pub finish: i64,
    pub finish_bounds: (i64, i64),
    /// Best value, lower and upper bound.
    pub duration: [u64; 3],
}

/// A call of the program, or several queries in a row.
#[derive(Clone, Copy, Debug)]
pub struct CallRow {
    pub thread: u32,
    pub api: u32,
    pub line: u32,
    /// Why its operation has no GPU time; 0 = it has one, or there is no operation.
    pub untimed: u32,
    pub calls: u32,
    pub begin: i64,
    pub end: i64,
}

/// An NVTX range, or a marker, which has no length.
#[derive(Clone, Copy, Debug)]
pub struct RangeRow {
    pub thread: u32,
    pub name: u32,
    pub begin: i64,
    pub end: i64,
}

/// The start of a step.
#[derive(Clone, Copy, Debug)]
pub struct StepRow {
    pub process: u32,
    pub number: u64,
    pub begin: i64,
}

impl Slice for OperationRow {
    fn row(&self) -> u32 {
        self.stream
    }

    fn span(&self) -> (i64, i64) {
        (self.start, self.finish)
    }

    fn name(&self) -> u32 {
        self.name
    }
}

impl Slice for CallRow {
    fn row(&self) -> u32 {
        self.thread
    }

    fn span(&self) -> (i64, i64) {
        (self.begin, self.end)
    }

    fn name(&self) -> u32 {
        self.api
    }
}

impl Slice for RangeRow {
    fn row(&self) -> u32 {
        self.thread
    }

    fn span(&self) -> (i64, i64) {
        (self.begin, self.end)
    }

    fn name(&self) -> u32 {
        self.name
    }
}

impl Slice for StepRow {
    fn row(&self) -> u32 {
        self.process
    }

    fn span(&self) -> (i64, i64) {
        (self.begin, self.begin)
    }

    fn name(&self) -> u32 {
        0
    }
}

/// A number of another table, or -1 for none.
fn number(number: u32) -> i64 {
    if number == NONE { -1 } else { i64::from(number) }
}

/// Numbers that are written as distances from what was written before them.
#[derive(Default)]
struct Distances(HashMap<u32, i64>);

impl Distances {
    /// Returns the distance from the last `next` of this row.
    fn of(&mut self, row: u32, value: i64, next: i64) -> i64 {
        value - self.0.insert(row, next).unwrap_or(0)
    }
}

/// Returns operations as a table: times as distances from the end of the operation before on the stream, and bounds as
/// distances from what they bound. What the bounds of the duration usually are follows from the other bounds; they are
/// distances from that.
///
/// # Errors
/// Fails if compression does.
pub fn operations(rows: &[OperationRow]) -> io::Result<Packed> {
    let (mut gaps, mut calls, mut correlations) = <(Distances, Distances, Distances)>::default();
    let mut columns = Columns::new();
    let mut add = |name, of: &mut dyn FnMut(&OperationRow) -> i64| columns.add(name, rows.iter().map(of));
    add("stream", &mut |row| i64::from(row.stream))?;
    add("name", &mut |row| i64::from(row.name))?;
    // Most operations have the call after that of the operation before.
    add("call", &mut |row| calls.of(0, number(row.call), number(row.call)))?;
    add("shape", &mut |row| number(row.shape))?;
    add("correlation", &mut |row| {
        correlations.of(row.stream, row.correlation as i64, row.correlation as i64)
    })?;
    add("amount", &mut |row| row.amount as i64)?;
    add("gap", &mut |row| gaps.of(row.stream, row.start, row.finish))?;
    add("length", &mut |row| row.finish - row.start)?;
    add("start_lo", &mut |row| row.start - row.start_bounds.0)?;
    add("start_hi", &mut |row| row.start_bounds.1 - row.start)?;
    add("finish_lo", &mut |row| row.finish - row.finish_bounds.0)?;
    add("finish_hi", &mut |row| row.finish_bounds.1 - row.finish)?;
    add("took", &mut |row| row.duration[0] as i64 - (row.finish - row.start))?;
    add("took_lo", &mut |row| row.duration[1] as i64 - (row.finish_bounds.0 - row.start_bounds.1).max(0))?;
    add("took_hi", &mut |row| row.duration[2] as i64 - (row.finish_bounds.1 - row.start_bounds.0))?;
    columns.finish()
}

/// Returns calls as a table: times as distances from the end of the call before on the thread.
///
/// # Errors
/// Fails if compression does.
pub fn calls(rows: &[CallRow]) -> io::Result<Packed> {
    let mut gaps = Distances::default();
    let mut columns = Columns::new();
    let mut add = |name, of: &mut dyn FnMut(&CallRow) -> i64| columns.add(name, rows.iter().map(of));
    add("thread", &mut |row| i64::from(row.thread))?;
    add("api", &mut |row| i64::from(row.api))?;
    add("line", &mut |row| number(row.line))?;
    add("untimed", &mut |row| i64::from(row.untimed))?;
    add("calls", &mut |row| i64::from(row.calls))?;
    add("gap", &mut |row| gaps.of(row.thread, row.begin, row.end))?;
    add("length", &mut |row| row.end - row.begin)?;
    columns.finish()
}

/// Returns ranges as a table: times as distances from the end of the range before.
///
/// # Errors
/// Fails if compression does.
pub fn ranges(rows: &[RangeRow]) -> io::Result<Packed> {
    let mut gaps = Distances::default();
    let mut columns = Columns::new();
    let mut add = |name, of: &mut dyn FnMut(&RangeRow) -> i64| columns.add(name, rows.iter().map(of));
    add("thread", &mut |row| i64::from(row.thread))?;
    add("name", &mut |row| i64::from(row.name))?;
    add("gap", &mut |row| gaps.of(row.thread, row.begin, row.end))?;
    add("length", &mut |row| row.end - row.begin)?;
    columns.finish()
}

/// Returns the starts of steps as a table: as distances from the step before.
///
/// # Errors
/// Fails if compression does.
pub fn steps(rows: &[StepRow]) -> io::Result<Packed> {
    let mut gaps = Distances::default();
    let mut columns = Columns::new();
    columns.add("process", rows.iter().map(|row| i64::from(row.process)))?;
    columns.add("number", rows.iter().map(|row| row.number as i64))?;
    columns.add("gap", rows.iter().map(|row| gaps.of(row.process, row.begin, row.begin)))?;
    columns.finish()
}
