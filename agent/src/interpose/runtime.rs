//! Which libcudart does a call by symbol continue to?
//!
//! Several can be loaded in separate scopes, and each caller has its own. The choice is the one that the
//! loader would have made without us: a definition in another preloaded library (or in any other library than
//! a libcudart that follows ours in search order) serves all callers; otherwise it is the runtime that the
//! caller's object was linked against, or else the one that the caller's own scope has.
//!
//! dlopen, dlsym and dladdr take the lock that is held while a library's constructors run. A thread that such
//! a constructor starts and waits for must not need that lock: all functions of a runtime are found at the
//! first call into it, and a new caller's runtime is found by a walk over the loader's list, which does not
//! take that lock.

use crate::hook::{ABSENT, Hook, Hooks, Layer, Route, Table};
use crate::interpose::{Next, stays};
use crate::loader::libraries::{self, Runtimes};
use crate::loader::{in_library, next_definition};
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// A library that runtime calls have continued to. It is never unloaded, so what is known about it stays
/// valid.
struct Runtime {
    /// Its load bias; 0 = a free place. Relaxed: the functions have their own publication.
    base: AtomicU64,
    /// By hook; 0 = not looked up yet, [`ABSENT`] = the library does not have it. Relaxed: code, immutable
    /// once loaded.
    functions: [AtomicUsize; Table::COUNT],
}

const RUNTIMES: usize = 8;
static KNOWN: [Runtime; RUNTIMES] =
    [const { Runtime { base: AtomicU64::new(0), functions: [const { AtomicUsize::new(0) }; Table::COUNT] } };
        RUNTIMES];

impl Runtime {
    fn slot(&self, hook: &Hook) -> Option<&AtomicUsize> {
        self.functions.get(usize::from(hook.api).wrapping_sub(1))
    }

    /// Its function, if that has been looked up and exists.
    #[inline]
    fn function(&self, hook: &Hook) -> Option<usize> {
        let address = self.slot(hook)?.load(Ordering::Relaxed);
        (address != 0 && address != ABSENT).then_some(address)
    }

    /// Finds all functions.
    fn learn(&self, base: u64) {
        let Some(handle) = libraries::pinned_at(base) else { return };
        for hook in Table::all().iter().filter(|hook| hook.layer == Layer::Runtime) {
            if let Some(slot) = self.slot(hook) {
                slot.store(in_library(handle, hook.symbol).unwrap_or(ABSENT), Ordering::Relaxed);
            }
        }
    }
}

/// The runtime that the calls from a page of code continue to. A page belongs to one object, and objects have
/// fewer pages of calls than call sites. A place has the page's number and the runtime's in one word, so
/// relaxed is enough; 0 = free.
struct Pages([AtomicU64; PLACES]);
static PAGES: Pages = Pages::new();
/// The loader's count of objects ever unloaded when the pages were last forgotten. Relaxed: a page that is forgotten once more, or
/// in another thread's walk over the places, is looked up again.
static UNLOADED: AtomicU64 = AtomicU64::new(0);
const PLACES: usize = 8192;
/// The number of places tried before a page is not cached; its calls then walk the loader's list.
const PROBES: usize = 32;
const PAGE_BITS: u32 = 12;
const RUNTIME_BITS: u32 = 3;
const _: () = assert!(RUNTIMES == 1 << RUNTIME_BITS && PLACES.is_power_of_two());

impl Pages {
    const fn new() -> Pages {
        Pages([const { AtomicU64::new(0) }; PLACES])
    }

    #[inline]
    fn places(&self, page: u64) -> impl Iterator<Item = &AtomicU64> {
        // Fibonacci hashing (Knuth, TAOCP vol. 3, 6.4).
        let start = (page.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (64 - PLACES.trailing_zeros())) as usize;
        (start..start + PROBES).filter_map(|place| self.0.get(place % PLACES))
    }

    /// Returns the runtime of the page with this address.
    #[inline]
    fn runtime(&self, caller: u64) -> Option<usize> {
        let page = caller >> PAGE_BITS;
        for place in self.places(page) {
            let word = place.load(Ordering::Relaxed);
            if word == 0 {
                return None;
            }
            if word >> RUNTIME_BITS == page {
                return Some((word as usize) % RUNTIMES);
            }
        }
        None
    }

    fn remember(&self, caller: u64, runtime: usize) {
        let word = ((caller >> PAGE_BITS) << RUNTIME_BITS) | runtime as u64;
        for place in self.places(caller >> PAGE_BITS) {
            match place.compare_exchange(0, word, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return,
                Err(other) if other == word => return,
                Err(_) => {}
            }
        }
    }

    fn forget(&self) {
        self.0.iter().for_each(|place| place.store(0, Ordering::Relaxed));
    }
}

/// The runtime function that a call from `caller` continues to, if a call from the same page was made before.
#[inline]
pub fn known(caller: u64, hook: &Hook) -> Option<usize> {
    KNOWN.get(PAGES.runtime(caller)?)?.function(hook)
}

/// Forgets which pages call which runtime when the loader has unloaded objects since: another one may be mapped there next.
pub fn forget_unloaded(unloaded: u64) {
    if UNLOADED.load(Ordering::Relaxed) == unloaded {
        return;
    }
    UNLOADED.store(unloaded, Ordering::Relaxed);
    // Where no runtime was called, no page is known, and none of them is touched.
    if KNOWN.first().is_some_and(|first| first.base.load(Ordering::Relaxed) != 0) {
        PAGES.forget();
    }
}

/// The runtime function that a call from `caller` continues to.
pub fn find(caller: u64, hook: &'static Hook) -> Option<Next> {
    let needed = libraries::runtime_needed_at(caller);
    let runtimes = Runtimes::loaded(needed.as_ref());
    let bound = match needed {
        Some(_) => runtimes.named,
        None => runtimes.first.filter(|_| runtimes.count == 1),
    };
    if let Some(next) = bound.and_then(|base| through(base, caller, hook)) {
        return Some(next);
    }
    if let Some(address) = other_definition(hook) {
        lead(hook, address);
        return Some(Next { address, labelled: true });
    }
    if let Some(next) = in_scope_of(caller, hook) {
        return Some(next);
    }
    if needed.is_some() {
        return None; // never another runtime than the one that the object was linked against
    }
    // There are several runtimes, and it is unclear which is meant.
    let first = || libraries::pinned_at(runtimes.first?);
    let next = next_definition(hook.symbol).filter(|found| libraries::is_code(*found));
    let address = next.or_else(|| in_library(first()?, hook.symbol))?;
    Some(Next { address, labelled: false })
}

/// Returns the function in the runtime with this load bias, which is the caller's. Once the runtime is known, no loader lock is
/// taken.
fn through(base: u64, caller: u64, hook: &'static Hook) -> Option<Next> {
    let index = KNOWN.iter().position(|runtime| {
        // Relaxed: a place is taken once, and kept.
        let taken = runtime.base.compare_exchange(0, base, Ordering::Relaxed, Ordering::Relaxed);
        taken.is_ok() || taken == Err(base)
    });
    let Some(index) = index else {
        let address = in_library(libraries::pinned_at(base)?, hook.symbol)?;
        return Some(Next { address, labelled: true });
    };
    let runtime = KNOWN.get(index)?;
    if runtime.slot(hook)?.load(Ordering::Relaxed) == 0 {
        lead_to_other_definitions();
        runtime.learn(base);
    }
    if let Some(address) = hook.next(Route::Symbol) {
        return Some(Next { address, labelled: true });
    }
    let address = runtime.function(hook)?;
    PAGES.remember(caller, index);
    Some(Next { address, labelled: true })
}

/// Another preloaded library's functions are called whichever runtime is meant: that library knows or
/// guesses, as it does without us.
fn lead_to_other_definitions() {
    for hook in Table::all().iter().filter(|hook| hook.layer == Layer::Runtime) {
        if let Some(address) = other_definition(hook) {
            lead(hook, address);
        }
    }
}

/// Has all calls of a function continue to another library's, if that library stays loaded.
fn lead(hook: &Hook, address: usize) {
    if stays(address) {
        hook.lead_symbol(address);
    }
}

/// The function that follows ours in search order, if it is not a libcudart's. (A variable of that name is none.)
fn other_definition(hook: &Hook) -> Option<usize> {
    let is_other = |found: &usize| libraries::runtime_at(*found).is_none() && libraries::is_code(*found);
    next_definition(hook.symbol).filter(is_other)
}

/// The function that the caller's object finds in its own scope: for example in a runtime under an
/// unrecognizable name.
fn in_scope_of(caller: u64, hook: &'static Hook) -> Option<Next> {
    // The program's own scope is the global one, which `next_definition` has searched.
    let address = libraries::in_scopes_of(caller, hook.symbol)?;
    if libraries::is_ours(address) {
        return None;
    }
    through(libraries::base_of(address as u64)?, caller, hook)
}

#[cfg(test)]
mod tests {
    use super::{PAGE_BITS, Pages};

    #[test]
    fn a_page_with_many_call_sites_is_looked_up_once() {
        static PAGES: Pages = Pages::new();
        let pages = || (0..4000u64).map(|page| 0x5555_5555_0000 + (page << PAGE_BITS));
        assert!(pages().all(|page| PAGES.runtime(page).is_none()));
        pages().for_each(|page| PAGES.remember(page + 0x10, 7));
        let is_found = |caller| PAGES.runtime(caller) == Some(7);
        assert!(pages().all(|page| is_found(page + 0xff0)), "also for other sites on the page");
        assert!(PAGES.runtime(0x7fff_0000_0000).is_none(), "another page");
    }

    /// A library that was mapped where another one had been called the other one's runtime.
    #[test]
    fn a_page_of_a_library_that_was_unloaded_is_forgotten() {
        static PAGES: Pages = Pages::new();
        PAGES.remember(0x5555_5555_0010, 2);
        PAGES.forget();
        assert_eq!(PAGES.runtime(0x5555_5555_0010), None);
        PAGES.remember(0x5555_5555_0010, 3);
        assert_eq!(PAGES.runtime(0x5555_5555_0ff0), Some(3));
    }
}
