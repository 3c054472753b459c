//! A small analytic GPU for tests: what would the trace of operations with a known truth contain?
//!
//! There is one stream. A call takes host time and reaches the GPU when it ends: recording an event takes 1 µs, a
//! launch 3 µs. An event or a kernel begins when it has been submitted and everything before it on the stream is
//! over. The GPU's clock has an offset and a drift against the host's.

use super::clocks::Clocks;
use super::gpu_interval::{Basis, GpuInterval, Length};
use super::stacks::Caller;
use super::survey::Survey;
use super::{Action, Operation, Reason, When};
use crate::trace::record::{Body, Call, GpuTime, Record, What, Work};
use gpuspy_wire::record::Untimed;

/// Host cost of recording an event, ns.
const RECORD: i64 = 1_000;
/// Host cost of a launch, ns.
const LAUNCH: i64 = 3_000;

/// How the host feeds the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// The stream is empty at every launch.
    Drained,
    /// The host is always ahead, because the first operation is long.
    Queued,
    /// Bursts, pauses, and calls that sometimes take longer.
    Mixed,
}

/// One operation: its record and its truth.
pub struct Truth {
    /// The record in the trace.
    pub work: Work,
    /// The GPU time in the trace.
    pub gpu: GpuTime,
    /// When its GPU interval began, host ns.
    pub began: i64,
    /// The length of its GPU interval, ns.
    pub duration: u64,
}

/// The GPU and its host.
pub struct Simulation {
    offset: i64,
    drift_ppm: i64,
    now: i64,
    stream_free: i64,
    random: u64,
}

impl Simulation {
    pub fn new(offset: i64, drift_ppm: i64) -> Self {
        Simulation { offset, drift_ppm, now: 100_000_000_000, stream_free: 0, random: 0x9e37_79b9_7f4a_7c15 }
    }

    /// Runs `count` kernels with durations from `kernels` (ns).
    pub fn run(&mut self, load: Load, count: usize, kernels: std::ops::Range<i64>) -> Vec<Truth> {
        if load == Load::Queued {
            self.stream_free = self.now + 200_000;
        }
        (0..count)
            .map(|_| {
                let duration = self.pick(kernels.clone());
                let truth = self.operation(duration, load == Load::Mixed);
                match load {
                    Load::Drained => self.now = self.now.max(self.stream_free) + self.pick(500..30_000),
                    Load::Mixed if self.pick(0..20) == 0 => self.now += self.pick(1..400_000),
                    // A launch queue is finite: the host waits when it is 2 ms ahead.
                    _ => self.now = self.now.max(self.stream_free - 2_000_000),
                }
                truth
            })
            .collect()
    }

    fn operation(&mut self, duration: i64, jitter: bool) -> Truth {
        let begin = self.now;
        let start_event = self.event(jitter);
        self.now += LAUNCH + self.jitter(jitter, 2_000);
        let submitted = self.now;
        let start = submitted.max(self.stream_free);
        self.stream_free = start + duration;
        let end_event = self.event(jitter);
        let (g_s, g_e) = (self.gpu(start_event), self.gpu(end_event));
        let mut work = work(submitted as u64, (submitted - begin) as u64, (self.now - submitted) as u64);
        work.call.begin = begin as u64;
        let gpu = GpuTime {
            time_base: 1,
            start: g_s,
            duration: (g_e - g_s) as u64,
            seen: (end_event.max(self.now) + 40_000) as u64,
            duration_error: 1,
            ..GpuTime::default()
        };
        let (s, e) = (self.gpu(start), self.gpu(start + duration));
        Truth { work, gpu, began: start, duration: (e - s) as u64 }
    }

    /// Records an event and returns the host time at which it fires.
    fn event(&mut self, jitter: bool) -> i64 {
        self.now += RECORD + self.jitter(jitter, 300);
        self.stream_free = self.stream_free.max(self.now);
        self.stream_free
    }

    fn jitter(&mut self, on: bool, most: i64) -> i64 {
        if on && self.pick(0..10) == 0 { self.pick(0..most) } else { 0 }
    }

    fn gpu(&self, host: i64) -> i64 {
        host + self.offset + host * self.drift_ppm / 1_000_000
    }

    /// Picks a number by xorshift64: uniform enough, and the same in every run.
    fn pick(&mut self, range: std::ops::Range<i64>) -> i64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        range.start + (self.random % (range.end - range.start) as u64) as i64
    }
}

/// The clocks that a survey of these operations gives.
pub fn survey(truths: &[Truth]) -> Clocks {
    let records = truths.iter().map(|truth| {
        let work = Work { gpu: Some(truth.gpu), ..truth.work.clone() };
        Record { thread: 1, at: work.call.end, body: Body::Work(work) }
    });
    Survey::of(records)
}

/// A kernel launch with the given host times, whose call begins with its start event's record.
pub fn work(submitted: u64, lead: u64, tail: u64) -> Work {
    Work {
        call: Call {
            begin: submitted.saturating_sub(lead),
            end: submitted.saturating_add(tail),
            context: 1,
            ..Call::default()
        },
        submitted,
        entered: 0,
        lead,
        tail,
        untimed: Untimed::Timed,
        stream: 7,
        gpu: None,
        what: What::Kernel {
            name: 1,
            function: 0,
            grid: [1; 3],
            block: [1; 3],
            shared_bytes: 0,
            attributes: 0,
            cluster: [0; 3],
        },
    }
}

/// A GPU interval that is known to the ns.
pub fn exactly(start: i64, end: i64) -> GpuInterval {
    let ns = end.abs_diff(start);
    GpuInterval {
        time_base: 1,
        earliest_start: start,
        latest_start: start,
        earliest_end: end,
        latest_end: end,
        busy_from: start,
        starved: 0,
        start,
        end,
        length: Length { lo: ns, value: ns, hi: ns },
        basis: Basis::Proven,
        raw: ns,
        clock_half_width: None,
        off_by: Some(0),
    }
}

/// An operation of device 0 and stream 7 that was called between two host times and ran at an unknown time.
pub fn operation(what: Action, (called, returned): (u64, u64)) -> Operation {
    Operation {
        correlation: 1,
        context: 1,
        device: Some(0),
        stream: 7,
        caller: Caller::default(),
        called,
        returned,
        what,
        when: When::Untimed { reason: Reason::Untimed(Untimed::DeepQueue), after: None },
    }
}
