//! How do the records of a process become events? This is the second pass over a trace.

mod memory;
mod ranges;

use super::json::{Arrow, Micros, Slice, Text, WARP};
use super::layout::{Place, ProcessRows};
use super::rows::{Sequence, ThreadRow};
use super::{Export, Source};
use crate::analyze::calls::base_name;
use crate::analyze::kernels::UNKNOWN;
use crate::analyze::scope::Scope;
use crate::hash::HashMap;
use crate::model::facts::Shape;
use crate::model::filter::Passed;
use crate::model::gpu_interval::{Length, host};
use crate::model::order::{Reorder, WINDOW};
use crate::model::period::Period;
use crate::model::stacks::Stacks;
use crate::model::transfer::{HostMemory, TransferKind};
use crate::model::{Action, Event, Operation, When};
use crate::report::names::demangle;
use crate::trace::record::{Body, Call, Device, KernelFacts, Record, Synchronize, What};
use gpuspy_wire::record::{Namespace, SyncScope, flag};
use memory::Held;
use ranges::RangeRows;
use std::io::{self, Write};
use std::rc::Rc;

/// The second pass over one process's records.
pub(super) struct Pass<'e, 's, W> {
    export: &'e mut Export<W>,
    source: &'s Source,
    index: usize,
    period: Period,
    /// Rows that may still come out of order, because threads call in one order and streams run in another.
    waiting: Reorder<GpuRow>,
    streams: HashMap<u32, Sequence>,
    threads: HashMap<u32, ThreadRow>,
    ranges: RangeRows,
    /// By thread: the start of its last call, and that call's number. All records of a call have the same start.
    numbers: HashMap<u32, (u64, u64)>,
    kernels: HashMap<u32, Text>,
    /// By kernel, context and launch: the arguments of the launch.
    launches: HashMap<(u32, u32, Launch), Rc<str>>,
    apis: HashMap<u16, Api>,
    stacks: Stacks,
    /// By the number of a stack, and of a line: the arguments that they add to their calls.
    stack_details: HashMap<(u32, u32), String>,
    /// The memory that the process holds.
    held: Held,
    /// The time of the last record.
    last: u64,
}

/// An API as it is shown.
#[derive(Clone)]
struct Api {
    name: Text,
    category: &'static str,
}

/// An event on a GPU's row that waits for its turn.
#[derive(Clone, Copy, Debug)]
struct GpuRow {
    place: Place,
    end: i64,
    length: Length,
    context: u32,
    correlation: u64,
    /// Whether its call has an event, which is the flow's other end.
    has_call: bool,
    what: Action,
    launch: Option<Launch>,
}

/// The most launches whose arguments are kept.
const MOST_LAUNCHES: usize = 4096;

/// The dimensions of a kernel launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Launch {
    grid: [u32; 3],
    block: [u32; 3],
    shared_bytes: u32,
}

impl<'e, 's, W: Write> Pass<'e, 's, W> {
    pub fn new(export: &'e mut Export<W>, source: &'s Source, index: usize, period: Period) -> Self {
        Pass {
            period,
            export,
            source,
            index,
            waiting: Reorder::new(WINDOW),
            streams: HashMap::default(),
            threads: HashMap::default(),
            ranges: RangeRows::default(),
            numbers: HashMap::default(),
            kernels: HashMap::default(),
            launches: HashMap::default(),
            apis: HashMap::default(),
            stacks: Stacks::of(&source.names),
            stack_details: HashMap::default(),
            held: Held::default(),
            last: 0,
        }
    }

    /// Writes the rows of an event.
    pub fn observe(&mut self, event: &Event<'_>, scope: &Scope<'_>) -> io::Result<()> {
        let (record, passed) = (event.record, scope.passed());
        self.last = self.last.max(record.at);
        if let Body::NvtxRange(range) = &record.body {
            return self.range(record, range, passed);
        }
        let Some(call) = record.body.call() else { return self.memory(record, scope.memory()) };
        let number = self.number(record.thread, call);
        let has_call =
            event.call.is_some() && passed.concerns && self.is_in_time(host(call.begin), host(call.end));
        let operation = event.operation.as_ref();
        let mut row = operation.and_then(|operation| self.gpu_row(record, operation, number, passed));
        // A burst's record comes after those of its launches, which may lie in several ranges.
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
        self.memory(record, scope.memory())
    }

    /// Writes what is still waiting.
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

    /// Whether any part of an event is in the selected time. An event without length has one moment.
    fn is_in_time(&self, begin: i64, end: i64) -> bool {
        self.period.contains(begin) || self.period.length(begin, end) > 0
    }

    /// A host time as a time of the file, ns.
    fn moment(&self, time: i64) -> i64 {
        time.saturating_sub(self.rows().zero)
    }

    /// The number that the records of a call share. An operation that is not a call of the program's (a burst) gets
    /// its own.
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

    /// Returns the event of a selected operation and its start, if it has a time; otherwise counts the operation.
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
            // An arrow begins in the call that this record ends: of a call's several operations, the last one has an
            // arrow.
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
        let shown = self.api_name(call.api);
        let api = self.apis.entry(call.api).or_insert_with(|| Api::of(shown));
        let (category, mut name) = (api.category, api.name.clone());
        let (mut calls, mut details) = (1, String::new());
        if let Body::Api(api) = &record.body {
            if api.result != 0 {
                details = format!(r#","result":{}"#, api.result);
            }
            if api.calls > 1 {
                calls = api.calls;
                name = Text::of(&format!("{} ({calls} in a row)", self.api_name(call.api)));
                details.push_str(&format!(r#","calls":{calls},"ns inside":{}"#, api.inside));
            }
        }
        let stacks = &self.stacks;
        let (stack, line) = (call.stack, stacks.line_of(call));
        let stack = self.stack_details.entry((stack, line)).or_insert_with(|| of_stack(stacks, stack, line));
        let events = &mut self.export.out;
        self.export.summary.calls += u64::from(calls);
        let slice = Slice { category, name: &name, row: [&pid, &tid], ts, dur };
        let front = &r#","args":{"cbid":0,"correlation":"#;
        events.put(&[&slice, front, &number, &details.as_str(), &stack.as_str(), &"}}"])?;
        if let Body::Synchronize(sync) = &record.body {
            let (kind, context) = (sync_kind(sync), call.context);
            let device = self.source.clocks.devices.get(&context).copied();
            let row = self.rows().gpus.get(&device).copied().or(device);
            let device = row.map_or(-1, i64::from);
            let stream = match sync.scope {
                SyncScope::Stream => self.source.place.filter.number_of(context, sync.stream) as i64,
                _ => -1,
            };
            let events = &mut self.export.out;
            events.push(format_args!(
                r#"{{"ph":"X","cat":"cuda_sync","name":"{kind}","pid":{pid},"tid":{tid},"ts":{ts},"dur":{dur},"args":{{"cuda_sync_kind":"{kind}","stream":{stream},"correlation":{number},"device":{device},"context":{context}}}}}"#
            ))?;
        }
        let events = &mut self.export.out;
        if has_flow {
            events.put(&[&Arrow { phase: "s", id: number, row: [&pid, &tid], ts }, &"}"])?;
        }
        Ok(())
    }

    /// The name of a call.
    fn api_name(&self, api: u16) -> &'s str {
        self.source.names.get(Namespace::Api, api.into()).map_or("(unknown call)", base_name)
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
        events.put(&[
            &Slice { category, name: &name, row: [&gpu, &stream], ts, dur },
            &r#","args":{"device":"#,
            &gpu,
            &r#","context":"#,
            &context,
            &r#","stream":"#,
            &stream,
            &r#","correlation":"#,
            &correlation,
            &r#","gpu duration ns":["#,
            &lo,
            &",",
            &value,
            &",",
            &hi,
            &"]",
            &&*details,
            &"}}",
        ])?;
        if row.has_call {
            let arrow = Arrow { phase: "f", id: correlation, row: [&gpu, &stream], ts };
            events.put(&[&arrow, &r#","bp":"e"}"#])?;
        }
        Ok(())
    }

    /// Returns the category, the name and the further arguments of an operation that took `took` ns.
    fn described(&mut self, row: &GpuRow, took: i64) -> (&'static str, Text, Rc<str>) {
        match row.what {
            Action::Kernel { name: id, .. } => {
                let symbol = self.source.names.get(Namespace::Kernel, id).unwrap_or(UNKNOWN);
                let name = self.kernels.entry(id).or_insert_with(|| Text::of(&demangle(symbol)));
                let name = name.clone();
                ("kernel", name, row.launch.map_or_else(Rc::default, |launch| self.launched(row, launch)))
            }
            Action::Transfer { kind, host_memory, bytes } => {
                let category = if kind == TransferKind::Memset { "gpu_memset" } else { "gpu_memcpy" };
                // Bytes per ns are GB per s.
                let rate = bytes as f64 / took.max(1) as f64;
                let details = format!(r#","bytes":{bytes},"memory bandwidth (GB/s)":{rate:.6}"#);
                (category, Text::of(&transfer_name(kind, host_memory)), details.into())
            }
            Action::Graph { kernels } => {
                let name = format!("Graph ({kernels} kernel{})", if kernels == 1 { "" } else { "s" });
                ("kernel", Text::of(&name), format!(r#","queued":0,"kernels":{kernels}"#).into())
            }
            Action::Burst { launches, .. } => {
                let kind = if row.what.is_run() { "Run" } else { "Burst" };
                let name = format!("{kind} ({launches} launch{})", if launches == 1 { "" } else { "es" });
                ("kernel", Text::of(&name), format!(r#","queued":0,"launches":{launches}"#).into())
            }
        }
    }

    /// Returns the arguments of a kernel launch. A loop makes the same launches again and again.
    fn launched(&mut self, row: &GpuRow, launch: Launch) -> Rc<str> {
        let Action::Kernel { name, .. } = row.what else { return Rc::default() };
        let key = (name, row.context, launch);
        if let Some(known) = self.launches.get(&key) {
            return Rc::clone(known);
        }
        if self.launches.len() >= MOST_LAUNCHES {
            self.launches.clear();
        }
        let arguments: Rc<str> = self.arguments(row, launch).into();
        self.launches.insert(key, Rc::clone(&arguments));
        arguments
    }

    fn arguments(&self, row: &GpuRow, launch: Launch) -> String {
        let Launch { grid: [gx, gy, gz], block: [bx, by, bz], shared_bytes } = launch;
        let known = match row.what {
            Action::Kernel { name, .. } => {
                self.source.scene.facts.of(&Shape::of(name, row.context, launch.block, shared_bytes))
            }
            _ => None,
        };
        let facts = known.map(|known| &known.facts);
        let ordinal = self.source.clocks.devices.get(&row.context);
        let device = ordinal.and_then(|ordinal| self.source.scene.devices.get(ordinal));
        let per_multiprocessor = device.filter(|device| device.multiprocessors > 0).map(|device| {
            let blocks =
                [gx, gy, gz].map(f64::from).iter().product::<f64>() / f64::from(device.multiprocessors);
            let warps = ([bx, by, bz].map(f64::from).iter().product::<f64>() / f64::from(WARP)).ceil();
            let occupancy = facts.and_then(|facts| estimated_occupancy(facts, device, blocks));
            let occupancy =
                occupancy.map_or_else(String::new, |part| format!(r#","est. achieved occupancy %":{part}"#));
            let theoretical = facts.and_then(|facts| theoretical_occupancy(facts, device));
            let occupancy = theoretical
                .map_or_else(String::new, |part| format!(r#","theoretical occupancy %":{part}"#))
                + &occupancy;
            format!(r#","blocks per SM":{blocks:.6},"warps per SM":{:.6}{occupancy}"#, blocks * warps)
        });
        let per_multiprocessor = per_multiprocessor.unwrap_or_default();
        let registers = facts.filter(|facts| facts.registers > 0);
        let registers = registers
            .map_or_else(String::new, |facts| format!(r#","registers per thread":{}"#, facts.registers));
        let shared_bytes =
            u64::from(shared_bytes) + facts.map_or(0, |facts| u64::from(facts.static_shared_bytes));
        format!(
            r#","queued":0{registers},"shared memory":{shared_bytes}{per_multiprocessor},"grid":[{gx},{gy},{gz}],"block":[{bx},{by},{bz}]"#
        )
    }
}

impl Api {
    fn of(name: &str) -> Api {
        let category = if name.starts_with("cuda") { "cuda_runtime" } else { "cuda_driver" };
        Api { name: Text::of(name), category }
    }
}

/// Returns the arguments of the calls of a stack and a line: the line and the frames, as in `report --operations`.
fn of_stack(stacks: &Stacks, stack: u32, line: u32) -> String {
    let line = stacks.line(line).map(|frame| format!(r#","line":{}"#, Text::of(&frame.place())));
    let frames = stacks.listed(stack).map(|frames| {
        let frames: Vec<String> = frames.iter().map(|frame| Text::of(frame).to_string()).collect();
        format!(r#","stack":[{}]"#, frames.join(","))
    });
    line.into_iter().chain(frames).collect()
}

/// The threads of the most blocks that a multiprocessor holds, relative to the most threads that it holds, percent.
/// The report's section on occupancy shows the same number first.
fn theoretical_occupancy(facts: &KernelFacts, device: &Device) -> Option<u32> {
    let warps = u32::from(facts.blocks_per_multiprocessor).saturating_mul(facts.threads.div_ceil(WARP));
    let most = device.warps_per_multiprocessor;
    (warps > 0 && most > 0).then(|| (f64::from(warps) / f64::from(most) * 100.0).round() as u32)
}

/// Kineto's estimated achieved occupancy, percent: the threads of the blocks that a multiprocessor holds, or of its
/// share of the launch's blocks if that is less, relative to the most threads that it holds. It is not a measurement.
fn estimated_occupancy(facts: &KernelFacts, device: &Device, blocks: f64) -> Option<u32> {
    let (held, warps) = (facts.blocks_per_multiprocessor, device.warps_per_multiprocessor);
    let most = f64::from(warps) * f64::from(WARP);
    let threads = f64::from(held).min(blocks) * f64::from(facts.threads);
    (held > 0 && warps > 0).then(|| (threads / most * 100.0).round() as u32)
}

fn sync_kind(sync: &Synchronize) -> &'static str {
    match sync.scope {
        // CUPTI has no device scope; it reports a wait for the context's work.
        SyncScope::Device | SyncScope::Context => "Context Sync",
        SyncScope::Stream => "Stream Sync",
        SyncScope::Event => "Event Sync",
    }
}

/// The name that Kineto gives a transfer: `Memcpy HtoD (Pageable -> Device)`.
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
