//! How does host order become GPU order in bounded memory?
//!
//! Operations arrive in the order in which the host issued them; on the GPU, a later one on another stream may run
//! first. The launch queues bound how far the two orders differ: a stream has 1024 entries. So a buffer of [`WINDOW`]
//! items restores the order for 64 streams with full queues. An item that comes later than that is returned at once
//! with its own time, which shows that it is late: order is never broken silently.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, VecDeque};

/// Items held back per timeline: 64 streams with 1024 queued entries each (NVIDIA's queue depth).
pub const WINDOW: usize = 64 * 1024;

/// An item with its position.
#[derive(Clone, Copy, Debug)]
struct Entry<T> {
    time: i64,
    arrival: u64,
    item: T,
}

impl<T> PartialEq for Entry<T> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}
impl<T> Eq for Entry<T> {}
impl<T> PartialOrd for Entry<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl<T> Ord for Entry<T> {
    /// Reversed, because the heap returns the greatest.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.time, other.arrival).cmp(&(self.time, self.arrival))
    }
}

/// Returns items in order of time, and items of one time in order of arrival.
///
/// Most items arrive in order: those wait in a queue, which costs nothing. The others wait in a heap beside it.
#[derive(Debug)]
pub struct Reorder<T> {
    /// Each is no earlier than the one before it.
    queue: VecDeque<Entry<T>>,
    /// What was earlier than the queue's end when it came.
    heap: BinaryHeap<Entry<T>>,
    window: usize,
    arrivals: u64,
}

impl<T> Reorder<T> {
    /// A buffer that holds back `window` items.
    pub fn new(window: usize) -> Self {
        Reorder { queue: VecDeque::new(), heap: BinaryHeap::new(), window, arrivals: 0 }
    }

    /// Adds an item; returns the earliest one if there are now more than the window.
    pub fn push(&mut self, time: i64, item: T) -> Option<(i64, T)> {
        self.arrivals += 1;
        let entry = Entry { time, arrival: self.arrivals, item };
        // Taking one out first keeps the buffers from growing to twice the window.
        let is_full = self.queue.len() + self.heap.len() >= self.window;
        let earliest = match is_full {
            true if self.earliest().is_none_or(|earliest| entry > *earliest) => {
                return Some((time, entry.item));
            }
            true => self.pop(),
            false => None,
        };
        if self.queue.back().is_none_or(|last| last.time <= time) {
            self.queue.push_back(entry);
        } else {
            self.heap.push(entry);
        }
        earliest
    }

    /// Returns the earliest item. A time before that of an earlier result marks a late one.
    pub fn pop(&mut self) -> Option<(i64, T)> {
        let is_in_queue = self.queue.front() > self.heap.peek();
        let entry = if is_in_queue { self.queue.pop_front() } else { self.heap.pop() };
        entry.map(|entry| (entry.time, entry.item))
    }

    /// Returns the earliest entry, which is the greatest; none is less than any.
    fn earliest(&self) -> Option<&Entry<T>> {
        self.queue.front().max(self.heap.peek())
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

    proptest::proptest! {
        #[test]
        fn items_come_out_as_sorting_would_order_them(late in proptest::collection::vec(0i64..9, 0..60)) {
            let times: Vec<i64> = late.iter().zip(0..).map(|(late, n)| n - late).collect();
            let mut order = Reorder::new(times.len());
            for (n, time) in times.iter().enumerate() {
                assert_eq!(order.push(*time, n), None);
            }
            let mut sorted: Vec<(i64, usize)> = times.into_iter().zip(0..).collect();
            sorted.sort();
            assert_eq!(std::iter::from_fn(|| order.pop()).collect::<Vec<_>>(), sorted);
        }
    }

    #[test]
    fn a_late_item_is_returned_with_its_own_time() {
        let mut order = Reorder::new(1);
        assert_eq!(order.push(10, 'a'), None);
        assert_eq!(order.push(20, 'b'), Some((10, 'a')));
        assert_eq!(order.push(5, 'c'), Some((5, 'c')));
    }
}
