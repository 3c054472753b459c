//! What is true of generated records: reckoned from what the generator meant to happen on the simulated host and GPU, with
//! nothing of the model or the analyses.

use super::super::record::{Body, Record, What, Work};
use super::Ran;
use gpuspy_wire::record::Memory;
use std::collections::BTreeMap;

/// What is true of the records that a [`Generator`](super::Generator) has given out. Times are ns of its host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Truth {
    /// All of them.
    pub records: u64,
    /// Kernel launches, all timed.
    pub launches: u64,
    /// How long kernels occupied their streams, by name.
    pub kernels: BTreeMap<u32, Lengths>,
    /// Copies and sets.
    pub transfers: BTreeMap<Kind, Moved>,
    /// Memory, by its kind.
    pub memory: BTreeMap<Memory, Held>,
    /// Calls by API number, and the host's time in them.
    pub calls: BTreeMap<u16, (u64, u64)>,
    timeline: Timeline,
}

/// What a generated transfer does; all host memory is pinned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A copy to the device.
    HtoD,
    /// A copy from the device.
    DtoH,
    /// A set.
    Memset,
}

/// How long operations of one name occupied their stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lengths {
    /// How many.
    pub count: u64,
    /// Their sum.
    pub total: u64,
    /// How many of each length: the generated ones resemble each other, so there are far fewer lengths than operations.
    pub by_length: BTreeMap<u64, u64>,
}

impl Lengths {
    fn add(&mut self, ns: u64) {
        self.count += 1;
        self.total += ns;
        *self.by_length.entry(ns).or_default() += 1;
    }

    /// The one in the middle, of two the lower.
    pub fn median(&self) -> Option<u64> {
        let middle = self.count.checked_sub(1)? / 2;
        let mut up_to = 0;
        let is_there = |(_, count): &(&u64, &u64)| {
            up_to += **count;
            up_to > middle
        };
        self.by_length.iter().find(is_there).map(|(ns, _)| *ns)
    }

    /// The shortest and the longest.
    pub fn extremes(&self) -> Option<(u64, u64)> {
        Some((*self.by_length.first_key_value()?.0, *self.by_length.last_key_value()?.0))
    }

    /// Standard deviation of the population.
    pub fn stddev(&self) -> f64 {
        let mean = self.total as f64 / self.count as f64;
        let squares = self.by_length.iter().map(|(ns, count)| (*ns as f64 - mean).powi(2) * *count as f64);
        (squares.sum::<f64>() / self.count as f64).sqrt()
    }
}

/// Transfers of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moved {
    /// How many.
    pub count: u64,
    /// How much.
    pub bytes: u64,
    /// How long they occupied their streams, in all.
    pub total: u64,
}

/// Use of one kind of memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Allocations.
    pub allocations: u64,
    /// Frees.
    pub frees: u64,
    /// Held now.
    pub live: u64,
    /// The most that was held.
    pub peak: u64,
    /// When that was first so.
    pub peak_at: u64,
}

/// What the device's time went to; the parts sum to the span.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Parts {
    /// First start event to last end event.
    pub span: u64,
    /// A kernel that computes occupied a stream.
    pub compute: u64,
    /// None did, and one that communicates did.
    pub communication: u64,
    /// No kernel did, and a transfer did.
    pub transfer: u64,
    /// Nothing did.
    pub idle: u64,
    /// Stretches between two operations in which nothing did.
    pub gaps: u64,
    /// The longest of them.
    pub longest_gap: u64,
}

/// What occupies a stream, in order of precedence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    Compute,
    Communication,
    Transfer,
}

/// The device's time, as the operations of all streams cover it. It keeps what lies ahead of the slowest stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Timeline {
    /// When each stream's last operation ended: what follows on it begins no earlier.
    ends: BTreeMap<u64, u64>,
    /// What begins less what ends at a moment, by class.
    edges: BTreeMap<u64, [i32; 3]>,
    running: [i32; 3],
    /// How far it has come.
    now: u64,
    /// First start event, last end event.
    events: Option<(u64, u64)>,
    parts: Parts,
}

impl Timeline {
    fn add(&mut self, stream: u64, streams: usize, ran: &Ran) {
        let events = self.events.get_or_insert(ran.events);
        *events = (events.0.min(ran.events.0), events.1.max(ran.events.1));
        self.edges.entry(ran.begun).or_default()[ran.class as usize] += 1;
        self.edges.entry(ran.done).or_default()[ran.class as usize] -= 1;
        self.ends.insert(stream, ran.done);
        if self.ends.len() == streams
            && let Some(reached) = self.ends.values().min().copied()
        {
            self.pass(reached);
        }
    }

    /// Counts all time before `end`.
    fn pass(&mut self, end: u64) {
        while let Some(edge) = self.edges.first_entry().filter(|edge| *edge.key() < end) {
            let (time, changes) = edge.remove_entry();
            let ns = time - self.now;
            let Parts { compute, communication, transfer, gaps, longest_gap, .. } = &mut self.parts;
            match self.running.map(|count| count > 0) {
                [true, ..] => *compute += ns,
                [_, true, _] => *communication += ns,
                [.., true] => *transfer += ns,
                // Before the first operation there is no gap.
                _ if self.now > 0 && ns > 0 => {
                    *gaps += 1;
                    *longest_gap = ns.max(*longest_gap);
                }
                _ => {}
            }
            self.now = time;
            for (count, change) in self.running.iter_mut().zip(changes) {
                *count += change;
            }
        }
    }
}

impl Truth {
    /// What the device's time went to, from the first operation to the last that was given out.
    pub fn parts(&self) -> Parts {
        let mut timeline = self.timeline.clone();
        timeline.pass(u64::MAX);
        let (first, last) = timeline.events.unwrap_or_default();
        let mut parts = timeline.parts;
        parts.span = last - first;
        parts.idle = parts.span - parts.compute - parts.communication - parts.transfer;
        parts
    }

    /// Counts a record that is given out; `streams` = how many there are in all.
    pub(super) fn count(&mut self, record: &Record, ran: Option<&Ran>, streams: usize) {
        self.records += 1;
        match &record.body {
            Body::Work(Work { call, stream, what, .. }) => {
                self.call(call.api, call.begin, call.end);
                if let Some(ran) = ran {
                    self.work(what, ran.done - ran.begun);
                    self.timeline.add(*stream, streams, ran);
                }
            }
            Body::Alloc(alloc) => {
                self.call(alloc.call.api, alloc.call.begin, alloc.call.end);
                let held = self.memory.entry(alloc.memory).or_default();
                held.allocations += 1;
                held.live += alloc.bytes;
                if held.live > held.peak {
                    (held.peak, held.peak_at) = (held.live, record.at);
                }
            }
            Body::Api(api) => self.call(api.call.api, api.call.begin, api.call.end),
            Body::Synchronize(sync) => self.call(sync.call.api, sync.call.begin, sync.call.end),
            Body::EventRecord(op) => self.call(op.call.api, op.call.begin, op.call.end),
            _ => {}
        }
    }

    /// Counts a free of `bytes`: its record does not tell how many.
    pub(super) fn freed(&mut self, memory: Memory, bytes: u64) {
        let held = self.memory.entry(memory).or_default();
        held.frees += 1;
        held.live -= bytes;
    }

    fn call(&mut self, api: u16, begin: u64, end: u64) {
        let calls = self.calls.entry(api).or_default();
        calls.0 += 1;
        calls.1 += end - begin;
    }

    fn work(&mut self, what: &What, ns: u64) {
        let (kind, bytes) = match *what {
            What::Kernel { name, .. } => {
                self.launches += 1;
                return self.kernels.entry(name).or_default().add(ns);
            }
            What::Memcpy { dst, bytes, .. } if dst == super::HOST_BLOCK => (Kind::DtoH, bytes),
            What::Memcpy { bytes, .. } => (Kind::HtoD, bytes),
            What::Memset { bytes, .. } => (Kind::Memset, bytes),
            What::Graph { .. } | What::Burst { .. } => return,
        };
        let moved = self.transfers.entry(kind).or_default();
        moved.count += 1;
        moved.bytes += bytes;
        moved.total += ns;
    }
}
