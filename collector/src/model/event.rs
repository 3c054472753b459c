//! What is the meaning of a record, as the analyses see it?

use super::events::Drained;
use super::gpu_interval::GpuInterval;
use super::graphs::Contents;
use super::memory::MemoryChange;
use super::stacks::Caller;
use super::transfer::{HostMemory, Moved, TransferKind};
use crate::trace::record::Record;
use gpuspy_wire::record::{LossCause, Untimed};
use std::sync::Arc;

/// The meaning of one record.
#[derive(Clone, Debug)]
pub struct Event<'r> {
    /// The record itself.
    pub record: &'r Record,
    /// An API call that ended here. `None` for records that are not the last of their call.
    pub call: Option<CountedCall>,
    /// Work for a GPU.
    pub operation: Option<Operation>,
    /// What a graph launch ran.
    pub graph: Option<Arc<Contents>>,
    /// When a node of a graph ran.
    pub node: Option<GpuInterval>,
    /// Changes of the memory that the program holds.
    pub memory: Vec<MemoryChange>,
    /// Work that is certainly over, as the program waited for it, or for work that had waited for it.
    pub drained: Vec<Drained>,
    /// Where in the program its call was made.
    pub caller: Caller,
    /// The number of its process on the line; 0 for the only one.
    pub process: u32,
    /// The number of its call's context on the line; 0 = unknown or none.
    pub context: u32,
    /// The number of the program's step that the call belongs to, from 0; `None` before the first step, or without steps.
    pub step: Option<u64>,
    /// Whether it comes before the second step, or without steps before a twentieth of the launches: the program prepares,
    /// and warms up.
    pub is_preparing: bool,
    /// Whether it comes before the first step of a program that launches little until then, or is the first operation of that step:
    /// the program has set up until now.
    pub is_setting_up: bool,
}

impl<'r> Event<'r> {
    /// An event without a meaning yet.
    pub fn new(record: &'r Record) -> Self {
        Event {
            record,
            call: None,
            operation: None,
            graph: None,
            node: None,
            memory: Vec::new(),
            drained: Vec::new(),
            caller: record
                .body
                .call()
                .map_or(Caller::default(), |call| Caller { address: call.caller, line: 0 }),
            process: 0,
            context: record.body.call().map_or(0, |call| call.context),
            step: None,
            is_preparing: false,
            is_setting_up: false,
        }
    }
}

/// A call of the program, or several queries in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CountedCall {
    /// The outermost API, in [`Namespace::Api`](gpuspy_wire::record::Namespace::Api).
    pub api: u16,
    /// The number of calls: 1 except for queries in a row.
    pub calls: u32,
    /// Time from entry to return on the host, ns.
    pub host_ns: u64,
    /// Whether it returned an error.
    pub failed: bool,
}

/// An operation on a stream.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Operation {
    /// Unique in the process.
    pub correlation: u64,
    /// The context; 0 = unknown.
    pub context: u32,
    /// The device's ordinal, where the context is known.
    pub device: Option<u32>,
    /// The stream's id.
    pub stream: u64,
    /// Where in the program the call was made, of a burst the first one.
    pub caller: Caller,
    /// Host ns when the call was entered; of a burst, its first call, where that is known.
    pub called: u64,
    /// Host ns when the call returned; of a burst, the record of its end event, or without a GPU time its last launch.
    pub returned: u64,
    /// What it does.
    pub what: Action,
    /// When it ran, or why that is unknown.
    pub when: When,
}

/// What an operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A kernel launch.
    Kernel {
        /// In [`Namespace::Kernel`](gpuspy_wire::record::Namespace::Kernel); 0 = unknown.
        name: u32,
        /// It moves data between GPUs (NCCL and similar libraries).
        communication: bool,
    },
    /// A copy or a memset.
    Transfer {
        /// Direction, or memset.
        kind: TransferKind,
        /// The kind of host memory that takes part.
        host_memory: HostMemory,
        /// Size in bytes.
        bytes: u64,
    },
    /// A graph launch.
    Graph {
        /// The number of kernels in the graph.
        kernels: u32,
    },
    /// Several launches that one event pair timed. The launches themselves are untimed and come before it on its
    /// stream.
    Burst {
        /// The number of launches.
        launches: u32,
        /// The number of ordinary launches among them: all of them in a run.
        ordinary: u32,
        /// Whether all of them move data between GPUs.
        communication: bool,
    },
}

impl Action {
    /// Whether it is a run: ordinary launches on a deep stream.
    pub fn is_run(&self) -> bool {
        matches!(self, Action::Burst { launches, ordinary, .. } if launches == ordinary)
    }

    /// What it moves, if it is a copy or a memset.
    pub fn moved(&self) -> Option<Moved> {
        match *self {
            Action::Transfer { kind, host_memory, bytes } => Some((kind, host_memory, bytes)),
            _ => None,
        }
    }
}

/// When an operation ran.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum When {
    /// Its interval.
    Timed(GpuInterval),
    /// It ran at an unknown time.
    Untimed {
        /// Why.
        reason: Reason,
        /// It did not start before this: host ns on the line. `None` if a [`Burst`](Action::Burst) has its time.
        after: Option<i64>,
    },
    /// It did not run: stream capture made it a node of a graph.
    Captured,
}

/// Why an operation has no GPU time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// No event pair was recorded.
    Untimed(Untimed),
    /// A pair was recorded, but its time was lost.
    Lost,
}

impl Reason {
    /// All reasons that an executed operation can have.
    pub fn all() -> impl Iterator<Item = Reason> {
        let none = [Untimed::Timed, Untimed::Captured];
        let untimed = Untimed::ALL.iter().copied().filter(move |u| !none.contains(u)).map(Reason::Untimed);
        untimed.chain([Reason::Lost])
    }

    /// The reason's name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Reason::Untimed(untimed) => untimed.name(),
            Reason::Lost => LossCause::GpuTimePending.name(),
        }
    }
}
