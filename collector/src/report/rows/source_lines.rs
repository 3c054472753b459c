//! Lines of the program.

use super::numbers::Estimate;
use crate::analyze::source_lines::LineUse;
use crate::model::stacks::Frame;
use schemars::JsonSchema;
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// What a line of the program causes by its calls. A call's line is that of the innermost frame in the program's own
/// files: outside installed packages, the standard library, frozen modules and generated code.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SourceLine {
    /// The file, as the interpreter has it; null = calls without a line: they came from no Python code, or from none of
    /// the program's own among the frames that were read.
    pub file: Option<String>,
    /// The line; null = not known.
    pub line: Option<u32>,
    /// The function, qualified where the interpreter has that (from CPython 3.11 on).
    pub function: Option<String>,
    /// The number of its calls, by the outermost API.
    pub calls: BTreeMap<String, u64>,
    /// The number of its kernel launches outside stream captures.
    pub launches: u64,
    /// The number of its operations: launches, graph launches, copies and memsets.
    pub operations: u64,
    /// The number of those that were timed, alone or together with others.
    pub timed: u64,
    /// The sum of the GPU times of the timed ones. Launches of several lines that were timed together share that time
    /// by their number.
    pub gpu_ns: Estimate,
    /// The sum of the idle gaps that its operations ended, by the best values. Each process counts the gaps of its own
    /// work, also where several share a GPU.
    pub idle_ns: u64,
    /// How long its calls waited for the GPU: the host's time in synchronize calls, and the waits of implicit_syncs.
    pub wait_ns: u64,
    /// The bytes that its copies and memsets move.
    pub bytes: u64,
    /// The bytes of device memory that it allocates.
    pub allocated_bytes: u64,
}

impl SourceLine {
    /// Returns the rows, those with the most time first: of the GPU, idle, and waiting.
    pub fn all(lines: &BTreeMap<Option<Frame>, LineUse>) -> Vec<SourceLine> {
        let mut rows: Vec<SourceLine> = lines.iter().map(SourceLine::of).collect();
        rows.sort_by_key(|row| Reverse(row.cost()));
        rows
    }

    /// Returns the time that it causes, ns: of the GPU, idle, and waiting.
    pub fn cost(&self) -> u64 {
        self.gpu_ns.value.saturating_add(self.idle_ns).saturating_add(self.wait_ns)
    }

    fn of((frame, line): (&Option<Frame>, &LineUse)) -> SourceLine {
        let frame = frame.as_ref();
        SourceLine {
            file: frame.map(|frame| frame.file.clone()),
            line: frame.map(|frame| frame.line).filter(|line| *line != 0),
            function: frame.map(|frame| frame.function.clone()),
            calls: line.calls.clone(),
            launches: line.launches,
            operations: line.operations,
            timed: line.timed,
            gpu_ns: line.gpu.into(),
            idle_ns: line.idle_ns,
            wait_ns: line.wait_ns,
            bytes: line.bytes,
            allocated_bytes: line.allocated_bytes,
        }
    }
}
