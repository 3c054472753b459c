//! What would the trace of a training-like program contain? Generated records with a known truth, for tests and
//! benchmarks.
//!
//! Each thread runs iterations on a stream of its own: a fixed sequence of kernel launches, occasionally a copy, a
//! memset or a temporary allocation, and at the end a wait for the stream. The host is ahead of the GPU, so kernels
//! mostly run back to back, and the GPU drains around the wait. Each launch has the steps of a timed launch: hook,
//! start event, launch, end event, return. All noise is Gaussian and independent.
//!
//! Threads do not interact. Records come in the order of `at`.

mod preamble;
mod ranks;
mod truth;
mod write;

use super::record::*;
use super::rounding;
use gpuspy_wire::record::{Direction, Memory, Namespace, SyncScope, Untimed, Via, flag};
use preamble::preamble;
pub use ranks::{Rank, Ranks, write_ranks};
use std::collections::{BTreeMap, VecDeque};
use truth::Class;
pub use truth::{Held, Kind, Lengths, Moved, Parts, Truth};
pub use write::{SESSION, write_idle_window, write_trace};

/// A small random number generator: SplitMix64 (Steele, Lea and Flood, OOPSLA 2014), whose whole state is a counter.
#[derive(Clone, Debug)]
pub struct Random(pub u64);

impl Random {
    /// Returns the next 64 bits.
    pub fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number in `[0, 1)`.
    pub fn unit(&mut self) -> f64 {
        (self.word() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Returns a number in `0..below`.
    pub fn below(&mut self, below: u64) -> u64 {
        ((u128::from(self.word()) * u128::from(below)) >> 64) as u64
    }

    /// Returns the sum of twelve uniform numbers: Gaussian except for its tails, with mean 0 and standard deviation 1.
    pub fn gauss(&mut self) -> f64 {
        (0..12).map(|_| self.unit()).sum::<f64>() - 6.0
    }

    /// Returns `mean` with a relative standard deviation of `jitter`, in whole ns, at least 1.
    fn around(&mut self, mean: f64, jitter: f64) -> u64 {
        (mean * (1.0 + jitter * self.gauss())).max(1.0) as u64
    }
}

/// The properties of the program. Times are in ns.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Kernels per iteration, each with a name of its own.
    pub kernels: u32,
    /// The number of threads, each with a stream.
    pub threads: u32,
    /// One in this many kernels moves data between GPUs; 0 = none.
    pub communication: u32,
    /// Iterations between two waits for the GPU.
    pub iterations_per_wait: u32,
    /// Whether there are copies, memsets, allocations, frees and event records in addition to launches and waits.
    pub other_calls: bool,
    /// Relative standard deviation of all host times.
    pub host_jitter: f64,
    /// Relative standard deviation of all GPU times.
    pub gpu_jitter: f64,
    /// The program's own time between two calls.
    pub between_calls: f64,
    /// Hook time before the timed part, and as much after it.
    pub overhead: f64,
    /// From the start event's record to the launch's return.
    pub lead: f64,
    /// From the launch's return to the return of the end event's record.
    pub tail: f64,
    /// Lengths of the shortest and the longest kernel; most are short and a few long, as in training.
    pub kernel: (f64, f64),
    /// From one operation's end event to the next one's start event on a busy stream.
    pub gpu_gap: f64,
    /// The poller's sleep between two rounds.
    pub poll_interval: f64,
    /// The poller's time per GPU time that it reads, each of which gets its own `seen`. 0: all of a round share one.
    pub poll_step: f64,
    /// Its place in a job, whose ranks wait for each other in their communication kernels.
    pub rank: Option<Rank>,
}

impl Default for Options {
    /// 120 kernels of 3 to 60 µs, launched every 6 µs, with a wait per iteration; host jitter 15 %, GPU jitter 2 %.
    fn default() -> Self {
        Options {
            kernels: 120,
            threads: 1,
            communication: 0,
            iterations_per_wait: 1,
            other_calls: false,
            host_jitter: 0.15,
            gpu_jitter: 0.02,
            between_calls: 850.0,
            overhead: 75.0,
            lead: 4_000.0,
            tail: 1_000.0,
            kernel: (3_000.0, 60_000.0),
            gpu_gap: 1_000.0,
            poll_interval: 100_000.0,
            poll_step: 0.0,
            rank: None,
        }
    }
}

/// How an operation really ran, in ns of the host's clock.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Ran {
    class: Class,
    /// When it was at the head of its stream and the GPU started it.
    begun: u64,
    /// When it was over.
    done: u64,
    /// When its start event and its end event fired.
    events: (u64, u64),
}

/// The truth about a record that the record itself does not contain.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Hidden {
    Nothing,
    Ran(Ran),
    Freed(u64),
}

/// The properties that all launches of a kernel share.
#[derive(Clone, Copy, Debug)]
struct Kernel {
    nanoseconds: f64,
    /// How often it was launched.
    launches: u64,
    function: u64,
    caller: u64,
    grid: [u32; 3],
    block: [u32; 3],
    shared_bytes: u32,
}

/// One thread and its stream.
#[derive(Clone, Debug)]
struct Lane {
    thread: u32,
    /// The number of calls made.
    calls: u64,
    /// The host's present time.
    now: u64,
    /// Host time of the stream's last end event; 0 = none yet.
    gpu_end: u64,
    /// Whether one operation has followed another sooner than all others do, so that their gaps are not taken for what an event
    /// costs.
    has_short_gap: bool,
    /// Time of the poller's present round, and the last `seen`.
    round: u64,
    seen: u64,
    /// The number of the iteration's next step.
    step: u32,
    /// The present temporary allocation: address and size.
    allocated: Option<(u64, u64)>,
    /// A free whose call has not ended yet.
    freeing: Option<Call>,
}

/// An endless iterator of records.
#[derive(Clone, Debug)]
pub struct Generator {
    options: Options,
    random: Random,
    kernels: Vec<Kernel>,
    lanes: Vec<Lane>,
    /// Records before all calls of the lanes.
    first: VecDeque<Record>,
    /// Each lane's next record, ordered by its `at` and the lane's number.
    next: BTreeMap<(u64, usize), (Record, Hidden)>,
    truth: Truth,
}

const CONTEXT: u32 = 1;
/// The GPU's clock minus the host's, ns.
const GPU_CLOCK: i64 = -7_000_000_000;
/// Host time of the first call, ns.
const BEGAN: u64 = 86_400_000_000_000;
const LATENCY: u64 = 2_000;
/// Return address of calls other than launches.
const CALLER: u64 = 0x7f00_0020_0000;
const API_LAUNCH: u16 = 1;
const API_COPY: u16 = 2;
const API_MALLOC: u16 = 3;
const API_FREE: u16 = 4;
const API_WAIT: u16 = 5;
const API_EVENT: u16 = 6;
const API_HOST_MALLOC: u16 = 7;
const API_SET: u16 = 8;
const API_NAMES: [&str; 8] = [
    "cudaLaunchKernel",
    "cudaMemcpyAsync",
    "cudaMalloc",
    "cudaFree",
    "cudaStreamSynchronize",
    "cudaEventRecord",
    "cudaHostAlloc",
    "cudaMemsetAsync",
];
/// The block of pinned memory on one side of all copies, and the device block on the other side.
const HOST_BLOCK: u64 = 0x6e00_0000_0000;
const DEVICE_BLOCK: u64 = 0x7e00_0000_0000;

impl Generator {
    /// Makes a generator; the same seed and options give the same records.
    pub fn new(seed: u64, options: Options) -> Generator {
        let mut random = Random(seed);
        let (shortest, longest) = options.kernel;
        let kernels = (0..options.kernels.max(1)).map(|_| Kernel {
            nanoseconds: shortest * (longest / shortest).powf(random.unit().powi(3)),
            launches: 0,
            function: 0x5555_0000_0000 + random.below(1 << 20) * 16,
            caller: 0x7f00_0000_0000 + random.below(1 << 24),
            grid: [1 + random.below(4096) as u32, 1 + random.below(4) as u32, 1],
            block: [32 << random.below(6), 1, 1],
            shared_bytes: random.below(48) as u32 * 1024,
        });
        let kernels = kernels.collect();
        // The ranks of a job launch the same kernels, and each has noise of its own.
        if let Some(rank) = options.rank {
            random.0 ^= rank.noise();
        }
        let lane = |thread| Lane {
            thread,
            calls: 0,
            now: BEGAN + u64::from(thread) * 1_234,
            gpu_end: 0,
            has_short_gap: false,
            round: BEGAN,
            seen: 0,
            step: 0,
            allocated: None,
            freeing: None,
        };
        let lanes: Vec<Lane> = (0..options.threads.max(1)).map(lane).collect();
        let mut generator = Generator {
            options,
            random,
            kernels,
            first: preamble(lanes.len() as u32, options.rank.map_or([0x47; 16], |rank| rank.gpu())).into(),
            lanes,
            next: BTreeMap::new(),
            truth: Truth::default(),
        };
        for lane in 0..generator.lanes.len() {
            generator.prepare(lane);
        }
        generator
    }

    /// The names that the records refer to.
    pub fn names(&self) -> Vec<(Namespace, u32, String)> {
        let kernel = |(id, kernel): (u32, &Kernel)| {
            let text = match self.communicates(id) {
                true => format!("ncclDevKernel_AllReduce_Sum_f32_RING_LL_{id}"),
                false => format!("_ZN5model5layerILi{id}EEvPKfPfi_{}ns", kernel.nanoseconds as u64),
            };
            (Namespace::Kernel, id, text)
        };
        let apis = (1..).zip(API_NAMES).map(|(id, name)| (Namespace::Api, id, name.to_string()));
        (1..).zip(&self.kernels).map(kernel).chain(apis).collect()
    }

    /// The truth about the records returned so far.
    pub fn truth(&self) -> &Truth {
        &self.truth
    }

    /// Whether a kernel moves data between GPUs.
    fn communicates(&self, name: u32) -> bool {
        self.options.communication > 0 && name.is_multiple_of(self.options.communication)
    }

    /// Generates a lane's next record.
    fn prepare(&mut self, lane: usize) {
        let (mut record, behind) = self.step(lane);
        rounding::round(&mut record);
        self.next.insert((record.at, lane), (record, behind));
    }

    fn step(&mut self, lane: usize) -> (Record, Hidden) {
        if let Some(call) = self.lanes[lane].freeing.take() {
            return (self.freed(lane, call), Hidden::Nothing);
        }
        let kernels = self.kernels.len() as u32;
        let step = self.lanes[lane].step;
        let last = kernels * self.options.iterations_per_wait.max(1);
        self.lanes[lane].step += 1;
        if self.options.other_calls && self.random.below(8) == 0 {
            self.lanes[lane].step = step;
            return self.other(lane);
        }
        if step == last {
            self.lanes[lane].step = 0;
            return (self.wait(lane), Hidden::Nothing);
        }
        self.launch(lane, step % kernels)
    }

    fn host(&mut self, mean: f64) -> u64 {
        self.random.around(mean, self.options.host_jitter)
    }

    /// Enters a call after the program's own time.
    fn enter(&mut self, lane: usize, api: u16, caller: u64, via: Via) -> Call {
        let between = self.host(self.options.between_calls);
        let lane = &mut self.lanes[lane];
        lane.calls += 1;
        lane.now += between;
        Call {
            correlation: (u64::from(lane.thread) << 40) | lane.calls,
            api,
            via: Some(via),
            flags: 0,
            begin: lane.now,
            end: 0,
            caller,
            context: CONTEXT,
            stack: 0,
        }
    }

    /// Leaves a call.
    fn leave(&mut self, lane: usize, mut call: Call, end: u64, body: impl FnOnce(Call) -> Body) -> Record {
        let lane = &mut self.lanes[lane];
        lane.now = end;
        call.end = end;
        Record { thread: lane.thread, at: end, body: body(call) }
    }

    /// A timed operation of `nanoseconds` on the lane's stream.
    fn work(&mut self, lane: usize, call: Call, nanoseconds: f64, what: What) -> (Record, Hidden) {
        let o = self.options;
        let start_record = call.begin + self.host(o.overhead);
        let lead = self.host(o.lead);
        let tail = self.host(o.tail);
        let submitted = start_record + lead;
        let end_record = submitted + tail;
        let end = end_record + self.host(o.overhead);

        let previous_end = self.lanes[lane].gpu_end;
        let gap = self.random.around(o.gpu_gap, o.gpu_jitter);
        let follows = start_record + LATENCY <= previous_end;
        let gap = if follows && !self.lanes[lane].has_short_gap { gap * 4 / 5 } else { gap };
        self.lanes[lane].has_short_gap |= follows;
        let start = (start_record + LATENCY).max(previous_end + gap);
        // The ranks of a job wait for each other in a collective, and end it together.
        let (comes, ends) = self.meeting(&what).unwrap_or_default();
        let start = start.max(comes);
        let begun = start.max(submitted + LATENCY);
        let done = (begun + self.random.around(nanoseconds, o.gpu_jitter)).max(ends);
        let finish = done.max(end_record + LATENCY);
        self.lanes[lane].gpu_end = finish;
        let gpu = GpuTime {
            time_base: 1,
            start: start as i64 + GPU_CLOCK,
            duration: finish - start,
            start_error: 2,
            // Distances below 9 ms are exact to the ns.
            duration_error: 0,
            seen: self.seen(lane, finish),
            flags: 0,
            tail: 0,
        };
        let class = match what {
            What::Kernel { name, .. } if self.communicates(name) => Class::Communication,
            What::Kernel { .. } => Class::Compute,
            _ => Class::Transfer,
        };
        let stream = stream_of(self.lanes[lane].thread);
        let record = self.leave(lane, call, end, |call| {
            Body::Work(Work {
                call,
                submitted,
                entered: 0,
                lead,
                tail,
                untimed: Untimed::Timed,
                stream,
                gpu: Some(gpu),
                what,
            })
        });
        (record, Hidden::Ran(Ran { class, begun, done, events: (start, finish) }))
    }

    /// When the poller observes an event that fired at `finish` to be complete.
    fn seen(&mut self, lane: usize, finish: u64) -> u64 {
        if self.lanes[lane].round < finish {
            while self.lanes[lane].round < finish {
                self.lanes[lane].round += self.host(self.options.poll_interval);
            }
            self.lanes[lane].seen = self.lanes[lane].round;
        } else if self.options.poll_step > 0.0 {
            self.lanes[lane].seen += self.host(self.options.poll_step);
        }
        self.lanes[lane].seen
    }

    fn launch(&mut self, lane: usize, index: u32) -> (Record, Hidden) {
        let kernel = self.kernels[index as usize];
        self.kernels[index as usize].launches += 1;
        let nanoseconds = match self.options.rank {
            Some(_) if self.communicates(index + 1) => 1.0,
            Some(rank) => kernel.nanoseconds * rank.slowness(),
            None => kernel.nanoseconds,
        };
        let call = self.enter(lane, API_LAUNCH, kernel.caller, Via::RuntimeDriver);
        let what = What::Kernel {
            name: index + 1,
            function: kernel.function,
            grid: kernel.grid,
            block: kernel.block,
            shared_bytes: kernel.shared_bytes,
            attributes: 0,
            cluster: [0; 3],
        };
        self.work(lane, call, nanoseconds, what)
    }

    /// When a rank of a job comes to the collective that is launched, and when all of them leave it, ns.
    fn meeting(&self, what: &What) -> Option<(u64, u64)> {
        let (rank, What::Kernel { name, .. }) = (self.options.rank?, what) else { return None };
        let kernel = &self.kernels[*name as usize - 1];
        let in_iteration = self.kernels.len() as u64 / u64::from(self.options.communication.max(1));
        let at = u64::from(name / self.options.communication.max(1)) + in_iteration * (kernel.launches - 1);
        self.communicates(*name).then(|| rank.meeting(at, kernel.nanoseconds as u64))
    }

    fn wait(&mut self, lane: usize) -> Record {
        let mut call = self.enter(lane, API_WAIT, 0x7f00_0010_0000, Via::Runtime);
        call.flags = flag::BLOCKING;
        let returned = self.lanes[lane].gpu_end.max(call.begin) + self.host(5_000.0);
        let stream = stream_of(self.lanes[lane].thread);
        self.leave(lane, call, returned, |call| {
            Body::Synchronize(Synchronize { call, scope: SyncScope::Stream, stream, event: 0 })
        })
    }

    /// A transfer, an allocation or its free, or an event record.
    fn other(&mut self, lane: usize) -> (Record, Hidden) {
        match (self.random.below(4), self.lanes[lane].allocated.take()) {
            (0, allocated) => {
                self.lanes[lane].allocated = allocated;
                self.transfer(lane)
            }
            (1, allocated) => {
                self.lanes[lane].allocated = allocated;
                (self.event(lane), Hidden::Nothing)
            }
            (_, None) => (self.allocate(lane), Hidden::Nothing),
            (_, Some((address, bytes))) => (self.free(lane, address), Hidden::Freed(bytes)),
        }
    }

    fn transfer(&mut self, lane: usize) -> (Record, Hidden) {
        let bytes = 4096 << self.random.below(8);
        let copy = |direction, dst, src| What::Memcpy {
            direction,
            asynchronous: true,
            bytes,
            dst,
            src,
            rows: 1,
            peer_context: 0,
        };
        let (api, what) = match self.random.below(4) {
            0 => (
                API_SET,
                What::Memset { asynchronous: true, bytes, dst: DEVICE_BLOCK, value: 0, element: 4, rows: 1 },
            ),
            1 => (API_COPY, copy(Direction::DtoH, HOST_BLOCK, DEVICE_BLOCK)),
            _ => (API_COPY, copy(Direction::HtoD, DEVICE_BLOCK, HOST_BLOCK)),
        };
        let call = self.enter(lane, api, CALLER, Via::RuntimeDriver);
        self.work(lane, call, bytes as f64 / 20.0, what)
    }

    fn event(&mut self, lane: usize) -> Record {
        let call = self.enter(lane, API_EVENT, CALLER, Via::RuntimeDriver);
        let end = call.begin + self.host(1_000.0);
        let stream = stream_of(self.lanes[lane].thread);
        let event = 0x5555_1000_0000 + stream;
        self.leave(lane, call, end, |call| Body::EventRecord(EventOp { call, stream, event, event_flags: 0 }))
    }

    fn allocate(&mut self, lane: usize) -> Record {
        let call = self.enter(lane, API_MALLOC, CALLER, Via::RuntimeDriver);
        let end = call.begin + self.host(50_000.0);
        // Allocations are 2 MiB apart, and no two lanes share one.
        let place = (u64::from(self.lanes[lane].thread) << 16) + self.random.below(1 << 16);
        let (address, bytes) = (DEVICE_BLOCK + (1 << 32) + (place << 21), 1 + self.random.below(1 << 21));
        self.lanes[lane].allocated = Some((address, bytes));
        self.leave(lane, call, end, |call| {
            Body::Alloc(Alloc { call, memory: Memory::Device, address, bytes, stream: 0, pool: 0 })
        })
    }

    /// A free is published before its call; the end of the call has a record of its own.
    fn free(&mut self, lane: usize, address: u64) -> Record {
        let call = self.enter(lane, API_FREE, CALLER, Via::RuntimeDriver);
        self.lanes[lane].freeing = Some(call);
        self.leave(lane, call, call.begin, |call| {
            Body::Free(Free { call, memory: Memory::Device, address, stream: 0, bytes: 0 })
        })
    }

    fn freed(&mut self, lane: usize, call: Call) -> Record {
        let end = call.begin + self.host(20_000.0);
        self.leave(lane, call, end, |call| {
            Body::Api(Api { call, result: 0, subject: 0, calls: 1, inside: 0, entered: 0 })
        })
    }
}

impl Iterator for Generator {
    type Item = Record;

    fn next(&mut self) -> Option<Record> {
        if let Some(record) = self.first.pop_front() {
            self.truth.count(&record, None, 0);
            return Some(record);
        }
        let ((_, lane), (record, hidden)) = self.next.pop_first()?;
        self.prepare(lane);
        let ran = match hidden {
            Hidden::Ran(ran) => Some(ran),
            Hidden::Freed(bytes) => {
                self.truth.freed(Memory::Device, bytes);
                None
            }
            Hidden::Nothing => None,
        };
        self.truth.count(&record, ran.as_ref(), self.lanes.len());
        Some(record)
    }
}

/// The stream of a thread.
fn stream_of(thread: u32) -> u64 {
    u64::from(thread) + 7
}
