//! How much work and memory may reading a file take? An amount bounded by the file's size.
//!
//! A chunk's payload is compressed, and a column whose values are all as expected is absent. So 100 bytes can be a
//! valid chunk of 32 768 records, and a file of 59 KiB one of 20 million, which would cost its reader minutes and
//! gigabytes. No program writes such a trace, because every record contains the clock, and a clock has noise. Each
//! limit here is a sum of a constant, which no small trace gets near, and an amount per byte of the file, which is
//! several times that of a genuine trace.
//!
//! - **Entries** (records and late times): 8 per byte. A record has at least two times, and where those are not
//!   constant, each takes a bit or more, however regular the program and however coarse its clock; that makes 4 per
//!   byte at most. Traces of tight loops of one call without GPU times have 0.6 to 1.4 per byte, those of timed
//!   launches 0.2.
//! - **Bytes after decompression**: 64 per byte. The same traces have 4 to 8, single chunks of theirs up to 10.
//! - **Memory** for chunks that are open at the same time, for late times that wait for their launch, and for names:
//!   16 bytes per byte, with an upper limit for large files. The chunks of a genuine trace overlap by a fraction of a
//!   second, however long it is.
//!
//! Chunks beyond a limit are refused: [`Damage`](super::Damage) counts them separately, and everything else is read.
//! The tests in `collector/tests/trace_forged.rs` check the limits on forged files.

use super::format::{ChunkKind, Header};

/// The constant part of the limit on records and late times: four full chunks.
const LEAST_ENTRIES: u64 = 1 << 17;
const ENTRIES_A_BYTE: u64 = 8;
/// The constant part of the limit on bytes after decompression.
const LEAST_PLAIN: u64 = 64 << 20;
const PLAIN_A_BYTE: u64 = 64;
/// The limits on memory for an empty file and for a file of any size, bytes.
const MEMORY: std::ops::RangeInclusive<u64> = (64 << 20)..=(512 << 20);
const MEMORY_A_BYTE: u64 = 16;
/// Limit on the memory of names, bytes.
const MOST_NAMES: u64 = 256 << 20;

/// What may still be read from a file.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Limits {
    entries: u64,
    plain: u64,
    /// Limit on the memory of open chunks, and as much again for waiting times, bytes.
    pub memory: usize,
    /// Limit on the memory of all names, bytes.
    pub names: usize,
}

impl Limits {
    /// The limits for a file of this many bytes.
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

    /// Returns whether a chunk may be read, and counts it if so.
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
    fn the_limits_grow_with_the_file() {
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
