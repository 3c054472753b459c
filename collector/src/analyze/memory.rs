//! Memory: how much the program held, when it held the most, and how much was left at the end.
//!
//! If only a part of the time is selected, allocations and frees in it are counted, and what was allocated before is
//! held from its start on. The same applies to each of several parts. A block is held from the return of the call
//! that allocates it to the return of the call that frees it. Memory that a graph allocates or frees changes when the
//! launch has returned ([`graph`](crate::model::memory::graph) computes how much is held at once). Where calls of
//! several threads overlap, each takes effect at an unknown moment of it, so that the order of returns is only the
//! best estimate: then the peak is an interval ([`doubt`]), and so it is where a graph takes and frees several blocks.
//!
//! Of a process, and not of several on one line, each block is followed from its allocation to its free ([`held`]): who
//! held memory at the peak, how long blocks live ([`lifetimes`]), and whether memory grows ([`trend`]). Of page-locked host memory, the
//! last of these.

pub mod churn;
mod doubt;
pub mod gpus;
mod held;
pub mod holders;
pub mod lifetimes;
mod line;
pub mod pools;
mod stretches;
#[cfg(test)]
mod tests;
mod trend;
mod usage;

use super::analysis::{Analysis, End, Start};
use super::owners::Owners;
use super::scope::Scope;
use crate::hash::HashMap;
use crate::model::Event;
use crate::model::gpu_interval::host;
use crate::model::memory::{MemoryChange, failed, fills_gpu, is_device_memory, is_page_locked, returned};
use crate::model::period::Period;
use crate::model::stacks::Caller;
use crate::trace::record::{Body, Call, Record};
pub use doubt::Reasons;
use doubt::{Doubt, Effect, When};
use gpuspy_wire::record::Memory;
use held::{Held, Passing};
use line::Lines;
pub use line::MemoryLine;
pub use pools::pool_of;
use std::collections::BTreeMap;
pub use usage::{MemoryUse, Use};

/// CUDA_ERROR_OUT_OF_MEMORY = cudaErrorMemoryAllocation.
const OUT_OF_MEMORY: i32 = 2;

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

/// Whose call it was.
#[derive(Clone, Copy, Debug, Default)]
struct By {
    thread: u32,
    call: Call,
    /// The number of the line of the program.
    line: u32,
}

impl By {
    /// A thread's call that frees; the end of a context has none.
    fn of(thread: u32, call: Option<&Call>) -> By {
        By { thread, call: call.copied().unwrap_or_default(), line: 0 }
    }

    /// Where the call was made.
    fn caller(&self) -> Caller {
        Caller { address: self.call.caller, line: self.line }
    }
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
    /// Each block of device memory; `None` for several processes, whose blocks are in their own reports.
    held: Option<Held>,
    /// The same of page-locked memory, from the first of it on.
    page_locked: Option<Held>,
    lines: Lines,
    doubts: BTreeMap<Part, Doubt>,
    /// By process and thread: a thread frees one block at a time.
    freeing: HashMap<(u32, u32), Freeing>,
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
            held: None,
            page_locked: None,
            lines: Lines::default(),
            doubts: BTreeMap::new(),
            freeing: HashMap::default(),
        };
        fold.lines.from_ns = fold.since_began(from);
        fold
    }

    /// Returns the use of memory until the collection ended, at host ns `ended`; `library` names the file that an address
    /// lies in.
    pub fn rows(mut self, ended: u64, library: impl Fn(u64) -> Option<String>) -> MemoryUse {
        self.end(ended);
        let end = self.since_began(host(ended).min(self.period.ends().1)).saturating_sub(1);
        let MemoryUse { device, by_kind, by_library, timeline, timelines, .. } = &mut self.sum;
        let named = by_kind.iter_mut().map(|(kind, part)| (Some(*kind), part));
        for (part, held) in named.chain([(None, &mut *device)]) {
            let doubt = self.doubts.entry(part).or_default();
            (held.peak_between, held.doubt) = (doubt.around(held.peak_bytes), doubt.reasons());
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

    /// Takes the end of the collection.
    fn end(&mut self, ended: u64) {
        self.free_unreturned(|_| true, host(ended));
        self.enter(i64::MAX);
    }

    /// Takes the end of a process of the line at host ns `at`.
    pub fn process_ended(&mut self, process: u32, at: i64) {
        self.free_unreturned(|of| of == process, at);
    }

    /// Applies the calls of some processes that free and whose returns are not in the trace.
    fn free_unreturned(&mut self, is_meant: impl Fn(u32) -> bool, at: i64) {
        let unseen = self.freeing.extract_if(|(process, _), _| is_meant(*process));
        let mut unseen: Vec<((u32, u32), Freeing)> = unseen.collect();
        unseen.sort_unstable_by_key(|(key, _)| *key);
        unseen.iter().for_each(|((_, thread), freeing)| self.freed(*thread, freeing, at, at));
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
            let MemoryUse { device, resident, by_kind, .. } = &mut self.sum;
            resident.raise_peak(from, 0);
            for (kind, part) in by_kind {
                part.raise_peak(from, 0);
                self.lines.of(kind).enter(part.live_bytes, on_line);
                self.doubts.entry(Some(kind)).or_default().enters(part.live_bytes, begin);
            }
            self.held.iter_mut().for_each(|held| held.enters(from));
            if device.raise_peak(from, 0) {
                self.owners.peaked();
                self.held.iter_mut().for_each(|held| held.peaked(None));
            }
            self.lines.device.enter(device.live_bytes, on_line);
            self.doubts.entry(None).or_default().enters(device.live_bytes, begin);
        }
    }

    /// Starts a call that frees. What it frees goes when the call returns.
    fn begin_free(&mut self, process: u32, record: &Record, call: Option<Call>, changes: &[MemoryChange]) {
        self.enter(host(record.at));
        for change in changes {
            let bytes = freed_bytes(change);
            parts(change.memory()).for_each(|part| self.doubt(part).begins_to_free(bytes, host(record.at)));
        }
        let freeing = Freeing { call, changes: changes.to_vec() };
        if let Some(before) = self.freeing.insert((process, record.thread), freeing) {
            self.freed(record.thread, &before, host(record.at), host(record.at));
        }
    }

    /// Applies the thread's pending free if this record is the return of that call, or of a later call of the thread,
    /// which shows that the free has returned.
    fn end_free(&mut self, process: u32, record: &Record) {
        let key = (process, record.thread);
        let (Some(freeing), Some(call)) = (self.freeing.get(&key), record.body.call()) else { return };
        let Some(is_end) = returned(freeing.call.as_ref(), record) else { return };
        let Some(freeing) = self.freeing.remove(&key) else { return };
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
            Some(_) => self.freed(record.thread, &freeing, at, at),
            None => self.freed(record.thread, &freeing, host(call.begin).min(at), at),
        }
    }

    /// Applies the effect of a call that freed and has returned.
    fn freed(&mut self, thread: u32, freeing: &Freeing, began: i64, ended: i64) {
        for change in &freeing.changes {
            let bytes = freed_bytes(change);
            parts(change.memory()).for_each(|part| self.doubt(part).ends_to_free(bytes));
        }
        self.ended(&freeing.changes, By::of(thread, freeing.call.as_ref()), began, ended);
    }

    /// Applies the changes of a call that has returned: each took effect at some moment of it, and those of a free at
    /// its return.
    fn ended(&mut self, changes: &[MemoryChange], by: By, began: i64, ended: i64) {
        let end = self.period.ends().1;
        let is_inside = ended < end;
        if let Some(held) = self.held.as_mut().filter(|_| !is_inside) {
            let changes = changes.iter().filter(|change| is_device_memory(change.memory()));
            changes.for_each(|change| held.change_after(change));
        }
        if let Some(held) = self.page_locked.as_mut().filter(|_| !is_inside) {
            let changes = changes.iter().filter(|change| is_page_locked(change.memory()));
            changes.for_each(|change| held.change_after(change));
        }
        if began >= end {
            return;
        }
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
                self.change(*change, by, counts, self.since_began(ended));
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

    fn change(&mut self, change: MemoryChange, by: By, is_counted: bool, at: u64) {
        let MemoryUse { device, resident, by_kind, .. } = &mut self.sum;
        let memory = change.memory();
        let part = by_kind.entry(memory.name()).or_default();
        part.change(change, is_counted);
        if fills_gpu(memory) {
            resident.change(change, is_counted);
        }
        if is_device_memory(memory) {
            device.change(change, is_counted);
            self.owners.change(&change, by.call.caller, is_counted);
            if let Some(held) = &mut self.held {
                held.change(&change, &by, self.began.saturating_add(at));
            }
        }
        if is_page_locked(memory)
            && let Some(device) = &self.held
        {
            let held = self.page_locked.get_or_insert_with(|| device.beside());
            held.change(&change, &by, self.began.saturating_add(at));
        }
        if !is_counted {
            return;
        }
        let on_line = at.saturating_sub(self.lines.from_ns);
        let passing = if let MemoryChange::Passed { at_once, .. } = change { at_once } else { 0 };
        part.raise_peak(at, passing);
        if fills_gpu(memory) {
            resident.raise_peak(at, passing);
        }
        self.lines.of(memory.name()).change(part.live_bytes, passing, on_line);
        if is_device_memory(memory) {
            if device.raise_peak(at, passing) {
                self.owners.peaked_with(change.allocator().caller, passing);
                let passing = Passing { memory, by: &by, bytes: passing, at: self.began.saturating_add(at) };
                self.held.iter_mut().for_each(|held| held.peaked(Some(passing)));
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
        MemoryTimeline {
            held: Some(Held::new(start)),
            ..MemoryTimeline::over(start.began, start.period.clone())
        }
    }

    fn observe(&mut self, event: &Event<'_>, scope: &Scope<'_>) {
        let (record, changes) = (event.record, scope.memory());
        for held in [&mut self.held, &mut self.page_locked].into_iter().flatten() {
            held.observe(event, scope.call());
        }
        self.end_free(event.process, record);
        match &record.body {
            _ if changes.is_empty() => {}
            Body::Free(free) => self.begin_free(event.process, record, Some(free.call), changes),
            Body::Context(_) => self.begin_free(event.process, record, None, changes),
            body => {
                let call = body.call().copied().unwrap_or_default();
                let began = if call.begin == 0 { record.at } else { call.begin.min(record.at) };
                self.ended(
                    changes,
                    By { thread: record.thread, call, line: event.caller.line },
                    host(began),
                    host(record.at),
                );
            }
        }
        if let (Body::Api(api), Some(call)) = (&record.body, event.call)
            && call.failed
            && api.result == OUT_OF_MEMORY
            && scope.call()
        {
            self.sum.out_of_memory += 1;
            let held = |kind| self.sum.by_kind.get(kind).map_or(0, |part| part.live_bytes);
            let unmapped = held(Memory::Reserved.name()).saturating_sub(held(Memory::Mapped.name()));
            let by = By { thread: record.thread, call: api.call, line: event.caller.line };
            self.held.iter_mut().for_each(|held| held.refused(&by, api.subject, record.at, unmapped));
        }
    }

    fn finish(mut self, end: &End<'_>) -> MemoryUse {
        self.end(end.ended);
        let mut held = self.held.take();
        let page_locked = self.page_locked.take().and_then(|held| held.finish(end).growth);
        let by_gpu = held.as_mut().map(Held::by_gpu).unwrap_or_default();
        let rows = self.rows(end.ended, |caller| end.library(caller));
        let mut holders = held.map(|held| held.finish(end)).unwrap_or_default();
        holders.at_peak.iter_mut().for_each(|holder| holder.of = rows.device.peak_bytes);
        holders.page_locked = page_locked;
        MemoryUse { by_gpu, holders, ..rows }
    }
}

/// Returns the bytes that a change frees.
fn freed_bytes(change: &MemoryChange) -> u64 {
    match change {
        MemoryChange::Freed { bytes, .. } | MemoryChange::Vanished { bytes, .. } => *bytes,
        _ => 0,
    }
}
