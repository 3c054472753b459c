//! How does host order become GPU order in bounded memory?
//!
//! Operations arrive in the order in which the host issued them; on the GPU, a later one on another stream may run
//! first. The launch queues bound how far the two orders differ: a stream has 1024 entries. So a buffer of [`WINDOW`]
//! items restores the order for 64 streams with full queues. An item that comes later than that is returned at once
//! with its own time, which shows that it is late: order is never broken silently.
//!
//! Items mostly arrive in few rising sequences: each stream's operations run in the order in which they were issued. So an
//! item is appended to a [run](Reorder::runs) of earlier ones, and what fits none of them waits in a heap.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// Items held back per timeline: 64 streams with 1024 queued entries each (NVIDIA's queue depth).
pub const WINDOW: usize = 64 * 1024;

/// The most runs.
const RUNS: usize = 8;

/// Where an item is in the order, and its place among the items.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    time: i64,
    arrival: u64,
    place: u32,
}

/// Returns items in order of time, and items of one time in order of arrival.
#[derive(Debug)]
pub struct Reorder<T> {
    /// The entries of each are in order.
    runs: Vec<VecDeque<Entry>>,
    /// The entries that fitted no run.
    rest: BinaryHeap<Reverse<Entry>>,
    items: Vec<Option<T>>,
    /// The places without an item.
    free: Vec<u32>,
    window: usize,
    arrivals: u64,
}

impl<T> Reorder<T> {
    /// A buffer that holds back `window` items.
    pub fn new(window: usize) -> Self {
        let (runs, rest, items, free) = (Vec::new(), BinaryHeap::new(), Vec::new(), Vec::new());
        Reorder { runs, rest, items, free, window, arrivals: 0 }
    }

    /// Adds an item; returns the earliest one if there are now more than the window.
    pub fn push(&mut self, time: i64, item: T) -> Option<(i64, T)> {
        if self.items.len() - self.free.len() < self.window {
            self.insert(time, item);
            return None;
        }
        match self.first() {
            // Of one time, the item that waits arrived first.
            Some((entry, run)) if entry.time <= time => {
                let earliest = self.take(entry, run);
                self.insert(time, item);
                earliest
            }
            _ => Some((time, item)),
        }
    }

    /// Returns the earliest item. A time before that of an earlier result marks a late one.
    pub fn pop(&mut self) -> Option<(i64, T)> {
        let (entry, run) = self.first()?;
        self.take(entry, run)
    }

    /// Takes the first entry of a run, or of the heap.
    fn take(&mut self, Entry { time, place, .. }: Entry, run: Option<usize>) -> Option<(i64, T)> {
        match run {
            Some(run) => drop(self.runs[run].pop_front()),
            None => drop(self.rest.pop()),
        }
        self.free.push(place);
        Some((time, self.items[place as usize].take()?))
    }

    /// The earliest entry, and the number of the run that begins with it; `None`: it is in the heap.
    fn first(&self) -> Option<(Entry, Option<usize>)> {
        let mut first = self.rest.peek().map(|Reverse(entry)| (*entry, None));
        for (at, run) in self.runs.iter().enumerate() {
            if let Some(entry) = run.front()
                && first.is_none_or(|(least, _)| *entry < least)
            {
                first = Some((*entry, Some(at)));
            }
        }
        first
    }

    fn insert(&mut self, time: i64, item: T) {
        self.arrivals += 1;
        let place = self.free.pop().unwrap_or_else(|| {
            self.items.push(None);
            self.items.len() as u32 - 1
        });
        self.items[place as usize] = Some(item);
        let entry = Entry { time, arrival: self.arrivals, place };
        // Of the runs that end before it, the first one ends closest to it, so that the others stay open for earlier items:
        // a run is begun by an item that is before the ends of all, and goes on up to the end of the run before it.
        if let Some(run) = self.runs.iter_mut().find(|run| run.back().is_none_or(|last| last.time <= time)) {
            run.push_back(entry);
        } else if self.runs.len() < RUNS {
            self.runs.push([entry].into());
        } else {
            self.rest.push(Reverse(entry));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_is_restored_inside_the_window() {
        let mut order = Reorder::new(3);
        let mut out = Vec::new();
        for time in [3, 1, 2, 0, 5, 4, 4] {
            out.extend(order.push(time, ()).map(|(t, ())| t));
        }
        while let Some((t, ())) = order.pop() {
            out.push(t);
        }
        assert_eq!(out, [0, 1, 2, 3, 4, 4, 5]);
    }

    #[test]
    fn a_late_item_is_returned_with_its_own_time() {
        let mut order = Reorder::new(1);
        assert_eq!(order.push(10, 'a'), None);
        assert_eq!(order.push(20, 'b'), Some((10, 'a')));
        assert_eq!(order.push(5, 'c'), Some((5, 'c')));
    }

    proptest::proptest! {
        /// The definition: of all items that wait, the one with the least time, and then the first that arrived.
        #[test]
        fn any_items_come_out_as_from_a_sorted_list(
            times in proptest::collection::vec(-40i64..40, 0..200),
            window in 0usize..60,
        ) {
            let (mut order, mut waiting) = (Reorder::new(window), Vec::new());
            let (mut out, mut expected) = (Vec::new(), Vec::new());
            for (arrival, time) in times.into_iter().enumerate() {
                waiting.push((time, arrival));
                waiting.sort_unstable();
                if waiting.len() > window {
                    expected.push(waiting.remove(0));
                }
                out.extend(order.push(time, arrival));
            }
            expected.append(&mut waiting);
            out.extend(std::iter::from_fn(|| order.pop()));
            proptest::prop_assert_eq!(out, expected);
        }
    }
}
