//! Memory over time.

use super::usage::Use;
use std::collections::BTreeMap;

/// The most memory held in each of successive intervals of equal length.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryLine {
    /// The start of the first interval, ns since the collection began: 0, or the start of the selected time.
    pub from_ns: u64,
    /// The length of each interval, ns.
    pub bucket_ns: u64,
    /// The most that was held in each, bytes; empty if nothing was ever held.
    pub peaks: Vec<u64>,
}

/// The most intervals of a [`MemoryLine`]: about the width of a terminal.
const BUCKETS: u64 = 128;
/// The length of the first intervals, ns; it doubles from there.
const SHORTEST: u64 = 1_000;

/// A [`MemoryLine`] under construction. All times are ns since its start.
#[derive(Clone, Debug)]
pub struct Drawing {
    bucket_ns: u64,
    peaks: Vec<u64>,
    /// What was held at the last counted time.
    level: u64,
}

impl Default for Drawing {
    fn default() -> Self {
        Drawing { bucket_ns: SHORTEST, peaks: Vec::new(), level: 0 }
    }
}

impl Drawing {
    /// Changes what is held from `at` on to `level`, with `passing` more for no longer than that moment.
    pub fn change(&mut self, level: u64, passing: u64, at: u64) {
        self.hold(self.level, at);
        self.raise(level.saturating_add(passing));
        self.level = level;
    }

    /// Continues at the start of a selected part, with `level`. Of the time between two parts only the smaller of
    /// both levels is certain.
    pub fn enter(&mut self, level: u64, at: u64) {
        self.hold(self.level.min(level), at);
        self.raise(level);
        self.level = level;
    }

    /// Returns the line, which ends with what is held at the end.
    pub fn line(mut self, from_ns: u64, part: &Use, end: u64) -> MemoryLine {
        self.hold(part.live_bytes, end.saturating_sub(from_ns));
        let peaks = if part.peak_bytes > 0 { self.peaks } else { Vec::new() };
        MemoryLine { from_ns, bucket_ns: self.bucket_ns, peaks }
    }

    /// Extends the line to `at` with `level`. If that takes too many intervals, each two become one.
    fn hold(&mut self, level: u64, at: u64) {
        while at / self.bucket_ns >= BUCKETS {
            self.bucket_ns = self.bucket_ns.saturating_mul(2);
            self.peaks = self.peaks.chunks(2).map(|two| two.iter().copied().max().unwrap_or(0)).collect();
        }
        let needed = (at / self.bucket_ns) as usize + 1;
        if self.peaks.len() < needed {
            self.peaks.resize(needed, level);
        }
    }

    /// Raises the interval that the line has come to, to `level`.
    fn raise(&mut self, level: u64) {
        if let Some(last) = self.peaks.last_mut() {
            *last = level.max(*last);
        }
    }
}

/// The lines of all kinds.
#[derive(Clone, Debug, Default)]
pub struct Lines {
    /// ns since the collection began.
    pub from_ns: u64,
    /// Of device memory.
    pub device: Drawing,
    /// Of each kind, by [`Memory::name`](gpuspy_wire::record::Memory::name).
    pub by_kind: BTreeMap<&'static str, Drawing>,
}

impl Lines {
    /// Returns the line of a kind.
    pub fn of(&mut self, kind: &'static str) -> &mut Drawing {
        self.by_kind.entry(kind).or_default()
    }
}
