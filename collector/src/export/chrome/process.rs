//! The second pass: from the records of a process to its events.

mod ranges;

use super::json::{Micros, Text, WARP};
use super::layout::{Place, ProcessRows};
use super::rows::{Sequence, ThreadRow};
use super::{Export, Source};
use crate::analyze::calls::base_name;
use crate::analyze::kernels::UNKNOWN;
use crate::model::filter::{Passed, Sieve};
use crate::model::memory::{MemoryChange, is_device_memory};
use crate::model::occupancy::{Length, host};
use crate::model::order::{Reorder, WINDOW};
use crate::model::transfer::{HostMemory, TransferKind};
use crate::model::{Action, Event, Model, Operation, When};
use crate::report::names::demangle;
use crate::trace::record::{Body, Call, Record, Synchronize, What};
use gpuspy_wire::record::{Namespace, SyncScope, flag};
use ranges::RangeRows;
use std::collections::HashMap;
use std::io::{self, Write};

/// The second pass over one process' records.
pub(super) struct Pass<'e, 's, W> {
    export: &'e mut Export<'s, W>,
    source: &'s Source,
    index: usize,
    model: Model<'s>,
    sieve: Sieve<'s>,
    /// Threads call in one order and streams run in another: rows that may still come out of order.
    waiting: Reorder<GpuRow>,
    streams: HashMap<u32, Sequence>,
    threads: HashMap<u32, ThreadRow>,
    ranges: RangeRows,
    /// By thread: the begin of its last call, and that call's number. All records of a call have its begin.
    numbers: HashMap<u32, (u64, u64)>,
    kernels: HashMap<u32, Text>,
    apis: HashMap<u16, Api>,
    /// Bytes of device memory that the process holds.
    held: i64,
    /// The time of the last record.
    last: u64,
}

/// How an API is shown.
#[derive(Clone)]
struct Api {
    name: Text,
    category: &'static str,
}

/// A row of a GPU that waits for its turn.
#[derive(Clone, Copy, Debug)]
struct GpuRow {
    place: Place,
    end: i64,
    length: Length,
    context: u32,
    correlation: u64,
    /// Its call has a row: the flow's other end.
    has_call: bool,
    what: Action,
    launch: Option<Launch>,
}

/// What a kernel was launched with.
#[derive(Clone, Copy, Debug)]
struct Launch {
    grid: [u32; 3],
    block: [u32; 3],
    shared_bytes: u32,
}

impl<'e, 's, W: Write> Pass<'e, 's, W> {
    pub fn new(export: &'e mut Export<'s, W>, source: &'s Source, index: usize) -> Self {
        let status = source.status.as_ref();
        let began = status.map_or(source.scene.earliest.unwrap_or(0).max(0) as u64, |status| status.began);
        Pass {
            sieve: Sieve::new(export.filter, &source.names, status, began),
            export,
            source,
            index,
            model: Model::new(&source.names, &source.clocks),
            waiting: Reorder::new(WINDOW),
            streams: HashMap::new(),
            threads: HashMap::new(),
            ranges: RangeRows::default(),
            numbers: HashMap::new(),
            kernels: HashMap::new(),
            apis: HashMap::new(),
            held: 0,
            last: 0,
        }
    }

    /// Writes what a record means.
    pub fn observe(&mut self, record: &Record) -> io::Result<()> {
        let event = self.model.observe(record);
        let passed = self.sieve.sift(&event);
        self.last = self.last.max(record.at);
        if let Body::Range(range) = &record.body {
            return self.range(record, range, passed);
        }
        let Some(call) = record.body.call() else { return self.memory(&event) };
        let number = self.number(record.thread, call);
        let has_call =
            event.call.is_some() && passed.concerns && self.is_in_time(host(call.begin), host(call.end));
        let operation = event.operation.as_ref();
        let mut row = operation.and_then(|operation| self.gpu_row(record, operation, number, passed));
        // What is told of a burst comes behind its launches, which may lie in several ranges.
        if let Some(Operation { when: When::Timed(ran), context, stream, what, .. }) = operation
            && passed.concerns
            && !matches!(what, Action::Burst { .. })
            && let Some(place) = self.rows().streams.get(&(*context, *stream)).copied()
        {
            self.project(record, call.begin, place, ran);
        }
        if let Some((_, row)) = &mut row {
            row.has_call &= has_call;
        }
        if has_call {
            self.call(record, call, number, row.is_some_and(|(_, row)| row.has_call))?;
        }
        if let Some((start, row)) = row
            && let Some(due) = self.waiting.push(start, row)
        {
            self.gpu(due)?;
        }
        self.memory(&event)
    }

    /// Writes what still waits.
    pub fn finish(mut self) -> io::Result<()> {
        while let Some(due) = self.waiting.pop() {
            self.gpu(due)?;
        }
        let ended = self.source.status.as_ref().map_or(self.last, |status| status.ended);
        self.end_ranges(ended.max(self.last))
    }

    fn rows(&self) -> &ProcessRows {
        &self.export.layout.processes[self.index]
    }

    /// Whether any part of a stretch is in the time that is asked for. What takes no time has its moment.
    fn is_in_time(&self, begin: i64, end: i64) -> bool {
        let period = self.sieve.period();
        period.contains(begin) || (begin < period.from && period.from < end)
    }

    /// A host time as a moment of the file, ns.
    fn moment(&self, time: i64) -> i64 {
        time.saturating_sub(self.export.layout.zero)
    }

    /// The number that the records of this call have in common. What is no call of the app's (a burst) has its own.
    fn number(&mut self, thread: u32, call: &Call) -> u64 {
        let is_known = self.numbers.get(&thread).filter(|(begin, _)| *begin == call.begin && call.api != 0);
        if let Some((_, number)) = is_known {
            return *number;
        }
        self.export.correlations += 1;
        if call.api != 0 {
            self.numbers.insert(thread, (call.begin, self.export.correlations));
        }
        self.export.correlations
    }

    /// The row of an operation that is asked for, if it has a time, and where it begins. Otherwise counts it.
    fn gpu_row(
        &mut self,
        record: &Record,
        operation: &Operation,
        number: u64,
        passed: Passed,
    ) -> Option<(i64, GpuRow)> {
        let occupancy = match operation.when {
            When::Timed(o) if passed.concerns && self.is_in_time(o.start, o.end) => o,
            When::Timed(_) => return None,
            When::Untimed { .. } | When::Captured if !passed.operation => return None,
            When::Untimed { reason, .. } => {
                *self.export.summary.untimed.entry(reason.name()).or_default() += 1;
                return None;
            }
            When::Captured => {
                self.export.summary.captured += 1;
                return None;
            }
        };
        let Body::Work(work) = &record.body else { return None };
        let place = *self.rows().streams.get(&(operation.context, operation.stream))?;
        let launch = match work.what {
            What::Kernel { grid, block, shared_bytes, .. } => Some(Launch { grid, block, shared_bytes }),
            _ => None,
        };
        let row = GpuRow {
            place,
            end: self.moment(occupancy.end),
            length: occupancy.length,
            context: operation.context,
            correlation: number,
            // An arrow begins in the call that this very record ends: of a call's several operations the last has one.
            has_call: work.call.api != 0 && work.call.flags & flag::MORE == 0,
            what: operation.what,
            launch,
        };
        Some((self.moment(occupancy.start), row))
    }

    fn call(&mut self, record: &Record, call: &Call, number: u64, has_flow: bool) -> io::Result<()> {
        let (pid, tid) = (self.rows().pid, self.rows().tid(record.thread));
        let (begin, end) = (self.moment(host(call.begin)), self.moment(host(call.end)));
        let (begin, end) = self.threads.entry(record.thread).or_default().place(begin, end);
        let (ts, dur) = (Micros(begin), Micros(end.saturating_sub(begin)));
        let names = &self.source.names;
        let api =
            self.apis.entry(call.api).or_insert_with(|| Api::of(names.get(Namespace::Api, call.api.into())));
        let Api { name, category } = api;
        let result = match &record.body {
            Body::Api(api) if api.result != 0 => format!(r#","result":{}"#, api.result),
            _ => String::new(),
        };
        let events = &mut self.export.out;
        self.export.summary.calls += 1;
        events.push(format_args!(
            r#"{{"ph":"X","cat":"{category}","name":{name},"pid":{pid},"tid":{tid},"ts":{ts},"dur":{dur},"args":{{"cbid":0,"correlation":{number}{result}}}}}"#
        ))?;
        if let Body::Synchronize(sync) = &record.body {
            let kind = sync_kind(sync);
            events.push(format_args!(
                r#"{{"ph":"X","cat":"cuda_sync","name":"{kind}","pid":{pid},"tid":{tid},"ts":{ts},"dur":{dur},"args":{{"cuda_sync_kind":"{kind}","context":{}}}}}"#,
                call.context
            ))?;
        }
        if has_flow {
            events.push(format_args!(
                r#"{{"ph":"s","id":{number},"pid":{pid},"tid":{tid},"ts":{ts},"cat":"ac2g","name":"ac2g"}}"#
            ))?;
        }
        Ok(())
    }

    fn gpu(&mut self, (start, row): (i64, GpuRow)) -> io::Result<()> {
        let Place { gpu, row: stream } = row.place;
        let (start, end) = self.streams.entry(stream).or_default().place(start, row.end);
        let took = end.saturating_sub(start);
        let (category, name, details) = self.described(&row, took);
        let (ts, dur) = (Micros(start), Micros(took));
        let GpuRow { context, correlation, length: Length { lo, value, hi }, .. } = row;
        let events = &mut self.export.out;
        self.export.summary.operations += 1;
        events.push(format_args!(
            r#"{{"ph":"X","cat":"{category}","name":{name},"pid":{gpu},"tid":{stream},"ts":{ts},"dur":{dur},"args":{{"device":{gpu},"context":{context},"stream":{stream},"correlation":{correlation},"gpu duration ns":[{lo},{value},{hi}]{details}}}}}"#
        ))?;
        if row.has_call {
            events.push(format_args!(
                r#"{{"ph":"f","id":{correlation},"pid":{gpu},"tid":{stream},"ts":{ts},"cat":"ac2g","name":"ac2g","bp":"e"}}"#
            ))?;
        }
        Ok(())
    }

    /// The category, the name and the further arguments of an operation that took this many ns.
    fn described(&mut self, row: &GpuRow, took: i64) -> (&'static str, Text, String) {
        match row.what {
            Action::Kernel { name: id, .. } => {
                let symbol = self.source.names.get(Namespace::Kernel, id).unwrap_or(UNKNOWN);
                let name = self.kernels.entry(id).or_insert_with(|| Text::of(&demangle(symbol)));
                let name = name.clone();
                ("kernel", name, row.launch.map_or_else(String::new, |launch| self.launched(row, launch)))
            }
            Action::Transfer { kind, host_memory, bytes } => {
                let category = if kind == TransferKind::Memset { "gpu_memset" } else { "gpu_memcpy" };
                // Bytes a ns are GB a s.
                let rate = bytes as f64 / took.max(1) as f64;
                let details = format!(r#","bytes":{bytes},"memory bandwidth (GB/s)":{rate:.6}"#);
                (category, Text::of(&transfer_name(kind, host_memory)), details)
            }
            Action::Graph { kernels } => {
                let name = format!("Graph ({kernels} kernel{})", if kernels == 1 { "" } else { "s" });
                ("kernel", Text::of(&name), format!(r#","queued":0,"kernels":{kernels}"#))
            }
            Action::Burst { launches } => {
                let name = format!("Burst ({launches} launch{})", if launches == 1 { "" } else { "es" });
                ("kernel", Text::of(&name), format!(r#","queued":0,"launches":{launches}"#))
            }
        }
    }

    fn launched(&self, row: &GpuRow, launch: Launch) -> String {
        let Launch { grid: [gx, gy, gz], block: [bx, by, bz], shared_bytes } = launch;
        let ordinal = self.source.clocks.devices.get(&row.context);
        let device = ordinal.and_then(|ordinal| self.source.scene.devices.get(ordinal));
        let per_multiprocessor = device.filter(|device| device.multiprocessors > 0).map(|device| {
            let blocks =
                [gx, gy, gz].map(f64::from).iter().product::<f64>() / f64::from(device.multiprocessors);
            let warps = ([bx, by, bz].map(f64::from).iter().product::<f64>() / f64::from(WARP)).ceil();
            format!(r#","blocks per SM":{blocks:.6},"warps per SM":{:.6}"#, blocks * warps)
        });
        let per_multiprocessor = per_multiprocessor.unwrap_or_default();
        format!(
            r#","queued":0,"shared memory":{shared_bytes}{per_multiprocessor},"grid":[{gx},{gy},{gz}],"block":[{bx},{by},{bz}]"#
        )
    }

    /// Writes what became of device memory.
    fn memory(&mut self, event: &Event<'_>) -> io::Result<()> {
        for change in &event.memory {
            let (memory, steps, of) = match *change {
                MemoryChange::Allocated { memory, bytes, of }
                | MemoryChange::FreeFailed { memory, bytes, of } => (memory, [host(bytes), 0], of),
                MemoryChange::Freed { memory, bytes, of } | MemoryChange::Vanished { memory, bytes, of } => {
                    (memory, [-host(bytes), 0], of)
                }
                MemoryChange::Passed { memory, at_once, of, .. } => {
                    (memory, [host(at_once), -host(at_once)], of)
                }
            };
            if is_device_memory(memory) && self.sieve.holds(&of) {
                self.memory_steps(event.record, steps)?;
            }
        }
        Ok(())
    }

    /// Adds bytes to what is held, and then others where there are any.
    fn memory_steps(&mut self, record: &Record, [first, then]: [i64; 2]) -> io::Result<()> {
        for bytes in [Some(first), (then != 0).then_some(then)].into_iter().flatten() {
            self.held = self.held.saturating_add(bytes);
            if self.sieve.period().contains(host(record.at)) {
                self.memory_event(record, bytes)?;
            }
        }
        Ok(())
    }

    fn memory_event(&mut self, record: &Record, bytes: i64) -> io::Result<()> {
        let address = match &record.body {
            Body::Alloc(alloc) => alloc.address,
            Body::Free(free) => free.address,
            _ => 0,
        };
        let context = match &record.body {
            Body::Context(context) => Some(context.context),
            body => body.call().map(|call| call.context),
        };
        let ordinal = context.and_then(|context| self.source.clocks.devices.get(&context)).copied();
        let rows = self.rows();
        let device = rows.gpus.get(&ordinal).copied().unwrap_or(0);
        let (pid, tid, held) = (rows.pid, rows.tid(record.thread), self.held);
        let (ts, count) = (Micros(self.moment(host(record.at))), self.export.memory_events);
        self.export.memory_events += 1;
        let events = &mut self.export.out;
        events.push(format_args!(
            r#"{{"ph":"i","cat":"cpu_instant_event","s":"t","name":"[memory]","pid":{pid},"tid":{tid},"ts":{ts},"args":{{"Total Allocated":{held},"Total Reserved":{held},"Bytes":{bytes},"Addr":{address},"Device Id":{device},"Device Type":1,"Ev Idx":{count}}}}}"#
        ))?;
        // Perfetto draws counters, and nothing of an instant but its place.
        events.push(format_args!(
            r#"{{"ph":"C","name":"device memory","pid":{pid},"ts":{ts},"args":{{"bytes":{held}}}}}"#
        ))
    }
}

impl Api {
    fn of(name: Option<&str>) -> Api {
        let name = name.map_or("(unknown call)", base_name);
        let category = if name.starts_with("cuda") { "cuda_runtime" } else { "cuda_driver" };
        Api { name: Text::of(name), category }
    }
}

fn sync_kind(sync: &Synchronize) -> &'static str {
    match sync.scope {
        // CUPTI knows no device: it waits for the context's work.
        SyncScope::Device | SyncScope::Context => "Context Sync",
        SyncScope::Stream => "Stream Sync",
        SyncScope::Event => "Event Sync",
    }
}

/// As Kineto has it: `Memcpy HtoD (Pageable -> Device)`.
fn transfer_name(kind: TransferKind, host_memory: HostMemory) -> String {
    let host = match host_memory {
        HostMemory::Pageable => "Pageable",
        HostMemory::Pinned => "Pinned",
        HostMemory::Managed => "Managed",
        HostMemory::None => "Device",
    };
    let (from, to) = match kind {
        TransferKind::HtoD => (host, "Device"),
        TransferKind::DtoH => ("Device", host),
        TransferKind::HtoH => (host, host),
        TransferKind::DtoD | TransferKind::PtoP => ("Device", "Device"),
        TransferKind::Memset => return "Memset (Device)".to_owned(),
    };
    format!("Memcpy {} ({from} -> {to})", kind.name())
}
