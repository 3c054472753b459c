//! Lines of the program.

use super::numbers::Estimate;
use crate::analyze::estimate::{self, Kind};
use crate::analyze::source_lines::LineUse;
use crate::model::stacks::Frame;
use schemars::JsonSchema;
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// What a line of the program causes by its calls. A call's line is that of the innermost Python frame in the program's own
/// files: outside installed packages, the standard library, frozen modules and generated code. If there is none, it is
/// that of the native code that made the call, outside the headers of CUDA and of the system.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SourceLine {
    /// The file, as the interpreter or the compiler has it; that of the library, without a line, if a native function has
    /// no debug information. null = calls of which no line and no function is known.
    pub file: Option<String>,
    /// The line; null = not known.
    pub line: Option<u32>,
    /// The function, qualified where the interpreter has that (from CPython 3.11 on); of native code, demangled.
    pub function: Option<String>,
    /// The library or program that the calls came from, for those of no Python line; else null.
    pub library: Option<String>,
    /// The number of its calls, by the outermost API.
    pub calls: BTreeMap<String, u64>,
    /// The number of its kernel launches outside stream captures.
    pub launches: u64,
    /// The number of its operations: launches, graph launches, copies and memsets.
    pub operations: u64,
    /// The number of those that were timed: alone, or together with others in a run or a burst (in coverage, timed is only
    /// the former).
    pub timed: u64,
    /// The GPU time of all of its operations. Those that were not timed alone are assumed to take as long as those of the
    /// same kernel, or of the same kind of transfer by its bytes, that were: of the same line, if it has three or more.
    /// Operations of which none like them was timed are not in it.
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

/// The line of the program that most of a row comes from.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct MainLine {
    /// The line of the program that most of it comes from, as file:line; null = not known.
    pub line: Option<String>,
    /// The share of all of it that comes from there, 0 to 1.
    #[schemars(range(min = 0, max = 1))]
    pub line_share: Option<f64>,
}

impl MainLine {
    /// Returns the line that most comes from, with its share.
    pub fn of(main: Option<(&Frame, f64)>) -> MainLine {
        let (line, line_share) = main.map(|(frame, share)| (frame.place(), share)).unzip();
        MainLine { line, line_share }
    }
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
            library: frame.map(|frame| frame.library.clone()).filter(|library| !library.is_empty()),
            calls: line.calls.clone(),
            launches: line.launches,
            operations: line.operations,
            timed: line.timed,
            gpu_ns: if line.alone < line.operations {
                estimate::Estimate { kind: Kind::Extrapolated, ..line.gpu.estimate() }.into()
            } else {
                line.gpu.into()
            },
            idle_ns: line.idle_ns,
            wait_ns: line.wait_ns,
            bytes: line.bytes,
            allocated_bytes: line.allocated_bytes,
        }
    }
}
