//! One pass over the edges of operations, in GPU order.

use super::estimate::Estimate;
use super::gaps::{Gap, Gaps, Neighbour};
use super::identity::{Class, Cover, Identity, Layer};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A sweep over one timeline: call [`reach`](Self::reach) with every new start, in order, then add its edges.
#[derive(Debug, Default)]
pub struct Sweep {
    /// How far the pass has come; `None` before the first edge.
    now: Option<i64>,
    origin: i64,
    edges: BinaryHeap<Reverse<Edge>>,
    arrivals: u64,
    cover: Cover,
    identity: Identity,
    open: Option<OpenGap>,
    gaps: Gaps,
    late: u64,
    /// Whose edge was passed last, of timed operations.
    last: Option<Neighbour>,
    /// How much time the clocks of edges that follow each other leave in doubt, ns.
    doubt: u64,
}

/// A begin or an end of a stretch.
#[derive(Clone, Copy, Debug)]
struct Edge {
    time: i64,
    /// Its number: edges of one time stay in the order they were added.
    number: u64,
    begins: bool,
    layer: Layer,
    class: Class,
    neighbour: Neighbour,
}

/// A gap that nothing has followed yet.
#[derive(Clone, Copy, Debug)]
struct OpenGap {
    start: i64,
    /// Time in it in which nothing can have run, ns.
    certain: u64,
    before: Neighbour,
}

impl Sweep {
    /// Everything that is added from now on begins at `time` or later, and the next is of `class` and ends by `end`.
    /// What begins before a time already passed is counted as late, and its passed part widens the intervals.
    pub fn reach(&mut self, time: i64, class: Class, end: i64) {
        while let Some(edge) = self.edges.peek().filter(|Reverse(edge)| edge.time < time) {
            let next = edge.0.time;
            self.pass_to(next);
        }
        if let Some(now) = self.now.filter(|now| time < *now) {
            self.late += 1;
            self.identity.came_late(class, (now.min(end) - time).max(0) as u64);
        }
    }

    /// Adds a stretch, if it has any length.
    pub fn stretch(&mut self, layer: Layer, class: Class, from: i64, to: i64, neighbour: Neighbour) {
        if from < to {
            self.enter(layer, class, from, neighbour);
            self.leave(layer, class, to, neighbour);
        }
    }

    /// Adds the begin of a stretch.
    pub fn enter(&mut self, layer: Layer, class: Class, time: i64, neighbour: Neighbour) {
        self.add(time, true, layer, class, neighbour);
    }

    /// Adds the end of a stretch.
    pub fn leave(&mut self, layer: Layer, class: Class, time: i64, neighbour: Neighbour) {
        self.add(time, false, layer, class, neighbour);
    }

    /// Edges that are not passed yet: those of operations that run at the moment.
    pub fn pending(&self) -> usize {
        self.edges.len()
    }

    /// Passes over all that is left.
    pub fn finish(mut self) -> (Identity, Gaps, u64) {
        while let Some(Reverse(edge)) = self.edges.peek() {
            let next = edge.time;
            self.pass_to(next);
        }
        self.identity.doubt(self.doubt);
        (self.identity, self.gaps, self.late)
    }

    fn add(&mut self, time: i64, begins: bool, layer: Layer, class: Class, neighbour: Neighbour) {
        let time = self.now.map_or(time, |now| now.max(time));
        self.arrivals += 1;
        self.edges.push(Reverse(Edge { time, number: self.arrivals, begins, layer, class, neighbour }));
    }

    /// Passes to `time` and over all edges that lie there.
    fn pass_to(&mut self, time: i64) {
        let from = *self.now.get_or_insert_with(|| {
            self.origin = time;
            time
        });
        let ns = (time - from) as u64;
        self.identity.pass(&self.cover, ns);
        if let Some(open) = self.open.as_mut().filter(|_| self.cover.is_certainly_idle()) {
            open.certain += ns;
        }
        self.now = Some(time);
        let (mut ended, mut began, mut is_observed) = (None, None, true);
        let was_idle = self.cover.is_idle();
        while let Some(Reverse(edge)) = self.edges.peek().copied().filter(|Reverse(edge)| edge.time == time) {
            self.edges.pop();
            let is_work = matches!(edge.layer, Layer::Estimated | Layer::Undecided | Layer::Unobserved);
            is_observed &= edge.layer != Layer::Unobserved;
            self.clocks(&edge);
            if edge.begins {
                self.cover.enter(edge.layer, edge.class);
                began = began.or(is_work.then_some(edge.neighbour));
            } else {
                self.cover.leave(edge.layer, edge.class);
                ended = is_work.then_some(edge.neighbour).or(ended);
            }
        }
        match (was_idle, self.cover.is_idle(), began, ended) {
            // What is next to a stretch that nobody looked at may be longer than it seems.
            _ if !is_observed => self.open = None,
            (true, false, Some(after), _) => self.close_gap(time, after),
            (false, true, _, Some(before)) => self.open = Some(OpenGap { start: time, certain: 0, before }),
            _ => {}
        }
    }

    /// Two clocks can be off against each other, so the time between two edges can be longer or shorter where they are of
    /// two. Edges of one clock that follow each other move together.
    fn clocks(&mut self, edge: &Edge) {
        if edge.layer == Layer::Possible && edge.neighbour.lane.is_some() {
            let doubt = self.last.replace(edge.neighbour).map_or(0, |last| last.doubt(&edge.neighbour));
            self.doubt = self.doubt.saturating_add(doubt);
        }
    }

    fn close_gap(&mut self, time: i64, after: Neighbour) {
        let Some(open) = self.open.take() else { return };
        let value = (time - open.start) as u64;
        let longest = (after.latest_start - open.before.earliest_end).max(0) as u64;
        let doubt = open.before.doubt(&after);
        let (lo, hi) = (open.certain.saturating_sub(doubt), longest.max(value).saturating_add(doubt));
        self.gaps.add(Gap {
            start: (open.start - self.origin) as u64,
            duration: Estimate::new(value, lo, hi),
            before: open.before,
            after,
        });
    }
}

impl PartialEq for Edge {
    fn eq(&self, other: &Self) -> bool {
        (self.time, self.number) == (other.time, other.number)
    }
}
impl Eq for Edge {}
impl PartialOrd for Edge {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Edge {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.time, self.number).cmp(&(other.time, other.number))
    }
}
