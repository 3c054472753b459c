//! From host order to GPU order, in bounded memory.
//!
//! Operations arrive as the host issued them; on the GPU a later one of another stream may come first. How far the two
//! orders part is bounded by the launch queues: 1024 entries per stream. So a buffer of [`WINDOW`] items restores the
//! order for 64 streams with full queues. What comes later than that is handed out at once and marked: order is never
//! broken silently.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// Items held back per timeline: 64 streams of 1024 queued entries (NVIDIA's queue depth).
pub const WINDOW: usize = 64 * 1024;

/// An item with its place.
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
    /// Reversed, since the heap hands out the greatest.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.time, other.arrival).cmp(&(self.time, self.arrival))
    }
}

/// Hands out items by time, those of one time as they came.
#[derive(Debug)]
pub struct Reorder<T> {
    heap: BinaryHeap<Entry<T>>,
    window: usize,
    arrivals: u64,
}

impl<T> Reorder<T> {
    /// A buffer that holds back `window` items.
    pub fn new(window: usize) -> Self {
        Reorder { heap: BinaryHeap::new(), window, arrivals: 0 }
    }

    /// Takes an item; hands out the first of all when there are more than the window.
    pub fn push(&mut self, time: i64, item: T) -> Option<(i64, T)> {
        self.arrivals += 1;
        self.heap.push(Entry { time, arrival: self.arrivals, item });
        if self.heap.len() > self.window { self.pop() } else { None }
    }

    /// Hands out the first of all. A time before that of an earlier answer marks a late one.
    pub fn pop(&mut self) -> Option<(i64, T)> {
        self.heap.pop().map(|entry| (entry.time, entry.item))
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
    fn what_comes_too_late_is_handed_out_with_its_own_time() {
        let mut order = Reorder::new(1);
        assert_eq!(order.push(10, 'a'), None);
        assert_eq!(order.push(20, 'b'), Some((10, 'a')));
        assert_eq!(order.push(5, 'c'), Some((5, 'c')));
    }
}
