//! How are NVTX ranges shown, on the host and projected onto the GPU?
//!
//! A pushed range lies on its thread's row, among the calls. A started range may cross any other, so each gets a row
//! that no other open range has. The projections of a thread's ranges onto a stream have a row of their own,
//! separately for each domain, and so have those of each row of started ranges. Operations of a stream run in the
//! order of their calls, so ranges that nest on the host also nest on the GPU.

use super::super::json::{Micros, Text};
use super::super::layout::Place;
use super::super::rows::Sequence;
use super::Pass;
use crate::analyze::ranges::RangeName;
use crate::hash::{HashMap, HashSet};
use crate::model::filter::Passed;
use crate::model::gpu_interval::{GpuInterval, host};
use crate::model::ranges::{Begun, Inside, Over, Ranges};
use crate::trace::record::{NvtxRange, Record};
use gpuspy_wire::record::NvtxChange;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

/// The first row of started ranges: no thread, known or unknown, has so high a number.
const FIRST_LANE: u32 = 1 << 23;

/// The ranges that share rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Owner {
    /// The ranges that a thread pushed in a domain.
    Pushed { thread: u32, domain: u32 },
    /// The started ranges on this row.
    Started { lane: u32 },
}

/// The time from the first start to the last end of a range's operations on each stream, host ns.
#[derive(Debug, Default)]
struct Projections {
    is_asked_for: bool,
    by_stream: BTreeMap<Place, (i64, i64)>,
}

impl Projections {
    fn cover(&mut self, place: Place, (begin, end): (i64, i64)) {
        let span = self.by_stream.entry(place).or_insert((begin, end));
        *span = (span.0.min(begin), span.1.max(end));
    }
}

impl Inside for Projections {
    fn absorb(&mut self, inner: &Projections) {
        inner.by_stream.iter().for_each(|(place, span)| self.cover(*place, *span));
    }
}

/// The rows of a process's ranges.
#[derive(Debug)]
pub(super) struct RangeRows {
    open: Ranges<Projections>,
    /// The row of each open started range, and the rows that were given out before.
    lanes: HashMap<u64, u32>,
    free: BTreeSet<u32>,
    named: HashSet<u32>,
    /// The rows of projections: their numbers and what is on them.
    projected: HashMap<(Place, Owner), (u32, Sequence)>,
    names: HashMap<(u32, u32), Text>,
}

impl Default for RangeRows {
    fn default() -> Self {
        RangeRows {
            // Ranges are written when they end, so none is kept for late calls.
            open: Ranges::new(0),
            lanes: HashMap::default(),
            free: BTreeSet::new(),
            named: HashSet::default(),
            projected: HashMap::default(),
            names: HashMap::default(),
        }
    }
}

impl RangeRows {
    /// Returns the row of a started range: the lowest that is free.
    fn lane(&mut self, id: u64) -> u32 {
        let next = self.lanes.len() as u32;
        let free = &mut self.free;
        *self.lanes.entry(id).or_insert_with(|| free.pop_first().unwrap_or(next))
    }

    fn owner(lanes: &HashMap<u64, u32>, thread: u32, range: &NvtxRange) -> Owner {
        if range.change == NvtxChange::Start {
            return Owner::Started { lane: lanes.get(&range.id).copied().unwrap_or(0) };
        }
        Owner::Pushed { thread, domain: range.domain }
    }
}

impl<W: Write> Pass<'_, '_, W> {
    /// Adds an operation to the ranges around it.
    pub(super) fn project(&mut self, record: &Record, called: u64, place: Place, ran: &GpuInterval) {
        let RangeRows { open, lanes, projected, .. } = &mut self.ranges;
        for begun in open.around(record.thread, called) {
            let owner = RangeRows::owner(lanes, begun.thread, &begun.range);
            let (_, row) = projected
                .entry((place, owner))
                .or_insert_with(|| (self.export.layout.rows.take(None), Sequence::default()));
            begun.inside.cover(place, row.place(ran.start, ran.end));
        }
    }

    /// Takes a change of a range, or a marker, and writes what has ended.
    pub(super) fn range(&mut self, record: &Record, range: &NvtxRange, passed: Passed) -> io::Result<()> {
        let (thread, at) = (record.thread, record.at);
        let over = match range.change {
            NvtxChange::Push | NvtxChange::Start => {
                let inside = Projections { is_asked_for: passed.concerns, ..Projections::default() };
                if self.ranges.open.begin(Begun { thread, at, range: range.clone(), inside }) {
                    self.begin(thread, at, range);
                }
                return Ok(());
            }
            NvtxChange::Mark if passed.call => return self.mark(thread, at, range),
            NvtxChange::Mark => return Ok(()),
            NvtxChange::Pop => self.ranges.open.pop(thread, range.domain, at),
            NvtxChange::End => self.ranges.open.end(range.id, at),
        };
        // A range that never began has no row.
        over.ok().flatten().map_or(Ok(()), |over| self.over(over))
    }

    /// Writes the ranges that never ended; they last until `now`.
    pub(super) fn end_ranges(&mut self, now: u64) -> io::Result<()> {
        let open = std::mem::replace(&mut self.ranges.open, Ranges::new(0));
        let (_, open) = open.finish(now);
        open.into_iter().try_for_each(|over| self.over(over))
    }

    fn begin(&mut self, thread: u32, at: u64, range: &NvtxRange) {
        if range.change == NvtxChange::Start {
            self.ranges.lane(range.id);
        } else {
            let at = self.moment(host(at));
            self.threads.entry(thread).or_default().push(range.domain, at);
        }
    }

    fn over(&mut self, Over { begun, end }: Over<Projections>) -> io::Result<()> {
        let Begun { thread, at, range, inside } = begun;
        let owner = RangeRows::owner(&self.ranges.lanes, thread, &range);
        let span = (self.moment(host(at)), self.moment(host(end)));
        let (tid, span) = match owner {
            Owner::Started { lane } => {
                self.ranges.lanes.remove(&range.id);
                self.ranges.free.insert(lane);
                (FIRST_LANE.saturating_add(lane), span)
            }
            Owner::Pushed { domain, .. } => {
                let placed = self.threads.entry(thread).or_default().pop(domain, span.1);
                (self.rows().tid(thread), placed.unwrap_or(span))
            }
        };
        if !inside.is_asked_for {
            return Ok(());
        }
        let name = self.range_name(&range);
        if self.is_in_time(host(at), host(end)) {
            let pid = self.rows().pid;
            if let Owner::Started { lane } = owner
                && self.ranges.named.insert(tid)
            {
                self.name_row(pid, tid, None, &format!("ranges {}", lane + 1))?;
            }
            self.annotation("user_annotation", &name, (pid, tid), span)?;
        }
        for (place, (begin, end)) in inside.by_stream {
            let Some((row, _)) = self.ranges.projected.get(&(place, owner)) else { continue };
            if self.is_in_time(begin, end) {
                let (row, span) = (*row, (self.moment(begin), self.moment(end)));
                if self.ranges.named.insert(row) {
                    self.name_row(place.gpu, row, Some(place.row), &self.projections_name(place, owner))?;
                }
                self.annotation("gpu_user_annotation", &name, (place.gpu, row), span)?;
            }
        }
        Ok(())
    }

    fn projections_name(&self, place: Place, owner: Owner) -> String {
        match owner {
            Owner::Pushed { thread, .. } => {
                format!("ranges of thread {} on stream {}", self.rows().tid(thread), place.row)
            }
            Owner::Started { lane } => format!("ranges {} on stream {}", lane + 1, place.row),
        }
    }

    fn mark(&mut self, thread: u32, at: u64, range: &NvtxRange) -> io::Result<()> {
        let (name, ts) = (self.range_name(range), Micros(self.moment(host(at))));
        let (pid, tid) = (self.rows().pid, self.rows().tid(thread));
        self.export.summary.annotations += 1;
        self.export.out.push(format_args!(
            r#"{{"ph":"i","cat":"user_annotation","s":"t","name":{name},"pid":{pid},"tid":{tid},"ts":{ts}}}"#
        ))
    }

    fn annotation(
        &mut self,
        category: &str,
        name: &Text,
        (pid, tid): (u32, u32),
        (begin, end): (i64, i64),
    ) -> io::Result<()> {
        let (ts, dur) = (Micros(begin), Micros(end.saturating_sub(begin)));
        self.export.summary.annotations += 1;
        self.export.out.push(format_args!(
            r#"{{"ph":"X","cat":"{category}","name":{name},"pid":{pid},"tid":{tid},"ts":{ts},"dur":{dur}}}"#
        ))
    }

    /// Names a row when it is first used, and places it beside another.
    fn name_row(&mut self, pid: u32, tid: u32, beside: Option<u32>, name: &str) -> io::Result<()> {
        let out = &mut self.export.out;
        out.push(format_args!(
            r#"{{"ph":"M","name":"thread_name","ts":0,"pid":{pid},"tid":{tid},"args":{{"name":{}}}}}"#,
            Text::of(name)
        ))?;
        beside.map_or(Ok(()), |index| {
            out.push(format_args!(
                r#"{{"ph":"M","name":"thread_sort_index","ts":0,"pid":{pid},"tid":{tid},"args":{{"sort_index":{index}}}}}"#
            ))
        })
    }

    fn range_name(&mut self, range: &NvtxRange) -> Text {
        let names = &self.source.names;
        let name = self.ranges.names.entry((range.domain, range.text));
        name.or_insert_with(|| Text::of(&RangeName::of(range, names).to_string())).clone()
    }
}
