//! Which part of a trace somebody asks for.
//!
//! A [`Filter`] says it, a [`Sieve`] decides it event by event. Two questions, asked apart: does an event **concern** what
//! is asked for (a device, a stream, a thread, a kernel), and is it **in time**?
//!
//! - An operation concerns its device, its stream, the thread that called, and its kernel. A graph launch concerns every
//!   kernel that it ran, a burst every thread and kernel that launched into it.
//! - A call that is no operation concerns the device of its context, a stream only if it names one, its thread, and no
//!   kernel. A block of memory is its allocator's, whoever frees it.
//! - What is told of the process itself (its devices, its modules, what was lost) concerns everybody.
//!
//! An operation is in time if it starts in time, by the best estimate, or was called in time if nobody knows when it
//! started. A call is in time if it begins in time. So what is cut in two at some moment is counted once, on one side.

use super::memory::Allocator;
use super::names::demangle;
use super::occupancy::host;
use super::{Action, Event, Operation, When};
use crate::trace::record::{Body, Call, Names, Status};
use gpuspy_wire::record::{Memory, Namespace, SyncScope};
use regex::Regex;
use std::collections::{HashMap, HashSet};
use std::fmt;

/// What is asked for: everything that meets all conditions. An empty list, and a field that is `None`, is no condition.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Ordinals of devices in their process.
    pub devices: Vec<u32>,
    /// Streams, by the ids that reports give them.
    pub streams: Vec<u64>,
    /// Threads, by their Linux tids.
    pub threads: Vec<u32>,
    /// Kernels, by their demangled names or their symbols.
    pub kernel: Option<Regex>,
    /// ns from the begin of the collection: nothing before.
    pub since: Option<u64>,
    /// ns from the begin of the collection: nothing from there on.
    pub until: Option<u64>,
}

impl Filter {
    /// Whether there is no condition.
    pub fn is_everything(&self) -> bool {
        self.is_of_all() && self.since.is_none() && self.until.is_none()
    }

    /// Whether a kernel of this symbol is asked for.
    pub fn names(&self, symbol: &str) -> bool {
        self.kernel
            .as_ref()
            .is_none_or(|kernel| kernel.is_match(&demangle(symbol)) || kernel.is_match(symbol))
    }

    /// The time that is asked for, of a collection that began at host ns `began`.
    pub fn period(&self, began: u64) -> Period {
        let moment = |since: u64| host(began.saturating_add(since));
        Period { from: self.since.map_or(i64::MIN, moment), to: self.until.map_or(i64::MAX, moment) }
    }

    /// Whether there is no condition but on time.
    fn is_of_all(&self) -> bool {
        self.devices.is_empty() && self.streams.is_empty() && self.threads.is_empty() && self.kernel.is_none()
    }
}

/// What it is limited to, in words; nothing where it is everything.
impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |what: &str, numbers: Vec<String>| match numbers.as_slice() {
            [] => None,
            [one] => Some(format!("{what} {one}")),
            [first @ .., last] => Some(format!("{what}s {} and {last}", first.join(", "))),
        };
        let seconds = |ns: u64| format!("{} s", ns as f64 / 1e9);
        let conditions = [
            list("device", self.devices.iter().map(u32::to_string).collect()),
            list("stream", self.streams.iter().map(u64::to_string).collect()),
            list("thread", self.threads.iter().map(u32::to_string).collect()),
            self.kernel.as_ref().map(|kernel| format!("kernels that match {kernel}")),
            self.since.map(|since| format!("from {}", seconds(since))),
            self.until.map(|until| format!("until {}", seconds(until))),
        ];
        let conditions: Vec<String> = conditions.into_iter().flatten().collect();
        f.write_str(&conditions.join(", "))
    }
}

/// A stretch of host time, ns: from the one, up to the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Period {
    /// Its first moment.
    pub from: i64,
    /// The first moment that is not in it.
    pub to: i64,
}

impl Default for Period {
    /// All time.
    fn default() -> Self {
        Period { from: i64::MIN, to: i64::MAX }
    }
}

impl Period {
    /// Whether it holds a moment.
    pub fn contains(&self, moment: i64) -> bool {
        self.from <= moment && moment < self.to
    }

    /// What of another stretch is in it; nothing begins and ends at one moment.
    pub fn clip(&self, from: i64, to: i64) -> (i64, i64) {
        let from = from.max(self.from);
        (from, to.min(self.to).max(from))
    }
}

/// What of an event is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passed {
    /// It concerns what is asked for, whenever it was.
    pub concerns: bool,
    /// And its call began in time.
    pub call: bool,
    /// And its operation, or its graph's node, started in time.
    pub operation: bool,
}

/// Decides event by event; has to be asked about each, in the trace's order.
#[derive(Debug)]
pub struct Sieve<'a> {
    filter: &'a Filter,
    names: &'a Names,
    period: Period,
    /// Claim numbers of the threads that are asked for.
    threads: HashSet<u32>,
    /// Whether a kernel's name is asked for, by its number.
    kernels: HashMap<u32, bool>,
    /// Context → device, as far as told.
    devices: HashMap<u32, u32>,
    /// Streams, by context and id, with an open burst that holds a launch that is asked for.
    bursts: HashSet<(u32, u64)>,
}

impl<'a> Sieve<'a> {
    /// A sieve for a process whose collection began at host ns `began`. Without a status no thread's tid is known.
    pub fn new(filter: &'a Filter, names: &'a Names, status: Option<&Status>, began: u64) -> Self {
        let claims = status.iter().flat_map(|status| &status.threads);
        let threads =
            claims.filter(|(_, tid)| filter.threads.contains(tid)).map(|(claim, _)| *claim).collect();
        Sieve {
            filter,
            names,
            period: filter.period(began),
            threads,
            kernels: HashMap::new(),
            devices: HashMap::new(),
            bursts: HashSet::new(),
        }
    }

    /// The time that is asked for.
    pub fn period(&self) -> Period {
        self.period
    }

    /// Whether an event is asked for: its operation, where it is one.
    pub fn passes(&mut self, event: &Event<'_>) -> bool {
        let passed = self.sift(event);
        if event.operation.is_some() || event.node.is_some() { passed.operation } else { passed.call }
    }

    /// What of an event is asked for.
    pub fn sift(&mut self, event: &Event<'_>) -> Passed {
        let concerns = self.concerns(event);
        Passed {
            concerns,
            call: concerns
                && call(&event.record.body).is_none_or(|call| self.period.contains(host(call.begin))),
            operation: concerns && self.starts_in_time(event),
        }
    }

    /// Whether a block that it allocated is asked for.
    pub fn holds(&self, allocator: &Allocator) -> bool {
        self.is_of(allocator.context, allocator.stream)
            && self.is_of_thread(allocator.thread)
            && self.filter.kernel.is_none()
    }

    fn concerns(&mut self, event: &Event<'_>) -> bool {
        if self.filter.is_of_all() {
            return true;
        }
        let body = &event.record.body;
        match (&event.operation, body) {
            (_, Body::Context(context)) => {
                self.devices.insert(context.context, context.device);
                true
            }
            (Some(operation), _) => {
                self.devices.extend(operation.device.map(|device| (operation.context, device)));
                self.is_of(operation.context, Some(operation.stream)) && self.launches(operation, event)
            }
            (None, Body::NodeTime(node)) => {
                self.is_of(node.context, None)
                    && self.is_of_thread(event.record.thread)
                    && self.matches(node.kernel)
            }
            (None, _) => call(body).is_none_or(|call| {
                self.is_of(call.context, stream(body))
                    && self.is_of_thread(event.record.thread)
                    && self.filter.kernel.is_none()
            }),
        }
    }

    /// Whether an operation concerns a thread and a kernel that are asked for.
    fn launches(&mut self, operation: &Operation, event: &Event<'_>) -> bool {
        let stream = (operation.context, operation.stream);
        let is_of_thread = self.is_of_thread(event.record.thread);
        match operation.what {
            Action::Burst { .. } => {
                let any = self.bursts.remove(&stream);
                any || (self.filter.threads.is_empty() && self.filter.kernel.is_none())
            }
            Action::Kernel { name, .. } => {
                let passes = is_of_thread && self.matches(name);
                if passes && matches!(operation.when, When::Untimed { after: None, .. }) {
                    self.bursts.insert(stream);
                }
                passes
            }
            Action::Graph { .. } => {
                let kernels = event.graph.iter().flat_map(|graph| &graph.kernels);
                is_of_thread
                    && (self.filter.kernel.is_none()
                        || kernels.into_iter().any(|(name, _)| self.matches(*name)))
            }
            Action::Transfer { .. } => is_of_thread && self.filter.kernel.is_none(),
        }
    }

    fn is_of(&self, context: u32, stream: Option<u64>) -> bool {
        let device = self.devices.get(&context);
        let Filter { devices, streams, .. } = self.filter;
        (devices.is_empty() || device.is_some_and(|device| devices.contains(device)))
            && (streams.is_empty() || stream.is_some_and(|stream| streams.contains(&stream)))
    }

    fn is_of_thread(&self, claim: u32) -> bool {
        self.filter.threads.is_empty() || self.threads.contains(&claim)
    }

    /// Whether a kernel's name is asked for. One without a name is not, where names are asked for.
    fn matches(&mut self, name: u32) -> bool {
        let (filter, names) = (self.filter, self.names);
        let is_asked_for = || names.get(Namespace::Kernel, name).is_some_and(|symbol| filter.names(symbol));
        filter.kernel.is_none() || *self.kernels.entry(name).or_insert_with(is_asked_for)
    }

    fn starts_in_time(&self, event: &Event<'_>) -> bool {
        let start = match (&event.operation, &event.node) {
            (Some(Operation { when: When::Timed(occupancy), .. }), _) | (None, Some(occupancy)) => {
                Some(occupancy.start)
            }
            _ => call(&event.record.body).map(|call| host(call.begin)),
        };
        start.is_none_or(|start| self.period.contains(start))
    }
}

/// The call that a record belongs to, if it is one's.
pub fn call(body: &Body) -> Option<&Call> {
    match body {
        Body::Work(work) => Some(&work.call),
        Body::Alloc(alloc) => Some(&alloc.call),
        Body::Free(free) => Some(&free.call),
        Body::Synchronize(sync) => Some(&sync.call),
        Body::EventRecord(op) | Body::EventWait(op) => Some(&op.call),
        Body::Api(api) => Some(&api.call),
        Body::Context(_)
        | Body::Stream(_)
        | Body::Graph(_)
        | Body::GraphNode(_)
        | Body::NodeTime(_)
        | Body::ClockSample(_)
        | Body::Window(_)
        | Body::Range(_)
        | Body::Module(_)
        | Body::Device(_)
        | Body::Loss { .. } => None,
    }
}

/// The stream that a call names, if it does.
fn stream(body: &Body) -> Option<u64> {
    match body {
        Body::Work(work) => Some(work.stream),
        Body::Synchronize(sync) => (sync.scope == SyncScope::Stream).then_some(sync.stream),
        Body::EventRecord(op) | Body::EventWait(op) => Some(op.stream),
        Body::Alloc(alloc) => (alloc.memory == Memory::Pool).then_some(alloc.stream),
        Body::Free(free) => (free.memory == Memory::Pool).then_some(free.stream),
        _ => None,
    }
}
