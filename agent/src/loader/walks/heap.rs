//! Counts what is allocated during walks, for tests.

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
