//! What does a trace that begins in the middle of a run need to know of the time before? A collection in windows writes it at
//! the start of each window's trace, so that the trace can be read without the earlier ones.
//!
//! It is what gives later records their meaning: names, devices, contexts, streams, graphs, mappings of files, what the driver
//! says of kernels, blocks of memory that are allocated, open NVTX ranges, the latest samples of clocks and of threads. All of
//! it is bounded; of more, the oldest is forgotten.
//!
//! Memory that a graph allocated and that is still held is not carried: only the model knows which launch holds it. And of memory that
//! outlives its context (of pools, and mapped), it is not carried which GPU it is on: it does not count as device memory any more.

use super::held::HeldMemory;
use super::open_ranges::OpenRanges;
use crate::hash::{HashMap, HashSet};
use crate::trace::record::{Body, GraphNode, Record};
use gpuspy_wire::record::{Fact, Namespace};
use std::collections::BTreeMap;

/// Limit on the bytes of names that are carried. A run of PyTorch has a few MB.
const MOST_NAME_BYTES: usize = 64 << 20;
/// What a name takes in addition to its text, bytes.
const NAME_BYTES: usize = 64;
/// Limit on the records besides those of memory: less than 64 MB.
const MOST: usize = 1 << 18;
/// The samples of each context's clock that are carried, whatever time bases they are of. Two of them place a time base and its
/// drift. A time base lasts for seconds, and GPU times come in the order of theirs, so that a window has no times of earlier ones
/// but of operations around its start. Those are placed by their own calls.
const CLOCK_SAMPLES: usize = 4;

/// The name that says which ranges the user captures.
pub const CAPTURE_RANGE: (Namespace, u32) = (Namespace::Fact, Fact::CaptureRange as u32);

/// What is carried into the next window.
#[derive(Debug, Default)]
pub struct Carry {
    names: BTreeMap<(Namespace, u32), String>,
    name_bytes: usize,
    known: Known,
    ranges: OpenRanges,
    memory: HeldMemory,
    /// Graph number → the handle of the graph.
    graphs: HashMap<u32, u64>,
    /// Whether records are inside a capture range; `None` in a run without them.
    captures: Option<bool>,
}

/// What records are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Key {
    Device(u32),
    Context(u32),
    Stream {
        context: u32,
        stream: u64,
    },
    /// By handle: a graph that is instantiated or updated takes the place of what the handle stood for.
    Graph(u64),
    Module(u64),
    Facts {
        kernel: u32,
        context: u32,
        threads: u32,
        shared_bytes: u32,
    },
    Lookup(u32),
    Thread(u32),
    TimingWindow,
    /// By context.
    Clock(u32),
}

impl Key {
    fn of(record: &Record) -> Option<Key> {
        Some(match &record.body {
            Body::Device(device) => Key::Device(device.ordinal),
            Body::Context(context) => Key::Context(context.context),
            Body::Stream(stream) => Key::Stream { context: stream.context, stream: stream.stream },
            Body::Graph(graph) => Key::Graph(graph.handle),
            Body::Module(module) => Key::Module(module.start),
            Body::KernelFacts(facts) => Key::Facts {
                kernel: facts.kernel,
                context: facts.context,
                threads: facts.threads,
                shared_bytes: facts.shared_bytes,
            },
            Body::Lookup(lookup) => Key::Lookup(lookup.function),
            Body::ThreadTime(_) => Key::Thread(record.thread),
            Body::Window(_) => Key::TimingWindow,
            Body::ClockSample(sample) => Key::Clock(sample.context),
            _ => return None,
        })
    }

    /// Whether other records are read without its records, too: those go first.
    fn gives_way(self) -> bool {
        !matches!(self, Key::Device(_) | Key::Context(_) | Key::Stream { .. } | Key::Module(_))
    }
}

impl Carry {
    /// Takes a name.
    pub fn name(&mut self, namespace: Namespace, id: u32, text: &str) {
        if (namespace, id) == CAPTURE_RANGE && !text.is_empty() {
            // Nothing counts before the first of them.
            self.captures.get_or_insert(false);
        }
        let bytes = |text: &str| text.len() + NAME_BYTES;
        if self.name_bytes + bytes(text) <= MOST_NAME_BYTES {
            let replaced = self.names.insert((namespace, id), text.to_owned());
            self.name_bytes += bytes(text);
            self.name_bytes -= replaced.map_or(0, |text| bytes(&text));
        }
    }

    /// Whether the user captures ranges, and not all of each window.
    pub fn has_capture_ranges(&self) -> bool {
        self.names.get(&CAPTURE_RANGE).is_some_and(|text| !text.is_empty())
    }

    /// The names so far.
    pub fn names(&self) -> impl Iterator<Item = (Namespace, u32, &str)> {
        self.names.iter().map(|((namespace, id), text)| (*namespace, *id, text.as_str()))
    }

    /// The numbers of the texts of open NVTX ranges.
    pub fn texts(&self) -> impl Iterator<Item = u32> {
        self.ranges.texts()
    }

    /// Forgets the texts of NVTX ranges except those with these numbers.
    pub fn keep_texts(&mut self, kept: &HashSet<u32>) {
        let bytes = &mut self.name_bytes;
        self.names.retain(|(namespace, id), text| {
            let stays = *namespace != Namespace::NvtxRange || kept.contains(id);
            *bytes -= if stays { 0 } else { text.len() + NAME_BYTES };
            stays
        });
    }

    /// Takes the next record. Returns whether it changes what is carried.
    pub fn observe(&mut self, record: &Record) -> bool {
        match (&record.body, Key::of(record)) {
            (Body::Context(context), Some(key)) if context.destroyed => {
                let context = context.context;
                self.known.remove(key);
                self.known.forget(|key| {
                    matches!(key, Key::Stream { context: of, .. } | Key::Facts { context: of, .. } | Key::Clock(of)
                        if of == context)
                });
                self.memory.context_destroyed(context);
            }
            (Body::Stream(stream), Some(key)) if stream.destroyed => self.known.remove(key),
            (Body::Graph(graph), Some(key)) => {
                if self.graphs.len() >= MOST {
                    self.graphs.clear();
                }
                self.graphs.insert(graph.graph, graph.handle);
                self.known.replace(key, record.clone());
            }
            (Body::GraphNode(node), _) => self.node(node, record),
            (Body::ClockSample(_), Some(key)) => self.known.append(key, record.clone(), CLOCK_SAMPLES),
            (Body::NvtxRange(range), _) => return self.ranges.change(range, record),
            (Body::CaptureEdge { begins }, _) => self.captures = Some(*begins),
            (Body::Alloc(_) | Body::Free(_) | Body::Api(_), _) => return self.memory.observe(record),
            (_, Some(key)) => self.known.replace(key, record.clone()),
            (_, None) => return false,
        }
        true
    }

    /// Whether a record is the start of a range that is known to have ended before `at`.
    pub fn is_over(&self, record: &Record, at: u64) -> bool {
        matches!(&record.body, Body::NvtxRange(range) if self.ranges.is_over(range, at))
    }

    /// Forgets a thread that has ended: its time, its name and the ranges that only it could end.
    pub fn thread_ended(&mut self, thread: u32) {
        self.known.remove(Key::Thread(thread));
        self.ranges.thread_ended(thread);
        if let Some(name) = self.names.remove(&(Namespace::Thread, thread)) {
            self.name_bytes -= name.len() + NAME_BYTES;
        }
    }

    /// Takes a part of a graph's contents.
    fn node(&mut self, node: &GraphNode, record: &Record) {
        let Some(key) = self.graphs.get(&node.graph).map(|handle| Key::Graph(*handle)) else { return };
        let is_its = |first: &Record| matches!(&first.body, Body::Graph(graph) if graph.graph == node.graph);
        if self.known.first(key).is_some_and(is_its) {
            self.known.append(key, record.clone(), MOST);
        }
    }

    /// Whether a window that begins now is recorded: it is not between two capture ranges.
    pub fn is_capturing(&self) -> bool {
        self.captures != Some(false)
    }

    /// The records that a trace begins with which has nothing from before `at`, host ns: they are placed at that moment, and
    /// so are their calls.
    pub fn records(&self, at: u64) -> impl Iterator<Item = Record> {
        let others = self.known.records().chain(self.ranges.records()).cloned();
        others.chain(self.memory.records()).map(move |record| placed(record, at))
    }
}

/// Returns a record with another time.
pub fn placed(mut record: Record, at: u64) -> Record {
    record.at = at;
    if let Some(call) = record.body.call_mut() {
        (call.begin, call.end) = (at, at);
    }
    record
}

/// Records by what they are about: first those that do not give way, and of each sort the oldest first.
#[derive(Debug, Default)]
struct Known {
    /// By whether they give way, and by their number.
    by_age: BTreeMap<(bool, u64), (Key, Vec<Record>)>,
    numbers: HashMap<Key, u64>,
    next: u64,
    /// The number of records.
    count: usize,
}

impl Known {
    /// Puts a record in the place of all about the same.
    fn replace(&mut self, key: Key, record: Record) {
        self.remove(key);
        self.append(key, record, 1);
    }

    /// Adds a record about the same; of more than `most`, the oldest goes.
    fn append(&mut self, key: Key, record: Record, most: usize) {
        let number = *self.numbers.entry(key).or_insert_with(|| {
            self.next += 1;
            self.next
        });
        let (_, records) = self.by_age.entry((key.gives_way(), number)).or_insert_with(|| (key, Vec::new()));
        if records.len() >= most {
            records.remove(0);
            self.count -= 1;
        }
        records.push(record);
        self.count += 1;
        if self.count > MOST
            && let Some(oldest) = self.oldest()
        {
            self.remove(oldest);
        }
    }

    /// What is the oldest of those that give way, or of all if none does.
    fn oldest(&self) -> Option<Key> {
        let oldest = self.by_age.range((true, 0)..).next().or_else(|| self.by_age.first_key_value());
        oldest.map(|(_, (key, _))| *key)
    }

    fn remove(&mut self, key: Key) {
        let number = self.numbers.remove(&key);
        let removed = number.and_then(|number| self.by_age.remove(&(key.gives_way(), number)));
        self.count -= removed.map_or(0, |(_, records)| records.len());
    }

    fn first(&self, key: Key) -> Option<&Record> {
        let number = self.numbers.get(&key)?;
        self.by_age.get(&(key.gives_way(), *number))?.1.first()
    }

    fn forget(&mut self, is_gone: impl Fn(Key) -> bool) {
        let gone: Vec<Key> = self.numbers.keys().copied().filter(|key| is_gone(*key)).collect();
        gone.into_iter().for_each(|key| self.remove(key));
    }

    fn records(&self) -> impl Iterator<Item = &Record> {
        self.by_age.values().flat_map(|(_, records)| records)
    }
}

#[cfg(test)]
mod tests;
