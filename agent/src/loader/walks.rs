//! When may the loader's list be walked?

use crate::sys;
use core::sync::atomic::{AtomicU32, Ordering};

/// The walks over the loader's list that are under way: it is locked meanwhile. A child that is made in that moment by clone(2), without
/// fork's handlers, has the list locked for ever by a thread that it does not have: the poller, of which the program does not know.
struct Walks {
    /// How many. Relaxed, as the other: a child has a copy of one moment.
    count: AtomicU32,
    /// The pid of the process whose they are.
    process: AtomicU32,
}

static WALKS: Walks = Walks { count: AtomicU32::new(0), process: AtomicU32::new(0) };

/// A walk of this process.
pub struct Walk<'a> {
    walks: &'a Walks,
    #[cfg(test)]
    _heap: heap::InWalk,
}

/// Begins a walk. `None`: the list of this process is locked for ever.
pub fn begin() -> Option<Walk<'static>> {
    WALKS.begin(sys::pid())
}

impl Walks {
    fn begin(&self, process: u32) -> Option<Walk<'_>> {
        if self.count.load(Ordering::Relaxed) != 0 && self.process.load(Ordering::Relaxed) != process {
            return None;
        }
        self.process.store(process, Ordering::Relaxed);
        self.count.fetch_add(1, Ordering::Relaxed);
        Some(Walk {
            walks: self,
            #[cfg(test)]
            _heap: heap::InWalk::begin(),
        })
    }
}

impl Drop for Walk<'_> {
    fn drop(&mut self) {
        self.walks.count.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Counts what is allocated during walks, for tests.
#[cfg(test)]
pub mod heap {
    use core::alloc::{GlobalAlloc, Layout};
    use core::cell::Cell;
    use std::alloc::System;

    thread_local! {
        /// The walks of this thread that are under way.
        static WALKS: Cell<u32> = const { Cell::new(0) };
        /// How often this thread has allocated during one.
        static ALLOCATED: Cell<u32> = const { Cell::new(0) };
    }

    pub struct InWalk(());

    impl InWalk {
        pub fn begin() -> InWalk {
            WALKS.set(WALKS.get() + 1);
            InWalk(())
        }
    }

    impl Drop for InWalk {
        fn drop(&mut self) {
            WALKS.set(WALKS.get() - 1);
        }
    }

    /// Returns how often this thread has allocated during a walk.
    pub fn allocated() -> u32 {
        ALLOCATED.get()
    }

    struct Counted;

    #[global_allocator]
    static COUNTED: Counted = Counted;

    fn count() {
        ALLOCATED.set(ALLOCATED.get() + u32::from(WALKS.get() > 0));
    }

    // SAFETY: the system's allocator does all of it.
    unsafe impl GlobalAlloc for Counted {
        unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
            count();
            // SAFETY: the caller's promises.
            unsafe { System.alloc(layout) }
        }

        unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
            count();
            // SAFETY: the caller's promises.
            unsafe { System.dealloc(place, layout) }
        }

        unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
            count();
            // SAFETY: the caller's promises.
            unsafe { System.realloc(place, layout, size) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A child that was made by clone(2) while the poller walked over the list waited for it for ever.
    #[test]
    fn a_list_that_a_thread_of_the_parents_has_locked_is_not_walked() {
        let walks = Walks { count: AtomicU32::new(0), process: AtomicU32::new(0) };
        let first = walks.begin(7).unwrap();
        assert!(walks.begin(7).is_some(), "another thread of this process walks, too");
        assert!(walks.begin(8).is_none(), "a thread of the parent's does");
        drop(first);
        assert!(walks.begin(8).is_some(), "none did when the child was made");
    }
}
