//! The table of changes of the memory that a process holds.

use super::context::{Context, Site};
use super::layout::{Cell, fitted};
use super::sheet::Entries;
use super::tables::{Rows, Table};
use crate::hash::HashMap;
use crate::model::Event;
use crate::model::gpu_interval::host;
use crate::model::memory::{Allocator, MemoryChange, is_device_memory, returned};
use crate::trace::record::{Body, Call, Record};
use gpuspy_wire::record::Memory as Kind;

/// What a change is: whether it frees, its name, its kind of memory, and the context and the stream of the block.
type Change = (bool, &'static str, Kind, u32, Option<u64>);

/// The table.
#[derive(Debug, Default)]
pub(super) struct Memory {
    changes: Entries<Change>,
    threads: Entries<u32>,
    sites: Entries<Site>,
    /// The bytes of device memory that are held. Signed, because the trace may begin in the middle.
    live: i64,
    /// By thread: the call that frees and has not returned. What it frees goes when it returns, as in the report.
    freeing: HashMap<u32, Freeing>,
}

/// A call that changes memory.
#[derive(Clone, Copy, Debug)]
struct Made {
    thread: u32,
    /// `None` for the end of a context, whose record has no call.
    call: Option<Call>,
    correlation: Option<i64>,
    address: u64,
    step: Option<u64>,
}

/// A call that frees, with its changes.
#[derive(Debug)]
struct Freeing {
    by: Made,
    changes: Vec<MemoryChange>,
}

/// A part of a change: its name, whether it frees, the kind of memory, its bytes, and the block's origin.
type Part = (&'static str, bool, Kind, u64, Allocator);

const ALLOCATED: &str = "allocated";
const FREED: &str = "freed";

impl Memory {
    /// Adds a record's changes of memory that pass the filter.
    pub fn add(
        &mut self,
        of: &mut Context<'_>,
        rows: &mut Rows<'_>,
        event: &Event<'_>,
        changes: &[MemoryChange],
    ) {
        let record = event.record;
        self.end_free(of, rows, record);
        if changes.is_empty() {
            return;
        }
        let (thread, call) = (record.thread, record.body.call().copied());
        let address = match &record.body {
            Body::Alloc(alloc) => alloc.address,
            Body::Free(free) => free.address,
            _ => 0,
        };
        let correlation = call.map(|call| of.correlation(thread, &call));
        let by = Made { thread, call, correlation, address, step: event.step };
        match &record.body {
            Body::Free(_) | Body::Context(_) => {
                let freeing = Freeing { by, changes: changes.to_vec() };
                if let Some(before) = self.freeing.insert(thread, freeing) {
                    self.changes(of, rows, (&before.by, record.at), &before.changes);
                }
            }
            _ => self.changes(of, rows, (&by, record.at), changes),
        }
    }

    /// Adds what the thread's call has freed, if this record shows that it has returned.
    fn end_free(&mut self, of: &mut Context<'_>, rows: &mut Rows<'_>, record: &Record) {
        let is_over = |freeing: &Freeing| returned(freeing.by.call.as_ref(), record).is_some();
        if self.freeing.get(&record.thread).is_some_and(is_over)
            && let Some(Freeing { by, changes }) = self.freeing.remove(&record.thread)
        {
            self.changes(of, rows, (&by, record.at), &changes);
        }
    }

    /// Adds what was freed by calls whose returns are not in the trace, which ended at host ns `ended`.
    pub fn finish(&mut self, of: &mut Context<'_>, rows: &mut Rows<'_>, ended: u64) {
        let mut freeing: Vec<Freeing> = self.freeing.drain().map(|(_, freeing)| freeing).collect();
        freeing.sort_unstable_by_key(|freeing| freeing.by.thread);
        freeing.iter().for_each(|freeing| self.changes(of, rows, (&freeing.by, ended), &freeing.changes));
    }

    /// Adds the changes of a call, which took effect at host ns `at`.
    fn changes(
        &mut self,
        of: &mut Context<'_>,
        rows: &mut Rows<'_>,
        by: (&Made, u64),
        changes: &[MemoryChange],
    ) {
        for change in changes {
            match *change {
                MemoryChange::Allocated { memory, bytes, of: block } => {
                    self.part(of, rows, by, (ALLOCATED, false, memory, bytes, block));
                }
                MemoryChange::FreeFailed { memory, bytes, of: block } => {
                    self.part(of, rows, by, ("free_failed", false, memory, bytes, block));
                }
                MemoryChange::Freed { memory, bytes, of: block } => {
                    self.part(of, rows, by, (FREED, true, memory, bytes, block));
                }
                MemoryChange::Vanished { memory, bytes, of: block } => {
                    self.part(of, rows, by, ("vanished", true, memory, bytes, block));
                }
                MemoryChange::Passed { memory, at_once, of: block, .. } => {
                    self.part(of, rows, by, (ALLOCATED, false, memory, at_once, block));
                    self.part(of, rows, by, (FREED, true, memory, at_once, block));
                }
            }
        }
    }

    fn part(
        &mut self,
        of: &mut Context<'_>,
        rows: &mut Rows<'_>,
        (made, at): (&Made, u64),
        (change, frees, kind, bytes, by): Part,
    ) {
        let bytes = host(bytes);
        let delta = if frees { -bytes } else { bytes };
        if is_device_memory(kind) {
            self.live = self.live.saturating_add(delta);
        }
        if !of.period.contains(host(at)) {
            return;
        }
        let Made { thread, call, correlation, address, step } = *made;
        let table = Table::Alloc;
        let key = (frees, change, kind, by.context, by.stream);
        let what = rows.entry((table, 0), &mut self.changes, key, || {
            let (frees, change, kind, context, stream) = key;
            vec![
                Cell::Number(frees.into()),
                Cell::text(Some(change)),
                Cell::text(Some(kind.name())),
                is_device_memory(kind).into(),
                Cell::number(of.devices.get(&context).copied()),
                Cell::number((context != 0).then_some(context)),
                Cell::number(stream.map(|stream| of.filter.number_of(context, stream))),
            ]
        });
        let who = rows.entry((table, 1), &mut self.threads, thread, || {
            let [process, pid] = of.whose();
            vec![of.global_pid(), process, pid, of.tid(thread)]
        });
        let site = of.site(&call.unwrap_or_default());
        let called = rows.entry((table, 2), &mut self.sites, site, || of.called(site));
        let own = [
            Some(host(at)),
            Some(bytes),
            Some(delta),
            Some(self.live),
            Some(fitted(address)),
            correlation,
            Some(fitted(by.correlation)),
            step.map(fitted),
        ];
        rows.add(table, &own, &[what, who, called]);
    }
}
