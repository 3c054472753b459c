//! What does a page show where a run has more than it can hold? How busy each row was in each bin of time, and with what.

use super::columns::{Columns, Packed};
use crate::hash::HashMap;
use std::io;

/// The most bins of a table. Beyond it, bins become twice as long, so that a run of hours takes no more than a moment.
const MOST_BINS: usize = 1 << 18;

/// Something that is drawn on a row from one moment to another.
pub trait Slice {
    /// The row.
    fn row(&self) -> u32;
    /// When it begins and ends: ns since the start of the run.
    fn span(&self) -> (i64, i64);
    /// The number of its name.
    fn name(&self) -> u32;
}

/// How busy rows were.
#[derive(Debug)]
pub struct Density {
    /// The length of a bin, ns.
    pub length: i64,
    /// The number of slices.
    pub slices: u64,
    /// By row, and number of the bin.
    bins: HashMap<(u32, i64), Bin>,
}

/// What a row did in a bin.
#[derive(Clone, Copy, Debug, Default)]
struct Bin {
    /// The time of slices in it, ns.
    busy: u64,
    /// The number of slices that begin in it.
    slices: u64,
    /// The name that has most of the time, if one has more than half of it (Boyer and Moore's vote), and else one of those
    /// that have much.
    name: u32,
    /// How far that name is ahead of the others, ns.
    ahead: u64,
}

impl Bin {
    fn add(&mut self, ns: u64, slices: u64, name: u32, ahead: u64) {
        self.busy = self.busy.saturating_add(ns);
        self.slices += slices;
        if self.name == name {
            self.ahead = self.ahead.saturating_add(ahead);
        } else if self.ahead >= ahead {
            self.ahead -= ahead;
        } else {
            (self.name, self.ahead) = (name, ahead - self.ahead);
        }
    }
}

impl Default for Density {
    fn default() -> Self {
        Density { length: 1024, slices: 0, bins: HashMap::default() }
    }
}

impl Density {
    /// Adds a slice.
    pub fn add(&mut self, slice: &impl Slice) {
        let (row, name, (begin, end)) = (slice.row(), slice.name(), slice.span());
        self.slices += 1;
        let mut at = begin;
        loop {
            let bin = at.div_euclid(self.length);
            let next = end.min((bin + 1).saturating_mul(self.length));
            let ns = next.saturating_sub(at).max(0).unsigned_abs();
            // A slice without length counts, too.
            self.bins.entry((row, bin)).or_default().add(ns, u64::from(at == begin), name, ns);
            while self.bins.len() > MOST_BINS {
                self.merge();
            }
            if next >= end {
                return;
            }
            at = next;
        }
    }

    fn merge(&mut self) {
        self.length *= 2;
        let fine = std::mem::take(&mut self.bins);
        for ((row, bin), Bin { busy, slices, name, ahead }) in fine {
            self.bins.entry((row, bin.div_euclid(2))).or_default().add(busy, slices, name, ahead);
        }
    }

    /// The number of bins.
    pub fn len(&self) -> usize {
        self.bins.len()
    }

    /// Returns the bins as a table: by row, and in order.
    ///
    /// # Errors
    /// Fails if compression does.
    pub fn packed(&self) -> io::Result<Packed> {
        let mut bins: Vec<((u32, i64), Bin)> = self.bins.iter().map(|(at, bin)| (*at, *bin)).collect();
        bins.sort_by_key(|(at, _)| *at);
        let mut columns = Columns::new();
        columns.add("row", bins.iter().map(|((row, _), _)| i64::from(*row)))?;
        columns.add("bin", bins.iter().map(|((_, bin), _)| *bin))?;
        columns.add("busy", bins.iter().map(|(_, bin)| bin.busy as i64))?;
        columns.add("slices", bins.iter().map(|(_, bin)| bin.slices as i64))?;
        columns.add("name", bins.iter().map(|(_, bin)| i64::from(bin.name)))?;
        columns.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::super::columns::tests::unpacked;
    use super::*;

    struct Block(u32, i64, i64, u32);

    impl Slice for Block {
        fn row(&self) -> u32 {
            self.0
        }

        fn span(&self) -> (i64, i64) {
            (self.1, self.2)
        }

        fn name(&self) -> u32 {
            self.3
        }
    }

    #[test]
    fn bins_sum_to_the_slices_however_long_the_run_is() {
        let mut density = Density::default();
        let (mut at, mut busy) = (-5_000, 0);
        for slice in 0..600_000i64 {
            let ns = slice % 7_000;
            density.add(&Block((slice % 3) as u32, at, at + ns, 1 + u32::from(slice % 10 == 0)));
            (at, busy) = (at + 9_000, busy + ns);
        }
        assert!(density.len() <= MOST_BINS && density.slices == 600_000);
        let columns = unpacked(&density.packed().unwrap(), density.len());
        assert_eq!(columns["busy"].iter().sum::<i64>(), busy);
        assert_eq!(columns["slices"].iter().sum::<i64>(), 600_000);
        let of_most = columns["name"].iter().filter(|name| **name == 1).count();
        assert!(of_most > density.len() / 2, "a tenth of the slices has another name");
    }
}
