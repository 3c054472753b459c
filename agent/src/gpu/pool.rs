//! Which events of a context are free, and who uses the others?
//!
//! Events are created when a context is first seen and, later, by the poller; a hook only takes events and
//! never creates one. A thread takes events from its own [`Magazine`], which it fills with [`BATCH`](crate::thread::BATCH) events
//! at a time, so that threads rarely contend for the pool. The last holder of an event gives it back to the
//! pool.

use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

use crate::cuda::*;
use crate::driver::Driver;
use crate::loader::sanitizers;
use crate::pages::Pages;
use crate::sys::{tenth_of_a_second, ticks};
use crate::thread::Magazine;

/// The largest number of events of a context: two for each operation that is timed and not read yet.
const MAX_EVENTS: usize = 1 << 14;
/// The number of events that are created when a context is first seen, in the app's call: as many as six streams have that are as
/// deep as streams get before their launches are timed in runs. Each costs 0.6 µs on an H200 (docs/hardware.md).
const FIRST: usize = 1024;
/// The number of events that the poller creates in a pass while fewer than [`ENOUGH`] are free.
const MORE: usize = 256;
/// The number of free events up to which the poller creates more. It can be 4 ms late on a busy machine: in that time a thread makes
/// 800 launches with two events each.
const ENOUGH: u32 = 2048;
/// The number of free events below which hooks wake the poller.
const LOW: u32 = 512;

/// A context's events: a fixed table with a free list over it. The free list is a Treiber stack of indices;
/// the tag in the upper half of its head changes with every operation, so that an exchange with a stale head
/// fails.
///
/// An event has one holder for each use that needs its last record: the operation or burst that it starts,
/// the one that it ends, a stream whose newest event it is, and a time base that has it as an anchor. It is
/// free again when the last holder has given it back.
pub struct Pool {
    places: Pages<Place>,
    /// Tag << 32 | index + 1 of the first free event; a lower half of 0 = none. AcqRel: hands an event from
    /// thread to thread.
    free: AtomicU64,
    /// The approximate length of the free list. Relaxed: a hint to create more.
    free_count: AtomicU32,
    /// The number of existing events. Relaxed: written by the thread that first saw the context, and then
    /// only by the poller.
    made: AtomicU32,
    /// The ticks at which the driver refused to create an event, so that the existing ones have to suffice for a second; 0 = it
    /// has created the last one. Relaxed: a hint.
    refused: AtomicU64,
}

/// The place of an event. Valid when zero: there is no event, and it is not free.
struct Place {
    /// The CUevent. Stored with Release and loaded with Acquire: the thread that creates an event is rarely the one that
    /// uses it.
    event: AtomicPtr<void>,
    /// The number of its holders; 0 = it is free, or in a magazine. AcqRel: the thread that frees it has seen the other
    /// holders' last use.
    holders: AtomicU32,
    /// The free list: index + 1 of the next free event. Relaxed: the exchange of the list's head publishes it.
    next: AtomicU32,
}

impl Pool {
    /// Creates a pool without events. `None`: there is no memory for it.
    pub fn new() -> Option<Pool> {
        // SAFETY: a place consists of atomic numbers and may be zero.
        let places = unsafe { Pages::<Place>::new(MAX_EVENTS) }?;
        sanitizers::is_no_leak(places.place(), places.bytes());
        Some(Pool {
            places,
            free: AtomicU64::new(0),
            free_count: AtomicU32::new(0),
            made: AtomicU32::new(0),
            refused: AtomicU64::new(0),
        })
    }

    /// Creates the first events, in the current context, which must be the pool's.
    pub fn fill(&self, driver: &Driver) {
        self.make(driver, FIRST, || false);
    }

    /// Creates up to `count` events in the current context, as far as the table has room, until `is_enough`.
    fn make(&self, driver: &Driver, count: usize, is_enough: impl Fn() -> bool) {
        let Some(create) = driver.event_create else { return };
        self.refused.store(0, Ordering::Relaxed);
        for _ in 0..count {
            if is_enough() {
                return;
            }
            let index = self.made.load(Ordering::Relaxed);
            let Some(place) = self.places.get(index as usize) else { return };
            let mut event: CUevent = core::ptr::null_mut();
            // SAFETY: the context is current; flags 0 = CU_EVENT_DEFAULT, with timing; the call writes to a
            // local variable.
            if unsafe { create(&mut event, 0) } != CUDA_SUCCESS {
                self.refused.store(ticks().max(1), Ordering::Relaxed);
                return;
            }
            place.event.store(event, Ordering::Release);
            self.made.store(index + 1, Ordering::Relaxed);
            self.free(index);
        }
    }

    /// Creates more events, until `is_enough`. Called by the poller, with the context current. While another thread loads
    /// a module, the driver lets each of them wait for that (docs/hardware.md, `load_lock`).
    pub fn replenish(&self, driver: &Driver, is_enough: impl Fn() -> bool) {
        self.make(driver, MORE, is_enough);
    }

    /// Whether the poller should create more events.
    pub fn is_short(&self) -> bool {
        self.has_fewer_than(ENOUGH)
    }

    /// Whether the poller should run at once, to give events back and create more.
    #[inline]
    pub fn is_low(&self) -> bool {
        self.has_fewer_than(LOW)
    }

    /// Whether fewer events are free, and more can be created.
    #[inline]
    fn has_fewer_than(&self, free: u32) -> bool {
        self.free_count.load(Ordering::Relaxed) < free
            && (self.made.load(Ordering::Relaxed) as usize) < MAX_EVENTS
            && !self.was_just_refused()
    }

    /// Whether the driver has refused to create an event within the last second. The clock is read only where events are few and
    /// the last one was refused.
    fn was_just_refused(&self) -> bool {
        match self.refused.load(Ordering::Relaxed) {
            0 => false,
            refused => ticks().wrapping_sub(refused) < 10 * tenth_of_a_second(),
        }
    }

    /// Takes a free event; the caller is its only holder.
    #[inline]
    pub fn take(&self) -> Option<u32> {
        let mut one = [0];
        let [index] = if self.pop(&mut one) == 1 { one } else { return None };
        self.hold(index);
        Some(index)
    }

    /// Takes as many free events as there are and fit, and returns their number.
    fn pop(&self, into: &mut [u32]) -> usize {
        let mut head = self.free.load(Ordering::Acquire);
        loop {
            let (mut count, mut first) = (0, head as u32);
            // A stale head can lead to any entries of the table; the exchange below fails then.
            for place in into.iter_mut() {
                let Some(free) = first.checked_sub(1).and_then(|index| self.places.get(index as usize))
                else {
                    break;
                };
                *place = first - 1;
                first = free.next.load(Ordering::Relaxed);
                count += 1;
            }
            if count == 0 {
                return 0;
            }
            let new = ((head >> 32).wrapping_add(1) << 32) | u64::from(first);
            match self.free.compare_exchange_weak(head, new, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => {
                    self.free_count.fetch_sub(count as u32, Ordering::Relaxed);
                    return count;
                }
                Err(now) => head = now,
            }
        }
    }

    /// Adds a holder to an event that the caller holds, or has just taken.
    #[inline]
    pub fn hold(&self, index: u32) {
        if let Some(place) = self.places.get(index as usize) {
            place.holders.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Gives an event back; it is free when it has no other holder.
    #[inline]
    pub fn give(&self, index: u32) {
        let place = self.places.get(index as usize);
        if place.is_some_and(|place| place.holders.fetch_sub(1, Ordering::AcqRel) == 1) {
            self.free(index);
        }
    }

    fn free(&self, index: u32) {
        let Some(place) = self.places.get(index as usize) else { return };
        let mut head = self.free.load(Ordering::Acquire);
        loop {
            place.next.store(head as u32, Ordering::Relaxed);
            let new = ((head >> 32).wrapping_add(1) << 32) | u64::from(index + 1);
            match self.free.compare_exchange_weak(head, new, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => {
                    self.free_count.fetch_add(1, Ordering::Relaxed);
                    return;
                }
                Err(now) => head = now,
            }
        }
    }

    /// Returns the CUevent of an index. `None`: the context is gone, and the event with it.
    #[inline]
    pub fn event(&self, index: u32) -> Option<CUevent> {
        let event = self.places.get(index as usize)?.event.load(Ordering::Acquire);
        (!event.is_null()).then_some(event)
    }

    /// Takes note that the context is gone, and its events with it: there is none to take any more, and their places take no
    /// memory. Who still holds one may give it back, and finds none in its place.
    pub fn close(&self) {
        self.free.fetch_and(!u64::from(u32::MAX), Ordering::AcqRel);
        self.places.give_back();
    }
}

impl Magazine {
    /// Takes an event of a context's pool; the caller is its only holder. If the magazine has events of
    /// another context, they go back to that context's pool, which `others` finds by its number.
    #[inline]
    pub fn take(
        &mut self,
        context: u32,
        pool: &Pool,
        others: impl FnOnce(u32) -> Option<&'static Pool>,
    ) -> Option<u32> {
        if self.context != context {
            self.empty(others);
            self.context = context;
        }
        if self.count == 0 {
            self.count = pool.pop(&mut self.events);
        }
        self.count = self.count.checked_sub(1)?;
        let index = self.events.get(self.count).copied()?;
        pool.hold(index);
        Some(index)
    }

    /// Gives all events of the magazine back.
    pub fn empty(&mut self, pool: impl FnOnce(u32) -> Option<&'static Pool>) {
        let events = self.events.get(..self.count).unwrap_or_default();
        if let Some(pool) = if events.is_empty() { None } else { pool(self.context) } {
            events.iter().for_each(|&index| pool.free(index));
        }
        self.count = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::ffi::c_uint;
    use std::collections::BTreeSet;

    /// Creates a pool of `events` indices, without CUDA events.
    fn pool(events: u32) -> &'static Pool {
        let pool = Box::leak(Box::new(Pool::new().unwrap()));
        pool.made.store(events, Ordering::Relaxed);
        (0..events).for_each(|index| pool.free(index));
        pool
    }

    #[test]
    fn an_event_is_free_again_when_its_last_holder_gives_it_back() {
        let pool = pool(1);
        let event = pool.take().unwrap();
        pool.hold(event);
        pool.give(event);
        assert_eq!(pool.take(), None, "it still has a holder");
        pool.give(event);
        assert_eq!(pool.take(), Some(event));
    }

    unsafe extern "C-unwind" fn refuse(_: *mut CUevent, _: c_uint) -> CUresult {
        ERROR_INVALID_VALUE
    }

    unsafe extern "C-unwind" fn create(event: *mut CUevent, _: c_uint) -> CUresult {
        // SAFETY: a place of the caller's.
        unsafe { *event = 0x40 as CUevent };
        CUDA_SUCCESS
    }

    /// One refusal ended the creation of events for the rest of the context's life.
    #[test]
    fn events_are_created_again_a_second_after_a_refusal() {
        let pool = pool(0);
        let mut driver = Driver::without_functions();
        assert!(pool.is_low() && pool.is_short());
        driver.event_create = Some(refuse);
        pool.fill(&driver);
        assert!(!pool.is_low() && !pool.is_short() && pool.take().is_none());
        pool.refused.fetch_sub(11 * tenth_of_a_second(), Ordering::Relaxed);
        assert!(pool.is_low() && pool.is_short());
        driver.event_create = Some(create);
        pool.replenish(&driver, || false);
        assert!(pool.take().is_some());
        assert!(pool.is_low(), "the driver refuses no more, and the poller may go on");
    }

    #[test]
    fn a_magazine_takes_every_event_and_gives_unused_ones_back() {
        let (first, second) = (pool(20), pool(3));
        let others = |number| Some(if number == 1 { first } else { second });
        let mut magazine = Magazine::EMPTY;
        let taken: BTreeSet<u32> = std::iter::from_fn(|| magazine.take(1, first, |_| None)).take(5).collect();
        assert_eq!(taken.len(), 5);
        assert_eq!(std::iter::from_fn(|| magazine.take(2, second, others)).count(), 3);
        assert_eq!(std::iter::from_fn(|| first.take()).count(), 15, "the rest of the batch came back");
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no madvise(2)")]
    fn a_closed_pool_has_no_events_and_takes_what_comes_back() {
        let pool = pool(100);
        let mut magazine = Magazine::EMPTY;
        let mut held: Vec<u32> = std::iter::from_fn(|| magazine.take(1, pool, |_| None)).take(3).collect();
        held.extend(pool.take());
        pool.close();
        assert_eq!((pool.take(), held.len()), (None, 4));
        assert!(held.iter().all(|&event| pool.event(event).is_none()));
        held.into_iter().for_each(|event| pool.give(event));
        magazine.empty(|_| Some(pool));
        let left = std::iter::from_fn(|| pool.take()).take(1000).collect::<BTreeSet<_>>();
        assert!(left.len() < 100, "the free list has no loop: {left:?}");
    }

    #[test]
    fn threads_never_hold_the_same_event() {
        let pool = pool(200);
        let round = || {
            let mut magazine = Magazine::EMPTY;
            for _ in 0..20_000 {
                let Some(event) = magazine.take(1, pool, |_| None) else { continue };
                let holders = pool.places[event as usize].holders.load(Ordering::Relaxed);
                assert_eq!(holders, 1, "event {event} has another holder");
                pool.give(event);
            }
            magazine.empty(|_| Some(pool));
        };
        std::thread::scope(|scope| (0..4).for_each(|_| drop(scope.spawn(round))));
        let free: BTreeSet<u32> = std::iter::from_fn(|| pool.take()).collect();
        assert_eq!(free.len(), 200, "no event is lost or duplicated");
    }
}
