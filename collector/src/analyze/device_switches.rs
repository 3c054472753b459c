//! How often did threads change from one GPU to another between two operations?

use super::analysis::{Analysis, End, Start};
use super::merge::Merge;
use super::scope::Scope;
use crate::model::{Action, Event, When};
use std::collections::HashMap;

/// Changes of the GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Switches {
    /// How often an operation went to another GPU than the one before it of its thread.
    pub count: u64,
    /// The host's time from the return of the one call to the entry of the other, in all of these, ns.
    pub outside_ns: u64,
    /// Operations that went to the same GPU as the one before.
    pub others: u64,
    /// The same time of those, ns.
    pub others_outside_ns: u64,
    /// The time from the first to the last operation of the threads that changed, ns, of the longest.
    pub span: u64,
    /// ns from the start of the collection to the first change.
    pub first: u64,
    /// The system's id of the thread that changed most, if known, and how often it did.
    pub most: (u64, Option<u32>),
}

impl Merge for Switches {
    fn merge(&mut self, other: &Switches) {
        if other.count > 0 {
            self.first = if self.count == 0 { other.first } else { self.first.min(other.first) };
        }
        self.count += other.count;
        self.outside_ns = self.outside_ns.saturating_add(other.outside_ns);
        self.others += other.others;
        self.others_outside_ns = self.others_outside_ns.saturating_add(other.others_outside_ns);
        self.span = self.span.max(other.span);
        self.most = self.most.max(other.most);
    }
}

/// A thread's operations.
#[derive(Clone, Copy, Debug)]
struct Thread {
    device: u32,
    began: u64,
    returned: u64,
    switches: Switches,
}

/// The analysis. Its size grows with the number of threads.
#[derive(Debug)]
pub struct SwitchCount {
    began: u64,
    threads: HashMap<u32, Thread>,
}

impl<'a> Analysis<'a> for SwitchCount {
    type Rows = Switches;

    fn new(start: &Start<'a>) -> Self {
        SwitchCount { began: start.began, threads: HashMap::new() }
    }

    fn observe(&mut self, event: &Event<'_>, scope: &Scope<'_>) {
        let Some(operation) = scope.operation() else { return };
        let Some(device) = operation.device else { return };
        if matches!(operation.what, Action::Burst { .. }) || operation.when == When::Captured {
            return;
        }
        let (called, returned) = (operation.called, operation.returned);
        let new = Thread { device, began: called, returned: called, switches: Switches::default() };
        let thread = self.threads.entry(event.record.thread).or_insert(new);
        let outside = called.saturating_sub(thread.returned);
        let switches = &mut thread.switches;
        if thread.device == device {
            switches.others += 1;
            switches.others_outside_ns = switches.others_outside_ns.saturating_add(outside);
        } else {
            if switches.count == 0 {
                switches.first = called.saturating_sub(self.began);
            }
            switches.count += 1;
            switches.outside_ns = switches.outside_ns.saturating_add(outside);
        }
        thread.device = device;
        thread.returned = returned;
    }

    fn finish(self, end: &End<'_>) -> Switches {
        let mut all = Switches::default();
        for (id, thread) in self.threads.into_iter().filter(|(_, thread)| thread.switches.count > 0) {
            let tid = end.status.and_then(|status| status.threads.get(&id).copied());
            let span = thread.returned.saturating_sub(thread.began);
            let most = (thread.switches.count, tid);
            all.merge(&Switches { span, most, ..thread.switches });
        }
        all
    }
}
