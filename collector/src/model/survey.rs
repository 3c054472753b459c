//! What does the first pass over a trace learn? The clocks, typical lengths of operations, and what begins a step, from
//! all of its records.
//!
//! A fold from records to [`Clocks`]. It keeps a few numbers per second and time base, and a small sample of each
//! kind of operation, however many operations there are. The [`Model`](super::Model) reads the trace a second time
//! and places operations by the result. The test `after_three_hours_the_clocks_are_as_precise_as_at_first` checks
//! both.

use super::callers::CallerFold;
use super::clocks::Clocks;
use super::gpu_clock::Bounds;
use super::gpu_interval::{self, host};
use super::period::CaptureRanges;
use super::steps::Finder;
use super::streams::Streams;
use super::thread_times::ThreadTimesFold;
use super::typical::{Lengths, Prior};
use crate::hash::HashMap;
use crate::trace::record::{Body, ClockSample, GpuTime, Names, Record, Synchronize, What, Work};
use gpuspy_wire::record::{SyncScope, Untimed, flag};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Arc;

/// The state of the first pass.
#[derive(Debug, Default)]
pub struct Survey {
    devices: HashMap<u32, u32>,
    time_bases: BTreeMap<(u32, u32), Bounds>,
    /// By context.
    ends: HashMap<u32, StreamEnds>,
    /// Host ns of the earliest call or range, and of the first record.
    earliest: Option<u64>,
    first: Option<u64>,
    /// Host ns of the latest record, or GPU time.
    latest: u64,
    capture_ranges: CaptureRanges,
    streams: Streams,
    bursts: HashMap<(u32, u64), u64>,
    lengths: Lengths,
    steps: Finder,
    thread_times: ThreadTimesFold,
    prior: Prior,
    callers: CallerFold,
}

/// The stream id under which the last operations of destroyed streams are kept. No stream has it: ids count up from
/// 1, and handles are addresses.
const ORPHANS: u64 = u64::MAX;

/// The last timed operation of a stream.
#[derive(Clone, Copy, Debug)]
struct StreamEnd {
    time_base: u32,
    /// The end event's stamp and its error.
    stamp: i64,
    error: i64,
    /// Host ns at which its call returned.
    returned: u64,
    /// Whether the program has waited for it. The clock has that bound, and later waits would give weaker ones.
    is_waited_for: bool,
    /// Whether it is in `waits`.
    is_queued: bool,
}

/// The last timed operations of a context's streams.
#[derive(Clone, Debug, Default)]
struct StreamEnds {
    by_stream: HashMap<u64, StreamEnd>,
    /// Streams that may have an operation which the program has not waited for, each stream once, ordered by the time
    /// at which the call of its last operation, or of an earlier one, returned. A wait for a context then touches
    /// only the streams that it covers, however many there are.
    waits: BinaryHeap<Reverse<(u64, u64)>>,
}

impl StreamEnds {
    /// Makes an operation its stream's last one.
    fn insert(&mut self, stream: u64, end: StreamEnd) {
        let held = self.by_stream.entry(stream).or_insert(end);
        let is_queued = held.is_queued;
        *held = StreamEnd { is_queued: true, is_waited_for: false, ..end };
        if !is_queued {
            self.waits.push(Reverse((end.returned, stream)));
        }
    }

    /// Takes the next end that a wait covers and that no earlier wait covered.
    fn waited_for(&mut self, sync: &Synchronize) -> Option<StreamEnd> {
        if sync.scope == SyncScope::Stream {
            let key = (sync.call.context, sync.stream);
            let end = self.by_stream.get_mut(&sync.stream);
            let end = end.filter(|end| !end.is_waited_for && covers(sync, key, end.returned))?;
            end.is_waited_for = true;
            return Some(*end);
        }
        while let Some(Reverse((returned, stream))) = self.waits.peek().copied() {
            let key = (sync.call.context, stream);
            if !covers(sync, key, returned) {
                break;
            }
            self.waits.pop();
            let Some(end) = self.by_stream.get_mut(&stream) else { continue };
            end.is_queued = false;
            if end.is_waited_for {
                continue;
            }
            if covers(sync, key, end.returned) {
                end.is_waited_for = true;
                return Some(*end);
            }
            // A later operation of the stream is not covered by this wait.
            end.is_queued = true;
            self.waits.push(Reverse((end.returned, stream)));
        }
        None
    }
}

impl Survey {
    /// Returns the clocks of a whole trace.
    pub fn of(records: impl IntoIterator<Item = Record>) -> Clocks {
        Survey::with(Prior::default(), records)
    }

    /// Creates the first pass over a trace with these names, which the search for steps needs.
    pub fn of_steps(names: &Names) -> Survey {
        Survey { steps: Finder::new(names), callers: CallerFold::new(names), ..Survey::default() }
    }

    /// The same with a given use of typical lengths.
    pub fn with(prior: Prior, records: impl IntoIterator<Item = Record>) -> Clocks {
        let mut survey = Survey { prior, ..Survey::default() };
        records.into_iter().for_each(|record| survey.observe(&record));
        survey.finish()
    }

    /// Takes the next record.
    pub fn observe(&mut self, record: &Record) {
        self.first.get_or_insert(record.at);
        self.latest = self.latest.max(record.at).max(last_seen(record));
        if let Some(begin) = record.began() {
            self.earliest = Some(self.earliest.map_or(begin, |earliest| earliest.min(begin)));
        }
        self.capture_ranges.observe(record);
        self.streams.observe(record);
        self.lengths.observe(record);
        self.steps.observe(record);
        self.callers.observe(record);
        match &record.body {
            Body::Work(work) => {
                if let Some(gpu) = timed(work) {
                    self.timed(work, gpu);
                }
                if let What::Burst { .. } = work.what {
                    let ended = self.bursts.entry((work.call.context, work.stream)).or_default();
                    *ended = work.call.end.max(*ended);
                }
            }
            Body::Synchronize(sync) => self.synchronized(sync),
            Body::ClockSample(sample) => self.sampled(sample),
            Body::ThreadTime(time) => self.thread_times.observe(record.thread, record.at, time),
            Body::Context(context) if context.destroyed => {
                self.ends.remove(&context.context);
            }
            Body::Context(context) => {
                self.devices.entry(context.context).or_insert(context.device);
            }
            Body::Stream(stream) if stream.destroyed => self.orphaned(stream.context, stream.stream),
            _ => {}
        }
    }

    /// Fits the clocks and the typical lengths.
    pub fn finish(self) -> Clocks {
        let earliest = self.earliest.or(self.first);
        let mut clocks = Clocks::fit(self.time_bases, self.devices);
        (clocks.earliest, clocks.latest) = (earliest, self.latest);
        clocks.capture_ranges = self.capture_ranges;
        clocks.streams = self.streams;
        clocks.bursts = self.bursts;
        clocks.typical = self.lengths.finish(self.prior, &clocks);
        clocks.steps = self.steps.finish();
        clocks.callers = self.callers.finish();
        clocks.thread_times = Arc::new(self.thread_times.finish());
        clocks
    }

    /// The number of bounds that are kept.
    pub fn kept(&self) -> usize {
        self.time_bases.values().map(Bounds::kept).sum()
    }

    fn timed(&mut self, work: &Work, gpu: &GpuTime) {
        let context = work.call.context;
        let ends = self.ends.entry(context).or_default();
        let before = ends.by_stream.get(&work.stream).filter(|end| end.time_base == gpu.time_base);
        let bounds = self.time_bases.entry((context, gpu.time_base)).or_default();
        gpu_interval::teach(work, gpu, before.map(|end| end.stamp), bounds);
        let (stamp, error) = gpu_interval::end_stamp(work, gpu);
        let (time_base, returned) = (gpu.time_base, work.call.end);
        let (is_waited_for, is_queued) = (false, false);
        ends.insert(work.stream, StreamEnd { time_base, stamp, error, returned, is_waited_for, is_queued });
        self.lengths.timed(work, gpu, &self.devices);
    }

    /// The program waited, so the operations that it had issued to the streams before are over.
    fn synchronized(&mut self, sync: &Synchronize) {
        let context = sync.call.context;
        let Some(ends) = self.ends.get_mut(&context) else { return };
        while let Some(end) = ends.waited_for(sync) {
            if let Some(bounds) = self.time_bases.get_mut(&(context, end.time_base)) {
                bounds.completed(host(sync.call.end), end.stamp, end.error);
            }
        }
    }

    /// A stream was destroyed; a wait for its context still covers what it runs. All such streams of a context share
    /// one entry: the latest stamp, and the latest return of a call.
    fn orphaned(&mut self, context: u32, stream: u64) {
        let Some(ends) = self.ends.get_mut(&context) else { return };
        let Some(end) = ends.by_stream.remove(&stream) else { return };
        let mut all = ends.by_stream.get(&ORPHANS).copied().unwrap_or(end);
        let returned = all.returned.max(end.returned);
        if all.time_base != end.time_base || all.stamp < end.stamp {
            all = end;
        }
        ends.insert(ORPHANS, StreamEnd { returned, is_queued: false, ..all });
    }

    /// The poller observed an event of its own.
    fn sampled(&mut self, sample: &ClockSample) {
        let gpu = sample.gpu.clamp(-(gpu_interval::MOST_TIME as i64), gpu_interval::MOST_TIME as i64);
        let bounds = self.time_bases.entry((sample.context, sample.time_base)).or_default();
        bounds.recorded(host(sample.after), gpu, sample.error.into());
        bounds.completed(host(sample.before), gpu, sample.error.into());
    }
}

/// The GPU time of an operation that ran and was timed.
pub(super) fn timed(work: &Work) -> Option<&GpuTime> {
    let ran = work.untimed == Untimed::Timed && work.call.flags & flag::CAPTURED == 0;
    work.gpu.as_ref().filter(|_| ran)
}

/// Whether a wait covers an operation on a stream whose call returned at `returned`. Waits for an event or a green context
/// cover none, because which operation an event follows is not kept, nor which streams a green context has.
pub(super) fn covers(sync: &Synchronize, (context, stream): (u32, u64), returned: u64) -> bool {
    let is_in_scope = match sync.scope {
        SyncScope::Device | SyncScope::Context => true,
        SyncScope::Stream => stream == sync.stream,
        SyncScope::GreenContext | SyncScope::Event => false,
    };
    is_in_scope && context == sync.call.context && returned <= sync.call.begin
}

/// Returns the host ns at which the poller found an operation completed; 0 for records without a GPU time.
fn last_seen(record: &Record) -> u64 {
    match &record.body {
        Body::Work(Work { gpu: Some(gpu), .. }) => gpu.seen,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::super::simulation::work;
    use super::super::{Model, When};
    use super::*;
    use crate::trace::generator::Random;
    use crate::trace::record::Call;

    const SECOND: i64 = 1_000_000_000;
    const HOURS: i64 = 3_600 * SECOND;

    fn record(body: Body) -> Record {
        Record { thread: 1, at: 0, body }
    }

    /// The GPU clock: an offset of hours, and a drift that goes from −40 to 40 ppm and back within an hour.
    fn gpu(host: i64) -> i64 {
        let phase = (host % HOURS) as f64 / HOURS as f64 * std::f64::consts::TAU;
        host - 5 * HOURS + (40e-6 * HOURS as f64 / std::f64::consts::TAU * (1.0 - phase.cos())) as i64
    }

    /// Three hours of launches on two contexts of a device, four a second. The time bases start again every ten
    /// minutes, each at an origin of its own, with an error that grows to 1 µs. Each record comes with the
    /// operation's true start and end in host ns.
    fn three_hours() -> impl Iterator<Item = (Record, Option<(i64, i64)>)> {
        let mut random = Random(1);
        let contexts = (1..=2).map(|context| {
            record(Body::Context(crate::trace::record::Context {
                context,
                device: 0,
                handle: 0,
                destroyed: false,
            }))
        });
        let launches = (0..3 * 3_600 * 4).flat_map(move |n: i64| {
            let context = 1 + (n % 2) as u32;
            let call = HOURS + n * SECOND / 4 + random.below(200_000_000) as i64;
            let (begin, lasts) = (call + 4_000, 5_000 + random.below(4_000_000) as i64);
            let end = begin + lasts;
            let (start_event, end_event) = (call + 1_000, end.max(call + 5_000));
            let time_base = 1 + ((call - HOURS) / (600 * SECOND)) as u32;
            let origin = i64::from(time_base) * 777 * SECOND;
            // Errors arise over the idle time between launches.
            let error = ((call - HOURS) % (600 * SECOND) / (600 * SECOND / 1_000)) as u32;
            let wrong = i64::from(error) * (random.below(201) as i64 - 100) / 100;
            let mut launch = work(begin as u64, 4_000, 1_000);
            launch.call.context = context;
            launch.gpu = Some(GpuTime {
                time_base,
                start: gpu(start_event) - origin + wrong,
                duration: (gpu(end_event) - gpu(start_event)) as u64,
                start_error: error,
                duration_error: 1,
                seen: (end_event + 20_000 + random.below(200_000) as i64) as u64,
                flags: 0,
                tail: 0,
            });
            let wait = Call {
                begin: (call + 6_000) as u64,
                end: (end_event.max(call + 6_000) + 3_000 + random.below(5_000) as i64) as u64,
                context,
                ..Call::default()
            };
            let wait = Synchronize { call: wait, scope: SyncScope::Stream, stream: 7, event: 0 };
            [(record(Body::Work(launch)), Some((begin, end))), (record(Body::Synchronize(wait)), None)]
        });
        contexts.map(|context| (context, None)).chain(launches)
    }

    #[test]
    fn after_three_hours_the_clocks_are_as_precise_as_at_first() {
        let mut survey = Survey::default();
        three_hours().for_each(|(record, _)| survey.observe(&record));
        let (kept, seconds) = (survey.kept(), 3 * 3_600);
        assert!(kept <= 20 * seconds, "{kept} bounds kept of {seconds} s");
        let ends = survey.ends.values().map(|ends| (ends.by_stream.len(), ends.waits.len()));
        assert_eq!((survey.time_bases.len(), ends.collect::<Vec<_>>()), (2 * 18, vec![(1, 1); 2]));
        let clocks = survey.finish();
        assert_eq!(clocks.contradictions(), 0);
        let names = Names::default();
        let mut model = Model::new(&names, &clocks);
        let (mut errors, mut places) = (Vec::new(), Vec::new());
        for (record, truth) in three_hours() {
            let Some(operation) = model.observe(&record).operation else { continue };
            let (When::Timed(o), Some((begin, end))) = (operation.when, truth) else { panic!("{record:?}") };
            let lasted = (gpu(end) - gpu(begin)) as u64;
            assert!(o.lo() <= lasted && lasted <= o.hi(), "{lasted}: {o:?}");
            let off_by = o.off_by.unwrap() as i64;
            assert!(o.earliest_start - off_by <= begin && begin <= o.latest_start + off_by, "{begin}: {o:?}");
            assert!(o.earliest_end - off_by <= end && end <= o.latest_end + off_by, "{end}: {o:?}");
            errors.push(o.value().abs_diff(lasted));
            places.push(off_by);
        }
        let known = model.finish();
        assert_eq!((known.causality_broken, known.clock_contradictions), (0, 0));
        let middle = |part: &[u64]| {
            let mut part = part.to_vec();
            part.sort_unstable();
            part[part.len() / 2]
        };
        // Medians over ten minutes, the life of a time base: the correction is as good as the time base's positions.
        let (first, last) = (middle(&errors[..2_400]), middle(&errors[errors.len() - 2_400..]));
        places.sort_unstable();
        println!(
            "{kept} bounds; duration error {first} ns at first, {last} ns at last; off by {} ns",
            places[places.len() / 2]
        );
        assert!(last <= first + 100, "{first} ns at first, {last} ns at last");
        assert!(places[places.len() / 2] <= 20_000, "{}", places[places.len() / 2]);
    }

    /// The GPU runs on when its stream is destroyed, and a synchronization of the context covers that work too.
    #[test]
    fn a_wait_for_a_context_covers_what_its_destroyed_streams_run() {
        let mut launch = work(10_000, 4_000, 1_000);
        launch.gpu = Some(GpuTime { time_base: 1, start: 50_000, duration: 9_000, ..GpuTime::default() });
        let (context, handle, flags, priority) = (1, 0, 0, 0);
        let gone = |stream| {
            record(Body::Stream(crate::trace::record::Stream {
                stream,
                handle,
                context,
                flags,
                priority,
                destroyed: true,
            }))
        };
        let wait = Call { begin: 12_000, end: 20_000, context, ..Call::default() };
        let wait = |scope| record(Body::Synchronize(Synchronize { call: wait, scope, stream: 7, event: 0 }));
        let records = [record(Body::Work(launch)), gone(7), gone(8)];
        let lower = |sync| Survey::of(records.iter().cloned().chain([sync])).of(1, 1).unwrap().lower(20_000);
        assert!(lower(wait(SyncScope::Context)).is_some_and(|lower| (38_000..=39_000).contains(&lower)));
        assert_eq!(lower(wait(SyncScope::Stream)), None, "the context no longer has that stream");
    }

    /// An event that ends one operation and starts the next says nothing about an event's cost.
    #[test]
    fn a_shared_event_teaches_no_cost() {
        let launch = |submitted: u64, start: i64, flags: u16| {
            let mut launch = work(submitted, 4_000, 1_000);
            launch.call.flags = flags;
            launch.gpu = Some(GpuTime { time_base: 1, start, duration: 10_001, ..GpuTime::default() });
            record(Body::Work(launch))
        };
        let cost = |flags| {
            let clocks = Survey::of([launch(10_000, 50_000, 0), launch(20_000, 60_001, flags)]);
            clocks.of(1, 1).unwrap().stamps.most_cost()
        };
        assert_eq!((cost(0), cost(flag::SHARED_START)), (0, super::super::stamps::MOST_EVENT_COST));
    }

    #[test]
    fn a_sample_bounds_both_sides() {
        let sample = |at: i64| {
            let (context, time_base) = (1, 4);
            let (after, before) = ((at - 9_000) as u64, (at + 8_000) as u64);
            record(Body::ClockSample(ClockSample {
                context,
                time_base,
                gpu: gpu(at),
                error: 3,
                after,
                before,
            }))
        };
        let clocks = Survey::of((0..20).map(|n| sample(HOURS + n * SECOND)));
        let clock = clocks.of(1, 4).unwrap();
        for at in (0..190).map(|n| HOURS + n * SECOND / 10) {
            let theta = gpu(at) - at;
            assert!(clock.lower(at).unwrap() <= theta && theta <= clock.upper(at).unwrap());
            assert!(clock.half_width(at).unwrap() <= 10_000, "{:?}", clock.half_width(at));
        }
    }
}
