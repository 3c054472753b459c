//! What the record filter lets through of an event.
//!
//! What is [`Selected`] of an event is computed once, before any analysis takes it; a [`Scope`] is the event with that. An
//! analysis reads the event where it needs everything that happened (a call may wait for work that the filter leaves out),
//! and the scope for what it counts.

use crate::model::filter::{Limited, Passed, RecordFilter};
use crate::model::gpu_interval::GpuInterval;
use crate::model::graphs::Contents;
use crate::model::memory::MemoryChange;
use crate::model::{Action, Event, Operation};

/// What the record filter lets through of one event.
#[derive(Clone, Debug)]
pub struct Selected {
    passed: Passed,
    /// The event's graph launch or burst, reduced to the members that pass; `None` if all of them do.
    limited: Option<Box<Limited>>,
    /// The changes of memory that pass; `None` if all of them do.
    memory: Option<Vec<MemoryChange>>,
}

impl Selected {
    /// Computes what passes of an event. Every event of a trace has to be given to the filter once, in the trace's order.
    pub fn of(filter: &mut RecordFilter<'_>, event: &Event<'_>) -> Selected {
        let passed = filter.check(event);
        let limited = if passed.concerns { filter.limit(event).map(Box::new) } else { None };
        let passes = |change: &&MemoryChange| filter.holds(change.allocator());
        let memory = if event.memory.iter().all(|change| passes(&change)) {
            None
        } else {
            Some(event.memory.iter().filter(passes).copied().collect())
        };
        Selected { passed, limited, memory }
    }
}

/// The parts of one event that pass the record filter.
#[derive(Clone, Copy, Debug)]
pub struct Scope<'e> {
    event: &'e Event<'e>,
    passed: Passed,
    limited: Option<&'e Limited>,
    memory: &'e [MemoryChange],
}

impl<'e> Scope<'e> {
    /// The scope of an event of which this is selected.
    pub fn of(event: &'e Event<'e>, selected: &'e Selected) -> Scope<'e> {
        let Selected { passed, limited, memory } = selected;
        let memory = memory.as_ref().unwrap_or(&event.memory);
        Scope { event, passed: *passed, limited: limited.as_deref(), memory }
    }

    /// The scope of an event that passes whole. Its call passes if `call` says so.
    pub fn whole(event: &'e Event<'e>, call: bool) -> Scope<'e> {
        let passed = Passed { call, ..Passed::WHOLE };
        Scope { event, passed, limited: None, memory: &event.memory }
    }

    /// What the filter says of the event as a whole.
    pub fn passed(&self) -> Passed {
        self.passed
    }

    /// Whether the event's call passes: it concerns what the filter selects, and it began in the period. This is also the
    /// answer for records that are no calls (NVTX ranges and markers).
    pub fn call(&self) -> bool {
        self.passed.call
    }

    /// Whether the event's call is left out because its device is unknown.
    pub fn is_of_unknown_device(&self) -> bool {
        self.passed.is_of_unknown_device
    }

    /// Whether the event's operation was called in a capture range and ran after it.
    pub fn ran_after_capture(&self) -> bool {
        self.passed.ran_after_capture
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
        let limited = self.limited.map(|limited| &limited.operation);
        limited.or(self.event.operation.as_ref()).filter(|_| self.passed.operation)
    }

    /// Whether the event's operation is a burst or a run of which only some launches pass. When in its time these ran is not
    /// known.
    pub fn is_part_of_burst(&self) -> bool {
        let launches = |of: &Operation| match of.what {
            Action::Burst { launches, .. } => launches,
            _ => 0,
        };
        let whole = self.event.operation.as_ref().map_or(0, launches);
        self.limited.is_some_and(|limited| launches(&limited.operation) < whole)
    }

    /// What the graph of [`operation`](Scope::operation) ran, limited in the same way.
    pub fn graph(&self) -> Option<&Contents> {
        let whole = self.event.graph.as_deref();
        let limited = self.limited.and_then(|limited| limited.graph.as_ref());
        limited.or(whole).filter(|_| self.passed.operation)
    }

    /// When the event's graph node ran, if it counts.
    pub fn node(&self) -> Option<&GpuInterval> {
        self.event.node.as_ref().filter(|_| self.passed.operation)
    }

    /// The event's changes of memory whose allocator passes, whenever they happened.
    pub fn memory(&self) -> &[MemoryChange] {
        self.memory
    }
}
