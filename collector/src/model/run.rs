//! What do the processes of a run share? The clock of their machine, and the numbering of their streams.
//!
//! **Numbers of streams** identify streams in reports, filters and exports. They are unique among the processes of
//! one rank (processes without a rank form a group of their own), because such processes share an export's file, and
//! readers of that file distinguish rows by nothing else. The default stream of the first context is 7, as in CUPTI,
//! and no other stream is; a stream keeps the driver's id if that is free and fits 31 bits; the others get the next
//! free number in order of appearance.

use super::filter::Filter;
use super::gpu_clock::Clocks;
use super::job::Job;
use crate::trace::record::{Body, Names, Record, Status};
use gpuspy_wire::record::{Fact, Namespace, SyncScope, flag};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

/// CUPTI's number of the default stream.
pub const DEFAULT_STREAM: u32 = 7;

/// A process of a run, after the first pass over its trace.
#[derive(Clone, Copy, Debug)]
pub struct Told<'a> {
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

impl Told<'_> {
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
pub fn asked(run: &[Told<'_>], filter: &Filter) -> Vec<Filter> {
    let mut began: HashMap<Machine, u64> = HashMap::new();
    for told in run {
        let first = began.entry(told.machine()).or_insert(u64::MAX);
        *first = told.began().min(*first);
    }
    let of = |(told, numbers): (&Told<'_>, StreamNumbers)| Filter {
        origin: began.get(&told.machine()).copied(),
        numbers: Some(Arc::new(numbers)),
        ..filter.clone()
    };
    run.iter().zip(numbered(run)).map(of).collect()
}

/// The numbers of a process's streams, by context and id.
pub type StreamNumbers = HashMap<(u32, u64), u32>;

/// The numbers of each process's streams.
fn numbered(run: &[Told<'_>]) -> Vec<StreamNumbers> {
    let mut order: Vec<usize> = (0..run.len()).collect();
    order.sort_by_key(|at| run[*at].status.map(|status| (status.began_realtime, status.pid)));
    let mut ranks: BTreeMap<Option<u32>, Numbers> = BTreeMap::new();
    let mut all = vec![StreamNumbers::new(); run.len()];
    for at in order {
        let numbers = ranks.entry(Job::of(run[at].names).rank).or_insert_with(Numbers::of_streams);
        for stream in &run[at].clocks.streams.list {
            all[at].insert((stream.context, stream.stream), numbers.of(stream));
        }
    }
    all
}

/// Streams in order of appearance.
#[derive(Clone, Debug, Default)]
pub struct Streams {
    list: Vec<Stream>,
    /// (Context, id) → index in the list.
    met: HashMap<(u32, u64), usize>,
}

#[derive(Clone, Copy, Debug)]
struct Stream {
    context: u32,
    stream: u64,
    /// Whether it is its context's legacy default stream.
    is_default: bool,
}

impl Streams {
    /// Takes what a record says about streams.
    pub fn observe(&mut self, record: &Record) {
        let (call, stream) = match &record.body {
            Body::Work(work) => (&work.call, work.stream),
            Body::Synchronize(sync) if sync.scope == SyncScope::Stream => (&sync.call, sync.stream),
            Body::EventRecord(op) | Body::EventWait(op) => (&op.call, op.stream),
            _ => return,
        };
        let (context, next) = (call.context, self.list.len());
        let place = *self.met.entry((context, stream)).or_insert(next);
        if place == next {
            self.list.push(Stream { context, stream, is_default: false });
        }
        self.list[place].is_default |= call.flags & flag::LEGACY_STREAM != 0;
    }
}

/// Gives out each number once.
#[derive(Clone, Debug, Default)]
pub struct Numbers {
    taken: HashSet<u32>,
    next: u32,
    /// Whether number 7 is still reserved for the first default stream.
    has_default: bool,
}

impl Numbers {
    /// For streams: only a default stream gets the number 7.
    fn of_streams() -> Numbers {
        Numbers { taken: HashSet::from([DEFAULT_STREAM]), next: DEFAULT_STREAM, has_default: true }
    }

    /// The number of a stream.
    fn of(&mut self, stream: &Stream) -> u32 {
        if stream.is_default && std::mem::take(&mut self.has_default) {
            return DEFAULT_STREAM;
        }
        self.take(i32::try_from(stream.stream).ok().filter(|id| *id > 0).map(|id| id as u32))
    }

    /// Marks numbers as taken.
    pub fn reserve(&mut self, taken: impl IntoIterator<Item = u32>) {
        self.taken.extend(taken);
    }

    /// Takes the wanted number if it is free, else the next free one.
    pub fn take(&mut self, wanted: Option<u32>) -> u32 {
        if let Some(wanted) = wanted.filter(|wanted| self.taken.insert(*wanted)) {
            return wanted;
        }
        while !self.taken.insert(self.next) {
            self.next += 1;
        }
        self.next
    }
}
