//! What is the truth about generated records? It is computed from what the generator made the simulated host and GPU
//! do, without using the model or the analyses.

use super::super::record::{Body, Record, What, Work};
use super::Ran;
use gpuspy_wire::record::Memory;
use std::collections::BTreeMap;

/// The truth about the records that a [`Generator`](super::Generator) has returned. Times are in ns of its host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Truth {
    /// The number of records.
    pub records: u64,
    /// The number of kernel launches; all are timed.
    pub launches: u64,
    /// Lengths of the kernels' GPU intervals by name.
    pub kernels: BTreeMap<u32, Lengths>,
    /// Copies and memsets.
    pub transfers: BTreeMap<Kind, Moved>,
    /// Memory, by its kind.
    pub memory: BTreeMap<Memory, Held>,
    /// API number → the number of calls and the host's time in them, ns.
    pub calls: BTreeMap<u16, (u64, u64)>,
    timeline: Timeline,
}

/// The kind of a generated transfer; all host memory is pinned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A copy to the device.
    HtoD,
    /// A copy from the device.
    DtoH,
    /// A memset.
    Memset,
}

/// Lengths of the GPU intervals of one name, ns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lengths {
    /// The number of operations.
    pub count: u64,
    /// The sum of their lengths.
    pub total: u64,
    /// Length → number of operations: generated kernels are similar, so there are far fewer lengths than operations.
    pub by_length: BTreeMap<u64, u64>,
}

impl Lengths {
    fn add(&mut self, ns: u64) {
        self.count += 1;
        self.total += ns;
        *self.by_length.entry(ns).or_default() += 1;
    }

    /// The median; of an even number the lower one.
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
    /// The number of transfers.
    pub count: u64,
    /// The bytes of all of them.
    pub bytes: u64,
    /// The sum of their GPU intervals, ns.
    pub total: u64,
}

/// Use of one kind of memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// The number of allocations.
    pub allocations: u64,
    /// The number of frees.
    pub frees: u64,
    /// Bytes held now.
    pub live: u64,
    /// The most bytes held.
    pub peak: u64,
    /// When that was first reached, host ns.
    pub peak_at: u64,
}

/// How the device's time divides, ns; the parts add up to the span.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Parts {
    /// From the first start event to the last end event.
    pub span: u64,
    /// A computing kernel was running.
    pub compute: u64,
    /// No computing kernel was running, but a communication kernel was.
    pub communication: u64,
    /// No kernel was running, but a transfer was.
    pub transfer: u64,
    /// Nothing was running.
    pub idle: u64,
    /// The number of stretches between operations in which nothing was running.
    pub gaps: u64,
    /// The length of the longest of them.
    pub longest_gap: u64,
}

/// What keeps a stream busy, in order of precedence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    Compute,
    Communication,
    Transfer,
}

/// The device's time over all streams. It keeps what lies after the slowest stream's last operation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Timeline {
    /// Stream → end of its last operation: later operations on it begin no earlier.
    ends: BTreeMap<u64, u64>,
    /// Time → the number of operations that begin minus the number that end, by class.
    edges: BTreeMap<u64, [i32; 3]>,
    running: [i32; 3],
    /// The time up to which everything is counted.
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

    /// Counts everything before `end`.
    fn pass(&mut self, end: u64) {
        while let Some(edge) = self.edges.first_entry().filter(|edge| *edge.key() < end) {
            let (time, changes) = edge.remove_entry();
            let ns = time - self.now;
            let Parts { compute, communication, transfer, gaps, longest_gap, .. } = &mut self.parts;
            match self.running.map(|count| count > 0) {
                [true, ..] => *compute += ns,
                [_, true, _] => *communication += ns,
                [.., true] => *transfer += ns,
                // There is no gap before the first operation.
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
    /// How the device's time divides, from the first operation to the last that was returned.
    pub fn parts(&self) -> Parts {
        let mut timeline = self.timeline.clone();
        timeline.pass(u64::MAX);
        let (first, last) = timeline.events.unwrap_or_default();
        let mut parts = timeline.parts;
        parts.span = last - first;
        parts.idle = parts.span - parts.compute - parts.communication - parts.transfer;
        parts
    }

    /// Counts a record that is returned; `streams` is the total number of streams.
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

    /// Counts a free of `bytes`, a number that its record does not contain.
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
