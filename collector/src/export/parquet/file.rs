//! A file of a table, written row group by row group.

use super::chunk::{Chunk, level};
use super::layout::{Kind, Layout};
use super::sheet::Block;
use parquet::basic::{Compression, ConvertedType, Encoding, LogicalType, Repetition, Type as Physical};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterPropertiesPtr};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::{SchemaDescPtr, SchemaDescriptor, Type, TypePtr};
use std::fs::{self, File};
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The most rows of a page.
const PAGE_ROWS: usize = 65_536;

/// A file that is being written, under a hidden name.
pub(super) struct TableFile {
    layout: Layout,
    hidden: PathBuf,
    path: PathBuf,
    schema: SchemaDescPtr,
    properties: WriterPropertiesPtr,
    out: SerializedFileWriter<BufWriter<File>>,
    chunk: Option<Chunk>,
}

impl TableFile {
    /// Begins a file of a table in a folder of that table's name, which is made.
    pub fn create(process: &Path, name: &str, layout: Layout) -> io::Result<TableFile> {
        let folder = process.join(&layout.table);
        fs::create_dir_all(&folder)?;
        let (path, hidden) = (folder.join(name), folder.join(format!(".{name}.part")));
        let root = schema(&layout).map_err(plain)?;
        let properties = Arc::new(properties().map_err(plain)?);
        let file = BufWriter::with_capacity(1 << 18, File::create(&hidden)?);
        let out =
            SerializedFileWriter::new(file, Arc::clone(&root), Arc::clone(&properties)).map_err(plain)?;
        let schema = Arc::new(SchemaDescriptor::new(root));
        Ok(TableFile { layout, hidden, path, schema, properties, out, chunk: None })
    }

    /// Adds rows.
    pub fn write(&mut self, block: &Block) -> io::Result<()> {
        if block.rows > 0 {
            let chunk = match &mut self.chunk {
                Some(chunk) => chunk,
                None => self.chunk.insert(Chunk::new(&self.layout, &self.schema, &self.properties)?),
            };
            chunk.write(block).map_err(plain)?;
        }
        if block.ends { self.end_group() } else { Ok(()) }
    }

    fn end_group(&mut self) -> io::Result<()> {
        let Some(chunk) = self.chunk.take() else { return Ok(()) };
        let group = self.out.next_row_group().map_err(plain)?;
        chunk.finish(&self.schema, group).map_err(plain)
    }

    /// Ends the file and gives it its name.
    pub fn finish(mut self) -> io::Result<()> {
        self.end_group()?;
        self.out.close().map_err(plain)?;
        fs::rename(&self.hidden, &self.path)
    }
}

/// An error of the crate as the system's, if it was that.
fn plain(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(error) => match error.downcast::<io::Error>() {
            Ok(error) => *error,
            Err(error) => io::Error::other(error),
        },
        error => io::Error::other(error),
    }
}

/// Number columns are times and counts that follow each other: they are differences, packed. All other columns are encoded
/// by [`Chunk`] itself.
fn properties() -> Result<WriterProperties, ParquetError> {
    let version = format!("gpuspy {}", env!("CARGO_PKG_VERSION"));
    Ok(WriterProperties::builder()
        .set_created_by(version.clone())
        .set_key_value_metadata(Some(vec![KeyValue::new("gpuspy.version".to_owned(), version)]))
        .set_compression(Compression::ZSTD(level()?))
        .set_dictionary_enabled(false)
        .set_encoding(Encoding::DELTA_BINARY_PACKED)
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_offset_index_disabled(true)
        .set_data_page_row_count_limit(PAGE_ROWS)
        .set_write_batch_size(PAGE_ROWS / 8)
        .build())
}

fn schema(layout: &Layout) -> Result<TypePtr, ParquetError> {
    let column = |name: &str, kind: Kind| {
        let (physical, is_text) = match kind {
            Kind::Number => (Physical::INT64, false),
            Kind::Fraction => (Physical::DOUBLE, false),
            Kind::Flag => (Physical::BOOLEAN, false),
            Kind::Text => (Physical::BYTE_ARRAY, true),
        };
        let column = Type::primitive_type_builder(name, physical).with_repetition(Repetition::OPTIONAL);
        let column = if is_text {
            column.with_logical_type(Some(LogicalType::String)).with_converted_type(ConvertedType::UTF8)
        } else {
            column
        };
        column.build().map(Arc::new)
    };
    let columns: Result<Vec<TypePtr>, ParquetError> =
        layout.columns.iter().map(|one| column(&one.name, one.kind)).collect();
    Type::group_type_builder(&layout.table).with_fields(columns?).build().map(Arc::new)
}
