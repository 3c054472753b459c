//! What are the bytes of a trace file? All numbers are little-endian.
//!
//! # Chunks
//!
//! A file is a sequence of chunks without gaps. A chunk is a header of [`HEADER_BYTES`] and a payload:
//!
//! ```text
//!  0  u32  magic             "GSPY"
//!  4  u8   kind              a ChunkKind; a reader skips unknown ones by their length
//!  5  u8   version           of the payload's meaning: VERSION; a chunk of a newer one is skipped like an unknown kind
//!  6  u16  flags             bit 0: the payload is one zstd frame
//!  8  u32  payload bytes     in the file, after the header; at most MAX_PAYLOAD
//! 12  u32  plain bytes       after decompression; at most MAX_PLAIN; equal to payload bytes without flag bit 0
//! 16  u32  entries           records, times, names or fields in it; at most MAX_ENTRIES
//! 20  u32  payload checksum  CRC-32 (IEEE) of the payload in the file
//! 24  u64  sequence          0, 1, 2… in the order of writing: a hole is a lost chunk
//! 32  u64  records before    entries of all Records chunks with a smaller sequence number: a hole says how many were lost
//! 40  u64  first             least `at` of a Records chunk; of a Times chunk, least `at` of their launches; else 0
//! 48  u64  last              greatest `at` of the same
//! 56  u32  zero
//! 60  u32  header checksum   CRC-32 of bytes 0..60
//! ```
//!
//! The header is the same in all versions. Every chunk can be understood alone: no delta's base and no dictionary
//! lies outside it. A reader that finds no valid header where one should be searches for the next magic with a
//! matching header checksum and continues there.
//!
//! # Kinds
//!
//! - [`File`](ChunkKind::File) comes first: its payload is UTF-8 text that names the writer. Its version is the
//!   file's: a reader refuses a file of a newer version.
//! - [`Status`](ChunkKind::Status) is a snapshot of the process, written at every flush if something changed and at
//!   the end; the last whole one counts. But of threads each lists those that none before it lists, and only the last one
//!   before an End lists all. Its payload is entries of 16 bytes, `u32 field · u32 key · u64 value`.
//!   Unknown fields are skipped, absent ones are 0. `meta.rs` lists the fields.
//! - [`Names`](ChunkKind::Names) has a payload of entries `u8 namespace · u8×3 zero · u32 id · u32 length · UTF-8`.
//!   Unknown namespaces are skipped. Names may come after the records that use them: a reader takes all of them
//!   first.
//! - [`Records`](ChunkKind::Records) has columns ([`columns`](super::columns)) that contain records
//!   ([`coding`](super::coding)). The records of a chunk are sorted by `at`; chunks may overlap in time.
//! - [`Times`](ChunkKind::Times) has GPU times that came after their launch had been written, as columns.
//! - [`End`](ChunkKind::End) comes last and says that the session was closed properly. It has totals, in entries like
//!   Status. A trace may go on behind one, and have another: the first was for a process that waited for it in its exit
//!   handler, and what follows is how it ended.

/// Size of a chunk's header, bytes.
pub const HEADER_BYTES: usize = 64;
/// First four bytes of every chunk, and so of a file.
pub const MAGIC: [u8; 4] = gpuspy_wire::TRACE_MAGIC;
/// Version that this build writes, and the newest one that it reads. Columns have a shift since version 3.
pub const VERSION: u8 = 3;
/// Flag: the payload is one zstd frame.
pub const FLAG_ZSTD: u16 = 1;
/// Limit on the entries of a chunk.
pub const MAX_ENTRIES: u32 = 1 << 15;
/// Limit on a payload after decompression, bytes: 60 columns of 8 bytes for every record would fit.
pub const MAX_PLAIN: u32 = 16 << 20;
/// Limit on a payload in the file, bytes: data that does not compress grows by less than 1 in 1000.
pub const MAX_PAYLOAD: u32 = MAX_PLAIN + (MAX_PLAIN >> 8);

/// The kind of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ChunkKind {
    /// The file's first chunk.
    File = 1,
    /// A [`Status`](super::record::Status).
    Status = 2,
    /// Names: texts and their ids.
    Names = 3,
    /// Records.
    Records = 4,
    /// GPU times that came after their launch had been written.
    Times = 5,
    /// Nothing follows.
    End = 6,
}

impl ChunkKind {
    /// The kind with this number; `None` if this version does not know it.
    pub fn from_byte(byte: u8) -> Option<ChunkKind> {
        use ChunkKind::*;
        [File, Status, Names, Records, Times, End].into_iter().find(|kind| *kind as u8 == byte)
    }
}

/// A chunk's header, as the module specifies it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// A [`ChunkKind`], or one from a later version.
    pub kind: u8,
    /// [`VERSION`] of the writer.
    pub version: u8,
    /// [`FLAG_ZSTD`] or 0.
    pub flags: u16,
    /// Size of the payload in the file, bytes.
    pub payload_bytes: u32,
    /// Size of the payload after decompression, bytes.
    pub plain_bytes: u32,
    /// The number of entries in the payload.
    pub entries: u32,
    /// CRC-32 of the payload.
    pub payload_checksum: u32,
    /// Sequence number of the chunk.
    pub sequence: u64,
    /// The number of records in earlier chunks.
    pub records_before: u64,
    /// Least `at` of the records, ns.
    pub first: u64,
    /// Greatest `at` of the records, ns.
    pub last: u64,
}

impl Header {
    /// The header's bytes, checksum included.
    pub fn to_bytes(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = Vec::with_capacity(HEADER_BYTES);
        bytes.extend(MAGIC);
        bytes.extend([self.kind, self.version]);
        bytes.extend(self.flags.to_le_bytes());
        for word in [self.payload_bytes, self.plain_bytes, self.entries, self.payload_checksum] {
            bytes.extend(word.to_le_bytes());
        }
        for word in [self.sequence, self.records_before, self.first, self.last] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend(0u32.to_le_bytes());
        bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
        let mut out = [0; HEADER_BYTES];
        out.copy_from_slice(&bytes);
        out
    }

    /// Reads a header; `None` if the magic, the checksum or a limit is wrong.
    pub fn from_bytes(bytes: &[u8; HEADER_BYTES]) -> Option<Header> {
        if bytes[..4] != MAGIC || crc32fast::hash(&bytes[..60]) != u32_at(bytes, 60) {
            return None;
        }
        let header = Header {
            kind: bytes[4],
            version: bytes[5],
            flags: u16::from_le_bytes([bytes[6], bytes[7]]),
            payload_bytes: u32_at(bytes, 8),
            plain_bytes: u32_at(bytes, 12),
            entries: u32_at(bytes, 16),
            payload_checksum: u32_at(bytes, 20),
            sequence: u64_at(bytes, 24),
            records_before: u64_at(bytes, 32),
            first: u64_at(bytes, 40),
            last: u64_at(bytes, 48),
        };
        let bounded = header.payload_bytes <= MAX_PAYLOAD
            && header.plain_bytes <= MAX_PLAIN
            && header.entries <= MAX_ENTRIES
            && header.first <= header.last;
        bounded.then_some(header)
    }

    /// The chunk's kind; `None` if this build does not know the kind or the version.
    pub fn known_kind(&self) -> Option<ChunkKind> {
        if self.version > VERSION { None } else { ChunkKind::from_byte(self.kind) }
    }

    /// Checks a payload against this header and decompresses it; `None` if it is not what was written.
    pub fn unpack(&self, payload: Vec<u8>) -> Option<Vec<u8>> {
        if crc32fast::hash(&payload) != self.payload_checksum {
            return None;
        }
        let plain = match self.flags {
            0 => payload,
            // The capacity limits the size of a forged frame.
            FLAG_ZSTD => zstd::bulk::decompress(&payload, self.plain_bytes as usize).ok()?,
            _ => return None,
        };
        (plain.len() == self.plain_bytes as usize).then_some(plain)
    }
}

/// The `u32` at an offset that the caller knows to be in range.
fn u32_at(bytes: &[u8; HEADER_BYTES], at: usize) -> u32 {
    u32::from_le_bytes(std::array::from_fn(|i| bytes[at + i]))
}

/// The `u64` at an offset that the caller knows to be in range.
fn u64_at(bytes: &[u8; HEADER_BYTES], at: usize) -> u64 {
    u64::from_le_bytes(std::array::from_fn(|i| bytes[at + i]))
}

/// Takes fields off the front of a slice, with bounds checks.
pub(super) struct Fields<'a>(pub &'a [u8]);

impl<'a> Fields<'a> {
    /// The next `count` bytes.
    pub fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (front, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(front)
    }

    /// The next byte.
    pub fn u8(&mut self) -> Option<u8> {
        self.bytes(1)?.first().copied()
    }

    /// The next `u32`.
    pub fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.bytes(4)?.try_into().ok()?))
    }

    /// The next `u64`.
    pub fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.bytes(8)?.try_into().ok()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> Header {
        Header {
            kind: 4,
            version: 1,
            flags: 1,
            payload_bytes: 0x0102_0304,
            plain_bytes: 0x0050_6070,
            entries: 0x0a0b,
            payload_checksum: 0xdead_beef,
            sequence: 0x1122_3344_5566_7788,
            records_before: 9,
            first: 10,
            last: u64::MAX,
        }
    }

    #[test]
    fn a_header_has_the_documented_layout() {
        let h = Header { payload_bytes: 0x0000_0304, ..header() };
        let bytes = h.to_bytes();
        assert_eq!(bytes[..8], [b'G', b'S', b'P', b'Y', 4, 1, 1, 0]);
        assert_eq!(bytes[8..12], [4, 3, 0, 0]);
        assert_eq!(bytes[16..20], [0x0b, 0x0a, 0, 0]);
        assert_eq!(bytes[24..32], [0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11]);
        assert_eq!(bytes[48..60], [255, 255, 255, 255, 255, 255, 255, 255, 0, 0, 0, 0]);
        assert_eq!(Header::from_bytes(&bytes), Some(h));
    }

    #[test]
    fn a_header_beyond_a_limit_or_with_a_flipped_bit_is_refused() {
        let good = Header { payload_bytes: 8, ..header() };
        for bit in 0..HEADER_BYTES * 8 {
            let mut bytes = good.to_bytes();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Header::from_bytes(&bytes), None, "bit {bit}");
        }
        for bad in [
            Header { payload_bytes: MAX_PAYLOAD + 1, ..good },
            Header { plain_bytes: MAX_PLAIN + 1, ..good },
            Header { entries: MAX_ENTRIES + 1, ..good },
            Header { first: 2, last: 1, ..good },
        ] {
            assert_eq!(Header::from_bytes(&bad.to_bytes()), None);
        }
    }
}
