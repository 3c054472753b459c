//! Shared by the tests of the wire contract: distinguishable records, and a slot's memory.
#![allow(dead_code, reason = "each test uses its part")]

use gpuspy_wire::record::{CELL_WORDS, Head, Kind};
use gpuspy_wire::ring::{Cursors, LEVELS};
use std::sync::atomic::AtomicU64;

/// Returns a record's first word.
pub fn head_word(kind: u8, cells: u8) -> u64 {
    u64::from_ne_bytes([kind, cells, 1, 0, 0, 0, 0, 0])
}

/// Returns a record of `cells` cells whose every word identifies the record and the word's place in it.
pub fn record(cells: u8, sequence: u64) -> Vec<u64> {
    let mut words: Vec<u64> = (0..cells as usize * CELL_WORDS).map(|n| word_of(sequence, n)).collect();
    words[0] = head_word(Kind::Launch as u8, cells);
    assert_eq!(Head::of(&words).unwrap().cells, cells);
    words
}

/// Returns a word that no other record and no other place in a record has (splitmix64's finalizer over both).
pub fn word_of(sequence: u64, word: usize) -> u64 {
    let mut x = sequence.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (word as u64) << 48;
    x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}

/// Returns `words` zeros.
pub fn words(words: usize) -> Vec<AtomicU64> {
    (0..words).map(|_| AtomicU64::new(0)).collect()
}

/// Returns cursors at `position`, as an earlier owner of the slot would have left them.
pub fn cursors_at(position: u64) -> Cursors<AtomicU64> {
    let mut cursors = Cursors::default();
    cursors.tail.0 = AtomicU64::new(position);
    cursors.head.0 = AtomicU64::new(position);
    cursors.moved = [const { AtomicU64::new(0) }; LEVELS - 1];
    cursors
}
