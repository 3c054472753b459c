//! Reads the files of an export back, by the parquet crate's own reader.

use parquet::basic::{Encoding, Type};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use serde_json::{Map, Value, json};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use tempfile::TempDir;

/// A row: its values by their columns.
pub type Row = Map<String, Value>;

/// A job that was exported, or one rank of it.
pub struct Exported {
    folder: Rc<TempDir>,
    job: PathBuf,
    rank: Option<u32>,
    /// Whether a filter left out a part of the trace.
    pub is_filtered: bool,
    read: RefCell<BTreeMap<String, Vec<Row>>>,
}

impl Exported {
    pub fn new(folder: TempDir, job: &str) -> Exported {
        let job = folder.path().join(format!("job={job}"));
        let read = RefCell::default();
        Exported { folder: Rc::new(folder), job, rank: None, is_filtered: false, read }
    }

    pub fn filtered(self) -> Exported {
        Exported { is_filtered: true, ..self }
    }

    pub fn of_rank(&self, rank: u32) -> Exported {
        let (folder, job) = (Rc::clone(&self.folder), self.job.clone());
        Exported { folder, job, rank: Some(rank), is_filtered: self.is_filtered, read: RefCell::default() }
    }

    /// The names of the folders in that of the job.
    pub fn places(&self) -> Vec<String> {
        listed(&self.job).iter().map(|path| name(path)).collect()
    }

    /// The names of the folders of ranks.
    pub fn ranks(&self) -> Vec<String> {
        listed(&self.job).iter().flat_map(|host| listed(host)).map(|path| name(&path)).collect()
    }

    /// The folders of the ranks.
    fn folders(&self) -> Vec<PathBuf> {
        let is_it = |path: &PathBuf| self.rank.is_none_or(|rank| name(path) == format!("rank={rank}"));
        listed(&self.job).iter().flat_map(|host| listed(host)).filter(is_it).collect()
    }

    pub fn has(&self, table: &str) -> bool {
        self.folders().iter().any(|folder| folder.join(table).is_dir())
    }

    /// The rows of a table.
    pub fn rows(&self, table: &str) -> Vec<Row> {
        if let Some(rows) = self.read.borrow().get(table) {
            return rows.clone();
        }
        let files: Vec<PathBuf> =
            self.folders().iter().flat_map(|folder| listed(&folder.join(table))).collect();
        assert!(!files.is_empty(), "there is no file of {table}");
        let rows: Vec<Row> = files.iter().flat_map(|file| read(file)).collect();
        self.read.borrow_mut().insert(table.to_owned(), rows.clone());
        rows
    }
}

fn listed(folder: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = fs::read_dir(folder)
        .unwrap_or_else(|e| panic!("{}: {e}", folder.display()))
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.sort();
    paths
}

fn name(path: &Path) -> String {
    path.file_name().unwrap().to_str().unwrap().to_owned()
}

fn read(path: &Path) -> Vec<Row> {
    let file = SerializedFileReader::new(File::open(path).unwrap()).unwrap();
    for column in file.metadata().file_metadata().schema_descr().columns() {
        let kind = column.physical_type();
        let known = [Type::INT64, Type::DOUBLE, Type::BOOLEAN, Type::BYTE_ARRAY];
        assert!(known.contains(&kind), "{} is {kind}", column.path());
        assert!(!["job", "host", "rank"].contains(&column.name()), "{} is a partition", column.name());
    }
    for group in file.metadata().row_groups() {
        assert!(group.num_rows() <= 1_000_000);
        for column in group.columns().iter().filter(|column| column.column_path().string() == "start") {
            assert!(column.encodings().any(|encoding| encoding == Encoding::DELTA_BINARY_PACKED));
            let nulls = column.statistics().and_then(|statistics| statistics.null_count_opt());
            assert!(nulls.is_some(), "{}", path.display());
        }
    }
    let value = |field: &Field| match field {
        Field::Null => Value::Null,
        Field::Long(number) => json!(number),
        Field::Double(number) => json!(number),
        Field::Bool(flag) => json!(flag),
        Field::Str(text) => json!(text),
        other => panic!("{other:?}"),
    };
    let row = |row: parquet::record::Row| {
        row.get_column_iter().map(|(name, field)| (name.clone(), value(field))).collect()
    };
    file.get_row_iter(None).unwrap().map(|one| row(one.unwrap())).collect()
}
