//! A file of a table, written row group by row group.

use super::chunk::{Chunk, level};
use super::layout::{Kind, Layout};
use super::place;
use super::sheet::Block;
use crate::trace::PRIVATE;
use parquet::basic::{Compression, ConvertedType, Encoding, LogicalType, Repetition, Type as Physical};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterPropertiesPtr};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::{SchemaDescPtr, SchemaDescriptor, Type, TypePtr};
use std::fs::{self, DirBuilder, File};
use std::io::{self, BufWriter};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The most rows of a page. All columns of all tables hold a page, and a compressor for one.
const PAGE_ROWS: usize = 16_384;

/// A file that is being written, under a hidden name.
pub(super) struct TableFile {
    layout: Layout,
    hidden: PathBuf,
    path: PathBuf,
    /// Whether a trace goes when its tables are complete. They are as private as it is then.
    replaces_a_trace: bool,
    schema: SchemaDescPtr,
    properties: WriterPropertiesPtr,
    out: SerializedFileWriter<BufWriter<File>>,
    chunk: Option<Chunk>,
}

impl TableFile {
    /// Begins a file of a table in a folder of that table's name, which is made. From the mode, the system takes the user's mask.
    pub fn create(process: &Path, name: &str, mode: u32, layout: Layout) -> io::Result<TableFile> {
        let folder = process.join(&layout.table);
        DirBuilder::new().recursive(true).mode(of_folders(mode)).create(&folder)?;
        let (path, hidden) = (folder.join(name), folder.join(place::hidden(name)));
        let root = schema(&layout).map_err(plain)?;
        let properties = Arc::new(properties().map_err(plain)?);
        let file = File::options().write(true).create(true).truncate(true).mode(mode).open(&hidden)?;
        let file = BufWriter::with_capacity(1 << 18, file);
        let out =
            SerializedFileWriter::new(file, Arc::clone(&root), Arc::clone(&properties)).map_err(plain)?;
        let schema = Arc::new(SchemaDescriptor::new(root));
        let replaces_a_trace = mode == PRIVATE;
        Ok(TableFile { layout, hidden, path, replaces_a_trace, schema, properties, out, chunk: None })
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

    /// Ends the file and gives it its name. If it replaces a trace, it is on the disk then.
    pub fn finish(mut self) -> io::Result<()> {
        self.end_group()?;
        self.out.finish().map_err(plain)?;
        if self.replaces_a_trace {
            sync(self.out.inner().get_ref())?;
        }
        fs::rename(&self.hidden, &self.path)?;
        match self.path.parent() {
            Some(folder) if self.replaces_a_trace => sync(&File::open(folder)?),
            _ => Ok(()),
        }
    }
}

/// Waits until a file, or the names in a folder, are on the disk. Some file systems have nothing to wait for and refuse it.
fn sync(file: &File) -> io::Result<()> {
    match file.sync_all() {
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(()),
        synced => synced,
    }
}

/// The mode of folders around files of this mode: who may read those may enter them.
fn of_folders(mode: u32) -> u32 {
    mode | ((mode & 0o444) >> 2)
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
        .set_write_batch_size(PAGE_ROWS / 4)
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

#[cfg(test)]
mod tests {
    use super::super::layout::Cell;
    use super::super::sheet::{Entries, Sheet};
    use super::*;
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::Field;
    use std::os::unix::fs::PermissionsExt;

    const ROWS: i64 = 1_100_000;

    /// What row `n` has: a number that some rows lack, a text and a flag that some entries lack, and a number.
    fn expected(n: i64) -> [Field; 5] {
        let kind = n / 3 % 50;
        let text = if kind == 7 { Field::Null } else { Field::Str(format!("kernel {kind}")) };
        let flag = if kind == 8 { Field::Null } else { Field::Bool(kind % 3 == 0) };
        // For the longest time, no row has one.
        let late = if n > ROWS - 70_000 { Field::Double(kind as f64 / 2.0) } else { Field::Null };
        [if n % 5 == 2 { Field::Null } else { Field::Long(n * n) }, text, flag, Field::Long(kind), late]
    }

    fn written(folder: &Path) -> PathBuf {
        let group =
            [("text", Kind::Text), ("flag", Kind::Flag), ("number", Kind::Number), ("late", Kind::Fraction)];
        let layout = Layout::new("t").own(&["own"]).group(group);
        let mut sheet = Sheet::new(&layout);
        let mut file = TableFile::create(folder, "f.parquet", 0o666, layout).unwrap();
        let mut entries = Entries::default();
        for n in 0..ROWS {
            let [own, text, flag, number, late] = expected(n);
            let cell = |field: Field| match field {
                Field::Long(number) => Cell::Number(number),
                Field::Double(number) => Cell::Fraction(number),
                Field::Bool(flag) => Cell::Flag(flag),
                Field::Str(text) => Cell::text(Some(text)),
                _ => Cell::Null,
            };
            let key = (n / 3 % 50, late == Field::Null);
            let entry = sheet.entry(0, &mut entries, key, || [text, flag, number, late].map(cell).to_vec());
            let own = if let Field::Long(number) = own { Some(number) } else { None };
            sheet.row(&[own], &[entry]);
            if let Some(block) = sheet.due() {
                file.write(&block).unwrap();
            }
        }
        assert_eq!(fs::read_dir(folder.join("t")).unwrap().count(), 1, "hidden until it is complete");
        assert!(!folder.join("t/f.parquet").exists());
        file.write(&sheet.take(true)).unwrap();
        file.finish().unwrap();
        folder.join("t/f.parquet")
    }

    #[test]
    fn rows_of_several_row_groups_are_read_back() {
        let folder = tempfile::tempdir().unwrap();
        let file = SerializedFileReader::new(File::open(written(folder.path())).unwrap()).unwrap();
        let groups: Vec<i64> = file.metadata().row_groups().iter().map(|group| group.num_rows()).collect();
        assert_eq!(groups, [1_000_000, ROWS - 1_000_000]);
        let mut count = 0;
        for (n, row) in file.get_row_iter(None).unwrap().enumerate() {
            let row = row.unwrap();
            let found = row.get_column_iter().map(|(_, field)| field.clone());
            assert!(found.eq(expected(n as i64)), "row {n}: {row}");
            count += 1;
        }
        assert_eq!(count, ROWS);
    }

    /// Everybody could read them, also where they took the place of a trace that was its owner's alone.
    #[test]
    fn a_private_file_has_private_folders() {
        let place = tempfile::tempdir().unwrap();
        let (rank, layout) = (place.path().join("job/rank"), Layout::new("t").own(&["n"]));
        TableFile::create(&rank, "f.parquet", 0o600, layout).unwrap().finish().unwrap();
        let mode = |path: &str| fs::metadata(place.path().join(path)).unwrap().permissions().mode() & 0o777;
        let modes = ["job", "job/rank", "job/rank/t", "job/rank/t/f.parquet"].map(mode);
        assert_eq!(modes, [0o700, 0o700, 0o700, 0o600]);
        assert_eq!(of_folders(0o666), 0o777);
    }

    #[test]
    fn statistics_say_what_is_in_a_column() {
        let folder = tempfile::tempdir().unwrap();
        let file = SerializedFileReader::new(File::open(written(folder.path())).unwrap()).unwrap();
        let first = file.metadata().row_group(0);
        let of = |column: usize| first.column(column).statistics().unwrap();
        let nulls = |column| of(column).null_count_opt().unwrap();
        let count =
            |column: usize| (0..1_000_000).filter(|n| expected(*n)[column] == Field::Null).count() as u64;
        for column in 0..5 {
            assert_eq!(nulls(column), count(column), "column {column}");
        }
        let bytes = |number: i64| number.to_le_bytes();
        assert_eq!(of(3).min_bytes_opt(), Some(&bytes(0)[..]));
        assert_eq!(of(3).max_bytes_opt(), Some(&bytes(49)[..]));
    }
}
