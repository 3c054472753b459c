//! The table of changes of the memory that a process holds.

use super::context::{Context, Site};
use super::layout::{Cell, fitted};
use super::sheet::Entries;
use super::tables::{Rows, Table};
use crate::model::Event;
use crate::model::gpu_interval::host;
use crate::model::memory::{Allocator, MemoryChange, is_device_memory};
use crate::trace::record::{Body, Call};
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
        for change in changes {
            match *change {
                MemoryChange::Allocated { memory, bytes, of: by } => {
                    self.part(of, rows, event, (ALLOCATED, false, memory, bytes, by));
                }
                MemoryChange::FreeFailed { memory, bytes, of: by } => {
                    self.part(of, rows, event, ("free_failed", false, memory, bytes, by));
                }
                MemoryChange::Freed { memory, bytes, of: by } => {
                    self.part(of, rows, event, (FREED, true, memory, bytes, by));
                }
                MemoryChange::Vanished { memory, bytes, of: by } => {
                    self.part(of, rows, event, ("vanished", true, memory, bytes, by));
                }
                MemoryChange::Passed { memory, at_once, of: by, .. } => {
                    self.part(of, rows, event, (ALLOCATED, false, memory, at_once, by));
                    self.part(of, rows, event, (FREED, true, memory, at_once, by));
                }
            }
        }
    }

    fn part(
        &mut self,
        of: &mut Context<'_>,
        rows: &mut Rows<'_>,
        event: &Event<'_>,
        (change, frees, kind, bytes, by): Part,
    ) {
        let bytes = host(bytes);
        let delta = if frees { -bytes } else { bytes };
        if is_device_memory(kind) {
            self.live = self.live.saturating_add(delta);
        }
        let record = event.record;
        if !of.period.contains(host(record.at)) {
            return;
        }
        let (table, nothing) = (Table::Alloc, Call::default());
        let call = record.body.call();
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
        let thread = record.thread;
        let who = rows.entry((table, 1), &mut self.threads, thread, || {
            let [process, pid] = of.whose();
            vec![of.global_pid(), process, pid, of.tid(thread)]
        });
        let site = of.site(call.unwrap_or(&nothing));
        let called = rows.entry((table, 2), &mut self.sites, site, || of.called(site));
        let address = match &record.body {
            Body::Alloc(alloc) => alloc.address,
            Body::Free(free) => free.address,
            _ => 0,
        };
        let correlation = call.map(|call| of.correlation(thread, call));
        let own = [
            Some(host(record.at)),
            Some(bytes),
            Some(delta),
            Some(self.live),
            Some(fitted(address)),
            correlation,
            Some(fitted(by.correlation)),
            event.step.map(fitted),
        ];
        rows.add(table, &own, &[what, who, called]);
    }
}
