//! How are NVTX ranges shown, on the host and projected onto the GPU?
//!
//! A pushed range lies on its thread's row, among the calls. A started range may cross any other, so each gets a row
//! that no other open range has. The projections of a thread's ranges onto a stream have a row of their own,
//! separately for each domain, and so have those of each row of started ranges. Operations of a stream run in the
//! order of their calls, so ranges that nest on the host also nest on the GPU. The first operation of a range is often the first one of
//! the range around it, too, and then the inner projection begins 1 ns later: readers draw the one that begins first as the outer one.
//!
//! Operators of PyTorch (`operators`) and steps have no projections: their own modules say why.

use super::Pass;
use super::operators::Within;
use super::steps::is_step;
use crate::analyze::ranges::RangeName;
use crate::export::timeline::layout::Place;
use crate::export::timeline::rows::{APART, Sequence};
use crate::export::timeline::sink::{Category, Instant, NamedRow, Row, RowKind, Sink, Slice};
use crate::hash::{HashMap, HashSet};
use crate::model::filter::Passed;
use crate::model::gpu_interval::{GpuInterval, host};
use crate::model::ranges::{Begun, Inside, Over, Ranges};
use crate::trace::record::{NvtxRange, Record};
use gpuspy_wire::record::{Namespace, NvtxChange};
use std::collections::{BTreeMap, BTreeSet};
use std::io;

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
    operator: Within,
    /// In how many ranges of its thread and domain it lies.
    depth: usize,
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
        self.operator.sequence = self.operator.sequence.or(inner.operator.sequence);
    }
}

/// The rows of a process's ranges.
pub(super) struct RangeRows<S: Sink> {
    open: Ranges<Projections>,
    /// The row of each open started range, and the rows that were given out before.
    lanes: HashMap<u64, u32>,
    free: BTreeSet<u32>,
    named: HashSet<u32>,
    /// The rows of projections: their numbers and what is on them.
    projected: HashMap<(Place, Owner), (u32, Sequence)>,
    names: HashMap<(u32, u32), S::Name>,
    /// The names of what PyTorch calls functions: those of ranges whose texts are all different.
    functions: HashMap<String, S::Name>,
}

impl<S: Sink> Default for RangeRows<S> {
    fn default() -> Self {
        RangeRows {
            // Ranges are written when they end, so none is kept for late calls.
            open: Ranges::new(0),
            lanes: HashMap::default(),
            free: BTreeSet::new(),
            named: HashSet::default(),
            projected: HashMap::default(),
            names: HashMap::default(),
            functions: HashMap::default(),
        }
    }
}

impl<S: Sink> RangeRows<S> {
    /// Returns the row of a started range: the lowest that is free.
    fn lane(&mut self, id: u64) -> u32 {
        let next = self.lanes.len() as u32;
        let free = &mut self.free;
        *self.lanes.entry(id).or_insert_with(|| free.pop_first().unwrap_or(next))
    }

    /// The operator that the innermost range of a thread is, or lies in.
    pub(super) fn innermost(&self, thread: u32) -> Option<Within> {
        self.open.innermost(thread, 0).map(|begun| begun.inside.operator)
    }

    /// Prepares a name of a function.
    pub(super) fn function(&mut self, name: &str, sink: &mut S) -> S::Name {
        if let Some(known) = self.functions.get(name) {
            return known.clone();
        }
        self.functions.entry(name.to_owned()).or_insert_with(|| sink.name(name)).clone()
    }

    fn owner(lanes: &HashMap<u64, u32>, thread: u32, range: &NvtxRange) -> Owner {
        if range.change == NvtxChange::Start {
            return Owner::Started { lane: lanes.get(&range.id).copied().unwrap_or(0) };
        }
        Owner::Pushed { thread, domain: range.domain }
    }
}

impl<S: Sink> Pass<'_, '_, S> {
    /// Adds an operation to the ranges around it.
    pub(super) fn project(&mut self, record: &Record, called: u64, place: Place, ran: &GpuInterval) {
        let RangeRows { open, lanes, projected, .. } = &mut self.ranges;
        for begun in open.around(record.thread, called) {
            let owner = RangeRows::<S>::owner(lanes, begun.thread, &begun.range);
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
                let operator = self.within(thread, range);
                let is_pushed = range.change == NvtxChange::Push;
                let depth = if is_pushed { self.ranges.open.depth(thread, range.domain) } else { 0 };
                let is_asked_for = passed.concerns;
                let inside = Projections { is_asked_for, operator, depth, ..Projections::default() };
                if self.ranges.open.begin(Begun { thread, at, range: range.clone(), inside }) {
                    self.begin(thread, at, range, operator);
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

    fn begin(&mut self, thread: u32, at: u64, range: &NvtxRange, operator: Within) {
        if range.change == NvtxChange::Start {
            self.ranges.lane(range.id);
        } else {
            let (at, is_operator) = (self.moment(host(at)), operator.is_itself);
            self.threads.entry(thread).or_default().push(range.domain, is_operator, at);
        }
    }

    fn over(&mut self, Over { begun, end }: Over<Projections>) -> io::Result<()> {
        let Begun { thread, at, range, inside } = begun;
        let owner = RangeRows::<S>::owner(&self.ranges.lanes, thread, &range);
        let span = (self.moment(host(at)), self.moment(host(end)));
        let (tid, span) = match owner {
            Owner::Started { lane } => {
                self.ranges.lanes.remove(&range.id);
                self.ranges.free.insert(lane);
                (FIRST_LANE.saturating_add(lane), span)
            }
            Owner::Pushed { domain, .. } => {
                let placed = self.threads.entry(thread).or_default().pop(domain, span.1);
                self.ended_functions(thread)?;
                (self.rows().tid(thread), placed.unwrap_or(span))
            }
        };
        if !inside.is_asked_for {
            return Ok(());
        }
        let (said, row) = (self.said(&range), Row { pid: self.rows().pid, tid });
        let is_in_time = self.is_in_time(host(at), host(end));
        if let Some(said) = said.as_ref().filter(|_| inside.operator.is_itself) {
            return if is_in_time { self.operator(said, inside.operator, row, span) } else { Ok(()) };
        }
        let name = match &said {
            Some(said) => self.ranges.function(said.name, &mut self.export.sink),
            None => self.range_name(&range),
        };
        if is_in_time {
            if let Owner::Started { lane } = owner
                && self.ranges.named.insert(tid)
            {
                let name = &format!("ranges {}", lane + 1);
                self.export.sink.row(&NamedRow { row, name, kind: RowKind::Ranges })?;
            }
            self.annotation(Category::Annotation, &name, row, span)?;
        }
        if self.is_step(&range) {
            return Ok(());
        }
        self.projections(owner, inside, &name)
    }

    /// Writes the projections of a range onto streams.
    fn projections(
        &mut self,
        owner: Owner,
        Projections { by_stream, depth, .. }: Projections,
        name: &S::Name,
    ) -> io::Result<()> {
        let deeper = i64::try_from(depth).unwrap_or(i64::MAX).saturating_mul(APART);
        for (place, (begin, end)) in by_stream {
            let Some((tid, _)) = self.ranges.projected.get(&(place, owner)) else { continue };
            if self.is_in_time(begin, end) {
                let row = Row { pid: place.gpu, tid: *tid };
                let span = (self.moment(begin.saturating_add(deeper).min(end)), self.moment(end));
                if self.ranges.named.insert(row.tid) {
                    let title = &self.projections_name(place, owner);
                    let kind = RowKind::Projections { stream: place.row };
                    self.export.sink.row(&NamedRow { row, name: title, kind })?;
                }
                self.annotation(Category::GpuAnnotation, name, row, span)?;
            }
        }
        Ok(())
    }

    fn projections_name(&self, place: Place, owner: Owner) -> String {
        match owner {
            Owner::Pushed { thread, .. } => {
                format!("ranges of thread {} on stream {}", self.rows().real_tid(thread), place.row)
            }
            Owner::Started { lane } => format!("ranges {} on stream {}", lane + 1, place.row),
        }
    }

    fn mark(&mut self, thread: u32, at: u64, range: &NvtxRange) -> io::Result<()> {
        let (category, name) = (Category::Annotation, &self.range_name(range));
        let (row, at) = (Row { pid: self.rows().pid, tid: self.rows().tid(thread) }, self.moment(host(at)));
        self.export.summary.annotations += 1;
        self.export.sink.instant(&Instant { category, name, row, at, args: &[] })
    }

    fn annotation(
        &mut self,
        category: Category,
        name: &S::Name,
        row: Row,
        span: (i64, i64),
    ) -> io::Result<()> {
        self.export.summary.annotations += 1;
        let (args, more, arrow, inside) = (&[], None, None, None);
        self.export.sink.slice(&Slice { category, name, row, span, args, more, arrow, inside })
    }

    /// Whether the program marks a step with this range.
    fn is_step(&self, range: &NvtxRange) -> bool {
        self.source.names.get(Namespace::NvtxRange, range.text).is_some_and(is_step)
    }

    fn range_name(&mut self, range: &NvtxRange) -> S::Name {
        let (names, sink) = (&self.source.names, &mut self.export.sink);
        let name = self.ranges.names.entry((range.domain, range.text));
        name.or_insert_with(|| sink.name(&RangeName::of(range, names).to_string())).clone()
    }
}
