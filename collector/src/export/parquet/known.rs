//! The tables that are written when the trace has been read: stacks, GPUs, the process, and its report.

use super::flat::{self, Flat};
use super::layout::{Cell, Kind, Layout};
use super::sheet::{Block, Entries, Sheet};
use super::tables::WHOSE;
use crate::analyze::ProcessReport;
use crate::analyze::coverage::DAMAGED_TRACE;
use crate::model::Reason;
use crate::model::stacks::{Frame, Stacks};
use crate::trace::record::{Call, Device, Names, Status};
use ::parquet::file::reader::{FileReader, SerializedFileReader};
use ::parquet::record::Field;
use gpuspy_wire::communication::is_collective;
use gpuspy_wire::record::{Fact, LossCause, Namespace};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::iter::once;
use std::path::Path;

/// Columns and their values in the one row of a table.
type Named = Vec<(String, Kind, Cell)>;

/// The columns of the frames of stacks.
pub(super) fn stack_layout() -> Layout {
    let frame = [
        ("function", Kind::Text),
        ("file", Kind::Text),
        ("line_number", Kind::Number),
        ("library", Kind::Text),
        ("place", Kind::Text),
    ];
    Layout::new("stack")
        .own(&["stack_id", "frame"])
        .group(frame)
        .group([("is_line", Kind::Flag)])
        .group(WHOSE)
}

/// Gives the frames of all stacks of a trace, the innermost first. Many stacks share a frame: its texts are there once.
///
/// # Errors
/// Fails if `give` does.
pub(super) fn stacks(
    names: &Names,
    whose: &[Cell; 2],
    mut give: impl FnMut(&Block) -> io::Result<()>,
) -> io::Result<()> {
    let (stacks, mut sheet) = (Stacks::of(names), Sheet::new(&stack_layout()));
    let (mut known, mut flags, mut pids) = (Entries::default(), Entries::default(), Entries::default());
    let ids = names.0.range((Namespace::Stack, 0)..=(Namespace::Stack, u32::MAX)).map(|((_, id), _)| *id);
    for stack in ids {
        let Some((frames, is_cut)) = stacks.frames(stack) else { continue };
        let mut line = stacks.line(stacks.line_of(&Call { stack, ..Call::default() }));
        let frames = frames.into_iter().map(Some).chain(is_cut.then_some(None));
        for (at, frame) in (0..).zip(frames) {
            let is_line = line.is_some() && frame.flatten() == line;
            if is_line {
                line = None; // A function that calls itself is there several times: the innermost is meant.
            }
            let entries = [
                sheet.entry(0, &mut known, frame, || frame_cells(frame)),
                sheet.entry(1, &mut flags, is_line, || vec![is_line.into()]),
                sheet.entry(2, &mut pids, (), || whose.to_vec()),
            ];
            sheet.row(&[Some(stack.into()), Some(at)], &entries);
            if let Some(block) = sheet.due() {
                give(&block)?;
            }
        }
    }
    give(&sheet.take(true))
}

/// What is known of a frame; `None` stands for those that were not read.
fn frame_cells(frame: Option<Option<&Frame>>) -> Vec<Cell> {
    let place = frame.map_or("…".to_owned(), |frame| frame.map_or("?".to_owned(), ToString::to_string));
    let known = frame.flatten();
    let text = |text: fn(&Frame) -> &str| Cell::text(known.map(text).filter(|text| !text.is_empty()));
    vec![
        text(|frame| &frame.function),
        text(|frame| &frame.file),
        Cell::number(known.map(|frame| frame.line).filter(|line| *line > 0)),
        text(|frame| &frame.library),
        Cell::text(Some(place)),
    ]
}

/// The GPUs of a process.
pub(super) fn devices(report: &ProcessReport, known: &BTreeMap<u32, Device>) -> Flat {
    let columns = [
        ("id", Kind::Number),
        ("name", Kind::Text),
        ("uuid", Kind::Text),
        ("totalMemory", Kind::Number),
        ("smCount", Kind::Number),
        ("computeMajor", Kind::Number),
        ("computeMinor", Kind::Number),
        ("maxWarpsPerSm", Kind::Number),
    ];
    let rows = report.tables.devices.iter().map(|device| {
        let known = device.id.and_then(|id| known.get(&id));
        let some = |number: fn(&Device) -> u32| Cell::number(known.map(number).filter(|number| *number > 0));
        vec![
            Cell::number(device.id),
            Cell::text(device.name.as_ref()),
            Cell::text(device.uuid.as_ref()),
            Cell::number(device.memory_bytes),
            some(|device| device.multiprocessors),
            // Major * 10 + minor.
            some(|device| device.capability / 10),
            Cell::number(known.map(|device| device.capability % 10)),
            some(|device| device.warps_per_multiprocessor),
        ]
    });
    flat("device", &columns, rows.collect())
}

/// The communication kernels of a process by name, with how many it launched.
pub(super) fn communication(launches: &BTreeMap<&str, u64>) -> Flat {
    let columns = [("mangledName", Kind::Text), ("launches", Kind::Number), ("collective", Kind::Flag)];
    let row = |(symbol, count): (&&str, &u64)| {
        let is_collective = is_collective(symbol.as_bytes());
        vec![Cell::text(Some(symbol)), Cell::number(Some(*count)), is_collective.into()]
    };
    flat("communication", &columns, launches.iter().map(row).collect())
}

/// The process: what it was, and what was seen of it, from its report as JSON.
pub(super) fn process(
    names: &Names,
    status: Option<&Status>,
    began: u64,
    ended: u64,
    report: &Value,
) -> Flat {
    let at = |pointer: &str| report.pointer(pointer).unwrap_or(&Value::Null);
    let own = |key: &str, kind| (key.to_owned(), kind, flat::cell(at(&format!("/processes/0/{key}")), kind));
    let counted =
        |key: &str| (key.to_owned(), Kind::Number, flat::cell(at(&format!("/coverage/{key}")), Kind::Number));
    let of_damage =
        |key: &str, kind| (key.to_owned(), kind, flat::cell(at(&format!("/processes/0/damage/{key}")), kind));
    let fact = |fact: Fact| Cell::text(names.get(Namespace::Fact, fact as u32));
    let pid = Cell::number(status.map(|status| status.pid));
    let global = Cell::number(status.map(|status| i64::from(status.pid) << 24));
    let named = |name: &str, kind, cell| (name.to_owned(), kind, cell);
    let mut row: Named = vec![named("pid", Kind::Number, pid), named("globalPid", Kind::Number, global)];
    row.extend(["local_rank", "world_size"].map(|key| own(key, Kind::Number)));
    row.push(named("host_name", Kind::Text, fact(Fact::Host)));
    row.push(own("command", Kind::Text));
    row.push(named("executable", Kind::Text, fact(Fact::Executable)));
    row.push(named("trace", Kind::Text, flat::cell(at("/processes/0/path"), Kind::Text)));
    row.push(named("hostBegan", Kind::Number, Cell::number(Some(began))));
    row.push(named("hostEnded", Kind::Number, Cell::number(Some(ended))));
    // The real-time clock was read when the session began.
    let realtime =
        status.map(|status| i128::from(status.began_realtime) + i128::from(began) - i128::from(status.began));
    row.push(named("realtimeBegan", Kind::Number, Cell::number(realtime)));
    row.push(own("wall_ns", Kind::Number));
    row.push(own("ending", Kind::Text));
    row.push(own("exit_code", Kind::Number));
    row.extend(["signal", "filter"].map(|key| own(key, Kind::Text)));
    row.push(own("driver_version", Kind::Number));
    let doubt = flat::cell(at("/clock/uncertainty_ns"), Kind::Number);
    row.push(named("clock_uncertainty_ns", Kind::Number, doubt));
    row.extend(["launches", "timed"].map(counted));
    row.push(own("timed_in_runs", Kind::Number));
    row.extend(["captured", "in_graphs", "unattributed", "never_timed"].map(counted));
    row.extend(Reason::all().map(|reason| by_name(at("/coverage/untimed"), "untimed", reason.name())));
    row.push(counted("dropped"));
    let causes = LossCause::ALL.iter().map(|cause| cause.name()).chain(once(DAMAGED_TRACE));
    row.extend(causes.map(|cause| by_name(at("/coverage/dropped_by"), "dropped", cause)));
    row.push(counted("pending"));
    row.extend(
        ["chunks_lost", "chunks_refused", "records_lost", "times_lost"]
            .map(|key| of_damage(key, Kind::Number)),
    );
    row.extend(["end_unread", "cut", "unfinished"].map(|key| of_damage(key, Kind::Flag)));
    row.push(of_damage("write_error", Kind::Text));
    let (columns, cells) = row.into_iter().map(|(name, kind, cell)| ((name, kind), cell)).unzip();
    Flat { table: "process".to_owned(), columns, rows: vec![cells] }
}

/// Returns what the process of a file of the table `process` is called in its job; `None` if the file cannot be read.
pub(super) fn key_in(file: &Path) -> Option<String> {
    let reader = SerializedFileReader::new(File::open(file).ok()?).ok()?;
    let row = reader.get_row_iter(None).ok()?.next()?.ok()?;
    row.get_column_iter().find_map(|(column, field)| match field {
        Field::Str(key) if column == WHOSE[0].0 => Some(key.clone()),
        _ => None,
    })
}

/// A count by name; what is absent did not occur.
fn by_name(counts: &Value, what: &str, name: &str) -> (String, Kind, Cell) {
    let count = counts.get(name).and_then(Value::as_u64).unwrap_or(0);
    (format!("{what}_{name}"), Kind::Number, Cell::number(Some(count)))
}

fn flat(table: &str, columns: &[(&str, Kind)], rows: Vec<Vec<Cell>>) -> Flat {
    let columns = columns.iter().map(|(name, kind)| ((*name).to_owned(), *kind)).collect();
    Flat { table: table.to_owned(), columns, rows }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_of_many_stacks_is_there_once() {
        let text = |space, id, text: &str| ((space, id), text.to_owned());
        let frames = [(1, "main\n/a/train.py\n3"), (2, "forward\n/a/model.py\n8")];
        let mut names = Names(frames.map(|(id, frame)| text(Namespace::Frame, id, frame)).into());
        let stacks = 40_000;
        names
            .0
            .extend((1..=stacks).map(|id| text(Namespace::Stack, id, if id % 2 == 0 { "1" } else { "2 1" })));
        let (mut rows, mut fresh, mut blocks) = (0, 0, 0);
        super::stacks(&names, &[Cell::Null, Cell::Null], |block| {
            rows += block.rows;
            fresh += block.groups[0].fresh.len();
            blocks += 1;
            Ok(())
        })
        .unwrap();
        assert_eq!((rows, fresh), (stacks as usize * 3 / 2, 2));
        assert!(blocks > 3, "rows are given as they are made");
    }
}
