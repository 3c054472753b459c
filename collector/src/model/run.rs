//! What the processes of a run have in common: the clock of their machine, and the numbers of their streams.
//!
//! **Numbers of streams** are what reports, filters and exports call them by. They are unique among processes of one rank
//! (those without a rank are one more), which is what shares an export's file: readers tell rows apart by nothing
//! else. The default stream of the first context is 7, as in CUPTI, and no other stream is; a stream keeps the driver's id where that
//! is free and fits 31 bits; the others get the next free number, as they were met.

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
    /// Its texts.
    pub names: &'a Names,
    /// Its last status, if it has one.
    pub status: Option<&'a Status>,
    /// Its clocks.
    pub clocks: &'a Clocks,
}

/// Which clock a process's host times are of.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Machine {
    /// The machine's, since that start of it.
    Boot(u64),
    /// Of a trace that does not tell the start: the machine's of this name.
    Host(Option<String>),
}

impl Told<'_> {
    /// Which clock its host times are of.
    pub fn machine(&self) -> Machine {
        let host = || self.names.get(Namespace::Fact, Fact::Host as u32).map(str::to_owned);
        self.status.and_then(|status| status.boot).map_or_else(|| Machine::Host(host()), Machine::Boot)
    }

    /// Host ns at which its collection began.
    pub fn began(&self) -> u64 {
        self.clocks.began(self.status)
    }
}

/// What is asked for of each process: times count from the begin of the first of its machine's, and streams have their numbers.
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

/// Streams as they were met.
#[derive(Clone, Debug, Default)]
pub struct Streams {
    list: Vec<Stream>,
    /// By context and id: the place in the list.
    met: HashMap<(u32, u64), usize>,
}

#[derive(Clone, Copy, Debug)]
struct Stream {
    context: u32,
    stream: u64,
    /// It is its context's legacy default stream.
    is_default: bool,
}

impl Streams {
    /// Takes what a record says of streams.
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

/// Numbers that are given out once.
#[derive(Clone, Debug, Default)]
pub struct Numbers {
    taken: HashSet<u32>,
    next: u32,
    /// No default stream is numbered yet.
    has_default: bool,
}

impl Numbers {
    /// For streams: no other than a default one gets its number.
    fn of_streams() -> Numbers {
        Numbers { taken: HashSet::from([DEFAULT_STREAM]), next: DEFAULT_STREAM, has_default: true }
    }

    /// A stream's.
    fn of(&mut self, stream: &Stream) -> u32 {
        if stream.is_default && std::mem::take(&mut self.has_default) {
            return DEFAULT_STREAM;
        }
        self.take(i32::try_from(stream.stream).ok().filter(|id| *id > 0).map(|id| id as u32))
    }

    /// No more than these are free.
    pub fn reserve(&mut self, taken: impl IntoIterator<Item = u32>) {
        self.taken.extend(taken);
    }

    /// The wanted number if it is free, else the next one that is.
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
