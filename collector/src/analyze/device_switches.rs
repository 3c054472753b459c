//! How often did threads change from one GPU to another between two operations?

use super::analysis::{Analysis, End, Start};
use super::merge::Merge;
use super::quantile::Quantiles;
use super::scope::Scope;
use super::source::Lines;
use crate::hash::HashMap;
use crate::model::{Action, Event, When};
use std::collections::BTreeSet;

/// Changes of the GPU.
#[derive(Clone, Debug, Default)]
pub struct Switches {
    /// How often an operation went to another GPU than the one before it of its thread.
    pub count: u64,
    /// The host's time from the return of the one call to the entry of the other, in each of these, ns: it contains waits of the program.
    pub outside: Quantiles,
    /// Operations that went to the same GPU as the one before.
    pub others: u64,
    /// The same time of those, ns.
    pub others_outside: Quantiles,
    /// The GPUs that the thread served which served most of them.
    pub gpus: u64,
    /// The time from the first to the last operation of the threads that changed, ns, of the longest.
    pub span: u64,
    /// ns from the start of the collection to the first change.
    pub first: u64,
    /// The system's id of the thread that changed most, if known, and how often it did.
    pub most: (u64, Option<u32>),
    /// The lines of the operations after the changes, by their number.
    pub lines: Lines,
}

impl Merge for Switches {
    fn merge(&mut self, other: &Switches) {
        if other.count > 0 {
            self.first = if self.count == 0 { other.first } else { self.first.min(other.first) };
        }
        self.count += other.count;
        self.outside.merge(&other.outside);
        self.others += other.others;
        self.others_outside.merge(&other.others_outside);
        self.gpus = self.gpus.max(other.gpus);
        self.span = self.span.max(other.span);
        self.most = self.most.max(other.most);
        self.lines.merge(&other.lines);
    }
}

/// A thread's operations.
#[derive(Clone, Debug)]
struct Thread {
    device: u32,
    /// All that it has served.
    devices: BTreeSet<u32>,
    began: u64,
    returned: u64,
    switches: Switches,
}

/// The analysis. Its size grows with the number of threads, and of lines.
#[derive(Debug)]
pub struct SwitchCount {
    began: u64,
    threads: HashMap<u32, Thread>,
    /// The changes before an operation of each line.
    lines: HashMap<u32, u64>,
}

impl<'a> Analysis<'a> for SwitchCount {
    type Rows = Switches;

    fn new(start: &Start<'a>) -> Self {
        SwitchCount { began: start.began, threads: HashMap::default(), lines: HashMap::default() }
    }

    fn observe(&mut self, event: &Event<'_>, scope: &Scope<'_>) {
        let Some(operation) = scope.operation() else { return };
        let Some(device) = operation.device else { return };
        if matches!(operation.what, Action::Burst { .. }) || operation.when == When::Captured {
            return;
        }
        let (called, returned) = (operation.called, operation.returned);
        let devices = BTreeSet::new();
        let new = Thread { device, devices, began: called, returned: called, switches: Switches::default() };
        let thread = self.threads.entry(event.record.thread).or_insert(new);
        let outside = called.saturating_sub(thread.returned);
        let switches = &mut thread.switches;
        if thread.device == device {
            switches.others += 1;
            switches.others_outside.add(outside);
        } else {
            if switches.count == 0 {
                switches.first = called.saturating_sub(self.began);
            }
            switches.count += 1;
            switches.outside.add(outside);
            *self.lines.entry(operation.caller.line).or_default() += 1;
        }
        thread.device = device;
        thread.devices.insert(device);
        thread.returned = returned;
    }

    fn finish(self, end: &End<'_>) -> Switches {
        let mut all = Switches::default();
        for (id, thread) in self.threads.into_iter().filter(|(_, thread)| thread.switches.count > 0) {
            let tid = end.status.and_then(|status| status.threads.get(&id).copied());
            let span = thread.returned.saturating_sub(thread.began);
            let most = (thread.switches.count, tid);
            let gpus = thread.devices.len() as u64;
            all.merge(&Switches { span, most, gpus, ..thread.switches });
        }
        self.lines.into_iter().for_each(|(line, count)| all.lines.add(end.line_of(line), count));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::super::analysis::finish_at;
    use super::*;
    use crate::model::{Operation, simulation};
    use crate::trace::record::{Body, Names, Record};

    const KERNEL: Action = Action::Kernel { name: 1, communication: false };

    /// Launches by (thread, device, called, returned).
    fn switches(launches: &[(u32, u32, u64, u64)]) -> Switches {
        let operations = launches.iter().map(|&(thread, device, called, returned)| {
            let operation = simulation::operation(KERNEL, (called, returned));
            (thread, Operation { device: Some(device), ..operation })
        });
        of(&operations.collect::<Vec<_>>())
    }

    fn of(operations: &[(u32, Operation)]) -> Switches {
        let names = Names::default();
        let mut count = SwitchCount::new(&Start { began: 1_000, ..Start::of(&names) });
        for &(thread, operation) in operations {
            let body = Body::Work(simulation::work(operation.returned, 0, 0));
            let record = Record { thread, at: operation.returned, body };
            let event = Event { operation: Some(operation), ..Event::new(&record) };
            count.observe(&event, &Scope::whole(&event, true));
        }
        finish_at(count, 0)
    }

    #[test]
    fn a_change_of_the_gpu_counts_with_the_time_outside_the_calls() {
        let found = switches(&[
            (1, 0, 2_000, 2_010),
            (1, 1, 2_040, 2_050),
            (1, 1, 2_055, 2_060),
            (1, 0, 2_100, 2_110),
        ]);
        assert_eq!((found.count, found.outside.median().unwrap().value, found.gpus), (2, (30 + 40) / 2, 2));
        // The first operation of a thread has none before it.
        let others = found.others_outside.quantile(1.0);
        assert_eq!((found.others, others), (2, Some(5)));
        assert_eq!((found.first, found.span), (1_040, 110));
    }

    #[test]
    fn threads_with_a_gpu_each_do_not_change_it() {
        let found = switches(&[
            (1, 0, 2_000, 2_010),
            (2, 1, 2_020, 2_030),
            (1, 0, 2_040, 2_050),
            (2, 1, 2_060, 2_070),
        ]);
        assert_eq!((found.count, found.others), (0, 0));
    }

    #[test]
    fn the_thread_that_changes_most_and_the_first_change_are_kept() {
        let often = (0..6).map(|at| (1, at as u32 % 2, 5_000 + at * 100, 5_010 + at * 100));
        let once = [(2, 0, 3_000, 3_010), (2, 1, 3_020, 3_030)];
        let found = switches(&often.chain(once).collect::<Vec<_>>());
        assert_eq!((found.count, found.most, found.first), (6, (5, None), 2_020));
        assert_eq!(found.span, 510, "the longest of the two threads");
    }

    #[test]
    fn captured_launches_bursts_and_unknown_devices_change_nothing() {
        let launch = simulation::operation(KERNEL, (2_000, 2_010));
        let burst = Action::Burst { launches: 3, ordinary: 3, communication: false };
        let found = of(&[
            (1, launch),
            (1, Operation { device: Some(1), when: When::Captured, ..launch }),
            (1, Operation { device: Some(1), what: burst, ..launch }),
            (1, Operation { device: None, ..launch }),
            (1, launch),
        ]);
        assert_eq!((found.count, found.others), (0, 0));
    }

    #[test]
    fn processes_add_up_and_the_earliest_change_is_the_first() {
        let of = |samples: &[u64]| {
            let mut outside = Quantiles::default();
            samples.iter().for_each(|ns| outside.add(*ns));
            outside
        };
        let one = Switches {
            count: 2,
            outside: of(&[10, 10]),
            first: 500,
            span: 900,
            most: (2, Some(7)),
            ..Switches::default()
        };
        let other = Switches {
            count: 3,
            outside: of(&[20, 20, 20]),
            first: 300,
            span: 100,
            most: (3, Some(4)),
            ..Switches::default()
        };
        let none = Switches { others: 9, ..Switches::default() };
        let mut all = Switches::default();
        [none.clone(), one, none, other].iter().for_each(|switches| all.merge(switches));
        let expected = (5, 5, 18, 300, 900, (3, Some(4)));
        assert_eq!((all.count, all.outside.count(), all.others, all.first, all.span, all.most), expected);
    }
}
