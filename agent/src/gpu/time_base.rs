//! Where on its context's clock does a complete event lie, to the ns, after hours?
//!
//! The driver only tells distances of two events, as float milliseconds: whole ns are exact up to a few ms and rounded
//! beyond ([`error_of`]). So positions are counted along a time base of anchors, events that stay held (no hook records them
//! anew) and whose positions are known, each measured from another that is near. Where work is dense, no distance that an
//! anchor's position depends on reaches 8 ms and nothing is ever rounded. Over a gap in which nothing completed there is
//! nothing nearer, and what the rounding may have cost is carried from anchor to anchor. When that passes [`LIMIT`], the
//! time base is tied anew: another time base begins, at the event that was out of reach. Positions of two time bases do not compare;
//! the collector brings them together by way of the host's clock.
//!
//! Events are read stream by stream, so they do not come in order: with the anchors of the last look still held, those of
//! a stream that is read late find near ones too, and are measured backwards where that is nearer. Only events beyond the
//! newest anchor tie a time base anew: one that lies far behind (the start of a kernel that ran for a minute) gets its
//! position with its error, and the time base goes on.

/// What a time base asks of its context's events, by their index in the pool.
pub trait Events {
    /// `cuEventElapsedTime`, ms. `None`: it did not answer.
    fn elapsed(&self, from: u32, to: u32) -> Option<f32>;
    /// The event is to stay as it was recorded.
    fn hold(&self, event: u32);
    /// It need not any more.
    fn give(&self, event: u32);
}

/// An event's place on its context's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// Which time base: 1, 2, …
    pub time_base: u32,
    /// ns since the time base's origin.
    pub ns: i64,
    /// `ns` is exact to ± this, ns.
    pub error: u32,
}

/// The distance of two events in ns, and how far off that may be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Distance {
    pub ns: i64,
    pub error: f64,
}

/// An event farther than this from every anchor becomes one. Half of 8 ms: its neighbour, as far away at most, is then
/// measured over less than 8 ms, where the driver's answer is exact.
const STEP_NS: i64 = 4_000_000;
/// Anchors held at the same time: the last 256 ms of dense work, more than the poller is ever late by (its sleep of 4 ms
/// ends up to 14 ms late on a busy machine), and 1 in 256 of a context's events.
const ANCHORS: usize = 64;
/// The error, in ns, that is carried at most: beyond it the host's clock ties two pieces together as well.
const LIMIT: f64 = 1_000.0;
/// Below this, rounding the answer to whole ns undoes the driver's rounding. A correctly rounded quotient is exact up to
/// 16 ms (the step of a float in 8 to 16 is 2^-20: 0.95 ns), a multiplication by 1e-6f up to 9.2 ms (its own error, 2.5e-9
/// of the distance, is added); computed for every ns in this module's tests.
const EXACT_NS: f64 = 9_000_000.0;
/// How far 1e-6f is off 1e-6, relatively.
const FACTOR_ERROR: f64 = 2.6e-9;

/// How far off an answer of about `ns` may be, ns, whether the driver divides, rounding once, or multiplies floats:
/// half a step of the ms, and, for the product, half a step of the ns and what the factor is off; and our own rounding.
fn error_of(ns: i64) -> f64 {
    let ns = ns.unsigned_abs() as f64;
    if ns < EXACT_NS {
        return 0.0;
    }
    (step(ns / 1e6) * 1e6 + step(ns)) / 2.0 + FACTOR_ERROR * ns + 0.5
}

/// The step of a float at a value, or at one that is a rounding greater.
fn step(value: f64) -> f64 {
    let at = (value * (1.0 + 2.0 * f64::from(f32::EPSILON))) as f32;
    f64::from(f32::from_bits(at.to_bits() + 1)) - f64::from(at)
}

/// The distance of two complete events. Some drivers refuse a negative one: then the other way round is asked.
pub fn distance(events: &impl Events, from: u32, to: u32) -> Option<Distance> {
    if from == to {
        return Some(Distance { ns: 0, error: 0.0 });
    }
    distance_by(|forth| if forth { events.elapsed(from, to) } else { events.elapsed(to, from) })
}

/// The same, where `elapsed` asks for the time from one to the other, or back.
pub fn distance_by(elapsed: impl Fn(bool) -> Option<f32>) -> Option<Distance> {
    let ms = elapsed(true).or_else(|| elapsed(false).map(|ms| -ms))?;
    let ns = (f64::from(ms) * 1e6).round() as i64;
    Some(Distance { ns, error: error_of(ns) })
}

/// An event whose position is known. The time base holds it.
#[derive(Clone, Copy)]
struct Anchor {
    event: u32,
    position: i64,
    error: f64,
}

impl Anchor {
    /// The position of an event, measured from here.
    fn measure(&self, events: &impl Events, event: u32) -> Option<(i64, f64)> {
        let distance = distance(events, self.event, event)?;
        Some((self.position + distance.ns, self.error + distance.error))
    }

    /// The error that a position of about `position` would have, measured from here.
    fn error_at(&self, position: i64) -> f64 {
        self.error + error_of(position - self.position)
    }
}

/// A context's time base of anchors.
#[derive(Default)]
pub struct TimeBase {
    /// 0 = nothing was located yet.
    number: u32,
    /// In the order of their positions; at most [`ANCHORS`].
    anchors: Vec<Anchor>,
}

impl TimeBase {
    /// The position of a complete event of the context. `None`: the driver does not answer.
    pub fn locate(&mut self, events: &impl Events, event: u32) -> Option<Position> {
        let Some(newest) = self.anchors.last().copied() else { return Some(self.tie(events, event)) };
        let (mut ns, mut error) = newest.measure(events, event)?;
        // Now it is known well enough where it lies to tell which anchor gives the least error.
        let by_error = |a: &&Anchor, b: &&Anchor| a.error_at(ns).total_cmp(&b.error_at(ns));
        if let Some(best) = self.anchors.iter().min_by(by_error).filter(|a| a.error_at(ns) < error) {
            (ns, error) = best.measure(events, event)?;
        }
        if error > LIMIT && ns > newest.position {
            return Some(self.tie(events, event));
        }
        if error <= LIMIT && self.anchors.iter().all(|a| (a.position - ns).abs() > STEP_NS) {
            self.insert(events, Anchor { event, position: ns, error });
        }
        Some(Position { time_base: self.number, ns, error: error.ceil() as u32 })
    }

    /// Begins a time base at this event.
    fn tie(&mut self, events: &impl Events, event: u32) -> Position {
        events.hold(event);
        self.anchors.drain(..).for_each(|a| events.give(a.event));
        self.anchors.push(Anchor { event, position: 0, error: 0.0 });
        self.number += 1;
        Position { time_base: self.number, ns: 0, error: 0 }
    }

    fn insert(&mut self, events: &impl Events, anchor: Anchor) {
        let mut at = self.anchors.partition_point(|a| a.position < anchor.position);
        if self.anchors.len() >= ANCHORS {
            if at == 0 {
                return; // older than all
            }
            events.give(self.anchors.remove(0).event);
            at -= 1;
        }
        events.hold(anchor.event);
        self.anchors.insert(at, anchor);
    }
}

#[cfg(test)]
mod tests;
