//! The steps of a program: how long they take, how steady they are, and what is in them.
//!
//! Which launch begins a step is found in the first pass over the trace ([`model::steps`](crate::model::steps)). A step
//! lasts until the next one begins, so the last one has no time. Its time is
//!
//! - from the start of its first operation on the GPU to the next such start, if that is measured for at least half of the
//!   steps, or if the host is ahead of the GPU. Steps between two starts that are known are given the mean of their time.
//! - from call to call on the host otherwise. Where the host is ahead, it issues some steps at once and waits in the next
//!   one, or once after the last one, so that only the mean of such times says how long a step takes, if that wait is in it.
//!
//! - **Warm-up**: the steps at the start, one after another, that take more than 1.2 times the median; fewer than 64.
//! - **Outliers**: steps after the warm-up that take more than 1.2 times the median, and more than the median and five
//!   standard deviations, taken from the quantiles between which 68 % of the times lie.
//! - **Slow stretches**: where steps in a row take longer than the others, and whether the same kernels do (`slow_stretches.rs`, `speed.rs`).
//! - **Drift**: how much the median of the last third of the plot is above that of the first.
//! - **Busy**: the time in which at least one operation was running, by best estimates. If more than a tenth of the
//!   operations have no GPU time, the step is divided like the devices' whole time instead, without set-up and the loading of
//!   code. What is undecided there is in the step, too.
//! - **Idle**, by cause: the gaps that lie in the steps after the warm-up, see [`super::idle::by_step`]. The gaps of
//!   several GPUs are scaled to the time in which all were idle, and idle time that lies in no gap is undecided. If the step is
//!   divided like the devices' time, so is its idle time: the few gaps that were seen are no sample of what the host did in
//!   the pauses of the budget.
//!
//! With a filter on time, the steps that begin in the selected time are counted. Steps in which records may have been lost are
//! counted, and are in no other figure.

mod contents;
mod growth;
mod phases;
mod plot;
mod slow_stretches;
mod speed;
mod starts;
mod times;

use super::analysis::{Analysis, End};
use super::devices::DeviceReport;
use super::extrapolate::is_drawn;
use super::idle::Cause;
use super::idle::by_step;
use super::merge::Merge;
use super::ranges::RangeName;
use super::scope::Scope;
use crate::model::Event;
use crate::model::gpu_interval::host;
use crate::model::lost::Lost;
use crate::model::named::named;
use crate::model::period::Period;
use crate::model::steps::Source;
use crate::trace::record::Body;
use contents::Filling;
use phases::PhaseFold;
use slow_stretches::Slow;
use speed::Speed;
use starts::{Start, Starts};
use std::collections::BTreeMap;
use std::ops::Range;
use times::Times;

/// By how much more or less the host is ahead of the GPU from one step to another, in steps, for its calls to be no measure
/// of a step: the time between two calls is wrong by so much.
const AHEAD: f64 = 0.1;
/// The fewest changes from which that is known.
const FEWEST: u64 = 4;
/// The steps of one process take longer than those of another if they take this many times as long: ranks that wait for each other
/// differ by less.
const LONGER: f64 = 1.05;
/// The most slow stretches.
const SLOW_STRETCHES: usize = 10;
/// How many times as long the same kernels take at least on a GPU that is slower. Below, other kernels beside them may be why.
const SLOWER: f64 = 1.05;

/// The steps that were found; without steps, `count` is 0.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Steps {
    /// The number of steps, those of the warm-up included.
    pub count: u64,
    /// How they were found.
    pub source: Option<Source>,
    /// The id and the rank of the process whose steps they are: of several processes, those of one stand for the run.
    pub pid: Option<u32>,
    /// Its rank.
    pub rank: Option<u32>,
    /// The id of the thread whose steps they are, if it has a loop of its own: then they are about what that thread does.
    pub tid: Option<u32>,
    /// The launches of a step (kernels and graphs), median.
    pub launches: u64,
    /// The steps at the start that are longer than those after them.
    pub warm_up: u64,
    /// How long the steps after the warm-up took.
    pub time: Option<StepTimes>,
    /// What these times are.
    pub timed_on: Option<TimedOn>,
    /// The times of the same steps from call to call on the host.
    pub on_host: Option<HostTimes>,
    /// Steps that took much longer than the others, the longest first; at most ten.
    pub outliers: Vec<Outlier>,
    /// Where steps in a row took longer than the others, in their order; at most ten, those that took most time.
    pub slow_stretches: Vec<SlowStretch>,
    /// Times of steps over the run, for a plot: the mean of equally many steps each; at most 60.
    pub plot: Vec<u64>,
    /// What a step after the warm-up contains, on average.
    pub contents: Contents,
    /// The steps that this is about: those after the warm-up that are over.
    pub steady: Range<u64>,
    /// Phases of a step: NVTX ranges that are opened in nearly every step, and are not the step itself.
    pub phases: Vec<Phase>,
    /// Kernel and graph launches of the whole process: of several processes, they say whose steps stand for the run.
    pub all_launches: u64,
    /// Whether busy time could be added up from the operations in the steps.
    pub is_busy_known: bool,
}

named! {
    /// From where to where a step is timed.
    pub enum TimedOn {
        /// From the start of its first operation on the GPU to that of the next step.
        Gpu = "gpu",
        /// From call to call on the host, which keeps pace with the GPU.
        Host = "host",
        /// From call to call on the host, which is or may be ahead of the GPU.
        HostAhead = "host_ahead",
    }
}

/// Times of steps from call to call on the host, ns.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct HostTimes {
    /// Mean. Where the host is ahead of the GPU, the last step is one of them, which takes until the first wait after it.
    pub mean: f64,
    /// Standard deviation, without that step.
    pub std: f64,
    /// How many there are.
    pub count: u64,
}

/// Times of steps, ns.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StepTimes {
    /// Mean. Where the host is ahead of the GPU, it is that of [the host's times](HostTimes::mean).
    pub mean: f64,
    /// Standard deviation.
    pub std: f64,
    /// Median.
    pub median: u64,
    /// 95th percentile.
    pub p95: u64,
    /// 99th percentile.
    pub p99: u64,
    /// Shortest.
    pub min: u64,
    /// Longest.
    pub max: u64,
    /// How much longer the steps at the end are than those at the start, as a share of the mean.
    pub drift: f64,
    /// How often a time was measured: fewer than steps where several are known as a sum.
    pub measured: u64,
}

/// A step that took much longer than the others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outlier {
    /// Its number, from 0.
    pub step: u64,
    /// ns from the start of the run, of which there may be several processes, to its start.
    pub start: u64,
    /// ns that it took.
    pub duration: u64,
    /// The gaps that lie in it by cause, ns; those of several GPUs are added. Empty if it has none, or if more than 64
    /// other steps have more idle time.
    pub idle_by_cause: BTreeMap<Cause, u64>,
}

/// Steps in a row that took longer than the others, and launched as much.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SlowStretch {
    /// Their numbers, from 0.
    pub steps: Range<u64>,
    /// ns from the start of the run to the start of the first.
    pub start: u64,
    /// ns that they took together.
    pub duration: u64,
    /// ns that a step takes otherwise, median.
    pub usual: u64,
    /// How many times as long the same kernels took on the GPU, if most of them run in other steps, too.
    pub same_kernels: Option<f64>,
}

impl SlowStretch {
    /// The number of its steps.
    pub fn count(&self) -> u64 {
        self.steps.end - self.steps.start
    }

    /// Returns the mean time of its steps, ns.
    pub fn mean(&self) -> f64 {
        self.duration as f64 / self.count().max(1) as f64
    }

    /// Returns how much longer its steps took than others, ns in all.
    pub fn excess(&self) -> u64 {
        self.duration.saturating_sub(self.usual.saturating_mul(self.count()))
    }
}

/// Returns how many times as long the same kernels took, if that is so much that the GPU was slower.
pub fn on_slower_gpu(same_kernels: Option<f64>) -> Option<f64> {
    same_kernels.filter(|times| *times >= SLOWER)
}

/// What one step contains, on average.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Contents {
    /// ns in which the GPU was busy.
    pub busy: f64,
    /// ns in which it was idle.
    pub idle: f64,
    /// ns of which it is not known.
    pub undecided: f64,
    /// The idle time by cause.
    pub idle_by_cause: BTreeMap<Cause, f64>,
    /// Copies and memsets.
    pub copies: f64,
    /// Bytes that they moved.
    pub copied_bytes: f64,
    /// Calls that synchronize.
    pub syncs: f64,
    /// Allocations of device memory.
    pub allocations: f64,
    /// Bytes that they allocated.
    pub allocated_bytes: f64,
    /// How much the live device memory grows, bytes.
    pub growth_bytes: f64,
}

/// A phase of a step.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Phase {
    /// The NVTX range's name.
    pub name: RangeName,
    /// How often it is opened in a step, on average.
    pub per_step: f64,
    /// Host ns in it per step, on average.
    pub host: f64,
}

impl Steps {
    /// Notes how the steps were found. A range that is the step is none of its phases.
    pub(super) fn found_by(&mut self, source: Option<Source>) {
        self.source = source.filter(|_| self.count > 0);
        if let Some(Source::NvtxRange(name)) = &self.source {
            self.phases.retain(|phase| phase.name.text != *name);
        }
    }

    /// Notes the process whose steps they are, and the thread, if all are of one.
    pub(super) fn are_of(&mut self, process: [Option<u32>; 2], tid: Option<u32>) {
        [self.pid, self.rank] = process;
        self.tid = tid.filter(|_| self.count > 0);
    }

    /// The number of the first step after the warm-up; 0 without a warm-up. (Of a part of the time, the first step of the warm-up
    /// is not step 0.)
    pub(super) fn first_steady(&self) -> u64 {
        if self.warm_up > 0 { self.steady.start } else { 0 }
    }

    /// Fills in what the devices know: why the GPUs were idle in the steps, and the busy time if the steps themselves do not
    /// tell it.
    pub(super) fn relate(&mut self, devices: &[DeviceReport]) {
        if self.count == 0 {
            return;
        }
        let timelines = || devices.iter().flat_map(|device| &device.idle_by_step);
        if self.is_busy_known {
            let mut all = [0; Cause::COUNT];
            timelines()
                .for_each(|idle| by_step::add(&mut all, &idle.between(self.steady.start, self.steady.end)));
            let steps = self.steady.end.saturating_sub(self.steady.start);
            self.contents.name_idle(&all, steps);
        } else {
            // The first step loads what all of them use, also where it is no warm-up.
            let first = self.first_steady().max(1);
            self.contents.share(devices, self.time.map_or(0.0, |time| time.mean), first);
        }
        for outlier in &mut self.outliers {
            let mut all = [0; Cause::COUNT];
            let kept = timelines().filter_map(|idle| idle.of(outlier.step));
            kept.for_each(|idle| by_step::add(&mut all, idle));
            outlier.idle_by_cause = named(&all).collect();
        }
    }
}

/// Returns the causes that have idle time, and how much.
fn named(causes: &by_step::Causes) -> impl Iterator<Item = (Cause, u64)> {
    Cause::ALL.into_iter().map(|cause| (cause, causes[cause as usize])).filter(|(_, ns)| *ns > 0)
}

/// Returns the idle time in which code was loaded before a step, ns: all of it where the idle time of single steps is not known.
fn loaded_before(device: &DeviceReport, step: u64) -> u64 {
    let loading = |causes: &by_step::Causes| causes[Cause::Loading as usize];
    let in_steps = device.idle_by_step.iter().map(|idle| loading(&idle.until(step)));
    match device.idle_by_step.is_empty() {
        true => u64::MAX,
        false => in_steps.fold(loading(&device.before_steps.idle), u64::saturating_add),
    }
}

impl Contents {
    /// Divides a step of `mean` ns like the whole time of the devices, without the idle time in which the program prepared, and that in
    /// which it loaded code before step `first`.
    fn share(&mut self, devices: &[DeviceReport], mean: f64, first: u64) {
        let (mut busy, mut undecided, mut idle) = (0.0, 0.0, BTreeMap::new());
        for device in devices {
            let whole = device.whole();
            busy += whole.busy.iter().map(|part| part.value as f64).sum::<f64>();
            undecided += whole.undecided.value as f64 + whole.unobserved.value as f64;
            for (cause, part) in &device.idle.by_cause {
                let once = match cause {
                    Cause::SetUp => u64::MAX,
                    Cause::Loading => loaded_before(device, first),
                    _ => 0,
                };
                *idle.entry(*cause).or_insert(0.0) += part.total.value.saturating_sub(once) as f64;
            }
        }
        let all_idle: f64 = idle.values().sum();
        let whole = busy + undecided + all_idle;
        let of = |part: f64| if whole > 0.0 { part / whole * mean } else { 0.0 };
        (self.busy, self.idle) = (of(busy), of(all_idle));
        // Of GPUs without any time, nothing is known.
        self.undecided = if whole > 0.0 { of(undecided) } else { mean };
        self.idle_by_cause = idle.into_iter().map(|(cause, ns)| (cause, of(ns))).collect();
        self.idle_by_cause.retain(|_, ns| *ns > 0.0);
    }

    /// Divides the idle time by the causes of the gaps in so many steps, which are all that there are. Idle time beyond them
    /// has no known cause.
    fn name_idle(&mut self, gaps: &by_step::Causes, steps: u64) {
        let steps = steps.max(1) as f64;
        let found = by_step::total(gaps) as f64 / steps;
        let scale = (self.idle / found.max(1.0)).min(1.0);
        self.idle_by_cause = named(gaps).map(|(cause, ns)| (cause, ns as f64 / steps * scale)).collect();
        let rest = self.idle - self.idle_by_cause.values().sum::<f64>();
        // Less than a ns is the error of the mean.
        if rest >= 1.0 {
            *self.idle_by_cause.entry(Cause::Undecided).or_default() += rest;
        }
    }
}

impl Merge for Steps {
    /// Steps of two processes are not added: those of one stand for the run.
    fn merge(&mut self, other: &Steps) {
        if other.stand_before(self) {
            self.clone_from(other);
        }
    }
}

impl Steps {
    /// Whether these stand for a run and not those of another process. A process that launched much more does the work of the run; of
    /// those that launched about as much, as the ranks of a job do, the one whose steps take longest ends last.
    fn stand_before(&self, other: &Steps) -> bool {
        let most = |steps: &Steps| (steps.count > 0, steps.all_launches);
        let is_as_much = |one: u64, other: u64| one.saturating_mul(2) >= other;
        let are_alike = (self.count > 0) == (other.count > 0)
            && is_as_much(self.all_launches, other.all_launches)
            && is_as_much(other.all_launches, self.all_launches);
        let takes = |steps: &Steps| steps.count as f64 * steps.time.map_or(0.0, |time| time.mean);
        let (one, another) = (takes(self), takes(other));
        if are_alike && (one > another * LONGER || another > one * LONGER) {
            return one > another;
        }
        most(self) > most(other)
    }
}

/// The analysis.
#[derive(Debug)]
pub struct StepFold<'a> {
    period: Period,
    lost: Lost,
    /// The thread whose steps they are, if they are of one.
    thread: Option<u32>,
    /// When the run began, host ns.
    origin: u64,
    step: Option<u64>,
    /// When it began: host ns.
    began: u64,
    count: u64,
    starts: Starts,
    last: Option<Start>,
    /// The number and GPU start of the last step for which that is known, if all steps since count.
    known: Option<(u64, i64)>,
    lead: Lead,
    on_gpu: Times,
    on_host: Times,
    waited: Waited,
    filling: Filling,
    speed: Speed,
    phases: PhaseFold<'a>,
}

/// The first wait for the GPU after the start of the last step.
#[derive(Debug, Default)]
struct Waited {
    /// The thread that began the step.
    thread: u32,
    /// When the wait was over, host ns.
    until: Option<u64>,
}

impl Waited {
    /// Takes an event after the start of the step.
    fn observe(&mut self, event: &Event<'_>) {
        if self.until.is_none()
            && event.record.thread == self.thread
            && let Body::Synchronize(wait) = &event.record.body
        {
            self.until = Some(wait.call.end);
        }
    }
}

/// How far the host was ahead where a step's start on the GPU is known.
#[derive(Debug, Default)]
struct Lead {
    /// At the last such step, ns.
    last: Option<i64>,
    /// How often it was compared with the one before, and by how much they differ in all, ns.
    changes: u64,
    total: u64,
}

impl Lead {
    fn next(&mut self, lead: i64) {
        let Some(last) = self.last.replace(lead) else { return };
        self.changes += 1;
        self.total = self.total.saturating_add(lead.abs_diff(last));
    }
}

impl StepFold<'_> {
    /// Takes the starts that are known by now.
    fn take(&mut self) {
        while let Some(start) = self.starts.next() {
            if let Some(last) = self.last.replace(start).filter(|last| last.step + 1 == start.step)
                && self.period.contains(host(last.host))
                && !self.lost.meets(host(last.host), host(start.host))
            {
                self.on_host.add(last.step, 1, last.host, start.host.saturating_sub(last.host));
            } else {
                self.known = None;
            }
            let Some(to) = start.gpu else { continue };
            self.lead.next(to.saturating_sub(host(start.host)));
            if let Some((step, from)) = self.known.replace((start.step, to)) {
                let duration = to.saturating_sub(from).max(0) as u64;
                self.on_gpu.add(step, start.step - step, from.max(0) as u64, duration);
            }
        }
    }

    /// Adds the last step to the times of the others on the host, which issued them ahead of the GPU: until the first wait
    /// after it, in which what is left of all of them is done.
    fn with_the_last_wait(&self, timed_on: TimedOn, times: HostTimes) -> HostTimes {
        let is_ahead = timed_on != TimedOn::Host;
        let begun = self.last.map(|last| last.host);
        let Some((begun, until)) = begun.zip(self.waited.until).filter(|_| is_ahead) else { return times };
        let is_lost = self.lost.meets(host(begun), host(until));
        if is_lost || !self.period.contains(host(begun)) || !self.period.contains(host(until)) {
            return times;
        }
        let (count, rest) = (times.count as f64, until.saturating_sub(begun) as f64);
        if rest <= times.mean {
            return times;
        }
        HostTimes { mean: (times.mean * count + rest) / (count + 1.0), count: times.count + 1, ..times }
    }

    /// Returns the slow stretches of steps that launched as much as the others, of which those of the warm-up are none.
    fn slow_stretches(&self, slow: &[Slow], warm_up: u64) -> Vec<SlowStretch> {
        let are_apart =
            |of: &Range<u64>, slow: &Slow| of.end <= slow.steps.start || slow.steps.end <= of.start;
        let is_usual = |of: Range<u64>| of.start >= warm_up && slow.iter().all(|slow| are_apart(&of, slow));
        let found = slow.iter().filter_map(|slow| {
            let compared = self.speed.compare(&slow.steps, is_usual);
            (compared.is_none_or(|compared| compared.is_same)).then(|| SlowStretch {
                steps: slow.steps.clone(),
                start: slow.start.saturating_sub(self.origin),
                duration: slow.total,
                usual: slow.usual,
                same_kernels: compared.and_then(|compared| compared.times),
            })
        });
        let mut found: Vec<SlowStretch> = found.collect();
        found.sort_by_key(|stretch| std::cmp::Reverse(stretch.excess()));
        found.truncate(SLOW_STRETCHES);
        found.sort_by_key(|stretch| stretch.steps.start);
        found
    }

    /// Returns from where to where steps are timed.
    fn timed_on(&self) -> TimedOn {
        let are_most = |steps: u64| steps * 2 >= self.on_host.count;
        let mean = |total: u64, count: u64| total as f64 / count.max(1) as f64;
        let changes = mean(self.lead.total, self.lead.changes);
        let is_ahead = changes > AHEAD * mean(self.on_gpu.total, self.on_gpu.count);
        match () {
            () if are_most(self.on_gpu.measured) => TimedOn::Gpu,
            () if is_ahead && are_most(self.on_gpu.count) => TimedOn::Gpu,
            () if is_ahead || self.lead.changes < FEWEST => TimedOn::HostAhead,
            () => TimedOn::Host,
        }
    }
}

impl<'a> Analysis<'a> for StepFold<'a> {
    type Rows = Steps;

    fn new(start: &super::analysis::Start<'a>) -> Self {
        StepFold {
            period: start.period.clone(),
            lost: start.lost.clone(),
            thread: start.steps_of,
            origin: start.origin,
            step: None,
            began: 0,
            count: 0,
            starts: Starts::default(),
            last: None,
            known: None,
            lead: Lead::default(),
            on_gpu: Times::default(),
            on_host: Times::default(),
            waited: Waited::default(),
            filling: Filling::default(),
            speed: Speed::default(),
            phases: PhaseFold::new(start.names),
        }
    }

    fn observe(&mut self, event: &Event<'_>, scope: &Scope<'_>) {
        if let Some(step) = event.step.filter(|_| event.step != self.step) {
            self.step = event.step;
            let at = event.record.began().unwrap_or(event.record.at);
            let counts = self.period.contains(host(at));
            self.count += u64::from(counts);
            let before = std::mem::replace(&mut self.began, at);
            if self.lost.meets(host(before), host(at)) {
                self.filling.leave_out();
            }
            self.filling.began(step, counts);
            self.starts.began(step, at);
            self.waited = Waited { thread: event.record.thread, until: None };
        }
        let is_own = self.thread.is_none_or(|thread| thread == event.record.thread);
        self.filling.observe(event, scope, is_own);
        if !is_own {
            return;
        }
        self.waited.observe(event);
        if let Some(operation) = &event.operation {
            self.starts.operation(operation, is_drawn(&event.record.body));
        }
        if let Some(step) = self.step {
            self.phases.observe(event.record, Some(step), scope.call());
            if let Some(operation) = scope.operation_at_any_time() {
                self.speed.observe(operation, event.record, step);
            }
        }
        self.take();
    }

    fn finish(mut self, end: &End<'_>) -> Steps {
        self.starts.end();
        self.take();
        let all_launches = self.filling.launches();
        if self.count == 0 {
            return Steps { all_launches, ..Steps::default() };
        }
        let timed_on = self.timed_on();
        let times =
            if timed_on == TimedOn::Gpu { std::mem::take(&mut self.on_gpu) } else { self.on_host.clone() };
        let mut told = times.told(self.origin);
        let on_host = self.on_host.since(told.warm_up).map(|times| self.with_the_last_wait(timed_on, times));
        if timed_on == TimedOn::HostAhead
            && let Some((time, on_host)) = told.time.as_mut().zip(on_host)
        {
            time.mean = on_host.mean;
        }
        let slow_stretches = self.slow_stretches(&told.slow, told.warm_up);
        let filled = self.filling.finish(told.warm_up, told.time.map(|time| time.mean));
        Steps {
            count: self.count,
            source: None,
            pid: None,
            rank: None,
            tid: None,
            launches: filled.launches,
            warm_up: filled.warm_up,
            time: told.time,
            timed_on: told.time.map(|_| timed_on),
            on_host,
            outliers: told.outliers,
            slow_stretches,
            plot: told.plot,
            contents: filled.contents,
            steady: filled.steady,
            phases: self.phases.finish(self.count, end.ended),
            all_launches,
            is_busy_known: filled.is_busy_known,
        }
    }
}

#[cfg(test)]
mod tests;
