//! The processes that a report is about.

use super::numbers::Estimate;
use crate::analyze::{self, ProcessReport};
use crate::model::outcome::{Outcome, signal_name};
use crate::report::damage::system_error;
use schemars::JsonSchema;
use serde::Serialize;

/// A process and how its collection went; with `gpuspy collect --every`, a window of a process's time, and with `--pid`, the time that
/// one collector collected.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Process {
    /// The process id.
    pub pid: Option<u32>,
    /// The command line.
    pub command: Option<String>,
    /// The version of the CUDA driver: 12090 is 12.9.
    pub driver_version: Option<u32>,
    /// The path of the trace; of several windows, of the first.
    pub path: String,
    /// The same, of several windows those that are damaged, if some are.
    #[serde(skip)]
    pub damaged: String,
    /// How many windows of the same collection came before the first one that the row is about; null = it is about the whole of it. Where
    /// a window in between is missing, or collectors followed one another, a process has two rows; the earlier one has the ending detached.
    pub window: Option<u64>,
    /// How many windows the row is about; null = it is about the whole collection.
    pub windows: Option<u64>,
    /// Whether the report has no later part of the process's time.
    #[serde(skip)]
    pub is_last_part: bool,
    /// The process id of the parent.
    pub parent: Option<u32>,
    /// The name of the machine; null = it is not known.
    pub host: Option<String>,
    /// The process's number in a job, as RANK or a launcher's variable of that meaning had it.
    pub rank: Option<u32>,
    /// The process's number on its machine.
    pub local_rank: Option<u32>,
    /// The number of processes of the job.
    pub world_size: Option<u32>,
    /// The UUIDs of the GPUs on which the process had a context.
    pub gpus: Vec<String>,
    /// vanished: it ended without its exit handlers, by _exit (then there is an exit code) or nobody knows how; crashed:
    /// by a signal that its own doing raised (SIGSEGV, SIGABRT); killed: by another one; unknown: its trace was cut off
    /// before it ended (the collector was killed, the disk was full).
    #[schemars(extend(
        "enum" = ["running", "unknown", "exited", "killed", "crashed", "vanished", "replaced", "detached", null]
    ))]
    pub ending: Option<&'static str>,
    /// The exit code.
    pub exit_code: Option<u8>,
    /// The signal that ended the process.
    pub signal: Option<String>,
    /// The host time that the report is about: of the whole collection, or of the captured ranges.
    pub wall_ns: u64,
    /// What was captured; null = the whole run.
    pub captured: Option<Captured>,
    /// The number of kernel launch calls that succeeded outside stream captures.
    pub launches: u64,
    /// The number of launches with a GPU time of their own.
    pub timed: u64,
    /// The number of launches that were timed together in runs, on deep streams.
    pub timed_in_runs: u64,
    pub memory: ProcessMemory,
    /// The number of records and GPU times that were lost.
    pub dropped: u64,
    pub damage: Damage,
    /// The number of bounds on the clocks' offset that contradicted each other: the assumptions do not hold there.
    pub clock_contradictions: u64,
    /// The number of operations that were placed before their call or after their end was observed: 0, unless bounds
    /// contradicted each other.
    pub causality_broken: u64,
    /// What the tables are limited to, in words; empty = nothing is left out.
    pub filter: String,
    /// The agent's notes to readers of the report.
    pub notes: Vec<String>,
}

/// The ranges that were captured (--capture-range).
#[derive(Debug, Serialize, JsonSchema)]
pub struct Captured {
    /// The value of --capture-range.
    pub range: String,
    /// The number of ranges; 0 = no range started.
    pub count: u64,
    /// The host time of the whole collection, from its first call on.
    pub run_ns: u64,
}

/// Device memory: the most that this process held, and what it held as it, or its window of time, ended.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ProcessMemory {
    /// The most bytes that it held at once.
    pub peak_bytes: Estimate,
    /// The bytes that it held as it ended.
    pub live_bytes: u64,
}

/// What could not be read of the trace.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Damage {
    /// The number of chunks that could not be read.
    pub chunks_lost: u64,
    /// Chunks that are whole and were not read, since they claim more records, bytes or memory than a file of this size
    /// can hold.
    pub chunks_refused: u64,
    /// The number of records that were lost, at least.
    pub records_lost: u64,
    /// The number of GPU times that were lost, at least, of records that are there.
    pub times_lost: u64,
    /// Whether what is at its end is no chunk any more: nobody knows how many records were there.
    pub end_unread: bool,
    /// Whether the file ends inside a chunk.
    pub cut: bool,
    /// Whether its writer is gone and did not come to the end: it was killed, or could not write.
    pub unfinished: bool,
    /// Why its writer could not write a part of it, in the system's words.
    pub write_error: Option<String>,
}

impl Process {
    /// Returns a row for each trace.
    pub fn all(reports: &[ProcessReport]) -> Vec<Process> {
        let mut rows: Vec<Process> = reports.iter().map(Process::of).collect();
        for last in analyze::processes(reports).iter().filter_map(|parts| parts.last()) {
            rows[*last].is_last_part = true;
        }
        rows
    }

    fn of(report: &ProcessReport) -> Process {
        let (process, coverage) = (&report.process, &report.tables.coverage);
        let memory = &report.tables.memory.device;
        let (exit_code, signal) = match process.outcome {
            Some(Outcome::Exited(code)) => (code, None),
            Some(Outcome::Left(code)) => (Some(code), None),
            Some(Outcome::Killed(signal) | Outcome::Crashed(signal)) => (None, Some(signal)),
            _ => (None, None),
        };
        let line = &process.line;
        let captured = process.captured.as_ref().map(|captured| Captured {
            range: captured.requested.clone(),
            count: captured.ranges,
            run_ns: line.wall_ns,
        });
        Process {
            pid: process.pid,
            command: process.command.clone(),
            driver_version: process.driver_version,
            path: process.path.clone(),
            damaged: process.damaged.clone(),
            window: process.window,
            windows: process.window.map(|_| process.windows),
            is_last_part: false,
            parent: process.parent,
            host: process.host.clone(),
            rank: process.job.rank,
            local_rank: process.job.local_rank,
            world_size: process.job.world_size,
            gpus: process.gpus.clone(),
            ending: process.outcome.map(Outcome::name),
            exit_code,
            signal: signal.map(|signal| signal_name(signal).to_string()),
            wall_ns: if captured.is_some() { line.looked_ns } else { line.wall_ns },
            captured,
            launches: coverage.launches,
            timed: coverage.timed,
            timed_in_runs: coverage.runs.launches,
            memory: ProcessMemory { peak_bytes: memory.peak().into(), live_bytes: memory.live_bytes },
            dropped: coverage.dropped(),
            damage: Damage::of(&process.damage),
            clock_contradictions: process.clock_contradictions,
            causality_broken: process.causality_broken,
            filter: process.filter.clone(),
            notes: process.notes.clone(),
        }
    }
}

impl Damage {
    fn of(damage: &analyze::Damage) -> Damage {
        let analyze::Damage {
            chunks_lost,
            chunks_refused,
            records_lost,
            times_lost,
            end_unread,
            cut,
            unfinished,
            write_error,
        } = *damage;
        let write_error = write_error.map(system_error);
        Damage {
            chunks_lost,
            chunks_refused,
            records_lost,
            times_lost,
            end_unread,
            cut,
            unfinished,
            write_error,
        }
    }
}
