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
//! the program. That whole interval is *undecided* where nothing else is known to run. If the work was left untimed
//! to keep within the budget, it is *unobserved*.
//!
//! One operation is certainly before another if its call had returned before the other's was entered. Calls of two
//! threads that overlap may have reached their stream in either order, whichever is first in the trace; and the
//! untimed one may lie between the other's events.

use super::analysis::{Analysis, End, Start};
use super::bins::Bins;
use super::devices::{self, DeviceReport};
use super::extrapolate::is_drawn;
use super::gaps::sweep::{Sweep, Swept};
use super::gaps::{Gaps, Lane, Neighbour};
use super::identity::{CLASSES, Class, Identity, Layer};
use super::scope::Scope;
use crate::model::gpu_interval::{Basis, GpuInterval, host};
use crate::model::order::{Reorder, WINDOW};
use crate::model::period::Period;
use crate::model::{Action, Drained, Event, Operation, Reason, When};
use crate::trace::record::Body;
use gpuspy_wire::record::Untimed;
use std::collections::{BTreeMap, HashMap};

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
}

/// What a timeline belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Owner {
    Device(u32),
    /// A context whose device is unknown.
    Context(u32),
}

/// All timelines of a process.
#[derive(Debug, Default)]
pub struct Timelines {
    period: Period,
    open: BTreeMap<Owner, Timeline>,
    owners: HashMap<u32, Owner>,
}

impl<'a> Analysis<'a> for Timelines {
    type Rows = Vec<DeviceReport>;

    fn new(start: &Start<'a>) -> Self {
        Timelines::over(start.period.clone())
    }

    fn observe(&mut self, event: &Event<'_>, scope: &Scope<'_>) {
        if let Some(operation) = scope.operation_at_any_time() {
            match operation.when {
                When::Timed(interval) => {
                    let timeline = self.of(operation);
                    timeline.work(operation, &interval, &event.record.body);
                    timeline.timed(operation, &interval);
                }
                When::Untimed { reason, after: Some(after) } if enters_a_stream(reason) => {
                    self.of(operation).untimed(operation, reason, after);
                }
                When::Untimed { .. } | When::Captured => {}
            }
        }
        if let Some(drained) = &event.drained
            && let Some(timeline) = self.known(drained.context)
        {
            timeline.drained(drained);
        }
        match &event.record.body {
            Body::Context(context) if context.destroyed => {
                if let Some(timeline) = self.known(context.context) {
                    timeline.gone(context.context, host(event.record.at));
                }
            }
            Body::Stream(stream) if stream.destroyed => {
                if let Some(timeline) = self.known(stream.context) {
                    timeline.forget((stream.context, stream.stream));
                }
            }
            _ => {}
        }
    }

    fn finish(self, end: &End<'_>) -> Vec<DeviceReport> {
        devices::rows(self.by_device(), end)
    }
}

impl Timelines {
    /// Creates timelines that count the time in `period`.
    pub fn over(period: Period) -> Self {
        Timelines { period, ..Timelines::default() }
    }

    /// Returns what the sweep found of each device; `None` stands for the contexts whose device is not known.
    pub fn by_device(self) -> BTreeMap<Option<u32>, DeviceTime> {
        let mut done: BTreeMap<Option<u32>, DeviceTime> = BTreeMap::new();
        for (owner, timeline) in self.open {
            let device = match owner {
                Owner::Device(device) => Some(device),
                Owner::Context(_) => None,
            };
            let device = done.entry(device).or_default();
            device.timed += timeline.timed;
            device.streams += timeline.used;
            device.work.iter_mut().zip(timeline.work).for_each(|(sum, one)| *sum = sum.saturating_add(one));
            let Swept { origin, identity, bins, gaps, late } = timeline.finish();
            device.timelines += 1;
            device.began = origin.filter(|_| device.timelines == 1);
            device.bins = if device.timelines == 1 { bins } else { Bins::default() };
            device.identity.add(&identity);
            device.gaps.merge(gaps);
            device.late += late;
        }
        done
    }

    fn of(&mut self, operation: &Operation) -> &mut Timeline {
        let owner = operation.device.map_or(Owner::Context(operation.context), Owner::Device);
        self.owners.insert(operation.context, owner);
        let period = &self.period;
        self.open.entry(owner).or_insert_with(|| Timeline::new(period.clone(), WINDOW))
    }

    /// Returns the timeline of a context that has had work.
    fn known(&mut self, context: u32) -> Option<&mut Timeline> {
        self.open.get_mut(self.owners.get(&context)?)
    }
}

fn enters_a_stream(reason: Reason) -> bool {
    reason != Reason::Untimed(Untimed::NoStream)
}

/// One device.
#[derive(Debug)]
struct Timeline {
    order: Reorder<Item>,
    /// By context and stream.
    streams: HashMap<(u32, u64), Stream>,
    /// Streams that had work.
    used: u64,
    /// Operations with a GPU time.
    timed: u64,
    period: Period,
    work: [u64; CLASSES],
    sweep: Sweep,
}

/// What a timeline remembers of a stream.
#[derive(Clone, Debug)]
struct Stream {
    /// The earliest time at which the end event of the last timed operation can have fired.
    end: i64,
    /// Host ns when the calls of all timed operations so far had returned.
    returned: u64,
    /// Untimed work that no timed operation has followed yet: at most one entry for each class and layer.
    untimed: Vec<Untracked>,
}

/// Untimed work.
#[derive(Clone, Copy, Debug)]
struct Untracked {
    layer: Layer,
    class: Class,
    since: i64,
    /// Host ns when the last of it was issued.
    issued: u64,
    first: Neighbour,
}

/// An item to be put in GPU order.
#[derive(Clone, Copy, Debug)]
enum Item {
    /// A timed operation.
    Operation { class: Class, interval: GpuInterval, neighbour: Neighbour },
    /// Untimed work may run from here on.
    From { layer: Layer, class: Class, neighbour: Neighbour },
    /// Untimed work may run up to here.
    To { layer: Layer, class: Class, neighbour: Neighbour },
}

impl Timeline {
    /// Creates a timeline that holds back `window` items to put them in order.
    fn new(period: Period, window: usize) -> Self {
        let (order, streams) = (Reorder::new(window), HashMap::new());
        let sweep = Sweep::new(period.clone());
        Timeline { order, streams, used: 0, timed: 0, period, work: [0; CLASSES], sweep }
    }

    /// Adds the time of an operation, unless it was drawn from a run, whose time contains it.
    fn work(&mut self, operation: &Operation, interval: &GpuInterval, body: &Body) {
        if interval.basis != Basis::BoundsOnly && !is_drawn(body) {
            let sum = &mut self.work[class(operation.what) as usize];
            *sum = sum.saturating_add(self.period.length(interval.start, interval.end));
        }
    }

    fn timed(&mut self, operation: &Operation, interval: &GpuInterval) {
        self.timed += 1;
        let GpuInterval { time_base, off_by, .. } = *interval;
        let lane = Some(Lane { context: operation.context, time_base, off_by });
        let neighbour = neighbour(operation, lane, interval.earliest_end, interval.latest_start);
        let off = interval.stamps_off_by();
        let stream = self.stream(operation);
        stream.end = interval.latest_end - 2 * off;
        stream.returned = stream.returned.max(operation.returned);
        let ahead = stream.untimed.extract_if(.., |open| open.issued <= operation.called).collect();
        self.close(ahead, interval.earliest_start + off);
        let item = Item::Operation { class: class(operation.what), interval: *interval, neighbour };
        self.push(interval.earliest_start, item);
    }

    fn untimed(&mut self, operation: &Operation, reason: Reason, after: i64) {
        let class = class(operation.what);
        let layer = match reason {
            Reason::Untimed(Untimed::Budget) => Layer::Unobserved,
            _ => Layer::Undecided,
        };
        let stream = self.stream(operation);
        let since = if stream.returned <= operation.called { after.max(stream.end) } else { after };
        // Where nothing else runs, it has started by the return of its call.
        let first = neighbour(operation, None, since, since.max(host(operation.returned)));
        let same = stream.untimed.iter_mut().find(|open| (open.layer, open.class) == (layer, class));
        let Some(open) = same else {
            stream.untimed.push(Untracked { layer, class, since, issued: operation.returned, first });
            self.push(since, Item::From { layer, class, neighbour: first });
            return;
        };
        open.issued = open.issued.max(operation.returned);
        // That of another thread may have started before.
        if since < open.since {
            let until = std::mem::replace(&mut open.since, since);
            self.push(since, Item::From { layer, class, neighbour: first });
            self.push(until, Item::To { layer, class, neighbour: first });
        }
    }

    fn stream(&mut self, operation: &Operation) -> &mut Stream {
        self.streams.entry((operation.context, operation.stream)).or_insert_with(|| {
            self.used += 1;
            Stream { end: i64::MIN, returned: 0, untimed: Vec::new() }
        })
    }

    fn drained(&mut self, drained: &Drained) {
        let is_drained = |(context, stream): (u32, u64)| {
            context == drained.context && drained.stream.is_none_or(|drained| drained == stream)
        };
        let mut done = Vec::new();
        for (_, stream) in self.streams.iter_mut().filter(|(key, _)| is_drained(**key)) {
            done.extend(stream.untimed.extract_if(.., |open| open.issued <= drained.issued_before));
        }
        self.close(done, drained.by);
    }

    /// Ends a context, and all untimed work in it.
    fn gone(&mut self, context: u32, at: i64) {
        let gone = self.streams.extract_if(|(owner, _), _| *owner == context);
        let open = gone.flat_map(|(_, stream)| stream.untimed).collect();
        self.close(open, at);
    }

    /// Forgets a stream that was destroyed. If it has untimed work, it stays until a synchronization or the end.
    fn forget(&mut self, stream: (u32, u64)) {
        if self.streams.get(&stream).is_some_and(|stream| stream.untimed.is_empty()) {
            self.streams.remove(&stream);
        }
    }

    fn close(&mut self, open: Vec<Untracked>, at: i64) {
        for Untracked { layer, class, since, first, .. } in open {
            self.push(at.max(since), Item::To { layer, class, neighbour: first });
        }
    }

    fn push(&mut self, time: i64, item: Item) {
        if let Some((time, item)) = self.order.push(time, item) {
            sweep(&mut self.sweep, time, item);
        }
    }

    fn finish(mut self) -> Swept {
        while let Some((time, item)) = self.order.pop() {
            sweep(&mut self.sweep, time, item);
        }
        self.sweep.finish()
    }
}

fn class(what: Action) -> Class {
    match what {
        Action::Kernel { communication: false, .. } | Action::Burst { communication: false, .. } => {
            Class::Compute
        }
        Action::Kernel { communication: true, .. } | Action::Burst { communication: true, .. } => {
            Class::Communication
        }
        Action::Graph { .. } => Class::Graph,
        Action::Transfer { .. } => Class::Copy,
    }
}

fn neighbour(operation: &Operation, lane: Option<Lane>, earliest_end: i64, latest_start: i64) -> Neighbour {
    let Operation { correlation, what, caller, .. } = *operation;
    Neighbour { correlation, what, caller, lane, earliest_end, latest_start }
}

/// Passes an item to the sweep.
fn sweep(sweep: &mut Sweep, time: i64, item: Item) {
    match item {
        Item::Operation { class, interval: o, neighbour } => {
            sweep.reach(time, class, o.latest_end);
            sweep.stretch(Layer::Possible, class, o.earliest_start, o.latest_end, neighbour);
            if o.basis == Basis::BoundsOnly {
                sweep.stretch(Layer::Undecided, class, o.earliest_start, o.latest_end, neighbour);
            } else {
                sweep.stretch(Layer::Estimated, class, o.start, o.end, neighbour);
                // Until the last launch of a burst or a run was issued, the GPU may have waited for the host between
                // two of them.
                sweep.stretch(Layer::Certain, class, o.busy_from, o.earliest_end, neighbour);
            }
        }
        Item::From { layer, class, neighbour } => {
            sweep.reach(time, class, time);
            sweep.enter(Layer::Possible, class, time, neighbour);
            sweep.enter(layer, class, time, neighbour);
        }
        Item::To { layer, class, neighbour } => {
            sweep.reach(time, class, time);
            sweep.leave(Layer::Possible, class, time, neighbour);
            sweep.leave(layer, class, time, neighbour);
        }
    }
}

#[cfg(test)]
mod tests;
