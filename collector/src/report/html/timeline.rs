//! The fold from a trace's records to the rows of the timeline.

use super::names::Names as Interned;
use super::rows::{CallRow, NONE, OperationRow, RangeRow, Slices, StepRow};
use crate::analyze::ranges::RangeName;
use crate::analyze::reading::Reading;
use crate::analyze::scope::Scope;
use crate::hash::HashMap;
use crate::model::clocks::Clocks;
use crate::model::filter::Filter;
use crate::model::gpu_interval::{GpuInterval, host};
use crate::model::job::Job;
use crate::model::ranges::{Begun, Inside, Over, Ranges};
use crate::model::run::{Machine, ProcessId, Surveyed};
use crate::model::stacks::{Frame, Stacks};
use crate::model::{Event, Operation, When};
use crate::trace::record::{Body, Call, Names, NvtxRange, Record, Status, What};
use gpuspy_wire::record::{NvtxChange, Untimed};
use serde::Serialize;
use std::collections::BTreeMap;

/// A process of the run, after the first pass over its trace.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    /// The names in its trace.
    pub names: &'a Names,
    /// Its last status, if the trace has one.
    pub status: Option<&'a Status>,
    /// Its clocks.
    pub clocks: &'a Clocks,
    /// What is selected of it.
    pub filter: &'a Filter,
}

/// What happened when, in all processes of a run. Its memory is bounded: a table has at most [`MOST_SLICES`] slices, and
/// [bins](super::density) beyond that.
///
/// [`MOST_SLICES`]: super::rows::MOST_SLICES
#[derive(Debug)]
pub struct Timeline {
    pub(super) processes: Vec<ProcessRow>,
    pub(super) streams: Vec<Stream>,
    pub(super) threads: Vec<Thread>,
    pub(super) names: Interned,
    pub(super) operations: Slices<OperationRow>,
    pub(super) calls: Slices<CallRow>,
    pub(super) ranges: Slices<RangeRow>,
    pub(super) steps: Slices<StepRow>,
    pub(super) left_out: LeftOut,
    machines: Vec<Machine>,
    /// What is known of each process, for further windows of its time.
    known: Vec<Known>,
}

/// The streams and threads of a process that the page has.
#[derive(Debug, Default)]
struct Known {
    /// Which process it is; `None` if its trace has no status, and so is the only one that is known to be of it.
    id: Option<ProcessId>,
    /// The numbers of its streams by context and id.
    streams: HashMap<(u32, u64), u32>,
    threads: HashMap<Option<u32>, u32>,
}

/// A process as the page has it.
#[derive(Debug, Serialize)]
pub(super) struct ProcessRow {
    pid: Option<u32>,
    rank: Option<u32>,
    /// Processes with the same number share a clock.
    machine: usize,
    /// The most by which the position of one of its operations on the host's clock may be off, ns.
    clock_off_by_ns: u64,
}

/// A stream as the page has it.
#[derive(Debug, Serialize)]
pub(super) struct Stream {
    process: u32,
    device: Option<u32>,
    context: u32,
    stream: u64,
}

/// A thread as the page has it; of started NVTX ranges, which belong to no thread, one for each process.
#[derive(Debug, Serialize)]
pub(super) struct Thread {
    process: u32,
    tid: Option<u32>,
    /// Its rows are ranges that any thread may end.
    is_of_process: bool,
}

/// What is not drawn.
#[derive(Debug, Default, Serialize)]
pub(super) struct LeftOut {
    /// Operations without a GPU time, by reason.
    untimed: BTreeMap<&'static str, u64>,
    /// Operations of which nothing tells when they ran on the host's clock.
    off_the_line: u64,
}

impl Default for Timeline {
    fn default() -> Self {
        Timeline {
            processes: Vec::new(),
            streams: Vec::new(),
            threads: Vec::new(),
            names: Interned::default(),
            operations: Slices::Each(Vec::new()),
            calls: Slices::Each(Vec::new()),
            ranges: Slices::Each(Vec::new()),
            steps: Slices::Each(Vec::new()),
            left_out: LeftOut::default(),
            machines: Vec::new(),
            known: Vec::new(),
        }
    }
}

impl Timeline {
    /// Adds what the records of a process mean.
    pub fn add(&mut self, source: Source<'_>, records: impl Iterator<Item = Record> + Send) {
        let Source { names, status, clocks, filter } = source;
        let machine = Surveyed { names, status, clocks }.machine();
        let machine = self.machines.iter().position(|known| *known == machine).unwrap_or_else(|| {
            self.machines.push(machine);
            self.machines.len() - 1
        });
        let (pid, rank) = (status.map(|status| status.pid), Job::of(names).rank);
        let zero = host(filter.origin.unwrap_or(clocks.began(status)));
        let id = ProcessId::of(names, status);
        let same = self.known.iter().position(|known| id.is_some() && known.id == id);
        let process = same.unwrap_or_else(|| {
            self.processes.push(ProcessRow { pid, rank, machine, clock_off_by_ns: 0 });
            self.known.push(Known { id, ..Known::default() });
            self.known.len() - 1
        });
        let known = &mut self.known[process];
        let (streams, threads) = (std::mem::take(&mut known.streams), std::mem::take(&mut known.threads));
        self.names.next_process();
        let mut reading = Reading::new(names, status, clocks, filter);
        let mut pass = Pass {
            source,
            zero,
            process: process as u32,
            timeline: self,
            stacks: Stacks::of(names),
            streams,
            threads,
            waiting: HashMap::default(),
            open: Ranges::new(0),
            step: None,
            last: 0,
        };
        reading.ahead(records, |batches| {
            for batch in batches {
                batch.events().for_each(|(event, scope)| pass.observe(event, &scope));
            }
        });
        pass.finish();
    }

    /// Takes the calls' numbers from the operations if calls are bins: the number of a call would be read as that of a bin.
    pub(super) fn forget_binned_calls(&mut self) {
        if let (Slices::Bins(_), Slices::Each(operations)) = (&self.calls, &mut self.operations) {
            operations.iter_mut().for_each(|operation| operation.call = NONE);
        }
    }
}

/// The pass over one process's records.
struct Pass<'a, 't> {
    source: Source<'a>,
    timeline: &'t mut Timeline,
    process: u32,
    /// Host ns at the start of the run.
    zero: i64,
    stacks: Stacks,
    /// The numbers of streams by context and id, and of threads.
    streams: HashMap<(u32, u64), u32>,
    threads: HashMap<Option<u32>, u32>,
    /// By thread: operations whose call has not ended yet, with the start of the call.
    waiting: HashMap<u32, Vec<(u64, u32)>>,
    open: Ranges<Asked>,
    step: Option<u64>,
    last: u64,
}

/// Whether a range passes the filter.
#[derive(Debug)]
struct Asked(bool);

impl Inside for Asked {
    fn absorb(&mut self, _: &Asked) {}
}

impl Pass<'_, '_> {
    fn observe(&mut self, event: &Event<'_>, scope: &Scope<'_>) {
        let record = event.record;
        self.last = self.last.max(record.at);
        if let Body::NvtxRange(range) = &record.body {
            return self.range(record, range, scope);
        }
        let Some(call) = record.body.call() else { return };
        if scope.call() && event.step.is_some() && event.step != self.step {
            self.step = event.step;
            let (process, begin) = (self.process, self.moment(host(call.begin)));
            self.timeline.steps.push(StepRow { process, number: event.step.unwrap_or(0), begin });
        }
        let untimed = match (&event.operation, scope.operation()) {
            (Some(operation), Some(_)) => self.operation(record, call, operation),
            _ => 0,
        };
        if let (Some(counted), true) = (event.call, scope.call()) {
            let row = CallRow {
                thread: self.thread(Some(record.thread)),
                api: self.timeline.names.api(self.source.names, counted.api),
                line: self.line(call),
                untimed,
                calls: counted.calls,
                begin: self.moment(host(call.begin)),
                end: self.moment(host(call.end)),
            };
            let number = self.timeline.calls.push(row);
            self.ended(record.thread, call, number);
        }
    }

    /// Gives the operations of a call the call's number.
    fn ended(&mut self, thread: u32, call: &Call, number: u32) {
        let Some(waiting) = self.waiting.get_mut(&thread) else { return };
        for (begin, operation) in waiting.drain(..) {
            if begin == call.begin
                && let Some(row) = self.timeline.operations.get_mut(operation)
            {
                row.call = number;
            }
        }
    }

    /// Adds an operation that has a time; returns why it has none.
    fn operation(&mut self, record: &Record, call: &Call, operation: &Operation) -> u32 {
        let why = match operation.when {
            When::Timed(interval) => {
                self.timed(record, call, operation, &interval);
                return 0;
            }
            When::Untimed { reason, .. } => reason.name(),
            When::Captured => Untimed::Captured.name(),
        };
        *self.timeline.left_out.untimed.entry(why).or_default() += 1;
        self.timeline.names.reason(why)
    }

    fn timed(&mut self, record: &Record, call: &Call, operation: &Operation, ran: &GpuInterval) {
        let Some(off_by) = ran.off_by else {
            self.timeline.left_out.off_the_line += 1;
            return;
        };
        let process = &mut self.timeline.processes[self.process as usize];
        process.clock_off_by_ns = process.clock_off_by_ns.max(off_by);
        let [start, finish] = ran.bounds();
        let shape = match &record.body {
            Body::Work(work) => match work.what {
                What::Kernel { grid, block, shared_bytes, .. } => {
                    self.timeline.names.shape(grid, block, shared_bytes)
                }
                _ => NONE,
            },
            _ => NONE,
        };
        let (name, amount) = self.timeline.names.operation(self.source.names, &operation.what);
        let row = OperationRow {
            stream: self.stream(operation),
            name,
            call: NONE,
            shape,
            correlation: operation.correlation,
            amount,
            start: self.moment(ran.start),
            start_bounds: (self.moment(start.0), self.moment(start.1)),
            finish: self.moment(ran.end),
            finish_bounds: (self.moment(finish.0), self.moment(finish.1)),
            duration: [ran.value(), ran.lo(), ran.hi()],
        };
        let number = self.timeline.operations.push(row);
        // A burst's record is no call.
        if number != NONE && call.api != 0 {
            let waiting = self.waiting.entry(record.thread).or_default();
            // Without the last record of a call, which carries no flag, those before it wait in vain.
            waiting.retain(|(begin, _)| *begin == call.begin);
            waiting.push((call.begin, number));
        }
    }

    fn range(&mut self, record: &Record, range: &NvtxRange, scope: &Scope<'_>) {
        let (thread, at) = (record.thread, record.at);
        let over = match range.change {
            NvtxChange::Push | NvtxChange::Start => {
                let inside = Asked(scope.call());
                self.open.begin(Begun { thread, at, range: range.clone(), inside });
                return;
            }
            NvtxChange::Mark => {
                if scope.call() {
                    self.annotate(Some(thread), range, (at, at));
                }
                return;
            }
            NvtxChange::Pop => self.open.pop(thread, range.domain, at),
            NvtxChange::End => self.open.end(range.id, at),
        };
        if let Ok(Some(over)) = over {
            self.over(&over);
        }
    }

    fn over(&mut self, Over { begun, end }: &Over<Asked>) {
        if begun.inside.0 {
            let is_started = begun.range.change == NvtxChange::Start;
            self.annotate((!is_started).then_some(begun.thread), &begun.range, (begun.at, *end));
        }
    }

    fn annotate(&mut self, thread: Option<u32>, range: &NvtxRange, (begin, end): (u64, u64)) {
        let row = RangeRow {
            thread: self.thread(thread),
            name: self.timeline.names.range(range, || RangeName::of(range, self.source.names)),
            begin: self.moment(host(begin)),
            end: self.moment(host(end)),
        };
        self.timeline.ranges.push(row);
    }

    /// Ends the pass. Ranges that never ended last until the end.
    fn finish(mut self) {
        let ended = self.source.status.map_or(self.last, |status| status.ended).max(self.last);
        let (_, open) = std::mem::replace(&mut self.open, Ranges::new(0)).finish(ended);
        open.iter().for_each(|over| self.over(over));
        let known = &mut self.timeline.known[self.process as usize];
        (known.streams, known.threads) = (self.streams, self.threads);
    }

    /// A host time as a time of the run, ns.
    fn moment(&self, time: i64) -> i64 {
        time.saturating_sub(self.zero)
    }

    fn stream(&mut self, operation: &Operation) -> u32 {
        let &Operation { context, stream, device, .. } = operation;
        *self.streams.entry((context, stream)).or_insert_with(|| {
            let number = self.source.filter.number_of(context, stream);
            self.timeline.streams.push(Stream { process: self.process, device, context, stream: number });
            self.timeline.streams.len() as u32 - 1
        })
    }

    /// Returns the number of a thread; `None` stands for the process.
    fn thread(&mut self, thread: Option<u32>) -> u32 {
        *self.threads.entry(thread).or_insert_with(|| {
            let threads = self.source.status.map(|status| &status.threads);
            let tid = thread.and_then(|thread| threads?.get(&thread).copied());
            let (process, is_of_process) = (self.process, thread.is_none());
            self.timeline.threads.push(Thread { process, tid, is_of_process });
            self.timeline.threads.len() as u32 - 1
        })
    }

    fn line(&mut self, call: &Call) -> u32 {
        let line = self.stacks.line_of(call);
        let stacks = &self.stacks;
        self.timeline.names.line(line, || stacks.line(line).map(Frame::place))
    }
}
