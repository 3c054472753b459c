//! Which calls waited for the GPU without being a synchronise call?
//!
//! CUDA documents some calls to wait for work that runs (see [`Cause`]). Whether one did is not asked of its name but of
//! the clocks: work that it waits for was unfinished when it was entered, and over when it returned. Its **wait** is from
//! its entry to the end of that work, an interval, since the work's end is one. What else the call took is its own.
//!
//! - Most of them wait for all of their context; a copy waits for what is ahead of it in its stream, and by the rules of
//!   the legacy default stream for what that stands for. That it did, shows by its having been over when the call returned.
//! - Work counts for certain if its own call had returned before. What was issued meanwhile by other threads may have been
//!   waited for, too: it can only raise the most that the wait took.
//! - Work is what the GPU does. Host functions, waits for values and events of other processes are waited for, too, and are not
//!   seen as work here: of calls that waited for those alone nothing is told.
//! - A call is entered twice: by the app, and a moment later, when our hook has done its part, by us. The second entry counts:
//!   what ends between the two was over before CUDA was asked to wait for it. The records say when that was.
//! - Where the end of that work is not known, or not on which side of the call's entry it lies, there is no verdict: such a
//!   call is *undecided*. So is a copy that another stream's event was to be waited for, if nothing of its own stream decides.
//!
//! Times of work are in its record when that comes, so that a call can be judged when it has returned; it is held back for
//! what other threads were issuing then ([`HELD`], [`HELD_NS`]).

use super::calls::base_name;
use super::estimate::Sum;
use super::merge::Merge;
use super::pipeline::{Analysis, End, Start};
use super::scope::Scope;
use crate::model::gpu_interval::host;
use crate::model::memory::MemoryChange;
use crate::model::transfer::{HostMemory, TransferKind};
use crate::model::{Action, CountedCall, Drained, Event, Operation, When};
use crate::trace::record::{Body, Names};
use gpuspy_wire::record::{Memory, Namespace, flag};
use std::collections::{BTreeMap, HashMap, VecDeque};

/// Calls held back at most, until other threads' calls have returned.
const HELD: usize = 64;
/// And for how long, ns of the trace.
const HELD_NS: u64 = 1_000_000_000;
/// Operations remembered of a stream: so many can be issued by other threads while a call waits before it is undecided.
const REMEMBERED: usize = 64;
/// `CU_STREAM_NON_BLOCKING` (cuda.h): a stream without the order of the legacy default stream.
const NON_BLOCKING: u32 = 1;
/// Where streams that are gone have left their work: no stream has this id.
const GONE: u64 = u64::MAX;

/// Why a call waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// It gives memory of a device back (CUDA Runtime API, cudaFree: it may synchronise), or unmaps it.
    Free,
    /// It gives page-locked memory back, or unlocks it, which the GPU may still read.
    HostFree,
    /// It copies from or to pageable memory, whatever its name says (CUDA Driver API, "API synchronization behavior").
    PageableCopy,
    /// It copies, or sets, and returns when that is done (same place).
    BlockingCopy,
    /// It unloads code, which may still run.
    Unload,
    /// It ends a context.
    ContextEnd,
}

impl Cause {
    /// The word that the JSON report has for it.
    pub fn name(self) -> &'static str {
        match self {
            Cause::Free => "free",
            Cause::HostFree => "host_free",
            Cause::PageableCopy => "pageable_copy",
            Cause::BlockingCopy => "blocking_copy",
            Cause::Unload => "unload",
            Cause::ContextEnd => "context_end",
        }
    }

    /// Of a call that is no copy, by its [`base_name`].
    fn of(api: &str) -> Option<Cause> {
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

    /// Of a copy or a set.
    fn of_transfer(what: Action, flags: u16) -> Option<Cause> {
        match what {
            Action::Transfer { host_memory: HostMemory::Pageable, .. } => Some(Cause::PageableCopy),
            Action::Transfer { .. } if flags & flag::BLOCKING != 0 => Some(Cause::BlockingCopy),
            _ => None,
        }
    }
}

/// Whether a copy or a set that returned at host ns `returned` waits for what is ahead of it, which follows from its having
/// been over then; `None` = nobody can tell. One to the device from pageable memory returns when that has been staged: if
/// it is a blocking one, a wait for its stream comes before that, else it may (CUDA Driver API, "API synchronization
/// behavior"). Others that return before they are over wait for nothing.
fn waits_for_its_stream(operation: &Operation, flags: u16, returned: u64) -> Option<bool> {
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

/// Calls of one API that can wait for one reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waited {
    /// Calls that waited.
    pub count: u64,
    /// Their host time, ns.
    pub host_ns: u64,
    /// What of it they waited, ns.
    pub waited: Sum,
    /// Calls that waited or not: nobody can tell.
    pub undecided: u64,
    /// Their host time, ns: they waited no longer.
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

/// By the API's [`base_name`] and the reason. Those that never waited for certain and were never undecided are absent.
pub type ImplicitSyncs = BTreeMap<(String, Cause), Waited>;

/// When work was over: host ns on the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct WorkEnd {
    /// Not before; the least of all numbers where nothing is known.
    lo: i64,
    value: i64,
    /// Not after; the greatest of all numbers where nothing is known.
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

    /// Of both.
    fn with(self, other: WorkEnd) -> WorkEnd {
        WorkEnd { lo: self.lo.max(other.lo), value: self.value.max(other.value), hi: self.hi.max(other.hi) }
    }
}

/// What is remembered of a stream.
#[derive(Debug, Default)]
struct Stream {
    /// Its last operations: host ns when the call returned, and the end.
    operations: VecDeque<(u64, WorkEnd)>,
    is_legacy: bool,
    is_non_blocking: bool,
    /// It was told to wait for an event, by a call that returned at this host time, and no operation of it has come since.
    dependent: Option<u64>,
}

impl Stream {
    fn add(&mut self, returned: u64, end: WorkEnd) {
        if self.operations.len() == REMEMBERED {
            self.operations.pop_front();
        }
        self.operations.push_back((returned, end));
    }

    /// An operation came, by a call from `begin` to `returned`: what is before it in the stream was over when it was. Two
    /// threads' calls can return in another order than that in which they went onto the stream.
    fn issued(&mut self, begin: u64, returned: u64, end: WorkEnd) {
        let later = self.operations.iter_mut().rev().take_while(|(_, before)| before.hi > end.hi);
        let before = later.filter(|(before, _)| *before <= begin);
        before.for_each(|(_, before)| before.hi = end.hi);
        self.add(returned, end);
        self.dependent = self.dependent.filter(|since| *since > begin);
    }

    /// When the work was over that had been issued before `begin`; at most when all of it was.
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
    /// It is asked for.
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

    /// Whether it waited, and for how long; `None` = it did not.
    fn verdict(&self) -> Option<Waited> {
        let (entered, end) = (host(self.entered), host(self.end()));
        let entered = entered.min(end);
        let WorkEnd { lo, value, hi } = self.work;
        // One that returns while the work still runs does not wait for it.
        if hi <= entered || lo > end {
            return None;
        }
        if lo <= entered {
            return Some(Waited { undecided: 1, undecided_host_ns: self.host_ns, ..Waited::default() });
        }
        let until = |moment: i64| (moment.clamp(lo, end) - entered) as u64;
        let waited = Sum { lo: until(lo), value: until(value), hi: until(hi) };
        Some(Waited { count: 1, host_ns: self.host_ns, waited, ..Waited::default() })
    }
}

/// The fold. Its size is that of the streams that live.
#[derive(Debug)]
pub struct Waits<'a> {
    names: &'a Names,
    causes: HashMap<u16, Cause>,
    streams: HashMap<(u32, u64), Stream>,
    /// By thread: the context of the memory that it frees, or that it ends, in the call that it is in; `None` = all.
    contexts: HashMap<u32, Option<u32>>,
    /// Contexts that ended, by the thread whose call that was, which is still to be judged.
    ended: Vec<(u32, u32)>,
    held: VecDeque<Held>,
    table: BTreeMap<(u16, Cause), Waited>,
}

impl Waits<'_> {
    /// A call that is no operation returned.
    fn call(&mut self, event: &Event<'_>, call: CountedCall, counts: bool) {
        let (thread, Some(of)) = (event.record.thread, event.record.body.call()) else { return };
        let told = self.contexts.remove(&thread);
        // What frees the null pointer frees nothing, however long it takes (`cudaFree(0)` makes the context).
        let frees_nothing = |cause: &Cause| matches!(cause, Cause::Free | Cause::HostFree) && told.is_none();
        let cause = self.causes.get(&call.api).filter(|cause| !call.failed && !frees_nothing(cause));
        if let Some(cause) = cause {
            let work = self.context_over(told.unwrap_or((of.context != 0).then_some(of.context)), of.begin);
            let (key, host_ns) = ((call.api, *cause), call.host_ns);
            let entered = match &event.record.body {
                // Before a context ends our hook waits for its events, in CUDA's stead.
                Body::Api(api) if *cause != Cause::ContextEnd => of.begin.saturating_add(api.entered),
                _ => of.begin,
            };
            self.hold(Held { key, counts, begin: of.begin, entered, host_ns, work });
        }
        let ended: Vec<u32> = self.ended.extract_if(.., |(by, _)| *by == thread).map(|(_, c)| c).collect();
        self.streams.retain(|(context, _), _| !ended.contains(context));
    }

    /// Work was issued: by a call that may have waited for what is ahead of it.
    fn operation(&mut self, event: &Event<'_>, operation: &Operation, counts: bool) {
        let Body::Work(work) = &event.record.body else { return };
        let (stream, end) = ((operation.context, operation.stream), WorkEnd::of(operation));
        let is_legacy = work.call.flags & flag::LEGACY_STREAM != 0;
        self.streams.entry(stream).or_default().is_legacy |= is_legacy;
        // Calls of other threads that had returned while this one was under way may have waited for it.
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
                // It returned before what is ahead of it was over.
                None if ahead.lo > host(begin.saturating_add(host_ns)) => WorkEnd::NONE,
                None => WorkEnd { lo: i64::MIN, ..ahead },
            };
            self.hold(Held { key: (call.api, cause), counts, begin, entered, host_ns, work });
        }
        self.streams.entry(stream).or_default().issued(work.call.begin, operation.returned, end);
    }

    /// When the work was over that is ahead of an operation by the order of streams.
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
        // Nothing is ahead of what has begun.
        let begun = match operation.when {
            When::Timed(interval) => {
                interval.latest_start.saturating_add(interval.off_by.map_or(i64::MAX, host))
            }
            _ => i64::MAX,
        };
        let hi = if is_dependent { i64::MAX } else { over.hi };
        WorkEnd { hi: hi.min(begun).max(over.lo), ..over }
    }

    /// When all work of a context was over; without one, that of any context may be meant.
    fn context_over(&self, context: Option<u32>, begin: u64) -> WorkEnd {
        let is_meant = |of: u32| context.is_none_or(|context| context == of);
        let meant = self.streams.iter().filter(|((of, _), _)| is_meant(*of));
        let over = meant.clone().fold(WorkEnd::NONE, |all, (_, stream)| all.with(stream.over(begin)));
        let mut contexts = meant.map(|((of, _), _)| *of);
        let first = contexts.next();
        let is_one = contexts.all(|of| Some(of) == first);
        if is_one { over } else { WorkEnd { lo: i64::MIN, ..over } }
    }

    /// A stream is gone; its work may still run.
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

    /// Judges what has been held for long enough at host ns `now`.
    fn let_go(&mut self, now: u64) {
        while self.held.front().is_some_and(|held| held.end().saturating_add(HELD_NS) < now) {
            self.judge();
        }
    }

    fn judge(&mut self) {
        let Some(held) = self.held.pop_front().filter(|held| held.counts) else { return };
        if let Some(waited) = held.verdict() {
            self.table.entry(held.key).or_default().merge(&waited);
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
            streams: HashMap::new(),
            contexts: HashMap::new(),
            ended: Vec::new(),
            held: VecDeque::new(),
            table: BTreeMap::new(),
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
                // A block is its allocator's. What is mapped, or a pool's or a graph's, outlives contexts: any may use it.
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
        if let Some(drained) = &event.drained {
            let is_drained = |&(context, stream): &(u32, u64)| {
                context == drained.context && drained.stream.is_none_or(|drained| drained == stream)
            };
            let drain = self.streams.iter_mut().filter(|(key, _)| is_drained(key));
            drain.for_each(|(_, stream)| stream.drained(drained));
        }
        match &event.operation {
            Some(operation) if operation.when != When::Captured => self.operation(event, operation, counts),
            _ => event.call.into_iter().for_each(|call| self.call(event, call, counts)),
        }
    }

    fn finish(mut self, _: &End<'_>) -> ImplicitSyncs {
        self.let_go(u64::MAX);
        let mut by_name = ImplicitSyncs::new();
        for ((api, cause), waited) in self.table {
            let name = self.names.get(Namespace::Api, u32::from(api));
            let name = name.map_or_else(|| format!("(api {api})"), |name| base_name(name).to_owned());
            by_name.entry((name, cause)).or_default().merge(&waited);
        }
        by_name
    }
}

#[cfg(test)]
mod tests;
