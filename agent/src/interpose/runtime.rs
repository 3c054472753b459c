//! Which libcudart a call by symbol goes on to.
//!
//! Several can be loaded, in scopes of their own, and each caller has its own. As the loader would have bound it without
//! us: a definition of another preload's (or any that lies in no libcudart and follows ours in search order) is everyone's;
//! else the runtime that the caller's object was linked against; else what the caller's own scope has.
//!
//! dlopen, dlsym and dladdr take the lock that is held while a library's constructors run. A thread that such a
//! constructor starts and waits for must not need it: all functions of a runtime are found at the first call into it, and
//! a new caller is told its runtime by a walk over the loader's list, which does not take that lock.

use crate::hook::{ABSENT, Hook, Hooks, Layer, Route, Table};
use crate::interpose::Next;
use crate::loader::libraries::{self, Object, Runtimes};
use crate::loader::{in_library, next_definition};
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// A library that runtime calls have gone on to. It is never unloaded: what it was is remembered for good.
struct Runtime {
    /// Its load bias; 0 = a free place. Relaxed: the functions have their own publication.
    base: AtomicU64,
    /// By hook; 0 = not asked yet, [`ABSENT`] = it has none. Relaxed: code, immutable once loaded.
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

    /// Its function, if it has been asked for and is there.
    #[inline]
    fn function(&self, hook: &Hook) -> Option<usize> {
        let address = self.slot(hook)?.load(Ordering::Relaxed);
        (address != 0 && address != ABSENT).then_some(address)
    }

    /// Finds all functions.
    fn learn(&self, object: &Object) {
        let Some(handle) = libraries::pinned(object.path.as_c_str()) else { return };
        for hook in Table::all().iter().filter(|hook| hook.layer == Layer::Runtime) {
            if let Some(slot) = self.slot(hook) {
                slot.store(in_library(handle, hook.symbol).unwrap_or(ABSENT), Ordering::Relaxed);
            }
        }
    }
}

/// Which runtime the calls from a page of code go on to: a page belongs to one object, and objects have fewer pages of
/// calls than call sites. A place holds the page's number
/// and the runtime's in one word, so relaxed is enough; 0 = free.
static PAGES: [AtomicU64; PLACES] = [const { AtomicU64::new(0) }; PLACES];
const PLACES: usize = 8192;
/// Places tried before a page goes without: its calls walk.
const PROBES: usize = 32;
const PAGE_BITS: u32 = 12;
const RUNTIME_BITS: u32 = 3;
const _: () = assert!(RUNTIMES == 1 << RUNTIME_BITS && PLACES.is_power_of_two());

fn places(page: u64) -> impl Iterator<Item = &'static AtomicU64> {
    // Fibonacci hashing (Knuth, TAOCP vol. 3, 6.4).
    let start = (page.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (64 - PLACES.trailing_zeros())) as usize;
    (start..start + PROBES).filter_map(|place| PAGES.get(place % PLACES))
}

/// The runtime function that a call from `caller` goes on to, if a call from around there was made before.
#[inline]
pub fn known(caller: u64, hook: &Hook) -> Option<Next> {
    let page = caller >> PAGE_BITS;
    for place in places(page) {
        let word = place.load(Ordering::Relaxed);
        if word == 0 {
            return None;
        }
        if word >> RUNTIME_BITS == page {
            let runtime = KNOWN.get((word as usize) % RUNTIMES)?;
            return runtime.function(hook).map(|address| Next { address, labelled: true });
        }
    }
    None
}

fn remember(caller: u64, runtime: usize) {
    let word = ((caller >> PAGE_BITS) << RUNTIME_BITS) | runtime as u64;
    for place in places(caller >> PAGE_BITS) {
        match place.compare_exchange(0, word, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => return,
            Err(other) if other == word => return,
            Err(_) => {}
        }
    }
}

/// The runtime function that a call from `caller` goes on to.
pub fn find(caller: u64, hook: &'static Hook) -> Option<Next> {
    let holder = libraries::holder_of(caller);
    let needed = holder.as_ref().and_then(|(_, needed)| needed.as_ref());
    let runtimes = Runtimes::loaded(needed);
    let bound = match needed {
        Some(_) => runtimes.named,
        None => runtimes.first.filter(|_| runtimes.count == 1),
    };
    if let Some(next) = bound.and_then(|object| through(&object, caller, hook)) {
        return Some(next);
    }
    let next = next_definition(hook.symbol);
    if let Some(address) = next.filter(|address| libraries::runtime_at(*address).is_none()) {
        hook.lead_symbol(address);
        return Some(Next { address, labelled: true });
    }
    if let Some(next) = holder.as_ref().and_then(|(object, _)| in_scope_of(object, caller, hook)) {
        return Some(next);
    }
    if needed.is_some() {
        return None; // never another runtime than the one that it was linked against
    }
    // Several, and it cannot be told which is meant.
    let first = || libraries::pinned(runtimes.first?.path.as_c_str());
    let address = next.or_else(|| in_library(first()?, hook.symbol))?;
    Some(Next { address, labelled: false })
}

/// The way on through this runtime, which is the one of the caller's. Once it is known no lock of the loader's is taken.
fn through(object: &Object, caller: u64, hook: &'static Hook) -> Option<Next> {
    let index = KNOWN.iter().position(|runtime| {
        // Relaxed: a place is taken once, and kept.
        let taken = runtime.base.compare_exchange(0, object.base, Ordering::Relaxed, Ordering::Relaxed);
        taken.is_ok() || taken == Err(object.base)
    });
    let Some(index) = index else {
        let address = in_library(libraries::pinned(object.path.as_c_str())?, hook.symbol)?;
        return Some(Next { address, labelled: true });
    };
    let runtime = KNOWN.get(index)?;
    if runtime.slot(hook)?.load(Ordering::Relaxed) == 0 {
        lead_to_other_definitions();
        runtime.learn(object);
    }
    if let Some(address) = hook.next(Route::Symbol) {
        return Some(Next { address, labelled: true });
    }
    let address = runtime.function(hook)?;
    remember(caller, index);
    Some(Next { address, labelled: true })
}

/// Another preload's functions are called whichever runtime is meant: it knows, or it guesses, as it does without us.
fn lead_to_other_definitions() {
    for hook in Table::all().iter().filter(|hook| hook.layer == Layer::Runtime) {
        let next = next_definition(hook.symbol);
        if let Some(address) = next.filter(|address| libraries::runtime_at(*address).is_none()) {
            hook.lead_symbol(address);
        }
    }
}

/// What the caller's object finds in its own scope: a runtime under a name that tells nothing, for one.
fn in_scope_of(object: &Object, caller: u64, hook: &'static Hook) -> Option<Next> {
    let path = object.path.as_c_str();
    if path.is_empty() {
        return None; // the program's scope is the global one: `next_definition` has searched it
    }
    let address = libraries::with(path, |handle| in_library(handle, hook.symbol))?;
    let (provider, _) = libraries::holder_of(address as u64)?;
    let (ours, _) = libraries::holder_of(find as *const () as u64)?;
    if provider.base == ours.base {
        return None;
    }
    through(&provider, caller, hook)
}

#[cfg(test)]
mod tests {
    use super::{KNOWN, PAGE_BITS, known, remember};
    use crate::table::{Symbol, get};
    use core::sync::atomic::Ordering;

    #[test]
    fn a_program_of_many_call_sites_walks_once_for_each_page() {
        let hook = get(Symbol::cudaMalloc);
        KNOWN[7].slot(hook).unwrap().store(0x1234, Ordering::Relaxed);
        let pages = || (0..4000u64).map(|page| 0x5555_5555_0000 + (page << PAGE_BITS));
        assert!(pages().all(|page| known(page, hook).is_none()));
        pages().for_each(|page| remember(page + 0x10, 7));
        let found = |caller| known(caller, hook).map(|next| next.address);
        assert!(pages().all(|page| found(page + 0xff0) == Some(0x1234)), "also for other sites on the page");
        assert!(known(0x7777_7777_0000, hook).is_none());
    }
}
