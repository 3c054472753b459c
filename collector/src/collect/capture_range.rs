//! Which records are kept if `--capture-range` captures only ranges of a run? A run of ten hours with a range of ten
//! steps should give a small trace.
//!
//! Everything between a range's start and its end is kept, and so are timed operations. Also kept, at any time, is
//! what gives later records their meaning: allocations and frees, contexts, streams, graphs, modules, devices, clock
//! samples, the processor time of threads, losses, and the calls before the first operation, which set things up. When a range starts, some earlier
//! records are added with the range's start as their time: each stream's last operations and the last waits, so that
//! no GPU that may be busy counts as idle; and the NVTX ranges that are open.
//!
//! Records are held back until every ring has been emptied twice, because then no older start or end of a range can
//! still arrive. They are decided in the order of their times; a record that comes even later is decided by its own
//! times.

use super::finished::waited_for;
use super::open_ranges::{OpenRanges, text_of};
use crate::hash::HashMap;
use crate::trace::record::{Api, Body, Record, What, Work};
use gpuspy_wire::record::{Untimed, flag};
use std::collections::{BTreeMap, VecDeque};

/// Limit on the records held back: if rings never become empty, the oldest are decided by what is known.
const MOST_HELD: usize = 1 << 17;
/// Limit on the ranges remembered; a call that began in an older one counts as outside.
const MOST_RANGES: usize = 1 << 12;
/// Limit on the streams whose last operations are remembered, and on the open NVTX ranges: more than a process has
/// alive.
const MOST_REMEMBERED: usize = 1 << 14;
/// Limit on the calls before the first operation that are kept.
const MOST_SET_UP: u32 = 10_000;

/// What was left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outside {
    /// The number of kernel launches.
    pub launches: u64,
    /// The number of copies, memsets and graph launches.
    pub others: u64,
}

/// Decides which records are kept.
#[derive(Debug, Default)]
pub struct CaptureRanges {
    /// Whether ranges are captured instead of the whole run.
    is_on: bool,
    /// Records since the last round that emptied all rings, and those since the round before.
    newest: Vec<Record>,
    older: Vec<Record>,
    /// Start and end of the ranges so far, the newest last; an end of `u64::MAX` means that the range is open.
    ranges: VecDeque<(u64, u64)>,
    before: Before,
    /// Thread → the correlation of its last free, to which the end of that call belongs.
    frees: HashMap<u32, u64>,
    set_up: Option<u32>,
    outside: Outside,
}

impl CaptureRanges {
    /// Starts capturing ranges only.
    pub fn begin(&mut self) {
        self.is_on = true;
        self.set_up = Some(0);
    }

    /// Whether ranges are captured instead of the whole run.
    pub fn is_on(&self) -> bool {
        self.is_on
    }

    /// What was left out so far.
    pub fn outside(&self) -> Outside {
        self.outside
    }

    /// The numbers of the texts of NVTX ranges that may still be written: of records that are held back, and of open ranges.
    pub fn texts(&self) -> impl Iterator<Item = u32> {
        self.older.iter().chain(&self.newest).filter_map(text_of).chain(self.before.ranges.texts())
    }

    /// Takes the next record; returns those to be written now.
    pub fn take(&mut self, record: Record) -> Vec<Record> {
        self.newest.push(record);
        if self.newest.len() >= MOST_HELD { self.emptied() } else { Vec::new() }
    }

    /// All rings have been emptied once more: returns the records to be written.
    pub fn emptied(&mut self) -> Vec<Record> {
        if self.newest.is_empty() && self.older.is_empty() {
            return Vec::new();
        }
        let mut known = std::mem::replace(&mut self.older, std::mem::take(&mut self.newest));
        known.sort_by_key(|record| record.at);
        let mut kept = Vec::new();
        known.into_iter().for_each(|record| self.decide(record, &mut kept));
        kept
    }

    /// Nothing follows: returns the remaining records to be written.
    pub fn finish(&mut self) -> Vec<Record> {
        let mut rest = self.emptied();
        rest.extend(self.emptied());
        rest
    }

    fn decide(&mut self, record: Record, kept: &mut Vec<Record>) {
        if let Body::CaptureEdge { begins } = record.body {
            self.change(record.at, begins, kept);
        }
        self.count(&record);
        if self.is_kept(&record) {
            kept.push(record);
        } else {
            kept.extend(self.before.take(record));
        }
    }

    fn change(&mut self, at: u64, begins: bool, kept: &mut Vec<Record>) {
        let open = self.ranges.back_mut().filter(|(_, end)| *end == u64::MAX);
        match open {
            Some((_, end)) if !begins => *end = at,
            None if begins => {
                if self.ranges.len() >= MOST_RANGES {
                    self.ranges.pop_front();
                }
                self.ranges.push_back((at, u64::MAX));
                kept.extend(self.before.take_all(at.saturating_sub(1)));
            }
            _ => {}
        }
    }

    fn is_inside(&self, moment: u64) -> bool {
        // Nearly all moments are in the newest range.
        let begun = self.ranges.iter().rev().find(|(from, _)| *from <= moment);
        begun.is_some_and(|(_, to)| moment < *to)
    }

    fn is_open(&self) -> bool {
        self.ranges.back().is_some_and(|(_, end)| *end == u64::MAX)
    }

    /// Counts a record that readers will treat as outside.
    fn count(&mut self, record: &Record) {
        let Body::Work(Work { call, untimed, what, .. }) = &record.body else { return };
        if self.is_inside(call.begin) || matches!(untimed, Untimed::Captured | Untimed::Timed) {
            return;
        }
        match what {
            What::Kernel { .. } => self.outside.launches += 1,
            What::Burst { .. } => {}
            What::Memcpy { .. } | What::Memset { .. } | What::Graph { .. } => self.outside.others += 1,
        }
    }

    fn is_kept(&mut self, record: &Record) -> bool {
        let is_inside = |captures: &CaptureRanges| {
            let begin = record.body.call().map_or(record.at, |call| call.begin);
            captures.is_open() || captures.is_inside(begin) || captures.is_inside(record.at)
        };
        match &record.body {
            Body::Work(work) => {
                self.set_up = None;
                let is_timed = work.untimed == Untimed::Timed || work.call.flags & flag::BURST != 0;
                is_timed || is_inside(self)
            }
            Body::Free(free) => {
                self.frees.insert(record.thread, free.call.correlation);
                true
            }
            Body::Api(api) => self.ends_free(record.thread, api) || is_inside(self) || self.sets_up(),
            Body::Stream(stream) if stream.destroyed => {
                self.before.forget(stream.context, Some(stream.stream));
                true
            }
            Body::Context(context) if context.destroyed => {
                self.before.forget(context.context, None);
                true
            }
            Body::Synchronize(_) | Body::EventRecord(_) | Body::EventWait(_) | Body::NvtxRange(_) => {
                is_inside(self)
            }
            _ => true,
        }
    }

    fn ends_free(&mut self, thread: u32, api: &Api) -> bool {
        self.frees.get(&thread) == Some(&api.call.correlation) && self.frees.remove(&thread).is_some()
    }

    fn sets_up(&mut self) -> bool {
        let Some(kept) = self.set_up.as_mut().filter(|kept| **kept < MOST_SET_UP) else { return false };
        *kept += 1;
        true
    }
}

/// What a range's start may need from the time before it.
#[derive(Debug, Default)]
struct Before {
    /// The last operation by context, stream and kind: one kind says nothing about another.
    works: BTreeMap<(u32, u64, u8), Record>,
    /// The last wait by context and stream; `None` = all of the context.
    waits: BTreeMap<(u32, Option<u64>), Record>,
    ranges: OpenRanges,
}

impl Before {
    /// Remembers a record that is left out; returns it if it has to be written after all.
    fn take(&mut self, record: Record) -> Option<Record> {
        match &record.body {
            Body::Work(work) if work.untimed != Untimed::Captured => {
                let kind = match work.what {
                    What::Kernel { .. } | What::Burst { .. } => 0,
                    What::Memcpy { .. } => 1,
                    What::Memset { .. } => 2,
                    What::Graph { .. } => 3,
                };
                let key = (work.call.context, work.stream, kind);
                if self.works.len() < MOST_REMEMBERED || self.works.contains_key(&key) {
                    self.works.insert(key, record);
                }
                None
            }
            Body::Synchronize(sync) => {
                let key = waited_for(sync)?;
                let is_over = |(context, stream, _): &(u32, u64, u8), work: &Record| {
                    let returned = work.body.call().map_or(u64::MAX, |call| call.end);
                    *context == key.0 && key.1.is_none_or(|one| one == *stream) && returned <= sync.call.begin
                };
                self.works.retain(|of, work| !is_over(of, work));
                if self.waits.len() < MOST_REMEMBERED || self.waits.contains_key(&key) {
                    self.waits.insert(key, record);
                }
                None
            }
            // The end of a range whose start was written is written, too.
            Body::NvtxRange(range) => (!self.ranges.change(range, &record)).then_some(record),
            _ => None,
        }
    }

    /// Drops a destroyed stream, or all streams of a destroyed context.
    fn forget(&mut self, context: u32, stream: Option<u64>) {
        let is_gone = |of: u32, one: Option<u64>| of == context && (stream.is_none() || stream == one);
        self.works.retain(|(of, one, _), _| !is_gone(*of, Some(*one)));
        self.waits.retain(|(of, one), _| !is_gone(*of, *one));
    }

    /// Takes all remembered records, in their order, with `at` as their time.
    fn take_all(&mut self, at: u64) -> Vec<Record> {
        let works = std::mem::take(&mut self.works).into_values();
        let waits = std::mem::take(&mut self.waits).into_values();
        let ranges = std::mem::take(&mut self.ranges);
        let mut all: Vec<Record> = works.chain(waits).chain(ranges.records().cloned()).collect();
        all.sort_by_key(|record| record.at);
        all.iter_mut().for_each(|record| record.at = at);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::simulation;
    use crate::trace::record::{Alloc, Call, Free, NvtxRange, Synchronize};
    use gpuspy_wire::record::{Memory, NvtxChange, SyncScope};

    fn call(correlation: u64, begin: u64, end: u64) -> Call {
        Call { correlation, api: 1, begin, end, context: 1, ..Call::default() }
    }

    fn at(thread: u32, at: u64, body: Body) -> Record {
        Record { thread, at, body }
    }

    fn launch(correlation: u64, begin: u64, stream: u64) -> Record {
        let mut work = simulation::work(begin, 0, 0);
        (work.call, work.stream, work.untimed) =
            (call(correlation, begin, begin + 5), stream, Untimed::OutsideRange);
        at(1, begin + 5, Body::Work(work))
    }

    fn wait(correlation: u64, begin: u64, stream: u64) -> Record {
        let call = call(correlation, begin, begin + 5);
        at(1, begin + 5, Body::Synchronize(Synchronize { call, scope: SyncScope::Stream, stream, event: 0 }))
    }

    fn range(change: NvtxChange, moment: u64, text: u32) -> Record {
        let (id, domain, category, color, payload) = (0, 0, 0, 0, false);
        at(1, moment, Body::NvtxRange(NvtxRange { change, id, domain, text, category, color, payload }))
    }

    fn change(moment: u64, begins: bool) -> Record {
        at(9, moment, Body::CaptureEdge { begins })
    }

    /// The records kept of those in this order, as (time, correlation).
    fn kept(records: Vec<Record>) -> (Vec<(u64, u64)>, Outside) {
        let mut captures = CaptureRanges::default();
        captures.begin();
        let mut kept: Vec<Record> = records.into_iter().flat_map(|record| captures.take(record)).collect();
        kept.extend(captures.finish());
        let of = |record: &Record| match &record.body {
            Body::NvtxRange(range) => u64::from(range.text),
            body => body.call().map_or(0, |call| call.correlation),
        };
        (kept.iter().map(|record| (record.at, of(record))).collect(), captures.outside())
    }

    #[test]
    fn a_stream_that_may_be_busy_at_the_start_keeps_its_last_operation() {
        let records = vec![
            launch(1, 10, 7),
            launch(2, 20, 7),
            launch(3, 25, 8),
            wait(4, 30, 8),
            launch(5, 40, 9),
            change(100, true),
            launch(6, 110, 7),
            change(200, false),
            launch(7, 210, 7),
            change(300, true),
        ];
        let (kept, outside) = kept(records);
        // The launch on stream 8 is over, and the wait that shows it is kept.
        let first = [(99, 2), (99, 4), (99, 5), (100, 0), (115, 6), (200, 0)];
        assert_eq!(kept, [&first[..], &[(299, 7), (300, 0)]].concat());
        assert_eq!(outside, Outside { launches: 5, others: 0 });
    }

    #[test]
    fn records_out_of_order_are_decided_by_their_times() {
        // The range's start is read from a ring before earlier launches of another thread.
        let (kept, _) =
            kept(vec![change(100, true), change(200, false), launch(1, 150, 7), launch(2, 50, 7)]);
        assert_eq!(kept, [(99, 2), (100, 0), (155, 1), (200, 0)]);
    }

    #[test]
    fn a_call_that_is_partly_inside_is_kept() {
        let mut long = wait(1, 90, 7);
        (long.at, long.body) = (
            110,
            match long.body {
                Body::Synchronize(sync) => Body::Synchronize(Synchronize { call: call(1, 90, 110), ..sync }),
                body => body,
            },
        );
        let late = {
            let Body::Synchronize(sync) = wait(2, 190, 7).body else { unreachable!() };
            at(1, 250, Body::Synchronize(Synchronize { call: call(2, 190, 250), ..sync }))
        };
        let (kept, _) = kept(vec![change(100, true), long, change(200, false), late, wait(3, 260, 7)]);
        assert_eq!(kept, [(100, 0), (110, 1), (200, 0), (250, 2)]);
    }

    #[test]
    fn memory_is_always_kept_and_other_calls_only_until_the_first_operation() {
        let api = |correlation, begin| {
            let call = call(correlation, begin, begin + 5);
            at(1, begin + 5, Body::Api(Api { call, result: 0, subject: 0, calls: 1, inside: 0, entered: 0 }))
        };
        let (memory, address, bytes, stream, pool) = (Memory::Device, 64, 8, 0, 0);
        let alloc = Alloc { call: call(2, 20, 25), memory, address, bytes, stream, pool };
        let free = Free { call: call(5, 60, 60), memory, address, stream, bytes: 0 };
        let (kept, outside) = kept(vec![
            api(1, 10),
            at(1, 25, Body::Alloc(alloc)),
            launch(3, 30, 7),
            api(4, 40),
            at(1, 60, Body::Free(free)),
            api(5, 60),
            api(6, 70),
        ]);
        assert_eq!(kept, [(15, 1), (25, 2), (60, 5), (65, 5)]);
        assert_eq!(outside, Outside { launches: 1, others: 0 });
    }

    #[test]
    fn nvtx_ranges_that_are_open_at_the_start_are_kept_with_their_ends() {
        use NvtxChange::{Mark, Pop, Push};
        let (kept, _) = kept(vec![
            range(Push, 10, 1),
            range(Push, 20, 2),
            range(Pop, 30, 102),
            range(Push, 40, 3),
            change(100, true),
            range(Mark, 110, 4),
            range(Push, 120, 5),
            change(200, false),
            range(Push, 210, 6),
            range(Mark, 215, 7),
            range(Pop, 220, 106),
            range(Pop, 230, 105),
            range(Pop, 240, 103),
            range(Pop, 250, 101),
        ]);
        let inside = [(100, 0), (110, 4), (120, 5), (200, 0)];
        assert_eq!(kept, [&[(99, 1), (99, 3)], &inside[..], &[(230, 105), (240, 103), (250, 101)]].concat());
    }

    /// The texts of all others are forgotten when the trace of the next window begins.
    #[test]
    fn the_texts_of_ranges_that_may_still_be_written_are_known() {
        use NvtxChange::{Mark, Pop, Push};
        let mut captures = CaptureRanges::default();
        captures.begin();
        let texts = |captures: &CaptureRanges| captures.texts().collect::<std::collections::BTreeSet<u32>>();
        for record in [range(Push, 10, 1), range(Push, 20, 2), range(Pop, 30, 0), range(Mark, 40, 3)] {
            captures.take(record);
        }
        assert_eq!(texts(&captures), [0, 1, 2, 3].into());
        captures.emptied();
        captures.take(range(Mark, 50, 4));
        assert_eq!(texts(&captures), [0, 1, 2, 3, 4].into(), "none is decided yet");
        captures.emptied();
        captures.emptied();
        assert_eq!(texts(&captures), [1].into(), "it is open");
    }

    #[test]
    fn the_number_of_held_records_is_limited() {
        let mut captures = CaptureRanges::default();
        captures.begin();
        let records = 3 * MOST_HELD as u64;
        let kept: usize = (0..records).map(|n| captures.take(launch(n, 10 * n, 7)).len()).sum();
        assert!(captures.newest.len() + captures.older.len() <= 2 * MOST_HELD);
        assert_eq!((kept, captures.outside().launches), (0, records - MOST_HELD as u64));
    }
}
