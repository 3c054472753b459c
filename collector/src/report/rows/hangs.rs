//! Operations and calls that did not end.

use crate::analyze::ProcessReport;
use crate::model::hangs::{self, OperationKind};
use schemars::JsonSchema;
use serde::Serialize;

/// An operation that was pending for longer than `--hang-after` while nothing of its stream completed, or a call that
/// did not return for as long. If the process was killed, five seconds are enough.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Hang {
    /// The id of the process.
    pub pid: Option<u32>,
    /// The process's number in a job.
    pub rank: Option<u32>,
    /// Whether the hang ended, and the program went on. Otherwise it lasted to the end of the trace.
    pub over: bool,
    /// Whether the operation was pending. false: it is only known that the call blocked; the operation, which has no
    /// GPU time, is the last one launched that may not have completed.
    pub pending: bool,
    /// How long the stream, or without `pending` the thread, has been stuck.
    pub age_ns: u64,
    /// The ordinal of the device in the process; null = unknown.
    pub device: Option<u32>,
    /// The stream's id; null = unknown.
    pub stream: Option<u64>,
    /// The operation that hangs; null = none is known.
    pub operation: Option<Operation>,
    /// The number of operations without a GPU time that were launched before it: any of them may be the one that hangs.
    pub untimed_before: u64,
    /// The CUDA function by which an earlier call made the stream wait for an event, a value in memory, a semaphore or
    /// a host function; null = there was none.
    pub behind: Option<String>,
    /// The last operation of the stream that completed; null = none is known.
    pub last_completed: Option<LastCompleted>,
    /// Whether other streams of the device completed operations meanwhile.
    pub others_complete: bool,
    /// The CUDA function whose call blocked a thread; null = no thread was blocked in a CUDA call.
    pub api: Option<String>,
    /// The path of the library that made that call.
    pub library: Option<String>,
    /// That thread's id in the system.
    pub tid: Option<u32>,
    /// How long the thread was in that call.
    pub blocked_ns: Option<u64>,
    /// The hang in a sentence, as it is on the screen.
    pub text: String,
}

/// An operation on a stream.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Operation {
    /// A run of launches is timed together; its kernel is the last one's.
    #[schemars(extend("enum" = OperationKind::ALL.map(OperationKind::name)))]
    pub what: &'static str,
    /// The demangled name of the kernel.
    pub kernel: Option<String>,
    /// The number of launches of a run.
    pub launches: Option<u64>,
    /// The bytes of a copy or a memset.
    pub bytes: Option<u64>,
    /// The direction of a copy.
    pub direction: Option<&'static str>,
}

/// The last operation of a stream that completed.
#[derive(Debug, Serialize, JsonSchema)]
pub struct LastCompleted {
    pub operation: Operation,
    /// How long before the end of `age_ns` it completed.
    pub ago_ns: u64,
}

impl Operation {
    fn of(operation: &hangs::Named) -> Operation {
        let hangs::Named { what, kernel, launches, bytes, direction } = operation.clone();
        Operation { what, kernel, launches, bytes, direction }
    }
}

impl Hang {
    /// Returns the rows of a run: those that lasted to the end first, and of these the longest.
    pub fn all(reports: &[ProcessReport]) -> Vec<Hang> {
        let of = |report: &ProcessReport| {
            let process = &report.process;
            let row = |hang| Hang::of(hang, process.pid, process.job.rank);
            process.hangs.iter().map(row).collect::<Vec<_>>()
        };
        let mut rows: Vec<Hang> = reports.iter().flat_map(of).collect();
        rows.sort_by_key(|row| (row.over, std::cmp::Reverse(row.age_ns)));
        rows
    }

    fn of(hang: &hangs::Hang, pid: Option<u32>, rank: Option<u32>) -> Hang {
        let call = hang.call.as_ref();
        Hang {
            pid,
            rank,
            over: hang.is_over,
            pending: hang.is_pending,
            age_ns: hang.age,
            device: hang.device,
            stream: hang.stream,
            operation: hang.operation.as_ref().map(Operation::of),
            untimed_before: hang.untimed_before,
            behind: hang.behind.clone(),
            last_completed: hang
                .last
                .as_ref()
                .map(|last| LastCompleted { operation: Operation::of(&last.operation), ago_ns: last.ago }),
            others_complete: hang.others_complete,
            api: call.and_then(|call| call.api.clone()),
            library: call.and_then(|call| call.library.clone()),
            tid: call.map(|call| call.tid),
            blocked_ns: call.map(|call| call.age),
            text: crate::report::hangs::sentence(hang),
        }
    }
}
