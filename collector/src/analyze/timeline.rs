//! The timelines of GPUs, from which their [time](super::identity) is divided and their [gaps](super::gaps) are
//! found.
//!
//! A timeline is a device: all streams of all contexts that a process has there, on the
//! [line](crate::model::gpu_clock) that their clocks were fitted to. Contexts of one process take turns on a device,
//! so what one of them does is the device's time, and a moment in which two have work is counted once. Operations
//! arrive in host order; [`Reorder`] brings them into the order of their start events. Then every edge before the
//! next start event is final, and a [`Sweep`] passes over it. So the memory needed is the reorder window, the
//! operations that are running, and a little per stream.
//!
//! **Untimed work** ran at an unknown time: not before its call, nor before the end of the timed operation before it
//! on its stream; not after the start of the timed operation after it, nor after the return of a synchronization of
//! the program or of a copy to the host, nor after an error of the GPU, nor after the end of the records. That whole
//! interval is *undecided* where nothing else is known to run. If the work was left untimed to keep within the budget, it
//! is *unobserved*.
//!
//! **Lost records** may have been of any work on the process's contexts. So the time in which records may be missing is
//! undecided, and on each stream that was [in use](IN_USE) the time after that, until something shows, as for untimed work, that
//! nothing of it runs any more.
//!
//! One operation is certainly before another if its call had returned before the other's was entered. Calls of two
//! threads that overlap may have reached their stream in either order, whichever is first in the trace; and the
//! untimed one may lie between the other's events.

use super::analysis::{Analysis, End, Start};
use super::bins::Bins;
use super::devices::{self, DeviceReport};
use super::gaps::sweep::{Sweep, Swept};
use super::gaps::{GapLog, Gaps, Lane, Neighbour};
use super::identity::{CLASSES, Class, Identity, Layer};
use super::idle::HtaClasses;
use super::idle::by_step::{BeforeSteps, StepIdle};
use super::idle::host::{Host, Over};
use super::idle::lead::{Lead, LeadNumber};
use super::idle::rows::{Found, Used};
use super::idle::running::LineTimes;
use super::scope::Scope;
use crate::hash::HashMap;
use crate::model::gpu_error;
use crate::model::gpu_interval::{Basis, GpuInterval, host};
use crate::model::hangs::blocked_since;
use crate::model::lost::Lost;
use crate::model::order::{Reorder, WINDOW};
use crate::model::period::Period;
use crate::model::stacks::Caller;
use crate::model::thread_times::ThreadTimes;
use crate::model::transfer::TransferKind;
use crate::model::{Action, Drained, Event, Operation, Reason, When};
use crate::trace::record::{Body, Names, Status};
use gpuspy_wire::record::{Untimed, flag};
use items::{Item, Kind, Placed, class, neighbour, of_part, sweep};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;
use streams::{Ran, Stream, StreamKey, Streams, Untracked};

mod items;
mod streams;

/// The stream id by which untimed work of destroyed streams is ordered among that of others: no stream has it.
const DESTROYED: u64 = u64::MAX;

/// How long ago a stream had work for it to be in use when records are lost, ns. Work that was lost on another stream, or on one that
/// did not exist before, is taken to be over when no more records are lost.
const IN_USE: i64 = 1_000_000_000;

/// What the sweep found of one device.
#[derive(Clone, Debug, Default)]
pub struct DeviceTime {
    /// Host ns on the line at which the counted span starts; `None` without a span, or for several timelines.
    pub began: Option<i64>,
    /// The parts of the time of its timelines, added.
    pub identity: Identity,
    /// What ran when; empty for several timelines.
    pub bins: Bins,
    /// The sum of the times of operations with an estimate, by [`Class`], ns. Operations that ran side by side are
    /// both in it.
    pub work: [u64; CLASSES],
    /// The number of streams that had work.
    pub streams: u64,
    /// The number of timelines: one, or one for each context whose device is unknown.
    pub timelines: u64,
    /// Operations with a GPU time, inside and outside the selected period.
    pub timed: u64,
    /// Operations that arrived too late for their place in GPU order; the intervals account for them.
    pub late: u64,
    /// The gaps of its timelines.
    pub gaps: Gaps,
    /// The same by cause.
    pub idle: Found,
    /// The same by step and cause, of each of its timelines.
    pub idle_by_step: Vec<StepIdle>,
    /// The time of its timelines before the first step, added.
    pub before_steps: BeforeSteps,
}

/// What a timeline belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Owner {
    Device(u32),
    /// A context whose device is unknown.
    Context(u32),
}

/// A process whose operations are on timelines.
#[derive(Debug)]
pub struct Recorded<'r> {
    /// The texts of its trace.
    pub names: &'r Names,
    /// The processor time of its threads.
    pub thread_times: Arc<ThreadTimes>,
    /// When records of it may have been lost.
    pub lost: Lost,
    /// Its last status, if the trace has one.
    pub status: Option<&'r Status>,
}

/// All timelines of a process.
#[derive(Debug, Default)]
pub struct Timelines {
    period: Period,
    open: BTreeMap<Owner, Timeline>,
    owners: HashMap<u32, Owner>,
    /// The host's side of each process, by its number.
    hosts: Vec<Host>,
    /// The processor time of their threads.
    times: LineTimes,
    /// Where each gap is noted.
    log: Option<GapLog>,
}

impl<'a> Analysis<'a> for Timelines {
    type Rows = Vec<DeviceReport>;

    fn new(start: &Start<'a>) -> Self {
        let recorded = Recorded {
            names: start.names,
            thread_times: Arc::clone(&start.thread_times),
            lost: start.lost.clone(),
            status: start.status,
        };
        Timelines::over(start.period.clone(), [recorded])
    }

    fn observe(&mut self, event: &Event<'_>, scope: &Scope<'_>) {
        self.lose(event.process as usize, host(event.record.at));
        if let Some(host) = self.hosts.get_mut(event.process as usize) {
            host.observe(event);
        }
        let over = self.waited_until(event);
        if let Some(operation) = scope.operation_at_any_time() {
            self.operation(event, operation, scope.is_part_of_burst());
        }
        if let (Some(call), Some(host)) = (event.call, self.hosts.get_mut(event.process as usize)) {
            host.call(event, call, over);
        }
        for drained in completed(event).chain(stopped(event)) {
            if let Some(timeline) = self.known(drained.context) {
                timeline.drained(&drained, None);
            }
        }
        match &event.record.body {
            Body::Context(context) if context.destroyed => {
                if let Some(timeline) = self.known(context.context) {
                    timeline.gone(context.context, host(event.record.at));
                }
            }
            Body::Stream(stream) if stream.destroyed => {
                if let Some(timeline) = self.known(stream.context) {
                    timeline.forget((stream.context, stream.stream), host(event.record.at));
                }
            }
            _ => {}
        }
    }

    fn finish(self, end: &End<'_>) -> Vec<DeviceReport> {
        devices::rows(self.by_device(host(end.ended)), end)
    }
}

impl Timelines {
    /// Creates timelines that count the time in `period`, of these processes.
    pub fn over<'r>(period: Period, processes: impl IntoIterator<Item = Recorded<'r>>) -> Self {
        let of = |Recorded { names, thread_times, lost, status }: Recorded<'r>| {
            let blocked_since = status.and_then(blocked_since).map(host);
            (Host::new(names, &period, lost, blocked_since), thread_times)
        };
        let (hosts, times): (_, Vec<_>) = processes.into_iter().map(of).unzip();
        Timelines { period, hosts, times: times.into(), ..Timelines::default() }
    }

    /// A process, by its number, has ended at a moment: so has its work.
    pub fn process_ended(&mut self, process: u32, moment: i64) {
        let Timelines { open, owners, hosts, .. } = self;
        let Some(host) = hosts.get(process as usize) else { return };
        let silent_since = host.silent_since(moment);
        for context in host.contexts() {
            let drained = Drained { context: *context, stream: None, issued_before: u64::MAX, by: moment };
            if let Some(timeline) = owners.get(context).and_then(|owner| open.get_mut(owner)) {
                timeline.drained(&drained, silent_since);
            }
        }
    }

    /// A process, by its number, has no more records: nothing asks any more what its threads did.
    pub fn no_more_records(&mut self, process: u32) {
        if let Some(host) = self.hosts.get_mut(process as usize) {
            host.end();
        }
    }

    /// Notes each gap in a log.
    pub fn log_to(&mut self, log: GapLog) {
        self.log = Some(log);
    }

    /// Takes an operation. Of a burst or a run it may be a part that counts (`is_part`), which ran somewhere in its time.
    fn operation(&mut self, event: &Event<'_>, operation: &Operation, is_part: bool) {
        let Timelines { period, open, owners, hosts, times, log } = self;
        let owner = operation.device.map_or(Owner::Context(operation.context), Owner::Device);
        if owners.insert(operation.context, owner).is_none()
            && let Some(host) = hosts.get_mut(event.process as usize)
        {
            host.uses(operation.context);
        }
        let timeline = open.entry(owner).or_insert_with(|| {
            let mut timeline = Timeline::new(period.clone(), WINDOW, Arc::clone(times));
            if let Some(log) = log {
                timeline.sweep.log_to(log.clone(), operation.device);
            }
            timeline
        });
        let mut host = hosts.get_mut(event.process as usize);
        let mut lead = |since: (i64, usize)| host.as_mut()?.lead(event, operation, since);
        match &operation.when {
            When::Timed(interval) => {
                let interval = &if is_part { of_part(interval) } else { *interval };
                timeline.work(operation, interval);
                let shows_call = event.record.body.call().is_some_and(|call| call.api != 0);
                timeline.timed(operation, interval, shows_call, lead);
            }
            When::Untimed { reason, after: Some(after) } if enters_a_stream(*reason) => {
                timeline.untimed(operation, *reason, *after, lead);
            }
            // It is timed together with others: the first of them leads.
            When::Untimed { after: None, .. } => timeline.member(operation, lead),
            When::Untimed { .. } | When::Captured => drop(lead((i64::MAX, 0))),
        }
    }

    /// Notes on the timelines of a process what may have been lost by host ns `at`.
    fn lose(&mut self, process: usize, at: i64) {
        let Timelines { open, owners, hosts, .. } = self;
        let Some(host) = hosts.get_mut(process) else { return };
        while let Some(lost) = host.next_lost(at) {
            for context in host.contexts() {
                if let Some(timeline) = owners.get(context).and_then(|owner| open.get_mut(owner)) {
                    timeline.lost(*context, lost);
                }
            }
        }
    }

    /// Returns when the work was over that the call which ends here may have waited for.
    fn waited_until(&self, event: &Event<'_>) -> Option<Over> {
        let call = event.call?;
        if !self.hosts.get(event.process as usize)?.may_wait(event, call) {
            return None;
        }
        let timeline = |context: &u32| self.open.get(self.owners.get(context)?);
        match &event.operation {
            Some(operation) => timeline(&operation.context)?.ahead_of(operation),
            None if event.context != 0 => timeline(&event.context)?.last.map(|ran| ran.over()),
            // It may be about any context.
            None => {
                let contexts = self.hosts.get(event.process as usize)?.contexts().iter();
                let last = contexts.filter_map(|context| timeline(context)?.last);
                last.max_by_key(|ran| ran.end).map(|ran| ran.over())
            }
        }
    }

    /// Returns what the sweep found of each device until host ns `ended`, when the last record was made; `None` stands for the
    /// contexts whose device is not known.
    pub fn by_device(mut self, ended: i64) -> BTreeMap<Option<u32>, DeviceTime> {
        (0..self.hosts.len()).for_each(|process| self.lose(process, ended));
        let mut done: BTreeMap<Option<u32>, DeviceTime> = BTreeMap::new();
        for (owner, timeline) in self.open {
            let device = match owner {
                Owner::Device(device) => Some(device),
                Owner::Context(_) => None,
            };
            let device = done.entry(device).or_default();
            device.timed += timeline.timed;
            device.streams += timeline.streams.used;
            device.work.iter_mut().zip(timeline.work).for_each(|(sum, one)| *sum = sum.saturating_add(one));
            let hta = timeline.hta;
            let (owners, hosts) = (&self.owners, &self.hosts);
            let silent = |from: i64| silent(hosts, |context: u32| owners.get(&context) == Some(&owner), from);
            let Swept { origin, identity, bins, gaps, mut idle, late, before_steps } =
                timeline.finish(ended, |context| silent_since(hosts, context, ended), silent);
            device.idle_by_step.push(std::mem::take(&mut idle.by_step));
            let led = idle.led.iter().filter_map(|(key, led)| {
                let host = self.hosts.get(key.0 as usize)?;
                let thread = host.history().get(key.1)?;
                let (first, last) = thread.ends?;
                Some((*key, Used::of(thread, host.counts(first, last), *led)))
            });
            let threads = led.collect();
            let running = idle.running.finish();
            device.idle.add(Found { tally: idle, hta, threads, running });
            device.timelines += 1;
            device.began = origin.filter(|_| device.timelines == 1);
            device.bins = if device.timelines == 1 { bins } else { Bins::default() };
            device.identity.add(&identity);
            device.gaps.merge(gaps);
            device.late += late;
            device.before_steps.add(&before_steps);
        }
        done
    }

    /// Returns the timeline of a context that has had work.
    fn known(&mut self, context: u32) -> Option<&mut Timeline> {
        self.open.get_mut(self.owners.get(&context)?)
    }
}

/// Returns the work that an event shows to be complete.
pub(super) fn completed(event: &Event<'_>) -> impl Iterator<Item = Drained> {
    event.drained.iter().copied().chain(copied(event))
}

/// Returns what is over, and perhaps not complete, because the GPU has stopped with an error: it does no more work for the
/// context.
fn stopped(event: &Event<'_>) -> Option<Drained> {
    let Body::Api(api) = &event.record.body else { return None };
    let is_stopped = gpu_error::of(api.result).is_some() && event.context != 0;
    let over =
        Drained { context: event.context, stream: None, issued_before: api.call.end, by: host(api.call.end) };
    is_stopped.then_some(over)
}

/// Returns what is over because the host has the data of a copy, which may have no GPU time of its own: of one that waits by its
/// API, since memory that is taken for pageable may be pinned by a library that the agent does not see.
fn copied(event: &Event<'_>) -> Option<Drained> {
    let operation = event.operation.filter(|operation| operation.when != When::Captured)?;
    let flags = event.record.body.call()?.flags;
    let is_to_host = matches!(operation.what, Action::Transfer { kind: TransferKind::DtoH, .. });
    (is_to_host && flags & (flag::BLOCKING | flag::FAILED) == flag::BLOCKING).then(|| Drained {
        context: operation.context,
        stream: Some(operation.stream),
        issued_before: operation.returned,
        by: host(operation.returned),
    })
}

/// Returns what the host did in idle time that no operation ends, which may begin at `from`: of the processes that use a timeline,
/// the one whose call returned last leads.
fn silent(hosts: &[Host], uses: impl Fn(u32) -> bool, from: i64) -> Option<Lead> {
    let users = (0..).zip(hosts).filter(|(_, host)| host.contexts().iter().any(|context| uses(*context)));
    let last = users.max_by_key(|(_, host)| host.history().latest().map(|(_, _, returned)| returned));
    last.and_then(|(process, host)| host.silent(process, from))
}

/// Returns since when the process of a context [is silent](Host::silent_since) to its end.
fn silent_since(hosts: &[Host], context: u32, ended: i64) -> Option<i64> {
    hosts.iter().find(|host| host.contexts().contains(&context))?.silent_since(ended)
}

fn enters_a_stream(reason: Reason) -> bool {
    reason != Reason::Untimed(Untimed::NoStream)
}

/// One device.
#[derive(Debug)]
struct Timeline {
    order: Reorder<Item>,
    streams: Streams,
    /// The untimed work of destroyed streams, by context: at most one entry for each class and layer.
    of_destroyed: BTreeMap<u32, Vec<Untracked>>,
    /// Operations with a GPU time.
    timed: u64,
    period: Period,
    work: [u64; CLASSES],
    /// The timed operation that ended last.
    last: Option<Ran>,
    hta: HtaClasses,
    sweep: Sweep,
}

impl Timeline {
    /// Creates a timeline that holds back `window` items to put them in order.
    fn new(period: Period, window: usize, times: LineTimes) -> Self {
        let (order, streams) = (Reorder::new(window), Streams::default());
        let sweep = Sweep::new(period.clone(), times);
        let (work, hta, of_destroyed) = ([0; CLASSES], HtaClasses::default(), BTreeMap::new());
        Timeline { order, streams, of_destroyed, timed: 0, period, work, last: None, hta, sweep }
    }

    /// Adds the time of an operation. What was drawn from a run to be timed alone is not in the run's time.
    fn work(&mut self, operation: &Operation, interval: &GpuInterval) {
        if interval.basis != Basis::BoundsOnly {
            let sum = &mut self.work[class(operation.what) as usize];
            for (from, to) in interval.ran() {
                *sum = sum.saturating_add(self.period.length(from, to));
            }
        }
    }

    /// Counts the idle time before an operation on its stream as HTA does, from an export of the same time.
    fn idle_of_stream(&mut self, stream: usize, interval: &GpuInterval, called: Option<i64>) {
        let (start, end) = (interval.start, interval.end.max(interval.start));
        if self.period.contains(start) || self.period.length(start, end) > 0 {
            self.streams.at(stream).hta.next((start, end), called, &mut self.hta);
        }
    }

    /// Returns the earliest start that the gap can have which an operation ends: the end of the work before it.
    fn earliest_gap(&self, operation: &Operation, start: i64) -> i64 {
        let before = match self.last {
            Some(last) if last.end <= start => Some(last),
            _ => {
                let ran = self.streams.all().iter().filter_map(|(_, stream)| stream.last);
                let order = |ran: &Ran| (ran.end, Reverse((ran.earliest_end, Reverse(ran.off_by))));
                ran.filter(|ran| ran.start <= start).max_by_key(order)
            }
        };
        let off_by = match operation.when {
            When::Timed(interval) => interval.off_by.map_or(i64::MAX, host),
            _ => 0,
        };
        before.map_or(i64::MIN, |ran| ran.end.min(ran.earliest_end).saturating_sub(ran.off_by.max(off_by)))
    }

    /// Returns when the work ahead of an operation was over, by the order of its stream.
    fn ahead_of(&self, operation: &Operation) -> Option<Over> {
        let stream = self.streams.get((operation.context, operation.stream))?;
        stream.last.map(|ran| ran.over())
    }

    /// Takes a launch that a burst or a run will have timed.
    fn member(&mut self, operation: &Operation, lead: impl FnOnce((i64, usize)) -> Option<Lead>) {
        let stream = self.stream(operation);
        let first = self.streams.at(stream).first_member;
        let has_first = first != LeadNumber::default();
        let from = if has_first { i64::MAX } else { self.earliest_gap(operation, i64::MAX) };
        let Some(lead) = lead((from, self.sweep.leads.most_calls())) else { return };
        if has_first {
            self.sweep.leads.reach(first, lead.step);
        } else {
            self.streams.at(stream).first_member = self.sweep.leads.add(lead);
        }
    }

    /// Keeps the lead of an operation of a stream that starts at host ns `start`. Of a burst or a run it is that of the first
    /// launch.
    fn lead(
        &mut self,
        operation: &Operation,
        (stream, start): (usize, i64),
        lead: impl FnOnce((i64, usize)) -> Option<Lead>,
    ) -> LeadNumber {
        let first = std::mem::take(&mut self.streams.at(stream).first_member);
        if matches!(operation.what, Action::Burst { .. }) && first != LeadNumber::default() {
            return first;
        }
        self.sweep.leads.remove(first);
        let from = self.earliest_gap(operation, start);
        lead((from, self.sweep.leads.most_calls()))
            .map_or_else(LeadNumber::default, |lead| self.sweep.leads.add(lead))
    }

    fn timed(
        &mut self,
        operation: &Operation,
        interval: &GpuInterval,
        shows_call: bool,
        lead: impl FnOnce((i64, usize)) -> Option<Lead>,
    ) {
        self.timed += 1;
        let stream = self.stream(operation);
        self.idle_of_stream(stream, interval, shows_call.then_some(host(operation.called)));
        let lead = self.lead(operation, (stream, interval.start), lead);
        let ran = Ran::of(interval);
        if self.last.is_none_or(|last| last.end <= ran.end) {
            self.last = Some(ran);
        }
        let GpuInterval { time_base, off_by, .. } = *interval;
        let lane = Some(Lane { context: operation.context, time_base, off_by });
        let neighbour = neighbour(operation, lane, interval.earliest_end, interval.latest_start, lead);
        let off = interval.stamps_off_by();
        let stream = self.streams.at(stream);
        stream.end = interval.latest_end - 2 * off;
        stream.last = Some(ran);
        stream.returned = stream.returned.max(operation.returned);
        let ahead = stream.untimed.extract_if(.., |open| open.issued <= operation.called).collect();
        self.close(ahead, interval.earliest_start + off);
        let placed = Kind::Timed(Placed::of(interval));
        self.push(interval.earliest_start, placed, class(operation.what), neighbour);
    }

    fn untimed(
        &mut self,
        operation: &Operation,
        reason: Reason,
        after: i64,
        lead: impl FnOnce((i64, usize)) -> Option<Lead>,
    ) {
        let class = class(operation.what);
        let layer = match reason {
            Reason::Untimed(Untimed::Budget) => Layer::Unobserved,
            _ => Layer::Undecided,
        };
        let place = self.stream(operation);
        let stream = self.streams.at(place);
        let since = if stream.returned <= operation.called { after.max(stream.end) } else { after };
        let is_same = |open: &&mut Untracked| open.is_of(layer, class);
        let is_first = stream.untimed.iter_mut().find(is_same).is_none_or(|open| since < open.since);
        let lead = if is_first {
            self.lead(operation, (place, since), lead)
        } else {
            drop(lead((i64::MAX, 0)));
            LeadNumber::default()
        };
        // Where nothing else runs, it has started by the return of its call.
        let first = neighbour(operation, None, since, since.max(host(operation.returned)), lead);
        self.track(place, Untracked { layer, class, since, issued: operation.returned, first });
    }

    /// Notes untimed work of a stream, together with what it has of the same layer and class.
    fn track(&mut self, place: usize, work: Untracked) {
        let Untracked { layer, class, since, issued, first } = work;
        let stream = self.streams.at(place);
        let Some(open) = stream.untimed.iter_mut().find(|open| open.is_of(layer, class)) else {
            stream.untimed.push(work);
            self.push(since, Kind::From(layer), class, first);
            return;
        };
        open.issued = open.issued.max(issued);
        // That of another thread may have started before.
        if since < open.since {
            let until = std::mem::replace(&mut open.since, since);
            self.push(since, Kind::From(layer), class, first);
            self.push(until, Kind::To(layer), class, first);
        }
    }

    /// Notes that records of calls in a context may have been lost between two moments: host ns.
    fn lost(&mut self, context: u32, (from, to): (i64, i64)) {
        let nothing = Neighbour {
            correlation: 0,
            what: Action::Kernel { name: 0, communication: false },
            caller: Caller::default(),
            lane: None,
            earliest_end: from,
            latest_start: to,
            lead: LeadNumber::default(),
        };
        let of_context =
            |(key, stream): &(StreamKey, Stream)| key.0 == context && stream.called >= from - IN_USE;
        let all = self.streams.all().iter().enumerate();
        let used: Vec<usize> = all.filter(|(_, one)| of_context(one)).map(|(place, _)| place).collect();
        for class in Class::ALL {
            self.push(from, Kind::From(Layer::Lost), class, nothing);
            self.push(to, Kind::To(Layer::Lost), class, nothing);
            let work =
                Untracked { layer: Layer::Lost, class, since: from, issued: to as u64, first: nothing };
            used.iter().for_each(|place| self.track(*place, work));
        }
    }

    /// Returns the place of an operation's stream.
    fn stream(&mut self, operation: &Operation) -> usize {
        let place = self.streams.place((operation.context, operation.stream));
        let called = &mut self.streams.at(place).called;
        *called = (*called).max(host(operation.called));
        place
    }

    /// Ends untimed work that is over; of a process that has ended, with the moment since when it [is silent](Host::silent_since).
    fn drained(&mut self, drained: &Drained, silent_since: Option<i64>) {
        let is_over = |open: &mut Untracked| open.issued <= drained.issued_before;
        let mut done = Vec::new();
        if let Some(stream) = drained.stream {
            let key = (drained.context, stream);
            if let Some(stream) = self.streams.get_mut(key) {
                done.extend(stream.untimed.extract_if(.., is_over).map(|open| (key, open)));
            }
        } else {
            let all = self.streams.all_mut().iter_mut();
            for (key, stream) in all.filter(|((context, _), _)| *context == drained.context) {
                done.extend(stream.untimed.extract_if(.., is_over).map(|open| (*key, open)));
            }
            if let Some(untimed) = self.of_destroyed.get_mut(&drained.context) {
                let key = (drained.context, DESTROYED);
                done.extend(untimed.extract_if(.., is_over).map(|open| (key, open)));
            }
        }
        match silent_since {
            None => self.close_all(done, drained.by),
            Some(_) => self.end(done, drained.by, |_| silent_since),
        }
    }

    /// Ends a context, and all untimed work in it.
    fn gone(&mut self, context: u32, at: i64) {
        let keys = self.streams.all().iter().map(|(key, _)| *key);
        let of_context: Vec<StreamKey> = keys.filter(|(owner, _)| *owner == context).collect();
        let gone = of_context.into_iter().filter_map(|key| Some((key, self.streams.remove(key)?)));
        let open = gone.flat_map(|(key, stream)| stream.untimed.into_iter().map(move |open| (key, open)));
        let mut open: Vec<(StreamKey, Untracked)> = open.collect();
        let of_destroyed = self.of_destroyed.remove(&context).into_iter().flatten();
        open.extend(of_destroyed.map(|work| ((context, DESTROYED), work)));
        self.close_all(open, at);
    }

    /// Ends untimed work. Where its process is silent since a moment, by context, work of a pause may run for as long as that lasts, and what
    /// ran in other pauses says nothing about this time.
    fn end(&mut self, open: Vec<(StreamKey, Untracked)>, at: i64, silent_since: impl Fn(u32) -> Option<i64>) {
        let silent = |(key, open): &(StreamKey, Untracked)| {
            let from = silent_since(key.0).filter(|_| open.layer == Layer::Unobserved)?.max(open.since);
            (from < at).then_some(from)
        };
        for (one, from) in open.iter().filter_map(|one| Some((one.1, silent(one)?))) {
            self.close(vec![one], from);
            self.push(from, Kind::From(Layer::Undecided), one.class, one.first);
            self.push(at, Kind::To(Layer::Undecided), one.class, one.first);
        }
        let others = open.into_iter().filter(|one| silent(one).is_none()).collect();
        self.close_all(others, at);
    }

    /// Ends the untimed work of several streams, in the order of these: that in which they are found is another in each
    /// run, and of work that ends at one time, the last is what a gap begins with.
    fn close_all(&mut self, mut open: Vec<(StreamKey, Untracked)>, at: i64) {
        open.sort_by_key(|(stream, _)| *stream);
        self.close(open.into_iter().map(|(_, open)| open).collect(), at);
    }

    /// Forgets a stream that was destroyed at host ns `at`. Its untimed work stays until a synchronization of the
    /// context or the end, together with that of other such streams, of which there may be very many.
    fn forget(&mut self, key: StreamKey, at: i64) {
        let Some(stream) = self.streams.remove(key) else { return };
        self.sweep.leads.remove(stream.first_member);
        for open in stream.untimed {
            let all = self.of_destroyed.entry(key.0).or_default();
            let Some(kept) = all.iter_mut().find(|kept| kept.is_of(open.layer, open.class)) else {
                all.push(open);
                continue;
            };
            // From here on, the earlier of the two stands for both.
            let issued = kept.issued.max(open.issued);
            let later = if open.since < kept.since { std::mem::replace(kept, open) } else { open };
            kept.issued = issued;
            self.close(vec![later], at);
        }
    }

    fn close(&mut self, open: Vec<Untracked>, at: i64) {
        for Untracked { layer, class, since, first, .. } in open {
            self.push(at.max(since), Kind::To(layer), class, first);
        }
    }

    fn push(&mut self, time: i64, kind: Kind, class: Class, neighbour: Neighbour) {
        let item = Item { kind, class, held: self.sweep.hold(neighbour) };
        if let Some((time, item)) = self.order.push(time, item) {
            sweep(&mut self.sweep, time, item);
        }
    }

    /// Returns what was found. Untimed work that nothing shows to be over may run until the end: a kernel that runs when a
    /// process is killed, hangs, or is looked at while it goes on.
    fn finish(
        mut self,
        ended: i64,
        silent_since: impl Fn(u32) -> Option<i64>,
        silent: impl FnOnce(i64) -> Option<Lead>,
    ) -> Swept {
        let streams = std::mem::take(&mut self.streams);
        let of_streams = streams.all().iter().map(|(key, stream)| (*key, stream.untimed.as_slice()));
        let of_destroyed = std::mem::take(&mut self.of_destroyed);
        let destroyed = of_destroyed.iter().map(|(context, open)| ((*context, DESTROYED), open.as_slice()));
        let open =
            of_streams.chain(destroyed).flat_map(|(key, open)| open.iter().map(move |open| (key, *open)));
        self.end(open.collect(), ended, silent_since);
        while let Some((time, item)) = self.order.pop() {
            sweep(&mut self.sweep, time, item);
        }
        self.sweep.finish(silent)
    }
}

#[cfg(test)]
mod tests;
