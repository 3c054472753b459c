//! Rows of a table, collected until there are enough of them to be encoded.

use super::layout::{Cell, Layout};
use crate::hash::HashMap;
use std::hash::Hash;

/// The rows that are encoded together.
const BLOCK: usize = 16_384;

/// The rows of a row group of a file, at most.
const MOST_ROWS: usize = 1_000_000;

/// The entries of a group of columns in a row group of a file, at most, and about how many bytes they take.
const MOST_ENTRIES: usize = 131_072;
const MOST_BYTES: usize = 16 << 20;

/// The numbers of a column: those that are known, and for each row whether its number is (1) or not (0).
#[derive(Debug, Default)]
pub(super) struct Numbers {
    pub known: Vec<i64>,
    pub levels: Vec<i16>,
}

/// Which entries of a group of columns the rows have.
#[derive(Debug, Default)]
pub(super) struct Shared {
    pub entries: Vec<u32>,
    /// The entries that no row had before.
    pub fresh: Vec<Vec<Cell>>,
}

/// Rows that follow each other in a file.
#[derive(Debug, Default)]
pub(super) struct Block {
    pub rows: usize,
    pub own: Vec<Numbers>,
    pub groups: Vec<Shared>,
    /// Whether the row group of the file ends with them.
    pub ends: bool,
}

/// The rows that were not taken yet.
#[derive(Debug)]
pub(super) struct Sheet {
    block: Block,
    rows_in_group: usize,
    /// The number of entries of each group of columns in this row group.
    entries: Vec<usize>,
    bytes: usize,
    /// The number of the row group.
    generation: u64,
}

/// The entries of a group of columns by what they were made from.
#[derive(Debug)]
pub(super) struct Entries<K> {
    generation: u64,
    numbers: HashMap<K, u32>,
    last: Option<(K, u32)>,
}

impl<K> Default for Entries<K> {
    fn default() -> Self {
        Entries { generation: 0, numbers: HashMap::default(), last: None }
    }
}

impl Sheet {
    /// No rows of a table.
    pub fn new(layout: &Layout) -> Sheet {
        let block = Block::of(layout.own, layout.groups.len());
        let entries = vec![0; layout.groups.len()];
        Sheet { block, rows_in_group: 0, entries, bytes: 0, generation: 1 }
    }

    /// Returns the number of the entry that is made from `key`; `cells` makes it if it is not there yet.
    pub fn entry<K: Copy + Eq + Hash>(
        &mut self,
        group: usize,
        known: &mut Entries<K>,
        key: K,
        cells: impl FnOnce() -> Vec<Cell>,
    ) -> u32 {
        if known.generation != self.generation {
            known.numbers.clear();
            known.last = None;
            known.generation = self.generation;
        }
        if let Some((_, number)) = known.last.as_ref().filter(|(last, _)| *last == key) {
            return *number;
        }
        let number = match known.numbers.get(&key) {
            Some(number) => *number,
            None => {
                let number = self.fresh(group, cells());
                known.numbers.insert(key, number);
                number
            }
        };
        known.last = Some((key, number));
        number
    }

    /// Adds an entry that no other row will have, and returns its number.
    pub fn fresh(&mut self, group: usize, cells: Vec<Cell>) -> u32 {
        let number = self.entries[group];
        self.entries[group] += 1;
        self.bytes += cells.iter().map(Cell::bytes).sum::<usize>();
        self.block.groups[group].fresh.push(cells);
        number as u32
    }

    /// Adds a row: its own numbers, and its entries in the groups.
    pub fn row(&mut self, own: &[Option<i64>], entries: &[u32]) {
        for (column, number) in self.block.own.iter_mut().zip(own) {
            column.known.extend(*number);
            column.levels.push(i16::from(number.is_some()));
        }
        for (group, entry) in self.block.groups.iter_mut().zip(entries) {
            group.entries.push(*entry);
        }
        self.block.rows += 1;
        self.rows_in_group += 1;
    }

    /// Returns the rows, if there are enough.
    pub fn due(&mut self) -> Option<Block> {
        let is_full = self.rows_in_group >= MOST_ROWS
            || self.bytes >= MOST_BYTES
            || self.entries.iter().any(|entries| *entries >= MOST_ENTRIES);
        (is_full || self.block.rows >= BLOCK).then(|| self.take(is_full))
    }

    /// Returns the rows, after which the row group ends if `ends` says so.
    pub fn take(&mut self, ends: bool) -> Block {
        let next = Block::of(self.block.own.len(), self.block.groups.len());
        let block = std::mem::replace(&mut self.block, next);
        if ends {
            self.generation += 1;
            (self.rows_in_group, self.bytes) = (0, 0);
            self.entries.fill(0);
        }
        Block { ends, ..block }
    }
}

impl Block {
    fn of(own: usize, groups: usize) -> Block {
        Block {
            own: (0..own).map(|_| Numbers::default()).collect(),
            groups: (0..groups).map(|_| Shared::default()).collect(),
            ..Block::default()
        }
    }
}
