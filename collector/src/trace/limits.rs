//! How much a file may make of itself: what it takes to read a trace is bounded by the file's size.
//!
//! A chunk's payload is compressed, and a column whose every value is as expected is not there at all. So 100 bytes can be
//! a valid chunk of 32 768 records, and a file of 59 KiB one of 20 million: minutes of work and gigabytes for who reads it.
//! No program writes such a trace, because the clock is in every record and a clock has noise. Each of the bounds here is a
//! sum that no small trace comes near to, and so much for each byte of the file, which is several times what a true trace makes
//! of a byte.
//!
//! - **Entries** (records and late times): 8 a byte. A record tells of two times at least, and where those are no constant,
//!   each costs the coder a bit or more, however regular the program is and however coarse its clock: that makes 4 at most.
//!   Traces of tight loops of one call without GPU times have 0.6 to 1.4, those of timed launches 0.2.
//! - **Bytes after decompression**: 64 a byte. The same traces have 4 to 8, single chunks of theirs up to 10.
//! - **Memory** for chunks that are open at the same time, for late times that wait for their launch, and for names: 16 a
//!   byte, and of large files no more than of others. A true trace's chunks overlap by a fraction of a second, however
//!   long it is.
//!
//! What goes beyond a bound is refused: [`Damage`](super::Damage) counts it by itself, and all else is read.

use super::format::{ChunkKind, Header};

/// Records and late times of a file without a byte: four full chunks.
const LEAST_ENTRIES: u64 = 1 << 17;
const ENTRIES_A_BYTE: u64 = 8;
/// Bytes after decompression of a file without a byte.
const LEAST_PLAIN: u64 = 64 << 20;
const PLAIN_A_BYTE: u64 = 64;
/// Memory for a file without a byte, and for a file of any size.
const MEMORY: std::ops::RangeInclusive<u64> = (64 << 20)..=(512 << 20);
const MEMORY_A_BYTE: u64 = 16;
/// Most memory that names may take.
const MOST_NAMES: u64 = 256 << 20;

/// What of a file may still be read.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Limits {
    entries: u64,
    plain: u64,
    /// Bytes that open chunks may take at once, and waiting times besides.
    pub memory: usize,
    /// Bytes that all names may take.
    pub names: usize,
}

impl Limits {
    /// Of a file of so many bytes.
    pub fn of(bytes: u64) -> Limits {
        let and = |least: u64, each: u64| least.saturating_add(bytes.saturating_mul(each));
        let memory = and(*MEMORY.start(), MEMORY_A_BYTE).min(*MEMORY.end());
        Limits {
            entries: and(LEAST_ENTRIES, ENTRIES_A_BYTE),
            plain: and(LEAST_PLAIN, PLAIN_A_BYTE),
            memory: memory as usize,
            names: memory.min(MOST_NAMES) as usize,
        }
    }

    /// Whether a chunk may be read; then it is counted.
    pub fn admit(&mut self, header: &Header) -> bool {
        let is_counted = matches!(header.known_kind(), Some(ChunkKind::Records | ChunkKind::Times));
        let entries = if is_counted { u64::from(header.entries) } else { 0 };
        let plain = u64::from(header.plain_bytes);
        let is_admitted = entries <= self.entries && plain <= self.plain;
        if is_admitted {
            self.entries -= entries;
            self.plain -= plain;
        }
        is_admitted
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::format::{FLAG_ZSTD, MAX_ENTRIES, VERSION};

    #[test]
    fn what_a_file_may_hold_grows_with_it() {
        let chunk = |kind: ChunkKind, entries, plain_bytes| Header {
            kind: kind as u8,
            version: VERSION,
            flags: FLAG_ZSTD,
            payload_bytes: 100,
            plain_bytes,
            entries,
            payload_checksum: 0,
            sequence: 0,
            records_before: 0,
            first: 0,
            last: 0,
        };
        let admitted = |bytes: u64, header: &Header| {
            let mut limits = Limits::of(bytes);
            (0..1_000).filter(|_| limits.admit(header)).count()
        };
        let full = chunk(ChunkKind::Records, MAX_ENTRIES, 40);
        assert_eq!([0, 59 << 10, 1 << 20].map(|bytes| admitted(bytes, &full)), [4, 18, 260]);
        let bomb = chunk(ChunkKind::Names, MAX_ENTRIES, 16 << 20);
        assert_eq!([0, 59 << 10, 1 << 20].map(|bytes| admitted(bytes, &bomb)), [4, 4, 8]);
        assert_eq!(Limits::of(u64::MAX).memory, 512 << 20);
    }
}
