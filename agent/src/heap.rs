//! Where does memory come from when the process has none left?
//!
//! Rust aborts the process when an allocation fails, and a guest must not end its host. So there is a reserve in this
//! library for what malloc(3) refuses: enough for everything that the agent allocates at a time, except for what grows
//! with the program's own data, which asks first ([`boxed`], `try_reserve`). Once the reserve has been used, the poller
//! ends the session ([`is_short`]).

use core::alloc::{GlobalAlloc, Layout};
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicUsize, Ordering};
use std::alloc::System;

#[cfg(not(test))]
#[global_allocator]
static HEAP: Heap<System> = Heap::new(System);

/// Whether malloc(3) has refused an allocation of ours.
#[cfg(not(test))]
pub fn is_short() -> bool {
    HEAP.was_used()
}

/// A test's process has its own allocator.
#[cfg(test)]
pub fn is_short() -> bool {
    false
}

/// Makes a slice of `count` values, or `None` if there is no memory for it.
pub fn boxed<T>(count: usize, mut value: impl FnMut() -> T) -> Option<Box<[T]>> {
    let mut values = Vec::new();
    values.try_reserve_exact(count).ok()?;
    values.extend((0..count).map(|_| value()));
    Some(values.into_boxed_slice())
}

/// The reserve's size. It is never touched, and so takes no memory, while malloc(3) answers.
const RESERVE: usize = 256 << 10;

/// The largest allocation that comes from the reserve. Larger ones are refused, so that code that can do without (by
/// `try_reserve`) leaves the reserve to those that cannot.
const LARGEST: usize = 64 << 10;

/// An allocator with a reserve.
struct Heap<A> {
    inner: A,
    reserve: Reserve,
    /// How many bytes of the reserve are taken. Relaxed: an exchange hands each byte to one thread, and what is in it is
    /// that thread's to publish.
    taken: AtomicUsize,
}

#[repr(C, align(64))]
struct Reserve(UnsafeCell<[u8; RESERVE]>);

// SAFETY: its bytes are accessed only by those to whom `taken` has handed them.
unsafe impl Sync for Reserve {}

impl<A> Heap<A> {
    const fn new(inner: A) -> Heap<A> {
        Heap { inner, reserve: Reserve(UnsafeCell::new([0; RESERVE])), taken: AtomicUsize::new(0) }
    }

    fn was_used(&self) -> bool {
        self.taken.load(Ordering::Relaxed) != 0
    }

    fn holds(&self, place: *mut u8) -> bool {
        (place as usize).wrapping_sub(self.reserve.0.get() as usize) < RESERVE
    }

    /// Takes bytes of the reserve; null when it has too few. They are never given back: a process that has come to this
    /// is about to have its session ended.
    fn take(&self, layout: Layout) -> *mut u8 {
        let start = self.reserve.0.get() as usize;
        let end = |taken: usize| {
            let place = (start + taken).next_multiple_of(layout.align());
            (place - start).checked_add(layout.size()).filter(|end| *end <= RESERVE)
        };
        if layout.size() > LARGEST {
            return core::ptr::null_mut();
        }
        match self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, end) {
            Ok(before) => {
                let offset = (start + before).next_multiple_of(layout.align()) - start;
                self.reserve.0.get().cast::<u8>().wrapping_add(offset)
            }
            Err(_) => core::ptr::null_mut(),
        }
    }
}

// SAFETY: memory is the inner allocator's, or bytes of the reserve that nobody else has.
unsafe impl<A: GlobalAlloc> GlobalAlloc for Heap<A> {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promises, passed on.
        let place = unsafe { self.inner.alloc(layout) };
        if place.is_null() { self.take(layout) } else { place }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promises, passed on.
        let place = unsafe { self.inner.alloc_zeroed(layout) };
        // The reserve is zero, and each byte of it is handed out once.
        if place.is_null() { self.take(layout) } else { place }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        if !self.holds(place) {
            // SAFETY: the caller's promises; it is the inner allocator's.
            unsafe { self.inner.dealloc(place, layout) };
        }
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if !self.holds(place) {
            // SAFETY: the caller's promises; it is the inner allocator's.
            let grown = unsafe { self.inner.realloc(place, layout, size) };
            if !grown.is_null() {
                return grown;
            }
        }
        // SAFETY: the caller promises that the size is not zero, and that it is below what a layout can have.
        let new = unsafe { Layout::from_size_align_unchecked(size, layout.align()) };
        // SAFETY: a layout with a size above zero.
        let grown = unsafe { self.alloc(new) };
        if !grown.is_null() {
            // SAFETY: both hold as many bytes, and are different allocations; the old one is ours to give back.
            unsafe {
                core::ptr::copy_nonoverlapping(place, grown, size.min(layout.size()));
                self.dealloc(place, layout);
            }
        }
        grown
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::sync::atomic::AtomicBool;

    /// An allocator that can be told to refuse.
    struct Moody(AtomicBool);

    // SAFETY: the system's, or null.
    unsafe impl GlobalAlloc for Moody {
        unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
            if self.0.load(Ordering::Relaxed) {
                return core::ptr::null_mut();
            }
            // SAFETY: the caller's promises, passed on.
            unsafe { System.alloc(layout) }
        }

        unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
            // SAFETY: the caller's promises, passed on.
            unsafe { System.dealloc(place, layout) };
        }
    }

    fn filled(place: *mut u8, layout: Layout, with: u8) {
        // SAFETY: an allocation of that layout.
        unsafe { core::slice::from_raw_parts_mut(place, layout.size()).fill(with) };
    }

    #[test]
    fn what_malloc_refuses_comes_from_the_reserve_until_that_is_empty() {
        let heap = Box::new(Heap::new(Moody(AtomicBool::new(false))));
        let layout = Layout::from_size_align(1000, 64).unwrap();
        // SAFETY: sizes above zero; every place is used within its layout, and given back with it.
        unsafe {
            let first = heap.alloc(layout);
            filled(first, layout, 7);
            assert!(!heap.was_used() && !heap.holds(first));
            heap.inner.0.store(true, Ordering::Relaxed);
            // What grows keeps its contents, also when malloc(3) refuses to grow it.
            let larger = Layout::from_size_align(3000, 64).unwrap();
            let grown = heap.realloc(first, layout, 3000);
            assert!(heap.was_used() && heap.holds(grown) && (grown as usize).is_multiple_of(64));
            assert!(core::slice::from_raw_parts(grown, 1000).iter().all(|byte| *byte == 7));
            heap.dealloc(grown, larger);
            assert!(heap.alloc(Layout::from_size_align(LARGEST + 1, 8).unwrap()).is_null());
            let places: Vec<*mut u8> = core::iter::repeat_with(|| heap.alloc_zeroed(layout))
                .take_while(|place| !place.is_null())
                .collect();
            assert!(places.len() > RESERVE / 1024 - 10, "{}", places.len());
            for (number, place) in places.iter().enumerate() {
                assert!(core::slice::from_raw_parts(*place, 1000).iter().all(|byte| *byte == 0), "{number}");
                filled(*place, layout, number as u8);
            }
            // With malloc(3) answering again, so does the heap.
            heap.inner.0.store(false, Ordering::Relaxed);
            let after = heap.alloc(layout);
            assert!(!after.is_null() && !heap.holds(after));
            heap.dealloc(after, layout);
        }
    }

    #[test]
    fn threads_get_different_bytes_of_the_reserve() {
        let heap = Heap::new(Moody(AtomicBool::new(true)));
        let layout = Layout::from_size_align(48, 16).unwrap();
        let taken = std::thread::scope(|threads| {
            let threads: Vec<_> = (0..4)
                .map(|_| {
                    threads.spawn(|| {
                        // SAFETY: a size above zero.
                        let places = core::iter::repeat_with(|| unsafe { heap.alloc(layout) } as usize);
                        places.take_while(|place| *place != 0).collect::<Vec<_>>()
                    })
                })
                .collect();
            let mut all: Vec<usize> = threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
            all.sort_unstable();
            all
        });
        assert!(taken.windows(2).all(|pair| pair[1] - pair[0] >= 48));
        assert!(taken.len() > RESERVE / 48 - 4, "{}", taken.len());
    }
}
