//! How do the records of a process become events? This is the second pass over a trace.

mod functions;
mod memory;
mod operations;
mod operators;
mod ranges;
mod steps;

use super::layout::{Place, ProcessRows};
use super::rows::Sequence;
use super::sink::{Arg, Arrow, Category, Key, Row, Sink, Slice, Value};
use super::thread_row::ThreadRow;
use super::{Export, Source};
use crate::analyze::calls::base_name;
use crate::analyze::scope::Scope;
use crate::hash::HashMap;
use crate::model::filter::Passed;
use crate::model::gpu_interval::{Length, host};
use crate::model::order::{Reorder, WINDOW};
use crate::model::period::Period;
use crate::model::stacks::Stacks;
use crate::model::{Action, Event, Operation, When};
use crate::trace::record::{Body, Call, Record, Synchronize, What};
use functions::Functions;
use gpuspy_wire::record::{Namespace, SyncScope, flag};
use memory::Held;
pub use operations::WARP;
use ranges::RangeRows;
use std::io;
use steps::StepRow;

/// The second pass over one process's records.
pub(super) struct Pass<'e, 's, S: Sink> {
    export: &'e mut Export<S>,
    source: &'s Source,
    index: usize,
    period: Period,
    /// Rows that may still come out of order, because threads call in one order and streams run in another.
    waiting: Reorder<GpuRow>,
    streams: HashMap<u32, Sequence>,
    threads: HashMap<u32, ThreadRow>,
    ranges: RangeRows<S>,
    steps: StepRow,
    /// By thread: the start of its last call, and that call's number. All records of a call have the same start.
    numbers: HashMap<u32, (u64, u64)>,
    kernels: HashMap<u32, S::Name>,
    /// By kernel, context and launch: the arguments of the launch.
    launches: HashMap<(u32, u32, Launch), S::Args>,
    apis: HashMap<u16, Api<S>>,
    stacks: Stacks,
    functions: Functions<S>,
    /// By the number of a stack, and of a line: the arguments that they add to their calls.
    stack_args: HashMap<(u32, u32), Option<S::Args>>,
    /// The name of all changes of memory.
    memory_name: S::Name,
    /// The memory that the process holds.
    held: Held,
    /// The time of the last record.
    last: u64,
}

/// An API as it is shown.
struct Api<S: Sink> {
    name: S::Name,
    category: Category,
}

/// An event on a GPU's row that waits for its turn.
#[derive(Clone, Copy, Debug)]
struct GpuRow {
    place: Place,
    end: i64,
    length: Length,
    context: u32,
    correlation: u64,
    /// The `External id` of the operator in which it was launched.
    external: Option<u64>,
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

impl<'e, 's, S: Sink> Pass<'e, 's, S> {
    pub fn new(export: &'e mut Export<S>, source: &'s Source, index: usize, period: Period) -> Self {
        let memory_name = export.sink.name("[memory]");
        let found = source.clocks.steps.source.as_ref().filter(|_| export.has_steps);
        let functions = Functions::of(&source.names, export.has_functions);
        Pass {
            period,
            export,
            source,
            index,
            waiting: Reorder::new(WINDOW),
            streams: HashMap::default(),
            threads: HashMap::default(),
            ranges: RangeRows::default(),
            steps: StepRow::of(found, &source.names),
            numbers: HashMap::default(),
            kernels: HashMap::default(),
            launches: HashMap::default(),
            apis: HashMap::default(),
            stacks: Stacks::of(&source.names),
            functions,
            stack_args: HashMap::default(),
            memory_name,
            held: Held::default(),
            last: 0,
        }
    }

    /// Writes the rows of an event.
    pub fn observe(&mut self, event: &Event<'_>, scope: &Scope<'_>) -> io::Result<()> {
        let (record, passed) = (event.record, scope.passed());
        self.last = self.last.max(record.at);
        self.step(event)?;
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
        self.last_step()?;
        let ended = self.source.status.as_ref().map_or(self.last, |status| status.ended).max(self.last);
        self.enter_memory(host(ended))?;
        self.end_ranges(ended)?;
        self.last_functions()
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
            external: self.external(record.thread).filter(|_| work.call.api != 0),
            // An arrow begins in the call that this record ends: of a call's several operations, the last one has an
            // arrow.
            has_call: work.call.api != 0 && work.call.flags & flag::MORE == 0,
            what: operation.what,
            launch,
        };
        Some((self.moment(occupancy.start), row))
    }

    fn call(&mut self, record: &Record, call: &Call, number: u64, has_flow: bool) -> io::Result<()> {
        let row = Row { pid: self.rows().pid, tid: self.rows().tid(record.thread) };
        let (begin, end) = (self.moment(host(call.begin)), self.moment(host(call.end)));
        let chain = self.functions.chain(record.thread, call, &self.stacks, &mut self.export.sink);
        let span = self.threads.entry(record.thread).or_default().place(&chain, begin, end);
        self.ended_functions(record.thread)?;
        let (shown, external) = (self.api_name(call.api), self.external(record.thread));
        let sink = &mut self.export.sink;
        let api = self.apis.entry(call.api).or_insert_with(|| Api::of(shown, sink));
        let (category, mut name) = (api.category, api.name.clone());
        let mut calls = 1;
        let mut args = vec![Arg::of(Key::Cbid, 0u32), Arg::of(Key::Correlation, number)];
        args.extend(external.map(|id| Arg::of(Key::External, id)));
        if let Body::Api(api) = &record.body {
            if api.result != 0 {
                args.push(Arg::of(Key::Result, i64::from(api.result)));
            }
            if api.calls > 1 {
                calls = api.calls;
                name = sink.name(&format!("{shown} ({calls} in a row)"));
                args.extend([Arg::of(Key::Calls, calls), Arg::of(Key::Inside, api.inside)]);
            }
        }
        self.export.summary.calls += u64::from(calls);
        let stacks = &self.stacks;
        let (stack, line) = (call.stack, stacks.line_of(call));
        let more = self.stack_args.entry((stack, line));
        let more = more.or_insert_with(|| of_stack(sink, stacks, stack, line)).clone();
        let arrow = has_flow.then_some(Arrow::Call(number));
        let mut slice =
            Slice { category, name: &name, row, span, args: &args, more: more.as_ref(), arrow, inside: None };
        let Body::Synchronize(sync) = &record.body else { return self.export.sink.slice(&slice) };
        let (kind, waited) = (sync_kind(sync), self.waited(sync, number));
        let name = self.export.sink.name(kind);
        let inside = Slice {
            category: Category::Sync,
            name: &name,
            row,
            span,
            args: &waited,
            more: None,
            arrow: None,
            inside: None,
        };
        slice.inside = Some(&inside);
        self.export.sink.slice(&slice)
    }

    /// What a synchronization waited for.
    fn waited(&self, sync: &Synchronize, number: u64) -> [Arg<'static>; 5] {
        let context = sync.call.context;
        let device = self.source.clocks.devices.get(&context).copied();
        let row = self.rows().gpus.get(&device).copied().or(device);
        let stream = match sync.scope {
            SyncScope::Stream => self.source.place.filter.number_of(context, sync.stream) as i64,
            _ => -1,
        };
        [
            Arg::of(Key::SyncKind, sync_kind(sync)),
            Arg::of(Key::Stream, stream),
            Arg::of(Key::Correlation, number),
            Arg::of(Key::Device, row.map_or(-1, i64::from)),
            Arg::of(Key::Context, context),
        ]
    }

    /// The name of a call.
    fn api_name(&self, api: u16) -> &'s str {
        self.source.names.get(Namespace::Api, api.into()).map_or("(unknown call)", base_name)
    }
}

impl<S: Sink> Api<S> {
    fn of(name: &str, sink: &mut S) -> Self {
        let category = if name.starts_with("cuda") { Category::Runtime } else { Category::Driver };
        Api { name: sink.name(name), category }
    }
}

/// Prepares the arguments of the calls of a stack and a line: the line and the frames, as in `report --operations`.
fn of_stack<S: Sink>(sink: &mut S, stacks: &Stacks, stack: u32, line: u32) -> Option<S::Args> {
    let place = stacks.line(line).map(|frame| frame.place());
    let frames = stacks.listed(stack);
    let line = place.as_deref().map(|place| Arg::of(Key::Line, place));
    let stack = frames.as_deref().map(|frames| Arg(Key::Stack, Value::Texts(frames)));
    let args: Vec<Arg<'_>> = line.into_iter().chain(stack).collect();
    (!args.is_empty()).then(|| sink.args(&args))
}

fn sync_kind(sync: &Synchronize) -> &'static str {
    match sync.scope {
        // CUPTI has no device scope; it reports a wait for the context's work.
        SyncScope::Device | SyncScope::Context | SyncScope::GreenContext => "Context Sync",
        SyncScope::Stream => "Stream Sync",
        SyncScope::Event => "Event Sync",
    }
}
