//! How are changes of memory shown? As instants, like Kineto's, and as counters, which Perfetto draws.

use super::Pass;
use crate::export::timeline::sink::{Arg, Category, Counter, Instant, Key, Row, Sink};
use crate::hash::HashMap;
use crate::model::gpu_interval::host;
use crate::model::memory::{MemoryChange, is_device_memory};
use crate::trace::record::{Body, Record};
use gpuspy_wire::record::Memory;
use std::io;

/// The bytes that the process holds. Signed, because the trace may begin in the middle.
#[derive(Debug, Default)]
pub(super) struct Held {
    /// All kinds of device memory, on all GPUs.
    device: i64,
    /// The same, by the number of the GPU.
    by_gpu: HashMap<u32, i64>,
    by_kind: HashMap<Memory, i64>,
    /// How many parts of the selected time have begun.
    entered: usize,
}

impl<S: Sink> Pass<'_, '_, S> {
    /// Writes a record's changes of memory that pass the filter.
    pub(super) fn memory(&mut self, record: &Record, changes: &[MemoryChange]) -> io::Result<()> {
        if !changes.is_empty() {
            self.enter_memory(host(record.at))?;
        }
        for change in changes {
            let (memory, steps) = match *change {
                MemoryChange::Allocated { memory, bytes, .. }
                | MemoryChange::FreeFailed { memory, bytes, .. } => (memory, [host(bytes), 0]),
                MemoryChange::Freed { memory, bytes, .. } | MemoryChange::Vanished { memory, bytes, .. } => {
                    (memory, [-host(bytes), 0])
                }
                MemoryChange::Passed { memory, at_once, .. } => (memory, [host(at_once), -host(at_once)]),
            };
            self.memory_steps(record, (memory, change.allocator().context), steps)?;
        }
        Ok(())
    }

    /// Writes what is held where parts of the selected time begin, up to a moment: what is held then is not seen from changes
    /// that come later, or never.
    pub(super) fn enter_memory(&mut self, moment: i64) -> io::Result<()> {
        while let Some((from, _)) = self.period.stretches().get(self.held.entered).copied()
            && from <= moment
        {
            let mut levels = vec![(String::from("device memory"), self.held.device)];
            let kinds = self.held.by_kind.iter().filter(|(memory, _)| **memory != Memory::Device);
            levels.extend(kinds.map(|(memory, held)| (counter_of(*memory), *held)));
            levels.sort_unstable();
            // What a counter showed before is over, also if nothing is held now.
            let is_first = self.held.entered == 0;
            self.held.entered += 1;
            for (name, bytes) in levels.iter().filter(|(_, bytes)| !is_first || *bytes != 0) {
                self.counter(from, name, *bytes)?;
            }
        }
        Ok(())
    }

    /// Writes two changes of the memory that is held, in order. The block was allocated in a context.
    fn memory_steps(
        &mut self,
        record: &Record,
        (memory, context): (Memory, u32),
        [first, then]: [i64; 2],
    ) -> io::Result<()> {
        let is_shown = self.period.contains(host(record.at));
        let ordinal = self.source.clocks.devices.get(&context).copied();
        let gpu = self.rows().gpus.get(&ordinal).copied().unwrap_or(0);
        for bytes in [Some(first), (then != 0).then_some(then)].into_iter().flatten() {
            if is_device_memory(memory) {
                self.held.device = self.held.device.saturating_add(bytes);
                let on_gpu = self.held.by_gpu.entry(gpu).or_default();
                *on_gpu = on_gpu.saturating_add(bytes);
                let on_gpu = *on_gpu;
                if is_shown {
                    self.memory_event(record, (gpu, on_gpu), bytes)?;
                }
            }
            let held = self.held.by_kind.entry(memory).or_default();
            *held = held.saturating_add(bytes);
            let held = *held;
            // If a program uses only plain device memory, this counter would repeat the one of all device memory.
            if is_shown && memory != Memory::Device {
                self.counter(host(record.at), &counter_of(memory), held)?;
            }
        }
        Ok(())
    }

    fn counter(&mut self, moment: i64, name: &str, bytes: i64) -> io::Result<()> {
        let (pid, at) = (self.rows().pid, self.moment(moment));
        self.export.sink.counter(&Counter { name, pid, at, bytes })
    }

    /// Writes a change of device memory, with what is held on its GPU afterwards.
    fn memory_event(&mut self, record: &Record, (gpu, held): (u32, i64), bytes: i64) -> io::Result<()> {
        let address = match &record.body {
            Body::Alloc(alloc) => alloc.address,
            Body::Free(free) => free.address,
            _ => 0,
        };
        let rows = self.rows();
        let row = Row { pid: rows.pid, tid: rows.tid(record.thread) };
        let (at, count) = (self.moment(host(record.at)), self.export.summary.memory_events);
        self.export.summary.memory_events += 1;
        let args = [
            Arg::of(Key::TotalAllocated, held),
            Arg::of(Key::TotalReserved, held),
            Arg::of(Key::Changed, bytes),
            Arg::of(Key::Addr, address),
            Arg::of(Key::DeviceId, gpu),
            Arg::of(Key::DeviceType, 1u32),
            Arg::of(Key::EvIdx, count),
        ];
        let (category, name) = (Category::Memory, &self.memory_name);
        self.export.sink.instant(&Instant { category, name, row, at, args: &args })?;
        // Of instants, Perfetto draws only the position; counters show the values.
        self.counter(host(record.at), "device memory", self.held.device)
    }
}

/// Returns the name of a kind's counter.
fn counter_of(memory: Memory) -> String {
    format!("{} memory", memory.name())
}
