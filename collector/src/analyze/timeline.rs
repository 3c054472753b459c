//! The sweep over GPU time that [`identity`](super::identity) and [`gaps`](super::gaps) are read from.
//!
//! A timeline is one chain of one context. Operations arrive in host order; [`Reorder`] brings them into the order
//! of their start events; then every edge before the next start event is final, and a [`Sweep`] passes over it. So what
//! is kept is the reorder window, the operations that run at the moment, and a little per stream.
//!
//! **Untimed work** ran, nobody knows when: not before the timed operation ahead of it on its stream ended, not after
//! the one behind it began or a synchronise of the app returned. That whole stretch is *undecided* where nothing else
//! is known to run.

use super::Analysis;
use super::gaps::{Gaps, Neighbour};
use super::identity::{CLASSES, Class, Identity, Layer};
use super::sweep::Sweep;
use crate::model::occupancy::{Basis, Occupancy};
use crate::model::order::{Reorder, WINDOW};
use crate::model::{Action, Drained, Event, Operation, Reason, When};
use crate::trace::record::Body;
use gpuspy_wire::record::Untimed;
use std::collections::{BTreeMap, HashMap};

/// The sweep's answers about one device.
#[derive(Clone, Debug, Default)]
pub struct DeviceTime {
    /// Its timelines, added side by side.
    pub identity: Identity,
    /// How many timelines there are.
    pub timelines: u64,
    /// Operations that came too late for their place; the intervals hold them all the same.
    pub late: u64,
    /// The gaps of its timelines.
    pub gaps: Gaps,
}

/// How many chains of a context are open at once. A new chain follows the last one, and only what other threads issued
/// at that moment still belongs to the old.
const OPEN_CHAINS: usize = 2;

/// All timelines of a process: those that may still grow, and the sums of the others.
#[derive(Debug, Default)]
pub struct Timelines {
    open: BTreeMap<(u32, u32), Timeline>,
    done: BTreeMap<Option<u32>, DeviceTime>,
}

impl Analysis for Timelines {
    /// By device; `None` where a context's device was never told.
    type Table = BTreeMap<Option<u32>, DeviceTime>;

    fn observe(&mut self, event: &Event<'_>) {
        if let Some(operation) = &event.operation {
            match operation.when {
                When::Timed(occupancy) => {
                    self.of(operation.context, occupancy.chain).timed(operation, &occupancy)
                }
                When::Untimed { reason, after: Some((chain, after)) } if enters_a_stream(reason) => {
                    self.of(operation.context, chain).untimed(operation, after);
                }
                When::Untimed { .. } | When::Captured => {}
            }
        }
        if let Some(drained) = &event.drained {
            self.of(drained.context, drained.chain).drained(drained);
        }
        match &event.record.body {
            Body::Context(context) if context.destroyed => {
                for chain in self.chains(context.context) {
                    self.close(context.context, chain);
                }
            }
            Body::Stream(stream) if stream.destroyed => {
                let range = (stream.context, 0)..=(stream.context, u32::MAX);
                self.open.range_mut(range).for_each(|(_, timeline)| timeline.forget(stream.stream));
            }
            _ => {}
        }
    }

    fn finish(mut self) -> Self::Table {
        while let Some((context, chain)) = self.open.keys().next().copied() {
            self.close(context, chain);
        }
        self.done
    }
}

impl Timelines {
    fn of(&mut self, context: u32, chain: u32) -> &mut Timeline {
        if !self.open.contains_key(&(context, chain)) {
            let open = self.chains(context);
            if open.len() >= OPEN_CHAINS {
                self.close(context, open[0]);
            }
        }
        self.open.entry((context, chain)).or_default()
    }

    /// The open chains of a context, the oldest first.
    fn chains(&self, context: u32) -> Vec<u32> {
        self.open.range((context, 0)..=(context, u32::MAX)).map(|((_, chain), _)| *chain).collect()
    }

    /// Ends a timeline and adds it to its device's.
    fn close(&mut self, context: u32, chain: u32) {
        let Some(timeline) = self.open.remove(&(context, chain)) else { return };
        let device = self.done.entry(timeline.device).or_default();
        let (identity, gaps, late) = timeline.finish();
        device.identity.add(&identity);
        device.gaps.merge(gaps);
        device.timelines += 1;
        device.late += late;
    }
}

fn enters_a_stream(reason: Reason) -> bool {
    reason != Reason::Untimed(Untimed::NoStream)
}

/// One chain of one context.
#[derive(Debug)]
struct Timeline {
    device: Option<u32>,
    order: Reorder<Item>,
    streams: HashMap<u64, Stream>,
    sweep: Sweep,
}

impl Default for Timeline {
    fn default() -> Self {
        Timeline {
            device: None,
            order: Reorder::new(WINDOW),
            streams: HashMap::new(),
            sweep: Sweep::default(),
        }
    }
}

/// What a timeline has to remember of a stream.
#[derive(Clone, Copy, Debug)]
struct Stream {
    /// The last timed operation's end event.
    end: i64,
    /// Per class, the untimed work that nothing timed has followed yet.
    untimed: [Option<Untracked>; CLASSES],
}

/// Untimed work.
#[derive(Clone, Copy, Debug)]
struct Untracked {
    since: i64,
    /// Host ns when the last of it was issued.
    issued: u64,
    first: Neighbour,
}

/// What is put in GPU order.
#[derive(Clone, Copy, Debug)]
enum Item {
    /// A timed operation.
    Operation { class: Class, occupancy: Occupancy, neighbour: Neighbour },
    /// Untimed work may run from here.
    From { class: Class, neighbour: Neighbour },
    /// Up to here.
    To { class: Class, neighbour: Neighbour },
}

impl Timeline {
    fn timed(&mut self, operation: &Operation, occupancy: &Occupancy) {
        self.device = self.device.or(operation.device);
        let neighbour = neighbour(operation, occupancy.earliest_end, occupancy.latest_start);
        let stream = self.streams.entry(operation.stream).or_insert_with(|| Stream::new(i64::MIN));
        stream.end = occupancy.latest_end;
        let open = std::mem::take(&mut stream.untimed);
        self.close(open, occupancy.earliest_start);
        let item = Item::Operation { class: class(operation.what), occupancy: *occupancy, neighbour };
        self.push(occupancy.earliest_start, item);
    }

    fn untimed(&mut self, operation: &Operation, after: i64) {
        self.device = self.device.or(operation.device);
        let class = class(operation.what);
        let stream = self.streams.entry(operation.stream).or_insert_with(|| Stream::new(after));
        let since = after.max(stream.end);
        let neighbour = neighbour(operation, since, since);
        let open = &mut stream.untimed[class as usize];
        if let Some(open) = open {
            open.issued = open.issued.max(operation.returned);
        } else {
            *open = Some(Untracked { since, issued: operation.returned, first: neighbour });
            self.push(since, Item::From { class, neighbour });
        }
    }

    fn drained(&mut self, drained: &Drained) {
        let mut done = Vec::new();
        let is_drained = |id: &u64| drained.stream.is_none_or(|stream| stream == *id);
        for (_, stream) in self.streams.iter_mut().filter(|(id, _)| is_drained(id)) {
            done.push(
                stream
                    .untimed
                    .each_mut()
                    .map(|open| open.take_if(|open| open.issued <= drained.issued_before)),
            );
        }
        done.into_iter().for_each(|done| self.close(done, drained.by));
    }

    /// A stream is gone. If untimed work of it is open, it stays until a synchronise or the end.
    fn forget(&mut self, stream: u64) {
        let is_idle = |stream: &Stream| stream.untimed.iter().all(Option::is_none);
        if self.streams.get(&stream).is_some_and(is_idle) {
            self.streams.remove(&stream);
        }
    }

    fn close(&mut self, open: [Option<Untracked>; CLASSES], at: i64) {
        for (class, open) in ALL.into_iter().zip(open) {
            if let Some(open) = open {
                self.push(at.max(open.since), Item::To { class, neighbour: open.first });
            }
        }
    }

    fn push(&mut self, time: i64, item: Item) {
        if let Some((time, item)) = self.order.push(time, item) {
            sweep(&mut self.sweep, time, item);
        }
    }

    fn finish(mut self) -> (Identity, Gaps, u64) {
        while let Some((time, item)) = self.order.pop() {
            sweep(&mut self.sweep, time, item);
        }
        self.sweep.finish()
    }
}

/// Every class, in the order of their numbers.
const ALL: [Class; CLASSES] = [Class::Compute, Class::Graph, Class::Communication, Class::Copy];

impl Stream {
    fn new(end: i64) -> Self {
        Stream { end, untimed: [None; CLASSES] }
    }
}

fn class(what: Action) -> Class {
    match what {
        Action::Kernel { communication: false, .. } | Action::Burst { .. } => Class::Compute,
        Action::Kernel { communication: true, .. } => Class::Communication,
        Action::Graph { .. } => Class::Graph,
        Action::Transfer { .. } => Class::Copy,
    }
}

fn neighbour(operation: &Operation, earliest_end: i64, latest_start: i64) -> Neighbour {
    let Operation { correlation, what, caller, .. } = *operation;
    Neighbour { correlation, what, caller, earliest_end, latest_start }
}

/// Puts an item into the sweep.
fn sweep(sweep: &mut Sweep, time: i64, item: Item) {
    match item {
        Item::Operation { class, occupancy: o, neighbour } => {
            sweep.reach(time, class, o.latest_end);
            sweep.stretch(Layer::Possible, class, o.earliest_start, o.latest_end, neighbour);
            if o.basis == Basis::BoundsOnly {
                sweep.stretch(Layer::Undecided, class, o.earliest_start, o.latest_end, neighbour);
            } else {
                sweep.stretch(Layer::Estimated, class, o.start, o.end, neighbour);
                sweep.stretch(Layer::Certain, class, o.latest_start, o.earliest_end, neighbour);
            }
        }
        Item::From { class, neighbour } => {
            sweep.reach(time, class, time);
            sweep.enter(Layer::Possible, class, time, neighbour);
            sweep.enter(Layer::Undecided, class, time, neighbour);
        }
        Item::To { class, neighbour } => {
            sweep.reach(time, class, time);
            sweep.leave(Layer::Possible, class, time, neighbour);
            sweep.leave(Layer::Undecided, class, time, neighbour);
        }
    }
}

#[cfg(test)]
mod tests;
