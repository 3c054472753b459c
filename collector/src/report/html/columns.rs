//! How are a million rows of numbers put into a page, in few bytes and quick to read?
//!
//! Each column is whole numbers, zigzag (0, -1, 1, -2, … become 0, 1, 2, 3, …), as planes of bytes: first the lowest byte
//! of every row, then the next one, as many as the largest number needs, which a byte in front of the column says. Numbers
//! that are near each other have equal high bytes, so a plane is either noise or all the same, and zlib (RFC 1950) makes
//! the latter vanish. The columns of a table follow each other in one zlib stream; the page has it in base64.

use flate2::Compression;
use flate2::write::ZlibEncoder;
use std::io::{self, Write};

/// Numbers beyond this, which no double holds exactly, are written as this.
const MOST: i64 = (1 << 52) - 1;

/// A table that is being written.
#[derive(Debug)]
pub struct Columns {
    out: ZlibEncoder<Vec<u8>>,
    names: Vec<&'static str>,
}

/// A table as the page has it.
#[derive(Debug)]
pub struct Packed {
    /// The names of its columns, in order.
    pub names: Vec<&'static str>,
    /// Their zlib stream.
    pub bytes: Vec<u8>,
}

impl Columns {
    /// A table without columns.
    pub fn new() -> Columns {
        Columns { out: ZlibEncoder::new(Vec::new(), Compression::default()), names: Vec::new() }
    }

    /// Adds a column.
    ///
    /// # Errors
    /// Fails if compression does.
    pub fn add(&mut self, name: &'static str, values: impl IntoIterator<Item = i64>) -> io::Result<()> {
        let zigzag = |value: i64| {
            let value = value.clamp(-MOST, MOST);
            (value.unsigned_abs() << 1) - u64::from(value < 0)
        };
        let values: Vec<u64> = values.into_iter().map(zigzag).collect();
        let planes = 8 - values.iter().fold(0, |all, value| all | value).leading_zeros() / 8;
        self.names.push(name);
        self.out.write_all(&[planes as u8])?;
        for plane in 0..planes {
            let bytes: Vec<u8> = values.iter().map(|value| (value >> (8 * plane)) as u8).collect();
            self.out.write_all(&bytes)?;
        }
        Ok(())
    }

    /// Returns the table.
    ///
    /// # Errors
    /// Fails if compression does.
    pub fn finish(self) -> io::Result<Packed> {
        Ok(Packed { names: self.names, bytes: self.out.finish()? })
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use flate2::read::ZlibDecoder;
    use proptest::prelude::*;
    use std::collections::BTreeMap;
    use std::io::Read;

    /// Reads a table of so many rows as the page does.
    pub fn unpacked(packed: &Packed, rows: usize) -> BTreeMap<&'static str, Vec<i64>> {
        let mut bytes = Vec::new();
        ZlibDecoder::new(&packed.bytes[..]).read_to_end(&mut bytes).unwrap();
        let (mut rest, mut columns) = (&bytes[..], BTreeMap::new());
        for name in &packed.names {
            let (planes, body) = rest.split_first().unwrap();
            let planes = usize::from(*planes);
            let value = |row: usize| {
                let zigzag = (0..planes)
                    .fold(0, |sum, plane| sum | u64::from(body[plane * rows + row]) << (8 * plane));
                (zigzag >> 1) as i64 ^ -((zigzag & 1) as i64)
            };
            columns.insert(*name, (0..rows).map(value).collect());
            rest = &body[planes * rows..];
        }
        assert!(rest.is_empty());
        columns
    }

    proptest! {
        #[test]
        fn columns_are_read_as_they_were_written(rows in prop::collection::vec((-MOST..=MOST, -200i64..200, Just(0)), 0..300)) {
            let mut columns = Columns::new();
            columns.add("any", rows.iter().map(|row| row.0)).unwrap();
            columns.add("small", rows.iter().map(|row| row.1)).unwrap();
            columns.add("none", rows.iter().map(|row| row.2)).unwrap();
            let read = unpacked(&columns.finish().unwrap(), rows.len());
            prop_assert_eq!(&read["any"], &rows.iter().map(|row| row.0).collect::<Vec<_>>());
            prop_assert_eq!(&read["small"], &rows.iter().map(|row| row.1).collect::<Vec<_>>());
            prop_assert_eq!(&read["none"], &rows.iter().map(|row| row.2).collect::<Vec<_>>());
        }
    }
}
