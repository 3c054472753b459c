//! Memory: how much the program held, when it held the most, and how much was left at the end.
//!
//! If only a part of the time is selected, allocations and frees in it are counted, and what was allocated before is
//! held from its start on. The same applies to each of several parts. A block is held from the return of the call
//! that allocates it to the return of the call that frees it. Memory that a graph allocates or frees changes when the
//! launch has returned ([`graph`](crate::model::memory::graph) computes how much is held at once). Where calls of
//! several threads overlap, each takes effect at an unknown moment of it, so that the order of returns is only the
//! best estimate: then the peak is an interval ([`doubt`]).

mod doubt;

use super::analysis::{Analysis, End, Start};
use super::estimate::Estimate;
use super::merge::Merge;
use super::owners::{ByLibrary, Holding, Owners};
use super::scope::Scope;
use crate::model::Event;
use crate::model::gpu_interval::host;
use crate::model::memory::{MemoryChange, failed, is_device_memory};
use crate::model::period::Period;
use crate::trace::record::{Body, Call, Record};
use doubt::{Doubt, Effect, When};
use gpuspy_wire::record::Memory;
use std::collections::{BTreeMap, HashMap};

/// Use of memory of one kind or of several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Use {
    /// Allocations that succeeded.
    pub allocations: u64,
    /// Bytes of all of those.
    pub allocated_bytes: u64,
    /// Frees that succeeded.
    pub frees: u64,
    /// The peak: the most that was held at once, by the best estimate, bytes.
    pub peak_bytes: u64,
    /// The lower and the upper bound of the peak, bytes.
    pub peak_between: (u64, u64),
    /// When the peak was first reached, by the best estimate, ns since the collection began.
    pub peak_at: u64,
    /// What was held at the end, bytes.
    pub live_bytes: u64,
}

/// Use of memory by one process or by several.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryUse {
    /// Device memory: allocated, managed, from pools, mapped, arrays, by graphs; no reservations.
    pub device: Use,
    /// By [`Memory::name`].
    pub by_kind: BTreeMap<&'static str, Use>,
    /// Device memory by the library that allocated or freed it.
    pub by_library: ByLibrary,
    /// Device memory over time, on one line; several lines are of different times and cannot be combined.
    pub timeline: MemoryLine,
    /// The same for each kind, by [`Memory::name`]; all of them in the same intervals.
    pub timelines: BTreeMap<&'static str, MemoryLine>,
    /// Calls that failed because of too little memory.
    pub out_of_memory: u64,
}

/// The most memory held in each of successive intervals of equal length.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryLine {
    /// The start of the first interval, ns since the collection began: 0, or the start of the selected time.
    pub from_ns: u64,
    /// The length of each interval, ns.
    pub bucket_ns: u64,
    /// The most that was held in each, bytes; empty if nothing was ever held.
    pub peaks: Vec<u64>,
}

/// CUDA_ERROR_OUT_OF_MEMORY = cudaErrorMemoryAllocation.
const OUT_OF_MEMORY: i32 = 2;

impl Use {
    /// Returns the peak with its bounds.
    pub fn peak(&self) -> Estimate<u64> {
        Estimate::new(self.peak_bytes, self.peak_between.0, self.peak_between.1)
    }

    /// Applies a change; `is_counted` if it is in the selected time.
    fn change(&mut self, change: MemoryChange, is_counted: bool) {
        let one = u64::from(is_counted);
        match change {
            MemoryChange::Allocated { bytes, .. } => {
                self.allocations += one;
                self.allocated_bytes = self.allocated_bytes.saturating_add(one * bytes);
                self.live_bytes = self.live_bytes.saturating_add(bytes);
            }
            MemoryChange::Freed { bytes, .. } => {
                self.frees += one;
                self.live_bytes = self.live_bytes.saturating_sub(bytes);
            }
            // A free counts when its call returns.
            MemoryChange::FreeFailed { .. } => {}
            MemoryChange::Passed { blocks, bytes, .. } => {
                self.allocations += one * blocks;
                self.allocated_bytes = self.allocated_bytes.saturating_add(one * bytes);
                self.frees += one * blocks;
            }
            MemoryChange::Vanished { bytes, .. } => self.live_bytes = self.live_bytes.saturating_sub(bytes),
        }
    }

    /// Records that what is held now is held at this moment, and `passing` bytes more for no longer than the moment.
    /// Returns whether that is a new peak.
    fn raise_peak(&mut self, at: u64, passing: u64) -> bool {
        let held = self.live_bytes.saturating_add(passing);
        let is_most = held > self.peak_bytes;
        if is_most {
            (self.peak_bytes, self.peak_at) = (held, at);
        }
        is_most
    }

    fn merge(&mut self, other: &Use) {
        self.allocations += other.allocations;
        self.allocated_bytes = self.allocated_bytes.saturating_add(other.allocated_bytes);
        self.frees += other.frees;
        self.live_bytes = self.live_bytes.max(other.live_bytes);
        let (mine, theirs) = (self.peak_between, other.peak_between);
        self.peak_between = (mine.0.max(theirs.0), mine.1.max(theirs.1));
        if other.peak_bytes > self.peak_bytes {
            (self.peak_bytes, self.peak_at) = (other.peak_bytes, other.peak_at);
        }
    }

    /// Whether nothing was held, allocated or freed.
    fn is_nothing(&self) -> bool {
        (self.allocations, self.frees, self.peak_bytes) == (0, 0, 0)
    }
}

impl Merge for MemoryUse {
    /// Adds another line, which is of other times: of what was held at once, the larger one remains.
    fn merge(&mut self, other: &MemoryUse) {
        let is_higher = other.device.peak_bytes > self.device.peak_bytes;
        if is_higher {
            self.by_library.values_mut().for_each(|mine| mine.at_peak_bytes = 0);
        }
        for (library, theirs) in &other.by_library {
            let at_peak_bytes = if is_higher { theirs.at_peak_bytes } else { 0 };
            self.by_library.entry(library.clone()).or_default().add(&Holding { at_peak_bytes, ..*theirs });
        }
        self.device.merge(&other.device);
        for (kind, theirs) in &other.by_kind {
            self.by_kind.entry(kind).or_default().merge(theirs);
        }
        self.out_of_memory += other.out_of_memory;
    }
}

/// The most intervals of a [`MemoryLine`]: about the width of a terminal.
const BUCKETS: u64 = 128;
/// The length of the first intervals, ns; it doubles from there.
const SHORTEST: u64 = 1_000;

/// A [`MemoryLine`] under construction. All times are ns since its start.
#[derive(Clone, Debug)]
struct Drawing {
    bucket_ns: u64,
    peaks: Vec<u64>,
    /// What was held at the last counted time.
    level: u64,
}

impl Default for Drawing {
    fn default() -> Self {
        Drawing { bucket_ns: SHORTEST, peaks: Vec::new(), level: 0 }
    }
}

impl Drawing {
    /// Changes what is held from `at` on to `level`, with `passing` more for no longer than that moment.
    fn change(&mut self, level: u64, passing: u64, at: u64) {
        self.hold(self.level, at);
        self.raise(level.saturating_add(passing));
        self.level = level;
    }

    /// Continues at the start of a selected part, with `level`. Of the time between two parts only the smaller of
    /// both levels is certain.
    fn enter(&mut self, level: u64, at: u64) {
        self.hold(self.level.min(level), at);
        self.raise(level);
        self.level = level;
    }

    /// Returns the line, which ends with what is held at the end.
    fn line(mut self, from_ns: u64, part: &Use, end: u64) -> MemoryLine {
        self.hold(part.live_bytes, end.saturating_sub(from_ns));
        let peaks = if part.peak_bytes > 0 { self.peaks } else { Vec::new() };
        MemoryLine { from_ns, bucket_ns: self.bucket_ns, peaks }
    }

    /// Extends the line to `at` with `level`. If that takes too many intervals, each two become one.
    fn hold(&mut self, level: u64, at: u64) {
        while at / self.bucket_ns >= BUCKETS {
            self.bucket_ns = self.bucket_ns.saturating_mul(2);
            self.peaks = self.peaks.chunks(2).map(|two| two.iter().copied().max().unwrap_or(0)).collect();
        }
        let needed = (at / self.bucket_ns) as usize + 1;
        if self.peaks.len() < needed {
            self.peaks.resize(needed, level);
        }
    }

    /// Raises the interval that the line has come to, to `level`.
    fn raise(&mut self, level: u64) {
        if let Some(last) = self.peaks.last_mut() {
            *last = level.max(*last);
        }
    }
}

/// The lines of all kinds.
#[derive(Clone, Debug, Default)]
struct Lines {
    /// ns since the collection began.
    from_ns: u64,
    device: Drawing,
    by_kind: BTreeMap<&'static str, Drawing>,
}

impl Lines {
    fn of(&mut self, kind: &'static str) -> &mut Drawing {
        self.by_kind.entry(kind).or_default()
    }
}

/// All device memory (`None`), or that of a kind.
type Part = Option<&'static str>;

/// Returns the parts that memory of a kind belongs to.
fn parts(memory: Memory) -> impl Iterator<Item = Part> {
    [None, Some(memory.name())].into_iter().skip(usize::from(!is_device_memory(memory)))
}

/// A call that frees memory and has not returned.
#[derive(Clone, Debug)]
struct Freeing {
    /// The call of a free; `None` for the end of a context, whose record has no call.
    call: Option<Call>,
    /// The changes to apply when the call returns.
    changes: Vec<MemoryChange>,
}

/// The analysis.
#[derive(Debug)]
pub struct MemoryTimeline {
    /// When the collection began: host ns.
    began: u64,
    period: Period,
    /// How many parts of the selected time have been entered.
    entered: usize,
    sum: MemoryUse,
    owners: Owners,
    lines: Lines,
    doubts: BTreeMap<Part, Doubt>,
    /// By thread: a thread frees one block at a time.
    freeing: HashMap<u32, Freeing>,
}

impl MemoryTimeline {
    /// An analysis of a collection that began at host ns `began`; changes in `period` are counted.
    pub fn over(began: u64, period: Period) -> Self {
        let from = period.ends().0;
        let mut fold = MemoryTimeline {
            began,
            period,
            entered: 0,
            sum: MemoryUse::default(),
            owners: Owners::default(),
            lines: Lines::default(),
            doubts: BTreeMap::new(),
            freeing: HashMap::new(),
        };
        fold.lines.from_ns = fold.since_began(from);
        fold
    }

    /// Returns the use of memory until the collection ended, at host ns `ended`; `library` names the file that an address
    /// lies in.
    pub fn rows(mut self, ended: u64, library: impl Fn(u64) -> Option<String>) -> MemoryUse {
        // The returns of these calls are not in the trace.
        let mut unseen: Vec<(u32, Freeing)> = self.freeing.drain().collect();
        unseen.sort_unstable_by_key(|(thread, _)| *thread);
        unseen.iter().for_each(|(_, freeing)| self.freed(freeing, host(ended), host(ended)));
        self.enter(i64::MAX);
        let end = self.since_began(host(ended).min(self.period.ends().1)).saturating_sub(1);
        let MemoryUse { device, by_kind, by_library, timeline, timelines, .. } = &mut self.sum;
        let named = by_kind.iter_mut().map(|(kind, part)| (Some(*kind), part));
        for (part, held) in named.chain([(None, &mut *device)]) {
            held.peak_between = self.doubts.entry(part).or_default().around(held.peak_bytes);
        }
        *by_library = self.owners.finish(library);
        by_kind.retain(|_, part| !part.is_nothing());
        let held = by_kind.iter().filter(|(_, part)| part.peak_bytes > 0);
        let Lines { from_ns, device: of_device, by_kind: mut of_kinds } = self.lines;
        *timelines = held
            .map(|(kind, part)| (*kind, of_kinds.remove(kind).unwrap_or_default().line(from_ns, part, end)))
            .collect();
        if !timelines.is_empty() {
            *timeline = of_device.line(from_ns, device, end);
        }
        self.sum
    }

    /// Enters the parts of the selected time that start by `moment`, each with what is held then.
    fn enter(&mut self, moment: i64) {
        while let Some((from, _)) =
            self.period.stretches().get(self.entered).filter(|(from, _)| *from <= moment)
        {
            let begin = *from;
            let from = self.since_began(begin);
            self.entered += 1;
            let on_line = from.saturating_sub(self.lines.from_ns);
            let MemoryUse { device, by_kind, .. } = &mut self.sum;
            for (kind, part) in by_kind {
                part.raise_peak(from, 0);
                self.lines.of(kind).enter(part.live_bytes, on_line);
                self.doubts.entry(Some(kind)).or_default().enters(part.live_bytes, begin);
            }
            if device.raise_peak(from, 0) {
                self.owners.peaked();
            }
            self.lines.device.enter(device.live_bytes, on_line);
            self.doubts.entry(None).or_default().enters(device.live_bytes, begin);
        }
    }

    /// Starts a call that frees. What it frees goes when the call returns.
    fn begin_free(&mut self, record: &Record, call: Option<Call>, changes: &[MemoryChange]) {
        self.enter(host(record.at));
        for change in changes {
            let bytes = freed_bytes(change);
            parts(change.memory()).for_each(|part| self.doubt(part).begins_to_free(bytes, host(record.at)));
        }
        let before = self.freeing.insert(record.thread, Freeing { call, changes: changes.to_vec() });
        if let Some(before) = before {
            self.freed(&before, host(record.at), host(record.at));
        }
    }

    /// Applies the thread's pending free if this record is the return of that call, or of a later call of the thread,
    /// which shows that the free has returned.
    fn end_free(&mut self, record: &Record) {
        let (Some(freeing), Some(call)) = (self.freeing.get(&record.thread), record.body.call()) else {
            return;
        };
        let is_free =
            |free: &Call| matches!(record.body, Body::Api(_)) && call.correlation == free.correlation;
        let is_end = freeing.call.as_ref().is_none_or(is_free);
        if !is_end && freeing.call.is_some_and(|free| call.begin <= free.begin) {
            return;
        }
        let Some(freeing) = self.freeing.remove(&record.thread) else { return };
        let at = host(record.at);
        self.enter(at);
        match freeing.call {
            Some(_) if is_end && failed(call) => {
                for change in &freeing.changes {
                    let bytes = freed_bytes(change);
                    parts(change.memory()).for_each(|part| self.doubt(part).fails_to_free(bytes, at));
                }
            }
            // Nothing of it was certain since it began.
            Some(_) => self.freed(&freeing, at, at),
            None => self.freed(&freeing, host(call.begin).min(at), at),
        }
    }

    /// Applies the effect of a call that freed and has returned.
    fn freed(&mut self, freeing: &Freeing, began: i64, ended: i64) {
        for change in &freeing.changes {
            let bytes = freed_bytes(change);
            parts(change.memory()).for_each(|part| self.doubt(part).ends_to_free(bytes));
        }
        self.ended(&freeing.changes, freeing.call.map_or(0, |call| call.caller), began, ended);
    }

    /// Applies the changes of a call that has returned: each took effect at some moment of it, and those of a free at
    /// its return.
    fn ended(&mut self, changes: &[MemoryChange], caller: u64, began: i64, ended: i64) {
        let end = self.period.ends().1;
        if began >= end {
            return;
        }
        let is_inside = ended < end;
        self.enter(ended);
        let (counts, touches) = (self.period.contains(ended), self.period.touches(began, ended));
        let mut effects: Vec<(Part, u64, Effect)> = Vec::with_capacity(2);
        for change in changes {
            for part in parts(change.memory()) {
                let here = effects.iter().position(|effect| effect.0 == part).unwrap_or_else(|| {
                    effects.push((part, self.held(part), Effect::default()));
                    effects.len() - 1
                });
                effects[here].2.takes(change);
            }
            if is_inside {
                self.change(*change, caller, counts, self.since_began(ended));
            }
        }
        for (part, before, effect) in effects {
            let after = self.held(part);
            self.doubt(part).call((before, after), effect, When { began, ended, touches, counts });
        }
    }

    fn doubt(&mut self, part: Part) -> &mut Doubt {
        self.doubts.entry(part).or_default()
    }

    /// What is held according to the calls that have returned.
    fn held(&self, part: Part) -> u64 {
        let of_kind = |kind| self.sum.by_kind.get(kind).map_or(0, |held| held.live_bytes);
        part.map_or(self.sum.device.live_bytes, of_kind)
    }

    fn change(&mut self, change: MemoryChange, caller: u64, is_counted: bool, at: u64) {
        let MemoryUse { device, by_kind, .. } = &mut self.sum;
        let memory = change.memory();
        let part = by_kind.entry(memory.name()).or_default();
        part.change(change, is_counted);
        if is_device_memory(memory) {
            device.change(change, is_counted);
            self.owners.change(&change, caller, is_counted);
        }
        if !is_counted {
            return;
        }
        let on_line = at.saturating_sub(self.lines.from_ns);
        let passing = if let MemoryChange::Passed { at_once, .. } = change { at_once } else { 0 };
        part.raise_peak(at, passing);
        self.lines.of(memory.name()).change(part.live_bytes, passing, on_line);
        if is_device_memory(memory) {
            if device.raise_peak(at, passing) {
                self.owners.peaked_with(change.allocator().caller, passing);
            }
            self.lines.device.change(device.live_bytes, passing, on_line);
        }
    }

    /// Returns ns since the collection began.
    fn since_began(&self, moment: i64) -> u64 {
        moment.saturating_sub(host(self.began)).max(0) as u64
    }
}

impl<'a> Analysis<'a> for MemoryTimeline {
    type Rows = MemoryUse;

    fn new(start: &Start<'a>) -> Self {
        MemoryTimeline::over(start.began, start.period.clone())
    }

    fn observe(&mut self, event: &Event<'_>, scope: &Scope<'_>) {
        let (record, changes) = (event.record, scope.memory());
        self.end_free(record);
        match &record.body {
            _ if changes.is_empty() => {}
            Body::Free(free) => self.begin_free(record, Some(free.call), changes),
            Body::Context(_) => self.begin_free(record, None, changes),
            body => {
                let call = body.call().copied().unwrap_or_default();
                let began = if call.begin == 0 { record.at } else { call.begin.min(record.at) };
                self.ended(changes, call.caller, host(began), host(record.at));
            }
        }
        if let (Body::Api(api), Some(call)) = (&record.body, event.call)
            && call.failed
            && api.result == OUT_OF_MEMORY
            && scope.call()
        {
            self.sum.out_of_memory += 1;
        }
    }

    fn finish(self, end: &End<'_>) -> MemoryUse {
        self.rows(end.ended, |caller| end.library(caller))
    }
}

/// Returns the bytes that a change frees.
fn freed_bytes(change: &MemoryChange) -> u64 {
    match change {
        MemoryChange::Freed { bytes, .. } | MemoryChange::Vanished { bytes, .. } => *bytes,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::memory::Allocator;
    use crate::model::period::CaptureRanges;
    use crate::trace::record::{Api, Free, Names};
    use gpuspy_wire::record::{LossCause, flag};

    #[test]
    fn the_peak_is_at_the_first_moment_with_the_most_memory() {
        let (memory, mut use_) = (Memory::Device, Use::default());
        let of = OF;
        for (at, change) in [
            (10, MemoryChange::Allocated { memory, bytes: 100, of }),
            (20, MemoryChange::Allocated { memory, bytes: 50, of }),
            (30, MemoryChange::Freed { memory, bytes: 100, of }),
            (40, MemoryChange::Allocated { memory, bytes: 100, of }),
            (50, MemoryChange::Freed { memory, bytes: 50, of }),
            (60, MemoryChange::Vanished { memory, bytes: 100, of }),
        ] {
            use_.change(change, true);
            use_.raise_peak(at, 0);
        }
        let expected = Use {
            allocations: 3,
            allocated_bytes: 250,
            frees: 2,
            peak_bytes: 150,
            peak_between: (0, 0),
            peak_at: 20,
            live_bytes: 0,
        };
        assert_eq!(use_, expected);
    }

    #[test]
    fn counts_of_several_lines_add_up_and_held_memory_does_not() {
        let used = |allocations, allocated_bytes, frees, peak_bytes, peak_at, live_bytes| Use {
            allocations,
            allocated_bytes,
            frees,
            peak_bytes,
            peak_between: (peak_bytes - 2, peak_bytes + 3),
            peak_at,
            live_bytes,
        };
        let one = used(1, 10, 0, 10, 5, 10);
        let two = used(2, 40, 2, 30, 7, 0);
        let mut both = one;
        both.merge(&two);
        assert_eq!(both, used(3, 50, 2, 30, 7, 10));
    }

    const OF: Allocator = Allocator { context: 1, thread: 1, stream: None, caller: 0 };

    fn take(fold: &mut MemoryTimeline, event: &Event<'_>) {
        fold.observe(event, &Scope::whole(event, true));
    }

    /// Applies changes of device memory, each at its time: bytes allocated, or freed if negative.
    fn observe(fold: &mut MemoryTimeline, changes: &[(u64, i64)]) {
        for (at, bytes) in changes {
            let (memory, size) = (Memory::Device, bytes.unsigned_abs());
            let change = match bytes {
                1.. => MemoryChange::Allocated { memory, bytes: size, of: OF },
                _ => MemoryChange::Freed { memory, bytes: size, of: OF },
            };
            let body = Body::Loss { cause: LossCause::RingFull, count: 0 };
            let record = Record { thread: 1, at: *at, body };
            take(fold, &Event { memory: vec![change], ..Event::new(&record) });
        }
    }

    fn line(changes: &[(u64, i64)], ended: u64) -> MemoryLine {
        let mut fold = MemoryTimeline::over(1_000_000, Period::default());
        observe(&mut fold, changes);
        fold.rows(ended, |_| None).timeline
    }

    #[test]
    fn a_level_is_held_until_it_changes() {
        let changes = [(1_001_500, 10), (1_001_700, 5), (1_001_800, -10), (1_004_000, -5)];
        let expected = MemoryLine { from_ns: 0, bucket_ns: 1_000, peaks: vec![0, 15, 5, 5, 5, 0, 0] };
        assert_eq!(line(&changes, 1_007_000), expected);
        assert!(line(&[], 1_007_000).peaks.is_empty(), "nothing was ever held");
    }

    #[test]
    fn memory_that_a_graph_allocates_and_frees_is_held_for_a_moment() {
        let mut fold = MemoryTimeline::over(1_000_000, Period::default());
        observe(&mut fold, &[(1_000_500, 10)]);
        let memory = Memory::Graph;
        let passed = MemoryChange::Passed { memory, blocks: 3, bytes: 9, at_once: 7, of: OF };
        let body = Body::Loss { cause: LossCause::RingFull, count: 0 };
        let record = Record { thread: 1, at: 1_002_500, body };
        take(&mut fold, &Event { memory: vec![passed], ..Event::new(&record) });
        let reported = fold.rows(1_005_000, |_| None);
        assert_eq!(reported.timeline.peaks, [10, 10, 17, 10, 10]);
        let (peak_bytes, peak_at) = (17, 2_500);
        let all = Use {
            allocations: 4,
            allocated_bytes: 19,
            frees: 3,
            peak_bytes,
            peak_between: (17, 17),
            peak_at,
            live_bytes: 10,
        };
        assert_eq!(reported.device, all);
        assert_eq!((reported.by_kind["graph"].peak_bytes, reported.by_kind["graph"].live_bytes), (7, 0));
    }

    #[test]
    fn a_long_line_gets_longer_intervals() {
        let long =
            line(&[(1_000_000, 7), (1_001_000, 20), (1_002_000, -20), (1_000_000 + 512_000, 3)], 1_600_000);
        assert_eq!((long.bucket_ns, long.peaks.len()), (8_000, 75));
        assert_eq!((long.peaks[0], &long.peaks[1..64]), (27, [7; 63].as_slice()));
        assert_eq!(&long.peaks[64..], [10; 11]);
        for ended in [1_127_999, 1_128_001, 5_000_000_000, u64::MAX] {
            let line = line(&[(1_000_000, 7)], ended);
            assert!(line.peaks.len() <= 128 && line.peaks.iter().all(|peak| *peak == 7), "{ended}: {line:?}");
        }
    }

    #[test]
    fn memory_from_before_the_selected_time_is_held_from_its_start_on() {
        let changes =
            [(1_000_100, 100), (1_000_200, -60), (1_003_000, 10), (1_004_000, -50), (1_009_000, 500)];
        let mut fold = MemoryTimeline::over(1_000_000, Period::between(1_002_000, 1_008_000));
        observe(&mut fold, &changes);
        let memory = fold.rows(2_000_000, |_| None);
        let expected = Use {
            allocations: 1,
            allocated_bytes: 10,
            frees: 1,
            peak_bytes: 50,
            peak_between: (50, 50),
            peak_at: 3_000,
            live_bytes: 0,
        };
        assert_eq!((memory.device, memory.by_kind["device"]), (expected, expected));
        let expected = MemoryLine { from_ns: 2_000, bucket_ns: 1_000, peaks: vec![40, 50, 50, 0, 0, 0] };
        assert_eq!(memory.timeline, expected);
        let mut quiet = MemoryTimeline::over(1_000_000, Period::between(1_001_000, 1_002_000));
        observe(&mut quiet, &changes);
        let memory = quiet.rows(2_000_000, |_| None);
        assert_eq!(
            (memory.device.peak_bytes, memory.device.peak_at, memory.device.allocations),
            (40, 1_000, 0)
        );
    }

    #[test]
    fn each_of_several_selected_parts_starts_with_what_is_held_then() {
        let mut captures = CaptureRanges::default();
        for (at, begins) in [(1_002_000, true), (1_004_000, false), (1_010_000, true), (1_012_000, false)] {
            captures.observe(&Record { thread: 0, at, body: Body::CaptureEdge { begins } });
        }
        let period = captures.period(&Names::default(), None, (i64::MIN, i64::MAX));
        let mut fold = MemoryTimeline::over(1_000_000, period);
        observe(
            &mut fold,
            &[(1_001_000, 40), (1_003_000, 2), (1_005_000, 900), (1_006_000, -850), (1_013_000, 500)],
        );
        let memory = fold.rows(2_000_000, |_| None);
        let Use { allocations, allocated_bytes, frees, peak_bytes, peak_at, live_bytes, .. } = memory.device;
        assert_eq!((allocations, allocated_bytes, frees), (1, 2, 0));
        assert_eq!((peak_bytes, peak_at, live_bytes), (92, 10_000, 92), "not the 942 in between");
        assert_eq!(memory.timeline.peaks, [40, 42, 42, 42, 42, 42, 42, 42, 92, 92]);
    }

    /// A block is allocated at 10 ns, and a call from 20 to 40 ns frees it or fails to.
    fn freed(from: i64, to: i64, fails: bool) -> Use {
        let mut fold = MemoryTimeline::over(0, Period::between(from, to));
        observe(&mut fold, &[(10, 8)]);
        let call =
            Call { begin: 20, end: 40, flags: if fails { flag::FAILED } else { 0 }, ..Call::default() };
        let free = Free { call, memory: Memory::Device, address: 1, stream: 0, bytes: 0 };
        let free = Record { thread: 1, at: 20, body: Body::Free(free) };
        let api = Api { call, result: i32::from(fails), subject: 0, calls: 1, inside: 0, entered: 0 };
        let end = Record { thread: 1, at: 40, body: Body::Api(api) };
        let (memory, bytes) = (Memory::Device, 8);
        let goes = MemoryChange::Freed { memory, bytes, of: OF };
        take(&mut fold, &Event { memory: vec![goes], ..Event::new(&free) });
        let back = fails.then_some(MemoryChange::FreeFailed { memory, bytes, of: OF });
        let end = Event { memory: back.into_iter().collect(), ..Event::new(&end) };
        take(&mut fold, &end);
        fold.rows(50, |_| None).device
    }

    #[test]
    fn a_free_that_fails_frees_nothing() {
        for (from, to) in [(i64::MIN, 30), (30, i64::MAX)] {
            let used = freed(from, to, true);
            assert_eq!((used.frees, used.live_bytes, used.peak()), (0, 8, Estimate::new(8, 8, 8)));
        }
    }

    #[test]
    fn a_free_counts_where_it_ends() {
        let (before, after) = (freed(i64::MIN, 30, false), freed(30, i64::MAX, false));
        assert_eq!((before.frees, before.live_bytes), (0, 8), "its call is not over");
        assert_eq!((after.frees, after.live_bytes, after.peak_bytes), (1, 0, 8));
    }
}
