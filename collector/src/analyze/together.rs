//! Several processes on one machine: one row for each GPU that several of them used, and the memory that all of them
//! held.
//!
//! Host times of one machine are times of one clock (CLOCK_MONOTONIC_RAW), so its processes lie on one **line**: from
//! the start of the first to the end of the last. Their records are merged by time and analyzed once more. Each
//! process has a [`Model`] and a [`RecordFilter`] of its own; what those return goes into one timeline for each GPU,
//! identified by its UUID, and into one account of memory. A GPU is idle only where none of the processes used it,
//! and its parts sum to the run's wall time. Different machines, and different boots of one machine, are different
//! lines, which are never merged.
//!
//! - Numbers that are unique only within a process (contexts, device ordinals, places in its code) are
//!   replaced by numbers that are unique on the line, so that the analyses need no changes.
//! - What a process holds when it ends is freed at that moment, as the driver does it. The live bytes are those that
//!   are held at the end of the line.
//! - A process with capture ranges may use its GPUs outside of them: while another process's range is recorded and
//!   its own is not, they are *undecided*.

use super::analysis::Analysis;
use super::analysis::Line;
use super::devices::{self, DeviceReport};
use super::gaps::Neighbour;
use super::gaps::rows::{GapReport, side};
use super::idle::rows::Resolve;
use super::memory::{MemoryTimeline, MemoryUse};
use super::merge::Merge;
use super::scope::{Scope, Selected};
use super::source::Source;
use super::summary::ProcessReport;
use super::timeline::{Recorded, Timelines};
use crate::hash::{HashMap, HashSet};
use crate::model::clocks::Clocks;
use crate::model::filter::{Filter, RecordFilter};
use crate::model::gpu_interval::host;
use crate::model::lost::Lost;
use crate::model::memory::{Allocator, MemoryChange};
use crate::model::period::{self, Period};
use crate::model::run::{self, Machine, Surveyed};
use crate::model::stacks::Caller;
use crate::model::steps::StepCounter;
use crate::model::thread_times::ThreadTimes;
use crate::model::{self, Action, Drained, Event, Model, Operation, Reason, When};
use crate::trace::record::{Body, CARRIED_BEFORE, Names, Record, Status};
use gpuspy_wire::record::{LossCause, Memory, Namespace, Untimed};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::hash::Hash;
use std::iter::Peekable;
use std::sync::Arc;

mod shared_gpus;

use shared_gpus::{counted, placed};

/// The tables of the processes of a line.
#[derive(Clone, Debug, Default)]
pub struct Together {
    /// The time that they are about.
    pub line: Line,
    /// Where each GPU's time went, over all processes that used it.
    pub devices: Vec<DeviceReport>,
    /// When no process used a GPU.
    pub gaps: GapReport,
    /// The memory that all of them held; counts are sums.
    pub memory: MemoryUse,
}

/// The trace of a process, opened once more.
#[derive(Debug)]
pub struct Member<'a, Records> {
    /// Its texts.
    pub names: &'a Names,
    /// Its last status, if it has one.
    pub status: Option<&'a Status>,
    /// Its clocks.
    pub clocks: &'a Clocks,
    /// The filter. Its times count from the start of the line: [`Filter::origin`].
    pub filter: &'a Filter,
    /// Its records, in time order.
    pub records: Records,
    /// None of them is earlier than this: host ns. They are not asked for before, because a trace that is being read takes memory.
    pub not_before: u64,
}

impl<Records> Member<'_, Records> {
    fn machine(&self) -> Machine {
        let Member { names, status, clocks, .. } = *self;
        Surveyed { names, status, clocks }.machine()
    }
}

/// Puts the processes of each machine that has several on one line, and gives each report the line's tables. Members
/// are in the order of their reports.
pub fn together<Records>(reports: &mut [ProcessReport], members: Vec<Member<'_, Records>>)
where
    Records: Iterator<Item = Record>,
{
    let mut lines: HashMap<Machine, (Vec<usize>, Vec<Member<'_, Records>>)> = HashMap::default();
    for (at, member) in members.into_iter().enumerate() {
        let line = lines.entry(member.machine()).or_default();
        line.0.push(at);
        line.1.push(member);
    }
    for (places, members) in lines.into_values().filter(|(places, _)| places.len() > 1) {
        let own: Vec<&ProcessReport> = places.iter().map(|at| &reports[*at]).collect();
        let together = Arc::new(Fold::new(&own, members).run());
        for at in places {
            reports[at].together = Some(Arc::clone(&together));
        }
    }
}

/// Numbers on the line for what is unique only within its process.
#[derive(Debug)]
struct Numbers<T>(HashMap<(usize, T), u32>, Vec<(usize, T)>);

impl<T: Copy + Eq + Hash> Numbers<T> {
    fn new() -> Self {
        Numbers(HashMap::default(), Vec::new())
    }

    fn of(&mut self, process: usize, what: T) -> u32 {
        let next = self.1.len() as u32;
        let number = *self.0.entry((process, what)).or_insert(next);
        if number == next {
            self.1.push((process, what));
        }
        number
    }

    /// Returns the process of a number, and its own number there.
    fn get(&self, number: u64) -> Option<(usize, T)> {
        self.1.get(usize::try_from(number).ok()?).copied()
    }
}

/// A process on the line.
struct Process<'a, Records: Iterator<Item = Record>> {
    report: &'a ProcessReport,
    names: &'a Names,
    status: Option<&'a Status>,
    thread_times: Arc<ThreadTimes>,
    lost: Lost,
    model: Model<'a>,
    steps: StepCounter,
    record_filter: RecordFilter<'a>,
    records: Peekable<Records>,
    not_before: u64,
    /// Ordinal of a device → its number on the line.
    devices: HashMap<u32, u32>,
    /// The selected time in which it is not recorded, and others are, ns.
    blind_ns: u64,
    /// The bytes that it holds, by kind and by the line's number of the caller that allocated them.
    held: BTreeMap<(Memory, u64), u64>,
    /// When its memory is none of its trace's any more, host ns: of a process that runs on in a later window of its
    /// collection on the line, right before the trace of the next one has it.
    hands_over_at: Option<i64>,
}

/// An event on the line without a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Unrecorded {
    /// A process is not recorded from now until this time.
    Blind(i64),
    /// A process has ended.
    Ended,
}

struct Fold<'a, Records: Iterator<Item = Record>> {
    line: Line,
    /// A process, or a part of its time.
    processes: Vec<Process<'a, Records>>,
    /// The places of the parts of each process.
    parts: Vec<Vec<usize>>,
    /// GPUs by UUID, or by process and ordinal if the UUID is unknown.
    devices: Vec<DeviceReport>,
    contexts: Numbers<u32>,
    /// Where calls were made. On the line, the number of such a place takes the part of the code address.
    callers: Numbers<Caller>,
    timelines: Timelines,
    memory: MemoryTimeline,
    /// In time order: when, and of which process.
    unrecorded: BinaryHeap<Reverse<(i64, usize, Unrecorded)>>,
}

impl<'a, Records: Iterator<Item = Record>> Fold<'a, Records> {
    fn new(reports: &[&'a ProcessReport], members: Vec<Member<'a, Records>>) -> Self {
        let own = || reports.iter().map(|report| &report.process.line);
        let began = own().map(|line| line.began).min().unwrap_or(0);
        let ended = own().map(Line::ended).max().unwrap_or(0);
        let mut devices = Vec::new();
        let mut processes: Vec<_> = members
            .into_iter()
            .zip(reports)
            .map(|(member, report)| Process::new(member, report, &mut devices))
            .collect();
        let parts = run::processes(reports.iter().map(|report| report.process.id.as_ref()));
        for parts in &parts {
            let used: HashSet<u32> = parts.iter().flat_map(|at| processes[*at].used()).collect();
            used.into_iter().for_each(|place| devices[place as usize].processes += 1);
            // At the end of the last window that there is, the process holds what it holds.
            if let Some(last) = parts.iter().max_by_key(|at| reports[**at].process.began_realtime) {
                processes[*last].hands_over_at = None;
            }
        }
        let unobserved = between_parts(&parts, &processes);
        let period = Period::union(processes.iter().map(|process| process.record_filter.period()))
            .without_stretches(&uncovered(&unobserved, &processes));
        let line = Line::of(began, ended, &period);
        devices.iter_mut().for_each(|device| device.line = line);
        let mut unrecorded = BinaryHeap::new();
        for (at, process) in processes.iter_mut().enumerate() {
            let own = &process.report.process.line;
            let ends = (host(own.began), host(own.ended()));
            let blind = period.without(process.record_filter.period(), ends);
            unrecorded.extend(blind.iter().map(|(from, to)| Reverse((*from, at, Unrecorded::Blind(*to)))));
            process.blind_ns = blind.iter().map(|(from, to)| from.abs_diff(*to)).sum();
            if process.is_over() && own.ended() < ended {
                unrecorded.push(Reverse((ends.1, at, Unrecorded::Ended)));
            }
            if let Some(moment) = process.hands_over_at {
                unrecorded.push(Reverse((moment, at, Unrecorded::Ended)));
            }
        }
        for (at, from, to) in unobserved {
            let blind = period.between_moments(from, to);
            unrecorded.extend(blind.iter().map(|(from, to)| Reverse((*from, at, Unrecorded::Blind(*to)))));
        }
        // What a trace lacks may have been work in a context that only another trace of the process has.
        let mut lost = vec![Lost::default(); processes.len()];
        for parts in &parts {
            let of_all = Lost::union(parts.iter().map(|at| &processes[*at].lost));
            parts.iter().for_each(|at| lost[*at] = of_all.clone());
        }
        let hosts = processes.iter().zip(lost);
        let timelines = Timelines::over(
            period.clone(),
            hosts.map(|(process, lost)| Recorded {
                names: process.names,
                thread_times: Arc::clone(&process.thread_times),
                lost,
                status: process.status,
            }),
        );
        Fold {
            line,
            processes,
            parts,
            devices,
            contexts: Numbers::new(),
            callers: Numbers::new(),
            memory: MemoryTimeline::over(began, period),
            timelines,
            unrecorded,
        }
    }

    fn run(mut self) -> Together {
        let firsts = self.processes.iter().enumerate();
        let mut heads: BinaryHeap<_> =
            firsts.map(|(at, process)| Reverse((process.not_before, at))).collect();
        while let Some(Reverse((time, at))) = heads.pop() {
            if let Some(record) = self.processes[at].records.next_if(|record| record.at <= time) {
                self.unrecorded_before(host(record.at));
                self.take(at, &record);
            }
            match self.processes[at].records.peek() {
                Some(next) => heads.push(Reverse((next.at, at))),
                // Windows of weeks are on one line: what each takes has to end with its records.
                None => {
                    self.timelines.no_more_records(at as u32);
                    self.processes[at].model.no_more_records();
                }
            }
        }
        self.unrecorded_before(i64::MAX);
        self.finish()
    }

    fn take(&mut self, at: usize, record: &Record) {
        let process = &mut self.processes[at];
        let own = process.model.observe(record);
        let is_setting_up = process.steps.is_setting_up();
        process.steps.observe(record);
        let selected = Selected::of(&mut process.record_filter, &own);
        let scope = Scope::of(&own, &selected);
        let mut event = Event::new(record);
        event.is_preparing = process.steps.is_preparing();
        event.is_setting_up = is_setting_up;
        event.call = own.call;
        event.caller = own.caller;
        event.process = at as u32;
        event.context = match event.context {
            0 => 0,
            context => self.contexts.of(at, context),
        };
        if process.hands_over_at.is_none_or(|moment| host(record.at) <= moment) {
            event.memory = scope.memory().to_vec();
        }
        for change in &mut event.memory {
            let caller = &mut change.allocator_mut().caller;
            *caller = self.callers.of(at, Caller { address: *caller, line: 0 }).into();
            process.hold(change);
        }
        event.operation = scope.operation_at_any_time().map(|operation| Operation {
            device: operation.device.and_then(|device| process.devices.get(&device).copied()),
            context: self.contexts.of(at, operation.context),
            caller: on_line(&mut self.callers, at, operation.caller),
            ..*operation
        });
        let over = own.drained.iter();
        event.drained =
            over.map(|one| Drained { context: self.contexts.of(at, one.context), ..*one }).collect();
        let renamed = renamed(record, |context| self.contexts.of(at, context));
        event.record = renamed.as_ref().unwrap_or(record);
        let call = scope.call();
        self.observe(&event, call);
    }

    /// Gives both analyses an event with the line's numbers. `call` says whether its call passes the filter.
    fn observe(&mut self, event: &Event<'_>, call: bool) {
        let scope = Scope::whole(event, call);
        self.timelines.observe(event, &scope);
        self.memory.observe(event, &scope);
    }

    /// Handles the events without a record before a moment.
    fn unrecorded_before(&mut self, until: i64) {
        while let Some(Reverse((moment, at, what))) =
            self.unrecorded.peek().copied().filter(|Reverse((moment, ..))| *moment < until)
        {
            self.unrecorded.pop();
            match what {
                Unrecorded::Blind(to) => self.blind(at, moment, to),
                Unrecorded::Ended => self.ended(at, moment),
            }
        }
    }

    /// Handles an interval in which a process is not recorded and may use its GPUs.
    fn blind(&mut self, at: usize, from: i64, to: i64) {
        let nothing = nothing_at(from);
        let used = |device: &&DeviceReport| device.timelines > 0;
        for device in self.processes[at].report.tables.devices.iter().filter(used) {
            let number = device.id.and_then(|id| self.processes[at].devices.get(&id).copied());
            // No context has such a high number.
            let context = self.contexts.of(at, u32::MAX - device.id.unwrap_or(0));
            let issued = from.max(0) as u64;
            let operation = Operation {
                correlation: 0,
                context,
                device: number,
                stream: 0,
                caller: on_line(&mut self.callers, at, Caller::default()),
                called: issued,
                returned: issued,
                what: Action::Kernel { name: 0, communication: false },
                when: When::Untimed { reason: Reason::Untimed(Untimed::OutsideRange), after: Some(from) },
            };
            let drained = Drained { context, stream: None, issued_before: issued, by: to };
            let event = Event::new(&nothing);
            self.observe(&Event { operation: Some(operation), ..event.clone() }, false);
            self.observe(&Event { drained: vec![drained], ..event }, false);
        }
    }

    /// Handles the end of a process: its work is over, and its memory is free. The driver takes care of both before
    /// the process is gone.
    fn ended(&mut self, at: usize, moment: i64) {
        let nothing = nothing_at(moment);
        self.timelines.process_ended(at as u32, moment);
        self.memory.process_ended(at as u32, moment);
        let held = std::mem::take(&mut self.processes[at].held);
        let gone = held.into_iter().filter(|(_, bytes)| *bytes > 0).map(|((memory, caller), bytes)| {
            MemoryChange::Vanished { memory, bytes, of: Allocator { caller, ..Allocator::default() } }
        });
        self.observe(&Event { memory: gone.collect(), ..Event::new(&nothing) }, false);
    }

    fn finish(self) -> Together {
        let Fold { line, processes, parts, mut devices, callers, timelines, memory, .. } = self;
        let mut sum = MemoryUse::default();
        for parts in &parts {
            let reports: Vec<&ProcessReport> = parts.iter().map(|at| processes[*at].report).collect();
            add_memory(&mut sum, &reports);
        }
        let of_each: Vec<_> =
            processes.iter().map(|one| (one.report, one.devices.clone(), one.blind_ns)).collect();
        // The rows of a device in the reports of the processes, and for how long each of these was not recorded.
        let own = |number: Option<u32>| -> Vec<(&DeviceReport, u64)> {
            let rows = of_each.iter().flat_map(|(report, numbers, blind_ns)| {
                let is_it =
                    move |row: &&DeviceReport| row.id.and_then(|id| numbers.get(&id).copied()) == number;
                report.tables.devices.iter().filter(is_it).map(move |row| (row, *blind_ns))
            });
            rows.collect()
        };
        let known: Vec<Known<'_>> = processes.into_iter().map(Process::finish).collect();
        let owner = |number| callers.get(number).and_then(|(at, caller)| Some((known.get(at)?, caller)));
        let source = |number| owner(number).map_or_else(Source::default, |(of, caller)| of.source(caller));
        let memory = counted(memory.rows(line.ended(), |number| source(number).library), sum);
        let beside = |neighbour: &Neighbour| {
            let (of, caller) = owner(neighbour.caller.address)?;
            Some((of.process, side(neighbour, caller, &of.model, of.names)))
        };
        let source = |caller: Caller| source(caller.address);
        let mut unknown = Vec::new();
        for (number, time) in timelines.by_device(host(line.ended())) {
            let mut device = match number.and_then(|number| devices.get(number as usize)) {
                Some(device) => device.clone(),
                None => DeviceReport { line, processes: 1, ..DeviceReport::default() },
            };
            device.idle = time.idle.report(&Processes(&known));
            let own = own(number);
            own.iter().for_each(|(row, _)| device.idle.set_warm_up_of(&row.idle));
            let found = placed(&mut device, time, &own);
            device.complete_idle();
            device.gaps =
                GapReport::of(found, (device.id, device.began_ns), beside, source, &Processes(&known));
            own.iter().for_each(|(row, _)| device.gaps.set_warm_up_of(&row.gaps));
            match number.and_then(|number| devices.get_mut(number as usize)) {
                Some(place) => *place = device,
                None => unknown.push(device),
            }
        }
        devices.extend(unknown);
        Together { line, gaps: devices::gaps(&devices), devices, memory }
    }
}

/// Adds the memory of a process, by the reports about it or about the parts of its time: who holds memory in several of these is named
/// once, at the highest peak and at the end.
fn add_memory(sum: &mut MemoryUse, parts: &[&ProcessReport]) {
    let of = |at: usize| &parts[at].tables.memory;
    let highest = (0..parts.len()).max_by_key(|at| of(*at).device.peak().value);
    let last = (0..parts.len()).max_by_key(|at| parts[*at].process.began_realtime);
    for at in 0..parts.len() {
        if Some(at) == highest && Some(at) == last {
            sum.merge(of(at));
            continue;
        }
        let mut memory = of(at).clone();
        if Some(at) != highest {
            memory.holders.at_peak.clear();
        }
        if Some(at) != last {
            memory.holders.never_freed.clear();
        }
        sum.merge(&memory);
    }
}

/// Returns where a call of a process was made, by the line's numbers.
fn on_line(callers: &mut Numbers<Caller>, process: usize, caller: Caller) -> Caller {
    Caller { address: callers.of(process, caller).into(), line: 0 }
}

/// The processes of the line, by number.
struct Processes<'k, 'a>(&'k [Known<'a>]);

impl Resolve for Processes<'_, '_> {
    fn tid(&self, process: u32, thread: u32) -> Option<u32> {
        self.0.get(process as usize)?.status?.threads.get(&thread).copied()
    }

    fn text(&self, process: u32, namespace: Namespace, id: u32) -> Option<&str> {
        self.0.get(process as usize)?.names.get(namespace, id)
    }

    fn source(&self, process: u32, caller: Caller) -> Source {
        self.0.get(process as usize).map_or_else(Source::default, |known| known.source(caller))
    }
}

/// What is known of a process at the end.
struct Known<'a> {
    /// Its id and its rank.
    process: [Option<u32>; 2],
    names: &'a Names,
    status: Option<&'a Status>,
    model: model::Process,
}

impl Known<'_> {
    fn source(&self, caller: Caller) -> Source {
        Source::of(caller, &self.model, self.names)
    }
}

impl<'a, Records: Iterator<Item = Record>> Process<'a, Records> {
    /// Creates a process of which no record has been read, and gives its devices their places among those of the
    /// line.
    fn new(member: Member<'a, Records>, report: &'a ProcessReport, devices: &mut Vec<DeviceReport>) -> Self {
        let Member { names, status, clocks, filter, records, not_before } = member;
        let record_filter = RecordFilter::of(filter, names, status, clocks);
        let mut numbers = HashMap::default();
        for own in &report.tables.devices {
            let Some(id) = own.id else { continue };
            let same = |other: &DeviceReport| own.uuid.is_some() && own.uuid == other.uuid;
            let place = devices.iter().position(same).unwrap_or(devices.len());
            if place == devices.len() {
                let DeviceReport { uuid, name, memory_bytes, .. } = own.clone();
                devices.push(DeviceReport {
                    id: own.id,
                    uuid,
                    name,
                    memory_bytes,
                    ..DeviceReport::default()
                });
            }
            numbers.insert(id, place as u32);
        }
        let mut process = Process {
            report,
            names,
            status,
            thread_times: Arc::clone(&clocks.thread_times),
            lost: clocks.lost.clone(),
            model: Model::new(names, clocks),
            steps: StepCounter::new(&clocks.steps),
            record_filter,
            records: records.peekable(),
            not_before,
            devices: numbers,
            blind_ns: 0,
            held: BTreeMap::new(),
            hands_over_at: None,
        };
        if period::window(names).is_some() && !process.is_over() {
            let end = process.record_filter.period().ends().1;
            process.hands_over_at = Some(end.saturating_sub(host(CARRIED_BEFORE) + 1));
        }
        process
    }

    /// The numbers of the GPUs that it used.
    fn used(&self) -> impl Iterator<Item = u32> {
        let used = self.report.tables.devices.iter().filter(|own| own.timelines > 0);
        used.filter_map(|own| own.id.and_then(|id| self.devices.get(&id).copied()))
    }

    /// Whether it certainly has ended, so that its memory is free.
    fn is_over(&self) -> bool {
        self.report.process.outcome.is_some_and(|outcome| !outcome.runs_on())
    }

    fn hold(&mut self, change: &MemoryChange) {
        let held = self.held.entry((change.memory(), change.allocator().caller)).or_default();
        match *change {
            MemoryChange::Allocated { bytes, .. } | MemoryChange::FreeFailed { bytes, .. } => {
                *held = held.saturating_add(bytes);
            }
            MemoryChange::Freed { bytes, .. } | MemoryChange::Vanished { bytes, .. } => {
                *held = held.saturating_sub(bytes);
            }
            MemoryChange::Passed { .. } => {}
        }
    }

    fn finish(self) -> Known<'a> {
        let of = &self.report.process;
        let (process, model) = ([of.pid, of.job.rank], self.model.finish());
        Known { process, names: self.names, status: self.status, model }
    }
}

/// Returns when nobody collected what a process did between two of its traces: the place of the first one, and host ns. Windows of
/// time say in their own traces what they are about.
fn between_parts<Records: Iterator<Item = Record>>(
    parts: &[Vec<usize>],
    processes: &[Process<'_, Records>],
) -> Vec<(usize, i64, i64)> {
    let mut unobserved = Vec::new();
    for parts in parts {
        let mut places: Vec<usize> = parts.clone();
        places.retain(|at| period::window(processes[*at].names).is_none());
        let line = |at: usize| &processes[at].report.process.line;
        places.sort_by_key(|at| line(*at).began);
        for pair in places.windows(2) {
            let (from, to) = (host(line(pair[0]).ended()), host(line(pair[1]).began));
            if from < to && !processes[pair[0]].is_over() {
                unobserved.push((pair[0], from, to));
            }
        }
    }
    unobserved
}

/// Returns the part of that time in which no other process was collected, either: nothing is known of it.
fn uncovered<Records: Iterator<Item = Record>>(
    unobserved: &[(usize, i64, i64)],
    processes: &[Process<'_, Records>],
) -> Vec<(i64, i64)> {
    let lines = processes.iter().map(|process| &process.report.process.line);
    let own: Vec<Period> = lines.map(|line| Period::between(host(line.began), host(line.ended()))).collect();
    let collected = Period::union(own.iter());
    unobserved.iter().flat_map(|(_, from, to)| Period::default().without(&collected, (*from, *to))).collect()
}

/// Returns a record without any meaning.
fn nothing_at(moment: i64) -> Record {
    let body = Body::Loss { cause: LossCause::RingFull, count: 0 };
    Record { thread: 0, at: moment.max(0) as u64, body }
}

/// Returns the record of a stream, or of the end of a context, with the context's number on the line; `None` for any other
/// record.
fn renamed(record: &Record, number: impl FnOnce(u32) -> u32) -> Option<Record> {
    let body = match &record.body {
        Body::Context(context) if context.destroyed => {
            let mut context = context.clone();
            context.context = number(context.context);
            Body::Context(context)
        }
        Body::Stream(stream) => {
            let mut stream = stream.clone();
            stream.context = number(stream.context);
            Body::Stream(stream)
        }
        _ => return None,
    };
    Some(Record { body, ..*record })
}
