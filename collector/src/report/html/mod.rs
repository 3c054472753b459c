//! The report as one HTML page that needs nothing else: `gpuspy report --html`.
//!
//! The page is a template (`collector/html/`, of which `scripts/build-page` makes `built/page.html`) with data in it: the
//! report, which is the JSON that `--json` prints, and the [timeline]: a description as JSON, and
//! [tables](columns) in base64. The template's content security policy lets only its own script and style run, and nothing
//! be loaded; names of the program's are in JSON strings, in which no `<` is left, so they end no element.
//! docs/decisions/042-a-page-carries-its-data.md says why it is so.

mod columns;
mod density;
mod names;
mod rows;
mod timeline;

pub use timeline::{Source, Timeline};

use super::Sentences;
use crate::analyze::idle::Cause;
use crate::harmless;
use base64::engine::general_purpose::STANDARD;
use base64::write::EncoderWriter;
use columns::Packed;
use density::Slice;
use rows::Slices;
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{self, Write};

/// The page, with a mark where its data belongs.
const TEMPLATE: &str = include_str!("../../../html/built/page.html");
/// The mark.
const MARK: &str = "<!--data-->";

/// The first bytes of every page.
pub const START: &[u8] = b"<!doctype html>\n<!-- gpuspy report -->\n";

/// What a page shows.
#[derive(Debug)]
pub struct Page {
    /// The report as `--json` has it.
    pub json: Value,
    /// What the terminal says of it.
    pub sentences: Sentences,
    /// What happened when, in the same traces.
    pub timeline: Timeline,
    /// What prints the same as text.
    pub commands: Commands,
}

/// Commands for a shell.
#[derive(Debug)]
pub struct Commands {
    /// Prints the report.
    pub report: String,
    /// The same for a part of the time, whose options the page adds.
    pub of_part: String,
}

/// Writes a page.
///
/// # Errors
/// Fails if writing does.
pub fn write(out: &mut dyn Write, page: Page) -> io::Result<()> {
    let Page { json, sentences, mut timeline, commands } = page;
    let (before, after) = TEMPLATE.split_once(MARK).unwrap_or((TEMPLATE, ""));
    timeline.names.shorten();
    let tables = tables(&mut timeline)?;
    out.write_all(before.as_bytes())?;
    element(out, "data-report", &json)?;
    element(out, "data-timeline", &manifest(&timeline, &tables))?;
    let causes: BTreeMap<&str, &str> = Cause::ALL.iter().map(|cause| (cause.name(), cause.label())).collect();
    let version = env!("CARGO_PKG_VERSION");
    let Commands { report, of_part } = commands;
    let commands = json!({ "report": report, "of_part": of_part });
    let about = json!({ "version": version, "commands": commands, "sentences": sentences, "causes": causes });
    element(out, "data-about", &about)?;
    for (name, table) in &tables {
        write!(out, "<script type=\"text/plain\" id=\"table-{name}\">")?;
        base64(out, &table.packed.bytes)?;
        out.write_all(b"</script>\n")?;
    }
    out.write_all(after.as_bytes())?;
    out.flush()
}

/// A table and what the page has to know of it.
struct Table {
    packed: Packed,
    /// The number of its rows.
    rows: usize,
    /// The number of slices that they stand for.
    slices: u64,
    /// The length of its bins, ns, if its rows are bins.
    bin_ns: Option<i64>,
}

impl Table {
    fn of<T: Slice>(slices: &Slices<T>, packed: fn(&[T]) -> io::Result<Packed>) -> io::Result<Table> {
        Ok(match slices {
            Slices::Each(each) => {
                Table { packed: packed(each)?, rows: each.len(), slices: slices.len(), bin_ns: None }
            }
            Slices::Bins(bins) => {
                let (rows, bin_ns) = (bins.len(), Some(bins.length));
                Table { packed: bins.packed()?, rows, slices: slices.len(), bin_ns }
            }
        })
    }
}

fn tables(timeline: &mut Timeline) -> io::Result<[(&'static str, Table); 4]> {
    timeline.forget_binned_calls();
    Ok([
        ("operations", Table::of(&timeline.operations, rows::operations)?),
        ("calls", Table::of(&timeline.calls, rows::calls)?),
        ("ranges", Table::of(&timeline.ranges, rows::ranges)?),
        ("steps", Table::of(&timeline.steps, rows::steps)?),
    ])
}

fn manifest(timeline: &Timeline, tables: &[(&'static str, Table)]) -> Value {
    let tables: BTreeMap<&str, Value> = tables
        .iter()
        .map(|(name, table)| {
            let Table { packed, rows, slices, bin_ns } = table;
            (*name, json!({ "rows": rows, "slices": slices, "bin_ns": bin_ns, "columns": packed.names }))
        })
        .collect();
    let Timeline { processes, streams, threads, names, left_out, .. } = timeline;
    json!({
        "processes": processes,
        "streams": streams,
        "threads": threads,
        "names": names,
        "left_out": left_out,
        "tables": tables,
    })
}

fn base64(out: &mut dyn Write, bytes: &[u8]) -> io::Result<()> {
    let mut encoder = EncoderWriter::new(out, &STANDARD);
    encoder.write_all(bytes)?;
    encoder.finish().map(|_| ())
}

/// Writes JSON as an element of the page, which no text in it can end.
fn element(out: &mut dyn Write, id: &str, json: &impl Serialize) -> io::Result<()> {
    let json = harmless::json(serde_json::to_string(json)?).replace('<', "\\u003c");
    writeln!(out, "<script type=\"application/json\" id=\"{id}\">{json}</script>")
}

#[cfg(test)]
mod tests;
