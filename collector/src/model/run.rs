//! What do the processes of a run share? The clock of their machine, and the numbering of their
//! [streams](super::streams).
//!
//! Only processes of one machine have to be looked at together, so a run can be read machine after machine: streams get their
//! numbers in that order, too.

use super::clocks::Clocks;
use super::filter::Filter;
use super::job::Job;
use super::period;
use super::streams::{Numbers, StreamNumbers};
use crate::hash::HashMap;
use crate::trace::record::{Names, Status};
use gpuspy_wire::record::{Fact, Namespace};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A process of a run, after the first pass over its trace.
#[derive(Clone, Copy, Debug)]
pub struct Surveyed<'a> {
    /// The names in its trace.
    pub names: &'a Names,
    /// Its last status, if the trace has one.
    pub status: Option<&'a Status>,
    /// Its clocks.
    pub clocks: &'a Clocks,
}

/// The clock that a process's host times come from.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Machine {
    /// The machine's clock since this boot, by the boot id.
    Boot(u64),
    /// For a trace without a boot id: the clock of the machine with this name.
    Host(Option<String>),
}

/// Which process a trace is about: others of the same process have the same, as those of its windows of time (`gpuspy collect
/// --every`), or of collectors one after another (`gpuspy collect --pid`).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ProcessId {
    /// The machine.
    pub machine: Machine,
    /// The process id.
    pub pid: u32,
    /// When the agent's session began in the process: CLOCK_REALTIME, ns. A program that another one replaced has the same process id.
    pub began: u64,
}

impl ProcessId {
    /// Returns which process it is; `None` if the trace has no status.
    pub fn of(names: &Names, status: Option<&Status>) -> Option<ProcessId> {
        let status = status?;
        let began = status.session_realtime.unwrap_or(status.began_realtime);
        Some(ProcessId { machine: Machine::of(names, Some(status)), pid: status.pid, began })
    }
}

/// Returns the processes that traces are about, in the order of their first ones: the places of the traces of each. A process has
/// several if each is about a part of its time.
pub fn processes<'a>(traces: impl Iterator<Item = Option<&'a ProcessId>>) -> Vec<Vec<usize>> {
    let (mut processes, mut known) = (Vec::<Vec<usize>>::new(), HashMap::<&ProcessId, usize>::default());
    for (at, id) in traces.enumerate() {
        let new = processes.len();
        let number = id.map_or(new, |id| *known.entry(id).or_insert(new));
        if number == new {
            processes.push(Vec::new());
        }
        processes[number].push(at);
    }
    processes
}

impl Machine {
    fn of(names: &Names, status: Option<&Status>) -> Machine {
        let host = || names.get(Namespace::Fact, Fact::Host as u32).map(str::to_owned);
        status.and_then(|status| status.boot).map_or_else(|| Machine::Host(host()), Machine::Boot)
    }
}

impl Surveyed<'_> {
    /// The clock that its host times come from.
    pub fn machine(&self) -> Machine {
        self.place().machine
    }

    /// Where it belongs.
    pub fn place(&self) -> Place {
        Place::of(self.names, self.status)
    }

    /// Host ns at which its collection began.
    pub fn began(&self) -> u64 {
        self.clocks.began(self.status)
    }
}

/// Where a process of a run belongs: what is known before its records are read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The clock that its host times come from.
    pub machine: Machine,
    /// Its rank.
    pub rank: Option<u32>,
    /// When its collection began (CLOCK_REALTIME, ns), and its process id, if its trace has a status.
    pub began: Option<(u64, u32)>,
    /// Which process the trace is about.
    pub process: Option<ProcessId>,
    /// When the window of time that the trace is about began: s since 1970; `None` if the trace is about the whole run.
    pub window: Option<u64>,
    /// How many windows of the same process came before it.
    pub number: Option<u64>,
}

impl Place {
    /// Where the process of a trace belongs.
    pub fn of(names: &Names, status: Option<&Status>) -> Place {
        Place {
            machine: Machine::of(names, status),
            rank: Job::of(names).rank,
            began: status.map(|status| (status.began_realtime, status.pid)),
            process: ProcessId::of(names, status),
            window: status.and_then(|status| period::window_began(names, status.began_realtime)),
            number: period::window(names),
        }
    }

    /// Its place in the order of a run: by rank, those without a rank last, and then by time.
    pub fn order(&self) -> (bool, Option<u32>, Option<(u64, u32)>) {
        (self.rank.is_none(), self.rank, self.began)
    }
}

/// Returns which traces are read as one: those of successive windows of a process, in their order. Every other trace is read alone.
/// The lists are in the order of the first places in them.
pub fn successive(places: &[Place]) -> Vec<Vec<usize>> {
    // Each collector numbers its windows from 0, so those of several are told apart by time.
    let mut order: Vec<usize> = (0..places.len()).collect();
    order.sort_by_key(|at| places[*at].began);
    let mut lists: Vec<Vec<usize>> = Vec::new();
    // Of each process, the list that its next window continues, and the number of that window.
    let mut open: HashMap<&ProcessId, (usize, u64)> = HashMap::default();
    for at in order {
        let Place { process: Some(process), number: Some(number), .. } = &places[at] else {
            lists.push(vec![at]);
            continue;
        };
        let list =
            open.get(process).filter(|(_, next)| next == number).map_or(lists.len(), |(list, _)| *list);
        lists.resize_with(lists.len().max(list + 1), Vec::new);
        lists[list].push(at);
        open.insert(process, (list, number.saturating_add(1)));
    }
    lists.sort_by_key(|list| list.iter().min().copied());
    lists
}

/// Returns the processes of each machine, by their numbers, in the order in which the machines' first processes come.
pub fn machines(places: &[Place]) -> Vec<Vec<usize>> {
    let mut order: Vec<usize> = (0..places.len()).collect();
    order.sort_by_key(|at| places[*at].order());
    let mut machines: Vec<Vec<usize>> = Vec::new();
    let mut numbers: HashMap<&Machine, usize> = HashMap::default();
    for at in order {
        let next = machines.len();
        let number = *numbers.entry(&places[at].machine).or_insert(next);
        if number == next {
            machines.push(Vec::new());
        }
        machines[number].push(at);
    }
    machines.iter_mut().for_each(|machine| machine.sort_unstable());
    machines
}

/// Gives the processes of a run their filters, one machine after another, in the order of [`machines`].
#[derive(Debug, Default)]
pub struct Numbering(BTreeMap<Option<u32>, Numbers>);

impl Numbering {
    /// Returns a filter for each process of the next machine: times count from the start of its first process, and streams
    /// have their numbers.
    pub fn filters(&mut self, machine: &[Surveyed<'_>], filter: &Filter) -> Vec<Filter> {
        let origin = machine.iter().map(Surveyed::began).min();
        let numbered = self.numbered(machine).into_iter();
        numbered
            .map(|numbers| Filter { origin, numbers: Some(Arc::new(numbers)), ..filter.clone() })
            .collect()
    }

    /// The numbers of each process's streams.
    fn numbered(&mut self, machine: &[Surveyed<'_>]) -> Vec<StreamNumbers> {
        let mut order: Vec<usize> = (0..machine.len()).collect();
        order.sort_by_key(|at| machine[*at].place().began);
        let mut all = vec![StreamNumbers::default(); machine.len()];
        for at in order {
            let numbers = self.0.entry(Job::of(machine[at].names).rank).or_insert_with(Numbers::of_streams);
            for stream in machine[at].clocks.streams.all() {
                all[at].insert((stream.context, stream.stream), numbers.of(stream));
            }
        }
        all
    }
}

/// Returns a filter for each process of a run.
pub fn filters(run: &[Surveyed<'_>], filter: &Filter) -> Vec<Filter> {
    let places: Vec<Place> = run.iter().map(Surveyed::place).collect();
    let (mut numbering, mut all) = (Numbering::default(), vec![Filter::default(); run.len()]);
    for machine in machines(&places) {
        let surveyed: Vec<Surveyed<'_>> = machine.iter().map(|at| run[*at]).collect();
        for (at, filter) in machine.into_iter().zip(numbering.filters(&surveyed, filter)) {
            all[at] = filter;
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(boot: u64, rank: Option<u32>, began: u64) -> Place {
        let (process, window, number) = (None, None, None);
        Place { machine: Machine::Boot(boot), rank, began: Some((began, 1)), process, window, number }
    }

    #[test]
    fn successive_windows_of_a_process_are_read_as_one() {
        let at = |time, pid: u32, number| {
            let process = Some(ProcessId { machine: Machine::Boot(7), pid, began: 1 });
            Place { process, number: Some(number), ..place(7, None, time) }
        };
        let window = |pid, number| at(number, pid, number);
        let whole = place(7, None, 0);
        let places =
            [window(1, 2), whole, window(1, 1), window(2, 1), window(1, 4), window(1, 5), window(2, 2)];
        assert_eq!(
            successive(&places),
            [vec![2, 0], vec![1], vec![3, 6], vec![4, 5]],
            "without the third, two parts are left"
        );
        let copied = [window(1, 1), window(1, 1), window(1, 2)];
        assert_eq!(successive(&copied), [vec![0], vec![1, 2]], "nothing is read twice as one");
        let collectors = [at(20, 1, 0), at(10, 1, 0), at(21, 1, 1), at(11, 1, 1)];
        assert_eq!(successive(&collectors), [vec![0, 2], vec![1, 3]], "each collector counts from 0");
    }

    #[test]
    fn machines_come_in_the_order_of_their_first_ranks() {
        let places = [place(7, Some(3), 1), place(8, Some(1), 2), place(7, Some(2), 3), place(8, Some(0), 4)];
        assert_eq!(machines(&places), [vec![1, 3], vec![0, 2]]);
        let places = [place(7, None, 5), place(8, None, 4), place(9, Some(12), 9), place(8, None, 1)];
        assert_eq!(machines(&places), [vec![2], vec![1, 3], vec![0]]);
        assert!(machines(&[]).is_empty());
    }
}
