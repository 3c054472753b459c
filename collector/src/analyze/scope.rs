//! What the record filter lets through of an event.
//!
//! A [`Scope`] is computed once for each event, before any analysis takes it, and never changes. An analysis reads the
//! event where it needs everything that happened (a call may wait for work that the filter leaves out), and the scope for
//! what it counts.

use crate::model::filter::{Limited, Passed, RecordFilter};
use crate::model::gpu_interval::GpuInterval;
use crate::model::graphs::Contents;
use crate::model::memory::MemoryChange;
use crate::model::{Event, Operation};
use std::borrow::Cow;

/// The parts of one event that pass the record filter.
#[derive(Clone, Debug)]
pub struct Scope<'e> {
    event: &'e Event<'e>,
    passed: Passed,
    /// The event's graph launch or burst, reduced to the members that pass; `None` if all of them do.
    limited: Option<Limited>,
    memory: Cow<'e, [MemoryChange]>,
}

impl<'e> Scope<'e> {
    /// The scope of an event. Every event of a trace has to be given to the filter once, in the trace's order.
    pub fn of(filter: &mut RecordFilter<'_>, event: &'e Event<'e>) -> Scope<'e> {
        let passed = filter.check(event);
        let limited = if passed.operation { filter.limit(event) } else { None };
        let passes = |change: &MemoryChange| filter.holds(change.allocator());
        let memory = if event.memory.iter().all(passes) {
            Cow::Borrowed(event.memory.as_slice())
        } else {
            Cow::Owned(event.memory.iter().filter(|change| passes(change)).copied().collect())
        };
        Scope { event, passed, limited, memory }
    }

    /// The scope of an event that passes whole. Its call passes if `call` says so.
    pub fn whole(event: &'e Event<'e>, call: bool) -> Scope<'e> {
        let passed = Passed { concerns: true, call, operation: true };
        Scope { event, passed, limited: None, memory: Cow::Borrowed(&event.memory) }
    }

    /// Whether the event's call passes: it concerns what the filter selects, and it began in the period. This is also the
    /// answer for records that are no calls (NVTX ranges and markers).
    pub fn call(&self) -> bool {
        self.passed.call
    }

    /// The event's operation if it concerns what the filter selects, whenever it ran, with all members of a graph or a
    /// burst. GPU time is computed from these: an operation that began before the period may fill some of it, and one that
    /// comes after ends its last gap.
    pub fn operation_at_any_time(&self) -> Option<&Operation> {
        self.event.operation.as_ref().filter(|_| self.passed.concerns)
    }

    /// The event's operation if it counts: it also started in the period. Of a graph or a burst only the members that pass
    /// are in it.
    pub fn operation(&self) -> Option<&Operation> {
        let limited = self.limited.as_ref().map(|limited| &limited.operation);
        limited.or(self.event.operation.as_ref()).filter(|_| self.passed.operation)
    }

    /// What the graph of [`operation`](Scope::operation) ran, limited in the same way.
    pub fn graph(&self) -> Option<&Contents> {
        let whole = self.event.graph.as_deref();
        let limited = self.limited.as_ref().and_then(|limited| limited.graph.as_ref());
        limited.or(whole).filter(|_| self.passed.operation)
    }

    /// When the event's graph node ran, if it counts.
    pub fn node(&self) -> Option<&GpuInterval> {
        self.event.node.as_ref().filter(|_| self.passed.operation)
    }

    /// The event's changes of memory whose allocator passes, whenever they happened.
    pub fn memory(&self) -> &[MemoryChange] {
        &self.memory
    }
}
