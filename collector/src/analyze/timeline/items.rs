//! What is put in the order of GPU time, and what each adds to the sweep.

use super::super::gaps::edges::Held;
use super::super::gaps::sweep::Sweep;
use super::super::gaps::{Lane, Neighbour};
use super::super::identity::{Class, Layer};
use super::super::idle::lead::LeadNumber;
use crate::model::gpu_interval::{Basis, GpuInterval};
use crate::model::{Action, Operation};

/// An item to be put in GPU order.
#[derive(Clone, Copy, Debug)]
pub(super) struct Item {
    pub kind: Kind,
    pub class: Class,
    pub held: Held,
}

/// What an item is.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    /// A timed operation.
    Timed(Placed),
    /// Untimed work may run from here on.
    From(Layer),
    /// Untimed work may run up to here.
    To(Layer),
}

/// What the sweep needs of a [`GpuInterval`] beside the item's time, which is its earliest start, and the neighbour. Tens of
/// thousands of them wait for their turn.
#[derive(Clone, Copy, Debug)]
pub(super) struct Placed {
    pub start: i64,
    pub end: i64,
    pub busy_from: i64,
    pub latest_end: i64,
    pub starved: i64,
    pub basis: Basis,
}

impl Placed {
    pub fn of(interval: &GpuInterval) -> Placed {
        let GpuInterval { start, end, busy_from, latest_end, starved, basis, .. } = *interval;
        Placed { start, end, busy_from, latest_end, starved, basis }
    }
}

/// Returns the interval of a burst or a run for a part of its launches: at no moment is it certain that one of these ran.
pub(super) fn of_part(whole: &GpuInterval) -> GpuInterval {
    GpuInterval { busy_from: whole.latest_end, starved: 0, ..*whole }
}

pub(super) fn class(what: Action) -> Class {
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

pub(super) fn neighbour(
    operation: &Operation,
    lane: Option<Lane>,
    earliest_end: i64,
    latest_start: i64,
    lead: LeadNumber,
) -> Neighbour {
    let Operation { correlation, what, caller, .. } = *operation;
    Neighbour { correlation, what, caller, lane, earliest_end, latest_start, lead }
}

/// Passes an item to the sweep.
pub(super) fn sweep(sweep: &mut Sweep, time: i64, Item { kind, class, held }: Item) {
    match kind {
        Kind::Timed(placed) => {
            sweep.reach(time, class, placed.latest_end);
            run(sweep, class, (time, placed), held);
        }
        Kind::From(layer) => {
            sweep.reach(time, class, time);
            sweep.enter(Layer::Possible, class, time, held);
            sweep.enter(layer, class, time, held);
        }
        Kind::To(layer) => {
            sweep.reach(time, class, time);
            sweep.leave(Layer::Possible, class, time, held);
            sweep.leave(layer, class, time, held);
        }
    }
    sweep.let_go(held);
}

/// Adds when a timed operation ran, which did not start before `time`.
pub(super) fn run(sweep: &mut Sweep, class: Class, (time, placed): (i64, Placed), held: Held) {
    let possible = (Layer::Possible, time, placed.latest_end);
    // Until the last launch of a burst or a run was issued, the GPU may have waited for the host between two of them.
    let certain = (Layer::Certain, placed.busy_from, sweep.neighbour(held).earliest_end);
    let estimated = (Layer::Estimated, placed.start, placed.end);
    let undecided = |from| (Layer::Undecided, from, placed.latest_end);
    match placed.basis {
        Basis::BoundsOnly => sweep.stretches(class, [possible, undecided(time), certain], held),
        Basis::Typical => {
            sweep.stretches(class, [possible, estimated, undecided(placed.end), certain], held);
        }
        _ if placed.starved == 0 => sweep.stretches(class, [possible, estimated, certain], held),
        _ => {
            sweep.stretches(class, [possible, certain], held);
            starved(sweep, class, &placed, *sweep.neighbour(held));
        }
    }
}

/// Adds when a run in which the GPU starved ran by the best estimate. Between its two parts is a gap. What the host did in
/// that is not known: the lead is that of the run's first launch.
pub(super) fn starved(sweep: &mut Sweep, class: Class, o: &Placed, neighbour: Neighbour) {
    let starved_from = o.busy_from - o.starved;
    let before = Neighbour { earliest_end: neighbour.latest_start, ..neighbour };
    let after = Neighbour { latest_start: o.busy_from, lead: LeadNumber::default(), ..neighbour };
    for (from, to, neighbour) in [(o.start, starved_from, before), (o.busy_from, o.end, after)] {
        let held = sweep.hold(neighbour);
        sweep.stretches(class, [(Layer::Estimated, from, to)], held);
        sweep.let_go(held);
    }
}
