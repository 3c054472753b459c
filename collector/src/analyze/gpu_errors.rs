//! Did a GPU stop the program's work with an error, which call returned it first, and which launches may have caused it?
//!
//! Kernels run asynchronously, so the call that returns such an [error](crate::model::gpu_error) says little about its cause.
//! What may have caused it are launches that had not completed. A launch is known to be complete if its own end was seen, or
//! that of a later operation of its stream or of one that waited for it by an event, or if the program has waited for
//! it. Successful queries, and the order that the legacy default stream makes, are not followed: what only they show
//! to be complete counts as not seen to complete.

use super::analysis::{Analysis, End, Start};
use super::calls::api_name;
use super::merge::Merge;
use super::scope::Scope;
use super::source::Source;
use crate::hash::HashMap;
use crate::model::job::Job;
use crate::model::run::{Machine, Place};
use crate::model::stacks::{Caller, Frame};
use crate::model::transfer::{TransferKind, blocks_host};
use crate::model::{Action, Drained, Event, Operation, When, gpu_error};
use crate::trace::record::{Body, Names, What};
use gpuspy_wire::record::Namespace;
use std::collections::{BTreeMap, VecDeque};

/// The most suspects that are named.
pub const NAMED: usize = 4;
/// The most launches of a stream that are remembered one by one; those before are only counted.
const REMEMBERED: usize = 64;
/// The most streams with launches that are not known to be complete. Launches on others are not remembered.
const STREAMS: usize = 1024;

/// The errors of a process, or of several.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GpuErrors {
    /// The number of processes that got one.
    pub processes: u64,
    /// The calls that returned the first error of their process.
    pub calls: u64,
    /// The first of them; of several processes, the earliest, also where they ran on several machines.
    pub first: Option<Stopped>,
}

/// A GPU stopped the work of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stopped {
    /// The error's number, which [`gpu_error::of`] knows.
    pub result: i32,
    /// When the call that returned it first returned: host ns.
    pub at: u64,
    /// The same, ns since the collection began.
    pub since_began: u64,
    /// The same, CLOCK_REALTIME, ns; `None` if the trace has no status.
    pub real_time: Option<u64>,
    /// The machine whose clock host times come from, if known.
    pub machine: Option<Machine>,
    /// That call's API.
    pub api: String,
    /// Where the call was made.
    pub source: Source,
    /// The process.
    pub pid: Option<u32>,
    /// Its rank in a job.
    pub rank: Option<u32>,
    /// The thread's id in the system, if known.
    pub tid: Option<u32>,
    /// Launches before it that were not seen to complete: the last ones, the latest at the end, at most [`NAMED`] rows.
    pub suspects: Vec<Suspect>,
    /// How many more there were before these.
    pub others: u64,
}

/// Launches of one kernel from one line that were not seen to complete.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Suspect {
    /// The kernel's symbol; `None` for launches of graphs, and of kernels whose name is not known.
    pub symbol: Option<String>,
    /// Whether a graph was launched.
    pub is_graph: bool,
    /// The line of the program; `None` if it is not known.
    pub line: Option<Frame>,
    /// The number of launches.
    pub count: u64,
}

impl Merge for GpuErrors {
    fn merge(&mut self, other: &GpuErrors) {
        self.processes += other.processes;
        self.calls += other.calls;
        let Some(theirs) = &other.first else { return };
        if self.first.as_ref().is_none_or(|own| theirs.is_before(own)) {
            self.first = Some(theirs.clone());
        }
    }
}

impl Stopped {
    /// Whether it came before that of another process. Host times of one machine are of one clock. Those of several count
    /// from when each of them booted, so there the real times are compared, if both are known.
    fn is_before(&self, other: &Stopped) -> bool {
        let real_times = self.real_time.zip(other.real_time).filter(|_| self.machine != other.machine);
        let (own, theirs) = real_times.unwrap_or((self.at, other.at));
        (own, self.pid) < (theirs, other.pid)
    }
}

/// What was launched, and the number of the line of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Launched {
    /// In [`Namespace::Kernel`]; 0 = unknown.
    kernel: u32,
    is_graph: bool,
    line: u32,
}

/// Launches on a stream that are not known to be complete.
#[derive(Clone, Debug, Default)]
struct Pending {
    /// The latest, with host ns when their calls returned.
    latest: VecDeque<(u64, Launched)>,
    /// The number of those before them, and when the last of them returned.
    older: (u64, u64),
}

impl Pending {
    fn launch(&mut self, returned: u64, launched: Launched) {
        self.latest.push_back((returned, launched));
        if self.latest.len() > REMEMBERED
            && let Some((returned, _)) = self.latest.pop_front()
        {
            self.older = (self.older.0 + 1, returned);
        }
    }

    /// Forgets the launches that had returned by this host time: they are complete. Returns whether others are left.
    fn complete(&mut self, by: u64) -> bool {
        if self.older.1 <= by {
            self.older = (0, 0);
        }
        while self.latest.front().is_some_and(|(returned, _)| *returned <= by) {
            self.latest.pop_front();
        }
        self.older.0 > 0 || !self.latest.is_empty()
    }
}

/// The first call that returned an error.
#[derive(Clone, Copy, Debug)]
struct First {
    result: i32,
    at: u64,
    api: u16,
    caller: Caller,
    thread: u32,
}

/// The analysis.
#[derive(Debug)]
pub struct ErrorFold<'a> {
    names: &'a Names,
    began: u64,
    /// By context and stream.
    pending: HashMap<(u32, u64), Pending>,
    first: Option<First>,
    calls: u64,
}

impl ErrorFold<'_> {
    fn operation(&mut self, event: &Event<'_>, operation: &Operation) {
        let stream = (operation.context, operation.stream);
        if let Some(by) = complete_by(event, operation) {
            self.complete(stream, by);
        }
        let line = operation.caller.line;
        let launched = match operation.what {
            Action::Kernel { name, .. } => Launched { kernel: name, is_graph: false, line },
            Action::Graph { .. } => Launched { kernel: 0, is_graph: true, line },
            Action::Transfer { .. } | Action::Burst { .. } => return,
        };
        // Nothing that was launched after the error can be its cause.
        if operation.when == When::Captured || was_seen(event) || self.first.is_some() {
            return;
        }
        if self.pending.len() < STREAMS || self.pending.contains_key(&stream) {
            self.pending.entry(stream).or_default().launch(operation.returned, launched);
        }
    }

    fn drained(&mut self, Drained { context, stream, issued_before, .. }: Drained) {
        match stream {
            Some(stream) => self.complete((context, stream), issued_before),
            None => {
                self.pending.retain(|(of, _), pending| *of != context || pending.complete(issued_before));
            }
        }
    }

    /// Forgets the launches on a stream that had returned by this host time.
    fn complete(&mut self, stream: (u32, u64), by: u64) {
        if let Some(pending) = self.pending.get_mut(&stream)
            && !pending.complete(by)
        {
            self.pending.remove(&stream);
        }
    }

    /// Returns the last launches that may have caused the error, and the number of those before.
    fn suspects(&self, end: &End<'_>) -> (Vec<Suspect>, u64) {
        let mut rows: BTreeMap<Launched, (u64, u64)> = BTreeMap::new();
        for (returned, launched) in self.pending.values().flat_map(|pending| &pending.latest) {
            let row = rows.entry(*launched).or_default();
            *row = (row.0.max(*returned), row.1 + 1);
        }
        let mut rows: Vec<_> = rows.into_iter().map(|(launched, row)| (row, launched)).collect();
        rows.sort_unstable();
        let named = rows.split_off(rows.len().saturating_sub(NAMED));
        let older: u64 = self.pending.values().map(|pending| pending.older.0).sum();
        let others = rows.iter().map(|((_, count), _)| count).sum::<u64>() + older;
        let suspect = |((_, count), launched): ((u64, u64), Launched)| Suspect {
            symbol: self.names.get(Namespace::Kernel, launched.kernel).map(str::to_owned),
            is_graph: launched.is_graph,
            line: end.line_of(launched.line),
            count,
        };
        (named.into_iter().map(suspect).collect(), others)
    }
}

/// Whether the end of the event's own operation was seen.
fn was_seen(event: &Event<'_>) -> bool {
    matches!(&event.record.body, Body::Work(work) if work.gpu.is_some())
}

/// Returns the host ns at which the call of a launch on the operation's stream had to have returned to be known to be complete
/// now; `None` if the operation shows nothing of the kind.
fn complete_by(event: &Event<'_>, operation: &Operation) -> Option<u64> {
    let Body::Work(work) = &event.record.body else { return None };
    let waits = || {
        let moved = operation.what.moved();
        // The copy is behind the launches, and the host has its data.
        matches!(moved, Some((TransferKind::DtoH, ..))) && blocks_host(work.call.flags, moved)
    };
    match work.what {
        // Its end event comes after its launches.
        What::Burst { closing, .. } => work.gpu.is_some().then(|| work.call.end.saturating_sub(closing)),
        _ if operation.when == When::Captured => None,
        _ => (work.gpu.is_some() || waits()).then_some(operation.called),
    }
}

impl<'a> Analysis<'a> for ErrorFold<'a> {
    type Rows = GpuErrors;

    fn new(start: &Start<'a>) -> Self {
        let (names, began) = (start.names, start.began);
        ErrorFold { names, began, pending: HashMap::default(), first: None, calls: 0 }
    }

    fn observe(&mut self, event: &Event<'_>, scope: &Scope<'_>) {
        if let Some(operation) = &event.operation {
            self.operation(event, operation);
        }
        event.drained.iter().for_each(|drained| self.drained(*drained));
        if let (Body::Api(api), Some(call)) = (&event.record.body, event.call)
            && call.failed
            && scope.call()
            && gpu_error::of(api.result).is_some()
        {
            let (at, thread) = (event.record.at, event.record.thread);
            let now = First { result: api.result, at, api: call.api, caller: event.caller, thread };
            let first = self.first.get_or_insert(now);
            if first.result == api.result {
                self.calls += u64::from(call.calls);
            }
        }
    }

    fn finish(self, end: &End<'_>) -> GpuErrors {
        let Some(First { result, at, api, caller, thread }) = self.first else { return GpuErrors::default() };
        let (suspects, others) = self.suspects(end);
        let since_began = at.saturating_sub(self.began);
        let first = Stopped {
            result,
            at,
            since_began,
            real_time: end.status.map(|status| status.began_realtime.saturating_add(since_began)),
            machine: Some(Place::of(self.names, end.status).machine),
            api: api_name(self.names, api),
            source: end.source(caller),
            pid: end.pid,
            rank: Job::of(self.names).rank,
            tid: end.status.and_then(|status| status.threads.get(&thread).copied()),
            suspects,
            others,
        };
        GpuErrors { processes: 1, calls: self.calls, first: Some(first) }
    }
}

#[cfg(test)]
mod tests;
