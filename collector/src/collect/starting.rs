//! How many sessions have been accepted and do not record yet? They have still to open their descriptors, so that no further process is
//! accepted for which there would be none.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A session that does not record yet, which counts until it does, or has ended.
#[derive(Debug)]
pub(crate) struct Starting<'c> {
    // Relaxed: a number that stands alone. Only the thread that accepts makes it larger.
    count: &'c AtomicUsize,
    is_over: Cell<bool>,
}

impl<'c> Starting<'c> {
    /// Counts one more.
    pub fn new(count: &'c AtomicUsize) -> Starting<'c> {
        count.fetch_add(1, Ordering::Relaxed);
        Starting { count, is_over: Cell::new(false) }
    }

    /// Counts it no longer.
    pub fn over(&self) {
        if !self.is_over.replace(true) {
            self.count.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Drop for Starting<'_> {
    fn drop(&mut self) {
        self.over();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_counts_until_it_records_or_has_ended() {
        let count = AtomicUsize::new(0);
        let (one, other) = (Starting::new(&count), Starting::new(&count));
        one.over();
        assert_eq!(count.load(Ordering::Relaxed), 1);
        drop(one);
        assert_eq!(count.load(Ordering::Relaxed), 1, "it counts once");
        drop(other);
        assert_eq!(count.load(Ordering::Relaxed), 0);
    }
}
