//! The host's side of a process: its threads' calls, their NVTX ranges, and what they put on streams.

use super::super::call_class::{CallClass, CallClasses};
use super::super::calls::base_name;
use super::super::waits;
use super::enqueued::Enqueued;
use super::first_launches::FirstLaunches;
use super::history::{History, Spent};
use super::lead::Lead;
use super::{Cause, LONG, Next};
use crate::model::gpu_interval::host;
use crate::model::lost::Lost;
use crate::model::period::Period;
use crate::model::ranges::{Begun, Inside, Ranges};
use crate::model::stacks::Caller;
use crate::model::transfer::TransferKind;
use crate::model::{CountedCall, Event, Operation, Reason, When};
use crate::trace::record::{Api, Body, Call, Names, NvtxRange};
use gpuspy_wire::record::{Namespace, NvtxChange, Untimed, WindowChange, flag};

/// Nothing is collected inside of ranges: only which ones are open counts.
#[derive(Debug)]
struct Nothing;

impl Inside for Nothing {
    fn absorb(&mut self, _: &Self) {}
}

/// When the work was over that a call may have waited for.
#[derive(Clone, Copy, Debug)]
pub struct Over {
    /// Host ns on the line, by the best estimate.
    pub at: i64,
    /// How far the clocks allow that to be off, ns.
    pub off_by: i64,
}

/// How long a process has made no call before its end, for what it waits for not to be like what it did before, ns. An interpreter takes less
/// to end.
const SILENT: i64 = 1_000_000_000;
/// So many queries until the work is done are a loop. If only the second one finds it done, there may be any work between both.
const AGAIN: u32 = 3;

/// The host's side of a process.
#[derive(Debug)]
pub struct Host {
    classes: CallClasses,
    /// The APIs that wait for work before they do their own, and are no copies.
    waiting: Vec<u16>,
    history: History,
    ranges: Ranges<Nothing>,
    enqueued: Enqueued,
    first_launches: FirstLaunches,
    /// Whether the present event is a launch that loads code.
    loads: bool,
    /// When the last call began that loads a module or creates a context: host ns. It waits for the GPU.
    loaded: i64,
    /// The contexts that had work.
    contexts: Vec<u32>,
    /// The number of operations so far.
    launches: u64,
    /// Whether the budget has paused the timing.
    is_paused: bool,
    /// When records may have been lost, from the stretch on that has not been reached; and how many have been.
    lost: Lost,
    reached: usize,
    /// The selected time without those stretches.
    counted: Period,
    /// What any thread did before this is not known.
    known_from: i64,
    /// Since when a thread has been blocked in a call to the end, host ns.
    blocked_since: Option<i64>,
}

impl Host {
    /// The host's side of a process with these names, of which `period` is selected, and records may have been lost. To the end, a thread
    /// is blocked in a call since `blocked_since`, if one is.
    pub fn new(names: &Names, period: &Period, lost: Lost, blocked_since: Option<i64>) -> Self {
        let apis = names.0.iter().filter(|((space, _), _)| *space == Namespace::Api);
        let waiting = apis.filter(|(_, name)| waits::Cause::of(base_name(name)).is_some());
        Host {
            classes: CallClasses::new(names),
            waiting: waiting.filter_map(|((_, id), _)| u16::try_from(*id).ok()).collect(),
            history: History::default(),
            ranges: Ranges::new(0),
            enqueued: Enqueued::default(),
            first_launches: FirstLaunches::default(),
            loads: false,
            loaded: i64::MIN,
            contexts: Vec::new(),
            launches: 0,
            is_paused: false,
            counted: period.without_stretches(lost.stretches()),
            lost,
            reached: 0,
            known_from: i64::MIN,
            blocked_since,
        }
    }

    /// Returns since when a process that ended at a moment did nothing any more that is known, host ns: a thread was in a call that did not
    /// return, or none has made a call for [long](SILENT). `None` if it did something until its end.
    pub fn silent_since(&self, ended: i64) -> Option<i64> {
        let returned = self.history.latest().map(|(_, _, returned)| returned);
        let blocked = self.blocked_since.map(|since| returned.map_or(since, |returned| since.max(returned)));
        blocked.or(returned.filter(|returned| ended.saturating_sub(*returned) >= SILENT))
    }

    /// Notes that a context of the process has work.
    pub fn uses(&mut self, context: u32) {
        self.contexts.push(context);
    }

    /// The contexts of the process that had work, by their numbers on the line.
    pub fn contexts(&self) -> &[u32] {
        &self.contexts
    }

    /// Returns the next stretch in which records may have been lost, if it has begun by host ns `at`.
    pub fn next_lost(&mut self, at: i64) -> Option<(i64, i64)> {
        let next = *self.lost.stretches().get(self.reached).filter(|(from, _)| *from <= at)?;
        self.reached += 1;
        self.known_from = next.1;
        Some(next)
    }

    /// How much of the time between two moments counts as the host's, ns: what is selected, without that in which calls may have
    /// been lost.
    pub fn counts(&self, from: i64, to: i64) -> u64 {
        self.counted.length(from, to)
    }

    /// Takes what an event says about the host, before its operation and its call.
    pub fn observe(&mut self, event: &Event<'_>) {
        self.classes.observe(event);
        self.loads = self.first_launches.loads(event);
        match &event.record.body {
            Body::NvtxRange(range) => self.range(event, range),
            Body::Stream(stream) if stream.destroyed => {
                self.enqueued.forget((stream.context, stream.stream), stream.handle);
            }
            Body::Stream(stream) => self.enqueued.stream((stream.context, stream.stream), stream.handle),
            Body::EventWait(wait) if is_effective(&wait.call) => {
                self.enqueued.on_stream((event.context, wait.stream), Cause::StreamWait);
            }
            Body::Api(api) if is_effective(&api.call) => match self.classes.of_api(api.call.api) {
                CallClass::HostFunction => {
                    self.enqueued.on_handle(api.subject, Cause::HostCallback);
                }
                CallClass::StreamWait => {
                    self.enqueued.on_handle(api.subject, Cause::StreamWait);
                }
                _ => {}
            },
            Body::Window(window) => self.is_paused = window.change == WindowChange::Closes,
            Body::Loss { count, .. } if *count > 0 => {
                self.history.of(event.record.thread).0.lost_until(host(event.record.at));
            }
            _ => {}
        }
    }

    fn range(&mut self, event: &Event<'_>, range: &NvtxRange) {
        let (thread, at) = (event.record.thread, event.record.at);
        match range.change {
            NvtxChange::Push => {
                self.ranges.begin(Begun { thread, at, range: range.clone(), inside: Nothing });
            }
            // The end of a range that was pushed before the collection began says nothing.
            NvtxChange::Pop => drop(self.ranges.pop(thread, range.domain, at)),
            _ => {}
        }
    }

    /// Returns what is known of an operation whose gap cannot have begun before `from`, with `most` calls at most. Its
    /// call is not in the history yet.
    pub fn lead(
        &mut self,
        event: &Event<'_>,
        operation: &Operation,
        (from, most): (i64, usize),
    ) -> Option<Lead> {
        let Body::Work(work) = &event.record.body else { return None };
        let is_legacy = work.call.flags & flag::LEGACY_STREAM != 0;
        let enqueued = self.enqueued.take((operation.context, operation.stream), is_legacy);
        let number = event.record.thread;
        self.launches += 1;
        if is_on_a_stream(operation) {
            self.history.enqueued(host(operation.returned));
        }
        let innermost =
            self.ranges.around(number, operation.called).max_by_key(|begun| begun.at).map(|b| b.range.text);
        let thread = self.history.held_up(number);
        let (called, returned) = (host(operation.called), host(operation.returned));
        // A host that is ahead of the GPU did nothing in the gap.
        let (calls, known_from, before) =
            if returned <= from { (Box::default(), i64::MIN, i64::MIN) } else { thread.since(from, most) };
        let moved = operation.what.moved();
        let in_call = match moved {
            Some(_) => Cause::Copying,
            None if self.loads => Cause::Loading,
            None => Cause::Launching,
        };
        let next = match moved {
            Some((TransferKind::HtoD, ..))
                if thread.last().is_some_and(|last| is_same(last, event.caller)) =>
            {
                Next::MoreInput
            }
            Some((TransferKind::HtoD, ..)) => Next::Input,
            _ => Next::Other,
        };
        Some(Lead {
            process: event.process,
            thread: number,
            api: work.call.api,
            caller: event.caller,
            called,
            returned,
            in_call,
            enqueued: enqueued.unwrap_or(Cause::Starting),
            next,
            calls,
            known_from: known_from.max(self.known_from),
            before,
            range: innermost.unwrap_or(0),
            waited: thread.waited,
            is_behind_load: thread.waited.is_some_and(|waited| waited.to <= self.loaded),
            launches: self.launches,
            step: event.step,
            is_preparing: event.is_preparing,
            is_setting_up: event.is_setting_up,
            is_paused: thread.is_in_pause(),
        })
    }

    /// Returns what is known of the host in idle time that may begin at `from`, and that no operation ends. The thread whose call
    /// returned last leads: all threads are outside CUDA from then on.
    pub fn silent(&self, process: u32, from: i64) -> Option<Lead> {
        let (number, thread, _) = self.history.latest()?;
        let (calls, known_from, before) = thread.since(from, usize::MAX);
        Some(Lead {
            process,
            thread: number,
            api: 0,
            caller: Caller::default(),
            called: i64::MAX,
            returned: i64::MAX,
            in_call: Cause::Launching,
            enqueued: Cause::Starting,
            next: Next::Other,
            calls,
            known_from: known_from.max(self.known_from),
            before,
            range: 0,
            waited: None,
            is_behind_load: false,
            launches: self.launches,
            step: None,
            is_preparing: false,
            is_setting_up: false,
            is_paused: thread.is_in_pause(),
        })
    }

    /// Whether the call that ends here waits for the work before it, whether it is an operation or not.
    pub fn may_wait(&self, event: &Event<'_>, call: CountedCall) -> bool {
        let Some(of) = event.record.body.call().filter(|_| !call.failed) else { return false };
        match &event.operation {
            Some(operation) if operation.when == When::Captured => false,
            Some(operation) => {
                let returned = of.begin.saturating_add(call.host_ns);
                waits::Cause::of_transfer(operation.what, of.flags).is_some()
                    && waits::waits_for_its_stream(operation, of.flags, returned) == Some(true)
            }
            None => self.waiting.contains(&call.api),
        }
    }

    /// Takes a call that has returned. `over` is when the work before it was over, if it [may wait](Self::may_wait) for
    /// that and it is known.
    pub fn call(&mut self, event: &Event<'_>, call: CountedCall, over: Option<Over>) {
        let class = self.classes.of(event, call);
        let Some(of) = event.record.body.call() else { return };
        let (from, caller) = (host(of.begin), event.caller);
        let (is_paused, period) = (self.is_paused, &self.counted);
        let (thread, most) = self.history.of(event.record.thread);
        if let Body::Api(api) = &event.record.body
            && api.calls > 1
        {
            return self.queries(event, api);
        }
        let to = from.saturating_add(host(call.host_ns));
        thread.reach(from, to, is_paused, period);
        let (api, cause) = (call.api, Cause::of(class));
        let took_long = call.host_ns >= LONG;
        if class == CallClass::Load || (class == CallClass::Context && took_long) {
            self.first_launches.module_loaded();
            self.loaded = self.loaded.max(from);
        }
        // It waited if the work was unfinished when it was entered, and over when it returned.
        let waited = over.filter(|over| from < over.at && over.at <= to.saturating_add(over.off_by));
        let until = waited.map_or(from, |over| over.at.min(to));
        if waited.is_some() {
            thread.count(Cause::ImplicitSync, from, until, period);
        }
        thread.count(if self.loads { Cause::Loading } else { cause }, until, to, period);
        let copies = cause == Cause::Copying;
        if copies {
            thread.add(Spent { from, to: until, cause: Cause::ImplicitSync, api, caller }, most);
        }
        let rest = if copies { until } else { from };
        thread.add(Spent { from: rest, to, cause, api, caller }, most);
        let is_wait = cause == Cause::ExplicitSync && !call.failed;
        if is_wait || waited.is_some() || (copies && self.may_wait(event, call)) {
            let until = if is_wait { to } else { until };
            self.history.wait(event.record.thread, (api, caller.line), (from, until, to), period);
        }
    }

    /// Takes queries in a row, which are one record. A program that spends half of that time or more in them, or makes the next one
    /// [soon](LONG), polls: it waits for the GPU. So does one that asks [again and again](AGAIN) until the work is done, with a sleep in
    /// between, say. Else the time between them is the program's own.
    fn queries(&mut self, event: &Event<'_>, api: &Api) {
        let (number, caller, is_paused) = (event.record.thread, event.caller, self.is_paused);
        let period = &self.counted;
        let (thread, most) = self.history.of(number);
        let (from, to) = (host(api.call.begin), host(api.call.end));
        thread.reach(from, to, is_paused, period);
        let between = api.call.end.saturating_sub(api.call.begin).saturating_sub(api.inside);
        let is_loop = api.calls >= AGAIN && api.call.flags & flag::UNTIL_DONE != 0;
        if !is_loop && between > api.inside && between / u64::from(api.calls) >= LONG {
            return thread.count(
                Cause::OtherCall,
                from,
                from.saturating_add(host(api.inside)).min(to),
                period,
            );
        }
        let cause = Cause::ExplicitSync;
        thread.count(cause, from, to, period);
        thread.add(Spent { from, to, cause, api: api.call.api, caller }, most);
        if api.result == 0 {
            self.history.wait(number, (api.call.api, caller.line), (from, to, to), period);
        }
    }

    /// The process has no more records.
    pub fn end(&mut self) {
        self.history.end();
    }

    /// Returns the threads.
    pub fn history(&self) -> &History {
        &self.history
    }
}

/// Whether a copy is called where the call before it copied or waited: on the same line, or without one at the same address.
fn is_same(last: Caller, copy: Caller) -> bool {
    if copy.line == 0 { last == copy } else { last.line == copy.line }
}

/// Whether an operation is work of a stream: a GPU may be idle after it.
fn is_on_a_stream(operation: &Operation) -> bool {
    match operation.when {
        When::Timed(_) => true,
        When::Untimed { reason, .. } => reason != Reason::Untimed(Untimed::NoStream),
        When::Captured => false,
    }
}

/// Whether a call succeeded and was no part of a stream capture.
fn is_effective(call: &Call) -> bool {
    call.flags & (flag::FAILED | flag::CAPTURED) == 0
}
