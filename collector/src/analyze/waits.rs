//! Calls that waited for the GPU though they are no synchronize calls.
//!
//! CUDA documents some calls as waiting for work that runs, and others were measured to (see [`Cause`]). Whether a call did
//! is decided by the clocks and not by its name: the work that it waits for was unfinished when the call was entered, and
//! over when it returned. Its **wait** is from its entry to the end of that work. It is an interval, since the end of the
//! work is one. The rest of the call is its own time.
//!
//! - Most of these calls wait for all work of their context. A copy waits for what is before it on its stream, and by
//!   the rules of the legacy default stream for the streams that this one synchronizes with. That the copy was over
//!   when its call returned shows that it did.
//! - Work certainly counts if its own call had returned before. Work that other threads issued meanwhile may have
//!   been waited for, too: it can only raise the upper bound of the wait.
//! - Work is what the GPU does. A call may also wait for host functions, stream memory operations and events of other
//!   processes, which are not observed here: calls that waited only for those are not reported.
//! - A call has two entries: the program enters our hook, and a moment later the hook, having done its part, enters
//!   CUDA. The second one counts: work that ends between the two was over before CUDA could wait for it. The records
//!   have both times.
//! - If the end of that work is unknown, or it is uncertain on which side of the call's entry it lies, the call is
//!   *undecided*. So is a copy after a wait for another stream's event, if nothing on its own stream decides.
//!
//! A work's record already has its GPU time when it comes, so a call can be judged when it has returned. It is held
//! back for the work that other threads were issuing at the time ([`HELD`], [`HELD_NS`]).

use super::analysis::{Analysis, End, Start};
use super::calls::{api_name, base_name};
use super::estimate::Sum;
use super::merge::Merge;
use super::scope::Scope;
use super::source::Lines;
use crate::hash::HashMap;
use crate::model::gpu_interval::host;
use crate::model::memory::MemoryChange;
use crate::model::named::named;
use crate::model::transfer::{HostMemory, TransferKind, is_synchronous};
use crate::model::{Action, CountedCall, Drained, Event, Operation, When};
use crate::trace::record::{Body, Names};
use gpuspy_wire::record::{Memory, Namespace, flag};
use std::collections::{BTreeMap, VecDeque};

/// The most calls that are held back until other threads' calls have returned.
const HELD: usize = 64;
/// How long a call is held back, ns of the trace.
const HELD_NS: u64 = 1_000_000_000;
/// The operations that are remembered of a stream. If other threads issue more than this while a call waits, the call
/// is undecided.
const REMEMBERED: usize = 64;
/// `CU_STREAM_NON_BLOCKING` (cuda.h): a stream without the order of the legacy default stream.
const NON_BLOCKING: u32 = 1;
/// The stream id under which the work of destroyed streams is kept: no stream has it.
const GONE: u64 = u64::MAX;

named! {
    /// Why a call waits.
    pub enum Cause {
        /// It frees or unmaps device memory (CUDA Runtime API, cudaFree: it may synchronize).
        Free = "free",
        /// It frees or unregisters page-locked memory, which the GPU may still read.
        HostFree = "host_free",
        /// It copies from or to pageable memory, whatever its name says (CUDA Driver API, "API synchronization behavior").
        PageableCopy = "pageable_copy",
        /// It copies memory or is a memset, and returns when that is done (same source).
        BlockingCopy = "blocking_copy",
        /// It loads code (not documented: `load_waits` in docs/hardware.md). It may compile it before it waits.
        Load = "load",
        /// It unloads code, which may still run.
        Unload = "unload",
        /// It ends a context.
        ContextEnd = "context_end",
    }
}

impl Cause {
    /// Returns the cause for a call that is no copy, by its [`base_name`].
    pub(super) fn of(api: &str) -> Option<Cause> {
        Some(match api {
            "cudaFree"
            | "cuMemFree"
            | "cudaFreeArray"
            | "cuArrayDestroy"
            | "cudaFreeMipmappedArray"
            | "cuMipmappedArrayDestroy"
            | "cuMemUnmap" => Cause::Free,
            "cudaFreeHost" | "cuMemFreeHost" | "cudaHostUnregister" | "cuMemHostUnregister" => {
                Cause::HostFree
            }
            "cuModuleLoad"
            | "cuModuleLoadData"
            | "cuModuleLoadDataEx"
            | "cuModuleLoadFatBinary"
            | "cuLibraryLoadData"
            | "cuLibraryLoadFromFile"
            | "cudaLibraryLoadData"
            | "cudaLibraryLoadFromFile" => Cause::Load,
            "cuModuleUnload" | "cuLibraryUnload" | "cudaLibraryUnload" => Cause::Unload,
            "cuCtxDestroy"
            | "cuCtxDetach"
            | "cuDevicePrimaryCtxRelease"
            | "cuDevicePrimaryCtxReset"
            | "cudaDeviceReset"
            | "cudaThreadExit" => Cause::ContextEnd,
            _ => return None,
        })
    }

    /// Whether an API, by its [`base_name`], frees memory, and waits for the GPU before it does.
    pub fn is_free(api: &str) -> bool {
        matches!(Cause::of(api), Some(Cause::Free | Cause::HostFree))
    }

    /// Returns the cause for a copy or a memset.
    pub(super) fn of_transfer(what: Action, flags: u16) -> Option<Cause> {
        match what {
            Action::Transfer { host_memory: HostMemory::Pageable, .. } => Some(Cause::PageableCopy),
            Action::Transfer { kind, .. } if is_synchronous(flags, Some(kind)) => Some(Cause::BlockingCopy),
            _ => None,
        }
    }
}

/// Whether a copy or a memset that returned at host ns `returned` waits for what is before it on its stream, which
/// follows from its having been over then; `None` if that is unknown. A copy to the device from pageable memory
/// returns when its data has been staged: a blocking one waits for its stream before that, others may (CUDA Driver
/// API, "API synchronization behavior"). Other operations that return before they are over wait for nothing.
pub(super) fn waits_for_its_stream(operation: &Operation, flags: u16, returned: u64) -> Option<bool> {
    let is_over = WorkEnd::of(operation).lo <= host(returned);
    let is_timed = matches!(operation.when, When::Timed(_));
    let (kind, memory) = match operation.what {
        Action::Transfer { kind, host_memory, .. } => (kind, host_memory),
        _ => return Some(false),
    };
    match (kind, memory) {
        (TransferKind::HtoD, HostMemory::Pageable) if flags & flag::BLOCKING != 0 => Some(true),
        (TransferKind::HtoD, HostMemory::Pageable) => (is_timed && is_over).then_some(true),
        _ => Some(is_over),
    }
}

/// Calls of one API that can wait for one cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waited {
    /// Calls that waited.
    pub count: u64,
    /// Their host time, ns.
    pub host_ns: u64,
    /// How long of that they waited, ns.
    pub waited: Sum,
    /// Calls that may or may not have waited.
    pub undecided: u64,
    /// Their host time, ns: they waited no longer than this.
    pub undecided_host_ns: u64,
}

impl Merge for Waited {
    fn merge(&mut self, other: &Waited) {
        self.count += other.count;
        self.host_ns = self.host_ns.saturating_add(other.host_ns);
        self.waited.add(other.waited);
        self.undecided += other.undecided;
        self.undecided_host_ns = self.undecided_host_ns.saturating_add(other.undecided_host_ns);
    }
}

/// Waits. Calls that never certainly waited and were never undecided are absent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImplicitSyncs {
    /// By the API's [`base_name`] and the cause.
    pub by_api: BTreeMap<(String, Cause), Waited>,
    /// How long the calls of each line of the program certainly waited, by the best values, ns.
    pub lines: BTreeMap<(String, Cause), Lines>,
}

impl Merge for ImplicitSyncs {
    fn merge(&mut self, other: &ImplicitSyncs) {
        Merge::merge(&mut self.by_api, &other.by_api);
        Merge::merge(&mut self.lines, &other.lines);
    }
}

/// When work was over: host ns on the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct WorkEnd {
    /// Not before this; the smallest number if unknown.
    lo: i64,
    value: i64,
    /// Not after this; the largest number if unknown.
    hi: i64,
}

impl WorkEnd {
    const NONE: WorkEnd = WorkEnd { lo: i64::MIN, value: i64::MIN, hi: i64::MIN };
    const UNKNOWN: WorkEnd = WorkEnd { lo: i64::MIN, value: i64::MIN, hi: i64::MAX };

    fn of(operation: &Operation) -> WorkEnd {
        let When::Timed(interval) = operation.when else { return WorkEnd::UNKNOWN };
        let off_by = interval.off_by.map_or(i64::MAX, host);
        WorkEnd {
            lo: interval.earliest_end.saturating_sub(off_by),
            value: interval.end,
            hi: interval.latest_end.saturating_add(off_by),
        }
    }

    /// Returns the end of both.
    fn with(self, other: WorkEnd) -> WorkEnd {
        WorkEnd { lo: self.lo.max(other.lo), value: self.value.max(other.value), hi: self.hi.max(other.hi) }
    }
}

/// What is remembered of a stream.
#[derive(Debug, Default)]
struct Stream {
    /// Its last operations: host ns when each call returned, and the end of the work.
    operations: VecDeque<(u64, WorkEnd)>,
    is_legacy: bool,
    is_non_blocking: bool,
    /// Host ns when a call returned that made the stream wait for an event, if no operation of the stream has come
    /// since.
    dependent: Option<u64>,
}

impl Stream {
    fn add(&mut self, returned: u64, end: WorkEnd) {
        if self.operations.len() == REMEMBERED {
            self.operations.pop_front();
        }
        self.operations.push_back((returned, end));
    }

    /// Adds an operation, by a call from `begin` to `returned`: what is before it on the stream was over when it was.
    /// The calls of two threads can return in another order than that in which their work went onto the stream.
    fn issued(&mut self, begin: u64, returned: u64, end: WorkEnd) {
        let later = self.operations.iter_mut().rev().take_while(|(_, before)| before.hi > end.hi);
        let before = later.filter(|(before, _)| *before <= begin);
        before.for_each(|(_, before)| before.hi = end.hi);
        self.add(returned, end);
        self.dependent = self.dependent.filter(|since| *since > begin);
    }

    /// Returns when the work was over that had been issued before `begin`, with all of the stream's work as the upper
    /// bound.
    fn over(&self, begin: u64) -> WorkEnd {
        let issued = self.operations.iter().filter(|(returned, _)| *returned <= begin);
        let certain = issued.fold(WorkEnd::NONE, |all, (_, end)| all.with(*end));
        let hi = self.operations.iter().map(|(_, end)| end.hi).max().unwrap_or(i64::MIN);
        WorkEnd { hi, ..certain }
    }

    fn drained(&mut self, drained: &Drained) {
        for (returned, end) in &mut self.operations {
            if *returned <= drained.issued_before {
                end.hi = end.hi.min(drained.by);
            }
        }
    }
}

/// A call that is held back.
#[derive(Debug)]
struct Held {
    key: (u16, Cause),
    /// The line that made it.
    line: u32,
    /// Whether it passes the filter.
    counts: bool,
    begin: u64,
    /// Host ns when CUDA was entered.
    entered: u64,
    host_ns: u64,
    work: WorkEnd,
}

impl Held {
    fn end(&self) -> u64 {
        self.begin.saturating_add(self.host_ns)
    }

    /// Returns whether it waited, and for how long; `None` if it did not.
    fn verdict(&self) -> Option<Waited> {
        let (entered, end) = (host(self.entered), host(self.end()));
        let entered = entered.min(end);
        let WorkEnd { lo, value, hi } = self.work;
        // A call that returns while the work still runs does not wait for it.
        if hi <= entered || lo > end {
            return None;
        }
        if lo <= entered {
            return Some(Waited { undecided: 1, undecided_host_ns: self.host_ns, ..Waited::default() });
        }
        let until = |moment: i64| (moment.clamp(lo, end) - entered) as u64;
        // It may have compiled for as long as the work ran.
        let least = if self.key.1 == Cause::Load { 0 } else { until(lo) };
        // What came later may have shown that the work was over before the best estimate of its end.
        let waited = Sum { lo: least, value: until(value.min(hi)), hi: until(hi) };
        Some(Waited { count: 1, host_ns: self.host_ns, waited, ..Waited::default() })
    }
}

/// The analysis. Its size grows with the number of live streams.
#[derive(Debug)]
pub struct Waits<'a> {
    names: &'a Names,
    causes: HashMap<u16, Cause>,
    streams: HashMap<(u32, u64), Stream>,
    /// By thread: the context whose memory the thread's current call frees, or that it ends; `None` stands for all
    /// contexts.
    contexts: HashMap<u32, Option<u32>>,
    /// Contexts that ended, by the thread of the call that ended them, which is still to be judged.
    ended: Vec<(u32, u32)>,
    held: VecDeque<Held>,
    table: BTreeMap<(u16, Cause), Waited>,
    lines: HashMap<((u16, Cause), u32), u64>,
}

impl Waits<'_> {
    /// Takes a call that is no operation and has returned.
    fn call(&mut self, event: &Event<'_>, call: CountedCall, counts: bool) {
        let (thread, Some(of)) = (event.record.thread, event.record.body.call()) else { return };
        let reported = self.contexts.remove(&thread);
        // A free of the null pointer frees nothing, however long it takes (`cudaFree(0)` creates the context).
        let frees_nothing =
            |cause: &Cause| matches!(cause, Cause::Free | Cause::HostFree) && reported.is_none();
        let cause = self.causes.get(&call.api).filter(|cause| !call.failed && !frees_nothing(cause));
        if let Some(cause) = cause {
            let work =
                self.context_over(reported.unwrap_or((of.context != 0).then_some(of.context)), of.begin);
            let (key, host_ns) = ((call.api, *cause), call.host_ns);
            let entered = match &event.record.body {
                // Before a context ends, our hook waits for its events in place of CUDA.
                Body::Api(api) if *cause != Cause::ContextEnd => of.begin.saturating_add(api.entered),
                _ => of.begin,
            };
            let (line, begin) = (event.caller.line, of.begin);
            self.hold(Held { key, line, counts, begin, entered, host_ns, work });
        }
        let ended: Vec<u32> = self.ended.extract_if(.., |(by, _)| *by == thread).map(|(_, c)| c).collect();
        self.streams.retain(|(context, _), _| !ended.contains(context));
    }

    /// Takes an operation, whose call may have waited for the work before it.
    fn operation(&mut self, event: &Event<'_>, operation: &Operation, counts: bool) {
        let Body::Work(work) = &event.record.body else { return };
        let (stream, end) = ((operation.context, operation.stream), WorkEnd::of(operation));
        let is_legacy = work.call.flags & flag::LEGACY_STREAM != 0;
        self.streams.entry(stream).or_default().is_legacy |= is_legacy;
        // Calls of other threads that returned while this one was running may have waited for this work.
        for held in self.held.iter_mut().rev().take_while(|held| held.end() > work.call.begin) {
            held.work.hi = held.work.hi.max(end.hi);
        }
        if let (Some(cause), Some(call)) = (Cause::of_transfer(operation.what, work.call.flags), event.call)
            && !call.failed
        {
            let (begin, host_ns) = (work.call.begin, call.host_ns);
            let entered = begin.saturating_add(work.entered);
            let ahead = self.ahead(stream, operation, begin);
            let work = match waits_for_its_stream(operation, work.call.flags, begin.saturating_add(host_ns)) {
                Some(true) => ahead,
                Some(false) => WorkEnd::NONE,
                // It returned before the work ahead of it was over.
                None if ahead.lo > host(begin.saturating_add(host_ns)) => WorkEnd::NONE,
                None => WorkEnd { lo: i64::MIN, ..ahead },
            };
            let (key, line) = ((call.api, cause), event.caller.line);
            self.hold(Held { key, line, counts, begin, entered, host_ns, work });
        }
        self.streams.entry(stream).or_default().issued(work.call.begin, operation.returned, end);
    }

    /// Returns when the work was over that comes before an operation by the order of streams.
    fn ahead(&self, key: (u32, u64), operation: &Operation, begin: u64) -> WorkEnd {
        let Some(own) = self.streams.get(&key) else { return WorkEnd::UNKNOWN };
        let is_ahead = |other: &(u32, u64), stream: &Stream| {
            let of_default = |legacy: &Stream, stream: &Stream| legacy.is_legacy && !stream.is_non_blocking;
            *other == key || (other.0 == key.0 && (of_default(own, stream) || of_default(stream, own)))
        };
        let streams = self.streams.iter().filter(|(other, stream)| is_ahead(other, stream));
        let (over, is_dependent) = streams.fold((WorkEnd::NONE, false), |(all, dependent), (_, stream)| {
            (all.with(stream.over(begin)), dependent || stream.dependent.is_some())
        });
        // Once the operation has started, all work before it is over.
        let begun = match operation.when {
            When::Timed(interval) => {
                interval.latest_start.saturating_add(interval.off_by.map_or(i64::MAX, host))
            }
            _ => i64::MAX,
        };
        let hi = if is_dependent { i64::MAX } else { over.hi };
        WorkEnd { hi: hi.min(begun).max(over.lo), ..over }
    }

    /// Returns when all work of a context was over; without a context, any of them may be meant.
    fn context_over(&self, context: Option<u32>, begin: u64) -> WorkEnd {
        let is_meant = |of: u32| context.is_none_or(|context| context == of);
        let meant = self.streams.iter().filter(|((of, _), _)| is_meant(*of));
        let over = meant.clone().fold(WorkEnd::NONE, |all, (_, stream)| all.with(stream.over(begin)));
        let mut contexts = meant.map(|((of, _), _)| *of);
        let first = contexts.next();
        let is_one = contexts.all(|of| Some(of) == first);
        if is_one { over } else { WorkEnd { lo: i64::MIN, ..over } }
    }

    fn drained(&mut self, drained: &Drained) {
        let Some(stream) = drained.stream else {
            let all = self.streams.iter_mut().filter(|((context, _), _)| *context == drained.context);
            return all.for_each(|(_, stream)| stream.drained(drained));
        };
        if let Some(stream) = self.streams.get_mut(&(drained.context, stream)) {
            stream.drained(drained);
        }
    }

    /// Removes a destroyed stream; its work may still run.
    fn stream_gone(&mut self, (context, stream): (u32, u64)) {
        let Some(gone) = self.streams.remove(&(context, stream)) else { return };
        let rest = self.streams.entry((context, GONE)).or_default();
        gone.operations.into_iter().for_each(|(returned, end)| rest.add(returned, end));
    }

    fn hold(&mut self, held: Held) {
        if self.held.len() == HELD {
            self.judge();
        }
        self.held.push_back(held);
    }

    /// Judges the calls that have been held for long enough at host ns `now`.
    fn let_go(&mut self, now: u64) {
        while self.held.front().is_some_and(|held| held.end().saturating_add(HELD_NS) < now) {
            self.judge();
        }
    }

    fn judge(&mut self) {
        let Some(held) = self.held.pop_front().filter(|held| held.counts) else { return };
        if let Some(waited) = held.verdict() {
            self.table.entry(held.key).or_default().merge(&waited);
            let of_line = self.lines.entry((held.key, held.line)).or_default();
            *of_line = of_line.saturating_add(waited.waited.value);
        }
    }
}

impl<'a> Analysis<'a> for Waits<'a> {
    type Rows = ImplicitSyncs;

    fn new(start: &Start<'a>) -> Self {
        let apis = start.names.0.iter().filter(|((space, _), _)| *space == Namespace::Api);
        let cause = |((_, id), name): (&(Namespace, u32), &String)| {
            Some((u16::try_from(*id).ok()?, Cause::of(base_name(name))?))
        };
        Waits {
            names: start.names,
            causes: apis.filter_map(cause).collect(),
            streams: HashMap::default(),
            contexts: HashMap::default(),
            ended: Vec::new(),
            held: VecDeque::new(),
            table: BTreeMap::new(),
            lines: HashMap::default(),
        }
    }

    /// Takes all work, whatever the filter selects: a call may wait for work that it leaves out. Only calls that pass are
    /// counted.
    fn observe(&mut self, event: &Event<'_>, scope: &Scope<'_>) {
        let counts = scope.call();
        let (record, thread) = (event.record, event.record.thread);
        self.let_go(record.at);
        match &record.body {
            Body::Free(free) if free.address != 0 => {
                let (memory, owner) = match event.memory.first() {
                    Some(MemoryChange::Freed { memory, of, .. }) => (*memory, of.context),
                    _ => (free.memory, free.call.context),
                };
                // A block belongs to its allocator's context. Mapped memory and that of pools and graphs outlives
                // contexts, and any context may use it.
                let is_one = !matches!(memory, Memory::Mapped | Memory::Pool | Memory::Graph) && owner != 0;
                self.contexts.insert(thread, is_one.then_some(owner));
            }
            Body::Context(context) if context.destroyed => {
                self.contexts.insert(thread, Some(context.context));
                self.ended.push((thread, context.context));
            }
            Body::Stream(stream) if stream.destroyed => self.stream_gone((stream.context, stream.stream)),
            Body::Stream(stream) => {
                let known = self.streams.entry((stream.context, stream.stream)).or_default();
                known.is_non_blocking = stream.flags & NON_BLOCKING != 0;
            }
            Body::EventWait(wait) if wait.call.flags & (flag::FAILED | flag::CAPTURED) == 0 => {
                let stream = self.streams.entry((wait.call.context, wait.stream)).or_default();
                stream.dependent = Some(wait.call.end);
            }
            _ => {}
        }
        event.drained.iter().for_each(|drained| self.drained(drained));
        match &event.operation {
            Some(operation) if operation.when != When::Captured => self.operation(event, operation, counts),
            _ => event.call.into_iter().for_each(|call| self.call(event, call, counts)),
        }
    }

    fn finish(mut self, end: &End<'_>) -> ImplicitSyncs {
        self.let_go(u64::MAX);
        let mut by_api: BTreeMap<(String, Cause), Waited> = BTreeMap::new();
        for ((api, cause), waited) in self.table {
            by_api.entry((api_name(self.names, api), cause)).or_default().merge(&waited);
        }
        let mut lines: BTreeMap<(String, Cause), Lines> = BTreeMap::new();
        for (((api, cause), line), ns) in self.lines {
            lines.entry((api_name(self.names, api), cause)).or_default().add(end.line_of(line), ns);
        }
        ImplicitSyncs { by_api, lines }
    }
}

#[cfg(test)]
mod tests;
