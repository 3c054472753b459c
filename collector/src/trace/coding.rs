//! How does a record become columns, and a record again? One description serves both directions.
//!
//! Every field is coded as its difference from an expected value. The expected value is computed from what was coded
//! before in the same chunk, by the same code when writing and when reading, so that both sides always expect the
//! same. The expectations follow a program's regularity:
//!
//! | field | expected |
//! |---|---|
//! | correlation | the thread's previous one + 1 |
//! | begin | the end of the thread's previous call: the difference is the program's own time between calls |
//! | submitted | begin + lead; end: submitted + tail: the difference is the hook's and the runtime's overhead |
//! | at | end |
//! | GPU start | the end of its stream's previous operation: back to back; the difference is the gap |
//! | GPU duration | the average of the same kernel's previous ones |
//! | time base, start error, seen | its stream's previous ones |
//! | stream, context | the thread's previous one |
//! | lead, tail, length of a call | 0, because a delta would double their noise |
//! | all else | as in the previous record of the same kind, and for launches of the same kernel |
//!
//! All arithmetic wraps, so every value of every field is restored, however odd. The memory of previous records has a
//! fixed size: threads, streams and kernels share places by the low bits of their numbers. Sharing a place costs
//! bytes but never changes a value.
//!
//! # Columns
//!
//! The numbers in the code below are part of the format. Kind 0 has the columns of all records: 0 kind, 1 thread. A
//! kind's own columns are 0 for `at`, 1–8 and 22 for the call, 9–21 for an operation on a stream, and 24 and up for the
//! kind's own fields. Times chunks use the columns 1, 15–21 and 23 of kind [`Kind::GpuTime`].
//!
//! A later version may add columns (an absent column means: as expected) and kinds (a reader skips their records). A
//! new kind must not change the memory of threads, streams and `at`, because an old reader does not decode it.

use super::columns::{COLUMNS, ColumnReader, ColumnWriter, Group, KINDS};
use super::record::*;
use gpuspy_wire::record::{
    Direction, Kind, LossCause, Memory, NodeKind, NvtxChange, SyncScope, Untimed, Via, WindowChange,
};
use std::io;

mod kinds;
use kinds::{blank, kind_of};

/// A value that fits a column.
trait Field: Copy {
    /// The value as a number.
    fn word(self) -> u64;
    /// The value for a number; `None` if no value has it.
    fn from_word(word: u64) -> Option<Self>;
}

macro_rules! integers {
    ($($name:ty as $wide:ty),*) => { $(
        impl Field for $name {
            fn word(self) -> u64 {
                <$wide>::from(self) as u64
            }
            fn from_word(word: u64) -> Option<Self> {
                Self::try_from(word as $wide).ok()
            }
        }
    )* };
}
integers!(u8 as u64, u16 as u64, u32 as u64, u64 as u64, i32 as i64, i64 as i64);

macro_rules! enums {
    ($($name:ty),*) => { $(
        impl Field for $name {
            fn word(self) -> u64 {
                self as u64
            }
            fn from_word(word: u64) -> Option<Self> {
                <$name>::from_wire(u8::try_from(word).ok()?)
            }
        }
    )* };
}
enums!(Via, Untimed, Direction, Memory, SyncScope, LossCause, NodeKind, NvtxChange, WindowChange);

impl Field for bool {
    fn word(self) -> u64 {
        u64::from(self)
    }
    fn from_word(word: u64) -> Option<Self> {
        [false, true].get(usize::try_from(word).ok()?).copied()
    }
}

impl Field for Option<Via> {
    fn word(self) -> u64 {
        self.map_or(0, Field::word)
    }
    fn from_word(word: u64) -> Option<Self> {
        if word == 0 { Some(None) } else { Via::from_word(word).map(Some) }
    }
}

/// One direction of the coding: writing or reading.
trait Columns {
    /// Writing: stores `value` and returns it. Reading: returns the value that was written, or `None` if there is none.
    fn code(&mut self, kind: u8, column: u8, value: u64, expected: u64) -> Option<u64>;
    /// Ends the present value of each column of a group.
    fn next(&mut self, kind: u8, group: Group);
}

impl Columns for ColumnWriter {
    #[inline(always)]
    fn code(&mut self, kind: u8, column: u8, value: u64, expected: u64) -> Option<u64> {
        self.set(kind, column, value.wrapping_sub(expected));
        Some(value)
    }

    #[inline(always)]
    fn next(&mut self, kind: u8, group: Group) {
        ColumnWriter::next(self, kind, group);
    }
}

impl Columns for ColumnReader {
    // Each column counts for itself.
    fn next(&mut self, _kind: u8, _group: Group) {}

    #[inline(always)]
    fn code(&mut self, kind: u8, column: u8, _value: u64, expected: u64) -> Option<u64> {
        Some(expected.wrapping_add(self.take(kind, column)?))
    }
}

/// The columns of times: begin, end, submitted, lead, tail, GPU start, duration, seen.
const TIMES: u64 = 1 << 5 | 1 << 6 | 1 << 9 | 1 << 10 | 1 << 11 | 1 << 16 | 1 << 17 | 1 << 20;

/// The last of the kinds that all readers of this version of the format know.
const LAST_KIND_AT_FIRST: Kind = Kind::CaptureEdge;

/// Places for threads, and as many for streams.
const PLACES: usize = 256;
/// Places for kernels; one for each kind follows them.
const KERNEL_ROWS: usize = 1024;

#[derive(Clone, Copy, Debug, Default)]
struct Thread {
    correlation: u64,
    end: u64,
    context: u32,
    stream: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Timeline {
    time_base: u32,
    end: i64,
    start_error: u32,
    seen: u64,
}

/// The previous value of each column, of one kernel or of one kind.
type Row = [u64; COLUMNS];

/// The coder: the columns of a chunk, and the memory of previous records.
#[derive(Debug)]
struct Coder<C> {
    columns: C,
    /// Those of kernels, and then those of kinds.
    rows: Vec<Row>,
    threads: Box<[Thread; PLACES]>,
    timelines: Box<[Timeline; PLACES]>,
    at: u64,
}

/// What codes one record: the columns of its kind, and what it is expected to be.
struct Fields<'a, C> {
    columns: &'a mut C,
    kind: u8,
    row: &'a mut Row,
    thread: &'a mut Thread,
    timelines: &'a mut [Timeline; PLACES],
    at: u64,
}

impl<C: Columns> Coder<C> {
    fn new(columns: C) -> Coder<C> {
        Coder {
            columns,
            rows: vec![[0; COLUMNS]; KERNEL_ROWS + KINDS],
            threads: Box::new([Thread::default(); PLACES]),
            timelines: Box::new([Timeline::default(); PLACES]),
            at: 0,
        }
    }

    /// The columns of a kind, and the memory of a row and of a thread.
    fn fields(&mut self, kind: Kind, row: usize, thread: usize) -> Fields<'_, C> {
        let Coder { columns, rows, threads, timelines, at } = self;
        let (row, thread) = (&mut rows[row], &mut threads[thread % PLACES]);
        Fields { columns, kind: kind as u8, row, thread, timelines, at: *at }
    }

    /// Codes a record's body and time. When reading, `body` must already have the right kind.
    fn record(&mut self, kind: Kind, record: &mut Record) -> Option<()> {
        let thread = record.thread as usize;
        let row = match &mut record.body {
            Body::Work(Work { what: What::Kernel { name, .. }, .. }) => {
                self.fields(kind, 0, thread).field(24, name, 0u64)?;
                row_of(*name)
            }
            Body::NodeTime(time) => {
                self.fields(kind, row_of_kind(kind), thread).node_time(time)?;
                row_of(time.kernel)
            }
            _ => row_of_kind(kind),
        };
        let mut fields = self.fields(kind, row, thread);
        let expected_at = match &mut record.body {
            Body::Work(work) => fields.work(work)?,
            Body::Alloc(alloc) => fields.alloc(alloc)?,
            Body::Free(free) => fields.free(free)?,
            Body::Synchronize(sync) => fields.synchronize(sync)?,
            Body::EventRecord(event) | Body::EventWait(event) => fields.event(event)?,
            Body::Api(api) => fields.api(api)?,
            Body::Context(context) => fields.context(context)?,
            Body::Stream(stream) => fields.stream(stream)?,
            Body::Graph(graph) => fields.graph(graph)?,
            Body::GraphNode(node) => fields.graph_node(node)?,
            Body::NodeTime(time) => {
                fields.gpu_time(time.context as usize, &mut time.gpu)?;
                time.gpu.seen
            }
            Body::ClockSample(sample) => fields.clock_sample(sample)?,
            Body::Window(window) => fields.window(window)?,
            Body::NvtxRange(range) => fields.range(range)?,
            Body::Module(module) => fields.module(module)?,
            Body::Device(device) => fields.device(device)?,
            Body::KernelFacts(facts) => fields.kernel_facts(facts)?,
            Body::Lookup(lookup) => fields.lookup(lookup)?,
            Body::CaptureEdge { begins } => {
                fields.same(24, begins)?;
                fields.at
            }
            Body::ThreadTime(time) => fields.thread_time(time)?,
            Body::Loss { cause, count } => {
                fields.same(24, cause)?;
                fields.field(25, count, 0u64)?;
                fields.at
            }
        };
        fields.field(0, &mut record.at, expected_at)?;
        fields.columns.next(kind as u8, Group::Record);
        // Readers of before do not decode later kinds.
        if kind <= LAST_KIND_AT_FIRST {
            self.at = record.at;
        }
        Some(())
    }

    /// Codes a GPU time without its launch. Its stream is unknown here, so all share one timeline.
    fn time(&mut self, correlation: &mut u64, time: &mut GpuTime) -> Option<()> {
        let mut fields = self.fields(Kind::GpuTime, row_of_kind(Kind::GpuTime), 0);
        let expected = fields.thread.correlation.wrapping_add(1);
        fields.field(1, correlation, expected)?;
        fields.thread.correlation = *correlation;
        fields.columns.next(Kind::GpuTime as u8, Group::Record);
        fields.gpu_time(0, time)
    }
}

/// The row of a kernel.
fn row_of(kernel: u32) -> usize {
    kernel as usize % KERNEL_ROWS
}

/// The row of a kind.
fn row_of_kind(kind: Kind) -> usize {
    KERNEL_ROWS + kind as usize
}

impl<C: Columns> Fields<'_, C> {
    /// Codes a field that is expected to be `expected`.
    #[inline(always)]
    fn field<T: Field>(&mut self, column: u8, value: &mut T, expected: impl Field) -> Option<()> {
        let word = self.columns.code(self.kind, column, value.word(), expected.word())?;
        *value = T::from_word(word)?;
        Some(())
    }

    /// Codes a field that is expected to be as it was in the previous record of the row.
    #[inline(always)]
    fn same<T: Field>(&mut self, column: u8, value: &mut T) -> Option<()> {
        self.field(column, value, self.row[usize::from(column)])?;
        self.row[usize::from(column)] = value.word();
        Some(())
    }

    /// The call without its end.
    fn entry(&mut self, call: &mut Call) -> Option<()> {
        let before = *self.thread;
        self.field(1, &mut call.correlation, before.correlation.wrapping_add(1))?;
        self.same(2, &mut call.api)?;
        self.same(3, &mut call.via)?;
        self.same(4, &mut call.flags)?;
        self.field(5, &mut call.begin, before.end)?;
        self.same(7, &mut call.caller)?;
        self.field(8, &mut call.context, before.context)?;
        self.same(22, &mut call.stack)
    }

    /// The call's end, which is also the expected time of the record.
    fn exit(&mut self, call: &mut Call, expected_end: u64) -> Option<u64> {
        self.field(6, &mut call.end, expected_end)?;
        let memory = &mut *self.thread;
        (memory.correlation, memory.end, memory.context) = (call.correlation, call.end, call.context);
        Some(call.end)
    }

    fn call(&mut self, call: &mut Call) -> Option<u64> {
        self.entry(call)?;
        self.exit(call, call.begin)
    }

    fn work(&mut self, work: &mut Work) -> Option<u64> {
        self.entry(&mut work.call)?;
        self.field(10, &mut work.lead, 0u64)?;
        self.field(11, &mut work.tail, 0u64)?;
        self.field(9, &mut work.submitted, work.call.begin.wrapping_add(work.lead))?;
        self.same(12, &mut work.untimed)?;
        self.field(13, &mut work.stream, self.thread.stream)?;
        self.thread.stream = work.stream;

        let mut timed = work.gpu.is_some();
        self.field(14, &mut timed, work.untimed == Untimed::Timed)?;
        let mut gpu = work.gpu.unwrap_or_default();
        work.gpu = if timed {
            self.gpu_time(work.stream as usize, &mut gpu)?;
            Some(gpu)
        } else {
            None
        };
        self.what(&mut work.what, &mut work.entered)?;
        self.exit(&mut work.call, work.submitted.wrapping_add(work.tail))
    }

    fn gpu_time(&mut self, timeline: usize, time: &mut GpuTime) -> Option<()> {
        let timeline = timeline % PLACES;
        let before = self.timelines[timeline];
        self.field(15, &mut time.time_base, before.time_base)?;
        self.field(16, &mut time.start, before.end)?;
        self.duration(&mut time.duration)?;
        self.field(18, &mut time.start_error, before.start_error)?;
        self.same(19, &mut time.duration_error)?;
        self.field(20, &mut time.seen, before.seen)?;
        self.same(21, &mut time.flags)?;
        self.field(23, &mut time.tail, 0u64)?;
        self.columns.next(self.kind, Group::GpuTime);
        self.timelines[timeline] = Timeline {
            time_base: time.time_base,
            end: time.start.wrapping_add_unsigned(time.duration),
            start_error: time.start_error,
            seen: time.seen,
        };
        Some(())
    }

    /// Codes a duration against a moving average. That takes half a bit less than the previous value, whose noise adds.
    fn duration(&mut self, duration: &mut u64) -> Option<()> {
        const COLUMN: u8 = 17;
        let average = self.row[usize::from(COLUMN)];
        self.field(COLUMN, duration, average)?;
        let surprise = duration.wrapping_sub(average) as i64;
        // The first duration becomes the average.
        let step = if average == 0 { surprise } else { surprise / 4 };
        self.row[usize::from(COLUMN)] = average.wrapping_add_signed(step);
        Some(())
    }

    fn what(&mut self, what: &mut What, entered: &mut u64) -> Option<()> {
        match what {
            What::Kernel { name: _, function, grid, block, shared_bytes, attributes, cluster } => {
                self.same(25, function)?;
                for (column, value) in (26..).zip(grid.iter_mut().chain(block)) {
                    self.same(column, value)?;
                }
                self.same(32, shared_bytes)?;
                self.same(33, attributes)?;
                for (column, value) in (34..).zip(cluster) {
                    self.same(column, value)?;
                }
                Some(())
            }
            What::Memcpy { direction, asynchronous, bytes, dst, src, rows, peer_context } => {
                self.same(24, direction)?;
                self.same(25, asynchronous)?;
                self.same(26, bytes)?;
                self.same(27, dst)?;
                self.same(28, src)?;
                self.same(29, rows)?;
                self.same(30, peer_context)?;
                self.field(31, entered, 0u64)
            }
            What::Memset { asynchronous, bytes, dst, value, element, rows } => {
                self.same(24, asynchronous)?;
                self.same(25, bytes)?;
                self.same(26, dst)?;
                self.same(27, value)?;
                self.same(28, element)?;
                self.same(29, rows)?;
                self.field(30, entered, 0u64)
            }
            What::Graph { graph, handle, kernels, copies, memsets } => {
                self.same(24, graph)?;
                self.same(25, handle)?;
                self.same(26, kernels)?;
                self.same(27, copies)?;
                self.same(28, memsets)
            }
            // Writers without these two columns knew only bursts, and of a burst's last launch only that it returned
            // before the end.
            What::Burst { launches, ordinary, closing } => {
                self.same(24, launches)?;
                self.field(25, ordinary, 0u32)?;
                self.field(26, closing, 0u64)
            }
        }
    }

    fn alloc(&mut self, alloc: &mut Alloc) -> Option<u64> {
        self.same(24, &mut alloc.memory)?;
        self.same(25, &mut alloc.address)?;
        self.same(26, &mut alloc.bytes)?;
        self.same(27, &mut alloc.stream)?;
        self.same(28, &mut alloc.pool)?;
        self.call(&mut alloc.call)
    }

    fn free(&mut self, free: &mut Free) -> Option<u64> {
        self.same(24, &mut free.memory)?;
        self.same(25, &mut free.address)?;
        self.same(26, &mut free.stream)?;
        self.same(27, &mut free.bytes)?;
        self.call(&mut free.call)
    }

    fn synchronize(&mut self, sync: &mut Synchronize) -> Option<u64> {
        self.same(24, &mut sync.scope)?;
        self.same(25, &mut sync.stream)?;
        self.same(26, &mut sync.event)?;
        self.call(&mut sync.call)
    }

    fn event(&mut self, event: &mut EventOp) -> Option<u64> {
        self.same(24, &mut event.stream)?;
        self.same(25, &mut event.event)?;
        self.same(26, &mut event.event_flags)?;
        self.call(&mut event.call)
    }

    fn api(&mut self, api: &mut Api) -> Option<u64> {
        self.same(24, &mut api.result)?;
        self.same(25, &mut api.subject)?;
        self.field(26, &mut api.calls, 1u32)?;
        self.field(27, &mut api.inside, 0u64)?;
        self.field(28, &mut api.entered, 0u64)?;
        self.call(&mut api.call)
    }

    fn context(&mut self, context: &mut Context) -> Option<u64> {
        self.same(24, &mut context.context)?;
        self.same(25, &mut context.device)?;
        self.same(26, &mut context.handle)?;
        self.same(27, &mut context.destroyed)?;
        Some(self.at)
    }

    fn stream(&mut self, stream: &mut Stream) -> Option<u64> {
        self.same(24, &mut stream.stream)?;
        self.same(25, &mut stream.handle)?;
        self.same(26, &mut stream.context)?;
        self.same(27, &mut stream.flags)?;
        self.same(28, &mut stream.priority)?;
        self.same(29, &mut stream.destroyed)?;
        Some(self.at)
    }

    fn graph(&mut self, graph: &mut Graph) -> Option<u64> {
        self.same(24, &mut graph.graph)?;
        self.same(25, &mut graph.handle)?;
        self.same(26, &mut graph.kernels)?;
        self.same(27, &mut graph.copies)?;
        self.same(28, &mut graph.memsets)?;
        self.same(29, &mut graph.others)?;
        Some(self.at)
    }

    fn graph_node(&mut self, node: &mut GraphNode) -> Option<u64> {
        self.same(24, &mut node.graph)?;
        self.same(25, &mut node.kind)?;
        self.same(26, &mut node.kernel)?;
        self.same(27, &mut node.count)?;
        self.same(28, &mut node.bytes)?;
        self.same(29, &mut node.address)?;
        Some(self.at)
    }

    /// The node without its time.
    fn node_time(&mut self, time: &mut NodeTime) -> Option<()> {
        self.same(24, &mut time.correlation)?;
        self.same(25, &mut time.context)?;
        self.same(26, &mut time.kernel)?;
        self.same(27, &mut time.node)
    }

    fn clock_sample(&mut self, sample: &mut ClockSample) -> Option<u64> {
        self.same(24, &mut sample.context)?;
        self.same(25, &mut sample.time_base)?;
        self.same(26, &mut sample.gpu)?;
        self.same(27, &mut sample.error)?;
        self.same(28, &mut sample.after)?;
        self.field(29, &mut sample.before, sample.after)?;
        Some(sample.before)
    }

    fn window(&mut self, window: &mut Window) -> Option<u64> {
        self.same(24, &mut window.change)?;
        self.same(25, &mut window.agent_ns)?;
        self.same(26, &mut window.poller_ns)?;
        self.same(27, &mut window.launches)?;
        Some(self.at)
    }

    fn range(&mut self, range: &mut NvtxRange) -> Option<u64> {
        self.same(24, &mut range.change)?;
        self.same(25, &mut range.id)?;
        self.same(26, &mut range.domain)?;
        self.same(27, &mut range.text)?;
        self.same(28, &mut range.category)?;
        self.same(29, &mut range.color)?;
        self.same(30, &mut range.payload)?;
        Some(self.at)
    }

    fn module(&mut self, module: &mut Module) -> Option<u64> {
        self.same(24, &mut module.start)?;
        self.same(25, &mut module.end)?;
        self.same(26, &mut module.bias)?;
        self.same(27, &mut module.path)?;
        for (column, part) in (28..).zip(module.build_id.chunks_mut(8)) {
            let mut word = [0; 8];
            word[..part.len()].copy_from_slice(part);
            let mut word = u64::from_le_bytes(word);
            self.same(column, &mut word)?;
            part.copy_from_slice(&word.to_le_bytes()[..part.len()]);
        }
        Some(self.at)
    }

    fn device(&mut self, device: &mut Device) -> Option<u64> {
        self.same(24, &mut device.ordinal)?;
        for (column, half) in (25..).zip(device.uuid.as_chunks_mut::<8>().0) {
            let mut word = u64::from_le_bytes(*half);
            self.same(column, &mut word)?;
            *half = word.to_le_bytes();
        }
        self.same(27, &mut device.memory_bytes)?;
        self.same(28, &mut device.multiprocessors)?;
        self.same(29, &mut device.capability)?;
        self.same(30, &mut device.warps_per_multiprocessor)?;
        Some(self.at)
    }

    fn kernel_facts(&mut self, facts: &mut KernelFacts) -> Option<u64> {
        self.same(24, &mut facts.function)?;
        self.same(25, &mut facts.module)?;
        self.same(26, &mut facts.origin)?;
        self.same(27, &mut facts.kernel)?;
        self.same(28, &mut facts.context)?;
        self.same(29, &mut facts.threads)?;
        self.same(30, &mut facts.shared_bytes)?;
        self.same(31, &mut facts.static_shared_bytes)?;
        self.same(32, &mut facts.local_bytes)?;
        self.same(33, &mut facts.registers)?;
        self.same(34, &mut facts.blocks_per_multiprocessor)?;
        self.same(35, &mut facts.max_threads)?;
        Some(self.at)
    }

    fn lookup(&mut self, lookup: &mut Lookup) -> Option<u64> {
        self.same(24, &mut lookup.function)?;
        self.same(25, &mut lookup.count)?;
        Some(self.at)
    }

    fn thread_time(&mut self, time: &mut ThreadTime) -> Option<u64> {
        self.same(24, &mut time.ran)?;
        self.same(25, &mut time.queued)?;
        self.same(26, &mut time.late)?;
        Some(self.at)
    }
}

/// Fills the columns of one chunk.
#[derive(Debug)]
pub struct Encoder(Coder<ColumnWriter>);

impl Default for Encoder {
    fn default() -> Self {
        Encoder(Coder::new(ColumnWriter::new(TIMES)))
    }
}

impl Coder<ColumnWriter> {
    /// Writes what the columns of all records say of the next one.
    fn begin(&mut self, kind: u8, thread: u32) {
        self.columns.set(0, 0, kind.into());
        self.columns.set(0, 1, thread.into());
        self.columns.next(0, Group::Record);
    }
}

impl Encoder {
    /// Adds a record, which stays as it is: the description that writing shares with reading takes `&mut`, and puts each
    /// field back.
    pub fn record(&mut self, record: &mut Record) {
        let kind = kind_of(&record.body);
        self.0.begin(kind as u8, record.thread);
        // Writing never fails.
        let _always = self.0.record(kind, record);
    }

    /// Adds a GPU time to a Times chunk.
    pub fn time(&mut self, correlation: u64, time: &GpuTime) {
        let _always = self.0.time(&mut { correlation }, &mut { *time });
    }

    /// Returns the payload, its flags, and its size before compression in bytes.
    ///
    /// # Errors
    /// See [`ColumnWriter::pack`].
    pub fn pack(self) -> io::Result<(Vec<u8>, u16, u32)> {
        self.0.columns.pack()
    }
}

/// The columns do not contain what the chunk's header promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Invalid;

/// Takes records out of the columns of one chunk.
#[derive(Debug)]
pub struct Decoder(Coder<ColumnReader>);

impl Decoder {
    /// Starts reading columns.
    pub fn new(columns: ColumnReader) -> Decoder {
        Decoder(Coder::new(columns))
    }

    /// Reads the next record in place of another; returns `false` if this version does not know its kind. Every field is
    /// read, so a body of the same kind can stay.
    ///
    /// # Errors
    /// Returns [`Invalid`] for this and all further records.
    pub fn record(&mut self, record: &mut Record) -> Result<bool, Invalid> {
        let kind = self.0.columns.take(0, 0).ok_or(Invalid)?;
        let thread = self.0.columns.take(0, 1).ok_or(Invalid)?;
        record.thread = u32::try_from(thread).map_err(|_| Invalid)?;
        let Some(kind) = u8::try_from(kind).ok().and_then(Kind::from_wire) else { return Ok(false) };
        if kind_of(&record.body) != kind {
            let Some(body) = blank(kind) else { return Ok(false) };
            record.body = body;
        }
        self.0.record(kind, record).ok_or(Invalid)?;
        Ok(true)
    }

    /// Returns the next GPU time with its operation's correlation.
    ///
    /// # Errors
    /// Returns [`Invalid`] for this and all further times.
    pub fn time(&mut self) -> Result<(u64, GpuTime), Invalid> {
        let (mut correlation, mut time) = (0, GpuTime::default());
        self.0.time(&mut correlation, &mut time).ok_or(Invalid)?;
        Ok((correlation, time))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoder(encoder: Encoder, entries: u32) -> Decoder {
        let (payload, _, plain_bytes) = encoder.pack().unwrap();
        let plain = zstd::bulk::decompress(&payload, plain_bytes as usize).unwrap();
        Decoder::new(ColumnReader::new(plain, entries).unwrap())
    }

    /// The next record, read in place of one of another kind.
    fn next(decoder: &mut Decoder) -> Result<Option<Record>, Invalid> {
        let mut record = Record { thread: 0, at: 0, body: Body::CaptureEdge { begins: true } };
        Ok(decoder.record(&mut record)?.then_some(record))
    }

    fn loss(at: u64) -> Record {
        Record { thread: 3, at, body: Body::Loss { cause: LossCause::NoSlot, count: 2 } }
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri does not run zstd, which is written in C")]
    fn records_of_unknown_kinds_are_skipped() {
        let mut encoder = Encoder::default();
        encoder.record(&mut loss(10));
        for kind in [31, 200, Kind::Anchor as u8] {
            encoder.0.begin(kind, 3);
            encoder.0.columns.set(31, 0, 12345);
            encoder.0.columns.next(31, Group::Record);
        }
        encoder.record(&mut loss(20));
        let mut decoder = decoder(encoder, 5);
        let read: Vec<_> = (0..5).map(|_| next(&mut decoder).unwrap()).collect();
        assert_eq!(read, [Some(loss(10)), None, None, None, Some(loss(20))]);
        assert_eq!(next(&mut decoder), Err(Invalid), "there are no more");
    }

    /// A reader of before thread times were written sees a kind that it does not know.
    #[test]
    fn a_reader_that_does_not_know_thread_times_reads_all_else() {
        let mut encoder = Encoder::default();
        encoder.record(&mut loss(10));
        let body = Body::ThreadTime(ThreadTime { ran: 5, queued: 6, late: 7 });
        encoder.0.begin(31, 4);
        encoder.0.record(Kind::ThreadTime, &mut Record { thread: 4, at: 15, body }).unwrap();
        encoder.record(&mut loss(20));
        let mut decoder = decoder(encoder, 3);
        let read: Vec<_> = (0..3).map(|_| next(&mut decoder).unwrap()).collect();
        assert_eq!(read, [Some(loss(10)), None, Some(loss(20))]);
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri does not run zstd, which is written in C")]
    fn a_value_that_its_field_cannot_have_is_invalid() {
        for (column, value) in [(24, 77), (24, u64::MAX)] {
            let mut encoder = Encoder::default();
            encoder.0.begin(Kind::Loss as u8, 0);
            encoder.0.columns.set(Kind::Loss as u8, column, value);
            encoder.0.columns.next(Kind::Loss as u8, Group::Record);
            assert_eq!(next(&mut decoder(encoder, 1)), Err(Invalid));
        }
    }

    #[test]
    fn every_kind_has_a_blank_body() {
        for kind in Kind::ALL {
            let no_record = matches!(
                kind,
                Kind::GpuTime | Kind::Intern | Kind::Anchor | Kind::Code | Kind::CodePart | Kind::Stack
            );
            match blank(*kind) {
                Some(body) => assert_eq!(kind_of(&body), *kind),
                None => assert!(no_record, "{kind:?}"),
            }
        }
    }
}
