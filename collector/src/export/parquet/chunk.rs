//! The columns of a row group, encoded as its rows come.
//!
//! Pages are kept in memory, compressed, until the row group is complete: a file has one column after the other. Columns
//! with numbers of their own are encoded by the parquet crate. Those of a group share their data pages: each has a
//! dictionary page with its own values, in the same order, so that the numbers of the entries are encoded and compressed
//! once for all of them. Only where some of a column's values are NULL has it data pages of its own.

use super::bits::{flags, hybrid, repeated, width_of};
use super::layout::{Cell, Column, Kind, Layout, Values};
use super::sheet::{Block, Numbers, Shared};
use bytes::Bytes;
use parking_lot::Mutex;
use parquet::basic::{Compression, Encoding};
use parquet::column::page::{CompressedPage, Page, PageWriteSpec, PageWriter};
use parquet::column::writer::{
    ColumnCloseResult, ColumnWriterImpl, get_column_writer, get_typed_column_writer,
};
use parquet::data_type::Int64Type;
use parquet::errors::Result;
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::properties::WriterPropertiesPtr;
use parquet::file::statistics::{Statistics, ValueStatistics};
use parquet::file::writer::{SerializedPageWriter, SerializedRowGroupWriter, TrackedWrite};
use parquet::schema::types::{ColumnDescPtr, SchemaDescPtr};
use std::io::{self, Write};
use std::sync::Arc;

/// The level of zstd.
pub(super) const LEVEL: i32 = 3;

/// Bytes that a page writer of the crate writes and that we take at the end.
#[derive(Clone, Default)]
struct Taken(Arc<Mutex<Vec<u8>>>);

impl Write for Taken {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A page writer that owns what it writes to.
struct Pages(TrackedWrite<Taken>);

impl PageWriter for Pages {
    fn write_page(&mut self, page: CompressedPage) -> Result<PageWriteSpec> {
        SerializedPageWriter::new(&mut self.0).write_page(page)
    }

    fn close(&mut self) -> Result<()> {
        Ok(self.0.flush()?)
    }
}

/// A column with a number for each row.
struct Own {
    writer: ColumnWriterImpl<'static, Int64Type>,
    bytes: Taken,
}

impl Own {
    fn new(column: ColumnDescPtr, properties: WriterPropertiesPtr) -> Own {
        let bytes = Taken::default();
        let pages = Box::new(Pages(TrackedWrite::new(bytes.clone())));
        Own { writer: get_typed_column_writer(get_column_writer(column, properties, pages)), bytes }
    }

    fn write(&mut self, numbers: &Numbers) -> Result<()> {
        self.writer.write_batch(&numbers.known, Some(&numbers.levels), None).map(|_| ())
    }

    fn close(self) -> Result<(Bytes, ColumnCloseResult)> {
        let closed = self.writer.close()?;
        Ok((std::mem::take(&mut *self.bytes.0.lock()).into(), closed))
    }
}

/// A compressed data page.
#[derive(Clone)]
struct Data {
    bytes: Bytes,
    plain_bytes: usize,
    rows: usize,
    encoding: Encoding,
}

/// A column of a group.
struct Member {
    kind: Kind,
    /// The value of each entry.
    values: Vec<Cell>,
    /// Whether any of them is NULL.
    has_nulls: bool,
    nulls: u64,
    data: Vec<Data>,
}

/// A group of columns.
struct Group {
    members: Vec<Member>,
    entries: usize,
}

/// The columns of one row group.
pub(super) struct Chunk {
    columns: Vec<Values>,
    own: Vec<Own>,
    groups: Vec<Group>,
    compressor: zstd::bulk::Compressor<'static>,
    pub rows: usize,
}

impl Chunk {
    /// A row group without rows.
    pub fn new(
        layout: &Layout,
        schema: &SchemaDescPtr,
        properties: &WriterPropertiesPtr,
    ) -> io::Result<Chunk> {
        let mut groups: Vec<Group> =
            layout.groups.iter().map(|_| Group { members: Vec::new(), entries: 0 }).collect();
        let mut own = Vec::new();
        for (at, Column { kind, from, .. }) in layout.columns.iter().enumerate() {
            match *from {
                Values::Own(_) => own.push(Own::new(schema.column(at), Arc::clone(properties))),
                Values::Shared { group, .. } => groups[group].members.push(Member::new(*kind)),
            }
        }
        let columns = layout.columns.iter().map(|column| column.from).collect();
        let compressor = zstd::bulk::Compressor::new(LEVEL)?;
        Ok(Chunk { columns, own, groups, compressor, rows: 0 })
    }

    /// Adds rows.
    pub fn write(&mut self, block: &Block) -> Result<()> {
        for (column, numbers) in self.own.iter_mut().zip(&block.own) {
            column.write(numbers)?;
        }
        for (group, shared) in self.groups.iter_mut().zip(&block.groups) {
            group.write(shared, &mut self.compressor)?;
        }
        self.rows += block.rows;
        Ok(())
    }

    /// Writes the row group.
    pub fn finish<W: Write + Send>(
        mut self,
        schema: &SchemaDescPtr,
        mut out: SerializedRowGroupWriter<'_, W>,
    ) -> Result<()> {
        let mut own = self.own.into_iter();
        let mut members: Vec<_> = self.groups.into_iter().map(|group| group.members.into_iter()).collect();
        for (at, from) in self.columns.into_iter().enumerate() {
            let encoded = match from {
                Values::Own(_) => own.next().map(Own::close),
                Values::Shared { group, .. } => {
                    let (column, rows) = (schema.column(at), self.rows);
                    members[group].next().map(|member| member.close(column, rows, &mut self.compressor))
                }
            };
            if let Some((bytes, closed)) = encoded.transpose()? {
                out.append_column(&bytes, closed)?;
            }
        }
        out.close().map(|_| ())
    }
}

impl Group {
    fn write(&mut self, shared: &Shared, compressor: &mut zstd::bulk::Compressor<'_>) -> Result<()> {
        self.entries += shared.fresh.len();
        for cells in &shared.fresh {
            for (at, member) in self.members.iter_mut().enumerate() {
                member.add(cells.get(at).cloned().unwrap_or_default());
            }
        }
        let rows = &shared.entries;
        if rows.is_empty() {
            return Ok(());
        }
        let used =
            if self.members.iter().any(|member| member.has_nulls) { self.used(rows) } else { Vec::new() };
        let mut common = None;
        for member in &mut self.members {
            let nulls = member.nulls_of(&used);
            member.data.push(match (member.kind, nulls) {
                (_, Nulls::All) => nothing(rows.len(), compressor)?,
                (Kind::Flag, _) => member.flags(rows, compressor)?,
                (_, Nulls::Some) => member.partly(rows, compressor)?,
                (_, Nulls::None) => match &common {
                    Some(data) => Data::clone(data),
                    None => common.insert(numbers(rows, None, rows, compressor)?).clone(),
                },
            });
            member.nulls += match nulls {
                Nulls::None => 0,
                Nulls::All => rows.len() as u64,
                Nulls::Some => rows.iter().filter(|row| member.is_null(**row)).count() as u64,
            };
        }
        Ok(())
    }

    /// Returns which entries rows have, each once.
    fn used(&self, rows: &[u32]) -> Vec<u32> {
        let mut met = vec![false; self.entries];
        rows.iter().copied().filter(|row| !std::mem::replace(&mut met[*row as usize], true)).collect()
    }
}

/// How many of a column's values in some rows are NULL.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Nulls {
    None,
    Some,
    All,
}

impl Member {
    fn new(kind: Kind) -> Member {
        Member { kind, values: Vec::new(), has_nulls: false, nulls: 0, data: Vec::new() }
    }

    fn add(&mut self, cell: Cell) {
        let fits = matches!(
            (&cell, self.kind),
            (Cell::Number(_), Kind::Number)
                | (Cell::Fraction(_), Kind::Fraction)
                | (Cell::Flag(_), Kind::Flag)
                | (Cell::Text(_), Kind::Text)
        );
        debug_assert!(fits || cell == Cell::Null, "{cell:?} in a column of {:?}", self.kind);
        self.has_nulls |= !fits;
        self.values.push(if fits { cell } else { Cell::Null });
    }

    fn is_null(&self, entry: u32) -> bool {
        self.has_nulls && self.values[entry as usize] == Cell::Null
    }

    fn nulls_of(&self, used: &[u32]) -> Nulls {
        if !self.has_nulls {
            return Nulls::None;
        }
        match used.iter().filter(|entry| self.is_null(**entry)).count() {
            0 => Nulls::None,
            nulls if nulls == used.len() => Nulls::All,
            _ => Nulls::Some,
        }
    }

    /// A page of a column of which some values are NULL.
    fn partly(&self, rows: &[u32], compressor: &mut zstd::bulk::Compressor<'_>) -> Result<Data> {
        let known: Vec<u32> = rows.iter().copied().filter(|row| !self.is_null(*row)).collect();
        let levels: Vec<u32> = rows.iter().map(|row| u32::from(!self.is_null(*row))).collect();
        numbers(&known, Some(&levels), rows, compressor)
    }

    /// A page of truth values, which have no dictionary.
    fn flags(&self, rows: &[u32], compressor: &mut zstd::bulk::Compressor<'_>) -> Result<Data> {
        let levels: Vec<u32> = rows.iter().map(|row| u32::from(!self.is_null(*row))).collect();
        let mut plain = levels_of(Some(&levels), rows.len());
        let known = rows.iter().filter(|row| !self.is_null(**row));
        flags(known.map(|row| self.values[*row as usize] == Cell::Flag(true)), &mut plain);
        data(&plain, rows.len(), Encoding::PLAIN, compressor)
    }

    /// The values of the entries, one after the other. In the place of NULL, which no row refers to, is nothing in
    /// particular.
    fn dictionary(&self) -> Vec<u8> {
        let mut plain = Vec::new();
        for value in &self.values {
            match (value, self.kind) {
                (Cell::Number(number), _) => plain.extend_from_slice(&number.to_le_bytes()),
                (Cell::Fraction(number), _) => plain.extend_from_slice(&number.to_le_bytes()),
                (Cell::Text(text), _) => {
                    plain.extend_from_slice(&(text.len() as u32).to_le_bytes());
                    plain.extend_from_slice(text.as_bytes());
                }
                (_, Kind::Number | Kind::Fraction) => plain.extend_from_slice(&[0; 8]),
                (_, Kind::Text) => plain.extend_from_slice(&[0; 4]),
                (_, Kind::Flag) => {}
            }
        }
        plain
    }

    fn close(
        self,
        column: ColumnDescPtr,
        rows: usize,
        compressor: &mut zstd::bulk::Compressor<'_>,
    ) -> Result<(Bytes, ColumnCloseResult)> {
        let taken = Taken::default();
        let mut sink = TrackedWrite::new(taken.clone());
        let mut out = SerializedPageWriter::new(&mut sink);
        let (mut packed, mut unpacked) = (0, 0);
        let mut count = |spec: &PageWriteSpec| {
            packed += spec.compressed_size as i64;
            unpacked += spec.uncompressed_size as i64;
        };
        let has_dictionary = self.data.iter().any(|data| data.encoding == Encoding::RLE_DICTIONARY);
        if has_dictionary {
            let plain = self.dictionary();
            let buf = compressor.compress(&plain)?.into();
            let (num_values, encoding) = (self.values.len() as u32, Encoding::PLAIN);
            let page = Page::DictionaryPage { buf, num_values, encoding, is_sorted: false };
            count(&out.write_page(CompressedPage::new(page, plain.len()))?);
        }
        let mut first = None;
        for Data { bytes, plain_bytes, rows, encoding } in &self.data {
            let page = Page::DataPage {
                buf: bytes.clone(),
                num_values: *rows as u32,
                encoding: *encoding,
                def_level_encoding: Encoding::RLE,
                rep_level_encoding: Encoding::RLE,
                statistics: None,
            };
            let spec = out.write_page(CompressedPage::new(page, *plain_bytes))?;
            first.get_or_insert(spec.offset as i64);
            count(&spec);
        }
        out.close()?;
        let metadata = ColumnChunkMetaData::builder(column)
            .set_compression(Compression::ZSTD(level()?))
            .set_encodings(vec![Encoding::PLAIN, Encoding::RLE, Encoding::RLE_DICTIONARY])
            .set_num_values(rows as i64)
            .set_total_compressed_size(packed)
            .set_total_uncompressed_size(unpacked)
            .set_data_page_offset(first.unwrap_or(0))
            .set_dictionary_page_offset(has_dictionary.then_some(0))
            .set_statistics(self.statistics())
            .build()?;
        let bytes: Bytes = std::mem::take(&mut *taken.0.lock()).into();
        let closed = ColumnCloseResult {
            bytes_written: packed as u64,
            rows_written: rows as u64,
            metadata,
            bloom_filter: None,
            column_index: None,
            offset_index: None,
        };
        Ok((bytes, closed))
    }

    /// The number of NULLs, and of numbers the least and the most. Each entry is that of a row.
    fn statistics(&self) -> Statistics {
        let numbers = self.values.iter().filter_map(|value| match value {
            Cell::Number(number) => Some(*number),
            _ => None,
        });
        let (least, most) = (numbers.clone().min(), numbers.max());
        let nulls = Some(self.nulls);
        match self.kind {
            Kind::Number => ValueStatistics::new(least, most, None, nulls, false).into(),
            Kind::Fraction => ValueStatistics::<f64>::new(None, None, None, nulls, false).into(),
            Kind::Flag => ValueStatistics::<bool>::new(None, None, None, nulls, false).into(),
            Kind::Text => {
                ValueStatistics::<parquet::data_type::ByteArray>::new(None, None, None, nulls, false).into()
            }
        }
    }
}

/// The compression of all columns.
pub(super) fn level() -> Result<parquet::basic::ZstdLevel> {
    parquet::basic::ZstdLevel::try_new(LEVEL)
}

/// A page without a value.
fn nothing(rows: usize, compressor: &mut zstd::bulk::Compressor<'_>) -> Result<Data> {
    let mut levels = Vec::new();
    repeated(0, rows, 1, &mut levels);
    data(&with_length(levels), rows, Encoding::PLAIN, compressor)
}

/// A page of the numbers of entries. `levels` says which of the rows have one; `None`: all.
fn numbers(
    known: &[u32],
    levels: Option<&[u32]>,
    rows: &[u32],
    compressor: &mut zstd::bulk::Compressor<'_>,
) -> Result<Data> {
    let mut plain = levels_of(levels, rows.len());
    let width = width_of(known.iter().copied().max().unwrap_or(0));
    plain.push(width as u8);
    hybrid(known, width, &mut plain);
    data(&plain, rows.len(), Encoding::RLE_DICTIONARY, compressor)
}

/// The definition levels of a page.
fn levels_of(levels: Option<&[u32]>, rows: usize) -> Vec<u8> {
    let mut encoded = Vec::new();
    match levels {
        Some(levels) => hybrid(levels, 1, &mut encoded),
        None => repeated(1, rows, 1, &mut encoded),
    }
    with_length(encoded)
}

fn with_length(encoded: Vec<u8>) -> Vec<u8> {
    let mut plain = (encoded.len() as u32).to_le_bytes().to_vec();
    plain.extend(encoded);
    plain
}

fn data(
    plain: &[u8],
    rows: usize,
    encoding: Encoding,
    compressor: &mut zstd::bulk::Compressor<'_>,
) -> Result<Data> {
    Ok(Data { bytes: compressor.compress(plain)?.into(), plain_bytes: plain.len(), rows, encoding })
}
