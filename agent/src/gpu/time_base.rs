//! Where on its context's clock does a complete event lie, to the ns, even after hours?
//!
//! The driver only returns distances between two events, as float milliseconds: whole ns are exact up to a
//! few ms and rounded beyond ([`error_of`]). So positions are counted along a time base of anchors: events
//! that stay held (no hook records them again) and whose positions are known, each measured from a nearby
//! anchor. Where work is dense, no distance that an anchor's position depends on reaches 8 ms, and nothing is
//! ever rounded. Across a gap in which nothing completed there is no nearer anchor, and the rounding error is
//! carried from anchor to anchor. When it exceeds [`LIMIT`], a new time base begins at the event that was out
//! of reach. Positions of two time bases are not comparable; the collector relates them by way of the host's
//! clock.
//!
//! Events are read stream by stream, so they do not come in order. The anchors of the last polling pass are
//! still held, so the events of a stream that is read late find near ones too, and are measured backwards
//! where that is nearer. Only events later than the newest anchor start a new time base: an event that is
//! much earlier (the start of a kernel that ran for a minute) gets its position with its error, and the time
//! base continues.

/// What a time base needs from its context's events, by their index in the pool.
pub trait Events {
    /// `cuEventElapsedTime` in ms. `None`: the driver returned an error.
    fn elapsed(&self, from: u32, to: u32) -> Option<f32>;
    /// Keeps the event as it was recorded.
    fn hold(&self, event: u32);
    /// Releases the event, which may be recorded again.
    fn give(&self, event: u32);
}

/// An event's place on its context's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// The number of the time base: 1, 2, …
    pub time_base: u32,
    /// ns since the time base's origin.
    pub ns: i64,
    /// The largest error of `ns`, in ns.
    pub error: u32,
}

/// The distance between two events in ns, and the largest error of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Distance {
    pub ns: i64,
    pub error: f64,
}

/// An event farther than this from every anchor becomes one. It is half of 8 ms, so that its neighbor, at
/// most as far away again, is measured over less than 8 ms, where the driver's result is exact.
const STEP_NS: i64 = 4_000_000;
/// The number of anchors held at the same time. They span the last 256 ms of dense work, more than the poller
/// is ever late (its sleep of 4 ms ends up to 14 ms late on a busy machine), and are 1 in 256 of a context's
/// events.
const ANCHORS: usize = 64;
/// The largest error in ns that is carried on. Beyond it, the host's clock relates two time bases equally
/// well.
const LIMIT: f64 = 1_000.0;
/// Below this distance, rounding the result to whole ns undoes the driver's rounding. A correctly rounded
/// quotient is exact up to 16 ms (the step of a float between 8 and 16 is 2^-20: 0.95 ns), a multiplication
/// by 1e-6f up to 9.2 ms (its own error, 2.5e-9 of the distance, adds to the step); this module's tests
/// compute it for every ns.
const EXACT_NS: f64 = 9_000_000.0;
/// The relative error of 1e-6f as a value of 1e-6.
const FACTOR_ERROR: f64 = 2.6e-9;

/// The largest error of a result of about `ns`, in ns, whether the driver divides and rounds once, or
/// multiplies floats: half a step of the ms value; for the product, also half a step of the ns value and the
/// error of the factor; and our own rounding.
fn error_of(ns: i64) -> f64 {
    let ns = ns.unsigned_abs() as f64;
    if ns < EXACT_NS {
        return 0.0;
    }
    (step(ns / 1e6) * 1e6 + step(ns)) / 2.0 + FACTOR_ERROR * ns + 0.5
}

/// The step of a float at a value, or at one that is larger by a rounding error.
fn step(value: f64) -> f64 {
    let at = (value * (1.0 + 2.0 * f64::from(f32::EPSILON))) as f32;
    f64::from(f32::from_bits(at.to_bits() + 1)) - f64::from(at)
}

/// Returns the distance between two complete events. Some drivers refuse a negative one; then the opposite
/// distance is queried.
pub fn distance(events: &impl Events, from: u32, to: u32) -> Option<Distance> {
    if from == to {
        return Some(Distance { ns: 0, error: 0.0 });
    }
    distance_by(|forth| if forth { events.elapsed(from, to) } else { events.elapsed(to, from) })
}

/// Does the same with a function that returns the time from one event to the other, or back if its argument
/// is false.
pub fn distance_by(elapsed: impl Fn(bool) -> Option<f32>) -> Option<Distance> {
    let ms = elapsed(true).or_else(|| elapsed(false).map(|ms| -ms))?;
    let ns = (f64::from(ms) * 1e6).round() as i64;
    Some(Distance { ns, error: error_of(ns) })
}

/// An event whose position is known, and which the time base holds.
#[derive(Clone, Copy)]
struct Anchor {
    event: u32,
    position: i64,
    error: f64,
}

impl Anchor {
    /// Returns the position of an event, measured from this anchor, and its error.
    fn measure(&self, events: &impl Events, event: u32) -> Option<(i64, f64)> {
        let distance = distance(events, self.event, event)?;
        Some((self.position + distance.ns, self.error + distance.error))
    }

    /// The error that a position of about `position` would have, measured from this anchor.
    fn error_at(&self, position: i64) -> f64 {
        self.error + error_of(position - self.position)
    }
}

/// The time base of a context.
#[derive(Default)]
pub struct TimeBase {
    /// The number of the current time base; 0 = nothing was located yet.
    number: u32,
    /// The anchors in order of position; at most [`ANCHORS`].
    anchors: Vec<Anchor>,
}

impl TimeBase {
    /// Returns the position of a complete event of the context. `None`: the driver returned an error.
    pub fn locate(&mut self, events: &impl Events, event: u32) -> Option<Position> {
        let Some(newest) = self.anchors.last().copied() else { return Some(self.start_new(events, event)) };
        let (mut ns, mut error) = newest.measure(events, event)?;
        // The position is now known well enough to choose the anchor that gives the least error.
        let by_error = |a: &&Anchor, b: &&Anchor| a.error_at(ns).total_cmp(&b.error_at(ns));
        if let Some(best) = self.anchors.iter().min_by(by_error).filter(|a| a.error_at(ns) < error) {
            (ns, error) = best.measure(events, event)?;
        }
        if error > LIMIT && ns > newest.position {
            return Some(self.start_new(events, event));
        }
        if error <= LIMIT && self.anchors.iter().all(|a| (a.position - ns).abs() > STEP_NS) {
            self.insert(events, Anchor { event, position: ns, error });
        }
        Some(Position { time_base: self.number, ns, error: error.ceil() as u32 })
    }

    /// Whether an anchor of this time base is so near to a position that an event there need not become one.
    pub fn has_anchor_near(&self, at: &Position) -> bool {
        at.time_base == self.number
            && self.anchors.iter().rev().any(|anchor| (anchor.position - at.ns).abs() <= STEP_NS)
    }

    /// Starts a new time base at this event.
    fn start_new(&mut self, events: &impl Events, event: u32) -> Position {
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
                return; // earlier than all anchors
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
