//! What do the processes of a run share? The clock of their machine, and the numbering of their
//! [streams](super::streams).

use super::clocks::Clocks;
use super::filter::Filter;
use super::job::Job;
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

impl Surveyed<'_> {
    /// The clock that its host times come from.
    pub fn machine(&self) -> Machine {
        let host = || self.names.get(Namespace::Fact, Fact::Host as u32).map(str::to_owned);
        self.status.and_then(|status| status.boot).map_or_else(|| Machine::Host(host()), Machine::Boot)
    }

    /// Host ns at which its collection began.
    pub fn began(&self) -> u64 {
        self.clocks.began(self.status)
    }
}

/// Returns a filter for each process: times count from the start of the first process on its machine, and streams have
/// their numbers.
pub fn filters(run: &[Surveyed<'_>], filter: &Filter) -> Vec<Filter> {
    let mut began: HashMap<Machine, u64> = HashMap::default();
    for surveyed in run {
        let first = began.entry(surveyed.machine()).or_insert(u64::MAX);
        *first = surveyed.began().min(*first);
    }
    let of = |(surveyed, numbers): (&Surveyed<'_>, StreamNumbers)| Filter {
        origin: began.get(&surveyed.machine()).copied(),
        numbers: Some(Arc::new(numbers)),
        ..filter.clone()
    };
    run.iter().zip(numbered(run)).map(of).collect()
}

/// The numbers of each process's streams.
fn numbered(run: &[Surveyed<'_>]) -> Vec<StreamNumbers> {
    let mut order: Vec<usize> = (0..run.len()).collect();
    order.sort_by_key(|at| run[*at].status.map(|status| (status.began_realtime, status.pid)));
    let mut ranks: BTreeMap<Option<u32>, Numbers> = BTreeMap::new();
    let mut all = vec![StreamNumbers::default(); run.len()];
    for at in order {
        let numbers = ranks.entry(Job::of(run[at].names).rank).or_insert_with(Numbers::of_streams);
        for stream in run[at].clocks.streams.all() {
            all[at].insert((stream.context, stream.stream), numbers.of(stream));
        }
    }
    all
}
