//! What does a trace that begins in the middle of a run need to know of the time before? A collection in windows writes it at
//! the start of each window's trace, so that the trace can be read without the earlier ones.
//!
//! It is what gives later records their meaning: names, devices, contexts, streams, graphs, mappings of files, what the driver
//! says of kernels, blocks of memory that are allocated, open NVTX ranges, the latest samples of clocks and of threads. All of
//! it is bounded; of more, the oldest is forgotten.
//!
//! Memory that a graph allocated and that is still held is not carried: only the model knows which launch holds it.

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
mod tests {
    use super::*;
    use crate::trace::record::{
        Alloc, Api, Call, ClockSample, Context, Device, Free, Graph, KernelFacts, NvtxRange, Stream,
        ThreadTime,
    };
    use gpuspy_wire::record::{Memory, NodeKind, NvtxChange, flag};

    fn carried(bodies: Vec<Body>) -> Vec<Body> {
        let mut carry = Carry::default();
        for (at, body) in (1..).zip(bodies) {
            carry.observe(&Record { thread: 1, at, body });
        }
        let records: Vec<Record> = carry.records(99).collect();
        assert!(records.iter().all(|record| record.at == 99));
        assert!(
            records
                .iter()
                .filter_map(|record| record.body.call())
                .all(|call| (call.begin, call.end) == (99, 99))
        );
        records.into_iter().map(|record| record.body).collect()
    }

    fn alloc(memory: Memory, address: u64, bytes: u64, pool: u64) -> Body {
        let call = Call { context: 1, ..Call::default() };
        Body::Alloc(Alloc { call, memory, address, bytes, stream: 0, pool })
    }

    fn free(memory: Memory, address: u64, correlation: u64) -> Body {
        let call = Call { context: 1, correlation, ..Call::default() };
        Body::Free(Free { call, memory, address, stream: 0, bytes: 0 })
    }

    fn ended(correlation: u64, flags: u16) -> Body {
        let call = Call { correlation, flags, ..Call::default() };
        Body::Api(Api { call, result: 0, subject: 0, calls: 1, inside: 0, entered: 0 })
    }

    fn context(context: u32, destroyed: bool) -> Body {
        Body::Context(Context { context, device: 0, handle: 5, destroyed })
    }

    fn stream(stream: u64, destroyed: bool) -> Body {
        Body::Stream(Stream { stream, handle: 7, context: 1, flags: 0, priority: 0, destroyed })
    }

    fn device() -> Body {
        Body::Device(Device {
            ordinal: 0,
            uuid: [7; 16],
            memory_bytes: 1 << 30,
            multiprocessors: 132,
            capability: 90,
            warps_per_multiprocessor: 64,
        })
    }

    fn sample(context: u32, time_base: u32) -> Body {
        let (gpu, error, after, before) = (5, 0, 10, 20);
        Body::ClockSample(ClockSample { context, time_base, gpu, error, after, before })
    }

    fn facts(kernel: u32) -> Body {
        Body::KernelFacts(KernelFacts { kernel, context: 1, ..KernelFacts::default() })
    }

    fn range(change: NvtxChange, text: u32) -> Body {
        let id = u64::from(text);
        Body::NvtxRange(NvtxRange { change, id, domain: 0, text, category: 0, color: 0, payload: false })
    }

    fn addresses(bodies: &[Body]) -> Vec<u64> {
        let addresses = bodies.iter().filter_map(|body| match body {
            Body::Alloc(alloc) => Some(alloc.address),
            _ => None,
        });
        addresses.collect()
    }

    #[test]
    fn what_is_destroyed_or_freed_is_not_carried() {
        let kept = carried(vec![
            context(1, false),
            context(2, false),
            stream(3, false),
            stream(4, false),
            alloc(Memory::Device, 64, 8, 0),
            alloc(Memory::Device, 128, 8, 0),
            stream(3, true),
            context(2, true),
            free(Memory::Device, 64, 11),
            ended(11, 0),
        ]);
        assert_eq!(kept.len(), 3, "{kept:?}");
        assert_eq!((&kept[0], &kept[1]), (&context(1, false), &stream(4, false)));
        assert_eq!(addresses(&kept), [128]);
    }

    #[test]
    fn the_end_of_a_context_takes_its_streams_and_its_memory_with_it() {
        let kept = carried(vec![
            context(1, false),
            stream(3, false),
            alloc(Memory::Device, 64, 8, 0),
            alloc(Memory::Pool, 128, 8, 0),
            context(1, true),
        ]);
        assert_eq!((kept.len(), addresses(&kept)), (1, vec![128]), "pools are the device's");
    }

    #[test]
    fn a_block_is_back_when_its_free_failed() {
        let both = [alloc(Memory::Device, 64, 8, 0), free(Memory::Device, 64, 11)];
        assert_eq!(addresses(&carried([&both[..], &[ended(11, flag::FAILED)]].concat())), [64]);
        assert_eq!(addresses(&carried([&both[..], &[ended(11, 0)]].concat())), [0; 0]);
    }

    /// It counts where it returns: both the block and the free are carried, and the return follows.
    #[test]
    fn a_free_that_has_not_returned_is_carried() {
        let kept = carried(vec![alloc(Memory::Device, 64, 8, 0), free(Memory::Device, 64, 11)]);
        assert_eq!((kept.len(), addresses(&kept)), (2, vec![64]));
        assert!(matches!(&kept[1], Body::Free(free) if free.call.correlation == 11), "{kept:?}");
    }

    #[test]
    fn released_physical_memory_is_carried_while_it_is_mapped() {
        let mapped = [
            alloc(Memory::Reserved, 5, 4096, 0),
            alloc(Memory::Mapped, 64, 4096, 5),
            free(Memory::Reserved, 5, 11),
        ];
        let kept = carried(mapped.to_vec());
        assert_eq!(addresses(&kept), [5, 64]);
        assert!(matches!(&kept[2], Body::Free(free) if free.address == 5), "{kept:?}");
        let unmapped = [&mapped[..], &[ended(11, 0), free(Memory::Mapped, 64, 12), ended(12, 0)]].concat();
        assert_eq!(carried(unmapped), []);
        assert!(
            matches!(&kept[3], Body::Api(api) if api.call.api == 0 && api.call.correlation == 11),
            "{kept:?}"
        );
        let not_released = [&mapped[..], &[ended(11, flag::FAILED)]].concat();
        assert_eq!(carried(not_released).len(), 2);
    }

    #[test]
    fn open_ranges_are_carried() {
        use NvtxChange::{End, Push, Start};
        let kept = carried(vec![range(Push, 1), range(Start, 4), range(Start, 5), range(End, 4)]);
        assert_eq!(kept, [range(Push, 1), range(Start, 5)]);
    }

    #[test]
    fn an_updated_graph_takes_the_place_of_what_it_was() {
        let graph =
            |graph| Body::Graph(Graph { graph, handle: 9, kernels: 1, copies: 0, memsets: 0, others: 0 });
        let node = |graph, kernel| {
            let kind = NodeKind::Kernel;
            Body::GraphNode(GraphNode { graph, kind, kernel, count: 1, bytes: 0, address: 0 })
        };
        let kept = carried(vec![graph(1), node(1, 10), graph(2), node(2, 20), node(1, 11), node(2, 21)]);
        assert_eq!(kept, [graph(2), node(2, 20), node(2, 21)]);
    }

    /// Each allocation of imported memory is another reference to it, and a free takes one.
    #[test]
    fn the_allocations_of_all_blocks_are_bounded() {
        let most = 1 << 18;
        let mut records: Vec<Body> =
            (0..most + 10).map(|at| alloc(Memory::Imported, 64 * (1 + at % 3), 8, 0)).collect();
        assert_eq!(carried(records.clone()).len(), most as usize);
        records.extend([free(Memory::Imported, 64, 11), ended(11, 0), alloc(Memory::Device, 4096, 8, 0)]);
        let kept = addresses(&carried(records));
        assert_eq!((kept.len(), kept.contains(&4096)), (most as usize, true), "a free makes place");
    }

    #[test]
    fn of_too_much_the_oldest_is_forgotten() {
        let streams = (0..MOST as u64 + 10).map(|number| stream(number, false)).collect();
        let kept = carried(streams);
        assert_eq!((kept.len(), &kept[0]), (MOST, &stream(10, false)));
    }

    /// Where work is sparse, a time base begins every 17 s. Each was carried to the end of the run, and in the end nothing else.
    #[test]
    fn the_latest_samples_of_a_clock_are_carried_whatever_their_time_bases() {
        let first = vec![device(), context(1, false), stream(3, false)];
        let samples = |time_bases: std::ops::Range<u32>| time_bases.map(|time_base| sample(1, time_base));
        let kept = carried(first.iter().cloned().chain(samples(0..300_000)).collect());
        let expected: Vec<Body> = first.into_iter().chain(samples(299_996..300_000)).collect();
        assert_eq!(kept, expected);
    }

    #[test]
    fn the_clock_and_the_kernels_of_a_context_end_with_it() {
        let of_both = vec![context(1, false), sample(1, 1), facts(4), sample(2, 1), context(1, true)];
        assert_eq!(carried(of_both), [sample(2, 1)]);
    }

    /// The oldest were forgotten first: devices, contexts and modules, without which the rest means nothing.
    #[test]
    fn devices_contexts_and_streams_outlive_what_there_is_much_of() {
        let first = [device(), context(1, false), stream(3, false)];
        let kernels = (0..MOST as u32 + 10).map(facts);
        let kept = carried(first.iter().cloned().chain(kernels).collect());
        assert_eq!((kept.len(), &kept[..3]), (MOST, &first[..]));
        assert_eq!((&kept[3], kept.last()), (&facts(13), Some(&facts(MOST as u32 + 9))));
    }

    #[test]
    fn a_thread_that_has_ended_is_not_carried() {
        let time = Body::ThreadTime(ThreadTime { ran: 5, queued: 6, late: 7 });
        let mut carry = Carry::default();
        (1..=2).for_each(|thread| {
            carry.observe(&Record { thread, at: 1, body: time.clone() });
        });
        carry.thread_ended(1);
        assert_eq!(carry.records(99).map(|record| record.thread).collect::<Vec<_>>(), [2]);
    }

    /// Each thread that ever was left its name, until there was no room for those of new kernels.
    #[test]
    fn names_of_threads_that_have_ended_make_room() {
        let mut carry = Carry::default();
        let most = (MOST_NAME_BYTES / NAME_BYTES) as u32;
        for thread in 0..most + 10 {
            carry.name(Namespace::Thread, thread, "request");
            carry.thread_ended(thread);
        }
        carry.name(Namespace::Kernel, 1, "kernel");
        assert_eq!(carry.names().collect::<Vec<_>>(), [(Namespace::Kernel, 1, "kernel")]);
    }

    /// They were open in each later window, and after 65 536 of them no range of other threads was.
    #[test]
    fn ranges_that_a_thread_left_open_end_with_it() {
        let mut carry = Carry::default();
        for (thread, text) in [(1, 1), (2, 2), (2, 3)] {
            carry.observe(&Record { thread, at: 1, body: range(NvtxChange::Push, text) });
        }
        carry.observe(&Record { thread: 2, at: 1, body: range(NvtxChange::Start, 4) });
        carry.thread_ended(2);
        let texts: Vec<u32> = carry.texts().collect();
        assert_eq!(texts, [1, 4], "any thread ends what was started");
    }

    #[test]
    fn names_are_carried_and_their_bytes_are_bounded() {
        let mut carry = Carry::default();
        carry.name(Namespace::Kernel, 1, "a");
        carry.name(Namespace::Kernel, 1, "kernel");
        let much = "x".repeat(MOST_NAME_BYTES / 4);
        (2..20).for_each(|id| carry.name(Namespace::Kernel, id, &much));
        let names: Vec<(Namespace, u32, &str)> = carry.names().collect();
        assert_eq!((names[0], names.len()), ((Namespace::Kernel, 1, "kernel"), 4));
    }

    #[test]
    fn only_texts_of_open_ranges_are_carried() {
        use NvtxChange::{Pop, Push};
        let mut carry = Carry::default();
        carry.name(Namespace::Kernel, 1, "kernel");
        for (id, text) in [(1, "epoch"), (2, "step 1"), (3, "step 2")] {
            carry.name(Namespace::NvtxRange, id, text);
        }
        for body in [range(Push, 1), range(Push, 2), range(Pop, 0)] {
            carry.observe(&Record { thread: 1, at: 5, body });
        }
        let open: HashSet<u32> = carry.texts().collect();
        carry.keep_texts(&open);
        let names: Vec<(Namespace, u32, &str)> = carry.names().collect();
        assert_eq!(names, [(Namespace::Kernel, 1, "kernel"), (Namespace::NvtxRange, 1, "epoch")]);
        assert_eq!(carry.name_bytes, "kernel".len() + "epoch".len() + 2 * NAME_BYTES);
    }

    /// Only the bytes of texts were counted, so that a program could give any number of empty ones.
    #[test]
    fn names_without_a_text_are_bounded_too() {
        let mut carry = Carry::default();
        let most = (MOST_NAME_BYTES / NAME_BYTES) as u32;
        (0..most + 10).for_each(|id| carry.name(Namespace::Kernel, id, ""));
        assert_eq!(carry.names().count(), most as usize);
    }
}
