//! A context's events: who holds which, and where the free ones are.
//!
//! Events are created when a context is first seen and, later, by the poller; a hook only takes and never makes one. A
//! thread takes from a [`Magazine`] of its own, which it fills with a handful at a time, so that threads meet at the
//! pool once in so many launches; whoever is an event's last holder gives it back to the pool.

use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};

use crate::cuda::*;
use crate::driver::Driver;
use crate::thread::Magazine;

/// Events of a context at most: two for each operation that is timed and not read yet.
const MAX_EVENTS: usize = 1 << 14;
/// Events made when a context is first seen, and by the poller when fewer than [`LOW`] are free. The poller can be 4 ms
/// late on a busy machine: 800 launches a thread, two events each.
const FIRST: usize = 4096;
const MORE: usize = 2048;
const LOW: u32 = 2048;

/// A context's events: a fixed table and a free list over it (a Treiber stack of indices; the tag in the head's upper
/// half changes at every operation, so that a stale head is never exchanged).
///
/// An event has as many holders as need it to stay as it was recorded: the operation or the burst that it begins, the one
/// that it ends, a stream whose newest entry it is, a chain whose anchor it is. It is free again when the last one has given it back.
pub struct Pool {
    /// CUevents by index. Release on the store, acquire on the load by way of the free list.
    events: Box<[AtomicPtr<void>]>,
    /// Holders of each event; 0 = it is free, or in a magazine. AcqRel: who frees it has seen the others' last use.
    holders: Box<[AtomicU32]>,
    /// The free list: index + 1 of the next free event.
    next: Box<[AtomicU32]>,
    /// Tag << 32 | index + 1 of the first free event; index 0 = none. AcqRel: hands an event from thread to thread.
    free: AtomicU64,
    /// How many are in the free list, about. Relaxed: a hint to make more.
    free_count: AtomicU32,
    /// How many exist. Written by the adopting thread, then by the poller. Relaxed.
    made: AtomicU32,
    /// The driver has refused to make one: those that exist have to do. Relaxed: a hint.
    refused: AtomicBool,
}

impl Pool {
    /// A pool without events.
    pub fn new() -> Pool {
        Pool {
            events: (0..MAX_EVENTS).map(|_| AtomicPtr::new(core::ptr::null_mut())).collect(),
            holders: (0..MAX_EVENTS).map(|_| AtomicU32::new(0)).collect(),
            next: (0..MAX_EVENTS).map(|_| AtomicU32::new(0)).collect(),
            free: AtomicU64::new(0),
            free_count: AtomicU32::new(0),
            made: AtomicU32::new(0),
            refused: AtomicBool::new(false),
        }
    }

    /// Creates the first events, in the current context, which is the pool's.
    pub fn fill(&self, driver: &Driver) {
        self.make(driver, FIRST);
    }

    /// Creates events in the current context, as many as the table still holds.
    fn make(&self, driver: &Driver, count: usize) {
        let Some(create) = driver.event_create else { return };
        for _ in 0..count {
            let index = self.made.load(Ordering::Relaxed);
            let Some(place) = self.events.get(index as usize) else { return };
            let mut event: CUevent = core::ptr::null_mut();
            // SAFETY: the context is current; flags 0 = CU_EVENT_DEFAULT, with timing; writes a place of ours.
            if unsafe { create(&mut event, 0) } != CUDA_SUCCESS {
                self.refused.store(true, Ordering::Relaxed);
                return;
            }
            place.store(event, Ordering::Release);
            self.made.store(index + 1, Ordering::Relaxed);
            self.free(index);
        }
    }

    /// Poller, with the context current: makes more when few are left.
    pub fn replenish(&self, driver: &Driver) {
        if self.free_count.load(Ordering::Relaxed) < LOW {
            self.make(driver, MORE);
        }
    }

    /// Whether the poller should come, to give events back and make more.
    #[inline]
    pub fn is_low(&self) -> bool {
        self.free_count.load(Ordering::Relaxed) < LOW
            && (self.made.load(Ordering::Relaxed) as usize) < MAX_EVENTS
            && !self.refused.load(Ordering::Relaxed)
    }

    /// Takes a free event; the caller is its one holder.
    #[inline]
    pub fn take(&self) -> Option<u32> {
        let mut one = [0];
        let [index] = if self.pop(&mut one) == 1 { one } else { return None };
        self.hold(index);
        Some(index)
    }

    /// Takes as many free events as there are and fit, and says how many.
    fn pop(&self, into: &mut [u32]) -> usize {
        let mut head = self.free.load(Ordering::Acquire);
        loop {
            let (mut count, mut first) = (0, head as u32);
            // A stale chain leads anywhere, but not out of the table; the exchange below refuses it.
            for place in into.iter_mut() {
                let Some(next) = first.checked_sub(1).and_then(|index| self.next.get(index as usize)) else {
                    break;
                };
                *place = first - 1;
                first = next.load(Ordering::Relaxed);
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

    /// One more holder of an event that the caller holds, or has just taken.
    #[inline]
    pub fn hold(&self, index: u32) {
        if let Some(holders) = self.holders.get(index as usize) {
            holders.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Gives an event back: it is free when nobody else holds it.
    #[inline]
    pub fn give(&self, index: u32) {
        let last = self.holders.get(index as usize).is_some_and(|h| h.fetch_sub(1, Ordering::AcqRel) == 1);
        if last {
            self.free(index);
        }
    }

    fn free(&self, index: u32) {
        let Some(next) = self.next.get(index as usize) else { return };
        let mut head = self.free.load(Ordering::Acquire);
        loop {
            next.store(head as u32, Ordering::Relaxed);
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

    /// The CUevent of an index.
    #[inline]
    pub fn event(&self, index: u32) -> CUevent {
        self.events.get(index as usize).map_or(core::ptr::null_mut(), |e| e.load(Ordering::Acquire))
    }
}

impl Magazine {
    /// Takes an event of a context's pool; the caller is its one holder. What is left of another context's goes back to
    /// `others`, by its number.
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

    /// Gives everything back.
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
    use std::collections::BTreeSet;

    /// A pool of so many events that are only indices.
    fn pool(events: u32) -> &'static Pool {
        let pool = Box::leak(Box::new(Pool::new()));
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
        assert_eq!(pool.take(), None, "somebody holds it");
        pool.give(event);
        assert_eq!(pool.take(), Some(event));
    }

    #[test]
    fn a_magazine_takes_all_there_is_and_gives_back_what_it_kept() {
        let (first, second) = (pool(20), pool(3));
        let others = |number| Some(if number == 1 { first } else { second });
        let mut magazine = Magazine::EMPTY;
        let taken: BTreeSet<u32> = std::iter::from_fn(|| magazine.take(1, first, |_| None)).take(5).collect();
        assert_eq!(taken.len(), 5);
        assert_eq!(std::iter::from_fn(|| magazine.take(2, second, others)).count(), 3);
        assert_eq!(std::iter::from_fn(|| first.take()).count(), 15, "the rest of the handful came back");
    }

    #[test]
    fn threads_never_hold_the_same_event() {
        let pool = pool(200);
        let round = || {
            let mut magazine = Magazine::EMPTY;
            for _ in 0..20_000 {
                let Some(event) = magazine.take(1, pool, |_| None) else { continue };
                let holders = pool.holders[event as usize].load(Ordering::Relaxed);
                assert_eq!(holders, 1, "event {event}");
                pool.give(event);
            }
            magazine.empty(|_| Some(pool));
        };
        std::thread::scope(|scope| (0..4).for_each(|_| drop(scope.spawn(round))));
        let free: BTreeSet<u32> = std::iter::from_fn(|| pool.take()).collect();
        assert_eq!(free.len(), 200, "none is lost, none is twice there");
    }
}
