//! What hung, with the names of kernels, functions and files.

use super::named::named;
use super::names::demangle;
use crate::trace::record::{self, Names, Operation, Status};
use gpuspy_wire::record::{Direction, Namespace};

/// An operation on a stream, or a call, that did not end for longer than `--hang-after`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hang {
    /// How long nothing has been happening, ns.
    pub age: u64,
    /// Whether it ended.
    pub is_over: bool,
    /// Whether the operation is known to be pending; otherwise only the call is known to block.
    pub is_pending: bool,
    /// The ordinal of the device.
    pub device: Option<u32>,
    /// The stream.
    pub stream: Option<u64>,
    /// The operation that hangs, or without `is_pending` the last one launched that may.
    pub operation: Option<Named>,
    /// How many operations that may hang instead were launched before it without a GPU time.
    pub untimed_before: u64,
    /// The API of the call that made the stream wait for something else.
    pub behind: Option<String>,
    /// The last operation of the stream that completed.
    pub last: Option<Completed>,
    /// Whether other streams of the device completed operations meanwhile.
    pub others_complete: bool,
    /// The call that blocked a thread.
    pub call: Option<Blocked>,
}

named! {
    /// The kinds of operations.
    pub enum OperationKind {
        /// A kernel launch.
        Kernel = "kernel",
        /// A copy.
        Copy = "copy",
        /// A memset.
        Memset = "memset",
        /// A graph launch.
        Graph = "graph launch",
        /// Launches that are timed together.
        Run = "run of launches",
    }
}

/// An operation in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// The name of an [`OperationKind`].
    pub what: &'static str,
    /// The kernel's name, demangled; of a run, the last one's.
    pub kernel: Option<String>,
    /// The number of launches of a run.
    pub launches: Option<u64>,
    /// Bytes of a copy or a memset.
    pub bytes: Option<u64>,
    /// The direction of a copy, if it is known.
    pub direction: Option<&'static str>,
}

/// An operation that completed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completed {
    /// The operation.
    pub operation: Named,
    /// How long before the end of [`Hang::age`] it was found completed, ns.
    pub ago: u64,
}

/// A call that did not return.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocked {
    /// The thread's id in the system.
    pub tid: u32,
    /// The function.
    pub api: Option<String>,
    /// Path of the file that called it.
    pub library: Option<String>,
    /// How long the thread was in it, ns.
    pub age: u64,
}

/// Returns since when a thread has been blocked in a call to the end of the collection, host ns; of several, the first one. `None` if none
/// is known to have been.
pub fn blocked_since(status: &Status) -> Option<u64> {
    let to_the_end = status.hangs.iter().filter(|hang| !hang.is_over);
    to_the_end.filter_map(|hang| hang.call.map(|call| call.since)).min()
}

impl Hang {
    /// Resolves the numbers of a hang.
    pub fn of(hang: &record::Hang, names: &Names) -> Hang {
        let api = |id: u16| names.get(Namespace::Api, id.into()).map(str::to_owned);
        let ago = |at: u64| hang.until.saturating_sub(at);
        Hang {
            age: ago(hang.since),
            is_over: hang.is_over,
            is_pending: hang.is_pending,
            device: hang.device,
            stream: hang.stream,
            operation: hang.operation.map(|operation| Named::of(operation, names)),
            untimed_before: hang.untimed_before,
            behind: hang.behind.and_then(api),
            last: hang
                .last
                .map(|last| Completed { operation: Named::of(last.operation, names), ago: ago(last.seen) }),
            others_complete: hang.others_complete,
            call: hang.call.map(|call| Blocked {
                tid: call.tid,
                api: api(call.api),
                library: names.get(Namespace::Path, call.library).map(str::to_owned),
                age: ago(call.since),
            }),
        }
    }
}

impl Named {
    fn of(operation: Operation, names: &Names) -> Named {
        let kernel = |id| names.get(Namespace::Kernel, id).map(demangle);
        let plain = |kind: OperationKind| Named {
            what: kind.name(),
            kernel: None,
            launches: None,
            bytes: None,
            direction: None,
        };
        match operation {
            Operation::Kernel(name) => Named { kernel: kernel(name), ..plain(OperationKind::Kernel) },
            Operation::Copy(direction, bytes) => Named {
                bytes: Some(bytes),
                direction: (direction != Direction::Default).then(|| direction.name()),
                ..plain(OperationKind::Copy)
            },
            Operation::Set(bytes) => Named { bytes: Some(bytes), ..plain(OperationKind::Memset) },
            Operation::Graph => plain(OperationKind::Graph),
            Operation::Run(name, launches) => {
                Named { kernel: kernel(name), launches: Some(launches), ..plain(OperationKind::Run) }
            }
        }
    }
}
