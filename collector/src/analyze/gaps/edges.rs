//! The starts and ends of intervals that a sweep has not passed, in order, and the operations that they belong to.
//!
//! An edge is small, since an operation has up to six: it names its operation by a number. An operation's edges are mostly
//! close to the next ones, so all of them together are merged into a short sorted list; an edge that would have to go
//! further waits in a heap.

use super::super::identity::{Class, Layer};
use super::Neighbour;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The most edges of the list that come before a new one.
const NEAR: usize = 32;

/// The start or the end of an interval.
#[derive(Clone, Copy, Debug)]
pub struct Edge {
    /// When: host ns on the line.
    pub time: i64,
    /// Edges at the same time stay in the order in which they were added.
    number: u64,
    /// Whether it is the start.
    pub begins: bool,
    /// The interval's layer.
    pub layer: Layer,
    /// What it is spent on.
    pub class: Class,
    /// Its operation.
    pub held: Held,
}

/// The number of an operation that edges belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held(u32);

/// Edges in order.
#[derive(Debug, Default)]
pub struct Edges {
    /// Those that were added and are not in order yet.
    added: Vec<Edge>,
    /// In order, the first one at the end.
    near: Vec<Edge>,
    far: BinaryHeap<Reverse<Edge>>,
    arrivals: u64,
    held: Vec<Holding>,
    free: Vec<u32>,
}

/// An operation, and how many edges need it; the one who added it does so until it lets go.
#[derive(Clone, Copy, Debug)]
struct Holding {
    neighbour: Neighbour,
    needed: u32,
}

impl Edges {
    /// Keeps an operation until its edges are passed, and it is [let go](Self::let_go).
    pub fn hold(&mut self, neighbour: Neighbour) -> Held {
        let holding = Holding { neighbour, needed: 1 };
        match self.free.pop() {
            Some(place) => {
                self.held[place as usize] = holding;
                Held(place)
            }
            None => {
                self.held.push(holding);
                Held(self.held.len() as u32 - 1)
            }
        }
    }

    /// Returns an operation that has edges, or was not let go. One that was let go stays until the next one is kept.
    pub fn neighbour(&self, held: Held) -> &Neighbour {
        &self.held[held.0 as usize].neighbour
    }

    /// Notes that an edge of an operation was passed, or that no more of them are added.
    pub fn let_go(&mut self, held: Held) {
        let holding = &mut self.held[held.0 as usize];
        holding.needed -= 1;
        if holding.needed == 0 {
            self.free.push(held.0);
        }
    }

    /// Adds an edge of an operation that was not let go. It must be [settled](Self::settle) before it is passed.
    #[inline]
    pub fn add(&mut self, time: i64, begins: bool, (layer, class): (Layer, Class), held: Held) {
        self.held[held.0 as usize].needed += 1;
        self.arrivals += 1;
        self.added.push(Edge { time, number: self.arrivals, begins, layer, class, held });
    }

    /// Puts the edges in order that were added since the last time.
    pub fn settle(&mut self) {
        if !self.added.is_sorted_by_key(|edge| edge.time) {
            self.added.sort_by_key(|edge| edge.time);
        }
        let count = self.near.len();
        if let Some(bound) = count.checked_sub(NEAR + 1) {
            let bound = self.near[bound].time;
            let far = self.added.partition_point(|edge| edge.time < bound);
            self.far.extend(self.added.drain(far..).map(Reverse));
        }
        // Both are merged from the end of the list, where its first edges are.
        self.near.extend_from_slice(&self.added);
        let (mut before, mut place) = (count, self.near.len());
        for edge in &self.added {
            while before > 0 && self.near[before - 1].time <= edge.time {
                before -= 1;
                place -= 1;
                self.near[place] = self.near[before];
            }
            place -= 1;
            self.near[place] = *edge;
        }
        self.added.clear();
    }

    /// The number of edges.
    pub fn count(&self) -> usize {
        self.added.len() + self.near.len() + self.far.len()
    }

    /// The time of the first edge. All of them must be settled.
    pub fn next(&self) -> Option<i64> {
        let near = self.near.last().map(|edge| edge.time);
        match self.far.peek() {
            None => near,
            Some(Reverse(far)) => Some(near.map_or(far.time, |near| near.min(far.time))),
        }
    }

    /// Takes the first edge if it is at this time. Its operation stays until it is let go.
    #[inline]
    pub fn pop_at(&mut self, time: i64) -> Option<Edge> {
        if let Some(Reverse(far)) = self.far.peek()
            && self.near.last().is_none_or(|near| far < near)
        {
            return if far.time == time { self.far.pop().map(|Reverse(edge)| edge) } else { None };
        }
        self.near.pop_if(|edge| edge.time == time)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analyze::idle::lead::LeadNumber;
    use crate::model::Action;
    use crate::model::stacks::Caller;
    use proptest::prelude::*;

    fn neighbour(correlation: u64) -> Neighbour {
        let (caller, lead) = (Caller::default(), LeadNumber::default());
        let what = Action::Graph { kernels: 1 };
        Neighbour { correlation, what, caller, lane: None, earliest_end: 0, latest_start: 0, lead }
    }

    proptest! {
        /// Edges come out by time, those of one time as they were added, each with its operation; and nothing stays.
        #[test]
        fn edges_come_out_in_order_with_their_operations(times in proptest::collection::vec(0i64..60, 0..300)) {
            let (mut edges, mut expected) = (Edges::default(), Vec::new());
            for (number, time) in (0u64..).zip(times) {
                let held = edges.hold(neighbour(number));
                edges.add(time, true, (Layer::Possible, Class::Copy), held);
                edges.let_go(held);
                if number % 5 < 2 || number % 7 == 6 {
                    edges.settle();
                }
                expected.push((time, number));
                if number % 7 == 6 {
                    let first = expected.iter().min().copied().unwrap();
                    expected.retain(|edge| *edge != first);
                    let popped = edges.pop_at(edges.next().unwrap()).unwrap();
                    prop_assert_eq!((popped.time, edges.neighbour(popped.held).correlation), first);
                    edges.let_go(popped.held);
                }
            }
            edges.settle();
            expected.sort_unstable();
            prop_assert_eq!(edges.count(), expected.len());
            for edge in expected {
                let popped = edges.pop_at(edges.next().unwrap()).unwrap();
                prop_assert_eq!((popped.time, edges.neighbour(popped.held).correlation), edge);
                edges.let_go(popped.held);
            }
            prop_assert_eq!((edges.next(), edges.free.len()), (None, edges.held.len()));
        }
    }
}
