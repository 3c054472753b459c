//! A trace as tables for DuckDB, Spark and other readers of Parquet. docs/parquet.md describes the folders and the columns.
//!
//! - [`place`]: where the files of a process lie
//! - `pass`: how events become rows: `operations`, `calls`, `memory`, `ranges`, `gaps`, which also has the steps; `context` is what
//!   all of them know of the process, and `tables` are their columns
//! - `known`: what is written when the trace has been read; `flat`: how the report becomes tables
//! - `sheet`: rows until they are encoded; `layout`: the columns of a table; `file`: a file; `chunk`: its columns, encoded;
//!   `bits`: numbers as bytes
//!
//! Rows are made in the pass of the analyses, on their thread, and encoded on a thread of their own. Memory holds one
//! row group of each table, compressed.

mod bits;
mod calls;
mod chunk;
mod context;
mod file;
mod flat;
mod gaps;
mod known;
mod layout;
mod memory;
mod operations;
mod pass;
pub mod place;
mod ranges;
mod sheet;
mod tables;

use crate::ahead::behind;
use crate::analyze::collectives::Numbers;
use crate::analyze::{self, Input, ProcessReport};
use crate::model::process_key::key;
use crate::report;
use crate::trace::record::{Record, Status};
use context::Context;
use file::TableFile;
use flat::Flat;
use layout::Layout;
use pass::Pass;
use sheet::{Block, Sheet};
use std::io;
use std::path::Path;
use tables::{Rows, Table};

/// What was written of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// The number of rows in the tables of what happened, those of the report not counted.
    pub rows: u64,
}

/// Writes the tables of a process into its folder, a file of this name and mode in each table. Each file has its name when it
/// is complete.
///
/// # Errors
/// Fails if writing does; then some files may be there.
pub fn write<Records>(folder: &Path, name: &str, mode: u32, input: Input<'_, Records>) -> io::Result<Written>
where
    Records: Iterator<Item = Record> + Send,
{
    let (names, status, began) = (input.names, input.status, input.clocks.began(input.status));
    let of = Context::new(names, status, input.clocks, input.filter, &key(names, status, name));
    let captured = input.clocks.capture_ranges.period(names, status, (i64::MIN, i64::MAX));
    let (numbers, whose) = (Numbers::new(names, &captured), of.whose());
    let mut files = Table::ALL
        .iter()
        .map(|table| TableFile::create(folder, name, mode, table.layout()))
        .collect::<io::Result<Vec<TableFile>>>()?;
    let (mut written, mut failed) = (Written::default(), None);
    let take = |(table, block): (Table, Block)| {
        written.rows += block.rows as u64;
        // What comes after a failure is not written.
        if failed.is_none() {
            failed = files[table as usize].write(&block).err();
        }
    };
    let (report, learned) = behind(take, |give| {
        let mut pass = Pass::new(of, Rows::new(give), numbers);
        let report = analyze::watched(input, &mut pass);
        (report, pass.finish())
    });
    failed.map_or(Ok(()), Err)?;
    files.into_iter().try_for_each(TableFile::finish)?;
    let json = report::json(std::slice::from_ref(&report));
    let ended = ended(&report);
    let mut stacks = TableFile::create(folder, name, mode, known::stack_layout())?;
    known::stacks(names, &whose, |block| stacks.write(block))?;
    stacks.finish()?;
    let devices = known::devices(&report, &learned.devices);
    let mut known = vec![devices, known::communication(&learned.communication)];
    known.extend(flat::tables(&json));
    // The process is last: it says which files there are.
    known.push(known::process(names, status, began, ended, &json));
    known
        .into_iter()
        .map(|flat| flat.of_process(&whose))
        .try_for_each(|flat| write_flat(folder, name, mode, flat))?;
    Ok(written)
}

/// Returns the names of the tables of a report.
pub fn report_tables() -> Vec<String> {
    flat::tables(&serde_json::Value::Null).into_iter().map(|flat| flat.table).collect()
}

/// Whether the tables of a process are in its folder, by its [key]: a trace is not added a second time.
pub fn is_written(folder: &Path, status: Option<&Status>, key: &str) -> bool {
    place::files(folder, status).any(|file| known::key_in(&file).is_some_and(|there| there == key))
}

/// When the collection of a process ended: host ns.
fn ended(report: &ProcessReport) -> u64 {
    report.process.line.ended()
}

/// Writes a table that is complete.
fn write_flat(folder: &Path, name: &str, mode: u32, flat: Flat) -> io::Result<()> {
    let Flat { table, columns, rows } = flat;
    let layout = Layout::new(table).group(columns);
    let mut sheet = Sheet::new(&layout);
    let mut file = TableFile::create(folder, name, mode, layout)?;
    for row in rows {
        let entry = sheet.fresh(0, row);
        sheet.row(&[], &[entry]);
        if let Some(block) = sheet.due() {
            file.write(&block)?;
        }
    }
    file.write(&sheet.take(true))?;
    file.finish()
}
